"""The states of a job and of its tasks, with Flink's names, and the moves between them.

``JOB_MOVES`` and ``EXECUTION_MOVES`` are the allowed moves; ``machine.py`` makes them, and no one else.
"""

from __future__ import annotations

import enum
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import field
from itertools import pairwise

from funken.checkpoint.machine import Outcome
from funken.dataclass import dataclass
from funken.errors import JobExecutionError
from funken.ids import Millis
from funken.runtime.messages import TaskId


class JobStatus(enum.Enum):
    """The state of a job (Flink's names, PyFlink's values).

    >>> [status.name for status in JobStatus if status.is_globally_terminal_state()]
    ['FAILED', 'CANCELED', 'FINISHED']
    >>> [status.name for status in JobStatus if status.is_terminal_state()]
    ['FAILED', 'CANCELED', 'FINISHED', 'SUSPENDED']
    """

    CREATED = 0
    """Compiled and known to who watches; nothing runs."""
    RUNNING = 1
    """An attempt runs, or is being started."""
    FAILING = 2
    """It has failed for good; its rest is cleaned up."""
    FAILED = 3
    CANCELLING = 4
    """A client has cancelled it, or its program ends; tasks are being stopped."""
    CANCELED = 5
    FINISHED = 6
    RESTARTING = 7
    """An attempt has failed, and another follows."""
    SUSPENDED = 8
    """Its program was ended; a job with checkpoints can be resumed from the newest one."""
    RECONCILING = 9
    """Flink's; no job of Funken is ever in it."""
    INITIALIZING = 10
    """Not yet run."""

    def is_globally_terminal_state(self) -> bool:
        """Return True if the job is over, and is not to be resumed."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Return True if the job is over in this process."""
        return self is JobStatus.SUSPENDED or self.is_globally_terminal_state()


class ExecutionState(enum.Enum):
    """The state of one execution of a task (Flink's names).

    >>> [state.name for state in ExecutionState if state.is_terminal]
    ['FINISHED', 'CANCELED', 'FAILED']
    """

    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"
    """Its sources and sinks are in order; it waits for a slot, or for the stage before it."""
    DEPLOYING = "DEPLOYING"
    """Spark starts its process."""
    INITIALIZING = "INITIALIZING"
    """Its process restores state and opens operators."""
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        """True if the execution is over."""
        return not EXECUTION_MOVES[self]


_J, _E = JobStatus, ExecutionState

JOB_MOVES: dict[JobStatus, frozenset[JobStatus]] = {
    _J.INITIALIZING: frozenset({_J.CREATED, _J.CANCELLING, _J.FAILING}),
    _J.CREATED: frozenset({_J.RUNNING, _J.CANCELLING, _J.FAILING}),
    _J.RUNNING: frozenset({_J.RESTARTING, _J.FINISHED, _J.CANCELLING, _J.FAILING}),
    _J.RESTARTING: frozenset({_J.RUNNING, _J.FINISHED, _J.CANCELLING, _J.FAILING}),
    _J.FAILING: frozenset({_J.FAILED, _J.CANCELLING}),
    _J.CANCELLING: frozenset({_J.CANCELED, _J.SUSPENDED}),
    _J.FAILED: frozenset(),
    _J.CANCELED: frozenset(),
    _J.FINISHED: frozenset(),
    _J.SUSPENDED: frozenset(),
    _J.RECONCILING: frozenset(),
}

_STOPPED = frozenset({_E.CANCELING, _E.CANCELED, _E.FAILED})

EXECUTION_MOVES: dict[ExecutionState, frozenset[ExecutionState]] = {
    _E.CREATED: _STOPPED | {_E.SCHEDULED},
    _E.SCHEDULED: _STOPPED | {_E.DEPLOYING},
    _E.DEPLOYING: _STOPPED | {_E.INITIALIZING},
    _E.INITIALIZING: _STOPPED | {_E.RUNNING},
    _E.RUNNING: _STOPPED | {_E.FINISHED},
    _E.CANCELING: frozenset({_E.CANCELED, _E.FINISHED}),
    _E.FINISHED: frozenset(),
    _E.CANCELED: frozenset(),
    _E.FAILED: frozenset(),
}

STARTING = (_E.CREATED, _E.SCHEDULED, _E.DEPLOYING, _E.INITIALIZING, _E.RUNNING)
"""The states that an execution goes through until it runs, in this order; one whose beginning was not seen has no length."""


# ---- What a job remembers of itself: the executions of its tasks, its failures and its restarts.


_MESSAGE = 10_000
_TRACEBACK = 50_000


@dataclass(slots=True)
class Execution:
    """One execution of a task: its state, and since when; ``number`` counts Spark's repetitions in an attempt."""

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
        """True if its process was there once."""
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
    """A restart: its attempt, its cause, and its delay (ms)."""

    time: Millis
    attempt: int
    delay: Millis
    reason: str


def headline(error: BaseException) -> str:
    """Return the message of an error, without the traceback that it carries.

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


# ---- What happens to a job (events) and what is to be done about it (commands); plain data.
#
# ``machine.JobMachine`` takes the former and returns the latter. Of the commands, all but ``StopAttempt`` are for
# the thread that runs the job: it executes one at a time, and its result is the next event.


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event of the job."""


@dataclass(frozen=True, slots=True)
class JobSubmitted(JobEvent):
    """The job is to be run: who watches jobs may see it."""


@dataclass(frozen=True, slots=True)
class JobScheduled(JobEvent):
    """Everything is ready for the first attempt."""


@dataclass(frozen=True, slots=True)
class ExecutionsCreated(JobEvent):
    """An attempt has these tasks."""

    attempt: int
    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class SourcesChecked(JobEvent):
    """The attempt has found its sources and sinks in order."""


@dataclass(frozen=True, slots=True)
class ExecutionsDeployed(JobEvent):
    """All tasks of the attempt are being started."""


@dataclass(frozen=True, slots=True)
class ExecutionMoved(JobEvent):
    """A task is initializing, runs, has finished or has failed; ``repeated``: Spark may start it again by itself."""

    attempt: int
    task: TaskId
    state: ExecutionState
    pid: int = 0
    host: str = ""
    error: BaseException | None = None
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class AttemptReturned(JobEvent):
    """The runner has returned: the input has ended, or the job was stopped."""


@dataclass(frozen=True, slots=True)
class AttemptRaised(JobEvent):
    """The attempt has failed; nothing of it runs.

    ``safe``: everything the job did is safe all the same; ``restartable``: another attempt makes sense to the runner.
    ``repeats``: the program has records of ``execute_and_collect`` already, and another attempt would give it them again.
    """

    error: BaseException
    jitter: float = 0.0
    safe: bool = False
    restartable: bool = True
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class AttemptSettled(JobEvent):
    """The start of another attempt is settled; ``another`` is false if there is nothing left for it to do.

    If a checkpoint was to be rejected, ``another`` says whether there is one before it.
    """

    another: bool = True


@dataclass(frozen=True, slots=True)
class RestartDue(JobEvent):
    """The delay before the next attempt is over."""


@dataclass(frozen=True, slots=True)
class ResultsCommitted(JobEvent):
    """The commit of the output that the sinks prepared."""


@dataclass(frozen=True, slots=True)
class RunRaised(JobEvent):
    """Something besides an attempt has failed: a watcher, the settling of an attempt, the last commit."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class CancelRequested(JobEvent):
    """The job is to be stopped; ``suspend``: because its program ends, so that it may be resumed."""

    suspend: bool = False


@dataclass(frozen=True, slots=True)
class JobClosed(JobEvent):
    """Nothing is left to do for the job; ``abandoned``: but for a thread that does not come back."""

    abandoned: bool = False


# ---- commands


@dataclass(frozen=True, slots=True)
class JobCommand:
    """A command to the shell of the machine."""


@dataclass(frozen=True, slots=True)
class RunAttempt(JobCommand):
    """Run an attempt; answer ``AttemptReturned`` or ``AttemptRaised``."""

    attempt: int


@dataclass(frozen=True, slots=True)
class StopAttempt(JobCommand):
    """Stop the attempt, and end any wait for a restart; its executor does not wait for that."""


@dataclass(frozen=True, slots=True)
class SettleAttempt(JobCommand):
    """Abandon the attempt and settle the start of the next one; answer ``AttemptSettled`` or ``RunRaised``.

    With ``reject`` that is not the start of this attempt.
    """

    reason: str
    delay: Millis | None = None
    reject: bool = False


@dataclass(frozen=True, slots=True)
class WaitForRestart(JobCommand):
    """Wait (ms), or until the job is to be stopped; answer ``RestartDue``."""

    delay: Millis


@dataclass(frozen=True, slots=True)
class CommitResults(JobCommand):
    """Commit the output that the sinks prepared; answer ``ResultsCommitted`` or ``RunRaised``."""


@dataclass(frozen=True, slots=True)
class EndJob(JobCommand):
    """Clean up behind the job, by its outcome; answer ``JobClosed``, or ``RunRaised`` if it had finished."""

    outcome: Outcome
    error: BaseException | None = None


# ---- Which vertex a job waits for, and which vertices stand still because of it.
#
# Flow control keeps queues short: sources pause by what queues anywhere behind them, so the vertices in between are
# neither busy nor blocked, and by their own times they are idle. Whoever looks for the first vertex that is not
# back-pressured, as Flink's users do, would find the wrong one. So the driver, which knows the graph, looks from
# each source that is held back for the busiest vertex behind it, and counts the time in which that source was held
# back for every vertex between the two.


HELD_BACK = 0.1
"""From which share of time on a source counts as held back; Flink's bound between "ok" and "low"."""
_BUSY_SOURCE = 0.8
"""The share of time from which on a source that nobody holds back is the job's bottleneck."""
_BUSY = 0.3
"""A vertex that is less busy is nobody's bottleneck: the source's wait has a cause outside of the job, or passes."""


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The vertex that a job waits for.

    ``busy`` is the share of time of its busiest subtask, ``held_back`` that of the sources before it, ``since`` when the first of
    these was held back (wall clock, ms); ``between`` are the vertices that stand still because of it, sources included. A source
    that is always busy, and that nobody holds back, is a bottleneck too: ``between`` is empty then.

    >>> Bottleneck(2, "enrich", 3, 0.92, 0.8, Millis(0), (0, 1)).text("12:03:10")
    'enrich is the bottleneck: subtask 3 is 92 % busy; input held back for 80 % of the time since 12:03:10'
    """

    vertex: int
    name: str
    subtask: int
    busy: float
    held_back: float
    since: Millis
    between: tuple[int, ...]

    def text(self, since: str) -> str:
        """Say it in words; ``since`` is the moment as the reader writes it."""
        waits = f"input held back for {self.held_back:.0%} of the time" if self.between else "what is behind it waits"
        text = f"{self.name} is the bottleneck: subtask {self.subtask} is {self.busy:.0%} busy; {waits} since {since}"
        return text.replace("%", " %")


class FlowGraph:
    """The vertices of a plan and the flow of records through them, without the feedback of loops.

    >>> graph = FlowGraph([0, 1, 2, 3], [(0, 1), (1, 2), (1, 3)])
    >>> graph.pressure(sources={0: 0.8}, busy={1: 0.1, 2: 0.9, 3: 0.2})
    {2: (0.8, (0, 1))}
    >>> graph.pressure(sources={0: 0.05}, busy={1: 0.1, 2: 0.9, 3: 0.2})
    {}
    """

    def __init__(self, vertices: Iterable[int], edges: Iterable[tuple[int, int]]) -> None:
        self._after: dict[int, set[int]] = {vertex: set() for vertex in vertices}
        self._before: dict[int, set[int]] = {vertex: set() for vertex in self._after}
        for source, target in edges:
            self._after[source].add(target)
            self._before[target].add(source)

    def pressure(
        self, sources: Mapping[int, float], busy: Mapping[int, float]
    ) -> dict[int, tuple[float, tuple[int, ...]]]:
        """Return the bottlenecks: for which share of time each holds sources back, and which vertices are held back by it.

        ``sources`` maps each source to the share of time in which it is held back, ``busy`` each other vertex to the share of
        time in which its busiest subtask is busy.
        """
        found: dict[int, tuple[float, set[int]]] = {}
        for source, held in sources.items():
            behind = _reachable(source, self._after) - {source}
            worst = max(behind, key=lambda vertex: (busy.get(vertex, 0.0), vertex), default=None)
            if held < HELD_BACK or worst is None or busy.get(worst, 0.0) < _BUSY:
                continue
            between = (behind & _reachable(worst, self._before)) - {worst}
            share, others = found.get(worst, (0.0, set()))
            found[worst] = max(share, held), others | between | {source}
        return {vertex: (share, tuple(sorted(between))) for vertex, (share, between) in found.items()}

    def busy_sources(self, sources: Mapping[int, float], busy: Mapping[int, float]) -> list[int]:
        """Return the sources that the vertices behind them wait for: always busy, busier than those, and held back by none.

        >>> graph = FlowGraph([0, 1, 2], [(0, 1), (1, 2)])
        >>> graph.busy_sources({0: 0.0}, {0: 0.95, 1: 0.3, 2: 0.1}), graph.busy_sources({0: 0.5}, {0: 0.95, 1: 0.3, 2: 0.1})
        ([0], [])
        """
        return [
            source
            for source, held in sources.items()
            if held < HELD_BACK
            and busy.get(source, 0.0) >= _BUSY_SOURCE
            and all(busy.get(each, 0.0) < busy[source] for each in _reachable(source, self._after) - {source})
        ]


def _reachable(start: int, steps: Mapping[int, set[int]]) -> set[int]:
    seen, open_ = {start}, [start]
    while open_:
        for following in steps[open_.pop()] - seen:
            seen.add(following)
            open_.append(following)
    return seen
