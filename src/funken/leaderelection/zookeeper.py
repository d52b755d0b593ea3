"""Leader election over ZooKeeper: of the ephemeral nodes of all candidates, the oldest is the leader's.

The term is the number of the transaction that made the node, so a later leader has a higher one. ZooKeeper removes the node of
a driver from which it has heard nothing for the session's time. So a leader asks about its node all the time, and counts from
before the last question that was answered: when two thirds of the session's time are over, it takes its leadership for lost.
When the connection is found to be broken does not matter for that; a network that drops packets is noticed late.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable
from typing import Any

from funken import extras
from funken.errors import EnvironmentNotReady
from funken.timing.clock import SystemClock

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
_SHARE = 2 / 3
_TURNS = 12
"""Number of a leader's questions in a session's time; it waits for the last answer for such a part of that time."""


class ZooKeeperElection:
    """One driver's part in an election over ZooKeeper.

    ``session``: how long (s) ZooKeeper waits for a driver that is silent; ``connect``: how long (s) this driver tries to reach it
    at the start.
    """

    def __init__(self, quorum: str, path: str, session: float, connect: float = 15.0) -> None:
        client = extras.required("kazoo.client", "zookeeper", "high-availability.type 'zookeeper' needs kazoo")
        self.name = f"zookeeper {path}"
        self.granted = threading.Event()
        self.term = 0
        self._path = path
        self._quorum = quorum
        self._session = session
        self._connect = connect
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
        self._answered = 0.0
        """The time (monotonic, s) of the last question about the node that has been answered."""
        self._asked: tuple[float, Any] | None = None
        self._expired = False
        self._lost: Callable[[str], None] = lambda reason: None
        self._thread = threading.Thread(target=self._run, name="funken-zookeeper", daemon=True)

    def start(self, lost: Callable[[str], None]) -> None:
        """Become a candidate; raises ``EnvironmentNotReady`` if ZooKeeper cannot be reached in time.

        A candidate that has reached it once goes on trying when the connection is lost.
        """
        self._lost = lost
        self._client.add_listener(self._heard)
        try:
            self._client.start(timeout=self._connect)
        except self._client.handler.timeout_exception as error:
            self._client.close()
            raise EnvironmentNotReady(
                f"leader election: no ZooKeeper at {self._quorum} has answered within {self._connect:g} s, "
                "so it is unknown whether another driver runs the job. Start it, or correct "
                "high-availability.zookeeper.quorum; "
                "high-availability.zookeeper.client.connection-timeout is the time limit."
            ) from error
        self._thread.start()

    def close(self) -> None:
        """Be no candidate any more."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(10.0)

    def _heard(self, state: str) -> None:
        """The connection came or went; called by the client's own thread."""
        with self._lock:
            self._expired |= state == "LOST"
        if state != "CONNECTED":
            logger.warning("leader election: the connection to ZooKeeper at %s is %s", self._quorum, state)

    def _run(self) -> None:
        turn = min(_LOOK_SECONDS, self._session / _TURNS)
        try:
            while not self._closing.is_set():
                if self.granted.is_set():
                    reason = self._reason()
                    if reason:
                        self._lost(reason)
                        return
                elif self._client.connected:
                    self._look()
                self._closing.wait(turn)
        finally:
            self._client.stop()
            self._client.close()

    def _reason(self) -> str:
        """Return the reason for which this driver, which leads, does not any more."""
        self._ask(0.0)
        silent = self._session * _SHARE
        if self._clock.monotonic() - self._answered >= silent and not self._expired:
            self._ask(self._session / _TURNS)  # this process may have been stopped, and the answer may be there
        with self._lock:
            if self._expired:
                return "its session with ZooKeeper has expired"
        if self._clock.monotonic() - self._answered >= silent:
            return f"ZooKeeper at {self._quorum} did not answer for {silent:.1f} s"
        return ""

    def _ask(self, wait: float) -> None:
        """Note the answer to the question under way, for which is waited so long (s), and ask the next one."""
        if self._asked is not None:
            begun, answer = self._asked
            answer.wait(wait)
            if not answer.ready():
                return
            self._asked = None
            if answer.successful():
                self._answered = begun
                if answer.get() is None:
                    with self._lock:
                        self._expired = True
        if self._client.connected:
            begun = self._clock.monotonic()
            self._asked = begun, self._client.exists_async(self._node)

    def _look(self) -> None:
        """Find out whether the node of this driver, which does not lead yet, is the oldest; make one if there is none."""
        exceptions = importlib.import_module("kazoo.exceptions")
        begun = self._clock.monotonic()
        try:
            with self._lock:
                renewed, self._expired = self._expired, False
            if renewed or not self._node:
                self._node = self._client.create(f"{self._path}/n-", ephemeral=True, sequence=True, makepath=True)
            own = self._node.rpartition("/")[2]
            nodes = sorted(self._client.get_children(self._path), key=lambda name: name.rpartition("-")[2])
            if own not in nodes:
                self._node = ""
            elif nodes[0] == own:
                about = self._client.exists(self._node)
                if about is not None:
                    self.term, self._answered = about.czxid, begun
                    self.granted.set()
        except (exceptions.KazooException, self._client.handler.timeout_exception) as error:
            logger.warning("leader election: ZooKeeper at %s: %s: %s", self._quorum, type(error).__name__, error)
