"""Exchanges between the tasks of one process: how the blocks of all producers get to the consumers they are for.

A consumer that has no block advances the producers in turn (all of one before the next, if there is one consumer: the
order of partitions is kept). Blocks for other consumers wait in their queues, which spill. A producer that has ended is not
advanced again; when all have, the consumer ends: in an iteration, that is the barrier of the superstep.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from funken.dataset.exchange.edges import EdgeReceiver, EdgeUse, Partitioning, Ranged, Routed, full_block
from funken.dataset.exchange.ranges import SAMPLES, Sample, bounds_of, sampled
from funken.dataset.exchange.routers import Router, by_bounds, to_all
from funken.dataset.memory.blocks import Block, Blocks
from funken.dataset.memory.buffers import BlockCache, BlockQueue
from funken.dataset.memory.manager import Share
from funken.dataset.memory.order import Column, Order


class Exchange:
    """One edge of a plan whose records change tasks."""

    def __init__(self, producers: Sequence[Blocks], routers: Sequence[Router], shares: Sequence[Share]) -> None:
        self._producers = list(zip(producers, routers, strict=True))
        self._queues = [BlockQueue(share) for share in shares]
        self._turn = 0

    def receive(self, consumer: int) -> Blocks:
        """Return the blocks for a consumer."""
        queue = self._queues[consumer]
        while True:
            if len(queue):
                yield full_block(queue)
            elif self._producers:
                self._advance()
            else:
                return

    def _advance(self) -> None:
        at = self._turn % len(self._producers)
        producer, route = self._producers[at]
        block = next(producer, None)
        if block is None:
            del self._producers[at]
            return
        for queue, part in zip(self._queues, route(block), strict=True):
            if part:
                queue.put(part)
        if len(self._queues) > 1:
            self._turn = at + 1

    def close(self) -> None:
        """Drop what was not read."""
        self._producers = []
        for queue in self._queues:
            queue.close()


class RangeExchange(Exchange):
    """Finds the bounds of ranges from a sample of all records, which are kept until then."""

    def __init__(
        self, producers: Sequence[Blocks], order: Order, columns: Column, shares: Sequence[Share], cache: Share
    ) -> None:
        super().__init__(producers, [to_all(1)] * len(producers), shares)
        self._order = order
        self._check = columns
        self._cache = cache
        self._prepared = False

    def receive(self, consumer: int) -> Blocks:
        """Return the blocks of a range."""
        if not self._prepared:
            self._prepare()
        yield from super().receive(consumer)

    def _prepare(self) -> None:
        self._prepared = True
        consumers = len(self._queues)
        kept = BlockCache(self._cache)
        sample = Sample(SAMPLES * consumers, self._order.keys)
        for producer, _ in self._producers:
            sampled(producer, sample, kept, self._order, self._check)
        bounds = bounds_of([(sample.seen, sample.keys)], consumers)
        self._producers = [(iter(kept), by_bounds(consumers, self._order, bounds))]

    def close(self) -> None:
        """Drop what was not read."""
        super().close()
        self._cache.close()


class Shared:
    """The output of a task that several consumers read: computed once, kept for the slower ones."""

    def __init__(self, blocks: Blocks, shares: Sequence[Share]) -> None:
        self._lock = threading.Lock()
        self._blocks = blocks
        self._queues = [BlockQueue(share) for share in shares]
        self._readers = 0

    def reader(self) -> Blocks:
        """Return the blocks for the next consumer."""
        own = self._queues[self._readers]
        self._readers += 1
        return self._read(own)

    def _read(self, own: BlockQueue) -> Iterator[Block]:
        while (block := self._next(own)) is not None:
            yield block

    def _next(self, own: BlockQueue) -> Block | None:
        with self._lock:  # on a cluster the readers are in several threads
            if len(own):
                return own.get()
            block = next(self._blocks, None)
            if block is not None:
                for queue in self._queues:
                    if queue is not own:
                        queue.put(block)
            return block

    def close(self) -> None:
        """Drop what was not read."""
        for queue in self._queues:
            queue.close()


class _Chained:
    """Producers that one consumer reads directly, one after the other."""

    def __init__(self, producers: Mapping[int, Blocks]) -> None:
        self._producers = producers

    def receive(self, consumer: int) -> Blocks:
        """Return the blocks of all producers."""
        return chain.from_iterable(self._producers.values())

    def close(self) -> None:
        """Do nothing: nothing waits here."""


class LocalExchanges:
    """Connects tasks of one process."""

    def connect(
        self,
        edge: EdgeUse,
        producers: Mapping[int, Blocks],
        partitioning: Partitioning,
        share: Callable[[int], Share],
    ) -> EdgeReceiver:
        """Connect the producers with the consumers."""
        blocks, consumers = list(producers.values()), range(edge.consumers)
        match partitioning:
            case Routed(router):
                return Exchange(blocks, [router(subtask) for subtask in producers], [share(at) for at in consumers])
            case Ranged(order, check):
                return RangeExchange(blocks, order, check, [share(at) for at in consumers], share(0))
        return _Chained(producers)

    def spawn(self, name: str, run: Callable[[], None]) -> None:
        """Run it now: in one process everything is read."""
        run()

    def settle(self, receivers: Sequence[Any]) -> None:
        """Do nothing: what nobody reads is not computed."""
