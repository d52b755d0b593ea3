"""What windows, flat_map and functions over whole blocks gain by columns: the same program on and off by turns, in local mode.

usage: windows_on_columns.py [--records N] [--keys N] [--rounds N] [--only NAME,NAME] [--backend hashmap|rocksdb]

Prints seconds of records by seconds of columns: least, median, most.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from funken import (
    Configuration,
    DataGeneratorSource,
    DataStream,
    DiscardingSink,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
    vectorized,
)


def added(a: Any, b: Any) -> Any:
    """Add the second field."""
    return (a[0], a[1] + b[1])


def words(pair: Any) -> Any:
    """Give the words of a line that has the number of a record."""
    for word in f"to be {pair[0]} or not to be".split():
        if word != "be":
            yield word, pair[1]


PROGRAMS: dict[str, Callable[[DataStream], DataStream]] = {
    "count windows": lambda stream: stream.key_by(lambda pair: pair[0]).count_window(100).reduce(added),
    "sessions": lambda stream: (
        stream.key_by(lambda pair: pair[0]).window(EventTimeSessionWindows.with_gap(500)).reduce(added)
    ),
    "tumbling windows": lambda stream: (
        stream.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(5000)).reduce(added)
    ),
    "sliding windows": lambda stream: (
        stream.key_by(lambda pair: pair[0]).window(SlidingEventTimeWindows.of(50_000, 10_000)).reduce(added)
    ),
    "lists": lambda stream: (
        stream.key_by(lambda pair: pair[0])
        .window(TumblingEventTimeWindows.of(5000))
        .apply(lambda key, window, pairs: [(key, len(pairs))])
    ),
    "window function": lambda stream: (
        stream.key_by(lambda pair: pair[0])
        .window(TumblingEventTimeWindows.of(2000))
        .reduce(added, lambda key, window, sums: [(key, window.end, each[1]) for each in sums])
        .filter(lambda row: row[2] > 0)
    ),
    "max with a key": lambda stream: stream.key_by(lambda pair: pair[0]).reduce(
        lambda a, b: max(a, b, key=lambda pair: (-pair[0], pair[1]))
    ),
    "max with a text": lambda stream: (
        stream.map(lambda pair: (pair[0], f"user-{pair[1] % 777}"))
        .key_by(lambda pair: pair[0])
        .reduce(lambda a, b: max(a, b, key=lambda pair: (pair[1], -pair[0])))
    ),
    "flat_map": lambda stream: stream.flat_map(words),
    "vectorized map": lambda stream: stream.map(
        vectorized(output_type=(int, int))(lambda pair: (pair[0], pair[1] * 2))
    ).map(lambda pair: (pair[0], pair[1] + 1)),
}


def seconds(
    program: Callable[[DataStream], DataStream], columns: bool, records: int, keys: int = 1000, backend: str = "hashmap"
) -> float:
    """Run a program."""
    options = Configuration({"pipeline.vectorized": columns, "state.backend.type": backend})
    env = StreamExecutionEnvironment.create_local_environment(1, options)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[1])
    program(env.from_source(DataGeneratorSource(lambda i: (i * 7919 % keys, i), records), strategy)).sink_to(
        DiscardingSink()
    )
    begin = time.perf_counter()
    env.execute()
    return time.perf_counter() - begin


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help=f"some of {', '.join(PROGRAMS)}")
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--backend", choices=["hashmap", "rocksdb"], default="hashmap")
    args = parser.parse_args()
    rest = args.keys, args.backend
    wanted = [name.strip() for name in args.only.split(",") if name] or list(PROGRAMS)
    for name, program in ((name, PROGRAMS[name]) for name in wanted):
        seconds(program, True, 1000)
        ratios = sorted(
            seconds(program, False, args.records, *rest) / seconds(program, True, args.records, *rest)
            for _ in range(args.rounds)
        )
        print(f"{name:20} {ratios[0]:5.1f} {median(ratios):5.1f} {ratios[-1]:5.1f}", flush=True)


if __name__ == "__main__":
    main()
