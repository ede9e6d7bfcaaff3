"""How long weft view takes with a large capture: to serve it, to open, to tell some time in full, and to refresh.

python -m benchmarks.view [CAPTURE]
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks import large_capture
from benchmarks.browser import LIMIT_MS, new_page, opening_s
from weft.live.feed import Feed
from weft.profile.tables import View

OPENINGS = 3
SHORTER = 480_000  # samples: a minute of eight threads at 1 kHz


def main() -> None:
    """Make the capture, unless there is one, and measure."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "large.weft"
        if not path.exists():
            large_capture.make(path)
        in_browser(path)
        small = Path(folder) / "small.weft"
        large_capture.make(small, SHORTER)
        refresh(small)


def in_browser(path: Path) -> None:
    """From the command to the drawn page, and from a choice of time to its numbers."""
    from playwright.sync_api import expect, sync_playwright

    began = time.monotonic()
    command = [sys.executable, "-m", "weft", "view", "--no-browser", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as view, sync_playwright() as playwright:
        assert view.stderr
        url = view.stderr.readline().decode().removeprefix("weft: ").strip()
        print(f"served   {time.monotonic() - began:6.1f} s  from the command to its address")
        page = new_page(playwright)
        opened = opening_s(page, url, OPENINGS)
        print(f"open     {median(opened):6.2f} s  until all is drawn; of {OPENINGS}: {opened}")
        page.goto("about:blank")
        page.goto(f"{url}#time=100000000-130000000")
        page.wait_for_selector("body[data-ready]", timeout=LIMIT_MS)
        began = time.monotonic()
        expect(page.locator("#order")).to_contain_text("From", timeout=LIMIT_MS)
        print(f"in full  {time.monotonic() - began:6.1f} s  for half a minute of the time")
        view.send_signal(signal.SIGINT)


def refresh(path: Path) -> None:
    """What one reading of a capture takes, as each refresh of one that grows does."""
    feed = Feed(path, View())
    began = time.process_time()
    told = feed.data()
    assert told
    took_s = time.process_time() - began
    print(f"refresh  {took_s:6.1f} s  of CPU time, of {SHORTER:,} samples: {len(told.data):,} bytes")
    feed.close()


if __name__ == "__main__":
    main()
