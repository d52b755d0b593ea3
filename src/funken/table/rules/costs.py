"""Estimates for EXPLAIN: how many rows an operator gives, and how many it and all below it take, if a table has 100 million."""

from __future__ import annotations

from typing import Any

from funken.dataclass import dataclass
from funken.table import exec_nodes as nodes
from funken.table.exec_nodes import ExecNode
from funken.table.rules.conditions import conjuncts

TABLE_ROWS = 1e8
_AGGREGATES = (
    nodes.ExecGroupAggregate,
    nodes.ExecLocalGroupAggregate,
    nodes.ExecWindowAggregate,
    nodes.ExecGroupWindowAggregate,
)


@dataclass(frozen=True)
class Estimate:
    """Rows that an operator gives; rows that it and those below take; how many of these travel, and how many are kept."""

    rows: float
    taken: float
    sent: float = 0.0
    kept: float = 0.0

    def __str__(self) -> str:
        cost = f"{self.taken:.3G} rows, {self.sent:.3G} network, {self.kept:.3G} state"
        return f"rowcount = {self.rows:.3G}, cumulative cost = {{{cost}}}"


def estimate(node: ExecNode) -> Estimate:
    """Return the estimate of an operator."""
    below = [estimate(each) for each in node.inputs]  # type: ignore[arg-type]
    given = sum(each.rows for each in below)
    rows = _rows(node, [each.rows for each in below])
    sent = given if isinstance(node, nodes.ExecExchange) else 0.0
    kept = _kept(node, given, rows)
    return Estimate(
        rows,
        rows + sum(each.taken for each in below),
        sent + sum(each.sent for each in below),
        kept + sum(each.kept for each in below),
    )


def _rows(node: Any, given: list[float]) -> float:
    if isinstance(node, nodes.ExecValues):
        return float(max(1, len(node.rows)))
    if not given:
        return TABLE_ROWS
    if isinstance(node, nodes.ExecCalc):
        return given[0] * _share(node.condition)
    if isinstance(node, _AGGREGATES):
        return max(1.0, given[0] * 0.1) if node.keys else 1.0
    if isinstance(node, nodes.ExecRank):
        return min(given[0], float(node.end or given[0])) if not node.partition else given[0] * 0.1
    if isinstance(node, nodes.ExecDeduplicate):
        return given[0] * 0.1
    if isinstance(node, nodes.EquiJoin):
        if not node.kind.keeps_right:
            return given[0] * 0.5
        return max(given) if node.left_keys else given[0] * given[1] * _share(node.condition)
    return max(given) if isinstance(node, nodes.ExecMultiJoin) else sum(given)


def _share(condition: Any) -> float:
    """The share of rows that fulfil a condition."""
    share = 1.0
    for part in conjuncts(condition):
        share *= 0.15 if getattr(part, "function", "") == "=" else 0.5
    return share


def _kept(node: Any, given: float, rows: float) -> float:
    """The rows of state of an operator."""
    if isinstance(node, nodes.EquiJoin | nodes.ExecMultiJoin | nodes.ExecChangelogNormalize):
        return given
    kept = (nodes.ExecGroupAggregate, nodes.ExecGlobalGroupAggregate, nodes.ExecIncrementalGroupAggregate)
    if isinstance(node, (*kept, nodes.ExecRank, nodes.ExecDeduplicate)):
        return rows
    return given if getattr(node, "materialize", False) else 0.0
