"""The reading of changes from any database: pages of tables, then the log, which a thread receives.

``LogStream`` is the thread, ``SnapshotReader`` the reader. A connector defines the queries, the protocol of the log, and which
changes a page has already.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from funken.connectors.base import NEED_SPLITS, Batch, ConnectorContext, NeedSplits, SourceReader, Wait
from funken.connectors.reading import Feed
from funken.connectors.schemas import size_of_rows
from funken.connectors.sql.changes import ChangeKind, RowsInDoubt, TableChange
from funken.connectors.sql.database import Background, SqlDatabase, SqlProblem, SqlSession, patiently
from funken.dataclass import dataclass
from funken.errors import SourceNotReadable

T = TypeVar("T")

logger = logging.getLogger(__name__)

QUEUED_CHANGES = 50_000
"""Nothing more is received while so many changes are queued."""
TRIES = 8
_PAUSE_S = 0.1


class LogStream(Feed[Any]):
    """Receives the log from a position on; define ``receive_all`` and what is below it.

    ``take`` returns changes (an item with ``changes``), or a position up to which there are no more, or ``None`` if nothing is
    there.
    """

    place = ""
    """The name of the log, for errors."""
    asks = True
    """True if the reader is to be woken for positions as well."""
    look_s = 0.1

    def __init__(self, name: str, wake: Callable[[], None]) -> None:
        super().__init__(f"{name}-changes", wake, QUEUED_CHANGES)
        self.received_bytes = 0

    def receive_all(self) -> None:
        """Connect, and add items until the stream is stopped."""
        raise NotImplementedError

    @property
    def progress(self) -> Any:
        """The position up to which all was received."""
        raise NotImplementedError

    @property
    def broken(self) -> tuple[type[Exception], ...]:
        """The errors after which a new connection may help."""
        raise NotImplementedError

    def problem(self, error: Exception) -> object:
        """Return the meaning of one of these errors; raise ``SourceNotReadable`` where a new connection does not help."""
        raise NotImplementedError

    def size_of(self, item: Any) -> int:
        """Return the number of changes."""
        return len(getattr(item, "changes", ()))

    def receive(self) -> None:
        """Receive all; connect again after an error that may go away."""
        failures, errors = 0, self.broken
        while not self.stopped:
            before = self.progress
            try:
                self.receive_all()
                return
            except errors as error:
                problem = self.problem(error)
                failures = 1 if self.progress != before else failures + 1
                if failures == TRIES:
                    raise SourceNotReadable(f"{self.place} cannot be read: {problem}") from error
                logger.info("%s at %s: %s; connecting again", self.place, self.progress, error)
            self.pause(_PAUSE_S * 2**failures)

    def add(self, item: Any) -> None:
        """Queue an item; a position takes the place of one just before it."""
        has_changes = hasattr(item, "changes")
        with self._changed:
            if not has_changes and self._items and not hasattr(self._items[-1], "changes"):
                self._items.pop()
            self.put((item,), wakes=False)
        if has_changes or self.asks:
            self._wake()


@dataclass
class PageRows:
    """A page of a table as of a ``mark``, a place in the log, and the number of its emitted rows."""

    table: str
    mark: Any
    now: int
    names: list[str]
    rows: list[tuple[Any, ...]]
    is_last: bool
    keys: list[tuple[Any, ...]] | None = None
    given: int = 0


def extended(pages: tuple[Any, ...], page: Any) -> tuple[Any, ...]:
    """Return the pages (table, upto, mark) with one more; pages of the same mark are one.

    >>> pages = extended((), ("public.t", (5,), "10:10:"))
    >>> extended(pages, ("public.t", (9,), "10:10:"))
    (('public.t', (9,), '10:10:'),)
    >>> len(extended(pages, ("public.t", None, "10:12:")))
    2
    """
    if pages and (pages[-1][0], pages[-1][2]) == (page[0], page[2]):
        return (*pages[:-1], page)
    return (*pages, page)


class SnapshotReader(SourceReader):
    """Emits ``TableChange``s: rows of pages, then changes of the log up to the end, or without one.

    A split has ``tables``, whose snapshot is still to be read, the first after the key ``after``; ``pages`` that were read; and
    a ``fence`` when all were. ``doubt`` is the mark of the first page that an attempt which failed may have emitted in vain,
    ``lost`` such rows.
    """

    page_type: ClassVar[Any]
    """A named tuple of a table, the last key (``None``: all), and the mark."""
    metric_group: ClassVar[str]

    def __init__(self, database: SqlDatabase, bounded: bool, context: ConnectorContext) -> None:
        super().__init__(context)
        self._database, self._bounded = database, bounded
        self._session = SqlSession(database, f"funken {context.operator}")
        self._work: Background[Any] = Background(context.wake)
        self._split: Any = None
        self._page: PageRows | None = None
        self._stream: Any = None
        #: bytes of the stream that the metric has
        self._counted = 0
        self._doubts = RowsInDoubt()
        self._metrics = context.metrics.add_group(self.metric_group)
        self._rows_read = self._metrics.counter("snapshotRows")
        self._changes_read = self._metrics.counter("changes")

    # ---- what a connector defines

    def _first_mark(self, split: Any) -> Any:
        """Return the mark of before the first page."""
        raise NotImplementedError

    def _read_page(self, split: Any) -> PageRows:
        """Read the next page, in a thread."""
        raise NotImplementedError

    def _read_fence(self, split: Any) -> Any:
        """Return a position in the log after the last page, in a thread."""
        raise NotImplementedError

    def _poll_changes(self, split: Any, limit: int) -> Batch | Wait | NeedSplits:
        """Return changes of the log."""
        raise NotImplementedError

    # ---- splits

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Begin, or resume from a checkpoint."""
        [split] = splits
        if self.context.restored_checkpoint_id is not None and split.tables and split.doubt is None:
            split = replace(split, doubt=split.pages[-1][2] if split.pages else self._first_mark(split))
        self._split, self._doubts = split, RowsInDoubt(split.lost)

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the position."""
        return [] if self._split is None else [replace(self._split, lost=self._doubts.entries)]

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return rows of the snapshot, or changes."""
        if self._split is None:
            return NEED_SPLITS
        if not self._split.fence:
            return self._poll_snapshot(self._split, limit)
        return self._poll_changes(self._split, limit)

    def _end(self, split: Any) -> NeedSplits:
        """A bounded reader has all changes up to the fence."""
        self.finished.append(split.id)
        self._split = None
        return NEED_SPLITS

    # ---- the snapshot

    def _poll_snapshot(self, split: Any, limit: int) -> Batch | Wait | NeedSplits:
        if self._page is not None:
            return self._emit_rows(split, self._page, limit)
        if not self._work.busy:
            self._work.begin(lambda: self._read_page(split) if split.tables else self._read_fence(split))
        found = self._work.take()
        if found is None:
            return Wait(None)
        if not isinstance(found, PageRows):
            self._split = replace(split, fence=found)
            return self._poll_changes(self._split, limit)
        self._page = found
        self.bytes_in.inc(size_of_rows(found.rows))
        return self._emit_rows(split, found, limit)

    def _emit_rows(self, split: Any, page: PageRows, limit: int) -> Batch | Wait | NeedSplits:
        rows = page.rows[page.given : page.given + max(1, limit)]
        page.given += len(rows)
        key = self._last_key(split, page) if rows else split.after
        ended = page.given == len(page.rows)
        if ended:
            self._page = None
        is_last = ended and page.is_last
        pages = extended(split.pages, self.page_type(page.table, None if is_last else key, page.mark))
        after = {"tables": split.tables[1:], "after": None} if is_last else {"after": key}
        self._split = replace(split, pages=pages, **after)
        if not rows:
            return self._poll_snapshot(self._split, limit)
        self._rows_read.inc(len(rows))
        records = [
            TableChange(ChangeKind.READ, page.table, None, dict(zip(page.names, row, strict=True))) for row in rows
        ]
        return Batch(records, [page.now] * len(records), split.id)

    def _last_key(self, split: Any, page: PageRows) -> tuple[Any, ...]:
        """Return the key of the last emitted row."""
        if page.keys is not None:
            return page.keys[page.given - 1]
        row = page.rows[page.given - 1]
        return tuple([row[page.names.index(column)] for column in dict(split.keys)[page.table]])

    def _run(self, work: Callable[[Any], T]) -> T:
        return patiently(self._database, lambda: self._session.transaction(work), self._failed)

    def _failed(self, problem: SqlProblem) -> SourceNotReadable:
        return self.failure(f"the database cannot be read: {problem}")

    # ---- the changes

    def _next_item(self) -> Any:
        """Return the next item of the stream, and count the bytes that came."""
        item = self._stream.take()
        received = self._stream.received_bytes
        self.bytes_in.inc(received - self._counted)
        self._counted = received
        return item

    def _batch(self, changes: Sequence[TableChange], split: Any) -> Batch:
        self._changes_read.inc(len(changes))
        return Batch(list(changes), [change.timestamp for change in changes], split.id)

    def close(self) -> None:
        """Close the connections."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.stop()
        self._work.close(self._session.close)
