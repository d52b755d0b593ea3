"""Functions that are called for each value of columns, and kernels that do the same faster where they provably can.

What such a function raises, and a result of a type that the column has not, makes the block fall back to rows: there it happens
again, with its record.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice, repeat
from typing import Any, Protocol

import numpy as np

from funken.columnar.expressions import Expression, Listed, Loop
from funken.columnar.kernels.columns import (
    Array,
    Column,
    Columns,
    FallBackToRows,
    Lists,
    column_of,
    joined,
    joined_columns,
    lists_of,
    lists_with,
    offsets_of,
    pa,
    pc,
)
from funken.columnar.kernels.text import find_text, places_in_order
from funken.columnar.kernels.times import Times
from funken.expr.python.table import CLASSES, TABLE, OperationRule, bound_to
from funken.expr.types import (
    ARRAYS,
    BOOL,
    FLOAT,
    HIGHEST,
    INT,
    LOWEST,
    NONE,
    STR,
    Atomic,
    ListOf,
    Tuple,
    Type,
    atomic_fields,
    optional,
)

Value = Column | tuple["Value", ...]
"""The value of an expression: a column, or a tuple of such."""

_SAMPLE, _SHORTEST = 64, 2
"""A function is called once for a run of the same value, if runs have so many on average, also the first so many values."""

_PER_ITEM = 4
"""A table is looked up in at once for so many records per item."""


def rowwise(name: str, columns: list[Column], kind: Atomic, length: int) -> Column:
    """Compute an operation of ``expr/python`` by its kernel, or call it for each value; raises ``FallBackToRows``.

    >>> texts = column_of(["a,b", "c"], STR)
    >>> rowwise("str.upper", [texts], STR, 2).to_list(2)
    ['A,B', 'C']
    """
    row = TABLE[name]
    function = row.function
    first = next((column for column in columns if not column.constant), None)
    if first is None:
        once = _packed(_called(function, [[column.data] for column in columns]), kind)
        return (lists_of(once, 1) if isinstance(kind, ListOf) else once).take(np.zeros(length, np.int64))
    kernel = kernel_of(name, _held(first))
    if kernel is not None:
        with np.errstate(all="ignore"):
            found = kernel(*columns)
        if found is not None:
            return found
    looked_up = _looked_up(name, columns, first, kind, length)
    if looked_up is not None:
        return looked_up
    function, columns = _bound(row, columns)
    runs = _runs(columns, length) if not isinstance(kind.required, ListOf) else None
    if runs is not None:
        firsts, counts = runs
        found = _each(function, [column.take(firsts) for column in columns], kind, len(firsts))
        return found.take(np.repeat(np.arange(len(firsts)), counts))
    return _each(function, columns, kind, length)


def _held(column: Column) -> str:
    """Return the content of a column, as rows of the table call it."""
    if isinstance(column, Lists):
        return "lists"
    if isinstance(column, Times):
        return "times"
    return "texts" if column.kind == STR else "numbers" if column.kind in (INT, FLOAT) else "objects"


@cache
def kernel_of(name: str, held: str) -> Callable[..., Column | None] | None:
    """Return the kernel of an operation for a whole block, by the first column that is no constant."""
    module, _, kernel = TABLE[name].kernel(held).rpartition(".")
    if not kernel:
        return None
    # Not before: Arrow takes 0.1 s, and is needed for text only.
    found: Callable[..., Column | None] = getattr(importlib.import_module(f"funken.columnar.{module}"), kernel)
    return found


def _looked_up(name: str, columns: list[Column], key: Column, kind: Atomic, length: int) -> Column | None:
    """Return a table's values for keys, or the presence of keys; ``None`` for other calls, or if not worth it."""
    place = {"get": 0, "item": 0, "in": 1}.get(name)
    if place is None or columns[1 - place] is not key or key.kind not in (INT, STR):
        return None
    table = columns[place].data if columns[place].constant else None
    if not isinstance(table, dict | frozenset) or len(table) * _PER_ITEM > length:
        return None
    if not all(column.constant for column in columns[2:]):
        return None
    wanted, arrow = (str, pa.string()) if key.kind == STR else (int, pa.int64())
    keys = [each for each in table if type(each) is wanted]
    if len(keys) < len(table):
        return None  # others may be equal: True is 1
    try:
        found = pc.index_in(pa.array(key.data), value_set=pa.array(keys, arrow))
    except (pa.ArrowInvalid, OverflowError):  # a key that fits into no column
        return None
    places = found.fill_null(len(keys)).to_numpy(zero_copy_only=False)
    if name == "in" or isinstance(table, frozenset):
        return Column(BOOL, places < len(keys))
    if name == "item" and bool((places == len(keys)).any()):
        raise FallBackToRows("a key that a table has not")
    values = [table[each] for each in keys]
    if name == "get":
        values.append(columns[2].data)
    return _packed(values, kind).take(places)


def _bound(row: OperationRule, columns: list[Column]) -> tuple[Callable[..., Any], list[Column]]:
    """Return the function for the other columns, if it is cheaper for a column with one value for all records."""
    for position, column in enumerate(columns):
        bound = bound_to(row, position, column.data) if column.constant else None
        if bound is not None:
            return bound, columns[:position] + columns[position + 1 :]
    return row.function, columns


def _each(function: Callable[..., Any], columns: list[Column], kind: Atomic, length: int) -> Column:
    values = [repeat(each.data) if each.constant else each.to_list(length) for each in columns]
    return _packed(_called(function, values), kind)


def _runs(columns: list[Column], length: int) -> tuple[Array, Array] | None:
    """Return the places where the values of one column change, and the counts, if it does so for few records.

    Streams have many records of one millisecond, and a value computed of it is the same for all of them.
    """
    varying = [column for column in columns if not column.constant]
    if len(varying) > 1 or varying[0].kind == STR or isinstance(varying[0], Lists) or length < _SAMPLE:
        return None
    data = varying[0].data
    if np.count_nonzero(_changes(data[:_SAMPLE])) * _SHORTEST > _SAMPLE:
        return None
    firsts = np.flatnonzero(_changes(data))
    return (firsts, np.diff(firsts, append=length)) if len(firsts) * _SHORTEST <= length else None


def _changes(data: Array) -> Array:
    """Return a mask of values that differ from those before them, by their bits; objects by their identity.

    >>> _changes(np.array([1.0, 1.0, 0.0, -0.0])).tolist()
    [True, False, True, True]
    """
    changes = np.ones(len(data), np.bool_)
    if data.dtype == np.object_:
        values = data.tolist()
        changes[1:] = np.fromiter(map(operator.is_not, values, islice(values, 1, None)), np.bool_, len(values) - 1)
    else:
        bits = data.view(np.int64) if data.dtype == np.float64 else data
        np.not_equal(bits[1:], bits[:-1], out=changes[1:])
    return changes


def _called(function: Callable[..., Any], values: list[Any]) -> list[Any]:
    try:
        return list(map(function, *values))
    except Exception as error:
        raise FallBackToRows(f"a function raises {type(error).__name__}") from error


def _packed(values: list[Any], kind: Atomic) -> Column:
    if isinstance(kind.required, ListOf):
        return Column(kind, np.fromiter(values, np.object_, len(values)))  # of a function that makes no other lists
    allowed = {CLASSES[kind.required]}
    if kind.is_optional:
        allowed.add(type(None))
    if not set(map(type, values)) <= allowed:
        raise FallBackToRows("results of another type")
    try:
        return column_of(values, kind)
    except Exception as error:  # an int of more than 64 bits, half of a surrogate pair
        raise FallBackToRows("results that fit into no column") from error


def value_of(block: Columns) -> Value:
    """Return the columns of a block, in tuples as their records are."""
    return _nested(block.schema, iter(block.leaves))


def _nested(schema: Type, leaves: Iterator[Column]) -> Value:
    # Not a closure that calls itself: each is a cycle, and only the cyclic collector frees it and the block it holds.
    return next(leaves) if isinstance(schema, Atomic) else tuple(_nested(inner, leaves) for inner in schema)


def flattened(value: Value) -> list[Column]:
    """Return the columns of a value, from left to right."""
    return [value] if isinstance(value, Column) else [leaf for inner in value for leaf in flattened(inner)]


def taken(value: Value, positions: Array) -> Value:
    """Return the values of a column, or of columns in tuples, at some positions."""
    return value.take(positions) if isinstance(value, Column) else tuple(taken(each, positions) for each in value)


def merged(values: list[Value], places: list[Array]) -> Value:
    """Put results together, which belong to the records at these places; each record is at one of them.

    >>> odd, even = column_of([1, 3], INT), column_of([0, 2], INT)
    >>> merged([odd, even], [np.array([1, 3]), np.array([0, 2])]).to_list(4)
    [0, 1, 2, 3]
    """
    lengths = [len(each) for each in places]
    order = np.empty(sum(lengths), np.int64)
    order[np.concatenate(places)] = np.arange(len(order))
    return _merged(values, lengths, order)


def _merged(values: list[Any], lengths: list[int], order: Array) -> Value:
    first: Value = values[0]
    if isinstance(first, tuple):
        return tuple(_merged(list(items), lengths, order) for items in zip(*values, strict=True))
    if all(each is first or (each.constant and each.data is first.data) for each in values) and first.constant:
        return first
    kinds = {each.kind for each in values}
    if len(kinds) == 1 and first.kind in ARRAYS:
        return joined_columns(values, lengths).take(order)
    (kind,) = {each.required for each in kinds} - {NONE} or {NONE}
    items = [item for each, length in zip(values, lengths, strict=True) for item in each.to_list(length)]
    return column_of(items, first.kind if len(kinds) == 1 else optional(kind)).take(order)


# ---- Loops over lists, computed for all items of a block at once. Loads NumPy: import it late.


class Computed(Protocol):
    """An expression over the records of a block, or over the items of their lists."""

    length: int

    def of(self, expression: Expression) -> Value:
        """Compute an expression."""
        ...

    def truth(self, value: Value) -> Column:
        """Compute whether values are true."""
        ...

    def at(self, positions: Array, items: dict[int, Value]) -> Computed:
        """Go over to some positions, each with an item of a list."""
        ...


def looped(loop: Loop, outer: Computed) -> Lists:
    """Return the results of a loop for each record."""
    column = outer.of(loop.items)
    assert isinstance(column, Column)
    lists = lists_of(column, outer.length)
    content, owners = lists.content(), np.repeat(np.arange(outer.length), lists.counts())
    inner = outer.at(owners, {loop.number: value_of(content)}) if content.length else None
    for condition in loop.conditions:
        if inner is None:
            break
        kept = _kept(inner.truth(inner.of(condition)))
        if kept is not None:
            owners = owners.take(kept)
            inner = inner.at(kept, {}) if len(kept) else None
    if inner is None:
        return _empty(loop.schema, outer.length)
    results = Columns(loop.schema, flattened(inner.of(loop.result)), inner.length)
    return lists_with(loop.schema, np.bincount(owners, minlength=outer.length), results)


def _empty(schema: Type, length: int) -> Lists:
    leaves = [column_of([], kind) for _, kind in atomic_fields(schema)]
    return lists_with(schema, np.zeros(length, np.int64), Columns(schema, leaves, 0))


def displayed(made: Listed, outer: Computed) -> Lists:
    """Return a display for each record."""
    count, length = len(made.items), outer.length
    if not count:
        return _empty(made.schema, length)
    blocks = [Columns(made.schema, flattened(outer.of(each)), length) for each in made.items]
    order = np.arange(count * length).reshape(count, length).T.ravel()
    return lists_with(made.schema, np.full(length, count), joined(blocks).take(order))


def _kept(truth: Column) -> Any:
    """Return the positions where a condition is true; ``None``: everywhere."""
    if truth.constant:
        return None if truth.data else np.empty(0, np.int64)
    return None if truth.data.all() else np.flatnonzero(truth.data)


# ---- Functions of lists, computed for all lists of a block: ``None`` where the result may not be Python's.
#
# Loads NumPy: import it late.


def _as_lists(column: Column) -> Lists:
    assert isinstance(column, Lists)
    return column


def _starts(lists: Lists) -> Array:
    """Return the beginnings of the lists in their content."""
    return lists.offsets[:-1] - lists.offsets[0]


def _numbers(lists: Lists, kind: Atomic) -> Array | None:
    """Return the items as an array, if they are all of a type that arrays hold."""
    content = lists.content()
    if content.schema != kind or not content.length:
        return None
    return content.leaves[0].array(content.length)


def length(column: Column) -> Column:
    """Return ``len(items)``."""
    counts = _as_lists(column).counts()
    return Column(INT, counts, False, 0, int(counts.max()) if len(counts) else 0)


def is_not_empty(column: Column) -> Column:
    """Return ``bool(items)``."""
    return Column(BOOL, _as_lists(column).counts() > 0)


def _true_in(lists: Lists, mask: Array) -> Array:
    """Return the number of true items of each list."""
    before = np.zeros(len(mask) + 1, np.int64)
    np.cumsum(mask, out=before[1:])
    return before[lists.offsets[1:] - lists.offsets[0]] - before[_starts(lists)]


def any_true(column: Column) -> Column | None:
    """Return ``any(items)``."""
    lists = _as_lists(column)
    mask = _numbers(lists, BOOL)
    return None if mask is None else Column(BOOL, _true_in(lists, mask) > 0)


def all_true(column: Column) -> Column | None:
    """Return ``all(items)``."""
    lists = _as_lists(column)
    mask = _numbers(lists, BOOL)
    return None if mask is None else Column(BOOL, _true_in(lists, mask) == lists.counts())


def total(column: Column, *start: Column) -> Column | None:
    """Return ``sum(items)``."""
    lists = _as_lists(column)
    if start:
        return None
    bools = _numbers(lists, BOOL)
    if bools is not None:
        return Column(INT, _true_in(lists, bools))
    numbers = _numbers(lists, INT)
    if numbers is None:
        return None  # floats are added one after the other, in the way of this version of Python
    most = int(lists.counts().max()) * max(abs(int(numbers.min())), abs(int(numbers.max())))
    if most > HIGHEST:
        return None
    before = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(numbers, out=before[1:])  # this one may leave 64 bits, and the differences are right all the same
    return Column(INT, before[lists.offsets[1:] - lists.offsets[0]] - before[_starts(lists)], False, -most, most)


def total_from(column: Column, start: Column) -> Column | None:
    """Return the sum of items and a start value."""
    if not isinstance(column, Lists) or start.kind == STR:
        return None
    found = total(column)
    if found is None or (start.constant and type(start.data) is not int):
        return None
    low, high = found.bounds()
    least, most = (start.data, start.data) if start.constant else start.bounds() if start.kind == INT else (HIGHEST, 0)
    if low + least < -HIGHEST or high + most > HIGHEST:
        return None
    return Column(INT, found.data + start.data, False, low + least, high + most)


def _extreme(reduced: Callable[..., Array]) -> Callable[[Column], Column | None]:
    def form(column: Column) -> Column | None:
        lists = _as_lists(column)
        numbers = _numbers(lists, INT)
        if numbers is None or not int(lists.counts().min()):
            return None
        return Column(INT, reduced(numbers, _starts(lists)))

    return form


def contains(needle: Column, column: Column) -> Column | None:
    """Return ``needle in items``."""
    if not isinstance(column, Lists) or not needle.constant:
        return None
    content = column.content()
    if not content.length:
        return None
    (leaf,) = content.leaves
    if leaf.constant:
        mask = np.full(content.length, leaf.data == needle.data)
    elif leaf.kind == STR:
        mask = find_text("is", leaf, needle.data).array(content.length)
    else:
        mask = leaf.array(content.length) == needle.data
    return Column(BOOL, _true_in(column, mask) > 0)


def chained(column: Column) -> Column:
    """Return the items of the lists in lists, in one each."""
    lists = _as_lists(column)
    content = lists.content()
    inner = lists_of(content.leaves[0], content.length)
    return Lists(_list_kind(inner), inner.offsets[lists.offsets - lists.offsets[0]], inner.items)


def _list_kind(column: Column) -> ListOf:
    assert isinstance(column.kind, ListOf)
    return column.kind


def item(column: Column, index: Column) -> Column | None:
    """Return ``items[index]``."""
    if not isinstance(column, Lists):
        return None
    found = item_at(column, index)
    return found.leaves[0] if len(found.leaves) == 1 else None


def item_at(lists: Lists, index: Column) -> Columns:
    """Return an item of each list; raises ``FallBackToRows`` where one has not so many."""
    counts = lists.counts()
    places = np.full(len(counts), index.data, np.int64) if index.constant else index.data
    places = np.where(places < 0, places + counts, places)
    if not bool(((places >= 0) & (places < counts)).all()):
        raise FallBackToRows("an item that a list has not")
    return lists.items.take(lists.offsets[:-1] + places)


def joined_each(one: Column, other: Column) -> Column:
    """Return the items of two lists in one, the first ones first."""
    length = len((one if isinstance(one, Lists) else _as_lists(other)).offsets) - 1
    return joined_lists(lists_of(one, length), lists_of(other, length))


def joined_lists(one: Lists, other: Lists) -> Lists:
    """Return the items of two lists in one, the first ones first."""
    counts, more = one.counts(), other.counts()
    parts = [content for lists in (one, other) if (content := lists.content()).length]
    if not parts:
        return one
    owners = np.arange(len(counts))
    order = np.argsort(np.concatenate((np.repeat(owners, counts), np.repeat(owners, more))), kind="stable")
    return Lists(_list_kind(one), offsets_of(counts + more), joined(parts).take(order))


def sliced(column: Column, start: Column, stop: Column, step: Column) -> Column | None:
    """Return ``items[start:stop]``."""
    bounds = start.data, stop.data
    if not (start.constant and stop.constant and step.constant) or step.data not in (None, 1):
        return None
    lists = _as_lists(column)
    counts = lists.counts()
    first, last = (
        np.full(len(counts), 0 if number == 0 else HIGHEST) if bound is None else np.full(len(counts), bound)
        for number, bound in enumerate(bounds)
    )
    first, last = (np.minimum(np.where(each < 0, np.maximum(each + counts, 0), each), counts) for each in (first, last))
    kept = np.maximum(last - first, 0)
    offsets = offsets_of(kept)
    places = np.arange(int(offsets[-1])) + np.repeat(_starts(lists) + first - offsets[:-1], kept)
    return Lists(_list_kind(lists), offsets, lists.content().take(places))


def sorted_by(column: Column, keys: Column, reverse: Column) -> Column | None:
    """Return items in the order of their keys."""
    if not isinstance(column, Lists) or not isinstance(keys, Lists) or not reverse.constant:
        return None
    content = column.content()
    if not content.length:
        return column
    ordered = _ordered(keys, reverse.data)
    if ordered is None:
        return None
    return Lists(_list_kind(column), column.offsets - column.offsets[0], content.take(ordered[0]))


def _best_at(greatest: bool) -> Callable[[Column], Column | None]:
    """Return a function that computes the place of the best of each list, of equal ones the first."""

    def form(column: Column) -> Column | None:
        lists = _as_lists(column)
        ordered, starts = _ordered(lists, greatest), _starts(lists)
        if ordered is None or not int(lists.counts().min()):
            return None
        return Column(INT, ordered[0].take(starts) - starts)

    return form


def count_distinct(column: Column) -> Column | None:
    """Return ``len(set(items))``."""
    found = _firsts(_as_lists(column))
    return None if found is None else Column(INT, found[1])


def sorted_distinct(column: Column) -> Column | None:
    """Return ``sorted(set(items))``."""
    lists = _as_lists(column)
    found = _firsts(lists)
    return None if found is None else Lists(_list_kind(lists), offsets_of(found[1]), lists.content().take(found[0]))


def _firsts(lists: Lists) -> tuple[Array, Array] | None:
    """Return the first places of the different items of each list, and their numbers; ``None`` without an order."""
    ordered = _ordered(lists, False)
    if ordered is None:
        return None
    order, owners, codes = ordered
    differs: Array = np.ones(len(order), np.bool_)
    differs[1:] = False
    for each in (owners, *codes):
        by_order = each.take(order)
        differs[1:] |= by_order[1:] != by_order[:-1]
    kept = order[differs]
    return kept, np.bincount(owners.take(kept), minlength=len(lists.offsets) - 1)


def _ordered(lists: Lists, reverse: bool) -> tuple[Array, Array, list[Array]] | None:
    """Return the order of items, list by list, and per item its list and its code; ``None``: they have no order."""
    content = lists.content()
    found = [_codes(leaf.array(content.length), leaf.kind, reverse) for leaf in content.leaves if not leaf.constant]
    codes = [each for each in found if each is not None]
    if len(codes) < len(found) or not content.length:
        return None
    owners = np.repeat(np.arange(len(lists.offsets) - 1), lists.counts())
    return np.lexsort((*codes[::-1], owners)), owners, codes


def _codes(values: Array, kind: Atomic, reverse: bool) -> Array | None:
    """Return numbers in the order of values; ``None`` if there are none."""
    if kind == STR:
        values = places_in_order(values)
    elif kind == BOOL:
        values = values.astype(np.int64)
    elif kind == INT:
        if reverse and len(values) and int(values.min()) == LOWEST:
            return None
    elif kind != FLOAT or np.isnan(values).any():
        return None
    return -values if reverse else values


def enumerated(column: Column, start: Column) -> Column | None:
    """Return ``enumerate(items, start)`` as lists."""
    if not start.constant or type(start.data) is not int:
        return None
    lists = _as_lists(column)
    content, counts = lists.content(), lists.counts()
    begins = np.repeat(_starts(lists), counts)
    numbers = Column(INT, np.arange(content.length) - begins + start.data)
    schema = Tuple((INT, content.schema))
    return Lists(
        ListOf(schema), lists.offsets - lists.offsets[0], Columns(schema, [numbers, *content.leaves], content.length)
    )


least, greatest = _extreme(np.minimum.reduceat), _extreme(np.maximum.reduceat)
greatest_at, least_at = _best_at(True), _best_at(False)
