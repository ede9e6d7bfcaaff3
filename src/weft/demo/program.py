"""A small program that looks like a real one: it makes up the access logs of a web shop, and reports on them.

Each round generates a day of requests, parses them, ranks pages and visitors, archives the day compressed by a thread
pool, and walks the deep tree of a discussion. It runs for about seven seconds, standard library only, Python 3.8+.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import time
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

SECONDS = 7.0
REQUESTS_A_DAY = 12_000
COMMENTS = 400  # one below the other
PAGES = ["/", "/cart", "/search", "/login", *(f"/product/{number}" for number in range(60))]


class Request(NamedTuple):
    """One line of the log."""

    visitor: str
    page: str
    status: int
    milliseconds: float


class Comment:
    """A comment and the answers to it."""

    def __init__(self, text: str, answers: list[Comment]) -> None:
        self.text = text
        self.answers = answers


def generate_day(chance: random.Random) -> list[str]:
    """Lines of an access log."""
    return [generate_line(chance) for _ in range(REQUESTS_A_DAY)]


def generate_line(chance: random.Random) -> str:
    """One request by a visitor who is made up."""
    page = PAGES[min(int(chance.expovariate(0.1)), len(PAGES) - 1)]
    status = 200 if chance.random() < 0.97 else 404
    return f"10.0.{chance.randrange(4)}.{chance.randrange(250)} GET {page} {status} {chance.expovariate(0.05):.1f}"


def parse_day(lines: list[str]) -> list[Request]:
    """The requests that the lines tell of."""
    return [parse_line(line) for line in lines]


def parse_line(line: str) -> Request:
    """Split one line into its fields."""
    visitor, _, page, status, milliseconds = line.split()
    return Request(visitor, page, int(status), float(milliseconds))


def by_cost(request: Request) -> tuple[float, str]:
    """Failed requests count for three times as long as they took."""
    weight = 3.0 if request.status != 200 else 1.0
    return -request.milliseconds * weight, request.page


def rank_requests(requests: list[Request]) -> list[Request]:
    """The most costly requests first."""
    return sorted(requests, key=by_cost)


def rank_visitors(requests: list[Request]) -> list[tuple[str, int]]:
    """The most frequent visitors first, the addresses of equals in numeric order."""
    counts = Counter(request.visitor for request in requests)
    return sorted(counts.items(), key=lambda item: (-item[1], [int(part) for part in item[0].split(".")]))


def archive_day(lines: list[str], pool: ThreadPoolExecutor) -> list[str]:
    """Compress the log in four parts, at once; zlib and hashlib release the GIL. Gives the digests."""
    size = len(lines) // 4
    parts = [lines[start : start + size] for start in range(0, len(lines), size)]
    return list(pool.map(archive_part, parts))


def archive_part(lines: list[str]) -> str:
    """Compress one part and sign it."""
    packed = zlib.compress("\n".join(lines).encode(), 6)
    return hashlib.sha256(packed).hexdigest()


def grow_discussion(depth: int) -> Comment:
    """A discussion in which everybody answers the last comment."""
    comment = Comment("the last word", [])
    for level in range(depth):
        comment = Comment(f"answer {level}", [Comment("agreed", []), comment])
    return comment


def count_words(comment: Comment) -> int:
    """Words in a comment and everything below it, by recursion as deep as the discussion."""
    return len(comment.text.split()) + sum(map(count_words, comment.answers))


def summarize(requests: list[Request], visitors: list[tuple[str, int]], words: int) -> str:
    """What the owner of the shop reads."""
    pages = Counter(request.page for request in requests)
    return json.dumps({"pages": pages.most_common(5), "visitors": visitors[:5], "words": words}, indent=1)


def run_day(chance: random.Random, discussion: Comment, pool: ThreadPoolExecutor) -> str:
    """Everything that is done with one day."""
    lines = generate_day(chance)
    requests = parse_day(lines)
    ranked = rank_requests(requests)
    archive_day(lines, pool)
    words = sum(count_words(discussion) for _ in range(50))
    return summarize(ranked, rank_visitors(requests), words)


def main() -> None:
    """Run one day after the other until the time is over."""
    sys.setrecursionlimit(10 * COMMENTS)
    chance = random.Random(1)  # noqa: S311  (no secrets here)
    discussion = grow_discussion(COMMENTS)
    end = time.monotonic() + SECONDS
    days = 0
    with ThreadPoolExecutor(max_workers=4, thread_name_prefix="archiver") as pool:
        while time.monotonic() < end:
            run_day(chance, discussion, pool)
            days += 1
    print(f"shop: reported on {days} days of {REQUESTS_A_DAY} requests")


if __name__ == "__main__":
    main()
