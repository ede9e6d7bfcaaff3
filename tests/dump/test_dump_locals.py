"""weft dump --locals: values as the target's own repr gives them, cut where they are long; garbage shown as such."""

from __future__ import annotations

import re
from typing import Any

import pytest
from dumps import dump
from interpreters import Interpreter
from running import StartTarget

from weft.cpython.values import MAX_VALUE

EXACT = ["numbers", "strings", "containers"]


@pytest.fixture
def values(interpreter: Interpreter, start_target: StartTarget) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """By function: the locals as the dump shows them, and the repr of each as the target told it."""
    target = start_target(interpreter, "locals_told.py")
    thread = dump("--locals", target.pid)["threads"][0]
    told = {stop["function"]: stop["locals"] for stop in target.ready["stack"]}
    assert thread["proven"]
    return {
        frame["function"].rpartition(".")[2]: (frame["locals"], told[frame["function"].rpartition(".")[2]])
        for frame in thread["frames"]
        if frame["function"].rpartition(".")[2] in told
    }


def test_values(values: Any) -> None:
    """GIVEN numbers of every size, strings of every width, containers of every layout: shown as repr does."""
    for function in EXACT:
        shown, told = values[function]
        assert len(told) > 15
        assert {name: shown.get(name) for name in told} == told


def test_named_things(values: Any) -> None:
    """GIVEN what is shown by its name: classes and instances as object.__repr__ does, functions by qualified name."""
    shown, told = values["named_things"]
    assert shown.keys() == told.keys()
    same = ["instance", "slotted", "plain_class", "number_class", "function", "local", "anonymous"]
    same += ["builtin", "builtin_method"]
    for name in same + (["classic", "classic_class"] if "classic" in told else []):
        assert shown[name] == told[name]
    assert re.fullmatch(r"<bound method (Plain\.)?method>", shown["bound"])
    assert shown["module"] == "<module 'os'>"
    assert re.fullmatch(r"<(exceptions\.)?ValueError object at 0x[0-9a-f]+>", shown["error"])
    assert re.fullmatch(r"<generator object at 0x[0-9a-f]+>", shown["running"])
    assert re.fullmatch(r"<_?thread\.lock object at 0x[0-9a-f]+>", shown["lock"])
    assert "ValueError" in shown["error_class"]


def test_cells(values: Any) -> None:
    """GIVEN variables that a closure shares: seen through their cells, in both functions; unbound ones left out."""
    for function in ("cells", "closure"):
        shown, told = values[function]
        closures = {"closure"}  # its repr names the function that it is local to, from 3.3 on
        assert {name: value for name, value in shown.items() if name not in closures} == {
            name: value for name, value in told.items() if name not in closures
        }
    assert "unbound" not in values["closure"][0]
    assert values["closure"][0]["inner"] == "'cell'"


def test_long_values_are_cut(values: Any) -> None:
    """GIVEN values of any length and depth, and some that hold themselves."""
    shown, told = values["cuts"]
    for name in ("long_text", "long_bytes", "wide_list"):
        assert shown[name] == told[name][:MAX_VALUE] + "…"
    for name in ("long_list", "long_dict", "long_set"):
        assert shown[name].rstrip("])}").endswith(", ..."), shown[name]
        whole = shown[name].partition(", ...")[0]
        assert told[name].startswith(whole)
        assert "9" in whole
        assert "10" not in whole
    assert re.fullmatch(r"<int of about 100\d\d bits>", shown["huge"])
    assert shown["deep"] == "[[[[...]]]]"
    assert shown["circle"] == "[[...]]"
    assert shown["round_dict"] == "{'self': {...}}"
    assert all(len(value) <= MAX_VALUE + 1 for value in shown.values())
