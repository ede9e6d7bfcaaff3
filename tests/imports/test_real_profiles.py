"""Profiles that other tools have made of real programs, read and compared as if weft had made them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from interpreters import CACHE
from running import TARGETS
from weft_command import run_weft

from weft.imports import open_recording
from weft.profile.tables import Profile, View
from weft.profile.transform import by_function, by_line, costs
from weft.sample import FrameKind

PY_SPY = Path(sys.executable).with_name("py-spy")


@pytest.fixture(scope="module")
def spied(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What py-spy makes of tasks.py, in each of its forms."""
    folder = tmp_path_factory.mktemp("spied")
    paths = {"raw": folder / "spied.txt", "speedscope": folder / "spied.json"}
    for form, path in paths.items():
        spy(form, path, factor=1)
    return paths


def spy(form: str, path: Path, *, factor: int) -> None:
    command = [PY_SPY, "record", "-r", "200", "-f", form, "-o", path, "--", sys.executable, TARGETS / "tasks.py"]
    run = subprocess.run([*map(str, command), "1500", str(factor)], capture_output=True, text=True, check=False)
    assert path.exists(), run.stderr


def load(path: Path) -> Profile:
    with open_recording(path) as capture:
        return Profile.from_capture(capture, View())


def test_py_spy_raw(spied: dict[str, Path]) -> None:
    """Each line of the file, counted here by hand: the same functions, files, lines and counts."""
    own: Counter[tuple[str, str, int]] = Counter()
    for line in spied["raw"].read_text().splitlines():
        leaf, count = line.rsplit(";", 1)[-1].rsplit(" ", 1)
        told = re.fullmatch(r"(.*) \((.*):(\d+)\)", leaf)
        assert told or not leaf  # a sample without a frame
        if told:
            own[told[1], told[2], int(told[3])] += int(count)
    profile = load(spied["raw"])
    assert {key: cost.ticks for key, cost in costs(profile, by_line).items() if cost.ticks} == dict(own)
    assert {frame.kind for frame in profile.frames} == {FrameKind.PYTHON}
    assert sum(own.values()) > 50


def test_py_spy_speedscope(spied: dict[str, Path]) -> None:
    document = json.loads(spied["speedscope"].read_text())
    names = [frame["name"] for frame in document["shared"]["frames"]]
    seconds: Counter[str] = Counter()
    for each in document["profiles"]:
        for stack, weight in zip(each["samples"], each["weights"], strict=True):
            if stack:
                seconds[names[stack[-1]]] += weight
    profile = load(spied["speedscope"])
    own: Counter[str] = Counter()
    for (function, _, _), cost in costs(profile, by_function).items():
        own[function] += cost.self_ns
    assert {name: time / 1e9 for name, time in own.items() if time} == pytest.approx(dict(seconds))
    assert profile.rate_hz == 200
    assert profile.timed


def as_raw(speedscope: Path) -> str:
    """The samples of one of py-spy's files as its other form has them."""
    document = json.loads(speedscope.read_text())
    names = [f"{frame['name']} ({frame['file']}:{frame['line']})" for frame in document["shared"]["frames"]]
    stacks = Counter(tuple(stack) for each in document["profiles"] for stack in each["samples"])
    return "".join(f"{';'.join(names[frame] for frame in stack)} {count}\n" for stack, count in stacks.items())


def test_compared_with_itself_in_another_form(spied: dict[str, Path], tmp_path: Path) -> None:
    """The same samples by two forms, one of which tells no order of time: what is said of it is said."""
    raw = tmp_path / "raw.txt"
    raw.write_text(as_raw(spied["speedscope"]))
    run = run_weft("diff", raw, spied["speedscope"])
    assert run.returncode == 0, run.stderr
    assert "No change that is more than noise" in run.stdout
    assert "does not tell when its samples were taken" in run.stdout


def test_compared_with_a_slower_run(spied: dict[str, Path], tmp_path: Path) -> None:
    """Two recordings, by two forms, of which the second has a task four times as long: found, as the first of all."""
    slower = tmp_path / "slower.json"
    spy("speedscope", slower, factor=4)
    run = run_weft("diff", spied["raw"], slower)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert " render  tasks.py" in lines[lines.index("Slower with all that they call") + 2], run.stdout


@pytest.mark.parametrize("form", ["text", "html", "collapsed", "speedscope", "pprof", "gecko", "chrometrace"])
def test_shown_in_every_form(spied: dict[str, Path], form: str, tmp_path: Path) -> None:
    for name, path in spied.items():
        run = run_weft("report", path, "-f", form, "-o", tmp_path / name)
        assert (run.returncode, run.stderr) == (0, "")
        assert (tmp_path / name).stat().st_size > 500


def test_of_node_by_pprof(lack: Callable[[str], NoReturn], program: Callable[[str], str], tmp_path: Path) -> None:
    """A CPU profile that node takes of itself: pprof's form as another language's tool writes it."""
    modules = CACHE / "node-pprof-5.20.0/node_modules"
    if not modules.exists():
        lack(f"there is no {modules}")
    path = tmp_path / "node.pb.gz"
    env = {**os.environ, "NODE_PATH": str(modules)}
    subprocess.run([program("node"), TARGETS / "computes.js", path], env=env, check=True, timeout=120)
    profile = load(path)
    shares = {key[0]: cost.total_ns / profile.weight_ns for key, cost in costs(profile, by_function).items()}
    assert shares["work"] > 0.3
    assert shares["work"] + shares["rest"] > 0.5
    assert 0.2e9 < profile.weight_ns < 20e9
    assert next(frame for frame in profile.frames if frame.function == "work").file.endswith("computes.js")
    assert "work" in run_weft("diff", path, path, "-f", "collapsed").stdout
