"""Which changes the snapshot of a table has already: pure.

The snapshot is read page by page in the order of the primary key, each page in a transaction of its own, so nothing is held
open and reading resumes after a failure. For each page it is noted up to which key it goes and which transactions it saw. The
log is read from before the first page; a change whose key is in a page that saw its transaction is dropped. Beyond the
*fence*, a position in the log after the last page, no transaction was seen by any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from funken.connectors.postgresql.changes import ChangeKind, TableChange, TransactionSnapshot
from funken.errors import SourceNotReadable


class SnapshotPage(NamedTuple):
    """Rows of a table after those of the page before it, up to a key (``None``: all others), as a snapshot saw them."""

    table: str
    upto: tuple[Any, ...] | None
    snapshot: str


def extended(pages: tuple[SnapshotPage, ...], page: SnapshotPage) -> tuple[SnapshotPage, ...]:
    """Return the pages with one more; pages of the same snapshot are one.

    >>> pages = extended((), SnapshotPage("public.t", (5,), "10:10:"))
    >>> extended(pages, SnapshotPage("public.t", (9,), "10:10:"))
    (SnapshotPage(table='public.t', upto=(9,), snapshot='10:10:'),)
    >>> len(extended(pages, SnapshotPage("public.t", None, "10:12:")))
    2
    """
    if pages and (pages[-1].table, pages[-1].snapshot) == (page.table, page.snapshot):
        return (*pages[:-1], page)
    return (*pages, page)


class SeenChanges:
    """Drops changes that pages have already.

    >>> seen = SeenChanges([SnapshotPage("t", (5,), "10:10:"), SnapshotPage("t", None, "12:12:")], {"t": ("id",)})
    >>> insert = TableChange(ChangeKind.INSERT, "t", None, {"id": 3})
    >>> seen.unseen(insert, xid=11) is insert, seen.unseen(insert._replace(after={"id": 7}), xid=11)
    (True, None)

    Of an update that moves a row into a page that has it, what is left is that it is gone from where it was:

    >>> seen.unseen(TableChange(ChangeKind.UPDATE, "t", {"id": 3}, {"id": 7}), xid=11)
    TableChange(kind=<ChangeKind.DELETE: 'd'>, table='t', before={'id': 3}, after=None, lsn=0, timestamp=0)
    """

    def __init__(self, pages: Sequence[SnapshotPage], keys: Mapping[str, tuple[str, ...]]) -> None:
        self._keys = keys
        self._pages: dict[str, list[tuple[tuple[Any, ...] | None, TransactionSnapshot]]] = {}
        for page in pages:
            self._pages.setdefault(page.table, []).append((page.upto, TransactionSnapshot.of(page.snapshot)))

    def unseen(self, change: TableChange, xid: int) -> TableChange | None:
        """Return what of a change no page has: itself, a part of it, or nothing."""
        pages = self._pages.get(change.table)
        if pages is None:
            return change
        if change.kind is ChangeKind.TRUNCATE:
            return self._truncated(change, xid)
        columns = self._keys[change.table]
        after = None if change.after is None else tuple([change.after[column] for column in columns])
        before = None if change.before is None else tuple([change.before[column] for column in columns])
        if before is None or after is None or before == after:
            key = after if after is not None else before
            return None if key is None or self._sees(pages, key, xid) else change
        was_seen, is_seen = self._sees(pages, before, xid), self._sees(pages, after, xid)
        if was_seen and is_seen:
            return None
        if is_seen:
            return change._replace(kind=ChangeKind.DELETE, after=None)
        return change._replace(kind=ChangeKind.INSERT, before=None) if was_seen else change

    @staticmethod
    def _sees(pages: list[tuple[tuple[Any, ...] | None, TransactionSnapshot]], key: tuple[Any, ...], xid: int) -> bool:
        return next(snapshot.sees(xid) for upto, snapshot in pages if upto is None or _is_up_to(key, upto))

    def _truncated(self, change: TableChange, xid: int) -> TableChange | None:
        seen = {snapshot.sees(xid) for _, snapshot in self._pages[change.table]}
        if seen == {True, False}:
            raise SourceNotReadable(
                f"table {change.table!r} was truncated while its snapshot was read; start the job again, without a checkpoint."
            )
        return None if True in seen else change


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


__all__ = ["SeenChanges", "SnapshotPage", "extended"]
