"""The records of change data capture, of whichever database, and which of them a snapshot has already.

A snapshot is read page by page, beside the log. Changes that a page has seen are dropped. A row of a failed attempt needs care:
if it was deleted before its page was read again, a sink that writes at least once has it still.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from funken.errors import SourceNotReadable

logger = logging.getLogger(__name__)


class ChangeKind(enum.Enum):
    """The type of a change; ``READ`` is a row of the snapshot, ``TRUNCATE`` concerns a whole table."""

    READ = "r"
    INSERT = "c"
    UPDATE = "u"
    DELETE = "d"
    TRUNCATE = "t"


MaybeRow: TypeAlias = dict[str, Any] | Any
"""A row, or None; to a checker a row, for no ``filter`` can tell it which changes have one."""


class TableChange(NamedTuple):
    """A change of one row: as it was and as it is, ``None`` where there is no such row.

    MySQL logs ``before`` whole. PostgreSQL logs the columns of the table's replica identity: the primary key, where that has
    changed, or the whole row with ``REPLICA IDENTITY FULL``; of an update it is often ``None``. ``lsn`` is the position of the
    change in the log, ``timestamp`` its time (ms since 1970); both are 0 in rows of the snapshot.

    >>> TableChange(ChangeKind.INSERT, "public.orders", None, {"id": 1, "item": "tea"}, lsn=22262632).after["item"]
    'tea'
    """

    kind: ChangeKind
    table: str
    before: MaybeRow
    after: MaybeRow
    lsn: int = 0
    timestamp: int = 0


RowKey = tuple[str, tuple[Any, ...]]
"""A table, and a key in a form whose equality is that of the server."""
Note = Callable[[RowKey, tuple[TableChange, ...]], None]
"""Takes the key of a row and the changes that delete it; no changes: a row with this key is there."""


def unseen_part(change: TableChange, was_seen: bool, is_seen: bool) -> TableChange | None:
    """Return the part of a change that no page has; the pages of the rows before and after have seen it, or not.

    >>> moved = TableChange(ChangeKind.UPDATE, "t", {"id": 3}, {"id": 7})
    >>> unseen_part(moved, was_seen=False, is_seen=True)
    TableChange(kind=<ChangeKind.DELETE: 'd'>, table='t', before={'id': 3}, after=None, lsn=0, timestamp=0)
    """
    if not (was_seen or is_seen):
        return change
    if change.before is None or change.after is None or (was_seen and is_seen):
        return None
    if is_seen:
        return change._replace(kind=ChangeKind.DELETE, after=None)
    return change._replace(kind=ChangeKind.INSERT, before=None)


def unseen_truncation(change: TableChange, seen: set[bool], in_doubt: bool) -> TableChange | None:
    """Return a TRUNCATE if no page has seen it; raises ``SourceNotReadable`` if some have."""
    if len(seen) > 1:
        raise SourceNotReadable(
            f"table {change.table!r} was truncated while its snapshot was read; start the job again, without a checkpoint."
        )
    if True not in seen:
        return change
    if in_doubt:
        logger.warning(
            "table %s was truncated after an attempt that failed has read rows of it: a sink that writes at least once may keep "
            "these rows. Delete them there.",
            change.table,
        )
    return None


class RowsInDoubt:
    """Rows that only a failed attempt may have emitted: they were deleted before their page was read again.

    Each is emitted as inserted and deleted when the log is past all pages, unless a row with its key came back until then. Of a
    row whose key alone is in the log, only the deletion is emitted. ``entries`` belong to the checkpoint.

    >>> rows = RowsInDoubt()
    >>> deleted = TableChange(ChangeKind.DELETE, "t", {"id": 3, "n": 5}, None)
    >>> rows.look_at(rows.note, deleted, (3,), None, was_seen=True)
    >>> rows.look_at(rows.note, deleted._replace(before={"id": 4}), (4,), None, was_seen=True, is_whole=False)
    >>> rows.look_at(rows.note, deleted._replace(before={"id": 5, "n": 5}), (5,), None, was_seen=True)
    >>> rows.look_at(rows.note, TableChange(ChangeKind.INSERT, "t", None, {"id": 5, "n": 6}), None, (5,), was_seen=False)
    >>> [(change.kind.name, change.before, change.after) for change in rows.take(10)]
    [('INSERT', None, {'id': 3, 'n': 5}), ('DELETE', {'id': 3, 'n': 5}, None), ('DELETE', {'id': 4}, None)]
    """

    def __init__(self, entries: Iterable[tuple[RowKey, tuple[TableChange, ...]]] = ()) -> None:
        self._rows = dict(entries)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def entries(self) -> tuple[tuple[RowKey, tuple[TableChange, ...]], ...]:
        """The rows, in the order of their deletion."""
        return tuple(self._rows.items())

    def note(self, key: RowKey, deletion: tuple[TableChange, ...]) -> None:
        """Take or forget a row."""
        self._rows.pop(key, None)
        if deletion:
            self._rows[key] = deletion

    @staticmethod
    def look_at(
        note: Note, change: TableChange, before: tuple[Any, ...] | None, after: tuple[Any, ...] | None, was_seen: bool,
        is_whole: bool = True,
    ) -> None:  # fmt: skip
        """Note the keys before and after a change that came after the doubt began; ``is_whole``: all of the row is known."""
        if was_seen and before is not None and before != after:
            inserted = change._replace(kind=ChangeKind.INSERT, before=None, after=change.before)
            deleted = change._replace(kind=ChangeKind.DELETE, after=None)
            note((change.table, before), (inserted, deleted) if is_whole else (deleted,))
        if after is not None:
            note((change.table, after), ())

    def take(self, limit: int) -> list[TableChange]:
        """Remove some rows; return the changes that delete them."""
        keys = list(islice(self._rows, max(1, limit // 2)))
        return [change for key in keys for change in self._rows.pop(key)]
