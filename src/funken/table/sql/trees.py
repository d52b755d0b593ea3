"""Helpers of the binder: bound queries, named queries, hints, and projections of plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from sqlglot import exp

from funken.dataclass import dataclass
from funken.expr.ir import InputRef, Node
from funken.expr.sql.functions import FUNCTIONS
from funken.expr.sql.operators import leading_type
from funken.table.logical import Hint, LogicalNode, LogicalSetOperation, OutputColumn, RelationType, SetKind, project
from funken.table.sql.expressions import change
from funken.table.sql.scopes import fail
from funken.table.types import LogicalType


@dataclass
class Bound:
    """A bound query: ``width`` columns are its result; those behind serve ``conditions``, which compare with queries around.

    In a condition an ``InputRef`` is a column of ``node``. An aggregate without keys has one row if it has no input:
    ``empty`` is its first value then, and ``always`` says that nothing removes this row.
    """

    node: LogicalNode
    width: int
    conditions: tuple[Node, ...] = ()
    empty: Node | None = None
    always: bool = False


@dataclass
class Environment:
    """Named queries of WITH, and those around."""

    queries: dict[str, LogicalNode] = field(default_factory=dict)
    parent: Environment | None = None

    def find(self, name: str) -> LogicalNode | None:
        """Return the plan of a named query, or ``None``."""
        found = self.queries.get(name)
        if found is None and self.parent is not None:
            return self.parent.find(name)
        return found


def with_queries(tree: Any) -> list[exp.CTE]:
    """Return the named queries of WITH."""
    with_ = tree.args.get("with_")
    if with_ is None:
        return []
    if with_.args.get("recursive"):
        fail(tree, "WITH RECURSIVE is not supported")
    found: list[exp.CTE] = with_.expressions
    return found


def has_modifiers(tree: Any) -> bool:
    """Return True if a tree has ORDER BY, LIMIT or OFFSET."""
    return any(tree.args.get(part) for part in ("order", "limit", "offset"))


def conjuncts(tree: Any) -> list[Any]:
    """The parts of a condition that AND joins."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.And):
        return conjuncts(tree.this) + conjuncts(tree.expression)
    return [tree]


def ordinal(tree: Any, width: int) -> int | None:
    """The position that ORDER BY 2 means."""
    if isinstance(tree, exp.Literal) and not tree.is_string and tree.name.isdigit():
        place = int(tree.name)
        if not 1 <= place <= width:
            fail(tree, f"Ordinal out of range: {place} of {width}")
        return place - 1
    return None


def references(node: Node) -> Iterator[InputRef]:
    """Yield the columns that an expression reads."""
    if isinstance(node, InputRef):
        yield node
    for child in node.children:
        yield from references(child)


def moved(node: Node, places: Mapping[int, int]) -> Node:
    """Return an expression whose columns stand elsewhere."""
    return change(node, lambda each: replace(each, index=places[each.index]) if isinstance(each, InputRef) else None)


def cast(node: Node, type_: LogicalType) -> Node:
    """A value as another type; its nullability stays."""
    if node.type.nullable() == type_.nullable():
        return node
    return FUNCTIONS.call("CAST", [node], type=type_)


def renamed(node: LogicalNode, names: Sequence[str]) -> LogicalNode:
    """Return a relation with other names."""
    if tuple(names) == node.row_type.names:
        return node
    refs = [InputRef(index, type=column.type) for index, column in enumerate(node.row_type)]
    return project(node, refs, names)


def set_operation(kind: SetKind, every: bool, nodes: Sequence[LogicalNode], mismatch: Any) -> LogicalNode:
    """UNION, INTERSECT, EXCEPT with the casts to the common types."""
    columns: list[OutputColumn] = []
    casts: list[list[Node]] = [[] for _ in nodes]
    for place in range(len(nodes[0].row_type)):
        sides = [node.row_type[place] for node in nodes]
        type_ = leading_type([side.type for side in sides])
        if type_ is None:
            mismatch(place + 1)
            raise AssertionError
        times = {side.time for side in sides}
        time = times.pop() if len(times) == 1 and len({side.type.nullable() for side in sides}) == 1 else None
        columns.append(OutputColumn(sides[0].name, type_, time))
        for below, side in zip(casts, sides, strict=True):
            below.append(cast(InputRef(place, type=side.type), type_))
    relations = []
    for node, expressions in zip(nodes, casts, strict=True):
        plain = all(isinstance(each, InputRef) for each in expressions)
        relations.append(node if plain else project(node, expressions, node.row_type.names))
    if kind is not SetKind.UNION or not every:
        columns = [column.ordinary() for column in columns]
    flat: list[LogicalNode] = []
    for relation in relations:
        if (
            kind is SetKind.UNION
            and isinstance(relation, LogicalSetOperation)
            and relation.kind is kind
            and relation.all
            and every
        ):
            flat += relation.relations
        else:
            flat.append(relation)
    return LogicalSetOperation(kind, every, tuple(flat), RelationType(tuple(columns)))


def hints_of(hint: Any) -> tuple[Hint, ...]:
    """The hints of ``/*+ .. */``."""
    found = []
    for entry in hint.expressions if hint is not None else ():
        if not isinstance(entry, exp.Anonymous):
            fail(entry, f"Hint {entry} has no parentheses")
        options, args = [], []
        for item in entry.expressions:
            if isinstance(item, exp.EQ):
                options.append((item.this.name, item.expression.name))
            else:
                args.append(item.name)
        found.append(Hint(entry.this.upper(), tuple(options), tuple(args)))
    return tuple(found)
