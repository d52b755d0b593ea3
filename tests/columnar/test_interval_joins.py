"""Interval joins on columns: what they give and keep is what the record path does, in the same order."""

import copy
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from funken import (
    DataGeneratorSource,
    DiscardingSink,
    OutputTag,
    ProcessJoinFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    Types,
    WatermarkStrategy,
)
from funken.columnar.kernels.columns import columns_of
from funken.columnar.keyed.logs import KeyedTimes
from funken.errors import InvalidProgram
from funken.expr.types import FLOAT, INT, STR, Tuple
from funken.operators.columnar import path as watch
from funken.operators.join import IntervalJoinSpec
from funken.operators.stateful import joins as interval_join
from funken.operators.user_functions import UserFunction
from funken.plan.columns import columnar_interval_join
from funken.state.backend import HashMapBackend
from funken.state.keyed import KeyedStateStore
from funken.testing import OperatorHarness
from funken.timing.timers import InternalTimerService
from tests.support.costs import fix_costs

SCHEMA = Tuple((STR, INT, FLOAT))


def every_pair(left, right, ctx):
    yield left[1], right[1], left[2] + right[2], ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.timestamp()


def some_pairs(left, right, ctx):
    if left[1] % 3 == 0:
        return
    yield left[0], left[1] * right[1], float(ctx.get_timestamp())
    if right[1] % 2:
        yield right[0], -right[1], right[2]


def divides(left, right, ctx):
    yield (left[1] // (right[1] - 7),)


class Distances(ProcessJoinFunction):
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        return [self.factor * (ctx.get_right_timestamp() - ctx.get_left_timestamp())]


FUNCTIONS = {
    "every pair": UserFunction(every_pair),
    "some pairs": UserFunction(some_pairs),
    "divides": UserFunction(divides),
    "object": UserFunction(Distances(7), "process_element", rich=True),
}
KEYS = [UserFunction(lambda record: record[0]), UserFunction(lambda record: (record[0], record[1] % 2))]


def specs_of(lower, upper, function, key, **late):
    rows = IntervalJoinSpec(FUNCTIONS[function], key, key, lower, upper, **late)
    return rows, columnar_interval_join(rows, [SCHEMA, SCHEMA])[0]


class Driven:
    """One of the two operators; ``failed`` is what it has raised."""

    def __init__(self, spec, snapshot=None):
        self.harness = (
            OperatorHarness(spec, keyed=True, name="join")
            if snapshot is None
            else OperatorHarness.restored(spec, snapshot, keyed=True, name="join")
        )
        self.failed = None

    def block(self, side, records, stamps, as_columns):
        try:
            if as_columns:
                take = (self.harness.operator.process_block, self.harness.operator.process_second_block)[side]
                take(columns_of(records, SCHEMA, stamps))
            else:
                (self.harness.feed_block, self.harness.feed_second_block)[side](records, stamps)
        except Exception as error:  # noqa: BLE001 - both have to raise it
            self.failed = type(error), str(error)

    def given(self):
        found = list(map(repr, self.harness.output_with_timestamps))
        self.harness.output_with_timestamps.clear()
        late = [self.harness.side_output_with_timestamps(tag) for tag in ("left", "right")]
        return found, late, self.harness.context.metrics.counter("numLateRecordsDropped").get_count()


def kept(snapshot):
    """All state and all timers, by key group."""
    keyed = {
        (group, name): sorted(map(repr, ((key, sorted(buckets.items())) for key, _, buckets in rows)))
        for group, states in snapshot["keyed"].groups.items()
        for name, rows in states.items()
        if rows
    }
    timers = {group: sorted(map(repr, of["event"])) for group, of in snapshot["timers"].groups.items() if of}
    return keyed, timers


number = st.one_of(st.integers(-3, 9), st.just(2**62))
record = st.tuples(st.sampled_from("abc"), number, st.sampled_from([0.5, -0.0, 2.0]))
block = st.lists(st.tuples(record, st.integers(-10, 20)), min_size=1, max_size=12)
event = st.one_of(
    st.tuples(st.sampled_from([0, 1]), block, st.sampled_from([True, True, True, False])),
    st.integers(-15, 25),
    st.sampled_from(["snapshot", "rows go on", "columns go on"]),
)
bounds = st.tuples(st.integers(-8, 8), st.integers(-8, 8)).map(sorted)


@given(
    bounds,
    st.lists(event, max_size=14),
    st.sampled_from(sorted(FUNCTIONS)),
    st.sampled_from(KEYS),
    st.sampled_from([{}, {"left_late": "left", "right_late": "right"}]),
    st.sampled_from([1, 3, 1000]),
)
def test_columns_give_and_keep_what_records_do(bounds, events, function, key, late, pairs):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(interval_join, "_PAIRS", pairs)
        patched.setattr(interval_join, "_FEW", 4)
        patched.setattr(interval_join, "_FEW_KEYS", 1)
        of_rows, of_columns = specs_of(*bounds, function, key, **late)
        rows, columns = Driven(of_rows), Driven(of_columns)
        watermark = -(2**63)
        for event in events:
            if isinstance(event, int):
                watermark = max(watermark, event)
                rows.harness.watermark(watermark)
                columns.harness.watermark(watermark)
            elif isinstance(event, str):
                one, other = rows.harness.snapshot(), columns.harness.snapshot()
                assert kept(other) == kept(one)
                if event != "snapshot":
                    # What one path has kept is what the other one begins with.
                    rows, columns = Driven(of_rows, other), Driven(of_columns, one)
                    watermark = -(2**63)
            else:
                side, stamped, as_columns = event
                records, stamps = [record for record, _ in stamped], [at for _, at in stamped]
                rows.block(side, records, stamps, False)
                columns.block(side, records, stamps, as_columns)
                assert columns.failed == rows.failed
                if rows.failed:
                    return
            assert columns.given() == rows.given()
        assert kept(columns.harness.snapshot()) == kept(rows.harness.snapshot())


@given(
    st.integers(0, 5),
    st.lists(
        st.one_of(
            st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30)), min_size=1, max_size=8), st.integers(0, 40)
        ),
        max_size=12,
    ),
    st.lists(st.tuples(st.integers(0, 2), st.integers(-10, 40), st.integers(-5, 30)), min_size=1, max_size=6),
    st.integers(1, 20),
)
@example(5, [[(0, 1), (0, 9)], 6], [(0, -10, 30)], 10)  # what is dropped came with what is kept
def test_a_timeline_finds_all_that_are_kept(keep, events, probes, most):
    times, kept, place, watermark = KeyedTimes(keep), [], 0, -1
    for event in events:
        if isinstance(event, int):
            watermark = max(watermark, event)
            kept = [each for each in kept if each[1] + keep > watermark]
            times.settle(watermark, place)
            continue
        new = [(key, max(at, watermark)) for key, at in event]
        times.add(np.array([key for key, _ in new]), np.array([at for _, at in new]), place)
        kept += [(key, at, place + number) for number, (key, at) in enumerate(new)]
        place += len(new)

    found = [
        triple
        for part in times.find(*(np.array(each) for each in zip(*probes, strict=True)), most)
        for triple in zip(*(each.tolist() for each in part), strict=True)
    ]

    assert found == [
        (number, place, at)
        for number, (key, low, high) in enumerate(probes)
        for of, at, place in sorted(kept, key=lambda each: each[1:])
        if of == key and low <= at <= high
    ]
    numbers, stamps, places = (each.tolist() for each in times.all())
    assert list(zip(numbers, stamps, places, strict=True)) == kept


def test_times_may_be_far_apart():
    times, far = KeyedTimes(keep=5), 1 << 38
    times.add(np.array([1, 1, 1]), np.array([far - 9, 3, -far]), 0)
    assert [each.tolist() for each in times.all()] == [[1, 1, 1], [far - 9, 3, -far], [0, 1, 2]]
    times.settle(far - 10, 3)  # the others are dropped
    times.add(np.array([1]), np.array([2 * far - 10]), 3)
    [found] = times.find(np.array([1]), np.array([-far]), np.array([3 * far]), 10)
    assert [each.tolist() for each in found] == [[0, 0], [0, 3], [far - 9, 2 * far - 10]]


def test_times_at_the_end_of_an_epoch_are_few_runs():
    times, epoch, rest = KeyedTimes(keep=1 << 40), 1 << 32, np.arange(10)
    for place in range(0, 10_000, 10):
        times.add(rest, epoch - 5 + rest, place)
    assert len(times._runs()) < 16
    [found] = times.find(np.array([4, 5]), np.array([0, 0]), np.array([2 * epoch] * 2), 10_000)
    assert found.stamps.tolist() == [epoch - 1] * 1000 + [epoch] * 1000
    assert found.places.tolist() == [*range(4, 10_000, 10), *range(5, 10_000, 10)]


def play(bounds, steps, pairs):
    """Give both operators blocks (a side, and times of one key) and watermarks; return how many pairs there are."""
    rows, columns = map(Driven, specs_of(*bounds, "every pair", KEYS[0]))
    number, found = 0, []
    for step in steps:
        if isinstance(step, int):
            rows.harness.watermark(step)
            columns.harness.watermark(step)
        elif step == "snapshot":
            assert kept(columns.harness.snapshot()) == kept(rows.harness.snapshot())
        else:
            side, stamps = step
            records = [("a", number + each, 0.5) for each in range(len(stamps))]
            number += len(stamps)
            rows.block(side, records, stamps, False)
            columns.block(side, records, stamps, True)
            given = rows.given()
            assert columns.given() == given
            found += given[0]
    assert kept(columns.harness.snapshot()) == kept(rows.harness.snapshot())
    assert columns.harness.operator._slots
    assert len(found) == pairs


def test_partners_from_several_runs_come_in_the_order_of_time_and_of_arrival():
    play((-50, 50), [(0, [9, 5, 7, 5, 20, 21, 22, 23, 24]), (0, [5, 6]), (1, [6, 8])], 2 * 11)


def test_who_comes_at_the_watermark_lives_until_the_next_one_and_who_was_there_before_does_not():
    # A record that is kept no longer than its own time is dropped by a watermark at it.
    play((0, 0), [(0, [9, 10, 15]), 10, (0, [10]), (1, [10, 12]), 10, (1, [10]), (0, [12]), 12, (0, [12])], 2)


def test_a_log_that_was_shortened_still_knows_what_was_saved_and_who_came_after_the_watermark(monkeypatch):
    monkeypatch.setattr(interval_join, "_FEW", 4)
    before = [(0, list(range(10)))]
    play((0, 5), [*before, "snapshot", 30, (0, [31]), (0, [32]), "snapshot", (0, [33]), (0, [34]), (1, [34])], 4)
    play((0, 0), [*before, 20, (0, [20]), (0, [20]), (0, [20]), (1, [20])], 3)


def on_columns(lower=-5, upper=5, function="every pair", **late):
    """Return an operator on columns."""
    return Driven(specs_of(lower, upper, function, KEYS[0], **late)[1])


def test_blocks_are_computed_in_columns():
    op = on_columns()
    calls = []
    op.harness.operator._call = lambda *given: calls.append(given)
    op.block(0, [("a", 1, 0.5), ("b", 1, 0.5)], [1, 2], True)
    op.block(1, [("a", 2, 2.0)], [4], True)
    assert op.given()[0] == ["((1, 2, 2.5, 1, 4, 4), 4)"]
    assert (calls, op.failed) == ([], None)
    assert not op.harness.context.keyed.snapshot().groups  # nothing was brought to the tables


def test_pairs_that_kernels_cannot_compute_go_to_the_function_and_the_others_do_not(monkeypatch):
    monkeypatch.setattr(interval_join, "_PAIRS", 2)
    op, called = on_columns(function="some pairs"), []

    def call(left, right, ctx):
        called.append((left, right))
        return some_pairs(left, right, ctx)

    op.harness.operator._call = call
    large = ("a", 2**62 + 1, 0.5)
    op.block(0, [("a", 1, 0.5), ("a", 2, 0.5), large], [1, 1, 2], True)
    op.block(1, [("a", 4, 0.5)], [2], True)
    assert op.given()[0] == ["(('a', 4, 2.0), 2)", "(('a', 8, 2.0), 2)", f"(('a', {4 * large[1]}, 2.0), 2)"]
    assert called == [(large, ("a", 4, 0.5))]
    assert op.harness.operator.gate.returns == 0


def test_a_function_that_raises_does_so_itself():
    op = on_columns(function="divides")
    op.block(0, [("a", 1, 0.5)], [1], True)
    with pytest.raises(ZeroDivisionError) as raised:
        op.harness.operator.process_second_block(columns_of([("a", 7, 0.5)], SCHEMA, [1]))
    assert raised.traceback[-1].name == "divides"


@pytest.mark.parametrize("stamps", [None, [5, -(2**63)]])
def test_records_without_timestamps_are_refused(stamps):
    op = on_columns()
    with pytest.raises(InvalidProgram, match="'join' got a record without a timestamp"):
        op.harness.operator.process_block(columns_of([("a", 1, 0.5), ("a", 2, 0.5)], SCHEMA, stamps))


def test_a_function_that_is_changed_is_called():
    factor = 1

    def times(left, right, ctx):
        return [left[1] * factor]

    rows = IntervalJoinSpec(UserFunction(times), KEYS[0], KEYS[0], -5, 5)
    op = Driven(columnar_interval_join(rows, [SCHEMA, SCHEMA])[0])
    op.block(0, [("a", 3, 0.5)], [1], True)
    op.block(1, [("a", 1, 0.5)], [1], True)
    factor = 10
    op.block(1, [("a", 1, 0.5)], [2], True)
    assert op.given()[0] == ["(3, 1)", "(30, 2)"]


def test_what_is_dropped_leaves_the_arrays(monkeypatch):
    monkeypatch.setattr(interval_join, "_FEW", 64)
    monkeypatch.setattr(interval_join, "_FEW_KEYS", 64)
    op = on_columns()
    operator = op.harness.operator
    for at in range(0, 4000, 20):
        for side in (0, 1):
            op.block(side, [(f"k{each}", 1, 0.5) for each in range(at, at + 20)], list(range(at, at + 20)), True)
        op.harness.watermark(at + 15)
    assert len(op.given()[0]) == 4000
    assert max(len(side.log) for side in operator._arrays) < 200
    assert len(operator._slots) < 400
    op.harness.watermark(2**63 - 1)
    assert kept(op.harness.snapshot()) == ({}, {})


def test_small_blocks_go_one_by_one_until_they_are_large_again_and_enough_have_come(monkeypatch):
    monkeypatch.setattr(watch, "FEW", 10)
    fix_costs(monkeypatch)
    op = on_columns()
    operator, taken = op.harness.operator, []
    sizes = [40] * 10 + [2] * 30 + [40] * 40
    for number, size in enumerate(sizes):
        op.block(number % 2, [("a", number, 0.5)] * size, [number * 100] * size, True)
        taken.append(len(operator._slots) > 0)
    assert taken[:10] == [True] * 10
    assert not any(taken[30:40])
    # 440 records are kept from before; so many have to come before they are taken over again.
    assert (taken[47], taken[-1]) == (False, True)
    assert operator.gate.returns == 0


def test_a_state_that_columns_cannot_have_stays_in_the_tables():
    rows, columns = specs_of(-5, 5, "object", KEYS[0])
    before = Driven(rows)
    before.block(0, [("a", 2**70, 0.5)], [1], False)
    op = Driven(columns, before.harness.snapshot())
    for _ in range(3):
        op.block(1, [("a", 1, 0.5)], [2], True)
    assert op.given()[0] == ["(7, 2)"] * 3
    assert not op.harness.operator._slots


def tracked(spec):
    """Return an operator whose state and timers tell what has changed."""
    op = Driven(spec)
    operator, context = spec.build(), op.harness.context
    context.before_snapshot.clear()
    context.keyed = KeyedStateStore(128, range(128), lambda: 0, HashMapBackend(tracked=True))
    context.timers = InternalTimerService(lambda: 0, tracked=True)
    operator.setup(context, op.harness._wire())
    operator.open()
    op.harness.operator = operator
    return op


def take_changes(op, state, timers):
    """Bring what was read of incremental snapshots up to date."""
    context = op.harness.context
    for ask in context.before_snapshot:
        ask()
    of_state, of_timers = context.keyed.snapshot_changes(), context.timers.snapshot_changes()
    for states in of_state.groups.values():
        for name, rows in states.items():
            state.update({(name, key): sorted(copy.deepcopy(buckets).items()) for key, _, buckets in rows})
    for states in of_state.deleted.values():
        for name, slots in states.items():
            for key, _ in slots:
                state.pop((name, key), None)
    for domains in of_timers.deleted.values():
        timers.difference_update(domains["event"])
    for domains in of_timers.groups.values():
        timers.update(domains["event"])


def test_incremental_snapshots_come_to_the_same(monkeypatch):
    monkeypatch.setattr(interval_join, "_FEW", 8)
    for case in range(30):
        dice = random.Random(case)
        spec_of = specs_of(*sorted((dice.randrange(-8, 9), dice.randrange(-8, 9))), "every pair", KEYS[0])
        both = [(tracked(spec), {}, set()) for spec in spec_of]
        watermark = 0
        for step in range(30):
            side, does = dice.randrange(2), dice.choice(["block", "block", "block", "watermark", "snapshot"])
            records = [(dice.choice("abc"), step, 0.5) for _ in range(dice.randrange(1, 9))]
            stamps = [watermark + dice.randrange(-2, 12) for _ in records]
            watermark += dice.randrange(6) if does == "watermark" else 0
            for op, state, timers in both:
                if does == "block":
                    op.block(side, records, stamps, op is both[1][0])
                elif does == "watermark":
                    op.harness.watermark(watermark)
                else:
                    take_changes(op, state, timers)
            assert both[0][1:] == both[1][1:]
        assert both[1][0].harness.operator._slots


# ---- programs

MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])


def first(record):
    return record[0]


def joined(vectorized, function=every_pair, key=first, count=3000, mode=None, output_type=None):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    env.get_configuration().set_boolean("pipeline.vectorized", vectorized)
    if mode is not None:
        env.set_runtime_mode(mode)
    source = DataGeneratorSource(lambda n: (f"k{n % 50}", n * 7 // 3, n * 0.5), count)
    left, right = (
        env.from_source(source, MONOTONOUS, name).key_by(of) for name, of in (("left", first), ("right", key))
    )
    return env, left.interval_join(right).between(-300, 200).process(function, output_type)


def test_a_program_gives_the_same():
    found = []
    for vectorized in (True, False):
        _, stream = joined(vectorized)
        with stream.execute_and_collect() as results:
            found.append(sorted(results))
    assert found[0] == found[1]
    assert len(found[0]) > 3000


SIDE = OutputTag("side")


def tagged(left, right, ctx):
    yield SIDE, left
    yield right


def asks_for_more(left, right, ctx):
    ctx.output(OutputTag("left"), left)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "interval_join: vectorized"),
        ({"function": asks_for_more}, "per record: asks its context for output()"),
        (
            {"key": lambda record: record[1], "function": lambda left, right, ctx: [1]},
            "per record: has keys of two kinds: str and int",
        ),
        ({"mode": RuntimeExecutionMode.BATCH}, "per record: sees its records one by one, which BATCH sorts by time"),
        ({"output_type": Types.STRING()}, "per record: declares String, and gives it (int, int, float"),
        ({"output_type": Types.STRING(), "function": lambda left, right, ctx: [left[0]]}, "interval_join: vectorized"),
        ({"function": tagged}, "per record: "),
        ({"function": lambda left, right, ctx: None}, "per record: gives no results"),
    ],
)
def test_it_is_said_how_a_join_runs(options, said):
    env, stream = joined(True, **options)
    stream.sink_to(DiscardingSink())
    explained = env.explain()
    assert said in explained[explained.index("interval_join") :]
