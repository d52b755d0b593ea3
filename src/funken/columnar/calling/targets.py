"""Functions that are none of Python, and are known by what they are: ``str.lower``, ``itemgetter("user")``, ``len``."""

from __future__ import annotations

import operator
from functools import reduce
from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any, cast

from funken.columnar.expressions import Argument, Attribute, Expression, GetItem, Invoke, Make
from funken.columnar.library import name_of
from funken.columnar.typed.documents import LOADS
from funken.columnar.writing.json_texts import DUMPS, call_of
from funken.columnar.writing.json_values import JsonOptions

_OF_ONE: dict[str, Any] = {
    "abs": abs, "bool": bool, "float": float, "int": int, "len": len, "repr": repr, "str": str, "tuple": tuple,
}  # fmt: skip


def known_target(target: Any) -> Expression | None:
    """Return what a function computes of its one argument; ``None`` if it is not known, or one of Python.

    >>> known_target(operator.itemgetter("user")), known_target(str.lower), known_target(print)
    (GetItem(record=Argument(argument=0, path=()), index='user', of=None),
     Invoke(name='.lower', arguments=(Argument(argument=0, path=()),)), None)
    """
    record = Argument(0)
    if type(target) in (type, BuiltinFunctionType):
        for name, known in _OF_ONE.items():
            if target is known:
                return Invoke(name, (record,))
    if type(target) is MethodDescriptorType and target.__objclass__ is str:
        return Invoke(f".{target.__name__}", (record,))
    if type(target) is operator.itemgetter:
        keys = target.__reduce__()[1]
        if all(type(key) in (int, str) for key in keys):
            return _one_or_all([GetItem(record, key) for key in keys])
    if type(target) is operator.attrgetter:
        names = target.__reduce__()[1]
        return _one_or_all([reduce(Attribute, str(name).split("."), cast("Any", record)) for name in names])
    library = name_of(target)
    if library == LOADS:
        return Invoke(LOADS, (record,))
    return call_of(record, JsonOptions()) if library == DUMPS else None


def _one_or_all(found: list[Any]) -> Expression:
    first: Expression = found[0]
    return first if len(found) == 1 else Make(tuple(found))


__all__ = ["known_target"]
