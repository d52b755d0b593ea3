"""A server of PostgreSQL: how it is reached, what its errors mean, and its values.

How a PostgreSQL server is reached, and what its errors mean.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from funken import extras
from funken.connectors.sql.database import SqlDatabase, SqlProblem
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, ValueDoesNotFit

# ---- psycopg, imported when it is needed.


def psycopg(module: str = "psycopg") -> Any:
    """Return a module of the client; raises ``EnvironmentNotReady`` if it is not installed."""
    return extras.required(module, "postgresql", "the PostgreSQL connectors need psycopg 3")


# ---- Values that PostgreSQL has and Python's types have not: infinite dates, dates BC or beyond 9999,
# ``24:00:00``.
#
# ``infinity`` is an ``InfiniteDate`` or ``InfiniteDatetime``: the greatest or least date of Python, which is
# written back as infinity. For the others ``Unrepresentable`` decides. It holds in columns, arrays and ranges, in
# queries and in changes.


class Unrepresentable(enum.Enum):
    """The treatment of a value that Python's type cannot hold: the server's text, ``None``, or a failure."""

    TEXT = "text"
    NONE = "none"
    FAIL = "fail"


class InfiniteDate(datetime.date):
    """``infinity`` or ``-infinity``: equal to ``date.max`` or ``date.min``.

    >>> InfiniteDate.of("infinity") == datetime.date.max, InfiniteDate.of("-infinity").sql
    (True, '-infinity')
    """

    @classmethod
    def of(cls, text: str) -> InfiniteDate:
        """Return the date of the server's text."""
        limit = datetime.date.max if text == "infinity" else datetime.date.min
        return cls(limit.year, limit.month, limit.day)

    @property
    def sql(self) -> str:
        """The server's text."""
        return "infinity" if self.year > 1 else "-infinity"


class InfiniteDatetime(datetime.datetime):
    """``infinity`` or ``-infinity``: equal to ``datetime.max`` or ``datetime.min``, of UTC if the column has a time zone.

    >>> InfiniteDatetime.of("infinity", None) == datetime.datetime.max, InfiniteDatetime.of("-infinity", datetime.UTC).sql
    (True, '-infinity')
    """

    @classmethod
    def of(cls, text: str, zone: datetime.tzinfo | None) -> InfiniteDatetime:
        """Return the time of the server's text."""
        greatest = text == "infinity"
        day, time = (datetime.date.max, datetime.time.max) if greatest else (datetime.date.min, datetime.time.min)
        return cls.combine(day, time, zone)

    @property
    def sql(self) -> str:
        """The server's text."""
        return "infinity" if self.year > 1 else "-infinity"


def adapters(of: Unrepresentable) -> Any:
    """Return psycopg's adapters, with loaders and dumpers for these values."""
    made = psycopg("psycopg.adapt").AdaptersMap(psycopg().adapters)
    register(made, of)
    return made


def register(made: Any, of: Unrepresentable) -> None:
    """Register loaders and dumpers for these values."""
    text = psycopg("psycopg.pq").Format.TEXT
    for name, infinite in _INFINITE.items():
        oid = made.types[name].oid
        made.register_loader(oid, _loader(made.get_loader(oid, text), name, infinite, of))
    dumper = _dumper()
    for kind in (InfiniteDate, InfiniteDatetime):
        made.register_dumper(kind, dumper)


_INFINITE: dict[str, Callable[[str], Any] | None] = {
    "date": InfiniteDate.of,
    "timestamp": lambda text: InfiniteDatetime.of(text, None),
    "timestamptz": lambda text: InfiniteDatetime.of(text, datetime.UTC),
    "time": None,
    "timetz": None,
    "interval": None,
}


def _loader(base: Any, name: str, infinite: Callable[[str], Any] | None, of: Unrepresentable) -> Any:
    """Return a loader that asks another first."""

    class TolerantLoader(psycopg("psycopg.adapt").Loader):  # type: ignore[misc]
        def __init__(self, oid: int, context: Any = None) -> None:
            super().__init__(oid, context)
            self._load = base(oid, context).load

        def load(self, data: Any) -> Any:
            try:
                return self._load(data)
            except Exception:  # noqa: BLE001 - whatever the loader of the client raises
                text = bytes(data).decode()
                if infinite is not None and text in ("infinity", "-infinity"):
                    return infinite(text)
                if of is Unrepresentable.FAIL:
                    raise ValueDoesNotFit(f"the {name} {text!r} is none that Python can hold") from None
                return text if of is Unrepresentable.TEXT else None

    return TolerantLoader


def _dumper() -> Any:
    class InfinityDumper(psycopg("psycopg.adapt").Dumper):  # type: ignore[misc]
        def dump(self, value: Any) -> bytes:
            return str(value.sql).encode()

    return InfinityDumper


class _Context:
    """The context in which psycopg makes loaders."""

    connection = None

    def __init__(self, of: Unrepresentable) -> None:
        self.adapters = adapters(of)


def text_loader(of: Unrepresentable) -> Callable[[int, bytes], Any]:
    """Return a converter of the server's texts to Python's values, by their type: the same as a query's."""
    transformer = psycopg("psycopg.adapt").Transformer(_Context(of))
    text = psycopg("psycopg.pq").Format.TEXT
    known: dict[int, Callable[[bytes], Any]] = {}

    def load(kind: int, data: bytes) -> Any:
        loader = known.get(kind)
        if loader is None:
            loader = known[kind] = transformer.get_loader(kind, text).load
        return loader(data)

    return load


def culprit(cursor: Any) -> tuple[str, list[str], str] | None:
    """Return the column, the texts of the row, and why the first value of a result that cannot be read cannot be."""
    result = cursor.pgresult
    transformer = psycopg("psycopg.adapt").Transformer(cursor)
    loaders = [transformer.get_loader(result.ftype(at), result.fformat(at)) for at in range(result.nfields)]
    for row in range(result.ntuples):
        for at, loader in enumerate(loaders):
            value = result.get_value(row, at)
            try:
                None if value is None else loader.load(value)
            except Exception as error:  # noqa: BLE001 - whatever a loader raises
                texts = [
                    f"{result.fname(column).decode()}={(result.get_value(row, column) or b'NULL').decode(errors='replace')[:60]}"
                    for column in range(result.nfields)
                ]
                return result.fname(at).decode(), texts, f"{error}"
    return None


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
"""A statement's longest wait (s) for a lock before it fails."""

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
    "22": "convert the values to the column's type",
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
        """Return the parts of the connection string."""
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
        """Return a connection string with time limits, and these arguments."""
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
        """Return the meaning of an error by its SQLSTATE; one without is of the connection."""
        state = getattr(error, "sqlstate", None)
        primary = getattr(getattr(error, "diag", None), "message_primary", None)
        text = str(primary or error).strip().splitlines()[0] if str(primary or error).strip() else type(error).__name__
        if state is None:
            state, remedy, transient = self._of_connection(error, text)
            return SqlProblem(f"{self!r}: {text}", remedy, transient)
        remedy = _REMEDIES.get(state) or _REMEDIES.get(state[:2]) or "see PostgreSQL's message"
        if "prepared transactions" in text:
            remedy = "raise max_prepared_transactions in postgresql.conf and restart the server"
        return SqlProblem(f"{self!r}: {text} ({state})", remedy, state.startswith(_TRANSIENT))

    def _of_connection(self, error: Exception, text: str) -> tuple[str, str, bool]:
        """Read the text of an error that has no SQLSTATE: libpq has none while it connects."""
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
        return "", "see the client's message", False
