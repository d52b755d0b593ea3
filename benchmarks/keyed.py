"""The same jobs with Funken: keyed running reduce, grep, window counts and a slow function, in continuous mode.

usage: keyed.py keyed|grep|lines|windows|slow --rate RECORDS_PER_SECOND (0: full load) --seconds S --timeout MS; prints one JSON
line. ``--paths`` runs the program on the record path and vectorized, by turns, and prints the ratio too; ``--option`` names
another option to switch by turns, and ``--keys`` how many keys there are; ``lines`` is grep with a function that can be
vectorized; ``slow`` calls a function that works for 100 us, behind an exchange.
Before it measures, it runs the program over a bounded input and compares the result with an oracle.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from datetime import timedelta

from funken import (
    Configuration,
    DataGeneratorSource,
    DataStream,
    DiscardingSink,
    JobClient,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from funken.metrics.registry import merge, percentile
from funken.runtime.messages import VertexMetrics

WIDTH = 2
KEYS = 1000
WORK_SECONDS = 100e-6
WARMUP = 2.0
"""What is measured begins so long (s) after the first records."""


def environment(timeout: int) -> StreamExecutionEnvironment:
    """Return an environment in continuous mode."""
    conf = Configuration({"execution.target": "continuous", "execution.buffer-timeout.interval": timeout})
    for pair in os.environ.get("BENCH_OPTIONS", "").split():
        conf.set_string(*pair.split("=", 1))
    return StreamExecutionEnvironment.get_execution_environment(conf).set_parallelism(WIDTH)


def numbers(env: StreamExecutionEnvironment, rate: float, count: int, dealt: bool = False) -> DataStream:
    """Return 0, 1, 2, ... at a rate, or as fast as they go; ``dealt``: to the subtasks in turn, not in halves."""
    source = (
        DataGeneratorSource(lambda i: i, count, rate or None) if rate or dealt else NumberSequenceSource(0, count - 1)
    )
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")


def keyed(stream: DataStream) -> DataStream:
    """Map, key_by, running reduce: opaque lambdas, one output a record."""
    pairs = stream.map(lambda i: (i % 1000, 1))
    return pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))


def grep(stream: DataStream) -> DataStream:
    """Filter on a string: one record in a thousand passes, and goes through an exchange."""
    return stream.map_block(lambda block: [f"line {i} of the text" for i in block]).filter(lambda line: "999 " in line)


def lines(stream: DataStream) -> DataStream:
    """Grep, with lines made by a function of their number."""
    return stream.map(lambda i: f"line {i} of the text").filter(lambda line: "999 " in line)


def windows(stream: DataStream) -> DataStream:
    """Counts by key in windows of a second of event time, which is half a million records."""
    keys = KEYS
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda i, _: i // 500)
    pairs = stream.assign_timestamps_and_watermarks(strategy).map(lambda i: (i % keys, 1))
    windowed = pairs.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(timedelta(seconds=1)))
    return windowed.reduce(lambda a, b: (a[0], a[1] + b[1]))


def work(pair: tuple[int, int]) -> tuple[int, int]:
    """Keep the core busy for ``WORK_SECONDS``."""
    end = time.perf_counter() + WORK_SECONDS
    while time.perf_counter() < end:
        pass
    return pair


def slow(stream: DataStream) -> DataStream:
    """Map, key_by, a function that takes its time."""
    return stream.map(lambda i: (i % 1000, 1)).key_by(lambda pair: pair[0]).map(work)


PROGRAMS = {"keyed": keyed, "grep": grep, "lines": lines, "windows": windows, "slow": slow}


def check(name: str, timeout: int) -> None:
    """Compare a bounded run with an oracle."""
    count = 50_000
    stream = numbers(environment(timeout), 0, count, dealt=name == "windows")
    with PROGRAMS[name](stream).execute_and_collect() as records:
        found = list(records)
    if name == "keyed":
        assert len(found) == count, f"wrong result: {len(found)} records, not {count}"
        assert Counter(i % 1000 for i in range(count)) == dict(sorted(found)), "wrong result: sums differ"
    elif name == "slow":
        assert Counter(found) == Counter((i % 1000, 1) for i in range(count)), "wrong result: records differ"
    elif name == "windows":
        assert sorted(found) == sorted(Counter(i % KEYS for i in range(count)).items()), "wrong result: counts differ"
    else:
        assert sorted(found) == sorted(line for i in range(count) if "999 " in (line := f"line {i} of the text"))


def latencies(found: list[VertexMetrics]) -> dict[int, int]:
    """Return the histogram of all subtasks."""
    latency: dict[int, int] = {}
    for metrics in found:
        merge(latency, metrics.latency)
    return latency


def measure(client: JobClient, seconds: float, vertex: int) -> dict[str, float]:
    """Watch a vertex of a running job; throughput is between the first and the last report that counts records."""
    points: list[tuple[float, int]] = []
    before: dict[int, int] = {}
    begin, warm = time.perf_counter(), 0.0
    while time.perf_counter() - begin < seconds + WARMUP + 30:
        time.sleep(0.05)
        if client.get_job_execution_result().done():
            client.get_job_execution_result().result()
        found = [m.vertices[vertex] for m in client.metrics().values() if vertex in m.vertices]
        total, now = sum(m.records_in for m in found), time.perf_counter()
        if not total:
            continue
        warm = warm or now + WARMUP
        if now < warm:
            before = latencies(found)
        elif not points or total != points[-1][1]:
            points.append((now, total))
            if points[-1][0] - points[0][0] >= seconds:
                break
    latency = {bucket: count - before.get(bucket, 0) for bucket, count in latencies(found).items()}
    (t0, n0), (t1, n1) = points[0], points[-1]
    return {
        "records_per_s": (n1 - n0) / (t1 - t0),
        **{f"p{q}": percentile(latency, q / 100) or 0 for q in (50, 90, 99)},
    }


def main() -> None:
    """Run and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--rate", type=float, default=0)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--timeout", type=int, default=5)
    parser.add_argument("--paths", type=int, default=0, metavar="TURNS")
    parser.add_argument("--option", default="pipeline.vectorized")
    parser.add_argument("--keys", type=int, default=KEYS, help="of windows")
    args = parser.parse_args()
    globals()["KEYS"] = args.keys
    if not args.paths:
        print(json.dumps(run(args)))
        return
    speeds: dict[str, list[float]] = {"false": [], "true": []}
    options = os.environ.get("BENCH_OPTIONS", "")
    for _ in range(args.paths):
        for switched, found in speeds.items():
            os.environ["BENCH_OPTIONS"] = f"{options} {args.option}={switched}"
            found.append(run(args)["records_per_s"])
            print(f"{args.option}={switched}: {found[-1]:,.0f} records/s", file=sys.stderr, flush=True)
    ratios = [fast / slow for slow, fast in zip(speeds["false"], speeds["true"], strict=True)]
    print(json.dumps({"off": speeds["false"], "on": speeds["true"], "ratios": ratios}))


def run(args: argparse.Namespace) -> dict[str, float]:
    """Check a program, then measure it."""
    check(args.program, args.timeout)
    env = environment(args.timeout)
    stream = PROGRAMS[args.program](numbers(env, args.rate, 10**12, dealt=args.program == "windows"))
    if args.program in ("grep", "lines"):
        stream = stream.rebalance().map(lambda line: line)
    stream.sink_to(DiscardingSink())
    client = env.execute_async(args.program)
    try:
        return measure(client, args.seconds, 0 if args.program in ("grep", "lines") else 1)
    finally:
        client.cancel().result(60)


if __name__ == "__main__":
    main()
