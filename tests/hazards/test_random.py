"""Random draws: new ones in each call, the same ones after the same seed, none while compiling."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from hazards.harness import XLA, assert_same, compiled, pending, values
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

F = nn.functional
pytestmark = pytest.mark.filterwarnings("ignore:torch.manual_seed does not seed the XLA device")
SIZE = 64


def uniform(x: Tensor) -> Tensor:
    return x + torch.rand_like(x)


def normal_and_uniform(x: Tensor) -> Tensor:
    return torch.randn_like(x) + torch.rand(SIZE, device=x.device) + x


def dropout(x: Tensor) -> Tensor:
    return F.dropout(x + 1, 0.5)


def bernoulli(x: Tensor) -> Tensor:
    return torch.bernoulli(torch.full_like(x, 0.5)) + x


def in_place(x: Tensor) -> Tensor:
    return torch.empty_like(x).uniform_(-1, 1) + torch.zeros_like(x).normal_() + x


def whole_numbers(x: Tensor) -> Tensor:
    return torch.randint(0, 1000, (SIZE,), device=x.device) + x


def around_a_host_operator(x: Tensor) -> Tensor:
    a = F.dropout(x + 1, 0.5)
    return torch.cat([a, F.dropout(x + 1 + torch.median(a) * 0, 0.5)])


def exponential(x: Tensor) -> Tensor:
    return F.gumbel_softmax(x, dim=0)


DRAWS = (
    uniform,
    normal_and_uniform,
    dropout,
    bernoulli,
    in_place,
    whole_numbers,
    around_a_host_operator,
    exponential,
)
SEEDS = {"xm.set_rng_state": xm.set_rng_state, "torch_xla.manual_seed": torch_xla.manual_seed}


@pytest.fixture
def zeros() -> Tensor:
    tensor = torch.zeros(SIZE, device=XLA)
    torch_xla.sync()
    return tensor


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("draw", DRAWS, ids=lambda f: f.__name__)
def test_a_new_draw_each_call_and_the_same_sequence_after_a_seed(
    draw: Callable[[Tensor], Tensor], seed: str, zeros: Tensor
) -> None:
    """Given a seed before the very first call, which compiles, the sequence is that of later calls."""
    function = compiled(draw)

    def sequence() -> list[Tensor]:
        SEEDS[seed](1234)
        return [function(zeros).cpu() for _ in range(3)]

    first, second = sequence(), sequence()
    for call in range(3):
        assert torch.equal(first[call], second[call]), f"call {call} differs after the same seed"
    for a, b in ((0, 1), (1, 2), (0, 2)):
        assert not torch.equal(first[a], first[b]), f"calls {a} and {b} drew the same"


def test_two_draws_of_one_call_differ(zeros: Tensor) -> None:
    function = compiled(lambda x: (torch.rand_like(x) + x, torch.rand_like(x) + x))
    first, second = function(zeros)
    assert not torch.equal(first.cpu(), second.cpu())
    third, _ = function(zeros)
    assert not torch.equal(second.cpu(), third.cpu()), "the second draw of a call is the first of the next"


def test_draws_on_both_sides_of_a_host_operator_differ(zeros: Tensor) -> None:
    function = compiled(around_a_host_operator)
    for _ in range(3):
        first, second = function(zeros).cpu().chunk(2)
        assert not torch.equal(first, second)


def test_compiling_draws_nothing(zeros: Tensor) -> None:
    """Given a compile that fails in the end, the random state is what it was."""
    xm.set_rng_state(99)
    with pytest.raises(RuntimeError, match="refused"):
        compiled(_draw_and_fail)(zeros)
    assert xm.get_rng_state() == 99


@torch.library.custom_op("xla_notebook_tests::refuse", mutates_args=())
def refuse(x: Tensor) -> Tensor:
    raise RuntimeError("refused")


@refuse.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def _draw_and_fail(x: Tensor) -> Tensor:
    return torch.rand_like(refuse(x)) + x


def test_the_users_draws_and_compiled_draws_never_repeat(zeros: Tensor) -> None:
    """Given lazy draws of the user's between compiled ones, pending or not, all numbers are new."""
    function = compiled(uniform)
    for barriers in (False, True):
        torch_xla.manual_seed(7)
        seen = []
        for _ in range(4):
            seen.append(torch.rand(SIZE, device=XLA))
            seen.append(function(zeros))
            seen.append(torch.rand(SIZE, device=XLA) + 0)
            if barriers:
                torch_xla.sync()
        rounded = {tuple(round(v, 5) for v in t.cpu().tolist()) for t in seen}
        assert len(rounded) == len(seen)


def test_the_users_pending_draws_keep_their_numbers(zeros: Tensor) -> None:
    """Given a draw that is pending when a function is compiled, it gets the number it would have had."""
    torch_xla.manual_seed(3)
    want = torch.rand(SIZE, device=XLA).cpu()
    torch_xla.manual_seed(3)
    drawn = torch.rand(SIZE, device=XLA)
    compiled(lambda x: x + 1)(zeros)
    assert pending(drawn) == [True]
    assert_same(want, drawn)


def test_a_function_that_draws_leaves_the_next_lazy_draw_repeatable(zeros: Tensor) -> None:
    function = compiled(uniform)

    def sequence() -> list[Tensor]:
        torch_xla.manual_seed(21)
        return [function(zeros).cpu(), torch.rand(SIZE, device=XLA).cpu(), function(zeros).cpu()]

    first, second = sequence(), sequence()
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)


# Dropout and gradients -------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1.0])
def test_the_gradient_of_dropout_is_the_mask_scaled_once(p: float) -> None:
    function = compiled(lambda x: F.dropout(x, p))
    for _ in range(2):
        x = torch.ones(1000, device=XLA).requires_grad_()
        y = function(x)
        y.sum().backward()
        assert_same(y.detach().cpu(), x.grad)
        assert set(y.unique().tolist()) <= {0.0, torch.tensor(1 / (1 - p)).item() if p < 1 else 0.0}
        assert abs((y == 0).float().mean().item() - p) < 0.08


@pytest.mark.parametrize(
    "make",
    [lambda: nn.Dropout1d(0.5), lambda: nn.FeatureAlphaDropout(0.5), lambda: nn.AlphaDropout(0.5)],
    ids=["Dropout1d", "FeatureAlphaDropout", "AlphaDropout"],
)
def test_other_dropouts_are_linear_where_they_keep(make: Callable[[], nn.Module]) -> None:
    function = compiled(make())
    x = values(4, 8, 5, device=XLA).requires_grad_()
    y = function(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    kept = gradient.cpu() != 0
    assert 0 < kept.float().mean() < 1
    scale = gradient.cpu()[kept]
    assert_same(scale, scale[:1].expand_as(scale))
    shift = (y - gradient * x).detach().cpu()
    assert_same(shift[kept], shift[kept][:1].expand_as(shift[kept]))


@pytest.mark.parametrize("module", ["LSTM", "MultiheadAttention", "scaled_dot_product_attention"])
def test_dropout_inside_of_other_modules(module: str) -> None:
    """The gradient of a function that is linear in v is the same linear function, with the same mask."""
    torch.manual_seed(0)
    if module == "scaled_dot_product_attention":
        q = values(2, 5, 4, device=XLA)
        function = compiled(lambda v: F.scaled_dot_product_attention(q, q, v, dropout_p=0.5))
    elif module == "MultiheadAttention":
        attention = nn.MultiheadAttention(4, 1, dropout=0.5, bias=False, batch_first=True).to(XLA)
        q = values(2, 5, 4, device=XLA)
        function = compiled(lambda v: attention(q, q, v)[0])
    else:
        lstm = nn.LSTM(4, 4, 2, dropout=0.5).to(XLA)
        function = compiled(lambda v: lstm(v)[0])
    v = values(2, 5, 4, seed=1, device=XLA).requires_grad_()
    y = function(v)
    (gradient,) = torch.autograd.grad(y.sum(), v)
    if module == "LSTM":
        assert gradient.abs().sum().item() > 0
    else:
        assert_same(y.sum().detach().cpu(), (gradient * v).sum().detach(), rtol=1e-3)
    assert not torch.equal(function(v).cpu(), y.cpu())


@pytest.mark.parametrize("blocks", [1, 3])
def test_checkpointing_uses_one_mask_in_both_passes(blocks: int) -> None:
    def block(x: Tensor, w: Tensor) -> Tensor:
        return F.dropout(x * w, 0.5)

    def run(x: Tensor, w: Tensor) -> Tensor:
        for _ in range(blocks):
            x = checkpoint(block, x, w, use_reentrant=False)
        return x

    function = compiled(run)
    masks = []
    for _ in range(3):
        x = torch.ones(256, device=XLA).requires_grad_()
        w = torch.ones(256, device=XLA).requires_grad_()
        y = function(x, w)
        y.sum().backward()
        # y is the product of the scaled masks, each a factor of both x and w.
        assert_same(y.detach().cpu(), x.grad)
        assert_same(y.detach().cpu() * blocks, w.grad)
        masks.append(y.detach().cpu())
    assert not torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[1], masks[2])


def test_checkpointing_repeats_under_a_seed() -> None:
    function = compiled(lambda x: checkpoint(lambda x: F.dropout(x, 0.5), x, use_reentrant=False))
    runs = []
    for _ in range(2):
        torch_xla.manual_seed(4)
        x = torch.ones(256, device=XLA).requires_grad_()
        runs.append([function(x).detach().cpu() for _ in range(2)])
    assert_same(runs[0], runs[1])
    assert not torch.equal(runs[0][0], runs[0][1])


def test_a_training_loop_with_dropout_repeats_under_a_seed() -> None:
    """Given dropout in a model, losses repeat after the same seed, also where compiling fell into the first run."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.Linear(16, 1))
    start = {name: t.clone() for name, t in model.state_dict().items()}
    model.to(XLA)
    run = compiled(model)

    def losses() -> list[float]:
        torch_xla.manual_seed(5)
        model.load_state_dict(start)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        found = []
        for call in range(3):
            optimizer.zero_grad()
            loss = run(values(8, 4, seed=call, device=XLA)).pow(2).mean()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    assert losses() == losses()
