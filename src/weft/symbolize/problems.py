"""What could not be read of modules, as lines for people."""

from __future__ import annotations

from collections.abc import Iterable

from weft.target.code import CodeModule

_MAX_LINES = 8
_MAX_TEXT = 150  # characters of a path, and of what is said of it


def warnings_of(modules: Iterable[CodeModule]) -> list[str]:
    """Return a line for each problem of these modules, the last one for all that are too many; not escaped."""
    lines = [f"{_cut(module.path)}: {_cut(problem)}" for module in modules for problem in module.problems]
    left = len(lines) - _MAX_LINES
    return lines if left <= 0 else [*lines[:_MAX_LINES], f"and {left} more such problems"]


def _cut(text: str) -> str:
    """The text without its middle, if it is too long."""
    half = _MAX_TEXT // 2
    return text if len(text) <= _MAX_TEXT else f"{text[:half]}...{text[-half:]}"
