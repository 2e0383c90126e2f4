"""A real IPython kernel for the tests of this directory, one for each test module."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernel_client import Kernel


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel with the extension loaded; tests of a module share it and its names."""
    with Kernel(tmp_path_factory.mktemp("kernel")) as started:
        started.check(Path(__file__).with_name("prelude.py").read_text())
        yield started


@pytest.fixture(scope="module")
def bare_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel in which nothing has been imported or loaded."""
    with Kernel(tmp_path_factory.mktemp("kernel")) as started:
        yield started


@pytest.fixture(scope="module", autouse=True)
def _cpu() -> Iterator[None]:
    before = os.environ.get("PJRT_DEVICE")
    os.environ["PJRT_DEVICE"] = "CPU"
    yield
    if before is None:
        del os.environ["PJRT_DEVICE"]
    else:
        os.environ["PJRT_DEVICE"] = before
