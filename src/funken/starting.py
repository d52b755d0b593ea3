"""The start of the command line: Ctrl-C while it is still being imported, and standard streams that are closed.

Ctrl-C then means exit code 130 and one line, no traceback. The module of a command counts as a part of that: Python may ignore an
exception within an import.

``funken`` imports this first, since its own import takes longer than a user's second thought. Only a process that is the command
line (``funken`` or ``python -m funken``) is changed, and only until its command begins.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

_AGAIN_SECONDS = 0.05


def is_command_line(argv: Sequence[str], original: Sequence[str]) -> bool:
    """Return True if a process is the command line, from ``sys.argv`` and ``sys.orig_argv``.

    >>> is_command_line(["/usr/bin/funken", "run"], ["python", "/usr/bin/funken", "run"])
    True
    >>> is_command_line(["-m", "run"], ["python", "-m", "funken", "run"]), is_command_line(["job.py"], ["python", "job.py"])
    (True, False)
    """
    if not argv or len(argv) > len(original):
        return False
    name = original[-len(argv)] if argv[0] == "-m" else argv[0]
    return os.path.basename(name) in ("funken", "funken.exe", "-mfunken")


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"Interrupted.\n")
    os._exit(128 + number)


def open_streams() -> None:
    """Open the null device for standard output and error where they are closed: Python has ``None`` for them."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for as long as the process lives


@contextmanager
def raised_again(kind: type[BaseException], wake: Callable[[], None]) -> Iterator[None]:
    """Call ``wake`` in another thread, soon after Python has ignored an exception of a kind, while the ``with`` block lasts.

    It can raise none of ``__del__``, nor of a callback of a weak reference, as its import system has.
    """
    before, left = sys.unraisablehook, False

    def later() -> None:
        time.sleep(_AGAIN_SECONDS)  # the main thread is out of the callback by then
        if not left:  # whoever takes the exception has heard of it otherwise
            wake()

    def hook(unraisable: Any) -> None:
        if type(unraisable.exc_value) is kind:  # a subclass interrupts a function of a cancelled job, not the program
            start_new_thread(later, ())  # takes no lock, which the interrupted code may hold
        else:
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        left = True
        if sys.unraisablehook is hook:
            sys.unraisablehook = before


def interrupt() -> None:
    """Raise Ctrl-C in the main thread, which may be in a system call."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


@contextmanager
def ctrl_c_heard(heard: Callable[[], None]) -> Iterator[None]:
    """Call ``heard`` at every Ctrl-C while the ``with`` block lasts, for a function of the user may catch the exception.

    One that Python has ignored is raised again. Only in the main thread, and where Python itself handles Ctrl-C.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def take(number: int, frame: FrameType | None) -> None:
        heard()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, take)
    try:
        with raised_again(KeyboardInterrupt, interrupt):
            yield
    finally:
        if signal.getsignal(signal.SIGINT) is take:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def hand_over() -> None:
    """Return Ctrl-C to Python: a command begins, and has a handler of its own or takes ``KeyboardInterrupt``."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if (
    is_command_line(sys.argv, sys.orig_argv)
    and threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, _end)
