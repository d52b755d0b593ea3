"""Process table functions: what changes they take and make."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from funken.table import exec_nodes as nodes
from funken.table.changelog import ChangelogMode
from funken.table.exec_nodes import ExecNode
from funken.table.logical import LogicalTableFunction, OutputColumn, RelationType
from funken.table.rules.building import ALL, INSERTS, PlanConversion, completed, exchange, insert_only, refuse
from funken.types.row import RowKind


def table_function(converter: PlanConversion, node: LogicalTableFunction) -> ExecNode:
    """Convert a call of a function over tables."""
    name = node.function.upper()
    relations = [converter.of(each) for each in node.relations]
    mode = INSERTS
    keys: frozenset[frozenset[int]] = frozenset()
    if node.definition is None and name == "FROM_CHANGELOG":
        insert_only(relations[0], "FROM_CHANGELOG")
        mode = _mapped(node) or ALL
        if mode.is_upsert and node.tables[0].partition:
            keys = _partition_keys(node)
        elif mode.is_upsert:  # no key: the updates have to be complete
            mode = ChangelogMode(mode.kinds | {RowKind.UPDATE_BEFORE})
    elif node.definition is None and name == "TO_CHANGELOG":
        _check_key(node, relations[0])
    elif name == "ML_PREDICT":
        insert_only(relations[0], name)
        keys = relations[0].upsert_keys  # the row comes first
    else:
        for table in node.tables:
            traits = traits_of(node.definition, table.name)
            below = relations[table.relation]
            if not below.mode.is_insert_only and "updates" not in traits:
                insert_only(below, f"Table function {node.function}")
        mode = produced(node.definition, node.tables, relations, ALL)
        if mode.is_upsert:
            keys = _partition_keys(node)
        if node.on_time and not mode.is_insert_only:
            refuse(
                "Time operations using the `on_time` argument are currently not supported for PTFs that "
                f"consume or produce updates: {node.function}"
            )
    spread: list[ExecNode] = []
    for table in node.tables:
        below = relations[table.relation]
        spread.append(below if table.partition is None else exchange(below, table.partition))
    tables = tuple(replace(table, relation=place) for place, table in enumerate(node.tables))
    made = nodes.ExecProcessTableFunction(
        node.function,
        tuple(spread),
        tables,
        node.scalars,
        node.definition,
        node.on_time,
        node.uid,
        row_type=_row_type(node),
        mode=mode,
        upsert_keys=keys,
    )
    is_upsert = mode.is_upsert and node.definition is None
    return completed(made, tuple(sorted(min(keys))), converter.ttl) if is_upsert else made


def _check_key(node: LogicalTableFunction, relation: ExecNode) -> None:
    """Refuse partial deletes of rows without a key."""
    partial = dict(node.scalars).get("produces_full_deletes") is False
    if partial and not node.tables[0].partition and not relation.upsert_keys:
        refuse(
            "TO_CHANGELOG with produces_full_deletes => FALSE keeps the key of a deleted row, but the table has no upsert key. "
            "Write input => TABLE t PARTITION BY key, or leave the argument out."
        )


def _partition_keys(node: LogicalTableFunction) -> frozenset[frozenset[int]]:
    """The columns of each partition, which come first and are equal for all tables."""
    found, start = set(), 0
    for table in node.tables:
        width = len(table.partition or ())
        if width:
            found.add(frozenset(range(start, start + width)))
        start += width
    return frozenset(found)


def traits_of(definition: Any, name: str) -> frozenset[str]:
    """Return the traits of a table argument."""
    if hasattr(definition, "traits"):
        return frozenset(definition.traits(name))
    return next((frozenset(entry.traits) for entry in definition.signature if entry.name == name), frozenset())


def produced(definition: Any, tables: Any, relations: Any, requested: ChangelogMode) -> ChangelogMode:
    """Return the row kinds of a function's output, for those of its tables and those that its consumer wants."""
    return definition.changelog_mode({table.name: relations[table.relation].mode for table in tables}, requested)  # type: ignore[no-any-return]


def _row_type(node: LogicalTableFunction) -> RelationType:
    return RelationType(tuple(OutputColumn(column.name, column.type, column.time) for column in node.row_type))


def _mapped(node: LogicalTableFunction) -> ChangelogMode | None:
    """Return the row kinds to which FROM_CHANGELOG maps codes."""
    mapping: Any = dict(node.scalars).get("op_mapping")
    if mapping is None:
        return None
    values = getattr(mapping, "value", None)
    texts = [value for _, value in values] if isinstance(values, list) else None
    if texts is None:
        texts = [_constant(child) for child in mapping.children[1::2]]
    kinds = {RowKind[str(text).strip()] for text in texts}
    return ChangelogMode(frozenset(kinds | {RowKind.INSERT}))


def _constant(node: Any) -> Any:
    """Return the value of a constant below casts."""
    while node.children:
        node = node.children[0]
    return getattr(node, "value", None)
