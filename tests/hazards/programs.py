"""Small tensor programs as data: a Hypothesis strategy that makes them, and an interpreter that runs them.

A program is Python source: a function `f`, and a script that makes tensors, calls `f` several times and works
on arguments and outputs in between. While a program is generated, each of its lines is run in eager mode on
the CPU, on a copy of the state, and kept only if it works there and its values stay small.

Values are small multiples of a half, so that float32 arithmetic is exact and comparisons come out alike on
every device. What cannot be exact (bfloat16, means, ``tanh``) is "rounded": it is returned and computed
with, but neither compared, nor converted, nor written into anything exact.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import re
import textwrap
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from hypothesis import reject
from hypothesis import strategies as st

# Dynamo cannot trace these on XLA tensors, and says so: t_(), unsqueeze_(), squeeze_() on an argument.
METADATA_UPDATES = False
# XLA lets a 0-dim tensor widen the dtype, and the backend returns what XLA computed (see test_found.py).
WIDENING_SCALARS = True

_LARGEST = 1024.0
_LARGEST_BFLOAT16 = 32.0

DTYPES = (
    torch.float32,
    torch.int64,
    torch.bool,
    torch.bfloat16,
    torch.int32,
    torch.uint8,
    torch.float64,
    torch.complex64,
)
SHAPES = ((3,), (2, 3), (), (2, 2), (3, 2), (1, 3), (0,), (0, 3), (2, 1, 3))


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
        looks.append({name: _on_cpu(leaf) for name, leaf in _leaves(world)})

    try:
        scope["program"](device, compiled, sync, look)
    except Exception as error:  # what it raised is part of the outcome, and compared
        lines = str(error).strip().splitlines() or [""]
        return Outcome(
            tuple(looks), f"{type(error).__name__}: {lines[0]}\n{''.join(traceback.format_exception(error))}"
        )
    return Outcome(tuple(looks))


def _leaves(world: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each thing in the world with the expression that finds it."""
    for name, value in world.items():
        if isinstance(value, (list, tuple, dict)):
            yield f"type({name})", type(value).__name__
            items = value.items() if isinstance(value, dict) else enumerate(value)
            yield from _leaves({f"{name}[{key!r}]": item for key, item in items})
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


# Generating ------------------------------------------------------------------------------------------

_NUMBERS = ("1", "2", "-1", "3", "0.5")
_FLOATS = frozenset({torch.float32, torch.float64, torch.bfloat16})
_INTEGERS = frozenset({torch.int64, torch.int32, torch.uint8})


class _Builder:
    """The state of a program after the lines made so far.

    `env`: all names and their values in eager mode. `rounded`: the expressions whose values need not be exact.
    """

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]):
        self.draw = draw
        self.env: dict[str, Any] = {"device": torch.device("cpu")}
        self.rounded: set[str] = set()
        self.names = 0

    # Helpers -----------------------------------------------------------------------------------------

    def choose(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def chance(self, percent: int) -> bool:
        # The simple case is False, which is what a failing program shrinks to.
        return bool(self.draw(st.integers(0, 99)) >= 100 - percent)

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def value(self, expression: str) -> Any:
        return eval(expression, {"torch": torch}, self.env)

    def attempt(self, line: str, function: Program | None = None) -> bool:
        """Run a line of the program; forget it again, and say False, if it fails or values get large."""
        trial: dict[str, Any] = copy.deepcopy(self.env)
        scope: dict[str, Any] = {"torch": torch, "values": values, "sync": lambda: None}
        try:
            if function is not None:
                constants = [line.split(" = ")[0] for line in function.constants]
                text = "\n    ".join([f"def f({', '.join(function.parameters)}):", *function.body])
                text += f"\n    return {function.returned}"
                exec(text, {"torch": torch, **{name: trial[name] for name in constants}}, trial)
            exec(line, scope, trial)
            trial.pop("f", None)
            if not all(_is_small(leaf) for _, leaf in _leaves(trial)):
                return False
        except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError, ZeroDivisionError):
            return False  # eager mode refuses it, so it is no program
        self.env = trial
        return True

    def exact(self, expression: str) -> bool:
        return expression not in self.rounded and self.value(expression).dtype != torch.bfloat16

    def tensors(self, names: Sequence[str], wanted: Callable[[torch.Tensor], bool] = lambda _: True) -> list[str]:
        return [n for n in names if isinstance(self.value(n), torch.Tensor) and wanted(self.value(n))]


def _is_small(leaf: Any) -> bool:
    if not isinstance(leaf, torch.Tensor) or leaf.numel() == 0 or leaf.dtype == torch.bool:
        return True
    limit = _LARGEST_BFLOAT16 if leaf.dtype == torch.bfloat16 else _LARGEST
    size = leaf.abs().max() if leaf.dtype.is_complex else leaf.double().abs().max()
    return bool(torch.isfinite(size)) and float(size) <= limit


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.storage_offset(), tuple(tensor.shape), tensor.stride()


def _share(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    return _share(a, b) and _layout(a) != _layout(b)


def _widens(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype != b.dtype and (a.dim() == 0) != (b.dim() == 0)


def _writable(tensor: torch.Tensor) -> bool:
    """Eager mode refuses to write into a tensor whose elements share memory."""
    return not any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True))


class _Body(_Builder):
    """Makes the lines of `f`. `locals`: the names that they can use."""

    def __init__(self, draw: Callable[..., Any], env: dict[str, Any], rounded: set[str], names: Sequence[str]):
        super().__init__(draw)
        self.env = env
        self.rounded = rounded
        self.locals = list(names)
        self.lines: list[str] = []
        self.returned_names: list[str] = []

    def tensor(self, wanted: Callable[[torch.Tensor], bool] = lambda _: True, exact: bool = False) -> str:
        found = self.tensors(self.locals, wanted)
        if exact:
            found = [name for name in found if self.exact(name)]
        if not found:
            reject()
        # The newest first: chains are what finds mistakes.
        return str(self.choose(found[::-1]))

    def number(self) -> str:
        return str(self.choose([*_NUMBERS, *(n for n in self.locals if type(self.env[n]) in (int, float))]))

    def step(self) -> None:
        kinds = [self.in_place] * 5 + [self.view] * 4 + [self.unary] * 2 + [self.binary] * 3
        kinds += [self.reduction, self.made, self.fallback, self.python_number]
        self.choose(kinds)()

    def assign(self, expression: str, *operands: str) -> None:
        name = self.name("v")
        if self.attempt(f"{name} = {expression}"):
            self.lines.append(f"{name} = {expression}")
            self.locals.append(name)
            if any(isinstance(self.env[o], torch.Tensor) and not self.exact(o) for o in operands):
                self.rounded.add(name)

    def assign_rounded(self, expression: str) -> None:
        count = len(self.locals)
        self.assign(expression)
        self.rounded.update(self.locals[count:])

    # Kinds of steps ----------------------------------------------------------------------------------

    def view(self) -> None:
        source = self.tensor()
        tensor = self.env[source]
        suffixes = [".detach()", ".unsqueeze(0)", ".unsqueeze(-1)", "[None]", "[...]", ".squeeze()"]
        suffixes += [f".expand({', '.join(map(str, (2, *tensor.shape)))})"]
        if tensor.is_contiguous():
            # Of a transposed tensor, eager mode makes a copy or raises, by strides; tensors of XLA are all contiguous.
            suffixes += [".view(-1)", ".flatten()", ".reshape(-1)"]
        if tensor.dim() >= 1:
            dim = self.choose(range(tensor.dim()))
            size = tensor.shape[dim]
            suffixes += ["[1:]", "[:2]", "[::2]", "[-1]", "[0]", "[..., 0]", "[..., 1:]"]
            suffixes += [".unbind()[0]"]
            if tensor.numel():  # Dynamo cannot split nothing
                suffixes += [".chunk(2)[0]", ".chunk(2)[-1]", ".split(1)[0]"]
            suffixes += [f".select({dim}, {size - 1})", f".narrow({dim}, {size // 2}, {size - size // 2})"]
        if tensor.dim() >= 2:
            suffixes += [".transpose(0, 1)", ".mT", ".permute(1, 0)", ".swapaxes(0, -1)", "[:, 0]"]
            if tensor.numel() and tensor.dim() == 2:  # XLA itself fails with others
                suffixes += [".diagonal()"]
            if tensor.is_contiguous():
                suffixes += [f".view({', '.join(map(str, reversed(tensor.shape)))})"]
        self.assign(source + self.choose(suffixes), source)

    def in_place(self) -> None:
        target = self.tensor(_writable)
        dtype = self.env[target].dtype
        options = [".zero_()", ".fill_(1)"]
        if dtype == torch.bool:
            options += [".logical_not_()", ".fill_(True)"]
        else:
            number = self.number()
            options += [f".add_({number})", f".mul_({number})", f".sub_({number})", ".add_(1)", ".mul_(2)"]
        if dtype in _FLOATS | _INTEGERS:
            options += [".clamp_(1, 2)"]
            if dtype != torch.uint8:
                options += [".neg_()", ".abs_()"]
        if self.env[target].dim():
            options += ["[0] = 1", "[1:] = 2", "[..., 0] = 1", "[::2] = 0", "[..., 1:] += 1", "[-1].fill_(2)"]
            options += [".select(0, 0).zero_()"]
            if self.exact(target) and not dtype.is_complex:
                options += [f"[{target} > 1] = 1", f".masked_fill_({target} > 1, 0)"]
        source = self.tensor(lambda t: not _overlap(t, self.env[target]))
        fits = self.exact(source) or not self.exact(target)
        fits = fits and (WIDENING_SCALARS or not _widens(self.env[source], self.env[target]))
        # A fraction or a negative number as uint8 is undefined in C++, and so in eager mode.
        fits = fits and (dtype != torch.uint8 or self.env[source].dtype in _INTEGERS | {torch.bool})
        if fits and not (self.env[source].dtype.is_complex and not dtype.is_complex):
            options += [f".copy_({source})"] * 4 + [f".add_({source})"] * 2 + [f".sub_({source})", f".mul_({source})"]
            options += [f"[...] = {source}", f"[:] = {source}"]
            if target[0] != "k":  # it would become a local name of `f`
                options += [f" += {source}"]
            if self.env[target].dim():
                options += [f"[0] = {source}", f"[1:] = {source}", f"[..., 0] = {source}", f"[..., 1:].add_({source})"]
                index = f"torch.tensor([0], device={target}.device)"
                if self.env[source].dim():  # XLA wants an index's dimension
                    options += [f".index_copy_(0, {index}, {source})", f".index_add_(0, {index}, {source})"]
        if METADATA_UPDATES:
            options += [".unsqueeze_(0)", ".squeeze_()", ".t_()"]
        line = target + self.choose(options)
        if self.attempt(line):
            self.lines.append(line)

    def unary(self) -> None:
        source = self.tensor()
        dtype = self.env[source].dtype
        options = [f"{source}.clone()", f"torch.zeros_like({source})", f"{source}.repeat(2, *[1] * {source}.dim())"]
        if dtype == torch.bool:
            options += [f"~{source}"]
        else:
            number = self.number()
            options += [f"{source} + {number}", f"{number} * {source}", f"{source} - {number}"]
            if dtype != torch.uint8:
                options += [f"-{source}"]
        if dtype in _FLOATS | _INTEGERS:
            options += [f"{source}.relu()", f"{source}.clamp(min=0)", f"{source}.flip(-1)"]
            if self.env[source].numel() and self.env[source].dim():  # XLA refuses others, as it does in sort
                options += [f"{source}.cumsum(0)", f"{source}.sort().values"]
            if self.exact(source):
                options += [f"{source} > 0", f"{source} == 1", f"{source} // 2"]
        if self.exact(source) and not dtype.is_complex:
            targets = [torch.float32, torch.float64, torch.bfloat16, torch.bool]
            # As above.
            targets += [torch.int64, torch.int32] + ([torch.uint8] if dtype in _INTEGERS else [])
            options += [f"{source}.to({target})" for target in targets]
        if dtype in (torch.float32, torch.float64) and self.env[source].dim() and self.chance(20):
            self.assign_rounded(self.choose([f"{source}.tanh()", f"{source}.sigmoid()", f"{source}.softmax(-1)"]))
            return
        self.assign(self.choose(options), source)

    def binary(self) -> None:
        a = self.tensor()
        b = self.tensor(lambda t: WIDENING_SCALARS or not _widens(t, self.env[a]))
        dtypes = {self.env[a].dtype, self.env[b].dtype}
        options = [f"torch.cat([{a}, {b}])", f"torch.stack([{a}, {b}])"]
        if torch.bool not in dtypes:
            options += [f"{a} + {b}", f"{a} - {b}"] * 2 + [f"torch.add({a}, {b}, alpha=2)"]
            if torch.bfloat16 not in dtypes:
                options += [f"{a} * {b}", f"{a} @ {b}", f"torch.maximum({a}, {b})"]
        else:
            options += [f"{a} | {b}", f"{a} ^ {b}"]
        if self.exact(a) and self.exact(b):
            options += [f"{a} == {b}"]
            if torch.complex64 not in dtypes:
                options += [f"{a} < {b}"]
                if len(dtypes) == 1:
                    options += [f"torch.where({a} > 1, {a}, {b})"]
        conditions = self.tensors(self.locals, lambda t: t.dtype == torch.bool)
        if conditions and len(dtypes) == 1:  # XLA's own result of where() has the first dtype
            options += [f"torch.where({self.choose(conditions)}, {a}, {b})"]
        self.assign(self.choose(options), a, b)

    def reduction(self) -> None:
        source = self.tensor()
        dtype = self.env[source].dtype
        options = [f"{source}.sum()"]
        # XLA itself refuses to reduce dimension 0 of a 0-dim tensor, and its amin() without a dimension
        # returns an integer tensor as it is.
        if self.env[source].dim():
            options += [f"{source}.sum(0)", f"{source}.sum(-1, keepdim=True)"]
            if not dtype.is_complex:
                options += [f"{source}.amax(0)", f"{source}.amin(-1)", f"{source}.max(0).values"]
            if self.exact(source):
                options += [f"{source}.bool().any(0)"]
        if not dtype.is_complex:
            options += [f"{source}.max()"]
        if self.exact(source):
            options += [f"{source}.any()", f"{source}.all()"]
        if dtype in (torch.float32, torch.float64) and self.env[source].dim() and self.chance(20):
            self.assign_rounded(self.choose([f"{source}.mean()", f"{source}.var(0)", f"{source}.norm()"]))
            return
        self.assign(self.choose(options), source)

    def made(self) -> None:
        """Tensors that no argument brings."""
        device = f"device={self.tensor()}.device"
        options = [f"torch.ones(2, 3, {device})", f"torch.arange(3, {device})", f"torch.zeros(3, {device})"]
        options += [f"torch.tensor([1.0, 2.0, 3.0], {device})", f"torch.tensor(2.0, {device})", "torch.tensor(2.0)"]
        options += [f"torch.full((2, 2), {self.number()}, {device})", f"torch.eye(2, {device})"]
        self.assign(self.choose(options))

    def fallback(self) -> None:
        """Operators without an XLA lowering, or with one for some arguments only."""
        source = self.tensor(lambda t: t.dtype in (torch.float32, torch.float64, torch.int64), exact=True)
        options = [f"{source}.median()"]
        if self.env[source].dim():
            # Of an expanded tensor PyTorch's own median, on the CPU, gives another element's value.
            options += [f"{source}.contiguous().median(0).values", f"{source}.cummin(0).values"]
            options += [f"{source}.kthvalue(1).values", f"{source}.cummax(0).values"]
        if self.env[source].dtype == torch.int64:
            options += [f"torch.gcd({source}, {source})"]
        else:
            options += [f"torch.heaviside({source}, {source})", f"{source}.histc(4, -4, 4)"]
            options += [f"torch.copysign({source}, {source})"]
            if self.env[source].shape == (2, 2):
                options += [f"torch.addmm({source}, {source}, {source}, beta=2)"]
        self.assign(self.choose(options), source)

    def python_number(self) -> None:
        source = self.tensor()
        options = [f"{source}.numel()", f"{source}.dim()", "2.5", "7"]
        if self.env[source].dim():
            options += [f"{source}.shape[0]"]
        self.assign(self.choose(options))

    def returned(self) -> str:
        """The value of the return statement. Names may come twice, and arguments come back as they are."""
        parts = [*self.locals[::-1], *self.locals[::-1], "None", "2.5"]
        chosen = [self.choose(parts) for _ in range(self.choose([1, 2, 3, 4, 5, 0]))]
        form = self.choose(["tuple", "tuple", "tuple", "list", "dict", "one"])
        self.returned_names = chosen[:1] if form == "one" else chosen
        if form == "list":
            return f"[{', '.join(chosen)}]"
        if form == "dict":
            return "{" + ", ".join(f"'{'abcde'[i]}': {part}" for i, part in enumerate(chosen)) + "}"
        if form == "one" and chosen:
            return chosen[0]
        return f"({', '.join(chosen)}{',' if len(chosen) == 1 else ''})"


class _Script(_Builder):
    """Makes the script. `world`: the expressions of all that a look sees."""

    def __init__(self, draw: Callable[..., Any]):
        super().__init__(draw)
        self.constants: list[str] = []
        self.lines: list[str] = []
        self.world: list[str] = []

    def add(self, line: str, name: str | None = None) -> bool:
        if not self.attempt(line):
            return False
        self.lines.append(line)
        if name is not None:
            self.world.append(name)
        return True

    def fresh(self, shape: tuple[int, ...], dtype: torch.dtype, prefix: str = "x") -> str:
        name = self.name(prefix)
        line = f"{name} = values({shape}, {dtype}, {self.draw(st.integers(0, 12))}).to(device)"
        if not self.add(line, name):
            raise AssertionError(f"cannot run {line}")
        return name

    def any_fresh(self, prefix: str = "x") -> str:
        # The first dtypes and shapes are the most useful.
        dtype = self.choose([torch.float32] * 8 + [torch.int64, torch.bfloat16] * 2 + list(DTYPES))
        return self.fresh(self.choose([*SHAPES[:2] * 3, *SHAPES]), dtype, prefix)

    def derived(self, source: str) -> str:
        """A tensor made from another: an alias, a view, or a value that is still pending on XLA."""
        name = self.name("x")
        expressions = [f"{source}.detach()", f"{source}.clone()", f"{source}[...]"]
        if self.value(source).dtype != torch.bool:
            expressions += [f"{source} + 1"] * 3
        if self.value(source).dim():
            expressions += [f"{source}[1:]", f"{source}[0]", f"{source}[..., 1:]"]
        if self.value(source).dim() == 2:
            expressions += [f"{source}.t()"]
        if not self.add(f"{name} = {self.choose(expressions)}", name):
            return source
        if source in self.rounded:
            self.rounded.add(name)
        return name

    def scalars(self) -> str:
        """Equal numbers sent to XLA share one buffer."""
        name = self.name("x")
        self.add(f"{name} = torch.tensor({self.choose(['2.0', '2', 'True'])}).to(device)", name)
        return name

    def arguments(self) -> list[str]:
        """What the first call gets."""
        chosen = [self.any_fresh()]
        for _ in range(self.choose([1, 2, 3, 0])):
            kind = self.choose(["fresh", "fresh", "derived", "derived", "same", "scalar", "number", "none"])
            candidates = self.tensors(self.world)
            if kind == "number":
                chosen.append(self.choose(["2", "0.5"]))
                continue
            if kind == "none":
                chosen.append("None")
                continue
            if kind == "derived":
                name = self.derived(self.choose(candidates))
            elif kind == "same":
                name = self.choose(candidates)
            elif kind == "scalar":
                name = self.scalars()
            else:
                name = self.any_fresh()
            chosen.append(name)
        return chosen

    def later_arguments(self, previous: Sequence[str]) -> list[str]:
        """What another call gets: the same, others that fit, or new ones."""
        chosen: list[str] = []
        for old in previous:
            value = self.value(old)
            if not isinstance(value, torch.Tensor):
                chosen.append(old if not self.chance(20) or value is None else "2" if old == "0.5" else "3")
                continue
            fitting = self.tensors(self.world, lambda t, v=value: t.shape == v.shape and t.dtype == v.dtype)
            fitting = [n for n in fitting if n not in self.rounded]
            kind = self.choose(["same", "fitting", "fresh", "derived"])
            new = old
            if kind == "fitting" and fitting:
                new = self.choose(fitting)
            elif kind == "derived" and value.dtype != torch.bool:
                new = self.name("x")
                if not self.add(f"{new} = {old} + 1", new):
                    reject()
            if kind == "fresh":
                new = self.fresh(tuple(value.shape), value.dtype)
            chosen.append(new)
        return chosen

    def result(self, name: str, body: _Body) -> None:
        """Let the world know the parts of a call's result."""
        parts = [n for n, _ in _leaves({name: self.env[name]}) if not n.startswith("type(")]
        self.world.extend(parts)
        self.rounded.update(part for part, made in zip(parts, body.returned_names, strict=True) if made in body.rounded)

    def between(self) -> None:
        """What people do between two calls."""
        for _ in range(self.choose([0, 1, 2, 3])):
            targets = self.tensors(self.world, _writable)
            kind = self.choose(["write", "write", "sync", "derive"]) if targets else "sync"
            if kind == "sync":
                self.lines.append("sync()")
            elif kind == "derive":
                self.derived(self.choose(targets))
            else:
                target = self.choose(targets[::-1])
                updates = [".zero_()", ".fill_(1)"]
                if self.value(target).dtype != torch.bool:
                    updates += [".add_(1)", ".mul_(2)"]
                if self.value(target).dim():
                    updates += ["[0] = 1", "[..., 1:] = 0"]
                self.add(target + self.choose(updates))

    def look(self) -> None:
        names = dict.fromkeys(re.match(r"\w+", expression).group() for expression in self.world)  # type: ignore[union-attr]
        self.lines.append(f"look({', '.join(f'{name}={name}' for name in names)})")

    def probe(self) -> None:
        """Write another value into each tensor, so that a lost alias shows, and a made-up one."""
        for number, target in enumerate(self.tensors(self.world, _writable)):
            self.add(f"{target}.fill_({number % 2 if self.value(target).dtype == torch.bool else number})")
        self.look()


@st.composite
def programs(draw: Callable[..., Any]) -> Program:
    """A strategy for programs."""
    script = _Script(draw)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        script.constants.append(script.any_fresh("k"))
    constants = tuple(script.lines)
    script.lines.clear()
    arguments = script.arguments()

    parameters = tuple(f"a{i}" for i in range(len(arguments)))
    env = {**script.env, **{p: script.value(a) for p, a in zip(parameters, arguments, strict=True)}}
    body = _Body(draw, env, set(), [*script.constants, *parameters])
    for _ in range(draw(st.sampled_from([1, 2, 3, 4, 5, 6, 8]))):
        body.step()
    returned = body.returned()
    options: dict[str, Any] = {"fullgraph": True, "dynamic": False}
    options["dynamic"] = draw(st.sampled_from([False] * 9 + [True]))
    warm_up = draw(st.sampled_from(["compile"] * 9 + ["execute", "off"]))
    if warm_up != "compile":
        options["options"] = {"warm_up": warm_up}
    function = Program(constants, parameters, tuple(body.lines), returned, (), tuple(options.items()))

    calls = draw(st.sampled_from([1, 2, 3]))
    for call in range(calls):
        if call:
            script.between()
            arguments = script.later_arguments(arguments)
        name = script.name("o")
        line = f"{name} = f({', '.join(arguments)})"
        if not script.attempt(line, function):
            reject()
        script.lines.append(line)
        script.result(name, body)
        if draw(st.booleans()) or call == calls - 1:
            script.look()
    script.probe()
    program = dataclasses.replace(function, script=tuple(script.lines))
    if run(program, torch.device("cpu")).error is not None:
        reject()
    return program
