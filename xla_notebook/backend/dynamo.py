"""The backend as Dynamo sees it: registered as ``xla_notebook``, joined to AOTAutograd."""

from __future__ import annotations

import difflib
import itertools
import operator
import re
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.schemas import ViewAndMutationMeta
from torch.fx import GraphModule, Node

from xla_notebook.backend.device import choose_device

choose_device()

from xla_notebook.backend import barriers, runtime, substitutes  # noqa: E402
from xla_notebook.backend.cache import Origin, SegmentGraphs  # noqa: E402
from xla_notebook.backend.config import validate  # noqa: E402
from xla_notebook.backend.donation import Offers, names_kept_by_dynamo  # noqa: E402
from xla_notebook.backend.fallback import HostStep, Program, Segment, is_on_xla, split, tensors_of  # noqa: E402
from xla_notebook.backend.graph import CachedGraph  # noqa: E402
from xla_notebook.backend.observer import GraphKind  # noqa: E402
from xla_notebook.backend.substitutes import DECOMPOSITIONS, HOST_KERNELS  # noqa: E402
from xla_notebook.backend.tracing import HostNodes  # noqa: E402

# Here, not at the first compile: Dynamo needs it before it calls any backend.
substitutes.install()

_OPTIONS = ("warm_up", "donate")
_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)


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
        self._program: Program | None = None
        self._graphs: dict[Segment, SegmentGraphs] = {}
        self._literals: dict[Node, Any] = {}
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
            program = self._prepare(args)
            hot = self._hot_path(program, args)
            if hot is not None:
                try:
                    results = hot.run(args)
                except HostNodes as found:
                    self._found_on_host.update(found.names)
                    self._program = None
                    return self._run_steps(args)
                self._hot = hot
                return results
            env: dict[Any, Any] = dict(zip(program.placeholders, args, strict=True))
            env.update(self._literals)
            env.update((node, self._attribute(node)) for node in program.attributes)
            while True:
                try:
                    self._execute(program, env)
                    break
                except HostNodes as found:
                    # What ran stays in `env` and does not run again: a host step may have side effects.
                    self._found_on_host.update(found.names)
                    self._program = None
                    program = self._prepare(args)
            for target, value in program.updates:
                env[target].copy_(env[value.key])
            for node in program.views:
                env[node] = self._call(node, env)
            results = torch.fx.node.map_arg(program.results, env.__getitem__)
        return tuple(results)

    def _prepare(self, args: Sequence[Any]) -> Program:
        with self._lock:
            if self._program is None:
                if not self._graphs:
                    # As torch_xla's own bridge counts: once for each graph that Dynamo hands over and that is called.
                    runtime.increment_counter("DynamoExtractCompiledGraph", 1)
                self._program = split(self._module, self._found_on_host, self._visible_outputs)
                self._literals = {
                    node: self._attribute(node)
                    for node in self._module.graph.nodes
                    if node.op == "get_attr" and node not in self._program.attributes
                }
                tensors = [a for a in args if isinstance(a, torch.Tensor)]
                on_xla = [t for t in tensors if t.device.type == "xla"]
                if tensors and not on_xla:
                    _say_all_on_cpu(tensors)
                device = on_xla[0].device if on_xla else runtime.current_device()
                self._graphs = {
                    step: SegmentGraphs(step, self._literals, self._origin, device, self._program.host_steps)
                    for step in self._program.steps
                    if isinstance(step, Segment)
                }
            return self._program

    def _execute(self, program: Program, env: dict[Any, Any]) -> None:
        for step in program.steps:
            if isinstance(step, HostStep):
                if step.node not in env:
                    env[step.node] = self._call(step.node, env)
            elif not all(output.key in env for output in step.outputs):
                inputs = [env[node] for node in step.inputs]
                graph = self._graphs[step].for_inputs(inputs)
                results = iter(graph.run(inputs) if graph.hash else ())
                for position, output in enumerate(step.outputs):
                    value = graph.numbers[position] if position in graph.numbers else next(results)
                    env[output.key] = value

    def _call(self, node: Node, env: Mapping[Any, Any]) -> Any:
        args = torch.fx.node.map_arg(node.args, env.__getitem__)
        kwargs = torch.fx.node.map_arg(node.kwargs, env.__getitem__)
        function: Callable[..., Any] = HOST_KERNELS.get(node.target, node.target)  # type: ignore[arg-type]
        return function(*args, **kwargs)

    def _attribute(self, node: Node) -> Any:
        value: Any = self._module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        return value

    def _hot_path(self, program: Program, args: Sequence[Any]) -> _HotPath | None:
        """The short way for the calls of a program that is a single graph."""
        if self._marked_by_hand is None:
            self._marked_by_hand = frozenset(i for i, a in enumerate(args) if is_on_xla(a) and runtime.get_donation(a))
        single = len(program.steps) == 1 and not program.views and not program.attributes
        segment = program.steps[0] if single else None
        if not isinstance(segment, Segment):
            offers = self._offers(program)
            if offers:
                offers.refuse_all("the function is split by operators that run on the host")
            return None
        return _HotPath(program, segment, self._graphs[segment], self._offers(program))

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


class _HotPath:
    """One graph, then in-place updates, then the results in the order that AOTAutograd expects."""

    def __init__(self, program: Program, segment: Segment, graphs: SegmentGraphs, offers: Offers):
        self._graphs = graphs
        self._offers = offers
        # Otherwise the segment has one graph for good, which need not be looked up at each call.
        self._varies = segment.dynamic or graphs.sharded or bool(offers)
        self._graph: CachedGraph | None = None
        numbers = [p for p, o in enumerate(segment.outputs) if not _is_tensor(o.node)]
        tensors = [o for o in segment.outputs if _is_tensor(o.node)]
        position = {o: i for i, o in enumerate(tensors)}
        self._updates = tuple(
            (program.placeholders.index(target), position[value]) for target, value in program.updates
        )
        # Positions in [*results, *arguments, *numbers, None].
        base = len(tensors) + len(program.placeholders)
        place: dict[Node | None, int] = {None: base + len(numbers)}
        place.update((node, len(tensors) + i) for i, node in enumerate(program.placeholders))
        place.update((segment.outputs[p].node, base + i) for i, p in enumerate(numbers))
        place.update((o.node, i) for o, i in position.items() if o.target is None)
        order = [place[r] if isinstance(r, Node) else place[None] for r in program.results]
        self._constants = [r for r in program.results if r is not None and not isinstance(r, Node)]
        self._select = None if order == list(range(len(tensors))) else _picker(order)

    def run(self, args: Sequence[Any]) -> Sequence[Any]:
        graph = self._graph
        if graph is None:
            graph = self._graphs.for_inputs(args, self._offers.accepted(args))
            if not self._varies:
                self._graph = graph
        results: Sequence[Any] = graph.run(args) if graph.hash else ()
        for argument, result in self._updates:
            args[argument].copy_(results[result])
        if self._select is None:
            return results
        return self._select([*results, *args, *graph.numbers.values(), None])


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


# Arguments that share memory ----------------------------------------------------------------------
#
# Note [Views as arguments]. AOTAutograd sees which arguments share a storage and rebuilds them from a
# common base by offset and strides. XLA tensors report offset 0 and contiguous strides whatever they are
# a view of, so it rebuilds the wrong elements, silently. When such arguments are updated in place the
# function runs uncompiled: torch_xla itself tracks views right.


def _share_storage(args: Sequence[Any]) -> bool:
    """Whether two of the XLA tensors share memory. About 0.1 us a tensor."""
    storages = [a.untyped_storage()._cdata for a in args if is_on_xla(a)]
    return len(set(storages)) != len(storages)


def _may_update_arguments(module: GraphModule) -> bool:
    """Whether Dynamo's graph has an operator that might write into an argument."""
    for node in module.graph.nodes:
        name = str(getattr(node.target, "__name__", node.target))
        if node.op in ("call_function", "call_method") and (
            (name.endswith("_") and not name.endswith("__"))
            or name.startswith(("i", "setitem"))
            or "out" in node.kwargs
            or isinstance(node.target, torch._ops.OpOverload)
        ):
            return True
    return False


def _uncompiled(module: GraphModule, names: Mapping[str, str]) -> Callable[..., Any]:
    warnings.warn(
        f"some of {', '.join(sorted(set(names.values())))} are views of one tensor and are updated in place; the"
        " function runs uncompiled (lazily), because their positions in the shared memory are unknown to a graph."
        " Pass the whole tensor and take the views inside the function to have it compiled.",
        stacklevel=2,
    )
    return module


def _boxed(function: CompiledFunction) -> Callable[[list[Any]], Sequence[Any]]:
    """`function` as AOTAutograd calls it: with one list. A plain function keeps the mark that says so
    when Dynamo wraps it."""

    def run(args: list[Any]) -> Sequence[Any]:
        return function(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _unwrapped(function: CompiledFunction) -> Callable[..., Any]:
    """`function` without AOTAutograd's wrapper, of which nothing is left to do but to switch autograd off."""

    def run(*args: Any) -> Sequence[Any]:
        if not torch.is_grad_enabled():
            return function(args)
        # As AOTAutograd does: the context manager costs a microsecond.
        torch._C._set_grad_enabled(False)
        try:
            return function(args)
        finally:
            torch._C._set_grad_enabled(True)

    return run


def _needs_wrapper(
    metadata: ViewAndMutationMeta, module: GraphModule, example_inputs: Sequence[Any], graph: GraphModule
) -> bool:
    """Whether AOTAutograd's wrapper of an inference graph has more to do than to call the graph."""
    placeholders = sum(node.op == "placeholder" for node in graph.graph.nodes)
    lifted = next(itertools.chain(module.parameters(), module.buffers()), None) is not None
    return (
        lifted
        or placeholders != len(example_inputs)
        or any(isinstance(a, torch.Tensor) and type(a) not in _PLAIN_TENSORS for a in example_inputs)
        or bool(metadata.mutated_inp_runtime_indices)
        or bool(metadata.aliased_out_indices)
        or bool(metadata.num_intermediate_bases)
        or bool(metadata.dynamic_outputs)
        or bool(metadata.tokens)
        or metadata.grad_enabled_mutation is not None
    )


# What Dynamo tells of the function ------------------------------------------------------------------


def _readable(source: str) -> str:
    """Dynamo's name of a value as the user would write it: ``L['x']`` -> ``x``."""
    name = re.sub(r"\b[LG]\['(\w+)'\]", r"\1", source)
    name = re.sub(r"\._(?:modules|parameters|buffers)\['(\d+)'\]", r"[\1]", name)
    return re.sub(r"\._(?:modules|parameters|buffers)\['(\w+)'\]", r".\1", name)


def _argument_names(module: GraphModule) -> dict[str, str]:
    """The user's names for the placeholders that AOTAutograd will make, in its order."""
    lifted = getattr(module, "_param_name_to_source", None) or {}
    sources = [
        lifted[name].name() if name in lifted else name
        for name, _ in itertools.chain(
            module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)
        )
    ]
    for node in module.graph.nodes:
        if node.op == "placeholder":
            argument = node.meta.get("grapharg")
            sources.append(argument.source.name() if argument is not None else node.name)
    names = [_readable(source) for source in sources]
    return {
        **{f"arg{i}_1": name for i, name in enumerate(names)},
        **{f"primals_{i}": name for i, name in enumerate(names, 1)},
    }


def _place(module: GraphModule) -> tuple[str, str | None, int | None]:
    """Name, file and line of the outermost user function in the graph."""
    for node in module.graph.nodes:
        match = re.search(r'File "(.+?)", line (\d+), in (\S+)', str(node.meta.get("stack_trace", "")))
        if match:
            return match[3], match[1], int(match[2])
    return "function", None, None


def _visible_outputs(kind: GraphKind) -> int | None:
    """How many of a graph's outputs come first and are seen by the user; None means all."""
    if kind == "backward":
        return 0
    if kind == "forward":
        context = torch._guards.TracingContext.try_get()
        if context is not None and context.fw_metadata is not None:
            return int(context.fw_metadata.num_forward_returns)
    return None


def _options(options: Mapping[str, Any] | None) -> Mapping[str, Any]:
    for name in options or {}:
        if name not in _OPTIONS:
            near = difflib.get_close_matches(name, _OPTIONS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(_OPTIONS)}"
            raise ValueError(f"xla_notebook has no compile option {name!r}{hint}")
    checked = options or {}
    if "warm_up" in checked:
        validate("warm_up", checked["warm_up"])
    return checked


def xla_notebook(
    module: GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_mode: Any
) -> Callable[..., Any]:
    """The Dynamo backend: ``torch.compile(fn, backend="xla_notebook", options={...})``.

    Options: ``warm_up`` (``"compile"``, ``"execute"`` or ``"off"``) for this function alone. Raises
    `ValueError` for an unknown option or value. The graph is traced at the first call, on the real
    arguments; nothing runs before.
    """
    checked = _options(options)
    barriers.install()
    names = _argument_names(module)
    donate = tuple(checked.get("donate", ()))
    sources = names_kept_by_dynamo()
    kept = None if sources is None else frozenset(_readable(source) for source in sources)
    if _share_storage(example_inputs) and _may_update_arguments(module):
        return _uncompiled(module, names)
    function, filename, line = _place(module)
    optimizer = any("param_groups" in name for name in names.values())
    # What AOTAutograd found out, and the graph if it needs none of AOTAutograd's wrapper.
    updates_arguments = False
    unwrapped: CompiledFunction | None = None

    def compiler(kind: GraphKind) -> Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]:
        def compile_graph(graph: GraphModule, _fake_inputs: Sequence[Any]) -> Callable[..., Any]:
            nonlocal updates_arguments, unwrapped
            origin = Origin(function, filename, line, kind, names, checked.get("warm_up"), donate, kept)
            compiled = CompiledFunction(graph, origin, _visible_outputs(kind))
            context = torch._guards.TracingContext.try_get()
            metadata = None if context is None else context.fw_metadata
            if metadata is None:
                updates_arguments = True
            else:
                updates_arguments |= any(i.mutates_data or i.mutates_metadata for i in metadata.input_info)
                inference = kind in ("inference", "optimizer")
                if inference and not _needs_wrapper(metadata, module, example_inputs, graph):
                    unwrapped = compiled
            return _boxed(compiled)

        return compile_graph

    wrapped: Callable[..., Any] = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("optimizer" if optimizer else "inference"),
        decompositions=DECOMPOSITIONS,
        keep_inference_input_mutations=True,
    )(module, example_inputs)
    call = wrapped if unwrapped is None else _unwrapped(unwrapped)
    if not updates_arguments:
        return call

    def run(*args: Any) -> Any:
        # Dynamo does not guard on arguments that come to share memory in a later call.
        return module(*args) if _share_storage(args) else call(*args)

    return run
