"""From records to rows: what a table's columns are called decides which fields are taken, and in which order.

A record is a mapping, a ``Row`` with names, a named tuple, a dataclass or another object with attributes: then by name. Or it is
a plain tuple, list or ``Row`` without names: then by position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from funken.errors import ValueDoesNotFit
from funken.types.row import Row


class RowMaker:
    """Makes rows of records, block by block.

    >>> rows = RowMaker(["item", "price"], "operator 'orders'")
    >>> rows.rows([("tea", 3), {"price": 5, "item": "jam", "at": 7}, Row(item="oat", price=2)])
    [('tea', 3), ('jam', 5), ('oat', 2)]
    >>> rows.rows([{"item": "tea"}])
    Traceback (most recent call last):
    ...
    funken.errors.ValueDoesNotFit: operator 'orders': a record of type dict has no field 'price' (columns: item, price); map
    records to what the table has, or name other columns.
    """

    def __init__(self, columns: Sequence[str], who: str) -> None:
        self._columns, self._who = tuple(columns), who
        self._known: dict[type, Callable[[Any], tuple[Any, ...]]] = {}

    def rows(self, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return a row for each record; raises ``ValueDoesNotFit``."""
        known = self._known
        made = []
        for value in values:
            make = known.get(type(value)) or self._learn(value)
            try:
                made.append(make(value))
            except (KeyError, AttributeError) as error:
                field = error.args[0] if isinstance(error, KeyError) else error.name
                raise self._wrong(value, f"has no field {field!r}") from None
        return made

    def _learn(self, value: Any) -> Callable[[Any], tuple[Any, ...]]:
        make: Callable[[Any], tuple[Any, ...]]
        columns = self._columns
        if isinstance(value, Mapping):
            make = self._by(itemgetter(*columns))
        elif isinstance(value, Row):
            make = self._of_row
        elif isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
            make = self._in_order
        elif hasattr(value, "_fields") or hasattr(value, "__dict__") or hasattr(value, "__slots__"):
            make = self._by(attrgetter(*columns))
        elif len(columns) == 1:
            make = _alone
        else:
            raise self._wrong(value, "has no fields")
        self._known[type(value)] = make
        return make

    def _by(self, getter: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
        if len(self._columns) == 1:
            return lambda value: (getter(value),)
        return getter

    def _of_row(self, row: Row) -> tuple[Any, ...]:
        if row._fields is None:
            return self._in_order(row)
        return tuple([row[column] for column in self._columns])

    def _in_order(self, value: Any) -> tuple[Any, ...]:
        if len(value) != len(self._columns):
            raise self._wrong(value, f"has {len(value)} fields")
        return tuple(value)

    def _wrong(self, value: Any, what: str) -> ValueDoesNotFit:
        return ValueDoesNotFit(
            f"{self._who}: a record of type {type(value).__name__} {what} (columns: {', '.join(self._columns)}); "
            "map records to what the table has, or name other columns."
        )


def bytes_of(rows: Sequence[Sequence[Any]]) -> int:
    """Return about how many bytes rows have: text and binary data by their length, all other values as eight, nulls as none.

    >>> bytes_of([("tea", 3), ("käse", None)])
    16
    """
    return sum(map(_bytes_of_column, zip(*rows, strict=True)))


def _bytes_of_column(cells: Sequence[Any]) -> int:
    kinds = set(map(type, cells)) - {type(None)}
    if not kinds & {str, bytes, bytearray, memoryview}:
        return 8 * (len(cells) - cells.count(None))
    if kinds == {str}:
        texts = [text for text in cells if text is not None] if None in cells else cells
        return len("".join(texts).encode("utf-8", "surrogatepass"))
    return sum(map(_bytes_of_value, cells))


def _bytes_of_value(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    return len(value) if isinstance(value, bytes | bytearray) else value.nbytes if isinstance(value, memoryview) else 8


def _alone(value: Any) -> tuple[Any, ...]:
    return (value,)


__all__ = ["RowMaker", "bytes_of"]
