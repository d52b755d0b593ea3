"""``Table``: a query under construction, lazy and immutable; each method adds a node to its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from funken.table.catalog import CatalogView, ResolvedTable, TableColumn
from funken.table.logical import LogicalNode, LogicalSink
from funken.table.schema import ResolvedSchema

if TYPE_CHECKING:
    from funken.table.environment import TableEnvironment
    from funken.table.result import TableResult


class TablePipeline:
    """A table on its way into another: executed alone, or in a statement set."""

    def __init__(self, environment: TableEnvironment, sink: LogicalSink) -> None:
        self._environment = environment
        self.sink = sink

    def execute(self) -> TableResult:
        """Submit the job."""
        return self._environment.insert([self.sink])

    def explain(self, *extra_details: Any) -> str:
        """Return the plans as text."""
        from funken.table.execution import explained  # noqa: PLC0415 - loads the parser

        return explained(self._environment, [self.sink], extra_details)

    def print_explain(self, *extra_details: Any) -> TablePipeline:
        """Print the plans."""
        print(self.explain(*extra_details))  # noqa: T201 - that is what it is for
        return self


class Table:
    """A relation: what a query, a path or a program's rows are, until it is executed."""

    def __init__(self, environment: TableEnvironment, plan: LogicalNode) -> None:
        self._environment = environment
        self._plan = plan

    @property
    def plan(self) -> LogicalNode:
        """The logical plan."""
        return self._plan

    def as_view(self) -> CatalogView:
        """Return the table as a view of a catalog."""
        columns = tuple(TableColumn(column.name, column.type) for column in self._plan.row_type)
        return CatalogView("", columns, plan=self._plan)

    def __str__(self) -> str:
        return self._environment.inline_view(self)

    def __repr__(self) -> str:
        return f"<Table {self._plan.row_type}>"

    # ---- results

    def execute(self) -> TableResult:
        """Submit the job of the query, whose rows are collected."""
        return self._environment.collect(self._plan)

    def insert_into(self, target: Any, overwrite: bool = False, conflict: str | None = None) -> TablePipeline:
        """Return the table on its way into another, by path or descriptor."""
        from funken.table.environment import path_parts  # noqa: PLC0415 - they refer to one another
        from funken.table.execution import binder  # noqa: PLC0415 - loads the parser

        environment = self._environment
        bind = binder(environment)
        if isinstance(target, str):
            found = environment.catalogs.table(path_parts(target))
        else:
            name = f"*anonymous_sink${environment._inline}*"
            environment._inline += 1
            environment.create_temporary_table(name, target, parts=[name])
            found = environment.catalogs.table([name])
        if not isinstance(found, ResolvedTable):
            raise TypeError(f"{target!r} is a view; only tables can be written.")
        return TablePipeline(environment, bind.insert_plan(self._plan, found, overwrite, conflict))

    def execute_insert(self, table_path_or_descriptor: Any, overwrite: bool = False) -> TableResult:
        """Submit the job that writes the table into another."""
        return self.insert_into(table_path_or_descriptor, overwrite).execute()

    def explain(self, *extra_details: Any) -> str:
        """Return the plans of the query as text."""
        from funken.table.execution import explained  # noqa: PLC0415 - loads the parser

        return explained(self._environment, [LogicalSink(self._plan, None, collect="explain")], extra_details)

    def print_explain(self, *extra_details: Any) -> Table:
        """Print the plans of the query."""
        print(self.explain(*extra_details))  # noqa: T201 - that is what it is for
        return self

    def get_resolved_schema(self) -> ResolvedSchema:
        """Return the columns and their types."""
        return ResolvedSchema.of_plan(self._plan)

    get_schema = get_resolved_schema

    def print_schema(self) -> None:
        """Print the columns and their types."""
        print(self.get_resolved_schema())  # noqa: T201 - that is what it is for


__all__ = ["Table", "TablePipeline"]
