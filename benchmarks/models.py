"""The models that are measured, small enough for a laptop, and how to compile code that shares nothing."""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Make = Callable[[int], tuple[nn.Module, Tensor]]
_numbers = itertools.count()


def fresh(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a function with code of its own.

    Dynamo keeps what it compiled, and the budget of recompiles, with the code: two backends that shared
    it would pay for each other's guards.
    """
    assert isinstance(function, types.FunctionType)
    name = f"{function.__name__}_{next(_numbers)}"
    code = function.__code__.replace(co_name=name)
    return types.FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)


class _Block(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            convolution = nn.Conv2d(channels_in, channels, 1, stride, bias=False)
            self.shortcut = nn.Sequential(convolution, nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def resnet18(batch: int) -> tuple[nn.Module, Tensor]:
    """ResNet-18 (He et al. 2015) on images of 32 by 32 pixels, ten classes."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, padding=1))
    widths = [64, 64, 128, 256, 512]
    for stage, (before, width) in enumerate(itertools.pairwise(widths)):
        layers += [_Block(before, width, 1 if stage == 0 else 2), _Block(width, width, 1)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)]
    return nn.Sequential(*layers), torch.randn(batch, 3, 32, 32)


def transformer(batch: int) -> tuple[nn.Module, Tensor]:
    """An encoder of four layers, 64 wide, on 16 tokens."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    return nn.Sequential(encoder, nn.Flatten(), nn.Linear(16 * 64, 10)), torch.randn(batch, 16, 64)


def mlp(batch: int) -> tuple[nn.Module, Tensor]:
    """A hundred small layers: 200 parameters."""
    return nn.Sequential(*(nn.Linear(16, 16) for _ in range(100))), torch.randn(batch, 16)


MODELS: dict[str, Make] = {"transformer": transformer, "ResNet-18": resnet18, "MLP of 200 parameters": mlp}


def predict(model: nn.Module, x: Tensor) -> Tensor:
    """Inference."""
    with torch.no_grad():
        output: Tensor = model(x)
    return output


def loss_of(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    """The forward half of a training step."""
    return functional.cross_entropy(model(x), labels)


class Training:
    """A plain training step: forward, backward, SGD. `backend` None leaves it uncompiled."""

    def __init__(self, make: Make, batch: int, device: torch.device, backend: str | None):
        torch.manual_seed(0)
        model, x = make(batch)
        self.model = model.to(device).train()
        self.x = x.to(device)
        self.labels = torch.arange(batch, device="cpu").remainder(10).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001)
        self._loss = loss_of if backend is None else torch.compile(fresh(loss_of), backend=backend)
        self._update = fresh(lambda optimizer: optimizer.step())
        if backend is not None:
            self._update = torch.compile(self._update, backend=backend)

    def step(self) -> Tensor:
        """One step; the loss is returned unread."""
        loss: Tensor = self._loss(self.model, self.x, self.labels)
        loss.backward()
        self._update(self.optimizer)
        self.optimizer.zero_grad()
        return loss


class Inference:
    """A model's forward pass without gradients. `backend` None leaves it uncompiled."""

    def __init__(self, make: Make, batch: int, device: torch.device, backend: str | None):
        torch.manual_seed(0)
        model, x = make(batch)
        self.model = model.to(device).eval()
        self.x = x.to(device)
        self._predict = predict if backend is None else torch.compile(fresh(predict), backend=backend)

    def step(self) -> Tensor:
        """One prediction, unread."""
        output: Tensor = self._predict(self.model, self.x)
        return output
