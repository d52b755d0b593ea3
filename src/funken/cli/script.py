"""A user's program, run as ``python`` would run it: a file, a folder or a zip file with a ``__main__.py``, or a module (``-m``).

The program is ``__main__``, with the names that Python gives to that module, its own ``sys.argv``, and its folder (of ``-m``:
the working folder) first on the path. No ``from __future__`` of this package applies to it. The module stays ``__main__`` when
the program has ended, since its classes may still travel to workers. The stack is not the same: frames of Funken are below it.
"""

from __future__ import annotations

import builtins
import importlib.util
import os
import pkgutil
import re
import signal
import socket
import sys
import threading
import types
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import click

from funken import config
from funken.api.jobs.client import JobClient
from funken.checkpoint.machine import Stop
from funken.dataclass import dataclass
from funken.errors import FunkenError
from funken.io.durations import in_words
from funken.timing.clock import SystemClock

_COOKIE = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+")


@dataclass(frozen=True)
class Loaded:
    """The code of a program, and the name and namespace of its module."""

    code: types.CodeType
    argument: str
    """The value of ``sys.argv[0]``."""
    names: dict[str, Any]


def run_script(script: str, arguments: tuple[str, ...], as_module: bool = False) -> None:
    """Run a program as ``__main__``; with ``as_module``, ``script`` is the name of a module."""
    importer = None if as_module else pkgutil.get_importer(_absolute(script))
    sys.argv = ["-m" if as_module else script, *arguments]
    if importer is not None:
        _put_first(_absolute(script), always=True)
    else:
        _put_first(_working_folder() if as_module else os.path.dirname(os.path.realpath(script)))
    loaded = _of_module(script) if as_module else _of_file(script) if importer is None else _of_folder(script, importer)
    sys.argv[0] = loaded.argument
    module = types.ModuleType("__main__")
    vars(module).update({"__annotations__": {}, "__builtins__": builtins} | loaded.names)
    sys.modules["__main__"] = module
    execute(loaded.code, vars(module))


def execute(code: types.CodeType, namespace: dict[str, Any]) -> None:
    """Execute a program; tracebacks that are shown begin below this function."""
    exec(code, namespace)


def _put_first(folder: str, always: bool = False) -> None:
    """Put a folder first on the path, in the place of that of the command; without such a place (``-P``) only if ``always``."""
    if not sys.flags.safe_path:
        sys.path[0] = folder
    elif always:
        sys.path.insert(0, folder)


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it has been removed
        return ""


def _absolute(path: str) -> str:
    """Return a path as Python makes it absolute: dots and links stay."""
    return os.path.join(_working_folder(), path)


def _of_file(script: str) -> Loaded:
    path = _absolute(script)
    loader: SourceFileLoader | SourcelessFileLoader = SourceFileLoader("__main__", path)
    try:
        if path.endswith(".pyc"):
            loader = SourcelessFileLoader("__main__", path)
            compiled = loader.get_code("__main__")
            assert compiled is not None
            code = compiled
        else:
            code = _compiled(Path(path).read_bytes(), path)
    except OSError as error:
        raise click.ClickException(f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}") from None
    names = {"__file__": path, "__cached__": None, "__loader__": loader, "__package__": None, "__spec__": None}
    return Loaded(code, script, names)


def _compiled(source: bytes, path: str) -> types.CodeType:
    """Compile a file; the error for bytes that are no UTF-8 is worded as that of ``python FILE``."""
    try:
        return compile(source, path, "exec", dont_inherit=True)
    except SyntaxError:
        lines = source.split(b"\n")
        if not any(map(_COOKIE.match, lines[:2])):
            for number, line in enumerate(lines, 1):
                _check_utf8(line, number, path)
        raise


def _check_utf8(line: bytes, number: int, path: str) -> None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise SyntaxError(
            f"Non-UTF-8 code starting with '\\x{line[error.start]:02x}' in file {path} on line {number}, but no encoding "
            "declared; see https://peps.python.org/pep-0263/ for details"
        ) from None


def _of_folder(script: str, importer: Any) -> Loaded:
    """Load the ``__main__`` of a folder or a zip file."""
    spec = importer.find_spec("__main__")
    if spec is None or spec.loader is None:
        raise click.ClickException(f"can't find '__main__' module in {_absolute(script)!r}")
    return Loaded(_code_of(spec), script, _names_of(spec, ""))


def _of_module(name: str) -> Loaded:
    spec = _found(name)
    if spec is not None and spec.submodule_search_locations is not None:
        package, spec = name, _found(f"{name}.__main__")
        if spec is None:
            raise click.ClickException(
                f"No module named {package}.__main__; {package!r} is a package and cannot be directly executed"
            )
    if spec is None:
        raise click.ClickException(f"No module named {name}")
    if spec.loader is None or not hasattr(spec.loader, "get_code"):
        raise click.ClickException(f"{name} is no module that has Python code")
    return Loaded(_code_of(spec), spec.origin or name, _names_of(spec, spec.parent))


def _found(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # a package of the program imports what is not there
        raise click.ClickException(
            f"Error while finding module specification for {name!r} ({type(error).__name__}: {error})"
        ) from None


def _code_of(spec: ModuleSpec) -> types.CodeType:
    assert spec.loader is not None
    code = spec.loader.get_code(spec.name)  # type: ignore[attr-defined]
    if code is None:
        raise click.ClickException(f"No code object available for {spec.name}")
    assert isinstance(code, types.CodeType)
    return code


def _names_of(spec: ModuleSpec, package: str | None) -> dict[str, Any]:
    return {
        "__file__": spec.origin,
        "__cached__": spec.cached,
        "__loader__": spec.loader,
        "__package__": package,
        "__spec__": spec,
    }


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
