"""Signals while a program runs: an exception in the main thread that ends it, and the steps that follow if it does not.

SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal is closed) become an exception in the program, so that its jobs are stopped,
not abandoned. A second signal ends the process at once, unless another job has begun since the first. A signal that the
process was started to ignore, as by ``nohup``, stays ignored. Where SIGTERM is to save the jobs first, it becomes an exception
when that is done.

An exception that is raised at any moment may get lost: in a callback of Python's import system, or in a function of the user
that catches everything. So it is raised again if Python reports it as ignored. A job that still runs some seconds after the
signal is stopped as by its client, and a program that has not ended by then is told of the second signal. Python waits for a
program's own threads when it ends; here it does so within a bound.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from math import inf
from queue import SimpleQueue
from types import FrameType

import click

from funken import config
from funken.api.jobs.client import JobClient
from funken.checkpoint.machine import Stop
from funken.errors import FunkenError, JobCancelled
from funken.io.durations import in_words
from funken.starting import raised_again
from funken.timing.clock import SystemClock

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_SAID_AFTER_SECONDS = 10.0
"""The time (s) after a signal at which a program that still runs is told of the second one."""


def _threads_of_program() -> list[str]:
    """Return the names of the threads for which Python waits at its end."""
    return [each.name for each in threading.enumerate() if not each.daemon and each is not threading.main_thread()]


class Told(KeyboardInterrupt):
    """A signal; not ``SystemExit``, which in a function of the user would be a failure of the function."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


class Signals:
    """The handling of signals while a program runs."""

    def __init__(self) -> None:
        self._number = 0
        """The first signal; 0 before it."""
        self._running: list[JobClient] = []
        self._stopped: dict[JobClient, int] = {}
        """The jobs that did not end by the exception of a signal, and its number."""
        self._saving: LastSavepoints | None = None
        self._saved_for = False
        self._woken = self._raised = False
        self._ended = threading.Event()

    def take(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: raise an exception, now or when the jobs are saved; or end the process if it is a second one."""
        if self._woken:
            self._woken = False
            if self._raised:
                return
            number = self._number
        elif self._number:
            with suppress(OSError):
                os.write(2, b"Interrupted again: what still ran is left as it is.\n")
            os._exit(128 + number)
        else:
            self._number = number
            saved = [client for client in self._running if seconds_to_save(client)]
            if number == signal.SIGTERM and saved and self._saving is not None:
                self._saved_for = True
                self._saving.begin(saved)
                return
        self._raised = True
        raise Told(number)

    def _wake(self) -> None:
        """Raise the exception in the main thread, which it has not reached: SIGTERM was delayed, or the exception got lost."""
        self._woken = True
        signal.pthread_kill(threading.main_thread().ident or 0, self._number)  # which also ends a sleep

    @contextmanager
    def watch(self, client: JobClient) -> Iterator[None]:
        """Take the next signal for the first one: a job begins. At its end, raise an exception that has not come."""
        if not self._saved_for:
            self._number, self._raised = 0, False
        if self._saving is None and seconds_to_save(client):
            self._saving = LastSavepoints(self._wake)
        self._running.append(client)
        try:
            yield
        except JobCancelled:
            if client in self._stopped:
                raise Told(self._stopped[client]) from None
            raise
        finally:
            self._running.remove(client)
        if self._saved_for and self._saving is not None and self._saving.has_saved(client):
            self._raised |= threading.current_thread() is threading.main_thread()
            raise Told(signal.SIGTERM)  # else it would count as finished, and its checkpoints go

    # ---- when the exception does not end the program

    def _lost(self) -> None:
        """Python has ignored the exception: raise it again."""
        if self._number and not self._ended.is_set():
            self._raised = False
            self._wake()

    def late(self) -> None:
        """Some seconds have passed since a signal: stop the jobs that still run, in another thread."""
        if self._number and self._raised and not self._ended.is_set():  # not while a last savepoint is made
            threading.Thread(target=self._stop, args=(self._number,), name="funken-late", daemon=True).start()

    def _stop(self, number: int) -> None:
        stopping = []
        for client in list(self._running):
            if not client.get_job_execution_result().done():
                self._stopped[client] = number
                stopping.append((client, client.suspend()))
        said_at = SystemClock().monotonic() + _SAID_AFTER_SECONDS
        while not self._ended.wait(_LOOK_SECONDS):
            if SystemClock().monotonic() >= said_at:
                said_at = inf
                _tell(
                    f"{signal.Signals(number).name} came, and the program still runs. A second signal ends it at once."
                )
            for client, stopped in stopping:
                if client._thread is threading.main_thread() and stopped.done() and (error := stopped.exception()):
                    _tell(f"{error}")  # which is blocked for good
                    os._exit(128 + number)
            if self._number != number:
                return  # another job has begun since
            if said_at == inf and all(stopped.done() for _, stopped in stopping):
                return

    def end(self) -> None:
        """The program is being ended: nothing more is to be raised."""
        self._raised = True
        self._ended.set()
        if self._saving is not None:
            self._saving.close()
        if _threads_of_program():
            threading.Thread(target=self._leave, name="funken-leave", daemon=True).start()

    def _leave(self) -> None:
        """End the process without the threads for which Python waits at its end, for ever if one does not return."""
        threading.Event().wait(_SAID_AFTER_SECONDS)
        if names := _threads_of_program():
            shown = ", ".join(sorted(names))
            _tell(f"Threads of the program have not ended within {_SAID_AFTER_SECONDS:g} s, and are left: {shown}.")
            os._exit(128 + (self._number or signal.SIGINT))

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle signals while the ``with`` block lasts."""
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        taken = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
        try:
            for number in taken:
                signal.signal(number, self.take)
            with waits_interrupted(self.late), raised_again(Told, self._lost):
                yield
        finally:
            self._ended.set()
            for number in taken:
                signal.signal(number, before[number] or signal.SIG_DFL)


# ---- A last savepoint of the jobs that run when SIGTERM comes, where ``execution.savepoint-on-sigterm.timeout``
# asks for one.
#
# The handler of the signal returns, so that the jobs go on until they are saved; they then end by themselves, at
# the savepoint. When none runs any more, or one could not be saved, or the time is over, the program is ended as
# without a savepoint. The savepoint counts as the newest checkpoint of a job with an id: its next start resumes
# from it.


_LOOK_SECONDS = 0.05
_UNWIND_SECONDS = 2.0
"""The time (s) in which the main thread may learn from its job that it has ended, before it is interrupted."""


def seconds_to_save(client: JobClient) -> float:
    """Return the time limit of a job's last savepoint (s), 0 if it is to have none."""
    return client._job.configuration.get(config.SAVEPOINT_ON_SIGTERM) / 1000


class LastSavepoints:
    """Saves jobs, in a thread of its own, when ``begin`` is called; a signal handler may do so.

    ``end`` is called, in that thread, when the program is to be ended; it is not if ``close`` is called before.
    """

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._begun: SimpleQueue[list[JobClient]] = (
            SimpleQueue()
        )  # its put() may interrupt any other code, also its own
        self._made: dict[JobClient, Future[str]] = {}
        self._requesting = threading.Lock()  # a job may be saved, and ask, before its request is noted
        self._ended = threading.Event()
        self._asked = False
        self._thread = threading.Thread(target=self._run, name="funken-last-savepoints", daemon=True)
        self._thread.start()

    def begin(self, clients: list[JobClient]) -> None:
        """Save these jobs."""
        self._asked = True
        self._begun.put(clients)

    def close(self) -> None:
        """The program is being ended: report the fate of its jobs."""
        self._ended.set()
        if self._asked:
            self._thread.join(_UNWIND_SECONDS)

    def has_saved(self, client: JobClient) -> bool:
        """Return True if a job has been saved; asked when it is over."""
        with self._requesting:
            made = self._made.get(client)
        return made is not None and made.done() and made.exception() is None

    def _run(self) -> None:
        clients = self._begun.get()
        limit = SystemClock().monotonic() + max(map(seconds_to_save, clients))
        for client in clients:
            self._request(client)
        while SystemClock().monotonic() < limit and not all(map(self._settled, self._made)):
            threading.Event().wait(_LOOK_SECONDS)
        for client in self._made:
            self._say(client)
        if not (all(map(self.has_saved, clients)) and self._ended.wait(_UNWIND_SECONDS)):
            self._end()

    def _request(self, client: JobClient) -> None:
        name, job = client.plan.name, client._job
        placed = job.configuration.get(config.CHECKPOINT_DIR) or job.configuration.get(config.SAVEPOINT_DIR)
        if not placed or job.checkpoints is None or job.frame is not None:
            _tell(
                f"{name!r} is stopped without a savepoint: it has no place for one. Set {config.CHECKPOINT_DIR.key} or "
                f"{config.SAVEPOINT_DIR.key}; batch jobs and micro-batches have none."
            )
            return
        limit = in_words(round(seconds_to_save(client) * 1000))
        _tell(f"SIGTERM: {name!r} is saved before it ends (at most {limit}; a second signal ends it at once).")
        try:
            with self._requesting:
                self._made[client] = client._savepoint(None, Stop.SUSPEND)
        except FunkenError as error:
            _tell(f"{name!r} is stopped without a savepoint: {error}")

    def _settled(self, client: JobClient) -> bool:
        made = self._made[client]
        return client.get_job_execution_result().done() or (made.done() and made.exception() is not None)

    def _say(self, client: JobClient) -> None:
        name, made = client.plan.name, self._made[client]
        if not made.done():
            limit = in_words(round(seconds_to_save(client) * 1000))
            _tell(f"{name!r} is stopped without a savepoint: there was none within {limit}.")
        elif (error := made.exception()) is not None:
            _tell(f"{name!r} is stopped without a savepoint: {error}")
        else:
            job_id = client._job.configuration.get(config.JOB_ID)
            start = f"a start with {config.JOB_ID.key} {job_id!r}" if job_id else "funken run -s"
            _tell(f"{name!r} is saved in {made.result()}: {start} resumes from it.")


def _tell(line: str) -> None:
    click.echo(line, err=True)


# ---- The main thread hears of every signal, also of one that comes just before it begins to wait.
#
# Python runs the handlers of signals in the main thread, between two instructions. A signal that arrives after the
# last look for signals and before the system call that waits (a lock, a sleep) does not end that call, and one that
# the system gives to another thread does not either: the handler runs when the call returns, which may be never. So
# a thread reads the numbers that Python writes for each signal (``signal.set_wakeup_fd``) and interrupts the main
# thread's system call a little later, by a signal whose handler does nothing.


_NUDGE = signal.SIGURG  # which is ignored unless it has a handler, and which nothing sends to a process by itself
_AFTER_SECONDS = (0.05, 0.5, 2.0)
"""The times (s) of interrupts of the main thread after a signal: repeated for a thread without a core until then."""


def _nothing() -> None:
    """Nothing is to be done."""


@contextmanager
def waits_interrupted(late: Callable[[], None] = _nothing) -> Iterator[None]:
    """Let every signal that has a handler interrupt the main thread, while the ``with`` block lasts.

    To be used in the main thread. ``late`` is called some seconds after each signal, in another thread. Where the program has a
    handler of its own for SIGURG, nothing of this happens.
    """
    if signal.getsignal(_NUDGE) is not signal.SIG_DFL:
        yield
        return
    received, written = socket.socketpair()
    written.setblocking(False)
    signal.signal(_NUDGE, lambda number, frame: None)
    before = signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=_nudge, args=(received, late), name="funken-signals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        written.close()
        thread.join(_UNWIND_SECONDS)  # it reads the end at once
        received.close()
        signal.signal(_NUDGE, signal.SIG_DFL)


def _interrupt() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, _NUDGE)


def _nudge(received: socket.socket, late: Callable[[], None]) -> None:
    due: list[tuple[float, Callable[[], None]]] = []
    while True:
        now = SystemClock().monotonic
        received.settimeout(max(due[0][0] - now(), 0.001) if due else None)
        try:
            numbers = received.recv(64)
        except TimeoutError:
            due.pop(0)[1]()
            continue
        if not numbers:
            return
        if any(number != _NUDGE for number in numbers):
            due = [(now() + seconds, _interrupt) for seconds in _AFTER_SECONDS]
            due.append((due[-1][0], late))
