"""The stacks of two sets of recordings as one tree, with what each side has of every stack."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weft.profile.matching import same_files
from weft.profile.series import Function, by_name
from weft.profile.tables import Profile, Stacks


@dataclass(frozen=True, slots=True)
class Merged:
    """Stacks by function, with the time and the samples of each that are its own: (before, after)."""

    functions: list[Function]  # `file` as before, where it is there
    stacks: Stacks  # its frames are indices of functions
    weight_ns: tuple[list[int], list[int]]
    ticks: tuple[list[int], list[int]]


def merge(before: Sequence[Profile], after: Sequence[Profile]) -> Merged:
    """Merges the profiles of both sides; the empty stack is node 0."""
    numbers: dict[Function, int] = {}
    stacks = Stacks()
    weights: list[dict[int, list[int]]] = []
    same = same_files(_files(before), _files(after))
    for profiles, names in ((before, {}), (after, same)):  # type: Sequence[Profile], dict[str, str]
        sums: dict[int, list[int]] = {}
        for profile in profiles:
            nodes = _add(profile, names, numbers, stacks)
            for total in profile.totals:
                own = sums.setdefault(nodes[total.stack], [0, 0])
                own[0] += total.weight_ns
                own[1] += total.ticks
        weights.append(sums)
    size = len(stacks)
    columns = [[[side.get(node, (0, 0))[i] for node in range(size)] for side in weights] for i in (0, 1)]
    (ours_ns, theirs_ns), (ours, theirs) = columns
    return Merged(list(numbers), stacks, (ours_ns, theirs_ns), (ours, theirs))


def _add(profile: Profile, names: dict[str, str], numbers: dict[Function, int], stacks: Stacks) -> list[int]:
    """Adds the stacks of a profile to the tree; gives the node of each."""
    of_frame = []
    for frame in profile.frames:
        function, file = by_name(frame)
        of_frame.append(numbers.setdefault((function, names.get(file, file)), len(numbers)))
    nodes = [0]
    for node in range(1, len(profile.stacks)):
        nodes.append(stacks.add(nodes[profile.stacks.parent[node]], of_frame[profile.stacks.frame[node]]))
    return nodes


def _files(profiles: Iterable[Profile]) -> Iterable[str]:
    return (frame.file for profile in profiles for frame in profile.frames)
