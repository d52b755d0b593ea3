"""The options about how records travel and wait: throughput against latency."""

from __future__ import annotations

from typing import Any

from funken.config.options import Option, _option
from funken.config.parsing import at_least, one_of
from funken.config.values import duration_ms

BUFFER_TIMEOUT = _option(
    "execution.buffer-timeout.interval",
    at_least(0, duration_ms, or_else=-1),
    10,
    "How long a record may wait for its block to fill (ms), at most. 0: not at all; -1: until the block is full.",
    ("execution.buffer-timeout",),
)
BLOCK_RECORDS = _option(
    "execution.block.records",
    at_least(1),
    8000,
    "Records in a full block between tasks, if its bytes allow. A task handles up to 2000 of them at a time, more only of "
    "columns and where fast records end in the vertex of their source.",
)
BLOCK_BYTES = _option("execution.block.bytes", at_least(1), 256 * 1024, "Bytes a block should not exceed by much.")
QUEUEING_TARGET = _option(
    "execution.queueing-target",
    at_least(0, duration_ms),
    12,
    "How long records may queue between tasks under full load before the sources pause, or hold less in flight (ms). 0: "
    "never; then Spark's buffers alone bound what is in flight.",
)
CPU_SCHEDULING = _option(
    "execution.cpu-scheduling",
    one_of("batch", "normal"),
    "batch",
    "The policy by which Linux schedules the threads of workers and of their executor. BATCH (SCHED_BATCH): a thread that is "
    "woken takes no core from another, for throughput; NORMAL: it may, for latency where cores are never idle.",
)

AUTO = "auto"


def _subtasks(value: Any) -> int | str:
    """Return a number of 1 or more, or ``AUTO``."""
    return AUTO if str(value).strip().lower() == AUTO else at_least(1)(value)


SUBTASKS_PER_WORKER: Option[int | str] = _option(
    "execution.subtasks-per-worker",
    _subtasks,
    AUTO,
    "How many subtasks of a stage share a Python worker of a continuous job, at most, and the one thread of it that calls "
    "functions. With more subtasks than cores a record then costs less CPU, and the job less memory and fewer task slots; but a "
    "function that waits, for a service say, makes the other subtasks of its worker wait. auto: on one machine, a stage that has "
    "more subtasks than there are cores has a worker per core if nothing in it can wait, as far as its functions can be read; "
    "else a worker has one subtask.",
)

__all__ = [
    "AUTO",
    "BLOCK_BYTES",
    "BLOCK_RECORDS",
    "BUFFER_TIMEOUT",
    "CPU_SCHEDULING",
    "QUEUEING_TARGET",
    "SUBTASKS_PER_WORKER",
]
