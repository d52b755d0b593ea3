"""Keeping queues short under full load: tasks say how long records queued, saturated sources pause for the excess.

Spark's buffers bound what is in flight in bytes, which for small records is a tenth of a second. Flow control is still
theirs; this shortens the queues inside them. A task compares a block's age with the least age it has seen (which also
holds the clocks' difference between machines) and reports the excess over the target. A source that never had to wait
pauses for as long as the excess, so that the queue drains to the target; what was born before the pause ended says
nothing about the queue after it and is ignored. Paced and idle sources are left alone.
"""

from __future__ import annotations

_LONGEST_PAUSE = 0.25
_BASELINE_DRIFT = 1e-5


class Queueing:
    """One task's view: of the queue before it, and of the pauses its sources owe."""

    def __init__(self, target: float) -> None:
        self._target = target
        self._least: float | None = None
        self._last = 0.0
        self._late: tuple[float, float] | None = None
        self._resume = 0.0
        self.saturated = False

    def saw(self, born: float, age: float) -> None:
        """Note a block: when it was born, and how old it was when it was handled (s).

        >>> queueing = Queueing(0.025)
        >>> queueing.saw(10.0, 0.005); queueing.take()
        >>> queueing.saw(11.0, 0.105); born, excess = queueing.take(); born, round(excess, 3)
        (11.0, 0.075)
        """
        if self._least is None or age < self._least:
            self._least, self._last = age, born
        elif born > self._last:
            # Clocks of two machines drift apart, by no more than this.
            self._least += (born - self._last) * _BASELINE_DRIFT
        self._last = max(born, self._last)
        excess = age - self._least - self._target
        if excess > 0 and self._target > 0:
            self._late = (born, excess)

    def take(self) -> tuple[float, float] | None:
        """Return the newest block that queued too long since the last call."""
        late, self._late = self._late, None
        return late

    def throttle(self, born: float, excess: float, now: float) -> None:
        """A task downstream reported an excess: pause, if that tells something new and the source is what fills it."""
        if self.saturated and born > self._resume:
            self._resume = now + min(excess, _LONGEST_PAUSE)

    def pause(self, now: float) -> int:
        """Return how long to pause (ms), 0: not at all."""
        left = self._resume - now
        return max(1, int(left * 1000)) if left > 0 else 0
