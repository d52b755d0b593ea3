"""The process that Spark forks Python workers from, with what every worker imports loaded once.

Spark starts this module in place of ``pyspark.daemon`` (``spark.python.daemon.module``), and it runs that module's loop. A
worker then needs 0.01 s of CPU time before it can run a task instead of 0.55 s (decision 0054). A fork copies only the thread
that calls it, so nothing may be imported here that starts threads. NumPy does not where Spark lets it compute with one thread
(``OMP_NUM_THREADS``, one by default). pyarrow starts one for jemalloc, which is not its pool unless it is asked to be
(``ARROW_DEFAULT_MEMORY_POOL``), and is told not to.

Workers read their input without PySpark's own reader thread (``read_once``): Funken's stages have a thread for it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
import zipimport
from collections.abc import MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

from funken.dataclass import complete
from funken.spark.warm.imports import PANDAS

PRELOADED = (
    "funken.api.submission",
    "funken.runtime.exchange.gate",
    "funken.runtime.task.task",
    "funken.spark.peers",
    "funken.spark.control.channel",
    "funken.spark.control.channel",
    "funken.spark.peers",
    "funken.spark.warm.client",
    "funken.timing.clock",
    "pyspark.sql",
    "pyspark.worker",
)
"""The modules of workers, besides the public names, that start no thread (``tests/spark/test_daemon.py``)."""

WITH_NUMPY = (
    "numpy",
    "funken.columnar.keyed.codec",
    "funken.operators.columnar.path",
    "funken.operators.columnar.rolling",
    "funken.operators.columnar.stateless",
)
"""The modules of workers for columns: 75 ms of each."""

WITH_ARROW = ("pyarrow", "pyarrow.compute", "funken.spark.worker")
"""The modules of workers for blocks: 60 ms of each."""

_POOL, _JEMALLOC = "ARROW_DEFAULT_MEMORY_POOL", "JE_ARROW_MALLOC_CONF"
_NO_THREAD = "background_thread:false"

_PIPELINED, _BUFFER_SIZE = "SPARK_PIPELINED_UDF", "SPARK_BUFFER_SIZE"
_BUFFER_BYTES = "65536"
"""Of the worker's streams, which flush every batch. Spark's setting is of the JVM's as well, which would hold rows back."""


def preload() -> None:
    """Import the modules of the workers, and exempt them from garbage collection, so that their pages stay shared."""
    public = importlib.import_module("funken")
    for name in public.__all__:
        getattr(public, name)
    for name in PRELOADED:
        importlib.import_module(name)
    if os.environ.get("OMP_NUM_THREADS") == "1":
        for name in WITH_NUMPY:
            importlib.import_module(name)
        os.register_at_fork(after_in_child=_seed)
        if sys.platform == "linux" and os.environ.get(_POOL) != "jemalloc" and _JEMALLOC not in os.environ:
            os.environ[_JEMALLOC] = _NO_THREAD
            for name in WITH_ARROW:
                importlib.import_module(name)
            del os.environ[_JEMALLOC]
            PANDAS.watch()
            os.register_at_fork(before=PANDAS.load)
    complete()
    forget_archives()
    gc.collect()
    gc.freeze()


def forget_archives() -> None:
    """Forget the finders of modules in archives read so far; a worker makes one again when it imports more.

    PySpark invalidates the caches of all in every worker. Each package of ``pyspark.zip`` has one, and reads the whole directory
    of the archive again: 100 ms.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[path]


def quiet_worker(work: Any) -> Any:
    """Return PySpark's ``worker`` without the traceback of a flush that fails because the executor has hung up.

    Spark hangs up when it ends a task (Ctrl-C, a lost stage), and reports that itself: the traceback of a broken pipe
    would be the last that a user sees of an interrupted job.
    """

    def worker(*connection: Any) -> int:
        try:
            code: int = work(*connection)
        except (BrokenPipeError, ConnectionResetError):
            return 1
        return code

    return worker


def read_once(worker: Any, environment: MutableMapping[str, str]) -> None:
    """Let functions of ``pyspark.worker`` read batches themselves where Spark overlaps input and output (pipelined).

    PySpark reads ahead in a thread of its own then. A stage of Funken has one, too, so that each block was handed over twice:
    40 us of CPU, and 1 to 2 ms of latency on two cores (decision 0052). Every batch is still written at once.
    """
    if environment.get(_PIPELINED) == "1":
        worker.ArrowStreamSerializer = partial(worker.ArrowStreamSerializer, flush_per_batch=True)
        del environment[_PIPELINED]
        environment[_BUFFER_SIZE] = _BUFFER_BYTES


def _seed() -> None:
    """Workers must not draw the same random numbers, should NumPy's generator be loaded before they are forked."""
    random: Any = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()


def main() -> None:
    """Run Spark's daemon."""
    preload()
    daemon = importlib.import_module("pyspark.daemon")
    daemon.worker = quiet_worker(daemon.worker)  # type: ignore[attr-defined]
    read_once(importlib.import_module("pyspark.worker"), os.environ)
    daemon.manager()


if __name__ == "__main__":
    main()


# ---- Killing the worker processes of this machine, and Spark's daemon that forks them if it is stopped too.
#
# A stopped process receives no signal but SIGKILL. Spark waits a minute for a daemon that does not answer before it
# starts another one; for one that is gone it does so at once. What is stopped is read from ``/proc``: where there
# is none, only the worker is killed.


_STOPPED = "T"
_DAEMONS = ("pyspark.daemon", "funken.spark.daemon")


def kill_worker(pid: int) -> None:
    """Kill a worker, and the daemon that it comes from if that is stopped."""
    parent = _parent(pid)
    _kill(pid)
    if parent is not None and _state(parent) == _STOPPED and any(name in _command(parent) for name in _DAEMONS):
        _kill(parent)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _stat(pid: int) -> list[str]:
    """Return the fields of the process behind its name: its state, its parent, and others."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return []


def _state(pid: int) -> str:
    return "".join(_stat(pid)[:1])


def _parent(pid: int) -> int | None:
    stat = _stat(pid)
    return int(stat[1]) if stat else None


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""
