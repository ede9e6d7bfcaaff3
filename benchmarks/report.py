"""How large the report of a large capture is, how long it takes to open, and how smoothly it zooms, in Chromium.

python -m benchmarks.report [CAPTURE]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks import large_capture
from benchmarks.browser import new_page, opening_s
from weft.capture import Capture
from weft.report.html import render

OPENINGS = 5
ZOOM_S = 3

# Zooms in and out with the wheel, a step a frame, and counts the frames that were shown meanwhile.
ZOOM = """async ([selector, seconds]) => {
  const box = document.querySelector(selector);
  const area = box.getBoundingClientRect();
  const gaps = [];
  let last = await new Promise(requestAnimationFrame);
  const end = last + seconds * 1000;
  for (let step = 0; last < end; step++) {
    const deltaY = Math.floor(step / 45) % 2 === 0 ? -40 : 40;
    const place = { clientX: area.left + area.width * 0.31, clientY: area.top + 30 };
    box.dispatchEvent(new WheelEvent("wheel", { deltaY, ctrlKey: true, bubbles: true, cancelable: true, ...place }));
    const now = await new Promise(requestAnimationFrame);
    gaps.push(now - last);
    last = now;
  }
  gaps.sort((a, b) => a - b);
  const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
  return { fps: 1000 / mean, slowest: gaps.at(-1), late: gaps.filter((gap) => gap > 25).length, frames: gaps.length };
}"""


def main() -> None:
    """Make the capture, unless there is one, then the report, and measure."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "large.weft"
        if not path.exists():
            began = time.monotonic()
            large_capture.make(path)
            print(f"capture   {path.stat().st_size / 1e6:6.1f} MB, made in {time.monotonic() - began:.0f} s")
        page_path = Path(folder) / "large.html"
        began = time.monotonic()
        with Capture(path) as capture:
            page_path.write_text(render(capture), "utf-8")
        print(f"written   {time.monotonic() - began:6.1f} s  by weft report")
        print(f"size      {page_path.stat().st_size / 1e6:6.1f} MB          target: under 15")
        with sync_playwright() as playwright:
            page = new_page(playwright)
            opened = opening_s(page, page_path.as_uri(), OPENINGS)
            print(f"open      {median(opened):6.2f} s           target: under 2; of {OPENINGS}: {opened}")
            for view, selector in (("flame", "#graph"), ("timeline", "#timeline")):
                page.click(f"#tab-{view}")
                page.wait_for_timeout(500)
                seen = page.evaluate(ZOOM, [selector, ZOOM_S])
                print(
                    f"zoom      {seen['fps']:6.1f} frames/s    target: 60; {view}, {seen['frames']} frames, "
                    f"{seen['late']} of them later than 25 ms, the latest {seen['slowest']:.0f} ms"
                )


if __name__ == "__main__":
    main()
