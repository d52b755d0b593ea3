"""Micro-batches: a streaming DataFrame through ``foreachBatch``, a Spark job per batch, the state from one to the next.

Each batch is a job of its own that starts from the checkpoint of the batch before it, reads the rows of this batch, and
*pauses*: its tasks end with a final cut as at the end of the input, but nothing is drained. The checkpoint says which batch
it ends (the state of ``RowsEnumerator``). So a batch that Spark hands over again, because its own log did not get to the
point of noting it, is not run again: what its sinks prepared is committed, and that is all. If the batch failed, its
checkpoint does not exist, and it starts from the one before.

Two places belong together, and live under one folder: Spark's log of offsets and Funken's checkpoints.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from funken import config
from funken.checkpoint.events import Outcome
from funken.checkpoint.settings import CheckpointSettings
from funken.errors import JobCancelled, JobExecutionError
from funken.io.temporary import temporary_folder
from funken.plan.physical import PhysicalPlan
from funken.plan.serialization import program_bytes
from funken.runtime.driver.checkpoints import JobCheckpoints
from funken.runtime.driver.job import Job
from funken.spark.session import losing, settings_of
from funken.spark.submit import BatchRunner, unless_gone

_BEAT_SECONDS = 0.1


class MicroBatchRunner(BatchRunner):
    """A streaming query whose every batch is a Spark batch job."""

    def __init__(self) -> None:
        self._attempts = itertools.count(1)
        self._failure: BaseException | None = None
        self._planned: PhysicalPlan | None = None
        self._program = b""

    def _run_and_clean_up(self, job: Job, given: Any) -> None:
        job.check()
        frame: DataFrame = job.frame
        self._planned, self._program = job.plan, program_bytes(job.plan)
        settings = CheckpointSettings.of(job.configuration)
        try:
            with losing(frame.sparkSession, replaceable=False), _folder(settings) as folder:
                settings = replace(settings, directory=folder)
                every = f"{job.configuration.get(config.MICRO_BATCH_INTERVAL)} milliseconds"
                once = job.configuration.get(config.AVAILABLE_NOW)
                query = (
                    frame.writeStream.queryName(f"{job.plan.name} {job.settings.job_id[:8]}")
                    .foreachBatch(lambda rows, number: self._batch(job, settings, rows, number))
                    .option("checkpointLocation", log_beside(folder, job.settings.job_id))
                    .trigger(**({"availableNow": True} if once else {"processingTime": every}))
                    .start()
                )
                try:
                    self._wait(job, query)
                finally:
                    unless_gone(query.stop)
        finally:
            job.frame = frame

    def _wait(self, job: Job, query: StreamingQuery) -> None:
        while query.isActive and not job.cancelled.wait(_BEAT_SECONDS):
            pass
        if job.cancelled.is_set():
            return
        error = query.exception()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        if error is not None:
            raise JobExecutionError(f"Spark ended the query of job {job.plan.name!r}: {error}")

    def _batch(self, job: Job, settings: CheckpointSettings, rows: DataFrame, number: int) -> None:
        """Run one batch, in a thread of Spark's; what it raises ends the query, and Spark does not note the batch."""
        try:
            self._run_batch(job, settings, rows, number)
            if job.cancelled.is_set():
                raise JobCancelled(f"job {job.plan.name!r} was cancelled")
        except BaseException as error:
            self._failure = error
            raise

    def _run_batch(self, job: Job, settings: CheckpointSettings, rows: DataFrame, number: int) -> None:
        checkpoints = JobCheckpoints.of_micro_batch(job.plan, settings, job.settings.job_id)
        job.checkpoints = checkpoints
        outcome = Outcome.FAILED
        try:
            job.begin_attempt(next(self._attempts))
            if self._planned is not job.plan:
                self._planned, self._program = job.plan, program_bytes(job.plan)
            if job.master.begin_micro_batch(number, own=bool(checkpoints.completed)):
                job.master.check()
                job.settings = replace(job.settings, pausing=True)
                job.frame = rows
                with settings_of(rows.sparkSession):
                    self.run_in(rows.sparkSession, job, self._program)
            outcome = Outcome.FINISHED
        except JobExecutionError:
            if not checkpoints.done:
                raise
            outcome = Outcome.FINISHED  # its checkpoint is complete, whatever failed after it
        finally:
            job.checkpoints = None
            job.master.over = False  # the next batch may fail, and be run again
            checkpoints.stopped(outcome)


def log_beside(folder: str, job_id: str) -> str:
    """Return where Spark's log of offsets goes, in the spelling that Spark has for the scheme.

    >>> log_beside("/checkpoints/", "orders"), log_beside("s3://bucket/checkpoints", "orders")
    ('/checkpoints/orders.spark', 's3a://bucket/checkpoints/orders.spark')
    """
    if folder.startswith("s3://"):  # as Arrow and Flink say; to Hadoop it is another file system
        folder = folder.replace("s3://", "s3a://", 1)
    return f"{folder.rstrip('/')}/{job_id}.spark"


@contextmanager
def _folder(settings: CheckpointSettings) -> Iterator[str]:
    """Yield where checkpoints go: a temporary folder if the program names none."""
    if settings.directory:
        yield settings.directory
        return
    with temporary_folder("checkpoints") as folder:
        yield folder
