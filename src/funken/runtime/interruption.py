"""User code that does not come back: an exception is raised in its thread from another one.

Only inside a ``with`` block of the thread, which holds user code and nothing that must not be cut in two. Python raises
such an exception between two of its instructions: code outside of Python (a ``sleep``, a regular expression, a driver of
a database) is not interrupted before it returns. ``where`` then returns what blocks.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import traceback
from types import TracebackType

_set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_exception.argtypes = (ctypes.c_ulong, ctypes.py_object)


class Interrupted(KeyboardInterrupt):
    """Raised in user code of a job that was cancelled; not an ``Exception``, which user code may catch and go on."""


def _let_come() -> None:
    """Raise an exception here that may have been set for this thread, so that it is not raised later.

    To take it back (set ``NULL``) is not enough: CPython 3.11 then goes on looking for one, at each call and for good, and a
    debugger's trace function makes it hang.
    """
    _set_exception(threading.get_ident(), Interrupted)
    for _ in range(1000):  # it is raised where the loop begins anew
        pass


class Interruption:
    """The one thread that runs a job's user code, and the blocks in which it may be interrupted.

    >>> interruption = Interruption()
    >>> interruption.interrupt(), interruption.where()
    (False, None)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._open = False
        self._pending = False

    def enter_thread(self) -> None:
        """From now on, the calling thread is the one."""
        self._thread = threading.get_ident()

    def leave_thread(self) -> None:
        """There is none any more."""
        self._thread = None

    def __enter__(self) -> None:
        self._open = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while True:  # an exception that was set before this block is left may be raised within these lines, too
            try:
                with self._lock:
                    self._open = False
                    pending, self._pending = self._pending, False
                if pending:
                    _let_come()
                return
            except Interrupted:
                continue

    def interrupt(self) -> bool:
        """Raise ``Interrupted`` in the thread, soon; returns false if it is in no block in which it may be."""
        with self._lock:
            if self._thread is None or not self._open:
                return False
            self._pending = True
            return bool(_set_exception(self._thread, Interrupted))

    def where(self) -> tuple[str, str] | None:
        """Return the function that the thread is in, and its traceback, newest call last; ``None`` without a thread."""
        frame = None if self._thread is None else sys._current_frames().get(self._thread)
        if frame is None:
            return None
        code = frame.f_code
        return f"{code.co_qualname} ({code.co_filename}:{frame.f_lineno})", "".join(traceback.format_stack(frame))
