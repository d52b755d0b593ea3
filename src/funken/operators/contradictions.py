"""Conditions of which each record fails one, or passes one, read from the functions: comparisons with constants."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from types import CodeType
from typing import Any

from funken.operators.codegen import expression_of

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


_LINES = 5_000
"""Longer files are not read for a warning."""


def _expression(condition: Callable[..., Any]) -> ast.expr | None:
    """Return the result of a function as an expression of ``event``; ``None`` if it has no such form."""
    text = expression_of(condition, ["event"])
    if text is not None:
        return ast.parse(text, mode="eval").body
    code: CodeType | None = getattr(getattr(condition, "__func__", condition), "__code__", None)
    lines = [] if code is None else linecache.getlines(code.co_filename)
    if code is None or not 0 < len(lines) < _LINES:
        return None
    places = [each for each in code.co_positions() if each[2] is not None and each[3]]
    starts = {(line, column) for line, _, column, _ in places}
    ends = {(line, column) for _, line, _, column in places}
    for each in _results("".join(lines)):  # that of this code, by its place in the file
        if (each.lineno, each.col_offset) in starts and (each.end_lineno, each.end_col_offset) in ends:
            return _of_event(each, code)
    return None


@lru_cache(8)
def _results(text: str) -> list[ast.expr]:
    """Return the results of the functions of a file that are one expression."""
    try:
        nodes = [*ast.walk(ast.parse(text))]
    except (SyntaxError, ValueError, RecursionError):
        return []
    found = [each.body for each in nodes if isinstance(each, ast.Lambda)]
    for each in nodes:
        if isinstance(each, ast.FunctionDef):
            body = each.body[ast.get_docstring(each) is not None :]
            if len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None:
                found.append(body[0].value)
    return found


def _of_event(result: ast.expr, code: CodeType) -> ast.expr:
    """Return an expression with the last argument as ``event``."""
    name = code.co_varnames[code.co_argcount - 1] if code.co_argcount else ""
    tree = ast.parse(ast.unparse(result), mode="eval").body
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == name:
            node.id = "event"
    return tree


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
