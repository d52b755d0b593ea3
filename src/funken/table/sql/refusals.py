"""Forms of queries that sqlglot reads and Flink refuses, so that no word goes unread; and NULL without a type."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sqlglot import exp

from funken.expr.sql.functions import FUNCTIONS
from funken.table.sql.scopes import fail, span_of


def check_forms(tree: Any) -> None:
    """Raise ``InvalidQuery`` for the first form of a query that Flink has not."""
    for node in tree.walk():
        check = _CHECKS.get(type(node))
        message = check(node) if check is not None else None
        if message is not None:
            fail(node, message)


def _set_operation(node: exp.SetOperation) -> str | None:
    if any(node.args.get(part) for part in ("by_name", "on", "side", "kind")):
        return "A set operation compares columns by position: write them in the same order, without BY NAME"
    if isinstance(node.this, exp.Select) and any(node.this.args.get(part) for part in ("order", "limit", "offset")):
        return (
            "ORDER BY and LIMIT of a part of a set operation stand in parentheses with it: (SELECT .. LIMIT 1) UNION .."
        )
    return None


def _fetch(node: exp.Fetch) -> str | None:
    chosen = node.args.get("limit_options")
    if chosen is not None and (chosen.args.get("percent") or chosen.args.get("with_ties")):
        return "FETCH FIRST takes a number of rows and ONLY; RANK() in a sub-query has ties"
    return None


_CLAUSES = {"where": "WHERE", "group": "GROUP BY", "having": "HAVING", "order": "ORDER BY"}


def _select(node: exp.Select) -> str | None:
    if node.args.get("locks"):
        return "A query has no FOR UPDATE or FOR SHARE"
    written = [
        each for each in node.args if each in _CLAUSES and node.args[each] is not None
    ]  # in the order of the text
    ordered = [each for each in _CLAUSES if each in written]
    for found, right in zip(written, ordered, strict=True):
        if found != right:
            return f"{_CLAUSES[right]} stands before {_CLAUSES[found]}: WHERE, GROUP BY, HAVING, ORDER BY, LIMIT is their order"
    limit, order = (span_of(node.args.get(each)) for each in ("limit", "order"))
    if limit is not None and order is not None and (limit.line, limit.column) < (order.line, order.column):
        return "ORDER BY stands before LIMIT: the rows are sorted first, then the first ones are kept"
    return None


def _in(node: exp.In) -> str | None:
    given = any(node.args.get(each) for each in ("expressions", "query", "unnest", "field", "is_global"))
    return None if given else "IN () has no values. Give one at least, or leave the condition out"


def _lateral(node: exp.Lateral) -> str | None:
    applied = node.args.get("cross_apply") is not None
    return "APPLY is no join here: write CROSS JOIN, or LEFT JOIN .. ON TRUE" if applied else None


def _join(node: exp.Join) -> str | None:
    crossed = node.kind == "CROSS" and (node.args.get("on") or node.args.get("using"))
    return "Cannot specify a condition (ON or USING) following CROSS JOIN; write JOIN .. ON" if crossed else None


def _frame(node: exp.WindowSpec) -> str | None:
    kind = str(node.args.get("kind")).upper()
    if kind == "GROUPS" or node.args.get("exclude"):
        return "A frame is ROWS or RANGE, without EXCLUDE"
    starts_behind = str(node.args.get("start_side")).upper() == "FOLLOWING"
    if starts_behind and (node.args.get("end") is None or str(node.args.get("end_side")).upper() != "FOLLOWING"):
        return "A frame ends behind its begin: no bound but FOLLOWING stands behind FOLLOWING"
    return None


_CHECKS: dict[type, Callable[[Any], str | None]] = {
    **dict.fromkeys((exp.Union, exp.Except, exp.Intersect), _set_operation),
    exp.Fetch: _fetch,
    exp.Select: _select,
    exp.In: _in,
    exp.Lateral: _lateral,
    exp.Join: _join,
    exp.WindowSpec: _frame,
}

# ---- NULL without a type: where its type follows from the place, and where the query is refused.


_COMMON = frozenset({"COALESCE", "IFNULL", "NULLIF"})
"""Functions whose result is of the common type of their arguments: one of them needs a type."""
_TYPED = frozenset(
    [
        "BITMAP_BUILD",
        "BITMAP_BUILD_AGG",
        "BITMAP_BUILD_CARDINALITY_AGG",
        "BITMAP_FROM_BYTES",
        "BTRIM",
        "CAST",
        "ENDSWITH",
        "INET_ATON",
        "INET_NTOA",
        "JSON_QUOTE",
        "JSON_STRING",
        "JSON_UNQUOTE",
        "PARSE_JSON",
        "PRINTF",
        "REGEXP_COUNT",
        "REGEXP_EXTRACT_ALL",
        "REGEXP_INSTR",
        "REGEXP_SUBSTR",
        "SPLIT",
        "STARTSWITH",
        "TRY_CAST",
        "TYPEOF",
        "UNHEX",
        "URL_DECODE",
        "URL_ENCODE",
    ]
)
"""Functions whose parameters have one type each."""
_TYPED_BEHIND_FIRST = frozenset(
    [
        "ARRAY_APPEND",
        "ARRAY_CONTAINS",
        "ARRAY_JOIN",
        "ARRAY_POSITION",
        "ARRAY_PREPEND",
        "ARRAY_REMOVE",
        "ARRAY_SLICE",
        "ELT",
    ]
)
"""Functions whose first argument decides the types of the others, or has another kind of type."""
_TYPED_FIRST = frozenset({"PERCENTILE"})
_OPERATORS = (
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.Mod,
    exp.Neg,
    exp.Not,
    exp.And,
    exp.Or,
    exp.DPipe,
    exp.Like,
    exp.SimilarTo,
    exp.Escape,
    exp.Distinct,
)
"""Operators whose operands need a type; those that compare do not."""


def check_nulls(tree: Any) -> None:
    """Raise ``InvalidQuery`` if a query has NULL in a place that gives it no type."""
    for null in tree.find_all(exp.Null):
        node, parent = null, null.parent
        while isinstance(parent, exp.Paren):
            node, parent = parent, parent.parent
        if _is_illegal(node, parent):
            fail(parent, "Illegal use of 'NULL': nothing here gives it a type. Write CAST(NULL AS INT), say")


def _is_illegal(node: Any, parent: Any) -> bool:
    match parent:
        case exp.Anonymous():
            return _is_illegal_argument(node, parent)
        case exp.Is():
            return node is parent.this and not isinstance(parent.expression, exp.Null)
        case exp.Array():
            return _all_null(parent.expressions)
        case exp.In():
            return isinstance(parent.this.unnest(), exp.Null) and _all_null(parent.expressions)
        case exp.If() if isinstance(parent.parent, exp.Case):
            return node is parent.args["true"] and _has_no_result(parent.parent)
        case exp.Case():
            return node is parent.args.get("default") and _has_no_result(parent)
        case exp.Where():
            return isinstance(parent.parent, exp.Filter)
        case exp.Kwarg():
            return isinstance(parent.parent, exp.Anonymous) and str(parent.parent.name).upper() in FUNCTIONS
        case exp.Bracket():
            return str(parent.this.name).upper() != "MAP"
        case exp.Tuple():
            return not isinstance(parent.parent, exp.Values | exp.EQ | exp.NEQ | exp.In)
    return isinstance(parent, _OPERATORS)


def _is_illegal_argument(node: Any, call: exp.Anonymous) -> bool:
    name = str(call.name).upper()
    if name in _TYPED or (name not in FUNCTIONS and name != "ROW"):
        return False
    place = next(place for place, each in enumerate(call.expressions) if each is node)
    if name in _TYPED_BEHIND_FIRST or name in _TYPED_FIRST:
        return (place == 0) != (name in _TYPED_FIRST)
    if name == "NULLIF":
        return place == 0
    return name not in _COMMON or _all_null(call.expressions)


def _has_no_result(case: exp.Case) -> bool:
    default = case.args.get("default")
    return _all_null([*(branch.args["true"] for branch in case.args["ifs"]), *([] if default is None else [default])])


def _all_null(trees: Iterable[Any]) -> bool:
    return all(isinstance(each.unnest(), exp.Null) for each in trees)
