"""Databases: their dialects, connections and queries in the background, and lookups.

What the connectors need of a database: connections, its dialect, and what its errors mean.

A ``SqlDatabase`` is a frozen description that travels to the tasks; passwords in it are in no ``repr`` and in no error. Whoever
talks to a database goes through ``patiently``: transient errors are retried a few times, with a pause that doubles.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from funken import extras
from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady, InvalidConfiguration, SourceNotReadable
from funken.io.threads import DaemonThreadPool

T = TypeVar("T")

logger = logging.getLogger(__name__)

TRIES = 4
_FIRST_PAUSE_S = 0.2


class SqlProblem(NamedTuple):
    """The meaning of a database's error: the fact, the remedy, and whether it may go away by itself."""

    fact: str
    remedy: str
    transient: bool = False

    def __str__(self) -> str:
        return f"{self.fact}; {self.remedy}."


class SqlDatabase:
    """A connection to a database, and its dialect; subclasses are frozen dataclasses."""

    placeholder = "?"
    """The mark of a parameter in a statement."""

    def connect(self, name: str = "funken") -> Any:
        """Return a new DB-API connection, in which a transaction begins by itself; ``name`` is for people who look."""
        raise NotImplementedError

    def quote(self, identifier: str) -> str:
        """Return a name as it is written in statements; a table's may have a schema before it, ``schema.table``.

        >>> SqlDatabase().quote('shop.the "best" orders')
        '"shop"."the ""best"" orders"'
        """
        return ".".join('"{}"'.format(part.replace('"', '""')) for part in identifier.split("."))

    def upsert(self, table: str, columns: Sequence[str], keys: Sequence[str]) -> str:
        """Return the statement that inserts a row, or replaces the one with the same key.

        >>> SqlDatabase().upsert("totals", ["item", "total"], ["item"])
        'INSERT INTO "totals" ("item", "total") VALUES (?, ?) ON CONFLICT ("item") DO UPDATE SET "total" = excluded."total"'
        """
        others = [self.quote(column) for column in columns if column not in keys]
        action = "UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in others) if others else "NOTHING"
        return f"{self.insert(table, columns)} ON CONFLICT ({', '.join(map(self.quote, keys))}) DO {action}"

    def upsert_on_duplicate(self, table: str, columns: Sequence[str], keys: Sequence[str]) -> str:
        """Return the same statement in the dialect of MySQL."""
        names = [self.quote(column) for column in columns if column not in keys] or [self.quote(keys[0])]
        changes = ", ".join(f"{name} = VALUES({name})" for name in names)
        return f"{self.insert(table, columns)} ON DUPLICATE KEY UPDATE {changes}"

    def marks(self, count: int) -> list[str]:
        """Return the marks of so many parameters of a statement.

        >>> SqlDatabase().marks(2)
        ['?', '?']
        """
        mark = self.placeholder
        return [f":{number}" for number in range(1, count + 1)] if mark == ":1" else [mark] * count

    def insert(self, table: str, columns: Sequence[str]) -> str:
        """Return the statement that inserts a row."""
        names, marks = ", ".join(map(self.quote, columns)), ", ".join(self.marks(len(columns)))
        return f"INSERT INTO {self.quote(table)} ({names}) VALUES ({marks})"

    def fetch(self, cursor: Any, where: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query; ``where`` names it for an error."""
        return [tuple(row) for row in cursor.fetchall()]

    def limit(self, rows: int) -> str:
        """Return the clause that limits a query to so many rows."""
        return f" LIMIT {rows}"

    def write(
        self, cursor: Any, table: str, columns: Sequence[str], keys: Sequence[str], rows: Sequence[tuple[Any, ...]]
    ) -> None:
        """Insert rows; with keys, replace those that are there."""
        statement = self.upsert(table, columns, keys) if keys else self.insert(table, columns)
        cursor.executemany(statement, rows)

    def probe(self, cursor: Any, table: str, columns: Sequence[str], keys: Sequence[str]) -> None:
        """Let the database check the statement of ``write`` without running it; raise its complaint."""
        statement = self.upsert(table, columns, keys) if keys else self.insert(table, columns)
        cursor.execute(f"EXPLAIN {statement}", (None,) * len(columns))

    def problem(self, error: Exception) -> SqlProblem:
        """Return the meaning of an error."""
        return SqlProblem(f"{type(error).__name__}: {str(error).strip()}", "see the database's message")

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The errors that ``problem`` explains."""
        return (Exception,)


def patiently(
    database: SqlDatabase, work: Callable[[], T], fail: Callable[[SqlProblem], Exception], tries: int = TRIES
) -> T:
    """Do something with a database; retry it after transient errors, and raise ``fail(problem)`` in the end.

    ``work`` has to be repeatable: it connects anew if it has to.
    """
    pause = _FIRST_PAUSE_S
    for attempt in range(tries):
        try:
            return work()
        except database.errors as error:
            problem = database.problem(error)
            if not problem.transient or attempt == tries - 1:
                raise fail(problem) from error
            logger.info("%r: %s; retried in %.1f s", database, problem.fact, pause)
        threading.Event().wait(pause)
        pause *= 2
    raise AssertionError("the last try returns or raises")


class SqlSession:
    """One connection that is made when it is needed, and made anew after an error."""

    def __init__(self, database: SqlDatabase, name: str) -> None:
        self.database, self._name = database, name
        self._connection: Any = None

    def transaction(self, work: Callable[[Any], T]) -> T:
        """Run ``work(cursor)`` in one transaction."""
        if self._connection is None:
            self._connection = self.database.connect(self._name)
        try:
            cursor = self._connection.cursor()
            try:
                result = work(cursor)
            finally:
                with suppress(*self.database.errors):
                    cursor.close()
            self._connection.commit()
        except BaseException:
            self.close()
            raise
        return result

    @staticmethod
    def once(database: SqlDatabase, name: str, work: Callable[[Any], T], fail: Callable[[SqlProblem], Exception]) -> T:
        """Run ``work(cursor)`` patiently, by a connection of its own."""
        with closing(SqlSession(database, name)) as session:
            return patiently(database, lambda: session.transaction(work), fail)

    def close(self) -> None:
        """Close the connection: uncommitted work is rolled back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*self.database.errors):
                connection.close()


# ---- Queries of a reader in a thread of their own, so that a poll never waits for a database.


class Background(Generic[T]):
    """One call at a time in one thread; ``wake`` is called when its result is there.

    >>> from threading import Event
    >>> there = Event()
    >>> calls = Background(there.set)
    >>> calls.begin(lambda: 7)
    >>> there.wait(10), calls.take(), calls.busy
    (True, 7, False)
    >>> calls.close(lambda: None)
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._pool = DaemonThreadPool(1, "funken-sql")
        self._closed = False
        self._future: Future[T] | None = None

    @property
    def busy(self) -> bool:
        """True if a call was begun and its result not taken."""
        return self._future is not None

    def begin(self, work: Callable[[], T]) -> None:
        """Begin a call."""
        self._future = self._pool.submit(work)
        self._future.add_done_callback(lambda _: self._wake())

    def take(self) -> T | None:
        """Return the result, or raise the call's exception; ``None`` while it runs."""
        if self._future is None or not self._future.done():
            return None
        future, self._future = self._future, None
        return future.result()

    def close(self, last: Callable[[], None]) -> None:
        """Run ``last`` in the thread when it is free, and let it end; returns at once."""
        self._future = None
        if not self._closed:
            self._closed = True
            self._pool.submit(last)
        self._pool.shutdown(wait=False)


# ---- Any database that SQLAlchemy reaches (``pip install funken[sqlalchemy]`` and its driver): at least once, or
# by staged rows.
#
# SQLAlchemy makes the connections and knows the dialect; statements go to the DB-API driver itself.


_MARKS = {"qmark": "?", "format": "%s", "pyformat": "%s"}


@dataclass(frozen=True)
class EngineDatabase(SqlDatabase):
    """A database by its SQLAlchemy URL, such as ``mysql+pymysql://user:password@host/shop``.

    >>> EngineDatabase("sqlite:///shop.db").placeholder
    '?'
    >>> EngineDatabase("mysql+pymysql://ada:secret@host/shop")
    EngineDatabase()
    """

    url: str = field(repr=False)  # there may be a password in it

    def _sqlalchemy(self) -> Any:
        return extras.required("sqlalchemy", "sqlalchemy", "EngineDatabase needs SQLAlchemy")

    @cached_property
    def _engine(self) -> Any:
        sqlalchemy = self._sqlalchemy()
        try:
            return sqlalchemy.create_engine(self.url, poolclass=sqlalchemy.NullPool)
        except sqlalchemy.exc.ArgumentError:
            raise InvalidConfiguration(
                "the URL of an EngineDatabase is no SQLAlchemy URL (it is not shown: there may be a password in it); correct it."
            ) from None
        except ImportError as error:
            raise EnvironmentNotReady(f"the driver of an EngineDatabase is missing: {error}; install it.") from error

    def __getstate__(self) -> dict[str, Any]:
        """An engine stays where it is."""
        return {"url": self.url}

    @property
    def placeholder(self) -> str:  # type: ignore[override]
        """The driver's mark of a parameter."""
        return _MARKS.get(self._engine.dialect.paramstyle, ":1")

    def connect(self, name: str = "funken") -> Any:
        """Connect by the driver."""
        return self._engine.raw_connection()

    def quote(self, identifier: str) -> str:
        """Quote as the dialect does."""
        return ".".join(
            self._engine.dialect.identifier_preparer.quote_identifier(part) for part in identifier.split(".")
        )

    def upsert(self, table: str, columns: Sequence[str], keys: Sequence[str]) -> str:
        """Return an upsert, in the dialects that have one in a statement of the same parameters."""
        kind = self._engine.dialect.name
        if kind in ("mysql", "mariadb"):
            return self.upsert_on_duplicate(table, columns, keys)
        if kind not in ("sqlite", "postgresql"):
            raise InvalidConfiguration(
                f"there is no upsert for {kind!r} here; leave key_columns out, or write to a view or trigger that merges."
            )
        return super().upsert(table, columns, keys)

    def limit(self, rows: int) -> str:
        """Return the clause that limits a query to so many rows."""
        if self._engine.dialect.name in ("mssql", "oracle"):
            return f" OFFSET 0 ROWS FETCH NEXT {rows} ROWS ONLY"
        return super().limit(rows)

    def probe(self, cursor: Any, table: str, columns: Sequence[str], keys: Sequence[str]) -> None:
        """Select the columns: there is no way to look at an insertion that all databases have."""
        cursor.execute(f"SELECT {', '.join(map(self.quote, columns))} FROM {self.quote(table)} WHERE 1 = 0")

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Those of the driver, and of SQLAlchemy where it connects."""
        return (self._engine.dialect.dbapi.Error, self._sqlalchemy().exc.DBAPIError)

    def problem(self, error: Exception) -> SqlProblem:
        """Pass on the driver's message; errors of the connection may go away."""
        driver = getattr(error, "orig", None) or error
        text = f"{type(driver).__name__}: {str(driver).strip()}"
        transient = bool(getattr(error, "connection_invalidated", False)) or type(driver).__name__ == "InterfaceError"
        return SqlProblem(text, f"see what the driver of {self._engine.dialect.name} says", transient)


# ---- SQLite, by the standard library: a file that the driver and all tasks can open.


@dataclass(frozen=True)
class SqliteDatabase(SqlDatabase):
    """A database in a file, which has to exist; ``timeout`` (s) is a writer's longest wait for another one.

    >>> SqliteDatabase("shop.db")
    SqliteDatabase(path='shop.db', timeout=30.0)
    """

    path: str
    timeout: float = 30.0

    def connect(self, name: str = "funken") -> Any:
        """Open the file; a missing one is not created."""
        address = Path(self.path).absolute().as_uri() + "?mode=rw"
        return sqlite3.connect(address, timeout=self.timeout, uri=True, check_same_thread=False)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """SQLite's."""
        return (sqlite3.Error,)

    def quote(self, identifier: str) -> str:
        """Quote in backticks: an unknown name in double quotes is a text to SQLite."""
        return ".".join("`" + part.replace("`", "``") + "`" for part in identifier.split("."))

    def problem(self, error: Exception) -> SqlProblem:
        """Return the meaning of SQLite's message."""
        text = str(error)
        if "unable to open" in text:
            url = "write the path of the file, not a URL, or " if ":" in self.path else ""
            return SqlProblem(f"{self.path!r} cannot be opened", f"{url}create the database, or correct the path")
        if "no such table" in text:
            return SqlProblem(f"{self.path!r} has {text}", "create it, or correct the name")
        if "column" in text and ("no such" in text or "has no" in text):
            return SqlProblem(text, "correct the columns, or add it to the table")
        if "ON CONFLICT" in text:
            return SqlProblem(text, "give the table a primary key or unique index of exactly the key columns")
        if "locked" in text or "busy" in text:
            return SqlProblem(f"{self.path!r} is locked", "let the other writer end, or set a longer timeout", True)
        if "readonly" in text:
            return SqlProblem(f"{self.path!r} is read-only", "allow this user to write it and its folder")
        return SqlProblem(f"{type(error).__name__}: {text}", "see SQLite's message")


# ---- Lookups: rows of a table for each record, by ``AsyncDataStream`` with ``blocking``, and with ``cached`` if
# they may be old.


@dataclass
class SqlLookup:
    """A function for ``blocking``: looks up the rows of ``query`` with the parameters ``key(record)``.

    ``combine(record, rows)`` returns a list of results, by default the rows, which are tuples. Each thread has its own
    connection. Transient errors are retried. Raises ``SourceNotReadable``.

    >>> import sqlite3, tempfile
    >>> from contextlib import closing
    >>> from funken import AsyncDataStream, blocking, cached
    >>> from funken.connectors.sql import SqliteDatabase
    >>> from funken.testing import local
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with closing(sqlite3.connect(folder + "/shop.db")) as db, db:
    ...         _ = db.execute("CREATE TABLE prices (item PRIMARY KEY, price)")
    ...         _ = db.execute("INSERT INTO prices VALUES ('tea', 3)")
    ...     prices = SqlLookup(
    ...         SqliteDatabase(folder + "/shop.db"), "SELECT price FROM prices WHERE item = ?", lambda order: (order[1],)
    ...     )
    ...     priced = cached(
    ...         blocking(prices, threads=2), "1 min", key=lambda order: order[1], combine=lambda order, rows: [(*order, rows)]
    ...     )
    ...     orders = local([(1, "tea"), (2, "jam"), (3, "tea")])
    ...     AsyncDataStream.ordered_wait(orders, priced, "10 s").execute_and_collect(limit=9)
    [(1, 'tea', [(3,)]), (2, 'jam', []), (3, 'tea', [(3,)])]
    """

    database: SqlDatabase
    query: str
    key: Callable[[Any], tuple[Any, ...]]
    combine: Callable[[Any, list[Any]], list[Any]] | None = None

    def open(self, runtime_context: Any) -> None:
        """Begin without connections; each thread makes its own."""
        self._of_thread = threading.local()
        self._sessions: list[SqlSession] = []

    def async_invoke(self, value: Any) -> list[Any]:
        """Look up the rows of a record."""
        session = getattr(self._of_thread, "session", None)
        if session is None:
            session = self._of_thread.session = SqlSession(self.database, "funken lookup")
            self._sessions.append(session)
        parameters = self.key(value)

        def look(cursor: Any) -> list[Any]:
            cursor.execute(self.query, parameters)
            return self.database.fetch(cursor, f"a lookup of {parameters!r:.200} fails")

        rows = patiently(self.database, lambda: session.transaction(look), _failed)
        return rows if self.combine is None else self.combine(value, rows)

    def close(self) -> None:
        """Close the connections."""
        for session in getattr(self, "_sessions", ()):
            session.close()


def _failed(problem: SqlProblem) -> SourceNotReadable:
    return SourceNotReadable(f"a lookup fails: {problem}")
