"""Distinct values over buckets (``table.optimizer.distinct-agg.split.enabled``): a group is first many smaller ones.

COUNT(DISTINCT x) of a group is the sum of those of its buckets, by ``MOD(HASH_CODE(x), 1024)``: a group with many values has many
tasks. Several different arguments need a copy of the row for each; a call reads its own copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from funken.dataclass import dataclass
from funken.expr.ir import InputRef, Literal, Node
from funken.expr.rules import AggregateRule
from funken.expr.sql.functions import FUNCTIONS
from funken.expr.sql.values import null
from funken.table import exec_nodes as nodes
from funken.table.catalog import InvalidTable
from funken.table.exec_nodes import ExecNode
from funken.table.logical import AggregateCall, OutputColumn, RelationType
from funken.table.rules.building import PlanConversion, calc, refs
from funken.table.types import (
    BigIntType,
    DoubleType,
    FloatType,
    IntegralType,
    IntType,
    LogicalType,
    RawType,
)

_BIGINT = BigIntType(is_nullable=False)
_FINAL = {
    "COUNT": "SUM0",
    "SUM": "SUM",
    "SUM0": "SUM0",
    "MIN": "MIN",
    "MAX": "MAX",
    "FIRST_VALUE": "FIRST_VALUE",
    "LAST_VALUE": "LAST_VALUE",
    "LISTAGG": "LISTAGG",
}
"""The aggregates that merge the results of buckets."""
_SPREAD = {"MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"}
"""The aggregates that keep all values where rows are taken back, and so are spread as well."""
Group = Callable[[ExecNode, tuple[int, ...], tuple[AggregateCall, ...]], Any]


@dataclass(frozen=True)
class _Part:
    """A call over a bucket, and the call that puts its results together; ``buckets`` are the columns that spread its values."""

    call: AggregateCall
    final: str
    type: LogicalType
    buckets: frozenset[int]


def over_buckets(
    converter: PlanConversion,
    below: ExecNode,
    keys: tuple[int, ...],
    calls: tuple[AggregateCall, ...],
    group: Group,
) -> ExecNode | None:
    """Return a group aggregate in two levels, each of them made by ``group``; ``None`` where values are not split."""
    option = converter.config.option
    wanted = option("table.optimizer.distinct-agg.split.enabled") and not converter.batch
    if not wanted or not any(call.distinct for call in calls) or not all(_splits(call, below) for call in calls):
        return None
    count = option("table.optimizer.distinct-agg.split.bucket-num")
    if count <= 0:
        raise InvalidTable(
            f"option 'table.optimizer.distinct-agg.split.bucket-num' must be greater than 0, but is {count}."
        )
    width = len(below.row_type)
    spread = sorted({place for call in calls if _is_spread(call) for place in call.args} - set(keys))
    of_keys = any(call.distinct and set(call.args) <= set(keys) for call in calls)
    if not spread or of_keys:  # each bucket of a group would count the value of its key
        return None
    places = {place: width + at for at, place in enumerate(spread)}
    buckets = [
        FUNCTIONS.call("MOD", [FUNCTIONS.call("HASH_CODE", [refs(below.row_type)[place]]), _number(count)])
        for place in spread
    ]
    names = [f"$f{width + at}" for at in range(len(spread))]
    source = calc(below, [*refs(below.row_type), *buckets], [*below.row_type.names, *names])
    parts = [part for call in calls for part in _parts(call, places)]
    if _is_copied(parts) and any(_needs_values(call) for call in calls):
        return None
    columns = tuple(places.values())
    source, inner = _copies(source, columns, parts)
    partial = replace(group(source, (*keys, *columns), inner), phase="PARTIAL")
    first = len(keys) + len(columns)
    outer = tuple(
        AggregateCall(part.final, (first + at,), part.type, name=f"$f{len(keys) + at}") for at, part in enumerate(parts)
    )
    final = replace(group(partial, tuple(range(len(keys))), outer), phase="FINAL")
    return _results(final, keys, calls)


def _splits(call: AggregateCall, below: ExecNode) -> bool:
    if call.definition is not None or call.order or (call.function not in _FINAL and call.function != "AVG"):
        return False
    if call.function in {"FIRST_VALUE", "LAST_VALUE", "LISTAGG"} and len(call.args) != 1:
        return False
    return not any(isinstance(below.row_type[place].type, RawType) for place in call.args)


def _is_copied(parts: Sequence[_Part]) -> bool:
    """Return True if a row goes into several buckets."""
    return len({part.buckets for part in parts if part.buckets}) > 1


def _needs_values(call: AggregateCall) -> bool:
    """Return True if a result may not be NULL, as it is for a moment where the copies of a row come one by one."""
    rule = FUNCTIONS.get(call.function)
    return isinstance(rule, AggregateRule) and rule.null_without_values and not call.type.is_nullable


def _is_spread(call: AggregateCall) -> bool:
    return call.distinct or call.function in _SPREAD


def _number(value: int, type_: LogicalType | None = None) -> Literal:
    return Literal(value, type=type_ or IntType(is_nullable=False))


def _parts(call: AggregateCall, places: dict[int, int]) -> list[_Part]:
    """The calls over a bucket that a call needs: AVG is a sum and a count."""
    buckets = frozenset(places[place] for place in call.args if place in places) if _is_spread(call) else frozenset()
    if call.function != "AVG":
        return [_Part(call, _FINAL[call.function], call.type, buckets)]
    total = _sum_type(call.type)
    return [
        _Part(replace(call, function="SUM0", type=total), "SUM0", total, buckets),
        _Part(replace(call, function="COUNT", type=_BIGINT), "SUM0", _BIGINT, buckets),
    ]


def _sum_type(type_: LogicalType) -> LogicalType:
    if isinstance(type_, IntegralType):
        return _BIGINT
    return DoubleType(is_nullable=False) if isinstance(type_, FloatType) else type_.not_null()


def _copies(
    source: ExecNode, columns: Sequence[int], parts: Sequence[_Part]
) -> tuple[ExecNode, tuple[AggregateCall, ...]]:
    """A row once for all calls, or once for each choice of buckets, with columns that say which calls read it."""
    wanted = {part.buckets for part in parts}
    named = [replace(part.call, name=f"$f{at}_0") for at, part in enumerate(parts)]
    if not _is_copied(parts):
        return source, tuple(named)
    numbers = {choice: _expand_id(columns, choice) for choice in wanted}
    projections = []
    for choice, number in sorted(numbers.items(), key=lambda item: item[1]):
        row: list[Node] = []
        for place, reference in enumerate(refs(source.row_type)):
            left_out = place in columns and place not in choice
            row.append(null(reference.type.nullable()) if left_out else reference)
        projections.append((*row, _number(number, _BIGINT)))
    shown = [
        replace(column, type=column.type.nullable()) if place in columns else column
        for place, column in enumerate(source.row_type)
    ]
    row_type = RelationType((*shown, OutputColumn("$e", _BIGINT)))
    expand = nodes.ExecExpand(source, tuple(projections), row_type=row_type, mode=source.mode)
    return _filtered(expand, parts, named, numbers)


def _expand_id(columns: Sequence[int], choice: frozenset[int]) -> int:
    """The number of a choice: a bit per column that it leaves out, the last column lowest."""
    return sum(1 << (len(columns) - 1 - at) for at, place in enumerate(columns) if place not in choice)


def _filtered(
    expand: nodes.ExecExpand,
    parts: Sequence[_Part],
    named: Sequence[AggregateCall],
    numbers: dict[frozenset[int], int],
) -> tuple[ExecNode, tuple[AggregateCall, ...]]:
    width = len(expand.row_type) - 1
    copies = InputRef(width, type=_BIGINT)
    shown = refs(expand.row_type)[:-1]
    names = list(expand.row_type.names[:-1])
    filters: dict[tuple[int, int | None], int] = {}
    calls = []
    for part, call in zip(parts, named, strict=True):
        number = numbers[part.buckets]
        if (number, call.filter) not in filters:
            condition: Node = FUNCTIONS.call("=", [copies, _number(number, _BIGINT)])
            if call.filter is not None:
                own = InputRef(call.filter, type=expand.row_type[call.filter].type)
                condition = FUNCTIONS.call("AND", [condition, own])
            filters[number, call.filter] = len(shown)
            shown.append(condition)
            names.append(f"$g_{number}" if f"$g_{number}" not in names else f"$g_{number}_{len(shown)}")
        calls.append(replace(call, filter=filters[number, call.filter]))
    return calc(expand, shown, names), tuple(calls)


def _results(final: ExecNode, keys: tuple[int, ...], calls: Sequence[AggregateCall]) -> ExecNode:
    """The results with the names and types of the calls."""
    row = final.row_type
    shown: list[Node] = [InputRef(place, type=row[place].type) for place in range(len(keys))]
    names = [row[place].name for place in range(len(keys))]
    place = len(keys)
    for call in calls:
        found: Node = InputRef(place, type=row[place].type)
        if call.function == "AVG":
            count = InputRef(place + 1, type=row[place + 1].type)
            divided = FUNCTIONS.call("CAST", [FUNCTIONS.call("/", [found, count])], type=call.type.nullable())
            nothing = FUNCTIONS.call("=", [count, _number(0, _BIGINT)])
            found = FUNCTIONS.call("CASE", [nothing, null(call.type), divided])
            place += 1
        place += 1
        shown.append(found)
        names.append(call.name)
    return calc(final, shown, names)
