"""Running and editing cells many times neither recompiles nor keeps what is gone."""

from __future__ import annotations

import pytest
from kernel_client import Kernel

pytestmark = pytest.mark.kernel

FRAMES = "__import__('torch')._dynamo.utils.counters['frames']['total']"


@pytest.fixture(scope="module")
def kernel(own_kernel: Kernel) -> Kernel:
    return own_kernel


@pytest.fixture(autouse=True)
def _inputs(kernel: Kernel) -> None:
    kernel.check("x = torch.ones(4, 3).to(dev)\nw = torch.ones(3, 3).to(dev)\ntorch_xla.sync()")


def test_fifty_runs_of_a_cell_with_a_function_compile_once(kernel: Kernel) -> None:
    cell = (
        "%%xla_compile\ndef layer(t):\n    return torch.tanh(t @ w)\n\n"
        "for i in range(2):\n    y = layer(x) + 1\nz = layer(y)"
    )
    kernel.check(cell)
    frames, (executed, compiled) = kernel.value(FRAMES), kernel.value("counts()")
    for _ in range(50):
        shown = kernel.check(cell)
    assert kernel.value(FRAMES) == frames
    assert kernel.value("counts()") == (executed + 150, compiled)
    assert shown.stdout == "2 graphs reused\n"
    assert shown.stderr == ""


def test_two_cells_with_the_same_text_share_their_graphs(kernel: Kernel) -> None:
    cell = "%%xla_compile\nshared = (x @ w).cos()"
    kernel.run(cell, cell_id="one")
    before = kernel.value("counts()")[1]
    assert kernel.run(cell, cell_id="two").stdout == "1 graph reused\n"
    assert kernel.value("counts()")[1] == before


EDITED = {
    "one graph": "return t * {version} + 1",
    # The second graph is compiled while the first one's code runs.
    "a graph break": "u = t * {version} + 1\n    print('between')\n    return u * 2",
}


@pytest.mark.parametrize("kind", EDITED)
def test_what_an_edited_cell_had_compiled_is_dropped(kernel: Kernel, kind: str) -> None:
    known = kernel.value("len(__import__('xla_notebook.session').session.current().graphs())")
    live = f"[g.state for g in __import__('xla_notebook.session').session.current().graphs()[{known}:]]"
    kernel.check("names = set(globals())")
    for version in range(6):
        body = EDITED[kind].format(version=version)
        shown = kernel.run(f"%%xla_compile\ndef edited(t):\n    {body}\nout = edited(x)", cell_id="edited")
        assert shown.error is None, shown.traceback
        assert shown.stderr == ""
    # Twice: the first round finds the cells, and lets go of their graphs for the second.
    kernel.check("import gc\ngc.collect()\ngc.collect();")
    states = kernel.value(live)
    graphs = 1 + EDITED[kind].count("print")
    assert states == ["dropped"] * 5 * graphs + ["warm"] * graphs
    left = "len([n for n in set(globals()) - names if n.startswith('__compiled_fn')])"
    assert kernel.value(left) == graphs


def test_a_function_redefined_by_another_cell_is_the_one_that_is_called(kernel: Kernel) -> None:
    kernel.check("%%xla_compile\ndef step(t):\n    return t + 1")
    kernel.check("%%xla_compile\na = step(x).sum().item()")
    kernel.check("%%xla_compile\ndef step(t):\n    return t + 2")
    kernel.check("%%xla_compile\na2 = step(x).sum().item()")
    kernel.check("%%xla_compile\na = step(x).sum().item()")
    assert kernel.value("a, a2") == (36.0, 36.0)


def test_a_changing_number_does_not_use_up_the_recompile_budget(kernel: Kernel) -> None:
    cell = (
        "%%xla_compile\nsums = []\nfor i in range(30):\n    y = (x @ w).sum()\n    z = y * i\n    sums.append(z.item())"
    )
    shown = kernel.check(cell)
    assert kernel.value("sums") == [36.0 * i for i in range(30)]
    assert shown.stderr == ""
    assert "plain Python" not in shown.stdout
    before = kernel.value(FRAMES)
    kernel.check(cell)
    assert kernel.value(FRAMES) == before


NEW_OPTIMIZER = """model = torch.nn.Linear(3, 2).to(dev)
optimizer = torch.optim.{name}(model.parameters(), lr=0.1)
for _ in range(2):
    model(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()"""


def test_optimizers_that_are_gone_do_not_use_up_the_recompile_budget(kernel: Kernel) -> None:
    body = NEW_OPTIMIZER.format(name="Adagrad")
    shown = [kernel.check(f"%%xla_compile{option}\n{body}").stdout for option in ["", " --no-run"] * 5]
    assert "plain Python" not in "".join(shown)
    # The step's own graph is made for each optimizer, and compiled for the first.
    assert [text.startswith("1 graph traced in") for text in shown[1:]] == [True] * 9


def test_a_cell_that_compiles_its_model_itself_runs_as_graphs_each_time(kernel: Kernel) -> None:
    kernel.check("layers = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()).to(dev)")
    cell = (
        "%%xla_compile\nlayers = torch.compile(layers, backend='xla_notebook')\n"
        "loss = (layers(x) - 1).square().mean()\nloss.backward()"
    )
    shown = [kernel.check(cell).stdout for _ in range(3)]
    assert shown[2] == "2 graphs reused\n"
    assert "loss" not in kernel.value("pending()")


def test_a_cell_that_makes_many_optimizers_compiles_their_steps(kernel: Kernel) -> None:
    graphs = "__import__('xla_notebook').session().graphs()"
    known = kernel.value(f"len({graphs})")
    sweep = NEW_OPTIMIZER.format(name="RMSprop").replace("\n", "\n    ")
    shown = kernel.check(f"%%xla_compile\nfor _ in range(10):\n    {sweep}")
    assert "plain Python" not in shown.stdout
    # Only the step at which Dynamo gives up runs lazily.
    assert kernel.value(f"[g.kind for g in {graphs}[{known}:]].count('optimizer')") >= 9


def test_a_cell_of_two_thousand_lines(kernel: Kernel) -> None:
    body = "\n".join(f"n{i} = {i}" for i in range(1700)) + "\n" + "\n".join(f"v = x + {i % 7}" for i in range(300))
    shown = kernel.check(f"%%xla_compile\n{body}\nraised = 1")
    assert shown.stderr == ""
    assert kernel.value("n1699, v[0, 0].item(), raised") == (1699, 1.0 + 299 % 7, 1)


def test_a_reset_namespace_is_filled_again(kernel: Kernel) -> None:
    cell = "%%xla_compile\nkept = (x * 9).sum()"
    kernel.check(cell)
    reset = kernel.check("%reset -f")
    kernel.check("import torch, torch_xla\ndev = torch_xla.device()\nx = torch.ones(4, 3).to(dev)")
    again = kernel.check(cell)
    assert reset.stderr == ""
    assert again.stderr == ""
    assert kernel.value("kept.item()") == 108.0


def test_names_that_a_cell_binds_for_the_first_time_are_part_of_the_graph(kernel: Kernel) -> None:
    shown = kernel.check("%%xla_compile\nnew_one = x * 3\nnew_two = new_one + 1\nnew_three = new_two.sum()")
    assert shown.stdout.startswith("1 graph compiled in")
    assert kernel.value("new_three.item()") == 48.0


def test_a_cell_that_failed_is_compiled_once_its_input_is_right(kernel: Kernel) -> None:
    cell = "%%xla_compile\nfits = x @ other\ntotal = fits.sum()"
    kernel.check("other = torch.ones(5, 5).to(dev)")
    assert kernel.run(cell).error is not None
    assert kernel.value("'fits' in globals() or 'total' in globals()") is False
    kernel.check("other = torch.ones(3, 5).to(dev)")
    assert kernel.check(cell).stdout.startswith("1 graph compiled in")
    assert kernel.check(cell).stdout == "1 graph reused\n"


DEEP = {
    "calls": "r = x" + ".abs()" * 360 + "\nr.sum().item()",
    "terms": f"r = {'+'.join(['x'] * 800)}\nr.sum().item()",
    "numbers": f"r = {'+'.join(['1'] * 800)}\nr",
    "test": f"if {'+'.join(['x.sum()'] * 300)} > 0:\n    r = 2\nr",
    "loop": f"for i in [{'-' * 400}1]:\n    r = x.sum().item() + i\nr",
}


@pytest.mark.parametrize("kind", DEEP)
def test_a_deep_expression_means_what_it_means_without_the_magic(kernel: Kernel, kind: str) -> None:
    plain = kernel.check(DEEP[kind])
    assert kernel.check(f"%%xla_compile\n{DEEP[kind]}").result == plain.result
    kernel.check(f"%%xla_compile --no-run\n{DEEP[kind]}")
