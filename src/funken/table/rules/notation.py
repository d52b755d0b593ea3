"""Expressions and types as EXPLAIN writes them: calls in front (``+(a, 1)``), or operators between (``(a + 1)``)."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from funken.expr.ir import Call, InputRef, Literal
from funken.table.types import LogicalType, is_text

_CHARACTERS = ' CHARACTER SET "UTF-16LE"'
_NAMES = {"INT": "INTEGER", "NEGATE": "-", "GET": "."}
_INFIX = {
    "+",
    "-",
    "*",
    "/",
    "%",
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "||",
    "LIKE",
    "SIMILAR TO",
    "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM",
}
_POSTFIX = {
    "IS NULL",
    "IS NOT NULL",
    "IS TRUE",
    "IS NOT TRUE",
    "IS FALSE",
    "IS NOT FALSE",
    "IS UNKNOWN",
    "IS NOT UNKNOWN",
}
_DAY = 86_400_000


def length_text(milliseconds: int) -> str:
    """Return a length of time in the largest unit that divides it.

    >>> length_text(5000), length_text(86_400_000), length_text(1500)
    ('5 s', '1 d', '1500 ms')
    """
    for unit, size in (("d", _DAY), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} ms"


def type_text(type_: LogicalType, characters: bool = False) -> str:
    """Return a type as the planner of Flink writes it."""
    text = type_.as_nullable().serializable()
    text = "INTEGER" if text == "INT" else text
    if text.startswith("TIMESTAMP_LTZ"):
        text = text.replace("TIMESTAMP_LTZ", "TIMESTAMP_WITH_LOCAL_TIME_ZONE")
    return text + (_CHARACTERS if characters and is_text(type_) else "")


class Notation:
    """Writes expressions over columns with names; without a name a column is ``$0``."""

    def __init__(self, infix: bool) -> None:
        self.infix = infix

    def text(self, node: Any, names: Sequence[str]) -> str:
        """Return the text of an expression."""
        if isinstance(node, InputRef):
            return names[node.index] if node.index < len(names) else f"${node.index}"
        if isinstance(node, Literal):
            return self.constant(node)
        if not isinstance(node, Call):
            return str(node)
        args = [self.text(arg, names) for arg in node.args]
        return self.call(node, args)

    def call(self, node: Call, args: list[str]) -> str:
        """Return the text of a call."""
        name = node.function
        if name in {"CAST", "TRY_CAST"}:
            return f"{name}({args[0]} AS {type_text(node.type, characters=not self.infix)})"
        if name == "GET":
            return f"{args[0]}.{node.option('field', '')}"
        if name in {"AND", "OR"}:
            return f"({f' {name} '.join(args)})" if self.infix else f"{name}({', '.join(args)})"
        if self.infix and name in _INFIX and len(args) == 2:
            return f"({args[0]} {name} {args[1]})"
        if self.infix and name in _POSTFIX:
            return f"{args[0]} {name}"
        return f"{_NAMES.get(name, name)}({', '.join(args)})"

    def equal(self, left: str, right: str, null_safe: bool) -> str:
        """Return the text of an equality."""
        name = "IS NOT DISTINCT FROM" if null_safe else "="
        return f"({left} {name} {right})" if self.infix else f"{name}({left}, {right})"

    def conjunction(self, parts: Sequence[str]) -> str:
        """Return the text of several conditions."""
        if not parts:
            return "true"
        if len(parts) == 1:
            return parts[0]
        return f"({' AND '.join(parts)})" if self.infix else f"AND({', '.join(parts)})"

    def constant(self, node: Literal) -> str:
        """Return the text of a constant."""
        value, type_ = node.value, node.type
        if value is None:
            return f"null:{type_text(type_, characters=not self.infix)}" if type_.root != "NULL" else "null"
        if isinstance(value, bool):
            return str(value).lower()
        if is_text(type_):
            text = "'" + str(value).replace("'", "''") + "'"
            if self.infix:
                return text
            varying = f":{type_text(type_)}{_CHARACTERS}" if type_.root == "VARCHAR" else ""
            return f"_UTF-16LE{text}{varying}"
        if type_.root == "SYMBOL":
            return f"FLAG({value})"
        return _number(value, type_)


def _number(value: Any, type_: LogicalType) -> str:
    root = type_.root
    if root == "INTERVAL_DAY_TIME":
        return f"{value}:INTERVAL {getattr(type_, 'resolution', 'SECOND')}"
    if root == "INTERVAL_YEAR_MONTH":
        return f"{value}:INTERVAL {getattr(type_, 'resolution', 'MONTH')}"
    if root == "DATE":
        return str(datetime.date(1970, 1, 1) + datetime.timedelta(days=value))
    if root in {"TIMESTAMP", "TIMESTAMP_LTZ"}:
        return str(datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=value // 1000))  # noqa: DTZ001
    if root == "TIME":
        return str((datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=value)).time())  # noqa: DTZ001
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if root in {"BIGINT", "SMALLINT", "TINYINT"}:
        return f"{value}:{root}"
    if isinstance(value, Decimal):
        return f"{value:f}:{type_text(type_)}"
    if root in {"DOUBLE", "FLOAT"}:
        return f"{value}:{root}"
    return str(value)
