"""Tables of the catalog as their connectors see them: the step from a plan's scans and sinks to streams."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.table.catalog import ResolvedTable
from funken.table.config import TableConfig
from funken.table.connectors.conditions import SourceCondition
from funken.table.connectors.contract import LookupTable, ScanTable, SinkTable, TableContext
from funken.table.connectors.factory import factory_of
from funken.table.connectors.older_options import todays_options
from funken.table.connectors.options import WATERMARK_OPTIONS, OptionValues
from funken.table.exec_nodes import WatermarkSettings
from funken.timing.watermarks import WatermarkStrategy
from funken.types.row import Row

Hint = Iterable[tuple[str, str]]


def context_of(
    table: ResolvedTable, config: TableConfig | None = None, options: Hint = (), metadata: Any = None
) -> TableContext:
    """Return what a connector is told of a table; ``metadata``: the metadata columns that are asked for."""
    columns = table.table.columns
    asked = [column for column in columns if column.is_metadata] if metadata is None else metadata
    of_watermarks = {option.key for option in WATERMARK_OPTIONS}
    given = {**todays_options(str(table.path), table.options), **dict(options)}
    own = {key: value for key, value in given.items() if key not in of_watermarks}
    return TableContext(
        str(table.path),
        tuple((column.name, column.type) for column in columns if column.is_physical),
        tuple((column.metadata_key or column.name, column.type) for column in asked),
        table.table.primary_key,
        table.table.partition_keys,
        own,
        config is not None and config.batch,
        "UTC" if config is None else config.get_local_timezone(),
    )


def watermark_settings(table: ResolvedTable, config: TableConfig, options: Hint = ()) -> WatermarkSettings:
    """Return how a table emits watermarks: its own options, then those of the query; raises ``InvalidProgram``."""
    keys = {option.key for option in WATERMARK_OPTIONS}
    path = str(table.path)
    given = {key: value for key, value in {**table.options, **dict(options)}.items() if key in keys}
    values = OptionValues(path, given, WATERMARK_OPTIONS)
    idle = values["scan.watermark.idle-timeout"]
    group, drift = values["scan.watermark.alignment.group"], values["scan.watermark.alignment.max-drift"]
    if (group is None) != (drift is None):
        raise InvalidProgram(
            f"Table {path!r}: 'scan.watermark.alignment.group' and 'scan.watermark.alignment.max-drift' belong together; set "
            "both, or none."
        )
    return WatermarkSettings(
        values["scan.watermark.emit.strategy"] == "on-event",
        config.option("table.exec.source.idle-timeout") if idle is None else idle,
        None if group is None else (group, drift, values["scan.watermark.alignment.update-interval"]),
    )


def check_metadata(table: ResolvedTable, config: TableConfig | None = None) -> None:
    """Refuse metadata columns whose key the connector does not have; raises ``InvalidProgram``."""
    asked = [column for column in table.table.columns if column.is_metadata]
    if not asked:
        return
    context = context_of(table, config)
    known = factory_of(context).metadata_of(context)
    for column in asked:
        if column.metadata_key not in known:
            raise InvalidProgram(
                f"Invalid metadata key {column.metadata_key!r} in column {column.name!r} of table '{table.path}'. The "
                f"connector {context.connector!r} has these: {', '.join(sorted(known)) or 'none'}."
            )


def scan_of(
    table: ResolvedTable, names: Sequence[str], config: TableConfig | None = None, options: Hint = ()
) -> ScanTable:
    """Return what reads some columns of a table, in the order of their names."""
    columns = {column.name: column for column in table.table.columns}
    metadata = [columns[name] for name in names if columns[name].is_metadata]
    context = context_of(table, config, options, metadata)
    scan = factory_of(context).scan(context)
    delivered = [*context.names, *(column.name for column in metadata)]
    if delivered == list(names):
        return scan
    narrow = scan.selected(names)
    if narrow is not None:
        return narrow
    return Selected(scan, tuple(delivered.index(name) for name in names))


def sink_of(table: ResolvedTable, config: TableConfig | None = None, options: Hint = ()) -> SinkTable:
    """Return what writes a table; rows have its persisted columns."""
    metadata = [column for column in table.persisted if column.is_metadata]
    context = context_of(table, config, options, metadata)
    return factory_of(context).sink(context)


def lookup_of(
    table: ResolvedTable,
    names: Sequence[str],
    keys: Sequence[str],
    config: TableConfig | None = None,
    options: Hint = (),
) -> LookupTable:
    """Return what looks up some columns of a table by the values of others."""
    columns = {column.name: column for column in table.table.columns}
    metadata = [columns[name] for name in names if columns[name].is_metadata]
    context = context_of(table, config, options, metadata)
    lookup = factory_of(context).lookup(context, keys)
    delivered = [*context.names, *(column.name for column in metadata)]
    if delivered == list(names):
        return lookup
    return SelectedLookup(lookup, tuple(delivered.index(name) for name in names))


def has_lookup(table: ResolvedTable, config: TableConfig | None = None) -> bool:
    """Whether the connector of a table looks rows up."""
    context = context_of(table, config)
    return factory_of(context).has_lookup(context)


def has_vector_search(table: ResolvedTable, config: TableConfig | None = None) -> bool:
    """Whether VECTOR_SEARCH may read a table."""
    context = context_of(table, config)
    return factory_of(context).has_vector_search(context)


@dataclass(frozen=True)
class Selection:
    """Takes some values of each row, and keeps its kind."""

    positions: tuple[int, ...]

    def __call__(self, row: Any) -> Any:
        """Return the row of the values."""
        values = [row[position] for position in self.positions]
        return Row.of_kind(row.get_row_kind(), *values) if isinstance(row, Row) else tuple(values)


class Selected(ScanTable):
    """Some columns of another scan."""

    def __init__(self, scan: ScanTable, positions: tuple[int, ...]) -> None:
        self._scan = scan
        self._positions = positions
        self.changelog_mode = scan.changelog_mode
        self.bounded = scan.bounded
        self.deletes_by_key = scan.deletes_by_key
        self.takes_watermarks = scan.takes_watermarks

    def assign_watermarks(self, strategy: WatermarkStrategy[Any]) -> None:
        """Let the source assign watermarks: its rows have all columns."""
        generator: Any = strategy.generator
        self._scan.assign_watermarks(replace(strategy, generator=generator.of_wider_rows(self._positions)))

    def filtered(self, conditions: Sequence[SourceCondition]) -> tuple[ScanTable, tuple[int, ...]]:
        """Let the other scan leave out rows."""
        scan, used = self._scan.filtered(conditions)
        return (Selected(scan, self._positions) if used else self), used

    def limited(self, count: int) -> ScanTable | None:
        """Let the other scan leave out rows."""
        scan = self._scan.limited(count)
        return None if scan is None else Selected(scan, self._positions)

    def stream(self, env: Any) -> Any:
        """Return the rows with these columns only."""
        return self._scan.stream(env).map(Selection(self._positions)).name("columns")


class SelectedLookup(LookupTable):
    """Some columns of another lookup."""

    def __init__(self, lookup: LookupTable, positions: tuple[int, ...]) -> None:
        self._lookup = lookup
        self._positions = positions
        self.asynchronous = lookup.asynchronous

    def open(self) -> None:
        """Connect."""
        self._lookup.open()

    def lookup(self, keys: Sequence[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each key."""
        positions = self._positions
        take = itemgetter(*positions) if len(positions) > 1 else lambda row: tuple(row[index] for index in positions)
        return [[tuple(take(row)) for row in rows] for rows in self._lookup.lookup(keys)]

    def close(self) -> None:
        """Release everything."""
        self._lookup.close()


__all__ = ["check_metadata", "context_of", "has_lookup", "lookup_of", "scan_of", "sink_of", "watermark_settings"]
