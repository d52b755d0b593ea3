"""The cases of each operation of Python that runs on columns, and the page of them, out of the table of operations.

A case is a function that a program could write, for a record of the types of one signature.
"""

from __future__ import annotations

import datetime as dates
import decimal
import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from funken.columnar.calling import LOWERED
from funken.expr.python.table import BYTES, DATE, DATETIME, HASH, MATCH, PATTERN, TABLE, TIMEZONE, OperationRule
from funken.expr.types import BOOL, FLOAT, INT, NONE, STR, Atomic, ListOf, Type, optional

SPACE = {
    "math": __import__("math"), "hashlib": __import__("hashlib"), "zlib": __import__("zlib"), "base64": __import__("base64"),
    "urllib": __import__("urllib.parse"),
    "datetime": dates.datetime, "date": dates.date, "UTC": dates.UTC, "Decimal": decimal.Decimal, "re": re,
}  # fmt: skip
"""What the functions of cases use."""
_SAMPLES = [
    *(ListOf(each) for each in (INT, FLOAT, STR, BOOL)),
    INT,
    FLOAT,
    STR,
    BOOL,
    NONE,
    optional(INT),
    optional(STR),
]
_CONSTANT = (TIMEZONE, PATTERN, NONE)
"""Types of arguments that are constants only."""
_TIMES = {DATETIME: "datetime.fromtimestamp({0}, UTC)", DATE: "date.fromisoformat({0})"}
_MADE_OF = {DATETIME: INT, DATE: STR, HASH: BYTES}
_MOST_SHOWN = 9
TITLES = {
    "operators": "Operators", "numbers": "Numbers", "text": "Text", "regular expressions": "Regular expressions",
    "bytes and hashes": "Bytes and hashes", "times": "Dates and times", "items": "Lists",
}  # fmt: skip


def template(rule: OperationRule, count: int) -> str:
    """Return how a program writes a call with so many arguments; nothing, if it cannot."""
    places = [f"{{{place}}}" for place in range(count)]
    if rule.written:
        return rule.written.replace("{args}", ", ".join(places))
    if rule.group and (rule.builtin or rule.target is not None):
        return f"{rule.name}({', '.join(places)})"
    return f"{{0}}.{rule.method}({', '.join(places[1:])})" if rule.group and rule.method else ""


def signatures(rule: OperationRule) -> dict[tuple[Type, ...], Type]:
    """Return the types that a row takes: of a rule that finds them out, for some of all types."""
    found = {**{(kind,): kind for kind in rule.keeps}, **rule.native, **rule.signatures}
    if rule.infer is not None and template(rule, 1):
        places = re.findall(r"\{(\d)\}", template(rule, 1))
        counts = {int(max(places, default="0")) + 1} | ({2} if rule.name == "sum" else set())
        for types in itertools.chain.from_iterable(itertools.product(_SAMPLES, repeat=count) for count in counts):
            result = rule.infer(types)
            if result is not None:
                found.setdefault(types, result)
    if rule.name in ("max at", "min at"):  # it gives the place of the item
        found = {types: types[0].element for types in found}  # type: ignore[union-attr]
    if rule.name == "sorted by":
        found = {types: result for types, result in found.items() if types[0] == types[1]}
    return {types: result for types, result in found.items() if template(rule, len(types))}


def written_rows() -> list[OperationRule]:
    """Return the rows that a program can write."""
    return [rule for rule in TABLE if signatures(rule)]


class Case(NamedTuple):
    """A function of a record, whose fields have these types, and what the table says of its result."""

    source: str
    types: tuple[Type, ...]
    space: dict[str, Any]
    result: Type


def cases(rule: OperationRule) -> Iterator[Case]:
    """Yield the cases of a row: each signature with columns, with each constant that it has, and with times that are arrays."""
    for types, result in signatures(rule).items():
        choices = [_arguments(rule, place, kind) for place, kind in enumerate(types)]
        for chosen in itertools.product(*choices):
            case = _case(template(rule, len(types)), types, chosen, result)
            if case.types:
                yield case


def _arguments(rule: OperationRule, place: int, kind: Type) -> list[Any]:
    constants = [(each,) for each in rule.constants.get(place, ()) if _fits(each, kind)]
    if kind in _CONSTANT:
        return constants or [(None,)]
    return [None, *constants, *(["array"] if kind in _TIMES else [])]


def _fits(value: Any, kind: Type) -> bool:
    known = {PATTERN: re.Pattern, TIMEZONE: dates.timezone, INT: int, STR: str, NONE: type(None), BOOL: bool}
    return isinstance(kind, Atomic) and type(value) is known.get(kind)


def _case(written: str, types: tuple[Type, ...], chosen: tuple[Any, ...], result: Type) -> Case:
    fields: list[Type] = []
    space, texts = dict(SPACE), []
    for kind, how in zip(types, chosen, strict=True):
        if isinstance(how, tuple):
            name = f"K{len(space)}"
            space[name] = how[0]
            texts.append(repr(how[0]) if type(how[0]) in (int, str, bool, type(None)) else name)
            continue
        field = f"r[{len(fields)}]"
        made = _TIMES[kind].format(field) if how == "array" else f"hashlib.md5({field})" if kind == HASH else field
        fields.append(_MADE_OF[kind] if how == "array" or kind == HASH else kind)  # type: ignore[index]
        texts.append(made)
    text = written.format(*texts)
    if result == optional(MATCH):
        text = f"({text}) is not None"
    return Case(f"lambda r: {text}{'.hexdigest()' if result == HASH else ''}", tuple(fields), space, result)


HEAD = """\
# Python on columns

The operations that functions may use and still [run on columns](../guide/vectorized.md): operators, built-in functions,
methods, functions of the library. Bools count as ints where a line has no bools. *Arrays* says whether whole blocks are computed
at once, without a call for each value: for most values, or for all. Where Python's result could be another, and wherever there
is no mark, Python's own function is called for each value. What an operation raises, it raises for its record.

Lists of `int`, `float`, `str` and `bool` are examples: items may be records too where nothing compares or adds them.

This page is written by `scripts/gen_reference.py`, out of the table that functions are read by.
"""


def page() -> str:
    """Return the page of all operations."""
    parts = [HEAD]
    for group, title in TITLES.items():
        parts.append(f"\n## {title}\n\n| written | types | arrays |\n|---|---|---|\n")
        parts += [_line(rule) for rule in written_rows() if rule.group == group]
    rows = [rule.name for rule in TABLE if rule.builtin and not signatures(rule)]
    others = ", ".join(f"`{name}`" for name in [*rows, *(name for name in LOWERED if TABLE.find(name) is None)])
    return "".join([*parts, f"\n## Others\n\nThese become other operations when a function is read: {others}.\n"])


def _line(rule: OperationRule) -> str:
    of_results: dict[str, list[str]] = {}
    for types, result in signatures(rule).items():
        of_results.setdefault(str(result), []).append(", ".join(map(str, types)))
    told = "<br>".join(
        f"{'; '.join(each[:_MOST_SHOWN])}{'; ...' * (len(each) > _MOST_SHOWN)}: **{result}**"
        for result, each in of_results.items()
    )
    count = max(map(len, signatures(rule)))
    names = "xyzw"
    text = template(rule, count).format(*names).replace("|", "\\|")
    text = text[1:-1] if text.startswith("(") else text
    some = any((rule.native, rule.keeps, rule.texts, rule.numbers, rule.times, rule.lists))
    every = rule.native and not rule.signatures and rule.infer is None
    return f"| `{text}` | {told} | {'all' if every else 'most' if some else ''} |\n"
