"""Names of Rust functions as people write them: of the v0 mangling (RFC 2603) and of the one before it.

What tells builds apart (hashes of crates, the numbers of impl blocks) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_MAX_DEPTH = 64  # of what is nested: a backref may lead into itself
_MAX_STEPS = 5_000  # paths, types and constants of one name: backrefs can double it with each two characters

_BASIC_TYPES = {
    "a": "i8", "b": "bool", "c": "char", "d": "f64", "e": "str", "f": "f32", "h": "u8", "i": "isize", "j": "usize",
    "l": "i32", "m": "u32", "n": "i128", "o": "u128", "s": "i16", "t": "u16", "u": "()", "v": "...", "x": "i64",
    "y": "u64", "z": "!", "p": "_",
}  # fmt: skip
_POINTERS = {"R": "&", "Q": "&mut ", "P": "*const ", "O": "*mut "}
_DIGITS = {digit: value for value, digit in enumerate("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")}
_SIGNED, _UNSIGNED = "isxnlai", "hjmotyj"
_DECIMAL = re.compile("0|[1-9][0-9]{0,5}")
_HEX = re.compile("(n?)([0-9a-f]*)_")
_BASE_62 = re.compile("([0-9a-zA-Z]{0,12})_")

_LEGACY = re.compile(r"_ZN(?P<path>.+)17h[0-9a-f]{16}E(?:\.[\w.$]+)?")
_LEGACY_ESCAPE = re.compile(r"\$(?:u([0-9a-f]{1,6})|([A-Z]{1,2}))\$")
_LEGACY_NAMES = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}


def demangle(symbol: str) -> str | None:
    """Return the name that a symbol of Rust stands for; None if it is none."""
    if symbol.startswith("_R"):
        # What follows a dot or a dollar sign was added by LLVM.
        return _V0(re.split(r"[.$]", symbol[2:], maxsplit=1)[0]).name()
    if match := _LEGACY.fullmatch(symbol):
        return _legacy(match["path"])
    return None


def _legacy(path: str) -> str | None:
    """Return the parts of a path, each of which has its length before it, without the hash that followed them."""
    parts = []
    while path:
        length = _DECIMAL.match(path)
        if length is None:
            return None
        begin, end = length.end(), length.end() + int(length[0])
        part = path[begin:end]
        if not part or end > len(path):
            return None
        parts.append(_LEGACY_ESCAPE.sub(_unescape, part.removeprefix("_") if part.startswith("_$") else part))
        path = path[end:]
    return "::".join(part.replace("..", "::") for part in parts)


def _unescape(match: re.Match[str]) -> str:
    number, name = match.groups()
    if number:
        code = int(number, 16)
        return chr(code) if code < 0x110000 else match[0]
    return _LEGACY_NAMES.get(name, match[0])


class _SyntaxError(Exception):
    """This is no name of the v0 mangling, or one beyond all measure."""


class _V0:
    """Reads one name. The methods are named like the productions of the RFC's grammar."""

    def __init__(self, text: str) -> None:
        self._text = text  # what follows _R: backrefs count from there
        self._at = 0
        self._steps = 0
        self._depth = 0
        self._lifetimes = 0  # that the binders around have bound

    def name(self) -> str | None:
        try:
            found = self._path(in_value=True)
            if self._at < len(self._text):
                self._path(in_value=False)  # the crate that it was instantiated for
        except (_SyntaxError, UnicodeError):
            return None
        return found if self._at == len(self._text) else None

    # Letters and numbers

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        self._at += 1
        if self._at > len(self._text):
            raise _SyntaxError
        return self._text[self._at - 1]

    def _eat(self, letter: str) -> bool:
        if self._peek() != letter:
            return False
        self._at += 1
        return True

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise _SyntaxError
        self._at = match.end()
        return match

    def _base_62(self) -> int:
        digits = self._match(_BASE_62)[1]
        value = 0
        for digit in digits:
            value = value * 62 + _DIGITS[digit]
        return value + 1 if digits else 0

    def _nested(self, read: Callable[[], str]) -> str:
        """Read what may hold its like."""
        self._steps += 1
        self._depth += 1
        if self._depth > _MAX_DEPTH or self._steps > _MAX_STEPS:
            raise _SyntaxError
        found = read()
        self._depth -= 1
        return found

    def _backref(self, read: Callable[[], str]) -> str:
        begin = self._at - 1
        to = self._base_62()
        if to >= begin:
            raise _SyntaxError
        after, self._at = self._at, to
        found = read()
        self._at = after
        return found

    def _until_end(self, read: Callable[[], str]) -> list[str]:
        found = []
        while not self._eat("E"):
            found.append(read())
        return found

    # Paths

    def _path(self, *, in_value: bool) -> str:
        return self._nested(lambda: self._any_path(in_value=in_value))

    def _any_path(self, *, in_value: bool) -> str:
        match self._next():
            case "C":
                return self._identifier()[0]
            case "M":
                self._impl_path()
                return f"<{self._type()}>"
            case "X":
                self._impl_path()
                return f"<{self._type()} as {self._path(in_value=False)}>"
            case "Y":
                return f"<{self._type()} as {self._path(in_value=False)}>"
            case "N":
                return self._nested_path(in_value=in_value)
            case "I":
                path = self._path(in_value=in_value)
                arguments = ", ".join(self._until_end(self._generic_argument))
                return f"{path}{'::' if in_value else ''}<{arguments}>"
            case "B":
                return self._backref(lambda: self._path(in_value=in_value))
        raise _SyntaxError

    def _nested_path(self, *, in_value: bool) -> str:
        namespace = self._next()
        if not namespace.isalpha():
            raise _SyntaxError
        path = self._path(in_value=in_value)
        name, number = self._identifier()
        if namespace.islower():
            return f"{path}::{name}" if name else path
        kind = {"C": "closure", "S": "shim"}.get(namespace, namespace)
        return f"{path}::{{{kind}{':' if name else ''}{name}#{number}}}"

    def _impl_path(self) -> None:
        self._disambiguator()
        self._path(in_value=False)

    def _disambiguator(self) -> int:
        return self._base_62() + 1 if self._eat("s") else 0

    def _identifier(self) -> tuple[str, int]:
        number = self._disambiguator()
        return self._plain_identifier(), number

    def _plain_identifier(self) -> str:
        is_punycode = self._eat("u")
        length = int(self._match(_DECIMAL)[0])
        self._eat("_")
        name = self._text[self._at : self._at + length]
        if len(name) < length:
            raise _SyntaxError
        self._at += length
        if not is_punycode:
            return name
        ascii_part, _, others = name.rpartition("_")
        return f"{ascii_part}-{others}".removeprefix("-").encode("ascii").decode("punycode")

    # Types

    def _generic_argument(self) -> str:
        if self._eat("L"):
            return self._lifetime()
        return self._const() if self._eat("K") else self._type()

    def _lifetime(self) -> str:
        """Return the name of a lifetime, which tells how many binders inwards of its own it is."""
        index = self._base_62()
        if index == 0:
            return "'_"
        return _lifetime_name(self._lifetimes - index)

    def _type(self) -> str:
        return self._nested(self._any_type)

    def _any_type(self) -> str:
        letter = self._next()
        if letter in _BASIC_TYPES:
            return _BASIC_TYPES[letter]
        match letter:
            case "A":
                return f"[{self._type()}; {self._const()}]"
            case "S":
                return f"[{self._type()}]"
            case "T":
                members = self._until_end(self._type)
                return f"({members[0]},)" if len(members) == 1 else f"({', '.join(members)})"
            case "R" | "Q":
                lifetime = self._lifetime() if self._eat("L") else "'_"
                told = f"{lifetime} " if lifetime != "'_" else ""
                return f"&{told}{_POINTERS[letter][1:]}{self._type()}"
            case "P" | "O":
                return _POINTERS[letter] + self._type()
            case "F":
                return self._bound(self._function)
            case "D":
                traits = self._bound(lambda: " + ".join(self._until_end(self._dyn_trait)))
                if not self._eat("L"):
                    raise _SyntaxError
                lifetime = self._lifetime()
                return f"dyn {traits}" if lifetime == "'_" else f"dyn {traits} + {lifetime}"
            case "B":
                return self._backref(self._type)
        self._at -= 1
        return self._path(in_value=False)

    def _bound(self, read: Callable[[], str]) -> str:
        """Read what binders may stand before."""
        count = self._base_62() + 1 if self._eat("G") else 0
        if count > _MAX_DEPTH:
            raise _SyntaxError
        names = [_lifetime_name(self._lifetimes + number) for number in range(count)]
        self._lifetimes += count
        found = read()
        self._lifetimes -= count
        return f"for<{', '.join(names)}> {found}" if names else found

    def _function(self) -> str:
        unsafe = "unsafe " if self._eat("U") else ""
        abi = ""
        if self._eat("K"):
            name = "C" if self._eat("C") else self._plain_identifier().replace("_", "-")
            abi = f'extern "{name}" '
        arguments = ", ".join(self._until_end(self._type))
        result = self._type()
        return f"{unsafe}{abi}fn({arguments})" + (f" -> {result}" if result != "()" else "")

    def _dyn_trait(self) -> str:
        path = self._path(in_value=False)
        bindings = []
        while self._eat("p"):
            bindings.append(f"{self._plain_identifier()} = {self._type()}")
        if not bindings:
            return path
        return f"{path[:-1]}, {', '.join(bindings)}>" if path.endswith(">") else f"{path}<{', '.join(bindings)}>"

    # Constants

    def _const(self) -> str:
        return self._nested(self._any_const)

    def _any_const(self) -> str:
        letter = self._next()
        if letter == "B":
            return self._backref(self._const)
        if letter == "p":
            return "_"
        sign, digits = self._match(_HEX).groups()
        value = int(digits or "0", 16)
        if letter == "b" and value < 2:
            return "true" if value else "false"
        if letter == "c" and value < 0x110000:
            return repr(chr(value))
        if letter in _SIGNED or (letter in _UNSIGNED and not sign):
            return f"{'-' if sign else ''}{value}"
        raise _SyntaxError


def _lifetime_name(depth: int) -> str:
    """Return the name of the lifetime that is bound at this depth: 'a is the outermost one."""
    if depth < 0:
        raise _SyntaxError
    return f"'{chr(ord('a') + depth)}" if depth < 26 else f"'_{depth}"
