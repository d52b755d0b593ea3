"""The lease in a storage folder: a thread that does what its machine decides. Nothing has to be installed.

::

    <storageDir>/_high-availability/<cluster id>/<job id>/leader/<term>
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from uuid import uuid4

from funken.errors import CheckpointError
from funken.io.storage import Storage
from funken.leaderelection.machine import (
    Create,
    Created,
    Elapsed,
    Failed,
    Granted,
    LeaseCommand,
    LeaseEvent,
    LeaseMachine,
    LeaseRole,
    Look,
    Observed,
    Release,
    Renew,
    Renewed,
    Resigned,
    Revoked,
)
from funken.timing.clock import SystemClock

logger = logging.getLogger(__name__)

_CLOSE_SECONDS = 10.0


class LeaseElection:
    """One driver's part in an election by lease; ``duration`` is in seconds.

    >>> import tempfile
    >>> from funken.io.storage import open_storage
    >>> folder = tempfile.TemporaryDirectory()
    >>> election = LeaseElection(open_storage(folder.name), duration=30.0)
    >>> election.start(lost=print)
    >>> election.granted.wait(30), election.term
    (True, 1)
    >>> election.close()
    >>> folder.cleanup()
    """

    def __init__(self, storage: Storage, duration: float) -> None:
        self.name = f"lease {storage.uri}"
        self.granted = threading.Event()
        self.term = 0
        self._storage = storage
        self._machine = LeaseMachine(duration)
        self._token = uuid4().hex
        self._closing = threading.Event()
        self._clock = SystemClock()
        self._lost: Callable[[str], None] = lambda reason: None
        self._thread = threading.Thread(target=self._run, name="funken-lease", daemon=True)

    def start(self, lost: Callable[[str], None]) -> None:
        """Become a candidate."""
        self._lost = lost
        self._thread.start()

    def close(self) -> None:
        """Be no candidate any more."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_SECONDS)  # a storage that hangs is left to its thread

    def _run(self) -> None:
        while not self._closing.is_set() and self._machine.role is not LeaseRole.OVER:
            self._handle(Elapsed())
            self._closing.wait(self._machine.due(self._clock.monotonic()))
        self._handle(Resigned())

    def _handle(self, event: LeaseEvent) -> None:
        commands = self._machine.handle(event, self._clock.monotonic())
        while commands:
            answer = self._execute(commands.pop(0))
            if answer is not None:
                commands += self._machine.handle(answer, self._clock.monotonic())

    def _execute(self, command: LeaseCommand) -> LeaseEvent | None:
        try:
            match command:
                case Look():
                    return self._look()
                case Create(term=term):
                    self._write(term, 0, new=True)
                    return Created()
                case Renew(term=term, beat=beat):
                    self._write(term, beat)
                    return Renewed()
                case Release(term=term):
                    self._write(term, -1)
                case Granted(term=term):
                    self.term = term
                    self.granted.set()
                    self._tidy(term)
                case Revoked(reason=reason):
                    self._lost(reason)
        except CheckpointError as error:
            if not isinstance(error.__cause__, FileExistsError):
                logger.warning("leader election: %s", error)
            return Failed(str(error))
        return None

    def _look(self) -> Observed:
        terms = [int(name) for name in self._storage.sizes() if name.isdecimal()]
        if not terms:
            return Observed()
        newest = max(terms)
        try:
            found = json.loads(self._storage.read(str(newest)))
            beat, token = int(found["beat"]), str(found["token"])
        except (ValueError, KeyError, TypeError):  # torn: its driver has to write it again
            return Observed(newest)
        foreign = newest == self._machine.term and token != self._token
        return Observed(newest, beat, beat < 0, foreign)

    def _write(self, term: int, beat: int, new: bool = False) -> None:
        self._storage.write(str(term), json.dumps({"beat": beat, "token": self._token}).encode(), new=new)

    def _tidy(self, term: int) -> None:
        for name in self._storage.sizes():
            if name.isdecimal() and int(name) < term:
                self._storage.delete(name)
