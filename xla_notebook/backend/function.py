"""CompiledFunction: an FX graph of AOTAutograd, run from cached graphs and host steps."""

from __future__ import annotations

import dataclasses
import itertools
import operator
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from xla_notebook.backend import barriers, rehearsal, runtime
from xla_notebook.backend.cache import Origin, SegmentGraphs
from xla_notebook.backend.donation import Offers
from xla_notebook.backend.fallback import split
from xla_notebook.backend.graph import CachedGraph
from xla_notebook.backend.program import HostStep, Program, Segment, is_on_xla, tensors_of
from xla_notebook.backend.substitutes import HOST_KERNELS
from xla_notebook.backend.tracing import HostNodes


@dataclasses.dataclass
class _Prepared:
    """A split program with the values of its literals and the graphs of its segments.

    `settled`: it ran to the end once, so that its split is final and values can be dropped when used up.
    """

    program: Program
    device: torch.device
    literals: Mapping[Node, Any]
    graphs: Mapping[Segment, SegmentGraphs]
    settled: bool = False


class CompiledFunction:
    """An FX graph of AOTAutograd, traced at its first call and run from cached graphs.

    Called with the graph's inputs in one sequence (see `_boxed`).
    """

    def __init__(self, module: GraphModule, origin: Origin, visible_outputs: int | None):
        self._module = module
        self._origin = origin
        self._visible_outputs = visible_outputs
        self._found_on_host: dict[str, str] = {}
        self._lock = threading.RLock()
        self._prepared: _Prepared | None = None
        # Set when one graph a call is all there is to do: the hot path.
        self._hot: _HotPath | None = None
        # Arguments marked for donation by hand before the first call; asked once.
        self._marked_by_hand: frozenset[int] | None = None

    def __call__(self, args: Sequence[Any]) -> Sequence[Any]:
        hot = self._hot
        run = self._run_steps if hot is None else hot.run
        if torch.is_inference_mode_enabled():
            # Results are ordinary tensors: torch_xla's inference tensors do not survive `detach()`.
            with torch.inference_mode(False), torch.no_grad():
                return run(args)
        return run(args)

    # The general way ------------------------------------------------------------------------------

    def _run_steps(self, args: Sequence[Any]) -> Sequence[Any]:
        with torch.no_grad(), torch._C._DisableAutocast():
            prepared = self._prepare(args)
            hot = self._hot_path(prepared, args)
            if hot is not None:
                try:
                    results = hot.run(args)
                except HostNodes as found:
                    self._split_again(prepared, found)
                    return self._run_steps(args)
                self._hot = hot
                return results
            env: dict[Any, Any] = dict(zip(prepared.program.placeholders, args, strict=True))
            env.update(prepared.literals)
            env.update((node, _attribute(self._module, node)) for node in prepared.program.attributes)
            while True:
                try:
                    _execute(prepared, env)
                    break
                except HostNodes as found:
                    # What ran stays in `env` and does not run again: a host step may have side effects.
                    self._split_again(prepared, found)
                    prepared = self._prepare(args)
            program = prepared.program
            with barriers.excluded(prepared.device):
                for target, value in program.updates:
                    _update(env[target], env[value.key])
                for node in program.views:
                    env[node] = _call(node, env)
            results = torch.fx.node.map_arg(program.results, env.__getitem__)
            prepared.settled = True
        return tuple(results)

    def _split_again(self, prepared: _Prepared, found: HostNodes) -> None:
        """A trace met more nodes that need the host."""
        with self._lock:
            self._found_on_host.update(found.names)
            if self._prepared is prepared:
                self._prepared = None

    def _prepare(self, args: Sequence[Any]) -> _Prepared:
        with self._lock:
            if self._prepared is None:
                self._prepared = self._split(args)
            return self._prepared

    def _split(self, args: Sequence[Any]) -> _Prepared:
        if not self._found_on_host:
            # As torch_xla's own bridge counts: once for each graph that Dynamo hands over and that is called.
            runtime.increment_counter("DynamoExtractCompiledGraph", 1)
        program = split(self._module, self._found_on_host, self._visible_outputs)
        literals = {
            node: _attribute(self._module, node)
            for node in self._module.graph.nodes
            if node.op == "get_attr" and node not in program.attributes
        }
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        on_xla = [t for t in tensors if is_on_xla(t)]
        if tensors and not on_xla:
            _say_all_on_cpu(tensors)
        device = on_xla[0].device if on_xla else runtime.current_device()
        graphs = {
            step: SegmentGraphs(step, literals, self._origin, device, program.host_steps)
            for step in program.steps
            if isinstance(step, Segment)
        }
        return _Prepared(program, device, literals, graphs)

    def _hot_path(self, prepared: _Prepared, args: Sequence[Any]) -> _HotPath | None:
        """The short way for the calls of a program that is a single graph."""
        program = prepared.program
        if self._marked_by_hand is None:
            self._marked_by_hand = frozenset(i for i, a in enumerate(args) if is_on_xla(a) and runtime.get_donation(a))
        single = len(program.steps) == 1 and not program.views and not program.attributes
        segment = program.steps[0] if single else None
        if not isinstance(segment, Segment):
            offers = self._offers(program)
            if offers:
                offers.refuse_all("the function is split by operators that run on the host")
            return None
        return _HotPath(program, segment, prepared.graphs[segment], self._offers(program))

    def _offers(self, program: Program) -> Offers:
        origin = self._origin
        names = {i: origin.names.get(node.name, node.name) for i, node in enumerate(program.placeholders)}
        targets = {target for target, _ in program.updates}
        return Offers(
            marked=[
                i for i, node in enumerate(program.placeholders) if node in program.donated or names[i] in origin.donate
            ],
            by_hand=self._marked_by_hand or (),
            updated=[i for i, node in enumerate(program.placeholders) if node in targets],
            kept=None if origin.kept is None else [i for i, name in names.items() if name in origin.kept],
            names=names,
            function=origin.function,
        )


def _execute(prepared: _Prepared, env: dict[Any, Any]) -> None:
    """Run the steps whose results `env` does not hold yet."""
    for step, used_up in zip(prepared.program.steps, prepared.program.used_up, strict=True):
        if isinstance(step, HostStep):
            if step.node not in env:
                rehearsed = rehearsal.current() is not None
                env[step.node] = rehearsal.host_result(step.node) if rehearsed else _call(step.node, env)
        elif not all(output.key in env for output in step.outputs):
            inputs = [env[node] for node in step.inputs]
            graph = prepared.graphs[step].for_inputs(inputs)
            results = iter(graph.run(inputs) if graph.hash else ())
            for position, output in enumerate(step.outputs):
                env[output.key] = graph.numbers[position] if position in graph.numbers else next(results)
        if prepared.settled:
            for node in used_up:
                env.pop(node, None)


def _update(argument: torch.Tensor, value: torch.Tensor) -> None:
    """Give an argument its new value, as an in-place operator of the user's would."""
    if argument.is_inference():
        with torch.inference_mode():
            argument.copy_(value)
    else:
        argument.copy_(value)


def _call(node: Node, env: Mapping[Any, Any]) -> Any:
    args = torch.fx.node.map_arg(node.args, env.__getitem__)
    kwargs = torch.fx.node.map_arg(node.kwargs, env.__getitem__)
    function: Callable[..., Any] = HOST_KERNELS.get(node.target, node.target)  # type: ignore[arg-type]
    return function(*args, **kwargs)


def _attribute(module: GraphModule, node: Node) -> Any:
    value: Any = module
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value


class _HotPath:
    """One graph, then in-place updates, then the results in the order that AOTAutograd expects."""

    def __init__(self, program: Program, segment: Segment, graphs: SegmentGraphs, offers: Offers):
        self._graphs = graphs
        self._offers = offers
        self._no_barrier = barriers.excluded(graphs.device)
        # Otherwise the segment has one graph for good, which need not be looked up at each call.
        self._varies = segment.dynamic or graphs.sharded or bool(offers)
        self._graph: CachedGraph | None = None
        numbers = [p for p, o in enumerate(segment.outputs) if not _is_tensor(o.node)]
        tensors = [o for o in segment.outputs if _is_tensor(o.node)]
        position = {o: i for i, o in enumerate(tensors)}
        self._updates = tuple(
            (program.placeholders.index(target), position[value]) for target, value in program.updates
        )
        self._updated = {result: argument for argument, result in self._updates}
        # Positions in [*results, *arguments, *numbers, *constants].
        base = len(tensors) + len(program.placeholders)
        place = {node: len(tensors) + i for i, node in enumerate(program.placeholders)}
        place.update((segment.outputs[p].node, base + i) for i, p in enumerate(numbers))
        place.update((o.node, i) for o, i in position.items() if o.target is None)
        self._constants = [r for r in program.results if not isinstance(r, Node)]
        constants = itertools.count(base + len(numbers))
        order = [place[r] if isinstance(r, Node) else next(constants) for r in program.results]
        self._select = None if order == list(range(len(tensors))) else _picker(order)

    def run(self, args: Sequence[Any]) -> Sequence[Any]:
        graph, watch = self._graph, None
        if graph is None:
            graph = self._graphs.for_inputs(args, self._offers.accepted(args))
            watch = self._offers.watch(graph, args, self._updated)
            if not self._varies:
                self._graph = graph
        results: Sequence[Any] = graph.run(args) if graph.hash else ()
        if watch is not None:
            watch.tell(results)
        if self._updates:
            with self._no_barrier:
                for argument, result in self._updates:
                    _update(args[argument], results[result])
        if self._select is None:
            return results
        return self._select([*results, *args, *graph.numbers.values(), *self._constants])


def _picker(order: list[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    return operator.itemgetter(*order) if len(order) > 1 else lambda pool: [pool[i] for i in order]


def _is_tensor(node: Node) -> bool:
    return next(tensors_of(node.meta.get("val")), None) is not None


def _say_all_on_cpu(tensors: Sequence[torch.Tensor]) -> None:
    for tensor in tensors:
        warnings.warn(
            f"Found tensor with shape {tensor.size()} on {tensor.device}. Nothing of this function is on the XLA"
            " device, so it runs on the CPU; move its tensors and modules with .to('xla').",
            stacklevel=2,
        )
