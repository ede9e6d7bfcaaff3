"""Which file of one recording is which of another: programs are moved, and their environments made anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

_LONGEST = 8  # folders above a file that are compared


def same_files(before: Iterable[str], after: Iterable[str]) -> dict[str, str]:
    """The file of `before` for each of `after` that is the same: by its path, or else by the longest end of it.

    An end counts where it is the end of one file only, on either side.
    """
    ours, theirs = dict.fromkeys(before), dict.fromkeys(after)
    same = {file: file for file in theirs if file in ours}
    left = [file for file in ours if file not in same]
    right = [file for file in theirs if file not in same]
    for length in range(_LONGEST, 0, -1):
        found = _by_end(left, length)
        same |= {file: found[end] for end, file in _by_end(right, length).items() if end in found}
        taken = set(same.values())
        left = [file for file in left if file not in taken]
        right = [file for file in right if file not in same]
    return same


def _by_end(files: Iterable[str], length: int) -> dict[tuple[str, ...], str]:
    """Files by their last `length` names, where no two have the same."""
    ends = {file: tuple(file.split("/")[-length:]) for file in files if file}
    counts = Counter(ends.values())
    return {end: file for file, end in ends.items() if counts[end] == 1}
