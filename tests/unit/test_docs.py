"""The documentation builds without a warning, links between its pages included, and holds all that it should."""

from __future__ import annotations

import functools
import html
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import pytest

from xla_notebook.notebook import inspect_magics, options
from xla_notebook.session import events
from xla_notebook.session.settings import CHOICES

ROOT = Path(__file__).parents[2]
PICTURES = sorted([*ROOT.glob("docs/pictures/*.svg"), *ROOT.glob("examples/pictures/*.svg")])


@functools.cache
def built() -> Path:
    """The pages, built with every warning as an error."""
    out = Path(tempfile.mkdtemp(prefix="docs"))
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(out / "trees")]
    done = subprocess.run([*command, str(ROOT / "docs"), str(out / "html")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out / "html"


def text(page: str) -> str:
    markup = (built() / f"{page}.html").read_text(encoding="utf-8")
    return html.unescape(re.sub(r"<[^>]+>", "", markup))


@pytest.mark.slow
def test_every_magic_option_setting_and_event_is_in_the_reference() -> None:
    magics = text("magics")
    names = [f"%{name}" for name in inspect_magics.NAMES] + ["%%xla_compile", "%xla_compile"]
    assert [name for name in names if name not in magics] == []
    assert [word for word in re.findall(r"--[\w-]+", options.HELP) if word not in magics] == []
    settings = text("settings")
    assert [name for name in CHOICES if name not in settings] == []
    told = text("events")
    assert 0 < told.find("All of them have seq, time_ns, cell, source.") < told.find("traced: Traced")
    assert [kind for kind in get_args(events.Event) if f"{kind.kind}: {kind.__name__}" not in told] == []


@pytest.mark.slow
def test_every_tutorial_is_listed() -> None:
    listed = text("tutorials")
    assert [path.stem for path in ROOT.glob("examples/*.ipynb") if path.stem not in listed] == []


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_pictures_say_in_words_what_they_show(picture: Path) -> None:
    root = ElementTree.parse(picture).getroot()
    assert root.get("role") == "img"
    names = {element.get("id") for element in root if element.tag.endswith(("}title", "}desc")) and element.text}
    assert set((root.get("aria-labelledby") or "").split()) == names != set()
