"""Table environments and tables with all that PyFlink's have, of this major version and of the one before."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from funken.api.streams.settings import typed
from funken.api.streams.stream import DataStream
from funken.compat.pyflink.adoption import JavaObject, adopt, adopting, removed
from funken.compat.pyflink.catalogs import Catalog, ObjectIdentifier
from funken.compat.pyflink.data_types import stored_elements
from funken.compat.pyflink.dependencies import Dependencies
from funken.compat.pyflink.environment import RuntimeExecutionMode, StreamExecutionEnvironment
from funken.compat.pyflink.members import ignores, renamed
from funken.compat.pyflink.older_expressions import expression_of, expressions_of, interval_of, split
from funken.compat.pyflink.older_tables import ConnectTableDescriptor, TableSchema, TableSource
from funken.compat.pyflink.schemas import ResolvedSchema
from funken.compat.pyflink.settings import Configuration
from funken.config import default_configuration
from funken.dataclass import dataclass
from funken.io.durations import duration_ms
from funken.table import config as native_config
from funken.table import environment as native
from funken.table import result as results
from funken.table import statement_set
from funken.table import table as tables
from funken.table import window as windows
from funken.table.conversions import as_declared, each_change, fields_of_rows
from funken.table.expression import Expression
from funken.table.logical import LogicalSink, OutputColumn
from funken.table.types import LocalZonedTimestampType
from funken.types.info import JavaTimeTypeInfo, TypeInformation, Types
from funken.types.row import Row
from funken.types.text import instant_of_datetime, written

# ---- environments


@adopting(native_config.TableConfig)
class TableConfig(native_config.TableConfig):
    """The options of a table environment; the program may have keys of its own.

    >>> TableConfig.get_default().set("my.key", "1").get("my.key", "")
    '1'
    """

    def __init__(self, configuration: Any = None) -> None:
        super().__init__(Configuration() if configuration is None else configuration)

    def get_configuration(self) -> Configuration:
        """Return all options, those of tables and those of the job; changes to it take effect."""
        found = Configuration()
        found._values = _Options(self)  # type: ignore[assignment]
        return found

    def option(self, key: str) -> Any:
        """Return an option's value; a query may have other keys than its sink, as until PyFlink 2.2, unless set otherwise."""
        if key == "table.exec.sink.require-on-conflict" and self._given(key) is None:
            return False
        return super().option(key)

    def set_idle_state_retention_time(self, min_time: Any, max_time: Any = None) -> TableConfig:
        """Set the lifetime of unchanged state: the shorter of two times; gone since PyFlink 1.14."""
        removed("set_idle_state_retention_time()", "use set_idle_state_retention().")
        return self.set("table.exec.state.ttl", duration_ms(min_time))  # type: ignore[return-value]

    set_null_check = ignores("null_check", "Accept and ignore: NULL is always looked for; gone since PyFlink 1.16.")
    set_decimal_context = ignores("decimal_context", "Accept and ignore: the types say it; gone since PyFlink 1.16.")

    @staticmethod
    def get_default() -> TableConfig:
        """Return a configuration without settings."""
        return TableConfig()


class _Options(MutableMapping[str, Any]):
    """The options of tables and of the job as one mapping."""

    def __init__(self, config: TableConfig) -> None:
        self._config = config

    def _place(self, key: str) -> dict[str, Any]:
        """Return where an option is set: one of tables may be among those of the job."""
        job: dict[str, Any] = self._config._configuration._values
        tables: dict[str, Any] = self._config._values
        return tables if key in tables else job

    def __getitem__(self, key: str) -> Any:
        return self._place(key)[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._place(key)[key] = value

    def __delitem__(self, key: str) -> None:
        del self._place(key)[key]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._config._configuration._values, **self._config._values})

    def __len__(self) -> int:
        return len(set(self))


class EnvironmentSettings(native.EnvironmentSettings):
    """The mode of queries (streams or batches), and the names of the catalog and database that exist at first.

    >>> EnvironmentSettings.new_instance().in_batch_mode().build().is_streaming_mode()
    False
    """

    class Builder(native.EnvironmentSettings.Builder):
        """Collects settings."""

        def use_blink_planner(self) -> EnvironmentSettings.Builder:
            """Accept: there is one planner; gone since PyFlink 1.14."""
            removed("use_blink_planner()", "leave it out: there is one planner.")
            return self

        use_any_planner = use_old_planner = use_blink_planner

    @staticmethod
    def new_instance() -> EnvironmentSettings.Builder:
        """Return a builder."""
        return EnvironmentSettings.Builder()


class ModuleEntry(tuple[str, bool]):
    """A module, and whether it is in use."""

    def __new__(cls, name: str, used: bool) -> ModuleEntry:
        """Make an entry."""
        return super().__new__(cls, (name, used))

    def name(self) -> str:
        """Return the name."""
        return self[0]

    def used(self) -> bool:
        """Return whether the module is in use."""
        return self[1]

    def __str__(self) -> str:
        return f"ModuleEntry{{name='{self[0]}', used={str(self[1]).lower()}}}"


@adopting(results.TableResult)
class TableResult(results.TableResult):
    """The result of a statement."""

    def get_resolved_schema(self) -> ResolvedSchema:
        """Return the columns of the result."""
        return ResolvedSchema.adopted(super().get_resolved_schema())

    def get_table_schema(self) -> TableSchema:
        """Return the columns of the result (the older name)."""
        return TableSchema.of(self.get_resolved_schema())


@adopting(statement_set.StatementSet)
class StatementSet(statement_set.StatementSet):
    """INSERTs that run as one job."""


@adopting(native.TableEnvironment)
class TableEnvironment(native.TableEnvironment):
    """A session of SQL and the Table API.

    >>> from funken.table.expressions import col
    >>> t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    >>> t_env.from_elements([(1, "a")], ["n", "text"]).select(col("n")).get_schema().get_field_names()
    ['n']
    """

    @staticmethod
    def create(environment_settings: Any = None, *older: Any) -> TableEnvironment:
        """Return an environment; options may be given instead of settings."""
        if isinstance(environment_settings, StreamExecutionEnvironment):  # until 1.10
            return StreamTableEnvironment.create(environment_settings, *older)
        settings = native._settings(environment_settings)
        return TableEnvironment(StreamExecutionEnvironment.get_execution_environment(), settings)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name != "_j_tenv":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            instead = "Use the methods of the table environment, and env.set_parallelism(...)."
            place = f"{type(self).__name__}.{name}"
            exec_env = JavaObject(
                f"{place}.getPlanner().getExecEnv()",
                {"setParallelism": self.stream_environment.set_parallelism},
                instead,
            )
            planner = JavaObject(f"{place}.getPlanner()", {"getExecEnv": lambda: exec_env}, instead)
            return JavaObject(place, {"getPlanner": lambda: planner}, instead)

    def from_elements(self, elements: Iterable[object], schema: object = None, verify_schema: bool = True) -> Table:
        """Return rows of the program as a table; objects of a ``UserDefinedType`` are stored as its ``sql_type()``."""
        return _table(super().from_elements(stored_elements(elements, schema), schema, verify_schema))

    def get_catalog(self, catalog_name: str) -> Catalog | None:  # type: ignore[override]
        """Return a catalog by name; ``None`` if there is none."""
        found = self.catalogs.catalogs.get(catalog_name)
        return None if found is None else Catalog(found)

    def list_full_modules(self) -> list[tuple[str, bool]]:
        """Return all modules, each with whether it is in use."""
        return [ModuleEntry(*each) for each in super().list_full_modules()]

    def register_catalog(self, catalog_name: str, catalog: Any) -> None:
        """Add a catalog."""
        super().register_catalog(catalog_name, catalog.catalog if isinstance(catalog, Catalog) else catalog)

    def collect(self, plan: Any, name: str | None = None, whole: bool = False) -> Any:
        """Submit the job of a query; values of its rows are as PyFlink gives them."""
        result = super().collect(plan, name, whole)
        result._rows = _Collected(result._rows, [_collected(type_) for type_ in plan.row_type.types])
        return result

    def job_environment(self, sinks: Any) -> Any:
        """Return where sinks become a job, and note whether it takes the streams of the program."""
        found = super().job_environment(sinks)
        if found is self.stream_environment and hasattr(found, "_remembered"):
            found._remembered["taken by tables"] = True
        return found

    def fresh_environment(self) -> Any:
        """Return an empty environment with the options of this one, and its Python files."""
        made: Any = adopt(super().fresh_environment())
        made._dependencies = getattr(self.stream_environment, "_dependencies", None) or Dependencies()
        made._remembered = {}
        return made

    # ---- until 1.13

    def connect(self, connector_descriptor: Any) -> ConnectTableDescriptor:
        """Describe a table by its connector."""
        removed("connect()", "use CREATE TABLE, or create_temporary_table() with a TableDescriptor.")
        return ConnectTableDescriptor(self, connector_descriptor)

    def register_function(self, name: str, function: object) -> None:
        """Register a function by a name."""
        removed("register_function()", "use create_temporary_system_function().")
        self.create_temporary_system_function(name, function)

    def register_table(self, name: str, table: Any) -> None:
        """Register a table by a name."""
        removed("register_table()", "use create_temporary_view().")
        self.create_temporary_view(name, table)

    def register_table_source(self, name: str, table_source: TableSource) -> None:
        """Register a source by a name."""
        removed("register_table_source()", "use CREATE TABLE.")
        self.create_temporary_table(name, table_source.descriptor())

    def register_table_sink(self, name: str, *sink: Any) -> None:
        """Register a sink by a name."""
        removed("register_table_sink()", "use CREATE TABLE.")
        self.create_temporary_table(name, sink[-1].descriptor())

    def register_java_function(self, name: str, function_class_name: str) -> NoReturn:
        """Raise: functions are Python here."""
        native._no_java(name, function_class_name)

    def from_table_source(self, table_source: TableSource) -> Table:
        """Read a source."""
        removed("from_table_source()", "use from_descriptor().")
        table: Table = self.from_descriptor(table_source.descriptor())  # type: ignore[assignment]
        return table

    def scan(self, *table_path: str) -> Table:
        """Read a table by the parts of its path."""
        removed("scan()", "use from_path().")
        return _table(tables.Table(self, self.plan_of(table_path)))

    def sql_update(self, stmt: str) -> None:
        """Run a definition now; keep an INSERT until ``execute()``."""
        removed("sql_update()", "use execute_sql(), which submits an INSERT at once.")
        if stmt.strip().upper().startswith("INSERT"):
            self._kept().append(stmt)
        else:
            self.execute_sql(stmt)

    def insert_into(self, target_path: str, table: tables.Table) -> None:
        """Keep an INSERT until ``execute()``."""
        removed("insert_into()", "use Table.execute_insert(), which submits it at once.")
        table.insert_into(target_path)

    def execute(self, job_name: str = "") -> Any:
        """Submit all INSERTs that were kept as one job, and wait for its end."""
        removed("TableEnvironment.execute()", "use execute_sql() and Table.execute_insert(), which submit a job each.")
        from funken.table.execution import sinks_of  # noqa: PLC0415 - loads the parser

        kept = self._kept()
        sinks: list[LogicalSink] = []
        for each in kept:
            sinks += [each] if isinstance(each, LogicalSink) else sinks_of(self, each)
        kept.clear()
        if not sinks:
            return self._started(job_name)
        result = self.insert(sinks, job_name or None)
        client = result.get_job_client()
        return None if client is None else client.get_job_execution_result().result()

    def _started(self, job_name: str) -> Any:
        """Submit the program's streams; there are none if this session has no streams."""
        return self.stream_environment.execute(job_name or None)

    def explain(self, table: Any = None, extended: bool = False) -> str:
        """Return the plans of a table."""
        removed("TableEnvironment.explain()", "use Table.explain() or explain_sql().")
        return "" if table is None else str(table.explain())

    def _kept(self) -> list[Any]:
        """Return the INSERTs that were not submitted yet."""
        kept: list[Any] = self.__dict__.setdefault("_inserts_until_execute", [])
        return kept

    def pipeline(self, sink: LogicalSink) -> tables.TablePipeline:
        """Return a table on its way into another, which ``execute()`` submits unless the program does."""
        self._kept().append(sink)
        return _Pipeline(self, sink)


Convert = Callable[[Any], Any]
_float_text = written(Types.FLOAT())


class _Collected:
    """Rows whose values are those of PyFlink: a FLOAT has its shortest digits, nested rows have no names."""

    def __init__(self, rows: Any, converts: list[Convert | None]) -> None:
        self._rows = rows
        self._converts = [(place, convert) for place, convert in enumerate(converts) if convert is not None]

    def __iter__(self) -> _Collected:
        return self

    def __next__(self) -> Row:
        row: Row = next(self._rows)
        for place, convert in self._converts:
            value = row[place]
            if value is not None:
                row[place] = convert(value)
        return row

    def close(self) -> None:
        """Cancel the job."""
        self._rows.close()


def _collected(type_: Any) -> Convert | None:
    """Return the conversion to PyFlink's values of a type; ``None``: they are the same."""
    kind = type(type_).__name__
    if kind == "FloatType":
        return lambda value: float(_float_text(value)) if math.isfinite(value) else value
    if kind == "RowType":
        fields = [_or_same(each) for each in type_.types]
        return lambda row: Row(*(convert(value) for convert, value in zip(fields, row, strict=True)))
    if kind == "ArrayType":
        one = _collected(type_.element)
        return None if one is None else _for_each(_or_same(type_.element))
    if kind == "MapType":
        item = _collected(type_.value)
        kept = _or_same(type_.value)
        return None if item is None else lambda value: {key: kept(each) for key, each in value.items()}
    return None


def _or_same(type_: Any) -> Convert:
    convert = _collected(type_)
    return lambda value: value if convert is None or value is None else convert(value)


def _for_each(convert: Convert) -> Convert:
    return lambda values: [convert(value) for value in values]


class _Pipeline(tables.TablePipeline):
    """A pipeline that either ``execute()`` of the environment submits, or the program."""

    def get_sink_identifier(self) -> ObjectIdentifier | None:  # type: ignore[override]
        """Return the path of the table that is written; ``None`` for one without a name."""
        path = self.sink.table.path if self.sink.table is not None else None
        if path is None or path.name.startswith("*anonymous"):
            return None
        return ObjectIdentifier(path.catalog, path.database, path.name)

    def taken(self) -> LogicalSink:
        """Return the sink, which is no longer submitted with the environment's others."""
        environment: Any = self._environment
        kept = environment._kept()
        kept[:] = [each for each in kept if each is not self.sink]
        return self.sink


@adopting(native.StreamTableEnvironment)
class StreamTableEnvironment(TableEnvironment, native.StreamTableEnvironment):
    """A table environment over a ``StreamExecutionEnvironment``: streams become tables, and tables streams."""

    @staticmethod
    def create(  # type: ignore[override]
        stream_execution_environment: Any = None,
        environment_settings: Any = None,
        *older: native.EnvironmentSettings,
        table_config: Any = None,
    ) -> StreamTableEnvironment:
        """Return an environment; without settings the mode is that of the stream environment."""
        if older:  # the settings came third until 1.14
            table_config, environment_settings = environment_settings, *older
        if isinstance(stream_execution_environment, native.EnvironmentSettings):
            stream_execution_environment, environment_settings = None, stream_execution_environment
        if isinstance(environment_settings, TableConfig):  # the second argument until 1.13
            table_config, environment_settings = environment_settings, None
        given = stream_execution_environment or StreamExecutionEnvironment.get_execution_environment()
        made = native.StreamTableEnvironment.create(given, environment_settings)
        found: StreamTableEnvironment = adopt(made)
        if table_config is not None:
            for key, value in table_config.to_map().items():
                found.get_config().set(key, value)
        return found

    def from_data_stream(self, data_stream: DataStream[Any], *fields_or_schema: object) -> Table:
        """Return a stream of insertions as a table."""
        return _table(super().from_data_stream(data_stream, *fields_or_schema))

    def from_changelog_stream(self, data_stream: Any, schema: Any = None, changelog_mode: Any = None) -> Table:
        """Return a stream of rows with row kinds as a table."""
        return _table(super().from_changelog_stream(data_stream, schema, changelog_mode))

    def to_data_stream(self, table: tables.Table, target_data_type: object = None) -> DataStream[Row]:
        """Return the rows of a table that only grows as a stream; a TIMESTAMP_LTZ is an ``Instant``."""
        changes = adopt(super().to_data_stream(table, target_data_type))
        rows: DataStream[Row] = _with_instants(table.plan.row_type, changes)
        return rows

    def to_changelog_stream(
        self, table: tables.Table, target_schema: Any = None, changelog_mode: Any = None
    ) -> DataStream[Row]:
        """Return the changes of a table as a stream of rows with row kinds; a TIMESTAMP_LTZ is an ``Instant``."""
        table = as_declared(table, target_schema)
        changes = adopt(super().to_changelog_stream(table, target_schema, changelog_mode))
        rows: DataStream[Row] = _with_instants(fields_of_rows(table, target_schema), changes)
        return rows

    def to_append_stream(self, table: tables.Table, type_info: Any = None) -> DataStream[Row]:
        """Return the rows of a table that only grows as a stream (until 1.14)."""
        made: DataStream[Any] = _with_instants(table.plan.row_type, adopt(super().to_append_stream(table, type_info)))
        if type_info is None:
            return made
        names = getattr(type_info, "field_names", None) or [f"f{place}" for place in range(len(table.names))]
        return typed(each_change(made, WithNames(tuple(names)), "names"), type_info)

    def to_retract_stream(self, table: tables.Table, type_info: object = None) -> DataStream[tuple[bool, Row]]:
        """Return the changes of a table as pairs: whether the row is added, and the row with the names of ``type_info``."""
        names = getattr(type_info, "field_names", None) or [f"f{place}" for place in range(len(table.names))]
        rows = adopt(super().to_retract_stream(table, type_info))
        pairs: DataStream[tuple[bool, Row]] = each_change(rows, ToNamedPairs(tuple(names)), "pairs")
        return pairs


def _with_instants(columns: Iterable[OutputColumn], stream: Any) -> Any:
    """Return a stream whose rows have ``Instant``s, and whose type is known, so that sinks write rows as Flink does."""
    fields = list(columns)
    places = tuple(place for place, each in enumerate(fields) if isinstance(each.type, LocalZonedTimestampType))
    made = each_change(stream, ToInstants(places), "instants") if places else stream
    return typed(made, Types.ROW_NAMED([each.name for each in fields], [info_of(each.type) for each in fields]))


_INFOS: dict[str, Callable[[], TypeInformation]] = {
    "BooleanType": Types.BOOLEAN, "TinyIntType": Types.BYTE, "SmallIntType": Types.SHORT, "IntType": Types.INT,
    "BigIntType": Types.LONG, "FloatType": Types.FLOAT, "DoubleType": Types.DOUBLE, "VarCharType": Types.STRING,
    "CharType": Types.STRING, "DecimalType": Types.BIG_DEC, "LocalZonedTimestampType": Types.INSTANT,
    "TimestampType": JavaTimeTypeInfo, "TimeOfDayType": JavaTimeTypeInfo,
}  # fmt: skip


def info_of(type_: Any) -> TypeInformation:
    """Return the type of a record's field for the type of a column.

    >>> from funken.table import DataTypes
    >>> info_of(DataTypes.ARRAY(DataTypes.INT()))
    ListTypeInfo<Integer>
    """
    kind = type(type_).__name__
    if kind in _INFOS:
        return _INFOS[kind]()
    if kind == "ArrayType":
        return Types.LIST(info_of(type_.element))
    if kind == "MapType":
        return Types.MAP(info_of(type_.key), info_of(type_.value))
    if kind == "RowType":
        return Types.ROW_NAMED(list(type_.names), [info_of(each) for each in type_.types])
    return Types.PICKLED_BYTE_ARRAY()


@dataclass(frozen=True)
class ToNamedPairs:
    """Adds names to the rows of pairs."""

    names: tuple[str, ...]

    def __call__(self, pair: tuple[bool, Row]) -> tuple[bool, Row]:
        """Return the pair."""
        pair[1].set_field_names(self.names)
        return pair


@dataclass(frozen=True)
class WithNames:
    """Adds names to rows."""

    names: tuple[str, ...]

    def __call__(self, row: Row) -> Row:
        """Return the row."""
        named = Row.of_kind(row.get_row_kind(), *row)
        named.set_field_names(self.names)
        return named


@dataclass(frozen=True)
class ToInstants:
    """Makes ``Instant``s of some values of rows."""

    places: tuple[int, ...]

    def __call__(self, row: Row) -> Row:
        """Return the row."""
        values = list(row)
        for place in self.places:
            values[place] = None if values[place] is None else instant_of_datetime(values[place])
        made = Row.of_kind(row.get_row_kind(), *values)
        if row._fields:
            made.set_field_names(row._fields)
        return made


class ExecutionEnvironment(StreamExecutionEnvironment):
    """The argument of ``BatchTableEnvironment.create`` until 1.11; ``pyflink.dataset`` had nothing else."""

    @staticmethod
    def get_execution_environment(configuration: Any = None, spark: Any = None) -> ExecutionEnvironment:
        """Return an environment for batches."""
        removed("pyflink.dataset", "use TableEnvironment.create(EnvironmentSettings.in_batch_mode()).")
        environment = ExecutionEnvironment(default_configuration(), spark)
        environment.set_runtime_mode(RuntimeExecutionMode.BATCH)
        return environment


class BatchTableEnvironment(StreamTableEnvironment):
    """A table environment for batches (until 1.13); ``TableEnvironment`` with settings has taken its place."""

    @staticmethod
    def create(  # type: ignore[override]
        execution_environment: Any = None, table_config: Any = None, environment_settings: Any = None
    ) -> TableEnvironment:
        """Return an environment in batch mode."""
        removed("BatchTableEnvironment", "use TableEnvironment.create(EnvironmentSettings.in_batch_mode()).")
        settings = environment_settings or EnvironmentSettings.in_batch_mode()
        return StreamTableEnvironment.create(execution_environment, settings, table_config=table_config)


# ---- tables, with expressions as texts


def _table(given: Any) -> Table:
    found: Table = adopt(given)
    return found


def _registered(table: tables.Table) -> Callable[[str], bool]:
    """Return a predicate of the names of functions that are registered where a table is."""
    catalogs = table._environment.catalogs
    return lambda name: catalogs.function([name]) is not None


def _one(given: Any, table: tables.Table) -> Any:
    """Return an expression that may be given as a text."""
    if not isinstance(given, str):
        return given
    removed(f"an expression as a text, {given!r},", "use expressions, such as col('a') > 1.")
    return expression_of(given, _registered(table))


def _several(given: Sequence[Any], table: tables.Table, names: Sequence[str] | None = None) -> list[Any]:
    """Return expressions; a text that is no name, by default of a column, may hold several."""
    found: list[Any] = []
    for each in given:
        if isinstance(each, str) and each not in (table.names if names is None else names):
            removed(f"expressions as a text, {each!r},", "use expressions, such as col('a').")
            found += expressions_of(each, _registered(table))
        else:
            found.append(each)
    return found


def _with_texts(method: Callable[..., Any], convert: Callable[[Any, tuple[Any, ...]], Any]) -> Any:
    """Return a method of a table that also takes expressions as texts, and whose result is PyFlink's."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(method).bind(self, *args, **kwargs)
        return adopt(method(self, *convert(self, bound.args[1:])))

    return call


def _columns(method: Callable[..., Any]) -> Any:
    return _with_texts(method, lambda table, given: _several(given, table))


def _conditions(method: Callable[..., Any]) -> Any:
    return _with_texts(method, lambda table, given: [_one(each, table) for each in given])


def _results(method: Callable[..., Any]) -> Any:
    return _with_texts(method, lambda grouped, given: _several(given, grouped._grouped._table, ()))


@adopting(tables.Table)
class Table(tables.Table):
    """A query under construction."""

    select = _columns(tables.Table.select)
    group_by = _columns(tables.Table.group_by)
    order_by = _columns(tables.Table.order_by)
    add_columns = _columns(tables.Table.add_columns)
    add_or_replace_columns = _columns(tables.Table.add_or_replace_columns)
    rename_columns = _columns(tables.Table.rename_columns)
    drop_columns = _columns(tables.Table.drop_columns)
    filter = where = _conditions(tables.Table.filter)
    join = _conditions(tables.Table.join)
    left_outer_join = _conditions(tables.Table.left_outer_join)
    right_outer_join = _conditions(tables.Table.right_outer_join)
    full_outer_join = _conditions(tables.Table.full_outer_join)
    join_lateral = _conditions(tables.Table.join_lateral)
    left_outer_join_lateral = _conditions(tables.Table.left_outer_join_lateral)

    def get_resolved_schema(self) -> ResolvedSchema:
        """Return the columns and their types; of a table as it is in a catalog also watermark and key."""
        return ResolvedSchema.adopted(super().get_resolved_schema())

    def get_schema(self) -> TableSchema:  # type: ignore[override]
        """Return the columns as the older class; ``get_resolved_schema()`` has taken its place."""
        return TableSchema.of(self.get_resolved_schema())

    def alias(self, field: str, *fields: str) -> Table:
        """Rename the columns, in order."""
        names = [name for each in (field, *fields) for name in (split(each) if isinstance(each, str) else [each])]
        return _table(super().alias(*names))


@adopting(tables.GroupedTable)
class GroupedTable(tables.GroupedTable):
    """A table grouped by columns."""

    select = _with_texts(tables.GroupedTable.select, lambda grouped, given: _several(given, grouped._table))


@adopting(tables.AggregatedTable)
class AggregatedTable(tables.AggregatedTable):
    """Groups with the result of an aggregate function."""

    select = _results(tables.AggregatedTable.select)


@adopting(tables.FlatAggregateTable)
class FlatAggregateTable(tables.FlatAggregateTable):
    """Groups with the rows of a table aggregate function."""

    select = _results(tables.FlatAggregateTable.select)


@adopting(tables.GroupWindowedTable)
class GroupWindowedTable(tables.GroupWindowedTable):
    """A table with a window that is to be named in ``group_by``."""

    def group_by(self, *fields: Expression | str) -> WindowGroupedTable:
        """Group rows by the window, and by columns."""
        names = [self._window.name, *self._table.names]
        found: WindowGroupedTable = adopt(super().group_by(*_several(fields, self._table, names)))
        return found


@adopting(tables.WindowGroupedTable)
class WindowGroupedTable(GroupedTable, tables.WindowGroupedTable):
    """A table grouped by windows."""


@adopting(tables.PartitionedTable)
class PartitionedTable(tables.PartitionedTable):
    """A table whose rows belong to partitions."""


@adopting(tables.OverWindowedTable)
class OverWindowedTable(tables.OverWindowedTable):
    """A table with windows of rows."""

    select = _with_texts(tables.OverWindowedTable.select, lambda over, given: _several(given, over._table))


# PyFlink 1.13 and 1.14 had other names for some parameters.
for _owner, _method, _older in (
    (Table, "execute_insert", {"table_path": "table_path_or_descriptor"}),
    (Table, "insert_into", {"table_path": "table_path_or_descriptor"}),
    (TableEnvironment, "create_temporary_view", {"table": "table_or_data_stream"}),
    (StreamTableEnvironment, "create_temporary_view", {"table": "table_or_data_stream"}),
):
    setattr(_owner, _method, renamed(getattr(_owner, _method), **_older))


# ---- windows, with sizes and columns as texts


def _size(given: Any) -> Any:
    if isinstance(given, str):
        removed(f"a size as a text, {given!r},", "use lit(10).minutes, or row_interval(10).")
        return interval_of(given)
    return given


def _column(given: Any) -> Any:
    return expression_of(given) if isinstance(given, str) else given


class GroupWindow(windows.GroupWindow):
    """A window that groups rows by time."""

    def on(self, time_field: Expression | str) -> GroupWindow:
        """Name the time attribute."""
        return _grouping(super().on(_column(time_field)))

    def alias(self, alias: str | Expression) -> GroupWindow:
        """Name the window."""
        return _grouping(super().alias(alias))


def _grouping(given: windows.GroupWindow) -> GroupWindow:
    return GroupWindow(given.kind, given.sizes, given.time, given.name)


class Tumble:
    """Windows that follow one another."""

    @staticmethod
    def over(size: Expression | str) -> GroupWindow:
        """Set the size."""
        return _grouping(windows.Tumble.over(_size(size)))


class SlideWithSize:
    """Windows of a size that still need a slide."""

    def __init__(self, size: Expression) -> None:
        self._size = size

    def every(self, slide: Expression | str) -> GroupWindow:
        """Set the distance between the beginnings of windows."""
        return _grouping(windows.Slide.over(self._size).every(_size(slide)))


class Slide:
    """Windows that overlap."""

    @staticmethod
    def over(size: Expression | str) -> SlideWithSize:
        """Set the size."""
        return SlideWithSize(_size(size))


class Session:
    """Windows that end when nothing comes for a while."""

    @staticmethod
    def with_gap(gap: Expression | str) -> GroupWindow:
        """Set the time without rows that ends a session."""
        return _grouping(windows.Session.with_gap(_size(gap)))


class OverWindow(windows.OverWindow):
    """A frame of rows around each row."""

    def order_by(self, order_by: Expression | str) -> OverWindow:
        """Name the column that orders the rows."""
        return _framing(super().order_by(_column(order_by)))

    def preceding(self, preceding: Expression | str) -> OverWindow:
        """Set where frames begin."""
        return _framing(super().preceding(_size(preceding)))

    def following(self, following: Expression | str) -> OverWindow:
        """Set where frames end."""
        return _framing(super().following(_size(following)))

    def alias(self, alias: str | Expression) -> OverWindow:
        """Name the window."""
        return _framing(super().alias(alias))


def _framing(given: windows.OverWindow) -> OverWindow:
    return OverWindow(given.partition, given.order, given.lower, given.upper, given.name)


class Over:
    """Frames of rows."""

    @staticmethod
    def order_by(order_by: Expression | str) -> OverWindow:
        """Name the column that orders the rows."""
        return _framing(windows.Over.order_by(_column(order_by)))

    @staticmethod
    def partition_by(*partition_by: Expression | str) -> OverWindow:
        """Name the columns whose rows belong together."""
        names: list[Expression] = [
            one for each in partition_by for one in (expressions_of(each) if isinstance(each, str) else [each])
        ]
        return _framing(windows.Over.partition_by(*names))
