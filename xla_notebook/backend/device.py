"""Which PJRT device to use. Imports neither torch nor torch_xla, and creates no XLA client.

Where an accelerator is found, nothing is set and torch_xla's own choice stands. Where none is,
``PJRT_DEVICE=CPU`` is set, which is what torch_xla would fall back to, but without its warning.
"""

import importlib.util
import os
from importlib.metadata import entry_points
from pathlib import Path

ENVIRONMENT_VARIABLE = "PJRT_DEVICE"
_SELECT_DEFAULT = "PJRT_SELECT_DEFAULT_DEVICE"  # "0" keeps torch_xla, and so us, from choosing

# torch_xla registers these plugins itself, hardware or not, so they are no sign of an accelerator.
_BUILT_IN_PLUGINS = frozenset({"cpu", "neuron", "tpu", "xpu"})

# PCI ids of TPUs, from torch_xla 2.9's torch_xla/_internal/tpu.py.
_GOOGLE_PCI_VENDOR = "0x1ae0"
_TPU_PCI_DEVICES = frozenset({"0x0027", "0x005e", "0x0063", "0x006f", "0x0056", "0x0062", "0x0076"})
_PCI_DEVICES = Path("/sys/bus/pci/devices")


def find_accelerator() -> str | None:
    """Return what kind of accelerator this machine shows ("2 TPU chips", say), or None.

    Looks at the signs that torch_xla 2.9 itself goes by (``runtime._maybe_select_default_device``):
    TPU chips on the PCI bus, the AWS Neuron library, and PJRT plugins that other packages install.
    """
    chips = count_tpu_chips()
    if chips:
        return f"{chips} TPU chip{'s' if chips > 1 else ''}"
    if is_importable("libneuronxla"):
        return "the AWS Neuron library"
    plugins = {plugin.name for plugin in entry_points(group="torch_xla.plugins")} - _BUILT_IN_PLUGINS
    if plugins:
        return f"the PJRT plugin {', '.join(sorted(plugins))}"
    return None


def count_tpu_chips(pci_devices: Path = _PCI_DEVICES) -> int:
    """Return the number of TPU chips on the PCI bus; 0 where the machine has no PCI bus."""
    return sum(
        (vendor.parent / "device").read_text().strip() in _TPU_PCI_DEVICES
        for vendor in pci_devices.glob("*/vendor")
        if vendor.read_text().strip() == _GOOGLE_PCI_VENDOR
    )


def is_importable(module: str) -> bool:
    """Return whether a top-level module is installed, without importing it."""
    return importlib.util.find_spec(module) is not None


def choose_device() -> str:
    """Choose the CPU if nothing else was or can be chosen; return one line that says what and why.

    Call this before torch_xla is imported: at import it chooses for itself. Calling it again is harmless.
    """
    found = find_accelerator()
    if not found and not os.environ.get(ENVIRONMENT_VARIABLE) and os.environ.get(_SELECT_DEFAULT) != "0":
        os.environ[ENVIRONMENT_VARIABLE] = "CPU"
    chosen = os.environ.get(ENVIRONMENT_VARIABLE)
    if chosen == "CPU" and not found:  # whoever set it: the user, torch_xla at import, or we in an earlier call
        return "device CPU: no accelerator was found"
    if chosen:
        return f"device {chosen}: {ENVIRONMENT_VARIABLE} says so"
    if found:
        return f"device chosen by torch_xla: found {found}"
    return f"no device yet: {_SELECT_DEFAULT}=0 leaves the choice to you"
