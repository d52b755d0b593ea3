"""The registry of connectors: ``'connector' = '<name>'`` to what reads, writes or looks up the table.

Connectors of other packages are entry points of the group ``funken.table.connectors``: a name and a ``TableFactory``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, ClassVar

from funken.errors import InvalidProgram
from funken.table.connectors.contract import LookupTable, ScanTable, SinkTable, TableContext, TableNotReadable

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
    writable_metadata: frozenset[str] = frozenset()

    def check(self, context: TableContext) -> None:
        """Look at the options when the table is used; raises ``InvalidProgram``."""

    def metadata_of(self, context: TableContext) -> dict[str, str]:
        """Return the metadata keys of a table and their types."""
        return self.metadata

    def scan(self, context: TableContext) -> ScanTable:
        """Return what reads the table."""
        raise TableNotReadable(
            f"Table {context.path!r} cannot be read: connector {context.connector!r} is a sink only."
        )

    def sink(self, context: TableContext) -> SinkTable:
        """Return what writes the table."""
        raise TableNotReadable(
            f"Table {context.path!r} cannot be written: connector {context.connector!r} is a source only."
        )

    def lookup(self, context: TableContext, keys: Sequence[str]) -> LookupTable:
        """Return what looks rows up by columns."""
        raise TableNotReadable(
            f"Table {context.path!r} cannot be joined FOR SYSTEM_TIME AS OF a processing time: connector "
            f"{context.connector!r} has no lookup. Use 'jdbc', or a versioned table with an event time."
        )

    def has_lookup(self, context: TableContext) -> bool:
        """Whether rows can be looked up."""
        return type(self).lookup is not TableFactory.lookup

    def has_vector_search(self, context: TableContext) -> bool:
        """Whether VECTOR_SEARCH may read the rows: a lookup without keys returns all of them."""
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
    """Return what reads a table."""
    return factory_of(context).scan(context)


def sink_table(context: TableContext) -> SinkTable:
    """Return what writes a table."""
    return factory_of(context).sink(context)


def lookup_table(context: TableContext, keys: Sequence[str]) -> LookupTable:
    """Return what looks up rows of a table by the values of some columns."""
    return factory_of(context).lookup(context, keys)


def metadata_of(context: TableContext) -> dict[str, Any]:
    """Return the metadata keys of a table, with their types as SQL."""
    return factory_of(context).metadata_of(context)


__all__ = [
    "TableFactory",
    "connector_names",
    "factory_of",
    "lookup_table",
    "metadata_of",
    "register_connector",
    "scan_table",
    "sink_table",
]
