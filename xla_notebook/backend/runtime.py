"""The only door to torch_xla's private API.

Every private name that the package uses is listed in `_PRIVATE` and checked when this module is
imported, so that an unsupported torch_xla gives one clear error instead of an `AttributeError` in the
middle of a training run. Facts were measured with torch 2.9.0 and torch_xla 2.9.0; where they come from
C++, the function of ``torch_xla/csrc`` is named.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, cast

import torch
import torch_xla
from torch_xla._dynamo import config as _bridge_config
from torch_xla.core.xla_builder import create_placeholder_tensor

SUPPORTED = "2.9"

_PRIVATE = (
    "_check_device_tensor_need_materialization",
    "_check_tensor_need_materialization",
    "_get_all_reduce_token",
    "_get_base_seed_as_tensor",
    "_get_buffer_donation",
    "_get_executed_fallback_ops",
    "_get_graph_hash",
    "_get_seed_info_id",
    "_get_tensors_handle",
    "_get_tensors_xla_device_data_node",
    "_get_use_eager_mode",
    "_get_ir_debug",
    "_get_xla_op_sharding",
    "_get_xla_sharding_specs",
    "_get_xla_tensor_debug_info",
    "_get_xla_tensor_shape_type",
    "_get_xla_tensors_hlo",
    "_replace_xla_tensor",
    "_get_xla_tensors_text",
    "_run_cached_graph",
    "_set_all_reduce_token",
    "_set_buffer_donation",
    "_set_ir_debug",
    "_set_use_eager_mode",
    "_unsafe_buffer_pointer",
    "_xla_counter_value",
    "_xla_get_enable_alias_with_buffer_donor_config",
    "_xla_get_rng_seed",
    "_xla_get_tensor_id",
    "_xla_increment_counter",
    "_xla_mark_sharding",
    "_xla_set_enable_alias_with_buffer_donor_config",
    "_xla_set_rng_seed",
    "_xla_step_marker",
    "_xla_sync_live_tensors",
    "_xla_sync_multi",
    "_xla_tensors_from_aten",
    "_xla_wait_device_ops",
    "_xla_warm_up_cache",
)


class UnsupportedTorchXLA(ImportError):
    """The installed torch_xla lacks something that the backend is built on."""


_C: Any = torch_xla._XLAC
_missing = [name for name in _PRIVATE if not hasattr(_C, name)]
if _missing:
    raise UnsupportedTorchXLA(
        f"xla_notebook is written for torch_xla {SUPPORTED}; torch_xla {torch_xla.__version__} has no"
        f" {', '.join(_missing)}. Install a supported one: pip install 'torch_xla>=2.9,<2.10'"
        " 'torch>=2.9,<2.10'"
    )

# The seed's data node carries this tensor id (init_python_bindings.cpp, kSeedInfoId).
SEED_ID: int = _C._get_seed_info_id()

# Bound once: the hot path calls these with nothing in between.
run_cached_graph: Callable[[bytes, Sequence[torch.Tensor]], list[torch.Tensor]] = _C._run_cached_graph
pending: Callable[[Sequence[torch.Tensor]], list[bool]] = _C._check_tensor_need_materialization
handles: Callable[[Sequence[torch.Tensor]], list[int]] = _C._get_tensors_handle
get_donation: Callable[[torch.Tensor], bool] = _C._get_buffer_donation
increment_counter: Callable[[str, int], None] = _C._xla_increment_counter

# What `_run_cached_graph` says; both are checked before anything of the call is changed
# (XLAGraphExecutor::ExecuteComputationWithBarrier).
_EVICTED = "Failed to get computation by hash"
_PENDING = "can not be a pending ir"


def says_evicted(error: RuntimeError) -> bool:
    """Whether a run failed because XLA's cache no longer holds the executable."""
    return _EVICTED in str(error)


def says_pending(error: RuntimeError) -> bool:
    """Whether a run failed because an argument's value was still lazy IR."""
    return _PENDING in str(error)


def skips_pending_check() -> bool:
    """torch_xla's own switch ``torch_xla._dynamo.config.skip_input_data_check``, read at each use."""
    return bool(_bridge_config.skip_input_data_check)


def current_device() -> torch.device:
    """The default XLA device. Creates the runtime client if there is none yet."""
    return cast(torch.device, torch_xla.device())


# --- tensors and buffers ---------------------------------------------------------------------------


def wrapper(tensor: torch.Tensor) -> torch.Tensor | None:
    """A private tensor over the same device data; None if `tensor` has no data node (a constant).

    In-place operators on the wrapper change the wrapper alone. Asking relabels the data's tensor id to
    the wrapper's, which is how graph inputs are recognised; the user's next in-place step relabels it.
    """
    _ids, tensors = _C._get_tensors_xla_device_data_node([tensor])
    return cast(torch.Tensor, tensors[0]) if tensors else None


def uploaded(tensors: Sequence[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    """Each CPU tensor in a device buffer of its own.

    ``tensor.to("xla")`` would not do: it turns 0 and 1 into constants and lets equal scalars share one
    cached buffer (XLAGraphExecutor::GetDeviceData).
    """
    if not tensors:
        return []
    names = [str(device)] * len(tensors)
    return cast("list[torch.Tensor]", _C._xla_tensors_from_aten(list(tensors), names, None))


def tensor_id(tensor: torch.Tensor) -> int:
    """torch_xla's id of the tensor (not of its data)."""
    return int(_C._xla_get_tensor_id(tensor))


def handle(tensor: torch.Tensor) -> int | None:
    """The handle of a materialized tensor's buffer; None if it is pending or deleted."""
    try:
        return handles([tensor])[0]
    except RuntimeError:
        return None


def address(tensor: torch.Tensor) -> int | None:
    """The device address of a materialized tensor's buffer; None if pending or deleted.

    Two tensors that had the same address one after the other used the same memory: how aliasing is seen.
    """
    try:
        return int(_C._unsafe_buffer_pointer(tensor))
    except RuntimeError:
        return None


_XLA_TYPES = {
    "pred": torch.bool,
    "s8": torch.int8,
    "s16": torch.int16,
    "s32": torch.int32,
    "s64": torch.int64,
    "u8": torch.uint8,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "f64": torch.float64,
    "c64": torch.complex64,
    "c128": torch.complex128,
}


def computed_type(tensor: torch.Tensor) -> torch.dtype | None:
    """The dtype that XLA computes a tensor in, which may differ from what the tensor says; 0.3 us.

    None for types that this table does not name.
    """
    return _XLA_TYPES.get(_C._get_xla_tensor_shape_type(tensor))


def pending_roots(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Those of `tensors` that have pending work, each once, and maybe a root of no use that tells their graph apart.

    torch_xla's hash forgets which input feeds which operator (pytorch/xla issue 8353): ``(a-b)*(b-c)`` and
    ``(a-b)*(a-c)`` are one graph to it, and so are roots ``a+1, a+1, b+1`` and ``a+1, b+1, b+1``. So where inputs are
    of one kind, the size of an empty constant says it, for about 10 us an operator.
    """
    waiting = pending(tensors)
    lazy = list({tensor_id(t): t for t, waits in zip(tensors, waiting, strict=True) if waits}.values())
    kinds = [(data.shape, data.dtype) for data in graph_inputs(lazy)[1]] if lazy else []
    if len(set(kinds)) < len(kinds):
        wiring = _METADATA.sub("", hlo_text(lazy))
        size = int.from_bytes(hashlib.blake2b(wiring.encode(), digest_size=8).digest(), "big") >> 4
        with torch.no_grad():
            lazy.append(marker(size, lazy[0].device))
    return lazy


def marker(number: int, device: torch.device) -> torch.Tensor:
    """False, as lazy work whose hash tells `number`: it is the size of an empty constant."""
    return torch.zeros((0, number), dtype=torch.bool, device=device).any()


def materialize(tensors: Sequence[torch.Tensor], compiled_ahead: Collection[bytes] = ()) -> None:
    """Execute the pending work of `tensors` and wait, without donating any buffer.

    No buffer is given away (XLAGraphExecutor::GetBufferDonors), so other pending work that reads the tensors' old
    values stays valid. `compiled_ahead` has the hashes of graphs that `warm_up` compiled for this: they are run as
    they are, for the graph of ``_xla_sync_multi`` has another hash, which says that it is forced
    (XLAGraphExecutor::CollectSyncTensors).
    """
    lazy = pending_roots(tensors)
    if not lazy:
        return
    # torch_xla tells graph inputs apart by their handles, here more than once.
    wait_until_sent(lazy[0].device)
    if compiled_ahead and (known := graph_hash(lazy)) in compiled_ahead:
        warm_up(lazy)
        results = run_cached_graph(known, graph_inputs(lazy)[1])
        if len(results) == len(lazy):
            for tensor, result in zip(lazy, results, strict=True):
                replace_data(tensor, result)
    # Until the run is over its results have no handles, by which a trace knows its arguments.
    _C._xla_sync_multi(lazy, [], True, False)


def replace_data(tensor: torch.Tensor, source: torch.Tensor) -> None:
    """Let `tensor` be a name of the buffer of `source`; its pending work is dropped."""
    _C._replace_xla_tensor(tensor, source)


def step_barrier_on(tensors: Sequence[torch.Tensor]) -> None:
    """Execute `tensors` as a step barrier does, donation included. Only for warm-up mode `execute`."""
    _C._xla_sync_multi(list(tensors), [], True, True)


def set_donation(tensor: torch.Tensor, donate: bool) -> None:
    """Mark the tensor's present buffer as one that the next donating graph may take."""
    _C._set_buffer_donation(tensor, donate)


def anything_pending(device: torch.device) -> int:
    """How many live tensors of the device have pending work."""
    return sum(_C._check_device_tensor_need_materialization(str(device)))


def wait_for_device() -> None:
    """Wait until all work sent to the devices has ended."""
    _C._xla_wait_device_ops([])


# For each device, and whether it is the one of SPMD, a tensor that never has pending work.
_settled: dict[tuple[str, bool], torch.Tensor] = {}


def wait_until_sent(device: torch.device) -> None:
    """Wait until the device has taken over every run so far: its results then have buffers, computed or not.

    Until then a result's handle is that of a placeholder, and changes at any moment; sharded results have
    none at all, and asking for it crashes the process (PjRtData::GetHandle, PjRtShardedData::GetHandle). The
    next run would wait for the same lock. About 10 us. Raises the error of an earlier run that failed.
    """
    key = (str(device), is_spmd())
    if key not in _settled:
        _settled[key] = uploaded([torch.zeros(1, dtype=torch.uint8)], device)[0]
    # With nothing to compile, this takes the device's lock and returns (SyncTensorsGraphInternal).
    _C._xla_warm_up_cache([_settled[key]], [])


# How torch_xla writes that data has no buffers (PjRtData::ToString, PjRtShardedData::ToString).
_UNSENT = ("Data Handle: None", "NumShards: 0")


def is_sent(tensor: torch.Tensor) -> bool:
    """Whether the run that makes `tensor` was sent, so that it has a buffer (see `wait_until_sent`); 12 us.

    False for deleted buffers, too. Waits for nothing.
    """
    text = str(_C._get_xla_tensor_debug_info(tensor))
    return not any(words in text for words in _UNSENT)


# --- graphs ----------------------------------------------------------------------------------------


def graph_inputs(roots: Sequence[torch.Tensor]) -> tuple[list[int], list[torch.Tensor]]:
    """The device data that `roots` need, in the order of the executable's parameters: ids and tensors."""
    ids, tensors = _C._get_tensors_xla_device_data_node(list(roots))
    return ids, tensors


@contextlib.contextmanager
def _donor_config(enabled: bool) -> Iterator[None]:
    saved = _C._xla_get_enable_alias_with_buffer_donor_config()
    _C._xla_set_enable_alias_with_buffer_donor_config(enabled)
    try:
        yield
    finally:
        _C._xla_set_enable_alias_with_buffer_donor_config(saved)


def graph_hash(roots: Sequence[torch.Tensor]) -> bytes:
    """torch_xla's hash of the graph of `roots`, buffers marked for donation included."""
    with _donor_config(True):
        return bytes(_C._get_graph_hash(list(roots)))


def is_cached(graph: bytes, roots: Sequence[torch.Tensor]) -> bool:
    """Whether XLA's cache holds the executable `graph` of the pending `roots`. 15 us, executes nothing.

    A run looks for the executable first, and then refuses arguments that are pending.
    """
    try:
        run_cached_graph(graph, roots[:1])
    except RuntimeError as error:
        return not says_evicted(error)
    return True


def warm_up(roots: Sequence[torch.Tensor]) -> None:
    """Compile the graph of `roots` into XLA's cache without executing it. Releases the GIL."""
    with _donor_config(True):
        _C._xla_warm_up_cache(list(roots), [])


def placeholder(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor on the XLA device without data. Reading its value aborts the process; a step barrier while
    it is part of live lazy work crashes it. So: only inside a trace, only for graphs whose every operator
    is known to lower."""
    return cast(torch.Tensor, create_placeholder_tensor(tuple(shape), dtype))


@contextlib.contextmanager
def source_lines() -> Iterator[None]:
    """Lazy operators recorded inside remember the Python line that made them."""
    saved = _C._get_ir_debug()
    _C._set_ir_debug(True)
    try:
        yield
    finally:
        _C._set_ir_debug(saved)


# Where an operator comes from, in HLO that was recorded with source lines.
_METADATA = re.compile(r", metadata=\{[^}]*\}")


def hlo_text(roots: Sequence[torch.Tensor]) -> str:
    """The HLO of `roots` as text. Executes and compiles nothing."""
    return str(_C._get_xla_tensors_hlo(list(roots)))


# Leaves of a graph of lazy work: what it reads, not what it does.
_LEAVES = (" xla::device_data(", " prim::Constant(")


def pending_op_count(tensor: torch.Tensor) -> int:
    """How many operators the pending work of `tensor` has; about 80 us each, executes nothing."""
    lines = str(_C._get_xla_tensors_text([tensor])).splitlines()
    return sum(" = " in line and not any(leaf in line for leaf in _LEAVES) for line in lines)


# --- counters --------------------------------------------------------------------------------------


def compilations() -> int:
    """How many graphs were compiled because XLA's cache did not hold them."""
    return int(_C._xla_counter_value("UncachedCompile") or 0)


def lazy_executions() -> tuple[int, int]:
    """How often lazy work was executed with an executable at hand, and how often after a compile.

    The second is `compilations`, which counts warm-ups, too. Runs of cached graphs count as neither.
    """
    return int(_C._xla_counter_value("CachedCompile") or 0), compilations()


def host_reads() -> tuple[int, ...]:
    """Changes whenever an operator was run on the host or read a value from the device.

    Fallback operators have a counter each (aten_fallback.cpp); ``_local_scalar_dense`` and ``_to_cpu``
    are the two ways in which an XLA kernel reads a value.
    """
    value = _C._xla_counter_value
    return (
        *(value(name) or 0 for name in _C._get_executed_fallback_ops()),
        value("xla::_local_scalar_dense") or 0,
        value("xla::_to_cpu") or 0,
    )


def host_op_counts() -> dict[str, int]:
    """How often each operator that XLA has no kernel for was run on the host (``aten::nonzero``), since the
    process began or the user cleared torch_xla's counters. Reading one value is no operator; about 2 us."""
    value = _C._xla_counter_value
    names = set(_C._get_executed_fallback_ops()) - {"aten::_local_scalar_dense"}
    return {name: int(value(name) or 0) for name in names}


# --- random numbers --------------------------------------------------------------------------------


def rng_seed() -> int:
    """The running seed of the default device, after all draws recorded so far."""
    return int(_C._xla_get_rng_seed(""))


def set_rng_seed(seed: int) -> None:
    """Start a new sequence of draws at `seed`. ``set_rng_seed(rng_seed())`` changes no later draw."""
    _C._xla_set_rng_seed(seed, "")


# The step of torch_xla's own bridge from one call's seed to the next.
_SEED_ADD, _SEED_MULTIPLY = 1012031, 7012063


def next_seed(seed: int) -> int:
    """The seed of the call after one that used `seed`."""
    return (_SEED_ADD + seed * _SEED_MULTIPLY) % 2**64


def seed_tensor(device: torch.device) -> torch.Tensor:
    """The seed as a device tensor, ready to be a graph's input. Uploads eight bytes."""
    return cast(torch.Tensor, _C._get_base_seed_as_tensor(str(device)))


# --- modes -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def lazy_mode() -> Iterator[None]:
    """Suspend ``torch_xla.experimental.eager_mode``: a trace must stay lazy."""
    saved = _C._get_use_eager_mode()
    _C._set_use_eager_mode(False)
    try:
        yield
    finally:
        _C._set_use_eager_mode(saved)


@contextlib.contextmanager
def own_all_reduce_token(device: torch.device) -> Iterator[None]:
    """Collectives recorded inside are ordered among themselves only.

    torch_xla chains the collectives of a device through a token. One recorded in a trace must not become
    part of the user's next graph: its replicas would then wait for a partner that never comes.
    """
    saved = _C._get_all_reduce_token(str(device))
    _C._set_all_reduce_token(str(device), None)
    try:
        yield
    finally:
        _C._set_all_reduce_token(str(device), saved)


def is_spmd() -> bool:
    """Whether the process runs sharded (``torch_xla.runtime.use_spmd``)."""
    return bool(torch_xla.runtime.is_spmd())


def sharding_specs(tensors: Sequence[torch.Tensor]) -> list[str]:
    """How each tensor is sharded, as torch_xla's text."""
    return list(_C._get_xla_sharding_specs(list(tensors)))


def shard_like(tensors: Sequence[torch.Tensor], models: Sequence[torch.Tensor]) -> None:
    """Give each tensor the sharding of its model."""
    for tensor, model, spec in zip(tensors, models, sharding_specs(models), strict=True):
        if spec and spec != "{replicated}":
            _C._xla_mark_sharding(tensor, _C._get_xla_op_sharding(model))


def wrap_private(name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Callable[..., Any]:
    """Put ``wrap(function)`` in the place of a private function, which is returned."""
    original: Callable[..., Any] = getattr(_C, name)
    setattr(_C, name, wrap(original))
    return original


def restore_private(name: str, original: Callable[..., Any]) -> None:
    """Undo `wrap_private`."""
    setattr(_C, name, original)
