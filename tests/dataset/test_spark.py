"""Batch jobs on Spark, in one shared session."""

import os
import signal
import threading

import pytest

from funken import Configuration, MapFunction
from funken.dataset import ExecutionEnvironment
from funken.errors import InvalidProgram, OperatorFailed, TaskLost, TooFewTaskSlots
from funken.spark.frames import session as session_of_spark
from tests.dataset.catalogue import CATALOGUE, ORDERED
from tests.dataset.programs import environment, same

pytestmark = pytest.mark.spark


def on_spark(parallelism=2, **options):
    return ExecutionEnvironment.get_execution_environment(
        Configuration(
            {"parallelism.default": parallelism} | {name.replace("_", "."): value for name, value in options.items()}
        )
    )


@pytest.mark.parametrize(
    "name",
    [
        "records",
        "reduced by hashing",
        "join, merge",
        "diamond",
        "broadcast set",
        "range",
        "bulk iteration",
        "delta iteration",
    ],
)
def test_the_result_is_that_of_one_process(name):
    found = CATALOGUE[name](on_spark(3)).collect()

    expected = CATALOGUE[name](environment(3)).collect()
    assert found == expected if name in ORDERED else same(found, expected)


def test_an_error_of_a_function_has_its_traceback_and_the_next_job_runs():
    env = on_spark(2)

    with pytest.raises(OperatorFailed, match="'invert'.*at the record 0: ZeroDivisionError") as failure:
        env.from_elements(1, 0).rebalance().map(lambda n: 1 // n).name("invert").collect()

    assert "1 // n" in str(failure.value)
    assert env.from_elements(1, 2).count() == 2


def test_a_killed_worker_is_reported():
    class Kill(MapFunction):
        def map(self, value):
            if value == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return value

    env = on_spark(2)

    with pytest.raises(TaskLost):
        env.from_elements(1, 2, 3, 4).rebalance().map(Kill()).collect()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("funken-batch")]


def test_an_iteration_survives_a_killed_worker(tmp_path):
    class KillInSuperstep12(MapFunction):
        def open(self, context):
            self.superstep = context.get_superstep_number()
            marker = tmp_path / "killed"
            if context.get_index_of_this_subtask() == 1 and self.superstep == 12 and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if marker.exists():
                (tmp_path / f"second attempt {self.superstep}").touch()

        def map(self, value):
            return value[0], value[1] + self.superstep

    configuration = Configuration(
        {
            "parallelism.default": 2,
            "execution.checkpointing.interval": "1 ms",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": 0,
        }
    )
    env = ExecutionEnvironment.get_execution_environment(configuration)
    start = env.from_collection([(n, 0) for n in range(50)]).iterate(30)

    found = start.close_with(start.partition_by_hash(0).map(KillInSuperstep12())).collect()

    assert same(found, [(n, sum(range(1, 31))) for n in range(50)])
    assert env.get_last_job_execution_result().restarts == 1
    assert not (tmp_path / "second attempt 1").exists(), "the iteration began anew"


def test_more_workers_than_slots_are_refused():
    assert on_spark(1).from_elements(1).count() == 1  # there is a session, so none is made that has as many slots
    with pytest.raises(TooFewTaskSlots, match="needs 500 task slots"):
        on_spark(500).from_elements(1).count()


def test_rows_of_a_data_frame_and_back():
    frame = session_of_spark().range(100).selectExpr("id", "cast(id % 7 as string) as name")
    env = on_spark(2)

    totals = env.from_spark(frame).map(lambda row: (row.name, row.id)).group_by(0).sum(1)
    found = totals.to_spark()

    assert found.columns == ["f0", "f1"]
    expected = sorted((str(n), sum(range(n, 100, 7))) for n in range(7))
    assert sorted((row.f0, row.f1) for row in found.collect()) == expected


def test_a_result_without_a_record_needs_a_schema():
    nothing = on_spark(2).from_elements((1, "a")).filter(lambda pair: False)

    with pytest.raises(InvalidProgram, match="Give the schema"):
        nothing.to_spark()
    assert nothing.to_spark(schema="f0 int, f1 string").collect() == []


def test_a_target_for_streams_is_refused():
    env = ExecutionEnvironment.get_execution_environment(Configuration({"execution.target": "continuous"}))

    with pytest.raises(InvalidProgram, match="is for streams"):
        env.from_elements(1).count()
