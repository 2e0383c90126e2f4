"""`torch.compile` as the notebook uses it: the safe backend, and plain Python where Dynamo gives up."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._dynamo.config as dynamo_config

from xla_notebook.notebook import kinds, leases, quiet
from xla_notebook.notebook.kinds import ON_DEVICE, Names
from xla_notebook.notebook.leases import Lease

BACKEND = "xla_notebook"


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """How to compile. `warm_up` None means the session's setting; `name` is for reports.

    With `no_run` a cell is the same cell as without.
    """

    name: str | None = None
    warm_up: str | None = None
    dynamic: bool | None = None
    fullgraph: bool = False
    donate: tuple[str, ...] = ()
    quiet: bool = False
    no_run: bool = dataclasses.field(default=False, compare=False)
    backend: str = BACKEND

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `torch.compile`."""
        options: dict[str, Any] = {}
        if self.warm_up is not None:
            options["warm_up"] = self.warm_up
        if self.donate:
            options["donate"] = list(self.donate)
        return {
            "backend": self.backend,
            "dynamic": self.dynamic,
            "fullgraph": self.fullgraph,
            "options": options or None,
        }

    def compile(self, function: Callable[..., Any], lease: Lease) -> Callable[..., Any]:
        """`function` under ``torch.compile``; nothing is traced before its first call.

        What comes back holds `lease`, that of the function's code.
        """
        made: Callable[..., Any] = torch.compile(function, **self.arguments())
        return Held(made, lease) if self.fullgraph else _Forgiving(made, lease)


class Held:
    """A compiled function, and the lease of its code."""

    def __init__(self, compiled: Callable[..., Any], lease: Lease) -> None:
        self._compiled = compiled
        self._lease = lease

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)


class _Forgiving(Held):
    """The same, with each frame that Dynamo cannot compile run as plain Python, exactly once."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with forgive(), quiet.listening() as heard:
            try:
                return self._compiled(*args, **kwargs)
            except Exception:
                if heard.errors:
                    # Dynamo would never try this code again, but it was the call that was wrong.
                    leases.forget(self._lease.code)
                raise
            finally:
                if heard.given_up and not heard.given_up <= leases.forget_dead():
                    quiet.tell_given_up()


@contextlib.contextmanager
def forgive() -> Iterator[None]:
    """Let Dynamo run a frame that it cannot compile as it stands.

    Only Dynamo itself can do this without running anything twice: a frame may fail to compile after
    earlier parts of the same block have run. `torch._dynamo.config.patch` does the same at five times
    the cost, which a block pays in every step of a loop.
    """
    before = dynamo_config.suppress_errors
    dynamo_config.suppress_errors = True
    try:
        yield
    finally:
        dynamo_config.suppress_errors = before


def define(thing: Any, options: Options, lease: Callable[[types.CodeType], Lease] = Lease) -> Any:
    """What a cell's definition binds: functions compiled, ``nn.Module`` classes with a compiled `forward`.

    Both stay what they were to Python: same name, signature, docstring and source, picklable by name.
    """
    if isinstance(thing, type):
        forward = vars(thing).get("forward")
        if issubclass(thing, torch.nn.Module) and isinstance(forward, types.FunctionType):
            thing.forward = compiled_function(forward, options, lease)
        return thing
    if isinstance(thing, types.FunctionType):
        return compiled_function(thing, options, lease)
    return thing


def compiled_function(
    function: types.FunctionType, options: Options, lease: Callable[[types.CodeType], Lease] = Lease
) -> types.FunctionType:
    """`function`, compiled whenever a call has to do with the XLA device.

    A call that touches no tensor on it (a recursive helper on integers, say) goes straight to the function.
    """
    code = function.__code__
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return function
    if not kinds.traceable(function):
        return function
    compiled = options.compile(function, lease(code))
    names = Names(tuple(name for name in code.co_names if name != function.__name__), limit=1 << 30)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        # Dynamo folds this test and inlines the function into a compiled caller. Its own mark for that
        # (`_torchdynamo_inline`) would be copied by a user's `functools.wraps`, which changes results.
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        touches = any(kinds.kind_of(value) in ON_DEVICE for value in args)
        touches = touches or any(kinds.kind_of(value) in ON_DEVICE for value in kwargs.values())
        if touches or any(kind in ON_DEVICE for kind in names.kinds(function.__globals__)):
            return compiled(*args, **kwargs)
        return function(*args, **kwargs)

    return wrapper  # type: ignore[return-value]
