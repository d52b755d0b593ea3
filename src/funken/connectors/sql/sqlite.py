"""SQLite, by the standard library: a file that the driver and all tasks can open."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from funken.connectors.sql.database import SqlDatabase, SqlProblem
from funken.dataclass import dataclass


@dataclass(frozen=True)
class SqliteDatabase(SqlDatabase):
    """A database in a file, which has to exist; ``timeout`` (s) is how long a writer waits for another one.

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

    def problem(self, error: Exception) -> SqlProblem:
        """Say what SQLite's message means."""
        text = str(error)
        if "unable to open" in text:
            return SqlProblem(f"{self.path!r} cannot be opened", "create the database, or correct the path")
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
        return SqlProblem(f"{type(error).__name__}: {text}", "see what SQLite says")


__all__ = ["SqliteDatabase"]
