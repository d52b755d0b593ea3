"""How a PostgreSQL server is reached, and what its errors mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from funken.connectors.postgresql.client import psycopg
from funken.connectors.postgresql.values import Unrepresentable, culprit, register
from funken.connectors.sql.database import SqlDatabase, SqlProblem
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, ValueDoesNotFit

# A connection whose server has gone is noticed, also where nothing closes it.
_DEFAULTS = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
_SHOWN = ("host", "hostaddr", "port", "dbname", "user", "sslmode")
LOCK_TIMEOUT_S = 60
"""How long a statement waits for a lock before it fails."""

_REMEDIES = {  # by SQLSTATE, or by its class
    "28P01": "correct user and password",
    "28000": "correct the user, or let pg_hba.conf accept it from this host",
    "3D000": "create the database, or correct dbname",
    "42P01": "create the table, or correct its name (with its schema)",
    "42703": "correct the columns, or add it to the table",
    "42P10": "give the table a primary key or unique index of exactly the key columns",
    "42501": "grant it to this user",
    "42804": "convert the values, or change the type of the column",
    "55P03": "end the transaction that holds the lock; a prepared one is in pg_prepared_xacts",
    "55006": "end the process that uses it, or use another name",
    "53300": "raise max_connections, or lower the parallelism",
    "22": "convert the values to what the column can hold",
    "23": "correct the records, or the constraints of the table",
}
_TRANSIENT = ("08", "40001", "40P01", "57P01", "57P02", "57P03", "53300", "55006")


@dataclass(frozen=True)
class PostgresDatabase(SqlDatabase):
    """A database by its connection string, a URI or ``key=value`` pairs as libpq reads them.

    ``unrepresentable`` decides about dates BC or after 9999, ``24:00:00`` and intervals that Python cannot hold. ``infinity`` is
    an ``InfiniteDate`` or ``InfiniteDatetime`` in any case.

    A password in it is not shown. Better is a file that every machine has (``passfile=...``, or ``~/.pgpass``).

    >>> PostgresDatabase("host=db.example dbname=shop user=ada password=secret")
    PostgresDatabase('host=db.example dbname=shop user=ada')
    >>> PostgresDatabase("host=db.example dbname")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: the connection string of a PostgresDatabase is none (it is not shown: there may be a
    password in it); write 'host=... dbname=... user=...' or 'postgresql://user@host/dbname'.
    """

    conninfo: str = field(repr=False)
    unrepresentable: Unrepresentable = Unrepresentable.TEXT

    placeholder = "%s"

    def __post_init__(self) -> None:
        """Check that it is a connection string."""
        self.parts()

    def __repr__(self) -> str:
        parts = self.parts()
        return "PostgresDatabase({!r})".format(" ".join(f"{key}={parts[key]}" for key in _SHOWN if key in parts))

    def parts(self) -> dict[str, Any]:
        """Return what the connection string says."""
        client = psycopg("psycopg.conninfo")
        try:
            parts: dict[str, Any] = client.conninfo_to_dict(self.conninfo)
        except psycopg().ProgrammingError:
            raise InvalidConfiguration(
                "the connection string of a PostgresDatabase is none (it is not shown: there may be a password in it); write "
                "'host=... dbname=... user=...' or 'postgresql://user@host/dbname'."
            ) from None
        return parts

    def with_defaults(self, **more: Any) -> str:
        """Return a connection string with time limits, and what is given."""
        made: str = psycopg("psycopg.conninfo").make_conninfo("", **(_DEFAULTS | self.parts() | more))
        return made

    def connect(self, name: str = "funken", autocommit: bool = False) -> Any:
        """Connect; ``name`` is seen in ``pg_stat_activity``."""
        connection = psycopg().connect(self.with_defaults(application_name=name[:63]), autocommit=True)
        try:
            register(connection.adapters, self.unrepresentable)
            connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT_S}s'")
            connection.execute("SET idle_in_transaction_session_timeout = 0")
            connection.autocommit = autocommit
        except BaseException:
            connection.close()
            raise
        return connection

    def write(
        self, cursor: Any, table: str, columns: Sequence[str], keys: Sequence[str], rows: Sequence[tuple[Any, ...]]
    ) -> None:
        """Insert rows by ``COPY``, or replace them by key."""
        if keys:
            cursor.executemany(self.upsert(table, columns, keys), rows)
            return
        names = ", ".join(map(super().quote, columns))  # without parameters, a percent sign is one
        with cursor.copy(f"COPY {super().quote(table)} ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)

    def fetch(self, cursor: Any, where: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query; the error for a value that cannot be read names its row and column."""
        try:
            return list(cursor.fetchall())
        except Exception as error:
            found = culprit(cursor)
            if found is None:
                raise
            column, row, fact = found
            raise ValueDoesNotFit(
                f"{where}: column {column!r} of the row ({', '.join(row)}) cannot be read: {fact}. Correct the row, "
                "select the column as text, or use PostgresDatabase(..., unrepresentable=Unrepresentable.TEXT) or NONE."
            ) from error

    def quote(self, identifier: str) -> str:
        """Quote; a percent sign would be a placeholder."""
        return super().quote(identifier).replace("%", "%%")

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Those of the client."""
        return (psycopg().Error,)

    def problem(self, error: Exception) -> SqlProblem:
        """Say what an error means by its SQLSTATE; one without is of the connection."""
        state = getattr(error, "sqlstate", None)
        primary = getattr(getattr(error, "diag", None), "message_primary", None)
        text = str(primary or error).strip().splitlines()[0] if str(primary or error).strip() else type(error).__name__
        if state is None:
            state, remedy, transient = self._of_connection(error, text)
            return SqlProblem(f"{self!r}: {text}", remedy, transient)
        remedy = _REMEDIES.get(state) or _REMEDIES.get(state[:2]) or "see what PostgreSQL says"
        if "prepared transactions" in text:
            remedy = "raise max_prepared_transactions in postgresql.conf and restart the server"
        return SqlProblem(f"{self!r}: {text} ({state})", remedy, state.startswith(_TRANSIENT))

    def _of_connection(self, error: Exception, text: str) -> tuple[str, str, bool]:
        """Read the text of an error that has no SQLSTATE: libpq gives none while it connects."""
        operational = isinstance(error, psycopg().OperationalError)
        for part, state in (
            ("password authentication failed", "28P01"),
            ("no password supplied", "28P01"),
            ("no pg_hba.conf entry", "28000"),
            ('role "', "28000"),
            ('database "', "3D000"),
        ):
            if part in str(error):
                return state, _REMEDIES[state], False
        if operational:
            return "08000", "start the server, or correct host and port", True
        return "", "see what the client says", False


__all__ = ["LOCK_TIMEOUT_S", "PostgresDatabase", "psycopg"]
