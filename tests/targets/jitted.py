"""Blocks in a read that code made by LLVM has called: `python jitted.py`, where llvmlite can be imported."""

import ctypes
import sys

import llvmlite.binding as llvm

# One frame is of a size that only its frame pointer tells, the other of a known one.
CODE = """
define i32 @inner(i32 ()* %call, i32 %words) noinline uwtable {
  %room = alloca i32, i32 %words
  store volatile i32 7, i32* %room
  %result = call i32 %call()
  %kept = load volatile i32, i32* %room
  %sum = add i32 %result, %kept
  ret i32 %sum
}
define i32 @outer(i32 ()* %call) noinline uwtable {
  %result = call i32 @inner(i32 ()* %call, i32 5)
  %sum = add i32 %result, 1
  ret i32 %sum
}
"""

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
machine = llvm.Target.from_default_triple().create_target_machine()
engine = llvm.create_mcjit_compiler(llvm.parse_assembly(CODE), machine)
engine.finalize_object()
CALL = ctypes.CFUNCTYPE(ctypes.c_int)


@CALL
def stop():
    print("{}")
    sys.stdout.flush()
    sys.stdin.read(1)
    return 0


ctypes.CFUNCTYPE(ctypes.c_int, CALL)(engine.get_function_address("outer"))(stop)
