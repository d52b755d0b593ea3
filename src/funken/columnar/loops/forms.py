"""Functions of lists, computed for all lists of a block: ``None`` where the result may not be Python's.

Loads NumPy: import it late.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from funken.columnar.kernels.arithmetic import FallBackToRows
from funken.columnar.kernels.columns import Array, Column, Columns, Lists, joined, lists_of, offsets_of
from funken.columnar.kernels.ropes import find_text
from funken.columnar.kernels.text import places_in_order
from funken.expr.types import BOOL, FLOAT, HIGHEST, INT, LOWEST, STR, Atomic, ListOf, Tuple


def _as_lists(column: Column) -> Lists:
    assert isinstance(column, Lists)
    return column


def _starts(lists: Lists) -> Array:
    """Return where the lists begin in their content."""
    return lists.offsets[:-1] - lists.offsets[0]


def _numbers(lists: Lists, kind: Atomic) -> Array | None:
    """Return the items as an array, if they are all of a kind that arrays hold."""
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
    """Return how many items of each list are true."""
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
    """Return the sum of items and what was before."""
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
    """Return what computes where the best of each list is, of those that are alike the first."""

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
    """Return where the different items of each list are, in order, and how many; ``None`` if they have no order."""
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
    """Return the order of items, list by list, and of each item its list and what is compared; ``None``: they have no order."""
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
