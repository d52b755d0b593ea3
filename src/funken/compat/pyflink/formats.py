"""The schemas of messages: records to bytes and back. ``file_formats.py`` has the formats of files."""

from __future__ import annotations

from typing import Any

from funken.compat.pyflink.adoption import refuse, removed
from funken.compat.pyflink.members import puts, refuses, sets
from funken.connectors import schemas
from funken.connectors.files.part_files import Encoder
from funken.connectors.formats import avro_schema, csv_schema
from funken.connectors.formats.json_schema import JsonSchema
from funken.errors import EnvironmentNotReady, JobExecutionError
from funken.types.callables import Generic, IN_contra, OUT_co
from funken.types.info import TypeInformation, Types


class SerializationSchema(schemas.SerializationSchema[IN_contra], Generic[IN_contra]):
    """Makes bytes of a record.

    >>> class Comma(SerializationSchema):
    ...     def serialize(self, element):
    ...         return ",".join(map(str, element)).encode()
    >>> Comma().serialize(("to", 2))
    b'to,2'
    """

    def serialize(self, element: IN_contra) -> bytes:
        """Return the bytes of a record."""
        raise NotImplementedError


class DeserializationSchema(schemas.DeserializationSchema[OUT_co], Generic[OUT_co]):
    """Makes a record of bytes.

    >>> import json
    >>> class Json(DeserializationSchema):
    ...     def deserialize(self, message):
    ...         return json.loads(message)
    >>> Json().deserialize(b'{"word": "to"}')
    {'word': 'to'}
    """

    def deserialize(self, message: bytes) -> OUT_co:
        """Return the record of a message."""
        raise NotImplementedError


class SimpleStringSchema(SerializationSchema[object], DeserializationSchema[str]):
    r"""Text.

    >>> SimpleStringSchema("UTF-8").serialize("ä"), SimpleStringSchema().deserialize(b"a")
    (b'\xc3\xa4', 'a')
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        self.charset: str = charset

    def serialize(self, element: Any) -> bytes:
        """Encode text."""
        return str(element).encode(self.charset)

    def deserialize(self, message: bytes) -> str:
        """Decode text."""
        return message.decode(self.charset)


class ByteArraySchema(SerializationSchema[bytes], DeserializationSchema[bytes]):
    """Bytes as they are.

    >>> ByteArraySchema().serialize(bytearray(b"to")), ByteArraySchema().deserialize(b"be")
    (b'to', b'be')
    """

    def serialize(self, element: Any) -> bytes:
        """Return the bytes."""
        return schemas.bytes_of(element)

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
        return schemas.bytes_of(element[self.field_index])


def produced_type(schema: Any) -> TypeInformation | None:
    """Return the type of the records that a schema reads; ``None`` if it is not known.

    >>> produced_type(SimpleStringSchema()), produced_type(None)
    (String, None)
    """
    if isinstance(schema, SimpleStringSchema | schemas.SimpleStringSchema):
        return Types.STRING()
    found = getattr(getattr(schema, "_schema", schema), "record_type", None)
    return found if isinstance(found, TypeInformation) else None


class _Settings:
    """A builder that changes in place; ``_known`` are its settings and their defaults."""

    def __init__(self, type_info: Any = None) -> None:
        self._type_info = type_info
        self._ignore = False
        self._options: dict[str, Any] = {}

    with_type_info = sets["TypeInformation[Any]"]("_type_info", "type_info", "Set the type of the rows.")

    type_info = with_type_info

    ignore_parse_errors = puts("_ignore", True, "Drop messages that cannot be parsed.")


class _Lenient(DeserializationSchema):
    """A schema, whose malformed messages may be dropped."""

    def __init__(self, schema: Any, ignore: bool) -> None:
        self._schema = schema
        self._ignore = ignore

    def deserialize(self, message: bytes) -> Any:
        """Return the record of a message; ``None`` if it has none."""
        if not self._ignore:
            return self._schema.deserialize(message)
        try:
            return self._schema.deserialize(message)
        except (JobExecutionError, EnvironmentNotReady):
            raise  # it is not the message's fault
        except Exception:  # noqa: BLE001 - whatever a message makes of it
            return None


class _Strict(SerializationSchema):
    """A schema that writes rows."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    def serialize(self, element: Any) -> bytes:
        """Return the bytes of a record."""
        return bytes(self._schema.serialize(element))


class JsonRowDeserializationSchema(_Lenient):
    """Rows of JSON objects, whose values become those of the declared types, as in Flink: ``"5"`` an ``INT``, text a timestamp.

    >>> from funken import Types
    >>> types = Types.ROW_NAMED(["item", "n"], [Types.STRING(), Types.INT()])
    >>> schema = JsonRowDeserializationSchema.builder().type_info(types).ignore_parse_errors().build()
    >>> schema.deserialize(b'{"item": "tea", "n": 3}'), schema.deserialize(b"{")
    (Row(item='tea', n=3), None)
    """

    class Builder(_Settings):
        """Describes one."""

        fail_on_missing_field = puts("_options.strict", True, "Fail for an object without a field of the type.")
        json_schema = refuses(
            "json_schema",
            "json_schema()",
            "Declare the rows with type_info(Types.ROW_NAMED(...)).",
            "Raise: types are declared with ``Types``.",
        )

        def build(self) -> JsonRowDeserializationSchema:
            """Return the schema."""
            made = JsonRowDeserializationSchema(JsonSchema(self._type_info), self._ignore)
            made._names = self._type_info.get_field_names() if "strict" in self._options else ()
            return made

    _names: Any = ()

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Start to describe one."""
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes) -> Any:
        """Return the row of a message."""
        if self._names:
            try:
                document = JsonSchema().deserialize(message)
            except Exception:  # noqa: BLE001 - found again
                document = {}
            if isinstance(document, dict) and document:
                missing = [name for name in self._names if name not in document]
                if missing and not self._ignore:
                    raise ValueError(f"field {missing[0]!r} is missing")
                if missing:
                    return None
        return super().deserialize(message)


class JsonRowSerializationSchema(_Strict):
    """JSON objects of rows, whose values are written as those of the declared types; without names they are ``f0``, ``f1``...

    >>> from funken import Types
    >>> schema = JsonRowSerializationSchema.builder().with_type_info(Types.ROW([Types.STRING(), Types.INT()])).build()
    >>> schema.serialize(("tea", 3))
    b'{"f0": "tea", "f1": 3}'
    """

    class Builder(_Settings):
        """Describes one."""

        def build(self) -> JsonRowSerializationSchema:
            """Return the schema."""
            return JsonRowSerializationSchema(JsonSchema(self._type_info))

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Start to describe one."""
        return JsonRowSerializationSchema.Builder()


class CsvSettings(_Settings):
    def _set(self, name: str, value: Any) -> Any:
        self._options[name] = value
        return self

    set_field_delimiter = sets[str]("_options.delimiter", "delimiter", "Set the text between fields.")
    set_array_element_delimiter = sets[str](
        "_options.array_delimiter", "delimiter", "Set the text between the elements of a list."
    )
    set_quote_character = sets[str]("_options.quote", "c", "Set the quotes of fields.")
    disable_quote_character = puts("_options.quote", None, "Give quotes no meaning.")
    set_escape_character = sets[str](
        "_options.escape", "c", "Set the letter that takes the meaning of the next character."
    )
    set_null_literal = sets[str]("_options.null_literal", "null_literal", "Set how ``None`` is written.")

    def set_allow_comments(self, allow_comments: bool = True) -> Any:
        """Skip lines that begin with ``#``."""
        return self._set("comment", "#" if allow_comments else None)

    set_ignore_parse_errors = sets[bool]("_ignore", "ignore_parse_errors=True", "Drop lines that cannot be parsed.")

    def csv_schema(self) -> csv_schema.CsvSchema:
        return csv_schema.CsvSchema(self._type_info, **self._options)


class CsvRowDeserializationSchema(_Lenient):
    """Rows of delimited text.

    >>> from funken import Types
    >>> types = Types.ROW([Types.STRING(), Types.INT()])
    >>> CsvRowDeserializationSchema.Builder(types).set_field_delimiter(";").build().deserialize(b"tea;3")
    <Row('tea', 3)>
    """

    class Builder(CsvSettings):
        """Describes one."""

        def build(self) -> CsvRowDeserializationSchema:
            """Return the schema."""
            return CsvRowDeserializationSchema(self.csv_schema(), self._ignore)


class CsvRowSerializationSchema(_Strict):
    """Delimited text of rows; by default each message ends with a line feed, as in Flink.

    >>> from funken import Types
    >>> types = Types.ROW([Types.STRING(), Types.INT()])
    >>> CsvRowSerializationSchema.Builder(types).disable_line_delimiter().build().serialize(("tea", 3))
    b'tea,3'
    """

    class Builder(CsvSettings):
        """Describes one."""

        set_field_delimiter = sets[str]("_options.delimiter", "c", "Set the text between fields.")
        set_null_literal = sets[str]("_options.null_literal", "s", "Set how ``None`` is written.")
        set_line_delimiter = sets[str]("_line", "delimiter", "Set the end of messages.")

        def disable_line_delimiter(self) -> Any:
            """Let messages end with their last field."""
            return self.set_line_delimiter("")

        _line = "\n"

        def build(self) -> CsvRowSerializationSchema:
            """Return the schema."""
            made = CsvRowSerializationSchema(self.csv_schema())
            made._line = self._line.encode()
            return made

    _line = b"\n"

    def serialize(self, element: Any) -> bytes:
        """Return the line of a row."""
        return super().serialize(element) + self._line


class AvroRowDeserializationSchema(_Lenient):
    r"""Rows of Avro; ``avro_schema_string`` is the schema in JSON.

    >>> schema = '{"type": "record", "name": "R", "fields": [{"name": "item", "type": "string"}, {"name": "n", "type": "int"}]}'
    >>> AvroRowDeserializationSchema(avro_schema_string=schema).deserialize(b"\x06tea\x06")
    Row(item='tea', n=3)
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        super().__init__(_avro(record_class, avro_schema_string), False)
        self._made = avro_schema.rows_of(self._schema.schema)

    def deserialize(self, message: bytes) -> Any:
        """Return the row of a message."""
        return self._made(super().deserialize(message))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None, self._schema.schema)


class AvroRowSerializationSchema(_Strict):
    """Avro of rows and tuples, whose fields are taken by their names if they have those of the schema, else in their order.

    >>> schema = AvroRowSerializationSchema(avro_schema_string='"string"')
    >>> AvroRowDeserializationSchema(avro_schema_string='"string"').deserialize(schema.serialize("tea"))
    'tea'
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        super().__init__(_avro(record_class, avro_schema_string))
        self._document = avro_schema.documents_of(self._schema.schema)

    def serialize(self, element: Any) -> bytes:
        """Return the bytes of a row."""
        return super().serialize(self._document(element))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None, self._schema.schema)


def _avro(record_class: Any, schema: str | None) -> avro_schema.AvroSchema:
    if schema is None:
        refuse(f"the Java class {record_class!r}", "Pass avro_schema_string=...")
    return avro_schema.AvroSchema(schema)


def SimpleStringEncoder(charset_name: str = "UTF-8") -> Encoder:
    """Return an encoder of lines of text; ``Encoder.simple_string_encoder()`` has taken its place."""
    removed("SimpleStringEncoder", "use Encoder.simple_string_encoder().")
    return Encoder.simple_string_encoder(charset_name)


__all__ = ["Encoder", "SimpleStringEncoder"]
