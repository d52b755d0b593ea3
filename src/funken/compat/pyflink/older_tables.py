"""The Table API of PyFlink 1.9 to 1.13: ``connect()`` with descriptors, CSV sources and sinks, ``insert_into`` and ``execute``.

Each call warns once and runs as what replaced it: descriptors as options of a table, ``insert_into`` as a statement set that
``execute`` submits and waits for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from funken.compat.pyflink.adoption import refuse
from funken.compat.pyflink.atomic_types import DataType, InvalidDataType
from funken.compat.pyflink.data_types import RowField, RowType, data_types_of
from funken.compat.pyflink.members import gets, ignores, puts, sets
from funken.errors import InvalidProgram
from funken.table.connectors.options import KEYS_BEFORE, OLD_CSV
from funken.table.descriptors import TableDescriptor
from funken.table.schema import AnyType, ResolvedSchema, as_type
from funken.table.schema import Schema as TableColumns

# ---- descriptors

_OLD_TYPES = {"SQL_TIMESTAMP": "TIMESTAMP(3)", "SQL_TIME": "TIME(0)", "SQL_DATE": "DATE", "LONG": "BIGINT", "BYTE": "TINYINT",
              "SHORT": "SMALLINT", "BIG_DEC": "DECIMAL(38, 18)"}  # fmt: skip


def _old_type(given: Any) -> tuple[str, Any]:
    """Return a type as the properties of descriptors have it, and as it is."""
    if isinstance(given, str):
        text = _OLD_TYPES.get(given.upper(), given)
        return text, as_type("STRING" if text.upper() == "VARCHAR" else text)
    type_ = as_type(given)
    text = str(type_)
    return {"STRING": "VARCHAR(2147483647)", "BYTES": "VARBINARY(2147483647)"}.get(text, text), type_


class Descriptor:
    """The base of descriptors: a collection of properties."""

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}

    def to_properties(self) -> dict[str, str]:
        """Return the properties."""
        return dict(self._properties)


class Rowtime(Descriptor):
    """The event time of rows, and the rule for watermarks.

    >>> Rowtime().timestamps_from_field("ts").watermarks_periodic_bounded(1000).to_properties()["rowtime.watermarks.delay"]
    '1000'
    """

    def timestamps_from_field(self, field_name: str) -> Rowtime:
        """Take the event time of a column."""
        self._properties |= {"rowtime.timestamps.type": "from-field", "rowtime.timestamps.from": field_name}
        return self

    timestamps_from_source = puts(
        "_properties.rowtime.timestamps.type", "from-source", "Keep the timestamps of the source."
    )

    def timestamps_from_extractor(self, extractor: str) -> Rowtime:
        """Raise: extractors are Java classes."""
        refuse(f"timestamps_from_extractor({extractor!r})", "Declare a computed column with WATERMARK FOR it.")

    watermarks_periodic_ascending = puts(
        "_properties.rowtime.watermarks.type", "periodic-ascending", "Let watermarks follow a column that ascends."
    )

    def watermarks_periodic_bounded(self, delay: int) -> Rowtime:
        """Let watermarks follow with a delay (ms)."""
        self._properties |= {"rowtime.watermarks.type": "periodic-bounded", "rowtime.watermarks.delay": str(delay)}
        return self

    watermarks_from_source = puts(
        "_properties.rowtime.watermarks.type", "from-source", "Keep the watermarks of the source."
    )

    def watermarks_from_strategy(self, strategy: str) -> Rowtime:
        """Raise: strategies are Java classes."""
        refuse(f"watermarks_from_strategy({strategy!r})", "Declare WATERMARK FOR the column.")


class Schema(Descriptor):
    """The columns of a table that ``connect`` describes.

    >>> Schema().field("p", "SQL_TIMESTAMP").proctime().to_properties()
    {'schema.0.name': 'p', 'schema.0.data-type': 'TIMESTAMP(3)', 'schema.0.proctime': 'true'}
    """

    def __init__(self, schema: Any = None, fields: Mapping[str, Any] | None = None, rowtime: Any = None) -> None:
        super().__init__()
        self._fields: list[tuple[str, Any, dict[str, str]]] = []
        if schema is not None:
            self.schema(schema)
        if fields is not None:
            self.fields(fields)
        if rowtime is not None:
            self.rowtime(rowtime)

    @staticmethod
    def new_builder() -> TableColumns.Builder:
        """Return a builder of today's ``Schema``."""
        return TableColumns.new_builder()

    def schema(self, table_schema: Any) -> Schema:
        """Take over the columns of a ``TableSchema``."""
        for name, type_ in zip(table_schema.get_field_names(), table_schema.get_field_data_types(), strict=True):
            self.field(name, type_)
        return self

    def field(self, field_name: str, field_type: Any) -> Schema:
        """Add a column; the next calls are about it."""
        self._fields.append((field_name, field_type, {}))
        return self

    def fields(self, fields: Mapping[str, Any]) -> Schema:
        """Add columns."""
        for name, type_ in fields.items():
            self.field(name, type_)
        return self

    def from_origin_field(self, origin_field_name: str) -> Schema:
        """Read the last column under another name."""
        self._last()["from"] = origin_field_name
        return self

    def proctime(self) -> Schema:
        """Make the last column the processing time."""
        self._last()["proctime"] = "true"
        return self

    def rowtime(self, rowtime: Rowtime) -> Schema:
        """Make the last column the event time."""
        self._last().update(rowtime.to_properties())
        return self

    def _last(self) -> dict[str, str]:
        if not self._fields:
            raise InvalidProgram("the schema has no column yet; call field() first.")
        return self._fields[-1][2]

    def to_properties(self) -> dict[str, str]:
        """Return the properties."""
        found: dict[str, str] = {}
        for place, (name, given, more) in enumerate(self._fields):
            found |= {f"schema.{place}.name": name, f"schema.{place}.data-type": _old_type(given)[0]}
            found |= {f"schema.{place}.{key}": value for key, value in more.items()}
        return found

    def columns(self) -> TableColumns:
        """Return the columns as ``TableDescriptor`` has them."""
        builder = TableColumns.new_builder()
        marks: list[tuple[str, str]] = []
        for name, given, more in self._fields:
            type_ = _old_type(given)[1]
            origin = more.get("from") or more.get("rowtime.timestamps.from")
            if "rowtime.timestamps.type" in more:  # watermarks are of milliseconds
                type_ = as_type("TIMESTAMP(3)")
            if more.get("proctime"):
                builder.column_by_expression(name, "PROCTIME()")
            elif origin and origin != name:
                if all(origin != other for other, _, _ in self._fields):
                    builder.column(origin, type_)
                builder.column_by_expression(name, f"`{origin}`")
            else:
                builder.column(name, type_)
            if "rowtime.watermarks.type" in more:
                delay = int(more.get("rowtime.watermarks.delay", "1")) / 1000
                marks.append((name, f"`{name}` - INTERVAL '{delay:.3f}' SECOND"))
        for name, mark in marks:
            builder.watermark(name, mark)
        return builder.build()


class _Options(Descriptor):
    """A descriptor of a connector or format: its options as a table has them today."""

    name = ""

    def options(self) -> dict[str, str]:
        """Return the options."""
        return self.to_properties()


class _Named(_Options):
    """A descriptor with properties of any name."""

    def property(self, key: str, value: str) -> Any:
        """Set a property."""
        raise NotImplementedError

    def properties(self, property_dict: Mapping[str, str]) -> Any:
        """Set properties."""
        for key, value in property_dict.items():
            self.property(key, value)
        return self


class FileSystem(_Options):
    """Files."""

    name = "filesystem"

    def __init__(self, path: str | None = None) -> None:
        super().__init__()
        if path is not None:
            self.path(path)

    path = sets[str]("_properties.path", "path_str", "Set the path.")


class Kafka(_Named):
    """A topic of Kafka."""

    name = "kafka"

    def __init__(
        self, version: str | None = None, topic: str | None = None, properties: Mapping[str, str] | None = None,
        start_from_earliest: bool = False, start_from_latest: bool = False, start_from_group_offsets: bool = True,
        start_from_specific_offsets_dict: Mapping[int, int] | None = None, start_from_timestamp: int | None = None,
        sink_partitioner_fixed: bool | None = None, sink_partitioner_round_robin: bool | None = None,
        custom_partitioner_class_name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if topic is not None:
            self.topic(topic)
        if properties is not None:
            self.properties(properties)
        if start_from_earliest:
            self.start_from_earliest()
        elif start_from_latest:
            self.start_from_latest()
        elif start_from_timestamp is not None:
            self.start_from_timestamp(start_from_timestamp)

    version = ignores("version", "Accept and ignore: there is one client.")
    topic = sets[str]("_properties.topic", "topic", "Set the topic.")

    def property(self, key: str, value: str) -> Kafka:
        """Set a property of the client."""
        if key != "zookeeper.connect":
            self._properties[f"properties.{key}"] = str(value)
        return self

    start_from_earliest = puts("_properties.scan.startup.mode", "earliest-offset", "Begin with the oldest records.")
    start_from_latest = puts("_properties.scan.startup.mode", "latest-offset", "Begin with the records that come.")
    start_from_group_offsets = puts("_properties.scan.startup.mode", "group-offsets", "Begin where the group stopped.")

    def start_from_timestamp(self, timestamp: int) -> Kafka:
        """Begin with the records of a time (ms)."""
        self._properties["scan.startup.timestamp-millis"] = str(timestamp)
        return self._start("timestamp")

    def start_from_specific_offset(self, partition: int, specific_offset: int) -> Kafka:
        """Begin a partition with an offset."""
        before = self._properties.get("scan.startup.specific-offsets")
        here = f"partition:{partition},offset:{specific_offset}"
        self._properties["scan.startup.specific-offsets"] = here if before is None else f"{before};{here}"
        return self._start("specific-offsets")

    def start_from_specific_offsets(self, specific_offsets_dict: Mapping[int, int]) -> Kafka:
        """Begin partitions with offsets."""
        for partition, offset in specific_offsets_dict.items():
            self.start_from_specific_offset(partition, offset)
        return self

    def _start(self, mode: str) -> Kafka:
        self._properties["scan.startup.mode"] = mode
        return self

    sink_partitioner_fixed = ignores("", "Accept and ignore: the producer chooses partitions.")
    sink_partitioner_round_robin = puts(
        "_properties.sink.partitioner", "round-robin", "Write to the partitions in turns."
    )

    def options(self) -> dict[str, str]:
        """Return the options; without a starting point those of the group, as in Flink."""
        found = self.to_properties()
        if "properties.group.id" not in found and "scan.startup.mode" not in found:
            found["scan.startup.mode"] = "earliest-offset"
        return found


class CustomConnectorDescriptor(_Named):
    """Any connector by its name."""

    def __init__(self, type: str, version: int = 1, format_needed: bool = False) -> None:
        super().__init__()
        self.name = type

    def property(self, key: str, value: str) -> CustomConnectorDescriptor:
        """Set an option; its key may be that of Flink 1.10, such as ``connector.table``."""
        named = re.sub(rf"^connector\.{self.name}\.", "", key)
        self._properties[KEYS_BEFORE.get(named, named.removeprefix("connector."))] = value
        return self


class CustomFormatDescriptor(_Named):
    """Any format by its name."""

    def __init__(self, type: str, version: int = 1) -> None:
        super().__init__()
        self.name = type

    def property(self, key: str, value: str) -> CustomFormatDescriptor:
        """Set an option."""
        self._properties[re.sub(rf"^format\.({self.name}\.)?", "", key)] = value
        return self


def _old_csv(options: Mapping[str, str]) -> dict[str, str]:
    old = {key.removeprefix("csv."): value for key, value in OLD_CSV.items()}
    if "quote-character" in options:
        del old["disable-quote-character"]
    return {**options, **old}


class Csv(_Options):
    """Lines of values with delimiters."""

    name = "csv"

    def __init__(self, schema: Any = None, **given: Any) -> None:
        super().__init__()
        for name, value in given.items():
            if value not in (None, False):
                getattr(self, name)(*(() if value is True else (value,)))

    field_delimiter = sets[str]("_properties.field-delimiter", "delimiter", "Set the text between values.")
    line_delimiter = ignores("delimiter", "Accept and ignore: lines end as lines do.")
    quote_character = sets[str]("_properties.quote-character", "quoteCharacter", "Set the quotes of values.")
    allow_comments = puts("_properties.allow-comments", "true", "Leave out lines that begin with ``#``.")
    ignore_parse_errors = puts("_properties.ignore-parse-errors", "true", "Leave out lines that cannot be read.")
    array_element_delimiter = sets[str](
        "_properties.array-element-delimiter", "delimiter", "Set the text between the elements of arrays."
    )
    escape_character = sets[str](
        "_properties.escape-character", "escape_character", "Set the letter that quotes a character."
    )
    null_literal = sets[str]("_properties.null-literal", "null_literal", "Set the text of NULL.")
    schema = ignores("schema", "Accept and ignore: the columns are those of the table.")
    derive_schema = ignores("", "Accept and ignore: the columns are those of the table.")
    field = ignores("field_name, field_type", "Accept and ignore: the columns are those of the table.")
    ignore_first_line = puts("_properties.ignore-first-line", "true", "Leave out the first line of each file.")


class OldCsv(Csv):
    """The same for files: values are quoted only if ``quote_character`` says so, and more fields than columns are dropped."""

    def options(self) -> dict[str, str]:
        """Return the options."""
        return _old_csv(self.to_properties())

    def comment_prefix(self, prefix: str) -> OldCsv:
        """Leave out lines that begin with ``#``."""
        self.allow_comments()
        return self


class Json(_Options):
    """Documents of JSON."""

    name = "json"

    def __init__(
        self, json_schema: str | None = None, schema: Any = None, derive_schema: bool = False,
        fail_on_missing_field: bool | None = None, ignore_parse_errors: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if fail_on_missing_field:
            self.fail_on_missing_field(True)
        if ignore_parse_errors:
            self.ignore_parse_errors(True)

    def fail_on_missing_field(self, fail_on_missing_field: bool = True) -> Json:
        """Fail for documents without a field, or return NULL."""
        self._properties["fail-on-missing-field"] = str(bool(fail_on_missing_field)).lower()
        return self

    def ignore_parse_errors(self, ignore_parse_errors: bool = True) -> Json:
        """Leave out documents that cannot be read."""
        self._properties["ignore-parse-errors"] = str(bool(ignore_parse_errors)).lower()
        return self

    json_schema = ignores("json_schema", "Accept and ignore: the columns are those of the table.")
    schema = ignores("data_type", "Accept and ignore: the columns are those of the table.")
    derive_schema = ignores("", "Accept and ignore: the columns are those of the table.")


class Avro(_Options):
    """Records of Avro."""

    name = "avro"

    avro_schema = ignores("avro_schema", "Accept and ignore: the columns are those of the table.")
    record_class = ignores("record_class", "Accept and ignore: the columns are those of the table.")


class Elasticsearch(_Options):
    """Raises: there is no such connector of tables."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise InvalidProgram(
            "tables of Elasticsearch are not there. Write to_changelog_stream() with a sink of your own, or write to Kafka."
        )


class ConnectTableDescriptor:
    """A table under description: connector, format and columns."""

    def __init__(self, environment: Any, connector: _Options) -> None:
        self._environment = environment
        self._connector = connector
        self._format: _Options | None = None
        self._schema: Schema | None = None

    with_format = sets[_Options]("_format", "format_descriptor", "Set the format.")
    with_schema = sets[Schema]("_schema", "schema", "Set the columns.")
    in_append_mode = ignores("", "Accept: the planner knows which changes a query makes.")

    in_retract_mode = in_upsert_mode = in_append_mode

    def create_temporary_table(self, path: str) -> None:
        """Create the table for the session."""
        if self._schema is None:
            raise InvalidProgram(f"table {path!r} has no columns; call with_schema().")
        builder = TableDescriptor.for_connector(self._connector.name).schema(self._schema.columns())
        options = self._connector.options()
        if self._format is not None:
            options["format"] = self._format.name
            options |= {f"{self._format.name}.{key}": value for key, value in self._format.options().items()}
        for key, value in options.items():
            builder.option(key, value)
        self._environment.create_temporary_table(path, builder.build())

    def register_table_source(self, name: str) -> None:
        """Create the table for the session."""
        self.create_temporary_table(name)

    register_table_sink = register_table_source_and_sink = register_table_source


# ---- columns and their types


class TableSchema:
    """Names and types of columns (the older class; ``ResolvedSchema`` has taken its place).

    >>> schema = TableSchema(["a"], ["INT"])
    >>> schema.get_field_names(), schema.get_field_data_type("a")
    (['a'], IntType(true))
    """

    def __init__(self, field_names: Sequence[str] = (), data_types: Sequence[AnyType] = ()) -> None:
        self._names = list(field_names)
        self._types = [as_type(each) for each in data_types]
        for name in self._names:
            if self._names.count(name) > 1:
                raise InvalidProgram(f"column {name!r} is there twice; name the columns of a table differently.")
        self._lines = [f"{name}: {type_}" for name, type_ in zip(self._names, self._types, strict=True)]

    @staticmethod
    def of(schema: ResolvedSchema) -> TableSchema:
        """Return the columns of a schema; its text has time attributes, definitions, watermarks and the key as well."""
        found = TableSchema(schema.get_column_names(), [each.type for each in schema.columns])
        found._lines = [
            " ".join(filter(None, [f"{each.name}: {each.type}", each.time and f"*{each.time}*", each.explain_extras()]))
            for each in schema.columns
        ]
        for mark in schema.watermarks:
            found._lines.append(f"WATERMARK FOR {mark.rowtime_attribute}: {mark.type} AS {mark.expression}")
        if schema.primary_key is not None:
            columns = ", ".join(schema.primary_key.columns)
            found._lines.append(f"CONSTRAINT {schema.primary_key.name} PRIMARY KEY ({columns})")
        return found

    def copy(self) -> TableSchema:
        """Return a copy."""
        found = TableSchema(self._names, self._types)
        found._lines = self._lines
        return found

    get_field_names = gets[list[str]]("_names", "Return the names of the columns.", list)
    get_field_data_types = gets[list[DataType]]("_types", "Return the types of the columns.", data_types_of)
    get_field_count = gets[int]("_names", "Return the number of columns.", len)

    def get_field_name(self, field_index: int) -> str | None:
        """Return the name of a column; ``None`` if there is none."""
        return self._names[field_index] if 0 <= field_index < len(self._names) else None

    def get_field_data_type(self, field: int | str) -> DataType | None:
        """Return the type of a column by place or name; ``None`` if there is none."""
        if not isinstance(field, int | str):
            raise TypeError(f"a column has a place or a name, but got {field!r}.")
        place = self._names.index(field) if field in self._names else field
        types = data_types_of(self._types)
        return types[place] if isinstance(place, int) and 0 <= place < len(types) else None

    def to_row_data_type(self) -> RowType:
        """Return the ROW type of the columns."""
        types = data_types_of(self._types)
        return RowType([RowField(name, type_) for name, type_ in zip(self._names, types, strict=True)], nullable=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableSchema) and (self._names, self._types) == (other._names, other._types)

    def __hash__(self) -> int:
        return hash((tuple(self._names), tuple(self._types)))

    def __repr__(self) -> str:
        return "root\n" + "".join(f" |-- {line}\n" for line in self._lines)

    @staticmethod
    def builder() -> TableSchema.Builder:
        """Return a builder."""
        return TableSchema.Builder()

    class Builder:
        """Collects columns."""

        def __init__(self) -> None:
            self._names: list[str] = []
            self._types: list[DataType] = []

        def field(self, name: str, data_type: DataType) -> TableSchema.Builder:
            """Add a column."""
            if name is None or data_type is None:
                raise InvalidDataType(f"a column has a name and a type, but got {name!r} and {data_type!r}.")
            self._names.append(name)
            self._types.append(data_type)
            return self

        def build(self) -> TableSchema:
            """Return the schema."""
            return TableSchema(self._names, self._types)


# ---- CSV


class WriteMode:
    """The rule for files that exist."""

    NO_OVERWRITE = 0
    OVERWRITE = 1


class TableSource:
    """The base of sources of tables."""

    def descriptor(self) -> TableDescriptor:
        """Return the descriptor of the table."""
        raise NotImplementedError


class TableSink(TableSource):
    """The base of sinks of tables."""


def _csv(path: str, names: Sequence[str], types: Sequence[Any], options: Mapping[str, str]) -> TableDescriptor:
    columns = TableColumns.new_builder().from_fields(list(names), [_old_type(one)[1] for one in types]).build()
    builder = TableDescriptor.for_connector("filesystem").schema(columns).option("path", path).option("format", "csv")
    for key, value in options.items():
        builder.option(f"csv.{key}", value)
    return builder.build()


class CsvTableSource(TableSource):
    """A file of CSV.

    >>> CsvTableSource("/in.csv", ["a"], ["INT"]).descriptor().get_options()["path"]
    '/in.csv'
    """

    def __init__(
        self, source_path: str, field_names: Sequence[str], field_types: Sequence[Any], field_delim: str | None = None,
        line_delim: str | None = None, quote_character: str | None = None, ignore_first_line: bool | None = None,
        ignore_comments: str | None = None, lenient: bool | None = None, empty_column_as_null: bool | None = None,
    ) -> None:  # fmt: skip
        given = {
            "field-delimiter": field_delim, "quote-character": quote_character,
            "ignore-first-line": "true" if ignore_first_line else None,
            "allow-comments": "true" if ignore_comments else None, "ignore-parse-errors": "true" if lenient else None,
            "null-literal": "" if empty_column_as_null else None,
        }  # fmt: skip
        options = _old_csv({key: value for key, value in given.items() if value is not None})
        self._descriptor = _csv(source_path, field_names, field_types, options)

    descriptor = gets[TableDescriptor]("_descriptor", "Return the descriptor of the table.")


class CsvTableSink(TableSink):
    """Files of CSV."""

    def __init__(
        self, field_names: Sequence[str], field_types: Sequence[Any], path: str, field_delimiter: str = ",",
        num_files: int = -1, write_mode: int | None = None,
    ) -> None:  # fmt: skip
        self._descriptor = _csv(path, field_names, field_types, _old_csv({"field-delimiter": field_delimiter}))

    descriptor = gets[TableDescriptor]("_descriptor", "Return the descriptor of the table.")
