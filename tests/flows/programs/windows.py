"""Programs with event time: windows of every kind, with triggers and evictors, and what comes late."""

from collections import Counter

from funken import (
    AggregateFunction,
    AllWindowFunction,
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    DeltaEvictor,
    DeltaTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    NumberSequenceSource,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WindowFunction,
)
from tests.flows.programs.catalogue import MONOTONOUS, clock, in_order, in_order_per_key, program
from tests.support.functions import Sum

LAST = 999


def thirds(env):
    """The numbers 0 to 999 at as many ms, keyed by the remainder of 3."""
    return clock(env, LAST).key_by(lambda number: number % 3)


def contents(size, slide):
    """Oracle: the numbers of each key and window."""
    found = {}
    for number in range(LAST + 1):
        newest = number - number % slide
        for start in range(newest, number - size, -slide):
            found.setdefault((number % 3, start), []).append(number)
    return found


def add(a, b):
    return a + b


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, tuple(sorted(elements))


class Ends(WindowFunction):
    def apply(self, key, window, inputs):
        yield key, window.start, tuple(sorted(inputs))


def named(name):
    return lambda key, window, results: [(name, key, window.start, *results)]


def tumbling_and_sliding():
    expected = []
    for kind, slide in (("tumbling", 10), ("sliding", 4)):
        for (key, start), inside in contents(10, slide).items():
            expected += [(kind, how, key, start, sum(inside)) for how in ("reduce", "aggregate")]
            expected += [(kind, how, key, start, tuple(inside)) for how in ("apply", "process")]
    return Counter(expected)


@program(tumbling_and_sliding)
def tumbling_and_sliding_windows_computed_in_four_ways(env):
    stream, made = thirds(env), []
    for kind, assigner in (
        ("tumbling", TumblingEventTimeWindows.of(10)),
        ("sliding", SlidingEventTimeWindows.of(10, 4)),
    ):
        windowed = stream.window(assigner)
        made += [
            windowed.reduce(add, named("reduce")).map(lambda r, kind=kind: (kind, *r)),
            windowed.aggregate(Sum(), named("aggregate")).map(lambda r, kind=kind: (kind, *r)),
            windowed.apply(Ends()).map(lambda r, kind=kind: (kind, "apply", *r)),
            windowed.process(Contents()).map(lambda r, kind=kind: (kind, "process", *r)),
        ]
    return made[0].union(*made[1:])


@program([(start - 7, sum(range(max(0, start - 7), min(1000, start + 93)))) for start in range(0, 1007, 100)])
def windows_with_an_offset(env):
    windowed = clock(env, LAST).key_by(lambda _: "all").window(TumblingEventTimeWindows.of(100, 93))
    return windowed.reduce(add, lambda key, window, sums: [(window.start, *sums)])


class Whole(AllWindowFunction):
    def apply(self, window, inputs):
        yield "apply", window.start, sum(inputs)


class WholeProcess(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield "process", context.window().start, sum(elements)


@program([(how, s, sum(range(s, s + 100))) for how in ("reduce", "apply", "process") for s in range(0, 1000, 100)])
def windows_over_the_whole_stream(env):
    windowed = clock(env, LAST).window_all(TumblingEventTimeWindows.of(100))
    reduced = windowed.reduce(add, lambda window, sums: [("reduce", window.start, *sums)])
    return reduced.union(windowed.apply(Whole()), windowed.process(WholeProcess()))


@program([(start, 100) for start in range(0, 1000, 100)])
def the_second_assigner_overrides_the_first(env):
    """The first one's watermarks would make every record late for the second's timestamps."""
    ahead = MONOTONOUS.with_timestamp_assigner(lambda number, _: number + 1_000_000)
    again = clock(env, LAST).assign_timestamps_and_watermarks(ahead).assign_timestamps_and_watermarks(MONOTONOUS)
    hundreds = again.key_by(lambda _: "all").window(TumblingEventTimeWindows.of(100))
    return hundreds.apply(lambda key, window, values: [(window.start, len(list(values)))])


@program([sum(range(start, start + 100)) for start in range(0, 1000, 100)])
def a_window_of_windows(env):
    """Results carry the last instant of their window, so they fall into the next larger one."""
    small = thirds(env).window(TumblingEventTimeWindows.of(10)).reduce(add)
    return small.key_by(lambda _: "all").window(TumblingEventTimeWindows.of(100)).reduce(add)


def folded():
    """Oracle: 12,000 numbers at four to the millisecond, in windows of 600 ms that begin every 200."""
    found = {}
    for number in range(12_000):
        newest = number // 4 // 200 * 200
        for start in range(newest, newest - 600, -200):
            key = f"user {number % 7}", start
            count, least, total = found.get(key, (0, number, 0))
            found[key] = count + 1, min(least, number), total + number
    return Counter((*key, *result) for key, result in found.items())


class Statistics(AggregateFunction):
    def create_accumulator(self):
        return 0, 10**9, 0

    def add(self, value, accumulator):
        count, least, total = accumulator
        return count + 1, min(least, value[1]), total + value[2]

    def get_result(self, accumulator):
        return accumulator


@program(folded)
def sliding_windows_of_what_is_folded_before_the_exchange(env):
    strategy = MONOTONOUS.with_timestamp_assigner(lambda number, _: number // 4)
    numbers = env.from_source(NumberSequenceSource(0, 11_999), strategy, "numbers")
    keyed = numbers.map(lambda number: (f"user {number % 7}", number, number)).key_by(lambda record: record[0])
    windows = keyed.window(SlidingEventTimeWindows.of(600, 200))
    return windows.aggregate(Statistics(), lambda key, window, found: [(key, window.start, *found[0])])


# ---- sessions


def bursts(env):
    """Runs of records with gaps of 5 ms inside and 30 ms between; a key has every third run."""
    return clock(env, LAST).filter(lambda n: n % 50 <= 20 and n % 5 == 0).key_by(lambda n: n // 50 % 3)


def runs():
    return [(n // 50 % 3, n, n + 20, n + 5, n + 10, n + 15) for n in range(0, LAST + 1, 50)]


@program(lambda: Counter((run[0], run[1], run[2] + 8, sum(run[1:])) for run in runs()))
def sessions_with_a_fixed_gap(env):
    windowed = bursts(env).window(EventTimeSessionWindows.with_gap(8))
    return windowed.reduce(add, lambda key, window, sums: [(key, window.start, window.end, *sums)])


@program(lambda: Counter((run[0], run[1], tuple(sorted(run[1:]))) for run in runs()))
def sessions_with_a_gap_of_the_record(env):
    gap = DynamicEventTimeSessionWindows.with_dynamic_gap(lambda number: 6 + number % 2)
    return bursts(env).window(gap).process(Contents())


@program(
    [("merged", "a", 0, 18, 3), ("late", "a", 3), ("merged", "a", 40, 50, 1), ("merged", "b", 5, 15, 1)],
)
def sessions_merge_and_leave_what_is_late(env):
    """4 falls between 0 and 8; when 3 comes, their session is over and forgotten; b has one of its own."""
    late = OutputTag("late")
    records = [("a", 0), ("a", 8), ("a", 4), ("b", 5), ("a", 40), ("a", 3)]
    keyed = in_order(env, records, lambda r: r[1]).key_by(lambda r: r[0])
    windowed = keyed.window(EventTimeSessionWindows.with_gap(10)).allowed_lateness(10).side_output_late_data(late)
    sessions = windowed.apply(lambda key, window, rs: [("merged", key, window.start, window.end, len(list(rs)))])
    return sessions.union(sessions.get_side_output(late).map(lambda r: ("late", *r)))


# ---- late records


@program([("sum", 6), ("sum", 52), ("late", 3), ("late", 12)])
def late_records_go_to_their_side_output(env):
    late = OutputTag("late")
    stream = in_order(env, [1, 5, 25, 3, 12, 27]).key_by(lambda _: 0)
    sums = stream.window(TumblingEventTimeWindows.of(10)).side_output_late_data(late).reduce(add)
    return sums.map(lambda total: ("sum", total)).union(sums.get_side_output(late).map(lambda n: ("late", n)))


@program([("all", 0, 6), ("all", 0, 9), ("all", 10, 18), ("all", 20, 25)], in_order_per_key)
def within_allowed_lateness_a_window_fires_again(env):
    stream = in_order(env, [1, 5, 18, 3, 25, 2]).key_by(lambda _: "all")
    windowed = stream.window(TumblingEventTimeWindows.of(10)).allowed_lateness(15)
    return windowed.reduce(add, lambda key, window, sums: [(key, window.start, *sums)])


# ---- windows of counts, triggers, evictors


@program([1, 5, 9])
def count_windows_drop_a_short_tail(env):
    return env.from_collection(range(7)).key_by(lambda _: 0).count_window(2).reduce(add)


@program([(0, 1), (0, 6), (0, 12), (0, 18)], in_order_per_key)
def sliding_count_windows(env):
    counted = env.from_collection(range(8)).key_by(lambda _: 0).count_window(3, 2)
    return counted.apply(lambda key, window, values: [(key, sum(values))])


@program([("tumbling", 3), ("tumbling", 12), ("sliding", 3), ("sliding", 9), ("sliding", 15)])
def count_windows_of_the_whole_stream(env):
    stream = env.from_collection(range(7))
    tumbling = stream.window_all(CountTumblingWindowAssigner.of(3)).reduce(add)
    sliding = stream.window_all(CountSlidingWindowAssigner.of(3, 2)).reduce(add)
    return tumbling.map(lambda n: ("tumbling", n)).union(sliding.map(lambda n: ("sliding", n)))


@program([(k, total) for k in range(3) for total in (3 * k + 9, 3 * k + 36, 3 * k + 63)], in_order_per_key)
def global_windows_with_a_purging_count_trigger(env):
    stream = env.from_collection(range(30)).key_by(lambda number: number % 3)
    windowed = stream.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(3)))
    return windowed.apply(lambda key, window, values: [(key, sum(values))])


@program([("all", 3), ("all", 6), ("all", 9)], in_order_per_key)
def a_count_trigger_keeps_what_the_window_has(env):
    stream = in_order(env, range(10)).key_by(lambda _: "all")
    windowed = stream.window(TumblingEventTimeWindows.of(100)).trigger(CountTrigger.of(3))
    return windowed.apply(lambda key, window, values: [(key, len(list(values)))])


@program([("all", 11), ("all", 21), ("all", 30), ("all", 30)], in_order_per_key)
def a_continuous_trigger_fires_within_the_window(env):
    stream = in_order(env, range(30)).key_by(lambda _: "all")
    windowed = stream.window(TumblingEventTimeWindows.of(40)).trigger(ContinuousEventTimeTrigger.of(10))
    return windowed.apply(lambda key, window, values: [(key, len(list(values)))])


@program([("all", (0, 1, 2, 3, 4, 15)), ("all", (0, 1, 2, 3, 4, 15, 16, 17, 30))], in_order_per_key)
def a_delta_trigger_fires_at_a_jump(env):
    stream = in_order(env, [0, 1, 2, 3, 4, 15, 16, 17, 30]).key_by(lambda _: "all")
    windowed = stream.window(GlobalWindows.create()).trigger(DeltaTrigger.of(10, lambda last, new: new - last))
    return windowed.apply(lambda key, window, values: [(key, tuple(values))])


@program([("count", (17, 18, 19)), ("time", (15, 16, 17, 18, 19)), ("delta", (12, 13, 14, 15, 16, 17, 18, 19))])
def evictors(env):
    stream = in_order(env, range(20)).key_by(lambda _: "all").window(TumblingEventTimeWindows.of(20))
    made = {
        "count": stream.evictor(CountEvictor.of(3)),
        "time": stream.evictor(TimeEvictor.of(5)),
        "delta": stream.evictor(DeltaEvictor.of(8, lambda element, last: last - element)),
    }
    streams = [
        windowed.apply(lambda key, window, values, name=name: [(name, tuple(values))])
        for name, windowed in made.items()
    ]
    return streams[0].union(*streams[1:])


class Numbered(ProcessWindowFunction):
    """Counts the firings of a window, and the windows of a key."""

    here, all = ValueStateDescriptor("here", default=0), ValueStateDescriptor("all", default=0)

    def process(self, key, context, elements):
        here, all_of = context.window_state().get_state(self.here), context.global_state().get_state(self.all)
        here.update(here.value() + 1)
        all_of.update(all_of.value() + 1)
        yield key, context.window().start, len(list(elements)), here.value(), all_of.value()

    def clear(self, context):
        context.window_state().get_state(self.here).clear()


@program([("all", 0, 2, 1, 1), ("all", 0, 4, 2, 2), ("all", 5, 2, 1, 3), ("all", 5, 4, 2, 4)], in_order_per_key)
def state_of_a_window_and_of_its_key(env):
    stream = in_order(env, range(10)).key_by(lambda _: "all")
    windowed = stream.window(TumblingEventTimeWindows.of(5)).trigger(CountTrigger.of(2))
    return windowed.process(Numbered())
