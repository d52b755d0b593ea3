"""State in RocksDB, in whole jobs: the results are those of state in memory, whatever fails and wherever it goes on."""

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from funken import (
    AggregateFunction,
    DataGeneratorSource,
    Encoder,
    EventTimeSessionWindows,
    FileSink,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    RollingPolicy,
    SlidingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.cli.main import cli
from funken.connectors.buckets import BucketAssigner
from funken.errors import JobExecutionError

COUNT, KEYS = 8_000, 50
PLACE = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"


class Fail(MapFunction):
    """Raises, or is killed, once per marker file that it can take away, at a record that is far enough."""

    def __init__(self, folder, every, kill=False):
        self.folder, self.every, self.kill = folder, every, kill

    def map(self, value):
        if value and value % self.every == 0:
            for marker in sorted(Path(self.folder).glob("fail-*")):
                marker.unlink(missing_ok=True)
                if self.kill:
                    os.kill(os.getpid(), signal.SIGKILL)
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


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


def sink(folder):
    return (
        FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )


def written(folder):
    files = [path for path in (folder / "out").rglob("*") if path.is_file() and not path.name.startswith(".")]
    return Counter(line for path in files for line in path.read_text().splitlines())


def options(folder, backend, failures=0):
    for number in range(failures):
        (folder / f"fail-{number}").touch()
    return {
        "state.backend.type": backend,
        "io.tmp.dirs": str(folder / "work"),
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": failures,
        "restart-strategy.fixed-delay.delay": "1 ms",
    }


def program(env, folder, every=10**9, rate=20_000, count=COUNT):
    """A process function, a running reduce, windows of the fast kinds and an interval join."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)
    numbers = env.from_source(DataGeneratorSource(lambda i: i, count, rate), strategy, "numbers").uid("numbers")
    numbers = numbers.map(Fail(str(folder), every)).uid("fail")
    keyed = numbers.key_by(lambda n: n % KEYS)
    made = [
        keyed.process(Remember()).uid("remember"),
        keyed.reduce(lambda a, b: a + b).uid("reduce"),
        keyed.window(SlidingEventTimeWindows.of(1000, 500)).aggregate(Total()).uid("sliding"),
        numbers.key_by(lambda n: n // 100).window(EventTimeSessionWindows.with_gap(5)).reduce(max).uid("sessions"),
        keyed.count_window(7).reduce(lambda a, b: a * 31 + b).uid("counts"),
        keyed.interval_join(keyed).between(-60, 60).process(Pair()).uid("join"),
    ]
    texts = [stream.map(lambda x, at=at: f"{at} {x}").uid(f"text-{at}") for at, stream in enumerate(made)]
    texts[0].union(*texts[1:]).sink_to(sink(folder)).uid("files")
    return env


class Pair:
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
def test_nothing_is_lost_or_doubled_when_a_job_on_rocksdb_fails(environment, tmp_path, expected):
    program(environment(options(tmp_path, "rocksdb", failures=2)), tmp_path, every=2_999).execute()

    assert not list(tmp_path.glob("fail-*")), "it failed as often as planned"
    assert written(tmp_path) == expected
    assert list((tmp_path / "work").iterdir()) == []


def stopped(client, folder):
    """Stop a job when it has written something more, and return its savepoint."""
    before = written(folder).total()
    while written(folder).total() == before and not client.get_job_execution_result().done():
        time.sleep(0.01)
    return client.stop_with_savepoint(False, None).result(60)


@pytest.mark.ways("local")
def test_a_savepoint_goes_from_one_backend_to_the_other_and_back(environment, tmp_path, expected):
    path = ""
    for backend, parallelism in (("hashmap", 2), ("rocksdb", 3), ("hashmap", 1), ("rocksdb", 2)):
        chosen = options(tmp_path, backend) | {"parallelism.default": parallelism}
        if path:
            chosen["execution.state-recovery.path"] = path
        last = (backend, parallelism) == ("rocksdb", 2)
        env = program(environment(chosen), tmp_path, rate=None if last else 5_000)
        if last:
            env.execute()
        else:
            path = stopped(env.execute_async(), tmp_path)
    assert written(tmp_path) == expected


@pytest.mark.ways("local")
@pytest.mark.parametrize("then", ["rocksdb", "hashmap"])
def test_a_checkpoint_of_rocksdb_can_be_inspected_and_started_from(environment, tmp_path, expected, then, capsys):
    failing = options(tmp_path, "rocksdb", failures=1) | {
        "execution.job-id": "one",
        "restart-strategy.type": "none",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.data-inline-threshold": 0,
    }
    with pytest.raises(JobExecutionError, match="as planned"):
        program(environment(failing), tmp_path, every=4_999).execute()
    newest = max((tmp_path / "checkpoints" / "one").glob("chk-*"), key=lambda path: int(path.name[4:]))
    assert list((tmp_path / "checkpoints" / "one" / "shared").glob("*.sst"))

    cli(["state", "ls", str(newest)], standalone_mode=False)
    listed = capsys.readouterr().out
    assert "remember" in listed
    assert "recent" in listed
    cli(["state", "show", str(newest), "remember", "--state", "count", "--json"], standalone_mode=False)
    counts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {entry["key"] for entry in counts} <= set(range(KEYS))
    assert len(counts) > 10

    again = options(tmp_path, then) | {"execution.state-recovery.path": str(newest), "parallelism.default": 3}
    program(environment(again), tmp_path, rate=None).execute()
    assert written(tmp_path) == expected


@pytest.mark.ways("continuous")
def test_a_worker_with_a_database_is_killed_and_its_folder_goes(environment, tmp_path):
    chosen = options(tmp_path, "rocksdb", failures=1)
    env = environment(chosen | {"execution.checkpointing.interval": "200 ms"})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)
    numbers = env.from_source(DataGeneratorSource(lambda i: i, 6_000, 2_000), strategy, "numbers")
    killed = numbers.key_by(lambda n: n % KEYS).map(Fail(str(tmp_path), 2_999, kill=True))
    remembered = killed.key_by(lambda n: n % KEYS).process(Remember())
    remembered.map(lambda line: line.split(" [")[0]).sink_to(sink(tmp_path))

    env.execute()

    assert not list(tmp_path.glob("fail-*"))
    counts = [f"{key} {n}" for key in range(KEYS) for n in range(1, 6_000 // KEYS + 1)]
    timers = [f"timer {n + 300} {n % KEYS}" for n in range(6_000)]
    assert written(tmp_path) == Counter(counts + timers)
    assert list((tmp_path / "work").iterdir()) == []
