"""RocksDB, as far as it is needed: one database of ordered bytes, and the memory that several of them share.

This is the only module that imports the binding, ``rocksdict``. There is no write-ahead log: what is not in a checkpoint is
computed again after a failure. A file of a database never changes once it is written, and its name is never used again.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import Any

from funken.dataclass import dataclass
from funken.errors import DiskFull, InvalidConfiguration, StateError
from funken.timing.clock import SystemClock

# ---- The disk that a database is on: how much of it is free, and the error if that is too little.
#
# RocksDB writes and compacts in threads of its own. When the disk is full, they fail, and a write that waits for
# them would wait for ever. So nothing is written while less is free than must stay free; whoever waits for RocksDB
# looks here meanwhile.


LEAST_FREE = 64 * 2**20


def free_bytes(folder: str) -> int:
    """Return the number of bytes that this process may still write below a folder.

    >>> free_bytes("/") > 0
    True
    """
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The space below a folder, which exists; ``least`` bytes of it must stay free. ``owner`` is whose state is there.

    >>> DiskSpace("/", 2**70, "operator 'count'").check()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    funken.errors.DiskFull: operator 'count': RocksDB cannot write to /: ... are free, 1,125,899,906,842,624.0 MiB must stay free
    (state.backend.rocksdb.min-free-space). Free some space, or set state.backend.rocksdb.localdir to a folder on a larger disk.
    """

    folder: str
    least: int = LEAST_FREE
    owner: str = "the state"

    def check(self, wanted: int = 0) -> None:
        """Raise ``DiskFull`` if ``wanted`` bytes would leave too little; costs 2 to 3 us."""
        if self.least:
            free = free_bytes(self.folder)
            if free - wanted < self.least:
                wanted_too = f" and {_mib(wanted)} are wanted," if wanted else ""
                raise self.full(f"{_mib(free)} are free,{wanted_too} {_mib(self.least)} must stay free")

    def full(self, fact: str = "") -> DiskFull:
        """Make the error for a disk that is full."""
        fact = fact or f"no space is left on the device, {_mib(free_bytes(self.folder))} are free"
        return DiskFull(
            f"{self.owner}: RocksDB cannot write to {self.folder}: {fact} (state.backend.rocksdb.min-free-space). Free some "
            "space, or set state.backend.rocksdb.localdir to a folder on a larger disk."
        )


def still_saved(path: str) -> StateError:
    """Return the error of a database, or its copy, that is not saved in time."""
    return StateError(
        f"RocksDB: the state in {path} is still being saved after {PATIENCE_SECONDS} s. Is the disk (io.tmp.dirs) too slow, or "
        "out of order?"
    )


def _mib(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB"


_monotonic = SystemClock().monotonic
_TABLE_FILE_BYTES = 64 * 2**20
PATIENCE_SECONDS = 300
_LOOK_SECONDS = 1.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05
_REFUSED = "Result incomplete"
_ERRORS = "rocksdb.background-errors"
_SMALLEST_BUFFER, _LARGEST_BUFFER = 2**20, 32 * 2**20


def binding() -> Any:
    """Return the module ``rocksdict``."""
    check_installed()
    return importlib.import_module("rocksdict")


def check_installed() -> None:
    """Raise ``InvalidConfiguration`` if the binding is not there."""
    if importlib.util.find_spec("rocksdict") is None:
        raise InvalidConfiguration(
            "state.backend.type is 'rocksdb', but the package rocksdict is not installed. Run: pip install 'funken[rocksdb]' "
            "(on the workers too), or set state.backend.type: hashmap."
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """The division of the memory of one task (bytes): cached objects, write buffers and cached blocks."""

    objects: int
    blocks: int
    buffers: int

    @staticmethod
    def of(total: int, write_buffer_ratio: float = 0.5, object_ratio: float = 0.25) -> Budget:
        """Divide a limit.

        RocksDB begins to write buffers out when they are 7/8 full, and goes on in a second one meanwhile: they can take half
        as much again as they are allowed. So they are allowed two thirds of their share, as in Flink.

        >>> Budget.of(256 * 2**20)
        Budget(objects=67108864, blocks=167772160, buffers=67108864)
        """
        objects = int(total * object_ratio)
        rest = total - objects
        return Budget(objects, int(rest * (3 - write_buffer_ratio) / 3), int(rest * 2 * write_buffer_ratio / 3))


class SharedMemory:
    """The block cache and the write buffers that all databases of a task share."""

    def __init__(self, budget: Budget) -> None:
        rocks = binding()
        self.budget = budget
        self._cache = rocks.Cache(budget.blocks)
        self._buffers = rocks.WriteBufferManager.new_write_buffer_manager_with_cache(budget.buffers, False, self._cache)

    @property
    def used(self) -> int:
        """Number of bytes in use; the write buffers are part of the cache."""
        return int(self._cache.get_usage())

    def options(self) -> Any:
        """Return the options of a database that takes its memory from here."""
        rocks = binding()
        options, blocks = plain_options(), rocks.BlockBasedOptions()
        blocks.set_block_cache(self._cache)
        blocks.set_cache_index_and_filter_blocks(True)
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
        blocks.set_bloom_filter(10, False)
        options.set_block_based_table_factory(blocks)
        options.set_write_buffer_manager(self._buffers)
        # What is in the buffer is written out before a checkpoint is made, and nothing may be added meanwhile.
        options.set_write_buffer_size(min(_LARGEST_BUFFER, max(_SMALLEST_BUFFER, self.budget.buffers // 2)))
        return options


def plain_options() -> Any:
    """Return the options that all databases have."""
    rocks = binding()
    options = rocks.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_compression_type(rocks.DBCompressionType.lz4())
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(1)
    options.set_max_log_file_size(2**20)
    options.set_max_manifest_file_size(2**18)
    options.set_stats_dump_period_sec(0)
    return options


KEYS_VERSION = b"2"
"""The version of today's encoding of keys (``keys.py``)."""
_VERSION_ROW = b"\xff\xff"
"""The row with the version: behind all key groups."""


class Database:
    """A database in a folder.

    ``read_only`` changes nothing in the folder, but for a small file of the binding's own. Whatever RocksDB raises becomes a
    ``StateError`` that names the folder; it is ``DiskFull`` if ``space`` says so, before RocksDB does, or afterwards.

    RocksDB makes a write wait while it compacts, with the interpreter's lock held, and without end if the disk is full. So it
    is asked to refuse such a write, and the waiting is done here, where signals arrive and other threads run.
    """

    def __init__(
        self, path: str, memory: SharedMemory | None = None, read_only: bool = False, space: DiskSpace | None = None
    ) -> None:
        rocks = binding()
        self.path = path
        self._space = space or DiskSpace(os.path.dirname(path), 0)
        self._space.check()
        options = plain_options() if memory is None else memory.options()
        access = rocks.AccessType.read_only() if read_only else rocks.AccessType.read_write()
        options.create_if_missing(not read_only)
        with self._explained("opened"):
            self._db = rocks.Rdict(path, options, access_type=access)
        #: whether anything was written since this was last set to false
        self.changed = True
        #: set when nothing is being saved: what is written meanwhile would become a part of it
        self._versioned = False
        self._saved = threading.Event()
        self._saved.set()
        self._rocks = rocks
        self._unlogged = rocks.WriteOptions()
        self._unlogged.disable_wal = True
        self._unlogged.no_slowdown = True
        self._ingest = rocks.IngestExternalFileOptions()
        self._ingest.set_move_files(True)

    @property
    def keys_version(self) -> bytes | None:
        """The version of the encoding of its keys; ``None``: as before there were versions, or there are no keys."""
        return self.get(_VERSION_ROW)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
        try:
            found: bytes | None = self._db.get(key)
        except Exception as error:
            raise self._error("read", error) from error
        return found

    def write(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Store values, and remove keys whose value is ``None``; all at once. Waits while a checkpoint is made.

        Nothing is written to a disk that is nearly full, which raises ``DiskFull``.
        """
        self._wait_until_saved()
        self._space.check()
        self.changed = True
        rows = list(changes)
        if not self._versioned:
            rows.append((_VERSION_ROW, KEYS_VERSION))
            self._versioned = True
        if not self._taken(rows):
            self._write_when_possible(rows)

    def _taken(self, rows: list[tuple[bytes, bytes | None]]) -> bool:
        """Write rows, unless RocksDB would wait."""
        batch = self._rocks.WriteBatch(raw_mode=True)
        for key, value in rows:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        try:
            self._db.write(batch, self._unlogged)
        except Exception as error:
            if _REFUSED in str(error):
                return False
            raise self._error("written", error) from error
        return True

    def _write_when_possible(self, rows: list[tuple[bytes, bytes | None]]) -> None:
        pause, deadline = _SHORTEST_PAUSE, _monotonic() + PATIENCE_SECONDS
        while not self._taken(rows):
            self._space.check()
            if self._db.property_int_value(_ERRORS):  # it failed to write files, and may never be able to
                raise self._space.full(f"it failed to compact files, {free_bytes(self._space.folder):,} bytes are free")
            if _monotonic() > deadline:
                raise StateError(
                    f"RocksDB: the state in {self.path} has taken no write for {PATIENCE_SECONDS} s. Is the disk "
                    "(state.backend.rocksdb.localdir) too slow, or out of order?"
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries from ``start`` up to ``stop``, in order, as they are now."""
        bounds = self._rocks.ReadOptions()
        bounds.set_iterate_upper_bound(stop)
        with self._explained("read"):
            entries = self._db.items(from_key=start, read_opt=bounds)
        return self._read(entries, bounds)

    def _read(self, entries: Iterator[tuple[bytes, bytes]], bounds: Any) -> Iterator[tuple[bytes, bytes]]:
        """Yield entries; the iterator reads its ``bounds`` as long as it goes on, and does not keep them itself."""
        with self._explained("read"):
            yield from entries

    def checkpoint(self, path: str) -> Future[None]:
        """Write the buffers out, and make a folder of links to the files: as it is now, in a thread of its own."""
        self._wait_until_saved()
        self._saved.clear()
        done: Future[None] = Future()
        threading.Thread(target=self._checkpoint, args=(path, done), name="funken-rocksdb", daemon=True).start()
        return done

    def _checkpoint(self, path: str, done: Future[None]) -> None:
        try:
            with self._explained("saved"):
                self._space.check()
                # Writing out takes most of the time, and unlike making links it does not hold the interpreter's lock.
                self._db.flush()
                self._rocks.Checkpoint(self._db).create_checkpoint(path)
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for, which would wait for ever
            self._saved.set()
            done.set_exception(error)
        else:
            self._saved.set()
            done.set_result(None)

    @property
    def is_being_saved(self) -> bool:
        """True if a write would have to wait."""
        return not self._saved.is_set()

    def _wait_until_saved(self) -> None:
        deadline = _monotonic() + PATIENCE_SECONDS
        while not self._saved.wait(_LOOK_SECONDS):
            self._space.check()
            if _monotonic() < deadline:
                continue
            raise still_saved(self.path)

    def take_sorted(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Take in many entries in their order, that lie between those that are here: as files, past the buffers."""
        left, path = iter(entries), f"{self.path}.sst"
        with self._explained("written"):
            for key, value in left:
                self._space.check()
                writer, size = self._rocks.SstFileWriter(plain_options()), 0
                writer.open(path)
                writer[key] = value
                for key, value in left:  # noqa: PLW2901 - goes on where the loop around it is
                    writer[key] = value
                    size += len(key) + len(value)
                    if size > _TABLE_FILE_BYTES:
                        break
                writer.finish()
                self._db.ingest_external_file([path], self._ingest)

    def close(self) -> None:
        """Close it."""
        self._saved.wait(PATIENCE_SECONDS)
        with self._explained("closed"):
            self._db.close()

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except StateError:
            raise
        except Exception as error:
            raise self._error(what, error) from error

    def _error(self, what: str, error: Exception) -> StateError:
        if "No space left" in str(error):
            return self._space.full()
        remedy = f"Is the disk of {os.path.dirname(self.path)} (state.backend.rocksdb.localdir) in order?"
        return StateError(f"RocksDB: the state in {self.path} cannot be {what}: {error}. {remedy}")
