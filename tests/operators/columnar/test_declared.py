"""Running results of few bits, on columns and record by record: they wrap alike, and so do snapshots of them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows, Types
from funken.columnar.kernels.columns import columns_of
from funken.expr.types import INT, STR, Tuple
from funken.testing import OperatorHarness
from funken.types import Row
from funken.types.convert import converter
from tests.operators.columnar.test_operators import ColumnsHarness, both_specs, sorted_state

SHORTS = Types.ROW([Types.STRING(), Types.SHORT(), Types.BYTE()])
SCHEMA: Any = Tuple((STR, INT, INT))
convert = converter(SHORTS)


def added(a: Any, b: Any) -> Any:
    return Row(a[0], a[1] + b[1], a[2] + b[2] * 3)


def mixed(a: Any, b: Any) -> Any:
    return a[0], a[1] + b[2], max(a[2], b[2])


def summed(a: Any, b: Any) -> Any:
    return Row(a[0], b[1] + a[1], a[2] + b[2])


PROGRAMS: dict[str, Any] = {
    "reduce": lambda keyed: keyed.reduce(added),
    "mixed": lambda keyed: keyed.reduce(mixed),
    "sum": lambda keyed: keyed.sum(1),
    "tumbling": lambda keyed: keyed.window(TumblingEventTimeWindows.of(10)).reduce(added),
    "sliding": lambda keyed: keyed.window(SlidingEventTimeWindows.of(10, 4)).reduce(mixed),
    "sessions": lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(5)).reduce(summed),
    "counts": lambda keyed: keyed.count_window(3).reduce(added),
}
PLANS = {
    name: both_specs(SCHEMA, lambda s, build=build: build(s.map(lambda r: r, SHORTS).key_by(lambda r: r[0])))
    for name, build in PROGRAMS.items()
}
RECORDS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(-40_000, 40_000), st.integers(-150, 150)), min_size=1, max_size=8
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["columns", "columns", "columns", "list", "restore", "change"]), RECORDS, st.integers(0, 9)
    ),
    min_size=1,
    max_size=6,
)


class RowsHarness(ColumnsHarness):
    def feed_columns(self, values: list[Any], timestamps: list[int] | None = None) -> None:
        schema = columns_schema()
        self.operator.process_block(columns_of(values, schema, timestamps))


def columns_schema() -> Any:
    vectorized: Any = PLANS["sum"][0]
    return vectorized.schema


@settings(max_examples=40, deadline=None)
@given(program=st.sampled_from(sorted(PLANS)), steps=STEPS)
def test_both_paths_wrap_alike_in_results_and_snapshots(program: str, steps: list[Any]) -> None:
    specs, path = PLANS[program], 0
    oracle, harness = OperatorHarness(specs[1], keyed=True), RowsHarness(specs[0])
    given_out, expected, watermark = [], [], -100
    for step, records, at in steps:
        rows, stamps = list(map(convert, records)), [at + number for number in range(len(records))]
        oracle.feed_block(rows, stamps)
        (harness.feed_columns if step == "columns" and path == 0 else harness.feed_block)(rows, stamps)
        if step in ("restore", "change"):
            given_out += harness.output_with_timestamps
            expected += oracle.output_with_timestamps
            path = 1 - path if step == "change" else path
            harness = RowsHarness(specs[path], watermark, snapshots=[harness.snapshot()])
            oracle = RowsHarness(specs[1], watermark, snapshots=[oracle.snapshot()])
        watermark = max(watermark, at)
        for each in (oracle, harness):
            each.watermark(watermark)
    assert sorted_state(harness.snapshot()) == sorted_state(oracle.snapshot())
    for each in (oracle, harness):
        each.end_input()
    given_out += harness.output_with_timestamps
    expected += oracle.output_with_timestamps
    assert list(map(repr, given_out)) == list(map(repr, expected))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_block_of_columns_stays_columns(program: str) -> None:
    harness, gone = RowsHarness(PLANS[program][0]), []
    harness.operator.process = lambda *block: gone.append(block)  # type: ignore[method-assign]

    harness.feed_columns([convert(("a", 30_000, 100))] * 5, [1] * 5)

    assert gone == []
