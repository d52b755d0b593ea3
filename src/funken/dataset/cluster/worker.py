"""A worker of a batch job: it runs the subtasks of its index, and reports.

It listens for its peers, waits until all of them do, wires its part of the plan and reads its sinks. It leaves when the driver
has heard of the end of every worker, as until then another one may send to it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import shutil
import struct
import tempfile
import threading
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from funken import Row
from funken.config import Configuration
from funken.dataset.columns.block import put_together
from funken.dataset.exchange import (
    FULL,
    SAMPLES,
    EdgeUse,
    Partitioning,
    Ranged,
    Routed,
    Router,
    Sample,
    bounds_of,
    by_bounds,
    full_block,
    sampled,
    to_all,
)
from funken.dataset.formats.inputs import ParquetInput
from funken.dataset.memory.manager import Block, BlockCache, BlockQueue, Blocks, MemoryManager, Share
from funken.dataset.optimizer.physical import PhysicalNode, memory_consumers
from funken.dataset.plan.keys import Column, Order
from funken.dataset.runtime.context import merged
from funken.dataset.runtime.iterations import IterationRun, Next, Part, Report, Restored, StopSupersteps
from funken.dataset.runtime.local import drain
from funken.dataset.runtime.pipeline import BatchJob, Counts, JobCounters, Pipeline
from funken.errors import CheckpointCorrupted, InvalidProgram
from funken.io.shapes import dumps
from funken.io.spill import SpillSpace, dump, load
from funken.io.storage import open_storage
from funken.runtime.messages import TaskCommand, TaskEvent
from funken.spark.barrier import BarrierWorker
from funken.spark.peers import Frame
from funken.spark.session import existing, living, session_for

# ---- Exchanges between the workers of a job.
#
# The producer of an edge runs in a thread of its own, from the moment the edge is connected, and is never held up:
# what its consumers have not read yet is queued where they are, within the managed memory, then on disk. So a
# producer waits for its inputs only, a consumer for its producers, and as plans have no cycle no wait can be part
# of one. A consumer has a queue per producer; it reads them in the order of the producers if it is the only
# consumer, else as blocks come.
#
# Workers do not connect an edge at the same time: what arrives early is queued, what arrives after ``close`` is
# dropped.


BLOCK, END, SAMPLE = range(3)
"""The kinds of frames: a serialised block, the end of a producer, its sample of keys."""

_HEAVY = 32 * 2**20
"""A block of more bytes is sent in halves."""

Use = tuple[int, int]
"""An edge and a superstep."""


class Incoming:
    """The blocks that arrive in this worker over one edge in one superstep."""

    def __init__(self, worker: BarrierWorker, share: Callable[[], Share]) -> None:
        self._worker = worker
        self._share = share
        self._changed = threading.Condition()
        self._queues: dict[int, BlockQueue] = {}
        self._ended: set[int] = set()
        self._samples: dict[int, tuple[int, list[Any]]] = {}
        self._closed = False

    # ---- producers

    def put(self, producer: int, block: Block | bytes, records: int) -> None:
        """Queue a block, as it is or serialised."""
        with self._changed:
            if self._closed:
                return
            queue = self._queues.get(producer)
            if queue is None:
                queue = self._queues[producer] = BlockQueue(self._share())
            if isinstance(block, bytes):
                queue.put_serialised(block, records)
            else:
                queue.put(block)
            self._changed.notify_all()

    def end(self, producer: int) -> None:
        """Take note that a producer has emitted everything."""
        with self._changed:
            self._ended.add(producer)
            self._changed.notify_all()

    def put_sample(self, producer: int, seen: int, keys: list[Any]) -> None:
        """Take the sample of a producer's keys."""
        with self._changed:
            self._samples[producer] = seen, keys
            self._changed.notify_all()

    # ---- consumers

    def blocks(self, producers: int, in_order: bool) -> Blocks:
        """Return the blocks of all producers."""
        groups = [(producer,) for producer in range(producers)] if in_order else [tuple(range(producers))]
        for group in groups:
            while (block := self._next(group)) is not None:
                yield block

    def _next(self, producers: tuple[int, ...]) -> Block | None:
        def ready() -> bool:
            return any(map(self._has, producers)) or self._ended.issuperset(producers)

        with self._changed:
            self._worker.wait(self._changed, ready)
            producer = next(filter(self._has, producers), None)
            if producer is None:
                return None
            queue = self._queues.pop(producer)
            self._queues[producer] = queue  # the others have their turn first
            return full_block(queue)

    def _has(self, producer: int) -> bool:
        queue = self._queues.get(producer)
        return queue is not None and len(queue) > 0

    def samples(self, producers: int) -> list[tuple[int, list[Any]]]:
        """Wait for the samples of all producers."""
        with self._changed:
            self._worker.wait(self._changed, lambda: len(self._samples) == producers)
            return [self._samples[producer] for producer in sorted(self._samples)]

    def close(self) -> None:
        """Drop unread blocks, and those that still arrive."""
        with self._changed:
            self._closed = True
            for queue in self._queues.values():
                queue.close()


class ConnectedEdge:
    """One use of an edge, as this worker sees it."""

    def __init__(self, exchanges: ClusterExchanges, edge: EdgeUse) -> None:
        self._exchanges = exchanges
        self._worker = exchanges.worker
        self._edge = edge
        self._incoming = exchanges.incoming((edge.number, edge.superstep))
        self._thread: threading.Thread | None = None
        self._cache: BlockCache | None = None

    # ---- the producer

    def start(self, blocks: Blocks, route: Router) -> None:
        """Emit everything, in a thread."""
        self._thread = self._worker.spawn(f"edge to {self._edge.operator}", lambda: self._emit(blocks, route))

    def start_by_range(self, blocks: Blocks, order: Order, check: Column, share: Share) -> None:
        """Exchange samples with the other producers, then emit everything, in a thread."""
        self._cache = cache = BlockCache(share)
        edge = self._edge

        def run() -> None:
            sample = Sample(SAMPLES * edge.consumers, order.keys)
            sampled(blocks, sample, cache, order, check)
            data = pickle.dumps((sample.seen, sample.keys), pickle.HIGHEST_PROTOCOL)
            for producer in range(edge.producers):
                if producer == self._worker.index:
                    self._incoming.put_sample(producer, sample.seen, sample.keys)
                else:
                    self._frame(producer, SAMPLE, data)
            bounds = bounds_of(self._incoming.samples(edge.producers), edge.consumers)
            self._emit(iter(cache), by_bounds(edge.consumers, order, bounds))
            cache.close()

        self._thread = self._worker.spawn(f"edge to {edge.operator}", run)

    def _emit(self, blocks: Blocks, route: Router) -> None:
        # Hot: once per block and consumer; small parts are put together.
        waiting: list[Block] = [[] for _ in range(self._edge.consumers)]
        for block in blocks:
            self._worker.check()
            parts = route(block)
            if len(parts) > 1 and parts[0] is parts[1]:  # everybody has the same
                self._send_all(block)
                continue
            for consumer, part in enumerate(parts):
                if not part:
                    continue
                if waiting[consumer]:
                    part = put_together([waiting[consumer], part])  # noqa: PLW2901
                if len(part) < FULL:
                    waiting[consumer] = part
                else:
                    self._send(consumer, part)
                    waiting[consumer] = []
        for consumer, part in enumerate(waiting):
            if part:
                self._send(consumer, part)
            if consumer == self._worker.index:
                self._incoming.end(consumer)
            else:
                self._frame(consumer, END)

    def _send(self, consumer: int, block: Block) -> None:
        if consumer == self._worker.index:
            self._incoming.put(consumer, block, len(block))
            return
        data = dump(block)
        if len(data) > _HEAVY and len(block) > 1:
            half = len(block) // 2
            self._send(consumer, block[:half])
            self._send(consumer, block[half:])
        else:
            self._frame(consumer, BLOCK, data, len(block))

    def _send_all(self, block: Block) -> None:
        data = dump(block)
        for consumer in range(self._edge.consumers):
            if consumer == self._worker.index:
                self._incoming.put(consumer, data, len(block))
            else:
                self._frame(consumer, BLOCK, data, len(block))

    def _frame(self, peer: int, kind: int, data: bytes = b"", records: int = 0) -> None:
        self._worker.peers.send(peer, Frame(kind, self._edge.number, self._edge.superstep, records, data))

    # ---- the consumer

    def receive(self, consumer: int) -> Blocks:
        """Return the blocks for the consumer of this process."""
        return self._incoming.blocks(self._edge.producers, in_order=self._edge.consumers == 1)

    def settle(self) -> None:
        """Wait until the producer of this worker has emitted everything."""
        if self._thread is not None:
            self._worker.join(self._thread)

    def close(self) -> None:
        """Drop unread blocks."""
        self._incoming.close()
        if self._cache is not None:
            self._cache.close()
        self._exchanges.forget((self._edge.number, self._edge.superstep))


class EverythingReceived(ConnectedEdge):
    """An edge on which a consumer wants the partitions in order though there are several consumers."""

    def receive(self, consumer: int) -> Blocks:
        """Return the blocks of all producers, in their order."""
        return self._incoming.blocks(self._edge.producers, in_order=True)


class ClusterExchanges:
    """Connects the subtasks of this worker with those of the others."""

    def __init__(self, worker: BarrierWorker, width: int, memory: MemoryManager) -> None:
        self.worker = worker
        self._width = width
        self._memory = memory
        self._lock = threading.Lock()
        self._incoming: dict[Use, Incoming] = {}
        self._closed: dict[int, int] = {}
        self._spawned: list[threading.Thread] = []

    def incoming(self, use: Use) -> Incoming:
        """Return the input over an edge; it may have been made by the first frame."""
        with self._lock:
            found = self._incoming.get(use)
            if found is None:
                found = self._incoming[use] = Incoming(
                    self.worker, lambda: self._memory.share("exchange").part(self._width)
                )
            return found

    def forget(self, use: Use) -> None:
        """Drop later blocks of an edge in a superstep, or in an earlier one."""
        with self._lock:
            self._incoming.pop(use, None)
            self._closed[use[0]] = max(use[1], self._closed.get(use[0], -1))

    def receive(self, peer: int, frame: Frame) -> None:
        """Take a frame of another worker; called in the threads of the connections."""
        if frame.superstep <= self._closed.get(frame.edge, -1):
            return
        incoming = self.incoming((frame.edge, frame.superstep))
        match frame.kind:
            case 0:
                incoming.put(peer, frame.data, frame.records)
            case 1:
                incoming.end(peer)
            case _:
                incoming.put_sample(peer, *pickle.loads(frame.data))

    # ---- the seam

    def connect(
        self,
        edge: EdgeUse,
        producers: Mapping[int, Blocks],
        partitioning: Partitioning,
        share: Callable[[int], Share],
    ) -> ConnectedEdge:
        """Start the producers of this worker."""
        made = (ConnectedEdge if isinstance(partitioning, Routed | Ranged) else EverythingReceived)(self, edge)
        for subtask, blocks in producers.items():
            match partitioning:
                case Routed(router):
                    made.start(blocks, router(subtask))
                case Ranged(order, check):
                    made.start_by_range(blocks, order, check, share(subtask))
                case _:
                    made.start(blocks, to_all(edge.consumers))
        return made

    def spawn(self, name: str, run: Callable[[], None]) -> None:
        """Run an iteration whose result is read in other workers only."""
        self._spawned.append(self.worker.spawn(name, run))

    def join_spawned(self) -> None:
        """Wait for the spawned threads."""
        for thread in self._spawned:
            self.worker.join(thread)

    def settle(self, receivers: Sequence[Any]) -> None:
        """Wait until the producers of this worker have emitted everything."""
        for receiver in receivers:
            if isinstance(receiver, ConnectedEdge):
                receiver.settle()


# ---- Spark DataFrames as inputs and as results: rows change sides as Parquet files.
#
# An input is written once, when the program is built, so that every attempt and every execution reads the same
# rows. Its folder is removed with the input, a result's when this process ends.


_PREFIX = "funken-rows-"


def result_folder() -> str:
    """Make a folder for a result; it is removed when this process ends."""
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def rows_of(frame: Any, parent: str | None) -> ParquetInput:
    """Write the rows of a DataFrame, and return a reader of them as ``Row``."""
    if not (hasattr(frame, "isStreaming") and hasattr(frame, "write")):
        raise InvalidProgram(f"from_spark() needs a DataFrame of pyspark.sql, but got {frame!r}.")
    if frame.isStreaming:
        raise InvalidProgram(
            "from_spark() got a streaming DataFrame, which never ends. Read it with a StreamExecutionEnvironment."
        )
    folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
    path = os.path.join(folder, "rows")
    made = ParquetInput(path, target=Row)
    weakref.finalize(made, shutil.rmtree, folder, ignore_errors=True)
    frame.write.parquet(path)
    return made


def frame_of(path: str, schema: Any, configuration: Configuration, session: Any) -> Any:
    """Return the files of a Parquet sink as a DataFrame."""
    written = os.path.isfile(path) or bool(os.listdir(path))
    if not written and schema is None:
        raise InvalidProgram("to_spark(): there is no record, so its columns are not known. Give the schema.")
    spark = living(session) or existing() or session_for(configuration, None, 0)
    if not written:
        return spark.createDataFrame([], schema)
    return (spark.read if schema is None else spark.read.schema(schema)).parquet(path)


# ---- Checkpoints of iterations: what the workers have at the end of a superstep, as a file each in a folder of the
# checkpoint.
#
# A worker writes its file before it reports the end of the superstep, and nothing is under way between workers
# then. So the checkpoint is complete when all have reported, and consists of the files and the driver's decision.
# It is of use to later attempts of the same run only.


_HEADER = struct.Struct("!BII")
_PIECE = 4 * 2**20


@dataclass(frozen=True)
class IterationCheckpoint:
    """A complete checkpoint: the decision that ended its superstep, the sizes of worksets so far, the folder of the files."""

    decision: Next
    worksets: tuple[int, ...]
    folder: str


def folder_of(root: str, iteration: int, superstep: int) -> str:
    """Return the folder of a checkpoint, below the folder of an attempt.

    >>> folder_of("/checkpoints/job/1", 0, 12)
    '/checkpoints/job/1/iteration-0/superstep-12'
    """
    return f"{root}/iteration-{iteration}/superstep-{superstep}"


def write_parts(folder: str, worker: int, parts: Iterable[Part]) -> None:
    """Write the file of a worker."""

    def chunks() -> Iterator[bytes]:
        for section, block in parts:
            data = dump(block)
            yield _HEADER.pack(section, len(data), zlib.crc32(data))
            yield data

    open_storage(folder).write(f"worker-{worker}", chunks())


def read_parts(folder: str, worker: int) -> Iterator[Part]:
    """Read the file of a worker; raise ``CheckpointCorrupted`` if it has other content than written."""
    storage, name = open_storage(folder), f"worker-{worker}"
    offset, data = 0, b""

    def take(size: int) -> bytes:
        nonlocal offset, data
        while len(data) < size:
            piece = storage.read(name, offset, max(_PIECE, size - len(data)))
            if not piece:
                break
            offset += len(piece)
            data += piece
        found, data = data[:size], data[size:]
        return found

    while header := take(_HEADER.size):
        section, size, checksum = _HEADER.unpack(header.ljust(_HEADER.size, b"."))
        content = take(size)
        if len(content) < size or zlib.crc32(content) != checksum:
            raise CheckpointCorrupted(
                f"the checkpoint {folder}/{name} is damaged: it is cut off, or its checksum does not match. Check "
                "the storage."
            )
        block: Block = load(content)
        yield section, block


# ---- The messages between the workers of a batch job and the driver; what belongs to users is in them as bytes.


@dataclass(frozen=True)
class BatchProgram:
    """The program that every worker runs."""

    sinks: Sequence[PhysicalNode]
    width: int
    budget: int
    directories: Sequence[str] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    cached_files: Mapping[str, str] = field(default_factory=dict)
    checkpoints: str = ""
    """The folder for the checkpoints of this attempt."""
    restored: Mapping[int, IterationCheckpoint] = field(default_factory=dict)
    """The checkpoints from which iterations go on, by number."""


@dataclass(frozen=True, slots=True)
class PeerListening(TaskEvent):
    """The worker takes connections of its peers at this address."""

    address: tuple[str, int] = ("", 0)


@dataclass(frozen=True, slots=True)
class StartWorker(TaskCommand):
    """All workers listen, at these addresses by index: connect to them, and run."""

    addresses: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SinkBlock(TaskEvent):
    """A block for a sink whose format keeps everything in the driver; ``sink`` is its place in the program."""

    sink: int = 0
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class SuperstepEnded(TaskEvent):
    """The worker has ended a superstep of an iteration; ``report`` is a serialised ``Report``."""

    iteration: int = 0
    report: bytes = b""


@dataclass(frozen=True, slots=True)
class SuperstepDecided(TaskCommand):
    """All workers have ended the superstep; ``decision`` is a serialised ``Next`` or ``StopSupersteps``."""

    iteration: int = 0
    decision: bytes = b""


@dataclass(frozen=True, slots=True)
class WorkerProgress(TaskEvent):
    """A worker's progress so far: counts of its operators by place in the plan, spilled bytes by operator."""

    counts: tuple[Counts, ...] = ()
    spilled: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkerFinished(TaskEvent):
    """The worker has finished; ``accumulators`` is a serialised dict."""

    accumulators: bytes = b""
    spilled: int = 0
    spill_files: int = 0
    peak: int = 0


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
    """Reports the worker's progress to the driver, twice a second and at the end."""

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
        """Return the coordination of the supersteps of the plan's next iteration."""
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
        """Return the start of the iteration, if an earlier attempt had a checkpoint of it."""
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
