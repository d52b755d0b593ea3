"""Orders of records: by keys, ascending or descending, for sorting in memory and for merging sorted runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funken.dataset.memory.manager import Block
from funken.state.keys.normal import ordered_keys

Column = Callable[[Block], list[Any]]
"""Extracts one key per record of a block."""


class Descending:
    """A key that compares the other way round.

    >>> Descending(2) < Descending(1), Descending(1) == Descending(1)
    (True, True)
    """

    __slots__ = ("key",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: Descending) -> bool:
        less: bool = other.key < self.key
        return less

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and bool(self.key == other.key)


class Order:
    """An order by columns, the first one first; ``descending`` has a flag for each. NaN is greatest, as in Java.

    >>> order = Order([lambda block: [r[0] for r in block], lambda block: [r[1] for r in block]], [False, True])
    >>> order.sorted([(2, 1), (1, 1), (1, 2)])
    [(1, 2), (1, 1), (2, 1)]
    """

    def __init__(self, columns: Sequence[Column], descending: Sequence[bool]) -> None:
        self._columns = list(columns)
        self._descending = list(descending)

    def sorted(self, records: Block) -> Block:
        """Return the records in order; those with equal keys keep theirs."""
        positions = list(range(len(records)))
        for column, descending in reversed(list(zip(self._columns, self._descending, strict=True))):
            positions.sort(key=ordered_keys(column(records)).__getitem__, reverse=descending)
        return list(map(records.__getitem__, positions))

    def fields(self) -> list[tuple[tuple[int | str, ...], bool]] | None:
        """Return the paths of the fields, and whether each is descending; None if a column is computed by a function."""
        found = []
        for column, descending in zip(self._columns, self._descending, strict=True):
            paths = getattr(column, "paths", None)
            if paths is None:
                return None
            found += [(path, descending) for path in paths]
        return found

    def keys(self, block: Block) -> list[Any]:
        """Return what compares as the records do."""
        columns = [
            list(map(Descending, keys)) if descending else keys
            for column, descending in zip(self._columns, self._descending, strict=True)
            for keys in (ordered_keys(column(block)),)
        ]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
