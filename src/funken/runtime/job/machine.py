"""The life of a job as a pure state machine: events and the time in, commands out, nothing else.

The job goes through ``JOB_MOVES``, each execution of a task through ``EXECUTION_MOVES`` (``states.py``); any other move is a
bug and raises. What moves the job:

============  ==================================================  ===========================================
status        event                                               what follows
============  ==================================================  ===========================================
INITIALIZING  JobSubmitted                                        CREATED
CREATED       JobScheduled                                        RUNNING: RunAttempt
RUNNING       AttemptReturned; AttemptRaised, but all is safe     CommitResults
RUNNING       ResultsCommitted                                    EndJob, and FINISHED when that is done
RUNNING       AttemptRaised: what it started from is broken       RESTARTING: SettleAttempt, with ``reject``
RUNNING       AttemptRaised: the parallelism is to change         RESTARTING: SettleAttempt
RUNNING       AttemptRaised: the restart strategy allows another  RESTARTING: SettleAttempt, with a delay
RUNNING       AttemptRaised: it does not                          FAILING: EndJob
RESTARTING    AttemptSettled                                      WaitForRestart; nothing left: CommitResults
RESTARTING    RestartDue                                          RUNNING: RunAttempt
any but (1)   CancelRequested                                     CANCELLING: StopAttempt
any but (1)   RunRaised                                           FAILING, or (2) CANCELLING: EndJob
CANCELLING    whatever answers the command under way              EndJob
FAILING       JobClosed                                           FAILED
CANCELLING    JobClosed                                           CANCELED, or SUSPENDED
============  ==================================================  ===========================================

(1) it is failing, being cancelled or over. (2) the program ends: Ctrl-C, SystemExit; or a cancellation came too late to keep
the results from being committed, and committing failed.

Rules:

* At most one command is under way, and every answer to it leads to the next command or to the end; ``StopAttempt`` is
  extra, and has no answer.
* A cancellation while results are being committed has no effect if that succeeds: the job finishes.
* When an attempt is over, so are its executions. Within an attempt, Spark may repeat a task: its execution is replaced by
  one with the next number.
* The restart strategy is asked about failures of attempts only, and not about a checkpoint that turned out to be broken.
"""

from __future__ import annotations

from collections import deque

from funken.checkpoint.machine import Outcome
from funken.checkpoint.restart_strategy import NoRestart, RestartStrategy, fault_of, is_retried, outcome_of
from funken.errors import JobExecutionError, RescaleDue, RestoreFailed
from funken.ids import Millis
from funken.runtime.job.states import (
    JOB_MOVES,
    AttemptRaised,
    AttemptReturned,
    AttemptSettled,
    CancelRequested,
    CommitResults,
    EndJob,
    Execution,
    ExecutionMoved,
    ExecutionsCreated,
    ExecutionsDeployed,
    ExecutionState,
    FailureRecord,
    JobClosed,
    JobCommand,
    JobEvent,
    JobScheduled,
    JobStatus,
    JobSubmitted,
    RestartDue,
    RestartRecord,
    ResultsCommitted,
    RunAttempt,
    RunRaised,
    SettleAttempt,
    SourcesChecked,
    StopAttempt,
    WaitForRestart,
    failure_record,
    headline,
)
from funken.runtime.messages import TaskId
from funken.runtime.process import Interrupted

_RESTARTS = 100
_LINES = 500


class JobMachine:
    """Decides about the life of one job; change it through ``handle`` only.

    >>> machine = JobMachine()
    >>> machine.handle(JobSubmitted(), now=Millis(0), wall=Millis(0))
    []
    >>> machine.handle(JobScheduled(), now=Millis(5), wall=Millis(5)), machine.status.name
    ([RunAttempt(attempt=0)], 'RUNNING')
    """

    def __init__(self, strategy: RestartStrategy | None = None, failures: int = 16) -> None:
        self._strategy = strategy or NoRestart()
        self.status = JobStatus.INITIALIZING
        #: when (wall-clock, ms) the job came to each status last
        self.timestamps: dict[JobStatus, Millis] = {}
        #: the number of the attempt that runs or ran last
        self.attempt = 0
        #: the newest execution of each task of the attempt
        self.executions: dict[TaskId, Execution] = {}
        #: the newest failures, oldest first; ``failure_count`` counts all
        self.failures: deque[FailureRecord] = deque(maxlen=failures)
        self.failure_count = 0
        #: the newest restarts, oldest first; ``restarts`` counts all
        self.restart_history: deque[RestartRecord] = deque(maxlen=_RESTARTS)
        self.restarts = 0
        #: whether an attempt has found all sources and sinks in order
        self.checked = False
        #: whether all tasks of an attempt ran once
        self.ran = False
        self.cancel_requested = False
        self.suspend_requested = False
        #: how the job ends, once that is decided
        self.outcome: Outcome | None = None
        #: the command whose answer is awaited
        self.under_way: JobCommand | None = None
        self._opened: set[TaskId] = set()
        self._broken: AttemptRaised | None = None
        self._wall = Millis(0)
        self._now = Millis(0)
        self._commands: list[JobCommand] = []
        self._lines: deque[tuple[Millis, str]] = deque(maxlen=_LINES)

    # ---- events

    def handle(self, event: JobEvent, now: Millis, wall: Millis) -> list[JobCommand]:
        """Handle an event; return the commands to execute. ``now`` is for intervals, ``wall`` for people."""
        commands: list[JobCommand] = []
        self._commands = commands
        self._now, self._wall = max(self._now, now), wall
        if not self.timestamps:
            self.timestamps[self.status] = wall
        if self.status.is_terminal_state():
            return commands
        match event:
            case JobSubmitted() if self.status is JobStatus.INITIALIZING:
                self._move(JobStatus.CREATED)
            case JobScheduled() if self.status is JobStatus.CREATED:
                self._run(0)
            case JobScheduled() if self.under_way is None and self.status is JobStatus.CANCELLING:
                self._end(self._cancelled())
            case ExecutionsCreated() if isinstance(self.under_way, RunAttempt):
                self._create(event)
            case SourcesChecked():
                self.checked = True
                self._start_all(ExecutionState.SCHEDULED)
            case ExecutionsDeployed():
                self._start_all(ExecutionState.DEPLOYING)
            case ExecutionMoved():
                self._execution(event)
            case AttemptReturned() if isinstance(self.under_way, RunAttempt):
                if self.status is JobStatus.CANCELLING:
                    self._stop_executions()
                    self._end(self._cancelled())
                else:
                    self._finish_executions()
                    self._command(CommitResults())
            case AttemptRaised() if isinstance(self.under_way, RunAttempt):
                self._raised(event)
            case AttemptSettled(another=another) if isinstance(self.under_way, SettleAttempt):
                self._settled(self.under_way, another)
            case RestartDue() if isinstance(self.under_way, WaitForRestart):
                if self.status is JobStatus.CANCELLING:
                    self._end(self._cancelled())
                else:
                    self._run(self.attempt + 1)
            case ResultsCommitted() if isinstance(self.under_way, CommitResults):
                self._end(Outcome.FINISHED)
            case RunRaised(error=error) if self.status is not JobStatus.FAILING:
                self._stop_executions()
                self._fail(error)
            case CancelRequested():
                self._cancel(event)
            case JobClosed(abandoned=abandoned) if abandoned or self.outcome is not None:
                self._close(abandoned)
        return commands

    def _run(self, attempt: int) -> None:
        self._move(JobStatus.RUNNING, f"attempt {attempt}")
        self.attempt = attempt
        self._command(RunAttempt(attempt))

    def _raised(self, event: AttemptRaised) -> None:
        error = event.error
        if self.status is JobStatus.CANCELLING:
            self._stop_executions()
            ends = isinstance(error, Exception | Interrupted)
            self._end(self._cancelled() if ends else Outcome.SUSPENDED, error)
        elif event.safe:
            self._stop_executions()
            self._command(CommitResults())
        elif not isinstance(error, Exception):
            self._stop_executions()
            self._fail(error)
        elif isinstance(error, RescaleDue):
            self._stop_executions()
            self._move(JobStatus.RESTARTING, headline(error))
            self._command(SettleAttempt(headline(error)))
        elif isinstance(error, RestoreFailed):
            self._record(error)
            self._broken = event
            self._move(JobStatus.RESTARTING, "the checkpoint to start from is damaged")
            self._command(SettleAttempt(headline(error), reject=True))
        else:
            self._record(error)
            self._decide(event)

    def _decide(self, event: AttemptRaised) -> None:
        """Ask the restart strategy, if another attempt makes sense."""
        error = event.error
        assert isinstance(error, Exception)
        delay = None
        if event.restartable and is_retried(error, checked=self.checked, ran=self.ran):
            delay = self._strategy.failed(self._now, event.jitter)
        if delay is None:
            self._fail(error, known=True)
            return
        if event.repeats:
            self._fail(_would_repeat(error))
            return
        self.restarts += 1
        reason = headline(error)
        self.restart_history.append(RestartRecord(self._wall, self.attempt, delay, reason))
        if self.status is not JobStatus.RESTARTING:
            self._move(JobStatus.RESTARTING, f"in {delay} ms: {reason}")
        self._command(SettleAttempt(reason, delay))

    def _settled(self, command: SettleAttempt, another: bool) -> None:
        broken, self._broken = self._broken, None
        if self.status is JobStatus.CANCELLING:
            self._end(self._cancelled())
        elif command.reject and another:
            self._run(self.attempt + 1)
        elif command.reject:
            assert broken is not None
            self._decide(broken)
        elif another:
            self._command(WaitForRestart(command.delay or Millis(0)))
        else:
            self._command(CommitResults())

    def _cancel(self, event: CancelRequested) -> None:
        self.suspend_requested |= event.suspend
        self._commands.append(StopAttempt())
        if self.cancel_requested:
            return
        self.cancel_requested = True
        too_late = self.outcome is not None or isinstance(self.under_way, CommitResults)
        if self.status in (JobStatus.FAILING, JobStatus.CANCELLING) or too_late:
            return
        self._move(JobStatus.CANCELLING, "its program ends" if event.suspend else "by its client")
        for execution in self.executions.values():
            execution.move(ExecutionState.CANCELING, self._wall)

    def _fail(self, error: BaseException, known: bool = False) -> None:
        """The job ends because of an error, which is its failure unless the job, or its program, is being stopped."""
        if self.cancel_requested or not isinstance(error, Exception):
            if self.status is not JobStatus.CANCELLING:
                self._move(JobStatus.CANCELLING, type(error).__name__)
            stopped = self.cancel_requested and isinstance(error, Exception | Interrupted)
            self._end(self._cancelled() if stopped else Outcome.SUSPENDED, error)
            return
        if not known:
            self._record(error)
        self._move(JobStatus.FAILING, headline(error))
        self._end(outcome_of(error, cancelled=False, suspended=self.suspend_requested), error)

    def _cancelled(self) -> Outcome:
        return Outcome.SUSPENDED if self.suspend_requested else Outcome.CANCELLED

    def _end(self, outcome: Outcome, error: BaseException | None = None) -> None:
        self.outcome = outcome
        self._command(EndJob(outcome, error))

    def _close(self, abandoned: bool) -> None:
        self._stop_executions()
        self.under_way = None
        if abandoned and self.status is not JobStatus.FAILING:
            self.outcome = self._cancelled()
            if self.status is not JobStatus.CANCELLING:
                self._move(JobStatus.CANCELLING)
        if self.status is JobStatus.CANCELLING:
            self._move(JobStatus.SUSPENDED if self.outcome is Outcome.SUSPENDED else JobStatus.CANCELED)
        else:
            self._move(JobStatus.FINISHED if self.outcome is Outcome.FINISHED else JobStatus.FAILED)

    # ---- executions

    @property
    def all_opened(self) -> bool:
        """True if all tasks of the attempt run, or have run."""
        return bool(self.executions) and len(self._opened) == len(self.executions)

    def _create(self, event: ExecutionsCreated) -> None:
        self._stop_executions()
        self.attempt = event.attempt
        self._opened = set()
        self.executions = {task: Execution(task, event.attempt, 0, self._wall) for task in event.tasks}
        if self.status is JobStatus.CANCELLING:
            self._stop_executions()

    def _start_all(self, state: ExecutionState) -> None:
        for execution in self.executions.values():
            execution.start(state, self._wall)

    def _execution(self, event: ExecutionMoved) -> None:
        execution = self.executions.get(event.task)
        if execution is None or event.attempt != self.attempt:
            return
        if event.state is ExecutionState.INITIALIZING and execution.was_opened:
            execution.move(ExecutionState.CANCELED, self._wall)
            execution = Execution(event.task, self.attempt, execution.number + 1, self._wall)
            self.executions[event.task] = execution
        if event.pid:
            execution.pid, execution.host = event.pid, event.host
        match event.state:
            case ExecutionState.FAILED if execution.state is ExecutionState.CANCELING:
                execution.move(ExecutionState.CANCELED, self._wall)  # it was stopped, and that is how it ended
            case ExecutionState.FAILED:
                if execution.move(ExecutionState.FAILED, self._wall):
                    execution.error = event.error
                    self._note(f"{event.task} failed: {'' if event.error is None else headline(event.error)}")
                if not event.repeated:
                    for other in self.executions.values():
                        other.move(ExecutionState.CANCELING, self._wall)
            case ExecutionState.FINISHED:
                execution.start(ExecutionState.RUNNING, self._wall)
                execution.move(ExecutionState.FINISHED, self._wall)
            case state:
                execution.start(state, self._wall)
        if event.state in (ExecutionState.RUNNING, ExecutionState.FINISHED):
            self._opened.add(event.task)
            self.ran = self.ran or len(self._opened) == len(self.executions)

    def _finish_executions(self) -> None:
        """The attempt has ended well: so have tasks that did not say so because a savepoint has stopped them."""
        for execution in self.executions.values():
            execution.move(ExecutionState.FINISHED, self._wall)
        self._stop_executions()

    def _stop_executions(self) -> None:
        for execution in self.executions.values():
            execution.move(ExecutionState.CANCELED, self._wall)

    # ---- moves and their log

    def _record(self, error: BaseException) -> None:
        failed = [each for each in self.executions.values() if each.error is not None]
        where = next((each for each in failed if each.error is error), failed[0] if failed else None)
        self.failures.append(failure_record(error, self._wall, self.attempt, where))
        self.failure_count += 1
        self._stop_executions()

    def _command(self, command: JobCommand) -> None:
        self.under_way = command
        self._commands.append(command)

    def _move(self, status: JobStatus, why: str = "") -> None:
        assert status in JOB_MOVES[self.status], f"{self.status} -> {status}"
        self.status = status
        self.timestamps[status] = self._wall
        self._note(f"{status.name}{f': {why}' if why else ''}")

    def _note(self, text: str) -> None:
        self._lines.append((self._wall, text.splitlines()[0]))

    def story(self) -> str:
        """Return the history of the job, a line per event; the oldest lines are forgotten.

        >>> machine = JobMachine()
        >>> for at, event in enumerate([JobSubmitted(), JobScheduled(), CancelRequested(), AttemptReturned(), JobClosed()]):
        ...     _ = machine.handle(event, Millis(at), Millis(at))
        >>> print(machine.story())
                   0 ms  CREATED
                   1 ms  RUNNING: attempt 0
                   2 ms  CANCELLING: by its client
                   4 ms  CANCELED
        """
        return "\n".join(f"{at:12} ms  {text}" for at, text in self._lines)

    def validate(self) -> None:
        """Assert the invariants; for tests."""
        live = [each for each in self.executions.values() if not each.state.is_terminal]
        over = self.status.is_terminal_state()
        assert not over or (not live and self.under_way is None)
        assert (
            over or self.status in (JobStatus.INITIALIZING, JobStatus.CREATED, JobStatus.CANCELLING) or self.under_way
        )
        assert not live or isinstance(self.under_way, RunAttempt)
        assert (self.status is JobStatus.FINISHED) <= (self.outcome is Outcome.FINISHED)
        assert (self.status is JobStatus.RESTARTING) <= isinstance(
            self.under_way, SettleAttempt | WaitForRestart | CommitResults | EndJob
        )
        assert (self.status is JobStatus.RUNNING) <= isinstance(self.under_way, RunAttempt | CommitResults | EndJob)
        assert (self.status is JobStatus.FAILING) <= isinstance(self.under_way, EndJob)
        assert isinstance(self.under_way, EndJob) <= (self.outcome is not None)
        assert (self.status is JobStatus.CANCELLING) <= (self.cancel_requested or self.outcome is Outcome.SUSPENDED)
        assert self.restarts <= self.attempt + 1 and len(self.restart_history) <= self.restarts
        assert len(self.failures) <= self.failure_count
        assert self._opened <= self.executions.keys()
        for execution in self.executions.values():
            execution.validate()
            assert execution.attempt == self.attempt or (
                execution.state.is_terminal and execution.attempt < self.attempt
            )


def _would_repeat(error: Exception) -> JobExecutionError:
    """Return the reason against a restart that the job's strategy would make after ``error``."""
    found = JobExecutionError(
        "the job failed and is not restarted: the program has records of execute_and_collect() already, and without "
        "checkpoints another attempt would give it them again. Call env.enable_checkpointing(interval), or write to a sink. "
        f"It failed with {headline(error)}"
    )
    found.fault = fault_of(error)
    found.__cause__ = error
    return found
