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
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from weft.capture import Capture
from weft.export import speedscope
from weft.profile.tables import View

MS = 1_000_000
LIMIT_S = 60


@pytest.fixture
def program_page(lack: Callable[[str], NoReturn]) -> Path:
    page = CACHE / "speedscope-1.25.0/node_modules/speedscope/dist/release/index.html"
    return page if page.exists() else lack(f"there is no {page}")


def test_its_table_has_our_times(browser: Chrome, program_page: Path, tmp_path: Path) -> None:
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
    browser.get_log("browser")
    browser.get("about:blank")
    browser.get(f"file://{program_page}#localProfilePath={script}")
    wait = WebDriverWait(browser, LIMIT_S)
    wait.until(lambda page: "app.py" in page.title)
    sandwich = (By.XPATH, "//*[contains(text(), 'Sandwich')]")
    wait.until(lambda page: page.find_elements(*sandwich))[0].click()
    rows = wait.until(lambda page: page.find_elements(By.CSS_SELECTOR, "table tr"))
    told = {name: (total, own) for total, own, name in (row.text.split("\n") for row in rows[1:])}
    assert told == {
        "main": ("120.00ms (100%)", "30.00ms (25%)"),
        "work": ("60.00ms (50%)", "60.00ms (50%)"),
        "</script><b>": ("30.00ms (25%)", "30.00ms (25%)"),
    }
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
