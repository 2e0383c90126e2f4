"""Splits an FX graph into segments that become XLA graphs and steps that run on the host between them.

Which nodes run on the host is decided before anything is traced, from what the operator declares: a
custom operator (its Python may do anything, so it must run exactly once a call), an operator whose output
depends on data, one without an XLA kernel, one that works on CPU tensors, a higher-order operator. About
fifty XLA kernels fall back to the host under conditions that only a trace shows; the tracer finds those
and splits again (see `tracing.HostNodes`).
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

from xla_notebook.backend.indexing import MASKS
from xla_notebook.backend.program import HostStep, Output, Program, Segment, tensors_of
from xla_notebook.backend.substitutes import wrong_on_xla

# Namespaces whose XLA kernels are lazy and free of side effects. Everything else is somebody's own code.
_LAZY_NAMESPACES = frozenset({"aten", "prims", "prim", "xla", "_c10d_functional", "quantized_decomposed"})
_DATA_DEPENDENT = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})
_COMPOSITES = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


@functools.cache
def _lowers(op: torch._ops.OpOverload) -> bool:
    name = op.name()
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return has(name, "XLA") or any(has(name, key) for key in _COMPOSITES)


@functools.cache
def _is_pure(target: Any) -> bool:
    """Whether it does not matter when an operator runs: no side effect, no random draw."""
    if target is operator.getitem:
        return True
    return (
        isinstance(target, torch._ops.OpOverload)
        and target.namespace in _LAZY_NAMESPACES
        and not target._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in target.tags
    )


@functools.cache
def _is_view(op: Any) -> bool:
    """Whether the operator's result shares memory with its first argument in eager mode."""
    if not isinstance(op, torch._ops.OpOverload) or not op._schema.arguments:
        return False
    first = op._schema.arguments[0].alias_info
    return first is not None and not first.is_write and any(r.alias_info is not None for r in op._schema.returns)


def _depends_on_data(node: Node) -> bool:
    """Whether an operator's output, or its size, is known only when it has run."""
    if node.target is torch.ops.aten.index.Tensor:
        # Tagged for its masks; positions give a result of known size.
        return any(index is not None and index.meta["val"].dtype in MASKS for index in node.args[1])  # type: ignore[union-attr]
    return bool(_DATA_DEPENDENT & set(node.target.tags))  # type: ignore[union-attr]


class _Splitter:
    def __init__(self, module: GraphModule, found_on_host: Mapping[str, str], visible_outputs: int | None):
        self.module = module
        self.found_on_host = found_on_host
        self.visible_outputs = visible_outputs
        self.donated: set[Node] = set()
        self.copies: list[tuple[Node, Node]] = []
        self.why_host: dict[Node, str] = {}
        # CPU literals, which each segment makes for itself: a segment hands out tensors of the device only.
        self.constants: set[Node] = set()
        self.level: dict[Node, int] = {}
        self.attributes: list[Node] = []

    # Which node is which -------------------------------------------------------------------------

    def attribute(self, node: Node) -> Any:
        value: Any = self.module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        return value

    def _cpu_result(self, node: Node) -> bool:
        tensors = list(tensors_of(node.meta.get("val")))
        return bool(tensors) and all(t.device.type != "xla" for t in tensors)

    def _is_constant(self, node: Node) -> bool:
        """CPU work on nothing but literals: done once, while tracing, unless somebody outside needs it."""
        if node.op == "get_attr":
            value = self.attribute(node)
            return isinstance(value, torch.Tensor) and value.device.type != "xla"
        return (
            node.op == "call_function"
            and self._cpu_result(node)
            and isinstance(node.target, torch._ops.OpOverload)
            and node.target.namespace in _LAZY_NAMESPACES
            and torch.Tag.nondeterministic_seeded not in node.target.tags
            and not _depends_on_data(node)
            and all(self._is_constant(n) for n in node.all_input_nodes)
        )

    def _reason(self, node: Node) -> str | None:
        """Why `node` must run on the host, or None."""
        if node.name in self.found_on_host:
            return self.found_on_host[node.name]
        target = node.target
        if target is operator.getitem:
            return self.why_host.get(node.all_input_nodes[0])
        if isinstance(target, torch._ops.HigherOrderOperator):
            return "higher-order operator"
        if not isinstance(target, torch._ops.OpOverload):
            return None if not list(tensors_of(node.meta.get("val"))) else "not a PyTorch operator"
        if target.namespace not in _LAZY_NAMESPACES:
            return "custom operator"
        if _depends_on_data(node):
            return "output depends on data"
        if target._schema.is_mutable and target.namespace != "xla":
            return "updates its argument in place"
        if self._cpu_result(node):
            return None if self._is_constant(node) else "works on the CPU"
        return wrong_on_xla(node) if _lowers(target) else "no XLA lowering"

    def _normalise(self) -> tuple[tuple[Node, ...], list[Node], Node]:
        """Take donation marks and final in-place updates out of the work."""
        placeholders: list[Node] = []
        work: list[Node] = []
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                placeholders.append(node)
            elif node.op == "get_attr":
                value = self.attribute(node)
                if isinstance(value, torch.Tensor) and value.device.type == "xla":
                    self.attributes.append(node)
            elif node.op == "output":
                output = node
            elif node.target is torch.ops.xla.dynamo_set_buffer_donor_.default:
                marked = node.args[0]
                node.replace_all_uses_with(marked)
                if len(node.args) < 2 or node.args[1]:
                    self.donated.add(marked)
                else:
                    self.donated.discard(marked)
            elif node.target is torch.ops.aten.copy_.default and node.args[0].op in ("placeholder", "get_attr"):
                # AOTAutograd puts the updates of arguments at the end, when nothing reads the old values.
                node.replace_all_uses_with(node.args[0])
                self.copies.append((node.args[0], node.args[1]))
            else:
                work.append(node)
        return tuple(placeholders), work, output

    def _view_groups(self, results: Iterable[Any]) -> set[Node]:
        """Nodes that make the outputs which alias another output of the graph in eager mode.

        The user can see the alias (a write into one shows in the other), so such outputs are made from
        their base at each call. A single view is computed in the graph like any other value.
        """
        visible = [r for r in list(results)[: self.visible_outputs] if isinstance(r, Node)]
        chains: dict[Node, tuple[Node, list[Node]]] = {}
        for node in dict.fromkeys(visible):
            chain: list[Node] = []
            base = node
            while (viewed := self._viewed(base)) is not None:
                chain.append(base)
                base = viewed
            chains[node] = (base, chain)
        bases = [base for base, _ in chains.values()]
        regrouped: set[Node] = set()
        for node, (base, chain) in chains.items():
            shared = base.op == "call_function" and bases.count(base) > 1
            # AOTAutograd makes such an output from the argument again. With sizes that it does not know it
            # goes by strides, which XLA tensors have not, unless the output is a view already.
            of_unknown_size = base.op == "placeholder" and _is_symbolic(node.meta.get("val"))
            if chain and (shared or of_unknown_size):
                regrouped.update(chain)
        return regrouped

    def _viewed(self, node: Node) -> Node | None:
        """What `node` is a view of, or None if it has memory of its own."""
        if node.op != "call_function":
            return None
        source = next(iter(node.all_input_nodes), None)
        if _is_view(node.target):
            return source
        if node.target is operator.getitem and source is not None and _is_view(source.target):
            return source
        return None

    # Putting it together -------------------------------------------------------------------------

    def split(self) -> Program:
        placeholders, work, output = self._normalise()
        results: tuple[Any, ...] = tuple(output.args[0])  # type: ignore[arg-type]
        for node in work:
            reason = self._reason(node)
            if reason is not None:
                self.why_host[node] = reason
        self._pull_constants_out(work, results)
        self.constants.update(n for n in work if n not in self.why_host and self._is_constant(n))
        views = self._view_groups(results)
        # A view that other work reads too is computed in its segment as well as made anew at the end.
        view_nodes = tuple(node for node in work if node in views)

        self._place(work)
        wanted = self._wanted_outside(work, results, view_nodes)
        steps: list[Segment | HostStep] = []
        host_nodes = [n for n in work if n in self.why_host]
        for level in range(max(self.level.values(), default=0) + 1):
            steps.extend(HostStep(n, self.why_host[n]) for n in host_nodes if self.level[n] == level)
            segment = self._segment(level, work, wanted, len(steps))
            if segment is not None:
                steps.append(segment)
        if not host_nodes and len(steps) == 1:
            # One graph is all: it takes the arguments as they come, so that a call need not pick them.
            (only,) = steps
            assert isinstance(only, Segment)
            steps = [dataclasses.replace(only, inputs=(*placeholders, *self.attributes))]
        updates = tuple((target, self._update(target, value)) for target, value in self.copies)
        return Program(
            placeholders=placeholders,
            attributes=tuple(self.attributes),
            steps=tuple(steps),
            updates=updates,
            views=view_nodes,
            results=results,
            donated=frozenset(self.donated),
        )

    def _place(self, work: list[Node]) -> None:
        """Give each node its level. At each level the host steps run first, then one segment.

        A host step goes to the first level at which its inputs are there, so that the counters that an
        optimizer keeps on the CPU, say, are all done before one graph. Only steps that might have side
        effects keep their order.
        """
        ordered = 0
        for node in work:
            on_host = node in self.why_host
            level = 0
            for source in node.all_input_nodes:
                after_segment = on_host and source not in self.why_host and source in self.level
                level = max(level, self.level.get(source, 0) + after_segment)
            if on_host and not _is_pure(node.target):
                ordered = level = max(level, ordered)
            self.level[node] = level

    def _pull_constants_out(self, work: list[Node], results: Any) -> None:
        """A CPU literal that leaves the graph, or that a host step takes, is made anew at each call."""
        leaving: set[Node] = set()
        torch.fx.node.map_arg(results, leaving.add)
        leaving.update(value for _, value in self.copies)
        for node in reversed(work):
            if node in self.why_host:
                leaving.update(node.all_input_nodes)
            elif node in leaving and self._cpu_result(node):
                self.why_host[node] = "works on the CPU"
                leaving.update(node.all_input_nodes)

    def _update(self, target: Node, value: Node) -> Output:
        """The new value of an updated argument.

        ``argument.copy_(value)`` makes both share the buffer. If `value` were also a result, or the new
        value of another argument, the user's next in-place step on one of them would donate the memory
        of the other (seen with plain torch_xla). So each update gets a buffer of its own.
        """
        on_host = value in self.why_host or self._cpu_result(value)
        return Output(value, None if on_host else target)

    def _wanted_outside(self, work: list[Node], results: Any, views: tuple[Node, ...]) -> dict[Node, list[Output]]:
        """What each node must hand out of its segment."""
        plain: dict[Node, None] = {}
        made_later = set(views)
        torch.fx.node.map_arg(results, lambda n: plain.setdefault(n) if n not in made_later else None)
        for view in views:
            for node in view.all_input_nodes:
                if node not in made_later:
                    plain.setdefault(node)
        for node in work:
            for source in node.all_input_nodes:
                outside = node in self.why_host or self.level.get(source, 0) != self.level[node]
                if outside and source not in self.constants:
                    plain.setdefault(source)
        wanted: dict[Node, list[Output]] = {node: [Output(node)] for node in plain}
        for target, value in self.copies:
            update = self._update(target, value)
            outputs = wanted.setdefault(value, [])
            if update not in outputs:
                outputs.append(update)
        return wanted

    def _segment(self, level: int, work: list[Node], wanted: dict[Node, list[Output]], index: int) -> Segment | None:
        inside = {n for n in work if n not in self.why_host and n not in self.constants and self.level[n] == level}
        for node in reversed(work):
            if node in self.constants and not inside.isdisjoint(node.users):
                inside.add(node)
        nodes = [n for n in work if n in inside]
        outputs = [output for node in nodes for output in wanted.get(node, ())]
        if level == 0:
            # An argument that another argument is updated with: the copy is the segment's work.
            arguments = [n for n in wanted if n.op in ("placeholder", "get_attr")]
            outputs.extend(o for n in arguments for o in wanted[n] if o.target)
        if not nodes and not outputs:
            return None
        inputs: dict[Node, None] = {}
        for node in nodes:
            for source in node.all_input_nodes:
                if source not in inside and not self._is_literal(source):
                    inputs.setdefault(source)
        for output in outputs:
            if output.node not in inside:
                inputs.setdefault(output.node)
            if output.target is not None:
                # Not read, but an executing warm-up updates it in place.
                inputs.setdefault(output.target)
        return Segment(
            index=index,
            nodes=tuple(nodes),
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            dynamic=any(_is_symbolic(n.meta.get("val")) for n in inputs),
        )

    def _is_literal(self, node: Node) -> bool:
        return node.op == "get_attr" and node not in self.attributes


def _is_symbolic(value: Any) -> bool:
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float)):
        return True
    return any(isinstance(size, torch.SymInt) for t in tensors_of(value) for size in t.shape)


def split(
    module: GraphModule,
    found_on_host: Mapping[str, str] | None = None,
    visible_outputs: int | None = None,
) -> Program:
    """Split an FX graph of AOTAutograd into segments and host steps.

    `found_on_host`: names of nodes that a trace found to run on the host, with why. `visible_outputs`:
    how many of the outputs the user gets to see (None: all), so that their aliases matter.
    """
    return _Splitter(module, found_on_host or {}, visible_outputs).split()
