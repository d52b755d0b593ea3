"""Lookups: rows of a table for each record, by ``AsyncDataStream`` with ``blocking``, and with ``cached`` if they may be old."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from funken.connectors.sql.database import SqlDatabase, SqlProblem, SqlSession, patiently
from funken.dataclass import dataclass
from funken.errors import SourceNotReadable


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


__all__ = ["SqlLookup"]
