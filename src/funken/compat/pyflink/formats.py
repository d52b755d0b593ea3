"""How records become bytes and back: the schemas that need no library. Files and brokers use them."""

from __future__ import annotations

from typing import Any

from funken.compat.pyflink.refusals import not_yet
from funken.connectors import schemas
from funken.connectors.files.part_files import Encoder


class SerializationSchema(schemas.SerializationSchema):
    """Makes bytes of a record.

    >>> class Comma(SerializationSchema):
    ...     def serialize(self, element):
    ...         return ",".join(map(str, element)).encode()
    >>> Comma().serialize(("to", 2))
    b'to,2'
    """

    def serialize(self, element: Any) -> bytes:
        """Return the bytes of a record."""
        raise NotImplementedError


class DeserializationSchema(schemas.DeserializationSchema):
    """Makes a record of bytes.

    >>> import json
    >>> class Json(DeserializationSchema):
    ...     def deserialize(self, message):
    ...         return json.loads(message)
    >>> Json().deserialize(b'{"word": "to"}')
    {'word': 'to'}
    """

    def deserialize(self, message: bytes) -> Any:
        """Return the record of a message."""
        raise NotImplementedError


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    r"""Text.

    >>> SimpleStringSchema("UTF-8").serialize("ä"), SimpleStringSchema().deserialize(b"a")
    (b'\xc3\xa4', 'a')
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        self.charset = charset

    def serialize(self, element: Any) -> bytes:
        """Encode text."""
        return str(element).encode(self.charset)

    def deserialize(self, message: bytes) -> str:
        """Decode text."""
        return message.decode(self.charset)


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are.

    >>> ByteArraySchema().serialize(bytearray(b"to")), ByteArraySchema().deserialize(b"be")
    (b'to', b'be')
    """

    def serialize(self, element: Any) -> bytes:
        """Return the bytes."""
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        """Return the bytes."""
        return message


class RowFieldExtractorSchema(SerializationSchema):
    """The bytes in one field of a row; raises ``ValueError`` for an index below 0.

    >>> from funken import Row
    >>> RowFieldExtractorSchema(1).serialize(Row("key", b"value"))
    b'value'
    """

    def __init__(self, field_index: int) -> None:
        if not isinstance(field_index, int) or field_index < 0:
            raise ValueError(f"the index of a field is a whole number from 0 on, but is {field_index!r}")
        self.field_index = field_index

    def serialize(self, element: Any) -> bytes:
        """Return the field."""
        return bytes(element[self.field_index])


_ROWS = "parse or build the text in a map() with json or csv of the standard library."
_FILES = "write text with FileSink.for_row_format(), and read it with FileSource.for_record_stream_format()."

_REASONS = {
    _ROWS: (
        "JsonRowDeserializationSchema", "JsonRowSerializationSchema",
        "CsvRowDeserializationSchema", "CsvRowSerializationSchema",
        "AvroRowDeserializationSchema", "AvroRowSerializationSchema",
    ),
    _FILES: (
        "BulkWriterFactory", "RowDataBulkWriterFactory", "CsvSchema", "CsvSchemaBuilder", "CsvReaderFormat",
        "CsvBulkWriters", "AvroSchema", "AvroInputFormat", "AvroBulkWriters", "GenericRecordAvroTypeInfo",
        "AvroParquetReaders", "AvroParquetWriters", "ParquetBulkWriters", "ParquetColumnarRowInputFormat",
        "OrcBulkWriters",
    ),
}  # fmt: skip

for _reason, _names in _REASONS.items():
    for _name in _names:
        globals()[_name] = not_yet(_name, _reason, __name__)

__all__ = [
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]
__all__ += [name for names in _REASONS.values() for name in names]
