"""Asynchronous requests without a thread: which of them has finished is drawn, so that a seed says it all."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from funken.operators.async_io import operator as async_requests
from funken.operators.async_io.operator import AsyncRequest


class DrawnRequests:
    """Stands in for ``RequestLoop``; a coroutine runs to its end when its request is drawn, and must not wait."""

    chance = random.Random(0)

    def __init__(self, invoke: Callable[[Any], Coroutine[Any, Any, Any]], *surroundings: Any) -> None:
        self._invoke = invoke
        self._running: list[AsyncRequest] = []

    def begin(self, requests: list[AsyncRequest]) -> None:
        """Start requests."""
        self._running += requests

    def abandon(self, request: AsyncRequest) -> None:
        """Stop a request."""
        self._running.remove(request)

    def ready(self) -> bool:
        """Whether there may be something to take."""
        return bool(self._running)

    def finished(self, wait: float = 0.0) -> list[AsyncRequest]:
        """Draw what has finished; something has if that is waited for."""
        least = 1 if wait and self._running else 0
        found = self.chance.sample(self._running, self.chance.randint(least, len(self._running)))
        for request in found:
            self._running.remove(request)
            request.result = self.run(self._invoke(request.value))
        return found

    def run(self, coroutine: Coroutine[Any, Any, Any], timeout: float | None = None) -> Any:
        """Run a coroutine to its end."""
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("a coroutine of a simulated program must not wait")

    def cancel_all(self) -> None:
        """Stop all requests."""
        self._running.clear()

    def stop(self) -> None:
        """There is nothing to stop."""


@contextlib.contextmanager
def drawn_requests(chance: random.Random) -> Iterator[None]:
    """Let asynchronous operators make their requests this way, in this process and for a while."""
    real = async_requests.RequestLoop
    DrawnRequests.chance = chance
    async_requests.RequestLoop = DrawnRequests  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        async_requests.RequestLoop = real  # type: ignore[misc]
