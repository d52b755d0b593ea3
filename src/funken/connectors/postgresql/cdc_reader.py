"""The reader of change data capture: pages of tables, then transactions of the log; its split is the whole position.

A position within a transaction is the end of the one before and how many of its changes were emitted: the server sends it whole
again. Acknowledged is what a complete checkpoint holds, never more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from funken.connectors.base import NEED_SPLITS, Batch, NeedSplits, SourceReader, Wait
from funken.connectors.context import ConnectorContext
from funken.connectors.postgresql.changes import ChangeKind, CommittedTransaction, TableChange, lsn_of, lsn_text
from funken.connectors.postgresql.database import PostgresDatabase
from funken.connectors.postgresql.replication import ReplicationStream
from funken.connectors.postgresql.snapshot import SeenChanges, SnapshotPage, extended
from funken.connectors.rows import bytes_of
from funken.connectors.sql.background import Background
from funken.connectors.sql.database import SqlProblem, SqlSession, patiently
from funken.dataclass import dataclass
from funken.errors import SourceNotReadable

T = TypeVar("T")


@dataclass(frozen=True)
class CdcSplit:
    """Where the reader is.

    ``tables`` are those whose snapshot is still to be read, the first after the key ``after``; ``pages`` those that were read.
    ``fence`` is set when all are. ``lsn`` is the end of the last transaction, ``emitted`` counts changes of the next one.
    """

    id: str
    tables: tuple[str, ...]
    keys: tuple[tuple[str, tuple[str, ...]], ...]
    after: tuple[Any, ...] | None = None
    pages: tuple[SnapshotPage, ...] = ()
    fence: int = 0
    lsn: int = 0
    emitted: int = 0


@dataclass
class _Rows:
    """A page of a table, and how much of it was emitted."""

    table: str
    snapshot: str
    now: int
    names: list[str]
    rows: list[tuple[Any, ...]]
    is_last: bool
    given: int = 0


class CdcReader(SourceReader):
    """Emits ``TableChange``s."""

    def __init__(
        self, database: PostgresDatabase, slot: str, publication: str, page_size: int, bounded: bool, context: ConnectorContext
    ) -> None:  # fmt: skip
        super().__init__(context)
        self._database, self._slot, self._publication, self._size = database, slot, publication, page_size
        self._bounded = bounded
        self._ended: list[str] = []
        #: where a bounded reader has ended
        self._end_lsn = 0
        #: bytes of the stream that the metric has
        self._counted = 0
        self._session = SqlSession(database, f"funken {context.operator}")
        self._pages: Background[Any] = Background(context.wake)
        self._split: CdcSplit | None = None
        self._page: _Rows | None = None
        self._stream: ReplicationStream | None = None
        self._seen: SeenChanges | None = None
        self._commit: CommittedTransaction | None = None
        self._of_checkpoints: dict[int, int] = {}
        metrics = context.metrics.add_group("PostgresCdcReader")
        self._rows_read = metrics.counter("snapshotRows")
        self._changes_read = metrics.counter("changes")
        metrics.gauge("lagBytes", self._lag)

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Begin, or resume from a checkpoint."""
        [self._split] = splits

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return rows of the snapshot, or changes."""
        if self._split is None:
            return NEED_SPLITS
        if not self._split.fence:
            return self._poll_snapshot(self._split, limit)
        return self._poll_changes(self._split, limit)

    # ---- the snapshot

    def _poll_snapshot(self, split: CdcSplit, limit: int) -> Batch | Wait | NeedSplits:
        if self._page is not None:
            return self._emit_rows(split, self._page, limit)
        if not self._pages.busy:
            self._pages.begin(lambda: self._read_page(split) if split.tables else self._read_fence(split))
        found = self._pages.take()
        if found is None:
            return Wait(None)
        if isinstance(found, int):
            self._split = replace(split, fence=found)
            return self._poll_changes(self._split, limit)
        self._page = found
        self.bytes_in.inc(bytes_of(found.rows))
        return self._emit_rows(split, found, limit)

    def _emit_rows(self, split: CdcSplit, page: _Rows, limit: int) -> Batch | Wait | NeedSplits:
        rows = page.rows[page.given : page.given + max(1, limit)]
        page.given += len(rows)
        key = split.after
        if rows:
            columns = dict(split.keys)[page.table]
            positions = [page.names.index(column) for column in columns]
            key = tuple([rows[-1][position] for position in positions])
        ended = page.given == len(page.rows)
        if ended:
            self._page = None
        if ended and page.is_last:
            pages = extended(split.pages, SnapshotPage(page.table, None, page.snapshot))
            self._split = replace(split, tables=split.tables[1:], after=None, pages=pages)
        else:
            self._split = replace(
                split, after=key, pages=extended(split.pages, SnapshotPage(page.table, key, page.snapshot))
            )
        if not rows:
            return self._poll_snapshot(self._split, limit)
        self._rows_read.inc(len(rows))
        records = [
            TableChange(ChangeKind.READ, page.table, None, dict(zip(page.names, row, strict=True))) for row in rows
        ]
        return Batch(records, [page.now] * len(records), split.id)

    def _read_page(self, split: CdcSplit) -> _Rows:
        table = split.tables[0]
        quote = self._database.quote
        columns = [quote(column) for column in dict(split.keys)[table]]

        def read(cursor: Any) -> _Rows:
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
            return _Rows(table, snapshot, now, list(types), rows, len(rows) < self._size)

        return self._run(read)

    def _read_fence(self, split: CdcSplit) -> int:
        def read(cursor: Any) -> int:
            cursor.execute("SELECT pg_current_wal_insert_lsn()::text")
            (fence,) = cursor.fetchone()
            if (
                self._bounded
            ):  # a record behind the fence, so that the server tells that there is nothing more before it
                cursor.execute("SELECT pg_logical_emit_message(false, 'funken', '')")
            return lsn_of(fence)

        return self._run(read)

    def _run(self, work: Callable[[Any], T]) -> T:
        return patiently(self._database, lambda: self._session.transaction(work), self._failed)

    def _failed(self, problem: SqlProblem) -> SourceNotReadable:
        return SourceNotReadable(
            f"operator {self.context.operator!r} cannot read: {problem}", self.context.operator, self.context.subtask
        )

    # ---- the changes

    def _poll_changes(self, split: CdcSplit, limit: int) -> Batch | Wait | NeedSplits:
        stream = self._stream or self._begin(split)
        while True:
            reached = self._split.lsn if self._commit is None and self._split is not None else 0
            if self._bounded and (
                self._commit.end > split.fence if self._commit is not None else reached >= split.fence
            ):
                return self._end(split)
            if self._commit is not None:
                batch = self._emit_changes(self._commit, limit)
                if batch is not None:
                    return batch
                continue
            item = stream.take()
            self._count_bytes(stream)
            if item is None:
                return Wait(None)
            assert self._split is not None
            if isinstance(item, int):
                if not self._split.emitted:  # else the transaction that is emitted in part comes after it
                    self._split = replace(self._split, lsn=max(item, self._split.lsn))
            elif item.end > self._split.lsn:
                self._commit = item

    def _count_bytes(self, stream: ReplicationStream) -> None:
        received = stream.received_bytes
        self.bytes_in.inc(received - self._counted)
        self._counted = received

    def _end(self, split: CdcSplit) -> NeedSplits:
        """A bounded reader has all changes up to the fence."""
        self._ended.append(split.id)
        self._end_lsn, self._split, self._commit = split.fence, None, None
        return NEED_SPLITS

    def split_finished(self) -> list[str]:
        """Return the split, once, when a bounded reader has read it."""
        ended, self._ended = self._ended, []
        return ended

    def _begin(self, split: CdcSplit) -> ReplicationStream:
        self._check_slot(split)
        if split.pages:
            self._seen = SeenChanges(split.pages, dict(split.keys))
        self._stream = ReplicationStream(
            self._database, self._slot, self._publication, split.lsn, f"funken-cdc-{self._slot}", self.context.wake,
            asks=self._bounded,
        )  # fmt: skip
        self._stream.start()
        return self._stream

    def _check_slot(self, split: CdcSplit) -> None:
        """Compare where the job was with where the slot is: what was acknowledged is not sent again."""

        def read(cursor: Any) -> Any:
            cursor.execute(
                "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s", (self._slot,)
            )
            return cursor.fetchone()

        found = self._run(read)
        if found is None or lsn_of(found[0]) > split.lsn:
            where = "gone" if found is None else f"at {found[0]}"
            raise SourceNotReadable(
                f"operator {self.context.operator!r}: the checkpoint is at {lsn_text(split.lsn)} of the log, but replication "
                f"slot {self._slot!r} is {where}, so changes in between are lost; start from the newest checkpoint, or "
                "without one.",
                self.context.operator,
                self.context.subtask,
            )

    def _emit_changes(self, commit: CommittedTransaction, limit: int) -> Batch | None:
        """Emit changes of a transaction that no page has; ``None`` if there are none among those looked at."""
        split = self._split
        assert split is not None
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
            seen, xid = self._seen, commit.xid
            changes = [left for change in changes if (left := seen.unseen(change, xid)) is not None]
        if not changes:
            return None
        self._changes_read.inc(len(changes))
        return Batch(list(changes), [commit.timestamp] * len(changes), split.id)

    def _lag(self) -> int:
        """Return how many bytes of the log the server has sent or skipped that were not read."""
        if self._stream is None or self._split is None:
            return -1
        return max(0, self._stream.server_end - self._split.lsn)

    # ---- checkpoints

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the position."""
        self._of_checkpoints[checkpoint_id] = self._end_lsn if self._split is None else self._split.lsn
        return [] if self._split is None else [self._split]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Let the server forget what is before the checkpoint."""
        lsn = self._of_checkpoints.get(checkpoint_id, 0)
        self._of_checkpoints = {number: at for number, at in self._of_checkpoints.items() if number > checkpoint_id}
        if lsn and self._stream is not None:
            self._stream.acknowledge(lsn)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Forget the position of the checkpoint."""
        self._of_checkpoints.pop(checkpoint_id, None)

    def close(self) -> None:
        """Close the connections."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.stop()
        self._pages.close(self._session.close)


_TEXT = (25, 1043)
"""The types text and varchar."""

__all__ = ["CdcReader", "CdcSplit"]
