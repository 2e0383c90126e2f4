"""Histogram and diff of HLO text as XLA prints it."""

from __future__ import annotations

from xla_notebook.session.hlo import hlo_diff, op_histogram

TEXT = """HloModule IrToHlo.37, entry_computation_layout={(f32[4,4]{1,0})->(f32[], f32[4,4]{1,0})}

%AddComputation.14 (x.15: f32[], y.16: f32[]) -> f32[] {
  %x.15 = f32[] parameter(0)
  %y.16 = f32[] parameter(1)
  ROOT %add.17 = f32[] add(f32[] %x.15, f32[] %y.16)
}

%callee.18 (x.19: f32[]) -> f32[] {
  %x.19 = f32[] parameter(0)
  ROOT %exp.20 = f32[] exponential(f32[] %x.19)
}

ENTRY %IrToHlo.37 (p0.3: f32[4,4]) -> (f32[], f32[4,4]) {
  %p0.3 = f32[4,4]{1,0} parameter(0), metadata={op_type="xla__device_data" source_line=3}
  %constant.12 = f32[] constant(0)
  %reduce.18 = f32[] reduce(f32[4,4]{1,0} %p0.3, f32[] %constant.12), dimensions={0,1}, to_apply=%AddComputation.14
  %call.19 = f32[] call(f32[] %reduce.18), to_apply=%callee.18
  %add.20 = f32[4,4]{1,0} add(f32[4,4]{1,0} %p0.3, f32[4,4]{1,0} %p0.3)
  %add.21 = f32[4,4]{1,0} add(f32[4,4]{1,0} %add.20, f32[4,4]{1,0} %p0.3)
  ROOT %tuple.36 = (f32[], (f32[4,4]{1,0}, s32[])) tuple(f32[] %reduce.18, f32[4,4]{1,0} %add.21)
}
"""


def test_histogram_counts_work_most_frequent_first() -> None:
    assert list(op_histogram(TEXT).items()) == [
        ("add", 2),
        ("exponential", 1),
        ("constant", 1),
        ("reduce", 1),
        ("call", 1),
        ("tuple", 1),
    ]


def test_histogram_of_nothing_is_empty() -> None:
    assert op_histogram("") == op_histogram("no HLO at all (really)") == {}


def test_same_graph_with_other_numbers_and_metadata_does_not_differ() -> None:
    renumbered = TEXT.replace("add.20", "add.77").replace("source_line=3", "source_line=9").replace(".37", ".38")
    assert hlo_diff(TEXT, renumbered) == []


def test_diff_shows_the_op_that_is_new_and_nothing_else() -> None:
    line = "  %add.21 = f32[4,4]{1,0} add(f32[4,4]{1,0} %add.20, f32[4,4]{1,0} %p0.3)\n"
    more = TEXT.replace(line, "  %sine.21 = f32[4,4]{1,0} sine(f32[4,4]{1,0} %add.20)\n" + line.replace("21", "22"))
    changed = [line for line in hlo_diff(TEXT, more, "a", "b") if line[0] in "+-"]
    assert changed == ["--- a", "+++ b", "+  %sine = f32[4,4]{1,0} sine(f32[4,4]{1,0} %add)"]


def test_constants_keep_their_decimals() -> None:
    assert (
        len([line for line in hlo_diff("x = f32[] constant(0.5)", "x = f32[] constant(0.7)") if line[0] in "+-"]) == 4
    )
