"""Data classes as keys: which of their fields are compared and hashed, and whether that is all that makes them equal.

Those of ``dataclasses``, and of the library ``attrs``.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from types import CodeType
from typing import Any

from funken.dataclass import dataclass

_ATTRS = "__attrs_attrs__"


@cache
def has_generated_eq(kind: Any) -> bool:
    """Return True if objects of a class are equal as ``dataclasses`` says: of one class, with equal fields.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Point:
    ...     x: int
    >>> @dataclasses.dataclass(frozen=True)
    ... class Name:
    ...     text: str
    ...     def __eq__(self, other):
    ...         return self.text.lower() == other.text.lower()
    >>> has_generated_eq(Point), has_generated_eq(Name)
    (True, False)
    """
    owner = next(each for each in kind.__mro__ if "__eq__" in vars(each))
    code = getattr(owner.__eq__, "__code__", None)
    if _ATTRS in vars(owner) and code is not None:
        return code.co_filename.startswith("<attrs generated") and all(a.eq_key is None for a in getattr(owner, _ATTRS))
    if "__dataclass_fields__" not in vars(owner) or code is None:
        return False
    compared = [field.name for field in dataclasses.fields(owner) if field.compare]
    return any(_same(code, example) for example in (_standard(compared), _own()))


@cache
def key_fields(kind: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the fields of a data class that are hashed, and those that are compared."""
    if hasattr(kind, _ATTRS):
        fields = [(field.name, field.eq, field.hash) for field in getattr(kind, _ATTRS)]
    else:
        fields = [(field.name, field.compare, field.hash) for field in dataclasses.fields(kind)]
    return (
        tuple(name for name, compared, hashed in fields if (compared if hashed is None else hashed)),
        tuple(name for name, compared, _ in fields if compared),
    )


def _standard(compared: list[str]) -> CodeType:
    made: Any = dataclasses.make_dataclass("Example", [(name, object) for name in compared])
    code: CodeType = made.__eq__.__code__
    return code


def _own() -> CodeType:
    @dataclass(frozen=True)
    class Example:
        field: int

    example: Any = Example
    code: CodeType = example.__eq__.__code__
    return code


def _same(one: CodeType, other: CodeType) -> bool:
    return one.co_code == other.co_code and one.co_names == other.co_names and one.co_consts == other.co_consts
