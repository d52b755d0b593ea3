"""MATCH_RECOGNIZE: the columns of its result. The pattern itself is compiled by ``cep/sql``, from the clause's text."""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

from funken.expr.ir import Call, InputRef, Node
from funken.expr.sql.functions import FUNCTIONS
from funken.table.logical import LogicalMatch, OutputColumn, RelationType, SortKey, TimeAttribute
from funken.table.sql.expressions import AggregateRef, ExpressionBinder
from funken.table.sql.parser import StatementReader, parse_expression
from funken.table.sql.scopes import Scope, fail
from funken.table.sql.statements import InvalidQuery

_CLAUSES = (
    "MEASURES",
    "ONE",
    "ALL",
    "AFTER",
    "PATTERN",
    "ORDER",
    "ORDER BY",
    "PARTITION",
    "PARTITION BY",
    "DEFINE",
    "SUBSET",
    "WITHIN",
)


def bind_match(select: Any, tree: Any) -> None:
    """Put MATCH_RECOGNIZE on the relation of FROM; its result is the only relation of the query."""
    scope = select.scope
    row_type = select.node.row_type
    inner = Scope(parent=None)
    inner.add(scope.relations[-1].alias, row_type)
    clause = _Clause(tree.this)
    plain = ExpressionBinder(inner, select.binder)
    partition = tuple(_place(plain, text) for text in clause.partition)
    order = []
    for text in clause.order:
        item = re.sub(r"\s+(ASC|DESC)\s*$", "", text, flags=re.IGNORECASE)
        up = not re.search(r"\sDESC\s*$", text, re.IGNORECASE)
        order.append(SortKey(_place(plain, item), up, up))
    if not order:
        raise InvalidQuery("SQL validation failed. MATCH_RECOGNIZE needs ORDER BY a time attribute.")
    measures = _Measures(inner, select.binder, clause.variables)
    columns = [row_type[place] for place in partition]
    for text in clause.measures:
        expression, name = _named(text)
        node = measures.bind(parse_expression(expression))
        time = None
        if isinstance(node, Call) and node.function in {"MATCH_ROWTIME", "MATCH_PROCTIME"}:
            time = TimeAttribute.ROWTIME if node.function == "MATCH_ROWTIME" else TimeAttribute.PROCTIME
        columns.append(OutputColumn(name, node.type, time))
    match = LogicalMatch(select.node, partition, tuple(order), clause.text, RelationType(tuple(columns)))
    alias = tree.args.get("alias")
    scope.relations.clear()
    scope.add(alias.name if alias is not None and alias.name else None, match.row_type)
    select.node = match


def _place(binder: ExpressionBinder, text: str) -> int:
    tree = parse_expression(text)
    node = binder.bind(tree)
    if not isinstance(node, InputRef):
        fail(tree, "PARTITION BY and ORDER BY of MATCH_RECOGNIZE take columns")
    return node.index


def _named(text: str) -> tuple[str, str]:
    match = re.match(r"(.*)\sAS\s+(`(?:[^`]|``)+`|[\w$]+)\s*$", text, re.IGNORECASE | re.DOTALL)
    if match is None:
        raise InvalidQuery(f"SQL validation failed. A measure of MATCH_RECOGNIZE needs a name: {text.strip()} AS name")
    return match.group(1), match.group(2).strip("`").replace("``", "`")


class _Clause:
    """The parts of a clause whose types count: PARTITION BY, ORDER BY, MEASURES, and the variables of PATTERN."""

    def __init__(self, text: str) -> None:
        reader = StatementReader(text)
        self.partition: list[str] = []
        self.order: list[str] = []
        self.measures: list[str] = []
        if reader.words("PARTITION", "BY"):
            self.partition = self._list(reader)
        if reader.words("ORDER", "BY"):
            self.order = self._list(reader)
        if reader.words("MEASURES"):
            self.measures = self._list(reader)
        pattern = re.search(
            r"\bPATTERN\s*\((.*?)\)\s*(?:WITHIN\b|DEFINE\b|SUBSET\b|$)", text, re.IGNORECASE | re.DOTALL
        )
        names = re.findall(r"`((?:[^`]|``)+)`|([A-Za-z_]\w*)", pattern.group(1)) if pattern else []
        self.variables = {quoted.replace("``", "`") or plain for quoted, plain in names}
        self.variables |= set(re.findall(r"(\w+)\s*=\s*\(", text))
        self.text = text
        for place, (quoted, _) in enumerate(names):
            if quoted:  # the compiler of patterns knows plain names only
                self.text = self.text.replace(f"`{quoted}`", f"V{place}_{re.sub(r'[^A-Za-z0-9_]', '_', quoted)}")

    @staticmethod
    def _list(reader: StatementReader) -> list[str]:
        found = [reader.expression(*_CLAUSES)]
        while reader.words(","):
            found.append(reader.expression(*_CLAUSES))
        return found


class _Measures(ExpressionBinder):
    """Binds a measure for its type: a pattern variable is a row of the input."""

    def __init__(self, scope: Scope, binder: Any, variables: set[str]) -> None:
        super().__init__(scope, binder)
        self.variables = variables

    def column(self, tree: exp.Column) -> Node:
        parts = [part for part in tree.parts if isinstance(part, exp.Identifier)]
        if len(parts) > 1 and parts[0].name in self.variables:
            tree = exp.column(*[part.copy() for part in reversed(parts[1:])])
        return super().column(tree)

    def function(self, tree: exp.Anonymous, path: tuple[str, ...]) -> Node:
        name = str(tree.this.name if isinstance(tree.this, exp.Identifier) else tree.this).upper()
        if name in {"FIRST", "LAST", "PREV", "NEXT"} and tree.expressions:
            return self.bind(tree.expressions[0])
        if name == "MATCH_ROWTIME":
            times = self.scope.relations[0].columns
            found = [column.type for column in times if column.time is TimeAttribute.ROWTIME]
            if not found:
                fail(tree, "MATCH_ROWTIME needs a rowtime attribute in the input")
            return Call(name, type=found[0].not_null())
        if name == "MATCH_PROCTIME":
            return Call(name, type=FUNCTIONS.call("PROCTIME", []).type)
        node = super().function(tree, path)
        return Call(name, node.children, type=node.type) if isinstance(node, AggregateRef) else node
