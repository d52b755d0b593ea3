"""Asynchronous requests: many records wait for their results at once, and the stream goes on meanwhile.

The event loop has a thread of its own (``requests.py``); everything here runs in the task's thread, inside its
calls, and is the only part that emits. Guarantees:

* no result passes a watermark, and with ``ordered`` none passes another (``queues.py``);
* at most ``capacity`` records are in flight, and then ``process`` waits, sending on what becomes ready meanwhile;
* a record gets its result, or after ``timeout_ms`` that of the function's ``timeout``; what comes later is ignored;
* the end of the input waits for all results, and a snapshot contains the records in flight, which are requested anew.

Records of equal keys share one request while it is under way, and its result until it expires, if there is a ``cache``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Hashable, Iterable
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.ids import MIN_TIMESTAMP
from funken.operators.async_io.cache import CacheSpec, ResultCache
from funken.operators.async_io.queues import Deadlines, Mark, OrderedQueue, QueueEntry, ResultQueue, UnorderedQueue
from funken.operators.async_io.retry import NO_RETRY_STRATEGY, AsyncRetryStrategy
from funken.operators.base import Operator, Output, Timestamps, Values
from funken.operators.context import OperatorContext, RuntimeContext
from funken.timing.clock import Clock, SystemClock

if TYPE_CHECKING:
    from funken.operators.async_io.requests import AsyncRequest, RequestLoop

_PATIENCE = 0.05
"""How long to wait at once (s): then clocks that are not the machine's are looked at again."""

_ROUNDING = 1e-6
"""What a difference of two times may be too large by (ms)."""

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
        from funken.operators.async_io.requests import AsyncRequest, RequestLoop  # noqa: PLC0415 - see there

        self._new_request = AsyncRequest
        self._requests = RequestLoop(
            self._function.async_invoke, self._spec.retry, self._clock, self._notify, self._retries
        )
        self._opened = True
        opened = getattr(self._function, "open", _nothing)(RuntimeContext(self.context))
        if inspect.iscoroutine(opened):
            self._requests.run(opened)

    def close(self) -> None:
        """Stop what is under way, close the user's function, stop the event loop."""
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
        """Whether requests are under way."""
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
        """Send on what is ready."""
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

    def _checked(self, value: Any, result: Any) -> list[Any]:
        if isinstance(result, Iterable) and not isinstance(result, str | bytes):
            return list(result)
        what = "cannot be none" if result is None else f"should be of list type, but is {result!r}"
        raise TypeError(
            f"The result of AsyncFunction {what}. Please check the methods 'async_invoke' and 'timeout' of class "
            f"{type(self._function).__name__!r}: return a list, an empty one for no result."
        )

    @staticmethod
    def _fail(value: Any, error: Exception) -> NoReturn:
        """Raise what a request raised; the value is here for the message that names the record."""
        raise error


def _no_timeout(value: Any) -> NoReturn:
    raise TimeoutError(f"Async function call has timed out for input: {value}")


def _nothing(*arguments: Any) -> None:
    """Stand in for ``open`` and ``close`` of a function that has none."""


__all__ = ["AsyncWait", "AsyncWaitLogic"]
