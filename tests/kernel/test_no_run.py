"""``%%xla_compile --no-run``: every graph is compiled, nothing else changes, and the cell then compiles nothing."""

from __future__ import annotations

import re

import pytest
from kernel_client import Kernel

pytestmark = pytest.mark.kernel

SETUP = """
import random, numpy as np, os
model = torch.nn.Sequential(
    torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 4)
).to(dev)
optimizer = torch.optim.Adam(model.parameters())
data = [(torch.randn(32, 8), torch.randint(0, 4, (32,))) for _ in range(3)]
loss_fn = torch.nn.CrossEntropyLoss()
x = torch.arange(6.0).reshape(2, 3).to(dev)
log = []
torch_xla.sync()


def state():
    '''Everything that a rehearsal must leave as it is.'''
    values = {k: describe(v.state_dict()) for k, v in globals().items() if hasattr(v, "state_dict")}
    tensors = {k: (id(v), v._version, describe(v)) for k, v in globals().items() if isinstance(v, torch.Tensor)}
    handles = [torch_xla._XLAC._get_tensors_handle([p])[0] for p in model.parameters()]
    gradients = [None if p.grad is None else describe(p.grad) for p in model.parameters()]
    seeds = (
        torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist(),
        torch_xla._XLAC._xla_get_rng_seed(""),
    )
    names = {k: id(v) for k, v in globals().items() if not k.startswith("_") and k not in ("In", "Out", "before", "at")}
    return values, tensors, handles, gradients, seeds, names, sorted(os.listdir(".")), describe(log), dict(os.environ)
"""

LOOP = """
for epoch in range(2):
    for xb, yb in data:
        xb, yb = xb.to(dev), yb.to(dev)
        optimizer.zero_grad()
        loss = loss_fn(model(xb), yb)
        loss.backward()
        optimizer.step()
"""


@pytest.fixture(scope="module")
def kernel(own_kernel: Kernel) -> Kernel:
    # Each rehearsed optimizer counts against Dynamo's limit of recompiles, which other modules need.
    return own_kernel


@pytest.fixture(autouse=True)
def _setup(kernel: Kernel) -> None:
    kernel.check("forget_names()")
    kernel.check(SETUP)


def rehearse(kernel: Kernel, body: str, options: str = "") -> str:
    """Rehearse a cell, see that nothing changed and nothing ran, and return what it printed."""
    kernel.check("before = state()\nat = counts()")
    shown = kernel.check(f"%%xla_compile --no-run{options}\n{body}")
    ran = kernel.value("counts()[0] - at[0]")
    assert ran == 0
    assert kernel.value("[a == b for a, b in zip(before, state())]") == [True] * 9
    assert shown.stderr == ""
    # The live line of a compile that takes long ends as the summary.
    texts = [o["text"] if "text" in o else o["data"]["text/plain"] + "\n" for o in shown.outputs]
    return "".join(text for text in texts if not text.startswith("compiling graph"))


def run(kernel: Kernel, body: str) -> int:
    """Run the same cell; returns how many graphs were compiled."""
    kernel.check("at = counts()")
    kernel.check(f"%%xla_compile\n{body}")
    compiled: int = kernel.value("counts()[1] - at[1]")
    return compiled


def test_a_training_cell_compiles_nothing_afterwards(kernel: Kernel) -> None:
    said = rehearse(kernel, LOOP)
    assert said.startswith("3 graphs compiled in")
    assert said.endswith("s without running\n")
    assert run(kernel, LOOP) == 0
    assert run(kernel, LOOP) == 0
    assert kernel.value("pending()") == []


def test_the_cell_runs_while_compiles_are_frozen(kernel: Kernel) -> None:
    rehearse(kernel, LOOP)
    kernel.check("%xla_warmup --freeze")
    assert run(kernel, LOOP) == 0
    kernel.check("data = [(a[:16], b[:16]) for a, b in data]\nat = counts()[1]")
    shown = kernel.run(f"%%xla_compile\n{LOOP}")
    kernel.check("%xla_warmup --freeze off")
    assert shown.error is not None
    assert shown.error[0] == "FrozenError"
    # How PyTorch and the backend came there is of no use to the reader.
    assert len(shown.arrows) == 1
    assert re.search(r"cell \d+ line 7 needs one: `xb` is 16x8, was 32x8", shown.error[1])
    assert kernel.value("counts()[1] - at") == 0


def test_the_graphs_are_listed_as_warm_and_not_run(kernel: Kernel) -> None:
    kernel.check("from xla_notebook import session\nknown = len(session().graphs())")
    rehearse(kernel, "y = (x @ x.T).cosh()")
    graphs = "[(g.state, g.runs, g.compiled) for g in session().graphs()[known:]]"
    assert kernel.value(graphs) == [("warm", 0, True)]


def test_rehearsing_twice_compiles_once(kernel: Kernel) -> None:
    body = "y = (x * 2).sinh().sum()"
    assert rehearse(kernel, body).startswith("1 graph compiled in")
    assert rehearse(kernel, body) == "0 graphs compiled without running\n"
    assert run(kernel, body) == 0
    assert rehearse(kernel, body) == "0 graphs compiled without running\n"


def test_a_branch_on_a_value_is_not_reached(kernel: Kernel) -> None:
    said = rehearse(kernel, "y = x.sum() * 3\nif y < 1:\n    y = y.tanh()\nz = x.cos()\nw = y + 1")
    assert "not reached: line 3 (`if y < 1:` depends on a value); line 6 (`w = y + 1` needs y of line 3)" in said


def test_prints_are_silent_and_what_they_show_is_compiled(kernel: Kernel) -> None:
    body = "y = (x * 5).sum()\nprint(y)\nprint(f'{y.item():.2f}', (x * 7).mean())\ny"
    assert rehearse(kernel, body).endswith("without running\n")
    assert run(kernel, body) == 0


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            "with open('made.txt', 'w') as f:\n    f.write('a')",
            "`with open('made.txt', 'w') as f:` does more than compute (open)",
        ),
        ("torch.save(model.state_dict(), 'made.pt')", "uses torch.save"),
        ("os.system('touch made')", "uses os.system"),
        ("!touch made", "is a magic or a command"),
        ("%time 1", "is a magic or a command"),
        ("import this", "imports this for the first time"),
        ("n = int(x.sum())", "depends on a value"),
        ("a = x.cpu().numpy()", "depends on a value"),
        ("1 / 0", "raises ZeroDivisionError: division by zero"),
    ],
)
def test_what_does_more_than_compute_is_not_reached(kernel: Kernel, body: str, told: str) -> None:
    said = rehearse(kernel, f"y = x.sin() + 1\n{body}")
    assert "not reached: line 3" in said
    assert told in said


def test_the_users_lists_counters_and_random_numbers_are_left_alone(kernel: Kernel) -> None:
    kernel.check("class Meter:\n    n = 0\n    def add(self):\n        self.n += 1\nmeter = Meter()")
    body = (
        "for i in range(5):\n    y = (x + i).sum()\n    log.append(y)\n    meter.add()\n"
        "r = random.random() + np.random.rand() + torch.rand(1).item()\n"
        "d = torch.randn(3, device=dev)\nmodel.train(False)"
    )
    rehearse(kernel, body)
    assert kernel.value("meter.n, model.training, log") == (0, True, [])


CLASSES = """
import abc, enum
class Mode(enum.Enum):
    ON = 1
class Base(abc.ABC):
    total = torch.ones(3).to(dev)
    seen = []
    calls = 0
    @abc.abstractmethod
    def go(self, x): ...
class Own(Base):
    def go(self, x):
        Base.total.add_(1)
        Base.calls += 1
        type(self).last = x
        self.seen.append(1)
        return x * Base.calls + Base.total if Mode.ON is Mode(1) else x
    @classmethod
    def forget(cls):
        cls.total = cls.total * 0
        return cls.total
own = Own()
def held():
    return Base.total.tolist(), Base.seen, Base.calls, hasattr(Own, "last"), "total" in vars(Own)
"""


@pytest.mark.parametrize(
    "body",
    ["y = own.go(x)", "y = Own().go(x) + Own.forget().sum()", "Base.total = Base.total * 2\nOwn.last = x + 1"],
    ids=["an object", "made by the cell", "the cell itself"],
)
def test_what_the_users_classes_hold_is_left_alone(kernel: Kernel, body: str) -> None:
    kernel.check(CLASSES)
    rehearse(kernel, body)
    assert kernel.value("held()") == ([1.0, 1.0, 1.0], [], 0, False, False)
    assert run(kernel, body) == 0


def test_a_cell_that_does_not_compile_runs_nothing(kernel: Kernel) -> None:
    for body in ("q = x * 3\nreturn q", "\n\nq = (x\n* 3)\nyield q", "q = x * 3\nq = ("):
        error = kernel.run(f"%%xla_compile --no-run\n{body}").error
        assert error is not None
        assert error[0] in ("SyntaxError", "_IncompleteInputError")
        assert kernel.value("'q' in globals()") is False


def test_sums_of_values_go_on(kernel: Kernel) -> None:
    body = (
        "total, seen = 0.0, 0\nfor xb, yb in data:\n    out = model(xb.to(dev))\n    loss = loss_fn(out, yb.to(dev))\n"
        "    total += loss.item()\n    seen += len(xb)\nprint(total / seen)"
    )
    assert rehearse(kernel, body).endswith("without running\n")
    assert run(kernel, body) == 0


def test_a_loader_and_functions_of_the_cell_and_of_an_earlier_one(kernel: Kernel) -> None:
    kernel.check("%%xla_compile\ndef half(t):\n    return t * 0.5")
    kernel.check(
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(0, 4, (64,))), 32, shuffle=True)"
    )
    body = (
        "def train(epochs):\n    for _ in range(epochs):\n        for xb, yb in loader:\n"
        "            optimizer.zero_grad()\n            loss = loss_fn(model(half(xb.to(dev))), yb.to(dev))\n"
        "            loss.backward()\n            optimizer.step()\n    return loss.item()\nlast = train(3)"
    )
    assert rehearse(kernel, body).endswith("without running\n")
    assert run(kernel, body) == 0


def test_a_progress_bar_is_not_drawn(kernel: Kernel) -> None:
    kernel.check("from tqdm import tqdm")
    body = "\nfor xb, yb in tqdm(data):\n    out = model(xb.to(dev)).sum()\nif out > 0:\n    out = -out"
    assert "line 5 (`if out > 0:` depends on a value)" in rehearse(kernel, body)
    assert run(kernel, body.partition("\nif")[0]) == 0


def test_a_list_that_a_loop_fills_is_not_taken_for_full(kernel: Kernel) -> None:
    body = "made = []\nfor xb, yb in data:\n    made.append(model(xb.to(dev)))\nall_of = torch.cat(made)"
    assert "needs all of made, which the loop of line 3 fills" in rehearse(kernel, body)


COMPILED = {
    "a module in place": "model.compile(backend='xla_notebook')",
    "a module in place by us": "xla_notebook.compile(model);",
    "a layer in place": "model[0].compile(backend='xla_notebook')",
    "a module": "model = torch.compile(model, backend='xla_notebook')",
    "a step": "optimizer.step = torch.compile(optimizer.step, backend='xla_notebook')",
    "a function with defaults": (
        "loss_fn = xla_notebook.compile(lambda a, b, f=loss_fn, s=torch.ones(()).to(dev): f(a, b) * s)"
    ),
}


@pytest.mark.parametrize("what", COMPILED)
def test_what_was_compiled_before_is_rehearsed(kernel: Kernel, what: str) -> None:
    kernel.check(f"import xla_notebook\n{COMPILED[what]}")
    assert rehearse(kernel, LOOP).endswith("without running\n")
    assert run(kernel, LOOP) == 0


def test_what_another_backend_compiled_is_not_reached(kernel: Kernel) -> None:
    kernel.check("model = torch.compile(model, backend='openxla')")
    assert "it is compiled by the backend openxla" in rehearse(kernel, "out = model(data[0][0].to(dev))")


def test_an_object_that_cannot_be_made_without_what_cannot_be_copied(kernel: Kernel) -> None:
    kernel.check(
        "import threading\nclass Holder:\n    def __init__(self, lock):\n"
        "        self.lock, self.n = lock, 1 + lock.locked()\n"
        "    def __reduce__(self):\n        return Holder, (self.lock,)\nholder = Holder(threading.Lock())"
    )
    said = rehearse(kernel, "y = x * holder.n\nz = x.sin()")
    assert "line 2 (`y = x * holder.n` a lock cannot be copied" in said


def test_another_thread_computes_meanwhile(kernel: Kernel) -> None:
    kernel.check(
        "import threading\ngot, over = [], threading.Event()\n"
        "def work(value, results, over):\n"
        "    while not over.is_set():\n        results.append((value * 2).sum().item())\n"
        "thread = threading.Thread(target=work, args=(x, got, over)); thread.start()"
    )
    kernel.check("%%xla_compile --no-run\ny = (x @ x.T).exp()")
    kernel.check("over.set()\nthread.join()")
    assert kernel.value("len(got) > 0, set(got)") == (True, {30.0})


def test_a_step_barrier_in_the_loop(kernel: Kernel) -> None:
    body = LOOP + "        torch_xla.sync()\n"
    assert rehearse(kernel, body).endswith("without running\n")
    assert run(kernel, body) == 0


def test_inference_without_gradients(kernel: Kernel) -> None:
    body = "model.eval()\nwith torch.no_grad():\n    out = model(data[0][0].to(dev)).softmax(-1)\nout.shape"
    assert rehearse(kernel, body).endswith("without running\n")
    assert run(kernel, body) == 0


def test_a_name_from_the_graph_of_an_earlier_cell(kernel: Kernel) -> None:
    kernel.check("%%xla_compile\nlost = loss_fn(model(data[0][0].to(dev)), data[0][1].to(dev))")
    said = rehearse(kernel, "lost.backward()")
    assert "the forward pass of an earlier cell" in said


def test_an_interrupt_leaves_everything_as_it_was(kernel: Kernel) -> None:
    kernel.check(
        "class Interrupted:\n    def __iter__(self):\n        yield 1\n        raise KeyboardInterrupt\n"
        "source = Interrupted()"
    )
    kernel.check("before = state()")
    shown = kernel.run("%%xla_compile --no-run\nfor i in source:\n    y = x.sin() + i\n    log.append(y)\nz = 1")
    assert shown.error is not None
    assert shown.error[0] == "KeyboardInterrupt"
    assert kernel.value("[a == b for a, b in zip(before, state())]") == [True] * 9
    assert run(kernel, "y = x.tan()") == 1


def test_what_is_refused_is_refused_each_time(kernel: Kernel) -> None:
    kernel.check("import time\ndef ping(n):\n    return pong(n)\ndef pong(n):\n    ping\n    time.sleep(n)")
    said = rehearse(kernel, "time.sleep(0.1)\ntime.sleep(0.1)\nping(0.1)\npong(0.1)\ny = x + 1")
    assert [f"line {line} (" in said for line in (2, 3, 4)] == [True] * 3
    assert said.endswith("and 1 more\n")


AWAITS = """async for xb, yb in batches():
    optimizer.zero_grad()
    xb, yb = await moved(xb), await moved(yb)
    loss = loss_fn(model(xb), yb)
    loss.backward()
    optimizer.step()
loss.item()"""


def test_a_cell_that_awaits(kernel: Kernel) -> None:
    kernel.check(
        "async def batches():\n    for batch in data:\n        yield batch\nasync def moved(t):\n    return t.to(dev)"
    )
    assert rehearse(kernel, AWAITS).endswith("s without running\n")
    assert run(kernel, AWAITS) == 0


def test_what_comes_from_outside_of_the_cell_is_not_awaited(kernel: Kernel) -> None:
    kernel.check("import asyncio\nfuture = asyncio.get_running_loop().create_future()")
    kernel.check("class Ready:\n    def __await__(self):\n        yield\n        return 1")
    body = "y = x.sin() + 1\nn = await Ready()\nm = await future\nz = y.cos()\nw = (z * n).sum()"
    said = rehearse(kernel, body)
    assert "line 3 (`n = await Ready()` waits for something outside of the cell)" in said
    assert "line 4 (`m = await future` a Future cannot be copied" in said
    assert "line 6 (`w = (z * n).sum()` needs n of line 3)" in said
    kernel.check("future.set_result(2)")
    assert run(kernel, body) == 1
