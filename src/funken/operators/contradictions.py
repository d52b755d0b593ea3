"""Conditions of which each record fails one, or passes one, read from the functions: comparisons with constants."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

from funken.operators.codegen import expression_of
from funken.operators.sources import code_of, tree_of

_TURNED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Eq: ast.Eq, ast.NotEq: ast.NotEq}
_NOT = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
_SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


def never_together(conditions: Iterable[Callable[..., Any]]) -> tuple[str, str] | None:
    """Return two comparisons that no record passes both, of functions of one record; ``None`` if none is known.

    >>> never_together([lambda n: n > 5, lambda n: n != 4, lambda n: 3 > n])
    ('event > 5', 'event < 3')
    >>> never_together([lambda e: e["kind"] == "in", lambda e: e["kind"] == "out"])
    ("event['kind'] == 'in'", "event['kind'] == 'out'")
    >>> never_together([lambda n: n > 3, lambda n: n <= 5])
    >>> never_together([lambda n: n > 5 and n < 3])
    ('event > 5', 'event < 3')
    """
    parts = (part for each in conditions for part in _operands(_expression(each), ast.And))
    found = _exclusive(compared for part in parts for compared in _comparisons(part))
    return None if found is None else (_shown(*found[0]), _shown(*found[1]))


def always_one(condition: Callable[..., Any]) -> tuple[str, str] | None:
    """Return two conditions joined by ``or`` of which every record passes one; ``None`` if none are known.

    >>> always_one(lambda kind: kind != "in" or kind != "out")
    ("event != 'in'", "event != 'out'")
    >>> always_one(lambda kind: kind == "in" or "out")
    ("event == 'in'", "'out'")
    >>> always_one(lambda n: n < 3 or n > 5)
    """
    parts = [*_operands(_expression(condition), ast.Or)]
    for place, part in enumerate(parts):
        if place and isinstance(part, ast.Constant) and part.value:
            return ast.unparse(parts[0]), ast.unparse(part)
    several = [[*_comparisons(part)] for part in parts]
    found = _exclusive((text, _NOT[sign], bound) for each in several if len(each) == 1 for text, sign, bound in each)
    if found is None:
        return None
    one, other = ((text, _NOT[sign], bound) for text, sign, bound in found)
    return _shown(*one), _shown(*other)


_Comparison = tuple[str, type[ast.cmpop], Any]
"""An expression, a sign and a constant."""


def _exclusive(comparisons: Iterable[_Comparison]) -> tuple[_Comparison, _Comparison] | None:
    """Return the first two that exclude each other."""
    known: dict[str, list[tuple[type[ast.cmpop], Any]]] = {}
    for expression, sign, bound in comparisons:
        for other, other_bound in known.setdefault(expression, []):
            if _excludes(other, other_bound, sign, bound) or _excludes(sign, bound, other, other_bound):
                return (expression, other, other_bound), (expression, sign, bound)
        known[expression].append((sign, bound))
    return None


def _shown(expression: str, sign: type[ast.cmpop], bound: Any) -> str:
    return f"{expression} {_SIGNS[sign]} {bound!r}"


def _operands(node: ast.expr | None, joined: type[ast.boolop]) -> list[ast.expr]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, joined):
        return [each for value in node.values for each in _operands(value, joined)]
    return [] if node is None else [node]


def _comparisons(node: ast.expr) -> Iterator[_Comparison]:
    """Yield the comparisons with a constant that an expression is made of: ``5 < x < 7`` has two."""
    if not isinstance(node, ast.Compare):
        return
    for (left, right), op in zip(pairwise([node.left, *node.comparators]), node.ops, strict=True):
        sign = type(op)
        if isinstance(left, ast.Constant):
            left, right, sign = right, left, _TURNED.get(sign, ast.Is)  # noqa: PLW2901 - the same comparison, turned
        if sign in _SIGNS and isinstance(right, ast.Constant) and _is_of_event(left):
            yield ast.unparse(left), sign, right.value


def _is_of_event(node: ast.expr) -> bool:
    """Return True if an expression has one value for a record: ``random()`` has another each time."""
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
    return not isinstance(node, ast.Constant) and all("event" in _names(each) for each in calls)


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


# ---- the expression that a function returns: of its code, or of its source where ``and`` and ``or`` are branches


def _expression(condition: Callable[..., Any]) -> ast.expr | None:
    """Return the result of a function as an expression of ``event``; ``None`` if it has no such form."""
    text = expression_of(condition, ["event"])
    if text is not None:
        return ast.parse(text, mode="eval").body
    code = code_of(condition)
    tree = tree_of(code)
    body = [] if tree is None or isinstance(tree, ast.Lambda) else tree.body[ast.get_docstring(tree) is not None :]
    result = tree.body if isinstance(tree, ast.Lambda) else getattr(body[0], "value", None) if len(body) == 1 else None
    if code is None or result is None or not isinstance(body[0] if body else tree, ast.Return | ast.Lambda):
        return None
    name = code.co_varnames[code.co_argcount - 1] if code.co_argcount else ""
    found = ast.parse(ast.unparse(result), mode="eval").body
    for node in ast.walk(found):
        if isinstance(node, ast.Name) and node.id == name:
            node.id = "event"
    return found


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
