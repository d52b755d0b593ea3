from funken.table.changelog import ChangelogMode
from funken.table.config import SqlDialect, TableConfig
from funken.table.descriptors import (
    CatalogDescriptor,
    ExplainDetail,
    FormatDescriptor,
    ModelDescriptor,
    TableDescriptor,
)
from funken.table.environment import EnvironmentSettings, StreamTableEnvironment, TableEnvironment
from funken.table.expressions import col, lit
from funken.table.process_functions import ProcessTableFunction
from funken.table.result import ResultKind, TableResult
from funken.table.schema import ResolvedSchema, Schema
from funken.table.statement_set import StatementSet
from funken.table.table import Table
from funken.table.types import DataTypes
from funken.table.udf import (
    AggregateFunction,
    AsyncScalarFunction,
    FunctionContext,
    ScalarFunction,
    TableAggregateFunction,
    TableFunction,
    udaf,
    udtaf,
    udtf,
)
from funken.table.window import Over, Session, Slide, Tumble

__all__ = [
    "AggregateFunction",
    "AsyncScalarFunction",
    "CatalogDescriptor",
    "ChangelogMode",
    "DataTypes",
    "EnvironmentSettings",
    "ExplainDetail",
    "FormatDescriptor",
    "FunctionContext",
    "ModelDescriptor",
    "Over",
    "ProcessTableFunction",
    "ResolvedSchema",
    "ResultKind",
    "ScalarFunction",
    "Schema",
    "Session",
    "Slide",
    "SqlDialect",
    "StatementSet",
    "StreamTableEnvironment",
    "Table",
    "TableAggregateFunction",
    "TableConfig",
    "TableDescriptor",
    "TableEnvironment",
    "TableFunction",
    "TableResult",
    "Tumble",
    "col",
    "lit",
    "udaf",
    "udtaf",
    "udtf",
]
