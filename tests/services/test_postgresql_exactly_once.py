"""A keyed job into PostgreSQL, and from its changes: each result is there once, whoever is killed."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from funken import NumberSequenceSource, SinkWriter, WatermarkStrategy
from funken.connectors import DeliveryGuarantee, RateLimitedSource, Sink
from funken.connectors.postgresql import PostgresCdcSource, PostgresDatabase, PostgresSink

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
COUNT, KEYS, PER_SECOND = 4000, 7, 1000


def die(folder, when, kills):
    """End this process, or fail, where a marker file says so."""
    for marker in sorted(Path(folder).glob(f"{when}-*")):
        with contextlib.suppress(FileNotFoundError):
            marker.unlink()
            if kills:
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("as planned")


@dataclass(frozen=True)
class DyingSink(Sink):
    """Another sink, whose writers die when they have prepared a transaction, or when it is committed."""

    sink: Sink
    folder: str
    kills: bool

    def check(self):
        self.sink.check()

    def committer(self, context):
        return self.sink.committer(context)

    def writer(self, context):
        return DyingWriter(self.sink.writer(context), self.folder, self.kills)


class DyingWriter(SinkWriter):
    def __init__(self, writer, folder, kills):
        self.writer, self.folder, self.kills = writer, folder, kills
        self.open, self.write, self.flush, self.close = writer.open, writer.write, writer.flush, writer.close

    def prepare_commit(self, checkpoint_id, end_of_input):
        prepared = self.writer.prepare_commit(checkpoint_id, end_of_input)
        if prepared and checkpoint_id is not None and checkpoint_id > 1:
            die(self.folder, "prepared", self.kills)
        return prepared

    def notify_checkpoint_complete(self, checkpoint_id):
        die(self.folder, "committed", self.kills)


def sink_of(conninfo, table):
    return PostgresSink(
        PostgresDatabase(conninfo),
        table,
        ("k", "n"),
        guarantee=DeliveryGuarantee.EXACTLY_ONCE,
        transaction_prefix=f"job-{table}",
    )


def program(env, sink):
    """Count per key: a result that is doubled or lost is seen, and so is a count that is wrong."""
    numbers = RateLimitedSource(NumberSequenceSource(0, COUNT - 1), PER_SECOND)
    pairs = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counts = pairs.map(lambda number: (number % KEYS, 1)).key_by(lambda pair: pair[0])
    counts.reduce(lambda one, other: (one[0], one[1] + other[1])).uid("counts").sink_to(sink).uid("results")


def differences(server, table):
    wanted = Counter((key, n) for key in range(KEYS) for n in range(1, len(range(key, COUNT, KEYS)) + 1))
    there = Counter(server.execute(f"SELECT k, n FROM {table}"))
    return {"lost": (wanted - there).total(), "doubled": (there - wanted).total()}


@pytest.mark.ways("local", "continuous")
def test_each_result_is_there_once_whoever_is_killed(env, mode, postgres, tmp_path):
    table = postgres.table("k int, n int")
    for when in ("prepared", "committed"):
        (tmp_path / f"{when}-1").touch()
    for key, value in {
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 8,
        "restart-strategy.fixed-delay.delay": "1 ms",
    }.items():
        env.get_configuration().set(key, value)
    sink = sink_of(postgres.conninfo, table)
    program(env, DyingSink(sink, str(tmp_path), mode == "continuous"))
    env.execute()

    assert not list(tmp_path.glob("*-1")), "it died as often as planned"
    assert differences(postgres, table) == {"lost": 0, "doubled": 0}
    family = sink.family("results")
    assert [gid for (gid,) in postgres.execute("SELECT gid FROM pg_prepared_xacts") if gid.startswith(family)] == []


DRIVER = """
import sys
from funken import StreamExecutionEnvironment
from tests.services.test_postgresql_exactly_once import program, sink_of
env = StreamExecutionEnvironment.get_execution_environment()
program(env, sink_of(*sys.argv[1:]))
env.execute()
"""


def test_each_result_is_there_once_although_the_driver_is_killed(postgres, tmp_path):
    table = postgres.table("k int, n int")
    (tmp_path / "job.py").write_text(DRIVER)
    given = {
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": tmp_path / "checkpoints",
        "execution.job-id": f"job-{table}",
    }
    options = [f"-D{key}={value}" for key, value in given.items()]
    command = [sys.executable, "-m", "funken", "run", "--target", "local", "-p", "2", *options, tmp_path / "job.py"]
    seen = kills = 0
    for kill in (True, True, False):
        job = subprocess.Popen(
            [*command, postgres.conninfo, table],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            while kill and job.poll() is None:
                [(now,)] = postgres.execute(f"SELECT count(*) FROM {table}")
                if now > seen:
                    seen = now
                    break
                threading.Event().wait(0.05)
            if kill:
                job.kill()
            out = job.communicate(timeout=120)
            assert job.returncode in ((0, -signal.SIGKILL) if kill else (0,)), out
            kills += job.returncode != 0
            if job.returncode == 0:
                break
        finally:
            job.kill()
    assert kills
    assert differences(postgres, table) == {"lost": 0, "doubled": 0}


@pytest.mark.ways("local")
def test_a_job_reads_rows_and_then_changes(env, postgres):
    table = postgres.table("id int PRIMARY KEY, word text", [(1, "a"), (2, "b")])
    source = PostgresCdcSource(PostgresDatabase(postgres.conninfo), [table], f"s_{uuid.uuid4().hex[:8]}")
    changes = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "changes")
    described = changes.map(lambda change: (change.kind.value, change.after["word"]))
    try:
        with described.execute_and_collect() as found:
            got = sorted(next(found) for _ in range(2))
            postgres.execute(f"UPDATE {table} SET word = 'c' WHERE id = 1; INSERT INTO {table} VALUES (3, 'd')")
            got += sorted(next(found) for _ in range(2))
    finally:
        source.drop()

    assert got == [("r", "a"), ("r", "b"), ("c", "d"), ("u", "c")]
