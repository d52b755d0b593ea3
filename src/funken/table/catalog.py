"""Catalogs: databases of tables, views, functions and models, and the manager that resolves names in them.

A ``Catalog`` keeps what its users create; ``InMemoryCatalog`` for the time of the session. Temporary objects belong to
the manager, and shadow the permanent ones of the same path.
"""

from __future__ import annotations

import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from funken.dataclass import dataclass
from funken.errors import FunkenError
from funken.table.types import LogicalType, quoted


class InvalidTable(FunkenError, ValueError):
    """A statement or call of the Table API that a catalog or the planner refuses. Flink: ``ValidationException``."""


@dataclass(frozen=True)
class ObjectIdentifier:
    """The full path of an object."""

    catalog: str
    database: str
    name: str

    def __str__(self) -> str:
        return f"{self.catalog}.{self.database}.{self.name}"

    def quoted(self) -> str:
        """Return the path with every part in backticks."""
        return ".".join(map(quoted, (self.catalog, self.database, self.name)))


@dataclass(frozen=True)
class TableColumn:
    """A column of a table: physical, computed by ``expression``, or metadata of the connector under ``metadata_key``.

    ``expression`` is the text of SQL, or an expression of the Table API; ``written`` is its text in a program's ``Schema``, which
    is shown. The type of a computed column is known when the table is created.
    """

    name: str
    type: LogicalType
    expression: Any = None
    metadata_key: str | None = None
    virtual: bool = False
    comment: str | None = None
    written: str | None = field(default=None, compare=False)

    @property
    def is_physical(self) -> bool:
        """True if the connector stores the column."""
        return self.expression is None and self.metadata_key is None

    @property
    def is_metadata(self) -> bool:
        """True if the column is metadata of the connector."""
        return self.metadata_key is not None

    @property
    def is_computed(self) -> bool:
        """True if the column is computed from others."""
        return self.expression is not None

    @property
    def is_persisted(self) -> bool:
        """True if a written row has the column."""
        return self.is_physical or (self.is_metadata and not self.virtual)


@dataclass(frozen=True)
class TableWatermark:
    """The rowtime column of a table, and the expression of its watermarks; ``written`` as that of a column."""

    column: str
    expression: Any
    written: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class TableDistribution:
    """``DISTRIBUTED BY HASH(a) INTO 4 BUCKETS``."""

    kind: str | None = None
    columns: tuple[str, ...] = ()
    buckets: int | None = None

    def __str__(self) -> str:
        by = f"BY {self.kind or ''}({', '.join(map(quoted, self.columns))}) " if self.columns else ""
        return f"DISTRIBUTED {by}INTO {self.buckets} BUCKETS" if self.buckets else f"DISTRIBUTED {by}".rstrip()


_WORD = re.compile(r"'(?:[^']|'')*'|`[^`]*`|\b[A-Za-z_]\w*\b(\s*\()?|\s+")
"""Texts, quoted names, words, those of calls with their parenthesis, and space."""
_UNITS = {f"{unit}S": unit for unit in ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")}


@dataclass(frozen=True)
class CatalogTable:
    """A table as it was created. ``options`` are sorted by key."""

    columns: tuple[TableColumn, ...]
    options: tuple[tuple[str, str], ...] = ()
    watermark: TableWatermark | None = None
    primary_key: tuple[str, ...] = ()
    key_name: str | None = None
    partition_keys: tuple[str, ...] = ()
    distribution: TableDistribution | None = None
    comment: str | None = None

    def option(self, key: str, default: str | None = None) -> str | None:
        """Return an option, or the default."""
        return dict(self.options).get(key, default)

    def column(self, name: str) -> TableColumn:
        """Return a column by name."""
        return next(column for column in self.columns if column.name == name)

    def time_of(self, column: TableColumn) -> str:
        """Return ``ROWTIME`` or ``PROCTIME`` for a column that is a time attribute, else ``""``."""
        if self.watermark is not None and self.watermark.column == column.name:
            return "ROWTIME"
        return "PROCTIME" if str(column.expression).replace(" ", "").upper() == "PROCTIME()" else ""

    def expression_text(self, expression: Any) -> str:
        """Return an expression over the table as it is shown: the names of columns quoted, the words of SQL in capitals.

        >>> table = CatalogTable((TableColumn("a", None), TableColumn("n", None)))
        >>> table.expression_text("upper(a)  || 'a' || n.`x`"), table.expression_text("mine(a) - interval '1' days")
        ("UPPER(`a`) || 'a' || `n`.`x`", "mine(`a`) - INTERVAL '1' DAY")
        """
        from funken.expr.sql.functions import FUNCTIONS  # noqa: PLC0415 - the whole table, only where texts are shown

        names = {column.name for column in self.columns}

        def shown(match: re.Match[str]) -> str:
            word = match.group()
            if word[0] in "'`":
                return word
            if match.group(1):
                return word.upper() if word[: -len(match.group(1))] in FUNCTIONS else word
            behind_dot = match.start() > 0 and match.string[match.start() - 1] == "."
            if word.isspace():
                return " "
            return f"`{word}`" if word in names or behind_dot else _UNITS.get(word.upper(), word.upper())

        return _WORD.sub(shown, str(expression))

    def shown(self, part: TableColumn | TableWatermark) -> str:
        """Return the expression of a column or watermark as ``print_schema`` shows it: as a ``Schema`` has it, or quoted."""
        return part.written or self.expression_text(part.expression)

    def with_options(self, options: Mapping[str, str]) -> CatalogTable:
        """Return the table with options changed."""
        return replace(self, options=tuple(sorted({**dict(self.options), **options}.items())))


@dataclass(frozen=True)
class CatalogView:
    """A view: the text of its query, or the plan of a Table of the Table API. ``columns`` are its names and types.

    ``declared`` is the schema of the table whose rows a plan has.
    """

    query: str
    columns: tuple[TableColumn, ...] = ()
    comment: str | None = None
    plan: Any = field(default=None, compare=False)
    declared: Any = field(default=None, compare=False)
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class CatalogFunction:
    """A function: where its code is (``module.name``, or a class of Java), or the object itself."""

    target: str = ""
    language: str = "PYTHON"
    definition: Any = None
    resources: tuple[str, ...] = ()


@dataclass(frozen=True)
class CatalogModel:
    """A model of ML_PREDICT: columns in and out."""

    inputs: tuple[TableColumn, ...]
    outputs: tuple[TableColumn, ...]
    options: tuple[tuple[str, str], ...] = ()
    comment: str | None = None


CatalogObject = CatalogTable | CatalogView | CatalogFunction | CatalogModel


@dataclass(frozen=True)
class ResolvedTable:
    """A table with its path, as a plan refers to it."""

    path: ObjectIdentifier
    table: CatalogTable
    temporary: bool = False

    @property
    def persisted(self) -> tuple[TableColumn, ...]:
        """The columns of rows that are written: physical ones, then metadata."""
        columns = self.table.columns
        physical = [column for column in columns if column.is_physical]
        return (*physical, *(column for column in columns if column.is_persisted and not column.is_physical))

    @property
    def options(self) -> dict[str, str]:
        """The options as a mapping."""
        return dict(self.table.options)


class Catalog(ABC):
    """A store of databases and their objects, told apart by type: ``table`` (and view), ``function``, ``model``."""

    def open(self) -> None:  # noqa: B027 - most catalogs have nothing to open
        """Begin to use the catalog."""

    def close(self) -> None:  # noqa: B027
        """End the use."""

    @property
    def default_database(self) -> str:
        """The database to use if none is named."""
        return "default"

    @abstractmethod
    def databases(self) -> Mapping[str, CatalogDatabase]:
        """The databases by name."""

    @abstractmethod
    def create_database(self, name: str, database: CatalogDatabase) -> None:
        """Create a database."""

    @abstractmethod
    def drop_database(self, name: str) -> None:
        """Drop a database, and its objects."""

    @abstractmethod
    def objects(self, database: str, kind: str) -> Mapping[str, CatalogObject]:
        """The objects of a type by name."""

    @abstractmethod
    def put(self, database: str, kind: str, name: str, entry: CatalogObject) -> None:
        """Create or replace an object."""

    @abstractmethod
    def remove(self, database: str, kind: str, name: str) -> None:
        """Remove an object."""

    def partitions(self, database: str, name: str) -> list[dict[str, str]]:
        """Return the partitions of a table that ALTER TABLE has declared; raises ``InvalidTable`` if none are kept."""
        raise InvalidTable(
            f"{type(self).__name__} keeps no partitions of {database}.{name}: a connector finds them where the data is."
        )

    def get(self, database: str, kind: str, name: str) -> CatalogObject | None:
        """Return an object, or ``None``."""
        return self.objects(database, kind).get(name) if database in self.databases() else None


@dataclass(frozen=True)
class CatalogDatabase:
    """A database: its properties and comment."""

    properties: tuple[tuple[str, str], ...] = ()
    comment: str | None = None


class InMemoryCatalog(Catalog):
    """Keeps everything for the time of the session."""

    def __init__(self, default_database: str = "default") -> None:
        self._default = default_database
        self._databases: dict[str, CatalogDatabase] = {default_database: CatalogDatabase()}
        self._objects: dict[tuple[str, str], dict[str, CatalogObject]] = {}
        self._partitions: dict[tuple[str, str], list[dict[str, str]]] = {}

    @property
    def default_database(self) -> str:
        """The database to use if none is named."""
        return self._default

    def databases(self) -> Mapping[str, CatalogDatabase]:
        """The databases by name."""
        return self._databases

    def create_database(self, name: str, database: CatalogDatabase) -> None:
        """Create a database."""
        self._databases[name] = database

    def drop_database(self, name: str) -> None:
        """Drop a database, and its objects."""
        del self._databases[name]
        for key in [key for key in self._objects if key[0] == name]:
            del self._objects[key]

    def objects(self, database: str, kind: str) -> Mapping[str, CatalogObject]:
        """The objects of a type by name."""
        return self._objects.setdefault((database, kind), {})

    def put(self, database: str, kind: str, name: str, entry: CatalogObject) -> None:
        """Create or replace an object."""
        self._objects.setdefault((database, kind), {})[name] = entry

    def remove(self, database: str, kind: str, name: str) -> None:
        """Remove an object."""
        del self._objects[database, kind][name]
        if kind == "table":
            self._partitions.pop((database, name), None)

    def partitions(self, database: str, name: str) -> list[dict[str, str]]:
        """Return the partitions of a table that ALTER TABLE has declared."""
        return self._partitions.setdefault((database, name), [])


KINDS = {CatalogTable: "table", CatalogView: "table", CatalogFunction: "function", CatalogModel: "model"}


_OF_SQL_ALONE = frozenset({
    "APPROX_COUNT_DISTINCT", "BITMAP_CONTAINS", "CASE", "CEILING", "CHARACTER_LENGTH", "CHAR_LENGTH", "CONVERT_TZ",
    "CUME_DIST", "CURRENT_CATALOG", "CURRENT_DATABASE", "CURRENT_DATE", "CURRENT_ROW_TIMESTAMP", "CURRENT_TIME",
    "CURRENT_TIMESTAMP", "DATE_FORMAT", "DAYOFMONTH", "DAYOFWEEK", "DAYOFYEAR", "DENSE_RANK", "FROM_BASE64",
    "FROM_UNIXTIME", "HASH_CODE", "HOUR", "IF", "IS_ALPHA", "IS_DECIMAL", "IS_DIGIT", "ITEM", "JSON_ARRAYAGG",
    "JSON_LENGTH", "JSON_OBJECTAGG", "MINUTE", "MONTH", "NEGATE", "NTILE", "NULLIF", "OVERLAPS", "PARSE_URL",
    "PERCENT_RANK", "QUARTER", "RAND_INTEGER", "RANK", "REGEXP_EXTRACT", "REGEXP_REPLACE", "ROW_NUMBER", "SECOND",
    "SINGLE_VALUE", "SPLIT_INDEX", "STDDEV", "STDDEV_POP", "STDDEV_SAMP", "STR_TO_MAP", "TIMESTAMPADD", "TO_BASE64",
    "TO_DATE", "TO_TIMESTAMP", "TRANSLATE", "UNIX_TIMESTAMP", "VARIANCE", "VAR_POP", "VAR_SAMP", "WEEK", "YEAR",
})  # fmt: skip
"""Built-in functions that SQL has, but no module of Flink lists: functions of a catalog hide these."""


class CatalogManager:
    """The catalogs of a session, the current path, and its temporary objects."""

    def __init__(self, catalog: str = "default_catalog", database: str = "default_database") -> None:
        self.catalogs: dict[str, Catalog] = {catalog: InMemoryCatalog(database)}
        self.catalog_options: dict[str, dict[str, str]] = {catalog: {"type": "generic_in_memory"}}
        self.catalog_comments: dict[str, str] = {}
        self.current_catalog = catalog
        self.current_database = database
        self.temporary: dict[tuple[str, ObjectIdentifier], CatalogObject] = {}
        self.system_functions: dict[str, CatalogFunction] = {}

    # -- catalogs and databases

    def register_catalog(self, name: str, catalog: Catalog, options: Mapping[str, str] | None = None) -> None:
        """Add a catalog, opened."""
        if name in self.catalogs:
            raise InvalidTable(f"Catalog {name} already exists.")
        catalog.open()
        self.catalogs[name] = catalog
        self.catalog_options[name] = dict(options or {})

    def drop_catalog(self, name: str, if_exists: bool = False) -> None:
        """Remove a catalog, closed."""
        if name == self.current_catalog:
            raise InvalidTable("Cannot drop a catalog which is currently in use.")
        if name not in self.catalogs:
            if if_exists:
                return
            raise InvalidTable(f"Catalog {name} does not exist.")
        self.catalogs.pop(name).close()
        self.catalog_options.pop(name, None)
        self.catalog_comments.pop(name, None)

    def catalog(self, name: str) -> Catalog:
        """Return a catalog; an unknown name raises."""
        if name not in self.catalogs:
            raise InvalidTable(f"A catalog with name [{name}] does not exist. There are: {', '.join(self.catalogs)}.")
        return self.catalogs[name]

    def use_catalog(self, name: str) -> None:
        """Make a catalog and its default database current."""
        self.current_database = self.catalog(name).default_database
        self.current_catalog = name

    def use_database(self, parts: Sequence[str]) -> None:
        """Make a database current."""
        catalog, database = self.database_path(parts)
        if database not in self.catalog(catalog).databases():
            raise InvalidTable(f"A database with name [{database}] does not exist in the catalog: [{catalog}].")
        self.current_catalog, self.current_database = catalog, database

    def database_path(self, parts: Sequence[str]) -> tuple[str, str]:
        """Return catalog and database of a name."""
        if not parts:
            return self.current_catalog, self.current_database
        if len(parts) > 2:
            raise InvalidTable(f"'{'.'.join(parts)}' is no path of a database: write catalog.database.")
        return (self.current_catalog, parts[0]) if len(parts) == 1 else (parts[0], parts[1])

    def create_database(self, parts: Sequence[str], database: CatalogDatabase, if_not_exists: bool = False) -> None:
        """Create a database."""
        catalog, name = self.database_path(parts)
        if name in self.catalog(catalog).databases():
            if if_not_exists:
                return
            raise InvalidTable(f"Database {name} already exists in catalog {catalog}.")
        self.catalog(catalog).create_database(name, database)

    def drop_database(self, parts: Sequence[str], if_exists: bool = False, cascade: bool = False) -> None:
        """Drop a database, and its objects."""
        catalog, name = self.database_path(parts)
        if (catalog, name) == (self.current_catalog, self.current_database):
            raise InvalidTable("Cannot drop a database which is currently in use.")
        home = self.catalog(catalog)
        if name not in home.databases():
            if if_exists:
                return
            raise InvalidTable(f"Database {name} does not exist in catalog {catalog}.")
        if not cascade and any(home.objects(name, kind) for kind in ("table", "function", "model")):
            raise InvalidTable(
                f"Database {name} in catalog {catalog} is not empty. Use CASCADE to drop its objects, too."
            )
        home.drop_database(name)

    # -- objects

    def identifier(self, parts: Sequence[str], kind: str = "table") -> ObjectIdentifier:
        """The full path of a name in the current catalog and database; names of functions are kept in lower case."""
        if not 1 <= len(parts) <= 3:
            raise InvalidTable(f"'{'.'.join(parts)}' is no path of an object: write catalog.database.name.")
        defaults = (self.current_catalog, self.current_database)[: 3 - len(parts)]
        *home, name = parts
        names = (*defaults, *home, name.lower() if kind == "function" else name)
        return ObjectIdentifier(*names)

    def find(self, kind: str, parts: Sequence[str]) -> CatalogObject | None:
        """An object, the temporary one first."""
        path = self.identifier(parts, kind)
        found = self.temporary.get((kind, path))
        if found is None and path.catalog in self.catalogs:
            found = self.catalogs[path.catalog].get(path.database, kind, path.name)
        return found

    def is_temporary(self, kind: str, path: ObjectIdentifier) -> bool:
        """Return True if an object of a path is temporary."""
        return (kind, path) in self.temporary

    def table(self, parts: Sequence[str]) -> ResolvedTable | CatalogView:
        """A table or view; an unknown name raises with the nearest one."""
        found = self.find("table", parts)
        if found is None:
            raise InvalidTable(self._missing(parts))
        if isinstance(found, CatalogView):
            return found
        assert isinstance(found, CatalogTable)
        path = self.identifier(parts)
        return ResolvedTable(path, found, self.is_temporary("table", path))

    def partitions(self, parts: Sequence[str]) -> tuple[tuple[str, ...], list[dict[str, str]]]:
        """Return the keys of a table's partitions, and those that are declared; raises ``InvalidTable`` if it has none."""
        found, path = self.table(parts), self.identifier(parts)
        keys = found.table.partition_keys if isinstance(found, ResolvedTable) else ()
        if not keys:
            raise InvalidTable(f"Table {path} is not partitioned. Declare PARTITIONED BY (..).")
        if self.is_temporary("table", path):
            raise InvalidTable(f"Table {path} is temporary, so no catalog keeps its partitions. Use CREATE TABLE.")
        return keys, self.catalogs[path.catalog].partitions(path.database, path.name)

    def _missing(self, parts: Sequence[str]) -> str:
        path = self.identifier(parts)
        if len(parts) == 3 and path.catalog not in self.catalogs:
            return f"Object '{path.catalog}' not found"
        names = self.names("table", path.catalog, path.database)
        where = f" within '{path.catalog}.{path.database}'" if parts[-1].lower() in map(str.lower, names) else ""
        folded = {name.lower(): name for name in names}
        near = folded.get(path.name.lower()) or next(iter(difflib.get_close_matches(path.name, names, 1)), None)
        remedy = f"did you mean '{near}'?" if near else "create it with CREATE TABLE, or create_temporary_view()."
        return f"Object '{parts[-1]}' not found{where}; {remedy}"

    def create(
        self,
        parts: Sequence[str],
        entry: CatalogObject,
        *,
        temporary: bool = False,
        if_not_exists: bool = False,
        replace: bool = False,
    ) -> bool:
        """Create an object; return whether it was created. ``if_not_exists``: an existing one stays."""
        kind = KINDS[type(entry)]
        path = self.identifier(parts, kind)
        home = self.catalog(path.catalog)
        if not temporary and path.database not in home.databases():
            raise InvalidTable(f"Database {path.database} does not exist in catalog {path.catalog}.")
        exists = self.is_temporary(kind, path) if temporary else home.get(path.database, kind, path.name) is not None
        if exists and not replace:
            if if_not_exists:
                return False
            word = f"Temporary {kind}" if temporary else {"table": "Table (or view)"}.get(kind, kind.capitalize())
            permanent = kind == "table" and not temporary
            where = f"Could not execute CreateTable in path {path.quoted()}: " if permanent else ""
            raise InvalidTable(f"{where}{word} {path} already exists. Drop it before, or use IF NOT EXISTS.")
        if temporary:
            self.temporary[kind, path] = entry
        else:
            home.put(path.database, kind, path.name, entry)
        return True

    def drop(
        self,
        kind: str,
        parts: Sequence[str],
        *,
        temporary: bool = False,
        if_exists: bool = False,
        only: type | None = None,
    ) -> bool:
        """Drop an object; return whether there was one. ``only``: a table is no view, a view no table."""
        path = self.identifier(parts, kind)
        found: CatalogObject | None
        if temporary:
            found = self.temporary.get((kind, path))
        else:
            home = self.catalogs.get(path.catalog)
            found = None if home is None else home.get(path.database, kind, path.name)
        if found is None or (only is not None and not isinstance(found, only)):
            if if_exists:
                return False
            noun = "View" if only is CatalogView else kind.capitalize()
            word = f"Temporary {noun.lower()}" if temporary else noun
            remedy = f"Correct the name, or write DROP {noun.upper()} IF EXISTS."
            other = found if temporary else found or self.temporary.get((kind, path))
            if other is not None:
                written = "VIEW" if isinstance(other, CatalogView) else kind.upper()
                remedy = f"Write DROP {'TEMPORARY ' if other is not found or temporary else ''}{written}."
            raise InvalidTable(f"{word} with identifier '{path}' does not exist. {remedy}")
        if temporary:
            del self.temporary[kind, path]
        else:
            if self.is_temporary(kind, path):
                raise InvalidTable(
                    f"Temporary {kind} with identifier '{path}' exists. Drop it first before removing it."
                )
            self.catalogs[path.catalog].remove(path.database, kind, path.name)
        return True

    def names(
        self, kind: str, catalog: str | None = None, database: str | None = None, only: type | None = None
    ) -> list[str]:
        """The names of objects in a database, sorted; of tables or views only, if asked."""
        catalog, database = catalog or self.current_catalog, database or self.current_database
        home = self.catalogs.get(catalog)
        found = {
            path.name: only is None or isinstance(entry, only)
            for (of, path), entry in self.temporary.items()
            if of == kind and (path.catalog, path.database) == (catalog, database)
        }
        if home is not None and database in home.databases():
            entries = home.objects(database, kind)
            for name in entries:
                if name not in found:
                    found[name] = only is None or isinstance(entries[name], only)
        return sorted(name for name, is_wanted in found.items() if is_wanted)

    def temporary_names(self, kind: str, only: type | None = None) -> list[str]:
        """Return the names of temporary objects in the current database, sorted."""
        current = (self.current_catalog, self.current_database)
        return sorted(
            path.name
            for (of, path), entry in self.temporary.items()
            if of == kind and (path.catalog, path.database) == current and (only is None or isinstance(entry, only))
        )

    def function(self, parts: Sequence[str], of_tables: bool = False) -> CatalogFunction | None:
        """A user's function: of the system, then temporary, then of a catalog; most built-in ones hide the last two.

        Built-in ones hide nothing where a table function is wanted (``of_tables``).
        """
        if len(parts) == 1:
            from funken.expr.sql.functions import FUNCTIONS  # noqa: PLC0415 - loads Arrow

            system = self.system_functions.get(parts[0].upper())
            hidden = not of_tables and parts[0] in FUNCTIONS and parts[0].upper() not in _OF_SQL_ALONE
            if system is not None or hidden:
                return system
        found = self.find("function", parts)
        return found if isinstance(found, CatalogFunction) else None

    def create_system_function(self, name: str, entry: CatalogFunction, if_not_exists: bool = False) -> None:
        """Give a function a name of one part, which hides a built-in one; raises ``InvalidTable`` if it is taken."""
        if name.upper() in self.system_functions:
            if if_not_exists:
                return
            raise InvalidTable(f"Temporary system function {name} already exists. Drop it before.")
        self.system_functions[name.upper()] = entry
