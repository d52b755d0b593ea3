"""How long records queue before a task, as it tells the sources; what these do about it is in ``pacing.py``.

A task compares a block's age with the age of blocks that find nobody before them, which also holds the difference between
the clocks of two machines, and reports the excess over the target. That is the least age it has seen; but the least is too
much if there was a queue from the first block on, so it begins with a guess, and too little if clocks differ by more or
drift apart, so it is raised if all blocks that a task had to wait for are older, over some seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

_SECONDS, _MOST_SECONDS = 0.005, 0.25
_ORDERS = 2000
_FIRST_GUESS = 0.05
_PERIOD = 5.0
_ENOUGH = 20


def interval(widths: Sequence[int]) -> float:
    """Return how often (s) a task may tell: the driver passes it on to all of the first level, 2000 times a second at most.

    >>> interval([2, 2]), interval([8, 8])
    (0.005, 0.064)
    """
    return min(max(_SECONDS, sum(widths) * widths[0] / _ORDERS), _MOST_SECONDS)


class Queueing:
    """One task's view of the queue before it."""

    def __init__(self, target: float) -> None:
        self._target = target
        self._least = _FIRST_GUESS
        #: of the blocks that were waited for since ``_since``: how many, and the least age
        self._waited, self._awaited, self._since = 0, float("inf"), 0.0
        self._late: tuple[float, float] | None = None

    def saw(self, born: float, age: float, waited: bool = False) -> None:
        """Note a block: when it was born, and how old it was when it was handled (s); whether the task ``waited`` for it.

        >>> queueing = Queueing(0.025)
        >>> queueing.saw(10.0, 0.005); queueing.take()
        >>> queueing.saw(11.0, 0.105); born, excess = queueing.take(); born, round(excess, 3)
        (11.0, 0.075)
        """
        self._least = min(self._least, age)
        if waited:
            self._wait(born, age)
        excess = age - self._least - self._target
        if excess > 0 and self._target > 0:
            self._late = (born, excess)

    def _wait(self, born: float, age: float) -> None:
        self._waited += 1
        self._awaited = min(age, self._awaited)
        if born > self._since + _PERIOD:
            if self._waited >= _ENOUGH:
                self._least = max(self._least, self._awaited)
            self._waited, self._awaited, self._since = 0, float("inf"), born

    def take(self) -> tuple[float, float] | None:
        """Return the newest block that queued too long since the last call."""
        late, self._late = self._late, None
        return late
