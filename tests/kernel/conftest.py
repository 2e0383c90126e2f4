"""Real IPython kernels for the tests of this directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernel_client import Kernel

PRELUDE = Path(__file__).with_name("prelude.py").read_text()


@pytest.fixture(scope="session")
def _loaded_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with Kernel(tmp_path_factory.mktemp("kernel")) as started:
        started.check(PRELUDE)
        yield started


@pytest.fixture(scope="module")
def kernel(_loaded_kernel: Kernel) -> Kernel:
    """A kernel with the extension loaded, shared by all modules; each begins with the prelude's names alone."""
    _loaded_kernel.check("forget_names()")
    return _loaded_kernel


@pytest.fixture(scope="module")
def own_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """The same, for a module that resets the kernel, or that expects nothing to be compiled yet."""
    with Kernel(tmp_path_factory.mktemp("kernel")) as started:
        started.check(PRELUDE)
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
