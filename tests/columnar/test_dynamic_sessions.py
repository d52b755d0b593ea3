"""Sessions whose gap each record decides, on columns: they give and keep what records give and keep, in the same order."""

import json
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from funken import (
    AggregateFunction,
    Configuration,
    DataGeneratorSource,
    DiscardingSink,
    EventTimeSessionWindows,
    FileSource,
    ProcessWindowFunction,
    SessionWindowTimeGapExtractor,
    StreamExecutionEnvironment,
    Types,
    WatermarkStrategy,
)
from funken.columnar.declared import SUM
from funken.columnar.kernels.columns import Column, FallBackToRows
from funken.connectors import JsonSchema
from funken.connectors.files.line_files import LineFormat
from funken.errors import InvalidProgram
from funken.expr.types import INT, STR, Tuple
from funken.ids import MAX_WATERMARK
from funken.operators.columnar.sessions import SessionScan
from tests.columnar.window_operators import BothWindows, planned

SCHEMA = Tuple((INT, INT, STR, INT))
TIMED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r[3])
LIMIT = 3


def record(i: int) -> Any:
    return i % 3, i % 8 + 1, f"t{i % 7}", i


class Gap(SessionWindowTimeGapExtractor):
    """The function of PyFlink's example of sessions with dynamic gaps."""

    def extract(self, element: Any) -> int:
        return element[1]


class Longer(SessionWindowTimeGapExtractor):
    def __init__(self, factor: int, least: int) -> None:
        self.factor, self.least = factor, least

    def extract(self, element: Any) -> int:
        if element[2] == "t1":
            return 50
        return max(element[1] * self.factor, self.least)


class Count(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return [(key, context.window().start, context.window().end, len([e for e in elements]))]


class Told(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, context.window().end, [(each[1], each[3]) for each in elements], elements[-1][2]


class Span(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0, 10**9

    def add(self, value: Any, so_far: Any) -> Any:
        return so_far[0] + 1, so_far[1] + value[1], min(so_far[2], value[3])

    def get_result(self, so_far: Any) -> Any:
        return so_far

    def merge(self, one: Any, other: Any) -> Any:
        return one[0] + other[0], one[1] + other[1], min(one[2], other[2])


GAPS: dict[str, Any] = {
    "a field": Gap(),
    "an object": Longer(3, 2),
    "a function": lambda r: r[1] % 4 * 10 + 1 if r[0] else len(r[2]),
    "a constant": lambda r: 5,
    "a method": Longer(1, 2).extract,
}
CONTENTS: dict[str, Any] = {
    "count": lambda windows: windows.process(Count()),
    "all records": lambda windows: windows.process(Told()),
    "reduce": lambda windows: windows.reduce(lambda a, b: (a[0], a[1] + b[1], a[2], min(a[3], b[3]))),
    "aggregate": lambda windows: windows.aggregate(Span()),
    "with a function": lambda windows: windows.aggregate(
        Span(), lambda key, window, found: [(key, window.start, window.end, each[1]) for each in found]
    ),
}


def operators(gap: Any, contents: str = "all records", key: Any = lambda r: (r[0], r[2])) -> BothWindows:
    return BothWindows(
        lambda stream: CONTENTS[contents](stream.key_by(key).window(EventTimeSessionWindows.with_dynamic_gap(gap))),
        record,
        SCHEMA,
    )


def some_records(dice: random.Random, watermark: int, late: bool) -> list[Any]:
    length = dice.choice((1, 3, 20, 100))
    times = [dice.randrange(watermark + 1 - 9 * late, watermark + 60) for _ in range(length)]
    if dice.random() < 0.5:
        times.sort()
    return [(dice.randrange(4), dice.randrange(1, 9), dice.choice(("t1", "t2", "é")), at) for at in times]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("contents", CONTENTS)
@pytest.mark.parametrize("gap", GAPS)
def test_both_paths_give_and_keep_the_same(gap: str, contents: str, late: bool) -> None:
    dice, watermark = random.Random(f"{gap} {contents} {late}"), 0
    both = operators(GAPS[gap], contents)
    for _ in range(20):
        records = some_records(dice, watermark, late)
        both.give(records, [each[3] for each in records], columns=dice.random() < 0.95)
        if dice.random() < 0.2:
            both.kept()
        if dice.random() < 0.2:
            both.restore(on_columns=dice.random() < 0.7)
        watermark += dice.choice((0, 5, 70))
        both.watermark(watermark)
    both.kept()
    both.watermark(MAX_WATERMARK)

    assert len(both.results()) > 30


def test_records_in_time_stay_on_columns() -> None:
    """Also if one bridges sessions, of which values are kept; lists go over to the record path then."""
    for contents, returns in (("aggregate", 0), ("all records", 1)):
        both = operators(Gap(), contents, key=lambda r: r[0])
        both.give([(0, 5, "x", 10), (0, 5, "x", 100), (0, 200, "x", 50), (1, 3, "x", 60)], [10, 100, 50, 60])
        assert both.returns == 0
        both.give([(0, 40, "x", 12), (1, 3, "x", 61)], [12, 61])
        both.kept()
        both.watermark(249)
        assert both.returns == returns
        assert len(both.results()) == 2


def test_the_longest_gap_decides_when_a_session_ends() -> None:
    both = operators(Gap(), "count", key=lambda r: r[0])
    both.give([(0, 1000, "x", 10), (0, 1, "x", 20)], [10, 20])
    both.give([(0, 1, "x", 400), (0, 1, "x", 1011)], [400, 1011])
    both.watermark(1009)

    assert both.results() == ["((0, 10, 1010, 3), 1009)"]
    assert both.returns == 0


@pytest.mark.parametrize("gap", [0, -7])
def test_a_gap_that_is_not_above_zero_fails_as_before(gap: int) -> None:
    both = operators(Gap())
    both.give([record(0)], [0])
    operator: Any = both.tested.operator

    with pytest.raises(InvalidProgram, match=rf"0 < gap: DynamicEventTimeSessionWindows got {gap} ms for \(2, {gap}"):
        both.give([record(1), (2, gap, "x", 5)], [1, 5])
    assert operator.arrays.gate.returns == 1


@pytest.mark.parametrize("gap", [2**62, 2**63 - 1])
def test_a_gap_beyond_all_time_ends_with_it(gap: int) -> None:
    both = operators(Gap(), "count", key=lambda r: r[0])
    both.give([(0, 5, "x", 3), (1, 5, "x", 4)], [3, 4])
    both.give([(0, gap, "x", 7), (2, 5, "x", 9)], [7, 9])
    both.kept()
    both.watermark(2**62)
    both.watermark(MAX_WATERMARK)

    assert len(both.results()) == 3


def test_a_gap_that_leaves_64_bits_goes_by_records() -> None:
    both = operators(lambda r: r[1] * 4 // 2**60, "count", key=lambda r: r[0])
    both.give([(0, 2**60, "x", 3)], [3])
    both.give([(0, 2**62 + 2, "x", 5)], [5])
    both.watermark(MAX_WATERMARK)

    assert both.results() == ["((0, 3, 21, 2), 20)"]


def test_a_gap_by_something_that_has_changed_goes_by_records(monkeypatch: pytest.MonkeyPatch) -> None:
    both = operators(lambda r: r[1] * LIMIT, "count", key=lambda r: r[0])
    both.give([(0, 5, "x", 3)], [3])
    assert both.returns == 0
    monkeypatch.setattr(f"{__name__}.LIMIT", 10)
    both.give([(0, 5, "x", 4), (0, 5, "x", 40)], [4, 40])
    both.watermark(MAX_WATERMARK)

    assert both.results() == ["((0, 3, 90, 3), 89)"]


# ---- programs


def run(build: Any, columns: bool, mode: str = "streaming") -> list[str]:
    options = {"pipeline.vectorized": columns, "execution.runtime-mode": mode}
    env = StreamExecutionEnvironment.create_local_environment(2, Configuration(options))
    with build(env).execute_and_collect() as found:
        return sorted(map(repr, found))


def example(env: StreamExecutionEnvironment) -> Any:
    records = env.from_source(DataGeneratorSource(lambda i: (i % 5, i * 7 % 11 + 1, "t", i * 3), 900), TIMED, "records")
    keyed = records.key_by(lambda r: r[0])
    return keyed.window(EventTimeSessionWindows.with_dynamic_gap(Gap())).process(
        Count(), Types.TUPLE([Types.INT(), Types.LONG(), Types.LONG(), Types.INT()])
    )


def test_pyflinks_example_runs_on_columns() -> None:
    env = StreamExecutionEnvironment.create_local_environment(1)
    example(env).sink_to(DiscardingSink())

    assert "per record" not in "".join(line for line in env.explain().splitlines() if "columns:" in line)
    found = run(example, True)
    assert found == run(example, False)
    assert len(found) > 50


def test_batch_does_as_well() -> None:
    def build(env: StreamExecutionEnvironment) -> Any:
        records = env.from_source(DataGeneratorSource(lambda i: (i % 5, i * i % 11 + 1, "t", i * 37 % 500), 300), TIMED)
        keyed = records.key_by(lambda r: r[0])
        return keyed.window(EventTimeSessionWindows.with_dynamic_gap(Gap())).aggregate(Span())

    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"execution.runtime-mode": "batch"}))
    build(env).sink_to(DiscardingSink())
    assert "window aggregate: vectorized" in env.explain()
    assert run(build, True, "batch") == run(build, False, "batch") != []


def test_fields_that_only_the_gap_looks_at_are_read(tmp_path: Path) -> None:
    class Clicks(Span):
        def add(self, value: Any, so_far: Any) -> Any:
            return so_far[0] + 1, so_far[1] + value["n"], min(so_far[2], value["n"])

    (tmp_path / "clicks.jsonl").write_text(
        "".join(json.dumps({"k": n % 3, "n": n, "gap": n % 5 + 1, "at": n * 2, "note": "x"}) + "\n" for n in range(200))
    )

    def build(env: StreamExecutionEnvironment) -> Any:
        stamped = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r["at"])
        source = FileSource.for_format(LineFormat(JsonSchema()), str(tmp_path / "clicks.jsonl")).build()
        keyed = env.from_source(source, stamped, "clicks").key_by(lambda r: r["k"])
        return keyed.window(EventTimeSessionWindows.with_dynamic_gap(lambda r: r["gap"] * 2)).aggregate(Clicks())

    env = StreamExecutionEnvironment.create_local_environment(1)
    build(env).sink_to(DiscardingSink())
    assert "clicks: reads 4 of 5 fields: k, n, gap, at" in env.explain()
    assert run(build, True) == run(build, False) != []


# ---- what is refused


class Callable:
    def __call__(self, element: Any) -> int:
        return 5


@pytest.mark.parametrize(
    ("gap", "reason"),
    [
        (lambda r: r[1] / 2 + 1, "its gap is no int, but float"),
        (lambda r: "5 s", "its gap is no int, but str"),
        (lambda r: r[1] > 1, "its gap is no int, but bool"),
        (lambda r: r[1] if r[1] > 1 else None, "its gap "),
        (lambda r: timedelta(seconds=r[1]), "its gap "),
        (lambda r: setattr(r, "x", 1) or 5, "its gap calls setattr()"),
        (Callable(), "its gap Callable is no Python function"),
    ],
)
def test_what_gives_no_int_is_asked_record_by_record(gap: Any, reason: str) -> None:
    windows = EventTimeSessionWindows.with_dynamic_gap(gap)
    _, said = planned(lambda stream: stream.key_by(lambda r: r[0]).window(windows).process(Count()), record)

    assert said.startswith(f"per record: {reason}")


def test_what_shows_the_order_of_records_is_folded_one_by_one() -> None:
    windows = EventTimeSessionWindows.with_dynamic_gap(Gap())
    _, said = planned(lambda stream: stream.key_by(lambda r: r[0]).window(windows).reduce(lambda a, b: b), record)

    assert said == "per record: shows the order of the records of a session"


def test_sums_that_may_leave_64_bits_go_by_records() -> None:
    scan = SessionScan(np.zeros(3, np.int64), np.array([0, 1, 90]), np.array([5, 6, 95]), np.array([1, 2, 3]))
    assert scan.folded(Column(INT, np.array([1 << 60, 1 << 60, 7])), SUM).data.tolist() == [1 << 61, 7]
    for numbers in ([1 << 62, 1 << 62, 7], [-(1 << 62), -(1 << 62), 7]):
        with pytest.raises(FallBackToRows, match="an overflow"):
            scan.folded(Column(INT, np.array(numbers)), SUM)
