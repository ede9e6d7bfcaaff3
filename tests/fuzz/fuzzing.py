"""Building and running libFuzzer's harnesses, under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parent.parent / "native"
BPF = HERE.parent.parent / "bpf"
HOST = HERE.parent / "bpf"
# AddressSanitizer's stack frames are several times as large: a name of C++ that needs less than 2 MB took more than 8.
STACK = 64 << 20
SANITIZE = ["-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=undefined"]


def find_clang() -> str | None:
    """A clang++ with libFuzzer, the one without a number in its name or else the newest."""
    names = (path.name for folder in os.get_exec_path() for path in Path(folder).glob("clang++-*"))
    numbers = sorted((int(name[8:]) for name in names if name[8:].isdigit()), reverse=True)
    found = (shutil.which(name) for name in ["clang++", *(f"clang++-{number}" for number in numbers)])
    return next((path for path in found if path and _has_fuzzer(path)), None)


def _has_fuzzer(clang: str) -> bool:
    harness = b'#include <vector>\nextern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }\n'
    command = [clang, *SANITIZE, "-x", "c++", "-", "-o", os.devnull]
    return subprocess.run(command, check=False, capture_output=True, input=harness).returncode == 0


@dataclass(frozen=True)
class Harness:
    """A harness of ours: its file here, the files of native/ that it is built with, its longest input in bytes."""

    file: str
    sources: Sequence[str]
    max_input: int
    flags: Sequence[str] = ()  # for the compiler
    kernel: bool = False  # it runs the kernel's walk, too (tests/bpf/host_kernel.h)

    def build(self, clang: str, folder: Path) -> Path:
        """Compile it."""
        program = folder / Path(self.file).stem
        files = [HERE / self.file, *(NATIVE / source for source in self.sources)]
        flags = ["-O1", "-gline-tables-only", *SANITIZE, "-I", NATIVE, "-I", BPF, *self.flags]
        if self.kernel:
            flags += ["-I", HOST]
            files.append(folder / "host.o")
            # BPF's loads need no alignment.
            of_c = ["-x", "c", "-fno-sanitize=alignment", "-c", HOST / "host.c", "-o", files[-1]]
            subprocess.run([clang, *flags, *of_c], check=True)
        subprocess.run([clang, "-std=c++20", *flags, *files, "-o", program], check=True)
        return program

    def fuzz(self, program: Path, corpus: Path, limit: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
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
            [program, *flags, f"-max_len={self.max_input}", f"-artifact_prefix={corpus}.failed-", corpus],
            check=False, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (STACK, STACK)),
        )  # fmt: skip
        tried = re.search(r"number_of_executed_units: (\d+)", run.stdout)
        return int(tried[1]) if tried else 0, run.stdout[-4000:] if run.returncode != 0 else ""

    def assert_survives(self, program: Path, corpus: Path, seconds: int, env: Mapping[str, str] | None = None) -> None:
        """No input of so many seconds makes it fail."""
        tried, failure = self.fuzz(program, corpus, f"-max_total_time={seconds}", env)
        assert not failure, failure
        assert tried > 1000

    def fuzz_long(self, inputs: Callable[[Path], Iterator[tuple[Path, Mapping[str, str]]]]) -> None:
        """What `python test_fuzz_X.py RUNS [FOLDER]` does: so many inputs for each corpus; the folder is kept."""
        clang = find_clang() or sys.exit("there is no clang++ with libFuzzer")
        runs, *keep = sys.argv[1:]
        folder = Path(keep[0] if keep else tempfile.mkdtemp(prefix="weft-fuzz-"))
        folder.mkdir(exist_ok=True)
        program = self.build(clang, folder)
        for corpus, env in inputs(folder):
            tried, failure = self.fuzz(program, corpus, f"-runs={runs}", env)
            print(f"{corpus.name}: {tried} inputs", flush=True)
            if failure:
                sys.exit(failure)
