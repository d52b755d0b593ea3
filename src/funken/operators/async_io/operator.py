"""Asynchronous requests: many records wait for their results at once, and the stream goes on meanwhile.

The event loop has a thread of its own (``requests.py``); everything here runs in the task's thread, inside its
calls, and is the only part that emits. Guarantees:

* no result passes a watermark, and with ``ordered`` none passes another (``OrderedQueue``, ``UnorderedQueue``);
* at most ``capacity`` records are in flight, and then ``process`` waits, sending on what becomes ready meanwhile;
* a record gets its result, or after ``timeout_ms`` that of the function's ``timeout``; what comes later is ignored;
* the end of the input waits for all results, and a snapshot contains the records in flight, which are requested anew.

Records of equal keys share one request while it is under way, and its result until it expires, if there is a ``cache``.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import threading
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator
from dataclasses import field
from functools import partial
from queue import Empty
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.ids import MIN_TIMESTAMP
from funken.io.threads import DaemonThreadPool
from funken.lazy import LoadedLater
from funken.metrics.registry import Counter
from funken.operators.async_io.retry import NO_RETRY_STRATEGY, AsyncRetryStrategy, CacheSpec, ResultCache
from funken.operators.base import Operator, OperatorContext, Output, RuntimeContext, Timestamps, Values
from funken.operators.user_functions import Results, blocking_in_coroutine
from funken.timing.clock import Clock, SystemClock, TimedQueue

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = LoadedLater("asyncio")  # 45 ms, and few jobs need it

# ---- What waits between the input and the output of an asynchronous operator, in which order it may leave, and how
# long.
#
# Invariant: a *mark* (a watermark, or that the input idles) leaves after every record before it and before every
# record behind it. Between two marks, records leave in the order in which they came (``OrderedQueue``), or in the
# order in which their results came (``UnorderedQueue``). Not thread-safe, knows no clock, starts nothing.


Mark = Callable[[], None]
"""Sends a watermark (or idleness) on."""


class QueueEntry:
    """One record: in the queue until its result has been emitted."""

    __slots__ = ("deadline", "request", "result", "segment", "timestamp", "value")

    def __init__(self, value: Any, timestamp: int = MIN_TIMESTAMP) -> None:
        self.value = value
        self.timestamp = timestamp
        self.result: Iterable[Any] | None = None
        self.deadline = 0.0
        self.request: Any = None
        self.segment: Segment | None = None


class Outlet:
    """Collects results and sends them on as one block, with timestamps if any of them has one."""

    __slots__ = ("_stamped", "results")

    def __init__(self) -> None:
        self.results = Results()
        self._stamped = False

    def take(self, entry: QueueEntry) -> None:
        """Take the results of a record; they carry its timestamp."""
        self._stamped = self._stamped or entry.timestamp != MIN_TIMESTAMP
        self.results.take(entry.result, entry.timestamp)

    def emit(self, output: Output) -> None:
        """Send them on."""
        stamped, self._stamped = self._stamped, False
        self.results.emit(output, stamped=stamped)


class OrderedQueue:
    """Results leave in the order of the records.

    >>> queue, output = OrderedQueue(), Output()
    >>> output.emit = lambda values, timestamps: print(values)
    >>> first, second = QueueEntry("first"), QueueEntry("second")
    >>> queue.add(first); queue.add(second)
    >>> queue.complete(second, ["b"]); queue.emit(output)
    >>> queue.complete(first, ["a"]); queue.emit(output)
    ['a', 'b']
    """

    def __init__(self) -> None:
        self.size = 0
        self._items: deque[QueueEntry | Mark] = deque()
        self.outlet = Outlet()

    def add(self, entry: QueueEntry) -> None:
        """Put a record in."""
        self.size += 1
        self._items.append(entry)

    def mark(self, mark: Mark) -> None:
        """Put a mark in."""
        self._items.append(mark)

    def complete(self, entry: QueueEntry, result: Iterable[Any]) -> None:
        """Set the result of a record."""
        entry.result = result

    def emit(self, output: Output) -> None:
        """Send on everything before the first record without a result."""
        items, outlet = self._items, self.outlet
        while items:
            item = items[0]
            if isinstance(item, QueueEntry):
                if item.result is None:
                    break
                self.size -= 1
                outlet.take(item)
            else:
                outlet.emit(output)
                item()
            items.popleft()
        outlet.emit(output)

    def __iter__(self) -> Iterator[QueueEntry]:
        return (item for item in self._items if isinstance(item, QueueEntry))


class Segment:
    """The records between two marks. ``waiting`` keeps the order in which they came, ``done`` that of the results."""

    __slots__ = ("done", "mark", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[QueueEntry, None] = {}
        self.done: list[QueueEntry] = []
        self.mark: Mark | None = None


class UnorderedQueue:
    """Results leave as soon as they are there, except that no record passes a mark.

    >>> queue, output = UnorderedQueue(), Output()
    >>> output.emit = lambda values, timestamps: print(values)
    >>> first, second, third = QueueEntry("first"), QueueEntry("second"), QueueEntry("third")
    >>> queue.add(first); queue.add(second); queue.mark(lambda: print("mark")); queue.add(third)
    >>> queue.complete(third, ["c"]); queue.complete(second, ["b"]); queue.emit(output)
    ['b']
    >>> queue.complete(first, ["a"]); queue.emit(output)
    ['a']
    mark
    ['c']
    """

    def __init__(self) -> None:
        self.size = 0
        self._segments: deque[Segment] = deque([Segment()])
        self.outlet = Outlet()

    def add(self, entry: QueueEntry) -> None:
        """Put a record in."""
        self.size += 1
        entry.segment = self._segments[-1]
        entry.segment.waiting[entry] = None

    def mark(self, mark: Mark) -> None:
        """Close the segment."""
        self._segments[-1].mark = mark
        self._segments.append(Segment())

    def complete(self, entry: QueueEntry, result: Iterable[Any]) -> None:
        """Set the result of a record."""
        entry.result = result
        assert entry.segment is not None
        del entry.segment.waiting[entry]
        entry.segment.done.append(entry)

    def emit(self, output: Output) -> None:
        """Send on the results of the first segment, and go on to the next one if it is closed and complete."""
        outlet = self.outlet
        while True:
            segment = self._segments[0]
            for entry in segment.done:
                outlet.take(entry)
            self.size -= len(segment.done)
            segment.done.clear()
            outlet.emit(output)
            if segment.mark is None or segment.waiting:
                return
            self._segments.popleft()
            segment.mark()

    def __iter__(self) -> Iterator[QueueEntry]:
        for segment in self._segments:
            yield from segment.done
            yield from segment.waiting


ResultQueue = OrderedQueue | UnorderedQueue


class Deadlines:
    """The records that have no result yet, by deadline; all of them have the same timeout (s).

    >>> deadlines, entry = Deadlines(0.5), QueueEntry("value")
    >>> deadlines.add(entry, now=10.0)
    >>> deadlines.left(now=10.25), deadlines.overdue(now=10.25), deadlines.overdue(now=10.5) is entry
    (0.25, None, True)
    """

    def __init__(self, timeout: float = math.inf) -> None:
        self._timeout = timeout
        # A dict would look for its first item behind all deleted ones.
        self._entries: OrderedDict[QueueEntry, None] = OrderedDict()

    def add(self, entry: QueueEntry, now: float) -> None:
        """Let a record wait from now on."""
        entry.deadline = now + self._timeout
        self._entries[entry] = None

    def remove(self, entry: QueueEntry) -> None:
        """Let a record wait no longer."""
        del self._entries[entry]

    def overdue(self, now: float) -> QueueEntry | None:
        """Return a record that has waited too long."""
        for entry in self._entries:
            return entry if entry.deadline <= now else None
        return None

    def left(self, now: float) -> float:
        """Return the time until the first deadline; infinite if there is none."""
        for entry in self._entries:
            return max(0.0, entry.deadline - now)
        return math.inf

    def __len__(self) -> int:
        return len(self._entries)


_PATIENCE = 0.05
"""The longest wait at once (s): then clocks that are not the machine's are looked at again."""

_ROUNDING = 1e-6
"""The rounding error (ms) of a difference of two times."""

_CLOSE_SECONDS = 10.0


@dataclass(frozen=True)
class AsyncWait:
    """An asynchronous operator.

    ``function`` has ``async_invoke``, a coroutine function, and may have ``timeout``, ``open`` and ``close``. A
    ``timeout_ms`` of 0 waits for ever.
    """

    function: Any
    timeout_ms: int
    capacity: int = 100
    ordered: bool = False
    retry: AsyncRetryStrategy = NO_RETRY_STRATEGY
    cache: CacheSpec | None = None
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise InvalidProgram(f"capacity must be at least 1, but is {self.capacity}.")

    def build(self) -> Operator:
        """Make the logic."""
        return AsyncWaitLogic(self)


class AsyncWaitLogic(Operator):
    """The task's side of an asynchronous operator."""

    _requests: RequestLoop

    def __init__(self, spec: AsyncWait) -> None:
        self._function = spec.function
        self._spec = spec
        self._clock = spec.clock
        self._on_timeout = getattr(spec.function, "timeout", _no_timeout)
        self._queue: ResultQueue = OrderedQueue() if spec.ordered else UnorderedQueue()
        self._waiting = Deadlines(spec.timeout_ms / 1000 if spec.timeout_ms > 0 else math.inf)
        self._unsent: list[AsyncRequest] = []
        self._shared: dict[Hashable, AsyncRequest] = {}
        self._cache = None if spec.cache is None else ResultCache(spec.cache)
        self._combine = None if spec.cache is None else spec.cache.combine
        self._restored: list[tuple[Any, int]] = []
        self._opened = False

    # ---- life

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self._queue.outlet.results.configure(context)
        metrics = context.metrics
        self._timeouts, self._retries = metrics.counter("asyncTimeouts"), metrics.counter("asyncRetries")
        metrics.gauge("asyncInFlight", lambda: self._queue.size)
        if self._cache is not None:
            self._hits, self._misses = metrics.counter("asyncCacheHits"), metrics.counter("asyncCacheMisses")

    def open(self) -> None:
        """Start the event loop, open the user's function; its ``open`` may be a coroutine function."""
        self._new_request = AsyncRequest
        self._requests = RequestLoop(
            self._function.async_invoke, self._spec.retry, self._clock, self._notify, self._retries
        )
        self._opened = True
        blocking = blocking_in_coroutine(self._written) or blocking_in_coroutine(self._function.async_invoke)
        if blocking is not None:
            self.context.warn("blocking", blocking)
        opened = getattr(self._function, "open", _nothing)(RuntimeContext(self.context))
        if inspect.iscoroutine(opened):
            self._requests.run(opened)

    def close(self) -> None:
        """Stop open requests, close the user's function, stop the event loop."""
        if not self._opened:
            return
        self._opened = False
        self._requests.cancel_all()
        try:
            closed = getattr(self._function, "close", _nothing)()
            if inspect.iscoroutine(closed):
                self._requests.run(closed, _CLOSE_SECONDS)
        finally:
            self._requests.stop()

    def snapshot(self) -> Any:
        """Return the records in flight with their timestamps; the list may be split anywhere to rescale."""
        return [(entry.value, entry.timestamp) for entry in self._queue] + self._restored

    def restore(self, snapshot: Any) -> None:
        """Request these records again."""
        self._restored += snapshot

    # ---- input

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Make a request for each record; wait where there is no room."""
        self._resume()
        self._admit(values, timestamps or [MIN_TIMESTAMP] * len(values))

    def _resume(self) -> None:
        if self._restored:
            restored, self._restored = self._restored, []
            self._admit([value for value, _ in restored], [at for _, at in restored])

    def _admit(self, values: Values, timestamps: list[int]) -> None:
        queue, capacity = self._queue, self._spec.capacity
        for value, at in zip(values, timestamps, strict=True):
            if queue.size >= capacity:
                self._send()
                self._settle()
                while queue.size >= capacity:
                    self._settle(self._patience())
            self._enter(value, at)
        self._send()
        self._settle()

    def _enter(self, value: Any, at: int) -> None:
        """Put one record into the queue: with its result if it is known, else with a request."""
        now = self._clock.monotonic()
        entry = QueueEntry(value, at)
        self._queue.add(entry)
        cache, key = self._cache, None
        if cache is not None:
            key = cache.key_of(value)
            known = cache.get(key, now)
            if known is not None:
                self._hits.inc()
                self._complete(entry, known)
                return
            shared = self._shared.get(key)
            if shared is not None and shared.deadline > now:
                self._hits.inc()
                self._waiting.add(entry, now)
                entry.request = shared
                shared.join(entry)
                return
            self._misses.inc()
        self._waiting.add(entry, now)
        entry.request = request = self._new_request(value, entry, key)
        self._unsent.append(request)
        if cache is not None:
            self._shared[key] = request

    def watermark(self, watermark: int) -> None:
        """Emit the watermark after the results of all records before it."""
        self._resume()
        self.current_watermark = watermark
        self._settle()
        self._mark(partial(self.output.watermark, watermark))

    def idle(self, idle: bool) -> None:
        """Pass idleness on in the same order."""
        self._resume()
        self._settle()
        self._mark(partial(self.output.idle, idle))

    def _mark(self, mark: Mark) -> None:
        if self._queue.size:
            self._queue.mark(mark)
        else:
            mark()

    def awaits_results(self) -> bool:
        """Return True if requests are under way."""
        return bool(self._queue.size or self._restored)

    def finish(self) -> None:
        """Wait for all results."""
        self._resume()
        self._settle()
        while self._queue.size:
            self._settle(self._patience())

    # ---- results

    def next_tick(self) -> int | None:
        """Now if there are results; else when the first record times out, or soon if the task cannot be woken."""
        if not self._queue.size and not self._restored:
            return None
        now = self.context.processing_time()
        if self._restored or self._requests.ready():
            return now
        if self.context.wake is None:
            return now + 1
        left = self._waiting.left(self._clock.monotonic())
        return None if left == math.inf else now + math.ceil(left * 1000 - _ROUNDING)

    def tick(self, now: int) -> None:
        """Send on ready results."""
        self._resume()
        self._settle()

    def _notify(self) -> None:
        """Notify the task that there are results; runs in the event loop's thread."""
        wake = self.context.wake
        if wake is not None:
            wake()

    def _patience(self) -> float:
        return min(_PATIENCE, max(self._waiting.left(self._clock.monotonic()), 0.0005))

    def _send(self) -> None:
        if self._unsent:
            unsent, self._unsent = self._unsent, []
            self._requests.begin(unsent)

    def _settle(self, wait: float = 0.0) -> None:
        """Complete finished requests, time out overdue ones, emit the results that may be emitted."""
        for request in self._requests.finished(wait):
            if not request.abandoned:
                self._finish(request)
        while (entry := self._waiting.overdue(self._clock.monotonic())) is not None:
            self._give_up(entry)
        self._queue.emit(self.output)

    def _finish(self, request: AsyncRequest) -> None:
        value = request.value
        if request.error is not None:
            self._fail(value, request.error)
        result = self._checked(value, request.result)
        if self._cache is not None:
            self._unshare(request)
            self._cache.put(request.key, result, self._clock.monotonic())
        for entry in request.waiters:
            self._waiting.remove(entry)
            self._complete(entry, result)

    def _complete(self, entry: QueueEntry, result: list[Any]) -> None:
        value, combine = entry.value, self._combine
        self._queue.complete(entry, result if combine is None else self._checked(value, combine(value, result)))

    def _give_up(self, entry: QueueEntry) -> None:
        value, request = entry.value, entry.request
        self._timeouts.inc()
        request.waiters.remove(entry)
        if not request.waiters:
            self._unshare(request)
            self._requests.abandon(request)
        self._waiting.remove(entry)
        self._queue.complete(entry, self._checked(value, self._on_timeout(value)))

    def _unshare(self, request: AsyncRequest) -> None:
        if self._shared.get(request.key) is request:  # else it was too old to be joined, and has a successor
            del self._shared[request.key]

    @property
    def _written(self) -> object:
        """The plain ``async def`` of the program, if it gave one."""
        return getattr(self._function, "_function", None)

    def _checked(self, value: Any, result: Any) -> list[Any]:
        if isinstance(result, Iterable) and not isinstance(result, str | bytes):
            return list(result)
        what = "cannot be none" if result is None else f"should be of list type, but is {result!r}"
        written = self._written
        place = (
            f"function {written.__name__!r}"
            if isinstance(written, FunctionType)
            else (f"methods 'async_invoke' and 'timeout' of class {type(self._function).__name__!r}")
        )
        raise TypeError(
            f"The result of AsyncFunction {what}. Please check the {place}: return a list, an empty one for no result."
        )

    @staticmethod
    def _fail(value: Any, error: Exception) -> NoReturn:
        """Raise a request's exception; the value is here for the message that names the record."""
        raise error


def _no_timeout(value: Any) -> NoReturn:
    raise TimeoutError(f"Async function call has timed out for input: {value}. {REMEDY_TIMEOUT}")


REMEDY_TIMEOUT = "Raise timeout=, or return results from timeout() of an AsyncFunction."


def _nothing(*arguments: Any) -> None:
    """Stand in for ``open`` and ``close`` of a function that has none."""


# ---- The requests of an asynchronous operator, in an event loop that has a thread of its own.
#
# The only place where the two threads meet. The operator's thread hands requests over (``begin``, ``abandon``) and
# takes back those that are finished (``finished``); a request belongs to the loop in between. The loop never emits,
# never touches the operator, and calls ``notify``, once until ``finished`` is called, when there are results to
# take.


T = TypeVar("T")

_GRACE_SECONDS = 5.0
_THREADS = 32
"""The time (s) in which cancelled requests, and the loop itself, have to end."""


class AsyncRequest:
    """One request, with all its attempts: for one record, or for several that share it.

    ``deadline`` is when the last of them times out; ``abandoned``: all of them have.
    """

    __slots__ = ("abandoned", "deadline", "error", "key", "result", "task", "value", "waiters")

    def __init__(self, value: Any, waiter: QueueEntry, key: Hashable = None) -> None:
        self.value = value
        self.waiters = [waiter]
        self.key = key
        self.deadline = waiter.deadline
        self.abandoned = False
        self.result: Any = None
        self.error: Exception | None = None
        self.task: asyncio.Task[None] | None = None

    def join(self, waiter: QueueEntry) -> None:
        """Let one more record wait for the result."""
        self.waiters.append(waiter)
        self.deadline = waiter.deadline


class RequestLoop:
    """Runs requests: ``invoke(value)`` as often as ``strategy`` says."""

    def __init__(
        self,
        invoke: Callable[[Any], Awaitable[Any]],
        strategy: AsyncRetryStrategy,
        clock: Clock,
        notify: Callable[[], None],
        retries: Counter,
    ) -> None:
        self._invoke = invoke
        self._strategy = strategy
        predicate = strategy.get_retry_predicate()
        self._result_predicate = predicate.result_predicate() or _never
        self._exception_predicate = predicate.exception_predicate() or _never
        self._clock = clock
        self._notify = notify
        self._retries = retries
        self._running: set[AsyncRequest] = set()
        self._done: TimedQueue[AsyncRequest] = TimedQueue()
        self._told = False
        self._ending = False
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(DaemonThreadPool(_THREADS, "funken-async"))  # of asyncio.to_thread()
        self._thread = threading.Thread(target=self._run, name="funken-async", daemon=True)
        self._thread.start()

    # ---- called by the operator's thread

    def begin(self, requests: list[AsyncRequest]) -> None:
        """Start requests."""
        self._loop.call_soon_threadsafe(self._begin, requests)

    def abandon(self, request: AsyncRequest) -> None:
        """Cancel a request that no record waits for."""
        request.abandoned = True
        self._loop.call_soon_threadsafe(self._cancel, [request])

    def ready(self) -> bool:
        """Return True if there is a result to take."""
        return not self._done.empty()

    def finished(self, wait: float = 0.0) -> list[AsyncRequest]:
        """Take the requests that finished since the last call; wait up to ``wait`` s for the first one."""
        # Before looking: what comes after is announced again.
        self._told = False
        found: list[AsyncRequest] = []
        with contextlib.suppress(Empty):
            if wait > 0:
                found.append(self._done.get(timeout=wait))
            while True:
                found.append(self._done.get_nowait())
        return found

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine in the loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout)

    def cancel_all(self) -> None:
        """Stop all requests."""
        with contextlib.suppress(TimeoutError):
            self.run(self._end(lambda: [request.task for request in self._running if request.task]), _GRACE_SECONDS)

    def stop(self) -> None:
        """Stop everything that runs in the loop, and the loop. A thread that user code keeps busy is left behind."""
        with contextlib.suppress(TimeoutError):
            self.run(self._end(asyncio.all_tasks), _GRACE_SECONDS)
        self._ending = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_GRACE_SECONDS)

    # ---- in the loop's thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._ending:  # user code may stop the loop, or raise SystemExit in a task of its own
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _begin(self, requests: list[AsyncRequest]) -> None:
        for request in requests:
            if not request.abandoned:
                self._running.add(request)
                request.task = self._loop.create_task(self._attend(request))

    def _cancel(self, requests: Iterable[AsyncRequest]) -> None:
        for request in requests:
            if request.task is not None:
                request.task.cancel()

    async def _end(self, tasks: Callable[[], Iterable[asyncio.Task[Any]]]) -> None:
        for request in self._running:
            request.abandoned = True
        ending = set(tasks()) - {asyncio.current_task()}
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending, timeout=_GRACE_SECONDS / 2)

    async def _attend(self, request: AsyncRequest) -> None:
        try:
            if not await self._attempt(request):
                return
        except Exception as error:  # noqa: BLE001 - raised again in the operator's thread
            request.error = error
        except BaseException as end:
            if request.abandoned:
                raise
            request.error = RuntimeError(f"async_invoke() ended with {end!r}")
            request.error.__cause__ = end
        finally:
            self._running.discard(request)
        self._done.put(request)
        if not self._told:
            self._told = True
            self._notify()

    async def _attempt(self, request: AsyncRequest) -> bool:
        """Make attempts until one is good enough, or the last one allowed; false: no time is left for another."""
        attempts = 1
        while True:
            try:
                result = await self._invoke(request.value)
            except Exception as error:
                if not self._exception_predicate(error) or not self._strategy.can_retry(attempts):
                    raise
            else:
                good = result is None or not self._result_predicate(result)
                if good or not self._strategy.can_retry(attempts):
                    request.result = result
                    return True
            if self._clock.monotonic() >= request.deadline:
                return False
            self._retries.inc()
            await asyncio.sleep(self._strategy.get_backoff_time_millis(attempts) / 1000)
            attempts += 1


def _never(result: Any) -> bool:
    return False
