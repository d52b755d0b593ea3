"""The rows of a block by key: numbers in place of keys, and the rows of each number together, in the order of arrival."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, total_ordering
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from funken.columnar.keyed.groups import Groups
from funken.table.logical import SortKey
from funken.table.runtime.exchange import key_tuples

Tuple = tuple[Any, ...]
_MOST = 1 << 62
_FEW = 32
"""Keys of fewer rows are told apart one by one."""
_NARROW, _WIDE = 1 << 16, 8
"""Integers are looked up in a table if their range is below the one, or so many times their number."""


def codes_of(column: pa.Array) -> tuple[Any, int]:
    """Return a number per value, equal for equal values of SQL (NULL is one), and a bound above all of them.

    >>> codes_of(pa.array(["x", None, "x"]))
    (array([0, 1, 0]), 2)
    >>> codes_of(pa.array([[1], [2], [1]]))
    (array([0, 1, 0]), 2)
    """
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_floating(kind):
        known: dict[Any, int] = {}
        values = key_tuples(pa.record_batch([column], ["value"]), (0,))
        numbers = [known.setdefault(value, len(known)) for value in values]
        return np.array(numbers, np.int64), len(known)
    if pa.types.is_signed_integer(kind) and not column.null_count:
        return numbered(column.to_numpy().astype(np.int64, copy=False))
    encoded = column.dictionary_encode("encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def joint_codes(parts: Sequence[tuple[Any, int]], length: int) -> tuple[Any, int]:
    """Return a number per row that is equal where the numbers of all parts are, and a bound above all of them.

    >>> joint_codes([(np.array([0, 1, 0]), 2), (np.array([5, 5, 5]), 9)], 3)
    (array([ 5, 14,  5]), 18)
    """
    if not parts:
        return np.zeros(length, np.int64), 1
    numbers, count = parts[0]
    for more, others in parts[1:]:
        if count * others >= _MOST:
            numbers, count = dense(numbers)
        numbers, count = numbers * others + more, count * others
    return dense(numbers) if len(parts) > 1 and count > _NARROW else (numbers, count)


def numbered(integers: Any) -> tuple[Any, int]:
    """Return numbers in place of integers, and a bound above all of them.

    >>> numbered(np.array([7, 9, 7])), numbered(np.array([7, 1 << 40, 7]))
    ((array([0, 2, 0]), 3), (array([0, 1, 0]), 2))
    """
    low, high = (int(integers.min()), int(integers.max())) if len(integers) else (0, 0)
    # Hot: a tenth of the time of a dictionary.
    return (integers - low, high - low + 1) if high - low < _NARROW else dense(integers)


def dense(numbers: Any) -> tuple[Any, int]:
    """Return numbers from 0 on in place of others, and the number of different ones.

    >>> dense(np.array([7, 9, 7]))
    (array([0, 1, 0]), 2)
    """
    encoded = pa.array(numbers).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def firsts_of(codes: Any, count: int) -> Any:
    """Return the first place of each number; all of them occur.

    >>> firsts_of(np.array([1, 0, 1]), 2).tolist()
    [1, 0]
    """
    found = np.empty(count, np.int64)
    found[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return found


class KeyedRows:
    """The rows of a batch by the values of some columns.

    >>> rows = KeyedRows(pa.record_batch({"k": ["x", "y", "x"], "v": [1, 2, 3]}), (0,))
    >>> rows.keys, rows.groups.begins.tolist(), rows.groups.order.tolist()
    ([('x',), ('y',)], [0, 2], [0, 2, 1])
    """

    def __init__(self, batch: pa.RecordBatch, columns: Sequence[int]) -> None:
        self._batch, self._columns = batch, columns
        #: of a key that is one column of integers: that of each group
        self.numbers: Any = None
        if batch.num_rows < _FEW:
            known: dict[Tuple, int] = {}
            codes = [known.setdefault(key, len(known)) for key in key_tuples(batch, columns)]
            self.groups = Groups(np.array(codes, np.int64), len(known))
            self.keys = list(known)
            return
        self.groups = Groups(*joint_codes([codes_of(batch.column(place)) for place in columns], batch.num_rows))
        if len(columns) == 1:
            column = batch.column(columns[0])
            if pa.types.is_signed_integer(column.type) and not column.null_count:
                self.numbers = column.to_numpy().take(self.firsts).astype(np.int64, copy=False)

    @cached_property
    def keys(self) -> list[Tuple]:
        """The key of each group."""
        if self.numbers is not None:
            return list(zip(self.numbers.tolist()))
        keys = [self._batch.column(place).take(pa.array(self.firsts)) for place in self._columns]
        names = [str(place) for place in self._columns]
        return key_tuples(pa.RecordBatch.from_arrays(keys, names), range(len(keys))) if keys else [()]

    @property
    def firsts(self) -> Any:
        """The first row of each group."""
        return self.groups.order.take(self.groups.begins)


class KeyNumbers:
    """Numbers keys from 0 on, as they come. Keys of one column are known by its values, integers in a range by their places.

    >>> known = KeyNumbers(1)
    >>> rows = KeyedRows(pa.record_batch({"k": [7, 5, 7]}), (0,))
    >>> known.find(rows).tolist(), known.numbers(rows).tolist(), known.find(rows).tolist(), known[1]
    ([-1, -1], [0, 1], [0, 1], (5,))
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._keys: list[Any] = []
        self._known: dict[Any, int] = {}
        #: the numbers of integers from one on, -1 where a key is not known; ``None``: they are in ``_known``
        self._table: Any = np.empty(0, np.int64) if width == 1 else None
        self._low, self._high = 0, -1

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, number: int) -> Tuple:
        key: Any = self._keys[number]
        return (key,) if self.width == 1 else key

    def find(self, rows: KeyedRows) -> Any:
        """Return the number of each key, -1 of those that are not known."""
        integers = self._integers(rows)
        if integers is None:
            # Hot: keys that are known, all at once.
            return np.fromiter(map(self._known.get, self._plain(rows), repeat(-1)), np.int64, len(rows.groups.slots))
        places = integers - self._low
        inside = (places >= 0) & (places < len(self._table))
        if inside.all():
            return self._table.take(places)
        found = np.full(len(places), -1)
        found[inside] = self._table.take(places[inside])
        return found

    def numbers(self, rows: KeyedRows) -> Any:
        """Return the number of each key; new keys get new ones."""
        found = self.find(rows)
        new = np.flatnonzero(found < 0)
        if len(new):
            given = np.arange(len(self._keys), len(self._keys) + len(new))
            integers = self._integers(rows)
            if integers is None:
                plain = self._plain(rows)
                self._add([plain[at] for at in new.tolist()], given, None)
            else:
                self._add(integers.take(new).tolist(), given, integers.take(new))
            found[new] = given
        return found

    def number(self, key: Tuple, new: bool = False) -> int:
        """Return the number of one key, -1 if it is not known; ``new``: it gets one then."""
        plain: Any = key[0] if self.width == 1 else key
        whole = self._table is not None and type(plain) is int
        place = plain - self._low if whole else -1
        found = int(self._table[place]) if 0 <= place < (len(self._table) if whole else 0) else -1
        if not whole:
            found = self._known.get(plain, -1)
        if found < 0 and new:
            found = len(self._keys)
            if not whole:
                self._leave_table()
            self._add([plain], np.array([found]), np.array([plain]) if whole else None)
        return found

    def some(self, numbers: Any) -> KeyNumbers:
        """Return some keys, which get new numbers."""
        found = KeyNumbers(self.width)
        keys = [self._keys[number] for number in numbers.tolist()]
        found._table = None if self._table is None else found._table
        found._add(keys, np.arange(len(keys)), None if self._table is None else np.array(keys, np.int64))
        return found

    def _add(self, keys: list[Any], numbers: Any, integers: Any) -> None:
        if integers is not None and len(integers) and self._reaches(int(integers.min()), int(integers.max())):
            self._table[integers - self._low] = numbers
        if self._table is None:
            self._known.update(zip(keys, numbers.tolist(), strict=True))
        self._keys += keys

    def _plain(self, rows: KeyedRows) -> list[Any]:
        if self.width != 1:
            return rows.keys
        return [key for (key,) in rows.keys] if rows.numbers is None else rows.numbers.tolist()

    def _integers(self, rows: KeyedRows) -> Any:
        """Return the keys as integers if these are looked up in a table; else there is none from now on."""
        if self._table is None or rows.numbers is not None:
            return None if self._table is None else rows.numbers
        keys = [key for (key,) in rows.keys]
        if all(type(key) is int for key in keys):
            return np.array(keys, np.int64)
        self._leave_table()
        return None

    def _reaches(self, low: int, high: int) -> bool:
        """Make the table reach from ``low`` to ``high``; return False, and have none any more, if it would be too wide."""
        size = len(self._table)
        least, most = (min(low, self._low), max(high, self._high)) if size else (low, high)
        limit = max(_NARROW, _WIDE * len(self._keys))
        if most - least >= limit:
            self._leave_table()
            return False
        if least < self._low or most >= self._low + size:
            used = self._table[: self._high - self._low + 1]
            table = np.full(max(most - least + 1, min(2 * size, limit)), -1, np.int64)
            table[self._low - least : self._low - least + len(used)] = used
            self._low, self._table = least, table
        self._high = most
        return True

    def _leave_table(self) -> None:
        if self._table is not None:
            self._table = None
            self._known = {key: number for number, key in enumerate(self._keys)}


# ---- Order of rows: sort keys with direction and place of NULLs, over plain values.


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
    """Return a function to the sort key of a row.

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


_NUMBERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"})
"""Types whose plain values are whole numbers."""


def typed_sort_key(order: Sequence[SortKey], types: Sequence[Any]) -> Callable[[Tuple], Tuple]:
    """Return ``sort_key`` for rows of known types; of numbers and times its keys are made and compared in less time.

    >>> from funken.expr.sql.types import BigIntType
    >>> key_of = typed_sort_key([SortKey(0, ascending=False, nulls_first=True)], [BigIntType()])
    >>> sorted([(2,), (None,), (3,)], key=key_of)
    [(None,), (3,), (2,)]
    """
    if any(types[key.index].root not in _NUMBERS for key in order):
        return sort_key(order)
    missing = ["-inf" if key.nulls_first else "inf" for key in order]
    values = [f"{'' if key.ascending else '-'}row[{key.index}]" for key in order]
    parts = [
        f"({null} if row[{key.index}] is None else {value}),"
        for key, null, value in zip(order, missing, values, strict=True)
    ]
    # The text is made of the fixed parts above and of numbers.
    made: Callable[[Tuple], Tuple] = eval(f"lambda row: ({''.join(parts)})", {"inf": math.inf})
    return made


def places_of(columns: Sequence[pa.Array], order: Sequence[SortKey]) -> Any:
    """Return the place of each row in the order of some columns of numbers, times or texts; equal rows have one place.

    >>> columns = [pa.array([2, None, 3, 2]), pa.array(["a", "b", "c", "a"])]
    >>> places_of(columns, [SortKey(0, ascending=False, nulls_first=False), SortKey(1)]).tolist()
    [1, 2, 0, 1]
    """
    parts: list[Any] = []
    for column, key in zip(columns, order, strict=True):
        missing = None
        if column.null_count:
            missing = column.is_null().to_numpy(zero_copy_only=False)
            parts.append(missing if not key.nulls_first else ~missing)
        if pa.types.is_integer(column.type):
            values = pc.fill_null(column, 0).to_numpy().astype(np.int64)
        elif pa.types.is_temporal(column.type):
            bits = pa.int64() if column.type.bit_width == 64 else pa.int32()
            values = pc.fill_null(column.view(bits), 0).to_numpy().astype(np.int64)
        else:
            encoded = column.dictionary_encode("mask")
            ranks = pc.rank(encoded.dictionary, tiebreaker="dense").to_numpy().astype(np.int64)
            codes = pc.fill_null(encoded.indices, 0).to_numpy()
            values = ranks.take(codes) if len(ranks) else np.zeros(len(column), np.int64)
        values = values if key.ascending else ~values  # a number and its complement are in opposite orders
        parts.append(values if missing is None else np.where(missing, 0, values))
    length = len(columns[0]) if columns else 0
    by_order = np.lexsort(parts[::-1]) if parts else np.arange(length)
    begins = np.zeros(length, np.bool_)
    for part in parts:
        ordered = part.take(by_order)
        begins[1:] |= ordered[1:] != ordered[:-1]
    found = np.empty(length, np.int64)
    found[by_order] = np.cumsum(begins)
    return found
