"""Metrics in the log: one message per report, a line per metric."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from funken.metrics.reporter import MetricPoint

logger = logging.getLogger("funken.metrics")


class LogReporter:
    """Logs all metrics to the logger ``funken.metrics``, at level ``level`` (``INFO``).

    >>> reporter = LogReporter()
    >>> reporter.open({"level": "DEBUG"})
    >>> reporter.report([MetricPoint("numRestarts", 0, {"job_name": "words"})])  # if DEBUG is enabled
    >>> reporter.close()
    """

    def open(self, options: Mapping[str, Any]) -> None:
        """Read the level."""
        name = str(options.get("level", "INFO")).upper()
        level = logging.getLevelNamesMapping().get(name)
        if level is None:
            raise ValueError(f"{name!r} is no level of logging; use DEBUG, INFO or WARNING")
        self._level = level

    def report(self, metrics: Sequence[MetricPoint]) -> None:
        """Log them."""
        if logger.isEnabledFor(self._level):
            lines = (f"{metric.identifier}: {metric.value}" for metric in metrics)
            logger.log(self._level, "metrics\n%s", "\n".join(lines))

    def close(self) -> None:
        """Nothing is open."""
