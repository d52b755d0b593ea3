"""The JVM behind a Spark session: whether it is alive, and how PySpark is made to drop a dead one.

PySpark keeps one JVM and one ``SparkContext`` per process, and goes on using them after their end. Code that uses a
session in order to replace it holds ``lock``. A JVM that Funken starts has a temporary folder of its own, which only its
user can read: the JVM deletes it when it ends in order, ``forget`` when it did not.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.sql import DataFrame, SparkSession, SQLContext, types
from pyspark.sql.pandas import functions
from pyspark.util import PythonEvalType

from funken.io.temporary import make_temporary_folder, remove_temporary_folder
from funken.timing.clock import SystemClock

GONE = (Py4JError, ConnectionError)
"""The exceptions of a call to a JVM that is not there any more."""

lock = threading.RLock()

logger = logging.getLogger(__name__)

_STOP_SECONDS = 5.0
_FORGET_SECONDS = 0.5
"""The time (s) that ``SparkSession.stop`` may take once the context is stopped; not everybody calls it."""
_LOOK_SECONDS = 0.05
_EXIT_SECONDS = 10.0
_LAUNCH_SECONDS = 300.0
"""The time (s) in which a JVM has to answer at all; Spark's session may take longer, for a cluster without room."""
_LONGEST_FOLDER = 64
"""Of the path of a JVM's folder (bytes): the sockets in it add 43, and the system allows 107."""

_own: weakref.WeakKeyDictionary[SparkContext, list[str]] = weakref.WeakKeyDictionary()
"""The contexts that Funken started, and their additions to ``sys.path``."""
_joined: weakref.WeakSet[SparkContext] = weakref.WeakSet()
_folders: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
"""The gateways of the JVMs that Funken started, and the JVMs' folders."""


def is_own(context: Any) -> bool:
    """Return True if Funken started a context."""
    return context in _own


def is_warm(context: Any) -> bool:
    """Return True if a context is in the JVM of another process, which this one has joined."""
    return context in _joined


def is_free() -> bool:
    """Return True if this process has no JVM, also none that has ended."""
    _forget_leftovers()
    return SparkContext._gateway is None


def submitted() -> dict[str, str]:
    """Return the settings with which ``spark-submit`` has started this program; none if it has not."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()
    return dict(SparkConf(loadDefaults=True, _jvm=SparkContext._jvm).getAll())


def adopt(session: SparkSession) -> SparkSession:
    """Let a session count as Funken's own that another process has started."""
    _own[session.sparkContext] = []
    _joined.add(session.sparkContext)
    return session


def lives(context: Any) -> bool:
    """Return True if a context can run anything: it is not stopped, and its JVM answers."""
    java = getattr(context, "_jsc", None)
    try:
        return java is not None and not java.sc().isStopped()
    except GONE:
        return False


def start(
    builder: Any, settings: Mapping[str, str], options: str, wanted: Callable[[], bool] = lambda: True
) -> SparkSession:
    """Make a session that counts as Funken's own, in a new JVM unless one is alive; ``options`` are the JVM's.

    A JVM that is not ``wanted`` any more while it starts is killed, and PySpark's exception is raised.
    """
    _forget_leftovers()
    if (context := next(filter(lives, list(_own)), None)) is not None:
        return _known_again(context)
    folder = None
    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:  # else the JVM is not ours
        folder = make_temporary_folder("spark", _LONGEST_FOLDER)
        options += f' "-Djava.io.tmpdir={folder}"'
    for key, value in {**settings, "spark.driver.extraJavaOptions": options}.items():
        builder = builder.config(key, value)
    before = list(sys.path)
    try:
        with _killed_unless(wanted):
            session: SparkSession = builder.getOrCreate()
        if folder is not None:
            _folders[SparkContext._gateway] = folder
            java: Any = SparkContext._jvm
            hooks = getattr(java, "org.apache.spark.util.ShutdownHookManager")
            hooks.registerShutdownDeleteDir(java.java.io.File(folder))
    except BaseException:
        _forget_leftovers()
        if folder is not None and SparkContext._gateway is None:
            remove_temporary_folder(folder)
        raise
    _own[session.sparkContext] = [place for place in sys.path if place not in before]
    return session


@contextlib.contextmanager
def _killed_unless(wanted: Callable[[], bool]) -> Iterator[None]:
    """Kill the JVM that PySpark launches here when it is not wanted, or never answers: its start cannot be interrupted."""
    launched: list[subprocess.Popen[bytes]] = []

    class Launch(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            launched.append(self)

    over = threading.Event()
    limit = SystemClock().monotonic() + _LAUNCH_SECONDS

    def watch() -> None:
        silent = False
        while not over.wait(_LOOK_SECONDS):
            if not silent and SparkContext._gateway is None and SystemClock().monotonic() > limit:
                silent = True
                logger.error(
                    "the JVM has not answered within %.0f s and is killed: is the disk of Java in order?",
                    _LAUNCH_SECONDS,
                )
            if launched and (silent or not wanted()):
                for process in launched:
                    process.kill()

    module: Any = java_gateway
    before, module.Popen = module.Popen, Launch
    threading.Thread(target=watch, name="funken-jvm-start", daemon=True).start()
    try:
        yield
    finally:
        over.set()
        module.Popen = before


def _known_again(context: Any) -> SparkSession:
    """Return the session of a context that PySpark forgot, as it does when one that ended long ago is stopped once more."""
    with SparkContext._lock:
        SparkContext._active_spark_context = context
    session: SparkSession = SparkSession.builder.getOrCreate()
    return session


def forget(context: Any) -> None:
    """Drop a dead context, and its JVM if that has ended, so that another can be started."""
    java, gateway = getattr(context, "_jsc", None), SparkContext._gateway
    if java is not None and not (gateway is not None and java._gateway_client is gateway._gateway_client):
        _close(context)  # its JVM is not the one that PySpark uses now
    elif _answers(gateway):
        _await_stop(context)
    else:
        _close(context)
        _drop_gateway()
    with SparkContext._lock:
        if SparkContext._active_spark_context is context:
            SparkContext._active_spark_context = None
    if _is_of(SparkSession._instantiatedSession, context):
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        SQLContext._instantiatedContext = None
    for place in _own.get(context, ()):
        with contextlib.suppress(ValueError):
            sys.path.remove(place)


def _forget_leftovers() -> None:
    """Drop dead objects that are unused: a JVM whose session was stopped, a context that was never complete."""
    context = SparkContext._active_spark_context
    if context is not None and not lives(context):
        forget(context)
    elif context is None and (session := SparkSession._instantiatedSession) is not None and session._sc._jsc is None:
        forget(session._sc)
    if SparkContext._gateway is not None and not _answers(SparkContext._gateway):
        _drop_gateway()


def _answers(gateway: Any) -> bool:
    if gateway is None:
        return False
    try:
        gateway.jvm.java.lang.System.currentTimeMillis()
    except GONE:
        return False
    return True


def _await_stop(context: Any) -> None:
    """Wait for a thread that stops a context: PySpark would take the next one for the one that was stopped."""
    _wait_until(lambda: SparkContext._active_spark_context is not context, _STOP_SECONDS)
    if getattr(context, "_jsc", None) is not None:
        with contextlib.suppress(*GONE):
            context.stop()  # no thread does: it has stopped by itself, as after the loss of its cluster
    _wait_until(lambda: not _is_of(SparkSession._instantiatedSession, context), _FORGET_SECONDS)


def _is_of(session: Any, context: Any) -> bool:
    return session is not None and session._sc is context


def _wait_until(holds: Callable[[], bool], seconds: float) -> None:
    clock = SystemClock()
    end = clock.monotonic() + seconds
    while not holds() and clock.monotonic() < end:
        threading.Event().wait(_LOOK_SECONDS)


def _close(context: Any) -> None:
    """Do the work of ``SparkContext.stop`` on this side; it would call the JVM first."""
    context._jsc = None
    server, context._accumulatorServer = getattr(context, "_accumulatorServer", None), None
    if server is not None:
        with contextlib.suppress(OSError):
            server.shutdown()


def _drop_gateway() -> None:
    with SparkContext._lock:
        gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    if gateway is None:
        return
    folder = _folders.pop(gateway, None)
    process = getattr(gateway, "proc", None)
    if isinstance(process, subprocess.Popen):
        if folder is not None:
            process.kill()  # one that only does not answer must not run on beside its successor
        with contextlib.suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]  # which ends a JVM that lives
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_EXIT_SECONDS)
    gateway.shutdown()
    if folder is not None:
        remove_temporary_folder(folder)


# ---- Calls of PySpark without the imports that it makes for them, which cost each program on Spark half a second
# or more.
#
# PySpark 4.3 looks whether an argument of a call is a value of NumPy, and imports its testing utilities, with them
# pandas, to find out whether there is NumPy. A value of NumPy is there only if NumPy is imported, which is looked
# up here instead. Its ``mapInArrow`` imports pandas only to see that it is there. What PySpark makes of the values,
# and of the plan, stays PySpark's.


def spare_imports() -> None:
    """Let the converters of PySpark import nothing to recognize a value; a PySpark without them is left as it is."""
    for name, recognizes in (("NumpyScalarConverter", _is_scalar), ("NumpyArrayConverter", _is_array)):
        converter: Any = getattr(types, name, None)
        if converter is not None:
            converter.can_convert = recognizes


def map_in_arrow(frame: DataFrame, function: Any, schema: str, barrier: bool = False) -> DataFrame:
    """Return ``frame.mapInArrow(function, schema, barrier)``; a PySpark of another build is asked for that itself."""
    vectorized: Any = getattr(functions, "vectorized_udf", None)
    java: Any = getattr(frame, "_jdf", None)
    if vectorized is None or java is None:
        return frame.mapInArrow(function, schema, barrier)
    udf = vectorized(function, schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    columns = udf(*[frame[quoted(name)] for name in frame.columns])
    return DataFrame(java.mapInArrow(columns._jc, barrier, None), frame.sparkSession)


def quoted(name: str) -> str:
    """Return the name of a column as Spark reads it: a dot in it is no field of a struct.

    >>> quoted("text.en"), quoted("a`b")
    ('`text.en`', '`a``b`')
    """
    return f"`{name.replace('`', '``')}`"


def _is_scalar(converter: Any, value: Any) -> bool:
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic)


def _is_array(converter: Any, value: Any) -> bool:
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray) and value.ndim == 1
