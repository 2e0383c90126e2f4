"""Settings and compile options: the right ones take effect, wrong ones are refused with a hint."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hazards.harness import XLA, assert_same, compiled, values
from torch._dynamo.exc import BackendCompilerFailed

from xla_notebook.backend.config import config


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warmup": "compile"}, "no compile option 'warmup'; did you mean 'warm_up'"),
        ({"donates": ["x"]}, "did you mean 'donate'"),
        ({"zzz": 1}, "there are"),
        ({"warm_up": "exec"}, "warm_up='exec' is not one of .*; did you mean 'execute'"),
        ({"warm_up": None}, "is not one of"),
        ({"warm_up": True}, "is not one of"),
    ],
)
def test_wrong_compile_options(options: dict[str, Any], message: str) -> None:
    function = compiled(lambda x: x + 1, options=options)
    with pytest.raises((ValueError, BackendCompilerFailed), match=message):
        function(values(3, device=XLA))


def test_a_donation_option_that_is_a_word_is_refused() -> None:
    """Given donate="xy", the letters are not taken for two names."""
    function = compiled(lambda x, y: x + y, options={"donate": "xy"})
    with pytest.raises((TypeError, ValueError, BackendCompilerFailed), match="donate"):
        function(values(3, device=XLA), values(3, device=XLA))


def test_a_donation_option_that_names_no_argument_is_refused() -> None:
    function = compiled(lambda x, y: x + y, options={"donate": ["z"]})
    with pytest.raises((ValueError, BackendCompilerFailed), match=r"'z'.*x, y|'z'"):
        function(values(3, device=XLA), values(3, device=XLA))


def test_a_wrong_option_changes_nothing() -> None:
    x, total = values(3, device=XLA), values(3, seed=1, device=XLA)

    def function(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        total.add_(x)
        return total

    with pytest.raises((ValueError, BackendCompilerFailed)):
        compiled(function, options={"warm_up": "never"})(x, total)
    assert_same(values(3, seed=1), total)
    torch._dynamo.reset()
    compiled(function)(x, total)
    assert_same(values(3, seed=1) + values(3), total)


def test_a_wrong_setting_changes_nothing() -> None:
    with pytest.raises(ValueError, match="'execute'"):
        config.warm_up = "executed"  # type: ignore[assignment]
    assert config.warm_up == "compile"
