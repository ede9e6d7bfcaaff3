"""Which functions are the interpreter's own machinery: how it calls and evaluates, of which people want to see nothing.

What it does for the program stays: sorting, dicts and lists, garbage collection, imports, memory, waiting for the GIL.
"""

from __future__ import annotations

import re

# By the names of CPython 2.7 to 3.15, in Objects/ and Python/.
_EVALUATES = (
    r"_?PyEval_(?!ReleaseThread|AcquireThread|SaveThread|RestoreThread).*|_TAIL_CALL_.*|fast_function|call_function"
    r"|do_call(_core)?|ext_do_call|trace_call_function|_?PyFunction_.*|function_(call|code_fastcall)|eval_frame"
    r"|_?PyGen_Send.*|gen_(send_ex2?|send|iternext|close|throw|_throw)|_gen_(throw|send).*|coro_(wrapper_)?\w+"
    r"|async_gen_\w+|_PyJIT\w*|_?PyFrame_\w+|jit_.*"
)
_CALLS = (
    r"_?PyObject_(_?Call(?!Finalizer)|FastCall|Vectorcall|MakeTpCall)\w*|_?PyVectorcall_\w*|_?PyStack_\w+|object_vacall"
    r"|_?PyCFunction_\w+|cfunction_\w*(call|vectorcall)\w*|_?PyMethodDef_\w+|method_(call|vectorcall)\w*"
    r"|_?PyMethod_\w+|vectorcall_\w+|call_(method|unbound)\w*|instancemethod_call|type_call|instance_call"
    r"|(_Py_)?slot_\w+|lookup_(maybe_)?method\w*|wrap(per)?_?\w*_?(call|descr_call)?|wrapperdescr_(call|raw_call)"
    r"|_?PyObject_(GenericGetAttr|GetMethod|GetAttr)\w*|property_descr_get|PyIter_Next"
    r"|builtin___build_class__|descr_\w+|tp_new_wrapper|_?PyEntryFrame\w*|callmethod|call_\w+"
)
_STARTS = (
    r"_?Py_?(Run|Main)_?\w*|Py_(Main|BytesMain|RunMain)|pymain_\w+|pyrun_\w+|run_(mod|eval_code_obj|pyc_file|file)\w*"
    r"|_?PyRun_\w+|main|_start|t_bootstrap|thread_run|pythread_wrapper|builtin_exec|builtin_eval|exec_code_in_module"
)
# By what types and modules define, in stripped builds (methods.py).
_DEFINED = (
    r"\w+\.tp_(call|descr_get)|(generator|coroutine|async_generator)\w*\.(a?send|a?throw|a?close|tp_iternext)"
    r"|__build_class__|__new__|eval|exec"
)
_MACHINERY = re.compile("|".join((_EVALUATES, _CALLS, _STARTS, _DEFINED)))
# How the C library begins a program and a thread.
_BEGINS = re.compile(r"_start|__libc_start_(main|call_main)\w*|start_thread|clone3?|__clone3?|_dl_relocate_static_pie")


def is_machinery(function: str, *, interpreter: bool) -> bool:
    """Whether a native function is of that kind; `interpreter`: it is the interpreter's own code."""
    return (_MACHINERY if interpreter else _BEGINS).fullmatch(function.partition("@")[0]) is not None
