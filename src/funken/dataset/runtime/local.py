"""The executor of this process: all tasks of a plan, pulled from the sinks, one block at a time and always in the same order."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from funken.dataset.memory.manager import MemoryManager
from funken.dataset.memory.spill import SpillSpace
from funken.dataset.optimizer.physical import PhysicalNode, everything, memory_consumers
from funken.dataset.runtime.accumulators import Accumulator, merged
from funken.dataset.runtime.iterations import IterationRun
from funken.dataset.runtime.pipeline import BatchJob, Pipeline


class _Part:
    """What a sink's task writes to, if the format keeps everything in this process."""

    def __init__(self, take: Any) -> None:
        self.write = take

    def close(self) -> None:
        """Do nothing."""


@dataclass
class ExecutionOutcome:
    """What a finished job leaves."""

    accumulators: dict[str, Accumulator]
    spilled: int
    spill_files: int
    peak: int
    iterations: list[tuple[str, int, str, tuple[int, ...]]]


def run(
    sinks: Sequence[PhysicalNode],
    budget: int,
    directories: Sequence[str] = (),
    parameters: Mapping[str, str] | None = None,
    cached_files: Mapping[str, str] | None = None,
) -> ExecutionOutcome:
    """Run a plan; raise what fails, when everything is closed."""
    parallelism = max(node.parallelism for node in everything(sinks))
    with SpillSpace(directories) as space:
        consumers = memory_consumers(sinks)
        memories = [MemoryManager(budget, consumers, space) for _ in range(parallelism)]
        job = BatchJob(space, memories, parameters or {}, cached_files or {}, run_iteration=IterationRun)
        pipeline = Pipeline(sinks, job)
        formats: list[Any] = []
        try:
            for sink in sinks:
                output = sink.node.format  # type: ignore[attr-defined]
                output.begin(sink.parallelism)
                formats.append(output)
            pipeline.wire()
            _drain(pipeline, sinks)
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one that counts
                pipeline.close()
            for output in formats:
                output.abort()
            raise
        try:
            pipeline.close()
        except BaseException:
            for output in formats:
                output.abort()
            raise
        for output in formats:
            output.commit()
        peak = max(memory.peak for memory in memories)
        return ExecutionOutcome(merged(job.accumulators), space.spilled, space.files, peak, job.iterations)


def _drain(pipeline: Pipeline, sinks: Sequence[PhysicalNode]) -> None:
    """Read all sinks in turn, a block each."""
    running = []
    for sink in sinks:
        for subtask in range(sink.parallelism):
            task = pipeline.tasks[id(sink), subtask]
            task.kept["output"] = _opened(sink, subtask)
            running.append(pipeline.stream(sink, subtask))
    while running:
        running = [stream for stream in running if next(stream, None) is not None]


def _opened(sink: PhysicalNode, subtask: int) -> Any:
    output = sink.node.format  # type: ignore[attr-defined]
    if not output.travels:
        return _Part(output.part(subtask))
    own = copy.copy(output)
    own.open(subtask, sink.parallelism)
    return own
