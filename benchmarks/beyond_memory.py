"""Sort, group and join far more than the managed memory holds, on Spark; prints what was spilled and the memory of the workers.

usage: beyond_memory.py [--gigabytes 2] [--memory 128] [--parallelism 2] [--only sort,group,join] [--most 1024] [--by-record]

``--memory`` is the managed memory per task in MB; ``--by-record`` switches columns off. Figures are kept in
``benchmarks/results/beyond-memory.json``. The records are tuples of a number and text, 200 bytes each when pickled.
Answers are checked by counts and sums. ``worker_peak_mb`` is the largest resident memory that a worker had, as the system counts
it when the worker has read its whole result; above ``--most`` MB the script fails.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from funken import Configuration
from funken.dataset import DataSet, ExecutionEnvironment, MapPartitionFunction

TEXT = "x" * 180
RECORD_BYTES = 200


def scattered(number: int, count: int) -> int:
    """Return another number below ``count``, each once: a permutation, so that nothing comes in order."""
    return (number * 7_368_787 + 12_345) % count


class Summary(MapPartitionFunction):
    """Emits (records, sum of the first fields, whether they were in order, peak resident megabytes of this worker)."""

    def map_partition(self, values: Iterable[Any]) -> Iterator[tuple[int, int, bool, float]]:
        """Read everything."""
        count, total, ordered, before = 0, 0, True, -1
        for value in values:
            count += 1
            total += value[0]
            ordered, before = ordered and value[0] >= before, value[0]
        yield count, total, ordered, peak_megabytes()


def peak_megabytes() -> float:
    """Return the largest resident memory this process has had."""
    status = Path("/proc/self/status")
    if status.exists():  # of a forked process, getrusage() may report what its parent had
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def records(env: ExecutionEnvironment, count: int, bytes_each: int = RECORD_BYTES) -> DataSet:
    """Return (number, text), every number below ``count`` once, in no order."""
    text = TEXT[: max(0, bytes_each - 20)]
    made = env.generate_sequence(0, count - 1).map(lambda number: (scattered(number, count), text + str(number)))
    return made.with_statistics(records=count, size=count * bytes_each)


def sort(env: ExecutionEnvironment, count: int) -> DataSet:
    """Sort everything."""
    return records(env, count).partition_by_range(0).sort_partition(0)


def group(env: ExecutionEnvironment, count: int) -> DataSet:
    """Group everything; a group has four records, and the longest text stays."""
    quarter = (count + 3) // 4
    pairs = records(env, count).map(lambda record: (record[0] % quarter, record[1]))
    return pairs.group_by(0).reduce(lambda one, other: one if len(one[1]) >= len(other[1]) else other)


def join(env: ExecutionEnvironment, count: int) -> DataSet:
    """Join two halves of the data, of which each record has one partner."""
    half = count // 2
    joined = records(env, half).join(records(env, half)).where(0).equal_to(0)
    return joined.using(lambda one, other: (one[0], len(one[1]) + len(other[1])))


PROGRAMS = {"sort": sort, "group": group, "join": join}


def run(name: str, arguments: argparse.Namespace) -> bool:
    """Measure a program; return whether its memory was bounded."""
    count = int(arguments.gigabytes * 2**30) // RECORD_BYTES
    options = {
        "execution.target": arguments.target,
        "parallelism.default": arguments.parallelism,
        "execution.memory.managed": f"{arguments.memory} mb",
        "pipeline.vectorized": not arguments.by_record,
    }
    env = ExecutionEnvironment.get_execution_environment(Configuration(options))
    began = time.perf_counter()
    found = PROGRAMS[name](env, count).map_partition(Summary()).collect()
    seconds = time.perf_counter() - began
    keys = {"sort": count, "group": (count + 3) // 4, "join": count // 2}[name]
    assert sum(part[0] for part in found) == keys, f"{name}: {found} instead of {keys} records"
    assert sum(part[1] for part in found) == keys * (keys - 1) // 2, f"{name}: wrong keys"
    assert name != "sort" or all(part[2] for part in found), "the sorted partitions are not in order"
    result = env.get_last_job_execution_result()
    peak = max(part[3] for part in found)
    figures = {
        "benchmark": f"{name}, by record" if arguments.by_record else name,
        "records": count,
        "gigabytes": arguments.gigabytes,
        "managed_mb_per_task": arguments.memory,
        "parallelism": arguments.parallelism,
        "seconds": round(seconds, 1),
        "spilled_mb": round(result.spilled_bytes / 2**20),
        "managed_peak_mb": round(result.peak_managed_memory / 2**20, 1),
        "worker_peak_mb": round(peak),
    }
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()
    if arguments.results:
        keep(figures, Path(arguments.results))
    return peak <= arguments.most


def keep(figures: dict[str, Any], file: Path) -> None:
    """Put figures into the file of results, in place of those of the same name."""
    document = json.loads(file.read_text()) if file.exists() else {}
    at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    document[figures["benchmark"]] = figures | {"machine": f"{platform.machine()}, {os.cpu_count()} cores", "at": at}
    file.write_text(json.dumps(document, indent=1) + "\n")


def main() -> None:
    """Run what was asked for; fail if a worker had more memory than it may."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--memory", type=int, default=128)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--only", default=",".join(PROGRAMS))
    parser.add_argument("--most", type=int, default=1024)
    parser.add_argument("--target", default="batch", choices=["batch", "local"])
    parser.add_argument("--by-record", action="store_true")
    parser.add_argument("--results", default=str(Path(__file__).parent / "results" / "beyond-memory.json"))
    arguments = parser.parse_args()
    sys.exit(not all([run(name, arguments) for name in arguments.only.split(",")]))


if __name__ == "__main__":
    main()
