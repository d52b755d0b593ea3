"""Run the tests of Flink's built-in functions on Funken, from a file that has them as JSON.

    python scripts/flink_functions.py functions.json [--filter TEXT]... [--verbose] [--json OUT]

An item is right if its value, its type (with nullability) or its error is Flink's. Items of the Table API are run as the SQL
that they are equal to, which is read from the expression's text if the file has none; what cannot be run is counted as left
out. The report is by the kind of failure.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from funken import Configuration, Row, RowKind, StreamExecutionEnvironment
from funken.errors import FunkenError
from funken.expr.evaluate import EvaluationContext, evaluate
from funken.expr.ir import Node
from funken.expr.sql.calls import cast
from funken.expr.sql.functions import FUNCTIONS
from funken.expr.sql.texts import (
    instant_nanos,
    read_date,
    read_time,
    read_timestamp,
    sized_bytes,
    sized_text,
    truncated,
    zone_of,
)
from funken.expr.sql.types import (
    STRING,
    ArrayType,
    BinaryType,
    BooleanType,
    CharType,
    DecimalType,
    IntType,
    LogicalType,
    MapType,
    MultisetType,
    RawType,
    RowType,
    is_timestamp,
    parse_type,
)
from funken.expr.sql.values import VariantValue, from_internal, key_of, to_internal
from funken.table.catalog import CatalogManager
from funken.table.connectors.values import register_rows
from funken.table.environment import StreamTableEnvironment
from funken.table.sql.binder import Binder
from funken.table.values import internal_value, python_value

NOW = 1_704_067_200_000
KINDS = {str(kind): kind for kind in RowKind}


class Different(Exception):
    """An item gives something else than it should."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Skipped(Exception):
    """An item that cannot be run."""


# ---- values of the file


def type_of(text: str) -> LogicalType:
    """Return a type as the file names it."""
    if text.startswith("LEGACY"):
        if "DecimalData" in text or "BigDecimal" in text:
            return DecimalType(38, 19) if "38, 18" not in text else DecimalType(38, 18)
        raise Skipped("a legacy type")
    if "LEGACY" in text:
        raise Skipped("a legacy type")
    return parse_type(re.sub(r"\*\w+\*", "", text))


def type_of_value(found: Any) -> LogicalType:
    """Return the type of a value whose column names a class of Java only."""
    match found:
        case {"$": "object", "v": dict() as fields} if fields:
            return RowType.of(*((name, type_of_value(each)) for name, each in fields.items()))
        case {"$": "array", "v": [first, *_]}:
            return ArrayType(type_of_value(first))
        case bool() | int() | str():
            return {bool: BooleanType(), int: IntType(), str: STRING}[type(found)]
        case None:
            return STRING
        case _:
            raise Skipped("a legacy type")


def decode(found: Any, type_: LogicalType) -> Any:
    """Return the internal value of a value of the file."""
    if found is None:
        return None
    if not isinstance(found, dict):
        if isinstance(type_, DecimalType):
            return Decimal(str(found))
        if type_.root in {"FLOAT", "DOUBLE"}:
            return float(found)
        if isinstance(found, str) and type_.family == "DATETIME":
            return _time(found, type_)
        return found
    tag, value = found["$"], found.get("v")
    if tag in {"array", "list", "set"}:
        element = type_.element if isinstance(type_, ArrayType | MultisetType) else type_
        return [decode(each, element) for each in value]
    if tag == "map":
        if isinstance(type_, MultisetType):
            return [(decode(key, type_.element), count) for key, count in value]
        assert isinstance(type_, MapType), type_
        return [(decode(key, type_.key), decode(each, type_.value)) for key, each in value]
    if tag == "row":
        assert isinstance(type_, RowType), type_
        if found.get("names"):
            by_name = dict(zip(found["names"], value, strict=True))
            return tuple(decode(by_name.get(each.name), each.type) for each in type_.fields)
        return tuple(decode(each, of.type) for each, of in zip(value, type_.fields, strict=True))
    if tag == "object":
        return _object(found, type_)
    return _scalar(tag, value, type_)


def fitted(value: Any, type_: LogicalType) -> Any:
    """Return a value as a source of the type gives it: texts padded, times cut."""
    if value is None:
        return None
    if isinstance(type_, CharType | BinaryType):
        return (sized_text if isinstance(type_, CharType) else sized_bytes)(value, type_)
    if is_timestamp(type_):
        return truncated(value, type_.precision)
    if isinstance(type_, ArrayType):
        return [fitted(each, type_.element) for each in value]
    return value


def _object(found: Any, type_: LogicalType) -> Any:
    if isinstance(type_, RowType):
        values = found.get("v") or {}
        values = values.get("fields") or values
        return tuple(decode(values.get(each.name), each.type) for each in type_.fields)
    return found.get("str")


def _scalar(tag: str, value: Any, type_: LogicalType) -> Any:
    match tag:
        case "tinyint" | "smallint" | "bigint":
            return Decimal(value) if isinstance(type_, DecimalType) else value
        case "float" | "double":
            return float(str(value).replace("Infinity", "inf"))
        case "decimal":
            return Decimal(value)
        case "bytes":
            return bytes.fromhex(value)
        case "date" | "time" | "timestamp" | "sql_timestamp" | "timestamp_ltz":
            return _time(value, type_)
        case "interval_day_time":
            return _duration(value)
        case "interval_year_month":
            return value if isinstance(value, int) else _months(value)
        case "bitmap":
            return tuple((low, high) for low, high in value)
        case "variant":
            return _variant(value)
        case _:
            raise Skipped(f"a value of the kind {tag}")


def _time(text: str, type_: LogicalType) -> Any:
    plain = text.replace("T", " ").removesuffix("Z")
    if type_.root == "DATE":
        return read_date(plain)
    if type_.root == "TIME":
        return read_time(plain if plain.count(":") == 2 else plain + ":00")
    if is_timestamp(type_):
        return read_timestamp(plain if plain.count(":") != 1 else plain + ":00")
    raise Skipped(f"a time for {type_}")


def _duration(text: str) -> int:
    match = re.fullmatch(r"(-?)P(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?[\d.]+)S)?)?", text)
    assert match, text
    days, hours, minutes, seconds = (float(each or 0) for each in match.groups()[1:])
    return round(((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000)


def _months(text: str) -> int:
    match = re.fullmatch(r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?", text)
    assert match, text
    return int(match.group(1) or 0) * 12 + int(match.group(2) or 0)


def _variant(found: Any) -> VariantValue:
    kind = found["type"]
    if kind == "OBJECT":
        fields = found["fields"].items() if isinstance(found["fields"], dict) else found["fields"]
        return VariantValue(kind, tuple((name, _variant(each)) for name, each in fields))
    if kind == "ARRAY":
        return VariantValue(kind, tuple(_variant(each) for each in found["elements"]))
    return VariantValue(kind, decode(found.get("value"), parse_type({"NULL": "NULL"}.get(kind, kind))))


# ---- functions of the tests


@dataclass(frozen=True)
class TestFunction:
    """A scalar function of a test class, in Python."""

    name: str
    parameters: tuple[LogicalType, ...]
    result: LogicalType
    compute: Callable[..., Any]
    kind: str = "scalar"
    deterministic: bool = True

    def infer(self, args: list[Node], names: Any) -> tuple[list[Node], LogicalType]:
        """Return the arguments as the function takes them, and the type of its result."""
        return [cast(node, type_) for node, type_ in zip(args, self.parameters, strict=True)], self.result

    def evaluate(self, call: Any, evaluator: Any) -> Any:
        """Return the column of results."""
        columns = [to_internal(evaluator.column(node), node.type) for node in call.args]
        rows = zip(*columns, strict=True) if columns else [()] * evaluator.rows
        return from_internal([self.compute(*row) for row in rows], call.type)


def test_function(found: dict[str, Any]) -> TestFunction | None:
    """Return the Python form of a function that a test brings."""
    name = found["name"]
    arguments = [parse_type(each.split("=>")[1].strip()) for each in found.get("arguments", [])]
    if name == "RowToFirstField":
        return TestFunction(name, tuple(arguments), IntType(), lambda row: row and row[0])
    if name == "StructuredTypeConstructor":
        return TestFunction(name, tuple(arguments), arguments[0], lambda value: value)
    if name == "CreateMultiset":
        return TestFunction(name, tuple(arguments), parse_type("MULTISET<STRING>"), lambda value: value)
    if name == "CreateEmptyArray":
        return TestFunction(name, (), parse_type("ARRAY<INT NOT NULL>"), lambda: [])
    if name == "CreateInternalRow":
        return TestFunction(name, tuple(arguments), parse_type("ROW<f0 STRING, f1 INT>"), lambda *values: values)
    if name == "CreateStructuredType":
        fields = "`name` STRING, `age` INT NOT NULL, `payload` MAP<STRING, STRING>"
        return TestFunction(
            name, tuple(arguments), parse_type(f"STRUCTURED<'MyPojo', {fields}>"), lambda *values: values
        )
    if name == "TakesNotNull":
        return TestFunction(name, tuple(arguments), parse_type("INT NOT NULL"), lambda value: value)
    if name.endswith("Constructor"):
        inner = found["class"].rsplit("$", 1)[0]
        fields = ", ".join(f"`{each.split(' =>')[0]}` {each.split('=> ')[1]}" for each in found["arguments"])
        return TestFunction(
            name, tuple(arguments), parse_type(f"STRUCTURED<'{inner}', {fields}>"), lambda *values: values
        )
    return None


class TestBinder(Binder):
    """A binder that knows the functions of a test."""

    tests: dict[str, TestFunction]

    def function(self, path: Any) -> Any:
        """Return a function by its path."""
        found = self.tests.get(path[-1].lower())
        return found if found is not None else super().function(path)


# ---- items of the Table API


INFIX = {
    "plus": "+",
    "minus": "-",
    "times": "*",
    "divide": "/",
    "mod": "%",
    "equals": "=",
    "notEquals": "<>",
    "lessThan": "<",
    "greaterThan": ">",
    "and": "AND",
    "or": "OR",
}
RENAMED = {"TRANSLATE3": "TRANSLATE", "isNull": "IS NULL", "timestampDiff": "TIMESTAMPDIFF"}
TOKEN = re.compile(
    r"""\s*('(?:[^']|'')*'|\d{4}-\d\d-\d\d(?:T[\d:.]+)?|\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?![\d.])|-?\d+(?:\.\d+)?(?:E-?\d+)?|[A-Za-z_][\w$]*|`[^`]*`|.)"""
)


class Summary:
    """Reads the text of a Table API expression, ``plus(f0, 1)``, and says it in SQL."""

    def __init__(self, text: str) -> None:
        self.tokens = [match.group(1) for match in TOKEN.finditer(text.strip())]
        self.at = 0

    def peek(self) -> str:
        """Return the next token."""
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        """Return the next token and go on."""
        token = self.peek()
        self.at += 1
        return token

    def type(self) -> str:
        """Return the text of a type, up to the bracket behind it."""
        depth, found = 0, []
        while self.peek() and (depth or self.peek() not in {")", ","}):
            token = self.take()
            depth += (token in "(<") - (token in ")>")
            found.append(token)
        return " ".join(found)

    def sql(self) -> str:
        """Return the next expression."""
        token = self.take()
        if token == "[":  # an expression that was given as SQL
            inner = self.sql()
            self.take()
            return inner
        if self.peek() == "(" and re.match(r"[A-Za-z_]", token):
            self.take()
            return self.call(token)
        if re.fullmatch(r"\d{4}-\d\d-\d\d", token):
            return f"DATE '{token}'"
        if re.match(r"\d{4}-\d\d-\d\dT", token):
            token = re.sub(r"(\.\d*?)0+$", r"\1", token)
            return f"TIMESTAMP '{token.replace('T', ' ') + (':00' if token.count(':') == 1 else '')}'"
        if re.match(r"\d\d:\d\d", token):
            return f"TIME '{token + (':00' if token.count(':') == 1 else '')}'"
        if re.fullmatch(r"-?\d+\.\d+", token) and len(token) < 18:
            return f"{token}E0"
        return token

    def arguments(self) -> list[str]:
        """Return the arguments up to the bracket."""
        found = []
        while self.peek() not in {")", ""}:
            found.append(self.sql())
            if self.peek() == ",":
                self.take()
        self.take()
        return found

    def call(self, name: str) -> str:
        """Return a call of a function whose bracket was read."""
        if name in {"cast", "TRY_CAST"}:
            value = self.sql()
            self.take()
            type_ = self.type()
            self.take()
            return f"{name.upper()}({value} AS {type_})"
        given = self.arguments()
        if name in {"array", "map"}:
            return f"{name.upper()}[{', '.join(given)}]"
        if name == "at":
            return f"{given[0]}[{given[1]}]"
        if name == "get":
            field = given[1].strip("'") if given[1][0] == "'" else f"f{given[1]}"
            return f"({given[0]}).`{field}`"
        if name in {"plus", "minus"} and "TIMESTAMP" in given[0] and given[1].isdigit():
            given[1] = f"INTERVAL '{int(given[1]) // 1000}' SECOND"
        if name == "in":
            return f"{given[0]} IN ({', '.join(given[1:])})"
        if name in INFIX:
            return f"({f' {INFIX[name]} '.join(given)})"
        if name == "IS_JSON":
            return f"{given[0]} IS JSON"
        return self.json_call(name, given) or f"{RENAMED.get(name, name)}({', '.join(given)})"

    @staticmethod
    def json_call(name: str, given: list[str]) -> str | None:
        """Return the call of a function of JSON, whose behaviour is words."""
        if name in {"JSON_OBJECT", "JSON_ARRAY"}:
            values = given[1:]
            if name == "JSON_OBJECT":
                values = [f"KEY {key} VALUE {value}" for key, value in zip(values[::2], values[1::2], strict=True)]
            return f"{name}({', '.join(values)} {given[0]} ON NULL)"
        match = re.fullmatch(r"(JSON_(?:OBJECT|ARRAY)AGG)_(\w+)_ON_NULL", name)
        if match:
            inner = f"KEY {given[0]} VALUE {given[1]}" if len(given) == 2 else given[0]
            return f"{match.group(1)}({inner} {match.group(2)} ON NULL)"
        if name == "JSON_QUERY" and len(given) == 6:
            wrapper, empty, error = (each.replace("_", " ") for each in given[3:])
            wrapper = "WITHOUT WRAPPER" if wrapper.startswith("WITHOUT") else f"WITH {wrapper.split()[0]} WRAPPER"
            return (
                f"JSON_QUERY({given[0]}, {given[1]} RETURNING {given[2]} {wrapper} {empty} ON EMPTY {error} ON ERROR)"
            )
        return None


def statement(item: dict[str, Any]) -> str:
    """Return the SQL of an item, which the file says, or the text of its expression."""
    found = item.get("sql") or item.get("sql_equivalent")
    if found:
        return str(found)
    text = item.get("expression") or ""
    if text.startswith("select: "):
        columns, _, groups = text.removeprefix("select: ").partition("; group by: ")
        reader = Summary(f"({columns})")
        reader.take()
        return f"SELECT {', '.join(reader.arguments())} FROM source_table" + (f" GROUP BY {groups}" if groups else "")
    if not text or re.search("ASSIGNMENT|flatten|OptionalArg", text):
        raise Skipped("no SQL")
    reader = Summary(re.sub(r"ARRAY<(\w+)>, (WITH|COND|UNCOND)", r"`ARRAY<\1>`, \2", text))
    found = reader.sql().replace("`ARRAY<STRING>`", "ARRAY<STRING>")
    if reader.peek():
        raise Skipped("an expression that was not understood")
    return found


# ---- items


class Table:
    """The one row of a test, and the expressions over it."""

    def __init__(self, spec: dict[str, Any]) -> None:
        found = spec.get("input") or {}
        self.config: dict[str, Any] = spec.get("config") or {}
        self.columns: list[tuple[str, LogicalType]] = []
        self.values: list[Any] = []
        self.missing: dict[str, str] = {}
        for column, value in zip(found.get("columns", []), found.get("values", []), strict=False):
            self._add(column, value)
        self.binder = TestBinder(CatalogManager())
        functions = [test_function(each) for each in spec.get("java_functions") or []]
        self.binder.tests = {each.name.lower(): each for each in functions if each is not None}

    def _add(self, column: dict[str, Any], value: Any) -> None:
        try:
            legacy = "LEGACY" in column["type"] and "Decimal" not in column["type"]
            type_ = type_of_value(value) if legacy else type_of(column["type"])
            if type_.root == "DECIMAL" and column["type"].startswith("LEGACY"):
                type_ = DecimalType(38, 19)
            given = fitted(decode(value, type_), type_)
            if given is not None and type_.root == "TIMESTAMP_LTZ" and value["$"] == "timestamp":  # a local time
                given = instant_nanos(given, zone_of(self.config.get("table.local-time-zone", "UTC")))
            from_internal([given], type_)
        except (Skipped, FunkenError, ValueError, TypeError, AssertionError, pa.ArrowException) as error:
            self.missing[column["name"]] = str(error)
            type_, given = RawType(), None
        self.columns.append((column["name"], type_))
        self.values.append(given)

    def node(self, sql: str) -> Node:
        """Return a typed expression over the columns."""
        for name, why in self.missing.items():
            if re.search(rf"\b{name}\b", sql):
                raise Skipped(f"column {name}: {why}")
        return self.binder.expression(sql.replace("testTable.", ""), self.columns)

    def value(self, node: Node, config: dict[str, Any]) -> Any:
        """Return the value of an expression for the row."""
        types = [type_ for _, type_ in self.columns] or [IntType()]
        values = self.values or [1]
        arrays = [from_internal([value], type_) for value, type_ in zip(values, types, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, [f"c{at}" for at in range(len(arrays))])
        settings = self.config | (config or {})
        legacy = str(settings.get("table.exec.legacy-cast-behaviour", "")).upper() == "ENABLED"
        context = EvaluationContext(
            FUNCTIONS,
            settings.get("table.local-time-zone", "UTC"),
            lambda: NOW,
            parameters={"legacy_cast": legacy},
        )
        (found,) = evaluate([node], batch, context)
        return to_internal(found, node.type)[0]


def alike(found: Any, wanted: Any, type_: LogicalType) -> bool:
    """Whether two internal values are the same."""
    if found is None or wanted is None:
        return found is None and wanted is None
    if isinstance(found, float) and isinstance(wanted, float):
        return (
            found == wanted
            or (math.isnan(found) and math.isnan(wanted))
            or math.isclose(found, wanted, rel_tol=1e-6 if type_.root == "FLOAT" else 1e-14)
        )
    if isinstance(type_, DecimalType):
        return Decimal(found) == Decimal(wanted)
    return key_of(found, type_) == key_of(wanted, type_)


def check_type(node: Node, text: str | None) -> None:
    """Raise ``Different`` if a type is not that of the item."""
    if text is None:
        return
    try:
        wanted = type_of(text)
    except Skipped:
        return
    if wanted != node.type:
        both = node.type.nullable() == wanted.nullable()
        raise Different("nullability" if both else "type", f"type {node.type}, not {wanted}")


def check_error(table: Table, sqls: list[str], item: dict[str, Any], exact: bool) -> None:
    """Raise ``Different`` if there is no error, or another one."""
    try:
        for sql in sqls:
            node = table.node(sql)
            if item.get("phase") != "validation":
                table.value(node, item.get("config") or {})
    except Skipped:
        raise
    except FunkenError as error:
        message, said = item.get("message") or "", str(error)
        if not item.get("sql"):  # there functions have other names, and texts no places
            message, said = message.casefold(), re.sub(r"From line [\d, a-z]+: ", "", said).casefold()
        if exact and message not in said:
            raise Different("message", f"message {str(error)[:200]!r}, not {message[:200]!r}") from None
        return
    raise Different("no error", f"no error, but {item.get('message', '')[:150]!r} ({item.get('phase')})")


def check_item(table: Table, spec: dict[str, Any], item: dict[str, Any], exact: bool) -> None:
    """Run an item; raise ``Different`` if it is not right."""
    sql = statement(item)
    sqls = item.get("sql_columns") or split_columns(sql, len(item.get("types") or [1]))
    if item["expect"] == "error":
        check_error(table, sqls, item, exact)
        return
    if item["expect"] in {"string", "runs"}:
        check_string(table, sql, item)
        return
    if isinstance(sqls, str):
        sqls = [sqls]
    wanted_types, wanted = item.get("types") or [item.get("type")], item.get("results")
    if len(sqls) != len(wanted_types):
        raise Skipped("columns that cannot be told apart")
    for at, each in enumerate(sqls):
        node = table.node(each)
        check_type(node, wanted_types[at])
        if wanted:
            found, expected = table.value(node, item.get("config") or {}), decode(wanted[at], node.type)
            if not alike(found, expected, node.type):
                raise Different("value", f"{found!r}, not {expected!r}")


def split_columns(sql: str, count: int) -> list[str]:
    """Return the expressions of a list with commas between them."""
    if count == 1:
        return [sql]
    found, depth, quote, start = [], 0, False, 0
    for at, mark in enumerate(sql):
        quote ^= mark == "'"
        if not quote:
            depth += (mark in "([<") - (mark in ")]>")
            if mark == "," and not depth:
                found.append(sql[start:at])
                start = at + 1
    return [*found, sql[start:]]


def check_string(table: Table, sql: str, item: dict[str, Any]) -> None:
    """Raise ``Different`` if the text of a value is another one."""
    node = table.node(sql)
    config = item.get("config") or {}
    text = FUNCTIONS.call("CAST", [node], type=parse_type("STRING"))
    found = table.value(text, config)
    wanted = item.get("result")
    shown = "NULL" if found is None else found
    if item["expect"] == "string" and shown != wanted and not _near(shown, wanted):
        raise Different("value", f"{shown!r}, not {wanted!r}")
    check_type(node, item.get("type"))


def _near(found: str, wanted: str) -> bool:
    """Whether two texts of floating point numbers differ in the last digit only."""
    try:
        return "." in wanted and len(wanted) > 12 and math.isclose(float(found), float(wanted), rel_tol=1e-15)
    except ValueError:
        return False


# ---- aggregates


def check_aggregate(spec: dict[str, Any], item: dict[str, Any]) -> None:
    """Run a statement over a changelog, and compare what is left in the end."""
    sql = statement(item)
    options = {"execution.target": "local", "parallelism.default": 1, "restart-strategy.type": "none"}
    environment = StreamTableEnvironment.create(StreamExecutionEnvironment(Configuration(options)))
    for key, value in (spec.get("config") or {}).items():
        environment.get_config().set(key, value)
    found = spec["input"]
    types = [type_of(column["type"]) for column in found["columns"]]
    rows = [
        Row.of_kind(
            KINDS[row["kind"]], *(python_value(decode(v, t), t) for v, t in zip(row["fields"], types, strict=True))
        )
        for row in found["rows"]
    ]
    columns = ", ".join(
        f"`{column['name']}` {type_.sql()}" for column, type_ in zip(found["columns"], types, strict=True)
    )
    connector = f"'connector' = 'values', 'data-id' = '{register_rows(rows)}', 'changelog-mode' = 'I,UB,UA,D'"
    environment.execute_sql(f"CREATE TABLE source_table ({columns}) WITH ({connector})")
    if item["expect"] == "error":
        try:
            with environment.execute_sql(sql).collect() as results:
                list(results)
        except FunkenError:
            return
        raise Different("no error", f"no error, but {item.get('message', '')[:150]!r}")
    result = environment.execute_sql(sql)
    schema = [type_of(text) for text in item["types"]]
    wanted = Counter(
        _key(tuple(decode(v, t) for v, t in zip(row["fields"], schema, strict=True)), schema) for row in item["rows"]
    )
    left: Counter[Any] = Counter()
    with result.collect() as results:
        for row in results:
            values = tuple(internal_value(v, t) for v, t in zip(row, schema, strict=True))
            left[_key(values, schema)] += 1 if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER) else -1
    left = Counter({key: count for key, count in left.items() if count})
    if left != wanted:
        raise Different("value", f"{left - wanted} instead of {wanted - left}")


def _key(values: tuple[Any, ...], types: list[LogicalType]) -> Any:
    return tuple(
        float(f"{value:.6g}" if type_.root == "FLOAT" else round(value, 9))
        if isinstance(value, float)
        else key_of(value, type_)
        for value, type_ in zip(values, types, strict=True)
    )


# ---- the run


def items(path: str, wanted: list[str]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the items that all the regular expressions are found in, with their specs."""
    for spec in json.loads(Path(path).read_text())["specs"]:
        for item in spec["items"]:
            text = f"{spec['class']} {spec.get('function')} {item.get('sql') or item.get('sql_equivalent')}"
            if all(re.search(each, text, re.IGNORECASE) for each in wanted):
                yield spec, item


@dataclass
class Outcome:
    """What became of an item."""

    kind: str
    text: str
    label: str


def run_item(table: Table | None, spec: dict[str, Any], item: dict[str, Any], exact: bool) -> Outcome:
    """Return what became of an item."""
    label = f"{spec['class']}: {item.get('sql') or item.get('sql_equivalent') or item.get('expression')}"
    try:
        if table is None:
            check_aggregate(spec, item)
        else:
            check_item(table, spec, item, exact)
    except Different as error:
        return Outcome(error.kind, str(error), label)
    except Skipped as error:
        return Outcome("left out", str(error), label)
    except FunkenError as error:
        return Outcome("refused", f"{type(error).__name__}: {error}"[:300].replace("\n", " "), label)
    except Exception:  # noqa: BLE001 - a bug is one of the kinds of failure
        return Outcome("crash", traceback.format_exc().strip().replace("\n", " | ")[-400:], label)
    return Outcome("right", "", label)


def main() -> int:
    """Run the items of a file; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path")
    parser.add_argument(
        "--filter", action="append", default=[], help="a regular expression over class, function and SQL"
    )
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--messages", action="store_true", help="compare the messages of errors, too")
    parser.add_argument("--json", help="write the outcomes here")
    options = parser.parse_args()
    tables: dict[int, Table] = {}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    outcomes = []
    for spec, item in items(options.path, options.filter):
        table = None
        if spec["base"] != "aggregate":
            table = tables.get(id(spec)) or tables.setdefault(id(spec), Table(spec))
        outcome = run_item(table, spec, item, options.messages)
        outcomes.append(outcome)
        counts[spec["class"]][outcome.kind] += 1
        if options.verbose and outcome.kind not in {"right", "left out"}:
            print(f"[{outcome.kind}] {outcome.label}\n      {outcome.text}")
    report(counts, outcomes)
    if options.json:
        Path(options.json).write_text(json.dumps([vars(each) for each in outcomes], indent=1))
    return 0


def report(counts: dict[str, Counter[str]], outcomes: list[Outcome]) -> None:
    """Print the counts of each class."""
    for name, found in sorted(counts.items()):
        rest = ", ".join(f"{kind} {count}" for kind, count in found.most_common() if kind != "right")
        print(f"{name:40} {found['right']:5} of {sum(found.values()):5}  {rest}")
    total = Counter(each.kind for each in outcomes)
    ran = len(outcomes) - total["left out"]
    print(f"{total['right']} of {ran} right ({total['right'] / max(ran, 1):.1%}); {dict(total)}")


if __name__ == "__main__":
    sys.exit(main())
