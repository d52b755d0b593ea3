"""One Delta table, written by Spark and by Funken at the same time, and read by both."""

import json

import pytest

from funken import DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors.delta import DeltaSink, DeltaSource
from tests.support.delta_spark import DeltaSpark, delta_spark, last_line

deltalake = pytest.importorskip("deltalake", reason="install it with: pip install 'funken[delta]'")
pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]

ROUNDS, AT_A_TIME = 6, 100
WRITE = f"""
print("begun", flush=True)
for number in range({ROUNDS}):
    rows = spark.range(number * {AT_A_TIME}, (number + 1) * {AT_A_TIME}).selectExpr("id", "'spark' AS who", "0L AS n")
    rows.write.format("delta").mode("append").save(sys.argv[2])
    if number % 3 == 2:
        spark.sql(f"OPTIMIZE {{table}}")
"""
CHANGE = f"""
spark.sql(f"UPDATE {{table}} SET n = n + 1 WHERE id < {AT_A_TIME}")
spark.sql(f"DELETE FROM {{table}} WHERE who = 'spark' AND id >= {ROUNDS * AT_A_TIME - 10}")
"""
READ = """
import json
rows = spark.read.format("delta").load(sys.argv[2]).collect()
print(json.dumps(sorted([row.who, row.id, row.n] for row in rows)))
"""


@pytest.fixture
def spark(tmp_path):
    folder, why = delta_spark()
    if folder is None:
        pytest.skip(why)
    found = DeltaSpark(folder, tmp_path / "table")
    found.run('spark.sql(f"CREATE TABLE {table} (id BIGINT, who STRING, n BIGINT) USING delta")')
    return found


def written(path, first, count):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    env.enable_checkpointing(100)
    source = DataGeneratorSource(lambda at: (first + at, "funken", 0), count, rate_per_second=200)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").sink_to(DeltaSink(path))
    env.execute("write")


def test_both_write_one_table_at_the_same_time_and_read_the_same_rows(spark, tmp_path):
    path = str(tmp_path / "table")
    writer, count = spark.start(WRITE), 0
    assert writer.stdout.readline() == "begun\n"
    while writer.poll() is None:
        written(path, count, 200)
        count += 200
    last_line(writer)
    spark.run(CHANGE)  # conflicts with appends at the same time, as any two transactions of which one reads do in Delta
    written(path, count, 10)

    expected = [["funken", number, int(number < AT_A_TIME)] for number in range(count + 10)]
    expected += [["spark", number, int(number < AT_A_TIME)] for number in range(ROUNDS * AT_A_TIME - 10)]
    assert json.loads(spark.run(READ)) == expected
    env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    rows = env.from_source(DeltaSource(path), WatermarkStrategy.no_watermarks(), "table").execute_and_collect()
    assert sorted([row["who"], row["id"], row["n"]] for row in rows) == expected
    engines = [
        each.get("engineInfo", "").partition(":")[0].partition("/")[0] for each in deltalake.DeltaTable(path).history()
    ]
    first = engines.index("Apache-Spark")
    assert (
        "delta-rs" in engines[first : len(engines) - engines[::-1].index("Apache-Spark")]
    )  # one wrote between the other's commits
