"""Sub-queries become joins: IN, SOME and EXISTS semi and anti joins, scalar ones left joins of one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from funken.expr.ir import InputRef, Literal, Node
from funken.expr.sql.functions import FUNCTIONS
from funken.expr.sql.values import literal
from funken.table.logical import (
    AggregateCall,
    BoundKind,
    FrameBound,
    JoinType,
    LogicalAggregate,
    LogicalFilter,
    LogicalJoin,
    LogicalNode,
    LogicalOver,
    OverGroup,
    SortKey,
    project,
)
from funken.table.sql.expressions import AggregateRef, Outer, SubQueryRef, change, has
from funken.table.sql.scopes import OuterRef, fail
from funken.table.types import BooleanType, NullType, RowField, RowType

_BOOLEAN = BooleanType(is_nullable=False)


def reference(kind: str, bound: Any, operands: tuple[Node, ...]) -> SubQueryRef:
    """The placeholder of a sub-query."""
    type_: Any = BooleanType(is_nullable=kind != "EXISTS")
    if kind == "SCALAR":
        columns = bound.node.row_type.columns[: bound.width]
        type_ = columns[0].type.nullable()
        if bound.width > 1:
            type_ = RowType(tuple(RowField(column.name, column.type) for column in columns))
    return SubQueryRef(kind, bound.node, operands, bound.conditions, bound.width, bound.empty, type=type_)


def values_around(select: Any, outer: Sequence[OuterRef], conditions: Sequence[Node] = ()) -> dict[OuterRef, Node]:
    """Join the distinct values of columns of the query around to a sub-query, and compare them with that query.

    Returns the columns with the values. The ``conditions`` over both become those of the join.
    """
    parent = select.scope.parent
    if parent.plan is None or any(ref.depth > 1 for ref in outer):
        fail(select.tree, "A column of a query around may only be used in the conditions of a sub-query")
    refs = list(dict.fromkeys(outer))
    around = [InputRef(ref.index, type=ref.type) for ref in refs]
    names = [f"$around{ref.index}" for ref in refs]
    distinct = LogicalAggregate(project(parent.plan(), around, names), tuple(range(len(refs))), ())
    left = len(select.node.row_type)
    columns = {ref: InputRef(left + place, type=ref.type) for place, ref in enumerate(refs)}
    parts = [
        change(each, lambda node: columns.get(node) if isinstance(node, OuterRef) else None) for each in conditions
    ]
    select.node = LogicalJoin(select.node, distinct, JoinType.INNER, conjunction(parts), select.hints)
    for ref, column in columns.items():
        name = "IS NOT DISTINCT FROM" if ref.type.is_nullable else "="
        select.conditions.append(FUNCTIONS.call(name, [column, ref]))
    return dict(columns)


def with_values_around(select: Any, nodes: list[Node], group: Any) -> list[Node]:
    """Return the expressions of a SELECT without columns of the query around.

    Their values join the rows of the sub-query if an expression uses them, or if an aggregate spans rows that no equality
    selects.
    """
    grouped = group is not None or select.tree.args.get("distinct") or any(has(node, AggregateRef) for node in nodes)
    if not any(has(node, OuterRef) for node in nodes) and (not grouped or all(map(_is_equality, select.conditions))):
        return nodes
    conditions = select.conditions
    select.conditions = []
    columns = values_around(select, _outer_columns([*conditions, *nodes]), conditions)
    return [change(node, lambda each: columns.get(each) if isinstance(each, OuterRef) else None) for node in nodes]


def _outer_columns(nodes: Sequence[Node]) -> list[OuterRef]:
    found: list[OuterRef] = []
    for node in nodes:
        if isinstance(node, OuterRef):
            found.append(node)
        children = [*node.children, *(node.conditions if isinstance(node, SubQueryRef) else ())]
        found += _outer_columns(children)
    return found


def _is_equality(condition: Node) -> bool:
    """Return True if a condition compares a value of the sub-query with one of the query around."""
    if getattr(condition, "function", "") not in {"=", "IS NOT DISTINCT FROM"}:
        return False
    sides = [(has(side, OuterRef), has(side, InputRef)) for side in condition.children]
    return sorted(sides) == [(False, True), (True, False)]


def _nearer(select: Any, conditions: Sequence[Node]) -> list[Node]:
    """Return conditions in which columns of queries further around are columns of the SELECT."""
    far = [ref for ref in _outer_columns(conditions) if ref.depth > 1]
    if not far:
        return list(conditions)
    columns = values_around(select, [replace(ref, depth=ref.depth - 1) for ref in far])

    def replaced(node: Node) -> Node | None:
        if not isinstance(node, OuterRef) or node.depth == 1:
            return None
        return Outer(columns[replace(node, depth=node.depth - 1)], type=node.type)

    return [change(condition, replaced) for condition in conditions]


def inner_join_condition(conditions: Sequence[Node], left: int, tree: Any) -> list[Node]:
    """The conditions of a sub-query over the columns of both sides; the sub-query's come behind ``left`` columns."""

    def replaced(node: Node) -> Node | None:
        if isinstance(node, Outer):
            return node.node
        if isinstance(node, OuterRef):
            if node.depth > 1:
                fail(tree, "A sub-query may only refer to the query directly around it")
            return InputRef(node.index, type=node.type)
        if isinstance(node, InputRef):
            return InputRef(left + node.index, type=node.type)
        return None

    return [change(condition, replaced) for condition in conditions]


def conjunction(parts: Sequence[Node]) -> Node | None:
    """All conditions as one; ``None`` is TRUE."""
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else FUNCTIONS.call("AND", parts)


def _comparison(reference: SubQueryRef) -> str:
    """Return the operator between the operands and a row: that of SOME, or the equality of IN."""
    return reference.kind.removeprefix("SOME ") if reference.kind.startswith("SOME") else "="


def _pairs(select: Any, reference: SubQueryRef, left: int, tree: Any) -> list[Node]:
    row_type = reference.plan.row_type
    found = []
    for place, operand in enumerate(reference.operands):
        column = InputRef(left + place, type=row_type[place].type)
        found.append(select.expressions.made(tree, _comparison(reference), [operand, column]))
    return found


def is_semi_join(reference: SubQueryRef) -> bool:
    """Return True if a sub-query as a condition needs no column of its result, and no operand of the query around."""
    return reference.kind != "SCALAR" and not any(has(operand, OuterRef) for operand in reference.children)


def semi_join(select: Any, reference: SubQueryRef, negated: bool, tree: Any) -> LogicalNode:
    """The relation of a SELECT, of which a conjunct of WHERE keeps the rows with, or without, a partner."""
    operands = tuple(attach(select, operand) for operand in reference.operands)
    conditions = tuple(_nearer(select, reference.conditions))
    reference = replace(reference, operands=operands, conditions=conditions)
    left = len(select.node.row_type)
    parts = _pairs(select, reference, left, tree)
    if negated and reference.kind != "EXISTS":
        parts = [_unless_false(part) for part in parts]
    parts += inner_join_condition(reference.conditions, left, tree)
    kind = JoinType.ANTI if negated else JoinType.SEMI
    return LogicalJoin(select.node, reference.plan, kind, conjunction(parts), select.hints)


def _unless_false(comparison: Node) -> Node:
    """``l = r``, or either is NULL: the pairs that NOT IN must not find."""
    nulls = [FUNCTIONS.call("IS NULL", [side]) for side in comparison.children if side.type.is_nullable]
    return FUNCTIONS.call("OR", [comparison, *nulls]) if nulls else comparison


def attach(select: Any, node: Node) -> Node:
    """Join the sub-queries of an expression to the relation of a SELECT; return the expression over the new columns."""
    if not has(node, SubQueryRef):
        return node

    def replaced(each: Node) -> Node | None:
        if not isinstance(each, SubQueryRef):
            return None
        operands = tuple(attach(select, operand) for operand in each.operands)
        reference = replace(each, conditions=tuple(_nearer(select, each.conditions)))
        if each.kind == "SCALAR":
            return _scalar(select, reference)
        if each.kind.startswith("SOME"):
            return _compared(select, reference, operands[0])
        return _marked(select, reference, operands)

    return change(node, replaced)


def _scalar(select: Any, reference: SubQueryRef) -> Node:
    plan, empty = reference.plan, reference.empty if reference.conditions and reference.width == 1 else None
    if not reference.conditions and not _one_row(plan):
        calls = tuple(
            AggregateCall("SINGLE_VALUE", (place,), column.type.nullable(), name=column.name)
            for place, column in enumerate(plan.row_type)
        )
        plan = LogicalAggregate(plan, (), calls)
    width, row_type = len(plan.row_type), plan.row_type
    marked = empty is not None and row_type[0].type.is_nullable
    if marked:  # a value may be NULL with a partner, too
        refs = [InputRef(place, type=column.type) for place, column in enumerate(row_type)]
        plan = project(plan, [*refs, literal(True)], [*row_type.names, "$marker"])
    left = len(select.node.row_type)
    conditions = inner_join_condition(reference.conditions, left, select.tree)
    select.node = LogicalJoin(select.node, plan, JoinType.LEFT, conjunction(conditions), select.hints)
    columns: list[Node] = [
        InputRef(left + place, type=select.node.row_type[left + place].type) for place in range(reference.width)
    ]
    if empty is None:
        return columns[0] if len(columns) == 1 else FUNCTIONS.call("ROW", columns)
    if marked:
        partner = FUNCTIONS.call("IS NOT NULL", [InputRef(left + width, type=_BOOLEAN.nullable())])
        value = FUNCTIONS.call("CASE", [partner, columns[0], empty])
    else:
        value = FUNCTIONS.call("COALESCE", [columns[0], empty])
    return replace(value, type=value.type.nullable())


def _compared(select: Any, reference: SubQueryRef, operand: Node) -> Node:
    """A comparison with SOME as a value: with the least or the greatest row, and by the number of rows and of NULLs."""
    if reference.conditions:
        fail(select.tree, "SOME, ANY and ALL of a sub-query with columns of the query around belong into WHERE")
    operator, column = _comparison(reference), reference.plan.row_type[0]
    value = InputRef(0, type=column.type)
    names = {">": ("MIN",), ">=": ("MIN",), "<": ("MAX",), "<=": ("MAX",)}.get(operator, ("MIN", "MAX"))
    calls = [AggregateCall(name, (0,), FUNCTIONS.aggregate(name, [value])[2].nullable(), name=name) for name in names]
    count = FUNCTIONS.aggregate("COUNT", [])[2]
    calls += [AggregateCall("COUNT", (), count, name="c"), AggregateCall("COUNT", (0,), count, name="ck")]
    left = len(select.node.row_type)
    aggregate = LogicalAggregate(reference.plan, (), tuple(calls))
    select.node = LogicalJoin(select.node, aggregate, JoinType.LEFT, None, select.hints)
    extremes = [InputRef(left + place, type=call.type) for place, call in enumerate(calls[:-2])]
    found = [select.expressions.made(select.tree, operator, [operand, extreme]) for extreme in extremes]
    rows, known = (
        FUNCTIONS.call("COALESCE", [InputRef(left + len(names) + place, type=count.nullable()), literal(0)])
        for place in range(2)
    )
    true, unknown, false = literal(True), Literal(None, type=NullType()), literal(False)
    args: list[Node] = [FUNCTIONS.call("=", [rows, literal(0)]), false]
    for part in found:
        args += [part, true]
    nulls = FUNCTIONS.call("OR", [FUNCTIONS.call("IS NULL", [operand]), FUNCTIONS.call("<", [known, rows])])
    return FUNCTIONS.call("CASE", [*args, nulls, unknown, false])


def _one_row(plan: LogicalNode) -> bool:
    """Return True if a plan has at most one row: a global aggregate, or columns of one."""
    while not isinstance(plan, LogicalAggregate):
        if len(plan.inputs) != 1:
            return False
        (plan,) = plan.inputs
    return not plan.keys and plan.sets is None


def _marked(select: Any, reference: SubQueryRef, operands: tuple[Node, ...]) -> Node:
    """IN or EXISTS as a value: a left join with the distinct rows and a marker, which is NULL without a partner."""
    if not all(map(_fixes_a_column, reference.conditions)):
        reference = _with_values_of(select, reference)
    plan = reference.plan
    row_type = plan.row_type
    in_width = len(operands)
    used = {place for condition in reference.conditions for place in _places(condition)}
    kept = [*range(in_width), *sorted(place for place in used if place >= in_width)]
    nullable = any(
        operand.type.is_nullable or row_type[place].type.is_nullable for place, operand in enumerate(operands)
    )
    counts = _counts(select, reference, in_width) if nullable else None
    shown: list[Node] = [InputRef(place, type=row_type[place].type) for place in kept]
    names = [row_type[place].name for place in kept]
    marked = project(plan, [*shown, literal(True)], [*names, "$marker"])
    distinct = LogicalAggregate(marked, tuple(range(len(kept) + 1)), ())
    left = len(select.node.row_type)
    parts: list[Node] = [
        FUNCTIONS.call("=", [operand, InputRef(left + place, type=row_type[place].type)])
        for place, operand in enumerate(operands)
    ]
    parts += inner_join_condition(_moved(reference.conditions, kept), left, select.tree)
    select.node = LogicalJoin(select.node, distinct, JoinType.LEFT, conjunction(parts), select.hints)
    marker = InputRef(left + len(kept), type=_BOOLEAN.nullable())
    found = FUNCTIONS.call("IS NOT NULL", [marker])
    if counts is None:
        return found
    true, unknown, false = literal(True), Literal(None, type=NullType()), literal(False)
    rows, known = counts
    args: list[Node] = [FUNCTIONS.call("=", [rows, literal(0)]), false, found, true]
    for operand in operands:
        if operand.type.is_nullable:
            args += [FUNCTIONS.call("IS NULL", [operand]), unknown]
    args += [FUNCTIONS.call("<", [known, rows]), unknown, false]
    return FUNCTIONS.call("CASE", args)


def _places(node: Node) -> set[int]:
    """Return the columns of the sub-query in a condition."""
    if isinstance(node, InputRef):
        return {node.index}
    return set().union(*map(_places, node.children))


def _fixes_a_column(condition: Node) -> bool:
    """Return True if for a row around a condition selects one value of a column of the sub-query."""
    return _is_equality(condition) and any(isinstance(side, InputRef) for side in condition.children)


def _with_values_of(select: Any, reference: SubQueryRef) -> SubQueryRef:
    """Join the distinct values that conditions take from the query around, so that it finds its rows by these values."""
    plan, left = reference.plan, len(reference.plan.row_type)
    around: dict[Node, Node] = {}

    def replaced(node: Node) -> Node | None:
        if isinstance(node, Outer | OuterRef):
            return around.setdefault(node, InputRef(left + len(around), type=node.type))
        return None

    conditions = [change(condition, replaced) for condition in reference.conditions]
    values = inner_join_condition(list(around), 0, select.tree)
    names = [f"$around{place}" for place in range(len(values))]
    distinct = LogicalAggregate(project(select.node, values, names), tuple(range(len(values))), ())
    joined = LogicalJoin(plan, distinct, JoinType.INNER, conjunction(conditions), select.hints)
    found = [
        FUNCTIONS.call("IS NOT DISTINCT FROM" if node.type.is_nullable else "=", [column, node])
        for node, column in around.items()
    ]
    return replace(reference, plan=joined, conditions=tuple(found))


def _counts(select: Any, reference: SubQueryRef, width: int) -> tuple[Node, Node]:
    """Join the number of rows that a sub-query has for a row, and of those without NULL, to the relation."""
    plan, type_ = reference.plan, FUNCTIONS.aggregate("COUNT", [])[2]
    keys = sorted({place for condition in reference.conditions for place in _places(condition)})
    shown = [*range(width), *keys]
    rows = project(
        plan,
        [InputRef(place, type=plan.row_type[place].type) for place in shown],
        [f"$in{place}" for place in range(len(shown))],
    )
    calls = (
        AggregateCall("COUNT", (), type_, name="c"),
        AggregateCall("COUNT", tuple(range(width)), type_, name="ck"),
    )
    counted = LogicalAggregate(rows, tuple(range(width, len(shown))), calls)
    left = len(select.node.row_type)
    conditions = inner_join_condition(_moved(reference.conditions, keys), left, select.tree)
    # An aggregate of no rows has a row only in batches.
    select.node = LogicalJoin(select.node, counted, JoinType.LEFT, conjunction(conditions), select.hints)
    rows_of, known = (
        FUNCTIONS.call("COALESCE", [InputRef(left + len(keys) + place, type=type_.nullable()), literal(0)])
        for place in range(2)
    )
    return rows_of, known


def _moved(conditions: Sequence[Node], kept: Sequence[int]) -> list[Node]:
    """Return conditions over some columns of a sub-query, which stand side by side."""
    places = {place: position for position, place in enumerate(kept)}

    def moved(node: Node) -> Node | None:
        return InputRef(places[node.index], type=node.type) if isinstance(node, InputRef) else None

    return [change(condition, moved) for condition in conditions]


def top_per_row(
    node: LogicalNode, keys: Sequence[SortKey], offset: int, fetch: int, conditions: Sequence[Node], tree: Any
) -> LogicalNode:
    """ORDER BY .. LIMIT of a correlated sub-query: the rank among the rows that equal conditions select."""
    partition: list[int] = []
    for condition in conditions:
        sides = condition.children
        inner = [side for side in sides if isinstance(side, InputRef)]
        if getattr(condition, "function", "") != "=" or len(inner) != 1 or has(inner[0], OuterRef):
            fail(
                tree, "LIMIT in a correlated sub-query needs conditions of the form column = column of the query around"
            )
        partition.append(inner[0].index)
    rule_type = FUNCTIONS.aggregate("ROW_NUMBER", [])[2]
    call = AggregateCall("ROW_NUMBER", (), rule_type, name="$rank")
    lower = FrameBound(BoundKind.UNBOUNDED_PRECEDING)
    group = OverGroup(tuple(partition), tuple(keys), True, lower, FrameBound(BoundKind.CURRENT_ROW), (call,))
    ranked: LogicalNode = LogicalOver(node, (group,))
    rank = InputRef(len(node.row_type), type=rule_type)
    bounds = [FUNCTIONS.call("<=", [rank, literal(offset + fetch)])]
    if offset:
        bounds.append(FUNCTIONS.call(">", [rank, literal(offset)]))
    condition_ = conjunction(bounds)
    assert condition_ is not None
    ranked = LogicalFilter(ranked, condition_)
    refs = [InputRef(place, type=column.type) for place, column in enumerate(node.row_type)]
    return project(ranked, refs, node.row_type.names)
