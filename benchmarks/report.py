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

# Zooms in and out with the wheel, a step a frame, and counts the frames that were shown meanwhile; without a selector
# it only counts. `own`: how long the page's own callbacks took in each frame.
ZOOM = """async ([selector, seconds]) => {
  const box = selector ? document.querySelector(selector) : null;
  const area = box?.getBoundingClientRect();
  const next = window.requestAnimationFrame.bind(window);
  let work = 0;
  window.requestAnimationFrame = (callback) => next((now) => {
    const begin = performance.now();
    callback(now);
    work += performance.now() - begin;
  });
  const gaps = [];
  const own = [];
  let last = await new Promise(next);
  const end = last + seconds * 1000;
  for (let step = 0; last < end; step++) {
    const deltaY = Math.floor(step / 45) % 2 === 0 ? -40 : 40;
    const place = area && { clientX: area.left + area.width * 0.31, clientY: area.top + 30 };
    box?.dispatchEvent(new WheelEvent("wheel", { deltaY, ctrlKey: true, bubbles: true, cancelable: true, ...place }));
    const now = await new Promise(next);
    gaps.push(now - last);
    own.push(work);
    work = 0;
    last = now;
  }
  window.requestAnimationFrame = next;
  gaps.sort((a, b) => a - b);
  own.sort((a, b) => a - b);
  const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
  const late = gaps.filter((gap) => gap > 25).length;
  const [half, most] = [own[own.length >> 1], own.at(-1)];
  return { fps: 1000 / mean, slowest: gaps.at(-1), late, frames: gaps.length, half, most };
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
                print_zoom(view, page.evaluate(ZOOM, [selector, ZOOM_S]), "target: 60")
                blank = page.context.browser.new_page()
                print_zoom("nothing", blank.evaluate(ZOOM, ["", ZOOM_S]), "what an empty page has")
                blank.close()


def print_zoom(view: str, seen: dict[str, float], beside: str) -> None:
    """What ZOOM has seen of a view."""
    own = f"; own work {seen['half']:.1f} ms in the median, {seen['most']:.0f} at most" if seen["most"] else ""
    late = f"{seen['late']} of {seen['frames']} later than 25 ms, the latest {seen['slowest']:.0f} ms"
    print(f"zoom      {seen['fps']:6.1f} frames/s    {beside}; {view}, {late}{own}")


if __name__ == "__main__":
    main()
