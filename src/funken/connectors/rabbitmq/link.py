"""Channels of RabbitMQ that are kept, and what consumes and publishes in their threads.

A channel that is kept: a thread runs the client's loop, answers heartbeats, and connects again when a connection is lost.

The client may be used by one thread only. So everything that is done with the channel runs there: what the ``LinkUser`` is called
with, and what is passed to ``call``. The pauses between tries grow, and their sum is bounded; what trying again cannot mend ends
the link at once. Either way ``failure`` has the error.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from funken.connectors.rabbitmq.ledger import Acks
from funken.connectors.rabbitmq.records import Publication
from funken.connectors.rabbitmq.server import FIRST_PAUSE_S, Lost, NotTaken, RMQConnectionConfig, passes, pika, problem

AWAY_S = 120.0
"""The sum of the pauses after which a server that is away fails the job."""
_CLOSE_S, _JOIN_S = 5.0, 20.0


class LinkUser(Protocol):
    """A user of the channel, which the link notifies; every call comes in the link's thread."""

    def opened(self, channel: Any) -> None:
        """There is a channel; the work of the one before it is lost."""
        ...

    def trouble(self, error: BaseException, again: bool) -> None:
        """The channel is lost, or none can be had; unless there is another try, this is the end."""
        ...


class Link:
    """One connection with one channel, for as long as it is used."""

    def __init__(self, config: RMQConnectionConfig, name: str, user: LinkUser) -> None:
        self._config, self._name, self._user = config, name, user
        self._lock = threading.Lock()
        self._loop: Any = None
        self._connection: Any = None
        self._lost: BaseException | None = None
        self._paused = 0.0
        self._pause = FIRST_PAUSE_S
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"funken-{name}", daemon=True)
        self.worked = True
        """True if the channel did what it is for, before it was lost."""
        self.failure: BaseException | None = None
        """The error that has ended the link."""
        self.blocked = ""
        """Why the server takes no messages at present."""

    def start(self) -> None:
        """Connect, in the thread."""
        pika()  # says what to install
        self._thread.start()

    def call(self, work: Callable[[], None]) -> None:
        """Run something in the thread; nothing happens if there is no connection."""
        with self._lock:
            if self._loop is not None:
                self._loop.add_callback_threadsafe(work)

    def works(self) -> None:
        """The channel works: pauses begin from the first again."""
        self._paused, self._pause = 0.0, FIRST_PAUSE_S
        self.worked = True

    def end_channel(self, error: BaseException) -> None:
        """Abandon the connection, in the thread, for a reason that is not the client's."""
        self._lost = self._lost or error
        if self._connection is not None and self._connection.is_open:
            self._connection.close()

    def stop(self) -> None:
        """Finish the calls, close, and end the thread."""
        self._stopped.set()
        self.call(self._close)
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)

    # ---- in the thread

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._session()
                lost = self._lost or Lost("the connection was closed")
            except Exception as error:  # noqa: BLE001 - told to the reader or writer
                lost = error
            if self._stopped.is_set():
                return
            again = self._config.automatic_recovery and passes(lost) and self._paused < AWAY_S
            if not again:
                self.failure = lost
            self._user.trouble(lost, again)
            self.worked = False
            if not again or self._stopped.wait(self._pause):
                return
            self._paused += self._pause
            self._pause = min(2 * self._pause, self._config.network_recovery_interval / 1000)

    def _session(self) -> None:
        """Connect, and run the loop until the connection is closed."""
        self._lost, self.blocked = None, ""
        connection = pika().SelectConnection(
            self._config.parameters(self._name), self._on_open, self._on_closed, self._on_closed
        )
        loop = connection.ioloop
        with self._lock:
            self._connection, self._loop = connection, loop
        if self._stopped.is_set():  # ``stop`` may have found no loop
            loop.add_callback_threadsafe(self._close)
        try:
            loop.start()
        finally:
            with self._lock:
                self._connection = self._loop = None
            loop.close()

    def _on_open(self, connection: Any) -> None:
        connection.add_on_connection_blocked_callback(self._on_blocked)
        connection.add_on_connection_unblocked_callback(self._on_unblocked)
        connection.channel(on_open_callback=self._on_channel)

    def _on_channel(self, channel: Any) -> None:
        channel.add_on_close_callback(self._on_channel_closed)
        self._user.opened(channel)

    def _on_channel_closed(self, channel: Any, reason: BaseException) -> None:
        self.end_channel(reason)

    def _on_closed(self, connection: Any, reason: BaseException) -> None:
        self._lost = self._lost or reason
        connection.ioloop.stop()

    def _on_blocked(self, connection: Any, frame: Any) -> None:
        self.blocked = str(frame.method.reason) or "it is short of memory or disk space"

    def _on_unblocked(self, connection: Any, frame: Any) -> None:
        self.blocked = ""

    def _close(self) -> None:
        connection = self._connection
        # A server that takes no messages does not answer this either. The client has no public way to hang up.
        connection.ioloop.call_later(_CLOSE_S, lambda: connection._terminate_stream(Lost("the server is silent")))
        if not connection.is_closing and not connection.is_closed:
            connection.close()


# ---- The half of a reader that runs in the link's thread: consumes a queue, and acknowledges what it is told to.
#
# What it has received and nobody has taken is bounded by the prefetch count, since the server sends no more before
# something is acknowledged. So the thread never waits for the reader, and heartbeats are answered while the job is
# busy.


logger = logging.getLogger(__name__)


class Delivery(NamedTuple):
    """A message of the client, and its channel; without a method: that channel was opened."""

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
        """Number of channels so far; messages of any but the last come again."""
        self.waiting = 0
        """Number of messages that were ready in the queue when the server was asked last."""
        self.lost = 0
        """Number of times that the channel was lost."""

    # ---- from the reader

    def acknowledge(self, epoch: int, number: int, acks: Acks, confirm: bool) -> None:
        """Acknowledge deliveries of a channel, if it is still there; ``confirmed`` gets the number then."""
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
        """Tell of a lost channel; the reader raises an error that cannot be mended."""
        self.lost += self.link.worked
        if again and self.link.worked:  # else it has been told
            logger.warning(
                "%s: %s is away, and is tried again: %s", self._who, self._config.shown, problem(error, self._config)
            )
        self._wake()


# ---- The half of a writer that runs in the link's thread: sends messages, and keeps each until the server has
# confirmed it.
#
# What is not confirmed when a channel is lost is sent again on the next one, in its order: at least once. No more
# than a window of messages is under way, so that what waits for a slow server waits here, where it is bounded by
# the writer.


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
        """Number of confirmed messages."""
        self.lost = 0
        """Number of times that the channel was lost."""

    # ---- from the writer

    def send(self, messages: Sequence[Publication]) -> None:
        """Send these after those before; returns at once."""
        with self._changed:
            self._waiting.extend(messages)
        self.link.call(self._pump)

    @property
    def unconfirmed(self) -> int:
        """Number of messages that are not confirmed."""
        return len(self._waiting) + len(self._sent)

    @property
    def error(self) -> BaseException | None:
        """The error that has ended the link, or the server's refusal."""
        return self._refused or self.link.failure

    def wait(self, all_of_them: bool) -> bool:
        """Wait a little until there is room for more, or all are confirmed; whether it is so, or there is an error."""
        most = 0 if all_of_them else _ROOM
        with self._changed:
            return self._changed.wait_for(lambda: self.error is not None or self.unconfirmed <= most, _LOOK_S)

    # ---- in the thread

    def opened(self, channel: Any) -> None:
        """Ask for confirmations, and send unconfirmed messages again."""
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
                f"the server did not accept {len(messages)} messages (the first to exchange {first.exchange!r} with routing key "
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
        """Tell of a lost channel; the writer raises an error that cannot be mended."""
        self.lost += self.link.worked
        if again and self.link.worked:  # else it has been told
            logger.warning(
                "%s: %s is away, and is tried again: %s", self._who, self._config.shown, problem(error, self._config)
            )
        with self._changed:
            self._changed.notify_all()
