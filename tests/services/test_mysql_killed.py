"""Changes of MariaDB, captured by jobs whose processes are killed: each change is there once, and so is each row."""

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from funken import SourceReader, WatermarkStrategy
from funken.connectors import Batch, RateLimitedSource, Source
from funken.connectors.mysql import ChangeKind, MySqlCdcSource, MySqlDatabase
from funken.connectors.sql import SqlSink
from tests.support.files import file_sink, written

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
ROWS, STATEMENTS, PER_SECOND, PAGE, WAIT_S = 1200, 800, 600, 50, 120
SERVER_IDS = itertools.count(7000)


def database_of(port):
    return MySqlDatabase("127.0.0.1", user="root", database="shop", port=int(port))


def text_of(change):
    """A change as a line: its kind, its place in the log, and the rows before and after."""
    before, after = (None if row is None else (row["id"], row["n"]) for row in (change.before, change.after))
    return f"{change.kind.value}|{change.lsn}|{before}|{after}"


def row_of(change):
    """The row that the sink has for a key after a change."""
    row = change.after or change.before
    return {"id": row["id"], "n": row["n"], "gone": int(change.after is None)}


def program(env, source, port, out, folder):
    """Each change becomes a line of a file, and a row by its key in another table; those of a key stay in their order."""
    changes = env.from_source(source, WatermarkStrategy.no_watermarks(), "changes").uid("changes")
    changes.map(text_of).sink_to(file_sink(Path(folder))).uid("lines")
    sink = SqlSink(database_of(port), out, ("id", "n", "gone"), key_columns=("id",), batch_size=50)
    by_key = changes.key_by(lambda change: (change.after or change.before)["id"])
    by_key.map(row_of).sink_to(sink).uid("rows")


def source_of(port, table, server_id, **more):
    return MySqlCdcSource(database_of(port), [f"shop.{table}"], int(server_id), page_size=PAGE, **more)


class Writer:
    """Inserts, updates and deletes rows while a job runs; each value of ``n`` is there once."""

    def __init__(self, server):
        self.server = server
        self.table = server.table("id int PRIMARY KEY, n int", [(2 * id_, id_) for id_ in range(ROWS)])
        self.out = server.table("id int PRIMARY KEY, n int, gone int")
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def start(self):
        self._thread.start()
        return self

    @property
    def is_done(self):
        return self._thread.ident is not None and not self._thread.is_alive()

    def _write(self):
        with contextlib.closing(self.server.connect()) as connection:
            cursor = connection.cursor()
            for turn in range(STATEMENTS):
                at, n = turn * 37 % (2 * ROWS + 100), 10_000 + turn
                if turn % 5:
                    cursor.execute(
                        f"INSERT INTO {self.table} VALUES (%s, %s) ON DUPLICATE KEY UPDATE n = %s", (at, n, n)
                    )
                else:
                    cursor.execute(f"DELETE FROM {self.table} WHERE id = %s", ((turn * 11) % (2 * ROWS),))
                if self._stopped.wait(0.005):
                    return

    def stop(self):
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(WAIT_S)


@pytest.fixture
def writer(mariadb):
    writer = Writer(mariadb)
    try:
        yield writer
    finally:
        writer.stop()


def folded(folder):
    """Apply the changes in the order of the log; fails if one is lost, or there twice."""
    lines = written(folder)
    assert [line for line, count in lines.items() if count > 1] == []
    parsed = [
        (kind, int(lsn or 0), eval(before), eval(after)) for kind, lsn, before, after in (x.split("|") for x in lines)
    ]
    state = {}
    for kind, _, before, after in sorted(parsed, key=lambda change: (change[0] != "r", change[1], change[0])):
        if kind == "r":
            assert after[0] not in state
        if before is not None:
            assert state.pop(before[0], None) == before[1], (kind, before, after)
        if after is not None:
            assert after[0] not in state, (kind, before, after)
            state[after[0]] = after[1]
    return state


def kinds(folder):
    return Counter(line[0] for line in written(folder).elements())


def check(server, writer, folder):
    rows = dict(server.execute(f"SELECT id, n FROM {writer.table}"))
    assert folded(folder) == rows
    there = dict((id_, n) for id_, n, gone in server.execute(f"SELECT id, n, gone FROM {writer.out}") if not gone)
    assert there == rows


SETTINGS = {
    "execution.checkpointing.interval": "100 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 50,
    "restart-strategy.fixed-delay.delay": "1 ms",
}
DRIVER = """
import sys
from funken import StreamExecutionEnvironment
from funken.connectors import RateLimitedSource
from tests.services.test_mysql_killed import PER_SECOND, program, source_of
port, table, out, server_id, folder = sys.argv[1:]
env = StreamExecutionEnvironment.get_execution_environment()
program(env, RateLimitedSource(source_of(port, table, server_id), PER_SECOND), port, out, folder)
env.execute()
"""


def test_each_change_is_there_once_although_the_driver_is_killed(mariadb, writer, tmp_path):
    (tmp_path / "job.py").write_text(DRIVER)
    given = SETTINGS | {
        "execution.checkpointing.dir": tmp_path / "checkpoints",
        "execution.job-id": f"job-{writer.table}",
    }
    options = [f"-D{key}={value}" for key, value in given.items()]
    command = [sys.executable, "-m", "funken", "run", "--target", "local", "-p", "2", *options, tmp_path / "job.py"]
    writer.start()
    out, server_id, killed = tmp_path / "out", str(next(SERVER_IDS)), []
    out.mkdir()

    def current():
        seen = kinds(out)
        return seen["r"], seen.total() - seen["r"]

    def is_complete():
        rows = dict(mariadb.execute(f"SELECT id, n FROM {writer.table}"))
        return current()[1] and writer.is_done and folded(out) == rows

    for reached in (lambda: current()[0] >= 200, lambda: current()[0] >= 700, lambda: current()[1] >= 20, is_complete):
        job = subprocess.Popen(
            [*command, str(mariadb.port), writer.table, writer.out, server_id, out],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            for _ in range(20 * WAIT_S):
                if job.poll() is not None or reached():
                    break
                threading.Event().wait(0.05)
            threading.Event().wait(0.5 if reached is is_complete else 0)  # what might be one too many
            killed.append(current())
        finally:
            job.kill()
            told = job.communicate(timeout=120)
        assert job.returncode == -signal.SIGKILL, told
    assert killed[0][1] == killed[1][1] == 0  # amid the rows
    assert killed[2][1] > 0  # amid the log
    check(mariadb, writer, out)


@dataclass(frozen=True)
class DyingSource(Source):
    """Another source, whose reader dies amid the rows and amid the log, just before a checkpoint has its place."""

    source: Source
    folder: str

    def __post_init__(self):
        object.__setattr__(self, "boundedness", self.source.boundedness)
        object.__setattr__(self, "max_parallelism", self.source.max_parallelism)

    def enumerator(self, parallelism):
        return self.source.enumerator(parallelism)

    def reader(self, context):
        return DyingReader(self.source.reader(context), self.folder)


class DyingReader(SourceReader):
    def __init__(self, reader, folder):
        self.reader, self.folder, self.seen = reader, folder, Counter()
        self.open, self.add_splits, self.split_finished = reader.open, reader.add_splits, reader.split_finished
        self.close = reader.close

    def poll(self, limit, now):
        got = self.reader.poll(limit, now)
        if isinstance(got, Batch):
            self.seen.update("rows" if change.kind is ChangeKind.READ else "log" for change in got.values)
        return got

    def snapshot_state(self, checkpoint_id):
        state = self.reader.snapshot_state(checkpoint_id)
        for when, count in self.seen.items():
            for marker in sorted(Path(self.folder).glob(f"{when}-*"))[:1]:
                if count > 20:
                    marker.unlink()
                    os.kill(os.getpid(), signal.SIGKILL)
        return state


@pytest.mark.ways("continuous")
def test_each_change_is_there_once_although_workers_are_killed(env, mariadb, writer, tmp_path):
    for marker in ("rows-1", "rows-2", "log-1", "log-2"):
        (tmp_path / marker).touch()
    out = tmp_path / "out"
    out.mkdir()
    for key, value in (SETTINGS | {"execution.checkpointing.dir": str(tmp_path / "checkpoints")}).items():
        env.get_configuration().set(key, value)
    source = DyingSource(source_of(mariadb.port, writer.table, next(SERVER_IDS)), str(tmp_path))
    program(env, RateLimitedSource(source, PER_SECOND), mariadb.port, writer.out, out)
    job = env.execute_async()
    over, started = job.get_job_execution_result(), False
    try:
        for _ in range(20 * WAIT_S):
            if over.done():
                break
            seen = kinds(out)
            if seen["r"] >= 100 and not started:
                writer.start()
                started = True
            rows = dict(mariadb.execute(f"SELECT id, n FROM {writer.table}"))
            if writer.is_done and seen.total() > seen["r"] and folded(out) == rows:
                break
            threading.Event().wait(0.05)
        threading.Event().wait(0.5)
    finally:
        writer.stop()
        over.result() if over.done() else job.cancel().result(timeout=WAIT_S)
    assert sorted(path.name for path in tmp_path.glob("*-[12]")) == [], "it died as often as planned"
    check(mariadb, writer, out)
