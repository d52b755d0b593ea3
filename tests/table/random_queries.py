"""Random queries over random changelogs: the tables, their changes, and a generator of queries that covers streaming SQL.

``{{flink|database}}`` in a query is where the two dialects differ; ``rendered`` takes one side. ``random_runs.py`` runs queries.
"""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from funken import Row, RowKind
from funken.table.changelog import ChangelogMode
from funken.table.connectors.values import register_rows
from funken.table.environment import TableEnvironment
from funken.table.schema import Schema

INSERT, DELETE = RowKind.INSERT, RowKind.DELETE
BEFORE, AFTER = RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER
Values = tuple[Any, ...]
Column = tuple[str, str]
"""Name and kind: INT, STRING, DEC, DATE or BOOL."""
Relation = tuple[str, list[Column]]

# ---- tables and their changes

TYPES = {
    "INT": "INT",
    "STRING": "STRING",
    "DEC": "DECIMAL(8, 2)",
    "DATE": "DATE",
    "BOOL": "BOOLEAN",
    "INTS": "ARRAY<INT>",
}
DATABASE_TYPES = {**TYPES, "STRING": "VARCHAR", "INTS": "INT[]"}
DAY = datetime.date(2024, 2, 27)

OF_NOTHING = "{{| HAVING COUNT(*) > 0}}"
"""Behind aggregates without a key: of no rows, streams have no result, and batches have one."""


@dataclass(frozen=True)
class Columns:
    """A table: its columns with kinds, whether it has a key, and the changes that it may have."""

    name: str
    columns: tuple[Column, ...]
    key: str = ""
    mode: ChangelogMode = field(default_factory=ChangelogMode.all)

    @property
    def timed(self) -> bool:
        """Whether its seconds rise."""
        return any(name == "sec" for name, _ in self.columns)

    def schema(self) -> Schema:
        """Return the schema of the stream."""
        builder = Schema.new_builder()
        for name, kind in self.columns:
            builder.column(name, f"{TYPES[kind]} NOT NULL" if name == self.key else TYPES[kind])
        if self.timed:
            builder.column_by_expression("ts", "TIMESTAMPADD(SECOND, sec, TIMESTAMP '1970-01-01 00:00:00')")
            builder.watermark("ts", "ts")
        if self.key:
            builder.primary_key(self.key)
        return builder.build()


_PLAIN = (("id", "INT"), ("k", "INT"), ("v", "INT"), ("s", "STRING"), ("d", "DEC"), ("day", "DATE"), ("b", "BOOL"))
TABLES = (
    Columns("t", _PLAIN),  # rows come and go, duplicates too
    Columns("u", _PLAIN, mode=ChangelogMode.insert_only()),
    Columns("p", _PLAIN, key="id"),
    Columns("q", _PLAIN, key="id", mode=ChangelogMode.upsert(False)),  # no row before an update
    Columns("w", (("id", "INT"), ("k", "INT"), ("l", "INTS"))),
    Columns("e", (("sec", "INT"), ("k", "INT"), ("v", "INT")), mode=ChangelogMode.insert_only()),
    Columns("f", (("sec", "INT"), ("k", "INT"), ("v", "INT")), mode=ChangelogMode.insert_only()),
    Columns("r", (("sec", "INT"), ("k", "INT"), ("v", "INT")), key="k", mode=ChangelogMode.upsert(False)),  # versions
)


LOOKED_UP: dict[str, tuple[str, list[Values]]] = {
    "one": ("one_k INT, one_s STRING, PRIMARY KEY (one_k) NOT ENFORCED", [(0, "a"), (1, "b"), (2, None), (4, "ab")]),
    "many": ("many_k INT, many_v INT", [(-1, 1), (0, None), (0, 2), (1, 1), (1, 1), (3, 4), (None, 0)]),
}
"""Tables that do not change, for lookup joins: with one row of a key, or several."""


def create_looked_up(tables: TableEnvironment) -> None:
    """Create the tables that do not change."""
    for name, (columns, rows) in LOOKED_UP.items():
        options = f"'connector' = 'values', 'data-id' = '{register_rows(rows)}', 'disable-lookup' = 'false'"
        tables.execute_sql(f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ({options})")


class History:
    """The changes of a table so far, and the rows that they leave; of the versions of ``r`` all are rows."""

    def __init__(self, table: Columns, rng: random.Random) -> None:
        self.table, self._rng = table, rng
        self.changes: list[Row] = []
        self.rows: list[Values] = []

    def go_on(self, count: int) -> None:
        """Make some changes."""
        for _ in range(count):
            inserts = self.table.timed or self.table.mode.is_insert_only or not self.rows
            if self.table.key and not self.table.timed:
                self._keyed()
            elif inserts or self._rng.random() < (0.35 if len(self.rows) > 12 else 0.6):
                self._insert(self._values(), AFTER if self.table.key else INSERT)
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
        if self.table.timed:
            second = rng.randrange(1, 4) + (self.rows[-1][0] if self.rows else 0)
            group = rng.randrange(3) if self.table.key else self._value("INT")
            return (second, group, self._value("INT"))
        first = rng.randrange(6) if key is None else key
        return (first, *(self._value(kind) for _, kind in self.table.columns[1:]))

    def _value(self, kind: str) -> Any:
        rng = self._rng
        if rng.random() < 0.15:
            return None
        if kind == "STRING":
            return rng.choice(["", "a", "b", "ab", "B", "ba a"])
        if kind == "INTS":
            return [rng.choice([None, 1, 2, 3]) for _ in range(rng.randrange(4))]
        if kind == "DEC":
            return Decimal(rng.choice(["0.00", "1.50", "-2.25", "1.05", "10.10", "0.01"]))
        if kind == "DATE":
            return DAY + datetime.timedelta(days=rng.randrange(5))
        return rng.random() < 0.5 if kind == "BOOL" else rng.randrange(-2, 5)


# ---- queries over time, whose rows stand once the watermark has passed them

_START = "TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_start)"
_PASTS = "(SELECT UNNEST(GENERATE_SERIES(0, %d, %d)) AS past)"
_WINDOWS = {
    "TUMBLE(TABLE {0}, DESCRIPTOR(ts), INTERVAL '5' SECOND)": (5, 5, 5),
    "HOP(TABLE {0}, DESCRIPTOR(ts), INTERVAL '3' SECOND, INTERVAL '6' SECOND)": (3, 6, 3),
    "HOP(TABLE {0}, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND)": (2, 6, 2),
}


def _windowed(kind: str, table: str, *tables: str) -> str:
    """Return the rows of a table with the start of each window, of windows that all ``tables`` are past."""
    slide, size, step = _WINDOWS[kind]
    start = f"sec - (sec % {slide}) - past"
    rows = f"SELECT *, {start} AS w0 FROM {table} CROSS JOIN {_PASTS % (size - step, step)} AS pasts"
    over = " AND ".join(f"w0 + {size} <= (SELECT MAX(sec) FROM {each})" for each in (table, *tables))
    return (
        f"{{{{(SELECT *, {_START} AS w0 FROM TABLE({kind.format(table)}))|(SELECT * FROM ({rows}) AS all_rows "
        f"WHERE w0 + {size} > sec AND {over})}}}}"
    )


def timed_queries(rng: random.Random) -> list[str]:
    """Return a query over time of each kind."""
    return [*_of_windows(rng), *_of_rows(rng)]


def _of_windows(rng: random.Random) -> list[str]:
    kind = rng.choice(list(_WINDOWS))
    rows = _windowed(kind, "e")
    by = "{{w0, window_start, window_end|w0}}"
    call = rng.choice(["SUM(v)", "COUNT(DISTINCT v)", "MAX(v)", "MIN(v)", "COUNT(v) FILTER (WHERE v > 0)"])
    direction = rng.choice(["ASC", "DESC"])
    sets = "{{window_start, window_end, w0, GROUPING SETS ((k), ())|GROUPING SETS ((w0, k), (w0))}}"
    join = f"{rng.choice(['', 'LEFT ', 'FULL ', 'RIGHT '])}JOIN {_windowed(kind, 'f', 'e')}"
    return [
        f"SELECT k, w0, COUNT(*), {call} FROM {rows} AS x GROUP BY k, {by}",
        f"SELECT w0, {call} FROM {rows} AS x GROUP BY {by}",
        f"SELECT w0, k, COUNT(*) FROM {rows} AS x GROUP BY {sets}",
        f"SELECT w0, k, v, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {{{{window_start, window_end|w0}}}} "
        f"ORDER BY v DESC{{{{| NULLS LAST}}}}, sec) AS n FROM {rows} AS x) AS y WHERE n <= 2",
        f"SELECT w0, k, sec FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {{{{window_start, window_end, k|w0, k}}}} "
        f"ORDER BY {{{{ts|sec}}}} {direction}) AS n FROM {rows} AS x) AS y WHERE n = 1",
        f"SELECT a.w0, a.sec, b.sec, b.w0 FROM {_windowed(kind, 'e', 'f')} AS a {join} AS b ON a.k = b.k AND "
        "{{a.window_start = b.window_start AND a.window_end = b.window_end|a.w0 = b.w0}}",
        f"SELECT a.w0, a.sec FROM {_windowed(kind, 'e', 'f')} AS a WHERE a.k {rng.choice(['', 'NOT '])}IN (SELECT k FROM "
        f"{_windowed(kind, 'f', 'e')} AS b WHERE b.k IS NOT NULL AND "
        "{{a.window_start = b.window_start AND a.window_end = b.window_end|a.w0 = b.w0}}) AND a.k IS NOT NULL",
        f"SELECT w0, SUM(m) FROM (SELECT k, {by}, MAX(v) AS m FROM {rows} AS x GROUP BY k, {by}) AS y GROUP BY {by}",
        "{{SELECT TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_end), k, COUNT(*), SUM(v) FROM TABLE("
        "CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND)) GROUP BY k, window_start, window_end"
        "|SELECT w1, k, COUNT(*), SUM(v) FROM (SELECT *, sec - (sec % 6) + step AS w1 FROM e CROSS JOIN (VALUES (2), (4), (6)) "
        "AS steps(step)) AS x WHERE w1 > sec AND w1 <= (SELECT MAX(sec) FROM e) GROUP BY w1, k}}",
        "{{SELECT TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_start), k, COUNT(*), SUM(v) FROM TABLE("
        "SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '4' SECOND)) GROUP BY k, window_start, window_end"
        "|SELECT MIN(sec), k, COUNT(*), SUM(v) FROM (SELECT *, SUM(fresh) OVER (PARTITION BY k ORDER BY sec) AS g FROM ("
        "SELECT *, CASE WHEN sec - LAG(sec) OVER (PARTITION BY k ORDER BY sec) <= 4 THEN 0 ELSE 1 END AS fresh FROM e) AS x) "
        "AS y GROUP BY k, g HAVING MAX(sec) + 4 <= (SELECT MAX(sec) FROM e)}}",
    ]


def _of_rows(rng: random.Random) -> list[str]:
    over = "PARTITION BY k ORDER BY {{ts|sec}}"
    call = rng.choice(["SUM(v)", "COUNT(v)", "MIN(v)", "MAX(v)"])
    direction = rng.choice(["ASC", "DESC"])
    more = rng.choice(["", " AND a.v < b.v"])
    done = "(SELECT * FROM e WHERE sec <= (SELECT MAX(sec) FROM e) AND sec <= (SELECT MAX(sec) FROM r)) AS e"
    return [
        f"SELECT sec, {call} OVER ({over} ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM e",
        f"SELECT sec, v, {call} OVER ({over} ROWS UNBOUNDED PRECEDING) FROM e",
        f"SELECT sec, {call} OVER ({over} RANGE BETWEEN {{{{INTERVAL '4' SECOND|4}}}} PRECEDING AND CURRENT ROW) FROM e",
        f"SELECT sec, {call} OVER (ORDER BY {{{{ts|sec}}}} ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) FROM e",
        f"SELECT sec, LAG(v, 2) OVER ({over}), LAG(v) OVER ({over}) FROM e",
        f"SELECT k, sec FROM (SELECT k, sec, ROW_NUMBER() OVER ({over} {direction}) AS n FROM e) AS q WHERE n = 1",
        "SELECT a.sec, b.sec FROM e AS a JOIN f AS b ON a.k = b.k AND {{b.ts BETWEEN a.ts AND a.ts + INTERVAL '4' SECOND"
        f"|b.sec BETWEEN a.sec AND a.sec + 4}}}}{more}",
        f"SELECT e.sec, e.v, r.v FROM {{{{e JOIN r FOR SYSTEM_TIME AS OF e.ts|{done} ASOF JOIN r}}}} "
        "ON e.k = r.k{{| AND e.sec >= r.sec}}",
        f"SELECT e.sec, e.v, r.v FROM {{{{e LEFT JOIN r FOR SYSTEM_TIME AS OF e.ts|{done} ASOF LEFT JOIN r}}}} "
        "ON e.k = r.k{{| AND e.sec >= r.sec}}",
    ]


# ---- queries over changes


class Queries:
    """Random queries: relations of typed columns, put together by all operators that a stream can have."""

    def __init__(self, rng: random.Random) -> None:
        self._rng, self._names = rng, 0

    def query(self) -> str:
        """Return a query."""
        rng = self._rng
        if rng.random() < 0.12:
            return rng.choice(timed_queries(rng))
        text, columns = self._relation(3)
        roll = rng.random()
        if roll < 0.12:
            offset = f" OFFSET {rng.randrange(1, 3)}" if rng.random() < 0.3 else ""
            limit = rng.randrange(1, 6)
            return f"{self._select(text, columns)} ORDER BY {self._total(columns)} LIMIT {limit}{offset}"
        return self._common(text, columns) if roll < 0.2 else text

    def _common(self, text: str, columns: list[Column]) -> str:
        """Return a query that reads a common table expression twice."""
        name, left, right = self._name(), self._name(), self._name()
        key = self._rng.choice(columns)[0]
        kind = self._rng.choice(["JOIN", "LEFT JOIN"])
        body = self._rng.choice(
            [
                f"SELECT {left}.{key}, COUNT(*) FROM {name} AS {left} {kind} {name} AS {right} ON {left}.{key} = {right}.{key} "
                f"GROUP BY {left}.{key}",
                f"SELECT {key} FROM {name} UNION ALL SELECT {key} FROM {name} WHERE {self._condition(columns)}",
                f"SELECT {key} FROM {name} WHERE {key} IN (SELECT MAX({key}) FROM {name})"
                if dict(columns)[key] != "BOOL"
                else f"SELECT {key} FROM {name}",
            ]
        )
        return f"WITH {name} AS ({text}) {body}"

    def _name(self) -> str:
        self._names += 1
        return f"x{self._names}"

    def _select(self, text: str, columns: list[Column]) -> str:
        return f"SELECT {', '.join(name for name, _ in columns)} FROM ({text}) AS {self._name()}"

    def _relation(self, depth: int) -> Relation:
        """Return a query and its columns."""
        if depth == 0 or self._rng.random() < 0.1:
            return self._table()
        makers: list[tuple[Callable[[int], Relation], int]] = [
            (self._filtered, 3), (self._projected, 2), (self._grouped, 5), (self._sets, 2), (self._joined, 5), (self._chain, 2),
            (self._semi, 3), (self._scalar, 2), (self._united, 3), (self._best, 4), (self._over, 2), (self._distinct, 1),
            (self._unnested, 1), (self._limited, 1), (self._looked_up, 2), (self._timed, 1),
        ]  # fmt: skip
        made, weights = zip(*makers, strict=True)
        return self._rng.choices(made, weights)[0](depth - 1)

    def _table(self) -> Relation:
        rng = self._rng
        if rng.random() < 0.05:
            name, one, two = self._name(), self._name(), self._name()
            return f"SELECT {one}, {two} FROM (VALUES (1, 'a'), (2, 'b'), (1, 'B')) AS {name}({one}, {two})", [
                (one, "INT"),
                (two, "STRING"),
            ]
        table = rng.choice(TABLES[:4])
        columns = [table.columns[0], *rng.sample(table.columns[1:], rng.randrange(2, 5))]
        names = [self._name() for _ in columns]
        listed = ", ".join(f"{name} AS {other}" for (name, _), other in zip(columns, names, strict=True))
        return f"SELECT {listed} FROM {table.name}", [
            (name, kind) for name, (_, kind) in zip(names, columns, strict=True)
        ]

    # -- expressions

    def _of(self, columns: list[Column], kind: str) -> str | None:
        found = [name for name, other in columns if other == kind]
        return self._rng.choice(found) if found else None

    def _expression(self, columns: list[Column], kind: str) -> str:
        made = {
            "INT": self._number,
            "STRING": self._text,
            "DEC": self._decimal,
            "DATE": self._date,
            "BOOL": self._condition,
        }
        return made[kind](columns)

    def _number(self, columns: list[Column], depth: int = 2) -> str:
        rng = self._rng
        column = self._of(columns, "INT")
        if depth == 0 or rng.random() < 0.4:
            return column if column is not None and rng.random() < 0.8 else str(rng.randrange(5))
        left, right = self._number(columns, depth - 1), self._number(columns, depth - 1)
        made = [
            f"({left} + {right})", f"({left} - {right})", f"COALESCE({left}, {right})", f"({left} * 2)",
            f"CASE WHEN {self._condition(columns, depth - 1)} THEN {left} ELSE {right} END",
            f"CASE {left} WHEN 1 THEN {right} WHEN 2 THEN NULL ELSE 7 END", f"MOD({left}, 3)",
            f"{{{{({left} / 3)|({left} // 3)}}}}", f"NULLIF({left}, {right})", f"ABS({left})", f"SIGN({left})", f"(- {left})",
        ]  # fmt: skip
        text, date = self._of(columns, "STRING"), self._of(columns, "DATE")
        if text is not None:
            made += [f"CHAR_LENGTH({text})", f"POSITION('a' IN {text})"]
        if date is not None:
            made += [f"EXTRACT({rng.choice(['YEAR', 'MONTH', 'DAY', 'DOY', 'QUARTER'])} FROM {date})"]
            made.append(
                f"{{{{TIMESTAMPDIFF(DAY, DATE '2024-02-28', {date})|DATE_DIFF('day', DATE '2024-02-28', {date})}}}}"
            )
        return rng.choice(made)

    def _decimal(self, columns: list[Column]) -> str:
        column = self._of(columns, "DEC")
        if column is None:
            return f"CAST({self._number(columns, 1)} AS DECIMAL(10, 2))"
        made = [column, f"({column} + 1.25)", f"({column} - {column})", f"ABS({column})", f"COALESCE({column}, 0.5)"]
        made += [f"ROUND({column}, 1)", f"CASE WHEN {column} > 1 THEN {column} END", f"(- {column})"]
        return self._rng.choice(made)

    def _date(self, columns: list[Column]) -> str:
        column = self._of(columns, "DATE")
        if column is None:
            return "DATE '2024-03-01'"
        number = self._rng.randrange(1, 32)
        unit = self._rng.choice(["DAY", "MONTH"])
        moved = f"{column} + INTERVAL '{number}' {unit}"
        return self._rng.choice(
            [column, f"{{{{({moved})|CAST({moved} AS DATE)}}}}", f"COALESCE({column}, DATE '2024-02-29')"]
        )

    def _text(self, columns: list[Column]) -> str:
        rng = self._rng
        column = self._of(columns, "STRING")
        if column is None:
            number, date = self._of(columns, "INT"), self._of(columns, "DATE")
            found = [f"CAST({each} AS {{{{STRING|VARCHAR}}}})" for each in (number, date) if each is not None]
            return rng.choice([*found, "'a'", "'b'"])
        made = [
            column, f"UPPER({column})", f"LOWER({column})", f"({column} || 'x')", f"COALESCE({column}, 'none')",
            f"SUBSTRING({column}, {rng.randrange(1, 3)}, {rng.randrange(1, 3)})", f"REPLACE({column}, 'a', 'cc')",
            f"TRIM(BOTH 'a' FROM {column})", f"({column} || {column})", f"REVERSE({column})", f"LEFT({column}, 1)",
            f"LPAD({column}, 3, '*')", f"CASE WHEN {column} = 'a' THEN 'one' WHEN {column} IS NULL THEN {column} ELSE 'z' END",
        ]  # fmt: skip
        return rng.choice(made)

    def _condition(self, columns: list[Column], depth: int = 1) -> str:
        rng = self._rng
        roll = rng.random()
        if depth and roll < 0.3:
            left, right = self._condition(columns, depth - 1), self._condition(columns, depth - 1)
            test = rng.choice(["TRUE", "FALSE", "NOT TRUE", "NOT FALSE", "NULL", "NOT NULL"])
            return rng.choice([f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})", f"({left}) IS {test}"])
        if roll < 0.4:
            return f"{rng.choice(columns)[0]} IS {rng.choice(['', 'NOT '])}NULL"
        kind = rng.choice(columns)[1]
        column = self._of(columns, kind)
        comparison = rng.choice(["=", "<>", "<", "<=", ">", ">="])
        if kind == "BOOL":
            return rng.choice([str(column), f"NOT {column}", f"{column} IS NOT TRUE"])
        if kind == "STRING":
            likes = [f"{column} = 'a'", f"{column} <> 'b'", f"{column} LIKE 'a%'", f"{column} NOT LIKE '%b_'"]
            return rng.choice(
                [*likes, f"{column} IN ('a', 'B')", f"{column} NOT IN ('a', '')", f"{column} {comparison} 'ab'"]
            )
        if kind in ("DEC", "DATE"):
            other = self._expression(columns, kind)
            limits = "0.5 AND 5" if kind == "DEC" else "DATE '2024-02-28' AND DATE '2024-03-01'"
            return rng.choice(
                [f"{column} {comparison} {other}", f"{column} {rng.choice(['', 'NOT '])}BETWEEN {limits}"]
            )
        left, right = self._number(columns, 1), self._number(columns, 1)
        distinct = f"{left} IS {rng.choice(['', 'NOT '])}DISTINCT FROM {right}"
        several = f"{left} {rng.choice(['', 'NOT '])}IN (0, 2, {rng.randrange(5)})"
        return rng.choice([f"{left} {comparison} {right}", f"{left} {comparison} {right}", distinct, several])

    def _total(self, columns: list[Column]) -> str:
        """Return an order by all columns, so that only equal rows are ties."""
        some = list(columns)
        self._rng.shuffle(some)
        return ", ".join(f"{name} {self._direction()}" for name, _ in some)

    def _direction(self) -> str:
        """Return a direction; NULL is the least value for Flink."""
        return self._rng.choice(["ASC{{| NULLS FIRST}}", "DESC{{| NULLS LAST}}", "ASC NULLS LAST", "DESC NULLS FIRST"])

    # -- relations

    def _filtered(self, depth: int) -> Relation:
        text, columns = self._relation(depth)
        return f"{self._select(text, columns)} WHERE {self._condition(columns, 2)}", columns

    def _projected(self, depth: int) -> Relation:
        text, columns = self._relation(depth)
        made = []
        for _ in range(self._rng.randrange(1, 4)):
            kind = self._rng.choice(["INT", "STRING", "DEC", "DATE", "BOOL"])
            made.append((self._expression(columns, kind), self._name(), kind))
        listed = ", ".join(f"{expression} AS {name}" for expression, name, _ in made)
        return f"SELECT {listed} FROM ({text}) AS {self._name()}", [(name, kind) for _, name, kind in made]

    def _distinct(self, depth: int) -> Relation:
        text, columns = self._relation(depth)
        some = self._rng.sample(columns, self._rng.randrange(1, len(columns) + 1))
        return self._select(text, some).replace("SELECT", "SELECT DISTINCT", 1), some

    def _call(self, columns: list[Column]) -> Column:
        """Return an aggregate and its kind."""
        rng = self._rng
        function = rng.choice(["COUNT(*)", "COUNT", "COUNT", "SUM", "SUM", "MIN", "MAX", "AVG"])
        if function == "COUNT(*)":
            return self._kept(function, columns), "INT"
        name, of = rng.choice(columns)
        argument = self._expression(columns, of) if rng.random() < 0.2 else name
        if of == "BOOL" or (function in ("SUM", "AVG") and of not in ("INT", "DEC")):
            function = "COUNT" if of == "BOOL" else "MAX"
        distinct = "DISTINCT " if rng.random() < 0.3 else ""
        call = self._kept(f"{function}({distinct}{argument})", columns)
        if function == "AVG":
            if of == "DEC":
                return self._kept(f"SUM({distinct}{argument})", columns), "DEC"
            call = f"{{{{{call}|CAST(TRUNC({call}) AS INTEGER)}}}}"
        return call, "INT" if function in ("COUNT", "AVG") else of

    def _kept(self, call: str, columns: list[Column]) -> str:
        return f"{call} FILTER (WHERE {self._condition(columns)})" if self._rng.random() < 0.2 else call

    def _grouped(self, depth: int) -> Relation:
        rng = self._rng
        text, columns = self._relation(depth)
        keys = rng.sample(columns, rng.choice([0, 1, 1, 1, min(2, len(columns))]))
        calls = [(*self._call(columns), self._name()) for _ in range(rng.randrange(1, 4))]
        listed = ", ".join([*(key for key, _ in keys), *(f"{each} AS {alias}" for each, _, alias in calls)])
        query = f"SELECT {listed} FROM ({text}) AS {self._name()}"
        having = []
        if keys:
            query += f" GROUP BY {', '.join(key for key, _ in keys)}"
        if rng.random() < 0.25:
            call, kind = self._call(columns)
            having.append(rng.choice([f"COUNT(*) > {rng.randrange(3)}", f"{call} IS NOT NULL"]))
            if kind == "INT":
                having[-1] = f"{call} >= {rng.randrange(3)}"
        if not keys:  # no rows: no result in a stream, one in a database
            having.append("{{TRUE|COUNT(*) > 0}}" if having else "")
        if having == [""]:
            query += OF_NOTHING
        elif having:
            query += f" HAVING {' AND '.join(having)}"
        return query, [*keys, *((alias, kind) for _, kind, alias in calls)]

    def _sets(self, depth: int) -> Relation:
        """Return an aggregate over grouping sets."""
        rng = self._rng
        text, columns = self._relation(depth)
        keys = rng.sample(columns, min(len(columns), rng.randrange(1, 3)))
        names = [name for name, _ in keys]
        listed = ", ".join(names)
        sets = rng.choice([f"({listed}), ()", ", ".join(f"({name})" for name in names), f"({names[0]}), ({listed})"])
        by = rng.choice([f"ROLLUP ({listed})", f"CUBE ({listed})", f"GROUPING SETS ({sets})"])
        calls = [(*self._call(columns), self._name()) for _ in range(rng.randrange(1, 3))]
        mark = self._name()
        shown = ", ".join(
            [listed, f"GROUPING({names[0]}) AS {mark}", *(f"{each} AS {alias}" for each, _, alias in calls)]
        )
        query = f"SELECT {shown} FROM ({text}) AS {self._name()} GROUP BY {by}{{{{| HAVING COUNT(*) >= 1}}}}"
        return query, [*keys, (mark, "INT"), *((alias, kind) for _, kind, alias in calls)]

    def _pair(self, left: list[Column], right: list[Column]) -> tuple[str, str] | None:
        """Return a column of each side, of one kind."""
        pairs = [(a, b) for a, kind in left for b, other in right if kind == other and kind != "BOOL"]
        return self._rng.choice(pairs) if pairs else None

    def _joined(self, depth: int) -> Relation:
        rng = self._rng
        (left, columns), (right, others) = self._relation(depth), self._relation(rng.randrange(depth + 1))
        pair = self._pair(columns, others)
        kind = rng.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        both = columns + others
        if pair is None:
            (left, columns), (right, others) = self._table(), self._table()
            kind, condition, both = "CROSS JOIN", "", columns + others
        elif rng.random() < 0.1:
            (left, columns), (right, others) = self._table(), self._table()
            both = columns + others
            kind, condition = kind.replace("FULL", "LEFT"), f" ON {columns[0][0]} < {others[0][0]}"
        else:
            same = "{{%s IS NOT DISTINCT FROM %s|%s IS NOT DISTINCT FROM %s}}" if rng.random() < 0.1 else "%s = %s"
            condition = f" ON {same % (pair * (2 if '{{' in same else 1))}"
            second = self._pair(columns, others)
            if rng.random() < 0.15 and second is not None:
                condition += f" AND {second[0]} = {second[1]}"
            if rng.random() < 0.3:
                condition += f" AND {self._condition(both)}"
        kept = rng.sample(both, rng.randrange(1, min(5, len(both)) + 1))
        listed = ", ".join(name for name, _ in kept)
        return f"SELECT {listed} FROM ({left}) AS {self._name()} {kind} ({right}) AS {self._name()}{condition}", kept

    def _chain(self, depth: int) -> Relation:
        """Return joins of several tables by one key or several."""
        rng = self._rng
        text, columns = self._relation(min(depth, 1))
        query, both = f"({text}) AS {self._name()}", list(columns)
        for _ in range(rng.randrange(2, 4)):
            right, others = self._table()
            pair = self._pair(both, others)
            if pair is None:
                continue
            kind = rng.choice(["JOIN", "LEFT JOIN", "JOIN", "FULL JOIN"])
            query += f" {kind} ({right}) AS {self._name()} ON {pair[0]} = {pair[1]}"
            both += others
        kept = rng.sample(both, rng.randrange(1, min(5, len(both)) + 1))
        return f"SELECT {', '.join(name for name, _ in kept)} FROM {query}", kept

    def _semi(self, depth: int) -> Relation:
        rng = self._rng
        (left, columns), (right, others) = self._relation(depth), self._relation(rng.randrange(depth + 1))
        pair = self._pair(columns, others)
        if pair is None:
            return left, columns
        outer, inner = pair
        query, name, negated = self._select(left, columns), self._name(), rng.choice(["", "NOT "])
        roll = rng.random()
        if roll < 0.45:
            more = f" AND {self._condition(others)}" if rng.random() < 0.3 else ""
            second = self._pair(columns, others)
            if rng.random() < 0.3 and second is not None:
                more += f" AND {second[1]} {rng.choice(['<', '>', '<>'])} {second[0]}"
            condition = f"{negated}EXISTS (SELECT 1 FROM ({right}) AS {name} WHERE {inner} = {outer}{more})"
        elif roll < 0.9:
            where = f" WHERE {self._condition(others)}" if rng.random() < 0.3 else ""
            condition = f"{outer} {negated}IN (SELECT {inner} FROM ({right}) AS {name}{where})"
            second = self._pair(columns, others)
            if not negated and second is not None and rng.random() < 0.2:
                condition = f"({outer}, {second[0]}) IN (SELECT {inner}, {second[1]} FROM ({right}) AS {name}{where})"
        else:
            condition = f"{negated}EXISTS (SELECT 1 FROM ({right}) AS {name} WHERE {self._condition(others)})"
        if rng.random() < 0.2:
            condition += f" AND {self._condition(columns)}"
        elif rng.random() < 0.3:  # as a value, not as a join
            condition = f"({condition}) {rng.choice(['OR', 'IS NOT TRUE OR'])} {self._condition(columns)}"
        return f"{query} WHERE {condition}", columns

    def _scalar(self, depth: int) -> Relation:
        """Return a query with a scalar sub-query, correlated or not."""
        rng = self._rng
        (left, columns), (right, others) = self._relation(depth), self._relation(rng.randrange(depth + 1))
        call, kind = self._call(others)
        name, made = self._name(), self._name()
        pair = self._pair(columns, others)
        if pair is not None and rng.random() < 0.5:
            inner = f"(SELECT {call} FROM ({right}) AS {name} WHERE {pair[1]} = {pair[0]})"
        else:  # no rows: no result in a stream, so NULL
            inner = f"(SELECT {call} FROM ({right}) AS {name}{OF_NOTHING})"
        if kind == "INT" and rng.random() < 0.4:
            return (
                f"{self._select(left, columns)} WHERE {self._number(columns, 1)} {rng.choice(['<', '>=', '='])} {inner}",
                columns,
            )
        listed = ", ".join(each for each, _ in columns)
        return f"SELECT {listed}, {inner} AS {made} FROM ({left}) AS {self._name()}", [*columns, (made, kind)]

    def _united(self, depth: int) -> Relation:
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
        every = ["UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"]
        both = f"{self._select(left, ours)} {rng.choice(every)} {self._select(right, theirs)}"
        return self._select(both, ours), ours

    def _best(self, depth: int) -> Relation:
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
        place = rng.choice([f"<= {rng.randrange(1, 4)}", "= 1", "= 2", "BETWEEN 2 AND 3"])
        more = f" AND {self._condition(columns)}" if rng.random() < 0.15 else ""
        return f"SELECT {names} FROM ({ranked}) AS {inner} WHERE {number} {place}{more}", kept

    def _limited(self, depth: int) -> Relation:
        text, columns = self._relation(depth)
        query = f"{self._select(text, columns)} ORDER BY {self._total(columns)} LIMIT {self._rng.randrange(1, 5)}"
        return self._select(query, columns), columns

    def _over(self, depth: int) -> Relation:
        rng = self._rng
        text, columns = self._relation(depth)
        partition = f"PARTITION BY {rng.choice(columns)[0]} " if rng.random() < 0.8 else ""
        name, of = rng.choice(columns)
        function = rng.choice(["SUM", "COUNT", "MIN", "MAX", "RANK", "DENSE_RANK", "ROW_NUMBER"])
        if (function == "SUM" and of not in ("INT", "DEC")) or of == "BOOL":
            function = "COUNT"
        order = f"{rng.choice(columns)[0]} {rng.choice(['ASC{{| NULLS FIRST}}', 'DESC{{| NULLS LAST}}'])}"
        call = f"{function}({name})"
        if "R" in function[:1] or "_" in function:
            call = f"{function}()"
            order = self._total(columns) if function == "ROW_NUMBER" else order
            of = "INT"
        made = self._name()
        listed = ", ".join(each for each, _ in columns)
        query = f"SELECT {listed}, {call} OVER ({partition}ORDER BY {order}) AS {made} FROM ({text}) AS {self._name()}"
        return query, [*columns, (made, "INT" if function == "COUNT" else of)]

    def _looked_up(self, depth: int) -> Relation:
        """Return a join with a table that is looked up."""
        rng = self._rng
        text, columns = self._relation(depth)
        key = self._of(columns, "INT")
        if key is None:
            return text, columns
        table = rng.choice(list(LOOKED_UP))
        left, name, made = self._name(), self._name(), self._name()
        value, kind = ("one_s", "STRING") if table == "one" else ("many_v", "INT")
        listed = ", ".join(f"{left}.{each}" for each, _ in columns)
        join = f"{rng.choice(['', 'LEFT '])}JOIN {table} {{{{FOR SYSTEM_TIME AS OF {left}.now |}}}}AS {name}"
        more = rng.choice(["", "", f" AND {name}.{value} IS NOT NULL", f" AND {left}.{key} < 3"])
        return (
            f"SELECT {listed}, {name}.{value} AS {made} FROM (SELECT *{{{{, PROCTIME() AS now|}}}} FROM ({text}) AS "
            f"{self._name()}) AS {left} {join} ON CAST({left}.{key} AS INT) = {name}.{table}_k{more}",
            [*columns, (made, kind)],
        )

    def _timed(self, depth: int) -> Relation:
        """Return a query over time, whose columns are numbers."""
        query = self._rng.choice(timed_queries(self._rng))
        names = [self._name() for _ in range(_width(rendered(query, 1)))]
        return f"SELECT * FROM ({query}) AS {self._name()}({', '.join(names)})", [(name, "INT") for name in names]

    def _unnested(self, depth: int) -> Relation:
        names = [self._name() for _ in range(3)]
        join = self._rng.choice(["CROSS JOIN UNNEST(w.l) AS {0}({1})", "LEFT JOIN UNNEST(w.l) AS {0}({1}) ON TRUE"])
        text = f"SELECT w.id AS {names[0]}, w.k AS {names[1]}, {names[2]} FROM w {join.format(self._name(), names[2])}"
        return text, [(name, "INT") for name in names]


def rendered(query: str, place: int) -> str:
    """Return a query as one of the two sides writes it; a choice may stand within another."""
    while "}}" in query:
        end = query.index("}}")
        start = query.rindex("{{", 0, end)
        query = query[:start] + _part(query[start + 2 : end], place) + query[end + 2 :]
    return query


def _width(query: str) -> int:
    """Return how many columns a query lists.

    >>> _width("SELECT a, SUM(b) OVER (PARTITION BY c, d ORDER BY e) FROM f, g")
    2
    """
    depth, found = 0, 1
    for place, each in enumerate(query):
        depth += {"(": 1, ")": -1}.get(each, 0)
        if not depth and query.startswith(" FROM ", place):
            break
        found += each == "," and not depth
    return found


def _part(text: str, place: int) -> str:
    """Return one side of a choice; ``||`` is no separator."""
    sides = text.replace("||", "\0").split("|")
    return sides[place].replace("\0", "||")
