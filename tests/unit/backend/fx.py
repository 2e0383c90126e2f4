"""FX graphs of functions, as AOTAutograd would hand them over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch_xla
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

XLA = torch_xla.device()


def graph(function: Callable[..., Any], *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> GraphModule:
    """The FX graph of a function of fake XLA tensors of these shapes; the function returns a tuple."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        module: GraphModule = make_fx(function)(*[torch.empty(shape, dtype=dtype, device=XLA) for shape in shapes])
    return module
