"""Conditions of which each record fails one, read from the functions: comparisons of one expression with constants."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from funken.operators.codegen import expression_of

_TURNED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Eq: ast.Eq, ast.NotEq: ast.NotEq}
_SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


def never_together(conditions: Iterable[Callable[..., Any]]) -> tuple[str, str] | None:
    """Return two comparisons that no record passes both, of functions of one record; ``None`` if none is known.

    >>> never_together([lambda n: n > 5, lambda n: n != 4, lambda n: 3 > n])
    ('event > 5', 'event < 3')
    >>> never_together([lambda e: e["kind"] == "in", lambda e: e["kind"] == "out"])
    ("event['kind'] == 'in'", "event['kind'] == 'out'")
    >>> never_together([lambda n: n > 3, lambda n: n <= 5])
    """
    known: dict[str, list[tuple[type[ast.cmpop], Any]]] = {}
    for condition in conditions:
        compared = _comparison(condition)
        if compared is None:
            continue
        expression, sign, bound = compared
        for other, other_bound in known.setdefault(expression, []):
            if _excludes(other, other_bound, sign, bound) or _excludes(sign, bound, other, other_bound):
                return f"{expression} {_SIGNS[other]} {other_bound!r}", f"{expression} {_SIGNS[sign]} {bound!r}"
        known[expression].append((sign, bound))
    return None


def _comparison(condition: Callable[..., Any]) -> tuple[str, type[ast.cmpop], Any] | None:
    """Return a function's result as an expression, a sign and a constant; ``None`` if it is no such comparison."""
    text = expression_of(condition, ["event"])
    node = None if text is None else ast.parse(text, mode="eval").body
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    left, sign, right = node.left, type(node.ops[0]), node.comparators[0]
    if isinstance(left, ast.Constant):
        left, right, sign = right, left, _TURNED.get(sign, ast.Is)
    if sign not in _SIGNS or isinstance(left, ast.Constant) or not isinstance(right, ast.Constant):
        return None
    return ast.unparse(left), sign, right.value


def _excludes(one: type[ast.cmpop], low: Any, other: type[ast.cmpop], high: Any) -> bool:
    """Return True if nothing is above the first bound, or equal to it, and below the second one, or equal to that."""
    if type(low) is not type(high) and not (isinstance(low, int | float) and isinstance(high, int | float)):
        return False
    if one is ast.Eq and other in (ast.Eq, ast.NotEq):
        return bool(low != high) is (other is ast.Eq)
    if one not in (ast.Gt, ast.GtE, ast.Eq) or other not in (ast.Lt, ast.LtE, ast.Eq):
        return False
    try:
        return bool(low > high or (low == high and (one is ast.Gt or other is ast.Lt)))
    except TypeError:
        return False
