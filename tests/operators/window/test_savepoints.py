"""Windows go on from what the version before has saved: at another parallelism, in keyed state, on columns and on records.

``savepoints.pickle`` has, for each program and path, a snapshot, and what that version gave from there on. Run this file as a
program to write it anew: ``python -m tests.operators.window.test_savepoints``.
"""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from funken import (
    AggregateFunction,
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
)
from funken.columnar.kernels.columns import columns_of
from funken.expr.types import INT, STR, Tuple
from funken.ids import MAX_WATERMARK
from funken.io.former_modules import loads
from funken.plan.rules.operators import in_keyed_state
from funken.state.keygroups import key_group_of, subtask_of
from funken.testing import OperatorHarness
from tests.columnar.window_operators import planned

SAVED = Path(__file__).with_name("savepoints.pickle")
SCHEMA = Tuple((INT, INT, STR, INT))
KEYS = 9


def record(i: int) -> Any:
    return i * 7 % KEYS, i * i % 31, f"t{i % 4}", i * 13 % 60 + i // 2


class Span(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0, 10**9

    def add(self, value: Any, so_far: Any) -> Any:
        return so_far[0] + 1, so_far[1] + value[1], min(so_far[2], value[3])

    def get_result(self, so_far: Any) -> Any:
        return so_far

    def merge(self, one: Any, other: Any) -> Any:
        return one[0] + other[0], one[1] + other[1], min(one[2], other[2])


class Told(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, len(elements), [each[2] for each in elements], elements[-1][1]


class Numbered(ProcessWindowFunction):
    """How often a window has fired, from its own state, and that of its key."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        firings = context.window_state().get_state(ValueStateDescriptor("firings", default=0))
        firings.update(firings.value() + 1)
        every = context.global_state().get_state(ValueStateDescriptor("every", default=0))
        every.update(every.value() + 1)
        yield key, tuple(context.window()), firings.value(), every.value(), len(list(elements))

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("firings", default=0)).clear()


def added(a: Any, b: Any) -> Any:
    return a[0], a[1] + b[1], a[2], min(a[3], b[3])


TUMBLING, SLIDING = TumblingEventTimeWindows.of(20), SlidingEventTimeWindows.of(30, 10)
SESSIONS = EventTimeSessionWindows.with_gap(4)
PROGRAMS: dict[str, Any] = {
    "tumbling, reduce": lambda keyed: keyed.window(TUMBLING).reduce(added),
    "tumbling, lists": lambda keyed: keyed.window(TUMBLING).process(Told()),
    "sliding, aggregate": lambda keyed: keyed.window(SLIDING).aggregate(Span()),
    "sliding, lists": lambda keyed: keyed.window(SLIDING).process(Told()),
    "sessions, aggregate": lambda keyed: keyed.window(SESSIONS).aggregate(Span()),
    "sessions, lists": lambda keyed: keyed.window(SESSIONS).process(Told()),
    "sessions, dynamic": lambda keyed: keyed.window(
        EventTimeSessionWindows.with_dynamic_gap(lambda r: r[1] % 5 + 1)
    ).reduce(added),
    "counts, reduce": lambda keyed: keyed.count_window(5).reduce(added),
    "counts, lists": lambda keyed: keyed.count_window(5).process(Told()),
    "counts, numbered": lambda keyed: keyed.window(CountTumblingWindowAssigner.of(3)).aggregate(Span()),
    "counts, sliding": lambda keyed: keyed.count_window(5, 2).process(Told()),
    "counts, sliding, reduce": lambda keyed: keyed.count_window(4, 3).reduce(added),
    "lateness": lambda keyed: keyed.window(TUMBLING).allowed_lateness(15).process(Numbered()),
    "late sessions": lambda keyed: keyed.window(SESSIONS).allowed_lateness(15).process(Told()),
    "trigger": lambda keyed: keyed.window(TUMBLING).trigger(ContinuousEventTimeTrigger.of(7)).aggregate(Span()),
    "evictor": lambda keyed: keyed.window(TUMBLING).evictor(CountEvictor.of(3)).process(Told()),
    "global": lambda keyed: keyed.window(GlobalWindows.create())
    .trigger(PurgingTrigger.of(CountTrigger.of(4)))
    .evictor(CountEvictor.of(2))
    .process(Told()),
}  # fmt: skip


def spec_of(name: str, columns: bool) -> Any:
    return planned(lambda stream: PROGRAMS[name](stream.key_by(lambda r: r[0])), record, columns)[0]


def blocks(first: int, last: int) -> Iterator[tuple[list[Any], int]]:
    """Yield blocks of records, each with the watermark after it; some records are late."""
    for number in range(first, last):
        yield [record(i) for i in range(number * 40, number * 40 + 40)], number * 20 + 8


def play(harness: OperatorHarness, columns: bool, first: int, last: int, subtask: int = 0, width: int = 1) -> None:
    for records, watermark in blocks(first, last):
        mine = [each for each in records if subtask_of(key_group_of(each[0], 128), 128, width) == subtask]
        stamps = [each[3] for each in mine]
        if columns:
            harness.operator.process_block(columns_of(mine, SCHEMA, stamps))
        else:
            harness.feed_block(mine, stamps)
        harness.watermark(watermark)


def restored(snapshot: Any, spec: Any, columns: bool, subtask: int = 0, width: int = 1) -> list[str]:
    """Return what windows give that go on from a snapshot."""
    harness = OperatorHarness.restored(spec, snapshot, keyed=True, subtask=subtask, parallelism=width)
    harness.watermark(48)
    play(harness, columns, 3, 6, subtask, width)
    harness.watermark(MAX_WATERMARK)
    return list(map(repr, harness.output_with_timestamps))


def saved() -> dict[tuple[str, bool], tuple[bytes, list[str]]]:
    found: dict[tuple[str, bool], tuple[bytes, list[str]]] = pickle.loads(SAVED.read_bytes())
    return found


def write() -> None:
    made = {}
    for name in PROGRAMS:
        for columns in (False, True):
            spec = spec_of(name, columns)
            harness = OperatorHarness(spec, keyed=True)
            play(harness, columns, 0, 3)
            snapshot = harness.snapshot()
            made[name, columns] = pickle.dumps(snapshot), restored(snapshot, spec, columns)
    SAVED.write_bytes(pickle.dumps(made))


@pytest.mark.parametrize("columns", [False, True], ids=["records", "columns"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_windows_go_on_from_the_version_before(name: str, columns: bool) -> None:
    pickled, given = saved()[name, columns]

    assert restored(loads(pickled), spec_of(name, columns), columns) == given
    assert len(given) > KEYS


@pytest.mark.parametrize("columns", [False, True], ids=["records", "columns"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_two_subtasks_go_on_on_the_other_path(name: str, columns: bool) -> None:
    pickled, given = saved()[name, columns]
    halves = [restored(loads(pickled), spec_of(name, not columns), not columns, half, 2) for half in range(2)]

    assert sorted(each for half in halves for each in half) == sorted(given)
    assert all(halves)


@pytest.mark.parametrize("name", PROGRAMS)
def test_windows_in_keyed_state_go_on_from_objects_of_the_version_before(name: str) -> None:
    pickled, given = saved()[name, True]

    assert sorted(restored(loads(pickled), in_keyed_state(spec_of(name, False)), False)) == sorted(given)


if __name__ == "__main__":
    write()
