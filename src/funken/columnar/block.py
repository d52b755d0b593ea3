"""Blocks: the records that travel together, with their timestamps, in rows or in columns.

A block is immutable for whoever is given it, since it may have several consumers. What carries blocks (the exchange, the queue of
a task, gates, channel state) handles a ``Block`` and does not ask for its form. Who needs records takes ``rows()``: the only
conversion there is. Columns (``kernels/columns.py``) are a block too; this module loads no NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat
from types import MappingProxyType
from typing import Any

_NONE: Mapping[int, Any] = MappingProxyType({})


class Block:
    """Records, and their timestamps (ms): ``None`` if no record has one, ``MIN_TIMESTAMP`` for a single one without."""

    __slots__ = ("timestamps",)

    timestamps: Any
    """As many as there are rows: a list beside rows, an array of int64 beside columns."""

    def __len__(self) -> int:
        """Return the number of rows."""
        raise NotImplementedError

    @property
    def records(self) -> int:
        """Number of records that the block stands for: more than its rows in partials (``keyed/groups.py``)."""
        raise NotImplementedError

    def __getitem__(self, part: slice) -> Block:
        """Return a part of the rows, with their timestamps."""
        raise NotImplementedError

    def rows(self) -> tuple[list[Any], list[int] | None]:
        """Return the records, and their timestamps, as lists that are not to be changed."""
        raise NotImplementedError


class RowBlock(Block):
    """Records as Python objects.

    >>> block = RowBlock(["to", "be", "or"], [1, 2, 3])
    >>> len(block), block.records, block[1:].rows()
    (3, 3, (['be', 'or'], [2, 3]))
    >>> RowBlock(["to", "be"])[:1].rows()
    (['to'], None)
    """

    __slots__ = ("values",)

    def __init__(self, values: list[Any], timestamps: list[int] | None = None) -> None:
        self.values = values
        self.timestamps = timestamps

    def __len__(self) -> int:
        return len(self.values)

    @property
    def records(self) -> int:
        """Number of records."""
        return len(self.values)

    def __getitem__(self, part: slice) -> RowBlock:
        return RowBlock(self.values[part], None if self.timestamps is None else self.timestamps[part])

    def rows(self) -> tuple[list[Any], list[int] | None]:
        """Return the lists themselves."""
        return self.values, self.timestamps


class TupleBlock(Block):
    """Records that are tuples of one length, as Python objects field by field: not everybody needs the tuples.

    ``constants`` are the fields that are the same in all records, by their place in the tuples, in order; ``fields`` are the
    others, at least one.

    >>> block = TupleBlock([["to", "be", "or"], [1, 2, 3]], constants={1: "a word"})
    >>> len(block), block[1:].rows()
    (3, ([('be', 'a word', 2), ('or', 'a word', 3)], None))
    """

    __slots__ = ("constants", "fields")

    def __init__(
        self, fields: list[list[Any]], timestamps: list[int] | None = None, constants: Mapping[int, Any] = _NONE
    ) -> None:
        self.fields = fields
        self.timestamps = timestamps
        self.constants = constants

    def __len__(self) -> int:
        return len(self.fields[0])

    @property
    def records(self) -> int:
        """Number of records."""
        return len(self.fields[0])

    def __getitem__(self, part: slice) -> TupleBlock:
        stamps = None if self.timestamps is None else self.timestamps[part]
        return TupleBlock([field[part] for field in self.fields], stamps, self.constants)

    @property
    def form(self) -> tuple[int, ...]:
        """Number of fields of the tuples, and the places of the constants: loops over fields are compiled per form."""
        return (len(self.fields) + len(self.constants), *self.constants)

    def rows(self) -> tuple[list[Any], list[int] | None]:
        """Make the tuples."""
        columns: list[Iterable[Any]] = [*self.fields]
        for place, value in self.constants.items():
            columns.insert(place, repeat(value, len(self)))
        return list(zip(*columns, strict=True)), self.timestamps
