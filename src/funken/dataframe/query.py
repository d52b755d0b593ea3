"""``sql``: a query over frames and functions, which it knows by the names of variables."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from funken.dataframe.frame import DataFrame
from funken.dataframe.session import get_or_create_table_environment
from funken.errors import InvalidProgram
from funken.table.environment import TableEnvironment
from funken.table.sql.statements import InvalidQuery
from funken.table.udf import FunctionDefinition


def sql(query: str, *, auto_bind: bool = True, **bindings: Any) -> DataFrame:
    """Return the result of a query, which may name frames and functions of the program.

    With ``auto_bind``, variables of the caller that are frames or functions are known by their names; one whose name is taken or
    no name of SQL is left out with a warning. ``bindings`` give names explicitly, and may hide tables and built-in functions.
    The names hold for the call. Raises ``ValueError`` for a statement that is no query, and for frames of several environments.

    >>> from funken.dataframe import from_dict
    >>> people = from_dict({"name": ["Ann", "Bob"], "age": [30, 17]})
    >>> sql("SELECT name FROM people WHERE age >= 18").collect()
    [<Row('Ann')>]
    """
    if not isinstance(query, str):
        raise TypeError(f"query must be a string, but sql() got {query!r}.")
    frame = inspect.currentframe()
    caller = None if frame is None else frame.f_back
    variables = {**caller.f_globals, **caller.f_locals} if auto_bind and caller is not None else {}
    for name, value in bindings.items():
        if not _is_bound(value):
            raise TypeError(
                f"sql() binding {name!r} must be a DataFrame or a UDF created with pyflink.dataframe.udf, udtf or udaf, got "
                f"{type(value).__name__}. Functions of the Table API are registered with create_temporary_system_function()."
            )
    automatic = {
        name: value for name, value in variables.items() if _is_bound(value) and not _is_named(name, value, bindings)
    }
    environment = _environment(bindings, automatic)
    with _bound(environment, bindings, automatic):
        try:
            return DataFrame(environment.sql_query(query))
        except InvalidQuery as error:
            missing = re.search(r"Object '(\w+)' not found", str(error))
            if missing is not None:
                error.add_note(
                    f"sql() knows the variables of the function that calls it, and of its module. Pass others by name: "
                    f"sql(query, {missing[1]}=frame)."
                )
            raise
        except InvalidProgram as error:
            if "takes a query only" not in str(error):
                raise
            raise ValueError(
                "sql() only supports queries that return a result, such as SELECT or VALUES (no INSERT / DDL); use "
                "execute_sql() of the table environment for other statements."
            ) from error


def _is_bound(value: Any) -> bool:
    """Return True for a frame, and for a function that this API declared."""
    return isinstance(value, DataFrame) or (isinstance(value, FunctionDefinition) and "return_dtype" in vars(value))


def _is_named(name: str, value: Any, bindings: Mapping[str, Any]) -> bool:
    """Return True if a binding has the name of a variable; names of functions have no case."""
    if isinstance(value, DataFrame):
        return name in bindings
    return name.lower() in {one.lower() for one in bindings}


def _environment(bindings: Mapping[str, Any], automatic: Mapping[str, Any]) -> TableEnvironment:
    explicit = _of(bindings.values())
    if len(explicit) > 1:
        raise ValueError("sql() explicit bindings belong to different TableEnvironments; bind DataFrames of one.")
    if explicit:
        return explicit[0]
    found = _of(value for name, value in automatic.items() if name.isidentifier())
    if len(found) > 1:
        raise ValueError(
            "sql() auto-bound DataFrames belong to different TableEnvironments; set auto_bind=False and pass explicit bindings "
            "from a single one."
        )
    return found[0] if found else get_or_create_table_environment()


def _of(values: Iterable[Any]) -> list[TableEnvironment]:
    found = {id(one._table._environment): one._table._environment for one in values if isinstance(one, DataFrame)}
    return list(found.values())


@contextmanager
def _bound(environment: TableEnvironment, bindings: Mapping[str, Any], automatic: Mapping[str, Any]) -> Iterator[None]:
    """Register frames and functions by names, and remove these again."""
    tables, functions = set(environment.list_tables()), set(environment.list_user_defined_functions())
    temporary = {*environment.list_temporary_tables(), *environment.list_temporary_views()}
    views: list[str] = []
    names: list[str] = []

    def add(name: str, value: Any) -> None:
        if isinstance(value, DataFrame):
            environment.create_temporary_view(name, value.to_table())
            views.append(name)
        else:
            environment.create_temporary_system_function(name, value)
            names.append(name)

    try:
        for name, value in bindings.items():
            if not name.isidentifier():
                raise ValueError(f"cannot bind {name!r}: it is not a valid SQL identifier.")
            if isinstance(value, DataFrame) and name in temporary:
                raise ValueError(
                    f"cannot bind {name!r}: a temporary table or view with this name already exists. Choose another."
                )
            if not isinstance(value, DataFrame) and name.lower() in functions:
                raise ValueError(
                    f"cannot bind {name!r}: a temporary function with this name already exists. Choose another."
                )
            add(name, value)
        for name, value in automatic.items():
            why = _why_not(name, value, environment, tables, functions)
            if why:
                warnings.warn(f"sql() auto-bind skipped {name!r}: {why}.", stacklevel=4)
            else:
                add(name, value)
        yield
    finally:
        for name in views:
            environment.drop_temporary_view(name)
        for name in names:
            environment.drop_temporary_system_function(name)


def _why_not(name: str, value: Any, environment: TableEnvironment, tables: set[str], functions: set[str]) -> str:
    """Return the reason for which a variable is not bound; nothing if it is."""
    if not name.isidentifier():
        return "it is not a valid SQL identifier"
    if isinstance(value, DataFrame):
        if value._table._environment is not environment:
            return "it belongs to a different TableEnvironment"
        return "a table or view with this name already exists" if name in tables else ""
    from funken.expr.sql.functions import FUNCTIONS  # noqa: PLC0415 - loads Arrow

    built_in = any(rule.name.lower() == name.lower() for rule in FUNCTIONS)
    return "a function with this name already exists" if built_in or name.lower() in functions else ""
