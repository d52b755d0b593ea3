"""Lists, lookups, and functions that go over items."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any

from funken.expr.python.objects import BYTES
from funken.expr.python.operation import Inference, OperationRule
from funken.expr.types import BOOL, FLOAT, INT, NONE, NOTHING, STR, Atomic, ListOf, Tuple, Type

EMPTY = ListOf(NOTHING)
"""The type of lists that are always empty."""
ORDERED = (INT, FLOAT, STR)
"""Types of which items have an order in which each is equal to itself, and ``min`` and ``max`` a kernel."""


def element_of(schema: Type) -> Type | None:
    """Return the type of the items of lists; ``None`` if it is not one of lists, or they may be ``None``.

    >>> from funken.expr.types import Optional
    >>> element_of(ListOf(INT)), element_of(STR), element_of(Optional(ListOf(INT)))
    (int, None, None)
    """
    return schema.element if isinstance(schema, ListOf) else None


def is_ordered(key: Type) -> bool:
    """Whether values have an order: of tuples with floats, it depends on whether these are the same objects."""
    if isinstance(key, Atomic):
        return key in (*ORDERED, BOOL)
    return type(key) is Tuple and all(each in (INT, STR, BOOL) for each in key)


def _of_list(result: Callable[[Type], Type | None]) -> Inference:
    """Return the rule of a function of one list, by that of its items."""

    def infer(types: tuple[Type, ...]) -> Type | None:
        element = element_of(types[0]) if len(types) == 1 else None
        return None if element is None else result(element)

    return infer


def _same_list(types: tuple[Type, ...]) -> Type | None:
    return types[0] if len(set(types)) == 1 and isinstance(types[0], ListOf) and types[0] != EMPTY else None


def _sum(types: tuple[Type, ...]) -> Type | None:
    element = element_of(types[0])
    kind, start = INT if element == BOOL else element, types[1:]
    if kind not in (INT, FLOAT) or start not in ((), (INT,), (FLOAT,)):
        return None
    return FLOAT if FLOAT in (kind, *start) else INT


def _extreme(element: Type) -> Type | None:
    return element if element in ORDERED else None


def _sorted(element: Type) -> Type | None:
    return ListOf(element) if element in ORDERED else None


def _place(key: Type) -> Type | None:
    return INT if is_ordered(key) else None


def _is_distinct(element: Type) -> bool:
    return is_ordered(element) and element != FLOAT  # of nan, a set has each object once


def _sorted_by(types: tuple[Type, ...]) -> Type | None:
    (items, keys, reverse) = types
    key = element_of(keys)
    is_known = isinstance(items, ListOf) and items != EMPTY and key is not None and is_ordered(key)
    return items if is_known and reverse == BOOL else None


def _enumerated(types: tuple[Type, ...]) -> Type | None:
    element = element_of(types[0])
    return None if element in (None, NOTHING) or types[1] != INT else ListOf(Tuple((INT, element)))


def _carried(types: tuple[Type, ...]) -> Type | None:
    """Return what a sum is that a loop carries through a list."""
    kinds = {INT if each == BOOL else each for each in (element_of(types[0]), types[1])}
    if kinds <= {INT, FLOAT}:
        return FLOAT if FLOAT in kinds else INT
    return STR if kinds == {STR} else None


def _best(types: tuple[Type, ...]) -> Type | None:
    """Return what the least or the greatest is that a loop carries through a list."""
    return types[1] if element_of(types[0]) == types[1] and types[1] in ORDERED else None


def _cut(types: tuple[Type, ...]) -> Type | None:
    cuts = types[0] == STR or (isinstance(types[0], ListOf) and types[0] != EMPTY)
    return types[0] if cuts and all(bound in (INT, NONE) for bound in types[1:]) else None


def _part(
    name: str, function: Callable[..., Any], infer: Inference | None = None, kernel: str = "", **more: Any
) -> OperationRule:
    """Return what a program does not call by that name."""
    return OperationRule(
        name, function, infer=infer, lists=f"loops.forms.{kernel}" if kernel else "", group="items", **more
    )


def _over(name: str, function: Callable[..., Any], infer: Inference, kernel: str = "", **more: Any) -> OperationRule:
    """Return a built-in function of items."""
    how: dict[str, Any] = {"takes": (1,), **more}
    return _part(name, function, infer, kernel, builtin=True, items=True, **how)


def _lowered(name: str, function: Callable[..., Any], written: str = "", **more: Any) -> OperationRule:
    """Return a built-in function that is made of other operations when it is read."""
    return OperationRule(name, function, builtin=True, written=written, group="items", **more)


def _unpacked(values: Any, count: int, place: int) -> Any:
    if len(values) != count:
        raise ValueError(f"{len(values)} values to unpack, not {count}")
    return values[place]


def _greater(one: Any, other: Any) -> Any:
    return other if other > one else one


def _less(one: Any, other: Any) -> Any:
    return other if other < one else one


def _sorted_items(items: list[Any], keys: list[Any], reverse: bool) -> list[Any]:
    return [items[place] for place in sorted(range(len(items)), key=keys.__getitem__, reverse=reverse)]


OPERATIONS = [
    OperationRule(
        "len", len, {(BYTES,): INT}, {(STR,): INT}, infer=_of_list(lambda _: INT), builtin=True, lists="loops.forms.length",
        group="items",
    ),
    _over("any", any, _of_list(lambda element: BOOL if element == BOOL else None), "any_true"),
    _over("all", all, _of_list(lambda element: BOOL if element == BOOL else None), "all_true"),
    _over("sum", sum, _sum, "total", takes=(1, 2)),
    _over("min", min, _of_list(_extreme), "least", takes=range(1, 9), native={(kind, kind): kind for kind in (INT, FLOAT)}),
    _over("max", max, _of_list(_extreme), "greatest", takes=range(1, 9), native={(kind, kind): kind for kind in (INT, FLOAT)}),
    _over("sorted", sorted, _of_list(_sorted)),
    _over("list", list, _same_list),
    _over("tuple", tuple, lambda _: None),
    OperationRule(
        "range", lambda *bounds: list(range(*bounds)), {(INT,) * count: ListOf(INT) for count in (1, 2, 3)}, builtin=True,
        group="items", written="list(range({args}))", constants={0: (0, 5, 20), 1: (3, -3), 2: (1, -2, 0)},
    ),
    _part("enumerate", lambda items, start: list(enumerate(items, start)), _enumerated, "enumerated", builtin=True,
          written="list(enumerate({0}, {1}))", constants={1: (0, 1)}),
    _part("sorted by", _sorted_items, _sorted_by, "sorted_by", written="sorted({0}, reverse={2})", constants={2: (True, False)}),
    _part("max at", lambda keys: max(range(len(keys)), key=keys.__getitem__), _of_list(_place), "greatest_at",
          written="max({0}, key=lambda item: item)"),
    _part("min at", lambda keys: min(range(len(keys)), key=keys.__getitem__), _of_list(_place), "least_at",
          written="min({0}, key=lambda item: item)"),
    _part("count distinct", lambda items: len(set(items)), _of_list(lambda each: INT if _is_distinct(each) else None),
          "count_distinct", written="len(set({0}))"),
    _part("sorted distinct", lambda items: sorted(set(items)),
          _of_list(lambda each: ListOf(each) if _is_distinct(each) else None), "sorted_distinct", written="sorted(set({0}))"),
    _part("joined", operator.add, _same_list, "joined_each", written="({0} + {1})"),
    _part("chain", lambda lists: list(itertools.chain.from_iterable(lists)),
          _of_list(lambda each: each if isinstance(each, ListOf) else None), "chained"),
    _part("total", lambda values, start: functools.reduce(operator.add, values, start), _carried, "total_from"),
    _part("fold max", lambda values, start: functools.reduce(_greater, values, start), _best),
    _part("fold min", lambda values, start: functools.reduce(_less, values, start), _best),
    _part("item", operator.getitem, kernel="item", texts="kernels.cuts.lettered", signatures={(STR, INT): STR},
          written="{0}[{1}]", constants={1: (0, -1, 2)}, binds=0),
    _part("unpack", _unpacked),
    _part("slice", lambda values, start, stop, step: values[start:stop:step], _cut, "sliced", texts="kernels.cuts.sliced",
          written="{0}[{1}:{2}:{3}]", constants={1: (0, 1, -2), 2: (None, 2, -1), 3: (None, 1, 2, -1)}),
    _part("in", lambda needle, container: needle in container, kernel="contains", signatures={(STR, STR): BOOL},
          infer=lambda types: BOOL if types[0] in (INT, STR, BOOL) and element_of(types[1]) == types[0] else None,
          written="({0} in {1})"),
    _part("get", lambda table, key, default: table.get(key, default), binds=0),
    _part("truth", bool, kernel="is_not_empty"),
    _part("is None", functools.partial(operator.is_, None)),
    _part("not none", lambda value: value),
    *(_lowered(function.__name__, function) for function in (dict, filter, isinstance, iter, map, next, object, set, type)),
    _lowered("divmod", divmod),
]  # fmt: skip

__all__ = ["EMPTY", "OPERATIONS", "ORDERED", "element_of", "is_ordered"]
