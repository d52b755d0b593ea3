"""Built-in reductions: sums and extremes of fields, whole records with the least or greatest fields, the first of a key."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from operator import add
from typing import Any

from funken import Row
from funken.dataset.plan.keys import getter_of
from funken.dataset.plan.record_type import Path, Step


class Aggregations(enum.Enum):
    """What ``aggregate`` computes of a field.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> orders = env.from_elements((1, 5, 7), (1, 3, 9), (2, 8, 1))
    >>> sorted(orders.group_by(0).aggregate(Aggregations.SUM, 1).and_(Aggregations.MIN, 2).collect())
    [(1, 8, 7), (2, 8, 1)]
    """

    SUM = "sum"
    MIN = "min"
    MAX = "max"


_COMBINE: dict[Aggregations, Callable[[Any, Any], Any]] = {
    Aggregations.SUM: add,
    Aggregations.MIN: min,
    Aggregations.MAX: max,
}


class FieldAggregator:
    """Aggregates fields in place; the other fields are those of the record that came last.

    >>> FieldAggregator(((Aggregations.SUM, (1,)),), "aggregate")((1, 5, "a"), (1, 3, "b"))
    (1, 8, 'b')
    """

    def __init__(self, parts: tuple[tuple[Aggregations, Path], ...], operator: str) -> None:
        self.parts = parts
        self._operator = operator
        self._positions = [
            (path[0], _COMBINE[how]) for how, path in parts if len(path) == 1 and isinstance(path[0], int)
        ]
        self._only_positions = len(self._positions) == len(parts)

    def __call__(self, so_far: Any, record: Any) -> Any:
        """Return the aggregate of two records."""
        if type(record) is tuple and self._only_positions:
            fields = list(record)
            for position, combine in self._positions:
                fields[position] = combine(so_far[position], record[position])
            return tuple(fields)
        for how, path in self.parts:
            get = getter_of(path, record, self._operator)
            record = replaced(record, path, _COMBINE[how](get(so_far), get(record)))
        return record


def replaced(record: Any, path: Path, value: Any) -> Any:
    """Return a copy of a record with another value in a field.

    >>> replaced((1, (2, 3)), (1, 0), 9)
    (1, (9, 3))
    """
    if not path:
        return value
    step, rest = path[0], path[1:]
    if rest:
        value = replaced(getter_of((step,), record, "aggregate")(record), rest, value)
    if isinstance(record, tuple):
        at = _place(step, getattr(record, "_fields", ()))
        fields = [*record[:at], value, *record[at + 1 :]]
        make = getattr(type(record), "_make", tuple)
        return make(fields)
    if isinstance(record, dict):
        return record | {step if isinstance(step, str) else list(record)[step]: value}
    if isinstance(record, Row):
        names = list(record._fields or ())
        values = list(record)
        values[_place(step, tuple(names))] = value
        row = Row.of_kind(record.get_row_kind(), *values)
        if names:
            row.set_field_names(names)
        return row
    name = step if isinstance(step, str) else dataclasses.fields(record)[step].name
    return dataclasses.replace(record, **{name: value})


def _place(step: Step, names: tuple[str, ...]) -> int:
    return step if isinstance(step, int) else names.index(step)


class Extreme:
    """Keeps the record whose fields are least (or greatest), the first of equal ones.

    >>> Extreme(((1,),), greatest=False, operator="min_by")((1, 5), (1, 3))
    (1, 3)
    """

    def __init__(self, paths: tuple[Path, ...], greatest: bool, operator: str) -> None:
        self._paths = paths
        self._greatest = greatest
        self._operator = operator

    def __call__(self, so_far: Any, record: Any) -> Any:
        """Return one of two records."""
        getters = [getter_of(path, record, self._operator) for path in self._paths]
        old, new = tuple(get(so_far) for get in getters), tuple(get(record) for get in getters)
        return record if (new > old if self._greatest else new < old) else so_far


def keep_first(so_far: Any, _: Any) -> Any:
    """Return the record that came first."""
    return so_far
