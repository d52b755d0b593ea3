"""The reader of change data capture: pages of tables, then the log; its split is the whole position.

Each page is read with its rows locked, so that its place in the log is exact: the position while the locks are held. Changes of
the log up to there are in the page, later ones are not. A position within a transaction is the end of the one before it and how
many of its changes were emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from funken.connectors.base import Batch, ConnectorContext, NeedSplits, Wait
from funken.connectors.mysql.binlog import BinlogStream, LoggedChanges, LogPosition
from funken.connectors.mysql.columns import MySqlColumn, MySqlKey, columns_of, columns_wanted
from funken.connectors.mysql.database import MySqlDatabase
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
from funken.dataclass import dataclass
from funken.errors import SourceNotReadable


class MySqlPage(NamedTuple):
    """Rows of a table after those of the page before it, up to a key (``None``: all others), as of a position."""

    table: str
    upto: tuple[Any, ...] | None
    position: LogPosition


@dataclass(frozen=True)
class MySqlCdcSplit:
    """The position of the reader.

    ``tables`` are those whose snapshot is still to be read, the first after the key ``after``; ``pages`` those that were read.
    ``fence`` is set when all are. ``position`` is the end of the last transaction, ``emitted`` counts changes of the next one.
    ``doubt`` is a position before which no attempt that failed has emitted rows of pages that are to be read again, ``lost`` rows
    that such an attempt may have emitted.
    """

    id: str
    tables: tuple[str, ...]
    keys: tuple[tuple[str, tuple[MySqlKey, ...]], ...]
    position: LogPosition
    after: tuple[Any, ...] | None = None
    pages: tuple[MySqlPage, ...] = ()
    fence: LogPosition | None = None
    emitted: int = 0
    doubt: LogPosition | None = None
    lost: tuple[tuple[RowKey, tuple[TableChange, ...]], ...] = ()


class MySqlCdcReader(SnapshotReader):
    """Emits ``TableChange``s."""

    page_type, metric_group = MySqlPage, "MySqlCdcReader"
    _database: MySqlDatabase

    def __init__(
        self, database: MySqlDatabase, server_id: int, columns: Mapping[str, Sequence[str]], page_size: int,
        not_before: int, bounded: bool, context: ConnectorContext,
    ) -> None:  # fmt: skip
        super().__init__(database, bounded, context)
        self._server_id, self._columns, self._size, self._not_before = server_id, columns, page_size, not_before
        self._changes: LoggedChanges | None = None
        #: how many changes of ``_changes`` were emitted, and those of them that no page has
        self._given = 0
        self._metrics.gauge("lagMillis", self._lag)

    def _first_mark(self, split: MySqlCdcSplit) -> LogPosition:
        return split.position

    def _read_page(self, split: MySqlCdcSplit) -> PageRows:
        table = split.tables[0]
        keys, quote = dict(split.keys)[table], self._database.quote

        def read(cursor: Any) -> PageRows:
            columns = columns_of(cursor, table, self._names(table, keys))
            selected = [column.selected(quote(column.name)) for column in columns]
            weights = [key.weight(quote(key.name)) for key in keys if key.is_text]
            where, values = _after(keys, split.after, quote) if split.after is not None else ("", [])
            # the gaps between the rows are locked, too
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", ())
            cursor.execute("START TRANSACTION", ())
            order = ", ".join(quote(key.name) for key in keys)
            cursor.execute(
                f"SELECT {', '.join([*selected, *weights])} FROM {quote(table)} FORCE INDEX (PRIMARY){where} ORDER BY {order} "
                f"LIMIT {self._size} LOCK IN SHARE MODE",
                values,
            )
            found = list(cursor.fetchall())
            position = position_of(cursor)
            cursor.execute("SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED)", ())
            (now,) = cursor.fetchone()
            names, rows = [column.name for column in columns], _converted(found, columns)
            found_keys = [_key_of(row, whole, names, keys) for row, whole in zip(rows, found, strict=True)]
            if found_keys and None in found_keys[-1]:
                raise SourceNotReadable(
                    f"table {table!r} has a row whose primary key is no date that Python can hold, {found[-1]!r:.200}; "
                    "correct the row, or read the log alone: StartupOptions.latest()."
                )
            return PageRows(table, position, int(now), names, rows, len(rows) < self._size, found_keys)

        return self._run(read)

    def _names(self, table: str, keys: Sequence[MySqlKey]) -> tuple[str, ...]:
        """Return the names of the columns to be read, none for all; the key is always among them."""
        names = columns_wanted(self._columns, table)
        return tuple(dict.fromkeys([*names, *(key.name for key in keys)])) if names else ()

    def _read_fence(self, split: MySqlCdcSplit) -> LogPosition:
        return self._run(position_of)

    # ---- the changes

    def _poll_changes(self, split: MySqlCdcSplit, limit: int) -> Batch | Wait | NeedSplits:
        fence = split.fence
        assert fence is not None
        if self._stream is None:
            self._begin()
        while True:
            split = self._split
            if (
                self._changes.end.rank > fence.rank
                if self._changes is not None
                else not split.emitted and split.position.rank >= fence.rank
            ):
                if self._doubts:
                    return self._batch(self._doubts.take(limit), split)
                if self._bounded:
                    return self._end(split)
            if self._changes is not None:
                batch = self._emit_changes(self._changes, split, fence, limit)
                if batch is not None:
                    return batch
                if self._work.busy:
                    return Wait(None)
                continue
            item = self._next_item()
            if item is None:
                return Wait(None)
            if isinstance(item, LogPosition):
                self._split = replace(split, position=item, emitted=0)
            else:
                self._changes, self._given = item, 0

    def _begin(self) -> None:
        split = self._split
        tables = {table: self._names(table, keys) for table, keys in split.keys}
        self._stream = BinlogStream(
            self._database, self._server_id, tables, split.position, split.emitted, self._not_before,
            f"funken {self.context.operator}", self.context.wake,
        )  # fmt: skip
        self._stream.start()

    def _end(self, split: MySqlCdcSplit) -> NeedSplits:
        self._changes = None
        return super()._end(split)

    def _emit_changes(
        self, logged: LoggedChanges, split: MySqlCdcSplit, fence: LogPosition, limit: int
    ) -> Batch | None:
        """Emit changes that no page has; ``None`` if there are none among those looked at, or while the server is asked."""
        if split.pages and logged.end.rank > fence.rank:
            split = replace(split, pages=())
        changes = logged.changes[self._given : self._given + max(1, limit)]
        if split.pages:
            if not self._work.busy:
                self._work.begin(lambda: self._unseen(changes, logged.end, split))
            found = self._work.take()
            if found is None:
                return None
            looked_at, left, noted = found
            for key, deletion in noted:
                self._doubts.note(key, deletion)
        else:
            looked_at, left = len(changes), changes
        self._given += looked_at
        self._split = replace(split, emitted=split.emitted + looked_at)
        if self._given == len(logged.changes):
            self._changes = None
        return self._batch(left, split) if left else None

    def _unseen(
        self, changes: Sequence[TableChange], end: LogPosition, split: MySqlCdcSplit
    ) -> tuple[int, list[TableChange], list[tuple[RowKey, tuple[TableChange, ...]]]]:
        """Return the number of these changes, their parts that no page has, and the notes on rows in doubt."""
        noted: list[tuple[RowKey, tuple[TableChange, ...]]] = []
        seen = ChangesInPages(
            split.pages, dict(split.keys), self._weights, split.doubt, lambda *entry: noted.append(entry)
        )
        left = [part for change in changes if (part := seen.unseen(change, end)) is not None]
        return len(changes), left, noted

    def _weights(self, keys: Sequence[MySqlKey], texts: Sequence[str]) -> tuple[Any, ...]:
        """Ask the server for the bytes that order texts."""
        expressions = ", ".join(key.weight("%s") for key in keys)

        def ask(cursor: Any) -> tuple[Any, ...]:
            cursor.execute(f"SELECT {expressions}", tuple(texts))
            return tuple(cursor.fetchone())

        return self._run(ask)

    def _lag(self) -> int:
        """Return the age of the newest received event (ms); -1 before the first."""
        if self._stream is None or not self._stream.timestamp:
            return -1
        return max(0, self.context.processing_time() - 1000 * int(self._stream.timestamp))


def position_of(cursor: Any) -> LogPosition:
    """Return the end of the log."""
    version = cursor.connection.get_server_info()
    newer = "MariaDB" not in version and tuple(map(int, version.split(".")[:2])) >= (8, 2)
    cursor.execute("SHOW BINARY LOG STATUS" if newer else "SHOW MASTER STATUS", ())
    found = cursor.fetchone()
    if found is None:
        raise SourceNotReadable("the server writes no binary log; start it with log_bin.")
    return LogPosition(found[0], int(found[1]))


def _after(keys: Sequence[MySqlKey], after: tuple[Any, ...], quote: Callable[[str], str]) -> tuple[str, list[Any]]:
    """Return the condition that rows come after a key: written out, for an index does not serve the comparison of tuples."""
    alternatives, values = [], []
    for place, key in enumerate(keys):
        equal = [f"{quote(one.name)} = %s" for one in keys[:place]]
        alternatives.append(f"({' AND '.join([*equal, f'{quote(key.name)} > %s'])})")
        values += [_plain(value) for value in after[: place + 1]]
    return f" WHERE {' OR '.join(alternatives)}", values


def _plain(value: Any) -> Any:
    """Return a part of a key as it is in the table: texts are kept with their weights."""
    value = value[0] if isinstance(value, tuple) else value
    return value.replace(tzinfo=None) if getattr(value, "tzinfo", None) is not None else value


def _converted(found: Sequence[tuple[Any, ...]], columns: Sequence[MySqlColumn]) -> list[tuple[Any, ...]]:
    """Return rows with the values of the columns."""
    converters = [(place, column.converter) for place, column in enumerate(columns) if column.converter is not None]
    rows = []
    for every in found:
        row = list(every[: len(columns)])
        for place, convert in converters:
            if row[place] is not None:
                row[place] = convert(row[place])
        rows.append(tuple(row))
    return rows


def _key_of(
    row: tuple[Any, ...], with_weights: tuple[Any, ...], names: Sequence[str], keys: Sequence[MySqlKey]
) -> tuple[Any, ...]:
    weights = iter(with_weights[len(names) :])
    return tuple(
        (row[names.index(key.name)], next(weights)) if key.is_text else row[names.index(key.name)] for key in keys
    )


class ChangesInPages:
    """Drops changes that pages have already; ``weights`` returns the bytes that order the texts of a key.

    >>> early, late = LogPosition("b.1", 100), LogPosition("b.1", 200)
    >>> pages = [MySqlPage("s.t", (5,), early), MySqlPage("s.t", None, late)]
    >>> seen = ChangesInPages(pages, {"s.t": (MySqlKey("id", "int"),)}, lambda keys, texts: ())
    >>> insert = TableChange(ChangeKind.INSERT, "s.t", None, {"id": 3})
    >>> at = LogPosition("b.1", 150)
    >>> seen.unseen(insert, at) is insert, seen.unseen(insert._replace(after={"id": 7}), at)
    (True, None)

    An update that moves a row into a page that has it leaves the deletion of the row at its old place:

    >>> seen.unseen(TableChange(ChangeKind.UPDATE, "s.t", {"id": 3}, {"id": 7}), at).kind
    <ChangeKind.DELETE: 'd'>

    After a restart a row that was deleted before its page was read again is noted:

    >>> rows = RowsInDoubt()
    >>> again = ChangesInPages(pages, {"s.t": (MySqlKey("id", "int"),)}, lambda keys, texts: (), early, rows.note)
    >>> again.unseen(TableChange(ChangeKind.DELETE, "s.t", {"id": 7}, None), at)
    >>> [change.kind.name for change in rows.take(10)]
    ['INSERT', 'DELETE']
    """

    def __init__(
        self,
        pages: Sequence[MySqlPage],
        keys: Mapping[str, tuple[MySqlKey, ...]],
        weights: Callable[[Sequence[MySqlKey], Sequence[str]], tuple[Any, ...]],
        doubt: LogPosition | None = None,
        note: Note | None = None,
    ) -> None:
        self._keys, self._weights, self._doubt, self._note = keys, weights, doubt, note
        self._pages: dict[str, list[MySqlPage]] = {}
        for page in pages:
            self._pages.setdefault(page.table, []).append(page)

    def unseen(self, change: TableChange, end: LogPosition) -> TableChange | None:
        """Return the part of a change that no page has: itself, a part of it, or nothing."""
        pages = self._pages.get(change.table)
        if pages is None:
            return change
        seen = {end.rank <= page.position.rank for page in pages}
        in_doubt = self._doubt is not None and end.rank > self._doubt.rank
        if change.kind is ChangeKind.TRUNCATE:
            return unseen_truncation(change, seen, in_doubt)
        if len(seen) == 1 and not in_doubt:
            return None if True in seen else change
        keys = self._keys[change.table]
        before, after = (None if row is None else self._ranked(keys, row) for row in (change.before, change.after))
        was_seen, is_seen = (key is not None and _sees(pages, key, end) for key in (before, after))
        if in_doubt and self._note is not None:
            RowsInDoubt.look_at(self._note, change, before, after, was_seen)
        return unseen_part(change, was_seen, is_seen)

    def _ranked(self, keys: tuple[MySqlKey, ...], row: dict[str, Any]) -> tuple[tuple[bool, Any], ...]:
        texts = [key for key in keys if key.is_text]
        weights = iter(self._weights(texts, [row[key.name] for key in texts]) if texts else ())
        return tuple(_rank(next(weights) if key.is_text else row[key.name]) for key in keys)


def _sees(pages: list[MySqlPage], key: tuple[tuple[bool, Any], ...], end: LogPosition) -> bool:
    page = next(page for page in pages if page.upto is None or key <= _ranks(page.upto))
    return end.rank <= page.position.rank


def _ranks(upto: tuple[Any, ...]) -> tuple[tuple[bool, Any], ...]:
    return tuple(_rank(value[1] if isinstance(value, tuple) else value) for value in upto)


def _rank(value: Any) -> tuple[bool, Any]:
    """A date that there is not (0000-00-00) comes first."""
    return value is not None, value
