"""Random records for random functions, and what generated functions may use.

They have what arrays get wrong: ints at the end of 64 bits, NaN, -0.0, infinities, letters beyond ASCII, empty texts, numbers in
text, empty lists.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import random
import re
import zlib
from datetime import UTC, datetime
from typing import Any, NamedTuple

from funken.columnar.records import made_of_fields
from funken.expr.types import (
    BOOL,
    DATACLASS,
    DICT,
    DOCUMENT,
    FLOAT,
    INT,
    NAMED_TUPLE,
    NUMBER,
    ROW,
    STR,
    Atomic,
    ListOf,
    Record,
    Tuple,
    Type,
)
from funken.types.row import Row


class Pair(NamedTuple):
    """A named tuple for generated functions."""

    number: int
    text: str


@dataclasses.dataclass(frozen=True)
class Visit:
    """A dataclass for generated functions."""

    number: int
    ratio: float = 0.5
    text: str = "none"
    flag: bool = False


def level(number: int) -> int:
    """Return a number that depends on another: generated functions call it."""
    return 1 if number < 10 else 2 if number < 1000 else 3


def tidy(text: str, end: str = ".") -> str:
    """Return a text without spaces around it, and with an end."""
    clean = text.strip().lower()
    if not clean:
        return end
    return clean if clean.endswith(end) else clean + end


def moment(number: int) -> str:
    """Return a time as text."""
    return f"2024-0{level(number)}-28T0{number % 8}:00:00"


SPACE: dict[str, Any] = {
    "Pair": Pair, "Visit": Visit, "Row": Row, "level": level, "tidy": tidy, "moment": moment,
    "math": math, "re": re, "dataclasses": dataclasses, "json": json, "hashlib": hashlib, "zlib": zlib,
    "TABLE": {0: {"name": "zero", "size": 5}, 1: {"name": "", "size": 0}, 2: {"name": "é", "size": -7}},
    "PAIRS": {"a": ("b", 1), "ab": ("", 2)},
    "datetime": datetime, "UTC": UTC, "CODES": {"a": "first", "ab": "second", "é": "third"}, "WEIGHTS": {1: 10, 2: 20, -1: 0},
    "SIZES": (5, 0, -7), "PARTS": ("x", "", "é"),
    "DIGITS": re.compile(r"(\d+)"), "FACTOR": 3, "KNOWN": {1, 2, 3}, "NAMES": ["a", "b", "ab"],
}  # fmt: skip
"""The globals of generated functions."""

_FIELDS = Tuple((INT, INT, FLOAT, STR, BOOL))
_NAMES = ("count", "other", "ratio", "text", "flag")
SHAPES: tuple[tuple[Type, dict[str, list[str]]], ...] = (
    (_FIELDS, {"int": ["r[0]", "r[1]"], "float": ["r[2]"], "str": ["r[3]"], "bool": ["r[4]"]}),
    (
        Record(_FIELDS, DICT, _NAMES),
        {
            "int": ["r['count']", "r['other']", "r.get('count')", "r.get('missing', 4)"], "float": ["r['ratio']"],
            "str": ["r['text']", "r.get('text', 'x')"], "bool": ["r['flag']", "('count' in r)"],
        },
    ),
    (
        Record(_FIELDS, DOCUMENT, _NAMES),
        {
            "int": ["r['count']", "r['other']", "r.get('other')", "r.get('more', 4)", "len(r)"], "float": ["r['ratio']"],
            "str": ["r['text']", "r.get('text', 'x')"], "bool": ["r['flag']", "('count' in r)", "('more' in r)", "bool(r)"],
        },
    ),
    (
        Record((INT, NUMBER, STR), DICT, ("count", "amount", "text")),
        {
            "int": ["r['count']"], "str": ["r['text']"],
            "float": ["(r['amount'] / 2)", "float(r['amount'])", "(r['amount'] + 0.5)", "(1.5 * r['amount'])"],
            "bool": [
                "(r['amount'] > 3)", "(r['amount'] == r['count'])", "(r['amount'] <= 2.5)", "bool(r['amount'])",
                "(r['amount'] is None)", "(r['amount'] != r['amount'])",
            ],
        },
    ),
    (
        Record((Record(_FIELDS, DOCUMENT, _NAMES), INT), DOCUMENT, ("of", "own")),
        {
            "int": ["r['of']['count']", "r['own']", "r['of'].get('more', 4)", "r.get('of')['other']", "len(r['of'])"],
            "float": ["r['of']['ratio']"], "str": ["r['of']['text']", "r['of'].get('text', 'x')"],
            "bool": ["r['of']['flag']", "('count' in r['of'])", "('more' in r['of'])", "bool(r['of'])"],
        },
    ),
    (
        Record((Record(_FIELDS, DICT, _NAMES), INT), DICT, ("of", "own")),
        {
            "int": ["r['of']['count']", "r['own']", "r['of'].get('more', 4)", "r.get('of')['other']", "len(r['of'])"],
            "float": ["r['of']['ratio']"], "str": ["r['of']['text']"], "bool": ["r['of']['flag']", "('more' in r['of'])"],
        },
    ),
    (
        Record((INT, FLOAT, STR, BOOL), DATACLASS, ("number", "ratio", "text", "flag"), Visit),
        {"int": ["r.number"], "float": ["r.ratio"], "str": ["r.text"], "bool": ["r.flag"]},
    ),
    (
        Record(_FIELDS, ROW, _NAMES),
        {"int": ["r.other", "r['other']", "r[0]"], "float": ["r.ratio"], "str": ["r.text"], "bool": ["r['flag']"]},
    ),
    (
        Record(
            (
                INT, ListOf(INT), ListOf(STR), ListOf(FLOAT),
                ListOf(Record((STR, INT, ListOf(INT)), DICT, ("name", "n", "parts"))), ListOf(BOOL),
            ),
            DICT, ("own", "counts", "tags", "ratios", "items", "flags"),
        ),
        {
            "int": ["r['own']", "len(r['items'])", "sum(i['n'] for i in r['items'])", "len(r.get('tags'))", "r['items'][0]['n']"],
            "float": ["sum(r['ratios'], 0.0)", "max(r['ratios'])"], "str": ["','.join(r['tags'])", "r['tags'][0]"],
            "bool": ["any(r['flags'])", "all(r['flags'])", "bool(r['items'])", "(r['own'] in r['counts'])"],
            "ints": [
                "r['counts']", "[i['n'] for i in r['items'] if i['name']]", "[sum(i['parts']) for i in r['items']]",
                "r['items'][-1]['parts']",
            ],
            "strs": ["r['tags']", "[i['name'] for i in r['items']]", "r.get('tags')"], "floats": ["r['ratios']"],
        },
    ),
    (
        Record((INT, ListOf(Record((STR, INT), DOCUMENT, ("name", "n")))), DOCUMENT, ("own", "items")),
        {
            "int": ["r['own']", "sum([i['n'] for i in r['items']])"], "float": ["(r['own'] / 4)"],
            "str": ["r['items'][0]['name']"], "bool": ["any(i['n'] > r['own'] for i in r['items'])"],
            "ints": ["[i['n'] for i in r['items'] if 'name' in i]", "[i.get('n') for i in r['items']]"],
            "strs": ["[i['name'] for i in r['items'] if i['n'] or i['name']]"], "floats": ["[i['n'] / 2 for i in r['items']]"],
        },
    ),
    (
        Tuple((Record((INT, STR), NAMED_TUPLE, ("number", "text"), Pair), FLOAT, Tuple((BOOL, INT)))),
        {"int": ["r[0].number", "r[0][0]", "r[2][1]"], "float": ["r[1]"], "str": ["r[0].text", "r[0][1]"], "bool": ["r[2][0]"]},
    ),
)  # fmt: skip
"""Schemas of records, and what their fields are called."""

_INTS = (0, 1, -1, 2, 7, 10, 63, 64, 1000, 2**31, 2**53, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63))
_FLOATS = (0.0, -0.0, 1.0, -1.5, 0.1, 2.5, 3.5, 1e300, -1e-300, 2.0**53, math.inf, -math.inf, math.nan)
_TEXTS = (
    "", "a", "ab", "A b", " a ", "12", "-7", "1.5", "é", "É", "ß", "İ", "x,y,z", "a=1&b=22", "中文", "\U0001f600", "\x1c",
    "\u00a0", "Σς",
)  # fmt: skip


def random_records(dice: random.Random, schema: Type, wild: bool) -> list[Any]:
    """Return records of a schema; ``wild``: with what arrays get wrong."""
    return [_value(dice, schema, wild) for _ in range(dice.choice((1, 2, 3, 4, 5, 40)))]


def _value(dice: random.Random, schema: Type, wild: bool) -> Any:
    if isinstance(schema, ListOf):
        return [_value(dice, schema.element, wild) for _ in range(dice.choice((0, 1, 1, 2, 3, 6)))]
    if not isinstance(schema, Atomic):
        values = [_value(dice, inner, wild) for inner in schema]
        if not isinstance(schema, Record):
            return tuple(values)
        made = made_of_fields(schema, [[value] for value in values])[0]
        return _document(dice, made) if schema.form == DOCUMENT else made
    if schema == NUMBER:
        schema = dice.choice([INT, FLOAT])
    if schema == INT:
        return dice.choice(_INTS) if wild else dice.randrange(-20, 2000)
    if schema == FLOAT:
        return dice.choice(_FLOATS) if wild else dice.randrange(-40, 400) / 8
    return dice.choice(_TEXTS) if schema == STR else dice.random() < 0.5


def _document(dice: random.Random, fields: dict[str, Any]) -> dict[str, Any]:
    """Return a dict that has these fields, and perhaps others, in any order."""
    found = [*fields.items(), *(("more", 7), ("less", None))[: dice.randrange(3)]]
    dice.shuffle(found)
    return dict(found)


__all__ = ["SHAPES", "SPACE", "Pair", "Visit", "level", "random_records", "tidy"]
