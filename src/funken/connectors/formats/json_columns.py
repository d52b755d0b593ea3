"""JSON documents as columns: whole lines are parsed at once, and only the fields that are read are made.

msgspec parses here as it does document by document, into objects with the wanted fields: those that nobody reads are checked, and
passed over. ``JsonSchema`` keeps the values of a document as they are, whatever the declared type is. So a piece of text becomes
columns only if each value has the type of its field: ``1`` is no float, and ``1.0`` no int. All else is given back, and
parsed document by document: lines that hold no object or several, malformed ones, fields of other types, numbers beyond 64 bits.

A document costs 265 ns with three of five fields; Arrow's reader, which was here before, took 490 to 950 (decision 0055).

NumPy, Arrow and msgspec are loaded where text is parsed.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import math
import operator
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any

from funken.columnar.block import Block
from funken.columnar.expressions import (
    ARRAYS,
    BOOL,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    NotVectorizable,
    RecordSchema,
    leaves_of,
    optional,
    without_none,
)
from funken.columnar.records import DICT, DOCUMENT, NamedFields
from funken.connectors.formats.arrow_columns import NOT_READ, columns_of_values, names_of, schema_of_records
from funken.connectors.formats.record_types import RecordShape, getter
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
    # Of a document, dates are text and lists may hold anything: of such a field nothing is known.
    kinds = [
        kind if without_none(str(kind)) in ARRAYS else str(each.type)
        for kind, each in zip(schema, shape.types(), strict=True)
    ]
    if isinstance(schema, NamedFields):
        return NamedFields(kinds, schema.form, schema.names, schema.cls)
    return tuple(kinds)


def odd_name(shape: RecordShape) -> str | None:
    """Return the name of a field that the parser cannot look for, if there is one."""
    return next((name for name in shape.names if not _PLAIN_NAME.fullmatch(name)), None)


def sampled_schema(documents: Sequence[Any]) -> RecordSchema:
    """Return the schema of dicts with the fields that these all have; raise ``NotVectorizable`` if there are none.

    Of a field with values of several types, or with a list, nothing is known.

    >>> sampled_schema([{"item": "tea", "n": 1, "tags": []}, {"n": None, "tags": ["a"], "item": "jam", "at": 7}])
    {item: str, n: int?, tags: list of JSON, ...}
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

    def __init__(self, schema: RecordSchema, wanted: Sequence[int] | None, shape: RecordShape | None = None) -> None:
        self._schema = schema
        leaves = dict(enumerate(leaves_of(schema)))
        names = names_of(schema, shape)
        if wanted is not None:
            leaves = {number: leaves[number] for number in wanted}
        paths = [path for path, _ in leaves.values()]
        self._decode: Callable[[bytes], list[Any]] = _decoder_of(schema, names, paths, shape).decode_lines
        #: the fields whose values the parser checks
        self._typed = {number for number, (_, kind) in leaves.items() if kind in _TYPES}
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
        values = {number: get(documents) for number, get in self._getters.items()}
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
    schema: Sequence[RecordSchema], names: Sequence[str], paths: Iterable[tuple[int, ...]], shape: RecordShape | None
) -> Any:
    """Return what makes objects of documents, with the fields at some ``paths`` of a schema.

    Of the others it passes over, those that the ``shape`` requires have to be there. The parser refuses values that are not of
    the kind of their field.
    """
    parser = importlib.import_module("msgspec.json")
    return parser.Decoder(_object_type(schema, names, paths, shape))


def _object_type(
    schema: Sequence[RecordSchema], names: Sequence[str], paths: Iterable[tuple[int, ...]], shape: RecordShape | None
) -> Any:
    msgspec = importlib.import_module("msgspec")
    within: dict[int, list[tuple[int, ...]]] = {}
    for first, *rest in paths:
        within.setdefault(first, []).append((*rest,))
    fields: list[tuple[Any, ...]] = []
    for number, (name, each) in enumerate(zip(names, schema, strict=True)):
        if number not in within:
            if shape is not None and name in shape.required:
                fields.append((_field(number), msgspec.Raw))
            continue
        if isinstance(each, NamedFields):
            fields.append((_field(number), _object_type(each, each.names, within[number], None)))
            continue
        expected = _TYPES.get(str(each), Any)
        # Without a default here, documents without the field are parsed one by one.
        if shape is not None and name not in shape.required:
            default = shape.defaults(name)
            if isinstance(default, _UNCHANGEABLE) and (expected is Any or _is_of(default, expected)):
                fields.append((_field(number), expected, default))
                continue
        fields.append((_field(number), expected))
    by_name = {_field(number): name for number, name in enumerate(names)}
    return msgspec.defstruct("Document", fields, rename=by_name, kw_only=True, gc=False)


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


# ---- the other way


_SPACE, _QUOTE, _BACKSLASH, _TILDE = b' "\\~'


class _OtherValuesError(Exception):
    """There are values that are written one by one."""


def documents_of(block: Block) -> list[bytes] | None:
    r"""Return the documents of records, as ``JsonSchema`` writes them one by one; ``None``: they have other values than JSON has.

    >>> from funken.columnar.kernels.columns import columns_of
    >>> sales = NamedFields(("str", "float"), DICT, ("item", "price"))
    >>> documents_of(columns_of([{"item": "tea", "price": 0.5}, {"item": "né", "price": float("inf")}], sales))
    [b'{"item": "tea", "price": 0.5}', b'{"item": "n\\u00e9", "price": Infinity}']
    """
    from funken.columnar.kernels.columns import Columns  # noqa: PLC0415 - loads NumPy

    if not isinstance(block, Columns) or not block.length or not block.leaves:
        return None
    kinds = [kind for _, kind in leaves_of(block.schema)]
    try:
        texts = [_texts_of(column, kind, block.length) for column, kind in zip(block.leaves, kinds, strict=True)]
        written = _writer_of(block.schema)(zip(*texts, strict=True))
    except _OtherValuesError:
        return None
    return "\n".join(written).encode("ascii").split(b"\n")


@functools.lru_cache(maxsize=256)
def _writer_of(schema: RecordSchema) -> Callable[[Iterable[Any]], list[str]]:
    """Generate what puts the texts of leaves together: formatting by ``%`` would take twice the time."""
    variables = itertools.count()
    text = "".join(_pieces(schema, variables, outermost=True))
    names = "".join(f"v{number}, " for number in range(next(variables)))
    writer: Callable[[Iterable[Any]], list[str]] = eval(f"lambda rows: [{text} for {names} in rows]")
    return writer


def _pieces(schema: RecordSchema, variables: Iterator[int], *, outermost: bool = False) -> Iterator[str]:
    """Yield literals that are a record as JSON, side by side."""
    if isinstance(schema, str):
        yield f"f'{{v{next(variables)}}}'"
        return
    names = None
    if isinstance(schema, NamedFields):
        if schema.form != DICT and not outermost:
            raise _OtherValuesError
        names = schema.names
    before = "[" if names is None else "{"
    for number, inner in enumerate(schema):
        yield repr(before if names is None else f"{before}{encode_basestring_ascii(names[number])}: ")
        yield from _pieces(inner, variables)
        before = ", "
    yield repr("[]" if not schema else "]" if names is None else "}")


def _texts_of(column: Column, kind: str, length: int) -> list[Any]:
    """Return the values of a leaf as JSON, or what is JSON when it is formatted."""
    text = _TEXTS.get(without_none(kind))
    if text is None or column.data is NOT_READ:
        raise _OtherValuesError
    if column.constant:
        return ["null" if column.data is None else text(column.data)] * length
    if kind == STR:
        quoted = _quoted(column.data)
        if quoted is not None:
            return quoted
    elif kind == FLOAT:
        # Hot: 82 ns each in place of 345.
        written = importlib.import_module("funken.columnar.kernels.number_forms").FORMS["str"](column)
        if written is not None:
            return list(written.to_list(length))
    values = column.to_list(length)
    if kind.endswith("?"):
        return ["null" if value is None else text(value) for value in values]
    if kind == FLOAT and importlib.import_module("numpy").isfinite(column.data).all():
        text = float.__repr__
    return values if kind == INT else list(map(text, values))


def _quoted(texts: Any) -> list[str] | None:
    """Return texts in quotes; ``None`` if one has a letter that JSON, or ASCII, has no place for."""
    compute = importlib.import_module("pyarrow.compute")
    offsets, content = importlib.import_module("funken.columnar.kernels.text").parts_of(texts)
    letters = content[offsets[0] : offsets[-1]]
    # Hot: to compare all letters takes 5 ns a text of 40; to look for them by a regular expression 95.
    if ((letters - _SPACE > _TILDE - _SPACE) | (letters == _QUOTE) | (letters == _BACKSLASH)).any():
        return None
    found: list[str] = compute.binary_join_element_wise('"', texts, '"', "").to_pylist()
    return found


def _text_of_float(value: float) -> str:
    return float.__repr__(value) if math.isfinite(value) else json.dumps(value)


def _text_of_number(value: float) -> str:
    return int.__repr__(value) if isinstance(value, int) else _text_of_float(value)


_TEXTS: dict[str, Callable[[Any], str]] = {
    INT: int.__repr__, FLOAT: _text_of_float, BOOL: {False: "false", True: "true"}.__getitem__, STR: encode_basestring_ascii,
    NONE: {None: "null"}.__getitem__, NUMBER: _text_of_number,
}  # fmt: skip


__all__ = ["JsonColumns", "TypedDocuments", "documents_of", "json_record_schema", "odd_name", "sampled_schema"]
