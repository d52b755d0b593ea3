"""The registry of connectors: from ``'connector' = '<name>'`` to the scan, sink or lookup of a table.

Connectors of other packages are entry points of the group ``funken.table.connectors``: a name and a ``TableFactory``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.metadata import entry_points
from operator import itemgetter
from typing import Any, ClassVar

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.table.catalog import InvalidTable, ResolvedTable
from funken.table.config import TableConfig
from funken.table.connectors.contract import (
    LookupTable,
    ScanTable,
    SinkTable,
    SourceCondition,
    TableContext,
    TableNotReadable,
    delimiters_of,
    doubt_of,
)
from funken.table.connectors.options import WATERMARK_OPTIONS, OptionValues, todays_options
from funken.table.exec_nodes import WatermarkSettings
from funken.timing.watermarks import WatermarkStrategy
from funken.types.row import Row

ENTRY_POINTS = "funken.table.connectors"


class TableFactory:
    """Makes the uses of a table; one that a connector does not offer stays as it is here.

    >>> TableFactory().scan(TableContext("c.d.t", options={"connector": "print"}))
    Traceback (most recent call last):
    ...
    funken.table.connectors.contract.TableNotReadable: Table 'c.d.t' cannot be read: connector 'print' is a sink only.
    """

    metadata: ClassVar[dict[str, str]] = {}
    """Metadata keys and their types as SQL: readable, and writable if they are in ``writable_metadata``."""
    writable_metadata: Collection[str] = frozenset()

    def check(self, context: TableContext) -> None:
        """Look at the options when the table is used; raises ``InvalidProgram``."""

    def metadata_of(self, context: TableContext) -> dict[str, str]:
        """Return the metadata keys of a table and their types."""
        return self.metadata

    def writable_of(self, context: TableContext) -> Collection[str]:
        """Return the metadata keys of a table that can be written."""
        return self.writable_metadata

    def scan(self, context: TableContext) -> ScanTable:
        """Return a scan of the table."""
        raise TableNotReadable(
            f"Table {context.path!r} cannot be read: connector {context.connector!r} is a sink only."
        )

    def sink(self, context: TableContext) -> SinkTable:
        """Return a sink to the table."""
        raise TableNotReadable(
            f"Table {context.path!r} cannot be written: connector {context.connector!r} is a source only."
        )

    def lookup(self, context: TableContext, keys: Sequence[str]) -> LookupTable:
        """Return a lookup of rows by columns."""
        raise TableNotReadable(
            f"Table {context.path!r} cannot be joined FOR SYSTEM_TIME AS OF a processing time: connector "
            f"{context.connector!r} has no lookup. Use 'jdbc', or a versioned table with an event time."
        )

    def has_lookup(self, context: TableContext) -> bool:
        """Return True if rows can be looked up."""
        return type(self).lookup is not TableFactory.lookup

    def has_vector_search(self, context: TableContext) -> bool:
        """Return True if VECTOR_SEARCH may read the rows: a lookup without keys returns all of them."""
        return self.has_lookup(context)


_BUILT_IN = {
    "blackhole": "generated:BlackholeFactory",
    "datagen": "generated:DatagenFactory",
    "delta": "lakes:DeltaFactory",
    "elasticsearch": "elasticsearch:ElasticsearchFactory",
    "elasticsearch-6": "elasticsearch:ElasticsearchFactory",
    "elasticsearch-7": "elasticsearch:ElasticsearchFactory",
    "elasticsearch-8": "elasticsearch:ElasticsearchFactory",
    "filesystem": "filesystem:FilesystemFactory",
    "http": "services:HttpFactory",
    "iceberg": "lakes:IcebergFactory",
    "jdbc": "databases:JdbcFactory",
    "kafka": "kafka:KafkaFactory",
    "firehose": "kinesis:FirehoseFactory",
    "kinesis": "kinesis:KinesisFactory",
    "mongodb": "mongodb:MongoFactory",
    "mysql-cdc": "cdc:MySqlCdcFactory",
    "opensearch": "elasticsearch:ElasticsearchFactory",
    "opensearch-2": "elasticsearch:ElasticsearchFactory",
    "postgres-cdc": "cdc:PostgresCdcFactory",
    "print": "generated:PrintFactory",
    "redis": "services:RedisFactory",
    "upsert-kafka": "kafka:UpsertKafkaFactory",
    "values": "values:ValuesFactory",
}
_registered: dict[str, TableFactory] = {}


def register_connector(name: str, factory: TableFactory) -> None:
    """Register a connector under a name, for this process.

    >>> register_connector("nothing", TableFactory())
    >>> "nothing" in connector_names()
    True
    """
    _registered[name] = factory


def connector_names() -> list[str]:
    """Return the names of all connectors, sorted."""
    return sorted({*_BUILT_IN, *_registered, *(point.name for point in entry_points(group=ENTRY_POINTS))})


def factory_of(context: TableContext) -> TableFactory:
    """Return the factory of a table's connector; raises ``InvalidProgram`` if there is none."""
    name = context.connector
    if not name:
        raise InvalidProgram(
            f"Table {context.path!r} has no option 'connector'. Write WITH ('connector' = '...') with one of: "
            f"{', '.join(connector_names())}."
        )
    if name in _registered:
        return _registered[name]
    if name in _BUILT_IN:
        module, _, kind = _BUILT_IN[name].partition(":")
        factory: Callable[[], TableFactory] = getattr(import_module(f"funken.table.connectors.{module}"), kind)
        return _registered.setdefault(name, factory())
    for point in entry_points(group=ENTRY_POINTS, name=name):
        return _registered.setdefault(name, point.load()())
    near = difflib.get_close_matches(name, connector_names(), 1, 0.6)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InvalidProgram(
        f"Table {context.path!r} has connector {name!r}, which is unknown.{hint} Available: {', '.join(connector_names())}."
    )


def scan_table(context: TableContext) -> ScanTable:
    """Return a scan of a table."""
    return factory_of(context).scan(context)


def sink_table(context: TableContext) -> SinkTable:
    """Return a sink to a table; raises ``InvalidProgram`` for metadata that its connector cannot write."""
    factory = factory_of(context)
    writable = factory.writable_of(context) if context.metadata else ()
    for key, _ in context.metadata:
        if key not in writable:
            raise InvalidProgram(
                f"Table {context.path!r} declares persistable metadata columns, but connector {context.connector!r} has no "
                f"place for one: metadata {key!r} cannot be written; declare its column VIRTUAL."
            )
    return factory.sink(context)


def lookup_table(context: TableContext, keys: Sequence[str]) -> LookupTable:
    """Return a lookup of rows of a table by the values of some columns."""
    return factory_of(context).lookup(context, keys)


def metadata_of(context: TableContext) -> dict[str, Any]:
    """Return the metadata keys of a table, with their types as SQL."""
    return factory_of(context).metadata_of(context)


# ---- Tables of the catalog as their connectors see them: the step from a plan's scans and sinks to streams.


Hint = Iterable[tuple[str, str]]


def context_of(
    table: ResolvedTable, config: TableConfig | None = None, options: Hint = (), metadata: Any = None
) -> TableContext:
    """Return a connector's context of a table; ``metadata``: the metadata columns that are asked for."""
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
    """Return a table's rules for watermarks: its own options, then those of the query; raises ``InvalidProgram``."""
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


def refuse_endless(scan: ScanTable, table: ResolvedTable) -> None:
    """Raise ``InvalidTable`` for a table whose rows never end: a batch has each result once, at the end."""
    if not scan.bounded:
        raise InvalidTable(
            f"Querying an unbounded table '{table.path}' in batch mode is not allowed. The table source is unbounded. Bound it, "
            "as 'number-of-rows' or 'scan.bounded.mode' do, or use EnvironmentSettings.in_streaming_mode()."
        )


def scan_of(
    table: ResolvedTable, names: Sequence[str], config: TableConfig | None = None, options: Hint = ()
) -> ScanTable:
    """Return a scan of some columns of a table, in the order of their names."""
    check_metadata(table, config)
    columns = {column.name: column for column in table.table.columns}
    metadata = [columns[name] for name in names if columns[name].is_metadata]
    context = context_of(table, config, options, metadata)
    scan = factory_of(context).scan(context)
    delivered = [*context.names, *(column.name for column in metadata)]
    if delivered != list(names):
        scan = scan.selected(names) or Selected(scan, tuple(delivered.index(name) for name in names))
    scan.doubt, scan.delimiters = doubt_of(context.options, context.path), delimiters_of(context)
    return scan


def sink_of(table: ResolvedTable, config: TableConfig | None = None, options: Hint = ()) -> SinkTable:
    """Return a sink to a table; rows have its persisted columns."""
    metadata = [column for column in table.persisted if column.is_metadata]
    context = context_of(table, config, options, metadata)
    return sink_table(context)


def lookup_of(
    table: ResolvedTable,
    names: Sequence[str],
    keys: Sequence[str],
    config: TableConfig | None = None,
    options: Hint = (),
) -> LookupTable:
    """Return a lookup of some columns of a table by the values of others."""
    columns = {column.name: column for column in table.table.columns}
    metadata = [columns[name] for name in names if columns[name].is_metadata]
    context = context_of(table, config, options, metadata)
    lookup = factory_of(context).lookup(context, keys)
    delivered = [*context.names, *(column.name for column in metadata)]
    if delivered == list(names):
        return lookup
    return SelectedLookup(lookup, tuple(delivered.index(name) for name in names))


def has_lookup(table: ResolvedTable, config: TableConfig | None = None) -> bool:
    """Return True if the connector of a table looks rows up."""
    context = context_of(table, config)
    return factory_of(context).has_lookup(context)


def has_vector_search(table: ResolvedTable, config: TableConfig | None = None) -> bool:
    """Return True if VECTOR_SEARCH may read a table."""
    context = context_of(table, config)
    return factory_of(context).has_vector_search(context)


@dataclass(frozen=True)
class Selection:
    """Takes some values of each row, and keeps its row kind."""

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
