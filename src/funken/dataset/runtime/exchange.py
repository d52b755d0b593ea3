"""Exchanges: how the blocks of all producers get to the consumers they are for.

A consumer that has no block advances the producers in turn (all of one before the next, if there is one consumer: the
order of partitions is kept). Blocks for other consumers wait in their queues, which spill. A producer that has ended is not
advanced again; when all have, the consumer ends: in an iteration, that is the barrier of the superstep.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any

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
                block = queue.get()
                if len(block) < FULL and len(queue):
                    block = list(block)
                    while len(block) < FULL and len(queue):
                        block += queue.get()
                yield block
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
        most = SAMPLES * consumers
        chance = random.Random(17)  # the same ranges in every run
        kept = BlockCache(self._cache)
        sample: list[Any] = []
        seen = 0
        for producer, _ in self._producers:
            for block in producer:
                kept.add(block)
                self._check(block)
                for key in self._order.keys(block):
                    seen += 1
                    if len(sample) < most:
                        sample.append(key)
                    elif (at := chance.randrange(seen)) < most:
                        sample[at] = key
        sample.sort()
        bounds = [sample[len(sample) * n // consumers - 1] for n in range(1, consumers)] if sample else []

        def route(block: Block) -> Sequence[Block]:
            parts: list[Block] = [[] for _ in range(consumers)]
            for record, key in zip(block, self._order.keys(block), strict=True):
                parts[bisect_left(bounds, key)].append(record)
            return parts

        self._producers = [(iter(kept), route)]

    def close(self) -> None:
        """Drop what was not read."""
        super().close()
        self._cache.close()


class Shared:
    """The output of a task that several consumers read: computed once, kept for the slower ones."""

    def __init__(self, blocks: Blocks, shares: Sequence[Share]) -> None:
        self._blocks = blocks
        self._queues = [BlockQueue(share) for share in shares]
        self._readers = 0

    def reader(self) -> Blocks:
        """Return the blocks for the next consumer."""
        own = self._queues[self._readers]
        self._readers += 1
        return self._read(own)

    def _read(self, own: BlockQueue) -> Iterator[Block]:
        while True:
            if len(own):
                yield own.get()
                continue
            block = next(self._blocks, None)
            if block is None:
                return
            for queue in self._queues:
                if queue is not own:
                    queue.put(block)
            yield block

    def close(self) -> None:
        """Drop what was not read."""
        for queue in self._queues:
            queue.close()
