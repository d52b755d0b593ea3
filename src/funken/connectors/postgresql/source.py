"""Change data capture: the rows of tables, then every change of them, once and in the order of the commits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from funken.connectors.base import Boundedness, ListedSplits, Source, SourceReader, SplitEnumerator
from funken.connectors.context import ConnectorContext
from funken.connectors.postgresql.cdc_reader import CdcReader, CdcSplit
from funken.connectors.postgresql.changes import lsn_of
from funken.connectors.postgresql.database import PostgresDatabase
from funken.connectors.sql.database import SqlDatabase, SqlProblem, SqlSession, patiently
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SourceNotReadable

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
class PostgresCdcSource(Source):
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

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator, which makes publication and slot."""
        return CdcEnumerator(self, parallelism)

    def reader(self, context: ConnectorContext) -> SourceReader:
        """Make the reader."""
        bounded = self.boundedness is Boundedness.BOUNDED
        return CdcReader(self.database, self.slot, self.publication, self.page_size, bounded, context)

    def drop(self) -> None:
        """Drop slot and publication, so that the server need not keep its log for them; fails while the job runs."""
        session = SqlSession(self.database, "funken drop")

        def drop(cursor: Any) -> None:
            cursor.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s",
                (self.slot,),
            )
            cursor.execute(f"DROP PUBLICATION IF EXISTS {self.database.quote(self.publication)}", ())

        try:
            patiently(self.database, lambda: session.transaction(drop), self._not_readable)
        finally:
            session.close()

    def _not_readable(self, problem: SqlProblem) -> SourceNotReadable:
        return SourceNotReadable(f"changes cannot be captured by slot {self.slot!r}: {problem}")


class CdcEnumerator(ListedSplits):
    """Makes what is to be made in the server, before the job runs, and hands out the one split."""

    def __init__(self, source: PostgresCdcSource, parallelism: int) -> None:
        super().__init__(parallelism)
        self._source = source

    def list_splits(self) -> Sequence[CdcSplit]:
        """Check server and tables; make publication and slot: in this order, for a slot does not know later publications."""
        source = self._source
        session = SqlSession(source.database, "funken")
        try:
            keys = self._run(session, self._look)
            self._run(session, lambda cursor: self._publish(cursor, [table for table, _ in keys]))
            lsn = self._run(session, self._make_slot)
        finally:
            session.close()
        tables = tuple(table for table, _ in keys) if source.snapshot else ()
        return [CdcSplit("changes", tables, keys, lsn=lsn)]

    def _run(self, session: SqlSession, work: Any) -> Any:
        return patiently(self._source.database, lambda: session.transaction(work), self._source._not_readable)

    def _look(self, cursor: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
        database = self._source.database
        cursor.execute("SELECT current_setting('wal_level')")
        (level,) = cursor.fetchone()
        if level != "logical":
            raise SourceNotReadable(
                f"{database!r} has wal_level = {level}, which does not say what changes; set it to logical in "
                "postgresql.conf and "
                "restart the server."
            )
        return tuple(self._key_of(cursor, table) for table in self._source.tables)

    def _key_of(self, cursor: Any, table: str) -> tuple[str, tuple[str, ...]]:
        source = self._source
        cursor.execute(_TABLE, (SqlDatabase.quote(source.database, table),))
        found = cursor.fetchone()
        if found is None:
            raise SourceNotReadable(
                f"{source.database!r} has no table {table!r}; create it, or correct its name (with its schema)."
            )
        name, identity, kind, columns, types, readable = found
        if not readable:
            raise SourceNotReadable(f"the user of {source.database!r} may not read table {name!r}; grant SELECT on it.")
        if kind not in ("r", b"r"):
            raise SourceNotReadable(
                f"{name!r} is no ordinary table, whose changes could be captured; name its partitions."
            )
        if not source.snapshot:
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
        source = self._source
        cursor.execute("SELECT count(*) FROM pg_publication WHERE pubname = %s", (source.publication,))
        (there,) = cursor.fetchone()
        cursor.execute("SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s", (source.slot,))
        (slot,) = cursor.fetchone()
        if not there:
            if slot:
                raise SourceNotReadable(
                    f"replication slot {source.slot!r} is there, but not publication {source.publication!r}, and "
                    "a slot does not know "
                    "later ones; drop the slot (drop()), or correct the publication."
                )
            names = ", ".join(map(source.database.quote, tables))
            cursor.execute(f"CREATE PUBLICATION {source.database.quote(source.publication)} FOR TABLE {names}", ())
            return
        cursor.execute(
            "SELECT schemaname || '.' || tablename FROM pg_publication_tables WHERE pubname = %s", (source.publication,)
        )
        missing = set(tables) - {name for (name,) in cursor.fetchall()}
        if missing:
            raise SourceNotReadable(
                f"publication {source.publication!r} lacks {sorted(missing)}; add them (ALTER PUBLICATION ... ADD TABLE), or use "
                "another publication and slot."
            )

    def _make_slot(self, cursor: Any) -> int:
        """Make the slot, if it is not there; returns its position."""
        source = self._source
        cursor.execute(
            "SELECT plugin, database = current_database() FROM pg_replication_slots WHERE slot_name = %s",
            (source.slot,),
        )
        found = cursor.fetchone()
        if found is None:
            cursor.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (source.slot,))
        elif found != ("pgoutput", True):
            raise SourceNotReadable(
                f"replication slot {source.slot!r} is not of plugin 'pgoutput' in this database; use another name."
            )
        cursor.execute(
            "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s", (source.slot,)
        )
        (position,) = cursor.fetchone()
        return lsn_of(position)


__all__ = ["PostgresCdcSource"]
