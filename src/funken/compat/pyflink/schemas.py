"""Parts of a resolved schema as ``pyflink.table.catalog`` has them: a class per kind of column, and PyFlink's data types."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Self

from funken.compat.pyflink.atomic_types import DataType, InvalidDataType
from funken.compat.pyflink.data_types import RowType, data_type_of
from funken.dataclass import dataclass
from funken.table import schema as native
from funken.table.schema import WatermarkSpec, as_type


@dataclass(frozen=True, repr=False)
class Column(native.Column):
    """A column of a resolved schema.

    >>> from funken.compat.pyflink.data_types import DataTypes
    >>> Column.metadata("m", DataTypes.INT(False), "key", is_virtual=True).get_data_type()
    IntType(false)
    """

    @classmethod
    def adopted(cls, column: native.Column) -> Column:
        """Return a column of Funken as one of PyFlink."""
        kind = {"physical": PhysicalColumn, "computed": ComputedColumn, "metadata": MetadataColumn}[column.kind]
        return kind(**vars(column))

    @staticmethod
    def physical(name: str, data_type: DataType) -> PhysicalColumn:  # type: ignore[override]
        """Return a physical column."""
        return PhysicalColumn(name, as_type(data_type))

    @staticmethod
    def computed(name: str, resolved_expression: Any, data_type: Any = None) -> ComputedColumn:
        """Return a column that is computed of others."""
        return ComputedColumn(name, data_type and as_type(data_type), "computed", resolved_expression)

    @staticmethod
    def metadata(  # type: ignore[override]
        name: str, data_type: DataType, metadata_key: str | None, is_virtual: bool
    ) -> MetadataColumn:
        """Return a column of the connector's metadata."""
        return MetadataColumn(name, as_type(data_type), "metadata", None, metadata_key, is_virtual)

    def get_data_type(self) -> DataType:  # type: ignore[override]
        """Return the type."""
        found: DataType = data_type_of(self.type)
        return found

    def copy(self, new_data_type: DataType) -> Self:  # type: ignore[override]
        """Return the column with another type."""
        found: Self = super().copy(as_type(new_data_type))  # type: ignore[assignment]
        return found


@dataclass(frozen=True, repr=False)
class PhysicalColumn(Column):
    """A column that is stored."""


@dataclass(frozen=True, repr=False)
class ComputedColumn(Column):
    """A column that is computed of others."""


@dataclass(frozen=True, repr=False)
class MetadataColumn(Column):
    """A column of the connector's metadata."""


@dataclass(frozen=True, repr=False)
class UniqueConstraint(native.UniqueConstraint):
    """A primary key: the only kind of constraint.

    >>> UniqueConstraint.primary_key("pk", ["a"]).get_type()
    <ConstraintType.PRIMARY_KEY: 0>
    """

    class ConstraintType(Enum):
        """The kinds of constraints."""

        PRIMARY_KEY = 0
        UNIQUE_KEY = 1

    @staticmethod
    def primary_key(name: str, columns: Sequence[str]) -> UniqueConstraint:
        """Return a primary key."""
        return UniqueConstraint(name, tuple(columns))

    def get_type(self) -> UniqueConstraint.ConstraintType:
        """Return ``PRIMARY_KEY``."""
        return self.ConstraintType.PRIMARY_KEY


Constraint = UniqueConstraint


class ResolvedSchema(native.ResolvedSchema):
    """Columns with their types, watermarks and the primary key.

    >>> from funken.compat.pyflink.data_types import DataTypes
    >>> ResolvedSchema.physical(["a"], [DataTypes.INT()]).to_physical_row_data_type()
    RowType(RowField(a, IntType(true), ...))
    """

    def __init__(
        self,
        columns: Sequence[native.Column] | None = None,
        watermark_specs: Sequence[WatermarkSpec] | None = None,
        primary_key: native.UniqueConstraint | None = None,
    ) -> None:
        if columns is None or watermark_specs is None:
            raise InvalidDataType(
                "a ResolvedSchema has a list of columns and one of watermark_specs, which may be empty."
            )
        key = None if primary_key is None else UniqueConstraint(primary_key.name, primary_key.columns)
        super().__init__(tuple(map(Column.adopted, columns)), tuple(watermark_specs), key)

    @classmethod
    def adopted(cls, schema: native.ResolvedSchema) -> ResolvedSchema:
        """Return a schema of Funken as one of PyFlink."""
        return cls(schema.columns, schema.watermarks, schema.primary_key)

    @staticmethod
    def of(columns: Sequence[native.Column]) -> ResolvedSchema:  # type: ignore[override]
        """Return the schema of columns."""
        return ResolvedSchema(columns, [])

    @staticmethod
    def physical(column_names: Sequence[str], column_data_types: Sequence[Any]) -> ResolvedSchema:  # type: ignore[override]
        """Return the schema of physical columns."""
        return ResolvedSchema.adopted(native.ResolvedSchema.physical(column_names, column_data_types))

    def get_column_data_types(self) -> list[DataType]:  # type: ignore[override]
        """Return the types of the columns."""
        return [data_type_of(each.type) for each in self.columns]

    def to_source_row_data_type(self) -> RowType:  # type: ignore[override]
        """Return the row type of rows that are read."""
        return self._data_type(super().to_source_row_data_type())

    def to_physical_row_data_type(self) -> RowType:  # type: ignore[override]
        """Return the row type of the physical columns."""
        return self._data_type(super().to_physical_row_data_type())

    def to_sink_row_data_type(self) -> RowType:  # type: ignore[override]
        """Return the row type of rows that are written."""
        return self._data_type(super().to_sink_row_data_type())

    @staticmethod
    def _data_type(row: Any) -> RowType:
        found: RowType = data_type_of(row)
        return found
