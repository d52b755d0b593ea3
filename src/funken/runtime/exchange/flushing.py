"""When partly filled blocks are flushed: by the buffer timeout of the operator that emits them, else the environment's.

The environment's timeout is kept by the loops: they call ``Task.flush`` when it has passed, or earlier when there is nothing else
to do; with -1 that sends nothing. An operator that has one of its own (``set_buffer_timeout``) is looked after here: 0 sends
after every block, by way of a writer whose blocks are full at one record; -1 never sends but full blocks and what a control
block pushes; n sends n ms after the first record was seen to wait. Looked at once per turn of the loop, never per record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from funken.plan.physical import Edge
from funken.runtime.exchange.writers import EdgeWriter

_SOON = 100


def all_flush_soon(edges: Iterable[Edge], default: int) -> bool:
    """Whether every buffer timeout is short (ms), so that a record's age is due to queueing and processing."""
    timeouts = [default if edge.buffer_timeout is None else edge.buffer_timeout for edge in edges]
    return all(0 <= timeout <= _SOON for timeout in timeouts)


def _no_flush() -> None:
    """Do not flush."""


class FlushTimers:
    """The writers of one task."""

    def __init__(self, default: int) -> None:
        self._default = default
        self._timed: list[tuple[EdgeWriter, int]] = []
        self._untimed: list[EdgeWriter] = []
        #: since when (ms) records were seen to wait, by position in ``_timed``
        self._since: dict[int, int] = {}
        self._urgent = False

    def add(self, writer: EdgeWriter) -> Callable[[], None]:
        """Register a writer; return what ``Task.flush`` calls for it."""
        timeout = writer.edge.buffer_timeout
        if timeout is not None and timeout > 0:
            self._timed.append((writer, timeout))
        if timeout is not None or self._default < 0:
            return _no_flush
        self._untimed.append(writer)
        return writer.flush

    @property
    def waiting(self) -> bool:
        """Whether records wait for the environment's timeout."""
        return any(writer.waiting for writer in self._untimed)

    @property
    def oldest(self) -> float:
        """When the oldest record that waits for a timeout was ingested (wall clock, s), ``inf``: none waits."""
        writers = [*self._untimed, *(writer for writer, _ in self._timed)]
        return min((writer.oldest for writer in writers), default=inf)

    def request_urgent_flush(self) -> None:
        """Request that what was sent waits in no buffer on its way."""
        self._urgent = True

    def take_urgent_flush(self) -> bool:
        """Return whether an urgent flush was requested since the last call."""
        pressed, self._urgent = self._urgent, False
        return pressed

    def flush_timed(self) -> None:
        """Flush the writers that have a timeout of their own."""
        for writer, _ in self._timed:
            if writer.waiting:
                writer.flush()
        self._since.clear()

    def advance(self, now: int) -> int | None:
        """Flush writers whose timeout has passed; return when (ms) the next is due, ``None`` if no record waits."""
        due: int | None = None
        for position, (writer, timeout) in enumerate(self._timed):
            if not writer.waiting:
                self._since.pop(position, None)
                continue
            at = self._since.setdefault(position, now) + timeout
            if at <= now:
                del self._since[position]
                writer.flush()
                self._urgent = True
            else:
                due = at if due is None else min(due, at)
        return due
