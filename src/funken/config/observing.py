"""The options about what is seen of a job: its history, its metrics and their reporters."""

from __future__ import annotations

from funken.config.options import _at_least, _option

EXCEPTION_HISTORY_SIZE = _option(
    "web.exception-history-size",
    _at_least(1),
    16,
    "How many of a job's newest failures its snapshot has.",
)
