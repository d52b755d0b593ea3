"""The executor of this process: all tasks of a plan, pulled from the sinks, one block at a time and always in the same order."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from funken.dataset.memory.manager import MemoryManager
from funken.dataset.optimizer.physical import PhysicalNode, everything, memory_consumers
from funken.dataset.runtime.context import Accumulator, merged
from funken.dataset.runtime.iterations import IterationRun, LocalSupersteps
from funken.dataset.runtime.pipeline import BatchJob, Figures, JobCounters, Pipeline, RunningProgram
from funken.io.spill import SpillSpace
from funken.runtime.process import collecting_rarely


class _Part:
    """The target of one task of a sink, if the format keeps everything in this process."""

    def __init__(self, take: Any) -> None:
        self.write = take

    def close(self) -> None:
        """Do nothing."""


@dataclass
class ExecutionOutcome:
    """The outcome of a finished job."""

    accumulators: dict[str, Accumulator]
    spilled: int
    spill_files: int
    peak: int
    iterations: list[tuple[str, int, str, tuple[int, ...]]]
    restarts: int = 0


def run(
    sinks: Sequence[PhysicalNode],
    budget: int,
    directories: Sequence[str] = (),
    parameters: Mapping[str, str] | None = None,
    cached_files: Mapping[str, str] | None = None,
    program: RunningProgram | None = None,
) -> ExecutionOutcome:
    """Run a plan; raise the failure, when everything is closed."""
    parallelism = max(node.parallelism for node in everything(sinks))
    with collecting_rarely(), SpillSpace(directories) as space, Outputs(sinks):
        consumers = memory_consumers(sinks)
        memories = [MemoryManager(budget, consumers, space) for _ in range(parallelism)]
        iterations: list[LocalSupersteps] = []

        def supersteps(plan: PhysicalNode) -> LocalSupersteps:
            iterations.append(LocalSupersteps(plan))
            return iterations[-1]

        job = BatchJob(
            space,
            memories,
            parameters or {},
            cached_files or {},
            run_iteration=IterationRun,
            supersteps=supersteps,
            counters=(counters := JobCounters(sinks)),
        )
        if program is not None:
            program.figures = lambda: Figures(
                [counters.counts()], dict(space.spilled_by), [each.progress() for each in iterations]
            )
        pipeline = Pipeline(sinks, job)
        try:
            pipeline.wire()
            drain(pipeline, sinks, lambda sink, subtask: sinks[sink].node.format.part(subtask))  # type: ignore[attr-defined]
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one that counts
                pipeline.close()
            raise
        pipeline.close()
        peak = max(memory.peak for memory in memories)
        return ExecutionOutcome(merged(job.accumulators), space.spilled, space.files, peak, job.iterations)


class Outputs:
    """The formats of all sinks, where the program runs: begun together, committed at the end, or aborted."""

    def __init__(self, sinks: Sequence[PhysicalNode]) -> None:
        self._sinks = sinks
        self._begun: list[Any] = []

    def __enter__(self) -> Outputs:
        try:
            for sink in self._sinks:
                output = sink.node.format  # type: ignore[attr-defined]
                output.begin(sink.parallelism)
                self._begun.append(output)
        except BaseException:
            self._abort()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._abort()
            return
        for output in self._begun:
            output.commit()

    def _abort(self) -> None:
        for output in self._begun:
            output.abort()


def drain(pipeline: Pipeline, sinks: Sequence[PhysicalNode], part: Callable[[int, int], Any]) -> None:
    """Read the sinks of this process in turn, a block each.

    ``part`` returns a consumer of a sink's blocks, by its place, and a subtask if the format keeps them in the driver.
    """
    running = []
    for place, sink in enumerate(sinks):
        for subtask in pipeline.job.hosted(sink.parallelism):
            output = sink.node.format  # type: ignore[attr-defined]
            if output.travels:
                output = copy.copy(output)
                output.open(subtask, sink.parallelism)
            else:
                output = _Part(part(place, subtask))
            pipeline.tasks[id(sink), subtask].kept["output"] = output
            running.append(pipeline.stream(sink, subtask))
    while running:
        running = [stream for stream in running if next(stream, None) is not None]
