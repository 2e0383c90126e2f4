"""Shared by all tests."""

from xla_notebook.backend.device import choose_device

# Before any test imports torch_xla, which would choose by itself, with a warning.
choose_device()
