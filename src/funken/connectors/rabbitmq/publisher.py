"""The half of a writer that runs in the link's thread: sends messages, and keeps each until the server has confirmed it.

What is not confirmed when a channel is lost is sent again on the next one, in its order: at least once. No more than a window
of messages is under way, so that what waits for a slow server waits here, where it is bounded by the writer.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from funken.connectors.rabbitmq.link import Link
from funken.connectors.rabbitmq.problems import NotTaken, problem
from funken.connectors.rabbitmq.records import Publication
from funken.connectors.rabbitmq.server import RMQConnectionConfig, pika

logger = logging.getLogger(__name__)

WINDOW = 2000
"""The most messages that are sent and not confirmed."""
_ROOM = 2 * WINDOW
"""The most messages that are neither confirmed nor given back to the writer."""
_LOOK_S = 0.1


class Publisher:
    """Sends messages over a link."""

    def __init__(self, config: RMQConnectionConfig, who: str, name: str) -> None:
        self._config, self._who = config, who
        self.link = Link(config, name, self)
        self._changed = threading.Condition()
        self._waiting: deque[Publication] = deque()
        #: what was sent on this channel and is not confirmed, by its number, in order
        self._sent: dict[int, Publication] = {}
        self._number = 0
        self._channel: Any = None
        self._refused: BaseException | None = None
        self.confirmed = 0
        """How many messages were confirmed."""
        self.lost = 0
        """How often the channel was lost."""

    # ---- from the writer

    def send(self, messages: Sequence[Publication]) -> None:
        """Send these after those before; returns at once."""
        with self._changed:
            self._waiting.extend(messages)
        self.link.call(self._pump)

    @property
    def unconfirmed(self) -> int:
        """How many messages are not confirmed."""
        return len(self._waiting) + len(self._sent)

    @property
    def error(self) -> BaseException | None:
        """What has ended the link, or what the server has refused."""
        return self._refused or self.link.failure

    def wait(self, all_of_them: bool) -> bool:
        """Wait a little until there is room for more, or all are confirmed; whether it is so, or there is an error."""
        most = 0 if all_of_them else _ROOM
        with self._changed:
            return self._changed.wait_for(lambda: self.error is not None or self.unconfirmed <= most, _LOOK_S)

    # ---- in the thread

    def opened(self, channel: Any) -> None:
        """Ask for confirmations, and send again what has none."""
        self._channel = channel
        with self._changed:
            self._waiting.extendleft(reversed(self._sent.values()))
            self._sent, self._number = {}, 0
        channel.add_on_return_callback(self._on_returned)
        channel.confirm_delivery(self._on_confirmed, callback=self._on_ready)

    def _on_ready(self, frame: Any) -> None:
        self.link.works()
        self._pump()

    def _pump(self) -> None:
        channel = self._channel
        if channel is None or not channel.is_open or self.error is not None:
            return
        with self._changed:
            count = min(len(self._waiting), WINDOW - len(self._sent))
            messages = [self._waiting.popleft() for _ in range(count)]
            for message in messages:
                self._number += 1
                self._sent[self._number] = message
        try:
            for each in messages:
                channel.basic_publish(each.exchange, each.routing_key, each.body, each.properties, each.mandatory)
        except (TypeError, ValueError, pika("pika.exceptions").AMQPError) as error:
            if channel.is_open:  # not the channel is to blame, but what was to be sent
                self._refuse(f"a message cannot be sent: {type(error).__name__}: {error}.")

    def _on_confirmed(self, frame: Any) -> None:
        method = frame.method
        sent = self._sent
        with self._changed:
            if method.multiple:
                numbers = []
                for number in sent:
                    if number > method.delivery_tag:
                        break
                    numbers.append(number)
            else:
                numbers = [method.delivery_tag]
            messages = [sent.pop(number) for number in numbers]
            self.confirmed += len(messages)
            self._changed.notify_all()
        if isinstance(method, pika("pika.spec").Basic.Nack):
            first = messages[0]
            self._refuse(
                f"the server did not take {len(messages)} messages (the first to exchange {first.exchange!r} with routing key "
                f"{first.routing_key!r}): a queue is full (its overflow is reject-publish) or failed. Let it be read, or raise "
                "its limit."
            )
        if self._waiting:
            self._pump()

    def _on_returned(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self._refuse(
            f"a message to exchange {method.exchange!r} with routing key {method.routing_key!r} came back: "
            f"{method.reply_text} ({method.reply_code}). Declare or bind the queue, or pass mandatory=False where such messages "
            "may be dropped."
        )

    def _refuse(self, text: str) -> None:
        with self._changed:
            self._refused = self._refused or NotTaken(text)
            self._changed.notify_all()

    def trouble(self, error: BaseException, again: bool) -> None:
        """Tell of a lost channel; the writer raises what cannot be mended."""
        self.lost += self.link.worked
        if again and self.link.worked:  # else it has been told
            logger.warning(
                "%s: %s is away, and is tried again: %s", self._who, self._config.shown, problem(error, self._config)
            )
        with self._changed:
            self._changed.notify_all()


__all__ = ["WINDOW", "Publisher"]
