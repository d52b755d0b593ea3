"""Messages read and messages to acknowledge: exactly-once reading without I/O.

A message is acknowledged when a checkpoint is complete that was taken after it was read. The server numbers what it delivers by
*tags*, which mean nothing on the next channel: there it delivers again what was not acknowledged on this one. So messages are
known by their ids, and the ids of those that the server may deliver again are in every snapshot:

* *live* ones are covered by no complete checkpoint. One that comes again gets its new tag and no second record.
* *done* ones are covered, and it is not known whether the server has seen their acknowledgement. One that comes again is
  acknowledged at once. They are forgotten when the server has answered a question that was put after their
  acknowledgement, or, after a channel was lost, when it delivers what it had never delivered before (``settle``).
* some more are *remembered*: a server that is killed may have forgotten what it had confirmed.

Without ids, a message that comes again is another message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

Acks = list[tuple[int, bool]]
"""Tags to acknowledge, and whether all tags before it are meant too."""


class MessageLedger:
    """The messages of one reader; ``remember`` is the number of ids of acknowledged messages to keep.

    >>> ledger = MessageLedger(remember=10)
    >>> [ledger.take(1, "a"), ledger.take(2, "b"), ledger.take(3, "a")]
    [True, True, False]
    >>> ledger.snapshot(checkpoint_id=1)
    ('a', 'b')
    >>> ledger.take(4, "c")
    True
    >>> ledger.complete(checkpoint_id=1)
    >>> ledger.acknowledge()
    (1, [(3, True)])

    Another reader, from that checkpoint; the server had seen no acknowledgement:

    >>> again = MessageLedger(remember=10, restored=("a", "b"))
    >>> [again.take(1, "a"), again.take(2, "b"), again.take(3, "c")]
    [False, False, True]
    """

    def __init__(self, remember: int, restored: Iterable[str] = ()) -> None:
        self._remember = remember
        #: the key of a message is its id, or its tag if it has none; ``None`` instead of a tag: that of a lost channel
        self._current: dict[str | int, int | None] = {}
        self._pending: deque[tuple[int, dict[str | int, int | None]]] = deque()
        self._done: dict[str, None] = dict.fromkeys(restored)
        self._remembered: dict[str, None] = {}
        self._acks: list[int] = []
        self._acked: list[str] = []
        self._batches: deque[tuple[int, list[str]]] = deque()
        self._number = 0
        self._settled = False
        self.unacknowledged = 0
        """Number of messages of this channel that were read and not acknowledged."""

    def restore(self, ids: Iterable[str]) -> None:
        """Know these too, of another split: a complete checkpoint covers them."""
        self._done.update(dict.fromkeys(ids))

    def reopen(self) -> None:
        """A new channel: tags of the one before it mean nothing, and its unacknowledged messages come again."""
        for live in self._live():
            for key in list(live):
                if isinstance(key, str):
                    live[key] = None
                else:
                    del live[key]
        self._acks, self._acked = [], []
        self._batches.clear()
        self._settled = False
        self.unacknowledged = 0

    def take(self, tag: int, message_id: str | None) -> bool:
        """Read a message; false if its records have been emitted before."""
        self.unacknowledged += 1
        if message_id is None:
            self._current[tag] = tag
            return True
        for live in self._live():
            if message_id in live:
                if live[message_id] is None:
                    live[message_id] = tag
                else:  # it is there twice: the other copy stays until a checkpoint covers it
                    self._acks.append(tag)
                return False
        if message_id in self._done:
            self._acks.append(tag)
            self._acked.append(message_id)
            return False
        if message_id in self._remembered:
            self._acks.append(tag)
            return False
        self._current[message_id] = tag
        return True

    def _live(self) -> list[dict[str | int, int | None]]:
        return [self._current, *(live for _, live in self._pending)]

    def snapshot(self, checkpoint_id: int) -> tuple[str, ...]:
        """A checkpoint begins: return the ids that have to be known after it."""
        self._pending.append((checkpoint_id, self._current))
        self._current = {}
        live = (key for _, of_checkpoint in self._pending for key in of_checkpoint if isinstance(key, str))
        return (*self._remembered, *self._done, *live)

    def complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete: messages read before it may be acknowledged."""
        while self._pending and self._pending[0][0] <= checkpoint_id:
            self._cover(self._pending.popleft()[1])

    def complete_all(self) -> None:
        """There are no checkpoints: messages read so far may be acknowledged."""
        covered, self._current = self._current, {}
        self._cover(covered)

    def _cover(self, covered: dict[str | int, int | None]) -> None:
        for key, tag in covered.items():
            if tag is not None:
                self._acks.append(tag)
            if isinstance(key, str) and (tag is not None or not self._settled):  # else it expired, or was deleted
                self._done[key] = None
                if tag is not None:
                    self._acked.append(key)

    def acknowledge(self) -> tuple[int, Acks] | None:
        """Return the messages to acknowledge now, with a number for ``confirmed``; ``None``: nothing."""
        if not self._acks:
            return None
        acks, self._acks = sorted(self._acks), []
        self.unacknowledged -= len(acks)
        self._number += 1
        self._batches.append((self._number, self._acked))
        self._acked = []
        first_live = min((tag for live in self._live() for tag in live.values() if tag is not None), default=None)
        upto = [tag for tag in acks if first_live is None or tag < first_live]
        singly: Acks = [(tag, False) for tag in acks[len(upto) :]]
        return self._number, [(upto[-1], True), *singly] if upto else singly

    def confirmed(self, number: int) -> None:
        """The server has seen the acknowledgements up to those with this number, on this channel."""
        while self._batches and self._batches[0][0] <= number:
            for message_id in self._batches.popleft()[1]:
                if message_id in self._done:
                    del self._done[message_id]
                    self._keep(message_id)

    def settle(self) -> None:
        """The server has delivered again all that it will: done ones that did not come were acknowledged."""
        self._settled = True
        waiting = set(self._acked).union(*(ids for _, ids in self._batches))
        for message_id in [each for each in self._done if each not in waiting]:
            del self._done[message_id]
            self._keep(message_id)

    @property
    def settled(self) -> bool:
        """True if ``settle`` was called on this channel."""
        return self._settled

    def _keep(self, message_id: str) -> None:
        remembered = self._remembered
        remembered[message_id] = None
        if len(remembered) > self._remember:
            del remembered[next(iter(remembered))]
