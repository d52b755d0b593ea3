"""Pages of an HTTP service as a source, by cursors.

A cursor says from where to read on: a page's number, an id, a time. The source asks for the page of a cursor, and a function
finds the records and the next cursor in the answer. The position in a checkpoint is the cursor of the page that is being read,
and how many of its records were read. So each record comes once if a page, asked for again, begins with the same records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple

from funken.connectors.base import (
    NEED_SPLITS,
    Batch,
    Boundedness,
    NeedSplits,
    Source,
    SplitEnumerator,
    StaticSplits,
    Wait,
)
from funken.connectors.context import ConnectorContext
from funken.connectors.http.service import HttpService, RequestFailed, checked
from funken.connectors.reading.background_fetcher import BackgroundFetcher
from funken.connectors.reading.queued_reader import QueuedReader
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SourceNotReadable
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


class _Page(NamedTuple):
    split: HttpSplit
    records: Sequence[Any]
    following: Any
    size: int


class HttpReader(QueuedReader):
    """Reads splits in turn, a page of each; a thread asks for the pages."""

    def __init__(self, source: HttpSource, context: ConnectorContext) -> None:
        super().__init__()
        self._source, self._context = source, context
        self._interval_s = duration_ms(source.interval) / 1000
        self._service = HttpService(source.headers)
        self._bytes = context.metrics.counter("numBytesIn")
        #: splits that the thread asks for, in turn: where the next page begins, and when (s); the thread takes new ones over
        self._asked: deque[tuple[HttpSplit, float]] = deque()
        self._new: deque[HttpSplit] = deque()
        self._fetcher = BackgroundFetcher[_Page]("http", self._fetch, context.wake, self._service.close, queued=1)
        self._records: deque[Any] = deque()
        #: whether a page is being read, and where the next one begins
        self._open = False
        self._following: HttpSplit | None = None

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Read these too."""
        super().add_splits(splits)
        self._new.extend(splits)
        self._fetcher.start()

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return records of one page."""
        while not self._records:
            if self._open:
                self._end_page()
            if not self.queue:
                return NEED_SPLITS
            try:
                page = self._fetcher.take()
            except RequestFailed as error:
                operator = self._context.operator
                raise SourceNotReadable(f"operator {operator!r}: {error}", operator, self._context.subtask) from error
            if page is None:
                return Wait(None)
            self._begin(page)
        taken = [self._records.popleft() for _ in range(min(limit, len(self._records)))]
        self.queue[0] = replace(self.queue[0], skip=self.queue[0].skip + len(taken))
        return Batch(taken, split=self.queue[0].id)

    def _begin(self, page: _Page) -> None:
        while self.queue[0].id != page.split.id:
            self.queue.rotate(-1)
        self._records.extend(page.records[page.split.skip :])
        self._bytes.inc(page.size)
        split = page.split
        if page.following is not None:
            self._following = replace(split, cursor=page.following, skip=0)
        elif not self._source.bounded:  # the same page again, of which all this was read
            self._following = replace(split, skip=max(split.skip, len(page.records)))
        else:
            self._following = None
        self._open = True

    def _end_page(self) -> None:
        # Not with the last records of a split, but at the next poll: until then it counts for the watermark.
        self._open = False
        if self._following is None:
            self.end_split()
        else:
            self.queue[0], self._following = self._following, None

    def _fetch(self) -> list[_Page]:
        while self._new:
            self._asked.append((self._new.popleft(), 0.0))
        if not self._asked:
            self._fetcher.pause(_LONGEST_PAUSE_S)
            return []
        split, due = self._asked.popleft()
        now = _now()
        if due > now:
            self._asked.append((split, due))
            soonest = min(each for _, each in self._asked)
            self._fetcher.pause(min(max(0.0, soonest - now), _LONGEST_PAUSE_S))
            return []
        body = self._service.request("GET", checked(self._source.page(split.cursor)))
        records, following = self._source.parse(body)
        page = _Page(split, records, following, len(body))
        rest = now + self._interval_s if following is None or not records else 0.0
        if following is not None:
            self._asked.append((HttpSplit(split.id, following), rest))
        elif not self._source.bounded:
            self._asked.append((replace(split, skip=max(split.skip, len(records))), rest))
        return [page]

    def close(self) -> None:
        """End the thread."""
        self._fetcher.stop()


__all__ = ["HttpReader", "HttpSource", "HttpSplit"]
