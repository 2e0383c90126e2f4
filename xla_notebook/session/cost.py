"""What a graph costs, as XLA's own cost analysis estimates it. Needs jaxlib, which is optional.

torch_xla 2.9 has no cost analysis. jaxlib's is XLA's, but stands in private modules (seen in jaxlib 0.10.2), so
they are looked at only when asked for, and anything missing is said. It runs on the host and on HLO text alone:
no device of torch_xla's takes part.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any

_INSTALL = "pip install 'xla_notebook[cost]'"


class CostUnavailable(RuntimeError):
    """jaxlib is not there, or is one whose cost analysis is not where it was; the message says what to do."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """XLA's estimate for one run of a graph, before XLA's own optimizations.

    `flops`: floating-point operations, a multiplication and an addition being two. `transcendentals`: calls of
    functions such as exp, not among the flops. `accessed_nbytes`: bytes that its operators read and write if
    none of them are fused, so more than a device really moves.
    """

    flops: int
    transcendentals: int
    accessed_nbytes: int


def cost(hlo_text: str) -> Cost:
    """The cost of the graph with the HLO `hlo_text` (see `Session.hlo_text`).

    Raises `CostUnavailable` without a jaxlib that can tell.
    """
    found = _analysis()(hlo_text)
    return Cost(
        flops=int(found.get("flops", 0)),
        transcendentals=int(found.get("transcendentals", 0)),
        accessed_nbytes=int(found.get("bytes accessed", 0)),
    )


@functools.cache
def _analysis() -> Callable[[str], Mapping[str, float]]:
    """From HLO text to XLA's figures. The client of jaxlib's that it needs is made once."""
    try:
        jaxlib: Any = importlib.import_module("jaxlib")
    except ModuleNotFoundError:
        raise CostUnavailable(f"flops and bytes need jaxlib: {_INSTALL}") from None
    try:
        xla, hlo = importlib.import_module("jaxlib._jax"), importlib.import_module("jaxlib._hlo")
        client = xla.get_tfrt_cpu_client(asynchronous=True)
        analyze, parse = xla.hlo_module_cost_analysis, hlo.hlo_module_from_text
    except (ImportError, AttributeError, TypeError) as error:
        raise CostUnavailable(
            f"jaxlib {jaxlib.__version__} has no cost analysis where it was in 0.10 ({error}): {_INSTALL}"
        ) from None

    def analysis(text: str) -> Mapping[str, float]:
        figures: Mapping[str, float] = analyze(client, parse(text))
        return figures

    return analysis
