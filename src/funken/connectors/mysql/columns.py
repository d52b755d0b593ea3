"""Columns of MySQL: which can be read, and equal values of a column in a query and in the binary log.

A query and the log spell some types differently; both are brought to the same Python values here. The log keeps some of them in a
form that the client reads inexactly (fractions of negative times, empty sets): these are read as bits and decoded here.
"""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from funken.connectors.mysql.database import pymysql
from funken.errors import SourceNotReadable

Convert = Callable[[Any], Any]

_NUMBERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal")
_TIMES = ("date", "datetime", "timestamp", "time", "year")
_BLOBS = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_STRINGS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json")
READABLE = frozenset((*_NUMBERS, *_TIMES, *_BLOBS, *_STRINGS, "float", "double", "bit"))
_ORDERED = frozenset((*_NUMBERS, *_TIMES, "binary", "varbinary"))
"""Types of keys whose order is the same in MySQL and in Python."""
_TEXTS = frozenset(("char", "varchar"))
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

_COLUMNS = """
SELECT column_name, data_type, column_type, collation_name, character_set_name, character_maximum_length, extra
FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"""


class MySqlKey(NamedTuple):
    """A column of a primary key; ``collation`` of text alone."""

    name: str
    type: str
    collation: str = ""
    charset: str = ""
    length: int = 0

    def weight(self, text: str) -> str:
        """Return the expression for the bytes that order a text as the server orders the column.

        >>> MySqlKey("word", "varchar", "utf8mb4_general_ci", "utf8mb4", 20).weight("%s")
        'WEIGHT_STRING(CONVERT(%s USING utf8mb4) COLLATE utf8mb4_general_ci AS CHAR(20))'
        """
        pads = "_0900_" not in self.collation and "nopad" not in self.collation
        size = f" AS CHAR({self.length})" if pads else ""
        return f"WEIGHT_STRING(CONVERT({text} USING {self.charset}) COLLATE {self.collation}{size})"

    @property
    def is_text(self) -> bool:
        """True if the server's collation orders the key."""
        return self.type in _TEXTS

    @property
    def is_ordered(self) -> bool:
        """True if values can be compared."""
        return self.is_text or self.type in _ORDERED


class MySqlColumn(NamedTuple):
    """A column as ``information_schema`` describes it."""

    name: str
    type: str
    definition: str
    collation: str
    charset: str
    length: int
    extra: str

    @property
    def key(self) -> MySqlKey:
        """The column as one of the key."""
        if self.type in _TEXTS:
            return MySqlKey(self.name, self.type, self.collation, self.charset, self.length)
        return MySqlKey(self.name, self.type)

    def selected(self, quoted: str) -> str:
        """Return the expression of the column in a query: a FLOAT would be rounded to six digits.

        >>> MySqlColumn("price", "float", "float", "", "", 0, "").selected("`price`")
        '`price` + 0e0'
        """
        return f"{quoted} + {'0e0' if self.type == 'float' else 0}" if self.type in ("float", "bit") else quoted

    @property
    def converter(self) -> Convert | None:
        """Return a converter of a query's values."""
        return _OF_QUERIES.get(self.type)


def columns_wanted(given: Mapping[str, Sequence[str]], table: str) -> Sequence[str]:
    """Return the names of the columns of a table that are to be read; none if all are.

    >>> columns_wanted({"shop.orders": ["id"], "*": ["at"]}, "shop.items")
    ['at']
    """
    return given.get(table, given.get("*", ()))


def columns_of(cursor: Any, table: str, names: Sequence[str]) -> list[MySqlColumn]:
    """Return the columns of a table, or those with names; raises ``SourceNotReadable`` for one that cannot be read."""
    cursor.execute(_COLUMNS, tuple(table.split(".", 1)))
    columns = [
        MySqlColumn(name, kind.lower(), _text(definition), collation or "", charset or "", int(length or 0), extra)
        for name, kind, definition, collation, charset, length, extra in cursor.fetchall()
    ]
    missing = set(names) - {column.name for column in columns}
    if missing:
        there = ", ".join(column.name for column in columns)
        raise SourceNotReadable(
            f"table {table!r} has no column {sorted(missing)[0]!r} (columns: {there}); correct the names."
        )
    columns = [column for column in columns if not names or column.name in names]
    wrong = [f"{column.name} ({column.type})" for column in columns if column.type not in READABLE]
    if wrong:
        raise SourceNotReadable(
            f"table {table!r} has columns of types that cannot be read: {', '.join(wrong)}; leave them out with "
            f"columns={{{table!r}: [...]}}."
        )
    for column in columns:
        if column.type in ("enum", "set") and not column.definition.isascii() and not column.charset.startswith("utf8"):
            raise SourceNotReadable(
                f"table {table!r}: the log lacks the values of column {column.name!r} ({column.type} in "
                f"{column.charset}); convert the column to utf8mb4, or leave it out with columns={{{table!r}: [...]}}."
            )
        if "VIRTUAL" in column.extra.upper():
            raise SourceNotReadable(
                f"table {table!r}: the log does not hold the virtual column {column.name!r}; leave it out with "
                f"columns={{{table!r}: [...]}}."
            )
    return columns


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _date(value: Any) -> Any:
    """The client returns a text for a date that there is not, such as 0000-00-00."""
    return None if isinstance(value, str) else value


def _instant(value: Any) -> Any:
    return None if isinstance(value, str) else value.replace(tzinfo=datetime.UTC)


_OF_QUERIES: dict[str, Convert] = {"date": _date, "datetime": _date, "timestamp": _instant, "bit": int}

# ---- the log


def log_converters(columns: Sequence[Any]) -> dict[str, Convert]:
    """Return converters of the log's values, for the columns of a table map; columns read as bits are changed.

    ``columns`` are those of mysql-replication, which reads them as their ``type`` says.
    """
    kinds = pymysql("pymysqlreplication.constants.FIELD_TYPE")
    made: dict[str, Convert] = {}
    for column in columns:
        convert = _converter_of(column, kinds)
        if convert is not None:
            made[column.name] = convert
    return made


def _converter_of(column: Any, kinds: Any) -> Convert | None:
    kind = column.type
    if kind == kinds.TIME2 and column.fsp:
        size = (column.fsp + 1) // 2
        _read_as_bits(column, 3 + size, kinds)
        return _time_of(size)
    if kind == kinds.TIMESTAMP2:
        size = (column.fsp + 1) // 2
        _read_as_bits(column, 4 + size, kinds)
        return _timestamp_of(size)
    if kind == kinds.SET:
        members = column.set_values or []
        size = column.size
        _read_as_bits(column, size, kinds)
        return _set_of(size, members)
    if kind == kinds.TIMESTAMP:
        return lambda value: None if value == _EPOCH.replace(tzinfo=None) else value.replace(tzinfo=datetime.UTC)
    if kind == kinds.BIT:
        return lambda bits: int(bits, 2)
    if kind == kinds.YEAR:
        return lambda year: 0 if year == 1900 else year
    if kind == kinds.JSON:
        return json_text
    if (
        column.character_set_name == "binary"
    ):  # the client gives an empty text for no bytes, and the log omits trailing zeros
        length = column.max_length if kind == kinds.STRING else 0
        return lambda value: (value or b"").ljust(length, b"\0")
    return None


def _read_as_bits(column: Any, size: int, kinds: Any) -> None:
    column.type, column.bytes, column.bits = kinds.BIT, size, 8 * size


def _time_of(size: int) -> Convert:
    zero, unit = 0x800000 << 8 * size, 10 ** (6 - 2 * size)

    def convert(bits: str) -> datetime.timedelta:
        packed = int(bits, 2) - zero
        whole, fraction = divmod(abs(packed), 1 << 8 * size)
        time = datetime.timedelta(
            hours=whole >> 12 & 0x3FF, minutes=whole >> 6 & 0x3F, seconds=whole & 0x3F, microseconds=fraction * unit
        )
        return -time if packed < 0 else time

    return convert


def _timestamp_of(size: int) -> Convert:
    unit = 10 ** (6 - 2 * size)

    def convert(bits: str) -> datetime.datetime | None:
        seconds, fraction = divmod(int(bits, 2), 1 << 8 * size)
        if not seconds and not fraction:
            return None  # 0000-00-00 00:00:00
        return _EPOCH + datetime.timedelta(seconds=seconds, microseconds=fraction * unit)

    return convert


def _set_of(size: int, members: Sequence[str]) -> Convert:
    def convert(bits: str) -> str:
        mask = int.from_bytes(int(bits, 2).to_bytes(size, "big"), "little")
        return ",".join(member for place, member in enumerate(members) if mask >> place & 1)

    return convert


def json_text(value: Any) -> str:
    """Return the text of JSON of the log, as the server writes it in a query.

    >>> json_text({b"name": b"tea", b"prices": [1, 2.5, None, True]})
    '{"name": "tea", "prices": [1, 2.5, null, true]}'
    """
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Mapping):
        return {_plain(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value) if isinstance(value, datetime.date | datetime.time | datetime.timedelta) else value
