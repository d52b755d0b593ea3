"""Operators over columns against the record path: the same results and the same snapshots, however blocks come."""

import pickle
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken import (
    AggregateFunction,
    Configuration,
    CountTumblingWindowAssigner,
    DataGeneratorSource,
    DataStream,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WatermarkStrategy,
)
from funken.columnar.expressions import schema_of_value
from funken.columnar.kernels.columns import columns_of
from funken.expr.types import BOOL, FLOAT, INT, STR, Atomic, Tuple, Type
from funken.operators.base import OperatorSpec
from funken.state.delta_tables import SnapshotWriter
from funken.testing import OperatorHarness


class ColumnsHarness(OperatorHarness):
    """Gives blocks as columns where their records have one shape."""

    def __init__(self, spec: OperatorSpec, watermark: int | None = None, **options: Any) -> None:
        operator = spec.build()
        if watermark is not None:
            operator.current_watermark = watermark  # as the restored task does
        super().__init__(operator, keyed=True, **options)

    def feed_columns(self, values: list[Any], timestamps: list[int] | None = None) -> None:
        schema = schema_of_value(values[0])
        if schema is None or any(schema_of_value(value) != schema for value in values):
            self.feed_block(values, timestamps)
            return
        self.operator.process_block(columns_of(values, schema, timestamps))


EXAMPLES = {INT: "i", FLOAT: "i / 7", BOOL: "i > 3", STR: "f'{i}'"}


def source_of(env: StreamExecutionEnvironment, schema: Type, count: int = 10) -> DataStream:
    """Return a source whose records are known to have a shape."""
    text = EXAMPLES[schema] if isinstance(schema, Atomic) else f"({', '.join(EXAMPLES[kind] for kind in schema)},)"
    function = eval(f"lambda i: {text}")
    return env.from_source(DataGeneratorSource(function, count), WatermarkStrategy.no_watermarks())


def both_specs(schema: Type, build: Callable[[DataStream], DataStream]) -> tuple[OperatorSpec, OperatorSpec]:
    """Return the spec of a program's last operator: vectorized, and per record."""
    specs = []
    for vectorized in (True, False):
        configuration = Configuration({"pipeline.vectorized": vectorized})
        env = StreamExecutionEnvironment.create_local_environment(1, configuration)
        build(source_of(env, schema))
        plan = env.compile()
        node = plan.vertices[-1].nodes[-1]
        decided = plan.decided("columns", node.id)
        assert (decided or "").startswith("vectorized") == vectorized
        specs.append(node.spec)
    assert type(specs[0]) is not type(specs[1])
    return specs[0], specs[1]


def sorted_state(snapshot: dict[str, Any]) -> Any:
    """Return a snapshot in an order that does not depend on the path."""
    keyed = snapshot["keyed"]
    if keyed is not None:
        groups = {
            group: {name: sorted(map(repr, kept)) for name, kept in states.items()}
            for group, states in sorted(keyed.groups.items())
        }
        keyed = replace(keyed, groups=groups)
    operator = snapshot["operator"]
    if isinstance(operator, dict):
        operator = {group: sorted(map(repr, entries)) for group, entries in sorted(operator.items())}
    return keyed, operator, snapshot["operator_state"]


SHAPE = Tuple((INT, INT, FLOAT, BOOL))
name = lambda record: record[0]  # noqa: E731
KEYED_BY = {"": name, " by pair": lambda record: (str(record[0]), record[1]), " by one": lambda record: (record[0],)}

PROGRAMS: dict[str, Any] = {
    "sum": lambda keyed: keyed.sum(1),
    "min": lambda keyed: keyed.min(1),
    "max": lambda keyed: keyed.max(-3),
    "min_by": lambda keyed: keyed.min_by(1),
    "max_by": lambda keyed: keyed.max_by(1),
    "key": lambda keyed: keyed.max_by(0),
    "record if greater": lambda keyed: keyed.reduce(lambda a, b: b if b[1] > a[1] else a),
    "so far if less": lambda keyed: keyed.reduce(lambda a, b: a if a[1] <= b[1] else b),
    "mixed": lambda keyed: keyed.reduce(lambda a, b: (a[0], a[1] + b[1], a[2], b[3])),
    "floats": lambda keyed: keyed.sum(2),
    "float of int": lambda keyed: keyed.reduce(lambda a, b: (a[0], a[1], a[2] + b[0] * 0.1, b[3])),
    "last": lambda keyed: keyed.reduce(lambda a, b: (b[0], b[1] + 1, b[2], True)),
    "computed": lambda keyed: keyed.reduce(lambda a, b: (a[0], a[1] + b[1] * 2, a[2], a[3])),
    "difference": lambda keyed: keyed.reduce(lambda a, b: (a[0], a[1] - 1, a[2], a[3])),
    "smaller": lambda keyed: keyed.reduce(lambda a, b: (a[0], a[1] if a[1] <= b[1] else b[1], a[2], a[3])),
    "greater": lambda keyed: keyed.reduce(lambda a, b: (a[0], max(b[1], a[1]), b[2], a[3])),
}
KEYS = st.integers(-3, 3) | st.sampled_from([0, 70_000, -(2**63), 2**63 - 1])
NUMBERS = st.integers(-9, 9) | st.sampled_from([2**62, -(2**62), -(2**63), 2**63 - 1])
FLOATS = st.sampled_from([0.0, -0.0, 1.5, float("inf")])
RECORDS = st.lists(st.tuples(KEYS, NUMBERS, FLOATS, st.booleans()), min_size=1, max_size=8)
SMALL = st.lists(st.tuples(st.integers(0, 2), st.integers(-9, 9), FLOATS, st.booleans()), min_size=1, max_size=8)
STEPS = st.lists(
    st.tuples(st.sampled_from(["columns", "columns", "columns", "list", "restore", "change"]), SMALL | RECORDS),
    min_size=1,
    max_size=6,
)
PLANS = {
    program + how: both_specs(SHAPE, lambda stream, build=build, key=key: build(stream.key_by(key)))
    for program, build in PROGRAMS.items()
    for how, key in KEYED_BY.items()
}


@settings(max_examples=40, deadline=None)
@given(program=st.sampled_from(sorted(PLANS)), steps=STEPS)
def test_both_paths_give_the_same_results_and_snapshots(program: str, steps: list[Any]) -> None:
    specs = PLANS[program]
    oracle, path = OperatorHarness(specs[1], keyed=True), 0
    harness = ColumnsHarness(specs[0])
    given_out: list[Any] = []
    for step, records in steps:
        oracle.feed_block(records)
        if step == "columns":
            harness.feed_columns(records) if path == 0 else harness.feed_block(records)
        else:
            harness.feed_block(records)
        if step in ("restore", "change"):
            given_out += harness.output_with_timestamps
            path = 1 - path if step == "change" else path
            harness = ColumnsHarness(specs[path], snapshots=[harness.snapshot()])
    given_out += harness.output_with_timestamps
    assert list(map(repr, given_out)) == list(map(repr, oracle.output_with_timestamps))
    assert sorted_state(harness.snapshot()) == sorted_state(oracle.snapshot())


def test_a_snapshot_has_every_key_once() -> None:
    harness = ColumnsHarness(PLANS["sum"][0])
    harness.feed_columns([(0, 1, 0.0, False), (1, 1, 0.0, False)])
    harness = ColumnsHarness(PLANS["sum"][0], snapshots=[harness.snapshot()])
    harness.feed_columns([(0, 1, 0.0, False)])
    harness.feed_block([(0, 1, 0.0, False)])
    harness.feed_columns([(0, 1, 0.0, False)])

    rows = [row for states in harness.snapshot()["keyed"].groups.values() for row in states["_rolling.aggregate"]]

    assert sorted(rows) == [(0, None, (0, 4, 0.0, False)), (1, None, (1, 1, 0.0, False))]


@pytest.mark.parametrize("width", [2, 3])
def test_a_snapshot_of_columns_can_be_rescaled_to_the_record_path(width: int) -> None:
    vector, plain = PLANS["sum"]
    records = [(key, key * 10, 0.5, True) for key in range(-20, 20)]
    columns = ColumnsHarness(vector)
    columns.feed_columns(records)
    kept = []
    for subtask in range(width):
        part = ColumnsHarness(plain, snapshots=[columns.snapshot()], subtask=subtask, parallelism=width)
        kept += [row for states in part.snapshot()["keyed"].groups.values() for row in states["_rolling.aggregate"]]
    assert sorted((key, value) for key, _, value in kept) == [(record[0], record) for record in records]


def test_many_keys_and_text_keys() -> None:
    def reduced(stream: DataStream) -> DataStream:
        return stream.key_by(name).reduce(lambda a, b: (a[0], a[1] + b[1]))

    records = [(f"k{number * 7919 % 18_001}", number) for number in range(20_000)]
    vector, plain = both_specs(Tuple((STR, INT)), reduced)
    columns, oracle = ColumnsHarness(vector), OperatorHarness(plain, keyed=True)
    for start in range(0, len(records), 15_000):
        columns.feed_columns(records[start : start + 15_000])
        oracle.feed_block(records[start : start + 15_000])
    assert columns.output == oracle.output


def test_floats_are_added_one_after_the_other() -> None:
    vector, plain = both_specs(Tuple((INT, FLOAT)), lambda stream: stream.key_by(name).sum(1))
    records = [(number * 7919 % 40 if number % 3 else 0, 0.1 * number) for number in range(3000)]
    columns, oracle = ColumnsHarness(vector), OperatorHarness(plain, keyed=True)
    for start in (0, 2000):
        columns.feed_columns(records[start : start + 2000])
        oracle.feed_block(records[start : start + 2000])
    assert columns.output == oracle.output


def test_text_that_is_not_the_key_stays_that_of_the_first_record() -> None:
    vector, plain = both_specs(Tuple((INT, STR, INT)), lambda stream: stream.key_by(name).sum(2))
    columns, oracle = ColumnsHarness(vector), OperatorHarness(plain, keyed=True)
    for records in ([(1, "a", 1), (2, "b", 2), (1, "c", 3)], [(2, "d", 4), (3, "e", 5)]):
        columns.feed_columns(records)
        oracle.feed_block(records)
    assert columns.output == oracle.output
    assert sorted_state(columns.snapshot()) == sorted_state(oracle.snapshot())


def test_an_overflow_goes_on_with_python_ints() -> None:
    vector, _ = PLANS["sum"]
    harness = ColumnsHarness(vector)
    for _ in range(3):
        harness.feed_columns([(1, 2**62, 0.5, True)])
    harness.feed_columns([(2, 1, 0.5, True)])
    assert [record[1] for record in harness.output] == [2**62, 2**63, 3 * 2**62, 1]


def test_a_variable_that_changes_while_the_job_runs_is_seen() -> None:
    limit = 5

    def capped(value: int) -> int:
        return value if value < limit else limit

    vector, _ = both_specs(INT, lambda stream: stream.map(capped))
    harness = ColumnsHarness(vector)
    harness.feed_columns([4, 6])
    limit = 7
    harness.feed_columns([4, 6, 8])
    assert harness.output == [4, 5, 4, 6, 7]


# ---- windows


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0.0, 1

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + 1, accumulator[1] + value[2], min(accumulator[2], value[1])

    def get_result(self, accumulator: Any) -> Any:
        return accumulator


class Latest(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 7, 0, False

    def add(self, value: Any, accumulator: Any) -> Any:
        count, _, _ = accumulator
        return count, value[1] * 2, value[1] > 2

    def get_result(self, accumulator: Any) -> Any:
        return accumulator


class Share(AggregateFunction):
    """An accumulator with names, and a result that may fail."""

    def create_accumulator(self) -> Any:
        return {"count": 0, "total": 0}

    def add(self, value: Any, accumulator: Any) -> Any:
        return {"count": accumulator["count"] + 1, "total": accumulator["total"] + value[1]}

    def get_result(self, accumulator: Any) -> Any:
        return accumulator["total"] / accumulator["count"], f"{accumulator['count']} records"

    def merge(self, a: Any, b: Any) -> Any:
        return {"count": a["count"] + b["count"], "total": a["total"] + b["total"]}


class Span(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 10**9, -(10**9)

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value[1], min(accumulator[1], value[1]), max(accumulator[2], value[1])

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, a: Any, b: Any) -> Any:
        return a[0] + b[0], min(a[1], b[1]), max(a[2], b[2])


SESSIONS = EventTimeSessionWindows.with_gap(5)
TUMBLING, SLIDING = TumblingEventTimeWindows.of(10), SlidingEventTimeWindows.of(10, 4)
WINDOWS: dict[str, Any] = {
    "sum": lambda keyed: keyed.window(TUMBLING).reduce(lambda a, b: (a[0], a[1] + b[1], a[2] + b[2], b[3])),
    "sliding": lambda keyed: keyed.window(SLIDING).reduce(lambda a, b: (a[0], a[1] + b[1], a[2], a[3])),
    "computed": lambda keyed: keyed.window(TUMBLING).reduce(lambda a, b: (a[0], a[1] + 3 * b[1], a[2] + b[0], a[3])),
    "extremes": lambda keyed: keyed.window(SLIDING).reduce(lambda a, b: (max(a[0], b[0]), min(a[1], b[1]), b[2], a[3])),
    "mean": lambda keyed: keyed.window(TUMBLING).aggregate(Mean(), lambda k, w, found: [(k, w.start, *found)]),
    "sliding mean": lambda keyed: keyed.window(SLIDING).aggregate(Mean()),
    "latest": lambda keyed: keyed.window(TUMBLING).aggregate(Latest()),
    "share": lambda keyed: keyed.window(TUMBLING).aggregate(Share()),
    "sliding share": lambda keyed: keyed.window(SLIDING).aggregate(Share()),
    "counts": lambda keyed: keyed.count_window(3).reduce(lambda a, b: (a[0], a[1] + b[1], a[2] + b[2], b[3])),
    "counts of one": lambda keyed: keyed.count_window(1).reduce(lambda a, b: (a[0], a[1] + b[1], a[2], b[3])),
    "counts of shares": lambda keyed: keyed.count_window(2).aggregate(Share()),
    "counts with a function": lambda keyed: keyed.count_window(2).aggregate(Mean(), lambda k, w, found: [(k, *found)]),
    "numbered counts": lambda keyed: keyed.window(CountTumblingWindowAssigner(3)).aggregate(
        Latest(), lambda k, w, found: [(k, w.id, *found)]
    ),
    "sessions of shares": lambda keyed: keyed.window(SESSIONS).aggregate(Share()),
    "sessions with a function": lambda keyed: keyed.window(SESSIONS).aggregate(
        Span(), lambda k, w, found: [(k, w.start, w.end, *found)]
    ),
    "processing time": lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(10)).aggregate(Mean()),
    "counts of all records": lambda keyed: keyed.count_window(3).apply(lambda k, w, found: [(k, len(found), found[0])]),
    "sliding counts": lambda keyed: keyed.count_window(4, 3).apply(lambda k, w, found: [(k, len(found), found[-1])]),
    "sliding shares": lambda keyed: keyed.count_window(3, 1).aggregate(Share()),
    "sessions of their own": lambda keyed: keyed.window(
        EventTimeSessionWindows.with_dynamic_gap(lambda r: max(1, r[1] % 9))
    ).apply(lambda k, w, found: [(k, w.end, found)]),
}
WINDOW_PLANS = {
    program + how: both_specs(SHAPE, lambda stream, build=build, key=key: build(stream.key_by(key)))
    for program, build in WINDOWS.items()
    for how, key in KEYED_BY.items()
}
STAMPED = st.tuples((SMALL | RECORDS).map(lambda records: records[0]), st.integers(0, 30))
WINDOW_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["columns", "columns", "columns", "list", "restore", "change"]),
        st.lists(STAMPED, min_size=1, max_size=8),
        st.integers(0, 12),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=40, deadline=None)
@given(program=st.sampled_from(sorted(WINDOW_PLANS)), steps=WINDOW_STEPS)
def test_windows_of_both_paths_are_alike(program: str, steps: list[Any]) -> None:
    specs = WINDOW_PLANS[program]
    oracle, path = OperatorHarness(specs[1], keyed=True), 0
    harness = ColumnsHarness(specs[0])
    given_out: list[Any] = []
    expected: list[Any] = []
    watermark, late, oracle_late = -100, 0, 0
    for step, stamped, ahead in steps:
        records, stamps = [record for record, _ in stamped], [at for _, at in stamped]
        oracle.feed_block(records, stamps)
        if step == "columns" and path == 0:
            harness.feed_columns(records, stamps)
        else:
            harness.feed_block(records, stamps)
        if step in ("restore", "change"):  # the oracle too: what is restored comes by key group
            given_out += harness.output_with_timestamps
            expected += oracle.output_with_timestamps
            late += harness.operator._late.get_count()
            oracle_late += oracle.operator._late.get_count()
            path = 1 - path if step == "change" else path
            now = harness.now
            harness = ColumnsHarness(specs[path], watermark, snapshots=[harness.snapshot()], now=now)
            oracle = ColumnsHarness(specs[1], watermark, snapshots=[oracle.snapshot()], now=now)
        watermark = max(watermark, ahead * 3)
        for each in (oracle, harness):
            each.watermark(watermark)
            each.processing_time(watermark)
    assert sorted_state(harness.snapshot()) == sorted_state(oracle.snapshot())
    oracle.end_input()
    harness.end_input()
    given_out += harness.output_with_timestamps
    expected += oracle.output_with_timestamps
    assert list(map(repr, given_out)) == list(map(repr, expected))
    assert late + harness.operator._late.get_count() == oracle_late + oracle.operator._late.get_count()


class Held:
    """What the cuts of an operator say, one after the other, each taken row by row while blocks come."""

    def __init__(self) -> None:
        self.rows: dict[Any, Any] = {}
        self.complete = True

    def cut(self, harness: OperatorHarness, meanwhile: Callable[[], Iterator[None]]) -> None:
        store, saving = harness.context.keyed, SnapshotWriter()
        assert store is not None
        steps, self.complete = store.begin_snapshot(saving, self.complete, chunk=1), False
        for _ in meanwhile():
            next(steps, None)
        deque(steps, maxlen=0)
        groups, deleted = pickle.loads(pickle.dumps(saving.take()))
        for slots in (slot for states in deleted.values() for found in states.values() for slot in found):
            self.rows.pop(slots, None)
        self.rows |= rows_of(groups)


def rows_of(groups: dict[int, dict[str, list[Any]]]) -> dict[Any, Any]:
    return {row[:2]: row[2] for states in groups.values() for found in states.values() for row in found}


@settings(max_examples=12, deadline=None)
@given(program=st.sampled_from(sorted(WINDOWS)), phases=st.lists(st.tuples(WINDOW_STEPS, WINDOW_STEPS), max_size=2))
def test_a_cut_of_windows_stays_as_it_was_while_blocks_come(program: str, phases: list[Any]) -> None:
    harness, oracle, held = (
        ColumnsHarness(WINDOW_PLANS[program][0]),
        OperatorHarness(WINDOW_PLANS[program][1], keyed=True),
        Held(),
    )
    watermark = -100

    def fed(steps: list[Any]) -> Iterator[None]:
        nonlocal watermark
        for step, stamped, ahead in steps:
            records, stamps = [record for record, _ in stamped], [at for _, at in stamped]
            oracle.feed_block(records, stamps)
            (harness.feed_columns if step == "columns" else harness.feed_block)(records, stamps)
            watermark = max(watermark, ahead * 3)
            for each in (oracle, harness):
                each.watermark(watermark)
                each.processing_time(watermark)
            yield

    for before, meanwhile in phases:
        deque(fed(before), maxlen=0)
        expected = rows_of(oracle.snapshot()["keyed"].groups)
        held.cut(harness, lambda steps=meanwhile: fed(steps))
        assert sorted(map(repr, held.rows.items())) == sorted(map(repr, expected.items()))


@settings(max_examples=25, deadline=None)
@given(program=st.sampled_from(sorted(PROGRAMS)), phases=st.lists(st.tuples(STEPS, STEPS), max_size=2))
def test_a_cut_of_aggregates_stays_as_it_was_while_blocks_come(program: str, phases: list[Any]) -> None:
    harness, oracle, held = ColumnsHarness(PLANS[program][0]), OperatorHarness(PLANS[program][1], keyed=True), Held()

    def fed(steps: list[Any]) -> Iterator[None]:
        for step, records in steps:
            oracle.feed_block(records)
            (harness.feed_columns if step == "columns" else harness.feed_block)(records)
            yield

    for before, meanwhile in phases:
        deque(fed(before), maxlen=0)
        expected = rows_of(oracle.snapshot()["keyed"].groups)
        held.cut(harness, lambda steps=meanwhile: fed(steps))
        assert sorted(map(repr, held.rows.items())) == sorted(map(repr, expected.items()))
