"""The options of the magic."""

from __future__ import annotations

import pytest
from IPython.core.error import UsageError

from xla_notebook.notebook import options
from xla_notebook.notebook.compiled import Options


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", Options()),
        ("--name train", Options(name="train")),
        ("--name 'two words' --quiet", Options(name="two words", quiet=True)),
        ("--name=a --warm-up=off", Options(name="a", warm_up="off")),
        ("--dynamic --fullgraph", Options(dynamic=True, fullgraph=True)),
        ("--donate a,b", Options(donate=("a", "b"))),
        ("--quiet  # a comment", Options(quiet=True)),
    ],
)
def test_what_a_line_means(line: str, expected: Options) -> None:
    assert options.parse(line) == expected


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("--warmup off", "--warm-up"),
        ("--warm_up off", "--warm-up"),
        ("--donation a", "--donate"),
        ("-quiet", "--quiet"),
        ("--warm-up exec", "execute"),
        ("--quiet=1", "--quiet"),
        ("--name --quiet", "needs a value"),
        ("--donate a,b.c", "'b.c'"),
    ],
)
def test_a_mistake_is_told_in_one_line_with_the_nearest_right_one(line: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        options.parse(line)
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_help_names_every_option() -> None:
    for option in (*options._FLAGS, *options._VALUES):
        assert option in options.HELP
