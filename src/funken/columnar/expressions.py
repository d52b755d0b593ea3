"""What a function computes, as a tree over the fields of its arguments; and the shapes of records and results.

A *schema* is the exact Python type of a record: ``"int"``, ``"float"``, ``"bool"`` or ``"str"``, or a tuple of
shapes for a tuple. Expressions are plain data: they travel in the plan and are compared in tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from funken.errors import FunkenError

RecordSchema: TypeAlias = "str | tuple[RecordSchema, ...]"
"""``"int"``, ``"float"``, ``"bool"``, ``"str"``, or a tuple of shapes."""

INT, FLOAT, BOOL, STR = "int", "float", "bool", "str"
LOWEST, HIGHEST = -(2**63), 2**63 - 1

_KINDS: dict[type, str] = {int: INT, float: FLOAT, bool: BOOL, str: STR}


class NotVectorizable(FunkenError):
    """A function or operator has to run record by record; the message has the reason."""


@dataclass(frozen=True)
class Expression:
    """Base of the nodes."""


@dataclass(frozen=True)
class Argument(Expression):
    """An argument (counted from 0), or a field of a field ... of it."""

    argument: int
    path: tuple[int, ...] = ()


@dataclass(frozen=True)
class Constant(Expression):
    """An int, float, bool or str."""

    value: Any


@dataclass(frozen=True)
class Binary(Expression):
    """``left op right``, arithmetic or bitwise."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Compare(Expression):
    """``left op right``, one of the six comparisons."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Unary(Expression):
    """``op operand``: ``-``, ``~``, ``not``, or ``bool`` for the truth of a value."""

    op: str
    operand: Expression


@dataclass(frozen=True)
class Choose(Expression):
    """``then if condition else otherwise``; also what ``and`` and ``or`` become."""

    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True)
class Make(Expression):
    """A tuple."""

    items: tuple[Expression, ...]


@dataclass(frozen=True)
class GetItem(Expression):
    """An item of a tuple; ``of`` is how many there have to be (``None``: at least enough)."""

    record: Expression
    index: int
    of: int | None = None


@dataclass(frozen=True)
class Contains(Expression):
    """``needle in container``: a text in a text, or a value in a tuple or set of constants."""

    needle: Expression
    container: Expression


@dataclass(frozen=True)
class Invoke(Expression):
    """A call of a built-in function or a method of str; for a method the text is the first argument."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Text(Expression):
    """An f-string without formats: its parts, one after the other."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Sequence(Expression):
    """``result``, after ``before`` were evaluated for what they may raise."""

    before: tuple[Expression, ...]
    result: Expression


def schema_of_value(value: Any) -> RecordSchema | None:
    """Return the shape of a record, ``None`` if it has none.

    >>> schema_of_value(("a", (1, 2.0))), schema_of_value([1]), schema_of_value(None)
    (('str', ('int', 'float')), None, None)
    """
    kind = type(value)
    if kind is int:
        return INT if LOWEST <= value <= HIGHEST else None
    if kind is str:
        return STR if is_text(value) else None
    if kind is tuple:
        shapes = [schema_of_value(item) for item in value]
        return tuple(schema for schema in shapes if schema is not None) if shapes and None not in shapes else None
    return _KINDS.get(kind)


def is_text(value: str) -> bool:
    """Whether a string has an encoding: lone surrogates have none."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def leaves_of(schema: RecordSchema, path: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], str]]:
    """Return the path and kind of every leaf, from left to right.

    >>> leaves_of(("str", ("int", "float")))
    [((0,), 'str'), ((1, 0), 'int'), ((1, 1), 'float')]
    """
    if isinstance(schema, str):
        return [(path, schema)]
    return [leaf for index, inner in enumerate(schema) for leaf in leaves_of(inner, (*path, index))]


def schema_repr(schema: RecordSchema) -> str:
    """Return a shape as a message shows it.

    >>> schema_repr(("str", ("int", "float")))
    '(str, (int, float))'
    """
    return (
        schema
        if isinstance(schema, str)
        else "(" + ", ".join(map(schema_repr, schema)) + ("," * (len(schema) == 1)) + ")"
    )
