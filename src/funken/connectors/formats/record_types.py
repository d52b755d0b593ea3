"""Records of formats: one description for all ways to declare a record.

A *record type* is a dataclass, a named tuple class, ``Types.ROW_NAMED(...)``, ``Types.ROW(...)``, ``Types.TUPLE(...)``, or a
schema of Arrow, whose records are dicts. All are described by names, types of Arrow (imported here only where types
matter), and two functions: from values in the order of the names to a record, and back. Nothing is converted here: a format
that has text makes values of the types first.
"""

from __future__ import annotations

import datetime
import decimal
import operator
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any

from funken import extras
from funken.columnar.expressions import NotVectorizable
from funken.columnar.records import NOT_READ, form_of
from funken.connectors.formats.arrow_columns import is_held, kind_of_type
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.expr.types import DICT, ROW, Atomic, Composite, ListOf, Object, Record, Tuple, Type, optional
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
    Types,
)
from funken.types.row import Instant, Row, make_row
from funken.types.text import datetime_of_instant, instant_of_datetime, limits, shown

_BASIC = {
    BasicType.STRING: "string", BasicType.CHAR: "string", BasicType.BOOLEAN: "bool_", BasicType.BYTE: "int8",
    BasicType.SHORT: "int16", BasicType.INT: "int32", BasicType.LONG: "int64", BasicType.FLOAT: "float32",
    BasicType.DOUBLE: "float64",
}  # fmt: skip
_PYTHON = {str: "string", bool: "bool_", int: "int64", float: "float64", bytes: "binary"}


@dataclass(frozen=True)
class RecordShape:
    """The fields of a record type, and the conversions between records and values.

    ``required`` are the names without a default; ``types`` returns the schema of Arrow.

    >>> from funken import Types
    >>> shape = shape_of(Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.INT()]), "an example")
    >>> shape.names, shape.make(["to", 2]), shape.values(Row(word="be", n=3))
    (('word', 'n'), Row(word='to', n=2), ('be', 3))
    """

    names: tuple[str, ...]
    make: Callable[[Sequence[Any]], Any]
    values: Callable[[Any], Sequence[Any]]
    types: Callable[[], Any]
    required: frozenset[str] = frozenset()
    defaults: Callable[[str], Any] = lambda name: None
    into: tuple[Callable[[Any], Any], ...] = ()
    """The conversions of the values of fields in ``make``; nothing: they stay as they are."""
    build: Callable[[Sequence[Any]], Any] | None = None
    """The maker of records of values that are those of the type already."""
    out: tuple[Callable[[Any], Any], ...] = ()
    """The conversions of the values of fields in ``values``; nothing: they stay as they are."""


_MISFITS = (ValueError, TypeError, ArithmeticError, AttributeError)


class Leaves:
    """A converter between single values of declared types and those of a format; ``None`` stays ``None``.

    Derive from it: here all values stay as they are.
    """

    is_strict = False
    """True if lists, maps and values of which nothing is declared are looked at, too."""

    def into(self, declared: Any) -> Callable[[Any], Any] | None:
        """Return a converter from the format to a type; ``None``: the values are the same."""
        return None

    def out(self, declared: Any) -> Callable[[Any], Any] | None:
        """Return a converter from a type to the format; ``None``: the values are the same."""
        return None

    def rest(self, value: Any) -> Any:
        """Return a value of which nothing is declared."""
        return value

    def key(self, value: Any) -> Any:
        """Return the key of a map as the format has it."""
        return value


def shape_of(record_type: Any, who: str, around: tuple[Any, ...] = (), leaves: Leaves | None = None) -> RecordShape:
    """Describe a record type; raises ``InvalidProgram``, with ``who`` in the message, for other objects.

    ``leaves`` are the conversions of single values; where they fail, ``ValueError`` names the field.

    Records within records, also in lists and maps, are of their types too; their values are dicts. ``around`` are the types that
    this one is in: one that is in itself is left as it is there, a dict.

    >>> from funken import Types
    >>> sale = Types.ROW_NAMED(["item"], [Types.STRING()])
    >>> shape = shape_of(Types.ROW_NAMED(["sales"], [Types.LIST(sale)]), "an example")
    >>> shape.make([[{"item": "tea"}, None]]), shape.values(Row(sales=[Row(item="jam")]))
    (Row(sales=[Row(item='tea'), None]), [[{'item': 'jam'}]])
    >>> shape_of(int, "CsvSchema")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: CsvSchema cannot make records of <class 'int'>; pass a dataclass, a named tuple class,
    Types.ROW_NAMED([...], [...]), Types.TUPLE([...]) or a schema of Arrow.
    """
    shape = flat_shape(record_type, who)
    declared = field_types(record_type)
    if leaves is not None and not declared:
        is_arrow = not isinstance(record_type, type | TypeInformation)
        declared = list(record_type.types) if is_arrow else [None] * len(shape.names)
    within = [_within(each, who, (*around, record_type), leaves) for each in declared]
    if not any(within):
        return shape
    into = [_same if each is None else each[0] for each in within]
    out = [_same if each is None else each[1] for each in within]
    make, values = shape.make, shape.values
    if leaves is not None:
        named = (_converter(shape.names, into), _converter(shape.names, out))
        return replace(
            shape, make=lambda given: make(named[0](given)), values=lambda record: named[1](values(record)),
            into=tuple(into), build=make, out=tuple(out),
        )  # fmt: skip
    return replace(
        shape,
        into=tuple(into),
        build=make,
        make=lambda given: make([convert(value) for convert, value in zip(into, given, strict=True)]),
        values=lambda record: [convert(value) for convert, value in zip(out, values(record), strict=True)],
    )


def _converter(names: Sequence[str], converts: Sequence[_Convert]) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a converter of the values of fields; its ``ValueError`` names the field."""

    def convert(values: Sequence[Any]) -> list[Any]:
        try:
            return [one(value) for one, value in zip(converts, values, strict=True)]
        except _MISFITS as error:
            for name, one, value in zip(names, converts, values, strict=False):
                try:
                    one(value)
                except _MISFITS as found:
                    raise ValueError(f"field {name!r}: {found}") from None
            raise ValueError(f"it has {len(values)} field(s) and not {len(names)}: {', '.join(names)}") from error

    return convert


def flat_shape(record_type: Any, who: str) -> RecordShape:
    """Describe a record type, and leave the values of its fields as they are."""
    if isinstance(record_type, RowTypeInfo):
        names = record_type.get_field_names()
        named = list(names) if record_type.field_names else None
        return RecordShape(
            tuple(names), lambda values: make_row(named, list(values)), _by_position_or_name(names),
            lambda: _schema(names, record_type.field_types, who),
        )  # fmt: skip
    if isinstance(record_type, TupleTypeInfo):
        names = [f"f{index}" for index in range(len(record_type.field_types))]
        return RecordShape(tuple(names), tuple, tuple, lambda: _schema(names, record_type.field_types, who))
    if isinstance(record_type, type) and is_dataclass(record_type):
        return _of_dataclass(record_type, who)
    if isinstance(record_type, type) and issubclass(record_type, tuple) and hasattr(record_type, "_fields"):
        return _of_named_tuple(record_type, who)
    if type(record_type).__module__.split(".")[0] == "pyarrow" and hasattr(record_type, "names"):
        names = list(record_type.names)
        return RecordShape(
            tuple(names), lambda values: dict(zip(names, values, strict=True)), _of_mapping(names), lambda: record_type
        )
    raise InvalidProgram(
        f"{who} cannot make records of {record_type!r}; pass a dataclass, a named tuple class, Types.ROW_NAMED([...], [...]), "
        "Types.TUPLE([...]) or a schema of Arrow."
    )


def from_documents(shape: RecordShape) -> Callable[[Any], Any]:
    """Return a function from dicts to records: missing fields have their defaults, other keys are dropped.

    >>> @dataclass
    ... class Count:
    ...     word: str
    ...     n: int = 1
    >>> make = from_documents(shape_of(Count, "an example"))
    >>> make({"word": "to", "other": 0})
    Count(word='to', n=1)
    >>> make({"n": 1})
    Traceback (most recent call last):
    ...
    ValueError: field 'word' is missing
    """
    names, required, defaults = shape.names, shape.required, shape.defaults
    build, into = shape.build or shape.make, shape.into

    def values_of(document: Any) -> list[Any]:
        if not isinstance(document, dict):
            raise ValueError(f"it is no object, but {type(document).__name__}")
        if not required <= document.keys():
            raise ValueError(f"field {min(required - document.keys())!r} is missing")
        if into:
            return [_converted(name, convert, document, defaults) for name, convert in zip(names, into, strict=True)]
        return [document[name] if name in document else defaults(name) for name in names]

    return lambda document: build(values_of(document))


def _converted(name: str, convert: Callable[[Any], Any], document: Any, defaults: Callable[[str], Any]) -> Any:
    """Return the value of a field; defaults are of the type already."""
    if name not in document:
        return defaults(name)
    try:
        return convert(document[name])
    except _MISFITS as error:
        raise ValueError(f"field {name!r}: {error}") from None


def shape_of_dicts(shape: RecordShape) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a converter of the values of dicts, as ``values`` is of records; a dict may have fewer fields, or more.

    >>> from funken import Types
    >>> shape_of_dicts(shape_of(Types.ROW_NAMED(["n"], [Types.INT()]), "an example"))({"n": 1, "more": 2})
    {'n': 1, 'more': 2}
    """
    converts = dict(zip(shape.names, shape.out, strict=False))

    def convert(record: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for name, value in record.items():
            try:
                found[name] = converts[name](value) if name in converts else value
            except _MISFITS as error:
                raise ValueError(f"field {name!r}: {error}") from None
        return found

    return convert


def named_document(record: Any) -> Mapping[Any, Any]:
    """Return a record as a mapping of its fields; raise ``TypeError`` for one without names.

    >>> named_document(("tea", 3))
    Traceback (most recent call last):
    ...
    TypeError: a tuple has no named fields; make a dict of it in a map() before
    """
    document = as_document(record)
    if not isinstance(document, Mapping):
        raise TypeError(f"a {type(record).__name__} has no named fields; make a dict of it in a map() before")
    return document


def as_document(value: Any) -> Any:
    """Return a record as a dict, if it has named fields; else as it is.

    >>> as_document(Row(word="to", n=2)), as_document({"n": 1}), as_document(7)
    ({'word': 'to', 'n': 2}, {'n': 1}, 7)
    """
    if isinstance(value, Row):
        return value.as_dict(recursive=True)
    if is_dataclass(value) and not isinstance(value, type | Instant):
        return {each.name: _as_part(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, map(_as_part, value), strict=True))
    return value


def _as_part(value: Any) -> Any:
    """Return a value within a record as a document, also in lists and dicts."""
    if isinstance(value, list):
        return [_as_part(each) for each in value]
    if isinstance(value, dict):
        return {key: _as_part(each) for key, each in value.items()}
    return as_document(value)


# ---- records within records

_Convert = Callable[[Any], Any]
_Missing = type(MISSING)  # of a class that was pickled by value, a field without a default has another object of it


def _same(value: Any) -> Any:
    return value


def field_types(record_type: Any) -> Sequence[Any]:
    """Return the declared types of the fields; nothing if they are not known."""
    if isinstance(record_type, RowTypeInfo | TupleTypeInfo):
        return record_type.field_types
    if not isinstance(record_type, type):
        return ()
    try:
        hints = typing.get_type_hints(record_type)
    except (NameError, TypeError):  # a class of a function whose annotations are text
        return ()
    names = (
        [each.name for each in fields(record_type) if each.init]
        if is_dataclass(record_type)
        else _names_of(record_type)
    )
    return [hints.get(name) for name in names]


def _names_of(record_type: Any) -> Sequence[str]:
    names: Sequence[str] = record_type._fields
    return names


def _within(
    declared: Any, who: str, around: tuple[Any, ...], leaves: Leaves | None = None
) -> tuple[_Convert, _Convert] | None:
    """Return a converter between the records in a value and dicts; ``None`` if there are none."""
    single = None if leaves is None else _of_single(declared, leaves)
    if single is not None:
        return single
    is_strict = leaves is not None and leaves.is_strict
    otherwise = (_rest(leaves), _same) if is_strict else None
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin in (types.UnionType, typing.Union):
        there = [one for one in arguments if one is not type(None)]
        return _within(there[0], who, around, leaves) if len(there) == 1 else otherwise
    element = _element_of(declared)
    if element is not None:
        inner = _within(element, who, around, leaves)
        return None if inner is None else (_of_list(inner[0], is_strict), _of_list(inner[1], is_strict, tuple))
    pair = _pair_of(declared)
    if pair is not None:
        inner = _within(pair[1], who, around, leaves)
        if is_strict:
            assert leaves is not None
            keys = _of_single(pair[0], leaves) or (_same, _same)
            into, out = inner or (_same, _same)
            return _of_dict(into, keys[0], is_strict), _of_dict(out, _then(keys[1], leaves.key), is_strict)
        return None if inner is None else (_of_dict(inner[0]), _of_dict(inner[1]))
    is_record = isinstance(declared, RowTypeInfo | TupleTypeInfo) or (
        isinstance(declared, type) and (is_dataclass(declared) or hasattr(declared, "_fields"))
    )
    if not is_record or declared in around:
        return otherwise
    shape = shape_of(declared, who, around, leaves)
    return _or_none(from_documents(shape)), _or_none(_document_of(shape))


def _element_of(declared: Any) -> Any:
    """Return the declared type of the elements of lists; ``None``: it is no list."""
    if isinstance(declared, OfElements):
        return declared.element_type
    if typing.get_origin(declared) is list:
        return typing.get_args(declared)[0]
    return getattr(declared, "value_type", None) if type(declared).__name__ in ("ListType", "LargeListType") else None


def _pair_of(declared: Any) -> tuple[Any, Any] | None:
    """Return the declared types of the keys and values of maps; ``None``: it is no map."""
    if isinstance(declared, MapTypeInfo):
        return declared.key_type, declared.value_type
    return typing.get_args(declared) if typing.get_origin(declared) is dict else None


def _of_single(declared: Any, leaves: Leaves) -> tuple[_Convert, _Convert] | None:
    into, out = leaves.into(declared), leaves.out(declared)
    if into is None and out is None:
        return None
    return _or_none(into or _same), _or_none(out or _same)


def _rest(leaves: Leaves | None) -> _Convert:
    return _same if leaves is None else leaves.rest


def _then(first: _Convert, second: _Convert) -> _Convert:
    return lambda value: second(first(value))


def _document_of(shape: RecordShape) -> _Convert:
    names, values = shape.names, shape.values
    return lambda record: record if isinstance(record, dict) else dict(zip(names, values(record), strict=True))


def _or_none(convert: _Convert) -> _Convert:
    return lambda value: value if value is None or value is NOT_READ else convert(value)


def _of_list(convert: _Convert, is_strict: bool = False, *also: type) -> _Convert:
    """Return a converter of the elements of lists; if strict, it refuses others; ``also`` are list types."""
    kinds = (list, *also)

    def converted(values: Any) -> list[Any]:
        if is_strict and not isinstance(values, kinds):
            raise ValueError(f"{values!r:.60} is no list")
        return [convert(value) for value in values]

    return _or_none(converted)


def _of_dict(convert: _Convert, key: _Convert = _same, is_strict: bool = False) -> _Convert:
    def converted(values: Any) -> dict[Any, Any]:
        if is_strict and not isinstance(values, dict):
            raise ValueError(f"{values!r:.60} is no map")
        return {key(name): convert(value) for name, value in values.items()}

    return _or_none(converted)


def _of_dataclass(record_type: type, who: str) -> RecordShape:
    declared = [each for each in fields(record_type) if each.init]
    by_name = {each.name: each for each in declared}
    names = list(by_name)

    def default(name: str) -> Any:
        factory: Any = by_name[name].default_factory
        return by_name[name].default if isinstance(factory, _Missing) else factory()

    def by_name_only(values: Sequence[Any]) -> Any:
        return record_type(**dict(zip(names, values, strict=True)))

    # Hot: by position, a record costs half.
    make = by_name_only if any(each.kw_only for each in declared) else lambda values: record_type(*values)
    defaults = ((each.name, each.default, each.default_factory) for each in declared)
    required = {name for name, *given in defaults if all(isinstance(each, _Missing) for each in given)}
    return RecordShape(
        tuple(names), make, getter(operator.attrgetter, names), lambda: _annotated(record_type, names, who),
        frozenset(required), default,
    )  # fmt: skip


def _of_named_tuple(record_type: Any, who: str) -> RecordShape:
    defaults = dict(record_type._field_defaults)
    names = list(record_type._fields)
    return RecordShape(
        tuple(names), record_type._make, tuple, lambda: _annotated(record_type, names, who),
        frozenset(names) - defaults.keys(), defaults.get,
    )  # fmt: skip


def getter(maker: Any, names: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    """Return a function from an object to values, also one or none, as ``operator.attrgetter`` or ``itemgetter``.

    >>> getter(operator.itemgetter, ["n"])({"n": 1, "item": "tea"})
    (1,)
    """
    if not names:
        return lambda record: ()
    get = maker(*names)
    return get if len(names) > 1 else lambda record: (get(record),)


def _of_mapping(names: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    def values(record: Any) -> Sequence[Any]:
        document = as_document(record)
        if not isinstance(document, dict):
            raise TypeError(f"{type(record).__name__} has no named fields; {', '.join(names)} are to be written")
        return [document.get(name) for name in names]

    return values


def _by_position_or_name(names: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    """Rows may have their fields in another order, and plain tuples stand for rows."""
    get, ordered = getter(operator.itemgetter, names), list(names)

    def values(record: Any) -> Sequence[Any]:
        if isinstance(record, Row) and record._fields is not None and record._fields != ordered:
            return get(record)
        if isinstance(record, dict):
            return [record.get(name) for name in names]
        return tuple(record)

    return values


# ---- types of Arrow


def arrow_type(declared: Any, who: str) -> Any:
    """Return the type of Arrow for a type of ``Types`` or an annotation; raises ``InvalidProgram`` if there is none.

    >>> from funken import Types
    >>> arrow_type(Types.LIST(Types.INT()), "an example"), arrow_type(dict[str, float], "an example")
    (ListType(list<item: int32>), MapType(map<string, double>))
    """
    arrow = extras.load("pyarrow")
    found = _of_info(arrow, declared, who) if isinstance(declared, TypeInformation) else _of_hint(arrow, declared, who)
    if found is None:
        raise InvalidProgram(
            f"{who} knows no type of Arrow for {declared!r}; declare numbers, text, bytes, dates, times, decimals, "
            "lists, maps or records of them, or pass a schema of Arrow."
        )
    return found


def _of_info(arrow: Any, declared: TypeInformation, who: str) -> Any:
    match declared:
        case BasicTypeInfo(basic) if basic in _BASIC:
            return getattr(arrow, _BASIC[basic])()
        case BasicTypeInfo(BasicType.BIG_INT):
            return arrow.decimal128(38, 0)
        case BasicTypeInfo(BasicType.BIG_DEC):
            return arrow.decimal128(38, 18)
        case BasicTypeInfo(BasicType.INSTANT):
            return arrow.timestamp("us", "UTC")
        case SqlTimeTypeInfo(TimeType.DATE):
            return arrow.date32()
        case SqlTimeTypeInfo(TimeType.TIME):
            return arrow.time64("us")
        case SqlTimeTypeInfo(TimeType.TIMESTAMP):
            return arrow.timestamp("us")
        case PrimitiveArrayTypeInfo(BasicTypeInfo(BasicType.BYTE)):
            return arrow.binary()
        case OfElements(element):
            return arrow.list_(arrow_type(element, who))
        case MapTypeInfo(keys, values):
            return arrow.map_(arrow_type(keys, who), arrow_type(values, who))
        case RowTypeInfo() | TupleTypeInfo():
            return arrow.struct(list(shape_of(declared, who).types()))
    return None


def _of_hint(arrow: Any, hint: Any, who: str) -> Any:
    if hint in _PYTHON:
        return getattr(arrow, _PYTHON[hint])()
    if hint in (datetime.datetime, datetime.date, datetime.time, decimal.Decimal):
        if hint is decimal.Decimal:
            return arrow.decimal128(38, 18)
        return {datetime.datetime: arrow.timestamp("us"), datetime.date: arrow.date32()}.get(hint, arrow.time64("us"))
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        there = [one for one in arguments if one is not type(None)]
        return arrow_type(there[0], who) if len(there) == 1 else None
    if origin is list:
        return arrow.list_(arrow_type(arguments[0], who))
    if origin is dict:
        return arrow.map_(arrow_type(arguments[0], who), arrow_type(arguments[1], who))
    if isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields")):
        return arrow.struct(list(shape_of(hint, who).types()))
    return None


def _schema(names: Sequence[str], declared: Sequence[Any], who: str) -> Any:
    arrow = extras.load("pyarrow")
    return arrow.schema([(name, arrow_type(each, who)) for name, each in zip(names, declared, strict=True)])


def _annotated(record_type: type, names: Sequence[str], who: str) -> Any:
    try:
        hints = typing.get_type_hints(record_type)
    except NameError as error:  # a class of a function whose annotations are text
        raise InvalidProgram(
            f"{who} cannot resolve the annotations of {record_type.__name__} ({error}); define its types in a module."
        ) from None
    missing = [name for name in names if name not in hints]
    if missing:
        raise InvalidProgram(
            f"{who} needs the type of the field {missing[0]!r} of {record_type.__name__}; annotate it."
        )
    return _schema(names, [hints[name] for name in names], who)


# ---- The schema of records of a declared type, those within them included: what columns of their fields are.
#
# What is within a record is made of its own type, also in lists: a data class, a named tuple, a row. A class whose
# objects may do more than to keep values has no columns: a field of it has a kind that no column holds.


_OTHER_THAN_ARROWS = (Types.INSTANT(), Types.BIG_INT())
"""Types whose values are others than those of the type of Arrow that stands for them."""


def schema_of_records(record_type: Any, shape: RecordShape, of_type: Callable[[Any], Type] | None = None) -> Composite:
    """Return the schema of records of a declared type; raise ``NotVectorizable`` if they are no more than their fields.

    ``of_type`` returns the schema of the values of a type of Arrow, where that is declared.

    >>> from funken import Types
    >>> sale = Types.ROW_NAMED(["item", "n"], [Types.STRING(), Types.INT()])
    >>> schema_of_records(sale, shape_of(sale, "an example"))
    Row(item: str, n: int)
    >>> sales = Types.ROW_NAMED(["first", "all"], [sale, Types.LIST(sale)])
    >>> schema_of_records(sales, shape_of(sales, "an example"))
    Row(first: Row(item: str, n: int), all: list of Row(item: str, n: int))
    """
    declared = field_types(record_type) or [None] * len(shape.names)
    kinds = [
        _schema_of_field(of, each.type) if of_type is None else of_type(each.type)
        for of, each in zip(declared, shape.types(), strict=True)
    ]
    if isinstance(record_type, TupleTypeInfo):
        return Tuple(kinds)
    if isinstance(record_type, RowTypeInfo):
        if not record_type.field_names:
            raise NotVectorizable("reads rows whose fields have no names")
        return Record(kinds, ROW, shape.names)
    if not isinstance(record_type, type):
        return Record(kinds, DICT, shape.names)
    form = form_of(record_type)
    if form is None or form[1] != shape.names:
        raise NotVectorizable(f"an object of {record_type.__name__} may do more than to keep values")
    kinds = [
        optional(kind) if isinstance(kind, Atomic) and is_held(kind) and _may_be_none(hint) else kind
        for hint, kind in zip(declared, kinds, strict=True)
    ]
    return Record(kinds, form[0], shape.names, record_type)


def _may_be_none(hint: Any) -> bool:
    return typing.get_origin(hint) in (types.UnionType, typing.Union) and type(None) in typing.get_args(hint)


def _schema_of_field(declared: Any, type_: Any) -> Type:
    """Return the schema of values of a declared type, which ``type_`` of Arrow has a place for."""
    if declared in _OTHER_THAN_ARROWS:
        return Object(repr(declared))  # no column holds these
    kind = kind_of_type(type_)
    declared, of = without_null(declared), extras.load("pyarrow").types
    if declared is not None and of.is_list(type_) and not _is_plain_list(kind, declared):
        found = ListOf(_schema_of_field(element_declared(declared), type_.value_type))
        return found if is_held(found) else kind
    if of.is_list(type_) and element_declared(declared) in _OTHER_THAN_ARROWS:
        return Object(str(type_))
    if declared is None or not of.is_struct(type_):
        return kind  # of what a schema of Arrow has within a struct, nothing is made but dicts
    try:
        within = schema_of_records(declared, shape_of(declared, "a record within a record"))
    except NotVectorizable:
        return kind
    return within if isinstance(within, Record) else kind


def _is_plain_list(kind: Type, declared: Any) -> bool:
    return isinstance(kind, ListOf) and element_declared(declared) not in _OTHER_THAN_ARROWS


# ---- what has to be there


def without_null(declared: Any) -> Any:
    """Return a declared type without ``None``; ``None`` if it is not one type.

    >>> without_null(int | None), without_null(list[int])
    (<class 'int'>, list[int])
    """
    if not _may_be_none(declared):
        return declared
    there = [each for each in typing.get_args(declared) if each is not type(None)]
    return there[0] if len(there) == 1 else None


def element_declared(declared: Any) -> Any:
    """Return the declared type of the items of lists; ``None`` for any other."""
    if isinstance(declared, OfElements):
        return declared.element_type
    return typing.get_args(declared)[0] if typing.get_origin(declared) is list else None


def names_of(schema: Type, shape: RecordShape | None) -> tuple[str, ...]:
    """Return the names of the columns that the fields of a schema are read from."""
    if isinstance(schema, Record):
        return schema.names
    assert shape is not None
    return shape.names


# ---- Values of declared types whose form in files is another: points in time and whole numbers without bounds.
#
# Parquet, ORC and Avro have ``Types.INSTANT()`` as a timestamp in UTC, in microseconds, and ``Types.BIG_INT()`` as
# a decimal.


Convert = Callable[[Any], Any]


class StoredLeaves(Leaves):
    """The conversions of single values, as ``record_types.py`` asks for them."""

    def into(self, declared: Any) -> Convert | None:
        """Return a converter from files to the type."""
        return {Types.INSTANT(): _instant, Types.BIG_INT(): _whole}.get(_hashed(declared))

    def out(self, declared: Any) -> Convert | None:
        """Return a converter from the type to files."""
        if declared == PrimitiveArrayTypeInfo(Types.BYTE()):
            return _bytes
        if declared in (Types.BYTE(), Types.SHORT()):
            return _BYTE if declared == Types.BYTE() else _SHORT  # Avro has neither
        return {Types.INSTANT(): _datetime, Types.BIG_INT(): _decimal}.get(_hashed(declared))


def has_other_values(record_type: Any) -> bool:
    """Return True if fields of records have other values in files, those of records within included."""
    text = repr(record_type)
    return any(repr(each) in text for each in (Types.INSTANT(), Types.BIG_INT()))


def _hashed(declared: Any) -> Any:
    return declared if declared in (Types.INSTANT(), Types.BIG_INT()) else None


def _instant(value: Any) -> Any:
    return instant_of_datetime(value) if isinstance(value, datetime.datetime) else value


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, decimal.Decimal) else value


def _datetime(value: Any) -> Any:
    if isinstance(value, Instant):
        return datetime_of_instant(value)
    if not isinstance(value, datetime.datetime):
        raise ValueError(f"{shown(value)} is no Instant")
    return value


def _decimal(value: Any) -> Any:
    if type(value) is not int:
        raise ValueError(f"{shown(value)} is no whole number")
    return decimal.Decimal(value)


def _whole_of(bits: int) -> Convert:
    low, high = limits(bits)

    def check(value: Any) -> Any:
        if isinstance(value, int) and not low <= value <= high:
            raise ValueError(f"{value} is beyond whole numbers of {bits} bits")
        return value

    return check


_BYTE, _SHORT = _whole_of(8), _whole_of(16)


def _bytes(value: Any) -> Any:
    return bytes(each & 0xFF for each in value) if isinstance(value, list | tuple) else value
