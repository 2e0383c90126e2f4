"""What a name holds, as far as it matters for compiling a block that reads it.

Looks at types and at a module's first parameter, never at data: no tensor is read, no `str` or `repr`
of a user's object is taken.
"""

from __future__ import annotations

import builtins
import collections
import enum
import inspect
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch


class Kind(enum.Enum):
    """The kinds of value that a block can read."""

    MISSING = enum.auto()  # no such name: the plain statement raises the NameError
    TENSOR = enum.auto()  # an XLA tensor
    HOST_TENSOR = enum.auto()  # a tensor elsewhere
    MODULE = enum.auto()  # an nn.Module or optimizer with parameters on XLA
    CONTAINER = enum.auto()  # a list, tuple or dict of the above
    SCALAR = enum.auto()  # an int, float, bool, str or None, or a container of such
    VARYING = enum.auto()  # a scalar (or a container's length) that changed too often to compile for each value
    PACKAGE = enum.auto()  # a Python module
    NEUTRAL = enum.auto()  # functions, losses, settings: no tensor, and nothing that Dynamo must keep off
    HOST = enum.auto()  # classes, arrays, iterators, figures, files: the statement stays plain Python


ON_DEVICE = frozenset({Kind.TENSOR, Kind.MODULE, Kind.CONTAINER})

HOST_LIBRARIES = frozenset(
    "IPython PIL bokeh cv2 datasets fastprogress io ipywidgets jax json matplotlib numpy os pandas pathlib plotly"
    " polars random requests scipy seaborn shutil sklearn subprocess sys threading time torch_xla torchvision"
    " tqdm".split()
)
"""Libraries whose calls are host work. Tracing into them costs seconds and ends in a graph break."""

_TRACED_TORCH = (
    "torch.nn.functional",
    "torch.functional",
    "torch._tensor",
    "torch.linalg",
    "torch.fft",
    "torch.special",
    "torch.nn.utils",
    "torch._jit_internal",
    "torch._C",
    "torch.func",
    "torch._functorch",
    "torch.autograd",
)
_HOST_TORCH = frozenset(
    "as_tensor asarray compile device from_dlpack from_numpy frombuffer get_default_device get_rng_state is_tensor"
    " load manual_seed save seed set_default_device set_default_dtype set_rng_state tensor typename".split()
)
SAFE_BUILTINS = frozenset(
    getattr(builtins, name)
    for name in "abs all any divmod enumerate len list max min pow reversed round sum tuple zip".split()
)

_PLAIN = frozenset({int, float, bool, str, type(None)})
_SCALARS = (int, float, complex, bool, str, bytes, type(None))
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
_uses_host: weakref.WeakKeyDictionary[types.CodeType, bool] = weakref.WeakKeyDictionary()


def kind_of(value: Any) -> Kind:
    """The kind of `value`."""
    if type(value) in _PLAIN:
        return Kind.SCALAR  # first, because loops count
    if isinstance(value, torch.Tensor):
        return Kind.TENSOR if value.device.type == "xla" else Kind.HOST_TENSOR
    if isinstance(value, _SCALARS):
        return Kind.SCALAR
    if isinstance(value, torch.nn.Module):
        return _holder(next(value.parameters(), None), next(value.buffers(), None))
    if isinstance(value, torch.optim.Optimizer):
        return _holder(next((p for group in value.param_groups for p in group["params"]), None))
    if isinstance(value, (list, tuple, dict, collections.UserDict)):
        return _container(value)
    if isinstance(value, types.ModuleType):
        return Kind.PACKAGE
    if isinstance(value, (torch.dtype, torch.device, torch.Size, slice)):
        return Kind.NEUTRAL
    if callable(value) and isinstance(value, _FUNCTIONS):
        return Kind.NEUTRAL if traceable(value) else Kind.HOST
    if isinstance(value, type):
        return Kind.HOST
    home = getattr(type(value), "__module__", "")
    return Kind.NEUTRAL if home == "__main__" or "__dataclass_fields__" in vars(type(value)) else Kind.HOST


def _holder(*tensors: torch.Tensor | None) -> Kind:
    found = [t for t in tensors if t is not None]
    if not found:
        return Kind.NEUTRAL
    return Kind.MODULE if found[0].device.type == "xla" else Kind.HOST


def _container(value: list[Any] | tuple[Any, ...] | dict[Any, Any] | collections.UserDict[Any, Any]) -> Kind:
    """Judged by the first element: looking at all of them would cost more, the more there are."""
    first = next(iter(value.values() if isinstance(value, (dict, collections.UserDict)) else value), None)
    if first is None or first is value:
        return Kind.SCALAR if isinstance(value, tuple) else Kind.HOST
    kind = kind_of(first)
    if kind in ON_DEVICE:
        return Kind.CONTAINER
    return kind if kind in (Kind.SCALAR, Kind.HOST_TENSOR) else Kind.HOST


def traceable(function: Callable[..., Any]) -> bool:
    """Whether a call of `function` may stand in a compiled block."""
    if isinstance(function, types.MethodType):
        owner = kind_of(function.__self__)
        return owner in ON_DEVICE or owner is Kind.NEUTRAL
    if isinstance(function, type):
        return False
    if function in SAFE_BUILTINS:
        return True
    if hasattr(function, "_torchdynamo_orig_callable") and not getattr(function, "_torchdynamo_disable", False):
        # The user has it compiled. So is a module under `torch.compile` that goes there again: torch's own `forward`.
        return True
    home = getattr(function, "__module__", None) or ""
    root = home.partition(".")[0]
    if root == "torch" or (not home and type(function) is types.BuiltinFunctionType):
        name = getattr(function, "__name__", "")
        return name not in _HOST_TORCH and (home.startswith(_TRACED_TORCH) or home in ("", "torch"))
    if root in HOST_LIBRARIES or root == "builtins" or not isinstance(function, types.FunctionType):
        return False
    return not _reaches_host(function)


def _reaches_host(function: types.FunctionType) -> bool:
    """Whether a user's function names a host library (plots, files), as far as its own code shows."""
    original = inspect.unwrap(function)
    if not isinstance(original, types.FunctionType):
        return False
    code = original.__code__
    known = _uses_host.get(code)
    if known is None:
        known = any(is_host_package(original.__globals__.get(name)) for name in code.co_names)
        _uses_host[code] = known
    return known


def is_host_package(value: Any) -> bool:
    """Whether `value` is a module of a library whose calls are host work."""
    return isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] in HOST_LIBRARIES


class Names:
    """The names a block reads: their kinds, with memory of the scalars that keep changing.

    Dynamo compiles anew for each value of a scalar and for each length of a list. A name that showed
    more than `limit` values counts as varying, and what reads it stays plain Python.
    """

    def __init__(self, names: tuple[str, ...], limit: int = 4) -> None:
        self.names = names
        self._limit = limit
        self._seen: dict[str, set[Any]] = {}

    def kinds(self, namespace: Mapping[str, Any]) -> tuple[Kind, ...]:
        """The kind that each name has now."""
        return tuple([self._kind(name, namespace) for name in self.names])

    def _kind(self, name: str, namespace: Mapping[str, Any]) -> Kind:
        try:
            value = namespace[name]
        except KeyError:
            return kind_of(getattr(builtins, name)) if hasattr(builtins, name) else Kind.MISSING
        kind = kind_of(value)
        if kind is Kind.SCALAR or kind is Kind.CONTAINER:
            seen = self._seen.setdefault(name, set())
            seen.add(value if isinstance(value, _SCALARS) else len(value))
            if len(seen) > self._limit:
                # One more is kept than allowed, so that the set stays small and the verdict final.
                seen.pop()
                return Kind.VARYING
        return kind
