"""``%%sql`` in notebooks: ``%load_ext funken.table.notebook``, then cells of SQL.

The statements of a cell run in the table environment that the line names, ``%%sql tables``, or else in one of the notebook's
own. Rows of a query are a table below the cell. ``--limit 50`` says how many; then the query ends. An interrupt ends it as well.
"""

from __future__ import annotations

import itertools
import shlex
from html import escape
from typing import Any

from funken.errors import InvalidProgram
from funken.table.environment import TableEnvironment
from funken.table.result import ResultKind, TableResult

_LIMIT = 100


class RowsOfCell:
    """The rows of a query as a notebook shows them.

    >>> print(RowsOfCell(["n"], [["1"]])._repr_html_())
    <table><thead><tr><th>n</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>
    """

    def __init__(self, header: list[str], rows: list[list[str]]) -> None:
        self._header = header
        self._rows = rows

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self._header)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self._rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def __repr__(self) -> str:
        return "\n".join(map(", ".join, self._rows))


class SqlMagic:
    """The cells of one notebook."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._own: TableEnvironment | None = None

    def __call__(self, line: str, cell: str | None = None) -> Any:
        """Run the statements of a cell, or of a line; return the rows of the last one."""
        from funken.table.execution import run  # noqa: PLC0415 - loads the parser
        from funken.table.sql import parser  # noqa: PLC0415

        environment, limit, rest = self._options(line) if cell is not None else (self._environment(None), _LIMIT, line)
        if cell is not None and rest:
            raise InvalidProgram(f"%%sql does not know {rest!r}; write '%%sql name --limit 50', or nothing.")
        shown: Any = None
        for text in parser.split(rest if cell is None else cell):
            result = run(environment, parser.parse(text))
            shown = self._rows(result, limit)
        return shown

    def _options(self, line: str) -> tuple[TableEnvironment, int, str]:
        words, limit, name = shlex.split(line), _LIMIT, None
        if "--limit" in words:
            place = words.index("--limit")
            number = words[place + 1] if place + 1 < len(words) else ""
            if not number.isdigit():
                raise InvalidProgram(f"%%sql: --limit needs a number of rows, but has {number!r}.")
            limit = int(number)
            del words[place : place + 2]
        if words:
            name = words.pop(0)
        return self._environment(name), limit, " ".join(words)

    def _environment(self, name: str | None) -> TableEnvironment:
        if name is not None:
            found = self._shell.user_ns.get(name)
            if not isinstance(found, TableEnvironment):
                raise InvalidProgram(f"%%sql: {name!r} is no TableEnvironment of the notebook; make one, or name none.")
            return found
        if self._own is None:
            self._own = TableEnvironment.create()
        return self._own

    def _rows(self, result: TableResult, limit: int) -> RowsOfCell | str:
        if result.get_result_kind() is ResultKind.SUCCESS:
            return "OK"
        job, rows = result.get_job_client(), list[Any]()
        try:
            with result.collect() as found:
                rows.extend(itertools.islice(found, limit))
        except KeyboardInterrupt:
            if job is not None and not job.get_job_execution_result().done():
                job.cancel().result()
        return RowsOfCell(result.header(), list(map(result.cells, rows)))


def load_ipython_extension(ipython: Any) -> None:
    """Register ``%sql`` and ``%%sql``; IPython calls it for ``%load_ext funken.table.notebook``."""
    ipython.register_magic_function(SqlMagic(ipython), "line_cell", "sql")
