"""The lease of a leader as a pure state machine: the content of storage and the time in, commands out.

In storage there is a file per *term*: created by the candidate that gets the term, rewritten with a higher ``beat`` by that
leader only. What a driver does:

=========  ======================================================  ==============================================
role       event                                                   what follows
=========  ======================================================  ==============================================
FOLLOWER   Elapsed                                                 Look
FOLLOWER   Observed: term or beat changed                          wait for a whole lease from now on
FOLLOWER   Observed: unchanged for a lease, released, or no term   Create the next term
FOLLOWER   Created                                                 LEADER (Granted), valid for a lease from Create on
FOLLOWER   Failed                                                  Look, when it is time
LEADER     Elapsed: a third of the lease is over                   Look, then Renew
LEADER     Renewed                                                 valid for a lease from Renew on
LEADER     Observed: a higher term                                 OVER (Revoked)
LEADER     any: the lease is over                                  OVER (Revoked)
any        Resigned                                                OVER; a leader: Release
=========  ======================================================  ==============================================

Rules:

* A leader counts its lease from before it asks to write, a follower from when it has seen that written. So as long as the
  clocks of two drivers run equally fast, no follower takes over while a leader takes its lease for valid.
* Of a term there is one leader, whatever clocks do: its file can be created once. Epochs of the checkpoint store
  (``checkpoint/store/epochs.py``) keep a leader that does not know yet that it was replaced from doing harm.
* Every time is of this driver's own monotonic clock (s); clocks are never compared.
* At most one command is under way.
"""

from __future__ import annotations

import enum

from funken.dataclass import dataclass


class LeaseRole(enum.Enum):
    """The role of a driver for the job."""

    FOLLOWER = "follower"
    LEADER = "leader"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Elapsed:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A reading of storage: the highest term (0: none), the number of renewals by its leader, and its release.

    ``foreign``: this driver led in that term, but the file is another's, because the storage let both create it.
    """

    term: int = 0
    beat: int = 0
    released: bool = False
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class Created:
    """The file of the term was created by this driver."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """The file of the term was rewritten."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The command failed: the storage cannot be reached, or another driver was faster."""

    reason: str


@dataclass(frozen=True, slots=True)
class Resigned:
    """This driver is no candidate any more."""


LeaseEvent = Elapsed | Observed | Created | Renewed | Failed | Resigned


@dataclass(frozen=True, slots=True)
class Look:
    """Find out which term is the highest."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create the file of a term, unless it is there."""

    term: int


@dataclass(frozen=True, slots=True)
class Renew:
    """Rewrite the file of the term that this driver leads."""

    term: int
    beat: int


@dataclass(frozen=True, slots=True)
class Release:
    """Note in it that the next leader need not wait."""

    term: int


@dataclass(frozen=True, slots=True)
class Granted:
    """This driver leads; nothing answers this."""

    term: int


@dataclass(frozen=True, slots=True)
class Revoked:
    """This driver does not lead any more; nothing answers this."""

    reason: str


LeaseCommand = Look | Create | Renew | Release | Granted | Revoked


class LeaseMachine:
    """Decides about the lease of one driver; change it through ``handle`` only. ``duration`` is in seconds.

    >>> machine = LeaseMachine(duration=6.0)
    >>> machine.handle(Elapsed(), now=0.0)
    [Look()]
    >>> machine.handle(Observed(), now=0.1)
    [Create(term=1)]
    >>> machine.handle(Created(), now=0.2), machine.valid(6.0), machine.valid(6.1)
    ([Granted(term=1)], True, False)
    """

    def __init__(self, duration: float) -> None:
        self._duration = duration
        self.role = LeaseRole.FOLLOWER
        #: the term that this driver leads or has led
        self.term = 0
        self._beat = 0
        self._seen: Observed | None = None
        self._since = 0.0
        self._under_way: LeaseCommand | None = None
        self._asked = 0.0
        self._until = 0.0
        self._next = 0.0

    def valid(self, now: float) -> bool:
        """Return True if this driver may act as the leader at this moment."""
        return self.role is LeaseRole.LEADER and now < self._until

    def due(self, now: float) -> float:
        """Return the time (s) until ``Elapsed`` is of use."""
        until = min(self._next, self._until) if self.role is LeaseRole.LEADER else self._next
        return max(0.0, until - now)

    def handle(self, event: LeaseEvent, now: float) -> list[LeaseCommand]:
        """Handle an event; return the commands to execute, in order."""
        if not isinstance(event, Elapsed | Resigned):
            under_way, self._under_way = self._under_way, None
        else:
            under_way = self._under_way
        if self.role is LeaseRole.OVER:
            return []
        if isinstance(event, Resigned):
            return self._resign()
        if self.role is LeaseRole.LEADER:
            return self._lead(event, under_way, now)
        return self._follow(event, under_way, now)

    def _follow(self, event: LeaseEvent, under_way: LeaseCommand | None, now: float) -> list[LeaseCommand]:
        match event:
            case Elapsed() if under_way is None and now >= self._next:
                return self._command(Look(), now)
            case Observed():
                if event != self._seen:
                    self._seen, self._since = event, now
                free = event.term == 0 or event.released or now - self._since >= self._duration
                if free:
                    return self._command(Create(event.term + 1), now)
            case Created() if isinstance(under_way, Create):
                self.term, self._until = under_way.term, self._asked + self._duration
                if now >= self._until:  # it came too late: others may have waited for a lease already
                    return self._revoke("its lease was over before it was known to be granted")
                self.role, self._next = LeaseRole.LEADER, now + self._duration / 3
                return [Granted(self.term)]
        return []

    def _lead(self, event: LeaseEvent, under_way: LeaseCommand | None, now: float) -> list[LeaseCommand]:
        if now >= self._until:
            return self._revoke(f"its lease of {self._duration:g} s could not be renewed in time")
        match event:
            case Elapsed() if under_way is None and now >= self._next:
                return self._command(Look(), now)
            case Observed(term=term, foreign=foreign) if term > self.term or foreign:
                return self._revoke(f"another driver leads in term {term}")
            case Observed(term=term) if term < self.term:
                return self._revoke(f"the file of its term {self.term} is gone")
            case Observed():
                self._beat += 1
                return self._command(Renew(self.term, self._beat), now)
            case Renewed() if isinstance(under_way, Renew):
                self._until = self._asked + self._duration
        return []

    def _command(self, command: LeaseCommand, now: float) -> list[LeaseCommand]:
        self._under_way, self._asked = command, now
        self._next = now + self._duration / 3
        return [command]

    def _revoke(self, reason: str) -> list[LeaseCommand]:
        self.role = LeaseRole.OVER
        return [Revoked(reason)]

    def _resign(self) -> list[LeaseCommand]:
        led, self.role = self.role is LeaseRole.LEADER, LeaseRole.OVER
        return [Release(self.term)] if led else []
