"""The vocabulary of a recording: thread states, losses and the honest account.

The C++ side (native/sampler/batch.h) has the same values; tests hold the two together.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import NamedTuple


class State(IntEnum):
    """What a thread was doing when its sample was taken."""

    RUNNING = 0  # on a CPU, or (collectors but bpf) ready and waiting for one
    GIL = 1  # waiting for the GIL
    BLOCKED = 2  # waiting for anything that has no state of its own here: a child, a signal, a debugger
    RUNNABLE = 3  # ready, and waiting for a CPU (collector bpf)
    IO = 4  # waiting for files, sockets, pipes, pages
    SLEEPING = 5  # until a time
    LOCK = 6  # waiting for a lock, or a condition


class FrameKind(IntEnum):
    """What kind of code a frame runs."""

    PYTHON = 0
    NATIVE = 1  # C, C++, Rust
    CYTHON = 3
    KERNEL = 4
    MARKER = 2  # none: it stands for frames that are missing here, and says why


class FrameFlag(IntFlag):
    """What is special about a frame."""

    INCOMPLETE = 1  # pushed, not started yet: shown at its first line
    MACHINERY = 2  # of how the interpreter calls and evaluates
    # Of a native frame that runs the eval loop: how it was decided that it runs the Python frames that it calls.
    PROVEN = 4
    COUNTED = 8
    OPEN = 16
    FRAME_POINTER = 64  # of native code that nothing tells how to unwind: its caller was found by what is on its stack
    WRAPPER = 32  # of a Cython function whose body may have a frame of its own, which is then shown in its place


KERNEL = "[kernel]"  # the kernel's own module; and the one function of a kernel that keeps the names of its functions

NO_FLAGS = FrameFlag(0)
PROOFS = (NO_FLAGS, FrameFlag.PROVEN, FrameFlag.COUNTED, FrameFlag.OPEN)  # by Proof of native/weave/weave.h


_PROOFS_BY_FRAME_POINTER = tuple(proof | FrameFlag.FRAME_POINTER for proof in PROOFS)


def native_flags(proof: int, *, by_frame_pointer: bool) -> FrameFlag:
    """Return what _native tells of a native frame, as flags."""
    return (_PROOFS_BY_FRAME_POINTER if by_frame_pointer else PROOFS)[proof]


SEAM = FrameFlag.PROVEN | FrameFlag.COUNTED | FrameFlag.OPEN
HIDDEN = FrameFlag.MACHINERY | SEAM  # unless all frames are asked for


class Frame(NamedTuple):
    """One frame, symbolized. Lines and columns count from 1; 0 means that there is none.

    `file` is the source, or for native code whose source is not known, and for the kernel, the module.
    """

    kind: FrameKind
    function: str
    file: str
    line: int
    first_line: int = 0
    end_line: int = 0
    column: int = 0
    end_column: int = 0
    flags: FrameFlag = NO_FLAGS
    module: str = (
        ""  # the path of the file that native code lies in; the kernel's are "[kernel]" and names like "[ext4]"
    )


def marker(loss: str, *, native: bool) -> Frame:
    """Return what stands in a stack for frames that are missing; `loss`: a name of _native.LOSSES."""
    words = "native frames missing" if native else "truncated"
    return Frame(FrameKind.MARKER, f"[{words}: {loss}]", "", 0)


def is_body(frame: Frame, caller: Frame) -> bool:
    """Whether a frame is the body of the Cython function whose wrapper has called it.

    Or both are of the kernel, which does not tell its functions.
    """
    if frame.kind is FrameKind.KERNEL:
        return frame == caller and frame.function == KERNEL
    return (
        frame.kind is caller.kind is FrameKind.CYTHON
        and FrameFlag.WRAPPER in caller.flags
        and FrameFlag.WRAPPER not in frame.flags
        and frame.function == caller.function
    )
