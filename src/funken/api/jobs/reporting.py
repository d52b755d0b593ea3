"""Runs the metric reporters of a job: each in a thread of its own, so that a slow one delays neither the job nor another.

A reporter that raises costs a warning, the first time of each row of failures; the job goes on. At the end of the job each is
given the last metrics and closed, and the job waits for that no longer than a bound.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from funken import config
from funken.config import Configuration
from funken.metrics.reporter import MetricPoint, MetricReporter, reporter_of
from funken.timing.clock import SystemClock

logger = logging.getLogger(__name__)

_CLOSE_SECONDS = 5.0
_PREFIX = "metrics.reporter."

Read = Callable[[], Sequence[MetricPoint]]


class ReporterThread:
    """One reporter at work; ``close`` ends it within a bound."""

    def __init__(
        self, name: str, reporter: MetricReporter, options: dict[str, Any], seconds: float, read: Read
    ) -> None:
        self._name = name
        self._reporter = reporter
        self._options = options
        self._seconds = seconds
        self._read = read
        self._failing = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"funken-metrics-{name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._reporter.open(self._options)
        except Exception as error:  # noqa: BLE001 - a reporter may raise anything, and must not fail the job
            logger.warning(
                "metric reporter %r could not be opened, the job goes on without it: %s: %s. See %s%s.*.",
                self._name, type(error).__name__, error, _PREFIX, self._name,
            )  # fmt: skip
            return
        if (pull := getattr(self._reporter, "pull", None)) is not None:
            pull(self._read)
            self._ended.wait()
        while not self._ended.wait(self._seconds):
            self._report()
        self._report()
        try:
            self._reporter.close()
        except Exception as error:  # noqa: BLE001 - as above
            logger.warning("metric reporter %r could not be closed: %s: %s.", self._name, type(error).__name__, error)

    def _report(self) -> None:
        try:
            self._reporter.report(self._read())
        except Exception as error:  # noqa: BLE001 - as above
            if not self._failing:
                logger.warning(
                    "metric reporter %r has failed, and is called again in %g s: %s: %s.",
                    self._name, self._seconds, type(error).__name__, error,
                )  # fmt: skip
            self._failing = True
        else:
            self._failing = False

    def end(self) -> None:
        """Request the last report; does not wait."""
        self._ended.set()

    def join(self, seconds: float) -> None:
        """Wait for the last report, for so long."""
        self._thread.join(max(0.0, seconds))
        if self._thread.is_alive():
            logger.warning(
                "metric reporter %r has not ended within %g s and is left behind; let report() wait for a bounded time.",
                self._name, _CLOSE_SECONDS,
            )  # fmt: skip


@contextmanager
def reporting(configuration: Configuration, read: Read) -> Iterator[None]:
    """Run the reporters that are configured while the block lasts; raises ``InvalidConfiguration`` if one is not known."""
    names = configuration.get(config.METRIC_REPORTERS)
    values = configuration.to_dict()
    made = []
    for name in names:
        prefix = f"{_PREFIX}{name}."
        options = {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}
        seconds = config.REPORTER_INTERVAL.parse(options.pop("interval", config.REPORTER_INTERVAL.default)) / 1000
        made.append((name, reporter_of(name, options), options, seconds))
    threads = [ReporterThread(name, reporter, options, seconds, read) for name, reporter, options, seconds in made]
    try:
        yield
    finally:
        for thread in threads:
            thread.end()
        now = SystemClock().monotonic
        until = now() + _CLOSE_SECONDS
        for thread in threads:
            thread.join(until - now())
