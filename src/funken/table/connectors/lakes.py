"""``'connector' = 'delta'`` and ``'iceberg'``: lake tables, read at a version or as they grow, and appended to."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from funken.connectors.delta import DeltaSink, DeltaSource
from funken.connectors.iceberg import IcebergCatalog, IcebergSink, IcebergSource
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.table.changelog import ChangelogMode
from funken.table.connectors.contract import ScanTable, SinkTable, SourceCondition, TableContext, fulfilled
from funken.table.connectors.factory import TableFactory
from funken.table.connectors.formats import Columns, document_of
from funken.table.connectors.json_values import JsonReader, JsonRules
from funken.table.connectors.options import ConnectorOption, OptionValues, duration, integer, positive, text
from funken.types.row import Row

_DELTA = (
    ConnectorOption("table-path"),
    ConnectorOption("versionAsOf", integer, None),
    ConnectorOption("startingVersion", integer, None),
    ConnectorOption("monitor-interval", duration, None),
    ConnectorOption("storage.*", text, None),
    ConnectorOption("sink.parallelism", positive, None),
)
_ICEBERG = (
    ConnectorOption("catalog-name", text, "iceberg"),
    ConnectorOption("catalog-type", text, None),
    ConnectorOption("catalog-database", text, "default"),
    ConnectorOption("catalog-table", text, None),
    ConnectorOption("uri", text, None),
    ConnectorOption("warehouse", text, None),
    ConnectorOption("snapshot-id", integer, None),
    ConnectorOption("catalog.*", text, None),
    ConnectorOption("sink.parallelism", positive, None),
)


@dataclass(frozen=True)
class DictToRow:
    """Makes rows of dicts, by the names of columns."""

    columns: Columns

    @functools.cached_property
    def _reader(self) -> JsonReader:
        return JsonReader(self.columns, JsonRules())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.columns,)

    def __call__(self, record: Any) -> Row:
        """Return the row."""
        return Row(*self._reader.read_values(record))


@dataclass(frozen=True)
class RowToDict:
    """Makes dicts of rows, by the names of columns."""

    columns: Columns

    def __call__(self, row: Row) -> dict[str, Any]:
        """Return the dict."""
        return document_of(row, self.columns)


@dataclass(frozen=True)
class PartitionCondition:
    """Conditions on the columns of partitions alone; called to test a partition for rows that may fulfil them."""

    conditions: tuple[SourceCondition, ...]
    columns: Columns

    def __call__(self, values: Mapping[str, Any]) -> bool:
        """Return the answer for the values of its columns."""
        if not all(name in values for name, _ in self.columns):
            return True
        return fulfilled(self.conditions, self.columns, [tuple(values[name] for name, _ in self.columns)])[0]


class LakeScan(ScanTable):
    """Reads a lake table."""

    def __init__(self, context: TableContext, source: Any, bounded: bool = True) -> None:
        self._context, self._source, self.bounded = context, source, bounded

    def filtered(self, conditions: Sequence[SourceCondition]) -> tuple[ScanTable, tuple[int, ...]]:
        """Return a scan of the files that may have rows which fulfil conditions: of Delta by the declared partitions."""
        if isinstance(self._source, DeltaSource):
            keys = set(self._context.partition_keys)
            used = tuple(
                at for at, one in enumerate(conditions) if one.columns and one.columns <= keys and not one.zoned
            )
            columns = tuple(column for column in self._context.columns if column[0] in keys)
            keeps = PartitionCondition(tuple(conditions[at] for at in used), columns)
            return LakeScan(
                self._context, replace(self._source, keeps=keeps) if used else self._source, self.bounded
            ), used
        texts: dict[int, str] = {}
        for place, condition in enumerate(conditions):
            comparison = condition.comparison()
            text = None if comparison is None else comparison.iceberg()
            if text is not None:
                texts[place] = text
        if not texts:
            return self, ()
        source = replace(self._source, row_filter=" and ".join(texts.values()))
        return LakeScan(self._context, source, self.bounded), tuple(texts)

    def stream(self, env: Any) -> Any:
        """Return the rows."""
        stream = env.from_source(self._source, None, self._context.path)
        return stream.map(DictToRow(self._context.columns)).name("rows")


class LakeSink(SinkTable):
    """Appends rows to a lake table."""

    changelog_mode = ChangelogMode.insert_only()

    def __init__(self, context: TableContext, sink: Any, parallelism: int | None) -> None:
        self._context, self._sink, self._parallelism = context, sink, parallelism

    def sink(self, stream: Any) -> Any:
        """Write the rows."""
        made = stream.map(RowToDict(self._context.columns)).name("rows").sink_to(self._sink).name(self._context.path)
        return made if self._parallelism is None else made.set_parallelism(self._parallelism)


class DeltaFactory(TableFactory):
    """Makes tables of Delta Lake.

    >>> DeltaFactory().scan(TableContext("t", options={"connector": "delta", "table-path": "/lake/t"})).bounded
    True
    """

    def scan(self, context: TableContext) -> ScanTable:
        """Return a scan of the table."""
        options = OptionValues(context.path, context.options, _DELTA)
        interval = options["monitor-interval"]
        source = DeltaSource(
            options["table-path"],
            options["versionAsOf"],
            interval,
            options["startingVersion"],
            options.with_prefix("storage.") or None,
        )
        return LakeScan(context, source, interval is None)

    def sink(self, context: TableContext) -> SinkTable:
        """Return a sink that appends to the table."""
        options = OptionValues(context.path, context.options, _DELTA)
        sink = DeltaSink(options["table-path"], options.with_prefix("storage.") or None)
        return LakeSink(context, sink, options["sink.parallelism"])


class IcebergFactory(TableFactory):
    """Makes tables of Iceberg.

    >>> IcebergFactory().scan(TableContext("t", options={"connector": "iceberg", "catalog-type": "rest"}))
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: Table 't': option 'uri' is missing; an Iceberg catalog of type 'rest' needs it.
    """

    def _table(self, context: TableContext) -> tuple[OptionValues, IcebergCatalog, str]:
        options = OptionValues(context.path, context.options, _ICEBERG)
        kind = options["catalog-type"]
        if kind in ("hadoop", "hive"):
            raise InvalidProgram(
                f"Table {context.path!r}: catalogs of type {kind!r} need Java; use 'rest', 'sql', 'glue' or another of pyiceberg."
            )
        if kind is not None and options["uri"] is None and kind in ("rest", "sql"):
            raise InvalidProgram(
                f"Table {context.path!r}: option 'uri' is missing; an Iceberg catalog of type {kind!r} needs it."
            )
        pairs = {
            "type": kind,
            "uri": options["uri"],
            "warehouse": options["warehouse"],
            **options.with_prefix("catalog."),
        }
        properties = {key: value for key, value in pairs.items() if value is not None}
        name = options["catalog-table"] or context.path.rsplit(".", 1)[-1]
        return options, IcebergCatalog(options["catalog-name"], properties), f"{options['catalog-database']}.{name}"

    def scan(self, context: TableContext) -> ScanTable:
        """Return a scan of the table."""
        options, catalog, name = self._table(context)
        return LakeScan(context, IcebergSource(catalog, name, options["snapshot-id"], columns=context.names))

    def sink(self, context: TableContext) -> SinkTable:
        """Return a sink that appends to the table."""
        options, catalog, name = self._table(context)
        return LakeSink(context, IcebergSink(catalog, name), options["sink.parallelism"])
