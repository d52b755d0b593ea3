"""What is asked of lists in expressions, once the schema of their items is known: items, loops over them, what they come to."""

from __future__ import annotations

from collections.abc import Callable

from funken.columnar.expressions import Argument, At, Constant, Expression, Listed, Loop, NotVectorizable, Rowwise
from funken.columnar.typed.operations import Typed, operated
from funken.expr.python.items import EMPTY, element_of
from funken.expr.types import BOOL, INT, STR, Atomic, ListOf, Type

_EACH = -1
"""The number of the item in loops that are made here; those of functions have others, from ``FIRST_ITEM`` on."""
FIRST_ITEM = 100
DISTINCT = {"len": "count distinct", "sorted": "sorted distinct"}
"""What may be asked of a set, and what that is of the list that it is made of."""


def listed(items: list[Typed]) -> Typed:
    """Return a display; raise ``NotVectorizable`` if its items are not of one schema."""
    schemas = [schema for _, schema in items]
    if not items:
        return Listed((), EMPTY.element), EMPTY
    if any(schema != schemas[0] for schema in schemas):
        raise NotVectorizable(f"makes a list of {' and '.join(dict.fromkeys(map(str, schemas)))}")
    return Listed(tuple(made for made, _ in items), schemas[0]), ListOf(schemas[0])


def both_lists(one: Typed, other: Typed) -> tuple[Typed, Typed]:
    """Return two results of which one is an empty list as lists of the same schema; anything else as it is."""
    if one[1] == EMPTY and isinstance(one[0], Listed) and (element := element_of(other[1])) is not None:
        return (Listed((), element), other[1]), other
    if other[1] == EMPTY and one[1] != EMPTY:
        return both_lists(other, one)[::-1]
    return one, other


def joined_lists(one: Typed, other: Typed) -> Typed:
    """Return two lists in one; raise ``NotVectorizable`` if their items are not of one schema."""
    one, other = both_lists(one, other)
    if one[1] == other[1] == EMPTY:
        return one
    joined = operated("joined", [one, other])
    if joined is None:
        raise NotVectorizable(f"joins {one[1]} and {other[1]}")
    return joined


def of_nothing(name: str) -> Typed:
    """Return what ``sum`` and the like make of an empty display."""
    if name not in ("sum", "any", "all", "list", "sorted"):
        raise NotVectorizable(f"calls {name}() with nothing")
    if name in ("list", "sorted"):
        return listed([])
    return Constant({"sum": 0, "any": False, "all": True}[name]), INT if name == "sum" else BOOL


def item_of_list(made: Expression, schema: ListOf, index: Typed, of: int | None) -> Typed:
    """Return an item of lists, or of lists that have to have ``of`` items."""
    element = element_of(schema)
    if element is None:
        raise NotVectorizable(f"takes an item of {schema}")
    if of is not None:
        if not isinstance(element, Atomic) or not isinstance(index[0], Constant):
            raise NotVectorizable(f"unpacks {of} values from {schema}")
        return Rowwise("unpack", (made, Constant(of), index[0]), element), element
    if index[1] != INT:
        raise NotVectorizable(f"takes an item of {schema}")
    if element == STR:
        return Rowwise("item", (made, index[0]), STR), STR  # of the parts of a text there are kernels for some
    return At(made, index[0]), element


def over_list(name: str, found: list[Typed], truth: Callable[[Expression, Type], Expression]) -> Typed:
    """Return what ``sum``, ``sorted`` and the like make of lists; raise ``NotVectorizable``."""
    (made, schema), *others = found
    element = element_of(schema)
    if name in ("any", "all") and not others and element is not None:
        found = [(Loop(made, _EACH, (), truth(Argument(_EACH), element), BOOL), ListOf(BOOL))]
    if name == "list" and not others:
        return made, schema
    return called_with(name, found)


def called_with(name: str, found: list[Typed]) -> Typed:
    """Return a call of a function; raise ``NotVectorizable`` if the table has none for such arguments."""
    made = operated(name, found)
    if made is None:
        types = ", ".join(str(each) for _, each in found)
        raise NotVectorizable(f"calls {name.partition(' ')[0]}() with {types or 'nothing'}")
    return made


__all__ = [
    "DISTINCT",
    "FIRST_ITEM",
    "both_lists",
    "called_with",
    "item_of_list",
    "joined_lists",
    "listed",
    "of_nothing",
    "over_list",
]
