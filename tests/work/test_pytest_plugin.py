"""`pytest --weft` in real runs of pytest, on projects made for them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from weft_command import LIMIT_S, run_weft

TESTS = """
import time
import pytest

def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(1000))

def prepare(seconds):
    spin(seconds)

@pytest.fixture
def slow_fixture():
    prepare(0.4)

@pytest.mark.parametrize("name", ["</script><img src=x onerror=alert(1)>", "../../../../escape"])
def test_named(name):
    spin(0.3)

def test_long():
    spin(0.9)

def test_sleeps(slow_fixture):
    time.sleep(0.5)

def test_fails():
    spin(0.1)
    assert False, "on purpose"

def test_short():
    pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "test_them.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


def run_pytest(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=LIMIT_S)


def summary(output: str) -> list[str]:
    """The tests of the summary, the slowest first."""
    _, _, table = output.partition("slowest tests, by weft")
    return re.findall(r"^.{29}  (test_them\.py::\S*)", table, re.MULTILINE)


def test_slowest_tests_and_a_flame_graph_each(project: Path) -> None:
    """In the order of their time, whatever they did in it; fixtures are not part of it. Names do no harm anywhere."""
    run = run_pytest(project, "--weft")
    assert run.returncode == 1
    assert "1 failed, 5 passed" in run.stdout
    order = summary(run.stdout)
    assert {"test_them.py::test_long", "test_them.py::test_sleeps"} < {*order[:-1]}
    assert order[-1] == "test_them.py::test_short"  # which does nothing
    assert len(order) == 6
    long = next(line for line in run.stdout.splitlines() if "test_long" in line)
    assert long.endswith("spin (test_them.py)")
    sleeps = next(line for line in run.stdout.splitlines() if "test_sleeps" in line)
    assert "prepare" not in sleeps
    folder = project / "weft-tests"
    pages = {path.name for path in folder.glob("*.html")}
    assert len(pages) == int(re.search(r"(\d+) flame graphs? in", run.stdout)[1])  # type: ignore[index]
    assert any("test_long" in name for name in pages)
    assert sum("test_named" in name for name in pages) == 2
    assert not [*project.parent.glob("*escape*")]
    assert all(re.fullmatch(r"[\w.-]+", name) for name in pages)
    page = (folder / next(name for name in pages if "script" in name)).read_text()
    assert "<img" not in page
    assert "test_named" in page


def test_the_capture_of_the_session(project: Path) -> None:
    """It is kept, with all that ran between the tests, too."""
    run_pytest(project, "--weft", "--weft-dir", "out", "--weft-rate", "250")
    assert "250 Hz" in run_weft("report", project / "out/session.weft").stdout
    assert ";prepare (test_them.py" in run_weft("report", "-f", "collapsed", project / "out/session.weft").stdout


def test_with_workers(project: Path) -> None:
    """pytest-xdist: each worker records itself, and the summary is of all of them."""
    run = run_pytest(project, "--weft", "-n", "2")
    assert "1 failed, 5 passed" in run.stdout
    assert sorted(summary(run.stdout))[:2] == ["test_them.py::test_fails", "test_them.py::test_long"]
    assert len(summary(run.stdout)) == 6
    names = {path.name for path in (project / "weft-tests").iterdir()}
    assert {"gw0-session.weft", "gw1-session.weft"} <= names
    assert any("test_long" in name for name in names)


def test_without_it(project: Path) -> None:
    """Where it is not asked for, nothing is recorded, written or loaded."""
    (project / "conftest.py").write_text(
        "import sys\ndef pytest_unconfigure(): print([n for n in sys.modules if n.startswith('weft.')])"
    )
    run = run_pytest(project, "-s")
    assert "['weft.pytest_plugin']" in run.stdout
    assert "slowest tests" not in run.stdout
    assert not (project / "weft-tests").exists()


def test_where_it_cannot_record(project: Path) -> None:
    """One line, before any test has run."""
    (project / "taken").write_text("a file")
    run = run_pytest(project, "--weft", "--weft-dir", "taken")
    assert run.returncode == 4
    assert "--weft:" in run.stderr
    assert "passed" not in run.stdout
