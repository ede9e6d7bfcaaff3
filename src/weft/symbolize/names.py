"""Symbols of C++ and Rust as people write them."""

from __future__ import annotations

from functools import lru_cache

from weft._native import demangle
from weft.symbolize import cplusplus, rust

_MAX_SYMBOL = 4096  # characters
_MAX_NAME = 1 << 16  # characters of a demangled name; one that repeats itself can be endless


@lru_cache(maxsize=1 << 14)
def readable(symbol: str) -> str:
    """Return a symbol as people write it; cut where it is too long to be looked into."""
    name = symbol[:_MAX_SYMBOL]
    if told := rust.demangle(name):
        return told
    if not name.startswith("_Z"):
        return name
    whole = demangle(name)
    return cplusplus.shorten(whole) if len(whole) <= _MAX_NAME else name
