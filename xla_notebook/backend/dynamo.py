"""The backend as Dynamo sees it: registered as ``xla_notebook``, joined to AOTAutograd."""

from __future__ import annotations

import difflib
import itertools
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import SkipFrame
from torch._functorch._aot_autograd.schemas import ViewAndMutationMeta
from torch.fx import GraphModule

from xla_notebook.backend.device import choose_device

choose_device()

from xla_notebook.backend import barriers, dynamo_settings, substitutes  # noqa: E402
from xla_notebook.backend.cache import Origin  # noqa: E402
from xla_notebook.backend.config import validate  # noqa: E402
from xla_notebook.backend.decompositions import DECOMPOSITIONS  # noqa: E402
from xla_notebook.backend.dynamo_frame import DynamoFrame, dynamo_frame  # noqa: E402
from xla_notebook.backend.function import CompiledFunction  # noqa: E402
from xla_notebook.backend.observer import GraphKind  # noqa: E402
from xla_notebook.backend.program import is_on_xla  # noqa: E402
from xla_notebook.backend.sources import user_name  # noqa: E402

# Here, not at the first compile: Dynamo needs it before it calls any backend.
substitutes.install()

_OPTIONS = ("warm_up", "donate")
_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)
_IN_PLACE_OPERATORS = frozenset(
    "iadd iand ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv ixor setitem".split()
)


# Arguments that share memory ----------------------------------------------------------------------
#
# Note [Views as arguments]. AOTAutograd sees which arguments share a storage and rebuilds them from a
# common base by offset and strides. XLA tensors report offset 0 and contiguous strides whatever they are
# a view of, so it rebuilds the wrong elements, silently. When such arguments are updated in place the
# function runs uncompiled: torch_xla itself tracks views right.
#
# Note [Views as results]. AOTAutograd's wrapper makes results that are views of an argument by doing again what
# made them. If sizes that change are part of that, it takes the offset of what the graph returned instead, which
# is 0 on XLA: silently other elements. The same way out.


def _share_storage(args: Sequence[Any]) -> bool:
    """Whether two of the XLA tensors share memory. About 0.1 us a tensor."""
    storages = [a.untyped_storage()._cdata for a in args if type(a) in _PLAIN_TENSORS and is_on_xla(a)]
    return len(set(storages)) != len(storages)


def _may_update_arguments(module: GraphModule) -> bool:
    """Whether Dynamo's graph has an operator that might write into an argument."""
    for node in module.graph.nodes:
        if node.op not in ("call_function", "call_method"):
            continue
        name = str(getattr(node.target, "__name__", node.target))
        in_place = name.endswith("_") and not name.endswith("__")
        if in_place or name in _IN_PLACE_OPERATORS or "out" in node.kwargs:
            return True
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
            return True
    return False


def _returns_views_by_size(metadata: ViewAndMutationMeta) -> bool:
    """Whether a result is a view that depends on sizes that change. With a gradient, autograd makes it right."""
    sequences = [info.view_meta_sequence for info in metadata.output_info if not info.requires_grad]
    return any(view.has_symbolic_inputs for made in sequences if made is not None for view in made.sequence)


_ARGUMENTS_ARE_VIEWS = (
    "some of {names} are views of one tensor and are updated in place; the function runs uncompiled (lazily), because"
    " their positions in the shared memory are unknown to a graph. Pass the whole tensor and take the views inside the"
    " function to have it compiled."
)
_RESULT_IS_A_VIEW = (
    "{function} returns a view of an argument whose place depends on sizes that change; it runs uncompiled (lazily),"
    " because a graph does not know the place. Return a copy (`clone()`), or compile with dynamic=False, to have it"
    " compiled."
)
_CHANGES_BOUNDED = (
    "{function} changes {deques}, a deque with a maxlen; it runs uncompiled (lazily), because Dynamo would go on with"
    " what has fallen out of it. Use a list and `del` to have it compiled."
)


def _uncompiled(module: GraphModule, why: str) -> Callable[..., Any]:
    warnings.warn(why, stacklevel=2)
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
    names = [user_name(source) for source in sources]
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


def _donated_names(donate: object, names: Mapping[str, str], frame: DynamoFrame | None) -> tuple[str, ...]:
    """The option `donate`, checked: a sequence of names of the function's variables."""
    if isinstance(donate, str) or not isinstance(donate, Sequence):
        raise TypeError(f"donate={donate!r} is not a list of names: write donate=[{str(donate)!r}]")
    # An argument may belong to another graph of the function, after a graph break.
    known = set(names.values()) | (frame.variables if frame is not None else set())
    for name in donate:
        if name not in known and str(name).split(".")[0].split("[")[0] not in known:
            arguments = sorted(set(names.values()))
            near = difflib.get_close_matches(str(name), arguments, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(arguments) or 'none'}"
            raise ValueError(f"donate names {name!r}, which is no argument of the function; {hint}")
    return tuple(donate)


def xla_notebook(
    module: GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_mode: Any
) -> Callable[..., Any]:
    """The Dynamo backend: ``torch.compile(fn, backend="xla_notebook", options={...})``.

    Options: ``warm_up`` (``"compile"``, ``"execute"`` or ``"off"``) for this function alone; ``donate``, the
    names of arguments whose buffers its graphs may take (see `xla_notebook.backend.donation`). Raises
    `ValueError` for an unknown option or value. The graph is traced at the first call, on the real
    arguments; nothing runs before.
    """
    checked = _options(options)
    dynamo_settings.set_for_this_compile(dynamo_settings.ALWAYS)
    barriers.install(for_graphs=True)
    substitutes.refuse_what_is_wrong(module)
    names = _argument_names(module)
    frame = dynamo_frame()
    if frame is not None and frame.bounded:
        # Dynamo of torch 2.9 forgets a deque's `maxlen` while it traces: what falls out would still be computed with.
        bounded = ", ".join(sorted(map(user_name, frame.bounded)))
        warnings.warn(_CHANGES_BOUNDED.format(function=_place(module)[0], deques=bounded), stacklevel=2)
        raise SkipFrame(f"changes {bounded}")
    donate = _donated_names(checked.get("donate", ()), names, frame)
    kept = None if frame is None else frozenset(user_name(source) for source in frame.kept)
    views = _ARGUMENTS_ARE_VIEWS.format(names=", ".join(sorted(set(names.values()))))
    if _share_storage(example_inputs) and _may_update_arguments(module):
        return _uncompiled(module, views)
    function, filename, line = _place(module)
    optimizer = any("param_groups" in name for name in names.values())
    # What AOTAutograd found out, and the graph if it needs none of AOTAutograd's wrapper.
    updates_arguments = False
    returns_views_by_size = False
    unwrapped: CompiledFunction | None = None

    def compiler(kind: GraphKind) -> Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]:
        def compile_graph(graph: GraphModule, _fake_inputs: Sequence[Any]) -> Callable[..., Any]:
            nonlocal updates_arguments, returns_views_by_size, unwrapped
            origin = Origin(function, filename, line, kind, names, checked.get("warm_up"), donate, kept)
            compiled = CompiledFunction(graph, origin, _visible_outputs(kind))
            context = torch._guards.TracingContext.try_get()
            metadata = None if context is None else context.fw_metadata
            if metadata is None:
                updates_arguments = True
            else:
                updates_arguments |= any(i.mutates_data or i.mutates_metadata for i in metadata.input_info)
                returns_views_by_size |= _returns_views_by_size(metadata)
                inference = kind in ("inference", "optimizer")
                if inference and not _needs_wrapper(metadata, module, example_inputs, graph):
                    unwrapped = compiled
            return _boxed(compiled)

        return compile_graph

    with substitutes.constants_left_alone():
        wrapped: Callable[..., Any] = aot_autograd(
            fw_compiler=compiler("forward"),
            bw_compiler=compiler("backward"),
            inference_compiler=compiler("optimizer" if optimizer else "inference"),
            partition_fn=substitutes.partition,
            decompositions=DECOMPOSITIONS,
            keep_inference_input_mutations=True,
        )(module, example_inputs)
    if unwrapped is None and returns_views_by_size:
        return _uncompiled(module, _RESULT_IS_A_VIEW.format(function=function))
    call = wrapped if unwrapped is None else _unwrapped(unwrapped)
    if not updates_arguments:
        return call

    dynamo_settings.set_for_this_compile(dynamo_settings.FOR_UPDATES)

    def run(*args: Any) -> Any:
        # Dynamo sees a tensor that is passed twice in a later call, but not two that come to share memory.
        if _share_storage(args):
            return _uncompiled(module, views)(*args)
        return call(*args)

    return run
