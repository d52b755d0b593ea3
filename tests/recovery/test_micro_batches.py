"""Micro-batches on Spark: a streaming DataFrame through the same programs, exactly once per batch."""

import json
import os
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from funken import (
    Encoder,
    FileSink,
    InvalidProgram,
    JobExecutionError,
    MapFunction,
    NumberSequenceSource,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from funken.config import Configuration
from funken.spark.session import session_for
from funken.spark.submit import MicroBatchRunner

pytestmark = pytest.mark.spark
IN_ORDER = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row.at)


@pytest.fixture(scope="module")
def spark():
    return session_for(Configuration(), None, 0)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path


def put(folder, number, rows):
    """Add a file, which is one batch; its time decides its turn."""
    lines = "".join(json.dumps(dict(zip(("k", "n", "at"), row, strict=True))) + "\n" for row in rows)
    new = folder / f".{number}"
    new.write_text(lines)
    os.utime(new, (1000 + number, 1000 + number))
    new.rename(folder / "in" / f"{number}.json")


def program(spark, folder, **options):
    given = {
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.job-id": "ab" * 16,
        "execution.micro-batch.available-now": True,
        "parallelism.default": 2,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 2,
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration(given | options))
    reader = spark.readStream.schema("k string, n int, at long").option("maxFilesPerTrigger", 1)
    return env, env.from_spark(reader.json(str(folder / "in")), IN_ORDER)


class Sums(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, sum(row.n for row in elements)


class FailOnce(MapFunction):
    def __init__(self, marker, at):
        self.marker = marker
        self.at = at

    def map(self, row):
        if row.at == self.at and Path(self.marker).exists():
            Path(self.marker).unlink()
            raise RuntimeError("as planned")
        return row


def totals(rows):
    return rows.map(lambda row: (row.k, row.n)).key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))


BATCHES = [[("a", 1, 1), ("b", 2, 12)], [("a", 10, 13), ("b", 20, 14)], [("a", 100, 25), ("b", 200, 99)]]


def written(folder):
    """Return the lines of all finished files."""
    files = [path for path in (folder / "out").rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return sorted(line for path in files for line in path.read_text().splitlines())


def running_totals(batches):
    sums, lines = defaultdict(int), []
    for key, n, _ in (row for rows in batches for row in rows):
        sums[key] += n
        lines.append(f"{key} {sums[key]}")
    return sorted(lines)


def test_state_and_windows_go_on_from_batch_to_batch_and_from_run_to_run(spark, folder):
    found = []
    for run in (BATCHES[:2], BATCHES[2:], []):
        for number, rows in enumerate(run):
            put(folder, len(found) * 10 + number, rows)
        _, rows = program(spark, folder)
        windows = rows.key_by(lambda row: row.k).window(TumblingEventTimeWindows.of(10)).process(Sums())
        with totals(rows).map(lambda pair: ("total", *pair)).union(windows).execute_and_collect() as records:
            found.append(list(records))
    assert Counter(found[0]) == Counter(
        [("total", "a", 1), ("total", "b", 2), ("total", "a", 11), ("total", "b", 22), ("a", 0, 1)]
    )
    assert Counter(found[1]) == Counter(
        [("total", "a", 111), ("total", "b", 222), ("b", 10, 22), ("a", 10, 10), ("a", 20, 100)]
    )
    assert found[2] == []


def write(rows, folder):
    lines = totals(rows).map("{0[0]} {0[1]}".format)
    lines.sink_to(FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder()).build())


def test_a_failure_in_a_batch_repeats_the_batch_and_no_result(spark, folder):
    for number, rows in enumerate(BATCHES):
        put(folder, number, rows)
    (folder / "marker").touch()
    env, rows = program(spark, folder)
    write(rows.map(FailOnce(str(folder / "marker"), 14)), folder)
    env.execute()
    assert written(folder) == running_totals(BATCHES)
    assert not (folder / "marker").exists()


def test_a_batch_that_spark_had_not_noted_is_not_run_again(spark, folder, monkeypatch):
    """The driver dies between Funken's checkpoint and Spark's note of the batch."""
    run_batch, died = MicroBatchRunner._run_batch, []

    def die_once(self, job, settings, rows, number):
        run_batch(self, job, settings, rows, number)
        if number == 1 and not died:
            died.append(number)
            raise JobExecutionError("as planned")

    monkeypatch.setattr(MicroBatchRunner, "_run_batch", die_once)
    for number, rows in enumerate(BATCHES):
        put(folder, number, rows)
    env, rows = program(spark, folder)
    write(rows, folder)
    env.execute()
    assert died == [1]
    assert written(folder) == running_totals(BATCHES)


def test_it_runs_until_it_is_cancelled(spark, folder):
    put(folder, 0, BATCHES[0])
    _, rows = program(spark, folder, **{"execution.micro-batch.available-now": False})
    with totals(rows).execute_and_collect() as records:
        assert {next(records), next(records)} == {("a", 1), ("b", 2)}
        put(folder, 1, BATCHES[1])
        assert {next(records), next(records)} == {("a", 11), ("b", 22)}
    assert not spark.streams.active


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_a_static_dataframe_is_read_by_a_batch_job(spark, parallelism):
    frame = spark.range(1000).selectExpr("id % 7 AS k", "id AS n", "'x' AS text").repartition(5)
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)
    keyed = env.from_spark(frame).map(lambda row: (row.k, row.n)).key_by(lambda pair: pair[0])
    env.get_configuration().set_string("execution.runtime-mode", "BATCH")
    with keyed.reduce(lambda a, b: (a[0], a[1] + b[1])).execute_and_collect() as records:
        found = sorted(records)
    assert found == [(k, sum(range(k, 1000, 7))) for k in range(7)]


FACTOR = 2


@pytest.mark.parametrize("function", [lambda row: (row.k, row.n), lambda row: (row.k, row.n * FACTOR // 2)])
def test_columns_of_a_dataframe_stay_columns(spark, function):
    """With a null, names to be quoted, and a function whose variable may change, which therefore has all columns read."""
    price = "CASE WHEN id = 17 THEN NULL ELSE id END AS n"
    frame = spark.range(1000).selectExpr("id % 7 AS k", price, "'x' AS `text.en`", "array(id) AS `a``b`").repartition(5)
    found, plans = [], []
    for vectorized in (False, True):
        options = Configuration({"pipeline.vectorized": vectorized, "execution.runtime-mode": "BATCH"})
        env = StreamExecutionEnvironment.get_execution_environment(options).set_parallelism(2)
        pairs = env.from_spark(frame, source_name="rows").filter(lambda row: row.n is not None).map(function)
        totals = pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
        totals.print()
        plans.append(env.explain())
        with totals.execute_and_collect() as records:
            found.append(sorted(records))
    assert found[0] == found[1] == [(k, sum(n for n in range(k, 1000, 7) if n != 17)) for k in range(7)]
    assert ["columns: rows: vectorized" in plan for plan in plans] == [False, True]
    assert "projection: rows: reads 2 of 4 fields: k, n" in plans[1]


def test_what_cannot_be_read_is_refused_with_a_remedy(spark, folder):
    env, rows = program(spark, folder)
    with pytest.raises(InvalidProgram, match="second DataFrame.*Spark first"):
        env.from_spark(spark.range(1))
    with pytest.raises(InvalidProgram, match="needs a DataFrame of pyspark.sql, but got"):
        StreamExecutionEnvironment().from_spark([1])
    rows.union(env.from_source(NumberSequenceSource(0, 1))).print()
    env.get_configuration().set_string("execution.target", "continuous")
    with pytest.raises(InvalidProgram, match="'continuous' cannot read a streaming DataFrame; leave it 'auto'"):
        env.execute()
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": "micro-batch"}))
    env.from_collection([1]).print()
    with pytest.raises(InvalidProgram, match="there is no from_spark"):
        env.execute()
