"""A training loop at the top level of a cell runs as three graphs: forward, backward, optimizer step."""

from __future__ import annotations

import pytest
from kernel_client import Kernel

pytestmark = pytest.mark.kernel

SETUP = """
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(dev)
optimizer = torch.optim.{optimizer}
data = [(torch.randn(32, 8), torch.randint(0, 4, (32,))) for _ in range(3)]
loss_fn = torch.nn.CrossEntropyLoss()
torch_xla.sync()
marks = [counts()]
losses = []
"""

LOOP = """{magic}
for epoch in range(2):
    for xb, yb in data:
        xb, yb = xb.to(dev), yb.to(dev)
        optimizer.zero_grad()
        loss = loss_fn(model(xb), yb)
        loss.backward()
        optimizer.step()
        marks.append(counts())
        losses.append(loss)
"""

# With a step barrier, or the whole loop would be one large graph.
PLAIN_LOOP = f"{LOOP.format(magic='# plain')}        torch_xla.sync()\n"

OPTIMIZERS = ["SGD(model.parameters(), lr=0.1)", "SGD(model.parameters(), lr=0.1, momentum=0.9)"]


def deltas(kernel: Kernel) -> list[tuple[int, int]]:
    made: list[tuple[int, int]] = kernel.value("[(b[0] - a[0], b[1] - a[1]) for a, b in zip(marks, marks[1:])]")
    return made


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_each_step_executes_three_graphs_and_compiles_nothing_after_the_second(kernel: Kernel, optimizer: str) -> None:
    kernel.check(SETUP.format(optimizer=optimizer))
    kernel.check(LOOP.format(magic="%%xla_compile"))
    steps = deltas(kernel)
    # The first steps also fill the buffers of constants: the learning rate, the gradient that backward starts from.
    assert [executed for executed, _ in steps[2:]] == [3] * 4
    assert [compiled for _, compiled in steps[2:]] == [0] * 4
    assert kernel.value("pending()") == []


@pytest.mark.parametrize("optimizer", [*OPTIMIZERS, "Adam(model.parameters())"])
def test_the_losses_are_those_of_the_plain_cell(kernel: Kernel, optimizer: str) -> None:
    kernel.check(SETUP.format(optimizer=optimizer))
    kernel.check(PLAIN_LOOP)
    plain = kernel.value("[v.item() for v in losses]")
    kernel.check(SETUP.format(optimizer=optimizer))
    kernel.check(LOOP.format(magic="%%xla_compile"))
    assert kernel.value("[v.item() for v in losses]") == pytest.approx(plain, rel=1e-5)


def test_running_the_cell_again_compiles_nothing(kernel: Kernel) -> None:
    kernel.check(SETUP.format(optimizer=OPTIMIZERS[0]))
    kernel.check(LOOP.format(magic="%%xla_compile"))
    kernel.check("marks = [counts()]")
    again = kernel.check(LOOP.format(magic="%%xla_compile"))
    assert deltas(kernel) == [(3, 0)] * 6
    assert again.stdout == "3 graphs reused\n"
