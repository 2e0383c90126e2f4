"""Settings of Dynamo's that our graphs need otherwise, for the length of each compile that makes some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch._dynamo import config
from torch._dynamo.callback import CallbackArgs, callback_handler
from torch._guards import CompileContext

# Dynamo reads those of guards when it builds the guards, after the backend was called.
ALWAYS = {
    # Dynamo takes what a module holds for unchanged while the module's dictionaries are (PyTorch's issue 139476,
    # torch 2.9). So it sees no `requires_grad_()`, `module.half()` or `parameter.data = ...`: unfrozen layers would
    # silently get no gradient, and executables buffers of another type or shape.
    "skip_tensor_guards_with_matching_dict_tags": False,
    # Nor does it see that a module without hooks has got one, which would silently not be called.
    "skip_nnmodule_hook_guards": False,
    # AOTAutograd traces with FX, which is noted for the whole process, and refuses what other threads call meanwhile.
    # Their calls run uncompiled instead.
    "error_on_nested_fx_trace": False,
}
# Dynamo takes two parameters for two for good. After `a.weight = b.weight`, a graph that updates both would lose one of
# the updates. Costs about 0.06 us a parameter and call.
FOR_UPDATES = {"skip_no_tensor_aliasing_guards_on_parameters": False}

_before: dict[str, Any] = {}


def set_for_this_compile(settings: Mapping[str, bool]) -> None:
    """Call while Dynamo compiles. Its settings are the user's own again when that ends, or fails."""
    if CompileContext.try_get() is None:
        return
    if _restore not in callback_handler.end_callbacks:
        callback_handler.register_end_callback(_restore)
    for name, value in settings.items():
        _before.setdefault(name, getattr(config, name))
        setattr(config, name, value)


def _restore(_ended: CallbackArgs) -> None:
    while _before:
        name, value = _before.popitem()
        setattr(config, name, value)
