"""Each hazard test starts with nothing compiled and with the backend's own settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import torch
import torch_xla

from xla_notebook.backend.config import config


@pytest.fixture(autouse=True)
def fresh_world() -> Iterator[None]:
    torch._dynamo.reset()
    settings = dataclasses.asdict(config)
    torch_xla.sync()
    yield
    for name, value in settings.items():
        setattr(config, name, value)
    torch._dynamo.reset()
