"""Real work, over and over: work.py COUNTER KIND

The number of rounds so far is at the start of the file COUNTER, as eight bytes in the machine's order. Ends when it is
killed.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path


def pandas() -> Callable[[], object]:
    """A table that is grouped, joined, sorted and rolled."""
    import numpy as np
    import pandas as pd

    random = np.random.default_rng(1)
    size = 20_000
    sales = pd.DataFrame(
        {
            "shop": random.integers(0, 200, size),
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(random.integers(0, 365, size), unit="D"),
            "amount": random.gamma(2, 50, size),
            "note": [f"note {number % 97}" for number in range(size)],
        }
    )
    shops = pd.DataFrame({"shop": range(200), "city": [f"city {number % 20}" for number in range(200)]})

    def once() -> object:
        joined = sales.merge(shops, on="shop")
        by_city = joined.groupby(["city", "day"])["amount"].agg(["sum", "mean"]).reset_index()
        by_city["week"] = by_city.groupby("city")["sum"].transform(lambda sums: sums.rolling(7).mean())
        return by_city.sort_values("week"), joined["note"].str.upper().value_counts()

    return once


def scikit_learn() -> Callable[[], object]:
    """A forest and a linear model."""
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = make_classification(1000, 20, random_state=1)

    def once() -> object:
        forest = RandomForestClassifier(10, random_state=1).fit(x, y)
        return forest.score(x, y), make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y)

    return once


def lxml() -> Callable[[], object]:
    """Cython around a C library: documents that are made, searched and written."""
    from lxml import etree

    def once() -> object:
        root = etree.Element("root")
        for number in range(500):
            etree.SubElement(root, "item", id=str(number)).text = f"text {number}"
        parsed = etree.fromstring(etree.tostring(root))
        return [item.get("id") for item in parsed.xpath("//item[@id mod 7 = 0]")], parsed.findall("item")

    return once


def pytest() -> Callable[[], object]:
    """A run of pytest in this process: a hundred small tests with fixtures and parameters."""
    import pytest as runner

    path = Path(__file__).with_name("test_small.py")  # in the folder that is made for this run
    path.write_text(
        "import pytest\n"
        "@pytest.fixture\ndef numbers(): return list(range(100))\n"
        "@pytest.mark.parametrize('n', range(100))\n"
        "def test_sum(numbers, n): assert sum(numbers[:n]) == n * (n - 1) // 2\n"
    )
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what it reports
    return lambda: runner.main(["-q", "-p", "no:cacheprovider", str(path)])


def pool() -> Callable[[], object]:
    """Two worker processes, to which a parent hands tasks."""
    import multiprocessing

    workers = multiprocessing.get_context("fork").Pool(2)
    return lambda: workers.map(count_primes, [4000] * 8)


def count_primes(below: int) -> int:
    return sum(all(number % other for other in range(2, int(number**0.5) + 1)) for number in range(2, below))


def torch() -> Callable[[], object]:
    """A training step of a small network on the CPU."""
    import torch as t

    t.set_num_threads(1)
    model = t.nn.Sequential(t.nn.Linear(256, 256), t.nn.ReLU(), t.nn.Linear(256, 10))
    optimizer = t.optim.Adam(model.parameters())
    x, y = t.randn(64, 256), t.randint(0, 10, (64,))

    def once() -> object:
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return optimizer.step()

    return once


def main() -> None:
    ready = os.fdopen(os.dup(1), "w")
    once = globals()[sys.argv[2]]()
    with open(sys.argv[1], "r+b") as file:  # noqa: PTH123
        counter = mmap.mmap(file.fileno(), 8)
    once()
    print("{}", file=ready, flush=True)
    rounds = 0
    while True:
        once()
        rounds += 1
        struct.pack_into("=q", counter, 0, rounds)


if __name__ == "__main__":
    main()
