"""What the session reads of torch and the backend, without ever being the one that loads them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from xla_notebook.session.buffers import Ledger
from xla_notebook.session.records import LiveGraph

if TYPE_CHECKING:
    from xla_notebook.backend.guards import GuardReader
    from xla_notebook.backend.observer import Report
    from xla_notebook.session.aliasing import DonationWatch
    from xla_notebook.session.ledger import Looker


class DynamoGuards:
    """Dynamo's words on why it compiles again. Where Dynamo was never loaded, it is not loaded for this."""

    def __init__(self) -> None:
        self._reader: GuardReader | None = None

    def __call__(self, function: str, filename: str | None) -> tuple[str, ...]:
        """The guards of `function` that failed since the last call."""
        if self._reader is None:
            if "torch._dynamo" not in sys.modules:
                return ()
            from xla_notebook.backend.guards import GuardReader

            self._reader = GuardReader()
        return self._reader.read(function, filename)


def backend_graphs() -> Iterable[LiveGraph]:
    """The backend's cached graphs. A backend that was never used has none, and is not imported to say so."""
    # In the middle of its import, on another thread, the module is there and has nothing yet.
    graphs = getattr(sys.modules.get("xla_notebook.backend.cache"), "graphs", None)
    if graphs is None:
        return ()
    found: Iterable[LiveGraph] = graphs()
    return found


def clear_graphs() -> tuple[int, int]:
    """Drop the backend's cached graphs with their saved buffers: how many, and how many bytes they held."""
    cache = sys.modules.get("xla_notebook.backend.cache")
    if cache is None:
        return 0, 0
    dropped: tuple[int, int] = cache.clear()
    return dropped


class BarrierWatch:
    """Sees the donations of step barriers. Used only by someone who has torch_xla loaded."""

    def __init__(self) -> None:
        self._watch: DonationWatch | None = None

    def __call__(self, namespace: Mapping[str, object], graphs: Iterable[LiveGraph]) -> Callable[[], Sequence[Report]]:
        """See `DonationWatch.before`."""
        if self._watch is None:
            from xla_notebook.session.aliasing import DonationWatch

            self._watch = DonationWatch()
        return self._watch.before(namespace, graphs)


def host_op_counts() -> tuple[dict[str, int], dict[str, int]]:
    """How often each operator was run on the host, also by traces that tried it, and how often by those.

    None where torch_xla was never loaded.
    """
    if "torch_xla" not in sys.modules:
        return {}, {}
    _choose_device_first()
    from xla_notebook.backend import runtime

    # Without a compile nothing was traced, and the module is not loaded to say so.
    tried = getattr(sys.modules.get("xla_notebook.backend.tracing"), "host_ops_tried", {})
    return runtime.host_op_counts(), dict(tried)


def _choose_device_first() -> None:
    """torch_xla reads the choice when it is loaded. Looking for accelerators takes milliseconds."""
    if "torch_xla" not in sys.modules:
        from xla_notebook.backend.device import choose_device

        choose_device()


def see_barriers(load: bool = False) -> None:
    """Have step barriers reported from now on, also where nothing was compiled yet.

    Where torch_xla was never loaded there are none, and only with `load` it is loaded.
    """
    if not load and "torch_xla" not in sys.modules:
        return
    _choose_device_first()
    from xla_notebook.backend import barriers

    barriers.install()


def leave_barriers() -> None:
    """Have step barriers no longer reported, if nobody else watches: torch_xla's functions are its own again, unless
    graphs count on hearing of step barriers."""
    if "torch_xla" not in sys.modules:
        return
    from xla_notebook.backend import barriers, observer

    if not observer.watching():
        barriers.uninstall()


class ReadWatch:
    """Switches the watching of reads on and off. Only switching it on loads torch_xla."""

    def __init__(self) -> None:
        self._on = False

    def __call__(self, on: bool) -> None:
        """Watch (or no longer watch) which reads of pending tensors force XLA to execute."""
        if on == self._on:
            return
        _choose_device_first()
        from xla_notebook.session import reads

        switch = reads.watch if on else reads.unwatch
        switch(self)
        self._on = on


class BufferLooks:
    """Looks at the device's buffers. Where torch_xla was never loaded there are none."""

    def __init__(self) -> None:
        self._looker: Looker | None = None

    def __call__(
        self,
        graphs: Iterable[tuple[str, LiveGraph]],
        namespace: Mapping[str, object],
        error: BaseException | None,
        donated_since: Callable[[], frozenset[int]],
    ) -> Ledger:
        """The buffers that `graphs` (with their names), `namespace` and the frames of `error` keep."""
        if "torch_xla" not in sys.modules:
            return Ledger((), True)
        from xla_notebook.session.ledger import Looker
        from xla_notebook.session.walk import notebook_roots, traceback_roots

        if self._looker is None:
            self._looker = Looker()
        roots = [*notebook_roots(namespace), *traceback_roots(error)]
        return self._looker.look(graphs, roots, donated_since)
