"""The names that an expression may use: relations with their columns, and those of the queries around."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any, NoReturn

from sqlglot import exp

from funken.dataclass import dataclass
from funken.expr.ir import Node
from funken.table.logical import LogicalNode, OutputColumn, RelationType, Span
from funken.table.sql.statements import InvalidQuery


def span_of(tree: Any) -> Span | None:
    """The place of a tree: that of its first identifier or call, to its last."""
    places: list[tuple[int, int, int, int]] = []
    for node in tree.walk() if hasattr(tree, "walk") else ():
        meta = node.meta
        if "line" in meta and "col" in meta and "start" in meta:
            size = meta["end"] - meta["start"]
            places.append((meta["line"], meta["col"] - size, meta["line"], meta["col"]))
    if not places:
        return None
    first, last = min(places)[:2], max(place[2:] for place in places)
    last = max(last, tree.meta.get("closing", last))
    return Span(first[0], max(first[1], 1), *last)


def fail(tree: Any, message: str) -> NoReturn:
    """Raise an error with the place of a tree."""
    span = span_of(tree) if tree is not None else None
    where = ""
    if span is not None:
        where = f"From line {span.line}, column {span.column} to line {span.end_line}, column {span.end_column}: "
    head = ""
    if message.startswith("Invalid function call:\n"):  # before the place, as in Flink, where tools look for it
        call, _, message = message.removeprefix("Invalid function call:\n").partition("\n")
        head = f"Invalid function call:\n{call}\n"
    raise InvalidQuery(f"SQL validation failed. {head}{where}{message}")


@dataclass(frozen=True)
class OuterRef(Node):
    """A column of a query around the sub-query: ``depth`` 1 is the nearest."""

    index: int
    depth: int = 1


@dataclass
class ScopeRelation:
    """A relation of FROM: its alias, the path of its table, and where its columns stand.

    ``hidden``: columns that ``*`` leaves out, such as those merged by USING; ``star`` their order if it differs.
    """

    alias: str | None
    columns: tuple[OutputColumn, ...]
    start: int
    path: tuple[str, ...] = ()
    hidden: set[int] = field(default_factory=set)
    repeated: frozenset[str] = frozenset()
    """Names that several columns were given: ``*`` takes these columns, no name does."""

    def find(self, name: str) -> list[tuple[int, OutputColumn]]:
        """Return the columns of a name, with their positions."""
        found = [each for each in enumerate(self.columns, self.start) if each[1].name == name]
        return found * 2 if name in self.repeated else found


def repeated_names(query: Any) -> frozenset[str]:
    """Return the names that a query gives to more than one column; calls and constants have none.

    >>> import sqlglot
    >>> sorted(repeated_names(sqlglot.parse_one("SELECT a AS x, b AS x, c, t.*, f(c), f(c), 1, 1 FROM t")))
    ['x']
    """
    named = [one for one in query.selects if isinstance(one, exp.Alias | exp.Column | exp.Dot) and not one.is_star]
    names = [one.alias_or_name for one in named]
    return frozenset(name for name in names if name and names.count(name) > 1)


@dataclass
class Scope:
    """The names that a query's expressions may use. ``merged``: columns of USING and NATURAL joins, by name.

    ``plan`` returns the plan so far of a query with sub-queries; its first columns are those of the relations.
    ``grouped``: True if the query has keys in GROUP BY, so that each group has a row.
    """

    relations: list[ScopeRelation] = field(default_factory=list)
    parent: Scope | None = None
    merged: dict[str, Node] = field(default_factory=dict)
    plan: Callable[[], LogicalNode] | None = None
    grouped: bool = False

    def around(self) -> Iterator[Scope]:
        """Yield this scope, and those of the queries around, nearest first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    @property
    def width(self) -> int:
        """The number of columns."""
        return max((relation.start + len(relation.columns) for relation in self.relations), default=0)

    def columns(self) -> Iterator[tuple[int, OutputColumn]]:
        """Yield the columns with their positions."""
        for relation in self.relations:
            yield from enumerate(relation.columns, relation.start)

    def add(
        self, alias: str | None, row_type: RelationType, path: tuple[str, ...] = (), tree: Any = None
    ) -> ScopeRelation:
        """Add a relation behind the others; ``tree`` is that of a sub-query."""
        relation = ScopeRelation(alias, row_type.columns, self.width, path)
        given = tree.args.get("alias") if isinstance(tree, exp.Subquery) else None
        if isinstance(tree, exp.Subquery) and (given is None or not given.columns):
            relation.repeated = repeated_names(tree)
        self.relations.append(relation)
        return relation

    def relation(self, qualifier: Sequence[str]) -> list[ScopeRelation]:
        """The relations that a qualifier names: by alias, or by the end of the table's path."""
        if len(qualifier) == 1:
            named = [relation for relation in self.relations if relation.alias == qualifier[0]]
            if named:
                return named
        return [
            relation
            for relation in self.relations
            if relation.path
            and relation.alias in {None, relation.path[-1]}
            and relation.path[-len(qualifier) :] == tuple(qualifier)
        ]

    def find(self, name: str) -> list[tuple[int, OutputColumn]]:
        """Return the columns of a name."""
        return [found for relation in self.relations for found in relation.find(name)]

    def suggestion(self, name: str, relation: ScopeRelation | None = None) -> str:
        """Return a hint at the nearest name."""
        columns = relation.columns if relation is not None else [column for _, column in self.columns()]
        names = [column.name for column in columns]
        folded = {each.lower(): each for each in names}
        near = folded.get(name.lower()) or next(iter(difflib.get_close_matches(name, names, 1)), None)
        if near:
            return f"; did you mean '{near}'?"
        shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        return f"; there are: {shown}" if names else f"; a text is in single quotes: '{name}'"


def instead_of(tree: Any, name: str) -> str:
    """Return the remedy for a name that is no column, but a function, an alias of SELECT, or several names.

    >>> from sqlglot import parse_one
    >>> instead_of(None, "item, n"), instead_of(None, "proctime"), instead_of(None, "item")
    ("; a name has no comma: give each column by itself, as 'item' and 'n'", '; PROCTIME is a function: write PROCTIME()', '')
    >>> instead_of(parse_one("SELECT UPPER(item) AS name FROM t GROUP BY name").find(exp.Group).expressions[0], "name")
    '; it is an alias of SELECT, which this clause does not see: write UPPER(item), or select from a sub-query'
    """
    if "," in name:
        names = [each.strip() for each in name.split(",")]
        return f"; a name has no comma: give each column by itself, as {' and '.join(map(repr, names))}"
    if name.upper() in _WITHOUT_ARGUMENTS:
        return f"; {name.upper()} is a function: write {name.upper()}()"
    select = tree.parent_select if isinstance(tree, exp.Expression) else None
    for each in select.expressions if isinstance(select, exp.Select) else ():
        if isinstance(each, exp.Alias) and each.alias == name:
            window = each.this.find(exp.Window) is not None
            itself = "" if window or len(each.this.sql()) > _LONG else f"write {each.this.sql()}, or "
            return f"; it is an alias of SELECT, which this clause does not see: {itself}select from a sub-query"
    return ""


_WITHOUT_ARGUMENTS = {
    "DENSE_RANK",
    "E",
    "NOW",
    "PI",
    "PROCTIME",
    "RAND",
    "RANK",
    "ROW_NUMBER",
    "UNIX_TIMESTAMP",
    "UUID",
}
_LONG = 60
"""Expressions that are longer are not repeated in a message."""
_SHOWN = 12
"""So many columns are named in a message."""


def identifiers(column: exp.Column) -> list[exp.Identifier]:
    """The parts of a name, first to last."""
    return [part for part in column.parts if isinstance(part, exp.Identifier)]
