"""Files that a target names: pipes, devices, folders, links out of its root."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from weft.target.elf import ElfError, ElfFile
from weft.target.opening import NotAFileError, open_file

WAITS = "import os, sys; os.chroot(sys.argv[1]); print('ready', flush=True); sys.stdin.read()"


def text_of(path: object) -> str:
    """What is in a file, opened as weft opens those of targets."""
    with os.fdopen(open_file(str(path)), encoding="utf-8") as file:
        return file.read()


@contextmanager
def root_of_its_own(root: Path) -> Iterator[Path]:
    """/proc/PID/root of a process that has this folder for its root."""
    with subprocess.Popen([sys.executable, "-c", WAITS, root], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as target:
        assert target.stdin is not None
        assert target.stdout is not None
        assert target.stdout.readline() == b"ready\n"
        yield Path(f"/proc/{target.pid}/root")
        target.stdin.close()


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    """GIVEN a pipe in place of a library, and who waits for a reader of it THEN he waits on."""
    pipe = tmp_path / "lib.so"
    os.mkfifo(pipe)
    has_reader = threading.Event()

    def write() -> None:
        with pipe.open("wb"):
            has_reader.set()

    writer = threading.Thread(target=write)
    writer.start()
    with pytest.raises(NotAFileError, match="no regular file"):
        ElfFile(str(pipe))
    with pytest.raises(NotAFileError, match="no regular file"):
        ElfFile(f"/proc/self/root{pipe}")
    assert not has_reader.wait(0.3)
    with pipe.open("rb"):
        assert has_reader.wait(60)
    writer.join()


@pytest.mark.parametrize("name", ["/dev/null", "/proc/self/root/dev/zero", "/usr", "/proc/self/root/usr"])
def test_what_is_no_file(name: str) -> None:
    """GIVEN a device or a folder in place of a library THEN it is not opened, whatever it is."""
    with pytest.raises(NotAFileError, match="no regular file"):
        ElfFile(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change a root")
def test_no_link_leads_out_of_the_root(tmp_path: Path) -> None:
    """GIVEN a root with links to absolute paths, with dots, and through /proc THEN they lead to what the program would
    find there, and nowhere else."""
    root = tmp_path / "root"
    (root / "lib").mkdir(parents=True)
    (tmp_path / "secret").write_text("outside", "utf-8")
    (root / "secret").write_text("inside", "utf-8")
    (root / "lib/plain").write_text("plain", "utf-8")
    (root / "lib/absolute").symlink_to("/secret")
    (root / "lib/up").symlink_to("../../secret")
    (root / "lib/folder").symlink_to("/lib")
    (root / "lib/lost").symlink_to(tmp_path / "secret")
    (root / "lib/magic").symlink_to("/proc/self/cwd/secret")
    with root_of_its_own(root) as inside:
        assert text_of(inside / "lib/plain") == "plain"
        assert text_of(inside / "lib/folder/plain") == "plain"
        assert text_of(inside / "lib/absolute") == "inside"
        assert text_of(inside / "lib/up") == "inside"
        assert text_of(inside / "../../../secret") == "inside"
        for name in "lost", "magic":
            with pytest.raises(FileNotFoundError):
                open_file(str(inside / "lib" / name))
    with pytest.raises(OSError, match="No such"):
        open_file(str(inside / "lib/plain"))


def test_a_file_is_opened_whoever_mapped_it() -> None:
    """GIVEN the kernel's link to a program THEN it leads to it; and what is no ELF file is told so."""
    with ElfFile("/proc/self/exe") as file:
        assert file.section(".text")
    with pytest.raises(ElfError):
        ElfFile(__file__)
