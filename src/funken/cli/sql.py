"""``funken sql``: statements of a script, of an argument, or typed in, as Flink's SQL client runs them.

A query's rows are shown as they come, in one of three ways (``sql-client.execution.result-mode``): ``tableau``, the changes in a
box; ``changelog``, a line per change; ``table``, the rows that are left at the end. A script waits for its jobs before it ends.
"""

from __future__ import annotations

import contextlib
import datetime
import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click

from funken import extras
from funken.cli.failures import job_options, with_options
from funken.config import Configuration, set_default_configuration
from funken.errors import FunkenError
from funken.lazy import importing
from funken.runtime.process import collecting_rarely
from funken.timing.clock import SystemClock

if TYPE_CHECKING:
    from funken.api.jobs.client import JobClient

_PROMPT, _MORE = "Funken SQL> ", "> "
_MODES = ("tableau", "changelog", "table")

_HELP = """\
Statements end with a semicolon.

SELECT, INSERT, CREATE, DROP, ALTER, SHOW, DESCRIBE, EXPLAIN, USE   as in Flink's SQL
SET 'key' = 'value'; SET; RESET 'key'                               options of queries and jobs
SET 'sql-client.execution.result-mode' = 'tableau'                  or changelog, or table
BEGIN STATEMENT SET; INSERT ..; INSERT ..; END                      several INSERTs as one job
SOURCE 'script.sql'                                                 the statements of a file
SHOW JOBS; DESCRIBE JOB 'id'; STOP JOB 'id' [WITH SAVEPOINT] [WITH DRAIN]   the jobs of INSERTs
CLEAR, HELP, QUIT

Ctrl-C ends a query."""


class Quit(Exception):  # the statement, not an error
    """``QUIT`` or ``EXIT``."""


class SqlClient:
    """A table environment, and the statements of the client: modes, statement sets, scripts."""

    def __init__(self, environment: Any, echo: Callable[[str], None], waits: bool) -> None:
        self._environment = environment
        self._echo = echo
        self._waits = waits
        self._block: Any = None
        self._inserts = 0
        self.jobs: list[JobClient] = []
        """The jobs of INSERTs, which go on behind their statements."""
        self._all_jobs: dict[str, tuple[JobClient, str]] = {}

    # ---- statements

    def script(self, text: str) -> None:
        """Run the statements of a text; the first error ends it."""
        from funken.table.sql import parser  # noqa: PLC0415 - only where statements run

        for part in parser.split(text):
            self.statement(part)

    def statement(self, text: str) -> None:
        """Run a statement."""
        from funken.table.sql import parser  # noqa: PLC0415 - only where statements run
        from funken.table.sql import statements as st  # noqa: PLC0415

        record = parser.parse(text)
        if isinstance(record, st.ClientCommand):
            self._command(record.command, record.argument)
        elif isinstance(record, st.Show) and record.what.upper() == "JOBS":
            self._show_jobs([*self._all_jobs])
        elif isinstance(record, st.Describe) and record.kind == "JOB":
            self._job(record.path[0])
            self._show_jobs([record.path[0]])
        elif isinstance(record, st.StopJob):
            self._stop(self._job(record.job), record)
        elif self._block is not None:
            if not isinstance(record, st.Insert):
                raise click.ClickException("only INSERT statements are part of a statement set; END runs it.")
            self._block.add_insert_sql(text)
            self._inserts += 1
            self._echo("Statement added.")
        else:
            self._run(record, st)

    def _command(self, command: str, argument: str) -> None:
        if command == "QUIT":
            raise Quit
        if command == "HELP":
            self._echo(_HELP)
        elif command == "CLEAR":
            click.clear()
        elif command == "SOURCE":
            self.script(_text_of(argument))
        elif command == "BEGIN STATEMENT SET" and self._block is not None:
            raise click.ClickException("a statement set takes INSERT statements only; END runs it.")
        elif command == "BEGIN STATEMENT SET":
            self._inserts = 0
            self._block = self._environment.create_statement_set()
            self._echo("Begin a statement set.")
        elif command == "END":
            if self._block is None:
                raise click.ClickException("there is no statement set to END; it begins with BEGIN STATEMENT SET.")
            block, self._block = self._block, None
            if self._inserts:
                self._submitted(block.execute())
            else:
                self._echo("OK")

    def _run(self, record: Any, st: Any) -> None:
        from funken.table.execution import run  # noqa: PLC0415 - only where statements run

        if not self._environment.list_user_defined_functions():
            extras.defer_pandas()  # nothing in this process is pandas'
        result = run(self._environment, record)
        if isinstance(record, st.Query):
            self._show(result)
        elif result.get_job_client() is not None:
            self._submitted(result)
        else:
            result.print()

    # ---- jobs

    def _submitted(self, result: Any) -> None:
        job = result.get_job_client()
        self.jobs.append(job)
        zone = ZoneInfo(self._environment.get_config().get_local_timezone())
        begun = datetime.datetime.fromtimestamp(SystemClock().wall(), zone).replace(tzinfo=None)
        self._all_jobs[job.get_job_id()] = (job, begun.isoformat(timespec="milliseconds"))
        if not (self._waits or self._environment.get_config().option("table.dml-sync")):
            self._echo(f"Job submitted: {job.get_job_id()}")

    def _job(self, identity: str) -> JobClient:
        if identity not in self._all_jobs:
            known = f"Its jobs: {', '.join(self._all_jobs)}." if self._all_jobs else "It has none: INSERT begins one."
            raise click.ClickException(f"job '{identity}' is none of this session. {known}")
        return self._all_jobs[identity][0]

    def _show_jobs(self, identities: list[str]) -> None:
        shown = [(key, *self._all_jobs[key]) for key in identities]
        rows = [[key, job.plan.name, job.get_job_status().result().name, begun] for key, job, begun in shown]
        self._table(["job id", "job name", "status", "start time"], rows)

    def _stop(self, job: JobClient, record: Any) -> None:
        if record.drain and not record.savepoint:
            raise click.ClickException("STOP JOB .. WITH DRAIN needs a savepoint: write WITH SAVEPOINT WITH DRAIN.")
        if not record.savepoint:
            job.cancel().result()
            self._echo("OK")
            return
        path = job.stop_with_savepoint(record.drain).result()
        self._table(["savepoint path"], [[path]])

    @staticmethod
    def _table(names: list[str], rows: list[list[Any]]) -> None:
        from funken.table.result import TableResult  # noqa: PLC0415 - loads Arrow
        from funken.table.types import DataTypes  # noqa: PLC0415
        from funken.types.row import Row  # noqa: PLC0415

        TableResult(names, [DataTypes.STRING()] * len(names), [Row(*row) for row in rows]).print()

    # ---- results

    def _show(self, result: Any) -> None:
        mode = str(self._environment.get_config().get("sql-client.execution.result-mode", "tableau")).lower()
        if mode not in _MODES:
            raise click.ClickException(f"result mode {mode!r} is unknown; there are: {', '.join(_MODES)}.")
        with _ended_by_ctrl_c(result):
            if mode == "tableau" and not self._environment.is_streaming:
                with result.collect() as rows:
                    result.final([*rows]).print()
            elif mode == "tableau":
                result.print()
            elif mode == "changelog":
                self._changes(result)
            else:
                self._rest(result)

    def _changes(self, result: Any) -> None:
        from funken.table.values import java_row  # noqa: PLC0415 - only where rows are shown

        with result.collect() as rows:
            for row in rows:
                self._echo(java_row(row))

    def _rest(self, result: Any) -> None:
        from funken.table.collecting import remaining  # noqa: PLC0415 - loads Arrow

        seen: list[Any] = []
        with result.collect() as rows, contextlib.suppress(KeyboardInterrupt):
            seen.extend(rows)
        result.final(remaining(seen)).print()

    def wait(self) -> None:
        """Wait until the jobs of INSERTs have ended; raises the failure of one."""
        jobs, self.jobs = self.jobs, []
        for job in jobs:
            job.get_job_execution_result().result()

    def close(self) -> None:
        """End running jobs."""
        for job in self.jobs:
            if not job.get_job_execution_result().done():
                job.cancel().result()


def _text_of(path: str) -> str:
    """Return the text of a script that SOURCE names."""
    try:
        return Path(path).read_text()
    except OSError as error:
        folder = "" if os.path.isabs(path) else f" in the folder {os.getcwd()}"
        raise click.ClickException(
            f"SOURCE {path!r} cannot be read{folder}: {error.strerror}. Correct the path."
        ) from None


@contextlib.contextmanager
def _ended_by_ctrl_c(result: Any) -> Iterator[None]:
    """Let Ctrl-C end a query, and nothing else."""
    try:
        yield
    except KeyboardInterrupt:
        job = result.get_job_client()
        if job is not None and not job.get_job_execution_result().done():
            job.cancel().result()
        click.echo("Query ended.", err=True)


def read_statements(lines: Callable[[str], str]) -> Iterator[str]:
    """Read statements line by line, to a semicolon; ``lines`` takes the prompt, and raises ``EOFError`` at the end."""
    from funken.table.sql import parser  # noqa: PLC0415 - only where statements run

    text = ""
    while True:
        try:
            text += lines(_MORE if text.strip() else _PROMPT) + "\n"
        except EOFError:
            return
        if text.rstrip().endswith(";"):
            yield from parser.split(text)
            text = ""
        elif text.strip().upper() in ("QUIT", "EXIT", "HELP", "CLEAR"):
            yield text
            text = ""


def _typed(session: SqlClient) -> None:
    """Run typed statements; an error ends its statement only."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, PLC0415 - gives input() a history
    click.echo("Statements end with a semicolon; HELP; tells more, QUIT; ends.")
    statements = read_statements(input)
    while True:
        try:
            text = next(statements, None)
            if text is None:
                return
            session.statement(text)
        except Quit:
            return
        except KeyboardInterrupt:
            click.echo()
        except (FunkenError, click.ClickException, OSError) as error:
            click.echo(f"[ERROR] {error}", err=True)


class _Script(click.Path):
    """The path of a script; a statement in its place is answered."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; fail if there is no such file."""
        if len(str(value).split()) > 1 and not os.path.exists(value):
            self.fail(f'{value!r} is a statement, and no file. Give it with -e: funken sql -e "..."', param, ctx)
        return super().convert(value, param, ctx)


@click.command()
@click.argument("script", required=False, type=_Script(exists=True, dir_okay=False))
@click.option("--file", "-f", type=click.Path(exists=True, dir_okay=False), help="Run the statements of a file.")
@click.option("--execute", "-e", "text", help="Run these statements.")
@click.option("--init", "-i", type=click.Path(exists=True, dir_okay=False), help="Run these statements first.")
@click.option("--batch", is_flag=True, help="Give each result once; all tables have to be bounded.")
@job_options("auto")
def sql(
    script: str | None, file: str | None, text: str | None, init: str | None, batch: bool, target: str,
    parallelism: int | None, configuration: Configuration,
) -> None:  # fmt: skip
    """Run statements of Flink's SQL: of a SCRIPT, of an option, or typed in.

    \b
    funken sql script.sql
    funken sql -e "SELECT 1 + 1"
    funken sql --target local
    """
    set_default_configuration(with_options(configuration, target, parallelism))
    path = file or script
    typed = path is None and text is None and sys.stdin.isatty()
    with collecting_rarely():
        session = SqlClient(_environment(batch), click.echo, waits=not typed)
        _session(
            session,
            init,
            typed,
            lambda: text if text is not None else Path(path).read_text() if path else sys.stdin.read(),
        )


def _environment(batch: bool) -> Any:
    with importing():
        from funken.table.environment import EnvironmentSettings, TableEnvironment  # noqa: PLC0415 - the help needs none

    settings = EnvironmentSettings.in_batch_mode() if batch else EnvironmentSettings.in_streaming_mode()
    return TableEnvironment.create(settings)


def _session(session: SqlClient, init: str | None, typed: bool, script: Callable[[], str]) -> None:
    """Run the statements of a session; an error of a script ends it."""
    try:
        if init is not None:
            session.script(Path(init).read_text())
        if typed:
            _typed(session)
            return
        session.script(script())
        session.wait()
    except Quit:
        session.wait()
    except FunkenError as error:
        raise click.ClickException(str(error)) from error
    finally:
        session.close()
        gc.freeze()  # Python would look at all that there is once more, now and at the end: 0.2 s
