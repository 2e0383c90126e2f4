"""All cached graphs of the process: builds them, finds the one for a call, and rebuilds what was lost."""

from __future__ import annotations

import dataclasses
import operator
import threading
import warnings
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from xla_notebook.backend import barriers, observer, rehearsal, runtime, warmup
from xla_notebook.backend.config import config
from xla_notebook.backend.graph import CachedGraph, RebuildReason, SavedBufferDonatedError
from xla_notebook.backend.observer import GraphKind, TraceReason, WarmUpMode
from xla_notebook.backend.program import HostStep, Segment, is_on_xla, source_line, spec_of
from xla_notebook.backend.tracing import Traced, hlo_text, trace

# More sizes than this of one dynamic function, and the oldest graph goes. XLA's own cache holds 2048.
_MOST_SIZES = 512

# torch seeds itself with a random number of 64 bits; a smaller seed than this is somebody's choice.
_CHOSEN_SEED = 2**32

_graphs: weakref.WeakValueDictionary[int, CachedGraph] = weakref.WeakValueDictionary()


def graphs() -> list[CachedGraph]:
    """The cached graphs that are alive, oldest first."""
    return [graph for _, graph in sorted(_graphs.items())]


def clear() -> tuple[int, int]:
    """Drop every cached graph with its saved buffers: how many graphs, how many bytes came free.

    Compiled functions stay valid: the next call of each traces and warms again.
    """
    freed = 0
    dropped = [graph for graph in graphs() if graph.hash and graph.state != "dropped"]
    for graph in dropped:
        nbytes = graph.drop()
        freed += nbytes
        _dropped(graph.graph_id, nbytes)
    return len(dropped), freed


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a compiled function comes from, and what was asked of it.

    `names`: the user's names of its placeholders. `donate`: names of the arguments whose buffers the user
    offers. `kept`: names of the arguments that the function hands on, if Dynamo tells.
    """

    function: str
    filename: str | None
    line: int | None
    kind: GraphKind
    names: Mapping[str, str]
    warm_up: WarmUpMode | None
    donate: tuple[str, ...]
    kept: frozenset[str] | None


class SegmentGraphs:
    """The cached graphs of one segment: one, or one for each set of sizes if the segment is dynamic."""

    def __init__(
        self,
        segment: Segment,
        literals: Mapping[Node, Any],
        origin: Origin,
        device: torch.device,
        host_steps: Sequence[HostStep],
    ):
        self.segment = segment
        self.device = device
        self._literals = literals
        self._origin = origin
        self._host_steps = host_steps
        self.sharded = runtime.is_spmd()
        self._by_key: dict[Any, CachedGraph] = {}
        self._lock = threading.RLock()

    def for_inputs(self, inputs: Sequence[Any], donated: frozenset[int] = frozenset()) -> CachedGraph:
        """The graph for a call's inputs, traced and warmed if it is the first of its kind.

        `donated`: positions of the inputs whose buffers the call gives away.
        """
        sizes = _sizes(inputs) if self.segment.dynamic else None
        # Dynamo does not guard on shardings, and a graph for another one makes the devices wait for ever.
        key = (sizes, donated, _shardings(inputs) if self.sharded else None)
        graph = self._by_key.get(key)
        if graph is None:
            with self._lock:
                graph = self._by_key.get(key)
                if graph is None:
                    graph = self._build(inputs, donated, self._difference(key))
                    if len(self._by_key) >= _MOST_SIZES:
                        del self._by_key[next(iter(self._by_key))]
                    self._by_key[key] = graph
        return graph

    def _difference(self, key: tuple[Any, ...]) -> TraceReason:
        """In what a call differs from the calls that the segment has graphs for."""
        if not self._by_key:
            return "first"
        sizes, _, shardings = next(reversed(self._by_key))
        if sizes != key[0]:
            return "sizes"
        return "sharding" if shardings != key[2] else "donation"

    def _build(self, inputs: Sequence[Any], donated: frozenset[int], reason: TraceReason) -> CachedGraph:
        graph_id = observer.next_graph_id()
        traced = self._trace(graph_id, inputs, donated, reason)
        graph = CachedGraph(graph_id, traced, inputs, self.device, self)
        _graphs[graph_id] = graph
        weakref.finalize(graph, _dropped, graph_id, graph.saved_nbytes).atexit = False
        return graph

    def hlo_text(self, graph: CachedGraph) -> str:
        """See `CachedGraph.hlo_text`."""
        return hlo_text(self.segment, graph.signature, self._literals, self.device)

    def rebuild(self, graph: CachedGraph, inputs: Sequence[Any], reason: RebuildReason) -> None:
        """Trace and warm `graph` again: XLA's cache lost it, or its saved buffers were donated."""
        if reason == "donated":
            self._report_dead(graph)
        elif reason == "evicted":
            observer.send(observer.GraphEvicted(graph.graph_id, graph.hash.hex(), observer.now_ns()))
        with self._lock:
            graph.load(self._trace(graph.graph_id, inputs, frozenset(graph.donated), reason))

    def _trace(self, graph_id: int, inputs: Sequence[Any], donated: frozenset[int], reason: TraceReason) -> Traced:
        mode = self._origin.warm_up or config.warm_up
        rehearsed = rehearsal.current()
        if rehearsed is not None:
            rehearsed.traced()
            mode = "compile"
        # A run that finds nothing in the cache is how mode `off` gets to compile.
        if mode == "off" and reason in ("evicted", "cleared"):
            mode = "compile"
        started = observer.now_ns()
        executes = mode == "execute"
        guarded = executes and config.guard
        traced_on = _copies(inputs, self.device) if guarded else inputs
        with trace(
            self.segment,
            traced_on,
            self._literals,
            self.device,
            donated=donated,
            copy_saved=guarded or config.saved_buffers == "copy",
            in_place=executes,
        ) as traced:
            if not traced.hash:
                return traced
            if any(p.kind == "seed" for p in traced.parameters):
                _say_how_to_seed()
            if observer.watching():
                # The step barrier of an executing warm-up compiles a graph of its own.
                cached = not executes and runtime.is_cached(traced.hash, traced.roots)
                self._report(graph_id, traced, inputs, reason, cached, started)
            before = [_buffer(value) for value in traced_on] if executes else []
            warmup.warm(traced, graph_id, mode)
        victims = [i for i, buffer in enumerate(before) if buffer is not None and runtime.handle(traced_on[i]) is None]
        for i in victims:
            self._report_donated("warm-up", graph_id, self._name(i), inputs[i], before[i], would_be=guarded)
        if victims and not guarded:
            names = ", ".join(self._name(i) for i in victims)
            raise SavedBufferDonatedError(
                f"graph {graph_id} of {self._origin.function} cannot run: its own warm-up in mode 'execute' donated"
                f" the buffer of {names}. An executing warm-up is a step barrier, which gives the buffers of tensors"
                " that are updated in place to their new values. Use warm_up='compile', or turn the guard on."
            )
        return traced

    def _report_dead(self, graph: CachedGraph) -> None:
        """Saved buffers of `graph` are dead; say so, and raise if that is what the user wants."""
        filename, line = barriers.last_line
        dead = [i for i, tensor in enumerate(graph.saved) if runtime.handle(tensor) is None]
        for i in dead:
            self._report_donated("step barrier", graph.graph_id, f"constant {i}", graph.saved[i], None)
        if config.on_donated == "raise":
            names = ", ".join(f"constant {i} ({spec_of(graph.saved[i])})" for i in dead)
            raise SavedBufferDonatedError(
                f"{names}, which graph {graph.graph_id} of {self._origin.function} keeps for later runs, was donated;"
                f" the last step barrier was at {filename}:{line}. With on_donated='recover' the graph is traced again."
            )

    def _report_donated(
        self,
        cause: observer.DonationCause,
        graph_id: int,
        name: str,
        tensor: torch.Tensor,
        buffer: tuple[int, int | None] | None,
        would_be: bool = False,
    ) -> None:
        handle, address = buffer or (0, None)
        observer.send(
            observer.Donated(
                cause=cause,
                graph_id=graph_id,
                name=name,
                spec=spec_of(tensor),
                handle=handle,
                address=address,
                saved=True,
                would_be=would_be,
                time_ns=observer.now_ns(),
            )
        )

    def _name(self, position: int) -> str:
        node = self.segment.inputs[position]
        return self._origin.names.get(node.name, node.name)

    def _report(
        self,
        graph_id: int,
        traced: Traced,
        inputs: Sequence[Any],
        reason: TraceReason,
        cached: bool,
        started: int,
    ) -> None:
        nodes = self.segment.inputs
        bindings = []
        for parameter in traced.parameters:
            if parameter.kind == "seed":
                bindings.append(observer.Binding("seed", 0, "random seed", observer.TensorSpec((), "int64", 8)))
            elif parameter.kind == "saved":
                spec = spec_of(traced.saved[parameter.index])
                bindings.append(observer.Binding("saved", parameter.index, f"constant {parameter.index}", spec))
            else:
                at = parameter.index
                kind: observer.BindingKind = "attribute" if nodes[at].op == "get_attr" else "argument"
                bindings.append(observer.Binding(kind, at, self._name(at), spec_of(inputs[at])))
        positions = [i for i, _ in enumerate(self.segment.outputs) if i not in traced.numbers]
        targets = [self.segment.outputs[i].target for i in positions]
        ended = observer.now_ns()
        observer.send(
            observer.GraphTraced(
                graph_id=graph_id,
                hash=traced.hash.hex(),
                function=self._origin.function,
                filename=self._origin.filename,
                line=self._origin.line,
                kind=self._origin.kind,
                segment=self.segment.index,
                reason=reason,
                inputs=tuple(bindings),
                outputs=tuple(spec_of(root) for root in traced.roots),
                mutations=tuple((nodes.index(t), k) for k, t in enumerate(targets) if t is not None),
                donated_inputs=traced.donated,
                saved_nbytes=sum(t.numel() * t.element_size() for t in traced.saved),
                op_count=traced.op_count,
                cached=cached,
                host_ops=tuple(
                    observer.HostOp(str(step.node.target), step.why, source_line(step.node))
                    for step in self._host_steps
                    # Taking a result out of its tuple is no operator of the user's.
                    if step.node.target is not operator.getitem
                ),
                trace_ns=ended - started,
                started_ns=started,
            )
        )


def _say_how_to_seed() -> None:
    """Notice for those who seeded torch and expect the XLA device to follow; it does not (torch_xla 2.9)."""
    if torch.initial_seed() < _CHOSEN_SEED:
        warnings.warn(
            "torch.manual_seed does not seed the XLA device: this function's random numbers follow"
            " torch_xla.manual_seed(seed).",
            stacklevel=2,
        )


def _buffer(value: Any) -> tuple[int, int | None] | None:
    """Handle and address of a tensor's buffer, if it has one."""
    handle = runtime.handle(value) if is_on_xla(value) else None
    return None if handle is None else (handle, runtime.address(value))


def _sizes(inputs: Sequence[Any]) -> tuple[Any, ...]:
    # 1, 1.0 and True are equal but not the same to a graph.
    return tuple(v.shape if isinstance(v, torch.Tensor) else (type(v), v) for v in inputs)


def _shardings(inputs: Sequence[Any]) -> tuple[str, ...]:
    return tuple(runtime.sharding_specs([v for v in inputs if is_on_xla(v)]))


def _copies(inputs: Sequence[Any], device: torch.device) -> list[Any]:
    """Private device copies of the tensors, for the guard to let a warm-up donate instead of them."""
    tensors = [v.cpu() for v in inputs if isinstance(v, torch.Tensor)]
    copies = iter(runtime.uploaded(tensors, device))
    return [next(copies) if isinstance(v, torch.Tensor) else v for v in inputs]


def _dropped(graph_id: int, saved_nbytes: int) -> None:
    observer.send(observer.GraphDropped(graph_id, saved_nbytes, observer.now_ns()))
