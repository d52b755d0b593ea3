"""Records folded before an exchange: one partial stands for all records of a key and pane in a block.

A partial is a record, in columns like any other, with a weight: how many records it stands for. It means what so many records
would, one after the other, of which the first is the partial itself, and the others are like it but for zeros in the leaves that
are added up. So a consumer of records is given records, and one that supports weights saves the work.

The combiner of a pre-aggregated window makes them of a block before it is spread over an exchange. It keeps nothing between two
blocks but a guess whether the next is worth it, so there is nothing to save, restore or rescale. A block that has too many keys,
or too few records, or whose sums might not fit, goes on as it is. benchmarks/pre_aggregation.py has the measurements behind the
numbers here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funken.columnar.folds import FIRST, LAST, MAX, SUM
from funken.columnar.kernels.columns import Array, Column, Columns, joined
from funken.columnar.keyed.keys import numbered
from funken.expr.types import HIGHEST, INT, LOWEST, Type

WORTH = 4
"""So many records per partial are worth the work."""
_ROOM = 2
"""Tables have this many times the places that a block has records."""
_MOST_SKIPPED = 64


class Partials(Columns):
    """A block of partials; ``sums`` are the numbers of the leaves that are added up, all of them ints.

    >>> from funken.expr.types import STR, Tuple
    >>> leaves = [Column(STR, "a", True), Column(INT, np.array([7, 5]))]
    >>> block = Partials(Tuple((STR, INT)), leaves, 2, np.array([3, 1]), (1,))
    >>> len(block), block.records, block.to_list()
    (2, 4, [('a', 7), ('a', 0), ('a', 0), ('a', 5)])
    """

    __slots__ = ("sums", "weights")

    def __init__(
        self, schema: Type, leaves: list[Column], length: int, weights: Array, sums: tuple[int, ...],
        timestamps: Array | None = None,
    ) -> None:  # fmt: skip
        super().__init__(schema, leaves, length, timestamps)
        self.weights = weights
        self.sums = sums

    @property
    def records(self) -> int:
        """How many records the block stands for."""
        return int(self.weights.sum())

    def __getitem__(self, part: slice) -> Partials:
        return self._like(super().__getitem__(part), self.weights[part])

    def take(self, positions: Array) -> Partials:
        """Return the partials at some positions."""
        return self._like(super().take(positions), self.weights.take(positions))

    def keep(self, mask: Array) -> Partials:
        """Return the partials where a mask is true."""
        return self._like(super().keep(mask), self.weights[mask])

    def stamped(self, timestamps: Array | None) -> Partials:
        """Return the same partials with other timestamps."""
        return self._like(super().stamped(timestamps), self.weights)

    def each(self) -> Columns:
        """Return the records that the block stands for."""
        positions = np.repeat(np.arange(self.length), self.weights)
        follows = np.ones(len(positions), np.bool_)
        follows[np.cumsum(self.weights) - self.weights] = False
        block = super().take(positions)
        leaves = list(block.leaves)
        for number in self.sums:
            data = np.array(leaves[number].array(block.length))
            data[follows] = 0
            leaves[number] = Column(INT, data)
        return Columns(self.schema, leaves, block.length, block.timestamps)

    def to_list(self) -> list[Any]:
        """Return the records that the block stands for."""
        return self.each().to_list()

    def _like(self, block: Columns, weights: Array) -> Partials:
        return Partials(block.schema, block.leaves, block.length, weights, self.sums, block.timestamps)


def joined_alike(blocks: list[Columns]) -> Columns:
    """Put blocks of one shape together: all of them partials of the same sums, or none."""
    whole, first = joined(blocks), blocks[0]
    if not isinstance(first, Partials) or len(blocks) == 1:
        return whole
    weights = np.concatenate([each.weights for each in blocks if isinstance(each, Partials)])
    return Partials(whole.schema, whole.leaves, whole.length, weights, first.sums, whole.timestamps)


class Combiner:
    """One per edge writer.

    ``roles`` says what is done with each leaf, ``pane`` and ``offset`` (ms) which panes there are; with ``None`` all records of a
    key are in one, and its partial has the highest of their timestamps. A block of fewer than ``least`` records is left alone,
    and one that has fewer than ``worth`` of them per key and pane.

    >>> from funken.expr.types import STR, Tuple
    >>> block = Columns(Tuple((STR, INT)), [Column(STR, "a", True), Column(INT, np.array([7, 5]))], 2)
    >>> Combiner(("first", "sum"), None, 0, least=2, worth=2).combine(block, block.leaves[0])[0].leaves[1].to_list(1)
    [12]
    """

    def __init__(self, roles: tuple[str, ...], pane: int | None, offset: int, least: int, worth: int = WORTH) -> None:
        self._roles = roles
        self._sums = tuple(number for number, role in enumerate(roles) if role == SUM)
        self._pane = pane
        self._offset = offset
        self._least = least
        self._worth = worth
        #: how many blocks are yet to pass, and how many will if the next one has too many keys again
        self._skips = 0
        self._again = 1

    def combine(self, block: Columns, key: Column) -> tuple[Columns, Column]:
        """Return a block with its keys: of partials, or as it was."""
        plain, stamps = (block, key), block.timestamps
        if self._skips:
            self._skips -= 1
            return plain
        if block.length < self._least or self._may_overflow(block):
            return plain
        found = self._codes(key, stamps, block.length)
        if found is None:
            return plain
        codes, places = found
        counts = np.bincount(codes, minlength=places)
        present = np.flatnonzero(counts)
        if len(present) * self._worth > block.length:
            self._skips, self._again = self._again, min(_MOST_SKIPPED, 2 * self._again)
            return plain
        self._again = 1
        backwards = np.arange(block.length - 1, -1, -1)
        firsts = np.empty(places, np.int64)
        firsts[codes[::-1]] = backwards  # of several for one place the last one stays
        # Keys come in the order of their first records, as they would one by one.
        present = present.take(np.argsort(firsts.take(present)))
        at = firsts.take(present)
        leaves = [
            _folded(leaf, role, codes, counts, present, at)
            for leaf, role in zip(block.leaves, self._roles, strict=True)
        ]
        if stamps is not None and self._pane is not None:
            stamps = stamps.take(at)
        elif stamps is not None:
            stamps = _folded(Column(INT, stamps), MAX, codes, counts, present, at).data
        return Partials(block.schema, leaves, len(at), counts.take(present), self._sums, stamps), key.take(at)

    def _may_overflow(self, block: Columns) -> bool:
        for number in self._sums:
            low, high = block.leaves[number].bounds()
            if block.length * max(high, -low) > HIGHEST:
                return True
        return False

    def _codes(self, key: Column, stamps: Array | None, length: int) -> tuple[Array, int] | None:
        """Return a number for each record, alike for those of one key and pane, and what all are below.

        ``None``: too many, or a record without a timestamp (the least there is), about which the window complains.
        """
        if self._pane is None:
            return numbered(key, length)
        if stamps is None:
            return None
        earliest, latest = int(stamps.min()), int(stamps.max())
        if earliest < LOWEST // 2:
            return None
        codes, places = numbered(key, length)
        first = (earliest - self._offset) // self._pane
        panes = (latest - self._offset) // self._pane - first + 1
        if panes == 1:
            return codes, places
        if places * panes > _ROOM * length:
            return None
        of = (stamps - (first * self._pane + self._offset)) // self._pane
        return codes + of * places, places * panes


def _folded(leaf: Column, role: str, codes: Array, counts: Array, present: Array, at: Array) -> Column:
    """Return a leaf of the partials, whose places are ``present`` and whose first records are ``at``."""
    if role == FIRST or (leaf.constant and role != SUM):
        return leaf.take(at)
    if role == LAST:
        lasts = np.empty(len(counts), np.int64)
        lasts[codes] = np.arange(len(codes))
        return leaf.take(lasts.take(present))
    if leaf.constant:
        return Column(INT, counts.take(present) * leaf.data)
    state = np.full(len(counts), 0 if role == SUM else LOWEST if role == MAX else HIGHEST, np.int64)
    (np.add if role == SUM else np.maximum if role == MAX else np.minimum).at(state, codes, leaf.data)
    return Column(INT, state.take(present))


__all__ = ["WORTH", "Combiner", "Partials", "joined_alike"]
