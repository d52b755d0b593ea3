"""JSON documents, one per message.

Documents become what ``json.loads`` returns, or records of a declared type (``record_types.py``): a dataclass, rows of
``Types.ROW_NAMED`` and others. Only the fields of the type are kept. A field that is missing has the default of the
dataclass, and is ``None`` in a row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from funken.columnar.block import Block
from funken.columnar.expressions import NotVectorizable, RecordSchema
from funken.connectors.formats.json_columns import JsonColumns, json_record_schema
from funken.connectors.formats.record_types import as_document, from_documents, shape_of
from funken.connectors.schemas import DeserializationSchema, SerializationSchema

_scan: Callable[[str, int], tuple[Any, int]] = getattr(json.JSONDecoder(), "scan_once")  # noqa: B009 - not in its stub


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

    def __post_init__(self) -> None:
        """Reject a type that has no named fields, before the job runs."""
        make = None if self.record_type is None else from_documents(shape_of(self.record_type, "JsonSchema"))
        object.__setattr__(self, "_make", make)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.record_type,)

    def deserialize(self, message: bytes) -> Any:
        """Parse a document; ``null`` is no record."""
        return self.deserialize_block((message,), keep_null=True)[0]

    def deserialize_block(self, messages: Sequence[bytes], keep_null: bool = False) -> list[Any]:
        """Parse documents by the scanner that ``json.loads`` calls: 2.2 instead of 6.4 us for 150 bytes (benchmarks/kafka.py)."""
        scan, make, records = _scan, self._make, []
        for message in messages:
            text = message.decode()
            try:
                value, end = scan(text, 0)
                complete = end == len(text)
            except StopIteration:
                complete = False
            if not complete:
                value = json.loads(text)  # accepts space around it, else raises with the position
            if value is None:
                if not keep_null:
                    continue
            elif make is not None:
                value = make(value)
            records.append(value)
        return records

    def record_schema(self) -> RecordSchema:
        """Return the schema of documents of a declared type; others may have any fields."""
        if type(self) is not JsonSchema:
            return super().record_schema()
        if self.record_type is None:
            raise NotVectorizable("reads JSON of any form; declare the record type: JsonSchema(record_type)")
        return json_record_schema(self.record_type, shape_of(self.record_type, "JsonSchema"))

    def lines_to_columns(self, schema: RecordSchema, wanted: Sequence[int] | None) -> Callable[[bytes], Block | None]:
        """Return what makes columns of lines with a document in each."""
        return JsonColumns(shape_of(self.record_type, "JsonSchema"), schema, wanted).of_lines

    def serialize(self, value: Any) -> bytes:
        """Write a document; a dataclass, a named tuple or a named row is an object."""
        if isinstance(value, tuple) and hasattr(value, "_fields"):  # the encoder would make a list of a named tuple
            value = as_document(value)
        return _encode(value).encode()


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
