"""What rich has laid out, as bytes for a terminal or a file."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import RenderableType

FILE_WIDTH: Final = 100  # characters


def printed(parts: Callable[[int], Iterable[RenderableType]], *, terminal: bool) -> bytes:
    """The parts, which get the width in characters; in colours and as wide as the terminal if they go to one."""
    from rich.console import Console

    out = io.StringIO()
    width = shutil.get_terminal_size((FILE_WIDTH, 24)).columns if terminal else FILE_WIDTH
    console = Console(
        file=out,
        width=width,
        force_terminal=terminal,
        force_jupyter=False,  # it would show it in the notebook, and write nothing
        highlight=False,
        markup=False,
        emoji=False,
    )
    for part in parts(width):
        console.print(part)
    text = out.getvalue()
    return (text if terminal else "".join(line.rstrip() + "\n" for line in text.splitlines())).encode()
