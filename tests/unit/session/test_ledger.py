"""The ledger names every buffer truly, and looking at it changes nothing."""

from __future__ import annotations

import collections
import dataclasses
import gc
import os
import sys
import threading
import types
import weakref
from typing import Any

import pytest

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
import torch_xla.debug.metrics as met

from xla_notebook.backend import runtime
from xla_notebook.session import Session
from xla_notebook.session.buffers import BufferRecord, Ledger, Owner
from xla_notebook.session.walk import Walk

from .reports import FakeGraph, donated, traced


def on_device(*shape: int) -> torch.Tensor:
    """A materialized tensor in a buffer of its own."""
    (tensor,) = runtime.uploaded([torch.rand(*shape)], torch_xla.device())
    return tensor


@pytest.fixture
def live() -> list[FakeGraph]:
    return []


@pytest.fixture
def session(live: list[FakeGraph]) -> Session:
    return Session(live_graphs=lambda: live)


def by_name(ledger: Ledger) -> dict[str, BufferRecord]:
    return {name: record for record in ledger.buffers for name in record.names}


def test_variable_is_named_and_described(session: Session) -> None:
    x = on_device(3, 5)
    (record,) = session.buffers({"x": x, "n": 3, "t": torch.ones(2)}).buffers
    assert record == BufferRecord(runtime.handles([x])[0], (3, 5), "float32", 60, "live", (Owner("variable", "x"),), 1)


def test_modules_and_gradients_are_named_as_the_user_writes_them(session: Session) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
            self.extras = [on_device(4)]

        def forward(self, x: torch.Tensor) -> Any:
            return self.layers(x)

    model = Net().to(torch_xla.device())
    model(on_device(5, 2)).sum().backward()
    torch_xla.sync()
    records = by_name(session.buffers({"model": model}))
    assert {
        "model.layers[0].weight",
        "model.layers[0].bias",
        "model.layers[0].weight.grad",
        "model.layers[1].running_mean",
        "model.layers[1].num_batches_tracked",
        "model.extras[0]",
    } <= records.keys()
    assert records["model.layers[0].weight"].owners[0].kind == "module"
    assert records["model.layers[0].weight.grad"].owners[0].kind == "gradient"
    assert records["model.layers[0].weight"].shape == (3, 2)


def test_optimizer_state_is_named_by_its_parameter(session: Session) -> None:
    model = torch.nn.Linear(2, 3).to(torch_xla.device())
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(on_device(5, 2)).sum().backward()
    opt.step()
    torch_xla.sync()
    records = by_name(session.buffers({"opt": opt, "model": model}))
    momentum = records["opt.state[model.weight]['momentum_buffer']"]
    assert momentum.owners[0].kind == "optimizer"
    assert records["model.weight"] is records["opt.param_groups[0]['params'][0]"]


@dataclasses.dataclass(slots=True)
class Slotted:
    tensor: torch.Tensor
    unset: int = dataclasses.field(init=False)


def test_containers_of_all_kinds_are_searched(session: Session) -> None:
    Pair = collections.namedtuple("Pair", "a b")
    namespace: dict[str, object] = {
        "items": [on_device(1), {"deep": (on_device(1),)}],
        "pair": Pair(on_device(1), 2),
        "group": {on_device(1)},
        "queue": collections.deque([on_device(1)]),
        "plain": types.SimpleNamespace(state=on_device(1)),
        "slotted": Slotted(on_device(1)),
        "counted": collections.OrderedDict({7: on_device(1)}),
    }
    assert set(by_name(session.buffers(namespace))) == {
        "items[0]",
        "items[1]['deep'][0]",
        "pair[0]",
        "group{...}",
        "queue[0]",
        "plain.state",
        "slotted.tensor",
        "counted[7]",
    }


def test_tensors_on_one_buffer_are_one_record_with_all_names(session: Session) -> None:
    x = on_device(4)
    (record,) = session.buffers({"x": x, "y": x.detach(), "both": [x]}).buffers
    assert set(record.names) == {"x", "y", "both[0]"}
    assert record.tensors == 2


def test_saved_buffers_come_first_with_the_graphs_name(session: Session, live: list[FakeGraph]) -> None:
    mask = on_device(4)
    session.report(traced(7))
    live.append(FakeGraph(7, saved=(mask,)))
    first, second = session.buffers({"x": on_device(1), "mask": mask}).buffers
    assert first.owners == (Owner("saved", "step: constant 0", 7), Owner("variable", "mask"))
    assert first.graph_ids == (7,)
    assert second.names == ("x",)


def test_results_in_out_and_frames_of_the_last_error_are_owners(session: Session) -> None:
    def fails(argument: torch.Tensor) -> None:
        raise ValueError(argument.shape)

    kept = on_device(2)
    try:
        fails(on_device(3))
    except ValueError as caught:
        error = caught
    records = session.buffers({"Out": {4: kept}, "_4": kept, "_": kept, "_oh": {4: kept}}, error).buffers
    owners = {owner.name: owner.kind for record in records for owner in record.owners}
    assert owners["Out[4]"] == owners["_"] == "output"
    assert "_4" not in owners
    (name,) = (name for name in owners if name.endswith(": argument"))
    assert name.startswith("traceback: fails, line ")
    assert owners[name] == "traceback"


def test_pending_tensor_stays_pending(session: Session) -> None:
    x = on_device(4)
    y = x + 1
    records = by_name(session.buffers({"x": x, "y": y}))
    assert (records["y"].state, records["y"].handle) == ("pending", None)
    assert runtime.pending([x, y]) == [False, True]


def make_dead() -> tuple[torch.Tensor, torch.Tensor, int]:
    """A tensor, another one that kept its old value and whose buffer was donated, and that buffer's handle."""
    x = on_device(4)
    old = runtime.wrapper(x)
    assert old is not None
    handle = runtime.handles([x])[0]
    return x, old, handle


def donate(x: torch.Tensor) -> None:
    x.add_(1)
    torch_xla.sync(wait=True)


def test_dead_buffers_are_told_from_live_ones_one_by_one(session: Session) -> None:
    pairs = [make_dead() for _ in range(3)]
    donate(pairs[1][0])
    namespace = {f"{kind}{i}": pair[k] for i, pair in enumerate(pairs) for k, kind in enumerate(("x", "old"))}
    states = {name: record.state for name, record in by_name(session.buffers(namespace)).items()}
    assert states == {"x0": "live", "old0": "live", "x1": "live", "old1": "deleted", "x2": "live", "old2": "live"}


def test_dead_buffer_with_a_donation_on_record_is_donated(session: Session) -> None:
    x, old, handle = make_dead()
    session.buffers({"old": old})
    donate(x)
    session.report(donated(handle=handle))
    assert by_name(session.buffers({"old": old}))["old"].state == "donated"
    assert by_name(session.buffers({"old": old}))["old"].state == "donated"
    assert by_name(session.buffers({"other": old}))["other"].state == "donated"


def test_donation_before_the_last_look_is_not_taken_for_this_one(session: Session) -> None:
    """A handle is used again: an old donation of the same number says nothing of the buffer that has it now."""
    x, old, handle = make_dead()
    session.report(donated(handle=handle))
    session.buffers({"old": old})
    donate(x)
    assert by_name(session.buffers({"old": old}))["old"].state == "deleted"


def test_dead_saved_buffer_is_stale(session: Session, live: list[FakeGraph]) -> None:
    x, old, _ = make_dead()
    live.append(FakeGraph(7, saved=(old,)))
    donate(x)
    assert by_name(session.buffers({}))["graph 7: constant 0"].state == "stale"


def test_looking_changes_nothing(session: Session) -> None:
    """Given a module with pending work, when looked at, then handles, pending work and metrics are as before."""
    model = torch.nn.Linear(4, 4).to(torch_xla.device())
    torch_xla.sync(wait=True)
    out = model(on_device(2, 4))
    tensors = [*model.parameters(), out]
    gc.collect()  # what earlier tests left would else be counted when it goes, perhaps during the look
    metrics = (met.metric_names(), {name: met.counter_value(name) for name in met.counter_names()})
    executions = met.metric_data("ExecuteTime")
    versions = [tensor._version for tensor in tensors]
    handles = runtime.handles(tensors[:-1])
    session.buffers({"model": model, "out": out})
    assert runtime.handles(tensors[:-1]) == handles
    assert runtime.pending(tensors) == [False, False, True]
    assert [tensor._version for tensor in tensors] == versions
    assert met.metric_data("ExecuteTime") == executions
    assert (met.metric_names(), {name: met.counter_value(name) for name in met.counter_names()}) == metrics


def test_ledger_keeps_no_tensor_alive(session: Session) -> None:
    x = on_device(4)
    gone = weakref.ref(x)
    ledger = session.buffers({"x": [x]})
    del x
    gc.collect()
    assert gone() is None
    assert len(ledger.buffers) == 1
    assert session.buffers({}).buffers == ()


class Touchy:
    """An object every touch of which is noticed."""

    touched: list[str] = []  # noqa: RUF012  # shared on purpose

    def __init__(self, tensor: torch.Tensor) -> None:
        object.__setattr__(self, "kept", tensor)

    def _note(self, *args: Any) -> Any:
        self.touched.append("touched")
        raise AssertionError("the walk called the user's code")

    __getattribute__ = __repr__ = __str__ = __eq__ = __hash__ = __len__ = __iter__ = __bool__ = _note  # type: ignore[assignment]

    @property
    def costly(self) -> Any:
        return self._note()


class TouchyDict(dict):  # type: ignore[type-arg]
    items = keys = values = __iter__ = __getitem__ = __len__ = Touchy._note  # type: ignore[assignment]


class TouchyTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Touchy.touched.append("touched")
        return super().__torch_function__(func, types, args, kwargs or {})


def test_no_code_of_the_users_is_called(session: Session) -> None:
    x, y, z = on_device(1), on_device(2), on_device(3).as_subclass(TouchyTensor)
    touchy, mapping = Touchy(x), TouchyDict({"y": y})
    Touchy.touched.clear()
    records = by_name(session.buffers({"touchy": touchy, "mapping": mapping, "z": z}))
    assert Touchy.touched == []
    assert set(records) == {"touchy.kept", "mapping['y']", "z"}


def test_cycles_end_and_depth_does_not_matter(session: Session) -> None:
    x = on_device(1)
    cycle: list[object] = [x]
    cycle.append(cycle)
    deep: object = x
    for _ in range(5 * sys.getrecursionlimit()):
        deep = [deep]
    (record,) = session.buffers({"cycle": cycle, "deep": deep}).buffers
    assert record.names[0] == "cycle[0]"


def test_walk_stops_at_its_limit_and_says_so() -> None:
    items = [[1], [2], [3], [4]]
    assert not Walk(limit=3).look([(items, "x", "variable")]).complete
    assert Walk(limit=9).look([(items, "x", "variable")]).complete


def test_container_that_another_thread_changes_is_passed_over() -> None:
    """Given a dictionary that a thread goes on filling, the rest of the namespace is told at each look."""
    kept, growing, walk = on_device(2), {"never": on_device(1)}, Walk()
    stopped = threading.Event()

    def fill() -> None:
        number = 0
        while not stopped.is_set():
            number = (number + 1) % 1000
            growing[f"k{number}"] = growing["never"]
            growing.pop(f"k{number}")

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        for _ in range(300):
            reached = walk.look([([growing, [kept]], "x", "variable")])
            assert any(tensor is kept for tensor in reached.tensors)
    finally:
        stopped.set()
        thread.join()


def test_without_any_look_nothing_is_loaded() -> None:
    """Given no torch_xla in the process, there are no buffers, and torch is not loaded to say so."""
    import subprocess

    script = (
        "import sys; from xla_notebook import session;"
        "assert session.current().buffers({'x': 1}).buffers == ();"
        "assert session.current().graphs() == [];"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_second_look_tells_what_changed_between(session: Session) -> None:
    """Records of a look are used again by the next one, but only where nothing changed."""
    kept, moved, named = on_device(3), on_device(3), on_device(3)
    namespace: dict[str, object] = {"kept": kept, "moved": moved, "named": named}
    first = by_name(session.buffers(namespace))
    moved.data = on_device(5)
    namespace["twin"] = named.detach()
    second = by_name(session.buffers(namespace))
    assert second["kept"] is first["kept"]
    assert (second["moved"].shape, second["moved"].handle) == ((5,), runtime.handle(moved))
    assert (second["named"].names, second["named"].tensors) == (("named", "twin"), 2)
    del namespace["twin"]
    assert by_name(session.buffers(namespace))["named"] == first["named"]


def test_own_objects_give_a_tensor_no_further_name(session: Session) -> None:
    x = on_device(3)
    namespace: dict[str, Any] = {"x": x, "session": session}
    session.namespace = namespace
    (record,) = session.buffers(namespace).buffers
    assert record.names == ("x",)
