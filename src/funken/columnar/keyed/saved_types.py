"""Types in blocks that the version before has written: texts, tuples of these, and classes of other names."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from typing import Any

from funken.expr.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    NOTHING,
    NUMBER,
    STR,
    Atomic,
    ListOf,
    Object,
    Optional,
    Record,
    Tuple,
    Type,
)

_NAMED: dict[str, Atomic] = {each.name: each for each in (INT, FLOAT, BOOL, STR, NONE, NUMBER, NOTHING)}


def loads(data: Any) -> Any:
    """Unpickle the parts of a block, and make types of what stood for them."""
    length, schema, leaves, *rest = _Unpickler(io.BytesIO(data)).load()
    return length, type_of(schema), list(map(_leaf, leaves)), *rest


def type_of(saved: Any) -> Type:
    """Return a type as it is now.

    >>> type_of(("int", "str?")), type_of("datetime")
    ((int, str?), datetime)
    """
    if isinstance(saved, str):
        single = saved.removesuffix("?")
        found = _NAMED.get(single, Object(single))
        return Optional(found) if saved.endswith("?") else found
    return Tuple(map(type_of, saved)) if type(saved) is tuple else saved


def _leaf(written: tuple[Any, ...]) -> tuple[Any, ...]:
    kind, bounds, data = written
    if type(data) is list:  # the parts of a text
        data = [part if isinstance(part, str) else _leaf(part) for part in data]
    elif type(data) is tuple and data[0] == "L" and data[2] is not None:
        data = (*data[:2], list(map(_leaf, data[2])))
    return type_of(kind), bounds, data


def _list_of(element: Any, *, missing: bool = False, read: frozenset[int] | None = None) -> Atomic:
    found = ListOf(type_of(element), read=read)
    return Optional(found) if missing else found


def _record(types: Iterable[Any], form: str, names: tuple[str, ...], cls: type | None = None) -> Record:
    return Record(map(type_of, types), form, names, cls)


_CLASSES = {
    ("funken.columnar.expressions", "ListOf"): _list_of,
    ("funken.columnar.records", "NamedFields"): _record,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _CLASSES.get((module, name)) or super().find_class(module, name)


__all__ = ["loads", "type_of"]
