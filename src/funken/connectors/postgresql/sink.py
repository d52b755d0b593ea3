"""A PostgreSQL table as a sink: at least once or by upserts as ``SqlSink``, exactly once by prepared transactions.

Exactly once, a writer inserts the records of a checkpoint in one transaction and prepares it at the barrier (``PREPARE
TRANSACTION``). Then it survives the process, the connection and the server, until the committer on the driver commits it, or, in
another attempt, any process does. Records are seen when the checkpoint is complete.
"""

from __future__ import annotations

import hashlib
import secrets
from contextlib import suppress
from typing import Any

from funken.connectors.context import CommitterContext, ConnectorContext
from funken.connectors.postgresql.client import psycopg
from funken.connectors.postgresql.committer import PostgresCommitter, PreparedRows
from funken.connectors.postgresql.database import PostgresDatabase
from funken.connectors.rows import RowMaker, bytes_of
from funken.connectors.sink import Committer, DeliveryGuarantee, SinkWriter
from funken.connectors.sql.database import SqlProblem, patiently
from funken.connectors.sql.sink import SqlSink, SqlWriter
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SinkNotWritable


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
        """Check what can be checked without the server."""
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
        """Return what the names of all transactions and connections of this sink's writers begin with."""
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


__all__ = ["PostgresSink"]
