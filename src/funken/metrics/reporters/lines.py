"""Metrics as a file of JSON lines: a line per metric and report."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from funken.metrics.registry import MetricPoint


def _now() -> datetime:
    return datetime.now(tz=UTC)


class JsonLinesReporter:
    """Appends to the file ``path``: ``{"time": ..., "name": ..., "value": ..., "scope": {...}}``; ``time`` is in UTC.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     reporter = JsonLinesReporter()
    ...     reporter.open({"path": f"{folder}/metrics.jsonl"})
    ...     reporter.report([MetricPoint("numRestarts", 2, {"job_name": "words"})])
    ...     reporter.close()
    ...     line = json.loads(Path(folder, "metrics.jsonl").read_text())
    >>> line["name"], line["value"], line["scope"]
    ('numRestarts', 2, {'job_name': 'words'})
    """

    def __init__(self, now: Callable[[], datetime] = _now) -> None:
        self._now = now
        self._path = Path()

    def open(self, options: Mapping[str, Any]) -> None:
        """Find out whether the file can be written; its folder is made if it is not there."""
        path = options.get("path")
        if not path:
            raise ValueError("it has no path; set metrics.reporter.<name>.path")
        self._path = Path(str(path))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.touch()

    def report(self, metrics: Sequence[MetricPoint]) -> None:
        """Append a line per metric; the file is not kept open, so that it can be moved away."""
        time = self._now().isoformat(timespec="milliseconds")
        lines = [
            json.dumps({"time": time, "name": each.name, "value": each.value, "scope": dict(each.scope)}) + "\n"
            for each in metrics
        ]
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(lines)

    def close(self) -> None:
        """Nothing is open."""


# ---- Metrics in the log: one message per report, a line per metric.


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
