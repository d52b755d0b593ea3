"""Split discovery while the tasks run: in a thread of its own, one call at a time per source.

``discover`` of an enumerator may list folders or ask a service, and may take long. So it runs in a thread of its own (or at
once, where a runner has only one), without the master's lock; the result is taken over by the caller of ``poll``. What was
found and not taken over when a checkpoint begins is not part of it, and is found again by a job that starts from there.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from funken.connectors.base import SplitEnumerator
from funken.errors import JobExecutionError
from funken.ids import OperatorId

logger = logging.getLogger(__name__)

SLOW_MILLIS = 60_000


def at_once(work: Callable[[], None]) -> None:
    """Run work here."""
    work()


def beside(work: Callable[[], None]) -> None:
    """Run work in a thread of its own, which does not keep the program from ending."""
    threading.Thread(target=work, name="funken-discovery", daemon=True).start()


@dataclass
class _Look:
    """A look that has begun; ``found`` or ``error`` is there when it is ``done``."""

    begun: int
    done: bool = False
    found: Any = None
    error: Exception | None = None
    warned: bool = False


class Discovery:
    """The discovery calls of a job's sources. ``run`` runs them, in a thread or at once."""

    def __init__(
        self, job: str, enumerators: Mapping[OperatorId, SplitEnumerator], names: Mapping[OperatorId, str]
    ) -> None:
        self._job = job
        self._names = names
        self._enumerators = enumerators
        self._next: dict[OperatorId, int] = {}
        self._looks: dict[OperatorId, _Look] = {}
        self.run: Callable[[Callable[[], None]], None] = at_once

    def poll(self, now: int) -> list[tuple[OperatorId, Any]]:
        """Begin the calls that are due (ms), and return the results of those that are done.

        Raises the error of one that failed.
        """
        for operator, enumerator in self._enumerators.items():
            interval = enumerator.discovery_interval
            if interval is None:
                continue
            due = self._next.setdefault(operator, now + interval)
            if operator not in self._looks and now >= due:
                self._next[operator] = now + interval
                self._begin(operator, enumerator, now)
        found = []
        for operator, look in list(self._looks.items()):
            if not look.done:
                self._warn_if_slow(operator, look, now)
                continue
            del self._looks[operator]
            if look.error is not None:
                raise self._failed(operator, look.error) from look.error
            if look.found is not None:
                found.append((operator, look.found))
        return found

    def _begin(self, operator: OperatorId, enumerator: SplitEnumerator, now: int) -> None:
        look = self._looks[operator] = _Look(now)

        def work() -> None:
            try:
                look.found = enumerator.discover(now)
            except Exception as error:  # noqa: BLE001 - raised by ``poll``
                look.error = error
            look.done = True

        self.run(work)

    def _warn_if_slow(self, operator: OperatorId, look: _Look, now: int) -> None:
        if not look.warned and now - look.begun >= SLOW_MILLIS:
            look.warned = True
            logger.warning(
                "job %r: source %r has been looking for new splits for %d s, and finds none meanwhile. Is what it lists slow, or "
                "not reachable?", self._job, self._names[operator], (now - look.begun) // 1000,
            )  # fmt: skip

    def _failed(self, operator: OperatorId, error: Exception) -> JobExecutionError:
        if isinstance(error, JobExecutionError):
            return error
        name = self._names[operator]
        return JobExecutionError(
            f"source {name!r} failed when it looked for new splits: {type(error).__name__}: {error}", operator=name
        )
