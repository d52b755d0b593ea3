"""The process that Spark forks Python workers from, with what every worker imports loaded once.

Spark starts this module in place of ``pyspark.daemon`` (``spark.python.daemon.module``), and it runs that module's loop. A
worker then needs 0.13 s of CPU time before it can run a task instead of 0.55 s. A fork copies only the thread that calls
it, so nothing may be imported here that starts threads: pyarrow and NumPy do, and each worker imports them itself.
"""

from __future__ import annotations

import gc
import importlib
from typing import Any

PRELOADED = (
    "funken",
    "funken.runtime.task.loop",
    "funken.spark.control.client",
    "pyspark.sql",
    "pyspark.worker",
)
"""What workers need and what starts no thread (``tests/spark/test_daemon.py``)."""


def preload() -> None:
    """Import what the workers need, and exempt it from garbage collection, so that its pages stay shared."""
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


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


def main() -> None:
    """Run Spark's daemon."""
    preload()
    daemon = importlib.import_module("pyspark.daemon")
    daemon.worker = quiet_worker(daemon.worker)  # type: ignore[attr-defined]
    daemon.manager()


if __name__ == "__main__":
    main()
