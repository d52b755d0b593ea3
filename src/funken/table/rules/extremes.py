"""Window joins of rows with the extreme of their window: ``b JOIN (SELECT MAX(x), window ...) m ON b.x = m.x``.

If the extreme is over all rows that the other side is taken from, a row that is behind another one of its window has no partner.
So it need not be sent to the join. No uid and no line of EXPLAIN knows of that.
"""

from __future__ import annotations

from typing import Any

from funken.dataclass import dataclass
from funken.expr.ir import InputRef
from funken.table import exec_nodes as nodes
from funken.table.exec_nodes import ExecNode
from funken.table.logical import JoinType, WindowKind

_ORDERED = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "TIMESTAMP", "TIMESTAMP_LTZ"})
"""Types whose values are whole numbers in Arrow."""
Place = tuple[ExecNode, int]
"""A column where it comes from."""


@dataclass(frozen=True)
class WindowExtreme:
    """Of each window, the rows whose value in ``column`` is its greatest or least are needed, and no others."""

    column: int
    greatest: bool


def extreme_of(node: nodes.ExecWindowJoin, side: int) -> WindowExtreme | None:
    """Return which rows of a side (0: left) may have partners, if the other side is the extreme of their windows."""
    kinds = (JoinType.INNER, JoinType.SEMI) if side == 0 else (JoinType.INNER,)
    if node.kind not in kinds or not node.rowtime:
        return None
    mine, other = (node.left, node.right) if side == 0 else (node.right, node.left)
    keys, others = (node.left_keys, node.right_keys) if side == 0 else (node.right_keys, node.left_keys)
    null_safe = node.null_safe or (False,) * len(keys)
    for key, theirs, is_safe in zip(keys, others, null_safe, strict=True):
        aggregate, place = _origin((other, theirs), filters=True)
        if is_safe or not isinstance(aggregate, nodes.ExecWindowAggregate) or aggregate.keys:
            continue
        call = aggregate.calls[place] if place < len(aggregate.calls) else None
        if call is None or call.function not in {"MAX", "MIN"} or call.filter is not None:
            continue
        if mine.row_type[key].type.root in _ORDERED and _covers(aggregate, call.args[0], (mine, key)):
            return WindowExtreme(key, call.function == "MAX")
    return None


def _covers(aggregate: nodes.ExecWindowAggregate, argument: int, column: Place) -> bool:
    """Return True if an aggregate sees a column of all rows that are in a relation, in the same windows."""
    table = _window_table(column[0])
    if table is None or aggregate.window_columns is not None or not aggregate.input.mode.is_insert_only:
        return False
    one, other = table.window, aggregate.window
    shapes = [(each.kind, each.size, each.slide, each.offset) for each in (one, other)]
    if shapes[0] != shapes[1] or one.kind is WindowKind.SESSION:
        return False
    return all(
        mine[0] is theirs[0] and mine[1] == theirs[1]
        for mine, theirs in (
            (_origin(column, filters=True), _origin((aggregate.input, argument), filters=False)),
            (_origin((table.input, one.time), filters=True), _origin((aggregate.input, other.time), filters=False)),
        )
    )


def _origin(column: Place, filters: bool) -> Place:
    """Return where a column comes from unchanged; ``filters``: maybe in fewer rows, or in several copies."""
    node, place = column
    while True:
        if isinstance(node, nodes.ExecExchange | nodes.ExecWatermark):
            node = node.input
        elif isinstance(node, nodes.ExecCalc) and (filters or node.condition is None):
            expression = node.expressions[place]
            if not isinstance(expression, InputRef):
                return node, place
            node, place = node.input, expression.index
        elif isinstance(node, nodes.ExecWindowTable) and filters and place < len(node.input.row_type):
            node = node.input
        else:
            return node, place


def _window_table(node: Any) -> nodes.ExecWindowTable | None:
    while isinstance(node, nodes.ExecExchange | nodes.ExecCalc):
        node = node.input
    return node if isinstance(node, nodes.ExecWindowTable) else None
