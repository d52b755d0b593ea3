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


PASSED_ON = {
    "funken.compat.pyflink.data_types": "DataTypes UserDefinedType",
    "funken.compat.pyflink.schemas": "ResolvedSchema",
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
    "funken.table.schema": "Schema",
    "funken.table.table": "TablePipeline",
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
