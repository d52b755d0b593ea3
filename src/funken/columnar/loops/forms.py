"""Functions of lists, computed for all lists of a block: ``None`` where the result may not be Python's.

Loads NumPy: import it late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funken.columnar.expressions import BOOL, HIGHEST, INT, STR, ListOf
from funken.columnar.kernels.arithmetic import FallBackToRows
from funken.columnar.kernels.columns import Array, Column, Columns, Lists, lists_of


def _as_lists(column: Column) -> Lists:
    assert isinstance(column, Lists)
    return column


def _starts(lists: Lists) -> Array:
    """Return where the lists begin in their content."""
    return lists.offsets[:-1] - lists.offsets[0]


def _numbers(lists: Lists, kind: str) -> Array | None:
    """Return the items as an array, if they are all of a kind that arrays hold."""
    content = lists.content()
    if content.schema != kind or not content.length:
        return None
    return content.leaves[0].array(content.length)


def _length(column: Column) -> Column:
    counts = _as_lists(column).counts()
    return Column(INT, counts, False, 0, int(counts.max()) if len(counts) else 0)


def _truth(column: Column) -> Column:
    return Column(BOOL, _as_lists(column).counts() > 0)


def _true_in(lists: Lists, mask: Array) -> Array:
    """Return how many items of each list are true."""
    before = np.zeros(len(mask) + 1, np.int64)
    np.cumsum(mask, out=before[1:])
    return before[lists.offsets[1:] - lists.offsets[0]] - before[_starts(lists)]


def _any(column: Column) -> Column | None:
    lists = _as_lists(column)
    mask = _numbers(lists, BOOL)
    return None if mask is None else Column(BOOL, _true_in(lists, mask) > 0)


def _all(column: Column) -> Column | None:
    lists = _as_lists(column)
    mask = _numbers(lists, BOOL)
    return None if mask is None else Column(BOOL, _true_in(lists, mask) == lists.counts())


def _sum(column: Column, *start: Column) -> Column | None:
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


def _total(column: Column, start: Column) -> Column | None:
    if not isinstance(column, Lists) or start.kind == STR:
        return None
    found = _sum(column)
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


def _contains(needle: Column, column: Column) -> Column | None:
    if not isinstance(column, Lists) or not needle.constant:
        return None
    content = column.content()
    if not content.length:
        return None
    (leaf,) = content.leaves
    if leaf.constant:
        mask = np.full(content.length, leaf.data == needle.data)
    elif leaf.kind == STR:
        from funken.columnar.kernels.ropes import find_text  # noqa: PLC0415 - Arrow takes 0.1 s, and is needed for text only

        mask = find_text("is", leaf, needle.data).array(content.length)
    else:
        mask = leaf.array(content.length) == needle.data
    return Column(BOOL, _true_in(column, mask) > 0)


def _chain(column: Column) -> Column:
    """Return the items of the lists in lists, in one each."""
    lists = _as_lists(column)
    content = lists.content()
    inner = lists_of(content.leaves[0], content.length)
    return Lists(_list_kind(inner), inner.offsets[lists.offsets - lists.offsets[0]], inner.items)


def _list_kind(column: Column) -> ListOf:
    assert isinstance(column.kind, ListOf)
    return column.kind


def _item(column: Column, index: Column) -> Column | None:
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


FORMS: dict[str, Callable[..., Any]] = {
    "len": _length, "truth": _truth, "any": _any, "all": _all, "sum": _sum, "min": _extreme(np.minimum.reduceat),
    "max": _extreme(np.maximum.reduceat), "in": _contains, "item": _item, "chain": _chain,
    "total": _total,
}  # fmt: skip
"""By function, what computes it; the first column that is no constant has lists."""

__all__ = ["FORMS", "item_at"]
