"""Properties of the rows of an optimized plan: upsert keys, windows, monotonic columns, origins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

from funken.dataclass import dataclass
from funken.expr.ir import InputRef, Node, walk
from funken.table import exec_nodes as nodes
from funken.table.exec_nodes import ExecNode, UpsertKeys
from funken.table.logical import AggregateCall, JoinType, TimeAttribute, WindowProperty, WindowShape
from funken.table.rules.conditions import conjuncts, keeps_identity

NO_KEYS: UpsertKeys = frozenset()
MAX_KEYS = 16


@dataclass(frozen=True)
class WindowColumns:
    """The columns of a relation that say the window of its rows; ``window`` is the shape of the windows."""

    starts: frozenset[int]
    ends: frozenset[int]
    times: frozenset[int]
    window: WindowShape
    rowtime: bool
    time_type: Any

    @property
    def shape(self) -> tuple[Any, ...]:
        """The properties that equal windows have in common."""
        window = self.window
        return (window.kind, window.size, window.slide, window.gap, window.offset, self.rowtime)


def renamed_keys(keys: Iterable[frozenset[int]], expressions: Sequence[Node]) -> UpsertKeys:
    """Upsert keys of a projection: those whose columns are all handed on."""
    places: dict[int, list[int]] = {}
    for place, expression in enumerate(expressions):
        index = keeps_identity(expression)
        if index is not None:
            places.setdefault(index, []).append(place)
    found = set()
    for key in keys:
        if all(index in places for index in key):
            found.add(frozenset(places[index][0] for index in key))
    return limited(found)


def limited(keys: Iterable[frozenset[int]]) -> UpsertKeys:
    """The smallest of many keys. One that contains another is kept: a sink may have that key."""
    return frozenset(sorted(set(keys), key=lambda key: (len(key), sorted(key)))[:MAX_KEYS])


def ordered_keys(node: ExecNode, distribution: Iterable[int]) -> UpsertKeys:
    """Upsert keys behind an exchange by some columns: of equal keys all changes stay in one task, and so in order.

    An update that changes these columns goes through two tasks, whose results overtake each other in the next exchange.
    """
    if node.mode.is_insert_only:
        return node.upsert_keys
    return frozenset(key for key in node.upsert_keys if set(distribution) <= key)


def join_keys(node: nodes.EquiJoin) -> UpsertKeys:
    """Upsert keys of a regular join."""
    left, right = node.left.upsert_keys, node.right.upsert_keys
    ordered = ordered_keys(node.left, node.left_keys)
    if not node.kind.keeps_right:
        return ordered
    width = len(node.left.row_type)
    others = ordered_keys(node.right, node.right_keys)
    right_unique = any(key <= set(node.right_keys) for key in right)
    left_unique = any(key <= set(node.left_keys) for key in left)

    def moved(key: frozenset[int]) -> frozenset[int]:
        return frozenset(index + width for index in key)

    found = set()
    for one in left:
        for other in right:
            first, second = (
                one in ordered,
                other in others,
            )  # a pair is where both are; a row with a pad where it is itself
            if (first or second) and (first or not node.kind.pads_right) and (second or not node.kind.pads_left):
                found.add(one | moved(other))
    if right_unique and not node.kind.pads_left:
        found |= ordered
    if left_unique and not node.kind.pads_right:
        found |= set(map(moved, others))
    return limited(found)


def gives_rows(calls: Iterable[AggregateCall]) -> bool:
    """Return True if aggregates are those of ``flat_aggregate``, which take all rows back before they emit new ones."""
    return any(getattr(call.definition, "gives_rows", False) for call in calls)


@singledispatch
def windows_of(node: ExecNode) -> WindowColumns | None:
    """Return the window columns of a relation, if its rows are those of windows."""
    return None


@windows_of.register
def _(node: nodes.ExecWindowTable) -> WindowColumns | None:
    width = len(node.input.row_type)
    column = node.input.row_type[node.window.time]
    rowtime = column.time is not TimeAttribute.PROCTIME
    one = frozenset
    return WindowColumns(one([width]), one([width + 1]), one([width + 2]), node.window, rowtime, column)


@windows_of.register
def _(node: nodes.ExecCalc) -> WindowColumns | None:
    below = windows_of(node.input)
    return None if below is None else projected(below, node.expressions)


def projected(below: WindowColumns, expressions: Sequence[Node]) -> WindowColumns | None:
    """Window columns behind a projection."""

    def places(columns: frozenset[int]) -> frozenset[int]:
        return frozenset(
            place
            for place, expression in enumerate(expressions)
            if isinstance(expression, InputRef) and expression.index in columns
        )

    starts, ends, times = places(below.starts), places(below.ends), places(below.times)
    if not starts and not ends and not times:
        return None
    return replace(below, starts=starts, ends=ends, times=times)


@windows_of.register(nodes.ExecExchange)
@windows_of.register(nodes.ExecWindowRank)
@windows_of.register(nodes.ExecWindowDeduplicate)
@windows_of.register(nodes.ExecCorrelate)
def _(node: Any) -> WindowColumns | None:
    return windows_of(node.input)


@windows_of.register
def _(node: nodes.ExecExpand) -> WindowColumns | None:
    below = windows_of(node.input)
    return None if below is None else projected(below, node.projections[0])


@windows_of.register
def _(node: nodes.ExecUnion) -> WindowColumns | None:
    found = [windows_of(each) for each in node.relations]
    first = found[0]
    if first is None:
        return None
    for each in found[1:]:
        if each is None or each.shape != first.shape or (each.starts, each.ends) != (first.starts, first.ends):
            return None
    return first


@windows_of.register
def _(node: nodes.ExecWindowAggregate) -> WindowColumns | None:
    width = len(node.keys) + len(node.calls)
    places: dict[WindowProperty, list[int]] = {}
    for place, each in enumerate(node.properties):
        places.setdefault(each, []).append(width + place)
    times = places.get(WindowProperty.ROWTIME, []) + places.get(WindowProperty.PROCTIME, [])
    column = node.input.row_type[node.window.time]
    return WindowColumns(
        frozenset(places.get(WindowProperty.START, ())),
        frozenset(places.get(WindowProperty.END, ())),
        frozenset(times),
        node.window,
        node.rowtime,
        column,
    )


@windows_of.register
def _(node: nodes.ExecWindowJoin) -> WindowColumns | None:
    left, right = windows_of(node.left), windows_of(node.right)
    if left is None or right is None or not node.kind.keeps_right:
        return left
    width = len(node.left.row_type)

    def both(one: frozenset[int], other: frozenset[int]) -> frozenset[int]:
        rights = frozenset(index + width for index in other)
        if node.kind is JoinType.LEFT:
            return one
        if node.kind is JoinType.RIGHT:
            return rights
        return frozenset() if node.kind is JoinType.FULL else one | rights

    return replace(
        left,
        starts=both(left.starts, right.starts),
        ends=both(left.ends, right.ends),
        times=both(left.times, right.times),
    )


@singledispatch
def monotonic(node: ExecNode) -> Mapping[int, bool]:
    """Return the columns whose values of one upsert key only grow (True) or only fall (False)."""
    return {}


@monotonic.register
def _(node: nodes.ExecGroupAggregate) -> Mapping[int, bool]:
    below = monotonic(node.input)
    found = {place: below[key] for place, key in enumerate(node.keys) if key in below}
    if node.retracts:
        return {}
    for place, call in enumerate(node.calls, len(node.keys)):
        if call.function in {"COUNT", "MAX", "APPROX_COUNT_DISTINCT"}:
            found[place] = True
        elif call.function == "MIN":
            found[place] = False
        elif call.function in {"SUM", "SUM0"} and call.filter is None and is_positive(node.input, call.args[0]):
            found[place] = True
    return found


def is_positive(node: ExecNode, column: int) -> bool:
    """Return True if the values of a column are never negative: those of a COUNT."""
    if isinstance(node, nodes.ExecExchange):
        return is_positive(node.input, column)
    if isinstance(node, nodes.ExecCalc):
        expression = node.expressions[column]
        if isinstance(expression, InputRef):
            return is_positive(node.input, expression.index)
        return isinstance(getattr(expression, "value", None), int) and getattr(expression, "value", -1) >= 0
    if isinstance(node, nodes.ExecGroupAggregate):
        place = column - len(node.keys)
        return place >= 0 and node.calls[place].function == "COUNT"
    return False


@monotonic.register
def _(node: nodes.ExecCalc) -> Mapping[int, bool]:
    below = monotonic(node.input)
    found = {}
    for place, expression in enumerate(node.expressions):
        index = keeps_identity(expression)
        if index is not None and index in below:
            found[place] = below[index]
    return found


@monotonic.register
def _(node: nodes.ExecExchange) -> Mapping[int, bool]:
    return monotonic(node.input)


# ---- Distribution: by the hash of which columns the rows of a relation are spread over the subtasks.


_KEEPS_PLACES = (
    *(nodes.ExecWatermark, nodes.ExecMiniBatchAssigner, nodes.ExecDropUpdateBefore, nodes.ExecChangelogNormalize),
    *(nodes.ExecRank, nodes.ExecDeduplicate, nodes.ExecWindowRank, nodes.ExecWindowDeduplicate),
    *(nodes.ExecOver, nodes.ExecWindowTable, nodes.ExecCorrelate, nodes.ExecLookupJoin),
)
"""Operators whose rows begin with those of their input."""
_GROUPS = (nodes.ExecGroupAggregate, nodes.ExecWindowAggregate, nodes.ExecGroupWindowAggregate)


def hashed_by(node: ExecNode) -> frozenset[nodes.Keys]:
    """Return the lists of columns whose hash gives the subtask of each row."""
    if isinstance(node, nodes.ExecExchange):
        return frozenset([node.keys] if node.keys else [])
    if isinstance(node, _KEEPS_PLACES):
        return hashed_by(node.input)
    if isinstance(node, _GROUPS):
        return _moved(hashed_by(node.input), {key: place for place, key in enumerate(node.keys)})
    if isinstance(node, nodes.ExecCalc):
        places: dict[int, int] = {}
        for place, expression in enumerate(node.expressions):
            if isinstance(expression, InputRef):
                places.setdefault(expression.index, place)
        return _moved(hashed_by(node.input), places)
    if isinstance(node, nodes.EquiJoin):
        width, kind = len(node.left.row_type), node.kind
        left = frozenset() if kind.pads_left else hashed_by(node.left)
        right = frozenset() if kind.pads_right or not kind.keeps_right else hashed_by(node.right)
        return left | frozenset(tuple(key + width for key in keys) for keys in right)
    return frozenset()


def _moved(distributions: Iterable[nodes.Keys], places: Mapping[int, int]) -> frozenset[nodes.Keys]:
    """Return distributions by columns that are at other places, of those that are there."""
    return frozenset(tuple(places[key] for key in keys) for keys in distributions if all(key in places for key in keys))


# ---- Estimates for EXPLAIN: how many rows an operator gives, and how many it and all below it take, if a table has
# 100 million.


TABLE_ROWS = 1e8
_AGGREGATES = (
    nodes.ExecGroupAggregate,
    nodes.ExecLocalGroupAggregate,
    nodes.ExecWindowAggregate,
    nodes.ExecGroupWindowAggregate,
)


@dataclass(frozen=True)
class Estimate:
    """Rows that an operator emits; rows that it and those below take; and how many of these travel, and are kept."""

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


def sees_watermarks(node: Any) -> bool:
    """Return True if results depend on the watermark before each row, whatever the row's own time is.

    So it is with CURRENT_WATERMARK, and with a window over an expression, whose time may be before that of the row.
    """
    if isinstance(node, nodes.ExecGroupWindowAggregate):
        return node.rowtime and node.input.row_type[node.window.time].time is None
    if not isinstance(node, nodes.ExecCalc):
        return False
    expressions = [*node.expressions, *([node.condition] if node.condition is not None else [])]
    return any(getattr(part, "function", "") == "CURRENT_WATERMARK" for each in expressions for part in walk(each))
