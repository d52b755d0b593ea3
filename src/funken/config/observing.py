"""The options about what is seen of a job: its history, its metrics and their reporters."""

from __future__ import annotations

from typing import Any

from funken.config.options import _option
from funken.config.parsing import at_least, items_of, one_of, text
from funken.config.values import duration_ms


def _names(value: Any) -> tuple[str, ...]:
    """Read names: a text with commas between them, a list of YAML, or several texts."""
    given = items_of(value, ",") if isinstance(value, str) else value
    names = tuple(str(name).strip() for name in given)
    names = tuple(name for name in names if name)
    if any("." in name for name in names):
        raise ValueError(f"{value!r} is not allowed; the name of a reporter has no dot")
    return names


_NO_NAMES: tuple[str, ...] = ()


def _any(value: Any) -> Any:
    return value


EXCEPTION_HISTORY_SIZE = _option(
    "web.exception-history-size",
    at_least(1),
    16,
    "How many of a job's newest failures its snapshot has.",
)
NOTEBOOK_INTERVAL = _option(
    "notebook.progress-interval",
    at_least(0, duration_ms),
    1000,
    "In a notebook, a job that runs for longer than this is shown below its cell, and the display replaced this often (ms). 0: "
    "never.",
)
LATENCY_INTERVAL = _option(
    "metrics.latency.interval",
    at_least(0, duration_ms),
    0,
    "How often (ms) sources emit latency markers, which queue with the records and show how long these are under way. 0: never.",
)
LATENCY_GRANULARITY = _option(
    "metrics.latency.granularity",
    one_of("single", "operator", "subtask"),
    "operator",
    "What the latencies of markers are told apart by: nothing, the source, or the subtask of the source.",
)
LATENCY_HISTORY = _option(
    "metrics.latency.history-size",
    at_least(1),
    128,
    "Of how many of the newest latency markers the percentiles are.",
)
METRIC_REPORTERS = _option(
    "metrics.reporters",
    _names,
    _NO_NAMES,
    "Names of reporters, with commas between them; each is described by `metrics.reporter.<name>.*`.",
)
REPORTER_CLASS = _option(
    "metrics.reporter.<name>.class",
    text,
    "",
    "What the reporter is: `log`, `json`, `prometheus`, `opentelemetry`, or a class of yours as `module:Class`. Its name, if "
    "nothing is said.",
)
REPORTER_FACTORY = _option(
    "metrics.reporter.<name>.factory.class",
    text,
    "",
    "The same as Flink names it: its factories for SLF4J, Prometheus and OpenTelemetry are known.",
)
REPORTER_INTERVAL = _option(
    "metrics.reporter.<name>.interval",
    at_least(10, duration_ms),
    10_000,
    "How often (ms) the reporter is given the metrics.",
)
REPORTER_OPTION = _option(
    "metrics.reporter.<name>.*",
    _any,
    "",
    "Any other option of the reporter: `path` of `json`; `host` and `port` of `prometheus`; `exporter.endpoint` of "
    "`opentelemetry`.",
)
