"""Window operators against oracles of a few lines, and the fast logics against the general one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.operators.user_functions import UserFunction
from funken.operators.window.spec import Aggregated, CallStyle, Elements, Reduced, Strategy, WindowCall, WindowSpec
from funken.plan.rules.operators import in_keyed_state
from funken.state.keygroups import key_group_of, subtask_of
from funken.testing.harness import OperatorHarness
from funken.windowing.assigners import (
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from funken.windowing.evictors import CountEvictor
from funken.windowing.triggers import CountTrigger, EventTimeTrigger, PurgingTrigger


class Collect:
    """An aggregate function that keeps everything, so that no difference goes unseen."""

    def create_accumulator(self):
        return ()

    def add(self, value, accumulator):
        return (*accumulator, value)

    def get_result(self, accumulator):
        return list(accumulator)

    def merge(self, a, b):
        return a + b


def key_of(record):
    return record[0]


def show(key, window, elements):
    return [(key, window, list(elements))]


CONTENTS = {
    "reduce": (Reduced(UserFunction(lambda a, b: (a[0], *a[1:], *b[1:]))), None),
    "aggregate": (Aggregated(UserFunction(Collect())), None),
    "aggregate with function": (Aggregated(UserFunction(Collect())), WindowCall(UserFunction(show), CallStyle.APPLY)),
    "apply": (Elements(), WindowCall(UserFunction(show), CallStyle.APPLY)),
}

contents = st.sampled_from(list(CONTENTS))
KEYS = "aeg"  # subtask 0 of 2 owns the first, subtask 1 the others
keys = st.sampled_from(KEYS)
record = st.tuples(keys, st.integers(-20, 60))
block = st.lists(record, min_size=1, max_size=12)
timeline = st.lists(st.one_of(block, st.integers(-25, 65)), max_size=12)
"""Blocks of (key, timestamp), and watermarks."""

tumbling = st.integers(1, 12).flatmap(
    lambda size: st.builds(TumblingEventTimeWindows, st.just(size), st.integers(1 - size, size - 1))
)
sliding = st.tuples(st.integers(1, 15), st.integers(1, 8)).flatmap(
    lambda two: st.builds(
        SlidingEventTimeWindows, st.just(two[0]), st.just(two[1]), st.integers(1 - two[1], two[1] - 1)
    )
)


def play(spec, timeline, *, end=True, harness=None):
    """Run a timeline; records are numbered, so that each is unique."""
    h = harness or OperatorHarness(spec, keyed=True)
    number, watermark = 0, -(2**63)
    for event in timeline:
        if isinstance(event, int):
            watermark = max(watermark, event)
            h.watermark(watermark)
        else:
            values = [(key, number + i) for i, (key, _) in enumerate(event)]
            h.feed_block(values, [at for _, at in event])
            number += len(event)
    if end:
        h.end_input()
    return h


def observed(h, *, ordered=True):
    out = h.output_with_timestamps
    if not ordered:
        out = sorted(out, key=lambda pair: (pair[1], repr(pair[0])))
    late = h.context.metrics.counter("numLateRecordsDropped").get_count()
    return out, late, h.side_output_with_timestamps("late")


def arrivals(timeline):
    """Yield (key, record, timestamp, watermark at arrival)."""
    number, watermark = 0, -(2**63)
    for event in timeline:
        if isinstance(event, int):
            watermark = max(watermark, event)
        else:
            for key, at in event:
                yield key, (key, number), at, watermark
                number += 1


def spec_of(assigner, kind="apply", **options):
    held, function = CONTENTS[kind]
    return WindowSpec(UserFunction(key_of), assigner, held, function, **options)


@given(st.one_of(tumbling, sliding), timeline, st.integers(0, 9))
def test_s32_s34_s35_windows_hold_what_came_in_time_and_fire_again_within_lateness(assigner, timeline, lateness):
    on_time, within, expected, dropped = {}, {}, [], 0
    for key, value, at, watermark in arrivals(timeline):
        windows = assigner.assign_windows(value, at, None)
        for window in windows:
            place = on_time if watermark < window.max_timestamp() else within
            if watermark < window.max_timestamp() + lateness:
                place.setdefault((key, window), []).append(value)
        if at + lateness <= watermark and all(w.max_timestamp() + lateness <= watermark for w in windows):
            dropped += 1
    for key, window in on_time.keys() | within.keys():
        first, more = on_time.get((key, window), []), within.get((key, window), [])
        expected += [(key, window, first)] if first else []
        expected += [(key, window, first + more[: n + 1]) for n in range(len(more))]
    h = play(spec_of(assigner, allowed_lateness_ms=lateness), timeline)
    assert sorted(h.output) == sorted(expected)
    assert h.context.metrics.counter("numLateRecordsDropped").get_count() == dropped
    assert all(at == result[1].max_timestamp() for result, at in h.output_with_timestamps)


@given(st.one_of(tumbling, sliding), timeline, contents, st.booleans(), st.booleans())
def test_the_aligned_logic_equals_the_general_one(assigner, timeline, kind, side, purging):
    options = {
        "late_tag": "late" if side else None,
        "trigger": PurgingTrigger(EventTimeTrigger()) if purging else None,
    }
    fast, general = spec_of(assigner, kind, **options), spec_of(assigner, kind, **options, general=True)
    assert (fast.strategy, general.strategy) == (Strategy.ALIGNED, Strategy.GENERAL)
    assert observed(play(fast, timeline)) == observed(play(general, timeline))


@given(st.integers(1, 8), timeline, contents, st.booleans())
def test_the_session_logic_equals_the_general_one(gap, timeline, kind, dynamic):
    assigner = (
        EventTimeSessionWindows.with_dynamic_gap(lambda value: 1 + value[1] % gap)
        if dynamic
        else EventTimeSessionWindows.with_gap(gap)
    )
    fast = spec_of(assigner, kind, late_tag="late")
    general = spec_of(assigner, kind, late_tag="late", general=True)
    assert (fast.strategy, general.strategy) == (Strategy.SESSIONS, Strategy.GENERAL)
    assert observed(play(fast, timeline), ordered=False) == observed(play(general, timeline), ordered=False)


@given(st.integers(1, 8), st.lists(block, max_size=8), st.booleans(), st.integers(0, 20))
def test_s37_s42_sessions_are_the_runs_without_a_gap(gap, blocks, general, lateness):
    """No watermark comes before the end, so nothing is late and the order of arrival does not matter."""
    expected = []
    for key in KEYS:
        run = []
        for at, value in sorted((at, value) for of, value, at, _ in arrivals(blocks) if of == key):
            if run and at > run[-1][0] + gap:
                expected.append((key, run[0][0], run[-1][0] + gap, sorted(v for _, v in run)))
                run = []
            run.append((at, value))
        if run:
            expected.append((key, run[0][0], run[-1][0] + gap, sorted(v for _, v in run)))
    assigner = EventTimeSessionWindows.with_gap(gap)
    for kind in ("apply", "aggregate with function"):
        h = play(spec_of(assigner, kind, general=general, allowed_lateness_ms=lateness), blocks)
        found = [(k, w.start, w.end, sorted(e if kind == "apply" else e[0])) for k, w, e in h.output]
        assert sorted(found) == sorted(expected)


@given(st.integers(1, 5), st.integers(1, 5), st.lists(block, max_size=8), contents, st.booleans())
def test_the_count_logics_equal_the_general_one(size, slide, blocks, kind, numbered):
    tumbling = {
        "assigner": CountTumblingWindowAssigner.of(size) if numbered else GlobalWindows.create(),
        "trigger": PurgingTrigger.of(CountTrigger.of(size)),
    }
    sliding = {
        "assigner": GlobalWindows.create(),
        "trigger": CountTrigger.of(slide),
        "evictor": CountEvictor.of(size),
    }
    for options in (tumbling, sliding):
        fast, general = spec_of(kind=kind, **options), spec_of(kind=kind, **options, general=True)
        assert (fast.strategy, general.strategy) == (Strategy.COUNTS, Strategy.GENERAL)
        assert observed(play(fast, blocks)) == observed(play(general, blocks))


@given(
    st.lists(st.tuples(block, st.integers(0, 9)), max_size=10),
    st.tuples(st.integers(1, 15), st.integers(1, 8)),
    st.booleans(),
    contents,
)
def test_processing_time_windows_equal_the_general_ones(blocks, sizes, slides, kind):
    size, slide = sizes
    assigner = SlidingProcessingTimeWindows(size, slide) if slides else TumblingProcessingTimeWindows(size)
    seen = []
    for general in (False, True):
        h = OperatorHarness(spec_of(assigner, kind, general=general), keyed=True, now=1000)
        for values, wait in blocks:
            h.feed_block(values)
            h.processing_time(h.now + wait)
        h.processing_time(h.now + 100)
        seen.append(h.output_with_timestamps)
    assert seen[0] == seen[1]


MAKE = {
    "tumbling": lambda: spec_of(TumblingEventTimeWindows.of(10)),
    "sliding": lambda: spec_of(SlidingEventTimeWindows.of(10, 4), "aggregate"),
    "sessions": lambda: spec_of(EventTimeSessionWindows.with_gap(6)),
    "general": lambda: spec_of(TumblingEventTimeWindows.of(10), allowed_lateness_ms=5),
    "general sessions": lambda: spec_of(EventTimeSessionWindows.with_gap(6), allowed_lateness_ms=5),
    "counts": lambda: spec_of(GlobalWindows.create(), trigger=PurgingTrigger(CountTrigger(3))),
    "numbered counts": lambda: spec_of(CountTumblingWindowAssigner.of(3)),
    "sliding counts": lambda: spec_of(GlobalWindows.create(), trigger=CountTrigger(2), evictor=CountEvictor(3)),
}


@pytest.mark.parametrize("name", MAKE)
@settings(max_examples=20, deadline=None)
@given(before=timeline, after=timeline, general=st.booleans())
def test_a_window_goes_on_after_a_snapshot_at_another_parallelism(name, before, after, general):
    """And where its contents have to be keyed state from then on."""
    whole = play(MAKE[name](), before + after)
    first = play(MAKE[name](), before, end=False)
    snapshot = first.snapshot()
    watermark = max((event for event in before if isinstance(event, int)), default=None)
    done = len(list(arrivals(before)))
    second = []
    for subtask in range(2):
        spec = in_keyed_state(MAKE[name]()) if general else MAKE[name]()
        h = OperatorHarness.restored(spec, snapshot, keyed=True, subtask=subtask, parallelism=2)
        if watermark is not None:
            h.watermark(watermark)
        number = done
        for event in after:
            if isinstance(event, int):
                watermark = event if watermark is None else max(watermark, event)
                h.watermark(watermark)
                continue
            mine = []
            for key, at in event:
                if subtask_of(key_group_of(key, 128), 128, 2) == subtask:
                    mine.append(((key, number), at))
                number += 1
            if mine:
                h.feed_block([value for value, _ in mine], [at for _, at in mine])
        h.end_input()
        watermark = max((event for event in before if isinstance(event, int)), default=None)
        second += h.output_with_timestamps
    assert sorted(map(repr, first.output_with_timestamps + second)) == sorted(map(repr, whole.output_with_timestamps))


@pytest.mark.parametrize("name", MAKE)
def test_a_subtask_takes_over_from_several(name):
    blocks = [[(key, 1) for key in "aegaegaaeeggg"]]
    whole = play(MAKE[name](), blocks)
    snapshots, output = [], []
    for subtask in range(2):
        mine = [
            value for _, value, *_ in arrivals(blocks) if subtask_of(key_group_of(value[0], 128), 128, 2) == subtask
        ]
        h = OperatorHarness(MAKE[name](), keyed=True, subtask=subtask, parallelism=2)
        h.feed_block(mine, [1] * len(mine))
        snapshots.append(h.snapshot())
        output += h.output
    h = OperatorHarness.restored(MAKE[name](), *snapshots, keyed=True)
    h.end_input()
    assert sorted(map(repr, output + h.output)) == sorted(map(repr, whole.output))
