"""JSON documents, one per message.

Documents become what ``json.loads`` returns, or records of a declared type (``record_types.py``): a dataclass, rows of
``Types.ROW_NAMED`` and others. Only the fields of the type are kept. A field that is missing has the default of the
dataclass, and is ``None`` in a row.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from funken.columnar.block import Block
from funken.columnar.expressions import NotVectorizable, RecordSchema
from funken.connectors.formats.json_columns import (
    JsonColumns,
    TypedDocuments,
    documents_of,
    json_record_schema,
    odd_name,
    sampled_schema,
)
from funken.connectors.formats.record_types import as_document, from_documents, shape_of
from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.dataclass import dataclass

_DECLARE = "declare the record type: JsonSchema(record_type)"


@functools.cache
def _parser() -> Callable[[bytes], Any]:
    """Return the parser, which is loaded where something is parsed: it takes 6 ms."""
    parse: Callable[[bytes], Any] = importlib.import_module("msgspec.json").Decoder().decode
    return parse


@dataclass(frozen=True)
class JsonSchema(SerializationSchema, DeserializationSchema):
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

    A document that does not fit raises ``ValueError``; what becomes of it is decided by the source's policy:

    >>> JsonSchema(Count).deserialize(b'{"n": 1}')
    Traceback (most recent call last):
    ...
    ValueError: field 'word' is missing
    """

    record_type: Any = None
    _make: Callable[[Any], Any] | None = field(init=False, repr=False, compare=False)
    _typed: TypedDocuments | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Reject a type that has no named fields, before the job runs."""
        shape = None if self.record_type is None else shape_of(self.record_type, "JsonSchema")
        object.__setattr__(self, "_make", None if shape is None else from_documents(shape))
        typed = None if shape is None or odd_name(shape) is not None else TypedDocuments(shape)
        object.__setattr__(self, "_typed", typed)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.record_type,)

    never_waits = True

    def deserialize(self, message: bytes) -> Any:
        """Parse a document; ``null`` is no record."""
        return self.deserialize_block((message,), keep_null=True)[0]

    def deserialize_block(self, messages: Sequence[bytes], keep_null: bool = False) -> list[Any]:
        """Parse documents: 0.2 us for 150 bytes, 1.8 with ``json.loads`` (benchmarks/micro.py, "json documents")."""
        if self._typed is not None:
            with contextlib.suppress(Exception):  # found again, document by document
                return self._typed.records(messages)
        try:
            records = list(map(_parser(), messages))
        except Exception:  # noqa: BLE001 - found again, document by document
            records = list(map(parsed, messages))
        if not keep_null and None in records:
            records = [value for value in records if value is not None]
        make = self._make
        return records if make is None else [value if value is None else make(value) for value in records]

    def record_schema(self) -> RecordSchema:
        """Return the schema of documents of a declared type; others may have any fields."""
        if type(self) is not JsonSchema:
            return super().record_schema()
        if self.record_type is None:
            raise NotVectorizable(f"reads JSON of any form; {_DECLARE}")
        return json_record_schema(self.record_type, shape_of(self.record_type, "JsonSchema"))

    @property
    def needs_sample(self) -> bool:
        """Whether the documents have no declared type."""
        return type(self) is JsonSchema and self.record_type is None

    def schema_of_sample(self, messages: Sequence[bytes]) -> RecordSchema:
        """Return the schema of dicts with the fields that all of these documents have."""
        try:
            return sampled_schema(list(map(parsed, messages)))
        except ValueError:
            raise NotVectorizable(f"reads JSON, but a file does not begin with it; {_DECLARE}") from None

    def lines_to_columns(self, schema: RecordSchema, wanted: Sequence[int] | None) -> Callable[[bytes], Block | None]:
        """Return what makes columns of lines with a document in each."""
        if self.record_type is not None:
            return JsonColumns(schema, wanted, shape_of(self.record_type, "JsonSchema")).of_lines
        if wanted is None:  # documents may have more fields than the schema
            return lambda data: None
        return JsonColumns(schema, wanted).of_lines

    def serialize(self, value: Any) -> bytes:
        """Write a document; a dataclass, a named tuple or a named row is an object."""
        if isinstance(value, tuple) and hasattr(value, "_fields"):  # the encoder would make a list of a named tuple
            value = as_document(value)
        return _encode(value).encode()

    @property
    def takes_columns(self) -> bool:  # type: ignore[override]
        """Whether the messages are those of this class."""
        return type(self) is JsonSchema

    def messages_of(self, block: Block) -> list[bytes]:
        """Write documents: of columns in less than a third of the time that their records take (benchmarks/text_columns.py)."""
        written = documents_of(block) if self.takes_columns else None
        return super().messages_of(block) if written is None else written


def parsed(message: bytes) -> Any:
    r"""Parse a document: what msgspec refuses is for ``json``, which takes a little more, or raises with the position.

    >>> parsed(b'[1, NaN]'), parsed(b'"\\ud800"') == "\ud800"
    ([1, nan], True)
    """
    try:
        return _parser()(message)
    except Exception:  # noqa: BLE001 - whatever it is
        return json.loads(message.decode())


def _plain(value: Any) -> Any:
    """Return what JSON can hold of a record with named fields."""
    document = as_document(value)
    if document is value:
        raise TypeError(
            f"{type(value).__name__} is no JSON: map to dicts, lists, text, numbers, dataclasses or named rows first"
        )
    return document


_encode = json.JSONEncoder(default=_plain).encode


__all__ = ["JsonSchema"]
