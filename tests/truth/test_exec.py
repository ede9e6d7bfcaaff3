"""A process that becomes another program at the same addresses, again and again: no stack mixes the two."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest
from running import Target, target_env
from weft_command import run_weft
from zig import MUSL, compile_with_zig

from weft import Capture, Profile
from weft.profile.tables import View
from weft.sample import FrameKind

# Alone: it needs its part of a CPU, and weft its own.
pytestmark = [
    pytest.mark.serial,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can load BPF programs"),
]

DEPTH = 6
# Of two builds the frames have other sizes, and functions lie elsewhere. Each runs for 30 ms of its CPU time.
SOURCE = """
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#define PASTE(a, b) a##b
#define NAME(a, b) PASTE(a, b)
static volatile long sink;
static int is_over(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    static long end;
    const long ns = now.tv_sec * 1000000000L + now.tv_nsec;
    if (!end) end = ns + 30000000;
    return ns >= end;
}
__attribute__((noinline)) void NAME(leaf_, PROGRAM)(void) {
    volatile char room[FRAME / 2];
    for (int i = 0; i < 20000; i++) room[i % (FRAME / 2)] += 1, sink++;
}
__attribute__((noinline)) void NAME(mid_, PROGRAM)(int depth) {
    volatile char room[FRAME];
    room[depth] = 1;
    if (depth > 1) NAME(mid_, PROGRAM)(depth - 1);
    else NAME(leaf_, PROGRAM)();
    room[depth] = 2;
}
__attribute__((noinline)) void NAME(top_, PROGRAM)(void) {
    volatile char room[2 * FRAME];
    while (!is_over()) room[0] = 1, NAME(mid_, PROGRAM)(DEPTH), room[0] = 2;
}
int main(int count, char** words) {
    if (count == 2) { puts("{}"); fflush(stdout); }
    NAME(top_, PROGRAM)();
    return execv(words[1], (char*[]){words[1], words[0], "again", 0});
}
"""


@pytest.mark.parametrize("how", ["-p", "-a"])
def test_no_stack_mixes_two_programs(how: str, tmp_path: Path) -> None:
    """GIVEN an exec each 30 ms, between programs that are mapped at the same addresses, WHEN the kernel learns of it
    some 10 ms later THEN each stack is one of the program that ran, whole, or says that it is not."""
    (tmp_path / "program.c").write_text(SOURCE)
    programs = [
        compile_with_zig(
            tmp_path / name, "-O1", "-g", "-static", "-no-pie", "-fomit-frame-pointer", f"-DPROGRAM={name}",
            f"-DFRAME={frame}", f"-DDEPTH={DEPTH}", "program.c", target=MUSL,
        )
        for name, frame in (("a", 64), ("b", 240))
    ]  # fmt: skip
    path = tmp_path / "x.weft"
    target = Target([str(each) for each in programs], target_env())
    try:
        which = ["-s", "-p", target.pid] if how == "-p" else ["-a"]
        run = run_weft("record", *which, "--collector", "bpf", "-r", 1000, "-d", 4, "-f", "weft", "-o", path)
    finally:
        target.end()
    assert run.returncode == 0, run.stderr
    with Capture(path) as capture:
        profile = Profile.from_capture(capture, View(all_frames=True))
    seen = Counter[str]()
    for total in profile.totals:
        frames = [profile.frames[frame] for frame in profile.stacks.path(total.stack)]
        names = [frame.function for frame in frames if re.fullmatch(r"(top|mid|leaf)_[ab]", frame.function)]
        is_marked = any(frame.kind is FrameKind.MARKER and "native" in frame.function for frame in frames)
        letters = {name[-1] for name in names}
        assert len(letters) < 2, names
        if names and names[-1].startswith("leaf") and not is_marked:
            assert [name[:-2] for name in names] == ["top", *["mid"] * DEPTH, "leaf"], names
            seen[letters.pop()] += total.ticks
    assert min(seen["a"], seen["b"]) > 300, (seen, run_weft("report", path).stdout)
