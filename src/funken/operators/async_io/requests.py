"""The requests of an asynchronous operator, in an event loop that has a thread of its own.

The only place where the two threads meet. The operator's thread hands requests over (``begin``, ``abandon``) and takes
back those that are finished (``finished``); a request belongs to the loop in between. The loop never emits, never
touches the operator, and calls ``notify``, once until ``finished`` is called, when there are results to take.

This module is imported when the first such operator opens: importing ``asyncio`` takes 45 ms, and few jobs need it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable
from queue import Empty
from typing import Any, TypeVar

from funken.metrics.registry import Counter
from funken.operators.async_io.queues import QueueEntry
from funken.operators.async_io.retry import AsyncRetryStrategy
from funken.timing.clock import Clock
from funken.timing.queues import TimedQueue

T = TypeVar("T")

_GRACE_SECONDS = 5.0
"""How long cancelled requests, and the loop itself, may take to end."""


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
        """Whether there is something to take."""
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


__all__ = ["AsyncRequest", "RequestLoop"]
