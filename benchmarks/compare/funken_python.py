"""Runner: Funken in continuous mode. Variant ``lambdas``: opaque functions, record by record; ``vectorised``: columns.

Variant ``mixed``: one function cannot be traced (the filter of grep, the reduces of the others), and the rest is columns.
Records are counted by the engine where they enter the last vertex (grep: where they are read). Latency is taken in a
function at the sink, from the stamp in the record: of every record if the input is paced, of every sixteenth otherwise.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import oracle
from protocol import ENDLESS, Reading, Spec, answer, bucket_of, spec, unsupported, watch

import funken
from funken import (
    AggregateFunction,
    Configuration,
    DataStream,
    Function,
    JobClient,
    NumberSequenceSource,
    Source,
    SourceReader,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from funken.config import options
from funken.connectors.base import NEED_SPLITS, Batch, ConnectorContext, NeedSplits, QueuedReader, StaticSplits, Wait
from funken.connectors.datagen import IndexSplit

VECTORISED = "pipeline.vectorized"
"""The switch of the vectorized path."""


@dataclass(frozen=True)
class Numbers(Source):
    """0, 1, 2, ..., dealt out in turn; with stamps (us) if wanted: when a number was due, or made if there is no rate."""

    count: int
    rate: float = 0
    stamped: bool = False

    def enumerator(self, parallelism: int) -> StaticSplits:
        splits = [IndexSplit(f"{part}", part, self.count, parallelism) for part in range(parallelism)]
        return StaticSplits(splits, parallelism)

    def reader(self, context: ConnectorContext) -> SourceReader:
        return NumbersReader(self)


class NumbersReader(QueuedReader):
    """Reads one split."""

    def __init__(self, source: Numbers) -> None:
        super().__init__()
        self.source = source
        self.made, self.start = 0, 0.0

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        if not self.queue:
            return NEED_SPLITS
        split, source = self.queue[0], self.source
        self.start = self.start or time.time()
        rate = source.rate / split.step
        due = min(limit, int((time.time() - self.start) * rate) - self.made) if rate else limit
        if due <= 0:
            return Wait(1)
        numbers = split.take(due)
        if not numbers:
            self.end_split()
            return NEED_SPLITS
        self.queue[0] = split.after(numbers)
        first, self.made = self.made, self.made + len(numbers)
        if not source.stamped:
            return Batch(list(numbers), split=split.id)
        if not rate:
            made = int(time.time() * 1e6)
            return Batch([(i, made) for i in numbers], split=split.id)
        return Batch([(i, int((self.start + n / rate) * 1e6)) for n, i in enumerate(numbers, first)], split=split.id)


class Latencies(Function):
    """Counts latencies in a histogram, which it shows as a metric; the last field of a record is its stamp."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.latency: dict[int, int] = {}

    def open(self, runtime_context: Any) -> None:
        runtime_context.get_metrics_group().gauge("latencies", lambda: dict(self.latency))

    def map_block(self, block: list[Any]) -> list[Any]:
        now, latency = int(time.time() * 1e6), self.latency
        for record in block[:: self.every]:
            bucket = bucket_of(now - record[-1])
            latency[bucket] = latency.get(bucket, 0) + 1
        return []


YES = True


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


def opaque_sum(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """Add two counts up, in a way that is not traced: it asks whether an object is another."""
    return (a[0], a[1] + b[1]) if (a is b) is not True else a


def environment(wanted: Spec, phase: str) -> StreamExecutionEnvironment:
    """Return an environment of the variant."""
    conf = Configuration({"execution.target": "continuous"})
    if wanted.buffer_timeout is not None:
        conf.set("execution.buffer-timeout.interval", wanted.buffer_timeout)
    if wanted.checkpoint:
        conf.set("execution.checkpointing.interval", wanted.checkpoint)
        conf.set("execution.checkpointing.dir", f"{wanted.folder}/{phase}")
    if any(option.key == VECTORISED for option in options()):
        conf.set(VECTORISED, wanted.variant != "lambdas")
    elif wanted.variant == "vectorised":
        unsupported(f"this Funken has no option {VECTORISED!r}")
    for key, value in wanted.options.items():
        conf.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(conf).set_parallelism(wanted.parallelism)


def build(env: StreamExecutionEnvironment, wanted: Spec, count: int, per_ms: int) -> DataStream:
    """Add the program."""
    keys, program, vectorised = wanted.keys, wanted.program, wanted.variant in ("vectorised", "mixed")
    rate = wanted.rate if count == ENDLESS else 0
    source: Source = Numbers(count, rate, wanted.stamped)
    if (vectorised or program in ("grep", "keyed")) and not rate and not wanted.stamped:
        source = NumberSequenceSource(0, count - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    if program == "grep":
        if vectorised:
            lines = numbers.map(lambda i: "line " + str(i) + " of the text")
            if wanted.variant == "mixed":
                return lines.filter(lambda line: ("999 " in line) is YES)  # to compare identities is not traced
        else:
            lines = numbers.map(lambda i: f"line {i} of the text")
        return lines.filter(lambda line: "999 " in line)
    if program == "keyed" and wanted.stamped:
        triples = numbers.map(lambda record: (record[0] % keys, 1, record[1]))
        return triples.key_by(lambda x: x[0]).reduce(lambda a, b: (a[0], a[1] + b[1], b[2]))
    if program == "keyed":
        pairs = numbers.map(lambda i: (i % keys, 1)).key_by(lambda pair: pair[0])
        return pairs.reduce(opaque_sum if wanted.variant == "mixed" else lambda a, b: (a[0], a[1] + b[1]))
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    if wanted.stamped:
        timed = numbers.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(lambda r, _: r[1] // 1000))
        timed = timed.map(lambda record: record[0])
    else:
        if vectorised:  # the built-in source deals out ranges; this makes subtask i of n give i, i + n, ...
            step = wanted.parallelism
            part = count // step
            numbers = numbers.map(lambda i: i % part * step + i // part)
        timed = numbers.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(lambda i, _: i // per_ms))
    if vectorised:  # a count that can be traced; the window itself is not in the result
        pairs = timed.map(lambda i: (i % keys, 1)).key_by(lambda pair: pair[0])
        windows = pairs.window(TumblingEventTimeWindows.of(1000))
        return windows.reduce(opaque_sum if wanted.variant == "mixed" else lambda a, b: (a[0], a[1] + b[1]))
    windows = timed.key_by(lambda i: i % keys).window(TumblingEventTimeWindows.of(1000))
    if program == "windows-full":
        return windows.apply(lambda key, window, all_: [(key, sum(1 for _ in all_), window.end * 1000)])
    return windows.aggregate(Count(), lambda key, window, counts: [(key, n, window.end * 1000) for n in counts])


def check(wanted: Spec) -> int:
    """Compare a bounded run with the oracle; return the number of results."""
    # By the clock, the windows of two runs are not the same: what is checked is the program with synthetic time.
    checkable = wanted if wanted.program == "keyed" else replace(wanted, stamped=False)
    stream = build(environment(wanted, "checked"), checkable, oracle.CHECKED, oracle.CHECKED_PER_MS)
    with stream.execute_and_collect() as found:
        results = list(found)
    if wanted.program == "keyed":
        results = [result[:2] for result in results]
    elif wanted.variant != "lambdas" and wanted.program == "windows":
        return oracle.check_counts(results, wanted.keys)
    elif wanted.program != "grep":
        results = [(key, count, end // 1000) for key, count, end in results]
    return oracle.check(wanted.program, results, wanted.keys)


def readings(client: JobClient, program: str) -> Reading:
    """Ask a running job for its metrics."""
    if client.get_job_execution_result().done():
        client.get_job_execution_result().result()
    tasks = list(client.metrics().values())
    last = 0 if program == "grep" else 1
    count = sum(task.vertices[last].records_in for task in tasks if last in task.vertices)
    latency: dict[int, int] = {}
    for task in tasks:
        for metrics in task.vertices.values():
            for user in metrics.user.values():
                for bucket, n in user.values.get("latencies", {}).items():
                    latency[bucket] = latency.get(bucket, 0) + n
    return time.monotonic(), count, latency


def main() -> None:
    """Check, then measure."""
    wanted = spec()
    if wanted.variant != "lambdas" and (wanted.stamped or wanted.program == "windows-full"):
        unsupported("this program is not vectorized")
    number = check(wanted)
    results = build(environment(wanted, "measured"), wanted, ENDLESS, wanted.per_ms)
    if wanted.stamped:
        results.map_block(Latencies(1 if wanted.rate else 16)).name("discard")
    elif hasattr(funken, "DiscardingSink"):
        results.sink_to(funken.DiscardingSink()).name("discard")
    else:
        results.map_block(lambda block: []).name("discard")
    if wanted.variant == "mixed" and "compares identities" not in results.get_execution_environment().explain():
        unsupported("all functions of this program are traced")
    if wanted.variant == "vectorised" and ": vectorized" not in results.get_execution_environment().explain():
        unsupported("no operator of this program is vectorized; explain() says why")
    client = results.get_execution_environment().execute_async(wanted.program)
    try:
        answer({"checked": number, **watch(lambda: readings(client, wanted.program), wanted)})
    finally:
        client.cancel().result(60)


if __name__ == "__main__":
    main()
