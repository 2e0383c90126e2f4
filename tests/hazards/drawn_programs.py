"""How Hypothesis draws a program: its script, around a function of `drawn_functions.py`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from hazards.drawn_functions import Body, Builder, writable
from hazards.programs import Program, leaves, run
from hypothesis import reject
from hypothesis import strategies as st

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


class _Script(Builder):
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
        copy = f"{source}.clone()"
        expressions = [f"{source}.detach()", copy, f"{source}[...]"]
        if self.value(source).dtype != torch.bool:
            expressions += [f"{source} + 1"] * 3
        if self.value(source).dim():
            expressions += [f"{source}[1:]", f"{source}[0]", f"{source}[..., 1:]"]
        if self.value(source).dim() == 2:
            expressions += [f"{source}.t()"]
        expression = self.choose(expressions)
        if not self.add(f"{name} = {expression}", name):
            return source
        if expression == copy:
            # Until then torch_xla lets both have one buffer, and an update of one may donate it (README, Limits).
            self.lines.append("sync()")
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

    def result(self, name: str, body: Body) -> None:
        """Let the world know the parts of a call's result."""
        parts = [n for n, _ in leaves({name: self.env[name]}) if not n.startswith("type(")]
        self.world.extend(parts)
        self.rounded.update(part for part, made in zip(parts, body.returned_names, strict=True) if made in body.rounded)

    def between(self) -> None:
        """What people do between two calls."""
        for _ in range(self.choose([0, 1, 2, 3])):
            targets = self.tensors(self.world, writable)
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
        for number, target in enumerate(self.tensors(self.world, writable)):
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
    body = Body(draw, env, set(), [*script.constants, *parameters])
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
