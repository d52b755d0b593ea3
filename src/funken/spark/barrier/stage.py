"""The driver's side of a barrier stage: starts the Spark job, watches it, ends it, and leaves no worker behind.

All tasks of a barrier stage start together, or none does. The program's half on the driver is a ``StageMaster``: it handles
the events of workers, and sets ``ended`` when the job is over, one way or another.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from funken import config
from funken.config import Configuration
from funken.errors import JobCancelled, JobExecutionError, TaskLost, TooFewTaskSlots
from funken.plan.serialization import program_bytes
from funken.runtime.collector import collect_rarely
from funken.runtime.heartbeats import HeartbeatSettings
from funken.spark import jvm
from funken.spark.barrier.worker import BarrierDeployment, BarrierWorker
from funken.spark.control.server import ControlServer, Master
from funken.spark.lean import map_in_arrow
from funken.spark.session import (
    control_host,
    existing,
    home_of_workers,
    living,
    losing,
    session_for,
    slots_of,
    this_python,
)
from funken.spark.submit import unless_gone
from funken.timing.clock import SystemClock
from funken.timing.waiting import result_of

_BEAT_SECONDS = 0.02
_ROOT_CAUSE_SECONDS = 1.0
_EXIT_SECONDS = 2.0
_LEAVE_SECONDS = 30.0
_SCHEMA = "nothing int"


class StageMaster(Master, Protocol):
    """The program's half on the driver."""

    ended: threading.Event
    """Set when all workers have reported their end, or the job has failed."""
    error: BaseException | None
    started: set[int]
    """The workers that have started."""


def default_parallelism(given: Any) -> int:
    """Return the number of cores of the given session, or else of this machine."""
    session = living(given)
    return int(session.sparkContext.defaultParallelism) if session is not None else os.cpu_count() or 1


def run_stage(
    configuration: Configuration, given: Any, name: str, width: int, program: tuple[Any, Any], master: StageMaster
) -> None:
    """Run ``program``, which is ``(main, argument)``, in a stage of so many workers; raise what fails.

    The session is the given one, the active one, or a new one. This runs in a thread of its own: Ctrl-C must not cut a call
    to the JVM in two.
    """
    chosen = living(given) or existing()
    over: Future[None] = Future()

    def run() -> None:
        try:
            spark = session_for(configuration, chosen, 0 if chosen is not None else width)
            with losing(spark):
                _Stage(spark, configuration, name, width, program, master).run()
            over.set_result(None)
        except BaseException as error:  # noqa: BLE001 - raised where the job was started
            over.set_exception(error)

    thread = threading.Thread(target=run, name="funken-spark", daemon=True)
    thread.start()
    try:
        result_of(over)
    except KeyboardInterrupt:
        master.fail(JobCancelled(f"job {name!r} was cancelled"))  # type: ignore[arg-type]
        thread.join(_LEAVE_SECONDS)
        raise


class _Stage:
    def __init__(
        self, spark: SparkSession, configuration: Configuration, name: str, width: int, program: tuple[Any, Any],
        master: StageMaster,
    ) -> None:  # fmt: skip
        if width > (available := slots_of(spark)):
            raise TooFewTaskSlots(
                f"job {name!r} needs {width} task slots at the same time, one per subtask, but the session has {available}. "
                f"Lower the parallelism, or give the session more (.master('local[{width}]'), or more executors)."
            )
        self._spark = spark
        self._configuration = configuration
        self._name = name
        self._width = width
        self._program = program
        self._master = master
        self._failure: Exception | None = None

    def run(self) -> None:
        heartbeat = HeartbeatSettings.of(self._configuration)
        grace = self._configuration.get(config.CANCEL_GRACE)
        encrypted = self._configuration.get(config.SSL_INTERNAL_ENABLED)
        server = ControlServer(self._master, *control_host(self._spark), heartbeat, encrypted)
        group = f"funken-batch-{id(self)}"
        thread: threading.Thread | None = None
        try:
            program = program_bytes(self._program)
            place = (tuple(sys.path), heartbeat, grace, home_of_workers(self._spark))
            deployment = BarrierDeployment(program, server.address, server.credentials, *place)
            thread = threading.Thread(target=self._submit, args=(deployment, group), name="funken-batch", daemon=True)
            thread.start()
            self._watch(thread, server)
        finally:
            server.close()
            if thread is not None:
                self._leave(thread, server, group, grace / 1000)
        if self._master.error is not None:
            raise self._master.error

    def _submit(self, deployment: BarrierDeployment, group: str) -> None:
        context = self._spark.sparkContext
        context.setJobGroup(group, self._name, interruptOnCancel=True)
        try:
            with this_python(self._spark):
                rows = self._spark.range(0, self._width, 1, self._width)
                frame = map_in_arrow(rows, _worker_function(deployment), _SCHEMA, barrier=True)
            frame.write.format("noop").mode("overwrite").save()
        except Exception as error:  # noqa: BLE001 - raised by the watching thread
            self._failure = error

    def _watch(self, thread: threading.Thread, server: ControlServer) -> None:
        clock = SystemClock()
        master = self._master
        limit = clock.monotonic() + self._configuration.get(config.START_TIMEOUT) / 1000
        while not master.ended.wait(_BEAT_SECONDS):
            if not thread.is_alive():
                master.ended.wait(_ROOT_CAUSE_SECONDS)  # a report may still be on its way
                if not master.ended.is_set():
                    master.fail(
                        JobExecutionError(f"Spark ended job {self._name!r}: {self._failure or 'it ended early'}")
                    )
            elif clock.monotonic() > limit and len(master.started) < self._width:
                missing = sorted(set(range(self._width)) - master.started)
                master.fail(
                    JobExecutionError(
                        f"{len(missing)} of {self._width} workers of job {self._name!r} did not start in time: {missing[:5]}. "
                        f"Is the cluster busy, or can its workers not reach the driver at {server.address[0]}? Raise "
                        f"{config.START_TIMEOUT.key}, or set spark.driver.host."
                    )
                )
        if isinstance(master.error, TaskLost):  # another worker may know better why
            server.kill_silent()
            threading.Event().wait(_ROOT_CAUSE_SECONDS / 4)

    def _leave(self, thread: threading.Thread, server: ControlServer, group: str, grace: float) -> None:
        """Wait until the workers have gone, and end those that do not go."""
        failed = self._master.error is not None or not self._master.ended.is_set()
        if failed:
            unless_gone(lambda: self._spark.sparkContext.cancelJobGroup(group))
        if not server.wait_gone(grace + _EXIT_SECONDS):
            server.kill_local()
            server.wait_gone(_EXIT_SECONDS)
        thread.join(_EXIT_SECONDS)
        if thread.is_alive():
            unless_gone(lambda: self._spark.sparkContext.cancelJobGroup(group))
            thread.join(_LEAVE_SECONDS)
        if thread.is_alive() and jvm.lives(self._spark.sparkContext):
            raise JobExecutionError(f"Spark does not end job {self._name!r}; its log says why.")


def _worker_function(deployment: BarrierDeployment) -> Any:
    """Return what runs in every task."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:  # one row, which means nothing
            pass
        context = TaskContext.get()
        assert context is not None
        collect_rarely()
        BarrierWorker(deployment, context.partitionId()).run()
        yield from ()

    return run
