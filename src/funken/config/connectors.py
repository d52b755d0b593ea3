"""The options of connectors; declared as those in ``options.py`` are."""

from __future__ import annotations

from funken.config.options import _option
from funken.config.parsing import at_least, integer
from funken.config.values import duration_ms

COMMITTER_RETRIES = _option(
    "sink.committer.retries",
    at_least(0, integer),
    10,
    "How often a commit that a sink's committer wants to retry later is retried before the job fails.",
)
COMMITTER_TIMEOUT = _option(
    "sink.committer.timeout",
    at_least(1, duration_ms),
    600_000,
    "How long one call of a sink's committer may take before the job fails (ms).",
)

__all__ = ["COMMITTER_RETRIES", "COMMITTER_TIMEOUT"]
