"""The process that Spark forks Python workers from, with what every worker imports loaded once.

Spark starts this module in place of ``pyspark.daemon`` (``spark.python.daemon.module``), and it runs that module's loop. A
worker then needs 0.13 s of CPU time before it can run a task instead of 0.55 s. A fork copies only the thread that calls
it, so nothing may be imported here that starts threads: pyarrow and NumPy do, and each worker imports them itself.
"""

from __future__ import annotations

import gc
import importlib

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


def main() -> None:
    """Run Spark's daemon."""
    preload()
    importlib.import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
