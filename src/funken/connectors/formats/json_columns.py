"""JSON documents as columns: whole lines are parsed at once, and only the fields that are read are made.

msgspec parses here as it does document by document, into objects with the wanted fields: those that nobody reads are checked, and
passed over. ``JsonSchema`` keeps the values of a document as they are, whatever the declared type is. So a piece of text becomes
columns only if each value has the type of its field: ``1`` is no float, and ``1.0`` no int. All else is given back, and
parsed document by document: lines that hold no object or several, malformed ones, fields of other types, numbers beyond 64 bits.

A document costs 265 ns with three of five fields; Arrow's reader, which was here before, took 490 to 950 (decision 0055).

NumPy, Arrow and msgspec are loaded where text is parsed.
"""

from __future__ import annotations

import importlib
import itertools
import operator
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from funken.columnar.expressions import (
    ARRAYS,
    NUMBER,
    ListOf,
    NotVectorizable,
    RecordSchema,
    kinds_of,
    leaves_of,
    optional,
    without_none,
)
from funken.columnar.records import DOCUMENT, NamedFields
from funken.connectors.formats.arrow_columns import columns_of_values, is_held
from funken.connectors.formats.declared import element_declared, names_of, needed_of, schema_of_records, without_null
from funken.connectors.formats.record_types import RecordShape, field_types, getter, shape_of
from funken.connectors.formats.text_columns import is_text

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Column, Columns

_LINE_FEED, _BRACE, _END = 10, ord("{"), ord("}")
_PLAIN_NAME = re.compile(r'[^"\\\x00-\x1f]+')
_UNCHANGEABLE = (type(None), bool, int, float, str)
_TYPES: dict[str, Any] = {
    "int": int,
    "str": str,
    "bool": bool,
    "int?": int | None,
    "str?": str | None,
    "bool?": bool | None,
    NUMBER: int | float,
}
"""Kinds of fields whose values the parser checks. It would take ``1`` for a float."""


def json_record_schema(record_type: Any, shape: RecordShape) -> RecordSchema:
    """Return the schema of documents of a declared type; raise ``NotVectorizable`` if they cannot become columns.

    >>> from funken import Types
    >>> from funken.connectors.formats.record_types import shape_of
    >>> sale = Types.ROW_NAMED(["item", "at"], [Types.STRING(), Types.SQL_TIMESTAMP()])
    >>> json_record_schema(sale, shape_of(sale, "an example"))
    Row(item: str, at: timestamp[us])
    """
    schema = schema_of_records(record_type, shape)
    if (name := odd_name(shape)) is not None:
        raise NotVectorizable(f"the parser cannot look for its field {name!r}")
    # Of a document, dates are text: of such a field nothing is known.
    kinds = [_of_json(kind, str(each.type)) for kind, each in zip(schema, shape.types(), strict=True)]
    if isinstance(schema, NamedFields):
        return NamedFields(kinds, schema.form, schema.names, schema.cls)
    return tuple(kinds)


def _of_json(schema: RecordSchema, otherwise: str) -> RecordSchema:
    """Return a schema with kinds of values as JSON has them; ``otherwise`` stands for others."""
    if isinstance(schema, NamedFields) and all(map(_PLAIN_NAME.fullmatch, schema.names)):
        fields = [_of_json(each, f"{each} of JSON") for each in schema]
        return NamedFields(fields, schema.form, schema.names, schema.cls)
    return schema if isinstance(schema, str) and _is_of_json(schema) else otherwise


def _is_of_json(kind: str) -> bool:
    """Whether a kind is one of values as JSON has them, or of lists of such."""
    if isinstance(kind, ListOf):
        return _of_json(kind.element, "") == kind.element and all(map(_is_of_json, kinds_of(kind.element)))
    return without_none(kind) in ARRAYS


def odd_name(shape: RecordShape) -> str | None:
    """Return the name of a field that the parser cannot look for, if there is one."""
    return next((name for name in shape.names if not _PLAIN_NAME.fullmatch(name)), None)


def sampled_schema(documents: Sequence[Any]) -> RecordSchema:
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


def _schema_of_objects(documents: Sequence[Any]) -> NamedFields | None:
    names = [
        name for name in documents[0] if _PLAIN_NAME.fullmatch(name) and all(name in document for document in documents)
    ]
    schemas = [_schema_of_values([document[name] for document in documents]) for name in names]
    return NamedFields(schemas, DOCUMENT, tuple(names)) if names else None


def _schema_of_values(values: Sequence[Any]) -> RecordSchema:
    types = set(map(type, values))
    if list in types and types <= {list, type(None)}:
        items = list(itertools.chain.from_iterable(each for each in values if each is not None))
        found = _schema_of_values(items) if items else ""
        known = items and all(map(is_held, kinds_of(found)))
        return ListOf(found, missing=type(None) in types) if known else "list of JSON"
    return (_schema_of_objects(values) if types == {dict} else None) or _kind_of(types)


def _kind_of(types: set[type]) -> str:
    if types == {int, float}:
        return NUMBER
    there = sorted(each.__name__ for each in types - {type(None)})
    if len(there) == 1 and there[0] in ARRAYS:
        return optional(there[0]) if type(None) in types else there[0]
    return f"{' or '.join(there) or 'None'} of JSON"


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
        self, schema: RecordSchema, wanted: Sequence[int] | None, shape: RecordShape | None = None, record_type: Any = None
    ) -> None:  # fmt: skip
        self._schema = schema
        leaves = dict(enumerate(leaves_of(schema)))
        names = names_of(schema, shape)
        if wanted is not None:
            leaves = {number: leaves[number] for number in wanted}
        paths = [path for path, _ in leaves.values()]
        self._decode: Callable[[bytes], list[Any]] = _decoder_of(schema, names, paths, shape, record_type).decode_lines
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
        rows = _objects_of(data)
        if rows is None or not is_text(data):
            return None
        try:
            documents = self._decode(data)
        except Exception:  # noqa: BLE001 - found again, document by document
            return None
        if len(documents) != rows:
            return None
        values: dict[int, Any] = {number: get(documents) for number, get in self._getters.items()}
        for number, element in self._lists.items():
            found = _lists_where_there(values[number], element)
            if found is None:
                return None
            values[number] = found
        return columns_of_values(self._schema, values, rows, self._typed)


class TypedDocuments:
    """Makes records of a declared type of documents, a block at a time, by the parser's objects.

    >>> from funken import Types
    >>> from funken.connectors.formats.record_types import shape_of
    >>> sale = Types.ROW_NAMED(["item", "n"], [Types.STRING(), Types.LONG()])
    >>> TypedDocuments(shape_of(sale, "an example")).records([b'{"n": 1, "item": "tea", "at": 7}'])
    [Row(item='tea', n=1)]

    The names of the fields are no odd ones. Raises anything for a document that the parser does not take, or that lacks a
    field whose default is made anew for each. The parser is made where the first document is.
    """

    def __init__(self, shape: RecordShape) -> None:
        names = [_field(number) for number in range(len(shape.names))]
        self._shape = shape
        self._values = getter(operator.attrgetter, names)
        self._decode: Callable[[bytes], Any] | None = None

    def records(self, messages: Sequence[bytes]) -> list[Any]:
        """Return the records."""
        if self._decode is None:
            names = self._shape.names
            anything = ("anything",) * len(names)
            self._decode = _decoder_of(anything, names, [(number,) for number in range(len(names))], self._shape).decode
        make, values = self._shape.make, self._values
        return [make(values(document)) for document in map(self._decode, messages)]


def _field(number: int) -> str:
    return f"f{number}"


def _values_of(name: str) -> Callable[[Sequence[Any]], list[Any]]:
    """Return what makes a list of an attribute of objects, in half the time (7 ns each) that ``attrgetter`` takes."""
    values: Callable[[Sequence[Any]], list[Any]] = eval(f"lambda objects: [each.{name} for each in objects]")
    return values


def _decoder_of(
    schema: Sequence[RecordSchema], names: Sequence[str], paths: Iterable[tuple[int, ...]], shape: RecordShape | None,
    record_type: Any = None,
) -> Any:  # fmt: skip
    """Return what makes objects of documents, with the fields at some ``paths`` of a schema.

    Of the others it passes over, those that the ``shape`` requires have to be there, and those that records of the declared type
    require within it. The parser refuses values that are not of the kind of their field.
    """
    parser = importlib.import_module("msgspec.json")
    return parser.Decoder(_object_type(schema, names, paths, shape, record_type))


def _object_type(
    schema: Sequence[RecordSchema], names: Sequence[str], paths: Iterable[tuple[int, ...]], shape: RecordShape | None,
    record_type: Any,
) -> Any:  # fmt: skip
    msgspec = importlib.import_module("msgspec")
    within: dict[int, list[tuple[int, ...]]] = {}
    for first, *rest in paths:
        within.setdefault(first, []).append((*rest,))
    fields: list[tuple[Any, ...]] = []
    declared = (None if record_type is None else field_types(record_type)) or [None] * len(names)
    for number, (name, each, of) in enumerate(zip(names, schema, declared, strict=True)):
        is_required = shape is not None and name in shape.required
        if number not in within:
            needed = needed_of(of, (record_type,))
            if is_required:
                fields.append((_field(number), msgspec.Raw if needed is None else needed))
            elif needed is not None:
                fields.append((_field(number), needed, None))
            continue
        if isinstance(each, NamedFields):
            fields.append((_field(number), _record_within(each, within[number], of)))
            continue
        expected = _list_of(each, of) if isinstance(each, ListOf) else _TYPES.get(str(each), Any)
        # Without a default here, documents without the field are parsed one by one.
        if shape is not None and not is_required:
            default = shape.defaults(name)
            if isinstance(default, _UNCHANGEABLE) and (expected is Any or _is_of(default, expected)):
                fields.append((_field(number), expected, default))
                continue
        fields.append((_field(number), expected))
    by_name = {_field(number): name for number, name in enumerate(names)}
    return msgspec.defstruct("Document", fields, rename=by_name, kw_only=True, gc=False)


def _record_within(schema: NamedFields, paths: Iterable[tuple[int, ...]], declared: Any) -> Any:
    """Return what the parser makes of records within records, which are no nulls."""
    of = without_null(declared)
    return _object_type(schema, schema.names, paths, None if of is None else shape_of(of, "JsonSchema"), of)


def _list_of(kind: ListOf, declared: Any) -> Any:
    """Return what the parser makes of lists, and checks."""
    element, of = kind.element, element_declared(without_null(declared))
    if isinstance(element, NamedFields):
        leaves = enumerate(leaves_of(element))
        inner = _record_within(element, [path for n, (path, _) in leaves if kind.read is None or n in kind.read], of)
    else:
        inner = _list_of(element, of) if isinstance(element, ListOf) else _TYPES.get(str(element), Any)
    made: Any = list[inner]  # type: ignore[valid-type]
    return made | None if kind.endswith("?") else made


def _is_checked(kind: RecordSchema) -> bool:
    """Whether the parser checks values of a kind, also all in lists."""
    return _is_checked(kind.element) if isinstance(kind, ListOf) else kind in _TYPES


def _objects_in(kind: RecordSchema) -> ListOf | None:
    """Return the kind of lists, if their items are objects, or lists of such."""
    within = isinstance(kind, ListOf) and (isinstance(kind.element, NamedFields) or _objects_in(kind.element))
    return kind if within else None  # type: ignore[return-value]


def _lists_where_there(values: list[Any], kind: ListOf) -> Column | None:
    """Return lists of the parser's objects, which may be null, as a column; ``None`` if they are not of their kinds."""
    if not kind.endswith("?"):
        return lists_of_objects(values, kind)
    found = lists_of_objects([each for each in values if each is not None], kind)
    columns = importlib.import_module("funken.columnar.kernels.columns")
    return None if found is None else columns.lists_or_none(found, [each is not None for each in values])


def lists_of_objects(values: list[Any], of: ListOf) -> Column | None:
    """Return lists of the parser's objects, or of lists of such, as a column; ``None`` if some are not of their kinds."""
    columns = importlib.import_module("funken.columnar.kernels.columns")
    counts = importlib.import_module("numpy").fromiter(map(len, values), "int64", len(values))
    items = list(itertools.chain.from_iterable(values))
    found: dict[int, Any] = {}
    leaves = list(leaves_of(of.element))
    for number, (path, kind) in enumerate(leaves):
        if of.read is not None and number not in of.read:
            continue
        found[number] = _values_of(".".join(map(_field, path)))(items) if path else items
        within = _objects_in(kind)
        if within is not None:
            found[number] = lists_of_objects(found[number], within)
            if found[number] is None:
                return None
    checked = {number for number, (_, kind) in enumerate(leaves) if _is_checked(kind)}
    content = columns_of_values(of.element, found, len(items), checked)
    return None if content is None else columns.lists_with(of.element, counts, content)


def _is_of(value: Any, expected: Any) -> bool:
    """Whether a value is of a type, or of one of several, exactly: ``True`` is no int."""
    return type(value) in (typing.get_args(expected) or (expected,))


def _objects_of(data: bytes) -> int | None:
    """Return the number of lines, if each begins and ends as an object does; else ``None``.

    Within a document no object begins where one has just ended, so documents end where such lines end.
    """
    numpy = importlib.import_module("numpy")
    text = numpy.frombuffer(data, numpy.uint8)
    if data.endswith(b"\n"):
        text = text[:-1]
    if len(text) < 2 or text[0] != _BRACE or text[-1] != _END:
        return None
    lines = numpy.flatnonzero(text == _LINE_FEED)
    if not ((text[lines - 1] == _END).all() and (text[lines + 1] == _BRACE).all()):
        return None
    return len(lines) + 1


__all__ = ["JsonColumns", "TypedDocuments", "json_record_schema", "odd_name", "sampled_schema"]
