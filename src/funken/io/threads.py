"""Threads for calls that may never return: they do not keep the process alive.

Python waits for the threads of a ``ThreadPoolExecutor`` when the program ends: a call without a timeout, of a client of the user
or of a database, then keeps the process alive for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_Call = tuple[Future[Any], Callable[[], Any]]


class DaemonThreadPool(ThreadPoolExecutor):
    """A pool of threads that end with the process, whatever they are at.

    It is a ``ThreadPoolExecutor`` in type only, which asyncio asks for.

    >>> pool = DaemonThreadPool(2, "funken-doctest")
    >>> pool.submit(pow, 2, 3).result(timeout=10), list(pool.map(abs, [-1, 2]))
    (8, [1, 2])
    >>> pool.shutdown()
    """

    def __init__(self, threads: int, name: str) -> None:
        super().__init__(threads, name)
        self._limit = threads
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._changing = threading.Lock()
        self._open_calls = 0
        self._daemons: list[threading.Thread] = []
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a function called in a thread. Raises ``RuntimeError`` after ``shutdown``."""
        future: Future[T] = Future()
        with self._changing:
            if self._closed:
                raise RuntimeError(f"the threads of {self._name!r} take no calls after shutdown()")
            self._open_calls += 1
            self._calls.put((future, partial(fn, *args, **kwargs)))
            if len(self._daemons) < min(self._limit, self._open_calls):
                name = f"{self._name}_{len(self._daemons)}"
                self._daemons.append(threading.Thread(target=self._run, name=name, daemon=True))
                self._daemons[-1].start()
        return future

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            future, work = call
            if future.set_running_or_notify_cancel():
                try:
                    result = work()
                except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
                    future.set_exception(error)
                else:
                    future.set_result(result)
                    del result
            del call, future, work  # so that nothing is kept while the thread waits
            with self._changing:
                self._open_calls -= 1
        self._calls.put(None)  # for the next thread

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; ``wait``: until all calls have returned, ``cancel_futures``: begin none of those that wait."""
        with self._changing:
            self._closed = True
            if cancel_futures:
                self._cancel_waiting()
            self._calls.put(None)
        if wait:
            for thread in self._daemons:
                thread.join()

    def _cancel_waiting(self) -> None:
        while True:
            try:
                call = self._calls.get_nowait()
            except Empty:
                return
            if call is not None:
                call[0].cancel()
                self._open_calls -= 1


def in_daemon(name: str, work: Callable[[], T]) -> Future[T]:
    """Begin a call in a thread of its own, which ends with the process.

    >>> in_daemon("funken-doctest", lambda: 7).result(timeout=10)
    7
    """
    pool = DaemonThreadPool(1, name)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    return future
