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
from typing import Any

import numpy as np

from funken.columnar.kernels.arithmetic import FallBackToRows
from funken.columnar.kernels.arrow import pa, pc
from funken.columnar.kernels.columns import Array, Column, Columns, Lists, column_of, joined_columns, lists_of
from funken.columnar.kernels.times import Times
from funken.expr.python.objects import CLASSES
from funken.expr.python.operation import OperationRule
from funken.expr.python.table import TABLE, bound_to
from funken.expr.types import ARRAYS, BOOL, FLOAT, INT, NONE, STR, Atomic, ListOf, Type, optional

Value = Column | tuple["Value", ...]
"""What an expression comes to: a column, or a tuple of such."""

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
    """Return what a column holds, as rows of the table call it."""
    if isinstance(column, Lists):
        return "lists"
    if isinstance(column, Times):
        return "times"
    return "texts" if column.kind == STR else "numbers" if column.kind in (INT, FLOAT) else "objects"


@cache
def kernel_of(name: str, held: str) -> Callable[..., Column | None] | None:
    """Return what computes an operation for a block at once, by the first column that is no constant."""
    module, _, kernel = TABLE[name].kernel(held).rpartition(".")
    if not kernel:
        return None
    # Not before: Arrow takes 0.1 s, and is needed for text only.
    found: Callable[..., Column | None] = getattr(importlib.import_module(f"funken.columnar.{module}"), kernel)
    return found


def _looked_up(name: str, columns: list[Column], key: Column, kind: Atomic, length: int) -> Column | None:
    """Return what a table has for keys, or whether it has them; ``None`` if that is not what is asked, or not worth it."""
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
    """Return what is called with the other columns, if that is cheaper for one that has the same value for all records."""
    for position, column in enumerate(columns):
        bound = bound_to(row, position, column.data) if column.constant else None
        if bound is not None:
            return bound, columns[:position] + columns[position + 1 :]
    return row.function, columns


def _each(function: Callable[..., Any], columns: list[Column], kind: Atomic, length: int) -> Column:
    values = [repeat(each.data) if each.constant else each.to_list(length) for each in columns]
    return _packed(_called(function, values), kind)


def _runs(columns: list[Column], length: int) -> tuple[Array, Array] | None:
    """Return where the values of one column change, and after how many records, if it does so for few of them.

    Streams have many records of one millisecond, and what is computed of it is the same for all of them.
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
    """Return which values are others than those before them, by their bits; objects are the same if they are one.

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


__all__ = ["Value", "flattened", "kernel_of", "merged", "rowwise", "taken", "value_of"]
