"""The two ways to run a plan on Spark: continuously in real-time mode, and as a batch job.

Either way the plan is one chain: a carrier, then per stage a ``mapInArrow`` and between stages ``repartitionById``.
A runner returns when the job is over, and leaves no query, no worker and no folder behind.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import itertools
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from funken import config
from funken.checkpoint.machine import Outcome
from funken.checkpoint.settings import CheckpointSettings
from funken.config import Configuration
from funken.connectors.dataframe import RowsSource
from funken.errors import EnvironmentNotReady, JobCancelled, JobExecutionError, TaskLost, TooFewTaskSlots
from funken.io.temporary import temporary_folder
from funken.io.threads import in_daemon
from funken.operators.user_functions import traits_of
from funken.plan.nodes import program_bytes
from funken.plan.physical import PhysicalPlan
from funken.runtime.driver.job import Job
from funken.runtime.driver.job_checkpoints import JobCheckpoints
from funken.runtime.driver.master import JobMaster
from funken.runtime.job.states import ExecutionsDeployed
from funken.spark import jvm
from funken.spark.control.server import ControlServer
from funken.spark.jvm import map_in_arrow, quoted
from funken.spark.session import (
    control_host,
    existing,
    home_of_workers,
    living,
    losing,
    repeats_tasks,
    session_for,
    settings_of,
    slots_of,
    this_python,
)
from funken.spark.task_shell import Deployment
from funken.spark.worker import SCHEMA, stage_function
from funken.timing.clock import SystemClock, result_of

logger = logging.getLogger(__name__)

_BEAT_SECONDS = 0.1
_ROOT_CAUSE_SECONDS = 1.0
_EXIT_SECONDS = 2.0
_AT_EXIT_SECONDS = 15.0
_LEAVE_SECONDS = 30.0
"""The time (s), beyond the grace period of user code, in which Spark is to end a job that a signal stops."""

_RUNNING: dict[Future[None], Job] = {}


def chain_of(
    carrier: DataFrame, widths: tuple[int, ...], workers: tuple[int, ...], deployment: Deployment
) -> DataFrame:
    """Return the Spark plan of a job whose stages have so many tasks, in so many workers."""
    frame = carrier
    with this_python(carrier.sparkSession):
        for stage, (width, count) in enumerate(zip(widths, workers, strict=True)):
            if stage:
                target = sql.col("target")
                frame = frame.repartitionById(count, target if count == width else target % count)
            behind = workers[stage + 1] if stage + 1 < len(workers) else 1
            frame = map_in_arrow(frame, stage_function(deployment, stage, width, count, behind), SCHEMA)
    return frame


def rows_over(job: Job) -> DataFrame:
    """Return the rows of the job's DataFrame, over the tasks of stage 0 that read them: a whole partition to one."""
    heads = ((vertex.parallelism, traits_of(vertex.nodes[0].spec).source) for vertex in job.plan.vertices)
    width = next(parallelism for parallelism, source in heads if isinstance(source, RowsSource))
    frame: DataFrame = job.frame
    if (read := _columns_read(job)) is not None:
        frame = frame.select([sql.col(quoted(name)) for name in read])
    target = (sql.spark_partition_id() % width).cast("int")
    return frame.withColumn("funken target", target).repartitionById(job.plan.widths[0], sql.col("funken target"))


def _columns_read(job: Job) -> list[str] | None:
    """Return the columns that the job reads, if that cannot change while it runs; ``None``: all of them."""
    for vertex in job.plan.vertices:
        traits = traits_of(vertex.nodes[0].spec)
        if isinstance(traits.source, RowsSource) and traits.fields_read:
            return [traits.source.columns[number] for number in traits.fields_read]
    return None


def default_parallelism(given: Any) -> int:
    """Return the number of cores of the given session, or else of this machine."""
    session = living(given)
    return int(session.sparkContext.defaultParallelism) if session is not None else os.cpu_count() or 1


class SparkRunner:
    """The base of both ways to run: the control server, the deployment, the watch over the job."""

    continuous: bool

    def default_parallelism(self, configuration: Configuration, session: Any) -> int:
        """One subtask per core of this machine, or of the given session."""
        return default_parallelism(session)

    def prepare(self, job: Job) -> None:
        """Start the session, and run a job of two stages in it, so that the classes of a job are loaded.

        In a thread of its own, for the same reason as ``run``.
        """
        result_of(in_daemon("funken-standby", lambda: self._prepare(job)))

    def _prepare(self, job: Job) -> None:
        slots = job.plan.slots if self.continuous else 0
        given = living(job.session) or existing()
        session_for(job.configuration, given, slots, lambda: not job.cancelled.is_set())
        if self.continuous and not job.cancelled.is_set():
            warm: Any = importlib.import_module("funken.spark.warm.resident")  # which imports runners
            keys = (config.MASTER.key, config.SSL_INTERNAL_ENABLED.key)
            kept = {key: value for key, value in job.configuration.to_dict().items() if key in keys}
            self.run(warm.warm_up_job(Configuration(kept)))

    def run(self, job: Job) -> None:
        """Run the job to its end, in a thread of its own: Ctrl-C must not cut a call to the JVM in two."""
        given = living(job.session) or existing()
        over: Future[None] = Future()
        thread = threading.Thread(target=self._run, args=(job, given, over), name="funken-spark", daemon=True)
        try:
            thread.start()
            result_of(over)
        except BaseException:
            if (
                not over.done()
            ):  # the exception is that of a signal; a thread that has not begun finds the job cancelled
                job.cancel(suspend=True)
                _leave(thread, job)
            raise

    def _run(self, job: Job, given: Any, over: Future[None]) -> None:
        _RUNNING[over] = job
        try:
            self._run_and_clean_up(job, given)
            over.set_result(None)
        except BaseException as error:  # noqa: BLE001 - raised where the job was started
            over.set_exception(error)
        finally:
            del _RUNNING[over]

    def _run_and_clean_up(self, job: Job, given: Any) -> None:
        job.check()
        program = program_bytes(job.plan)
        if job.frame is not None:
            with losing(job.frame.sparkSession, replaceable=False), settings_of(job.frame.sparkSession):
                self.run_in(job.frame.sparkSession, job, program)
            return
        slots = job.plan.slots if self.continuous else 0
        spark = session_for(job.configuration, given, slots, lambda: not job.cancelled.is_set())
        if not jvm.is_own(spark.sparkContext):
            job.session = spark  # if it ends, no other will do
        if not job.cancelled.is_set():
            with losing(spark):
                self.run_in(spark, job, program)

    def run_in(self, spark: SparkSession, job: Job, program: bytes) -> None:
        """Run the job in a session that has the settings it needs; raise if it failed."""
        server = ControlServer(
            job.master, *control_host(spark), job.settings.heartbeat, job.configuration.get(config.SSL_INTERNAL_ENABLED)
        )
        job.master.send = server.send
        job.slots = partial(slots_of, spark)
        if self.continuous:  # else a stage is deployed when the one before it has ended
            job.handle(ExecutionsDeployed())
        try:
            deployment = Deployment(
                program,
                replace(job.settings, together=self.continuous),
                server.address,
                server.credentials,
                tuple(sys.path),
                self.continuous,
                job.frame is not None,
                home_of_workers(spark),
            )
            self.run_on(spark, job, deployment, server)
        finally:
            server.close()
            job.master.coordinators.abandon()  # a task's thread may wait for room
            if not server.wait_gone(job.settings.cancel_grace / 1000 + _EXIT_SECONDS):
                server.kill_local()
                server.wait_gone(_EXIT_SECONDS)

    def run_on(self, spark: SparkSession, job: Job, deployment: Deployment, server: ControlServer) -> None:
        """Start the Spark side, watch it, stop it."""
        raise NotImplementedError

    def watch(self, job: Job, server: ControlServer, alive: Callable[[], bool], why: Callable[[], str]) -> None:
        """Wait until the job is over, one way or another; raise if it failed."""
        clock = SystemClock()
        master = job.master
        limit = clock.monotonic() + job.configuration.get(config.START_TIMEOUT) / 1000
        while not master.ended.wait(_BEAT_SECONDS):
            master.tick()
            master.advance(clock.now())
            job.look()
            if not self._lives(alive):
                master.ended.wait(_ROOT_CAUSE_SECONDS)  # the task's own report may still be on its way
                if not master.ended.is_set():
                    master.spark_gave_up()
                break
            if clock.monotonic() > limit and not master.all_started.is_set() and self.continuous:
                raise _not_started(master, server.address[0])
        if job.cancelled.is_set():
            return
        if isinstance(master.error, TaskLost):  # another task may know better why
            server.kill_silent()
            time.sleep(_ROOT_CAUSE_SECONDS / 4)
        if master.error is None and not master.over:
            text = why()
            if "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT" in text:
                raise too_few_slots(job.plan.slots, job.slots() if job.slots else 0, text.splitlines()[0])
            found = re.search(r'Cannot run program "([^"]*)"', text)
            if found is not None:
                raise EnvironmentNotReady(
                    f"Spark cannot start the Python of its workers, {found[1]!r}, which PYSPARK_PYTHON or spark.pyspark.python "
                    "names. Name a Python with Funken on every machine, or leave it out."
                )
            raise JobExecutionError(f"Spark ended job {job.plan.name!r}: {text}")
        if master.error is not None:
            raise master.error

    @staticmethod
    def _lives(alive: Callable[[], bool]) -> bool:
        try:
            return alive()
        except jvm.GONE as error:
            raise JobExecutionError(f"Spark does not answer ({type(error).__name__}: {error})") from error


def too_few_slots(wanted: int, available: int, said: str) -> JobExecutionError | TooFewTaskSlots:
    """Return the cause of Spark's refusal of a job that had enough slots just before: a lost executor, or other jobs.

    The first is over when another executor is there, for which the next attempt waits.

    >>> type(too_few_slots(4, 4, "only 2 are free")).__name__, type(too_few_slots(4, 0, "only 0 are free")).__name__
    ('TooFewTaskSlots', 'JobExecutionError')
    """
    if available < wanted:
        return JobExecutionError(
            f"the job needs {wanted} free task slots at once, and Spark has lost executors while it began: {available} are left. "
            f"Another attempt waits for new ones. Spark says: {said}"
        )
    return TooFewTaskSlots(
        f"the job needs {wanted} free task slots at once, but other jobs of the session use some. Spark says: {said}"
    )


def _not_started(master: JobMaster, host: str) -> JobExecutionError:
    missing = [task for task in master.tasks if task not in master.started]
    if master.opening.issuperset(missing):
        why = "Their processes are there, but the open() of an operator has not come back: let it do less, or raise "
        why += f"{config.START_TIMEOUT.key}."
    else:
        why = f"Is the cluster busy, or can its workers not reach the driver at {host}? Raise {config.START_TIMEOUT.key}, "
        why += "or set spark.driver.host."
    places = "; ".join(map(str, missing[:5]))
    return JobExecutionError(f"{len(missing)} of {len(master.tasks)} tasks did not start in time ({places}). {why}")


def _leave(thread: threading.Thread, job: Job) -> None:
    """Wait until the thread of a job that is being stopped has ended it on Spark, within a bound."""
    seconds = 2 * (job.settings.cancel_grace / 1000 + _LEAVE_SECONDS)  # for Spark, and for processes of user code
    now = SystemClock().monotonic
    end = now() + seconds
    while thread.is_alive() and now() < end:
        thread.join(_BEAT_SECONDS)
    _say_left(thread, job, seconds)


def _say_left(thread: threading.Thread, job: Job, seconds: float) -> None:
    if thread.is_alive():
        logger.warning(
            "job %r: Spark has not ended its tasks within %.0f s, and they are left; they end with the driver.",
            job.plan.name, seconds,
        )  # fmt: skip


def unless_gone(stop: Callable[[], Any]) -> None:
    """Stop something of Spark's; there is nothing to stop if the session was stopped or its JVM killed."""
    with contextlib.suppress(*jvm.GONE):
        stop()


def _stop_running() -> None:
    """Stop the runs that are left when the program ends, so that it leaves nothing behind."""
    left = dict(_RUNNING)
    for job in left.values():
        job.cancel(suspend=True)
    wait(left, _AT_EXIT_SECONDS)


atexit.register(_stop_running)


class ContinuousRunner(SparkRunner):
    """Real-time mode: all stages run at the same time, records flow in milliseconds."""

    continuous = True

    def run_on(self, spark: SparkSession, job: Job, deployment: Deployment, server: ControlServer) -> None:
        """Start a streaming query over a carrier that never delivers a row, and stop it when the job is over."""
        workers = job.plan.workers
        jvm: Any = spark._jvm
        stream = jvm.org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream.apply(
            spark._jsparkSession, workers[0], jvm.org.apache.spark.sql.Encoders.STRING()
        )
        carrier = DataFrame(stream.toDF(), spark)
        with temporary_folder("query") as folder:
            query = (
                chain_of(carrier, job.plan.widths, workers, deployment)
                .writeStream.format("noop")
                .outputMode("update")
                .queryName(f"{job.plan.name} {job.settings.job_id[:8]}")
                .trigger(realTime="365 days")  # type: ignore[call-overload]  # missing in the overloads of 4.3
                .option("checkpointLocation", folder)
                .start()
            )
            try:
                self.watch(job, server, lambda: bool(query.isActive), lambda: str(query.exception()))
            finally:
                unless_gone(query.stop)


class BatchRunner(SparkRunner):
    """One Spark job: a stage runs when the one before it is done, and Spark repeats tasks that fail."""

    continuous = False

    def run_on(self, spark: SparkSession, job: Job, deployment: Deployment, server: ControlServer) -> None:
        """Run the job in a thread, so that it can be watched and cancelled."""
        widths = job.plan.widths
        job.master.spark_retries = job.master.buffers_output and repeats_tasks(spark)
        group = f"funken-{job.settings.job_id}"
        context = spark.sparkContext
        failure: list[BaseException] = []

        def run() -> None:
            context.setJobGroup(group, job.plan.name, interruptOnCancel=True)
            carrier = spark.range(0, widths[0], 1, widths[0]) if job.frame is None else rows_over(job)
            try:
                chain_of(carrier, widths, widths, deployment).write.format("noop").mode("overwrite").save()
                # The last reports may still be on their way, or wait for someone to read what was collected.
                while not (job.master.ended.wait(_BEAT_SECONDS) or server.wait_gone(0)):
                    pass
            except Exception as error:  # noqa: BLE001 - raised by the watching thread
                failure.append(error)

        thread = threading.Thread(target=run, name="funken-batch", daemon=True)
        thread.start()
        try:
            self.watch(job, server, thread.is_alive, lambda: str(failure[0] if failure else "it ended early"))
        finally:
            if thread.is_alive():
                thread.join(0.2 if job.master.ended.is_set() and job.master.error is None else 0)
            clock = SystemClock()
            end = clock.monotonic() + (seconds := job.settings.cancel_grace / 1000 + _LEAVE_SECONDS)
            while thread.is_alive() and clock.monotonic() < end:
                if job.cancelled.is_set() or job.master.error is not None or not job.master.ended.is_set():
                    unless_gone(lambda: context.cancelJobGroup(group))
                thread.join(0.5)
            _say_left(thread, job, seconds)


# ---- Micro-batches: a streaming DataFrame through ``foreachBatch``, a Spark job per batch, the state from one to
# the next.
#
# Each batch is a job of its own that starts from the checkpoint of the batch before it, reads the rows of this batch, and
# *pauses*: its tasks end with a final cut as at the end of the input, but nothing is drained. The checkpoint says which batch
# it ends (the state of ``RowsEnumerator``). So a batch that Spark hands over again, because its own log did not get to the
# point of noting it, is not run again: what its sinks prepared is committed, and that is all. If the batch failed, its
# checkpoint does not exist, and it starts from the one before.
#
# Two places belong together, and live under one folder: Spark's log of offsets and Funken's checkpoints.


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
        """Run one batch, in a thread of Spark's; an exception ends the query, and Spark does not note the batch."""
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
    """Return the target of Spark's log of offsets, in the spelling that Spark has for the scheme.

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
