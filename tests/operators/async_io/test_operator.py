"""Asynchronous requests: what is in flight, what a timeout, a retry and a failure do, and what is emitted when."""

import asyncio
import threading

import pytest

from funken import OutputTag, blocking
from funken.errors import InvalidProgram
from funken.ids import MAX_WATERMARK
from funken.operators.async_io.operator import AsyncWait
from funken.operators.async_io.retry import AsyncRetryStrategy, CacheSpec, ResultCache, RetryPredicate
from funken.runtime.chain.chain import attribute_failure
from funken.state.delta_tables import OperatorStates
from funken.testing import OperatorHarness
from funken.timing.clock import ManualClock

PATIENCE = 20.0


class Service:
    """Requests wait until the test answers them."""

    def __init__(self, timeout=None):
        self.asked = []
        self.cancelled = []
        self._open = {}
        self._changed = threading.Condition()
        if timeout is not None:
            self.timeout = timeout

    async def async_invoke(self, value):
        answer = asyncio.get_running_loop().create_future()
        with self._changed:
            self.asked.append(value)
            self._open.setdefault(value, []).append(answer)
            self._changed.notify_all()
        try:
            return await answer
        except asyncio.CancelledError:
            with self._changed:
                self.cancelled.append(value)
                self._open[value].remove(answer)
                self._changed.notify_all()
            raise

    def until(self, condition):
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE), (self.asked, self.cancelled)

    def answer(self, value, result=None, error=None):
        """Answer the oldest open request for a value; wait for it to come first."""
        self.until(lambda: self._open.get(value))
        answer = self._open[value].pop(0)
        if error is None:
            answer.get_loop().call_soon_threadsafe(answer.set_result, [value] if result is None else result)
        else:
            answer.get_loop().call_soon_threadsafe(answer.set_exception, error)


class Async(OperatorHarness):
    """A harness with a clock that the test moves, and that waits for results where the task would be woken."""

    def __init__(self, function, timeout_ms=0, snapshots=(), **options):
        self.clock = ManualClock()
        self.woken = threading.Event()
        spec = AsyncWait(function, timeout_ms, clock=self.clock, **options)
        super().__init__(spec, name="async", snapshots=snapshots)
        self.context.wake = self.woken.set

    def until(self, condition):
        while not condition():
            assert self.woken.wait(PATIENCE), (self.output, self.waiting)
            self.woken.clear()
            self.processing_time(self.now)

    def until_output(self, count):
        self.until(lambda: len(self.output) >= count)

    @property
    def waiting(self):
        """How many records have no result."""
        return len(self.operator._waiting)

    def until_waiting(self, count):
        self.until(lambda: self.waiting == count)

    def later(self, millis):
        self.clock.advance(millis)
        self.processing_time(self.now + millis)

    def count(self, name):
        return self.context.metrics.counter(name).get_count()


def loops():
    """The threads of event loops."""
    return [thread for thread in threading.enumerate() if thread.name == "funken-async"]


@pytest.fixture
def service():
    return Service()


@pytest.fixture
def start(service):
    """Make a harness that is closed, with its thread, when the test is over."""
    made = []

    def start(function=service, timeout_ms=0, **options):
        made.append(Async(function, timeout_ms, **options))
        return made[-1]

    yield start
    for op in made:
        op.close()


# ---- order, watermarks, capacity


def test_s84_unordered_results_leave_as_they_come(start, service):
    op = start()
    op.feed_block(["a", "b"], [1, 2])
    service.answer("b", ["B", "BB"])
    op.until_output(2)
    service.answer("a", ["A"])
    op.until_output(3)
    assert op.output_with_timestamps == [("B", 2), ("BB", 2), ("A", 1)]


def test_s84_ordered_results_keep_the_order_of_the_records(start, service):
    op = start(ordered=True)
    op.feed_block(["a", "b"], [1, 2])
    service.answer("b")
    op.until_waiting(1)
    assert op.output == []
    service.answer("a")
    op.until_output(2)
    assert op.output_with_timestamps == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("ordered", [False, True])
def test_s84_no_result_crosses_a_watermark(start, service, ordered):
    op = start(ordered=ordered)
    log = []
    op.operator.output.emit = lambda values, timestamps: log.extend(values)
    op.operator.output.watermark = log.append
    op.operator.output.idle = log.append
    op.feed("a", 1)
    op.watermark(5)
    op.feed("b", 6)
    op.idle()
    op.feed("c", 7)
    for value, left in (("c", 2), ("b", 1), ("a", 0)):
        assert log == []
        service.answer(value)
        op.until_waiting(left)
    assert log == ["a", 5, "b", True, "c"]


def test_a_watermark_passes_at_once_when_nothing_is_in_flight(start):
    op = start()
    op.watermark(5)
    op.idle(False)
    assert op.watermarks == [5]
    assert not op.is_idle


class Counting:
    """Answers after a moment; knows how many requests were under way at once."""

    def __init__(self, seconds=0.001):
        self.seconds = seconds
        self.now = self.most = 0
        self.seen = []

    async def async_invoke(self, value):
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self.seconds)
        self.now -= 1
        self.seen.append(value)
        return [value]


@pytest.mark.parametrize("ordered", [False, True])
def test_s85_capacity_bounds_what_is_in_flight_and_then_the_input_blocks(start, ordered):
    function = Counting()
    op = start(function, capacity=3, ordered=ordered)
    op.feed_block(list(range(20)))
    assert op.operator._queue.size <= 3
    assert len(op.output) >= 17
    op.end_input()
    assert function.most == 3
    assert sorted(op.output) == list(range(20))


def test_s85_results_leave_while_the_input_blocks(start, service):
    def answer():
        service.answer("a")
        service.until(lambda: "b" in service.asked)
        seen.append(list(op.output))
        service.answer("b")
        service.answer("c")

    seen = []
    op = start(capacity=1)
    other = threading.Thread(target=answer)
    other.start()
    op.feed_block(["a", "b", "c"])
    other.join()
    op.end_input()
    assert seen == [["a"]]
    assert op.output == ["a", "b", "c"]


def test_s85_the_end_of_input_waits_for_all(start):
    op = start(Counting(0.005))
    op.feed_block([1, 2, 3], [10, 20, 30])
    assert op.output == []
    op.end_input()
    assert sorted(op.output) == [1, 2, 3]
    assert op.watermarks == [MAX_WATERMARK]


def test_s85_at_the_end_of_input_timeouts_still_count(start):
    class Stuck(Counting):
        async def async_invoke(self, value):
            op.clock.advance(60)
            await asyncio.Event().wait()

        def timeout(self, value):
            return ["given up"]

    op = start(Stuck(), timeout_ms=50)
    op.feed("a")
    op.end_input()
    assert op.output == ["given up"]


def test_results_may_go_to_side_outputs_and_be_none_at_all(start, service):
    op = start()
    op.feed_block(["a", "b"], [1, 2])
    service.answer("a", [])
    op.until_waiting(1)
    assert op.output == []
    service.answer("b", ["main", (OutputTag("side"), "side")])
    op.until_output(1)
    assert op.side_output_with_timestamps("side") == [("side", 2)]


def test_an_empty_block_does_no_harm(start):
    op = start()
    op.feed_block([], [])
    assert op.operator.next_tick() is None


# ---- timeouts


def test_s86_after_the_timeout_the_functions_timeout_gives_the_result_and_what_comes_late_is_ignored(start):
    service = Service(timeout=lambda value: [f"no {value}"])
    op = start(service, timeout_ms=100)
    op.feed("a", 1)
    service.until(lambda: service.asked == ["a"])
    op.later(99)
    assert op.output == []
    op.feed("b", 2)
    op.later(1)
    assert op.output_with_timestamps == [("no a", 1)]
    service.until(lambda: service.cancelled == ["a"])
    service.answer("b")
    op.until_output(2)
    assert op.output == ["no a", "b"]
    assert op.count("asyncTimeouts") == 1


def test_s86_a_coroutine_that_goes_on_after_the_timeout_is_ignored(start):
    class Stubborn:
        begun, ended = threading.Event(), threading.Event()

        async def async_invoke(self, value):
            self.begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.ended.set()
            return ["late"]

        def timeout(self, value):
            return ["in time"]

    op = start(Stubborn(), timeout_ms=10)
    op.feed("a")
    assert Stubborn.begun.wait(PATIENCE)
    op.later(10)
    assert Stubborn.ended.wait(PATIENCE)
    op.feed("b")
    op.later(10)
    op.end_input()
    assert op.output == ["in time", "in time"]


def test_s86_by_default_a_timeout_fails_the_job(start, service):
    op = start(timeout_ms=10)
    op.feed("slow")
    with pytest.raises(TimeoutError, match="Async function call has timed out for input: slow"):
        op.later(10)


def test_s86_an_exception_of_timeout_fails_the_job(start):
    def timeout(value):
        raise ValueError("encountered an exception")

    op = start(Service(timeout), timeout_ms=10)
    op.feed("slow")
    with pytest.raises(ValueError, match="encountered an exception"):
        op.later(10)


def test_a_timeout_in_order_lets_the_records_behind_it_go(start):
    service = Service(timeout=lambda value: [])
    op = start(service, timeout_ms=100, ordered=True)
    op.feed("a")
    op.clock.advance(50)
    op.feed("b")
    service.answer("b")
    op.until_waiting(1)
    op.later(50)
    assert op.output == ["b"]


def test_without_a_timeout_requests_may_take_for_ever(start, service):
    op = start(timeout_ms=0)
    op.feed("a")
    op.later(10**9)
    service.answer("a")
    op.until_output(1)


def test_a_call_that_blocks_is_given_up_and_goes_on_in_its_thread(start):
    class Blocks:
        begun, let_go, ended = threading.Event(), threading.Event(), threading.Event()

        def async_invoke(self, value):
            self.begun.set()
            self.let_go.wait(PATIENCE)
            self.ended.set()
            return ["late"]

        def timeout(self, value):
            return [f"no answer for {value}"]

    op = start(blocking(Blocks()), timeout_ms=10)
    op.feed("a")
    assert Blocks.begun.wait(PATIENCE)
    op.later(10)
    assert op.output == ["no answer for a"]
    Blocks.let_go.set()
    assert Blocks.ended.wait(PATIENCE)
    op.end_input()
    assert op.output == ["no answer for a"]


# ---- results and failures


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "The result of AsyncFunction cannot be none"),
        (7, "The result of AsyncFunction should be of list type"),
        ("text", "The result of AsyncFunction should be of list type"),
    ],
)
def test_s87_a_result_is_an_iterable(start, result, message):
    class Wrong:
        async def async_invoke(self, value):
            return result

        def timeout(self, value):
            return result

    op = start(Wrong())
    with pytest.raises(TypeError, match=f"{message}.*'async_invoke' and 'timeout' of class 'Wrong'"):
        op.feed("a")
        op.end_input()
    op = start(Service(timeout=lambda value: result), timeout_ms=1)
    op.feed("a")
    with pytest.raises(TypeError, match=message):
        op.later(1)


@pytest.mark.parametrize("results", [(1, 2), iter([1, 2]), {1: 0, 2: 0}])
def test_s87_any_iterable_will_do(start, service, results):
    op = start()
    op.feed("a")
    service.answer("a", results)
    op.until_output(2)
    assert op.output == [1, 2]


def test_an_exception_fails_the_job_and_names_the_record(start, service):
    op = start(capacity=2)
    op.feed_block(["good", "bad"])
    service.answer("bad", error=ValueError("encountered an exception"))
    service.answer("good")
    with pytest.raises(ValueError, match="encountered an exception") as raised:
        op.feed_block(["next"])
        op.end_input()
    told = attribute_failure(raised.value, 0)
    assert told.operator == "async"
    assert "at the record 'bad'" in str(told)
    assert "in async_invoke" in told.traceback_text


@pytest.mark.parametrize("end", [asyncio.CancelledError, SystemExit])
def test_a_coroutine_that_ends_without_a_result_fails_the_job(start, end):
    class Ends:
        async def async_invoke(self, value):
            raise end

    op = start(Ends())
    with pytest.raises(RuntimeError, match=f"ended with {end.__name__}"):
        op.feed("a")
        op.end_input()


def test_the_loop_survives_what_user_code_does_to_it(start):
    class Stops:
        async def async_invoke(self, value):
            async def leave():
                raise SystemExit

            self.task = asyncio.get_running_loop().create_task(leave())
            asyncio.get_running_loop().stop()
            await asyncio.sleep(0.001)
            assert isinstance(self.task.exception(), SystemExit)
            return [value]

    op = start(Stops())
    op.feed("a")
    op.end_input()
    assert op.output == ["a"]


# ---- retries


class Flaky:
    """Gives one answer after the other; an exception is raised."""

    def __init__(self, *answers, timeout=None):
        self.answers = list(answers)
        self.attempts = 0
        if timeout is not None:
            self.timeout = lambda value: timeout

    async def async_invoke(self, value):
        self.attempts += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def fixed(attempts, **predicates):
    return AsyncRetryStrategy.fixed_delay(attempts, 1, **predicates)


def is_value_error(error):
    return isinstance(error, ValueError)


def test_s88_a_request_is_made_up_to_one_and_max_attempts_times(start):
    function = Flaky(ValueError("again"))
    op = start(function, timeout_ms=60_000, retry=fixed(3, exception_predicate=is_value_error))
    with pytest.raises(ValueError, match="again"):
        op.feed("a")
        op.end_input()
    assert function.attempts == 4
    assert op.count("asyncRetries") == 3


def test_s88_attempts_go_on_until_neither_predicate_wants_another(start):
    function = Flaky(ValueError(), [3], [], [4], [5])
    retry = fixed(9, result_predicate=lambda result: not result or result[0] == 3, exception_predicate=is_value_error)
    op = start(function, timeout_ms=60_000, retry=retry)
    op.feed("a")
    op.end_input()
    assert op.output == [4]


def test_s88_when_there_are_no_attempts_left_the_last_result_counts(start):
    op = start(Flaky([1], [2], [3]), timeout_ms=60_000, retry=fixed(1, result_predicate=lambda result: True))
    op.feed("a")
    op.end_input()
    assert op.output == [2]


def test_an_exception_that_is_not_worth_another_attempt_fails_the_job(start):
    function = Flaky(KeyError("final"))
    op = start(function, timeout_ms=60_000, retry=fixed(9, exception_predicate=is_value_error))
    with pytest.raises(KeyError, match="final"):
        op.feed("a")
        op.end_input()
    assert function.attempts == 1


def test_s88_the_timeout_spans_all_attempts(start):
    class Slow(Flaky):
        async def async_invoke(self, value):
            op.clock.advance(30)
            return await super().async_invoke(value)

    function = Slow([], timeout=["given up"])
    op = start(function, timeout_ms=100, retry=fixed(100, result_predicate=lambda result: not result))
    op.feed("a")
    op.end_input()
    assert op.output == ["given up"]
    assert function.attempts == 4


def test_a_request_that_waits_for_its_next_attempt_is_given_up_in_time(start):
    function = Flaky([], timeout=["given up"])
    retry = AsyncRetryStrategy.fixed_delay(5, 3_600_000, result_predicate=lambda result: not result)
    op = start(function, timeout_ms=10, retry=retry)
    op.feed("a")
    while op.count("asyncRetries") == 0:
        threading.Event().wait(0.001)
    op.later(10)
    assert op.output == ["given up"]


def test_s87_a_none_result_is_not_shown_to_the_predicate(start):
    op = start(Flaky(None), timeout_ms=60_000, retry=fixed(3, result_predicate=len))
    with pytest.raises(TypeError, match="cannot be none"):
        op.feed("a")
        op.end_input()


def test_an_exception_of_a_predicate_fails_the_job(start):
    op = start(Flaky([]), timeout_ms=60_000, retry=fixed(3, result_predicate=lambda result: result[0]))
    with pytest.raises(IndexError):
        op.feed("a")
        op.end_input()


def test_a_strategy_of_the_users_own(start):
    class Twice(AsyncRetryStrategy):
        def can_retry(self, current_attempts):
            asked.append(current_attempts)
            return current_attempts < 3

        def get_backoff_time_millis(self, current_attempts):
            return current_attempts

        def get_retry_predicate(self):
            return RetryPredicate(on_result=lambda result: True)

    asked = []
    op = start(Flaky([1], [2], [3]), timeout_ms=60_000, retry=Twice())
    op.feed("a")
    op.end_input()
    assert (op.output, asked) == ([3], [1, 2, 3])


# ---- cache


def cache(ttl_ms=1000, max_size=100, key=None, combine=None):
    return CacheSpec(ttl_ms, max_size, key, combine)


def test_a_result_is_asked_for_once_until_it_expires(start, service):
    op = start(cache=cache(ttl_ms=1000))
    op.feed("a", 1)
    service.answer("a", ["first"])
    op.until_output(1)
    op.later(999)
    op.feed("a", 2)
    assert op.output_with_timestamps == [("first", 1), ("first", 2)]
    op.later(1)
    op.feed("a", 3)
    service.answer("a", ["second"])
    op.until_output(3)
    assert op.output[2] == "second"
    assert service.asked == ["a", "a"]
    assert (op.count("asyncCacheHits"), op.count("asyncCacheMisses")) == (1, 2)


def test_records_of_one_key_share_a_request_that_is_under_way(start, service):
    op = start(cache=cache(key=str.lower))
    op.feed_block(["a", "A", "b", "a"], [1, 2, 3, 4])
    service.answer("a", ["found"])
    op.until_output(3)
    assert op.output_with_timestamps == [("found", 1), ("found", 2), ("found", 4)]
    service.answer("b")
    op.until_output(4)
    assert service.asked == ["a", "b"]


def test_each_record_may_make_its_own_of_a_shared_result(start):
    service = Service(timeout=lambda value: ["given up"])
    op = start(service, timeout_ms=100, cache=cache(key=str.lower, combine=lambda value, found: [(value, *found)]))
    op.feed_block(["a", "A"])
    service.answer("a", [1, 2])
    op.until_output(2)
    op.feed("a")
    assert op.output == [("a", 1, 2), ("A", 1, 2), ("a", 1, 2)]
    op.feed("b")
    op.later(100)
    assert op.output[3:] == ["given up"]


def test_what_combine_gives_is_checked(start, service):
    op = start(cache=cache(combine=lambda value, found: None))
    op.feed("a")
    service.answer("a")
    with pytest.raises(TypeError, match="cannot be none"):
        op.until_output(1)


def test_a_hit_keeps_its_place_behind_a_miss_if_ordered(start, service):
    op = start(cache=cache(), ordered=True)
    op.feed("a")
    service.answer("a")
    op.until_output(1)
    op.feed_block(["b", "a"])
    assert op.output == ["a"]
    service.answer("b")
    op.until_output(3)
    assert op.output == ["a", "b", "a"]


def test_each_record_of_a_shared_request_has_its_own_timeout(start):
    service = Service(timeout=lambda value: ["given up"])
    op = start(service, timeout_ms=100, cache=cache())
    op.feed("a", 1)
    op.clock.advance(50)
    op.feed("a", 2)
    op.later(50)
    assert op.output_with_timestamps == [("given up", 1)]
    service.answer("a", ["found"])
    op.until_output(2)
    assert op.output_with_timestamps == [("given up", 1), ("found", 2)]
    assert service.cancelled == []


def test_a_request_past_its_time_is_not_joined_any_more(start):
    """The clock moves on before anybody has looked at it: the request is still there, but may have ended."""
    service = Service(timeout=lambda value: ["given up"])
    op = start(service, timeout_ms=100, cache=cache())
    op.feed("a", 1)
    service.until(lambda: service.asked == ["a"])
    op.clock.advance(100)
    op.feed("a", 2)
    assert op.output_with_timestamps == [("given up", 1)]
    service.until(lambda: service.cancelled == ["a"])
    service.answer("a")
    op.until_output(2)
    op.feed("a", 3)
    assert op.output_with_timestamps[1:] == [("a", 2), ("a", 3)]


def test_what_timeout_gives_is_not_kept(start):
    service = Service(timeout=lambda value: ["given up"])
    op = start(service, timeout_ms=100, cache=cache())
    op.feed_block(["a", "a"])
    service.until(lambda: service.asked == ["a"])
    op.later(100)
    service.until(lambda: service.cancelled == ["a"])
    op.feed("a")
    service.answer("a", ["found"])
    op.until_output(3)
    assert op.output == ["given up", "given up", "found"]


def test_a_cache_and_retries_agree_on_what_a_result_is(start):
    function = Flaky([], [], ["good"], ["not asked for"])
    op = start(
        function, timeout_ms=60_000, cache=cache(), retry=fixed(5, result_predicate=lambda result: not result)
    )  # fmt: skip
    op.feed_block(["a", "a"])
    op.end_input()
    op.feed("a")
    assert op.output == ["good"] * 3


def test_a_value_that_cannot_be_a_key_is_refused(start):
    op = start(cache=cache())
    with pytest.raises(TypeError, match=r"cannot be cached by \['a'\].*key="):
        op.feed(["a"])


def test_a_full_cache_drops_its_oldest_result_and_expired_ones_at_once():
    kept = ResultCache(cache(ttl_ms=1000, max_size=2))
    for second, key in enumerate("abc"):
        kept.put(key, [key], now=second / 10)
    assert [kept.get(key, 0.2) for key in "abc"] == [None, ["b"], ["c"]]
    kept.put("b", ["again"], now=0.3)
    kept.put("d", ["d"], now=0.4)
    assert [kept.get(key, 0.4) for key in "bcd"] == [["again"], None, ["d"]]
    kept.put("e", ["e"], now=9.0)
    assert len(kept) == 1


@pytest.mark.parametrize(("ttl_ms", "max_size"), [(0, 1), (1, 0)])
def test_a_cache_needs_time_and_room(ttl_ms, max_size):
    with pytest.raises(InvalidProgram, match="above 0"):
        cache(ttl_ms, max_size)


# ---- snapshots


@pytest.mark.parametrize("ordered", [False, True])
def test_a_snapshot_has_the_records_in_flight_and_a_restore_asks_again(start, service, ordered):
    op = start(ordered=ordered)
    op.feed_block(["a", "b", "c"], [1, 2, 3])
    op.watermark(5)
    service.answer("a" if ordered else "b")
    op.until_output(1)
    snapshot = op.snapshot()
    left = ["b", "c"] if ordered else ["a", "c"]
    assert [value for value, _ in snapshot["operator"]] == left

    again = Service()
    op = start(again, ordered=ordered, snapshots=[snapshot])
    assert op.snapshot()["operator"] == snapshot["operator"]
    assert op.operator.next_tick() == op.now
    op.processing_time(op.now)
    for value in left:
        again.answer(value)
    op.until_output(2)
    assert sorted(op.output) == left
    assert sorted(at for _, at in op.output_with_timestamps) == sorted(at for _, at in snapshot["operator"])


@pytest.mark.parametrize("what", ["feed", "watermark", "idle", "end"])
def test_restored_records_come_before_all_else(start, what):
    log = []
    op = start(Counting(), ordered=True, snapshots=[{"operator": [("old", 1)], "operator_state": OperatorStates()}])
    op.operator.output.emit = lambda values, timestamps: log.extend(values)
    op.operator.output.watermark = op.operator.output.idle = log.append
    if what == "feed":
        op.feed("new")
    elif what == "watermark":
        op.watermark(5)
    elif what == "idle":
        op.idle()
    op.end_input()
    assert log[0] == "old"


def test_more_restored_records_than_capacity_wait_for_room(start):
    function = Counting()
    snapshot = {"operator": [(n, n) for n in range(5)], "operator_state": OperatorStates()}
    op = start(function, capacity=2, snapshots=[snapshot, snapshot])
    op.end_input()
    assert sorted(op.output) == sorted([*range(5), *range(5)])
    assert function.most <= 2


# ---- life


def test_open_and_close_may_be_coroutines_in_the_loop_of_the_requests():
    class Function:
        def __init__(self):
            self.log = []

        async def open(self, runtime_context):
            self.loop = asyncio.get_running_loop()
            self.log.append(f"open {runtime_context.get_task_name()}")

        async def async_invoke(self, value):
            return [asyncio.get_running_loop() is self.loop]

        async def close(self):
            await asyncio.sleep(0)
            self.log.append("close")

    function = Function()
    with Async(function) as op:
        op.feed("a")
        op.end_input()
    assert op.output == [True]
    assert function.log == ["open async", "close"]


def test_closing_stops_what_is_under_way_before_the_function_is_closed():
    class Closing(Service):
        def close(self):
            log.extend(self.cancelled)
            log.append("close")

    log = []
    service = Closing()
    op = Async(service)
    op.feed("a")
    service.until(lambda: service.asked == ["a"])
    op.close()
    op.close()
    assert log == ["a", "close"]
    assert loops() == []


def test_closing_without_having_opened_is_fine(service):
    AsyncWait(service, 0).build().close()


def test_an_exception_of_open_leaves_no_thread_behind():
    class Function(Service):
        async def open(self, runtime_context):
            raise ConnectionError("no service")

    operator = AsyncWait(Function(), 0).build()
    with pytest.raises(ConnectionError, match="no service"):
        OperatorHarness(operator)
    operator.close()
    assert loops() == []


def test_capacity_is_at_least_one(service):
    with pytest.raises(InvalidProgram, match="capacity must be at least 1"):
        AsyncWait(service, 0, capacity=0)


# ---- when the task is to come back


def test_next_tick_is_now_with_results_else_at_the_first_timeout(start, service):
    op = start(timeout_ms=100)
    op.now = 5000
    assert op.operator.next_tick() is None
    op.feed("a")
    op.clock.advance(40)
    assert op.operator.next_tick() == 5060
    service.answer("a")
    assert op.woken.wait(PATIENCE)
    assert op.operator.next_tick() == 5000
    op.until_output(1)
    assert op.operator.next_tick() is None


def test_next_tick_is_soon_if_nobody_wakes_the_task(start, service):
    op = start(timeout_ms=100)
    op.context.wake = None
    op.feed("a")
    assert op.operator.next_tick() == op.now + 1


def test_without_a_timeout_only_a_result_wakes_the_task(start, service):
    op = start()
    op.feed("a")
    assert op.operator.next_tick() is None
    assert not op.woken.is_set()


def test_the_task_is_woken_once_for_many_results(start, service):
    op = start()
    calls = []
    ready = threading.Semaphore(0)
    op.context.wake = lambda: (calls.append(1), ready.release())
    op.feed_block(list("abc"))
    service.answer("a")
    assert ready.acquire(timeout=PATIENCE)
    for value in "bc":
        service.answer(value)
    while op.operator._requests._done.qsize() < 3:
        threading.Event().wait(0.001)
    assert len(calls) == 1
    op.processing_time(op.now)
    assert sorted(op.output) == ["a", "b", "c"]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("kept", [None, cache(key=lambda value: value % 40)])
def test_many_records_between_watermarks_against_a_list(start, ordered, kept):
    class Function:
        async def async_invoke(self, value):
            await asyncio.sleep((value * 7919 % 5) / 2000)
            return answers(value)

    def answers(value):
        return [value % 40] * (value % 40 % 3)

    op = start(Function(), capacity=50, ordered=ordered, cache=kept)
    found, expected = [[]], []
    op.operator.output.emit = lambda values, timestamps: found[-1].extend(zip(values, timestamps, strict=True))
    op.operator.output.watermark = lambda watermark: found.append([])
    for at in range(1, 301, 20):
        op.feed_block(list(range(at, at + 20)), [at] * 20)
        op.watermark(at)
        expected.append([(answer, at) for value in range(at, at + 20) for answer in answers(value)])
    op.end_input()
    assert [part if ordered else sorted(part) for part in found] == [
        *(part if ordered else sorted(part) for part in expected), [], [],
    ]  # fmt: skip
