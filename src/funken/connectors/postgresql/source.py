"""Change data capture: the rows of tables, then every change of them, once and in the order of the commits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from funken.connectors.base import (
    Batch,
    Boundedness,
    ConnectorContext,
    NeedSplits,
    Source,
    SourceReader,
    Wait,
)
from funken.connectors.postgresql.database import PostgresDatabase
from funken.connectors.postgresql.replication import (
    CommittedTransaction,
    ReplicationStream,
    TransactionSnapshot,
    lsn_of,
    lsn_text,
)
from funken.connectors.sql.capture import PageRows, SnapshotReader
from funken.connectors.sql.changes import (
    ChangeKind,
    Note,
    RowKey,
    RowsInDoubt,
    TableChange,
    unseen_part,
    unseen_truncation,
)
from funken.connectors.sql.database import SqlDatabase, SqlProblem, SqlSession, patiently
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SourceNotReadable

# ---- Which changes the snapshot of a table has already: pure.
#
# The snapshot is read page by page in the order of the primary key, each page in a transaction of its own, so nothing is held
# open and reading resumes after a failure. For each page it is noted up to which key it goes and which transactions it saw. The
# log is read from before the first page; a change whose key is in a page that saw its transaction is dropped. Beyond the
# *fence*, a position in the log after the last page, no transaction was seen by any.


class SnapshotPage(NamedTuple):
    """Rows of a table after those of the page before it, up to a key (``None``: all others), as a snapshot saw them."""

    table: str
    upto: tuple[Any, ...] | None
    snapshot: str


class SeenChanges:
    """Drops changes that pages have already.

    >>> seen = SeenChanges([SnapshotPage("t", (5,), "10:10:"), SnapshotPage("t", None, "12:12:")], {"t": ("id",)})
    >>> insert = TableChange(ChangeKind.INSERT, "t", None, {"id": 3})
    >>> seen.unseen(insert, xid=11) is insert, seen.unseen(insert._replace(after={"id": 7}), xid=11)
    (True, None)

    An update that moves a row into a page that has it leaves the deletion of the row at its old place:

    >>> seen.unseen(TableChange(ChangeKind.UPDATE, "t", {"id": 3}, {"id": 7}), xid=11)
    TableChange(kind=<ChangeKind.DELETE: 'd'>, table='t', before={'id': 3}, after=None, lsn=0, timestamp=0)

    After a restart with pages that had seen ``doubt`` (``""``: nothing), a row that was deleted before its page was read again is
    noted; ``columns`` says how many a whole row has:

    >>> rows = RowsInDoubt()
    >>> again = SeenChanges([SnapshotPage("t", None, "12:12:")], {"t": ("id",)}, "10:10:", rows.note)
    >>> again.unseen(TableChange(ChangeKind.DELETE, "t", {"id": 7}, None), xid=11, columns=2)
    >>> [change.kind.name for change in rows.take(10)]
    ['DELETE']
    """

    def __init__(
        self,
        pages: Sequence[SnapshotPage],
        keys: Mapping[str, tuple[str, ...]],
        doubt: str | None = None,
        note: Note | None = None,
    ) -> None:
        self._keys, self._note = keys, note
        self._in_doubt = doubt is not None
        self._undoubted = TransactionSnapshot.of(doubt) if doubt else None
        self._pages: dict[str, list[tuple[tuple[Any, ...] | None, TransactionSnapshot]]] = {}
        for page in pages:
            self._pages.setdefault(page.table, []).append((page.upto, TransactionSnapshot.of(page.snapshot)))

    def unseen(self, change: TableChange, xid: int, columns: int = 0) -> TableChange | None:
        """Return the part of a change that no page has: itself, a part of it, or nothing."""
        pages = self._pages.get(change.table)
        if pages is None:
            return change
        in_doubt = self._in_doubt and (self._undoubted is None or not self._undoubted.sees(xid))
        if change.kind is ChangeKind.TRUNCATE:
            return unseen_truncation(change, {snapshot.sees(xid) for _, snapshot in pages}, in_doubt)
        keys = self._keys[change.table]
        before, after = (
            None if row is None else tuple([row[column] for column in keys]) for row in (change.before, change.after)
        )
        was_seen = before is not None and self._sees(pages, before, xid)
        is_seen = after is not None and (was_seen if after == before else self._sees(pages, after, xid))
        if in_doubt and self._note is not None:
            was, is_ = (None if key is None else tuple(map(_ranked, key)) for key in (before, after))
            is_whole = change.before is not None and len(change.before) == columns
            RowsInDoubt.look_at(self._note, change, was, is_, was_seen, is_whole)
        return unseen_part(change, was_seen, is_seen)

    @staticmethod
    def _sees(pages: list[tuple[tuple[Any, ...] | None, TransactionSnapshot]], key: tuple[Any, ...], xid: int) -> bool:
        return next(snapshot.sees(xid) for upto, snapshot in pages if upto is None or _is_up_to(key, upto))


def _is_up_to(key: tuple[Any, ...], upto: tuple[Any, ...]) -> bool:
    """Compare as the server does: NaN is greater than all numbers, and dates that are texts are BC or after all others."""
    try:
        return key <= upto
    except (TypeError, ArithmeticError):
        return [_ranked(value) for value in key] <= [_ranked(value) for value in upto]


def _ranked(value: Any) -> tuple[int, Any]:
    if isinstance(value, str):
        return (-1 if value.endswith("BC") else 1), value
    return (1, 0) if value != value else (0, value)  # noqa: PLR0124 - NaN


# ---- The reader of change data capture: pages of tables, then transactions of the log; its split is the whole
# position.
#
# A position within a transaction is the end of the one before and how many of its changes were emitted: the server
# sends it whole again. Acknowledged is what a complete checkpoint holds, never more.


@dataclass(frozen=True)
class CdcSplit:
    """The position of the reader.

    ``tables`` are those whose snapshot is still to be read, the first after the key ``after``; ``pages`` those that were read.
    ``fence`` is set when all are. ``lsn`` is the end of the last transaction, ``emitted`` counts changes of the next one.
    ``since`` is a snapshot (``""``: one that sees nothing) of before the first page, ``doubt`` one of before the first page of
    which an attempt that failed may have emitted rows in vain, ``lost`` such rows.
    """

    id: str
    tables: tuple[str, ...]
    keys: tuple[tuple[str, tuple[str, ...]], ...]
    after: tuple[Any, ...] | None = None
    pages: tuple[SnapshotPage, ...] = ()
    fence: int = 0
    lsn: int = 0
    emitted: int = 0
    since: str = ""
    doubt: str | None = None
    lost: tuple[tuple[RowKey, tuple[TableChange, ...]], ...] = ()


class CdcReader(SnapshotReader):
    """Emits ``TableChange``s."""

    page_type, metric_group = SnapshotPage, "PostgresCdcReader"
    _database: PostgresDatabase

    def __init__(
        self, database: PostgresDatabase, slot: str, publication: str, page_size: int, bounded: bool, context: ConnectorContext
    ) -> None:  # fmt: skip
        super().__init__(database, bounded, context)
        self._slot, self._publication, self._size = slot, publication, page_size
        #: where a bounded reader has ended
        self._end_lsn = 0
        self._seen: SeenChanges | None = None
        self._commit: CommittedTransaction | None = None
        self._of_checkpoints: dict[int, int] = {}
        self._metrics.gauge("lagBytes", self._lag)

    def _first_mark(self, split: CdcSplit) -> str:
        return split.since

    def _read_page(self, split: CdcSplit) -> PageRows:
        table = split.tables[0]
        quote = self._database.quote
        columns = [quote(column) for column in dict(split.keys)[table]]

        def read(cursor: Any) -> PageRows:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SELECT txid_current_snapshot()::text, (extract(epoch FROM now()) * 1000)::bigint")
            snapshot, now = cursor.fetchone()
            cursor.execute(f"SELECT * FROM {quote(table)} WHERE false", ())
            types = {described.name: described.type_code for described in cursor.description}
            texts = {name for name, kind in types.items() if kind in _TEXT}
            keys = dict(split.keys)[table]
            ordered = [
                f'{quoted} COLLATE "C"' if name in texts else quoted for name, quoted in zip(keys, columns, strict=True)
            ]
            where, values = "", []
            if split.after is not None:
                where = f" WHERE ({', '.join(ordered)}) > ({', '.join(['%s'] * len(keys))})"
                values = list(split.after)
            cursor.execute(
                f"SELECT * FROM {quote(table)}{where} ORDER BY {', '.join(ordered)} LIMIT {self._size}", values
            )
            after = "" if split.after is None else f", rows after {dict(zip(keys, split.after, strict=True))}"
            rows = self._database.fetch(
                cursor, f"operator {self.context.operator!r} cannot read the snapshot of table {table!r}{after}"
            )
            return PageRows(table, snapshot, now, list(types), rows, len(rows) < self._size)

        return self._run(read)

    def _read_fence(self, split: CdcSplit) -> int:
        def read(cursor: Any) -> int:
            cursor.execute("SELECT pg_current_wal_insert_lsn()::text")
            (fence,) = cursor.fetchone()
            # a record behind the fence, so that the server tells that there is nothing more before it
            if self._asks(split):
                cursor.execute("SELECT pg_logical_emit_message(false, 'funken', '')")
            return lsn_of(fence)

        return self._run(read)

    def _asks(self, split: CdcSplit) -> bool:
        """Return True if the reader must act as soon as the fence is reached, also while nothing happens."""
        return self._bounded or split.doubt is not None

    # ---- the changes

    def _poll_changes(self, split: CdcSplit, limit: int) -> Batch | Wait | NeedSplits:
        if self._stream is None:
            self._begin(split)
        while True:
            reached = self._split.lsn if self._commit is None and self._split is not None else 0
            if self._commit.end > split.fence if self._commit is not None else reached >= split.fence:
                if self._doubts:
                    return self._batch(self._doubts.take(limit), split)
                if self._bounded:
                    return self._end(split)
                self._stream.asks = False
            if self._commit is not None:
                batch = self._emit_changes(self._commit, limit)
                if batch is not None:
                    return batch
                continue
            item = self._next_item()
            if item is None:
                return Wait(None)
            if isinstance(item, int):
                if not self._split.emitted:  # else the transaction that is emitted in part comes after it
                    self._split = replace(self._split, lsn=max(item, self._split.lsn))
            elif item.end > self._split.lsn:
                self._commit = item

    def _end(self, split: CdcSplit) -> NeedSplits:
        self._end_lsn, self._commit = split.fence, None
        return super()._end(split)

    def _begin(self, split: CdcSplit) -> None:
        self._check_slot(split)
        if split.pages:
            self._seen = SeenChanges(split.pages, dict(split.keys), split.doubt, self._doubts.note)
        self._stream = ReplicationStream(
            self._database, self._slot, self._publication, split.lsn, f"funken-cdc-{self._slot}", self.context.wake,
            asks=self._asks(split),
        )  # fmt: skip
        self._stream.start()

    def _check_slot(self, split: CdcSplit) -> None:
        """Compare the job's position with the slot's: acknowledged changes are not sent again."""

        def read(cursor: Any) -> Any:
            cursor.execute(
                "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s", (self._slot,)
            )
            return cursor.fetchone()

        found = self._run(read)
        if found is None or lsn_of(found[0]) > split.lsn:
            where = "gone" if found is None else f"at {found[0]}"
            raise self.failure(
                f"the checkpoint is at {lsn_text(split.lsn)} of the log, but replication slot {self._slot!r} is {where}, so "
                "changes in between are lost; start from the newest checkpoint, or without one."
            )

    def _emit_changes(self, commit: CommittedTransaction, limit: int) -> Batch | None:
        """Emit changes of a transaction that no page has; ``None`` if there are none among those looked at."""
        split = self._split
        if split.fence and commit.end > split.fence and split.pages:
            split, self._seen = replace(split, pages=()), None
        start = split.emitted
        changes = commit.changes[start : start + max(1, limit)]
        end = start + len(changes)
        if end >= len(commit.changes):
            self._split, self._commit = replace(split, lsn=commit.end, emitted=0), None
        else:
            self._split = replace(split, emitted=end)
        if self._seen is not None:
            seen, xid, columns = self._seen, commit.xid, commit.columns
            parts = (seen.unseen(change, xid, columns.get(change.table, 0)) for change in changes)
            changes = [part for part in parts if part is not None]
        return self._batch(changes, split) if changes else None

    def _lag(self) -> int:
        """Return the number of unread bytes of the log that the server has sent or skipped."""
        if self._stream is None or self._split is None:
            return -1
        return max(0, int(self._stream.server_end - self._split.lsn))

    # ---- checkpoints

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the position."""
        self._of_checkpoints[checkpoint_id] = self._end_lsn if self._split is None else self._split.lsn
        return super().snapshot_state(checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Let the server forget the log before the checkpoint."""
        lsn = self._of_checkpoints.get(checkpoint_id, 0)
        self._of_checkpoints = {number: at for number, at in self._of_checkpoints.items() if number > checkpoint_id}
        if lsn and self._stream is not None:
            self._stream.acknowledge(lsn)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Forget the position of the checkpoint."""
        self._of_checkpoints.pop(checkpoint_id, None)


_TEXT = (25, 1043)
"""The types text and varchar."""


_ORDERED = (
    "int2",
    "int4",
    "int8",
    "numeric",
    "text",
    "varchar",
    "uuid",
    "date",
    "timestamp",
    "timestamptz",
    "bytea",
    "bool",
)
"""Types whose order is the same in PostgreSQL (with collation "C") and in Python."""

_TABLE = """
SELECT n.nspname || '.' || c.relname, c.relreplident, c.relkind, array_agg(a.attname::text ORDER BY k.position),
       array_agg(t.typname::text ORDER BY k.position), has_table_privilege(c.oid, 'SELECT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
LEFT JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(number, position) ON true
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number
LEFT JOIN pg_type t ON t.oid = a.atttypid
WHERE c.oid = to_regclass(%s) GROUP BY c.oid, n.nspname, c.relname, c.relreplident, c.relkind"""


@dataclass(frozen=True)
class PostgresCdcSource(Source[TableChange]):
    """The rows of tables as they are, and then their changes, as ``TableChange``s with the time of the commit.

    ``slot`` is a replication slot and ``publication`` a publication (by default of the same name); they are made if they are
    not there. A slot belongs to one job, and **keeps the server's log until it is read or dropped**: call ``drop()`` when the
    job is gone for good. Without ``snapshot`` only changes after the slot was made are read. One subtask reads. With
    ``boundedness=Boundedness.BOUNDED`` the source ends where the log was when the snapshot had been read, or, without one, at the
    start: the tables as they were at that moment, in changes.

    Raises ``SourceNotReadable`` at the start if the server's ``wal_level`` is not ``logical``, a table is not there or has no
    primary key, or the user may not read it or not replicate.

    >>> shop = PostgresDatabase("host=db.example dbname=shop user=ada")
    >>> PostgresCdcSource(shop, ["public.orders"], slot="orders").publication
    'orders'
    >>> PostgresCdcSource(shop, ["public.orders"], slot="My Orders")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: 'My Orders' is no name of a replication slot; use lower-case letters, digits and
    underscores.
    """

    database: PostgresDatabase
    tables: Sequence[str]
    slot: str
    publication: str = ""
    snapshot: bool = True
    page_size: int = 10_000
    boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    max_parallelism = 1

    def __post_init__(self) -> None:
        """Check the names."""
        if not re.fullmatch("[a-z0-9_]{1,63}", self.slot):
            raise InvalidConfiguration(
                f"{self.slot!r} is no name of a replication slot; use lower-case letters, digits and underscores."
            )
        if isinstance(self.tables, str) or not self.tables:
            raise InvalidConfiguration(f"a PostgresCdcSource needs a list of tables, but got {self.tables!r}.")
        object.__setattr__(self, "tables", tuple(self.tables))
        object.__setattr__(self, "publication", self.publication or self.slot)

    def list_splits(self) -> Sequence[CdcSplit]:
        """Check server and tables; make publication and slot: in this order, for a slot does not know later publications."""
        session = SqlSession(self.database, "funken")
        try:
            keys = self._run(session, self._look)
            self._run(session, lambda cursor: self._publish(cursor, [table for table, _ in keys]))
            lsn = self._run(session, self._make_slot)
            since = self._run(session, _snapshot)
        finally:
            session.close()
        tables = tuple(table for table, _ in keys) if self.snapshot else ()
        return [CdcSplit("changes", tables, keys, lsn=lsn, since=since)]

    def _run(self, session: SqlSession, work: Any) -> Any:
        return patiently(self.database, lambda: session.transaction(work), self._not_readable)

    def _look(self, cursor: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
        database = self.database
        cursor.execute("SELECT current_setting('wal_level')")
        (level,) = cursor.fetchone()
        if level != "logical":
            raise SourceNotReadable(
                f"{database!r} has wal_level = {level}; its log has no changes of rows: set it to logical in "
                "postgresql.conf and "
                "restart the server."
            )
        return tuple(self._key_of(cursor, table) for table in self.tables)

    def _key_of(self, cursor: Any, table: str) -> tuple[str, tuple[str, ...]]:
        cursor.execute(_TABLE, (SqlDatabase.quote(self.database, table),))
        found = cursor.fetchone()
        if found is None:
            raise SourceNotReadable(
                f"{self.database!r} has no table {table!r}; create it, or correct its name (with its schema)."
            )
        name, identity, kind, columns, types, readable = found
        if not readable:
            raise SourceNotReadable(f"the user of {self.database!r} may not read table {name!r}; grant SELECT on it.")
        if kind not in ("r", b"r"):
            raise SourceNotReadable(
                f"{name!r} is no ordinary table, whose changes could be captured; name its partitions."
            )
        if not self.snapshot:
            return name, tuple(filter(None, columns))
        wrong = [f"{column} ({kind})" for column, kind in zip(columns, types, strict=True) if kind not in _ORDERED]
        if wrong:
            what = (
                "no primary key"
                if columns == [None]
                else f"a primary key of types that cannot be compared here: {wrong}"
            )
            raise SourceNotReadable(f"table {name!r} has {what}, so its snapshot cannot be read; use snapshot=False.")
        if identity not in ("d", "f", b"d", b"f"):
            raise SourceNotReadable(
                f"changes of table {name!r} do not name its primary key; let them: ALTER TABLE {name} REPLICA IDENTITY DEFAULT."
            )
        return name, tuple(columns)

    def _publish(self, cursor: Any, tables: list[str]) -> None:
        """Make the publication, or check that it has the tables."""
        cursor.execute("SELECT count(*) FROM pg_publication WHERE pubname = %s", (self.publication,))
        (there,) = cursor.fetchone()
        cursor.execute("SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s", (self.slot,))
        (slot,) = cursor.fetchone()
        if not there:
            if slot:
                raise SourceNotReadable(
                    f"replication slot {self.slot!r} is there, but not publication {self.publication!r}, and "
                    "a slot does not know "
                    "later ones; drop the slot (drop()), or correct the publication."
                )
            names = ", ".join(map(self.database.quote, tables))
            cursor.execute(f"CREATE PUBLICATION {self.database.quote(self.publication)} FOR TABLE {names}", ())
            return
        cursor.execute(
            "SELECT schemaname || '.' || tablename FROM pg_publication_tables WHERE pubname = %s", (self.publication,)
        )
        missing = set(tables) - {name for (name,) in cursor.fetchall()}
        if missing:
            raise SourceNotReadable(
                f"publication {self.publication!r} lacks {sorted(missing)}; add them (ALTER PUBLICATION ... ADD TABLE), or use "
                "another publication and slot."
            )

    def _make_slot(self, cursor: Any) -> int:
        """Make the slot, if it is not there; returns its position."""
        cursor.execute(
            "SELECT plugin, database = current_database() FROM pg_replication_slots WHERE slot_name = %s",
            (self.slot,),
        )
        found = cursor.fetchone()
        if found is None:
            cursor.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self.slot,))
        elif found != ("pgoutput", True):
            raise SourceNotReadable(
                f"replication slot {self.slot!r} is not of plugin 'pgoutput' in this database; use another name."
            )
        cursor.execute("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s", (self.slot,))
        (position,) = cursor.fetchone()
        return lsn_of(position)

    def reader(self, context: ConnectorContext) -> SourceReader:
        """Make the reader."""
        bounded = self.boundedness is Boundedness.BOUNDED
        return CdcReader(self.database, self.slot, self.publication, self.page_size, bounded, context)

    def drop(self) -> None:
        """Drop slot and publication, so that the server need not keep its log for them; fails while the job runs."""

        def drop(cursor: Any) -> None:
            cursor.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s",
                (self.slot,),
            )
            cursor.execute(f"DROP PUBLICATION IF EXISTS {self.database.quote(self.publication)}", ())

        SqlSession.once(self.database, "funken drop", drop, self._not_readable)

    def _not_readable(self, problem: SqlProblem) -> SourceNotReadable:
        return SourceNotReadable(f"changes cannot be captured by slot {self.slot!r}: {problem}")


def _snapshot(cursor: Any) -> str:
    cursor.execute("SELECT txid_current_snapshot()::text")
    (snapshot,) = cursor.fetchone()
    return str(snapshot)
