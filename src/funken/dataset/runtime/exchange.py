"""Exchanges: how the blocks of all producers get to the consumers they are for.

A consumer that has no block advances the producers in turn (all of one before the next, if there is one consumer: the
order of partitions is kept). Blocks for other consumers wait in their queues, which spill. A producer that has ended is not
advanced again; when all have, the consumer ends: in an iteration, that is the barrier of the superstep.

``Exchanges`` is the seam to a cluster: ``LocalExchanges`` connects tasks of this process, those of several processes are
connected by ``dataset/cluster/exchange.py``.
"""

from __future__ import annotations

import random
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any, Protocol

from funken.dataset.columns.block import put_together
from funken.dataset.columns.keys import dealt_out
from funken.dataset.memory.blocks import Block
from funken.dataset.memory.buffers import BlockCache, BlockQueue
from funken.dataset.memory.manager import Share
from funken.dataset.memory.order import Column, Order
from funken.dataset.runtime.task import Blocks
from funken.errors import InvalidProgram
from funken.state.keygroups import stable_hash

Router = Callable[[Block], Sequence[Block]]
"""Cuts a block into one part per consumer."""

FULL = 512
"""Small blocks are put together until they have so many records."""


@dataclass(frozen=True)
class EdgeUse:
    """One use of an edge of a plan: ``number`` names it in every process of the job, ``operator`` is the one that reads it."""

    number: int
    superstep: int
    operator: str
    producers: int
    consumers: int


def full_block(queue: BlockQueue) -> Block:
    """Take a block of a queue, and as many more as make a full one."""
    blocks = [queue.get()]
    records = len(blocks[0])
    while records < FULL and len(queue):
        blocks.append(queue.get())
        records += len(blocks[-1])
    return put_together(blocks)


class EdgeReceiver(Protocol):
    """The consumers' side of a connected edge."""

    def receive(self, consumer: int) -> Blocks:
        """Return the blocks for a consumer of this process."""

    def close(self) -> None:
        """Drop what was not read."""


class Exchanges(Protocol):
    """Connects the producers of an edge with its consumers; only those of this process are given."""

    def connect(
        self,
        edge: EdgeUse,
        producers: Mapping[int, Blocks],
        router: Callable[[int], Router],
        share: Callable[[int], Share],
    ) -> EdgeReceiver:
        """Connect by a router per producer; ``share`` makes memory for a subtask."""

    def by_range(
        self,
        edge: EdgeUse,
        producers: Mapping[int, Blocks],
        order: Order,
        check: Column,
        share: Callable[[int], Share],
    ) -> EdgeReceiver:
        """Connect by ranges of keys, whose bounds are sampled; ``check`` raises if a key cannot be used."""

    def everything(self, edge: EdgeUse, producers: Mapping[int, Blocks], share: Callable[[int], Share]) -> EdgeReceiver:
        """Let one consumer in each process receive the blocks of all producers, in their order."""

    def spawn(self, name: str, run: Callable[[], None]) -> None:
        """Run beside everything else what nobody in this process reads."""

    def settle(self, receivers: Sequence[Any]) -> None:
        """Wait until the producers of connected edges have emitted everything; whatever else is among them is left alone."""


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


def to_all(consumers: int) -> Router:
    """Return a router that gives every consumer everything."""
    return lambda block: [block] * consumers


def in_turn(consumers: int, first: int) -> Router:
    """Return a router that deals records out, beginning with a consumer of one's own.

    >>> route = in_turn(2, 0)
    >>> route(["a", "b", "c"]), route(["d"])
    ([['a', 'c'], ['b']], [[], ['d']])
    """
    at = first

    def route(block: Block) -> Sequence[Block]:
        nonlocal at
        parts = [block[(consumer - at) % consumers :: consumers] for consumer in range(consumers)]
        at = (at + len(block)) % consumers
        return parts

    return route


_MEMORY_OF_KEYS = 16_384
"""Keys whose consumer is remembered; they are not part of the managed memory."""


def by_hash(consumers: int, keys: Column) -> Router:
    """Return a router that sends equal keys to the same consumer, in every process."""
    known: dict[Any, int] = {}

    def route(block: Block) -> Sequence[Block]:
        dealt = dealt_out(block, keys, consumers)
        if dealt is not None:
            return dealt
        # Hot: once per block; per record a lookup and an append.
        parts: list[Block] = [[] for _ in range(consumers)]
        appends = [part.append for part in parts]
        get = known.get
        for record, key in zip(block, keys(block), strict=True):
            target = get(key)
            if target is None:
                if len(known) >= _MEMORY_OF_KEYS:
                    known.clear()
                target = known[key] = stable_hash(key) % consumers
            appends[target](record)
        return parts

    return route


def by_partitioner(consumers: int, keys: Column, partition: Callable[[Any, int], int], operator: str) -> Router:
    """Return a router that asks a function of the program."""

    def route(block: Block) -> Sequence[Block]:
        parts: list[Block] = [[] for _ in range(consumers)]
        for record, key in zip(block, keys(block), strict=True):
            target = partition(key, consumers)
            if not isinstance(target, int) or not 0 <= target < consumers:
                raise InvalidProgram(
                    f"operator {operator!r}: the partitioner returned {target!r} for the key {key!r}. "
                    f"Return a whole number from 0 to {consumers - 1}."
                )
            parts[target].append(record)
        return parts

    return route


SAMPLES = 1000
"""Keys that are sampled per consumer to find the bounds of ranges."""


class Sample:
    """A uniform sample of the keys that were seen; the same one in every run.

    >>> sample = Sample(2)
    >>> sample.add([3, 1])
    >>> sample.seen, sample.keys
    (2, [3, 1])
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._chance = random.Random(17)
        self.seen = 0
        self.keys: list[Any] = []

    def add(self, keys: Sequence[Any]) -> None:
        """Take the keys of a block into account."""
        for key in keys:
            self.seen += 1
            if len(self.keys) < self._most:
                self.keys.append(key)
            elif (at := self._chance.randrange(self.seen)) < self._most:
                self.keys[at] = key


def bounds_of(samples: Sequence[tuple[int, Sequence[Any]]], consumers: int) -> list[Any]:
    """Return the upper bounds of all ranges but the last; each sample stands for the number of keys that it was taken of.

    >>> bounds_of([(4, [1, 2, 3, 4])], 2), bounds_of([(4, [1, 2]), (2, [5, 6])], 2), bounds_of([(0, [])], 2)
    ([2], [2], [])
    """
    weighed = [(key, seen / len(keys)) for seen, keys in samples for key in keys]
    weighed.sort(key=itemgetter(0))
    whole = sum(seen for seen, _ in samples)
    bounds: list[Any] = []
    reached = 0.0
    for key, weight in weighed:
        reached += weight
        while len(bounds) < consumers - 1 and reached >= whole * (len(bounds) + 1) / consumers - 1e-9 * whole:
            bounds.append(key)
    return bounds


def by_bounds(consumers: int, order: Order, bounds: Sequence[Any]) -> Router:
    """Return a router that sends each record to the range of its key."""

    def route(block: Block) -> Sequence[Block]:
        parts: list[Block] = [[] for _ in range(consumers)]
        for record, key in zip(block, order.keys(block), strict=True):
            parts[bisect_left(bounds, key)].append(record)
        return parts

    return route


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
        sample = Sample(SAMPLES * consumers)
        for producer, _ in self._producers:
            for block in producer:
                kept.add(block)
                self._check(block)
                sample.add(self._order.keys(block))
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
        router: Callable[[int], Router],
        share: Callable[[int], Share],
    ) -> EdgeReceiver:
        """Connect by a router per producer."""
        routers = [router(subtask) for subtask in producers]
        return Exchange(list(producers.values()), routers, [share(subtask) for subtask in range(edge.consumers)])

    def by_range(
        self,
        edge: EdgeUse,
        producers: Mapping[int, Blocks],
        order: Order,
        check: Column,
        share: Callable[[int], Share],
    ) -> EdgeReceiver:
        """Connect by ranges of keys."""
        shares = [share(subtask) for subtask in range(edge.consumers)]
        return RangeExchange(list(producers.values()), order, check, shares, share(0))

    def everything(self, edge: EdgeUse, producers: Mapping[int, Blocks], share: Callable[[int], Share]) -> EdgeReceiver:
        """Let the consumer receive the blocks of all producers, in their order."""
        return _Chained(producers)

    def spawn(self, name: str, run: Callable[[], None]) -> None:
        """Run it now: in one process everything is read."""
        run()

    def settle(self, receivers: Sequence[Any]) -> None:
        """Do nothing: what nobody reads is not computed."""
