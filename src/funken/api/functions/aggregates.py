"""Fields of records, and the functions behind ``sum``, ``min``, ``max``, ``min_by``, ``max_by`` and ``count``.

A field is named by position (tuples, lists, rows) or by name (dicts, rows, named tuples, dataclasses, any attribute).
A record that is a plain value has the one field 0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from copy import copy
from typing import Any, TypeAlias, TypeVar

from funken.dataclass import dataclass
from funken.errors import InvalidProgram

_NUMBERS = (int, float)
R = TypeVar("R")


def get_field(value: Any, position: int | str) -> Any:
    """Return a field of a record.

    >>> get_field(("a", 1), 1), get_field({"n": 2}, "n"), get_field(7, 0)
    (1, 2, 7)
    """
    if isinstance(position, int):
        if type(value) is tuple:  # the most frequent one
            return value[position]
        if position == 0 and type(value) in _NUMBERS:
            return value
        if isinstance(value, tuple | list) or hasattr(value, "_values"):
            return value[position]
        if position != 0:
            raise TypeError(f"the field position must be 0 on a basic type, but is {position} on {value!r}")
        return value
    if isinstance(value, dict) or hasattr(value, "_values"):
        return value[position]
    return getattr(value, position)


def with_field(value: Any, position: int | str, field: Any) -> Any:
    """Return a copy of a record with one field replaced.

    >>> with_field(("a", 1), 1, 5), with_field({"n": 2}, "n", 3), with_field(7, 0, 8)
    (('a', 5), {'n': 3}, 8)
    """
    if isinstance(value, dict):
        return {**value, position: field}
    if hasattr(value, "_replace"):
        name = value._fields[position] if isinstance(position, int) else position
        return value._replace(**{name: field})
    if isinstance(value, tuple | list) and isinstance(position, int):
        return type(value)([*value[:position], field, *value[position + 1 :]])
    if hasattr(value, "_values"):
        changed = copy(value)
        changed._values = list(value._values)
        changed[position] = field
        return changed
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and isinstance(position, str):
        return dataclasses.replace(value, **{position: field})
    if position == 0:
        return field
    raise TypeError(f"field {position!r} of {value!r} cannot be replaced; use reduce() with a function of your own")


def check_position(position: Any) -> None:
    """Refuse a position that is neither a number nor a name."""
    if isinstance(position, bool) or not isinstance(position, int | str):
        raise TypeError(f"the field position must be int or str, but is {position!r}")


@dataclass(frozen=True)
class SumField:
    """Add up a field, keep the first record's others."""

    position: int | str

    @property
    def columns_folds(self) -> tuple[tuple[str, int | str], ...]:
        """What the function does, for the vectorized path."""
        return (("sum", self.position),)

    def __call__(self, a: Any, b: Any) -> Any:
        """Join two records."""
        # Hot: tuples and numbers, which most records are, take a fifth of the time of the general way.
        position = self.position
        if type(a) is tuple and type(b) is tuple and type(position) is int:
            fields = list(a)
            fields[position] = a[position] + b[position]
            return tuple(fields)
        if position == 0 and type(a) in _NUMBERS and type(b) in _NUMBERS:
            return a + b
        total = get_field(a, position) + get_field(b, position)
        return with_field(a, position, total)


@dataclass(frozen=True)
class ExtremeField:
    """Keep the smallest or largest value of a field, and the first record's others."""

    position: int | str
    largest: bool

    @property
    def columns_folds(self) -> tuple[tuple[str, int | str], ...]:
        """What the function does, for the vectorized path."""
        return (("max" if self.largest else "min", self.position),)

    def __call__(self, a: Any, b: Any) -> Any:
        """Join two records."""
        old, new = get_field(a, self.position), get_field(b, self.position)
        better = new > old if self.largest else new < old
        return with_field(a, self.position, new) if better else a


@dataclass(frozen=True)
class ExtremeRecord:
    """Keep the whole record with the smallest or largest field, the first one on ties."""

    position: int | str
    largest: bool

    @property
    def columns_folds(self) -> tuple[tuple[str, int | str], ...]:
        """What the function does, for the vectorized path."""
        return (("max_by" if self.largest else "min_by", self.position),)

    def __call__(self, a: Any, b: Any) -> Any:
        """Join two records."""
        old, new = get_field(a, self.position), get_field(b, self.position)
        return b if (new > old if self.largest else new < old) else a


Folds: TypeAlias = Mapping[int, str] | Mapping[str, str] | Mapping[int | str, str]
"""Fields, by position or name, with what becomes of them."""
FOLDS = ("first", "last", "max", "min", "sum")
"""What ``ReduceFields`` can make of a field."""


@dataclass(frozen=True)
class ReduceFields:
    """Reduce each named field by its fold; the other fields are those of the first record.

    >>> of_orders = ReduceFields.of({"amount": "sum", "at": "max"})
    >>> of_orders({"item": "tea", "amount": 3, "at": 5}, {"item": "jam", "amount": 4, "at": 2})
    {'item': 'tea', 'amount': 7, 'at': 5}
    """

    fields: tuple[tuple[int | str, str], ...]

    @staticmethod
    def of(folds: Folds) -> ReduceFields:
        """Return the function for folds by field; raise ``InvalidProgram`` for an unknown fold or for none."""
        for position, fold in folds.items():
            check_position(position)
            if fold not in FOLDS:
                raise InvalidProgram(
                    f"reduce() cannot make {fold!r} of field {position!r}. Choose one of {', '.join(FOLDS)}, or give a function "
                    "of two records."
                )
        if not folds:
            raise InvalidProgram("reduce() got no fields. Name them with their folds, as in reduce({'amount': 'sum'}).")
        return ReduceFields(tuple(folds.items()))

    @property
    def columns_folds(self) -> tuple[tuple[str, int | str], ...]:
        """What the function does, for the vectorized path."""
        return tuple((fold, position) for position, fold in self.fields)

    def __call__(self, a: R, b: R) -> R:
        """Join two records."""
        for position, fold in self.fields:
            if fold == "first":
                continue
            old, new = get_field(a, position), get_field(b, position)
            if fold == "sum":
                new = old + new
            elif (fold == "min" and not new < old) or (fold == "max" and not new > old):
                continue
            a = with_field(a, position, new)
        return a


class CountRecords:
    """An ``AggregateFunction`` that counts."""

    def create_accumulator(self) -> int:
        """Begin at 0."""
        return 0

    def add(self, value: object, accumulator: int) -> int:
        """Count a record."""
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        """Return the count."""
        return accumulator

    def merge(self, a: int, b: int) -> int:
        """Add two counts."""
        return a + b
