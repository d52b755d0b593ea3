"""A PostgreSQL table as a sink: at least once or by upserts as ``SqlSink``, exactly once by prepared transactions.

Exactly once, a writer inserts the records of a checkpoint in one transaction and prepares it at the barrier (``PREPARE
TRANSACTION``). Then it survives the process, the connection and the server, until the committer on the driver commits it, or, in
another attempt, any process does. Records are seen when the checkpoint is complete.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from funken.connectors.base import CommitterContext, ConnectorContext
from funken.connectors.postgresql.database import PostgresDatabase, psycopg
from funken.connectors.schemas import RowMaker
from funken.connectors.schemas import size_of_rows as bytes_of
from funken.connectors.sink import CommitRequest, Committer, DeliveryGuarantee, SinkWriter
from funken.connectors.sql.database import SqlProblem, patiently
from funken.connectors.sql.sink import SqlSink, SqlWriter
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SinkNotWritable

# ---- The committer of an exactly-once PostgreSQL sink, on the driver.
#
# At a recovery it first ends the connections of writers of former attempts, whose processes may live on; then it
# commits what the checkpoint names, and rolls back what else bears the sink's name. Until that is done no writer
# runs.
#
# Whether a transaction whose name is gone was committed is asked of the server by its number (``txid_status``).


T = TypeVar("T")

logger = logging.getLogger(__name__)

_TRIES, _PAUSE_S = 100, 0.1
_GONE, _BUSY = "42704", "55000"


class PreparedRows(NamedTuple):
    """A prepared transaction: its name, and its number in the server."""

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
        """Commit transactions; for one whose name is gone, ask for its fate."""
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
        """End the writers of former attempts, commit the transactions of the checkpoint, roll back the rest."""
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


@dataclass(frozen=True)
class PostgresSink(SqlSink):
    """Writes records to a table; see ``SqlSink`` for columns, keys and records.

    An exactly-once sink needs a ``transaction_prefix``, of which the names of its transactions are made. No other job may use the
    same in this server, for a job that starts rolls back what has its prefix and is in no checkpoint.

    Raises ``SinkNotWritable`` before anything runs, also if the server does not allow prepared transactions
    (``max_prepared_transactions``).

    >>> from funken.connectors import DeliveryGuarantee
    >>> shop = PostgresDatabase("host=db.example dbname=shop user=ada")
    >>> PostgresSink(shop, "totals", ("item", "total"), guarantee=DeliveryGuarantee.EXACTLY_ONCE)
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: the exactly-once sink to table 'totals' has no transaction_prefix; give a name that no
    other job uses in this server.
    """

    database: PostgresDatabase
    transaction_prefix: str = ""

    def __post_init__(self) -> None:
        """Check the arguments as far as possible without the server."""
        super().__post_init__()
        if self.guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return
        if not self.transaction_prefix:
            raise InvalidConfiguration(
                f"the exactly-once sink to table {self.table!r} has no transaction_prefix; give a name that no other job uses in "
                "this server."
            )
        if self.key_columns:
            raise InvalidConfiguration(
                f"the sink to table {self.table!r} has key columns and is exactly-once: a prepared transaction locks its keys, "
                "and writers would wait for each other forever. Upserts are idempotent: use AT_LEAST_ONCE, or "
                "leave key_columns out."
            )

    def family(self, operator: str) -> str:
        """Return the beginning of the names of all transactions and connections of this sink's writers."""
        digest = hashlib.sha256(f"{self.transaction_prefix}\0{operator}".encode()).hexdigest()[:24]
        return f"funken-{digest}"

    def look(self, cursor: Any) -> None:
        """Look at the statement, at the user's rights and, for prepared transactions, at the server's settings."""
        super().look(cursor)
        if self.guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return
        cursor.execute("SELECT current_setting('max_prepared_transactions')::int, pg_is_in_recovery()")
        most, standby = cursor.fetchone()
        if standby:
            raise SinkNotWritable(
                f"{self.database!r} is a standby and cannot be written; connect to the primary server."
            )
        if most == 0:
            raise SinkNotWritable(
                f"{self.database!r} does not allow prepared transactions (max_prepared_transactions = 0), which the exactly-once "
                f"sink to table {self.table!r} needs; set it to at least twice the parallelism in postgresql.conf "
                "and restart the "
                "server, or use AT_LEAST_ONCE with key_columns."
            )

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        exactly = self.guarantee is DeliveryGuarantee.EXACTLY_ONCE
        return PreparingWriter(self, context) if exactly else SqlWriter(self, context)

    def committer(self, context: CommitterContext) -> Committer | None:
        """Make the committer of an exactly-once sink."""
        if self.guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return None
        return PostgresCommitter(
            self.database, self.family(context.operator_uid or context.operator), self.table, context
        )


class PreparingWriter(SinkWriter):
    """Has one connection, made once: when the committer of a later attempt ends it, nothing more is written."""

    def __init__(self, sink: PostgresSink, context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._family = sink.family(context.operator_uid or context.operator)
        self._maker = RowMaker(sink.columns, f"operator {context.operator!r}")
        self._connection: Any = None
        self._inside = False
        self._prepared = context.metrics.counter("numTransactionsPrepared")

    def open(self) -> None:
        """Connect."""
        database = self._sink.database
        self._connection = patiently(database, lambda: database.connect(self._family, autocommit=True), self._failed)

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Insert a block in the transaction, which begins with the first one."""
        rows = self._maker.rows(values)
        try:
            if not self._inside:
                self._connection.execute("BEGIN")
                self._inside = True
            with self._connection.cursor() as cursor:
                self._sink.insert(cursor, rows)
        except psycopg().Error as error:
            raise self._failed(self._sink.database.problem(error)) from error
        self.count_sent(len(rows), bytes_of(rows))

    def prepare_commit(self, checkpoint_id: int | None, end_of_input: bool) -> list[Any]:
        """Prepare the transaction; its name and number are the committable."""
        if not self._inside:
            return []
        when = "end" if checkpoint_id is None else checkpoint_id
        name = f"{self._family}-{self.context.subtask}-{when}-{secrets.token_hex(4)}"
        try:
            # The number tells, when the name is gone, whether it was committed. txid_* are there in all versions.
            (number,) = self._connection.execute("SELECT txid_current()").fetchone()
            self._connection.execute(f"PREPARE TRANSACTION '{name}'")
        except psycopg().Error as error:
            raise self._failed(self._sink.database.problem(error)) from error
        self._inside = False
        self._prepared.inc()
        return [tuple(PreparedRows(name, number))]

    def _failed(self, problem: SqlProblem) -> SinkNotWritable:
        return self.failure(f"table {self._sink.table!r} cannot be written: {problem}")

    def close(self) -> None:
        """Close the connection: the open transaction is rolled back, prepared ones stay."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg().Error):
                connection.close()
