"""The loop around a task: in which order it advances, receives, works, polls, sends, flushes and reports.

There is one such loop. Spark's worker, the local runner (and with it the test kit) and the simulation turn it; they differ in
what they inject: the mailbox, where events go, the clock, and who takes what is sent. Nothing here blocks, sleeps or starts a
thread. A turn is

1. ``advance``: tick what is due, become unaligned, materialize,
2. *receive* from the mailbox while no block is queued, or while a barrier that is received may overtake those that are,
3. *step*: process a queued block; 2 and 3 as many times as the turn is given blocks,
4. *poll* the sources if no block is queued,
5. *send* what came of it,
6. *flush* and send: when the buffer timeout has passed, or nothing else is to be done (sources: but not too often),
7. *report*: by how much records queued too long, or what comes through while the job begins, and the metrics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Protocol

from funken.runtime.messages import TaskEvent
from funken.runtime.task.task import Task
from funken.timing.clock import Clock

IDLE_FLUSH_SECONDS = 0.001
"""Sources that have nothing more to read flush no more often than this,"""
_COSTS = 5
"""nor than so many times what a flush takes,"""
_DELAYS = 4
"""nor than so many times by how much they are woken too late: cores that are busy have no time for more blocks."""
_MOST_TIMEOUTS = 20
"""A task that is kept from its core flushes after so many buffer timeouts, whatever it had of them."""
MEASURE_SECONDS = 0.5
"""How often a task reports its metrics."""


class Mailbox(Protocol):
    """What has arrived for a task: blocks and commands, in one order."""

    def empty(self) -> bool:
        """Whether nothing has arrived."""

    def deliver(self) -> bool:
        """Give the oldest to the task; return whether the turn goes on, or the task is to advance first."""

    def processed(self) -> None:
        """A block was processed."""

    def flushes(self) -> bool:
        """Whether the task flushes in this turn if no block is queued, whatever the buffer timeout."""


class TaskLoop:
    """Turns one task; ``timeout`` is the buffer timeout (s), negative: only full blocks are sent.

    ``reports_delay``: whether the driver is to throttle the sources by what queues here.
    """

    def __init__(
        self, task: Task, mailbox: Mailbox, report: Callable[[TaskEvent], None], clock: Clock, timeout: float,
        reports_delay: bool,
    ) -> None:  # fmt: skip
        self.task = task
        self.mailbox = mailbox
        self.wait = 0.0
        """For how long (ms) nothing is to be done after the last turn unless something arrives; ``inf``: there is no limit."""
        self._report = report
        self._clock = clock
        self._timeout = timeout
        self._reports_delay = reports_delay
        self._flushed = self._measured = self._told = clock.monotonic()
        #: how long (s) a flush takes, and by how much turns are late, on average
        self._cost = self._late = 0.0
        #: when the next turn is due, if nothing arrives
        self._due = math.inf
        #: when a busy task flushed, and how long (s) it had been kept from a core by then
        self._kept: tuple[float, float | None] = (0.0, None)
        #: when the last turn ended, if it was to wait; for how long (s) sources had to pause
        self._ended = self._paused = 0.0
        #: until when it is not looked at again
        self._fills = 0.0

    def turn(self, blocks: int = 1, may_poll: bool = True, seconds: float = math.inf) -> Iterator[bool]:
        """Turn once, with so many blocks and seconds at most. Sources are not polled unless they may be: their output is full.

        Yields when the task's ``outbox`` is to be taken: whether it must not be held back on its way.
        """
        task = self.task
        if self._due < math.inf:
            now = self._clock.monotonic()
            self._late += (max(0.0, now - self._due) - self._late) / 8
            if task.throttle.pausing:
                self._paused += now - self._ended
        self.wait = self._work(task.advance(), blocks, may_poll, seconds)
        if task.outbox:
            yield task.take_urgent_flush()
        now = self._clock.monotonic()
        if self._timeout >= 0 and self._flush_is_due(now):
            self._flushed = now
            task.flush()
            yield True
            self._cost += (self._clock.monotonic() - now - self._cost) / 8
        if self._reports_delay and now - self._told >= task.throttle.tells_after:
            self._told = now
            if (report := task.throttle.take_report(idle=self.wait > 0)) is not None:
                self._report(report)
        if now - self._measured >= MEASURE_SECONDS:
            self._measured = now
            self._report(task.measured())
        self._due = math.inf
        if self.wait > 0:
            if self._reports_delay and task.throttle.begins():
                self.wait = min(self.wait, round(1000 * max(task.throttle.every - (now - self._told), 0.001), 6))
            self._ended = self._clock.monotonic()
            self._due = self._ended + self.wait / 1000
            task.throttle.on_idle()

    def _work(self, due: int | None, blocks: int, may_poll: bool, seconds: float) -> float:
        """Receive, process and poll; return for how long (ms) nothing is to be done."""
        task, mailbox = self.task, self.mailbox
        worked = 0
        until = self._clock.monotonic() + seconds if seconds < math.inf else math.inf
        while True:
            while not mailbox.empty() and (task.looks_ahead or not task.work):
                if not mailbox.deliver():
                    return 0.0
            if task.work and worked < blocks:
                task.step()
                worked += 1
                mailbox.processed()
                if until < math.inf and self._clock.monotonic() >= until:
                    break
            if worked >= blocks or (not task.work and mailbox.empty()):
                break
        wait = 0.0 if worked or task.work or task.materializing else math.inf
        if due is not None and wait:
            # What is overdue right after it was looked after is not due again before the clock moves.
            wait = max(round(due - self._clock.wall() * 1000, 6), 0.0) or 1.0
        if task.has_sources and not task.work:
            if not may_poll:
                task.meter.hold()
            else:
                found = task.poll()
                wait = 0.0 if found is None else min(wait, found)
        return wait

    def _flush_is_due(self, now: float) -> bool:
        task, timeout = self.task, self._timeout
        if not task.work and self.mailbox.flushes():
            return True
        if self.wait > 0 and task.has_sources and not task.throttle.pausing and task.flushing.waiting:
            timeout = min(timeout, max(IDLE_FLUSH_SECONDS, _COSTS * self._cost, _DELAYS * self._late))
        left = max(timeout, task.throttle.min_flush_delay()) - (now - self._flushed)
        if left <= 0 and (not self.wait or task.throttle.pausing):
            left = self._still_fills(now)
        if left > 0:
            self.wait = min(self.wait, round(left * 1000, 6))
        return left <= 0

    def _still_fills(self, now: float) -> float:
        """Return for how long (s) blocks are still filled by a task that has work, but not always a core, or may not read on.

        That time does not fill blocks, and there is the less of a core the more is spent on blocks.
        """
        at, before = self._kept
        if at != self._flushed:  # it was idle when it flushed last, and nothing is known of the time since
            self._kept = (now, self._kept_back())
            return 0.0
        if now < self._fills:
            return self._fills - now
        kept, past = self._kept_back(), now - self._flushed
        if before is not None and kept is not None:
            left = min(self._timeout - past + min(kept - before, past), _MOST_TIMEOUTS * self._timeout - past)
            if left > 0:
                self._fills = now + left
                return left
        self._kept = (now, kept)
        return 0.0

    def _kept_back(self) -> float | None:
        """Return for how long (s) the task had no core, or its sources paused; ``None``: nobody knows."""
        delay = self._clock.run_delay()
        return None if delay is None else delay + self._paused
