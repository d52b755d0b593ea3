"""A sink that drops its records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from funken.connectors.base import ReaderContext, Sink, SinkWriter


@dataclass(frozen=True)
class DiscardingSink(Sink):
    """Drops every record, without looking at it (Flink's ``DiscardingSink``): for benchmarks, and streams that end nowhere.

    >>> from funken.testing import local
    >>> stream = local([1, 2, 3])
    >>> _ = stream.sink_to(DiscardingSink())
    """

    def writer(self, context: ReaderContext) -> SinkWriter:
        """Make a writer."""
        return _Discarding()


class _Discarding(SinkWriter):
    """Writes nothing."""

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Drop a block."""
