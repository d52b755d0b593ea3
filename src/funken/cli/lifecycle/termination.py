"""A last savepoint of the jobs that run when SIGTERM comes, where ``execution.savepoint-on-sigterm.timeout`` asks for one.

The handler of the signal returns, so that the jobs go on until they are saved; they then end by themselves, at the savepoint.
When none runs any more, or one could not be saved, or the time is over, the program is ended as without a savepoint. The
savepoint counts as the newest checkpoint of a job with an id: its next start resumes from it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

import click

from funken import config
from funken.api.jobs.client import JobClient
from funken.checkpoint.events import Stop
from funken.errors import FunkenError
from funken.io.durations import in_words
from funken.timing.clock import SystemClock

_LOOK_SECONDS = 0.05
_UNWIND_SECONDS = 2.0
"""How long the main thread may take to learn from its job that it has ended, before it is interrupted."""


def seconds_to_save(client: JobClient) -> float:
    """Return how long a last savepoint of a job may take (s), 0 if it is to have none."""
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
        """The program is being ended, and it is to be said what became of its jobs."""
        self._ended.set()
        if self._asked:
            self._thread.join(_UNWIND_SECONDS)

    def has_saved(self, client: JobClient) -> bool:
        """Whether a job has been saved; asked when it is over."""
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
