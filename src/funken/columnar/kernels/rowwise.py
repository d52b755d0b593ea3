"""Functions that are called for each value of columns, and kernels that do the same faster where they provably can.

What such a function raises, and a result of a type that the column has not, makes the block fall back to rows: there it happens
again, with its record.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from itertools import islice, repeat
from typing import Any

import numpy as np

from funken.columnar.expressions import ARRAYS, BOOL, FLOAT, INT, STR, without_none
from funken.columnar.kernels.arithmetic import FallBackToRows
from funken.columnar.kernels.columns import Array, Column, column_of, joined_columns
from funken.columnar.library import MATCH, OBJECTS, TEXTS, function_of

Value = Column | tuple["Value", ...]
"""What an expression comes to: a column, or a tuple of such."""

PARTS = "lists of Arrow"
_EXACT = 2.0**53
_SAMPLE, _SHORTEST = 64, 2
"""A function is called once for a run of the same value, if runs have so many on average, also the first so many values."""
_SPACES = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"
"""What ``strip`` takes for white space in ASCII."""

_TYPES: dict[str, type] = {INT: int, FLOAT: float, BOOL: bool, STR: str, TEXTS: list, MATCH: re.Match}
_TYPES |= {kind: cls for cls, kind in OBJECTS.items()}


def rowwise(name: str, columns: list[Column], kind: str, length: int) -> Column:
    """Call a function of ``library.py`` for the values of columns; raises ``FallBackToRows``.

    >>> texts = column_of(["a,b", "c"], "str")
    >>> rowwise("str.upper", [texts], "str", 2).to_list(2)
    ['A,B', 'C']
    """
    function = function_of(name)
    if all(column.constant for column in columns):
        return _packed(_called(function, [[column.data] for column in columns]), kind).take(np.zeros(length, np.int64))
    fast = _FAST.get(name)
    if fast is not None:
        found = fast(*columns)
        if found is not None:
            return found
    runs = _runs(columns, length) if without_none(kind) != TEXTS else None
    if runs is not None:
        firsts, counts = runs
        found = _each(function, [column.take(firsts) for column in columns], kind, len(firsts))
        return found.take(np.repeat(np.arange(len(firsts)), counts))
    return _each(function, columns, kind, length)


def _each(function: Callable[..., Any], columns: list[Column], kind: str, length: int) -> Column:
    values = [repeat(each.data) if each.constant else each.to_list(length) for each in columns]
    return _packed(_called(function, values), kind)


def _runs(columns: list[Column], length: int) -> tuple[Array, Array] | None:
    """Return where the values of one column change, and after how many records, if it does so for few of them.

    Streams have many records of one millisecond, and what is computed of it is the same for all of them.
    """
    varying = [column for column in columns if not column.constant]
    if len(varying) > 1 or varying[0].kind == STR or length < _SAMPLE:
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


def _packed(values: list[Any], kind: str) -> Column:
    allowed = {_TYPES[without_none(kind)]}
    if kind.endswith("?"):
        allowed.add(type(None))
    if not set(map(type, values)) <= allowed:
        raise FallBackToRows("results of another type")
    try:
        return column_of(values, kind)
    except Exception as error:  # an int of more than 64 bits, half of a surrogate pair
        raise FallBackToRows("results that fit into no column") from error


def taken(value: Value, positions: Array) -> Value:
    """Return the values of a column, or of columns in tuples, at some positions."""
    return value.take(positions) if isinstance(value, Column) else tuple(taken(each, positions) for each in value)


def merged(one: Value, other: Value, first: Array, second: Array) -> Value:
    """Put two results together, which belong to the records at ``first`` and at ``second``."""
    if isinstance(one, Column) and isinstance(other, Column):
        return _merged(one, other, first, second)
    assert isinstance(one, tuple)
    assert isinstance(other, tuple)
    return tuple(merged(*pair, first, second) for pair in zip(one, other, strict=True))


def _merged(one: Column, other: Column, first: Array, second: Array) -> Column:
    lengths = [len(first), len(second)]
    order = np.empty(sum(lengths), np.int64)
    order[first] = np.arange(lengths[0])
    order[second] = np.arange(lengths[0], sum(lengths))
    if one.kind != other.kind or one.kind not in ARRAYS:
        kind = (
            one.kind if one.kind == other.kind else without_none(one.kind if other.kind == "None" else other.kind) + "?"
        )
        return column_of(one.to_list(lengths[0]) + other.to_list(lengths[1]), kind).take(order)
    return joined_columns([one, other], lengths).take(order)


# ---- faster forms: None where the result may not be Python's


def _ascii(array: Any) -> bool:
    from funken.columnar.kernels.text import parts_of  # noqa: PLC0415 - Arrow takes 0.1 s, and is needed for text only

    offsets, content = parts_of(array)
    part = content[offsets[0] : offsets[-1]]
    return not len(part) or int(part.max()) < 128


def _arrow() -> Any:
    import pyarrow.compute as pc  # noqa: PLC0415 - the same

    return pc


def _cased(name: str) -> Callable[..., Column | None]:
    def cased(text: Column) -> Column | None:
        return Column(STR, getattr(_arrow(), f"ascii_{name}")(text.data)) if _ascii(text.data) else None

    return cased


def _stripped(text: Column, *characters: Column) -> Column | None:
    if characters or not _ascii(text.data):
        return None
    return Column(STR, _arrow().ascii_trim(text.data, characters=_SPACES))


def _replaced(text: Column, old: Column, new: Column, *count: Column) -> Column | None:
    if count or text.constant or not (old.constant and new.constant and old.data):
        return None
    return Column(STR, _arrow().replace_substring(text.data, pattern=old.data, replacement=new.data))


def _counted(text: Column, part: Column, *start: Column) -> Column | None:
    if start or text.constant or not part.constant or not part.data:
        return None
    return Column(
        INT, _arrow().count_substring(text.data, pattern=part.data).to_numpy(zero_copy_only=False).astype(np.int64)
    )


def _sliced(text: Column, start: Column, stop: Column, step: Column) -> Column | None:
    if text.kind != STR or text.constant or not (start.constant and stop.constant and step.constant):
        return None
    low, high = start.data or 0, stop.data
    if step.data not in (None, 1) or low < 0 or (high is not None and high < low):
        return None
    return Column(STR, _arrow().utf8_slice_codeunits(text.data, start=low, stop=high))


def text_parts(text: Column, part: str) -> Column:
    """Return ``text.split(part)`` for ``part_at``, as lists of Arrow: Python's cost more than the splitting."""
    texts = text.array(1) if text.constant else text.data
    return Column(PARTS, _arrow().split_pattern(texts, pattern=part), text.constant)


def part_at(parts: Column, number: int, length: int) -> Column:
    """Return ``parts[number]``; raises ``FallBackToRows`` where a text has not so many parts.

    >>> part_at(text_parts(column_of(["a,b", "c,d,e"], STR), ","), 1, 2).to_list(2)
    ['b', 'd']
    """
    if int(_arrow().min(_arrow().list_value_length(parts.data)).as_py()) <= number:
        raise FallBackToRows("an item that a list has not")
    items = Column(STR, _arrow().list_element(parts.data, number))
    return items.take(np.zeros(length, np.int64)) if parts.constant else items


def _root(number: Column) -> Column | None:
    if number.kind != FLOAT or number.constant or bool((number.data < 0).any()):
        return None
    return Column(FLOAT, np.sqrt(number.data))


def _whole(how: Callable[[Array], Array]) -> Callable[..., Column | None]:
    def whole(number: Column, *digits: Column) -> Column | None:
        if digits or number.kind != FLOAT or number.constant or not bool((np.abs(number.data) < _EXACT).all()):
            return None
        return Column(INT, how(number.data).astype(np.int64))

    return whole


_FAST: dict[str, Callable[..., Column | None]] = {
    "str.lower": _cased("lower"),
    "str.upper": _cased("upper"),
    "str.strip": _stripped,
    "str.replace": _replaced,
    "str.count": _counted,
    "slice": _sliced,
    "math.sqrt": _root,
    "math.floor": _whole(np.floor),
    "math.ceil": _whole(np.ceil),
    "math.trunc": _whole(np.trunc),
    "int": _whole(np.trunc),
    "round": _whole(np.rint),
}

__all__ = ["Value", "merged", "part_at", "rowwise", "taken", "text_parts"]
