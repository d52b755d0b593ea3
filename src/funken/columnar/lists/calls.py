"""What is asked of lists in expressions, once the schema of their items is known: items, loops over them, what they come to."""

from __future__ import annotations

from collections.abc import Callable

from funken.columnar.expressions import Argument, At, Constant, Expression, Listed, Loop, NotVectorizable, Rowwise
from funken.expr.types import BOOL, FLOAT, INT, NOTHING, STR, Atomic, ListOf, Tuple, Type

_Typed = tuple[Expression, Type]
_EACH = -1
"""The number of the item in loops that are made here; those of functions have others, from ``FIRST_ITEM`` on."""
FIRST_ITEM = 100
EMPTY = ListOf(NOTHING)
"""The kind of lists that are always empty."""
_ORDERED = (INT, FLOAT, STR)
DISTINCT = {"len": "count distinct", "sorted": "sorted distinct"}
"""What may be asked of a set, and what that is of the list that it is made of."""
FOLDS = ("total", "fold max", "fold min")
"""What becomes of a variable that a loop carries: functions of a list and what the variable had before."""


def element_of(schema: Type) -> Type | None:
    """Return the schema of the items of lists; ``None`` if it is not one of lists, or they may be ``None``.

    >>> from funken.expr.types import Optional
    >>> element_of(ListOf(INT)), element_of(STR), element_of(Optional(ListOf(INT)))
    (int, None, None)
    """
    return schema.element if isinstance(schema, ListOf) else None


def listed(items: list[_Typed]) -> _Typed:
    """Return a display; raise ``NotVectorizable`` if its items are not of one schema."""
    schemas = [schema for _, schema in items]
    if not items:
        return Listed((), EMPTY.element), EMPTY
    if any(schema != schemas[0] for schema in schemas):
        raise NotVectorizable(f"makes a list of {' and '.join(dict.fromkeys(map(str, schemas)))}")
    return Listed(tuple(made for made, _ in items), schemas[0]), ListOf(schemas[0])


def both_lists(one: _Typed, other: _Typed) -> tuple[_Typed, _Typed]:
    """Return two results of which one is an empty list as lists of the same schema; anything else as it is."""
    if one[1] == EMPTY and isinstance(one[0], Listed) and (element := element_of(other[1])) is not None:
        return (Listed((), element), other[1]), other
    if other[1] == EMPTY and one[1] != EMPTY:
        return both_lists(other, one)[::-1]
    return one, other


def joined_lists(one: _Typed, other: _Typed) -> _Typed:
    """Return two lists in one; raise ``NotVectorizable`` if their items are not of one schema."""
    one, other = both_lists(one, other)
    if one[1] == other[1] == EMPTY:
        return one
    if element_of(one[1]) is None or one[1] != other[1]:
        raise NotVectorizable(f"joins {one[1]} and {other[1]}")
    assert isinstance(one[1], ListOf)
    return Rowwise("joined", (one[0], other[0]), one[1]), one[1]


def of_lists(name: str, found: list[_Typed]) -> _Typed:
    """Return lists that are sorted by keys, or numbered, or where their best keys are; raise ``NotVectorizable``."""
    (made, schema), *others = found
    element = element_of(schema)
    if schema == EMPTY or element is None:
        raise NotVectorizable(f"calls {name.split(maxsplit=1)[0]}() with {schema}")
    if name == "enumerate":
        if others[0][1] != INT:
            raise NotVectorizable(f"calls enumerate() from {others[0][1]} on")
        kind = ListOf(Tuple((INT, element)))
        return Rowwise(name, (made, others[0][0]), kind), kind
    if name in ("max at", "min at"):
        if not _is_ordered(element):
            raise NotVectorizable(f"calls {name[:3]}() with a key that is {element}")
        return Rowwise(name, (made,), INT), INT
    (keys, of_keys), (reverse, truth) = others
    key = element_of(of_keys)
    if key is None or not _is_ordered(key) or truth != BOOL or not isinstance(reverse, Constant):
        raise NotVectorizable(f"sorts by {of_keys}")
    assert isinstance(schema, ListOf)
    return Rowwise(name, (made, keys, reverse), schema), schema


def _is_ordered(key: Type) -> bool:
    """Whether values have an order: of tuples with floats, it depends on whether these are the same objects."""
    if isinstance(key, Atomic):
        return key in (*_ORDERED, BOOL)
    return type(key) is Tuple and all(each in (INT, STR, BOOL) for each in key)


def of_nothing(name: str) -> _Typed:
    """Return what ``sum`` and the like make of an empty display."""
    if name not in ("sum", "any", "all", "list", "sorted"):
        raise NotVectorizable(f"calls {name}() with nothing")
    if name in ("list", "sorted"):
        return listed([])
    return Constant({"sum": 0, "any": False, "all": True}[name]), INT if name == "sum" else BOOL


def item_of_list(made: Expression, schema: ListOf, index: _Typed, of: int | None) -> _Typed:
    """Return an item of lists, or of lists that have to have ``of`` items."""
    element = element_of(schema)
    if element is None:
        raise NotVectorizable(f"takes an item of {schema}")
    if of is not None:
        if not isinstance(element, Atomic) or not isinstance(index[0], Constant):
            raise NotVectorizable(f"unpacks {of} values from {schema}")
        return Rowwise(f"unpack {of} {index[0].value}", (made,), element), element
    if index[1] != INT:
        raise NotVectorizable(f"takes an item of {schema}")
    if element == STR:
        return Rowwise("item", (made, index[0]), STR), STR  # of the parts of a text there are kernels for some
    return At(made, index[0]), element


def folded(name: str, found: list[_Typed]) -> _Typed:
    """Return what a variable has behind a loop, that it carries through the items of a list."""
    (made, schema), (start, before) = found
    element = element_of(schema)
    assert element is not None
    kinds = {INT if each == BOOL else each for each in (element, before)}
    numbers = kinds <= {INT, FLOAT}
    if not (name == "total" and numbers) and not (len(kinds) == 1 and element == before and element in _ORDERED):
        raise NotVectorizable(f"carries {before} through a loop over {element}")
    kind = FLOAT if FLOAT in kinds else INT if numbers else STR
    return Rowwise(name, (made, start), kind), kind


def over_list(name: str, found: list[_Typed], truth: Callable[[Expression, Type], Expression]) -> _Typed | None:
    """Return what ``sum``, ``sorted`` and the like make of lists; ``None`` if they are not given lists."""
    (made, schema), *others = found
    element = element_of(schema)
    if element is None:
        return None
    if name == "chain" and element_of(element) is not None:
        assert isinstance(element, Atomic)
        return Rowwise("chain", (made,), element), element
    if name in ("any", "all") and not others:
        each = truth(Argument(_EACH), element)
        return Rowwise(name, (Loop(made, _EACH, (), each, BOOL),), BOOL), BOOL
    if name == "sum":
        kind = INT if element == BOOL else element
        starts = [kind for _, kind in others]
        if kind in (INT, FLOAT) and (not others or starts in ([INT], [FLOAT])):
            result = FLOAT if FLOAT in (kind, *starts) else INT
            return Rowwise("sum", (made, *(each for each, _ in others)), result), result
    if name in ("min", "max", "sorted") and not others and element in _ORDERED:
        of_name: Atomic = ListOf(element) if name == "sorted" or not isinstance(element, Atomic) else element
        return Rowwise(name, (made,), of_name), of_name
    if name == "list" and not others:
        return made, schema
    if name in DISTINCT.values() and _is_ordered(element) and element != FLOAT:  # of nan, a set has each object once
        kind = INT if name == DISTINCT["len"] else ListOf(element)
        return Rowwise(name, (made,), kind), kind
    raise NotVectorizable(f"calls {name}() with {', '.join(str(each) for _, each in found)}")


__all__ = [
    "DISTINCT",
    "EMPTY",
    "FIRST_ITEM",
    "FOLDS",
    "both_lists",
    "element_of",
    "folded",
    "item_of_list",
    "joined_lists",
    "listed",
    "of_lists",
    "of_nothing",
    "over_list",
]
