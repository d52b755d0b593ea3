"""A sink that drops its records."""

from __future__ import annotations

from typing import Any

from funken.connectors.context import ConnectorContext
from funken.connectors.sink import Sink, SinkWriter
from funken.dataclass import dataclass


@dataclass(frozen=True)
class DiscardingSink(Sink):
    """Drops every record, without looking at it (Flink's ``DiscardingSink``): for benchmarks, and streams that end nowhere.

    >>> from funken.testing import local
    >>> numbers = local([1, 2, 3])
    >>> _ = numbers.sink_to(DiscardingSink())  # a job needs a sink
    >>> numbers.map(str).execute_and_collect(limit=3)
    ['1', '2', '3']
    >>> DiscardingSink().writer(ConnectorContext("nowhere", 0, 1)).write([1, 2, 3], None, now=0)
    """

    takes_columns = True
    reads_only = True
    never_waits = True

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        return _Discarding()


class _Discarding(SinkWriter):
    """Writes nothing."""

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Drop a block."""
