"""Declared types over columns: conversions, rows without names, states.

What a declared type makes of columns of a schema: ``types/convert.py`` once more, with kinds in the place of values.

A conversion is the schema of what comes out, and for each of its leaves from which leaf it comes and what is done with it. It is
made only where that is what the converter does to every value that such columns may hold. Values of kinds that no array holds
are converted one by one, by the converter itself.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from funken.columnar.expressions import (
    COMPARISONS,
    Argument,
    Choose,
    Constant,
    Expression,
    GetItem,
    Invoke,
    Listed,
    Make,
    MakeRecord,
    NotVectorizable,
    Rowwise,
    Sequence,
    Unpacked,
    reads,
)
from funken.columnar.records import is_inherited
from funken.columnar.recurrence import ADD, ALL, KEEP, LEAST, MOST, ListFold, comparison_of, list_fold, recurrence_of
from funken.columnar.tracing import Traced, trace
from funken.columnar.typed.inference import TracedFlatMap
from funken.columnar.typed.operations import with_parts
from funken.dataclass import dataclass
from funken.expr.python.table import AS_FLOAT_32, AS_INTS, DATE, DATETIME, DECIMAL
from funken.expr.types import (
    ARRAYS,
    BOOL,
    DATACLASS,
    DICT,
    DOCUMENT,
    FLOAT,
    INT,
    NAMED_TUPLE,
    NONE,
    NUMBER,
    ROW,
    STR,
    UNNAMED_ROW,
    Atomic,
    ListOf,
    Record,
    Tuple,
    Type,
    atomic_fields,
    optional,
    types_in,
)
from funken.types.info import (
    BasicType,
    BasicTypeInfo,
    MapTypeInfo,
    OfElements,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TimeType,
    TupleTypeInfo,
    TypeInformation,
)


class How(enum.Enum):
    """A conversion of the values of a field."""

    SAME = "it stays as it is"
    WRAP = "ints wrap to so many bits"
    AS_INT = "bools become ints"
    AS_BOOL = "ints become bools"
    AS_FLOAT = "numbers become floats"
    ROUND = "numbers become floats of 32 bits"
    ITEMS = "the items of lists are converted"
    ONE_BY_ONE = "the converter is called for each value"


@dataclass(frozen=True)
class Leaf:
    """A field of the results: the number of the field it comes from, its conversion, and its type after that."""

    number: int
    kind: Atomic
    how: How = How.SAME
    bits: int = 64
    items: Conversion | None = None
    type_info: TypeInformation | None = None
    nullable: bool = False


@dataclass(frozen=True)
class Conversion:
    """The schema of the results, and their fields from left to right."""

    schema: Type
    leaves: tuple[Leaf, ...]

    @property
    def keeps_values(self) -> bool:
        """True if each field is one of the record's, unchanged."""
        return all(each.how is How.SAME for each in self.leaves)


BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}
"""Number of bits of the whole numbers of a type."""
_NULLABLE = {BasicType.STRING, BasicType.BIG_INT, BasicType.BIG_DEC}
_Made = tuple[Type, list[Leaf]]


def conversion_of(schema: Type, type_info: TypeInformation) -> Conversion:
    """Return a declared type's conversion of columns; raise ``NotVectorizable`` where records have to be converted.

    >>> from funken.types import Types
    >>> made = conversion_of(Tuple((STR, INT)), Types.ROW([Types.STRING(), Types.INT()]))
    >>> made.schema, [(each.how.name, each.bits) for each in made.leaves]
    (Row(f0: str, f1: int), [('SAME', 64), ('WRAP', 32)])
    >>> conversion_of(Tuple((STR, INT)), Types.TUPLE([Types.STRING(), Types.STRING()]))
    Traceback (most recent call last):
        ...
    funken.columnar.expressions.NotVectorizable: declares String, and gives it int
    """
    made, leaves = _of(schema, type_info, range(len(atomic_fields(schema))), False)
    return Conversion(made, tuple(leaves))


def becomes(schema: Type, wanted: Type, type_info: TypeInformation) -> bool:
    """Return True if a declared type makes records of the schema ``wanted`` of others, with all fields in order.

    >>> from funken.types import Types
    >>> of = Types.ROW([Types.STRING(), Types.LONG()])
    >>> wanted = conversion_of(Tuple((STR, INT)), of).schema
    >>> becomes(Tuple((STR, INT)), wanted, of), becomes(Tuple((STR, BOOL)), wanted, of)
    (True, False)
    """
    made = conversion_of(schema, type_info)
    kinds = [kind for _, kind in atomic_fields(schema)]
    return made.schema == wanted and [(each.number, each.kind) for each in made.leaves] == list(enumerate(kinds))


def _refused(schema: Type, type_info: TypeInformation, why: str = "") -> NotVectorizable:
    return NotVectorizable(f"declares {type_info!r}, and gives it {schema}{why}")


def _of(schema: Type, type_info: TypeInformation, numbers: Iterable[int], nullable: bool) -> _Made:
    numbers = list(numbers)
    match type_info:
        case BasicTypeInfo() | SqlTimeTypeInfo() | OfElements():
            if not isinstance(schema, Atomic):
                raise _refused(schema, type_info)
            leaf = _of_kind(schema, type_info, numbers[0], nullable)
            return leaf.kind, [leaf]
        case TupleTypeInfo(types):
            if isinstance(schema, Atomic) or (isinstance(schema, Record) and schema.form not in (NAMED_TUPLE, ROW)):
                raise _refused(schema, type_info)
            fields, leaves = _fields(_of_width(schema, type_info, len(types)), types, _split(schema, numbers), False)
            return Tuple(fields), leaves
        case RowTypeInfo(types):
            names = tuple(type_info.get_field_names())
            if isinstance(schema, Atomic) or len(set(names)) < len(names) or not names:
                raise _refused(schema, type_info)
            places = _places(schema, type_info, names)
            parts = _split(schema, numbers)
            fields, leaves = _fields([schema[at] for at in places], types, [parts[at] for at in places], True)
            return Record(fields, ROW, names), leaves
        case MapTypeInfo(keys, values):
            if not isinstance(schema, Record) or schema.form != DICT or not _is_text(keys):
                raise _refused(schema, type_info)
            fields, leaves = _fields(list(schema), [values] * len(schema), _split(schema, numbers), True)
            return Record(fields, DICT, schema.names), leaves
    kinds = [kind for _, kind in atomic_fields(schema)]
    return schema, [Leaf(number, kind) for number, kind in zip(numbers, kinds, strict=True)]


def _split(schema: Any, numbers: Iterable[int]) -> list[list[int]]:
    """Return the numbers of the atomic fields of each field."""
    rest = iter(numbers)
    return [[next(rest) for _ in atomic_fields(inner)] for inner in schema]


def _fields(
    schemas: Iterable[Any], types: Iterable[TypeInformation], parts: Iterable[list[int]], nullable: bool
) -> Any:
    made = [_of(*each, nullable) for each in zip(schemas, types, parts, strict=False)]
    return [schema for schema, _ in made], [leaf for _, leaves in made for leaf in leaves]


def _of_width(schema: Any, type_info: TypeInformation, width: int) -> Any:
    if len(schema) < width or not width:
        raise _refused(schema, type_info, f", which has {len(schema)} of {width} fields")
    return schema


def _places(schema: Any, type_info: RowTypeInfo, names: tuple[str, ...]) -> list[int]:
    """Return the fields of a record that become those of a row."""
    form = getattr(schema, "form", NAMED_TUPLE)
    if form == NAMED_TUPLE:
        _of_width(schema, type_info, len(names))
        return list(range(len(names)))
    # The converter looks for the fields of an object in its ``__dict__``.
    if form not in (ROW, DICT, DATACLASS) or any("__slots__" in vars(each) for each in _classes(schema)):
        raise _refused(schema, type_info)
    missing = [name for name in names if name not in schema.names]
    if missing:
        raise _refused(schema, type_info, f", which has no {missing[0]!r}")
    return [schema.names.index(name) for name in names]


def _classes(schema: Record) -> tuple[type, ...]:
    return () if schema.cls is None else schema.cls.__mro__[:-1]


def _is_text(type_info: TypeInformation) -> bool:
    return isinstance(type_info, BasicTypeInfo) and type_info.basic_type in (BasicType.STRING, BasicType.CHAR)


def _of_kind(kind: Atomic, type_info: TypeInformation, number: int, nullable: bool) -> Leaf:
    """Return the conversion of a field; ``nullable``: where it stands, ``None`` stays ``None``."""
    if isinstance(type_info, OfElements):
        return _of_list(kind, type_info, number)
    basic = type_info.basic_type if isinstance(type_info, BasicTypeInfo) else None
    if basic in _NULLABLE or basic is None:
        nullable = True
    if kind == NONE:
        if not nullable:
            raise _refused(kind, type_info)
        return Leaf(number, kind)
    if kind.is_optional:
        inner = _of_kind(kind.required, type_info, number, nullable)
        if nullable and inner.how is How.SAME and inner.kind != INT:  # objects may be ints that no array holds
            return Leaf(number, kind)
        result = optional(inner.kind) if nullable else inner.kind
        return Leaf(number, result, How.ONE_BY_ONE, type_info=type_info, nullable=nullable)
    found = _KINDS.get((_group(type_info), kind))
    if found is None:
        raise _refused(kind, type_info)
    result, how = found
    if basic in BITS and how is How.WRAP and BITS[basic] == 64:
        how = How.SAME
    return Leaf(number, result, how, 64 if basic is None else BITS.get(basic, 64), type_info=type_info)


def _group(type_info: TypeInformation) -> Any:
    if isinstance(type_info, SqlTimeTypeInfo):
        return type_info.time_type
    assert isinstance(type_info, BasicTypeInfo)
    return BasicType.INT if type_info.basic_type in BITS else type_info.basic_type


_KINDS: dict[tuple[Any, Atomic], tuple[Atomic, How]] = {
    (BasicType.INT, INT): (INT, How.WRAP),
    (BasicType.INT, BOOL): (INT, How.AS_INT),
    (BasicType.INT, NUMBER): (INT, How.ONE_BY_ONE),
    (BasicType.BIG_INT, INT): (INT, How.SAME),
    (BasicType.BIG_INT, BOOL): (INT, How.AS_INT),
    (BasicType.BOOLEAN, BOOL): (BOOL, How.SAME),
    (BasicType.BOOLEAN, INT): (BOOL, How.AS_BOOL),
    (BasicType.DOUBLE, FLOAT): (FLOAT, How.SAME),
    (BasicType.DOUBLE, INT): (FLOAT, How.AS_FLOAT),
    (BasicType.DOUBLE, BOOL): (FLOAT, How.AS_FLOAT),
    (BasicType.DOUBLE, NUMBER): (FLOAT, How.ONE_BY_ONE),
    (BasicType.DOUBLE, DECIMAL): (FLOAT, How.ONE_BY_ONE),
    (BasicType.FLOAT, FLOAT): (FLOAT, How.ROUND),
    (BasicType.FLOAT, INT): (FLOAT, How.ROUND),
    (BasicType.FLOAT, BOOL): (FLOAT, How.ROUND),
    (BasicType.FLOAT, NUMBER): (FLOAT, How.ONE_BY_ONE),
    (BasicType.STRING, STR): (STR, How.SAME),
    (BasicType.CHAR, STR): (STR, How.SAME),
    (BasicType.BIG_DEC, DECIMAL): (DECIMAL, How.SAME),
    (TimeType.DATE, DATE): (DATE, How.SAME),
    (TimeType.DATE, DATETIME): (DATE, How.ONE_BY_ONE),
    (TimeType.TIMESTAMP, DATETIME): (DATETIME, How.ONE_BY_ONE),
}
"""By type, or for whole numbers ``INT``, and by kind: the kind of the results, and how they are made."""


def _of_list(kind: Atomic, type_info: OfElements, number: int) -> Leaf:
    if not isinstance(kind, ListOf):
        raise _refused(kind, type_info)
    element, count = kind.element, len(atomic_fields(kind.element))
    nullable = not isinstance(type_info, PrimitiveArrayTypeInfo)
    made, leaves = _of(element, type_info.element_type, range(count), nullable)
    items = Conversion(made, tuple(leaves))
    if items.keeps_values and made == element:
        return Leaf(number, kind)
    return Leaf(number, ListOf(made), How.ITEMS, items=items)


# ---- What states with a declared type keep of values, as expressions: of the shape of the type, with floats of 32
# bits rounded.
#
# What a state keeps of a record is of one schema, that of its type (``kept_schema``); a value of another one is
# refused where it is typed. Ints of few bits stay as they are in what is written, for sums of these are computed at
# once: a block with one that is too large goes to the function. Where a value is read again behind its write, it is
# wrapped (``seen``).


Path = tuple[int, ...]
_STATE_TYPES = {BasicType.STRING: STR, BasicType.DOUBLE: FLOAT, BasicType.FLOAT: FLOAT, BasicType.BOOLEAN: BOOL}
_STATE_TYPES |= {BasicType.CHAR: STR, BasicType.BIG_INT: INT, **dict.fromkeys(BITS, INT)}


def kept_schema(type_info: TypeInformation) -> Type | None:
    """Return the schema of the values in a state of a type; ``None``: columns do not keep it.

    >>> from funken.types import Types
    >>> kept_schema(Types.TUPLE([Types.STRING(), Types.ROW([Types.INT()])])), kept_schema(Types.LIST(Types.INT()))
    ((str, Row(f0: int)), None)
    """
    if type(type_info) is BasicTypeInfo:
        return _STATE_TYPES.get(type_info.basic_type)
    if not isinstance(type_info, TupleTypeInfo | RowTypeInfo) or not type_info.field_types:
        return None
    fields = [kept_schema(each) for each in type_info.field_types]
    known = Tuple(each for each in fields if each is not None)
    if len(known) < len(fields):
        return None
    if isinstance(type_info, TupleTypeInfo):
        return known
    names = tuple(type_info.get_field_names())
    return Record(known, ROW, names) if len(set(names)) == len(names) else None


def bits_of_leaves(type_info: TypeInformation | None) -> dict[Path, int]:
    """Return the number of bits of ints and floats with fewer than 64.

    >>> from funken.types import Types
    >>> bits_of_leaves(Types.TUPLE([Types.LONG(), Types.SHORT(), Types.TUPLE([Types.FLOAT()])]))
    {(1,): 16, (2, 0): 32}
    """
    if isinstance(type_info, TupleTypeInfo | RowTypeInfo):
        inner = enumerate(map(bits_of_leaves, type_info.field_types))
        return {(number, *path): bits for number, each in inner for path, bits in each.items()}
    if not isinstance(type_info, BasicTypeInfo):
        return {}
    bits = 32 if type_info.basic_type is BasicType.FLOAT else BITS.get(type_info.basic_type, 64)
    return {} if bits == 64 else {(): bits}


def kept(value: Expression, type_info: TypeInformation | None) -> Expression:
    """Return the written form of a value.

    >>> from funken.columnar.expressions import Argument
    >>> from funken.types import Types
    >>> kept(Make((Argument(0), Argument(1))), Types.TUPLE([Types.FLOAT(), Types.INT()])).items[0]
    Rowwise(function='float of 32 bits', arguments=(Argument(argument=0, path=()),), kind=float)
    """
    return value if type_info is None else _shaped(value, type_info, _rounded)


def seen(value: Expression, type_info: TypeInformation | None) -> Expression:
    """Return the read form of a value that was written for the same record."""
    return value if type_info is None else _shaped(value, type_info, _converted)


def named(value: Expression, type_info: TypeInformation) -> Expression:
    """Return a value whose rows have the names of a type, as far as they are made in it."""
    return _shaped(value, type_info, _as_it_is)


_OfLeaf = Callable[[Expression, BasicTypeInfo], Expression]


def _as_it_is(value: Expression, type_info: BasicTypeInfo) -> Expression:
    return value


def _rounded(value: Expression, type_info: BasicTypeInfo) -> Expression:
    return Rowwise(AS_FLOAT_32, (value,), FLOAT) if type_info.basic_type is BasicType.FLOAT else value


def _converted(value: Expression, type_info: BasicTypeInfo) -> Expression:
    if type_info.basic_type is BasicType.DOUBLE:
        return Invoke("float", (value,))
    bits = BITS.get(type_info.basic_type, 64)
    return _rounded(value, type_info) if bits == 64 else Rowwise(AS_INTS[bits], (value,), INT)


def _shaped(value: Expression, type_info: TypeInformation, of_leaf: _OfLeaf) -> Expression:
    again = partial(_shaped, type_info=type_info, of_leaf=of_leaf)
    match value:
        case Sequence(_, result):
            return replace(value, result=again(result))
        case Choose(_, then, otherwise) if not isinstance(type_info, BasicTypeInfo):
            return replace(value, then=again(then), otherwise=again(otherwise))
    if isinstance(type_info, BasicTypeInfo):
        return of_leaf(value, type_info)
    if not isinstance(type_info, TupleTypeInfo | RowTypeInfo):
        return value
    items = _items(value, type_info)
    if items is None:
        rounds = of_leaf is _rounded and not _has_floats(type_info)
        if of_leaf is _as_it_is or rounds or not bits_of_leaves(type_info):
            return value
        if isinstance(type_info, RowTypeInfo):
            raise NotVectorizable("keeps records of a declared type, which converts values")
        items = [GetItem(value, number) for number in range(len(type_info.field_types))]
    made = tuple(_shaped(*each, of_leaf) for each in zip(items, type_info.field_types, strict=True))
    return Make(made) if isinstance(type_info, TupleTypeInfo) else MakeRecord(ROW, tuple(_names(type_info)), made)


def _names(type_info: RowTypeInfo) -> list[str]:
    names: list[str] = type_info.get_field_names()
    return names


def _has_floats(type_info: Any) -> bool:
    if isinstance(type_info, BasicTypeInfo):
        return type_info.basic_type is BasicType.FLOAT
    return any(map(_has_floats, type_info.field_types))


def _items(value: Expression, type_info: TupleTypeInfo | RowTypeInfo) -> list[Expression] | None:
    """Return the fields of a tuple or row, if a value is put together of these; ``None``: it is not."""
    width = len(type_info.field_types)
    match value:
        case Make(items) if len(items) == width and not any(isinstance(each, Unpacked) for each in items):
            return list(items)
        case MakeRecord(form, _, items) if form == UNNAMED_ROW and len(items) == width:
            return list(items)
        case MakeRecord(form, names, items) if form in (ROW, DICT) and isinstance(type_info, RowTypeInfo):
            wanted = _names(type_info)
            if len(names) == width and set(names) == set(wanted):
                return [items[names.index(name)] for name in wanted]
    return None


# ---- Rows without names in a function whose results have a declared type: the type names their fields, or makes
# them tuples.
#
# ``Row(1, 2)`` is no record that columns have a schema for. But where it is a result, the type makes of it what it
# makes of a row with its names, or of a tuple.


def named_rows(traced: Traced, type_info: TypeInformation | None) -> Traced:
    """Return a function with rows that have names, as far as their type says them.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> from funken.columnar.tracing import trace
    >>> from funken.types import Row, Types
    >>> traced = trace(lambda pair: Row(pair[1], 1), None, 1)
    >>> named_rows(traced, Types.ROW([Types.STRING(), Types.INT()])).typed(Tuple((INT, STR)))[1]
    Row(f0: str, f1: int)
    """
    return traced if type_info is None else replace(traced, result=named(traced.result, type_info))


def named_rows_of_all(traced: TracedFlatMap, type_info: TypeInformation | None) -> TracedFlatMap:
    """Return a function with any number of results, in the same way; side outputs have types of their own."""
    if type_info is None:
        return traced
    emissions = (
        each if each.side is not None else replace(each, result=named(each.result, type_info))
        for each in traced.emissions
    )
    return replace(traced, emissions=tuple(emissions))


# ---- Reduce and aggregate functions as one simple fold per field: what a scan over an array can compute.
#
# A fold defines a field of the result when a record arrives: it stays as it was (``first``), is replaced
# (``last``), or is joined with something computed from the record alone (``sum``, ``min``, ``max``). Functions of
# other forms run record by record.


FIRST, LAST, SUM, MIN, MAX = "first", "last", "sum", "min", "max"
EXTREME = {"min_by": MIN, "max_by": MAX}
"""Folds of whole records: every leaf has the same, with the field that decides."""
_HOWS = {ADD: SUM, MOST: MAX, LEAST: MIN}
ORDERED = {"min_of": MIN, "max_of": MAX}
"""The same with several values that decide, one after the other: ``of`` is the tuple of them."""


@dataclass(frozen=True)
class Fold:
    """The aggregate of one field of the result; ``of`` is computed from the record (argument 0), but for ``first``."""

    how: str
    kind: Atomic
    of: Expression
    bits: int = 64
    """To how many bits a sum of ints wraps."""


@reads
def reduce_folds(
    target: Any, method: str | None, schema: Type, type_info: TypeInformation | None = None
) -> tuple[Traced, tuple[Fold, ...]]:
    """Return the aggregates of ``reduce(so_far, record)``, one per atomic field; raise ``NotVectorizable``.

    ``type_info`` is the declared type of results, if there is one.

    >>> from funken.expr.types import Tuple
    >>> [fold.how for fold in reduce_folds(lambda a, b: (a[0], a[1] + b[1]), None, Tuple((STR, INT)))[1]]
    ['first', 'sum']
    """
    forms = getattr(target, "columns_folds", None)
    if method is None and forms is not None:
        return Traced(Constant(0)), _of_fields(forms, schema)
    traced, found = named_rows(trace(target, method, 2, changes=True), type_info).typed(schema, schema)
    if found != schema and (type_info is None or not becomes(found, schema, type_info)):
        raise NotVectorizable(f"makes {found} of two {schema}")
    return traced, _folds(traced.result, schema, so_far=0, record=1)


@dataclass(frozen=True)
class Aggregate:
    """An ``AggregateFunction``: its start, its addition, and the accumulator with the fields of an empty one."""

    created: Traced
    added: Traced
    folds: tuple[Fold, ...]
    schema: Type
    beginnings: tuple[Any, ...]
    result: Traced | None = None
    """The result of ``get_result`` for an accumulator; ``None``: it is called for each."""
    result_schema: Type | None = None
    reason: str = ""
    """Why it is."""
    listed: ListFold | None = None
    """The records that it keeps in a list; ``None``: it has aggregates."""


@reads
def aggregate_folds(target: Any, schema: Type, type_info: TypeInformation | None = None) -> Aggregate:
    """Return the aggregates of an ``AggregateFunction`` over records of a shape; raise ``NotVectorizable``.

    ``type_info`` is the declared type of the results of ``get_result``.
    """
    begun, added = trace(target, "create_accumulator", 0), trace(target, "add", 2, changes=True)
    if begun.result == Listed(()):
        lists = ListOf(schema)
        added, kept = added.typed(schema, lists)
        if kept != lists:
            raise NotVectorizable(f"makes {kept} of {lists}")
        return _with_result(Aggregate(begun, added, (), lists, (), listed=list_fold(added.result)), target, type_info)
    created, empty = begun.typed()
    start = _constant(created.result)
    if types_in(empty) - set(ARRAYS):
        raise NotVectorizable(f"starts from {empty}")
    # An int that a float is added to becomes a float with the first record.
    accumulator = added.typed(schema, empty)[1]
    if [path for path, _ in atomic_fields(accumulator)] != [path for path, _ in atomic_fields(empty)]:
        raise NotVectorizable(f"makes {accumulator} of {empty}")
    added, again = added.typed(schema, accumulator)
    if again != accumulator:
        raise NotVectorizable("changes the type of its accumulator with every record")
    beginnings = []
    for (path, kind), (_, before) in zip(atomic_fields(accumulator), atomic_fields(empty), strict=True):
        value = start
        for index in path:
            value = value[index]
        if kind != before and (kind, before) != (FLOAT, INT):
            raise NotVectorizable(f"makes {kind} of {before}")
        beginnings.append(float(value) if kind == FLOAT else value)
    folds = _folds(added.result, accumulator, so_far=1, record=0)
    return _with_result(Aggregate(created, added, folds, accumulator, tuple(beginnings)), target, type_info)


@reads
def all_records(schema: Type) -> Aggregate:
    """Return the aggregate that a window is whose function gets all records: a list of them."""
    lists, kept = ListOf(schema), Traced(Argument(0))
    return Aggregate(kept, kept, (), lists, (), result=kept, result_schema=lists, listed=ListFold(ALL))


def _with_result(found: Aggregate, target: Any, type_info: TypeInformation | None) -> Aggregate:
    """Return an aggregate with the result of its ``get_result``."""
    try:
        result, schema = named_rows(trace(target, "get_result", 1, changes=True), type_info).typed(found.schema)
        if any(kind == NONE or kind.is_optional for kind in types_in(schema)):
            raise NotVectorizable("gives None")  # which is no result
    except NotVectorizable as refused:
        return replace(found, reason=f"get_result {refused}")
    return replace(found, result=result, result_schema=schema)


@reads
def merge_folds(merged: Traced, schema: Type) -> tuple[Fold, ...]:
    """Return the aggregates of ``merge(one, other)``, typed for accumulators of a schema; raise ``NotVectorizable``."""
    return _folds(merged.result, schema, so_far=0, record=1)


def _constant(expression: Expression) -> Any:
    match expression:
        case Constant(value):
            return value
        case Make(items):
            return tuple(_constant(item) for item in items)
    raise NotVectorizable("starts from something that is computed")


def _folds(result: Expression, schema: Type, so_far: int, record: int) -> tuple[Fold, ...]:
    whole = _extreme(result, schema, so_far, record)
    if whole is not None:
        return whole
    return tuple(_fold(_leaf(result, path), path, kind, so_far, record) for path, kind in atomic_fields(schema))


def _extreme(result: Expression, schema: Type, so_far: int, record: int) -> tuple[Fold, ...] | None:
    """Return the aggregates of ``record if record.field > so_far.field else so_far``, or a variant; else ``None``.

    Of records with equal fields the first stays, as with ``max(so_far, record, key=...)``: what keeps the last has no kernel.
    """
    match result:
        case Choose(condition, Argument(first, ()), Argument(second, ())) if {first, second} == {so_far, record}:
            pass
        case _:
            return None
    kinds = dict(atomic_fields(schema))
    if isinstance(condition, Sequence):  # of tuples that are compared, made before
        items = [item for each in condition.before for item in (each.items if isinstance(each, Make) else (each,))]
        if any(_deciding(item, kinds) is None for item in items):
            return None
        condition = condition.result

    def decides(each: Expression) -> tuple[int, Expression] | None:
        return _deciding(each, kinds)

    def of_own(each: Expression) -> bool:
        found = decides(each)
        return found is not None and found[0] == so_far

    compared = comparison_of(condition, of_own, negated=first == so_far)
    if compared is None or not compared.strict:
        return None
    of = list(map(decides, compared.own))
    new = list(map(decides, compared.new))
    if any(one is None or other is None or one[1] != other[1] for one, other in zip(of, new, strict=True)):
        return None
    deciding = tuple(each[1] for each in of if each is not None)
    if len(deciding) == 1 and isinstance(deciding[0], Argument) and kinds[deciding[0].path] == INT:
        how = "max_by" if compared.how == MOST else "min_by"
        return tuple(Fold(how, each, deciding[0]) for _, each in atomic_fields(schema))
    how = "max_of" if compared.how == MOST else "min_of"
    return tuple(Fold(how, each, Make(deciding)) for _, each in atomic_fields(schema))


def _deciding(expression: Expression, kinds: dict[tuple[int, ...], Atomic]) -> tuple[int, Expression] | None:
    """Return the argument of a value, and its part, if it is an int or text of its own, or an int negated."""
    match _plain(expression):
        case Argument(argument, path) if kinds.get(path) in (INT, STR):
            return argument, Argument(0, path)
        case GetItem(Make(items), index) if all(_deciding(each, kinds) is not None for each in items):
            return _deciding(items[index], kinds)
        case Invoke("negative", (operand,)):
            found = _deciding(operand, kinds)
            if found is not None and isinstance(found[1], Argument) and kinds[found[1].path] == INT:
                return found[0], Invoke("negative", (found[1],))
    return None


def _leaf(expression: Expression, path: tuple[int, ...]) -> Expression:
    """Return the expression of one atomic field of a result."""
    if isinstance(expression, Sequence):
        # What was evaluated before is part of the result or of a test, or it would have been refused: it raises nothing new.
        if any(not isinstance(each, Argument | GetItem) for each in expression.before):
            raise NotVectorizable("computes something that is not part of its result")
        return _leaf(expression.result, path)
    if isinstance(expression, Choose) and path:
        if not _is_total(expression.condition):
            raise NotVectorizable("chooses between whole records by something that may raise")
        then, otherwise = _leaf(expression.then, path), _leaf(expression.otherwise, path)
        # Compared as text: a 1 is not a 1.0 here.
        return then if repr(then) == repr(otherwise) else replace(expression, then=then, otherwise=otherwise)
    for depth, index in enumerate(path):
        if isinstance(expression, Make):
            expression = expression.items[index]
        elif isinstance(expression, Argument):
            return Argument(expression.argument, (*expression.path, *path[depth:]))
        else:
            raise NotVectorizable("chooses between whole records")
    return _plain(expression)


def _is_total(expression: Expression) -> bool:
    """Return True if evaluating the expression never raises."""
    match expression:
        case Invoke(name, given) if name in COMPARISONS or name in ("not", "bool"):
            return all(map(_is_total, given))
        case GetItem(record):
            return _is_total(record)
    return isinstance(expression, Argument | Constant)


def _plain(expression: Expression) -> Expression:
    """Return items of arguments as inputs."""
    if isinstance(expression, GetItem):
        record = _plain(expression.record)
        if isinstance(record, Argument):
            return Argument(record.argument, (*record.path, expression.index))
    return expression


def _fold(expression: Expression, path: tuple[int, ...], kind: Atomic, so_far: int, record: int) -> Fold:
    old = Argument(so_far, path)
    found = recurrence_of(expression, lambda each: _plain(each) == old, _plain)
    if found.how == KEEP:
        return Fold(FIRST, kind, Argument(0, path))
    if isinstance(expression, Argument) and expression.argument == so_far:
        raise NotVectorizable("moves a field of the result so far to another field")
    how = _HOWS.get(found.how)
    if how is not None and (kind == INT or (kind == FLOAT and how == SUM)):
        return Fold(how, kind, _of_record(found.of, so_far, record))
    does = "chooses between" if isinstance(expression, Choose) else "joins"
    return Fold(LAST, kind, _of_record(expression, so_far, record, does))


def _of_record(expression: Expression, so_far: int, record: int, does: str = "joins") -> Expression:
    """Return an expression over the record alone, as argument 0."""
    match expression:
        case Argument(argument, path):
            if argument != record:
                raise NotVectorizable(f"{does} the result so far and the record in a way that has no kernel")
            return Argument(0, path)
    return with_parts(expression, lambda each: _of_record(each, so_far, record, does))


def _numbered(position: Any, schema: Record) -> int:
    """Return the number of a field of records with names."""
    found = schema.position(position) if type(position) is str else position
    by_number = type(position) is int and position >= 0 and schema.form in (NAMED_TUPLE, ROW)
    if schema.form == DOCUMENT or found is None or not (type(position) is str or by_number):
        raise NotVectorizable(f"takes the field {position!r} of {schema}")
    if schema.form == NAMED_TUPLE and not is_inherited(schema.cls or tuple, "_replace"):
        raise NotVectorizable(f"replaces a field of {schema} in a way of its own")
    return int(found)


def _of_fields(forms: tuple[tuple[str, Any], ...], schema: Type) -> tuple[Fold, ...]:
    """Return the aggregates of functions that name their fields; all other fields stay the first record's."""
    leaves = atomic_fields(schema)
    hows: dict[tuple[int, ...], str] = {}
    for how, position in forms:
        wanted = _path_of(position, schema)
        if wanted in hows or all(path != wanted for path, _ in leaves):
            raise NotVectorizable(f"has no single field there in {schema}")
        hows[wanted] = how
        if how in EXTREME:
            # One fold of the whole record: all its leaves are those of the record that has the least or greatest value.
            if dict(leaves)[wanted] != INT:
                raise NotVectorizable(f"takes the {how} of a {dict(leaves)[wanted]}")
            return tuple(Fold(how, kind, Argument(0, wanted)) for _, kind in leaves)
    for path, kind in leaves:
        how = hows.get(path, FIRST)
        if how not in (FIRST, LAST) and (kind not in (INT, FLOAT) or (how != SUM and kind != INT)):
            raise NotVectorizable(f"takes the {how} of a {kind}")
    return tuple(Fold(hows.get(path, FIRST), kind, Argument(0, path)) for path, kind in leaves)


def _path_of(position: Any, schema: Type) -> tuple[int, ...]:
    """Return the path of a field that is named by position or name."""
    if isinstance(schema, Record):
        position = _numbered(position, schema)
    elif type(position) is not int:
        raise NotVectorizable(f"names the field {position!r}")
    if isinstance(schema, Atomic) and position == 0:
        return ()
    if isinstance(schema, Atomic) or not -len(schema) <= position < len(schema):
        raise NotVectorizable(f"has no single field there in {schema}")
    return (position % len(schema),)
