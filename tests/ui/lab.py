"""A real JupyterLab in a real browser; what a user does is a method, named after it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Playwright, expect

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Chromium must not look for hosts of its maker, nor share memory that a container has little of.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
SLOW_MS = 60_000
expect.set_options(timeout=SLOW_MS)


def browser_path() -> str:
    """Where Chromium is."""
    named = os.environ.get("XLA_NOTEBOOK_BROWSER")
    found = named or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise RuntimeError("no Chromium was found: apt-get install chromium, or name one in XLA_NOTEBOOK_BROWSER")
    return found


def launch(playwright: Playwright) -> Browser:
    """Start the browser."""
    return playwright.chromium.launch(executable_path=browser_path(), args=list(FLAGS))


def settings_of(files: Path) -> Path:
    """Where the server of these files keeps what the user has chosen of our settings."""
    return files.parent / "home" / "settings" / "xla-notebook"


@contextlib.contextmanager
def server(directory: Path, app: str = "jupyterlab") -> Iterator[str]:
    """A Jupyter server (`app`: ``jupyterlab`` or ``notebook``) with settings of its own; gives its address."""
    home, files = directory / "home", directory / "files"
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    for made in (files, settings):
        made.mkdir(parents=True, exist_ok=True)
    # A dialog that asks about news would cover the page.
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    (settings.parent / "docmanager-extension").mkdir(exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(8)
    environment = os.environ | {
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "PJRT_DEVICE": "CPU",
    }
    command = [sys.executable, "-m", app, "--no-browser", "--ip=127.0.0.1", f"--port={port}"]
    command += [f"--IdentityProvider.token={token}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={files}"]
    command += [
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.expose_app_in_browser=True",
    ]
    command += ["--JupyterNotebookApp.expose_app_in_browser=True"]
    command += ["--allow-root"] if os.geteuid() == 0 else []
    log = (directory / "server.log").open("w")
    process = subprocess.Popen(command, env=environment, cwd=files, stdout=log, stderr=log)
    try:
        address = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"{address}/api/status?token={token}", timeout=5).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((directory / "server.log").read_text()) from None
                time.sleep(0.2)
        yield f"{address}/{{}}?token={token}"
    finally:
        process.terminate()
        # It shuts its kernels down first, which takes its time on a busy machine.
        process.wait(120)
        log.close()


class Lab:
    """JupyterLab with one page open. `problems` are the errors and warnings of ours in its console."""

    def __init__(self, page: Page, address: str, files: Path, shots: Path) -> None:
        self.page = page
        self.problems: list[str] = []
        self._address = address
        self._files = files
        self._shots = shots
        page.set_default_timeout(SLOW_MS)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.problems.append(str(error)))

    def write_notebook(self, name: str, cells: Sequence[str]) -> str:
        """Save a notebook with these cells, for the test kernel."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self._files / name)
        return name

    def write_file(self, name: str, text: str = "") -> None:
        """Put a file beside the notebooks."""
        (self._files / name).write_text(text)

    def write_settings(self, **values: Any) -> None:
        """What the user has chosen in the Settings Editor, to be read when the page is loaded."""
        directory = settings_of(self._files)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "settings.jupyterlab-settings").write_text(json.dumps(values))

    def read_notebook(self, name: str) -> Any:
        """The notebook as it is on disk."""
        return nbformat.read(self._files / name, as_version=4)

    def open_notebook(self, name: str, fresh: bool = True) -> None:
        """Open a notebook and wait for its kernel. `fresh`: with nothing else open."""
        self.page.goto(self._address.format(f"lab/tree/{name}") + ("&reset" if fresh else ""))
        self.wait_for_kernel()

    def wait_for_kernel(self) -> None:
        """Wait until the kernel of the notebook in front is idle: a cell run before is dropped silently."""
        expect(self.page.locator("#jp-main-statusbar").get_by_text("| Idle")).to_be_visible(timeout=2 * SLOW_MS)

    def command(self, name: str, **arguments: Any) -> None:
        """Run one of JupyterLab's commands, and do not wait for its end: some wait for a dialog."""
        self.page.evaluate(
            "([name, args]) => { void window.jupyterapp.commands.execute(name, args); }", [name, arguments]
        )

    def cell(self, index: int) -> Locator:
        """A cell of the notebook in front."""
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell").nth(index)

    def start_cell(self, index: int) -> None:
        """Run a cell with Shift+Enter, and do not wait for it."""
        self.cell(index).locator(".jp-InputArea-editor .cm-content").click()
        self.page.keyboard.press("Shift+Enter")

    def wait_for_cell(self, index: int) -> None:
        """Wait until a cell that was started has ended."""
        prompt = self.cell(index).locator(".jp-InputPrompt")
        expect(prompt).not_to_have_text("[*]:", timeout=2 * SLOW_MS)
        expect(prompt).not_to_have_text("[ ]:", timeout=SLOW_MS)

    def run_cell(self, index: int) -> None:
        """Run a cell and wait for its end."""
        self.start_cell(index)
        self.wait_for_cell(index)

    def is_running(self, index: int) -> bool:
        """Whether a cell's prompt says that it runs."""
        return self.cell(index).locator(".jp-InputPrompt").inner_text() == "[*]:"

    def save(self) -> None:
        """Save the notebook in front."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")

    def use_theme(self, name: str) -> None:
        """Switch to another theme, by its name."""
        self.page.evaluate("name => window.jupyterapp.commands.execute('apputils:change-theme', { theme: name })", name)
        expect(self.page.locator(f"body[data-jp-theme-name='{name}']")).to_be_attached()

    def restart_kernel(self) -> None:
        """Restart the kernel of the notebook in front, and say yes to the question."""
        self.command("kernelmenu:restart")
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        self.page.wait_for_timeout(1000)
        self.wait_for_kernel()

    def shut_down_kernels(self) -> None:
        """End all kernels of the server, so that the next test has the machine for itself."""
        for kernel in self._api("GET", "kernels"):
            self._api("DELETE", f"kernels/{kernel['id']}")

    def _api(self, method: str, path: str) -> Any:
        request = urllib.request.Request(self._address.format(f"api/{path}"), method=method)
        with urllib.request.urlopen(request, timeout=30) as reply:
            body = reply.read()
        return json.loads(body) if body else None

    def screenshot(self, name: str) -> Path:
        """Keep a picture of the page among the files of the test run."""
        path = self._shots / f"{name}.png"
        self.page.screenshot(path=path)
        return path

    def accessibility_violations(self, selector: str) -> list[str]:
        """What axe finds wrong in a part of the page."""
        source = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
        self.page.evaluate(source.read_text())
        found = self.page.evaluate("selector => axe.run(selector)", selector)
        return [f"{item['id']}: {json.dumps([node['html'] for node in item['nodes']])}" for item in found["violations"]]

    def _heard(self, message: ConsoleMessage) -> None:
        ours = "xla" in (message.text + str(message.location.get("url", ""))).lower()
        if message.type in ("error", "warning") and ours:
            self.problems.append(f"{message.type}: {message.text}")
