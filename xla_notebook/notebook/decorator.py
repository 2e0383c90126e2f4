"""`xla_notebook.compile`: what the magic does for a cell's definitions, for scripts and linters. Needs no IPython."""

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
    if warm_up is not None:
        config.validate("warm_up", warm_up)
    options = Options(warm_up=warm_up, dynamic=dynamic, fullgraph=fullgraph, donate=tuple(donate))
    if thing is None:
        return lambda decorated: _compile(decorated, options)
    return _compile(thing, options)


def _compile(thing: Any, options: Options) -> Any:
    if isinstance(thing, torch.nn.Module):
        return _compile_module(thing, options)
    if isinstance(thing, types.MethodType) and isinstance(thing.__func__, types.FunctionType):
        return types.MethodType(compiled_function(thing.__func__, options), thing.__self__)
    if isinstance(thing, types.FunctionType) or (isinstance(thing, type) and issubclass(thing, torch.nn.Module)):
        return define(thing, options)
    raise TypeError(
        f"xla_notebook.compile takes a function, a method, an nn.Module class or a module, not {type(thing).__name__}"
    )


def _compile_module(module: torch.nn.Module, options: Options) -> torch.nn.Module:
    """Compile `module` in place, where ``Module.compile`` does, so that it stays picklable and copyable.

    ``Module.compile`` itself compiles nothing for PyTorch's own classes (torch 2.9): Dynamo skips their files.
    """
    implementation: Any = module._call_impl

    def call(*args: Any, **kwargs: Any) -> Any:
        return implementation(*args, **kwargs)

    # A code object of its own: modules that share one would share Dynamo's recompile budget.
    code = call.__code__.replace()
    own = types.FunctionType(code, call.__globals__, call.__name__, None, call.__closure__)
    module._compiled_call_impl = options.compile(own, Lease(code))
    return module
