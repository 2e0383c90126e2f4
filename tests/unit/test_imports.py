"""The rules of imports, read from the sources: who may import whom, and what an import may cost."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "xla_notebook"
ROOMS = ("backend", "session", "protocol", "notebook")  # each may import from those before it
SOURCES = sorted(path.relative_to(PACKAGE) for room in ROOMS for path in (PACKAGE / room).rglob("*.py"))


def imported_modules(source: str, package: str) -> Iterator[str]:
    """Yield the full names that a source imports; ``package`` is the one that its module is in."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def wrong_imports(source: str, room: str, package: str) -> list[str]:
    later = ROOMS[ROOMS.index(room) + 1 :]
    prefixes = tuple(f"xla_notebook.{name}." for name in later)
    return [name for name in imported_modules(source, package) if f"{name}.".startswith(prefixes)]


def names_private_api(source: str) -> bool:
    """Whether code (not prose) names torch_xla's private module."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr == "_XLAC")
        or (isinstance(node, ast.Name) and node.id == "_XLAC")
        or (isinstance(node, ast.alias) and "_XLAC" in node.name.split("."))
        or (isinstance(node, ast.ImportFrom) and "_XLAC" in (node.module or "").split("."))
        or (isinstance(node, ast.Constant) and node.value in ("_XLAC", "torch_xla._XLAC"))
        for node in ast.walk(ast.parse(source))
    )


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_imports_run_one_way(path: Path) -> None:
    source = (PACKAGE / path).read_text()
    package = ".".join(["xla_notebook", *path.parent.parts])
    assert wrong_imports(source, path.parts[0], package) == []


@pytest.mark.parametrize("path", [p for p in SOURCES if str(p) != "backend/runtime.py"], ids=str)
def test_private_api_is_touched_in_one_file_only(path: Path) -> None:
    assert not names_private_api((PACKAGE / path).read_text())


@pytest.mark.parametrize(
    ("source", "room"),
    [
        ("import xla_notebook.session", "backend"),
        ("from xla_notebook import notebook", "session"),
        ("def f():\n    from xla_notebook.notebook.doctor import check", "protocol"),
        ("from ..session.store import Session", "backend"),
        ("from .. import session", "backend"),
    ],
)
def test_the_rule_sees_each_way_to_import(source: str, room: str) -> None:
    assert wrong_imports(source, room, f"xla_notebook.{room}")


@pytest.mark.parametrize(
    "source",
    [
        "import torch_xla; torch_xla._XLAC.f()",
        "import _XLAC",
        "from torch_xla import _XLAC as x",
        "from torch_xla._XLAC import f",
        "getattr(torch_xla, '_XLAC')",
    ],
)
def test_the_rule_sees_each_way_to_name_the_private_api(source: str) -> None:
    assert names_private_api(source)


@pytest.mark.parametrize("module", ["xla_notebook", "xla_notebook.notebook.doctor", "xla_notebook.backend.device"])
def test_import_is_cheap(module: str) -> None:
    code = f"import sys, {module}; print([m for m in ('torch', 'torch_xla', 'IPython') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
