"""Running libFuzzer's harnesses, under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from programs import build

# AddressSanitizer's stack frames are several times as large: a name of C++ that needs less than 2 MB took more than 8.
STACK = 64 << 20


@dataclass(frozen=True)
class Harness:
    """A harness of ours: its program (programs.py), its longest input in bytes."""

    name: str
    max_input: int

    def fuzz(self, corpus: Path, limit: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Run it: how many inputs it tried, and the end of its words where one failed."""
        corpus.mkdir(exist_ok=True)
        settings = {
            **os.environ,
            "ASAN_OPTIONS": "quarantine_size_mb=16:allocator_release_to_os_interval_ms=-1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            **(env or {}),
        }
        flags = ["-timeout=10", "-rss_limit_mb=2048", "-entropic=0", "-print_final_stats=1", limit]
        run = subprocess.run(
            [build(self.name), *flags, f"-max_len={self.max_input}", f"-artifact_prefix={corpus}.failed-", corpus],
            check=False, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (STACK, STACK)),
        )  # fmt: skip
        tried = re.search(r"number_of_executed_units: (\d+)", run.stdout)
        return int(tried[1]) if tried else 0, run.stdout[-4000:] if run.returncode != 0 else ""

    def assert_survives(self, corpus: Path, seconds: int, env: Mapping[str, str] | None = None) -> None:
        """No input of so many seconds makes it fail."""
        tried, failure = self.fuzz(corpus, f"-max_total_time={seconds}", env)
        assert not failure, failure
        assert tried > 1000

    def fuzz_long(self, inputs: Callable[[Path], Iterator[tuple[Path, Mapping[str, str]]]]) -> None:
        """What `python test_fuzz_X.py RUNS [FOLDER]` does: so many inputs for each corpus; the folder is kept."""
        runs, *keep = sys.argv[1:]
        folder = Path(keep[0] if keep else tempfile.mkdtemp(prefix="weft-fuzz-"))
        folder.mkdir(exist_ok=True)
        for corpus, env in inputs(folder):
            tried, failure = self.fuzz(corpus, f"-runs={runs}", env)
            print(f"{corpus.name}: {tried} inputs", flush=True)
            if failure:
                sys.exit(failure)
