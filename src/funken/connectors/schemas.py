"""Formats apart from transport: messages (bytes) become records, and records messages, whatever carries them.

A schema is a frozen, picklable description; it is used in tasks, a block at a time. A connector takes one as an argument.
``formats`` has those that come with Funken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class DeserializationSchema:
    """How messages become records; subclass it and define ``deserialize``.

    >>> class Words(DeserializationSchema):
    ...     def deserialize(self, message):
    ...         return message.decode().split()
    >>> Words().deserialize_block([b"to be", b"", b"or not"])
    [['to', 'be'], [], ['or', 'not']]

    ``None`` drops a message:

    >>> class Ints(DeserializationSchema):
    ...     def deserialize(self, message):
    ...         return int(message) if message.isdigit() else None
    >>> Ints().deserialize_block([b"1", b"x", b"3"])
    [1, 3]
    """

    def deserialize(self, message: bytes) -> Any:
        """Return the record of a message; ``None`` drops the message."""
        raise NotImplementedError

    def deserialize_all(self, message: bytes) -> list[Any]:
        """Return the records of a message, for a format in which a message may hold several; override it then.

        >>> class Words(DeserializationSchema):
        ...     def deserialize_all(self, message):
        ...         return message.decode().split()
        >>> Words().deserialize_block([b"to be", b"", b"or not"])
        ['to', 'be', 'or', 'not']
        """
        record = self.deserialize(message)
        return [] if record is None else [record]

    def deserialize_block(self, messages: Sequence[bytes]) -> list[Any]:
        """Return the records of messages; override it where a block costs less than its messages one by one."""
        return [record for message in messages for record in self.deserialize_all(message)]


class SerializationSchema:
    """How records become messages; subclass it and define ``serialize``.

    >>> class Lengths(SerializationSchema):
    ...     def serialize(self, value):
    ...         return b"%d" % len(value)
    >>> Lengths().serialize_block(["to", "bee"])
    [b'2', b'3']
    """

    def serialize(self, value: Any) -> bytes:
        """Return the message of a record."""
        raise NotImplementedError

    def serialize_block(self, values: Sequence[Any]) -> list[bytes]:
        """Return the messages of records; override it where a block costs less than its records one by one."""
        return [self.serialize(value) for value in values]


__all__ = ["DeserializationSchema", "SerializationSchema"]
