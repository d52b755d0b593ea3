"""Ranges of keys: a sample of all keys, and the bounds that divide them evenly."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from funken.dataset.columns.block import records_at
from funken.dataset.columns.keys import ordered_columns
from funken.dataset.memory.blocks import Block
from funken.dataset.memory.buffers import BlockCache
from funken.dataset.memory.order import Column, Order

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
