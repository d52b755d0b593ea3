"""``pyflink.table``: the names of the Table API, which are ``funken.table``'s, and the few that are PyFlink's alone."""

from __future__ import annotations

from typing import Any

from funken.compat.pyflink.adoption import refuse
from funken.table.expression import Expression
from funken.table.result import RowIterator as CloseableIterator
from funken.table.udf import (
    AggregateDefinition,
    FunctionDefinition,
    ScalarDefinition,
    TableDefinition,
)


class DataView:
    """The base of ``ListView`` and ``MapView``."""

    def clear(self) -> None:
        """Remove everything."""


class Module:
    """A module of functions; there is ``core`` only."""

    def __init__(self, *args: Any) -> None:
        refuse("Module", "There is the module 'core' only. Register functions with create_temporary_system_function().")


class HiveModule(Module):
    """The functions of Hive."""


UserDefinedFunctionWrapper = FunctionDefinition
UserDefinedScalarFunctionWrapper = ScalarDefinition
UserDefinedTableFunctionWrapper = TableDefinition
UserDefinedAggregateFunctionWrapper = AggregateDefinition


class ResolvedExpression(Expression):
    """An expression whose type is known."""


class UserDefinedType:
    """A type whose values are objects of a class; a column has its ``sql_type()`` instead.

    >>> class Point(UserDefinedType):
    ...     @classmethod
    ...     def sql_type(cls):
    ...         return DataTypes.ARRAY(DataTypes.DOUBLE())
    ...
    ...     def serialize(self, obj):
    ...         return [obj.real, obj.imag]
    >>> Point().to_sql_type(1 + 2j), Point.type_name()
    ([1.0, 2.0], 'point')
    """

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    @classmethod
    def type_name(cls) -> str:
        """Return the name."""
        return cls.__name__.lower()

    @classmethod
    def sql_type(cls) -> Any:
        """Return the type of the stored value."""
        raise NotImplementedError("UDT must implement sql_type().")

    @classmethod
    def module(cls) -> str:
        """Return the module of the class."""
        raise NotImplementedError("UDT must implement module().")

    @classmethod
    def java_udt(cls) -> str:
        """Return that there is no class of Java."""
        return ""

    def need_conversion(self) -> bool:
        """Return that values are converted."""
        return True

    def to_sql_type(self, obj: Any) -> Any:
        """Return the stored value of an object."""
        return None if obj is None else self.serialize(obj)

    def from_sql_type(self, obj: Any) -> Any:
        """Return the object of a stored value."""
        return None if obj is None else self.deserialize(obj)

    def serialize(self, obj: Any) -> Any:
        """Return the stored value of an object."""
        raise NotImplementedError("UDT must implement serialize().")

    def deserialize(self, datum: Any) -> Any:
        """Return the object of a stored value."""
        raise NotImplementedError("UDT must implement deserialize().")


PASSED_ON = {
    "funken.compat.pyflink.older_tables": ("CsvTableSink CsvTableSource TableSchema TableSink TableSource WriteMode"),
    "funken.compat.pyflink.table_environments": (
        "BatchTableEnvironment EnvironmentSettings GroupWindow GroupWindowedTable GroupedTable ModuleEntry OverWindow "
        "OverWindowedTable StatementSet StreamTableEnvironment Table TableConfig TableEnvironment TableResult "
        "WindowGroupedTable"
    ),
    "funken.table.changelog": "ChangelogMode",
    "funken.table.compiled_plan": "CompiledPlan PlanReference",
    "funken.table.config": "SqlDialect",
    "funken.table.descriptors": "CatalogDescriptor ExplainDetail FormatDescriptor ModelDescriptor TableDescriptor",
    "funken.table.expression": "Expression",
    "funken.table.result": "ResultKind",
    "funken.table.schema": "ResolvedSchema Schema",
    "funken.table.table": "TablePipeline",
    "funken.table.types": "DataTypes",
    "funken.table.udf": (
        "AggregateFunction AsyncScalarFunction FunctionContext ListView MapView ScalarFunction TableAggregateFunction "
        "TableFunction"
    ),
    "funken.types.row": "Row RowKind",
}
__all__ = [
    "CloseableIterator",
    "UserDefinedAggregateFunctionWrapper",
    "UserDefinedFunctionWrapper",
    "UserDefinedScalarFunctionWrapper",
    "UserDefinedTableFunctionWrapper",
]
