"""The interface of a leader election, and its choice by options.

An election is started once. It grants leadership at most once, and takes it away at most once; a driver that lost it ends,
and is started again as a standby by whatever supervises it.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Protocol
from uuid import uuid4

from funken import config
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import CheckpointError, CheckpointNotFound, InvalidConfiguration
from funken.io.storage import Storage, open_storage
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
from funken.leaderelection.zookeeper import ZooKeeperElection
from funken.timing.clock import SystemClock

# ---- How a job of several drivers has ended, for those that would take it over: one file, written by the leader.


_FILE = "result"


@dataclass(frozen=True, slots=True)
class JobResultEntry:
    """The end of a job: its status, and the failure if it failed."""

    status: str
    failure: str = ""


def result_of_job(storage: Storage) -> JobResultEntry | None:
    """Return the end of the job; ``None`` if it has not ended.

    >>> from funken.testing.memory_storage import MemoryStorage
    >>> storage = MemoryStorage()
    >>> result_of_job(storage)
    >>> keep_result(storage, JobResultEntry("FINISHED"))
    >>> result_of_job(storage)
    JobResultEntry(status='FINISHED', failure='')
    """
    try:
        found = json.loads(storage.read(_FILE))
        return JobResultEntry(str(found["status"]), str(found.get("failure", "")))
    except CheckpointNotFound:
        return None


def keep_result(storage: Storage, entry: JobResultEntry) -> None:
    """Note how the job has ended."""
    storage.write(_FILE, json.dumps({"status": entry.status, "failure": entry.failure}).encode())


# ---- The lease in a storage folder: a thread that does what its machine decides. Nothing has to be installed.
#
# ::
#
#     <storageDir>/_high-availability/<cluster id>/<job id>/leader/<term>


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


FOLDER = "_high-availability"


class LeaderElection(Protocol):
    """One driver's part in an election."""

    name: str
    """The name of the election; terms of one election can be compared."""
    granted: threading.Event
    """Set when this driver leads."""
    term: int
    """In which term, from then on."""

    def start(self, lost: Callable[[str], None]) -> None:
        """Become a candidate; raises ``EnvironmentNotReady`` if that is not possible.

        ``lost`` is called, from another thread, when this driver has led and does not any more.
        """

    def close(self) -> None:
        """Be no candidate any more; if this driver leads, the next one need not wait."""


def with_high_availability(configuration: Configuration) -> Configuration:
    """Return the configuration of a job that several drivers may run: it has an id that they share.

    Raises ``InvalidConfiguration`` if there is nothing that another driver could resume from.

    >>> conf = {"high-availability.type": "lease", "high-availability.cluster-id": "orders"}
    >>> conf |= {"execution.checkpointing.interval": "1 s", "execution.checkpointing.dir": "/checkpoints"}
    >>> with_high_availability(Configuration(conf)).get(config.JOB_ID)
    'orders'
    """
    get = configuration.get
    kind = get(config.HA_TYPE)
    if kind == "none":
        return configuration
    if get(config.CHECKPOINT_INTERVAL) <= 0 or not get(config.CHECKPOINT_DIR):
        raise InvalidConfiguration(
            f"option {config.HA_TYPE.key!r} is {kind!r}, but a standby has no checkpoint to take the job over from. Set "
            f"{config.CHECKPOINT_INTERVAL.key}, and {config.CHECKPOINT_DIR.key} to a place that all drivers reach."
        )
    if kind == "zookeeper" and not get(config.HA_ZOOKEEPER_QUORUM):
        raise InvalidConfiguration(
            f"option {config.HA_TYPE.key!r} is 'zookeeper', but {config.HA_ZOOKEEPER_QUORUM.key} is not set. Name the servers: "
            "host1:2181,host2:2181."
        )
    shared = configuration.copy()
    if not get(config.JOB_ID):
        shared.set(config.JOB_ID, get(config.HA_CLUSTER_ID))
    return shared


def storage_of(configuration: Configuration) -> Storage:
    """Return the folder in which the drivers of a job note who leads, and how it has ended."""
    get = configuration.get
    base = (get(config.HA_STORAGE) or get(config.CHECKPOINT_DIR)).rstrip("/")
    return open_storage(f"{base}/{FOLDER}/{get(config.HA_CLUSTER_ID)}/{get(config.JOB_ID)}")


def election_of(configuration: Configuration) -> LeaderElection | None:
    """Return this driver's part in the election of a job; ``None`` if it is the only driver.

    Raises ``EnvironmentNotReady`` if kazoo is missing, and needed.
    """
    get = configuration.get
    kind = get(config.HA_TYPE)
    if kind == "lease":
        return LeaseElection(storage_of(configuration).at("leader"), get(config.HA_LEASE) / 1000)
    if kind == "zookeeper":
        path = f"{get(config.HA_ZOOKEEPER_ROOT).rstrip('/')}/{get(config.HA_CLUSTER_ID)}/{get(config.JOB_ID)}"
        session, connect = get(config.HA_ZOOKEEPER_SESSION) / 1000, get(config.HA_ZOOKEEPER_CONNECTION) / 1000
        return ZooKeeperElection(get(config.HA_ZOOKEEPER_QUORUM), path, session, connect)
    return None


# ---- Where the leaders of jobs answer requests: one small file each beside their lease, for who looks after all
# jobs of a storage.
#
# ::
#
#     <storageDir>/_high-availability/<cluster id>/<job id>/rest
#
# A file has an address and the host that it is of, never a token. It is a hint: the leader may be gone, and the
# next one replaces it.


_ADDRESS_FILE = "rest"
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class LeaderAddress:
    """The address of a job's leader, and the host name of its machine."""

    url: str
    host: str


def publish(storage: Storage, url: str) -> None:
    """Write down where this driver answers, which leads the job of this folder."""
    storage.write(_ADDRESS_FILE, json.dumps(asdict(LeaderAddress(url, socket.gethostname()))).encode())


def withdraw(storage: Storage) -> None:
    """Remove the file of ``publish``; to be called by a leader that still leads."""
    storage.delete(_ADDRESS_FILE)


def published(directory: str) -> list[LeaderAddress]:
    """Return the addresses below ``high-availability.storageDir``, sorted by cluster and job; files of others are left out.

    >>> from funken.io.storage import mounted
    >>> from funken.testing.memory_storage import MemoryStorage
    >>> storage = MemoryStorage()
    >>> publish(storage.at("_high-availability/shop/orders"), "http://10.0.0.7:8081")
    >>> with mounted("memory://ha", storage):
    ...     [address.url for address in published("memory://ha/")]
    ['http://10.0.0.7:8081']
    """
    storage = open_storage(f"{directory.rstrip('/')}/{FOLDER}")
    found = []
    for name in sorted(storage.sizes()):
        parts = name.split("/")
        if len(parts) != _DEPTH or parts[-1] != _ADDRESS_FILE:
            continue
        try:
            read = json.loads(storage.read(name))
            found.append(LeaderAddress(str(read["url"]), str(read["host"])))
        except (CheckpointError, ValueError, KeyError, TypeError):  # gone since, or not of this version
            continue
    return found
