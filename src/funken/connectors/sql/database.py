"""What the connectors need of a database: connections, its dialect, and what its errors mean.

A ``SqlDatabase`` is a frozen description that travels to the tasks; passwords in it are in no ``repr`` and in no error. Whoever
talks to a database goes through ``patiently``: transient errors are retried a few times, with a pause that doubles.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

logger = logging.getLogger(__name__)

TRIES = 4
_FIRST_PAUSE_S = 0.2


class SqlProblem(NamedTuple):
    """What an error of a database means: the fact, the remedy, and whether it may go away by itself."""

    fact: str
    remedy: str
    transient: bool = False

    def __str__(self) -> str:
        return f"{self.fact}; {self.remedy}."


class SqlDatabase:
    """How a database is reached, and its dialect; subclasses are frozen dataclasses."""

    placeholder = "?"
    """What stands for a parameter in a statement."""

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

    def insert(self, table: str, columns: Sequence[str]) -> str:
        """Return the statement that inserts a row."""
        names, marks = ", ".join(map(self.quote, columns)), ", ".join([self.placeholder] * len(columns))
        return f"INSERT INTO {self.quote(table)} ({names}) VALUES ({marks})"

    def fetch(self, cursor: Any, where: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query; ``where`` says of what, for an error."""
        return [tuple(row) for row in cursor.fetchall()]

    def limit(self, rows: int) -> str:
        """Return what ends a query that returns at most so many rows."""
        return f" LIMIT {rows}"

    def write(
        self, cursor: Any, table: str, columns: Sequence[str], keys: Sequence[str], rows: Sequence[tuple[Any, ...]]
    ) -> None:
        """Insert rows; with keys, replace those that are there."""
        statement = self.upsert(table, columns, keys) if keys else self.insert(table, columns)
        cursor.executemany(statement, rows)

    def probe(self, cursor: Any, table: str, columns: Sequence[str], keys: Sequence[str]) -> None:
        """Let the database look at the statement of ``write`` without running it; what is wrong with it is raised."""
        statement = self.upsert(table, columns, keys) if keys else self.insert(table, columns)
        cursor.execute(f"EXPLAIN {statement}", (None,) * len(columns))

    def problem(self, error: Exception) -> SqlProblem:
        """Say what an error means."""
        return SqlProblem(f"{type(error).__name__}: {str(error).strip()}", "see what the database says")

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

    def close(self) -> None:
        """Close the connection: what is not committed is rolled back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*self.database.errors):
                connection.close()


__all__ = ["TRIES", "SqlDatabase", "SqlProblem", "SqlSession", "patiently"]
