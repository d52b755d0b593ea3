"""What a worker of a batch job does: it runs the subtasks of its index, and reports.

It listens for its peers, waits until all of them do, wires its part of the plan and reads its sinks. It leaves when the driver
has heard of the end of every worker, as until then another one may send to it.
"""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from funken.dataset.cluster.checkpoints import folder_of, read_parts, write_parts
from funken.dataset.cluster.exchange import ClusterExchanges
from funken.dataset.cluster.messages import (
    BatchProgram,
    PeerListening,
    SinkBlock,
    StartWorker,
    SuperstepDecided,
    SuperstepEnded,
    WorkerFinished,
    WorkerProgress,
)
from funken.dataset.memory.blocks import Block, dump
from funken.dataset.memory.manager import MemoryManager
from funken.dataset.memory.spill import SpillSpace
from funken.dataset.optimizer.physical import PhysicalNode, memory_consumers
from funken.dataset.runtime.accumulators import merged
from funken.dataset.runtime.coordinator import Next, Part, Report, Restored, StopSupersteps
from funken.dataset.runtime.iterations import IterationRun
from funken.dataset.runtime.local import drain
from funken.dataset.runtime.pipeline import BatchJob, Pipeline
from funken.dataset.runtime.progress import JobCounters
from funken.errors import InvalidProgram
from funken.io.pickling import dumps
from funken.runtime.messages import TaskCommand
from funken.spark.barrier.worker import BarrierWorker

_REPORT_SECONDS = 0.5


def main(worker: BarrierWorker, program: BatchProgram) -> None:
    """Run the program in this worker."""
    with SpillSpace(program.directories) as space:
        memory = MemoryManager(program.budget, memory_consumers(program.sinks), space)
        exchanges = ClusterExchanges(worker, program.width, memory)
        orders = _Orders(worker, program)
        worker.receive, worker.take = exchanges.receive, orders.take
        worker.send(PeerListening(worker.task, address=worker.peers.address))
        worker.peers.connect(orders.addresses())
        job = BatchJob(
            space,
            [memory],
            program.parameters,
            program.cached_files,
            run_iteration=IterationRun,
            exchanges=exchanges,
            supersteps=orders.supersteps,
            index=worker.index,
            counters=(counters := JobCounters(program.sinks)),
        )
        reports = _Reports(worker, counters, space)
        pipeline = Pipeline(program.sinks, job)
        try:
            pipeline.wire()
            drain(pipeline, program.sinks, lambda sink, subtask: _to_driver(worker, sink))
            exchanges.join_spawned()
            pipeline.close()
            reports.end()
        except BaseException as error:
            worker.fail(error)  # ends all waits, so that everything can be closed
            with contextlib.suppress(Exception):
                pipeline.close()
            raise
        accumulators = dumps(merged(job.accumulators), _not_sent, "an accumulator")
        worker.finish(
            WorkerFinished(
                worker.task,
                accumulators=accumulators,
                spilled=space.spilled,
                spill_files=space.files,
                peak=memory.peak,
            )
        )


class _Reports:
    """Tells the driver how far the worker is, twice a second and at the end."""

    def __init__(self, worker: BarrierWorker, counters: JobCounters, space: SpillSpace) -> None:
        self._worker, self._counters, self._space = worker, counters, space
        self._over = threading.Event()
        self._thread = worker.spawn("progress", self._run)

    def _run(self) -> None:
        while not self._over.wait(_REPORT_SECONDS):
            self._worker.check()
            self._send()

    def _send(self) -> None:
        self._worker.send(
            WorkerProgress(self._worker.task, counts=self._counters.counts(), spilled=dict(self._space.spilled_by))
        )

    def end(self) -> None:
        """Send the last report."""
        self._over.set()
        self._worker.join(self._thread)
        self._send()


def _to_driver(worker: BarrierWorker, sink: int) -> Any:
    def send(block: Block) -> None:
        if block:
            worker.send(SinkBlock(worker.task, sink=sink, data=dump(block)))

    return send


def _not_sent(error: Exception, what: str) -> InvalidProgram:
    return InvalidProgram(
        f"{what} cannot be sent between a worker and the driver: {type(error).__name__}: {error}. Keep locks, files and "
        "connections out of it."
    )


class _Orders:
    """The commands of the driver, for the threads that wait for them."""

    def __init__(self, worker: BarrierWorker, program: BatchProgram) -> None:
        self._worker = worker
        self._program = program
        self._changed = threading.Condition()
        self._addresses: tuple[tuple[str, int], ...] = ()
        self._decisions: dict[int, bytes] = {}
        self._iterations = 0

    def take(self, command: TaskCommand) -> None:
        """Take a command; called in the thread that listens to the driver."""
        with self._changed:
            match command:
                case StartWorker():
                    self._addresses = command.addresses
                case SuperstepDecided():
                    self._decisions[command.iteration] = command.decision
            self._changed.notify_all()

    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Wait until all workers listen; return where."""
        with self._changed:
            self._worker.wait(self._changed, lambda: self._addresses)
            return self._addresses

    def supersteps(self, plan: PhysicalNode) -> _DriverDecides:
        """Return what ends the supersteps of the next iteration of the plan."""
        self._iterations += 1
        return _DriverDecides(self, self._worker.index, self._program, self._iterations - 1)

    def decide(self, iteration: int, report: Report) -> Next | StopSupersteps:
        """Report the end of a superstep, and wait for the others."""
        self._worker.send(
            SuperstepEnded(self._worker.task, iteration=iteration, report=dumps(report, _not_sent, "an aggregate"))
        )
        with self._changed:
            self._worker.wait(self._changed, lambda: iteration in self._decisions)
            decision: Next | StopSupersteps = pickle.loads(self._decisions.pop(iteration))
            return decision


class _DriverDecides:
    """The supersteps of one iteration, ended by the driver."""

    def __init__(self, orders: _Orders, index: int, program: BatchProgram, iteration: int) -> None:
        self._orders = orders
        self._index = index
        self._root = program.checkpoints
        self._checkpoint = program.restored.get(iteration)
        self._iteration = iteration
        self._asked = False

    def restored(self) -> Restored | None:
        """Return where the iteration goes on, if an earlier attempt had a checkpoint of it."""
        if self._checkpoint is None:
            return None
        return Restored(self._checkpoint.decision, read_parts(self._checkpoint.folder, self._index))

    def end(self, reports: Sequence[Report], snapshot: Callable[[], Iterator[Part]]) -> Next | StopSupersteps:
        """Write the snapshot if the driver has asked for it; report the subtask of this worker; return the decision."""
        (report,) = reports
        if self._asked:
            write_parts(folder_of(self._root, self._iteration, report.superstep), self._index, snapshot())
        decision = self._orders.decide(self._iteration, report)
        self._asked = isinstance(decision, Next) and decision.checkpoint
        return decision
