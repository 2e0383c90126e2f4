"""Why something was compiled again: from Dynamo's guards and the backend's reasons to the user's words.

The forms of guards are those of torch 2.9 (``torch/_dynamo/guards.py`` and ``torch/csrc/dynamo/guards.cpp``).
A form that is not known here is quoted as it is, so nothing is ever hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from xla_notebook.backend.observer import Binding, TraceReason
from xla_notebook.backend.sources import user_name
from xla_notebook.session.events import TEXT_LIMIT, Cause
from xla_notebook.session.records import GraphRecord

CAUSE_LIMIT = 8

_PAD = "pad {name} to one size (for a last short batch: drop_last=True): XLA compiles each size anew"
_ONCE = "make {name} once, outside of the loop"

# Guard, what it means to the user, what would avoid it. The first form that matches counts.
_FORMS: tuple[tuple[str, str, str], ...] = (
    (
        r"tensor '(?P<name>.+?)' rank mismatch\. expected (?P<expected>\d+), actual (?P<actual>\d+)",
        "`{name}` has {actual} dimensions, had {expected}",
        "give {name} always the same number of dimensions",
    ),
    (
        r"tensor '(?P<name>.+?)' dtype mismatch\. expected (?P<expected>\w+), actual (?P<actual>\w+)",
        "`{name}` is of dtype {actual}, was {expected}",
        "convert {name} to one dtype before the call",
    ),
    (
        r"tensor '(?P<name>.+?)' stride mismatch at index (?P<index>\d+)\. "
        r"expected (?P<expected>\d+), actual (?P<actual>\d+)",
        "`{name}` has stride {actual} in dimension {index}, had {expected}",
        "pass {name}.contiguous()",
    ),
    (
        r"tensor '(?P<name>.+?)' requires_grad mismatch\. expected requires_grad=1",
        "`{name}` no longer requires a gradient",
        "keep requires_grad of {name} as it is between calls",
    ),
    (
        r"tensor '(?P<name>.+?)' requires_grad mismatch\. expected requires_grad=0",
        "`{name}` now requires a gradient",
        "keep requires_grad of {name} as it is between calls",
    ),
    (
        r"tensor '(?P<name>.+?)' (?:dispatch key set mismatch|Tensor device index mismatch)",
        "`{name}` is on another device, or is another kind of tensor",
        "move {name} to one device before the call, and keep inference-mode tensors apart",
    ),
    (
        r"expected type of '(?P<name>.+?)' to be a tensor type, .*<class '(?P<type>[\w.]+)'>",
        "`{name}` is of type {type}, was a tensor",
        "pass {name} always as a tensor",
    ),
    (
        r"___check_type_id\((?P<name>.+?), \d+\)",
        "`{name}` is of another type",
        "pass {name} always as the same type",
    ),
    (r"___check_obj_id\((?P<name>.+?), \d+\)", "`{name}` is another object", _ONCE),
    (
        r"Cache line invalidated because (?P<name>.+) got deallocated",
        "`{name}` was deleted or replaced by a new object",
        _ONCE,
    ),
    (
        r"(?:len\(|not )(?P<name>self\.state\[.+?)(?:\) != 0)?$",
        "the optimizer made its state in its first step",
        "this happens once for each optimizer; nothing to do",
    ),
    (
        r"(?P<name>[^=]+\['lr'\]) == (?P<value>[\d.e+-]+)$",
        "the learning rate changed (was {value})",
        "make it a tensor on the device, as in lr=torch.tensor({value}).to(device), and change it with fill_()",
    ),
    (
        # Of a dict Dynamo tells what is, of a list what should be.
        r"len\((?P<name>.+?)\) [!=]= (?P<length>\d+)$",
        "`{name}` no longer has {length} items",
        "keep the length of {name} the same between calls",
    ),
    (
        r"(?P<name>[^=]+\.training) == (?P<value>True|False)$",
        "`{name}` changed (was {value})",
        "one graph for train() and one for eval() is normal; do not switch inside of the loop",
    ),
    (
        r"(?P<name>[^=<>!]+?) (?:==|is) (?P<value>-?[\w.'\"]+)$",
        "`{name}` changed (was {value})",
        "pass {name} as a tensor on the device if it changes from call to call",
    ),
)
# How Dynamo names what follows a graph break (``torch/_dynamo/resume_execution.py``).
_RESUMED = "torch_dynamo_resume_in_"
# Dynamo's guards on tensors speak of C++ scalar types.
_DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Byte": "uint8",
    "Char": "int8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "Bool": "bool",
}
_COMPILED_FORMS = tuple((re.compile(pattern), what, fix) for pattern, what, fix in _FORMS)
_SIZE = re.compile(
    r"tensor '(?P<name>.+?)' size mismatch at index (?P<index>\d+)\. "
    r"expected (?P<expected>\d+), actual (?P<actual>\d+)"
)
_GLOBAL_STATE = re.compile(r"GLOBAL_STATE changed: (?P<names>[\w ]+)$")
_DUPLICATES = re.compile(r"Duplicate tensors? found(?P<names>.*)")
_STATES = {
    "grad_mode": ("grad mode changed", "call it always inside, or always outside of torch.no_grad()"),
    "autocast": ("autocast changed", "call it always inside, or always outside of torch.autocast()"),
    "default_dtype": ("the default dtype changed", "set the default dtype once, before the first call"),
    "num_threads": ("the number of threads changed", "set the number of threads once, before the first call"),
}


def recompile_causes(
    guards: Iterable[str], reason: TraceReason, new: GraphRecord, before: GraphRecord | None
) -> tuple[Cause, ...]:
    """The causes of a compile that made the graph `new`.

    `guards`: what failed in each version that Dynamo had, the one used last first; `reason`: why the backend
    traced; `before`: the function's last graph, if there is one. Empty if it is simply the first compile.
    """
    causes: dict[str, Cause] = {}
    for guard in guards:
        cause = explain_guard(guard, new, before)
        causes.setdefault(cause.what, cause)
    if not causes and before is not None:
        for cause in _without_guard(reason, new, before):
            causes.setdefault(cause.what, cause)
    return tuple(causes.values())[:CAUSE_LIMIT]


def explain_guard(guard: str, new: GraphRecord | None = None, before: GraphRecord | None = None) -> Cause:
    """One failed guard of Dynamo's in the user's words, with shapes from the graphs where they are known."""
    text = _bare(guard)
    quoted = guard.strip()[:TEXT_LIMIT]
    if match := _SIZE.match(text):
        return Cause(_size(match, new, before), _PAD.format(name=user_name(match["name"])), quoted)
    if match := _GLOBAL_STATE.match(text):
        states = [_STATES.get(name, (f"the global state {name} changed", "")) for name in match["names"].split()]
        fixes = "; ".join(fix for _, fix in states if fix)
        return Cause(" and ".join(what for what, _ in states), fixes or None, quoted)
    if match := _DUPLICATES.match(text):
        groups = [re.findall(r'"([^"]+)"', group) for group in re.split(r'(?<="\]), (?=\[")', match["names"])]
        names = [f"`{user_name(name)}`" for name in groups[0]]
        what = f"{' and '.join(names) or 'two arguments'} are one and the same tensor now"
        more = f" (and {len(groups) - 1} more such)" if len(groups) > 1 else ""
        return Cause(what + more, "pass a clone for one of them", quoted)
    for pattern, what, fix in _COMPILED_FORMS:
        if match := pattern.match(text):
            words = {key: _DTYPES.get(word, word) for key, word in match.groupdict().items()}
            words["name"] = user_name(match["name"])
            return Cause(what.format_map(words), fix.format_map(words), quoted)
    return Cause(f"the condition `{text[:TEXT_LIMIT]}` no longer holds", None, quoted)


def shape_text(shape: tuple[int, ...]) -> str:
    """``16x8`` for a matrix, ``scalar`` without dimensions."""
    return "x".join(map(str, shape)) or "scalar"


def same_thing(source: str, placeholder: str) -> bool:
    """Whether Dynamo's `source` (``x``, ``G['x']``) and a graph input's name (``l_x_``) are one thing."""
    return _plain(source) == _plain(placeholder)


def _bare(guard: str) -> str:
    """Without the code line that Dynamo appends as a comment, and without its hint."""
    text = re.split(r"\s+# |\s+\(HINT: ", guard.strip(), maxsplit=1)[0]
    return text.strip()


def _plain(name: str) -> str:
    words = re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")
    return re.sub(r"^(?:l|g)_(?=.)", "", words)


def _input(record: GraphRecord | None, name: str) -> Binding | None:
    if record is None:
        return None
    return next((binding for binding in record.inputs if same_thing(name, binding.name)), None)


def _size(match: re.Match[str], new: GraphRecord | None, before: GraphRecord | None) -> str:
    """Dynamo names only the first dimension that differs; the graphs' inputs know the others."""
    name, index = user_name(match["name"]), int(match["index"])
    expected, actual = int(match["expected"]), int(match["actual"])
    now, then = _input(new, match["name"]), _input(before, match["name"])
    if now is None or now.spec.shape[index : index + 1] != (actual,):
        return f"`{name}` has {actual} in dimension {index}, had {expected}"
    if then is not None and then.spec.shape[index : index + 1] == (expected,):
        was = then.spec.shape
    else:
        was = (*now.spec.shape[:index], expected, *now.spec.shape[index + 1 :])
    return f"`{name}` is {shape_text(now.spec.shape)}, was {shape_text(was)}"


def _without_guard(reason: TraceReason, new: GraphRecord, before: GraphRecord) -> Iterable[Cause]:
    """What changed where no guard of Dynamo's failed: the backend traced again, or the code is new."""
    if reason == "sizes" and new.kind == "backward":
        return  # its inputs are intermediate results of the forward graph, whose cause was told
    if reason == "sizes":
        for now, then in zip(new.inputs, before.inputs, strict=False):
            if now.spec.shape != then.spec.shape:
                name = user_name(now.name)
                what = f"`{name}` is {shape_text(now.spec.shape)}, was {shape_text(then.spec.shape)}"
                yield Cause(what, _PAD.format(name=name))
    elif reason == "evicted":
        yield Cause(
            "XLA's cache had dropped the executable",
            "raise XLA_COMPILATION_CACHE_SIZE, or compile fewer different graphs",
        )
    elif reason == "cleared":
        yield Cause("all graphs had been dropped", "nothing to avoid: %xla_clear drops what is compiled")
    elif reason == "donated":
        yield Cause(
            "a saved buffer had been donated",
            "do not step over tensors that compiled functions keep; see %xla_events --hazards",
        )
    elif reason == "sharding":
        yield Cause("the sharding of an argument changed", "mark shardings once, before the first call")
    elif reason == "donation":
        yield Cause("another set of inputs is to be donated")
    elif new.graph_id != before.graph_id and new.segment == 0 and new.kind != "backward":
        # Later segments and the backward graph follow from the first graph, whose cause was told.
        yield from _new_code(new, before)


def _new_code(new: GraphRecord, before: GraphRecord) -> Iterable[Cause]:
    """The same function in name, compiled without a failed guard: its code object is new to Dynamo."""
    if new.source is None or before.source is None:
        return
    cells = new.source.cell, before.source.cell
    if (new.source.filename, new.source.line) == (before.source.filename, before.source.line):
        if new.function.startswith(_RESUMED):
            # Two ways that go on in one line (``a if t.sum() > 0 else b``) have one name and one place.
            yield Cause(
                "the function went another way after its graph break, or was defined anew",
                "choose with torch.where or torch.cond, which break no graph",
            )
        else:
            yield Cause(
                "the function was defined anew, or Dynamo was reset",
                "define it in a cell of its own, outside of the loop",
            )
    elif cells[0] and cells[1] and cells[0].cell_id is not None and cells[0].cell_id == cells[1].cell_id:
        yield Cause("cell edited")
