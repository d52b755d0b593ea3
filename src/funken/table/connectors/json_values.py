"""Values of SQL's types in JSON and in texts, both ways, as Flink reads and writes them.

A reader takes what the parser of JSON returns, numbers with a fraction as their text (``NumberText``), and gives the value that
rows have: ``datetime``, ``Decimal``, ``dict``, ``Row``. A value of another kind is converted where that is clear: a number in a
STRING column is its text, a text in an INT column is parsed.
"""

from __future__ import annotations

import base64
import ctypes
import datetime
import functools
import importlib
import json
import math
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from funken.connectors.formats.json_columns import objects_of
from funken.connectors.schemas import is_text
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.expr.sql.values import EXACT
from funken.table.types import LogicalType, RowType
from funken.table.values import from_python, java_text
from funken.types.info import Types
from funken.types.row import Row
from funken.types.text import decimal_number, limits, real_number, whole_number

Columns = tuple[tuple[str, LogicalType], ...]
Read = Callable[[Any], Any]

_INT_BITS = 32
"""Types with fewer bits take no number with a fraction; others cut it off."""
_BITS = {"TinyIntType": 8, "SmallIntType": 16, "IntType": 32, "BigIntType": 64}
_MICROS = 10**6


@dataclass(frozen=True)
class JsonRules:
    """The options of the JSON format."""

    iso: bool = False
    """True if timestamps have a ``T`` between date and time."""
    ignores_errors: bool = False
    fails_on_missing: bool = False
    null_keys: str = "fail"
    null_key: str = "null"
    plain_decimals: bool = False
    skips_nulls: bool = False
    of_avro: bool = False
    """True if values are those of Avro: texts and bytes are read as one another, and a number can be a time."""


class NumberText(str):
    """A number with a fraction or an exponent, as it is written."""

    __slots__ = ()


@functools.cache
def _decoder() -> Callable[[bytes], Any]:
    module = importlib.import_module("msgspec.json")
    decode: Callable[[bytes], Any] = module.Decoder(float_hook=NumberText).decode
    return decode


_LONE_SURROGATE = re.compile(r"\\(?:u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|(u[dD][89a-fA-F]\w\w)|.)", re.DOTALL)


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no value of JSON")


@functools.cache
def _lenient() -> json.JSONDecoder:
    return json.JSONDecoder(strict=False, parse_float=NumberText, parse_constant=_refused)


def parsed_json(message: bytes) -> Any:
    r"""Parse the first document of a message; raises ``ValueError``.

    Flink's parser takes more than JSON: a byte order mark, control characters in texts, halves of surrogate pairs, and any text
    behind the document.

    >>> parsed_json(b'{"n": 1.50}'), parsed_json(b'{"word": "a\tb"} and more')
    ({'n': '1.50'}, {'word': 'a\tb'})
    """
    try:
        return _decoder()(message)
    except Exception as error:  # noqa: BLE001 - whatever the parser raises
        try:
            text = message.decode("utf-8-sig").lstrip(" \t\r\n")
            return _lenient().raw_decode(_LONE_SURROGATE.sub(lambda found: "?" if found[1] else found[0], text))[0]
        except (ValueError, RecursionError):
            raise ValueError(f"it is no JSON: {error}") from None


# ---- reading


def _whole(bits: int) -> Read:
    least, greatest = limits(bits)
    parse = whole_number(bits)

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(f"{value!r:.60} is no whole number")
        if type(value) is str or (bits < _INT_BITS and isinstance(value, NumberText)):
            return parse(value)
        number = int(float(value)) if isinstance(value, NumberText) else int(value)
        if not least <= number <= greatest:
            raise ValueError(f"{value} does not fit into {bits} bits")
        return number

    return read


_SUFFIXED = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?\s*", re.ASCII)


def _double(value: Any) -> float:
    """Return a number as Java's ``parseDouble`` does: ``1d`` is one, and one beyond 64 bits is infinite."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise ValueError(f"{value!r:.60} is no number")
    found = _SUFFIXED.fullmatch(value) if type(value) is str else None
    if found is not None:
        return float(found[1])
    return real_number(value) if type(value) is str else float(value)


def _float(value: Any) -> float:
    return ctypes.c_float(_double(value)).value


def _boolean(value: Any) -> bool:
    return value if isinstance(value, bool) else str(value).strip().lower() == "true"


def _string(value: Any) -> str:
    return value[:] if type(value) is str else str(value) if isinstance(value, str) else json_text(value)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else base64.b64decode("".join(value.split()), validate=True)


def _decimal(precision: int, scale: int) -> Read:
    """Return the reader of decimals; one with too many digits before the point is NULL."""
    step, limit = Decimal(1).scaleb(-scale), Decimal(1).scaleb(precision - scale)

    def read(value: Any) -> Decimal | None:
        number = decimal_number(str(value))
        if abs(number) >= limit:
            return None
        rounded = number.quantize(step, context=EXACT)
        return (rounded or abs(rounded)) if abs(rounded) < limit else None  # Java's zero has no sign

    return read


def _date(value: Any) -> datetime.date:
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    if not isinstance(value, str) or isinstance(value, NumberText):
        raise ValueError(f"{value!r:.60} is no date")
    return datetime.date.fromisoformat(value.strip())


def _time(value: Any) -> datetime.time:
    if isinstance(value, datetime.time):
        return value
    if not isinstance(value, str) or isinstance(value, NumberText):
        raise ValueError(f"{value!r:.60} is no time")
    if _TIME.fullmatch(value) is None:
        raise ValueError(f"{value!r:.60} is no time such as '10:00:00'")
    return datetime.time.fromisoformat(_cut(value, 3))


_TIME = re.compile(r"\d\d:\d\d:\d\d(\.\d{1,9})?", re.ASCII)


def _cut(text: str, digits: int) -> str:
    """Cut a fraction of a second to some digits."""
    head, dot, fraction = text.partition(".")
    return f"{head}.{fraction[:digits]}" if dot else text


_TIMESTAMP = {
    (iso, zoned): re.compile(
        rf"\d{{4}}-\d\d-\d\d{'T' if iso else ' '}\d\d:\d\d{'(:' if iso else ':'}\d\d(\.\d{{0,9}})?{')?' if iso else ''}"
        f"{'Z' if zoned else ''}",
        re.ASCII,
    )
    for iso in (False, True)
    for zoned in (False, True)
}
"""Timestamps by standard, and with a zone or without: ISO's may leave out the seconds."""


def _timestamp(iso: bool, zoned: bool) -> Read:
    """Return the reader of timestamps; ``iso``: there is a ``T`` between date and time."""
    pattern, zone = _TIMESTAMP[iso, zoned], datetime.UTC if zoned else None

    def read(value: Any) -> datetime.datetime:
        if isinstance(value, datetime.datetime):
            if zoned:
                return value.replace(tzinfo=zone) if value.tzinfo is None else value.astimezone(zone)
            return value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
        text = value.strip() if type(value) is str else ""
        if pattern.fullmatch(text) is None:
            wanted = f"2020-01-01{'T' if iso else ' '}10:00:00{'Z' if zoned else ''}"
            raise ValueError(f"{value!r:.60} is no timestamp such as {wanted!r}")
        return datetime.datetime.fromisoformat(_cut(text.removesuffix("Z"), 6)).replace(tzinfo=zone)

    return read


def _list(read: Read) -> Read:
    def read_all(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"{value!r:.60} is no array")
        return [None if one is None else read(one) for one in value]

    return read_all


def _map(read: Read, read_key: Read) -> Read:
    def read_all(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"{value!r:.60} is no object")
        return {read_key(key): None if one is None else read(one) for key, one in value.items()}

    return read_all


def _avro_text(value: Any) -> str:
    return (
        value.decode() if isinstance(value, bytes) else str(value) if isinstance(value, uuid.UUID) else _string(value)
    )


def _avro_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _avro_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r:.60} is no boolean")
    return value


def _avro_timestamp(read: Read) -> Read:
    """Return the reader of timestamps, and of numbers: milliseconds."""
    return lambda value: read(_EPOCH + datetime.timedelta(milliseconds=value) if isinstance(value, int) else value)


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_OF_AVRO: dict[str, Read] = {
    "CharType": _avro_text, "VarCharType": _avro_text, "BinaryType": _avro_bytes, "VarBinaryType": _avro_bytes,
    "BooleanType": _avro_boolean,
}  # fmt: skip


def reader_of(type_: LogicalType, rules: JsonRules) -> Read:
    """Return a reader of values of a type; it raises ``ValueError``.

    >>> from funken.table.types import DataTypes
    >>> reader_of(DataTypes.DECIMAL(10, 2), JsonRules())(NumberText("1.5"))
    Decimal('1.50')
    >>> reader_of(DataTypes.DECIMAL(38, 9), JsonRules())("12345678901234567890123456789.123456789")
    Decimal('12345678901234567890123456789.123456789')
    """
    name = type(type_).__name__
    kind: Any = type_
    if name in _BITS:
        return _whole(_BITS[name])
    if name == "DecimalType":
        return _decimal(kind.precision, kind.scale)
    if name in ("TimestampType", "LocalZonedTimestampType"):
        read = _timestamp(rules.iso, name != "TimestampType")
        return _avro_timestamp(read) if rules.of_avro else read
    if name == "ArrayType":
        return _list(_within(reader_of(kind.element, rules), rules))
    if name == "MapType":
        return _map(_within(reader_of(kind.value, rules), rules), reader_of(kind.key, rules))
    if name == "MultisetType":
        return _map(_within(_whole(32), rules), reader_of(kind.element, rules))
    if isinstance(type_, RowType):
        reader = JsonReader(tuple((field.name, field.type) for field in type_.fields), rules)
        return lambda value: Row(*reader.read_values(value))
    simple: dict[str, Read] = {
        "FloatType": _float, "DoubleType": _double, "BooleanType": _boolean, "CharType": _string, "VarCharType": _string,
        "BinaryType": _bytes, "VarBinaryType": _bytes, "DateType": _date, "TimeOfDayType": _time,
    }  # fmt: skip
    if rules.of_avro:
        simple |= _OF_AVRO
    if name not in simple:
        raise InvalidProgram(f"JSON has no place for values of {type_}; cast the column, to STRING for example.")
    return simple[name]


_WRONG = (ValueError, TypeError, ArithmeticError)


def _within(read: Read, rules: JsonRules) -> Read:
    """Return a reader of elements: if errors are ignored, a wrong one is NULL, and the others stay."""

    def read_or_null(value: Any) -> Any:
        try:
            return read(value)
        except _WRONG:
            return None

    return read_or_null if rules.ignores_errors else read


class JsonReader:
    """Reads the values of columns out of objects."""

    def __init__(self, columns: Columns, rules: JsonRules) -> None:
        self._readers = [(name, reader_of(type_, rules)) for name, type_ in columns]
        self._rules = rules

    def values(self, document: Any) -> list[Any] | None:
        """Return the values of columns; ``None`` for ``null``."""
        return None if document is None else self.read_values(document)

    def read_values(self, document: Any) -> list[Any]:
        """Return the values of columns of an object; a field that is missing is NULL."""
        if not isinstance(document, Mapping):
            raise ValueError(f"it is no object, but {type(document).__name__}")
        values = []
        for name, read in self._readers:
            value = document.get(name)
            if value is None:
                if self._rules.fails_on_missing and name not in document:
                    raise ValueError(f"could not find field with name {name!r}")
            else:
                try:
                    value = read(value)
                except _WRONG as error:
                    if not self._rules.ignores_errors:
                        raise ValueError(f"field {name!r}: {error}") from None
                    value = None
            values.append(value)
        return values


_PARSED = {
    "TinyIntType": int, "SmallIntType": int, "IntType": int, "BigIntType": int, "FloatType": float, "DoubleType": float,
    "BooleanType": bool, "CharType": str, "VarCharType": str,
}  # fmt: skip
"""Types whose values the parser checks: it takes those that a reader returns as they are. Others are read one by one."""


class JsonBlocks:
    r"""Reads lines with a document each as a block; one that the parser does not take as it is makes it give back all of them.

    >>> from funken.table.types import DataTypes
    >>> blocks = JsonBlocks((("n", DataTypes.INT()), ("at", DataTypes.DATE())), JsonRules())
    >>> blocks.of_lines(b'{"at": "2024-02-03", "n": 7}\n{"n": null}').batch["n"].to_pylist()
    [7, None]
    >>> blocks.of_lines(b'{"n": "7"}')
    """

    def __init__(self, columns: Columns, rules: JsonRules) -> None:
        from funken.table.runtime.block import BlockSchema, TableBlock  # noqa: PLC0415 - loads NumPy

        msgspec = importlib.import_module("msgspec")
        types = [_PARSED.get(type(type_).__name__) for _, type_ in columns]
        names = {f"f{number}": name for number, (name, _) in enumerate(columns)}
        fields: list[tuple[Any, ...]] = [
            (field, Any if kind is None else kind | None, *(() if rules.fails_on_missing else (None,)))
            for field, kind in zip(names, types, strict=True)
        ]
        document = msgspec.defstruct("Document", fields, rename=names, kw_only=True, gc=False)
        self._decode = importlib.import_module("msgspec.json").Decoder(document, float_hook=NumberText).decode_lines
        self._takes = [eval(f"lambda documents: [each.{field} for each in documents]") for field in names]
        self._reads = [
            None if kind is not None else reader_of(type_, rules)
            for kind, (_, type_) in zip(types, columns, strict=True)
        ]
        self._schema = BlockSchema([name for name, _ in columns], [type_ for _, type_ in columns])
        self._block = TableBlock

    def of_lines(self, data: bytes) -> Any:
        """Return the rows of whole lines; ``None``: they have to be read one by one."""
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        rows = objects_of(data)
        if rows is None or not is_text(data):
            return None
        try:
            documents = self._decode(data)
            arrays = [
                from_python(self._values(take(documents), read), type_)
                for take, read, type_ in zip(self._takes, self._reads, self._schema.types, strict=True)
            ]
        except Exception:  # noqa: BLE001 - found again, document by document
            return None
        if len(documents) != rows:
            return None
        return self._block(pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow))

    @staticmethod
    def _values(values: list[Any], read: Read | None) -> list[Any]:
        return values if read is None else [None if value is None else read(value) for value in values]


# ---- writing


def json_text(value: Any) -> str:
    """Return a value of the parser as JSON again, without spaces; numbers with a fraction as DOUBLE.

    >>> json_text({"a": [NumberText("1.50"), None, "b"]})
    '{"a":[1.5,null,"b"]}'
    """
    if isinstance(value, NumberText):
        return java_text(float(value))
    if isinstance(value, dict):
        return (
            f"{{{','.join(f'{json.dumps(key, ensure_ascii=False)}:{json_text(one)}' for key, one in value.items())}}}"
        )
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    return json.dumps(value, ensure_ascii=False)


_quote: Callable[[str], str] = json.encoder.encode_basestring  # a tenth of the time of ``json.dumps``
_CONTROL = re.compile(r"(?<!\\)((?:\\\\)*\\u00[01])([a-f])")
"""Control characters whose codes have a letter: Flink writes it as a capital."""
_PAIRS = re.compile("[\U00010000-\U0010ffff]")
"""Characters that Flink writes as a pair of surrogates."""


def _quoted(text: str) -> str:
    written = _quote(text)
    if "\\u" in written:
        written = _CONTROL.sub(lambda found: found[1] + found[2].upper(), written)
    return written if text.isascii() else _PAIRS.sub(_as_pair, written)


def _as_pair(found: re.Match[str]) -> str:
    high, low = divmod(ord(found[0]) - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"


def timestamp_text(value: datetime.datetime, iso: bool, zoned: bool, precision: int = 6) -> str:
    """Return a timestamp as formats write it.

    >>> timestamp_text(datetime.datetime(2024, 2, 3, 4, 5, 6, 120000), iso=False, zoned=False, precision=3)
    '2024-02-03 04:05:06.12'
    """
    at = value.astimezone(datetime.UTC) if value.tzinfo is not None else value
    fraction = f"{at.microsecond:06d}"[:precision].rstrip("0") if at.microsecond else ""
    text = f"{at.year:04d}-{at:%m-%d}{'T' if iso else ' '}{at:%H:%M:%S}"
    return f"{text}{f'.{fraction}' if fraction else ''}{'Z' if zoned else ''}"


def time_text(value: datetime.time) -> str:
    """Return a time of day as formats write it.

    >>> time_text(datetime.time(4, 5, 6, 120000)), time_text(datetime.time(4, 5))
    ('04:05:06.12', '04:05:00')
    """
    return value.isoformat().rstrip("0") if value.microsecond else value.isoformat()


def _decimal_writer(plain: bool) -> Callable[[Any], str]:
    if plain:
        return lambda value: format(Decimal(value), "f")
    return lambda value: str(Decimal(value).normalize(EXACT))


def writer_of(type_: LogicalType, rules: JsonRules) -> Callable[[Any], str]:
    """Return a writer of values of a type as JSON."""
    name = type(type_).__name__
    kind: Any = type_
    if name == "DecimalType":
        return _decimal_writer(rules.plain_decimals)
    if name in ("TimestampType", "LocalZonedTimestampType"):
        zoned, precision = name != "TimestampType", kind.precision
        return lambda value: f'"{timestamp_text(value, rules.iso, zoned, precision)}"'
    if name == "ArrayType":
        write = _or_null(writer_of(kind.element, rules))
        return lambda value: f"[{','.join(map(write, value))}]"
    if name in ("MapType", "MultisetType"):
        inner = str if name == "MultisetType" else writer_of(kind.value, rules)
        return _map_writer(_or_null(inner), rules)
    if isinstance(type_, RowType):
        return JsonWriter(tuple((field.name, field.type) for field in type_.fields), rules).text
    if name in ("CharType", "VarCharType"):
        return _quoted
    if name in ("BinaryType", "VarBinaryType"):
        return lambda value: f'"{base64.b64encode(value).decode()}"'
    if name == "DateType":
        return lambda value: f'"{value.isoformat()}"'
    if name == "TimeOfDayType":
        return lambda value: f'"{time_text(value)}"'
    if name in ("FloatType", "DoubleType"):
        return lambda value: java_text(value, type_) if math.isfinite(value) else f'"{java_text(value, type_)}"'
    return lambda value: java_text(value, type_)


def _or_null(write: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: "null" if value is None else write(value)


def _map_writer(write: Callable[[Any], str], rules: JsonRules) -> Callable[[Any], str]:
    def written(value: Any) -> str:
        parts = []
        for key, one in value.items():
            if key is None and rules.null_keys == "drop":
                continue
            if key is None and rules.null_keys == "fail":
                raise ValueError(
                    "JSON has no place for a map whose key is NULL; set 'json.map-null-key.mode' to 'DROP' or 'LITERAL'."
                )
            parts.append(f"{_quoted(rules.null_key if key is None else str(key))}:{write(one)}")
        return f"{{{','.join(parts)}}}"

    return written


class JsonWriter:
    """Writes the values of columns as objects."""

    def __init__(self, columns: Columns, rules: JsonRules) -> None:
        self._writers = [(_quoted(name), writer_of(type_, rules)) for name, type_ in columns]
        self._skips_nulls = rules.skips_nulls

    def text(self, row: Sequence[Any]) -> str:
        """Return the object of a row."""
        parts = [
            f"{name}:{'null' if value is None else write(value)}"
            for (name, write), value in zip(self._writers, row, strict=True)
            if value is not None or not self._skips_nulls
        ]
        return f"{{{','.join(parts)}}}"

    def texts(self, columns: Sequence[Sequence[Any]]) -> list[str]:
        """Return the objects of rows by their columns."""
        if self._skips_nulls:
            return list(map(self.text, zip(*columns, strict=True)))
        pattern = ",".join(f"{name.replace('%', '%%')}:%s" for name, _ in self._writers)
        written = [
            ["null" if value is None else write(value) for value in column]
            for (_, write), column in zip(self._writers, columns, strict=True)
        ]
        return list(map(f"{{{pattern}}}".__mod__, zip(*written, strict=True)))


# ---- texts of csv


def text_reader(type_: LogicalType, delimiter: str = ";", ignores_errors: bool = False) -> Read:
    """Return a reader of values of a type in a field of delimited text; ``ignores_errors``: wrong elements are NULL."""
    name = type(type_).__name__
    kind: Any = type_
    if name in ("CharType", "VarCharType"):
        return str
    if name == "ArrayType":
        read = _part_reader(type_, kind.element, ignores_errors)
        return lambda text: list(map(read, text.split(delimiter))) if text.strip() else []
    if isinstance(type_, RowType):
        return _row_reader(type_, delimiter, ignores_errors)
    if name in ("MapType", "MultisetType"):
        raise InvalidProgram(f"delimited text has no place for values of {type_}; cast the column to STRING.")
    if name in _BITS:
        return whole_number(_BITS[name])
    if name == "DateType":
        return lambda text: _date(
            _SHORT_DATE.sub(lambda match: f"{match[1]}-{match[2]:0>2}-{match[3]:0>2}", _untrimmed(text, "date"))
        )
    if name == "TimeOfDayType":
        return functools.partial(_clock_time, digits=kind.precision)
    read = reader_of(type_, JsonRules())
    return (lambda text: read(_untrimmed(text, "number"))) if name == "DecimalType" else read


def _part_reader(outer: LogicalType, type_: LogicalType, ignores_errors: bool) -> Read:
    if isinstance(type_, RowType) or type(type_).__name__ == "ArrayType":
        raise InvalidProgram(
            f"delimited text has no place for {type_} within {outer}: a field has one delimiter. Flatten the column, or cast it "
            "to STRING."
        )
    return _within(text_reader(type_), JsonRules(ignores_errors=ignores_errors))


def _row_reader(type_: RowType, delimiter: str, ignores_errors: bool) -> Read:
    readers = [_part_reader(type_, field.type, ignores_errors) for field in type_.fields]

    def read_row(text: str) -> Row | None:
        if not text.strip():
            return None
        parts = text.split(delimiter)
        missing = len(readers) - len(parts)
        if missing > 0 and not ignores_errors:
            raise ValueError(f"it has {len(parts)} part(s) and not {len(readers)}")
        values = [read(part) for read, part in zip(readers, parts, strict=False)]
        return Row(*values, *[None] * max(0, missing))

    return read_row


def _untrimmed(text: str, what: str) -> str:
    if text != text.strip():
        raise ValueError(f"{text!r:.60} has spaces around the {what}")
    return text


_CLOCK = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,9})?)?", re.ASCII)


def _clock_time(text: str, digits: int) -> datetime.time:
    """Return a time of delimited text; of its fraction of a second, only the digits of its type count."""
    if _CLOCK.fullmatch(text) is None:
        raise ValueError(f"{text!r:.60} is no time such as '10:00:00'")
    return datetime.time.fromisoformat(_cut(text, min(digits, 3)).rstrip("."))


_SHORT_DATE = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)", re.ASCII)
"""Dates in delimited text may leave out zeros: ``2024-1-2``."""


class _Digits(Decimal):
    """A decimal whose text has no exponent: of a number, delimited text has no quotes."""

    def __str__(self) -> str:
        return format(self, "f")


def text_writer(type_: LogicalType, plain_decimals: bool | None = None) -> tuple[Any, Callable[[Any], Any]]:
    """Return the type of a field of delimited text, and the maker of its values.

    ``plain_decimals``: DECIMAL with all digits of its type, or in scientific notation without the zeros at its end; ``None``: as
    Python writes it.
    """
    name = type(type_).__name__
    kind: Any = type_
    if name in ("TimestampType", "LocalZonedTimestampType"):
        zoned, precision = name != "TimestampType", kind.precision
        return Types.STRING(), lambda value: timestamp_text(value, False, zoned, precision)
    if name == "ArrayType":
        inner, write = text_writer(kind.element, plain_decimals)
        return Types.LIST(inner), lambda value: [None if one is None else write(one) for one in value]
    if isinstance(type_, RowType):
        pairs = [text_writer(field.type, plain_decimals) for field in type_.fields]
        types = Types.TUPLE([inner for inner, _ in pairs])
        return types, lambda value: tuple(
            None if one is None else write(one) for one, (_, write) in zip(value, pairs, strict=True)
        )
    if name in ("BinaryType", "VarBinaryType"):
        return Types.STRING(), lambda value: base64.b64encode(value).decode()
    if name == "DateType":
        return Types.STRING(), lambda value: value.isoformat()
    if name == "TimeOfDayType":
        return Types.STRING(), time_text
    if name == "DecimalType" and plain_decimals:
        return Types.STRING(), _Digits
    if name == "DecimalType" and plain_decimals is not None:
        return Types.BIG_DEC(), lambda value: Decimal(value).normalize(EXACT)
    plain = {
        "TinyIntType": Types.INT(), "SmallIntType": Types.INT(), "IntType": Types.INT(), "BigIntType": Types.LONG(),
        "FloatType": Types.FLOAT(), "DoubleType": Types.DOUBLE(), "BooleanType": Types.BOOLEAN(),
        "DecimalType": Types.BIG_DEC(), "CharType": Types.STRING(), "VarCharType": Types.STRING(),
    }  # fmt: skip
    if name not in plain:
        raise InvalidProgram(f"delimited text has no place for values of {type_}; cast the column to STRING.")
    return plain[name], unchanged


def unchanged(value: Any) -> Any:
    """Return a value."""
    return value


# ---- Avro


def avro_type(columns: Columns, legacy: bool = True, name: str = "record") -> dict[str, Any]:
    """Return the schema of Avro of columns, as Flink derives it: a nullable column is a union with null.

    ``legacy``: a TIMESTAMP is the ``timestamp`` of Avro, as a TIMESTAMP_LTZ; otherwise its ``local-timestamp``.

    >>> from funken.table.types import DataTypes
    >>> avro_type((("n", DataTypes.INT()),))["fields"]
    [{'name': 'n', 'type': ['null', 'int'], 'default': None}]
    """
    fields = []
    for column, type_ in columns:
        field: dict[str, Any] = {"name": column, "type": _avro(type_, legacy, f"{name}_{column}")}
        if type_.is_nullable:
            field["default"] = None
        fields.append(field)
    return {"type": "record", "name": name, "namespace": "org.apache.flink.avro.generated", "fields": fields}


def _avro(type_: LogicalType, legacy: bool, name: str) -> Any:
    made = _avro_of(type_, legacy, name)
    return ["null", made] if type_.is_nullable else made


def _avro_of(type_: LogicalType, legacy: bool, name: str) -> Any:
    kind: Any = type_
    match type(type_).__name__:
        case "BooleanType":
            return "boolean"
        case "TinyIntType" | "SmallIntType" | "IntType":
            return "int"
        case "BigIntType":
            return "long"
        case "FloatType":
            return "float"
        case "DoubleType":
            return "double"
        case "CharType" | "VarCharType":
            return "string"
        case "BinaryType" | "VarBinaryType":
            return "bytes"
        case "DecimalType":
            return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        case "DateType":
            return {"type": "int", "logicalType": "date"}
        case "TimeOfDayType":
            return {"type": "int", "logicalType": "time-millis"}
        case "TimestampType" | "LocalZonedTimestampType":
            unit = "millis" if kind.precision <= 3 else "micros"
            local = "" if legacy or type(type_).__name__ != "TimestampType" else "local-"
            return {"type": "long", "logicalType": f"{local}timestamp-{unit}"}
        case "ArrayType":
            return {"type": "array", "items": _avro(kind.element, legacy, name)}
        case "MapType":
            return {"type": "map", "values": _avro(kind.value, legacy, name)}
        case "MultisetType":
            return {"type": "map", "values": ["null", "int"]}
        case "RowType":
            return avro_type(tuple((field.name, field.type) for field in kind.fields), legacy, name)
    raise InvalidProgram(f"Avro has no place for values of {type_}; cast the column, to STRING for example.")
