"""Windows that reduce in a generated loop give what they give when the functions are called."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken import (
    Configuration,
    RuntimeExecutionMode,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from funken.columnar.block import TupleBlock
from funken.errors import OperatorFailed
from funken.operators.codegen import rows_of_fields
from funken.operators.window.contents import _ReducedLogic
from funken.state.delta_tables import DeltaTable

REDUCES = {
    "sum": lambda old, new: (old[0], old[1] + new[1]),
    "newest": lambda old, new: new,
    "pairs": lambda old, new: (new[0], (old[1], new[1])),
    "dict": lambda old, new: {0: old[0], 1: new[1], "whole": new},
    "nothing": lambda old, new: {1: None}.get(new[1], old),
}


def key_of(pair):
    return pair[0]


def called(function):
    """Return a function that does the same and cannot be read."""
    return lambda *arguments: function(*arguments) if function else None


RECORDS = st.tuples(st.integers(0, 3), st.integers(0, 3))
STEPS = st.lists(st.lists(RECORDS, max_size=8) | st.just("snapshot") | st.just("half a snapshot"), max_size=8)


@given(st.sampled_from(sorted(REDUCES)), STEPS, st.integers(1, 4), st.sampled_from([(), (2,), (2, 0), (2, 1)]))
def test_panes_hold_the_same(name, steps, count, form):
    """In every form of pairs: whole, field by field, or one field of all blocks is the same."""
    constants = dict.fromkeys(form[1:], 2)
    steps = [
        step if isinstance(step, str) else [tuple(constants.get(n, pair[n]) for n in range(2)) for pair in step]
        for step in steps
    ]
    logic = _ReducedLogic(REDUCES[name])
    loops = logic.loops(None, key_of)
    plain, found = [DeltaTable() for _ in range(count)], [DeltaTable() for _ in range(count)]
    form = form if loops.takes(count, form) else ()
    for step in steps:
        for panes in (plain, found):
            if isinstance(step, str):
                for pane in panes:
                    rest = pane.snapshot_entries(lambda key, entry: None)
                    if step == "snapshot":
                        list(rest)
            elif panes is plain:
                for pane in panes:
                    logic.collect(pane, [(key_of(pair), pair) for pair in step])
            else:
                columns = [[pair[n] for pair in step] for n in range(2) if n not in constants]
                values = rows_of_fields(TupleBlock(columns, None, constants)) if form else step
                loops.collect(panes, values, form, constants.values() if form else ())

    assert [pane.whole() for pane in found] == [pane.whole() for pane in plain]
    assert [[*pane.whole()] for pane in found] == [[*pane.whole()] for pane in plain]


def test_which_functions_have_loops():
    assert _ReducedLogic(REDUCES["sum"]).loops(None, key_of).takes(5, (2,))
    assert not _ReducedLogic(REDUCES["newest"]).loops(None, key_of).takes(5, (2,))
    assert _ReducedLogic(REDUCES["newest"]).loops(None, key_of).takes(5)
    assert not _ReducedLogic(called(REDUCES["sum"])).loops(None, key_of).takes(1)
    assert not _ReducedLogic(REDUCES["sum"]).loops(None, called(key_of)).takes(1)
    assert not _ReducedLogic(REDUCES["sum"]).loops(None, key_of).takes(1000)


def windows_of(events, assigner, reduce, disorder, key):
    """Run a job over ``(key, time)``; each as (key, text of times)."""
    conf = Configuration({"execution.target": "local", "pipeline.vectorized": "false", "parallelism.default": 2})
    conf.set_string("execution.block.records", "5")
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


@pytest.mark.parametrize("assigner", [lambda value, _: 6 // value, called(lambda value, _: 6 // value)])
def test_an_assigner_that_fails_names_the_record(assigner):
    env = StreamExecutionEnvironment.create_local_environment(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner)
    env.from_collection([1, 0]).assign_timestamps_and_watermarks(strategy).print()
    with pytest.raises(OperatorFailed, match="at the record 0: ZeroDivisionError"):
        env.execute()


def test_windows_in_processing_time_count_every_record():
    env = StreamExecutionEnvironment.create_local_environment(1)
    windows = env.from_collection(range(100)).map(lambda value: (value % 3, 1)).key_by(lambda pair: pair[0])
    sums = windows.window(SlidingProcessingTimeWindows.of(200, 100)).reduce(lambda old, new: (old[0], old[1] + new[1]))
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    found = sums.execute_and_collect(limit=1000)
    assert sum(count for _, count in found) == 200
