"""The life of a job under any sequence of events: what the machine promises, whatever happens when."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from funken.checkpoint.machine import Outcome
from funken.checkpoint.restart_strategy import FixedDelay
from funken.errors import JobCancelled, OperatorFailed, RestoreFailed, SuppressRestarts
from funken.runtime.job.machine import JobMachine
from funken.runtime.job.states import (
    JOB_MOVES,
    AttemptRaised,
    AttemptReturned,
    AttemptSettled,
    CancelRequested,
    CommitResults,
    EndJob,
    ExecutionMoved,
    ExecutionsCreated,
    ExecutionsDeployed,
    ExecutionState,
    JobClosed,
    JobScheduled,
    JobSubmitted,
    RestartDue,
    ResultsCommitted,
    RunAttempt,
    RunRaised,
    SettleAttempt,
    SourcesChecked,
    StopAttempt,
    WaitForRestart,
)
from funken.runtime.messages import TaskId
from funken.runtime.process import Interrupted

TASKS = (TaskId(0, 0), TaskId(0, 1), TaskId(1, 0))
errors = st.sampled_from([
    OperatorFailed("failed", operator="map", subtask=1), RestoreFailed("broken"), SuppressRestarts("no"), OSError("disk"),
    TypeError("wrong"), JobCancelled("stopped"), KeyboardInterrupt(), SystemExit(), Interrupted(),
])  # fmt: skip


class AnyLife(RuleBasedStateMachine):
    """The world around the machine: it answers the command under way, and anything else happens at any time."""

    @initialize(attempts=st.integers(0, 3), runs=st.booleans(), cancelled=st.booleans())
    def begin(self, attempts, runs, cancelled):
        self.machine = JobMachine(FixedDelay(attempts, 5), failures=2)
        self.attempts, self.now = attempts, 0
        self.command, self.ended, self.scheduled = None, 0, False
        self.ran = []
        self.cancelled = cancelled
        self.visited = [self.machine.status]
        if runs:
            self.submitted()
            self.schedule()
            self.create()
            self.progress(SourcesChecked())

    def tell(self, event):
        self.now += 1
        for command in self.machine.handle(event, self.now, self.now):
            match command:
                case StopAttempt():
                    assert isinstance(event, CancelRequested)
                    continue
                case RunAttempt(attempt=attempt):
                    assert attempt > max(self.ran, default=-1)
                    self.ran.append(attempt)
                case EndJob(outcome=outcome, error=error):
                    assert outcome is not Outcome.FINISHED or error is None
                    self.ended += 1
            self.command = command
        if self.machine.status is not self.visited[-1]:
            self.visited.append(self.machine.status)

    @rule()
    def submitted(self):
        self.tell(JobSubmitted())

    @precondition(lambda self: self.visited[1:] and not self.scheduled)
    @rule()
    def schedule(self):
        self.scheduled = True
        self.tell(JobScheduled())

    @precondition(lambda self: self.cancelled)
    @rule(suspend=st.booleans())
    def cancel(self, suspend):
        self.tell(CancelRequested(suspend))

    @precondition(lambda self: isinstance(self.command, RunAttempt))
    @rule()
    def create(self):
        self.tell(ExecutionsCreated(self.command.attempt, TASKS))

    @rule(event=st.sampled_from([SourcesChecked(), ExecutionsDeployed()]))
    def progress(self, event):
        self.tell(event)

    @rule(
        task=st.sampled_from((*TASKS, TaskId(9, 9))),
        state=st.sampled_from(
            [ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.FINISHED, ExecutionState.FAILED]
        ),
        attempt=st.integers(-1, 3),
        error=errors,
        repeated=st.booleans(),
    )
    def move(self, task, state, attempt, error, repeated):
        number = self.machine.attempt if attempt < 0 else attempt
        failed = error if state is ExecutionState.FAILED else None
        self.tell(ExecutionMoved(number, task, state, 3, "host", failed, repeated))

    @precondition(lambda self: self.command is not None)
    @rule(good=st.booleans(), error=errors, safe=st.booleans(), restartable=st.booleans())
    def answer(self, good, error, safe, restartable):
        command, self.command = self.command, None
        match command:
            case RunAttempt() if good:
                self.tell(AttemptReturned())
            case RunAttempt():
                self.tell(AttemptRaised(error, 0.5, safe, restartable))
            case SettleAttempt() if good or safe:
                self.tell(AttemptSettled(another=safe))
            case WaitForRestart():
                self.tell(RestartDue())
            case CommitResults() if good:
                self.tell(ResultsCommitted())
            case EndJob(outcome=outcome) if good or outcome is not Outcome.FINISHED:
                self.tell(JobClosed())
            case _:
                self.tell(RunRaised(error))

    @precondition(lambda self: isinstance(self.command, RunAttempt))
    @rule(error=errors)
    def fail(self, error):
        self.answer(False, error, False, True)

    @precondition(lambda self: self.command is not None)
    @rule(good=st.booleans())
    def go_on(self, good):
        self.answer(True, OSError("disk"), good, True)

    @precondition(lambda self: self.machine.cancel_requested)
    @rule()
    def abandon(self):
        self.command = None
        self.tell(JobClosed(abandoned=True))

    @rule(event=st.sampled_from([AttemptReturned(), AttemptSettled(), RestartDue(), ResultsCommitted()]))
    def stray_answer(self, event):
        """An answer to a command that is not under way has no effect."""
        expected = {AttemptReturned: RunAttempt, AttemptSettled: SettleAttempt, RestartDue: WaitForRestart,
                    ResultsCommitted: CommitResults}[type(event)]  # fmt: skip
        if not isinstance(self.machine.under_way, expected):
            before = self.machine.status, self.command
            self.tell(event)
            assert (self.machine.status, self.command) == before

    @invariant()
    def promises(self):
        machine = self.machine
        machine.validate()
        # Within one event the machine may pass through CANCELLING, else every move is in the table.
        for before, after in zip(self.visited, self.visited[1:], strict=False):
            assert after in JOB_MOVES[before] or any(after in JOB_MOVES[way] for way in JOB_MOVES[before])
        assert machine.restarts <= self.attempts
        assert machine.status.is_terminal_state() or not self.scheduled or self.command is not None
        if machine.status.is_terminal_state():
            assert list(machine.timestamps)[-1] is machine.status
        assert len(machine.failures) <= 2
        machine.story()

    def teardown(self):
        """However it went on, a job that is cancelled ends, within a few answers."""
        if not hasattr(self, "machine"):
            return
        self.tell(JobSubmitted())
        if not self.scheduled:
            self.schedule()
        self.tell(CancelRequested())
        for _ in range(5):
            if self.command is not None:
                self.answer(True, OSError("disk"), True, True)
        assert self.machine.status.is_terminal_state()


TestAnyLife = AnyLife.TestCase
TestAnyLife.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
