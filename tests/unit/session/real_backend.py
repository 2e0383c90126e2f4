"""What tests of a session do with the real backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch_xla

from xla_notebook.backend import runtime
from xla_notebook.session import GraphRecord, Session


def on_device(*shape: int) -> torch.Tensor:
    (tensor,) = runtime.uploaded([torch.rand(*shape)], torch_xla.device())
    return tensor


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, backend="xla_notebook", dynamic=False)


def only(session: Session) -> GraphRecord:
    (graph,) = session.graphs()
    return graph
