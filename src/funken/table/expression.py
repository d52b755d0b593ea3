"""Expressions of the Table API: ``col("a") + 1``, ``col("b").sum``; functions are in ``expressions``.

An expression is rendered as SQL where a table is made of it, so that the Table API and SQL have one binder. A *rendering* gives
names to what has none in SQL: windows, tables, functions of the program.
"""

from __future__ import annotations

import datetime
import enum
import inspect
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from funken.errors import InvalidProgram
from funken.expr.sql.texts import double_text
from funken.table.expression_methods import AGGREGATES, METHODS, SqlMethods
from funken.table.frames import frame_of
from funken.table.schema import as_type
from funken.table.types import quoted
from funken.types.callables import check_kind
from funken.types.row import Row

if TYPE_CHECKING:
    from funken.table.rendering import Rendering
    from funken.table.table import Table

Render = Callable[["Rendering"], str]


class TimeIntervalUnit(enum.Enum):
    """Units of ``extract``, ``floor`` and ``ceil``."""

    YEAR = 0
    YEAR_TO_MONTH = 1
    QUARTER = 2
    MONTH = 3
    WEEK = 4
    DAY = 5
    DAY_TO_HOUR = 6
    DAY_TO_MINUTE = 7
    DAY_TO_SECOND = 8
    HOUR = 9
    SECOND = 10
    HOUR_TO_MINUTE = 11
    HOUR_TO_SECOND = 12
    MINUTE = 13
    MINUTE_TO_SECOND = 14
    MILLENNIUM = 15
    CENTURY = 16
    DECADE = 17
    MILLISECOND = 18
    MICROSECOND = 19
    NANOSECOND = 20
    EPOCH = 21


class TimePointUnit(enum.Enum):
    """Units of ``timestamp_diff``."""

    YEAR = 0
    MONTH = 1
    DAY = 2
    HOUR = 3
    MINUTE = 4
    SECOND = 5
    QUARTER = 6
    WEEK = 7
    MILLISECOND = 8
    MICROSECOND = 9


class JsonType(enum.Enum):
    """Types of documents for ``is_json``."""

    VALUE = 0
    SCALAR = 1
    ARRAY = 2
    OBJECT = 3


class JsonExistsOnError(enum.Enum):
    """The result of ``json_exists`` for an error."""

    TRUE = 0
    FALSE = 1
    UNKNOWN = 2
    ERROR = 3


class JsonValueOnEmptyOrError(enum.Enum):
    """The result of ``json_value`` for a missing value, or an error."""

    NULL = 0
    ERROR = 1
    DEFAULT = 2


class JsonQueryWrapper(enum.Enum):
    """A rule for putting the results of ``json_query`` into an array."""

    WITHOUT_ARRAY = 0
    CONDITIONAL_ARRAY = 1
    UNCONDITIONAL_ARRAY = 2


class JsonQueryOnEmptyOrError(enum.Enum):
    """The result of ``json_query`` for a missing value, or an error."""

    NULL = 0
    EMPTY_ARRAY = 1
    EMPTY_OBJECT = 2
    ERROR = 3


class JsonOnNull(enum.Enum):
    """A rule for writing NULL in a constructor of JSON."""

    NULL = 0
    ABSENT = 1


class Expression(SqlMethods):
    """A value of each row, or of many rows.

    >>> str(col("a") + 1), str(col("b").sum.alias("s"))
    ('plus(a, 1)', "as(sum(b), 's')")
    >>> bool(col("a") == 1)
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: an expression has no truth value: use &, | and ~ instead of and, or, not, and
    between() instead of a chain of comparisons. The expression is equals(a, 1).
    """

    def __init__(
        self,
        render: Render,
        text: str,
        *,
        names: tuple[str, ...] = (),
        column: str | None = None,
        constant: Any = None,
        distinct: Render | None = None,
        expand: Callable[[Table], list[Expression]] | None = None,
        function: Any = None,
        plain: Expression | None = None,
        arguments: tuple[Any, ...] = (),
        name: str | None = None,
    ) -> None:
        self._name = name
        self._render = render
        self._text = text
        self._names = names
        self._column = column
        self._constant = constant
        self._distinct_render = distinct
        self._expand = expand
        self._function = function
        self._plain = plain
        self._arguments = arguments

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def __bool__(self) -> bool:
        raise InvalidProgram(
            "an expression has no truth value: use &, | and ~ instead of and, or, not, and between() instead of a chain of "
            f"comparisons. The expression is {self}."
        )

    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Expression:
        """Return the field of a ROW: ``col("at").city`` is ``col("at").get("city")``."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.get(name)

    def sql(self, rendering: Rendering) -> str:
        """Return the expression as SQL."""
        return self._render(rendering)

    # ---- operators

    def __add__(self, other: Any) -> Expression:
        return _template("plus", "`$PLUS`({0}, {1})", self, other)

    def __radd__(self, other: Any) -> Expression:
        return _template("plus", "`$PLUS`({0}, {1})", other, self)

    def __sub__(self, other: Any) -> Expression:
        return _infix("minus", "-", self, other)

    def __rsub__(self, other: Any) -> Expression:
        return _infix("minus", "-", other, self)

    def __mul__(self, other: Any) -> Expression:
        return _infix("times", "*", self, other)

    def __rmul__(self, other: Any) -> Expression:
        return _infix("times", "*", other, self)

    def __truediv__(self, other: Any) -> Expression:
        return _infix("divide", "/", self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return _infix("divide", "/", other, self)

    def __mod__(self, other: Any) -> Expression:
        return _infix("mod", "%", self, other)

    def __rmod__(self, other: Any) -> Expression:
        return _infix("mod", "%", other, self)

    def __pow__(self, other: Any) -> Expression:
        return _function("power", "POWER", self, other)

    def __rpow__(self, other: Any) -> Expression:
        return _function("power", "POWER", other, self)

    def __neg__(self) -> Expression:
        return _template("minusPrefix", "(- {0})", self)

    def __abs__(self) -> Expression:
        return _function("abs", "ABS", self)

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return _infix("equals", "=", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return _infix("notEquals", "<>", self, other)

    def __lt__(self, other: Any) -> Expression:
        return _infix("lessThan", "<", self, other)

    def __le__(self, other: Any) -> Expression:
        return _infix("lessThanOrEqual", "<=", self, other)

    def __gt__(self, other: Any) -> Expression:
        return _infix("greaterThan", ">", self, other)

    def __ge__(self, other: Any) -> Expression:
        return _infix("greaterThanOrEqual", ">=", self, other)

    def __and__(self, other: Any) -> Expression:
        return _infix("and", "AND", self, other)

    def __rand__(self, other: Any) -> Expression:
        return _infix("and", "AND", other, self)

    def __or__(self, other: Any) -> Expression:
        return _infix("or", "OR", self, other)

    def __ror__(self, other: Any) -> Expression:
        return _infix("or", "OR", other, self)

    def __invert__(self) -> Expression:
        return _template("isNotTrue", "({0} IS NOT TRUE)", self)

    def __getitem__(self, index: Any) -> Expression:
        return self.at(index)

    __iter__ = None  # an expression that can be indexed is no sequence

    # ---- names, types, places

    def alias(self, name: str, *extra_names: str) -> Expression:
        """Name the value, or the columns of a table function."""
        texts = "".join(f", {shown(one)}" for one in (name, *extra_names))
        return Expression(
            self._render, f"as({self}{texts})", names=(name, *extra_names), column=self._column,
            constant=self._constant, function=self._function, arguments=self._arguments,
            plain=self if self._plain is None else self._plain,
        )  # fmt: skip

    def as_argument(self, name: str) -> Expression:
        """Make the value a named argument of a function."""
        return Expression(lambda r: f"{quoted(name)} => {self.sql(r)}", f"ASSIGNMENT({shown(name)}, {self})")

    def cast(self, data_type: Any) -> Expression:
        """Convert the value to a type; an impossible conversion fails."""
        return self._cast("CAST", data_type)

    def try_cast(self, data_type: Any) -> Expression:
        """Convert the value to a type; an impossible conversion is NULL."""
        return self._cast("TRY_CAST", data_type)

    def _cast(self, name: str, data_type: Any) -> Expression:
        type_ = as_type(data_type)
        return Expression(
            lambda r: f"{name}({self.sql(r)} AS {type_.sql()})",
            f"{'cast' if name == 'CAST' else name}({self}, {type_})",
            arguments=(self, type_),
        )

    def get(self, name_or_index: str | int) -> Expression:
        """Return a field of a ROW, by name or position."""
        is_place = isinstance(name_or_index, int)

        def render(rendering: Rendering) -> str:
            row = self.sql(rendering)
            return f"`$FIELD`({row}, {name_or_index})" if is_place else f"({row}).{quoted(str(name_or_index))}"

        return Expression(render, f"get({self}, {shown(name_or_index)})", arguments=(self, name_or_index))

    def at(self, index: Any) -> Expression:
        """Return an element of an ARRAY (from 1), or the value of a key of a MAP."""
        return _template("at", "{0}[{1}]", self, index)

    @property
    def flatten(self) -> Expression:
        """Take the fields of a ROW as columns: ``row$x``; a value of another type stays as it is."""
        return Expression(self._render, f"flatten({self})", expand=lambda table: table._flattened(self))

    @property
    def distinct(self) -> Expression:
        """Let an aggregate see each value once: ``col("a").count.distinct``."""
        return Expression(self._distinct_render or self._no_distinct, f"distinct({self})")

    def _no_distinct(self, rendering: Rendering) -> str:
        raise InvalidProgram(f"distinct follows an aggregate, as in col('a').count.distinct, but {self} is none.")

    @property
    def asc(self) -> Expression:
        """Sort in ascending order."""
        return _template("asc", "{0} ASC", self)

    @property
    def desc(self) -> Expression:
        """Sort in descending order."""
        return _template("desc", "{0} DESC", self)

    def over(
        self, alias: Any = None, *, order_by: Any = None, partition_by: Any = None, rows: Any = None, range: Any = None
    ) -> Expression:
        """Compute an aggregate over a window of rows: by the alias that it has in ``over_window``, or by keywords.

        ``rows`` and ``range`` are a distance back from the current row, or a pair of ends (``funken.dataframe.preceding``).
        """
        keywords = (order_by, partition_by, rows, range)
        if alias is None:
            return self._framed(*keywords)
        if any(one is not None for one in keywords):
            raise TypeError(
                "over() got multiple values: pass the alias of a window, or order_by and the others by keywords."
            )
        name = alias._column if isinstance(alias, Expression) else str(alias)
        return Expression(
            lambda r: f"`$NULLABLE`({self.sql(r)} OVER ({r.over_window(name)}))",
            f"over({self}, {alias if isinstance(alias, Expression) else shown(name)})",
        )

    def _framed(self, order_by: Any, partition_by: Any, rows: Any, range_: Any) -> Expression:
        order = _named_column(order_by, "order_by")
        several = partition_by if isinstance(partition_by, list | tuple) else [partition_by]
        if not several:
            raise TypeError("partition_by must not be empty; leave it out for one partition.")
        partition = [] if partition_by is None else [_named_column(one, "partition_by") for one in several]
        frame = frame_of(rows, range_)

        def render(r: Rendering) -> str:
            head = f"PARTITION BY {', '.join(one.sql(r) for one in partition)} " if partition else ""
            ends = frame.sql(lambda distance: lit_or_expression(distance).sql(r))
            return f"`$NULLABLE`({self.sql(r)} OVER ({head}ORDER BY {order.sql(r)} {ends}))"

        return Expression(render, f"over({self}, {', '.join([str(order), *frame.shown(), *map(str, partition)])})")

    # ---- windows

    def _property(self, text: str, suffix: str) -> Expression:
        name = self._column or str(self)
        return Expression(lambda r: r.window_property(name, suffix, self), f"{text}({self})")

    @property
    def start(self) -> Expression:
        """Return the beginning of the window of a group."""
        return self._property("start", "START")

    @property
    def end(self) -> Expression:
        """Return the end of the window of a group."""
        return self._property("end", "END")

    @property
    def rowtime(self) -> Expression:
        """Declare event time, or return the time attribute of the window of a group."""
        return self._property("rowtime", "ROWTIME")

    @property
    def proctime(self) -> Expression:
        """Declare processing time, or return the time attribute of the window of a group."""
        return self._property("proctime", "PROCTIME")

    # ---- logic

    def between(self, lower_bound: Any, upper_bound: Any) -> Expression:
        """Return TRUE if the value is between two others, both included."""
        return _template("between", "({0} BETWEEN {1} AND {2})", self, lower_bound, upper_bound)

    def not_between(self, lower_bound: Any, upper_bound: Any) -> Expression:
        """Return TRUE if the value is below or above two others."""
        return _template("notBetween", "({0} NOT BETWEEN {1} AND {2})", self, lower_bound, upper_bound)

    def then(self, if_true: Any, if_false: Any) -> Expression:
        """Choose a value by a condition."""
        return _template("ifThenElse", "CASE WHEN {0} THEN {1} ELSE {2} END", self, if_true, if_false)

    def in_(self, first_element_or_table: Any, *remaining_elements: Any) -> Expression:
        """Return True for a value that is among others, or in the only column of a table."""
        if not isinstance(first_element_or_table, Expression) and hasattr(first_element_or_table, "plan"):
            table = first_element_or_table
            return Expression(lambda r: f"({self.sql(r)} IN (SELECT * FROM {r.table(table)}))", f"in({self}, table)")
        values = [*map(lit_or_expression, (first_element_or_table, *remaining_elements))]
        return Expression(
            lambda r: f"({self.sql(r)} IN ({', '.join(one.sql(r) for one in values)}))",
            f"in({self}, {', '.join(map(str, values))})",
        )

    # ---- texts and times whose SQL has a form of its own

    def trim(self, character: Any = None) -> Expression:
        """Remove characters (blanks, unless said otherwise) at both ends."""
        return self._trim("BOTH", character)

    def trim_leading(self, character: Any = None) -> Expression:
        """Remove characters at the beginning."""
        return self._trim("LEADING", character)

    def trim_trailing(self, character: Any = None) -> Expression:
        """Remove characters at the end."""
        return self._trim("TRAILING", character)

    def _trim(self, where: str, character: Any) -> Expression:
        removed = lit_or_expression(" " if character is None else character)
        ends = f"{shown(where != 'TRAILING')}, {shown(where != 'LEADING')}"
        return _template(
            "trim", f"TRIM({where} {{1}} FROM {{0}})", self, removed, text=f"trim({ends}, {removed}, {self})"
        )

    def like(self, pattern: Any = None, escape: Any = None) -> Expression:
        """Return TRUE if a text matches a pattern of SQL."""
        if escape is not None:
            return _template("LIKE", "({0} LIKE {1} ESCAPE {2})", self, pattern, escape)
        return _template("LIKE", "({0} LIKE {1})", self, pattern)

    def similar(self, pattern: Any = None) -> Expression:
        """Return TRUE if a text matches a regular expression of SQL."""
        return _template("similar", "({0} SIMILAR TO {1})", self, pattern)

    def position(self, haystack: Any = None) -> Expression:
        """Return the position of the text in another, from 1; 0 if it is not there."""
        return _template("position", "POSITION({0} IN {1})", self, haystack)

    def overlay(self, new_string: Any, starting: Any, length: Any = None) -> Expression:
        """Replace a part of a text by another."""
        if length is None:
            return _template("overlay", "OVERLAY({0} PLACING {1} FROM {2})", self, new_string, starting)
        return _template("overlay", "OVERLAY({0} PLACING {1} FROM {2} FOR {3})", self, new_string, starting, length)

    def extract(self, time_interval_unit: TimeIntervalUnit) -> Expression:
        """Return a part of a time."""
        unit = time_interval_unit.name
        return _template("extract", f"EXTRACT({unit} FROM {{0}})", self, text=f"extract({unit}, {self})")

    def floor(self, time_interval_unit: TimeIntervalUnit | None = None) -> Expression:
        """Round down, to an integer or to a unit of time."""
        return self._rounded("FLOOR", time_interval_unit)

    def ceil(self, time_interval_unit: TimeIntervalUnit | None = None) -> Expression:
        """Round up, to an integer or to a unit of time."""
        return self._rounded("CEIL", time_interval_unit)

    def _rounded(self, name: str, unit: TimeIntervalUnit | None) -> Expression:
        to = "" if unit is None else f" TO {unit.name}"
        text = f"{name.lower()}({self}{'' if unit is None else f', {unit.name}'})"
        return _template(name.lower(), f"{name}({{0}}{to})", self, text=text)

    def _interval(self, unit: str) -> Expression:
        number = self._constant
        if isinstance(number, int) and not isinstance(number, bool):
            sign = "-" if number < 0 else ""
            return Expression(
                lambda r: f"INTERVAL {sign}'{abs(number)}' {unit}", str(number * _INTERVALS[unit.lower()])
            )
        return Expression(lambda r: f"({self.sql(r)} * INTERVAL '1' {unit})", f"{self}.{unit.lower()}")

    @property
    def milli(self) -> Expression:
        """Make an interval of milliseconds."""
        number = self._constant
        if not isinstance(number, int):
            raise InvalidProgram(f"milli(s) follows a constant, as in lit(10).millis, but {self} is none.")
        text = f"{abs(number) // 1000}.{abs(number) % 1000:03d}"
        sign = "-" if number < 0 else ""
        return Expression(lambda r: f"INTERVAL {sign}'{text}' SECOND(9, 3)", str(number))

    millis = milli

    # ---- JSON

    def is_json(self, json_type: JsonType | None = None) -> Expression:
        """Return TRUE if a text is JSON, of a type if one is named."""
        kind = "" if json_type is None else f" {json_type.name}"
        return _template("IS_JSON", f"({{0}} IS JSON{kind})", self, text=_json_text("IS_JSON", self, json_type))

    def json_exists(self, path: str, on_error: JsonExistsOnError | None = None) -> Expression:
        """Return TRUE if a path leads to something in a document."""
        tail = "" if on_error is None else f" {on_error.name} ON ERROR"
        text = _json_text("JSON_EXISTS", self, lit_or_expression(path), on_error)
        return _template("JSON_EXISTS", f"JSON_EXISTS({{0}}, {{1}}{tail})", self, path, text=text)

    def json_value(
        self,
        path: str,
        returning_type: Any = None,
        on_empty: JsonValueOnEmptyOrError = JsonValueOnEmptyOrError.NULL,
        default_on_empty: Any = None,
        on_error: JsonValueOnEmptyOrError = JsonValueOnEmptyOrError.NULL,
        default_on_error: Any = None,
    ) -> Expression:
        """Return the scalar at a path of a document."""
        returning = "" if returning_type is None else f" RETURNING {as_type(returning_type).sql()}"

        def clause(choice: JsonValueOnEmptyOrError, place: str, when: str) -> str:
            value = f"DEFAULT {place}" if choice is JsonValueOnEmptyOrError.DEFAULT else choice.name
            return f" {value} ON {when}"

        tail = clause(on_empty, "{2}", "EMPTY") + clause(on_error, "{3}", "ERROR")
        pattern = f"JSON_VALUE({{0}}, {{1}}{returning}{tail})"
        parts = [lit_or_expression(one) for one in (path, default_on_empty, default_on_error)]
        type_ = as_type("STRING" if returning_type is None else returning_type)
        text = _json_text("JSON_VALUE", self, parts[0], type_, on_empty, parts[1], on_error, parts[2])
        return _template("JSON_VALUE", pattern, self, *parts, text=text)

    def json_query(
        self,
        path: str,
        wrapping_behavior: JsonQueryWrapper = JsonQueryWrapper.WITHOUT_ARRAY,
        on_empty: JsonQueryOnEmptyOrError = JsonQueryOnEmptyOrError.NULL,
        on_error: JsonQueryOnEmptyOrError = JsonQueryOnEmptyOrError.NULL,
    ) -> Expression:
        """Return the part of a document at a path, as JSON."""
        wrapper = {
            JsonQueryWrapper.WITHOUT_ARRAY: "WITHOUT ARRAY WRAPPER",
            JsonQueryWrapper.CONDITIONAL_ARRAY: "WITH CONDITIONAL ARRAY WRAPPER",
            JsonQueryWrapper.UNCONDITIONAL_ARRAY: "WITH UNCONDITIONAL ARRAY WRAPPER",
        }[wrapping_behavior]
        empty, error = (choice.name.replace("_", " ") for choice in (on_empty, on_error))
        pattern = f"JSON_QUERY({{0}}, {{1}} {wrapper} {empty} ON EMPTY {error} ON ERROR)"
        choices = (as_type("STRING"), wrapping_behavior, on_empty, on_error)
        text = _json_text("JSON_QUERY", self, lit_or_expression(path), *choices)
        return _template("JSON_QUERY", pattern, self, path, text=text)

    # ---- aggregates with arguments

    def list_agg(self, separator: Any = None) -> Expression:
        """Join the values of rows as text."""
        values = (self, "," if separator is None else separator)
        return _aggregate("listAgg", "LISTAGG", *values, pattern="`$NULLABLE`({})")

    def percentile(self, percentage: Any, frequency: Any = None) -> Expression:
        """Return a percentile of the values of rows."""
        return _aggregate("PERCENTILE", "PERCENTILE", self, percentage, *([] if frequency is None else [frequency]))

    def if_null(self, null_replacement: Any) -> Expression:
        """Replace NULL."""
        return _function("IFNULL", "IFNULL", self, null_replacement)


def _camel(name: str) -> str:
    head, *tail = name.rstrip("_").split("_")
    return head + "".join(part.capitalize() for part in tail)


_UNARY = [
    "exp",
    "log10",
    "log2",
    "ln",
    "cosh",
    "sinh",
    "sin",
    "cos",
    "tan",
    "cot",
    "asin",
    "acos",
    "atan",
    "tanh",
    "degrees",
    "radians",
    "sqrt",
    "abs",
    "sign",
    "bin",
    "hex",
    "unhex",
    "char_length",
    "ascii",
    "chr",
    "reverse",
    "from_base64",
    "to_base64",
    "cardinality",
    "element",
    "map_keys",
    "map_values",
    "map_entries",
    "md5",
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
]
_RENAMED = {"upper_case": "UPPER", "lower_case": "LOWER", "init_cap": "INITCAP"}
_TIMES = {"to_date": "DATE", "to_time": "TIME", "to_timestamp": "TIMESTAMP(3)"}
_JOINED = {"starts_with": "STARTSWITH", "ends_with": "ENDSWITH"}
"""Methods whose function of SQL is written in one word."""
_AGGREGATES = {
    "sum": "SUM", "sum0": "SUM0", "min": "MIN", "max": "MAX", "count": "COUNT", "avg": "AVG",
    "first_value": "FIRST_VALUE", "last_value": "LAST_VALUE", "stddev_pop": "STDDEV_POP", "stddev_samp": "STDDEV_SAMP",
    "var_pop": "VAR_POP", "var_samp": "VAR_SAMP", "collect": "COLLECT", "array_agg": "ARRAY_AGG",
}  # fmt: skip
_POSTFIX = {
    "is_null": "IS NULL", "is_not_null": "IS NOT NULL", "is_true": "IS TRUE", "is_not_true": "IS NOT TRUE",
    "is_false": "IS FALSE", "is_not_false": "IS NOT FALSE",
}  # fmt: skip
_INTERVALS = {
    "year": 12, "quarter": 3, "month": 1, "week": 604_800_000, "day": 86_400_000, "hour": 3_600_000, "minute": 60_000,
    "second": 1000,
}  # fmt: skip
"""Units of intervals, in months or milliseconds."""
_OLDER = {
    *(
        "concat",
        "decode",
        "encode",
        "instr",
        "left",
        "locate",
        "lpad",
        "ltrim",
        "parse_url",
        "regexp",
        "regexp_extract",
    ),
    *("regexp_replace", "repeat", "replace", "right", "round", "rpad", "rtrim", "sha2", "split_index", "str_to_map"),
    *("substr", "substring", "truncate", *_UNARY, *_AGGREGATES),
} - {"array_agg", "map_keys", "map_values", "map_entries", "unhex"}
"""Methods that Flink shows in camel case; it shows the functions that it got later by their names in SQL."""
_SHOWN = {"upper_case": "upper", "lower_case": "lower", "init_cap": "initCap", "translate": "TRANSLATE3"} | {
    name: name for name in ("first_value", "last_value")
}


def _shown_name(name: str, sql: str) -> str:
    """Return the name of a method's function in the text of an expression."""
    return _SHOWN.get(name) or (_camel(name) if name in _OLDER else sql)


def _json_text(name: str, *parts: Any) -> str:
    names = [part.name if isinstance(part, enum.Enum) else str(part) for part in parts if part is not None]
    return f"{name}({', '.join(names)})"


def _with_property(name: str, make: Callable[[Expression], Expression], doc: str) -> None:
    made = property(make)
    made.__doc__ = doc
    setattr(Expression, name, made)


def _parameters_of(text: str) -> list[inspect.Parameter]:
    """Return the parameters that a text lists: ``name``, ``name=`` for one that may be left out, ``*names``."""
    found = []
    for part in filter(None, text.split(",")):
        kind = inspect.Parameter.VAR_POSITIONAL if part[0] == "*" else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = None if part[-1] == "=" else inspect.Parameter.empty
        found.append(inspect.Parameter(part.strip("*="), kind, default=default, annotation=Any))
    return found


def _with_methods(texts: str, make: Callable[..., Expression]) -> None:
    for name, text in re.findall(r"(\w+)\((.*?)\)", texts):
        _with_method(name, _parameters_of(text), make)


def _with_method(name: str, parameters: list[inspect.Parameter], make: Callable[..., Expression]) -> None:
    me = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.Signature([me, *parameters], return_annotation=Expression)

    def method(*args: Any, **named: Any) -> Expression:
        bound = signature.bind(*args, **named)
        bound.apply_defaults()
        value, *values = bound.args
        while values and values[-1] is None:
            values.pop()
        return make(_shown_name(name, sql), sql, value, *values)

    sql = _JOINED.get(name, name.upper())
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Call ``{sql}`` of SQL with the value as its first argument."
    method.__signature__ = signature  # type: ignore[attr-defined]
    setattr(Expression, name, method)


def _of_function(text: str, sql: str) -> Callable[[Expression], Expression]:
    return lambda self: _function(text, sql, self)


def _of_aggregate(text: str, sql: str) -> Callable[[Expression], Expression]:
    return lambda self: _aggregate(text, sql, self)


def _of_template(text: str, pattern: str) -> Callable[[Expression], Expression]:
    return lambda self: _template(text, pattern, self)


def _of_cast(type_: str) -> Callable[[Expression], Expression]:
    return lambda self: self.cast(type_)


def _of_interval(unit: str) -> Callable[[Expression], Expression]:
    return lambda self: self._interval(unit)


def _with_all() -> None:
    """Add the members that are one function of SQL each to ``Expression``."""
    functions = {**{name: name.upper() for name in _UNARY}, **_RENAMED}
    for name, sql in functions.items():
        _with_property(name, _of_function(_shown_name(name, sql), sql), f"Call ``{sql}``.")
    for name, sql in _AGGREGATES.items():
        _with_property(name, _of_aggregate(_shown_name(name, sql), sql), f"Aggregate rows by ``{sql}``.")
    for name, sql in _POSTFIX.items():
        _with_property(name, _of_template(_camel(name), f"({{0}} {sql})"), f"Return whether the value {sql}.")
    _with_methods(METHODS, _function)
    _with_methods(AGGREGATES, _aggregate)
    for unit in _INTERVALS:
        for name in (unit, f"{unit}s"):
            _with_property(name, _of_interval(unit.upper()), f"Make an interval of {unit}s.")
    for name, type_ in _TIMES.items():
        _with_property(name, _of_cast(type_), f"Convert the value to {type_}; a text that is none fails.")


def _log(self: Expression, base: Any = None) -> Expression:
    """Return a logarithm: natural, or to a base."""
    return _function("log", "LOG", self) if base is None else _function("log", "LOG", base, self)


def _instance_of(value: Any) -> bool:
    return isinstance(value, Expression)


def _named_column(given: Any, what: str) -> Expression:
    if isinstance(given, str):
        return col(given)
    if not isinstance(given, Expression):
        raise TypeError(f"{what} must be a column name or Expression, but got {given!r}.")
    return given


def lit_or_expression(value: Any) -> Expression:
    """Return an expression as it is, and anything else as a constant."""
    return value if isinstance(value, Expression) else lit(value)


def _infix(text: str, operator: str, left: Any, right: Any) -> Expression:
    return _template(text, f"({{0}} {operator} {{1}})", left, right)


def _template(name: str, pattern: str, *args: Any, text: str | None = None) -> Expression:
    values = [lit_or_expression(arg) for arg in args]
    return Expression(
        lambda r: _filled(r.operator(name, pattern, len(values)), [one.sql(r) for one in values]),
        f"{name}({', '.join(map(str, values))})" if text is None else text,
    )


def _filled(pattern: str, parts: list[str]) -> str:
    for place, part in enumerate(parts):
        pattern = pattern.replace(f"{{{place}}}", f"\x00{place}\x00")
        parts[place] = part
    for place, part in enumerate(parts):
        pattern = pattern.replace(f"\x00{place}\x00", part)
    return pattern


def _function(text: str, sql: str, *args: Any) -> Expression:
    values = [lit_or_expression(arg) for arg in args]
    return Expression(
        lambda r: f"{sql}({', '.join(one.sql(r) for one in values)})", f"{text}({', '.join(map(str, values))})"
    )


def _aggregate(text: str, sql: str, *args: Any, pattern: str = "{}") -> Expression:
    values = [lit_or_expression(arg) for arg in args]

    called = f"{text}({', '.join(map(str, values))})"

    def rendered(r: Rendering, prefix: str = "", name: str = called) -> str:
        r.aggregate(name)
        return pattern.format(f"{sql}({prefix}{', '.join(one.sql(r) for one in values)})")

    return Expression(rendered, called, distinct=lambda r: rendered(r, "DISTINCT ", f"distinct({called})"))


_with_all()
Expression.log = _log  # type: ignore[attr-defined]


# ---- free functions


def col(name: str) -> Expression:
    """Return a column by its name.

    >>> str(col("price") * 2)
    'times(price, 2)'
    """
    check_kind(name, str, "col()", "Columns have names; lit() makes constants.")
    if name == "*":
        return Expression(lambda r: "*", "*", expand=lambda table: [col(name) for name in table.names])
    return Expression(lambda r: r.column(name), name, column=name)


def lit(v: object, data_type: object = None) -> Expression:
    """Return a constant, of a type if one is named.

    >>> str(lit("a")), str(lit(None, "INT"))
    ("'a'", 'null')
    """
    if isinstance(v, Expression):
        return v
    text = sql_literal(v)
    if data_type is not None:
        type_ = as_type(data_type)
        text = f"CAST({text} AS {type_.sql()})"
    return Expression(lambda r: text, shown(v), constant=v)


def shown(v: Any) -> str:
    """Return a constant in the text of an expression.

    >>> shown("it's"), shown(True), shown(None), shown(1e20), shown(b"ab")
    ("'it''s'", 'true', 'null', '1.0E20', '[97, 98]')
    """
    if v is None or isinstance(v, bool):
        return "null" if v is None else str(v).lower()
    if isinstance(v, str):
        return sql_literal(v)
    if isinstance(v, float):
        return double_text(v)
    if isinstance(v, list):
        return f"array({', '.join(map(shown, v))})"
    return str(list(v)) if isinstance(v, bytes | bytearray) else str(v)


def sql_literal(v: Any) -> str:
    """Return a value of Python as a constant of SQL; raises ``InvalidProgram`` for one that has none.

    >>> sql_literal("it's"), sql_literal(1.5), sql_literal([1, None]), sql_literal(b"a")
    ("'it''s'", '1.5E0', 'ARRAY[1, NULL]', "X'61'")
    """
    if v is None:
        return "NULL"
    if isinstance(v, bool):
        return "TRUE" if v else "FALSE"
    if isinstance(v, int):
        return f"({v})" if v < 0 else str(v)
    if isinstance(v, float):
        if not math.isfinite(v):
            name = "NaN" if math.isnan(v) else "Infinity" if v > 0 else "-Infinity"
            return f"CAST('{name}' AS DOUBLE)"
        text = repr(v).upper()
        return text if "E" in text else f"{text}E0"
    if isinstance(v, Decimal):
        return format(v, "f")
    if isinstance(v, str):
        return "'" + v.replace("'", "''") + "'"
    if isinstance(v, bytes | bytearray):
        return f"X'{bytes(v).hex()}'"
    return _composite_literal(v)


def _composite_literal(v: Any) -> str:
    if isinstance(v, datetime.datetime):
        if v.tzinfo is not None:
            micros = (v - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
            return f"TO_TIMESTAMP_LTZ({micros // 1000}, 3)"
        fraction = f".{v.microsecond:06d}".rstrip("0") if v.microsecond else ""
        return f"TIMESTAMP '{v:%Y-%m-%d %H:%M:%S}{fraction}'"
    if isinstance(v, datetime.date):
        return f"DATE '{v.isoformat()}'"
    if isinstance(v, datetime.time):
        return f"TIME '{v:%H:%M:%S}'"
    if isinstance(v, datetime.timedelta):
        micros = v // datetime.timedelta(microseconds=1)
        seconds, rest = divmod(abs(micros), 1_000_000)
        clock = f"{seconds // 86400} {seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest // 1000:03d}"
        return f"INTERVAL {'-' if micros < 0 else ''}'{clock}' DAY TO SECOND"
    if isinstance(v, list):
        return f"ARRAY[{', '.join(map(sql_literal, v))}]"
    if isinstance(v, dict):
        return f"MAP[{', '.join(sql_literal(part) for pair in v.items() for part in pair)}]"
    if isinstance(v, Row | tuple):
        return f"ROW({', '.join(map(sql_literal, v))})"
    if hasattr(v, "item"):
        return sql_literal(v.item())
    remedy = "pass a number, text, time, list, dict or Row"
    if callable(v):
        remedy = (
            "an expression of columns is a condition or a result, as in col('n') > 1; a function of values gets @udf"
        )
    raise InvalidProgram(f"{v!r} is no constant of SQL; {remedy}.")


__all__ = [
    "Expression",
    "JsonExistsOnError",
    "JsonOnNull",
    "JsonQueryOnEmptyOrError",
    "JsonQueryWrapper",
    "JsonType",
    "JsonValueOnEmptyOrError",
    "TimeIntervalUnit",
    "TimePointUnit",
    "col",
    "lit",
    "lit_or_expression",
]
