"""What is installed, whether it fits together, and what to do where it does not.

``check`` is used by ``python -m xla_notebook doctor`` and by ``%load_ext xla_notebook``, so that both say
the same words. It never creates the XLA client: ``torch_xla.launch`` and ``xmp.spawn`` refuse to start
once the parent process has one.
"""

import enum
import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path

from xla_notebook.backend import device

SUPPORTED_TORCH = (2, 9)  # minor version of torch and torch_xla; pyproject.toml states the same
SUPPORTED_PYTHON = ((3, 10), (3, 14))  # from, and before
SUBSHELL_IPYKERNEL = 7  # the first ipykernel that answers messages while a cell runs

BACKEND_NAME = "xla_notebook"
LAB_EXTENSION = "xla-notebook"

# How to get a pair that fits; one wording, used wherever the pair is missing or clashes.
_INSTALL_PAIR = "pip install 'torch=={0}.{1}.*' 'torch_xla=={0}.{1}.*', then restart the kernel".format(
    *SUPPORTED_TORCH
)


class Level(enum.Enum):
    """How much a finding matters."""

    OK = "ok"
    NOTE = "note"  # works, with something missing
    WRONG = "WRONG"  # cells cannot be compiled until this is mended


@dataclass(frozen=True)
class Finding:
    """One thing that was checked: what it is, how it stands, and what to do where that is not well."""

    subject: str
    level: Level
    text: str
    remedy: str = ""


def check() -> list[Finding]:
    """Check everything and return the findings in reading order.

    Chooses the CPU as device where there is nothing to choose from (``device.choose_device``) and imports
    torch_xla, which is the only way to know that it loads. Creates no XLA client.
    """
    device_line = device.choose_device()  # first: torch_xla chooses for itself, with a warning, at import
    return [
        _check_python(sys.version_info[:3]),
        *check_torch_pair(_installed_version("torch"), _installed_version("torch_xla"), _import_torch_xla),
        *_check_device(device_line),
        _check_backend(),
        _check_package("ipython", Level.WRONG, "the magics need IPython"),
        _check_package("ipykernel", Level.NOTE, "needed in notebooks, not in a terminal IPython"),
        *_check_subshells(),
        _check_package("jupyterlab", Level.NOTE, "needed for the sidebar; the magics work without"),
        _check_package("ipywidgets", Level.NOTE, "needed for the inspector widget"),
        _check_package("anywidget", Level.NOTE, "needed for the inspector widget"),
        *check_lab_extensions(_lab_extension_directories()),
    ]


def main_job_works(findings: Iterable[Finding]) -> bool:
    """Return whether cells can be compiled, as far as the findings tell."""
    return all(finding.level is not Level.WRONG for finding in findings)


def render(findings: Iterable[Finding]) -> str:
    """Return the findings as text, one a line, with what to do under each that is not well."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.level.value:>5}  {finding.subject}: {finding.text}")
        if finding.remedy:
            lines.append(f"       -> {finding.remedy}")
    return "\n".join(lines)


def check_torch_pair(
    torch_version: str | None, torch_xla_version: str | None, import_torch_xla: Callable[[], str]
) -> list[Finding]:
    """Check that torch and torch_xla are there, are a pair, and load.

    ``import_torch_xla`` returns the reason why torch_xla does not load, or an empty string. It is called
    only for a pair that fits: loading a clashing binary may take the process down.
    """
    findings = []
    for name, found in (("torch", torch_version), ("torch_xla", torch_xla_version)):
        if found is None:
            findings.append(Finding(name, Level.WRONG, "not installed", _INSTALL_PAIR))
        elif _minor(found) == SUPPORTED_TORCH:
            findings.append(Finding(name, Level.OK, found))
        else:
            wanted = ".".join(map(str, SUPPORTED_TORCH))
            text = f"{found} is not supported; this version needs {wanted}"
            findings.append(Finding(name, Level.WRONG, text, _INSTALL_PAIR))
    if torch_version is None or torch_xla_version is None:
        return findings

    pair = f"torch {torch_version} and torch_xla {torch_xla_version}"
    if _minor(torch_version) != _minor(torch_xla_version):
        text = f"{pair} clash: each torch_xla is built for one minor version of torch"
        return [*findings, Finding("pair", Level.WRONG, text, _INSTALL_PAIR)]
    if main_job_works(findings):
        reason = import_torch_xla()
        if "undefined symbol" in reason:
            text = f"{pair} clash: one was built for another build of the other ({reason})"
            findings.append(Finding("pair", Level.WRONG, text, _INSTALL_PAIR))
        elif reason:
            text = f"torch_xla {torch_xla_version} does not load: {reason}"
            findings.append(Finding("pair", Level.WRONG, text, _INSTALL_PAIR))
        else:
            findings.append(Finding("pair", Level.OK, "torch_xla loads with this torch"))
    return findings


def check_lab_extensions(directories: Iterable[Path]) -> list[Finding]:
    """Check that JupyterLab finds our extension and those that widgets need.

    ``directories`` are the ``labextensions`` directories that JupyterLab reads, first one first.
    """
    directories = list(directories)
    findings = []
    for name, use, remedy in (
        (LAB_EXTENSION, "the sidebar", "pip install --force-reinstall --no-deps xla_notebook"),
        ("@jupyter-widgets/jupyterlab-manager", "widgets", "pip install ipywidgets"),
        ("anywidget", "the inspector widget", "pip install anywidget"),
    ):
        subject = f"lab extension {name}"
        manifest = next((d / name / "package.json" for d in directories if (d / name).is_dir()), None)
        if manifest is None:
            text = f"not installed in this environment; {use} will not show"
            findings.append(Finding(subject, Level.NOTE, text, remedy))
            continue
        try:
            findings.append(Finding(subject, Level.OK, json.loads(manifest.read_text())["version"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            text = f"{manifest} is not readable ({error!r}); {use} may not show"
            findings.append(Finding(subject, Level.NOTE, text, remedy))
    return findings


def _check_python(found: tuple[int, ...]) -> Finding:
    first, before = SUPPORTED_PYTHON
    text = ".".join(map(str, found))
    if first <= found[:2] < before:
        return Finding("python", Level.OK, text)
    wanted = f"{first[0]}.{first[1]} to {before[0]}.{before[1] - 1}"
    return Finding("python", Level.WRONG, f"{text} is not supported", f"use Python {wanted}")


def _check_device(line: str) -> list[Finding]:
    findings = [Finding("device", Level.OK, line)]
    if os.environ.get(device.ENVIRONMENT_VARIABLE, "CPU") == "CPU" and device.count_tpu_chips():
        has_libtpu = "TPU_LIBRARY_PATH" in os.environ or device.is_importable("libtpu")
        text = "this machine has TPU chips, but the CPU is used"
        remedy = f"set {device.ENVIRONMENT_VARIABLE}=TPU" if has_libtpu else "pip install 'torch_xla[tpu]'"
        findings.append(Finding("TPU", Level.NOTE, text, remedy))
    return findings


def _check_backend() -> Finding:
    registered = {backend.name for backend in entry_points(group="torch_dynamo_backends")}
    subject = "torch.compile backend"
    if BACKEND_NAME in registered:
        return Finding(subject, Level.OK, f'backend="{BACKEND_NAME}" is registered')
    return Finding(subject, Level.WRONG, "not registered", "pip install xla_notebook (or pip install -e .)")


def _check_package(name: str, level_if_missing: Level, why: str) -> Finding:
    found = _installed_version(name)
    if found is None:
        return Finding(name, level_if_missing, f"not installed; {why}", f"pip install {name}")
    return Finding(name, Level.OK, found)


def _check_subshells() -> list[Finding]:
    found = _installed_version("ipykernel")
    if found is None or _minor(found)[0] >= SUBSHELL_IPYKERNEL:
        return []
    text = f"{found} answers clicks only after the running cell has ended"
    return [Finding("ipykernel", Level.NOTE, text, f"pip install 'ipykernel>={SUBSHELL_IPYKERNEL}'")]


def _installed_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _minor(version_text: str) -> tuple[int, int]:
    """Return the first two numbers of a version: (2, 9) for "2.9.1+cpu"."""
    numbers = re.match(r"(\d+)\.(\d+)", version_text)
    if numbers is None:
        raise ValueError(f"not a version number: {version_text!r}")
    return int(numbers[1]), int(numbers[2])


def _import_torch_xla() -> str:
    try:
        importlib.import_module("torch_xla")
    except Exception as error:  # whatever it raises is what is wrong, and is reported
        return f"{type(error).__name__}: {error}"
    return ""


def _lab_extension_directories() -> list[Path]:
    try:
        paths = importlib.import_module("jupyter_core.paths")
    except ImportError:
        return []  # no Jupyter here, which the check of jupyterlab reports
    return [Path(directory) for directory in paths.jupyter_path("labextensions")]
