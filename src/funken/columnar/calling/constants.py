"""Values from outside of a function that is read, as the constants that they are."""

from __future__ import annotations

import abc
import copy
from dis import get_instructions
from types import FunctionType
from typing import Any

from funken.columnar.dependencies import attribute_of
from funken.columnar.expressions import Constant, Expression, Make, NotVectorizable, is_text
from funken.columnar.typed.tables import table_schema
from funken.expr.python.objects import is_pattern, is_table, kind_of_object
from funken.expr.types import HIGHEST, LOWEST


def constant_of(value: Any) -> Expression:
    """Return a constant as an expression; raise ``NotVectorizable`` if there is none for it."""
    if type(value) in (tuple, frozenset):
        return Make(tuple(constant_of(item) for item in value))
    if type(value) in (int, float, bool, str):
        if (type(value) is int and not LOWEST <= value <= HIGHEST) or (type(value) is str and not is_text(value)):
            raise NotVectorizable(f"uses {value!r}, which no column can hold")
        return Constant(value)
    if type(value) in (list, set) and all(type(item) in (int, str) for item in value) and len(value) <= 1000:
        return Constant(value.copy())  # to look something up in it
    if kind_of_object(value) is not None or is_pattern(value):
        return Constant(value)
    if is_table(value):
        return Constant(dict(value))
    if table_schema(value) is not None:
        return Constant(copy.deepcopy(value))
    raise NotVectorizable(f"uses {article(value)}")


def article(value: Any) -> str:
    """Return the type of a value as a message names it."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def tests_bases(cls: type) -> bool:
    """Return True if ``isinstance`` looks for a class among the bases of a value's class, and asks nobody.

    >>> import collections.abc
    >>> tests_bases(int), tests_bases(collections.abc.Sized), tests_bases(abc.ABC)
    (True, True, False)
    """
    if type(cls) is type:
        return True
    # A class of the program may have a hook, or be registered later.
    return type(cls) is abc.ABCMeta and cls.__module__ in ("collections.abc", "numbers")


def kept_attribute(target: Any, name: str) -> Any:
    """Return an attribute of an object that no method but ``__init__`` sets; raise ``NotVectorizable`` if it is no such thing."""
    found = None if target is None else attribute_of(target, name)
    if found is None:
        raise NotVectorizable(f"uses self.{name}")
    for cls in type(target).__mro__:
        for method, function in vars(cls).items():
            if method == "__init__" or not isinstance(function, FunctionType) or name not in function.__code__.co_names:
                continue
            if any(each.opname == "STORE_ATTR" and each.argval == name for each in get_instructions(function)):
                raise NotVectorizable(f"uses self.{name}, which {method}() sets")
    return found[0]


__all__ = ["article", "constant_of", "kept_attribute"]
