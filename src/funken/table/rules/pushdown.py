"""Conditions and limits in sources: a connector skips rows; the query still checks and counts the others.

Positions in splits do not depend on conditions, so that savepoints of a query of before restore. Watermarks are of all rows: a
source that assigns them leaves out none. A LIMIT takes the first rows that come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from funken.expr.evaluate import is_deterministic
from funken.expr.ir import Call, Node, walk
from funken.table import exec_nodes as nodes
from funken.table.connectors.contract import SourceCondition, conjuncts
from funken.table.connectors.factory import scan_of
from funken.table.exec_nodes import ExecNode, ExecSink

_ALL = 1 << 62


def with_filters(roots: Sequence[ExecSink], config: Any) -> list[ExecSink]:
    """Return plans whose scans know conditions of the filter right above; a scan that several read is left as it is."""
    uses = _uses(roots)
    done: dict[int, Any] = {}

    def visit(node: Any) -> Any:
        if id(node) not in done:
            inputs = tuple(visit(each) for each in node.inputs)
            if (
                isinstance(node, nodes.ExecCalc)
                and isinstance(node.input, nodes.ExecScan)
                and uses[id(node.input)] == 1
            ):
                inputs = (_filtered(node.input, node.condition, config),)
            same = all(one is other for one, other in zip(inputs, node.inputs, strict=True))
            done[id(node)] = node if same else node.with_inputs(inputs)
        return done[id(node)]

    return [visit(root) for root in roots]


def with_limits(roots: Sequence[ExecSink], config: Any) -> list[ExecSink]:
    """Return plans whose scans know the LIMIT above them; a scan that several read is left as it is."""
    uses = _uses(roots)
    done: dict[int, Any] = {}

    def visit(node: Any) -> Any:
        if id(node) not in done:
            inputs = tuple(visit(each) for each in node.inputs)
            if isinstance(node, nodes.ExecRank) and node.name == "Limit" and node.strategy == "append":
                inputs = (_limited(node.input, node.end, uses, config),)
            same = all(one is other for one, other in zip(inputs, node.inputs, strict=True))
            done[id(node)] = node if same else node.with_inputs(inputs)
        return done[id(node)]

    return [visit(root) for root in roots]


def _limited(node: Any, count: int | None, uses: Counter[int], config: Any) -> Any:
    """A relation whose first ``count`` rows are enough, behind projections only."""
    if count is None or count >= _ALL or uses[id(node)] > 1:
        return node
    if isinstance(node, nodes.ExecScan):
        if node.limit is not None or not node.mode.is_insert_only:
            return node
        found = scan_of(node.table, list(node.row_type.names), config, node.options)
        return node if found.limited(count) is None else replace(node, limit=count)
    if isinstance(node, nodes.ExecExchange) or (isinstance(node, nodes.ExecCalc) and node.condition is None):
        below = _limited(node.input, count, uses, config)
        return node if below is node.input else replace(node, input=below)
    return node


def _is_constant(condition: Node) -> bool:
    """Return True if a condition has the same result for a row wherever and whenever it is evaluated."""
    from funken.expr.sql.functions import FUNCTIONS  # noqa: PLC0415 - only where there are conditions

    calls = [each for each in walk(condition) if isinstance(each, Call)]
    return not any(call.handle is not None for call in calls) and is_deterministic(condition, FUNCTIONS)


def _uses(roots: Sequence[ExecSink]) -> Counter[int]:
    """Count the consumers of each operator."""
    uses: Counter[int] = Counter()

    def count(node: Any) -> None:
        uses[id(node)] += 1
        if uses[id(node)] == 1:
            for each in node.inputs:
                count(each)

    for root in roots:
        count(root)
    return uses


def _filtered(scan: nodes.ExecScan, condition: Any, config: Any) -> ExecNode:
    names = tuple(scan.row_type.names)
    conditions = [SourceCondition(one, names) for one in conjuncts(condition) if _is_constant(one)]
    if not conditions or not scan.mode.is_insert_only or scan.watermark is not None:
        return scan
    found = scan_of(scan.table, list(names), config, scan.options)
    _, used = found.filtered(conditions)
    return replace(scan, filters=tuple(conditions[place] for place in used)) if used else scan
