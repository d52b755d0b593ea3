"""Joins and asynchronous functions in whole programs, run in this process."""

import asyncio
import threading
import time
from datetime import timedelta
from functools import partial
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    CoGroupFunction,
    FlatJoinFunction,
    JobExecutionError,
    JoinFunction,
    KeySelector,
    OutputTag,
    ProcessJoinFunction,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
    async_retry_predicates,
    blocking,
    cached,
)
from funken.errors import InvalidProgram
from funken.operators.async_io.retry import NO_RETRY_STRATEGY
from funken.testing import local
from funken.types import Types
from tests.support.functions import Delayed, timed
from tests.support.streams import collected

few = settings(max_examples=25, deadline=None)


def key_of(record):
    return record[0]


def delay_of(records):
    """How far a timestamp falls behind the highest before it: no record is late by a watermark that far behind."""
    highest, delay = -(2**63), 0
    for _, at, _ in records:
        delay = max(delay, highest - at)
        highest = max(highest, at)
    return delay


sides = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(-30, 60)), max_size=25).map(
    lambda pairs: [(key, at, number) for number, (key, at) in enumerate(pairs)]
)
parallelism = st.integers(1, 3)
windows = st.one_of(
    st.builds(TumblingEventTimeWindows, st.integers(1, 20)),
    st.builds(SlidingEventTimeWindows, st.integers(1, 15), st.integers(1, 10)),
)


# ---- window joins


def groups_of(assigner, left, right):
    groups = {}
    for side, records in enumerate((left, right)):
        for record in records:
            for window in assigner.assign_windows(record, record[1], None):
                groups.setdefault((record[0], window), ([], []))[side].append(record)
    return groups


@few
@given(sides, sides, windows, parallelism)
def test_a_window_join_gives_the_pairs_of_each_key_and_window_at_any_parallelism(left, right, assigner, width):
    env = StreamExecutionEnvironment.create_local_environment(width)
    one, two = timed(env, left, delay_of(left)), timed(env, right, delay_of(right))
    joined = one.join(two).where(key_of).equal_to(key_of).window(assigner).apply(lambda a, b: (a, b))
    expected = [pair for both in groups_of(assigner, left, right).values() for pair in product(*both)]
    assert sorted(collected(joined)) == sorted(expected)


@few
@given(sides, sides, windows, parallelism)
def test_a_co_group_gives_each_key_and_window_once_at_any_parallelism(left, right, assigner, width):
    env = StreamExecutionEnvironment.create_local_environment(width)
    one, two = timed(env, left, delay_of(left)), timed(env, right, delay_of(right))
    grouped = one.co_group(two).where(key_of).equal_to(key_of).window(assigner).apply(lambda a, b: [(a, b)])
    found = [(sorted(first), sorted(second)) for first, second in collected(grouped)]
    assert sorted(found) == sorted((sorted(a), sorted(b)) for a, b in groups_of(assigner, left, right).values())


TEN = TumblingEventTimeWindows.of(10)
ONE, TWO = [("a", 1, 0), ("b", 2, 1), ("a", 11, 2)], [("a", 3, 0), ("a", 4, 1), ("c", 5, 2)]


def both(left=ONE, right=TWO, parallelism=1):
    env = StreamExecutionEnvironment.create_local_environment(parallelism)
    return timed(env, left), timed(env, right)


class Numbers(JoinFunction):
    def open(self, runtime_context):
        self.name = runtime_context.get_task_name()

    def join(self, first, second):
        return self.name, first[2], second[2]


class Twice(FlatJoinFunction):
    def join(self, first, second):
        if second[2]:
            yield first[2]
            yield first[2]


class First(KeySelector):
    def get_key(self, value):
        return value[0]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda left, right: (left[2], right[2]), [(0, 0), (0, 1)]),
        (Numbers(), [("join", 0, 0), ("join", 0, 1)]),
        (Twice(), [0, 0]),
    ],
)
def test_a_join_takes_a_function_a_join_function_or_a_flat_one(function, expected):
    one, two = both()
    assert collected(one.join(two).where(First()).equal_to(First()).window(TEN).apply(function)) == expected


def test_a_join_takes_a_function_that_yields():
    def pairs(left, right):
        yield left[2]
        yield right[2]

    one, two = both()
    assert collected(one.join(two).where(key_of).equal_to(key_of).window(TEN).apply(pairs)) == [0, 0, 0, 1]


def test_a_co_group_takes_an_object():
    class Sizes(CoGroupFunction):
        def co_group(self, first, second):
            yield len(first), len(second)

    one, two = both()
    grouped = one.co_group(two).where(key_of).equal_to(key_of).window(TEN).apply(Sizes())
    assert sorted(collected(grouped)) == [(0, 1), (1, 0), (1, 0), (1, 2)]


def test_results_of_a_join_are_in_the_next_window_of_the_same_size():
    one, two = both()
    joined = one.join(two).where(key_of).equal_to(key_of).window(TEN).apply(lambda a, b: 1)
    counted = joined.key_by(lambda _: 0).window(TEN).apply(lambda key, window, ones: [(window.start, sum(ones))])
    assert collected(counted) == [(0, 2)]


def test_a_stream_joins_itself_and_keyed_streams_join_by_the_new_key():
    one, _ = both()
    keyed = one.key_by(lambda record: record[2])
    joined = keyed.join(keyed).where(key_of).equal_to(key_of).window(TumblingEventTimeWindows.of(100))
    assert sorted(collected(joined.apply(lambda a, b: (a[2], b[2])))) == [(0, 0), (0, 2), (1, 1), (2, 0), (2, 2)]


def test_clauses_change_copies():
    one, two = both()
    base = one.join(two).where(key_of).equal_to(key_of).window(TEN)
    assert base.allowed_lateness(timedelta(seconds=1))._lateness == 1000
    assert base._lateness == 0
    with pytest.raises(InvalidProgram, match="must not be negative"):
        base.allowed_lateness(-1)


def test_joins_of_two_environments_are_refused():
    with pytest.raises(InvalidProgram, match="one environment"):
        local([1]).join(local([2]))


# ---- interval joins


@few
@given(sides, sides, st.tuples(st.integers(-20, 20), st.integers(-20, 20)).map(sorted), st.booleans(), parallelism)
def test_an_interval_join_gives_the_pairs_close_enough_at_any_parallelism(left, right, bounds, exclusive, width):
    env = StreamExecutionEnvironment.create_local_environment(width)
    one, two = timed(env, left, delay_of(left)), timed(env, right, delay_of(right))
    joined = one.key_by(key_of).interval_join(two.key_by(key_of)).between(*bounds)
    low, high = bounds
    if exclusive:
        joined = joined.lower_bound_exclusive().upper_bound_exclusive()
        low, high = low + 1, high - 1
    stream = joined.process(lambda a, b, ctx: [(a, b, ctx.get_timestamp())])
    expected = [
        (a, b, max(a[1], b[1])) for a in left for b in right if a[0] == b[0] and low <= b[1] - a[1] <= high
    ]  # fmt: skip
    assert sorted(collected(stream)) == sorted(expected)


def test_late_records_of_each_side_go_to_their_side_output():
    env = StreamExecutionEnvironment.create_local_environment(1)
    left = timed(env, [("a", 50, 0), ("a", 10, 1), ("a", 50, 2)]).key_by(key_of)
    right = timed(env, [("a", 50, 3), ("a", 20, 4), ("a", 50, 5)]).key_by(key_of)
    joined = (
        left.interval_join(right)
        .between(timedelta(milliseconds=-5), timedelta(milliseconds=5))
        .side_output_left_late_data(OutputTag("left"))
        .side_output_right_late_data(OutputTag("right"))
        .process(lambda a, b, ctx: [(a[2], b[2])])
    )
    tagged = joined.map(lambda pair: ("pair", pair)).union(
        joined.get_side_output(OutputTag("left")).map(lambda record: ("left", record[2])),
        joined.get_side_output(OutputTag("right")).map(lambda record: ("right", record[2])),
    )
    found = collected(tagged)
    assert sorted(value for kind, value in found if kind == "pair") == [(0, 3), (0, 5), (2, 3), (2, 5)]
    late = {item for item in found if item[0] != "pair"}
    assert late  # which of the two depends on which stream is read first: the one read first has nothing late
    assert late <= {("left", 1), ("right", 4)}


def test_an_interval_join_takes_an_object():
    class Pairs(ProcessJoinFunction):
        def process_element(self, left, right, ctx):
            yield left[2], right[2], ctx.get_left_timestamp(), ctx.get_right_timestamp()

    one, two = both()
    joined = one.key_by(key_of).interval_join(two.key_by(key_of)).between(0, 2).process(Pairs())
    assert collected(joined) == [(0, 0, 1, 3)]


def test_an_interval_join_needs_two_keyed_streams_and_bounds_in_order():
    one, two = both()
    with pytest.raises(TypeError, match="two keyed streams"):
        one.key_by(key_of).interval_join(two)
    with pytest.raises(InvalidProgram, match="lower bound <= upper bound"):
        one.key_by(key_of).interval_join(two.key_by(key_of)).between(1, 0)


def test_an_interval_join_needs_event_time():
    stream = local(["a"]).key_by(lambda word: word)
    with pytest.raises(JobExecutionError, match=r"interval_join.*Long\.MIN_VALUE timestamp"):
        collected(stream.interval_join(stream).between(0, 1).process(lambda a, b, ctx: [a]))


# ---- asynchronous functions


class Plus(AsyncFunction):
    """PyFlink's example: adds two fields, after a moment that differs."""

    async def async_invoke(self, value):
        await asyncio.sleep((6 - value[0]) / 1000)
        return [value[0] + value[1]]

    def timeout(self, value):
        return [value[0] - value[1]]


PAIRS = [(n, n) for n in range(1, 6)]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_s84_both_orders(width):
    env = StreamExecutionEnvironment.create_local_environment(width)
    pairs = env.from_collection(PAIRS)
    unordered = collected(AsyncDataStream.unordered_wait(pairs, Plus(), timedelta(seconds=5), 2))
    assert sorted(unordered) == [2, 4, 6, 8, 10]
    env = StreamExecutionEnvironment.create_local_environment(width)
    pairs = env.from_collection(PAIRS)
    ordered = AsyncDataStream.ordered_wait(pairs, Plus(), "5 s", 4)
    assert collected(ordered.set_parallelism(1)) == [2, 4, 6, 8, 10]


def test_s84_a_watermark_behind_each_record_makes_unordered_results_ordered():
    env = StreamExecutionEnvironment.create_local_environment(1)
    strategy = WatermarkStrategy.for_generator(partial(Delayed, 0)).with_timestamp_assigner(lambda r, _: r[1])
    pairs = env.from_collection(PAIRS).assign_timestamps_and_watermarks(strategy)
    assert collected(AsyncDataStream.unordered_wait(pairs, Plus(), 5000, 5)) == [2, 4, 6, 8, 10]


def test_s84_windows_behind_an_unordered_wait_lose_nothing():
    env = StreamExecutionEnvironment.create_local_environment(2)
    strategy = WatermarkStrategy.for_generator(partial(Delayed, 0)).with_timestamp_assigner(lambda n, _: n)
    numbers = env.from_collection(range(100)).assign_timestamps_and_watermarks(strategy)

    async def jitter(n):
        await asyncio.sleep(n * 7919 % 5 / 2000)
        return [n]

    waited = AsyncDataStream.unordered_wait(numbers, jitter, "5 s")
    counted = waited.key_by(lambda n: 0).window(TEN).apply(lambda key, window, ns: [(window.start, len(ns))])
    assert collected(counted) == [(start, 10) for start in range(0, 100, 10)]


def test_s86_a_timeout_gives_the_result():
    class Slow(Plus):
        async def async_invoke(self, value):
            await asyncio.sleep(60)

    assert collected(AsyncDataStream.unordered_wait(local(PAIRS), Slow(), "5 ms", 2)) == [0] * 5


def test_s86_by_default_a_timeout_fails_the_job_and_names_the_record():
    class Slow(AsyncFunction):
        async def async_invoke(self, value):
            await asyncio.sleep(60)

    stream = AsyncDataStream.unordered_wait(local(["slow"]), Slow(), "5 ms")
    with pytest.raises(JobExecutionError, match=r"'async wait'.*'slow'.*timed out for input: slow"):
        collected(stream)


@pytest.mark.parametrize(
    ("result", "message"), [(None, "cannot be none"), (3, "should be of list type")], ids=["none", "scalar"]
)
def test_s87_a_result_that_is_no_list_fails_the_job(result, message):
    async def wrong(value):
        return result

    with pytest.raises(JobExecutionError, match=f"The result of AsyncFunction {message}"):
        collected(AsyncDataStream.ordered_wait(local([1]), wrong, 1000))


def test_s87_async_invoke_is_a_coroutine_function():
    class Sync(AsyncFunction):
        def async_invoke(self, value):
            return [value]

    stream = local([1])
    with pytest.raises(TypeError, match="Method 'async_invoke' of class 'Sync' should be declared as 'async def'"):
        AsyncDataStream.unordered_wait(stream, Sync(), 1000)
    with pytest.raises(TypeError, match=r"blocking\(function\)"):
        AsyncDataStream.unordered_wait(stream, lambda value: [value], 1000)
    with pytest.raises(TypeError, match=r"give an instance: Plus\(\)"):
        AsyncDataStream.unordered_wait(stream, Plus, 1000)
    assert collected(AsyncDataStream.unordered_wait(stream, blocking(Sync()), 1000)) == [1]


def test_an_exception_fails_the_job():
    async def wrong(value):
        raise ValueError("encountered an exception")

    with pytest.raises(JobExecutionError, match="encountered an exception"):
        collected(AsyncDataStream.unordered_wait(local(PAIRS), wrong, 1000))


class ThirdTime(AsyncFunction):
    """PyFlink's test of retries: raises, then gives an odd number, then the right one."""

    def open(self, runtime_context):
        self.raised, self.odd = set(), set()

    async def async_invoke(self, value):
        if value not in self.raised:
            self.raised.add(value)
            raise ValueError("failed the first time")
        if value not in self.odd:
            self.odd.add(value)
            return [value[0] + value[1] + 1]
        return [value[0] + value[1]]


@pytest.mark.parametrize("ordered", [False, True])
def test_s88_retries(ordered):
    strategy = AsyncRetryStrategy.fixed_delay(
        max_attempts=5,
        backoff_time_millis=1,
        result_predicate=lambda result: result[0] % 2 == 1,
        exception_predicate=lambda error: "failed the first time" in str(error),
    )
    wait = AsyncDataStream.ordered_wait_with_retry if ordered else AsyncDataStream.unordered_wait_with_retry
    stream = wait(local(PAIRS[:3]), ThirdTime(), timedelta(seconds=10), strategy, 2)
    assert sorted(collected(stream)) == [2, 4, 6]


def test_s88_ready_made_predicates():
    strategy = AsyncRetryStrategy.exponential_backoff(
        max_attempts=1,
        initial_delay=1,
        max_retry_delay=10,
        multiplier=2,
        result_predicate=async_retry_predicates.empty_result_predicate,
        exception_predicate=async_retry_predicates.has_exception_predicate,
    )
    stream = AsyncDataStream.unordered_wait_with_retry(local([(1, 1)]), ThirdTime(), 10_000, strategy)
    assert collected(stream) == [3]
    matches = partial(async_retry_predicates.exception_type_predicate, expected_error_type=OSError)
    assert (matches(ConnectionError()), matches(ValueError())) == (True, False)


def test_s88_retries_need_a_timeout_and_a_predicate():
    class NoPredicate(AsyncRetryStrategy):
        def get_retry_predicate(self):
            return None

    retry, stream = AsyncDataStream.unordered_wait_with_retry, local(PAIRS)
    with pytest.raises(InvalidProgram, match="Timeout should be configured when do async with retry"):
        retry(stream, Plus(), 0, AsyncRetryStrategy.fixed_delay(1, 1))
    with pytest.raises(InvalidProgram, match="Async retry strategy should not be None"):
        retry(stream, Plus(), 1000, None)
    with pytest.raises(InvalidProgram, match="Retry predicate of the async retry strategy"):
        retry(stream, Plus(), 1000, NoPredicate())
    retry(stream, Plus(), 0, NO_RETRY_STRATEGY)


class Meeting:
    """Returns when three calls are under way."""

    def open(self, runtime_context):
        self.barrier = threading.Barrier(3, timeout=20)

    def async_invoke(self, value):
        self.barrier.wait()
        return [(value, threading.current_thread() is threading.main_thread())]


def test_blocking_functions_run_in_threads_at_the_same_time():
    stream = AsyncDataStream.ordered_wait(local(range(6)), blocking(Meeting(), threads=3), "20 s", 3)
    assert collected(stream) == [(n, False) for n in range(6)]


class Client:
    """A client that blocks, with a life of its own."""

    def open(self, runtime_context):
        self.answers = {1: ["one"]}

    def async_invoke(self, value):
        return self.answers.get(value, ["nothing"])

    def close(self):
        del self.answers


def test_a_blocking_object_is_opened():
    stream = AsyncDataStream.ordered_wait(local([1, 2]), blocking(Client()), "20 s")
    assert collected(stream) == ["one", "nothing"]


def test_blocking_functions_without_a_timeout_of_their_own_fail_the_job():
    def slow(value):
        time.sleep(0.05)
        return [value]

    with pytest.raises(JobExecutionError, match="timed out for input: 1"):
        collected(AsyncDataStream.ordered_wait(local([1]), blocking(slow), "5 ms"))


def test_blocking_refuses_coroutines_and_no_threads():
    with pytest.raises(TypeError, match="no coroutine"):
        blocking(Plus())
    with pytest.raises(TypeError, match="no coroutine"):
        blocking(Client)
    with pytest.raises(InvalidProgram, match="at least one thread"):
        blocking(len, threads=0)


def test_cached_functions_of_all_kinds():
    class Count(AsyncFunction):
        def open(self, runtime_context):
            self.calls = 0

        async def async_invoke(self, value):
            self.calls += 1
            return [(value, self.calls)]

    words = ["a", "b", "a", "A"]
    assert collected(AsyncDataStream.ordered_wait(local(words), cached(Count(), "1 min"), 0, 1)) == [
        ("a", 1), ("b", 2), ("a", 1), ("A", 3),
    ]  # fmt: skip
    folded = cached(Count(), timedelta(minutes=1), max_size=10, key=str.lower)
    assert collected(AsyncDataStream.ordered_wait(local(words), folded, 0, 1)) == [
        ("a", 1), ("b", 2), ("a", 1), ("a", 1),
    ]  # fmt: skip
    assert collected(AsyncDataStream.ordered_wait(local(["ab", "ab"]), cached(blocking(list), 1000), 0)) == list("abab")
    with pytest.raises(TypeError, match="cached already"):
        cached(folded, 1000)
    with pytest.raises(TypeError, match="async def"):
        cached(len, 1000)


def test_a_keyed_stream_asks_each_key_in_one_subtask():
    async def where(value):
        return [(value, id(asyncio.get_running_loop()))]

    words = local(list("abcabcabc"), parallelism=3).key_by(lambda word: word)
    found = collected(AsyncDataStream.unordered_wait(words, where, 1000))
    assert len(set(found)) == 3


def test_declared_types_are_those_of_the_results():
    async def big(value):
        return [value]

    stream = AsyncDataStream.ordered_wait(local([40_000]), big, 1000, output_type=Types.SHORT())
    assert (stream.get_type(), collected(stream)) == (Types.SHORT(), [-25536])
    one, two = both([("a", 40_000, 0)], [("a", 40_000, 0)])
    joined = one.join(two).where(key_of).equal_to(key_of).window(TEN).apply(lambda a, b: a[1], Types.SHORT())
    assert collected(joined) == [-25536]
    one, two = both([("a", 40_000, 0)], [("a", 40_000, 0)])
    joined = one.key_by(key_of).interval_join(two.key_by(key_of)).between(0, 0)
    assert collected(joined.process(lambda a, b, ctx: [a[1]], Types.SHORT())) == [-25536]


def test_asynchronous_functions_leave_no_threads_behind():
    def threads():
        return [thread for thread in threading.enumerate() if thread.name == "funken-async"]

    assert len(collected(AsyncDataStream.unordered_wait(local(PAIRS), Plus(), 5000))) == 5
    with pytest.raises(JobExecutionError):
        collected(AsyncDataStream.unordered_wait(local([None]), Plus(), 5000))
    deadline = time.monotonic() + 5
    while threads() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert threads() == []
