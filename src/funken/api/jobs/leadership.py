"""A job that several drivers may run: this one waits until it leads, and stops the job when it does not any more.

While it waits it is a standby: its Spark session is there and warm, its job is CREATED. The first thing that a leader does is
to claim the job's checkpoints in its term, so that its predecessor, whatever state that is in, completes none any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from funken.checkpoint.events import Outcome
from funken.checkpoint.store.epochs import Term
from funken.errors import CheckpointError, InvalidConfiguration, JobCancelled, JobExecutionError, LeadershipLost
from funken.io.storage import Storage
from funken.leaderelection.addresses import publish, withdraw
from funken.leaderelection.election import LeaderElection, election_of, storage_of
from funken.leaderelection.results import JobResultEntry, keep_result, result_of_job
from funken.runtime.driver.job import Job, Runner
from funken.runtime.job.states import JobStatus
from funken.timing.waiting import came

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
_FIRST_SECONDS = 2.0
"""How long a driver waits for leadership before it takes itself for a standby."""
_ENDS = {Outcome.FINISHED, Outcome.CANCELLED, Outcome.FAILED}


class Leadership:
    """The part of one driver in one job; without high availability it always leads."""

    def __init__(self, job: Job, runner: Runner, stop: Callable[[], object]) -> None:
        self._job = job
        self._runner = runner
        self._stop = stop
        self._election: LeaderElection | None = None
        self._reason = ""
        self._ended: JobResultEntry | None = None

    def wait(self, begun: Callable[[], None], url: str | None = None) -> None:
        """Return when this driver leads, or its job is cancelled; ``begun`` is called before. ``url``: where it answers requests.

        Raises ``EnvironmentNotReady`` if kazoo is needed and missing, ``InvalidConfiguration`` for a job without checkpoints.
        """
        job = self._job
        election = self._election = election_of(job.configuration)
        if election is None:
            return
        if job.checkpoints is None:
            raise InvalidConfiguration(
                f"job {job.plan.name!r} runs without checkpoints, so that no standby can take it over. Set "
                "high-availability.type to none for a batch job."
            )
        begun()
        election.start(self._lose)
        logger.info("job %r: this driver is a candidate (%s)", job.plan.name, election.name)
        if not came(election.granted, _FIRST_SECONDS) and not job.cancelled.is_set():
            self._warm_up()
        while not came(election.granted, _LOOK_SECONDS):
            if job.cancelled.is_set():
                return
        self._ended = result_of_job(storage_of(job.configuration))
        if self._ended is not None:
            self._stop()
            return
        logger.warning("job %r: this driver leads in term %d", job.plan.name, election.term)
        job.checkpoints.term = Term(election.name, election.term)
        if url is not None:
            self._note("who looks for all jobs does not find it", lambda storage: publish(storage, url))

    def _warm_up(self) -> None:
        """Let this standby have its Spark session, in which a job has run; without it a takeover takes longer."""
        name = self._job.plan.name
        try:
            self._runner.prepare(self._job)
        except Exception as error:  # noqa: BLE001 - whatever it is, the job may run all the same when this driver leads
            logger.warning("job %r: this standby is cold: %s: %s", name, type(error).__name__, error)
        else:
            logger.info("job %r: this standby is warm", name)

    def _lose(self, reason: str) -> None:
        self._reason = reason
        logger.warning("job %r: this driver does not lead any more: %s", self._job.plan.name, reason)
        self._stop()

    def outcome(self, error: BaseException) -> BaseException | None:
        """Return what the job's result raises here: the error, or what it stands for; ``None`` if another has finished it."""
        stopped = isinstance(error, JobCancelled)
        if stopped and self._reason:
            return LeadershipLost(
                f"job {self._job.plan.name!r} is not run by this driver any more: {self._reason}. Another takes it over; start "
                "this program again for a standby."
            )
        if not stopped or self._ended is None:
            return error
        if self._ended.status == JobStatus.FINISHED.name:
            logger.warning("job %r has been finished by another driver", self._job.plan.name)
            return None
        if self._ended.status == JobStatus.FAILED.name:
            return JobExecutionError(
                f"job {self._job.plan.name!r} has failed under another driver: {self._ended.failure}"
            )
        return error

    def close(self, error: BaseException | None = None) -> None:
        """The job is over here: note how it has ended, if it has for good, and let another driver lead if it has not."""
        if self._election is None:
            return
        outcome = self._job.machine.outcome
        if outcome in _ENDS and self._election.granted.is_set() and not self._reason and self._ended is None:
            entry = JobResultEntry(self._job.machine.status.name, "" if error is None else str(error))
            self._note("a standby runs it again", lambda storage: keep_result(storage, entry))
            self._note("its address is left", withdraw)
        self._election.close()

    def _note(self, otherwise: str, write: Callable[[Storage], None]) -> None:
        """Write in the folder of the drivers; a storage that refuses costs a warning, which says what follows."""
        try:
            write(storage_of(self._job.configuration))
        except CheckpointError as error:
            logger.warning("job %r: %s, because %s", self._job.plan.name, otherwise, error)
