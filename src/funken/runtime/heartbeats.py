"""Heartbeats: when a silent peer counts as lost. Pure: time (s) is an argument.

Driver and workers send each other heartbeats; each side has a ``HeartbeatMonitor``. A peer is lost when nothing has arrived
from it for the timeout *while this side was able to receive*: time in which the observer itself was stopped (a stopped
process, a machine that was suspended), or was busy with what the peer had sent before, is not silence.
"""

from __future__ import annotations

import math

from funken import config
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration

RESUMED_SECONDS = 1.0
"""For how long after a pause of its own a process takes a peer that hangs up for one that has given it up."""


@dataclass(frozen=True)
class HeartbeatSettings:
    """Plain data; travels with the plan. Durations are in ms."""

    interval: int = 10_000
    timeout: int = 50_000

    @staticmethod
    def of(configuration: Configuration) -> HeartbeatSettings:
        """Read them out of a configuration; raise ``InvalidConfiguration`` if they do not fit each other."""
        interval, timeout = configuration.get(config.HEARTBEAT_INTERVAL), configuration.get(config.HEARTBEAT_TIMEOUT)
        if not 0 < interval <= timeout:
            raise InvalidConfiguration(
                f"{config.HEARTBEAT_INTERVAL.key} is {interval} ms and {config.HEARTBEAT_TIMEOUT.key} is {timeout} ms; the "
                "interval has to be positive and at most the timeout, better a fifth of it."
            )
        return HeartbeatSettings(interval, timeout)

    @property
    def send_seconds(self) -> float:
        """How often to send one: at least three have to fit into the timeout."""
        return min(self.interval, self.timeout / 3) / 1000

    @property
    def tick_seconds(self) -> float:
        """How often to look."""
        return min(1.0, self.send_seconds, self.timeout / 10_000)


class Peer:
    """A peer whose heartbeats are expected; any thread may record that something arrived."""

    __slots__ = ("_since",)

    def __init__(self, now: float) -> None:
        self._since = now

    def heard(self, now: float) -> None:
        """Something has arrived."""
        self._since = now

    def hold(self) -> None:
        """What arrives is not read until the next ``heard``: silence does not count."""
        self._since = math.inf

    def silence(self, now: float) -> float:
        """Return for how long nothing has arrived while this side was able to receive (s)."""
        return max(0.0, now - self._since)

    def excuse(self, seconds: float) -> None:
        """This side was not able to receive for so long."""
        self._since += seconds


class HeartbeatMonitor:
    """Watches peers. Call ``tick`` often; a gap of more than a quarter of the timeout between two calls is a pause.

    >>> monitor = HeartbeatMonitor(timeout=2.0, now=0.0)
    >>> worker = monitor.add(now=0.0)
    >>> [monitor.tick(now / 2) for now in range(1, 4)]
    [[], [], []]
    >>> monitor.tick(2.0) == [worker], monitor.tick(2.5)
    (True, [])
    """

    def __init__(self, timeout: float, now: float) -> None:
        self.timeout = timeout
        self._longest = timeout / 4
        self._ticked = now
        self._resumed = -math.inf
        self._peers: dict[Peer, None] = {}

    def add(self, now: float) -> Peer:
        """Watch another peer."""
        peer = Peer(now)
        self._peers[peer] = None
        return peer

    def remove(self, peer: Peer) -> None:
        """Do not watch a peer any more; more than once does no harm."""
        self._peers.pop(peer, None)

    def tick(self, now: float) -> list[Peer]:
        """Return the peers that are lost by now; each is returned once, and not watched any more."""
        passed, self._ticked = now - self._ticked, now
        peers = list(self._peers)
        if passed > self._longest:
            for peer in peers:
                peer.excuse(min(passed - self._longest, peer.silence(now)))
        if passed >= self.timeout:
            self._resumed = now
        lost = [peer for peer in peers if peer.silence(now) >= self.timeout]
        for peer in lost:
            self.remove(peer)
        return lost

    def was_stopped(self, now: float) -> bool:
        """Whether this side itself stood still for the timeout until just now: its peers may have given it up."""
        return now - self._ticked >= self.timeout or now - self._resumed < RESUMED_SECONDS
