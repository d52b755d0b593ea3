"""The main thread hears of every signal, also of one that comes just before it begins to wait.

Python runs the handlers of signals in the main thread, between two instructions. A signal that arrives after the last look
for signals and before the system call that waits (a lock, a sleep) does not end that call, and one that the system gives to
another thread does not either: the handler runs when the call returns, which may be never. So a thread reads the numbers
that Python writes for each signal (``signal.set_wakeup_fd``) and interrupts the main thread's system call a little later,
by a signal whose handler does nothing.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from funken.timing.clock import SystemClock

_NUDGE = signal.SIGURG  # which is ignored unless it has a handler, and which nothing sends to a process by itself
_AFTER_SECONDS = (0.05, 0.5, 2.0)
"""When the main thread is interrupted after a signal: later once more, for a thread that had no core until then."""


@contextmanager
def waits_interrupted() -> Iterator[None]:
    """Let every signal that has a handler interrupt the main thread, while the ``with`` block lasts.

    To be used in the main thread. Does nothing where the program has a handler of its own for SIGURG.
    """
    if signal.getsignal(_NUDGE) is not signal.SIG_DFL:
        yield
        return
    received, written = socket.socketpair()
    written.setblocking(False)
    signal.signal(_NUDGE, lambda number, frame: None)
    before = signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=_nudge, args=(received,), name="funken-signals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        written.close()
        thread.join()  # it reads the end at once
        received.close()
        signal.signal(_NUDGE, signal.SIG_DFL)


def _nudge(received: socket.socket) -> None:
    due: list[float] = []
    while True:
        received.settimeout(max(due[0] - SystemClock().monotonic(), 0.001) if due else None)
        try:
            numbers = received.recv(64)
        except TimeoutError:
            due.pop(0)
            signal.pthread_kill(threading.main_thread().ident or 0, _NUDGE)
        else:
            if not numbers:
                return
            if any(number != _NUDGE for number in numbers):
                due = [SystemClock().monotonic() + seconds for seconds in _AFTER_SECONDS]
