"""Exchanges from producers to consumers: edges, routers, ranges, and the exchange within a process.

Edges: what the consumers of an edge read, and the seam to whatever connects them with its producers.

``LocalExchanges`` (``local.py``) connects tasks of this process, those of several processes are connected by
``dataset/cluster/worker.py``.
"""

from __future__ import annotations

import math
import random
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any, Protocol

from funken.dataset.columns.block import dealt_by_range, dealt_out, ordered_columns, put_together, records_at
from funken.dataset.memory.manager import Block, BlockCache, BlockQueue, Blocks, Share
from funken.dataset.plan.keys import Column, Order
from funken.errors import InvalidProgram
from funken.state.keygroups import stable_hash

# ---- Routers: they cut a block into one part per consumer, by hash, range, turn, or a function of the program.


Router = Callable[[Block], Sequence[Block]]
"""Cuts a block into one part per consumer."""


def to_all(consumers: int) -> Router:
    """Return a router that sends everything to every consumer."""
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


def by_bounds(consumers: int, order: Order, bounds: Sequence[Any]) -> Router:
    """Return a router that sends each record to the range of its key."""

    def route(block: Block) -> Sequence[Block]:
        dealt = dealt_by_range(block, order, bounds, consumers)
        if dealt is not None:
            return dealt
        parts: list[Block] = [[] for _ in range(consumers)]
        for record, key in zip(block, order.keys(block), strict=True):
            parts[bisect_left(bounds, key)].append(record)
        return parts

    return route


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


@dataclass(frozen=True)
class Routed:
    """Each producer deals its blocks out by a router of its own."""

    router: Callable[[int], Router]


@dataclass(frozen=True)
class Ranged:
    """Each consumer gets a range of keys, whose bounds are sampled; ``check`` raises if the key of a record cannot be used."""

    order: Order
    check: Column


@dataclass(frozen=True)
class Everything:
    """One consumer in each process gets the blocks of all producers, in their order."""


Partitioning = Routed | Ranged | Everything
"""The input of the consumers of an edge."""


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
        """Drop unread blocks."""


class Exchanges(Protocol):
    """Connects the producers of an edge with its consumers; it knows those of this process only."""

    def connect(
        self,
        edge: EdgeUse,
        producers: Mapping[int, Blocks],
        partitioning: Partitioning,
        share: Callable[[int], Share],
    ) -> EdgeReceiver:
        """Connect; ``share`` makes memory for a subtask."""

    def spawn(self, name: str, run: Callable[[], None]) -> None:
        """Run beside everything else work whose results nobody in this process reads."""

    def settle(self, receivers: Sequence[Any]) -> None:
        """Wait until the producers of connected edges have emitted everything; other receivers are left alone."""


# ---- Ranges of keys: a sample of all keys, and the bounds that divide them evenly.


SAMPLES = 1000
"""Keys that are sampled per consumer to find the bounds of ranges."""


class Sample:
    """A uniform sample of the keys that were seen; the same one in every run.

    The positions of the keys depend on the number of records only, so that of a block few records are looked at.

    >>> sample = Sample(2, lambda block: block)
    >>> sample.add([3, 1])
    >>> sample.seen, sample.keys
    (2, [3, 1])
    >>> sample.add(list(range(1000)))
    >>> sample.seen, len(sample.keys)
    (1002, 2)
    """

    def __init__(self, most: int, keys: Column) -> None:
        self._most = most
        self._keys_of = keys
        self._chance = random.Random(17)
        self._weight = 1.0
        self._next = most
        self.seen = 0
        self.keys: list[Any] = []

    def add(self, block: Block) -> None:
        """Take the keys of a block into account."""
        begin, self.seen = self.seen, self.seen + len(block)
        fill = min(self._most - len(self.keys), len(block))
        if fill:
            self.keys += self._keys_of(block[:fill])
            if len(self.keys) == self._most:
                self._next = self._most - 1
                self._skip()
        # Li's algorithm L: how many records are passed over is drawn, not whether each of them is.
        positions, places = [], []
        while self._next < self.seen:
            positions.append(self._next - begin)
            places.append(self._chance.randrange(self._most))
            self._skip()
        if positions:
            for place, key in zip(places, self._keys_of(records_at(block, positions)), strict=True):
                self.keys[place] = key

    def _skip(self) -> None:
        self._weight *= math.exp(math.log(1.0 - self._chance.random()) / self._most)
        self._next += int(math.log(1.0 - self._chance.random()) / math.log1p(-self._weight)) + 1


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


def sampled(blocks: Iterable[Block], sample: Sample, kept: BlockCache, order: Order, check: Column) -> None:
    """Keep the blocks of a producer, and sample their keys; ``check`` raises if one of a record cannot be used."""
    for block in blocks:
        kept.add(block)
        if ordered_columns(block, order) is None:
            check(block)
        sample.add(block)


# ---- Exchanges between the tasks of one process: how the blocks of all producers get to the consumers they are
# for.
#
# A consumer that has no block advances the producers in turn (all of one before the next, if there is one consumer:
# the order of partitions is kept). Blocks for other consumers wait in their queues, which spill. A producer that
# has ended is not advanced again; when all have, the consumer ends: in an iteration, that is the barrier of the
# superstep.


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
        """Drop unread blocks."""
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
        """Drop unread blocks."""
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
        """Drop unread blocks."""
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
        """Do nothing: results without a reader are not computed."""
