"""Runs a job: executes the commands of its machine, one after the other, in the calling thread.

The machine decides (``runtime/job/machine.py``); here is what its commands do with the master, the checkpoints and the runner.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from funken.checkpoint.machine import Outcome
from funken.errors import JobCancelled, JobExecutionError, RescaleDue
from funken.runtime.driver.job import Job, Runner
from funken.runtime.job.states import (
    AttemptRaised,
    AttemptReturned,
    AttemptSettled,
    CommitResults,
    EndJob,
    JobClosed,
    JobCommand,
    JobEvent,
    JobScheduled,
    RestartDue,
    ResultsCommitted,
    RunAttempt,
    RunRaised,
    SettleAttempt,
    WaitForRestart,
)
from funken.runtime.process import Interrupted
from funken.timing.clock import came

logger = logging.getLogger(__name__)


class JobExecution:
    """One run of one job: ``run`` until it is decided how the job ends, then ``end``."""

    def __init__(self, job: Job, runner: Runner) -> None:
        self._job = job
        self._runner = runner
        self._raised: BaseException | None = None

    def run(self, scheduled: Callable[[], None]) -> None:
        """Run the job, attempt by attempt; raise why it has not finished. ``scheduled`` is called when it begins."""
        command = self._job.handle(JobScheduled())
        scheduled()
        while command is not None and not isinstance(command, EndJob):
            command = self._job.handle(self._execute(command))
        if command is None or command.outcome is not Outcome.FINISHED:
            self._raised = self.cancellation() if command is None or command.error is None else command.error
            raise self._raised

    def end(self, error: BaseException | None = None) -> BaseException | None:
        """Clean up; return what the job's result is to raise: its failure, ``JobCancelled``, or nothing.

        ``error`` is what ``run``, or what is around it, raised. May be called again if it is interrupted itself.
        """
        job = self._job
        if error is not None and error is not self._raised:
            job.handle(RunRaised(error))
        command = job.machine.under_way
        outcome = command.outcome if isinstance(command, EndJob) else Outcome.FAILED
        result = None if error is None else self._abandon(error, outcome)
        try:
            self._stopped(outcome)
        except Exception as also:
            if result is None:
                raise  # it has not finished after all
            result.add_note(f"Ending its checkpoints failed as well: {type(also).__name__}: {also}")
        return result

    def close(self, abandoned: bool = False) -> None:
        """Nothing more is done for the job; if it is not decided how it ends, ``end`` was interrupted, and it is abandoned."""
        self._job.handle(JobClosed(abandoned or self._job.machine.outcome is None))
        self._job.rescaling.give_up(JobExecutionError(f"job {self._job.plan.name!r} has ended before it was rescaled"))

    def cancellation(self) -> JobCancelled:
        """Return what the result of a cancelled job raises."""
        return JobCancelled(f"job {self._job.plan.name!r} was cancelled")

    def _abandon(self, error: BaseException, outcome: Outcome) -> BaseException:
        """Drop what is not committed; return what the job's result is to raise."""
        stopped = outcome in (Outcome.CANCELLED, Outcome.SUSPENDED)
        try:
            self._job.master.abandon()
        except Exception as also:  # noqa: BLE001 - the first error is the one to raise
            error.add_note(f"Dropping what was not committed failed as well: {type(also).__name__}: {also}")
        if stopped and isinstance(error, Exception | Interrupted) and not isinstance(error, JobCancelled):
            return self.cancellation()  # something broke while it was being stopped
        return error

    def _stopped(self, outcome: Outcome) -> None:
        if self._job.checkpoints is not None:
            self._job.checkpoints.stopped(outcome)

    # ---- commands

    def _execute(self, command: JobCommand) -> JobEvent:
        match command:
            case RunAttempt(attempt=attempt):
                return self._attempt(attempt)
            case SettleAttempt():
                return self._settle(command)
            case WaitForRestart(delay=delay):
                came(self._job.cancelled, delay / 1000)
                return RestartDue()
            case CommitResults():
                self._job.master.succeed()
                return ResultsCommitted()
        raise AssertionError(command)

    def _attempt(self, attempt: int) -> JobEvent:
        job = self._job
        try:
            job.begin_attempt(attempt)
            self._runner.run(job)
            if job.master.error is not None and not job.cancelled.is_set():
                raise job.master.error
        except BaseException as error:  # noqa: BLE001 - the machine decides what becomes of it
            safe = job.checkpoints is not None and job.checkpoints.done
            if job.revert(error):
                error = RescaleDue(f"the job goes on with fewer tasks: {error}")
            repeats = job.checkpoints is None and job.master.collectors.handed_on
            return AttemptRaised(error, random.random(), safe, job.restartable, repeats)
        return AttemptReturned()

    def _settle(self, command: SettleAttempt) -> AttemptSettled:
        job = self._job
        if command.delay is not None:
            logger.warning("job %r failed and is restarted in %d ms: %s", job.plan.name, command.delay, command.reason)
        job.master.abandon()
        if command.reject:
            found = job.checkpoints is not None and job.checkpoints.failed(command.reason)
            return AttemptSettled(found and job.checkpoints is not None and job.checkpoints.reject(command.reason))
        return AttemptSettled(job.checkpoints is None or job.checkpoints.failed(command.reason))
