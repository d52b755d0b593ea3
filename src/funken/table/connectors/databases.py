"""``'connector' = 'jdbc'``: tables of databases, read, looked up and written.

URLs are Java's (``jdbc:postgresql://host:5432/shop``, ``jdbc:sqlite:/data/shop.db``) or SQLAlchemy's (``mysql+pymysql://...``).
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from funken.connectors.base import ConnectorContext
from funken.connectors.postgresql.database import PostgresDatabase
from funken.connectors.schemas import size_of_rows as bytes_of
from funken.connectors.sink import SinkWriter
from funken.connectors.sql.database import (
    EngineDatabase,
    SqlDatabase,
    SqliteDatabase,
    SqlProblem,
    SqlSession,
    patiently,
)
from funken.connectors.sql.sink import SqlSink, SqlWriter
from funken.connectors.sql.source import SqlSource
from funken.dataclass import dataclass
from funken.errors import InvalidProgram, SourceNotReadable
from funken.table.changelog import ChangelogMode
from funken.table.connectors.contract import LookupTable, ScanTable, SinkTable, SourceCondition, TableContext
from funken.table.connectors.factory import TableFactory
from funken.table.connectors.json_values import JsonRules, reader_of, text_reader
from funken.table.connectors.options import (
    ConnectorOption,
    OptionValues,
    at_least,
    boolean,
    duration,
    integer,
    one_of,
    positive,
    text,
)
from funken.table.types import LogicalType
from funken.timing.clock import SystemClock
from funken.types.row import Row, RowKind

_RESTARTS = "after an error the job restarts from its last checkpoint, by its restart strategy"
LOOKUP_OPTIONS = (
    ConnectorOption("lookup.cache", one_of("none", "partial", "full"), None),
    ConnectorOption("lookup.partial-cache.max-rows", integer, 10_000),
    ConnectorOption("lookup.partial-cache.expire-after-write", duration, None),
    ConnectorOption("lookup.partial-cache.expire-after-access", duration, None),
    ConnectorOption("lookup.partial-cache.cache-missing-key", boolean, True),
    ConnectorOption("lookup.max-retries", at_least(0, integer), 3, unused=_RESTARTS),
)


def table_name(value: str) -> str:
    """Return the name of a table, whose parts may be quoted: Flink puts it into statements as it is.

    >>> table_name('"shop"."orders"'), table_name('shop"."orders'), table_name("`orders`"), table_name("shop.orders")
    ('shop.orders', 'shop.orders', 'orders', 'shop.orders')
    """
    return re.sub(r"""["`]\.["`]""", ".", value).strip('"`')


_OPTIONS = (
    ConnectorOption("url"),
    ConnectorOption("table-name", table_name),
    ConnectorOption("driver", text, None, unused="the URL names the driver"),
    ConnectorOption("username", text, None),
    ConnectorOption("password", text, None),
    ConnectorOption("connection.max-retry-timeout", at_least(1000, duration, "1 s"), 60_000, unused=_RESTARTS),
    ConnectorOption("scan.partition.column", text, None),
    ConnectorOption("scan.partition.num", integer, None),
    ConnectorOption("scan.partition.lower-bound", integer, None),
    ConnectorOption("scan.partition.upper-bound", integer, None),
    ConnectorOption("scan.fetch-size", integer, 10_000),
    ConnectorOption("scan.auto-commit", boolean, True, unused="rows are fetched as the driver of Python does it"),
    *LOOKUP_OPTIONS,
    ConnectorOption("lookup.cache.max-rows", integer, None),
    ConnectorOption("lookup.cache.ttl", duration, None),
    ConnectorOption("lookup.cache.caching-missing-key", boolean, None),
    ConnectorOption("filter.handling.policy", one_of("always", "never"), "always"),
    ConnectorOption("compatible-mode", text, None, unused="the URL names the dialect"),
    ConnectorOption("sink.buffer-flush.max-rows", integer, 100),
    ConnectorOption(
        "sink.buffer-flush.interval",
        duration,
        1000,
        unused="rows are written when max-rows are there, and at each checkpoint",
    ),
    ConnectorOption("sink.max-retries", at_least(0, integer), 3, unused=_RESTARTS),
    ConnectorOption("sink.parallelism", positive, None),
)
_RANGES = tuple(f"scan.partition.{part}" for part in ("column", "num", "lower-bound", "upper-bound"))
_TOGETHER = (_RANGES, ("lookup.cache.max-rows", "lookup.cache.ttl"))
"""Options of which all are set, or none."""
_CLOCK = SystemClock()
_NUMBER = "funken_row"
"""The column that numbers the rows of a table without a key."""
Convert = Callable[[Any], Any]


def database_of(path: str, url: str, user: str | None, password: str | None) -> SqlDatabase:
    """Return the database of a URL; raises ``InvalidProgram``.

    >>> database_of("t", "jdbc:postgresql://db:5432/shop?sslmode=require", "ada", "secret")
    PostgresDatabase('host=db port=5432 dbname=shop user=ada sslmode=require')
    >>> database_of("t", "jdbc:oracle:thin:@db", None, None)
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: Table 't': the URL 'jdbc:oracle:...' is of a database that is unknown here. Write
    'jdbc:postgresql://..', 'jdbc:mysql://..', 'jdbc:sqlite:..', or a URL of SQLAlchemy such as 'mysql+pymysql://host/shop'.
    """
    bare = url.removeprefix("jdbc:")
    scheme = bare.split(":", 1)[0].lower()
    if scheme in ("postgresql", "postgres"):
        return PostgresDatabase(postgresql_conninfo(bare, user, password))
    if scheme == "sqlite" and not bare.startswith("sqlite:///"):
        return SqliteDatabase(bare.removeprefix("sqlite:"))
    parts = urlsplit(bare)
    if (scheme in ("mysql", "mariadb") or not url.startswith("jdbc:")) and parts.netloc + parts.path:
        driver = f"{scheme}+pymysql" if scheme in ("mysql", "mariadb") else scheme
        secret = f":{quote(password, '')}" if password else ""
        login = f"{quote(user, '')}{secret}@" if user else ""
        query = f"?{parts.query}" if parts.query and not url.startswith("jdbc:") else ""
        return EngineDatabase(f"{driver}://{login}{parts.netloc}{parts.path}{query}")
    raise InvalidProgram(
        f"Table {path!r}: the URL 'jdbc:{scheme}:...' is of a database that is unknown here. Write 'jdbc:postgresql://..', "
        "'jdbc:mysql://..', 'jdbc:sqlite:..', or a URL of SQLAlchemy such as 'mysql+pymysql://host/shop'."
    )


def postgresql_conninfo(url: str, user: str | None, password: str | None) -> str:
    """Return a URL as a connection string of libpq."""
    parts = urlsplit(url)
    known = {"sslmode", "connect_timeout", "application_name", "options", "user", "password", "sslrootcert"}
    values = {
        "host": parts.hostname or "localhost",
        "port": str(parts.port or 5432),
        "user": user,
        "password": password,
        "dbname": parts.path.lstrip("/"),
        **{key: value for key, value in parse_qsl(parts.query) if key in known},
    }
    return " ".join(f"{key}='{_escaped(value)}'" for key, value in values.items() if value)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")


def converter_of(type_: LogicalType) -> Convert:
    """Return the converter of a driver's values to a type; they may be text for times and decimals.

    >>> from funken.table.types import DataTypes
    >>> converter_of(DataTypes.DECIMAL(10, 2))(1.5), converter_of(DataTypes.DATE())("2024-02-03")
    (Decimal('1.50'), datetime.date(2024, 2, 3))
    """
    name = type(type_).__name__
    if name in ("TimestampType", "LocalZonedTimestampType"):
        return text_reader(type_)
    if name == "BooleanType":
        return lambda value: bool(value) if isinstance(value, int) else str(value).strip().lower() in ("true", "t", "1")
    if name in ("CharType", "VarCharType"):
        return str
    if name in ("BinaryType", "VarBinaryType"):
        return bytes
    return reader_of(type_, JsonRules())


@dataclass(frozen=True)
class ToRow:
    """Makes rows of tuples of a query, whose first columns are those of the table."""

    columns: tuple[tuple[str, LogicalType], ...]

    def __call__(self, found: Any) -> Row:
        """Return the row."""
        return Row(*converted(found, self.columns))


def converted(found: Sequence[Any], columns: Sequence[tuple[str, LogicalType]]) -> list[Any]:
    """Return the values of columns."""
    values = []
    for value, (name, type_) in zip(found, columns, strict=False):
        try:
            values.append(None if value is None else _converter(type_)(value))
        except (ValueError, TypeError, ArithmeticError) as error:
            raise ValueError(f"column {name!r} has {value!r:.60}, which is no {type_}: {error}") from None
    return values


_converters: dict[LogicalType, Convert] = {}


def _converter(type_: LogicalType) -> Convert:
    found = _converters.get(type_)
    if found is None:
        found = _converters[type_] = converter_of(type_)
    return found


def _written(value: Any) -> Any:
    """Return a value as every driver takes it."""
    return value


def _for_sqlite(value: Any) -> Any:
    """Return a value as SQLite keeps it: decimals and times are texts."""
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    return value.isoformat(" ") if hasattr(value, "hour") and hasattr(value, "year") else str(value)


class DatabaseScan(ScanTable):
    """Reads a table once, in ranges of a column."""

    def __init__(self, context: TableContext, options: OptionValues, database: SqlDatabase) -> None:
        self._context, self._options, self._database = context, options, database
        self._where = ""
        self._limit: int | None = None

    def filtered(self, conditions: Sequence[SourceCondition]) -> tuple[ScanTable, tuple[int, ...]]:
        """Return a scan with a WHERE clause of the comparisons that the database makes as SQL does here."""
        exact = isinstance(self._database, PostgresDatabase)
        texts: dict[int, str] = {}
        taken = conditions if self._options["filter.handling.policy"] == "always" else ()
        for place, condition in enumerate(taken):
            comparison = condition.comparison()
            if comparison is not None and comparison.column in self._context.names:
                text = comparison.sql(self._database.quote(comparison.column), exact)
                if text is not None:
                    texts[place] = text
        found = DatabaseScan(self._context, self._options, self._database)
        found._where = f" WHERE {' AND '.join(texts.values())}" if texts else ""
        return found, tuple(texts)

    def limited(self, count: int) -> ScanTable:
        """Return a scan of the rows that come first by the column that orders them."""
        found = DatabaseScan(self._context, self._options, self._database)
        found._where, found._limit = self._where, count
        return found

    def _query(self, column: str | None) -> str:
        """Return the query of the rows; without a ``column`` to read them by they are numbered, before any is left out."""
        database, names = self._database, self._context.names
        shown = [database.quote(name) for name in names]
        rows = database.quote(self._options["table-name"])
        order = database.quote(column or _NUMBER)
        if column is None:
            number = f"ROW_NUMBER() OVER (ORDER BY {', '.join(shown)}) AS {order}"
            rows = f"(SELECT {', '.join(shown)}, {number} FROM {rows}) numbered_rows"
        if column not in names:
            shown.append(order)
        query = f"SELECT {', '.join(shown)} FROM {rows}{self._where}"
        return query if self._limit is None else f"{query} ORDER BY {order}{database.limit(self._limit)}"

    def stream(self, env: Any) -> Any:
        """Return the rows."""
        options = self._options
        column = options["scan.partition.column"]
        if column is None and len(self._context.primary_key) == 1:
            [column] = self._context.primary_key
        count = options["scan.partition.num"]
        source = SqlSource(
            self._database,
            self._query(column),
            column or _NUMBER,
            partitions=count or 1,
            lower=options["scan.partition.lower-bound"],
            upper=options["scan.partition.upper-bound"],
            page_size=options["scan.fetch-size"] or 10_000,
        )
        return env.from_source(source, None, self._context.path).map(ToRow(self._context.columns)).name("rows")


@dataclass(frozen=True)
class ChangesSink(SqlSink):
    """Writes changes into a table: upserts and deletions by key, or insertions."""

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        return ChangesWriter(self, context)

    def apply(self, cursor: Any, rows: Sequence[Any]) -> None:
        """Apply changes: of those of one key the last."""
        adapt = _for_sqlite if isinstance(self.database, SqliteDatabase) else _written
        values = [(row.get_row_kind(), tuple(map(adapt, row))) for row in rows]
        if not self.key_columns:
            self.database.write(cursor, self.table, self.columns, (), [row for _, row in values])
            return
        places = [self.columns.index(column) for column in self.key_columns]
        last = {tuple(row[place] for place in places): (kind, row) for kind, row in values}
        in_order = sorted(last, key=repr)
        kept = [last[key][1] for key in in_order if last[key][0] not in _REMOVED]
        gone = [key for key in in_order if last[key][0] in _REMOVED]
        if kept:
            self.database.write(cursor, self.table, self.columns, self.key_columns, kept)
        if gone:
            mark = self.database.placeholder
            condition = " AND ".join(f"{self.database.quote(column)} = {mark}" for column in self.key_columns)
            cursor.executemany(f"DELETE FROM {self.database.quote(self.table)} WHERE {condition}", gone)


_REMOVED = (RowKind.DELETE, RowKind.UPDATE_BEFORE)


class ChangesWriter(SqlWriter):
    """Applies changes block by block, in a transaction for each part."""

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Apply a block of rows."""
        sink: Any = self._sink
        for start in range(0, len(values), sink.batch_size):
            part = values[start : start + sink.batch_size]

            def apply(cursor: Any, part: list[Any] = part) -> None:
                sink.apply(cursor, part)

            patiently(sink.database, lambda apply=apply: self._session.transaction(apply), self._failed)  # type: ignore[misc]
        self.count_sent(len(values), bytes_of([tuple(row) for row in values]))


class DatabaseSink(SinkTable):
    """Writes a table: with a primary key its rows are replaced and deleted, without one they are inserted."""

    def __init__(self, context: TableContext, options: OptionValues, database: SqlDatabase) -> None:
        self._context, self._options, self._database = context, options, database
        self.changelog_mode = ChangelogMode.upsert() if context.primary_key else ChangelogMode.insert_only()
        self.deletes_by_key = bool(context.primary_key)

    def sink(self, stream: Any) -> Any:
        """Write the rows."""
        options = self._options
        sink = ChangesSink(
            self._database,
            options["table-name"],
            self._context.names,
            self._context.primary_key,
            batch_size=max(1, options["sink.buffer-flush.max-rows"]),
        )
        made = stream.sink_to(sink).name(self._context.path)
        return made if options["sink.parallelism"] is None else made.set_parallelism(options["sink.parallelism"])


class CachedLookup(LookupTable):
    """Asks for the rows of each key; with a cache those of a key may be as old as the cache allows. Define ``read``."""

    asynchronous = True

    def __init__(self, options: OptionValues, most: int | None = None, lives: int | None = None) -> None:
        cached = options["lookup.cache"] == "partial" or most is not None
        self._most = (most or options["lookup.partial-cache.max-rows"]) if cached else 0
        lives = lives or options["lookup.partial-cache.expire-after-write"]
        self._lives = lives or options["lookup.partial-cache.expire-after-access"]
        self._renews = lives is None
        older = options.get("lookup.cache.caching-missing-key")
        self._keeps_missing = options["lookup.partial-cache.cache-missing-key"] if older is None else older
        self._cache: OrderedDict[tuple[Any, ...], tuple[float, list[tuple[Any, ...]]]] = OrderedDict()

    def read(self, key: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Ask for the rows of a key, which has no NULL."""
        raise NotImplementedError

    def lookup(self, keys: Sequence[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each key."""
        return [self._rows(key) for key in keys]

    def _rows(self, key: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        if any(part is None for part in key):
            return []
        kept = self._cache.get(key)
        now = _CLOCK.monotonic()
        if kept is not None and (self._lives is None or now - kept[0] < self._lives / 1000):
            if self._renews:
                self._cache[key] = now, kept[1]
            self._cache.move_to_end(key)
            return kept[1]
        found = self.read(key)
        if self._most and (found or self._keeps_missing):
            self._cache[key] = now, found
            while len(self._cache) > self._most:
                self._cache.popitem(last=False)
        return found


class DatabaseLookup(CachedLookup):
    """Looks rows up by columns."""

    def __init__(
        self, context: TableContext, options: OptionValues, database: SqlDatabase, keys: Sequence[str]
    ) -> None:
        super().__init__(options, options["lookup.cache.max-rows"], options["lookup.cache.ttl"])
        self._database = database
        self._columns = context.columns
        mark = database.placeholder
        condition = " AND ".join(f"{database.quote(key)} = {mark}" for key in keys)
        where = f" WHERE {condition}" if condition else ""
        names = ", ".join(map(database.quote, context.names))
        self._query = f"SELECT {names} FROM {database.quote(options['table-name'])}{where}"
        self._session: SqlSession | None = None

    def open(self) -> None:
        """Connect."""
        self._session = SqlSession(self._database, "funken lookup")

    def read(self, key: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Ask the database."""
        adapt = _for_sqlite if isinstance(self._database, SqliteDatabase) else _written
        parameters = tuple(map(adapt, key))

        def look(cursor: Any) -> list[Any]:
            cursor.execute(self._query, parameters)
            return self._database.fetch(cursor, f"a lookup of {parameters!r:.200} fails")

        def failed(problem: SqlProblem) -> SourceNotReadable:
            return SourceNotReadable(f"a lookup of {parameters!r:.200} fails: {problem}")

        assert self._session is not None
        session = self._session
        rows = patiently(self._database, lambda: session.transaction(look), failed)
        return [tuple(converted(row, self._columns)) for row in rows]

    def close(self) -> None:
        """Close the connection."""
        if self._session is not None:
            self._session.close()


class JdbcFactory(TableFactory):
    """Makes tables of databases.

    >>> JdbcFactory().scan(TableContext("t", options={"connector": "jdbc", "url": "jdbc:sqlite:/tmp/shop.db"}))
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: One or more required options are missing for table 't': table-name.
    Set them in its WITH clause: WITH ('table-name' = '...').
    """

    def _parts(self, context: TableContext) -> tuple[TableContext, OptionValues, SqlDatabase]:
        options = OptionValues(context.path, context.options, _OPTIONS)
        for together in _TOGETHER:
            given = [key for key in together if key in options]
            if given and len(given) < len(together):
                raise InvalidProgram(
                    f"Table {context.path!r}: {given[0]!r} needs the others of {', '.join(together)}. Set all of them, or none."
                )
        lower, upper = (options[f"scan.partition.{bound}-bound"] for bound in ("lower", "upper"))
        if lower is not None and lower > upper:
            raise InvalidProgram(
                f"Table {context.path!r}: 'scan.partition.lower-bound' = {lower} is larger than 'scan.partition.upper-bound' = "
                f"{upper}. Exchange them."
            )
        database = database_of(context.path, options["url"], options["username"], options["password"])
        return context, options, database

    def scan(self, context: TableContext) -> ScanTable:
        """Return a scan of the table."""
        return DatabaseScan(*self._parts(context))

    def sink(self, context: TableContext) -> SinkTable:
        """Return a sink to the table."""
        return DatabaseSink(*self._parts(context))

    def lookup(self, context: TableContext, keys: Sequence[str]) -> LookupTable:
        """Return a lookup of rows."""
        return DatabaseLookup(*self._parts(context), keys)
