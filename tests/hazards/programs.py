"""Small tensor programs as data, an interpreter that runs them, and the comparison of what two runs saw.

A program is Python source: a function `f`, and a script that makes tensors, calls `f` several times and works
on arguments and outputs in between.
"""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch


def values(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Different small values, exact in every dtype."""
    count = torch.Size(shape).numel()
    numbers = (torch.arange(count) * 7 + seed) % 13
    if dtype.is_floating_point or dtype.is_complex:
        return ((numbers - 6) / 2).to(dtype).reshape(shape)
    if dtype == torch.bool:
        return (numbers % 2 == 0).reshape(shape)
    return numbers.to(dtype).reshape(shape)


@dataclasses.dataclass(frozen=True)
class Program:
    """`constants` and `script` are lines; `body` is `f`'s. `options` go to ``torch.compile``.

    Lines of the script may use ``device``, ``values``, ``sync`` and ``look``: `look` compares all
    that it is given, on every device, with what it was in eager mode.
    """

    constants: tuple[str, ...]
    parameters: tuple[str, ...]
    body: tuple[str, ...]
    returned: str
    script: tuple[str, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def source(self) -> str:
        """The program as ``def program(device, compiled, sync, look)``."""
        function = [f"def f({', '.join(self.parameters)}):"]
        function += [f"    {line}" for line in (*self.body, f"return {self.returned}")]
        options = "".join(f", {name}={value!r}" for name, value in self.options)
        lines = [*self.constants, *function, f"f = compiled(f{options})", *self.script]
        return "def program(device, compiled, sync, look):\n" + textwrap.indent("\n".join(lines), "    ") + "\n"

    def __str__(self) -> str:
        return self.source()

    def standalone(self) -> str:
        """A script that runs the program eagerly on the CPU and compiled on XLA, and prints what `look` sees."""
        main = """
            def look(**world):
                print(world)


            print("eager, on the CPU")
            program(torch.device("cpu"), lambda f, **options: f, lambda: None, look)
            print("compiled, on XLA")
            program(torch_xla.device(), partial(torch.compile, backend="xla_notebook"), torch_xla.sync, look)
        """
        imports = "from functools import partial\n\nimport torch\nimport torch_xla\n"
        return "\n\n".join([imports, inspect.getsource(values), self.source(), textwrap.dedent(main).lstrip()])


# Running ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Outcome:
    """`looks`: what each look saw, by name. `error`: what the program raised after the last of them, as text,
    for an exception would keep tensors alive, and with them lazy work that fails again at the next barrier."""

    looks: tuple[dict[str, Any], ...]
    error: str | None = None


def run(
    program: Program,
    device: torch.device,
    compiled: Callable[..., Any] = lambda f, **_options: f,
    sync: Callable[[], Any] = lambda: None,
) -> Outcome:
    """Run the program and gather what it sees. `compiled` stands for ``torch.compile``."""
    scope: dict[str, Any] = {"torch": torch, "values": values}
    exec(compile(program.source(), "<program>", "exec"), scope)
    looks: list[dict[str, Any]] = []

    def look(**world: Any) -> None:
        looks.append({name: _on_cpu(leaf) for name, leaf in leaves(world)})

    try:
        scope["program"](device, compiled, sync, look)
    except Exception as error:  # what it raised is part of the outcome, and compared
        lines = str(error).strip().splitlines() or [""]
        return Outcome(
            tuple(looks), f"{type(error).__name__}: {lines[0]}\n{''.join(traceback.format_exception(error))}"
        )
    return Outcome(tuple(looks))


def leaves(world: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each thing in the world with the expression that finds it."""
    for name, value in world.items():
        if isinstance(value, (list, tuple, dict)):
            yield f"type({name})", type(value).__name__
            items = value.items() if isinstance(value, dict) else enumerate(value)
            yield from leaves({f"{name}[{key!r}]": item for key, item in items})
        else:
            yield name, value


def _on_cpu(leaf: Any) -> Any:
    # A tensor of the CPU has to be copied, for later lines may write into it.
    return leaf.detach().cpu().clone() if isinstance(leaf, torch.Tensor) else leaf


def difference(want: Outcome, got: Outcome) -> str | None:
    """How `got` differs from `want`, in words, or None."""
    for number, (first, second) in enumerate(zip(want.looks, got.looks, strict=False)):
        if list(first) != list(second):
            return f"look {number}: {', '.join(second)}; want {', '.join(first)}"
        for name, leaf in first.items():
            if not _same(leaf, second[name]):
                return f"look {number}: {name} is {_words(second[name])}, want {_words(leaf)}"
    if got.error is not None and want.error is None:
        return f"after look {len(got.looks) - 1}: {got.error.strip()}"
    if want.error is not None and got.error is None:
        return f"no error, want {want.error.strip()}"
    return None


def _words(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        return f"{leaf.dtype} {tuple(leaf.shape)} {leaf.tolist()}"
    return repr(leaf)


def _same(want: Any, got: Any) -> bool:
    if not isinstance(want, torch.Tensor):
        return type(want) is type(got) and bool(want == got)
    if not isinstance(got, torch.Tensor) or want.dtype != got.dtype or want.shape != got.shape:
        return False
    if want.dtype == torch.bfloat16:
        # XLA keeps more digits than bfloat16 has between two operations that it fuses.
        return torch.allclose(want.float(), got.float(), rtol=0.02, atol=0.3)
    if want.dtype.is_floating_point or want.dtype.is_complex:
        return torch.allclose(want, got, rtol=1e-4, atol=1e-4)
    return torch.equal(want, got)
