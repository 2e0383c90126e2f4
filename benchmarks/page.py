"""``python -m benchmarks.page``: how smoothly the inspector's view keeps up with a large session, in headless Chromium.

10,000 buffers, 1,000 graphs and 100,000 events, updated 10 times a second, each panel still and while it is scrolled.
A frame is in time if it comes at most 16.7 ms (a tick of 60 Hz) after the one
before. Needs Chromium, like the tests of the page, and uses their helpers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ui.lab import launch  # noqa: E402  (found through the line above)

PAGE = Path("build/demo.html")
PANELS = ("graphs", "buffers", "events")
SECONDS = 6

# Times between frames while updates come in; `scroll` moves the table by a row and a half per frame, and back.
MEASURE = """
async ([seconds, scroll]) => {
  const grid = document.querySelector('.xn-grid');
  const gaps = [];
  let last = null, way = 37;
  page.run(10);
  await new Promise(done => {
    const end = performance.now() + seconds * 1000;
    const tick = now => {
      if (last !== null) gaps.push(now - last);
      last = now;
      if (scroll) {
        const before = grid.scrollTop;
        grid.scrollTop += way;
        if (grid.scrollTop === before) way = -way;
      }
      now < end ? requestAnimationFrame(tick) : done();
    };
    requestAnimationFrame(tick);
  });
  page.stop();
  return gaps;
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to a file")
    options = parser.parse_args()
    subprocess.run(["node", "labextension/build-demo.mjs"], check=True)
    rows: list[dict[str, Any]] = []
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'panel':10}{'scrolled':10}{'paint ms':>10}{'frames':>8}{'<= 16.7 ms':>12}{'p95 ms':>8}{'max ms':>8}")
    with sync_playwright() as playwright:
        browser = launch(playwright)
        for panel in PANELS:
            for scrolled in (False, True):
                row = _measure(browser, panel, scrolled)
                rows.append(row)
                print(
                    f"{panel:10}{'yes' if scrolled else 'no':10}{row['first_paint_ms']:>10.0f}{row['frames']:>8}"
                    f"{row['in_time']:>12.1%}{row['p95_ms']:>8.1f}{row['max_ms']:>8.1f}",
                    flush=True,
                )
        browser.close()
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def _measure(browser: Browser, panel: str, scrolled: bool) -> dict[str, Any]:
    page = browser.new_page(viewport={"width": 1200, "height": 700})
    page.goto(f"{PAGE.resolve().as_uri()}?scene=large&panel={panel}")
    page.wait_for_function("page.firstPaintMs !== null")
    first_paint_ms = page.evaluate("page.firstPaintMs")
    page.evaluate("page.fill()")
    gaps = sorted(page.evaluate(MEASURE, [SECONDS, scrolled]))
    page.close()
    return {
        "panel": panel,
        "scrolled": scrolled,
        "first_paint_ms": first_paint_ms,
        "frames": len(gaps),
        # Timestamps of frames are rounded to a tenth of a millisecond.
        "in_time": sum(gap <= 16.8 for gap in gaps) / len(gaps),
        "p95_ms": gaps[int(len(gaps) * 0.95)],
        "max_ms": gaps[-1],
        "load": os.getloadavg()[0],
    }


if __name__ == "__main__":
    main()
