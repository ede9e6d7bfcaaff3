"""The judge of the storm is judged first: it must accept every stack that there is and refuse those that are mixed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import storm_grammar
from interpreters import Interpreter
from storm_grammar import Frame

ROOT: list[Frame] = [("<module>", storm_grammar._CALL), ("storm", storm_grammar._RUN)]


@pytest.fixture
def stacks(interpreter: Interpreter, start_target: Callable[..., Any]) -> list[list[Frame]]:
    """Every stack of one turn of the tree, as a trace function inside the interpreter saw them."""
    told = start_target(interpreter, "storm_inside.py").ready["stacks"]
    return [ROOT + [(name, line) for name, line in stack] for stack in told]


def test_every_stack_from_inside_is_legal(stacks: list[list[Frame]]) -> None:
    """GIVEN what each version of the interpreter itself saw, line by line; lines of calls differ between versions."""
    assert len(stacks) > 2400
    assert max(map(len, stacks)) > 25
    assert [storm_grammar.violation(stack) for stack in stacks if not storm_grammar.legal(stack)] == []


def test_stacks_of_two_moments_are_refused(stacks: list[list[Frame]]) -> None:
    """GIVEN an outer part of one stack and the inner part of another, as a reader that is too slow would join them."""
    chosen = random.Random(1)
    known = set(map(tuple, stacks))
    refused = tried = 0
    while tried < 5000:
        outer, inner = chosen.choice(stacks), chosen.choice(stacks)
        cut = chosen.randrange(3, 1 + max(3, min(len(outer), len(inner))))
        torn = outer[:cut] + inner[cut:]
        if tuple(torn) not in known:
            tried += 1
            refused += not storm_grammar.legal(torn)
    assert refused / tried > 0.99


def test_stacks_that_moved_by_a_line_are_refused(stacks: list[list[Frame]]) -> None:
    """GIVEN one caller that has already gone on, or has not come so far yet, while its callee was read."""
    chosen = random.Random(2)
    for _ in range(5000):
        stack = list(chosen.choice(stacks))
        at = chosen.randrange(len(stack) - 1)
        name, line = stack[at]
        stack[at] = (name, line + chosen.choice([-1, 1]))
        assert not storm_grammar.legal(stack), stack


def test_missing_callers_are_refused(stacks: list[list[Frame]]) -> None:
    """GIVEN stacks that lost a frame at the root or in the middle; one recursive call less can be legal too."""
    known = set(map(tuple, stacks))
    for stack in stacks:
        for at in range(len(stack) - 1):
            torn = stack[:at] + stack[at + 1 :]
            assert tuple(torn) in known or not storm_grammar.legal(torn), torn
