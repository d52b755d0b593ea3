"""Spill files: serialised blocks on the local disk, in files without a name.

A file is unlinked by the system as it is made, so it is gone after ``close``, after a failure and after a kill alike.
A file belongs to one structure of one subtask and holds any number of blocks, each found by its extent.
"""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from weakref import WeakSet

from funken.dataset.memory.blocks import Block, dump, load
from funken.errors import DiskFull, InvalidConfiguration


class Extent(NamedTuple):
    """Where a block is in its file."""

    offset: int
    length: int
    records: int


class SpillSpace:
    """The folders that a job spills to, and how much it did.

    >>> with SpillSpace() as space:
    ...     file = space.file("sort")
    ...     extent = file.write([1, 2, 3])
    ...     file.read(extent), space.files, space.spilled > 0
    ([1, 2, 3], 1, True)
    """

    def __init__(self, directories: Iterable[str] = ()) -> None:
        self._directories = [directory for directory in directories if directory] or [tempfile.gettempdir()]
        self._open: WeakSet[SpillFile] = WeakSet()
        self._lock = threading.Lock()
        self.files = 0
        self.spilled = 0
        #: by operator
        self.spilled_by: dict[str, int] = {}

    def file(self, operator: str) -> SpillFile:
        """Make a file for an operator; the folders take turns."""
        directory = self._directories[self.files % len(self._directories)]
        try:
            handle = tempfile.TemporaryFile(dir=directory, buffering=0, prefix="funken-spill-")  # noqa: SIM115 - closed by SpillFile
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise self._full(operator, directory) from error
            raise InvalidConfiguration(
                f"operator {operator!r} cannot make a spill file in {directory!r}: {error}. "
                "Set io.tmp.dirs to folders that can be written."
            ) from error
        file = SpillFile(self, handle, operator, directory)
        with self._lock:
            self.files += 1
            self._open.add(file)
        return file

    def count(self, operator: str, size: int) -> None:
        """Count bytes that were written to a file of an operator."""
        with self._lock:
            self.spilled += size
            self.spilled_by[operator] = self.spilled_by.get(operator, 0) + size

    def _full(self, operator: str, directory: str) -> DiskFull:
        return DiskFull(
            f"operator {operator!r} cannot spill to {directory!r}: no space is left on the disk, after "
            f"{self.spilled:,} bytes spilled by this job. Free space, set io.tmp.dirs to a larger disk, or raise "
            "execution.memory.managed."
        )

    def close(self) -> None:
        """Close the files that are still open."""
        for file in list(self._open):
            file.close()

    def __enter__(self) -> SpillSpace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SpillFile:
    """One file of blocks; reading does not move anything, so several readers may be under way."""

    def __init__(self, space: SpillSpace, handle: Any, operator: str, directory: str) -> None:
        self._space = space
        self._handle = handle
        self._operator = operator
        self._directory = directory
        self._end = 0

    def write(self, block: Block) -> Extent:
        """Append a block; raise ``DiskFull`` if there is no space for it."""
        return self.append(dump(block), len(block))

    def append(self, data: bytes, records: int) -> Extent:
        """Append a block that is serialised already."""
        view = memoryview(data)
        start = self._end
        try:
            while view:
                written = os.pwrite(self._handle.fileno(), view, self._end)
                self._end += written
                view = view[written:]
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
                raise self._space._full(self._operator, self._directory) from error
            raise
        self._space.count(self._operator, len(data))
        return Extent(start, len(data), records)

    def rewind(self) -> None:
        """Write from the beginning again; no extent of before is read any more."""
        self._end = 0

    def read(self, extent: Extent) -> Block:
        """Return the block of an extent."""
        parts = []
        offset, missing = extent.offset, extent.length
        while missing:
            data = os.pread(self._handle.fileno(), missing, offset)
            if not data:
                raise OSError(f"the spill file of operator {self._operator!r} ends before {extent}")
            parts.append(data)
            offset += len(data)
            missing -= len(data)
        return load(parts[0] if len(parts) == 1 else b"".join(parts))

    def blocks(self, extents: Iterable[Extent]) -> Iterator[Block]:
        """Return the blocks of extents, one after the other."""
        return map(self.read, extents)

    def __del__(self) -> None:
        self._handle.close()

    def close(self) -> None:
        """Give the space back."""
        self._handle.close()
