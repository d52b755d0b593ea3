"""Queries that Flink accepts and that are hardly meant: conditions that are never TRUE, and tables without a condition.

Each is warned of with its place; the query runs as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from sqlglot import exp

from funken.config.configuration import warn
from funken.table.sql.inserts import is_permuted
from funken.table.sql.scopes import span_of


def warn_of_doubts(tree: Any) -> None:
    """Warn of each part of a query that is hardly meant."""
    for node in tree.walk():
        check = _CHECKS.get(type(node))
        message = check(node) if check is not None else None
        if message is not None:
            _warn(node, message)


def _warn(node: Any, message: str) -> None:
    span = span_of(node)
    warn(f"SQL query, {f'{span}: ' if span is not None else ''}{message}")


def warn_of_texts(select: exp.Select, names: Collection[str]) -> None:
    """Warn of texts in the place of a column: names of the tables' columns in single quotes."""

    def is_name(node: Any) -> bool:
        return isinstance(node, exp.Literal) and node.is_string and node.name in names

    read = {column.name for column in select.find_all(exp.Column)}  # SELECT 'price', price: a label
    group = select.args.get("group")
    shown = [*select.expressions, *(group.expressions if group is not None else ())]
    found = [each for each in shown if is_name(each) and each.name not in read]
    for each in select.find_all(exp.EQ, exp.Func):
        sides = [each.this, each.expression] if isinstance(each, exp.EQ) else each.expressions or [each.this]
        aggregate = isinstance(each, exp.EQ) or _function(each) in {"MAX", "MIN", "COUNT"}
        if aggregate and all(isinstance(side, exp.Literal) for side in sides):
            found += [side for side in sides if is_name(side)][:1]
    for each in found:
        _warn(each, f"'{each.name}' is a text, the same for each row, and no column. Write {each.name} without quotes")


_CONDITIONS = (exp.Where, exp.Having, exp.Join, exp.If, exp.Filter)
"""The parts of a query whose conditions choose rows or branches; elsewhere a comparison is a value."""


def _shown(node: Any) -> str:
    text = node.sql()
    return text if len(text) <= 40 else f"{text[:37]}..."


def warn_of_outer_column(select: exp.Select, outer: bool) -> None:
    """Warn of a sub-query of IN whose only column is one of the query around (``outer``)."""
    if (
        outer
        and isinstance(select.find_ancestor(exp.In, exp.Select), exp.In)
        and isinstance(select.selects[0], exp.Column)
    ):
        name = select.selects[0].name
        if not select.selects[0].table:
            _warn(
                select.selects[0],
                f"no table of this sub-query has a column '{name}': it is that of the query around, so IN compares it with "
                "itself. Select a column of the sub-query",
            )


def _division(node: exp.Div) -> str | None:
    sides = node.this, node.expression
    if not all(isinstance(side, exp.Literal) and not side.is_string and side.name.isdigit() for side in sides):
        return None
    one, other = (int(side.name) for side in sides)
    if not other or one % other == 0:
        return None
    return f"{one} / {other} divides whole numbers, so it is {one // other}. Write {one}.0 / {other} for its fraction"


def warn_of_order(tree: Any, names: Sequence[str], others: Sequence[str]) -> None:
    """Warn of a set operation over the same columns in another order."""
    if is_permuted(names, others):
        _warn(
            tree,
            f"the columns of a set operation go by their position, but are ({', '.join(names)}) and ({', '.join(others)}). "
            "Select them in the same order",
        )


def is_reflexive(node: exp.Binary) -> bool:
    """Return True if a column is compared with itself."""
    return isinstance(node.this, exp.Column) and node.this == node.expression


def _comparison(node: exp.Binary) -> str | None:
    sides = node.this, node.expression
    if node.find_ancestor(*_CONDITIONS) is None:
        return None
    if is_reflexive(node):
        always = isinstance(node, exp.EQ | exp.LTE | exp.GTE)
        return (
            f"{_shown(node)} compares a column with itself, so it is {'TRUE unless it is NULL' if always else 'never TRUE'}. "
            "Correct one side; IS NOT NULL asks for a value"
        )
    cased = _cased(node) if isinstance(node, exp.EQ) else None
    if cased is not None:
        return cased
    if not any(isinstance(side, exp.Null) for side in sides):
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


def _function(node: Any) -> str:
    """Return the name of a called function."""
    return (
        node.name.upper() if isinstance(node, exp.Anonymous) else node.sql_name() if isinstance(node, exp.Func) else ""
    )


def _cased(node: Any) -> str | None:
    """UPPER() or LOWER() compared with texts of the other case."""
    sides = [node.this, *([node.expression] if isinstance(node, exp.Binary) else node.expressions)]
    texts = [side.name for side in sides if isinstance(side, exp.Literal) and side.is_string]
    name = next((name for side in sides if (name := _function(side)) in {"UPPER", "LOWER"}), "")
    change = str.upper if name == "UPPER" else str.lower
    wrong = next((text for text in texts if text != change(text)), None)
    if not name or wrong is None:
        return None
    return f"{name}() never gives '{wrong}', so it is never equal. Write '{change(wrong)}'"


def _case(node: exp.Case) -> str | None:
    whens = [each for each in node.args.get("ifs") or () if isinstance(each.this, exp.Null)]
    if node.this is None or not whens:
        return None
    value = _shown(node.this)
    return f"CASE {value} WHEN NULL is never TRUE. Write CASE WHEN {value} IS NULL THEN .. END"


def _like(node: exp.Like) -> str | None:
    pattern = node.expression
    text = pattern.name if isinstance(pattern, exp.Literal) and pattern.is_string else ""
    if not text or "%" in text or "_" in text:
        return None
    if ".*" in text or text[0] == "^" or text[-1] == "$":
        return f"LIKE reads no regular expressions, and '{text}' stands for itself. Write REGEXP({_shown(node.this)}, '{text}')"
    if "*" in text or "?" in text:
        instead = text.replace("*", "%").replace("?", "_")
        return f"LIKE knows % (any text) and _ (one character), and '{text}' stands for itself. Write LIKE '{instead}'"
    return f"LIKE '{text}' has no % and no _, so it is =. Write LIKE '%{text}%' for texts that have it inside, or ="


def _ordered(node: exp.Ordered) -> str | None:
    key = node.this
    if not isinstance(key, exp.Literal) or not key.is_string:
        return None
    return f"ORDER BY '{key.name}' is a text, the same for each row, so it sorts nothing. Write ORDER BY {key.name}"


_CHECKS: dict[type, Callable[[Any], str | None]] = {
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _comparison),
    exp.Not: _not,
    exp.Like: _like,
    exp.Case: _case,
    exp.In: _cased,
    exp.Ordered: _ordered,
    exp.Div: _division,
}
