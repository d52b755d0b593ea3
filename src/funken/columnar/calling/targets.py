"""Functions that are none of Python, and are known by what they are: ``str.lower``, ``itemgetter("user")``, ``len``."""

from __future__ import annotations

import builtins
import operator
from functools import reduce
from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any, cast

from funken.columnar.expressions import Argument, Attribute, Expression, GetItem, Invoke, Make
from funken.columnar.writing.json_texts import call_of
from funken.expr.python.json_values import JsonOptions
from funken.expr.python.table import DUMPS, TABLE


def known_target(target: Any) -> Expression | None:
    """Return what a function computes of its one argument; ``None`` if it is not known, or one of Python.

    >>> known_target(operator.itemgetter("user")), known_target(str.lower), known_target(print)
    (GetItem(record=Argument(argument=0, path=()), index='user', of=None),
     Invoke(name='.lower', arguments=(Argument(argument=0, path=()),)), None)
    """
    record = Argument(0)
    if type(target) in (type, BuiltinFunctionType):
        name = target.__name__
        row = TABLE.find(name) if getattr(builtins, name, None) is target else None
        if row is not None and row.builtin and 1 in row.counts():
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
    library = TABLE.name_of(target)
    if library == DUMPS:
        return call_of(record, JsonOptions())
    row = None if library is None else TABLE[library]
    return Invoke(row.name, (record,)) if row is not None and (1 in row.counts() or not row.signatures) else None


def _one_or_all(found: list[Any]) -> Expression:
    first: Expression = found[0]
    return first if len(found) == 1 else Make(tuple(found))


__all__ = ["known_target"]
