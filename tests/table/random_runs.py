"""Runs random queries as one job over batches of changes, and compares the rows that are left with DuckDB's after each batch.

A seed is a job: its sources wait at the end of a batch until all that is due has come out. In one batch of most seeds a savepoint
is made in the middle, and the job crashes behind it; it goes on from there with another parallelism.

Many seeds: ``python scripts/random_table_queries.py --seeds 1000``.
"""

from __future__ import annotations

import importlib
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from funken import Configuration, Row, StreamExecutionEnvironment
from funken.api.jobs.client import JobClient
from funken.checkpoint.machine import Stop
from funken.connectors.base import NEED_SPLITS, Batch, Boundedness, NeedSplits, QueuedReader, Source, StaticSplits, Wait
from funken.connectors.sink import Sink, SinkWriter
from funken.runtime.driver.local_runner import LocalRunner
from funken.table.changelog import ChangelogMode
from funken.table.environment import EnvironmentSettings, StreamTableEnvironment
from funken.table.logical import LogicalSink
from funken.table.rules import optimize
from funken.table.schema import Schema
from funken.timing.clock import ManualClock
from tests.table.random_queries import (
    AFTER,
    DATABASE_TYPES,
    INSERT,
    LOOKED_UP,
    OF_NOTHING,
    TABLES,
    History,
    Queries,
    Values,
    create_looked_up,
    rendered,
)

BATCHES = 6
_QUIET, _QUIET_OF_BATCHES = 3, 25
"""So often nothing has to come out; with mini-batches each phase of each aggregate may wait for its latency."""

# ---- the database

_ARROW = {
    "INT": pa.int32(), "STRING": pa.string(), "DEC": pa.decimal128(8, 2), "DATE": pa.date32(), "BOOL": pa.bool_(),
    "INTS": pa.list_(pa.int32()),
}  # fmt: skip


class Database:
    """The rows of all tables, and what queries come to."""

    def __init__(self) -> None:
        self._connection = importlib.import_module("duckdb").connect(":memory:")
        self._connection.execute("SET threads = 1")
        for table in TABLES:
            listed = ", ".join(f"{name} {DATABASE_TYPES[kind]}" for name, kind in table.columns)
            self._connection.execute(f"CREATE TABLE {table.name} ({listed})")
        for name, (columns, rows) in LOOKED_UP.items():
            self._connection.execute(
                f"CREATE TABLE {name} ({columns.replace(' NOT ENFORCED', '').replace('STRING', 'VARCHAR')})"
            )
            self._connection.executemany(f"INSERT INTO {name} VALUES (?, ?)", rows)

    def load(self, histories: list[History]) -> None:
        """Take the rows that the changes so far leave."""
        for history in histories:
            columns = history.table.columns
            values = zip(*history.rows, strict=True) if history.rows else [()] * len(columns)
            arrays = [pa.array(list(each), _ARROW[kind]) for each, (_, kind) in zip(values, columns, strict=True)]
            self._connection.register("given", pa.table(arrays, [name for name, _ in columns]))
            self._connection.execute(f"DELETE FROM {history.table.name}")
            self._connection.execute(f"INSERT INTO {history.table.name} SELECT * FROM given")
            self._connection.unregister("given")

    def rows(self, query: str) -> Counter[Values]:
        """Return the rows of a query."""
        return Counter(tuple(row) for row in self._connection.execute(rendered(query, 1)).fetchall())

    def close(self) -> None:
        """Close it."""
        self._connection.close()


# ---- the job


class Crashed(Exception):
    """The fault that is planted."""


Left = Counter[Values] | list[dict[Values, Values]]
"""The rows that changes leave, or those that upserts leave by each of several keys."""


class Stage:
    """What sources, sinks and driver of a run share: they are in one thread."""

    changes: ClassVar[dict[str, list[Row]]] = {}
    """The changes of each table that its source may give."""
    limits: ClassVar[dict[str, int]] = {}
    reached: ClassVar[dict[str, int]] = {}
    crash: tuple[str, int] | None = None
    """The table whose source fails, and behind how many changes."""
    left: ClassVar[dict[str, dict[int, Left]]] = {}
    ended: ClassVar[dict[str, dict[int, Left]]] = {}
    """What was left before the crash: a query of constants has ended then, and is not run again."""
    written: int = 0
    """How many changes sinks were given."""


def stage() -> type[Stage]:
    """Return the one ``Stage``: the classes below travel by value."""
    return importlib.import_module("tests.table.random_runs").Stage  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a table from ``offset`` on."""

    offset: int = 0
    id: ClassVar[str] = "changes"


@dataclass(frozen=True)
class ChangesSource(Source[Row]):
    """The changes of a table up to the limit of the stage, in blocks of random sizes."""

    name: str
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
        here, name, start = stage(), self._source.name, self.queue[0].offset
        here.reached[name] = start
        if here.crash is not None and here.crash[0] == name and start >= here.crash[1]:
            raise Crashed
        end = here.limits[name]
        if start >= end:
            return Wait(100)
        end = min(end, start + self._rng.randrange(1, self._source.largest + 1))
        self.queue[0] = Changes(end)
        return Batch(list(here.changes[name][start:end]), split=Changes.id)


@dataclass(frozen=True)
class LeftRows(Sink):
    """Counts the rows that changes leave, exactly once; with ``keys`` it keeps the last row of each key."""

    name: str
    keys: tuple[tuple[int, ...], ...] = ()
    never_waits = True

    def writer(self, context: Any) -> SinkWriter:
        return UpsertsWriter(self, context) if self.keys else LeftRowsWriter(self.name, context)


class LeftRowsWriter(SinkWriter):
    def __init__(self, name: str, context: Any) -> None:
        super().__init__(context)
        self._left: Counter[Values] = Counter()
        stage().left.setdefault(name, {})[context.subtask] = self._left

    def restore_state(self, states: list[Any]) -> None:
        for state in states:
            self._left.update(state)

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        stage().written += len(values)
        for row in values:
            self._left[tuple(row)] += 1 if row.get_row_kind() in (INSERT, AFTER) else -1

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return [{row: count for row, count in self._left.items() if count}]


class UpsertsWriter(SinkWriter):
    """Knows rows by several keys, each of which is enough: there is one writer."""

    def __init__(self, sink: LeftRows, context: Any) -> None:
        super().__init__(context)
        self._keys = sink.keys
        self._kept: list[dict[Values, Values]] = [{} for _ in sink.keys]
        stage().left[sink.name] = {0: self._kept}

    def restore_state(self, states: list[Any]) -> None:
        for state in states:
            for kept, saved in zip(self._kept, state, strict=True):
                kept.update(saved)

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        stage().written += len(values)
        for row in values:
            values = tuple(row)
            for key, kept in zip(self._keys, self._kept, strict=True):
                name = tuple(values[place] for place in key)
                if row.get_row_kind() in (INSERT, AFTER):
                    kept[name] = values
                else:
                    kept.pop(name, None)

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return [[dict(kept) for kept in self._kept]]


class Driver(LocalRunner):
    """Runs a job. Whenever it has nothing to do, ``steps`` goes on: it yields how to make a savepoint, or ``None``."""

    def __init__(self, folder: str, steps: Iterator[Any], quiet: int) -> None:
        self._time = ManualClock(0)
        super().__init__(self._time, self._idle)
        self._folder, self._steps = folder, steps
        self._job: Any = None
        self._quiet, self._wanted, self._seen = 0, quiet, (0,)
        self.savepoint: Any = None
        """The one that is under way, or the last one."""

    def run(self, job: Any) -> None:
        self._job = job
        super().run(job)

    def _idle(self, seconds: float) -> None:
        self._time.advance(100)
        seen = (Stage.written, *Stage.reached.values())
        self._quiet = self._quiet + 1 if seen == self._seen else 0
        self._seen = seen
        if (
            self._quiet < self._wanted
            or Stage.reached != Stage.limits
            or (self.savepoint is not None and not self.savepoint.done())
        ):
            return
        self._quiet = 0
        asked = next(self._steps)
        if asked is not None:
            self.savepoint = self._job.checkpoints.savepoint(self._folder, *asked)


@dataclass
class Case:
    """A seed: tables, queries, and how its job runs."""

    seed: int
    count: int = 6
    batches: int = BATCHES

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        self._rng = rng
        self._histories = [History(table, rng) for table in TABLES]
        queries = Queries(rng)
        self.queries = [queries.query() for _ in range(self.count)]
        self.options = {
            "table.exec.mini-batch.enabled": rng.random() < 0.3,
            "table.exec.mini-batch.allow-latency": "1 ms",  # a watermark waits for the next multiple
            "table.exec.mini-batch.size": rng.choice([3, 50]),
            "table.optimizer.agg-phase-strategy": "AUTO" if self.seed % 3 else "ONE_PHASE",
            "table.optimizer.distinct-agg.split.enabled": self.seed % 2 == 0,
            "table.optimizer.multi-join.enabled": self.seed % 5 < 2,
        }
        self.backend = "rocksdb" if rng.random() < 0.1 else "hashmap"
        self.crashes = rng.randrange(self.batches) if rng.random() < 0.8 else -1
        self._grown = 0

    def differences(self, only: list[int] | None = None) -> list[str]:
        """Run all batches; return each query whose rows are others than the database's, where it first is wrong."""
        places = list(range(self.count)) if only is None else only
        found: dict[int, str] = {}
        database = Database()
        Stage.changes = {history.table.name: history.changes for history in self._histories}
        Stage.limits = dict.fromkeys(Stage.changes, 0)
        Stage.left = {}
        with tempfile.TemporaryDirectory() as folder:
            steps = self._steps(places, database, found)
            path = self._run(places, "", folder, steps)
            if Stage.crash is not None:
                Stage.crash = None
                self._run(places, path, folder, steps)
        database.close()
        return [found[place] for place in sorted(found)]

    def batch_differences(self) -> list[str]:
        """Run each query as a batch over some rows; return those whose rows are others than the database's.

        Windows and versions are left out: in a batch all are over, in the database those that a watermark has passed.
        """
        for history in self._histories:
            history.go_on(self._rng.randrange(1, 60))
            while not history.rows:
                history.go_on(1)
        database = Database()
        database.load(self._histories)
        found = []
        for place, of_streams in enumerate(self.queries):
            query = of_streams.replace(OF_NOTHING, "").replace("{{TRUE|COUNT(*) > 0}}", "TRUE")
            if "DESCRIPTOR(ts)" in query or "ASOF" in query:
                continue
            with self._batch().sql_query(rendered(query, 0)).execute().collect() as rows:
                wrong = _difference(database.rows(query), [Counter(map(tuple, rows))])
            if wrong:
                found.append(f"batch, query {place}: {rendered(query, 0)}\n  {wrong}")
        database.close()
        return found

    def _batch(self) -> StreamTableEnvironment:
        options = {"execution.target": "local", "parallelism.default": self._rng.choice([1, 2, 3])}
        env = StreamExecutionEnvironment(Configuration(options))
        tables = StreamTableEnvironment.create(env, EnvironmentSettings.in_batch_mode())
        for history in self._histories:
            stream = env.from_collection([Row(*row) for row in history.rows])
            schema = history.table.schema()
            table = tables.from_changelog_stream(stream, schema, ChangelogMode.insert_only())
            tables.create_temporary_view(history.table.name, table)
        create_looked_up(tables)
        return tables

    def _steps(self, places: list[int], database: Database, found: dict[int, str]) -> Iterator[Any]:
        """Go through the batches; each step begins when all that was due has come out."""
        rng = self._rng
        for batch in range(self.batches):
            for history in self._histories:
                history.go_on(rng.randrange(1, 9))
            ends = {name: len(changes) for name, changes in Stage.changes.items()}
            if batch == self.crashes:
                # A source that starts anew has no watermark until it has a row: one is left for it.
                last = {table.name: ends[table.name] - table.timed for table in TABLES}
                Stage.limits = {name: rng.randint(Stage.limits[name], end) for name, end in last.items()}
                yield None
                yield ()
                name = rng.choice(list(ends))
                Stage.crash = (name, rng.randint(Stage.limits[name], ends[name]))
            Stage.limits = ends
            yield None
            database.load(self._histories)
            for place in places:
                if place not in found:
                    parts = Stage.left.get(f"q{place}") or Stage.ended[f"q{place}"]
                    wrong = difference(database.rows(self.queries[place]), parts)
                    if wrong:
                        found[place] = f"batch {batch}, query {place}: {rendered(self.queries[place], 0)}\n  {wrong}"
        yield (Stop.SUSPEND,)

    def _run(self, places: list[int], path: str, folder: str, steps: Iterator[Any]) -> str:
        """Run the job to its end, or to the crash; return the last savepoint."""
        Stage.ended, Stage.left, Stage.reached, Stage.written = Stage.left, {}, {}, 0
        env = self._environment(path, folder)
        rng = self._rng
        for history in self._histories:
            name = history.table.name
            source = ChangesSource(name, rng.randrange(1 << 30), rng.choice([1, 3, 100]))
            stream: Any = env.stream_environment.from_source(source, None, name).uid(name).set_parallelism(1)
            table = env.from_changelog_stream(stream, history.table.schema(), history.table.mode)
            env.create_temporary_view(name, table)
        create_looked_up(env)
        for place in places:
            self._add(env, place)
        batches = self.options["table.exec.mini-batch.enabled"]
        driver = Driver(folder, steps, _QUIET_OF_BATCHES if batches else _QUIET)
        client = JobClient(env.stream_environment.job(f"seed {self.seed}", driver), driver)
        try:
            client.run()
        except Exception as error:
            if Stage.crash is None or "Crashed" not in f"{type(error).__name__} {error} {error.__cause__!r}":
                raise
        return str(driver.savepoint.result(timeout=5))

    def _add(self, env: StreamTableEnvironment, place: int) -> None:
        """Run a query, with a sink of all changes, or of upserts if the planner says that its rows have keys."""
        name, query = f"q{place}", env.sql_query(rendered(self.queries[place], 0))
        rng, mode, keys = random.Random(f"{self.seed} {place}"), ChangelogMode.all(), ()
        if rng.random() < 0.5:
            (root,) = optimize([LogicalSink(query.plan, None)], env.get_config())
            keys = tuple(sorted(tuple(sorted(key)) for key in root.input.upsert_keys))
            mode = ChangelogMode.upsert(rng.random() < 0.5) if keys else mode
        schema = None
        if keys and rng.random() < 0.5:
            keys = (rng.choice(keys),)
            schema = Schema((), (), tuple(query.plan.row_type.names[place] for place in keys[0]))
        sink = env.to_changelog_stream(query, schema, mode).sink_to(LeftRows(name, keys)).name(name).uid(name)
        if keys:
            sink.set_parallelism(1)

    def _environment(self, path: str, folder: str) -> StreamTableEnvironment:
        options: dict[str, Any] = {
            "execution.target": "local",
            "parallelism.default": self._rng.choice([1, 1, 2, 3]),
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


def difference(expected: Counter[Values], parts: dict[int, Left]) -> str:
    """Return how rows differ from those that are expected; nothing if they do not."""
    if isinstance(parts.get(0), list):
        found = (_difference(expected, [Counter(kept.values())]) for kept in parts[0])
        return next(filter(None, found), "")
    return _difference(expected, list(parts.values()))


def _difference(expected: Counter[Values], parts: list[Any]) -> str:
    left = Counter[Values]()
    for part in parts:
        for row, count in part.items():
            left[row] += count
    left = Counter({row: count for row, count in left.items() if count})
    if left == expected:
        return ""
    surplus = {row: count - expected[row] for row, count in left.items() if count != expected[row]}
    missing = {row: count for row, count in expected.items() if row not in left}
    return f"surplus {surplus}\n  missing {missing}"
