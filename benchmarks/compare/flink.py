"""What the runners on Flink's JVM share: its options, and how its metrics are read."""

from __future__ import annotations

from pathlib import Path

from protocol import LatestLine, Reading, Spec


def options(wanted: Spec, metrics: str = "") -> dict[str, str]:
    """Return Flink's configuration for a measurement; ``metrics`` is the file that ``Meter`` writes."""
    found = {"parallelism.default": str(wanted.parallelism), "taskmanager.numberOfTaskSlots": str(wanted.parallelism)}
    if wanted.buffer_timeout is not None:
        # 0 is "flush after every record" in Flink, too.
        found["execution.buffer-timeout.interval"] = f"{wanted.buffer_timeout} ms"
    if wanted.checkpoint:
        found["execution.checkpointing.interval"] = f"{wanted.checkpoint} ms"
        found["execution.checkpointing.dir"] = f"file://{wanted.folder}/checkpoints"
    if metrics:
        found |= {
            "metrics.reporters": "meter",
            "metrics.reporter.meter.factory.class": "bench.Meter$Factory",
            "metrics.reporter.meter.interval": "100 ms",
            "metrics.reporter.meter.path": metrics,
        }
    return found | wanted.options


class Metrics:
    """Reads what ``Meter`` writes: the records that the source named "numbers" sent, and the sinks' latencies."""

    def __init__(self, path: str, counter: str = "numbers", direction: str = "Out") -> None:
        self._latest = LatestLine(path)
        self._counter, self._end = counter, f".numRecords{direction}"

    def __call__(self) -> Reading | None:
        """Return the newest reading."""
        line = self._latest()
        if line is None:
            return None
        count = max((n for k, n in line["counts"].items() if self._counter in k and k.endswith(self._end)), default=0)
        return line["t"], count, {int(bucket): n for bucket, n in line["latency"].items()}


def results(program: str, folder: str) -> list[object]:
    """Return what ``Sinks.files`` wrote: lines, or tuples of numbers."""
    lines = [line for path in Path(folder).iterdir() for line in path.read_text().splitlines()]
    if program == "grep":
        return list(lines)
    tuples = [tuple(int(field) for field in line.strip("()+I[]").split(",")) for line in lines]
    if program == "keyed":
        return [fields[:2] for fields in tuples]  # without the stamp, if there is one
    return [(key, count, end // 1000) for key, count, end in tuples]
