"""How many functions and files one record, one watermark and one barrier pass, from the source to the sink, in one process.

Two sources, a map, a keyed function with state, a sink: four tasks in two stages, moved by hand. What is counted are the
distinct functions of Funken, the modules they are in, and the calls. Run it before and after a change to the runtime:

    .venv/bin/python benchmarks/paths.py
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import cloudpickle

from funken import (
    KeyedProcessFunction,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.ids import MAX_WATERMARK
from funken.operators.sink import CollectSink
from funken.plan.nodes import portable
from funken.runtime.messages import TaskId, TriggerCheckpoint
from funken.runtime.settings import CheckpointPlan, TaskSettings
from funken.runtime.task.task import Task
from funken.timing.clock import ManualClock


class Count(KeyedProcessFunction):
    """Counts the records of a key."""

    def open(self, runtime_context: Any) -> None:
        """Get the state."""
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value: Any, ctx: Any) -> Any:
        """Count a record."""
        self.count.update(self.count.value() + 1)
        yield value


class Passed:
    """The functions that were called while a part of the program ran."""

    def __init__(self) -> None:
        self.calls: dict[CodeType, int] = {}

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and "/funken/" in code.co_filename:
            self.calls[code] = self.calls.get(code, 0) + 1

    def during(self, work: Callable[[], None]) -> Passed:
        """Count during some work."""
        sys.setprofile(self._note)
        try:
            work()
        finally:
            sys.setprofile(None)
        return self

    def __str__(self) -> str:
        named = [code for code in self.calls if not code.co_name.startswith("<")]
        files = {code.co_filename for code in named}
        return f"{len(named):4} functions {len(files):4} files {sum(self.calls.values()):5} calls"


class Job:
    """The tasks of a job and the blocks between them."""

    def __init__(self, folder: str) -> None:
        env = StreamExecutionEnvironment.create_local_environment(2)
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
        numbers = env.from_source(NumberSequenceSource(1, 1000), strategy, "numbers")
        counted = numbers.map(lambda n: n + 1).key_by(lambda n: n % 7).process(Count())
        counted._sink("counted", CollectSink("counted"))
        self.plan = env.compile()
        blob = portable(self.plan)
        self.clock = ManualClock(1000)
        self.snapshots: list[Any] = []
        settings = TaskSettings(block_records=8, checkpoints=CheckpointPlan(folder))
        self.tasks = {
            TaskId(stage, number): Task(
                cloudpickle.loads(blob),
                TaskId(stage, number),
                settings,
                self.clock,
                lambda event: None,
                deliver=self.snapshots.append,
            )
            for stage, width in enumerate(self.plan.widths)
            for number in range(width)
        }
        for task in self.tasks.values():
            task.open()
            for subtask in task.subtasks.values():
                if subtask.source is not None:
                    splits = subtask.vertex.nodes[0].spec.source.enumerator(2).next_splits(task.id.subtask)
                    subtask.source.add_splits(splits, no_more=True)

        self.sources = [task for task in self.tasks.values() if task.has_sources]

    def carry(self) -> None:
        """Bring every block to where it goes, and process it."""
        for task in self.tasks.values():
            for target, data in task.outbox:
                receiver = self.tasks[TaskId(task.id.stage + 1, target)]
                receiver.receive(data)
                for _ in range(receiver.backlog):
                    receiver.step()
            task.outbox.clear()

    def record(self) -> None:
        """Read once and carry what came of it."""
        for task in self.sources:
            task.poll()
            task.flush()
        self.carry()

    def watermark(self) -> None:
        """Let time pass until watermarks are emitted."""
        for task in self.sources:
            task.advance()
        self.carry()

    def barrier(self) -> None:
        """Make a checkpoint, until all snapshots are delivered."""
        for task in self.sources:
            task.handle_command(TriggerCheckpoint(self.checkpoint))
        self.carry()


def main() -> None:
    """Warm up, then print the counts of each."""
    with tempfile.TemporaryDirectory() as folder:
        job = Job(folder)
        for job.checkpoint in (1, 2, 3):
            for name, part in (("record", job.record), ("watermark", job.watermark), ("barrier", job.barrier)):
                job.clock.advance(200)
                passed = Passed().during(part)
                if job.checkpoint == 3:
                    print(f"{name:10} {passed}")
                    if "-v" in sys.argv:
                        for code, calls in passed.calls.items():
                            print(f"    {calls:4} {code.co_filename.rpartition('/funken/')[2]} {code.co_qualname}")
        assert len(job.snapshots) == 3 * len(job.tasks), MAX_WATERMARK


if __name__ == "__main__":
    main()
