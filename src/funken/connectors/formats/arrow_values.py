"""Values as arrays of Arrow, without a loss: Arrow by itself cuts 1.5 down to 1, a ``datetime`` to its date, and drops zones.

A column is looked at by the types of its values, before Arrow converts them; what would come back as another value is refused.
"""

from __future__ import annotations

import datetime
import itertools
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from funken import extras
from funken.types.parsing import shown, without_zone

_UNITS = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 1}
"""Microseconds in a unit of time; those of nanoseconds are all kept."""


def array_of(values: Sequence[Any], kind: Any) -> Any:
    """Return values as an array; raises ``ValueError``, or what Arrow raises, for one that the type has no place for.

    >>> import pyarrow as pa
    >>> array_of([1, None], pa.int8()).to_pylist()
    [1, None]
    >>> array_of([1.5], pa.int8())
    Traceback (most recent call last):
    ...
    ValueError: 1.5 is no int8
    """
    check_values(values, kind)
    return extras.load("pyarrow").array(values, kind)


def check_values(values: Iterable[Any], kind: Any) -> None:
    """Raise ``ValueError`` for a value that would come back as another one."""
    of = extras.load("pyarrow").types
    there = [value for value in values if value is not None]
    if of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind):
        _refuse(there, lambda value: isinstance(value, str | bytes | dict), kind)
        check_values(itertools.chain.from_iterable(there), kind.value_type)
    elif of.is_map(kind):
        pairs = [value.items() if isinstance(value, Mapping) else value for value in there]
        check_values([key for each in pairs for key, _ in each], kind.key_type)
        check_values([item for each in pairs for _, item in each], kind.item_type)
    elif of.is_struct(kind):
        for field in kind:
            check_values([value.get(field.name) for value in there if isinstance(value, Mapping)], field.type)
    else:
        _check_singles(there, kind, of)


def _refuse(values: Iterable[Any], is_wrong: Callable[[Any], bool], kind: Any) -> None:
    for value in values:
        if is_wrong(value):
            raise ValueError(f"{shown(value)} is no {kind}")


def _check_singles(values: list[Any], kind: Any, of: Any) -> None:
    # Hot: the types of values are few, and looked at once.
    types = set(map(type, values))
    if of.is_integer(kind):
        if any(not issubclass(each, numbers.Integral) or issubclass(each, bool) for each in types):
            _refuse(values, lambda value: isinstance(value, bool) or not isinstance(value, numbers.Integral), kind)
    elif of.is_floating(kind):
        if of.is_float32(kind):
            _refuse(values, _is_beyond_single, kind)
    elif of.is_string(kind) or of.is_large_string(kind):
        if any(not issubclass(each, str) for each in types):
            _refuse(values, lambda value: not isinstance(value, str), kind)
    elif of.is_binary(kind) or of.is_large_binary(kind):
        if any(issubclass(each, str) for each in types):
            _refuse(values, lambda value: isinstance(value, str), kind)
    elif of.is_date(kind):
        if any(issubclass(each, datetime.datetime) for each in types):
            _refuse(values, lambda value: isinstance(value, datetime.datetime), kind)
    elif of.is_timestamp(kind) or of.is_time(kind):
        _check_times([each for each in values if isinstance(each, datetime.datetime | datetime.time)], kind, of)


def _is_beyond_single(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and abs(value) >= 3.4028235677973366e38


def check_singles(numbers: Any) -> None:
    """Raise ``ValueError`` for an array of NumPy with a number that is infinite in 32 bits only."""
    numpy = extras.load("numpy")
    with numpy.errstate(over="ignore"):
        beyond = numpy.isinf(numbers.astype("float32")) & numpy.isfinite(numbers)
    if beyond.any():
        raise ValueError(f"{numbers[beyond][0]} is beyond numbers of 32 bits")


def _check_times(values: list[Any], kind: Any, of: Any) -> None:
    if of.is_time(kind):
        _refuse(values, lambda value: value.tzinfo is not None, kind)
    elif kind.tz is None:
        for value in values:
            without_zone(value)
    step = _UNITS[kind.unit]
    if step > 1:
        for value in values:
            if value.microsecond % step:
                raise ValueError(f"{value.isoformat()} is finer than {kind}; round it")


__all__ = ["array_of", "check_singles", "check_values"]
