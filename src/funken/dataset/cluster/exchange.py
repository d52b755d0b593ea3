"""Exchanges between the workers of a job.

The producer of an edge runs in a thread of its own, from the moment the edge is connected, and is never held up: what its
consumers have not read yet is queued where they are, within the managed memory, then on disk. So a producer waits for its inputs
only, a consumer for its producers, and as plans have no cycle no wait can be part of one. A consumer has a queue per producer; it
reads them in the order of the producers if it is the only consumer, else as blocks come.

Workers do not connect an edge at the same time: what arrives early is queued, what arrives after ``close`` is dropped.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from funken.dataset.columns.block import put_together
from funken.dataset.exchange.edges import FULL, EdgeUse, Partitioning, Ranged, Routed, full_block
from funken.dataset.exchange.ranges import SAMPLES, Sample, bounds_of, sampled
from funken.dataset.exchange.routers import Router, by_bounds, to_all
from funken.dataset.memory.blocks import Block, Blocks, dump
from funken.dataset.memory.buffers import BlockCache, BlockQueue
from funken.dataset.memory.manager import MemoryManager, Share
from funken.dataset.memory.order import Column, Order
from funken.spark.barrier.peers import Frame
from funken.spark.barrier.worker import BarrierWorker

BLOCK, END, SAMPLE = range(3)
"""The kinds of frames: a serialised block, the end of a producer, its sample of keys."""

_HEAVY = 32 * 2**20
"""A block of more bytes is sent in halves."""

Use = tuple[int, int]
"""An edge and a superstep."""


class Incoming:
    """What arrives in this worker over one edge in one superstep."""

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
        """Drop what was not read, and what still arrives."""
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
        """Drop what was not read."""
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
        """Return what arrives over an edge; it may have been made by the first frame."""
        with self._lock:
            found = self._incoming.get(use)
            if found is None:
                found = self._incoming[use] = Incoming(
                    self.worker, lambda: self._memory.share("exchange").part(self._width)
                )
            return found

    def forget(self, use: Use) -> None:
        """Drop whatever still arrives over an edge in a superstep, or in an earlier one."""
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
        """Wait for what was spawned."""
        for thread in self._spawned:
            self.worker.join(thread)

    def settle(self, receivers: Sequence[Any]) -> None:
        """Wait until the producers of this worker have emitted everything."""
        for receiver in receivers:
            if isinstance(receiver, ConnectedEdge):
                receiver.settle()
