"""Records that are folded before an exchange: the windows behind it cannot tell."""

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken import (
    AggregateFunction,
    Configuration,
    DataGeneratorSource,
    DataStream,
    DiscardingSink,
    OutputTag,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WatermarkStrategy,
)
from funken.columnar.kernels.columns import columns_of
from funken.columnar.kernels.evaluation import evaluate
from funken.columnar.keyed.codec import decode_block, encode_block
from funken.columnar.keyed.groups import Combiner, Partials
from funken.expr.types import FLOAT, INT, STR, Tuple
from funken.operators.base import OperatorSpec
from funken.plan.nodes import ColumnarHash, PreAggregation
from funken.runtime.exchange.gate import BlockKind, decode_records, read_header
from funken.runtime.exchange.writers import IngestionTime, writer_for
from funken.testing import OperatorHarness

TUMBLING, SLIDING = TumblingEventTimeWindows.of(10), SlidingEventTimeWindows.of(10, 4)


class Totals(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 5, 1000, ""

    def add(self, value: Any, accumulator: Any) -> Any:
        count, total, least, _ = accumulator
        return count + 3, total + value[1], min(least, value[0]), value[2]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator


class Mean(Totals):
    """Adds a float."""

    def add(self, value: Any, accumulator: Any) -> Any:
        count, total, least, text = accumulator
        return count + 1, total + value[3], least, text


class Large(Totals):
    """Adds more than fits a block."""

    def add(self, value: Any, accumulator: Any) -> Any:
        count, total, least, text = accumulator
        return count + 2**40, total, least, text


class Range(Totals):
    """Needs one field for two."""

    def add(self, value: Any, accumulator: Any) -> Any:
        count, total, least, text = accumulator
        return count, total + value[1], min(least, value[1]), text


WINDOWS: dict[str, Any] = {
    "sum": lambda s: s.key_by(lambda r: r[0]).window(TUMBLING).reduce(lambda a, b: (a[0], a[1] + b[1], a[2], a[3])),
    "extremes": lambda s: (
        s.key_by(lambda r: r[2]).window(SLIDING).reduce(lambda a, b: (max(a[0], b[0]), min(a[1], b[1]), b[2], a[3]))
    ),
    "last": lambda s: (
        s.key_by(lambda r: r[0] % 2)
        .window(TumblingEventTimeWindows.of(9, 2))
        .reduce(lambda a, b: (b[0], a[1] + b[1], b[2], b[3]))
    ),
    "aggregate": lambda s: s.key_by(lambda r: r[2]).window(SLIDING).aggregate(Totals()),
    "one key": lambda s: s.key_by(lambda r: 7).window(TUMBLING).aggregate(Totals(), lambda k, w, rs: [(w.end, *rs)]),
}


def stream_of(env: StreamExecutionEnvironment, records: int = 10) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r[1])
    source = DataGeneratorSource(lambda i: (i % 3, i, f"k{i % 2}", i / 2), records)
    return env.from_source(source, strategy, "records")


def compiled(build: Any, vectorized: bool = True) -> tuple[OperatorSpec, Any, str]:
    """Return a window as it is planned, the partitioning before it, and what ``explain`` says of it."""
    configuration = Configuration({"pipeline.vectorized": vectorized})
    env = StreamExecutionEnvironment.create_local_environment(1, configuration)
    build(stream_of(env))
    plan = env.compile()
    node = plan.vertices[1].nodes[0]
    said = plan.decided("pre-aggregation", node.id) or plan.decided("columns", node.id) or ""
    return node.spec, plan.edges[0].partitioning, said


PLANS = {name: (compiled(build), compiled(build, vectorized=False)) for name, build in WINDOWS.items()}

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["columns", "columns", "list", "records"]),
        st.integers(1, 30),  # how many records
        st.integers(0, 12),  # how many ms they are apart
        st.integers(0, 12),  # how far the watermark goes
    ),
    min_size=1,
    max_size=6,
)


def drawn(dice: random.Random, count: int, first: int, apart: int) -> tuple[list[Any], list[int]]:
    """Return records and their times; few numbers are so large that few of them can be added."""
    large = dice.choice([0, 0, 2**62])
    records = [
        (dice.randrange(3), dice.choice([*range(-3, 4), large]), dice.choice("xy"), dice.choice([0.5, -0.0, 2.0]))
        for _ in range(count)
    ]
    return records, [first + dice.randrange(apart + 1) for _ in range(count)]


@settings(max_examples=50, deadline=None)
@given(program=st.sampled_from(sorted(WINDOWS)), steps=STEPS, seed=st.integers(0, 10**6))
def test_a_window_of_partials_is_one_of_records(program: str, steps: list[Any], seed: int) -> None:
    """In the order of the results, late records, snapshots; and the partials may be taken as records at any time."""
    dice = random.Random(seed)
    (spec, partitioning, _), (plain, _, _) = PLANS[program]
    before: PreAggregation = partitioning.pre_aggregation
    combiner = Combiner(before.roles, before.pane, before.offset, least=1, worth=1)
    found, oracle = OperatorHarness(spec, keyed=True), OperatorHarness(plain, keyed=True)
    watermark = -100
    for step, count, apart, ahead in steps:
        records, stamps = drawn(dice, count, max(0, watermark - 8), apart)
        oracle.feed_block(records, stamps)
        block = columns_of(records, Tuple((INT, INT, STR, FLOAT)), stamps)
        key: Any = evaluate(partitioning.traced.result, len(records), block)
        folded, _ = combiner.combine(block, key)
        crossed = decode_block(encode_block(folded))
        assert crossed.records == len(records)
        if step == "columns":
            found.operator.process_block(crossed)
        elif step == "list":
            found.feed_block(*crossed.rows())
        else:
            found.feed_block(records, stamps)
        watermark = max(watermark, max(watermark, 0) + ahead - 4)
        for each in (found, oracle):
            each.watermark(watermark)
    assert repr(found.snapshot()["keyed"]) == repr(oracle.snapshot()["keyed"])
    for each in (found, oracle):
        each.end_input()
    assert repr(found.output_with_timestamps) == repr(oracle.output_with_timestamps)
    assert found.operator._late.get_count() == oracle.operator._late.get_count()


@settings(max_examples=8, deadline=None)
@given(
    parallelism=st.sampled_from([1, 2, 4]),
    width=st.sampled_from([1, 3]),
    block=st.sampled_from([1, 20, 300]),
    disorder=st.booleans(),
    sliding=st.booleans(),
)
def test_sums_are_those_of_lists(parallelism: int, width: int, block: int, disorder: bool, sliding: bool) -> None:
    size, slide = (60, 20) if sliding else (50, 50)
    configuration = Configuration({"execution.block.records": block})
    env = StreamExecutionEnvironment.create_local_environment(parallelism, configuration)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(60).with_timestamp_assigner(lambda r, _: r[2])
    made: Any = (lambda i: (i % 5, i, i // 4 + i * 17 % 61)) if disorder else (lambda i: (i % 5, i, i // 4))
    source, records = DataGeneratorSource(made, 600), list(map(made, range(600)))
    keyed = env.from_source(source, strategy).set_parallelism(width).key_by(lambda r: r[0])
    windows = keyed.window(SlidingEventTimeWindows.of(size, slide))
    sums = windows.reduce(
        lambda a, b: (a[0], a[1] + b[1], a[2]), lambda key, window, found: [(key, window.start, found[0][1])]
    )
    assert "pre-aggregation: window reduce: before the exchange" in env.explain()

    expected: Counter[tuple[int, int]] = Counter()
    for key, value, at in records:
        for start in range(at - at % slide, at - size, -slide):
            expected[key, start] += value
    with sums.execute_and_collect() as results:
        assert {(key, start): total for key, start, total in results} == dict(expected)


REFUSED: dict[str, tuple[str, Any]] = {
    "a float is added": (
        "adds floats, whose sum depends on the order",
        lambda s: s.key_by(lambda r: r[0]).window(TUMBLING).reduce(lambda a, b: (a[0], a[1], a[2], a[3] + b[3])),
    ),
    "a float is added to an accumulator": (
        "adds floats, whose sum depends on the order",
        lambda s: s.key_by(lambda r: r[0]).window(TUMBLING).aggregate(Mean()),
    ),
    "one field is added and compared": (
        "aggregates one field in two ways",
        lambda s: s.key_by(lambda r: r[0]).window(TUMBLING).aggregate(Range()),
    ),
    "more than a field is added": (
        "computes with a record before it adds it",
        lambda s: s.key_by(lambda r: r[0]).window(TUMBLING).reduce(lambda a, b: (a[0], a[1] + 2 * b[1], a[2], a[3])),
    ),
    "a first record counts differently": (
        "computes with a record before it adds it",
        lambda s: s.key_by(lambda r: r[0]).window(TUMBLING).reduce(lambda a, b: (a[0], a[1] + 1, a[2], a[3])),
    ),
    "what is added is large": (
        "adds a constant that is no small int",
        lambda s: s.key_by(lambda r: r[0]).window(TUMBLING).aggregate(Large()),
    ),
    "the key is added up": (
        "changes a field of which the key is computed",
        lambda s: s.key_by(lambda r: r[1] % 3).window(TUMBLING).reduce(lambda a, b: (a[0], a[1] + b[1], a[2], a[3])),
    ),
    "the last record counts": (
        "keeps the last record of windows that overlap",
        lambda s: s.key_by(lambda r: r[2]).window(SLIDING).reduce(lambda a, b: (a[0], a[1] + b[1], a[2], b[3])),
    ),
    "late records are wanted": (
        "late records are wanted one by one",
        lambda s: (
            s.key_by(lambda r: r[0])
            .window(TUMBLING)
            .side_output_late_data(OutputTag("late"))
            .reduce(lambda a, b: (a[0], a[1] + b[1], a[2], a[3]))
        ),
    ),
    "there are gaps": (
        "its windows have gaps between them",
        lambda s: (
            s.key_by(lambda r: r[0])
            .window(SlidingEventTimeWindows.of(4, 10))
            .reduce(lambda a, b: (a[0], a[1] + b[1], a[2], a[3]))
        ),
    ),
    "processing time": (
        "the window of a record is known only where it arrives",
        lambda s: (
            s.key_by(lambda r: r[0])
            .window(TumblingProcessingTimeWindows.of(10))
            .reduce(lambda a, b: (a[0], a[1] + b[1], a[2], a[3]))
        ),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_explain_says_why_a_window_is_not_pre_aggregated(case: str) -> None:
    reason, build = REFUSED[case]
    _, partitioning, said = compiled(build)
    assert said == f"not before the exchange: {reason}"
    assert partitioning.pre_aggregation is None


def test_a_variable_may_change() -> None:
    limit = 5

    def capped(a: Any, b: Any) -> Any:
        return a[0], min(a[1], limit), a[2], a[3]

    _, partitioning, said = compiled(lambda s: s.key_by(lambda r: r[0]).window(TUMBLING).reduce(capped))
    assert said == "not before the exchange: its function uses variables, which may change"
    assert partitioning.pre_aggregation is None


def test_windows_that_fire_again_for_each_late_record_are_not_vectorized_at_all() -> None:
    def build(stream: DataStream) -> DataStream:
        windows = stream.key_by(lambda r: r[0]).window(TUMBLING).allowed_lateness(5)
        return windows.reduce(lambda a, b: (a[0], a[1] + b[1], a[2], a[3]))

    _, partitioning, said = compiled(build)
    assert said == "per record: windows with triggers, evictors or lateness have no vectorized form"
    assert getattr(partitioning, "pre_aggregation", None) is None


def test_it_can_be_turned_off() -> None:
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.pre-aggregation": False}))
    WINDOWS["sum"](stream_of(env))
    assert "columns: window reduce: vectorized\n" in env.explain() + "\n"
    assert "\n  pre-aggregation: off: pipeline.pre-aggregation is false" in env.explain()
    assert env.compile().edges[0].partitioning.pre_aggregation is None  # type: ignore[attr-defined]


# ---- the writer


class Sent:
    """A writer in front of a window of sums, and what it sent."""

    def __init__(self, records: int = 100) -> None:
        env = StreamExecutionEnvironment.create_local_environment(2)
        pairs = env.from_source(DataGeneratorSource(lambda i: (i, i), 10), WatermarkStrategy.no_watermarks())
        pairs.key_by(lambda pair: pair[0]).window(TUMBLING).reduce(lambda a, b: (a[0], a[1] + b[1]))
        self.edge = env.compile().edges[0]
        assert isinstance(self.edge.partitioning, ColumnarHash)
        self.blocks: list[Any] = []
        self.writer = writer_for(self.edge, 0, "pairs", self.send, IngestionTime(), records, 1 << 20)

    def send(self, target: int, block: bytes) -> None:
        if read_header(block).kind == BlockKind.DATA:
            self.blocks.append(decode_records(block))

    def emit(self, keys: range, value: int = 1) -> list[Any]:
        """Emit a record of every key; return what was sent."""
        self.writer.emit_block(columns_of([(key, value) for key in keys], Tuple((INT, INT)), [0] * len(keys)))
        self.writer.flush()
        sent, self.blocks = self.blocks, []
        return sent


def test_a_block_is_folded_and_counts_as_what_it_was() -> None:
    sent = Sent()
    stamps = [number // 100 * 10 for number in range(200)]
    sent.writer.emit_block(columns_of([(number % 10, 1) for number in range(200)], Tuple((INT, INT)), stamps))
    sent.writer.flush()
    assert all(type(each) is Partials for each in sent.blocks)
    assert sum(len(each) for each in sent.blocks) == 20
    assert sum(each.records for each in sent.blocks) == sent.writer.records == 200
    found = Counter[int]()
    for each in sent.blocks:
        for key, value in each.to_list():
            found[key] += value
    assert found == Counter({key: 20 for key in range(10)})


def test_too_many_keys_too_few_records_and_large_numbers_are_sent_as_they_are() -> None:
    sent = Sent()
    assert [type(each).__name__ for each in sent.emit(range(0, 40))] == ["Columns", "Columns"]
    for _ in range(3):
        assert sum(len(each) for each in sent.emit(range(1000, 1200))) == 200
    large_writer = Sent()
    large_writer.writer.emit_block(columns_of([(1, 2**60)] * 200, Tuple((INT, INT)), [0] * 200))
    large_writer.writer.flush()
    assert [len(each) for each in large_writer.blocks] == [200]


def test_what_waits_to_be_sent_stands_for_so_many_records() -> None:
    sent = Sent(records=100)
    block = columns_of([(number % 2, 1) for number in range(800)], Tuple((INT, INT)), [0] * 800)
    for _ in range(20):
        sent.writer.emit_block(block)
    assert sum(each.records for each in sent.blocks) > 9_000
    assert max(each.records for each in sent.blocks) <= 4 * 8 * 100 + 800


def test_blocks_are_skipped_after_one_with_too_many_keys() -> None:
    combiner = Combiner(("first", "sum"), 10, 0, least=1)

    def rows_of(keys: int) -> int:
        block = columns_of([(number % keys, 1) for number in range(100)], Tuple((INT, INT)), [0] * 100)
        return len(combiner.combine(block, block.leaves[0])[0])

    assert rows_of(100) == 100
    assert [rows_of(5) for _ in range(3)] == [100, 5, 5]
    assert [rows_of(keys) for keys in (100, 100, 100, 5, 5, 5)] == [100, 100, 100, 100, 100, 5]


def test_what_a_barrier_overtakes_is_records() -> None:
    sent = Sent()
    sent.writer.emit_block(columns_of([(number % 4, number) for number in range(100)], Tuple((INT, INT)), [3] * 100))
    overtaken = [block.rows() for block in sent.writer.overtaking_barrier(1, b"")]
    values = [value for values, _ in overtaken for value in values]
    assert len(values) == sum(len(stamps or []) for _, stamps in overtaken) == 100
    assert Counter(key for key, _ in values) == Counter({key: 25 for key in range(4)})
    assert sum(value for _, value in values) == sum(range(100))


def test_the_metrics_count_records() -> None:
    env = StreamExecutionEnvironment.create_local_environment(2, Configuration({"execution.block.records": 100}))
    WINDOWS["sum"](stream_of(env, 5000)).sink_to(DiscardingSink())
    client = env._submit("counted")
    client.run()
    vertices = [metrics for task in client.metrics().values() for metrics in task.vertices.items()]
    assert sum(metrics.records_in for number, metrics in vertices if number == 1) == 5000
    assert sum(metrics.records_out for number, metrics in vertices if number == 0) == 5000
