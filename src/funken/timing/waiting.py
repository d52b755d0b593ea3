"""Waits of the program's own thread that Ctrl-C can end.

The system may hand a signal to any thread of the process, but Python runs its handler in the main thread only, and a
main thread that waits without a bound is not woken for it: the Ctrl-C is lost. So these waits look up now and then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from funken.timing.clock import SystemClock

T = TypeVar("T")

_LOOK_SECONDS = 0.1


def result_of(future: Future[T]) -> T:
    """Wait for a future's result and return it, or raise what it raises; ``KeyboardInterrupt`` in between."""
    while not future.done():
        wait([future], _LOOK_SECONDS)
    return future.result()


def came(event: threading.Event, seconds: float) -> bool:
    """Wait for an event, at most so long; returns whether it came. ``KeyboardInterrupt`` in between."""
    now = SystemClock().monotonic
    end = now() + seconds
    while not event.is_set() and (left := end - now()) > 0:
        event.wait(min(left, _LOOK_SECONDS))
    return event.is_set()


def pause(seconds: float) -> None:
    """Let some time pass; ``KeyboardInterrupt`` in between."""
    came(threading.Event(), seconds)


def until(condition: threading.Condition, holds: Callable[[], bool]) -> None:
    """Wait, holding ``condition``'s lock, until something holds; raises ``KeyboardInterrupt`` in between."""
    while not condition.wait_for(holds, _LOOK_SECONDS):
        pass
