"""The bench's judges and readers: what is wrong is found, chance is not told as error, and peers' files are read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from running import TARGETS

from benchmarks import history, page
from benchmarks.charts import draw
from benchmarks.cost import Rounds
from benchmarks.peers import Austin, Peer, PeerFailedError, PySpy, Recording, Run, Stack, Tachyon, Told, Weft, places
from benchmarks.processes import cpu_s_of_tree, most_resident_bytes, resident_bytes, tree
from benchmarks.programs import known_to_all, newest, running_program
from benchmarks.results import Row, Settings, spread
from benchmarks.truth import chance_of, errors_of, judged, judged_calls
from weft.sample import Frame, FrameKind

SECONDS = 2
KINDS = ("loop", "calls", "c_code")


@pytest.mark.parametrize(
    "make", [lambda: Weft("ptrace"), lambda: Weft("bpf", native=True), PySpy, Austin, Tachyon],
    ids=["ptrace", "bpf", "py-spy", "austin", "profiling.sampling"],
)  # fmt: skip
def test_a_peers_recording_is_read(make: Callable[[], Peer]) -> None:
    """GIVEN a program with three functions that take turns THEN each peer's file has them, called by the module."""
    peer = make()
    for interpreter in filter(None, (known_to_all(), newest((3, 15)))):
        if peer.missing(interpreter):
            continue
        with running_program(interpreter, TARGETS / "shares.py", 60, *KINDS) as target:
            run = Recording(peer, interpreter, target.pid, 500, SECONDS).finish(stacks=True)
        assert run.told.samples > 50
        assert run.cpu_s > 0
        assert run.peak_bytes > 1 << 20
        for kind in KINDS:
            stacks = [places(stack) for stack, _ in run.stacks]
            seen = [stack for stack in stacks if any(function == kind for function, _ in stack)]
            assert seen, kind
            assert all(stack[0][0] == "<module>" and stack[0][1] > 0 for stack in seen)
        return
    pytest.skip(f"{peer.name} runs nowhere here: {peer.missing(interpreter)}")


def python(function: str) -> Frame:
    """A frame."""
    return Frame(FrameKind.PYTHON, function, "program.py", 1)


def test_who_is_behind_records_for_longer(tmp_path: Path) -> None:
    """GIVEN what py-spy says while it is behind THEN the last of it is told, and nothing where it is in time."""
    output = tmp_path / "recording"
    output.write_text("<module> (program.py:3);work (program.py:2) 7\n")
    behind = "py-spy> {} behind in sampling, results may be inaccurate. Try reducing the sampling rate\n"
    said = f"py-spy> Sampling process 5000 times a second\n{behind.format('1.01s')}{behind.format('12.34s')}Errors: 2\n"
    assert PySpy().told(output, said) == Told(7, lost=2, behind_s=12.34)
    assert PySpy().told(output, "py-spy> Sampling process 100 times a second\n") == Told(7)


def test_a_recording_that_fails() -> None:
    """GIVEN a process that is not there THEN that is an error with the recorder's own words, and no empty result."""
    interpreter = known_to_all()
    assert interpreter
    with pytest.raises(PeerFailedError, match="no process has the PID"):
        Recording(Weft("ptrace"), interpreter, 2**22 - 1, 100, 1).finish()


def test_no_figure_comes_of_nothing() -> None:
    """GIVEN a recording that saw only a thread that waits THEN there is no cost per sample, but an error."""

    def run(stacks: list[tuple[Stack, float]]) -> Run:
        return Run(Told(80), 8.0, 0.86, 0, 0, 0, stacks, steady_cpu=0.01)

    waits: list[tuple[Stack, float]] = [((python("<module>"),), 4.0)]
    with pytest.raises(PeerFailedError, match="no samples"):
        Rounds().keep(run(waits))
    # In its loop, in its calls, and in those of a stack whose outer part is missing.
    loop, calls = python("main.<locals>.compute"), python("main.<locals>.descend")
    works = [((python("run"), loop), 1.0), ((python("run"), loop, calls), 2.0), ((calls,), 1.0), *waits]
    rounds = Rounds()
    rounds.keep(run(works))
    assert rounds.steady_us() == [pytest.approx(0.01 / (40 / 8) * 1e6)]


TWO_PROCESSES = """
import subprocess, sys, threading, time
def compute():
    while time.thread_time() < 0.2: pass
thread = threading.Thread(target=compute)
thread.start()
thread.join()
told = 0.0
if sys.argv[1:]:
    child = subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    told = float(child.stdout.readline())
print(told + time.process_time(), flush=True)
sys.stdin.read()
"""


def test_what_a_recorder_has_taken() -> None:
    """GIVEN a program whose threads have computed and ended, its child too THEN all that they say they took is seen."""
    command = [sys.executable, "-c", TWO_PROCESSES, TWO_PROCESSES]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        told = float(process.stdout.readline())
        seen = cpu_s_of_tree(process.pid)
        process.stdin.close()
    assert 0.4 <= told <= seen <= told + 0.1  # to write a line and to wait


def test_torn_stacks_are_found() -> None:
    """GIVEN stacks of a storm, one of them without its root, one empty THEN each counts as what it is."""
    interpreter = known_to_all()
    assert interpreter
    with running_program(interpreter, TARGETS / "storm.py", 60) as target:
        run = Recording(Weft("ptrace"), interpreter, target.pid, 1000, 1).finish(stacks=True)
    assert judged(run.stacks) == (0, 0)
    deep = next(stack for stack, _ in run.stacks if len(stack) > 5)
    assert judged([*run.stacks, (deep[3:], 7.0), ((), 5.0)]) == (5, 7)


def test_wrong_calls_are_found() -> None:
    """GIVEN a call of sorted() that is shown, hidden, or shown as one of re THEN each counts as what it is."""

    def stack(*native: str) -> tuple[Frame, ...]:
        return (python("descend"), *(Frame(FrameKind.NATIVE, name, "", 0) for name in native), python("via_sorted"))

    assert judged_calls([(stack("builtin_sorted", "list_sort"), 1.0)]) == (0, 1)
    assert judged_calls([(stack("PyObject_Vectorcall"), 1.0)]) == (0, 0)
    assert judged_calls([(stack("pattern_subx"), 1.0), (stack("list_sort"), 3.0)]) == (0.25, 0.75)
    with pytest.raises(PeerFailedError, match="no call"):
        judged_calls([])


def test_chance_is_no_error() -> None:
    """GIVEN samples that fall at random into a dozen kinds THEN they are as far off as chance is, and no more."""
    random, samples = Random(5), 3000
    kinds = [f"kind {number}" for number in range(12)]
    true = {kind: 1.0 + number % 3 for number, kind in enumerate(kinds)}
    chances = []
    for _ in range(400):
        seen = dict.fromkeys(kinds, 0.0)
        for kind in random.choices(kinds, list(true.values()), k=samples):
            seen[kind] += 1
        chances.append(chance_of(errors_of(seen, true), true, samples))
    # Each probability comes up as often as it says: below 0.1 in 40 of 400, with a standard deviation of 6.
    assert 22 <= sum(chance < 0.1 for chance in chances) <= 58
    assert 170 <= sum(chance < 0.5 for chance in chances) <= 230


def test_error_is_no_chance() -> None:
    """GIVEN one kind of a dozen that is seen a fifth too often THEN chance is no answer."""
    kinds = [f"kind {number}" for number in range(12)]
    errors = errors_of({kind: 1.2 if kind == "kind 3" else 1.0 for kind in kinds}, dict.fromkeys(kinds, 2.0))
    assert errors["kind 3"] == pytest.approx(100 * (1.2 / 12.2 - 1 / 12))
    assert errors["kind 0"] == pytest.approx(100 * (1 / 12.2 - 1 / 12))
    assert chance_of(errors, dict.fromkeys(kinds, 2.0), 20_000) < 0.001
    with pytest.raises(PeerFailedError, match="none of the work"):
        errors_of(dict.fromkeys(kinds, 0.0), dict.fromkeys(kinds, 1.0))


def test_the_charts(tmp_path: Path) -> None:
    """GIVEN a table of which two lines have a measure THEN these, and no others, are in its chart."""
    row = Row("Title", ("one",))
    row.add("weft ptrace", ["1"], {"slowed": [0.02, 0.03, 0.04]})
    row.add("py-spy", ["1"], {"slowed": [0.5]})
    row.add("austin", ["1"], {"steady_cpu_us": [40.0]})
    ((title, path),) = draw(row, tmp_path, "cost-1")
    assert title == "Slow-down of the program, %"
    texts = {text.strip() for text in ElementTree.parse(path).getroot().itertext()}
    assert {title, "weft ptrace", "3", "py-spy", "50"} <= texts
    assert "austin" not in texts


def test_the_table() -> None:
    """What was not measured is told beside what was; a range has both of its ends."""
    row = Row("Title", ("one", "two"))
    row.add("weft", ["1", spread([3, 1, 2], "µs")], {"one": [1.0]})
    row.missing["other"] = "it takes root"
    assert row.markdown() == (
        "## Title\n\n|  | one | two |\n| --- | ---: | ---: |\n| weft | 1 | 2.0 (1.0 to 3.0) µs |\n\n"
        "- other was not measured, or not in every round: it takes root.\n"
    )
    assert spread([0.07], "") == "0.070"


def machine(date: str) -> dict[str, object]:
    """Of a run, as the history has it."""
    return {"date": date, "revision": "abc", "cpu": "Z80", "load": 0.5}


def test_errors_of_both_signs_are_remembered_by_their_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN errors that add up to nothing THEN the history has their mean size; of other figures the median."""
    monkeypatch.setattr(page, "HISTORY", tmp_path / "runs.jsonl")
    row = Row("Shares", ("off",))
    row.add("weft", ["1"], {"points_off": [-3.0, 1.0, 2.0], "samples": [7, 9, 8]})
    page.remember(page.Machine("Z80", 2, "6.1", "Monday", "abc", "python -m benchmarks", 0.5, ["weft 1"]), [row])
    ((name, mean), (other, samples)) = sorted(history.figures(*history.runs(tmp_path / "runs.jsonl")))
    assert (name, mean) == ("Shares | weft | points_off_mean", 2.0)
    assert (other, samples) == ("Shares | weft | samples", 8)


def test_a_row_that_fails_is_told() -> None:
    """GIVEN a peer that ends badly, and one that is missing THEN both are told below the table, and others go on."""
    row, settings = Row("Title", ()), Settings(1, 1, quick=True)
    for error in (PeerFailedError("it ended"), FileNotFoundError("no such program")):
        with row.trying(Weft("ptrace"), settings, f", {type(error).__name__}"):
            raise error
    assert list(row.missing.values()) == ["it ended", "no such program"]


def test_memory_is_that_of_all_processes() -> None:
    """GIVEN a process that has started one more, with 32 MB THEN these are counted, while it lives."""
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    child = "import sys; data = bytearray(32 << 20); data[::4096] = bytes(8192); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, child], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        assert len(tree(process.pid)) == 2
        assert 32 << 20 < resident_bytes(process.pid) <= most_resident_bytes(process.pid) < 100 << 20
        assert process.stdin
        process.stdin.close()
    assert resident_bytes(process.pid) == most_resident_bytes(process.pid) == 0


def test_the_history() -> None:
    """GIVEN two runs of which one has a figure more THEN the course of each figure is told, of those that have it."""
    first, second = ({"machine": machine(date), "medians": medians} for date, medians in (
        ("yesterday", {"Cost": {"weft bpf": {"slowed": 0.03}}}),
        ("today", {"Cost": {"weft bpf": {"slowed": 0.02, "samples": 9000}, "py-spy": {"slowed": 0.4}}}),
    ))  # fmt: skip
    text = history.told([first, second], ["COST", "weft", "slowed"])
    assert [line.split() for line in text.splitlines()] == [
        ["Cost", "|", "weft", "bpf", "|", "slowed"],
        ["yesterday", "abc", "0.03", "Z80,", "load", "0.5"], ["today", "abc", "0.02", "Z80,", "load", "0.5"],
    ]  # fmt: skip
    (line,) = history.told([first, second], ["samples"]).splitlines()[1:]
    assert line.split()[:3] == ["today", "abc", "9000"]
    assert not history.told([first, second], ["nothing"])


def test_a_row_alone_takes_the_place_of_its_own(tmp_path: Path) -> None:
    """GIVEN a page of two rows of one run WHEN one is measured again THEN the other is kept, and each names its run."""
    assert page.kept(tmp_path) == {}

    def section(date: str, *rows: Row) -> page.Section:
        return page.Section(
            page.Machine("a CPU", 2, "6.1", date, "abc", "python -m benchmarks", 0.5, ["weft 1"]), [*rows]
        )

    old, new, other = Row("Cost", ["CPU"]), Row("Cost", ["CPU"]), Row("Growth", ["CPU"])
    for row, figure in ((old, 40.0), (new, 30.0), (other, 7.0)):
        for peer in ("weft", "py-spy"):
            row.add(peer, [f"{figure} us"], {"steady_cpu_us": [figure]})
    other.pages["more.md"] = "more"
    page.write({"cost": section("Monday", old), "growth": section("Monday", other)}, tmp_path)
    page.write(page.kept(tmp_path) | {"cost": section("Tuesday", new)}, tmp_path)
    told = (tmp_path / "README.md").read_text()
    assert "40.0 us" not in told
    places = [told.index(text) for text in ("Measured Tuesday", "| 30.0 us |", "Measured Monday", "| 7.0 us |")]
    assert places == sorted(places)
    assert {file.name for file in tmp_path.iterdir()} == {
        "README.md", "results.json", "more.md", "cost-1-1.svg", "growth-1-1.svg"
    }  # fmt: skip
