"""The tables and views of a SparkSession as a catalog: what ``spark.sql`` knows, SQL here reads.

Tables of Parquet and ORC files, and those of Delta, are read where they are, by the connectors for them. What only Spark can
read, as views, tables of JDBC or of Hive, it reads itself: the driver gets the rows when the job is submitted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from funken.table.catalog import CatalogDatabase, CatalogObject, CatalogTable, InvalidTable, TableColumn
from funken.table.connectors.contract import ScanTable, TableContext
from funken.table.connectors.factory import TableFactory, register_connector
from funken.table.connectors.options import ConnectorOption, OptionValues, text
from funken.table.external_catalogs import ExternalCatalog, LoadedWhenUsed
from funken.table.types import logical_type

CONNECTOR = "spark"
_OPTIONS = (ConnectorOption("default-database", text, None),)
_FILES = ("parquet", "orc")


def active_session(name: str) -> Any:
    """Return the SparkSession of this process, whichever thread made it; raises ``InvalidTable`` if there is none."""
    found = None
    if "pyspark" in sys.modules:
        from funken.spark.session import existing  # noqa: PLC0415 - it imports PySpark

        found = existing()
    if found is None:
        raise InvalidTable(
            f"Catalog {name!r}: this process has no SparkSession. Create one first, or pass one: "
            f"register_catalog({name!r}, SparkCatalog(spark))."
        )
    return found


def of_options(name: str, options: Mapping[str, str]) -> SparkCatalog:
    """Return the catalog of the active session, for ``'type' = 'spark'``."""
    return SparkCatalog(active_session(name), OptionValues(name, options, _OPTIONS, "catalog")["default-database"])


class SparkCatalog(ExternalCatalog):
    """The current catalog of a ``SparkSession``, temporary views as well; these are in every database."""

    owner = "Spark"

    def __init__(self, spark: Any, default_database: str | None = None) -> None:
        self._spark = spark
        self._default = default_database or spark.catalog.currentDatabase()
        register_connector(CONNECTOR, SparkTables(spark))

    def open(self) -> None:
        """Say at once whether the database is there."""
        if self._default not in self.databases():
            known = ", ".join(self.databases())
            raise InvalidTable(f"Spark has no database {self._default!r}; it has: {known}.")

    @property
    def default_database(self) -> str:
        """The database to use if none is named."""
        return str(self._default)

    def databases(self) -> Mapping[str, CatalogDatabase]:
        """The databases by name."""
        return {
            each.name: CatalogDatabase(comment=each.description or None) for each in self._spark.catalog.listDatabases()
        }

    def objects(self, database: str, kind: str) -> Mapping[str, CatalogObject]:
        """The objects of a type by name."""
        if kind != "table":
            return {}
        found = {each.name: each.isTemporary for each in self._spark.catalog.listTables(database)}
        return LoadedWhenUsed(sorted(found), lambda name: self._table(name if found[name] else f"{database}.{name}"))

    def _table(self, path: str) -> CatalogTable:
        quoted = ".".join(f"`{part}`" for part in path.split("."))
        columns = []
        for field in self._spark.table(quoted).limit(0).toArrow().schema:
            try:
                columns.append(TableColumn(field.name, logical_type(field.type).nullable(field.nullable)))
            except Exception as error:
                raise InvalidTable(
                    f"column {path}.{field.name} of Spark has type {field.type}, which has no type of SQL here. Create a view "
                    "that casts it, in Spark."
                ) from error
        options, partitions, comment = self._stored(quoted, path)
        return CatalogTable(tuple(columns), tuple(sorted(options.items())), partition_keys=partitions, comment=comment)

    def _stored(self, quoted: str, path: str) -> tuple[dict[str, str], tuple[str, ...], str | None]:
        """Return the options of a table, its partition columns and its comment."""
        told: dict[str, str] = {}
        partitions: list[str] = []
        about = ""
        for name, value, _ in self._spark.sql(f"DESCRIBE TABLE EXTENDED {quoted}").collect():
            if name.startswith("# ") and name != "# col_name":
                about = name
            elif about == "# Partition Information" and name and name != "# col_name":
                partitions.append(name)
            elif about == "# Detailed Table Information" and name:
                told[name] = value
        provider, location = told.get("Provider", "").lower(), re.sub("^file:/+", "/", told.get("Location", ""))
        comment = told.get("Comment") or None
        if provider in _FILES and location:
            options = {"connector": "filesystem", "path": location, "format": provider}
            return options | {"partition.default-name": "__HIVE_DEFAULT_PARTITION__"}, tuple(partitions), comment
        if provider == "delta" and location:
            return {"connector": "delta", "table-path": location}, (), comment
        return {"connector": CONNECTOR, "table": path}, (), comment


class SparkTables(TableFactory):
    """Makes tables that Spark reads."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def scan(self, context: TableContext) -> ScanTable:
        """Return a table that Spark reads."""
        path = OptionValues(context.path, context.options, (ConnectorOption("table"),))["table"]
        return SparkScan(self._spark, path, context.names)


class SparkScan(ScanTable):
    """The rows of a table of Spark, as they are when the job is submitted."""

    def __init__(self, spark: Any, path: str, names: tuple[str, ...], count: int | None = None) -> None:
        self._spark, self._path, self._names, self._count = spark, path, names, count

    def selected(self, names: Any) -> ScanTable | None:
        """Return a scan of some columns."""
        return SparkScan(self._spark, self._path, tuple(names), self._count) if set(names) <= set(self._names) else None

    def limited(self, count: int) -> ScanTable | None:
        """Return a scan of some rows."""
        return SparkScan(self._spark, self._path, self._names, count)

    def stream(self, env: Any) -> Any:
        """Return the rows."""
        quoted = ".".join(f"`{part}`" for part in self._path.split("."))
        frame = self._spark.table(quoted).select(*(f"`{name}`" for name in self._names))
        batches = (frame if self._count is None else frame.limit(self._count)).toArrow()
        columns = [column.to_pylist() for column in batches.columns]
        rows = list(zip(*columns, strict=True)) if columns else [()] * batches.num_rows
        return env.from_collection(rows).name(self._path)
