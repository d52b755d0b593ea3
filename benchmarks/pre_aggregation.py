"""What folding records before the exchange of a window brings: CPU per record in one process, with it and without, by turns.

usage: pre_aggregation.py [--records N] [--turns T] [--prototype]. One line per case; gains are of the least CPU time of the
turns, and the median over the pairs of neighbouring turns. ``--prototype`` measures the record path instead, with a folding
operator in front of the exchange that Funken does not have (docs/decisions/0006 says why). The same with a real exchange:
``keyed.py windows --option pipeline.pre-aggregation --paths 3 --keys K``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from statistics import median
from typing import Any

from funken import (
    AggregateFunction,
    Configuration,
    DataStream,
    DiscardingSink,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from funken.operators.base import Operator, Timestamps, Values
from funken.plan.nodes import NodeInput

SECOND = 1000
PER_MS = 100
"""Records per millisecond of event time: 100,000 in a window."""


def timed(parallelism: int, count: int, **options: Any) -> DataStream:
    """Return 0, 1, 2, ... dealt out in turn, with event time."""
    conf = Configuration({"execution.target": "local", **options})
    env = StreamExecutionEnvironment.get_execution_environment(conf).set_parallelism(parallelism)
    numbers = env.from_source(NumberSequenceSource(0, count - 1), WatermarkStrategy.no_watermarks(), "numbers")
    part = count // parallelism
    if parallelism > 1:
        numbers = numbers.map(lambda i: i % part * parallelism + i // part)
    monotonous = WatermarkStrategy.for_monotonous_timestamps()
    return numbers.assign_timestamps_and_watermarks(monotonous.with_timestamp_assigner(lambda i, _: i // PER_MS))


def columns(kind: str, keys: int, parallelism: int, count: int, folded: bool) -> DataStream:
    """Sums by key of a program that is vectorized."""
    stream = timed(parallelism, count, **{"pipeline.pre-aggregation": folded})
    pairs = {
        "ones": lambda: stream.map(lambda i: (i % keys, 1)),
        "numbers": lambda: stream.map(lambda i: (i % keys, i)),
        "text keys": lambda: stream.map(lambda i: (f"user {i % keys}", 1)),
        "scattered": lambda: stream.map(lambda i: (i * 7919 % 1_000_003 % keys, 1)),
    }[kind]()
    windows = pairs.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(SECOND))
    return windows.reduce(lambda a, b: (a[0], a[1] + b[1]))


# ---- the record path, as it might be


class Count(AggregateFunction):
    """Counts records."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Merge(Count):
    """Adds counts up."""

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + value[1]


@dataclass(frozen=True)
class Fold:
    """Folds so many records before they are emitted as pairs of a key and a count."""

    key: Callable[[Any], Any]
    most: int

    def build(self) -> Operator:
        return Folding(self)


class Folding(Operator):
    """One window at a time; a watermark ends what was folded."""

    def __init__(self, spec: Fold) -> None:
        self.spec = spec
        self.counts: dict[Any, int] = {}
        self.start = self.taken = 0

    def process(self, values: Values, timestamps: Timestamps) -> None:
        assert timestamps is not None
        start = timestamps[0] // SECOND * SECOND
        at = next((i for i, stamp in enumerate(timestamps) if stamp >= start + SECOND), len(values))
        if start != self.start:
            self.send()
            self.start = start
        key, counts, count = self.spec.key, self.counts, Count()
        add, create, get = count.add, count.create_accumulator, counts.get
        for value in values[:at]:
            of = key(value)
            before = get(of)
            counts[of] = add(value, create() if before is None else before)
        self.taken += at
        if self.taken >= self.spec.most:
            self.send()
        if at < len(values):
            self.process(values[at:], timestamps[at:])

    def send(self) -> None:
        if self.counts:
            self.output.emit(list(self.counts.items()), [self.start] * len(self.counts))
        self.counts, self.taken = {}, 0

    def watermark(self, watermark: int) -> None:
        self.send()
        super().watermark(watermark)


def records(most: int, keys: int, parallelism: int, count: int, folded: bool) -> DataStream:
    """Counts by key of opaque functions; ``most`` records are folded at once."""
    stream = timed(parallelism, count, **{"pipeline.vectorized": False})
    assigner = TumblingEventTimeWindows.of(SECOND)
    show = lambda key, window, counts: [(key, count) for count in counts]  # noqa: E731
    if not folded:
        return stream.key_by(lambda i: i % keys).window(assigner).aggregate(Count(), show)
    node = stream._apply("fold", Fold(lambda i: i % keys, most))
    pairs = DataStream(stream._environment, (NodeInput(node.id),))
    return pairs.key_by(itemgetter(0)).window(assigner).aggregate(Merge(), show)


# ---- measuring


def cpu(stream: DataStream) -> float:
    """Run a program and return the seconds of CPU it took."""
    stream.sink_to(DiscardingSink())
    begin = time.process_time()
    stream.get_execution_environment().execute()
    return time.process_time() - begin


def compare(name: str, build: Callable[[bool], DataStream], count: int, turns: int) -> None:
    """Run a program by turns and print the case."""
    found: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(turns):
        for folded, seconds in found.items():
            seconds.append(cpu(build(folded)))
    plain, folded_ = (min(found[way]) / count * 1e9 for way in (False, True))
    ratio = median(before / after for before, after in zip(found[False], found[True], strict=True))
    print(f"{name:45} {plain:6.0f} ns {folded_:6.0f} ns  {plain / folded_:5.2f} {ratio:5.2f}", flush=True)


def main() -> None:
    """Run every case."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--prototype", action="store_true")
    args = parser.parse_args()
    for width in (1, 2):
        if args.prototype:
            for keys in (100, 1000, 10_000):
                for most in (2000, 100_000):
                    name, count = f"x{width}, {keys} keys, {most} records folded", args.records // 8
                    compare(name, partial(records, most, keys, width, count), count, args.turns)
            continue
        for kind, keys in (
            ("ones", 100), ("numbers", 100), ("ones", 1000), ("text keys", 1000), ("ones", 10_000),
            ("ones", 1_000_000), ("scattered", 1_000_000),
        ):  # fmt: skip
            count = args.records // 4 if keys == 1_000_000 else args.records
            name = f"x{width}, {keys} keys, {kind}"
            compare(name, partial(columns, kind, keys, width, count), count, args.turns)


if __name__ == "__main__":
    main()
