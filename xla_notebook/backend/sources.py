"""What the user calls the things that Dynamo's guards and graph inputs speak of. Pure text."""

from __future__ import annotations

import re

_VARIABLE = re.compile(r"\b[LG]\['(\w+)'\]")
_PART = re.compile(r"\._(?:modules|parameters|buffers)\['(\w+)'\]")
# What a function goes on with after a graph break.
_STACK = re.compile(r"\b___stack\d+")
_ATTRIBUTE = re.compile(r"object\.__getattribute__\(([^()]+), '(\w+)'\)")


def user_name(source: str) -> str:
    """Dynamo's name of a value as the user would write it.

    ``L['x']`` is ``x``, ``L['self']._modules['0']._parameters['weight']`` is ``self[0].weight``.
    """
    name = _STACK.sub("result before the graph break", _VARIABLE.sub(r"\1", source.strip()))
    name = _PART.sub(lambda part: f"[{part[1]}]" if part[1].isdigit() else f".{part[1]}", name)
    while (plainer := _ATTRIBUTE.sub(r"\1.\2", name)) != name:
        name = plainer
    return name
