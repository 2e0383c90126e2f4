"""Pure functions on HLO text: which ops a graph is made of, and how two graphs differ."""

from __future__ import annotations

import collections
import difflib
import re
from collections.abc import Iterator

# `%name.7 = type op(...)`. The type may be a tuple, but only the op's name stands right before a parenthesis.
_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?[\w.-]+ = .*?\s(?P<op>[a-z][\w-]*)\(")
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?(?P<name>[\w.-]+) .*\{$")
_COMBINER = re.compile(r"\sto_apply=%?(?P<name>[\w.-]+)")
_NUMBER = re.compile(r"(?<=[A-Za-z_])\.\d+\b")
_METADATA = re.compile(r", metadata=\{[^}]*\}")


def op_histogram(text: str) -> dict[str, int]:
    """How often each HLO op occurs in `text`, most frequent first; parameters are not counted.

    The scalar function of a reduction or a scatter is part of it, not work of its own, and not counted.
    """
    combiners = {
        match["name"]
        for line in text.splitlines()
        for match in _COMBINER.finditer(line)
        if (instruction := _INSTRUCTION.match(line)) is None or instruction["op"] != "call"
    }
    counts: collections.Counter[str] = collections.Counter()
    computation = ""
    for line in text.splitlines():
        if start := _COMPUTATION.match(line):
            computation = start["name"]
        elif (instruction := _INSTRUCTION.match(line)) and computation not in combiners:
            counts[instruction["op"]] += 1
    del counts["parameter"]
    return dict(counts.most_common())


def hlo_diff(first: str, second: str, first_name: str = "first", second_name: str = "second") -> list[str]:
    """The lines of a unified diff of two HLO texts, empty if they differ only in numbering and metadata.

    XLA numbers all values in order, so that one more op would change every line after it; the numbers are
    left out.
    """
    return list(
        difflib.unified_diff(list(_unnumbered(first)), list(_unnumbered(second)), first_name, second_name, lineterm="")
    )


def _unnumbered(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.strip():
            yield _NUMBER.sub("", _METADATA.sub("", line.rstrip()))
