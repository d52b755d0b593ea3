"""Between programs and tables: rows that a program holds, streams as tables, and tables as streams."""

from __future__ import annotations

import datetime
import itertools
import numbers
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from funken.config.configuration import warn
from funken.errors import InvalidProgram, ValueDoesNotFit
from funken.table.catalog import CatalogTable, TableColumn, TableWatermark
from funken.table.changelog import ChangelogMode
from funken.table.logical import (
    LogicalNode,
    LogicalSink,
    LogicalStream,
    LogicalWatermark,
    OutputColumn,
    RelationType,
    TimeAttribute,
    project,
)
from funken.table.schema import ResolvedSchema, Schema, UniqueConstraint, WatermarkSpec, as_type, engine_type
from funken.table.types import (
    BYTES,
    STRING,
    ArrayType,
    BigIntType,
    BooleanType,
    CharType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    IntegralType,
    LocalZonedTimestampType,
    LogicalType,
    MapType,
    RawType,
    RowType,
    TimeOfDayType,
    TimestampType,
    VarCharType,
    common_type,
    is_text,
    logical_type,
)
from funken.table.values import named_parts
from funken.types.callables import check_kind
from funken.types.info import (
    BasicType,
    BasicTypeInfo,
    DecimalTypeInfo,
    MapTypeInfo,
    OfElements,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TimeType,
    TupleTypeInfo,
)
from funken.types.row import Instant, Row, RowKind

if TYPE_CHECKING:
    from funken.api.streams.stream import DataStream
    from funken.table.environment import TableEnvironment
    from funken.table.table import Table


class HeldRows:
    """Rows that a program holds, as the source of a plan."""

    environment = None

    def __init__(self, rows: Sequence[Any]) -> None:
        self.rows = rows

    def stream(self, env: Any) -> Any:
        """Return the rows as a stream."""
        return env.from_collection(list(self.rows))

    def __repr__(self) -> str:
        return f"<{len(self.rows)} rows of the program>"


class StreamSource:
    """A stream of the program, as the source of a plan."""

    def __init__(self, stream: DataStream[Any], convert: Any) -> None:
        self._stream = stream
        self._convert = convert
        self.environment = stream.get_execution_environment()

    def stream(self, env: Any) -> Any:
        """Return the stream, its records as rows."""
        return self._stream.process(self._convert).name("rows")

    def __repr__(self) -> str:
        return f"<{self._stream!r}>"


# ---- types of values


def inferred_type(value: Any) -> LogicalType | None:
    """Return the type of a value of Python; ``None`` for NULL and for an empty collection, which say nothing.

    >>> print(inferred_type([1]), inferred_type(1.5), inferred_type({"a": True}))
    ARRAY<BIGINT> DOUBLE MAP<STRING NOT NULL, BOOLEAN>
    """
    if _says_nothing(value):
        return None
    for kind, type_ in _SCALARS:
        if isinstance(value, kind):
            return type_
    if isinstance(value, datetime.datetime):
        return LocalZonedTimestampType(6) if value.tzinfo is not None else TimestampType(6)
    if isinstance(value, datetime.date):
        return DateType()
    if isinstance(value, Mapping | Row | tuple | list):
        return _common([value], "a value")
    if hasattr(value, "item"):
        return inferred_type(value.item())
    raise InvalidProgram(
        f"a value of the type {type(value).__name__} is no value of a table: {value!r}. Pass numbers, texts, times, lists, "
        "dicts or Rows; or a schema with the types of the columns."
    )


def _says_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, Mapping | list) and not value)


_SCALARS: tuple[tuple[type, LogicalType], ...] = (
    (bool, BooleanType()),
    (int, BigIntType()),
    (float, DoubleType()),
    (str, STRING),
    (bytes, BYTES),
    (bytearray, BYTES),
    (Decimal, DecimalType(38, 18)),
    (datetime.time, TimeOfDayType(0)),
    (datetime.timedelta, DayTimeIntervalType()),
)


def _common(values: Iterable[Any], what: str) -> LogicalType:
    """Return the type of several values: of rows, lists and maps by their parts, where a NULL in one is a value in another."""
    known = [value for value in values if not _says_nothing(value)]
    if not known:
        raise InvalidProgram(
            f"Some column types cannot be determined after inferring: {what} is always None. Pass a schema."
        )
    if all(isinstance(value, list) for value in known):
        return ArrayType(_common(itertools.chain.from_iterable(known), "an element"))
    if all(isinstance(value, Mapping) for value in known):
        keys = _common(itertools.chain.from_iterable(known), "a key").not_null()
        return MapType(keys, _common(itertools.chain.from_iterable(each.values() for each in known), "a value"))
    if all(isinstance(value, Row | tuple) and len(value) == len(known[0]) for value in known):
        names = getattr(known[0], "_fields", None) or [f"_{place + 1}" for place in range(len(known[0]))]
        fields = zip(names, zip(*known, strict=True), strict=True)
        return RowType.of(
            *(
                (name, STRING if all(map(_says_nothing, each)) else _common(each, f"field {name!r}"))
                for name, each in fields
            )
        )
    types = list(dict.fromkeys(found for found in map(inferred_type, known) if found is not None))
    found = types[0] if len(types) == 1 else common_type(types)
    if found is None:
        raise InvalidProgram(
            f"{what}: values of the types {', '.join(map(str, types))} have no type in common. Pass a schema."
        )
    return found


def _named_types(elements: Sequence[Any], schema: Any) -> list[tuple[str, LogicalType]]:
    """Return the columns of elements: by a schema, or inferred."""
    schema = as_type(schema) if isinstance(schema, str) else engine_type(schema)
    if isinstance(schema, Schema):
        return [(column.name, column.type) for column in schema.columns if column.is_physical]
    if isinstance(schema, RowType):
        return [(field.name, field.type) for field in schema.fields]
    if isinstance(schema, LogicalType):
        return [("value", schema)]
    names = [engine_type(each) for each in schema] if schema is not None else None
    if names and isinstance(names[0], LogicalType):
        return [(f"_{place + 1}", type_) for place, type_ in enumerate(names)]
    if not elements:
        raise InvalidProgram("there are no elements to infer the types of columns from. Pass a ROW type as schema.")
    first = elements[0]
    if names is None:
        names = list(first) if isinstance(first, Mapping) else getattr(first, "_fields", None)
    columns = [_values_of(element, names) for element in elements]
    width = max(map(len, columns))
    if schema is not None and names and not isinstance(first, Mapping) and len(names) != width:
        _say_names(names, width, first)
    if names and not all(isinstance(name, str) for name in names):
        raise InvalidProgram(
            f"from_elements() takes the rows as one list, and as schema the names of columns or a ROW type, but got "
            f"{names!r:.100}. Write from_elements([(1, 'a'), (2, 'b')], ['n', 'item']), or DataTypes.ROW([...]) there."
        )
    names = [*(names or ()), *(f"_{place + 1}" for place in range(len(names or ()), width))]
    return [
        (name, _common([column[place] for column in columns if place < len(column)], f"column {name!r}"))
        for place, name in enumerate(names)
    ]


def _say_names(names: Sequence[str], width: int, first: Any) -> None:
    """Warn of rows with more values than names; raise ``InvalidProgram`` for fewer."""
    shown = ", ".join(map(str, names))
    fact = f"from_elements() got {len(names)} names ({shown}) for rows of {width} values, such as {first!r:.100}"
    if len(names) > width:
        raise InvalidProgram(f"{fact}. Give as many names as a row has values.")
    added = ", ".join(f"_{place + 1}" for place in range(len(names), width))
    warn(f"{fact}: the others are named {added}. Give a name for each value.")


def _values_of(element: Any, names: Sequence[str] | None) -> list[Any]:
    if isinstance(element, Mapping):
        return [element.get(name) for name in (names or element)]
    if isinstance(element, Row) and names:
        return named_parts(element, names)
    if isinstance(element, Row | tuple | list):
        return list(element)
    return [element]


_TAKEN: dict[str, Any] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), numbers.Integral),
    **dict.fromkeys(("FLOAT", "DOUBLE"), (numbers.Real, Decimal)),
    **dict.fromkeys(("CHAR", "VARCHAR"), str),
}
"""The types of values in rows that a program holds; others are converted where they are read."""


def _checked(element: Any, columns: Sequence[tuple[str, LogicalType]], verify: bool) -> Any:
    values = _values_of(element, [name for name, _ in columns])
    if len(values) != len(columns):
        raise InvalidProgram(
            f"a row has {len(values)} values, but the table has {len(columns)} columns: {element!r:.100}. Give each row a value "
            "for each column, None where there is none."
        )
    if verify:
        for value, (name, type_) in zip(values, columns, strict=True):
            _check(value, type_, f"column {name!r}", element)
    if isinstance(element, Row):
        return Row.of_kind(element.get_row_kind(), *values)
    return tuple(values)


def _check(value: Any, type_: LogicalType, place: str, element: Any) -> None:
    """Raise for a value, or one within it, that is none of a type."""
    if value is None:
        if not type_.is_nullable:
            raise InvalidProgram(f"{place} is {type_}, but a row has None there: {element!r}.")
        return
    taken = _TAKEN.get(type_.root)
    if taken is not None and not isinstance(value, taken):
        raise ValueDoesNotFit(
            f"{place} is {type_}, but a row has {value!r} there, which is {type(value).__name__}: {element!r}. "
            "Convert the value, or change the type."
        )
    if not _fits(value, type_):
        raise ValueDoesNotFit(
            f"{place} is {type_}, but a row has {value!r:.100} there, which does not fit: {element!r:.200}. Convert the value, "
            "or change the type."
        )
    if isinstance(type_, ArrayType) and isinstance(value, list | tuple):
        for each in value:
            _check(each, type_.element, f"an element of {place}", element)
    elif isinstance(type_, RowType) and isinstance(value, list | tuple | Row):
        values = named_parts(value, type_.names) if isinstance(value, Row) else value
        for each, field in zip(values, type_.fields, strict=True):
            _check(each, field.type, f"field {field.name!r} of {place}", element)


def _fits(value: Any, type_: LogicalType) -> bool:
    """Return True if a value is within the range, the length or the fields of a type."""
    if isinstance(type_, IntegralType):
        return bool(-(1 << type_.bits - 1) <= value < 1 << type_.bits - 1)
    if isinstance(type_, CharType):
        return len(value) == type_.length
    if isinstance(type_, VarCharType):
        return len(value) <= type_.length
    if isinstance(type_, TimestampType | LocalZonedTimestampType):
        return not isinstance(value, str | datetime.date) or isinstance(value, datetime.datetime)
    if isinstance(type_, RowType) and isinstance(value, list | tuple | Row):
        return len(value) == len(type_.fields)
    return True


# ---- tables of what a program holds


def held_table(env: TableEnvironment, elements: Iterable[Any], schema: Any, verify: bool) -> LogicalNode:
    """Return the plan of rows that a program holds."""
    found = list(elements)
    columns = _named_types(found, schema)
    rows = [_checked(element, columns, verify) for element in found]
    row_type = RelationType(tuple(OutputColumn(name, type_) for name, type_ in columns))
    kinds = sorted({row.get_row_kind() for row in rows if isinstance(row, Row)}, key=lambda kind: kind.value)
    mode = ChangelogMode.of(*kinds) if kinds else ChangelogMode.insert_only()
    return LogicalStream(HeldRows(rows), row_type, kinds=str(mode)[1:-1])


def table_of_expressions(env: TableEnvironment, elements: Sequence[Any], schema: Any) -> Table:
    """Return rows that are expressions as a table, as Flink's ``fromValues`` does."""
    from funken.table.expression import col  # noqa: PLC0415 - they refer to one another

    texts = [expression_text(each, env) for each in elements]
    rows = ", ".join(text.removeprefix("`$ROW`") if text.startswith("`$ROW`(") else f"({text})" for text in texts)
    table = env.sql_query(f"SELECT * FROM (VALUES {rows})")
    if schema is None:
        return table
    columns = _named_types([[None] * len(table.names)], schema) if isinstance(engine_type(schema), RowType) else None
    if columns is None:
        return table.alias(*schema)
    if len(columns) != len(table.names):
        raise InvalidProgram(f"a row has {len(table.names)} values, but the table has {len(columns)} columns.")
    return table.select(
        *(col(own).cast(type_).alias(name) for own, (name, type_) in zip(table.names, columns, strict=True))
    )


def pandas_table(pdf: Any, schema: Any) -> LogicalNode:
    """Return the plan of a DataFrame of pandas."""
    import pyarrow as pa  # noqa: PLC0415 - only for data of pandas

    if not hasattr(pdf, "columns"):
        raise TypeError(
            f"from_pandas() needs a DataFrame of pandas, but got a {type(pdf).__name__}. from_elements() reads a list."
        )
    return arrow_table(pa.Table.from_pandas(pdf, preserve_index=False), schema)


def arrow_table(table: Any, schema: Any) -> LogicalNode:
    """Return the plan of a table of Arrow."""
    from funken.table.values import to_python  # noqa: PLC0415 - only for data of Arrow

    names, types = list(table.schema.names), [logical_type(field.type) for field in table.schema]
    given = engine_type(schema)
    if isinstance(given, RowType):
        names, types = list(given.names), list(given.types)
    elif given is not None:
        parts = [engine_type(each) for each in given]
        if parts and isinstance(parts[0], LogicalType):
            types = parts
        else:
            names = parts
    if len(names) != table.num_columns:
        raise InvalidProgram(f"the schema has {len(names)} columns, but the data has {table.num_columns}.")
    own = [logical_type(field.type) for field in table.schema]
    columns = [to_python(column.combine_chunks(), type_) for column, type_ in zip(table.columns, own, strict=True)]
    for name, wanted, held in zip(names, types, own, strict=True):
        if is_text(wanted) and not is_text(held):
            raise ValueDoesNotFit(
                f"column {name!r} is {wanted}, but the data has {held} there. Convert it, or change the type."
            )
    row_type = RelationType(tuple(OutputColumn(name, type_) for name, type_ in zip(names, types, strict=True)))
    return LogicalStream(HeldRows(list(zip(*columns, strict=True))), row_type)


# ---- streams


class RowOf:
    """Makes rows of the records of a stream: fields by place, or by name; with the record's timestamp behind them if wanted.

    ``width``: the number of fields that are columns, if those behind are none. ``grows``: refuse rows that are no insertions.
    A record is one column, whatever it is, if it is ``whole``.
    """

    def __init__(
        self,
        names: Sequence[str] | None,
        stamped: int = 0,
        whole: bool = False,
        width: int | None = None,
        grows: bool = False,
    ) -> None:
        self._names = names
        self._stamped = stamped
        self._whole = whole
        self._width = width
        self._grows = grows

    def row(self, record: Any) -> Any:
        """Return the row of a record."""
        if self._whole:
            kind = record.get_row_kind() if isinstance(record, Row) else RowKind.INSERT
            return Row.of_kind(kind, record)
        if isinstance(record, Row):
            if self._grows and record.get_row_kind() is not RowKind.INSERT:
                raise ValueDoesNotFit(
                    f"the record {record!r:.200} is no insertion, but {record.get_row_kind().name}: the stream is read as one "
                    "that only grows. Read its changes: from_changelog_stream(stream)."
                )
            if self._names is not None and record._fields:
                return Row.of_kind(record.get_row_kind(), *(record[name] for name in self._names))
            return record if self._width is None else Row.of_kind(record.get_row_kind(), *list(record)[: self._width])
        return record[: self._width] if isinstance(record, tuple) else (record,)

    def __call__(self, record: Any, ctx: Any) -> Iterator[Any]:
        row = self.row(record)
        if any(isinstance(value, Instant) for value in row):
            values = [value.to_datetime() if isinstance(value, Instant) else value for value in row]
            row = Row.of_kind(row.get_row_kind(), *values) if isinstance(row, Row) else tuple(values)
        if self._stamped:
            stamp = ctx.timestamp()
            time = None if stamp is None else _UTC_EPOCH + datetime.timedelta(milliseconds=stamp)
            values = [*row, *[time] * self._stamped]
            row = Row.of_kind(row.get_row_kind(), *values) if isinstance(row, Row) else tuple(values)
        yield row


_UTC_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SOURCE_WATERMARK = re.compile(r"\s*SOURCE_WATERMARK\s*\(\s*\)\s*", re.IGNORECASE)


def stream_table(
    env: TableEnvironment,
    stream: DataStream[Any],
    schema: Schema | None,
    mode: ChangelogMode,
    names: Sequence[str] = (),
) -> LogicalNode:
    """Return the plan of a stream, with the computed columns and watermarks of a schema."""
    columns = _columns_of(stream, schema, names)
    wanted = [name for name, _ in columns]
    info = declared_type(stream)
    declared = getattr(info, "field_names", None)
    width = len(columns) if info is not None and len(columns_of_info(info)) > len(columns) else None
    by_name = wanted if (schema is not None or names) and declared and set(wanted) <= set(declared) else None
    metadata = [column for column in schema.columns if column.is_metadata] if schema is not None else []
    for column in metadata:
        if column.metadata_key != "rowtime":
            raise InvalidProgram(
                f"column {column.name!r} reads the metadata {column.metadata_key!r}, but a stream has 'rowtime' only: the "
                "timestamps of its records."
            )
    columns += [(column.name, column.type) for column in metadata]
    own_time = (
        {mark.column for mark in schema.watermarks if _is_source(mark.expression)} if schema is not None else set()
    )
    row_type = RelationType(
        tuple(OutputColumn(name, type_, TimeAttribute.ROWTIME if name in own_time else None) for name, type_ in columns)
    )
    key: tuple[int, ...] = ()
    if schema is not None and schema.key:
        row_type = RelationType(
            tuple(replace(one, type=one.type.not_null()) if one.name in schema.key else one for one in row_type)
        )
        key = tuple(row_type.index(name) for name in schema.key)
    if mode.is_upsert and not key:
        raise InvalidProgram(
            "a changelog without rows before updates needs a key: declare primary_key() in the schema."
        )
    whole = len(columns) == 1 and isinstance(columns[0][1], RawType)
    source = StreamSource(stream, RowOf(by_name, len(metadata), whole, width, mode == ChangelogMode.insert_only()))
    plan: LogicalNode = LogicalStream(source, row_type, key, str(mode)[1:-1])
    return plan if schema is None else _with_schema(env, plan, schema)


def _is_source(expression: Any) -> bool:
    return _SOURCE_WATERMARK.fullmatch(str(expression).replace("sourceWatermark()", "SOURCE_WATERMARK()")) is not None


def _with_schema(env: TableEnvironment, plan: LogicalNode, schema: Schema) -> LogicalNode:
    """Add computed columns and the watermark of a schema."""
    from funken.expr.ir import InputRef, Node  # noqa: PLC0415 - only where expressions are
    from funken.table.execution import binder  # noqa: PLC0415 - loads the parser

    physical = [column.name for column in schema.columns if column.is_physical]
    declared = {column.name for column in schema.columns}
    derived = [] if physical else [name for name in plan.row_type.names if name not in declared]
    others = any(column.is_computed or column.is_metadata for column in schema.columns)
    if others or (physical and physical != list(plan.row_type.names)):
        below = [(column.name, column.type) for column in plan.row_type]
        places = map(plan.row_type.index, derived)
        nodes: list[Node] = [InputRef(place, type=plan.row_type[place].type) for place in places]
        for column in schema.columns:
            if column.is_computed:
                node = binder(env).expression(expression_text(column.expression, env), below)
                nodes.append(node if column.type is None else replace(node, type=column.type))
            else:
                place = plan.row_type.index(column.name)
                nodes.append(InputRef(place, type=plan.row_type[place].type))
        plan = project(plan, nodes, [*derived, *(column.name for column in schema.columns)])
    for mark in schema.watermarks:
        if not _is_source(mark.expression):
            plan = with_watermark(env, plan, mark.column, mark.expression)
    return plan


def with_watermark(env: TableEnvironment, plan: LogicalNode, column: str, expression: Any) -> LogicalNode:
    """Return a plan one of whose columns is event time, with a watermark by an expression."""
    from funken.table.execution import binder  # noqa: PLC0415 - loads the parser

    below = [(one.name, one.type) for one in plan.row_type]
    node = binder(env).expression(expression_text(expression, env), below)
    return LogicalWatermark(plan, plan.row_type.index(column), node)


def marked_table(table: Table, column: str, expression: str) -> Table:
    """Return a table one of whose columns is event time; its schema has the watermark."""
    env, builder = table._environment, Schema.new_builder()
    for one in table.plan.row_type:
        builder.column(one.name, one.type)
    plan = with_watermark(env, table.plan, column, expression)
    return type(table)(env, plan, _declared(env, plan, builder.watermark(column, expression).build()))


def expression_text(expression: Any, env: TableEnvironment) -> str:
    """Return an expression as SQL."""
    if isinstance(expression, str):
        return expression
    from funken.table.rendering import Rendering  # noqa: PLC0415 - only for expressions of the Table API

    with Rendering(env) as rendering:
        text: str = expression.sql(rendering)
        return text


def _columns_of(stream: DataStream[Any], schema: Schema | None, names: Sequence[str]) -> list[tuple[str, LogicalType]]:
    type_info = declared_type(stream)
    if schema is not None:
        physical = [(column.name, column.type) for column in schema.columns if column.is_physical]
        fields = columns_of_info(type_info) if type_info is not None else []
        if physical and not {name for name, _ in physical} <= {name for name, _ in fields}:
            return physical
        if physical:  # in any order; computed columns may also use the fields that are no columns
            types = dict(physical)
            return [(name, types.get(name, type_)) for name, type_ in fields]
    if type_info is None:
        if names:
            raise InvalidProgram(
                "the types of the stream's fields are not known. Declare them: stream.map(f, output_type=Types.ROW_NAMED(..)), "
                "or from_data_stream(stream, Schema..)."
            )
        return [("f0", RawType())]
    columns = columns_of_info(type_info)
    if names and set(names) <= {name for name, _ in columns}:
        types = dict(_nullable(columns))
        return [(name, types[name]) for name in names]
    if names:  # of fields, whose types Flink makes nullable
        columns = _nullable(columns)
        if len(names) > len(columns):
            raise InvalidProgram(f"{len(names)} names are given, but the stream has {len(columns)} fields.")
        columns = [(name, type_) for name, (_, type_) in zip(names, columns, strict=False)]
    return columns


def declared_type(stream: DataStream[Any]) -> Any:
    """Return the type that a stream declares for its records; ``None`` if it declares none."""
    from funken.api.streams.settings import type_of  # noqa: PLC0415 - only for streams

    return type_of(stream)


def columns_of_info(info: Any) -> list[tuple[str, LogicalType]]:
    """Return the columns of a declared type of records: a field of a row may be NULL, a number of a tuple may not."""
    if isinstance(info, RowTypeInfo | TupleTypeInfo):
        names = getattr(info, "field_names", None) or [f"f{place}" for place in range(len(info.field_types))]
        columns = [(name, _item_type(one)) for name, one in zip(names, info.field_types, strict=True)]
        return columns if isinstance(info, TupleTypeInfo) else _nullable(columns)
    return [("f0", _item_type(info))]


def _item_type(info: Any) -> LogicalType:
    """Return the type of a record, or of a tuple's field: NOT NULL where Flink has a primitive type of Java."""
    type_ = type_of_info(info)
    return type_.not_null() if isinstance(info, BasicTypeInfo) and info.basic_type in _PRIMITIVE else type_


def _nullable(columns: Iterable[tuple[str, LogicalType]]) -> list[tuple[str, LogicalType]]:
    return [(name, type_.nullable(True)) for name, type_ in columns]


_PRIMITIVE = {
    BasicType.BOOLEAN, BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG, BasicType.FLOAT, BasicType.DOUBLE,
}  # fmt: skip


_OF_BASIC = {
    BasicType.BOOLEAN: "BOOLEAN", BasicType.BYTE: "TINYINT", BasicType.SHORT: "SMALLINT", BasicType.INT: "INT",
    BasicType.LONG: "BIGINT", BasicType.FLOAT: "FLOAT", BasicType.DOUBLE: "DOUBLE", BasicType.CHAR: "CHAR(1)",
    BasicType.STRING: "STRING", BasicType.BIG_INT: "DECIMAL(38, 0)", BasicType.BIG_DEC: "DECIMAL(38, 18)",
    BasicType.INSTANT: "TIMESTAMP_LTZ(6)", TimeType.DATE: "DATE", TimeType.TIME: "TIME(0)",
    TimeType.TIMESTAMP: "TIMESTAMP(6)",
}  # fmt: skip


def type_of_info(info: Any) -> LogicalType:
    """Return the type of a column for a declared type of a record's field.

    >>> from funken import Types
    >>> print(type_of_info(Types.LIST(Types.INT())), type_of_info(Types.INSTANT()))
    ARRAY<INT> TIMESTAMP_LTZ(6)
    """
    if isinstance(info, DecimalTypeInfo):
        return DecimalType(info.precision, info.scale)
    if isinstance(info, BasicTypeInfo):
        return as_type(_OF_BASIC[info.basic_type])
    if isinstance(info, SqlTimeTypeInfo):
        return as_type(_OF_BASIC[info.time_type])
    if isinstance(info, RowTypeInfo | TupleTypeInfo):
        return RowType.of(*columns_of_info(info))
    if isinstance(info, MapTypeInfo):
        return MapType(type_of_info(info.key_type), type_of_info(info.value_type))
    if isinstance(info, PrimitiveArrayTypeInfo) and getattr(info.element_type, "basic_type", None) is BasicType.BYTE:
        return BYTES
    if isinstance(info, OfElements):
        return ArrayType(type_of_info(info.element_type))
    return RawType()


class StreamConversions:
    """The part of ``StreamTableEnvironment`` that knows streams."""

    def from_data_stream(self: Any, data_stream: DataStream[Any], *fields_or_schema: object) -> Table:
        """Return a stream of insertions as a table.

        The columns are those of its declared type, or of a ``Schema``, which may add computed columns and a watermark.
        """
        return _table_of(self, data_stream, fields_or_schema, ChangelogMode.insert_only())

    def from_changelog_stream(
        self: Any,
        data_stream: DataStream[Any],
        schema: Schema | None = None,
        changelog_mode: ChangelogMode | None = None,
    ) -> Table:
        """Return a stream of rows with row kinds as a table."""
        given = () if schema is None else (schema,)
        return _table_of(self, data_stream, given, changelog_mode or ChangelogMode.all())

    def to_data_stream(self: Any, table: Table, target_data_type: object = None) -> DataStream[Row]:
        """Return the rows of a table that only grows as a stream, which ``execute()`` of the stream environment runs."""
        return _stream_of(self, table, ChangelogMode.insert_only())

    def to_changelog_stream(
        self: Any, table: Table, target_schema: Schema | None = None, changelog_mode: ChangelogMode | None = None
    ) -> DataStream[Row]:
        """Return the changes of a table as a stream of rows with row kinds.

        In a mode without UPDATE_BEFORE rows are known by the primary key of the schema, or else by each upsert key of the query.
        Where the row behind an update has another key, or may not come, the row before it is deleted.
        The columns of the table get the names and types of those of the schema, if it has any, by position. A column by
        metadata ``rowtime`` is no field of the rows, but their timestamp; without physical columns it is the last one.
        """
        table = as_declared(table, target_schema)
        stamp = _stamp_place(table, target_schema)
        names = table.plan.row_type.names
        wanted = () if target_schema is None else target_schema.key
        unknown = [name for name in wanted if name not in names]
        if unknown:
            raise InvalidProgram(
                f"the primary key of the schema has {unknown[0]!r}, but the table has {', '.join(names)}."
            )
        key = tuple(names.index(name) for name in wanted)
        stream = _stream_of(self, table, changelog_mode or ChangelogMode.all(), key)
        return stream if stamp is None else _stamped_by(stream, stamp, table.plan.row_type[stamp].time is not None)

    def to_append_stream(self: Any, table: Table, type_info: object = None) -> DataStream[Row]:
        """Return the rows of a table that only grows as a stream (the older name)."""
        return _stream_of(self, table, ChangelogMode.insert_only())

    def to_retract_stream(self: Any, table: Table, type_info: object = None) -> DataStream[tuple[bool, Row]]:
        """Return the changes of a table as pairs: whether the row is added, and the row."""
        pairs: DataStream[tuple[bool, Row]] = each_change(_stream_of(self, table, ChangelogMode.all()), _pair, "pairs")
        return pairs


def _table_of(env: Any, stream: DataStream[Any], given: Sequence[Any], mode: ChangelogMode) -> Table:
    from funken.table.table import Table  # noqa: PLC0415 - they refer to one another

    schema = given[0] if given and isinstance(given[0], Schema) else None
    if schema is not None:
        _check_fields(stream, schema)
        plan = stream_table(env, stream, schema, mode)
        return Table(env, plan, None if _projects(stream, schema) else _declared(env, plan, schema))
    names = list(map(_column_name, given))
    fields = [_field_name(one) for one in given]
    info = declared_type(stream)
    if names != fields and info is not None and set(fields) <= {name for name, _ in columns_of_info(info)}:
        return Table(env, stream_table(env, stream, None, mode)).select(*given)
    if any(_TIME.fullmatch(name) for name in names):
        schema, names = _schema_with_times(stream, names), []
    return Table(env, stream_table(env, stream, schema, mode, names))


def _projects(stream: DataStream[Any], schema: Schema) -> bool:
    """Return True if a schema picks or reorders fields of records; the columns are then results, without definitions."""
    info = declared_type(stream)
    fields = [name for name, _ in columns_of_info(info)] if info is not None else []
    added = [column.name for column in schema.columns if not column.is_physical]
    physical = any(column.is_physical for column in schema.columns)
    return bool(fields) and physical and [*fields, *added] != [column.name for column in schema.columns]


def _check_fields(stream: DataStream[Any], schema: Schema) -> None:
    """Raise ``InvalidProgram`` for a physical column that is none of the declared fields, or a key or time without a column."""
    info = declared_type(stream)
    fields: Sequence[str] = getattr(info, "field_names", None) or ()
    unknown = [column.name for column in schema.columns if column.is_physical and fields and column.name not in fields]
    if unknown:
        raise InvalidProgram(
            f"the schema has a column {unknown[0]!r}, but the records of the stream have the fields {', '.join(fields)}. "
            "Use their names; Table.alias() changes names."
        )
    known = [column.name for column in schema.columns]
    known += [name for name, _ in columns_of_info(info) if name not in known] if info is not None else []
    for name in (*schema.key, *(mark.column for mark in schema.watermarks)):
        if name not in known:
            what = "primary key" if name in schema.key else "watermark"
            raise InvalidProgram(
                f"the {what} of the schema has the column {name!r}, but there are: {', '.join(known)}."
            )


def _declared(env: Any, plan: LogicalNode, schema: Schema) -> ResolvedSchema:
    """Return the schema of a stream as a table: its columns as they are declared, with watermark and key."""
    given = {column.name: column for column in schema.columns}
    found = ResolvedSchema.of_plan(plan, not env.is_streaming)
    quoting = CatalogTable(tuple(TableColumn(column.name, column.type) for column in found.columns))

    def text(expression: Any) -> str:
        return quoting.expression_text(expression_text(expression, env))

    columns = []
    for column in found.columns:
        own = given.get(column.name)
        if own is not None and own.is_computed:
            written = str(own.expression)
            columns.append(replace(column, kind="computed", expression=text(own.expression), written=written))
        elif own is not None and own.is_metadata:
            asked = None if own.metadata_key == own.name else own.metadata_key
            columns.append(replace(column, kind="metadata", metadata_key=asked, virtual=own.virtual))
        else:
            columns.append(column)
    types = {column.name: column.type for column in columns}
    marks = (
        WatermarkSpec(
            mark.column,
            "SOURCE_WATERMARK()" if _is_source(mark.expression) else text(mark.expression),
            types[mark.column],
            str(mark.expression),
        )
        for mark in schema.watermarks
    )
    key = UniqueConstraint(schema.key_name, schema.key) if schema.key else None
    return ResolvedSchema(tuple(columns), tuple(marks), key)


_TIME = re.compile(r"(rowtime|proctime)\((.+)\)")
_NAMED_TIME = re.compile(r"as\((rowtime|proctime)\(.+\), '(.+)'\)")


def _column_name(one: Any) -> str:
    if isinstance(one, str):
        return one
    time = _NAMED_TIME.fullmatch(str(one))
    if time is not None:
        return f"{time[1]}({time[2]})"
    if not hasattr(one, "_names"):
        raise TypeError(
            f"from_data_stream() takes the columns one by one, or a Schema, but got {one!r:.60}. Give col('a'), col('b')."
        )
    return (one._names or (one._column or str(one),))[0]


def _field_name(one: Any) -> str:
    """Return the field that ``col("field").alias("name")`` names otherwise; the name of anything else."""
    return getattr(one, "_column", None) or _column_name(one)


def _schema_with_times(stream: DataStream[Any], names: Sequence[str]) -> Schema:
    """Return the schema of ``col("a"), col("at").rowtime, col("now").proctime``: fields by name or place, and times between them.

    As in Flink's ``StreamTableEnvironment.fromDataStream`` with expressions.
    """
    info = declared_type(stream)
    fields = _nullable(columns_of_info(info)) if info is not None else []
    plain = [name for name in names if not _TIME.fullmatch(name)]
    if not fields or len(plain) > len(fields):
        raise InvalidProgram(
            f"{len(plain)} names of fields are given, but the stream declares {len(fields)}. "
            "Declare its type: stream.map(f, output_type=Types.ROW_NAMED(..))."
        )
    known = dict(fields)
    types = iter([known[name] for name in plain] if set(plain) <= set(known) else [type_ for _, type_ in fields])
    columns, marks = [], []
    for name in names:
        time = _TIME.fullmatch(name)
        if time is None:
            columns.append(TableColumn(name, next(types)))
        elif time[1] == "proctime":
            columns.append(TableColumn(time[2], LocalZonedTimestampType(3), expression="PROCTIME()"))
        else:
            columns.append(TableColumn(time[2], TimestampType(3), metadata_key="rowtime"))
            marks.append(TableWatermark(time[2], "SOURCE_WATERMARK()"))
    return Schema(tuple(columns), tuple(marks))


def as_declared(table: Table, schema: Schema | None) -> Table:
    """Return a table with the columns of a schema that rows have, if it has any, by position.

    Raises ``InvalidTable`` for another number of columns, and for types that need a CAST.
    """
    from funken.table.sql.inserts import matched  # noqa: PLC0415 - loads the parser
    from funken.table.table import Table  # noqa: PLC0415 - they refer to one another

    _stamp_column(schema)  # raises for other metadata
    wanted = [column for column in schema.columns if column.is_persisted] if schema is not None else []
    if wanted and not any(column.is_physical for column in wanted):
        given = list(table.plan.row_type)[: -len(wanted)]
        wanted = [*(TableColumn(column.name, column.type) for column in given), *wanted]
    return Table(table._environment, matched(table.plan, wanted, "the stream")) if wanted else table


def _stamp_column(schema: Schema | None) -> str | None:
    """Return the name of the column that is the timestamp of a stream's rows, if the schema has one."""
    marked = (
        [column for column in schema.columns if column.is_metadata and not column.virtual] if schema is not None else []
    )
    if len(marked) > 1 or (marked and marked[0].metadata_key != "rowtime"):
        names = ", ".join(repr(column.metadata_key) for column in marked)
        raise InvalidProgram(
            f"a stream has one column of metadata, 'rowtime', but the schema has {names}. Leave others out."
        )
    return marked[0].name if marked else None


def _stamp_place(table: Table, schema: Schema | None) -> int | None:
    name = _stamp_column(schema)
    return None if name is None else table.plan.row_type.names.index(name)


def fields_of_rows(table: Table, schema: Schema | None) -> list[OutputColumn]:
    """Return the columns that are fields of a stream's rows: all but the one that is their timestamp."""
    stamp = _stamp_place(table, schema)
    return [column for place, column in enumerate(table.plan.row_type) if place != stamp]


class StampOf:
    """Takes the timestamp of a row from a field."""

    def __init__(self, place: int) -> None:
        self._place = place

    def __call__(self, value: Row, record_timestamp: int) -> int:
        """Return the milliseconds since 1970; of NULL the timestamp that the row has."""
        time = value[self._place]
        if time is None:
            return record_timestamp
        return int((time.replace(tzinfo=time.tzinfo or datetime.UTC) - _UTC_EPOCH) // _MILLISECOND)


_MILLISECOND = datetime.timedelta(milliseconds=1)


class WithoutField:
    """Makes rows without one of their fields."""

    def __init__(self, place: int) -> None:
        self._place = place

    def __call__(self, row: Row) -> Row:
        """Return the row without the field."""
        values, names = list(row), list(row._fields or ())
        del values[self._place]
        made = Row.of_kind(row.get_row_kind(), *values)
        if names:
            del names[self._place]
            made.set_field_names(names)
        return made


def _stamped_by(stream: DataStream[Row], place: int, is_time: bool) -> DataStream[Row]:
    """Return rows without a column that is their timestamp: as event time they have it already."""
    from funken.api.streams.settings import type_of, typed  # noqa: PLC0415 - only for streams

    info = type_of(stream)
    if not is_time:
        from funken.timing.watermarks import WatermarkStrategy  # noqa: PLC0415 - only for streams

        stream = stream.assign_timestamps_and_watermarks(
            WatermarkStrategy.no_watermarks().with_timestamp_assigner(StampOf(place))
        )
    made = each_change(stream, WithoutField(place), "without rowtime")
    if isinstance(info, RowTypeInfo):
        types, names = list(info.field_types), info.get_field_names()
        del types[place], names[place]
        typed(made, RowTypeInfo(tuple(types), tuple(names)))
    result: DataStream[Row] = made
    return result


def _stream_of(env: Any, table: Table, mode: ChangelogMode, key: tuple[int, ...] = ()) -> DataStream[Row]:
    from funken.table.physical import translate  # noqa: PLC0415 - loads Arrow
    from funken.table.rules import optimize  # noqa: PLC0415 - loads Arrow
    from funken.table.table import Table  # noqa: PLC0415 - they refer to one another

    check_kind(table, Table, "a stream of a table", "from_path() of the environment reads a table by its name.")
    batch = not env.is_streaming
    sink = LogicalSink(table.plan, None, collect="stream", accepts=mode, key=key)
    roots = optimize([sink], env.get_config(), batch)
    given = roots[0].input.mode
    surplus = set() if batch else given.kinds - mode.kinds  # a batch gives the rows that are left at the end
    upserts = mode.is_upsert and mode.contains(RowKind.DELETE)
    if surplus and not (surplus == {RowKind.UPDATE_BEFORE} and upserts):
        what = "update" if RowKind.UPDATE_AFTER in surplus else "delete"
        raise InvalidProgram(
            f"Table sink 'Unregistered_DataStream_Sink' doesn't support consuming {what} changes which is produced by node "
            f"{type(roots[0].input).__name__.removeprefix('Exec')}: the stream takes {mode}, but the table gives {given}. "
            "Use to_changelog_stream()."
        )
    stream: DataStream[Row] = translate(env.stream_environment, roots, env.get_config(), batch)[0]
    return stream


def each_change(stream: Any, function: Any, name: str) -> Any:
    """Return a stream of a function's results for each change, in the same tasks: so they stay in order."""
    made = stream.map(function).name(name)
    (given,) = stream._inputs
    width = stream._environment.graph[given.upstream].parallelism
    return made if width is None else made.set_parallelism(width)


def _pair(row: Row) -> tuple[bool, Row]:
    return row.get_row_kind().value in (0, 2), Row(*row)


__all__ = ["StreamConversions", "arrow_table", "held_table", "pandas_table", "stream_table", "with_watermark"]
