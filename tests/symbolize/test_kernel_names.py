"""Names of the kernel's functions, by a made-up /proc/kallsyms; and what of them is shown."""

from __future__ import annotations

import os
import random
from bisect import bisect_right
from pathlib import Path

import pytest

from weft.sample import FrameFlag, FrameKind, is_body
from weft.symbolize import kernel
from weft.symbolize.kernel import kernel_frame, kernel_functions, tells_names

KALLSYMS = """\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000040 t vfs_read
ffffffff81000100 T __x64_sys_read
ffffffff81000180 D a_datum
ffffffff81000200 T _etext
ffffffffc0200000 t ext4_file_read_iter\t[ext4]
ffffffffc0100080 t xfs_read\t[xfs]
ffffffffc0100080 t xfs_read_too\t[xfs]
ffffffffc0100000 t xfs_open\t[xfs]
"""
FUNCTIONS = {
    0: "[kernel]",
    0xFFFFFFFF80FFFFFF: "[kernel]",  # before all
    0xFFFFFFFF81000000: "_stext",  # of two names the first
    0xFFFFFFFF8100003F: "_stext",
    0xFFFFFFFF81000040: "vfs_read",
    0xFFFFFFFF810001FF: "__x64_sys_read",
    0xFFFFFFFF81000200: "[kernel]",  # behind the text
    0xFFFFFFFFC0100001: "xfs_open [xfs]",  # in any order
    0xFFFFFFFFC01000FF: "xfs_read [xfs]",
    0xFFFFFFFFC0200010: "ext4_file_read_iter [ext4]",
    0xFFFFFFFFFFFFFFFF: "[kernel]",  # too far from the last
}


@pytest.fixture
def kallsyms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kernel, "_KALLSYMS", tmp_path / "kallsyms")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "kallsyms"


def test_functions(kallsyms: Path) -> None:
    """GIVEN addresses in, between and behind functions THEN each has the function that holds it, or none."""
    kallsyms.write_text(KALLSYMS)
    assert kernel_functions(FUNCTIONS) == FUNCTIONS
    assert tells_names()


def test_kept_names(kallsyms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """THEN names of the kernel's own functions are kept until it is booted anew, and none that is damaged is believed;
    those of modules are asked for anew."""
    monkeypatch.setattr(kernel, "_BOOT", tmp_path / "boot")
    of_module = 0xFFFFFFFFC0100080
    texts = [KALLSYMS, KALLSYMS.replace("vfs_read", "vfs_reads").replace("xfs_read", "xfs_reads")]
    kept = tmp_path / "cache/weft/kernel/functions"

    def told() -> list[str]:
        return list(kernel_functions([0xFFFFFFFF81000040, of_module]).values())

    (tmp_path / "boot").write_text("a boot\n")
    kallsyms.write_text(texts[0])
    assert told() == ["vfs_read", "xfs_read [xfs]"]
    assert kept.stat().st_mode & 0o077 == 0  # where the kernel lies is no one else's business
    kallsyms.write_text(texts[1])
    assert told() == ["vfs_read", "xfs_reads [xfs]"]
    kept.write_bytes(kept.read_bytes()[:-100])
    assert told() == ["vfs_reads", "xfs_reads [xfs]"]
    kallsyms.write_text(texts[0])
    assert told() == ["vfs_reads", "xfs_read [xfs]"]
    (tmp_path / "boot").write_text("another boot\n")
    assert told() == ["vfs_read", "xfs_read [xfs]"]
    kallsyms.unlink()
    (tmp_path / "boot").unlink()
    assert told() == ["[kernel]"] * 2


@pytest.mark.skipif(os.geteuid() != 0, reason="the kernel tells root alone where its functions are")
def test_functions_of_this_kernel() -> None:
    """GIVEN addresses at, before and behind functions of this machine's kernel THEN each has the first name of the last
    one that begins there or before, as a look at all of them finds."""
    names: dict[int, str] = {}
    for line in Path("/proc/kallsyms").read_text().splitlines():
        begin, kind, name = line.split(" ", 2)
        if kind in "tTwW":
            names.setdefault(int(begin, 16), name.replace("\t", " "))
    begins = sorted(names)
    assert begins[-1] > 0
    chance = random.Random(1)
    wanted = {}
    for at in chance.sample(range(1, len(begins) - 1), 2000):
        before, begin, after = begins[at - 1 : at + 2]
        wanted |= {begin: names[begin], begin - 1: names[before], chance.randrange(begin, after): names[begin]}
    near = {
        address: name
        for address, name in wanted.items()
        if address - begins[bisect_right(begins, address) - 1] < 1 << 20
    }
    told = kernel_functions(near)
    assert {address: name for address, name in told.items() if name != near[address]} == dict.fromkeys(
        [address for address, name in near.items() if name == "_etext"], "[kernel]"
    )


@pytest.mark.parametrize("text", [None, "", "not what it should be\n\n", "zeros"])
def test_hidden_names(kallsyms: Path, text: str | None) -> None:
    """GIVEN a kernel that shows all addresses as 0, or no file, or another one THEN functions have no names, and their
    frames are shown as one."""
    if text is not None:
        hidden = "".join(f"{0:016x}{line[16:]}\n" for line in KALLSYMS.splitlines())
        kallsyms.write_text(hidden if text == "zeros" else text)
    assert not tells_names()
    assert set(kernel_functions(FUNCTIONS).values()) == {"[kernel]"}
    frame = kernel_frame("[kernel]")
    assert is_body(frame, frame)


def test_frames() -> None:
    """Frames name the module; how the kernel is entered is machinery, and what a fault or an interrupt does is not."""
    frame = kernel_frame("ext4_file_read_iter [ext4]")
    assert (frame.kind, frame.function, frame.module) == (FrameKind.KERNEL, "ext4_file_read_iter", "[ext4]")
    assert kernel_frame("vfs_read").module == "[kernel]"
    assert not is_body(kernel_frame("vfs_read"), kernel_frame("vfs_read"))
    for name in [
        "entry_SYSCALL_64_after_hwframe",
        "do_syscall_64",
        "x64_sys_call",
        "asm_exc_page_fault",
        "ret_from_fork_asm",
    ]:
        assert FrameFlag.MACHINERY in kernel_frame(name).flags
    for name in [
        "ksys_read",
        "__x64_sys_read",
        "exc_page_fault",
        "sysvec_apic_timer_interrupt",
        "vfs_read",
        "do_futex",
    ]:
        assert FrameFlag.MACHINERY not in kernel_frame(name).flags
