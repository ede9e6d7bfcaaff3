"""What can be asked of a profile. Pure functions, without recursion: stacks may be 100,000 frames deep."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from weft.profile.tables import Profile, Stacks
from weft.sample import Frame, FrameKind, State

Key = TypeVar("Key", bound=Hashable)

ELIDED = -2  # in a path: stands for the frames that were left out of its middle


@dataclass(slots=True)
class Cost:
    """What a function, or a line, cost: in its own code, and with all that it called (once a stack, if it recurses)."""

    self_ns: int = 0
    total_ns: int = 0
    ticks: int = 0  # of self_ns


def by_function(frame: Frame) -> tuple[str, str, int]:
    """Key of a function: (name, file, first line)."""
    return frame.function, frame.file, frame.first_line


def by_line(frame: Frame) -> tuple[str, str, int]:
    """Key of a line: (name of its function, file, line)."""
    return frame.function, frame.file, frame.line


def costs(profile: Profile, key: Callable[[Frame], Key]) -> dict[Key, Cost]:
    """The cost of each key; the empty stack has none."""
    stacks = profile.stacks
    numbers: dict[Key, int] = {}
    of_frame = [numbers.setdefault(key(frame), len(numbers)) for frame in profile.frames]
    result = [Cost() for _ in numbers]
    subtree = [0] * len(stacks)
    for total in profile.totals:
        subtree[total.stack] += total.weight_ns
        if total.stack:
            cost = result[of_frame[stacks.frame[total.stack]]]
            cost.self_ns += total.weight_ns
            cost.ticks += total.ticks
    for node in range(len(stacks) - 1, 0, -1):
        subtree[stacks.parent[node]] += subtree[node]
    active = [0] * len(result)  # how often each key is on the path from the root to the node that is visited
    for node, entered in walk(stacks):
        number = of_frame[stacks.frame[node]]
        if not entered:
            active[number] -= 1
            continue
        if active[number] == 0:
            result[number].total_ns += subtree[node]
        active[number] += 1
    return dict(zip(numbers, result, strict=True))


def python_alone(profile: Profile) -> Profile:
    """The same without native frames: what they cost is the cost of the Python frame that they were called from."""
    shown = [frame.kind in (FrameKind.PYTHON, FrameKind.CYTHON, FrameKind.MARKER) for frame in profile.frames]
    stacks = Stacks()
    nodes = [0]
    for node in range(1, len(profile.stacks)):
        caller, frame = nodes[profile.stacks.parent[node]], profile.stacks.frame[node]
        nodes.append(stacks.add(caller, frame) if shown[frame] else caller)
    totals = [total._replace(stack=nodes[total.stack]) for total in profile.totals]
    return replace(profile, stacks=stacks, totals=totals)


def walk(stacks: Stacks) -> Iterator[tuple[int, bool]]:
    """All nodes but the empty stack, depth first: (node, True) on the way in, (node, False) on the way out."""
    children: dict[int, list[int]] = {}
    for node in range(len(stacks) - 1, 0, -1):
        children.setdefault(stacks.parent[node], []).append(node)
    waiting = children.get(0, [])
    while waiting:
        node = waiting.pop()
        if node < 0:
            yield -node, False
            continue
        yield node, True
        waiting.append(-node)
        waiting.extend(children.get(node, ()))


def by_state(profile: Profile) -> dict[int, dict[State, int]]:
    """Time of each thread (Thread.id) in each state, in ns."""
    result = {thread: dict.fromkeys(State, 0) for thread in profile.threads}
    for total in profile.totals:
        result[total.thread][total.state] += total.weight_ns
    return result


@dataclass(frozen=True, slots=True)
class Folded(Generic[Key]):
    """The stacks of a profile with all frames of one key made one."""

    keys: list[Key]
    stacks: Stacks  # its frames are indices of keys
    nodes: list[int]  # nodes of the profile -> nodes of stacks


def fold(profile: Profile, key: Callable[[Frame], Key]) -> Folded[Key]:
    """Makes frames one that a sink does not tell apart, and so their stacks."""
    numbers: dict[Key, int] = {}
    of_frame = [numbers.setdefault(key(frame), len(numbers)) for frame in profile.frames]
    stacks = Stacks()
    nodes = [0]
    for node in range(1, len(profile.stacks)):
        nodes.append(stacks.add(nodes[profile.stacks.parent[node]], of_frame[profile.stacks.frame[node]]))
    return Folded(list(numbers), stacks, nodes)


class Paths:
    """Stacks as lists of frames, root first. Where one is longer than `longest`, ELIDED stands for its middle."""

    def __init__(self, stacks: Stacks, longest: int) -> None:
        self._stacks = stacks
        self._longest = longest
        self._outer = longest // 2  # frames kept before the middle
        self._inner = longest - self._outer - 1
        self.depth = [0] * len(stacks)
        self._top = [0] * len(stacks)  # the ancestor at depth _outer, or the node itself above that
        for node in range(1, len(stacks)):
            parent = stacks.parent[node]
            self.depth[node] = self.depth[parent] + 1
            self._top[node] = node if self.depth[node] <= self._outer else self._top[parent]

    def __call__(self, node: int) -> list[int]:
        """The frames of one stack."""
        if self.depth[node] <= self._longest:
            return self._stacks.path(node)
        inner = []
        for _ in range(self._inner):
            inner.append(self._stacks.frame[node])
            node = self._stacks.parent[node]
        return [*self._stacks.path(self._top[node]), ELIDED, *reversed(inner)]


def paths_within(stacks: Stacks, shown: Iterable[int], frames: int, longest: int) -> Paths:
    """Whole paths if those of `shown` have at most `frames` frames in all; else none longer than `longest`."""
    whole = Paths(stacks, len(stacks))
    if sum(whole.depth[node] for node in shown) <= frames:
        return whole
    return Paths(stacks, longest)
