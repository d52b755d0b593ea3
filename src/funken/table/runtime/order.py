"""Order of rows: sort keys with direction and place of NULLs, over plain values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import total_ordering
from typing import Any

from funken.table.logical import SortKey

Tuple = tuple[Any, ...]


@total_ordering
class Reversed:
    """A value that comes before smaller ones."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reversed) and self.value == other.value

    def __lt__(self, other: Any) -> bool:
        return bool(other.value < self.value)

    __hash__ = None  # type: ignore[assignment]


def _comparable(value: Any) -> Any:
    """Return a value that is ordered as SQL orders it: NaN is greatest, texts go by their bytes, items of ROWs may be NULL."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, list | tuple):
        return tuple((item is not None, None if item is None else _comparable(item)) for item in value)
    return value


def sort_key(order: Sequence[SortKey]) -> Callable[[Tuple], Tuple]:
    """Return what gives the sort key of a row.

    >>> rows = [(2, "a"), (None, "b"), (3, "c")]
    >>> sorted(rows, key=sort_key([SortKey(0, ascending=False, nulls_first=False)]))
    [(3, 'c'), (2, 'a'), (None, 'b')]
    """

    def key_of(row: Tuple) -> Tuple:
        found: list[Any] = []
        for key in order:
            value = row[key.index]
            if value is None:
                found.append((0 if key.nulls_first else 2,))
            elif type(value) is int:
                found.append((1, value if key.ascending else -value))
            else:
                comparable = _comparable(value)
                found.append((1, comparable if key.ascending else Reversed(comparable)))
        return tuple(found)

    return key_of


__all__ = ["Reversed", "sort_key"]
