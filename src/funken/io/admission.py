"""Which connections of a server stay when there are many: those of known clients do, and the oldest strangers go.

A stranger is a connection whose peer has not proved anything yet: it has sent half a request, or none. It never keeps another
one out: the newest is always taken, and an older stranger is dropped for it, first one of a peer that has many. A known client
sends its request at once, so it is known before its turn to be dropped comes; ``GRACE_SECONDS`` leave it the time. Does no I/O.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field
from typing import Generic, TypeVar

from funken.dataclass import dataclass

GRACE_SECONDS = 0.5

C = TypeVar("C", bound=Hashable)


@dataclass(slots=True)
class Admission(Generic[C]):
    """The open connections of a server, and which of them is dropped when another one comes.

    ``capacity`` is for all of them, ``per_peer`` for the strangers of one address; where all strangers are younger than the
    time of grace, there may be twice as many.

    >>> admission = Admission[str](capacity=2, per_peer=2)
    >>> [admission.opened(name, "10.0.0.1", now) for name, now in (("a", 0.0), ("b", 1.0))]
    [None, None]
    >>> admission.know("a")
    >>> admission.opened("c", "10.0.0.1", 9.0)
    'b'
    """

    capacity: int = 128
    per_peer: int = 64
    _strangers: dict[str, dict[C, float]] = field(default_factory=dict)
    """The connections of each peer, oldest first, each with the time at which it was opened."""
    _known: dict[C, None] = field(default_factory=dict)
    """Oldest use first."""
    _peers: dict[C, str] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return how many connections are open."""
        return len(self._known) + len(self._peers)

    def opened(self, connection: C, peer: str, now: float) -> C | None:
        """Take a connection; return the one that is to be closed for it, if any: it is forgotten already."""
        self._peers[connection] = peer
        self._strangers.setdefault(peer, {})[connection] = now
        of_peer = self._strangers[peer]
        if len(of_peer) <= self.per_peer and len(self) <= self.capacity:
            return None
        most = of_peer if len(of_peer) > self.per_peer else max(self._strangers.values(), key=len)
        victim, since = next(iter(most.items()))
        if victim == connection and self._known:  # all others are known
            victim, since = next(iter(self._known)), now - GRACE_SECONDS
        if now - since < GRACE_SECONDS and len(self) <= 2 * self.capacity:
            return None
        self.closed(victim)
        return victim

    def know(self, connection: C) -> None:
        """Its peer has proved who it is, with the request that it makes now."""
        if connection in self._peers or connection in self._known:
            self.closed(connection)
            self._known[connection] = None

    def closed(self, connection: C) -> None:
        """Forget a connection, if it is not forgotten yet."""
        self._known.pop(connection, None)
        peer = self._peers.pop(connection, None)
        if peer is not None:
            del self._strangers[peer][connection]
            if not self._strangers[peer]:
                del self._strangers[peer]
