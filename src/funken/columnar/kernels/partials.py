"""Records folded before an exchange: one partial stands for all records of a key and pane in a block.

A partial is a record, in columns like any other, with a weight: how many records it stands for. It means what so many records
would, one after the other, of which the first is the partial itself, and the others are like it but for zeros in the leaves that
are added up. So a consumer of records is given records, and one that supports weights saves the work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funken.columnar.expressions import INT, RecordSchema
from funken.columnar.kernels.columns import Array, Column, Columns, joined


class Partials(Columns):
    """A block of partials; ``sums`` are the numbers of the leaves that are added up, all of them ints.

    >>> leaves = [Column("str", "a", True), Column("int", np.array([7, 5]))]
    >>> block = Partials(("str", "int"), leaves, 2, np.array([3, 1]), (1,))
    >>> len(block), block.records, block.to_list()
    (2, 4, [('a', 7), ('a', 0), ('a', 0), ('a', 5)])
    """

    __slots__ = ("sums", "weights")

    def __init__(
        self, schema: RecordSchema, leaves: list[Column], length: int, weights: Array, sums: tuple[int, ...],
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


__all__ = ["Partials", "joined_alike"]
