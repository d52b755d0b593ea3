"""The keyed job of a cluster: counts numbers by key, and writes each count to files, exactly once; or measures and prints a line.

``job.py write FOLDER COUNT RATE [KEY=VALUE]...`` writes to FOLDER/out; ``job.py measure RATE SECONDS [KEY=VALUE]...`` reads RATE
records per second (0: as fast as they go) and prints records per second and the latency of the last vertex.
"""

import json
import sys
import time

from funken import (
    Configuration,
    DataGeneratorSource,
    DiscardingSink,
    Encoder,
    FileSink,
    NumberSequenceSource,
    RollingPolicy,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)

KEYS = 100
WARM_SECONDS = 8.0


def counts(env, source):
    """Count by key; the functions are opaque, so this is the record path."""
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    pairs = numbers.map(lambda n: (n % KEYS, 1)).uid("pairs")
    return pairs.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1])).uid("counts")


def environment(options):
    """Make the environment of options in text."""
    return StreamExecutionEnvironment.get_execution_environment(
        Configuration({"execution.target": "continuous"} | dict(option.split("=", 1) for option in options))
    )


def write(folder, count, rate, *options):
    """Write every count."""
    env = environment(options)
    sink = FileSink.for_row_format(f"{folder}/out", Encoder.simple_string_encoder())
    sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
    made = counts(env, DataGeneratorSource(lambda n: n, int(count), float(rate)))
    made.map(lambda pair: f"{pair[0]} {pair[1]}").uid("lines").sink_to(sink).uid("files")
    env.execute("counts")


def measure(rate, seconds, *options):
    """Print throughput and latency."""
    env = environment(options)
    source = DataGeneratorSource(lambda n: n, None, float(rate)) if float(rate) else NumberSequenceSource(0, 2**62)
    counts(env, source).sink_to(DiscardingSink())
    client = env.execute_async("measured")
    seen, latencies = [], []
    end = time.monotonic() + 240
    while not sum_in(client) and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(WARM_SECONDS)
    begin, first = time.monotonic(), sum_in(client)
    while time.monotonic() < begin + float(seconds):
        time.sleep(0.5)
        found = [each.metrics for each in client.snapshot().vertices[-1].subtasks]
        seen.append(sum(each.records_in_per_second for each in found))
        latencies += [each.latency_p99 for each in found if each.latency_p99 is not None]
    rate_seen = (sum_in(client) - first) / (time.monotonic() - begin)
    hosts = sorted({each.host for vertex in client.snapshot().vertices for each in vertex.subtasks})
    client.cancel().result(timeout=60)
    latencies.sort()
    print(
        json.dumps(
            {
                "records_per_second": round(rate_seen),
                "p99_ms": round(latencies[len(latencies) // 2], 2) if latencies else None,
                "p99_worst_ms": round(latencies[-1], 2) if latencies else None,
                "hosts": hosts,
            }
        )
    )


def sum_in(client):
    """Return how many records the last vertex has read."""
    return sum(each.metrics.records_in for each in client.snapshot().vertices[-1].subtasks)


if __name__ == "__main__":
    {"write": write, "measure": measure}[sys.argv[1]](*sys.argv[2:])
