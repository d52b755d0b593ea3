"""Table environments: statements in, catalogs and jobs out."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from funken import config as options
from funken import extras
from funken.api.environment import StreamExecutionEnvironment
from funken.api.options import RuntimeExecutionMode
from funken.config import Configuration
from funken.errors import InvalidProgram
from funken.operators.user_functions import traits_of
from funken.plan import unexecuted
from funken.table.catalog import (
    Catalog,
    CatalogFunction,
    CatalogManager,
    CatalogTable,
    CatalogView,
    InvalidTable,
    ResolvedTable,
)
from funken.table.config import TableConfig
from funken.table.conversions import StreamConversions
from funken.table.logical import LogicalNode, LogicalSink, LogicalSort, LogicalStream, walk
from funken.table.rendering import path_parts
from funken.table.result import ResultKind, TableResult
from funken.table.schema import ResolvedSchema
from funken.table.table import Table, TablePipeline
from funken.types.callables import check_kind
from funken.types.row import Row

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from funken.api.streams.stream import DataStream
    from funken.table.compiled_plan import CompiledPlan, PlanReference, PlanUids
    from funken.table.descriptors import CatalogDescriptor, ExplainDetail, ModelDescriptor, TableDescriptor
    from funken.table.statement_set import StatementSet

_log = logging.getLogger(__name__)


class EnvironmentSettings:
    """The mode of queries (streams or batches), and the names of the catalog and database that exist at first.

    >>> settings = EnvironmentSettings.new_instance().in_batch_mode().with_built_in_catalog_name("mine").build()
    >>> settings.is_streaming_mode(), settings.get_built_in_catalog_name()
    (False, 'mine')
    """

    class Builder:
        """Collects settings.

        >>> EnvironmentSettings.Builder().in_batch_mode().build().is_streaming_mode()
        False
        """

        def __init__(self) -> None:
            self._configuration = Configuration()
            self._streaming = True
            self._catalog, self._database = "default_catalog", "default_database"

        def in_streaming_mode(self) -> EnvironmentSettings.Builder:
            """Run queries as streams, whose results develop."""
            self._streaming = True
            return self

        def in_batch_mode(self) -> EnvironmentSettings.Builder:
            """Run queries over bounded tables, each result once."""
            self._streaming = False
            return self

        def with_configuration(self, config: Configuration) -> EnvironmentSettings.Builder:
            """Take over options.

            >>> configuration = Configuration({"parallelism.default": 2})
            >>> settings = EnvironmentSettings.Builder().with_configuration(configuration).build()
            >>> settings.get_configuration()
            Configuration({"parallelism.default": 2, "execution.runtime-mode": "STREAMING"})
            """
            self._configuration.add_all(config)
            mode = config.get(options.RUNTIME_MODE)
            if config.contains_key(options.RUNTIME_MODE.key):
                self._streaming = mode != "batch"
            return self

        def with_built_in_catalog_name(self, built_in_catalog_name: str) -> EnvironmentSettings.Builder:
            """Name the catalog that exists at first."""
            self._catalog = built_in_catalog_name
            return self

        def with_built_in_database_name(self, built_in_database_name: str) -> EnvironmentSettings.Builder:
            """Name the database that exists at first."""
            self._database = built_in_database_name
            return self

        def build(self) -> EnvironmentSettings:
            """Return the settings."""
            return EnvironmentSettings(self._streaming, self._configuration, self._catalog, self._database)

    def __init__(
        self,
        streaming: bool = True,
        configuration: Configuration | None = None,
        catalog: str = "default_catalog",
        database: str = "default_database",
    ) -> None:
        self._streaming = streaming
        self._configuration = configuration if configuration is not None else Configuration()
        self._mode_is_option = self._configuration.contains_key(options.RUNTIME_MODE.key)
        if not self._mode_is_option:
            self._configuration.set(options.RUNTIME_MODE, "STREAMING" if streaming else "BATCH")
        self._catalog = catalog
        self._database = database

    @staticmethod
    def new_instance() -> EnvironmentSettings.Builder:
        """Return a builder."""
        return EnvironmentSettings.Builder()

    @staticmethod
    def in_streaming_mode() -> EnvironmentSettings:
        """Return settings for queries as streams."""
        return EnvironmentSettings(True)

    @staticmethod
    def in_batch_mode() -> EnvironmentSettings:
        """Return settings for queries over bounded tables."""
        return EnvironmentSettings(False)

    def is_streaming_mode(self) -> bool:
        """Return True if queries run as streams."""
        return self._streaming

    def get_configuration(self) -> Configuration:
        """Return the options; the mode is one of them.

        >>> EnvironmentSettings.in_batch_mode().get_configuration()
        Configuration({"execution.runtime-mode": "BATCH"})
        """
        return self._configuration

    def _job_options(self) -> dict[str, Any]:
        """Return the options for jobs: the mode of queries is that of a job only if a configuration says so."""
        found = self._configuration.to_dict()
        if not self._mode_is_option:
            found.pop(options.RUNTIME_MODE.key, None)
        return found

    def get_built_in_catalog_name(self) -> str:
        """Return the name of the catalog that exists at first."""
        return self._catalog

    def get_built_in_database_name(self) -> str:
        """Return the name of the database that exists at first."""
        return self._database


class TableEnvironment:
    """A session of SQL and the Table API: catalogs, options, and the jobs of its statements.

    >>> tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    >>> tables.get_config().set("execution.target", "local").set("parallelism.default", 1) is tables.get_config()
    True
    >>> tables.execute_sql("SELECT word, COUNT(*) AS n FROM (VALUES ('to'), ('be'), ('to')) AS t(word) GROUP BY word").print()
    +----+--------------------------------+----------------------+
    | op |                           word |                    n |
    +----+--------------------------------+----------------------+
    | +I |                             to |                    1 |
    | +I |                             be |                    1 |
    | -U |                             to |                    1 |
    | +U |                             to |                    2 |
    +----+--------------------------------+----------------------+
    4 rows in set
    """

    def __init__(self, environment: StreamExecutionEnvironment, settings: EnvironmentSettings) -> None:
        extras.need("sql", "funken.table")
        self.unused = False
        unexecuted.begun.add(self)
        self.stream_environment = environment
        self._settings = settings
        self._config = TableConfig(environment.get_configuration())
        for key, value in settings._job_options().items():
            self._config.set(key, value)
        self._config.begin(not settings.is_streaming_mode())
        self.catalogs = CatalogManager(settings.get_built_in_catalog_name(), settings.get_built_in_database_name())
        self.modules: list[str] | None = ["core"]
        """The modules in use; ``None`` if none is loaded."""
        self._inline = 0

    @staticmethod
    def create(environment_settings: EnvironmentSettings | Configuration | None = None) -> TableEnvironment:
        """Return an environment; options may be given instead of settings."""
        settings = _settings(environment_settings)
        return TableEnvironment(StreamExecutionEnvironment.get_execution_environment(), settings)

    def get_config(self) -> TableConfig:
        """Return the options; changes take effect with the next statement."""
        return self._config

    @property
    def is_streaming(self) -> bool:
        """True if queries run as streams."""
        return not self._config.batch

    # ---- statements

    def execute_sql(self, stmt: str) -> TableResult:
        """Execute one statement: a definition at once, a query or INSERT as a job of its own.

        A query's rows come as they are collected. An INSERT goes on behind the call: ``wait()`` waits for its end.
        Raises ``InvalidProgram`` and its kin for a statement that cannot be planned.
        """
        from funken.table.execution import execute  # noqa: PLC0415 - loads the parser

        return execute(self, stmt)

    def sql_query(self, query: str) -> Table:
        """Return the table of a query, which is not run.

        >>> tables = TableEnvironment.create()
        >>> words = tables.sql_query("SELECT UPPER(word) AS w FROM (VALUES ('to'), ('be')) AS t(word)")
        >>> words.get_resolved_schema().get_column_names()
        ['w']
        """
        from funken.table.execution import query_of  # noqa: PLC0415 - loads the parser

        table = Table(self, query_of(self, query))
        self.unused = True
        return table

    def explain_sql(self, stmt: str, *extra_details: ExplainDetail | str) -> str:
        """Return the plans of a statement as text."""
        from funken.table.execution import explain  # noqa: PLC0415 - loads the parser

        return explain(self, stmt, extra_details)

    def create_statement_set(self) -> StatementSet:
        """Return a set of INSERTs that become one job."""
        from funken.table.statement_set import StatementSet  # noqa: PLC0415 - they refer to one another

        return StatementSet(self)

    # ---- tables

    def from_path(self, path: str) -> Table:
        """Return a table or view by its path, quoted as in SQL: ``from_path("c.db.`my table`")``."""
        return self._table_at(path_parts(path))

    def _table_at(self, parts: Sequence[str]) -> Table:
        found = self.catalogs.table(parts)
        declared = (
            ResolvedSchema.of_table(found.table, self._config.batch)
            if isinstance(found, ResolvedTable)
            else found.declared
        )
        return Table(self, self.plan_of(parts), declared)

    def plan_of(self, parts: Sequence[str]) -> LogicalNode:
        """Return the plan of a table or view; raises ``InvalidTable`` for an unknown name."""
        from funken.table.execution import binder  # noqa: PLC0415 - loads the parser

        plan: LogicalNode = binder(self).table(tuple(parts))
        return plan

    def from_descriptor(self, descriptor: TableDescriptor) -> Table:
        """Return a table that a descriptor describes, without a name."""
        self._inline += 1
        name = f"*anonymous_{descriptor.get_options().get('connector', 'table')}${self._inline}*"
        self.create_temporary_table(name, descriptor, parts=[name])
        return self._table_at([name])

    def from_elements(self, elements: Iterable[object], schema: object = None, verify_schema: bool = True) -> Table:
        """Return rows that the program holds as a table.

        ``schema`` is a list of names, a list of types, or a ROW type; without one, names are ``_1``, ``_2``, ... and types are
        those of the values. An element may also be an expression: ``row(1, "a")``.

        >>> TableEnvironment.create().from_elements([(1, "a"), (2, None)], ["n", "text"])
        <Table (n BIGINT, text STRING)>
        """
        from funken.table.conversions import held_table, table_of_expressions  # noqa: PLC0415 - loads Arrow
        from funken.table.expression import Expression  # noqa: PLC0415 - loads Arrow

        elements = list(elements)
        if elements and all(isinstance(each, Expression) for each in elements):
            return table_of_expressions(self, elements, schema)
        return Table(self, held_table(self, elements, schema, verify_schema))

    def from_pandas(self, pdf: pd.DataFrame, schema: object = None, splits_num: int = 1) -> Table:
        """Return a DataFrame of pandas as a table; ``schema`` has names, types, or both as a ROW type."""
        from funken.table.conversions import pandas_table  # noqa: PLC0415 - loads Arrow

        return Table(self, pandas_table(pdf, schema))

    def from_arrow(self, data: pa.Table | pa.RecordBatch, schema: object = None) -> Table:
        """Return a table of Arrow as a table; ``schema`` has names, types, or both as a ROW type."""
        from funken.table.conversions import arrow_table  # noqa: PLC0415 - loads Arrow

        return Table(self, arrow_table(data, schema))

    def create_temporary_table(
        self, path: str, descriptor: TableDescriptor, ignoreIfExists: bool = False, parts: Sequence[str] | None = None
    ) -> None:
        """Create a table for the session; it hides a permanent one of the same path."""
        self._create_table(parts or path_parts(path), descriptor, True, ignoreIfExists)

    def create_table(self, path: str, descriptor: TableDescriptor, ignoreIfExists: bool = False) -> bool:
        """Create a table in its catalog; return whether it was created."""
        return self._create_table(path_parts(path), descriptor, False, ignoreIfExists)

    def _create_table(self, parts: Sequence[str], descriptor: TableDescriptor, temporary: bool, ignore: bool) -> bool:
        from funken.table.conversions import expression_text  # noqa: PLC0415 - loads Arrow
        from funken.table.descriptors import TableDescriptor  # noqa: PLC0415 - few programs describe tables
        from funken.table.execution import typing_of  # noqa: PLC0415 - loads the parser

        check_kind(descriptor, TableDescriptor, "the table", "TableDescriptor.for_connector() begins one.")
        table = descriptor.catalog_table(typing_of(self), lambda expression: expression_text(expression, self))
        return self.catalogs.create(parts, table, temporary=temporary, if_not_exists=ignore)

    def create_temporary_view(
        self, view_path: str, table_or_data_stream: Table | DataStream[Any], *fields_or_schema: object
    ) -> None:
        """Give a table, or a stream, a name for the session; a view is planned where it is used."""
        table = table_or_data_stream
        if not isinstance(table, Table):
            if not hasattr(table, "get_execution_environment"):
                check_kind(table, Table, "create_temporary_view()", "from_elements() makes one of rows.")
            if not isinstance(self, StreamTableEnvironment):
                raise InvalidProgram("only a StreamTableEnvironment gives names to streams.")
            table = self.from_data_stream(table, *fields_or_schema)
        if table._environment is not self:
            raise InvalidProgram(
                f"view {view_path!r} is of another table environment. Only tables of this one can be registered: make both with "
                "one TableEnvironment."
            )
        self.catalogs.create(path_parts(view_path), table.as_view(), temporary=True)

    def create_view(self, view_path: str, table: Table, ignore_if_exists: bool = False) -> bool:
        """Give a table a name in its catalog; return whether it was created."""
        return self.catalogs.create(path_parts(view_path), table.as_view(), if_not_exists=ignore_if_exists)

    def drop_temporary_table(self, table_path: str) -> bool:
        """Drop a temporary table; return whether there was one."""
        return self.catalogs.drop("table", path_parts(table_path), temporary=True, if_exists=True, only=CatalogTable)

    def drop_temporary_view(self, view_path: str) -> bool:
        """Drop a temporary view; return whether there was one."""
        return self.catalogs.drop("table", path_parts(view_path), temporary=True, if_exists=True, only=CatalogView)

    def drop_table(self, table_path: str, ignore_if_not_exists: bool = True) -> bool:
        """Drop a table of a catalog; return whether there was one."""
        return self.catalogs.drop("table", path_parts(table_path), if_exists=ignore_if_not_exists, only=CatalogTable)

    def drop_view(self, view_path: str, ignore_if_not_exists: bool = True) -> bool:
        """Drop a view of a catalog; return whether there was one."""
        return self.catalogs.drop("table", path_parts(view_path), if_exists=ignore_if_not_exists, only=CatalogView)

    def inline_view(self, table: Table) -> str:
        """Return the name of a table without one, in the form in which texts of SQL can use it."""
        name = f"UnnamedTable${self._inline}"
        self._inline += 1
        self.catalogs.create([name], table.as_view(), temporary=True)
        return f"`{name}`"

    # ---- functions

    def create_temporary_system_function(self, name: str, function: object) -> None:
        """Give a function a name that holds everywhere, and hides a built-in one."""
        from funken.table.udf import definition_of  # noqa: PLC0415 - few programs have functions

        check_kind(
            name, str, "create_temporary_system_function()", "The name is the first argument, the function the second."
        )
        self.catalogs.create_system_function(name, CatalogFunction(definition=definition_of(function, name)))

    def create_temporary_function(self, path: str, function: object) -> None:
        """Give a function a name in a database, for the session."""
        from funken.table.udf import definition_of  # noqa: PLC0415 - few programs have functions

        check_kind(path, str, "create_temporary_function()", "The name is the first argument, the function the second.")
        parts = path_parts(path)
        entry = CatalogFunction(definition=definition_of(function, parts[-1]))
        self.catalogs.create(parts, entry, temporary=True)

    def drop_temporary_system_function(self, name: str) -> bool:
        """Drop a system function of the session; return whether there was one."""
        return self.catalogs.system_functions.pop(name.upper(), None) is not None

    def drop_temporary_function(self, path: str) -> bool:
        """Drop a function of the session; return whether there was one."""
        return self.catalogs.drop("function", path_parts(path), temporary=True, if_exists=True)

    def drop_function(self, path: str) -> bool:
        """Drop a function of a catalog; return whether there was one."""
        return self.catalogs.drop("function", path_parts(path), if_exists=True)

    def create_java_temporary_system_function(self, name: str, function_class_name: str) -> None:
        """Raise ``InvalidProgram``: functions are Python."""
        _no_java(name, function_class_name)

    def create_java_temporary_function(self, path: str, function_class_name: str) -> None:
        """Raise ``InvalidProgram``: functions are Python."""
        _no_java(path, function_class_name)

    def create_java_function(self, path: str, function_class_name: str, ignore_if_exists: bool | None = None) -> None:
        """Raise ``InvalidProgram``: functions are Python."""
        _no_java(path, function_class_name)

    def add_python_file(self, file_path: str) -> None:
        """Let functions import a file, folder or archive; needs the environment of ``pyflink.datastream``."""
        self.stream_environment.add_python_file(file_path)  # type: ignore[attr-defined]

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Let functions import the packages of a file; needs the environment of ``pyflink.datastream``."""
        environment: Any = self.stream_environment
        environment.set_python_requirements(requirements_file_path, requirements_cache_dir)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Let functions read an archive; needs the environment of ``pyflink.datastream``."""
        environment: Any = self.stream_environment
        environment.add_python_archive(archive_path, target_dir)

    # ---- models

    def create_model(
        self, model_path: str, model_descriptor: ModelDescriptor, ignore_if_exists: bool | None = None
    ) -> bool:
        """Create a model in its catalog; return whether it was created."""
        entry = model_descriptor.catalog_model()
        return self.catalogs.create(path_parts(model_path), entry, if_not_exists=bool(ignore_if_exists))

    def create_temporary_model(
        self, model_path: str, model_descriptor: ModelDescriptor, ignore_if_exists: bool | None = None
    ) -> None:
        """Create a model for the session."""
        entry = model_descriptor.catalog_model()
        self.catalogs.create(path_parts(model_path), entry, temporary=True, if_not_exists=bool(ignore_if_exists))

    def drop_model(self, model_path: str, ignore_if_not_exists: bool = True) -> bool:
        """Drop a model of a catalog; return whether there was one."""
        return self.catalogs.drop("model", path_parts(model_path), if_exists=ignore_if_not_exists)

    def drop_temporary_model(self, model_path: str) -> bool:
        """Drop a model of the session; return whether there was one."""
        return self.catalogs.drop("model", path_parts(model_path), temporary=True, if_exists=True)

    # ---- names

    def list_catalogs(self) -> list[str]:
        """Return the names of all catalogs, sorted."""
        return sorted(self.catalogs.catalogs)

    def list_databases(self) -> list[str]:
        """Return the names of the databases of the current catalog, sorted."""
        return sorted(self.catalogs.catalog(self.catalogs.current_catalog).databases())

    def list_tables(self) -> list[str]:
        """Return the names of the tables and views of the current database, sorted."""
        return self.catalogs.names("table")

    def list_views(self) -> list[str]:
        """Return the names of the views of the current database, sorted."""
        return self.catalogs.names("table", only=CatalogView)

    def list_materialized_tables(self) -> list[str]:
        """Return no names: there are no materialized tables."""
        return []

    def list_temporary_tables(self) -> list[str]:
        """Return the names of temporary tables and views, sorted."""
        return self.catalogs.temporary_names("table")

    def list_temporary_views(self) -> list[str]:
        """Return the names of temporary views, sorted."""
        return self.catalogs.temporary_names("table", CatalogView)

    def list_user_defined_functions(self) -> list[str]:
        """Return the names of the functions that users have registered, sorted."""
        names = {name.lower() for name in self.catalogs.system_functions}
        return sorted(names | {name.lower() for name in self.catalogs.names("function")})

    def list_functions(self) -> list[str]:
        """Return the names of all functions, sorted; those of built-in ones are in capitals. Operators are left out."""
        from funken.expr.sql.functions import FUNCTIONS  # noqa: PLC0415 - loads Arrow

        built_in = {rule.name for rule in FUNCTIONS if rule.name.isidentifier()}
        return sorted({*self.list_user_defined_functions(), *built_in})

    def list_models(self) -> list[str]:
        """Return the names of the models of the current database, sorted."""
        return self.catalogs.names("model")

    def list_temporary_models(self) -> list[str]:
        """Return the names of temporary models, sorted."""
        return self.catalogs.temporary_names("model")

    def list_modules(self) -> list[str]:
        """Return the names of the modules in use."""
        return list(self.modules or ())

    def list_full_modules(self) -> list[tuple[str, bool]]:
        """Return the names of all modules, each with whether it is in use."""
        return [] if self.modules is None else [("core", "core" in self.modules)]

    def use_catalog(self, catalog_name: str) -> None:
        """Make a catalog, and its default database, the current one."""
        self.catalogs.use_catalog(catalog_name)

    def use_database(self, database_name: str) -> None:
        """Make a database the current one."""
        self.catalogs.use_database(path_parts(database_name))

    def get_current_catalog(self) -> str:
        """Return the name of the current catalog."""
        return self.catalogs.current_catalog

    def get_current_database(self) -> str:
        """Return the name of the current database."""
        return self.catalogs.current_database

    def register_catalog(self, catalog_name: str, catalog: Catalog) -> None:
        """Add a catalog."""
        self.catalogs.register_catalog(catalog_name, catalog)

    def create_catalog(self, catalog_name: str, catalog_descriptor: CatalogDescriptor) -> None:
        """Make a catalog by its options."""
        from funken.table.execution import make_catalog  # noqa: PLC0415 - loads the parser

        make_catalog(self, catalog_name, catalog_descriptor.options())

    def load_module(self, module_name: str, module: object = None) -> None:
        """Load ``core`` again; raises ``InvalidTable`` if it is there, and for any other module."""
        if module_name != "core":
            raise InvalidTable(f"Module '{module_name}' is unknown; there is 'core' only. Register functions instead.")
        if self.modules is not None:
            raise InvalidTable("A module with name 'core' already exists.")
        self.modules = ["core"]

    def unload_module(self, module_name: str) -> None:
        """Forget a module."""
        if module_name != "core" or self.modules is None:
            raise InvalidTable(f"No module with name '{module_name}' exists.")
        self.modules = None

    def use_modules(self, *module_names: str) -> None:
        """Choose the modules in use, in their order."""
        for place, name in enumerate(module_names):
            if name != "core" or self.modules is None:
                raise InvalidTable(f"No module with name '{name}' exists; there is 'core' only.")
            if name in module_names[:place]:
                raise InvalidTable(f"Module '{name}' appears more than once.")
        self.modules = list(module_names)

    def get_catalog(self, catalog_name: str) -> Catalog | None:
        """Return a catalog by name; ``None`` if there is none."""
        return self.catalogs.catalogs.get(catalog_name)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name in _GONE:
                raise AttributeError(
                    f"TableEnvironment.{name}() is gone since Flink 1.15 or earlier. Use {_GONE[name]}."
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # ---- jobs

    def job_environment(self, sinks: Iterable[LogicalNode]) -> StreamExecutionEnvironment:
        """Return the environment that executes sinks: one of its own, unless they read streams of the program."""
        if any(
            isinstance(node, LogicalStream) and node.source.environment is not None
            for sink in sinks
            for node in walk(sink)
        ):
            return self.stream_environment
        return self.fresh_environment()

    def fresh_environment(self) -> StreamExecutionEnvironment:
        """Return an empty environment with the options of this one."""
        given = self.stream_environment
        environment = StreamExecutionEnvironment(given.get_configuration(), given._session)
        # Operators of tables give the results of a batch at the end of their input by themselves.
        environment.set_runtime_mode(RuntimeExecutionMode.STREAMING)
        parallelism = self._config.option("table.exec.resource.default-parallelism")
        return environment.set_parallelism(parallelism) if parallelism > 0 else environment

    def _complaint(self) -> str:
        """Return that a query never ran, for the end of the script."""
        return (
            "built a query that never ran. A table is a plan: execute().print() prints its rows, to_pandas() returns them, "
            "execute_insert() writes them."
        )

    def translate(
        self, sinks: Sequence[LogicalSink], environment: StreamExecutionEnvironment, uids: PlanUids | None = None
    ) -> list[Any]:
        """Plan sinks, and add their operators to an environment; return the streams of those that are collected."""
        self.unused = False
        from funken.table.physical import translate  # noqa: PLC0415 - loads Arrow
        from funken.table.rules import optimize  # noqa: PLC0415 - loads Arrow

        batch = self._config.batch
        for entry in (*self.catalogs.system_functions.values(), *self.catalogs.temporary.values()):
            configured = getattr(getattr(entry, "definition", None), "configured", None)
            if configured is not None:
                configured(self._config)
        found = translate(environment, optimize(list(sinks), self._config, batch), self._config, batch, uids)
        if uids is not None:
            uids.finish()
        return found

    def pipeline(self, sink: LogicalSink) -> TablePipeline:
        """Return a table on its way into another."""
        return TablePipeline(self, sink)

    def insert(
        self, sinks: Sequence[LogicalSink], name: str | None = None, uids: PlanUids | None = None
    ) -> TableResult:
        """Submit the job of some INSERTs, which goes on behind the call."""
        environment = self.job_environment(sinks)
        self.translate(sinks, environment, uids)
        self._check_state(environment)
        paths = [str(sink.table.path) if sink.table is not None else "sink" for sink in sinks]
        job = environment.execute_async(name or self._config.get("pipeline.name") or f"insert-into_{', '.join(paths)}")
        from funken.table.types import BigIntType  # noqa: PLC0415 - loads Arrow

        types = [BigIntType()] * len(paths)
        schema = ResolvedSchema.physical(paths, types)
        result = TableResult(paths, types, [Row(*[-1] * len(paths))], job=job, schema=schema, raw=True)
        if self._config.option("table.dml-sync"):
            result.wait()
        return result

    def _check_state(self, environment: StreamExecutionEnvironment) -> None:
        """Refuse to start from a savepoint of another query."""
        given = environment.get_configuration()
        path = given.get(options.RESTORE_PATH)
        if path:
            from funken.table.compiled_plan import check_state  # noqa: PLC0415 - only where a job starts from state

            found = check_state(environment.graph, path, given.get(options.RESTORE_IGNORING))
            _log.info("The query starts from %s:\n%s", path, found)

    def compile_plan_sql(self, stmt: str) -> CompiledPlan:
        """Compile an INSERT or a statement set into a plan whose operators keep their uids."""
        from funken.table.execution import inserts_of  # noqa: PLC0415 - loads the parser

        return self.compiled(inserts_of(stmt))

    def compiled(self, statements: Sequence[str]) -> CompiledPlan:
        """Compile INSERTs into the plan of one job."""
        from funken.table.compiled_plan import CompiledPlan  # noqa: PLC0415 - few programs compile plans

        return CompiledPlan.of(self, statements)

    def plan_in(self, file: str) -> CompiledPlan:
        """Read the compiled plan in a file."""
        from funken.table.compiled_plan import CompiledPlan  # noqa: PLC0415 - few programs compile plans

        return CompiledPlan.from_file(self, file)

    def load_plan(self, plan_reference: PlanReference) -> CompiledPlan:
        """Read a compiled plan."""
        from funken.table.compiled_plan import CompiledPlan  # noqa: PLC0415 - few programs compile plans

        if plan_reference.file is not None:
            return self.plan_in(plan_reference.file)
        return CompiledPlan.from_json(self, plan_reference.json or "")

    def execute_plan(self, plan_reference: PlanReference) -> TableResult:
        """Submit the job of a compiled plan."""
        return self.load_plan(plan_reference).execute()

    def collect(self, plan: LogicalNode, name: str | None = None, whole: bool = False) -> TableResult:
        """Submit the job of a query whose rows are collected; raises ``InvalidProgram`` if all are wanted of an endless one."""
        sink = LogicalSink(plan, None, collect="collect")
        environment = self.job_environment([sink])
        [stream] = self.translate([sink], environment)
        endless = [node.name for node in environment.graph if not traits_of(node.spec).bounded] if whole else []
        if endless and not (isinstance(plan, LogicalSort) and plan.fetch is not None):
            raise InvalidProgram(
                f"{endless[0]!r} never ends, so all of its rows never come. Use limit(), bound the source, as "
                "'number-of-rows' or 'scan.bounded.mode' do, or read rows as they come: execute().collect()."
            )
        iterator = stream.execute_and_collect(name or self._config.get("pipeline.name") or "collect")
        row_type = plan.row_type
        return TableResult(
            row_type.names,
            row_type.types,
            _Positional(iterator),
            job=iterator.get_job_client(),
            kind=ResultKind.SUCCESS_WITH_CONTENT,
            schema=ResolvedSchema.of_plan(plan, self._config.batch),
            streaming=self.is_streaming,
            widths_of_types=True,
            max_width=self._config.option("table.display.max-column-width"),
            zone=self._config.get_local_timezone(),
        )


_GONE = {
    "connect": "CREATE TABLE .. WITH in execute_sql(), or create_temporary_table() with a TableDescriptor",
    "register_function": "create_temporary_function() or create_temporary_system_function()",
    "register_java_function": "create_temporary_system_function() with a function in Python",
    "insert_into": "Table.execute_insert()",
    "sql_update": "execute_sql()",
    "execute": "execute_sql() and Table.execute_insert(), which submit a job each",
    "scan": "from_path()",
    "register_table": "create_temporary_view()",
    "from_table_source": "from_descriptor()",
    "register_table_source": "create_temporary_table() with a TableDescriptor",
    "register_table_sink": "create_temporary_table() with a TableDescriptor",
    "use_blink_planner": "nothing: there is one planner",
    "explain": "explain_sql() or Table.explain()",
}


def _no_java(name: str, class_name: str) -> NoReturn:
    raise InvalidProgram(
        f"function {name!r} is the Java class {class_name}, but functions are Python here. Write it in Python, and register it "
        "with create_temporary_system_function()."
    )


class StreamTableEnvironment(TableEnvironment, StreamConversions):
    """A table environment over a ``StreamExecutionEnvironment``: streams become tables, and tables streams."""

    @staticmethod
    def create(  # type: ignore[override]
        stream_execution_environment: StreamExecutionEnvironment | None = None,
        environment_settings: EnvironmentSettings | None = None,
    ) -> StreamTableEnvironment:
        """Return an environment; without settings the mode is that of the stream environment."""
        environment = stream_execution_environment or StreamExecutionEnvironment.get_execution_environment()
        check_kind(
            environment,
            StreamExecutionEnvironment,
            "create()",
            "Settings are its second argument, environment_settings=...",
        )
        if environment_settings is None:
            batch = environment.get_configuration().get(options.RUNTIME_MODE) == "batch"
            environment_settings = EnvironmentSettings(not batch)
        return StreamTableEnvironment(environment, environment_settings)


class _Positional:
    """Rows of a job without the names of their fields, as PyFlink's are."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator

    def __iter__(self) -> _Positional:
        return self

    def __next__(self) -> Row:
        return without_names(next(self._iterator))

    def close(self) -> None:
        """Cancel the job."""
        self._iterator.close()


def without_names(row: Row) -> Row:
    """Return a row without the names of its fields."""
    return Row.of_kind(row.get_row_kind(), *row)


def _settings(given: EnvironmentSettings | Configuration | None) -> EnvironmentSettings:
    if isinstance(given, EnvironmentSettings):
        return given
    if given is None:
        return EnvironmentSettings()
    check_kind(given, Configuration, "TableEnvironment.create()", "Give EnvironmentSettings.in_batch_mode(), say.")
    return EnvironmentSettings.new_instance().with_configuration(given).build()
