"""What waits between the input and the output of an asynchronous operator, in which order it may leave, and how long.

Invariant: a *mark* (a watermark, or that the input idles) leaves after every record before it and before every record
behind it. Between two marks, records leave in the order in which they came (``OrderedQueue``), or in the order in
which their results came (``UnorderedQueue``). Not thread-safe, knows no clock, starts nothing.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from funken.ids import MIN_TIMESTAMP
from funken.operators.base import Output
from funken.operators.results import Results

Mark = Callable[[], None]
"""Sends a watermark (or idleness) on."""


class QueueEntry:
    """One record: in the queue until its result has been emitted."""

    __slots__ = ("deadline", "request", "result", "segment", "timestamp", "value")

    def __init__(self, value: Any, timestamp: int = MIN_TIMESTAMP) -> None:
        self.value = value
        self.timestamp = timestamp
        self.result: Iterable[Any] | None = None
        self.deadline = 0.0
        self.request: Any = None
        self.segment: Segment | None = None


class Outlet:
    """Collects results and sends them on as one block, with timestamps if any of them has one."""

    __slots__ = ("_stamped", "results")

    def __init__(self) -> None:
        self.results = Results()
        self._stamped = False

    def take(self, entry: QueueEntry) -> None:
        """Take the results of a record; they carry its timestamp."""
        self._stamped = self._stamped or entry.timestamp != MIN_TIMESTAMP
        self.results.take(entry.result, entry.timestamp)

    def emit(self, output: Output) -> None:
        """Send them on."""
        stamped, self._stamped = self._stamped, False
        self.results.emit(output, stamped=stamped)


class OrderedQueue:
    """Results leave in the order of the records.

    >>> queue, output = OrderedQueue(), Output()
    >>> output.emit = lambda values, timestamps: print(values)
    >>> first, second = QueueEntry("first"), QueueEntry("second")
    >>> queue.add(first); queue.add(second)
    >>> queue.complete(second, ["b"]); queue.emit(output)
    >>> queue.complete(first, ["a"]); queue.emit(output)
    ['a', 'b']
    """

    def __init__(self) -> None:
        self.size = 0
        self._items: deque[QueueEntry | Mark] = deque()
        self.outlet = Outlet()

    def add(self, entry: QueueEntry) -> None:
        """Put a record in."""
        self.size += 1
        self._items.append(entry)

    def mark(self, mark: Mark) -> None:
        """Put a mark in."""
        self._items.append(mark)

    def complete(self, entry: QueueEntry, result: Iterable[Any]) -> None:
        """Give a record its result."""
        entry.result = result

    def emit(self, output: Output) -> None:
        """Send on everything before the first record without a result."""
        items, outlet = self._items, self.outlet
        while items:
            item = items[0]
            if isinstance(item, QueueEntry):
                if item.result is None:
                    break
                self.size -= 1
                outlet.take(item)
            else:
                outlet.emit(output)
                item()
            items.popleft()
        outlet.emit(output)

    def __iter__(self) -> Iterator[QueueEntry]:
        return (item for item in self._items if isinstance(item, QueueEntry))


class Segment:
    """The records between two marks. ``waiting`` keeps the order in which they came, ``done`` that of the results."""

    __slots__ = ("done", "mark", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[QueueEntry, None] = {}
        self.done: list[QueueEntry] = []
        self.mark: Mark | None = None


class UnorderedQueue:
    """Results leave as soon as they are there, except that no record passes a mark.

    >>> queue, output = UnorderedQueue(), Output()
    >>> output.emit = lambda values, timestamps: print(values)
    >>> first, second, third = QueueEntry("first"), QueueEntry("second"), QueueEntry("third")
    >>> queue.add(first); queue.add(second); queue.mark(lambda: print("mark")); queue.add(third)
    >>> queue.complete(third, ["c"]); queue.complete(second, ["b"]); queue.emit(output)
    ['b']
    >>> queue.complete(first, ["a"]); queue.emit(output)
    ['a']
    mark
    ['c']
    """

    def __init__(self) -> None:
        self.size = 0
        self._segments: deque[Segment] = deque([Segment()])
        self.outlet = Outlet()

    def add(self, entry: QueueEntry) -> None:
        """Put a record in."""
        self.size += 1
        entry.segment = self._segments[-1]
        entry.segment.waiting[entry] = None

    def mark(self, mark: Mark) -> None:
        """Close the segment."""
        self._segments[-1].mark = mark
        self._segments.append(Segment())

    def complete(self, entry: QueueEntry, result: Iterable[Any]) -> None:
        """Give a record its result."""
        entry.result = result
        assert entry.segment is not None
        del entry.segment.waiting[entry]
        entry.segment.done.append(entry)

    def emit(self, output: Output) -> None:
        """Send on the results of the first segment, and go on to the next one if it is closed and complete."""
        outlet = self.outlet
        while True:
            segment = self._segments[0]
            for entry in segment.done:
                outlet.take(entry)
            self.size -= len(segment.done)
            segment.done.clear()
            outlet.emit(output)
            if segment.mark is None or segment.waiting:
                return
            self._segments.popleft()
            segment.mark()

    def __iter__(self) -> Iterator[QueueEntry]:
        for segment in self._segments:
            yield from segment.done
            yield from segment.waiting


ResultQueue = OrderedQueue | UnorderedQueue


class Deadlines:
    """The records that have no result yet, by deadline; all of them have the same timeout (s).

    >>> deadlines, entry = Deadlines(0.5), QueueEntry("value")
    >>> deadlines.add(entry, now=10.0)
    >>> deadlines.left(now=10.25), deadlines.overdue(now=10.25), deadlines.overdue(now=10.5) is entry
    (0.25, None, True)
    """

    def __init__(self, timeout: float = math.inf) -> None:
        self._timeout = timeout
        # A dict would look for its first item behind all deleted ones.
        self._entries: OrderedDict[QueueEntry, None] = OrderedDict()

    def add(self, entry: QueueEntry, now: float) -> None:
        """Let a record wait from now on."""
        entry.deadline = now + self._timeout
        self._entries[entry] = None

    def remove(self, entry: QueueEntry) -> None:
        """Let a record wait no longer."""
        del self._entries[entry]

    def overdue(self, now: float) -> QueueEntry | None:
        """Return a record that has waited too long."""
        for entry in self._entries:
            return entry if entry.deadline <= now else None
        return None

    def left(self, now: float) -> float:
        """Return the time until the first deadline; infinite if there is none."""
        for entry in self._entries:
            return max(0.0, entry.deadline - now)
        return math.inf

    def __len__(self) -> int:
        return len(self._entries)
