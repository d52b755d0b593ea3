"""Joins of frames: keys by name, by expression, or a condition, as one query over both tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from funken.dataframe import arguments as given
from funken.table.expression import Expression, col
from funken.table.expressions import and_
from funken.table.table import Table
from funken.table.types import quoted

if TYPE_CHECKING:
    from funken.table.rendering import Rendering

_KINDS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN", "outer": "FULL JOIN"}
_ALL = (*_KINDS, "semi", "anti", "cross")


@dataclass
class JoinSides:
    """Both tables with the columns that the condition needs, the condition, and how keys of both are called on the right."""

    left: Table
    right: Table
    condition: Expression
    shared: dict[str, str] = field(default_factory=dict)


def joined(left: Table, right: Table, on: Any, how: Any, left_on: Any, right_on: Any) -> Table:
    """Return the join of two tables."""
    if not isinstance(how, str):
        raise TypeError(f"how must be a string, but got {how!r}.")
    if how not in _ALL:
        kinds = ", ".join(f'"{one}"' for one in _ALL)
        raise ValueError(f"how must be one of {kinds}, but got {how!r}.")
    if left._environment is not right._environment:
        raise ValueError("DataFrames must belong to the same TableEnvironment.")
    if how == "cross":
        if any(one is not None for one in (on, left_on, right_on)):
            raise ValueError("cross join does not accept on, left_on, or right_on.")
        _distinct_names(left.names, right.names, set())
        return left.join(right, True)
    sides = _sides(left, right, on, left_on, right_on, how not in ("semi", "anti"))
    if how in ("semi", "anti"):
        return _filtered(sides, left.names, how)
    return _combined(sides, left.names, right.names, how)


def _distinct_names(left: list[str], right: list[str], shared: set[str]) -> None:
    twice = sorted((set(left) & set(right)) - shared)
    if twice:
        raise ValueError(
            f"join() found duplicate non-key columns {twice}; rename them with rename_columns() before joining."
        )


def _keys(value: Any, columns: list[str], what: str) -> list[Any]:
    keys = [value] if isinstance(value, str | Expression) else value
    several = keys is value
    if not isinstance(keys, list | tuple) or (several and not all(isinstance(key, str) for key in keys)):
        raise TypeError(f"{what} must be a string, an expression, or a list of strings, but got {value!r}.")
    if not keys:
        raise ValueError(f"{what} must not be empty.")
    twice = given.repeated([key for key in keys if isinstance(key, str)])
    if twice:
        raise ValueError(f"{what} must not contain duplicate column names, but has {', '.join(twice)} twice.")
    given.known([key for key in keys if isinstance(key, str)], columns, what)
    return list(keys)


def _sides(left: Table, right: Table, on: Any, left_on: Any, right_on: Any, keeps_both: bool) -> JoinSides:
    if on is not None and (left_on is not None or right_on is not None):
        raise ValueError("on cannot be combined with left_on or right_on.")
    if on is None and left_on is None and right_on is None:
        raise ValueError("join() requires on or both left_on and right_on.")
    if on is None and (left_on is None or right_on is None):
        raise ValueError("left_on and right_on must be provided together.")
    if isinstance(on, Expression):
        if keeps_both:
            _distinct_names(left.names, right.names, set())
        return JoinSides(left, right, on)
    left_keys = _keys(on if on is not None else left_on, left.names, "on" if on is not None else "left_on")
    right_keys = _keys(on if on is not None else right_on, right.names, "on" if on is not None else "right_on")
    if len(left_keys) != len(right_keys):
        raise ValueError(
            f"left_on and right_on must have the same number of keys, but have {len(left_keys)} and {len(right_keys)}."
        )
    pairs = list(zip(left_keys, right_keys, strict=True))
    shared = {a for a, b in pairs if isinstance(a, str) and isinstance(b, str) and a == b}
    if keeps_both:
        _distinct_names(left.names, right.names, shared)
    return _with_keys(left, right, pairs, shared)


def _with_keys(left: Table, right: Table, pairs: list[tuple[Any, Any]], shared: set[str]) -> JoinSides:
    """Add computed keys as columns, and give every column of the right that the left has too a name of its own."""
    taken = {*left.names, *right.names}

    def fresh(base: str) -> str:
        name = given.free_name(base, taken)
        taken.add(name)
        return name

    renamed = {name: fresh(f"right_{name}") for name in right.names if name in left.names}
    added: dict[int, list[Expression]] = {0: [], 1: []}
    columns: list[list[str]] = [[], []]
    for pair in pairs:
        for side, key in enumerate(pair):
            if isinstance(key, str):
                columns[side].append(renamed.get(key, key) if side else key)
            else:
                name = fresh(f"key{len(columns[side])}")
                added[side].append(key.alias(name))
                columns[side].append(name)
    left = left.add_columns(*added[0]) if added[0] else left
    right = right.add_columns(*added[1]) if added[1] else right
    right = right.rename_columns(*(col(old).alias(new) for old, new in renamed.items())) if renamed else right
    equal: list[Any] = [col(a) == col(b) for a, b in zip(*columns, strict=True)]
    condition = equal[0] if len(equal) == 1 else and_(*equal)
    return JoinSides(left, right, condition, {name: renamed[name] for name in shared})


def _combined(sides: JoinSides, left: list[str], right: list[str], how: str) -> Table:
    def item(name: str) -> str:
        other = sides.shared.get(name)
        if other is None or how not in ("right", "full", "outer"):
            return quoted(name)
        return f"COALESCE({quoted(name)}, {quoted(other)}) AS {quoted(name)}"

    items = [*map(item, left), *(quoted(name) for name in right if name not in sides.shared)]

    def build(rendering: Rendering, name: str) -> str:
        other = rendering.table(sides.right)
        return f"SELECT {', '.join(items)} FROM {name} {_KINDS[how]} {other} ON {sides.condition.sql(rendering)}"

    return sides.left._query(build)


def _filtered(sides: JoinSides, left: list[str], how: str) -> Table:
    """Return the rows of the left with a partner, or those without; NULL keys have none."""
    negated = "NOT " if how == "anti" else ""

    def build(rendering: Rendering, name: str) -> str:
        inner = f"SELECT 1 FROM {rendering.table(sides.right)} WHERE {sides.condition.sql(rendering)}"
        return f"SELECT {', '.join(map(quoted, left))} FROM {name} WHERE {negated}EXISTS ({inner})"

    return sides.left._query(build)
