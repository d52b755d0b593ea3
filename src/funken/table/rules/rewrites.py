"""Rewrites of logical plans: set operations become unions, joins and aggregates; filters move to where the rows come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from funken.expr.ir import InputRef, Node, input_refs, shifted
from funken.expr.sql.functions import FUNCTIONS
from funken.expr.sql.values import literal
from funken.table.constants import fold
from funken.table.logical import (
    AggregateCall,
    JoinType,
    LogicalAggregate,
    LogicalCorrelate,
    LogicalFilter,
    LogicalJoin,
    LogicalNode,
    LogicalOver,
    LogicalProject,
    LogicalSetOperation,
    LogicalSort,
    LogicalTemporalJoin,
    LogicalWindowTable,
    RelationType,
    SetKind,
    TableCall,
    TimeAttribute,
    WindowKind,
    joined,
    project,
)
from funken.table.rules.conditions import (
    conjunction,
    conjuncts,
    is_deterministic,
    moved,
    rejects_null,
    substituted,
)
from funken.table.rules.doubts import warn_of_conditions, warn_of_divisions
from funken.table.types import BigIntType


class Rewriter:
    """Rewrites plans; a relation that is used several times stays one object where nothing is pushed into it."""

    def __init__(self, zone: str) -> None:
        self._zone = zone
        self._done: dict[tuple[str, tuple[Node, ...]], LogicalNode] = {}

    def push(self, node: LogicalNode, predicates: Sequence[Node] = ()) -> LogicalNode:
        """Return the rows of a plan that fulfil predicates over its columns."""
        key = (node.fingerprint, tuple(predicates))
        found = self._done.get(key)
        if found is None:
            rule: Any = _RULES.get(type(node), Rewriter.stay)
            found = self._done[key] = rule(self, node, list(predicates))
        return found

    def _fold(self, node: Node) -> Node:
        return fold(node, self._zone)

    def stay(self, node: LogicalNode, predicates: list[Node]) -> LogicalNode:
        """Filters stay above."""
        inputs = [self.push(each) for each in node.inputs]
        return filtered(
            node if all(new is old for new, old in zip(inputs, node.inputs, strict=True)) else node.with_inputs(inputs),
            predicates,
        )

    def filter(self, node: LogicalFilter, predicates: list[Node]) -> LogicalNode:
        """Push the conjuncts on."""
        own = list(map(self._fold, conjuncts(node.condition)))
        warn_of_conditions(own, predicates, node.row_type.names)
        return self.push(node.input, [*own, *predicates])

    def project(self, node: LogicalProject, predicates: list[Node]) -> LogicalNode:
        """Push deterministic predicates through the projection."""
        expressions = tuple(map(self._fold, node.expressions))
        warn_of_divisions(expressions, node.input.row_type.names)
        below: list[Node] = []
        above: list[Node] = []
        for predicate in predicates:
            used = [expressions[index] for index in input_refs(predicate)]
            if all(map(is_deterministic, used)):
                below.append(substituted(predicate, expressions))
            else:
                above.append(predicate)
        return filtered(replace(node, input=self.push(node.input, below), expressions=expressions), above)

    def join(self, node: LogicalJoin, predicates: list[Node]) -> LogicalNode:
        """Push predicates to the sides that do not change the padded rows."""
        width = len(node.left.row_type)
        lefts, rights = set(range(width)), set(range(width, width + len(node.right.row_type)))
        kind = node.kind
        if any(rejects_null(each, rights) for each in predicates):
            kind = {JoinType.LEFT: JoinType.INNER, JoinType.FULL: JoinType.RIGHT}.get(kind, kind)
        if any(rejects_null(each, lefts) for each in predicates):
            kind = {JoinType.RIGHT: JoinType.INNER, JoinType.FULL: JoinType.LEFT}.get(kind, kind)
        on = list(map(self._fold, conjuncts(node.condition)))
        warn_of_conditions(on, [], joined(node.left.row_type, node.right.row_type, JoinType.INNER).names)
        if kind is JoinType.INNER:
            on, predicates = on + predicates, []
        to_left, to_right, stay, above = [], [], [], []
        for each in on:
            refs = input_refs(each)
            movable = is_deterministic(each) and bool(refs)
            if movable and refs <= lefts and kind in {JoinType.INNER, JoinType.RIGHT, JoinType.SEMI}:
                to_left.append(each)
            elif movable and refs <= rights and kind not in {JoinType.RIGHT, JoinType.FULL}:
                to_right.append(moved(each, -width))
            else:
                stay.append(each)
        for each in predicates:
            refs = input_refs(each)
            movable = is_deterministic(each)
            if movable and refs <= lefts and kind in {JoinType.LEFT, JoinType.SEMI, JoinType.ANTI}:
                to_left.append(each)
            elif movable and refs <= rights and kind is JoinType.RIGHT:
                to_right.append(moved(each, -width))
            else:
                above.append(each)
        made = LogicalJoin(
            self.push(node.left, to_left),
            self.push(node.right, to_right),
            kind,
            conjunction(stay),
            node.hints,
            node.ttl,
            span=node.span,
        )
        return filtered(made, above)

    def temporal(self, node: LogicalTemporalJoin, predicates: list[Node]) -> LogicalNode:
        """Push predicates on the left side alone to it, and those on a lookup's rows into it: versions stay whole."""
        width = len(node.left.row_type)
        lefts, rights = set(range(width)), set(range(width, width + len(node.right.row_type)))
        lookup = node.time is None or node.left.row_type[node.time].time is TimeAttribute.PROCTIME
        to_left: list[Node] = []
        to_right: list[Node] = []
        stay: list[Node] = []
        above: list[Node] = []
        for each in map(self._fold, conjuncts(node.condition)):
            refs = input_refs(each)
            movable = is_deterministic(each) and bool(refs)
            if movable and refs <= lefts and node.kind is JoinType.INNER:
                to_left.append(each)
            elif movable and refs <= rights and lookup:
                to_right.append(moved(each, -width))
            else:
                stay.append(each)
        for each in predicates:
            refs = input_refs(each)
            if refs <= lefts and is_deterministic(each):
                to_left.append(each)
            elif refs <= rights and lookup and node.kind is JoinType.INNER and is_deterministic(each):
                to_right.append(moved(each, -width))
            elif node.condition is None and node.kind is JoinType.INNER:  # FROM a, b FOR SYSTEM_TIME AS OF .. WHERE ..
                stay.append(each)
            else:
                above.append(each)
        left, right = self.push(node.left, to_left), self.push(node.right, to_right)
        return filtered(replace(node, left=left, right=right, condition=conjunction(stay)), above)

    def correlate(self, node: LogicalCorrelate, predicates: list[Node]) -> LogicalNode:
        """Push predicates on the input alone."""
        width = len(node.input.row_type)
        below: list[Node] = []
        above: list[Node] = []
        for each in predicates:
            (below if input_refs(each) <= set(range(width)) and is_deterministic(each) else above).append(each)
        return filtered(replace(node, input=self.push(node.input, below)), above)

    def aggregate(self, node: LogicalAggregate, predicates: list[Node]) -> LogicalNode:
        """Push predicates on the keys alone."""
        below: list[Node] = []
        above: list[Node] = []
        for each in predicates:
            refs = input_refs(each)
            movable = node.sets is None and refs and max(refs) < len(node.keys) and is_deterministic(each)
            if movable:
                below.append(shifted(each, lambda index: node.keys[index]))
            else:
                above.append(each)
        return filtered(replace(node, input=self.push(node.input, below)), above)

    def window(self, node: LogicalWindowTable, predicates: list[Node]) -> LogicalNode:
        """Push predicates that are not on the windows."""
        if node.window.kind is WindowKind.SESSION:
            return self.stay(node, predicates)
        width = len(node.input.row_type)
        below = [
            each
            for each in predicates
            if input_refs(each) and input_refs(each) <= set(range(width)) and is_deterministic(each)
        ]
        above = [each for each in predicates if each not in below]
        return filtered(replace(node, input=self.push(node.input, below)), above)

    def over(self, node: LogicalOver, predicates: list[Node]) -> LogicalNode:
        """Push predicates on the partition alone."""
        common = set.intersection(*(set(group.partition) for group in node.groups))
        below = [
            each for each in predicates if input_refs(each) and input_refs(each) <= common and is_deterministic(each)
        ]
        above = [each for each in predicates if each not in below]
        return filtered(replace(node, input=self.push(node.input, below)), above)

    def sort(self, node: LogicalSort, predicates: list[Node]) -> LogicalNode:
        """Push, unless rows are cut off."""
        if node.fetch is not None or node.offset:
            return self.stay(node, predicates)
        return replace(node, input=self.push(node.input, predicates))

    def set_operation(self, node: LogicalSetOperation, predicates: list[Node]) -> LogicalNode:
        """Push into UNION ALL; the others become joins and aggregates."""
        if node.kind is not SetKind.UNION:
            return self.push(_lowered(node), predicates)
        if not node.all:
            union = replace(node, all=True)
            return self.push(LogicalAggregate(union, tuple(range(len(node.row_type))), ()), predicates)
        below = [each for each in predicates if is_deterministic(each)]
        above = [each for each in predicates if each not in below]
        relations = tuple(self.push(each, below) for each in node.relations)
        return filtered(replace(node, relations=relations), above)


def filtered(node: LogicalNode, predicates: Sequence[Node]) -> LogicalNode:
    """The rows of a plan for which all predicates are TRUE."""
    condition = conjunction(predicates)
    return node if condition is None else LogicalFilter(node, condition)


def _distinct(node: LogicalNode) -> LogicalNode:
    return LogicalAggregate(node, tuple(range(len(node.row_type))), ())


def _lowered(node: LogicalSetOperation) -> LogicalNode:
    """INTERSECT and EXCEPT: semi and anti joins of distinct rows; with ALL the rows are counted and repeated."""
    if node.all:
        return _counted(node)
    found = node.relations[0]
    width = len(node.row_type)
    for right in node.relations[1:]:
        parts = [
            FUNCTIONS.call(
                "IS NOT DISTINCT FROM",
                [
                    InputRef(place, type=found.row_type[place].type),
                    InputRef(width + place, type=right.row_type[place].type),
                ],
            )
            for place in range(width)
        ]
        kind = JoinType.SEMI if node.kind is SetKind.INTERSECT else JoinType.ANTI
        found = LogicalJoin(found, right, kind, conjunction(parts))
    return _distinct(found)


def _counted(node: LogicalSetOperation) -> LogicalNode:
    """Count each row per side, and repeat it as often as the result has it."""
    left, right = node.relations
    width = len(node.row_type)
    names = list(node.row_type.names)
    sides = []
    for relation, marks in ((left, (1, 0)), (right, (0, 1))):
        refs: list[Node] = [InputRef(place, type=column.type) for place, column in enumerate(relation.row_type)]
        counts = [FUNCTIONS.call("CAST", [literal(mark)], type=_BIGINT) for mark in marks]
        sides.append(project(relation, [*refs, *counts], [*names, "$left", "$right"]))
    both = LogicalSetOperation(SetKind.UNION, True, tuple(sides), sides[0].row_type)
    calls = tuple(
        AggregateCall("SUM0", (width + place,), _BIGINT, name=name) for place, name in enumerate(("$left", "$right"))
    )
    summed: LogicalNode = LogicalAggregate(both, tuple(range(width)), calls)
    lefts, rights = (InputRef(width + place, type=_BIGINT) for place in (0, 1))
    if node.kind is SetKind.EXCEPT:
        times = FUNCTIONS.call("-", [lefts, rights])
    else:
        times = FUNCTIONS.call("CASE", [FUNCTIONS.call("<", [lefts, rights]), lefts, rights])
    summed = LogicalFilter(summed, FUNCTIONS.call(">", [times, literal(0)]))
    refs = [InputRef(place, type=column.type) for place, column in enumerate(summed.row_type.columns[:width])]
    call = TableCall("$REPLICATE_ROWS$1", (times, *refs), RelationType(node.row_type.columns))
    repeated = LogicalCorrelate(summed, call)
    place = len(summed.row_type)
    shown = [InputRef(place + index, type=column.type) for index, column in enumerate(node.row_type)]
    return project(repeated, shown, names)


_BIGINT = BigIntType(is_nullable=False)
_RULES = {
    LogicalFilter: Rewriter.filter,
    LogicalProject: Rewriter.project,
    LogicalJoin: Rewriter.join,
    LogicalTemporalJoin: Rewriter.temporal,
    LogicalCorrelate: Rewriter.correlate,
    LogicalAggregate: Rewriter.aggregate,
    LogicalWindowTable: Rewriter.window,
    LogicalOver: Rewriter.over,
    LogicalSort: Rewriter.sort,
    LogicalSetOperation: Rewriter.set_operation,
}
