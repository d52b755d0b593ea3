"""Programs that join streams, and that ask somebody else about each record."""

import asyncio

from funken import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    EventTimeSessionWindows,
    OutputTag,
    ProcessFunction,
    ProcessJoinFunction,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    async_retry_predicates,
    blocking,
    cached,
)
from tests.flows.programs.catalogue import in_order, in_order_per_key, numbers, program
from tests.support.functions import timed

LEFT = [("abcd"[n % 4], n, 0) for n in range(200)]
RIGHT = [("abcd"[n % 3], n, 1) for n in range(200)]
PAIRS = [(a, b) for a in LEFT for b in RIGHT if a[0] == b[0]]


def both(env):
    """Two streams whose watermarks say next to nothing before the end, so that any order of arrival is in time."""
    return timed(env, LEFT, 1000), timed(env, RIGHT, 1000)


def key_of(record):
    return record[0]


# ---- joins


@program([(a, b) for a, b in PAIRS if a[1] // 20 == b[1] // 20])
def a_window_join(env):
    left, right = both(env)
    joined = left.join(right).where(key_of).equal_to(key_of).window(TumblingEventTimeWindows.of(20))
    return joined.apply(lambda a, b: (a, b))


@program(
    [(s, a, b) for a, b in PAIRS for s in range(-10, 200, 10) if s <= min(a[1], b[1]) and max(a[1], b[1]) < s + 20]
)
def a_join_in_sliding_windows(env):
    left, right = both(env)
    joined = left.join(right).where(key_of).equal_to(key_of).window(SlidingEventTimeWindows.of(20, 10))
    return joined.apply(lambda a, b: (a, b)).process(StartOfWindow())


class StartOfWindow(ProcessFunction):
    """Says which window a pair came from: its timestamp is the last instant of it."""

    def process_element(self, value, ctx):
        yield ctx.timestamp() - 19, *value


def groups():
    keys = {(key_of(r), r[1] // 20) for r in LEFT + RIGHT}
    side = lambda records, group: tuple(sorted(r for r in records if (r[0], r[1] // 20) == group))  # noqa: E731
    return [(side(LEFT, group), side(RIGHT, group)) for group in keys]


@program(groups())
def a_co_group_sees_every_key_of_either_side(env):
    left, right = both(env)
    grouped = left.co_group(right).where(key_of).equal_to(key_of).window(TumblingEventTimeWindows.of(20))
    return grouped.apply(lambda first, second: [(tuple(sorted(first)), tuple(sorted(second)))])


@program([("x", ("x", 1), ("x", 3)), ("x", ("x", 2), ("x", 3)), ("x", ("x", 50), ("x", 52))])
def a_join_in_sessions(env):
    left = timed(env, [("x", 1), ("x", 2), ("x", 50), ("y", 3)])
    right = timed(env, [("x", 3), ("x", 52), ("y", 70)])
    joined = left.join(right).where(key_of).equal_to(key_of).window(EventTimeSessionWindows.with_gap(5))
    return joined.apply(lambda a, b: (a[0], a, b))


class Near(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left, right, ctx.get_left_timestamp(), ctx.get_right_timestamp()


@program([(a, b, a[1], b[1]) for a, b in PAIRS if -3 <= b[1] - a[1] < 5])
def an_interval_join(env):
    left, right = both(env)
    near = left.key_by(key_of).interval_join(right.key_by(key_of)).between(-3, 5).upper_bound_exclusive()
    return near.process(Near())


@program([("late", ("a", 1)), ("late", ("a", 2))])
def late_records_of_an_interval_join_go_to_their_side_output(env):
    """The other side is over from the start as far as its watermark goes; this one's last two records are behind."""
    late = OutputTag("late")
    left = in_order(env, [("a", 100), ("a", 1), ("a", 2)], lambda r: r[1]).key_by(key_of)
    joined = left.interval_join(left).between(-5, -1).side_output_left_late_data(late).process(Near())
    return joined.map(lambda pair: ("pair", pair)).union(joined.get_side_output(late).map(lambda r: ("late", r)))


# ---- asking somebody else


async def jitter(record):
    await asyncio.sleep(hash(record) % 5 / 2000)
    return [record]


@program([("all", n) for n in range(200)], in_order_per_key)
def ordered_requests_keep_the_order(env):
    stream = env.from_collection([("all", n) for n in range(200)])
    return AsyncDataStream.ordered_wait(stream, jitter, "20 s", 20).set_parallelism(1)


@program([*range(1, 201)])
def unordered_requests_lose_nothing(env):
    return AsyncDataStream.unordered_wait(numbers(env, 1, 200), jitter, "20 s", 20)


@program(
    [("join", a, b) for a, b in PAIRS if a[1] // 20 == b[1] // 20]
    + [("near", a, b) for a, b in PAIRS if -3 <= b[1] - a[1] <= 5]
)
def joins_behind_asynchronous_functions(env):
    """Records change order on their way; no watermark overtakes one."""
    left, right = both(env)
    one = AsyncDataStream.unordered_wait(left, jitter, "20 s", 20)
    two = AsyncDataStream.ordered_wait(right, cached(jitter, "1 s"), "20 s", 20)
    window = TumblingEventTimeWindows.of(20)
    joined = one.join(two).where(key_of).equal_to(key_of).window(window).apply(lambda a, b: ("join", a, b))
    near = one.key_by(key_of).interval_join(two.key_by(key_of)).between(-3, 5)
    return joined.union(near.process(lambda a, b, ctx: [("near", a, b)]))


class SecondTime(AsyncFunction):
    """Gives nothing the first time it is asked."""

    def open(self, runtime_context):
        self.asked = set()

    async def async_invoke(self, value):
        if value in self.asked:
            return [value, -value]
        self.asked.add(value)
        return []


@program([n for number in range(1, 31) for n in (number, -number)])
def requests_are_repeated(env):
    again = AsyncRetryStrategy.fixed_delay(3, 1, async_retry_predicates.empty_result_predicate)
    return AsyncDataStream.unordered_wait_with_retry(numbers(env, 1, 30), SecondTime(), "20 s", again, 10)


@program([n * n for n in range(1, 101)])
def functions_that_block_run_in_threads(env):
    return AsyncDataStream.unordered_wait(numbers(env, 1, 100), blocking(lambda n: [n * n], threads=4), "20 s", 10)
