"""Blocks as bytes: a fixed header, and for data a pickle of the values and their timestamps, or of the columns of named tuples.

Header: checksum of all that follows, kind, edge, upstream subtask, target subtask, sequence number in its channel, one
number that the kind explains (watermark, checkpoint id, idle flag, source of a latency marker, round of a loop), and the
wall-clock time (s) at which the oldest record of the block entered the job, or the marker was made. Only bytes that the job's own
tasks wrote are ever read: Spark's shuffle or connections of the job carry them, and ``read_header`` refuses a block that is not
what was sent, before anything of it is unpickled. The checksum costs 3 ns per record and side.
"""

from __future__ import annotations

import enum
import pickle
import struct
import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from funken.columnar.block import Block, RowBlock, TupleBlock
from funken.errors import TransferCorrupted
from funken.io.pickling import dumps, record_not_picklable
from funken.runtime.exchange.named_tuples import fields_of, named_tuples_of
from funken.timing.instants import check_range

ChannelId = tuple[int, int]
"""An edge and an upstream subtask."""


_CHECKSUM = struct.Struct("<I")
_FIELDS = struct.Struct("<BHHHIqd")
_SIZE = _CHECKSUM.size + _FIELDS.size
_PROTOCOL = 5
COLUMNS = 0xC0
"""What the content of a block of columns begins with (``columnar/keyed/codec.py``); no pickle begins so."""
ITSELF = 0xC1
"""What the content of a block begins with whose own pickle follows: of a form that rooms above this one brought."""


class BlockKind(enum.IntEnum):
    """What a block is."""

    DATA = 0
    WATERMARK = 1
    IDLE = 2
    BARRIER = 3
    END = 4
    LATENCY = 5
    ROUND = 6


class BlockHeader(NamedTuple):
    """The fields in front of every block."""

    kind: int
    edge: int
    upstream: int
    target: int
    sequence: int
    number: int
    ingested_at: float


def pack_header(
    kind: BlockKind,
    edge: int,
    upstream: int,
    target: int,
    sequence: int,
    number: int,
    ingested_at: float,
    content: bytes = b"",
) -> bytes:
    """Write a block: a header, and what follows it."""
    fields = _FIELDS.pack(kind, edge, upstream, target, sequence & 0xFFFFFFFF, number, ingested_at)
    checksum = zlib.crc32(content, zlib.crc32(fields))
    return b"".join((_CHECKSUM.pack(checksum), fields, content))


def read_header(block: bytes) -> BlockHeader:
    """Read the header of a block; raises ``TransferCorrupted`` if the block is not what was sent.

    >>> block = bytearray(pack_header(BlockKind.WATERMARK, 1, 0, 0, 0, 1000, 0.0))
    >>> read_header(bytes(block)).number
    1000
    >>> block[20] ^= 4
    >>> read_header(bytes(block))
    Traceback (most recent call last):
    ...
    funken.errors.TransferCorrupted: a block of 31 bytes that came from another task is not what was sent: its checksum does not
    fit. Check the memory, the local disks and the network of the machines.
    """
    if len(block) < _SIZE:
        raise _corrupted(block, f"it has fewer than {_SIZE}")
    if zlib.crc32(memoryview(block)[_CHECKSUM.size :]) != _CHECKSUM.unpack_from(block)[0]:
        raise _corrupted(block, "its checksum does not fit")
    return BlockHeader._make(_FIELDS.unpack_from(block, _CHECKSUM.size))


def _corrupted(block: bytes, fact: str) -> TransferCorrupted:
    return TransferCorrupted(
        f"a block of {len(block)} bytes that came from another task is not what was sent: {fact}. Check the memory, the local "
        "disks and the network of the machines."
    )


def payload_of(block: bytes) -> bytes:
    """Return what follows the header."""
    return block[_SIZE:]


def encode_records(values: list[Any], timestamps: list[int] | None, operator: str, subtask: int) -> bytes:
    """Pickle records; plain pickle where it can, cloudpickle for local classes, else ``RecordNotPicklable``."""
    stamps = None if timestamps is None else _stamps_of(timestamps, lambda: values)
    columns = fields_of(values)
    content = (values, stamps) if columns is None else (type(values[0]), columns, stamps)
    return dumps(content, record_not_picklable, values, operator, subtask)


def encode_fields(block: TupleBlock, operator: str, subtask: int) -> bytes:
    """Pickle tuples field by field, which takes a third of the time; raises ``RecordNotPicklable``."""
    stamps = None if block.timestamps is None else _stamps_of(block.timestamps, lambda: block.rows()[0])
    return dumps((tuple, block.fields, dict(block.constants), stamps), _field_not_picklable, block, operator, subtask)


def _stamps_of(timestamps: Sequence[int], records: Callable[[], Iterable[Any]]) -> bytes:
    try:
        return array("q", timestamps).tobytes()
    except OverflowError:
        check_range(timestamps, records())
        raise


def _field_not_picklable(error: Exception, block: TupleBlock, operator: str, subtask: int) -> Exception:
    return record_not_picklable(error, block.rows()[0], operator, subtask)


def decode_records(block: bytes) -> Block:
    """Read the records of a data block whose ``read_header`` was read, in rows or columns as they were sent."""
    if block[_SIZE] == COLUMNS:
        from funken.columnar.keyed.codec import decode_block  # noqa: PLC0415 - NumPy is loaded only where there are columns

        return decode_block(memoryview(block)[_SIZE:])
    if block[_SIZE] == ITSELF:
        brought: Block = pickle.loads(memoryview(block)[_SIZE + 1 :])
        return brought
    *content, stamps = pickle.loads(memoryview(block)[_SIZE:])
    timestamps = None
    if stamps is not None:
        times = array("q")
        times.frombytes(stamps)
        timestamps = times.tolist()
    match content:
        case [values]:
            return RowBlock(values, timestamps)
        case [_, fields, constants]:
            return TupleBlock(fields, timestamps, constants)
        case [kind, fields]:
            return RowBlock(named_tuples_of(kind, fields), timestamps)
    raise AssertionError(f"a block of {len(content)} parts")
