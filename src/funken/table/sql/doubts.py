"""Queries that Flink accepts and that are hardly meant: conditions that are never TRUE, and tables without a condition.

Each is warned of with its place; the query runs as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from funken.config.configuration import warn
from funken.table.sql.scopes import span_of


def warn_of_doubts(tree: Any) -> None:
    """Warn of each part of a query that is hardly meant."""
    for node in tree.walk():
        check = _CHECKS.get(type(node))
        message = check(node) if check is not None else None
        if message is not None:
            span = span_of(node)
            warn(f"SQL query, {f'line {span.line}, column {span.column}: ' if span is not None else ''}{message}")


_CONDITIONS = (exp.Where, exp.Having, exp.Join, exp.If, exp.Filter)
"""The parts of a query whose conditions choose rows or branches; elsewhere a comparison is a value."""


def _shown(node: Any) -> str:
    text = node.sql()
    return text if len(text) <= 40 else f"{text[:37]}..."


def _comparison(node: exp.Binary) -> str | None:
    sides = node.this, node.expression
    if not any(isinstance(side, exp.Null) for side in sides) or node.find_ancestor(*_CONDITIONS) is None:
        return None
    other = _shown(next((side for side in sides if not isinstance(side, exp.Null)), sides[0]))
    instead = f"{other} IS NOT NULL" if isinstance(node, exp.NEQ) else f"{other} IS NULL"
    return f"a comparison with NULL is never TRUE. Write {instead}"


def _not(node: exp.Not) -> str | None:
    inside = node.this.unnest()
    nulls = isinstance(inside, exp.In) and any(isinstance(each, exp.Null) for each in inside.expressions)
    if not nulls or node.find_ancestor(*_CONDITIONS) is None:
        return None
    column = _shown(inside.this)
    return f"NOT IN with a NULL in its list is never TRUE. Leave NULL out, and add {column} IS NOT NULL"


def _like(node: exp.Like) -> str | None:
    pattern = node.expression
    text = pattern.name if isinstance(pattern, exp.Literal) and pattern.is_string else ""
    if "*" not in text or "%" in text or "_" in text:
        return None
    instead = text.replace("*", "%")
    return f"LIKE knows % (any text) and _ (one character), and * stands for itself. Write LIKE '{instead}'"


def _between(node: exp.Between) -> str | None:
    low, high = (_number(node.args[bound]) for bound in ("low", "high"))
    if low is None or high is None or low <= high:
        return None
    return (
        f"BETWEEN {low:g} AND {high:g} is never TRUE: the smaller bound comes first. Write BETWEEN {high:g} AND {low:g}"
    )


def _number(node: Any) -> float | None:
    negative = isinstance(node, exp.Neg)
    node = node.this if negative else node
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    return -float(node.name) if negative else float(node.name)


def _tables(node: exp.Select) -> str | None:
    joins = node.args.get("joins") or []
    tables = [
        join.this
        for join in joins
        if not any(join.args.get(part) for part in ("kind", "side", "method", "on", "using"))
    ]
    if len(tables) != len(joins) or not tables or node.args.get("where") is not None:
        return None
    source = node.args.get("from_") or node.args.get("from")
    sources = [] if source is None else [source.this, *tables]
    if not sources or not all(type(each) is exp.Table and isinstance(each.this, exp.Identifier) for each in sources):
        return None
    return (
        f"{_shown(sources[0])} and {_shown(tables[0])} have no condition, so each row of the one meets each row of the other. "
        "Add WHERE, or write CROSS JOIN if that is meant"
    )


def _ordered(node: exp.Ordered) -> str | None:
    key = node.this
    if not isinstance(key, exp.Literal) or not key.is_string:
        return None
    return f"ORDER BY '{key.name}' is a text, the same for each row, so it sorts nothing. Write ORDER BY {key.name}"


_CHECKS: dict[type, Callable[[Any], str | None]] = {
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _comparison),
    exp.Not: _not,
    exp.Like: _like,
    exp.Between: _between,
    exp.Select: _tables,
    exp.Ordered: _ordered,
}
