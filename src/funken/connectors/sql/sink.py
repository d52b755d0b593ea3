"""A table as a sink: at least once, idempotent by upserts, or exactly once by rows that are staged in the checkpoint.

At least once, a writer inserts each block in a transaction of its own, before ``write`` returns. With ``key_columns`` a row
replaces the one with the same key, so rows that are written again after a failure change nothing in the end.

Exactly once, a committable is the rows of a subtask; the committer inserts those of a checkpoint in one transaction and notes in
the table ``funken_commits`` up to which checkpoint the rows of each subtask are in. This needs nothing but transactions, but all
rows go through checkpoints and the driver. ``PostgresSink`` prepares transactions instead.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from funken.connectors.base import CommitterContext, ConnectorContext
from funken.connectors.schemas import RowMaker
from funken.connectors.schemas import size_of_rows as bytes_of
from funken.connectors.sink import (
    CommitRequest,
    Committer,
    DeliveryGuarantee,
    MarkingCommitter,
    Sink,
    SinkWriter,
    StagedWriter,
)
from funken.connectors.sql.database import SqlDatabase, SqlProblem, SqlSession, patiently
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SinkNotWritable
from funken.types.info import TypeInformation

NOTES = "funken_commits"


@dataclass(frozen=True)
class SqlSink(Sink):
    """Writes records to a table, which has to exist.

    ``columns`` are those that are written, by default the fields of the stream's declared row type. Records are rows, mappings,
    dataclasses or named tuples (by name), or tuples (by position). With ``key_columns`` a row replaces the one with the same key;
    they need a unique index. Up to ``batch_size`` rows are written in one transaction.

    Raises ``SinkNotWritable``, before anything runs, if the database, the table or a column is not there or not writable.

    >>> import sqlite3, tempfile
    >>> from contextlib import closing
    >>> from funken.connectors.sql import SqliteDatabase
    >>> from funken.testing import local
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with closing(sqlite3.connect(folder + "/shop.db")) as db:
    ...         _ = db.execute("CREATE TABLE prices (item PRIMARY KEY, price)")
    ...         prices = local([("tea", 3), ("jam", 5), ("tea", 4)])
    ...         _ = prices.sink_to(SqlSink(SqliteDatabase(folder + "/shop.db"), "prices", ("item", "price"), ("item",)))
    ...         _ = prices.get_execution_environment().execute()
    ...         db.execute("SELECT * FROM prices ORDER BY item").fetchall()
    [('jam', 5), ('tea', 4)]
    """

    database: SqlDatabase
    table: str
    columns: tuple[str, ...] = ()
    key_columns: tuple[str, ...] = ()
    guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE
    batch_size: int = 5000

    def __post_init__(self) -> None:
        """Check the arguments as far as possible without the database."""
        missing = [column for column in self.key_columns if self.columns and column not in self.columns]
        if missing:
            raise InvalidConfiguration(
                f"key columns {missing} of the sink to table {self.table!r} are not among its columns {list(self.columns)}."
            )
        if self.batch_size < 1:
            raise InvalidConfiguration(f"a batch of {self.batch_size} rows is none; pass a positive number.")

    def of_type(self, type_info: TypeInformation | None) -> Sink:
        """Take the columns from a declared row type, unless they are set."""
        names = getattr(type_info, "get_field_names", None)
        return replace(self, columns=tuple(names())) if names and not self.columns else self

    def check(self) -> None:
        """Reach the database, and let it look at the statement."""
        if not self.columns:
            raise InvalidConfiguration(
                f"the sink to table {self.table!r} has no columns; name them, or declare the stream's type with Types.ROW_NAMED."
            )
        SqlSession.once(self.database, "funken check", self.look, self.not_writable)

    def look(self, cursor: Any) -> None:
        """Look, in a transaction, whether the table can be written."""
        self.database.probe(cursor, self.table, self.columns, self.key_columns)

    def not_writable(self, problem: SqlProblem) -> SinkNotWritable:
        """Return the error for a problem."""
        return SinkNotWritable(f"table {self.table!r} cannot be written: {problem}")

    def insert(self, cursor: Any, rows: list[tuple[Any, ...]]) -> None:
        """Write rows; of those with the same key the last, in the order of keys, so that writers do not block each other."""
        if self.key_columns:
            positions = [self.columns.index(column) for column in self.key_columns]
            last = {tuple([row[position] for position in positions]): row for row in rows}
            rows = [last[key] for key in sorted(last, key=repr)]
        self.database.write(cursor, self.table, self.columns, self.key_columns, rows)

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        if self.guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return SqlWriter(self, context)
        return StagedWriter(context, RowMaker(self.columns, f"operator {context.operator!r}").rows, bytes_of)

    def committer(self, context: CommitterContext) -> Committer | None:
        """Make the committer of an exactly-once sink."""
        return StagedCommitter(self, context) if self.guarantee is DeliveryGuarantee.EXACTLY_ONCE else None


class SqlWriter(SinkWriter):
    """Writes blocks as they come."""

    def __init__(self, sink: SqlSink, context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._rows = RowMaker(sink.columns, f"operator {context.operator!r}")
        self._session = SqlSession(sink.database, f"funken {context.operator}")
        self._retries = context.metrics.counter("numRetries")

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Insert a block."""
        rows, size = self._rows.rows(values), self._sink.batch_size
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            tries = 0

            def insert(cursor: Any, part: list[tuple[Any, ...]] = part) -> None:
                nonlocal tries
                tries += 1
                self._sink.insert(cursor, part)

            patiently(self._sink.database, lambda insert=insert: self._session.transaction(insert), self._failed)  # type: ignore[misc]
            self._retries.inc(tries - 1)
        self.count_sent(len(rows), bytes_of(rows))

    def _failed(self, problem: SqlProblem) -> SinkNotWritable:
        return self.failure(f"table {self._sink.table!r} cannot be written: {problem}")

    def close(self) -> None:
        """Close the connection."""
        self._session.close()


class StagedCommitter(MarkingCommitter):
    """Inserts staged rows, and notes in the same transaction that they are in."""

    def __init__(self, sink: SqlSink, context: CommitterContext) -> None:
        super().__init__(context)
        self._sink, self.place = sink, f"table {sink.table!r}"
        self._session = SqlSession(sink.database, f"funken {context.operator}")
        numbered = sink.database.marks(4)
        where = " AND ".join(
            f"{name} = {mark}" for name, mark in zip(("job", "operator", "subtask"), numbered, strict=False)
        )
        self._select = f"SELECT checkpoint_id FROM {NOTES} WHERE {where}"
        self._delete = f"DELETE FROM {NOTES} WHERE {where}"
        self._insert = f"INSERT INTO {NOTES} (job, operator, subtask, checkpoint_id) VALUES ({', '.join(numbered)})"
        later = f"job = {numbered[0]} AND operator = {numbered[1]} AND checkpoint_id > {numbered[2]}"
        self._delete_later = f"DELETE FROM {NOTES} WHERE {later}"

    def open(self) -> None:
        """Make the table of notes, if it is not there."""
        if self._exists():
            return
        create = (
            f"CREATE TABLE {NOTES} (job VARCHAR(200) NOT NULL, operator VARCHAR(200) NOT NULL, subtask INTEGER NOT NULL, "
            "checkpoint_id BIGINT NOT NULL, PRIMARY KEY (job, operator, subtask))"
        )
        with suppress(*self._sink.database.errors):  # another job may just have made it; then it is found
            self._session.transaction(lambda cursor: cursor.execute(create))
        self._run(lambda cursor: cursor.execute(f"SELECT count(*) FROM {NOTES} WHERE 1 = 0"))

    def _exists(self) -> bool:
        try:
            self._session.transaction(lambda cursor: cursor.execute(f"SELECT count(*) FROM {NOTES} WHERE 1 = 0"))
        except self._sink.database.errors:
            return False
        return True

    def forget_marks(self, since: int | None) -> bool:
        """Delete later notes."""
        values = (self.context.job_id, self.operator, -1 if since is None else since)
        deleted = self._run(lambda cursor: cursor.execute(self._delete_later, values).rowcount)
        return bool(deleted and deleted > 0)

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Insert the rows of all requests that are not noted, in one transaction."""
        # A job without checkpoints commits once, but a try whose answer was lost is repeated: it finds a number below all others.
        numbers = [
            -1 - secrets.randbelow(1 << 62) if request.checkpoint_id is None else request.checkpoint_id
            for request in requests
        ]
        found = self._run(lambda cursor: self._insert_all(cursor, requests, numbers))
        for request, done in zip(requests, found, strict=True):
            if done:
                request.already_committed()

    def _insert_all(self, cursor: Any, requests: Sequence[CommitRequest], numbers: Sequence[int]) -> list[bool]:
        already = []
        for request, number in zip(requests, numbers, strict=True):
            key = (request.job_id, request.operator_uid or self.operator, request.subtask)
            cursor.execute(self._select, key)
            noted = cursor.fetchone()
            already.append(noted is not None and (noted[0] >= number if number >= 0 else noted[0] == number))
            if already[-1]:
                continue
            cursor.execute(self._delete, key)
            cursor.execute(self._insert, (*key, number))
            rows, size = request.committable, self._sink.batch_size
            for start in range(0, len(rows), size):
                self._sink.insert(cursor, [tuple(row) for row in rows[start : start + size]])
        return already

    def _run(self, work: Any) -> Any:
        return patiently(self._sink.database, lambda: self._session.transaction(work), self._failed)

    def _failed(self, problem: SqlProblem) -> SinkNotWritable:
        return self.failure(f"rows cannot be committed to table {self._sink.table!r}: {problem}")

    def close(self) -> None:
        """Close the connection."""
        self._session.close()
