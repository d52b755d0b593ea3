"""What is on the stack of a function that is read, besides expressions."""

from __future__ import annotations

from typing import Any

from funken.columnar.expressions import Argument, Constant, Expression, Invoke, Listed, NotVectorizable, Unpacked


class Marker:
    """What is on the stack besides expressions."""

    def __init__(self, kind: str, name: str = "", value: Any = None) -> None:
        self.kind = kind
        self.name = name
        self.value = value
        #: a list as an expression: the same one each time, as it is one object
        self.listed: Expression | None = None


class Method(Marker):
    """A method of a marker that does something: what calls it, is read by who knows its ``kind``."""


class Outside(Marker):
    """A value from outside of the function: ``kind`` and ``name`` are those of the dependency that it becomes when used."""


def said(found: Outside) -> str:
    """Return how a message names a value."""
    if found.kind == "attribute":
        return f"self.{found.name}"
    if found.kind == "global":
        return f"the global {found.name!r}"
    return f"the variable {found.name!r} of an enclosing function"


def expression_on(found: Any) -> Expression:
    """Return what is on a stack as an expression; raise ``NotVectorizable`` if it is none."""
    if isinstance(found, Expression):
        return found
    if isinstance(found, Marker) and found.kind == "list":
        if found.listed is None:
            items = tuple(found.value)
            unpacks = any(isinstance(each, Unpacked) for each in items)
            found.listed = Invoke("display", items) if unpacks else Listed(items)
        return found.listed
    if isinstance(found, Marker) and found.name:
        raise NotVectorizable(f"uses {found.name}")
    raise NotVectorizable("calls a function")


DISPLAY = "display"
"""The kind of a marker for the iterator of a display: its value are the items that are left."""


def dropping(dropped: tuple[Expression, ...], value: Any) -> tuple[Expression, ...]:
    """Return what was evaluated and dropped, with one more value; of a list or set with its items."""
    if isinstance(value, Marker) and value.kind == "list":
        for each in value.value:
            dropped = dropping(dropped, Invoke("display", (each,)) if isinstance(each, Unpacked) else each)
    if isinstance(value, Marker) and value.kind == "set":
        value = value.value
    if not isinstance(value, Expression) or is_pure(value) or any(value is each for each in dropped):
        return dropped
    return (*dropped, value)


def is_pure(expression: Expression) -> bool:
    """Whether evaluating an expression does nothing, whatever its arguments are."""
    return isinstance(expression, Argument | Constant)


__all__ = ["DISPLAY", "Marker", "Method", "Outside", "dropping", "expression_on", "said"]
