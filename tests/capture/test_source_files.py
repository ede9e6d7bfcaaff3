"""Sources are taken along: what the target may read, as text, bounded, whatever it names and however it ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from capture.builder import META, START_NS

from weft.capture import MAX_SOURCE_BYTES, Capture, CaptureWriter, Source
from weft.collect.sources import SourceBook
from weft.errors import NotACaptureError

LATER = 1 << 62  # ns since 1970: no file was changed after it


def read(*files: str, pid: int | None = None, start_unix_ns: int = LATER) -> dict[str, Source]:
    book = SourceBook(start_unix_ns)
    for file in files:
        book.name(file, 1, os.getpid() if pid is None else pid)
    sources = {source.file: source for source in book.read()}
    book.close()
    return sources


def test_text_in_its_own_encoding(tmp_path: Path) -> None:
    (tmp_path / "utf8.py").write_text("x = 'é'\r\n", "utf-8")
    (tmp_path / "latin.py").write_bytes("# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1"))
    (tmp_path / "lib.c").write_text("int main() {}\n", "utf-8")
    sources = read(*(str(tmp_path / name) for name in ("utf8.py", "latin.py", "lib.c")))
    assert [source.text for source in sources.values()] == [
        "x = 'é'\n", "# -*- coding: latin-1 -*-\nx = 'é'\n", "int main() {}\n",
    ]  # fmt: skip
    assert {source.problem for source in sources.values()} == {""}


def test_what_is_no_source_says_why(tmp_path: Path) -> None:
    """GIVEN names of a pipe, a folder, a device, a binary, a huge file THEN none hangs, and each has its reason."""
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "binary.py").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "bytes.py").write_bytes(b"x = '\xe9'\n")
    (tmp_path / "huge.py").write_bytes(b"#" * (MAX_SOURCE_BYTES + 1))
    reasons = {
        "pipe.py": "is no regular file",
        "binary.py": "is no text",
        "bytes.py": "is no text",
        "huge.py": "is larger than 1 MiB",
        "gone.py": "cannot be opened: No such file or directory",
        ".": "is no regular file",
        "a\0b.py": "cannot be opened: its name holds a zero byte",
    }
    sources = read(*(f"{tmp_path}/{name}" for name in reasons), "/dev/zero", "/proc/self/mem")
    assert [sources[f"{tmp_path}/{name}"].problem for name in reasons] == list(reasons.values())
    assert sources["/dev/zero"].problem == "is no regular file"
    assert {source.text for source in sources.values()} == {None}


def test_names_that_are_no_files_are_not_looked_for() -> None:
    assert read("<string>", "<frozen importlib._bootstrap>", "") == {}


def test_no_link_leads_out_of_the_folder(tmp_path: Path) -> None:
    """GIVEN relative names with links and dots that lead out of where the target works THEN nothing is found there."""
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "secret.py").write_text("secret", "utf-8")
    (work / "inside.py").write_text("inside", "utf-8")
    (work / "up.py").symlink_to("../secret.py")
    (work / "absolute.py").symlink_to(tmp_path / "secret.py")
    (work / "magic.py").symlink_to("/proc/self/cwd/secret.py")
    names = ["inside.py", "up.py", "absolute.py", "magic.py", "../secret.py"]
    target = subprocess.Popen([sys.executable, "-c", "input()"], cwd=work, stdin=subprocess.PIPE)
    try:
        sources = read(*names, pid=target.pid)
    finally:
        target.communicate(b"\n")
    assert [sources[name].text for name in names] == ["inside", None, None, None, None]


def test_native_code_names_absolute_files_only(tmp_path: Path) -> None:
    """A compiler's relative name is not looked for where the target works: another file may lie there."""
    (tmp_path / "main.c").write_text("int main;", "utf-8")
    target = subprocess.Popen([sys.executable, "-c", "input()"], cwd=tmp_path, stdin=subprocess.PIPE)
    try:
        book = SourceBook(LATER)
        book.name("<string>", 1, target.pid)
        for file in ("main.c", str(tmp_path / "main.c")):
            book.name(file, None)
        told = [(source.text, source.problem) for source in book.read()]
        book.close()
    finally:
        target.communicate(b"\n")
    assert told == [(None, "its name is relative to where it was compiled"), ("int main;", "")]


def test_the_target_may_have_ended(tmp_path: Path) -> None:
    """Its folders are kept open from when it was first seen."""
    (tmp_path / "a.py").write_text("a", "utf-8")
    target = subprocess.Popen([sys.executable, "-c", "input()"], cwd=tmp_path, stdin=subprocess.PIPE)
    book = SourceBook(LATER)
    book.name("a.py", 1, target.pid)
    target.communicate(b"\n")
    book.name("b.py", 2, target.pid)
    assert [(source.text, source.problem) for source in book.read()] == [
        ("a", ""), (None, "its process had ended before its folders could be seen"),
    ]  # fmt: skip
    book.close()


def test_what_the_target_may_not_read_is_not_read_for_it(tmp_path: Path, lack: Callable[[str], NoReturn]) -> None:
    """GIVEN a program of nobody's that names a file of root's WHEN root records it THEN the file is not taken along."""
    if os.geteuid() != 0:
        lack("not root: no target of another user")
    for name, mode in (("mine.py", 0o600), ("public.py", 0o644)):
        (tmp_path / name).write_text(name, "utf-8")
        (tmp_path / name).chmod(mode)
    target = subprocess.Popen(["/bin/sleep", "60"], user=65534, group=65534, extra_groups=[], cwd="/")
    try:
        while Path(f"/proc/{target.pid}/comm").read_text("utf-8") != "sleep\n":
            time.sleep(0.01)
        sources = read(str(tmp_path / "mine.py"), str(tmp_path / "public.py"), pid=target.pid)
    finally:
        target.kill()
        target.wait()
    assert sources[str(tmp_path / "mine.py")].problem == "the program itself may not read it"
    assert sources[str(tmp_path / "public.py")].text == "public.py"


def test_a_file_that_was_changed_meanwhile_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a", "utf-8")
    (source,) = read(str(tmp_path / "a.py"), start_unix_ns=1).values()
    assert (source.text, source.problem) == ("a", "it was changed after the recording began")


def test_sources_come_back_from_a_capture(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "x.weft", META) as writer:
        writer.add_source("/srv/a.py", "x = 'é'\n" * 1000)
        writer.add_source("/srv/b.py", None, "is no text")
        writer.add_source("/srv/\udc80.py", "\udc80", "odd")
        writer.commit(START_NS)
    with Capture(tmp_path / "x.weft") as capture:
        assert list(capture.sources()) == [
            Source("/srv/\\udc80.py", "\\udc80", "odd"),
            Source("/srv/a.py", "x = 'é'\n" * 1000, ""),
            Source("/srv/b.py", None, "is no text"),
        ]


@pytest.mark.parametrize("blob", ["x'00'", "x'789c'", "zeroblob(2000000)"])
def test_a_damaged_source_is_told(tmp_path: Path, blob: str) -> None:
    import sqlite3

    with CaptureWriter(tmp_path / "x.weft", META) as writer:
        writer.add_source("/srv/a.py", "text")
        writer.commit(START_NS)
    database = sqlite3.connect(tmp_path / "x.weft")
    database.execute(f"UPDATE source SET text = {blob}")
    database.commit()
    database.close()
    with Capture(tmp_path / "x.weft") as capture, pytest.raises(NotACaptureError, match="the source of /srv/a"):
        list(capture.sources())
