"""XLA's cost analysis, through jaxlib where it is installed."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator

import pytest
import torch
import torch_xla

from xla_notebook.backend import cache, runtime
from xla_notebook.session.cost import Cost, CostUnavailable, _analysis, cost


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    _analysis.cache_clear()
    yield
    _analysis.cache_clear()


def test_cost_of_a_real_graph() -> None:
    """Given a matrix product with exp, when asked with the user's lines in the HLO, then the counts are exact."""
    pytest.importorskip("jaxlib")
    x, w = runtime.uploaded([torch.rand(64, 32), torch.rand(32, 16)], torch_xla.device())
    torch._dynamo.reset()
    torch.compile(lambda x, w: (x @ w).exp(), backend="xla_notebook")(x, w)
    found = cost(cache.graphs()[-1].hlo_text())
    read = 4 * (64 * 32 + 32 * 16)
    product = 4 * 64 * 16
    # The product is written, read and its exp written; the tuple of results is a pointer.
    assert found == Cost(flops=2 * 64 * 32 * 16, transcendentals=64 * 16, accessed_nbytes=read + 3 * product + 8)


def test_without_jaxlib_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jaxlib", None)
    with pytest.raises(CostUnavailable, match=r"need jaxlib: pip install 'xla_notebook\[cost\]'"):
        cost("HloModule m")


def test_another_jaxlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    package, private = types.ModuleType("jaxlib"), types.ModuleType("jaxlib._jax")
    package.__version__ = "9.9"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jaxlib", package)
    for name in ("jaxlib._jax", "jaxlib._hlo"):
        monkeypatch.setitem(sys.modules, name, private)
    with pytest.raises(CostUnavailable, match=r"jaxlib 9\.9 has no cost analysis where it was"):
        cost("HloModule m")
