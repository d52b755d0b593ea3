"""The committer of an exactly-once PostgreSQL sink, on the driver.

At a recovery it first ends the connections of writers of former attempts, whose processes may live on; then it commits what the
checkpoint names, and rolls back what else bears the sink's name. Until that is done no writer runs.

Whether a transaction whose name is gone was committed is asked of the server by its number (``txid_status``).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from funken.connectors.context import CommitterContext
from funken.connectors.postgresql.client import psycopg
from funken.connectors.postgresql.database import PostgresDatabase
from funken.connectors.sink import CommitRequest, Committer
from funken.connectors.sql.database import SqlProblem, patiently
from funken.errors import SinkNotWritable

T = TypeVar("T")

logger = logging.getLogger(__name__)

_TRIES, _PAUSE_S = 100, 0.1
_GONE, _BUSY = "42704", "55000"


class PreparedRows(NamedTuple):
    """A prepared transaction: its name, and the number that the server gave it."""

    name: str
    number: int


class PostgresCommitter(Committer):
    """Ends transactions that writers, perhaps of processes that are gone, have prepared."""

    def __init__(self, database: PostgresDatabase, family: str, table: str, context: CommitterContext) -> None:
        super().__init__(context)
        self._database, self._family = database, family
        self._who = f"operator {context.operator!r}, table {table!r}"
        self._connection: Any = None

    def open(self) -> None:
        """Connect."""
        self._with(lambda connection: None)

    def _with(self, work: Callable[[Any], T]) -> T:
        """Do something that may be done again; connect anew if the connection is lost."""

        def once() -> T:
            if self._connection is None:
                self._connection = self._database.connect("funken committer", autocommit=True)
            try:
                return work(self._connection)
            except psycopg().Error:
                if self._connection.broken or self._connection.closed:
                    self.close()
                raise

        return patiently(self._database, once, self._failed)

    def _failed(self, problem: SqlProblem) -> SinkNotWritable:
        return SinkNotWritable(f"{self._who}: transactions cannot be ended: {problem}", self.context.operator)

    # ---- commits

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Commit transactions; for one whose name is gone, ask what became of it."""
        for request in requests:
            transaction = PreparedRows(*request.committable)
            try:
                state = self._with(lambda connection, name=transaction.name: _end(connection, "COMMIT", name))  # type: ignore[misc]
                if state == _GONE:
                    self._gone(request, transaction)
                elif state:
                    request.retry_later(f"prepared transaction {transaction.name!r} is busy")
            except SinkNotWritable as error:
                cause = error.__cause__
                if isinstance(cause, Exception) and not self._database.problem(cause).transient:
                    raise
                request.retry_later(str(error))

    def _gone(self, request: CommitRequest, transaction: PreparedRows) -> None:
        try:
            status = self._with(lambda connection: _status(connection, transaction.number))
        except SinkNotWritable as error:
            status = f"unknown ({error})"
        if status == "committed":
            request.already_committed()
        elif status is None:
            logger.warning(
                "%s: prepared transaction %r is gone, too old for the server to know its end; a commit is assumed",
                self._who, transaction.name,
            )  # fmt: skip
            request.already_committed()
        else:
            request.failed(
                f"{self._who}: prepared transaction {transaction.name!r} (number {transaction.number}) is gone and "
                f"{status}, so its records are lost. Was it rolled back by hand, or by another job with the same "
                "transaction_prefix, or was the server restored from a backup? Start from an earlier checkpoint or savepoint"
            )

    # ---- recovery

    def recover(self, requests: Sequence[CommitRequest]) -> None:
        """End the writers of former attempts, commit what the checkpoint names, roll back the rest."""
        for _ in range(_TRIES):
            if not self._with(self._end_writers):
                break
            threading.Event().wait(_PAUSE_S)
        else:
            raise SinkNotWritable(
                f"{self._who}: connections of an earlier attempt do not end (pg_stat_activity, application_name "
                f"{self._family!r}); let this user end them (pg_signal_backend), or end them by hand.",
                self.context.operator,
            )
        self.commit(requests)
        named = {PreparedRows(*request.committable).name for request in requests}
        for name in self._with(self._prepared):
            if name not in named:
                self._with(lambda connection, name=name: _end(connection, "ROLLBACK", name))  # type: ignore[misc]
                logger.info("%s: rolled back transaction %r of an earlier attempt", self._who, name)

    def _end_writers(self, connection: Any) -> int:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s AND pid <> pg_backend_pid()",
            (self._family,),
        )
        return len(ended.fetchall())

    def _prepared(self, connection: Any) -> list[str]:
        found = connection.execute(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, %s)",
            (f"{self._family}-",),
        )
        return [name for (name,) in found.fetchall()]

    def abort(self, requests: Sequence[CommitRequest]) -> None:
        """Roll back transactions that are in no checkpoint: they hold locks."""
        for request in requests:
            name = PreparedRows(*request.committable).name
            try:
                self._with(lambda connection, name=name: _end(connection, "ROLLBACK", name))  # type: ignore[misc]
            except SinkNotWritable as error:
                logger.warning("%s: prepared transaction %r is not rolled back: %s", self._who, name, error)

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg().Error):
                connection.close()


def _end(connection: Any, how: str, name: str) -> str:
    """End a prepared transaction; returns ``""``, or why that was not possible."""
    try:
        sql = psycopg("psycopg.sql")
        connection.execute(sql.SQL(f"{how} PREPARED {{}}").format(sql.Literal(name)))
    except psycopg().Error as error:
        if error.sqlstate in (_GONE, _BUSY):
            return str(error.sqlstate)
        raise
    return ""


def _status(connection: Any, number: int) -> str | None:
    (status,) = connection.execute("SELECT txid_status(%s)", (number,)).fetchone()
    return None if status is None else str(status)


__all__ = ["PostgresCommitter", "PreparedRows"]
