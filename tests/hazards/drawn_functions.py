"""How Hypothesis draws the function of a program.

While a program is generated, each of its lines is run in eager mode on the CPU, on a copy of the state, and
kept only if it works there and its values stay small.

Values are small multiples of a half, so that float32 arithmetic is exact and comparisons come out alike on
every device. What cannot be exact (bfloat16, means, ``tanh``) is "rounded": it is returned and computed
with, but neither compared, nor converted, nor written into anything exact.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from hazards.programs import Program, leaves, values
from hypothesis import reject
from hypothesis import strategies as st

# Dynamo cannot trace these on XLA tensors, and says so: t_(), unsqueeze_(), squeeze_() on an argument.
METADATA_UPDATES = False
# XLA lets a 0-dim tensor widen the dtype, and the backend returns what XLA computed (see test_found.py).
WIDENING_SCALARS = True

_LARGEST = 1024.0
_LARGEST_BFLOAT16 = 32.0

_NUMBERS = ("1", "2", "-1", "3", "0.5")
_FLOATS = frozenset({torch.float32, torch.float64, torch.bfloat16})
_INTEGERS = frozenset({torch.int64, torch.int32, torch.uint8})


class Builder:
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
            if not all(_is_small(leaf) for _, leaf in leaves(trial)):
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


def writable(tensor: torch.Tensor) -> bool:
    """Eager mode refuses to write into a tensor whose elements share memory."""
    return not any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True))


class Body(Builder):
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
        target = self.tensor(writable)
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
            ends = f"torch.tensor([0, -1], device={target}.device)"
            options += [f"[{ends}] = 1", f"[..., {ends}] = 0", f".index_fill_(0, {ends}, 1)"]
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
                options += [f"[{index}] = {source}", f".index_put_(({ends},), {source}, accumulate=True)"]
                if self.exact(target) and not dtype.is_complex:
                    options += [f"[{target} > 1] = {source}"]
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
            # Of the CPU's tensors only scalars, and only beside others.
            options += [f"{source} * torch.tensor(2.0)"]
            if dtype != torch.uint8:
                options += [f"-{source}"]
        if self.env[source].dim():
            ends = f"torch.tensor([0, -1], device={source}.device)"
            options += [f"{source}[{ends}]", f"{source}[..., {ends}]", f"{source}.index_select(0, {ends}.abs())"]
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
                options += [f"{a} * {b}", f"torch.maximum({a}, {b})"]
                if len(dtypes) == 1:  # of no elements, eager mode takes two types and gives the second
                    options += [f"{a} @ {b}"]
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
        options += [f"torch.tensor([1.0, 2.0, 3.0], {device})", f"torch.tensor(2.0, {device})"]
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
