"""GROUP BY, grouping sets, legacy group windows and OVER: from placeholders to aggregates over columns."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

from sqlglot import exp

from funken.expr.ir import Call, InputRef, Literal, Node
from funken.expr.sql.values import literal
from funken.table.logical import (
    AggregateCall,
    LogicalAggregate,
    LogicalFilter,
    LogicalNode,
    LogicalOver,
    LogicalProject,
    OutputColumn,
    OverGroup,
    SortKey,
    TimeAttribute,
    WindowKind,
    WindowProperty,
    WindowShape,
    project,
)
from funken.table.sql import subqueries
from funken.table.sql.expressions import (
    GROUPING,
    WINDOW_FUNCTIONS,
    AggregateRef,
    OverRef,
    PropertyRef,
    SubQueryRef,
    change,
    has,
    row_interval,
)
from funken.table.sql.hints import lifetime
from funken.table.sql.scopes import OuterRef, fail
from funken.table.types import BigIntType, DayTimeIntervalType, LocalZonedTimestampType, TimestampType

_TIMES = (TimestampType, LocalZonedTimestampType)
_KEEP_TIME = {"+", "-", "FLOOR", "CEIL", "CEILING", "COALESCE"}


def has_keys(group: exp.Group | None) -> bool:
    """Return True if the aggregates of NOT NULL columns are NOT NULL: GROUP BY is there, and has no window of the Table API."""
    if group is None or any(window_name(tree)[1] for tree in group.expressions):
        return False
    sets = any(group.args.get(part) for part in ("grouping_sets", "rollup", "cube"))
    return sets or any(not isinstance(tree, exp.Tuple) or tree.expressions for tree in group.expressions)


def time_attribute(relation: LogicalNode, node: Node) -> TimeAttribute | None:
    """Return the time attribute that an expression is, or from which it is computed: shifted, or rounded.

    Windows of GROUP BY take these; for others they are plain timestamps.
    """
    if isinstance(node, InputRef):
        own = relation.row_type[node.index].time
        if own is None and isinstance(relation, LogicalFilter):
            return time_attribute(relation.input, node)
        if own is None and isinstance(relation, LogicalProject):
            return time_attribute(relation.input, relation.expressions[node.index])
        return own
    if isinstance(node, Call) and isinstance(node.type, _TIMES) and node.function in _KEEP_TIME:
        return time_attribute(relation, node.children[0])
    return None


def window_name(tree: Any) -> tuple[str, bool]:
    """Return the name of a legacy window, or ``""``, and whether it is the Table API's, which calls it `$TUMBLE`."""
    if not isinstance(tree, exp.Anonymous):
        return "", False
    marked = isinstance(tree.this, exp.Identifier) and tree.this.name.startswith("$")
    name = tree.this.name[1:] if marked else tree.this.upper() if isinstance(tree.this, str) else ""
    return (name, marked) if name in WINDOW_FUNCTIONS else ("", False)


class ColumnList:
    """Expressions that become the columns of a projection, each once."""

    def __init__(self, below: LogicalNode, nodes: Sequence[Node] = ()) -> None:
        self.below = below
        self.nodes: list[Node] = list(nodes)

    def place(self, node: Node) -> int:
        """Return the position of an expression; a new one is added."""
        if node in self.nodes:
            return self.nodes.index(node)
        self.nodes.append(node)
        return len(self.nodes) - 1

    def order(self, keys: Sequence[tuple[Node, bool, bool]]) -> tuple[SortKey, ...]:
        """Return sort keys over columns."""
        return tuple(SortKey(self.place(key), up, first) for key, up, first in keys)

    def call(self, reference: AggregateRef, name: str) -> AggregateCall:
        """Return the call of an aggregate over columns."""
        return AggregateCall(
            reference.function,
            tuple(self.place(arg) for arg in reference.args),
            reference.type,
            reference.distinct,
            None if reference.filter is None else self.place(reference.filter),
            self.order(reference.order),
            name,
            reference.definition,
            reference.options,
        )

    def node(self) -> LogicalNode:
        """Return the projection."""
        names = self.below.row_type.names
        nodes = self.nodes or [literal(0)]
        labels: list[str] = []
        for place, node in enumerate(nodes):
            label = names[node.index] if isinstance(node, InputRef) else f"$f{place}"
            labels.append(label if label not in labels else f"{label}${place}")
        if nodes == [InputRef(index, type=column.type) for index, column in enumerate(self.below.row_type)]:
            return self.below
        return project(self.below, nodes, labels)


class Aggregation:
    """The aggregation of a SELECT: its keys, and the aggregates in ``nodes``."""

    def __init__(self, select: Any, group: Any, nodes: Sequence[Node], names: Sequence[str] = ()) -> None:
        self.select = select
        self.nodes = list(nodes)
        self.names = dict(zip(nodes[: len(names)][::-1], names[::-1], strict=True))
        self.window: WindowShape | None = None
        self.window_kind = ""
        self.window_time: Any = None
        self.window_args: tuple[Any, ...] = ()
        self.keys: list[Node] = []
        self.sets: list[list[int]] | None = None
        self.group = group
        self.results: list[Node] = []
        self.values: dict[int, Node] = {}
        self.needed = group is not None or any(has(node, AggregateRef) and self.aggregated(node) for node in nodes)
        if group is not None:
            self.read_group(group)

    @staticmethod
    def aggregated(node: Node) -> bool:
        """Return True if a tree has an aggregate that is not that of an OVER window."""
        if isinstance(node, AggregateRef):
            return True
        return any(Aggregation.aggregated(child) for child in node.children)

    def read_group(self, group: exp.Group) -> None:
        """Read the keys and grouping sets of GROUP BY."""
        parts = ("grouping_sets", "rollup", "cube")
        trees = [*group.expressions, *(tree for part in parts for tree in group.args.get(part) or ())]
        sets = [self.element(tree) for tree in trees]
        if all(len(choices) == 1 for choices in sets):
            return
        self.sets = []
        for choice in itertools.product(*sets):
            self.sets.append(sorted(set(itertools.chain.from_iterable(choice))))

    def element(self, tree: Any) -> list[list[int]]:
        """The sets of positions of keys that one element of GROUP BY stands for."""
        if isinstance(tree, exp.GroupingSets):
            return list(itertools.chain.from_iterable(self.element(each) for each in tree.expressions))
        if isinstance(tree, exp.Rollup | exp.Cube):
            parts = [self.columns(each) for each in tree.expressions]
            if isinstance(tree, exp.Rollup):
                chosen = [parts[:length] for length in range(len(parts), -1, -1)]
            else:
                chosen = [
                    list(group)
                    for length in range(len(parts), -1, -1)
                    for group in itertools.combinations(parts, length)
                ]
            return [list(itertools.chain.from_iterable(group)) for group in chosen]
        return [self.columns(tree)]

    def columns(self, tree: Any) -> list[int]:
        """Return the positions of the keys that an element names."""
        if isinstance(tree, exp.Tuple):
            return [place for each in tree.expressions for place in self.columns(each)]
        if isinstance(tree, exp.Paren):
            return self.columns(tree.this)
        name, marked = window_name(tree)
        if name:
            self.read_window(tree, name, (*_TIMES, BigIntType) if marked else _TIMES)
            return []
        node = self.select.expressions.bind(tree)
        if has(node, AggregateRef, OverRef):
            fail(tree, "Aggregates and windows are not allowed in GROUP BY")
        node = subqueries.attach(self.select, node)
        if node not in self.keys:
            self.keys.append(node)
        return [self.keys.index(node)]

    def read_window(self, tree: exp.Anonymous, name: str, times: tuple[type, ...]) -> None:
        """Read a legacy window of GROUP BY. In a batch, ``times`` are the types of its column; a BIGINT has milliseconds."""
        if self.window is not None:
            fail(tree, "Only one group window is allowed in GROUP BY")
        binder = self.select.expressions
        time = binder.bind(tree.expressions[0])
        rows = [row_interval(each) for each in tree.expressions[1:]]
        self.window_args = binder.window_arguments(tree)
        counts = any(rows)
        lengths = [
            number or milliseconds(self.select.binder.folded(binder.bind(each)), each)
            for number, each in zip(rows, tree.expressions[1:], strict=True)
        ]
        attribute = time_attribute(self.select.node, time)
        if attribute is None and getattr(self.select.binder.config, "batch", False) and isinstance(time.type, times):
            attribute = TimeAttribute.ROWTIME  # a batch has all rows before the first window ends
        if attribute is None:
            fail(
                tree,
                f"Window aggregate can only be defined over a time attribute column, but {time.type} encountered. Declare one in "
                "its table: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",
            )
        self.window_kind, self.window_time = name, time
        lengths_of: dict[str, Any] = {"gap": lengths[0]}
        if name == "TUMBLE":
            lengths_of = {"size": lengths[0], "offset": sum(lengths[1:])}
        elif name == "HOP":
            lengths_of = {"slide": lengths[0], "size": lengths[1], "offset": sum(lengths[2:])}
        self.window = WindowShape(WindowKind[name], 0, **lengths_of, rows=counts, attribute=attribute)

    def apply(self) -> list[Node]:
        """Put the aggregate on the plan, and return the nodes over its columns."""
        select = self.select
        correlated = self.correlated()
        self.nodes = [change(node, self.attached) for node in self.nodes]
        calls: list[AggregateRef] = []
        properties: list[PropertyRef] = []
        for node in self.nodes:
            _collect(node, calls, properties)
        columns = ColumnList(select.node)
        keys = tuple(columns.place(key) for key in self.keys)
        if len(set(keys)) != len(keys):
            keys = tuple(dict.fromkeys(keys))
        made = tuple(self.call(columns, call, place) for place, call in enumerate(calls))
        window = self.window
        if window is not None:
            window = replace(window, time=columns.place(self.window_time))
        relations = select.scope.relations
        aggregate = LogicalAggregate(
            columns.node(),
            keys,
            made,
            None if self.sets is None else tuple(tuple(group) for group in self.sets),
            window,
            tuple(self.property(each, place) for place, each in enumerate(properties)),
            select.hints,
            ttl=lifetime(select.hints, relations[0] if len(relations) == 1 else None, select.tree),
        )
        select.node = aggregate
        row_type = aggregate.row_type

        def replaced(node: Node) -> Node | None:
            if node in self.keys:
                place = self.keys.index(node)
            elif isinstance(node, AggregateRef):
                place = len(keys) + calls.index(node)
            elif isinstance(node, PropertyRef):
                place = len(keys) + len(calls) + properties.index(node)
            elif isinstance(node, InputRef):
                name = columns.below.row_type[node.index].name
                fail(
                    self.tree_of(name),
                    f"Expression '{name}' is not being grouped. Add it to GROUP BY, or aggregate it, as MAX({name})",
                )
            else:
                return None
            return InputRef(place, type=row_type[place].type)

        select.conditions = [change(condition, replaced) for condition in correlated]
        self.results = [change(node, replaced) for node in self.nodes]
        self.values = {
            len(keys) + place: literal(0) if call.function == "COUNT" else Literal(None, type=call.type.nullable())
            for place, call in enumerate(calls)
        }
        return self.results

    def attached(self, node: Node) -> Node | None:
        """Join the sub-queries in the arguments of an aggregate to its input."""
        if not isinstance(node, AggregateRef):
            return None
        if has(node, PropertyRef):
            fail(self.select.tree, "The properties of a group window cannot be arguments of an aggregate")
        if has(node, OuterRef):
            fail(self.select.tree, "A column of a query around may only be used in the conditions of a sub-query")
        return subqueries.attach(self.select, node)

    def of_no_rows(self, node: Node) -> Node | None:
        """Return the value of a result if the aggregate has no keys and no input; ``None`` if it cannot be computed."""
        if self.group is not None or has(node, SubQueryRef, OuterRef, OverRef):
            return None
        value = change(node, lambda each: self.values.get(each.index) if isinstance(each, InputRef) else None)
        return None if has(value, InputRef) else self.select.binder.folded(value)

    def tree_of(self, name: str) -> Any:
        """Return the place of a column's name, for messages."""
        for column in self.select.tree.find_all(exp.Column):
            if column.name == name:
                return column
        return self.select.tree

    def correlated(self) -> list[Node]:
        """The conditions on queries around: their inner sides become keys."""
        conditions: list[Node] = self.select.conditions
        for condition in conditions:
            for inner in inner_sides(condition):
                if inner not in self.keys:
                    self.keys.append(inner)
                    if self.sets is not None:
                        for group in self.sets:
                            group.append(len(self.keys) - 1)
        return conditions

    def call(self, columns: ColumnList, reference: AggregateRef, place: int) -> AggregateCall:
        """Return the call of an aggregate over columns."""
        name = self.names.get(reference, f"$f{place}")
        if name in columns.below.row_type.names:
            name = f"$f{place}"
        if reference.function not in GROUPING:
            return columns.call(reference, name)
        args = []
        for arg in reference.args:
            if arg not in self.keys:
                fail(self.select.tree, "Argument to GROUPING operator must be a grouped expression")
            args.append(self.keys.index(arg))
        return AggregateCall(reference.function, tuple(args), reference.type, name=name)

    def property(self, reference: PropertyRef, place: int) -> tuple[WindowProperty, OutputColumn]:
        """Return a property of the window, and its column."""
        if self.window is None or (reference.window, reference.args) != (self.window_kind, self.window_args):
            refuse_property(reference, self.select.tree, self.window_kind)
        time = {WindowProperty.ROWTIME: TimeAttribute.ROWTIME, WindowProperty.PROCTIME: TimeAttribute.PROCTIME}
        column = OutputColumn(f"w${reference.property.value}", reference.type, time.get(reference.property))
        return reference.property, column


def properties(node: Node) -> list[PropertyRef]:
    """Return the properties of windows in an expression."""
    calls: list[AggregateRef] = []
    found: list[PropertyRef] = []
    _collect(node, calls, found)
    return found


def refuse_property(reference: PropertyRef, tree: Any, grouped: str | None = None) -> NoReturn:
    """Refuse a property of a window that GROUP BY does not have."""
    name = f"{reference.window}_{reference.property.name}"
    needed = f"matching call to group function '{reference.window}' in GROUP BY clause"
    remedy = f"add {reference.window}(...) to GROUP BY"
    if grouped == "":
        remedy = "behind TABLE(TUMBLE(..)) and its like write window_start, window_end or window_time instead"
    elif grouped is not None:
        same = grouped == reference.window
        remedy = (
            "give both the same arguments"
            if same
            else f"it groups by {grouped}: write {grouped}_{reference.property.name}(...)"
        )
    fail(tree, f"Call to auxiliary group function '{name}' must have {needed}; {remedy}")


def _collect(node: Node, calls: list[AggregateRef], properties: list[PropertyRef]) -> None:
    if isinstance(node, AggregateRef):
        if node not in calls:
            calls.append(node)
        return
    if isinstance(node, PropertyRef) and node not in properties:
        properties.append(node)
    if isinstance(node, OverRef):
        for child in node.children:
            _collect(child, calls, properties)
        return
    for child in node.children:
        _collect(child, calls, properties)


def inner_sides(condition: Node) -> list[Node]:
    """The parts of a condition over the sub-query alone, as large as possible."""
    if not has(condition, OuterRef):
        return [condition] if has(condition, InputRef) else []
    return [part for child in condition.children for part in inner_sides(child)]


def milliseconds(node: Node, tree: Any) -> int:
    """The length of a constant interval."""
    if not isinstance(node, Literal) or not isinstance(node.type, DayTimeIntervalType):
        fail(tree, "The length of a window must be a constant INTERVAL of days to seconds, such as INTERVAL '1' MINUTE")
    return int(node.value)


def overs(select: Any, nodes: Sequence[Node]) -> list[Node]:
    """Put the windows of OVER on the plan, and return the nodes over its columns."""
    found: list[OverRef] = []

    def collect(node: Node) -> None:
        if isinstance(node, OverRef):
            if node not in found:
                found.append(node)
            if any(has(child, OverRef) for child in node.children):
                fail(select.tree, "Windows of OVER cannot be nested")
            return
        for child in node.children:
            collect(child)

    for node in nodes:
        collect(node)
    for over in found:
        for reference in properties(over):
            refuse_property(reference, select.tree)
    below = select.node
    columns = ColumnList(below, [InputRef(index, type=column.type) for index, column in enumerate(below.row_type)])
    groups: dict[Any, list[tuple[OverRef, AggregateCall]]] = {}
    for number, over in enumerate(found):
        partition = tuple(columns.place(each) for each in over.partition)
        key = (partition, columns.order(over.order), over.rows, over.lower, over.upper)
        call = columns.call(over.call, f"w0$o{number}")
        groups.setdefault(key, []).append((over, call))
    made = tuple(
        OverGroup(partition, order, rows, lower, upper, tuple(call for _, call in calls))
        for (partition, order, rows, lower, upper), calls in groups.items()
    )
    select.node = LogicalOver(columns.node(), made, select.hints)
    width = len(columns.nodes)
    places = {over: width + place for place, (over, _) in enumerate(itertools.chain.from_iterable(groups.values()))}

    def replaced(node: Node) -> Node | None:
        if isinstance(node, OverRef):
            return InputRef(places[node], type=node.type)
        return None

    return [change(node, replaced) for node in nodes]
