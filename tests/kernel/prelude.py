# Runs in the kernel before the tests of a module.
import json  # noqa: F401  (used by cells)
import re
import warnings

import torch
import torch.nn.functional as F  # noqa: F401
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

get_ipython().run_line_magic("load_ext", "xla_notebook")  # noqa: F821

# The session would record nothing from there on, and later tests would fail for a reason that nobody sees.
warnings.filterwarnings("error", message="xla_notebook: .* gets no more reports")

dev = torch_xla.device()


def counts():
    """(executions, compilations) so far, with everything that was started counted."""
    xm.wait_device_ops()
    return tuple((met.metric_data(name) or (0,))[0] for name in ("ExecuteTime", "CompileTime"))


def pending():
    """Names of the XLA tensors of the namespace that are not buffers yet."""
    tensors = {k: v for k, v in globals().items() if isinstance(v, torch.Tensor) and v.device.type == "xla"}
    needs = [torch_xla._XLAC._check_tensor_need_materialization([v])[0] for v in tensors.values()]
    return [name for name, need in zip(tensors, needs, strict=True) if need]


def describe(value):
    """A value as text that does not depend on addresses."""
    if isinstance(value, torch.Tensor):
        numbers = [round(float(v), 3) for v in value.detach().cpu().flatten()]
        return f"{type(value).__name__} {tuple(value.shape)} {value.dtype} {value.device.type} {numbers}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(describe, value))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{k}: {describe(v)}' for k, v in value.items())})"
    if isinstance(value, type) or callable(value):
        return f"{type(value).__name__} {getattr(value, '__qualname__', '')}"
    return re.sub(r"0x[0-9a-f]+", "0x", repr(value))


def visible(before):
    names = [k for k in globals() if not k.startswith("_") and k not in before and k not in ("In", "Out")]
    return {k: describe(globals()[k]) for k in sorted(names)}


def forget_names():
    """Leave the names that this file binds and those of IPython."""
    for name in [k for k in globals() if k not in _known and not k.startswith("_")]:
        del globals()[name]


_known = set(globals())
