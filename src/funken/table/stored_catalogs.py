"""Catalogs that outlive a session: a folder, the tables of a database, the tables of an Iceberg catalog.

``CREATE CATALOG c WITH ('type' = 'file' | 'jdbc' | 'iceberg' | 'spark', ...)`` makes one. Catalogs of other packages are entry
points of the group ``funken.table.catalogs``: a type and a function of the catalog's name and options.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from funken.connectors.iceberg import IcebergCatalog, pyiceberg
from funken.table import spark_catalog
from funken.table.catalog import (
    Catalog,
    CatalogDatabase,
    CatalogFunction,
    CatalogModel,
    CatalogObject,
    CatalogTable,
    CatalogView,
    InMemoryCatalog,
    InvalidTable,
    TableColumn,
    TableDistribution,
    TableWatermark,
)
from funken.table.connectors.databases import database_of
from funken.table.connectors.options import ConnectorOption, OptionValues, text
from funken.table.external_catalogs import ExternalCatalog, LoadedWhenUsed
from funken.table.types import LogicalType, RowType, arrow_schema, logical_type, parse_type
from funken.table.udf import imported_definition

ENTRY_POINTS = "funken.table.catalogs"
_DEFAULT = ConnectorOption("default-database", text, "default")


# ---- a folder


class FileCatalog(Catalog):
    """Keeps each object as a file of JSON in a folder ``database/kind``; sessions that share the folder see each other's changes.

    >>> import tempfile
    >>> catalog = FileCatalog(tempfile.mkdtemp())
    >>> catalog.open()
    >>> catalog.put("default", "table", "t", CatalogTable((TableColumn("n", parse_type("INT")),), (("connector", "print"),)))
    >>> catalog.get("default", "table", "t").columns[0].type
    INT
    """

    def __init__(self, path: str, default_database: str = "default") -> None:
        self._folder = Path(path.removeprefix("file://"))
        self._default = default_database

    def open(self) -> None:
        """Create the folder and the default database, if they are not there."""
        if self._default not in self.databases():
            self.create_database(self._default, CatalogDatabase())

    @property
    def default_database(self) -> str:
        """The database to use if none is named."""
        return self._default

    def databases(self) -> Mapping[str, CatalogDatabase]:
        """The databases by name."""
        found = {}
        for file in sorted(self._folder.glob("*/database.json")):
            kept = json.loads(file.read_text())
            found[unquote(file.parent.name)] = CatalogDatabase(tuple(kept["properties"].items()), kept["comment"])
        return found

    def create_database(self, name: str, database: CatalogDatabase) -> None:
        """Create a database."""
        _write(self._of(name) / "database.json", {"properties": dict(database.properties), "comment": database.comment})

    def drop_database(self, name: str) -> None:
        """Drop a database, and its objects."""
        (self._of(name) / "database.json").unlink()
        for file in self._of(name).glob("*/*.json"):
            file.unlink()

    def objects(self, database: str, kind: str) -> Mapping[str, CatalogObject]:
        """The objects of a type by name."""
        files = {unquote(file.stem): file for file in sorted((self._of(database) / kind).glob("*.json"))}
        return LoadedWhenUsed(list(files), lambda name: object_of(json.loads(files[name].read_text()), name))

    def put(self, database: str, kind: str, name: str, entry: CatalogObject) -> None:
        """Create or replace an object."""
        _write(self._file(database, kind, name), document_of(entry, name))

    def remove(self, database: str, kind: str, name: str) -> None:
        """Remove an object."""
        self._file(database, kind, name).unlink()

    def _of(self, database: str) -> Path:
        return self._folder / quote(database, "")

    def _file(self, database: str, kind: str, name: str) -> Path:
        return self._of(database) / kind / f"{quote(name, '')}.json"


def _write(file: Path, document: Any) -> None:
    """Write a file at once: a reader sees the one before or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(document, indent=2))
    part.replace(file)


_OBJECTS: dict[str, type] = {
    "table": CatalogTable,
    "view": CatalogView,
    "function": CatalogFunction,
    "model": CatalogModel,
}
_PARTS: dict[str, type] = {"watermark": TableWatermark, "distribution": TableDistribution}


def document_of(entry: CatalogObject, name: str) -> dict[str, Any]:
    """Return an object as a document of JSON; raises ``InvalidTable`` for one that only this process has."""
    if (isinstance(entry, CatalogView) and not entry.query) or (
        isinstance(entry, CatalogFunction) and not entry.target
    ):
        raise InvalidTable(
            f"{name!r} is an object of this program, which a catalog of files cannot keep. Create it by SQL, or as temporary."
        )
    kind = next(kind for kind, type_ in _OBJECTS.items() if isinstance(entry, type_))
    return {"kind": kind, **{key: value for key, value in _plain(entry).items() if key not in ("plan", "definition")}}


def _plain(value: Any) -> Any:
    if isinstance(value, LogicalType):
        return value.sql()
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "__dataclass_fields__"):
        return {
            one.name: _plain(getattr(value, one.name))
            for one in fields(value)
            if getattr(value, one.name) != one.default
        }
    return value if isinstance(value, str | int | bool | None) else str(value)


def object_of(document: dict[str, Any], name: str = "") -> CatalogObject:
    """Return the object of a document; a function is imported."""
    kept = dict(document)
    kind = _OBJECTS[kept.pop("kind")]
    for key in ("columns", "inputs", "outputs"):
        if key in kept:
            kept[key] = tuple(TableColumn(**{**one, "type": parse_type(one["type"])}) for one in kept[key])
    for key, part in _PARTS.items():
        if kept.get(key) is not None:
            kept[key] = part(**{name: tuple(one) if isinstance(one, list) else one for name, one in kept[key].items()})
    if "options" in kept:
        kept["options"] = tuple((key, value) for key, value in kept["options"])
    if kind is CatalogFunction:
        kept["definition"] = imported_definition(kept["target"], name)
    found: CatalogObject = kind(**{key: tuple(one) if isinstance(one, list) else one for key, one in kept.items()})
    return found


# ---- databases


_PATTERNS: tuple[tuple[str, str], ...] = (
    (r"smallint|int2", "SMALLINT"),
    (r"integer|int4|serial", "INT"),
    (r"bigint|int8|bigserial", "BIGINT"),
    (r"real|float4", "FLOAT"),
    (r"double precision|float8", "DOUBLE"),
    (r"numeric\((\d+), ?(\d+)\)", r"DECIMAL(\1, \2)"),
    (r"numeric", "DECIMAL(38, 18)"),
    (r"boolean", "BOOLEAN"),
    (r"character varying\((\d+)\)", r"VARCHAR(\1)"),
    (r"character\((\d+)\)|bpchar", r"CHAR(\1)"),
    (r"text|character varying|uuid|jsonb?|citext|inet|xml", "STRING"),
    (r"bytea", "BYTES"),
    (r"date", "DATE"),
    (r"time(\(\d\))? without time zone", "TIME(0)"),
    (r"timestamp\((\d)\) without time zone", r"TIMESTAMP(\1)"),
    (r"timestamp without time zone", "TIMESTAMP(6)"),
    (r"timestamp(\(\d\))? with time zone", "TIMESTAMP_LTZ(6)"),
)
_AFFINITIES: tuple[tuple[str, str], ...] = (
    (r".*bool.*", "BOOLEAN"),
    (r"(?:decimal|numeric)\((\d+), ?(\d+)\)", r"DECIMAL(\1, \2)"),
    (r".*int.*", "BIGINT"),
    (r".*(char|clob|text).*", "STRING"),
    (r".*blob.*|", "BYTES"),
    (r".*(real|float|double|numeric|decimal).*", "DOUBLE"),
    (r"date", "DATE"),
    (r"time", "TIME(0)"),
    (r"(datetime|timestamp).*", "TIMESTAMP(6)"),
)
"""SQLite's types follow from the parts of their names."""


def column_type(declared: str, patterns: tuple[tuple[str, str], ...], where: str) -> LogicalType:
    """Return the type of a column for the type that its database declares.

    >>> print(column_type("numeric(10,2)", _PATTERNS, "t.a"), column_type("VARCHAR(9)", _AFFINITIES, "t.b"))
    DECIMAL(10, 2) STRING
    """
    if declared.endswith("[]"):
        return parse_type(f"ARRAY<{column_type(declared[:-2], patterns, where).sql()}>")
    for pattern, found in patterns:
        match = re.fullmatch(pattern, declared.lower())
        if match is not None:
            return parse_type(match.expand(found).replace("CHAR()", "CHAR(1)"))
    raise InvalidTable(
        f"column {where} has type {declared!r}, which has no type of SQL here. Create a view that casts it, in its database."
    )


_JDBC = (
    ConnectorOption("base-url"),
    ConnectorOption("default-database", text, None),
    ConnectorOption("username", text, None),
    ConnectorOption("password", text, None),
)
_PG_TABLES = """SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
ORDER BY 1, 2"""
_PG_COLUMNS = """SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey))
FROM pg_attribute a WHERE a.attrelid = '{relation}'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""


class JdbcCatalog(ExternalCatalog):
    """The tables of PostgreSQL or SQLite, as tables of the connector ``jdbc``.

    A schema of PostgreSQL is part of a table's name, ```sales.orders```; that of ``public`` may be left out.
    """

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        values = OptionValues(name, options, _JDBC, "catalog")
        self._url = values["base-url"].rstrip("/")
        self._login = (values["username"], values["password"])
        self._name = name
        self._sqlite = self._url.removeprefix("jdbc:").startswith("sqlite:")
        if not self._sqlite and not self._url.removeprefix("jdbc:").startswith("postgres"):
            raise InvalidTable(
                f"Catalog {name!r}: base-url {self._url!r} is of no database whose tables can be listed: PostgreSQL and SQLite. "
                "Create tables with 'connector' = 'jdbc' for others."
            )
        self._default: str = values["default-database"] or ("main" if self._sqlite else "postgres")

    def open(self) -> None:
        """Connect once, to report a fault at once."""
        self.objects(self._default, "table")
        if self._default not in self.databases():
            raise InvalidTable(f"Catalog {self._name!r}: there is no database {self._default!r} at {self._url}.")

    @property
    def default_database(self) -> str:
        """The database to use if none is named."""
        return self._default

    def _query(self, statement: str, database: str | None = None) -> list[tuple[Any, ...]]:
        url = self._url if self._sqlite else f"{self._url}/{database or self._default}"
        server = database_of(self._name, url, *self._login)
        try:
            with contextlib.closing(server.connect()) as connection:
                cursor = connection.cursor()
                cursor.execute(statement)
                return [tuple(row) for row in cursor.fetchall()]
        except server.errors as error:
            raise InvalidTable(f"Catalog {self._name!r} cannot read {url}: {server.problem(error)}") from error

    def databases(self) -> Mapping[str, CatalogDatabase]:
        """The databases by name."""
        if self._sqlite:
            return {"main": CatalogDatabase()}
        rows = self._query("SELECT datname FROM pg_database WHERE NOT datistemplate AND datallowconn ORDER BY 1")
        return {name: CatalogDatabase() for (name,) in rows}

    def objects(self, database: str, kind: str) -> Mapping[str, CatalogObject]:
        """The objects of a type by name."""
        if kind != "table":
            return {}
        if self._sqlite:
            rows = self._query(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
            )
            names = sorted(name for (name,) in rows)
        else:
            rows = self._query(_PG_TABLES, database)
            names = [table if schema == "public" else f"{schema}.{table}" for schema, table in rows]
        return LoadedWhenUsed(names, lambda name: self._table(database, name))

    def get(self, database: str, kind: str, name: str) -> CatalogObject | None:
        """Return an object, or ``None``."""
        if database not in self.databases():
            return None
        objects = self.objects(database, kind)
        return objects.get(name) or objects.get(name.removeprefix("public."))

    def _table(self, database: str, name: str) -> CatalogTable:
        literal = name.replace("'", "''")
        if self._sqlite:
            rows = self._query(f"SELECT name, type, \"notnull\", pk FROM pragma_table_info('{literal}') ORDER BY cid")
            found = [(column, declared, bool(fixed), bool(key)) for column, declared, fixed, key in rows]
            patterns, url = _AFFINITIES, self._url
        else:
            schema, dot, table = literal.partition(".")
            schema, table = (schema, table) if dot else ("public", schema)
            relation = ".".join('"' + part.replace('"', '""') + '"' for part in (schema, table))
            found = [tuple(row) for row in self._query(_PG_COLUMNS.format(relation=relation), database)]
            patterns, url = _PATTERNS, f"{self._url}/{database}"
        columns = tuple(
            TableColumn(column, column_type(declared, patterns, f"{name}.{column}").nullable(not (fixed or key)))
            for column, declared, fixed, key in found
        )
        options = {"connector": "jdbc", "url": url, "table-name": name}
        options |= {key: value for key, value in zip(("username", "password"), self._login, strict=True) if value}
        keys = tuple(column for column, _, _, key in found if key)
        return CatalogTable(columns, tuple(sorted(options.items())), primary_key=keys, key_name="PK" if keys else None)


# ---- Iceberg


_STORES = ("s3", "gcs", "adls", "hdfs")
_ICEBERG = (
    ConnectorOption("catalog-type", text, None),
    ConnectorOption("uri", text, None),
    ConnectorOption("warehouse", text, None),
    ConnectorOption("catalog.*", text, None),
    ConnectorOption("io-impl", text, None, unused="pyiceberg chooses how files are read by their address"),
    ConnectorOption("property-version", text, None, unused="there is one version"),
    ConnectorOption("clients", text, None, unused="a process has one client"),
    ConnectorOption("cache-enabled", text, None, unused="tables are loaded where they are used"),
    *(ConnectorOption(f"{store}.*", text, None) for store in _STORES),
    _DEFAULT,
)
_KEY = "funken.primary-key"


_CATALOG_CLASSES = {"GlueCatalog": "glue", "RESTCatalog": "rest", "JdbcCatalog": "sql", "HiveCatalog": "hive"}
"""Classes of Java for ``catalog-impl``, by the last part of their names, and the types that they are."""


def _without_classes(name: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a catalog with ``catalog-impl`` as the type that it means, and ``aws.region`` as pyiceberg has it."""
    known = dict(options)
    named = known.pop("catalog-impl", None)
    if named is not None:
        kind = _CATALOG_CLASSES.get(named.rpartition(".")[2])
        if kind is None:
            raise InvalidTable(
                f"Catalog {name!r} has 'catalog-impl' = {named!r}, a class of Java. Use 'catalog-type' = 'rest', 'hive', "
                "'glue' or 'sql' instead."
            )
        known.setdefault("catalog-type", kind)
    region = known.pop("aws.region", None)
    if region is not None:
        known["catalog.client.region"] = region
    return known


class IcebergTables(Catalog):
    """The tables of an Iceberg catalog (REST, SQL, Glue and others of ``pyiceberg``), as tables of the connector ``iceberg``.

    A namespace is a database. Tables are created and dropped in the catalog itself.
    """

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        options = _without_classes(name, options)
        values = OptionValues(name, options, _ICEBERG, "catalog")
        self._name = name
        self._default: str = values["default-database"]
        named = {"type": values["catalog-type"], "uri": values["uri"], "warehouse": values["warehouse"]}
        properties = {key: value for key, value in named.items() if value is not None}
        if values["catalog-type"] == "hadoop":
            raise InvalidTable(
                f"Catalog {name!r} has 'catalog-type' = 'hadoop', a folder without a server, which pyiceberg does not read. Use "
                "'rest', 'hive', 'glue', or 'sql' with 'uri' = 'sqlite:////folder/catalog.db'."
            )
        stored = {
            f"{store}.{key}": value for store in _STORES for key, value in values.with_prefix(f"{store}.").items()
        }
        if "s3.path-style-access" in stored:
            by_path = stored.pop("s3.path-style-access").lower() == "true"
            stored["s3.force-virtual-addressing"] = str(not by_path).lower()
        self._catalog = IcebergCatalog(name, {**properties, **stored, **values.with_prefix("catalog.")})
        own = {
            key: value
            for key, value in options.items()
            if key not in ("type", "default-database", "io-impl") and key.split(".", 1)[0] not in _STORES
        }
        own |= {f"catalog.{key}": value for key, value in stored.items()}
        self._options = {**own, "connector": "iceberg", "catalog-name": name}
        self._loaded: Any = None

    @property
    def _iceberg(self) -> Any:
        if self._loaded is None:
            self._loaded = self._catalog.load()
        return self._loaded

    def open(self) -> None:
        """Connect, and create the default namespace if there is none."""
        if self._default not in self.databases():
            self.create_database(self._default, CatalogDatabase())

    @property
    def default_database(self) -> str:
        """The database to use if none is named."""
        return self._default

    def databases(self) -> Mapping[str, CatalogDatabase]:
        """The databases by name."""
        return {".".join(parts): CatalogDatabase() for parts in self._iceberg.list_namespaces()}

    def create_database(self, name: str, database: CatalogDatabase) -> None:
        """Create a namespace."""
        self._iceberg.create_namespace(name, dict(database.properties))

    def drop_database(self, name: str) -> None:
        """Drop a namespace, and its tables."""
        for table in self._iceberg.list_tables(name):
            self._iceberg.drop_table(table)
        self._iceberg.drop_namespace(name)

    def objects(self, database: str, kind: str) -> Mapping[str, CatalogObject]:
        """The objects of a type by name."""
        if kind != "table":
            return {}
        names = sorted(parts[-1] for parts in self._iceberg.list_tables(database))
        return LoadedWhenUsed(names, lambda name: self._table(database, name))

    def get(self, database: str, kind: str, name: str) -> CatalogObject | None:
        """Return an object, or ``None``."""
        if kind != "table":
            return None
        errors = pyiceberg("exceptions")
        try:
            return self._table(database, name)
        except (errors.NoSuchTableError, errors.NoSuchNamespaceError):
            return None

    def _table(self, database: str, name: str) -> CatalogTable:
        table = self._iceberg.load_table(f"{database}.{name}")
        arrow = table.schema().as_arrow()
        columns = tuple(TableColumn(one.name, logical_type(one.type).nullable(one.nullable)) for one in arrow)
        partitions = tuple(
            table.schema().find_field(field.source_id).name
            for field in table.spec().fields
            if str(field.transform) == "identity"
        )
        key = tuple(part for part in table.properties.get(_KEY, "").split(",") if part)
        options = {**self._options, "catalog-database": database, "catalog-table": name}
        return CatalogTable(
            columns, tuple(sorted(options.items())), primary_key=key, key_name="PK" if key else None,
            partition_keys=partitions, comment=table.properties.get("comment"),
        )  # fmt: skip

    def put(self, database: str, kind: str, name: str, entry: CatalogObject) -> None:
        """Create a table, or set the properties of one that there is; raises ``InvalidTable`` for anything else."""
        if not isinstance(entry, CatalogTable):
            raise InvalidTable(
                f"{name!r} is no table, which is all that an Iceberg catalog keeps. Create it as temporary."
            )
        odd = [column.name for column in entry.columns if not column.is_physical]
        if odd or entry.watermark is not None:
            what = f"computed column {odd[0]!r}" if odd else "a watermark"
            raise InvalidTable(
                f"table {name!r} has {what}, which an Iceberg catalog cannot keep. Create a temporary table LIKE it that has one."
            )
        properties = {key: value for key, value in entry.options if key not in self._options and key != "catalog-table"}
        properties |= {_KEY: ",".join(entry.primary_key)} if entry.primary_key else {}
        properties |= {"comment": entry.comment} if entry.comment else {}
        schema = arrow_schema(RowType.of(*((column.name, column.type) for column in entry.columns)))
        table = self._iceberg.create_table_if_not_exists(f"{database}.{name}", schema, properties=properties)
        if entry.partition_keys and not table.spec().fields:
            with table.update_spec() as update:
                for key in entry.partition_keys:
                    update.add_identity(key)

    def remove(self, database: str, kind: str, name: str) -> None:
        """Drop a table."""
        self._iceberg.drop_table(f"{database}.{name}")


# ---- by type


def _in_memory(name: str, options: Mapping[str, str]) -> Catalog:
    return InMemoryCatalog(OptionValues(name, options, (_DEFAULT,), "catalog")["default-database"])


def _of_files(name: str, options: Mapping[str, str]) -> Catalog:
    values = OptionValues(name, options, (ConnectorOption("path"), _DEFAULT), "catalog")
    return FileCatalog(values["path"], values["default-database"])


_TYPES: dict[str, Callable[[str, Mapping[str, str]], Catalog]] = {
    "file": _of_files,
    "generic_in_memory": _in_memory,
    "iceberg": IcebergTables,
    "jdbc": JdbcCatalog,
    "spark": spark_catalog.of_options,
}


def catalog_of(name: str, options: Mapping[str, str]) -> Catalog:
    """Return a catalog by its options; raises ``InvalidTable`` for a type that there is not."""
    kind = options.get("type", "")
    points = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if kind in _TYPES:
        return _TYPES[kind](name, options)
    if kind in points:
        found: Catalog = points[kind].load()(name, options)
        return found
    known = sorted({*_TYPES, *points})
    near = difflib.get_close_matches(kind, known, 1, 0.6)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InvalidTable(
        f"Catalog {name!r} has type {kind!r}, which is unknown.{hint} Available: {', '.join(known)}. Register others with "
        "register_catalog(name, catalog)."
    )
