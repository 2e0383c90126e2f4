"""Two different graphs never share an executable, and a lost executable is made again."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hazards.harness import CPU, XLA, assert_same, compiled, reports, same_as_eager, values
from torch import Tensor

from xla_notebook.backend.decompositions import DECOMPOSITIONS
from xla_notebook.backend.observer import GraphTraced, GraphWarmed

# Programs that torch_xla 2.9 hashes alike (pytorch/xla issue 8353) --------------------------------------


def times_b(a: Tensor, b: Tensor, c: Tensor) -> Any:
    return a + 1, b + 1, c + 1, a * b + c


def times_c(a: Tensor, b: Tensor, c: Tensor) -> Any:
    return a + 1, b + 1, c + 1, a * c + b


def times_b_reordered(a: Tensor, b: Tensor, c: Tensor) -> Any:
    return c + 1, a + 1, b + 1, b * c + a


def minus(a: Tensor, b: Tensor, c: Tensor) -> Any:
    return a - b, b - c, c - a, (a - b) * (b - c)


def minus_other(a: Tensor, b: Tensor, c: Tensor) -> Any:
    return a - b, b - c, c - a, (a - b) * (c - a)


def update_first(a: Tensor, b: Tensor, c: Tensor) -> Any:
    a.mul_(2)
    return a + 1, b + 1, c + 1


def update_second(a: Tensor, b: Tensor, c: Tensor) -> Any:
    b.mul_(2)
    return a + 1, b + 1, c + 1


FAMILY = (times_b, times_c, times_b_reordered, minus, minus_other, update_first, update_second)


def three(call: int, device: Any) -> tuple[Tensor, ...]:
    return tuple(values(6, 6, seed=call * 10 + i, device=device) for i in range(3))


@pytest.mark.parametrize("order", [FAMILY, FAMILY[::-1]], ids=["forth", "back"])
def test_functions_that_hash_alike(order: tuple[Callable[..., Any], ...]) -> None:
    for function in order:
        same_as_eager(function, three, calls=2)


def test_many_wirings_of_one_expression() -> None:
    """Given many ways to feed three arguments into one expression, each function keeps its own result."""
    given, want = three(0, XLA), three(0, "cpu")
    wirings = [(0, 1, 2), (0, 2, 1), (1, 2, 0), (2, 1, 0), (1, 1, 0), (1, 1, 2), (2, 2, 0), (0, 0, 1), (0, 1, 1)]
    # Past Dynamo's limit functions run uncompiled, where torch_xla's own cache mixes such graphs up.
    with torch._dynamo.config.patch(recompile_limit=64):
        functions = [
            compiled(lambda *t, w=w: (t[0] + 1, t[1] + 1, t[2] + 1, t[w[0]] * t[w[1]] - t[w[2]])) for w in wirings
        ]
        for (i, j, k), function in zip(wirings, functions, strict=True):
            assert_same(want[i] * want[j] - want[k], function(*given)[3], f"{i} * {j} - {k}")


def test_pending_arguments_that_hash_alike() -> None:
    """Given arguments that wait to be computed, by expressions and in orders that are one to torch_xla's hash."""
    expressions: list[Callable[[Tensor, Tensor, Tensor], list[Tensor]]] = [
        lambda a, b, c: [(a - b) * (b - c)],
        lambda a, b, c: [(a - b) * (a - c)],
        lambda a, b, c: [a + 1, b + 1, c + 1, a * b + c],
        lambda a, b, c: [a + 1, b + 1, c + 1, a * c + b],
        *(
            lambda a, b, c, order=order: [(a, b, c)[i] + 1 for i in order]  # type: ignore[misc]
            for order in itertools.product(range(3), repeat=3)
        ),
    ]
    run = compiled(lambda *given: [x * 2 for x in given], dynamic=False)
    for expression in expressions:
        want, got = (expression(*(values(4, seed=i, device=device) for i in range(3))) for device in (CPU, XLA))
        assert_same([x * 2 for x in want], list(run(*got)))
        assert_same(want, got)


def test_functions_that_differ_in_a_number_share_an_executable() -> None:
    """Given two learning rates, one executable serves both, and each gives its own result."""
    x = values(3, device=XLA)
    with reports() as watched:
        for function, rate in ((_slow, 0.125), (_fast, 0.25)):
            assert_same(values(3) * (1 - rate), compiled(function)(x))
    slow, fast = watched.of(GraphTraced)
    assert slow.graph_id != fast.graph_id
    assert slow.hash == fast.hash
    assert [w.compiled for w in watched.of(GraphWarmed)] == [True, False]


def _slow(x: Tensor) -> Tensor:
    return x - x * 0.125


def _fast(x: Tensor) -> Tensor:
    return x - x * 0.25


# In processes of their own: settings that are read once ----------------------------------------------


def run_script(script: str, *arguments: str, **environment: str) -> str:
    """Run a Python script with the harness importable; its output."""
    tests = str(Path(__file__).parents[1])
    path = os.pathsep.join([tests, *filter(None, [os.environ.get("PYTHONPATH")])])
    finished = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


PERSISTENT = """
import sys
import torch_xla.debug.metrics, torch_xla.runtime
torch_xla.runtime.initialize_cache(sys.argv[1], readonly=False)
from hazards import test_collisions as cases
from hazards.harness import counter, same_as_eager
for name in sys.argv[2:]:
    same_as_eager(getattr(cases, name), cases.three, calls=2, probe=False)
    # XLA's CPU client writes entries but cannot read them ("deserializing not supported"), and compiles again.
    print(name, "found" if counter("PersistentCacheHit") + counter("PersistentCacheDeserializeFailure") else "missed")
    torch_xla.debug.metrics.clear_counters()
"""


@pytest.mark.slow
def test_the_persistent_cache_of_another_process(tmp_path: Path) -> None:
    """Given a cache on disk that holds a graph, a process that runs another of the same torch_xla hash does not
    take its entry, and one that runs the same graph does."""
    assert run_script(PERSISTENT, str(tmp_path), "times_b", "minus").split() == ["times_b", "missed", "minus", "missed"]
    output = run_script(PERSISTENT, str(tmp_path), "times_c", "minus_other", "times_b")
    assert output.split() == ["times_c", "missed", "minus_other", "missed", "times_b", "found"]


EVICTION = """
import torch
from hazards.harness import CPU, XLA, assert_same, compiled, reports, values
from xla_notebook.backend import cache
from xla_notebook.backend.observer import GraphEvicted, GraphTraced
functions = [compiled(lambda x, n=n: (x * 2 + torch.arange(3.0, device=x.device)) ** n) for n in (1, 2, 3)]
draw = compiled(lambda x: torch.rand_like(x) + x)
with reports() as watched:
    for call in range(3):
        for n, function in zip((1, 2, 3), functions):
            x = values(4, 3, seed=call)
            assert_same((x * 2 + torch.arange(3.0)) ** n, function(x.to(XLA)), f"call {call}", 1e-3, 1e-3)
        assert draw(values(3, device=XLA)).shape == (3,)
    total = torch.zeros(3, device=XLA)
    update = compiled(lambda t: t.add_(1).sum())
    for call in range(3):
        assert_same(torch.tensor(3.0 * (call + 1)), update(total))
        functions[0](values(4, 3, device=XLA))
    w = values(3, device=XLA).requires_grad_()
    train = compiled(lambda w: w.sin().sum())
    for call in range(2):
        w.grad = None
        loss = train(w)
        functions[1](values(4, 3, device=XLA))
        loss.backward()
        assert_same(values(3).cos(), w.grad)
evicted = watched.of(GraphEvicted)
assert evicted, "nothing was evicted: the setting did not work"
again = [r for r in watched.of(GraphTraced) if r.reason == "evicted"]
assert [r.graph_id for r in again] == [r.graph_id for r in evicted]
assert {r.graph_id for r in evicted} <= {g.graph_id for g in cache.graphs()}
print("evicted", len(evicted))
"""


# Operators that torch_xla hashes alike, so that it gives the second the shape of the first --------------


@pytest.mark.parametrize("operator", [torch.pixel_shuffle, torch.pixel_unshuffle], ids=lambda f: f.__name__)
def test_two_factors(operator: Callable[[Tensor, int], Tensor]) -> None:
    for factor in (1, 2, 3):
        same_as_eager(
            lambda x, factor=factor: operator(x + 1, factor) * 2,
            lambda call, device: [values(2, 36, 6, 6, seed=call, device=device)],
            dynamic=False,
        )


def test_an_operator_that_gets_a_remembered_shape_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(DECOMPOSITIONS, torch.ops.aten.pixel_shuffle.default)
    x = values(1, 36, 7, 7, device=XLA)
    compiled(lambda x: torch.pixel_shuffle(x, 2), dynamic=False)(x)
    with pytest.raises(Exception, match=r"pixel_shuffle.default the shape \[1, 9, 14, 14\], not \[1, 4, 21, 21\]"):
        compiled(lambda x: torch.pixel_shuffle(x, 3), dynamic=False)(x)


@pytest.mark.slow
@pytest.mark.parametrize("warm_up", ["compile", "off"])
def test_evicted_executables_are_made_again(warm_up: str) -> None:
    setting = f"from xla_notebook.backend.config import config\nconfig.warm_up = {warm_up!r}\n"
    output = run_script(setting + EVICTION, XLA_COMPILATION_CACHE_SIZE="1")
    assert int(output.split("evicted")[1]) >= 6
