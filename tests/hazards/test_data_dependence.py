"""Functions whose course depends on data: sizes, numbers that Python reads, `cond` and `while_loop`, graph breaks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hazards.harness import XLA, assert_same, compiled, same_as_eager, values
from torch import Tensor


@torch.library.custom_op("xla_notebook_tests::above", mutates_args=())
def above(x: Tensor) -> Tensor:
    return x[x > 0].clone()


@above.register_fake
def _(x: Tensor) -> Tensor:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


# Output that depends on data --------------------------------------------------------------------------


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.nonzero() * 2,
        lambda x: x[x > 0] * 2 + 1,
        lambda x: torch.unique(x.round()).sum() + x,
        lambda x: torch.masked_select(x, x > 0).sum() + x,
        lambda x: x.repeat_interleave((x > 0).long(), dim=0).sum() * 2,
        lambda x: above(x * 2).sum() + 1,
    ],
    ids=["nonzero", "mask", "unique", "masked_select", "repeat_interleave", "custom"],
)
def test_sizes_that_depend_on_data(function: Callable[[Tensor], Tensor], captured: bool) -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=captured, recompile_limit=16):
        same_as_eager(function, lambda call, device: (values(5, seed=call, device=device),), calls=4)


@pytest.mark.parametrize("captured", [False, True])
def test_a_number_read_from_a_tensor(captured: bool) -> None:
    def function(x: Tensor) -> tuple[Tensor, float]:
        number = x.sum().item()
        return x * number, number

    with torch._dynamo.config.patch(capture_scalar_outputs=captured):
        same_as_eager(function, lambda call, device: (torch.arange(3.0, device=device) + call,))


def test_cond() -> None:
    def function(p: Tensor, x: Tensor) -> Tensor:
        return torch.cond(p.sum() > 0, lambda t: t * 2, lambda t: t - 1, (x,)) + 1  # type: ignore[no-any-return]

    same_as_eager(
        function,
        lambda call, device: (
            torch.tensor([1.0 if call % 2 else -1.0]).to(device),
            values(3, seed=call, device=device),
        ),
        calls=5,
    )


def test_cond_with_closed_over_weights() -> None:
    def function(p: Tensor, x: Tensor, w: Tensor) -> Tensor:
        return torch.cond(p > 0, lambda: (x @ w).relu(), lambda: torch.median(x, 1)[0][:, None] * w[:1])  # type: ignore[no-any-return]

    same_as_eager(
        function,
        lambda call, device: (
            torch.tensor(1 if call % 2 else -1).to(device),
            values(3, 4, seed=call, device=device),
            values(4, 2, seed=9, device=device),
        ),
        calls=4,
    )


def test_while_loop() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    def function(n: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 2), (torch.zeros_like(n), x))  # type: ignore[no-any-return]

    same_as_eager(
        function,
        lambda call, device: (torch.tensor(call).to(device), values(3, seed=call, device=device)),
        calls=4,
    )


# Graph breaks -----------------------------------------------------------------------------------------


def test_graph_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    def function(x: Tensor, total: Tensor) -> Tensor:
        total.add_(x)
        y = x * 2
        print("in the middle")
        if y.sum().item() > 0:
            total.mul_(2)
            y = y + total
        torch._dynamo.graph_break()
        return y.view(-1) - total

    same_as_eager(
        function,
        lambda call, device: (values(3, seed=call, device=device), values(3, seed=9, device=device)),
        calls=4,
    )
    assert capsys.readouterr().out.count("in the middle") == 8


def test_data_reading_python_around_a_graph_break() -> None:
    def function(x: Tensor) -> tuple[Tensor, list[float], np.ndarray]:
        y = x * 2
        numbers = y.tolist()
        return y + len(numbers), numbers, (y + 1).cpu().numpy()

    run = compiled(function)
    for call in range(2):
        x = values(3, seed=call)
        want, got = function(x), run(x.to(XLA))
        assert_same(want[0], got[0])
        assert got[1] == pytest.approx(want[1])
        np.testing.assert_allclose(got[2], want[2], rtol=1e-5)
