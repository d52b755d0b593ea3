"""Programs whose operators keep their state in columns: joins, aggregates and contents of windows, functions that are read.

As those of ``scenarios.py``, what they write is the same multiset whatever happens. Text and floats are among what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from funken import (
    AggregateFunction,
    DataGeneratorSource,
    DataStream,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TimeEvictor,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.cep import CEP, Pattern, PatternProcessFunction
from tests.support.simulation.scenario_functions import END
from tests.support.simulation.timed import TIMED

TOTAL = ValueStateDescriptor("total", int, default=0)
HALVES = ValueStateDescriptor("halves", float, default=0.0)
MOST = ReducingStateDescriptor("most", max, int)
TEXTS = MapStateDescriptor("texts", str, int)
NUMBERS = ListStateDescriptor("numbers", int)

Wide = Callable[[], int]
Record = tuple[int, int, str, float]

_STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n * 7)
_TUMBLING = TumblingEventTimeWindows.of(timedelta(milliseconds=100))
_SLIDING = SlidingEventTimeWindows.of(timedelta(milliseconds=100), timedelta(milliseconds=50))
_SESSIONS = EventTimeSessionWindows.with_gap(timedelta(milliseconds=30))


def _records(
    env: StreamExecutionEnvironment, count: int, wide: Wide, name: str = "records", every: int = 1
) -> DataStream:
    """Return records of a few keys, with gaps in time; ``every``: one number of so many becomes a record."""
    source = DataGeneratorSource(lambda i: i, count)
    numbers = env.from_source(source, _STAMPED, name).set_parallelism(wide()).uid(name)
    some = numbers.filter(lambda n: n % every == 0 and n // 9 % 3 != 1).set_parallelism(wide())
    return some.map(lambda n: (n % 3, n, f"text {n % 11}", n / 4)).set_parallelism(wide())


def joined(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Joins in windows and by the distance of times."""
    left, right = _records(env, records, wide, "left"), _records(env, records, wide, "right", every=2)
    found = []
    for windows in (_TUMBLING, _SLIDING, _SESSIONS):
        pairs = left.join(right).where(lambda r: r[0]).equal_to(lambda r: r[0]).window(windows)
        found.append(pairs.apply(lambda a, b: (a[0], a[1], b[1], b[2])).set_parallelism(wide()))
    near = left.key_by(lambda r: r[0]).interval_join(right.key_by(lambda r: r[0]))
    near = near.between(timedelta(milliseconds=-40), timedelta(milliseconds=60))
    found.append(near.process(lambda a, b, ctx: [(a[0], a[1], b[3], b[2])]).set_parallelism(wide()))
    return found


class Means(AggregateFunction):
    """The number, the mean, the least and the greatest."""

    def create_accumulator(self) -> tuple[int, float, int, int]:
        return 0, 0.0, 1 << 40, -1

    def add(self, value: Record, accumulator: tuple[int, float, int, int]) -> tuple[int, float, int, int]:
        number, total, least, most = accumulator
        return number + 1, total + value[3], min(least, value[1]), max(most, value[1])

    def get_result(self, accumulator: tuple[int, float, int, int]) -> tuple[int, float, int, int]:
        number, total, least, most = accumulator
        return number, total / number, least, most

    def merge(self, a: tuple[int, float, int, int], b: tuple[int, float, int, int]) -> tuple[int, float, int, int]:
        return a[0] + b[0], a[1] + b[1], min(a[2], b[2]), max(a[3], b[3])


class Least(AggregateFunction):
    """The number, the sum and the least: whole numbers, whose order does not matter."""

    def create_accumulator(self) -> tuple[int, int, int]:
        return 0, 0, 1 << 40

    def add(self, value: Record, accumulator: tuple[int, int, int]) -> tuple[int, int, int]:
        return accumulator[0] + 1, accumulator[1] + value[1], min(accumulator[2], value[1])

    def get_result(self, accumulator: tuple[int, int, int]) -> tuple[int, int, int]:
        return accumulator

    def merge(self, a: tuple[int, int, int], b: tuple[int, int, int]) -> tuple[int, int, int]:
        return a[0] + b[0], a[1] + b[1], min(a[2], b[2])


class Emitted(ProcessWindowFunction):
    """Adds the bounds of the window to an aggregate."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        for each in elements:
            yield key, context.window().start, each


class Bounds(ProcessWindowFunction):
    """Adds the bounds of the window to a sum of its records."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        window = context.window()
        yield key, window.start, window.end, sum(each[1] for each in elements), len(elements)


class Contents(ProcessWindowFunction):
    """Gives the records of a window, in order."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        yield key, context.window().max_timestamp(), tuple(sorted((each[1], each[2]) for each in elements))


def _both(a: tuple[int, int, float], b: tuple[int, int, float]) -> tuple[int, int, float]:
    return a[0], a[1] + b[1], a[2] + b[2]


def aggregated(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Aggregates of windows of each kind."""
    made = _records(env, records, wide)
    keyed, pairs = made.key_by(lambda r: r[0]), made.map(lambda r: (r[0], r[1], r[3])).set_parallelism(wide())
    found = [keyed.window(windows).aggregate(Least()) for windows in (_TUMBLING, _SLIDING, _SESSIONS)]
    found += [keyed.window(_TUMBLING).aggregate(Means()), keyed.window(_SLIDING).aggregate(Means(), Emitted())]
    found.append(keyed.window(_TUMBLING).max_by(1))
    found += [pairs.key_by(lambda r: r[0]).window(windows).reduce(_both) for windows in (_SLIDING, _SESSIONS)]
    return [each.set_parallelism(wide()) for each in found]


def contents(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Contents of windows of each kind, for functions that can be read, and for one that cannot."""
    keyed = _records(env, records, wide).key_by(lambda r: r[0])
    found = []
    for windows in (_TUMBLING, _SLIDING, _SESSIONS):
        found += [
            keyed.window(windows).process(function).set_parallelism(wide()) for function in (Bounds(), Contents())
        ]
    return found


class Totals(KeyedProcessFunction):
    """Keeps a sum of whole numbers, and one of halves, and emits them at the end."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(TOTAL)
        self.halves = runtime_context.get_state(HALVES)

    def process_element(self, value: Record, ctx: Any) -> None:
        self.total.update(self.total.value() + value[1])
        self.halves.update(self.halves.value() + value[3])
        ctx.timer_service().register_event_time_timer(END)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), self.total.value(), self.halves.value()


class Buckets(KeyedProcessFunction):
    """Counts in a map and a list, and keeps the greatest; emits each bucket when it is over."""

    def open(self, runtime_context: Any) -> None:
        self.most = runtime_context.get_reducing_state(MOST)
        self.texts = runtime_context.get_map_state(TEXTS)
        self.numbers = runtime_context.get_list_state(NUMBERS)

    def process_element(self, value: Record, ctx: Any) -> None:
        self.most.add(value[1])
        self.texts.put(value[2], (self.texts.get(value[2]) or 0) + 1)
        self.numbers.add(value[1])
        ctx.timer_service().register_event_time_timer(END)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        texts, numbers = tuple(sorted(self.texts.items())), tuple(sorted(self.numbers.get()))
        yield ctx.get_current_key(), self.most.get(), texts, numbers


class Counts(KeyedProcessFunction):
    """Numbers the records of each text, in a map, and counts all at the end."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(TOTAL)
        self.texts = runtime_context.get_map_state(TEXTS)

    def process_element(self, value: Record, ctx: Any) -> Iterator[Any]:
        number = (self.texts.get(value[2]) or 0) + 1
        self.texts.put(value[2], number)
        self.total.update(self.total.value() + 1)
        ctx.timer_service().register_event_time_timer(END)
        yield value[0], value[2], number

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), "", self.total.value()
        self.total.clear()


def kept(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """States of each kind, with few keys and with many."""
    made = _records(env, records, wide)
    few, many = made.key_by(lambda r: r[0]), made.key_by(lambda r: r[1] // 4)
    functions = Totals(), Buckets(), Counts()
    return [each.process(function).set_parallelism(wide()) for each in (few, many) for function in functions]


class EndsOfMatch(PatternProcessFunction):
    """Gives the first and the last number of a match."""

    def process_match(self, match: Any, ctx: Any) -> Iterator[Any]:
        yield match["up"][0][1], len(match["up"]), match["end"][0][1]


def _gap(record: Record) -> int:
    return 20 + record[1] % 3 * 10


def rarer(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Co-groups, windows of all records, sessions of several gaps, evictors, patterns."""
    made, others = _records(env, records, wide), _records(env, records, wide, "others", every=2)
    keyed = made.key_by(lambda r: r[0])
    both = made.co_group(others).where(lambda r: r[0]).equal_to(lambda r: r[0]).window(_TUMBLING)
    pattern = Pattern.begin("up").where(lambda r: r[1] % 5 != 0).times_or_more(2).greedy().next("end")
    matches = CEP.pattern(keyed, pattern.where(lambda r: r[1] % 5 == 0).within(200)).process(EndsOfMatch())
    late = keyed.window(_TUMBLING).evictor(TimeEvictor.of(timedelta(milliseconds=30)))
    dynamic = keyed.window(DynamicEventTimeSessionWindows.with_dynamic_gap(_gap))
    found = [
        both.apply(lambda left, right: [(sorted(r[1] for r in left), sorted(r[1] for r in right))]).map(str),
        late.process(Contents()),
        dynamic.aggregate(Least()),
        dynamic.process(Contents()),
        matches,
    ]
    of_all = made.map(lambda r: r[1]).set_parallelism(wide()).window_all(_SLIDING).reduce(lambda a, b: a + b)
    return [each.set_parallelism(wide()) for each in found] + [of_all]


WHOLE: dict[str, Callable[[StreamExecutionEnvironment, int, Wide], list[DataStream]]] = {
    **{made.__name__: made for made in (joined, aggregated, contents, kept, rarer)},
    **TIMED,
}

__all__ = ["WHOLE"]
