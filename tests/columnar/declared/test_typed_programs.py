"""Programs with declared types, as they come from PyFlink: the same results and errors on columns and record by record."""

from collections.abc import Callable
from typing import Any

import pytest

from funken import (
    AggregateFunction,
    CoMapFunction,
    Configuration,
    DataGeneratorSource,
    DataStream,
    EventTimeSessionWindows,
    FlatMapFunction,
    KeyedProcessFunction,
    NumberSequenceSource,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
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

MONOTONOUS: WatermarkStrategy[Any] = WatermarkStrategy.for_monotonous_timestamps()
WORD = Types.ROW([Types.STRING(), Types.INT()])
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
NAMED = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.SHORT()])
STEP = 1_234_567_891
"""What is added up wraps in 32 bits, and even more in 16."""


def environment(vectorized: bool, batch: bool = False) -> StreamExecutionEnvironment:
    configuration = Configuration({"pipeline.vectorized": vectorized, "execution.block.records": 60})
    env = StreamExecutionEnvironment.create_local_environment(1, configuration)
    return env.set_runtime_mode(RuntimeExecutionMode.BATCH if batch else RuntimeExecutionMode.STREAMING)


def pairs(env: StreamExecutionEnvironment, count: int = 300) -> DataStream:
    timed = MONOTONOUS.with_timestamp_assigner(lambda r, _: r[1] // 4115)
    return env.from_source(DataGeneratorSource(lambda i: (f"k{i % 7}", i * STEP), count), timed, "pairs")


class Split(FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        for part in value[0].split("k"):
            yield Row(part, value[1])


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + value[1]
        self.count.update(count)
        yield Row(value[0], count)


class Total(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + 1, accumulator[1] + value[1]

    def get_result(self, accumulator: Any) -> Any:
        return Row(accumulator[0], accumulator[1])

    def merge(self, a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1] + b[1]


class Bounds(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        for element in elements:
            yield Row(key, context.window().end, element[1])


class Largest(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        largest = max(elements, key=lambda element: element[1])
        yield Row(key, largest[1])


LARGE = OutputTag("large", Types.ROW_NAMED(["of", "n"], [Types.STRING(), Types.BYTE()]))


class Parted(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        if value[1] % 3 == 0:
            yield LARGE, Row(value[0], value[1])
        yield Row(value[0], value[1])


def parted(stream: DataStream) -> DataStream:
    main = stream.process(Parted(), output_type=WORD)
    return main.map(lambda r: (r.f0, r.f1)).union(main.get_side_output(LARGE).map(lambda r: (r.of, r.n)))


class Sides(CoMapFunction):
    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.INT()))

    def map1(self, value: Any) -> Any:
        self.last.update(1)
        return Row(value[0], value[1])

    def map2(self, value: Any) -> Any:
        return Row(value[0], self.last.value() or 0)


def typed(stream: DataStream, type_info: Any = WORD) -> Any:
    return stream.map(lambda p: Row(p[0], p[1]), output_type=type_info).key_by(lambda r: r[0])


def added(a: Any, b: Any) -> Any:
    return Row(a[0], a[1] + b[1])


#: programs, and the names of the operators that are to run on columns
PROGRAMS: dict[str, tuple[Callable[[DataStream], DataStream], list[str]]] = {
    "a row": (lambda s: s.map(lambda p: Row(p[0], p[1]), output_type=WORD).map(lambda r: r[1] // 3), ["map"]),
    "a row of a tuple": (lambda s: s.map(lambda p: p, output_type=NAMED).map(lambda r: (r.word, r.n)), ["map"]),
    "a row of a dict": (
        lambda s: s.map(lambda p: {"n": p[1], "word": p[0], "more": 1}, output_type=NAMED).map(
            lambda r: (r["word"], r.n)
        ),
        ["map"],
    ),
    "a tuple of a row": (lambda s: s.map(lambda p: Row(p[0], p[1]), output_type=PAIR).map(lambda r: r[:1]), ["map"]),
    "a row in a row": (
        lambda s: s.map(
            lambda p: Row(p[0], (p[1], True)),
            output_type=Types.ROW([Types.STRING(), Types.ROW([Types.INT(), Types.DOUBLE()])]),
        ).map(lambda r: (r[1][0], r.f1.f1)),
        ["map"],
    ),
    "branches": (
        lambda s: s.map(lambda p: Row(p[0], 1) if p[1] % 2 else Row("none", p[1]), output_type=WORD),
        ["map"],
    ),
    "a number": (lambda s: s.map(lambda p: p[1], output_type=Types.SHORT()).filter(lambda n: n % 2), ["map", "filter"]),
    "a float of an int": (lambda s: s.map(lambda p: p[1], Types.DOUBLE()).map(lambda x: x / 3), ["map"]),
    "32 bits": (lambda s: s.map(lambda p: p[1] / 3, Types.FLOAT()).map(lambda x: x * 3), ["map"]),
    "lists": (lambda s: s.map(lambda p: [p[1], 1], Types.LIST(Types.BYTE())).map(lambda r: sum(r) + 1), ["map"]),
    "flat_map": (lambda s: s.flat_map(Split(), output_type=WORD).map(lambda r: r.f0), ["flat_map", "map"]),
    "reduce": (lambda s: typed(s).reduce(added), ["map", "reduce"]),
    "reduce to tuples": (lambda s: typed(s).reduce(lambda a, b: (a[0], b[1] + a[1])), ["map", "reduce"]),
    "the last": (lambda s: typed(s).reduce(lambda a, b: Row(a[0], b[1])), ["map", "reduce"]),
    "the greatest": (lambda s: typed(s).reduce(lambda a, b: Row(a[0], max(a[1], b[1]))), ["map", "reduce"]),
    "the greatest row": (lambda s: typed(s).reduce(lambda a, b: a if a[1] >= b[1] else b), ["map", "reduce"]),
    "sum of tuples": (lambda s: typed(s, PAIR).sum(1), ["map", "sum"]),
    "sum of rows": (lambda s: typed(s).sum(1), ["map", "sum"]),
    "sum of rows by name": (lambda s: typed(s, NAMED).sum("n"), ["map", "sum"]),
    "sum of dicts": (
        lambda s: s.map(lambda p: {"k": p[0], "n": p[1]}).key_by(lambda r: r["k"]).sum("n"),
        ["map", "sum"],
    ),
    "max by": (lambda s: typed(s).max_by("f1"), ["map", "max_by"]),
    "min of rows": (lambda s: typed(s).min(1), ["map", "min"]),
    "sum through a filter": (
        lambda s: s.map(lambda p: p, PAIR).filter(lambda r: r[1] % 3).key_by(lambda r: r[0]).sum(1),
        ["map", "filter", "sum"],
    ),
    "tumbling": (lambda s: typed(s).window(TumblingEventTimeWindows.of(10**8)).reduce(added), ["map", "window reduce"]),
    "tumbling, typed": (
        lambda s: typed(s).window(TumblingEventTimeWindows.of(10**9)).reduce(added, output_type=PAIR),
        ["map", "window reduce"],
    ),
    "sliding": (
        lambda s: typed(s).window(SlidingEventTimeWindows.of(10**8, 3 * 10**7)).reduce(added),
        ["map", "window reduce"],
    ),
    "sessions": (
        lambda s: typed(s).window(EventTimeSessionWindows.with_gap(10**7)).reduce(added),
        ["map", "window reduce"],
    ),
    "counts": (lambda s: typed(s).count_window(20).reduce(added), ["map", "window reduce"]),
    "an aggregate": (
        lambda s: (
            typed(s)
            .window(TumblingEventTimeWindows.of(10**8))
            .aggregate(Total(), output_type=Types.ROW([Types.BYTE(), Types.INT()]))
        ),
        ["map", "window aggregate"],
    ),
    "a window function": (
        lambda s: (
            typed(s)
            .window(TumblingEventTimeWindows.of(10**8))
            .reduce(added, Bounds(), output_type=Types.ROW([Types.STRING(), Types.LONG(), Types.SHORT()]))
        ),
        ["map", "window reduce"],
    ),
    "all records of a window": (
        lambda s: typed(s).window(TumblingEventTimeWindows.of(10**8)).process(Largest(), output_type=NAMED),
        ["map", "window process"],
    ),
    "side outputs": (parted, []),
    "process": (lambda s: s.process(lambda p, ctx: [Row(p[0], p[1])], WORD).map(lambda r: r.f1), ["process", "map"]),
    "a union": (
        lambda s: (
            s.map(lambda p: p, WORD)
            .union(s.map(lambda p: Row("all", p[1]), WORD))
            .key_by(lambda r: r.f0)
            .reduce(added)
            .map(lambda r: (r.f0, r.f1 % 5))
        ),
        ["map", "reduce"],
    ),
    "none of some": (
        lambda s: s.map(lambda p: p[0] if p[1] % 2 else None, Types.STRING()).filter(lambda x: x is not None),
        ["map", "filter"],
    ),
    "state": (lambda s: typed(s).process(Count(), output_type=NAMED).map(lambda r: r.n), ["map", "process"]),
    "two inputs": (
        lambda s: typed(s).connect(s.key_by(lambda p: p[0])).map(Sides(), output_type=WORD).map(lambda r: r[1]),
        ["map"],
    ),
}
NOT_IN_BATCH = {"all records of a window", "state", "two inputs", "counts", "the last", "the greatest row", "max by"}


def shown(stream: DataStream) -> list[str]:
    with stream.execute_and_collect() as results:
        return sorted(f"{type(each).__name__} {each!r}" for each in results)


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_the_same_on_columns_and_in_rows(name: str, batch: bool) -> None:
    program, _ = PROGRAMS[name]

    results = [shown(program(pairs(environment(vectorized, batch)))) for vectorized in (True, False)]

    assert results[0]
    assert results[0] == results[1]


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_operators_with_a_declared_type_run_on_columns(name: str, batch: bool) -> None:
    if batch and name in NOT_IN_BATCH:
        return
    program, operators = PROGRAMS[name]
    env = environment(True, batch)
    program(pairs(env)).print()

    said = env.explain()

    assert all(f"columns: {operator}: vectorized\n" in said for operator in operators), said


@pytest.mark.parametrize(
    ("function", "type_info", "reason"),
    [
        (lambda p: None if p[1] == 51 * STEP else p[1], Types.INT(), "None does not fit"),
        (lambda p: str(p[1]), Types.INT(), "'0' does not fit"),
        (lambda p: p[1] / 7, Types.LONG(), "0.0 does not fit"),
        (lambda p: Row(p[0]), WORD, "has 1 of 2 fields"),
        (lambda p: p, Types.STRING(), "does not fit the declared type String"),
        (lambda p: (p[0], None if p[1] == 51 * STEP else 5), PAIR, "None does not fit"),
    ],
)
def test_what_does_not_fit_fails_alike(function: Any, type_info: Any, reason: str) -> None:
    said = []
    for vectorized in (True, False):
        with pytest.raises(OperatorFailed, match=reason) as failure:
            shown(pairs(environment(vectorized)).map(function, output_type=type_info).name("numbers"))
        said.append((failure.value.operator, str(failure.value.__cause__)))
    assert said[0] == said[1]


def test_a_row_that_is_none_fails_also_if_a_filter_would_drop_it() -> None:
    for vectorized in (True, False):
        rows = pairs(environment(vectorized)).map(lambda p: p if p[1] % 2 else None, output_type=WORD)
        with pytest.raises(OperatorFailed, match="None does not fit"):
            shown(rows.filter(lambda r: r is not None))


def test_none_stays_none_in_a_row() -> None:
    def half(p: Any) -> Any:
        return p[0], None if p[1] % 2 else p[1]

    results = [shown(pairs(environment(each)).map(half, output_type=WORD)) for each in (True, False)]

    assert results[0] == results[1]
    assert any("None" in each for each in results[0])


def test_a_declared_source_gives_what_it_gives_and_runs_on_columns() -> None:
    def numbers(vectorized: bool) -> tuple[StreamExecutionEnvironment, DataStream]:
        env = environment(vectorized)
        source = NumberSequenceSource(2**31 - 5, 2**31 + 200)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.INT())
        return env, stream.key_by(lambda n: n % 3).reduce(lambda a, b: a + b)

    env, stream = numbers(True)
    stream.print()
    assert "columns: numbers: vectorized\n" in env.explain()
    assert "reduce: per record: declares Integer for records that were not converted to that type\n" in env.explain()
    assert shown(numbers(True)[1]) == shown(numbers(False)[1])


@pytest.mark.parametrize(
    ("reduce", "of", "reason"),
    [
        (lambda a, b: Row(a[0], a[1] + b[1]), Types.ROW([Types.STRING(), Types.FLOAT()]), "adds floats of 32 bits"),
        (lambda a, b: Row(a[0], min(a[1], b[1] * 2)), WORD, "computes ints of 32 bits"),
        (lambda a, b: Row(a[1], a[0]), WORD, "declares String, and gives it int"),
        (lambda a, b: Row(a[0]), WORD, "makes a Row without names"),
    ],
)
def test_running_results_that_may_differ_are_refused(reduce: Any, of: Any, reason: str) -> None:
    env = environment(True)
    typed(pairs(env), of).reduce(reduce).print()

    assert f"columns: reduce: per record: {reason}" in env.explain()
