"""The replication connection: a thread that receives the changes of some tables from the binary log.

mysql-replication speaks the protocol and decodes events. Its own way to connect again is not used, for it goes on within a
transaction: a lost connection is made again here, from the end of the last whole transaction, and skips what was received.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from funken.connectors.mysql.columns import Convert, log_converters
from funken.connectors.mysql.database import MySqlDatabase, pymysql
from funken.connectors.sql.capture import LogStream
from funken.connectors.sql.changes import ChangeKind, TableChange
from funken.errors import SourceNotReadable

_HEARTBEAT_S, _SILENCE_S = 0.5, 60
_PAYLOAD, _COMPRESSED, _ANONYMOUS = 40, (165, 166, 167, 168, 169, 170, 171), 34
_PREPARED_XA = 64
_STANDALONE = 1
_FATAL_LOG = 1236


class LogPosition(NamedTuple):
    """A place in the binary log; ``offset`` is where an event ends.

    >>> LogPosition("bin.000009", 500).rank < LogPosition("bin.000010", 4).rank < LogPosition("bin.1000000", 4).rank
    True
    """

    file: str
    offset: int

    @property
    def rank(self) -> tuple[int, int]:
        """The order of positions: files are numbered."""
        return int(self.file.rpartition(".")[2]), self.offset

    @property
    def number(self) -> int:
        """The position as one number."""
        number, offset = self.rank
        return number << 32 | offset

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"


class LoggedChanges(NamedTuple):
    """Changes of one event."""

    changes: list[TableChange]
    end: LogPosition


class _ConnectionLost(ConnectionError):
    """The client would connect again."""


class BinlogStream(LogStream):
    """Receives from a position on, without the first ``skip`` changes; a heartbeat of the server lets it see its end."""

    place = "the binary log"

    def __init__(
        self, database: MySqlDatabase, server_id: int, tables: Mapping[str, Sequence[str]], since: LogPosition, skip: int,
        not_before: int, name: str, wake: Callable[[], None],
    ) -> None:  # fmt: skip
        super().__init__("mysql", wake)
        self._database, self._server_id, self._name = database, server_id, name
        self._events = EventReader(tables, not_before)
        #: the end of the last whole transaction, and how many changes of the next one were received
        self._received, self._count = since, skip
        #: when the server was heard of (s)
        self.timestamp = 0

    @property
    def progress(self) -> tuple[LogPosition, int]:
        """The end of the last whole transaction, and the number of received changes of the next one."""
        return self._received, self._count

    @property
    def broken(self) -> tuple[type[Exception], ...]:
        """The errors of the client."""
        return (*self._database.errors, ConnectionError)

    def problem(self, error: Exception) -> str:
        """Return the meaning of a transient error; raises ``SourceNotReadable`` for another one."""
        if isinstance(error, ConnectionError):
            return f"{self._database!r}: {error}; start the server, or see why it ended the connection."
        problem = self._database.problem(error)
        if "same server" in problem.fact or "same slave" in problem.fact:
            raise SourceNotReadable(
                f"{self._database!r} has ended the connection, since another reader or replica connected with server id "
                f"{self._server_id}; give each reader its own."
            ) from error
        if not problem.transient:
            raise SourceNotReadable(f"{self.place} cannot be read from {self._received}: {problem}") from error
        return str(problem)

    def receive_all(self) -> None:
        """Read the log by a connection of its own."""
        library = pymysql("pymysqlreplication")
        connections = 0

        def connect(**settings: Any) -> Any:
            nonlocal connections
            connections += 1
            if connections > 2:  # one for the log, one for questions
                raise _ConnectionLost("the connection is lost")
            return self._database.connect(**settings)

        schemas, tables = zip(*(table.split(".", 1) for table in self._events.tables), strict=True)
        reader = library.BinLogStreamReader(
            connection_settings={"name": self._name, "read_timeout": _SILENCE_S},
            server_id=self._server_id,
            resume_stream=True,
            blocking=True,
            log_file=self._received.file,
            log_pos=self._received.offset,
            only_events=_events_of_interest(),
            only_schemas=sorted(set(schemas)),
            only_tables=sorted(set(tables)),
            slave_heartbeat=_HEARTBEAT_S,
            pymysql_wrapper=connect,
            enable_logging=False,
        )
        try:
            self._receive(reader)
        finally:
            reader.close()

    def _receive(self, reader: Any) -> None:
        self._events.begin()
        skip, self._count = self._count, 0
        while not self.stopped:
            if not self.has_room():
                continue
            event = reader.fetchone()
            if event is None:
                raise _ConnectionLost("the server has ended the log")
            self.received_bytes += event.event_size
            self.timestamp = max(self.timestamp, event.timestamp)
            end = LogPosition(reader.log_file, reader.log_pos)
            changes = self._events.changes_of(event, end)
            if changes:
                first = min(skip - self._count, len(changes)) if skip > self._count else 0
                self._count += len(changes)
                if first < len(changes):
                    self.add(LoggedChanges(changes[first:], end))
            if not self._events.within_transaction and (self._count or not skip):  # else the transaction is yet to come
                skip = 0
                self._received, self._count = end, 0
                self.add(end)


def _events_of_interest() -> list[Any]:
    event, rows = pymysql("pymysqlreplication.event"), pymysql("pymysqlreplication.row_event")
    names = (
        "QueryEvent XidEvent RotateEvent FormatDescriptionEvent GtidEvent MariadbGtidEvent HeartbeatLogEvent XAPrepareEvent "
        "StopEvent PreviousGtidsEvent MariadbGtidListEvent MariadbBinLogCheckPointEvent NotImplementedEvent"
    )
    of_rows = "TableMapEvent WriteRowsEvent UpdateRowsEvent DeleteRowsEvent PartialUpdateRowsEvent"
    return [getattr(event, name) for name in names.split()] + [getattr(rows, name) for name in of_rows.split()]


# ---- events

_COMMENTS = re.compile(r"(?:\s+|/\*.*?\*/|--[^\n]*\n|#[^\n]*\n)*", re.DOTALL)
_NAME = r"(?:`(?:[^`]|``)+`|[\w$]+)"
_TRUNCATE = re.compile(rf"TRUNCATE\s+(?:TABLE\s+)?({_NAME})(?:\s*\.\s*({_NAME}))?", re.IGNORECASE)
_WRITES = re.compile(r"(INSERT|UPDATE|DELETE|REPLACE|LOAD)\b", re.IGNORECASE)
_ENDS = ("COMMIT", "ROLLBACK")


class EventReader:
    """Makes changes of events, and knows whether a transaction has begun that has not ended."""

    def __init__(self, tables: Mapping[str, Sequence[str]], not_before: int = 0) -> None:
        self.tables = dict(tables)
        self._not_before = not_before
        self.within_transaction = False
        self._standalone = False
        self._prepared = False
        self._converters: dict[int, dict[str, Convert]] = {}
        self._words = {table: re.compile(rf"\b{re.escape(table.split('.', 1)[1])}\b") for table in tables}

    def begin(self) -> None:
        """Begin between two transactions."""
        self.within_transaction = self._standalone = self._prepared = False
        self._converters = {}

    def changes_of(self, event: Any, end: LogPosition) -> list[TableChange]:
        """Take an event; return the changes of captured tables in it."""
        name = type(event).__name__
        if name in ("WriteRowsEvent", "UpdateRowsEvent", "DeleteRowsEvent", "PartialUpdateRowsEvent"):
            return self._rows(name, event, end)
        if name == "TableMapEvent":
            if f"{event.schema}.{event.table}" in self.tables:
                self._describe(event)
        elif name == "QueryEvent":
            return self._query(event, end)
        elif name in ("XidEvent", "XAPrepareEvent"):
            self.within_transaction = self._prepared = False
        elif name == "MariadbGtidEvent":
            self.within_transaction = True
            self._standalone = bool(event.flags & _STANDALONE)
            self._prepared = bool(event.flags & _PREPARED_XA)
        elif name == "GtidEvent" or event.event_type == _ANONYMOUS:
            self.within_transaction, self._standalone = True, False
        elif event.event_type == _PAYLOAD or event.event_type in _COMPRESSED:
            raise SourceNotReadable(
                f"the binary log has a compressed transaction at {end}; SET GLOBAL binlog_transaction_compression = OFF "
                "(MariaDB: log_bin_compress = OFF), and start the job again, without a checkpoint."
            )
        return []

    def _describe(self, event: Any) -> None:
        table = f"{event.schema}.{event.table}"
        if any(not column.name for column in event.columns):
            raise SourceNotReadable(
                f"the binary log does not name the columns of table {table!r}; SET GLOBAL binlog_row_metadata = 'FULL', and "
                "start from a later position."
            )
        self._converters[event.table_id] = log_converters(event.columns)

    def _rows(self, name: str, event: Any, end: LogPosition) -> list[TableChange]:
        table = f"{event.schema}.{event.table}"
        wanted = self.tables.get(table)
        self.within_transaction = True
        if wanted is None or event.timestamp * 1000 < self._not_before:
            return []
        if self._prepared:
            raise SourceNotReadable(
                f"the binary log has changes of table {table!r} in an XA transaction that is only prepared, at {end}; "
                "write to captured tables without XA, and start the job again, without a checkpoint."
            )
        if name == "PartialUpdateRowsEvent" or not _is_whole(event):
            raise SourceNotReadable(
                f"the binary log has only parts of rows of table {table!r}, at {end}: a session has binlog_row_image or "
                "binlog_row_value_options of its own; let it log whole rows, and start the job again, without a checkpoint."
            )
        converters = list(self._converters.get(event.table_id, {}).items())
        columns = set(wanted)
        try:
            rows = event.rows
        except (UnicodeDecodeError, ValueError, NotImplementedError, IndexError) as error:
            raise SourceNotReadable(
                f"a change of table {table!r} at {end} of the binary log cannot be read: {error}; correct the row, or leave the "
                "column out."
            ) from error
        number, millis = end.number, event.timestamp * 1000

        def values(row: Mapping[str, Any]) -> dict[str, Any]:
            made = {column: value for column, value in row.items() if column in columns} if columns else dict(row)
            for column, convert in converters:
                value = made.get(column)
                if value is not None:
                    made[column] = convert(value)
            return made

        if name == "WriteRowsEvent":
            return [TableChange(ChangeKind.INSERT, table, None, values(row["values"]), number, millis) for row in rows]
        if name == "DeleteRowsEvent":
            return [TableChange(ChangeKind.DELETE, table, values(row["values"]), None, number, millis) for row in rows]
        return [
            TableChange(
                ChangeKind.UPDATE, table, values(row["before_values"]), values(row["after_values"]), number, millis
            )
            for row in rows
        ]

    def _query(self, event: Any, end: LogPosition) -> list[TableChange]:
        text = event.query
        text = text[_COMMENTS.match(text).end() :]  # type: ignore[union-attr]
        words = text[:40].upper().split()
        first = words[0].rstrip(";") if words else ""
        if first == "BEGIN" or words[:2] == ["XA", "START"]:
            self.within_transaction, self._standalone = True, False
            self._prepared = first == "XA"
            return []
        if first == "SAVEPOINT" or words[:2] == ["XA", "END"] or words[:2] == ["ROLLBACK", "TO"]:
            return []
        if _WRITES.match(text):
            self._refuse_statement(text, end)
            if not self._standalone:
                return []
        self.within_transaction = False
        truncated = _TRUNCATE.match(text)
        if truncated:
            schema, name = truncated.groups() if truncated[2] else (event.schema.decode(), truncated[1])
            table = f"{_unquoted(schema)}.{_unquoted(name)}"
            if table in self.tables and event.timestamp * 1000 >= self._not_before:
                return [TableChange(ChangeKind.TRUNCATE, table, None, None, end.number, event.timestamp * 1000)]
        return []

    def _refuse_statement(self, text: str, end: LogPosition) -> None:
        for table, word in self._words.items():
            if word.search(text):
                raise SourceNotReadable(
                    f"the binary log has a statement in place of changed rows, at {end}, which is about table {table!r}: "
                    f"{text[:80]!r}. A session has binlog_format of its own; let it be ROW, and start the job again, "
                    "without a checkpoint."
                )


def _is_whole(event: Any) -> bool:
    wanted = event.number_of_columns
    maps = [event.columns_present_bitmap, getattr(event, "columns_present_bitmap2", None)]
    return all(sum(byte.bit_count() for byte in bitmap) >= wanted for bitmap in maps if bitmap is not None)


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
