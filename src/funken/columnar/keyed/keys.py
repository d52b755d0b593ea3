"""Keys as numbers, alike for equal ones, in the order in which they first came.

Keys are columns of int or str, or tuples of these: of those, equal keys are equal objects.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from funken.columnar.expressions import Expression, schema_of_value
from funken.columnar.kernels.arrow import pa
from funken.columnar.kernels.columns import Array, Column, Columns, column_of, values_of_leaves
from funken.columnar.kernels.evaluation import FallBackToRows, evaluate
from funken.columnar.kernels.patterns import TextPart
from funken.columnar.kernels.ropes import Rope
from funken.expr.types import INT, STR, Atomic, Object, is_key

_DENSE = 1 << 16
"""A range of ints up to this wide is looked up in a table."""

_NARROW = 2
"""A range of ints up to so many times the records wide is numbered by subtraction."""


class CompositeKey(Column):
    """Tuples as keys: a column for each item.

    >>> key = CompositeKey([Column(INT, np.array([1, 2, 1])), Column(INT, 7, True)])
    >>> key.take(np.array([2, 1])).to_list(2), key_codes(key, 3)[1]
    ([(1, 7), (2, 7)], [(1, 7), (2, 7)])
    """

    __slots__ = ("items",)

    def __init__(self, items: list[Column]) -> None:
        constant = all(item.constant for item in items)
        super().__init__(Object("tuple"), tuple(item.data for item in items) if constant else None, constant)
        self.items = items

    def take(self, positions: Array) -> CompositeKey:
        """Return the keys at some positions."""
        return CompositeKey([item.take(positions) for item in self.items])

    def keep(self, mask: Array) -> CompositeKey:
        """Return the keys where a mask is true."""
        return CompositeKey([item.keep(mask) for item in self.items])

    def cut(self, part: slice) -> CompositeKey:
        """Return a slice."""
        return CompositeKey([item.cut(part) for item in self.items])

    def to_list(self, length: int) -> list[Any]:
        """Return the tuples."""
        return list(zip(*[item.to_list(length) for item in self.items], strict=True))

    def codes(self, length: int) -> tuple[Array, int]:
        """Return a number for each key, in the order of their first records, and how many there are."""
        codes, count = np.zeros(length, np.int64), 1
        for item in self.items:
            if item.constant:
                continue
            more, others = numbered(item, length)
            # Hot: both counts are at most _NARROW times the records, so that the product fits.
            both = pa.array(codes * others + more).dictionary_encode()
            codes, count = both.indices.to_numpy().astype(np.int64), len(both.dictionary)
        return codes, count


def numbered(column: Column, length: int) -> tuple[Array, int]:
    """Return a number for each record, alike for those of one key, and what all are below."""
    if column.constant:
        return np.zeros(length, np.int64), 1
    if isinstance(column, CompositeKey):
        return column.codes(length)
    if isinstance(column, Rope) and column.variable is not None and not column.made:
        return numbered(column.variable, length)
    if column.kind == INT:
        low, high = column.bounds()
        if high - low < _NARROW * length:
            return column.data - low, high - low + 1
    encoded = _encoded(column)
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def _encoded(column: Column) -> Any:
    """Return a column that is not constant as Arrow's indices and dictionary."""
    return (column.data if column.kind == STR else pa.array(column.data)).dictionary_encode()


class CodedKey(Column):
    """A key that is looked up in several tables: what ``key_codes`` finds out is kept."""

    __slots__ = ("codes", "key")

    def __init__(self, key: Column, length: int) -> None:
        super().__init__(key.kind, key.data)
        self.key = key
        self.codes = key_codes(key, length)

    def keep(self, mask: Array) -> Column:
        """Return the keys where a mask is true."""
        return self.key.keep(mask)


def coded(key: Column, length: int) -> Column:
    """Return a key for several tables, each of which would have to find out which ones are equal."""
    return key if key.constant or key.kind == INT or numbers_in(key) is not None else CodedKey(key, length)


def key_of(expression: Expression, block: Columns) -> Column:
    """Compute the key of each record of a block; raises ``FallBackToRows``."""
    value = evaluate(expression, block.length, block)
    if isinstance(value, Column):
        return value
    items = list(value)
    assert all(isinstance(item, Column) for item in items), "is_key() was asked when the job was planned"
    return CompositeKey(cast(list[Column], items))


def column_of_keys(keys: list[Any]) -> Column:
    """Make a column of Python keys; raises ``FallBackToRows`` if they are not all of one shape that is a key's."""
    shapes = {schema_of_value(key) for key in keys}
    shape = shapes.pop() if len(shapes) == 1 else None
    if shape is None or not is_key(shape):
        raise FallBackToRows("a key that no column can hold")
    if isinstance(shape, Atomic):
        return column_of(keys, shape)
    leaves = zip(values_of_leaves(keys, shape), cast(tuple[Atomic, ...], shape), strict=True)
    return CompositeKey([column_of(values, kind) for values, kind in leaves])


def key_codes(column: Column, length: int) -> tuple[Array, list[Any]]:
    """Return a number for each record, and the keys that the numbers stand for, in the order of their first records."""
    if column.constant:
        return np.zeros(length, np.int64), [column.data]
    if isinstance(column, CodedKey):
        return column.codes
    if isinstance(column, CompositeKey):
        codes, count = column.codes(length)
        firsts = np.empty(count, np.int64)
        firsts[codes[::-1]] = np.arange(length - 1, -1, -1)  # of several for one place the last one stays
        return codes, column.take(firsts).to_list(count)
    if isinstance(column, Rope) and column.variable is not None and not column.made:
        codes, values = key_codes(column.variable, length)
        return codes, column.over(column_of(values, column.variable.kind)).to_list(len(values))
    encoded = _encoded(column)
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()


def numbers_in(column: Column) -> Column | None:
    """Return a number per text of a column, equal for equal texts; ``None`` if it is no text, or not of that kind."""
    given = column.variable if isinstance(column, Rope) and not column.made else None
    return given if given is not None and given.kind == INT else None


class Slots:
    """Numbers keys from 0 on, in the order in which they first came; ``keys`` are the keys by number."""

    def __init__(self) -> None:
        self.keys: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._low = 0
        self._table: Array = np.empty(0, np.int64)
        #: of texts with a number in them, by what is around it: the numbers, and the slots of their texts
        self._numbered: dict[tuple[TextPart, ...], tuple[Slots, Array]] = {}

    def __len__(self) -> int:
        return len(self.keys)

    def find(self, column: Column, length: int) -> Array:
        """Return the number of each record's key; new keys get new numbers."""
        if column.kind == INT and not column.constant:
            low, high = column.bounds()
            if high - low < _DENSE and self._reaches(low, high):
                return self._dense(column.data)
        given = numbers_in(column)
        if given is not None:
            return self._by_numbers(cast(Rope, column), given, length)
        codes, keys = key_codes(column, length)
        return self._numbers_of(keys).take(codes)

    def _numbers_of(self, keys: list[Any]) -> Array:
        try:
            # Hot: keys that are known, 27 ns each in place of 61. ``None``, which is no int, is a new one.
            return np.fromiter(map(self._numbers.get, keys), np.int64, len(keys))
        except TypeError:
            return np.array([self._number(key) for key in keys], np.int64)

    def _by_numbers(self, texts: Rope, given: Column, length: int) -> Array:
        """Find texts by the numbers in them: a text is made when its number first comes."""
        numbers, slots = self._numbered.get(texts.pieces, (Slots(), np.empty(0, np.int64)))
        found = numbers.find(given, length)
        new = numbers.keys[len(slots) :]
        if new:
            made = texts.over(column_of(new, INT)).to_list(len(new))
            slots = np.append(slots, [self._number(text) for text in made])
            self._numbered[texts.pieces] = numbers, slots
        return slots.take(found)

    def _number(self, key: Any) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.keys)
            self.keys.append(key)
            if type(key) is int and 0 <= key - self._low < len(self._table):
                self._table[key - self._low] = number
        return number

    def _reaches(self, low: int, high: int) -> bool:
        """Make the table reach from ``low`` to ``high``, unless it would be too wide."""
        if not len(self._table):
            self._low, self._table = low, np.full(high - low + 1, -1, np.int64)
        elif low < self._low or high >= self._low + len(self._table):
            least, most = min(low, self._low), max(high, self._low + len(self._table) - 1)
            if most - least >= _DENSE:
                return False
            most = max(most, min(least + 2 * len(self._table), least + _DENSE - 1))
            table = np.full(most - least + 1, -1, np.int64)
            table[self._low - least : self._low - least + len(self._table)] = self._table
            self._low, self._table = least, table
        else:
            return True
        for key, number in self._numbers.items():
            if 0 <= key - self._low < len(self._table):
                self._table[key - self._low] = number
        return True

    def _dense(self, keys: Array) -> Array:
        places = keys - self._low if self._low else keys
        numbers = self._table.take(places)
        if len(numbers) and numbers.min() < 0:
            new, first = np.unique(keys[numbers < 0], return_index=True)
            for key in new[np.argsort(first)].tolist():
                self._number(key)
            numbers = self._table.take(places)
        return numbers


__all__ = [
    "CodedKey", "CompositeKey", "Slots", "coded", "column_of_keys", "key_codes", "key_of", "numbered", "numbers_in",
]  # fmt: skip
