"""Routers: they cut a block into one part per consumer, by hash, range, turn, or a function of the program."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

from funken.dataset.columns.keys import dealt_by_range, dealt_out
from funken.dataset.memory.blocks import Block
from funken.dataset.memory.order import Column, Order
from funken.errors import InvalidProgram
from funken.state.keygroups import stable_hash

Router = Callable[[Block], Sequence[Block]]
"""Cuts a block into one part per consumer."""


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
