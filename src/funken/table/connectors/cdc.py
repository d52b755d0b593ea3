"""``'connector' = 'mysql-cdc'`` and ``'postgres-cdc'``: tables of databases as they are, and then their changes."""

from __future__ import annotations

import datetime
import logging
import re
import zlib
import zoneinfo
from collections.abc import Callable
from typing import Any, ClassVar

from funken.connectors.base import Boundedness
from funken.connectors.mysql.database import MySqlDatabase
from funken.connectors.mysql.source import MySqlCdcSource, StartupOptions
from funken.connectors.postgresql.database import PostgresDatabase
from funken.connectors.postgresql.source import PostgresCdcSource
from funken.connectors.sql.changes import ChangeKind, TableChange
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.table.changelog import ChangelogMode
from funken.table.connectors.contract import ScanTable, TableContext
from funken.table.connectors.databases import converted, postgresql_conninfo
from funken.table.connectors.factory import TableFactory
from funken.table.connectors.options import ConnectorOption, OptionValues, boolean, duration, integer, one_of, text
from funken.table.types import LogicalType
from funken.types.row import Row, RowKind

logger = logging.getLogger(__name__)

_CHUNKS = "the rows of the beginning are always read in chunks"
_NO_DEBEZIUM = "changes are read without Debezium"
_POSTGRESQL = (
    ConnectorOption("hostname"),
    ConnectorOption("port", integer, 5432),
    ConnectorOption("username"),
    ConnectorOption("password", text, ""),
    ConnectorOption("database-name"),
    ConnectorOption("schema-name", text, "public"),
    ConnectorOption("table-name"),
    ConnectorOption("slot.name"),
    ConnectorOption("decoding.plugin.name", one_of("pgoutput"), "pgoutput"),
    ConnectorOption("publication.name", text, ""),
    ConnectorOption("scan.startup.mode", one_of("initial", "latest-offset", "never"), "initial"),
    ConnectorOption("scan.incremental.snapshot.enabled", boolean, False, unused=_CHUNKS),
    ConnectorOption("scan.incremental.snapshot.chunk.size", integer, 8096),
    ConnectorOption("changelog-mode", one_of("all", "upsert"), "all"),
    ConnectorOption("heartbeat.interval", duration, None, unused="the slot is confirmed at each checkpoint"),
    ConnectorOption("debezium.*", text, None, unused=_NO_DEBEZIUM),
)
_MYSQL = (
    ConnectorOption("hostname"),
    ConnectorOption("port", integer, 3306),
    ConnectorOption("username"),
    ConnectorOption("password", text, ""),
    ConnectorOption("database-name"),
    ConnectorOption("table-name"),
    ConnectorOption("server-id", text, None),
    ConnectorOption("server-time-zone", text, "UTC"),
    ConnectorOption(
        "scan.startup.mode",
        one_of("initial", "latest-offset", "earliest-offset", "specific-offset", "timestamp", "snapshot"),
        "initial",
    ),
    ConnectorOption("scan.startup.specific-offset.file", text, None),
    ConnectorOption("scan.startup.specific-offset.pos", integer, None),
    ConnectorOption("scan.startup.timestamp-millis", integer, None),
    ConnectorOption("scan.incremental.snapshot.enabled", boolean, True, unused=_CHUNKS),
    ConnectorOption("scan.incremental.snapshot.chunk.size", integer, 8096),
    ConnectorOption("scan.incremental.snapshot.chunk.key-column", text, None, unused="chunks are of the primary key"),
    ConnectorOption("scan.snapshot.fetch.size", integer, 1024, unused="a chunk is fetched whole"),
    ConnectorOption("connect.timeout", duration, None, unused="a server has ten seconds to answer"),
    ConnectorOption("connect.max-retries", integer, 3, unused="a lost connection is tried four times"),
    ConnectorOption("connection.pool.size", integer, 20, unused="one subtask reads"),
    ConnectorOption("heartbeat.interval", duration, None, unused="the server sends a heartbeat twice a second"),
    ConnectorOption("jdbc.properties.*", text, None, unused="there is no JDBC"),
    ConnectorOption("debezium.*", text, None, unused=_NO_DEBEZIUM),
)


@dataclass(frozen=True)
class ChangesToRows:
    """Makes rows of changes; of an update the row before, too, unless ``upsert``. Metadata columns follow.

    ``zone`` is where TIMESTAMP columns without a time zone show instants.
    """

    columns: tuple[tuple[str, LogicalType], ...]
    upsert: bool
    metadata: tuple[str, ...] = ()
    zone: str = ""

    def __call__(self, change: TableChange) -> list[Row]:
        """Return the rows of a change."""
        rows = []
        if change.kind is ChangeKind.DELETE:
            rows.append((RowKind.DELETE, change.before))
        elif change.kind is ChangeKind.UPDATE:
            if not self.upsert:
                if change.before is None or len(change.before) < len(self.columns):
                    raise ValueError(
                        f"an update of {change.table} comes without the row before; ALTER TABLE {change.table} REPLICA "
                        "IDENTITY FULL, or set 'changelog-mode' = 'upsert' and declare the primary key."
                    )
                rows.append((RowKind.UPDATE_BEFORE, change.before))
            rows.append((RowKind.UPDATE_AFTER, change.after))
        elif change.kind is ChangeKind.TRUNCATE:
            logger.warning(
                "table %s was truncated, which a changelog of rows cannot say: its rows stay in the results. "
                "Start the job again, without a checkpoint.",
                change.table,
            )
        else:
            rows.append((RowKind.INSERT, change.after))
        return [self._row(change, kind, values or {}) for kind, values in rows]

    def _row(self, change: TableChange, kind: RowKind, values: dict[str, Any]) -> Row:
        found = [values.get(name) for name, _ in self.columns]
        if self.zone:
            found = [self._local(value, type_) for value, (_, type_) in zip(found, self.columns, strict=True)]
        made = converted(found, self.columns)
        return Row.of_kind(kind, *made, *(_METADATA[key](change, kind) for key in self.metadata))

    def _local(self, value: Any, type_: LogicalType) -> Any:
        name = type(type_).__name__
        if name == "TimestampType" and getattr(value, "tzinfo", None) is not None:
            return value.astimezone(zoneinfo.ZoneInfo(self.zone)).replace(tzinfo=None)
        if name in ("TimeOfDayType", "PreciseTimeType") and isinstance(value, datetime.timedelta):
            if not datetime.timedelta(0) <= value < datetime.timedelta(days=1):
                raise ValueError(f"the time {value} is not within a day, as TIME is; declare the column as STRING.")
            return (datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + value).time()
        if name in ("CharType", "VarCharType") and isinstance(value, datetime.timedelta):
            return _time_text(value)
        if name in ("BinaryType", "VarBinaryType") and isinstance(value, int):
            return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
        return value


def _time_text(value: datetime.timedelta) -> str:
    """Return a time as MySQL writes it.

    >>> _time_text(-datetime.timedelta(hours=30, seconds=1.5))
    '-30:00:01.500000'
    """
    whole, micros = divmod(abs(value) // datetime.timedelta(microseconds=1), 1_000_000)
    sign, fraction = "-" if value < datetime.timedelta(0) else "", f".{micros:06}" if micros else ""
    return f"{sign}{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{fraction}"


_KINDS = {RowKind.INSERT: "+I", RowKind.UPDATE_BEFORE: "-U", RowKind.UPDATE_AFTER: "+U", RowKind.DELETE: "-D"}
_METADATA: dict[str, Callable[[TableChange, RowKind], Any]] = {
    "database_name": lambda change, kind: change.table.split(".", 1)[0],
    "table_name": lambda change, kind: change.table.split(".", 1)[1],
    "op_ts": lambda change, kind: datetime.datetime.fromtimestamp(change.timestamp / 1000, datetime.UTC),
    "row_kind": lambda change, kind: _KINDS[kind],
}


# ---- PostgreSQL


class PostgresChanges(ScanTable):
    """Reads a table as it is, and then its changes."""

    bounded = False

    def __init__(self, context: TableContext, options: OptionValues) -> None:
        self._context, self._options = context, options
        self._upsert = options["changelog-mode"] == "upsert"
        self.changelog_mode = ChangelogMode.upsert() if self._upsert else ChangelogMode.all()
        self.deletes_by_key = self._upsert
        if self._upsert and not context.primary_key:
            raise InvalidProgram(f"Table {context.path!r}: 'changelog-mode' = 'upsert' requires a primary key.")

    def stream(self, env: Any) -> Any:
        """Return the changes."""
        options = self._options
        url = f"postgresql://{options['hostname']}:{options['port']}/{options['database-name']}"
        database = PostgresDatabase(postgresql_conninfo(url, options["username"], options["password"]))
        source = PostgresCdcSource(
            database,
            [f"{options['schema-name']}.{options['table-name']}"],
            options["slot.name"],
            options["publication.name"],
            snapshot=options["scan.startup.mode"] == "initial",
            page_size=options["scan.incremental.snapshot.chunk.size"],
        )
        changes = ChangesToRows(self._context.columns, self._upsert)
        return env.from_source(source, None, self._context.path).flat_map(changes).name("changes")


class PostgresCdcFactory(TableFactory):
    """Makes tables of the changes of a database of PostgreSQL."""

    def scan(self, context: TableContext) -> ScanTable:
        """Return a table of the changes."""
        return PostgresChanges(context, OptionValues(context.path, context.options, _POSTGRESQL))


# ---- MySQL


class MySqlChanges(ScanTable):
    """Reads a table, or all whose names match, and then the changes."""

    changelog_mode = ChangelogMode.all()

    def __init__(self, context: TableContext, options: OptionValues) -> None:
        self._context, self._options = context, options
        self.bounded = options["scan.startup.mode"] == "snapshot"
        try:
            zoneinfo.ZoneInfo(options["server-time-zone"])
        except (zoneinfo.ZoneInfoNotFoundError, ValueError):
            raise InvalidProgram(
                f"Table {context.path!r}: 'server-time-zone' = {options['server-time-zone']!r} is no time zone; write one "
                "such as 'Europe/Berlin'."
            ) from None

    def _tables(self) -> list[str | re.Pattern[str]]:
        database, table = self._options["database-name"], self._options["table-name"]
        try:
            return [re.compile(rf"(?:{database})\.(?:{table})")]
        except re.error as error:
            raise InvalidProgram(
                f"Table {self._context.path!r}: 'database-name' and 'table-name' are regular expressions, but {error}."
            ) from None

    def _server_id(self) -> int:
        given = self._options["server-id"]
        if given is None:  # beyond those that people choose
            return (1 << 30) + zlib.crc32(f"{self._context.path} {self._context.identity}".encode()) % (1 << 30)
        first = str(given).split("-", 1)[0].strip()
        if not first.isdigit():
            raise InvalidProgram(
                f"Table {self._context.path!r}: 'server-id' = {given!r} is no number or range such as '5400-5408'."
            )
        return int(first)

    def _start(self) -> StartupOptions:
        options, mode = self._options, self._options["scan.startup.mode"]
        if mode == "specific-offset":
            file, position = self._needed(mode, "specific-offset.file"), self._needed(mode, "specific-offset.pos")
            return StartupOptions.specific_offset(file, position)
        if mode == "timestamp":
            return StartupOptions.timestamp(self._needed(mode, "timestamp-millis"))
        return StartupOptions("initial" if mode == "snapshot" else options["scan.startup.mode"])

    def _needed(self, mode: str, name: str) -> Any:
        value = self._options[f"scan.startup.{name}"]
        if value is None:
            raise InvalidProgram(
                f"Table {self._context.path!r}: 'scan.startup.mode' = {mode!r} needs option 'scan.startup.{name}'."
            )
        return value

    def stream(self, env: Any) -> Any:
        """Return the changes."""
        options, context = self._options, self._context
        database = MySqlDatabase(options["hostname"], options["username"], options["password"], port=options["port"])
        source = MySqlCdcSource(
            database,
            self._tables(),
            self._server_id(),
            self._start(),
            options["scan.incremental.snapshot.chunk.size"],
            {"*": context.names},
            Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED,
        )
        metadata = tuple(key for key, _ in context.metadata)
        changes = ChangesToRows(context.columns, False, metadata, options["server-time-zone"])
        return env.from_source(source, None, context.path).flat_map(changes).name("changes")


class MySqlCdcFactory(TableFactory):
    """Makes tables of the changes of a database of MySQL or MariaDB.

    >>> MySqlCdcFactory().scan(TableContext("t", options={"connector": "mysql-cdc", "hostname": "db", "username": "ada"}))
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: One or more required options are missing for table 't': database-name, table-name.
    Set them in its WITH clause: WITH ('database-name' = '...', 'table-name' = '...').
    """

    metadata: ClassVar[dict[str, str]] = {
        "database_name": "STRING NOT NULL",
        "table_name": "STRING NOT NULL",
        "op_ts": "TIMESTAMP_LTZ(3) NOT NULL",
        "row_kind": "STRING NOT NULL",
    }

    def scan(self, context: TableContext) -> ScanTable:
        """Return a table of the changes."""
        return MySqlChanges(context, OptionValues(context.path, context.options, _MYSQL))
