"""INSERT: the columns of a query become those of a table, by position or by a list of names, with implicit casts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from funken.config.configuration import warn
from funken.errors import FunkenError
from funken.expr.ir import InputRef, Node
from funken.expr.sql.casts import castable
from funken.expr.sql.functions import FUNCTIONS
from funken.expr.sql.values import literal, null
from funken.table.catalog import InvalidTable, ResolvedTable, TableColumn
from funken.table.logical import LogicalNode, LogicalSink, project
from funken.table.types import (
    ArrayType,
    LogicalType,
    MapType,
    MultisetType,
    NullType,
    RowType,
    SizedType,
    VarBinaryType,
    VarCharType,
)


def insert(binder: Any, record: Any) -> LogicalSink:
    """Bind an INSERT."""
    found = binder.catalogs.table(record.target)
    if not isinstance(found, ResolvedTable):
        raise InvalidTable(
            f"Cannot INSERT INTO '{'.'.join(record.target)}': it is a view. Insert into the table behind it."
        )
    plan = binder.query(record.query)
    return sink(
        plan,
        found,
        overwrite=record.overwrite,
        conflict=record.conflict,
        columns=record.columns,
        partition=record.partition,
        options=record.options,
    )


def sink(
    plan: LogicalNode,
    table: ResolvedTable,
    *,
    overwrite: bool = False,
    conflict: str | None = None,
    columns: tuple[str, ...] | None = None,
    partition: tuple[tuple[str, str], ...] = (),
    options: tuple[tuple[str, str], ...] = (),
) -> LogicalSink:
    """The sink of a plan in a table. Constants of PARTITION and columns that are not named are filled in."""
    wanted = _declared(table)
    names = [column.name for column in wanted]
    static = dict(partition)
    for name in static:
        if name not in names:
            raise InvalidTable(f"Column '{name}' of PARTITION is not found in '{table.path}'.")
        if name not in table.table.partition_keys:
            keys = ", ".join(table.table.partition_keys) or "none"
            raise InvalidTable(
                f"Column '{name}' of PARTITION is no key of the partitions of '{table.path}', which has: {keys}."
            )
    if columns is not None:
        unknown = [name for name in columns if name not in names]
        if unknown:
            raise InvalidTable(f"Unknown target column '{unknown[0]}' of INSERT INTO '{table.path}'.")
        if len(set(columns)) != len(columns):
            raise InvalidTable(f"A target column of INSERT INTO '{table.path}' is named twice.")
    given = [name for name in (columns or names) if name not in static]
    row_type = plan.row_type
    if len(given) != len(row_type):
        raise _mismatch(plan, str(table.path), wanted, "Different number of columns.")
    places = {name: place for place, name in enumerate(given)}
    expressions: dict[str, Node] = {}
    for column in wanted:
        if column.name in static:
            expressions[column.name] = _cast(literal(static[column.name]), column.type)
        elif column.name in places:
            place = places[column.name]
            source = InputRef(place, type=row_type[place].type)
            expressions[column.name] = implicit(source, column, plan, str(table.path), wanted)
        elif not column.type.is_nullable:
            raise InvalidTable(
                f"Column '{column.name}' of '{table.path}' has no default value and does not allow NULLs: name it in INSERT."
            )
        else:
            expressions[column.name] = null(column.type)
    if columns is None and is_permuted(row_type.names, given):
        listed = ", ".join(row_type.names)
        warn(
            f"INSERT INTO '{table.path}' gives ({listed}) for its columns ({', '.join(given)}): they go by their position. "
            f"Select them in that order, or write INSERT INTO table ({listed})."
        )
    order = [column.name for column in table.persisted]
    shown = [expressions[name] for name in order]
    plain = [InputRef(place, type=column.type) for place, column in enumerate(row_type)]
    node = plan if shown == plain and tuple(order) == row_type.names else project(plan, shown, order)
    targets = None if columns is None else tuple(order.index(name) for name in columns)
    return LogicalSink(node, table, overwrite, partition, targets, conflict, None, options)


def is_permuted(names: Sequence[str], others: Sequence[str]) -> bool:
    """Return True if names are the same ones in another order.

    >>> is_permuted(["a", "b"], ["b", "a"]), is_permuted(["a", "b"], ["a", "b"]), is_permuted(["a", "b"], ["b", "c"])
    (True, False, False)
    """
    return list(names) != list(others) and sorted(names) == sorted(others)


def _declared(table: ResolvedTable) -> list[TableColumn]:
    """The columns that a row has, in the order of the table."""
    return [column for column in table.table.columns if column.is_persisted]


def _mismatch(plan: LogicalNode, name: str, wanted: list[TableColumn], cause: str) -> InvalidTable:
    query = ", ".join(f"{column.name}: {column.type}" for column in plan.row_type)
    target = ", ".join(f"{column.name}: {column.type}" for column in wanted)
    remedy = "Cast the columns that differ: CAST(column AS TYPE)."
    if sorted(plan.row_type.names) == sorted(column.name for column in wanted):
        names = ", ".join(plan.row_type.names)
        remedy = f"Columns go by their position, not by their name: reorder them, or write INSERT INTO table ({names})."
    elif len(plan.row_type) != len(wanted):
        remedy = "Select as many columns, or name those that the query gives: INSERT INTO table (column, ...)."
    return InvalidTable(
        f"Column types of query result and sink for '{name}' do not match.\nCause: {cause}\n\n"
        f"Query schema: [{query}]\nSink schema:  [{target}]\n\n{remedy}"
    )


def matched(plan: LogicalNode, wanted: list[TableColumn], name: str) -> LogicalNode:
    """Return a plan with the names and types of some columns, by position."""
    row_type = plan.row_type
    if len(row_type) != len(wanted):
        raise _mismatch(plan, name, wanted, "Different number of columns.")
    given = [InputRef(place, type=column.type) for place, column in enumerate(row_type)]
    nodes = [implicit(node, column, plan, name, wanted) for node, column in zip(given, wanted, strict=True)]
    names = [column.name for column in wanted]
    return plan if nodes == given and names == list(row_type.names) else project(plan, nodes, names)


def implicit(node: Node, column: TableColumn, plan: LogicalNode, name: str, wanted: list[TableColumn]) -> Node:
    """A value as the column's type, if that is an implicit cast."""
    source, target = node.type, column.type
    if isinstance(source, NullType):
        return null(target)
    if same(source, target):
        renamed = _with_names(source, target)
        return node if renamed == source else _cast(node, renamed)
    if not castable(source, target):
        place = next(index for index, other in enumerate(wanted) if other.name == column.name)
        raise _mismatch(plan, name, wanted, f"Incompatible types for sink column '{column.name}' at position {place}.")
    return _cast(node, target)


def _cast(node: Node, target: LogicalType) -> Node:
    try:
        return FUNCTIONS.call("CAST", [node], type=target.nullable(node.type.is_nullable or target.is_nullable))
    except FunkenError as error:
        raise InvalidTable(str(error)) from error


def _with_names(source: LogicalType, target: LogicalType) -> LogicalType:
    """Return a type whose rows have their fields' names from another: fields are written by position."""
    if isinstance(source, RowType) and isinstance(target, RowType):
        fields = (
            replace(own, name=theirs.name, type=_with_names(own.type, theirs.type))
            for own, theirs in zip(source.fields, target.fields, strict=True)
        )
        return replace(source, fields=tuple(fields))
    if isinstance(source, ArrayType | MultisetType) and isinstance(target, ArrayType | MultisetType):
        return replace(source, element=_with_names(source.element, target.element))
    if isinstance(source, MapType) and isinstance(target, MapType):
        return replace(source, key=_with_names(source.key, target.key), value=_with_names(source.value, target.value))
    return source


def same(source: LogicalType, target: LogicalType) -> bool:
    """Return True if values of a type are values of the other but for names of fields; the sink checks nullability."""
    if isinstance(source, RowType) and isinstance(target, RowType):
        return len(source.types) == len(target.types) and all(map(same, source.types, target.types))
    if isinstance(source, ArrayType | MultisetType) and type(source) is type(target):
        return same(source.element, target.element)
    if isinstance(source, MapType) and isinstance(target, MapType):
        return same(source.key, target.key) and same(source.value, target.value)
    if isinstance(target, VarCharType | VarBinaryType) and isinstance(source, SizedType):
        return source.family == target.family and source.length <= target.length
    return source.nullable() == target.nullable()
