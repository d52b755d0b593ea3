"""Keys of every kind in whole jobs: the results are those of a program whose keys are plain numbers.

The table of ``tests/state/key_table.py`` has keys that are equal, of any class, and those that are not. A record has one of them,
and the number of the equal ones, which is the key of the program that tells what is right.
"""

import time
from collections import Counter
from pathlib import Path

import pytest

from funken import (
    DataGeneratorSource,
    EventTimeSessionWindows,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    ProcessJoinFunction,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.cep import CEP, Pattern
from tests.state.key_table import EQUAL, OWN
from tests.support.files import file_sink, written
from tests.support.streams import collected

ALL = EQUAL + OWN
KEYS = [(number, key) for number, keys in enumerate(ALL) for key in keys]
ROUNDS = 3
COUNT = ROUNDS * len(KEYS)


def record(at):
    number, key = KEYS[at % len(KEYS)]
    return key, number, at


class Count(KeyedProcessFunction):
    """Counts the records of a key, and sets a timer for each."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))
        self.times = runtime_context.get_list_state(ListStateDescriptor("times"))

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        self.times.add(value[2])
        ctx.timer_service().register_event_time_timer(value[2] + 500)
        yield value[1], self.count.value()

    def on_timer(self, timestamp, ctx):
        yield timestamp, timestamp - 500 in self.times.get()


class Entries(KeyedProcessFunction):
    """Counts the records of a key in a map, under a key that all have."""

    def open(self, runtime_context):
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts"))

    def process_element(self, value, ctx):
        key = value[0]
        self.counts.put(key, (self.counts.get(key) or 0) + 1)
        if self.counts.get(key) == ROUNDS:
            assert self.counts.contains(key)
            self.counts.remove(key)
            assert key not in self.counts
            self.counts.put(key, ROUNDS)
        yield value[1], self.counts.get(key)


class Both(KeyedCoProcessFunction):
    """Counts what came on both sides."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", default=0))

    def process_element1(self, value, ctx):
        self.seen.update(self.seen.value() + 1)
        yield value[1], self.seen.value()

    process_element2 = process_element1


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left[1], right[1], left[2]


class Fail(MapFunction):
    """Raises once."""

    def __init__(self, marker):
        self.marker = marker

    def map(self, value):
        if self.marker is not None and value[2] > COUNT // 2 and Path(self.marker).exists():
            Path(self.marker).unlink()
            raise RuntimeError("as planned")
        return value


def plain(value):
    return value[1], value[1], value[2]


def another(value):
    keys = ALL[value[1]]
    return keys[(value[2] + 1) % len(keys)], value[1], value[2]


def one_each(value):
    return value[0], value[1], 1


def add(one, other):
    return one[0], one[1], one[2] + other[2]


def program(env, is_plain=False, rate=None, marker=None):
    """Everything that looks keys up, as texts; ``is_plain``: the keys are numbers."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[2])
    records = env.from_source(DataGeneratorSource(record, COUNT, rate), strategy, "keys").uid("keys")
    records = records.map(Fail(marker)).uid("fail")
    others = records.map(another).uid("others")
    if is_plain:
        records, others = records.map(plain), others.map(plain)
    keyed, keyed_others = records.key_by(lambda value: value[0]), others.key_by(lambda value: value[0])
    within = keyed.key_by(lambda value: ("in", (value[0],)))
    ones = records.map(one_each).key_by(lambda value: value[0])
    pairs = Pattern.begin("one").next("other")
    made = {
        "count": keyed.process(Count()),
        "within": within.process(Count()),
        "entries": records.key_by(lambda value: "all").process(Entries()),
        "reduce": ones.reduce(add),
        "inlined": ones.reduce(lambda a, b: (a[0], a[1], a[2] + b[2])),
        "tumbling": ones.window(TumblingEventTimeWindows.of(300)).reduce(lambda a, b: (a[0], a[1], a[2] + b[2])),
        "sliding": ones.window(SlidingEventTimeWindows.of(400, 200)).reduce(add),
        "sessions": ones.window(EventTimeSessionWindows.with_gap(100)).reduce(add),
        "counted": ones.count_window(2).reduce(add),
        "interval": keyed.interval_join(keyed_others).between(0, 0).process(Pair()),
        "join": records.join(others)
        .where(lambda value: value[0])
        .equal_to(lambda value: value[0])
        .window(TumblingEventTimeWindows.of(200))
        .apply(lambda left, right: (left[1], left[1], left[2] * 10_000 + right[2])),
        "both": keyed.connect(keyed_others).process(Both()),
        "pattern": CEP.pattern(keyed, pairs).select(lambda found: (found["one"][0][1], found["other"][0][2])),
    }
    texts = [
        stream.uid(name).map(lambda value, name=name: f"{name} {value[-2:]}").uid(f"text-{name}")
        for name, stream in made.items()
    ]
    return texts[0].union(*texts[1:])


def options(folder, path=""):
    return {
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.state-recovery.path": str(path),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 1,
        "restart-strategy.fixed-delay.delay": "1 ms",
    }


@pytest.fixture(scope="module")
def expected():
    """What the program gives whose keys are numbers."""
    from funken import Configuration, StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": "local"}))
    return Counter(collected(program(env, is_plain=True)))


SLOW = pytest.mark.simulation


@pytest.mark.ways("local")
@pytest.mark.parametrize(
    ("width", "backend"),
    [
        (1, "hashmap"),
        (2, "hashmap"),
        (3, "hashmap"),
        (4, "hashmap"),
        pytest.param(1, "rocksdb", marks=SLOW),
        (2, "rocksdb"),
        pytest.param(3, "rocksdb", marks=SLOW),
        pytest.param(4, "rocksdb", marks=SLOW),
    ],
)
def test_results_do_not_depend_on_parallelism_or_backend(mode, environment, expected, width, backend):
    env = environment({"parallelism.default": width, "state.backend.type": backend})
    assert Counter(collected(program(env))) == expected


@pytest.mark.ways("local")
@pytest.mark.parametrize("backend", ["hashmap", pytest.param("rocksdb", marks=SLOW)])
def test_a_job_that_fails_goes_on_with_the_same_keys(mode, environment, folder, expected, backend):
    marker = folder / "fail"
    marker.touch()
    env = environment(options(folder) | {"parallelism.default": 3, "state.backend.type": backend})

    program(env, rate=1_500, marker=str(marker)).sink_to(file_sink(folder)).uid("files")
    env.execute()

    assert not marker.exists()
    assert written(folder) == expected


@pytest.mark.simulation
@pytest.mark.ways("local")
def test_a_job_goes_on_with_another_parallelism_and_backend(mode, environment, folder, expected):
    path = ""
    for width, backend in [(2, "hashmap"), (3, "hashmap"), (1, "rocksdb"), (4, "rocksdb"), (2, "hashmap")]:
        env = environment(options(folder, path) | {"parallelism.default": width, "state.backend.type": backend})
        program(env, rate=None if path and width == 2 else 300).sink_to(file_sink(folder)).uid("files")
        client = env.execute_async()
        before = written(folder).total()
        while written(folder).total() == before and not client.get_job_execution_result().done():
            time.sleep(0.02)
        if width != 2 or not path:
            path = client.stop_with_savepoint(False, str(folder / "savepoints")).result(60)
    client.get_job_execution_result().result(60)

    assert written(folder) == expected


@pytest.mark.simulation
@pytest.mark.ways("local")
def test_a_job_is_rescaled_with_the_files_of_its_databases(mode, environment, folder, expected):
    env = environment(options(folder) | {"parallelism.default": 2, "state.backend.type": "rocksdb"})
    program(env, rate=300).sink_to(file_sink(folder)).uid("files")
    client = env.execute_async()
    for width in (3, 1):
        assert client.rescale(width).result(timeout=60) == width
    client.get_job_execution_result().result(60)

    assert written(folder) == expected


@pytest.mark.ways("local")
@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("width", [1, 3])
def test_nan_is_one_key_of_columns_too(mode, environment, width, vectorized):
    env = environment({"parallelism.default": width, "pipeline.vectorized": vectorized})
    values = [(float("nan") if at % 3 == 0 else float(at % 5), at % 7, 1) for at in range(5_000)]
    records = env.from_collection(values).map(lambda value: (value[0] * 2, value[1], value[2]))
    by_float = records.key_by(lambda value: value[0]).reduce(lambda a, b: (a[0], a[1], a[2] + b[2]))
    by_both = records.key_by(lambda value: (value[1], value[0])).reduce(lambda a, b: (a[0], a[1], a[2] + b[2]))
    texts = by_float.map(lambda value: f"{value[0]} {value[2]}").union(
        by_both.map(lambda value: f"{value[0]} {value[1]} {value[2]}")
    )

    running = Counter()
    found = Counter()
    for key, other, _ in values:
        running[str(key * 2)] += 1
        running[str(key * 2), other] += 1
        found[f"{key * 2} {running[str(key * 2)]}"] += 1
        found[f"{key * 2} {other} {running[str(key * 2), other]}"] += 1
    assert Counter(collected(texts)) == found


@pytest.mark.ways("local", "batch")
def test_a_bounded_program_sees_each_key_once(mode, environment, expected):
    env = environment({"parallelism.default": 3, "execution.runtime-mode": "BATCH"})
    found = Counter(collected(program(env)))
    assert {line for line in expected if line.split()[0] in ("tumbling", "sessions", "join", "interval")} == {
        line for line in found if line.split()[0] in ("tumbling", "sessions", "join", "interval")
    }
    reduced = Counter(line for line in found if line.startswith("reduce"))
    assert reduced == Counter(f"reduce {(number, len(keys) * ROUNDS)}" for number, keys in enumerate(ALL))
