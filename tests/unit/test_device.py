"""Which device is chosen, and what is said about it."""

import os
from pathlib import Path

import pytest

from xla_notebook.backend import device


@pytest.fixture(autouse=True)
def no_choice_made(monkeypatch: pytest.MonkeyPatch) -> None:
    # setenv first, so that what the code under test sets is taken back as well.
    monkeypatch.setenv("PJRT_DEVICE", "")
    monkeypatch.delenv("PJRT_DEVICE")
    monkeypatch.delenv("PJRT_SELECT_DEFAULT_DEVICE", raising=False)
    monkeypatch.setattr(device, "find_accelerator", lambda: None)


def add_pci_device(directory: Path, name: str, vendor: str, model: str) -> None:
    (directory / name).mkdir()
    (directory / name / "vendor").write_text(f"{vendor}\n")
    (directory / name / "device").write_text(f"{model}\n")


def test_the_cpu_is_chosen_where_there_is_no_accelerator() -> None:
    assert device.choose_device() == "device CPU: no accelerator was found"
    assert os.environ["PJRT_DEVICE"] == "CPU"


def test_a_second_call_says_the_same() -> None:
    assert device.choose_device() == device.choose_device()


def test_the_cpu_in_spite_of_an_accelerator_is_put_down_to_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    monkeypatch.setattr(device, "find_accelerator", lambda: "4 TPU chips")
    assert device.choose_device() == "device CPU: PJRT_DEVICE says so"


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "")
    device.choose_device()
    assert os.environ["PJRT_DEVICE"] == "CPU"


def test_what_the_user_set_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "NEURON")
    assert device.choose_device() == "device NEURON: PJRT_DEVICE says so"
    assert os.environ["PJRT_DEVICE"] == "NEURON"


def test_an_accelerator_leaves_the_choice_to_torch_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "find_accelerator", lambda: "4 TPU chips")
    assert device.choose_device() == "device chosen by torch_xla: found 4 TPU chips"
    assert "PJRT_DEVICE" not in os.environ


def test_a_user_who_wants_no_default_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_SELECT_DEFAULT_DEVICE", "0")
    assert "leaves the choice to you" in device.choose_device()
    assert "PJRT_DEVICE" not in os.environ


def test_tpu_chips_are_counted_by_vendor_and_model(tmp_path: Path) -> None:
    add_pci_device(tmp_path, "0000:00:04.0", "0x1ae0", "0x0063")
    add_pci_device(tmp_path, "0000:00:05.0", "0x1ae0", "0x0063")
    add_pci_device(tmp_path, "0000:00:06.0", "0x1ae0", "0x0042")  # Google's network card, say
    add_pci_device(tmp_path, "0000:00:07.0", "0x8086", "0x0063")
    assert device.count_tpu_chips(tmp_path) == 2


def test_a_machine_without_a_pci_bus_has_no_tpu(tmp_path: Path) -> None:
    assert device.count_tpu_chips(tmp_path / "absent") == 0


def test_chips_are_counted_as_torch_xla_counts_them() -> None:
    from torch_xla._internal import tpu

    assert tpu._GOOGLE_PCI_VENDOR_ID == device._GOOGLE_PCI_VENDOR
    assert set(tpu._TPU_PCI_DEVICE_IDS) == device._TPU_PCI_DEVICES
