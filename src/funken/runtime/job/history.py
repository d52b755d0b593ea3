"""What a job remembers of itself: the executions of its tasks, its failures and its restarts."""

from __future__ import annotations

import traceback
from dataclasses import field
from itertools import pairwise

from funken.dataclass import dataclass
from funken.errors import JobExecutionError
from funken.ids import Millis
from funken.runtime.job.states import EXECUTION_MOVES, STARTING, ExecutionState
from funken.runtime.messages import TaskId

_MESSAGE = 10_000
_TRACEBACK = 50_000


@dataclass(slots=True)
class Execution:
    """One execution of a task: its state, and since when; ``number`` counts what Spark repeats within an attempt."""

    task: TaskId
    attempt: int
    number: int
    created: Millis
    state: ExecutionState = ExecutionState.CREATED
    pid: int = 0
    host: str = ""
    error: BaseException | None = None
    #: when (wall-clock, ms) it came to each state
    timestamps: dict[ExecutionState, Millis] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.timestamps[self.state] = self.created

    @property
    def was_opened(self) -> bool:
        """Whether its process was there once."""
        return ExecutionState.INITIALIZING in self.timestamps

    def start(self, state: ExecutionState, now: Millis) -> None:
        """Go on towards ``RUNNING``, through the states between; an execution that is further, or over, stays there."""
        if self.state in STARTING:
            for step in STARTING[STARTING.index(self.state) + 1 : STARTING.index(state) + 1]:
                self.move(step, now)

    def move(self, state: ExecutionState, now: Millis) -> bool:
        """Go to another state if that is a move from this one; return whether it is."""
        if state not in EXECUTION_MOVES[self.state]:
            return False
        self.state = state
        self.timestamps[state] = now
        return True

    def validate(self) -> None:
        """Assert the invariants; for tests."""
        steps = list(self.timestamps)
        assert steps[0] is ExecutionState.CREATED and steps[-1] is self.state
        assert all(after in EXECUTION_MOVES[before] for before, after in pairwise(steps))


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """A failure of an attempt, or of the job: when, where, and the user's traceback."""

    time: Millis
    attempt: int
    error: str
    message: str
    operator: str | None = None
    subtask: int | None = None
    task: str | None = None
    host: str | None = None
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class RestartRecord:
    """A restart: after which attempt, why, and how long (ms) it was put off."""

    time: Millis
    attempt: int
    delay: Millis
    reason: str


def headline(error: BaseException) -> str:
    """Return what an error says, without the traceback that it carries.

    >>> headline(JobExecutionError("no disk", traceback_text="...")), headline(KeyError("orders"))
    ('no disk', "KeyError: 'orders'")
    """
    if isinstance(error, JobExecutionError):
        return str(error.args[0])
    return f"{type(error).__name__}: {error}"


def failure_record(error: BaseException, time: Millis, attempt: int, where: Execution | None = None) -> FailureRecord:
    """Describe a failure; ``where`` is the execution that failed first, if it was one."""
    known = isinstance(error, JobExecutionError)
    text = error.traceback_text if isinstance(error, JobExecutionError) else None
    return FailureRecord(
        time,
        attempt,
        type(error).__name__,
        headline(error)[:_MESSAGE],
        error.operator if isinstance(error, JobExecutionError) else None,
        error.subtask if isinstance(error, JobExecutionError) else None,
        None if where is None else str(where.task),
        (where.host or None) if where is not None else None,
        (text or ("" if known else "".join(traceback.format_exception(error))))[-_TRACEBACK:],
    )
