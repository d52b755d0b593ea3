"""The binder: from a parsed query and the catalog to a typed logical plan.

A query is bound in the order of its clauses: FROM (``relations.py``), WHERE, GROUP BY, HAVING, the windows of OVER,
QUALIFY, SELECT, DISTINCT, ORDER BY, LIMIT.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from funken.errors import FunkenError
from funken.expr.ir import Call, InputRef, Literal, Node
from funken.expr.rules import JSON_PLACE
from funken.expr.sql.functions import FUNCTIONS
from funken.expr.sql.operators import leading_type
from funken.expr.sql.values import literal
from funken.table.catalog import CatalogManager, CatalogView, ResolvedTable
from funken.table.constants import fold
from funken.table.logical import (
    LogicalAggregate,
    LogicalFilter,
    LogicalNode,
    LogicalScan,
    LogicalSink,
    LogicalSort,
    LogicalValues,
    LogicalWatermark,
    OutputColumn,
    RelationType,
    SetKind,
    SortKey,
    WindowProperty,
    project,
)
from funken.table.sql import subqueries
from funken.table.sql.aggregates import Aggregation, has_keys, overs, properties, refuse_property
from funken.table.sql.doubts import warn_of_order, warn_of_outer_column, warn_of_texts
from funken.table.sql.expressions import (
    AggregateRef,
    ExpressionBinder,
    OverRef,
    PropertyRef,
    SubQueryRef,
    has,
)
from funken.table.sql.hints import lifetime
from funken.table.sql.inserts import insert, sink
from funken.table.sql.parser import parse_expression, parse_query
from funken.table.sql.relations import bind_from
from funken.table.sql.scopes import OuterRef, Scope, ScopeRelation, fail
from funken.table.sql.statements import InvalidQuery
from funken.table.sql.trees import (
    Bound,
    Environment,
    cast,
    conjuncts,
    has_modifiers,
    hints_of,
    moved,
    ordinal,
    references,
    renamed,
    set_operation,
    with_queries,
)
from funken.table.sql.view_text import FullName, spliced, view_text
from funken.table.types import LogicalType, TimestampType, quoted


class Binder:
    """Binds queries, expressions and INSERTs against the catalogs of a session."""

    def __init__(self, catalogs: CatalogManager, config: Any = None) -> None:
        self.catalogs = catalogs
        self.config = config
        self.environment = Environment()
        self.names: dict[int, FullName] = {}
        """Tables, stars and columns in the text of the query, by where they begin."""
        self._views: dict[int, LogicalNode] = {}
        self._tables: dict[Any, LogicalNode] = {}

    # -- what the API calls

    def query(self, tree: Any) -> LogicalNode:
        """Return the plan of a query: a tree of the parser, or its text."""
        if isinstance(tree, str):
            tree = parse_query(tree)
        bound = self.bound(tree, None)
        if bound.conditions:
            raise InvalidQuery(
                "SQL validation failed. A query refers to columns of a query around it, but there is none."
            )
        return bound.node

    def in_full(self, text: str, plan: LogicalNode) -> str:
        """Return the text of the bound query as a view keeps it: Flink's, if its plan is the same.

        Otherwise only tables are in full, and stars are columns.
        """
        shown = view_text(text, self.names)
        if shown is not None and self._has_plan(shown, plan):
            return shown
        return spliced(text, {start: each for start, each in self.names.items() if each.kind != "column"})

    def _has_plan(self, text: str, plan: LogicalNode) -> bool:
        """Return True if a query has a plan."""
        try:
            found = Binder(self.catalogs, self.config).query(text)
        except FunkenError:  # the text says something else
            return False
        return found == plan and found.row_type == plan.row_type

    def note(self, first: Any, last: Any, names: str, kind: str) -> None:
        """Note the full names of a table, column or star, from its first to its last part."""
        if "start" in first.meta and "end" in last.meta:
            self.names[first.meta["start"]] = FullName(last.meta["end"] + 1, names, kind)

    def note_column(self, parts: list[exp.Identifier], relation: ScopeRelation, behind: int = 0) -> None:
        """Note the full name of a column of a relation; its own name is ``behind`` others."""
        names = [part.name for part in parts[behind:]]
        clause = parts[0].find_ancestor(exp.Order, exp.Select, exp.Window)
        of_result = isinstance(clause, exp.Order) and not isinstance(clause.parent, exp.Window) and not behind
        if relation.alias is not None and not of_result:
            names = [relation.alias, *names]
        self.note(parts[0], parts[-1], ".".join(map(quoted, names)), "column")

    def expression(self, text: Any, columns: Iterable[tuple[str, LogicalType]] | RelationType = ()) -> Node:
        """Return an expression over columns: of CREATE TABLE, or of ``call_sql``."""
        if not isinstance(columns, RelationType):
            columns = RelationType(tuple(OutputColumn(name, type_) for name, type_ in columns))
        scope = Scope()
        scope.add(None, columns)
        tree = parse_expression(text) if isinstance(text, str) else text
        names, self.names = self.names, {}  # the text is another one
        try:
            node = ExpressionBinder(scope, self).bind(tree)
        finally:
            self.names = names
        _check_place(node, tree)
        if has(node, AggregateRef, OverRef, SubQueryRef):
            fail(tree, "An expression over one row may have no aggregates, windows and sub-queries")
        return node

    def insert(self, record: Any) -> LogicalSink:
        """Return the sink of an INSERT."""
        return insert(self, record)

    def insert_plan(
        self, plan: LogicalNode, table: ResolvedTable, overwrite: bool = False, conflict: str | None = None, **rest: Any
    ) -> LogicalSink:
        """INSERT of a plan: columns by position, with implicit casts."""
        return sink(plan, table, overwrite=overwrite, conflict=conflict, **rest)

    def table(self, parts: Sequence[str], options: Mapping[str, str] | None = None) -> LogicalNode:
        """Return the plan of a table: scan, computed columns, watermark; a view is its query."""
        found = self.catalogs.table(parts)
        if isinstance(found, CatalogView):
            return self.view(found)
        key = (found, tuple(sorted((options or {}).items())))
        if key not in self._tables:
            self._tables[key] = self.scan(found, key[1])
        return self._tables[key]

    def view(self, view: CatalogView) -> LogicalNode:
        """Return the plan of a view, with its names."""
        if view.plan is not None:
            plan: LogicalNode = view.plan
            return plan
        if id(view) not in self._views:
            outer = self.environment, self.names
            self.environment, self.names = Environment(), {}
            try:
                plan = self.query(view.query)
            finally:
                self.environment, self.names = outer
            names = [column.name for column in view.columns] or list(plan.row_type.names)
            self._views[id(view)] = renamed(plan, names)
        return self._views[id(view)]

    def scan(self, table: ResolvedTable, options: tuple[tuple[str, str], ...]) -> LogicalNode:
        """Return the plan of a table."""
        columns = table.table.columns
        read = [column for column in columns if column.is_physical] + [
            column for column in columns if column.is_metadata
        ]
        row_type = RelationType(tuple(OutputColumn(column.name, column.type) for column in read))
        node: LogicalNode = LogicalScan(table, row_type, options)
        places = {column.name: index for index, column in enumerate(read)}
        if len(read) != len(columns) or list(places) != [column.name for column in columns]:
            expressions: list[Node] = []
            for column in columns:
                if column.is_computed:
                    expressions.append(self.computed(column.expression, row_type))
                else:
                    expressions.append(InputRef(places[column.name], type=column.type))
            node = project(node, expressions, [column.name for column in columns])
        if table.table.watermark is not None:
            watermark = table.table.watermark
            time = node.row_type.index(watermark.column)
            expression = self.computed(watermark.expression, node.row_type)
            node = LogicalWatermark(node, time, expression, not getattr(self.config, "batch", False))
        return node

    def computed(self, expression: Any, row_type: RelationType) -> Node:
        """Return an expression of a table: text, or an object that the Table API resolves itself (``bind``)."""
        if isinstance(expression, str):
            return self.expression(expression, row_type)
        node: Node = expression.bind(row_type)
        return node

    def function(self, path: Sequence[str], of_tables: bool = False) -> Any:
        """The user's function of a name; behind FROM also one that is named like a built-in function."""
        if len(path) > 3:
            return None
        found = self.catalogs.function(path, of_tables)
        return None if found is None else found.definition

    def folded(self, node: Node) -> Node:
        """Return an expression whose constant parts are computed."""
        return fold(node, "UTC" if self.config is None else self.config.get_local_timezone())

    @staticmethod
    def property_type(kind: WindowProperty, time: Node) -> LogicalType:
        """Return the type of a property of a window."""
        if kind in {WindowProperty.START, WindowProperty.END}:
            return TimestampType(3, is_nullable=False)
        if kind is WindowProperty.PROCTIME:
            time = FUNCTIONS.call("PROCTIME", [])
        found: LogicalType = time.type
        return found

    # -- queries

    def sub_query(self, kind: str, tree: Any, scope: Scope, operands: tuple[Node, ...] = ()) -> Node:
        """Return the placeholder of a sub-query."""
        bound = self.bound(tree, scope)
        if kind == "EXISTS" and bound.always:
            return literal(True)
        if operands and len(operands) != bound.width:
            fail(
                tree,
                f"Values passed to IN operator must have compatible types: {len(operands)} and {bound.width} columns",
            )
        return subqueries.reference(kind, bound, operands)

    def bound(self, tree: Any, parent: Scope | None) -> Bound:
        """Bind a query in the scope of the one around."""
        outer = self.environment
        self.environment = Environment(parent=outer)
        try:
            for entry in with_queries(tree):
                self.with_query(entry, parent)
            return self.body(tree, parent)
        finally:
            self.environment = outer

    def with_query(self, entry: exp.CTE, parent: Scope | None) -> None:
        """Bind one query of WITH."""
        node = self.bound(entry.this, parent).node
        alias = entry.args["alias"]
        columns = [column.name for column in alias.columns]
        if columns:
            if len(columns) != len(node.row_type):
                fail(alias, f"{len(columns)} names are given to {len(node.row_type)} columns")
            node = renamed(node, columns)
        self.environment.queries[alias.name] = node

    def body(self, tree: Any, parent: Scope | None) -> Bound:
        """Bind a query without its WITH."""
        if isinstance(tree, exp.Subquery):
            if has_modifiers(tree):
                return self.ordered(self.bound(tree.this, parent), tree)
            return self.bound(tree.this, parent)
        if isinstance(tree, exp.SetOperation):
            return self.ordered(self.set_operation(tree, parent), tree)
        if isinstance(tree, exp.Values):
            node = self.values(tree)
            return self.ordered(Bound(node, len(node.row_type)), tree)
        if isinstance(tree, exp.Select):
            return SelectBinder(self, tree, parent).bind()
        if isinstance(tree, exp.Table) and not tree.args.get("joins"):
            return self.body(exp.select("*").from_(tree), parent)
        fail(tree, f"{type(tree).__name__} is not supported as a query")

    def values(self, tree: exp.Values) -> LogicalNode:
        """Bind VALUES."""
        scope = Scope()
        binder = ExpressionBinder(scope, self)
        rows = []
        for row in tree.expressions:
            items = row.expressions if isinstance(row, exp.Tuple) else [row]
            for item in items:
                _check_null(item)
            rows.append([binder.bind(item) for item in items])
        if len({len(row) for row in rows}) != 1:
            fail(tree, "Values passed to VALUES operator must have equal numbers of columns")
        types = []
        for place, column in enumerate(zip(*rows, strict=True)):
            type_ = leading_type([node.type for node in column])
            if type_ is None:
                fail(tree, f"Values passed to VALUES operator must have compatible types in column {place + 1}")
            types.append(type_)
        typed = tuple(
            tuple(self.folded(cast(node, type_)) for node, type_ in zip(row, types, strict=True)) for row in rows
        )
        columns = tuple(OutputColumn(f"EXPR${place}", type_) for place, type_ in enumerate(types))
        return LogicalValues(typed, RelationType(columns))

    def set_operation(self, tree: exp.SetOperation, parent: Scope | None) -> Bound:
        """Bind UNION, INTERSECT, EXCEPT."""
        kind = {exp.Union: SetKind.UNION, exp.Except: SetKind.EXCEPT, exp.Intersect: SetKind.INTERSECT}[type(tree)]
        sides = [self.bound(side, parent) for side in (tree.this, tree.expression)]
        if any(side.conditions for side in sides):
            fail(tree, f"A correlated sub-query of {kind.value} is not supported")
        nodes = [side.node for side in sides]
        widths = [len(node.row_type) for node in nodes]
        every = not tree.args.get("distinct")
        name = f"{kind.value}{' ALL' if every else ''}"
        if widths[0] != widths[1]:
            fail(
                tree,
                f"Column count mismatch in {name}: {widths[0]} and {widths[1]} columns; select as many on both sides",
            )
        warn_of_order(tree, *(node.row_type.names for node in nodes))
        return Bound(
            set_operation(kind, every, nodes, lambda place: fail(tree, _mismatch(nodes, place, name))),
            widths[0],
        )

    def ordered(self, bound: Bound, tree: Any) -> Bound:
        """ORDER BY, OFFSET and FETCH over the columns of a result."""
        offset, fetch = self.limits(tree)
        order = tree.args.get("order")
        keys: list[SortKey] = []
        if order is not None:
            scope = Scope()
            scope.add(None, bound.node.row_type)
            binder = ExpressionBinder(scope, self)
            keys = [self.sort_key(item, bound.node.row_type, binder) for item in order.expressions]
        if not keys and fetch is None and not offset:
            return bound
        return replace(bound, node=LogicalSort(bound.node, tuple(keys), offset, fetch))

    def sort_key(self, item: exp.Ordered, row_type: RelationType, binder: ExpressionBinder) -> SortKey:
        """Return a key of ORDER BY over the columns of a result."""
        place = ordinal(item.this, len(row_type))
        if place is None:
            node = binder.bind(item.this)
            if not isinstance(node, InputRef):
                fail(item, "ORDER BY of a set operation takes names and positions of columns")
            place = node.index
        return SortKey(place, not item.args.get("desc"), bool(item.args.get("nulls_first")))

    def limits(self, tree: Any) -> tuple[int, int | None]:
        """Return the constants of OFFSET and FETCH or LIMIT."""

        def constant(value: Any) -> int:
            node = self.folded(ExpressionBinder(Scope(), self).bind(value))
            if not isinstance(node, Literal) or not isinstance(node.value, int) or node.value < 0:
                fail(value, "LIMIT and OFFSET take a whole number")
            return node.value

        offset, limit = tree.args.get("offset"), tree.args.get("limit")
        start = constant(offset.expression) if offset is not None else 0
        every = (
            limit is not None and isinstance(limit.expression, exp.Column) and limit.expression.sql().upper() == "ALL"
        )
        if limit is None or every:
            return start, None
        if isinstance(limit, exp.Fetch):
            count = limit.args.get("count")
            return start, 1 if count is None else constant(count)
        return start, constant(limit.expression)


def _check_null(tree: Any) -> None:
    """Refuse a column that is NULL without a type."""
    if isinstance(tree.unnest(), exp.Null):
        fail(
            tree, "Illegal use of 'NULL': a column needs a type. Write CAST(NULL AS STRING), or the type of the column"
        )


def _root(tree: Any) -> Any:
    """Return the base of an expression's fields."""
    while isinstance(tree, exp.Dot):
        tree = tree.this
    return tree


def _clock_name(tree: Any) -> str | None:
    """Return the name of a column of CURRENT_DATE and its kin: the word as written, since it stands without parentheses."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree.meta.get("word") if isinstance(tree, exp.Anonymous) else None


class SelectBinder:
    """Binds one SELECT."""

    def __init__(self, binder: Binder, tree: exp.Select, parent: Scope | None) -> None:
        self.binder = binder
        self.tree = tree
        self.scope = Scope(parent=parent, grouped=has_keys(tree.args.get("group")))
        self.windows = {window.this.name: window for window in tree.args.get("windows") or ()}
        self.node: LogicalNode = LogicalValues(((literal(0),),), RelationType((OutputColumn("ZERO", literal(0).type),)))
        self.conditions: list[Node] = []
        self.hints = hints_of(tree.args.get("hint"))
        self.expressions = ExpressionBinder(self.scope, binder, self.windows)

    def bind(self) -> Bound:
        """Bind the SELECT."""
        tree = self.tree
        for clause in ("laterals", "distribute", "sort", "cluster", "into", "connect", "pivots", "sample", "prewhere"):
            if tree.args.get(clause):
                fail(tree, f"{clause.upper()} is not supported")
        bind_from(self)
        warn_of_texts(tree, {column.name for _, column in self.scope.columns()})
        where = tree.args.get("where")
        if where is not None:
            for part in conjuncts(where.this):
                self.filter(part)
        items = list(self.items())
        warn_of_outer_column(tree, len(items) == 1 and isinstance(items[0][0], OuterRef))
        order = self.order_items(items)
        return self.finish(items, order)

    def filter(self, tree: Any) -> None:
        """One conjunct of WHERE."""
        condition = self.expressions.condition(tree, "WHERE")
        reference, negated = condition, False
        while isinstance(reference, Call) and reference.function == "NOT":
            reference, negated = reference.args[0], not negated
        if isinstance(reference, SubQueryRef) and subqueries.is_semi_join(reference):
            self.node = subqueries.semi_join(self, reference, negated, tree)
            return
        if has(condition, AggregateRef, OverRef, PropertyRef):
            fail(tree, "Aggregates and windows are not allowed in WHERE; use HAVING or a sub-query")
        condition = subqueries.attach(self, condition)
        if has(condition, OuterRef):
            self.conditions.append(condition)
        else:
            self.node = LogicalFilter(self.node, condition)

    # -- SELECT

    def items(self) -> Iterator[tuple[Node, str]]:
        """Yield the expressions of SELECT with unique names."""
        names: dict[str, int] = {}
        for place, (node, given) in enumerate(self.raw_items()):
            name = given or f"EXPR${place}"
            unique, count = name, 0
            while unique in names:
                unique = f"{name}{count}"
                count += 1
            names[unique] = place
            yield node, unique

    def raw_items(self) -> Iterator[tuple[Node, str | None]]:
        """Yield the expressions of SELECT, stars expanded, with the names that they have."""
        for tree in self.tree.expressions:
            if isinstance(tree, exp.Star) or (isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star)):
                yield from self.star(tree)
                continue
            name = None
            inner = tree
            if isinstance(tree, exp.Alias):
                name, inner = tree.alias, tree.this
            _check_null(inner)
            node = self.expressions.bind(inner)
            _check_place(node, inner)
            if name is None and isinstance(_root(inner), exp.Column):
                name = inner.name
            elif name is None:
                name = _clock_name(inner)
            yield node, name

    def star(self, tree: Any) -> Iterator[tuple[Node, str]]:
        """Yield the columns of a star."""
        relations = self.scope.relations
        if isinstance(tree, exp.Column):
            qualifier = [part.name for part in tree.parts if isinstance(part, exp.Identifier)]
            relations = self.scope.relation(qualifier)
            if not relations:
                node = self.expressions.resolve(
                    self.scope, [part for part in tree.parts[:-1] if isinstance(part, exp.Identifier)], qualifier, 0
                )
                if node is not None and hasattr(node.type, "fields"):  # all fields of a row
                    for column in node.type.fields:
                        yield self.expressions.field(tree, node, column.name), column.name
                    return
                fail(tree, f"Unknown identifier '{'.'.join(qualifier)}'")
        elif tree.args.get("except_") or tree.args.get("replace"):
            fail(tree, "* EXCEPT and * REPLACE are not supported")
        if not relations:
            fail(tree, "SELECT * needs a FROM clause")
        items: list[tuple[Node, str]] = []
        if len(relations) == len(self.scope.relations):
            items += [(node, name) for name, node in self.scope.merged.items()]
        written = [quoted(name) for _, name in items]
        for relation in relations:
            for index, column in enumerate(relation.columns, relation.start):
                merged = column.name in self.scope.merged and len(relations) == len(self.scope.relations)
                if index not in relation.hidden and not merged:
                    items.append((InputRef(index, type=column.type), column.name))
                    alias = "" if relation.alias is None else f"{quoted(relation.alias)}."
                    written.append(alias + quoted(column.name))
        if len(set(written)) == len(written):  # columns of one name have no other text than the star
            parts = tree.parts if isinstance(tree, exp.Column) else [tree]
            self.binder.note(parts[0], parts[-1], ", ".join(written), "star")
        yield from items

    def order_items(self, items: list[tuple[Node, str]]) -> list[tuple[Node | int, bool, bool]]:
        """The keys of ORDER BY: positions among the items, or expressions of the input."""
        order = self.tree.args.get("order")
        found: list[tuple[Node | int, bool, bool]] = []
        for item in order.expressions if order is not None else ():
            up, first = not item.args.get("desc"), bool(item.args.get("nulls_first"))
            key: Node | int | None = ordinal(item.this, len(items))
            if key is None and isinstance(item.this, exp.Column) and not item.this.table:
                named = [place for place, (_, name) in enumerate(items) if name == item.this.name]
                key = named[0] if named else None
            if key is None:
                aliases = {name: node for node, name in items}
                binder = ExpressionBinder(self.scope, self.binder, self.windows, aliases, aliases_first=True)
                node = binder.bind(item.this)
                key = next((place for place, (other, _) in enumerate(items) if other == node), node)
            found.append((key, up, first))
        return found

    def finish(self, items: list[tuple[Node, str]], order: list[tuple[Node | int, bool, bool]]) -> Bound:
        """Bind the clauses behind WHERE, and return the query."""
        tree = self.tree
        names = [name for _, name in items]
        extra = [key for key, _, _ in order if isinstance(key, Node)]
        having, qualify = tree.args.get("having"), tree.args.get("qualify")
        aliases = {name: node for node, name in items}
        binder = ExpressionBinder(self.scope, self.binder, self.windows, aliases)
        filters = [binder.condition(having.this, "HAVING")] if having is not None else []
        qualified = [binder.condition(qualify.this, "QUALIFY")] if qualify is not None else []
        nodes = [node for node, _ in items] + extra + filters + qualified
        nodes = subqueries.with_values_around(self, nodes, tree.args.get("group"))
        aggregation = Aggregation(self, tree.args.get("group"), nodes, names)
        empty, always = None, False
        if aggregation.needed:
            nodes = aggregation.apply()
            empty, always = self.of_no_rows(aggregation, len(items), len(items) + len(extra), len(filters))
        elif filters:
            fail(having, "HAVING needs GROUP BY or an aggregate; a condition on each row goes to WHERE")
        nodes = [subqueries.attach(self, node) for node in nodes]
        width, spare = len(items), len(items) + len(extra)
        for condition in nodes[spare : spare + len(filters)]:
            self.node = LogicalFilter(self.node, condition)
        nodes = nodes[:spare] + nodes[spare + len(filters) :]
        if any(has(node, OverRef) for node in nodes):
            nodes = overs(self, nodes)
        for condition in nodes[spare:]:
            self.node = LogicalFilter(self.node, condition)
        bound = self.result(nodes[:spare], names, width, order)
        return replace(bound, empty=empty, always=always)

    def of_no_rows(self, aggregation: Aggregation, width: int, start: int, filters: int) -> tuple[Node | None, bool]:
        """Return the value of an aggregate without keys over no rows, and whether its row is always there.

        The conditions of HAVING are ``filters`` nodes from ``start``.
        """
        offset, fetch = self.binder.limits(self.tree)
        if offset or fetch == 0 or self.tree.args.get("qualify") is not None:
            return None, False
        value = aggregation.of_no_rows(aggregation.results[0]) if width == 1 else None
        for node in aggregation.results[start : start + filters]:
            kept = aggregation.of_no_rows(node)
            if not isinstance(kept, Literal) or not kept.value:
                return None, False
        if filters and self.conditions:  # a missing row may have been removed, or never been there
            fail(self.tree, "HAVING of a correlated sub-query must not hold for no rows; write it as CASE in SELECT")
        if isinstance(value, Literal) and value.value is None:
            value = None  # as a row without a partner
        return value, self.tree.args.get("group") is None and not filters

    def result(
        self, nodes: list[Node], names: list[str], width: int, order: list[tuple[Node | int, bool, bool]]
    ) -> Bound:
        """Project, remove duplicates, sort and cut."""
        tree = self.tree
        distinct = tree.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            fail(
                distinct,
                "DISTINCT ON is not supported: keep rows by ROW_NUMBER() OVER (PARTITION BY .. ORDER BY ..) = 1",
            )
        extra = nodes[width:]
        if distinct and extra:
            fail(tree.args["order"], "Expression of ORDER BY is not in the select clause of SELECT DISTINCT")
        hidden = sorted({ref.index for condition in self.conditions for ref in references(condition)})
        shown = [*nodes, *(InputRef(index, type=self.node.row_type[index].type) for index in hidden)]
        labels = [*names, *(f"$sort{place}" for place in range(len(extra))), *(f"$outer{index}" for index in hidden)]
        if any(has(node, OuterRef) for node in nodes):
            fail(tree, "A column of a query around may only be used in the conditions of a sub-query")
        for reference in [each for shown_node in nodes for each in properties(shown_node)]:
            refuse_property(reference, tree)
        node: LogicalNode = project(self.node, shown, labels, self.hints)
        conditions = tuple(
            moved(condition, {index: len(nodes) + place for place, index in enumerate(hidden)})
            for condition in self.conditions
        )
        if distinct:
            alone = self.scope.relations[0] if len(self.scope.relations) == 1 else None
            node = LogicalAggregate(
                node, tuple(range(len(shown))), (), hints=self.hints, ttl=lifetime(self.hints, alone, self.tree)
            )
        keys, place = [], width
        for key, up, first in order:
            if isinstance(key, int):
                keys.append(SortKey(key, up, first))
            else:
                keys.append(SortKey(place, up, first))
                place += 1
        offset, fetch = self.binder.limits(tree)
        if keys or fetch is not None or offset:
            node = self.limited(node, keys, offset, fetch, conditions)
        if extra:
            kept = [*range(width), *range(len(nodes), len(shown))]
            row = node.row_type
            node = project(
                node, [InputRef(index, type=row[index].type) for index in kept], [row[index].name for index in kept]
            )
            conditions = tuple(
                moved(condition, {index: place for place, index in enumerate(kept)}) for condition in conditions
            )
        return Bound(node, width, conditions)

    def limited(
        self, node: LogicalNode, keys: list[SortKey], offset: int, fetch: int | None, conditions: tuple[Node, ...]
    ) -> LogicalNode:
        """ORDER BY and LIMIT; of a correlated sub-query they hold for each row around: the rank per compared columns."""
        if not conditions or fetch is None:
            return LogicalSort(node, tuple(keys), offset, fetch)
        return subqueries.top_per_row(node, keys, offset, fetch, conditions, self.tree)


def _check_place(node: Node, tree: Any) -> None:
    """Refuse a column that is a document inside of no other one."""
    if isinstance(node, Call) and node.function == "JSON":
        fail(tree, JSON_PLACE)


def _mismatch(nodes: Sequence[LogicalNode], place: int, name: str) -> str:
    """Return the message for a column of two queries with different types."""
    shown = [f"'{column.name}' is {column.type}" for column in (node.row_type[place - 1] for node in nodes)]
    remedy = "Columns go by their position: put them in the same order, or cast one"
    return f"Type mismatch in column {place} of {name}: {' and '.join(shown)}. {remedy}"
