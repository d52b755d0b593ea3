"""``sql``: a query over frames and functions, which it knows by the names of variables."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from funken.dataframe.frame import DataFrame
from funken.dataframe.session import get_or_create_table_environment
from funken.table.environment import TableEnvironment
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
        raise TypeError(f"the query is a string, but sql() got {query!r}.")
    frame = inspect.currentframe()
    caller = None if frame is None else frame.f_back
    variables = {**caller.f_globals, **caller.f_locals} if auto_bind and caller is not None else {}
    for name, value in bindings.items():
        if not isinstance(value, DataFrame | FunctionDefinition):
            raise TypeError(
                f"binding {name!r} must be a DataFrame or a function made by udf, udtf or udaf, but got {value!r}."
            )
    automatic = {
        name: value
        for name, value in variables.items()
        if isinstance(value, DataFrame | FunctionDefinition) and name not in bindings
    }
    environment = _environment(bindings, automatic)
    with _bound(environment, bindings, automatic):
        return DataFrame(environment.sql_query(query))


def _environment(bindings: Mapping[str, Any], automatic: Mapping[str, Any]) -> TableEnvironment:
    explicit = _of(bindings.values())
    if len(explicit) > 1:
        raise ValueError("the frames that sql() binds belong to different TableEnvironments. Bind those of one.")
    if explicit:
        return explicit[0]
    found = _of(value for name, value in automatic.items() if name.isidentifier())
    if len(found) > 1:
        raise ValueError(
            "variables of the caller are frames of different TableEnvironments. Pass auto_bind=False, and the frames of one by "
            "name."
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
            if name in temporary or (name.lower() in functions and not isinstance(value, DataFrame)):
                raise ValueError(
                    f"cannot bind {name!r}: a temporary table, view or function has that name. Choose another."
                )
            add(name, value)
        for name, value in automatic.items():
            why = _why_not(name, value, environment, tables, functions)
            if why:
                warnings.warn(f"sql() leaves out {name!r}: {why}.", stacklevel=4)
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
    if not name.isascii() or name.startswith("_"):
        return "it is no name of SQL"
    if isinstance(value, DataFrame):
        if value._table._environment is not environment:
            return "it belongs to another TableEnvironment"
        return "a table or view has that name" if name in tables else ""
    from funken.expr.sql.functions import FUNCTIONS  # noqa: PLC0415 - loads Arrow

    built_in = any(rule.name.lower() == name.lower() for rule in FUNCTIONS)
    return "a function has that name" if built_in or name.lower() in functions else ""
