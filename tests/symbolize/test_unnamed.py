"""Names for code that has no symbols, against binutils."""

from __future__ import annotations

import json
import os
import re
import subprocess
from contextlib import closing
from pathlib import Path

from interpreters import Interpreter, all_interpreters
from running import StartTarget
from weft_command import run_weft

from weft.symbolize.methods import methods
from weft.symbolize.resolver import Resolver
from weft.symbolize.unnamed import stubs
from weft.target.code import CodeModule
from weft.target.elf import ElfFile


def program_of(interpreter: Interpreter) -> Path:
    """The file of an interpreter that its code is in: a shared libpython, if it has one."""
    ask = "import sysconfig; v = sysconfig.get_config_var; print(v('LIBDIR') + '/' + v('INSTSONAME'))"
    told = subprocess.run([*interpreter.command, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
    library = Path(interpreter.chroot or "/", told.lstrip("/"))
    return library if ".so" in library.name and library.exists() else interpreter.executable


def printed(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"LC_ALL": "C"}).stdout


def test_stubs(interpreter: Interpreter) -> None:
    """GIVEN the linker's stubs of an interpreter THEN each has the name that objdump gives it, and none lacks."""
    path = program_of(interpreter)
    listing = printed("objdump", "-d", "-j", ".plt", "-j", ".plt.sec", "-j", ".plt.got", path)
    expected = {
        (int(address, 16), name)
        for address, name in re.findall(r"^([0-9a-f]+) <([^>]+)@plt>:$", listing, re.MULTILINE)
        if not re.search(r"[+*]", name)
    }
    with ElfFile(str(path)) as file:
        found = {(address, file.name_at(place).decode()) for address, _, place in stubs(file)}
    assert len(expected) > 50
    assert found == expected


def test_stripped_functions() -> None:
    """GIVEN Debian's stripped interpreter THEN an unnamed function has one name from its first byte to its last."""
    path = next(one.executable for one in all_interpreters() if one.stripped and one.chroot is None)
    frames = printed("readelf", "--debug-dump=frames", path)
    ranges = [
        (int(begin, 16), int(end, 16)) for begin, end in re.findall(r"FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)", frames)
    ]
    with ElfFile(str(path)) as file, closing(Resolver(CodeModule(1, str(path), None, file))) as resolver:
        names = {
            begin: {resolver.at(at)[0].function for at in (begin, (begin + end) // 2, end - 1)} for begin, end in ranges
        }
        linkage = file.section(".plt")
    assert linkage is not None
    del names[linkage.address]  # whose stubs have names
    unnamed = {begin: found for begin, found in names.items() if any(name.startswith("fun_") for name in found)}
    assert len(unnamed) > 1000
    assert unnamed == {begin: {f"fun_{begin:x}"} for begin in unnamed}


def test_methods(interpreter: Interpreter) -> None:
    """GIVEN an interpreter with symbols THEN functions have names from its tables that their symbols bear out.

    Some do not: dict.__getitem__ is dict_subscript, and int.tp_repr is long_to_decimal_string.
    """
    with ElfFile(str(program_of(interpreter))) as file:
        found = methods(file)
        symbols = {address: name for address, size, name in file.functions() if size}
        stripped = file.section(".symtab") is None
    assert len(found) > 800
    assert {b"list.sort", b"sorted", b"dict.tp_repr"} <= set(found.values()) or interpreter.free_threaded
    named = {address: name for address, name in found.items() if address in symbols}
    alike = [
        address
        for address, name in named.items()
        if name.split(b".")[-1].removeprefix(b"tp_").strip(b"_").lower() in symbols[address].lower()
    ]
    assert stripped or len(named) > 0.9 * len(found)
    assert stripped or len(alike) > 0.95 * len(named)


SORTS = """
import json, os
def key(value):
    print(json.dumps({"pid": os.getpid()}), flush=True)
    os.read(0, 1)
[1].sort(key=key)
"""


def test_stripped_method(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a stripped interpreter in list.sort THEN that stands between its caller and the key function."""
    interpreter = next(one for one in all_interpreters() if one.stripped and one.chroot is None)
    (tmp_path / "sorts.py").write_text(SORTS)
    target = start_target(interpreter, tmp_path / "sorts.py")
    (thread,) = json.loads(run_weft("dump", "--json", target.pid).stdout)["threads"]
    names = [frame["function"] for frame in thread["frames"] if not (frame.get("machinery") or frame.get("seam"))]
    callers = names[names.index("key") + 1 : names.index("<module>")]
    assert "list.sort" in callers
    assert all(name == "list.sort" or name.startswith("fun_") for name in callers)
