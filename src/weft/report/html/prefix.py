"""The page's stacks: a profile's prefix tree in preorder, cut where it is too large for a browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from weft.profile.tables import EMPTY, Profile
from weft.sample import Frame, FrameKind

MAX_STACKS: Final = 500_000
COARSE: Final = 2_000  # stacks that have a child of kind PRUNED, for time that is not told apart
PRUNED: Final = Frame(FrameKind.MARKER, "[pruned: too rare to be told apart]", "", 0)


@dataclass(slots=True)
class Prefix:
    """Stacks in preorder: callers first, each followed directly by what it calls."""

    place: list[int]  # of each stack of the profile: the one here that has its time; -1: none has any
    coarse: list[int]  # of each stack here: the one of kind PRUNED that may have its time instead
    parent: list[int] = field(default_factory=list)  # of each; -1 of outermost frames
    frame: list[int] = field(default_factory=list)  # of each: one of the profile, EMPTY, or len(profile.frames): PRUNED
    rest: int = 0  # the outermost stack of kind PRUNED
    pruned: int = 0  # stacks of the profile that were cut
    pruned_ns: int = 0  # the time that is told of their callers only

    def add(self, caller: int, frame: int, coarse: int) -> int:
        """Another stack; coarse -1: itself."""
        self.parent.append(caller)
        self.frame.append(frame)
        self.coarse.append(len(self.parent) - 1 if coarse < 0 else coarse)
        return len(self.parent) - 1


def prefix(
    profile: Profile, most: int = MAX_STACKS, coarse: int = COARSE, inside: Sequence[int] | None = None
) -> Prefix:
    """The stacks that have time, and their callers. Of more than `most`, those with the least time are cut.

    What is cut is told as PRUNED, called by what called it. The empty stack, where it has time, is like an outermost
    frame.
    inside: of each stack of the profile 1, with all its callers, if it is looked at: those have half of the room first.
    """
    weight, own = _weights(profile)
    seen = sorted((each for each in weight[1:] if each >= 0), reverse=True)
    least_coarse = seen[coarse] if len(seen) > coarse else -1
    leasts = _leasts(weight, inside, most) if inside else (_least(seen, most), -1)

    def least(node: int) -> int:
        return leasts[inside[node]] if inside else leasts[0]

    parent = profile.stacks.parent
    children: dict[int, list[int]] = {}
    for node in range(len(parent) - 1, 0, -1):  # backwards, because the pile gives back what came last
        if weight[node] >= 0:
            children.setdefault(parent[node], []).append(node)
    cut = len(profile.frames)
    result = Prefix(place=[-1] * len(parent), coarse=[])
    if weight[0] >= 0:
        result.place[0] = result.add(-1, EMPTY, -1)
    result.rest = result.add(-1, cut, -1)
    marker = {-1: result.rest}  # what stands for all that is not told apart beneath a stack
    pile = [(node, -1) for node in children.get(0, ())]
    while pile:
        node, caller = pile.pop()
        if weight[node] > least(node):
            above = marker[-1] if caller < 0 else result.coarse[caller]
            here = result.place[node] = result.add(caller, profile.stacks.frame[node], above)
            if weight[node] > least_coarse or any(weight[child] <= least(child) for child in children.get(node, ())):
                marker[here] = result.coarse[here] = result.add(here, cut, -1)
            pile.extend((child, here) for child in children.get(node, ()))
            continue
        result.place[node] = marker[caller]
        result.pruned += 1
        result.pruned_ns += own[node]
        pile.extend((child, caller) for child in children.get(node, ()))
    return result


def _least(weights: Sequence[int], most: int) -> int:
    """What a weight has to be more than to be among the first `most`; they come in descending order."""
    return weights[most] if len(weights) > most else -1


def _leasts(weight: Sequence[int], inside: Sequence[int], most: int) -> tuple[int, int]:
    """The same of stacks that are not looked at, and of those that are."""
    apart: tuple[list[int], list[int]] = ([], [])
    for node in range(1, len(weight)):
        if weight[node] >= 0:
            apart[inside[node]].append(weight[node])
    outer, inner = (sorted(each, reverse=True) for each in apart)
    room = max(most // 2, most - len(outer))
    return _least(outer, most - min(room, len(inner))), _least(inner, room)


def _weights(profile: Profile) -> tuple[list[int], list[int]]:
    """The time of each stack with all that it calls (-1: none of it was seen), and its own."""
    parent = profile.stacks.parent
    weight = [-1] * len(parent)
    own = [0] * len(parent)
    for total in profile.totals:
        weight[total.stack] = max(weight[total.stack], 0) + total.weight_ns
        own[total.stack] += total.weight_ns
    for node in range(len(parent) - 1, 0, -1):
        if weight[node] >= 0 and parent[node]:
            weight[parent[node]] = max(weight[parent[node]], 0) + weight[node]
    return weight, own
