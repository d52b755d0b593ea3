"""Bytes that many neighbours repeat, in fewer bytes: the timestamps of a block on its way through Spark.

Arrow packs them, where it is loaded: in the workers on Spark, not in a small program on the local target. There a byte through
Spark's shuffle costs 3 ns, and to pack and to unpack a timestamp 1.5 ns. In order, they take a twentieth of their 8 bytes.
"""

from __future__ import annotations

import sys

_FEWEST = 2048
"""Fewer bytes are left as they are: the calls take 3 us."""
_CODEC = "lz4_raw"


def packed(content: bytes) -> bytes:
    """Return bytes in fewer bytes, or as they are.

    >>> import pyarrow
    >>> len(packed(bytes(4096))) < 40, len(packed(bytes(1000)))
    (True, 1000)
    """
    arrow = sys.modules.get("pyarrow")
    if arrow is None or len(content) < _FEWEST:
        return content
    found: bytes = arrow.Codec(_CODEC).compress(content, asbytes=True)
    return found if len(found) < len(content) else content


def unpacked(content: bytes, size: int) -> bytes:
    """Return the ``size`` bytes that were packed.

    >>> unpacked(packed(bytes(4096)), 4096) == bytes(4096), unpacked(b"as it is", 8)
    (True, b'as it is')
    """
    if len(content) == size:
        return content
    from pyarrow import Codec  # noqa: PLC0415 - only where something was packed

    found: bytes = Codec(_CODEC).decompress(content, decompressed_size=size, asbytes=True)
    return found
