"""A cell under ``%%xla_compile`` does what the plain cell does: names, output, errors and their lines."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from kernel_client import Kernel, Shown

pytestmark = pytest.mark.kernel

SETUP = """
x = torch.arange(6.0).reshape(2, 3).to(dev)
w = torch.arange(6.0).reshape(3, 2).to(dev)
host = torch.ones(2, 3)
model = torch.nn.Linear(3, 2).to(dev)
with torch.no_grad():
    for p in model.parameters():
        p.fill_(0.5)
"""

CASES = dict(
    block.split("\n", 1) for block in Path(__file__).with_name("same_meaning_cells.txt").read_text().split("\n=== ")[1:]
)


def shown(kernel: Kernel, first_line: str, body: str) -> tuple[Shown, dict[str, str], str]:
    kernel.check("for _n in set(globals()) - _before:\n    if not _n.startswith('_'): del globals()[_n]")
    kernel.check(f"globals().pop('__annotations__', None)\n{SETUP}")
    result = kernel.run(f"{first_line}\n{body}")
    names = json.loads(kernel.check("print(json.dumps(visible(_before)))").stdout)
    under = kernel.check("print(describe(_))").stdout if result.result is not None else ""
    return result, names, under


def without_file(error: tuple[str, str] | None) -> tuple[str, str] | None:
    """The error without the cell's file name, which depends on its text."""
    return error and (error[0], re.sub(r"\d+\.py", "cell.py", error[1]))


def summary_line(text: str) -> str:
    return re.sub(r"^\d+ graphs? (compiled|traced|reused).*\n", "", text, flags=re.M)


@pytest.mark.parametrize("case", CASES)
def test_a_compiled_cell_means_what_the_plain_cell_means(kernel: Kernel, case: str) -> None:
    kernel.check("_before = set(globals()) | {'_before'} if '_before' not in globals() else _before")
    plain, plain_names, plain_under = shown(kernel, "# plain", CASES[case])
    made, made_names, made_under = shown(kernel, "%%xla_compile", CASES[case])

    assert made_names == plain_names
    assert without_file(made.error) == without_file(plain.error)
    assert made.result == plain.result
    assert made_under == plain_under
    assert summary_line(made.stdout) == plain.stdout
    assert made.stderr == plain.stderr
    assert made.arrows == plain.arrows
    assert "xla_notebook" not in made.traceback.replace("%%xla_compile", "")


def test_an_error_raised_from_another_shows_both_lines(kernel: Kernel) -> None:
    body = "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise RuntimeError('outer') from e"
    made = kernel.run(f"%%xla_compile\n{body}")
    # Not compared with the plain cell, for which IPython shows line 5 twice.
    assert made.arrows == [(3, "1 / 0"), (5, "raise RuntimeError('outer') from e")]
    assert made.error == ("RuntimeError", "outer")


def test_running_the_cell_again_means_the_same(kernel: Kernel) -> None:
    for _ in range(2):
        made, names, _ = shown(kernel, "%%xla_compile", "a = x @ w\nb = a.sum().item()\na.shape")
        assert names["b"] == "91.0"
        assert made.result == "torch.Size([2, 2])"
