"""``pyflink.table``: the names of the Table API, which are ``funken.table``'s, and the few that are PyFlink's alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funken.compat.pyflink.refusals import refuse
from funken.table.changelog import ChangelogMode
from funken.table.compiled_plan import CompiledPlan, PlanReference
from funken.table.config import SqlDialect, TableConfig
from funken.table.descriptors import (
    CatalogDescriptor,
    ExplainDetail,
    FormatDescriptor,
    ModelDescriptor,
    TableDescriptor,
)
from funken.table.environment import EnvironmentSettings, StreamTableEnvironment, TableEnvironment
from funken.table.expression import Expression
from funken.table.result import ResultKind, TableResult
from funken.table.result import RowIterator as CloseableIterator
from funken.table.schema import ResolvedSchema, Schema
from funken.table.statement_set import StatementSet
from funken.table.table import (
    GroupedTable,
    GroupWindowedTable,
    OverWindowedTable,
    Table,
    TablePipeline,
    WindowGroupedTable,
)
from funken.table.types import DataTypes, LogicalType
from funken.table.udf import (
    AggregateFunction,
    AsyncScalarFunction,
    FunctionContext,
    ListView,
    MapView,
    ScalarFunction,
    TableAggregateFunction,
    TableFunction,
)
from funken.table.window import GroupWindow, OverWindow
from funken.types.row import Row, RowKind


class DataView:
    """The base of ``ListView`` and ``MapView``."""

    def clear(self) -> None:
        """Remove everything."""


class TableSchema:
    """Names and types of columns (the older class; ``ResolvedSchema`` has taken its place).

    >>> schema = TableSchema(["a"], [DataTypes.INT()])
    >>> schema.get_field_names(), str(schema.get_field_data_type("a"))
    (['a'], 'INT')
    """

    def __init__(self, field_names: Sequence[str] = (), data_types: Sequence[LogicalType] = ()) -> None:
        self._names = list(field_names)
        self._types = list(data_types)

    def copy(self) -> TableSchema:
        """Return a copy."""
        return TableSchema(self._names, self._types)

    def get_field_names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._names)

    def get_field_data_types(self) -> list[LogicalType]:
        """Return the types of the columns."""
        return list(self._types)

    def get_field_count(self) -> int:
        """Return the number of columns."""
        return len(self._names)

    def get_field_name(self, field_index: int) -> str | None:
        """Return the name of a column; ``None`` if there is none."""
        return self._names[field_index] if 0 <= field_index < len(self._names) else None

    def get_field_data_type(self, field: int | str) -> LogicalType | None:
        """Return the type of a column by place or name; ``None`` if there is none."""
        place = self._names.index(field) if field in self._names else field
        return self._types[place] if isinstance(place, int) and 0 <= place < len(self._types) else None

    def to_row_data_type(self) -> LogicalType:
        """Return the ROW type of the columns."""
        return DataTypes.ROW(
            [DataTypes.FIELD(name, type_) for name, type_ in zip(self._names, self._types, strict=True)]
        )

    def __repr__(self) -> str:
        lines = "".join(f" |-- {name}: {type_}\n" for name, type_ in zip(self._names, self._types, strict=True))
        return f"root\n{lines}"

    @staticmethod
    def builder() -> TableSchema.Builder:
        """Return a builder."""
        return TableSchema.Builder()

    class Builder:
        """Collects columns."""

        def __init__(self) -> None:
            self._names: list[str] = []
            self._types: list[LogicalType] = []

        def field(self, name: str, data_type: LogicalType) -> TableSchema.Builder:
            """Add a column."""
            self._names.append(name)
            self._types.append(data_type)
            return self

        def build(self) -> TableSchema:
            """Return the schema."""
            return TableSchema(self._names, self._types)


class Module:
    """A module of functions; there is ``core`` only."""

    def __init__(self, *args: Any) -> None:
        refuse("Module", "There is the module 'core' only. Register functions with create_temporary_system_function().")


class ModuleEntry:
    """A module, and whether it is in use."""

    def __init__(self, name: str, used: bool) -> None:
        self._name = name
        self._used = used

    def name(self) -> str:
        """Return the name."""
        return self._name

    def used(self) -> bool:
        """Return whether the module is in use."""
        return self._used


class UserDefinedType:
    """A type whose values are objects of a class."""

    def __init__(self, *args: Any) -> None:
        refuse("UserDefinedType", "Use a ROW type, or ARRAY and MAP, for the parts of the object.")


__all__ = [
    "AggregateFunction",
    "AsyncScalarFunction",
    "CatalogDescriptor",
    "ChangelogMode",
    "CloseableIterator",
    "CompiledPlan",
    "DataTypes",
    "DataView",
    "EnvironmentSettings",
    "ExplainDetail",
    "Expression",
    "FormatDescriptor",
    "FunctionContext",
    "GroupWindow",
    "GroupWindowedTable",
    "GroupedTable",
    "ListView",
    "MapView",
    "ModelDescriptor",
    "Module",
    "ModuleEntry",
    "OverWindow",
    "OverWindowedTable",
    "PlanReference",
    "ResolvedSchema",
    "ResultKind",
    "Row",
    "RowKind",
    "ScalarFunction",
    "Schema",
    "SqlDialect",
    "StatementSet",
    "StreamTableEnvironment",
    "Table",
    "TableAggregateFunction",
    "TableConfig",
    "TableDescriptor",
    "TableEnvironment",
    "TableFunction",
    "TablePipeline",
    "TableResult",
    "TableSchema",
    "UserDefinedType",
    "WindowGroupedTable",
]
