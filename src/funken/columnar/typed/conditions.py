"""Conditions: ``in``, ``not``, and what is known not to be ``None`` where they are true."""

from __future__ import annotations

from collections.abc import Callable

from funken.columnar.expressions import (
    Choose,
    Compare,
    Constant,
    Contains,
    Expression,
    IsNone,
    Make,
    NotVectorizable,
    Rowwise,
    TypeTest,
    Unary,
)
from funken.columnar.typed import values as fields
from funken.columnar.typed.operations import operated
from funken.columnar.typed.tables import is_record_table
from funken.columnar.typed.values import Typed, after, kind_of_constant
from funken.expr.python.objects import is_table
from funken.expr.types import ARRAYS, BOOL, INT, NONE, STR, Atomic, optional

_Of = Callable[[Expression], Typed]
_MOST_COMPARED = 16
"""A value is compared with so many constants at most, one after the other."""


def contained(needle: Expression, container: Expression, of: _Of) -> Expression:
    """Return where a value is in a container."""
    made, kind = of(needle)
    items: list[Expression] | None = None
    if isinstance(container, Make):
        items = [of(item)[0] for item in container.items]
    elif isinstance(container, Constant) and type(container.value) in (list, set, frozenset):
        items = [Constant(value) for value in container.value]
    elif isinstance(container, Constant) and is_table(container.value) and kind in ARRAYS:
        return Rowwise("in", (made, container), BOOL)
    if items is not None:
        kinds = {kind_of_constant(item.value) for item in items if isinstance(item, Constant)}
        constant = all(isinstance(item, Constant) for item in items)
        if not items:
            return after([made], Constant(False))
        if constant and kinds == {kind} and kind in (INT, STR) and len(items) <= _MOST_COMPARED:
            return Contains(made, Make(tuple(items)))
        if constant and kind in (INT, STR, optional(INT), optional(STR)) and kinds <= {*ARRAYS, NONE}:
            values = frozenset(item.value for item in items if isinstance(item, Constant))
            return Rowwise("in", (made, Constant(values)), BOOL)
        raise NotVectorizable("tests with 'in' something else than constants")
    if is_record_table(container) and kind in (INT, STR):
        return Rowwise("in", (made, Constant(frozenset(container.value))), BOOL)  # type: ignore[attr-defined]
    text, schema = of(container)
    if kind == schema == STR and isinstance(made, Constant):
        return Contains(made, text)
    found = operated("in", [(made, kind), (text, schema)])
    if found is not None:
        return found[0]
    if isinstance(made, Constant) and not isinstance(schema, Atomic):
        return after([text], Constant(fields.has_key(schema, made.value)))
    raise NotVectorizable("tests with 'in' something else than constants")


def negated(condition: Expression) -> Expression:
    """Return where a condition is not true."""
    match condition:
        case Constant(value):
            return Constant(not value)
        case Unary("not", operand):
            return operand
    return Unary("not", condition)


def present(condition: Expression) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """Return what is not ``None`` where a condition is true, and where it is not."""
    match condition:
        case IsNone(operand):
            return (), (operand,)
        case Unary("not", operand):
            return present(operand)[::-1]
        case Unary("bool", operand):
            return present(operand)
        case TypeTest(operand, classes) if type(None) not in classes and object not in classes:
            return (operand,), ()
        case Compare() | Contains() | Choose() | Constant():
            return (), ()
    return (condition,), ()


__all__ = ["contained", "negated", "present"]
