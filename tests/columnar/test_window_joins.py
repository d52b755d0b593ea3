"""Joins of windows on columns: what they give and keep is what the record path does, in the same order."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken import (
    DataGeneratorSource,
    DiscardingSink,
    EventTimeSessionWindows,
    JoinFunction,
    RuntimeExecutionMode,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WatermarkStrategy,
)
from funken.columnar.kernels.columns import columns_of
from funken.errors import InvalidProgram
from funken.expr.types import FLOAT, INT, STR, Tuple
from funken.operators.columnar.contents import ListedRecords
from funken.operators.join import TAGGED_KEY, CoGroup, JoinPairs, WindowJoin
from funken.operators.stateful import joins as window_join
from funken.operators.stateful.joins import JoinPane
from funken.operators.user_functions import UserFunction
from funken.operators.window.spec import CallStyle, Elements, WindowCall, WindowSpec
from funken.plan.columns import columnar_window_join
from funken.testing import OperatorHarness

SCHEMAS = [Tuple((STR, INT)), Tuple((INT, STR, FLOAT))]
KEYS = UserFunction(lambda left: left[0]), UserFunction(lambda right: right[1])


def one(left, right):
    return left[1], right[0] * left[1], right[2]


def several(left, right):
    if left[1] % 2:
        yield left[0], right[0]
        if right[0] > 3:
            yield right[1], -right[0]


def divides(left, right):
    return left[1] // (right[0] - 7)


class Sum(JoinFunction):
    def __init__(self, more: int) -> None:
        self.more = more

    def join(self, left: Any, right: Any) -> Any:
        return left[1] + right[0] + self.more


def outer(lefts, rights):
    if not lefts:
        for right in rights:
            yield right[1], 0, right[0]
    elif not rights:
        yield lefts[0][0], len(lefts), -1
    else:
        yield lefts[-1][0], len(lefts), sum(right[0] for right in rights) * lefts[0][1]


FUNCTIONS = {
    "one": JoinPairs(UserFunction(one)),
    "several": JoinPairs(UserFunction(several), flat=True),
    "those with others": CoGroup(UserFunction(lambda lefts, rights: [(left[0], left[1]) for left in lefts if rights])),
    "outer": CoGroup(UserFunction(outer)),
    "first by first": CoGroup(UserFunction(lambda lefts, rights: [lefts[0][1] // rights[0][0]])),
    "divides": JoinPairs(UserFunction(divides)),
    "object": JoinPairs(UserFunction(Sum(5), "join", rich=True)),
}
WINDOWS = [TumblingEventTimeWindows.of(10), SlidingEventTimeWindows.of(12, 5), SlidingEventTimeWindows.of(4, 9)]


def specs_of(function, assigner):
    call = WindowCall(UserFunction(FUNCTIONS[function], "apply", rich=True), CallStyle.APPLY)
    rows = WindowJoin(*KEYS, WindowSpec(key=TAGGED_KEY, assigner=assigner, contents=Elements(), function=call))
    return rows, columnar_window_join(rows, SCHEMAS)[0]


class Driven:
    """One of the two operators; ``failed`` is what it has raised."""

    def __init__(self, spec, snapshot=None):
        self.harness = (
            OperatorHarness(spec, keyed=True, name="join")
            if snapshot is None
            else OperatorHarness.restored(spec, snapshot, keyed=True, name="join")
        )
        self.failed = None

    def block(self, side, records, stamps, as_columns):
        operator = self.harness.operator
        if as_columns:
            take = (operator.process_block, operator.process_second_block)[side]
            take(columns_of(records, SCHEMAS[side], stamps))
        else:
            (self.harness.feed_block, self.harness.feed_second_block)[side](records, stamps)

    def watermark(self, watermark):
        try:
            self.harness.watermark(watermark)
        except Exception as error:  # noqa: BLE001 - both have to raise it
            self.failed = type(error), str(error)

    def given(self):
        found = list(map(repr, self.harness.output_with_timestamps))
        self.harness.output_with_timestamps.clear()
        return found, self.harness.context.metrics.counter("numLateRecordsDropped").get_count()


def kept(snapshot):
    """All windows, by key group: records in the order of arrival of their side."""
    return {
        (group, name): sorted(repr((*row[:2], sorted(row[2], key=lambda record: record.input))) for row in rows)
        for group, states in snapshot["keyed"].groups.items()
        for name, rows in states.items()
        if rows
    }


key, number = st.sampled_from("abc"), st.one_of(st.integers(-3, 9), st.just(2**62))
left = st.tuples(key, number)
right = st.tuples(number, key, st.sampled_from([0.5, -0.0]))
stamp = st.integers(-15, 30)
columns = st.sampled_from([True, True, True, False])
event = st.one_of(
    st.tuples(st.just(0), st.lists(st.tuples(left, stamp), min_size=1, max_size=10), columns),
    st.tuples(st.just(1), st.lists(st.tuples(right, stamp), min_size=1, max_size=10), columns),
    st.integers(-15, 35),
    st.sampled_from(["snapshot", "change over"]),
)


@given(
    st.lists(event, max_size=14),
    st.sampled_from(sorted(FUNCTIONS)),
    st.sampled_from(WINDOWS),
    st.sampled_from([1, 3, 999]),
)
def test_columns_give_and_keep_what_records_do(events, function, assigner, pairs):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(window_join, "_PAIRS", pairs)
        of_rows, of_columns = specs_of(function, assigner)
        rows, on_columns = Driven(of_rows), Driven(of_columns)
        watermark = -(2**63)
        for event in [*events, 2**63 - 1]:
            if isinstance(event, int):
                watermark = max(watermark, event)
                rows.watermark(watermark)
                on_columns.watermark(watermark)
                assert on_columns.failed == rows.failed
                if rows.failed:
                    return
            elif isinstance(event, str):
                in_rows, in_columns = rows.harness.snapshot(), on_columns.harness.snapshot()
                assert kept(in_columns) == kept(in_rows)
                if event == "change over":
                    rows, on_columns = Driven(of_rows, in_columns), Driven(of_columns, in_rows)
                    watermark = -(2**63)
            else:
                side, stamped, as_columns = event
                records, stamps = [record for record, _ in stamped], [at for _, at in stamped]
                rows.block(side, records, stamps, False)
                on_columns.block(side, records, stamps, as_columns)
            assert on_columns.given() == rows.given()


def on_columns(function="one", assigner=WINDOWS[0]):
    """Return an operator on columns."""
    return Driven(specs_of(function, assigner)[1])


def test_a_record_between_two_windows_is_not_late():
    rows, columns = map(Driven, specs_of("one", SlidingEventTimeWindows.of(4, 9)))
    for op, as_columns in ((rows, False), (columns, True)):
        op.watermark(3)
        op.block(0, [("a", 1), ("a", 2), ("a", 3)], [2, 5, 9], as_columns)
        op.block(1, [(1, "a", 0.5), (2, "a", 0.5)], [10, 6], as_columns)
        op.watermark(20)
    assert columns.given() == rows.given() == (["((3, 3, 0.5), 12)"], 1)


def give_both(op):
    op.block(0, [("a", 3), ("b", 1), ("a", 2**62 + 1)], [1, 2, 3], True)
    op.block(1, [(2, "a", 0.5), (1, "b", 0.5), (3, "c", 0.5)], [4, 5, 6], True)
    op.harness.watermark(9)


def test_blocks_are_computed_in_columns_and_the_function_is_called_only_where_they_cannot_be(monkeypatch):
    monkeypatch.setattr(window_join, "_PAIRS", 1)
    op, called = on_columns(), []
    op.harness.operator._panes._pairs = JoinPairs(
        UserFunction(lambda left, right: called.append((left, right)) or one(left, right))
    )
    give_both(op)
    large = ("a", 2**62 + 1)
    assert op.given()[0] == [
        "((3, 6, 0.5), 9)", f"(({large[1]}, {2 * large[1]}, 0.5), 9)", "((1, 1, 0.5), 9)"
    ]  # fmt: skip
    assert called == [(large, (2, "a", 0.5))]
    assert op.harness.operator._panes.gate.returns == 0


def test_lists_of_a_co_group_stay_columns():
    op, blocks = on_columns("those with others"), []
    op.harness.operator.output.emit_block = blocks.append
    give_both(op)
    [block] = blocks
    assert block.rows() == ([("a", 3), ("a", 2**62 + 1), ("b", 1)], [9, 9, 9])
    assert not op.given()[0]


def test_a_function_that_raises_does_so_itself():
    op = on_columns("divides")
    op.block(0, [("a", 1)], [1], True)
    op.block(1, [(7, "a", 0.5)], [1], True)
    with pytest.raises(ZeroDivisionError) as raised:
        op.harness.watermark(9)
    assert raised.traceback[-1].name == "divides"


@pytest.mark.parametrize("stamps", [None, [5, -(2**63)]])
def test_records_without_timestamps_are_refused(stamps):
    with pytest.raises(InvalidProgram, match="timestamp"):
        on_columns().block(0, [("a", 1), ("a", 2)], stamps, True)


def test_a_pane_keeps_the_order_of_arrival_of_each_side():
    pane, sides = JoinPane(tuple(SCHEMAS)), ([("b", 1), ("a", 1)], [(1, "a", 0.5), (2, "b", 0.5)], [("a", 9)])
    for number, records in enumerate(sides):
        block = columns_of(records, SCHEMAS[number % 2])
        pane.add(block.leaves[number % 2], [ListedRecords(block, None, number % 2)], block.length)
    stored = dict(pane.copied())
    assert [(key, [tuple(each)[:2] for each in records]) for key, records in stored.items()] == [
        ("b", [(1, ("b", 1)), (2, (2, "b", 0.5))]),
        ("a", [(1, ("a", 1)), (1, ("a", 9)), (2, (1, "a", 0.5))]),
    ]
    again = JoinPane(tuple(SCHEMAS))
    again.load(stored)
    assert dict(again.copied()) == stored
    assert [np.concatenate(each).tolist() for each in zip(*pane.pairs(2), strict=True)] == [[0, 1, 2], [1, 0, 0]]


# ---- programs

MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])


def first(record):
    return record[0]


TUMBLING = TumblingEventTimeWindows.of(200)


def joined(vectorized, assigner=TUMBLING, function=None, mode=None, method="join"):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    env.get_configuration().set_boolean("pipeline.vectorized", vectorized)
    if mode is not None:
        env.set_runtime_mode(mode)
    source = DataGeneratorSource(lambda n: (f"k{n % 50}", n * 7 // 3, n * 0.5), 2000)
    left, right = (env.from_source(source, MONOTONOUS, name) for name in ("left", "right"))
    windows = getattr(left, method)(right).where(first).equal_to(first).window(assigner)
    return env, windows.apply(function or (lambda left, right: (left[0], left[1] - right[1], right[2])))


def test_a_program_gives_the_same():
    found = []
    for vectorized in (True, False):
        _, stream = joined(vectorized, SlidingEventTimeWindows.of(400, 200))
        with stream.execute_and_collect() as results:
            found.append(sorted(results))
    assert found[0] == found[1]
    assert len(found[0]) > 2000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "join: vectorized"),
        ({"assigner": EventTimeSessionWindows.with_gap(5)}, "join: per record: joins in other windows than tumbling"),
        ({"assigner": TumblingProcessingTimeWindows.of(5)}, "join: per record: joins in other windows than tumbling"),
        ({"assigner": SlidingEventTimeWindows.of(50, 10)}, "join: per record: keeps each record in many windows"),
        ({"mode": RuntimeExecutionMode.BATCH}, "join: per record: sees its records one by one, which BATCH sorts by"),
        (
            {"method": "co_group", "function": lambda lefts, rights: [len(lefts)] if rights else []},
            "co_group: vectorized",
        ),
        ({"method": "co_group", "function": lambda lefts, rights: map(max, lefts)}, "co_group: per record: "),
        ({"function": lambda left, right: id(left)}, "join: per record: calls id()"),
    ],
)
def test_it_is_said_how_a_join_runs(options, said):
    env, stream = joined(True, **options)
    stream.sink_to(DiscardingSink())
    assert said in env.explain()
