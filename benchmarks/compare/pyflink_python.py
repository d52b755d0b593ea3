"""Runner: PyFlink's DataStream API. Variant ``process``: Python workers beside the JVM; ``thread``: Python inside it.

Tuned as PyFlink's documentation says: object reuse, and in process mode bundles large enough that the trip to the worker
is shared by many records (or, where latency is measured, small enough that they do not wait). The numbers are made, and the
results dropped or timed, by the JVM, so that PyFlink pays Python's price only for the user's functions.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import flink
import oracle
from protocol import ENDLESS, Spec, answer, spec, watch
from pyflink.common import Configuration, Time, TypeInformation, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.connectors.base import Sink
from pyflink.datastream.functions import AggregateFunction, ProcessWindowFunction
from pyflink.datastream.window import TumblingEventTimeWindows
from pyflink.java_gateway import get_gateway


def longs(count: int) -> TypeInformation:
    """Return the type of tuples of so many integers, and of one as it is; a new one, because a used one does not pickle."""
    return Types.TUPLE([Types.LONG() for _ in range(count)]) if count > 1 else Types.LONG()


class ByNumber(TimestampAssigner):
    """Event time is the number."""

    def __init__(self, per_ms: int) -> None:
        self.per_ms = per_ms

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value // self.per_ms


class ByStamp(TimestampAssigner):
    """Event time is when the record was made or due."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[1] // 1000


class Count(AggregateFunction):
    """Counts."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


class Emit(ProcessWindowFunction):
    """Adds the key and the end of the window (us)."""

    def process(self, key: int, context: Any, elements: Any) -> Any:
        yield key, next(iter(elements)), context.window().end * 1000


def environment(wanted: Spec, metrics: str = "") -> StreamExecutionEnvironment:
    """Return an environment of the variant."""
    tuned = {"python.fn-execution.bundle.size": "10000", "python.fn-execution.bundle.time": "100"}
    if wanted.stamped:
        tuned = {"python.fn-execution.bundle.size": "1000", "python.fn-execution.bundle.time": "5"}
    conf = Configuration()
    fixed = {
        "python.execution-mode": wanted.variant,
        "python.executable": sys.executable,
        "pipeline.object-reuse": "true",
    }
    for key, value in (fixed | tuned | flink.options(wanted, metrics)).items():
        conf.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(conf)


def build(env: StreamExecutionEnvironment, wanted: Spec, count: int, per_ms: int) -> DataStream:
    """Add the program."""
    numbers = get_gateway().jvm.bench.Numbers
    rate, keys = float(wanted.rate if count == ENDLESS else 0), wanted.keys

    def source(made: Any, kind: TypeInformation) -> DataStream:
        return DataStream(env._j_stream_execution_environment.addSource(made, "numbers", kind.get_java_type_info()))

    if wanted.program == "grep":
        return source(numbers.lines(count, rate), Types.STRING()).filter(lambda line: "999 " in line)
    if wanted.program == "keyed" and wanted.stamped:
        stamped = source(numbers.stamped(count, rate), longs(2))
        triples = stamped.map(lambda pair: (pair[0] % keys, 1, pair[1]), longs(3))
        return triples.key_by(lambda x: x[0], longs(1)).reduce(lambda a, b: (a[0], a[1] + b[1], b[2]))
    if wanted.program == "keyed":
        pairs = source(numbers.plain(count, rate), longs(1)).map(lambda i: (i % keys, 1), longs(2))
        return pairs.key_by(lambda pair: pair[0], longs(1)).reduce(lambda a, b: (a[0], a[1] + b[1]))
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    if wanted.stamped:
        timed = source(numbers.stamped(count, rate), longs(2))
        timed = timed.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(ByStamp()))
        keyed = timed.map(lambda pair: pair[0], longs(1)).key_by(lambda i: i % keys, longs(1))
    else:
        timed = source(numbers.plain(count, rate), longs(1))
        timed = timed.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(ByNumber(per_ms)))
        keyed = timed.key_by(lambda i: i % keys, longs(1))
    windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(1)))
    return windows.aggregate(Count(), Emit(), accumulator_type=longs(1), output_type=longs(3))


def main() -> None:
    """Check, then measure."""
    wanted = spec()
    sinks = get_gateway().jvm.bench.Sinks
    checked = Path(wanted.folder, "checked")
    checked.mkdir()
    env = environment(wanted)
    # By the clock, the windows of two runs are not the same: what is checked is the program with synthetic time.
    checkable = wanted if wanted.program == "keyed" else replace(wanted, stamped=False)
    build(env, checkable, oracle.CHECKED, oracle.CHECKED_PER_MS).sink_to(Sink(sinks.files(str(checked))))
    env.execute("check")
    results = flink.results(wanted.program, str(checked))
    number = oracle.check(wanted.program, results, wanted.keys)
    metrics = f"{wanted.folder}/metrics.jsonl"
    env = environment(wanted, metrics)
    build(env, wanted, ENDLESS, wanted.per_ms).sink_to(Sink(sinks.latencies() if wanted.stamped else sinks.discard()))
    client = env.execute_async(wanted.program)
    # One result per record, where the program has that; the bundles before it hold more than a moment's work.
    read = flink.Metrics(metrics, "Reduce", "Out") if wanted.program == "keyed" else flink.Metrics(metrics)
    try:
        answer({"checked": number, **watch(read, wanted)})
    finally:
        client.cancel()


if __name__ == "__main__":
    main()
