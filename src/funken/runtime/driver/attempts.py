"""What becomes of tasks that Spark repeats in a batch job: a task's output counts once, when the task has finished.

What an attempt reports is buffered here until then. If the attempt fails, it is discarded, and the cause is kept: that is
the job's error if Spark stops retrying. What a finished task reports when it is repeated is discarded too.
"""

from __future__ import annotations

from funken.errors import JobExecutionError, TaskLost
from funken.runtime.messages import CoordinatorEvent, TaskId


class AttemptOutputs:
    """The events and failures of the tasks of one job; the caller holds the master's lock."""

    def __init__(self) -> None:
        self._held: dict[TaskId, list[CoordinatorEvent]] = {}
        self._failures: dict[TaskId, list[JobExecutionError]] = {}
        self._finished: set[TaskId] = set()

    def hold(self, event: CoordinatorEvent) -> None:
        """Buffer an event until its task has finished."""
        self._held.setdefault(event.task, []).append(event)

    def take(self, task: TaskId) -> list[CoordinatorEvent]:
        """Return what a task's attempt has reported, and forget it."""
        return self._held.pop(task, [])

    def take_all(self) -> list[CoordinatorEvent]:
        """Return what is held of every task, and forget it."""
        return [event for task in list(self._held) for event in self.take(task)]

    def first_to_finish(self, task: TaskId) -> bool:
        """Return whether no attempt of the task has finished before this one."""
        first = task not in self._finished
        self._finished.add(task)
        return first

    def has_finished(self, task: TaskId) -> bool:
        """Whether an attempt of the task has finished."""
        return task in self._finished

    def failed(self, task: TaskId, error: JobExecutionError) -> None:
        """Remember why an attempt failed; Spark decides whether there is another."""
        self._failures.setdefault(task, []).append(error)

    def cause(self) -> JobExecutionError | None:
        """Return the newest failure of the task that failed most often: the one that Spark stopped retrying.

        >>> from funken.errors import OperatorFailed
        >>> attempts = AttemptOutputs()
        >>> for task, error in [(0, OperatorFailed("once")), (1, OperatorFailed("twice")), (1, TaskLost("killed"))]:
        ...     attempts.failed(TaskId(0, task), error)
        >>> attempts.cause()
        OperatorFailed('twice')
        """
        if not self._failures:
            return None
        failures = max(self._failures.values(), key=len)
        told = [error for error in failures if not isinstance(error, TaskLost)]
        return (told or failures)[-1]
