"""What the doctor finds, says and advises; also where torch_xla is missing, clashing or broken."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from xla_notebook.__main__ import main
from xla_notebook.notebook import doctor
from xla_notebook.notebook.doctor import Finding, Level

LOADS = ""
UNDEFINED_SYMBOL = "undefined symbol: _ZN5torch4lazy9BackendDataE"


def must_not_be_imported() -> str:
    raise AssertionError("a pair that clashes must not be loaded")


def wrong(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.level is Level.WRONG]


def run_python(arguments: list[str], before_site_packages: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(before_site_packages)}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)


@pytest.fixture
def broken_torch_xla(tmp_path: Path) -> Path:
    """A directory whose torch_xla fails to load as one does that was built for another torch."""
    (tmp_path / "torch_xla.py").write_text(f"raise ImportError('_XLAC.so: {UNDEFINED_SYMBOL}')\n")
    return tmp_path


@pytest.mark.parametrize("torch_version", ["2.9.0", "2.9.1", "2.9.0+cpu"])
def test_a_pair_that_fits_and_loads_is_well(torch_version: str) -> None:
    findings = doctor.check_torch_pair(torch_version, "2.9.0", lambda: LOADS)
    assert [finding.level for finding in findings] == [Level.OK] * 3


@pytest.mark.parametrize(
    ("torch_version", "torch_xla_version", "missing"),
    [("2.9.0", None, ["torch_xla"]), (None, "2.9.0", ["torch"]), (None, None, ["torch", "torch_xla"])],
)
def test_a_missing_half_is_named_with_what_to_install(
    torch_version: str | None, torch_xla_version: str | None, missing: list[str]
) -> None:
    found = wrong(doctor.check_torch_pair(torch_version, torch_xla_version, must_not_be_imported))
    assert [finding.subject for finding in found] == missing
    assert all("torch_xla==2.9.*" in finding.remedy for finding in found)


@pytest.mark.parametrize(("torch_version", "torch_xla_version"), [("2.8.0", "2.9.0"), ("2.9.1", "2.8.1")])
def test_a_clash_names_both_versions(torch_version: str, torch_xla_version: str) -> None:
    found = wrong(doctor.check_torch_pair(torch_version, torch_xla_version, must_not_be_imported))
    assert f"torch {torch_version} and torch_xla {torch_xla_version} clash" in doctor.render(found)
    assert "pip install 'torch==2.9.*' 'torch_xla==2.9.*'" in doctor.render(found)


def test_a_pair_of_another_version_is_not_supported_and_not_called_a_clash() -> None:
    found = wrong(doctor.check_torch_pair("2.8.0", "2.8.0", must_not_be_imported))
    assert [finding.subject for finding in found] == ["torch", "torch_xla"]
    assert "clash" not in doctor.render(found)


def test_another_build_of_the_same_version_is_a_clash_too() -> None:
    found = wrong(doctor.check_torch_pair("2.9.0", "2.9.0", lambda: f"ImportError: {UNDEFINED_SYMBOL}"))
    assert "torch 2.9.0 and torch_xla 2.9.0 clash" in doctor.render(found)
    assert UNDEFINED_SYMBOL in doctor.render(found)


def test_any_other_failure_to_load_is_told_in_its_own_words() -> None:
    found = wrong(doctor.check_torch_pair("2.9.0", "2.9.0", lambda: "OSError: libpython3.so: not found"))
    assert "torch_xla 2.9.0 does not load: OSError: libpython3.so: not found" in doctor.render(found)


def test_every_wrong_thing_and_every_note_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Given an environment that has nothing at all
    monkeypatch.setattr(doctor, "_installed_version", lambda name: None)
    monkeypatch.setattr(doctor, "entry_points", lambda group: [])
    monkeypatch.setattr(doctor, "_lab_extension_directories", lambda: [tmp_path])
    # When it is checked
    findings = doctor.check()
    # Then each thing is named with a remedy, and the main job cannot run
    unwell = [finding for finding in findings if finding.level is not Level.OK]
    assert {"torch", "torch_xla", "torch.compile backend", "ipython"} == {f.subject for f in wrong(unwell)}
    assert {"ipykernel", "jupyterlab", "anywidget", "lab extension xla-notebook"} <= {f.subject for f in unwell}
    assert all(finding.remedy for finding in unwell)
    assert not doctor.main_job_works(findings)


@pytest.mark.parametrize("version", [(3, 9, 18), (3, 14, 0), (2, 7, 18)])
def test_a_python_out_of_range_is_wrong(version: tuple[int, ...]) -> None:
    finding = doctor._check_python(version)
    assert (finding.level, finding.remedy) == (Level.WRONG, "use Python 3.10 to 3.13")


def test_an_old_ipykernel_is_said_to_answer_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_installed_version", lambda name: "6.31.0")
    assert [finding.level for finding in doctor._check_subshells()] == [Level.NOTE]


def test_tpu_chips_that_lie_idle_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    monkeypatch.setattr(doctor.device, "count_tpu_chips", lambda: 4)
    monkeypatch.setattr(doctor.device, "is_importable", lambda module: False)
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    assert doctor._check_device("line")[1].remedy == "pip install 'torch_xla[tpu]'"
    monkeypatch.setattr(doctor.device, "is_importable", lambda module: module == "libtpu")
    assert doctor._check_device("line")[1].remedy == "set PJRT_DEVICE=TPU"


def test_a_lab_extension_is_found_in_the_first_directory_that_has_it(tmp_path: Path) -> None:
    for name, version in (("first", "1.0.0"), ("second", "2.0.0")):
        (tmp_path / name / "xla-notebook").mkdir(parents=True)
        manifest = json.dumps({"version": version})
        (tmp_path / name / "xla-notebook" / "package.json").write_text(manifest)
    findings = doctor.check_lab_extensions([tmp_path / "absent", tmp_path / "first", tmp_path / "second"])
    assert (findings[0].level, findings[0].text) == (Level.OK, "1.0.0")


@pytest.mark.parametrize("manifest", [None, "{", "{}", "[]"])
def test_a_damaged_lab_extension_is_told_apart_from_a_missing_one(tmp_path: Path, manifest: str | None) -> None:
    (tmp_path / "xla-notebook").mkdir()
    if manifest is not None:
        (tmp_path / "xla-notebook" / "package.json").write_text(manifest)
    finding = doctor.check_lab_extensions([tmp_path])[0]
    assert finding.level is Level.NOTE
    assert "not readable" in finding.text


def test_the_command_says_that_this_environment_is_ready(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "torch_xla: 2.9" in said
    assert 'backend="xla_notebook" is registered' in said
    assert "WRONG" not in said


def test_the_command_fails_where_torch_xla_does_not_load(broken_torch_xla: Path) -> None:
    done = run_python(["-m", "xla_notebook", "doctor"], broken_torch_xla)
    assert done.returncode == 1
    assert UNDEFINED_SYMBOL in done.stdout
    assert done.stderr == ""


def test_load_ext_says_the_same_words_and_does_not_raise(broken_torch_xla: Path) -> None:
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "from xla_notebook.notebook import doctor\n"
        "ip = InteractiveShell.instance()\n"
        "ip.run_line_magic('load_ext', 'xla_notebook')\n"
        "ip.run_line_magic('unload_ext', 'xla_notebook')\n"
        "print('--')\n"
        "print(doctor.render(f for f in doctor.check() if f.level is doctor.Level.WRONG))\n"
    )
    done = run_python(["-c", code], broken_torch_xla)
    assert done.returncode == 0, done.stderr
    loading, words = done.stdout.split("--\n")
    assert UNDEFINED_SYMBOL in words
    assert words in loading
    assert "Traceback" not in done.stderr


def test_checking_creates_no_xla_client(tmp_path: Path) -> None:
    code = (
        "from xla_notebook.notebook import doctor\n"
        "assert doctor.main_job_works(doctor.check())\n"
        "import torch_xla\n"
        "print(torch_xla._XLAC._xla_runtime_is_initialized())\n"
        "import torch; torch.ones(1, device='xla')\n"
        "print(torch_xla._XLAC._xla_runtime_is_initialized())\n"
    )
    done = run_python(["-c", code], tmp_path)
    assert done.stdout.split() == ["False", "True"], done.stderr
