"""`xla_notebook.compile` and `xla_notebook.compiling`: the magic for scripts and linters. Needs no IPython."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, TypeVar, overload

import torch

from xla_notebook.backend import config
from xla_notebook.notebook.compiled import Options, compiled_function, define
from xla_notebook.notebook.leases import Lease

Thing = TypeVar("Thing")


@overload
def compile(
    thing: Thing, /, *, warm_up: str | None = ..., dynamic: bool | None = ..., fullgraph: bool = ...
) -> Thing: ...
@overload
def compile(
    *, warm_up: str | None = ..., dynamic: bool | None = ..., fullgraph: bool = ..., donate: tuple[str, ...] = ...
) -> Callable[[Thing], Thing]: ...
def compile(
    thing: Any = None,
    /,
    *,
    warm_up: str | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    donate: tuple[str, ...] = (),
) -> Any:
    """Compile a function, a method, an ``nn.Module`` class or a module into cached XLA graphs.

    Use it as a decorator, with or without options, or call it. A function or class comes back as an
    ordinary function or the same class; a module is compiled in place. Calls that touch no tensor on
    the XLA device run as they are. The options are those of ``%%xla_compile``: `warm_up` is one of
    ``compile``, ``execute`` and ``off``; `donate` names arguments whose buffers the outputs may take.

    Raises `TypeError` for anything else, and `ValueError` for an unknown `warm_up`.
    """
    options = _checked(warm_up, dynamic, fullgraph, donate)
    if thing is None:
        return lambda decorated: _compile(decorated, options)
    return _compile(thing, options)


class compiling:
    """Compile what is named for as long as a ``with`` block runs, without changing its definition.

    ``with compiling(model, optimizer, step) as (model, optimizer, step):`` A ``with`` cannot take the
    statements below it, as ``%%xla_compile`` does: other tensor work of the block stays as it is. Modules
    and optimizers (their `step`) are compiled in place, for all threads, and are as before after the block;
    functions and methods come back as compiled ones. The value is what was given, compiled: one thing, or
    a tuple of several. The options are those of `compile`.

    Entering the same `compiling` object again recompiles nothing; make it once, outside of a loop.
    Raises `TypeError` for anything else than a module, an optimizer, a function or a method, and
    `ValueError` for an unknown `warm_up`.
    """

    def __init__(
        self,
        *things: Any,
        warm_up: str | None = None,
        dynamic: bool | None = None,
        fullgraph: bool = False,
        donate: tuple[str, ...] = (),
    ) -> None:
        options = _checked(warm_up, dynamic, fullgraph, donate)
        if not things:
            raise TypeError("xla_notebook.compiling takes what to compile: modules, optimizers, functions, methods")
        self._values: list[Any] = []
        # Object, attribute, and what the attribute is while the block runs.
        self._places: list[tuple[Any, str, Callable[..., Any]]] = []
        self._before: list[list[Any]] = []
        for thing in things:
            if isinstance(thing, torch.nn.Module):
                self._places.append((thing, "_compiled_call_impl", _call_of(thing, options)))
                self._values.append(thing)
            elif isinstance(thing, torch.optim.Optimizer):
                self._places.append((thing, "step", _step_of(thing, options)))
                self._values.append(thing)
            elif isinstance(thing, (types.FunctionType, types.MethodType)):
                self._values.append(_compile(thing, options))
            else:
                raise TypeError(
                    "xla_notebook.compiling takes modules, optimizers, functions and methods,"
                    f" not {type(thing).__name__}"
                )

    def __enter__(self) -> Any:
        self._before.append([vars(owner).get(name, _ABSENT) for owner, name, _ in self._places])
        for owner, name, made in self._places:
            setattr(owner, name, made)
        return self._values[0] if len(self._values) == 1 else tuple(self._values)

    def __exit__(self, *_error: object) -> None:
        for (owner, name, made), before in zip(self._places, self._before.pop(), strict=True):
            # A learning-rate scheduler that was made in the block has wrapped `step`, and counts on it.
            if vars(owner).get(name) is not made:
                continue
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


_ABSENT = object()


def _checked(warm_up: str | None, dynamic: bool | None, fullgraph: bool, donate: tuple[str, ...]) -> Options:
    if warm_up is not None:
        config.validate("warm_up", warm_up)
    return Options(warm_up=warm_up, dynamic=dynamic, fullgraph=fullgraph, donate=tuple(donate))


def _compile(thing: Any, options: Options) -> Any:
    if isinstance(thing, torch.nn.Module):
        thing._compiled_call_impl = _call_of(thing, options)
        return thing
    if isinstance(thing, types.MethodType) and isinstance(thing.__func__, types.FunctionType):
        return types.MethodType(compiled_function(thing.__func__, options), thing.__self__)
    if isinstance(thing, types.FunctionType) or (isinstance(thing, type) and issubclass(thing, torch.nn.Module)):
        return define(thing, options)
    raise TypeError(
        f"xla_notebook.compile takes a function, a method, an nn.Module class or a module, not {type(thing).__name__}"
    )


def _call_of(module: torch.nn.Module, options: Options) -> Callable[..., Any]:
    """What ``Module.compile`` would call instead of `module`; it stays picklable and copyable.

    ``Module.compile`` itself compiles nothing for PyTorch's own classes (torch 2.9): Dynamo skips their files.
    """
    return _forwarding(module._call_impl, options)


def _step_of(optimizer: torch.optim.Optimizer, options: Options) -> types.MethodType:
    compiled = _forwarding(optimizer.step, options)

    def step(_self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        return compiled(*args, **kwargs)

    # A method, because learning-rate schedulers look for its function and object.
    return types.MethodType(step, optimizer)


def _forwarding(implementation: Callable[..., Any], options: Options) -> Callable[..., Any]:
    """`implementation`, called from a compiled function of our own, whose file Dynamo does not skip."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return implementation(*args, **kwargs)

    # A code object of its own: callers that share one would share Dynamo's recompile budget.
    code = call.__code__.replace()
    own = types.FunctionType(code, call.__globals__, call.__name__, None, call.__closure__)
    return options.compile(own, Lease(code))
