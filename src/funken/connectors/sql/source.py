"""A query as a bounded source, read in parallel by ranges of a column (Flink's ``JdbcSource``).

A split is a range of the column, from ``lower`` (inclusive) to ``upper`` (exclusive); the first and the last have no outer bound,
so no row is left out. Each is read page by page in the order of the column. A page never ends between rows with equal values, and
neither does what ``poll`` returns: so the last value alone is the position. Each page is a query of its own: rows that others
change meanwhile are seen before or after, not both, as long as their column does not change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from itertools import pairwise
from numbers import Real
from typing import Any

from funken.connectors.base import Batch, ConnectorContext, Source, SourceReader
from funken.connectors.reading import PolledReader, SplitRecords
from funken.connectors.schemas import size_of_rows as bytes_of
from funken.connectors.sql.database import SqlDatabase, SqlProblem, SqlSession, patiently
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SourceNotReadable
from funken.types.callables import Generic, ROW_co


@dataclass(frozen=True)
class SqlSplit:
    """A range of the column; ``after`` is the last value that was read, ``None`` before the first."""

    id: str
    lower: Any = None
    upper: Any = None
    after: Any = None


@dataclass(frozen=True)
class SqlSource(Source[ROW_co], Generic[ROW_co]):
    """The rows of a query, as tuples, or as dicts with ``as_dicts``.

    ``query`` is a ``SELECT`` with the database's placeholders for ``parameters``. ``column`` is one of its columns, best a
    primary key: it orders rows, and must not be null. It is cut into ``partitions`` ranges of equal width between ``lower`` and
    ``upper``, by default the least and greatest value; this takes numbers or dates. Pages have ``page_size`` rows, more if rows
    share a value.

    Raises ``SourceNotReadable`` if the database cannot be reached, or the query fails, or the column has nulls.

    >>> import sqlite3, tempfile
    >>> from contextlib import closing
    >>> from funken import StreamExecutionEnvironment
    >>> from funken.connectors.sql import SqliteDatabase
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with closing(sqlite3.connect(folder + "/shop.db")) as db, db:
    ...         _ = db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item, price)")
    ...         _ = db.executemany("INSERT INTO orders VALUES (?, ?, ?)", [(1, "tea", 3), (2, "jam", 5), (3, "oat", 2)])
    ...     shop = SqliteDatabase(folder + "/shop.db")
    ...     cheap = SqlSource(shop, "SELECT id, item FROM orders WHERE price < ?", "id", parameters=(5,), partitions=2)
    ...     env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    ...     sorted(env.from_source(cheap).execute_and_collect(limit=9))
    [(1, 'tea'), (3, 'oat')]
    """

    database: SqlDatabase
    query: str
    column: str
    parameters: tuple[Any, ...] = ()
    partitions: int = 1
    lower: Any = None
    upper: Any = None
    page_size: int = 10_000
    as_dicts: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.partitions < 1 or self.page_size < 1:
            raise InvalidConfiguration(
                f"a SqlSource needs at least one partition and one row per page, but got {self.partitions} and {self.page_size}."
            )
        if (self.lower is None) != (self.upper is None):
            raise InvalidConfiguration("a SqlSource has only one of lower and upper; give both, or none.")

    def list_splits(self) -> Sequence[SqlSplit]:
        """Reach the database, look for nulls, and for the bounds unless they are set."""
        column = self.database.quote(self.column)

        def look(cursor: Any) -> Any:
            cursor.execute(self.select("*", ["1 = 0"]), self.parameters)
            position_of(self.column, [described[0] for described in cursor.description])
            cursor.execute(self.select("count(*)", [f"{column} IS NULL"]), self.parameters)
            (nulls,) = cursor.fetchone()
            if nulls:
                raise SourceNotReadable(
                    f"column {self.column!r} of a SqlSource is null in {nulls} rows, which no range holds; exclude them in the "
                    "query, or choose another column."
                )
            if self.partitions == 1 or self.lower is not None:
                return self.lower, self.upper
            return self._bounds(cursor, column)

        lower, upper = SqlSession.once(self.database, "funken", look, _not_readable)
        return ranges(lower, upper, self.partitions)

    def _bounds(self, cursor: Any, column: str) -> Any:
        """Return the least and the greatest value; those that are infinite or NaN belong to the outer ranges."""
        mark = self.database.placeholder
        conditions: list[str] = []
        values: list[Any] = []
        while True:
            select = self.select(f"min({column}), max({column})", conditions)
            cursor.execute(select, [*self.parameters, *values])
            [(lower, upper)] = self.database.fetch(cursor, f"bounds of column {self.column!r} of a SqlSource")
            if isinstance(lower, str) != isinstance(upper, str):  # a date that Python cannot hold: one range has all
                return None, None
            if lower is None or (is_finite(lower) and is_finite(upper)) or len(conditions) > _MOST_INFINITE:
                return (None, None) if lower is None or not (is_finite(lower) and is_finite(upper)) else (lower, upper)
            if not is_finite(upper):
                conditions, values = [*conditions, f"{column} < {mark}"], [*values, upper]
            else:
                conditions, values = [*conditions, f"{column} > {mark}"], [*values, lower]

    def reader(self, context: ConnectorContext) -> SourceReader:
        """Make a reader, with a connection of its own."""
        return SqlReader(self, context)

    def select(self, what: str, conditions: Sequence[str], order: str = "") -> str:
        """Return a query of this query."""
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        query = self.query.rstrip().rstrip(";")
        return f"SELECT {what} FROM ({query}) rows_to_read{where}{order}"


_MOST_INFINITE = 4
"""Maximal number of infinite values of a column: NaN, infinity and -infinity."""


def ranges(lower: Any, upper: Any, count: int) -> list[SqlSplit]:
    """Return splits between two values, the outer ones open.

    >>> [(split.lower, split.upper) for split in ranges(0, 30, 3)]
    [(None, 10), (10, 20), (20, None)]
    >>> [(split.lower, split.upper) for split in ranges(5, 6, 4)]
    [(None, 6), (6, None)]
    """
    if lower is None or count == 1:
        return [SqlSplit("0")]
    if not isinstance(lower, (Real, Decimal, date)) or not isinstance(upper, (Real, Decimal, date)):
        raise SourceNotReadable(
            f"a SqlSource cannot cut values such as {lower!r} into ranges; choose a column of numbers or dates, give lower and "
            "upper, or partitions=1."
        )
    first: Any = lower
    width: Any = upper - first
    cuts: list[Any] = []
    for number in range(1, count):
        cut: Any = first + (width * number // count if isinstance(width, int) else width * number / count)
        if isinstance(width, int) and count > width:
            cut = first + number
        if first < cut <= upper and cut not in cuts:
            cuts.append(cut)
    edges = [None, *cuts, None]
    return [SqlSplit(str(n), low, high) for n, (low, high) in enumerate(pairwise(edges))]


def is_same(one: Any, other: Any) -> bool:
    """Return True if two values of the column are the same to the database: NaN is, as in its order.

    >>> is_same(Decimal("NaN"), Decimal("NaN")), is_same(1, 2)
    (True, False)
    """
    return bool(one == other) or (one != one and other != other)  # noqa: PLR0124 - NaN


def is_finite(value: Any) -> bool:
    """Return True if ranges can be cut from a value.

    >>> is_finite(Decimal("NaN")), is_finite(float("inf")), is_finite(date.max), is_finite(7)
    (False, False, False, True)
    """
    if isinstance(value, date):
        return value.year not in (1, 9999)
    return not isinstance(value, float | Decimal) or math.isfinite(value)


def position_of(column: str, names: Sequence[str]) -> int:
    """Return the place of a column among those of the query; SQLite does not tell if there is no such column.

    >>> position_of("ID", ["item", "id"])
    1
    """
    for number, name in enumerate(names):
        if name == column or name.lower() == column.lower():
            return number
    raise SourceNotReadable(
        f"the query of a SqlSource has no column {column!r}, but {list(names)}; correct one of them."
    )


def _not_readable(problem: SqlProblem) -> SourceNotReadable:
    return SourceNotReadable(f"a SqlSource cannot read: {problem}")


class SqlReader(PolledReader):
    """Reads pages, a split after the other."""

    blocks_ahead = 1

    def __init__(self, source: SqlSource[Any], context: ConnectorContext) -> None:
        super().__init__(context)
        self._source = source
        self._session = SqlSession(source.database, f"funken {context.operator}")
        #: the columns of the query, and where the one is that orders rows
        self._names: list[str] = []
        self._key = -1
        self._count = context.metrics.counter("numRecordsRead")

    def fetch(self, splits: Sequence[SqlSplit]) -> Sequence[SplitRecords]:
        """Read a page of the first range."""
        split = splits[0]
        rows, is_last = self._read(split)
        following = None if is_last else self.advance(split, rows)
        return [SplitRecords(split.id, rows, following, bytes_of(rows))]

    def advance(self, split: SqlSplit, records: Sequence[Any]) -> SqlSplit:
        """Go on after the last value."""
        return replace(split, after=records[-1][self._key])

    def end_of_batch(self, records: Sequence[Any], end: int) -> int:
        """Keep rows of one value together: it is their position."""
        while end < len(records) and is_same(records[end][self._key], records[end - 1][self._key]):
            end += 1
        return end

    def batch(self, split: SqlSplit, records: Sequence[Any]) -> Batch:
        """Return rows, or dicts."""
        self._count.inc(len(records))
        names = self._names
        values = [dict(zip(names, row, strict=True)) for row in records] if self._source.as_dicts else list(records)
        return Batch(values, split=split.id)

    def explain(self, error: Exception) -> Exception:
        """Return the database's errors: they are explained where they are raised."""
        return error

    def disconnect(self) -> None:
        """Close the connection."""
        self._session.close()

    def _read(self, split: SqlSplit) -> tuple[list[Any], bool]:
        def fail(problem: SqlProblem) -> Exception:
            return SourceNotReadable(f"{self._where(split)}: {problem}", self.context.operator, self.context.subtask)

        return patiently(
            self._source.database, lambda: self._session.transaction(lambda cursor: self._page(cursor, split)), fail
        )

    def _page(self, cursor: Any, split: SqlSplit) -> tuple[list[Any], bool]:
        """Read the next rows; those that share the last value are left for the next page, or are all of this one."""
        source, size = self._source, self._source.page_size
        column, mark = source.database.quote(source.column), source.database.placeholder
        conditions, values = [], list(source.parameters)
        if split.after is not None:
            conditions, values = [f"{column} > {mark}"], [*values, split.after]
        elif split.lower is not None:
            conditions, values = [f"{column} >= {mark}"], [*values, split.lower]
        if split.upper is not None:
            conditions, values = [*conditions, f"{column} < {mark}"], [*values, split.upper]
        order = f" ORDER BY {column}{source.database.limit(size + 1)}"
        cursor.execute(source.select("*", conditions, order), values)
        rows = source.database.fetch(cursor, self._where(split))
        self._names = [described[0] for described in cursor.description]
        self._key = key = position_of(source.column, self._names)
        if len(rows) <= size:
            return rows, True
        if rows[-1][key] is None:
            raise SourceNotReadable(
                f"{self._where(split)}: column {source.column!r} has a value that is read as None, which is no position. "
                "Read such values as text, or choose another column."
            )
        end = size
        while end and is_same(rows[end - 1][key], rows[size][key]):
            end -= 1
        if end:
            return rows[:end], False
        # More rows than a page share one value: all of them.
        cursor.execute(source.select("*", [f"{column} = {mark}"]), [*source.parameters, rows[0][key]])
        return source.database.fetch(cursor, self._where(split)), False

    def _where(self, split: SqlSplit) -> str:
        """Return the name of the query and range being read, for an error."""
        source, query = self._source, " ".join(self._source.query.split())
        after = "" if split.after is None else f", rows after {source.column} = {split.after!r}"
        return f"operator {self.context.operator!r} cannot read the query {query[:200]!r} (range {split.id}{after})"
