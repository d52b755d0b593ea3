"""The table of all operations of Python that run on columns: one row each.

What an operation of Python is: a row of a table, from which types, kernels, a line of the reference and a test follow.
"""

from __future__ import annotations

import base64
import datetime as dates
import decimal
import functools
import hashlib
import itertools
import json
import math
import operator
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field
from functools import partial
from itertools import product
from typing import Any
from urllib import parse

from funken.dataclass import dataclass
from funken.expr.types import (
    ARRAYS,
    BOOL,
    FLOAT,
    INT,
    NONE,
    NOTHING,
    OF_CLASSES,
    STR,
    Atomic,
    ListOf,
    Object,
    Optional,
    Tuple,
    Type,
    optional,
)
from funken.types.convert import converter
from funken.types.info import Types

Signatures = Mapping[tuple[Type, ...], Type]
"""The type of the result, by those of the arguments."""
Inference = Callable[[tuple[Type, ...]], "Type | None"]
"""The same for types that are too many to be listed: of lists of anything. ``None``: there is none."""


@dataclass(frozen=True)
class OperationRule:
    """An operation: ``function`` is Python's own, and the kernel unless a row names another.

    ``native`` signatures are computed on arrays by the evaluator itself, and never value by value.
    """

    name: str
    """As expressions have it: ``str.find``, ``math.sqrt``, ``+``."""
    function: Callable[..., Any]
    signatures: Signatures = field(default_factory=dict)
    native: Signatures = field(default_factory=dict)
    infer: Inference | None = None
    target: Any = None
    """The object that a program calls, if it is known by that: ``math.sqrt``."""
    builtin: bool = False
    """True if a program calls it by the name, which is built in."""
    takes: Collection[int] = ()
    """Numbers of arguments of a built-in function that works on items: others have signatures."""
    items: bool = False
    """True if it works on the items of its only argument."""
    keeps: tuple[Type, ...] = ()
    """The types of values that are its result themselves."""
    native_with: int | None = None
    """The place of an argument that has to be a constant for the native ones."""
    raises: bool = False
    """True if a native one raises for some values."""
    binds: int | None = None
    """The place of the argument whose method ``function`` is: where that is constant, the bound method is called."""
    texts: str = ""
    """The kernel, ``module.name`` in ``columnar``, for blocks whose first argument that is no constant is text."""
    numbers: str = ""
    """The same of numbers."""
    times: str = ""
    """The same of datetimes or dates that are microseconds."""
    lists: str = ""
    """The same of lists."""
    written: str = ""
    """Its form in a program, with ``{0}``, ``{1}`` ... for its arguments; nothing: a program cannot write it."""
    group: str = ""
    constants: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)
    """Arguments that have to be constants, or are so usually, by their place: some to test with."""

    def result(self, types: tuple[Type, ...]) -> Type | None:
        """Return the type of a value-by-value result, or a named kernel's; ``None`` if there is none."""
        found = self.signatures.get(types)
        return self.infer(types) if found is None and self.infer is not None else found

    def kernel(self, of: str) -> str:
        """Return the name of the kernel for ``texts``, ``numbers``, ``times`` or ``lists``; nothing, if it has none."""
        name: str = getattr(self, of, "")
        return name

    @property
    def method(self) -> str:
        """The method that a program calls for it; nothing, if it calls none."""
        if self.binds is not None:
            return self.name
        return "" if self.target is not None or self.name.startswith("@") else self.name.partition(".")[2]

    def counts(self) -> Collection[int]:
        """Return the possible numbers of arguments."""
        return self.takes or {1 if self.keeps else 0, *(len(types) for types in (*self.signatures, *self.native))} - {0}


class OperationTable:
    """Operations by their names.

    >>> table = OperationTable([OperationRule("abs", abs)])
    >>> table["abs"].function(-1), table.find("cbs"), len(list(table))
    (1, None, 1)
    """

    def __init__(self, rows: Iterable[OperationRule]) -> None:
        self._rows: dict[str, OperationRule] = {}
        for row in rows:
            if row.name in self._rows:
                raise ValueError(f"two operations are called {row.name}")
            self._rows[row.name] = row
        self._targets: dict[Any, str] = {
            row.target: row.name for row in self._rows.values() if row.target is not None and not row.builtin
        }

    def __iter__(self) -> Iterator[OperationRule]:
        return iter(self._rows.values())

    def __getitem__(self, name: str) -> OperationRule:
        return self._rows[name]

    def find(self, name: str) -> OperationRule | None:
        """Return the row of a name; ``None`` if there is none."""
        return self._rows.get(name)

    def name_of(self, value: Any) -> str | None:
        """Return the name of a function of the library; ``None`` if it is not known."""
        try:
            return self._targets.get(value)
        except TypeError:  # it has no hash
            return None


# ---- The types of values that stay Python objects, and constants in which something is looked up.


TEXTS = ListOf(STR)
BYTES, MATCH, HASH = Object("bytes"), Object("match"), Object("hash")
DATETIME, DATE, TIMEDELTA = Object("datetime"), Object("date"), Object("timedelta")
TIMEZONE, DECIMAL, PATTERN = Object("timezone"), Object("Decimal"), Object("Pattern")
HASH_TYPE: type = type(hashlib.md5(b"", usedforsecurity=False))

OBJECTS: dict[type, Atomic] = {
    dates.datetime: DATETIME,
    dates.date: DATE,
    dates.timedelta: TIMEDELTA,
    dates.timezone: TIMEZONE,
    decimal.Decimal: DECIMAL,
    bytes: BYTES,
    type(None): NONE,
}
"""Types whose values stay Python objects."""
CLASSES: dict[Atomic, type] = {kind: cls for cls, kind in (OF_CLASSES | OBJECTS).items()}
CLASSES |= {MATCH: re.Match, HASH: HASH_TYPE}
"""The exact class of the values of a type."""
_MOST_ITEMS = 1000


def kind_of_object(value: Any) -> Atomic | None:
    """Return the type of a constant that stays a Python object; ``None`` if it has none."""
    return OBJECTS.get(type(value))


def is_pattern(value: Any) -> bool:
    """Return True if a value is a compiled regular expression of text."""
    return isinstance(value, re.Pattern) and isinstance(value.pattern, str)


def literal_of(pattern: Any) -> str | None:
    r"""Return the one text that a regular expression stands for; ``None`` if it is more than a text.

    >>> literal_of(re.compile("page 7")), literal_of(re.compile(r"\d")), literal_of(re.compile("a", re.IGNORECASE))
    ('page 7', None, None)
    """
    if pattern.flags != re.UNICODE or set(pattern.pattern) & set(r".^$*+?{}[]\|()"):
        return None
    text: str = pattern.pattern
    return text


def is_table(value: Any) -> bool:
    """Return True if a value is a dict of texts or ints to values of one type, small enough to compare once a block."""
    return type(value) is dict and 0 < len(value) <= _MOST_ITEMS and table_kinds(value) is not None


def table_kinds(table: dict[Any, Any]) -> tuple[Atomic, Atomic] | None:
    """Return the types of the keys and of the values of a dict; ``None`` if they are not of one type each.

    >>> table_kinds({"a": 1}), table_kinds({"a": 1, 2: 3})
    ((str, int), None)
    """
    keys, values = {type(key) for key in table}, {type(value) for value in table.values()}
    if len(keys) != 1 or len(values) != 1:
        return None
    key, value = keys.pop(), values.pop()
    return (OF_CLASSES[key], OF_CLASSES[value]) if key in (int, str) and value in OF_CLASSES else None


def table_of_items(values: list[Any]) -> dict[int, Any]:
    """Return the items of a tuple by their places, from the end too; without any, if they are too many to be compared.

    >>> table_of_items(["a", "b"])
    {0: 'a', 1: 'b', -2: 'a', -1: 'b'}
    """
    count = len(values)
    if 2 * count > _MOST_ITEMS:
        return {}
    return dict(enumerate(values)) | {place - count: value for place, value in enumerate(values)}


# ---- Lists, lookups, and functions that go over items.


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
    """Return True if values have an order: of tuples with floats, it depends on whether these are the same objects."""
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
    """Return the type of a sum that a loop carries through a list."""
    kinds = {INT if each == BOOL else each for each in (element_of(types[0]), types[1])}
    if kinds <= {INT, FLOAT}:
        return FLOAT if FLOAT in kinds else INT
    return STR if kinds == {STR} else None


def _best(types: tuple[Type, ...]) -> Type | None:
    """Return the type of a least or greatest value that a loop carries through a list."""
    return types[1] if element_of(types[0]) == types[1] and types[1] in ORDERED else None


def _cut(types: tuple[Type, ...]) -> Type | None:
    cuts = types[0] == STR or (isinstance(types[0], ListOf) and types[0] != EMPTY)
    return types[0] if cuts and all(bound in (INT, NONE) for bound in types[1:]) else None


def _part(
    name: str, function: Callable[..., Any], infer: Inference | None = None, kernel: str = "", **more: Any
) -> OperationRule:
    """Return a rule that programs do not call by that name."""
    return OperationRule(
        name, function, infer=infer, lists=f"kernels.rowwise.{kernel}" if kernel else "", group="items", **more
    )


def _over(name: str, function: Callable[..., Any], infer: Inference, kernel: str = "", **more: Any) -> OperationRule:
    """Return a built-in function of items."""
    how: dict[str, Any] = {"takes": (1,), **more}
    return _part(name, function, infer, kernel, builtin=True, items=True, **how)


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


_ITEM_ROWS = [
    OperationRule(
        "len", len, {(BYTES,): INT}, {(STR,): INT}, infer=_of_list(lambda _: INT), builtin=True, lists="kernels.rowwise.length",
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
    _part("item", operator.getitem, kernel="item", texts="kernels.text.lettered", signatures={(STR, INT): STR},
          written="{0}[{1}]", constants={1: (0, -1, 2)}, binds=0),
    _part("unpack", _unpacked),
    _part("slice", lambda values, start, stop, step: values[start:stop:step], _cut, "sliced", texts="kernels.text.sliced",
          written="{0}[{1}:{2}:{3}]", constants={1: (0, 1, -2), 2: (None, 2, -1), 3: (None, 1, 2, -1)}),
    _part("in", lambda needle, container: needle in container, kernel="contains", signatures={(STR, STR): BOOL},
          infer=lambda types: BOOL if types[0] in (INT, STR, BOOL) and element_of(types[1]) == types[0] else None,
          written="({0} in {1})"),
    _part("get", lambda table, key, default: table.get(key, default), binds=0),
    _part("truth", bool, kernel="is_not_empty"),
    _part("is None", functools.partial(operator.is_, None)),
    _part("not none", lambda value: value),
]  # fmt: skip


# ---- Operators, and functions of numbers.


AS_FLOAT_32 = "float of 32 bits"
AS_INTS = {bits: f"int of {bits} bits" for bits in (8, 16, 32)}
"""The conversions of numbers by declared types."""
_CONVERTERS = {8: Types.BYTE(), 16: Types.SHORT(), 32: Types.INT()}

_NUMBERS = (INT, FLOAT)
_INTS: Signatures = {(INT, INT): INT}
_BOOLS: Signatures = {(BOOL, BOOL): BOOL}
_MIXED: Signatures = {pair: FLOAT for pair in product(_NUMBERS, _NUMBERS) if FLOAT in pair}
_PAIRS: Signatures = {pair: FLOAT for pair in product(_NUMBERS, _NUMBERS)}
_DECIMALS: Signatures = {pair: DECIMAL for pair in product((DECIMAL, INT), (DECIMAL, INT)) if DECIMAL in pair}
_ADDED_TIMES: Signatures = {
    (DATETIME, TIMEDELTA): DATETIME, (TIMEDELTA, TIMEDELTA): TIMEDELTA, (DATE, TIMEDELTA): DATE,
}  # fmt: skip
_TIMES: Signatures = {**_ADDED_TIMES, (DATETIME, DATETIME): TIMEDELTA, (DATE, DATE): TIMEDELTA}
_REPEATED: Signatures = {(STR, INT): STR, (INT, STR): STR}
_ONE: Signatures = {(FLOAT,): FLOAT, (INT,): FLOAT}
_WHOLE: Signatures = {(FLOAT,): INT, (INT,): INT}
_TEST: Signatures = {(FLOAT,): BOOL, (INT,): BOOL}
_SMALL = {1: (0, 1, 2, -1, 63)}
_COMPARED = (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge)
_SPECS = {1: ("", "5", "<7", "05d", ".2f", ".0f", "+.3e", ",", "x", "^9", "%Y")}


def _operator(
    op: str, function: Callable[..., Any], native: Signatures, *signatures: Signatures, **more: Any
) -> OperationRule:
    merged = {types: result for each in signatures for types, result in each.items()}
    return OperationRule(op, function, merged, native, written=f"({{0}} {op} {{1}})", group="operators", **more)


def _comparison(op: str, function: Callable[..., Any]) -> OperationRule:
    """Return the row of a comparison; of objects and values that may be ``None`` it is called for each."""
    native: dict[tuple[Type, ...], Type] = dict.fromkeys([*product(_NUMBERS, _NUMBERS), (STR, STR)], BOOL)
    if op in ("==", "!="):
        native[BOOL, BOOL] = BOOL
    objects: Signatures = {(kind, kind): BOOL for kind in (DATETIME, DATE, TIMEDELTA, DECIMAL, BYTES)}
    mixed: Signatures = {(DECIMAL, INT): BOOL, (INT, DECIMAL): BOOL}
    times = f"kernels.times.{function.__name__}"
    return _operator(op, function, native, objects, mixed, times=times, infer=_compared)


def _compared(types: tuple[Type, ...]) -> Type | None:
    """Return the type of a comparison of objects, or of values that may be ``None``."""
    one, other = types
    if one in ARRAYS and other in ARRAYS:
        return None
    if any(isinstance(each.required, ListOf) or each == Optional(FLOAT) for each in types):
        return None  # a list compares by identity first
    maybe = NONE in types and any(each.is_optional for each in types)
    return BOOL if one.required == other.required or maybe else None


def _builtin(
    name: str, function: Callable[..., Any], signatures: Signatures, native: Signatures | None = None, **more: Any
) -> OperationRule:
    return OperationRule(name, function, signatures, native or {}, builtin=True, group="numbers", **more)


def _math(name: str, signatures: Signatures, kernel: str = "", **more: Any) -> OperationRule:
    function = getattr(math, name)
    numbers = f"kernels.numbers.{kernel}" if kernel else ""
    return OperationRule(
        f"math.{name}", function, signatures, target=function, numbers=numbers, group="numbers", **more
    )


_NUMBER_ROWS = [
    _operator("+", operator.add, {**_INTS, **_MIXED, (STR, STR): STR}, _ADDED_TIMES, _DECIMALS),
    _operator("-", operator.sub, {**_INTS, **_MIXED}, _TIMES, _DECIMALS),
    _operator("*", operator.mul, {**_INTS, **_MIXED}, _REPEATED, _DECIMALS),
    _operator("/", operator.truediv, _PAIRS, _DECIMALS, raises=True),
    _operator("//", operator.floordiv, _INTS, _MIXED, raises=True, numbers="kernels.numbers.quotient"),
    _operator("%", operator.mod, _INTS, _MIXED, raises=True, numbers="kernels.numbers.remainder"),
    _operator("**", operator.pow, {}, _INTS, _MIXED, constants=_SMALL),
    _operator("&", operator.and_, {**_INTS, **_BOOLS}),
    _operator("|", operator.or_, {**_INTS, **_BOOLS}),
    _operator("^", operator.xor, {**_INTS, **_BOOLS}),
    _operator("<<", operator.lshift, _INTS, raises=True, constants=_SMALL),
    _operator(">>", operator.rshift, _INTS, raises=True, constants=_SMALL),
    *map(_comparison, ("<", "<=", "==", "!=", ">", ">="), _COMPARED),
    OperationRule("negative", operator.neg, {}, {(INT,): INT, (FLOAT,): FLOAT}, written="(-{0})", group="operators"),
    OperationRule("inverted", operator.inv, {}, {(INT,): INT}, written="(~{0})", group="operators"),
    _builtin("abs", abs, {(DECIMAL,): DECIMAL, (TIMEDELTA,): TIMEDELTA}, {(INT,): INT, (FLOAT,): FLOAT}),
    _builtin(
        "int", int, {(STR,): INT, (FLOAT,): INT, (STR, INT): INT, (DECIMAL,): INT}, keeps=(INT,), constants={1: (10, 16, 1)},
        texts="kernels.text_forms.integers", numbers="kernels.numbers.truncated",
    ),
    _builtin(
        "float", float, {(STR,): FLOAT, (DECIMAL,): FLOAT}, {(INT,): FLOAT}, keeps=(FLOAT,), texts="kernels.text_forms.floats"
    ),
    _builtin(
        "round", round, {(FLOAT,): INT, (FLOAT, INT): FLOAT}, keeps=(INT,), constants={1: (0, 1, 2, -1)},
        numbers="kernels.numbers.rounded_to",
    ),
    *(_builtin(name, function, {(INT,): STR}) for name, function in (("hex", hex), ("oct", oct), ("bin", bin), ("chr", chr))),
    _builtin("ord", ord, {(STR,): INT}, texts="kernels.text.code_of", constants={0: ("a", "é", "\U0001f600", "")}),
    _builtin(
        "str", str, {(kind,): STR for kind in (FLOAT, BOOL, DATETIME, DATE, TIMEDELTA, DECIMAL, NONE)}, {(INT,): STR},
        keeps=(STR,), infer=lambda types: STR if len(types) == 1 and types[0].is_optional else None,
        numbers="kernels.numbers.written",
        times="kernels.times.text",
    ),
    _builtin(
        "repr", repr, {(kind,): STR for kind in (INT, FLOAT, BOOL, STR, DECIMAL)}, numbers="kernels.numbers.written"
    ),
    _builtin(
        "format", format, {(kind, STR): STR for kind in (INT, FLOAT, STR, BOOL, DATETIME, DATE, DECIMAL)}, constants=_SPECS,
        texts="kernels.text_forms.formatted", numbers="kernels.numbers.formatted", times="kernels.times.formatted",
    ),
    _builtin("bool", bool, {}, {(kind,): BOOL for kind in (INT, FLOAT, BOOL, STR)}),
    OperationRule(
        "Decimal", decimal.Decimal, {(INT,): DECIMAL, (STR,): DECIMAL, (FLOAT,): DECIMAL}, target=decimal.Decimal, group="numbers"
    ),
    OperationRule("Decimal.scaleb", decimal.Decimal.scaleb, {(DECIMAL, INT): DECIMAL}, group="numbers", constants=_SMALL),
    OperationRule("int.bit_length", int.bit_length, {(INT,): INT}, numbers="kernels.numbers.bit_length", group="numbers"),
    OperationRule("int.bit_count", int.bit_count, {(INT,): INT}, group="numbers"),
    OperationRule(
        "float.is_integer", float.is_integer, {(FLOAT,): BOOL}, numbers="kernels.numbers.is_whole", group="numbers"
    ),
    *(
        _math(name, _ONE)
        for name in (
            "exp", "exp2", "expm1", "cbrt", "erfc", "gamma", "lgamma", "log1p", "log2", "log10", "sin",
            "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
        )
    ),
    _math("sqrt", _ONE, "root"),
    _math("fabs", _ONE, "absolute"),
    _math("degrees", _ONE, "degrees"),
    _math("radians", _ONE, "radians"),
    _math("floor", _WHOLE, "floor"),
    _math("ceil", _WHOLE, "ceiling"),
    _math("trunc", _WHOLE, "truncated"),
    _math("isnan", _TEST, "is_nan"),
    _math("isinf", _TEST, "is_infinite"),
    _math("isfinite", _TEST, "is_finite"),
    *(_math(name, _PAIRS) for name in ("hypot", "atan2", "fmod", "pow", "copysign", "remainder")),
    _math("log", {**_ONE, **_PAIRS}),
    _math("gcd", _INTS, "common_divisor"),
    _math("lcm", _INTS),
    _math("isqrt", {(INT,): INT}),
    OperationRule(AS_FLOAT_32, converter(Types.FLOAT()), numbers="kernels.numbers.as_float_32"),
    *(
        OperationRule(name, converter(_CONVERTERS[bits]), numbers=f"kernels.numbers.as_int_{bits}")
        for bits, name in AS_INTS.items()
    ),
]  # fmt: skip


# ---- Texts, bytes, regular expressions and hashes.


# ---- Values as ``json.dumps`` writes them, one by one.


@dataclass(frozen=True)
class JsonOptions:
    """The options of ``json.dumps``: the text between items, the text behind a key, and others."""

    item: str = ", "
    key: str = ": "
    ensure_ascii: bool = True
    sort_keys: bool = False
    default_str: bool = False


@functools.lru_cache(maxsize=16)
def _encoder(options: JsonOptions) -> json.JSONEncoder:
    return json.JSONEncoder(
        separators=(options.item, options.key),
        ensure_ascii=options.ensure_ascii,
        sort_keys=options.sort_keys,
        default=str if options.default_str else None,
    )


def value_as_json(value: Any, options: JsonOptions) -> str:
    """Return the result of ``json.dumps``.

    >>> value_as_json([1, None, "e"], JsonOptions(item=","))
    '[1,null,"e"]'
    """
    return _encoder(options).encode(value)


_TEXT: Signatures = {(STR,): STR}
_TEXT_TEST: Signatures = {(STR,): BOOL}
_OF_TWO: Signatures = {(STR, STR): STR}
_STARTS: Signatures = {(STR, STR): BOOL}
_SEARCH: Signatures = {(STR, STR): INT, (STR, STR, INT): INT}
_PADDED: Signatures = {(STR, INT): STR, (STR, INT, STR): STR}
_SPLIT: Signatures = {(STR,): TEXTS, (STR, STR): TEXTS, (STR, STR, INT): TEXTS}
_PARTS = {1: ("a", "é", "ab", ",", "")}
_WIDTHS = {1: (0, 3, 6, -1), 2: ("0", "é")}
_CODES = {1: ("utf-8", "ascii", "latin-1")}
_PATTERNS = {0: (re.compile("a"), re.compile("[ab]+"), re.compile(r"(a)|b"), re.compile(r"\d*"))}


def _text(name: str, signatures: Signatures, kernel: str = "", **more: Any) -> OperationRule:
    return OperationRule(f"str.{name}", getattr(str, name), signatures, texts=kernel, group="text", **more)


def _cased(name: str, kernel: str) -> OperationRule:
    return _text(name, _TEXT, f"kernels.text_forms.{kernel}")


def _tested(name: str, kernel: str) -> OperationRule:
    return _text(name, _TEXT_TEST, f"kernels.text_forms.{kernel}")


def _partition(place: int) -> OperationRule:
    def function(text: str, part: str) -> str:
        return text.partition(part)[place]

    return OperationRule(f"str.partition.{place}", function, _OF_TWO)


def _bytes(name: str, function: Callable[..., Any], signatures: Signatures, **more: Any) -> OperationRule:
    return OperationRule(name, function, signatures, group="bytes and hashes", **more)


def _hashed(name: str, function: Callable[..., Any], signatures: Signatures) -> OperationRule:
    return _bytes(name, function, signatures, target=function)


def _json_float(number: float) -> str:
    return repr(number) if math.isfinite(number) else json.dumps(number)


_TEXT_ROWS = [
    _cased("lower", "lower"),
    _cased("casefold", "lower"),
    _cased("upper", "upper"),
    _cased("title", "title"),
    _cased("capitalize", "capitalize"),
    _cased("swapcase", "swapcase"),
    _tested("isdigit", "is_decimal"),
    _tested("isdecimal", "is_decimal"),
    _tested("isnumeric", "is_decimal"),
    _tested("isalpha", "is_alpha"),
    _tested("isalnum", "is_alnum"),
    _tested("isupper", "is_upper"),
    _tested("islower", "is_lower"),
    _tested("istitle", "is_title"),
    _tested("isspace", "is_space"),
    *(_text(name, _TEXT_TEST) for name in ("isprintable", "isidentifier")),
    _text("expandtabs", {(STR,): STR, (STR, INT): STR}, constants=_WIDTHS),
    OperationRule("ascii", ascii, _TEXT, builtin=True, group="text"),
    *(
        OperationRule(f"urllib.parse.{each.__name__}", each, _TEXT, target=each, group="text")
        for each in (parse.quote, parse.quote_plus, parse.unquote, parse.unquote_plus)
    ),
    _tested("isascii", "is_ascii_text"),
    *(
        _text(name, {**_TEXT, **_OF_TWO}, f"kernels.text_forms.{name}", constants=_PARTS)
        for name in ("strip", "lstrip", "rstrip")
    ),
    _text("removeprefix", _OF_TWO, "kernels.text.without_prefix", constants=_PARTS),
    _text("removesuffix", _OF_TWO, "kernels.text.without_suffix", constants=_PARTS),
    *(
        _text(name, _SEARCH, f"kernels.text_forms.{name}", constants={**_PARTS, 2: (0, 1, -2)})
        for name in ("find", "rfind", "index", "rindex", "count")
    ),
    _text("startswith", _STARTS, native=_STARTS, native_with=1, constants=_PARTS),
    _text("endswith", _STARTS, native=_STARTS, native_with=1, constants=_PARTS),
    *(_text(name, _PADDED, f"kernels.text_forms.{name}", constants=_WIDTHS) for name in ("ljust", "rjust")),
    _text("center", _PADDED, constants=_WIDTHS),
    _text("zfill", {(STR, INT): STR}, "kernels.text_forms.zfill", constants=_WIDTHS),
    _text(
        "replace", {(STR, STR, STR): STR, (STR, STR, STR, INT): STR}, "kernels.text_forms.replace",
        constants={**_PARTS, 2: ("", "aa", "é"), 3: (0, 1, -1)},
    ),
    *(_text(name, _SPLIT, constants={**_PARTS, 2: (0, 1, -1)}) for name in ("split", "rsplit")),
    _text("partition", {(STR, STR): Tuple((STR, STR, STR))}, constants=_PARTS),
    *map(_partition, range(3)),
    _text("splitlines", {(STR,): TEXTS}),
    _text("join", {(STR, TEXTS): STR}),
    _text("encode", {(STR,): BYTES, (STR, STR): BYTES}, constants=_CODES),
    _bytes("bytes.decode", bytes.decode, {(BYTES,): STR, (BYTES, STR): STR}, constants=_CODES),
    _bytes("bytes.hex", bytes.hex, {(BYTES,): STR}),
    *(
        _hashed(f"hashlib.{name}", getattr(hashlib, name), {(BYTES,): HASH})
        for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
    ),
    _bytes("hash.hexdigest", operator.methodcaller("hexdigest"), {(HASH,): STR}),
    _bytes("hash.digest", operator.methodcaller("digest"), {(HASH,): BYTES}),
    _hashed("zlib.crc32", zlib.crc32, {(BYTES,): INT}),
    _hashed("zlib.adler32", zlib.adler32, {(BYTES,): INT}),
    _hashed("base64.b64encode", base64.b64encode, {(BYTES,): BYTES}),
    _hashed("base64.b64decode", base64.b64decode, {(BYTES,): BYTES, (STR,): BYTES}),
    *(
        OperationRule(
            name, getattr(re.Pattern, name), {(PATTERN, STR): optional(MATCH)}, target=getattr(re, name), binds=0,
            written=f"{{0}}.{name}({{1}})", group="regular expressions", constants=_PATTERNS,
        )
        for name in ("search", "match", "fullmatch")
    ),
    OperationRule(
        "sub", re.Pattern.sub, {(PATTERN, STR, STR): STR}, target=re.sub, binds=0, written="{0}.sub({1}, {2})",
        group="regular expressions", constants={**_PATTERNS, 1: ("", "-", r"<\g<0>>")},
    ),
    OperationRule("json text", json.encoder.encode_basestring, _TEXT, texts="kernels.text_forms.in_json"),
    OperationRule("json ascii", json.encoder.encode_basestring_ascii, _TEXT, texts="kernels.text_forms.in_ascii_json"),
    OperationRule("json float", _json_float, numbers="kernels.numbers.written"),
    OperationRule("json value", value_as_json),
]  # fmt: skip


# ---- Dates, times, differences of times.


_CLASSES: dict[Atomic, Any] = {DATETIME: dates.datetime, DATE: dates.date, TIMEDELTA: dates.timedelta}
_ATTRIBUTES = {
    DATETIME: ("year", "month", "day", "hour", "minute", "second", "microsecond"),
    DATE: ("year", "month", "day"),
    TIMEDELTA: ("days", "seconds", "microseconds"),
}
_FORMATS = {1: ("%Y-%m-%d %H:%M:%S", "%d.%m.%y", "%H:%M:%S.%f", "%j %A", "", "%Y")}
_WRITTEN = {0: ("2024-02-29", "2024-02-29T23:59:59.999999", "1969-12-31T23:00:00Z", "2024-02-30", "")}


def _attribute(kind: Atomic, name: str) -> OperationRule:
    kernel = "" if kind == TIMEDELTA else f"kernels.times.{name}"
    written = f"{{0}}.{name}"
    return OperationRule(
        f"@{kind}.{name}", operator.attrgetter(name), {(kind,): INT}, times=kernel, written=written, group="times"
    )


def _method(kind: Atomic, name: str, result: Atomic, kernel: str = "", *given: Atomic, **more: Any) -> OperationRule:
    function = getattr(_CLASSES[kind], name)
    return OperationRule(f"{kind}.{name}", function, {(kind, *given): result}, times=kernel, group="times", **more)


def _function(name: str, function: Callable[..., Any], signatures: Signatures, **more: Any) -> OperationRule:
    return OperationRule(name, function, signatures, target=function, group="times", **more)


def _in_zone(time: dates.datetime, zone: dates.tzinfo | None) -> dates.datetime:
    return time.replace(tzinfo=zone)


_TIME_ROWS = [
    *(_attribute(kind, name) for kind, names in _ATTRIBUTES.items() for name in names),
    *(
        _method(kind, name, INT, f"kernels.times.{name}")
        for kind in (DATETIME, DATE)
        for name in ("weekday", "isoweekday", "toordinal")
    ),
    *(_method(kind, "isoformat", STR, "kernels.times.isoformat") for kind in (DATETIME, DATE)),
    *(_method(kind, "strftime", STR, "kernels.times.strftime", STR, constants=_FORMATS) for kind in (DATETIME, DATE)),
    _method(DATETIME, "timestamp", FLOAT, "kernels.times.timestamp"),
    _method(DATETIME, "date", DATE, "kernels.times.day_of"),
    OperationRule(
        "datetime.replace tzinfo", _in_zone, {(DATETIME, TIMEZONE): DATETIME, (DATETIME, NONE): DATETIME}, group="times",
        times="kernels.times.in_zone", written="{0}.replace(tzinfo={1})", constants={1: (dates.UTC, None)},
    ),
    _method(TIMEDELTA, "total_seconds", FLOAT),
    _function(
        "datetime.fromtimestamp", dates.datetime.fromtimestamp,
        {(kind, *zone): DATETIME for kind in (INT, FLOAT) for zone in ((), (TIMEZONE,))},
        numbers="kernels.times.from_timestamp", constants={1: (dates.UTC, dates.timezone(dates.timedelta(hours=-3)))},
    ),
    _function(
        "datetime.fromisoformat", dates.datetime.fromisoformat, {(STR,): DATETIME}, texts="kernels.times.from_iso",
        constants=_WRITTEN,
    ),
    _function(
        "datetime.strptime", dates.datetime.strptime, {(STR, STR): DATETIME}, texts="kernels.times.parsed", constants=_FORMATS
    ),
    _function("date.fromisoformat", dates.date.fromisoformat, {(STR,): DATE}, texts="kernels.times.date_from_iso"),
]  # fmt: skip


# ---- The table of all operations of Python that run on columns.


LOADS, DUMPS = "json.loads", "json.dumps"
_JSON = [OperationRule(LOADS, json.loads, target=json.loads), OperationRule(DUMPS, json.dumps, target=json.dumps)]

TABLE = OperationTable([*_NUMBER_ROWS, *_TEXT_ROWS, *_TIME_ROWS, *_ITEM_ROWS, *_JSON])


def bound_to(row: OperationRule, position: int, value: Any) -> Callable[..., Any] | None:
    """Return a function of the arguments but one, which is ``value`` for all records; ``None`` if that makes no difference.

    It is one that is compiled into the interpreter: ``get`` takes 15 ns a value then, called by a function of Python 37.

    >>> [bound_to(TABLE[name], *given)("a") for name, *given in (("item", 0, {"a": 1}), ("in", 1, {"a"}))]
    [1, True]
    """
    if position == row.binds:
        bound: Callable[..., Any] | None = getattr(value, "__getitem__" if row.name == "item" else row.name, None)
        return bound
    if position == 1 and row.name == "in":
        return partial(operator.contains, value)
    return operator.itemgetter(value) if position == 1 and row.name == "item" else None
