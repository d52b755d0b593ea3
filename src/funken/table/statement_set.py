"""``StatementSet``: several INSERTs as one job, which reads shared sources once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from funken.errors import InvalidProgram
from funken.plan import unexecuted
from funken.table.logical import LogicalSink
from funken.table.result import TableResult

if TYPE_CHECKING:
    from funken.table.descriptors import ExplainDetail, TableDescriptor
    from funken.table.environment import TableEnvironment
    from funken.table.table import Table, TablePipeline


class StatementSet:
    """INSERTs that become one job.

    >>> from funken.table.environment import TableEnvironment
    >>> tables = TableEnvironment.create()
    >>> _ = tables.get_config().set("execution.target", "local").set("parallelism.default", 1)
    >>> _ = tables.execute_sql("CREATE TABLE a (n INT) WITH ('connector' = 'print', 'print-identifier' = 'a')")
    >>> statements = tables.create_statement_set().add_insert_sql("INSERT INTO a VALUES (1)")
    >>> statements.add_insert("a", tables.sql_query("SELECT 2")).execute().wait()
    a> +I[1]
    a> +I[2]
    """

    def __init__(self, environment: TableEnvironment) -> None:
        self._environment = environment
        self._sinks: list[LogicalSink] = []
        self.unused = False

    def add_insert_sql(self, stmt: str) -> StatementSet:
        """Add an INSERT."""
        from funken.table.execution import sinks_of  # noqa: PLC0415 - loads the parser

        self._sinks += sinks_of(self._environment, stmt)
        self._begin()
        return self

    def add_insert(
        self, target_path_or_descriptor: str | TableDescriptor, table: Table, overwrite: bool = False
    ) -> StatementSet:
        """Add an INSERT of a table into another, by path or descriptor."""
        self._sinks.append(table.insert_into(target_path_or_descriptor, overwrite).taken())
        self._begin()
        return self

    def add(self, table_pipeline: TablePipeline) -> StatementSet:
        """Add the result of ``Table.insert_into``."""
        self._sinks.append(table_pipeline.taken())
        self._begin()
        return self

    def _begin(self) -> None:
        self.unused = True
        unexecuted.begun.add(self)

    def _complaint(self) -> str:
        """Return that the INSERTs never ran, for the end of the script."""
        return "built a statement set that never ran. execute() of the set submits its INSERTs as one job; wait() waits for it."

    def __del__(self) -> None:
        if getattr(self, "unused", False):
            unexecuted.lost.append(self._complaint())

    def _taken(self) -> list[LogicalSink]:
        if not self._sinks:
            raise InvalidProgram("the statement set is empty; add an INSERT with add_insert_sql() or add_insert().")
        sinks, self._sinks, self.unused = self._sinks, [], False
        return sinks

    def explain(self, *extra_details: ExplainDetail | str) -> str:
        """Return the plans of the INSERTs as text."""
        from funken.table.execution import explained  # noqa: PLC0415 - loads the parser

        self.unused = False
        return explained(self._environment, list(self._sinks), extra_details)

    def print_explain(self, *extra_details: ExplainDetail | str) -> None:
        """Print the plans of the INSERTs."""
        print(self.explain(*extra_details))  # noqa: T201 - that is what it is for

    def execute(self) -> TableResult:
        """Submit the job; the set is empty afterwards."""
        return self._environment.insert(self._taken())

    def attach_as_datastream(self) -> None:
        """Add the INSERTs to the stream environment, whose ``execute`` runs them; the set is empty afterwards."""
        self._environment.translate(self._taken(), self._environment.stream_environment)
