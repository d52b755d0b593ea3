"""The Spark session: the settings that continuous operators need, and how to get a session that has them.

A session given by the user is never changed: what can be set at run time is set in a ``newSession()`` of it; what
cannot is checked, and the error prints the lines to add.

A session can end: its JVM dies, or it is stopped. One that Funken started is then replaced by the next attempt, or the
next job, that needs one; one of the user is not, as only the user knows how to make it again. In both cases PySpark is
made to forget the dead one, as with it no other can be made in the process.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import site
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from funken import config
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import (
    EnvironmentNotReady,
    JobExecutionError,
    SessionLost,
    SessionNotSuitable,
    SessionStopped,
    SparkNotStarted,
    TooFewTaskSlots,
)
from funken.io.temporary import make_temporary_folder, remove_temporary_folder
from funken.spark import java as class_data
from funken.spark import jvm
from funken.spark.java import ensure_java, home_of, without_vector_module
from funken.spark.jvm import spare_imports
from funken.spark.warm.client import Home, join, name_of
from funken.timing.clock import SystemClock

logger = logging.getLogger(__name__)

STATIC = {
    # Python worker <-> JVM: one block a message, written and flushed at once, both directions overlapped
    "spark.python.udf.pipelined.enabled": "true",
    "spark.python.udf.pipelined.queueDepth": "1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.buffer.size": "64",
    # streaming shuffle: small buffers bound the latency under back-pressure
    "spark.shuffle.streaming.writerMaxMemory": "262144",
    "spark.shuffle.streaming.readerMaxMemory": "262144",
    "spark.shuffle.streaming.networkBufferSize": "32768",
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",
}
"""Settings that must be there when the session starts."""

REQUIRED = ("spark.python.udf.pipelined.enabled", "spark.buffer.size")
"""Without these, records wait for seconds or for ever; the others only cost latency."""

RUNTIME = {
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",  # Python operators are not on the list
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",  # a row is a block already
    "spark.sql.adaptive.enabled": "false",  # a stage has exactly the tasks that the plan says
}
"""Settings of the session a job runs in."""

ENCRYPTED = {
    # Spark makes the secret itself on one machine and on YARN; else its own spark.authenticate.secret has to be set
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
"""Settings of a session that Funken starts where all is to be encrypted."""

_OWN_SLOTS = 64
_MASTERS = ("local", "spark://", "yarn", "k8s://")
_SOCKETS, _SOCKETS_DIR = (f"spark.python.unix.domain.socket.{name}" for name in ("enabled", "dir"))
_SLOTS_SECONDS = 0.2
_LONGEST_SOCKET_FOLDER = 60
"""A socket's path has at most 107 bytes, and Spark's names of sockets have 42."""

_JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+ExitOnOutOfMemoryError"
"""Of the JVM of a session that Funken starts: it only carries blocks, and the optimizing compiler takes a third of a core
from the operators for half a minute, to win a few percent after it (decision 0004).
A JVM without memory ends, and is replaced."""


def session_for(
    configuration: Configuration, given: Any, slots: int, wanted: Callable[[], bool] = lambda: True
) -> SparkSession:
    """Return a session for a job: of the one given, the active one, or a new local one; check that the job fits.

    A new one that is not ``wanted`` any more while it starts is ended, and ``SparkNotStarted`` is raised.

    Raises ``JavaNotFound``, ``SparkNotStarted``, ``SessionNotSuitable``, ``SessionStopped`` and ``TooFewTaskSlots``.
    """
    spare_imports()
    with jvm.lock:
        spark = living(given) or existing() or _start(configuration, slots, wanted)
    with losing(spark):
        if slots:
            check(spark)
        available = _slots_in_time(spark, slots, configuration, wanted)
        if slots > available:
            raise TooFewTaskSlots.of(
                f"the job needs {slots} task slots at the same time, one per worker of every stage, but the session has "
                f"{available}. Lower the parallelism, let more subtasks share a worker ({config.SUBTASKS_PER_WORKER.key}), or "
                f"give the session more: .master('local[{slots + 2}]') on one machine, more executors or cores on a cluster.",
                available,
            )
        own = spark.newSession()
        for key, value in RUNTIME.items():
            own.conf.set(key, value)
    return own


def _slots_in_time(spark: SparkSession, slots: int, configuration: Configuration, wanted: Callable[[], bool]) -> int:
    """Return the number of slots; on a cluster, whose executors register one by one, wait for enough of them."""
    available = slots_of(spark)
    master = str(spark.sparkContext.master)
    if available >= slots or re.fullmatch(r"local(\[.*)?", master):
        return available
    logger.info("waiting for %d task slots at %s, %d are there", slots, master, available)
    now = SystemClock().monotonic
    end = now() + configuration.get(config.SLOT_REQUEST_TIMEOUT) / 1000
    while available < slots and now() < end and wanted():
        time.sleep(_SLOTS_SECONDS)
        available = slots_of(spark)
    return available


@contextmanager
def losing(spark: SparkSession, replaceable: bool = True) -> Iterator[None]:
    """Raise that the session has ended if that is the cause: a dead JVM shows in many different errors.

    Raises ``SessionLost`` if Funken would start another in its place, else ``SessionStopped``.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, EnvironmentNotReady) or jvm.lives(spark.sparkContext):
            raise
        why = str(error.args[0]) if isinstance(error, JobExecutionError) else f"{type(error).__name__}: {error}"
        why = f"It was stopped, or its JVM was killed (out of memory?). What failed first: {why}"
        if replaceable and jvm.is_own(spark.sparkContext):
            raise SessionLost(f"the Spark session ended under the job. {why}") from error
        raise SessionStopped(
            "the Spark session ended under the job, and Funken starts no other since the program made this one. Build a new "
            f"session, and run the job in it. {why}"
        ) from error


def living(given: Any) -> SparkSession | None:
    """Return the session of the argument; ``None`` if there is none, or one of Funken's own that has ended.

    Raises ``SessionStopped`` if it has ended and is the user's.
    """
    if isinstance(given, str | type):
        raise SessionNotSuitable(
            f"spark={given!r} is no SparkSession. Give SparkSession.builder.getOrCreate(), or leave it out: the option "
            "spark.master names the cluster."
        )
    if given is None or jvm.lives(given.sparkContext):
        return given  # type: ignore[no-any-return]
    _let_go(given.sparkContext)
    return None


def existing() -> SparkSession | None:
    """Return the running session of this process, if there is one; ``getActiveSession`` returns only its own thread's.

    Raises ``SessionStopped`` if it has ended without being stopped, and is the user's.
    """
    while (context := SparkContext._active_spark_context) is not None and getattr(context, "_jsc", None) is not None:
        if jvm.lives(context):
            return (
                SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
            )  # given no options, it changes none
        _let_go(context)
    return None


def _let_go(context: Any) -> None:
    with jvm.lock:
        jvm.forget(context)
    if not jvm.is_own(context):
        raise SessionStopped(
            "the Spark session of this program has ended: it was stopped, or its JVM was killed (out of memory?) or lost its "
            "cluster. Funken did not start it, and does not know how to start another like it. Build a new one "
            "(SparkSession.builder...getOrCreate()), and run the job in it."
        )


@dataclass(frozen=True)
class SessionLaunch:
    """The settings with which Funken starts a session; ``name`` says which warm session will do."""

    java_home: Path
    master: str
    settings: dict[str, str]
    options: str
    shares_classes: bool

    @staticmethod
    def of(configuration: Configuration, slots: int) -> SessionLaunch:
        """Find it out; raises ``JavaNotFound``."""
        java_home = home_of(ensure_java())
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        for foreign in ("SPARK_HOME", "SPARK_CONF_DIR"):
            os.environ.pop(foreign, None)
        quiet = Path(__file__).with_name("log4j2.properties").as_uri()
        submitted = jvm.submitted()
        wanted = configuration.get(config.MASTER) or submitted.get("spark.master", "")
        master = wanted or f"local[{max(_OWN_SLOTS, slots + 2)}]"
        memory = str(configuration.get(config.SHUFFLE_MEMORY))
        settings = {
            **STATIC,
            "spark.shuffle.streaming.writerMaxMemory": memory,
            "spark.shuffle.streaming.readerMaxMemory": memory,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.pyspark.python": os.environ["PYSPARK_PYTHON"],
        }
        if not wanted:  # there are more slots than cores, for tasks that wait most of the time
            settings["spark.default.parallelism"] = str(os.cpu_count() or 1)
        if configuration.get(config.SSL_INTERNAL_ENABLED):
            settings |= ENCRYPTED
        if os.environ["PYSPARK_PYTHON"] == sys.executable and master.startswith("local"):
            settings["spark.python.daemon.module"] = "funken.spark.daemon"
            if (place := _import_path()) is not None:
                settings["spark.executorEnv.PYTHONPATH"] = place
        if master.startswith("local"):
            settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        settings = {key: value for key, value in settings.items() if key in STATIC or key not in submitted}
        if master.startswith("yarn") and _SOCKETS_DIR not in submitted:
            settings[_SOCKETS] = "false"  # the temporary folder of a container has a name that is too long for a socket
        options = f"-Dlog4j2.configurationFile={quiet} {_JVM_OPTIONS}"
        return SessionLaunch(java_home, master, settings, options, configuration.get(config.CLASS_DATA_SHARING))

    @property
    def name(self) -> str:
        """The name of a warm session that will do."""
        return name_of(self.settings | {"spark.master": self.master, "java": str(self.java_home)}, self.options)

    def start(self, wanted: Callable[[], bool], **more: str) -> SparkSession:
        """Start it; raises ``SparkNotStarted``."""
        if not self.master.startswith(_MASTERS):
            raise SparkNotStarted(
                f"spark.master {self.master!r} names no Spark. Write local[4], spark://host:7077, yarn or "
                "k8s://https://host:443, say."
            )
        settings, options = self.settings | more, self.options
        if self.shares_classes:
            options += f" {class_data.options(self.java_home, Path(pyspark.__file__).parent / 'jars')}"
        if self.master.startswith("local"):
            settings[_SOCKETS_DIR] = _socket_folder()
        builder = SparkSession.builder.master(self.master).appName("funken")
        try:
            with without_vector_module():
                return jvm.start(builder, settings, options, wanted)
        except Exception as error:
            raise SparkNotStarted(
                f"Spark (master {self.master}) did not start: {type(error).__name__}: {error}. What Java and Spark print says "
                "more; a JVM that was killed may have had too little memory."
            ) from error


def _start(configuration: Configuration, slots: int, wanted: Callable[[], bool]) -> SparkSession:
    launch = SessionLaunch.of(configuration, slots)
    if configuration.get(config.WARM_SESSION) and jvm.is_free() and (warm := join(launch.name)) is not None:
        return jvm.adopt(warm)
    return launch.start(wanted)


def _import_path() -> str | None:
    """Return the path in which a fresh interpreter has to look for Funken; ``None`` if it is installed.

    Folders of ``PYTHONPATH`` come before the standard library, so a folder of installed packages must not be in it.
    """
    place = Path(__file__).resolve().parents[2]
    installed = [*site.getsitepackages(), site.getusersitepackages()]
    return None if place in (Path(each).resolve() for each in installed) else str(place)


@cache
def _socket_folder() -> str:
    """Make the folder of the workers' sockets, private to this user; it is removed with this process."""
    folder = make_temporary_folder("sockets", _LONGEST_SOCKET_FOLDER)
    own = os.getpid()
    atexit.register(lambda: remove_temporary_folder(folder) if os.getpid() == own else None)
    return folder


_OF_ROWS = {
    **RUNTIME,
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",  # here a row is a row, until stage 0 makes blocks of them
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 * 2**20),
}


@contextmanager
def settings_of(spark: SparkSession) -> Iterator[None]:
    """Let a session run a job over a DataFrame of its own, which no other session can; then be as it was."""
    before: dict[str, str | None] = {key: spark.conf.get(key, None) for key in _OF_ROWS}
    try:
        for key, value in _OF_ROWS.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, was in before.items():
            if was is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, was)


@contextmanager
def this_python(spark: SparkSession) -> Iterator[None]:
    """Let plans made here run on the driver's interpreter, as ``python3`` on the PATH may be another one.

    Leaves alone an interpreter of ``PYSPARK_PYTHON``, and clusters, where this interpreter's path means nothing.
    """
    context = spark.sparkContext
    before = context.pythonExec
    if "PYSPARK_PYTHON" not in os.environ and str(context.master).startswith("local"):
        context.pythonExec = sys.executable
    try:
        yield
    finally:
        context.pythonExec = before


def check(spark: SparkSession) -> None:
    """Raise ``SessionNotSuitable`` if a static setting that continuous mode needs is missing."""
    conf = spark.sparkContext.getConf()
    if all(conf.get(key, "") == STATIC[key] for key in REQUIRED):
        return
    lines = "\n".join(f'    .config("{key}", "{value}")' for key, value in STATIC.items())
    wrong = ", ".join(f"{key}={conf.get(key, 'not set')}" for key in REQUIRED if conf.get(key, "") != STATIC[key])
    raise SessionNotSuitable(
        f"the Spark session lacks settings that continuous mode needs and that cannot be changed in a running session "
        f"({wrong}). Add these lines where the session is built:\n\n{lines}\n\nOr let Funken start the session, or run "
        "the job with execution.target 'batch'."
    )


def slots_of(spark: SparkSession) -> int:
    """Return the number of tasks that the session can run at the same time."""
    context: Any = spark.sparkContext
    scala = context._jsc.sc()
    return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))


def control_host(spark: SparkSession) -> tuple[str, str]:
    """Return the address that tasks reach the driver at, and the one it listens on.

    Both are loopback unless the session spans machines; then they are those of Spark's own driver.
    """
    conf = spark.sparkContext.getConf()
    if str(spark.sparkContext.master).startswith("local"):
        return "127.0.0.1", "127.0.0.1"
    host = str(conf.get("spark.driver.host", "127.0.0.1"))
    return host, str(conf.get("spark.driver.bindAddress", host))


def home_of_workers(spark: SparkSession) -> Home | None:
    """Return the place of this program, if its workers begin elsewhere: in the process of a warm session."""
    return Home.here() if jvm.is_warm(spark.sparkContext) else None


def repeats_tasks(spark: SparkSession) -> bool:
    """Return True if Spark retries a failed task: clusters as configured, one machine only ``local[N,failures]``."""
    master = str(spark.sparkContext.master)
    if not master.startswith("local") or master.startswith("local-cluster"):
        return int(spark.sparkContext.getConf().get("spark.task.maxFailures", "4")) > 1
    allowed = re.fullmatch(r"local\[[^,]+,\s*(\d+)\s*\]", master)
    return allowed is not None and int(allowed[1]) > 1
