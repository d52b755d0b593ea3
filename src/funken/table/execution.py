"""The execution of statements: the effect of each record of ``sql/statements.py`` on catalogs, or its job."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from funken.errors import InvalidProgram
from funken.table.catalog import (
    CatalogDatabase,
    CatalogFunction,
    CatalogModel,
    CatalogTable,
    CatalogView,
    InvalidTable,
    ResolvedTable,
    TableColumn,
)
from funken.table.connectors.factory import check_metadata
from funken.table.definitions import (
    created_table,
    described,
    liked,
    shown_model,
    shown_table,
    shown_view,
    typed,
)
from funken.table.expression import sql_literal
from funken.table.logical import LogicalNode, LogicalScan, LogicalSink, walk
from funken.table.result import ResultKind, TableResult
from funken.table.schema import ResolvedSchema
from funken.table.sql import parser
from funken.table.sql import statements as st
from funken.table.types import STRING, BooleanType, quoted
from funken.types.callables import check_kind
from funken.types.row import Row

if TYPE_CHECKING:
    from funken.table.environment import TableEnvironment


def binder(env: TableEnvironment) -> Any:
    """Return the binder of names of the catalogs."""
    from funken.table.sql.binder import Binder  # noqa: PLC0415 - statements without a query need none

    return Binder(env.catalogs, env.get_config())


def typing_of(env: TableEnvironment) -> Callable[[Any, Sequence[tuple[str, Any]]], Any]:
    """Return a function that binds an expression over columns, and so knows its type."""
    return lambda expression, columns: binder(env).expression(expression, columns)


def parsed(text: str) -> st.Statement:
    """Return the only statement of a text; raises ``InvalidStatement`` for several."""
    check_kind(text, str, "a statement")
    found = parser.parse_script(text)
    if len(found) != 1:
        remedy = "Call it for each" if found else "Give one, such as SELECT 1"
        raise InvalidProgram(
            f"unsupported SQL query: execute_sql() takes a single statement, but the text has {len(found) or 'none'}. {remedy}."
        )
    return found[0]


_OF_A_CLIENT = (
    "{} is a statement of 'funken sql', which knows its jobs. In a program, keep the result of execute_sql() and ask its "
    "get_job_client(); 'funken list' shows the jobs of a cluster."
)


def execute(env: TableEnvironment, text: str) -> TableResult:
    """Execute the only statement of a text."""
    return run(env, parsed(text))


def run(env: TableEnvironment, statement: st.Statement) -> TableResult:
    """Execute a statement."""
    action = _ACTIONS.get(type(statement))
    if isinstance(statement, st.StopJob):
        raise InvalidProgram(_OF_A_CLIENT.format("STOP JOB"))
    if action is None:
        raise InvalidProgram(f"a statement of the kind {type(statement).__name__} is not supported here.")
    return action(env, statement)


def query_of(env: TableEnvironment, text: str) -> LogicalNode:
    """Return the plan of a query; raises ``InvalidProgram`` for another statement."""
    statement = parsed(text)
    if not isinstance(statement, st.Query):
        raise InvalidProgram(
            "unsupported SQL query: sql_query() takes a query only (SELECT, VALUES, WITH). Use execute_sql() for the others."
        )
    plan: LogicalNode = binder(env).query(statement.tree)
    return plan


def sinks_of(env: TableEnvironment, text: str) -> list[LogicalSink]:
    """Return the plans of an INSERT, or of the INSERTs of a statement set; raises ``InvalidProgram`` for another statement."""
    statement = parsed(text)
    if isinstance(statement, st.Insert):
        return [_sink(env, statement)]
    if isinstance(statement, st.StatementSetBlock):
        return [_sink(env, one) for one in statement.inserts]
    raise InvalidProgram("only INSERT statements can be added to a statement set.")


def inserts_of(text: str) -> list[str]:
    """Return the INSERTs of a statement as texts; raises ``InvalidProgram`` for another statement."""
    return _insert_texts(parsed(text))


def _insert_texts(statement: st.Statement) -> list[str]:
    if isinstance(statement, st.Insert):
        return [statement.text]
    if isinstance(statement, st.StatementSetBlock):
        return [one.text for one in statement.inserts]
    raise InvalidProgram("COMPILE PLAN takes an INSERT or a statement set.")


def definitions_of(env: TableEnvironment, sinks: Sequence[LogicalSink]) -> dict[str, str]:
    """Return the statements that make the tables of some plans, by their paths in JSON."""
    found: dict[str, str] = {}
    for sink in sinks:
        tables = [node.table for node in walk(sink) if isinstance(node, LogicalScan | LogicalSink)]
        for table in tables:
            if table is not None:
                path = (table.path.catalog, table.path.database, table.path.name)
                found[json.dumps(path)] = shown_table(table.path, table.table, True)
    return found


def _compile_plan(env: TableEnvironment, statement: st.CompilePlan) -> TableResult:
    exists = Path(statement.file.removeprefix("file://")).exists()
    if exists and statement.execute and not env.get_config().option("table.plan.force-recompile"):
        return env.plan_in(statement.file).execute()
    if exists and statement.if_not_exists:
        return TableResult.ok()
    plan = env.compiled(_insert_texts(statement.statement))
    plan.write_to_file(statement.file)
    return plan.execute() if statement.execute else TableResult.ok()


def _execute_plan(env: TableEnvironment, statement: st.ExecutePlan) -> TableResult:
    return env.plan_in(statement.file).execute()


def _sink(env: TableEnvironment, statement: st.Insert) -> LogicalSink:
    sink: LogicalSink = binder(env).insert(statement)
    if sink.table is not None:
        check_metadata(sink.table, env.get_config())
    return sink


def explain(env: TableEnvironment, text: str, details: Sequence[Any]) -> str:
    """Return the plans of a statement as text."""
    statement = parsed(text)
    if isinstance(statement, st.Explain):
        return _explained(env, statement)
    return _explained(env, st.Explain(statement, tuple(str(getattr(one, "name", one)) for one in details)))


def explained(env: TableEnvironment, sinks: list[LogicalSink], details: Sequence[Any]) -> str:
    """Return the plans of sinks as text."""
    from funken.table.rules.explain import explain as explain_plan  # noqa: PLC0415 - only to explain

    env.unused = False
    names = tuple(str(getattr(one, "name", one)) for one in details)
    text: str = explain_plan(sinks, env.get_config(), names)
    return text


def _explained(env: TableEnvironment, statement: st.Explain) -> str:
    inner = statement.statement
    if isinstance(inner, st.Query):
        sinks = [LogicalSink(binder(env).query(inner.tree), None, collect="explain")]
    elif isinstance(inner, st.Insert):
        sinks = [_sink(env, inner)]
    elif isinstance(inner, st.StatementSetBlock):
        sinks = [_sink(env, one) for one in inner.inserts]
    elif isinstance(inner, st.CreateTable) and inner.query is not None:
        query = binder(env).query(inner.query)
        sinks = [_filled(env, inner.path, created_table(inner, typing_of(env), query), query)]
    else:
        raise InvalidProgram("EXPLAIN takes a query, an INSERT, CREATE TABLE .. AS or a statement set.")
    return explained(env, sinks, statement.details)


# ---- jobs


def _query(env: TableEnvironment, statement: st.Query) -> TableResult:
    return env.collect(binder(env).query(statement.tree))


def _insert(env: TableEnvironment, statement: st.Insert) -> TableResult:
    return env.insert([_sink(env, statement)])


def _statement_set(env: TableEnvironment, statement: st.StatementSetBlock) -> TableResult:
    return env.insert([_sink(env, one) for one in statement.inserts])


def _explain(env: TableEnvironment, statement: st.Explain) -> TableResult:
    schema = ResolvedSchema.physical(["result"], [STRING])
    return TableResult(["result"], [STRING], [Row(_explained(env, statement))], schema=schema, raw=True)


# ---- definitions


def _create_table(env: TableEnvironment, statement: st.CreateTable) -> TableResult:
    query = None if statement.query is None else binder(env).query(statement.query)
    if query is not None and statement.temporary:
        raise InvalidTable(
            "CREATE TABLE AS SELECT syntax does not support to create temporary table yet. Create a permanent table, or create "
            "the temporary one first and INSERT INTO it."
        )
    if statement.must_exist and env.catalogs.find("table", statement.path) is None:
        raise InvalidTable(
            f"The table {env.catalogs.identifier(statement.path).quoted()} to be replaced doesn't exist. Use "
            "CREATE TABLE .. AS, or CREATE OR REPLACE TABLE .. AS."
        )
    if statement.like is None:
        table = created_table(statement, typing_of(env), query)
    else:
        source = env.catalogs.table(statement.like.source)
        if not isinstance(source, ResolvedTable):
            raise InvalidTable(f"'{'.'.join(statement.like.source)}' is a view: LIKE takes a table.")
        table = liked(source.table, statement, typing_of(env))
    created = env.catalogs.create(
        statement.path,
        table,
        temporary=statement.temporary,
        if_not_exists=statement.if_not_exists,
        replace=statement.replace,
    )
    if query is None or not created:
        return TableResult.ok()
    return env.insert([_filled(env, statement.path, table, query)])


def _filled(env: TableEnvironment, path: st.Path, table: CatalogTable, query: LogicalNode) -> LogicalSink:
    """Return the sink of CREATE TABLE .. AS: columns of the query find those of the table by name."""
    target = ResolvedTable(env.catalogs.identifier(path), table)
    names = tuple(query.row_type.names)
    own = tuple(column.name for column in target.persisted)
    found: LogicalSink = binder(env).insert_plan(query, target, columns=None if names == own else names)
    return found


def _create_view(env: TableEnvironment, statement: st.CreateView) -> TableResult:
    bound = binder(env)
    plan = bound.query(statement.query)
    names = [name for name, _ in statement.columns] or list(plan.row_type.names)
    if len(names) != len(plan.row_type):
        raise InvalidTable(
            f"View '{'.'.join(statement.path)}' names {len(names)} columns, but its query has {len(plan.row_type)}."
        )
    from funken.table.sql.scopes import repeated_names  # noqa: PLC0415 - as the binder

    repeated = (
        {name for name in names if names.count(name) > 1} if statement.columns else repeated_names(statement.query)
    )
    twice = min(repeated, default=None)
    if twice is not None:
        raise InvalidTable(
            f"View '{'.'.join(statement.path)}' would have two columns {twice!r}. Rename one with AS, or name the view's columns."
        )
    comments = [comment for _, comment in statement.columns] or [None] * len(names)
    columns = tuple(
        TableColumn(name, column.type, comment=comment)
        for name, column, comment in zip(names, plan.row_type, comments, strict=True)
    )
    view = CatalogView(bound.in_full(statement.query_text, plan), columns, statement.comment)
    env.catalogs.create(
        statement.path,
        view,
        temporary=statement.temporary,
        if_not_exists=statement.if_not_exists,
        replace=statement.replace,
    )
    return TableResult.ok()


def _create_function(env: TableEnvironment, statement: st.CreateFunction) -> TableResult:
    from funken.table.udf import imported_definition  # noqa: PLC0415 - few programs have functions

    if statement.language.upper() != "PYTHON":
        raise InvalidTable(
            f"Function '{'.'.join(statement.path)}' is in {statement.language}, but Funken runs Python only. "
            "Write the function in Python, and CREATE FUNCTION .. AS 'module.name' LANGUAGE PYTHON."
        )
    definition = imported_definition(statement.target, statement.path[-1])
    entry = CatalogFunction(statement.target, "PYTHON", definition, statement.resources)
    if statement.changes:
        return _alter_function(env, statement, entry)
    if statement.system:
        env.catalogs.create_system_function(statement.path[-1], entry, statement.if_not_exists)
    else:
        env.catalogs.create(statement.path, entry, temporary=statement.temporary, if_not_exists=statement.if_not_exists)
    return TableResult.ok()


def _alter_function(env: TableEnvironment, statement: st.CreateFunction, entry: CatalogFunction) -> TableResult:
    manager = env.catalogs
    if statement.system:
        raise InvalidTable("Alter temporary system function is not supported: drop the function, and create it again.")
    if manager.find("function", statement.path) is None:
        if statement.if_not_exists:
            return TableResult.ok()
        raise InvalidTable(f"Function '{'.'.join(statement.path)}' does not exist.")
    manager.create(statement.path, entry, temporary=statement.temporary, replace=True)
    return TableResult.ok()


def _create_database(env: TableEnvironment, statement: st.CreateDatabase) -> TableResult:
    database = CatalogDatabase(statement.options, statement.comment)
    env.catalogs.create_database(statement.path, database, statement.if_not_exists)
    return TableResult.ok()


def _create_catalog(env: TableEnvironment, statement: st.CreateCatalog) -> TableResult:
    if statement.name in env.catalogs.catalogs and statement.if_not_exists:
        return TableResult.ok()
    make_catalog(env, statement.name, dict(statement.options))
    if statement.comment is not None:
        env.catalogs.catalog_comments[statement.name] = statement.comment
    return TableResult.ok()


def make_catalog(env: TableEnvironment, name: str, options: dict[str, str]) -> None:
    """Make a catalog by its options; raises ``InvalidTable`` for a type that there is not."""
    from funken.table.stored_catalogs import catalog_of  # noqa: PLC0415 - loads connectors

    env.catalogs.register_catalog(name, catalog_of(name, options), options)


def _create_model(env: TableEnvironment, statement: st.CreateModel) -> TableResult:
    model = CatalogModel(
        tuple(typed(column) for column in statement.inputs),
        tuple(typed(column) for column in statement.outputs),
        statement.options,
        statement.comment,
    )
    env.catalogs.create(statement.path, model, temporary=statement.temporary, if_not_exists=statement.if_not_exists)
    return TableResult.ok()


def _drop(env: TableEnvironment, statement: st.Drop) -> TableResult:
    manager = env.catalogs
    if statement.kind == "CATALOG":
        manager.drop_catalog(statement.path[0], statement.if_exists)
    elif statement.kind == "DATABASE":
        manager.drop_database(statement.path, statement.if_exists, statement.cascade)
    elif statement.kind == "FUNCTION" and statement.system:
        if manager.system_functions.pop(statement.path[-1].upper(), None) is None and not statement.if_exists:
            raise InvalidTable(
                f"Could not drop temporary system function. A function named '{statement.path[-1]}' doesn't exist."
            )
    else:
        only = {"TABLE": CatalogTable, "VIEW": CatalogView}.get(statement.kind)
        kind = "table" if only is not None else statement.kind.lower()
        temporary = statement.temporary
        manager.drop(kind, statement.path, temporary=temporary, if_exists=statement.if_exists, only=only)
    return TableResult.ok()


# ---- ALTER


def _alter(env: TableEnvironment, statement: st.Alter) -> TableResult:
    manager = env.catalogs
    if statement.kind == "DATABASE":
        catalog, name = manager.database_path(statement.path)
        found = manager.catalog(catalog).databases().get(name)
        if found is None:
            raise InvalidTable(f"Database {name} does not exist in catalog {catalog}.")
        changed = replace(found, properties=tuple({**dict(found.properties), **dict(statement.options)}.items()))
        manager.catalog(catalog).create_database(name, changed)
        return TableResult.ok()
    if statement.kind == "CATALOG" and statement.action == "COMMENT":
        manager.catalog(statement.path[0])
        manager.catalog_comments[statement.path[0]] = statement.comment or ""
        return TableResult.ok()
    if statement.kind == "CATALOG":
        manager.catalog(statement.path[0])
        if statement.action == "RESET" and not statement.keys:
            raise InvalidTable("ALTER CATALOG RESET does not support empty key: name the options to reset.")
        if "type" in statement.keys:
            raise InvalidTable("ALTER CATALOG RESET does not support changing 'type'.")
        options = manager.catalog_options.setdefault(statement.path[0], {})
        options.update(statement.options)
        for key in statement.keys:
            options.pop(key, None)
        return TableResult.ok()
    kind = {"TABLE": "table", "VIEW": "table", "FUNCTION": "function", "MODEL": "model"}[statement.kind]
    entry = manager.find(kind, statement.path)
    if entry is None:
        if statement.if_exists:
            return TableResult.ok()
        raise InvalidTable(f"{statement.kind.capitalize()} '{'.'.join(statement.path)}' does not exist.")
    path = manager.identifier(statement.path, kind)
    temporary = manager.is_temporary(kind, path)
    if statement.kind in _ALTERED and not isinstance(entry, _ALTERED[statement.kind]):
        other = "table" if statement.kind == "VIEW" else "view"
        raise InvalidTable(f"ALTER {statement.kind} for a {other} is not allowed: use ALTER {other.upper()}.")
    if temporary and kind == "table":
        raise InvalidTable(
            f"{statement.kind.capitalize()} {path.quoted()} doesn't exist or is a temporary {statement.kind.lower()}, which "
            "cannot be altered. Drop and create it again."
        )
    if statement.partitions:
        return _alter_partitions(env, statement)
    if statement.action == "RENAME":
        home = (path.catalog, path.database)[: 3 - len(statement.new_path)]
        manager.create((*home, *statement.new_path), entry, temporary=temporary)
        manager.drop(kind, statement.path, temporary=temporary)
        return TableResult.ok()
    if statement.action == "AS":
        bound = binder(env)
        plan = bound.query(statement.query)
        columns = tuple(TableColumn(column.name, column.type) for column in plan.row_type)
        assert isinstance(entry, CatalogView)
        entry = replace(entry, query=bound.in_full(statement.query_text, plan), columns=columns)
    else:
        from funken.table.definitions import altered  # noqa: PLC0415 - few statements alter

        entry = altered(entry, statement, typing_of(env))
    manager.create(statement.path, entry, temporary=temporary, replace=True)
    return TableResult.ok()


def _alter_partitions(env: TableEnvironment, statement: st.Alter) -> TableResult:
    keys, known = env.catalogs.partitions(statement.path)
    for each in map(dict, statement.partitions):
        shown = _shown_partition(each)
        if statement.action == "ADD PARTITION":
            if set(each) != set(keys):
                raise InvalidTable(f"Partition {shown} does not match the keys of the partitions: {', '.join(keys)}.")
            if each not in known:
                known.append(each)
            elif not statement.lenient:
                raise InvalidTable(f"Partition {shown} already exists. Use ADD IF NOT EXISTS.")
        elif each in known:
            known.remove(each)
        elif not statement.lenient:
            raise InvalidTable(f"Partition {shown} does not exist. Use DROP IF EXISTS.")
    return TableResult.ok()


def _shown_partition(partition: dict[str, str]) -> str:
    return "/".join(f"{key}={value}" for key, value in partition.items())


def _partitions(env: TableEnvironment, statement: st.Show) -> list[str]:
    """Return the partitions that ALTER TABLE has declared, as Flink lists them: not those in the folders of files."""
    wanted = dict(statement.partition).items()
    return [_shown_partition(each) for each in env.catalogs.partitions(statement.path)[1] if wanted <= each.items()]


_ALTERED = {"TABLE": CatalogTable, "VIEW": CatalogView}


# ---- USE, SET, modules


def _use(env: TableEnvironment, statement: st.Use) -> TableResult:
    if statement.kind == "CATALOG":
        env.catalogs.use_catalog(statement.path[0])
    elif statement.kind == "MODULES":
        env.use_modules(*statement.path)
    else:
        env.catalogs.use_database(statement.path)
    return TableResult.ok()


def _set(env: TableEnvironment, statement: st.SetOption) -> TableResult:
    if statement.key is None:
        settings = sorted(env.get_config().to_map().items())
        return _table(["key", "value"], [[key, value] for key, value in settings])
    env.get_config().set(statement.key, statement.value)
    return TableResult.ok()


def _reset(env: TableEnvironment, statement: st.ResetOption) -> TableResult:
    env.get_config().reset(statement.key)
    return TableResult.ok()


def _module(env: TableEnvironment, statement: st.Module) -> TableResult:
    if statement.action.upper().startswith("UNLOAD"):
        env.unload_module(statement.name)
    else:
        env.load_module(statement.name)
    return TableResult.ok()


def _jar(env: TableEnvironment, statement: st.Jar) -> TableResult:
    raise InvalidTable(
        f"{statement.action} JAR has no meaning here: connectors and functions are Python "
        "packages. Install the connector's packages with pip."
    )


# ---- SHOW and DESCRIBE


def _show(env: TableEnvironment, statement: st.Show) -> TableResult:
    what = statement.what.upper()
    if what in _SINGLE:
        return _table([_SINGLE[what][0]], [[_SINGLE[what][1](env)]])
    if what.startswith("CREATE "):
        return _show_create(env, what.removeprefix("CREATE "), statement)
    if what == "COLUMNS":
        rows = _described(env, statement.path)
        return _describe_rows(rows, lambda name: _matches(name, statement))
    if what == "FULL MODULES":
        rows = [list(pair) for pair in env.list_full_modules()]
        columns, types = ["module name", "used"], [STRING, BooleanType()]
        schema = ResolvedSchema.physical(columns, types)
        return TableResult(columns, types, [Row(*row) for row in rows], schema=schema)
    if what == "JOBS":
        raise InvalidProgram(_OF_A_CLIENT.format("SHOW JOBS"))
    if what not in _LISTS:
        raise InvalidTable(
            f"SHOW {what} is not supported; there are: {', '.join(sorted({*_LISTS, *_SINGLE, 'COLUMNS'}))}."
        )
    name, names = _LISTS[what]
    return _table([name], [[one] for one in names(env, statement) if _matches(one, statement)])


def _names_in(kind: str, only: type | None = None) -> Callable[[TableEnvironment, st.Show], list[str]]:
    def names(env: TableEnvironment, statement: st.Show) -> list[str]:
        catalog, database = env.catalogs.database_path(statement.path)
        if database not in env.catalogs.catalog(catalog).databases():
            raise InvalidTable(f"Database '{catalog}'.'{database}' doesn't exist.")
        return env.catalogs.names(kind, catalog, database, only)

    return names


def _databases(env: TableEnvironment, statement: st.Show) -> list[str]:
    if len(statement.path) > 1:
        path = ".".join(statement.path)
        raise InvalidTable(
            f"SHOW DATABASES takes the name of a catalog, but has '{path}'. SHOW TABLES FROM {path} lists tables."
        )
    catalog = statement.path[0] if statement.path else env.catalogs.current_catalog
    return sorted(env.catalogs.catalog(catalog).databases())


_SINGLE: dict[str, tuple[str, Callable[[Any], str]]] = {
    "CURRENT CATALOG": ("current catalog name", lambda env: env.get_current_catalog()),
    "CURRENT DATABASE": ("current database name", lambda env: env.get_current_database()),
}
_LISTS: dict[str, tuple[str, Callable[[Any, st.Show], Iterable[str]]]] = {
    "CATALOGS": ("catalog name", lambda env, _: env.list_catalogs()),
    "DATABASES": ("database name", _databases),
    "TABLES": ("table name", _names_in("table")),
    "VIEWS": ("view name", _names_in("table", CatalogView)),
    "FUNCTIONS": ("function name", lambda env, _: env.list_functions()),
    "USER FUNCTIONS": ("function name", lambda env, _: env.list_user_defined_functions()),
    "MODULES": ("module name", lambda env, _: env.list_modules()),
    "MODELS": ("model name", _names_in("model")),
    "JARS": ("jars", lambda env, _: []),
    "PROCEDURES": ("procedure name", lambda env, _: []),
    "MATERIALIZED TABLES": ("materialized table", lambda env, _: []),
    "PARTITIONS": ("partition name", _partitions),
}


def _matches(name: str, statement: st.Show) -> bool:
    if statement.like is None:
        return True
    pattern = re.escape(statement.like).replace("%", ".*").replace("_", ".")
    found = re.fullmatch(pattern, name, re.IGNORECASE if statement.ignore_case else 0) is not None
    return found != statement.negated


def _show_create(env: TableEnvironment, kind: str, statement: st.Show) -> TableResult:
    if kind == "CATALOG":
        name = statement.path[0]
        env.catalogs.catalog(name)
        pairs = sorted(env.catalogs.catalog_options[name].items())
        options = ",\n  ".join(f"'{key}' = '{value}'" for key, value in pairs)
        written = env.catalogs.catalog_comments.get(name)
        comment = f"COMMENT {sql_literal(written)}\n" if written else ""
        return _table(["result"], [[f"CREATE CATALOG {quoted(name)}\n{comment}WITH (\n  {options}\n)\n"]])
    if kind == "MODEL":
        path = env.catalogs.identifier(statement.path)
        model = _model(env, statement.path)
        return _table(["result"], [[shown_model(path, model, env.catalogs.is_temporary("model", path))]])
    found = env.catalogs.table(statement.path)
    path = env.catalogs.identifier(statement.path)
    temporary = env.catalogs.is_temporary("table", path)
    if isinstance(found, CatalogView):
        if kind == "TABLE":
            raise InvalidTable(
                f"SHOW CREATE TABLE is only supported for tables, but {path} is a view. Use SHOW CREATE VIEW."
            )
        return _table(["result"], [[shown_view(path, found, temporary)]])
    if kind == "VIEW":
        raise InvalidTable(
            f"SHOW CREATE VIEW is only supported for views, but {path} is a table. Use SHOW CREATE TABLE."
        )
    return _table(["result"], [[shown_table(path, found.table, temporary)]])


def _described(env: TableEnvironment, path: tuple[str, ...]) -> list[list[Any]]:
    found = env.catalogs.table(path)
    if isinstance(found, ResolvedTable):
        times = {column.name: found.table.time_of(column) for column in found.table.columns}
        return described(found.table, _shown_times(env, times))
    row_type = binder(env).table(path).row_type
    times = {column.name: column.time.value for column in row_type if column.time is not None}
    comments = {column.name: column.comment for column in found.columns}
    columns = (TableColumn(column.name, column.type, comment=comments.get(column.name)) for column in row_type)
    return described(CatalogTable(tuple(columns)), _shown_times(env, times))


def _shown_times(env: TableEnvironment, times: dict[str, str]) -> dict[str, str]:
    """Return the time attributes by column: a batch has no event time."""
    hidden = "" if env.is_streaming else "ROWTIME"
    return {name: time for name, time in times.items() if time != hidden}


def _describe(env: TableEnvironment, statement: st.Describe) -> TableResult:
    if statement.kind == "TABLE":
        return _describe_rows(_described(env, statement.path))
    if statement.kind == "MODEL":
        return _describe_model(_model(env, statement.path))
    rows: list[list[Any]]
    if statement.kind == "CATALOG":
        name = statement.path[0]
        env.catalogs.catalog(name)
        options = env.catalogs.catalog_options[name]
        rows = [["name", name], ["type", options.get("type", "")]]
        rows.append(["comment", env.catalogs.catalog_comments.get(name)])
        if statement.extended:
            rows += [[f"option:{key}", value] for key, value in options.items() if key != "type"]
    elif statement.kind == "DATABASE":
        catalog, database = env.catalogs.database_path(statement.path)
        found = env.catalogs.catalog(catalog).databases().get(database)
        if found is None:
            raise InvalidTable(f"Database {database} does not exist in catalog {catalog}.")
        rows = [["name", database], ["comment", found.comment]]
    elif statement.kind == "FUNCTION":
        rows = _described_function(env, statement.path)
    else:
        raise InvalidProgram(_OF_A_CLIENT.format(f"DESCRIBE {statement.kind}"))
    return _table(["info name", "info value"], rows)


def _model(env: TableEnvironment, path: tuple[str, ...]) -> CatalogModel:
    found = env.catalogs.find("model", path)
    if not isinstance(found, CatalogModel):
        full = env.catalogs.identifier(path)
        raise InvalidTable(f"Model with the identifier '{full}' doesn't exist. SHOW MODELS lists those of a database.")
    return found


def _describe_model(model: CatalogModel) -> TableResult:
    names, types = ["name", "type", "null", "is input"], [STRING, STRING, BooleanType(), BooleanType()]
    rows = [
        [column.name, str(column.type.nullable()), column.type.is_nullable, columns is model.inputs, column.comment]
        for columns in (model.inputs, model.outputs)
        for column in columns
    ]
    if any(row[-1] is not None for row in rows):
        names, types = [*names, "comment"], [*types, STRING]
    shown = [Row(*row[: len(names)]) for row in rows]
    return TableResult(names, types, shown, schema=ResolvedSchema.physical(names, types), null="")


def _described_function(env: TableEnvironment, path: tuple[str, ...]) -> list[list[Any]]:
    function = env.catalogs.function(path)
    if function is None:
        if len(path) > 1 or path[0].upper() not in env.list_functions():
            raise InvalidTable(f"Function '{'.'.join(path)}' does not exist.")
        return [["is system function", "true"], ["is temporary", "false"]]
    is_system = len(path) == 1 and path[0].upper() in env.catalogs.system_functions
    is_temporary = is_system or env.catalogs.is_temporary("function", env.catalogs.identifier(path, "function"))
    resources = ", ".join(function.resources)
    return [
        ["is system function", str(is_system).lower()], ["is temporary", str(is_temporary).lower()],
        ["class name", function.target], ["function language", function.language], ["resource uris", f"[{resources}]"],
    ]  # fmt: skip


def _describe_rows(rows: list[list[Any]], shows: Callable[[str], bool] = lambda name: True) -> TableResult:
    names = ["name", "type", "null", "key", "extras", "watermark"]
    types: list[Any] = [STRING, STRING, BooleanType(), STRING, STRING, STRING]
    if any(row[6] is not None for row in rows):
        names, types = [*names, "comment"], [*types, STRING]
    shown = [Row(*row[: len(names)]) for row in rows if shows(row[0])]
    return TableResult(names, types, shown, schema=ResolvedSchema.physical(names, types), null="")


def _table(names: list[str], rows: Iterable[Sequence[Any]]) -> TableResult:
    types = [STRING] * len(names)
    content = ResultKind.SUCCESS_WITH_CONTENT
    return TableResult(
        names, types, [Row(*row) for row in rows], kind=content, schema=ResolvedSchema.physical(names, types), null=""
    )


_ACTIONS: dict[type, Callable[[Any, Any], TableResult]] = {
    st.Query: _query,
    st.Insert: _insert,
    st.StatementSetBlock: _statement_set,
    st.Explain: _explain,
    st.CompilePlan: _compile_plan,
    st.ExecutePlan: _execute_plan,
    st.CreateTable: _create_table,
    st.CreateView: _create_view,
    st.CreateFunction: _create_function,
    st.CreateDatabase: _create_database,
    st.CreateCatalog: _create_catalog,
    st.CreateModel: _create_model,
    st.Drop: _drop,
    st.Alter: _alter,
    st.Use: _use,
    st.SetOption: _set,
    st.ResetOption: _reset,
    st.Module: _module,
    st.Jar: _jar,
    st.Show: _show,
    st.Describe: _describe,
}
