"""Asynchronous I/O: asking an external service for each record without waiting for one answer at a time.

``AsyncDataStream`` adds the operator, ``AsyncFunction`` is what users write. ``blocking`` lets functions take part that
are not coroutines, and ``cached`` remembers results; both wrap a function where it is given.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, overload

from funken.api.streams.settings import typed
from funken.config.configuration import warn
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.io.durations import duration_ms, in_ms, is_bare
from funken.operators.async_io.operator import REMEDY_TIMEOUT, AsyncWait
from funken.operators.async_io.retry import NO_RETRY_STRATEGY, AsyncRetryStrategy, CacheSpec
from funken.operators.base import RuntimeContext
from funken.types.callables import A, Generic, IN_contra, OUT_co, R, S, T, check_methods, shown_function

if TYPE_CHECKING:
    from funken.api.streams.stream import DataStream
    from funken.io.durations import DurationLike
    from funken.io.threads import DaemonThreadPool
    from funken.types.info import TypeInformation


class AsyncFunction(Generic[IN_contra, OUT_co]):
    """Asks for something, record by record; ``open`` and ``close`` may be coroutines too.

    All coroutines run in one event loop, which has a thread of its own in each subtask.

    >>> import asyncio
    >>> from funken.testing import local
    >>> class Lookup(AsyncFunction):
    ...     async def open(self, runtime_context):
    ...         self.answers = {"a": "quick"}  # a session of a client, in earnest
    ...     async def async_invoke(self, value):
    ...         if value not in self.answers:
    ...             await asyncio.sleep(60)
    ...         return [(value, self.answers[value])]
    ...     def timeout(self, value):
    ...         return [(value, "too slow")]
    ...     async def close(self):
    ...         self.answers.clear()
    >>> AsyncDataStream.ordered_wait(local(["a"]), Lookup(), timeout="5 s").execute_and_collect(limit=1)
    [('a', 'quick')]
    >>> AsyncDataStream.ordered_wait(local(["b"]), Lookup(), timeout="5 ms").execute_and_collect(limit=1)
    [('b', 'too slow')]
    """

    def open(self, runtime_context: RuntimeContext) -> Awaitable[None] | None:
        """Prepare; runs in the worker before the first record of an attempt."""
        return None

    def close(self) -> Awaitable[None] | None:
        """Release the resources of ``open``; runs after the last record, and after a failure."""
        return None

    async def async_invoke(self, value: IN_contra) -> list[OUT_co]:
        """Return the list of results for a record; an exception fails the job, or is followed by another try."""
        raise NotImplementedError

    def timeout(self, value: IN_contra) -> list[OUT_co]:
        """Return the results for a record whose request took too long; by default raises ``TimeoutError``."""
        raise TimeoutError(f"Async function call has timed out for input: {value}. {REMEDY_TIMEOUT}")


class Invokes(Protocol[IN_contra, T]):
    """An object with a method that blocks, for ``blocking``."""

    def async_invoke(self, value: IN_contra) -> list[T]:
        """Return the list of results for a record."""
        ...


class _Coroutine(AsyncFunction[IN_contra, OUT_co]):
    """A coroutine function as an ``AsyncFunction``."""

    def __init__(self, function: Callable[[IN_contra], Awaitable[list[OUT_co]]]) -> None:
        self._function = function

    async def async_invoke(self, value: IN_contra) -> list[OUT_co]:
        """Await the function."""
        return await self._function(value)


class Blocking(AsyncFunction[IN_contra, OUT_co]):
    """A function that blocks, run in a pool of threads; made by ``blocking``."""

    _pool: DaemonThreadPool

    def __init__(self, function: Any, threads: int) -> None:
        self._function = function
        self._threads = threads
        self._invoke: Callable[[IN_contra], list[OUT_co]] = getattr(function, "async_invoke", function)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the function, make the pool."""
        from funken.io.threads import DaemonThreadPool

        if hasattr(self._function, "open"):
            self._function.open(runtime_context)
        self._pool = DaemonThreadPool(self._threads, "funken-blocking")

    async def async_invoke(self, value: IN_contra) -> list[OUT_co]:
        """Call the function in the pool."""
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(self._pool, self._invoke, value)

    def timeout(self, value: IN_contra) -> list[OUT_co]:
        """Ask the function, if it has an answer."""
        results: list[OUT_co] = getattr(self._function, "timeout", super().timeout)(value)
        return results

    def close(self) -> None:
        """Release the pool, without waiting for calls that nobody waits for, and close the function."""
        if hasattr(self, "_pool"):
            self._pool.shutdown(wait=False, cancel_futures=True)
        if hasattr(self._function, "close"):
            self._function.close()


def blocking(function: Callable[[S], list[R]] | Invokes[S, R], threads: int = 32) -> Blocking[S, R]:
    """Make an asynchronous function of one that blocks: it runs in a pool of ``threads`` threads per subtask.

    ``function(value)`` returns a list of results, as ``async_invoke`` does. It may also be an object whose
    ``async_invoke`` is no coroutine; then its ``open``, ``close`` and ``timeout`` are used too. A call that is given up
    after a timeout goes on in its thread until it returns: give clients timeouts of their own.

    >>> from funken import AsyncDataStream
    >>> from funken.testing import local
    >>> def lookup(key):
    ...     return [{"a": 1, "b": 2}[key]]
    >>> AsyncDataStream.ordered_wait(local(["b", "a"]), blocking(lookup, threads=4), "1 s").execute_and_collect(limit=2)
    [2, 1]
    """
    invoke = getattr(function, "async_invoke", function)
    is_class = isinstance(function, type) and invoke is not function
    if is_class or not callable(invoke) or inspect.iscoroutinefunction(invoke):
        raise TypeError(
            f"blocking() needs a function that is no coroutine, or an object with one, but got {function!r}"
        )
    if threads < 1:
        raise InvalidProgram(f"blocking() needs at least one thread, but got {threads}.")
    return Blocking(function, threads)


@dataclass(frozen=True)
class Cached(Generic[IN_contra, OUT_co]):
    """An asynchronous function whose results are kept for a while; made by ``cached``."""

    function: Any
    cache: CacheSpec


@overload
def cached(
    async_function: Callable[[S], Awaitable[list[R]]] | AsyncFunction[S, R],
    ttl: DurationLike,
    max_size: int = 10_000,
    key: Callable[[S], Hashable] | None = None,
    combine: None = None,
) -> Cached[S, R]: ...
@overload
def cached(
    async_function: Callable[[S], Awaitable[list[R]]] | AsyncFunction[S, R],
    ttl: DurationLike,
    max_size: int = 10_000,
    key: Callable[[S], Hashable] | None = None,
    *,
    combine: Callable[[S, list[R]], Iterable[A]],
) -> Cached[S, A]: ...
def cached(
    async_function: Callable[[S], Awaitable[list[R]]] | AsyncFunction[S, R],
    ttl: DurationLike,
    max_size: int = 10_000,
    key: Callable[[S], Hashable] | None = None,
    combine: Callable[[S, list[R]], Iterable[A]] | None = None,
) -> Cached[S, Any]:
    """Keep the results of an asynchronous function for ``ttl`` (``timedelta``, ``"1 s"``, or ms).

    Records with equal keys (``key(value)``, by default the value itself) get the result of the first one, also while
    its request is still under way; ``combine(value, results)`` makes each record's own of it. Each subtask has a cache
    of its own: key the stream to ask once in all. When there are more than ``max_size`` results, the oldest goes.
    Exceptions and results of ``timeout`` are not kept.

    >>> from funken import AsyncDataStream
    >>> from funken.testing import local
    >>> async def price(order):
    ...     return [{"tea": 3, "jam": 5}[order[1]]]  # asked once for tea
    >>> orders = local([(1, "tea"), (2, "jam"), (3, "tea")])
    >>> prices = cached(price, ttl="10 s", key=lambda order: order[1], combine=lambda order, found: [(*order, *found)])
    >>> AsyncDataStream.ordered_wait(orders, prices, timeout="1 s").execute_and_collect(limit=3)
    [(1, 'tea', 3), (2, 'jam', 5), (3, 'tea', 3)]
    """
    if isinstance(async_function, Cached):
        raise TypeError("cached() got a function that is cached already")
    return Cached(_as_async(async_function), CacheSpec(duration_ms(ttl), max_size, key, combine))


if TYPE_CHECKING:
    Requests: TypeAlias = Callable[[S], Awaitable[list[R]]] | AsyncFunction[S, R] | Cached[S, R]
    """The maker of a record's request."""


def _as_async(function: object) -> Any:
    """Return an object with ``async_invoke``; raise ``TypeError`` for a function that is not asynchronous."""
    if isinstance(function, type) and hasattr(function, "async_invoke"):
        raise TypeError(f"AsyncDataStream got the class {function.__name__}; give an instance: {function.__name__}()")
    if inspect.iscoroutinefunction(function):
        return _Coroutine(function)
    invoke = getattr(function, "async_invoke", None)
    if isinstance(function, AsyncFunction):
        check_methods(function, AsyncFunction, "AsyncDataStream")
    if invoke is None:
        raise TypeError(
            f"AsyncDataStream needs an AsyncFunction or an 'async def' function, but got {shown_function(function)}. For a "
            "function that blocks, give blocking(function)."
        )
    if not inspect.iscoroutinefunction(invoke):
        raise TypeError(
            f"Method 'async_invoke' of class {type(function).__name__!r} should be declared as 'async def'. If it "
            "blocks, give blocking(function) instead."
        )
    return function


class AsyncDataStream:
    """Adds asynchronous functions to streams.

    A function is an ``AsyncFunction``, an ``async def`` function, ``blocking(...)``, or any of them in ``cached(...)``.
    ``timeout`` (``Time``, ``timedelta``, ``"5 s"``, or ms; 0: none) is for a record, with all attempts. Up to
    ``capacity`` records per subtask wait at once; then the stream waits. Watermarks are never overtaken, and results
    carry the timestamps of their records.

    Raises ``TypeError`` for a function that is not asynchronous, ``InvalidProgram`` for settings that contradict.

    >>> import asyncio
    >>> from funken import AsyncRetryStrategy, async_retry_predicates
    >>> from funken.testing import local
    >>> async def twice(value):
    ...     await asyncio.sleep(0.002 if value == 1 else 0)
    ...     return [value * 2]
    >>> AsyncDataStream.ordered_wait(local([1, 2]), twice, timeout="5 s", capacity=10).execute_and_collect(limit=2)
    [2, 4]
    >>> sorted(AsyncDataStream.unordered_wait(local([1, 2]), twice, timeout="5 s").execute_and_collect(limit=2))
    [2, 4]

    A request may be made again, if it failed or its result is not good enough:

    >>> class Flaky(AsyncFunction):
    ...     def open(self, runtime_context):
    ...         self.attempts = 0
    ...     async def async_invoke(self, value):
    ...         self.attempts += 1
    ...         if self.attempts < 3:
    ...             raise ConnectionError("not yet")
    ...         return [f"{value}: attempt {self.attempts}"]
    >>> strategy = AsyncRetryStrategy.fixed_delay(
    ...     max_attempts=5, backoff_time_millis=1, exception_predicate=async_retry_predicates.has_exception_predicate
    ... )
    >>> for wait in AsyncDataStream.ordered_wait_with_retry, AsyncDataStream.unordered_wait_with_retry:
    ...     wait(local(["a"]), Flaky(), timeout="5 s", async_retry_strategy=strategy).execute_and_collect(limit=1)
    ['a: attempt 3']
    ['a: attempt 3']
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream[S],
        async_function: Requests[S, R],
        timeout: DurationLike,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Emit results as they come; only watermarks keep their place."""
        return _add(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, ordered=False)

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[S],
        async_function: Requests[S, R],
        timeout: DurationLike,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Emit results as they come, and make requests again as the strategy says; needs a timeout (all attempts)."""
        return _add(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, ordered=False)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream[S],
        async_function: Requests[S, R],
        timeout: DurationLike,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Emit results in the order of the records."""
        return _add(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, ordered=True)

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[S],
        async_function: Requests[S, R],
        timeout: DurationLike,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Emit results in the order of the records, and make requests again as the strategy says; needs a timeout."""
        return _add(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, ordered=True)


def _add(
    stream: DataStream[Any],
    function: object,
    timeout: DurationLike,
    retry: AsyncRetryStrategy,
    capacity: int,
    output_type: TypeInformation | None,
    *,
    ordered: bool,
) -> DataStream[Any]:
    cache = None
    if isinstance(function, Cached):
        cache = function.cache
        function = function.function
    timeout_ms = duration_ms(timeout)
    if is_bare(timeout):
        warn(in_ms("a request of AsyncDataStream fails after", timeout_ms))
    if retry is None:
        raise InvalidProgram("Async retry strategy should not be None; give AsyncRetryStrategy.no_restart() for none.")
    if retry is not NO_RETRY_STRATEGY and timeout_ms <= 0:
        raise InvalidProgram("Timeout should be configured when do async with retry: it bounds all attempts together.")
    if retry.get_retry_predicate() is None:
        raise InvalidProgram(f"Retry predicate of the async retry strategy {retry!r} is None.")
    spec = AsyncWait(_as_async(function), timeout_ms, capacity, ordered, retry, cache)
    return typed(stream._then("async wait", spec), output_type)
