"""Runs a plan on Spark: one worker per subtask index, all at the same time; again after a failure that a restart may mend.

An attempt begins with the program's sources. An iteration that has a checkpoint resumes from it, with its constant inputs
computed anew.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import pickle
import random
import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from funken import config
from funken.checkpoint.restart_strategy import is_retried, restart_strategy
from funken.config import Configuration
from funken.dataset.cluster.worker import (
    BatchProgram,
    IterationCheckpoint,
    PeerListening,
    SinkBlock,
    StartWorker,
    SuperstepDecided,
    SuperstepEnded,
    WorkerFinished,
    WorkerProgress,
    folder_of,
    main,
)
from funken.dataset.optimizer.physical import PhysicalNode, everything, walk
from funken.dataset.runtime.context import Accumulator, merged
from funken.dataset.runtime.iterations import Next, StopSupersteps, coordinator_of
from funken.dataset.runtime.local import ExecutionOutcome, Outputs
from funken.dataset.runtime.pipeline import Figures, RunningProgram
from funken.errors import TaskLost
from funken.ids import Millis
from funken.io.spill import load
from funken.io.storage import open_storage
from funken.runtime.messages import TaskCommand, TaskEvent, TaskFailed, TaskId, TaskStarted
from funken.spark.barrier import run_stage
from funken.timing.clock import Clock, SystemClock

# ---- The driver's half of a batch job: introduces the workers to each other, ends supersteps, takes results.
#
# Events come from several threads, one per worker. The first failure is kept; a lost worker is the cause only if
# nothing else is: who has lost the connection to a peer is heard at once, perhaps before the peer that says why it
# hung up, so the job goes on until the peer has failed or is lost to the driver too, for some seconds at most.
# ``ended`` is set once, when the job is over.


_PEER_SECONDS = 5.0
"""The time (s) that a worker that has lost a peer waits for the driver's news of that peer."""

Commands = Sequence[tuple[TaskId, TaskCommand]]


class BatchMaster:
    """Handles the events of one attempt."""

    def __init__(self, program: BatchProgram, interval: int = 0, clock: Clock | None = None) -> None:
        self.ended = threading.Event()
        self.error: BaseException | None = None
        self.started: set[int] = set()
        self._program = program
        self._lock = threading.Lock()
        self._addresses: dict[int, tuple[str, int]] = {}
        self._finished: dict[int, WorkerFinished] = {}
        self._failed: set[int] = set()
        self._progress: dict[int, WorkerProgress] = {}
        plans = [plan for plan in walk(program.sinks) if plan.step]
        self._names = [plan.name for plan in plans]
        self._iterations = [coordinator_of(plan) for plan in plans]
        self._ended_iterations: dict[int, StopSupersteps] = {}
        self.checkpoints = dict(program.restored)
        for at, checkpoint in program.restored.items():
            self._iterations[at].restore(checkpoint.decision, checkpoint.worksets)
        self._interval = interval / 1000
        self._clock = clock or SystemClock()
        self._asked: set[int] = set()
        self._asked_at = self._clock.monotonic()
        self._outputs: list[Any] = [sink.node.format for sink in program.sinks]  # type: ignore[attr-defined]

    def fail(self, error: BaseException) -> None:
        """Fail the job."""
        with self._lock:
            if self.error is None or (isinstance(self.error, TaskLost) and not isinstance(error, TaskLost)):
                self.error = error
        self.ended.set()

    def handle(self, event: TaskEvent) -> Commands:
        """Handle an event; return commands that are to be sent."""
        match event:
            case TaskStarted():
                self.started.add(event.task.subtask)
            case PeerListening():
                return self._introduce(event)
            case SinkBlock():
                block = load(event.data)
                with self._lock:
                    self._outputs[event.sink].part(event.task.subtask)(block)
            case SuperstepEnded():
                return self._end_superstep(event)
            case WorkerProgress():
                self._progress[event.task.subtask] = event
            case WorkerFinished():
                with self._lock:
                    self._finished[event.task.subtask] = event
                    if len(self._finished) == self._program.width:
                        self.ended.set()
            case TaskFailed():
                if event.task.subtask not in self._finished:
                    self._fail_worker(event.task.subtask, event.error or TaskLost(f"{event.task} has failed"))
        return ()

    def _fail_worker(self, subtask: int, error: BaseException) -> None:
        lost = error.subtask if isinstance(error, TaskLost) else None
        with self._lock:
            self._failed.add(subtask)
            heard = lost is None or lost in self._failed or lost in self._finished
            if not heard:
                self.error = self.error or error
        if heard:
            self.fail(error)
        else:
            waiting = threading.Timer(_PEER_SECONDS, self.ended.set)
            waiting.daemon = True
            waiting.start()

    def _introduce(self, event: PeerListening) -> Commands:
        with self._lock:
            self._addresses[event.task.subtask] = event.address
            if len(self._addresses) < self._program.width:
                return ()
            return self._to_all(StartWorker(tuple(self._addresses[at] for at in range(self._program.width))))

    def _to_all(self, command: TaskCommand) -> Commands:
        return [(TaskId(0, worker), command) for worker in range(self._program.width)]

    def _end_superstep(self, event: SuperstepEnded) -> Commands:
        report = pickle.loads(event.report)
        with self._lock:
            decision = self._iterations[event.iteration].report(report)
            if decision is None:
                return ()
            if isinstance(decision, StopSupersteps):
                self._ended_iterations[event.iteration] = decision
            else:
                decision = self._checkpointed(event.iteration, decision)
        return self._to_all(SuperstepDecided(event.iteration, pickle.dumps(decision)))

    def _checkpointed(self, at: int, decision: Next) -> Next:
        """Complete the checkpoint that ended with this superstep; ask for one at the end of the next if it is due."""
        before = self.checkpoints.get(at)
        if at in self._asked:
            self._asked.remove(at)
            folder = folder_of(self._program.checkpoints, at, decision.superstep - 1)
            self.checkpoints[at] = IterationCheckpoint(decision, self._iterations[at].worksets, folder)
            if before is not None:
                open_storage(before.folder).delete("")
        now = self._clock.monotonic()
        if not self._interval or now - self._asked_at < self._interval:
            return decision
        self._asked.add(at)
        self._asked_at = now
        return replace(decision, checkpoint=True)

    def figures(self, restarts: int) -> Figures:
        """Return the figures of the program; may be called by any thread."""
        reports = list(self._progress.values())
        spilled: Counter[str] = Counter()
        for report in reports:
            spilled.update(report.spilled)
        iterations = [each.progress(name) for each, name in zip(self._iterations, self._names, strict=True)]
        return Figures([report.counts for report in reports], spilled, iterations, restarts)

    def outcome(self) -> ExecutionOutcome:
        """Return the outcome of the finished job."""
        finished = [self._finished[worker] for worker in sorted(self._finished)]
        accumulators: list[dict[str, Accumulator]] = [pickle.loads(each.accumulators) for each in finished]
        return ExecutionOutcome(
            merged(accumulators),
            sum(each.spilled for each in finished),
            sum(each.spill_files for each in finished),
            max(each.peak for each in finished),
            [
                (self._names[at], decision.supersteps, decision.reason, decision.worksets)
                for at, decision in sorted(self._ended_iterations.items())
            ],
        )


logger = logging.getLogger(__name__)


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
    """Run a plan; raise the failure, when everything is closed and the restart strategy gives up."""
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
