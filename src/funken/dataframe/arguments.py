"""Arguments of the methods of frames, checked: names, expressions, flags; ``TypeError`` or ``ValueError`` otherwise."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from funken.table.expression import Expression, col
from funken.table.expressions import call_sql
from funken.table.schema import Schema
from funken.table.types import LogicalType, RowType

if TYPE_CHECKING:
    from funken.table.rendering import Rendering

Columns: TypeAlias = str | Expression | Sequence[str | Expression]
Flags: TypeAlias = bool | Sequence[bool] | None
_MOST_ROWS = 2**31 - 1


def listed(given: Any) -> list[Any]:
    """Return a list or tuple as a list, and anything else as one of one item."""
    return list(given) if isinstance(given, list | tuple) else [given]


def is_none(given: Any) -> bool:
    """Return True if the argument is empty: ``None``, or an empty list or tuple."""
    return given is None or (isinstance(given, list | tuple) and not given)


def column(given: Any, what: str) -> Expression:
    """Return a column by name, or an expression."""
    if isinstance(given, str):
        return col(given)
    if isinstance(given, Expression):
        return given
    raise TypeError(f"{what} must be strings or expressions, but got {given!r}.")


def column_name(given: Any, what: str) -> str:
    """Return the name of a column: as it is, or of an expression that is nothing else."""
    if isinstance(given, str):
        return given
    if isinstance(given, Expression) and given._column is not None:
        return given._column
    raise TypeError(
        f"{what} must be a column name or expression of a column, but got {given!r}. Add it by with_column() first."
    )


def computed(given: Any, frame: Any, what: str) -> Expression:
    """Return an expression: the argument, or the result of a function of the frame."""
    found = given(frame) if callable(given) and not isinstance(given, type | Expression) else given
    if not isinstance(found, Expression):
        raise TypeError(
            f"{what} must be an Expression, or a function of the frame that returns one, but got {found!r}."
        )
    return found


def predicate(given: Any, frame: Any) -> Expression:
    """Return a condition: an expression, SQL, or the result of a function of the frame."""
    if isinstance(given, str):
        return call_sql(given)
    if isinstance(given, Expression):
        return given
    if not callable(given) or isinstance(given, type):
        raise TypeError(f"predicate must be an Expression, SQL string, or callable, but got {given!r}.")
    found = given(frame)
    if not isinstance(found, Expression):
        raise TypeError(f"filter() callable predicates must return an Expression, but got {found!r}.")
    return found


def expressions(given: Iterable[Any], what: str) -> list[Expression]:
    """Return expressions; raises ``TypeError`` for anything else."""
    found = list(given)
    for one in found:
        if not isinstance(one, Expression):
            raise TypeError(f"{what} must be expressions, but got {one!r}. Write lit() for a constant.")
    return found


def named(given: Mapping[str, Any], what: str) -> list[Expression]:
    """Return expressions by name as expressions with an alias."""
    return [one.alias(name) for name, one in zip(given, expressions(given.values(), what), strict=True)]


def names(given: Any, what: str) -> list[str]:
    """Return names: of a string, or of a list of strings that is not empty."""
    found = listed(given)
    if not found:
        raise ValueError(f"{what} must not be empty.")
    for one in found:
        if not isinstance(one, str):
            raise TypeError(f"{what} must be a string or a list of strings, but got {one!r}.")
        if not one:
            raise ValueError(f"{what} column names must not be empty.")
    return found


def distinct_names(given: Any, what: str) -> list[str]:
    """Return names without duplicates; raises ``ValueError`` for some."""
    found = names(given, what)
    twice = repeated(found)
    if twice:
        raise ValueError(f"{what} column names must not be duplicated, but has {', '.join(twice)} twice.")
    return found


def schema_names(given: Sequence[Any]) -> list[str]:
    """Return the names of the columns that are created."""
    found = list(given)
    for one in found:
        if not isinstance(one, str):
            raise TypeError(f"schema must be a list of strings, but has {one!r}.")
    if not found:
        raise ValueError("schema must not be empty.")
    if "" in found:
        raise ValueError(f"schema field names must not be empty, but schema is {found}.")
    twice = repeated(found)
    if twice:
        raise ValueError(f"schema field names must be unique, but {', '.join(twice)} comes twice.")
    return found


def repeated(found: Sequence[str]) -> list[str]:
    """Return the names that come more than once, sorted."""
    return sorted({one for one in found if found.count(one) > 1})


def known(given: Sequence[str], columns: Sequence[str], what: str) -> list[str]:
    """Return names that are columns; raises ``ValueError`` for another."""
    for one in given:
        if one not in columns:
            raise ValueError(f"{what} column {one!r} does not exist, available columns: {', '.join(columns)}.")
    return list(given)


def checked_subset(given: Any, columns: Sequence[str]) -> list[str]:
    """Return the columns of a list, and all of ``None``: those that are searched for NULL or NaN."""
    if given is None:
        return list(columns)
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise TypeError(f"subset must be a list of strings, but got {given!r}.")
    if not given:
        raise ValueError("subset cannot be empty; leave it out for all columns.")
    unknown = sorted(set(given) - set(columns))
    if unknown:
        raise ValueError(f"Columns not found in DataFrame: {unknown}. It has: {', '.join(columns)}.")
    return given


def free_name(base: str, taken: Iterable[str]) -> str:
    """Return a name that is no column."""
    used, name = set(taken), base
    while name in used:
        name += "_"
    return name


def renaming(args: Sequence[Any], mapping: Any, columns: Sequence[str]) -> dict[str, str]:
    """Return the columns that are renamed, with their new names."""
    if args and mapping is not None:
        raise ValueError("rename_columns() accepts either positional arguments or mapping, not both.")
    spec, what = (args[0] if len(args) == 1 else mapping), "mapping keys and values must be strings"
    if len(args) > 1:
        if len(args) % 2:
            raise ValueError(
                f"rename_columns() positional arguments must be old/new name pairs, but are {len(args)} names."
            )
        spec, what = dict(zip(args[::2], args[1::2], strict=True)), "column names must be strings"
    if callable(spec) and not isinstance(spec, Mapping):
        spec, what = {name: spec(name) for name in columns}, "rename_columns() callable must return a string"
    if not isinstance(spec, Mapping):
        raise TypeError(
            f"mapping must be a dictionary or callable, or old and new names in turns, but rename_columns() got {spec!r}."
        )
    for name in (*spec, *spec.values()):
        if not isinstance(name, str):
            raise TypeError(f"{what}, but got {name!r}.")
    return {old: new for old, new in spec.items() if old in columns and old != new}


def sort_keys(given: Any, columns: Sequence[str], what: str) -> list[Expression]:
    """Return the sort keys of rows; a direction is not part of it."""
    found = listed(given)
    if not found:
        raise ValueError(f"{what} must not be empty.")
    for one in found:
        if not isinstance(one, str | Expression):
            raise TypeError(f"{what} must be a string, an expression, or a list or tuple of them, but got {one!r}.")
        if isinstance(one, str):
            known([one], columns, what)
        elif re.search(r"\b(asc|desc)\(", str(one)):
            raise ValueError(f"{what} expressions must not specify asc or desc; use descending instead of {one}.")
    return [column(one, what) for one in found]


def flags(given: Flags, keys: Sequence[Any], what: str) -> list[Any]:
    """Return a flag per key: of one for all, or of a list."""
    found = list(given) if isinstance(given, list | tuple) else [given] * len(keys)
    for one in found:
        if not isinstance(one, bool):
            raise TypeError(f"{what} must be a boolean or a list of booleans, but got {one!r}.")
    if len(found) != len(keys):
        raise ValueError(f"{what} must have the same length as the sort keys, {len(keys)}, but has {len(found)}.")
    return found


def nulls_flags(given: Any, keys: Sequence[Any]) -> list[Any]:
    """Return a flag per key that says where its NULL stands; ``None`` leaves that to its direction."""
    if given is None:
        return [None] * len(keys)
    free = [one is None for one in given] if isinstance(given, list | tuple) else []
    checked = [False if one is None else one for one in given] if free else given
    found = flags(checked, keys, "nulls_first")
    return [None if place < len(free) and free[place] else one for place, one in enumerate(found)]


def sort_clause(
    keys: Sequence[Expression], descending: Sequence[Any], nulls: Sequence[Any], rendering: Rendering
) -> str:
    """Return the keys of ORDER BY as SQL."""
    terms = []
    for key, is_descending, first in zip(keys, descending, nulls, strict=True):
        where = "" if first is None else " NULLS FIRST" if first else " NULLS LAST"
        terms.append(f"{key.sql(rendering)} {'DESC' if is_descending else 'ASC'}{where}")
    return ", ".join(terms)


def aggregates(given: Sequence[Any], by_name: Mapping[str, Any]) -> list[Expression]:
    """Return the expressions of ``agg``."""
    if not given and not by_name:
        raise ValueError("agg() requires at least one aggregation.")
    return expressions(given, "aggregations") + named(by_name, "aggregations")


def interval(given: Any) -> Expression:
    """Return an interval of time."""
    if not isinstance(given, Expression):
        raise TypeError(f"interval must be a datetime.timedelta or Expression, lit(10).minutes say, but got {given!r}.")
    return given


def integer(value: Any, what: str) -> int:
    """Return a whole number; a boolean is none."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an integer, but got {value!r}.")
    return value


def number(value: Any, what: str) -> float:
    """Return a finite number; a boolean is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} must be a number, but got {value!r}.")
    if not math.isfinite(value):
        raise ValueError(f"{what} must be finite, got {value}.")
    return value


def within(value: Any, what: str, least: float | None = None, most: float | None = None) -> Any:
    """Return a value that is in its range; raises ``ValueError`` otherwise."""
    if least is not None and value < least:
        raise ValueError(f"{what} must be at least {least}, got {value}.")
    if most is not None and value > most:
        raise ValueError(f"{what} must be at most {most}, got {value}.")
    return value


def count(n: Any) -> int:
    """Return a number of rows."""
    if integer(n, "n") < 0:
        raise ValueError(f"n must be non-negative, but got {n}.")
    if n > _MOST_ROWS:
        raise ValueError(f"n must be less than or equal to {_MOST_ROWS}, but got {n}.")
    return int(n)


def timeout(seconds: Any) -> float | None:
    """Return a number of seconds, or ``None``."""
    return None if seconds is None else float(within(number(seconds, "timeout"), "timeout", 0))


def batch_size(rows: Any) -> int:
    """Return a number of rows of a batch."""
    return int(within(integer(rows, "batch_size"), "batch_size", 1))


def batch_format(given: Any) -> str:
    """Return the form of a batch."""
    if given not in ("pandas", "pyarrow"):
        raise ValueError(f"batch_format must be one of ['pandas', 'pyarrow'], got {given!r}.")
    return str(given)


def kind_field(columns: Sequence[str], include: bool, field: Any) -> str | None:
    """Return the field that holds the row kind; ``None`` if there shall be none."""
    if not include:
        return None
    if not isinstance(field, str):
        raise TypeError(f"row_kind_field must be a string, but got {field!r}.")
    if not field:
        raise ValueError("row_kind_field must not be empty.")
    if field in columns:
        raise ValueError(
            f"row_kind_field {field!r} conflicts with an existing column; pass a different row_kind_field."
        )
    return field


def field_names(type_: LogicalType) -> list[str]:
    """Return the names of the columns that a result of a type makes: its fields, or ``f0``."""
    return [field.name for field in type_.fields] if isinstance(type_, RowType) else ["f0"]


def lateral_call(given: Any, columns: Sequence[str]) -> Expression:
    """Return the call of a table function with the names of its columns: of an alias, or of its declaration."""
    if not isinstance(given, Expression):
        raise TypeError(
            "table_function_call must be a call of a table function, f(col('text')) say, or another Expression with an "
            f"alias, but got a {type(given).__name__}."
        )
    call: Expression = given
    dtype = getattr(call._function, "return_dtype", None)
    if not call._names:
        if dtype is None:
            raise ValueError("Expression arguments passed to join_lateral require alias(), which names their columns.")
        if not getattr(call._function, "has_named_fields", False):
            raise ValueError(
                "UDTF calls passed to join_lateral require output names; use alias(), a TypedDict, or a named struct "
                "return_dtype."
            )
        call = call.alias(*field_names(dtype.logical_type))
    found = list(call._names)
    if not all(found) or repeated(found):
        raise ValueError(f"join_lateral output names must be non-empty and unique, but are {found}.")
    conflicts = sorted(set(columns) & set(found))
    if conflicts:
        raise ValueError(
            f"join_lateral output names conflict with input columns: {conflicts}. Name them otherwise with alias()."
        )
    return call


def physical_schema(row_type: Any) -> Schema:
    """Return the columns of a frame as the schema of a table to write."""
    builder = Schema.new_builder()
    for one in row_type:
        builder.column(one.name, one.type)
    return builder.build()
