"""The states of a job and of its tasks, with Flink's names, and the moves between them.

``JOB_MOVES`` and ``EXECUTION_MOVES`` are the allowed moves; ``machine.py`` makes them, and no one else.
"""

from __future__ import annotations

import enum


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
    """It has failed for good; what is left of it is cleaned up."""
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
        """Whether the job is over, and is not to be resumed."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Whether the job is over in this process."""
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
        """Whether the execution is over."""
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
