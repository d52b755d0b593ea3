"""A job whose keyed operators run on columns, and whose state a version before has saved (``saved/``)."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from funken import (
    AggregateFunction,
    DataGeneratorSource,
    DataStream,
    EventTimeSessionWindows,
    KeyedProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from tests.support.files import file_sink

COUNT, KEYS = 1_200, 7
NAMES = ("reduce", "tumbling", "sliding", "sessions", "counts", "slides", "process", "join", "windowed")


def record(number: int) -> tuple[int, int, str, float]:
    """Return a record: key, time, text, number."""
    return number * 31 % KEYS, number, f"t{number % 13}", number / 4


class Largest(AggregateFunction):
    """The sum, the number and the largest of a key."""

    def create_accumulator(self) -> Any:
        return 0, 0, -1

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value[1], accumulator[1] + 1, max(accumulator[2], value[1])

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1] + b[1], max(a[2], b[2])


class Pairs(ProcessJoinFunction):
    """Two records as one."""

    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        yield left[1], right[1], left[2]


class Count(KeyedProcessFunction):
    """Counts the records of a key, and keeps the last text; a timer for each record."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = self.count.value() + 1
        self.count.update(count)
        before = self.last.value()
        self.last.update(value[2])
        ctx.timer_service().register_event_time_timer(value[1] + 250)
        yield value[0], count, "" if before is None else before

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), timestamp, "timer"


class Spread(ProcessWindowFunction):
    """How many records a window has, and their range."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        times = [each[1] for each in elements]
        yield key, len(times), max(times) - min(times)


def program(env: StreamExecutionEnvironment, folder: Any, rate: int | None = None) -> StreamExecutionEnvironment:
    """Build the job: a line of each result, with the name of its operator in front."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
    records = (
        env.from_source(DataGeneratorSource(record, COUNT, rate), strategy, "records").uid("records").set_parallelism(1)
    )
    keyed = records.key_by(lambda value: value[0])
    rare = (
        records.filter(lambda value: value[1] % 150 < 100).uid("rare").set_parallelism(1).key_by(lambda value: value[0])
    )
    made: list[DataStream] = [
        keyed.reduce(lambda a, b: (a[0], a[1] + b[1], b[2], a[3])),
        keyed.window(TumblingEventTimeWindows.of(timedelta(milliseconds=400))).aggregate(Largest()),
        keyed.window(SlidingEventTimeWindows.of(timedelta(milliseconds=500), timedelta(milliseconds=150))).aggregate(
            Largest()
        ),
        rare.window(EventTimeSessionWindows.with_gap(timedelta(milliseconds=30))).aggregate(Largest()),
        keyed.count_window(9).reduce(lambda a, b: (a[0], a[1] + b[1], b[2], a[3])),
        keyed.count_window(12, 5).process(Spread()),
        keyed.process(Count()),
        keyed.interval_join(keyed).between(timedelta(milliseconds=-9), timedelta(milliseconds=9)).process(Pairs()),
        rare.join(keyed)
        .where(lambda value: value[0])
        .equal_to(lambda value: value[0])
        .window(TumblingEventTimeWindows.of(timedelta(milliseconds=70)))
        .apply(lambda left, right: (left[1], right[1])),
    ]
    texts = []
    for name, stream in zip(NAMES, made, strict=True):
        line = lambda value, name=name: f"{name} {value}"  # noqa: E731 - one per operator
        texts.append(stream.uid(name).map(line).uid(f"{name} text"))
    texts[0].union(*texts[1:]).sink_to(file_sink(folder)).uid("files")
    return env


class Point(NamedTuple):
    """A named tuple in a saved block."""

    x: int
    at: datetime


_DAY = date(2024, 5, 6)
BLOCKS: list[tuple[list[Any], list[int] | None]] = [
    ([(1, "to", 0.5, True), (2**40, "be", -1.5, False)], [3, 4]),
    ([5, 5, 5], None),
    ([{"n": None, "tags": ["a"]}, {"n": 3, "tags": []}], None),
    ([([(1, "x")], None, "y"), ([], [1, 2], None)], None),
    ([Point(1, datetime.fromisoformat("2024-05-06T07:08")), Point(2, datetime.fromisoformat("2024-05-06"))], [1, 2]),
    ([(_DAY, timedelta(seconds=3), Decimal("1.50"), b"\x00", None, {1, 2})] * 2, None),
]
"""Records, and their timestamps, of the blocks that are saved as they are between two tasks."""
