"""Formats of files with PyFlink's names, over those of ``connectors``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from funken.compat.pyflink.adoption import not_yet
from funken.compat.pyflink.formats import CsvSettings
from funken.compat.pyflink.members import puts, sets
from funken.compat.pyflink.types import info_of
from funken.connectors.files import arrow_files, avro_files, csv_files
from funken.connectors.formats import avro_schema, csv_schema
from funken.types.info import PickledBytesTypeInfo, Types

AvroSchema = avro_schema.AvroSchema


class CsvSchemaBuilder(CsvSettings):
    """Describes the columns of files of delimited text."""

    def __init__(self) -> None:
        super().__init__()
        self._columns: list[tuple[str, Any]] = []
        self._header = self._skip_first = self._strict = False

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of text."""
        return self._add(name, Types.STRING())

    def add_number_column(self, name: str, number_type: Any = None) -> CsvSchemaBuilder:
        """Add a column of numbers; whole numbers unless a type of ``Types`` says otherwise."""
        return self._add(name, info_of(number_type) or Types.LONG())

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of ``true`` and ``false``."""
        return self._add(name, Types.BOOLEAN())

    def add_array_column(self, name: str, separator: str = ";", element_type: Any = None) -> CsvSchemaBuilder:
        """Add a column of lists."""
        self._set("array_delimiters", (*self._options.get("array_delimiters", ()), (name, separator)))
        return self._add(name, Types.LIST(info_of(element_type) or Types.STRING()))

    def add_columns_from(self, schema: csv_files.CsvReaderFormat) -> CsvSchemaBuilder:
        """Add the columns of a schema that ``build`` returned."""
        row_type: Any = schema.schema.record_type
        for column in zip(row_type.get_field_names(), row_type.get_field_types(), strict=True):
            self._add(*column)
        self._set("array_delimiters", (*self._options.get("array_delimiters", ()), *schema.schema.array_delimiters))
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        """Forget the columns."""
        self._columns.clear()
        self._options.pop("array_delimiters", None)
        return self

    def size(self) -> int:
        """Return the number of columns."""
        return len(self._columns)

    def __len__(self) -> int:
        return self.size()

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set the text between the elements of a list."""
        self.set_array_element_delimiter(separator)
        return self

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Skip lines that begin with ``#``."""
        self._set("comment", "#" if allow else None)
        return self

    def _add(self, name: str, kind: Any) -> CsvSchemaBuilder:
        self._columns.append((name, kind))
        return self

    set_column_separator = sets[str]("_options.delimiter", "char", "Set the text between columns.")
    set_quote_char = sets[str]("_options.quote", "char", "Set the quotes of fields.")
    disable_quote_char = puts("_options.quote", None, "Give quotes no meaning.")
    set_escape_char = sets[str](
        "_options.escape", "char", "Set the letter that takes the meaning of the next character."
    )
    disable_escape_char = puts("_options.escape", None, "Give escapes no meaning.")
    set_null_value = sets[str]("_options.null_literal", "null_value", "Set how ``None`` is written.")
    set_use_header = sets[bool](
        "_header",
        "use=True",
        "Write the names of columns in the first line, and read none in it: columns are in the order of the schema.",
    )
    set_skip_first_data_row = sets[bool](
        "_skip_first", "skip=True", "Leave out the first row of every file, after its header."
    )
    set_strict_headers = sets[bool](
        "_strict", "strict=True", "Let files fail whose header has not the names of the schema, in its order."
    )

    def build(self) -> CsvSchema:
        """Return the schema."""
        self._type_info = Types.ROW_NAMED([name for name, _ in self._columns], [kind for _, kind in self._columns])
        names = csv_schema.HeaderNames.MATCH if self._strict else csv_schema.HeaderNames.IGNORE
        return CsvSchema(self.csv_schema(), self._header, skip_first_row=self._skip_first, names=names)


class CsvSchema(csv_files.CsvReaderFormat):
    """The columns of files of delimited text.

    >>> schema = CsvSchema.builder().add_string_column("item").add_number_column("n").set_column_separator("|").build()
    >>> CsvReaderFormat.for_schema(schema).schema.deserialize(b"tea|3")
    Row(item='tea', n=3)
    >>> schema.size()
    2
    >>> CsvSchema.builder().add_columns_from(schema).add_boolean_column("paid").size()
    3
    """

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Start to describe them."""
        return CsvSchemaBuilder()

    def size(self) -> int:
        """Return the number of columns."""
        return len(self.schema.names)


class CsvReaderFormat:
    """Files of delimited text as a source."""

    @staticmethod
    def for_schema(schema: Any) -> Any:
        """Read files of this schema."""
        return schema


class CsvBulkWriters:
    """Files of delimited text as a sink."""

    @staticmethod
    def for_schema(schema: Any) -> Any:
        """Write files of this schema."""
        return schema.encoder()


class ParquetColumnarRowInputFormat(arrow_files.ParquetFormat):
    """Rows of Parquet files; ``row_type`` is a type of ``Types`` or a schema of Arrow."""

    def __init__(
        self, row_type: Any, hadoop_config: Any = None, batch_size: int = 2048, is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(info_of(row_type))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.record_type,)


class ParquetBulkWriters:
    """Parquet files as a sink.

    >>> ParquetBulkWriters.for_row_type(Types.ROW_NAMED(["n"], [Types.INT()])).suffix
    '.parquet'
    """

    @staticmethod
    def for_row_type(row_type: Any, hadoop_config: Any = None, utc_timestamp: bool = False) -> Any:
        """Write rows."""
        return arrow_files.ParquetFormat(info_of(row_type))


class OrcBulkWriters:
    """ORC files as a sink."""

    @staticmethod
    def for_row_type(row_type: Any, writer_properties: Any = None, hadoop_config: Any = None) -> Any:
        """Write rows."""
        return arrow_files.OrcFormat(info_of(row_type))


class AvroInputFormat(avro_files.AvroFormat):
    """Records of Avro files, as dicts; for ``create_input``, or ``FileSource.for_record_stream_format``."""

    def __init__(self, path: str | None = None, schema: Any = None) -> None:
        super().__init__(getattr(schema, "schema", schema))
        object.__setattr__(self, "path", path)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.schema)  # type: ignore[attr-defined]


class AvroBulkWriters:
    """Avro files as a sink."""

    @staticmethod
    def for_generic_record(schema: Any) -> Any:
        """Write dicts."""
        return avro_files.AvroFormat(schema.schema)


class AvroParquetReaders:
    """Parquet files as dicts; the columns are those of the schema of Avro."""

    @staticmethod
    def for_generic_record(schema: Any) -> Any:
        """Read the fields of the schema."""
        return arrow_files.ParquetFormat(fields=tuple(each["name"] for each in schema._parsed["fields"]))


class AvroParquetWriters:
    """Dicts as Parquet files."""

    @staticmethod
    def for_generic_record(schema: Any) -> Any:
        """Write dicts; the columns are found in them."""
        return arrow_files.ParquetFormat()


@dataclass(frozen=True, repr=False)
class GenericRecordAvroTypeInfo(PickledBytesTypeInfo):
    """The type of records of Avro, for PyFlink's ``output_type``; dicts need none here, so it stands for no declaration."""

    schema: Any = None


_WHY = "write rows with FileSink.for_row_format() or a format of files with for_bulk_format()."
BulkWriterFactory = not_yet("BulkWriterFactory", _WHY, __name__)
RowDataBulkWriterFactory = not_yet("RowDataBulkWriterFactory", _WHY, __name__)

__all__ = ["AvroSchema"]
