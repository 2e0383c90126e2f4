"""Makes the README's picture of the inspector: a real notebook in a real JupyterLab, below the widget and beside it.

Run by ``make screenshots``. Needs Chromium, like the tests of the page, and uses their helpers.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ui.lab import Lab, launch, server  # noqa: E402  (found through the line above)

CELLS = (
    """%load_ext xla_notebook
import torch, torch_xla
from sklearn.datasets import load_digits

digits = load_digits()
images = torch.tensor(digits.data / 16, dtype=torch.float32, device="xla")
labels = torch.tensor(digits.target, device="xla")
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
torch_xla.sync()""",
    """%%xla_compile --name train
for epoch in range(200):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()""",
    "%xla_inspect",
)


def main() -> None:
    """Write ``docs/inspector.png``."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        directory = Path(name)
        with server(directory) as address:
            browser = launch(playwright)
            page = browser.new_page(viewport={"width": 1680, "height": 1000})
            lab = Lab(page, address, directory / "files", ROOT / "docs")
            lab.write_notebook("digits.ipynb", CELLS)
            lab.open_notebook("digits.ipynb")
            for index in range(len(CELLS)):
                lab.run_cell(index)
            lab.command("filebrowser:hide-main")
            lab.command("xla-notebook:open")
            widget = page.locator(".jp-NotebookPanel .xla-notebook")
            widget.scroll_into_view_if_needed()
            expect(widget.get_by_role("row").filter(has_text="train").first).to_be_visible()
            sidebar = page.locator("#jp-right-stack .xla-notebook")
            sidebar.get_by_role("tab", name="Buffers").click()
            expect(sidebar.get_by_role("row").nth(3)).to_be_visible()
            page.wait_for_timeout(1000)
            print(lab.screenshot("inspector"))
            browser.close()


if __name__ == "__main__":
    main()
