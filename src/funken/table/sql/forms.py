"""Forms of queries that sqlglot reads and Flink refuses: each is refused here, so that no word of a query goes unread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from funken.table.sql.scopes import fail


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


def _select(node: exp.Select) -> str | None:
    return "A query has no FOR UPDATE or FOR SHARE" if node.args.get("locks") else None


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
    exp.Lateral: _lateral,
    exp.Join: _join,
    exp.WindowSpec: _frame,
}
