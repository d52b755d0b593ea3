"""Functions of the Table API: ``col("a")``, ``lit(1)``, ``concat(...)``, ``call(f, ...)``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from funken.errors import InvalidProgram
from funken.table.expression import (
    Expression,
    JsonExistsOnError,
    JsonOnNull,
    JsonQueryOnEmptyOrError,
    JsonQueryWrapper,
    JsonType,
    JsonValueOnEmptyOrError,
    TimeIntervalUnit,
    TimePointUnit,
    _camel,
    _function,
    _log,
    _template,
    col,
    lit,
    lit_or_expression,
)
from funken.table.types import quoted

if TYPE_CHECKING:
    from funken.table.rendering import Rendering
    from funken.table.table import Table


def _bare(text: str, shown: str = "") -> Callable[[], Expression]:
    name = text.lower().replace("()", "")

    def make() -> Expression:
        return Expression(lambda r: text, (shown or _camel(name)) + "()")

    make.__name__ = name
    make.__doc__ = f"Return ``{text}``."
    return make


current_database = _bare("CURRENT_DATABASE()")
current_date = _bare("CURRENT_DATE")
current_time = _bare("CURRENT_TIME")
current_timestamp = _bare("CURRENT_TIMESTAMP")
local_time = _bare("LOCALTIME", "localTime")
local_timestamp = _bare("LOCALTIMESTAMP", "localTimestamp")
pi = _bare("PI()")
e = _bare("E()")
uuid = _bare("UUID()")
source_watermark = _bare("SOURCE_WATERMARK()", "SOURCE_WATERMARK")


def range_(start: str | int, end: str | int) -> Expression:
    """Return a range of columns, by names or positions (from 1), for ``with_columns`` and ``without_columns``."""

    def expand(table: Table) -> list[Expression]:
        low, high = (_place_of(one, table) for one in (start, end))
        if low > high:
            raise InvalidProgram(f"the columns from {start!r} to {end!r} are none: the first stands behind the last.")
        return [col(name) for name in table.names[low - 1 : high]]

    return Expression(_not_here, f"rangeTo({start}, {end})", expand=expand)


def _shown(name: str, *columns: Any) -> str:
    return f"{name}({', '.join(map(str, columns))})"


def with_all_columns() -> Expression:
    """Return all columns."""
    return col("*")


def with_columns(head: Any, *tails: Any) -> Expression:
    """Return some columns: by ranges, positions (from 1), or expressions."""
    return Expression(
        _not_here, _shown("withColumns", head, *tails), expand=lambda table: _picked((head, *tails), table)
    )


def without_columns(head: Any, *tails: Any) -> Expression:
    """Return all columns but some."""

    def expand(table: Table) -> list[Expression]:
        out = {one._column for one in _picked((head, *tails), table)}
        return [col(name) for name in table.names if name not in out]

    return Expression(_not_here, _shown("withoutColumns", head, *tails), expand=expand)


def _picked(items: Iterable[Any], table: Table) -> list[Expression]:
    picked: list[Expression] = []
    for item in items:
        if isinstance(item, int) and not isinstance(item, bool):
            picked.append(col(table.names[_place_of(item, table) - 1]))
        elif isinstance(item, str):
            picked.append(col(item))
        else:
            picked += [item] if item._expand is None else item._expand(table)
    return picked


def _place_of(column: str | int, table: Table) -> int:
    """Return the position of a column, from 1."""
    names = table.names
    place = column if isinstance(column, int) else names.index(column) + 1 if column in names else 0
    if not 0 < place <= len(names):
        raise InvalidProgram(f"the table has no column {column!r}, but {len(names)}: {', '.join(names)}.")
    return place


def _not_here(rendering: Any) -> NoReturn:
    raise InvalidProgram("a range of columns stands in select(), with_columns() or without_columns() only.")


def and_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression:
    """Return TRUE if all conditions hold."""
    return _joined("and", "AND", (predicate0, predicate1, *predicates))


def or_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression:
    """Return TRUE if a condition holds."""
    return _joined("or", "OR", (predicate0, predicate1, *predicates))


def _joined(text: str, word: str, parts: tuple[Any, ...]) -> Expression:
    return _template(text, "(" + f" {word} ".join(f"{{{place}}}" for place in range(len(parts))) + ")", *parts)


def not_(expression: Any) -> Expression:
    """Return TRUE if a condition does not hold; NULL stays NULL."""
    return _template("not", "(NOT {0})", expression)


def if_then_else(condition: Any, if_true: Any, if_false: Any) -> Expression:
    """Choose a value by a condition."""
    return lit_or_expression(condition).then(if_true, if_false)


def coalesce(*args: Any) -> Expression:
    """Return the first value that is not NULL."""
    return _function("COALESCE", "COALESCE", *args)


def current_watermark(rowtimeAttribute: Any) -> Expression:
    """Return the watermark of a time attribute before the row."""
    column = col(rowtimeAttribute) if isinstance(rowtimeAttribute, str) else rowtimeAttribute
    return _function("CURRENT_WATERMARK", "CURRENT_WATERMARK", column)


def to_date(date_str: Any, format: Any = None) -> Expression:
    """Return the date of a text."""
    return _function("toDate", "TO_DATE", date_str, *([] if format is None else [format]))


def to_timestamp(timestamp_str: Any, format: Any = None) -> Expression:
    """Return the TIMESTAMP of a text."""
    return _function("toTimestamp", "TO_TIMESTAMP", timestamp_str, *([] if format is None else [format]))


def to_timestamp_ltz(*args: Any) -> Expression:
    """Return the TIMESTAMP_LTZ of a number or a text."""
    return _function("TO_TIMESTAMP_LTZ", "TO_TIMESTAMP_LTZ", *args)


def temporal_overlaps(
    left_time_point: Any, left_temporal: Any, right_time_point: Any, right_temporal: Any
) -> Expression:
    """Return TRUE if two spans of time overlap."""
    pattern = "(({0}, {1}) OVERLAPS ({2}, {3}))"
    return _template("temporalOverlaps", pattern, left_time_point, left_temporal, right_time_point, right_temporal)


def date_format(timestamp: Any, format: Any) -> Expression:
    """Return a time as text, by a pattern of Java."""
    return _function("dateFormat", "DATE_FORMAT", timestamp, format)


def timestamp_diff(time_point_unit: TimePointUnit, time_point1: Any, time_point2: Any) -> Expression:
    """Return the number of whole units between two times."""
    points = [lit_or_expression(one) for one in (time_point1, time_point2)]
    unit = time_point_unit.name
    text = _shown("timestampDiff", unit, *points)
    return _template("timestampDiff", f"TIMESTAMPDIFF({unit}, {{0}}, {{1}})", *points, text=text)


def convert_tz(date_str: Any, tz_from: Any, tz_to: Any) -> Expression:
    """Return a time of one zone as text in another."""
    return _function("convertTz", "CONVERT_TZ", date_str, tz_from, tz_to)


def from_unixtime(unixtime: Any, format: Any = None) -> Expression:
    """Return seconds since 1970 as text."""
    return _function("fromUnixtime", "FROM_UNIXTIME", unixtime, *([] if format is None else [format]))


def unix_timestamp(date_str: Any = None, format: Any = None) -> Expression:
    """Return the seconds since 1970, now or of a text."""
    return _function("unixTimestamp", "UNIX_TIMESTAMP", *(one for one in (date_str, format) if one is not None))


def array(head: Any, *tail: Any) -> Expression:
    """Return an ARRAY."""
    parts = (head, *tail)
    return _template("array", "ARRAY[" + ", ".join(f"{{{place}}}" for place in range(len(parts))) + "]", *parts)


def row(head: Any, *tail: Any) -> Expression:
    """Return a ROW."""
    return _function("row", "`$ROW`", head, *tail)


def map_(key: Any, value: Any, *tail: Any) -> Expression:
    """Return a MAP of keys and values in turns."""
    parts = (key, value, *tail)
    return _template("map", "MAP[" + ", ".join(f"{{{place}}}" for place in range(len(parts))) + "]", *parts)


def map_from_arrays(key: Any, value: Any) -> Expression:
    """Return a MAP of an array of keys and one of values."""
    return _function("MAP_FROM_ARRAYS", "MAP_FROM_ARRAYS", key, value)


def descriptor(*column_names: str) -> Expression:
    """Return names of columns as an argument."""
    return Expression(
        lambda r: f"DESCRIPTOR({', '.join(map(quoted, column_names))})", f"DESCRIPTOR({', '.join(column_names)})"
    )


def object_of(class_name: str, *args: Any) -> Expression:
    """Return a structured value of a class and its fields in turns."""
    return _function("OBJECT_OF", "OBJECT_OF", class_name, *args)


class RowInterval(Expression):
    """A number of rows."""

    def __init__(self, rows: int) -> None:
        super().__init__(lambda r: str(rows), str(rows), constant=rows)
        self.rows = rows


def row_interval(rows: int) -> Expression:
    """Return a number of rows, for windows."""
    return RowInterval(rows)


def rand(seed: Any = None) -> Expression:
    """Return a random number from 0 to 1."""
    return _function("rand", "RAND", *([] if seed is None else [seed]))


def rand_integer(bound: Any, seed: Any = None) -> Expression:
    """Return a random integer below a bound."""
    return _function("randInteger", "RAND_INTEGER", *([bound] if seed is None else [seed, bound]))


def atan2(y: Any, x: Any) -> Expression:
    """Return the angle of a point."""
    return _function("atan2", "ATAN2", y, x)


def negative(v: Any) -> Expression:
    """Return the negative of a number."""
    return -lit_or_expression(v)


def concat(first: Any, *others: Any) -> Expression:
    """Return texts, one after the other; NULL if one is NULL."""
    return _function("concat", "CONCAT", first, *others)


def concat_ws(separator: Any, first: Any, *others: Any) -> Expression:
    """Return texts with a separator between them; NULLs are left out."""
    return _function("concat_ws", "CONCAT_WS", separator, first, *others)


def null_of(data_type: Any) -> Expression:
    """Return NULL of a type."""
    return lit(None, data_type)


def log(v: Any, base: Any = None) -> Expression:
    """Return a logarithm: natural, or to a base."""
    return _log(lit_or_expression(v), base)


def json(value: Any) -> Expression:
    """Return a text as JSON, inside of ``json_object`` or ``json_array``."""
    return _function("JSON", "JSON", value)


def json_string(value: Any) -> Expression:
    """Return a value as JSON."""
    return _function("JSON_STRING", "JSON_STRING", value)


def json_object(on_null: JsonOnNull = JsonOnNull.NULL, *args: Any) -> Expression:
    """Return a JSON object of keys and values in turns."""
    pairs = ", ".join(f"KEY {{{place}}} VALUE {{{place + 1}}}" for place in range(0, len(args), 2))
    values = [lit_or_expression(arg) for arg in args]
    text = _shown("JSON_OBJECT", on_null.name, *values)
    return _template("JSON_OBJECT", f"JSON_OBJECT({pairs} {on_null.name} ON NULL)", *values, text=text)


def json_object_agg(on_null: JsonOnNull, key_expr: Any, value_expr: Any) -> Expression:
    """Return the JSON object of the rows of a group."""
    return _template(
        "jsonObjectAgg", f"JSON_OBJECTAGG(KEY {{0}} VALUE {{1}} {on_null.name} ON NULL)", key_expr, value_expr
    )


def json_array(on_null: JsonOnNull = JsonOnNull.ABSENT, *args: Any) -> Expression:
    """Return a JSON array."""
    parts = ", ".join(f"{{{place}}}" for place in range(len(args)))
    values = [lit_or_expression(arg) for arg in args]
    text = _shown("JSON_ARRAY", on_null.name, *values)
    return _template("JSON_ARRAY", f"JSON_ARRAY({parts} {on_null.name} ON NULL)", *values, text=text)


def json_array_agg(on_null: JsonOnNull, item_expr: Any) -> Expression:
    """Return the JSON array of the rows of a group."""
    return _template("jsonArrayAgg", f"JSON_ARRAYAGG({{0}} {on_null.name} ON NULL)", item_expr)


def lag(expr: Any, offset: int = 1, default: Any = None) -> Expression:
    """Return the value of a row before."""
    return _function("lag", "LAG", expr, offset, *([] if default is None else [default]))


def lead(expr: Any, offset: int = 1, default: Any = None) -> Expression:
    """Return the value of a row behind."""
    return _function("lead", "LEAD", expr, offset, *([] if default is None else [default]))


def call(f: Any, *args: Any) -> Expression:
    """Call a function: of SQL or registered, by name; or of the program, by its definition."""
    values = [
        lit_or_expression(arg) if isinstance(arg, Expression) or not hasattr(arg, "plan") else arg for arg in args
    ]

    def render(rendering: Rendering) -> str:
        name = f if isinstance(f, str) else rendering.function(f)
        if getattr(f, "kind", "") == "aggregate":
            rendering.aggregate(shown)
        parts = [
            one.sql(rendering) if isinstance(one, Expression) else f"TABLE {rendering.table(one)}" for one in values
        ]
        return f"{name}({', '.join(parts)})"

    def distinct(rendering: Rendering) -> str:
        name = f if isinstance(f, str) else rendering.function(f)
        rendering.aggregate(f"distinct({shown})")
        return f"{name}(DISTINCT {', '.join(one.sql(rendering) for one in values)})"

    name = f if isinstance(f, str) else getattr(f, "name", str(f))
    shown = f"{name}({', '.join(map(str, values))})"
    return Expression(render, shown, function=f, distinct=distinct, arguments=tuple(values))


def call_sql(sql_expression: str) -> Expression:
    """Return an expression that is written in SQL."""
    return Expression(lambda r: f"({sql_expression})", f"[{sql_expression}]")


UNBOUNDED_ROW = Expression(lambda r: "ROWS UNBOUNDED PRECEDING", "UNBOUNDED_ROW")
UNBOUNDED_RANGE = Expression(lambda r: "RANGE UNBOUNDED PRECEDING", "UNBOUNDED_RANGE")
CURRENT_ROW = Expression(lambda r: "ROWS CURRENT ROW", "CURRENT_ROW")
CURRENT_RANGE = Expression(lambda r: "RANGE CURRENT ROW", "CURRENT_RANGE")


__all__ = [
    "CURRENT_RANGE",
    "CURRENT_ROW",
    "UNBOUNDED_RANGE",
    "UNBOUNDED_ROW",
    "Expression",
    "JsonExistsOnError",
    "JsonOnNull",
    "JsonQueryOnEmptyOrError",
    "JsonQueryWrapper",
    "JsonType",
    "JsonValueOnEmptyOrError",
    "TimeIntervalUnit",
    "TimePointUnit",
    "and_",
    "array",
    "atan2",
    "call",
    "call_sql",
    "coalesce",
    "col",
    "concat",
    "concat_ws",
    "convert_tz",
    "current_database",
    "current_date",
    "current_time",
    "current_timestamp",
    "current_watermark",
    "date_format",
    "descriptor",
    "e",
    "from_unixtime",
    "if_then_else",
    "json",
    "json_array",
    "json_array_agg",
    "json_object",
    "json_object_agg",
    "json_string",
    "lag",
    "lead",
    "lit",
    "local_time",
    "local_timestamp",
    "log",
    "map_",
    "map_from_arrays",
    "negative",
    "not_",
    "null_of",
    "object_of",
    "or_",
    "pi",
    "rand",
    "rand_integer",
    "range_",
    "row",
    "row_interval",
    "source_watermark",
    "temporal_overlaps",
    "timestamp_diff",
    "to_date",
    "to_timestamp",
    "to_timestamp_ltz",
    "unix_timestamp",
    "uuid",
    "with_all_columns",
    "with_columns",
    "without_columns",
]
