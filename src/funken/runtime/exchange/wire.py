"""Blocks as bytes: a fixed header, and for data a pickle of the values and their timestamps, or of the columns of named tuples.

Header: checksum of all that follows, kind, edge, upstream subtask, target subtask, sequence number in its channel, one
number that the kind explains (watermark, checkpoint id, idle flag, source of a latency marker, round of a loop), and the
wall-clock time (s) at which the oldest record of the block entered the job, or the marker was made. Only bytes that the job's own
tasks wrote are ever read: Spark's shuffle or connections of the job carry them, and ``read_header`` refuses a block that is not
what was sent, before anything of it is unpickled. The checksum costs 3 ns per record and side.
"""

from __future__ import annotations

import copyreg
import enum
import pickle
import struct
import zlib
from array import array
from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from types import CodeType
from typing import Any, NamedTuple

from funken.columnar.block import Block, RowBlock, TupleBlock
from funken.errors import TransferCorrupted
from funken.io.shapes import dumps, record_not_picklable
from funken.timing.instants import check_range

# ---- Named tuples across an exchange: a block of one class travels as the class and its fields, column by column.
#
# What arrives is what pickle would give, of exactly that class. So this is done only for classes whose instances
# pickle as ``collections.namedtuple`` defines: a class that defines how it is pickled or made is pickled, as is a
# block of several classes.
#
# Measured, side by side on 2000 records of two fields (seven): pickle takes 600 (830) ns to write and 200 (400) to
# read each, columns 77 (200) and 125 (305); plain tuples take 51 (210) and 48 (170).


FEWEST = 16
"""Blocks of fewer records are pickled: looking at their class would cost more than it saves."""

_GETNEWARGS = namedtuple("_Sample", "field").__getnewargs__.__code__  # type: ignore[attr-defined]
_INHERITED = ("__reduce_ex__", "__reduce__", "__getstate__", "__getattribute__", "__iter__", "__len__")


def fields_of(values: list[Any]) -> list[tuple[Any, ...]] | None:
    """Return the fields of named tuples of one class as columns; ``None`` where pickle must see the records itself.

    >>> from typing import NamedTuple
    >>> class Point(NamedTuple):
    ...     x: int
    ...     y: int
    >>> fields_of([Point(n, 2 * n) for n in range(16)]) == [(*range(16),), (*range(0, 32, 2),)]
    True
    >>> fields_of([(n, 2 * n) for n in range(16)])
    """
    if len(values) < FEWEST:
        return None
    cls = type(values[0])
    if cls is tuple or not issubclass(cls, tuple) or not is_simple_namedtuple(cls) or len(set(map(type, values))) > 1:
        return None
    # Instances made without __new__ may have any length.
    return list(zip(*values, strict=True)) if set(map(len, values)) == {len(cls._fields)} else None  # type: ignore[attr-defined]


def named_tuples_of(cls: type[Any], columns: list[tuple[Any, ...]]) -> list[Any]:
    """Return the named tuples that ``fields_of`` took apart.

    >>> from typing import NamedTuple
    >>> class Point(NamedTuple):
    ...     x: int
    ...     y: int
    >>> named_tuples_of(Point, [(1, 2), (3, 4)])
    [Point(x=1, y=3), Point(x=2, y=4)]
    """
    return list(map(tuple.__new__, repeat(cls), zip(*columns, strict=True)))


def is_simple_namedtuple(cls: type[Any]) -> bool:
    """Whether a class's instances are pickled as the call of the class with their fields, and that just takes them.

    Checked per block and not cached: a class may be changed, or get a function in ``copyreg``, at any time.
    """
    fields = getattr(cls, "_fields", None)
    return (
        type(fields) is tuple
        and len(fields) > 0
        and all(getattr(cls, name) is getattr(tuple, name) for name in _INHERITED)
        and not hasattr(cls, "__getattr__")
        and not hasattr(cls, "__getnewargs_ex__")
        and getattr(cls.__getnewargs__, "__code__", None) == _GETNEWARGS
        and getattr(cls.__new__, "__code__", None) == _new_of(fields)
        and cls.__dictoffset__ == 0
        and cls not in copyreg.dispatch_table
    )


@lru_cache(maxsize=256)
def _new_of(fields: tuple[str, ...]) -> CodeType | None:
    """Return the code of the ``__new__`` that ``namedtuple`` makes for these fields."""
    try:
        sample = namedtuple("_Sample", fields, rename=True)  # type: ignore[misc]
    except (TypeError, ValueError):
        return None
    return sample.__new__.__code__ if sample._fields == fields else None


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
