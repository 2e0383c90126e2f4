"""Functions and modules that a compiled cell defines stay ordinary Python objects."""

from __future__ import annotations

import pytest
from kernel_client import Kernel

pytestmark = pytest.mark.kernel

CELL = '''%%xla_compile
def layer(t, scale=2.0, *, bias: float = 1.0) -> torch.Tensor:
    """Scale and shift."""
    # a comment that belongs to the function
    return t * scale + bias

class Net(torch.nn.Module):
    """A net."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, t):
        """The forward."""
        return layer(self.linear(t)).relu()

net = Net().to(dev)
x = torch.ones(4, 3).to(dev)
y = net(x).sum()
'''


@pytest.fixture(scope="module", autouse=True)
def _cell(kernel: Kernel) -> None:
    kernel.check("import inspect, pickle, copy")
    kernel.check(CELL)


def test_source_signature_and_docstring(kernel: Kernel) -> None:
    source = kernel.value("inspect.getsource(layer)")
    assert source.startswith("def layer(t, scale=2.0")
    assert "# a comment that belongs" in source
    assert kernel.value("str(inspect.signature(layer))") == "(t, scale=2.0, *, bias: float = 1.0) -> torch.Tensor"
    assert kernel.value("layer.__doc__, layer.__name__, layer.__module__") == ("Scale and shift.", "layer", "__main__")
    assert kernel.value("inspect.getsource(Net.forward)").startswith("    def forward(self, t):")
    assert kernel.value("Net.forward.__doc__") == "The forward."
    assert kernel.value("get_ipython().object_inspect('layer')['docstring']") == "Scale and shift."


def test_pickle_and_copy(kernel: Kernel) -> None:
    assert kernel.value("pickle.loads(pickle.dumps(layer)) is layer") is True
    kernel.check("again = pickle.loads(pickle.dumps(net.cpu()))\nnet.to(dev)\ntwin = copy.deepcopy(net)")
    assert kernel.value("isinstance(again, Net), type(twin) is Net, isinstance(net, torch.nn.Module)") == (True,) * 3
    assert kernel.value("torch.allclose(twin(x), net(x))") is True


def test_a_compiled_function_is_inlined_into_a_compiled_caller(kernel: Kernel) -> None:
    shown = kernel.check("%%xla_compile\nz = layer(net(x) + 1).mean()")
    assert shown.stdout.startswith("1 graph compiled")


def test_a_compiled_function_called_from_a_plain_cell_runs_a_graph(kernel: Kernel) -> None:
    kernel.check("first = net(x)")
    before = kernel.value("counts()")
    kernel.check("second = net(x)")
    executed, compiled = kernel.value("counts()")
    assert (executed - before[0], compiled - before[1]) == (1, 0)
    assert kernel.value("[n for n in pending() if n in ('first', 'second')]") == []


def test_a_user_decorator_around_a_compiled_function_is_called(kernel: Kernel) -> None:
    kernel.check(
        "%%xla_compile\nimport functools\ndef thrice(f):\n    @functools.wraps(f)\n    def g(t):\n"
        "        return f(f(f(t)))\n    return g\n@thrice\ndef add(t):\n    return t + 1\nd = add(x).mean().item()"
    )
    assert kernel.value("d") == 4.0


def test_an_error_inside_a_function_of_another_cell_shows_both_lines(kernel: Kernel) -> None:
    kernel.check("%%xla_compile\ndef bad(t):\n    u = t + 1\n    return u @ u")
    shown = kernel.run("%%xla_compile\na = x + 1\nb = bad(a)")
    assert [text for _, text in shown.arrows] == ["b = bad(a)", "return u @ u"]
    assert [line for line, _ in shown.arrows] == [3, 4]


def test_a_function_with_a_loop_and_backward_trains(kernel: Kernel) -> None:
    # Seeded: with one set of weights in fifteen no unit is active, and there is nothing to learn.
    kernel.check("torch.manual_seed(0)\nstart = Net()\ntrained, reference = copy.deepcopy(start).to(dev), start")
    fit = (
        "def fit(model, x, steps):\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    losses = []\n    for _ in range(steps):\n        optimizer.zero_grad()\n"
        "        loss = (model(x) - 1).square().mean()\n        loss.backward()\n        optimizer.step()\n"
        "        losses.append(loss.item())\n    return losses\n"
    )
    shown = kernel.check("%%xla_compile\n" + fit + "losses = fit(trained, x, 5)")
    kernel.check(fit + "expected = fit(reference, x.cpu(), 5)")
    assert kernel.value("expected[-1] < expected[0]") is True
    assert kernel.value("losses") == pytest.approx(kernel.value("expected"), abs=1e-5)
    assert shown.stderr == ""
