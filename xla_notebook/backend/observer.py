"""What the backend reports while it works, as plain values.

The backend knows nothing of sessions or notebooks. Whoever wants to know what happens subclasses
`Observer` and calls `attach`. Without observers every report is skipped, so a script that only uses
``torch.compile(backend="xla_notebook")`` pays nothing. Reports are made on the thread where the thing
happened, outside of the device's locks; an observer must not touch the device (it may be in the middle
of a trace) and should be quick. An observer that raises is detached, with one warning, so that a
mistake in a view can never break a user's computation.

Runs are not reported one by one: a `CachedGraph` counts them, because a call per run is what the hot
path cannot afford. Ask `xla_notebook.backend.cache.graphs()`.
"""

from __future__ import annotations

import dataclasses
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Literal

GraphKind = Literal["inference", "forward", "backward", "optimizer"]
BindingKind = Literal["argument", "attribute", "saved", "seed"]
WarmUpMode = Literal["compile", "execute", "off"]
TraceReason = Literal["first", "sizes", "evicted", "donated", "sharding", "donation", "cleared"]
BarrierCause = Literal["step barrier", "warm-up", "materialize"]
DonationCause = Literal["step barrier", "warm-up", "graph input"]


@dataclasses.dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape (elements per dimension) and dtype (``"float32"``) of a tensor, without its data."""

    shape: tuple[int, ...]
    dtype: str
    nbytes: int

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclasses.dataclass(frozen=True, slots=True)
class Binding:
    """Where one input of a graph comes from.

    ``argument``: position `index` of the compiled function's arguments; ``attribute``: a tensor
    attribute of the FX graph read anew at each run; ``saved``: a saved buffer that the graph keeps;
    ``seed``: the device's random seed, taken at each run. `name` is the best name known (the FX
    placeholder, which Dynamo derives from the user's variable).
    """

    kind: BindingKind
    index: int
    name: str
    spec: TensorSpec


@dataclasses.dataclass(frozen=True, slots=True)
class HostOp:
    """An operator that runs on the host around the graphs, with the user's line if Dynamo knew it."""

    target: str
    why: str
    source: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class GraphTraced:
    """A graph was recorded. Nothing was executed. `graph_id` is unique in the process.

    `cached`: XLA's cache holds its executable already, and nothing will be compiled.
    """

    graph_id: int
    hash: str
    function: str
    filename: str | None
    line: int | None
    kind: GraphKind
    segment: int
    reason: TraceReason
    inputs: tuple[Binding, ...]
    outputs: tuple[TensorSpec, ...]
    mutations: tuple[tuple[int, int], ...]
    donated_inputs: tuple[int, ...]
    saved_nbytes: int
    op_count: int
    cached: bool
    host_ops: tuple[HostOp, ...]
    trace_ns: int
    started_ns: int


@dataclasses.dataclass(frozen=True, slots=True)
class GraphWarming:
    """A warm-up is about to start; the compile may take minutes."""

    graph_id: int
    op_count: int
    mode: WarmUpMode
    started_ns: int


@dataclasses.dataclass(frozen=True, slots=True)
class GraphWarmed:
    """A graph's executable is in XLA's cache. `compiled` is false when it was there already."""

    graph_id: int
    mode: WarmUpMode
    compiled: bool
    compile_ns: int
    ended_ns: int


@dataclasses.dataclass(frozen=True, slots=True)
class GraphEvicted:
    """XLA's cache had dropped the executable of a graph that was called; it is traced and warmed again."""

    graph_id: int
    hash: str
    time_ns: int


@dataclasses.dataclass(frozen=True, slots=True)
class GraphDropped:
    """The compiled function is gone (redefined, reset or collected) and its saved buffers with it."""

    graph_id: int
    saved_nbytes: int
    time_ns: int


@dataclasses.dataclass(frozen=True, slots=True)
class Barrier:
    """A step barrier or a materialization of pending arguments took place (`ended_ns` >= `started_ns`)."""

    cause: BarrierCause
    filename: str | None
    line: int | None
    graph_id: int | None
    tensors: int
    started_ns: int
    ended_ns: int


@dataclasses.dataclass(frozen=True, slots=True)
class Donated:
    """A buffer was given to an output and its handle is dead.

    `would_be`: the guard protected the buffer with a private copy; this tells what would have happened.
    `saved`: the dead buffer was one that a graph keeps for later runs (a hazard). `taker`: the name of the
    tensor that has the memory now, and `taker_handle` its handle, where an observer watched the barrier. Of a
    graph's own input, `taken` are its position and the number of the output that has its memory, or None.
    """

    cause: DonationCause
    graph_id: int | None
    name: str
    spec: TensorSpec
    handle: int
    address: int | None
    saved: bool
    would_be: bool
    time_ns: int
    taker: str = ""
    taker_handle: int | None = None
    taken: tuple[int, int | None] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Forced:
    """Reading a pending tensor made XLA execute its `op_count` pending operators at once.

    `by` is what read it, as the user wrote it (``.item()``, ``print``). `compiled`: XLA had no executable for
    them. Sent only where someone watches reads.
    """

    by: str
    filename: str | None
    line: int | None
    spec: TensorSpec
    op_count: int
    compiled: bool
    started_ns: int
    ended_ns: int


@dataclasses.dataclass(frozen=True, slots=True)
class DonationRefused:
    """A donation that the user asked for was not made, and why."""

    graph_id: int | None
    name: str
    why: str
    time_ns: int


Report = (
    GraphTraced
    | GraphWarming
    | GraphWarmed
    | GraphEvicted
    | GraphDropped
    | Barrier
    | Donated
    | DonationRefused
    | Forced
)


class Veto(RuntimeError):
    """Raised by an observer at `GraphTraced` to forbid the compile; the call fails with it, unchanged."""


class Observer:
    """Receives the backend's reports. Subclass it and override `report`."""

    def report(self, report: Report) -> None:
        """Called with each report, on the thread where it happened. May raise `Veto` at `GraphTraced`."""

    def before_barrier(self) -> Callable[[], Sequence[Report]] | None:
        """Called before each step barrier, with the device's lock held and no trace under way.

        The one place where an observer may touch the device. What it returns is called when the barrier has
        returned, and its reports are sent after the barrier's own.
        """
        return None

    def watches_donations(self) -> bool:
        """Whether a run that donates should wait for the device before and after, so that addresses can be told."""
        return False


_lock = threading.Lock()
_observers: tuple[Observer, ...] = ()


def attach(observer: Observer) -> None:
    """Send the backend's reports to `observer` from now on. Attaching twice is the same as once."""
    global _observers
    with _lock:
        if observer not in _observers:
            _observers = (*_observers, observer)


def detach(observer: Observer) -> None:
    """Stop sending reports to `observer`."""
    global _observers
    with _lock:
        _observers = tuple(o for o in _observers if o is not observer)


def watching() -> bool:
    """Whether anyone wants reports; callers skip costly preparations otherwise."""
    return bool(_observers)


def watching_donations() -> bool:
    """Whether any observer wants the addresses of donated buffers, for which runs that donate must wait."""
    return any(observer.watches_donations() for observer in _observers)


def send(report: Report) -> None:
    """Give `report` to every observer."""
    for observer in _observers:
        try:
            observer.report(report)
        except Veto:
            raise
        except Exception as error:
            _give_up(observer, type(report).__name__, error)


def before_barrier() -> list[tuple[Observer, Callable[[], Sequence[Report]]]]:
    """Ask every observer whether it watches the step barrier that comes; for `after_barrier`."""
    watches = []
    for observer in _observers:
        try:
            watch = observer.before_barrier()
        except Exception as error:
            _give_up(observer, "a step barrier", error)
        else:
            if watch is not None:
                watches.append((observer, watch))
    return watches


def after_barrier(watches: Sequence[tuple[Observer, Callable[[], Sequence[Report]]]]) -> list[Report]:
    """What the observers saw of the step barrier that has returned."""
    found: list[Report] = []
    for observer, watch in watches:
        try:
            found += watch()
        except Exception as error:
            _give_up(observer, "a step barrier", error)
    return found


def _give_up(observer: Observer, what: str, error: Exception) -> None:
    detach(observer)
    warnings.warn(
        f"xla_notebook: {type(observer).__name__} failed on {what} and gets no more reports: {error!r}",
        RuntimeWarning,
        stacklevel=3,
    )


def now_ns() -> int:
    """Wall-clock time in nanoseconds since the epoch: reports of all threads share it."""
    return time.time_ns()


_ids = iter(range(1, 2**62))


def next_graph_id() -> int:
    """A new process-wide graph id. Iterators over `range` are atomic under the interpreter lock."""
    return next(_ids)
