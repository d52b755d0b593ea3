"""``json.dumps`` of records whose fields are known: texts put together of the names, and of what the values are in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from funken.columnar.expressions import (
    Choose,
    Constant,
    Expression,
    Invoke,
    Listed,
    Make,
    MakeRecord,
    NotVectorizable,
    Rowwise,
    Text,
)
from funken.columnar.records import has_documents
from funken.columnar.typed.values import Typed, is_none, project
from funken.expr.python.objects import DATE, DATETIME, DECIMAL, TIMEDELTA
from funken.expr.python.table import DUMPS
from funken.expr.python.texts import JsonOptions, value_as_json
from funken.expr.types import BOOL, DICT, FLOAT, INT, NAMED_TUPLE, NONE, NUMBER, STR, Atomic, ListOf, Record

_AS_TEXT = (DATETIME, DATE, TIMEDELTA, DECIMAL)
"""Kinds of which ``default=str`` makes text."""


def options_of(names: Sequence[str], given: Sequence[Any]) -> JsonOptions:
    """Return the options that a call has by name; raise ``NotVectorizable`` for other options."""
    found: dict[str, Any] = {}
    for name, value in zip(names, given, strict=True):
        if name in ("ensure_ascii", "sort_keys") and isinstance(value, Constant) and type(value.value) is bool:
            found[name] = value.value
        elif name == "separators" and isinstance(value, Make) and len(value.items) == 2:
            separators = [each.value if isinstance(each, Constant) else None for each in value.items]
            if not all(type(each) is str for each in separators):
                raise NotVectorizable("calls json.dumps() with separators that are not constant")
            found |= dict(zip(("item", "key"), separators, strict=True))
        elif name == "default" and getattr(value, "kind", "") == "builtin" and value.name == "str":
            found["default_str"] = True
        else:
            raise NotVectorizable(f"calls json.dumps() with {name}")
    return JsonOptions(**found)


def call_of(value: Expression, options: JsonOptions) -> Expression:
    """Return the call as it is traced: displays of lists are tuples, whose items may be of several types."""
    return Invoke(DUMPS, (_as_tuples(value), Constant(options)))


def _as_tuples(value: Expression) -> Expression:
    match value:
        case Listed(items) | Make(items) if items:
            return Make(tuple(map(_as_tuples, items)))
        case MakeRecord():
            return replace(value, items=tuple(map(_as_tuples, value.items)))
    return value


def dumped(found: Typed, options: JsonOptions) -> Typed:
    """Return the text of a value as kernels compute it; raise ``NotVectorizable``."""
    parts: list[Expression] = []
    for each in _parts(found, options):
        last = parts[-1].value if parts and isinstance(parts[-1], Constant) else None
        if isinstance(each, Constant) and type(each.value) is type(last) is str:
            parts[-1] = Constant(last + each.value)
        else:
            parts.append(each)
    return Text(tuple(parts)), STR


def _parts(found: Typed, options: JsonOptions) -> list[Expression]:
    made, schema = found
    if isinstance(schema, Atomic):
        return [_single(made, schema, options)]
    names: list[str] | None = None
    if isinstance(schema, Record) and schema.form != NAMED_TUPLE:
        if schema.form != DICT or has_documents(schema):
            raise NotVectorizable(f"calls json.dumps() with {schema}")
        names = sorted(schema.names) if options.sort_keys else list(schema.names)
    count = len(schema)
    order = [schema.names.index(each) for each in names] if isinstance(schema, Record) and names else range(count)
    parts: list[Expression] = [Constant("[" if names is None else "{")]
    for place, number in enumerate(order):
        name = "" if names is None else f"{value_as_json(names[place], options)}{options.key}"
        parts += [Constant(f"{options.item if place else ''}{name}"), *_parts(project(found, number), options)]
    return [*parts, Constant("]" if names is None else "}")]


def _single(made: Expression, kind: Atomic, options: JsonOptions) -> Expression:
    if kind == NONE:
        return Constant("null")
    if isinstance(kind.required, ListOf) or kind == NUMBER:
        if has_documents(kind):
            raise NotVectorizable(f"calls json.dumps() with {kind}")
        return Rowwise("json value", (made, Constant(options)), STR)
    if kind.is_optional:
        there = kind.required
        text = _single(Rowwise("not none", (made,), there), there, options)
        return Choose(is_none(made), Constant("null"), text if there != INT else Invoke("str", (text,)), lazy=True)
    if kind == INT:
        return made
    if kind == BOOL:
        return Choose(made, Constant("true"), Constant("false"))
    if kind == FLOAT:
        return Rowwise("json float", (made,), STR)
    if kind in _AS_TEXT and options.default_str:
        made, kind = Rowwise("str", (made,), STR), STR
    if kind != STR:
        raise NotVectorizable(f"calls json.dumps() with a {kind}")
    return Rowwise("json ascii" if options.ensure_ascii else "json text", (made,), STR)


__all__ = ["call_of", "dumped", "options_of"]
