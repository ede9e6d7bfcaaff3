"""Demangled names of C++ as people write them: without default arguments, ABI namespaces and endless templates."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass

_MAX_LENGTH = 160  # characters; what is nested deepest is left out of longer names
_MAX_DEPTH = 100

# Inline namespaces, which tell ABIs of a library apart; and what GCC's [[gnu::abi_tag]] adds.
_ABI = re.compile(r"(?<=\bstd::)(?:__cxx11|__1|__2|__ndk1|_V2|__fs|filesystem::__cxx11)::|\[abi:\w+\]")
# Operators and what has no name are one token each: their signs are no brackets.
_TOKEN = re.compile(
    r"(?<!\w)operator(?:\(\)|<=>|->\*|[<>]{2}=?|[<>]=?|->|,)|\(anonymous namespace\)|->| [<>]{1,2}=? |[<>=]="
    r"|[<(),>]|[^<>(),=\- o]+|."
)
_OF_PATHS = f"{string.ascii_letters}{string.digits}_:"
_CLOSING = {"<": ">", "(": ")"}

# What an argument of std's templates is by default, as far as it is of the first one; std::allocator is of any.
_DEFAULTS = {f"std::{name}<{{}}>" for name in ("char_traits", "less", "hash", "equal_to", "default_delete")}
_ALLOCATOR = "std::allocator<"
_CHARACTERS = {"char": "", "wchar_t": "w"}
_OF_CHARACTERS = re.compile(
    r"std::basic_((?:i|o|io)?(?:string|fstream|stringstream|stream)|string_view|(?:string|file|stream)buf|ios|ofstream)"
)


@dataclass(slots=True)
class _Brackets:
    opening: str
    parts: list[_Text]  # what the commas part


_Text = list["str | _Brackets"]


def shorten(name: str) -> str:
    """Return a name short enough to be read; the name itself where its brackets do not match."""
    tokens = _TOKEN.findall(_ABI.sub("", name))
    tokens.reverse()
    try:
        text = _parse(tokens, "", 0)[0]
    except ValueError:
        return name
    shown = _render(text, _MAX_DEPTH)
    for depth in range(5, -1, -1):
        if len(shown) <= _MAX_LENGTH:
            break
        shown = _render(text, depth)
    return shown


def _parse(tokens: list[str], opening: str, depth: int) -> list[_Text]:
    """Take what stands in one pair of brackets from the end of the tokens, which are in reverse."""
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deep")
    parts: list[_Text] = [[]]
    while tokens:
        token = tokens.pop()
        if token in _CLOSING:
            parts[-1].append(_Brackets(token, _parse(tokens, token, depth + 1)))
        elif opening and token.strip() == _CLOSING[opening]:
            if token.endswith(" "):  # "> > const": older demanglers close templates so
                tokens.append(" ")
            return parts
        elif opening and token[0] == ",":
            parts.append([])
        elif token in _CLOSING.values():
            raise ValueError("a bracket closes that was not opened")
        else:
            parts[-1].append(token)
    if opening:
        raise ValueError("a bracket is not closed")
    return parts


def _render(text: _Text, depth: int) -> str:
    """Write it out, with `...` for what is in more brackets than `depth`."""
    shown = ""
    for part in text:
        if isinstance(part, str):
            shown += part
            continue
        inner = [_render(each, depth - 1).strip() for each in part.parts] if depth else ["..."]
        if part.opening == "(":
            shown += f"({', '.join(inner)})" if any(map(_is_written, part.parts)) else "()"
            continue
        before = shown.rstrip(_OF_PATHS)
        path = shown[len(before) :]
        if path.startswith("std::"):
            shown = before + _of_std(path, inner)
        else:
            shown += f"<{', '.join(inner)}>"
    return shown


def _is_written(text: _Text) -> bool:
    return any(not isinstance(part, str) or part.strip() for part in text)


def _of_std(path: str, arguments: list[str]) -> str:
    """Write a template of std without the arguments that it has by default."""
    while len(arguments) > 1 and _is_default(arguments[-1], arguments[0]):
        arguments.pop()
    stream = _OF_CHARACTERS.fullmatch(path)
    if stream and len(arguments) == 1 and arguments[0] in _CHARACTERS:
        return f"std::{_CHARACTERS[arguments[0]]}{stream[1]}"
    return f"{path}<{', '.join(arguments)}>"


def _is_default(argument: str, first: str) -> bool:
    return argument.startswith(_ALLOCATOR) or any(argument == default.format(first) for default in _DEFAULTS)
