"""Copies of what a cell reaches, for a rehearsal to work on: nothing of the user's own is in them.

Tensors on the device become zeros: graphs depend on shapes and types, never on values. Tensors elsewhere,
arrays and Python objects are copied with their values, and what is one object stays one object. What cannot
be copied (a generator, a file, a lock) becomes `Unavailable`.
"""

from __future__ import annotations

import builtins
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

import torch
from torch._dynamo.eval_frame import OptimizeContext, OptimizedModule, innermost_fn

from xla_notebook.backend.dynamo import xla_notebook
from xla_notebook.backend.program import is_on_xla
from xla_notebook.backend.rehearsal import NotReached, zeros
from xla_notebook.notebook.compiled import Held
from xla_notebook.notebook.decorator import compiling
from xla_notebook.notebook.kinds import Names
from xla_notebook.notebook.leases import Lease

_SHARED = (
    *(type(None), int, float, complex, bool, str, bytes, range, slice, type, type(...), type(NotImplemented)),
    *(types.ModuleType, types.BuiltinFunctionType, types.CodeType, types.MappingProxyType, property),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size),
    *(Names, Lease),
)
"""Types whose objects have nothing that a cell could change."""

_OURS = __name__.partition(".")[0] + "."
_COMPILED = (Held, compiling)
"""Objects of ours that are made of nothing but what they compile."""


class Unavailable:
    """Stands for a value that a rehearsal does not have. Whatever touches it is not reached."""

    def __init__(self, why: str) -> None:
        object.__setattr__(self, "_why", why)

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise NotReached(object.__getattribute__(self, "_why"))

    __getattr__ = __setattr__ = __call__ = __iter__ = __next__ = __enter__ = __bool__ = __len__ = _refuse
    __getitem__ = __setitem__ = __contains__ = __str__ = __format__ = __int__ = __float__ = __index__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __matmul__ = __rmatmul__ = __pow__ = __rpow__ = __mod__ = __rmod__ = __neg__ = __lt__ = __gt__ = _refuse
    __le__ = __ge__ = __eq__ = __ne__ = __await__ = __aiter__ = __anext__ = __aenter__ = __aexit__ = _refuse
    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(cls, _function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        found = next(value for value in [*args, *(kwargs or {}).values()] if isinstance(value, Unavailable))
        found._refuse()


class Unknown(float):
    """A number that was read from the device: good for sums and for printing, and for no decision."""

    def __new__(cls) -> Unknown:
        return super().__new__(cls, "nan")

    def _calculate(self, *_args: Any) -> Unknown:
        return Unknown()

    def _refuse(self, *_args: Any) -> NoReturn:
        raise NotReached("depends on a value")

    def __format__(self, _spec: str) -> str:
        return "?"

    __repr__ = __str__ = lambda self: "?"
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _calculate
    __pow__ = __rpow__ = __neg__ = __pos__ = __abs__ = __round__ = _calculate  # type: ignore[assignment]
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _calculate
    __bool__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __int__ = __index__ = __float__ = _refuse
    __trunc__ = __floor__ = __ceil__ = _refuse
    __hash__ = float.__hash__


class Bar:
    """Stands for a progress bar, which would be drawn."""

    def __init__(self, iterable: Iterable[Any] = (), *_arguments: Any, **_options: Any) -> None:
        self._iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iterable)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_arguments, **_options: None


class Copier:
    """Copies objects with what they refer to. One copier copies an object once.

    `may_copy` says of which classes an object is made of nothing but its attributes.
    """

    def __init__(self, may_copy: Callable[[type], bool]) -> None:
        self._may_copy = may_copy
        # The originals are kept, too: an id is only theirs while they live.
        self._known: dict[int, tuple[Any, Any]] = {}
        # The classes that were met, and those of objects, with their bases. They are no copies.
        self.classes: dict[type, None] = {}

    def copy(self, value: Any) -> Any:
        """The copy of `value`, or the value itself if there is nothing in it to change."""
        if isinstance(value, type) and value.__module__.partition(".")[0] == "tqdm":
            return Bar
        if isinstance(value, (*_SHARED, type)):
            if isinstance(value, type):
                self._note(value)
            return value
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        try:
            return self._make(value)
        except NotReached as error:
            return self._keep(value, Unavailable(str(error)))
        except (TypeError, AttributeError, RecursionError, NotImplementedError) as error:
            return self._keep(value, Unavailable(f"a {type(value).__name__} cannot be copied ({error})"))

    def _note(self, kind: type) -> None:
        self.classes.update(dict.fromkeys(kind.__mro__))

    def _keep(self, value: Any, made: Any) -> Any:
        self._known[id(value)] = (value, made)
        return made

    def _make(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        kind = type(value)
        if kind is list:
            made: Any = self._keep(value, [])
            made.extend(self.copy(item) for item in value)
            return made
        if kind is dict:
            made = self._keep(value, {})
            made.update((self.copy(key), self.copy(item)) for key, item in value.items())
            return made
        if kind in (tuple, set, frozenset):
            return self._keep(value, kind([self.copy(item) for item in value]))
        if kind is types.FunctionType:
            return self._function(value)
        if kind is types.MethodType:
            return self._keep(value, types.MethodType(self.copy(value.__func__), self.copy(value.__self__)))
        if kind is types.CellType:
            made = self._keep(value, types.CellType())
            made.cell_contents = self.copy(value.cell_contents)
            return made
        if kind is weakref.ref:
            target = value()
            return self._keep(value, value if target is None else weakref.ref(self.copy(target)))
        if kind is torch.Generator:
            return self._keep(value, value.clone_state())
        if kind is OptimizedModule:
            return self._keep(value, OptimizedModule(self.copy(value._orig_mod), _context(value.dynamo_ctx)))
        if not issubclass(kind, _COMPILED) and (kind.__module__.startswith(_OURS) or not self._may_copy(kind)):
            raise TypeError(f"it is {kind.__module__}'s")
        self._note(kind)
        return self._object(value)

    def _tensor(self, value: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            made = zeros(value.shape, value.dtype, value.device) if is_on_xla(value) else value.detach().clone()
        if isinstance(value, torch.nn.Parameter):
            # As they are: a parameter's class may have arguments of its own.
            made = made.as_subclass(type(value))
        elif type(value) is not torch.Tensor:
            raise TypeError("it is a kind of tensor of its own")
        made.requires_grad_(value.requires_grad)
        self._keep(value, made)
        if value.grad_fn is not None:
            made.register_hook(_no_history)
        elif value.grad is not None:
            made.grad = self.copy(value.grad)
        vars(made).update({name: self.copy(item) for name, item in vars(value).items()})
        return made

    def _function(self, value: types.FunctionType) -> Any:
        wrapped = getattr(value, "__wrapped__", None)
        if value.__code__.co_filename.startswith(_HERE) and wrapped is not None and self.copy(wrapped) is wrapped:
            # One that a compiled cell defined: it works on what its globals hold, and those are copies.
            return self._keep(value, value)
        if value.__code__.co_filename == _DYNAMO and hasattr(value, "_torchdynamo_orig_callable"):
            cells = dict(zip(value.__code__.co_freevars, value.__closure__ or (), strict=True))
            context = _context(cells["self"].cell_contents)
            return self._keep(value, context(self.copy(value._torchdynamo_orig_callable)))
        if value.__closure__ is None and not value.__dict__:
            return self._keep(value, value)
        closure = tuple(types.CellType() for _ in value.__closure__ or ())
        made = types.FunctionType(value.__code__, value.__globals__, value.__name__, None, closure or None)
        self._keep(value, made)
        made.__qualname__, made.__module__, made.__doc__ = value.__qualname__, value.__module__, value.__doc__
        made.__defaults__, made.__kwdefaults__ = self.copy(value.__defaults__), self.copy(value.__kwdefaults__)
        for new, cell in zip(closure, value.__closure__ or (), strict=True):
            new.cell_contents = self.copy(cell.cell_contents)
        made.__dict__.update(self.copy(vars(value)))
        return made

    def _object(self, value: Any) -> Any:
        kind = type(value)
        own: Any = kind  # its methods are compared, not called
        plain = own.__reduce_ex__ is object.__reduce_ex__ and own.__reduce__ is object.__reduce__
        if plain and hasattr(value, "__dict__") and not _has_slots(kind):
            # Not by its own `__getstate__`, which may leave out what a run would use.
            made = self._keep(value, object.__new__(kind))
            state = {name: self.copy(item) for name, item in vars(value).items()}
            if isinstance(value, torch.utils.data.DataLoader):
                # Workers are processes; their batches are the same without them.
                state.update(num_workers=0, prefetch_factor=None, _iterator=None)
                state.update(_DataLoader__multiprocessing_context=None, persistent_workers=False)
            vars(made).update(state)
            return made
        return self._reduced(value, value.__reduce_ex__(4))

    def _reduced(self, value: Any, parts: Any) -> Any:
        """What pickle would make of `value`, with copies of its parts."""
        if isinstance(parts, str):
            return self._keep(value, value)
        make, arguments, state, items, pairs = (*parts, None, None, None)[:5]
        made = self._keep(value, make(*[self.copy(argument) for argument in arguments]))
        for item in items or ():
            made.append(self.copy(item))
        for key, item in pairs or ():
            made[self.copy(key)] = self.copy(item)
        if state is not None:
            copied = self.copy(state)
            if hasattr(made, "__setstate__"):
                made.__setstate__(copied)
            else:
                own, slots = copied if isinstance(copied, tuple) else (copied, {})
                vars(made).update(own or {})
                for name, item in (slots or {}).items():
                    setattr(made, name, item)
        return made


_HERE = __file__.rpartition("/")[0]
_DYNAMO = torch._dynamo.eval_frame.__file__


def _context(context: OptimizeContext) -> OptimizeContext:
    """What ``torch.compile`` would make copies compiled by, which is the same if it is by us: others would execute."""
    callback: Any = context.callback
    backend: Any = innermost_fn(callback, unaltered_fn_attr="_torchdynamo_orig_backend")
    if getattr(backend, "compiler_fn", backend) is not xla_notebook:
        raise TypeError(f"it is compiled by the backend {getattr(backend, 'compiler_name', backend)}")
    return context


def _has_slots(kind: type) -> bool:
    return any("__slots__" in vars(base) and vars(base)["__slots__"] for base in kind.__mro__)


def _no_history(_gradient: torch.Tensor) -> NoReturn:
    raise NotReached("the forward pass of an earlier cell is needed for the gradient")


def reached(names: Iterator[str], namespace: Mapping[str, Any]) -> set[str]:
    """`names`, and the names that functions and classes of the namespace read under them."""
    found: set[str] = set()
    rest = list(names)
    while rest:
        name = rest.pop()
        if name in found or name not in namespace:
            continue
        found.add(name)
        for code in _codes(namespace[name], namespace):
            rest += code.co_names
    return found


def _codes(value: Any, namespace: Mapping[str, Any], depth: int = 0) -> Iterator[types.CodeType]:
    """The code of what is defined in the notebook and comes with `value`."""
    if isinstance(value, types.FunctionType):
        wrapped: Callable[..., Any] = getattr(value, "__wrapped__", value)
        for function in (value, wrapped):
            if isinstance(function, types.FunctionType) and function.__globals__ is namespace:
                yield from _nested(function.__code__)
        for cell in value.__closure__ or ():
            if depth < 3:
                yield from _codes(cell.cell_contents, namespace, depth + 1)
    elif isinstance(value, types.MethodType):
        yield from _codes(value.__func__, namespace, depth)
        yield from _codes(type(value.__self__), namespace, depth)
    elif isinstance(value, type):
        for base in value.__mro__:
            if base.__module__ == "__main__":
                for function in functions_of(base):
                    yield from _codes(function, namespace, depth)
    elif isinstance(value, torch.nn.Module):
        for module in value.modules():
            yield from _codes(type(module), namespace, depth)
    elif isinstance(value, (list, tuple, dict)) and depth < 3:
        for item in list(value.values() if isinstance(value, dict) else value)[:100]:
            yield from _codes(item, namespace, depth + 1)
    elif not hasattr(builtins, type(value).__name__) and type(value).__module__ == "__main__":
        yield from _codes(type(value), namespace, depth)
        for item in vars(value).values() if hasattr(value, "__dict__") and depth < 3 else ():
            yield from _codes(item, namespace, depth + 1)


def functions_of(kind: type) -> Iterator[types.FunctionType]:
    """The functions that a class itself defines, those of its properties and class methods among them."""
    for member in vars(kind).values():
        member = getattr(member, "__func__", getattr(member, "fget", member))
        if isinstance(member, types.FunctionType):
            yield member


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)
