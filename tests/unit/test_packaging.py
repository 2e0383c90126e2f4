"""What is stated in more than one place agrees, and what an installation promises is there."""

import json
import os
import subprocess
import sys
import zipfile
from importlib.metadata import entry_points, metadata, requires, version
from pathlib import Path

import nbformat
import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import xla_notebook
from xla_notebook.notebook import doctor

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.ipynb"))


def test_there_is_one_version() -> None:
    package = json.loads((ROOT / "package.json").read_text())
    lock = json.loads((ROOT / "package-lock.json").read_text())
    assert package["version"] == lock["version"] == version("xla_notebook") == xla_notebook.__version__


@pytest.mark.parametrize("name", ["torch", "torch-xla"])
def test_the_doctor_supports_what_the_package_requires(name: str) -> None:
    requirements = {
        requirement.name.replace("_", "-"): requirement
        for requirement in map(Requirement, requires("xla_notebook") or [])
    }
    major, minor = doctor.SUPPORTED_TORCH
    supported = requirements[name].specifier
    assert f"{major}.{minor}.0" in supported
    assert f"{major}.{minor}.9" in supported
    assert f"{major}.{minor - 1}.9" not in supported
    assert f"{major}.{minor + 1}.0" not in supported


def test_the_doctor_supports_the_pythons_of_the_package() -> None:
    supported = SpecifierSet(metadata("xla_notebook")["Requires-Python"])
    (major, first), (_, before) = doctor.SUPPORTED_PYTHON
    assert [minor for minor in range(30) if f"{major}.{minor}.0" in supported] == list(range(first, before))


def test_the_backend_is_registered_and_loads() -> None:
    (backend,) = entry_points(group="torch_dynamo_backends", name=doctor.BACKEND_NAME)
    assert callable(backend.load())


def test_torch_lists_the_backend_without_an_import_of_ours() -> None:
    code = "import sys, torch\nprint('xla_notebook' in torch._dynamo.list_backends(), 'xla_notebook' in sys.modules)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_jupyterlab_lists_the_extension_as_enabled_and_ok() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "jupyter", "labextension", "list"], capture_output=True, text=True, check=True
    )
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "xla-notebook v" in line]
    assert len(lines) == 1
    assert "enabled" in lines[0]
    assert "OK" in lines[0]


def test_the_extension_takes_every_jupyterlab_that_the_package_allows() -> None:
    package = json.loads((ROOT / "package.json").read_text())
    # Without these lines the builder asks for the version that it was built with.
    shared = package["jupyterlab"]["sharedPackages"]
    used = {name: range for name, range in package["dependencies"].items() if name.startswith("@jupyterlab/")}
    assert {name: entry["requiredVersion"] for name, entry in shared.items()} == used
    (required,) = [line for line in map(Requirement, requires("xla_notebook") or []) if line.name == "jupyterlab"]
    oldest = used["@jupyterlab/application"].removeprefix("^")
    assert oldest in required.specifier
    assert f"{oldest.rpartition('.')[0]}.dev0" not in required.specifier


def test_jupyter_is_told_where_the_extension_is() -> None:
    (paths,) = xla_notebook._jupyter_labextension_paths()
    manifest = json.loads((ROOT / "xla_notebook" / paths["src"] / "package.json").read_text())
    assert manifest["name"] == paths["dest"] == doctor.LAB_EXTENSION


def test_the_wheel_brings_the_widget_and_the_sidebar_without_node(tmp_path: Path) -> None:
    # What was built is there, so that neither Node nor npm is asked for.
    environment = os.environ | {"HATCH_JUPYTER_BUILDER_SKIP_NPM": "1"}
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    lab = f"xla_notebook-{version('xla_notebook')}.data/data/share/jupyter/labextensions/xla-notebook"
    for wanted in (
        "xla_notebook/static/widget.js",
        "xla_notebook/py.typed",
        f"{lab}/package.json",
        f"{lab}/install.json",
    ):
        assert wanted in names
    assert any(name.startswith(f"{lab}/static/remoteEntry.") for name in names)
    assert any(name.startswith(f"{lab}/schemas/") for name in names)
    assert not [
        name for name in names if name.startswith(("xla_notebook/labextension", "tests", "benchmarks", "examples"))
    ]


def test_the_lock_file_names_no_registry() -> None:
    assert '"resolved"' not in (ROOT / "package-lock.json").read_text()


def test_make_help_lists_the_front_door() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = {line.split()[0] for line in done.stdout.splitlines()[1:]}
    assert {"setup", "demo", "lab", "test", "check", "build", "clean"} <= listed


def test_examples_are_committed_without_outputs() -> None:
    assert EXAMPLES
    for path in EXAMPLES:
        cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        assert all(cell.outputs == [] and cell.execution_count is None for cell in cells), path.name


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'sesion'"):
        _ = xla_notebook.sesion  # type: ignore[attr-defined]
