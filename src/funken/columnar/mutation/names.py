"""The names of dicts, where they are known as a function is read: loops over a dict are loops over a display then."""

from __future__ import annotations

from collections.abc import Container
from collections.abc import Sequence as Several
from typing import Any

from funken.columnar.expressions import (
    Argument,
    Binary,
    Compare,
    Constant,
    Contains,
    Expression,
    GetItem,
    Invoke,
    IsNone,
    Make,
    MakeRecord,
    NotVectorizable,
    Sequence,
    Text,
    Unary,
    Unpacked,
)
from funken.expr.python.table import TABLE
from funken.expr.types import DICT, Record, Type

CHANGED, UPDATED, SET, WITHOUT = "changed", "updated", "attribute set", "without"
"""Forms of ``MakeRecord``: its last part, an ``Unpacked``, with an item set, items updated, an attribute set, or less an item."""
VIEWS = ("items", "keys", "values")
_TESTS = (".startswith", ".endswith", "str.startswith", "str.endswith")


def names_of(found: Any, schema: Type | None) -> tuple[str, ...] | None:
    """Return the names of a dict, in order; ``None`` if they are not known. ``schema`` is that of the first argument.

    >>> from funken.expr.types import INT, STR
    >>> names_of(Argument(0), Record((INT, STR), DICT, ("n", "user")))
    ('n', 'user')
    """
    match found:
        case MakeRecord(form, names) if form in (DICT, CHANGED, UPDATED):
            first = 0 if form == DICT else -1  # of a changed one, what was there before stands last
            known: list[str] = []
            for name, each in (*zip(names[first:], found.items[first:]), *zip(names[:first], found.items[:first])):  # noqa: B905
                inner = names_of(each.record, schema) if isinstance(each, Unpacked) else (str(name),)
                if inner is None:
                    return None
                known += [new for new in inner if new not in known]
            return tuple(known)
        case MakeRecord(form, (name, *_), (Unpacked(record), *_)) if form == WITHOUT:
            before = names_of(record, schema)
            return None if before is None else tuple(each for each in before if each != name)
        case Invoke(".copy", (record,)):
            return names_of(record, schema)
    at = _schema_at(found, schema)
    return at.names if isinstance(at, Record) and at.form == DICT else None


def _schema_at(found: Any, schema: Type | None) -> Any:
    match found:
        case Argument(0, ()):
            return schema
        case GetItem(record, str() as name, None):
            outer = _schema_at(record, schema)
            position = outer.position(name) if isinstance(outer, Record) else None
            return None if position is None else outer[position]
    return None


def view_of(record: Expression, names: Several[str], what: str) -> Make:
    """Return the items, keys or values of a dict as a display."""
    if what == "keys":
        return Make(tuple(map(Constant, names)))
    values = [GetItem(record, name) for name in names]
    if what == "values":
        return Make(tuple(values))
    return Make(tuple(Make((Constant(name), value)) for name, value in zip(names, values, strict=True)))


def text_of(key: Any) -> str | None:
    """Return the text that is put together of constants; ``None`` if something else is in it."""
    match key:
        case Constant(str() as text):
            return text
        case Binary("+", left, right):
            parts = [text_of(left), text_of(right)]
        case Text(items):
            parts = [text_of(each) for each in items]
        case _:
            return None
    return None if None in parts else "".join(map(str, parts))


def dict_of(pairs: Several[Any]) -> MakeRecord:
    """Return the dict that a comprehension makes of pairs; raise ``NotVectorizable`` if a key is not constant."""
    names, values = [], []
    for each in pairs:
        pair = each.result if isinstance(each, Sequence) else each
        name = text_of(pair.items[0]) if isinstance(pair, Make) else None
        if name is None or not isinstance(pair, Make):
            raise NotVectorizable("makes a dict of items")
        names.append(name)
        values.append(Sequence(each.before, pair.items[1]) if isinstance(each, Sequence) else pair.items[1])
    return MakeRecord(DICT, tuple(names), tuple(values))


def known_truth(condition: Expression, present: Container[Expression] = ()) -> bool | None:
    """Return whether a condition of constants is true; ``None`` if it depends on the record.

    ``present`` are arguments that are not ``None``.

    >>> known_truth(Compare("!=", Constant("url"), Constant("user"))), known_truth(Compare("<", Argument(0), Constant(1)))
    (True, None)
    """
    match condition:
        case Unary("not", operand):
            known = known_truth(operand, present)
            return None if known is None else not known
        case Unary("bool", operand):
            return known_truth(operand, present)
        case Constant(value):
            return bool(value)
        case IsNone(Constant(value)):
            return value is None
        case IsNone(Argument() as operand) if operand in present:
            return False
        case Compare(op, Constant(str() as left), Constant(str() as right)):
            return bool(TABLE[op].function(left, right))
        case Contains(Constant(str() as part), Constant(list() | set() | frozenset() | str() as whole)):
            return part in whole
        case Contains(Constant(str() as part), Make(items)) if all(isinstance(each, Constant) for each in items):
            return any(isinstance(each, Constant) and each.value == part for each in items)
        case Invoke(name, (Constant(str() as text), Constant(str() as part))) if name in _TESTS:
            return text.startswith(part) if name.endswith("startswith") else text.endswith(part)
    return None


__all__ = ["CHANGED", "SET", "UPDATED", "VIEWS", "WITHOUT", "dict_of", "known_truth", "names_of", "text_of", "view_of"]
