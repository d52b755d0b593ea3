"""JSON documents, one per message.

Documents become what ``json.loads`` returns, or records of a declared type: a dataclass, or rows of
``Types.ROW_NAMED``. Only the fields of the type are kept. A field that is missing has the default of the dataclass, and
is ``None`` in a row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any

from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.errors import InvalidProgram
from funken.types.info import RowTypeInfo
from funken.types.row import Row

_scan: Callable[[str, int], tuple[Any, int]] = getattr(json.JSONDecoder(), "scan_once")  # noqa: B009 - not in its stub


@dataclass(frozen=True)
class JsonSchema(SerializationSchema, DeserializationSchema):
    """JSON documents, both ways; ``record_type`` is a dataclass or ``Types.ROW_NAMED(...)``.

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
        object.__setattr__(self, "_make", _maker(self.record_type))

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

    def serialize(self, value: Any) -> bytes:
        """Write a document; a dataclass or a named row is an object."""
        return _encode(value).encode()


def _plain(value: Any) -> Any:
    """Return what JSON can hold of a dataclass or a row."""
    if isinstance(value, Row):
        return value.as_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    raise TypeError(
        f"{type(value).__name__} is no JSON: map to dicts, lists, text, numbers, dataclasses or named rows first"
    )


_encode = json.JSONEncoder(default=_plain).encode


def _maker(record_type: Any) -> Callable[[Any], Any] | None:
    if record_type is None:
        return None
    if isinstance(record_type, RowTypeInfo):
        return _rows(record_type.get_field_names())
    if isinstance(record_type, type) and is_dataclass(record_type):
        return _objects(record_type)
    raise InvalidProgram(
        f"JsonSchema cannot make {record_type!r} of documents; pass a dataclass or Types.ROW_NAMED([...], [...])."
    )


def _rows(names: Sequence[str]) -> Callable[[Any], Any]:
    empty = Row(*names)

    def make(document: Any) -> Row:
        get = _object(document).get
        return empty(*[get(name) for name in names])

    return make


def _objects(record_type: type) -> Callable[[Any], Any]:
    names = [each.name for each in fields(record_type) if each.init]
    required = {
        each.name
        for each in fields(record_type)
        if each.init and each.default is MISSING and each.default_factory is MISSING
    }

    def make(document: Any) -> Any:
        document = _object(document)
        missing = required - document.keys()
        if missing:
            raise ValueError(f"field {min(missing)!r} is missing")
        return record_type(**{name: document[name] for name in names if name in document})

    return make


def _object(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ValueError(f"it is no object, but {type(document).__name__}")
    return document


__all__ = ["JsonSchema"]
