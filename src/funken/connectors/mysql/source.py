"""Change data capture: the rows of tables, then every change of them, once and in the order of the binary log."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from funken.connectors.base import Boundedness, ConnectorContext, Source, SourceReader
from funken.connectors.mysql.binlog import LogPosition
from funken.connectors.mysql.columns import MySqlKey, columns_of, columns_wanted
from funken.connectors.mysql.database import MySqlDatabase, pymysql
from funken.connectors.mysql.reader import MySqlCdcReader, MySqlCdcSplit, position_of
from funken.connectors.sql.changes import TableChange
from funken.connectors.sql.database import SqlProblem, SqlSession
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SourceNotReadable

_SETTINGS = {
    "log_bin": ("ON", "the server writes no binary log; start it with log_bin"),
    "binlog_format": ("ROW", "the log has no rows; SET GLOBAL binlog_format = 'ROW'"),
    "binlog_row_image": ("FULL", "the log has only parts of rows; SET GLOBAL binlog_row_image = 'FULL'"),
    "binlog_row_metadata": ("FULL", "the log does not name columns; SET GLOBAL binlog_row_metadata = 'FULL'"),
    "log_bin_compress": ("OFF", "the log is compressed; SET GLOBAL log_bin_compress = OFF"),
    "binlog_transaction_compression": ("OFF", "the log is compressed; SET GLOBAL binlog_transaction_compression = OFF"),
    "binlog_row_value_options": ("", "the log has only parts of JSON; SET GLOBAL binlog_row_value_options = ''"),
}
"""The required settings of a server, where it knows them, with further remedies."""

_TABLES = """
SELECT CONCAT(table_schema, '.', table_name), table_type, engine FROM information_schema.tables
WHERE table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys') ORDER BY 1"""

_KEY = """
SELECT column_name, sub_part FROM information_schema.statistics
WHERE table_schema = %s AND table_name = %s AND index_name = 'PRIMARY' ORDER BY seq_in_index"""


@dataclass(frozen=True)
class StartupOptions:
    """The start of a job without a checkpoint: the tables, or a place in the log.

    >>> StartupOptions.specific_offset("bin.000003", 4)
    StartupOptions(mode='specific-offset', file='bin.000003', position=4, millis=0)
    """

    mode: str
    file: str = ""
    position: int = 0
    millis: int = 0

    @staticmethod
    def initial() -> StartupOptions:
        """Read the rows of the tables, then the changes."""
        return StartupOptions("initial")

    @staticmethod
    def latest() -> StartupOptions:
        """Read changes from now on."""
        return StartupOptions("latest-offset")

    @staticmethod
    def earliest() -> StartupOptions:
        """Read the changes of all binary logs that the server still has."""
        return StartupOptions("earliest-offset")

    @staticmethod
    def timestamp(millis: int) -> StartupOptions:
        """Read the changes since a time (ms since 1970), as far as the server still has them."""
        return StartupOptions("timestamp", millis=millis)

    @staticmethod
    def specific_offset(file: str, position: int) -> StartupOptions:
        """Read from a position on, the end of a transaction."""
        return StartupOptions("specific-offset", file, position)


@dataclass(frozen=True)
class MySqlCdcSource(Source[TableChange]):
    """The rows of tables as they are, and then their changes, as ``TableChange``s with the time of the statement.

    ``tables`` are names with their database, or regular expressions, which stand for the tables of the start. ``server_id`` is
    a number that no server, replica or other reader has. ``columns`` names the columns of a table that are read, and with them
    its primary key; those of ``"*"`` are of all other tables. One subtask reads. With ``boundedness=Boundedness.BOUNDED`` the
    source ends where the log was when the rows had been read, or, without them, at the start.

    Raises ``SourceNotReadable`` at the start if the server does not log whole rows, a table is not there, has no primary key or a
    type that cannot be read, or the user may not read it.

    >>> shop = MySqlDatabase("db.example", "ada")
    >>> MySqlCdcSource(shop, ["shop.orders"], server_id=5401).start.mode
    'initial'
    >>> MySqlCdcSource(shop, ["orders"], server_id=5401)
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: table 'orders' of a MySqlCdcSource has no database; write 'database.table'.
    """

    database: MySqlDatabase
    tables: Sequence[str | re.Pattern[str]]
    server_id: int
    start: StartupOptions = StartupOptions("initial")
    page_size: int = 10_000
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)
    boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    max_parallelism = 1

    def __post_init__(self) -> None:
        """Check names and numbers."""
        if isinstance(self.tables, str | re.Pattern) or not self.tables:
            raise InvalidConfiguration(f"a MySqlCdcSource needs a list of tables, but got {self.tables!r}.")
        for table in self.tables:
            if isinstance(table, str) and "." not in table:
                raise InvalidConfiguration(
                    f"table {table!r} of a MySqlCdcSource has no database; write 'database.table'."
                )
        if not isinstance(self.server_id, int) or not 0 < self.server_id < 1 << 32:
            raise InvalidConfiguration(
                f"server id {self.server_id!r} of a MySqlCdcSource is no number between 1 and {(1 << 32) - 1}; correct it."
            )
        if self.page_size < 1:
            raise InvalidConfiguration(f"the page size of a MySqlCdcSource is {self.page_size}; it is at least 1.")
        object.__setattr__(self, "tables", tuple(self.tables))

    def list_splits(self) -> Sequence[MySqlCdcSplit]:
        """Check server and tables, and note where the log is."""
        pymysql("pymysqlreplication")  # so that it is missing here, not in a task
        return [SqlSession.once(self.database, "funken", self._look, self._not_readable)]

    @staticmethod
    def _not_readable(problem: SqlProblem) -> SourceNotReadable:
        return SourceNotReadable(f"changes cannot be captured: {problem}")

    def _look(self, cursor: Any) -> MySqlCdcSplit:
        self._check_server(cursor)
        names = self._tables(cursor)
        with_rows = self.start.mode == "initial"
        keys = tuple((name, self._key_of(cursor, name, engine, with_rows)) for name, engine in names.items())
        end = position_of(cursor)
        position = self._position(cursor, end)
        tables = tuple(names) if with_rows else ()
        return MySqlCdcSplit("changes", tables, keys, position)

    def _check_server(self, cursor: Any) -> None:
        names = ", ".join(["%s"] * len(_SETTINGS))
        cursor.execute(f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({names})", tuple(_SETTINGS))
        settings = {name.lower(): str(value).upper() for name, value in cursor.fetchall()}
        if "binlog_row_metadata" not in settings:
            cursor.execute("SELECT VERSION()", ())
            (version,) = cursor.fetchone()
            raise SourceNotReadable(
                f"{self.database!r} is of version {version}, whose log does not name columns; use MySQL 8.0.14, MariaDB "
                "10.5, or later."
            )
        for name, (wanted, problem) in _SETTINGS.items():
            found = settings.get(name, wanted)
            if {"1": "ON", "0": "OFF"}.get(found, found) != wanted:
                raise SourceNotReadable(f"{self.database!r} has {name} = {found}: {problem}, and start the job again.")
        cursor.execute("SELECT @@server_id", ())
        (server_id,) = cursor.fetchone()
        if server_id == self.server_id:
            raise SourceNotReadable(
                f"{self.database!r} has server id {server_id} itself; give the source another one (server_id)."
            )

    def _tables(self, cursor: Any) -> dict[str, str]:
        """Return the tables that are meant, and their engines."""
        cursor.execute(_TABLES, ())
        there = {name: (kind, engine or "") for name, kind, engine in cursor.fetchall()}
        found: dict[str, str] = {}
        for table in self.tables:
            matching = (
                [table]
                if isinstance(table, str)
                else [n for n in there if table.fullmatch(n) and there[n][0] == "BASE TABLE"]
            )
            text = table if isinstance(table, str) else table.pattern
            if not matching or matching[0] not in there:
                raise SourceNotReadable(
                    f"{self.database!r} has no table {text!r}; create it, correct its name (with its database), or grant "
                    "SELECT on it."
                )
            for name in matching:
                kind, engine = there[name]
                if kind != "BASE TABLE":
                    raise SourceNotReadable(
                        f"{name!r} is a {kind.lower()}, whose changes are not logged; name its tables."
                    )
                found[name] = engine
        return found

    def _key_of(self, cursor: Any, table: str, engine: str, with_rows: bool) -> tuple[MySqlKey, ...]:
        cursor.execute(_KEY, tuple(table.split(".", 1)))
        parts = cursor.fetchall()
        names = [name for name, _ in parts]
        wanted = columns_wanted(self.columns, table)
        columns = {
            column.name: column
            for column in columns_of(cursor, table, tuple(dict.fromkeys([*wanted, *names])) if wanted else ())
        }
        keys = tuple(columns[name].key for name in names)
        if not with_rows:
            return keys
        wrong = [
            f"{name} ({columns[name].type})" for name, prefix in parts if prefix or not columns[name].key.is_ordered
        ]
        fault = (
            "no primary key"
            if not keys
            else f"a primary key of types that cannot be compared here: {', '.join(wrong)}"
            if wrong
            else f"the engine {engine}, which locks no rows"
            if engine.upper() != "INNODB"
            else ""
        )
        if fault:
            raise SourceNotReadable(
                f"table {table!r} has {fault}, so its rows cannot be read as of a place in the log; read the log alone: "
                "StartupOptions.latest()."
            )
        return keys

    def _position(self, cursor: Any, end: LogPosition) -> LogPosition:
        start = self.start
        if start.mode == "specific-offset":
            position = LogPosition(start.file, max(4, start.position))
        elif start.mode in ("earliest-offset", "timestamp"):
            cursor.execute("SHOW BINARY LOGS", ())
            position = LogPosition(cursor.fetchone()[0], 4)
        else:
            return end
        if start.mode == "specific-offset":
            cursor.execute("SHOW BINARY LOGS", ())
            logs = {row[0]: int(row[1]) for row in cursor.fetchall()}
            if position.file not in logs or position.offset > logs[position.file]:
                raise SourceNotReadable(
                    f"{self.database!r} has no position {position} of the binary log (it has {min(logs)} to {end}); "
                    "correct file and position."
                )
        return position

    def reader(self, context: ConnectorContext) -> SourceReader:
        """Make the reader."""
        bounded = self.boundedness is Boundedness.BOUNDED
        return MySqlCdcReader(
            self.database, self.server_id, self.columns, self.page_size, self.start.millis, bounded, context
        )
