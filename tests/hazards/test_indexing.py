"""Elements picked by their places: with positions, masks, diagonals."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hazards.harness import CPU, XLA, assert_same, compiled, reports, same_as_eager, values
from torch import Tensor

from xla_notebook.backend.observer import GraphTraced


def arguments(call: int, device: torch.device) -> list[Tensor]:
    """Two tensors, positions (some from the end, in three shapes and types), a mask of a dimension, one of all."""
    x, y = values(4, 5, 6, seed=call, device=device), values(4, 5, 6, seed=call + 50, device=device)
    places = (torch.tensor([1, -1, 0]) + call % 2).to(device)
    table = torch.tensor([[0], [2]]).to(device)
    row = torch.tensor([3, -2, 1], dtype=torch.int32).to(device)
    return [x, y, places, table, row, torch.tensor([call == 0, True, False, True]).to(device), x > 0.3]


READS: dict[str, Callable[..., Tensor]] = {
    "rows": lambda x, y, i, j, k, m, n: x[i],
    "columns": lambda x, y, i, j, k, m, n: x[:, i],
    "the last dimension": lambda x, y, i, j, k, m, n: x[..., i] * y[..., i],
    "pairs": lambda x, y, i, j, k, m, n: x[i, k],
    "pairs apart": lambda x, y, i, j, k, m, n: x[i, :, k],
    "pairs behind": lambda x, y, i, j, k, m, n: x[:, i, k],
    "triples": lambda x, y, i, j, k, m, n: x[i, k, i],
    "a table": lambda x, y, i, j, k, m, n: x[j, i],
    "a table apart": lambda x, y, i, j, k, m, n: x[j, :, i],
    "beside a slice": lambda x, y, i, j, k, m, n: x[i, 1:3],
    "beside a number": lambda x, y, i, j, k, m, n: x[i, -1, k] + x[0, i, 0],
    "beside a new dimension": lambda x, y, i, j, k, m, n: x[i, None] + x[None, i].sum(0)[:, None],
    "of a transposed view": lambda x, y, i, j, k, m, n: x.transpose(0, 2)[i, k],
    "a list": lambda x, y, i, j, k, m, n: x[[0, -1]],
    "no places": lambda x, y, i, j, k, m, n: x[i[:0]].sum() + x[:, i[3:]].sum(),
    "a mesh made inside": lambda x, y, i, j, k, m, n: x[
        torch.arange(4, device=x.device)[:, None], torch.arange(5, device=x.device)
    ],
    "taken": lambda x, y, i, j, k, m, n: torch.take(x, i),
    "diagonals": lambda x, y, i, j, k, m, n: torch.cat(
        [x.diagonal(o, a, b).flatten() * y[0, 0, 0] for o in (-1, 0, 2) for a, b in ((0, 1), (1, 0), (1, 2), (2, 0))]
    ),
    "diagonals of a cube": lambda x, y, i, j, k, m, n: x[:, :4, 1:5].diagonal() + y[:, :4, 1:5].diagonal(0, -1, 0),
}

WRITES: dict[str, Callable[..., None]] = {
    "a number in rows": lambda x, y, i, j, k, m, n: x.__setitem__(i, 1.0),
    "rows": lambda x, y, i, j, k, m, n: x.__setitem__(i, y[:3]),
    "pairs apart": lambda x, y, i, j, k, m, n: x.__setitem__((i, slice(None), k), y[0, :, 0]),
    "places of a slice": lambda x, y, i, j, k, m, n: x[1:].__setitem__((slice(None), i), y[1:, :3]),
    "added rows": lambda x, y, i, j, k, m, n: x.index_put_((j, i), y[:2, :3], accumulate=True),
    "a number where a mask is": lambda x, y, i, j, k, m, n: x.__setitem__(n, float("-inf")),
    "a number where a mask of rows is": lambda x, y, i, j, k, m, n: x.__setitem__(m, 0),
    "a row where a mask of bytes is": lambda x, y, i, j, k, m, n: x.__setitem__(m.byte(), y[1]),
    "a row where a mask is": lambda x, y, i, j, k, m, n: x.__setitem__(m, y[1]),
    "one row where a mask is": lambda x, y, i, j, k, m, n: x.__setitem__(m, y[1:2]),
    "a scalar where a mask is": lambda x, y, i, j, k, m, n: x.__setitem__(n, y[0, 0, 0]),
    "a scalar of another type where a mask is": lambda x, y, i, j, k, m, n: x.__setitem__(n, y[0, 0, 0].double()),
    "a count where a mask is": lambda x, y, i, j, k, m, n: x.__setitem__(m, i[:1]),
    "where a mask of columns is": lambda x, y, i, j, k, m, n: x.transpose(0, 1).__setitem__((slice(None), m), y[0, 0]),
    "where a mask and a number are": lambda x, y, i, j, k, m, n: x.__setitem__((m, ..., 1), 4),
    "where a mask of a slice is": lambda x, y, i, j, k, m, n: x[:, 0].__setitem__(x[:, 0] > 0, 9),
    "added where a mask is": lambda x, y, i, j, k, m, n: x.index_put_((m,), y[0], accumulate=True),
    "filled": lambda x, y, i, j, k, m, n: x.index_fill_(1, i.abs(), 2.0).copy_(x.index_fill(2, i.abs(), y[0, 0, 0])),
    "from another by a mask": lambda x, y, i, j, k, m, n: x.masked_scatter_(n, y),
    "from a longer one by a mask": lambda x, y, i, j, k, m, n: x[1:].masked_scatter_(m[1:, None, None], y),
    "a diagonal": lambda x, y, i, j, k, m, n: x.diagonal(0, 0, 1).mul_(3),
    "a diagonal outside": lambda x, y, i, j, k, m, n: x[:, :, :2].diagonal(4, 2, 0).fill_(3),
    "diagonals aside": lambda x, y, i, j, k, m, n: x.diagonal(1, 2, 0).copy_(y.diagonal(-1, 0, 2)),
}


def written(name: str) -> Callable[..., Tensor]:
    """A function that gives its first argument, written to as `WRITES` says."""

    def function(x: Tensor, *others: Tensor) -> Tensor:
        x = x * 1
        WRITES[name](x, *others)
        return x

    return function


FUNCTIONS = {**{f"read {n}": f for n, f in READS.items()}, **{f"write {n}": written(n) for n in WRITES}}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_same_as_eager(name: str, dynamic: bool) -> None:
    same_as_eager(FUNCTIONS[name], arguments, dynamic=dynamic, calls=2)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_same_gradients_and_nothing_runs_on_the_host(name: str) -> None:
    function = FUNCTIONS[name]

    def loss(*args: Tensor) -> Tensor:
        result = function(*args)
        return torch.where(result.isinf(), 0, result).square().sum()

    run = compiled(loss)
    with reports() as watched:
        for call in range(2):
            want, got = ([t.requires_grad_(t.is_floating_point()) for t in arguments(call, d)] for d in (CPU, XLA))
            loss(*want).backward()
            run(*got).backward()
            assert_same([x.grad for x in want], [x.grad for x in got], f"call {call}", rtol=1e-3, atol=1e-3)
    traced = watched.of(GraphTraced)
    assert [report.kind for report in traced] == ["forward", "backward"]
    assert [report.host_ops for report in traced] == [(), ()]


def test_places_to_fill_counted_from_the_end() -> None:
    """Their gradient PyTorch itself does not know."""

    def function(x: Tensor, y: Tensor, i: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
        scalar = x.sum().index_fill(0, i[:1] * 0 - 1, 3.0)
        return x.index_fill(1, i, 2.0), x.index_fill(2, i, y[0, 0, 0]), x.int().index_fill(0, i, 2), scalar

    same_as_eager(function, arguments)


def test_masks_and_places_of_the_cpu() -> None:
    def function(x: Tensor, mask: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        y[mask] = 7
        y[places] += 1
        return y, x[places] + x[:, torch.tensor([2, 0])].sum()

    def on_the_cpu(call: int, device: torch.device) -> list[Tensor]:
        mask = torch.tensor([True, False, call > 0, True])
        return [values(4, 3, seed=call, device=device), mask, torch.tensor([call, -1])]

    same_as_eager(function, on_the_cpu, probe=False)


def test_as_many_values_as_a_mask_chooses() -> None:
    """How many, only the host knows."""

    def function(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
        x = x.clone()
        x[mask] = value
        return x * 2

    def rows(call: int, device: torch.device) -> list[Tensor]:
        mask = torch.tensor([True, call > 0, False, True])
        return [values(4, 3, device=device), mask.to(device), values(int(mask.sum()), 3, seed=1, device=device)]

    same_as_eager(function, rows)


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (lambda x, i, m: x[i, i, i], "too many indices"),
        (lambda x, i, m: x.index_put((m,), x[:, None, None]), "must match|shape mismatch"),
        (lambda x, i, m: x[:, :1].index_put((m,), x[0]), "must match|shape mismatch"),
        (lambda x, i, m: x.index_put((m,), x[0].double()), "dtypes match|scalar_type"),
    ],
    ids=["too many", "too many dimensions", "too many columns", "another type"],
)
@pytest.mark.parametrize("grad", [False, True])
def test_the_users_mistake_is_told_and_changes_nothing(write: Callable[..., Tensor], says: str, grad: bool) -> None:
    x, mask = values(4, 3, device=XLA).requires_grad_(grad), torch.tensor([True, False, True, True], device=XLA)
    with pytest.raises(Exception, match=says):
        compiled(write)(x, torch.tensor([0], device=XLA), mask)
    assert_same(values(4, 3), x.detach().cpu())
