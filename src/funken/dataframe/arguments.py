"""Arguments of the methods of frames, checked: names, expressions, flags; ``TypeError`` or ``ValueError`` otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from funken.table.expression import Expression, col
from funken.table.schema import Schema
from funken.table.types import LogicalType, RowType

if TYPE_CHECKING:
    from funken.table.rendering import Rendering

Columns: TypeAlias = str | Expression | Sequence[str | Expression]
Flags: TypeAlias = bool | Sequence[bool] | None


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
    raise TypeError(f"{what} are strings or expressions, but got {given!r}.")


def column_name(given: Any, what: str) -> str:
    """Return the name of a column: as it is, or of an expression that is nothing else."""
    if isinstance(given, str):
        return given
    if isinstance(given, Expression) and given._column is not None:
        return given._column
    raise TypeError(f"{what} must be a column, but got {given!r}. Add it by with_column() first.")


def expression(given: Any, frame: Any, what: str) -> Expression:
    """Return an expression: the argument, or the result of a function of the frame."""
    found = given(frame) if frame is not None and callable(given) and not isinstance(given, type) else given
    if not isinstance(found, Expression):
        raise TypeError(
            f"{what} must be an Expression, or a function of the frame that returns one, but got {found!r}."
        )
    return found


def named(given: Mapping[str, Any], what: str) -> list[Expression]:
    """Return expressions by name as expressions with an alias."""
    return [expression(one, None, what).alias(name) for name, one in given.items()]


def names(given: Any, what: str) -> list[str]:
    """Return names: of a string, or of a list of strings that is not empty and has no duplicates."""
    found = listed(given)
    if not found:
        raise ValueError(f"{what} must not be empty.")
    for one in found:
        if not isinstance(one, str):
            raise TypeError(f"{what} must be a string or a list of strings, but got {one!r}.")
        if not one:
            raise ValueError(f"{what} has an empty name.")
    if len(set(found)) != len(found):
        raise ValueError(f"{what} has duplicate names: {', '.join(found)}.")
    return found


def known(given: Sequence[str], columns: Sequence[str], what: str) -> list[str]:
    """Return names that are columns; raises ``ValueError`` for another."""
    for one in given:
        if one not in columns:
            raise ValueError(
                f"{what} names the column {one!r}, which does not exist. The frame has: {', '.join(columns)}."
            )
    return list(given)


def free_name(base: str, taken: Iterable[str]) -> str:
    """Return a name that is no column."""
    used, name = set(taken), base
    while name in used:
        name += "_"
    return name


def renaming(args: Sequence[Any], mapping: Any, columns: Sequence[str]) -> dict[str, str]:
    """Return the columns that are renamed, with their new names."""
    if args and mapping is not None:
        raise ValueError("rename_columns() takes positional arguments or mapping, not both.")
    spec = args[0] if len(args) == 1 else mapping
    if len(args) > 1:
        if len(args) % 2:
            raise ValueError(f"rename_columns() takes old and new names in turns, but got {len(args)} names.")
        spec = dict(zip(args[::2], args[1::2], strict=True))
    if callable(spec) and not isinstance(spec, Mapping):
        spec = {name: spec(name) for name in columns}
    if not isinstance(spec, Mapping):
        raise TypeError(f"rename_columns() takes a dict, a function, or old and new names in turns, but got {spec!r}.")
    for name in (*spec, *spec.values()):
        if not isinstance(name, str):
            raise TypeError(f"names of columns are strings, but rename_columns() got {name!r}.")
    return {old: new for old, new in spec.items() if old in columns and old != new}


def sort_keys(given: Any, columns: Sequence[str], what: str) -> list[Expression]:
    """Return the sort keys of rows; a direction is not part of it."""
    found = listed(given)
    if not found:
        raise ValueError(f"{what} must not be empty.")
    for one in found:
        if isinstance(one, str):
            known([one], columns, what)
        elif isinstance(one, Expression) and str(one).startswith(("asc(", "desc(")):
            raise ValueError(f"{what} must not say asc or desc, but got {one}. Use descending instead.")
    return [column(one, what) for one in found]


def flags(given: Flags, keys: Sequence[Any], what: str) -> list[Any]:
    """Return a flag per key: of one for all, or of a list; ``None`` for each if there is none."""
    found = list(given) if isinstance(given, list | tuple) else [given] * len(keys)
    for one in found:
        if one is not None and not isinstance(one, bool):
            raise TypeError(f"{what} must be a boolean or a list of booleans, but got {one!r}.")
    if len(found) != len(keys):
        raise ValueError(f"{what} must have the same length as the sort keys, {len(keys)}, but has {len(found)}.")
    return found


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
    return [expression(one, None, "aggregations") for one in given] + named(by_name, "aggregations")


def interval(given: Any) -> Expression:
    """Return an interval of time."""
    if not isinstance(given, Expression):
        raise TypeError(f"an interval is a timedelta or an expression, lit(10).minutes say, but got {given!r}.")
    return given


def count(n: Any) -> int:
    """Return a number of rows."""
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"n must be an integer, but got {n!r}.")
    if n < 0:
        raise ValueError(f"n must be non-negative, but got {n}.")
    return n


def timeout(seconds: Any) -> float | None:
    """Return a number of seconds, or ``None``."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"timeout is a number of seconds, but got {seconds!r}.")
    if seconds < 0:
        raise ValueError(f"timeout must be non-negative, but got {seconds}.")
    return float(seconds)


def batch_size(rows: Any) -> int:
    """Return a number of rows of a batch."""
    if isinstance(rows, bool) or not isinstance(rows, int):
        raise TypeError(f"batch_size must be an integer, but got {rows!r}.")
    if rows < 1:
        raise ValueError(f"batch_size must be positive, but got {rows}.")
    return rows


def batch_format(given: Any) -> str:
    """Return the form of a batch."""
    if given not in ("pandas", "pyarrow"):
        raise ValueError(f"batch_format must be 'pandas' or 'pyarrow', but got {given!r}.")
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
        raise ValueError(f"row_kind_field {field!r} conflicts with a column. Pass another name.")
    return field


def field_names(type_: LogicalType) -> list[str]:
    """Return the names of the columns that a result of a type makes: its fields, or ``f0``."""
    return [field.name for field in type_.fields] if isinstance(type_, RowType) else ["f0"]


def output_names(call: Any) -> list[str]:
    """Return the names of the columns of a table function's call, if its declaration knows them."""
    if not isinstance(call, Expression):
        raise TypeError(f"join_lateral() takes a call of a table function, f(col('text')) say, but got {call!r}.")
    dtype = getattr(call._function, "return_dtype", None)
    return field_names(dtype.logical_type) if dtype is not None else []


def physical_schema(row_type: Any) -> Schema:
    """Return the columns of a frame as the schema of a table to write."""
    builder = Schema.new_builder()
    for one in row_type:
        builder.column(one.name, one.type)
    return builder.build()
