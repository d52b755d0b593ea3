"""Programs for the simulation, and the sink that tells whether each result came exactly once.

What a program writes is the same multiset whatever the parallelism and the order in which subtasks work: that is what
makes a run without faults the oracle of one with faults. Each program takes an environment, a number of records, and
``wide``, which gives a parallelism; it may be another one when the driver starts again.

The sink keeps its transactions in a ``Ledger``, which stands for a database and survives every crash.
"""

# ruff: noqa: D102 - what the methods of a function object do is known
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from funken import (
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    DataGeneratorSource,
    DataStream,
    EventTimeSessionWindows,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    NumberSequenceSource,
    OutputTag,
    ProcessFunction,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.connectors.base import ReaderContext, Sink, SinkWriter

Wide = Callable[[], int]
END = 10**9
"""A time after every record."""


class Violation(AssertionError):
    """An invariant does not hold."""


# ---- the sink


@dataclass
class Ledger:
    """Transactions by id: prepared ones, and committed ones, which are for ever."""

    prepared: dict[str, list[Any]] = field(default_factory=dict)
    committed: dict[str, list[Any]] = field(default_factory=dict)
    #: asked before each transaction is committed; it may raise
    fault: Callable[[], None] = lambda: None
    _transactions: int = 0

    def prepare(self, values: list[Any]) -> str:
        """Keep values of a transaction; return its id."""
        self._transactions += 1
        name = f"transaction {self._transactions}"
        self.prepared[name] = values
        return name

    def commit(self, transactions: Sequence[str]) -> None:
        """Commit; harmless if it was done before."""
        for name in transactions:
            if name not in self.committed:
                self.fault()
                if name not in self.prepared:
                    raise Violation(f"{name} is to be committed, but it was given up")
                self.committed[name] = self.prepared.pop(name)

    def give_up(self) -> None:
        """Drop everything that is not committed, as a database does with the transactions of who is gone."""
        self.prepared.clear()

    def results(self) -> Counter[Any]:
        """Count the results that are visible."""
        return Counter(value for values in self.committed.values() for value in values)


LEDGERS: dict[str, Ledger] = {}
"""By name: a sink travels to its tasks by pickling, a ledger does not."""


@dataclass(frozen=True)
class LedgerSink(Sink):
    """Two-phase commit into a ledger; ``tag`` tells the sinks of a program apart."""

    ledger: str
    tag: int = 0

    def writer(self, context: ReaderContext) -> SinkWriter:
        """Make a writer."""
        return LedgerWriter(LEDGERS[self.ledger], self.tag)

    def commit(self, committables: Sequence[Any]) -> None:
        """Commit transactions."""
        LEDGERS[self.ledger].commit(committables)

    def abort(self, committables: Sequence[Any]) -> None:
        """Drop transactions."""
        for name in committables:
            LEDGERS[self.ledger].prepared.pop(name, None)


class LedgerWriter(SinkWriter):
    """Writes into the open transaction of one subtask."""

    def __init__(self, ledger: Ledger, tag: int) -> None:
        self._ledger = ledger
        self._tag = tag
        self._open: list[Any] = []

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Add to the transaction."""
        self._open += [(self._tag, value) for value in values]

    def prepare_commit(self, end_of_input: bool) -> list[Any]:
        """Close the transaction."""
        if not self._open:
            return []
        values, self._open = self._open, []
        return [self._ledger.prepare(values)]


# ---- the functions

COUNT = ValueStateDescriptor("count", default=0)
WAITING = MapStateDescriptor("waiting")
BUCKETS = MapStateDescriptor("buckets")
RULES = MapStateDescriptor("rules")
ODD = OutputTag("odd")


class CountEach(KeyedProcessFunction):
    """Numbers the records of a key."""

    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self._count.update(self._count.value() + 1)
        yield ctx.get_current_key(), self._count.value()


class CountBuckets(KeyedProcessFunction):
    """Counts the records of each 50 ms by timers of event time, and sums up at the end."""

    def open(self, runtime_context: Any) -> None:
        self._buckets = runtime_context.get_map_state(BUCKETS)
        self._sum = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, ctx: Any) -> None:
        bucket = ctx.timestamp() // 50 * 50 + 50
        self._buckets.put(bucket, (self._buckets.get(bucket) or 0) + 1)
        self._sum.update(self._sum.value() + value)
        ctx.timer_service().register_event_time_timer(bucket)
        ctx.timer_service().register_event_time_timer(END)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if timestamp == END:
            yield ctx.get_current_key(), "sum", self._sum.value(), self._buckets.is_empty()
        else:
            yield ctx.get_current_key(), timestamp, self._buckets.get(timestamp)
            self._buckets.remove(timestamp)


class Delay(KeyedProcessFunction):
    """Holds each record back for a while of processing time; at the end it lets go of all."""

    def open(self, runtime_context: Any) -> None:
        self._waiting = runtime_context.get_map_state(WAITING)

    def process_element(self, value: Any, ctx: Any) -> None:
        due = ctx.timer_service().current_processing_time() + 10 + value % 40
        self._waiting.put(value, due)
        ctx.timer_service().register_processing_time_timer(due)
        ctx.timer_service().register_event_time_timer(END)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        late = [value for value, due in self._waiting.items() if due <= timestamp or timestamp == END]
        for value in late:
            self._waiting.remove(value)
            yield ctx.get_current_key(), value


class Square(AsyncFunction):
    """Asks for a square."""

    async def async_invoke(self, value: Any) -> list[Any]:
        return [(value, value * value)]


class CountBoth(KeyedCoProcessFunction):
    """Numbers the records of a key on both inputs together."""

    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(COUNT)

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        self._count.update(self._count.value() + 1)
        yield ctx.get_current_key(), self._count.value()

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield from self.process_element1(value, ctx)


class Parity(ProcessFunction):
    """Sends odd numbers to the side."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value % 2:
            yield ODD, value
        else:
            yield value


class Rules(KeyedBroadcastProcessFunction):
    """At the end tells for each key its sum, and the rules."""

    def open(self, runtime_context: Any) -> None:
        self._sum = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, ctx: Any) -> None:
        self._sum.update(self._sum.value() + value)
        ctx.timer_service().register_event_time_timer(END)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        rules = ctx.get_broadcast_state(RULES)
        rules.put(value % 5, (rules.get(value % 5) or 0) + value)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        rules = tuple(sorted(ctx.get_broadcast_state(RULES).items()))
        yield ctx.get_current_key(), self._sum.value(), rules


class Label(BroadcastProcessFunction):
    """Lets the main side through, and keeps the other."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value, True)


# ---- the programs

_STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n * 7)


def _numbers(env: StreamExecutionEnvironment, count: int, wide: Wide, name: str = "numbers") -> DataStream:
    return env.from_source(DataGeneratorSource(lambda i: i, count), _STAMPED, name).set_parallelism(wide()).uid(name)


def count(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Count by key."""
    return [_numbers(env, records, wide).key_by(lambda n: n % 5).process(CountEach()).set_parallelism(wide())]


def sequence(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Count what comes from ranges: watermarks of the subtasks are far apart."""
    numbers = env.from_source(NumberSequenceSource(1, records), WatermarkStrategy.no_watermarks(), "sequence")
    counts = numbers.set_parallelism(wide()).key_by(lambda n: n % 7).process(CountEach())
    return [counts.set_parallelism(wide()).map(lambda pair: pair).set_parallelism(wide())]


def windows(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Sums of windows that tumble, slide and of sessions; and of ones that get what was folded before the exchange."""
    keyed = _numbers(env, records, wide).key_by(lambda n: n % 3)
    pairs = _numbers(env, records, wide, "pairs").map(lambda n: (n % 3, n)).set_parallelism(wide())
    add = lambda a, b: a + b  # noqa: E731
    return [
        keyed.window(TumblingEventTimeWindows.of(timedelta(milliseconds=100))).reduce(add).set_parallelism(wide()),
        keyed.window(SlidingEventTimeWindows.of(timedelta(milliseconds=100), timedelta(milliseconds=50)))
        .reduce(add)
        .set_parallelism(wide()),
        keyed.filter(lambda n: n // 8 % 2)
        .key_by(lambda n: n % 3)
        .window(EventTimeSessionWindows.with_gap(timedelta(milliseconds=40)))
        .reduce(add)
        .set_parallelism(wide()),
        pairs.key_by(lambda pair: pair[0])
        .window(SlidingEventTimeWindows.of(timedelta(milliseconds=400), timedelta(milliseconds=200)))
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .set_parallelism(wide()),
    ]


def union(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Count two sources together, one of them short."""
    both = _numbers(env, records, wide).union(_numbers(env, records // 5 + 1, wide, "few"))
    counts = both.key_by(lambda n: n % 4).process(CountEach()).set_parallelism(wide())
    summed = both.key_by(lambda n: n % 4).process(CountBuckets()).set_parallelism(wide())
    return [counts, summed]


def levels(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Two keyed levels, and a map before and after."""
    first = _numbers(env, records, wide).map(lambda n: n + 1).key_by(lambda n: n % 5).process(CountEach())
    second = first.set_parallelism(wide()).key_by(lambda pair: pair[1] % 3).process(CountEach())
    return [second.set_parallelism(wide()).rebalance().map(lambda pair: (*pair, "")).set_parallelism(wide())]


def connect(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Two keyed inputs of one function."""
    left, right = _numbers(env, records, wide), _numbers(env, records // 3 + 1, wide, "right")
    joined = left.connect(right).key_by(lambda n: n % 4, lambda n: n % 4).process(CountBoth())
    return [joined.set_parallelism(wide())]


def timers(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Timers of event time, a map in state, a sum at the end."""
    return [_numbers(env, records, wide).key_by(lambda n: n % 4).process(CountBuckets()).set_parallelism(wide())]


def side(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """A side output with a way of its own, that skips a level."""
    even = _numbers(env, records, wide).process(Parity()).set_parallelism(wide())
    odd = even.get_side_output(ODD).key_by(lambda n: n % 3).process(CountEach()).set_parallelism(wide())
    deep = even.key_by(lambda n: n % 3).process(CountEach()).set_parallelism(wide())
    return [odd, deep.key_by(lambda pair: pair[0]).process(CountEach()).set_parallelism(wide())]


def broadcast(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Rules for everybody, with keys and without."""
    numbers, rules = _numbers(env, records, wide), _numbers(env, records // 4 + 1, wide, "rules").broadcast(RULES)
    keyed = numbers.key_by(lambda n: n % 6).connect(rules).process(Rules()).set_parallelism(wide())
    return [keyed, numbers.connect(rules).process(Label()).set_parallelism(wide())]


def delays(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Timers of processing time."""
    return [_numbers(env, records, wide).key_by(lambda n: n % 4).process(Delay()).set_parallelism(wide())]


def requests(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Asynchronous requests, with a count of what they gave."""
    spread = _numbers(env, records, wide).rebalance()
    squares = AsyncDataStream.unordered_wait(spread, Square(), 0, 5).set_parallelism(wide())
    return [squares.key_by(lambda pair: pair[1] % 3).process(CountEach()).set_parallelism(wide()), squares]


PROGRAMS: dict[str, Callable[[StreamExecutionEnvironment, int, Wide], list[DataStream]]] = {
    made.__name__: made
    for made in (
        count, sequence, windows, union, levels, connect, timers, side, broadcast, delays, requests,
    )
}  # fmt: skip

COUNTING = frozenset({"count", "sequence", "levels", "connect", "side"})
"""Those whose results only ever become more when a record comes twice, and that do not look at event time."""


def build(env: StreamExecutionEnvironment, program: str, records: int, ledger: str, wide: Wide) -> None:
    """Add a program and its sinks to an environment."""
    for tag, stream in enumerate(PROGRAMS[program](env, records, wide)):
        stream.sink_to(LedgerSink(ledger, tag)).set_parallelism(wide())
