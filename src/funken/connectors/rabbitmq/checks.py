"""What is looked at before a job runs: the server, the user, a queue and an exchange, and what may be done with them.

Nothing is read and nothing is written. The server looks at permissions before anything else, so it is asked for what it has to
refuse in any case: a consumer with an argument of a wrong type, and a message in a transaction that is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funken.connectors.rabbitmq.problems import blocking, code_of, errors, problem
from funken.connectors.rabbitmq.server import RMQConnectionConfig, pika
from funken.errors import SinkNotWritable, SourceNotReadable

_REFUSED, _NOT_FOUND = 403, 404
_NAME = "funken check"


def check_queue(config: RMQConnectionConfig, queue: str, declare: bool) -> None:
    """Look whether a queue can be read; raises ``SourceNotReadable``."""
    try:
        connection = blocking(config, _NAME)
        try:
            _find_queue(connection, queue, declare)
            _try(connection, lambda channel: channel.basic_consume(queue, _ignore, arguments={"x-priority": "none"}))
        finally:
            _close(connection)
    except errors() as error:
        raise SourceNotReadable(
            f"the queue {queue!r} at {config.shown} cannot be read: {problem(error, config)}"
        ) from error


def check_target(config: RMQConnectionConfig, exchange: str | None, queue: str | None, declare: bool) -> None:
    """Look whether messages can be sent to an exchange and a queue; what a function chooses is ``None``."""
    where = f"the exchange {exchange!r}" if exchange else f"the queue {queue!r}" if queue else "the server"

    def publish(channel: Any) -> None:
        channel.tx_select()
        channel.basic_publish(exchange, queue or "", b"", mandatory=False)
        channel.tx_rollback()

    try:
        connection = blocking(config, _NAME)
        try:
            if queue is not None:
                _find_queue(connection, queue, declare)
            if exchange:
                connection.channel().exchange_declare(exchange, passive=True)
            if exchange is not None:
                _try(connection, publish)
        finally:
            _close(connection)
    except errors() as error:
        raise SinkNotWritable(f"{where} at {config.shown} cannot be written: {problem(error, config)}") from error


def _find_queue(connection: Any, queue: str, declare: bool) -> None:
    try:
        connection.channel().queue_declare(queue, passive=True)
    except pika("pika.exceptions").ChannelClosedByBroker as error:
        if not declare or code_of(error)[0] != _NOT_FOUND:
            raise
        connection.channel().queue_declare(queue, durable=True)


def _try(connection: Any, attempt: Callable[[Any], Any]) -> None:
    """Try something that does not go through; raises only if it is refused or its object is not there."""
    try:
        attempt(connection.channel())
    except pika("pika.exceptions").ChannelClosedByBroker as error:
        if code_of(error)[0] in (_REFUSED, _NOT_FOUND):
            raise


def _ignore(*delivered: Any) -> None:
    """Take no message: the consumer is refused."""


def _close(connection: Any) -> None:
    if connection.is_open:
        connection.close()


__all__ = ["check_queue", "check_target"]
