"""The stacks of a job's tasks, as they were sampled last: whoever asks has them sampled anew, but not all the time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from funken.runtime.messages import DumpThreads, SampleStacks, StacksSampled, TaskCommand, TaskId, ThreadsDumped
from funken.timing.clock import Clock

SAMPLE_SECONDS = 2.0
_AGAIN_SECONDS = 10.0


class JobStacks:
    """The newest sample of each task, from any thread; ``send`` carries a command to a task.

    >>> from funken.timing.clock import ManualClock
    >>> sent, task = [], TaskId(0, 0)
    >>> stacks = JobStacks(lambda task, command: sent.append(command.seconds), ManualClock())
    >>> stacks.request([task]); stacks.request([task])
    >>> stacks.take(StacksSampled(task, ended=7)); sent, stacks.newest([task])[0].ended
    ([2.0], 7)
    """

    def __init__(self, send: Callable[[TaskId, TaskCommand], None], clock: Clock) -> None:
        self._send = send
        self._clock = clock
        self._changed = threading.Condition()
        self._newest: dict[TaskId, StacksSampled] = {}
        self._asked: dict[TaskId, float] = {}
        self._requests = 0
        #: the answers to requests whose callers wait
        self._dumps: dict[int, dict[TaskId, ThreadsDumped]] = {}

    def clear(self) -> None:
        """Another attempt begins."""
        with self._changed:
            self._newest.clear()
            self._asked.clear()

    def take(self, event: StacksSampled | ThreadsDumped) -> None:
        """Take what a task has found."""
        with self._changed:
            if isinstance(event, StacksSampled):
                self._newest[event.task] = event
            elif event.request in self._dumps:
                self._dumps[event.request][event.task] = event
                self._changed.notify_all()

    def request(self, tasks: Iterable[TaskId]) -> None:
        """Have those tasks sampled that were not asked within the last ten seconds."""
        now = self._clock.monotonic()
        with self._changed:
            due = [task for task in tasks if now - self._asked.get(task, now - _AGAIN_SECONDS) >= _AGAIN_SECONDS]
            self._asked |= dict.fromkeys(due, now)
        for task in due:
            self._send(task, SampleStacks(SAMPLE_SECONDS))

    def newest(self, tasks: Iterable[TaskId]) -> list[StacksSampled]:
        """Return the newest samples of tasks."""
        with self._changed:
            return [self._newest[task] for task in tasks if task in self._newest]

    def threads(self, tasks: Iterable[TaskId], seconds: float) -> list[ThreadsDumped]:
        """Return what the threads of the tasks' processes do now; of a task that does not answer within so long, nothing."""
        wanted = list(tasks)
        with self._changed:
            self._requests += 1
            number, found = self._requests, dict[TaskId, ThreadsDumped]()
            self._dumps[number] = found
        try:
            for task in wanted:
                self._send(task, DumpThreads(number))
            with self._changed:
                self._changed.wait_for(lambda: len(found) == len(wanted), seconds)
                return list(found.values())
        finally:
            with self._changed:
                del self._dumps[number]
