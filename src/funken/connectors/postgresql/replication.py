"""The replication connection: a thread that receives whole transactions, and confirms positions to the server.

psycopg has no replication API, but its ``pq`` layer has libpq's copy functions, and that is all the protocol takes. The server
sends each transaction after its commit; the position of the slot moves only when the reader acknowledges a checkpoint. A lost
connection is made again from the last transaction that was received.
"""

from __future__ import annotations

import enum
import select
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any, NamedTuple

from funken.connectors.postgresql.database import PostgresDatabase, psycopg, text_loader
from funken.connectors.sql.capture import LogStream
from funken.connectors.sql.changes import ChangeKind, TableChange
from funken.dataclass import dataclass
from funken.errors import SourceNotReadable
from funken.timing.clock import SystemClock

# ---- What PostgreSQL's logical replication says (``pgoutput``, protocol version 1), as records; no connection
# here.
#
# A transaction arrives whole, after its commit: begin, changes, commit. Before the first change of a table, and
# after each change of its columns, a relation message describes it. Values come as text; ``load(type, text)`` makes
# Python's values of them.


_EPOCH_MS = 946_684_800_000
"""PostgreSQL counts from 2000."""
_UNSIGNED = 1 << 32


class Unchanged(enum.Enum):
    """The mark of a large value that an update did not change, and that the server does not send."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED = Unchanged.UNCHANGED


class CommittedTransaction(NamedTuple):
    """A whole transaction."""

    xid: int
    end: int
    """Its end in the log: the position after it."""
    timestamp: int
    """The time of its commit (ms since 1970)."""
    changes: list[TableChange]
    columns: Mapping[str, int]
    """Number of columns of each table."""


class ReplicatedColumn(NamedTuple):
    """A column as a relation message describes it."""

    name: str
    type: int
    is_key: bool


class Relation(NamedTuple):
    """A table as a relation message describes it."""

    name: str
    columns: list[ReplicatedColumn]


def lsn_of(text: str) -> int:
    """Return a position in the log as a number.

    >>> lsn_of("0/153B338")
    22262584
    """
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def lsn_text(lsn: int) -> str:
    """Return a position as PostgreSQL writes it.

    >>> lsn_text(22262584)
    '0/153B338'
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


@dataclass
class ChangeDecoder:
    r"""Makes transactions of messages: ``decode`` returns one when its last message has come.

    >>> decoder = ChangeDecoder(lambda type, text: int(text) if type == 23 else text.decode())
    >>> decoder.decode(b"B" + struct.pack(">QqI", 100, 0, 7))
    >>> columns = b"\1id\0" + struct.pack(">Ii", 23, -1)
    >>> decoder.decode(b"R" + struct.pack(">I", 9) + b"public\0t\0d" + struct.pack(">H", 1) + columns)
    >>> decoder.decode(b"I" + struct.pack(">I", 9) + b"N" + struct.pack(">H", 1) + b"t" + struct.pack(">I", 2) + b"42")
    >>> commit = decoder.decode(b"C\0" + struct.pack(">QQq", 100, 140, 0))
    >>> commit.xid, commit.end, commit.timestamp, commit.changes[0].table, commit.changes[0].after
    (7, 140, 946684800000, 'public.t', {'id': 42})
    """

    load: Callable[[int, bytes], Any]
    _relations: dict[int, Relation] = field(default_factory=dict)
    _columns: Mapping[str, int] = field(default_factory=dict)
    _xid: int = 0
    _changes: list[tuple[ChangeKind, str, dict[str, Any] | None, dict[str, Any] | None]] = field(default_factory=list)

    def decode(self, message: bytes) -> CommittedTransaction | None:
        """Take a message; returns the transaction that it ends."""
        kind = message[:1]
        match kind:
            case b"I" | b"U" | b"D":
                self._change(kind, message)
            case b"B":
                _, _, self._xid = struct.unpack_from(">QqI", message, 1)
                self._changes = []
            case b"C":
                commit, end, timestamp = struct.unpack_from(">QQq", message, 2)
                changes, self._changes = self._changes, []
                millis = timestamp // 1000 + _EPOCH_MS
                return CommittedTransaction(
                    self._xid, end, millis, [TableChange(*change, commit, millis) for change in changes], self._columns
                )
            case b"R":
                self._relation(message)
            case b"T":
                count, _ = struct.unpack_from(">IB", message, 1)
                for relation in struct.unpack_from(f">{count}I", message, 6):
                    self._changes.append((ChangeKind.TRUNCATE, self._relations[relation].name, None, None))
        return None  # types, origins and messages of other kinds say nothing about rows

    def _relation(self, message: bytes) -> None:
        (identity,) = struct.unpack_from(">I", message, 1)
        schema, at = _text(message, 5)
        table, at = _text(message, at)
        (count,) = struct.unpack_from(">H", message, at + 1)  # after the replica identity
        at += 3
        columns = []
        for _ in range(count):
            is_key = bool(message[at] & 1)
            name, at = _text(message, at + 1)
            kind, _ = struct.unpack_from(">Ii", message, at)
            at += 8
            columns.append(ReplicatedColumn(name, kind, is_key))
        relation = self._relations[identity] = Relation(f"{schema or 'pg_catalog'}.{table}", columns)
        self._columns = {**self._columns, relation.name: count}  # anew: former transactions keep theirs

    def _change(self, kind: bytes, message: bytes) -> None:
        (identity,) = struct.unpack_from(">I", message, 1)
        relation = self._relations[identity]
        before = after = None
        for part, row in self._rows(relation, message, 5):
            if part == b"N":
                after = row
            else:  # of a key, only the columns of the key are sent
                keys = relation.columns if part == b"O" else [column for column in relation.columns if column.is_key]
                before = {column.name: row[column.name] for column in keys}
        if before is not None and after is not None:
            for name, value in after.items():
                if value is UNCHANGED and name in before:
                    after[name] = before[name]
        what = {b"I": ChangeKind.INSERT, b"U": ChangeKind.UPDATE, b"D": ChangeKind.DELETE}[kind]
        self._changes.append((what, relation.name, before, after))

    def _rows(self, relation: Relation, message: bytes, at: int) -> Iterator[tuple[bytes, dict[str, Any]]]:
        while at < len(message):
            part = message[at : at + 1]
            (count,) = struct.unpack_from(">H", message, at + 1)
            at += 3
            row: dict[str, Any] = {}
            for column in relation.columns[:count]:
                form = message[at : at + 1]
                at += 1
                if form == b"t":
                    (size,) = struct.unpack_from(">I", message, at)
                    try:
                        row[column.name] = self.load(column.type, message[at + 4 : at + 4 + size])
                    except Exception as error:
                        raise self._unreadable(relation, column, row, message[at + 4 : at + 4 + size], error) from error
                    at += 4 + size
                else:
                    row[column.name] = UNCHANGED if form == b"u" else None
            yield part, row

    def _unreadable(
        self, relation: Relation, column: ReplicatedColumn, row: dict[str, Any], value: bytes, error: Exception
    ) -> SourceNotReadable:
        key = {each.name: row.get(each.name) for each in relation.columns if each.is_key and each.name in row}
        return SourceNotReadable(
            f"a change of table {relation.name!r} (key {key or 'not known yet'}, transaction {self._xid}) has a value in column "
            f"{column.name!r} that cannot be read, {value[:80].decode(errors='replace')!r}: {error}. Use "
            "PostgresDatabase(..., unrepresentable=Unrepresentable.TEXT) or NONE, and start from the newest checkpoint."
        )


def _text(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(b"\0", at)
    return message[at:end].decode(), end + 1


class TransactionSnapshot(NamedTuple):
    """The transactions that a query saw (``pg_current_snapshot()``).

    >>> snapshot = TransactionSnapshot.of("10:20:12,15")
    >>> [snapshot.sees(xid) for xid in (9, 11, 12, 20, 25)]
    [True, True, False, False, False]

    Numbers of transactions in the log have 32 bits; the others are those of the same half of the circle:

    >>> snapshot = TransactionSnapshot.of("4294967290:4294967306:")
    >>> [snapshot.sees(xid) for xid in (4294967291, 5, 12)]
    [True, True, False]
    """

    least: int
    next: int
    running: frozenset[int]

    @staticmethod
    def of(text: str) -> TransactionSnapshot:
        """Read the server's text."""
        least, following, running = text.split(":")
        return TransactionSnapshot(int(least), int(following), frozenset(map(int, filter(None, running.split(",")))))

    def sees(self, xid: int) -> bool:
        """Return True if a transaction that is committed now was committed when the snapshot was taken."""
        distance = (xid - self.next) % _UNSIGNED
        full = self.next + (distance - _UNSIGNED if distance >= _UNSIGNED // 2 else distance)
        return full < self.least or (full < self.next and full not in self.running)


_POLL_MS, _REPORT_S, _ASK_S, _LEAVE_S = 100, 5.0, 0.3, 2.0
_IN_USE, _ADMINISTRATOR = "55006", "57P01"
_OPTIONS = "-c datestyle=ISO -c intervalstyle=postgres -c bytea_output=hex -c timezone=UTC -c extra_float_digits=1"


class ReplicationStream(LogStream):
    """Receives transactions from a position on. While it ``asks``, positions come soon, also if nothing happens."""

    def __init__(
        self, database: PostgresDatabase, slot: str, publication: str, since: int, name: str, wake: Callable[[], None],
        asks: bool = False,
    ) -> None:  # fmt: skip
        super().__init__("postgresql", wake)
        self._database, self._slot, self._publication, self._name = database, slot, publication, name
        self.place, self.asks = f"replication slot {slot!r}", asks
        self._received = since
        self._acknowledged = self._reported = 0
        self.server_end = since
        self._began = False
        self._now = SystemClock().monotonic

    @property
    def progress(self) -> int:
        """The end of the last transaction."""
        return self._received

    @property
    def broken(self) -> tuple[type[Exception], ...]:
        """The errors of a connection."""
        return (psycopg().OperationalError, ConnectionError)

    def problem(self, error: Exception) -> object:
        """Return the meaning of an error."""
        return self._database.problem(error)

    def acknowledge(self, lsn: int) -> None:
        """Let the server forget the log before a position, soon."""
        self._acknowledged = max(self._acknowledged, lsn)

    # ---- the thread

    def receive_all(self) -> None:
        """Read the slot by a connection of its own."""
        pq = psycopg("psycopg.pq")
        options = f"{self._database.parts().get('options', '')} {_OPTIONS}".strip()
        conninfo = self._database.with_defaults(
            replication="database", application_name=self._name[:63], options=options, client_encoding="utf8"
        )
        connection = pq.PGconn.connect(conninfo.encode())
        try:
            if connection.status != pq.ConnStatus.OK:
                raise psycopg().OperationalError(connection.get_error_message().strip())
            self._begin(connection, pq)
            self._receive(connection, ChangeDecoder(text_loader(self._database.unrepresentable)))
        finally:
            connection.finish()

    def _begin(self, connection: Any, pq: Any) -> None:
        publication = self._publication.replace('"', '""').replace("'", "''")
        result = connection.exec_(
            f'START_REPLICATION SLOT "{self._slot}" LOGICAL {lsn_text(self._received)} '
            f"(proto_version '1', publication_names '\"{publication}\"')".encode()
        )
        if result.status == pq.ExecStatus.COPY_BOTH:
            self._began = True
            return
        message = result.get_error_message().strip()
        state = _state_of(result)
        if state == _IN_USE:
            if not self._began:  # who was reading and lost the connection must not end a later reader
                self._end_former()
            raise ConnectionError(message)
        raise SourceNotReadable(
            f"replication slot {self._slot!r} of {self._database!r} cannot be read: {message} ({state}); correct slot and "
            "publication, or grant REPLICATION to this user."
        )

    def _end_former(self) -> None:
        """End the connection of a reader of an earlier attempt, whose process may live on."""
        connection = self._database.connect("funken", autocommit=True)
        try:
            connection.execute(
                "SELECT pg_terminate_backend(s.active_pid) FROM pg_replication_slots s JOIN pg_stat_activity a "
                "ON a.pid = s.active_pid WHERE s.slot_name = %s AND a.application_name = %s",
                (self._slot, self._name[:63]),
            )
        finally:
            connection.close()

    def _receive(self, connection: Any, decoder: ChangeDecoder) -> None:
        readable = select.poll()
        readable.register(connection.socket, select.POLLIN)
        report_at = self._now() + self._pause
        while not self.stopped:
            now = self._now()
            if now >= report_at or self._acknowledged > self._reported:
                self._report(connection)
                report_at = now + self._pause
            if not self.has_room():
                continue
            size, data = connection.get_copy_data(1)
            if size > 0:
                if self._message(bytes(data), decoder):
                    self._report(connection)
            elif size == 0:
                if readable.poll(_POLL_MS):
                    connection.consume_input()
            else:
                raise self._ended(connection)
        self._leave(connection, readable)

    def _leave(self, connection: Any, readable: select.poll) -> None:
        """Report for the last time, and wait for the server to end the stream, within a bound.

        What it still sends has to be read: a connection that is closed with unread input is reset, and the report may be lost.
        """
        with suppress(*self.broken):
            self._report(connection)
            connection.put_copy_end()
            connection.flush()
            until = self._now() + _LEAVE_S
            while (size := connection.get_copy_data(1)[0]) >= 0 and self._now() < until:
                if size == 0 and readable.poll(_POLL_MS):
                    connection.consume_input()

    @property
    def _pause(self) -> float:
        return _ASK_S if self.asks else _REPORT_S

    def _ended(self, connection: Any) -> Exception:
        """Return the cause of the server's end of the stream; a reader ended by another one must not come back."""
        result = connection.get_result()
        state = _state_of(result) if result is not None else ""
        message = connection.get_error_message().strip() or "the server has ended the replication"
        if state == _ADMINISTRATOR:
            return SourceNotReadable(
                f"the reader of replication slot {self._slot!r} was ended by a later attempt of the job, or by an administrator."
            )
        return ConnectionError(message)

    def _message(self, data: bytes, decoder: ChangeDecoder) -> bool:
        """Take a message of the copy stream; returns whether the server wants a report now."""
        self.received_bytes += len(data)
        if data[:1] == b"k":
            end, _, wanted = struct.unpack_from(">QqB", data, 1)
            self.server_end = max(self.server_end, end)
            if end > self._received:  # everything before it was sent
                self._received = end
                self.add(end)
            return bool(wanted)
        _, end, _ = struct.unpack_from(">QQq", data, 1)
        self.server_end = max(self.server_end, end)
        commit = decoder.decode(data[25:])
        if commit is not None and commit.end > self._received:
            self._received = commit.end
            self.add(commit)
        return False

    def _report(self, connection: Any) -> None:
        acknowledged = self._acknowledged
        positions = self._received, acknowledged, acknowledged
        connection.put_copy_data(b"r" + struct.pack(">QQQqB", *positions, 0, self.asks))
        connection.flush()
        self._reported = acknowledged


def _state_of(result: Any) -> str:
    return (result.error_field(psycopg("psycopg.pq").DiagnosticField.SQLSTATE) or b"").decode()
