"""State in RocksDB, in whole jobs: the results are those of state in memory, whatever fails and wherever it goes on."""

import json
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from funken import (
    DataGeneratorSource,
    EventTimeSessionWindows,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    ProcessJoinFunction,
    SlidingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.cli.main import main
from tests.support.files import file_sink, written
from tests.support.functions import Sum

COUNT, KEYS = 3_000, 50


class Fail(MapFunction):
    """Raises once per marker file that it can take away, at a record that is far enough."""

    def __init__(self, folder, every):
        self.folder, self.every = folder, every

    def map(self, value):
        if value and value % self.every == 0:
            for marker in sorted(Path(self.folder).glob("fail-*")):
                marker.unlink(missing_ok=True)
                raise RuntimeError(f"as planned, at {value}")
        return value


class Remember(KeyedProcessFunction):
    """State of several kinds, and a timer per record."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))
        self.recent = runtime_context.get_map_state(MapStateDescriptor("recent"))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all"))

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        self.recent.put(value % 7, value)
        if value % 5 == 0:
            self.all.add(value)
        ctx.timer_service().register_event_time_timer(value + 300)
        yield f"{ctx.get_current_key()} {self.count.value()} {sorted(self.recent.items())}"

    def on_timer(self, timestamp, ctx):
        yield f"timer {timestamp} {ctx.get_current_key()}"


class Doomed(Remember):
    """Is killed once."""

    def __init__(self, folder):
        self.folder = folder

    def process_element(self, value, ctx):
        if value > 2_999:
            for marker in Path(self.folder).glob("fail-*"):
                marker.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        yield from super().process_element(value, ctx)


@pytest.fixture
def folder(tmp_path):
    """A folder in memory, if there is such a thing, since all that is saved waits for the disk; no task leaves anything in it."""
    place = Path(tempfile.mkdtemp(dir="/dev/shm")) if os.access("/dev/shm", os.W_OK) else tmp_path
    yield place
    left = [path.name for path in place.glob("work/*")]
    shutil.rmtree(place, ignore_errors=True)
    assert left == []


def options(folder, backend, failures=0):
    for number in range(failures):
        (folder / f"fail-{number}").touch()
    return {
        "state.backend.type": backend,
        "io.tmp.dirs": str(folder / "work"),
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": failures,
        "restart-strategy.fixed-delay.delay": "1 ms",
    }


def program(env, folder, every=10**9, rate=10_000, count=COUNT):
    """A process function, a running reduce, windows of the fast kinds and an interval join."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)
    numbers = env.from_source(DataGeneratorSource(lambda i: i, count, rate), strategy, "numbers").uid("numbers")
    numbers = numbers.map(Fail(str(folder), every)).uid("fail")
    keyed = numbers.key_by(lambda n: n % KEYS)
    made = [
        keyed.process(Remember()).uid("remember"),
        keyed.reduce(lambda a, b: a + b).uid("reduce"),
        keyed.window(SlidingEventTimeWindows.of(1000, 500)).aggregate(Sum()).uid("sliding"),
        numbers.key_by(lambda n: n // 100).window(EventTimeSessionWindows.with_gap(5)).reduce(max).uid("sessions"),
        keyed.count_window(7).reduce(lambda a, b: a * 31 + b).uid("counts"),
        keyed.interval_join(keyed).between(-60, 60).process(Pair()).uid("join"),
    ]
    texts = [stream.map(lambda x, at=at: f"{at} {x}").uid(f"text-{at}") for at, stream in enumerate(made)]
    texts[0].union(*texts[1:]).sink_to(file_sink(folder)).uid("files")
    return env


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left, right


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What a run in memory writes that nothing happens to."""
    from funken import Configuration, StreamExecutionEnvironment

    folder = tmp_path_factory.mktemp("expected")
    configuration = Configuration({"execution.target": "local", "parallelism.default": 2})
    program(StreamExecutionEnvironment.get_execution_environment(configuration), folder, rate=None).execute()
    return written(folder)


@pytest.mark.ways("local")
def test_nothing_is_lost_or_doubled_when_a_job_on_rocksdb_fails(environment, folder, expected):
    program(environment(options(folder, "rocksdb", failures=2)), folder, every=1_111).execute()

    assert not list(folder.glob("fail-*")), "it failed as often as planned"
    assert written(folder) == expected


def stopped(client, folder):
    """Stop a job when it has written something more, and return its savepoint."""
    before = written(folder).total()
    while written(folder).total() == before and not client.get_job_execution_result().done():
        time.sleep(0.01)
    return client.stop_with_savepoint(False, None).result(60)


LOGICS = {
    ("hashmap", False): ["aligned windows", "sessions windows", "counts windows"],
    ("rocksdb", False): ["general windows, in keyed state: state is in files"] * 3,
    ("hashmap", True): ["general windows, in keyed state: restored from keyed state"] * 3,
}
"""What is decided about the windows of the program, by backend, and whether they are restored from keyed state."""


def logics(plan):
    return [note.text for note in plan.notes if note.rule == "state backend"]


@pytest.mark.ways("local")
def test_a_savepoint_goes_from_one_backend_to_the_other_and_back(environment, folder, expected):
    path = ""
    for backend, parallelism, last in (("hashmap", 2, False), ("rocksdb", 3, False), ("hashmap", 1, True)):
        chosen = options(folder, backend) | {"parallelism.default": parallelism}
        if path:
            chosen["execution.state-recovery.path"] = path
        env = program(environment(chosen), folder, rate=None if last else 1_000)
        client = env.execute_async()
        if last:
            client.get_job_execution_result().result(60)
        else:
            path = stopped(client, folder)
        assert logics(client.plan) == LOGICS[backend, path != "" and last]
    assert written(folder) == expected


def with_databases(folder):
    """Return the complete checkpoints that have enough in databases, oldest first."""
    complete = sorted(folder.glob("chk-*/_metadata"), key=lambda path: int(path.parent.name[4:]))
    return [path.parent for path in complete if path.read_text().count(".sst") > 5]


@pytest.mark.ways("local")
@pytest.mark.parametrize("then", ["rocksdb", "hashmap"])
def test_a_checkpoint_of_rocksdb_can_be_inspected_and_started_from(environment, folder, expected, then):
    chosen = options(folder, "rocksdb") | {
        "execution.job-id": "one",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.data-inline-threshold": 0,
    }
    client = program(environment(chosen), folder, rate=300).execute_async()
    while not (found := with_databases(folder / "checkpoints" / "one")):
        assert not client.get_job_execution_result().done()
        time.sleep(0.01)
    client.cancel().result(60)
    newest = with_databases(folder / "checkpoints" / "one")[-1]
    assert found

    listed = CliRunner().invoke(main, ["state", "ls", str(newest)]).output
    assert "remember" in listed
    assert "recent (map)" in listed
    shown = CliRunner().invoke(
        main, ["state", "show", str(newest), "--operator", "remember", "--state", "count", "--json"]
    )
    counts = json.loads(shown.output)
    assert len(counts) > 10
    assert {entry["key"] for entry in counts} <= set(range(KEYS))

    again = options(folder, then) | {"execution.state-recovery.path": str(newest), "parallelism.default": 3}
    program(environment(again), folder, rate=None).execute()
    assert written(folder) == expected


@pytest.mark.ways("continuous")
def test_a_worker_with_a_database_is_killed_and_its_folder_goes(environment, folder):
    chosen = options(folder, "rocksdb", failures=1)
    env = environment(chosen | {"execution.checkpointing.interval": "200 ms"})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)
    numbers = env.from_source(DataGeneratorSource(lambda i: i, 6_000, 2_000), strategy, "numbers")
    remembered = numbers.key_by(lambda n: n % KEYS).process(Doomed(str(folder)))
    remembered.map(lambda line: line.split(" [")[0]).sink_to(file_sink(folder))

    env.execute()

    assert not list(folder.glob("fail-*"))
    counts = [f"{key} {n}" for key in range(KEYS) for n in range(1, 6_000 // KEYS + 1)]
    timers = [f"timer {n + 300} {n % KEYS}" for n in range(6_000)]
    assert written(folder) == Counter(counts + timers)
