"""Debug information in a file of its own, wherever the target has it, and symbols of what is no file."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from interpreters import Interpreter
from lines import ALL_LINES, SOURCE, compile_library, frames_of, lines_of, newest, separate
from running import StartTarget
from weft_command import LIMIT_S, running_weft, wait_until

from weft.symbolize.resolver import Resolver
from weft.target.code import CodeBook
from weft.target.debugfiles import shared_file
from weft.target.elf import ElfFile
from weft.target.process import Process

PLACE = "/usr/lib/debug"


def build_id_place(library: Path) -> str:
    """Where the debug file of a library lies by its build-id, as readelf tells that."""
    notes = subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True).stdout
    build_id = notes.partition("Build ID: ")[2].split()[0]
    return f"{PLACE}/.build-id/{build_id[:2]}/{build_id[2:]}.debug"


def in_own_mounts(interpreter: Interpreter, debug: Path, place: str) -> Interpreter:
    """The interpreter in a mount namespace in which a debug file is at its place, and nowhere else."""
    script = 'mount -t tmpfs none "$1" && mkdir -p "${3%/*}" && cp "$2" "$3" && shift 3 && exec "$@"'
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", PLACE], capture_output=True, check=False).returncode:
        pytest.skip(f"no namespaces can be made here, or there is no {PLACE}")
    return replace(
        interpreter, command=[*unshare, "sh", "-ec", script, "sh", PLACE, str(debug), place, *interpreter.command]
    )


@pytest.fixture
def only_inside(tmp_path: Path) -> tuple[Path, Interpreter]:
    """A stripped library, and an interpreter in whose root, and in no other, its debug file is."""
    library = compile_library(tmp_path, "-g", "-Wl,--build-id=sha1")
    place = build_id_place(library)
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    return library, in_own_mounts(newest(), separate(library, hidden), place)


def test_in_the_targets_root(start_target: StartTarget, only_inside: tuple[Path, Interpreter]) -> None:
    """GIVEN a debug file that only the target's own mount namespace has THEN functions and lines are told."""
    library, inside = only_inside
    assert not Path(build_id_place(library)).exists()
    assert lines_of(start_target(inside, "lines.py", library).pid) == ALL_LINES


def test_of_a_process_that_has_ended(
    start_target: StartTarget, only_inside: tuple[Path, Interpreter], tmp_path: Path
) -> None:
    """GIVEN that, and a library that is deleted while it runs WHEN the target, and its namespace with it, has ended
    before names are looked up THEN functions and lines are told."""
    library, inside = only_inside
    target = start_target(inside, "lines.py", library)
    name = Path(build_id_place(library)).name
    library.unlink()
    capture = tmp_path / "run.weft"
    with running_weft("record", "-p", target.pid, "-o", capture) as weft:
        wait_until(lambda: has_open(weft.pid, name) or weft.poll() is not None, "weft has opened the debug file")
        wait_until(
            lambda: len(frames_of(capture, library)) >= 3 or weft.poll() is not None, "weft has sampled the library"
        )
        target.finish()
        weft.communicate(timeout=LIMIT_S)
    assert weft.returncode == 0
    assert set(frames_of(capture, library)) == set(ALL_LINES)


def test_replaced(start_target: StartTarget, tmp_path: Path) -> None:
    """GIVEN a library that is replaced while it runs, as upgrades do, by one with the same code on other lines THEN the
    lines are those of the one that runs."""
    library = compile_library(tmp_path, "-g")
    target = start_target(newest(), "lines.py", library)
    (tmp_path / "newer").mkdir()
    source = tmp_path / "newer" / "lines.c"
    source.write_text("\n" * 1000 + SOURCE.read_text())
    compile_library(source.parent, "-g", source=source).replace(library)
    assert lines_of(target.pid) == ALL_LINES
    later = start_target(newest(), "lines.py", library)
    assert lines_of(later.pid) == [(function, name, line + 1000) for function, name, line in ALL_LINES]


def has_open(pid: int, ending: str) -> bool:
    """Whether a process has a file open whose path ends so."""
    try:
        return any(str(file.readlink()).endswith(ending) for file in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False  # one was closed meanwhile


@pytest.mark.parametrize("belongs", [True, False])
def test_without_build_id(start_target: StartTarget, tmp_path: Path, *, belongs: bool) -> None:
    """GIVEN a library without a build-id WHEN the file that its .gnu_debuglink names has another checksum THEN that
    file is passed over."""
    library = compile_library(tmp_path, "-g", "-Wl,--build-id=none")
    debug = separate(library, tmp_path)
    if not belongs:
        debug.write_bytes(debug.read_bytes() + b"\n")
    told = lines_of(start_target(newest(), "lines.py", library).pid)
    assert (told == ALL_LINES) == belongs
    assert told


def test_shared_file(tmp_path: Path) -> None:
    """GIVEN a debug file that says where dwz has put what it shares, by a path from its own folder or from the root
    THEN that file is found there, and one of another build-id is passed over."""
    library = compile_library(tmp_path, "-g", "-Wl,--build-id=sha1")
    shared = tmp_path / ".dwz" / "shared"
    shared.parent.mkdir()
    shared.write_bytes(library.read_bytes())
    build_id = bytes.fromhex(
        build_id_place(library).removesuffix(".debug").rpartition(".build-id/")[2].replace("/", "")
    )
    content, linking = tmp_path / "link", tmp_path / "linking.debug"
    for path, told, is_found in (
        (".dwz/shared", build_id, True),
        (str(shared), build_id, True),
        (".dwz/shared", bytes(20), False),
        (".dwz/none", build_id, False),
    ):
        content.write_bytes(path.encode() + b"\0" + told)
        subprocess.run(["objcopy", "--add-section", f".gnu_debugaltlink={content}", library, linking], check=True)
        with ElfFile(str(linking)) as file, ExitStack() as opened:
            found = shared_file(Process(os.getpid()), file)
            assert (found is not None) == is_found
            if found:
                assert Path(opened.enter_context(found).path).samefile(shared)


def test_vdso(start_target: StartTarget, tmp_path: Path) -> None:
    """The functions that the kernel maps into each process are told as readelf tells them of their bytes."""
    process = Process(start_target(newest(), "blocked.py").pid)
    book = CodeBook()
    book.map_of(process, within_s=60.0)
    module = next(module for module in book.modules.values() if module.path == "[vdso]")
    mapping = next(mapping for mapping in process.maps() if mapping.path == "[vdso]")
    image = tmp_path / "vdso"
    image.write_bytes(process.memory.read(mapping.start, mapping.end - mapping.start))
    command = ["readelf", "--dyn-syms", "--wide", image]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    functions: dict[int, set[str]] = {}
    for fields in (row.split() for row in rows):
        if "FUNC" in fields:
            functions.setdefault(int(fields[1], 16), set()).add(fields[-1].partition("@")[0])
    assert any("clock_gettime" in names for names in functions.values())
    resolver = Resolver(module)
    for address, names in functions.items():
        assert resolver.at(address)[0].function in names
    book.close()
