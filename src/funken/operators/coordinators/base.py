"""The contract of an operator coordinator: one per operator and attempt, on the driver (Flink's ``OperatorCoordinator``).

A spec that has a method ``coordinator(context)`` gets one. Its subtasks send it events with ``context.send_event(payload)``;
it sends events to them with ``context.send_event(subtask, payload)``. Payloads are plain data, and arrive in the order in which
they were sent. With ``output=True`` an event is part of what the attempt of the task writes: where Spark may repeat a task, it
is handed on when the task has finished, and discarded if another attempt counts.

Its methods are called one at a time, with the lock of the job master: they have to be quick. What may take long, such as
listing files or committing, runs on the coordinator's worker thread: ``context.worker``. Only ``handle_output`` and
``discard_output`` are called without the lock, by several threads, and may wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any, Protocol, TypeVar

from funken.config import Configuration
from funken.connectors.sink import CommitOutcome, CommitRequest
from funken.dataclass import dataclass

# ---- What the commits of a job have come to, for its metrics.


@dataclass
class CommitCounts:
    """Committables of a sink, or of all sinks of a job over all attempts, by Flink's names; written by threads that commit.

    >>> counts = CommitCounts()
    >>> counts.metrics()
    {}
    >>> counts.count([CommitRequest("part-0"), CommitRequest("part-1")], seconds=0.0123)
    >>> [(name, value) for name, value in counts.metrics().items() if value]
    [('numCommittablesSuccess', 2), ('lastCommitDuration', 12.3)]
    """

    success: int = 0
    already: int = 0
    retry: int = 0
    failure: int = 0
    #: how long (s) the last commit of a checkpoint took, with its retries
    last_duration: float | None = None

    def count(self, requests: Iterable[CommitRequest], seconds: float) -> None:
        """Count requests that a committer has handled, ``seconds`` after the first try."""
        outcomes = Counter(request.outcome for request in requests)
        self.success += outcomes[CommitOutcome.COMMITTED]
        self.already += outcomes[CommitOutcome.ALREADY_COMMITTED]
        self.retry += outcomes[CommitOutcome.RETRY_LATER]
        self.failure += outcomes[CommitOutcome.FAILED]
        self.last_duration = seconds

    def metrics(self) -> dict[str, int | float]:
        """Return them by name; nothing before the first commit."""
        if self.last_duration is None:
            return {}
        return {
            "numCommittablesSuccess": self.success,
            "numCommittablesAlreadyCommitted": self.already,
            "numCommittablesRetry": self.retry,
            "numCommittablesFailure": self.failure,
            "lastCommitDuration": round(self.last_duration * 1000, 3),
        }


T = TypeVar("T")


class Worker(Protocol):
    """The worker thread of one coordinator."""

    def call(self, work: Callable[[], T], seconds: float, what: str) -> T:
        """Run work on the worker thread, and wait for its result; raises ``CommitError`` if that takes too long."""

    def call_async(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run work on the worker thread; ``done`` gets its result under the master's lock. What it raises fails the job."""

    def pause(self, seconds: float) -> bool:
        """Wait; returns false at once if the attempt has failed or the job is cancelled."""


class _Inline:
    """Runs everything in the calling thread: for tests."""

    def call(self, work: Callable[[], T], seconds: float, what: str) -> T:
        return work()

    def call_async(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        done(work())

    def pause(self, seconds: float) -> bool:
        return True


def _drop(subtask: int, payload: Any) -> None:
    """No task is connected."""


@dataclass(frozen=True, slots=True)
class OperatorCoordinatorContext:
    """What a coordinator knows of its job, and what it may do.

    ``operator`` is the operator's name, ``operator_uid`` its stable id, ``restored_checkpoint_id`` the checkpoint that the
    attempt starts from. ``send_event(subtask, payload)`` sends an event to a subtask. ``shared`` is one dict for all
    coordinators of the attempt, by any name (Flink's ``CoordinatorStore``). ``commits`` are the counts of all sinks of the job.
    """

    operator: str
    parallelism: int = 1
    job_name: str = "job"
    job_id: str = "local"
    operator_uid: str = ""
    attempt: int = 0
    restored_checkpoint_id: int | None = None
    send_event: Callable[[int, Any], None] = _drop
    worker: Worker = field(default_factory=_Inline)
    shared: dict[str, Any] = field(default_factory=dict)
    configuration: Configuration = field(default_factory=Configuration)
    commits: CommitCounts = field(default_factory=CommitCounts)


class OperatorCoordinator:
    """The driver's half of an operator. Life: ``reset_to_checkpoint`` (after a restore) -> ``start`` -> ... -> ``close``."""

    def __init__(self, context: OperatorCoordinatorContext) -> None:
        self.context = context

    def start(self) -> None:
        """Begin, before any task runs; what it raises fails the attempt. May take long."""

    def handle_event(self, subtask: int, payload: Any) -> None:
        """Handle an event of a subtask."""

    def handle_output(self, subtask: int, payload: Any) -> None:
        """Handle an event that is output; called without the lock, so that waiting here holds up the subtask only."""

    def discard_output(self, subtask: int, payload: Any) -> None:
        """Drop an event that is output of an attempt that does not count; called without the lock."""

    def abandon(self) -> None:
        """The attempt is abandoned: whatever waits in another thread has to return."""

    def checkpoint(self, checkpoint_id: int) -> Any:
        """Return the state at the beginning of a checkpoint as plain data; ``None``: there is none.

        What was sent to a subtask before arrives there before the barrier, and what is sent later after it.
        """
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint is aborted."""

    def reset_to_checkpoint(self, checkpoint_id: int | None, state: Any) -> None:
        """Take back what ``checkpoint`` returned; called before ``start``."""

    def subtask_failed(self, subtask: int) -> None:
        """A subtask failed and begins again while the others run on: Spark repeats tasks of a batch job."""

    def tick(self, now: int) -> None:
        """Processing time (ms) has passed; called some times a second."""

    def metrics(self) -> dict[str, int | float]:
        """Return its metrics since the attempt began, by name."""
        return {}

    def close(self) -> None:
        """Release everything; the attempt has ended."""


__all__ = ["CommitCounts", "OperatorCoordinator", "OperatorCoordinatorContext", "Worker"]
