"""``pyflink.table.catalog``: catalogs with PyFlink's names, their objects, paths, and parts of a resolved schema.

``Catalog`` is a view of one of Funken's catalogs; ``TableEnvironment.get_catalog`` returns it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import total_ordering
from typing import Any

from funken.compat.pyflink.adoption import refuse
from funken.compat.pyflink.exceptions import (
    DatabaseAlreadyExistException,
    DatabaseNotEmptyException,
    DatabaseNotExistException,
    FunctionAlreadyExistException,
    FunctionNotExistException,
    ModelAlreadyExistException,
    ModelNotExistException,
    PartitionAlreadyExistsException,
    PartitionNotExistException,
    PartitionSpecInvalidException,
    TableAlreadyExistException,
    TableNotExistException,
    TableNotPartitionedException,
)
from funken.compat.pyflink.members import gets, method
from funken.compat.pyflink.older_tables import TableSchema
from funken.errors import InvalidProgram
from funken.table import catalog as native
from funken.table.schema import Schema
from funken.table.types import quoted


@total_ordering
class ObjectPath:
    """A database and the name of an object in it.

    >>> str(ObjectPath.from_string("db.orders")), ObjectPath("a", "b") < ObjectPath("a", "c")
    ('db.orders', True)
    """

    def __init__(self, database_name: str, object_name: str) -> None:
        self._database = database_name
        self._name = object_name

    @staticmethod
    def from_string(full_name: str) -> ObjectPath:
        """Return the path of ``database.name``; raises ``ValueError`` for anything else."""
        database, dot, name = full_name.partition(".")
        if not dot or not database or not name or "." in name:
            raise ValueError(f"{full_name!r} is no path of an object; write 'database.name'.")
        return ObjectPath(database, name)

    get_database_name = gets[str]("_database", "Return the database.")
    get_object_name = gets[str]("_name", "Return the name of the object.")

    def get_full_name(self) -> str:
        """Return ``database.name``."""
        return f"{self._database}.{self._name}"

    def __str__(self) -> str:
        return self.get_full_name()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and str(self) == str(other)

    def __lt__(self, other: Any) -> bool:
        if not isinstance(other, ObjectPath):
            return NotImplemented
        return str(self) < str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class ObjectIdentifier(ObjectPath):
    """A catalog, a database, and the name of an object in it.

    >>> str(ObjectIdentifier.of("c", "db", "orders"))
    'c.db.orders'
    """

    def __init__(self, catalog_name: str, database_name: str, object_name: str) -> None:
        super().__init__(database_name, object_name)
        self._catalog = catalog_name

    @staticmethod
    def of(catalog_name: str, database_name: str, object_name: str) -> ObjectIdentifier:
        """Return an identifier."""
        return ObjectIdentifier(catalog_name, database_name, object_name)

    get_catalog_name = gets[str]("_catalog", "Return the catalog.")

    def to_object_path(self) -> ObjectPath:
        """Return the path in the catalog."""
        return ObjectPath(self.get_database_name(), self.get_object_name())

    def to_list(self) -> list[str]:
        """Return the three names."""
        return [self._catalog, self.get_database_name(), self.get_object_name()]

    def as_serializable_string(self) -> str:
        """Return the path with every part in backticks."""
        return ".".join(map(quoted, self.to_list()))

    def as_summary_string(self) -> str:
        """Return ``catalog.database.name``."""
        return self.get_full_name()

    def get_full_name(self) -> str:
        """Return ``catalog.database.name``."""
        return f"{self._catalog}.{super().get_full_name()}"


# ---- what catalogs keep


def _schema(given: Any) -> Schema:
    """Return a schema that may be of the older class."""
    if isinstance(given, TableSchema):
        return Schema.new_builder().from_fields(given.get_field_names(), given.get_field_data_types()).build()
    found: Schema = given
    return found


class _Kept:
    """The base of the objects in a catalog."""

    comment: str | None
    properties: dict[str, str]

    get_comment = gets[str | None]("comment", "Return the comment.")

    def copy(self) -> Any:
        """Return a copy."""
        return copy.deepcopy(self)

    get_description = gets[str | None]("comment", "Return the comment.")
    get_detailed_description = gets[str | None]("comment", "Return the comment.")


class CatalogDatabase(_Kept):
    """A database: its properties and comment.

    >>> CatalogDatabase.create_instance({"owner": "ada"}, "orders").get_properties()
    {'owner': 'ada'}
    """

    def __init__(self, properties: Mapping[str, str], comment: str | None = None) -> None:
        self.properties, self.comment = dict(properties), comment

    @staticmethod
    def create_instance(properties: Mapping[str, str], comment: str | None = None) -> CatalogDatabase:
        """Return a database."""
        return CatalogDatabase(properties, comment)

    get_properties = gets[dict[str, str]]("properties", "Return the properties.", dict)


class CatalogBaseTable(_Kept):
    """A table or view of a catalog."""

    def __init__(
        self, schema: Any, properties: Mapping[str, str], comment: str | None = None,
        partition_keys: Sequence[str] = (), query: str | None = None, entry: Any = None,
    ) -> None:  # fmt: skip
        self.schema, self.properties, self.comment = schema, dict(properties), comment
        self.partition_keys, self.query, self.entry = list(partition_keys), query, entry

    @staticmethod
    def create_table(
        schema: Any, partition_keys: Sequence[str] = (), properties: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> CatalogBaseTable:  # fmt: skip
        """Return a table."""
        return CatalogBaseTable(_schema(schema), properties or {}, comment, partition_keys)

    @staticmethod
    def create_view(
        original_query: str, expanded_query: str, schema: Any, properties: Mapping[str, str],
        comment: str | None = None,
    ) -> CatalogBaseTable:  # fmt: skip
        """Return a view."""
        return CatalogBaseTable(_schema(schema), properties, comment, (), expanded_query or original_query)

    get_options = gets[dict[str, str]]("properties", "Return the options.", dict)

    def get_unresolved_schema(self) -> Schema:
        """Return the columns."""
        return _schema(self.schema)

    is_partitioned = gets[bool]("partition_keys", "Return True if there are partition keys.", bool)


class CatalogFunction(_Kept):
    """A function of a catalog: where its code is."""

    def __init__(self, class_name: str, function_language: str = "Python", entry: Any = None) -> None:
        self.class_name, self.language, self.entry = class_name, function_language, entry
        self.properties, self.comment = {}, "This is a user-defined function"

    @staticmethod
    def create_instance(class_name: str, function_language: str = "Python") -> CatalogFunction:
        """Return a function; raises ``ValueError`` for an unknown language."""
        if function_language.lower() not in ("python", "java", "scala"):
            raise ValueError("function_language must be one of 'Python', 'Java' or 'Scala'")
        return CatalogFunction(class_name, function_language.upper())

    get_class_name = gets[str]("class_name", "Return the name of the class or function with the code.")
    get_function_language = gets[str]("language", "Return the language.")

    def get_options(self) -> dict[str, str]:
        """Return no options."""
        return {}


class CatalogModel(_Kept):
    """A model of a catalog: columns in and out, and options."""

    def __init__(
        self, input_schema: Schema, output_schema: Schema, options: Mapping[str, str], comment: str | None = None
    ) -> None:
        self.input_schema, self.output_schema = input_schema, output_schema
        self.properties, self.comment = dict(options), comment

    @staticmethod
    def create_model(
        input_schema: Schema, output_schema: Schema, options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> CatalogModel:  # fmt: skip
        """Return a model."""
        return CatalogModel(input_schema, output_schema, options or {}, comment)

    get_options = gets[dict[str, str]]("properties", "Return the options.", dict)


class CatalogPartition(_Kept):
    """A partition of a table."""

    def __init__(self, properties: Mapping[str, str], comment: str | None = None) -> None:
        self.properties, self.comment = dict(properties), comment

    @staticmethod
    def create_instance(properties: Mapping[str, str], comment: str | None = None) -> CatalogPartition:
        """Return a partition."""
        return CatalogPartition(properties, comment)

    get_properties = gets[dict[str, str]]("properties", "Return the properties.", dict)


class CatalogPartitionSpec:
    """The values of the partition keys, or of some of them."""

    def __init__(self, partition_spec: Mapping[str, str]) -> None:
        self._spec = dict(partition_spec)

    get_partition_spec = gets[dict[str, str]]("_spec", "Return the values by key.", dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CatalogPartitionSpec) and self._spec == other._spec

    def __hash__(self) -> int:
        return hash(frozenset(self._spec.items()))

    def __str__(self) -> str:
        return f"CatalogPartitionSpec{{{{{', '.join(f'{key}={value}' for key, value in self._spec.items())}}}}}"


class CatalogTableStatistics:
    """Numbers about a table, which no planner here asks for."""

    def __init__(
        self, row_count: int | None = None, field_count: int | None = None, total_size: int | None = None,
        raw_data_size: int | None = None, properties: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self._numbers = (row_count, field_count, total_size, raw_data_size)
        self._properties = dict(properties or {})

    def get_row_count(self) -> int | None:
        """Return the number of rows."""
        return self._numbers[0]

    def get_field_count(self) -> int | None:
        """Return the number of files."""
        return self._numbers[1]

    def get_total_size(self) -> int | None:
        """Return the size in bytes."""
        return self._numbers[2]

    def get_raw_data_size(self) -> int | None:
        """Return the size in bytes without compression."""
        return self._numbers[3]

    get_properties = gets[dict[str, str]]("_properties", "Return the properties.", dict)

    def copy(self) -> CatalogTableStatistics:
        """Return a copy."""
        return copy.deepcopy(self)


class CatalogColumnStatistics(CatalogTableStatistics):
    """Numbers about the columns of a table, which no planner here asks for."""


# ---- catalogs


class Catalog:
    """A catalog as PyFlink shows it: the result of ``TableEnvironment.get_catalog``.

    >>> catalog = Catalog(native.InMemoryCatalog("db"))
    >>> catalog.list_databases(), catalog.table_exists(ObjectPath("db", "t"))
    (['db'], False)
    """

    def __init__(self, catalog: native.Catalog) -> None:
        self.catalog = catalog

    # -- databases

    def get_default_database(self) -> str:
        """Return the database to use if none is named."""
        return self.catalog.default_database

    def list_databases(self) -> list[str]:
        """Return the names of the databases, as they were created."""
        return list(self.catalog.databases())

    def get_database(self, database_name: str) -> CatalogDatabase:
        """Return a database."""
        self._check_database(database_name)
        found = self.catalog.databases()[database_name]
        return CatalogDatabase(dict(found.properties), found.comment)

    def database_exists(self, database_name: str) -> bool:
        """Return True if there is a database."""
        return database_name in self.catalog.databases()

    def create_database(self, name: str, database: CatalogDatabase, ignore_if_exists: bool) -> None:
        """Create a database."""
        if self.database_exists(name):
            if not ignore_if_exists:
                raise DatabaseAlreadyExistException(f"Database {name} already exists.")
            return
        self._put_database(name, database)

    def _put_database(self, name: str, database: CatalogDatabase) -> None:
        kept = native.CatalogDatabase(tuple(database.get_properties().items()), database.get_comment())
        self.catalog.create_database(name, kept)

    def drop_database(self, name: str, ignore_if_exists: bool) -> None:
        """Drop a database without objects."""
        if not self.database_exists(name):
            if not ignore_if_exists:
                raise DatabaseNotExistException(f"Database {name} does not exist.")
            return
        if any(self.catalog.objects(name, kind) for kind in ("table", "function", "model")):
            raise DatabaseNotEmptyException(f"Database {name} is not empty.")
        self.catalog.drop_database(name)

    def alter_database(self, name: str, new_database: CatalogDatabase, ignore_if_not_exists: bool) -> None:
        """Change the properties of a database."""
        if self.database_exists(name):
            self._put_database(name, new_database)
        elif not ignore_if_not_exists:
            raise DatabaseNotExistException(f"Database {name} does not exist.")

    def _check_database(self, name: str) -> None:
        if not self.database_exists(name):
            raise DatabaseNotExistException(f"Database {name} does not exist.")

    # -- objects

    def _find(self, path: ObjectPath, kind: str) -> Any:
        return self.catalog.get(path.get_database_name(), kind, path.get_object_name())

    def _put(self, path: ObjectPath, kind: str, entry: Any) -> None:
        self.catalog.put(path.get_database_name(), kind, path.get_object_name(), entry)

    def _create(self, path: ObjectPath, kind: str, entry: Any, ignore_if_exists: bool) -> None:
        self._check_database(path.get_database_name())
        if self._find(path, kind) is None:
            self._put(path, kind, entry)
        elif not ignore_if_exists:
            raise _EXISTS[kind](f"{kind.capitalize()} {path} already exists.")

    def _alter(self, path: ObjectPath, kind: str, entry: Any, ignore_if_not_exists: bool) -> None:
        if self._find(path, kind) is not None:
            self._put(path, kind, entry)
        elif not ignore_if_not_exists:
            raise _MISSING[kind](f"{kind.capitalize()} {path} does not exist.")

    def _drop(self, path: ObjectPath, kind: str, ignore_if_not_exists: bool) -> None:
        if self._find(path, kind) is not None:
            self.catalog.remove(path.get_database_name(), kind, path.get_object_name())
            self._kept_partitions().pop(str(path), None)
        elif not ignore_if_not_exists:
            raise _MISSING[kind](f"{kind.capitalize()} {path} does not exist.")

    def _rename(self, path: ObjectPath, kind: str, name: str, ignore_if_not_exists: bool) -> None:
        entry = self._find(path, kind)
        if entry is None:
            if not ignore_if_not_exists:
                raise _MISSING[kind](f"{kind.capitalize()} {path} does not exist.")
            return
        target = ObjectPath(path.get_database_name(), name)
        if self._find(target, kind) is not None:
            raise _EXISTS[kind](f"{kind.capitalize()} {target} already exists.")
        self._put(target, kind, entry)
        self._drop(path, kind, False)

    def _names(self, database_name: str, kind: str, only: type | None = None) -> list[str]:
        self._check_database(database_name)
        objects = self.catalog.objects(database_name, kind)
        return sorted(name for name, entry in objects.items() if only is None or isinstance(entry, only))

    def _got(self, path: ObjectPath, kind: str) -> Any:
        entry = self._find(path, kind)
        if entry is None:
            raise _MISSING[kind](f"{kind.capitalize()} {path} does not exist.")
        return entry

    # -- their names; ``_object_methods`` has the other methods

    def list_tables(self, database_name: str) -> list[str]:
        """Return the names of the tables and views of a database."""
        return self._names(database_name, "table")

    def list_views(self, database_name: str) -> list[str]:
        """Return the names of the views of a database."""
        return self._names(database_name, "table", native.CatalogView)

    def list_materialized_tables(self, database_name: str) -> list[str]:
        """Return no names: there are no materialized tables."""
        self._check_database(database_name)
        return []

    def list_functions(self, database_name: str) -> list[str]:
        """Return the names of the functions of a database."""
        return self._names(database_name, "function")

    def list_procedures(self, database_name: str) -> list[str]:
        """Return no names: there are no procedures."""
        self._check_database(database_name)
        return []

    def list_models(self, database_name: str) -> list[str]:
        """Return the names of the models of a database."""
        return self._names(database_name, "model")

    # -- partitions: kept for programs that ask for them; tables of files find theirs in the names of folders

    def _partitions_of(self, path: ObjectPath, spec: CatalogPartitionSpec | None, whole: bool = True) -> Any:
        """Return the partitions of a table by their values; raises for a table without, or for keys that are not its own."""
        table = self.get_table(path)
        if not table.is_partitioned():
            raise TableNotPartitionedException(f"Table {path} is not partitioned.")
        given = spec.get_partition_spec() if spec is not None else {}
        wanted = set(table.partition_keys)
        if not set(given) <= wanted or (whole and set(given) != wanted):
            raise PartitionSpecInvalidException(f"{spec} does not have the keys {table.partition_keys} of {path}.")
        return self._kept_partitions().setdefault(str(path), {})

    def _kept_partitions(self) -> dict[str, dict[CatalogPartitionSpec, CatalogPartition]]:
        found: dict[str, dict[CatalogPartitionSpec, CatalogPartition]] = self.catalog.__dict__.setdefault(
            "_partitions", {}
        )
        return found

    def list_partitions(
        self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec | None = None
    ) -> list[CatalogPartitionSpec]:
        """Return the partitions that have some values."""
        kept = self._partitions_of(table_path, partition_spec, whole=False)
        given = partition_spec.get_partition_spec() if partition_spec is not None else {}
        return [spec for spec in kept if given.items() <= spec.get_partition_spec().items()]

    def partition_exists(self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec) -> bool:
        """Return True if there is a partition."""
        return self.table_exists(table_path) and partition_spec in self._kept_partitions().get(str(table_path), {})

    def get_partition(self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec) -> CatalogPartition:
        """Return a partition."""
        try:
            found: CatalogPartition = self._partitions_of(table_path, partition_spec)[partition_spec]
        except (KeyError, TableNotExistException, TableNotPartitionedException, PartitionSpecInvalidException):
            raise PartitionNotExistException(f"Table {table_path} has no partition {partition_spec}.") from None
        return found

    def create_partition(
        self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec, partition: CatalogPartition,
        ignore_if_exists: bool,
    ) -> None:  # fmt: skip
        """Create a partition."""
        kept = self._partitions_of(table_path, partition_spec)
        if partition_spec in kept and not ignore_if_exists:
            raise PartitionAlreadyExistsException(f"Table {table_path} has the partition {partition_spec} already.")
        kept.setdefault(partition_spec, partition)

    def alter_partition(
        self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec, new_partition: CatalogPartition,
        ignore_if_not_exists: bool,
    ) -> None:  # fmt: skip
        """Replace a partition."""
        if self.partition_exists(table_path, partition_spec):
            self._partitions_of(table_path, partition_spec)[partition_spec] = new_partition
        elif not ignore_if_not_exists:
            raise PartitionNotExistException(f"Table {table_path} has no partition {partition_spec}.")

    def drop_partition(
        self, table_path: ObjectPath, partition_spec: CatalogPartitionSpec, ignore_if_not_exists: bool
    ) -> None:
        """Drop a partition."""
        if self.partition_exists(table_path, partition_spec):
            del self._partitions_of(table_path, partition_spec)[partition_spec]
        elif not ignore_if_not_exists:
            raise PartitionNotExistException(f"Table {table_path} has no partition {partition_spec}.")

    def __getattr__(self, name: str) -> Any:
        if "statistics" in name:
            raise AttributeError(f"Catalog.{name}() is not there: plans need no statistics. Leave the call out.")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class HiveCatalog(Catalog):
    """Raises: a metastore of Hive is reached through Spark."""

    def __init__(
        self, catalog_name: str, default_database: str | None = None, hive_conf_dir: str | None = None,
        hadoop_conf_dir: str | None = None, hive_version: str | None = None,
    ) -> None:  # fmt: skip
        refuse(
            f"HiveCatalog({catalog_name!r})",
            "Read its tables with Spark and from_spark(), or create the catalog with CREATE CATALOG of a type that is there.",
        )


class JdbcCatalog(Catalog):
    """Raises: tables of a database are declared one by one."""

    def __init__(self, catalog_name: str, default_database: str, username: str, pwd: str, base_url: str) -> None:
        refuse(
            f"JdbcCatalog({catalog_name!r})",
            "Declare its tables with CREATE TABLE .. WITH ('connector' = 'jdbc', 'url' = '..', 'table-name' = '..').",
        )


class Procedure:
    """Raises: there are no procedures."""

    def __init__(self, *args: Any) -> None:
        refuse("Procedure", "Use a function.")


_EXISTS = {"table": TableAlreadyExistException, "function": FunctionAlreadyExistException,
           "model": ModelAlreadyExistException}  # fmt: skip
_MISSING = {"table": TableNotExistException, "function": FunctionNotExistException, "model": ModelNotExistException}


def kept_table(table: CatalogBaseTable) -> Any:
    """Return a table or view as catalogs keep it."""
    if table.entry is not None:
        return table.entry
    schema = table.get_unresolved_schema()
    if any(column.is_computed for column in schema.columns):
        raise InvalidProgram(
            "a table with computed columns is created with TableEnvironment.create_table(), which finds their types."
        )
    if table.query is not None:
        return native.CatalogView(table.query, schema.columns, table.comment)
    return native.CatalogTable(
        schema.columns, tuple(sorted(table.properties.items())), next(iter(schema.watermarks), None), schema.key,
        schema.key_name or None, tuple(table.partition_keys), None, table.comment,
    )  # fmt: skip


def shown_table(entry: Any) -> CatalogBaseTable:
    """Return a table or view of a catalog as PyFlink shows it."""
    schema = _columns_of(entry.columns)
    if isinstance(entry, native.CatalogView):
        return CatalogBaseTable(schema, {}, entry.comment, (), entry.query, entry)
    builder = Schema.new_builder().from_schema(schema)
    if entry.watermark is not None:
        builder.watermark(entry.watermark.column, entry.watermark.expression)
    if entry.primary_key:
        named = entry.key_name is not None
        builder.primary_key_named(entry.key_name, *entry.primary_key) if named else builder.primary_key(
            *entry.primary_key
        )
    return CatalogBaseTable(builder.build(), dict(entry.options), entry.comment, entry.partition_keys, None, entry)


def _columns_of(columns: Sequence[Any]) -> Schema:
    builder = Schema.new_builder()
    for column in columns:
        if column.is_computed:
            builder.column_by_expression(column.name, column.expression)
        elif column.is_metadata:
            key = None if column.metadata_key == column.name else column.metadata_key
            builder.column_by_metadata(column.name, column.type, key, column.virtual)
        else:
            builder.column(column.name, column.type)
    return builder.build()


def _physical(schema: Schema) -> list[tuple[str, Any]]:
    return [(column.name, column.type) for column in schema.columns if column.is_physical]


def _kept_function(function: CatalogFunction) -> Any:
    return function.entry or native.CatalogFunction(function.class_name, function.language)


def _kept_model(model: CatalogModel) -> Any:
    parts = [
        tuple(native.TableColumn(name, type_) for name, type_ in _physical(schema))
        for schema in (model.input_schema, model.output_schema)
    ]
    return native.CatalogModel(parts[0], parts[1], tuple(sorted(model.properties.items())), model.comment)


def _shown_function(entry: Any) -> CatalogFunction:
    return CatalogFunction(entry.target, entry.language, entry)


def _shown_model(entry: Any) -> CatalogModel:
    return CatalogModel(_columns_of(entry.inputs), _columns_of(entry.outputs), dict(entry.options), entry.comment)


def _object_methods(kind: str, keep: Callable[[Any], Any], show: Callable[[Any], Any]) -> Iterator[tuple[str, Any]]:
    """Yield the methods of a catalog for tables, functions or models, by their names."""
    path, what = f"{kind}_path", "table or view" if kind == "table" else kind

    def create(self: Catalog, path: ObjectPath, made: Any, ignore_if_exists: bool) -> None:
        self._create(path, kind, keep(made), ignore_if_exists)

    def alter(self: Catalog, path: ObjectPath, made: Any, ignore_if_not_exists: bool) -> None:
        self._alter(path, kind, keep(made), ignore_if_not_exists)

    def drop(self: Catalog, path: ObjectPath, ignore_if_not_exists: bool) -> None:
        self._drop(path, kind, ignore_if_not_exists)

    def rename(self: Catalog, path: ObjectPath, name: str, ignore_if_not_exists: bool) -> None:
        self._rename(path, kind, name, ignore_if_not_exists)

    there = method(path, lambda self, path: self._find(path, kind) is not None, f"Return True if there is a {what}.")
    yield f"{kind}_exists", there
    yield f"get_{kind}", method(path, lambda self, path: show(self._got(path, kind)), f"Return a {what}.")
    yield f"create_{kind}", method(f"{path}, {kind}, ignore_if_exists", create, f"Create a {what}.")
    yield f"alter_{kind}", method(f"{path}, new_{kind}, ignore_if_not_exists", alter, f"Replace a {what}.")
    yield f"drop_{kind}", method(f"{path}, ignore_if_not_exists", drop, f"Drop a {what}.")
    if kind != "function":
        parameters = f"{path}, new_{kind}_name, ignore_if_not_exists"
        yield f"rename_{kind}", method(parameters, rename, f"Rename a {what}.")


for _of_kind in (
    _object_methods("table", kept_table, shown_table),
    _object_methods("function", _kept_function, _shown_function),
    _object_methods("model", _kept_model, _shown_model),
):
    for _name, _member in _of_kind:
        setattr(Catalog, _name, _member)

PASSED_ON = {
    "funken.compat.pyflink.schemas": (
        "Column ComputedColumn Constraint MetadataColumn PhysicalColumn ResolvedSchema UniqueConstraint WatermarkSpec"
    ),
    "funken.table.descriptors": "CatalogDescriptor",
}
