"""SQL on continuous Spark: workers are killed in between, and the rows that are left are those of a run without faults."""

import os
import signal
from collections import Counter

import pytest

from funken import DataGeneratorSource, Row, RowKind, StreamExecutionEnvironment, WatermarkStrategy
from funken.table.environment import StreamTableEnvironment
from funken.table.schema import Schema
from funken.types.info import Types
from tests.support.files import file_sink, written

pytestmark = [pytest.mark.spark, pytest.mark.ways("continuous"), pytest.mark.timeout(300)]

COUNT, RATE = 1_600, 800
KILLS = (("a", 300), ("b", 700), ("a", 1200))
QUERIES = (
    "SELECT a.id, b.id, b.v FROM a LEFT JOIN b ON a.id = b.id * 2",
    "SELECT a.k, COUNT(*) FROM a JOIN b ON a.v = b.v AND a.id < b.id GROUP BY a.k",
    "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.v = a.v AND b.id = a.id)",
    "SELECT k, COUNT(*), SUM(v), MAX(id), COUNT(DISTINCT v) FROM a GROUP BY k",
    "SELECT n, COUNT(*) FROM (SELECT v, COUNT(*) AS n FROM a GROUP BY v) AS q GROUP BY n",
    "SELECT k, v, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS n FROM a) AS q WHERE n <= 3",
    "SELECT k, CAST(window_start AS STRING), COUNT(*), SUM(v) FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
    "GROUP BY k, window_start, window_end",
    "SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM a",
)
SIGNS = {RowKind.INSERT: 1, RowKind.UPDATE_AFTER: 1, RowKind.UPDATE_BEFORE: -1, RowKind.DELETE: -1}
KINDS = Types.ROW_NAMED(["id", "k", "v"], [Types.INT(), Types.INT(), Types.INT()])


class KilledOnce:
    """Kills its process at a row, unless that has happened."""

    def __init__(self, marker, at):
        self._marker, self._at = marker, at

    def __call__(self, row):
        if row[0] == self._at and not self._marker.exists():
            self._marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return row


def numbers(env, name, rate, step):
    source = DataGeneratorSource(lambda i: i, COUNT, rate)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), name).uid(name)
    return stream.map(lambda i: Row(i, i % 7, i * step % 31), KINDS)


def program(env, folder, rate=None, kills=()):
    tables = StreamTableEnvironment.create(env)
    schema = Schema.new_builder().column("id", "INT").column("k", "INT").column("v", "INT")
    schema = schema.column_by_expression("ts", "TIMESTAMPADD(SECOND, id, TIMESTAMP '2024-01-01 00:00:00')")
    schema = schema.watermark("ts", "ts - INTERVAL '30' SECOND").build()
    for name, step in (("a", 3), ("b", 5)):
        rows = numbers(env, name, rate, step)
        for at in [at for table, at in kills if table == name]:
            rows = rows.map(KilledOnce(folder / f"killed {name} {at}", at), KINDS)
        tables.create_temporary_view(name, tables.from_data_stream(rows, schema))
    lines = [
        tables.to_changelog_stream(tables.sql_query(query)).map(
            lambda row, place=place: f"{SIGNS[row.get_row_kind()]} {place} {tuple(row)}"
        )
        for place, query in enumerate(QUERIES)
    ]
    lines[0].union(*lines[1:]).sink_to(file_sink(folder))


def left(folder):
    found = Counter()
    for line, count in written(folder).items():
        sign, _, row = line.partition(" ")
        found[row] += int(sign) * count
    return {row: count for row, count in found.items() if count}


def test_queries_survive_workers_that_are_killed(environment, tmp_path):
    env = environment(
        {
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 9,
            "restart-strategy.fixed-delay.delay": "1 ms",
        }
    )
    program(env, tmp_path, RATE, KILLS)
    env.execute()

    calm = tmp_path / "calm"
    calm.mkdir()
    local = StreamExecutionEnvironment.create_local_environment(1)
    local.get_configuration().set("execution.runtime-mode", "STREAMING")
    program(local, calm)
    local.execute()
    assert len(list(tmp_path.glob("killed *"))) == len(KILLS)
    assert left(tmp_path) == left(calm)
    assert {line.split()[0] for line in left(calm)} == set(map(str, range(len(QUERIES))))
