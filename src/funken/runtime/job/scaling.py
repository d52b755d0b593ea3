"""The choice of a job's parallelism as a pure state machine: observations and the time in, at most one command out.

============================================  =========================================================================
what is observed                              what follows
============================================  =========================================================================
slots for more, for as long as they have to   Rescale up to what they suffice for (adaptive), or to what the load asks for
be there
a source is held back, or the busiest vertex  the load asks for as much as makes that vertex as busy as ``target``
is busier than ``most``, over the window
the busiest vertex is less busy than          the load asks for as little as makes it as busy as ``target``
``least``, over the window
Begun                                         an attempt runs: what was seen before counts no more, the pause begins
Refused                                       the job has kept its parallelism: the pause begins, and is twice as long
============================================  =========================================================================

Rules:

* At most one command is under way; ``Begun`` and ``Refused`` answer it.
* A command is for a parallelism from ``lowest`` to ``highest``, and beyond the present one only if there are slots for it.
* By load, the parallelism at most doubles or halves at a time.
* Slots that go away do not lower the parallelism: tasks that are lost end the attempt, and the next one begins with what is
  there.

Times are ms of a clock that never goes back.
"""

from __future__ import annotations

from collections import deque
from math import ceil

from funken import config
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration
from funken.ids import Millis

_PRESSED = 0.1
"""From which share of its time in which a source is held back it counts (Flink's dashboard says "low" from there)."""
_STEP = 2
_LONGEST = 16


@dataclass(frozen=True, slots=True)
class ScalingSettings:
    """The settings of the machine; times in ms, shares from 0 to 1."""

    by_load: bool
    lowest: int
    highest: int
    least_increase: int = 1
    pause: int = 30_000
    slots_for: int = 60_000
    """For how long slots have to be there."""
    target: float = 0.7
    least: float = 0.4
    most: float = 1.0
    window: int = 900_000
    settle: int = 300_000
    """For how long after a start or a change load does not count."""

    @staticmethod
    def of(configuration: Configuration, parallelism: int) -> ScalingSettings | None:
        """Read them; ``None`` if the job keeps its parallelism, ``parallelism``.

        Raises ``InvalidConfiguration`` if the least parallelism is above the greatest.

        >>> ScalingSettings.of(Configuration(), 4)
        >>> found = ScalingSettings.of(Configuration({"jobmanager.scheduler": "adaptive"}), 4)
        >>> found.by_load, found.lowest, found.highest
        (False, 1, 4)
        """
        get = configuration.get
        by_load = get(config.AUTOSCALER)
        if not by_load and get(config.SCHEDULER) != "adaptive":
            return None
        lowest, highest = get(config.AUTOSCALER_LOWEST), get(config.AUTOSCALER_HIGHEST)
        if lowest > highest:
            raise InvalidConfiguration(
                f"{config.AUTOSCALER_LOWEST.key} is {lowest}, which is more than {config.AUTOSCALER_HIGHEST.key}, {highest}. "
                "Lower the one or raise the other."
            )
        return ScalingSettings(
            by_load,
            lowest,
            highest if by_load else parallelism,
            get(config.ADAPTIVE_MIN_INCREASE),
            get(config.ADAPTIVE_COOLDOWN),
            get(config.ADAPTIVE_STABILIZATION),
            get(config.AUTOSCALER_TARGET),
            get(config.AUTOSCALER_MIN),
            get(config.AUTOSCALER_MAX),
            get(config.AUTOSCALER_WINDOW),
            get(config.AUTOSCALER_STABILIZATION),
        )


@dataclass(frozen=True, slots=True)
class LoadObserved:
    """The load of a job: the parallelism that slots allow, its busiest vertex's share, and its sources' held share.

    ``busy`` is of the vertices that would change with the parallelism; both are means of their subtasks.
    """

    possible: int
    busy: float = 0.0
    pressed: float = 0.0


@dataclass(frozen=True, slots=True)
class Begun:
    """All tasks of an attempt run with this parallelism, chosen by anyone."""

    parallelism: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The job has kept its parallelism."""


@dataclass(frozen=True, slots=True)
class ChangeScale:
    """Let the job go on with another parallelism; ``reason`` is for people."""

    parallelism: int
    reason: str


class ScalingMachine:
    """Decides about the parallelism of one job; change it through ``handle`` only.

    >>> machine = ScalingMachine(ScalingSettings(by_load=False, lowest=1, highest=4, pause=1000, slots_for=2000))
    >>> machine.handle(Begun(2), Millis(0))
    >>> [machine.handle(LoadObserved(possible=3), Millis(at)) for at in (1000, 2000, 3000)][-1]
    ChangeScale(parallelism=3, reason='there are slots for 3')
    """

    def __init__(self, settings: ScalingSettings) -> None:
        self.settings = settings
        self.parallelism = 0
        """The one that runs; 0 before the first attempt does."""
        self.under_way: ChangeScale | None = None
        self._since = Millis(0)
        self._changed = Millis(0)
        self._refusals = 0
        self._slots: deque[tuple[Millis, int]] = deque()
        self._loads: deque[tuple[Millis, float, float]] = deque()

    def handle(self, event: LoadObserved | Begun | Refused, now: Millis) -> ChangeScale | None:
        """Handle an event; return the command, if any."""
        match event:
            case Begun(parallelism=parallelism):
                if self.under_way is not None and self.under_way.parallelism == parallelism:
                    self._refusals = 0
                self.parallelism, self.under_way = parallelism, None
                self._since = self._changed = now
                self._slots.clear()
                self._loads.clear()
            case Refused() if self.under_way is not None:
                self.under_way, self._since = None, now
                self._refusals += 1
            case LoadObserved() if self.parallelism:
                self._note(event, now)
                if self.under_way is None and now - self._since >= self._pause():
                    self.under_way = self._decide(now)
                    return self.under_way
        return None

    def _pause(self) -> int:
        return self.settings.pause * min(1 << self._refusals, _LONGEST)

    def _note(self, event: LoadObserved, now: Millis) -> None:
        settings = self.settings
        self._slots.append((now, event.possible))
        _forget(self._slots, now - settings.slots_for)
        if now - self._changed >= settings.settle:
            self._loads.append((now, event.busy, event.pressed))
            _forget(self._loads, now - settings.window)

    def _decide(self, now: Millis) -> ChangeScale | None:
        settings, running = self.settings, self.parallelism
        wanted, reason = self._wanted(now) if settings.by_load else (settings.highest, "")
        wanted = min(max(wanted, settings.lowest), settings.highest)
        if wanted > running:
            possible = self._possible(now)
            if possible < wanted:
                wanted, reason = possible, ""
            if wanted < settings.lowest or wanted - running < settings.least_increase:
                return None
            return ChangeScale(wanted, reason or f"there are slots for {wanted}")
        if wanted < running and settings.by_load:
            return ChangeScale(wanted, reason or f"it is to be {settings.highest} at most")
        return None

    def _possible(self, now: Millis) -> int:
        """Return the parallelism for which slots have been there for long enough; 0 if it is not known yet."""
        covered = self._slots and now - self._slots[0][0] >= self.settings.slots_for
        return min(possible for _, possible in self._slots) if covered else 0

    def _wanted(self, now: Millis) -> tuple[int, str]:
        """Return the parallelism that the load asks for, and why."""
        settings, running, loads = self.settings, self.parallelism, self._loads
        if not loads or now - loads[0][0] < settings.window:
            return running, ""
        busy = sum(each for _, each, _ in loads) / len(loads)
        pressed = min(sum(each for _, _, each in loads) / len(loads), 1 - 1 / _STEP)
        share = f"its busiest vertex is busy for {busy:.0%} of the time"
        if busy > settings.most or (pressed >= _PRESSED and busy > settings.target):
            enough = ceil(running * busy / (1 - pressed) / settings.target)
            return min(
                max(enough, running + 1), running * _STEP
            ), f"{share}, and sources are held back for {pressed:.0%}"
        if busy < settings.least and pressed < _PRESSED:
            return max(ceil(running * busy / settings.target), ceil(running / _STEP), 1), share
        return running, ""


def _forget(seen: deque[tuple[Millis, int]] | deque[tuple[Millis, float, float]], before: int) -> None:
    """Drop older entries; the newest one of that age stays, so that the rest covers the time."""
    while len(seen) > 1 and seen[1][0] <= before:
        seen.popleft()
