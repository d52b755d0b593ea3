"""Streams as DataFrames of Spark, and batches of a job in Spark's hands."""

import threading

import pytest

from funken import DataGeneratorSource, InvalidProgram, Types, WatermarkStrategy
from funken.connectors.dataframes import SparkSink
from funken.spark.frames import session as session_of_spark

PAIRS = [("to", 2), ("be", 2), ("or", 1), ("be", 3)]
BOUND = 60


def pair(index):
    return ("even" if index % 2 == 0 else "odd", index)


def endless(env):
    source = DataGeneratorSource(pair, rate_per_second=200)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "pairs")


@pytest.mark.spark
@pytest.mark.ways("local", "batch")
def test_a_stream_that_ends_is_a_static_frame(mode, env):
    sums = env.from_collection(PAIRS).key_by(lambda pair: pair[0]).sum(1)

    frame = sums.to_spark(schema="word string, n long")

    assert not frame.isStreaming
    assert frame.schema.simpleString() == "struct<word:string,n:bigint>"
    assert sorted(map(tuple, frame.where("word = 'be'").collect()))[-1] == ("be", 5)


@pytest.mark.spark
@pytest.mark.ways("local")
def test_the_columns_are_those_of_the_records(mode, env):
    assert sorted(map(tuple, env.from_collection(PAIRS).to_spark().select("f1", "f0").collect()))[0] == (1, "or")


@pytest.mark.spark
@pytest.mark.ways("local")
def test_nothing_needs_a_schema(mode, env):
    def nothing():
        return env.from_collection(PAIRS).filter(lambda pair: False)

    with pytest.raises(InvalidProgram, match="Give the schema"):
        nothing().to_spark()
    assert nothing().to_spark(schema="f0 string, f1 long").collect() == []


@pytest.mark.ways("local")
def test_a_stream_without_end_needs_columns(mode, environment):
    stream = endless(environment({"execution.checkpointing.interval": 100}))

    with pytest.raises(InvalidProgram, match="needs its columns"):
        stream.to_spark()


@pytest.mark.spark
@pytest.mark.ways("continuous")
@pytest.mark.parametrize("parallelism", [1])
def test_a_stream_without_end_is_a_streaming_frame(mode, environment, tmp_path):
    """Every record arrives in Spark's query once, in whatever batches it makes of the checkpoints."""
    env = environment({"execution.checkpointing.interval": 200})
    row = Types.TUPLE([Types.STRING(), Types.LONG()])
    frame = endless(env).map(lambda pair: pair, row).to_spark()
    assert frame.isStreaming
    seen = []
    client = env.execute_async("pairs")
    log = str(tmp_path / "log")
    query = (
        frame.where("f0 = 'even'")
        .writeStream.option("checkpointLocation", log)
        .foreachBatch(lambda rows, number: seen.extend(row.f1 for row in rows.collect()))
        .start()
    )
    try:
        while len(seen) < 100 and query.isActive and not client.get_job_execution_result().done():
            threading.Event().wait(0.1)
    finally:
        query.stop()
        client.cancel().result(BOUND)

    assert sorted(seen) == list(range(0, 2 * len(seen), 2))


@pytest.mark.spark
@pytest.mark.ways("batch", "continuous")
def test_batches_in_a_format_of_spark(mode, environment, tmp_path):
    env = environment({"execution.checkpointing.interval": 200})
    source = DataGeneratorSource(pair, count=100, rate_per_second=200)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "pairs")
    target = str(tmp_path / "out")
    numbers.sink_to(SparkSink.for_format("json", schema="parity string, n long", path=target))

    env.execute()

    found = session_of_spark().read.json(target)
    assert sorted(row.n for row in found.collect()) == list(range(100))
