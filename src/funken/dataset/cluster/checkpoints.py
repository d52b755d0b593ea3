"""Checkpoints of iterations: what the workers have at the end of a superstep, as a file each in a folder of the checkpoint.

A worker writes its file before it reports the end of the superstep, and nothing is under way between workers then. So the
checkpoint is complete when all have reported, and consists of the files and the driver's decision. It is of use to later
attempts of the same run only.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from funken.dataset.memory.blocks import Block, dump, load
from funken.dataset.runtime.coordinator import Next, Part
from funken.errors import CheckpointCorrupted
from funken.io.storage import open_storage

_HEADER = struct.Struct("!BII")
_PIECE = 4 * 2**20


@dataclass(frozen=True)
class IterationCheckpoint:
    """A complete checkpoint: the decision that ended its superstep, the sizes of worksets so far, the folder of the files."""

    decision: Next
    worksets: tuple[int, ...]
    folder: str


def folder_of(root: str, iteration: int, superstep: int) -> str:
    """Return where a checkpoint is, below the folder of an attempt.

    >>> folder_of("/checkpoints/job/1", 0, 12)
    '/checkpoints/job/1/iteration-0/superstep-12'
    """
    return f"{root}/iteration-{iteration}/superstep-{superstep}"


def write_parts(folder: str, worker: int, parts: Iterable[Part]) -> None:
    """Write the file of a worker."""

    def chunks() -> Iterator[bytes]:
        for section, block in parts:
            data = dump(block)
            yield _HEADER.pack(section, len(data), zlib.crc32(data))
            yield data

    open_storage(folder).write(f"worker-{worker}", chunks())


def read_parts(folder: str, worker: int) -> Iterator[Part]:
    """Read the file of a worker; raise ``CheckpointCorrupted`` if it is not what was written."""
    storage, name = open_storage(folder), f"worker-{worker}"
    offset, data = 0, b""

    def take(size: int) -> bytes:
        nonlocal offset, data
        while len(data) < size:
            piece = storage.read(name, offset, max(_PIECE, size - len(data)))
            if not piece:
                break
            offset += len(piece)
            data += piece
        found, data = data[:size], data[size:]
        return found

    while header := take(_HEADER.size):
        section, size, checksum = _HEADER.unpack(header.ljust(_HEADER.size, b"."))
        content = take(size)
        if len(content) < size or zlib.crc32(content) != checksum:
            raise CheckpointCorrupted(
                f"the checkpoint {folder}/{name} is not what was written: it is cut off, or its checksum does not fit. Check "
                "the storage."
            )
        block: Block = load(content)
        yield section, block
