"""Sinks: the changes that they take, their keys, and the materializer between keys that differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from funken.table import exec_nodes as nodes
from funken.table.changelog import ChangelogMode
from funken.table.connectors.factory import sink_of
from funken.table.exec_nodes import ExecNode, ExecSink
from funken.table.logical import LogicalSink
from funken.table.rules.building import refuse
from funken.table.rules.changes import Need, Settler, without_before
from funken.table.rules.printing import line
from funken.types.row import RowKind


def sink(node: LogicalSink, below: ExecNode, settler: Settler, config: Any, batch: bool) -> ExecSink:
    """Return the sink of a relation, with everything below as the sink needs it."""
    if node.table is None:
        accepts = node.accepts
        upserts = accepts.is_upsert and any(not node.key or each == set(node.key) for each in below.upsert_keys)
        source = _first(settler, below, _needs(accepts, batch or not upserts), accepts.key_only_deletes)
        mode = source.mode if accepts.contains(RowKind.UPDATE_BEFORE) else without_before(source.mode)
        return ExecSink(source, None, row_type=source.row_type, mode=mode, collect=node.collect)
    table = sink_of(node.table, config, node.options)
    if node.overwrite:
        _check_overwrite(node, table, batch)
    accepts = table.changelog_mode
    names = [column.name for column in node.table.persisted]
    key = tuple(names.index(name) for name in node.table.table.primary_key if name in names)
    if not batch:  # a batch writes the rows that are left at the end
        _check(node, below, accepts)
    conflict = _conflict(node, below, accepts, key)
    materialize = not batch and _materialized(node, below, accepts, key, conflict, config)
    partial = bool(getattr(table, "deletes_by_key", False)) or accepts.key_only_deletes
    exact = any(each == set(key) for each in below.upsert_keys)
    history = materialize or conflict is not None or bool(key and not exact) or (batch and not key)
    needs = _needs(accepts, history)
    found = _first(settler, below, needs, partial and not materialize)
    wanted = node.table.persisted
    return ExecSink(
        found,
        node.table,
        key,
        materialize,
        (conflict or "DEDUPLICATE") if materialize else None,
        _input_key(found),
        node.overwrite,
        node.partition,
        node.target_columns,
        tuple(column.metadata_key or column.name for column in wanted if column.is_metadata),
        node.options,
        None,
        config.option("table.exec.state.ttl"),
        row_type=found.row_type,
        mode=found.mode,
        upsert_keys=found.upsert_keys,
    )


def _check_overwrite(node: LogicalSink, table: Any, batch: bool) -> None:
    """Refuse INSERT OVERWRITE of a stream, and of a table that can only be appended to."""
    assert node.table is not None
    if not (batch or table.overwrites_by_streams):
        refuse(
            f"INSERT OVERWRITE of '{node.table.path}': a stream never knows that it has written all rows, so it cannot replace a "
            "table. Use EnvironmentSettings.in_batch_mode(), or INSERT INTO."
        )
    if not (table.supports_overwrite or table.overwrites_by_streams):
        refuse(
            f"INSERT OVERWRITE of '{node.table.path}': connector "
            f"{dict(node.table.table.options).get('connector', '')!r} cannot replace the rows of a "
            "table. Use INSERT INTO, or 'filesystem'."
        )


def _first(settler: Settler, node: ExecNode, needs: list[Need], partial: bool) -> ExecNode:
    """Return a relation that fulfils the first possible one of several needs."""
    found = (settler.of(node, need, partial) for need in needs)
    return next(each for each in found if each is not None)


def _input_key(node: ExecNode) -> tuple[int, ...]:
    keys = sorted((tuple(sorted(key)) for key in node.upsert_keys), key=lambda key: (len(key), key))
    return keys[0] if keys else ()


def _needs(accepts: ChangelogMode, history: bool) -> list[Need]:
    if accepts.contains(RowKind.UPDATE_BEFORE) or history:
        return [Need.BOTH, Need.AFTER]
    return [Need.AFTER, Need.BOTH]


def _check(node: LogicalSink, below: ExecNode, accepts: ChangelogMode) -> None:
    assert node.table is not None
    what = f"Table sink '{node.table.path}'"
    clause = "Give the sink a primary key and a connector that takes updates, aggregate by windows, or use a changelog format."
    for kind, word in ((RowKind.UPDATE_AFTER, "update"), (RowKind.DELETE, "delete")):
        if below.mode.contains(kind) and not accepts.contains(kind):
            cause = line(_cause(below, kind))
            refuse(f"{what} doesn't support consuming {word} changes which is produced by node {cause}. {clause}")


def _cause(node: ExecNode, kind: RowKind) -> ExecNode:
    """Return the operator that first makes a row kind."""
    while True:
        below = [each for each in node.inputs if each.mode.contains(kind)]  # type: ignore[attr-defined]
        if not below:
            return node
        node = below[0]  # type: ignore[assignment]


def _conflict(node: LogicalSink, below: ExecNode, accepts: ChangelogMode, key: tuple[int, ...]) -> str | None:
    conflict = node.conflict
    if conflict is None:
        return None
    assert node.table is not None
    begin = f"ON CONFLICT clause is only allowed for upsert sinks. The sink '{node.table.path}' is not an upsert sink because"
    if accepts.is_insert_only:
        refuse(f"{begin} it only accepts INSERT (append-only) changes.")
    if accepts.contains(RowKind.UPDATE_BEFORE):
        refuse(f"{begin} it requires UPDATE_BEFORE (retract mode).")
    if not key:
        refuse(f"{begin} it has no primary key.")
    if conflict in {"NOTHING", "ERROR"}:
        missing = sorted({str(scan.table.path) for scan in _unwatermarked(below, False)})
        if missing:
            refuse(
                f"ON CONFLICT DO {conflict} requires all source tables to define watermarks, but the following "
                f"source(s) do not: {', '.join(missing)}. "
                "Add WATERMARK FOR to them, or use ON CONFLICT DO DEDUPLICATE."
            )
    return conflict


def _second(upsert: str) -> str:
    """Return the way out by the key of the sink."""
    if not upsert:
        return "2. a sink without a primary key, since the query has no key"
    return f"2. the query's key as the key of the sink: PRIMARY KEY ({upsert}) NOT ENFORCED"


def _unwatermarked(node: ExecNode, marked: bool) -> Iterator[nodes.ExecScan]:
    """The scans without a watermark above them."""
    marked = marked or isinstance(node, nodes.ExecWatermark)
    if isinstance(node, nodes.ExecScan) and not marked and node.table.table.watermark is None:
        yield node
    for each in node.inputs:
        yield from _unwatermarked(each, marked)  # type: ignore[arg-type]


def _materialized(
    node: LogicalSink, below: ExecNode, accepts: ChangelogMode, key: tuple[int, ...], conflict: str | None, config: Any
) -> bool:
    """Return True if the sink needs the rows per primary key, because the query tells its rows apart by other keys."""
    strategy = config.option("table.exec.sink.upsert-materialize").upper()
    if not key or strategy == "NONE":
        return False
    if strategy == "FORCE":
        return True
    if conflict in {"NOTHING", "ERROR"}:
        return True
    if accepts.is_insert_only or accepts.contains(RowKind.UPDATE_BEFORE):
        return False
    if any(each <= set(key) for each in below.upsert_keys):
        return False  # rows of one primary key have one upsert key
    if below.mode.is_insert_only and conflict is None and not config.option("table.exec.sink.require-on-conflict"):
        return False
    if conflict is None and config.option("table.exec.sink.require-on-conflict"):
        assert node.table is not None
        names = [column.name for column in node.table.persisted]
        primary = ", ".join(names[place] for place in key)
        upsert = ", ".join(names[place] for place in _input_key(below))
        refuse(
            f"The query has an upsert key that differs from the primary key of the sink table '{node.table.path}'. "
            f"Primary key: [{primary}], upsert key: [{upsert}]. "
            "This can lead to non-deterministic results when multiple records with different upsert "
            "keys map to the same primary key. "
            "Please specify an ON CONFLICT clause: INSERT INTO ... ON CONFLICT DO ERROR, DO NOTHING or DO DEDUPLICATE. "
            f"There are three ways out: 1. ON CONFLICT, which keeps the rows of each primary key in state; {_second(upsert)}; "
            f"3. one row per primary key from the query: GROUP BY {primary}, or ROW_NUMBER() OVER (PARTITION BY {primary} "
            "ORDER BY ...) = 1."
        )
    return True
