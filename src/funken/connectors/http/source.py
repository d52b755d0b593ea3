"""Pages of an HTTP service as a source, by cursors.

A cursor says from where to read on: a page's number, an id, a time. The source asks for the page of a cursor, and a function
finds the records and the next cursor in the answer. The position in a checkpoint is the cursor of the page that is being read,
and how many of its records were read. So each record comes once if a page, asked for again, begins with the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from funken.connectors.base import Boundedness, Source, SplitEnumerator, StaticSplits
from funken.connectors.context import ConnectorContext
from funken.connectors.http.service import HttpService, RequestFailed, checked
from funken.connectors.reading.polled_reader import PolledReader, SplitRecords
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration
from funken.io.durations import DurationLike, duration_ms
from funken.timing.clock import SystemClock

_LONGEST_PAUSE_S = 0.5
_now = SystemClock().monotonic


@dataclass(frozen=True, slots=True)
class HttpSplit:
    """The pages from a cursor on, ``skip`` records of the first of which were read; ``id`` is its place among the starts."""

    id: str
    cursor: Any
    skip: int = 0


@dataclass(frozen=True)
class HttpSource(Source):
    """Reads pages: ``page(cursor)`` returns the address of one, ``parse(body)`` its records and the next cursor.

    The next cursor ``None`` means that this was the last page: a ``bounded`` source ends, another one asks for the same page
    again, and emits what was added to it. After such a page, and after one without records, it waits for the ``interval`` (ms,
    ``timedelta`` or text such as ``"5 s"``). Each of ``starts`` is a split, which one subtask reads. ``headers`` are not shown.

    An answer that is an error is asked for again a few times; then the job fails with ``SourceNotReadable``.

    >>> import json
    >>> def parse(body):
    ...     page = json.loads(body)
    ...     return page["items"], page["next"]
    >>> orders = HttpSource(lambda cursor: f"https://shop.example/orders?after={cursor}", parse, starts=[0], interval="5 s")
    >>> orders.boundedness.name
    'CONTINUOUS_UNBOUNDED'
    """

    page: Callable[[Any], str]
    parse: Callable[[bytes], tuple[Sequence[Any], Any]]
    starts: Sequence[Any] = (None,)
    interval: DurationLike = "5 s"
    bounded: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Check the parameters."""
        duration_ms(self.interval)
        if not self.starts:
            raise InvalidConfiguration("an HttpSource reads from one or more starts; pass a list of cursors.")

    @property
    def boundedness(self) -> Boundedness:  # type: ignore[override]
        """Whether it ends."""
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator of the starts."""
        splits = [HttpSplit(f"pages-{number}", start) for number, start in enumerate(self.starts)]
        return StaticSplits(splits, parallelism)

    def reader(self, context: ConnectorContext) -> HttpReader:
        """Make a reader."""
        return HttpReader(self, context)


class HttpReader(PolledReader):
    """Reads splits in turn, a page of each."""

    blocks_ahead = 1

    def __init__(self, source: HttpSource, context: ConnectorContext) -> None:
        super().__init__(context)
        self._source = source
        self._interval_s = duration_ms(source.interval) / 1000
        self._service = HttpService(source.headers)
        #: by split, when its next page is to be asked for (s)
        self._due: dict[str, float] = {}

    def fetch(self, splits: Sequence[HttpSplit]) -> Sequence[SplitRecords]:
        """Ask for the page that is due first."""
        split = min(splits, key=lambda split: self._due.get(split.id, 0.0))
        now = _now()
        due = self._due.get(split.id, 0.0)
        if due > now:
            self.fetcher.pause(min(due - now, _LONGEST_PAUSE_S))
            return ()
        body = self._service.request("GET", checked(self._source.page(split.cursor)))
        records, cursor = self._source.parse(body)
        self._due[split.id] = now + (self._interval_s if cursor is None or not records else 0.0)
        following: HttpSplit | None = None
        if cursor is not None:
            following = HttpSplit(split.id, cursor)
        elif not self._source.bounded:  # the same page again, of which all this was read
            following = replace(split, skip=max(split.skip, len(records)))
        return [SplitRecords(split.id, records[split.skip :], following, len(body))]

    def advance(self, split: HttpSplit, records: Sequence[Any]) -> HttpSplit:
        """Skip what was read of the page."""
        return replace(split, skip=split.skip + len(records))

    def explain(self, error: Exception) -> Exception:
        """Name the operator in what the service answers; errors of the program's functions are its own."""
        return self.failure(str(error)) if isinstance(error, RequestFailed) else error

    def disconnect(self) -> None:
        """Close the connections."""
        self._service.close()


__all__ = ["HttpReader", "HttpSource", "HttpSplit"]
