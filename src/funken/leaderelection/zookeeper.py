"""Leader election over ZooKeeper: of the ephemeral nodes of all candidates, the oldest is the leader's.

The term is the number of the transaction that made the node, so a later leader has a higher one. A leader that has lost the
connection takes its leadership for lost when two thirds of its session's time are over, before ZooKeeper removes its node.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable
from typing import Any

from funken.errors import EnvironmentNotReady
from funken.timing.clock import SystemClock

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
_SHARE = 2 / 3


class ZooKeeperElection:
    """One driver's part in an election over ZooKeeper; ``session`` is how long (s) it waits for a driver that is silent."""

    def __init__(self, quorum: str, path: str, session: float) -> None:
        try:
            client = importlib.import_module("kazoo.client")
        except ImportError as error:
            raise EnvironmentNotReady(
                "high-availability.type 'zookeeper' needs kazoo: pip install 'funken[zookeeper]'."
            ) from error
        self.name = f"zookeeper {path}"
        self.granted = threading.Event()
        self.term = 0
        self._path = path
        self._quorum = quorum
        self._session = session
        self._client: Any = client.KazooClient(
            hosts=quorum,
            timeout=session,
            connection_retry={"max_tries": -1, "max_delay": 1.0},
            command_retry={"max_tries": 3, "max_delay": 1.0},
        )
        self._node = ""
        self._closing = threading.Event()
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._silent_since: float | None = None
        self._expired = False
        self._lost: Callable[[str], None] = lambda reason: None
        self._thread = threading.Thread(target=self._run, name="funken-zookeeper", daemon=True)

    def start(self, lost: Callable[[str], None]) -> None:
        """Become a candidate; one that cannot reach ZooKeeper yet goes on trying."""
        self._lost = lost
        self._client.add_listener(self._heard)
        self._thread.start()

    def close(self) -> None:
        """Be no candidate any more."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(10.0)

    def _heard(self, state: str) -> None:
        """The connection came or went; called by the client's own thread."""
        with self._lock:
            if state == "CONNECTED":
                self._silent_since = None
            elif self._silent_since is None:
                self._silent_since = self._clock.monotonic()
            self._expired |= state == "LOST"
        if state != "CONNECTED":
            logger.warning("leader election: the connection to ZooKeeper at %s is %s", self._quorum, state)

    def _run(self) -> None:
        self._client.start_async()
        last = self._clock.monotonic()
        try:
            while not self._closing.is_set():
                now = self._clock.monotonic()
                slept, last = now - last > self._session * _SHARE, now  # the process itself was stopped
                reason = self._reason(now) if self.granted.is_set() else ""
                if reason:
                    self._lost(reason)
                    return
                if (not self.granted.is_set() or slept) and self._client.connected:
                    self._look()
                self._closing.wait(_LOOK_SECONDS)
        finally:
            self._client.stop()
            self._client.close()

    def _reason(self, now: float) -> str:
        with self._lock:
            if self._expired:
                return "its session with ZooKeeper has expired"
            if self._silent_since is not None and now - self._silent_since >= self._session * _SHARE:
                return f"ZooKeeper at {self._quorum} did not answer for {self._session * _SHARE:.1f} s"
        return ""

    def _look(self) -> None:
        """Find out whether this driver's node is the oldest; make one if there is none."""
        exceptions = importlib.import_module("kazoo.exceptions")
        try:
            with self._lock:
                renewed, self._expired = self._expired, False
            if renewed or not self._node:
                self._node = self._client.create(f"{self._path}/n-", ephemeral=True, sequence=True, makepath=True)
            own = self._node.rpartition("/")[2]
            nodes = sorted(self._client.get_children(self._path), key=lambda name: name.rpartition("-")[2])
            if own not in nodes:
                self._node = ""
                if self.granted.is_set():
                    with self._lock:
                        self._expired = True
            elif nodes[0] == own and not self.granted.is_set():
                about = self._client.exists(self._node)
                if about is not None:
                    self.term = about.czxid
                    self.granted.set()
        except (exceptions.KazooException, self._client.handler.timeout_exception) as error:
            logger.warning("leader election: ZooKeeper at %s: %s: %s", self._quorum, type(error).__name__, error)
