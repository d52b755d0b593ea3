"""Runs a plan on Spark: one worker per subtask index, all at the same time; again after a failure that a restart may mend.

An attempt begins with the program's sources. An iteration that has a checkpoint resumes from it, with its constant inputs
computed anew.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import random
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from funken import config
from funken.checkpoint.restart import is_retried, restart_strategy
from funken.config import Configuration
from funken.dataset.cluster.checkpoints import IterationCheckpoint
from funken.dataset.cluster.master import BatchMaster
from funken.dataset.cluster.messages import BatchProgram
from funken.dataset.cluster.worker import main
from funken.dataset.optimizer.physical import PhysicalNode, everything
from funken.dataset.runtime.local import ExecutionOutcome, Outputs
from funken.dataset.runtime.progress import RunningProgram
from funken.ids import Millis
from funken.io.storage import open_storage
from funken.spark.barrier.stage import default_parallelism, run_stage
from funken.timing.clock import SystemClock

logger = logging.getLogger(__name__)

__all__ = ["default_parallelism", "run"]


def run(
    sinks: Sequence[PhysicalNode],
    budget: int,
    directories: Sequence[str],
    parameters: Mapping[str, str],
    cached_files: Mapping[str, str],
    configuration: Configuration,
    session: Any,
    name: str,
    running: RunningProgram,
) -> ExecutionOutcome:
    """Run a plan; raise what fails, when everything is closed and the restart strategy gives up."""
    width = max(node.parallelism for node in everything(sinks))
    interval = max(0, configuration.get(config.CHECKPOINT_INTERVAL))
    strategy, clock = restart_strategy(configuration), SystemClock()
    restored: Mapping[int, IterationCheckpoint] = {}
    with _folder(configuration.get(config.CHECKPOINT_DIR), interval > 0) as folder:
        for attempt in itertools.count():
            master: BatchMaster | None = None
            try:
                with Outputs(sinks):
                    program = BatchProgram(
                        sinks, width, budget, directories, parameters, cached_files, f"{folder}/{attempt}", restored
                    )
                    master = BatchMaster(program, interval, clock)
                    running.figures = partial(master.figures, attempt)
                    run_stage(configuration, session, name, width, (main, program), master)
                    return replace(master.outcome(), restarts=attempt)
            except Exception as error:
                ran = master is not None and len(master.started) == width
                delay = None
                if master is not None and is_retried(error, checked=True, ran=ran):
                    delay = strategy.failed(Millis(clock.now()), random.uniform(-1, 1))
                if delay is None or master is None:
                    raise
                restored = master.checkpoints
                _log_restart(name, error, delay, master)
                threading.Event().wait(delay / 1000)
    raise AssertionError


@contextlib.contextmanager
def _folder(directory: str, wanted: bool) -> Iterator[str]:
    """Return the folder for the checkpoints of this run, which has no use after it; "" if there are none."""
    if not wanted:
        yield ""
    elif directory:
        storage = open_storage(directory).at(f"batch-{uuid.uuid4().hex}")
        try:
            yield storage.uri
        finally:
            storage.delete("")
    else:
        with tempfile.TemporaryDirectory(prefix="funken-iterations-", ignore_cleanup_errors=True) as folder:
            yield folder


def _log_restart(name: str, error: Exception, delay: int, master: BatchMaster) -> None:
    places = [f"superstep {checkpoint.decision.superstep}" for checkpoint in master.checkpoints.values()]
    logger.warning(
        "job %r is restarted in %d ms, from %s, because it failed: %s", name, delay,
        " and ".join(places) or "the beginning", str(error).splitlines()[0],
    )  # fmt: skip
