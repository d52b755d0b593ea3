"""Operators by name: a spec says which logic runs it without importing it.

Specs travel in plans and are read on the driver; logics are imported where they run, and some of them load NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


def late_operator(kind: type[T], name: str, *arguments: Any) -> T:
    """Import ``module:class``, which is a ``kind``, and make one.

    >>> late_operator(int, "builtins:bool", 1)
    True
    """
    module, _, made = name.partition(":")
    operator = getattr(import_module(module), made)(*arguments)
    assert isinstance(operator, kind)
    return operator
