"""Whole programs, vectorized and not: the same results, at every parallelism; and what ``explain`` says of them."""

import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pytest

from funken import (
    AggregateFunction,
    Configuration,
    DataGeneratorSource,
    DataStream,
    DiscardingSink,
    KeyedCoProcessFunction,
    KeyedStream,
    MapFunction,
    NumberSequenceSource,
    Row,
    RuntimeExecutionMode,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.errors import OperatorFailed
from funken.plan.nodes import ColumnarHash, Hash, Rebalance

MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()
BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(40)
UNTIMED = WatermarkStrategy.no_watermarks()


class Negate(MapFunction):
    def map(self, value: Any) -> Any:
        return (value[0], -value[1], value[2])


class Opaque(MapFunction):
    """Refused: it uses its object."""

    offset = 1

    def map(self, value: Any) -> Any:
        return (value[0], value[1] + self.offset, value[2])


MAPS: list[Any] = [
    lambda r: (r[0], r[1] + 1, r[2]),
    lambda r: (r[1] % 5, r[1] * 3, r[2]),
    lambda r: (r[0], r[1] if r[1] % 3 else 0, r[2]),
    lambda r: (r[0], r[1], f"{r[2]}/{r[0]}"),
    lambda r: (r[0], r[1] * 2**52, r[2]),  # some blocks overflow
    lambda r: (r[0], [r[1]][0], r[2]),
    Negate(),
    Opaque(),
]
FILTERS: list[Any] = [
    lambda r: r[1] % 7,
    lambda r: "9" in r[2] or r[0] > 1,
    lambda r: r[2].endswith("1") or r[2].startswith("k2"),
    lambda r: True,
    lambda r: r[1] in {r[1]},
    lambda r: "1/" in f"{r[1]}/{r[2]}" or len(f"{r[1]}{r[2]}") == 4,
]
KEYS: list[Any] = [
    lambda r: r[0],
    lambda r: r[2],
    lambda r: r[1],
    lambda r: r[1] * 1_000_003,
    lambda r: (r[0], r[2]),
    lambda r: f"key {r[0]}",
]
ENDS: list[Any] = [
    lambda keyed: keyed.sum(1),
    lambda keyed: keyed.max(1),
    lambda keyed: keyed.min_by(1),
    lambda keyed: keyed.reduce(lambda a, b: (b[0], a[1] + b[1], b[2])),
    lambda keyed: keyed.reduce(lambda a, b: (b[0], min(a[1], b[1]), b[2])),
    lambda keyed: keyed.map(lambda r: (r[0], r[1])),
    lambda keyed: keyed.window(TumblingEventTimeWindows.of(50)).reduce(lambda a, b: (a[0], a[1] + b[1], a[2])),
    lambda keyed: keyed.window(SlidingEventTimeWindows.of(60, 25)).reduce(lambda a, b: (a[0], a[1] + b[1], b[2])),
]


class Totals(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0, 10**9

    def add(self, value: Any, accumulator: Any) -> Any:
        count, total, least = accumulator
        return count + 1, total + value[1], min(least, value[0])

    def get_result(self, accumulator: Any) -> Any:
        return accumulator


#: their results do not depend on the order in which the records of two subtasks come
UNORDERED: list[Any] = [
    lambda keyed: keyed.window(TumblingEventTimeWindows.of(50)).aggregate(Totals()),
    lambda keyed: keyed.window(SlidingEventTimeWindows.of(60, 25)).aggregate(Totals()),
    lambda keyed: keyed.map(lambda r: (r[0], r[1])),
]


def with_key(record: Any, ctx: Any) -> Any:
    return [(ctx.get_current_key(), ctx.timestamp(), record)]


class Latest(KeyedCoProcessFunction):
    """Pairs records of the second input with the latest of the first, and has timers."""

    def open(self, runtime_context: Any) -> None:
        self._latest = runtime_context.get_state(ValueStateDescriptor("latest"))

    def process_element1(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() // 100 * 100 + 99)
        self._latest.update(value)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield ctx.get_current_key(), value

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp, ctx.get_current_key()


def with_itself(keyed: KeyedStream) -> DataStream:
    again = keyed.filter(lambda r: True).key_by(lambda r: r[0])
    return keyed.connect(again).process(Latest())


#: operators that work record by record, behind the exchange to which columns come
PER_RECORD: list[Any] = [
    lambda keyed: keyed.process(with_key),
    lambda keyed: keyed.window(TumblingEventTimeWindows.of(50)).apply(
        lambda key, window, rs: [(key, window.end, sorted(rs))]
    ),
    with_itself,
]


def environment(parallelism: int, vectorized: bool, batch: bool = False) -> StreamExecutionEnvironment:
    configuration = Configuration({"pipeline.vectorized": vectorized, "execution.block.records": 60})
    env = StreamExecutionEnvironment.create_local_environment(parallelism, configuration)
    return env.set_runtime_mode(RuntimeExecutionMode.BATCH if batch else RuntimeExecutionMode.STREAMING)


def random_program(seed: int, env: StreamExecutionEnvironment, width: int, ends: list[Any]) -> DataStream:
    """Return a program, the same for the same seed, with ``width`` subtasks before its exchange."""
    dice = random.Random(seed)
    strategy = dice.choice([MONOTONOUS, BOUNDED]).with_timestamp_assigner(lambda r, _: r[1] // 2)
    source = DataGeneratorSource(lambda i: (i % 4, i, f"k{i % 3}"), 400)
    if dice.random() < 0.5:
        stream = env.from_source(source, strategy).set_parallelism(width)
    else:
        stream = env.from_source(source, UNTIMED).set_parallelism(width)
        stream = stream.assign_timestamps_and_watermarks(strategy).set_parallelism(width)
    for _ in range(dice.randrange(3)):
        mapped = dice.random() < 0.6
        stream = stream.map(dice.choice(MAPS)) if mapped else stream.filter(dice.choice(FILTERS))
        stream = stream.set_parallelism(width)
        if dice.random() < 0.15:
            stream = stream.disable_chaining()
    return dice.choice(ends)(stream.key_by(dice.choice(KEYS)))


def collected(stream: DataStream) -> list[str]:
    with stream.execute_and_collect() as records:
        return [repr(record) for record in records]


@dataclass(frozen=True)
class Reading:
    key: int
    total: int
    name: str


class Sale(NamedTuple):
    key: int
    total: int
    name: str


def added(a: Reading, b: Reading) -> Reading:
    return replace(a, total=a.total + b.total)


#: programs over records with named fields: what makes them, their key, what becomes of two, and what follows
NAMED: dict[str, tuple[Any, Any, Any, Any]] = {
    "dicts": (
        lambda i: {"key": i % 4, "total": i, "name": f"k{i % 3}"},
        lambda r: r["name"],
        lambda a, b: {**a, "total": a["total"] + b["total"]},
        lambda r: {"name": r.get("name").upper(), "even": r["total"] % 2 == 0},
    ),
    "dataclasses": (
        lambda i: Reading(i % 4, i, f"k{i % 3}"),
        lambda r: r.key,
        added,
        lambda r: replace(r, name=r.name if r.total % 2 else "even"),
    ),
    "named tuples": (
        lambda i: Sale(i % 4, total=i, name=f"k{i % 3}"),
        lambda r: r.key,
        lambda a, b: a._replace(total=a.total + b[1]),
        lambda r: r._asdict(),
    ),
    "rows": (
        lambda i: Row(key=i % 4, total=i, name=f"k{i % 3}"),
        lambda r: r["key"],
        lambda a, b: Row(key=a.key, total=a.total + b.total, name=b.name),
        lambda r: (r.name, r.total, None if r.key else r.key),
    ),
}


@pytest.mark.parametrize("windows", [False, True], ids=["running", "windows"])
@pytest.mark.parametrize("form", NAMED)
def test_records_with_named_fields_give_the_same_results_on_both_paths(form: str, windows: bool) -> None:
    make, key, join, end = NAMED[form]

    def program(env: StreamExecutionEnvironment) -> DataStream:
        timed = MONOTONOUS.with_timestamp_assigner(lambda r, at: at)
        strategy = UNTIMED if not windows else timed
        stamped = MONOTONOUS.with_timestamp_assigner(lambda i, _: i // 2)
        numbers = env.from_source(NumberSequenceSource(0, 399), stamped).set_parallelism(
            1
        )  # a running reduce shows the order
        made = numbers.map(make).set_parallelism(1).name("made")
        keyed = made.assign_timestamps_and_watermarks(strategy).set_parallelism(1).key_by(key)
        joined = keyed.window(TumblingEventTimeWindows.of(50)).reduce(join) if windows else keyed.reduce(join)
        return joined.name("joined").map(end).name("end")

    for parallelism in (1, 2):
        expected, found = (collected(program(environment(parallelism, vectorized))) for vectorized in (False, True))
        assert Counter(found) == Counter(expected)
    env = environment(1, True)
    program(env).sink_to(DiscardingSink())
    said = env.explain()
    vectorized = ("made", "joined") if windows else ("made", "joined", "end")
    assert [name for name in vectorized if f"columns: {name}: vectorized" not in said] == []


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(n, marks=pytest.mark.simulation) for n in range(3, 120))])
def test_a_random_program_gives_the_same_results_on_both_paths(seed: int) -> None:
    batch = seed % 6 == 5
    for parallelism, width, ends in ((1, 1, ENDS), (2, 1, ENDS), (4, 1, ENDS), (2, 2, UNORDERED), (4, 4, UNORDERED)):
        expected, found = (
            collected(random_program(seed, environment(parallelism, vectorized, batch), width, ends))
            for vectorized in (False, True)
        )
        assert Counter(found) == Counter(expected)
        if parallelism == 1 and not batch:  # in BATCH, records come key after key; columns in the order of arrival
            assert found == expected


@pytest.mark.parametrize("end", PER_RECORD, ids=["process", "window", "connect"])
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(n, marks=pytest.mark.simulation) for n in range(3, 40))])
def test_columns_that_end_behind_an_exchange_give_the_same_records(seed: int, end: Any) -> None:
    batch = seed % 3 == 2
    for parallelism, width in ((1, 1), (2, 1), (4, 4)):
        expected, found = (
            collected(random_program(seed, environment(parallelism, vectorized, batch), width, [end]))
            for vectorized in (False, True)
        )
        assert Counter(found) == Counter(expected)
        if parallelism == 1 and end is not with_itself:
            assert found == expected


def test_columns_cross_a_keyed_exchange_to_an_operator_that_takes_records() -> None:
    env, seen = environment(2, True), list[int]()
    pairs = numbers(env).map(lambda i: (i % 10, i)).name("pairs")
    pairs.key_by(lambda pair: pair[0]).process(with_key).name("traced")
    pairs.key_by(lambda pair: len(seen)).process(with_key).name("opaque")
    pairs.rebalance().process(lambda pair, ctx: [pair, len(seen)]).name("by turns")
    pairs.key_by(lambda pair: pair[0]).connect(pairs.key_by(lambda pair: pair[1])).process(Latest()).name("connected")
    pairs.key_by(lambda pair: pair[0]).sum(1).name("summed").print()
    plan = env.compile()
    names = {vertex.id: vertex.nodes[0].name for vertex in plan.vertices}
    kinds = [(names[edge.target], type(edge.partitioning)) for edge in plan.edges]
    assert Counter(kinds) == {
        ("traced", ColumnarHash): 1,
        ("opaque", Hash): 1,
        ("by turns", Rebalance): 1,
        ("connected", ColumnarHash): 2,
        ("summed", ColumnarHash): 1,
    }
    to_records = {
        names[edge.target] for edge in plan.edges if edge.partitioning.form and edge.partitioning.form.to_records
    }
    assert to_records == {"traced", "by turns", "connected"}


def numbers(env: StreamExecutionEnvironment, count: int = 100) -> DataStream:
    return env.from_source(NumberSequenceSource(0, count - 1), UNTIMED, "numbers")


def test_explain_tells_the_path_of_every_operator_and_why() -> None:
    env = environment(2, True)
    seen: list[int] = []
    pairs = numbers(env).map(lambda i: (i % 10, 1)).name("pairs")
    pairs.key_by(lambda pair: pair[0]).sum(1).sink_to(DiscardingSink())
    pairs.filter(lambda pair: seen).name("seen").print()

    assert env.explain() == (
        "Flink Streaming Job: 2 stages, 4 task slots\n"
        "stage 0 (width 2)\n"
        "  [0] numbers -> pairs -> seen -> print  x2\n"
        "      columns: numbers: vectorized\n"
        "      columns: pairs: vectorized\n"
        "      columns: seen: per record: uses the variable 'seen' of an enclosing function, a list\n"
        "      columns: print: per record: 'seen' gives it single records\n"
        "      fusion: one loop: seen (inlined)\n"
        "      -> [1] by HASH\n"
        "stage 1 (width 2)\n"
        "  [1] sum -> sink  x2\n"
        "      columns: sum: vectorized\n"
        "      columns: sink: vectorized\n"
        "rules, in this order: "
        "chaining, errors, state backend, columns, projection, pre-aggregation, fusion, declared types, batch order, workers"
    )


class Same(MapFunction):
    def open(self, runtime_context: Any) -> None:
        if runtime_context.get_index_of_this_subtask():
            raise ValueError

    def map(self, value: int) -> int:
        return value


def test_explain_names_what_it_is_that_keeps_an_operator_from_columns() -> None:
    env = environment(1, True)
    numbers(env).map(lambda i: i + 1, Types.STRING()).name("typed")
    numbers(env).filter(lambda i: i > 1).flat_map(lambda i: [(i, 2)], Types.TUPLE([Types.INT()] * 3)).name("several")
    by_key = numbers(env).map(lambda i: i + 1).key_by(lambda i: i % 3)
    by_key.map(Same()).name("rich")
    by_key.process(lambda i, ctx: [i], Types.INT()).name("processed")

    said = env.explain()
    assert "      columns: typed: per record: declares String, and gives it int\n" in said
    lacks = "declares TupleTypeInfo(Integer, Integer, Integer), and gives it (int, int), which has 2 of 3 fields"
    assert f"      columns: several: per record: {lacks}\n" in said
    assert "      columns: rich: per record: has an open() that branches\n" in said + "\n"
    assert "      columns: processed: per record: calls a function without process_element()\n" in said + "\n"


def test_a_source_is_not_vectorized_for_nothing() -> None:
    env = environment(1, True)
    numbers(env).map(lambda n: {n}).print()
    assert "numbers: per record: nothing after it is vectorized" in env.explain()


def test_an_error_of_a_function_is_the_users_own() -> None:
    env = environment(1, True)
    quotients = numbers(env).map(lambda i: 100 // (i - 70)).name("quotients")
    assert "quotients: vectorized" in env.explain()
    with pytest.raises(OperatorFailed, match="operator 'quotients' .* failed at the record 70: ZeroDivisionError"):
        collected(quotients)
