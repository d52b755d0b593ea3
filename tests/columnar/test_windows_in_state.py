"""Windows and joins on columns in front of keyed state give what rows on objects give, from any snapshot; arrays are bounded."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from funken import (
    AggregateFunction,
    Configuration,
    CountTumblingWindowAssigner,
    DataGeneratorSource,
    DataStream,
    EventTimeSessionWindows,
    GlobalWindows,
    OutputTag,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WatermarkStrategy,
)
from funken.columnar.kernels.columns import columns_of
from funken.expr.types import INT, Tuple
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.columnar.windows import ListedCounts
from funken.operators.stateful.joins import ColumnarIntervalJoinLogic, JoinPanes
from funken.operators.user_functions import UserFunction
from funken.operators.window.spec import Reduced, WindowSpec
from funken.operators.window.triggered import TriggeredWindows
from funken.state import backend as state_backend
from funken.state.backend import HashMapBackend
from funken.state.keygroups import key_group_of, key_groups_of
from funken.state.rocksdb.backend import RocksDBBackend, TaskDatabases
from funken.testing import OperatorHarness
from funken.windowing.triggers import CountTrigger, PurgingTrigger

Windowed = Callable[[Any], DataStream]
SCHEMA = Tuple((INT, INT))
LATE = OutputTag("late")
MOST_WINDOWS = 4
"""No record is in more."""


class Mean(AggregateFunction):
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return (accumulator[0] + value[1], accumulator[1] + 1)

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return (a[0] + b[0], a[1] + b[1])


def added(a, b):
    return (a[0], a[1] + b[1])


def with_bounds(key, window, sums):
    return [(key, window.start, window.end, each[1]) for each in sums]


def pairs(left, right, ctx):
    yield left[0], left[1], right[1], ctx.get_left_timestamp(), ctx.get_right_timestamp()


def pair(left, right):
    return left[0], left[1], right[1]


def both(lefts, rights):
    return [(each[0], each[1], len(rights)) for each in lefts]


def joined(keyed, method, assigner, function):
    windows = getattr(keyed, method)(keyed).where(lambda pair: pair[0]).equal_to(lambda pair: pair[0]).window(assigner)
    return windows.apply(function)


def unread(key, window, sums):
    return [repr((key, window, each)) for each in sums]


def numbered(key, window, sums):
    return [(key, each[1]) for each in sums]


def counted(key, window, elements):
    return [(key, sum(each[1] for each in elements), len(elements))]


def listed(key, window, elements):
    return [(key, window.end, sum(each[1] for each in elements), len(elements))]


tumbling, sliding = TumblingEventTimeWindows.of(10), SlidingEventTimeWindows.of(12, 4)
KINDS: dict[str, Windowed] = {
    "tumbling": lambda keyed: keyed.window(tumbling).reduce(added),
    "tumbling, late": lambda keyed: keyed.window(tumbling).side_output_late_data(LATE).reduce(added, with_bounds),
    "sliding": lambda keyed: keyed.window(sliding).reduce(added, with_bounds),
    "gaps": lambda keyed: keyed.window(SlidingEventTimeWindows.of(3, 7)).side_output_late_data(LATE).reduce(added),
    "aggregate": lambda keyed: keyed.window(sliding).aggregate(Mean()),
    "unread function": lambda keyed: keyed.window(tumbling).reduce(added, unread),
    "lists": lambda keyed: keyed.window(tumbling).apply(listed),
    "lists, sliding": lambda keyed: keyed.window(SlidingEventTimeWindows.of(8, 4)).apply(listed),
    "sessions": lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(4)).reduce(added, with_bounds),
    "sessions, lists": lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(4)).apply(listed),
    "count": lambda keyed: keyed.count_window(3).reduce(lambda a, b: (a[0], min(a[1], b[1]))),
    "count, numbered": lambda keyed: keyed.window(CountTumblingWindowAssigner.of(3)).reduce(added, numbered),
    "count, lists": lambda keyed: keyed.count_window(3).apply(counted),
    "count, sliding": lambda keyed: keyed.count_window(5, 2).reduce(added),
    "interval join": lambda keyed: keyed.interval_join(keyed).between(-6, 9).process(pairs),
    "interval join, one time": lambda keyed: keyed.interval_join(keyed).between(0, 0).process(pairs),
    "interval join, before": lambda keyed: keyed.interval_join(keyed).between(-9, -3).process(pairs),
    "join": lambda keyed: joined(keyed, "join", tumbling, pair),
    "join, sliding": lambda keyed: joined(keyed, "join", sliding, pair),
    "co-group": lambda keyed: joined(keyed, "co_group", tumbling, both),
    "clock": lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(10)).reduce(added, with_bounds),
}  # fmt: skip


def specs(windowed: Windowed) -> dict[str, Any]:
    """Return a window operator on columns in front of keyed state, on rows there, on columns over objects and on rows."""
    found = {}
    for backend in ("rocksdb", "hashmap"):
        for columns in (True, False):
            options = Configuration({"pipeline.vectorized": columns, "state.backend.type": backend})
            env = StreamExecutionEnvironment.create_local_environment(1, options)
            source = DataGeneratorSource(lambda i: (i, i), 1)
            stream = env.from_source(source, WatermarkStrategy.no_watermarks()).key_by(lambda pair: pair[0])
            windowed(stream)
            plan = env.compile()
            node = plan.vertices[-1].nodes[-1]
            assert not columns or "vectorized" in (plan.decided("columns", node.id) or "")
            found[f"{'columns' if columns else 'rows'}, {backend}"] = node.spec
    return found


@pytest.fixture
def opened(databases: TaskDatabases) -> Any:
    """Yield what makes a backend of the kind in a name, for the key groups of a subtask."""
    backends: list[RocksDBBackend] = []

    def new(name: str, groups: range) -> Any:
        if not name.endswith("rocksdb"):
            return HashMapBackend()
        backends.append(RocksDBBackend(databases, 128, groups))
        return backends[-1]

    yield new
    for each in backends:
        each.close()


FORMS = [("columns, rocksdb", "rocksdb"), ("rows, rocksdb", "rocksdb"), ("columns, rocksdb", "hashmap")]
"""Specs, and the backends that they run on, after windows have been in keyed state once."""


def arrays_of(operator: Any) -> Any:
    """Return what has the arrays of an operator: of an interval join, itself."""
    return getattr(operator, "arrays", operator)


class Job:
    """Subtasks of one window operator, in one of its forms: a spec, and a backend."""

    def __init__(self, windowed: Windowed, opened: Any, form: tuple[str, str], most: int | None = None) -> None:
        self._specs, self._opened, self._most = specs(windowed), opened, most
        self._results: list[str] = []
        self._now, self._watermark = 0, MIN_TIMESTAMP
        self._start(form, 1, [])

    def _start(self, form: tuple[str, str], parallelism: int, snapshots: list[Any]) -> None:
        self.form = form
        self.subtasks = []
        for subtask in range(parallelism):
            operator = self._specs[form[0]].build()
            operator.current_watermark = self._watermark
            tables = self._opened(form[1], key_groups_of(subtask, 128, parallelism))
            options = {"subtask": subtask, "parallelism": parallelism, "now": self._now, "backend": tables}
            harness = OperatorHarness(operator, keyed=True, snapshots=snapshots, **options)
            if form[0] == "columns, rocksdb":
                assert (
                    isinstance(getattr(operator, "windows", None), TriggeredWindows) or arrays_of(operator) is operator
                )
                arrays_of(operator)._most = self._most
            self.subtasks.append(harness)

    def give(self, records: list[Any], stamps: list[int], columns: bool, side: int = 0) -> None:
        for harness in self.subtasks:
            groups = harness.context.keyed.key_groups
            mine = [
                (each, at) for each, at in zip(records, stamps, strict=True) if key_group_of(each[0], 128) in groups
            ]
            if not mine:
                continue
            given, at = [each for each, _ in mine], [at for _, at in mine]
            if columns and self.form[0].startswith("columns"):
                operator = harness.operator
                (operator.process_second_block if side else operator.process_block)(columns_of(given, SCHEMA, at))
                self._check_bound(arrays_of(operator), len(given))
            else:
                (harness.feed_second_block if side else harness.feed_block)(given, at)

    def _check_bound(self, arrays: Any, records: int) -> None:
        """A block adds an entry for each of its records to each of its windows; lists that it adds to are in memory."""
        lists = (ListedCounts, JoinPanes, ColumnarIntervalJoinLogic)
        holds_lists = isinstance(arrays, lists) or arrays.spec.lists
        if self.form[0] == "columns, rocksdb" and self._most is not None and not holds_lists:
            assert arrays.size() <= self._most + records * MOST_WINDOWS

    def watermark(self, watermark: int) -> None:
        self._watermark = watermark
        for harness in self.subtasks:
            harness.watermark(watermark)

    def clock(self, now: int) -> None:
        self._now = now
        for harness in self.subtasks:
            harness.processing_time(now)

    def restore(self, form: tuple[str, str], parallelism: int) -> None:
        self._collect()
        snapshots = [harness.snapshot() for harness in self.subtasks]
        self._start(form, parallelism, snapshots)

    def _collect(self) -> None:
        for harness in self.subtasks:
            self._results += map(repr, harness.output_with_timestamps)
            self._results += [f"late {each!r}" for each in harness.side_output_with_timestamps(LATE)]
            harness.clear_output()

    def taken(self) -> list[str]:
        """Return the results since the last call."""
        self._collect()
        taken, self._results = sorted(self._results), []
        return taken


@pytest.fixture(autouse=True)
def few_keys_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_backend, "_FEW_KEYS", 0)


def test_long_lists_of_few_keys_stay_in_memory(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_backend, "_FEW_KEYS", 2)
    job = Job(KINDS["lists"], opened, FORMS[0], most=5)
    arrays: Any = job.subtasks[0].operator.arrays
    for number in range(20):
        job.give([(number % 2, 1)] * 10, [number % 10] * 10, columns=True)
    assert arrays.size() == 2 + 200
    job.give([(2, 1)], [0], columns=True)
    job.give([(3, 1)], [0], columns=True)
    assert arrays.size() == 2
    job.watermark(20)
    assert job.taken() == [f"(({key}, 10, {count}, {count}), 9)" for key, count in enumerate([100, 100, 1, 1])]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", KINDS)
def test_columns_in_state_give_what_rows_on_objects_give(kind: str, seed: int, opened: Any) -> None:
    dice = random.Random(f"{kind} {seed}")
    begins = dice.choice([*FORMS, ("columns, hashmap", "hashmap"), ("rows, hashmap", "hashmap")])
    most = dice.choice([0, 7, 1000])
    tested, oracle = Job(KINDS[kind], opened, begins, most), Job(KINDS[kind], opened, ("rows, hashmap", "hashmap"))
    time, keys = 0, dice.choice([3, 40])
    for _ in range(25):
        time += dice.randrange(8)
        count = dice.randrange(1, 12)
        records = [(dice.randrange(keys), dice.randrange(-9, 9)) for _ in range(count)]
        stamps = [max(0, time + dice.randrange(-15, 15)) for _ in range(count)]
        columns, side = dice.random() < 0.8, dice.randrange(2) if "join" in kind or "group" in kind else 0
        for job in (tested, oracle):
            job.give(records, stamps, columns, side)
        if dice.random() < 0.2:
            tested.restore(dice.choice(FORMS), dice.choice([1, 2, 3]))
        if dice.random() < 0.6:
            for job in (tested, oracle):
                job.watermark(time - 5)
                job.clock(time)
        assert tested.taken() == oracle.taken()
    for job in (tested, oracle):
        job.watermark(MAX_WATERMARK)
        job.clock(time + 100)
    assert tested.taken() == oracle.taken()


def test_a_block_without_restores_stays_on_columns(opened: Any) -> None:
    job = Job(KINDS["sliding"], opened, FORMS[0], 20)
    for time in range(0, 200, 3):
        job.give([(time * 7 % 50 + i, i) for i in range(10)], [time] * 10, columns=True)
        job.watermark(time - 5)
    arrays: Any = job.subtasks[0].operator.arrays
    assert arrays.gate.returns == 0
    assert not arrays._path.why


def test_a_count_window_keeps_contents_that_are_false_when_it_goes_into_keyed_state() -> None:
    least = WindowSpec(
        UserFunction(lambda value: 0),
        GlobalWindows.create(),
        Reduced(UserFunction(min)),
        trigger=PurgingTrigger(CountTrigger(3)),
    )
    harness = OperatorHarness(least, keyed=True)
    harness.feed_block([0])
    restored = OperatorHarness.restored(least.in_keyed_state(), harness.snapshot(), keyed=True)
    restored.feed_block([5, 7])
    assert restored.output == [0]
