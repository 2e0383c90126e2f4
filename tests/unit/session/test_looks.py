"""Later looks tell what a first look would tell, whatever changed between them."""

from __future__ import annotations

import collections
import gc
import os
import random
import subprocess
import sys
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch_xla

from xla_notebook.backend import runtime
from xla_notebook.session import Session
from xla_notebook.session.buffers import BufferRecord, Ledger

Namespace = dict[str, Any]


def on_device(*shape: int) -> torch.Tensor:
    (tensor,) = runtime.uploaded([torch.rand(*shape)], torch_xla.device())
    return tensor


@pytest.fixture
def session() -> Session:
    return Session(live_graphs=list)


def told(ledger: Ledger) -> set[tuple[object, ...]]:
    """What a ledger says, but for the order of names and buffers."""
    return {(r.handle, r.shape, r.dtype, r.state, r.tensors, frozenset(r.owners)) for r in ledger.buffers}


def first_look(namespace: Namespace) -> Ledger:
    return Session(live_graphs=list).buffers(namespace)


def by_name(ledger: Ledger) -> dict[str, BufferRecord]:
    return {name: record for record in ledger.buffers for name in record.names}


class Net(torch.nn.Module):
    def __init__(self) -> None:
        self.width = 3  # an attribute ahead of torch's own
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Sequential(torch.nn.Linear(3, 3)))
        self.register_buffer("table", on_device(3))
        self.extra: Any = [on_device(2)]


class Slotted:
    __slots__ = ("a", "b")


def objects() -> Namespace:
    """A namespace with a container of every kind, some shared."""
    net = Net().to(torch_xla.device())
    for parameter in net.parameters():
        parameter.grad = on_device(*parameter.shape)
    adam = torch.optim.Adam(net.parameters())
    for parameter in net.parameters():
        adam.state[parameter] = {"step": torch.tensor(1.0), "average": on_device(*parameter.shape)}
    slotted = Slotted()
    slotted.a = on_device(1)
    return {
        "adam": adam,
        "net": net,
        "trainer": types.SimpleNamespace(net=net, optimizer=adam, last=on_device(2), count=1),
        "x": on_device(3),
        "items": [on_device(1), (on_device(2), {"deep": on_device(3)})],
        "table": {"k0": on_device(2), 5: on_device(2), "nested": {"k": [on_device(1)]}},
        "queue": collections.deque([on_device(1), on_device(2)]),
        "group": {on_device(1)},
        "keyed": {next(net.parameters()): on_device(2)},
        "slotted": slotted,
        "number": 7,
    }


def rename_key(n: Namespace) -> None:
    value = n["table"].pop(key := next(iter(n["table"])))
    del key
    n["table"][f"k{random.random()}"] = value


def replace_by_one_at_its_address(n: Namespace) -> None:
    del n["table"]["nested"]["k"][0]
    n["table"]["nested"]["k"].append(on_device(4))


def replace_by_a_host_tensor(n: Namespace) -> None:
    n["trainer"].last = None
    n["trainer"].last = torch.ones(2)


def replace_host_tensor(n: Namespace) -> None:
    state = next(iter(n["adam"].state.values()))
    state["step"] = None
    state["step"] = on_device(1)


def move_to_the_next_container(n: Namespace) -> None:
    first, second = n.setdefault("pair", ([on_device(1), on_device(2)], [on_device(3)]))
    second.insert(0, first.pop())
    first.insert(0, second.pop())


def rename_attribute(n: Namespace) -> None:
    thing = n["trainer"]
    name = "last" if hasattr(thing, "last") else "newest"
    value = getattr(thing, name)
    delattr(thing, name)
    setattr(thing, "newest" if name == "last" else "last", value)


def other_slot(n: Namespace) -> None:
    slotted = n["slotted"]
    name, other = ("a", "b") if hasattr(slotted, "a") else ("b", "a")
    setattr(slotted, other, getattr(slotted, name))
    delattr(slotted, name)


def redefine_class(n: Namespace) -> None:
    n["made"] = type("Made", (), {})()
    n["made"].tensor = on_device(1)


def swap_layers(n: Namespace) -> None:
    layers = n["net"].layers
    layers[0], layers[1] = layers[1], layers[0]


def remove_a_buffer(n: Namespace) -> None:
    if hasattr(n["net"], "table"):
        del n["net"].table
    else:
        n["net"].register_buffer("table", on_device(3))


CHANGES: list[Callable[[Namespace], Any]] = [
    lambda n: n["items"].append(on_device(2)),
    lambda n: n["items"].pop(),
    lambda n: n["items"].reverse(),
    lambda n: n["items"].__setitem__(0, 3.5),
    lambda n: n["items"].__setitem__(0, on_device(1)),
    lambda n: n.__setitem__("number", on_device(1)),
    lambda n: n.__setitem__("number", 8),
    lambda n: n.__setitem__("x", n["net"].layers[0].weight),
    lambda n: n.__setitem__("x", on_device(3)),
    lambda n: n.__setitem__("batch", (on_device(2), on_device(2))),
    lambda n: n.pop("trainer") and n.__setitem__("trainer", types.SimpleNamespace(net=n["net"], last=on_device(1))),
    lambda n: n.__setitem__("layer", n["net"].layers),
    lambda n: n.pop("layer", None),
    lambda n: n.__setitem__("model", n.pop("net")) or n.__setitem__("net", n.pop("model")),
    lambda n: n.__setitem__("alias", n["table"]),
    lambda n: n.pop("alias", None),
    lambda n: n["table"].__setitem__("shared", n["items"]),
    lambda n: n["queue"].rotate(),
    lambda n: n["group"].add(on_device(1)),
    lambda n: n["keyed"].__setitem__(n["x"], on_device(1)),
    lambda n: n["keyed"].pop(next(reversed(n["keyed"])), None) if len(n["keyed"]) > 1 else None,
    lambda n: [setattr(p, "grad", None) for p in n["net"].parameters()],
    lambda n: [setattr(p, "grad", on_device(*p.shape)) for p in n["net"].parameters()],
    lambda n: n.__setitem__("gradient", next(n["net"].parameters()).grad),
    lambda n: setattr(n["net"].layers[0], "weight", torch.nn.Parameter(on_device(3, 3))),
    lambda n: setattr(next(n["net"].parameters()), "data", on_device(4, 2)),
    lambda n: setattr(n["net"], "extra", on_device(2)),
    lambda n: setattr(n["net"], "extra", "none"),
    lambda n: setattr(n["net"], "_private", on_device(1)),
    lambda n: n["adam"].state.clear(),
    lambda n: n["adam"].add_param_group({"params": [torch.nn.Parameter(on_device(2))]}),
    lambda n: n.__setitem__("lazy", n["x"] + 1),
    lambda n: torch_xla.sync(wait=True),
    lambda n: n.__setitem__("itself", [n]) or n["items"].append(n["items"]),
    rename_key,
    replace_by_one_at_its_address,
    replace_by_a_host_tensor,
    replace_host_tensor,
    move_to_the_next_container,
    rename_attribute,
    other_slot,
    redefine_class,
    swap_layers,
    remove_a_buffer,
]


def reached(namespace: Namespace, name: str) -> object:
    """What `name` says, where it is an expression."""
    return None if "{...}" in name or "<" in name else eval(name, {}, namespace)


@pytest.mark.parametrize("seed", range(12))
def test_looks_after_changes_tell_what_a_first_look_tells(session: Session, seed: int) -> None:
    """Given a namespace that changes at random, each look finds the same buffers as a first one, by true names."""
    choices = random.Random(seed)
    namespace = objects()
    for _ in range(25):
        for change in choices.choices(CHANGES, k=choices.choice([0, 1, 1, 2])):
            try:
                change(namespace)
            except (AttributeError, IndexError, KeyError, StopIteration, TypeError, RuntimeError, ValueError):
                continue  # an earlier change took what this one works on
        later, fresh = session.buffers(namespace), first_look(namespace)
        assert {key[:5] for key in told(later)} == {key[:5] for key in told(fresh)}
        for record in later.buffers:
            for name in record.names:
                tensor = reached(namespace, name)
                if isinstance(tensor, torch.Tensor) and record.handle is not None:
                    assert runtime.handle(tensor) == record.handle, name


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_one_change_is_told_as_at_a_first_look(session: Session, number: int) -> None:
    namespace = objects()
    session.buffers(namespace)
    session.buffers(namespace)
    CHANGES[number](namespace)
    seen = told(session.buffers(namespace))
    assert seen == told(first_look(namespace))
    assert told(session.buffers(namespace)) == seen


def test_looks_between_training_steps_tell_what_a_first_look_tells(session: Session) -> None:
    """Given steps that update in place and make new gradients, each look tells the buffers of now, dead ones too."""
    namespace = objects()
    net, adam = namespace["net"], namespace["adam"]
    adam.state.clear()
    first = next(net.parameters())
    namespace["old"] = [runtime.wrapper(first)]
    states = collections.Counter[str]()
    for _ in range(4):
        before = by_name(session.buffers(namespace))
        adam.zero_grad()
        sum(parameter.square().sum() for parameter in net.parameters()).backward()
        adam.step()
        torch_xla.sync(wait=True)
        after = by_name(session.buffers(namespace))
        assert told(session.buffers(namespace)) == told(first_look(namespace))
        weight = "net.layers[0].weight"
        assert after[weight].handle == runtime.handle(first) != before[weight].handle
        assert after["x"] is before["x"]
        states.update(record.state for record in after.values())
    assert set(states) == {"live", "deleted"}


def test_what_did_not_change_is_not_told_anew(session: Session) -> None:
    namespace = objects()
    first = session.buffers(namespace)
    assert session.buffers(namespace) is first
    namespace["count"] = 3
    assert session.buffers(namespace) is first
    namespace["items"].append(on_device(2))
    second = session.buffers(namespace)
    before = by_name(first)
    assert all(record is before[name] for name, record in by_name(second).items() if name in before)
    assert len(second.buffers) == len(first.buffers) + 1


def test_tensor_at_the_address_of_another_is_told(session: Session) -> None:
    """Given tensors that come to lie at the address of one that is gone, each is told with its own shape."""
    held: Namespace = {"x": [on_device(1)]}
    numbers = set()
    for size in range(2, 30):
        session.buffers(held)
        held["x"].clear()
        held["x"].append(torch.ones(size) if size % 3 == 0 else on_device(size))
        numbers.add(id(held["x"][0]))
        shapes = [record.shape for record in session.buffers(held).buffers]
        assert shapes == ([] if size % 3 == 0 else [(size,)])
    assert len(numbers) < 28, "no address was used again, so nothing was tested"


def test_looks_keep_nothing_alive(session: Session) -> None:
    """Given a namespace that was looked at more than once, everything in it goes when its names go."""
    namespace = objects()
    for _ in range(3):
        session.buffers(namespace)
    watched = [namespace["net"], namespace["adam"], namespace["x"], namespace["items"][0]]
    gone = [weakref.ref(thing) for thing in watched]

    class Mine:
        kept = namespace["x"]

    namespace["mine"] = Mine()
    session.buffers(namespace)
    gone.append(weakref.ref(Mine))
    namespace.clear()
    del watched, Mine
    gc.collect()
    assert [ref() for ref in gone] == [None] * len(gone)


@pytest.mark.parametrize("count", [2, 700])
def test_handles_of_results_in_flight_are_not_told(
    session: Session, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Given results whose handles are those of placeholders, they are pending until their buffers have come."""
    real, sent = runtime.handles, False

    def handles(tensors: Sequence[torch.Tensor]) -> list[int]:
        return real(tensors) if sent else [-handle for handle in real(tensors)]

    monkeypatch.setattr(runtime, "handles", handles)
    monkeypatch.setattr(runtime, "is_sent", lambda tensor: sent)
    namespace = {"results": runtime.uploaded([torch.rand(2)] * count, torch_xla.device())}
    ledger = session.buffers(namespace)
    assert {(record.state, record.handle) for record in ledger.buffers} == {("pending", None)}
    assert not ledger.sent
    sent = True
    ledger = session.buffers(namespace)
    assert {record.handle for record in ledger.buffers} == set(real(namespace["results"]))
    assert ledger.sent


def test_what_is_sent_is_told_from_what_has_no_buffer_yet() -> None:
    """Given many runs, one that was sent is said to be so, and no tensor has another handle after that."""
    x = on_device(2, 3)
    lazy = [x + float(number) for number in range(500)]
    runtime.warm_up(lazy)
    graph, inputs = runtime.graph_hash(lazy), runtime.graph_inputs(lazy)[1]
    for _ in range(5):
        last = runtime.run_cached_graph(graph, inputs)[-1]
        seen = runtime.handle(last) if runtime.is_sent(last) else None
        runtime.wait_until_sent(last.device)
        assert runtime.is_sent(last)
        assert seen in (None, runtime.handle(last))


SHARDED = """
import torch, torch_xla, torch_xla.runtime
torch_xla.runtime.use_spmd()
from xla_notebook.backend import runtime
from xla_notebook.session import Session
x = torch.ones(300, 300).to(torch_xla.device())
y = x @ x @ x @ x
runtime.warm_up([y])
graph, inputs = runtime.graph_hash([y]), runtime.graph_inputs([y])[1]
session = Session(live_graphs=list)
for _ in range(20):
    (result,) = runtime.run_cached_graph(graph, inputs)
    (record,) = session.buffers({"result": result}).buffers
    runtime.wait_for_device()
    assert record.handle == runtime.handle(result) or record.state == "pending"
    (record,) = session.buffers({"result": result}).buffers
    assert (record.handle, record.state) == (runtime.handle(result), "live")
print("done")
"""


def test_sharded_results_in_flight_do_not_crash_a_look() -> None:
    environment = {**os.environ, "PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "2"}
    process = subprocess.run(
        [sys.executable, "-c", SHARDED], env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout == "done\n"
