"""When partly filled blocks leave: by the buffer timeout of the operator whose output they are, else by the environment's.

The environment's timeout is kept by the loops: they call ``Task.flush`` when it has passed, or when there is nothing else to
do; with -1 that sends nothing. An operator that has one of its own (``set_buffer_timeout``) is looked after here: 0 sends
after every block, by way of a writer whose blocks are full at one record; -1 never sends but full blocks and what a control
block pushes; n sends n ms after the first record was seen to wait. Looked at once per turn of the loop, never per record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from funken.plan.physical import Edge
from funken.runtime.outputs import EdgeWriter

_SOON = 100


def all_soon(edges: Iterable[Edge], default: int) -> bool:
    """Whether no record waits long (ms) for its block to fill, so that a record's age is due to queues and work."""
    timeouts = [default if edge.buffer_timeout is None else edge.buffer_timeout for edge in edges]
    return all(0 <= timeout <= _SOON for timeout in timeouts)


def _nothing() -> None:
    """Let records wait."""


class Flushing:
    """The writers of one task."""

    def __init__(self, default: int) -> None:
        self._default = default
        self._timed: list[tuple[EdgeWriter, int]] = []
        #: since when (ms) records were seen to wait, by position in ``_timed``
        self._since: dict[int, int] = {}
        self._pressed = False

    def add(self, writer: EdgeWriter) -> Callable[[], None]:
        """Take a writer into care; return what ``Task.flush`` is to do with it."""
        timeout = writer.edge.buffer_timeout
        if timeout is not None and timeout > 0:
            self._timed.append((writer, timeout))
        return writer.flush if timeout is None and self._default >= 0 else _nothing

    def press(self) -> None:
        """Something was sent that must not wait in any buffer on its way."""
        self._pressed = True

    def pressed(self) -> bool:
        """Whether what was sent since the last call must not wait."""
        pressed, self._pressed = self._pressed, False
        return pressed

    def let_go(self) -> None:
        """Send what waits for the timeout of its own operator."""
        for writer, _ in self._timed:
            if writer.waiting:
                writer.flush()
        self._since.clear()

    def advance(self, now: int) -> int | None:
        """Send what has waited for as long as its operator allows; return when (ms) more is due, ``None``: nothing waits."""
        due: int | None = None
        for position, (writer, timeout) in enumerate(self._timed):
            if not writer.waiting:
                self._since.pop(position, None)
                continue
            at = self._since.setdefault(position, now) + timeout
            if at <= now:
                del self._since[position]
                writer.flush()
                self._pressed = True
            else:
                due = at if due is None else min(due, at)
        return due
