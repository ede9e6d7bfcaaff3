"""Symbols of C++ and Rust as people write them."""

from __future__ import annotations

import re
from functools import lru_cache

from weft._native import demangle
from weft.symbolize import cplusplus, rust

_MAX_SYMBOL = 4096  # characters

# What gcc and LLVM add to the symbols of a function's parts and clones, which are the same function in the source.
_CLONE = re.compile(
    r"(?<=.)(?:\.(?:cold|localalias)(?:\.\d+)?|\.(?:part|isra|constprop|lto_priv|llvm|__uniq|specialized)\.\d+)+$"
)


@lru_cache(maxsize=1 << 14)
def readable(symbol: str) -> str:
    """Return a symbol as people write it; cut where it is too long to be looked into."""
    name = _CLONE.sub("", symbol[:_MAX_SYMBOL])
    if told := rust.demangle(name):
        return told
    if not name.startswith("_Z"):
        return name
    whole = demangle(name)
    return cplusplus.shorten(whole) if whole else name
