"""Attempts after a failure: iterations go on from their newest checkpoint, everything else begins anew."""

import pickle

import pytest

from funken import Configuration, MapFunction
from funken.dataset import DiscardingOutput, ExecutionEnvironment, LongSumAggregator
from funken.dataset.cluster import runner
from funken.dataset.cluster.runner import BatchMaster
from funken.dataset.cluster.worker import BatchProgram, SuperstepDecided, SuperstepEnded, read_parts, write_parts
from funken.dataset.runtime.iterations import Report
from funken.errors import CheckpointCorrupted, OperatorFailed
from funken.io.shapes import dumps
from funken.runtime.messages import TaskId
from funken.timing.clock import ManualClock
from tests.dataset import workers
from tests.dataset.catalogue import CATALOGUE, components
from tests.dataset.programs import environment, same


@pytest.fixture(autouse=True)
def workers_are_threads(monkeypatch):
    monkeypatch.setattr(runner, "run_stage", workers.run_stage)


def cluster(**options):
    chosen = {
        "execution.target": "batch",
        "parallelism.default": 2,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": 0,
    }
    chosen |= {"execution.checkpointing.interval": "1 ms"} | {
        name.replace("_", "."): value for name, value in options.items()
    }
    return ExecutionEnvironment.get_execution_environment(Configuration(chosen))


class FailOnce(MapFunction):
    """Fails in a superstep, until the marker exists; counts supersteps in files, records in an accumulator."""

    def __init__(self, folder, superstep):
        self.folder = folder
        self.superstep = superstep

    def open(self, context):
        now = context.get_superstep_number()
        (self.folder / f"{context.get_index_of_this_subtask()}-{now}-{self._count()}").touch()
        if now == self.superstep and not (self.folder / "failed").exists():
            (self.folder / "failed").touch()
            raise RuntimeError("planned")
        self.sum = context.get_iteration_aggregator("sum")
        self.before = context.get_previous_iteration_aggregate("sum")
        self.seen = context.get_int_counter("seen")

    def _count(self):
        return 1 if (self.folder / "failed").exists() else 0

    def map(self, value):
        self.sum.aggregate(1)
        self.seen.add(1)
        return value[0], value[1] + 1, self.before


def counting(env, folder, supersteps=9, fails_in=6):
    start = env.from_collection([(n, 0, None) for n in range(20)]).iterate(supersteps)
    start.register_aggregator("sum", LongSumAggregator())
    return start.close_with(start.partition_by_hash(0).map(FailOnce(folder, fails_in)))


def test_a_bulk_iteration_goes_on_behind_its_checkpoint(tmp_path):
    env = cluster()

    found = counting(env, tmp_path).collect()

    result = env.get_last_job_execution_result()
    assert same(found, [(n, 9, 20) for n in range(20)])
    assert result.restarts == 1
    assert result.iterations[0][1] == 9
    assert result.get_accumulator_result("seen") == 9 * 20
    repeated = sorted(int(path.name.split("-")[1]) for path in tmp_path.glob("0-*-1"))
    assert repeated[0] in (5, 6), "the second attempt began with an earlier superstep"
    assert repeated[-1] == 9


def test_without_checkpoints_an_attempt_begins_anew(tmp_path):
    env = cluster(execution_checkpointing_interval=0)

    found = counting(env, tmp_path).collect()

    assert same(found, [(n, 9, 20) for n in range(20)])
    assert (tmp_path / "0-1-1").exists()


def test_without_a_restart_strategy_the_first_failure_is_the_last(tmp_path):
    env = ExecutionEnvironment.get_execution_environment(Configuration({"parallelism.default": 2}))

    with pytest.raises(OperatorFailed, match="superstep 6 was opened: RuntimeError: planned"):
        counting(env, tmp_path).collect()


def test_a_delta_iteration_goes_on_with_solution_set_and_workset(tmp_path):
    class FailAt4(MapFunction):
        def open(self, context):
            if context.get_superstep_number() == 4 and not (tmp_path / "failed").exists():
                (tmp_path / "failed").touch()
                raise RuntimeError("planned")

        def map(self, value):
            return value

    env, plain = cluster(), environment(2)

    found = components(env, lambda changes: changes.map(FailAt4()).with_forwarded_fields("*")).collect()

    expected = components(plain).collect()
    assert same(found, expected)
    assert env.get_last_job_execution_result().restarts == 1
    assert env.get_last_job_execution_result().iterations == plain.get_last_job_execution_result().iterations


def test_checkpoints_are_gone_in_the_end(tmp_path):
    folder = tmp_path / "checkpoints"
    env = cluster(execution_checkpointing_dir=str(folder))

    counting(env, tmp_path).collect()

    assert not [path for path in folder.rglob("*") if path.is_file()]


def test_what_a_failed_attempt_has_collected_does_not_count(tmp_path):
    class FailLate(MapFunction):
        def map(self, value):
            if value == 5999 and not (tmp_path / "failed").exists():
                (tmp_path / "failed").touch()
                raise RuntimeError("planned")
            return value

    env = cluster()

    found = env.from_collection(range(6000)).map(FailLate()).collect()

    assert same(found, range(6000))


def test_a_damaged_checkpoint_is_refused(tmp_path):
    write_parts(str(tmp_path), 0, [(0, [1, 2]), (1, [(3, "a")])])
    assert list(read_parts(str(tmp_path), 0)) == [(0, [1, 2]), (1, [(3, "a")])]
    path = tmp_path / "worker-0"
    content = path.read_bytes()

    for damaged in (content[:-1], content[:3], content[:-1] + b"?"):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointCorrupted, match="worker-0"):
            list(read_parts(str(tmp_path), 0))


def test_the_driver_asks_for_a_checkpoint_when_the_interval_has_passed(tmp_path):
    clock = ManualClock()
    env = cluster()
    env.set_parallelism(1)
    CATALOGUE["bulk iteration"](env).output(DiscardingOutput())
    master = BatchMaster(BatchProgram(env._plan().sinks, 1, 0, checkpoints=str(tmp_path)), 1000, clock)

    def end(superstep):
        report = dumps(Report(superstep, 0, {"sum": 1}), lambda error: error)
        ((task, command),) = master.handle(SuperstepEnded(TaskId(0, 0), iteration=0, report=report))
        assert (task, type(command)) == (TaskId(0, 0), SuperstepDecided)
        return pickle.loads(command.decision)

    assert not end(1).checkpoint
    clock.advance(1000)
    assert end(2).checkpoint
    assert master.checkpoints == {}
    assert not end(3).checkpoint
    assert master.checkpoints[0].decision.superstep == 4
    assert master.checkpoints[0].folder.endswith("iteration-0/superstep-3")
