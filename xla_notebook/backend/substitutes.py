"""Stand-ins for what torch and torch_xla 2.9 do not bring together on an XLA device.

Each says what fails without it. They change nothing for other devices.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._C import DispatchKey
from torch._decomp import decompositions
from torch._functorch.partitioners import default_partition
from torch._higher_order_ops.auto_functionalize import (
    _generate_new_op_kwargs_from_bases,
    auto_functionalized_v2,
    get_mutable_args_from_schema,
)
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx.experimental import proxy_tensor
from torch.fx.passes.shape_prop import _extract_tensor_metadata
from torch.utils._pytree import tree_map

from xla_notebook.backend import runtime
from xla_notebook.backend.decompositions import DECOMPOSITIONS, is_exact
from xla_notebook.backend.indexing import index_fill, masked_put

# Activation checkpointing with dropout. AOTAutograd keeps the random state of the forward pass for the
# recomputation through two higher-order operators that have no kernel for torch_xla's functional
# tensors ("could not find kernel for HigherOrderOperator run_and_save_rng_state"). The state of an XLA
# device is its running seed.


def _run_and_save_seed(operator: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[torch.Tensor, Any]:
    seed = runtime.rng_seed()
    # Seeds are unsigned; int64 holds their bits.
    state = torch.tensor(seed - 2**64 if seed >= 2**63 else seed, dtype=torch.int64)
    with _seeded_from(seed):
        result = DECOMPOSITIONS.get(operator, operator)(*args, **kwargs)
        runtime.materialize([result] if isinstance(result, torch.Tensor) else [r for r in result if r is not None])
    runtime.set_rng_seed(runtime.next_seed(seed))
    return state, result


def _run_with_seed(state: torch.Tensor, operator: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with _seeded_from(int(state) % 2**64):
        return DECOMPOSITIONS.get(operator, operator)(*args, **kwargs)


@contextlib.contextmanager
def _seeded_from(seed: int) -> Iterator[None]:
    saved = runtime.rng_seed()
    runtime.set_rng_seed(seed)
    try:
        yield
    finally:
        runtime.set_rng_seed(saved)


# Custom operators that write into a view of an argument: torch_xla loses what they write. The operator gets
# copies of the views, whole, and what it made of them is written back through the views.


def _auto_functionalized(operator: torch._ops.OpOverload, **kwargs: Any) -> Any:
    names, _ = get_mutable_args_from_schema(operator._schema)
    bases = kwargs.pop("_all_bases")
    arguments, new_bases = _generate_new_op_kwargs_from_bases(
        operator._schema, dict(kwargs), bases, tuple(range(len(bases)))
    )
    views = [arguments.pop(name) for name in names]
    if not all(isinstance(view, torch.Tensor) for view in views):
        # Lists and absent tensors: left to PyTorch, whose kernel is right for whole tensors.
        return auto_functionalized_v2(operator, _all_bases=bases, **kwargs)
    others = {name: value for name, value in arguments.items() if not name.startswith("_")}
    indices = {f"_{name}_base_index": i for i, name in enumerate(names)}
    result = auto_functionalized_v2(operator, _all_bases=[view.clone() for view in views], **others, **indices)
    outputs, updated = result[: -len(views)], result[-len(views) :]
    for view, value in zip(views, updated, strict=True):
        view.copy_(value)
    return (*outputs, *new_bases)


# Operators whose XLA kernels are there, and wrong: of several matrices at once, factors with wrong shapes; of complex
# matrices, wrong inverses; maxima so far, which XLA does not compile for every length, and among which NaN is lost.

_WRONG_IN_A_BATCH = (torch.ops.aten._linalg_svd.default, torch.ops.aten.linalg_pinv.atol_rtol_tensor)
_WRONG_IF_COMPLEX = (*_WRONG_IN_A_BATCH, torch.ops.aten.inverse.default, torch.ops.aten.linalg_inv_ex.default)
_RUNNING_EXTREMES = (torch.ops.aten.cummax.default, torch.ops.aten.cummin.default)


def wrong_on_xla(node: torch.fx.Node) -> str | None:
    """Why an operator that has an XLA kernel must run on the host all the same, or None."""
    if node.target in _WRONG_IF_COMPLEX and node.all_input_nodes[0].meta["val"].is_complex():
        return "wrong for complex numbers in torch_xla"
    if node.target in _WRONG_IN_A_BATCH and node.all_input_nodes[0].meta["val"].dim() > 2:
        return "wrong for a batch in torch_xla"
    return "not compiled by XLA for every length" if node.target in _RUNNING_EXTREMES else None


def _on_cpu(operator: Callable[..., Any]) -> Callable[..., Any]:
    def run(matrices: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        moved = tree_map(lambda a: a.cpu() if isinstance(a, torch.Tensor) else a, (matrices, *args))
        options = tree_map(lambda a: a.cpu() if isinstance(a, torch.Tensor) else a, kwargs)
        return tree_map(lambda result: result.to(matrices.device), operator(*moved, **options))

    return run


HOST_KERNELS: dict[Any, Callable[..., Any]] = {
    run_and_save_rng_state: _run_and_save_seed,
    run_with_rng_state: _run_with_seed,
    auto_functionalized_v2: _auto_functionalized,
    **{operator: _on_cpu(operator) for operator in _WRONG_IF_COMPLEX + _RUNNING_EXTREMES},
}


# Types that PyTorch and XLA disagree about. A lazy tensor remembers the type that PyTorch says, whatever
# XLA computes in, but a cached graph returns what XLA computed.

_CHOOSING = (torch.ops.aten.where.self, torch.ops.aten.masked_fill.Tensor, torch.ops.aten.masked_fill.Scalar)
_CUMULATIVE = (torch.ops.aten.cumsum.default, torch.ops.aten.cumprod.default)


def with_pytorch_types(target: Any, args: Any, kwargs: Any, declared: Any) -> tuple[Any, Any]:
    """An operator's arguments, changed so that XLA computes what PyTorch says.

    Elementwise operators on tensors of several types: XLA widens to a 0-dim tensor's type
    (``bfloat16[3] + float32[]`` gives float32), takes `where`'s type from its first value, and has no ``exp``
    of integers and booleans, which PyTorch takes for floats (`declared` is what it gives). Cumulative
    sums of integers: XLA keeps the narrow type.
    """
    if not isinstance(target, torch._ops.OpOverload):
        return args, kwargs
    if torch.Tag.pointwise in target.tags:
        # A condition or a mask chooses, it does not take part.
        chooses = target in _CHOOSING
        values = [a for a in args if isinstance(a, torch.Tensor) and not (chooses and a.dtype == torch.bool)]
        if len({v.dtype for v in values}) > 1:
            _, common = elementwise_dtypes(*values, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)
            args = tuple(a.to(common) if any(a is v for v in values) else a for a in args)
        elif values and is_exact(values[0]) and isinstance(declared, torch.Tensor) and not is_exact(declared):
            args = tuple(a.to(declared.dtype) if any(a is v for v in values) else a for a in args)
    elif target in _CUMULATIVE and is_exact(args[0]) and kwargs.get("dtype") is None:
        kwargs = {**kwargs, "dtype": torch.int64}
    return args, kwargs


# Reductions over an empty list of dimensions: PyTorch reduces all, torch_xla none. Where each operator has the list.

_DIMENSIONS_AT = {
    torch.ops.aten.amin.default: 1,
    torch.ops.aten.amax.default: 1,
    torch.ops.aten.sum.dim_IntList: 1,
    torch.ops.aten.mean.dim: 1,
    torch.ops.aten.var.correction: 1,
    torch.ops.aten.var_mean.correction: 1,
    torch.ops.aten.std.correction: 1,
    torch.ops.aten.std_mean.correction: 1,
    torch.ops.aten.linalg_vector_norm.default: 2,
}


def over_all_dimensions(target: Any, args: Any) -> Any:
    """An operator's arguments, with all dimensions for none."""
    at = _DIMENSIONS_AT.get(target)
    if at is None or len(args) < at or args[at : at + 1] not in ((), ([],)) or not args[0].dim():
        return args
    return (*args[:at], list(range(args[0].dim())), *args[at + 1 :])


# Operators along a dimension of a 0-dim tensor. PyTorch takes dimension 0 of a scalar for granted
# (``x.sum(0)``, ``x.softmax(-1)``); torch_xla refuses it ("expected to be in range of [0, -1]").


def with_a_dimension(target: Any, args: Any) -> Any:
    """An operator's arguments, the 0-dim tensors with one dimension if it works along one of its first."""
    if not isinstance(target, torch._ops.OpOverload) or not args or not _is_scalar(args[0]):
        return args
    names = [argument.name for argument in target._schema.arguments]
    along = [value for value, name in zip(args, names, strict=False) if name in ("dim", "dims")]
    if not {"dim", "dims"}.intersection(names) or along == [[]]:
        return args
    # A `value` is one for all elements, not one for each.
    return tuple(a.reshape(1) if _is_scalar(a) and name != "value" else a for a, name in zip(args, names, strict=False))


def of_shape(results: Any, declared: Any) -> Any:
    """An operator's results, in the shapes that the graph says."""
    return tree_map(lambda result, model: result.reshape(model.shape), results, declared)


# Results that torch_xla gives otherwise than PyTorch. In training it averages BatchNorm's biased variance, PyTorch
# that of a sample; its indices of poolings say that they are int64, and are int32.

_INDICES = (
    torch.ops.aten.max_pool2d_with_indices.default,
    torch.ops.aten.max_pool3d_with_indices.default,
    torch.ops.aten.adaptive_max_pool2d.default,
)


def as_pytorch_gives(target: Any, args: Any, results: Any) -> Any:
    """An operator's results, put right where torch_xla's differ."""
    if target in _INDICES:
        return results[0], results[1] + 0  # with an int64, so XLA makes it one
    if target is torch.ops.aten._native_batch_norm_legit_functional.default:
        input, old, training, momentum, new = args[0], args[4], args[5], args[6], results[4]
        count = input.numel() // max(input.shape[1], 1)
        if training and old is not None and count > 1:
            return (*results[:4], new + (new - (1 - momentum) * old) / (count - 1))
    return results


# Operators that give no elements. Some end the process (``torch.empty(0, 3).roll(1, 0)`` divides by zero), some are
# refused (`cumsum`, `gather`).


def without_elements(target: Any, declared: Any) -> Any:
    """What an operator returns whose results have no elements, or None if it must be called."""
    results = declared if isinstance(declared, (tuple, list)) else (declared,)
    if not isinstance(target, torch._ops.OpOverload) or target._schema.is_mutable or not results:
        return None
    if not all(isinstance(r, torch.Tensor) and r.device.type == "xla" and _is_empty(r) for r in results):
        return None
    made = [torch.empty(tuple(r.shape), dtype=r.dtype, device=r.device) for r in results]
    return made if isinstance(declared, (tuple, list)) else made[0]


def _is_empty(tensor: torch.Tensor) -> bool:
    # A size that depends on data must not be asked for: whether there are elements is known at the run only.
    return not _is_symbolic(tensor) and 0 in tensor.shape


def _is_scalar(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() == 0


# Constants that a function makes (``torch.tensor(2.0, device="xla")``). PyTorch computes with those of one element
# while it traces, beside the graph, in case a value is read: on the device, by kernels that refuse a scalar's
# dimension. What reads a value breaks Dynamo's graph anyway.


@contextlib.contextmanager
def constants_left_alone() -> Iterator[None]:
    """Let tracing compute nothing with constants."""
    saved = proxy_tensor.CONSTANT_NUMEL_LIMIT
    proxy_tensor.CONSTANT_NUMEL_LIMIT = -1
    try:
        yield
    finally:
        proxy_tensor.CONSTANT_NUMEL_LIMIT = saved


# Training with sizes that change. Numbers made of sizes (``x / x.shape[0] ** 0.5``) become tensors without the
# description by which PyTorch's partitioner knows a tensor, and it ends with a bare AssertionError.


def partition(joint: torch.fx.GraphModule, inputs: Any, **options: Any) -> tuple[torch.fx.GraphModule, ...]:
    """The forward and the backward graph, as `default_partition` takes them out of the joint one."""
    for node in joint.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and "tensor_meta" not in node.meta:
            node.meta["tensor_meta"] = _extract_tensor_metadata(value)
    return default_partition(joint, inputs, **options)


# LayerNorm and GroupNorm with dynamic shapes. torch_xla's autograd kernels ask for the number of
# elements, which a tensor with symbolic sizes does not have ("Cannot call numel() on tensor with
# symbolic sizes/strides"), so Dynamo fails before any backend is asked.


def _is_symbolic(tensor: torch.Tensor) -> bool:
    return any(isinstance(size, torch.SymInt) for size in tensor.shape)


def _layer_norm(input: torch.Tensor, *args: Any) -> Any:
    if _is_symbolic(input):
        return torch._refs.native_layer_norm(input, *args)
    return torch.ops.aten.native_layer_norm.default._op_dk(DispatchKey.AutogradXLA, input, *args)


def _group_norm(input: torch.Tensor, *args: Any) -> Any:
    if _is_symbolic(input):
        return torch._refs.native_group_norm(input, *args)
    return torch.ops.aten.native_group_norm.default._op_dk(DispatchKey.AutogradXLA, input, *args)


# Composite operators with an XLA kernel but no autograd kernel beside it. The dispatcher then takes them for
# not differentiable, and AOTAutograd silently gives no gradient (``x.std(1)``, ``F.kl_div``, ``F.selu``,
# ``torch.inverse``). Traced through their composition they have one. So do poolings, whose autograd kernels in
# torch_xla want device tensors (``nn.MaxPool3d``, a dilated ``nn.MaxPool2d``).


def _lose_their_gradient() -> list[torch._ops.OpOverload]:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    operators = []
    for full_name in torch._C._dispatch_get_all_op_names():
        namespace, _, name = full_name.partition("::")
        packet, _, overload = name.partition(".")
        if namespace != "aten" or packet.startswith("_") or packet.endswith("_") or overload in _WRITES_OUT:
            continue
        if has(full_name, "XLA") and has(full_name, "CompositeImplicitAutograd") and not has(full_name, "AutogradXLA"):
            operators.append(getattr(getattr(torch.ops.aten, packet), overload or "default"))
    return operators


def refuse_what_is_wrong(module: torch.fx.GraphModule) -> None:
    """Raise `NotImplementedError` for a function that would silently come out wrong.

    PyTorch's own decomposition of multilabel_margin_loss, which devices without a kernel get, is wrong, on
    the CPU too (torch 2.9, ``torch._decomp.decomposition_table``).
    """
    for node in module.graph.nodes:
        if getattr(node.target, "__name__", node.target) == "multilabel_margin_loss":
            raise NotImplementedError(
                "PyTorch decomposes multilabel_margin_loss wrongly for devices that have no kernel for it, such as XLA;"
                " call it outside of the compiled function"
            )


# In-place operators that change a shape (``x.squeeze_()``, ``x.t_()``, inside ``torch.quantile`` too). PyTorch traces
# them by giving the wrapper of a traced tensor its new shape, for which torch_xla's kernel wants a device tensor
# ("Expected XLA tensor").


def _as_strided_in_place(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    traced = isinstance(self, FunctionalTensor)
    key = DispatchKey.CompositeExplicitAutogradNonFunctional if traced else DispatchKey.XLA
    return torch.ops.aten.as_strided_.default._op_dk(key, self, *args, **kwargs)


# ``x[mask] = value`` where gradients are recorded. The gradient of the value would be a sum of the chosen ones, however
# many: a size that Dynamo does not trace.


def _index_put_in_place(self: torch.Tensor, indices: Any, values: torch.Tensor, *args: Any) -> Any:
    updated = masked_put(self, indices, values, *args)
    if updated is NotImplemented:
        updated = torch.ops.aten.index_put.default(self, indices, values, *args)
    return self.copy_(updated)


# Operators without a kernel in torch_xla for the backward pass, which PyTorch takes apart only in the forward one.


def _grid_sampler(input: torch.Tensor, grid: torch.Tensor, *modes: Any) -> torch.Tensor:
    # A narrower type than float32 would find other neighbours.
    exact = [t if t.dtype == torch.float64 else t.float() for t in (input, grid)]
    sampled: torch.Tensor = decompositions.grid_sampler_2d(*exact, *modes).to(input.dtype)
    # The nearest elements are the same for places nearby, whose gradient is zero then, and not none.
    nothing = torch.where(torch.zeros_like(grid, dtype=torch.bool), grid, 0).sum(-1)
    return sampled + nothing.unsqueeze(1)


_TAKEN_APART: dict[torch._ops.OpOverload, Callable[..., Any]] = {
    torch.ops.aten.grid_sampler_2d.default: _grid_sampler,
    torch.ops.aten.index_fill.int_Tensor: index_fill,
    torch.ops.aten._weight_norm_interface.default: decompositions._weight_norm_interface,
}


# Overloads that write into arguments of theirs.
_WRITES_OUT = ("out", "U", "Q")


def install() -> None:
    """Let tracing find the kernels above. Calling it again changes nothing."""
    composed = (*_lose_their_gradient(), torch.ops.aten.max_pool2d.default, torch.ops.aten.max_pool3d.default)
    kernels: tuple[tuple[torch._ops.OpOverload, DispatchKey, Callable[..., Any]], ...] = (
        *((operator, DispatchKey.AutogradXLA, operator.decompose) for operator in composed),
        *((operator, DispatchKey.AutogradXLA, parts) for operator, parts in _TAKEN_APART.items()),
        (torch.ops.aten.native_layer_norm.default, DispatchKey.AutogradXLA, _layer_norm),
        (torch.ops.aten.native_group_norm.default, DispatchKey.AutogradXLA, _group_norm),
        (torch.ops.aten.index_put_.default, DispatchKey.AutogradXLA, _index_put_in_place),
        (torch.ops.aten.as_strided_.default, DispatchKey.XLA, _as_strided_in_place),
    )
    for operator, key, kernel in kernels:
        if key not in operator.py_kernels:
            operator.py_impl(key)(kernel)
