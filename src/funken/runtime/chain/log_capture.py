"""Takes what user code logs, with the operator, subtask and attempt it was logged by. A record that is not logged costs nothing.

Who logs is read from the frames of the call, when a record is logged: the innermost operator on the stack. Records of threads
that functions start have no operator. What is taken is handed on in batches: in a worker by a thread that begins with the first
record, in this process at once.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from copy import copy
from types import FrameType

from funken import config
from funken.operators.base import Operator, OperatorContext
from funken.operators.codegen import step_of
from funken.runtime.chain.fused import FusedOperators
from funken.runtime.log_entries import LogEntry, LogLimit, LogSettings, cut, on_lines
from funken.runtime.messages import TaskEnded, TaskEvent, TaskFailed, TaskId, TaskLogged
from funken.runtime.settings import TaskSettings

_EVERY_SECONDS = 0.2
_KEPT = 10_000
_CLOSE_SECONDS = 2.0
FORWARDED = "funken_forwarded"
"""The attribute of a record that comes from a job's log, and must not go there again."""

Deliver = Callable[[list[LogEntry]], None]


class LogCapture(logging.Handler):
    """The handler of the root logger of a process while a task or a job runs in it.

    ``deliver`` gets the entries, with ``threaded`` in batches and from a thread of this handler's. ``mine`` tells whether a
    record is this job's; ``subtask`` and ``attempt`` are those of records outside of operators.
    """

    def __init__(
        self, settings: LogSettings, deliver: Deliver, subtask: int = -1, attempt: int = -1, threaded: bool = True,
        mine: Callable[[logging.LogRecord], bool] = lambda record: True, mask: Callable[[str], str] = str,
    ) -> None:  # fmt: skip
        super().__init__(settings.level)
        self.mask = mask
        """Removes the secrets of the job from text that is written to stderr."""
        self.attempt = attempt
        self._settings = settings
        self._deliver = deliver
        self._subtask = subtask
        self._threaded = threaded
        self._mine = mine
        self._pid = os.getpid()
        self._limit = LogLimit(settings.rate)
        self._entries: list[LogEntry] = []
        self._overflow = 0
        self._newest = 0
        self._logged = threading.Event()
        self._closing = threading.Event()
        self._sending = threading.Lock()
        self._thread: threading.Thread | None = None
        self._root_level: int | None = None

    # ---- life

    def install(self, set_level: bool, prints: bool = False) -> None:
        """Listen to the root logger, with ``set_level`` at the level of the settings.

        With ``prints``, records that no handler of the program takes are written to stderr, as it is where nobody listens.
        """
        root = logging.getLogger()
        if prints:
            root.addHandler(_UNTAKEN)
        if set_level:
            self._root_level = root.level
            root.setLevel(self._settings.level)
        root.addHandler(self)

    def uninstall(self) -> None:
        """Listen no more, and hand on the remaining entries; waits for a bounded time."""
        root = logging.getLogger()
        root.removeHandler(self)
        if not any(isinstance(each, LogCapture) for each in root.handlers):
            root.removeHandler(_UNTAKEN)
        if self._root_level is not None:
            root.setLevel(self._root_level)
        self._closing.set()
        self._logged.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)
        self.flush()

    # ---- records

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record; called with this handler's lock."""
        if getattr(record, FORWARDED, False) or os.getpid() != self._pid or not self._mine(record):
            return
        try:
            self._newest = int(record.created * 1000)
            if not self._limit.admit(record.created):
                return
            message = record.getMessage()
            if record.exc_info and record.exc_info[0] is not None:
                message += "\n" + (self.formatter or logging.Formatter()).formatException(record.exc_info)
        except Exception as error:  # noqa: BLE001 - of a record that cannot be written, that is said
            message = f"{record.msg!r} (its text raises {type(error).__name__}: {error})"
        self._add(int(record.created * 1000), record.levelno, record.name, message)

    def _add(self, time: int, level: int, logger: str, message: str) -> None:
        context = operator_on(sys._getframe(1))
        name, uid, subtask, attempt = "", "", self._subtask, self.attempt
        if context is not None:
            name, uid, subtask, attempt = context.operator, context.operator_uid, context.subtask, context.attempt
        if len(self._entries) >= _KEPT:
            self._overflow += 1
            return
        self._entries.append(LogEntry(time, level, logger, cut(message), name, uid, subtask, attempt, pid=self._pid))
        if not self._threaded:
            self._hand_on(self._take())
        elif self._thread is None and not self._closing.is_set():
            self._thread = threading.Thread(target=self._run, name="funken-logs", daemon=True)
            self._thread.start()
        self._logged.set()

    # ---- delivery

    def _run(self) -> None:
        while not self._closing.is_set():
            self._logged.wait()
            self._closing.wait(_EVERY_SECONDS)
            self._logged.clear()
            self.flush()

    def flush(self) -> None:
        """Hand on the captured entries, in the order in which they were logged."""
        if self._threaded:
            with self._sending:
                self._hand_on(self._take())
        else:
            self._hand_on(self._take())

    def _take(self) -> list[LogEntry]:
        self.acquire()
        try:
            entries, self._entries = self._entries, []
            dropped, self._overflow = self._limit.take_dropped() + self._overflow, 0
        finally:
            self.release()
        return [*entries, self._told(dropped, entries)] if dropped else entries

    def _hand_on(self, entries: list[LogEntry]) -> None:
        """Deliver entries; entries that cannot be sent, as the driver is gone, are lost."""
        if entries:
            with contextlib.suppress(OSError, ValueError):
                self._deliver(entries)

    def _told(self, dropped: int, entries: list[LogEntry]) -> LogEntry:
        time = entries[-1].time if entries else self._newest
        text = f"{dropped} log records were dropped: more than {self._settings.rate} a second ({config.LOG_RATE.key})."
        return LogEntry(time, logging.WARNING, "funken.logs", text, subtask=self._subtask, attempt=self.attempt)


class _Untaken(logging.Handler):
    """Handles records as Python does without a handler: a capture counts as one, and would hide all warnings."""

    def emit(self, record: logging.LogRecord) -> None:
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            if not all(isinstance(each, LogCapture | _Untaken) for each in logger.handlers):
                return
            logger = logger.parent if logger.propagate else None
        last = logging.lastResort
        if last is not None and record.levelno >= last.level:
            last.handle(_masked(record))


def _masked(record: logging.LogRecord) -> logging.LogRecord:
    """Return a record as it may be shown: without the secrets of the jobs here, and no line of it looks like another record."""
    found = copy(record)
    try:
        text = record.getMessage()
    except Exception:  # noqa: BLE001 - the handler tells of a record that cannot be written
        return record
    trace = logging.Formatter().formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""
    for each in logging.getLogger().handlers:
        if isinstance(each, LogCapture):
            text, trace = each.mask(text), each.mask(trace)
    found.msg, found.args = on_lines(text), None
    if trace:
        found.exc_text = trace
    return found


_UNTAKEN = _Untaken()


def operator_on(frame: FrameType | None) -> OperatorContext | None:
    """Return the context of the innermost operator on a stack."""
    while frame is not None:
        step = step_of(frame.f_code, frame.f_lineno)
        owner = step.operator if step is not None else frame.f_locals.get("self")
        if isinstance(owner, FusedOperators):
            owner = owner.last
        if isinstance(owner, Operator):
            context = getattr(owner, "context", None)
            if isinstance(context, OperatorContext):
                return context
        frame = frame.f_back
    return None


class _Lines(io.TextIOBase):
    """A stream that logs each line which is printed; a line that has no end yet waits for it."""

    def __init__(self, logger: str, level: int) -> None:
        self._logger = logging.getLogger(logger)
        self._level = level
        self._begun = threading.local()  # per thread: lines of two threads do not mix

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if getattr(self._begun, "logs", False):  # a handler of the program's, which writes to this stream
            return len(text)
        *lines, rest = (getattr(self._begun, "text", "") + text).split("\n")
        self._begun.text, self._begun.logs = rest, True
        try:
            for line in lines:
                self._logger.log(self._level, "%s", line)
        finally:
            self._begun.logs = False
        return len(text)


class _Nothing(io.TextIOBase):
    """A stream that keeps nothing."""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return len(text)


@contextmanager
def printing(mode: str) -> Iterator[None]:
    """Let text that is printed meanwhile go where ``taskmanager.system-out.mode`` says."""
    if mode == "default":
        yield
    else:
        log = mode == "log"
        out, err = (_Lines("stdout", logging.INFO), _Lines("stderr", logging.WARNING)) if log else (_Nothing(),) * 2
        with redirect_stdout(out), redirect_stderr(err):
            yield


class WorkerLogs:
    """The logs and, as configured, the output of a process of one or more tasks: sent to the driver until ``close``."""

    def __init__(self, task: TaskId, settings: TaskSettings, host: str, send: Callable[[TaskEvent], None]) -> None:
        def deliver(entries: list[LogEntry]) -> None:
            send(TaskLogged(task, entries=tuple(entries), host=host, pid=os.getpid()))

        self._capture = LogCapture(settings.logs, deliver, task.subtask, settings.attempt)
        self._capture.install(set_level=True)
        self._printing = contextlib.ExitStack()
        self._printing.enter_context(printing(settings.logs.system_out))

    def before_the_end(self, send: Callable[[TaskEvent], None]) -> Callable[[TaskEvent], None]:
        """Return a sender of events of a task; before its end, it sends all logs: the driver may hang up at once."""

        def logs_first(event: TaskEvent) -> None:
            if isinstance(event, TaskEnded | TaskFailed):
                self._capture.flush()
            send(event)

        return logs_first

    def close(self) -> None:
        """Leave the process as it was: Spark may use it again."""
        self._printing.close()
        self._capture.uninstall()
