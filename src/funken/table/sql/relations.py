"""FROM: tables, views, sub-queries, joins of all kinds, table functions, UNNEST, MATCH_RECOGNIZE."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from funken.expr.ir import Call, InputRef, Node
from funken.expr.rules import InvalidCall
from funken.expr.sql.functions import FUNCTIONS
from funken.expr.sql.values import null
from funken.table.catalog import CatalogView, InvalidTable
from funken.table.logical import (
    JoinType,
    LogicalCorrelate,
    LogicalFilter,
    LogicalJoin,
    LogicalNode,
    LogicalTemporalJoin,
    OutputColumn,
    RelationType,
    TableCall,
)
from funken.table.sql import subqueries
from funken.table.sql.doubts import is_reflexive
from funken.table.sql.expressions import AggregateRef, ExpressionBinder, OverRef, PropertyRef, SubQueryRef, has
from funken.table.sql.hints import check_hints, check_known, lifetime, lookup_settings
from funken.table.sql.patterns import bind_match
from funken.table.sql.scopes import OuterRef, Scope, ScopeRelation, fail, span_of
from funken.table.sql.table_functions import SEARCH, TableFunctionCall, bind_table_function
from funken.table.sql.trees import hints_of, renamed
from funken.table.types import ArrayType, IntType, MapType, MultisetType, RowType

_SIDES = {"LEFT": JoinType.LEFT, "RIGHT": JoinType.RIGHT, "FULL": JoinType.FULL, "": JoinType.INNER}


def bind_from(select: Any) -> None:
    """Bind FROM and its joins; the relation and the names are left in the SELECT."""
    tree = select.tree
    from_ = tree.args.get("from_")
    if from_ is None:
        return
    builder = FromBinder(select, select.scope, select.node)
    builder.first(from_.this)
    for join in tree.args.get("joins") or ():
        builder.join(join)
    select.node = builder.node
    select.scope.plan = lambda: select.node
    check_hints(select.hints, select.scope.relations, from_.this)
    match = tree.args.get("match")
    if match is not None:
        bind_match(select, match)


class FromBinder:
    """Adds relations one by one; ``node`` has the columns of ``scope``."""

    def __init__(self, select: Any, scope: Scope, one_row: LogicalNode) -> None:
        self.select = select
        self.binder = select.binder
        self.scope = scope
        self.node = one_row  # one row without meaning, for what stands first and needs a row: UNNEST, LATERAL
        self.empty = True
        scope.plan = lambda: self.node

    @property
    def expressions(self) -> ExpressionBinder:
        """The binder of expressions over the relations so far."""
        return ExpressionBinder(self.scope, self.binder, self.select.windows)

    # -- relations

    def first(self, tree: Any) -> None:
        """Bind the first relation of FROM."""
        if self.is_lateral(tree):
            self.lateral(tree, JoinType.INNER, None)
            return
        nested = self.nested(tree)
        if nested is not None:
            node, relations, merged = nested
            self.scope.relations += relations
            self.scope.merged |= merged
        else:
            node, alias, path = self.relation(tree)
            self.scope.add(alias, node.row_type, path, tree)
            self.hide(tree)
        self.node, self.empty = node, False
        for join in tree.args.get("joins") or () if nested is None else ():
            self.join(join)

    def hide(self, tree: Any) -> None:
        """Nothing is hidden of a relation that stands alone."""

    def is_lateral(self, tree: Any) -> bool:
        """Return True if a relation is evaluated for each row of the relations before it."""
        if isinstance(tree, exp.Lateral | exp.Unnest):
            return True
        call = _table_call(tree)
        if call is None:
            return False
        defined = self.binder.function((_name(call),), of_tables=True)
        if defined is None:
            return _name(call).upper() in SEARCH
        return bool(defined.kind == "table")

    def nested(self, tree: Any) -> tuple[LogicalNode, list[ScopeRelation], dict[str, Node]] | None:
        """A join in parentheses."""
        if not isinstance(tree, exp.Subquery) or not isinstance(tree.this, exp.Table | exp.Subquery):
            return None
        if tree.args.get("alias") is not None or not tree.this.args.get("joins"):
            if isinstance(tree.this, exp.Table) and tree.args.get("alias") is None:
                inner = FromBinder(self.select, Scope(parent=self.scope.parent), self.node)
                inner.first(tree.this)
                return inner.node, inner.scope.relations, inner.scope.merged
            return None
        inner = FromBinder(self.select, Scope(parent=self.scope.parent), self.node)
        inner.first(tree.this)
        return inner.node, inner.scope.relations, inner.scope.merged

    def relation(self, tree: Any) -> tuple[LogicalNode, str | None, tuple[str, ...]]:
        """A relation, its alias, and the path of its table."""
        alias = tree.args.get("alias")
        name = alias.name if alias is not None and alias.name else None
        columns = [column.name for column in alias.columns] if alias is not None else []
        path: tuple[str, ...] = ()
        node: LogicalNode
        if isinstance(tree, exp.Table):
            node, path = self.table(tree)
        elif isinstance(tree, exp.Subquery | exp.Select | exp.SetOperation | exp.Values):
            query = tree.this if isinstance(tree, exp.Subquery) and not _modified(tree) else tree
            bound = self.binder.bound(query, self.scope.parent)
            if bound.conditions:
                fail(tree, "Columns of a query around are only visible to LATERAL sub-queries")
            node = bound.node
        else:
            fail(tree, f"{type(tree).__name__} is not supported in FROM")
        if columns:
            if len(columns) != len(node.row_type):
                fail(
                    alias,
                    f"List of column aliases must have same degree as table: {len(columns)} names, {len(node.row_type)} columns",
                )
            node = renamed(node, columns)
        elif name is not None and isinstance(tree.unnest(), exp.Values) and len(node.row_type) == 1:
            node = renamed(node, [name])
        if name is None and path:
            name = path[-1]
        return node, name, path if alias is None or not alias.name else ()

    def table(self, tree: exp.Table) -> tuple[LogicalNode, tuple[str, ...]]:
        """Return the plan of a table, and its path."""
        call = _table_call(tree)
        if call is not None:
            return bind_table_function(self, call), ()
        for part in ("pivots", "sample", "when", "only", "rows_from", "partition", "changes"):
            if tree.args.get(part):
                fail(tree, f"{part.upper()} is not supported")
        path = tuple(part.name for part in tree.parts)
        if len(path) == 1:
            named = self.binder.environment.find(path[0])
            if named is not None:
                return named, path
        options: dict[str, str] = {}
        hint = tree.meta.get("hint")
        for entry in hints_of(hint):
            check_known(entry, tree)
            if entry.name == "OPTIONS":
                options |= dict(entry.options)
        try:
            node = self.binder.table(path, options)
            identifier = self.binder.catalogs.identifier(path)
        except InvalidTable as error:
            if str(error).startswith("SQL validation failed"):
                raise
            fail(tree, str(error))
        if options and isinstance(self.binder.catalogs.table(path), CatalogView):
            fail(
                tree,
                f"View '{identifier.quoted()}' cannot be enriched with new options. Hints can only be applied to tables: "
                "write the hint in the view",
            )
        self.binder.note(tree.parts[0], tree.parts[-1], identifier.quoted(), "table")
        return node, (identifier.catalog, identifier.database, identifier.name)

    # -- joins

    def join(self, tree: exp.Join) -> None:
        """Bind one join."""
        method, side, kind = (str(tree.args.get(part) or "").upper() for part in ("method", "side", "kind"))
        if method not in {"", "NATURAL"} or kind not in {"", "INNER", "OUTER", "CROSS", "SEMI", "ANTI"}:
            fail(tree, f"{' '.join(filter(None, (method, side, kind)))} JOIN is not supported")
        how = {"SEMI": JoinType.SEMI, "ANTI": JoinType.ANTI}.get(kind) or _SIDES[side]
        target, on = tree.this, tree.args.get("on")
        if self.is_lateral(target):
            self.lateral(target, how, on)
            return
        version = target.args.get("version") if isinstance(target, exp.Table) else None
        left, before = self.node, len(self.scope.relations)
        nested = self.nested(target)
        if nested is not None:
            right, relations, _ = nested
            start = self.scope.width
            for relation in relations:
                self.scope.relations.append(
                    replace(relation, start=start + relation.start, hidden={start + place for place in relation.hidden})
                )
        else:
            right, alias, path = self.relation(target)
            if alias is not None and any(other.alias == alias for other in self.scope.relations):
                fail(target, f"Duplicate relation name '{alias}' in FROM clause")
            self.scope.add(alias, right.row_type, path, target)
        if version is not None:
            self.temporal(left, right, how, version, on, tree)
            return
        condition = self.join_condition(left, right, tree, method, how, on)
        sides = (self.scope.relations[:before], self.scope.relations[before:])
        lives = [lifetime(self.select.hints, side[0] if len(side) == 1 else None, tree) for side in sides]
        asked = on is None or (condition is not None and not any(map(is_reflexive, on.find_all(exp.EQ))))
        span = (
            span_of(target) if asked and kind != "CROSS" else None
        )  # of a join that needs a condition, in WHERE perhaps
        self.node = LogicalJoin(left, right, how, condition, self.select.hints, (lives[0], lives[1]), span=span)
        for inner in target.args.get("joins") or () if nested is None and isinstance(target, exp.Table) else ():
            self.refresh()
            self.join(inner)
        if not how.keeps_right:
            self.scope.relations.pop()
        self.refresh()

    def refresh(self) -> None:
        """The columns of the names are those of the joined relation: an outer join makes them nullable."""
        columns = self.node.row_type.columns
        for relation in self.scope.relations:
            relation.columns = columns[relation.start : relation.start + len(relation.columns)]

    def join_condition(
        self, left: LogicalNode, right: LogicalNode, tree: exp.Join, method: str, how: JoinType, on: Any
    ) -> Node | None:
        """Return the condition of ON, USING or NATURAL."""
        using = [part.name for part in tree.args.get("using") or ()]
        width = len(left.row_type)
        if method == "NATURAL":
            hidden = {place for relation in self.scope.relations for place in relation.hidden}
            names = [column.name for place, column in enumerate(left.row_type) if place not in hidden]
            using = [name for name in names if name in right.row_type.names]
        if not using:
            return None if on is None else self.on(on)
        parts = []
        for name in using:
            if name not in right.row_type.names:
                fail(tree, f"Column '{name}' not found in any table")
            lefts = [node for node in self.named(name, width)]
            if len(lefts) != 1:
                fail(tree, f"Column '{name}' in USING is {'ambiguous' if lefts else 'not found in any table'}")
            place = width + right.row_type.index(name)
            other = InputRef(place, type=right.row_type[place - width].type)
            parts.append(self.expressions.made(tree, "=", [lefts[0], other]))
            self.merge(name, lefts[0], other, how)
        return subqueries.conjunction(parts)

    def named(self, name: str, width: int) -> list[Node]:
        """Return the columns of a name on the left side."""
        if name in self.scope.merged:
            return [self.scope.merged[name]]
        return [InputRef(place, type=column.type) for place, column in self.scope.find(name) if place < width]

    def merge(self, name: str, left: Node, right: Node, how: JoinType) -> None:
        """Note a column that both sides share by USING."""
        if how is JoinType.RIGHT:
            merged = right
        elif how is JoinType.FULL:
            merged = FUNCTIONS.call("COALESCE", [replace(side, type=side.type.nullable()) for side in (left, right)])
        else:
            known = how is JoinType.INNER and left.type.is_nullable and not right.type.is_nullable
            merged = right if known else left
        self.scope.merged[name] = merged

    def on(self, tree: Any) -> Node | None:
        """Bind the condition of ON; ``None`` is TRUE."""
        condition = self.expressions.condition(tree, "ON")
        if has(condition, AggregateRef, OverRef, PropertyRef, SubQueryRef, OuterRef):
            fail(tree, "ON takes conditions over the columns of both sides, without aggregates and sub-queries")
        return None if _is_true(condition) else condition

    def temporal(
        self, left: LogicalNode, right: LogicalNode, how: JoinType, version: exp.Version, on: Any, tree: Any
    ) -> None:
        """Bind FOR SYSTEM_TIME AS OF."""
        if how not in {JoinType.INNER, JoinType.LEFT}:
            fail(tree, "A temporal join is an INNER or a LEFT JOIN")
        time = self.expressions.bind(version.expression)
        if not isinstance(time, InputRef) or time.index >= len(left.row_type):
            fail(version, "FOR SYSTEM_TIME AS OF takes a time attribute of the left side")
        if left.row_type[time.index].time is None:
            fail(
                version,
                "Temporal table join currently only supports 'FOR SYSTEM_TIME AS OF' left table's time "
                f"attribute field, but '{left.row_type[time.index].name}' is none",
            )
        condition = None if on is None else self.on(on)
        lookup = lookup_settings(self.select.hints, self.scope.relations[-1], tree)
        self.node = LogicalTemporalJoin(left, right, how, time.index, condition, self.select.hints, lookup=lookup)
        self.refresh()

    # -- LATERAL

    def lateral(self, tree: Any, how: JoinType, on: Any) -> None:
        """Bind LATERAL, UNNEST or a table function."""
        if how not in {JoinType.INNER, JoinType.LEFT}:
            fail(tree, "LATERAL and UNNEST take an INNER or a LEFT JOIN")
        inner = tree.this if isinstance(tree, exp.Lateral) else tree
        alias = tree.args.get("alias")
        if isinstance(inner, exp.Subquery | exp.Select):
            self.lateral_query(inner, alias, how, on, tree)
            return
        scope = Scope(parent=self.scope.parent) if self.empty else self.scope
        expressions = ExpressionBinder(scope, self.binder)
        if isinstance(inner, exp.Unnest):
            call = self.unnest(inner, expressions, bool(tree.args.get("ordinality")))
        else:
            found = _table_call(inner)
            if found is None:
                fail(tree, "LATERAL takes a sub-query, UNNEST or a table function")
            call = self.function(found, expressions)
        names = [column.name for column in alias.columns] if alias is not None else []
        if isinstance(inner, exp.Unnest) and alias is not None and not names and len(call.row_type) == 1:
            names = [alias.name]  # a relation of one column gives it its name
        offset = inner.args.get("offset") if isinstance(inner, exp.Unnest) else None
        if isinstance(offset, exp.Identifier) and names:
            names.append(offset.name)
        if names:
            if len(names) != len(call.row_type):
                fail(
                    alias,
                    f"List of column aliases must have same degree as table: {len(names)} names, {len(call.row_type)} columns",
                )
            columns = zip(call.row_type, names, strict=True)
            call = replace(call, row_type=RelationType(tuple(replace(column, name=name) for column, name in columns)))
        if self.empty:
            self.scope.add(None, self.node.row_type).hidden = {0}
        self.scope.add(alias.name if alias is not None else None, call.row_type)
        condition = None if on is None else self.on(on)
        self.node, self.empty = LogicalCorrelate(self.node, call, how, condition), False
        self.refresh()

    def lateral_query(self, inner: Any, alias: Any, how: JoinType, on: Any, tree: Any) -> None:
        """Bind a LATERAL sub-query."""
        query = inner.this if isinstance(inner, exp.Subquery) and not _modified(inner) else inner
        bound = self.binder.bound(query, self.scope)
        node = bound.node
        if alias is not None and alias.columns:
            names = [column.name for column in alias.columns]
            node = renamed(node, [*names, *node.row_type.names[len(names) :]])
        start = self.scope.width
        relation = self.scope.add(alias.name if alias is not None else None, node.row_type)
        relation.hidden = set(range(start + bound.width, start + len(node.row_type)))
        parts = subqueries.inner_join_condition(bound.conditions, start, tree)
        extra = None if on is None else self.on(on)
        condition = subqueries.conjunction([*parts, *([extra] if extra is not None else [])])
        if self.empty:
            self.node, self.empty = node, False
            if condition is not None:
                self.node = LogicalFilter(self.node, condition)
        else:
            self.node = LogicalJoin(self.node, node, how, condition, self.select.hints)
        self.refresh()

    def unnest(self, tree: exp.Unnest, expressions: ExpressionBinder, ordinality: bool) -> TableCall:
        """Return the call of UNNEST."""
        if len(tree.expressions) != 1:
            fail(tree, "UNNEST takes one collection")
        node = expressions.bind(tree.expressions[0])
        type_ = node.type
        ordinality = ordinality or bool(tree.args.get("offset"))
        if isinstance(type_, MapType):
            columns = [OutputColumn("KEY", type_.key), OutputColumn("VALUE", type_.value)]
        elif isinstance(type_, ArrayType | MultisetType):
            element = type_.element
            if isinstance(element, RowType):
                columns = [
                    OutputColumn(column.name, column.type.nullable(column.type.is_nullable or element.is_nullable))
                    for column in element.fields
                ]
            else:
                columns = [OutputColumn("EXPR$0", element)]
        else:
            fail(tree, f"UNNEST takes an ARRAY, MAP or MULTISET, not {type_}")
        if ordinality:
            columns.append(OutputColumn("ORDINALITY", IntType(is_nullable=False)))
        name = "UNNEST WITH ORDINALITY" if ordinality else "UNNEST"
        return TableCall(name, (node,), RelationType(tuple(columns)))

    def function(self, tree: exp.Anonymous, expressions: ExpressionBinder) -> TableCall:
        """Return the call of a table function."""
        name = _name(tree)
        defined = self.binder.function((name,), of_tables=True)
        if defined is None and name.upper() in SEARCH:
            return TableFunctionCall(self, tree).search(name.upper(), expressions)
        if defined is None:
            expressions.unknown_function(tree, name)
        kind = "built-in scalar or aggregate" if defined is None else defined.kind
        if kind != "table":
            fail(tree, f"{name} is no table function, but a {kind} function; call it in SELECT")
        args, labels = [], []
        for each in tree.expressions:
            inner, label = (each.expression, each.this.name) if isinstance(each, exp.Kwarg) else (each, None)
            args.append(null() if type(inner).__name__ == "DefaultArgument" else expressions.bind(inner))
            labels.append(label)
        try:
            cast, result = defined.infer(args, labels)
        except InvalidCall as error:
            fail(tree, str(error))
        if isinstance(result, RowType):
            columns = tuple(OutputColumn(column.name, column.type) for column in result.fields)
        else:
            columns = (OutputColumn("EXPR$0", result),)
        return TableCall(name, tuple(cast), RelationType(columns), defined)


def _name(tree: exp.Anonymous) -> str:
    return tree.this.name if isinstance(tree.this, exp.Identifier) else tree.this


def _table_call(tree: Any) -> exp.Anonymous | None:
    """The call of ``TABLE(f(..))`` or ``f(..)`` in FROM."""
    call = tree.this if isinstance(tree, exp.Table) else tree
    if isinstance(call, exp.Dot):
        call = call.expression
    if not isinstance(call, exp.Anonymous):
        return None
    if _name(call).upper() == "TABLE" and len(call.expressions) == 1 and isinstance(call.expressions[0], exp.Anonymous):
        return call.expressions[0]
    return call


def _modified(tree: Any) -> bool:
    return any(tree.args.get(part) for part in ("order", "limit", "offset"))


def _is_true(node: Node) -> bool:
    return getattr(node, "value", None) is True and not isinstance(node, Call)
