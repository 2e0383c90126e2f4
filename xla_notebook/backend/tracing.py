"""FX segment and arguments -> traced graph: roots, bindings, saved buffers. Nothing executes.

Note [Private wrappers]. The segment runs on wrappers that share the arguments' device data. In-place
work changes a wrapper alone, so when the trace is over, or fails, dropping the wrappers leaves the user's
tensors as they were: no clones, no restoring copies, no step barrier.

Note [Stand-ins]. Two arguments that share device data (``x`` and ``x.detach()``), or a one-element
argument that shares a buffer with a constant of torch_xla's scalar cache, would become one graph input,
and a later call in which they differ would silently compute the wrong thing. Such an argument is traced
through a buffer of its own, filled with zeros; graphs never contain an argument's value, so only shape
and dtype matter.

Note [Handles]. Graph inputs are told apart by the handles of their buffers. A result of a run that is only
being sent to the device has none yet: its handle is that of a placeholder, and changes when the buffer comes.
If that happened in the middle of a trace, the argument would not be recognised at its end and be kept as
a constant: all later calls would compute with the first call's value. So the trace waits until every run so
far was sent (not until it has ended).
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import operator
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.utils._python_dispatch import _disable_current_modes

from xla_notebook.backend import barriers, rehearsal, runtime
from xla_notebook.backend.fingerprint import fingerprint, salted
from xla_notebook.backend.program import Segment, is_on_xla, source_place, tensors_of
from xla_notebook.backend.substitutes import (
    as_pytorch_gives,
    of_shape,
    over_all_dimensions,
    with_a_dimension,
    with_pytorch_types,
    without_elements,
)

# How often traces ran each operator on the host, to find that it cannot be in a graph. No call of the user's did.
host_ops_tried: collections.Counter[str] = collections.Counter()


class HostNodes(Exception):
    """The trace met nodes that ran on the host or read a value. Split around them and trace again."""

    def __init__(self, names: Mapping[str, str]):
        super().__init__(f"nodes that need the host: {', '.join(names)}")
        self.names = dict(names)


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter of the executable: `kind` ``argument`` (position in the segment's inputs),
    ``saved`` (position in `Traced.saved`) or ``seed``."""

    kind: str
    index: int


@dataclasses.dataclass
class Traced:
    """A recorded graph. `roots` are alive (and lazy) only inside of `trace`'s context.

    `numbers`: outputs of the segment that are Python numbers, by position. The other outputs are the
    executable's results in order, whose shapes and types are `outputs`; it has none if `hash` is empty.
    `pending`: positions of the inputs that had to be materialized. `warmed`: whether it was warmed up.
    """

    hash: bytes
    roots: list[torch.Tensor]
    parameters: tuple[Parameter, ...]
    saved: list[torch.Tensor]
    numbers: dict[int, Any]
    donated: tuple[int, ...]
    op_count: int
    pending: tuple[int, ...] = ()
    outputs: tuple[tuple[tuple[int, ...], torch.dtype], ...] = ()
    warmed: bool = True


@contextlib.contextmanager
def trace(
    segment: Segment,
    values: Sequence[Any],
    literals: Mapping[Node, Any],
    device: torch.device,
    donated: frozenset[int] = frozenset(),
    copy_saved: bool = False,
    in_place: bool = False,
) -> Iterator[Traced]:
    """Record `segment` on `values` (its inputs: tensors and numbers). Use the result inside the context.

    Pending arguments are materialized first, without donation. `donated`: positions of inputs whose
    buffers the executable may take. `in_place`: let the roots of updated arguments be their wrappers, so
    that a step barrier over the roots donates the old buffers. Raises `HostNodes` if the segment cannot
    be one graph, and whatever an operator raises; the user's tensors and random state are then as they
    were.
    """
    positions = [i for i, v in enumerate(values) if is_on_xla(v)]
    tensors = [values[i] for i in positions]
    with barriers.excluded(device):
        lazy = tuple(i for i, waits in zip(positions, runtime.pending(tensors), strict=True) if waits)
        if lazy:
            rehearsal.materialize([values[i] for i in lazy])
    with _quiet(device), contextlib.ExitStack() as restoring:
        # See Note [Handles].
        runtime.wait_until_sent(device)
        recording = _Recording(segment, literals, device)
        restoring.callback(recording.forget)
        for tensor in tensors:
            mark = runtime.get_donation(tensor)
            restoring.callback(_insist, _mark, tensor, mark)
            if mark:
                # Which inputs this graph donates is decided by `donated` alone.
                runtime.set_donation(tensor, False)
        try:
            recording.stand_in(values)
            recording.run()
            yield dataclasses.replace(recording.finish(donated, copy_saved, in_place), pending=lazy)
        except BaseException as error:
            # A traceback kept by the notebook would keep the wrappers, and with them lazy work on the
            # user's buffers, which the next step barrier would execute and donate.
            if error.__traceback__ is not None:
                traceback.clear_frames(error.__traceback__)
            raise


def _mark(tensor: torch.Tensor, mark: bool) -> None:
    if runtime.get_donation(tensor) != mark:
        runtime.set_donation(tensor, mark)


def _insist(restore: Callable[..., None], *args: Any) -> None:
    """Run a step that puts something back; if an interrupt hits it, once more before passing that on."""
    try:
        restore(*args)
    except BaseException:
        restore(*args)
        raise


def hlo_text(segment: Segment, signature: Sequence[Any], literals: Mapping[Node, Any], device: torch.device) -> str:
    """The HLO of a segment that was traced before, with the user's source lines. Needs no data.

    `signature`: for each input its (shape, dtype), or the number that it was. Executes, compiles and
    keeps nothing.
    """
    values = [runtime.placeholder(*v) if isinstance(v, tuple) else v for v in signature]
    with _quiet(device), runtime.source_lines():
        recording = _Recording(segment, literals, device)
        try:
            recording.stand_in(values)
            recording.run(at_source=True)
            recording.collect_roots()
            return runtime.hlo_text(recording.roots)
        finally:
            recording.forget()
            values.clear()


@contextlib.contextmanager
def _quiet(device: torch.device) -> Iterator[None]:
    """Tracing leaves no mark: no step barrier meanwhile, lazy mode, plain dispatch, random state kept."""
    with (
        barriers.excluded(device),
        runtime.lazy_mode(),
        runtime.own_all_reduce_token(device),
        _plain_dispatch(),
    ):
        ran = runtime.host_op_counts()
        seed = runtime.rng_seed()
        # Draws recorded by the user are part of the seed's IR; the trace starts from a plain seed.
        runtime.set_rng_seed(seed)
        try:
            yield
        finally:
            _insist(runtime.set_rng_seed, seed)
            for name, count in runtime.host_op_counts().items():
                host_ops_tried[name] += count - ran.get(name, 0)


@contextlib.contextmanager
def _plain_dispatch() -> Iterator[None]:
    """No autograd, inference mode, autocast or dispatch modes: the FX graph has all of them in it."""
    with torch.inference_mode(False), torch.no_grad(), torch._C._DisableAutocast(), _disable_current_modes():
        yield


class _Recording:
    def __init__(self, segment: Segment, literals: Mapping[Node, Any], device: torch.device):
        self.segment = segment
        self.device = device
        self.env: dict[Node, Any] = dict(literals)
        self.stand_ins: list[Any] = []
        self.position_of_handle: dict[int, int] = {}
        self.roots: list[torch.Tensor] = []

    def forget(self) -> None:
        """Drop everything lazy, whoever still holds this object."""
        self.env.clear()
        self.stand_ins.clear()
        self.roots.clear()

    def stand_in(self, values: Sequence[Any]) -> None:
        """A tensor of its own for each input; see Notes [Private wrappers] and [Stand-ins]."""
        zeros: list[tuple[int, torch.Tensor]] = []
        for position, value in enumerate(values):
            stand_in = value
            if isinstance(value, torch.Tensor):
                shared = value.device.type != "xla" or value.numel() <= 1
                stand_in = None if shared else runtime.wrapper(value)
                if stand_in is not None:
                    known = self.position_of_handle.setdefault(runtime.handles([stand_in])[0], position)
                    if known != position:
                        stand_in = None
                if stand_in is None:
                    zeros.append((position, torch.zeros(value.shape, dtype=value.dtype)))
            self.stand_ins.append(stand_in)
        uploaded = runtime.uploaded([zero for _, zero in zeros], self.device)
        if runtime.is_spmd():
            pairs = [(u, values[i]) for u, (i, _) in zip(uploaded, zeros, strict=True) if is_on_xla(values[i])]
            runtime.shard_like([u for u, _ in pairs], [value for _, value in pairs])
        for (position, _), tensor in zip(zeros, uploaded, strict=True):
            self.stand_ins[position] = tensor
            self.position_of_handle[runtime.handles([tensor])[0]] = position
        self.env.update(zip(self.segment.inputs, self.stand_ins, strict=True))

    def run(self, at_source: bool = False) -> None:
        """Record every node. `at_source`: as if the user's own line had called the operator."""
        env = self.env
        reads = runtime.host_reads()
        found: dict[str, str] = {}
        for node in self.segment.nodes:
            args = torch.fx.node.map_arg(node.args, env.__getitem__)
            kwargs = torch.fx.node.map_arg(node.kwargs, env.__getitem__)
            empty = without_elements(node.target, node.meta.get("val"))
            if empty is not None:
                env[node] = empty
                continue
            args, kwargs = with_pytorch_types(node.target, args, kwargs, node.meta.get("val"))
            args = over_all_dimensions(node.target, args)
            widened = with_a_dimension(node.target, args)
            try:
                if at_source:
                    env[node] = _call_at_source(node, widened, kwargs)
                else:
                    env[node] = node.target(*widened, **kwargs)  # type: ignore[operator]
            except RuntimeError:
                # On the host it may have failed because a stand-in's zeros are not the argument's value.
                if runtime.host_reads() == reads:
                    raise
                found[node.name] = "fell back to the host"
                break
            env[node] = as_pytorch_gives(node.target, args, env[node])
            if widened is not args:
                env[node] = of_shape(env[node], node.meta["val"])
            if env[node] is None and isinstance(node.meta.get("val"), torch.Tensor):
                made_by = node.all_input_nodes[0] if node.target is operator.getitem else node
                raise NotImplementedError(f"torch_xla's {made_by.target} gives no tensor for {node}, PyTorch's does")
            if is_on_xla(env[node]):
                env[node] = _as_declared(env[node], node)
            now = runtime.host_reads()
            if now != reads:
                reads = now
                if not _reads_only_literals(node, env):
                    found[node.name] = "fell back to the host"
        if found:
            raise HostNodes(found)

    def finish(self, donated: frozenset[int], copy_saved: bool, in_place: bool) -> Traced:
        numbers = self.collect_roots()
        if not self.roots:
            return Traced(b"", [], (), [], numbers, (), len(self.segment.nodes))
        parameters, saved = self._bind()
        bindings = [(parameter.kind, parameter.index) for parameter in parameters]
        self.roots[0] = salted(self.roots[0], fingerprint(self.segment, bindings, donated))
        if in_place:
            self._update_wrappers()
        for position in donated:
            runtime.set_donation(self.stand_ins[position], True)
        if copy_saved:
            saved = _private_copies(saved, self.device)
        return Traced(
            hash=runtime.graph_hash(self.roots),
            roots=self.roots,
            parameters=tuple(parameters),
            saved=saved,
            numbers=numbers,
            donated=tuple(sorted(donated)),
            op_count=len(self.segment.nodes),
            outputs=tuple((tuple(root.shape), root.dtype) for root in self.roots),
        )

    def collect_roots(self) -> dict[int, Any]:
        """Take the segment's outputs as roots; returns those that are numbers, by position.

        Every root is made a result of its own: also copies, constants and values handed out twice.
        """
        numbers: dict[int, Any] = {}
        for position, output in enumerate(self.segment.outputs):
            value = self.env[output.node]
            if isinstance(value, torch.Tensor):
                self.roots.append(value)
            else:
                numbers[position] = value
        seen: set[int] = set()
        for i, (root, computed) in enumerate(zip(list(self.roots), runtime.pending(self.roots), strict=True)):
            identity = runtime.tensor_id(root)
            if not computed or identity in seen:
                self.roots[i] = salted(root, 0)
            seen.add(identity)
        return numbers

    def _update_wrappers(self) -> None:
        outputs = [o for o in self.segment.outputs if isinstance(self.env[o.node], torch.Tensor)]
        for i, output in enumerate(outputs):
            if output.target is not None:
                self.roots[i] = self.env[output.target].copy_(self.roots[i])

    def _bind(self) -> tuple[list[Parameter], list[torch.Tensor]]:
        parameters: list[Parameter] = []
        saved: list[torch.Tensor] = []
        for identity, tensor in zip(*runtime.graph_inputs(self.roots), strict=True):
            if identity == runtime.SEED_ID:
                parameters.append(Parameter("seed", 0))
                continue
            position = self.position_of_handle.get(runtime.handles([tensor])[0])
            if position is None:
                parameters.append(Parameter("saved", len(saved)))
                saved.append(tensor)
            else:
                parameters.append(Parameter("argument", position))
        return parameters, saved


def _as_declared(value: torch.Tensor, node: Node) -> torch.Tensor:
    """`value`, cast to the type that the graph says where XLA computes it in another.

    Raises `NotImplementedError` if torch_xla gives it another shape. It remembers shapes by the hashes of operators,
    which may leave an argument out.
    A type that the device holds as another one (int64 as int32, say) is left alone, and so is a narrower floating
    type: torch_xla's kernels of gradients count on the one that those of the forward pass computed in.
    """
    model = node.meta["val"]
    if not any(isinstance(size, torch.SymInt) for size in model.shape) and value.shape != model.shape:
        raise NotImplementedError(
            f"torch_xla gives {node.target} the shape {list(value.shape)}, not {list(model.shape)}: it takes it for an "
            "earlier call with other arguments; call it outside of the compiled function"
        )
    declared, computed = model.dtype, runtime.computed_type(value)
    if computed is None or computed == declared or _held_as(declared, value.device) != declared:
        return value
    if torch.promote_types(computed, declared) == declared:
        # The zero is declared as the tensor is; torch_xla cannot lower a cast of such an integer.
        return value if computed.is_floating_point else value + 0
    # The first cast is empty, but lets the second one be recorded.
    return value.to(computed).to(declared)


@functools.cache
def _held_as(dtype: torch.dtype, device: torch.device) -> torch.dtype | None:
    return runtime.computed_type(torch.empty(0, dtype=dtype, device=device))


def _reads_only_literals(node: Node, env: Mapping[Node, Any]) -> bool:
    """Whether what a node read on the host cannot change: it works on CPU literals."""
    return all(t.device.type != "xla" for n in node.all_input_nodes for t in tensors_of(env[n]))


def _call_at_source(node: Node, args: Any, kwargs: Any) -> Any:
    """Call the node's operator from a frame that has the user's file and line, which is where torch_xla
    looks for them."""
    operator: Any = getattr(node.target, "_op", node.target)
    place = source_place(node)
    if place is None:
        return operator(*args, **kwargs)
    filename, line = place
    code = compile("operator(*args, **kwargs)", filename, "eval").replace(co_firstlineno=line)
    return eval(code, {"operator": operator, "args": args, "kwargs": kwargs})


def _private_copies(tensors: Sequence[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    return runtime.uploaded([t.cpu() for t in tensors], device)
