"""The life of a job, as timelines: what happens, and what the machine commands."""

import pytest

from funken.checkpoint.machine import Outcome
from funken.checkpoint.restart_strategy import FixedDelay
from funken.errors import JobCancelled, JobExecutionError, OperatorFailed, RestoreFailed
from funken.runtime.job.machine import JobMachine
from funken.runtime.job.states import (
    EXECUTION_MOVES,
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
    JobStatus,
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

READER, PRINTER = TASKS = (TaskId(0, 0), TaskId(1, 0))
FAILURE = OperatorFailed("operator 'parse' failed", operator="parse", subtask=0, traceback_text="Traceback ...")


class Timeline:
    """A machine, its time, and the commands of the newest event."""

    def __init__(self, attempts=2, **options):
        self.machine = JobMachine(FixedDelay(attempts, 50), **options)
        self.now = 0

    def tell(self, *events):
        said = []
        for event in events:
            self.now += 1
            said = self.machine.handle(event, self.now, 1000 + self.now)
            self.machine.validate()
        return said

    def running(self, attempt=0):
        """Bring an attempt to the point where all its tasks run."""
        if attempt == 0:
            self.tell(JobSubmitted(), JobScheduled())
        self.tell(ExecutionsCreated(attempt, TASKS), SourcesChecked(), ExecutionsDeployed())
        for task in TASKS:
            self.move(task, "INITIALIZING", attempt, pid=7, host="h1")
        for task in TASKS:
            self.move(task, "RUNNING", attempt)
        return self

    def move(self, task, state, attempt=0, **more):
        return self.tell(ExecutionMoved(attempt, task, ExecutionState[state], **more))

    def states(self):
        return [execution.state.name for execution in self.machine.executions.values()]

    @property
    def status(self):
        return self.machine.status.name


def test_a_job_that_finishes():
    life = Timeline()

    assert life.tell(JobSubmitted()) == [] and life.status == "CREATED"
    assert life.tell(JobScheduled()) == [RunAttempt(0)] and life.status == "RUNNING"
    life.running(attempt=0)
    life.move(READER, "FINISHED")
    life.move(PRINTER, "FINISHED")
    assert life.tell(AttemptReturned()) == [CommitResults()] and life.status == "RUNNING"
    assert life.tell(ResultsCommitted()) == [EndJob(Outcome.FINISHED)] and life.status == "RUNNING"
    assert life.tell(JobClosed()) == [] and life.status == "FINISHED"

    assert [status.name for status in life.machine.timestamps] == ["INITIALIZING", "CREATED", "RUNNING", "FINISHED"]
    assert life.machine.ran and life.states() == ["FINISHED", "FINISHED"]


def test_tasks_that_a_savepoint_has_stopped_are_finished():
    life = Timeline().running()
    life.move(READER, "FINISHED")

    assert life.tell(AttemptReturned()) == [CommitResults()]
    assert life.states() == ["FINISHED", "FINISHED"]

    unopened = Timeline()
    unopened.tell(JobSubmitted(), JobScheduled(), ExecutionsCreated(0, TASKS), AttemptReturned())
    assert unopened.states() == ["CANCELED", "CANCELED"], "what has never run has not finished"


def test_an_execution_goes_through_every_state_and_keeps_the_times():
    life = Timeline()
    life.tell(JobSubmitted(), JobScheduled(), ExecutionsCreated(0, TASKS))
    assert life.states() == ["CREATED", "CREATED"]
    life.tell(SourcesChecked())
    assert life.states() == ["SCHEDULED", "SCHEDULED"]
    life.tell(ExecutionsDeployed())
    assert life.states() == ["DEPLOYING", "DEPLOYING"]
    life.move(READER, "INITIALIZING", pid=4, host="here")
    life.move(READER, "RUNNING")
    assert life.states() == ["RUNNING", "DEPLOYING"] and not life.machine.ran
    life.move(PRINTER, "FINISHED")  # its beginning was not seen
    assert life.states() == ["RUNNING", "FINISHED"] and life.machine.ran

    reader = life.machine.executions[READER]
    assert (reader.pid, reader.host) == (4, "here")
    assert [(state.name, at) for state, at in reader.timestamps.items()] == [
        ("CREATED", 1003), ("SCHEDULED", 1004), ("DEPLOYING", 1005), ("INITIALIZING", 1006), ("RUNNING", 1007),
    ]  # fmt: skip


def test_a_failed_attempt_is_followed_by_another():
    life = Timeline().running()

    life.move(READER, "FAILED", error=FAILURE)
    assert life.states() == ["FAILED", "CANCELING"]
    assert life.tell(AttemptRaised(FAILURE)) == [SettleAttempt("operator 'parse' failed", 50)]
    assert life.status == "RESTARTING" and life.states() == ["FAILED", "CANCELED"]
    assert life.tell(AttemptSettled()) == [WaitForRestart(50)]
    assert life.tell(RestartDue()) == [RunAttempt(1)] and life.status == "RUNNING"

    (failure,) = life.machine.failures
    assert (failure.attempt, failure.error, failure.operator, failure.subtask) == (0, "OperatorFailed", "parse", 0)
    assert (failure.task, failure.host, failure.traceback) == ("stage 0, task 0", "h1", "Traceback ...")
    (restart,) = life.machine.restart_history
    assert (restart.attempt, restart.delay, restart.reason) == (0, 50, "operator 'parse' failed")
    assert life.machine.restarts == 1


def test_the_strategy_ends_the_job():
    life = Timeline(attempts=0).running()

    assert life.tell(AttemptRaised(FAILURE)) == [EndJob(Outcome.FAILED, FAILURE)] and life.status == "FAILING"
    assert life.tell(JobClosed()) == [] and life.status == "FAILED"
    assert life.machine.restarts == 0 and life.machine.failure_count == 1


def test_a_failure_of_the_environment_counts_as_a_loss():
    error = JobExecutionError("no disk")
    life = Timeline(attempts=0).running()

    assert life.tell(AttemptRaised(error)) == [EndJob(Outcome.LOST, error)]


def test_a_runner_that_repeats_tasks_itself_is_not_restarted():
    life = Timeline().running()

    assert life.tell(AttemptRaised(FAILURE, restartable=False)) == [EndJob(Outcome.FAILED, FAILURE)]


def test_an_attempt_that_would_repeat_what_the_program_has_is_the_last():
    life = Timeline()
    life.running()
    (command,) = life.tell(AttemptRaised(FAILURE, repeats=True))

    assert isinstance(command, EndJob) and command.outcome is Outcome.FAILED and life.status == "FAILING"
    assert "enable_checkpointing" in str(command.error) and "operator 'parse' failed" in str(command.error)
    assert command.error.__cause__ is FAILURE and life.machine.restarts == 0


def test_a_job_that_is_never_restarted_fails_with_its_own_error_even_if_it_would_repeat():
    life = Timeline(attempts=0)
    life.running()
    assert life.tell(AttemptRaised(FAILURE, repeats=True)) == [EndJob(Outcome.FAILED, FAILURE)]


def test_before_the_sources_were_checked_nothing_is_tried_again():
    life = Timeline()
    life.tell(JobSubmitted(), JobScheduled(), ExecutionsCreated(0, TASKS))

    assert life.tell(AttemptRaised(FAILURE)) == [EndJob(Outcome.FAILED, FAILURE)]


def test_what_does_not_go_away_fails_a_job_that_never_ran_and_no_other():
    error = FileNotFoundError("model.bin")
    never, once = Timeline(), Timeline().running()
    never.tell(JobSubmitted(), JobScheduled(), ExecutionsCreated(0, TASKS), SourcesChecked())

    assert isinstance(never.tell(AttemptRaised(error))[0], EndJob)
    assert isinstance(once.tell(AttemptRaised(error))[0], SettleAttempt)


def test_a_job_whose_last_checkpoint_is_safe_has_finished_whatever_failed_after_it():
    life = Timeline().running()

    assert life.tell(AttemptRaised(FAILURE, safe=True)) == [CommitResults()]
    life.tell(ResultsCommitted(), JobClosed())
    assert life.status == "FINISHED" and life.machine.failure_count == 0


def test_a_job_that_turns_out_to_be_complete_when_it_is_settled_is_not_restarted():
    life = Timeline().running()
    life.tell(AttemptRaised(FAILURE))

    assert life.tell(AttemptSettled(another=False)) == [CommitResults()]
    life.tell(ResultsCommitted(), JobClosed())
    assert life.status == "FINISHED"


def test_a_broken_checkpoint_is_replaced_by_the_one_before_and_is_no_restart():
    life = Timeline(attempts=0).running()

    assert life.tell(AttemptRaised(RestoreFailed("broken"))) == [SettleAttempt("broken", reject=True)]
    assert life.status == "RESTARTING"
    assert life.tell(AttemptSettled(another=True)) == [RunAttempt(1)]
    assert life.machine.restarts == 0


def test_a_broken_checkpoint_with_none_before_it_is_a_failure():
    error = RestoreFailed("broken")
    life = Timeline(attempts=0).running()
    life.tell(AttemptRaised(error))

    assert life.tell(AttemptSettled(another=False)) == [EndJob(Outcome.LOST, error)]
    assert life.machine.failure_count == 1


@pytest.mark.parametrize(("suspend", "status"), [(False, "CANCELED"), (True, "SUSPENDED")])
def test_a_job_is_stopped_while_it_runs(suspend, status):
    life = Timeline().running()

    assert life.tell(CancelRequested(suspend)) == [StopAttempt()]
    assert life.status == "CANCELLING" and life.states() == ["CANCELING", "CANCELING"]
    (end,) = life.tell(AttemptRaised(JobCancelled("stopped")))
    assert end.outcome is (Outcome.SUSPENDED if suspend else Outcome.CANCELLED)
    life.tell(JobClosed())
    assert life.status == status and life.states() == ["CANCELED", "CANCELED"]
    assert life.machine.failure_count == 0


def test_a_task_that_fails_because_it_is_stopped_is_cancelled():
    life = Timeline().running()
    life.tell(CancelRequested())
    life.move(READER, "FAILED", error=FAILURE)

    assert life.states() == ["CANCELED", "CANCELING"]
    assert life.machine.executions[READER].error is None


def test_a_job_is_cancelled_before_it_begins():
    life = Timeline()
    life.tell(JobSubmitted())

    assert life.tell(CancelRequested()) == [StopAttempt()]
    assert life.tell(JobScheduled()) == [EndJob(Outcome.CANCELLED)]
    life.tell(JobClosed())
    assert life.status == "CANCELED"


@pytest.mark.parametrize(("events", "answer"), [
    ([], AttemptSettled()),
    ([], AttemptSettled(another=False)),
    ([AttemptSettled()], RestartDue()),
])  # fmt: skip
def test_a_job_is_cancelled_while_it_waits_for_a_restart(events, answer):
    life = Timeline().running()
    life.tell(AttemptRaised(FAILURE), *events, CancelRequested())

    assert life.tell(answer) == [EndJob(Outcome.CANCELLED)]


def test_a_cancellation_during_the_last_commit_is_too_late_if_that_succeeds():
    life = Timeline().running()
    life.tell(AttemptReturned(), CancelRequested(), ResultsCommitted(), JobClosed())

    assert life.status == "FINISHED"


def test_a_cancellation_during_the_last_commit_counts_if_that_fails():
    life = Timeline().running()
    error = OSError("no disk")
    life.tell(AttemptReturned(), CancelRequested())

    assert life.tell(RunRaised(error)) == [EndJob(Outcome.CANCELLED, error)]
    life.tell(JobClosed())
    assert life.status == "CANCELED"


def test_a_commit_that_fails_fails_the_job():
    error = OSError("no disk")
    life = Timeline().running()
    life.tell(AttemptReturned())

    assert life.tell(RunRaised(error)) == [EndJob(Outcome.LOST, error)] and life.status == "FAILING"
    (failure,) = life.machine.failures
    assert failure.message == "OSError: no disk" and failure.task is None


def test_ctrl_c_suspends_the_job():
    error = KeyboardInterrupt()
    life = Timeline().running()

    assert life.tell(AttemptRaised(error)) == [EndJob(Outcome.SUSPENDED, error)]
    life.tell(JobClosed())
    assert life.status == "SUSPENDED"


def test_user_code_that_cancel_interrupts_is_no_suspension():
    life = Timeline().running()
    life.tell(CancelRequested())

    (end,) = life.tell(AttemptRaised(Interrupted()))
    assert end.outcome is Outcome.CANCELLED


def test_a_thread_that_does_not_come_back_is_left_and_its_answer_ignored():
    life = Timeline().running()
    life.tell(CancelRequested(), JobClosed(abandoned=True))
    assert life.status == "CANCELED"

    assert life.tell(AttemptReturned()) == [] and life.status == "CANCELED"


def test_spark_repeats_a_task_of_a_batch_job():
    life = Timeline().running()
    life.move(READER, "FINISHED")
    life.move(PRINTER, "FAILED", error=FAILURE, repeated=True)
    assert life.states() == ["FINISHED", "FAILED"]

    life.move(PRINTER, "INITIALIZING", pid=8, host="h2")
    life.move(PRINTER, "RUNNING")

    printer = life.machine.executions[PRINTER]
    assert (printer.number, printer.host, printer.state.name) == (1, "h2", "RUNNING")


def test_events_of_another_attempt_are_ignored():
    life = Timeline().running()
    life.tell(AttemptRaised(FAILURE), AttemptSettled(), RestartDue(), ExecutionsCreated(1, TASKS))

    life.move(READER, "RUNNING", attempt=0)

    assert life.states() == ["CREATED", "CREATED"]


def test_the_history_is_bounded_and_the_counts_are_not():
    life = Timeline(attempts=300, failures=3)
    life.running()
    for attempt in range(1, 200):
        life.tell(AttemptRaised(FAILURE), AttemptSettled(), RestartDue())
        life.tell(ExecutionsCreated(attempt, TASKS))

    machine = life.machine
    assert (machine.restarts, machine.failure_count) == (199, 199)
    assert [failure.attempt for failure in machine.failures] == [196, 197, 198]
    assert len(machine.restart_history) == 100
    assert len(machine.story().splitlines()) <= 500


def test_the_story_has_every_move_and_the_failure():
    life = Timeline(attempts=0).running()
    life.move(READER, "FAILED", error=FAILURE)
    life.tell(AttemptRaised(FAILURE), JobClosed())

    assert [line.split("ms  ")[1] for line in life.machine.story().splitlines()] == [
        "CREATED",
        "RUNNING: attempt 0",
        "stage 0, task 0 failed: operator 'parse' failed",
        "FAILING: operator 'parse' failed",
        "FAILED",
    ]


def test_every_state_but_the_terminal_ones_can_be_left():
    unused = {JobStatus.RECONCILING}
    for status in set(JobStatus) - unused:
        assert bool(JOB_MOVES[status]) != status.is_terminal_state()
    for state in ExecutionState:
        assert bool(EXECUTION_MOVES[state]) != state.is_terminal
