"""What a rehearsal keeps from happening: reads of values, output, files, processes, random draws."""

from __future__ import annotations

import contextlib
import os
import random
import site
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import torch
from torch._dynamo.eval_frame import skip_code

from xla_notebook.backend import rehearsal, runtime
from xla_notebook.backend.program import is_on_xla
from xla_notebook.backend.rehearsal import NotReached
from xla_notebook.notebook.sandbox import Unknown

_WRITES = frozenset(
    "os.mkdir os.remove os.rename os.rmdir os.system os.exec os.fork os.forkpty os.posix_spawn os.kill os.link"
    " os.symlink os.truncate os.chmod os.chown os.utime os.chdir shutil.copyfile shutil.move"
    " shutil.rmtree subprocess.Popen socket.connect socket.bind socket.sendto urllib.Request webbrowser.open".split()
)
"""Audit events (see Python's table of them) of what a rehearsal must not do."""

_LIBRARIES = tuple({*site.getsitepackages(), sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")})


@contextlib.contextmanager
def nothing_outside() -> Iterator[None]:
    """Within this, on the thread of a rehearsal, nothing but its own copies changes."""
    with _process_state(), _no_reads(), _muted(), _guarded_files():
        yield


# ---- values

_READS = ("item", "tolist", "numpy", "cpu", "to", "__bool__", "__float__", "__int__", "__index__", "__contains__")
_TEXTS = ("__repr__", "__str__", "__format__")


@contextlib.contextmanager
def _no_reads() -> Iterator[None]:
    """Let tensors on the device compile what a read of their value would need, and give no value."""
    before = {name: vars(torch.Tensor).get(name) for name in (*_READS, *_TEXTS)}
    made = {name: _reading(name, getattr(torch.Tensor, name)) for name in before}
    try:
        for name, function in made.items():
            setattr(torch.Tensor, name, function)
        yield
    finally:
        for name, own in before.items():
            if own is None:
                delattr(torch.Tensor, name)
            else:
                setattr(torch.Tensor, name, own)


def _reading(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def read(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        reads = rehearsal.current() is not None and type(self) in (torch.Tensor, torch.nn.Parameter)
        if not reads or not is_on_xla(self) or (name == "to" and not _leaves_device(args, kwargs)):
            return original(self, *args, **kwargs)
        if runtime.pending([self])[0]:
            runtime.warm_up([self])
        if name == "item":
            return Unknown()
        if name in _TEXTS:
            return "?"
        raise NotReached("depends on a value")

    # Where Dynamo leaves a frame to Python, it looks at what the frame calls.
    disabled: Callable[..., Any] = torch.compiler.disable(read)
    return disabled


def _leaves_device(args: Any, kwargs: Any) -> bool:
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            return value.device.type != "xla"
        if isinstance(value, (str, torch.device)):
            return torch.device(value).type != "xla"
    return False


# ---- random numbers, modes of torch, environment


@contextlib.contextmanager
def _process_state() -> Iterator[None]:
    numpy = sys.modules.get("numpy")
    environment = dict(os.environ)
    host, python, seed = torch.get_rng_state(), random.getstate(), runtime.rng_seed()
    arrays = numpy.random.get_state() if numpy is not None else None
    gradients, default = torch.is_grad_enabled(), torch.get_default_dtype()
    # Draws that the user recorded stay what they are: the rehearsal begins at a plain seed.
    runtime.set_rng_seed(seed)
    try:
        yield
    finally:
        runtime.set_rng_seed(seed)
        torch.set_rng_state(host)
        random.setstate(python)
        if numpy is not None:
            numpy.random.set_state(arrays)
        torch.set_grad_enabled(gradients)
        torch.set_default_dtype(default)
        if environment != os.environ:
            os.environ.clear()
            os.environ.update(environment)


# ---- output


class _Muted:
    """A stream that drops what the rehearsal writes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return len(text) if rehearsal.current() is not None else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _muted() -> Iterator[None]:
    before = sys.stdout, sys.stderr
    try:
        sys.stdout, sys.stderr = _Muted(before[0]), _Muted(before[1])
        yield
    finally:
        sys.stdout, sys.stderr = before


# ---- files and processes

_hooked = False


@contextlib.contextmanager
def _guarded_files() -> Iterator[None]:
    global _hooked
    if not _hooked:
        # It stays for good, as Python cannot take it back, and looks at nothing outside of a rehearsal.
        sys.addaudithook(_audit)
        _hooked = True
    yield


def _audit(event: str, arguments: tuple[Any, ...], state: types.ModuleType = rehearsal) -> None:
    # A default, because this is called until the process ends, when modules are empty.
    if not state.under_way:
        return
    writes = event in _WRITES or (event == "open" and _opens_for_writing(arguments))
    if writes and state.current() is not None and not _in_torch(sys._getframe(1)):
        raise NotReached(f"does more than compute ({event})")


def _opens_for_writing(arguments: tuple[Any, ...]) -> bool:
    _path, mode, flags = arguments
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _in_torch(frame: types.FrameType | None) -> bool:
    """Whether PyTorch itself is at work above the user's code: its compiler keeps caches and logs."""
    while frame is not None and not is_users(frame.f_code):
        if frame.f_globals.get("__name__", "").partition(".")[0] in ("torch", "torch_xla"):
            return True
        frame = frame.f_back
    return False


def is_users_file(name: str) -> bool:
    """Whether a file is neither Python's, nor a library's, nor this package's."""
    return not name.startswith((*_LIBRARIES, "<frozen", "<string>", _HERE))


def is_users(code: types.CodeType) -> bool:
    """Whether `code` is the user's own."""
    return is_users_file(code.co_filename)


_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

for _watcher in (is_users, is_users_file, _audit, _opens_for_writing, _in_torch):
    # They are called from anywhere, and are nothing for Dynamo to compile.
    skip_code(_watcher.__code__)
