"""Messages as bytes with a checksum in front: what is not what was sent is refused before anything of it is unpickled."""

from __future__ import annotations

import pickle
import struct
import zlib
from typing import Any

from funken.errors import TransferCorrupted

_CHECKSUM = struct.Struct("<I")


def dumps(message: Any) -> bytes:
    """Write a message.

    >>> loads(dumps(("any", "thing")))
    ('any', 'thing')
    """
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _CHECKSUM.pack(zlib.crc32(data)) + data


def loads(data: bytes | bytearray) -> Any:
    """Read a message; raises ``TransferCorrupted``, and whatever unpickling an object of the user's raises."""
    content = memoryview(data)[_CHECKSUM.size :]
    if len(data) < _CHECKSUM.size or zlib.crc32(content) != _CHECKSUM.unpack_from(data)[0]:
        raise TransferCorrupted(
            f"a message of {len(data)} bytes between the driver and a worker is not what was sent: its checksum does not fit. "
            "Check the network and the memory of the machines."
        )
    return pickle.loads(content)
