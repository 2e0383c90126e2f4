"""How cells are split into blocks."""

from __future__ import annotations

import ast

import pytest

from xla_notebook.notebook import blocks
from xla_notebook.notebook.blocks import Source


def split(text: str) -> tuple[str, list[str]]:
    """The transformed cell, with ``B0`` for block 0, and the text of each block."""
    sources: list[Source] = []

    def register(source: Source) -> int:
        sources.append(source)
        return len(sources) - 1

    tree = ast.parse(text)
    body = blocks.split(tree.body, register)
    shown = ast.unparse(ast.Module(body, []))
    for number in range(len(sources)):
        shown = shown.replace(f"{blocks.RUNTIME}({number})", f"B{number}")
    return shown, ["; ".join(ast.unparse(statement) for statement in source.statements) for source in sources]


@pytest.mark.parametrize(
    ("cell", "left", "inside"),
    [
        ("a = x + 1\nb = a * 2", "B0", ["a = x + 1; b = a * 2"]),
        ("a = x\nimport m\nb = f(a)", "B0\nimport m\nB1", ["a = x", "b = f(a)"]),
        ("for i in f(3):\n    a = x + i\n    b = a", "for i in B1:\n    B0", ["a = x + i; b = a", "f(3)"]),
        ("for i in y:\n    a += i\nelse:\n    b = c()", "for i in y:\n    B0\nelse:\n    B1", ["a += i", "b = c()"]),
        ("with f():\n    g()", "with B0:\n    B1", ["f()", "g()"]),
        (
            "try:\n    f()\nexcept E:\n    g()\nfinally:\n    h()",
            "try:\n    B0\nexcept E:\n    B1\nfinally:\n    B2",
            ["f()", "g()", "h()"],
        ),
        ("if a > b:\n    c = d\nelif e:\n    f()", "if B2:\n    B0\nelif e:\n    B1", ["c = d", "f()", "a > b"]),
        ("a: int = f()", "a: int = B0", ["f()"]),
        ("a.b = f(c)\na[0] = f(c)", "a.b = B0\na[0] = B1", ["f(c)", "f(c)"]),
        ("a, *b = f()", "a, *b = B0", ["f()"]),
        ("await f()\na = await g(b)", "await f()\na = await g(b)", []),
        ("a = locals()\nb = eval('a')", "a = locals()\nb = eval('a')", []),
        ("del a\nglobal b\npass", "del a\nglobal b\npass", []),
    ],
)
def test_straight_lines_become_blocks_and_the_rest_stays(cell: str, left: str, inside: list[str]) -> None:
    shown, sources = split(cell)
    # The order in which blocks are numbered is of no interest: compare by content.
    for number, text in enumerate(sources):
        shown = shown.replace(f"B{number}", f"<{text}>")
    expected = left
    for number, text in enumerate(inside):
        expected = expected.replace(f"B{number}", f"<{text}>")
    assert shown == expected


def test_a_definition_gets_our_decorator_innermost_and_keeps_its_first_line() -> None:
    tree = ast.parse("@outer\ndef f(x):\n    return x\n\ndef g(x):\n    return x")
    decorated, plain = blocks.split(tree.body, lambda source: 7)
    assert isinstance(decorated, ast.FunctionDef)
    assert isinstance(plain, ast.FunctionDef)
    assert [ast.unparse(d) for d in decorated.decorator_list] == ["outer", f"{blocks.RUNTIME}.define(7)"]
    assert plain.decorator_list[0].lineno == plain.lineno == 5


def test_the_positions_of_a_block_are_those_of_its_first_statement() -> None:
    tree = ast.parse("\n\na = f(\n    1)\nb = 2")
    (made,) = blocks.split(tree.body, lambda source: 0)
    assert (made.lineno, made.end_lineno) == (3, 4)


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("a = b", ["a"]),
        ("a, (b, [c]) = d", ["a", "b", "c"]),
        ("a += 1", ["a"]),
        ("f(a := 1, [b := i for i in c])", ["a", "b"]),
        ("a = [i for i in b]", ["a"]),
        ("a = lambda: (b := 1)", ["a"]),
    ],
)
def test_assigned_names(cell: str, names: list[str]) -> None:
    assert blocks.assigned(ast.parse(cell).body) == names


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("await f()", True),
        ("[a async for a in b]", True),
        ("async with a: pass", True),
        ("async def f():\n    await g()", False),
        ("f()", False),
    ],
)
def test_which_cells_await(cell: str, expected: bool) -> None:
    assert any(blocks.awaits(statement) for statement in ast.parse(cell).body) is expected


def test_what_is_nested_too_deep_is_left_as_it_is() -> None:
    deep = "a = x" + ".b()" * 60
    made, sources = split(f"{deep}\nc = y.b()")
    assert made.splitlines()[0] == deep
    assert sources == ["c = y.b()"]
    assert not blocks.awaits(ast.parse(deep))
