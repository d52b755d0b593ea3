"""JSON documents, one per message.

Documents become what ``json.loads`` returns, or records of a declared type (``record_types.py``): a dataclass, rows of
``Types.ROW_NAMED`` and others. Only the fields of the type are kept. A field that is missing has the default of the
dataclass, and is ``None`` in a row.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import decimal
import functools
import importlib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any

from funken import extras
from funken.columnar.block import Block
from funken.columnar.expressions import NotVectorizable
from funken.columnar.records import NOT_READ
from funken.connectors.formats.json_columns import (
    JsonColumns,
    TypedDocuments,
    declared_fields,
    json_record_schema,
    odd_name,
    sampled_schema,
)
from funken.connectors.formats.json_types import JsonLeaves, parsed_exactly, single_of
from funken.connectors.formats.record_types import RecordShape, as_document, from_documents, shape_of, shape_of_dicts
from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.dataclass import dataclass
from funken.expr.types import BOOL, DICT, FLOAT, INT, NONE, NUMBER, STR, Atomic, ListOf, Record, Type, atomic_fields
from funken.types.callables import DOC_co, Generic
from funken.types.info import TypeOf
from funken.types.row import Instant
from funken.types.text import decimal_text, instant_text, limits

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Column, Columns

_DECLARE = "declare the record type: JsonSchema(record_type)"


@functools.cache
def _parser() -> Callable[[bytes], Any]:
    """Return the parser, which is loaded where something is parsed: it takes 6 ms."""
    parse: Callable[[bytes], Any] = importlib.import_module("msgspec.json").Decoder().decode
    return parse


@dataclass(frozen=True)
class JsonSchema(SerializationSchema[object], DeserializationSchema[DOC_co], Generic[DOC_co]):
    """JSON documents, both ways; ``record_type`` is a dataclass, a named tuple class, ``Types.ROW_NAMED(...)`` or like those.

    >>> JsonSchema().serialize({"word": "to", "n": 2}), JsonSchema().deserialize(b'[1, null]')
    (b'{"word": "to", "n": 2}', [1, None])

    >>> from funken import Types
    >>> JsonSchema(Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.INT()])).deserialize(b'{"word": "to", "at": 7}')
    Row(word='to', n=None)

    >>> @dataclass
    ... class Count:
    ...     word: str
    ...     n: int = 0
    >>> JsonSchema(Count).deserialize(b'{"word": "to"}'), JsonSchema(Count).serialize(Count("be", 2))
    (Count(word='to', n=0), b'{"word": "be", "n": 2}')

    A document that does not fit raises ``ValueError``; the source's policy decides about it:

    >>> JsonSchema(Count).deserialize(b'{"n": 1}')
    Traceback (most recent call last):
    ...
    ValueError: field 'word' is missing
    """

    record_type: TypeOf[DOC_co] | None = None
    _make: Callable[[Any], Any] | None = field(init=False, repr=False, compare=False)
    _typed: TypedDocuments | None = field(init=False, repr=False, compare=False)
    _document: Callable[[Any], Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Reject a type that has no named fields, before the job runs."""
        shape = None if self.record_type is None else _shape_of(self.record_type)
        object.__setattr__(self, "_make", None if shape is None else from_documents(shape))
        typed = None if shape is None or odd_name(shape) is not None else TypedDocuments(self.record_type, shape)
        object.__setattr__(self, "_typed", typed)
        object.__setattr__(self, "_document", as_document if shape is None else documents_by(shape))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.record_type,)

    never_waits = True

    def deserialize(self, message: bytes) -> DOC_co:
        """Parse a document; ``null`` is no record."""
        record: DOC_co = self.deserialize_block((message,), keep_null=True)[0]
        return record

    def deserialize_block(self, messages: Sequence[bytes], keep_null: bool = False) -> list[Any]:
        """Parse documents: 0.2 us for 150 bytes, 1.8 with ``json.loads`` (benchmarks/micro.py, "json documents")."""
        if self._typed is not None:
            with contextlib.suppress(Exception):  # found again, document by document
                return self._typed.records(messages)
        make = self._make
        if make is not None:
            documents = map(parsed_exactly, messages)
            return [value if value is None else make(value) for value in documents if keep_null or value is not None]
        try:
            records = list(map(_parser(), messages))
        except Exception:  # noqa: BLE001 - found again, document by document
            records = list(map(parsed, messages))
        if not keep_null and None in records:
            records = [value for value in records if value is not None]
        return records

    def record_schema(self) -> Type:
        """Return the schema of documents of a declared type; others may have any fields."""
        if type(self) is not JsonSchema:
            return super().record_schema()
        if self.record_type is None:
            raise NotVectorizable(f"reads JSON of any form; {_DECLARE}")
        return json_record_schema(self.record_type, _shape_of(self.record_type))

    @property
    def needs_sample(self) -> bool:
        """True if the documents have no declared type."""
        return type(self) is JsonSchema and self.record_type is None

    def schema_of_sample(self, messages: Sequence[bytes]) -> Type:
        """Return the schema of dicts with the fields that all of these documents have."""
        try:
            return sampled_schema(list(map(parsed, messages)))
        except ValueError:
            raise NotVectorizable(f"reads JSON, but a file does not begin with it; {_DECLARE}") from None

    def lines_to_columns(self, schema: Type, wanted: Sequence[int] | None) -> Callable[[bytes], Block | None]:
        """Return a function that makes columns of lines with a document in each."""
        if self.record_type is not None:
            return JsonColumns(schema, wanted, _shape_of(self.record_type), self.record_type).of_lines
        if wanted is None:  # documents may have more fields than the schema
            return lambda data: None
        return JsonColumns(schema, wanted).of_lines

    def serialize(self, value: Any) -> bytes:
        """Write a document; a dataclass, a named tuple or a named row is an object."""
        if self.record_type is not None or (isinstance(value, tuple) and hasattr(value, "_fields")):
            value = self._document(value)  # the encoder would make a list of a named tuple
        return json_text(value).encode()

    @property
    def takes_columns(self) -> bool:  # type: ignore[override]
        """True if the messages are those of this class."""
        return type(self) is JsonSchema

    def messages_of(self, block: Block) -> list[bytes]:
        """Write documents: of columns in less than a third of the time that their records take (benchmarks/text_columns.py)."""
        written = documents_of(block) if self.takes_columns and self._keeps(block) else None
        return super().messages_of(block) if written is None else written

    def _keeps(self, block: Block) -> bool:
        """Return True if the records are written as they are: those of a declared type, if all fit the type."""
        if self.record_type is None:
            return True
        shape, schema = _shape_of(self.record_type), getattr(block, "schema", None)
        leaves = getattr(block, "leaves", ())
        if not isinstance(schema, Record) or schema.names != shape.names or len(leaves) != len(schema):
            return False
        return all(map(fits_column, declared_fields(self.record_type, shape), schema, leaves))


def fits_column(declared: Any, kind: Any, column: Column) -> bool:
    """Return True if a column has values of a declared type alone, which are in documents as they are.

    >>> from funken.columnar.kernels.columns import column_of
    >>> [fits_column(int, INT, column_of([2**40], INT)), fits_column(str, INT, column_of([1], INT))]
    [True, False]
    """
    single = single_of(declared)
    if column.constant or kind != _KINDS_OF.get(single[:3]):
        return False
    if single.startswith("int"):
        low, high = limits(int(single[3:]))
        return not len(column.data) or (low <= int(column.data.min()) and int(column.data.max()) <= high)
    return single != "double" or bool(extras.load("numpy").isfinite(column.data).all())


_KINDS_OF = {"int": INT, "who": INT, "tex": STR, "boo": BOOL, "dou": FLOAT}


def _shape_of(record_type: Any) -> RecordShape:
    return shape_of(record_type, "JsonSchema", leaves=JsonLeaves())


def documents_by(shape: RecordShape) -> Callable[[Any], Any]:
    """Return a function from records of a type to documents: of dicts its fields, of other objects all fields.

    >>> from funken import Row, Types
    >>> make = documents_by(_shape_of(Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.INT()])))
    >>> make(Row(n=2, word="to")), make(("be", 3)), make({"n": 4, "more": 5})
    ({'word': 'to', 'n': 2}, {'word': 'be', 'n': 3}, {'n': 4, 'more': 5})
    """
    names, values = shape.names, shape.values
    of_dicts = shape_of_dicts(shape)

    def make(record: Any) -> Any:
        if isinstance(record, dict):
            return of_dicts(record)
        return dict(zip(names, values(record), strict=True))

    return make


def parsed(message: bytes) -> Any:
    r"""Parse a document: after a refusal by msgspec ``json`` takes a little more, or raises with the position.

    A byte order mark before it is no part of it.

    >>> parsed(b'[1, NaN]'), parsed(b'"\\ud800"') == "\ud800"
    ([1, nan], True)
    """
    try:
        return _parser()(message)
    except Exception:  # noqa: BLE001 - whatever it is
        return json.loads(message.decode().removeprefix("\ufeff"))


class _DecimalError(TypeError):
    """There is a decimal, which the encoder of Python has no form for."""


def _plain(value: Any) -> Any:
    """Return a form that JSON can hold of a value that it has no form for."""
    if isinstance(value, decimal.Decimal):
        raise _DecimalError
    document = as_document(value)
    if document is not value:
        return document
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Instant):
        return instant_text(value)
    raise TypeError(
        f"{type(value).__name__} is no JSON: map to dicts, lists, text, numbers, dataclasses or named rows first"
    )


_encode = json.JSONEncoder(default=_plain).encode


def json_text(value: Any) -> str:
    """Return a value as JSON: as ``json.dumps`` does; decimals with their digits, times as ISO 8601, bytes as base64.

    >>> import datetime
    >>> json_text({"price": decimal.Decimal("1.50"), "at": datetime.date(2026, 11, 22), "key": b"to"})
    '{"price": 1.50, "at": "2026-11-22", "key": "dG8="}'
    """
    try:
        return _encode(value)
    except _DecimalError:
        return _with_decimals(value)


def _with_decimals(value: Any) -> str:
    """Write a value that Python's encoder cannot: it has no way to write digits."""
    if isinstance(value, decimal.Decimal):
        return decimal_text(value)
    if isinstance(value, dict):
        pairs = [f"{_key(key)}: {_with_decimals(each)}" for key, each in value.items()]
        return f"{{{', '.join(pairs)}}}"
    document = as_document(value)
    if document is not value:
        return _with_decimals(document)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_with_decimals, value))}]"
    return _encode(value)


def _key(key: Any) -> str:
    return encode_basestring_ascii(key) if isinstance(key, str) else _encode({key: 0})[1:-4]


# ---- from columns


_SPACE, _QUOTE, _BACKSLASH, _TILDE = b' "\\~'


class _OtherValuesError(Exception):
    """There are values that are written one by one."""


def documents_of(block: Block) -> list[bytes] | None:
    r"""Return the documents of records, as ``JsonSchema`` writes them one by one; ``None``: they have other values than JSON has.

    >>> from funken.columnar.kernels.columns import columns_of
    >>> sales = Record((STR, FLOAT), DICT, ("item", "price"))
    >>> documents_of(columns_of([{"item": "tea", "price": 0.5}, {"item": "né", "price": float("inf")}], sales))
    [b'{"item": "tea", "price": 0.5}', b'{"item": "n\\u00e9", "price": Infinity}']
    """
    from funken.columnar.kernels.columns import Columns  # noqa: PLC0415 - loads NumPy

    if not isinstance(block, Columns) or not block.length or not block.leaves:
        return None
    try:
        written = _written(block)
    except _OtherValuesError:
        return None
    return "\n".join(written).encode("ascii").split(b"\n")


def _written(block: Columns) -> list[str]:
    if not block.length:
        return []
    kinds = [kind for _, kind in atomic_fields(block.schema)]
    texts = [_texts_of(column, kind, block.length) for column, kind in zip(block.leaves, kinds, strict=True)]
    return _writer_of(block.schema)(zip(*texts, strict=True))


@functools.lru_cache(maxsize=256)
def _writer_of(schema: Type) -> Callable[[Iterable[Any]], list[str]]:
    """Generate a function that joins the texts of fields: formatting by ``%`` would take twice the time."""
    variables = itertools.count()
    text = "".join(_pieces(schema, variables, outermost=True))
    names = "".join(f"v{number}, " for number in range(next(variables)))
    writer: Callable[[Iterable[Any]], list[str]] = eval(f"lambda rows: [{text} for {names} in rows]")
    return writer


def _pieces(schema: Type, variables: Iterator[int], *, outermost: bool = False) -> Iterator[str]:
    """Yield literals that are a record as JSON, side by side."""
    if isinstance(schema, Atomic):
        yield f"f'{{v{next(variables)}}}'"
        return
    names = None
    if isinstance(schema, Record):
        if schema.form != DICT and not outermost:
            raise _OtherValuesError
        names = schema.names
    before = "[" if names is None else "{"
    for number, inner in enumerate(schema):
        yield repr(before if names is None else f"{before}{encode_basestring_ascii(names[number])}: ")
        yield from _pieces(inner, variables)
        before = ", "
    yield repr("[]" if not schema else "]" if names is None else "}")


def _texts_of(column: Column, kind: Atomic, length: int) -> list[Any]:
    """Return the values of a field as JSON, or as values that become JSON by formatting."""
    if isinstance(kind, ListOf) and not column.constant:
        return _texts_of_lists(column, length)
    text = _TEXTS.get(kind.required)
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
        written = importlib.import_module("funken.columnar.kernels.numbers").written(column)
        if written is not None:
            return list(written.to_list(length))
    values = column.to_list(length)
    if kind.is_optional:
        return ["null" if value is None else text(value) for value in values]
    if kind == FLOAT and extras.load("numpy").isfinite(column.data).all():
        text = float.__repr__
    return values if kind == INT else list(map(text, values))


def _texts_of_lists(column: Column, length: int) -> list[str]:
    lists = importlib.import_module("funken.columnar.kernels.columns").lists_of(column, length)
    schema = lists.content().schema
    if isinstance(schema, Record) and schema.form != DICT:
        raise _OtherValuesError
    written = _written(lists.content())
    offsets = (lists.offsets - lists.offsets[0]).tolist()
    return [f"[{', '.join(written[start:stop])}]" for start, stop in itertools.pairwise(offsets)]


def _quoted(texts: Any) -> list[str] | None:
    """Return texts in quotes; ``None`` if one has a letter that JSON, or ASCII, has no place for."""
    compute = extras.load("pyarrow.compute")
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


_TEXTS: dict[Atomic, Callable[[Any], str]] = {
    INT: int.__repr__, FLOAT: _text_of_float, BOOL: {False: "false", True: "true"}.__getitem__, STR: encode_basestring_ascii,
    NONE: {None: "null"}.__getitem__, NUMBER: _text_of_number,
}  # fmt: skip
