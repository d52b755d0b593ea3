"""Any database that SQLAlchemy reaches (``pip install funken[sqlalchemy]`` and its driver): at least once, or by staged rows.

SQLAlchemy makes the connections and knows the dialect; statements go to the DB-API driver itself.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

from funken.connectors.sql.database import SqlDatabase, SqlProblem
from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady, InvalidConfiguration

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
        try:
            return importlib.import_module("sqlalchemy")
        except ImportError as error:
            raise EnvironmentNotReady(
                f"EngineDatabase needs SQLAlchemy ({error}); install it with: pip install 'funken[sqlalchemy]'."
            ) from error

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
        """What the driver takes."""
        return _MARKS.get(self._engine.dialect.paramstyle, ":1")

    def connect(self, name: str = "funken") -> Any:
        """Connect by the driver."""
        return self._engine.raw_connection()

    def quote(self, identifier: str) -> str:
        """Quote as the dialect does."""
        return ".".join(
            self._engine.dialect.identifier_preparer.quote_identifier(part) for part in identifier.split(".")
        )

    def insert(self, table: str, columns: Sequence[str]) -> str:
        """Return the statement that inserts a row."""
        if self.placeholder != ":1":
            return super().insert(table, columns)
        marks = ", ".join(f":{number}" for number in range(1, len(columns) + 1))
        return f"INSERT INTO {self.quote(table)} ({', '.join(map(self.quote, columns))}) VALUES ({marks})"

    def upsert(self, table: str, columns: Sequence[str], keys: Sequence[str]) -> str:
        """Return an upsert, in the dialects that have one in a statement of the same parameters."""
        kind = self._engine.dialect.name
        if kind in ("mysql", "mariadb"):
            others = [self.quote(column) for column in columns if column not in keys] or [self.quote(keys[0])]
            changes = ", ".join(f"{name} = VALUES({name})" for name in others)
            return f"{self.insert(table, columns)} ON DUPLICATE KEY UPDATE {changes}"
        if kind not in ("sqlite", "postgresql"):
            raise InvalidConfiguration(
                f"there is no upsert for {kind!r} here; leave key_columns out, or write to a view or trigger that merges."
            )
        return super().upsert(table, columns, keys)

    def limit(self, rows: int) -> str:
        """Return what ends a query that returns at most so many rows."""
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
        """Pass on what the driver says; errors of the connection may go away."""
        driver = getattr(error, "orig", None) or error
        text = f"{type(driver).__name__}: {str(driver).strip()}"
        transient = bool(getattr(error, "connection_invalidated", False)) or type(driver).__name__ == "InterfaceError"
        return SqlProblem(text, f"see what the driver of {self._engine.dialect.name} says", transient)


__all__ = ["EngineDatabase"]
