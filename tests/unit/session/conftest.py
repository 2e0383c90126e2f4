"""A session that hears the real backend, for the tests that make none of their own."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch

from xla_notebook.backend import config
from xla_notebook.session import Session
from xla_notebook.session.settings import to_backend


@pytest.fixture
def session() -> Iterator[Session]:
    torch._dynamo.reset()
    gc.collect()
    before = vars(config.config).copy()
    made = Session(apply=to_backend)
    made.attach()
    yield made
    made.detach()
    for name, value in before.items():
        setattr(config.config, name, value)
    torch._dynamo.reset()
