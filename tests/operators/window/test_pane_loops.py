"""Windows that add records in a generated loop give what they give when the functions are called."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from funken import (
    AggregateFunction,
    Configuration,
    ProcessFunction,
    RuntimeExecutionMode,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from funken.columnar.block import TupleBlock
from funken.errors import OperatorFailed
from funken.operators.window.contents import PaneLoops, _AggregatedLogic, _ElementsLogic, _ReducedLogic
from funken.state.delta_tables import DeltaTable
from funken.timing.instants import MIN_TIMESTAMP

REDUCES = {
    "sum": lambda old, new: (old[0], old[1] + new[1]),
    "newest": lambda old, new: new,
    "pairs": lambda old, new: (new[0], (old[1], new[1])),
    "dict": lambda old, new: {0: old[0], 1: new[1], "whole": new},
    "nothing": lambda old, new: {1: None}.get(new[1], old),
}


class Totals(AggregateFunction):
    """Adds up seconds fields from a first value that is its own."""

    def __init__(self, first):
        self.first = first

    def create_accumulator(self):
        return (self.first, 0)

    def add(self, value, accumulator):
        return (accumulator[0] + value[1] * self.first, accumulator[1] + 1)

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return (a[0] + b[0], a[1] + b[1])


class Branching(Totals):
    """Cannot be read."""

    def add(self, value, accumulator):
        if value[1] == 2:
            return None
        return super().add(value, accumulator)


LOGICS = {
    **{name: lambda reduce=reduce: _ReducedLogic(reduce) for name, reduce in REDUCES.items()},
    "called": lambda: _ReducedLogic(called(REDUCES["sum"])),
    "totals": lambda: _AggregatedLogic(Totals(3)),
    "branching": lambda: _AggregatedLogic(Branching(3)),
    "elements": _ElementsLogic,
}


def key_of(pair):
    return pair[0]


def loops_of(logic, key=key_of):
    return PaneLoops(None, key, logic.adding())


def called(function):
    """Return a function that does the same and cannot be read."""
    return lambda *arguments: function(*arguments) if function else None


def one_by_one(logic, pane, pairs):
    """Add records as the description of contents says."""
    for pair in pairs:
        stored = pane.delta.get(key_of(pair))
        if stored is None and key_of(pair) not in pane.delta:
            stored = pane.base.get(key_of(pair))
        pane.delta[key_of(pair)] = logic.start(pair) if stored is None else logic.fold(stored, pair)


RECORDS = st.tuples(st.integers(0, 3), st.integers(0, 3))
STEPS = st.lists(st.lists(RECORDS, max_size=8) | st.just("snapshot") | st.just("half a snapshot"), max_size=8)


@example("branching", [[(0, 1)], "snapshot", [(0, 2)], [(0, 1)]], 1, ())  # ``None`` is newer than what was saved
@given(
    st.sampled_from(sorted(LOGICS)), STEPS, st.sampled_from([1, 2, 4, 17]), st.sampled_from([(), (2,), (2, 0), (2, 1)])
)
def test_panes_hold_the_same(name, steps, count, form):
    """In every form of pairs: whole, field by field, or one field of all blocks is the same."""
    constants = dict.fromkeys(form[1:], 2)
    steps = [
        step if isinstance(step, str) else [tuple(constants.get(n, pair[n]) for n in range(2)) for pair in step]
        for step in steps
    ]
    logic = LOGICS[name]()
    loops = loops_of(logic)
    plain, found = [DeltaTable() for _ in range(count)], [DeltaTable() for _ in range(count)]
    form = form if form and loops.takes_fields(count, form) else ()
    for step in steps:
        for panes in (plain, found):
            if isinstance(step, str):
                for pane in panes:
                    rest = pane.snapshot_entries(lambda key, entry: None)
                    if step == "snapshot":
                        list(rest)
            elif panes is plain:
                for pane in panes:
                    one_by_one(logic, pane, step)
            elif form:
                columns = [[pair[n] for pair in step] for n in range(2) if n not in constants]
                loops.add_fields(panes, TupleBlock(columns, None, constants))
            else:
                loops.add(panes, step)

    assert [pane.whole() for pane in found] == [pane.whole() for pane in plain]
    assert [[*pane.whole()] for pane in found] == [[*pane.whole()] for pane in plain]


@pytest.mark.parametrize("name", sorted(LOGICS))
@pytest.mark.parametrize("kind", [float, Decimal, np.float64, np.float32])
def test_values_that_are_no_number_are_one_key(kind, name):
    logic, pane = LOGICS[name](), DeltaTable()
    loops = loops_of(logic, lambda pair: kind(pair[0]))

    loops.add([pane], [("nan", 1), ("1", 3), ("nan", 1)])
    list(pane.snapshot_entries(lambda key, entry: None))
    loops.add([pane], [("nan", 1)])

    assert len(pane.whole()) == 2


def test_which_tuples_are_added_field_by_field():
    assert loops_of(LOGICS["sum"]()).takes_fields(5, (2,))
    assert loops_of(LOGICS["totals"]()).takes_fields(5, (2,))
    assert loops_of(LOGICS["elements"]()).takes_fields(5, (2,))
    assert not loops_of(LOGICS["newest"]()).takes_fields(5, (2,))  # it needs the tuple
    assert not loops_of(LOGICS["called"]()).takes_fields(1, (2,))
    assert not loops_of(LOGICS["branching"]()).takes_fields(1, (2,))
    assert not loops_of(LOGICS["elements"](), called(key_of)).takes_fields(1, (2,))
    assert not loops_of(LOGICS["sum"]()).takes_fields(1000, (2,))


def windows_of(events, assigner, reduce, disorder, key, block=5, parallelism=2):
    """Run a job over ``(key, time)`` in blocks of so many records; each as (key, its times)."""
    conf = Configuration(
        {"execution.target": "local", "pipeline.vectorized": "false", "parallelism.default": parallelism}
    )
    conf.set_string("execution.block.records", str(block))
    env = StreamExecutionEnvironment.get_execution_environment(conf)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(disorder)
    stream = env.from_collection(events).set_parallelism(1)
    stream = stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(lambda event, old: event[1]))
    windows = stream.map(lambda event: (event[0], (event[1],))).key_by(key).window(assigner)
    return windows.reduce(reduce).execute_and_collect(limit=10_000)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60)), max_size=40),
    st.sampled_from([(10, 10), (10, 5), (12, 4), (20, 3)]), st.sampled_from([0, 20]),
)  # fmt: skip
def test_a_job_gives_the_same(events, window, disorder):
    size, slide = window
    assigner = TumblingEventTimeWindows.of(size) if size == slide else SlidingEventTimeWindows.of(size, slide)

    def join(old, new):
        return (old[0], old[1] + new[1])

    def key(pair):
        return pair[0]

    read = windows_of(events, assigner, join, disorder, key)
    plain = windows_of(events, assigner, called(join), disorder, called(key))
    assert sorted(read) == sorted(plain)
    if not disorder:
        return
    starts = range(-size, 61, 1)
    expected = [
        (key, tuple(at for each, at in events if each == key and start <= at < start + size))
        for start in starts if start % slide == 0 for key in range(4)
    ]  # fmt: skip
    assert [pair for pair in sorted(expected) if pair[1]] == sorted(read)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 200)), min_size=60, max_size=300),
    st.sampled_from([(100, 100), (100, 50), (40, 20), (50, 200), (3, 3)]), st.booleans(), st.integers(0, 3),
    st.booleans(),
)  # fmt: skip
def test_blocks_in_order_are_cut_where_a_window_ends(events, window, in_order, strays, whole):
    """Blocks in order, nearly in order, and in none; tuples field by field, and ``whole``."""
    size, slide = window
    assigner = TumblingEventTimeWindows.of(size) if size == slide else SlidingEventTimeWindows.of(size, slide)
    if in_order:
        events.sort(key=lambda event: event[1])
        events += events[:strays]

    def join(old, new):
        return (old[0], old[1] + new[1])

    found = windows_of(events, assigner, called(join) if whole else join, 200, lambda pair: pair[0], 1000, 1)
    expected = [
        (key, tuple(at for each, at in events if each == key and start <= at < start + size))
        for start in range(-size, 201) if start % slide == 0 for key in range(3)
    ]  # fmt: skip
    assert sorted(found) == [pair for pair in sorted(expected) if pair[1]]


@pytest.mark.parametrize("by_field", [True, False])
def test_an_error_names_the_record(by_field):
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration({"execution.target": "local", "pipeline.vectorized": "false", "parallelism.default": 1})
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    stream = env.from_collection([1, 2, 3, 4]).assign_timestamps_and_watermarks(strategy)
    pairs = stream.map(lambda value: (0, value, 0)) if by_field else stream.map(lambda value: [0, value, 0])
    windows = pairs.key_by(lambda pair: pair[0]).window(SlidingEventTimeWindows.of(10, 5))
    windows.reduce(lambda old, new: (old[0], new[1] // (new[1] - 3), 0)).name("divided").print()
    with pytest.raises(OperatorFailed, match=r"operator 'divided'.* at the record .0, 3, 0.: ZeroDivisionError"):
        env.execute()


class Shares(AggregateFunction):
    """Divides by what is left of a whole."""

    def __init__(self, whole):
        self.whole = whole

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1 // (self.whole - value[1])

    def get_result(self, accumulator):
        return accumulator


class Split(Shares):
    """The same, and cannot be read."""

    def add(self, value, accumulator):
        return super().add(value, accumulator) if value else accumulator


@pytest.mark.parametrize("shares", [Shares, Split])
@pytest.mark.parametrize("by_field", [True, False])
def test_an_aggregate_that_fails_names_the_record_and_its_line(shares, by_field):
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration({"execution.target": "local", "pipeline.vectorized": "false", "parallelism.default": 1})
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    stream = env.from_collection([1, 2, 3, 4]).assign_timestamps_and_watermarks(strategy)
    pairs = stream.map(lambda value: (0, value, 0)) if by_field else stream.map(lambda value: [0, value, 0])
    windows = pairs.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(10))
    windows.aggregate(shares(3)).name("shared").print()
    with pytest.raises(
        OperatorFailed, match=r"operator 'shared'.* at the record .0, 3, 0.: ZeroDivisionError"
    ) as failed:
        env.execute()
    assert "return accumulator + 1 // (self.whole - value[1])" in str(failed.value) + failed.value.traceback_text


class Stamps(ProcessFunction):
    """Gives the timestamps of records."""

    def process_element(self, value, ctx):
        yield ctx.timestamp()


KEYS = {"read": lambda value: 6 // value, "called": called(lambda value: 6 // value)}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("stamped", [True, False])
def test_a_key_that_fails_behind_a_source_names_the_record(name, stamped):
    env = StreamExecutionEnvironment.create_local_environment(2)
    stream = env.from_collection([1, 0])
    if stamped:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
        stream = stream.assign_timestamps_and_watermarks(strategy)
    stream.key_by(KEYS[name]).reduce(lambda a, b: a).print()
    with pytest.raises(OperatorFailed, match="at the record 0: ZeroDivisionError"):
        env.execute()


@pytest.mark.parametrize("assigner", [lambda value, _: 6 // value, called(lambda value, _: 6 // value)])
def test_an_assigner_that_fails_names_the_record(assigner):
    env = StreamExecutionEnvironment.create_local_environment(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner)
    env.from_collection([1, 0]).assign_timestamps_and_watermarks(strategy).print()
    with pytest.raises(OperatorFailed, match="at the record 0: ZeroDivisionError"):
        env.execute()


@pytest.mark.parametrize("later", [lambda value, old: old + value, called(lambda value, old: old + value)])
@pytest.mark.parametrize("stamped", [True, False])
def test_an_assigner_gets_the_timestamp_so_far(later, stamped):
    """It is the least there is where a record has none."""
    env = StreamExecutionEnvironment.create_local_environment(1)
    strategy = WatermarkStrategy.no_watermarks()
    stream = env.from_collection([1, 2, 3])
    if stamped:
        stream = stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(lambda value, _: value * 10))
    stream = stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(later))
    found = stream.process(Stamps()).execute_and_collect(limit=3)
    assert found == ([11, 22, 33] if stamped else [MIN_TIMESTAMP + value for value in (1, 2, 3)])


def test_windows_in_processing_time_count_every_record():
    env = StreamExecutionEnvironment.create_local_environment(1)
    windows = env.from_collection(range(100)).map(lambda value: (value % 3, 1)).key_by(lambda pair: pair[0])
    sums = windows.window(SlidingProcessingTimeWindows.of(200, 100)).reduce(lambda old, new: (old[0], old[1] + new[1]))
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    found = sums.execute_and_collect(limit=1000)
    assert sum(count for _, count in found) == 200
