"""Random queries over random changelogs, compared with a database after each batch of changes.

A seed gives the changes of five tables in three batches, and a few queries. Each batch is a run of the job from the savepoint of
the run before, at another parallelism and in blocks of other sizes; a run may also crash, after which it goes on from a savepoint
in its middle. After each batch the rows that a query's changes leave must be those of DuckDB, or of SQLite if DuckDB is not
installed; then there are no set operations with ALL and no UNNEST.

Many seeds: ``python scripts/random_table_queries.py --seeds 1000``.
"""

from __future__ import annotations

import importlib
import random
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from funken import Configuration, Row, RowKind, StreamExecutionEnvironment
from funken.api.jobs.client import JobClient
from funken.checkpoint.events import Stop
from funken.connectors.base import (
    NEED_SPLITS,
    Batch,
    Boundedness,
    NeedSplits,
    QueuedReader,
    Source,
    StaticSplits,
    Wait,
)
from funken.connectors.sink import Sink, SinkWriter
from funken.runtime.driver.local import LocalRunner
from funken.table.changelog import ChangelogMode
from funken.table.environment import EnvironmentSettings, StreamTableEnvironment
from funken.table.schema import Schema
from funken.timing.clock import ManualClock

try:
    import duckdb
except ImportError:
    duckdb = None

INSERT, DELETE = RowKind.INSERT, RowKind.DELETE
BEFORE, AFTER = RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER
BATCHES = 3
Values = tuple[Any, ...]


# ---- tables and their changes


@dataclass(frozen=True)
class Columns:
    """A table: its columns with types, whether it has a key, and the changes that it may have."""

    name: str
    columns: tuple[tuple[str, str], ...]
    key: bool = False
    mode: ChangelogMode = field(default_factory=ChangelogMode.all)

    def schema(self) -> Schema:
        """Return the schema of the stream."""
        builder = Schema.new_builder()
        for name, kind in self.columns:
            builder.column(name, f"{kind} NOT NULL" if self.key and name == "id" else kind)
        if self.name == "e":
            builder.column_by_expression("ts", "TIMESTAMPADD(SECOND, sec, TIMESTAMP '1970-01-01 00:00:00')")
            builder.watermark("ts", "ts")
        if self.key:
            builder.primary_key("id")
        return builder.build()


_PLAIN = (("id", "INT"), ("k", "INT"), ("v", "INT"), ("s", "STRING"))
TABLES = (
    Columns("t", _PLAIN),  # rows come and go, duplicates too
    Columns("u", _PLAIN, mode=ChangelogMode.insert_only()),
    Columns("p", _PLAIN, key=True),
    Columns("q", _PLAIN, key=True, mode=ChangelogMode.upsert(False)),  # no row before an update
    Columns("w", (("id", "INT"), ("k", "INT"), ("l", "ARRAY<INT>"))),
    Columns("e", (("sec", "INT"), ("k", "INT"), ("v", "INT")), mode=ChangelogMode.insert_only()),  # seconds rise
)
_WINDOW = (
    "{{SELECT k, TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_start), COUNT(*), SUM(v), COUNT(DISTINCT v) "
    "FROM TABLE(%s) GROUP BY k, window_start, window_end"
    "|SELECT k, sec - sec %% %d - past, COUNT(*), SUM(v), COUNT(DISTINCT v) FROM e CROSS JOIN (%s) AS o "
    "WHERE sec - sec %% %d - past + %d <= (SELECT MAX(sec) FROM e) GROUP BY k, sec - sec %% %d - past}}"
)
TIMED = (
    _WINDOW % ("TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND)", 5, "SELECT 0 AS past", 5, 5, 5),
    _WINDOW
    % (
        "HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '3' SECOND, INTERVAL '6' SECOND)",
        *(3, "SELECT 0 AS past UNION ALL SELECT 3", 3, 6, 3),
    ),
    "SELECT sec, SUM(v) OVER (PARTITION BY k ORDER BY {{ts|sec}} ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM e",
    "SELECT sec, v, COUNT(v) OVER (PARTITION BY k ORDER BY {{ts|sec}} ROWS UNBOUNDED PRECEDING) FROM e",
    "SELECT k, sec FROM (SELECT k, sec, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {{ts|sec}} DESC) AS n FROM e) AS q "
    "WHERE n = 1",
    "SELECT a.sec, b.sec FROM e AS a JOIN e AS b ON a.k = b.k AND {{b.ts BETWEEN a.ts AND a.ts + INTERVAL '4' SECOND"
    "|b.sec BETWEEN a.sec AND a.sec + 4}}",
)
"""Queries over time. The first windows may begin before 1970."""


class History:
    """The changes of a table so far, and the rows that they leave."""

    def __init__(self, table: Columns, rng: random.Random) -> None:
        self.table, self._rng = table, rng
        self.changes: list[Row] = []
        self.rows: list[Values] = []

    def go_on(self, count: int) -> None:
        """Make some changes."""
        for _ in range(count):
            inserts = self.table.mode.is_insert_only or not self.rows or self._rng.random() < 0.55
            if self.table.key:
                self._keyed()
            elif inserts:
                self._insert(self._values())
            elif self._rng.random() < 0.5:
                self._add(DELETE, self._take())
            else:
                self._add(BEFORE, self._take())
                self._insert(self._values(), AFTER)

    def _keyed(self) -> None:
        row = self._values(self._rng.randrange(8))
        old = next((other for other in self.rows if other[0] == row[0]), None)
        if old is None:
            self._insert(row)
            return
        self.rows.remove(old)
        if self._rng.random() < 0.3:
            self._add(DELETE, old)
            return
        if self.table.mode.contains(BEFORE):
            self._add(BEFORE, old)
        self._insert(row, AFTER)

    def _insert(self, row: Values, kind: RowKind = INSERT) -> None:
        self.rows.append(row)
        self._add(kind, row)

    def _add(self, kind: RowKind, row: Values) -> None:
        self.changes.append(Row.of_kind(kind, *row))

    def _take(self) -> Values:
        return self.rows.pop(self._rng.randrange(len(self.rows)))

    def _values(self, key: int | None = None) -> Values:
        rng = self._rng

        def value(kind: str) -> Any:
            if rng.random() < 0.15:
                return None
            if kind == "STRING":
                return rng.choice(["", "a", "b", "ab", "B"])
            if kind == "ARRAY<INT>":
                return [rng.choice([None, 1, 2, 3]) for _ in range(rng.randrange(4))]
            return rng.randrange(-2, 5)

        if self.table.name == "e":
            key = rng.randrange(1, 4) + (self.rows[-1][0] if self.rows else 0)
        first = rng.randrange(6) if key is None else key
        return (first, *(value(kind) for _, kind in self.table.columns[1:]))


# ---- queries


class Queries:
    """Random queries. ``{{flink|database}}`` in their text is where the two differ."""

    def __init__(self, rng: random.Random, complete: bool) -> None:
        self._rng, self._complete, self._names = rng, complete, 0

    def query(self) -> str:
        """Return a query."""
        if self._rng.random() < 0.12:
            return self._rng.choice(TIMED)
        text, columns = self._relation(3)
        if self._rng.random() < 0.15:
            return f"{self._select(text, columns)} ORDER BY {self._total(columns)} LIMIT {self._rng.randrange(1, 6)}"
        return text

    def _name(self) -> str:
        self._names += 1
        return f"x{self._names}"

    def _select(self, text: str, columns: list[tuple[str, str]]) -> str:
        return f"SELECT {', '.join(name for name, _ in columns)} FROM ({text}) AS {self._name()}"

    def _relation(self, depth: int) -> tuple[str, list[tuple[str, str]]]:
        """Return a query and its columns."""
        if depth == 0 or self._rng.random() < 0.1:
            return self._table()
        makers: list[tuple[Callable[[int], tuple[str, list[tuple[str, str]]]], int]] = [
            (self._filtered, 3), (self._projected, 2), (self._grouped, 5), (self._joined, 5), (self._semi, 3),
            (self._united, 3), (self._best, 4), (self._over, 2), (self._distinct, 1),
        ]  # fmt: skip
        if self._complete:
            makers.append((self._unnested, 1))
        made, weights = zip(*makers, strict=True)
        return self._rng.choices(made, weights)[0](depth - 1)  # type: ignore[no-any-return]

    def _table(self) -> tuple[str, list[tuple[str, str]]]:
        table = self._rng.choice(TABLES[:4])
        columns = [(name, kind) for name, kind in table.columns if kind in ("INT", "STRING")]
        names = [self._name() for _ in columns]
        listed = ", ".join(f"{name} AS {other}" for (name, _), other in zip(columns, names, strict=True))
        return f"SELECT {listed} FROM {table.name}", [
            (name, kind) for name, (_, kind) in zip(names, columns, strict=True)
        ]

    # -- expressions

    def _of(self, columns: list[tuple[str, str]], kind: str) -> str | None:
        found = [name for name, other in columns if other == kind]
        return self._rng.choice(found) if found else None

    def _number(self, columns: list[tuple[str, str]], depth: int = 2) -> str:
        rng = self._rng
        column = self._of(columns, "INT")
        if depth == 0 or rng.random() < 0.5:
            return column if column is not None and rng.random() < 0.8 else str(rng.randrange(5))
        left, right = self._number(columns, depth - 1), self._number(columns, depth - 1)
        return rng.choice(
            [
                f"({left} + {right})", f"({left} - {right})", f"COALESCE({left}, {right})",
                f"CASE WHEN {self._condition(columns, depth - 1)} THEN {left} ELSE {right} END",
                f"NULLIF({left}, {right})", f"ABS({left})",
            ]
        )  # fmt: skip

    def _text(self, columns: list[tuple[str, str]]) -> str:
        column = self._of(columns, "STRING")
        if column is None:
            return self._rng.choice(["'a'", "'b'"])
        return self._rng.choice([column, f"UPPER({column})", f"({column} || 'x')", f"COALESCE({column}, 'none')"])

    def _condition(self, columns: list[tuple[str, str]], depth: int = 1) -> str:
        rng = self._rng
        roll = rng.random()
        if depth and roll < 0.3:
            left, right = self._condition(columns, depth - 1), self._condition(columns, depth - 1)
            return rng.choice([f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"])
        if roll < 0.45:
            return f"{rng.choice(columns)[0]} IS {rng.choice(['', 'NOT '])}NULL"
        text = self._of(columns, "STRING")
        if text is not None and roll < 0.6:
            return rng.choice([f"{text} = 'a'", f"{text} <> 'b'", f"{text} LIKE 'a%'", f"{text} IN ('a', 'B')"])
        comparison = rng.choice(["=", "<>", "<", "<=", ">", ">="])
        return f"{self._number(columns, 1)} {comparison} {self._number(columns, 1)}"

    def _total(self, columns: list[tuple[str, str]]) -> str:
        """Return an order by all columns, so that only equal rows are ties."""
        some = list(columns)
        self._rng.shuffle(some)
        return ", ".join(f"{name} {self._direction()}" for name, _ in some)

    def _direction(self) -> str:
        """Return a direction; NULL is the least value for Flink."""
        return self._rng.choice(["ASC{{| NULLS FIRST}}", "DESC{{| NULLS LAST}}", "ASC NULLS LAST", "DESC NULLS FIRST"])

    # -- relations

    def _filtered(self, depth: int) -> tuple[str, list[tuple[str, str]]]:
        text, columns = self._relation(depth)
        return f"{self._select(text, columns)} WHERE {self._condition(columns, 2)}", columns

    def _projected(self, depth: int) -> tuple[str, list[tuple[str, str]]]:
        text, columns = self._relation(depth)
        made = []
        for _ in range(self._rng.randrange(1, 4)):
            kind = self._rng.choice(["INT", "STRING"])
            made.append((self._number(columns) if kind == "INT" else self._text(columns), self._name(), kind))
        listed = ", ".join(f"{expression} AS {name}" for expression, name, _ in made)
        return f"SELECT {listed} FROM ({text}) AS {self._name()}", [(name, kind) for _, name, kind in made]

    def _distinct(self, depth: int) -> tuple[str, list[tuple[str, str]]]:
        text, columns = self._relation(depth)
        some = self._rng.sample(columns, self._rng.randrange(1, len(columns) + 1))
        return self._select(text, some).replace("SELECT", "SELECT DISTINCT", 1), some

    def _grouped(self, depth: int) -> tuple[str, list[tuple[str, str]]]:
        rng = self._rng
        text, columns = self._relation(depth)
        keys = rng.sample(columns, rng.choice([0, 1, 1, 1, min(2, len(columns))]))
        calls = []
        for _ in range(rng.randrange(1, 4)):
            function = rng.choice(["COUNT(*)", "COUNT", "COUNT", "SUM", "MIN", "MAX"])
            expression, kind = function, "INT"
            if function != "COUNT(*)":
                name, of = rng.choice(columns)
                if function == "SUM" and of != "INT":
                    function = "MAX"
                distinct = "DISTINCT " if rng.random() < 0.3 else ""
                expression, kind = f"{function}({distinct}{name})", "INT" if function in ("COUNT", "SUM") else of
            if rng.random() < 0.25:
                expression += f" FILTER (WHERE {self._condition(columns)})"
            calls.append((expression, self._name(), kind))
        name = self._name()
        listed = ", ".join([*(key for key, _ in keys), *(f"{each} AS {alias}" for each, alias, _ in calls)])
        query = f"SELECT {listed} FROM ({text}) AS {name}"
        having = []
        if keys:
            query += f" GROUP BY {', '.join(key for key, _ in keys)}"
        else:
            having.append("{{|COUNT(*) > 0}}")  # no rows: no result in a stream, one in a database
        if rng.random() < 0.2:
            having.append(f"COUNT(*) > {rng.randrange(3)}")
        if having == ["{{|COUNT(*) > 0}}"]:
            query += "{{| HAVING COUNT(*) > 0}}"
        elif having:
            query += " HAVING " + having[-1] + ("{{| AND COUNT(*) > 0}}" if len(having) > 1 else "")
        return query, [*keys, *((alias, kind) for _, alias, kind in calls)]

    def _pair(self, left: list[tuple[str, str]], right: list[tuple[str, str]]) -> str | None:
        """Return an equality of a column of each side."""
        pairs = [(a, b) for a, kind in left for b, other in right if kind == other]
        return " = ".join(self._rng.choice(pairs)) if pairs else None

    def _joined(self, depth: int) -> tuple[str, list[tuple[str, str]]]:
        rng = self._rng
        (left, columns), (right, others) = self._relation(depth), self._relation(rng.randrange(depth + 1))
        pair = self._pair(columns, others)
        kind = rng.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        if pair is None:
            kind, pair = "CROSS JOIN", ""
        else:
            pair = f" ON {pair}"
            if rng.random() < 0.25:
                pair += f" AND {self._condition(columns + others)}"
        both = columns + others
        kept = rng.sample(both, rng.randrange(1, min(5, len(both)) + 1))
        listed = ", ".join(name for name, _ in kept)
        return f"SELECT {listed} FROM ({left}) AS {self._name()} {kind} ({right}) AS {self._name()}{pair}", kept

    def _semi(self, depth: int) -> tuple[str, list[tuple[str, str]]]:
        rng = self._rng
        (left, columns), (right, others) = self._relation(depth), self._relation(rng.randrange(depth + 1))
        pair = self._pair(columns, others)
        if pair is None:
            return left, columns
        outer, inner = pair.split(" = ")
        query = self._select(left, columns)
        name = self._name()
        negated = rng.choice(["", "NOT "])
        if rng.random() < 0.5:
            condition = f"{negated}EXISTS (SELECT 1 FROM ({right}) AS {name} WHERE {inner} = {outer})"
        else:
            condition = f"{outer} {negated}IN (SELECT {inner} FROM ({right}) AS {name})"
        return f"{query} WHERE {condition}", columns

    def _united(self, depth: int) -> tuple[str, list[tuple[str, str]]]:
        rng = self._rng
        (left, columns), (right, others) = self._relation(depth), self._relation(rng.randrange(depth + 1))
        kinds = Counter(kind for _, kind in columns) & Counter(kind for _, kind in others)
        if not kinds:
            return left, columns
        ours, theirs = [], []
        for kind, count in kinds.items():
            some = rng.randrange(1, count + 1)
            ours += rng.sample([each for each in columns if each[1] == kind], some)
            theirs += rng.sample([each for each in others if each[1] == kind], some)
        every = ["UNION ALL", "UNION", "INTERSECT", "EXCEPT"] + ["INTERSECT ALL", "EXCEPT ALL"] * self._complete
        both = f"{self._select(left, ours)} {rng.choice(every)} {self._select(right, theirs)}"
        return self._select(both, ours), ours

    def _best(self, depth: int) -> tuple[str, list[tuple[str, str]]]:
        rng = self._rng
        text, columns = self._relation(depth)
        partition = rng.sample(columns, rng.choice([0, 1, 1]))
        over = f"PARTITION BY {partition[0][0]} " if partition else ""
        number, inner = self._name(), self._name()
        listed = ", ".join(name for name, _ in columns)
        ranked = (
            f"SELECT {listed}, ROW_NUMBER() OVER ({over}ORDER BY {self._total(columns)}) AS {number} "
            f"FROM ({text}) AS {self._name()}"
        )
        kept = [*columns, (number, "INT")] if rng.random() < 0.4 else columns
        names = ", ".join(name for name, _ in kept)
        return f"SELECT {names} FROM ({ranked}) AS {inner} WHERE {number} <= {rng.randrange(1, 4)}", kept

    def _over(self, depth: int) -> tuple[str, list[tuple[str, str]]]:
        rng = self._rng
        text, columns = self._relation(depth)
        partition = f"PARTITION BY {rng.choice(columns)[0]} " if rng.random() < 0.8 else ""
        name, of = rng.choice(columns)
        function = rng.choice(["SUM", "COUNT", "MIN", "MAX"])
        if function == "SUM" and of != "INT":
            function = "COUNT"
        made = self._name()
        direction = rng.choice(["ASC{{| NULLS FIRST}}", "DESC{{| NULLS LAST}}"])
        listed = ", ".join(each for each, _ in columns)
        frame = f"({partition}ORDER BY {rng.choice(columns)[0]} {direction})"
        query = f"SELECT {listed}, {function}({name}) OVER {frame} AS {made} FROM ({text}) AS {self._name()}"
        return query, [*columns, (made, "INT" if function in ("COUNT", "SUM") else of)]

    def _unnested(self, depth: int) -> tuple[str, list[tuple[str, str]]]:
        names = [self._name() for _ in range(3)]
        join = self._rng.choice(["CROSS JOIN UNNEST(w.l) AS {0}({1})", "LEFT JOIN UNNEST(w.l) AS {0}({1}) ON TRUE"])
        text = f"SELECT w.id AS {names[0]}, w.k AS {names[1]}, {names[2]} FROM w {join.format(self._name(), names[2])}"
        return text, [(name, "INT") for name in names]


def rendered(query: str, place: int) -> str:
    """Return a query as one of the two sides writes it."""
    while "{{" in query:
        head, _, rest = query.partition("{{")
        choice, _, tail = rest.partition("}}")
        query = head + choice.split("|")[place] + tail
    return query


# ---- the database


class Database:
    """The rows of all tables, and what queries come to."""

    complete = duckdb is not None

    def __init__(self, histories: list[History]) -> None:
        self._connection: Any = sqlite3.connect(":memory:") if duckdb is None else duckdb.connect(":memory:")
        for history in histories:
            columns = history.table.columns
            if duckdb is None and any("ARRAY" in kind for _, kind in columns):
                continue
            names = {"STRING": "VARCHAR", "ARRAY<INT>": "INT[]"}
            listed = ", ".join(f"{name} {names.get(kind, kind)}" for name, kind in columns)
            self._connection.execute(f"CREATE TABLE {history.table.name} ({listed})")
            if history.rows:
                marks = ", ".join("?" for _ in columns)
                self._connection.executemany(f"INSERT INTO {history.table.name} VALUES ({marks})", history.rows)
        if duckdb is None:
            self._connection.execute("PRAGMA case_sensitive_like = ON")

    def rows(self, query: str) -> Counter[Values]:
        """Return the rows of a query."""
        return Counter(tuple(row) for row in self._connection.execute(rendered(query, 1)).fetchall())

    def close(self) -> None:
        """Close it."""
        self._connection.close()


# ---- the job


class Crashed(Exception):
    """The fault that is planted."""


class Stage:
    """What source, sink and driver of a run share: they are in one thread."""

    holds = False
    """Whether sources wait at their pause."""
    crashes = False
    left: ClassVar[dict[str, dict[int, Counter[Values]]]] = {}


def stage() -> type[Stage]:
    """Return the one ``Stage``: the classes below travel by value."""
    return importlib.import_module("tests.table.random_queries").Stage  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a table from ``offset`` on."""

    offset: int = 0
    id: ClassVar[str] = "changes"


@dataclass(frozen=True)
class ChangesSource(Source[Row]):
    """Changes up to ``stop``, in blocks of random sizes; at ``pause`` it may wait, and at ``crash`` fail."""

    rows: tuple[Row, ...]
    stop: int
    pause: int
    crash: int
    seed: int
    largest: int
    boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    max_parallelism = 1

    def enumerator(self, parallelism: int) -> StaticSplits:
        return StaticSplits((Changes(),), parallelism)

    def reader(self, context: Any) -> ChangesReader:
        return ChangesReader(self, context)


class ChangesReader(QueuedReader):
    def __init__(self, source: ChangesSource, context: Any) -> None:
        super().__init__(context)
        self._source, self._rng = source, random.Random(source.seed)

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        if not self.queue:
            return NEED_SPLITS
        source, start = self._source, self.queue[0].offset
        end = min(source.stop, source.pause) if stage().holds else source.stop
        if stage().crashes and not stage().holds and start >= source.crash >= 0:
            raise Crashed
        if stage().crashes and source.crash >= 0:
            end = min(end, max(source.crash, start))
        if start >= end:
            return Wait(10)
        end = min(end, start + self._rng.randrange(1, source.largest + 1))
        self.queue[0] = Changes(end)
        return Batch(list(source.rows[start:end]), split=Changes.id)


@dataclass(frozen=True)
class LeftRows(Sink):
    """Counts the rows that changes leave, exactly once."""

    name: str
    never_waits = True

    def writer(self, context: Any) -> LeftRowsWriter:
        return LeftRowsWriter(self.name, context)


class LeftRowsWriter(SinkWriter):
    def __init__(self, name: str, context: Any) -> None:
        super().__init__(context)
        self._left: Counter[Values] = Counter()
        stage().left.setdefault(name, {})[context.subtask] = self._left

    def restore_state(self, states: list[Any]) -> None:
        for state in states:
            self._left.update(state)

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        for row in values:
            self._left[tuple(row)] += 1 if row.get_row_kind() in (INSERT, AFTER) else -1

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return [dict(self._left)]


class Driver(LocalRunner):
    """Runs a job until it is idle: then it lets paused sources go on, or ends with a savepoint."""

    def __init__(self, folder: str) -> None:
        self._time = ManualClock(0)
        super().__init__(self._time, self._idle)
        self._folder, self._job, self._quiet = folder, None, 0
        self.middle: Any = None
        self.end: Any = None

    def run(self, job: Any) -> None:
        self._job = job
        super().run(job)

    def _idle(self, seconds: float) -> None:
        self._time.advance(max(1, round(seconds * 1000)))
        self._quiet += 1
        if self._quiet < 30:
            return
        if Stage.holds:
            if self.middle is None:
                self.middle = self._job.checkpoints.savepoint(self._folder)
            elif self.middle.done():
                Stage.holds, self._quiet = False, 0
        elif self.end is None:
            self.end = self._job.checkpoints.savepoint(self._folder, Stop.SUSPEND)


@dataclass
class Case:
    """A seed: tables, queries, and how its runs are."""

    seed: int
    count: int = 6

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        self._rng = rng
        self._histories = [History(table, rng) for table in TABLES]
        queries = Queries(rng, Database.complete)
        self.queries = [queries.query() for _ in range(self.count)]
        self.options = {
            "table.exec.mini-batch.enabled": rng.random() < 0.25,
            "table.exec.mini-batch.allow-latency": "10 ms",
            "table.exec.mini-batch.size": rng.choice([3, 50]),
        }
        self.backend = rng.choice(["hashmap", "hashmap", "hashmap", "rocksdb"])

    def differences(self, only: list[int] | None = None) -> Iterator[str]:
        """Run all batches; give each query whose rows are others than the database's."""
        places = list(range(self.count)) if only is None else only
        path = ""
        with tempfile.TemporaryDirectory() as folder:
            for batch in range(BATCHES):
                for history in self._histories:
                    history.go_on(self._rng.randrange(1, 25))
                path = self._batch(places, path, folder, self._rng.random() < 0.5)
                database = Database(self._histories)
                for place in places:
                    expected = database.rows(self.queries[place])
                    found = Counter[Values]()
                    for part in Stage.left[f"q{place}"].values():
                        for row, count in part.items():
                            found[row] += count
                    found = Counter({row: count for row, count in found.items() if count})
                    if found != expected:
                        surplus = {row: count - expected[row] for row, count in found.items() if count != expected[row]}
                        missing = {row: count for row, count in expected.items() if row not in found}
                        text = rendered(self.queries[place], 0)
                        yield f"batch {batch}, query {place}: {text}\n  surplus {surplus}\n  missing {missing}"
                database.close()

    def _batch(self, places: list[int], path: str, folder: str, crashes: bool) -> str:
        """Run a batch; return the savepoint at its end."""
        rng = self._rng
        stops = [len(history.changes) for history in self._histories]
        before = getattr(self, "_before", [0] * len(stops))
        self._before = stops
        pauses = [rng.randint(low, high) for low, high in zip(before, stops, strict=True)]
        crash = rng.randrange(len(stops)) if crashes else -1
        Stage.crashes, Stage.holds = crashes, crashes
        while True:
            Stage.left.clear()
            parallelism = rng.randrange(1, 5)
            env = self._environment(path, parallelism, folder)
            for place, history in enumerate(self._histories):
                at = rng.randint(pauses[place], stops[place]) if place == crash else -1
                source = ChangesSource(
                    tuple(history.changes),
                    stops[place],
                    pauses[place],
                    at,
                    rng.randrange(1 << 30),
                    rng.choice([1, 3, 100]),
                )
                name = history.table.name
                stream: Any = env.stream_environment.from_source(source, None, name).uid(name).set_parallelism(1)
                env.create_temporary_view(
                    name, env.from_changelog_stream(stream, history.table.schema(), history.table.mode)
                )
            for place in places:
                rows = env.to_changelog_stream(env.sql_query(rendered(self.queries[place], 0)))
                rows.sink_to(LeftRows(f"q{place}")).name(f"q{place}").uid(f"q{place}")
            driver = Driver(folder)
            client = JobClient(env.stream_environment.job(f"seed {self.seed}", driver), driver)
            try:
                client.run()
            except Exception as error:
                if not Stage.crashes or "Crashed" not in f"{type(error).__name__} {error} {error.__cause__!r}":
                    raise
                Stage.crashes = Stage.holds = False
                path = driver.middle.result(timeout=5)
                continue
            return str(driver.end.result(timeout=5))

    def _environment(self, path: str, parallelism: int, folder: str) -> StreamTableEnvironment:
        options: dict[str, Any] = {
            "execution.target": "local",
            "parallelism.default": parallelism,
            "execution.buffer-timeout.interval": 0,
            "restart-strategy.type": "none",
            "execution.runtime-mode": "streaming",
            "state.backend.type": self.backend,
            "execution.checkpointing.savepoint-dir": folder,
        }
        if path:
            options["execution.state-recovery.path"] = path
        settings = EnvironmentSettings.in_streaming_mode()
        tables = StreamTableEnvironment.create(StreamExecutionEnvironment(Configuration(options)), settings)
        for key, value in self.options.items():
            tables.get_config().set(key, str(value).lower())
        return tables
