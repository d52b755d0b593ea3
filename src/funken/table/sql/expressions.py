"""From sqlglot's trees of expressions to typed nodes.

What needs the query around it becomes a placeholder: a call of an aggregate, an OVER window, a sub-query, a property of a
window. The binder of queries replaces them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from funken.dataclass import dataclass
from funken.errors import FunkenError
from funken.expr.ir import Call, InputRef, Literal, Node
from funken.expr.rules import AggregateRule, InvalidCall
from funken.expr.sql import values as literals
from funken.expr.sql.functions import FUNCTIONS
from funken.expr.sql.values import literal, null
from funken.table.logical import BoundKind, FrameBound, LogicalNode, WindowProperty
from funken.table.sql.dialect import DefaultArgument, TypeText, signature
from funken.table.sql.scopes import OuterRef, Scope, fail, identifiers, instead_of
from funken.table.types import (
    STRING,
    BooleanType,
    DecimalType,
    MapType,
    MultisetType,
    NullType,
    RowType,
    SymbolType,
    is_text,
    parse_type,
)

_BINARY = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.DPipe: "||",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.SimilarTo: "SIMILAR TO",
}
_QUANTIFIERS = {"SOME", "ANY", "ALL"}
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
UNITS = {
    "YEAR",
    "QUARTER",
    "MONTH",
    "WEEK",
    "DAY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "MILLISECOND",
    "MICROSECOND",
    "NANOSECOND",
    "EPOCH",
    "DOY",
    "DOW",
    "ISODOW",
    "ISOYEAR",
    "CENTURY",
    "DECADE",
    "MILLENNIUM",
}
WINDOW_FUNCTIONS = {"TUMBLE", "HOP", "SESSION"}
_AUXILIARY = re.compile(r"\$?(TUMBLE|HOP|SESSION)_(START|END|ROWTIME|PROCTIME)$")
GROUPING = {"GROUPING", "GROUPING_ID", "GROUP_ID"}
TIMESTAMP_UNITS = re.compile(r"SQL_TSI_")
_RANKED = {"ROW_NUMBER", "RANK", "DENSE_RANK", "CUME_DIST", "PERCENT_RANK"}


@dataclass(frozen=True)
class AggregateRef(Node):
    """The value of an aggregate of the query, over ``args`` of its input."""

    function: str
    args: tuple[Node, ...]
    distinct: bool = False
    filter: Node | None = None
    order: tuple[tuple[Node, bool, bool], ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    definition: Any = None

    @property
    def children(self) -> tuple[Node, ...]:
        """The expressions within."""
        return (*self.args, *([self.filter] if self.filter is not None else []), *(key[0] for key in self.order))


@dataclass(frozen=True)
class OverRef(Node):
    """The value of an aggregate over a window of rows."""

    call: AggregateRef
    partition: tuple[Node, ...]
    order: tuple[tuple[Node, bool, bool], ...]
    rows: bool
    lower: FrameBound
    upper: FrameBound

    @property
    def children(self) -> tuple[Node, ...]:
        """The expressions within."""
        return (*self.call.children, *self.partition, *(key[0] for key in self.order))


@dataclass(frozen=True)
class PropertyRef(Node):
    """A property of the legacy window of GROUP BY."""

    window: str
    property: WindowProperty
    args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class SubQueryRef(Node):
    """The value of a sub-query: SCALAR, EXISTS, IN, or ``SOME`` with its comparison.

    ``conditions`` compare its columns with the query around: an ``OuterRef`` is a column of that query, an ``InputRef`` one
    of the plan. ``operands`` are the left side of IN. ``empty`` is the value of a correlated aggregate over no rows.
    """

    kind: str
    plan: LogicalNode
    operands: tuple[Node, ...] = ()
    conditions: tuple[Node, ...] = ()
    width: int = 1
    empty: Node | None = None

    @property
    def children(self) -> tuple[Node, ...]:
        """The expressions within."""
        return self.operands


def change(node: Node, replaced: Callable[[Node], Node | None]) -> Node:
    """Replace nodes from the top down: a result of ``replaced`` stands for the whole tree below."""
    found = replaced(node)
    if found is not None:
        return found

    def each(child: Node) -> Node:
        return change(child, replaced)

    if isinstance(node, Call):
        args = tuple(map(each, node.args))
        return node if all(new is old for new, old in zip(args, node.args, strict=True)) else replace(node, args=args)
    if isinstance(node, AggregateRef):
        order = tuple((each(key), up, first) for key, up, first in node.order)
        filter_ = None if node.filter is None else each(node.filter)
        return replace(node, args=tuple(map(each, node.args)), filter=filter_, order=order)
    if isinstance(node, OverRef):
        call: Any = change(node.call, lambda below: None if below is node.call else replaced(below))
        order = tuple((each(key), up, first) for key, up, first in node.order)
        return replace(node, call=call, partition=tuple(map(each, node.partition)), order=order)
    if isinstance(node, SubQueryRef):
        conditions = tuple(change(part, lambda below: _outer(below, replaced)) for part in node.conditions)
        return replace(node, operands=tuple(map(each, node.operands)), conditions=conditions)
    return node


@dataclass(frozen=True)
class Outer(Node):
    """An expression over the query around, within a condition of a sub-query."""

    node: Node


def _outer(node: Node, replaced: Callable[[Node], Node | None]) -> Node | None:
    """Replace references to the query around."""
    if isinstance(node, OuterRef) and node.depth == 1:
        inner = InputRef(node.index, type=node.type)
        found = replaced(inner)
        return None if found is None or found is inner else Outer(found, type=node.type)
    if isinstance(node, Outer):
        return Outer(change(node.node, replaced), type=node.type)
    return None


def has(node: Node, *kinds: type[Node]) -> bool:
    """Return True if one of these nodes is in a tree."""
    if isinstance(node, kinds):
        return True
    return any(has(child, *kinds) for child in node.children)


def is_constant(node: Node) -> bool:
    """Return True if an expression has no columns."""
    return not has(node, InputRef, AggregateRef, OverRef, SubQueryRef, OuterRef, PropertyRef)


def _rows_of(trees: Sequence[Any]) -> Any:
    """Return VALUES if it stands alone in parentheses, where a list of values may stand, too."""
    return trees[0] if len(trees) == 1 and isinstance(trees[0], exp.Values) else None


def _of_type(node: Node, type_: Any) -> Node:
    same = node.type.nullable() == type_.nullable()
    return node if same else FUNCTIONS.call("CAST", [node], type=type_.nullable(node.type.is_nullable))


def row_interval(tree: Any) -> int:
    """Return the rows of ``ROW_INTERVAL(n)``, the size of a window of the Table API; 0 for another size."""
    if not isinstance(tree, exp.Anonymous) or str(tree.this).upper() != "ROW_INTERVAL":
        return 0
    number = tree.expressions[0] if len(tree.expressions) == 1 else None
    if not isinstance(number, exp.Literal) or number.is_string or int(number.name) <= 0:
        fail(tree, "A window of rows has at least one row: row_interval(1)")
    return int(number.name)


class ExpressionBinder:
    """Binds expressions in a scope; ``binder`` binds sub-queries, ``windows`` are the named ones of the query.

    ``aliases`` are the names of SELECT: behind those of columns, or before them as in ORDER BY.
    """

    def __init__(
        self,
        scope: Scope,
        binder: Any,
        windows: dict[str, exp.Window] | None = None,
        aliases: dict[str, Node] | None = None,
        aliases_first: bool = False,
    ) -> None:
        self.scope = scope
        self.binder = binder
        self.windows = windows or {}
        self.aliases = aliases or {}
        self.aliases_first = aliases_first
        self.in_aggregate = False
        self.in_over = False

    # -- entry

    def bind(self, tree: Any) -> Node:
        """Return the typed node of a tree."""
        handler = _HANDLERS.get(type(tree))
        if handler is None:
            name = _BINARY.get(type(tree))
            if name is None:
                fail(tree, f"{type(tree).__name__} is not supported in an expression")
            return self.call(tree, name, [tree.this, tree.expression])
        return handler(self, tree)

    def condition(self, tree: Any, clause: str) -> Node:
        """An expression of BOOLEAN."""
        node = self.bind(tree)
        if isinstance(node.type, NullType):
            return null(BooleanType())
        if not isinstance(node.type, BooleanType):
            remedy = ". A text is a value here: write col('n') > 1, or the condition without quotes"
            shown = f"{node.type}{remedy if isinstance(node, Literal) else ''}"
            fail(tree, f"{clause} clause must be a condition, but it is of type {shown}")
        return node

    def call(self, tree: Any, name: str, args: Sequence[Any], **options: Any) -> Node:
        """Return the call of a function over trees."""
        return self.made(tree, name, [self.bind(arg) for arg in args], **options)

    def made(self, tree: Any, name: str, nodes: Sequence[Node], **options: Any) -> Node:
        """A typed call; an error of the function has the place of the tree."""
        try:
            return FUNCTIONS.call(name, nodes, **options)
        except InvalidCall as error:
            fail(tree, str(error))

    # -- names

    def column(self, tree: exp.Column) -> Node:
        """Return the meaning of a name: a column, its field, or a function without parentheses."""
        parts = identifiers(tree)
        if isinstance(tree.this, exp.Star):
            fail(tree, "Unknown identifier '*'")
        names = [part.name for part in parts]
        if self.aliases_first and len(names) == 1 and names[0] in self.aliases:
            return self.aliases[names[0]]
        scopes = list(self.scope.around())
        for resolve in (self.qualified, self.unqualified):  # an alias of a query around hides a column that is a row
            for depth, scope in enumerate(scopes):
                found = resolve(scope, parts, names, depth)
                if found is not None:
                    return found
        if len(names) == 1 and names[0] in self.aliases:
            return self.aliases[names[0]]
        if len(names) == 1 and names[0].upper() in FUNCTIONS and not parts[0].quoted and names[0].upper() in _BARE:
            return self.made(tree, names[0].upper(), [])
        if len(names) > 1:
            named = self.scope.relation(names[:-1])
            if named:
                near = self.scope.suggestion(names[-1], named[0])
                fail(tree, f"Column '{names[-1]}' not found in table '{names[-2]}'{near}")
            if not self.scope.find(names[0]):
                fail(tree, f"Table '{names[0]}' not found{self._near_table(names[0])}")
        fail(
            tree,
            f"Column '{names[0]}' not found in any table{instead_of(tree, names[0]) or self.scope.suggestion(names[0])}",
        )

    def _near_table(self, name: str) -> str:
        aliases = {each.alias.lower(): each.alias for each in self.scope.relations if each.alias}
        near = aliases.get(name.lower())
        return f"; did you mean '{near}'?" if near else f"; FROM has: {', '.join(aliases.values())}"

    def resolve(self, scope: Scope, parts: list[exp.Identifier], names: list[str], depth: int) -> Node | None:
        """A name in one scope: an alias and a column, or a column, then nested fields."""
        return self.qualified(scope, parts, names, depth) or self.unqualified(scope, parts, names, depth)

    def qualified(self, scope: Scope, parts: list[exp.Identifier], names: list[str], depth: int) -> Node | None:
        """A name that begins with the alias or the path of a relation, or ``None``."""
        for length in range(len(names) - 1, 0, -1):
            relations = scope.relation(names[:length])
            if len(relations) > 1:
                fail(parts[0], f"Table '{'.'.join(names[:length])}' is ambiguous")
            for relation in relations:
                found = relation.find(names[length])
                if len(found) > 1:
                    fail(parts[length], f"Column '{names[length]}' is ambiguous. Rename one of them with AS")
                if found:
                    self.binder.note_column(parts, relation, length)
                    return self.reference(scope, found[0][0], depth, parts[length + 1 :])
        return None

    def unqualified(self, scope: Scope, parts: list[exp.Identifier], names: list[str], depth: int) -> Node | None:
        """A name that begins with a column, or with a field of the one row that has it; or ``None``."""
        found = scope.find(names[0])
        if names[0] in scope.merged and found:
            return self.fields(self.at_depth(scope.merged[names[0]], depth), parts[1:])
        if len(found) > 1:
            owners = [each.alias for each in scope.relations if each.alias and each.find(names[0])]
            tables = f", as {owners[0]}.{names[0]}" if owners else ""
            fail(parts[0], f"Column '{names[0]}' is ambiguous. Write it with its table{tables}")
        if found:
            self.binder.note_column(parts, next(each for each in scope.relations if each.find(names[0])))
            return self.reference(scope, found[0][0], depth, parts[1:])
        return self.peeked(scope, parts, names, depth)

    def peeked(self, scope: Scope, parts: list[exp.Identifier], names: list[str], depth: int) -> Node | None:
        """Return a field of a row that is named without its column, if one row alone has it."""
        rows = [
            place
            for place, column in scope.columns()
            if isinstance(column.type, RowType) and names[0] in column.type.names
        ]
        return self.reference(scope, rows[0], depth, parts) if len(rows) == 1 else None

    def at_depth(self, node: Node, depth: int) -> Node:
        """Return an expression as seen from a sub-query."""
        if not depth:
            return node
        return change(
            node, lambda each: OuterRef(each.index, depth, type=each.type) if isinstance(each, InputRef) else None
        )

    def reference(self, scope: Scope, index: int, depth: int, rest: Sequence[exp.Identifier]) -> Node:
        """Return a column, and fields within it."""
        column = next(column for place, column in scope.columns() if place == index)
        node: Node = InputRef(index, type=column.type) if not depth else OuterRef(index, depth, type=column.type)
        return self.fields(node, rest)

    def fields(self, node: Node, names: Sequence[exp.Identifier]) -> Node:
        """Return nested fields."""
        for name in names:
            node = self.field(name, node, name.name)
        return node

    def field(self, tree: Any, node: Node, name: str) -> Node:
        """Return one field of a row, or value of a map."""
        if isinstance(node.type, RowType):
            if name not in node.type.names:
                fail(tree, f"Column '{name}' not found in row of {', '.join(node.type.names)}")
            return self.made(tree, "GET", [node], field=name)
        if not isinstance(node.type, MapType):
            near = difflib.get_close_matches(name, [each.name.lower() for each in FUNCTIONS], 1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            fail(tree, f"'{name}' is no field and no function of a value of the type {node.type}{hint}")
        return self.made(tree, "ITEM", [node, literal(name)])

    def dot(self, tree: exp.Dot) -> Node:
        """Return a field of an expression, or the call of a catalog's function."""
        if isinstance(tree.expression, exp.Anonymous):  # a function of a catalog: db.f(x)
            path = [part.name for part in tree.this.find_all(exp.Identifier)] or [tree.this.name]
            return self.function(tree.expression, tuple(path))
        return self.field(tree, self.bind(tree.this), tree.expression.name)

    # -- literals

    def literal(self, tree: exp.Literal) -> Node:
        """Return a number or a text."""
        return literal(tree.this) if tree.is_string else self._read(tree, literals.number_literal, tree.this)

    def negated(self, tree: exp.Neg) -> Node:
        """Return a negative number, or what has its sign changed."""
        number = tree.this.unnest()
        if isinstance(number, exp.Literal) and not number.is_string:
            return self._read(tree, literals.number_literal, f"-{number.this}")
        return self.call(tree, "NEGATE", [tree.this])

    def cast_literal(self, tree: exp.Cast) -> Node:
        """Return ``DATE '..'`` and its kin."""
        kind = tree.to.this.name
        text = tree.this.name
        readers = {
            "DATE": literals.date_literal,
            "TIME": literals.time_literal,
            "TIMESTAMP": literals.timestamp_literal,
        }
        if kind not in readers:
            fail(tree, f"{kind} is not supported here; write CAST(x AS {kind})")
        return self._read(tree, readers[kind], text)

    def _read(self, tree: Any, reader: Callable[..., Node], *args: Any) -> Node:
        try:
            return reader(*args)
        except (FunkenError, ValueError) as error:
            fail(tree, str(error))

    def interval(self, tree: exp.Interval) -> Node:
        """Return an interval."""
        return self._read(tree, literals.interval_literal, tree.this.name, *tree.args["unit"].name.split(" TO "))

    def unicode(self, tree: exp.UnicodeString) -> Node:
        """Return a text with escapes."""
        mark = tree.args["escape"].name if tree.args.get("escape") else "\\"
        codes = rf"{re.escape(mark)}({re.escape(mark)}|\+[0-9a-fA-F]{{6}}|[0-9a-fA-F]{{4}})"
        return literal(re.sub(codes, lambda match: _unescaped(match, mark), tree.name))

    # -- operators

    def unknown(self, tree: exp.Is, negated: bool = False) -> Node:
        """Return IS [NOT] NULL, TRUE, FALSE."""
        what = tree.expression
        prefix = "IS NOT " if negated else "IS "
        if isinstance(what, exp.Null):
            return self.call(tree, prefix + "NULL", [tree.this])
        if isinstance(what, exp.Boolean):
            return self.call(tree, prefix + ("TRUE" if what.this else "FALSE"), [tree.this])
        fail(tree, f"IS {what.sql()} is not supported: write IS NULL, IS TRUE or IS FALSE, and = for another value")

    def negation(self, tree: exp.Not) -> Node:
        """Return NOT."""
        inner = tree.this
        if isinstance(inner, exp.Is):
            return self.unknown(inner, negated=True)
        return self.call(tree, "NOT", [inner])

    def logic(self, tree: exp.And | exp.Or) -> Node:
        """Return AND or OR of any number."""
        name = "AND" if isinstance(tree, exp.And) else "OR"
        return self.call(tree, name, list(tree.flatten()))

    def between(self, tree: exp.Between) -> Node:
        """Return BETWEEN."""
        name = "BETWEEN SYMMETRIC" if tree.args.get("symmetric") else "BETWEEN"
        return self.call(tree, name, [tree.this, tree.args["low"], tree.args["high"]])

    def like(self, tree: exp.Like) -> Node:
        """Return LIKE."""
        found = self.call(tree, "LIKE", [tree.this, tree.expression])
        return self.made(tree, "NOT", [found]) if tree.args.get("negate") else found

    def escape(self, tree: exp.Escape) -> Node:
        """Return LIKE or SIMILAR TO with ESCAPE."""
        inner = tree.this
        name = "LIKE" if isinstance(inner, exp.Like) else "SIMILAR TO"
        found = self.call(tree, name, [inner.this, inner.expression, tree.expression])
        return self.made(tree, "NOT", [found]) if inner.args.get("negate") else found

    def membership(self, tree: exp.In) -> Node:
        """Return IN a list, or in a sub-query."""
        query = tree.args.get("query") or _rows_of(tree.expressions)
        if query is not None:
            found: Node = self.binder.sub_query("IN", query, self.scope, self.operands(tree.this, query))
            return found
        return self.call(tree, "IN", [tree.this, *tree.expressions])

    def operands(self, tree: Any, query: Any) -> tuple[Node, ...]:
        """Return the left side of IN: the values of ``(a, b)`` and of ``ROW(a, b)`` compare with a column each."""
        tree = tree.unnest()
        if isinstance(tree, exp.Tuple) or (isinstance(tree, exp.Anonymous) and str(tree.this).upper() == "ROW"):
            return tuple(map(self.bind, tree.expressions))
        return (self.bind(tree),)

    def compared(self, tree: exp.Binary) -> Node:
        """Return a comparison; that with SOME, ANY or ALL of a list is one with each value, of a sub-query a placeholder."""
        name = _BINARY[type(tree)]
        quantifier = tree.expression
        listed = isinstance(quantifier, exp.Anonymous) and str(quantifier.this).upper() in _QUANTIFIERS
        every = isinstance(quantifier, exp.All) or (listed and str(quantifier.this).upper() == "ALL")
        query = _rows_of(quantifier.expressions) if listed else quantifier.this
        if listed and query is None:
            parts = [self.call(tree, name, [tree.this, value]) for value in quantifier.expressions]
            return parts[0] if len(parts) == 1 else self.made(tree, "AND" if every else "OR", parts)
        if not listed and not isinstance(quantifier, exp.Any | exp.All):
            return self.call(tree, name, [tree.this, quantifier])
        name = _OPPOSITE[name] if every else name
        operands = self.operands(tree.this, query)
        kind = "IN" if name == "=" else f"SOME {name}"
        found: Node = self.binder.sub_query(kind, query.unnest(), self.scope, operands)
        return self.made(tree, "NOT", [found]) if every else found

    def exists(self, tree: exp.Exists) -> Node:
        """Return EXISTS."""
        found: Node = self.binder.sub_query("EXISTS", tree.this, self.scope)
        return found

    def scalar(self, tree: exp.Subquery) -> Node:
        """Return a scalar sub-query."""
        found: Node = self.binder.sub_query("SCALAR", tree, self.scope)
        return found

    def overlaps(self, tree: exp.Overlaps) -> Node:
        """Return OVERLAPS."""
        return self.call(tree, "OVERLAPS", [*tree.this.expressions, *tree.expression.expressions])

    def case(self, tree: exp.Case) -> Node:
        """Return CASE, both forms as one."""
        args: list[Node] = []
        subject = tree.args.get("this")
        for branch in tree.args["ifs"]:
            if subject is not None:
                args.append(self.call(branch.this, "=", [subject, branch.this]))
            else:
                args.append(self.bind(branch.this))
            args.append(self.bind(branch.args["true"]))
        default = tree.args.get("default")
        args.append(self.bind(default) if default is not None else Literal(None, type=NullType()))
        return self.made(tree, "CASE", args)

    def bracket(self, tree: exp.Bracket) -> Node:
        """Return an item of a collection, or a MAP."""
        inner = tree.this
        if isinstance(inner, exp.Column) and inner.name.upper() == "MAP" and not inner.this.quoted and not inner.table:
            return self.call(tree, "MAP", tree.expressions)
        if len(tree.expressions) != 1:
            fail(tree, f"One index is needed: {tree.sql()[:60]}")
        node = self.bind(inner)
        index = self.bind(tree.expressions[0])
        return self.made(tree, "ITEM", [node, index])

    # -- calls

    def anonymous(self, tree: exp.Anonymous) -> Node:
        """Return a call by name."""
        return self.function(tree, ())

    def function(self, tree: exp.Anonymous, path: tuple[str, ...]) -> Node:
        """Return a call: of the user's function first, then of a built-in."""
        written = tree.this.name if isinstance(tree.this, exp.Identifier) else tree.this
        name = written.upper()
        defined = self.binder.function((*path, written))
        if defined is not None:
            return self.user_function(tree, written, defined)
        if path:
            self.unknown_function(tree, ".".join((*path, written)))
        if name in {"ARRAY", "MAP", "MULTISET"} and any(isinstance(each, exp.Query) for each in tree.expressions):
            fail(
                tree, f"{name} of a sub-query is not supported; use an aggregate of one: (SELECT ARRAY_AGG(x) FROM ..)"
            )
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self, tree)
        match = _AUXILIARY.match(name)
        if match is not None:
            return self.window_property(tree, match)
        if name in GROUPING:
            args = tuple(self.bind(arg) for arg in tree.expressions)
            return AggregateRef(name, args, type=literals.number_literal("3000000000").type)
        if name not in FUNCTIONS:
            self.unknown_function(tree, written)
        rule = FUNCTIONS.get(name)
        if isinstance(rule, AggregateRule):
            return self.aggregate(tree, rule.name)
        nodes, options = self.arguments(tree.expressions)
        return self.made(tree, name, nodes, **options)

    def unknown_function(self, tree: Any, written: str) -> Any:
        """Refuse a call, with its signature and the nearest name."""
        try:
            FUNCTIONS.get(written)
        except InvalidCall as error:
            shown = signature(written, tree.expressions, lambda arg: self.bind(arg).type)
            fail(tree, f"No match found for function signature {shown}.{self._hint(str(error))}")

    @staticmethod
    def _hint(message: str) -> str:
        _, hint, name = message.partition(" Did you mean")
        return f"{hint}{name} One of your own is created with create_temporary_system_function()."

    def arguments(self, trees: Sequence[Any]) -> tuple[list[Node], dict[str, Any]]:
        """Return positional arguments, and the syntax beside them (``Kwarg``)."""
        args: list[Node] = []
        options: dict[str, Any] = {}
        for tree in trees:
            if isinstance(tree, exp.Kwarg):
                options |= self.option(tree)
            else:
                args.append(self.bind(tree))
        return args, options

    def option(self, tree: exp.Kwarg) -> dict[str, Any]:
        """Return the value of a named argument."""
        name, value = tree.this.name, tree.expression
        if isinstance(value, exp.Var):
            return {name: value.name}
        if isinstance(value, TypeText):
            return {name: parse_type(value.this)}
        if name in {"on_empty", "on_error"}:
            return {name: "DEFAULT", f"default_{name}": self.bind(value)}
        return {name: self.bind(value)}

    def user_function(self, tree: exp.Anonymous, name: str, function: Any) -> Node:
        """Return the call of a user's function."""
        args: list[Node] = []
        names: list[str | None] = []
        distinct = False
        for each in tree.expressions:
            inner, label = (each.expression, each.this.name) if isinstance(each, exp.Kwarg) else (each, None)
            if isinstance(inner, exp.Distinct):
                distinct = True
                args += [self.bind(part) for part in inner.expressions]
                names += [None] * len(inner.expressions)
            elif isinstance(inner, DefaultArgument):
                args.append(Literal(None, type=NullType()))
                names.append(label)
            elif isinstance(inner, exp.Star):
                columns: list[Node] = [InputRef(index, type=column.type) for index, column in self.scope.columns()]
                args += columns
                names += [None] * len(columns)
            else:
                args.append(self.bind(inner))
                names.append(label)
        try:
            cast, result = function.infer(args, names)
        except InvalidCall as error:
            fail(tree, str(error))
        if function.kind == "scalar":
            return Call(name, tuple(map(_as_written, cast)), type=result, handle=function)
        if function.kind != "aggregate":
            fail(tree, f"{name} is a {function.kind} function: it belongs in FROM, as LATERAL TABLE({name}(..))")
        return AggregateRef(name, tuple(cast), distinct, definition=function, type=result)

    def cast(self, tree: exp.Anonymous) -> Node:
        """Return CAST or TRY_CAST."""
        value, target = tree.expressions
        try:
            type_ = parse_type(target.this)
        except FunkenError as error:
            fail(tree, str(error))
        return self.made(tree, tree.this, [self.bind(value)], type=type_)

    def trim(self, tree: exp.Anonymous) -> Node:
        """Return TRIM."""
        where, characters, value = tree.expressions
        return self.call(tree, "TRIM", [value, characters], where=where.name)

    def with_unit(self, tree: exp.Anonymous) -> Node:
        """A function whose arguments may be a unit of time."""
        args: list[Node] = []
        for place, each in enumerate(tree.expressions):
            word = each.name.upper() if isinstance(each, exp.Var | exp.Column) else ""
            word = TIMESTAMP_UNITS.sub("", word)
            if (word in UNITS or word.removesuffix("S") in UNITS) and (isinstance(each, exp.Var) or place == 0):
                unit = word if word in UNITS else word.removesuffix("S")
                args.append(Literal(unit, type=SymbolType(is_nullable=False)))
            elif isinstance(each, exp.Var):
                fail(each, f"{each.name} is no unit of time; there are: {', '.join(sorted(UNITS))}")
            else:
                args.append(self.bind(each))
        return self.made(tree, tree.this.upper(), args)

    def now(self, tree: exp.Anonymous) -> Node:
        """Return PROCTIME()."""
        if tree.expressions:
            fail(tree, "PROCTIME takes no arguments")
        return self.made(tree, "PROCTIME", [])

    def descriptor(self, tree: exp.Anonymous) -> Node:
        """Refuse a DESCRIPTOR that is no argument of a table function."""
        fail(tree, "DESCRIPTOR may only be an argument of a table function")

    def group_window(self, tree: exp.Anonymous) -> Node:
        """Refuse a window outside of GROUP BY."""
        fail(tree, f"Group window {tree.this.upper()} is only allowed in the GROUP BY clause")

    def window_property(self, tree: exp.Anonymous, match: re.Match[str]) -> Node:
        """Return TUMBLE_START and its kin."""
        properties = {
            "START": WindowProperty.START,
            "END": WindowProperty.END,
            "ROWTIME": WindowProperty.ROWTIME,
            "PROCTIME": WindowProperty.PROCTIME,
        }
        kind = properties[match.group(2)]
        type_ = self.binder.property_type(kind, self.bind(tree.expressions[0]))
        if match.string.startswith("$") and kind in {WindowProperty.START, WindowProperty.END}:
            type_ = type_.nullable()  # as the Table API declares it
        return PropertyRef(match.group(1), kind, self.window_arguments(tree), type=type_)

    def window_arguments(self, tree: exp.Anonymous) -> tuple[Any, ...]:
        """Return the time, the lengths and the numbers of rows of a group window, to be compared with its properties'."""
        return tuple(row_interval(each) or self.binder.folded(self.bind(each)) for each in tree.expressions)

    # -- aggregates and windows of rows

    def aggregate(self, tree: exp.Anonymous, name: str, **options: Any) -> AggregateRef:
        """Return an aggregate."""
        distinct, trees, is_over = False, list(tree.expressions), self.in_over
        if name == "COUNT" and not trees:
            fail(
                tree, "Invalid number of arguments to function 'COUNT'. Was expecting 1 arguments: COUNT(*) counts rows"
            )
        args: list[Any] = []
        for tree_ in trees:
            each = tree_
            while isinstance(each, exp.IgnoreNulls | exp.RespectNulls):
                options["nulls"] = "IGNORE" if isinstance(each, exp.IgnoreNulls) else "RESPECT"
                each = each.this
            if isinstance(each, exp.Distinct):
                distinct = True
                args += each.expressions
            elif isinstance(each, exp.Star):
                continue
            elif isinstance(each, exp.Kwarg):
                options |= self.option(each)
            else:
                args.append(each)
        if self.in_aggregate:
            fail(tree, "Aggregate expressions cannot be nested")
        self.in_aggregate, self.in_over = not self.in_over, False
        try:
            nodes = [self.bind(each) for each in args]
        finally:
            self.in_aggregate = False
        try:
            rule, parts, result = FUNCTIONS.aggregate(name, nodes, **options)
        except InvalidCall as error:
            fail(tree, str(error))
        if rule.over_only and not is_over:
            fail(tree, f"OVER clause is necessary for window functions: {name}(..) OVER (ORDER BY ..)")
        if rule.name in ("LAG", "LEAD") and len(parts) > 2:  # the value and its default have one type
            value, shift, default = parts
            parts = (_of_type(value, result), shift, self.binder.folded(_of_type(default, result)))
        if rule.null_without_values and self.scope.grouped and not is_over and not parts[0].type.is_nullable:
            result = result.not_null()
        return AggregateRef(rule.name, tuple(parts), distinct, options=tuple(sorted(options.items())), type=result)

    def filtered(self, tree: exp.Filter) -> Node:
        """Return an aggregate with FILTER."""
        call = self.bind(tree.this)
        if not isinstance(call, AggregateRef):
            fail(tree, "FILTER must follow an aggregate")
        self.in_aggregate = True
        try:
            condition = self.condition(tree.expression.this, "FILTER")
        finally:
            self.in_aggregate = False
        return replace(call, filter=condition, type=_loose(call).type)

    def within_group(self, tree: exp.WithinGroup) -> Node:
        """Return an aggregate with WITHIN GROUP."""
        call = self.bind(tree.this)
        if not isinstance(call, AggregateRef):
            fail(tree, "WITHIN GROUP must follow an aggregate")
        return replace(call, order=self.ordering(tree.expression))

    def nulls(self, tree: exp.IgnoreNulls | exp.RespectNulls) -> Node:
        """Return an aggregate with IGNORE or RESPECT NULLS."""
        if not isinstance(tree.this, exp.Anonymous):
            fail(tree, "IGNORE NULLS and RESPECT NULLS follow a function")
        word = "IGNORE" if isinstance(tree, exp.IgnoreNulls) else "RESPECT"
        return self.aggregate(tree.this, tree.this.this, nulls=word)

    def ordering(self, order: exp.Order) -> tuple[tuple[Node, bool, bool], ...]:
        """Return the keys of ORDER BY: expression, ascending, nulls first."""
        found = []
        for each in order.expressions:
            key = self.bind(each.this)
            if isinstance(key.type, MapType | MultisetType):
                fail(each, f"ORDER BY takes values that have an order; those of {key.type} have none")
            found.append((key, not each.args.get("desc"), bool(each.args.get("nulls_first"))))
        return tuple(found)

    def over(self, tree: exp.Window) -> Node:
        """Return an aggregate over a window."""
        self.in_over = True  # its arguments may be aggregates of the query
        call = self.bind(tree.this)
        self.in_over = False
        if not isinstance(call, AggregateRef):
            fail(tree, "OVER must follow an aggregate or a function of windows")
        window = self.named_window(tree)
        partition = tuple(self.bind(each) for each in window.args.get("partition_by") or ())
        order = window.args.get("order")
        keys = self.ordering(order) if order is not None else ()
        rows, lower, upper = self.frame(window.args.get("spec"))
        _check_window(tree, window.args.get("spec"), call, keys, rows)
        rule, type_ = _rule_of(call), call.type
        has_row = not {lower.kind, upper.kind} & {BoundKind.PRECEDING, BoundKind.FOLLOWING}
        if rule is not None and rule.null_without_values and has_row and call.filter is None:
            type_ = type_.nullable(call.args[0].type.is_nullable)
        return OverRef(call, partition, keys, rows, lower, upper, type=type_)

    def named_window(self, tree: exp.Window) -> exp.Window:
        """Return a window with the clauses of the named one."""
        name = tree.args.get("alias")
        if name is None:
            return tree
        found = self.windows.get(name.name)
        if found is None:
            fail(tree, f"Window '{name.name}' not found")
        base = self.named_window(found)
        merged = tree.copy()
        for part in ("partition_by", "order", "spec"):
            if not merged.args.get(part):
                merged.set(part, base.args.get(part))
        return merged

    def frame(self, spec: Any) -> tuple[bool, FrameBound, FrameBound]:
        """Return whether a frame counts rows, and its bounds."""
        current = FrameBound(BoundKind.CURRENT_ROW)
        if spec is None:
            return False, FrameBound(BoundKind.UNBOUNDED_PRECEDING), current
        lower = self.bound(spec.args.get("start"), spec.args.get("start_side"))
        end = spec.args.get("end")
        upper = current if end is None else self.bound(end, spec.args.get("end_side"))
        return spec.args["kind"].upper() == "ROWS", lower, upper

    def bound(self, value: Any, side: str | None) -> FrameBound:
        """Return one bound of a frame."""
        text = value if isinstance(value, str) else ""
        if text.upper() == "CURRENT ROW":
            return FrameBound(BoundKind.CURRENT_ROW)
        preceding = (side or "").upper() == "PRECEDING"
        if text.upper() == "UNBOUNDED":
            return FrameBound(BoundKind.UNBOUNDED_PRECEDING if preceding else BoundKind.UNBOUNDED_FOLLOWING)
        node = self.binder.folded(self.bind(value))
        if not isinstance(node, Literal) or not isinstance(node.value, int):
            fail(value, "The bound of a frame must be a constant")
        if node.value < 0:
            fail(value, "The bound of a frame must be a non-negative constant; PRECEDING and FOLLOWING say the side")
        return FrameBound(BoundKind.PRECEDING if preceding else BoundKind.FOLLOWING, node.value)


def _check_window(tree: Any, spec: Any, call: AggregateRef, keys: Sequence[Any], rows: bool) -> None:
    """Raise ``InvalidQuery`` if an OVER window lacks the order, or has a frame, that its function does not allow."""
    name = call.function
    if name in _RANKED and not keys:
        fail(tree, f"{name} requires ORDER BY clause in window specification")
    if name in _RANKED and call.filter is not None:
        fail(tree, "OVER must be applied to aggregate function: FILTER cannot stand between it and a window function")
    if spec is None:
        return
    if name in {*_RANKED, "LAG", "LEAD"}:
        fail(tree, f"ROW/RANGE not allowed with {name}: leave the frame out")
    bounds = [spec.args.get(part) for part in ("start", "end")]
    distances = [each for each in bounds if isinstance(each, exp.Expression)]
    if rows or not distances:
        return
    if not keys:
        fail(tree, "Window specification must contain an ORDER BY clause: RANGE counts from its values")
    if len(keys) > 1:
        fail(tree, "RANGE clause cannot be used with compound ORDER BY clause; write ROWS, or order by one column")
    type_ = keys[0][0].type
    if type_.family not in {"NUMERIC", "DATETIME"}:
        fail(tree, f"Data type of ORDER BY prohibits use of RANGE clause: {type_} has no distances; write ROWS")
    if any(isinstance(each, exp.Interval) != (type_.family == "DATETIME") for each in distances):
        fail(tree, f"Data Type mismatch between ORDER BY and RANGE clause: {type_} goes with another kind of distance")


def _as_written(node: Node) -> Node:
    """Return the decimal below a cast to DECIMAL: a user's function gets the digits that the statement has, as in Flink."""
    if isinstance(node, Call) and node.function == "CAST" and isinstance(node.type, DecimalType):
        (value,) = node.args
        if isinstance(value, Literal) and isinstance(value.type, DecimalType):
            return value
    return node


def _unescaped(match: re.Match[str], mark: str) -> str:
    text = match.group(1)
    return mark if text == mark else chr(int(text.lstrip("+"), 16))


def _null(binder: ExpressionBinder, tree: Any) -> Node:
    return Literal(None, type=NullType())


def _star(binder: ExpressionBinder, tree: Any) -> Node:
    fail(tree, "Unknown identifier '*'")


def _plus(binder: ExpressionBinder, tree: Any) -> Node:
    """``a + b`` of the Table API, which is also the concatenation of a text and a value."""
    nodes = [binder.bind(each) for each in tree.expressions]
    if not any(is_text(node.type) for node in nodes):
        return binder.made(tree, "+", nodes)
    texts = [node if is_text(node.type) else FUNCTIONS.call("CAST", [node], type=STRING) for node in nodes]
    return binder.made(tree, "||", texts)


def _field(binder: ExpressionBinder, tree: Any) -> Node:
    """A field of a row by its position, from 0, of the Table API."""
    row, place = tree.expressions
    node, index = binder.bind(row), int(place.this)
    fields = getattr(node.type, "fields", ())
    if not index < len(fields):
        fail(tree, f"There is no field {index} in {node.type}")
    return binder.made(tree, "GET", [node], field=index)


def _row(binder: ExpressionBinder, tree: Any) -> Node:
    """A row of the Table API, which names its fields f0, f1 and so on."""
    names = tuple(f"f{place}" for place in range(len(tree.expressions)))
    return binder.made(tree, "ROW", [binder.bind(each) for each in tree.expressions], names=names)


def _rule_of(call: Node) -> AggregateRule | None:
    """Return the rule of an aggregate, or of that of an OVER window; ``None`` for a function of the user."""
    call = call.call if isinstance(call, OverRef) else call
    rule = FUNCTIONS.get(call.function) if isinstance(call, AggregateRef) and call.definition is None else None
    return rule if isinstance(rule, AggregateRule) else None


def _loose(node: Node) -> Node:
    """Return an aggregate that may have no values: its type is nullable, if it is that of its argument."""
    rule = _rule_of(node)
    return replace(node, type=node.type.nullable()) if rule is not None and rule.null_without_values else node


_BARE = {"CURRENT_DATABASE", "CURRENT_ROW_TIMESTAMP"}
_SPECIAL: dict[str, Callable[[ExpressionBinder, Any], Node]] = {
    "CAST": ExpressionBinder.cast,
    "TRY_CAST": ExpressionBinder.cast,
    "TRIM": ExpressionBinder.trim,
    "EXTRACT": ExpressionBinder.with_unit,
    "CEIL": ExpressionBinder.with_unit,
    "FLOOR": ExpressionBinder.with_unit,
    "TIMESTAMPADD": ExpressionBinder.with_unit,
    "TIMESTAMPDIFF": ExpressionBinder.with_unit,
    "DESCRIPTOR": ExpressionBinder.descriptor,
    "$PLUS": _plus,
    "$FIELD": _field,
    "$ROW": _row,
    "$NULLABLE": lambda binder, tree: _loose(binder.bind(tree.expressions[0])),
    **dict.fromkeys(WINDOW_FUNCTIONS, ExpressionBinder.group_window),
}
_HANDLERS: dict[type, Callable[[ExpressionBinder, Any], Node]] = {
    exp.Column: lambda binder, tree: binder.column(tree),
    exp.Dot: ExpressionBinder.dot,
    exp.Literal: ExpressionBinder.literal,
    exp.Boolean: lambda binder, tree: literal(bool(tree.this)),
    exp.Null: _null,
    exp.Star: _star,
    exp.Cast: ExpressionBinder.cast_literal,
    exp.Interval: ExpressionBinder.interval,
    exp.National: lambda binder, tree: literal(tree.name),
    exp.HexString: lambda binder, tree: literal(bytes.fromhex(tree.name)),
    exp.UnicodeString: ExpressionBinder.unicode,
    exp.Paren: lambda binder, tree: binder.bind(tree.this),
    exp.Neg: ExpressionBinder.negated,
    exp.Not: ExpressionBinder.negation,
    exp.And: ExpressionBinder.logic,
    exp.Or: ExpressionBinder.logic,
    exp.Is: ExpressionBinder.unknown,
    exp.Between: ExpressionBinder.between,
    exp.Like: ExpressionBinder.like,
    exp.Escape: ExpressionBinder.escape,
    exp.In: ExpressionBinder.membership,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), ExpressionBinder.compared),
    exp.Exists: ExpressionBinder.exists,
    exp.Subquery: ExpressionBinder.scalar,
    exp.Select: ExpressionBinder.scalar,
    exp.Overlaps: ExpressionBinder.overlaps,
    exp.Case: ExpressionBinder.case,
    exp.Bracket: ExpressionBinder.bracket,
    exp.Array: lambda binder, tree: binder.call(tree, "ARRAY", tree.expressions),
    exp.Tuple: lambda binder, tree: binder.call(tree, "ROW", tree.expressions),
    exp.Anonymous: lambda binder, tree: binder.anonymous(tree),
    exp.Filter: ExpressionBinder.filtered,
    exp.WithinGroup: ExpressionBinder.within_group,
    exp.IgnoreNulls: ExpressionBinder.nulls,
    exp.RespectNulls: ExpressionBinder.nulls,
    exp.Window: ExpressionBinder.over,
}
