"""Count windows on columns, tumbling and sliding: they give and keep what records give and keep, in the same order."""

import random
from typing import Any

import pytest

from funken import (
    AggregateFunction,
    Configuration,
    CountEvictor,
    CountTrigger,
    CountTumblingWindowAssigner,
    DataGeneratorSource,
    DiscardingSink,
    GlobalWindows,
    ProcessWindowFunction,
    PurgingTrigger,
    StreamExecutionEnvironment,
    Types,
    WatermarkStrategy,
    WindowFunction,
)
from funken.columnar.kernels.columns import columns_of
from funken.expr.types import FLOAT, INT, STR, Tuple
from funken.operators.columnar import path as watch
from funken.operators.columnar import windows as counts
from tests.columnar.window_operators import BothWindows, planned
from tests.support.costs import fix_costs

SCHEMA = Tuple((INT, INT, STR, FLOAT))


def record(i: int) -> Any:
    return i % 3, i, f"t{i}", i / 4


class Sums(WindowFunction):
    """The function of PyFlink's example of tumbling count windows."""

    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        result = 0
        for i in inputs:
            result += i[1]
        return [(key, result)]


class Told(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        most = max(elements, key=lambda each: each[1])
        yield key, len(elements), [each[2] for each in elements], most[3]
        for each in elements:
            if each[1] % 5 == 0:
                yield key, -each[1], [elements[0][2]], elements[-1][3]


class Divides(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return [10 // (sum(each[1] for each in elements) - 7)]


class Everything(AggregateFunction):
    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        return [*accumulator, value]

    def get_result(self, accumulator: Any) -> Any:
        return len(accumulator), accumulator[0][2]


class Largest(Everything):
    def add(self, value: Any, accumulator: Any) -> Any:
        return [value] if not accumulator or value[1] > accumulator[0][1] else accumulator


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return {"n": 0, "sum": 0.0, "last": "", "least": 10**9}

    def add(self, value: Any, so_far: Any) -> Any:
        least = min(so_far["least"], value[1])
        return {"n": so_far["n"] + 1, "sum": so_far["sum"] + value[3], "last": value[2], "least": least}

    def get_result(self, so_far: Any) -> Any:
        return so_far["sum"] / so_far["n"], so_far["last"], so_far["least"]


def counted(size: int, trigger: int, purges: bool = False) -> Any:
    windows = CountTrigger.of(trigger)
    return lambda keyed: (
        keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(windows))
        if purges
        else keyed.window(GlobalWindows.create()).trigger(windows).evictor(CountEvictor.of(size))
    )


WINDOWS: dict[str, Any] = {
    "of two": lambda keyed: keyed.count_window(2),
    "of one": lambda keyed: keyed.count_window(1),
    "of many": lambda keyed: keyed.count_window(70),
    "numbered": lambda keyed: keyed.window(CountTumblingWindowAssigner.of(3)),
    "purged": counted(0, 4, purges=True),
    "sliding": lambda keyed: keyed.count_window(5, 2),
    "every record": lambda keyed: keyed.count_window(3, 1),
    "with gaps": lambda keyed: keyed.count_window(2, 7),
    "wide": lambda keyed: keyed.count_window(60, 9),
    "alike": lambda keyed: keyed.count_window(4, 4),
    "seldom": lambda keyed: keyed.count_window(2, 10_000),
    "evicted": counted(3, 2),
}
CONTENTS: dict[str, Any] = {
    "apply": lambda windows: windows.apply(Sums()),
    "process": lambda windows: windows.process(Told()),
    "lambda": lambda windows: windows.apply(
        lambda key, window, found: [(key, sorted({each[1] % 4 for each in found}), found[0][2])]
    ),
    "reduce": lambda windows: windows.reduce(lambda a, b: (a[0], a[1] + 3 * b[1], b[2], a[3] + b[3])),
    "reduce with a function": lambda windows: windows.reduce(
        lambda a, b: (a[0], max(a[1], b[1]), a[2], b[3]), lambda key, window, found: [(key, *each) for each in found]
    ),
    "mean": lambda windows: windows.aggregate(Mean()),
    "everything": lambda windows: windows.aggregate(Everything()),
}
KEYS = {"one": lambda r: r[0], "several": lambda r: (r[2][:1], r[0])}


def number(dice: random.Random) -> float:
    return (
        dice.choice((float("nan"), -0.0, 1e300, float("inf"))) if dice.random() < 0.05 else dice.randrange(-50, 50) / 8
    )


def some_records(dice: random.Random, keys: int) -> list[Any]:
    return [
        (
            dice.randrange(keys),
            dice.randrange(-30, 30),
            dice.choice(("a", "b", "é")) + str(dice.randrange(9)),
            number(dice),
        )
        for _ in range(dice.choice((1, 2, 9, 60, 200)))
    ]


@pytest.mark.parametrize("contents", CONTENTS)
@pytest.mark.parametrize("window", WINDOWS)
def test_both_paths_give_and_keep_the_same(window: str, contents: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(f"{window} {contents}")
    monkeypatch.setattr(counts, "_AT_ONCE", dice.choice((1, 40, 1 << 16)))
    key, keys = dice.choice(list(KEYS.values())), dice.choice((1, 4, 90))
    both = BothWindows(lambda stream: CONTENTS[contents](WINDOWS[window](stream.key_by(key))), record, SCHEMA)
    for _ in range(14):
        both.give(some_records(dice, keys))
        if dice.random() < 0.3:
            both.kept()  # the next snapshot has what has changed since then
        if dice.random() < 0.25:
            both.restore(on_columns=dice.random() < 0.6)

    both.kept()
    assert both.results() or window in ("of many", "seldom")
    if both.on_columns:
        assert both.returns == 0


@pytest.mark.parametrize("window", WINDOWS)
def test_blocks_of_rows_come_in_between(window: str) -> None:
    dice = random.Random(window)
    both = BothWindows(lambda stream: WINDOWS[window](stream.key_by(lambda r: r[0])).process(Told()), record, SCHEMA)
    for turn in range(24):
        both.give(some_records(dice, 4), columns=turn % 5 != 3)

    both.kept()
    assert both.results() or window == "seldom"
    assert both.returns == 5


@pytest.mark.parametrize("at_once", [5, 1 << 16])
@pytest.mark.parametrize("window", ["of two", "sliding", "every record"])
def test_sums_that_leave_64_bits_are_those_of_python(
    window: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "_AT_ONCE", at_once)
    both = BothWindows(
        lambda stream: CONTENTS["reduce"](WINDOWS[window](stream.key_by(lambda r: r[0]))), record, SCHEMA
    )
    large = [(0, 2**61 + i, "x", 0.5) for i in range(4)]
    both.give([record(i) for i in range(9)])
    both.give([record(i) for i in range(9)] + large + [record(i) for i in range(20)])

    both.kept()
    assert any(int(each.split(",")[1]) > 2**63 for each in both.results())


def test_windows_that_are_made_a_few_at_a_time_are_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "_AT_ONCE", 20)
    both = BothWindows(lambda stream: stream.key_by(lambda r: r[0]).count_window(9, 2).process(Told()), record, SCHEMA)
    blocks: list[Any] = []
    both.tested.operator.output.emit_block = blocks.append
    both.tested.operator.process_block(columns_of([record(i) for i in range(99)], SCHEMA))

    assert len(blocks) == 1
    assert len(blocks[0]) > 48


@pytest.mark.parametrize("size", [1, 2, 3])
def test_what_a_function_raises_is_raised(size: int) -> None:
    both = BothWindows(
        lambda stream: stream.key_by(lambda r: r[0]).count_window(4, size).process(Divides()), record, SCHEMA
    )
    both.give([(0, n, "x", 0.5) for n in (1, 1, 1, 1, 1, 1)])
    assert both.results()

    with pytest.raises(ZeroDivisionError):
        both.give([(0, n, "x", 0.5) for n in (1, 7, -1, 7, -6, 7, 7, -1, 0, 1)])


def test_integers_beyond_64_bits_come_as_rows_and_stay_in_the_table() -> None:
    both = BothWindows(lambda stream: stream.key_by(lambda r: r[0]).count_window(3).process(Told()), record, SCHEMA)
    both.give([record(0), record(1)])
    both.give([(0, 2**70, "x", 0.5)], columns=False)
    both.give([(0, 1, "y", 0.5), (1, 2, "z", 0.5)])
    both.restore(on_columns=True)
    both.give([(1, 3, "y", 0.5), (2, 2, "z", 0.5)])

    both.kept()
    assert len(both.results()) == 3


def test_none_in_a_restored_list_goes_by_records() -> None:
    both = BothWindows(lambda stream: stream.key_by(lambda r: r[0]).count_window(4, 2).apply(Sums()), record, SCHEMA)
    both.restore(on_columns=False)
    both.give([(0, 1, None, None)], columns=False)
    both.restore(on_columns=True)
    for i in range(6):
        both.give([(i % 2, i, "x", 0.5)])

    both.kept()
    assert len(both.results()) == 3


def test_counts_of_a_greater_slide_go_on_as_records_do() -> None:
    """What was counted beyond the slide of the new program never fires."""
    wide = BothWindows(lambda stream: stream.key_by(lambda r: r[0]).count_window(4, 5).apply(Sums()), record, SCHEMA)
    narrow = BothWindows(lambda stream: stream.key_by(lambda r: r[0]).count_window(4, 2).apply(Sums()), record, SCHEMA)
    wide.give([(0, n, "x", 0.5) for n in range(4)])
    narrow.tested, narrow.oracle = wide.tested, wide.oracle
    narrow.restore(on_columns=True)
    narrow.give([(n % 2, n, "x", 0.5) for n in range(8)])

    narrow.kept()
    assert len(narrow.results()) == 2


@pytest.mark.parametrize("window", ["of many", "sliding", "numbered"])
def test_small_blocks_are_counted_one_by_one(window: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "FEW", 400)
    fix_costs(monkeypatch)
    dice = random.Random(window)
    both = BothWindows(lambda stream: WINDOWS[window](stream.key_by(lambda r: r[0])).process(Told()), record, SCHEMA)
    operator: Any = both.tested.operator
    in_arrays = []
    for length in (*[900] * 3, *[20] * 12, *[900] * 24):
        both.give([(dice.randrange(9), dice.randrange(99), "x", 0.5) for _ in range(length)])
        in_arrays.append(len(operator.arrays.slots) > 0)

    assert in_arrays[:3] == [True] * 3
    assert not any(in_arrays[13:15])
    assert all(in_arrays[-3:])
    assert both.returns == 0
    both.kept()
    both.results()


@pytest.mark.parametrize("window", ["of two", "sliding", "with gaps", "wide", "seldom"])
def test_records_that_no_window_needs_leave(window: str) -> None:
    both = BothWindows(lambda stream: WINDOWS[window](stream.key_by(lambda r: r[0])).apply(Sums()), record, SCHEMA)
    operator: Any = both.tested.operator
    for start in range(0, 60_000, 500):
        operator.process_block(columns_of([record(i) for i in range(start, start + 500)], SCHEMA))
        assert operator.arrays.contents.log._items <= 4096 + 500
        assert len(operator.arrays.contents.log._runs) <= 4096 + 500


def test_keys_whose_windows_are_full_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("funken.operators.columnar.windows._MANY", 100)
    both = BothWindows(lambda stream: stream.key_by(lambda r: r[1]).count_window(2).process(Told()), record, SCHEMA)
    for start in range(0, 300, 60):
        both.give([record(i) for i in range(start, start + 60) for _ in range(2)])
        both.kept()
    operator: Any = both.tested.operator

    assert len(operator.arrays.slots) <= 120
    assert len(both.results()) >= 300


# ---- programs


def run(build: Any, columns: bool, width: int = 1) -> list[str]:
    env = StreamExecutionEnvironment.create_local_environment(width, Configuration({"pipeline.vectorized": columns}))
    source = env.from_source(
        DataGeneratorSource(record, 900), WatermarkStrategy.no_watermarks(), "generated"
    ).set_parallelism(1)
    with build(source).execute_and_collect() as found:
        return sorted(map(repr, found)) if width > 1 else list(map(repr, found))


PROGRAMS: dict[str, Any] = {
    "pyflink's example": lambda s: s.key_by(lambda r: r[0]).count_window(2).apply(
        Sums(), Types.TUPLE([Types.INT(), Types.INT()])
    ),
    "of all keys": lambda s: s.count_window_all(7).apply(lambda window, found: [sum(each[1] for each in found)]),
    "sliding, of all keys": lambda s: s.count_window_all(7, 3).reduce(lambda a, b: (a[0], a[1] + b[1], b[2], a[3])),
    "behind each other": lambda s: s.key_by(lambda r: r[0]).count_window(4, 2).apply(Sums())
    .key_by(lambda r: r[0]).count_window(3).apply(lambda key, window, found: [(key, len(found), found[0][1])]),
    "declared": lambda s: s.key_by(lambda r: r[0]).count_window(4, 2).reduce(
        lambda a, b: (a[0], a[1] + b[1], b[2], a[3]), output_type=Types.TUPLE(
            [Types.INT(), Types.INT(), Types.STRING(), Types.DOUBLE()])
    ),
}  # fmt: skip


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_the_same_on_both_paths(name: str, width: int) -> None:
    found = run(PROGRAMS[name], True, width)

    assert found == run(PROGRAMS[name], False, width)
    assert len(found) >= 128


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_run_on_columns(name: str) -> None:
    env = StreamExecutionEnvironment.create_local_environment(1)
    source = env.from_source(DataGeneratorSource(record, 900), WatermarkStrategy.no_watermarks(), "generated")
    PROGRAMS[name](source).sink_to(DiscardingSink())

    assert "per record" not in "".join(line for line in env.explain().splitlines() if "columns:" in line)


# ---- what is refused


def test_lists_of_the_largest_are_not_kept_in_count_windows() -> None:
    _, said = planned(lambda s: s.key_by(lambda r: r[0]).count_window(3).aggregate(Largest()), record)

    assert said == "per record: keeps a list of the records of a window, in their order"


def test_a_function_that_asks_for_its_window_is_called_for_each_key() -> None:
    def with_number(key: Any, window: Any, found: Any) -> Any:
        return [(window.id, len(found))]

    _, said = planned(
        lambda s: s.key_by(lambda r: r[0]).window(CountTumblingWindowAssigner.of(3)).apply(with_number), record
    )

    assert said.startswith("per record: its window function ")


def test_batch_sorts_records_by_time() -> None:
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"execution.runtime-mode": "batch"}))
    source = env.from_source(DataGeneratorSource(record, 9), WatermarkStrategy.no_watermarks(), "generated")
    source.key_by(lambda r: r[0]).count_window(3, 2).process(Told()).sink_to(DiscardingSink())

    assert "per record: sees its records one by one, which BATCH sorts by time" in env.explain()
