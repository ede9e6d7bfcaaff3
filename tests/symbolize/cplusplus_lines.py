"""Libraries of lines.cpp, whose every call stands on a line that says what it is, by the compilers of the system."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import NoReturn

from lines import line_of
from running import TARGETS

from weft.sample import Frame
from weft.symbolize.resolver import Resolver
from weft.target.code import CodeModule
from weft.target.elf import ElfFile

SOURCE = TARGETS / "lines.cpp"
COMPILERS = ("g++", "clang++")
# Functions begin where the one before ends, and calls of one file's functions need no table.
FLAGS = ["-std=c++17", "-O2", "-shared", "-fPIC", "-falign-functions=1", "-fvisibility=hidden"]

Place = tuple[str, str, int]  # function, file, line

LAMBDA = "loom::Weaver<long>::weave(long)::'lambda'(long)"
FUNCTIONS = {  # innermost first; by what the comments call them
    "never_returns": "loom::never_returns(void (*)())",
    "ends_with_its_call": "loom::ends_with_its_call(void (*)())",
    "catches": "loom::catches(void (*)())",
    "lambda": f"{LAMBDA}::operator()(long) const",
    "twice": f"long loom::Weaver<long>::twice<2, {LAMBDA}>(long, {LAMBDA})",
    "each": f"long loom::Weaver<long>::each<{LAMBDA}>(long, {LAMBDA})",
    "weave": "loom::Weaver<long>::weave(long)",
    "is_cold": "loom::is_cold(void (*)())",
    "splits": "(anonymous namespace)::splits(void (*)(), int)",
    "takes_apart": "(anonymous namespace)::takes_apart((anonymous namespace)::Pair const&)",
    "specialised": "(anonymous namespace)::specialised(void (*)(), int)",
    "partly": "(anonymous namespace)::partly(void (*)(), int)",
    "partly in entry": "partly",  # of an inlined function of its own file gcc tells no more
    "entry": "entry",
}


def places(compiler: str) -> list[Place]:
    """What is on the stack, innermost first."""
    inlined_in_part = compiler == "g++"
    return [
        (name, SOURCE.name, line_of(function, SOURCE))
        for function, name in FUNCTIONS.items()
        if inlined_in_part or function != "partly in entry"
    ]


def compile_library(folder: Path, compiler: str, *options: str) -> Path:
    """A shared library of lines.cpp."""
    library = folder / "liblines.so"
    subprocess.run([compiler, *FLAGS, *options, SOURCE, "-o", library], check=True, cwd=folder)
    return library


def need(compiler: str, lack: Callable[[str], NoReturn]) -> None:
    if shutil.which(compiler) is None:
        lack(f"there is no {compiler}")


def place_of(frame: Frame) -> Place:
    return frame.function, Path(frame.file).name, frame.line


def calls(library: Path) -> dict[str, int]:
    """Where the first call of each function in the library would return to, as objdump tells; it needs symbols."""
    command = ["objdump", "--disassemble", "--demangle", "--no-show-raw-insn", library]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, int] = {}
    for call in re.finditer(r"^ +([0-9a-f]+):\s+call +[0-9a-f]+ <(.+?)(?: \[clone .*)?>$", told, re.MULTILINE):
        found.setdefault(call[2], int(call[1], 16) + 5)  # an opcode and a distance of 4 bytes
    return found


def chains(library: Path, compiler: str) -> dict[int, list[Place]]:
    """The functions at each of these return addresses that lead down the stack, innermost first."""
    on_stack = places(compiler)
    known = calls(library)
    called = [index for index, place in enumerate(on_stack) if place[0] in known]
    ends = [index + 1 for index in called[1:]] + [len(on_stack)]
    return {known[on_stack[begin][0]]: on_stack[begin + 1 : end] for begin, end in zip(called, ends, strict=True)}


def told(library: Path, return_addresses: Iterable[int]) -> tuple[dict[int, list[Place]], list[str]]:
    """The functions at return addresses of a library that no process has loaded, innermost first; and the problems."""
    with ElfFile(str(library)) as file:
        module = CodeModule(1, str(library), None, file=file)
        with closing(Resolver(module)) as resolver:
            found = {address: [*map(place_of, reversed(resolver.at(address - 1)))] for address in return_addresses}
        return found, module.problems
