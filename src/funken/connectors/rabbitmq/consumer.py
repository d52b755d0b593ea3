"""The half of a reader that runs in the link's thread: consumes a queue, and acknowledges what it is told to.

What it has received and nobody has taken is bounded by the prefetch count, since the server sends no more before something is
acknowledged. So the thread never waits for the reader, and heartbeats are answered while the job is busy.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from funken.connectors.rabbitmq.ledger import Acks
from funken.connectors.rabbitmq.link import Link
from funken.connectors.rabbitmq.problems import Lost, problem
from funken.connectors.rabbitmq.server import RMQConnectionConfig

logger = logging.getLogger(__name__)


class Delivery(NamedTuple):
    """A message as the client gives it, and on which channel it came; without a method: that channel was opened."""

    epoch: int
    method: Any
    properties: Any
    body: bytes


class Consumer:
    """Consumes one queue over a link; ``alone``: nobody else may."""

    def __init__(
        self, config: RMQConnectionConfig, queue: str, alone: bool, who: str, wake: Callable[[], None], name: str
    ) -> None:
        self._config, self._queue, self._alone, self._who, self._wake = config, queue, alone, who, wake
        self._channel: Any = None
        self.link = Link(config, name, self)
        self.received: deque[Delivery] = deque()
        #: numbers of acknowledgements that the server has seen: epoch and number
        self.confirmed: deque[tuple[int, int]] = deque()
        self.epoch = 0
        """How many channels there were; messages of any but the last come again."""
        self.waiting = 0
        """How many messages were ready in the queue when the server was asked last."""
        self.lost = 0
        """How often the channel was lost."""

    # ---- from the reader

    def acknowledge(self, epoch: int, number: int, acks: Acks, confirm: bool) -> None:
        """Acknowledge what was delivered on a channel, if it is still there; ``confirmed`` gets the number then."""
        self.link.call(lambda: self._acknowledge(epoch, number, acks, confirm))

    # ---- in the thread

    def opened(self, channel: Any) -> None:
        """Consume, if nobody else does."""
        self._channel = channel
        channel.add_on_cancel_callback(self._on_cancelled)
        channel.basic_qos(prefetch_count=self._config.prefetch_count)
        channel.queue_declare(self._queue, passive=True, callback=self._on_found)

    def _on_found(self, frame: Any) -> None:
        # Queues that are replicated let several consume that each ask to be the only one.
        if self._alone and frame.method.consumer_count:
            self.link.end_channel(
                Lost(
                    f"the queue {self._queue!r} is read by {frame.method.consumer_count} others. With use_correlation_id a job "
                    "needs it for itself: stop the others, or give each a queue of its own."
                )
            )
            return
        self.waiting = frame.method.message_count
        self.epoch += 1
        self.received.append(Delivery(self.epoch, None, None, b""))
        self._channel.basic_consume(
            self._queue, self._on_message, exclusive=self._alone, callback=lambda frame: self.link.works()
        )

    def _on_message(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.received.append(Delivery(self.epoch, method, properties, body))
        if len(self.received) <= 2:  # else the reader has been woken and has not looked yet
            self._wake()

    def _on_cancelled(self, frame: Any) -> None:
        self.link.end_channel(Lost(f"the server has ended the consumer of {self._queue!r}; was the queue deleted?"))

    def _acknowledge(self, epoch: int, number: int, acks: Acks, confirm: bool) -> None:
        if epoch != self.epoch or not self._channel.is_open:
            return
        for tag, multiple in acks:
            self._channel.basic_ack(tag, multiple)
        if confirm:  # the queue answers after it has seen what came before, and says how full it is
            self._channel.queue_declare(
                self._queue, passive=True, callback=lambda frame: self._on_confirmed(epoch, number, frame)
            )

    def _on_confirmed(self, epoch: int, number: int, frame: Any) -> None:
        self.waiting = frame.method.message_count
        self.confirmed.append((epoch, number))

    def trouble(self, error: BaseException, again: bool) -> None:
        """Tell of a lost channel; the reader raises what cannot be mended."""
        self.lost += self.link.worked
        if again and self.link.worked:  # else it has been told
            logger.warning(
                "%s: %s is away, and is tried again: %s", self._who, self._config.shown, problem(error, self._config)
            )
        self._wake()


__all__ = ["Consumer", "Delivery"]
