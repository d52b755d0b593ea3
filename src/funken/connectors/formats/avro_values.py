"""Values of Avro where ``fastavro`` is laxer than the format: defaults, times without a zone, and what does not fit a schema.

``fastavro`` hands the default of a field on as the JSON that it is, and the same object to all records. It writes a ``datetime``
without a zone by the zone of the machine, cuts microseconds off, writes any object as a boolean, and rounds decimals. Here

* a default is a value of the field's type, logical types included, and each record has its own;
* a time without a zone is in UTC for ``timestamp-*``, and one with a zone is refused for ``local-timestamp-*``;
* a value that would be read as another one is refused with ``ValueError``.
"""

from __future__ import annotations

import copy
import datetime
import decimal
import importlib
import numbers
import operator
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from funken.types import parsing
from funken.types.instants import Instant
from funken.types.parsing import shown

Convert = Callable[[Any], Any]
Named = Mapping[str, Any]

_BITS = {"int": 32, "long": 64}
_MUTABLE = (list, dict)


def named_of(schema: Any) -> dict[str, Any]:
    """Return the named types of a schema that ``fastavro`` has parsed."""
    found: dict[str, Any] = {}
    for each in schema if isinstance(schema, list) else [schema]:
        _collect(each, found)
    return found


def _collect(schema: Any, found: dict[str, Any]) -> None:
    if isinstance(schema, list):
        for each in schema:
            _collect(each, found)
    if not isinstance(schema, dict):
        return
    if "name" in schema:
        if schema["name"] in found:
            return
        found[schema["name"]] = schema
    for part in (schema.get("items"), schema.get("values"), *(each["type"] for each in schema.get("fields", ()))):
        _collect(part, found)
    if isinstance(schema.get("type"), dict | list):
        _collect(schema["type"], found)


def kind_of(schema: Any) -> Any:
    """Return the type of a schema, by its name."""
    return "union" if isinstance(schema, list) else schema["type"] if isinstance(schema, dict) else schema


# ---- defaults


def with_defaults(schema: Any) -> Any:
    r"""Return a parsed schema to read by: defaults are values of their fields' types; raises ``ValueError``.

    >>> fields = [{"name": "raw", "type": "bytes", "default": "\u00ff"}, {"name": "x", "type": "double", "default": 1}]
    >>> made = with_defaults({"type": "record", "name": "R", "fields": fields})
    >>> [field["default"] for field in made["fields"]]
    [b'\xff', 1.0]
    """
    made = copy.deepcopy(schema)
    named = named_of(made)
    fields = [field for record in named.values() for field in record.get("fields", ()) if "default" in field]
    found = [(field, _default(field, named)) for field in fields]
    for field, value in found:  # defaults of records within need those of their fields as they are in the schema
        field["default"] = value
    for each in made if isinstance(made, list) else [made]:
        if isinstance(each, dict):  # or fastavro would parse it again, and refuse the defaults
            each.update({"__fastavro_parsed": True, "__named_schemas": named})
    return made


def _default(field: Any, named: Named) -> Any:
    try:
        return value_of(field["type"], field["default"], named)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
        raise ValueError(
            f"the default {shown(field['default'])} of field {field['name']!r} is no value of its type ({error})"
        ) from None


def value_of(schema: Any, default: Any, named: Named) -> Any:
    """Return the value that the JSON of a default means; of a union, of the first branch that has it."""
    if isinstance(schema, list):
        for branch in schema:
            try:
                return value_of(branch, default, named)
            except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError):
                continue
        raise ValueError("no branch of the union has it")
    if isinstance(schema, dict):
        if isinstance(schema["type"], dict | list):
            return value_of(schema["type"], default, named)
        value = _plain_value(schema, schema["type"], default, named)
        logical = importlib.import_module("fastavro.read").LOGICAL_READERS.get(
            f"{schema['type']}-{schema.get('logicalType')}"
        )
        return value if logical is None else logical(value, schema, schema)
    if schema in named:
        return value_of(named[schema], default, named)
    return _plain_value({}, schema, default, named)


def _plain_value(schema: Any, kind: str, default: Any, named: Named) -> Any:
    if kind in ("record", "error"):
        _expect(default, dict)
        return {
            each["name"]: value_of(each["type"], default.get(each["name"], each.get("default")), named)
            for each in schema["fields"]
        }
    if kind == "array":
        return [value_of(schema["items"], each, named) for each in _expect(default, list)]
    if kind == "map":
        return {key: value_of(schema["values"], each, named) for key, each in _expect(default, dict).items()}
    if kind in ("bytes", "fixed"):
        data = _expect(default, str).encode("latin-1")
        if kind == "fixed" and len(data) != schema["size"]:
            raise ValueError(f"it has {len(data)} bytes, and the type {schema['size']}")
        return data
    if kind == "enum":
        return schema["symbols"][schema["symbols"].index(default)]
    if kind in ("float", "double"):
        number = default if isinstance(default, str) else _expect(default, int | float)
        return float(number)
    if kind in _BITS:
        low, high = parsing.limits(_BITS[kind])
        if not low <= _expect(default, int) <= high:
            raise ValueError(f"it is beyond {kind}")
        return default
    return _expect(default, {"string": str, "boolean": bool, "null": type(None)}[kind])


def _expect(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"it is {type(value).__name__}")
    return value


def own_defaults(schema: Any) -> Convert | None:
    """Return what gives a record that was read its own copies of defaults; ``None``: all of them cannot change.

    ``schema`` is one of ``with_defaults``. The record is changed in place.

    >>> numbers = {"name": "a", "type": {"type": "array", "items": "int"}, "default": []}
    >>> schema = {"type": "record", "name": "R", "fields": [numbers]}
    >>> shared = schema["fields"][0]["default"]
    >>> own_defaults(schema)({"a": shared})["a"] is shared
    False
    """
    named = named_of(schema)
    changeable = any(
        isinstance(field.get("default"), _MUTABLE) for record in named.values() for field in record.get("fields", ())
    )
    return _owner(schema, named, {}) if changeable else None


def _owner(schema: Any, named: Named, made: dict[str, Convert]) -> Convert:
    kind = kind_of(schema)
    if isinstance(kind, dict | list):
        return _owner(kind, named, made)
    if kind == "union":
        within = [_owner(branch, named, made) for branch in schema]

        def of_union(value: Any) -> Any:
            for convert in within:
                convert(value)
            return value

        return of_union
    if kind in ("array", "map"):
        inner = _owner(schema["items" if kind == "array" else "values"], named, made)

        def of_items(value: Any) -> Any:
            for each in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
                inner(each)
            return value

        return of_items
    name = schema["name"] if kind in ("record", "error") else kind
    if not isinstance(named.get(name), dict) or "fields" not in named[name]:
        return _same
    if name not in made:
        fields: list[tuple[str, Any, Convert]] = []
        made[name] = _of_fields(fields)  # a record may be within itself
        fields += [
            (each["name"], each.get("default"), _owner(each["type"], named, made)) for each in named[name]["fields"]
        ]
    return made[name]


def _of_fields(fields: list[tuple[str, Any, Convert]]) -> Convert:
    def convert(record: Any) -> Any:
        if isinstance(record, dict):
            for name, default, inner in fields:
                value = record.get(name)
                if value is None:
                    continue
                if value is default and isinstance(value, _MUTABLE):
                    record[name] = copy.deepcopy(value)
                else:
                    inner(value)
        return record

    return convert


def _same(value: Any) -> Any:
    return value


# ---- values are written


def writer_of(schema: Any) -> Convert:
    """Return what makes values that ``fastavro`` writes of those of a parsed schema; it raises ``ValueError``.

    >>> sale = {"type": "record", "name": "Sale", "fields": [{"name": "n", "type": "int", "default": 1}]}
    >>> writer_of(sale)({})
    {'n': 1}
    >>> writer_of(sale)({"n": 2**31})
    Traceback (most recent call last):
    ...
    ValueError: field 'n': 2147483648 is no int
    """
    return _writer(schema, named_of(schema), {})


def _writer(schema: Any, named: Named, made: dict[str, Convert]) -> Convert:
    kind = kind_of(schema)
    if isinstance(kind, dict | list):
        return _writer(kind, named, made)
    if kind == "union":
        return _union(schema, named, made)
    if kind == "array":
        return _array(_writer(schema["items"], named, made))
    if kind == "map":
        return _map(_writer(schema["values"], named, made))
    if kind in ("record", "error") or (kind in named and "fields" in named[kind]):
        record = named.get(kind, schema)
        if record["name"] not in made:
            fields: list[tuple[str, Convert, Any]] = []
            made[record["name"]] = _record(fields, named)
            fields += [(each["name"], _writer(each["type"], named, made), each) for each in record["fields"]]
        return made[record["name"]]
    if kind in named:
        return _writer(named[kind], named, made)
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    special = _LOGICAL.get(f"{kind}-{logical}")
    if special is not None:
        return special
    if logical == "decimal":
        return _decimal(schema)
    return _PLAIN.get(kind, _same)


def _record(fields: list[tuple[str, Convert, Any]], named: Named) -> Convert:
    def convert(record: Any) -> dict[str, Any]:
        if not isinstance(record, dict):
            raise ValueError(f"{shown(record)} is no record")
        try:
            # Hot: all fields are there, and fit.
            return {name: inner(record[name]) for name, inner, _ in fields}
        except (KeyError, ValueError):
            pass  # found again
        found = dict(record)
        for name, inner, field in fields:
            try:
                if name in record:
                    found[name] = inner(record[name])
                elif "default" in field:
                    found[name] = _default(field, named)
            except ValueError as error:
                raise ValueError(f"field {name!r}: {error}") from None
        return found

    return convert


def _array(inner: Convert) -> Convert:
    def convert(values: Any) -> list[Any]:
        if isinstance(values, str | bytes | dict) or not hasattr(values, "__iter__"):
            raise ValueError(f"{shown(values)} is no array")
        return [inner(each) for each in values]

    return convert


def _map(inner: Convert) -> Convert:
    def convert(values: Any) -> dict[str, Any]:
        if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
            raise ValueError(f"{shown(values)} is no map with keys that are text")
        return {key: inner(each) for key, each in values.items()}

    return convert


def _union(schema: list[Any], named: Named, made: dict[str, Convert]) -> Convert:
    branches = [(_name(branch, named), _writer(branch, named, made)) for branch in schema]
    others = [convert for name, convert in branches if name != "null"]
    if len(others) == 1 and len(branches) == 2:
        (only,) = others
        return lambda value: None if value is None else only(value)
    if any(name == "double" for name, _ in branches):
        branches = [each for each in branches if each[0] != "float"]
    records = {
        name: {each["name"] for each in named[name]["fields"]}
        for name, _ in branches
        if "fields" in named.get(name, {})
    }

    def convert(value: Any) -> Any:
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
            return next(((name, inner(value[1])) for name, inner in branches if name == value[0]), value)
        there = branches
        if isinstance(value, dict) and records:
            there = sorted(branches, key=lambda branch: -len(records.get(branch[0], set()) & value.keys()))
        for _, inner in there:
            try:
                return inner(value)
            except ValueError:
                continue
        raise ValueError(f"{shown(value)} is of no branch of {', '.join(str(name) for name, _ in branches)}")

    return convert


def _name(branch: Any, named: Named) -> str:
    kind = kind_of(branch)
    return str(branch["name"] if isinstance(branch, dict) and "name" in branch else kind)


def _checked(kind: type | tuple[type, ...], name: str) -> Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, kind):
            raise ValueError(f"{shown(value)} is no {name}")
        return value

    return convert


def _whole(name: str) -> Convert:
    low, high = parsing.limits(_BITS[name])

    def convert(value: Any) -> int:
        # Hot: what most values are.
        if type(value) is int and low <= value <= high:
            return value
        try:
            number = None if isinstance(value, bool) else operator.index(value)
        except TypeError:
            number = None
        if number is None or not low <= number <= high:
            raise ValueError(f"{shown(value)} is no {name}")
        return number

    return convert


def _real(is_single: bool) -> Convert:
    name = "float" if is_single else "double"

    def convert(value: Any) -> float:
        if type(value) is not float:
            if isinstance(value, bool) or not isinstance(value, numbers.Real):
                raise ValueError(f"{shown(value)} is no {name}")
            try:
                number = float(value)
            except OverflowError:
                raise ValueError(f"{shown(value)} is beyond {name}") from None
            if isinstance(value, numbers.Integral) and number != value:
                raise ValueError(f"{shown(value)} has more digits than a {name}")
            value = number
        return parsing.single(value) if is_single else value

    return convert


def _decimal(schema: Any) -> Convert:
    scale, precision = schema.get("scale", 0), schema["precision"]
    step, context = decimal.Decimal(1).scaleb(-scale), decimal.Context(prec=max(precision, 1), traps=[decimal.Inexact])

    def convert(value: Any) -> Any:
        if isinstance(value, bytes):
            return value
        if isinstance(value, bool) or not isinstance(value, decimal.Decimal | int):
            raise ValueError(f"{shown(value)} is no decimal")
        try:
            made = decimal.Decimal(value).quantize(step, context=context)
        except (decimal.Inexact, decimal.InvalidOperation):
            made = None
        if made is None or not made.is_finite():
            raise ValueError(f"{shown(value)} does not fit decimal({precision}, {scale})")
        return made

    return convert


def _timestamp(is_millis: bool, is_local: bool) -> Convert:
    def convert(value: Any) -> Any:
        if isinstance(value, Instant) and not is_local:
            value = parsing.datetime_of_instant(value)
        if not isinstance(value, datetime.datetime):
            return _LONG(value)
        if is_millis and value.microsecond % 1000:
            raise ValueError(f"{value.isoformat()} has microseconds, and the schema milliseconds; round it")
        if is_local:
            if value.tzinfo is not None:
                raise ValueError(
                    f"{value.isoformat()} has a zone, and local-timestamp-* has none; write timestamp-*, or leave the zone out"
                )
            return value
        return value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)

    return convert


def _time(is_millis: bool) -> Convert:
    whole = _whole("int" if is_millis else "long")

    def convert(value: Any) -> Any:
        if not isinstance(value, datetime.time):
            return whole(value)
        if value.tzinfo is not None:
            raise ValueError(f"{value!r} has a zone, and times of day have none; leave it out")
        if is_millis and value.microsecond % 1000:
            raise ValueError(f"{value.isoformat()} has microseconds, and the schema milliseconds; round it")
        return value

    return convert


def _date(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        raise ValueError(f"{value.isoformat()} is no date; write its date()")
    return value if isinstance(value, datetime.date) else _INT(value)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise ValueError(f"{shown(value)} is no bytes")
    return bytes(value)


_INT, _LONG = _whole("int"), _whole("long")
_PLAIN: dict[str, Convert] = {
    "null": _checked(type(None), "null"), "boolean": _checked(bool, "boolean"), "int": _INT, "long": _LONG, "float": _real(True),
    "double": _real(False), "bytes": _bytes, "fixed": _bytes, "string": _checked(str, "string"), "enum": _checked(str, "enum"),
}  # fmt: skip
_LOGICAL: dict[str, Convert] = {
    "long-timestamp-millis": _timestamp(True, False), "long-timestamp-micros": _timestamp(False, False),
    "long-local-timestamp-millis": _timestamp(True, True), "long-local-timestamp-micros": _timestamp(False, True),
    "int-date": _date, "int-time-millis": _time(True), "long-time-micros": _time(False),
    "string-uuid": _checked((str, uuid.UUID), "uuid"),
}  # fmt: skip


__all__ = ["named_of", "own_defaults", "value_of", "with_defaults", "writer_of"]
