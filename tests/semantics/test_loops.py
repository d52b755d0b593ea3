"""Random programs with loops against an oracle of ten lines: whatever the parallelism and the ways, the same records come out."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from funken import (
    MAX_WATERMARK,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from tests.support.streams import collected

SPREAD = {
    "as it is": lambda stream: stream,
    "rebalance": lambda stream: stream.rebalance(),
    "shuffle": lambda stream: stream.shuffle(),
    "global": lambda stream: stream.global_(),
    "key": lambda stream: stream.key_by(lambda record: record[0] % 5),
}
WIDTHS = st.sampled_from([1, 2, 4])
COUNT = ValueStateDescriptor("count", default=0)


class Visits(KeyedProcessFunction):
    """Numbers the records of a key, which is the remainder of their value."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        yield ctx.get_current_key(), self.count.value()


def stepped(record, branches):
    """What becomes of a record: values that have some way to go still."""
    value, left = record
    return [((value * factor + more) % 101, left - cost) for factor, more, cost in branches]


def oracle(records, branches):
    """What comes out of the loop, and how often the records of a remainder were in it."""
    out, visits, left = Counter(), Counter(), list(records)
    while left:
        record = left.pop()
        visits[record[0] % 3] += 1
        for each in stepped(record, branches):
            if each[1] > 0:
                left.append(each)
            else:
                out[each] += 1
    return out, visits


@settings(max_examples=40)
@given(
    records=st.lists(st.tuples(st.integers(0, 100), st.integers(1, 5)), max_size=30),
    branches=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(1, 3)), min_size=1, max_size=3),
    ways=st.tuples(*[st.sampled_from(sorted(SPREAD))] * 3),
    widths=st.tuples(*[WIDTHS] * 4),
    block=st.sampled_from([1, 3, 2000]),
    interval=st.sampled_from([None, 1, 3, 10]),
)
def test_a_loop_gives_what_its_oracle_gives(records, branches, ways, widths, block, interval):
    env = StreamExecutionEnvironment.create_local_environment(widths[0])
    if interval is not None:
        env.enable_checkpointing(f"{interval} ms")
    env.get_configuration().set("execution.block.records", block)
    loop = SPREAD[ways[0]](env.from_collection(records)).iterate().set_parallelism(widths[1])
    made = SPREAD[ways[1]](loop).flat_map(lambda record: stepped(record, branches)).set_parallelism(widths[2])
    loop.close_with(SPREAD[ways[2]](made.filter(lambda record: record[1] > 0).set_parallelism(widths[3])))
    visits = loop.key_by(lambda record: record[0] % 3).process(Visits()).map(lambda pair: ("visit", *pair))
    out = made.filter(lambda record: record[1] <= 0).map(lambda record: ("out", *record))

    expected, visited = oracle(records, branches)
    found = Counter(collected(out.union(visits)))

    assert Counter({each: n for each, n in found.items() if each[0] == "out"}) == Counter(
        {("out", *each): n for each, n in expected.items()}
    )
    assert {each for each in found if each[0] == "visit"} == {
        ("visit", key, n) for key, count in visited.items() for n in range(1, count + 1)
    }


@settings(max_examples=15)
@given(
    records=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 3), st.integers(1, 3)), max_size=20),
    widths=st.tuples(*[WIDTHS] * 4),
)
def test_a_loop_in_a_loop_gives_what_its_oracle_gives(records, widths):
    """Each round of the outer loop the inner one counts down anew; each record was in the inner one so many times."""
    env = StreamExecutionEnvironment.create_local_environment(widths[0])
    outer = env.from_collection([(*record, record[2]) for record in records]).iterate().set_parallelism(widths[1])
    inner = outer.rebalance().iterate().set_parallelism(widths[2])
    less = inner.map(lambda r: (r[0], r[1], r[2], r[3] - 1)).set_parallelism(widths[3])
    inner.close_with(less.filter(lambda r: r[3] > 0))
    done = less.filter(lambda r: r[3] <= 0).map(lambda r: (r[0], r[1] - 1, r[2], r[2]))
    outer.close_with(done.filter(lambda r: r[1] > 0).rebalance())
    visits = less.key_by(lambda r: r[0] % 3).process(Visits())

    found = Counter(collected(visits.map(lambda v: ("visit", *v)).union(done.filter(lambda r: r[1] <= 0))))
    total = Counter()
    for value, rounds, steps in records:
        total[value % 3] += max(rounds, 1) * steps
    assert {each for each in found if each[0] == "visit"} == {
        ("visit", key, n) for key, count in total.items() for n in range(1, count + 1)
    }
    assert sum(n for each, n in found.items() if each[0] != "visit") == len(records)


@settings(max_examples=15)
@given(
    one=st.lists(st.integers(0, 30), max_size=15),
    two=st.lists(st.integers(0, 30), max_size=15),
    widths=st.tuples(*[WIDTHS] * 4),
)
def test_loops_that_share_their_body_end_together(one, two, widths):
    """What is even goes back to the one head, what is odd to the other, each time less by one to three."""
    env = StreamExecutionEnvironment.create_local_environment(widths[0])
    first = env.from_collection(one).iterate().set_parallelism(widths[1])
    second = env.from_collection(two).rebalance().iterate().set_parallelism(widths[2])
    less = first.union(second).map(lambda n: n - 1 - n % 3).set_parallelism(widths[3])
    first.close_with(less.filter(lambda n: n > 0 and n % 2 == 0))
    second.close_with(less.filter(lambda n: n > 0 and n % 2).key_by(lambda n: n))

    def last(n):
        n -= 1 + n % 3
        return last(n) if n > 0 else n

    assert Counter(collected(less.filter(lambda n: n <= 0))) == Counter(map(last, one + two))


# ---- time


def timed(env, records):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r[1])
    return env.from_collection(records).assign_timestamps_and_watermarks(strategy)


def test_the_watermark_in_a_loop_is_that_of_its_inputs_and_ends_when_nothing_goes_round():
    """What goes round for long is not held against event time, and is late for its windows if these have passed."""
    env = StreamExecutionEnvironment.create_local_environment(1)
    loop = timed(env, [(3, 10), (1, 25)]).iterate()
    less = loop.map(lambda record: (record[0] - 1, record[1]))
    loop.close_with(less.filter(lambda record: record[0] > 0))
    ends = less.process(lambda record, ctx: [(record[0], ctx.timer_service().current_watermark() == MAX_WATERMARK)])
    assert sorted(collected(ends)) == [(0, False), (0, False), (1, False), (2, False)]


class Once(KeyedProcessFunction):
    """At the end of event time it emits the sum, which may go round."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(COUNT)

    def process_element(self, value, ctx):
        if value[0] == "sum":
            yield "came back", value[1], ctx.timer_service().current_watermark() == MAX_WATERMARK
            return
        self.sum.update(self.sum.value() + value[0])
        ctx.timer_service().register_event_time_timer(MAX_WATERMARK - 1)

    def on_timer(self, timestamp, ctx):
        yield "sum", self.sum.value(), 0


def test_what_the_end_of_event_time_emits_goes_round_too():
    for parallelism in (1, 2):
        env = StreamExecutionEnvironment.create_local_environment(parallelism)
        loop = timed(env, [(3, 10), (4, 25)]).iterate()
        summed = loop.key_by(lambda record: 0).process(Once())
        loop.close_with(summed.filter(lambda record: record[0] == "sum"))
        assert collected(summed.filter(lambda record: record[0] != "sum")) == [("came back", 7, True)]


def test_windows_behind_a_loop_hold_what_came_out_of_it():
    env = StreamExecutionEnvironment.create_local_environment(2)
    loop = timed(env, [(n % 4, n) for n in range(100)]).iterate()
    less = loop.map(lambda record: (record[0] - 1, record[1]))
    loop.close_with(less.filter(lambda record: record[0] > 0))
    ones = less.filter(lambda record: record[0] <= 0).map(lambda record: 1)
    windows = ones.key_by(lambda one: 0).window(TumblingEventTimeWindows.of(1000)).reduce(lambda a, b: a + b)
    assert collected(windows) == [100]


class CountsBeside(KeyedCoProcessFunction):
    """What goes round is counted down; the other input puts records into the loop."""

    def process_element1(self, value, ctx):
        yield value - 1

    def process_element2(self, value, ctx):
        yield value


def test_a_loop_ends_only_when_inputs_in_the_middle_of_it_have():
    env = StreamExecutionEnvironment.create_local_environment(2)
    loop = env.from_collection([2]).iterate()
    late = env.from_collection(range(50)).map(lambda n: n % 5)
    both = loop.connect(late).key_by(lambda n: 0, lambda n: 0).process(CountsBeside())
    loop.close_with(both.filter(lambda n: n > 0))
    assert Counter(collected(both.filter(lambda n: n <= 0))) == Counter({0: 51})


class Farewell(KeyedProcessFunction):
    """Waits with a timer of processing time that nobody lets come."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 3_600_000)
        yield "seen"

    def on_timer(self, timestamp, ctx):
        yield "never"


def test_a_loop_does_not_wait_for_timers_of_processing_time():
    env = StreamExecutionEnvironment.create_local_environment(1)
    loop = env.from_collection(["go"]).iterate()
    seen = loop.key_by(lambda word: word).process(Farewell())
    loop.close_with(seen.filter(lambda word: word == "never"))
    assert collected(seen) == ["seen"]
