"""Messages that are text, or nothing but bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration


@dataclass(frozen=True)
class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    r"""Text in a charset, both ways (PyFlink's ``SimpleStringSchema``); what is not text becomes U+FFFD.

    >>> schema = SimpleStringSchema("ISO-8859-1")
    >>> schema.serialize("caf\u00e9"), schema.deserialize(b"caf\xe9") == "caf\u00e9"
    (b'caf\xe9', True)
    """

    charset: str = "UTF-8"

    def __post_init__(self) -> None:
        """Reject a charset that Python does not know, before the job runs."""
        try:
            "".encode(self.charset)
        except LookupError as error:
            raise InvalidConfiguration(f"{error}; give a text charset of Python, e.g. 'UTF-8', 'ISO-8859-1'.") from None

    never_waits = True

    def deserialize(self, message: bytes) -> str:
        """Decode a message."""
        return message.decode(self.charset, "replace")

    def deserialize_block(self, messages: Sequence[bytes]) -> list[Any]:
        """Decode messages."""
        charset = self.charset
        return [message.decode(charset, "replace") for message in messages]

    def serialize(self, value: Any) -> bytes:
        """Encode a record, as ``str`` shows it."""
        return str(value).encode(self.charset)


@dataclass(frozen=True)
class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are, both ways (PyFlink's ``ByteArraySchema``).

    >>> ByteArraySchema().serialize(bytearray(b"to")), ByteArraySchema().deserialize_block([b"be"])
    (b'to', [b'be'])
    """

    never_waits = True

    def deserialize(self, message: bytes) -> bytes:
        """Return the message."""
        return message

    def deserialize_block(self, messages: Sequence[bytes]) -> list[Any]:
        """Return the messages."""
        return list(messages)

    def serialize(self, value: Any) -> bytes:
        """Return the bytes of a record."""
        return bytes(value)


__all__ = ["ByteArraySchema", "SimpleStringSchema"]
