"""JSON documents as columns: whole lines are parsed at once, and only the fields that are read are made.

msgspec parses here as it does document by document, into objects with the wanted fields: those that nobody reads are checked, and
passed over. A piece of text becomes columns only if each value has the type of its field, or is of a type whose values are
converted one by one (times, decimals, bytes). All else is given back, and parsed document by document: lines that hold no object
or several, malformed ones, ``"5"`` as a number, numbers beyond their type.

A document costs 265 ns with three of five fields; Arrow's reader, which was here before, took 490 to 950 (decision 0055).

NumPy, Arrow and msgspec are loaded where text is parsed.
"""

from __future__ import annotations

import importlib
import itertools
import operator
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from funken import extras
from funken.columnar.expressions import NotVectorizable
from funken.connectors.formats.arrow_columns import columns_of_values, is_held
from funken.connectors.formats.json_types import (
    NeedsConversionError,
    has_decimals,
    parsed_exactly,
    scalar_type,
    single_of,
    strict_type,
)
from funken.connectors.formats.record_types import (
    RecordShape,
    element_declared,
    field_types,
    flat_shape,
    getter,
    names_of,
    schema_of_records,
    without_null,
)
from funken.connectors.schemas import is_text
from funken.expr.types import (
    ARRAYS,
    BOOL,
    DOCUMENT,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    Atomic,
    Composite,
    ListOf,
    Object,
    Optional,
    Record,
    Type,
    atomic_fields,
    optional,
    types_in,
)

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Column, Columns

_LINE_FEED, _BRACE, _END = 10, ord("{"), ord("}")
PLAIN_NAME = re.compile(r'[^"\\\x00-\x1f]+')
_UNCHANGEABLE = (type(None), bool, int, float, str)
_TYPES: dict[Type, Any] = {
    INT: int,
    STR: str,
    BOOL: bool,
    Optional(INT): int | None,
    Optional(STR): str | None,
    Optional(BOOL): bool | None,
    NUMBER: int | float,
}
"""Kinds of fields whose values the parser checks. It would take ``1`` for a float."""


def json_record_schema(record_type: Any, shape: RecordShape) -> Type:
    """Return the schema of documents of a declared type; raise ``NotVectorizable`` if they cannot become columns.

    >>> from funken import Types
    >>> from funken.connectors.formats.record_types import shape_of
    >>> sale = Types.ROW_NAMED(["item", "at"], [Types.STRING(), Types.SQL_TIMESTAMP()])
    >>> json_record_schema(sale, shape_of(sale, "an example"))
    Row(item: str, at: datetime)
    """
    schema = schema_of_records(record_type, shape)
    if (name := odd_name(shape)) is not None:
        raise NotVectorizable(f"the parser cannot look for its field {name!r}")
    kinds = [
        _of_declared(kind, Object(str(each.type)), of)
        for kind, each, of in zip(schema, shape.types(), declared_fields(record_type, shape), strict=True)
    ]
    return schema.with_fields(kinds)


def declared_fields(record_type: Any, shape: RecordShape) -> Sequence[Any]:
    """Return the declared types of the fields of records; ``None`` for fields of which nothing is known.

    >>> from funken import Types
    >>> from funken.connectors.formats.record_types import shape_of
    >>> sale = Types.ROW_NAMED(["item"], [Types.STRING()])
    >>> declared_fields(sale, shape_of(sale, "an example"))
    (String,)
    """
    found = () if record_type is None else field_types(record_type)
    if not found and record_type is not None and not isinstance(record_type, type):
        found = shape.types().types
    return found or [None] * len(shape.names)


def _of_declared(kind: Type, otherwise: Atomic, declared: Any) -> Type:
    """Return the schema of a field whose values are those of a declared type; ``otherwise`` stands for others."""
    try:
        strict_type(declared, _checked_record())
    except NeedsConversionError:
        return kind if single_of(declared) and isinstance(kind, Atomic) and is_held(kind) else otherwise
    return _of_json(kind, otherwise)


def _checked_record(*around: Any) -> Callable[[Any], Any]:
    """Return a function from records to msgspec types whose fields are checked and not kept; recursive ones are not."""

    def of_record(declared: Any) -> Any:
        if declared in around:
            return dict | None
        msgspec, shape = importlib.import_module("msgspec"), flat_shape(declared, "JsonSchema")
        fields: list[tuple[Any, ...]] = []
        for number, (name, of) in enumerate(zip(shape.names, declared_fields(declared, shape), strict=True)):
            kind = strict_type(of, _checked_record(*around, declared))
            fields.append((_field(number), kind) if name in shape.required else (_field(number), kind, None))
        names = {_field(number): name for number, name in enumerate(shape.names)}
        return msgspec.defstruct("Checked", fields, rename=names, kw_only=True, gc=False) | None

    return of_record


def _of_json(schema: Type, otherwise: Atomic) -> Type:
    """Return a schema with kinds of values as JSON has them; ``otherwise`` stands for others."""
    if isinstance(schema, Record) and all(map(PLAIN_NAME.fullmatch, schema.names)):
        fields = [_of_json(each, Object(f"{each} of JSON")) for each in schema]
        return schema.with_fields(fields)
    return schema if isinstance(schema, Atomic) and _is_of_json(schema) else otherwise


def _is_of_json(kind: Atomic) -> bool:
    """Return True if a type is one of values as JSON has them, or of lists of such."""
    single = kind.required
    if isinstance(single, ListOf):
        return _of_json(single.element, NONE) == single.element and all(map(_is_of_json, types_in(single.element)))
    return single in ARRAYS


def odd_name(shape: RecordShape) -> str | None:
    """Return the name of a field that the parser cannot look for, if there is one."""
    return next((name for name in shape.names if not PLAIN_NAME.fullmatch(name)), None)


def sampled_schema(documents: Sequence[Any]) -> Type:
    """Return the schema of dicts with the fields that these all have; raise ``NotVectorizable`` if there are none.

    Of a field with values of several types nothing is known.

    >>> sampled_schema([{"item": "tea", "n": 1, "tags": []}, {"n": None, "tags": ["a"], "item": "jam", "at": 7}])
    {item: str, n: int?, tags: list of str, ...}
    >>> sampled_schema([{"user": {"id": 1, "name": "al"}}, {"user": {"id": 2}}])
    {user: {id: int, ...}, ...}
    """
    if not documents or not all(type(each) is dict for each in documents):
        raise NotVectorizable("reads JSON, but a file does not begin with objects, one a line")
    schema = _schema_of_objects(documents)
    if schema is None:
        raise NotVectorizable("reads JSON, but the objects that a file begins with have no field in common")
    return schema


def _schema_of_objects(documents: Sequence[Any]) -> Record | None:
    names = [
        name for name in documents[0] if PLAIN_NAME.fullmatch(name) and all(name in document for document in documents)
    ]
    schemas = [_schema_of_values([document[name] for document in documents]) for name in names]
    return Record(schemas, DOCUMENT, tuple(names)) if names else None


def _schema_of_values(values: Sequence[Any]) -> Type:
    types = set(map(type, values))
    if list in types and types <= {list, type(None)}:
        items = list(itertools.chain.from_iterable(each for each in values if each is not None))
        found = _schema_of_values(items) if items else Object("list of JSON")
        if not items or not all(map(is_held, types_in(found))):
            return Object("list of JSON")
        return optional(ListOf(found)) if type(None) in types else ListOf(found)
    return (_schema_of_objects(values) if types == {dict} else None) or _kind_of(types)


def _kind_of(types: set[type]) -> Atomic:
    if types == {int, float}:
        return NUMBER
    there = types - {type(None)}
    if len(there) == 1 and (single := _SINGLE.get(next(iter(there)))) is not None:
        return optional(single) if type(None) in types else single
    return Object(f"{' or '.join(sorted(each.__name__ for each in there)) or 'None'} of JSON")


_SINGLE: dict[type, Atomic] = {int: INT, float: FLOAT, bool: BOOL, str: STR}


class JsonColumns:
    r"""Makes columns of pieces of lines, each with a document.

    >>> from funken import Types
    >>> from funken.connectors.formats.record_types import shape_of
    >>> sale = Types.ROW_NAMED(["item", "n"], [Types.STRING(), Types.LONG()])
    >>> shape = shape_of(sale, "an example")
    >>> columns = JsonColumns(json_record_schema(sale, shape), [1], shape)
    >>> columns.of_lines(b'{"n": 1, "item": "tea"}\n{"item": "jam", "n": 2}\n').to_list()
    [Row(item=<not read>, n=1), Row(item=<not read>, n=2)]

    The second document is none; it is found when they are parsed one by one:

    >>> columns.of_lines(b'{"n": 1, "item": "tea"}\n{"item": "jam"\n')
    """

    def __init__(
        self, schema: Type, wanted: Sequence[int] | None, shape: RecordShape | None = None, record_type: Any = None
    ) -> None:  # fmt: skip
        assert isinstance(schema, Composite)
        self._schema = schema
        leaves = dict(enumerate(atomic_fields(schema)))
        names = names_of(schema, shape)
        if wanted is not None:
            leaves = {number: leaves[number] for number in wanted}
        converted = {} if shape is None else _conversions(record_type, shape)
        #: of the fields whose values are converted: what takes them from the parser's objects, converts them, and their leaf
        self._converted = [
            (_values_of(_field(at)), convert, next((n for n, (path, _) in leaves.items() if path == (at,)), None))
            for at, (_, convert) in converted.items()
        ]
        leaves = {number: leaf for number, leaf in leaves.items() if leaf[0][0] not in converted}
        types = {at: kind for at, (kind, _) in converted.items()}
        paths = [path for path, _ in leaves.values()]
        self._decode: Callable[[bytes], list[Any]] = _decoder_of(
            schema, names, paths, shape, record_type, types
        ).decode_lines
        #: the fields whose values the parser checks
        self._typed = {number for number, (_, kind) in leaves.items() if _is_checked(kind)}
        #: the fields with lists of objects: these become the parser's objects, too
        within = {number: _objects_in(kind) for number, (_, kind) in leaves.items()}
        self._lists = {number: element for number, element in within.items() if element is not None}
        #: of the wanted fields, what takes them from the parser's objects
        self._getters = {number: _values_of(".".join(map(_field, path))) for number, (path, _) in leaves.items()}

    def of_lines(self, data: bytes) -> Columns | None:
        """Return the records of whole lines; ``None``: they have to be parsed one by one."""
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        rows = objects_of(data)
        if rows is None or not is_text(data):
            return None
        try:
            documents = self._decode(data)
            if len(documents) != rows:
                return None
            values = self._values(documents)
        except Exception:  # noqa: BLE001 - found again, document by document
            return None
        for number, element in self._lists.items():
            found = _lists_where_there(values[number], element)
            if found is None:
                return None
            values[number] = found
        return columns_of_values(self._schema, values, rows, self._typed)

    def _values(self, documents: list[Any]) -> dict[int, Any]:
        values: dict[int, Any] = {number: get(documents) for number, get in self._getters.items()}
        for get, convert, number in self._converted:
            made = list(map(convert, get(documents)))  # also of fields that nobody reads: they have to fit
            if number is not None:
                values[number] = made
        return values


def _conversions(record_type: Any, shape: RecordShape) -> dict[int, tuple[Any, Callable[[Any], Any]]]:
    """Return, for the fields whose values are converted, the parser's type and the conversion."""
    found: dict[int, tuple[Any, Callable[[Any], Any]]] = {}
    raw = importlib.import_module("msgspec").Raw
    for number, of in enumerate(declared_fields(record_type, shape)):
        try:
            strict_type(of, _checked_record())
        except NeedsConversionError:
            convert = shape.into[number]
            found[number] = (raw, _of_raw(convert)) if has_decimals(of) else (Any, convert)
    return found


def _of_raw(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a converter of a part of a document that was not parsed."""
    return lambda raw: None if raw is None else convert(parsed_exactly(bytes(raw)))


class TypedDocuments:
    """Makes records of a declared type of documents, a block at a time, by the parser's objects.

    >>> from funken import Types
    >>> from funken.connectors.formats.record_types import shape_of
    >>> sale = Types.ROW_NAMED(["item", "n"], [Types.STRING(), Types.LONG()])
    >>> TypedDocuments(sale, shape_of(sale, "an example")).records([b'{"n": 1, "item": "tea", "at": 7}'])
    [Row(item='tea', n=1)]

    The names of the fields are no odd ones. Raises anything for a document that the parser does not take, or that lacks a
    field whose default is made anew for each. The parser is made where the first document is.
    """

    def __init__(self, record_type: Any, shape: RecordShape) -> None:
        self._record_type, self._shape = record_type, shape
        self._values = getter(operator.attrgetter, [_field(number) for number in range(len(shape.names))])
        self._decode: Callable[[bytes], Any] | None = None
        self._converts: list[Callable[[Any], Any] | None] = []

    def records(self, messages: Sequence[bytes]) -> list[Any]:
        """Return the records."""
        if self._decode is None:
            self._decode = self._decoder()
        values, build = self._values, self._shape.build or self._shape.make
        documents = map(values, map(self._decode, messages))
        if not any(self._converts):
            return list(map(build, documents))
        converts = self._converts
        return [
            build([value if of is None else of(value) for of, value in zip(converts, document, strict=True)])
            for document in documents
        ]

    def _decoder(self) -> Callable[[bytes], Any]:
        shape, msgspec = self._shape, importlib.import_module("msgspec")
        fields: list[tuple[Any, ...]] = []
        for number, (name, of) in enumerate(zip(shape.names, declared_fields(self._record_type, shape), strict=True)):
            try:
                kind, convert = strict_type(of), None
            except NeedsConversionError:
                into = shape.into[number]
                kind, convert = (msgspec.Raw, _of_raw(into)) if has_decimals(of) else (Any, into)
            self._converts.append(convert)
            default = shape.defaults(name)
            fits = default is None if convert is not None else isinstance(default, _UNCHANGEABLE)
            # Without a default here, documents without the field are parsed one by one.
            fields.append(
                (_field(number), kind, default) if name not in shape.required and fits else (_field(number), kind)
            )
        names = {_field(number): name for number, name in enumerate(shape.names)}
        document = msgspec.defstruct("Document", fields, rename=names, kw_only=True, gc=False)
        decode: Callable[[bytes], Any] = importlib.import_module("msgspec.json").Decoder(document).decode
        return decode


def _field(number: int) -> str:
    return f"f{number}"


def _values_of(name: str) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a function that lists an attribute of objects, in half the time (7 ns each) that ``attrgetter`` takes."""
    values: Callable[[Sequence[Any]], list[Any]] = eval(f"lambda objects: [each.{name} for each in objects]")
    return values


def _decoder_of(
    schema: Sequence[Type], names: Sequence[str], paths: Iterable[tuple[int, ...]], shape: RecordShape | None,
    record_type: Any, converted: Mapping[int, Any],
) -> Any:  # fmt: skip
    """Return a decoder of documents, with the fields at some ``paths`` of a schema.

    The others are checked, and passed over. ``converted`` are the types of fields that are taken as they are. The parser refuses
    values that are not of the kind, or of the declared type, of their field.
    """
    parser = importlib.import_module("msgspec.json")
    return parser.Decoder(_object_type(schema, names, paths, shape, record_type, converted))


def _object_type(
    schema: Sequence[Type], names: Sequence[str], paths: Iterable[tuple[int, ...]], shape: RecordShape | None,
    record_type: Any, converted: Mapping[int, Any] = MappingProxyType({}),
) -> Any:  # fmt: skip
    msgspec = importlib.import_module("msgspec")
    within: dict[int, list[tuple[int, ...]]] = {}
    for first, *rest in paths:
        within.setdefault(first, []).append((*rest,))
    fields: list[tuple[Any, ...]] = []
    declared = [None] * len(names) if shape is None else declared_fields(record_type, shape)
    for number, (name, each, of) in enumerate(zip(names, schema, declared, strict=True)):
        if number not in within and number not in converted and shape is None:
            continue
        if number in converted:
            expected = converted[number]
        elif number not in within:
            expected = strict_type(of, _checked_record(record_type))
        elif isinstance(each, Record):
            fields.append((_field(number), _record_within(each, within[number], of)))
            continue
        else:
            expected = _list_of(each, of) if isinstance(each.required, ListOf) else _leaf_type(each, of)
        # Without a default here, documents without the field are parsed one by one.
        if shape is not None and name not in shape.required:
            default = shape.defaults(name)
            if number not in within and number not in converted:
                default = None  # nobody reads it
            if default is None if number in converted else _is_default(default, expected):
                fields.append((_field(number), expected, default))
                continue
        fields.append((_field(number), expected))
    by_name = {_field(number): name for number, name in enumerate(names)}
    return msgspec.defstruct("Document", fields, rename=by_name, kw_only=True, gc=False)


def _leaf_type(kind: Type, declared: Any) -> Any:
    """Return the parser's type of single values, of a type or of a declared type."""
    single = "" if declared is None else single_of(declared)
    if not single:
        return _TYPES.get(kind, Any)
    return scalar_type(single) | None if kind.is_optional else scalar_type(single)


def _record_within(schema: Record, paths: Iterable[tuple[int, ...]], declared: Any) -> Any:
    """Return the parser's type of records within records, which are no nulls."""
    of = without_null(declared)
    return _object_type(schema, schema.names, paths, None if of is None else flat_shape(of, "JsonSchema"), of)


def _list_of(kind: Type, declared: Any) -> Any:
    """Return the parser's type of lists, with its checks."""
    lists = kind.required
    assert isinstance(lists, ListOf)
    element, of = lists.element, element_declared(without_null(declared))
    if isinstance(element, Record):
        leaves = enumerate(atomic_fields(element))
        inner = _record_within(element, [path for n, (path, _) in leaves if lists.read is None or n in lists.read], of)
    else:
        inner = _list_of(element, of) if isinstance(element.required, ListOf) else _leaf_type(element, of)
    made: Any = list[inner]  # type: ignore[valid-type]
    return made | None if kind.is_optional else made


def _is_checked(kind: Type) -> bool:
    """Return True if the parser checks values of a type, also all in lists."""
    return _is_checked(kind.required.element) if isinstance(kind.required, ListOf) else kind in _TYPES


def _objects_in(kind: Type) -> Atomic | None:
    """Return the type of lists, if their items are objects, or lists of such."""
    lists = kind.required
    within = isinstance(lists, ListOf) and (isinstance(lists.element, Record) or _objects_in(lists.element))
    return kind if within and isinstance(kind, Atomic) else None


def _lists_where_there(values: list[Any], kind: Atomic) -> Column | None:
    """Return lists of the parser's objects, which may be null, as a column; ``None`` if their types differ."""
    lists = kind.required
    assert isinstance(lists, ListOf)
    if not kind.is_optional:
        return lists_of_objects(values, lists)
    found = lists_of_objects([each for each in values if each is not None], lists)
    columns = importlib.import_module("funken.columnar.kernels.columns")
    return None if found is None else columns.lists_or_none(found, [each is not None for each in values])


def lists_of_objects(values: list[Any], of: ListOf) -> Column | None:
    """Return lists of the parser's objects, or of lists of such, as a column; ``None`` if some types differ."""
    columns = importlib.import_module("funken.columnar.kernels.columns")
    counts = extras.load("numpy").fromiter(map(len, values), "int64", len(values))
    items = list(itertools.chain.from_iterable(values))
    found: dict[int, Any] = {}
    leaves = list(atomic_fields(of.element))
    for number, (path, kind) in enumerate(leaves):
        if of.read is not None and number not in of.read:
            continue
        found[number] = _values_of(".".join(map(_field, path)))(items) if path else items
        within = _objects_in(kind)
        if within is not None:
            found[number] = _lists_where_there(found[number], within)
            if found[number] is None:
                return None
    checked = {number for number, (_, kind) in enumerate(leaves) if _is_checked(kind)}
    content = columns_of_values(of.element, found, len(items), checked)
    return None if content is None else columns.lists_with(of.element, counts, content)


def _is_default(value: Any, expected: Any) -> bool:
    """Return True if a value that cannot be changed is of a type, or of one of several, exactly: ``True`` is no int."""
    if not isinstance(value, _UNCHANGEABLE):
        return False
    if expected is Any:
        return True
    if typing.get_origin(expected) is typing.Annotated:
        return _is_default(value, typing.get_args(expected)[0])
    if typing.get_origin(expected) in (types.UnionType, typing.Union):
        return any(_is_default(value, each) for each in typing.get_args(expected))
    return type(value) is expected


def objects_of(data: bytes) -> int | None:
    """Return the number of lines, if each begins and ends as an object does; else ``None``.

    Within a document no object begins where one has just ended, so documents end where such lines end.
    """
    numpy = extras.load("numpy")
    text = numpy.frombuffer(data, numpy.uint8)
    if data.endswith(b"\n"):
        text = text[:-1]
    if len(text) < 2 or text[0] != _BRACE or text[-1] != _END:
        return None
    lines = numpy.flatnonzero(text == _LINE_FEED)
    if not ((text[lines - 1] == _END).all() and (text[lines + 1] == _BRACE).all()):
        return None
    return len(lines) + 1
