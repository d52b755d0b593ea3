"""Batch jobs in several workers, which are threads here: the same results as in one process, and every ending clean."""

import pickle
import queue
import threading

import pytest

from funken import Configuration, FilterFunction, MapFunction
from funken.dataset import ExecutionEnvironment, ListAccumulator
from funken.dataset.cluster import runner
from funken.dataset.cluster.runner import BatchMaster
from funken.dataset.cluster.worker import BatchProgram, ClusterExchanges
from funken.dataset.exchange import EdgeUse, Routed, by_hash
from funken.dataset.memory.manager import MemoryManager
from funken.errors import InvalidProgram, OperatorFailed, RecordNotPicklable, TaskLost, TransferCorrupted
from funken.io.spill import SpillSpace
from funken.runtime.messages import TaskFailed, TaskId
from funken.runtime.settings import HeartbeatSettings
from funken.spark.barrier import BarrierDeployment, BarrierWorker
from funken.spark.control.server import ControlServer
from funken.spark.control.tls import Credentials
from funken.spark.peers import Frame, Peers
from tests.dataset import workers
from tests.dataset.catalogue import CATALOGUE, ORDERED
from tests.dataset.programs import TINY, environment, same

BOUND = 30


@pytest.fixture(autouse=True)
def workers_are_threads(monkeypatch):
    monkeypatch.setattr(runner, "run_stage", workers.run_stage)


def cluster(parallelism=2, budget=None):
    options = {"execution.target": "batch", "parallelism.default": parallelism}
    if budget is not None:
        options["execution.memory.managed"] = budget
    return ExecutionEnvironment.get_execution_environment(Configuration(options))


@pytest.mark.parametrize("parallelism", [1, 2, 4])
@pytest.mark.parametrize("name", CATALOGUE)
def test_the_result_is_that_of_one_process(name, parallelism):
    found = CATALOGUE[name](cluster(parallelism)).collect()

    expected = CATALOGUE[name](environment(parallelism)).collect()
    assert found == expected if name in ORDERED else same(found, expected)


@pytest.mark.parametrize("name", ["reduced by hashing", "join, hash", "join, merge", "diamond", "outer"])
def test_a_tiny_budget_spills_and_changes_nothing(name):
    env = cluster(2, TINY)

    found = CATALOGUE[name](env).collect()

    result = env.get_last_job_execution_result()
    assert same(found, CATALOGUE[name](environment(2)).collect())
    assert result.spill_files > 0
    assert result.peak_managed_memory < 1.2 * TINY


def test_supersteps_and_worksets_are_those_of_one_process():
    one, several = environment(2), cluster(3)

    CATALOGUE["delta iteration"](one).collect()
    CATALOGUE["delta iteration"](several).collect()

    expected = one.get_last_job_execution_result().iterations
    assert several.get_last_job_execution_result().iterations == expected
    assert len(expected[0][3]) > 2


def test_operators_of_another_parallelism_than_their_iteration():
    def program(env):
        start = env.from_collection(range(10)).iterate(5)
        return start.close_with(start.rebalance().map(lambda n: n + 1).set_parallelism(3)).set_parallelism(2)

    assert same(program(cluster(4)).collect(), range(5, 15))


def test_accumulators_of_all_workers_are_merged():
    class Keep(MapFunction):
        def open(self, context):
            self.count = context.get_int_counter("count")
            context.add_accumulator("all", ListAccumulator())
            self.all = context.get_accumulator("all")

        def map(self, value):
            self.count.add(1)
            self.all.add(value)
            return value

    env = cluster(3)

    env.from_collection(range(9)).map(Keep()).collect()

    found = env.get_last_job_execution_result().get_all_accumulator_results()
    assert found["count"] == 9
    assert sorted(found["all"]) == list(range(9))


def test_files_are_committed_once_and_by_all_workers(tmp_path):
    env = cluster(3)
    env.from_collection(range(9)).write_as_text(tmp_path / "numbers")

    env.execute()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["numbers"]
    assert sorted(int(n) for part in (tmp_path / "numbers").iterdir() for n in part.read_text().split()) == list(
        range(9)
    )


def test_an_error_of_a_function_names_operator_record_and_superstep():
    env = cluster(2)
    start = env.from_collection(range(1, 4)).iterate(5)
    program = start.close_with(start.rebalance().map(lambda n: n + 1 + 0 // (5 - n)).name("divide"))

    with pytest.raises(
        OperatorFailed, match=r"'divide' \(subtask \d\) in superstep 3 failed at the record 5"
    ) as failure:
        program.collect()
    assert "ZeroDivisionError" in str(failure.value)


def test_after_a_failure_nothing_is_left(tmp_path):
    env = cluster(3)
    env.from_collection(range(9)).rebalance().map(lambda n: 1 // n).write_as_text(tmp_path / "numbers")
    before = set(threading.enumerate())

    with pytest.raises(OperatorFailed, match="at the record 0: ZeroDivisionError"):
        env.execute()

    assert list(tmp_path.iterdir()) == []
    for thread in set(threading.enumerate()) - before:
        thread.join(BOUND)
        assert not thread.is_alive(), thread


def test_functions_are_closed_after_a_failure_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "MEETING", threading.Barrier(2))

    class Closed(MapFunction):
        def open(self, context):
            self.subtask = context.get_index_of_this_subtask()
            workers.MEETING.wait(BOUND)  # both are open before one of them fails

        def map(self, value):
            return value

        def close(self):
            (tmp_path / f"closed {self.subtask}").touch()

    def fail(value):
        raise RuntimeError("no")

    env = cluster(2)
    both = env.from_collection(range(100)).rebalance().map(Closed()).rebalance()

    with pytest.raises(OperatorFailed):
        both.map(fail).collect()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["closed 0", "closed 1"]


def test_a_worker_that_waits_for_a_failed_one_does_not_hang():
    class Fail(FilterFunction):
        def filter(self, value):
            raise RuntimeError("no")

    env = cluster(4)
    late = env.from_elements(1).filter(Fail()).name("fail")
    both = env.from_collection(range(100)).join(late).where("*").equal_to("*")

    with pytest.raises(OperatorFailed, match="operator 'fail'"):
        both.collect()


def test_errors_of_the_program_keep_their_type():
    env = cluster(2)

    with pytest.raises(InvalidProgram, match="the partitioner returned 7"):
        env.from_elements((1, 2)).partition_custom(lambda key, n: 7, 0).collect()
    with pytest.raises(RecordNotPicklable, match="cannot be pickled"):
        env.from_elements(1, 2).map(lambda n: threading.Lock()).rebalance().collect()


def lost(peer):
    return TaskLost(f"the connection to worker {peer} has ended", subtask=peer)


def test_a_worker_that_lost_its_peer_waits_for_what_the_peer_says():
    master = BatchMaster(BatchProgram([], 2, 0))

    master.handle(TaskFailed(TaskId(0, 0), error=lost(1), secondary=True))
    assert not master.ended.is_set()
    master.handle(TaskFailed(TaskId(0, 1), error=InvalidProgram("the partitioner returned 7")))

    assert master.ended.is_set()
    assert isinstance(master.error, InvalidProgram)


def test_a_job_ends_when_workers_have_lost_each_other():
    master = BatchMaster(BatchProgram([], 3, 0))

    for worker, peer in ((0, 1), (1, 2)):
        master.handle(TaskFailed(TaskId(0, worker), error=lost(peer), secondary=True))
        assert not master.ended.is_set()
    master.handle(TaskFailed(TaskId(0, 2), error=lost(0), secondary=True))

    assert master.ended.is_set()
    assert isinstance(master.error, TaskLost)


def test_a_job_ends_although_a_lost_peer_says_nothing(monkeypatch):
    monkeypatch.setattr("funken.dataset.cluster.runner._PEER_SECONDS", 0.01)
    master = BatchMaster(BatchProgram([], 2, 0))

    master.handle(TaskFailed(TaskId(0, 0), error=lost(1), secondary=True))

    assert master.ended.wait(10)
    assert isinstance(master.error, TaskLost)


def test_a_function_with_what_cannot_travel_is_refused():
    lock = threading.Lock()

    with pytest.raises(InvalidProgram, match="cannot be sent to the workers"):
        cluster(2).from_elements(1).map(lambda n: (n, lock)).collect()


def test_workers_leave_without_an_error(capsys):
    for _ in range(3):
        CATALOGUE["aggregated"](cluster(4)).collect()

    assert capsys.readouterr().err == ""


class Recorded:
    """A master that keeps its events."""

    def __init__(self):
        self.events = queue.SimpleQueue()

    def handle(self, event):
        self.events.put(event)
        return ()

    def fail(self, error):
        self.events.put(error)


def test_a_failure_is_reported_while_the_task_is_busy():
    master = Recorded()
    server = ControlServer(master)
    deployment = BarrierDeployment(b"", server.address, server.credentials, (), HeartbeatSettings(), 20_000)
    worker = BarrierWorker(deployment, 3)

    def fail():
        raise InvalidProgram("no")

    worker.spawn("exchange", fail)

    event = master.events.get(timeout=BOUND)
    assert (type(event), event.task, str(event.error)) == (TaskFailed, TaskId(0, 3), "no")
    with pytest.raises(InvalidProgram):
        worker.check()
    worker._close()
    server.close()


# ---- connections


class Alone:
    """A worker without a driver."""

    index = 0

    def __init__(self):
        self.error = None
        self.failed = threading.Event()

    def fail(self, error):
        self.error = error
        self.failed.set()

    def check(self):
        if self.error is not None:
            raise self.error

    def wait(self, changed, ready):
        assert changed.wait_for(ready, BOUND)


KEY = Credentials(b"key")


def connected(receive, key=KEY):
    one, other = Alone(), Alone()
    first = Peers(0, "127.0.0.1", key, receive, one.fail)
    second = Peers(1, "127.0.0.1", key, receive, other.fail)
    addresses = [first.address, second.address]
    first.connect(addresses)
    second.connect(addresses)
    return one, first, other, second


def test_a_peer_that_hangs_up_is_a_lost_worker():
    one, first, _, second = connected(lambda peer, frame: None)

    second.close()

    assert one.failed.wait(BOUND)
    assert isinstance(one.error, TaskLost)
    assert "worker 1" in str(one.error)
    with pytest.raises(TaskLost):
        for _ in range(1000):
            first.send(1, Frame(0, 1, 0, 1, b"x" * 65536))
    first.close()


def test_a_damaged_block_is_refused(monkeypatch):
    one, first, _, second = connected(lambda peer, frame: None)
    sums = iter([1, 2])
    monkeypatch.setattr("funken.spark.peers.zlib.crc32", lambda data: next(sums))

    second.send(0, Frame(0, 1, 0, 1, b"block"))

    assert one.failed.wait(BOUND)
    assert isinstance(one.error, TransferCorrupted)
    first.close()
    second.close()


def test_a_peer_with_another_key_is_refused():
    one = Alone()
    first = Peers(0, "127.0.0.1", Credentials(b"key"), lambda peer, frame: None, one.fail)
    second = Peers(1, "127.0.0.1", Credentials(b"other"), lambda peer, frame: None, one.fail)

    with pytest.raises(Exception, match="key"):
        second.connect([first.address, second.address])
    first.close()
    second.close()


def exchanges(worker):
    return ClusterExchanges(worker, 2, MemoryManager(1 << 20, 1, SpillSpace()))


def test_what_arrives_before_its_edge_is_connected_waits_and_what_arrives_after_it_is_dropped():
    found = exchanges(Alone())
    edge = EdgeUse(number=5, superstep=2, operator="map", producers=2, consumers=2)
    for producer in (0, 1):
        found.receive(producer, Frame(0, 5, 2, 1, pickle.dumps([producer])))
        found.receive(producer, Frame(1, 5, 2, 0, b""))

    made = found.connect(edge, {}, Routed(lambda subtask: by_hash(2, list)), lambda subtask: None)
    blocks = list(made.receive(0))
    made.close()
    found.receive(1, Frame(0, 5, 2, 1, pickle.dumps([9])))

    assert sorted(record for block in blocks for record in block) == [0, 1]
    assert found.incoming((5, 3)) is not found.incoming((5, 2))
    assert found._closed == {5: 2}
