"""What a table of a connector is to the planner: a scan, a sink, a lookup, each with the changes it has or takes.

A factory makes them of a ``TableContext``. Their streams have ``Row``s with kinds, or tuples, which are insertions; values are
by position, physical columns first, then the metadata that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.table.changelog import ChangelogMode
from funken.table.connectors.conditions import SourceCondition
from funken.timing.watermarks import WatermarkStrategy


class TableNotReadable(InvalidProgram):
    """A table cannot be read or written as the statement wants it."""


@dataclass(frozen=True)
class TableContext:
    """A table as its connector sees it: physical columns, the metadata asked for, key and options.

    >>> TableContext("c.d.t", options={"connector": "print"}).connector
    'print'
    """

    path: str
    columns: tuple[tuple[str, Any], ...] = ()
    """Names and types of the physical columns."""
    metadata: tuple[tuple[str, Any], ...] = ()
    """Keys and types of the metadata columns, which follow the physical ones in each row."""
    primary_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    batch: bool = False
    time_zone: str = "UTC"
    identity: str = ""
    """Tells uses of a connector apart in the state of a job."""

    @property
    def connector(self) -> str:
        """The name of the connector; empty if there is none."""
        return self.options.get("connector", "")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the physical columns."""
        return tuple(name for name, _ in self.columns)


class ScanTable:
    """A table that is read from its beginning to its end, if it has one."""

    changelog_mode = ChangelogMode.insert_only()
    takes_watermarks = False
    """Whether the source assigns watermarks itself, per split, by the strategy that ``assign_watermarks`` gives it."""
    watermarks: WatermarkStrategy[Any] | None = None
    """The strategy that ``stream`` gives the source."""
    bounded = True
    deletes_by_key = False
    """Whether rows that are deleted may have only their key."""

    def assign_watermarks(self, strategy: WatermarkStrategy[Any]) -> None:
        """Let the source assign watermarks; the generator of the strategy reads rows with all columns of the scan."""
        self.watermarks = strategy

    def stream(self, env: Any) -> Any:
        """Return the stream of rows, added to a ``StreamExecutionEnvironment``."""
        raise NotImplementedError

    def filtered(self, conditions: Sequence[SourceCondition]) -> tuple[ScanTable, tuple[int, ...]]:
        """Return a scan that leaves out rows which do not fulfil some conditions, and the places of these conditions."""
        return self, ()

    def limited(self, count: int) -> ScanTable | None:
        """Return a scan that need not read all rows: the query takes the first ``count`` that come. ``None``: it reads all."""
        return None

    def selected(self, names: Sequence[str]) -> ScanTable | None:
        """Return a scan of these columns alone, in this order; ``None``: it reads all of them anyway."""
        return None


class SinkTable:
    """A table that is written."""

    changelog_mode = ChangelogMode.all()
    """The kinds it takes."""
    deletes_by_key = False
    """Whether deletions may come with only their key."""
    supports_overwrite = False
    """Whether ``overwriting`` gives a sink that replaces what is there, once all rows of a batch are written."""
    overwrites_by_streams = False
    """Whether streams may replace what is there too: the sink begins anew with each job."""
    block_sink: Any = None
    """A ``Sink`` whose writer takes ``TableBlock``s as the values of ``write``; ``None``: ``sink`` is given ``Row``s."""

    def overwriting(self, partition: Mapping[str, str]) -> SinkTable:
        """Return the sink of INSERT OVERWRITE; ``partition`` has the constants of its PARTITION clause."""
        raise NotImplementedError

    def sink(self, stream: Any) -> Any:
        """Write a stream of ``Row``s; return the ``DataStreamSink``."""
        raise NotImplementedError


class LookupTable:
    """A table that is asked for the rows of keys. It is pickled, then opened in each task."""

    asynchronous = False

    def open(self) -> None:
        """Connect."""

    def lookup(self, keys: Sequence[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each key, in the order of the keys."""
        raise NotImplementedError

    def close(self) -> None:
        """Release everything."""


__all__ = ["LookupTable", "ScanTable", "SinkTable", "TableContext", "TableNotReadable"]
