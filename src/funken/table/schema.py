"""Schemas: as declared (``Schema``), and resolved, with every type known (``ResolvedSchema``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.table.catalog import CatalogTable, TableColumn, TableWatermark
from funken.table.logical import LogicalNode, OutputColumn, TimeAttribute
from funken.table.types import LogicalType, RowField, RowType, logical_type, parse_type, quoted


class DeclaredType(Protocol):
    """A type of another API, such as those of DataFrames and of PyFlink: it has the engine's type."""

    @property
    def logical_type(self) -> LogicalType:
        """The engine's type."""


AnyType = LogicalType | DeclaredType | str
"""A type of a column, as a program writes one."""


@dataclass(frozen=True)
class Column:
    """A column of a resolved schema.

    >>> from funken.table.types import DataTypes
    >>> Column.physical("a", DataTypes.INT()).is_physical()
    True
    """

    name: str
    type: LogicalType
    kind: str = "physical"
    expression: Any = None
    metadata_key: str | None = None
    virtual: bool = False
    comment: str | None = None
    time: str = ""
    written: str | None = field(default=None, compare=False)
    """The expression as it is shown, if not as ``expression``."""

    @staticmethod
    def physical(name: str, data_type: AnyType) -> Column:
        """Return a physical column."""
        return Column(name, as_type(data_type))

    @staticmethod
    def computed(name: str, resolved_expression: Any, data_type: Any = None) -> Column:
        """Return a column that is computed of others."""
        return Column(name, data_type, "computed", resolved_expression)

    @staticmethod
    def metadata(name: str, data_type: AnyType, metadata_key: str | None, is_virtual: bool) -> Column:
        """Return a column of the connector's metadata."""
        return Column(name, as_type(data_type), "metadata", None, metadata_key, is_virtual)

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    def get_data_type(self) -> LogicalType:
        """Return the type."""
        return self.type

    def get_comment(self) -> str | None:
        """Return the comment, if there is one."""
        return self.comment

    def with_comment(self, comment: str | None) -> Column:
        """Return the column with a comment."""
        return replace(self, comment=comment)

    def is_physical(self) -> bool:
        """Return True if the column is stored."""
        return self.kind == "physical"

    def is_persisted(self) -> bool:
        """Return True if rows that are written have the column."""
        return self.kind == "physical" or (self.kind == "metadata" and not self.virtual)

    def rename(self, new_name: str) -> Column:
        """Return the column under another name."""
        return replace(self, name=new_name)

    def copy(self, new_data_type: LogicalType) -> Column:
        """Return the column with another type."""
        return replace(self, type=new_data_type)

    def get_expression(self) -> Any:
        """Return the expression of a computed column."""
        return self.expression

    def is_virtual(self) -> bool:
        """Return True if a column of metadata is only read."""
        return self.virtual

    def get_metadata_key(self) -> str | None:
        """Return the key of a column of metadata."""
        return self.metadata_key

    def explain_extras(self) -> str | None:
        """Return the column's definition, if it is no physical one."""
        if self.kind == "computed":
            return f"AS {self.written or self.expression}"
        if self.kind == "metadata":
            key = "" if self.metadata_key is None else f" FROM '{self.metadata_key}'"
            return f"METADATA{key}{' VIRTUAL' if self.virtual else ''}"
        return None

    def as_summary_string(self) -> str:
        """Return the column as a line of ``print_schema``."""
        comment = "COMMENT '" + self.comment.replace("'", "''") + "'" if self.comment else None
        return " ".join(filter(None, [f"{quoted(self.name)} {_with_time(self)}", self.explain_extras(), comment]))

    def __str__(self) -> str:
        return self.as_summary_string()


def _with_time(column: Column) -> str:
    return f"{column.type}{f' *{column.time}*' if column.time else ''}"


@dataclass(frozen=True)
class WatermarkSpec:
    """A rowtime column and how its watermarks are made."""

    rowtime_attribute: str
    expression: Any
    type: LogicalType | None = None
    written: str | None = field(default=None, compare=False)
    """The expression as it is shown, if not as ``expression``."""

    def get_rowtime_attribute(self) -> str:
        """Return the name of the column."""
        return self.rowtime_attribute

    def get_watermark_expression(self) -> Any:
        """Return the expression of the watermark."""
        return self.expression

    @staticmethod
    def of(rowtime_attribute: str, watermark_expression: Any) -> WatermarkSpec:
        """Return the watermark of a column."""
        return WatermarkSpec(rowtime_attribute, watermark_expression)

    def as_summary_string(self) -> str:
        """Return the watermark as a line of ``print_schema``."""
        return str(self)

    def __str__(self) -> str:
        kind = "" if self.type is None else f": {self.type}"
        return f"WATERMARK FOR {quoted(self.rowtime_attribute)}{kind} AS {self.written or self.expression}"


@dataclass(frozen=True)
class UniqueConstraint:
    """A primary key."""

    name: str
    columns: tuple[str, ...]

    @staticmethod
    def primary_key(name: str, columns: Sequence[str]) -> UniqueConstraint:
        """Return a primary key."""
        return UniqueConstraint(name, tuple(columns))

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    def is_enforced(self) -> bool:
        """Return that nothing checks the key."""
        return False

    def get_type_string(self) -> str:
        """Return ``PRIMARY KEY``."""
        return "PRIMARY KEY"

    def as_summary_string(self) -> str:
        """Return the key as a line of ``print_schema``."""
        return str(self)

    def get_columns(self) -> list[str]:
        """Return the columns of the key."""
        return list(self.columns)

    def __str__(self) -> str:
        return f"CONSTRAINT {quoted(self.name)} PRIMARY KEY ({', '.join(map(quoted, self.columns))}) NOT ENFORCED"


@dataclass(frozen=True)
class ResolvedSchema:
    """Columns with their types, watermarks and the primary key.

    >>> from funken.table.types import DataTypes
    >>> schema = ResolvedSchema.physical(["a", "b"], [DataTypes.INT(), DataTypes.STRING()])
    >>> schema.get_column_names(), schema.get_column_count()
    (['a', 'b'], 2)
    >>> print(schema)
    (
      `a` INT,
      `b` STRING
    )
    """

    columns: tuple[Column, ...]
    watermarks: tuple[WatermarkSpec, ...] = ()
    primary_key: UniqueConstraint | None = None

    @staticmethod
    def of(*columns: Column) -> ResolvedSchema:
        """Return the schema of columns."""
        return ResolvedSchema(columns)

    @staticmethod
    def physical(column_names: Iterable[str], column_data_types: Iterable[AnyType]) -> ResolvedSchema:
        """Return the schema of physical columns."""
        pairs = zip(column_names, column_data_types, strict=True)
        return ResolvedSchema(tuple(Column.physical(name, type_) for name, type_ in pairs))

    @staticmethod
    def of_plan(plan: LogicalNode, batch: bool = False, event_time: LogicalType | None = None) -> ResolvedSchema:
        """Return the schema of a plan: a batch has no event time, which shows with the digits of ``event_time``."""

        def time(column: OutputColumn) -> str:
            if not isinstance(column.time, TimeAttribute) or (batch and column.time is TimeAttribute.ROWTIME):
                return ""
            return str(column.time.value)

        def type_of(column: OutputColumn) -> LogicalType:
            if event_time is None or time(column) != "ROWTIME" or type(event_time) is not type(column.type):
                return column.type
            return event_time.nullable(column.type.is_nullable)

        return ResolvedSchema(tuple(Column(each.name, type_of(each), time=time(each)) for each in plan.row_type))

    @staticmethod
    def of_table(table: CatalogTable, batch: bool = False) -> ResolvedSchema:
        """Return the schema of a table of the catalog: a batch has no event time."""
        columns = []
        for column in table.columns:
            kind = "physical" if column.is_physical else "metadata" if column.is_metadata else "computed"
            columns.append(
                Column(
                    column.name,
                    column.type,
                    kind,
                    table.expression_text(column.expression) if column.is_computed else None,
                    None if column.metadata_key == column.name else column.metadata_key,
                    column.virtual,
                    column.comment,
                    "" if batch and table.time_of(column) == "ROWTIME" else table.time_of(column),
                    column.written,
                )
            )
        mark = table.watermark
        marks: tuple[WatermarkSpec, ...] = ()
        if mark is not None:
            expression = table.expression_text(mark.expression)
            marks = (WatermarkSpec(mark.column, expression, table.column(mark.column).type, mark.written),)
        name = table.key_name or "PK_" + "_".join(table.primary_key)
        return ResolvedSchema(
            tuple(columns), marks, UniqueConstraint(name, table.primary_key) if table.primary_key else None
        )

    def event_time(self) -> LogicalType | None:
        """Return the type of the column with event time; ``None`` if there is none."""
        return next((each.type for each in self.columns if each.time == "ROWTIME"), None)

    def get_column_count(self) -> int:
        """Return the number of columns."""
        return len(self.columns)

    def get_columns(self) -> list[Column]:
        """Return the columns."""
        return list(self.columns)

    def get_column_names(self) -> list[str]:
        """Return the names of the columns."""
        return [column.name for column in self.columns]

    def get_column_data_types(self) -> list[LogicalType]:
        """Return the types of the columns."""
        return [column.type for column in self.columns]

    def get_column(self, column_index_or_name: int | str) -> Column | None:
        """Return a column by position or name; ``None`` if there is none."""
        if isinstance(column_index_or_name, int):
            inside = 0 <= column_index_or_name < len(self.columns)
            return self.columns[column_index_or_name] if inside else None
        return next((column for column in self.columns if column.name == column_index_or_name), None)

    def get_watermark_specs(self) -> list[WatermarkSpec]:
        """Return the watermarks."""
        return list(self.watermarks)

    def get_primary_key(self) -> UniqueConstraint | None:
        """Return the primary key, if there is one."""
        return self.primary_key

    def get_primary_key_indexes(self) -> list[int]:
        """Return the positions of the key's columns."""
        names = self.get_column_names()
        return [] if self.primary_key is None else [names.index(name) for name in self.primary_key.columns]

    def _row(self, columns: Iterable[Column]) -> RowType:
        return RowType(tuple(RowField(column.name, column.type) for column in columns), is_nullable=False)

    def to_source_row_data_type(self) -> RowType:
        """Return the row type of rows that are read."""
        return self._row(self.columns)

    def to_physical_row_data_type(self) -> RowType:
        """Return the row type of the physical columns."""
        return self._row(column for column in self.columns if column.is_physical())

    def to_sink_row_data_type(self) -> RowType:
        """Return the row type of rows that are written."""
        return self._row(column for column in self.columns if column.is_persisted())

    def __str__(self) -> str:
        lines: list[str] = [column.as_summary_string() for column in self.columns]
        lines += [str(mark) for mark in self.watermarks]
        if self.primary_key is not None:
            lines.append(str(self.primary_key))
        return _parenthesized(lines)


@dataclass(frozen=True)
class Schema:
    """Columns, watermarks and key of a table, as declared.

    >>> from funken.table.types import DataTypes
    >>> schema = (
    ...     Schema.new_builder()
    ...     .column("word", DataTypes.STRING())
    ...     .column("at", "TIMESTAMP(3)")
    ...     .column_by_expression("size", "CHAR_LENGTH(word)")
    ...     .watermark("at", "at - INTERVAL '5' SECOND")
    ...     .primary_key("word")
    ...     .build()
    ... )
    >>> print(schema)
    (
      `word` STRING,
      `at` [TIMESTAMP(3)],
      `size` AS [CHAR_LENGTH(word)],
      WATERMARK FOR `at` AS [at - INTERVAL '5' SECOND],
      CONSTRAINT `PK_word` PRIMARY KEY (`word`) NOT ENFORCED
    )
    """

    columns: tuple[TableColumn, ...] = ()
    watermarks: tuple[TableWatermark, ...] = ()
    key: tuple[str, ...] = ()
    key_name: str = ""
    texts: tuple[tuple[str, str], ...] = field(default=(), repr=False, compare=False)
    """The types that were declared as texts, by column."""

    class Builder:
        """Collects columns, watermarks and a key."""

        def __init__(self) -> None:
            self._columns: list[TableColumn] = []
            self._watermarks: list[TableWatermark] = []
            self._key: tuple[str, ...] = ()
            self._key_name = ""
            self._texts: dict[str, str] = {}

        def column(self, column_name: str, data_type: AnyType) -> Schema.Builder:
            """Add a physical column."""
            self._columns.append(TableColumn(column_name, self._type(column_name, data_type)))
            return self

        def _type(self, column_name: str, data_type: AnyType) -> LogicalType:
            if not isinstance(column_name, str):
                raise InvalidProgram(f"a column has a name and a type, but got {column_name!r} and {data_type}.")
            if isinstance(data_type, str):
                self._texts[column_name] = data_type
            return as_type(data_type)

        def column_by_expression(self, column_name: str, expr: object) -> Schema.Builder:
            """Add a column that is computed of others: SQL, or an expression."""
            self._columns.append(TableColumn(column_name, _UNKNOWN, expression=expr))
            return self

        def column_by_metadata(
            self,
            column_name: str,
            data_type: AnyType,
            metadata_key: str | None = None,
            is_virtual: bool = False,
        ) -> Schema.Builder:
            """Add a column of the connector's metadata."""
            key = metadata_key or column_name
            type_ = self._type(column_name, data_type)
            self._columns.append(TableColumn(column_name, type_, metadata_key=key, virtual=is_virtual))
            return self

        def watermark(self, column_name: str, watermark_expr: object) -> Schema.Builder:
            """Make a column the event time, with watermarks by SQL or an expression."""
            self._watermarks.append(TableWatermark(column_name, watermark_expr))
            return self

        def primary_key(self, *column_names: str) -> Schema.Builder:
            """Declare the primary key."""
            return self.primary_key_named("PK_" + "_".join(column_names), *column_names)

        def primary_key_named(self, constraint_name: str, *column_names: str) -> Schema.Builder:
            """Declare the primary key, with a name."""
            if not column_names or self._key:
                fact = f"is of {', '.join(self._key)} already" if self._key else "has no column"
                raise InvalidProgram(f"the primary key {fact}. Name all columns of the one key in one call.")
            self._key, self._key_name = column_names, constraint_name
            return self

        def from_schema(self, unresolved_schema: Schema) -> Schema.Builder:
            """Add everything of another schema."""
            self._columns += unresolved_schema.columns
            self._watermarks += unresolved_schema.watermarks
            self._texts.update(unresolved_schema.texts)
            if unresolved_schema.key:
                self._key, self._key_name = unresolved_schema.key, unresolved_schema.key_name
            return self

        def from_resolved_schema(self, resolved_schema: ResolvedSchema) -> Schema.Builder:
            """Add everything of a resolved schema."""
            for column in resolved_schema.columns:
                if column.kind == "computed":
                    self.column_by_expression(column.name, column.expression)
                elif column.kind == "metadata":
                    self.column_by_metadata(column.name, column.type, column.metadata_key, column.virtual)
                else:
                    self.column(column.name, column.type)
            self._watermarks += [
                TableWatermark(mark.rowtime_attribute, mark.expression) for mark in resolved_schema.watermarks
            ]
            if resolved_schema.primary_key is not None:
                self._key, self._key_name = resolved_schema.primary_key.columns, resolved_schema.primary_key.name
            return self

        def from_row_data_type(self, data_type: AnyType) -> Schema.Builder:
            """Add the fields of a ROW type as columns."""
            row = as_type(data_type)
            if not isinstance(row, RowType):
                raise InvalidProgram(f"a schema is made of a ROW type, but got {data_type}.")
            return self.from_fields(row.names, row.types)

        def from_fields(self, field_names: Sequence[str], field_data_types: Sequence[AnyType]) -> Schema.Builder:
            """Add columns of names and types."""
            for name, type_ in zip(field_names, field_data_types, strict=True):
                self.column(name, type_)
            return self

        def build(self) -> Schema:
            """Return the schema."""
            texts = tuple(self._texts.items())
            return Schema(tuple(self._columns), tuple(self._watermarks), self._key, self._key_name, texts)

    @staticmethod
    def new_builder() -> Schema.Builder:
        """Return a builder."""
        return Schema.Builder()

    def __str__(self) -> str:
        lines: list[str] = []
        texts = {name: f"[{text}]" for name, text in self.texts}
        for column in self.columns:
            type_ = texts.get(column.name, column.type)
            if column.is_computed:
                lines.append(f"{quoted(column.name)} AS {_summary(column.expression)}")
            elif column.is_metadata:
                key = f" FROM '{column.metadata_key}'" if column.metadata_key != column.name else ""
                lines.append(f"{quoted(column.name)} {type_} METADATA{key}{' VIRTUAL' if column.virtual else ''}")
            else:
                lines.append(f"{quoted(column.name)} {type_}")
        lines += [f"WATERMARK FOR {quoted(mark.column)} AS {_summary(mark.expression)}" for mark in self.watermarks]
        if self.key:
            lines.append(str(UniqueConstraint(self.key_name, self.key)))
        return _parenthesized(lines)


_UNKNOWN: Any = None


def _parenthesized(lines: Iterable[str]) -> str:
    return "(\n" + ",\n".join(f"  {line}" for line in lines) + "\n)"


def _summary(expression: Any) -> str:
    return f"[{expression}]" if isinstance(expression, str) else str(expression)


class NoColumnType(InvalidProgram, TypeError):
    """A value where a column needs its type."""


def engine_type(given: Any) -> Any:
    """Return the engine's type of a type of another API, of DataFrames or of PyFlink; anything else as it is.

    >>> engine_type(5)
    5
    """
    own = getattr(given, "logical_type", None)
    return own if isinstance(own, LogicalType) else given


def as_type(given: Any) -> LogicalType:
    """Return a type: as it is, of its SQL, or of an Arrow type; raises ``NoColumnType`` for anything else.

    >>> print(as_type("ROW<a INT NOT NULL>"))
    ROW<`a` INT NOT NULL>
    """
    given = engine_type(given)
    if isinstance(given, LogicalType):
        return given
    if isinstance(given, str):
        return parse_type(given)
    try:
        return logical_type(given)
    except (TypeError, ValueError, AttributeError):
        raise NoColumnType(f"{given!r} is no type of a column; pass DataTypes.INT(), say, or 'INT'.") from None
