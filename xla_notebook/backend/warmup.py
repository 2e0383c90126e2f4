"""The warm-up modes: how a traced graph's executable gets into XLA's cache before its first run."""

from __future__ import annotations

from xla_notebook.backend import observer, runtime
from xla_notebook.backend.observer import WarmUpMode
from xla_notebook.backend.tracing import Traced


def warm(traced: Traced, graph_id: int, mode: WarmUpMode) -> None:
    """Warm `traced` up, inside of its trace's context.

    ``compile``: compile only; nothing executes and no buffer is donated. ``execute``: compile, then run
    once through a step barrier, as torch_xla's bridge did before pull request 4612; buffers that the
    graph updates in place are donated to the warm-up's outputs. ``off``: nothing; the first run compiles.
    """
    traced.warmed = mode != "off"
    if not traced.warmed:
        return
    started = observer.now_ns()
    observer.send(observer.GraphWarming(graph_id, traced.op_count, mode, started))
    before = runtime.compilations()
    runtime.warm_up(traced.roots)
    compiled = runtime.compilations() != before
    if mode == "execute":
        runtime.step_barrier_on(traced.roots)
    ended = observer.now_ns()
    observer.send(observer.GraphWarmed(graph_id, mode, compiled, ended - started, ended))
