"""Built-in reductions: sums and extremes of fields, whole records with the least or greatest fields, the first of a key."""

from __future__ import annotations

import dataclasses
import enum
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from operator import add
from typing import Any

from funken import Row
from funken.dataset.plan.keys import getter_of
from funken.dataset.plan.record_type import Path, Step
from funken.state.keys.normal import ordered_key


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
    Aggregations.MIN: lambda a, b: min(a, b, key=ordered_key),
    Aggregations.MAX: lambda a, b: max(a, b, key=ordered_key),
}


Fold = Callable[[dict[Hashable, Any], Iterable[Hashable], Iterable[Any]], None]
"""Adds records to a table of one record per key."""

_SOURCES = {
    Aggregations.SUM: "a[{0}] + b[{0}]",
    Aggregations.MIN: "b[{0}] if a[{0}] != a[{0}] or (b[{0}] == b[{0}] and b[{0}] < a[{0}]) else a[{0}]",
    Aggregations.MAX: "b[{0}] if b[{0}] != b[{0}] or (a[{0}] == a[{0}] and b[{0}] > a[{0}]) else a[{0}]",
}
"""NaN is greatest, as in Java; decimals cannot even be asked whether they are less than NaN."""


@lru_cache(maxsize=64)
def _tuple_fold(parts: tuple[tuple[Aggregations, Path], ...], width: int) -> Fold:
    """Make the loop for tuples of one width: without a call, a list and a dispatch per record."""
    fields = [f"b[{place}]" for place in range(width)]
    for how, path in parts:
        fields[int(path[0])] = _SOURCES[how].format(path[0])
    source = (
        "def fold(table, keys, records):\n"
        "    get = table.get\n"
        "    for key, b in zip(keys, records):\n"
        "        a = get(key, absent)\n"
        f"        table[key] = b if a is absent else ({', '.join(fields)},)\n"
    )
    space: dict[str, Any] = {"absent": object()}
    exec(source, space)  # of positions and names of this module only
    fold: Fold = space["fold"]
    return fold


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
        return self._replaced(so_far, record)

    def fold_for(self, block: list[Any]) -> Fold | None:
        """Return a loop over the records of a block, if they are tuples of one width and the fields are positions.

        >>> sums, table = FieldAggregator(((Aggregations.SUM, (1,)),), "aggregate"), {}
        >>> sums.fold_for([("a", 1), ("a", 2)])(table, ["a", "a"], [("a", 1), ("a", 2)])
        >>> table
        {'a': ('a', 3)}
        """
        if not self._only_positions or set(map(type, block)) != {tuple}:
            return None
        widths = set(map(len, block))
        width = widths.pop()
        if widths or any(position >= width for position, _ in self._positions):
            return None
        if len({position for position, _ in self._positions}) < len(self._positions):
            return None  # of two aggregates of one field, the second works on the result of the first
        return _tuple_fold(self.parts, width)

    @property
    def column_parts(self) -> tuple[list[tuple[str, Path]], bool]:
        """Return what is computed of which field, and that the other fields are those of the last record."""
        return [(how.value, path) for how, path in self.parts], True

    def _replaced(self, so_far: Any, record: Any) -> Any:
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
        old, new = (tuple(ordered_key(get(each)) for get in getters) for each in (so_far, record))
        return record if (new > old if self._greatest else new < old) else so_far


class KeepFirst:
    """Keeps the record of a key that came first.

    >>> KeepFirst()("a", "b")
    'a'
    """

    def __call__(self, so_far: Any, _: Any) -> Any:
        """Return the record that came first."""
        return so_far

    column_parts: tuple[list[tuple[str, Path]], bool] = [], False

    def fold_for(self, block: list[Any]) -> Fold:
        """Return a loop over the records of a block; all of it is in C."""
        return _set_defaults


def _set_defaults(table: dict[Hashable, Any], keys: Iterable[Hashable], records: Iterable[Any]) -> None:
    deque(map(table.setdefault, keys, records), maxlen=0)
