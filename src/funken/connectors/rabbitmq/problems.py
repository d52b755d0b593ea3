"""What errors of RabbitMQ mean, what to do about them, and which may go away by themselves.

The server's texts name queues, exchanges, users and virtual hosts, never a password.
"""

from __future__ import annotations

import ssl
from typing import Any

from funken.connectors.rabbitmq.server import RMQConnectionConfig, pika
from funken.timing.waiting import pause as wait_for

FIRST_PAUSE_S = 0.2
_BLOCKED_S = 5.0
_REFUSED, _NOT_FOUND, _PRECONDITION, _NOT_ALLOWED = 403, 404, 406, 530


class Lost(Exception):
    """A connection or a consumer is gone, for a reason that is no error of the client; it is worth another try."""


class NotTaken(Exception):
    """The server cannot do what it is asked for, and trying again does not help; the text says what does."""


def errors() -> tuple[type[Exception], ...]:
    """Return the errors that ``problem`` explains."""
    return (pika("pika.exceptions").AMQPError, OSError, Lost, NotTaken)


def root_of(error: BaseException) -> BaseException:
    """Return the error inside those that the client wraps around it.

    >>> root_of(RuntimeError("connecting failed", ConnectionRefusedError("refused")))
    ConnectionRefusedError('refused')
    """
    inner = [getattr(error, "exception", None), *getattr(error, "exceptions", ()), *error.args]
    found = [each for each in inner if isinstance(each, BaseException)]
    return root_of(found[-1]) if found else error


def code_of(error: BaseException) -> tuple[int, str]:
    """Return the server's number and text for closing a connection or a channel; 0 if it closed neither."""
    code, text = getattr(error, "reply_code", 0), getattr(error, "reply_text", "")
    return (code, text) if isinstance(code, int) else (0, "")


def passes(error: BaseException) -> bool:
    """Whether another try may succeed: the server is away or busy with itself, or the queue is still in another's use."""
    known = pika("pika.exceptions")
    code, text = code_of(error)
    if isinstance(error, (known.ProbableAuthenticationError, known.AuthenticationError, NotTaken)):
        return False
    if isinstance(root_of(error), ssl.SSLCertVerificationError):
        return False
    if isinstance(error, known.ProbableAccessDeniedError) or code == _NOT_ALLOWED:
        return "is down" in str(error)
    if code == _REFUSED:
        return "in exclusive use" in text
    if code == _NOT_FOUND:
        return " down" in text
    if isinstance(error, known.ChannelClosed):
        return code == _PRECONDITION and "timed out" in text
    return True


def problem(error: BaseException, config: RMQConnectionConfig) -> str:
    """Say what an error means, and what to do."""
    known = pika("pika.exceptions")
    code, text = code_of(error)
    root = root_of(error)
    if isinstance(error, (known.ProbableAuthenticationError, known.AuthenticationError)):
        return f"the server refuses the user {config.user_name!r} with this password; correct them."
    if isinstance(error, known.ProbableAccessDeniedError) or code == _NOT_ALLOWED:
        why = "is not there" if "not found" in str(error) else f"is refused to the user {config.user_name!r}"
        remedy = "correct its name, or grant it (rabbitmqctl set_permissions)."
        return f"the virtual host {config.virtual_host!r} {why}; {remedy}"
    if isinstance(root, ssl.SSLError):
        remedy = "name the certificate to trust (?cacertfile=...), or correct the port and the scheme, amqp or amqps."
        return f"no connection over TLS ({root}); {remedy}"
    if code == _REFUSED and "exclusive" in text:
        return (
            f"{text}; another job or program reads the queue. With use_correlation_id a job needs it for itself: stop the "
            "other, or give each a queue of its own."
        )
    if code == _REFUSED:
        return f"{text}; grant it to this user (rabbitmqctl set_permissions)."
    if code == _NOT_FOUND:
        return f"{text}; correct the name, or declare it (a queue: declare_queue=True)."
    if code == _PRECONDITION and "timed out" in text:
        return (
            f"{text}; messages were not acknowledged for longer than the server's consumer_timeout: take checkpoints more "
            "often, lower the prefetch count of a slow job, or raise the timeout."
        )
    if code:
        return f"{text} ({code})."
    if isinstance(error, known.ConnectionBlockedTimeout):
        return (
            "the server takes no messages: it is short of memory or disk space (rabbitmqctl list_alarms); give it more."
        )
    if isinstance(error, (Lost, NotTaken)):
        return str(error)
    fact = str(root).strip() or type(root).__name__
    return f"{fact}; start the server, or correct {config.shown}."


def blocking(config: RMQConnectionConfig, name: str, tries: int = 3) -> Any:
    """Return a connection for a few questions; tries again where that may help, and raises the last error."""
    client = pika()
    pause = FIRST_PAUSE_S
    for left in range(tries - 1, -1, -1):
        try:
            parameters = config.parameters(name)
            # A server that is short of something reads nothing more from a client that publishes, not even a question.
            parameters.blocked_connection_timeout = _BLOCKED_S
            return client.BlockingConnection(parameters)
        except errors() as error:
            if not left or not passes(error):
                raise
            wait_for(pause)
            pause *= 2
    raise AssertionError("a connection is made, or an error raised")


__all__ = ["FIRST_PAUSE_S", "Lost", "NotTaken", "blocking", "code_of", "errors", "passes", "problem", "root_of"]
