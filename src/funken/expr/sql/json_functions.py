"""Functions of JSON: reading parts of documents, writing documents, and variants."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from funken.dataclass import dataclass
from funken.expr.ir import Call, Literal, Node
from funken.expr.rules import JSON_PLACE, AggregateRule, EvaluationError, FunctionRule, InvalidCall, Nulls
from funken.expr.sql.aggregates import OrderedValues
from funken.expr.sql.calls import bound, function, infer, per_value, refuse
from funken.expr.sql.casts import converter
from funken.expr.sql.saying import say_once
from funken.expr.sql.texts import date_text, double_text, time_text, timestamp_text, variant_json, zone_of
from funken.expr.sql.types import (
    STRING,
    ArrayType,
    BitmapType,
    BooleanType,
    DateType,
    DecimalType,
    IntegralType,
    LocalZonedTimestampType,
    LogicalType,
    MapType,
    MultisetType,
    NumericType,
    RowType,
    TimeOfDayType,
    TimestampType,
    VarCharType,
    VariantType,
    is_bytes,
    is_text,
)
from funken.expr.sql.values import VariantValue

# ---- Paths into JSON documents: ``lax $.a[*].b``, ``$['a'][0]``, ``$..a``, ``$.a[?(@.b > 1)]``.


class MissingPath(EvaluationError):
    """A document has nothing at a path."""


class JsonFloat(float):
    """A number of a document that is no integer."""


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def read_json(text: str) -> Any:
    """Return a document; a text that is none raises ``ValueError``."""
    return json.loads(text, parse_constant=_no_constant, parse_float=JsonFloat)


def write_json(value: Any) -> str:
    """Return a document as text, compact and with its keys in order."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(key)}:{write_json(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(write_json, value)) + "]"
    if isinstance(value, str):
        return json_text(value)
    return scalar_text(value)


def json_text(text: str) -> str:
    """Return a text as JSON."""
    return json.dumps(text, ensure_ascii=False)


def scalar_text(value: Any) -> str:
    """Return the text of a scalar."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    return str(value)


Step = Callable[[Any], Iterator[Any]]


@dataclass(frozen=True)
class JsonPath:
    """A path: its steps, whether it is lax, and whether it names one place at most."""

    lax: bool
    steps: tuple[tuple[str, Any], ...]
    definite: bool

    def find(self, document: Any) -> Any:
        """Return what is at the path: a value, or a list if the path names many; nothing raises ``MissingPath``."""
        found, one = [document], True
        for kind, detail in self.steps:
            found = [each for value in found for each in _step(kind, detail, value)]
            one = one and kind in {"name", "index"}
            if not found and one and (self.definite or not self.lax):
                raise MissingPath("No results for path: the document has nothing at it")
        return found[0] if self.definite else found


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _descend(value: Any) -> Iterator[Any]:
    yield value
    for child in _children(value):
        yield from _descend(child)


def _step(kind: str, detail: Any, value: Any) -> Iterator[Any]:
    if kind == "name":
        if isinstance(value, dict) and detail in value:
            yield value[detail]
    elif kind == "names":
        if isinstance(value, dict):
            yield from (value[name] for name in detail if name in value)
    elif kind == "index":
        if isinstance(value, list):
            yield from (value[at] for at in detail if -len(value) <= at < len(value))
    elif kind == "slice":
        if isinstance(value, list):
            yield from value[detail]
    elif kind == "all":
        yield from _children(value)
    elif kind == "deep":
        for each in _descend(value):
            yield from _step(detail[0], detail[1], each)
    elif kind == "filter":
        yield from (each for each in (value if isinstance(value, list) else [value]) if detail(each))


_NAME = re.compile(r"[^.\[\]\s()]+")
_QUOTED = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*""")
_COMPARISON = re.compile(r"^\s*@((?:\.[\w-]+|\[[^\]]*\])*)\s*(?:(==|!=|<=|>=|<|>|=~)\s*(.+?))?\s*$", re.DOTALL)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self) -> EvaluationError:
        return EvaluationError(
            f"Illegal jsonpath spec '{self.text}', format of the spec should be: '<lax|strict> ${{expr}}'"
        )

    def steps(self) -> Iterator[tuple[str, Any]]:
        while self.at < len(self.text):
            if self.text.startswith("..", self.at):
                self.at += 2
                following = self._bracket() if self.text[self.at : self.at + 1] == "[" else self._named()
                yield "deep", following
            elif self.text[self.at] == ".":
                self.at += 1
                yield self._named()
            elif self.text[self.at] == "[":
                yield self._bracket()
            else:
                raise self.fail()

    def _named(self) -> tuple[str, Any]:
        match = _NAME.match(self.text, self.at)
        if match is None:
            raise self.fail()
        self.at = match.end()
        return ("all", None) if match.group() == "*" else ("name", match.group())

    def _bracket(self) -> tuple[str, Any]:
        start = self.at + 1
        if self.text[start:].lstrip().startswith("?"):
            end = self.text.find(")]", start)
            if end < 0:
                raise self.fail()
            self.at = end + 2
            return "filter", _filter(self.text[start:end].strip()[1:].strip()[1:])
        names: list[str] = []
        place = start
        while (match := _QUOTED.match(self.text, place)) is not None:
            names.append(re.sub(r"\\(.)", r"\1", match.group(1) if match.group(1) is not None else match.group(2)))
            place = match.end()
            if self.text[place : place + 1] != ",":
                break
            place += 1
        if names:
            if self.text[place : place + 1] != "]":
                raise self.fail()
            self.at = place + 1
            return ("name", names[0]) if len(names) == 1 else ("names", tuple(names))
        end = self.text.find("]", start)
        if end < 0:
            raise self.fail()
        self.at = end + 1
        return self._places(self.text[start:end].strip())

    def _places(self, body: str) -> tuple[str, Any]:
        if body == "*":
            return "all", None
        try:
            if ":" in body:
                return "slice", slice(*(int(each) if each.strip() else None for each in body.split(":")))
            return "index", tuple(int(each) for each in body.split(","))
        except ValueError:
            raise self.fail() from None


def _filter(text: str) -> Callable[[Any], bool]:
    """Return the condition of ``@.a > 1 && @.b``."""
    if "||" in text:
        parts = [_filter(part) for part in text.split("||")]
        return lambda value: any(part(value) for part in parts)
    if "&&" in text:
        parts = [_filter(part) for part in text.split("&&")]
        return lambda value: all(part(value) for part in parts)
    match = _COMPARISON.match(text)
    if match is None:
        raise EvaluationError(f"Illegal jsonpath spec: the filter '{text}' is not understood")
    path = JsonPath(True, tuple(_Reader(match.group(1)).steps()), True)
    operator, literal = match.group(2), match.group(3)
    if operator is None:
        return lambda value: _reached(path, value)[0]
    wanted = read_json(literal.replace("'", '"')) if operator != "=~" else literal
    return lambda value: _compared(operator, *_reached(path, value), wanted)


def _reached(path: JsonPath, value: Any) -> tuple[bool, Any]:
    try:
        return True, path.find(value)
    except MissingPath:
        return False, None


def _compared(operator: str, there: bool, value: Any, wanted: Any) -> bool:
    if not there:
        return operator == "!="
    if operator == "==":
        return bool(value == wanted)
    if operator == "!=":
        return bool(value != wanted)
    if operator == "=~":
        return isinstance(value, str) and re.fullmatch(wanted.strip("/"), value) is not None
    try:
        return bool({"<": value < wanted, "<=": value <= wanted, ">": value > wanted, ">=": value >= wanted}[operator])
    except TypeError:
        return False


@lru_cache(maxsize=512)
def json_path(text: str) -> JsonPath:
    """Return a path; without ``lax`` it is strict.

    >>> json_path("lax $.a[*].b").find({"a": [{"b": 1}, {"b": 2}]})
    [1, 2]
    """
    match = re.fullmatch(r"\s*(?:(strict|lax)\s+)?\$(.*)", text, re.DOTALL | re.IGNORECASE)
    if match is None:
        remedy = f"Paths begin with $: write '$.{text.strip()}'."
        say_once("path", text, f"the JSON path {text!r} is wrong, so JSON_VALUE() and its like give NULL. {remedy}")
        raise EvaluationError(f"Illegal jsonpath spec '{text}', format of the spec should be: '<lax|strict> ${{expr}}'")
    reader = _Reader(match.group(2).strip())
    steps = tuple(reader.steps())
    many = any(
        kind in {"all", "names", "slice", "deep", "filter"} or (kind == "index" and len(detail) > 1)
        for kind, detail in steps
    )
    return JsonPath((match.group(1) or "").lower() == "lax", steps, not many)


_GROUP = "json"
C = Nulls.CUSTOM


# -- reading


def _read(document: str, path: str) -> tuple[Any, bool]:
    """Return the value at a path and whether the path is lax; errors are raised unless it is."""
    parsed = json_path(path)
    try:
        value = read_json(document)
    except (ValueError, RecursionError) as error:
        raise EvaluationError(f"the text is no JSON: {error}") from None
    try:
        return parsed.find(value), parsed.lax
    except MissingPath:
        if parsed.lax:
            return None, True
        raise


def _fallback(behavior: str, default: Any, error: EvaluationError | None, name: str) -> Any:
    if behavior == "ERROR":
        if error is not None:
            raise error
        raise EvaluationError(f"Empty result of {name} function is not allowed")
    return default if behavior == "DEFAULT" else None


def _constant(node: Any, type_: LogicalType, zone: Any) -> Any:
    if not isinstance(node, Node):
        return node
    value = node.value if isinstance(node, Literal) else None
    if isinstance(node, Call) and node.function == "CAST" and isinstance(node.args[0], Literal):
        value = node.args[0].value
        convert = converter(node.args[0].type, node.type, zone)
        value = convert(value) if convert and value is not None else value
    convert = converter(node.type, type_, zone)
    return value if convert is None or value is None else convert(value)


def _json_value(call: Call, evaluator: Any) -> Callable[..., Any]:
    zone = zone_of(evaluator.context.time_zone)
    type_ = call.type
    on_empty, on_error = call.option("on_empty", "NULL"), call.option("on_error", "NULL")
    default_empty = _constant(call.option("default_on_empty"), type_, zone)
    default_error = _constant(call.option("default_on_error"), type_, zone)
    convert = converter(STRING, type_, zone)
    assert convert is not None

    def read(document: str, path: str) -> Any:
        try:
            value, lax = _read(document, path)
            if value is None or (lax and isinstance(value, dict | list)):
                return _fallback(on_empty, default_empty, None, "JSON_VALUE")
            if isinstance(value, dict | list):
                raise EvaluationError(
                    f"Strict jsonpath mode requires scalar value, and the actual value is: '{write_json(value)}'"
                )
            return convert(value if isinstance(value, str) else scalar_text(value))
        except EvaluationError as error:
            if "Empty result" in str(error):
                raise
            return _fallback(on_error, default_error, error, "JSON_VALUE")

    return read


def _json_value_inference(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
    returning = options.get("returning") or STRING
    fitted, _ = infer("JSON_VALUE", ["text text"], "STRING?")(args, options)
    if not isinstance(returning, BooleanType | NumericType) and not is_text(returning):
        raise refuse(
            "JSON_VALUE",
            args,
            ("JSON_VALUE(<CHARACTER_STRING>, <PATH> [RETURNING <TYPE>])",),
            f"Unsupported type '{returning}' for RETURNING in JSON_VALUE().",
        )
    for name in ("on_empty", "on_error"):
        default = options.get(f"default_{name}")
        if isinstance(default, Node) and converter(default.type, returning, zone_of("UTC")) is None:
            raise refuse("JSON_VALUE", args, (), f"The default of type {default.type} is no {returning}.")
    return fitted, returning.nullable()


def _json_exists(call: Call, evaluator: Any) -> Callable[..., Any]:
    on_error = call.option("on_error", "FALSE")

    def exists(document: str, path: str) -> bool | None:
        try:
            found, _ = _read(document, path)
            return found is not None
        except EvaluationError as error:
            if on_error == "ERROR":
                raise error from None
            return {"TRUE": True, "FALSE": False}.get(on_error)

    return exists


_EMPTY = {"EMPTY ARRAY": "[]", "EMPTY OBJECT": "{}", "EMPTY": "[]"}


def _json_query(call: Call, evaluator: Any) -> Callable[..., Any]:
    on_empty, on_error = (str(call.option(name, "NULL")).replace("_", " ") for name in ("on_empty", "on_error"))
    wrapper = str(call.option("wrapper", "WITHOUT"))
    as_array = isinstance(call.type, ArrayType)
    if as_array and call.option("wrapper") is None:
        wrapper = "CONDITIONAL" if call.option("returning") is None else "WITHOUT"

    def given(behavior: str, error: EvaluationError | None) -> Any:
        if behavior in _EMPTY:
            return [] if as_array else _EMPTY[behavior]
        return _fallback(behavior, None, error, "JSON_QUERY")

    def wrapped(value: Any) -> Any:
        if "UNCONDITIONAL" in wrapper:
            return [value]
        if "CONDITIONAL" in wrapper and not isinstance(value, list):
            return [value]
        return value

    def read(document: str, path: str) -> Any:
        try:
            found, lax = _read(document, path)
            value = None if found is None else wrapped(found)
        except EvaluationError as error:
            return given(on_error, error)
        if value is None or (lax and not isinstance(value, dict | list)):
            return given(on_empty, None)
        if not isinstance(value, dict | list):
            actual = f"'{value}'" if isinstance(value, str) else scalar_text(value)
            return given(
                on_error,
                EvaluationError(
                    f"Strict jsonpath mode requires array or object value, and the actual value is: '{actual}'"
                ),
            )
        if as_array:
            if not isinstance(value, list):
                return given(on_error, EvaluationError("Cannot convert the JSON object to an array"))
            return [None if each is None else each if isinstance(each, str) else write_json(each) for each in value]
        return write_json(value)

    return read


def _json_query_inference(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
    fitted, _ = infer("JSON_QUERY", ["text text"], "STRING?")(args, options)
    returning = options.get("returning") or STRING
    if isinstance(returning, ArrayType):
        if not is_text(returning.element):
            shown = "INTEGER" if returning.element.root == "INT" else str(returning.element)
            raise InvalidCall(f"Unsupported array element type '{shown}' for RETURNING ARRAY in JSON_QUERY()")
        length = getattr(returning.element, "length", 0)
        for name, words in (("on_empty", "on empty"), ("on_error", "on error")):
            if str(options.get(name, "")).replace("_", " ") == "EMPTY OBJECT":
                raise InvalidCall(f"Illegal {words} behavior 'EMPTY OBJECT' for return type: VARCHAR({length}) ARRAY")
    elif not is_text(returning):
        raise InvalidCall(
            f"Unsupported type '{returning}' for RETURNING in JSON_QUERY(): a text or an array of texts is"
        )
    return fitted, returning.nullable()


def _is_json(call: Call, evaluator: Any) -> Callable[..., Any]:
    kind = str(call.option("kind", "VALUE")).upper()
    negated = call.function == "IS NOT JSON"

    def check(text: str | None) -> bool:
        if text is None:
            return negated
        try:
            value = read_json(text)
        except (ValueError, RecursionError):
            return negated
        holds = {
            "ARRAY": isinstance(value, list),
            "OBJECT": isinstance(value, dict),
            "SCALAR": not isinstance(value, dict | list),
        }
        return holds.get(kind, True) != negated

    return check


def _json_length(document: str, path: str = "$") -> int | None:
    try:
        value, _ = _read(document, path)
    except EvaluationError:
        return None
    return None if value is None else len(value) if isinstance(value, dict | list) else 1


# -- quoting


_UNESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _quote(text: str) -> str:
    found = ['"']
    for mark in text:
        short = {
            '"': '\\"',
            "\\": "\\\\",
            "/": "\\/",
            "\b": "\\b",
            "\f": "\\f",
            "\n": "\\n",
            "\r": "\\r",
            "\t": "\\t",
        }.get(mark)
        if short:
            found.append(short)
        elif " " <= mark <= "~":
            found.append(mark)
        else:
            data = mark.encode("utf-16-be")
            found += [f"\\u{data[at] << 8 | data[at + 1]:04x}" for at in range(0, len(data), 2)]
    return "".join(found) + '"'


def _unquote(text: str) -> str:
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    wrong = re.search(r"\\u(?![0-9a-fA-F]{4})", text.replace("\\\\", ""))
    if wrong:
        return text

    def plain(match: re.Match[str]) -> str:
        code = match.group(1)
        return chr(int(code[1:], 16)) if len(code) == 5 else _UNESCAPED.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", plain, text[1:-1], flags=re.DOTALL)


# -- writing


def json_writer(type_: LogicalType, zone: Any) -> Callable[[Any], str]:
    """Return the function from a value of a type to its JSON."""
    write = _scalar_writer(type_) or _nested_writer(type_, zone)
    return lambda value: "null" if value is None else write(value)


def _scalar_writer(type_: LogicalType) -> Callable[[Any], str] | None:
    precision: int = getattr(type_, "precision", 0)
    match type_:
        case BooleanType():
            return lambda value: "true" if value else "false"
        case DecimalType():
            return _plain_decimal
        case IntegralType():
            return str
        case NumericType():
            return _real
        case DateType():
            return lambda value: json_text(date_text(value))
        case TimeOfDayType():
            return lambda value: json_text(time_text(value, precision))
        case TimestampType():
            return lambda value: json_text(timestamp_text(value, 0).replace(" ", "T"))
        case LocalZonedTimestampType():
            return lambda value: json_text(timestamp_text(value, 0).replace(" ", "T") + "Z")
        case VariantType():
            return variant_json
        case ArrayType() | MapType() | MultisetType() | RowType():
            return None
        case _ if is_bytes(type_):
            return lambda value: json_text(base64.b64encode(value).decode())
        case _:
            return lambda value: json_text(str(value))


def _real(value: float) -> str:
    """Return a number as Java's ``BigDecimal`` writes it, and a text where it has none."""
    if not math.isfinite(value):
        return json_text(double_text(value))
    return str(Decimal(double_text(value))) if value else "0.0"


def _plain_decimal(value: Decimal) -> str:
    return f"{value:f}"


def _nested_writer(type_: LogicalType, zone: Any) -> Callable[[Any], str]:
    match type_:
        case ArrayType(element=element):
            each = json_writer(element, zone)
            return lambda value: "[" + ",".join(map(each, value)) + "]"
        case MapType(key=key, value=item):
            convert = converter(key, STRING, zone)
            assert convert is not None
            write = json_writer(item, zone)
            return lambda value: _object([("null" if k is None else convert(k), write(v)) for k, v in value])
        case MultisetType(element=element):
            name = converter(element, STRING, zone)
            assert name is not None
            return lambda value: _object([("null" if k is None else name(k), str(count)) for k, count in value])
        case _:
            assert isinstance(type_, RowType)
            parts = [(field.name, json_writer(field.type, zone)) for field in type_.fields]
            return lambda value: _object([(name, of(v)) for (name, of), v in zip(parts, value, strict=True)])


def _object(pairs: Sequence[tuple[str, str]]) -> str:
    """Return an object of keys and JSON texts, in the order of the keys."""
    return "{" + ",".join(f"{json_text(key)}:{text}" for key, text in sorted(dict(pairs).items())) + "}"


RAW = {"JSON", "JSON_OBJECT", "JSON_ARRAY", "JSON_OBJECTAGG", "JSON_ARRAYAGG"}
"""Functions whose texts are parts of a document inside of another of them."""


def _part_writer(node: Node, zone: Any) -> Callable[[Any], str]:
    """Return the writer of an argument; what is JSON already is embedded."""
    if isinstance(node, Call) and node.function in RAW:
        return lambda value: "null" if value is None else value
    return json_writer(node.type, zone)


def _json_object(call: Call, evaluator: Any) -> Callable[..., Any]:
    zone = zone_of(evaluator.context.time_zone)
    writers = [_part_writer(each, zone) for each in call.args[1::2]]
    absent = call.option("on_null", "NULL") == "ABSENT"

    def made(*values: Any) -> str:
        pairs = []
        for key, value, write in zip(values[::2], values[1::2], writers, strict=True):
            if key is None:
                raise EvaluationError("Key of JSON_OBJECT must not be NULL")
            if value is not None or not absent:
                pairs.append((key, write(value)))
        return _object(pairs)

    return made


def _json_array(call: Call, evaluator: Any) -> Callable[..., Any]:
    zone = zone_of(evaluator.context.time_zone)
    writers = [_part_writer(each, zone) for each in call.args]
    absent = call.option("on_null", "ABSENT") == "ABSENT"

    def made(*values: Any) -> str:
        parts = [write(value) for value, write in zip(values, writers, strict=True) if value is not None or not absent]
        return "[" + ",".join(parts) + "]"

    return made


_WRITABLE = (
    BooleanType,
    NumericType,
    DateType,
    TimeOfDayType,
    TimestampType,
    LocalZonedTimestampType,
    ArrayType,
    MapType,
    MultisetType,
    RowType,
    VariantType,
)


def _check_values(name: str, nodes: Sequence[Node]) -> None:
    for each in nodes:
        type_ = each.type
        fine = isinstance(type_, _WRITABLE) or is_text(type_) or is_bytes(type_) or type_.root == "NULL"
        if not fine or isinstance(type_, BitmapType):
            raise refuse(name, nodes, (), f"A value of {type_} has no JSON.")


def _object_inference(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
    if len(args) % 2:
        raise refuse("JSON_OBJECT", args, ("JSON_OBJECT([[KEY] <KEY> VALUE <VALUE>...] [{ NULL | ABSENT } ON NULL])",))
    for key in args[::2]:
        if isinstance(key, Call) and key.function == "JSON":
            raise InvalidCall(JSON_PLACE)
        if not is_text(key.type):
            raise refuse("JSON_OBJECT", args, (), f"A key must be a text, not {key.type}.")
    _check_values("JSON_OBJECT", args[1::2])
    return args, STRING.not_null()


def _array_inference(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
    _check_values("JSON_ARRAY", args)
    return args, STRING.not_null()


def _json_string(call: Call, evaluator: Any) -> Callable[..., Any]:
    return json_writer(call.args[0].type, zone_of(evaluator.context.time_zone))


def _json(text: str | None) -> str | None:
    if text is None or not text.strip():
        return None
    try:
        return write_json(read_json(text))
    except ValueError as error:
        match = re.search(r"line (\d+) column (\d+)", str(error))
        place = f" line: {match.group(1)}, column: {max(int(match.group(2)) - 1, 1)}" if match else ""
        raise EvaluationError(f"Invalid JSON string in JSON(value) function: '{text}'.{place}") from None


# -- variants


def variant_of(value: Any) -> VariantValue:
    """Return the variant of a document."""
    if value is None:
        return VariantValue("NULL")
    if isinstance(value, bool):
        return VariantValue("BOOLEAN", value)
    if isinstance(value, dict):
        return VariantValue("OBJECT", tuple((key, variant_of(each)) for key, each in sorted(value.items())))
    if isinstance(value, list):
        return VariantValue("ARRAY", tuple(map(variant_of, value)))
    if isinstance(value, int):
        return _whole(value)
    if isinstance(value, Decimal):
        return VariantValue("DECIMAL", value)
    return VariantValue("DOUBLE", float(value)) if isinstance(value, float) else VariantValue("STRING", value)


def _whole(value: int) -> VariantValue:
    for root, bits in (("TINYINT", 8), ("SMALLINT", 16), ("INT", 32), ("BIGINT", 64)):
        if -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            return VariantValue(root, value)
    return VariantValue("DECIMAL", Decimal(value)) if abs(value) < 10**38 else VariantValue("DOUBLE", float(value))


def _fraction(text: str) -> Any:
    if "e" not in text.lower() and len(text.replace("-", "").replace(".", "")) <= 38:
        return Decimal(text)
    return float(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"VARIANT_DUPLICATE_KEY: the key '{key}' is repeated")
        found[key] = value
    return found


def _parse_json(trying: bool) -> Callable[..., Any]:
    import json as library

    def parse(text: str, duplicates: bool = False) -> VariantValue | None:
        try:
            hook = None if duplicates else _unique
            return variant_of(
                library.loads(text, parse_float=_fraction, object_pairs_hook=hook, parse_constant=_no_constant)
            )
        except (ValueError, RecursionError) as error:
            if trying:
                return None
            raise EvaluationError(f"Failed to parse json string: {text}, Error message: {error}") from None

    return parse


# -- aggregates


class _JsonObjectAggregate(OrderedValues):
    """JSON_OBJECTAGG: keys and texts of values."""

    def __init__(self, type_: LogicalType, absent: bool) -> None:
        super().__init__()
        self.write, self.absent = json_writer(type_, zone_of("UTC")), absent

    def _skips(self, arguments: tuple[Any, ...]) -> bool:
        if arguments[0] is None:
            raise EvaluationError("Key of JSON_OBJECTAGG must not be NULL")
        return self.absent and arguments[1] is None

    def _item(self, arguments: tuple[Any, ...]) -> Any:
        return (arguments[0], self.write(arguments[1]))

    def value(self, accumulator: list[Any]) -> Any:
        keys = [key for key, _ in accumulator[0]]
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise EvaluationError(
                f"Key '{twice}' is already present. Duplicate keys are not allowed in JSON_OBJECTAGG: group by the key before."
            )
        return _object(accumulator[0])


class _JsonArrayAggregate(OrderedValues):
    """JSON_ARRAYAGG: texts of values."""

    def __init__(self, type_: LogicalType, absent: bool) -> None:
        super().__init__()
        self.write, self.absent = json_writer(type_, zone_of("UTC")), absent

    def _skips(self, arguments: tuple[Any, ...]) -> bool:
        return self.absent and arguments[0] is None

    def _item(self, arguments: tuple[Any, ...]) -> Any:
        return self.write(arguments[0])

    def value(self, accumulator: list[Any]) -> Any:
        return "[" + ",".join(accumulator[0]) + "]"


_AGGREGATED = VarCharType(2000, is_nullable=False)


def _aggregated(args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
    _check_values("JSON_OBJECTAGG" if len(args) > 1 else "JSON_ARRAYAGG", args[-1:])
    return _AGGREGATED


_AGGREGATES: list[AggregateRule] = [
    AggregateRule(
        "JSON_OBJECTAGG",
        ("JSON_OBJECTAGG([KEY] <CHARACTER_STRING> VALUE <ANY> [{ NULL | ABSENT } ON NULL])",),
        infer("JSON_OBJECTAGG", ["text any"], _aggregated),
        lambda types, options, result: _JsonObjectAggregate(types[1], options.get("on_null") == "ABSENT"),
        "The JSON object of keys and values.",
        (("JSON_OBJECTAGG(KEY CAST(x AS STRING) VALUE x)", '{"1":1,"2":2,"3":3}'),),
    ),
    AggregateRule(
        "JSON_ARRAYAGG",
        ("JSON_ARRAYAGG(<ANY> [{ NULL | ABSENT } ON NULL])",),
        infer("JSON_ARRAYAGG", ["any"], _aggregated),
        lambda types, options, result: _JsonArrayAggregate(types[0], options.get("on_null", "ABSENT") == "ABSENT"),
        "The JSON array of the values.",
        (("JSON_ARRAYAGG(x)", "[1,2,3]"),),
    ),
]


def _row(
    name: str, params: Any, returns: Any, kernel: Any, text: str, *examples: tuple[str, str], **more: Any
) -> FunctionRule:
    return function(name, params, returns, kernel, text, *examples, group=_GROUP, **more)


def _rule(
    name: str, signature: str, inference: Any, kernel: Any, text: str, *examples: tuple[str, str], **more: Any
) -> FunctionRule:
    return FunctionRule(name, (signature,), inference, kernel, text, examples, group=_GROUP, **more)


_DOCUMENT = """'{"a": 1, "b": [1, 2]}'"""
_FUNCTIONS: list[FunctionRule] = [
    _rule(
        "JSON_VALUE",
        "JSON_VALUE(<CHARACTER_STRING>, <PATH> [RETURNING <TYPE>] [{ NULL | ERROR | DEFAULT <ANY> } ON { EMPTY | ERROR }...])",
        _json_value_inference,
        bound(_json_value),
        "The scalar at a path of a document.",
        (f"JSON_VALUE({_DOCUMENT}, '$.a' RETURNING INT)", "1"),
        raises=True,
    ),
    _row(
        "JSON_EXISTS",
        "text text",
        "BOOLEAN?",
        bound(_json_exists),
        "Whether there is something at a path of a document.",
        (f"JSON_EXISTS({_DOCUMENT}, '$.a')", "TRUE"),
        raises=True,
    ),
    _rule(
        "JSON_QUERY",
        "JSON_QUERY(<CHARACTER_STRING>, <PATH> [RETURNING <TYPE>] "
        "[WITHOUT | WITH [UNCONDITIONAL | CONDITIONAL] [ARRAY] WRAPPER] "
        "[{ NULL | EMPTY ARRAY | EMPTY OBJECT | ERROR } ON { EMPTY | ERROR }...])",
        _json_query_inference,
        bound(_json_query),
        "The object or array at a path of a document.",
        (f"JSON_QUERY({_DOCUMENT}, '$.b')", "[1,2]"),
        raises=True,
    ),
    _row(
        "IS JSON",
        "text",
        "BOOLEAN!",
        bound(_is_json, C),
        "Whether a text is JSON, of a kind (VALUE, SCALAR, ARRAY, OBJECT).",
        ("'[1]' IS JSON ARRAY", "TRUE"),
        nulls=C,
        signatures=("<CHARACTER_STRING> IS JSON [{ VALUE | SCALAR | ARRAY | OBJECT }]",),
    ),
    _row(
        "IS NOT JSON",
        "text",
        "BOOLEAN!",
        bound(_is_json, C),
        "Whether a text is not JSON.",
        ("'[1]' IS NOT JSON OBJECT", "TRUE"),
        nulls=C,
        signatures=("<CHARACTER_STRING> IS NOT JSON [{ VALUE | SCALAR | ARRAY | OBJECT }]",),
    ),
    _row(
        "JSON_LENGTH",
        "text text?",
        "INT?",
        _json_length,
        "The number of elements of a document, or of what is at a path.",
        ("JSON_LENGTH('[1, 2]')", "2"),
    ),
    _row("JSON_QUOTE", "text", "STRING", _quote, "The text as a string of JSON.", ("JSON_QUOTE('a\"b')", '"a\\"b"')),
    _row(
        "JSON_UNQUOTE",
        "text",
        "STRING",
        _unquote,
        "The text of a string of JSON.",
        ("JSON_UNQUOTE('\"ab\"')", "ab"),
    ),
    _row(
        "JSON_STRING",
        "any",
        "STRING",
        bound(_json_string),
        "The value as JSON.",
        ("JSON_STRING(ARRAY[1, 2])", "[1,2]"),
    ),
    _row(
        "JSON",
        "text",
        "STRING",
        per_value(_json, C),
        "A text as JSON, inside of JSON_OBJECT or JSON_ARRAY.",
        ("JSON_OBJECT('a' VALUE JSON('[1, 2]'))", '{"a":[1,2]}'),
        nulls=C,
        raises=True,
    ),
    _rule(
        "JSON_OBJECT",
        "JSON_OBJECT([[KEY] <KEY> VALUE <VALUE>...] [{ NULL | ABSENT } ON NULL])",
        _object_inference,
        bound(_json_object, C),
        "A JSON object.",
        ("JSON_OBJECT('a' VALUE 1)", '{"a":1}'),
        nulls=C,
        raises=True,
    ),
    _rule(
        "JSON_ARRAY",
        "JSON_ARRAY([<VALUE>...] [{ NULL | ABSENT } ON NULL])",
        _array_inference,
        bound(_json_array, C),
        "A JSON array.",
        ("JSON_ARRAY(1, 'a')", '[1,"a"]'),
        nulls=C,
    ),
    _row(
        "PARSE_JSON",
        "text bool?",
        "VARIANT",
        _parse_json(False),
        "The document of a text as a variant.",
        ("JSON_STRING(PARSE_JSON('{\"a\": 1}'))", '{"a":1}'),
        raises=True,
    ),
    _row(
        "TRY_PARSE_JSON",
        "text bool?",
        "VARIANT?",
        _parse_json(True),
        "The document of a text as a variant; NULL if it is none.",
        ("TRY_PARSE_JSON('{')", "NULL"),
    ),
]

ROWS = [*_FUNCTIONS, *_AGGREGATES]
