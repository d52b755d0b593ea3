"""What happens to a job (events) and what is to be done about it (commands); plain data.

``machine.JobMachine`` takes the former and returns the latter. Of the commands, all but ``StopAttempt`` are for the thread
that runs the job: it executes one at a time, and its result is the next event.
"""

from __future__ import annotations

from funken.checkpoint.events import Outcome
from funken.dataclass import dataclass
from funken.ids import Millis
from funken.runtime.job.states import ExecutionState
from funken.runtime.messages import TaskId


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
    """It is settled what another attempt would start from; ``another`` is false if there is nothing left for it to do.

    If a checkpoint was to be rejected, ``another`` says whether there is one before it.
    """

    another: bool = True


@dataclass(frozen=True, slots=True)
class RestartDue(JobEvent):
    """The delay before the next attempt is over."""


@dataclass(frozen=True, slots=True)
class ResultsCommitted(JobEvent):
    """What the sinks prepared is committed."""


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
    """Stop what runs, and end any wait for a restart; whoever executes it does not wait for that."""


@dataclass(frozen=True, slots=True)
class SettleAttempt(JobCommand):
    """Abandon the attempt and settle what the next one starts from; answer ``AttemptSettled`` or ``RunRaised``.

    With ``reject`` that is not what this attempt started from.
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
    """Commit what the sinks prepared; answer ``ResultsCommitted`` or ``RunRaised``."""


@dataclass(frozen=True, slots=True)
class EndJob(JobCommand):
    """Clean up what the job leaves, by its outcome; answer ``JobClosed``, or ``RunRaised`` if it had finished."""

    outcome: Outcome
    error: BaseException | None = None
