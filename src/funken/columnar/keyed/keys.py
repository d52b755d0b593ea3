"""Keys as numbers, alike for equal ones, in the order in which they first came.

Keys are columns of int or str, or tuples of these: of those, equal keys are equal objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from zlib import crc32

import numpy as np

from funken.columnar.expressions import Expression, schema_of_value
from funken.columnar.kernels.columns import Array, Column, Columns, column_of, pa, values_of_leaves
from funken.columnar.kernels.evaluation import FallBackToRows, evaluate
from funken.columnar.kernels.text import Rope, TextPart
from funken.expr.types import INT, STR, Atomic, Object, is_key
from funken.state.keygroups import KeyRouter, key_group_of, stable_hash, subtask_of

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
        """Return a number for each key, in the order of their first records, and the number of keys."""
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
    """Return a number for each record, alike for those of one key, and a bound above all of them."""
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
    """A key that is looked up in several tables: the result of ``key_codes`` is kept."""

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
    """Return a number per text of a column, equal for equal texts; ``None`` if it is not such a text."""
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

    def __contains__(self, key: Any) -> bool:
        return key in self._numbers

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


# ---- Where keys belong: their hashes, and the subtasks that own them.
#
# Every result here is that of ``state/keygroups.py`` for the Python key, so that both paths agree on which subtask
# owns a key.


_MOST_TEXTS = 200_000
"""Owners of more texts than this are forgotten, as those of other keys are."""


def hashes(numbers: Array) -> Array:
    """Return ``stable_hash`` of ints, as 64-bit unsigned numbers.

    >>> from funken.state.keygroups import stable_hash
    >>> some = [0, 1, -1, -2, 2**61 - 1, 2**61, -(2**63), 2**63 - 1]
    >>> hashes(np.array(some)).tolist() == [stable_hash(number) for number in some]
    True
    """
    prime = np.uint64((1 << 61) - 1)
    negative = numbers < 0
    unsigned = numbers.astype(np.uint64)
    size = np.where(negative, ~unsigned + np.uint64(1), unsigned) % prime
    hashed = np.where(negative, ~size + np.uint64(1), size)
    hashed = np.where(hashed == ~np.uint64(0), ~np.uint64(1), hashed)  # hash(-1) is -2
    # number >> 32 of a negative number: its sign comes in from the left.
    shifted = (hashed.view(np.int64) >> np.int64(32)).view(np.uint64)
    return _mixed(hashed ^ shifted)


def _mixed(h: Array) -> Array:
    """Spread 32-bit values over all their bits, as ``stable_hash`` does."""
    mask = np.uint64(0xFFFFFFFF)
    h = h & mask
    h ^= h >> np.uint64(16)
    h = (h * np.uint64(0x85EBCA6B)) & mask
    h ^= h >> np.uint64(13)
    h = (h * np.uint64(0xC2B2AE35)) & mask
    return h ^ (h >> np.uint64(16))


def hashes_of_column(column: Column, length: int) -> Array:
    """Return ``stable_hash`` of each record's key, as 64-bit unsigned numbers.

    >>> from funken.columnar.keyed.keys import column_of_keys
    >>> from funken.state.keygroups import stable_hash
    >>> keys = [(1, "a"), (-1, "b"), (2**40, "a")]
    >>> hashes_of_column(column_of_keys(keys), 3).tolist() == [stable_hash(key) for key in keys]
    True
    """
    if column.constant:
        return np.full(length, stable_hash(column.data), np.uint64)
    if column.kind == INT:
        return hashes(column.data)
    if isinstance(column, CompositeKey):
        return combined([hashes_of_column(item, length) for item in column.items], length)
    codes, values = key_codes(column, length)
    return hashes_of(values).take(codes)


def _owners_of(hashed: Array, max_parallelism: int, parallelism: int) -> Array:
    """Return the subtasks that own keys with these hashes."""
    groups = hashed % np.uint64(max_parallelism)
    return (groups * np.uint64(parallelism) // np.uint64(max_parallelism)).astype(np.uint16)


class KeyTargets:
    """The subtask that owns each key of a column."""

    def __init__(self, max_parallelism: int, parallelism: int) -> None:
        self._max_parallelism = max_parallelism
        self._parallelism = parallelism
        self._subtask_of = KeyRouter(max_parallelism, parallelism, lambda subtask: subtask)
        self._low = 0
        self._table: Array = np.empty(0, np.uint16)
        self._texts = Slots()
        self._owners_of_texts: Array = np.empty(0, np.uint16)

    def of(self, column: Column, length: int) -> Array | int:
        """Return the subtasks; one number if there is only one for all records."""
        if self._parallelism == 1:
            return 0
        if column.constant:
            group = key_group_of(column.data, self._max_parallelism)
            return subtask_of(group, self._max_parallelism, self._parallelism)
        if column.kind == INT:
            return self._of_ints(column)
        if isinstance(column, CompositeKey):
            return self._owners(hashes_of_column(column, length))
        owners = self._subtask_of
        if numbers_in(column) is None:
            codes, keys = key_codes(column, length)
            return np.array(owners.of(keys), np.uint16).take(codes)
        if len(self._texts) > _MOST_TEXTS:
            self._texts, self._owners_of_texts = Slots(), np.empty(0, np.uint16)
        slots = self._texts.find(column, length)
        new = owners.of(self._texts.keys[len(self._owners_of_texts) :])
        self._owners_of_texts = np.append(self._owners_of_texts, np.array(new, np.uint16))
        return self._owners_of_texts.take(slots)

    def _of_ints(self, column: Column) -> Array:
        low, high = column.bounds()
        if high - low >= _DENSE:
            return self._owners(hashes(column.data))
        if low < self._low or high >= self._low + len(self._table):
            least, most = low, high
            if len(self._table):
                least, most = min(low, self._low), max(high, self._low + len(self._table) - 1)
            if most - least >= _DENSE:
                least, most = low, high
            self._low, self._table = least, self._owners(hashes(np.arange(least, most + 1, dtype=np.int64)))
        return self._table.take(column.data - self._low if self._low else column.data)

    def _owners(self, hashed: Array) -> Array:
        return _owners_of(hashed, self._max_parallelism, self._parallelism)


def hashes_of(keys: Sequence[Any]) -> Array:
    """Return ``stable_hash`` of keys of any type, as 64-bit unsigned numbers.

    >>> keys = [1, -1, 2**70, "a", ("a", 1), ("b", 2), None]
    >>> [hashes_of(some).tolist() == [stable_hash(key) for key in some] for some in (keys, keys[:2], keys[4:6])]
    [True, True, True]
    """
    kinds = set(map(type, keys))
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is int:
        try:
            return hashes(np.fromiter(keys, np.int64, len(keys)))
        except OverflowError:  # more than 64 bits
            pass
    elif kind is str:
        return _mixed(np.array([crc32(key.encode("utf-8", "surrogatepass")) for key in keys], np.uint64))
    elif kind is tuple and len(set(map(len, keys))) == 1:
        return combined([hashes_of(items) for items in zip(*keys, strict=True)], len(keys))
    return np.array([stable_hash(key) for key in keys], np.uint64)


def combined(parts: Sequence[Array], length: int) -> Array:
    """Return ``stable_hash`` of tuples, by the hashes of each of their items.

    >>> combined([hashes_of([1, 2]), hashes_of(["a", None])], 2).tolist() == [stable_hash((1, "a")), stable_hash((2, None))]
    True
    """
    h = np.full(length, 0x345678 + len(parts), np.uint64)
    for part in parts:
        h = _mixed(h * np.uint64(31) + part)
    return h


class KeyOwners:
    """Deals keys out to the subtasks that own them, and counts the different ones.

    >>> owners = KeyOwners(max_parallelism=128, parallelism=2, bits=1 << 10)
    >>> owners.deal([10, 11, 12, 10]), owners.count()
    ([[0, 1, 3], [2]], 3)
    """

    def __init__(self, max_parallelism: int, parallelism: int, bits: int) -> None:
        self._max_parallelism = max_parallelism
        self._parallelism = parallelism
        self._seen = np.zeros(bits, np.bool_)

    def deal(self, keys: list[Any]) -> list[list[int]]:
        """Return the positions of the keys of each subtask; raises ``KeyNotHashable``."""
        return [positions.tolist() for positions in self.deal_hashed(hashes_of(keys))]

    def deal_hashed(self, hashed: Array) -> list[Array]:
        """Return the positions of the keys of each subtask, by their hashes."""
        self._seen[hashed & np.uint64(len(self._seen) - 1)] = True
        owners = _owners_of(hashed, self._max_parallelism, self._parallelism)
        return [np.flatnonzero(owners == subtask) for subtask in range(self._parallelism)]

    def count(self) -> int:
        """Return an estimate of the different keys since the last call; no more than there are bits."""
        count = int(self._seen.sum())
        self._seen[:] = False
        return count


# ---- Pairs of numbers as numbers from 0 on, in the order in which they first came: a hash table that takes a step
# for all at once.
#
# The table has open addresses, and at most half of its places are taken. A pair that is not at its place is looked
# for at the next one, with all others that were not found; that takes a few passes over ever fewer pairs.


_FEWEST = 1 << 10
_BITS = 32
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: Knuth, The Art of Computer Programming, 6.4


class PairSlots:
    """Numbers pairs of ints from 0 to 2**31.

    >>> slots = PairSlots()
    >>> slots.find(np.array([0, 7, 0]), np.array([1, 1, 1])).tolist(), slots.find(np.array([7, 1]), np.array([1, 0])).tolist()
    ([0, 1, 0], [1, 2])
    >>> slots.pair(1), len(slots)
    ((7, 1), 3)
    """

    def __init__(self) -> None:
        self._known: Array = np.empty(_FEWEST, np.int64)
        """The pairs by their numbers; there is room for more."""
        self._count = 0
        self._clear(_FEWEST)

    def _clear(self, places: int) -> None:
        self._pairs: Array = np.full(places, -1, np.int64)
        self._slots: Array = np.empty(places, np.int64)
        self._shift = np.uint64(64 - places.bit_length() + 1)

    def __len__(self) -> int:
        return self._count

    def pair(self, slot: int) -> tuple[int, int]:
        """Return the pair of a number."""
        pair = int(self._known[slot])
        return pair >> _BITS, pair & ((1 << _BITS) - 1)

    def firsts(self, slots: Array) -> Array:
        """Return the first numbers of the pairs of some numbers."""
        return self._known.take(slots) >> _BITS

    def find(self, firsts: Array, seconds: Array) -> Array:
        """Return the number of each pair; new pairs get new numbers."""
        pairs = (firsts << _BITS) | seconds
        found, missing = self._look_up(pairs)
        if len(missing):
            each = pa.array(pairs.take(missing)).dictionary_encode()
            found[missing] = each.indices.to_numpy() + self._count
            self._add(each.dictionary.to_numpy())
        return found

    def _places(self, pairs: Array) -> Array:
        return ((pairs.astype(np.uint64) * _MULTIPLIER) >> self._shift).astype(np.int64)

    def _look_up(self, pairs: Array) -> tuple[Array, Array]:
        """Return the numbers of pairs, and the positions of those that have none."""
        found: Array = np.empty(len(pairs), np.int64)
        missing: list[Array] = []
        places, left, last = self._places(pairs), np.arange(len(pairs)), len(self._pairs) - 1
        while len(left):
            there = self._pairs.take(places)
            is_it, is_free = there == pairs, there < 0
            found[left[is_it]] = self._slots.take(places[is_it])
            missing.append(left[is_free])
            on = ~(is_it | is_free)
            places, pairs, left = (places[on] + 1) & last, pairs[on], left[on]
        return found, np.sort(np.concatenate(missing)) if missing else left

    def _add(self, pairs: Array) -> None:
        """Assign numbers to pairs that have none, each of which comes once."""
        begin, self._count = self._count, self._count + len(pairs)
        if self._count > len(self._known):
            larger: Any = np.empty(2 * self._count, np.int64)
            larger[:begin] = self._known[:begin]
            self._known = larger
        self._known[begin : self._count] = pairs
        if 2 * self._count > len(self._pairs):
            self._clear(1 << (4 * self._count - 1).bit_length())
            begin, pairs = 0, self._known[: self._count]
        self._insert(pairs, np.arange(begin, self._count))

    def _insert(self, pairs: Array, slots: Array) -> None:
        places, last = self._places(pairs), len(self._pairs) - 1
        while len(pairs):
            free = self._pairs.take(places) < 0
            self._pairs[places[free]] = pairs[free]  # of several for one place the last one stays
            is_there = self._pairs.take(places) == pairs
            self._slots[places[is_there]] = slots[is_there]
            on = ~is_there
            places, pairs, slots = (places[on] + 1) & last, pairs[on], slots[on]
