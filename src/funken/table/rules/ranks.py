"""ROW_NUMBER with a bound becomes Rank or Deduplicate, of windows if it is partitioned by them; other OVER windows."""

from __future__ import annotations

from dataclasses import replace

from funken.config.configuration import warn
from funken.expr.ir import Call, InputRef, Literal, Node
from funken.expr.sql.functions import FUNCTIONS
from funken.expr.sql.values import literal, null
from funken.table import exec_nodes as nodes
from funken.table.exec_nodes import ExecNode
from funken.table.logical import (
    AggregateCall,
    BoundKind,
    LogicalFilter,
    LogicalNode,
    LogicalOver,
    LogicalProject,
    OutputColumn,
    OverGroup,
    RelationType,
    TimeAttribute,
    walk,
)
from funken.table.rules.building import (
    ALL,
    BIGINT,
    INSERTS,
    PlanConversion,
    calc,
    check_orderable,
    exchange,
    insert_only,
    refs,
    refuse,
    with_time,
)
from funken.table.rules.conditions import conjunction, conjuncts, substituted
from funken.table.rules.properties import ordered_keys, windows_of
from funken.table.types import DecimalType, DoubleType, LogicalType

_INTERVALS = {"INTERVAL_DAY_TIME", "INTERVAL_YEAR_MONTH"}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


class Bounds:
    """The positions that a filter keeps: from ``start`` to ``end`` or a column's value; ``rest``: other conditions."""

    def __init__(self, conditions: list[Node], rank: int) -> None:
        self.start = 1
        self.end: int | None = None
        self.column: int | None = None
        self.rest: list[Node] = []
        for condition in conditions:
            if not self.read(condition, rank):
                self.rest.append(condition)

    @property
    def bounded(self) -> bool:
        """True if the positions have an end."""
        return self.end is not None or self.column is not None

    def read(self, condition: Node, rank: int) -> bool:
        """Take a condition on the position; return whether it is one."""
        if not isinstance(condition, Call) or condition.function not in _FLIPPED:
            return False
        left, right = (_uncast(arg) for arg in condition.args)
        operator = condition.function
        if isinstance(right, InputRef) and right.index == rank:
            left, right, operator = right, left, _FLIPPED[operator]
        if not isinstance(left, InputRef) or left.index != rank:
            return False
        if isinstance(right, InputRef) and right.index != rank and operator in {"<=", "="} and not self.bounded:
            if operator == "=":
                return False
            self.column = right.index
            return True
        if not isinstance(right, Literal) or not isinstance(right.value, int):
            return False
        value = right.value
        if operator in {"<", "<=", "="}:
            end = value - 1 if operator == "<" else value
            self.end = end if self.end is None else min(self.end, end)
        if operator in {">", ">=", "="}:
            self.start = max(self.start, value + 1 if operator == ">" else value)
        return True


def _uncast(node: Node) -> Node:
    return node.args[0] if isinstance(node, Call) and node.function == "CAST" else node


def refuse_ranks(root: LogicalNode) -> None:
    """Refuse the first rows by RANK or DENSE_RANK in a stream if the query itself filters them.

    Filters that are pushed down change no OVER.
    """
    for node in walk(root):
        if not isinstance(node, LogicalFilter):
            continue
        conditions, below = conjuncts(node.condition), node.input
        while isinstance(below, LogicalProject):
            conditions = [substituted(each, below.expressions) for each in conditions]
            below = below.input
        if not isinstance(below, LogicalOver):
            continue
        calls = [call for group in below.groups for call in group.calls]
        is_rank = len(calls) == 1 and calls[0].function in {"RANK", "DENSE_RANK"}
        if is_rank and Bounds(conditions, len(below.input.row_type)).bounded:
            refuse(f"{calls[0].function}() on streaming table is not supported currently")


def ranked(converter: PlanConversion, node: LogicalFilter, over: LogicalOver) -> ExecNode | None:
    """Return the operator of a filter on the position of a row; ``None`` if it is another filter."""
    calls = [call for group in over.groups for call in group.calls]
    if len(calls) != 1 or calls[0].function != "ROW_NUMBER":
        return None
    below = converter.of(over.input)
    rank = len(below.row_type)
    bounds = Bounds(conjuncts(node.condition), rank)
    if not bounds.bounded:
        return None
    if bounds.end is not None and bounds.end < bounds.start:
        warn(
            "ROW_NUMBER() begins at 1, and its condition leaves no number, so the result is empty. The first row has number 1, "
            "as in WHERE rn <= 1."
        )
    group = over.groups[0]
    column = OutputColumn(calls[0].name, calls[0].type)
    found = _windowed(below, group, bounds, column)
    if found is None:
        found = _deduplicated(converter, below, group, bounds, column)
    if found is None:
        one = bounds.start == bounds.end
        found = converter.rank(
            below, group.partition, group.order, bounds.start, bounds.end, bounds.column, not one, number_column=column
        )
        if one:
            found = _numbered(found, column, bounds.start)
    return calc(found, refs(found.row_type), found.row_type.names, conjunction(bounds.rest))


def _numbered(node: ExecNode, column: OutputColumn, number: int = 1) -> ExecNode:
    """The rows with a constant position."""
    one = Literal(number, type=column.type)
    return calc(node, [*refs(node.row_type), one], [*node.row_type.names, column.name])


def _deduplicated(
    converter: PlanConversion, below: ExecNode, group: OverGroup, bounds: Bounds, column: OutputColumn
) -> ExecNode | None:
    if (bounds.start, bounds.end) != (1, 1) or len(group.order) != 1 or not below.mode.is_insert_only:
        return None
    (key,) = group.order
    time = below.row_type[key.index].time
    if time is None:
        return None
    last = not key.ascending
    node = nodes.ExecDeduplicate(
        exchange(below, group.partition),
        group.partition,
        key.index,
        time is TimeAttribute.ROWTIME,
        last,
        converter.ttl,
        row_type=below.row_type,
        mode=ALL if last else INSERTS,
        upsert_keys=frozenset([frozenset(group.partition)]),
    )
    return _numbered(node, column)


def _windowed(below: ExecNode, group: OverGroup, bounds: Bounds, column: OutputColumn) -> ExecNode | None:
    """Rank or deduplication per window."""
    info = windows_of(below)
    if info is None or bounds.end is None:
        return None
    starts, ends = set(group.partition) & info.starts, set(group.partition) & info.ends
    if not starts or not ends:
        return None
    width = len(below.row_type)
    node, time = with_time(below, info)
    insert_only(node, "WindowRank")
    keys = tuple(place for place in group.partition if place not in info.starts | info.ends)
    window = replace(info.window, time=time)
    columns = (min(starts), min(ends))
    order = group.order
    attribute = below.row_type[order[0].index].time if len(order) == 1 else None
    found: ExecNode
    if (bounds.start, bounds.end) == (1, 1) and attribute is TimeAttribute.ROWTIME:
        found = nodes.ExecWindowDeduplicate(
            exchange(node, keys),
            window,
            columns,
            keys,
            order[0].index,
            not order[0].ascending,
            info.rowtime,
            row_type=node.row_type,
            upsert_keys=frozenset([frozenset((*keys, *columns))]),
        )
        found = _numbered(found, column)
        place = len(node.row_type)
    else:
        found = nodes.ExecWindowRank(
            exchange(node, keys),
            window,
            columns,
            keys,
            order,
            bounds.start,
            bounds.end,
            True,
            info.rowtime,
            row_type=RelationType((*node.row_type.columns, column)),
            upsert_keys=frozenset([frozenset((*keys, *columns, len(node.row_type)))]),
        )
        place = len(node.row_type)
    shown = [*refs(found.row_type)[:width], InputRef(place, type=column.type)]
    return calc(found, shown, [*below.row_type.names, column.name])


def over(converter: PlanConversion, node: LogicalOver) -> ExecNode:
    """The windows of OVER, one operator per partition, order and frame."""
    found = converter.of(node.input)
    if len(node.groups) > 1 and not converter.batch:
        refuse(
            "Over Agg: Unsupported use of OVER windows. All aggregates must be computed on the same window: give them the same "
            "PARTITION BY, ORDER BY and frame, or compute one of them in a query around."
        )
    for group in node.groups:
        below = found
        reduced, results = _reduced(below, group)
        found = _over(below, reduced, converter)
        if reduced is not group:
            names = [*below.row_type.names, *(call.name for call in group.calls)]
            found = calc(found, [*refs(below.row_type), *results], names)
    return found


def _reduced(below: ExecNode, group: OverGroup) -> tuple[OverGroup, list[Node]]:
    """Return a window ordered by values with sums and averages made of counts and sums, and the results over its columns.

    Such a window gives an update whenever a count or a sum changes, as Flink's does: also if an average stays as it is.
    """
    time = below.row_type[group.order[0].index].time if group.order else None
    if not any(map(_is_sum, group.calls)) or (time is not None and len(group.order) == 1):
        return group, []
    calls: list[AggregateCall] = []
    width = len(below.row_type)

    def column(call: AggregateCall) -> Node:
        plain = replace(call, name="")
        places = [place for place, each in enumerate(calls) if replace(each, name="") == plain]
        if not places:
            places = [len(calls)]
            calls.append(replace(call, name=f"w0$o{len(calls)}"))
        return InputRef(width + places[0], type=call.type)

    results: list[Node] = []
    for call in group.calls:
        if not _is_sum(call):
            results.append(column(call))
            continue
        count = column(replace(call, function="COUNT", type=BIGINT))
        summed = _sum_type(call, below.row_type[call.args[0]].type)
        total = column(replace(call, function="SUM0", type=summed.not_null()))
        empty = null(summed.nullable())
        found = FUNCTIONS.call("CASE", [FUNCTIONS.call(">", [count, literal(0)]), total, empty])
        if call.function == "AVG":
            found = FUNCTIONS.call("/", [found, count])
        results.append(found if found.type == call.type else FUNCTIONS.call("CAST", [found], type=call.type))
    return replace(group, calls=tuple(calls)), results


def _is_sum(call: AggregateCall) -> bool:
    return call.function in {"SUM", "AVG"} and call.definition is None and call.type.root not in _INTERVALS


def _sum_type(call: AggregateCall, argument: LogicalType) -> LogicalType:
    """The type of the sum of an average: one that does not overflow."""
    if call.function == "SUM":
        return call.type
    if argument.root == "DECIMAL":
        return DecimalType(38, argument.scale)  # type: ignore[attr-defined]
    return DoubleType() if argument.root in {"FLOAT", "DOUBLE"} else BIGINT


def _over(below: ExecNode, group: OverGroup, converter: PlanConversion) -> ExecNode:
    for call in group.calls:
        if call.function == "LEAD" and not converter.batch:
            refuse("LEAD Function is not supported in stream mode.")
        if call.function in {"NTILE", "CUME_DIST", "PERCENT_RANK"} and not converter.batch:
            refuse(f"{call.function} Function is not supported in stream mode.")
    if not group.order and not converter.batch:
        refuse(
            "The window can only be ordered by a single time column. Write OVER (PARTITION BY .. ORDER BY ts), with the "
            "column of the watermark or of PROCTIME(); batch mode needs none."
        )
    if group.upper.kind is not BoundKind.CURRENT_ROW and not converter.batch:
        refuse("OVER RANGE FOLLOWING windows are not supported yet.")
    for key in group.order:
        check_orderable(below.row_type[key.index].type)
    time = None if converter.batch else below.row_type[group.order[0].index].time
    if converter.batch:
        mode = INSERTS
    elif time is not None and len(group.order) == 1:
        if not group.order[0].ascending:
            refuse("The window can only be ordered in ASCENDING mode.")
        insert_only(below, "OverAggregate")
        mode = INSERTS
    else:
        time, mode = None, ALL
        if group.upper.kind is not BoundKind.CURRENT_ROW or group.lower.kind is not BoundKind.UNBOUNDED_PRECEDING:
            refuse(
                "Non-time attribute window is only supported for UNBOUNDED PRECEDING to CURRENT ROW: "
                "order by a time attribute for other frames."
            )
    columns = tuple(OutputColumn(call.name, call.type) for call in group.calls)
    return nodes.ExecOver(
        exchange(below, group.partition),
        (group,),
        time,
        not below.mode.is_insert_only,
        row_type=RelationType(below.row_type.columns + columns),
        mode=mode,
        upsert_keys=ordered_keys(below, group.partition),
    )
