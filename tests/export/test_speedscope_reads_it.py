"""speedscope itself reads what weft writes for it: the program from npm, in a browser, as its own command starts it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from capture.builder import CaptureBuilder, frame
from interpreters import CACHE
from playwright.sync_api import Browser

from weft.capture import Capture
from weft.export import speedscope
from weft.profile.tables import View

MS = 1_000_000
LIMIT_S = 60


@pytest.fixture
def program_page(lack: Callable[[str], NoReturn]) -> Path:
    page = CACHE / "speedscope-1.25.0/node_modules/speedscope/dist/release/index.html"
    return page if page.exists() else lack(f"there is no {page}")


def test_its_table_has_our_times(chromium: Browser, program_page: Path, tmp_path: Path) -> None:
    """Its sandwich view lists each function's total and own time: those of the recording."""
    builder = CaptureBuilder(tmp_path / "x.weft")
    for _ in range(3):
        builder.run([frame("main"), frame("work")], 20 * MS)
        builder.run([frame("main"), frame("</script><b>")], 10 * MS)
        builder.run([frame("main")], 10 * MS, gap_ns=5 * MS)
    with Capture(builder.close()) as capture:
        document = b"".join(speedscope.render(capture, View()))
    script = tmp_path / "load.js"  # as bin/cli.mjs of speedscope writes it
    script.write_text(f"speedscope.loadFileFromBase64('x.json', {json.dumps(base64.b64encode(document).decode())})")
    page = chromium.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"file://{program_page}#localProfilePath={script}")
    page.get_by_text("Sandwich").click(timeout=LIMIT_S * 1000)
    page.locator("table tr").nth(3).wait_for(timeout=LIMIT_S * 1000)
    assert "app.py" in page.title()
    rows = [row.locator("td").all_inner_texts() for row in page.locator("table tr").all()[1:]]
    assert {name: (total, own) for total, own, name in rows} == {
        "main": ("120.00ms (100%)", "30.00ms (25%)"),
        "work": ("60.00ms (50%)", "60.00ms (50%)"),
        "</script><b>": ("30.00ms (25%)", "30.00ms (25%)"),
    }
    assert complaints == []
    page.close()
