"""%weft and %%weft in a real IPython, and in a notebook that a real kernel of Jupyter runs and a browser shows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from playwright.sync_api import Browser
from weft_command import LIMIT_S

WORK = """
import time
def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(1000))
"""


def ipython(*lines: str, cwd: Path) -> str:
    """What IPython shows of a script of its own kind."""
    (cwd / "script.ipy").write_text("\n".join((WORK, *lines)))
    command = [sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", "script.ipy"]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(cwd), "IPYTHONDIR": str(cwd / "ipython"), "LANG": "C.UTF-8"}
    run = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    return run.stdout + run.stderr


def test_a_cell_and_a_statement(tmp_path: Path) -> None:
    """In a terminal the report is text; what the cell defines is there afterwards; a recording is kept if asked for."""
    told = ipython(
        "%load_ext weft",
        "%weft --no-native -r 250 spin(0.6)",
        "get_ipython().run_cell_magic('weft', '--no-native -o kept.weft', 'spin(0.5)\\nanswer = 42')",
        "print('answer', answer)",
        cwd=tmp_path,
    )
    assert told.count("The honest account") == 2
    assert "250 Hz" in told
    assert "spin" in told
    assert "answer 42" in told
    assert (tmp_path / "kept.weft").exists()


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    lines = ["%weft -r 0 spin(0.1)", "%weft", "%weft --unknown", "%weft -o no.format spin(0.1)", "%weft --help"]
    told = ipython("%load_ext weft", *(f"get_ipython().run_cell({line!r})" for line in lines), cwd=tmp_path)
    assert "no rate from 1 to 20,000 Hz" in told
    assert "needs a statement" in told
    assert "no format is known" in told
    assert "--unknown" in told
    assert "samples a second" in told
    assert "Traceback" not in told


def test_errors_of_the_cell_are_its_own(tmp_path: Path) -> None:
    """They are shown as IPython shows them, and what was recorded until then is shown, too."""
    told = ipython("%load_ext weft", "%weft --no-native spin(0.4) or 1 / 0", cwd=tmp_path)
    assert "ZeroDivisionError" in told
    assert "The honest account" in told


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A notebook with a cell that was recorded."""
    book = nbformat.v4.new_notebook()
    cells = [WORK, "%load_ext weft", "%%weft -r 250 --height 480\nspin(0.8)\n'</script>'"]
    book.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    NotebookClient(book, timeout=LIMIT_S, kernel_name="python3").execute(cwd=str(tmp_path_factory.mktemp("notebook")))
    yield book


def report_of(notebook: Any) -> dict[str, str]:
    (shown,) = (output for output in notebook.cells[-1].outputs if output.output_type == "display_data")
    return dict(shown.data)


def test_the_report_is_below_the_cell(notebook: Any) -> None:
    data = report_of(notebook)
    assert "spin" in data["text/plain"]
    assert data["text/html"].startswith("<iframe srcdoc=")
    assert "height:480px" in data["text/html"]


def test_a_browser_shows_it(notebook: Any, tmp_path: Path, chromium: Browser) -> None:
    """In its frame the page runs: it has drawn its graph and fills its table. It reaches nothing of the notebook."""
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><title>notebook</title>{report_of(notebook)['text/html']}", "utf-8")
    page = chromium.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto(path.as_uri())
    assert page.locator("iframe").bounding_box()["height"] == 480  # type: ignore[index]
    frame = page.frame_locator("iframe")
    frame.locator("#tab-functions").click(timeout=LIMIT_S * 100)
    frame.locator("table", has_text="spin").first.wait_for(timeout=LIMIT_S * 100)
    assert frame.locator("canvas").first.evaluate("canvas => canvas.width") > 100
    assert complaints == []
    page.close()
