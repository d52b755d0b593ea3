"""RocksDB as a state backend: the tables of one operator subtask in a database of their own.

The databases of a task share their memory (``TaskDatabases``), and a folder that goes with the task. For a snapshot the task
only gives what is dirty to the database; then a thread makes a folder of hard links, and until that is done what the task
changes stays among its objects. A ``DatabaseSnapshot`` can be read as long as it is referenced.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import logging
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, MutableMapping
from functools import partial
from itertools import islice
from typing import Any
from uuid import uuid4

from funken.dataclass import dataclass
from funken.errors import StateError
from funken.io.shapes import Shape, StateDumper
from funken.state.backend import Slot, Table
from funken.state.descriptors import StateKind
from funken.state.keygroups import PLAIN, one_nan, owned_groups
from funken.state.rocksdb.database import (
    KEYS_VERSION,
    LEAST_FREE,
    PATIENCE_SECONDS,
    Budget,
    Database,
    DiskSpace,
    SharedMemory,
    still_saved,
)
from funken.state.rocksdb.layout import Layout, Parts, encode_key, pack_row, renamed, successor, unpack_row

# ---- The tables of RocksDB-backed state: rows in the database, and in front of them the objects that were used
# last.
#
# A row is ``group (2 bytes) | state | key | namespace | key of the map`` and a pickled value, so the rows of a key
# group are neighbours, and so are the entries of one map. What was read or written last is kept as objects: reading
# and writing these costs a dict access and no pickling. *Dirty* ones have changed since they were last written to
# the database; there are never more than ``_MAX_DIRTY`` per table, so that a barrier does not wait long, but while
# the database is being saved.
#
# Invariants: what is dirty is among the young objects; an object that is in neither generation is in the database
# as it was last stored. A map is not kept as a whole: its entries are rows of their own, and ``MapView`` stands for
# all of them.


_ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "ABSENT"})()
_UNKNOWN: Any = object()
_MAX_DIRTY = 5_000
_MAX_DIRTY_MEANWHILE = 50_000
_CHUNK = 500
#: what an object takes besides its content: the entries of the dicts, its key, its parts (bytes)
_OVERHEAD = 400


class ObjectLimit:
    """A limit of the objects in the tables of a task; the tables share its bytes equally."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._tables = 0

    def join(self) -> None:
        """Count one table more."""
        self._tables += 1

    def objects(self, size: float) -> int:
        """Return the number of objects that a table may keep whose pickled size is ``size`` on average.

        >>> limit = ObjectLimit(64 * 2**20)
        >>> limit.join()
        >>> limit.objects(100)
        95869
        """
        return self.entries(3 * size + _OVERHEAD)

    def entries(self, size: float) -> int:
        """Return the number of entries that a table may keep, each of so many bytes in memory."""
        return max(16, int(self._total / max(1, self._tables) / size))


class Rows:
    """The rows of one state by their parts, with two generations of objects in front of them.

    Used objects are young. When there are too many young ones, the old ones are discarded, and the young are the old.
    """

    __slots__ = ("_database", "_dirty", "_dumps", "_limit", "_most", "_old", "_size", "_young", "layout")

    def __init__(
        self, database: Database, layout: Layout, limit: ObjectLimit, met: Callable[[Shape], None] = lambda shape: None
    ) -> None:
        self._dumps = StateDumper(met)
        self._database = database
        self.layout = layout
        self._limit = limit
        limit.join()
        self._young: dict[Parts, Any] = {}
        self._old: dict[Parts, Any] = {}
        self._dirty: dict[Parts, None] = {}
        self._size = 100.0
        self._most = limit.objects(self._size) // 2

    @property
    def capacity(self) -> int:
        """Maximal number of objects in a generation."""
        return self._most

    @property
    def in_memory(self) -> int:
        """Number of objects."""
        return len(self._young) + len(self._old)

    def get(self, parts: Parts) -> Any:
        """Return the stored value, maybe ``_ABSENT``."""
        # Hot: one lookup, for what was used lately (benchmarks/state_size.py).
        stored = self._young.get(parts, _UNKNOWN)
        return self._find(parts) if stored is _UNKNOWN else stored

    def put(self, parts: Parts, stored: Any) -> None:
        """Store something; ``_ABSENT`` removes it."""
        if parts not in self._dirty:
            self._touch(parts)
        self._young[parts] = stored

    def _find(self, parts: Parts) -> Any:
        stored = self._old.pop(parts, _UNKNOWN)
        if stored is _UNKNOWN:
            value = self._database.get(self.layout.row(parts))
            if value is None:
                stored = _ABSENT
            else:
                stored = unpack_row(value, self.layout.name)
                self._saw(len(value))
        self._enter(parts, stored)
        return stored

    def _touch(self, parts: Parts) -> None:
        if len(self._dirty) >= _MAX_DIRTY and (
            not self._database.is_being_saved or len(self._dirty) >= _MAX_DIRTY_MEANWHILE
        ):
            self.flush()
        if parts not in self._young:
            self._old.pop(parts, None)
            self._enter(parts, _ABSENT)
        self._dirty[parts] = None

    def _enter(self, parts: Parts, stored: Any) -> None:
        if len(self._young) >= self._most:
            self.flush()
            self._old, self._young = self._young, {}
            self._most = self._limit.objects(self._size) // 2
        self._young[parts] = stored

    def _saw(self, size: int) -> None:
        self._size += (size - self._size) / 64

    def flush(self) -> None:
        """Write dirty objects to the database."""
        if self._dirty:
            self._database.write(self._packed(self._dirty))
            self._dirty = {}
            self.layout.written()

    def _packed(self, dirty: Iterable[Parts]) -> Iterator[tuple[bytes, bytes | None]]:
        young, layout = self._young, self.layout
        for parts in dirty:
            stored = young[parts]
            value = None if stored is _ABSENT else pack_row(parts, stored, layout.name, self._dumps)
            if value is not None:
                self._saw(len(value))
            yield layout.row(parts, writes=True), value

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[Parts, Any]]:
        """Yield the rows from one place up to another, in order, as they are now; later changes are not seen."""
        self.flush()
        layout = self.layout
        return (
            (layout.parts(row, value), unpack_row(value, layout.name))
            for row, value in self._database.scan(start, stop)
        )

    def walk(self, groups: Iterable[int]) -> Iterator[Parts]:
        """Yield the keys of the rows, a few at a time, so that the user may change them meanwhile."""
        for group in groups:
            start = self.layout.prefix(group)
            stop = successor(start)
            while True:
                self.flush()
                chunk = list(itertools.islice(self._database.scan(start, stop), _CHUNK))
                for row, value in chunk:
                    yield self.layout.parts(row, value)
                if len(chunk) < _CHUNK:
                    break
                start = chunk[-1][0] + b"\0"


class RocksTable(MutableMapping[Slot, Any]):
    """A table whose slots hold values, accumulators or lists, each one row."""

    __slots__ = ("_groups", "_namespaced", "_rows")

    def __init__(self, rows: Rows, groups: range) -> None:
        self._rows = rows
        self._groups = groups
        self._namespaced = rows.layout.namespaced

    def _parts(self, slot: Slot) -> Parts:
        return slot if self._namespaced else (slot,)  # type: ignore[return-value]

    def get(self, slot: Slot, default: Any = None) -> Any:
        """Return the stored value."""
        stored = self._rows.get(slot if self._namespaced else (slot,))  # type: ignore[arg-type]
        return default if stored is _ABSENT else stored

    def __getitem__(self, slot: Slot) -> Any:
        stored = self._rows.get(self._parts(slot))
        if stored is _ABSENT:
            raise KeyError(slot)
        return stored

    def __setitem__(self, slot: Slot, stored: Any) -> None:
        self._rows.put(slot if self._namespaced else (slot,), stored)  # type: ignore[arg-type]

    def __delitem__(self, slot: Slot) -> None:
        self.__getitem__(slot)
        self._rows.put(self._parts(slot), _ABSENT)

    def __contains__(self, slot: object) -> bool:
        return self._rows.get(self._parts(slot)) is not _ABSENT

    def __iter__(self) -> Iterator[Slot]:
        walk = self._rows.walk(self._groups)
        return walk if self._namespaced else (parts[0] for parts in walk)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class MapTable(MutableMapping[Slot, Any]):
    """A table whose slots hold maps, each entry one row.

    Reading a slot gives a view of its map, also if that is empty. To store such a view is to do nothing, since what was
    changed through it is stored already; to store a dict replaces the map.
    """

    __slots__ = ("_groups", "_namespaced", "rows")

    def __init__(self, rows: Rows, groups: range) -> None:
        self.rows = rows
        self._groups = groups
        self._namespaced = rows.layout.namespaced

    def get(self, slot: Slot, default: Any = None) -> Any:
        """Return a view of the map."""
        return MapView(self.rows, slot if self._namespaced else (slot,))  # type: ignore[arg-type]

    def __getitem__(self, slot: Slot) -> Any:
        view = self.get(slot)
        if view.is_empty():
            raise KeyError(slot)
        return view

    def __setitem__(self, slot: Slot, stored: Any) -> None:
        if not isinstance(stored, MapView):
            view = self.get(slot)
            for key in [key for key in view if key not in stored]:
                del view[key]
            for key, value in stored.items():
                view[key] = value

    def __delitem__(self, slot: Slot) -> None:
        if self.pop(slot, None) is None:
            raise KeyError(slot)

    def pop(self, slot: Slot, *default: Any) -> Any:
        """Remove a map, and return it as a dict."""
        view = self.get(slot)
        there = view.copy()
        for key in there:
            del view[key]
        if not there and not default:
            raise KeyError(slot)
        return there or default[0]

    def __contains__(self, slot: object) -> bool:
        return not self.get(slot).is_empty()

    def __iter__(self) -> Iterator[Slot]:
        last: set[Parts] = set()  # a set: keys whose hashes differ are not compared, which some cannot be
        for parts in self.rows.walk(self._groups):
            slot = parts[:-1]
            if slot not in last:
                last = {slot}
                yield slot if self._namespaced else slot[0]

    def __len__(self) -> int:
        return sum(1 for _ in self)


class MapView(MutableMapping[Any, Any]):
    """One map: reads and writes its entries one by one; iterates over them in the order of their keys' bytes.

    It is always true, since telling whether there are entries costs a search.
    """

    __slots__ = ("_rows", "_slot")

    def __init__(self, rows: Rows, slot: Parts) -> None:
        hash(slot)  # raises if there is no key, or no namespace
        self._rows = rows
        self._slot = slot

    def __bool__(self) -> bool:
        return True

    def _parts(self, key: Any) -> Parts:
        return (*self._slot, key if type(key) in PLAIN else one_nan(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key."""
        stored = self._rows.get(self._parts(key))
        return default if stored is _ABSENT else stored

    def __getitem__(self, key: Any) -> Any:
        stored = self._rows.get(self._parts(key))
        if stored is _ABSENT:
            raise KeyError(key)
        return stored

    def __setitem__(self, key: Any, value: Any) -> None:
        self._rows.put(self._parts(key), value)

    def __delitem__(self, key: Any) -> None:
        self.__getitem__(key)
        self._rows.put(self._parts(key), _ABSENT)

    def __contains__(self, key: object) -> bool:
        return self._rows.get(self._parts(key)) is not _ABSENT

    def pairs(self) -> Iterator[tuple[Any, Any]]:
        """Yield keys and values, one after the other; changes made meanwhile are not seen."""
        self._rows.flush()
        place = self._rows.layout.row(self._slot)
        return ((parts[-1], value) for parts, value in self._rows.scan(place, successor(place)))

    def between(self, low: int, high: int) -> list[int]:
        """Return the keys from ``low`` to ``high`` of a map whose keys are whole numbers, in order."""
        self._rows.flush()
        place = self._rows.layout.row(self._slot)
        return [parts[-1] for parts, _ in self._rows.scan(place + encode_key(low), place + encode_key(high + 1))]

    def items(self) -> ItemsView[Any, Any]:
        """Return the entries."""
        return _Pairs(self)

    def is_empty(self) -> bool:
        """Return True if there are no entries."""
        return next(self.pairs(), None) is None

    def copy(self) -> dict[Any, Any]:
        """Return the map as a dict."""
        return dict(self.pairs())

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.pairs())

    def __len__(self) -> int:
        return sum(1 for _ in self.pairs())


class _Pairs(ItemsView[Any, Any]):
    """The entries of a view, read one after the other."""

    _mapping: MapView

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self._mapping.pairs()


# ---- Where databases are while a task runs: a folder of its own, removed when it is no longer used.
#
# A killed process leaves its folders behind. Each has a lock that the system releases when the process ends, so the
# next process under the same parent can detect and remove them.


_PREFIX = "funken-rocksdb-"
_LOCK = "in-use"
_open: weakref.WeakSet[WorkFolder]


class WorkFolder:
    """A folder that goes when it is closed, or when the last that refers to it is gone, or with the process.

    >>> folder = WorkFolder.create(tempfile.gettempdir())
    >>> os.path.isdir(folder.place("a"))
    True
    >>> folder.remove()
    >>> os.path.exists(folder.path)
    False
    """

    def __init__(self, path: str, lock: int) -> None:
        self.path = path
        self._remove = weakref.finalize(self, _remove, path, lock)
        _open.add(self)

    @staticmethod
    def create(parent: str) -> WorkFolder:
        """Make a folder below ``parent``, and remove those of killed processes."""
        try:
            os.makedirs(parent, exist_ok=True)
            remove_left_over(parent)
            # Under another name until it is locked, so that it is not taken for left over in between.
            new = tempfile.mkdtemp(prefix=".new-", dir=parent)
            lock = os.open(os.path.join(new, _LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            path = os.path.join(parent, f"{_PREFIX}{uuid4().hex}")
            os.rename(new, path)
        except OSError as error:
            raise StateError(
                f"there is no place for RocksDB's files in {parent}: {error}. Set io.tmp.dirs to a folder on a local disk that "
                "the workers may write to."
            ) from error
        return WorkFolder(path, lock)

    def place(self, name: str) -> str:
        """Make a folder within, and return its path."""
        path = os.path.join(self.path, name)
        os.makedirs(path, exist_ok=True)
        return path

    def remove(self) -> None:
        """Remove it, with all that is in it; more than once does no harm."""
        self._remove()


_open = weakref.WeakSet()


def _remove(path: str, lock: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.close(lock)


def remove_all() -> None:
    """Remove the folders of this process: for one that ends without its finalizers."""
    for folder in list(_open):
        folder.remove()


def remove_left_over(parent: str) -> list[str]:
    """Remove the folders whose process is gone; return their paths."""
    removed = []
    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        if not name.startswith(_PREFIX):
            continue
        with contextlib.suppress(OSError):
            lock = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
                removed.append(path)
            finally:
                os.close(lock)
    return removed


logger = logging.getLogger(__name__)

_TABLES = ".sst"
_ROWS_AT_ONCE = 1000
_END = b"\xff\xff"


class TaskDatabases:
    """The shared resources of one task's databases: memory and a folder, made when the first one is opened."""

    def __init__(
        self, memory: int, write_buffer_ratio: float, directory: str, min_free_space: int = LEAST_FREE
    ) -> None:
        self._budget = Budget.of(memory, write_buffer_ratio)
        self._directory = directory
        self.min_free_space = min_free_space
        self._memory: SharedMemory | None = None
        self._folder: WorkFolder | None = None
        self.objects = ObjectLimit(self._budget.objects)
        self._count = 0
        #: those that something refers to
        self._snapshots: weakref.WeakSet[LinkedFiles] = weakref.WeakSet()

    @property
    def memory(self) -> SharedMemory:
        """The memory."""
        if self._memory is None:
            self._memory = SharedMemory(self._budget)
        return self._memory

    @property
    def folder(self) -> WorkFolder:
        """The folder."""
        if self._folder is None:
            self._folder = WorkFolder.create(self._directory)
        return self._folder

    def place(self) -> str:
        """Make a folder for a database."""
        self._count += 1
        return self.folder.place(str(self._count))

    def linked_files(self, database: Database, path: str) -> LinkedFiles:
        """Begin to make the files of a snapshot of a database."""
        files = LinkedFiles(database, path, self.folder)
        self._snapshots.add(files)
        return files

    def close(self) -> None:
        """Release the folder, which stays only while a snapshot in it can be read."""
        folder, self._folder = self._folder, None
        # An error that is passed on refers by its traceback to the snapshot that failed, and so to the folder.
        if folder is not None and all(files.failed for files in self._snapshots):
            folder.remove()


class LinkedFiles:
    """The files of a snapshot of a database, which never change; they are deleted when this is no longer referenced."""

    def __init__(self, database: Database, path: str, folder: WorkFolder) -> None:
        self._made = database.checkpoint(path)
        self._path = path
        self._folder = folder
        weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)

    @property
    def path(self) -> str:
        """The folder they are in; waits until they are. Raises ``StateError`` if they cannot be, or take too long."""
        try:
            self._made.result(timeout=PATIENCE_SECONDS)
        except TimeoutError:
            raise still_saved(self._path) from None
        return self._path

    @property
    def failed(self) -> bool:
        """True if the files could not be made."""
        return self._made.done() and self._made.exception() is not None


@dataclass(frozen=True)
class DatabaseSnapshot:
    """A database as it was, to be read for as long as one has this.

    ``states`` says of each state its kind and lifetime; ``now`` is the processing time of the cut.
    """

    linked: LinkedFiles
    groups: range
    states: Mapping[str, Mapping[str, Any]]
    now: int

    @property
    def path(self) -> str:
        """The folder."""
        return self.linked.path

    def files(self) -> dict[str, str]:
        """Return the paths of the files that make it up, by name; none if there is no state."""
        names = sorted(os.listdir(self.path))
        tables = [name for name in names if name.endswith(_TABLES)]
        rest = [name for name in names if name == "CURRENT" or name.startswith("MANIFEST-")]
        return {name: os.path.join(self.path, name) for name in [*tables, *rest]} if tables else {}


class RocksDBBackend:
    """Keeps state in RocksDB: bounded by the disk, and slower where keys are not the ones used last.

    The database is opened with the first table.
    """

    def __init__(
        self, shared: TaskDatabases, max_parallelism: int, key_groups: range, owner: str = "the state"
    ) -> None:
        self._shared = shared
        self._owner = owner
        self._groups = key_groups
        self._max_parallelism = max_parallelism
        self._group_of = owned_groups(max_parallelism, key_groups)
        self._database: Database | None = None
        self._path = ""
        self._rows: list[Rows] = []
        self._cuts = 0
        self._linked: LinkedFiles | None = None
        #: the classes that rows were written with, by table
        self.classes: dict[tuple[str, Shape], None] = {}

    @property
    def opened(self) -> bool:
        """True if the database is open: no files can be put in its place any more."""
        return self._database is not None

    def place(self) -> str:
        """Return the folder that the database is opened in, to put the files of an earlier one there before."""
        self._path = self._path or self._shared.place()
        return self._path

    @property
    def database(self) -> Database:
        """The database."""
        if self._database is None:
            self._database = Database(self.place(), self._shared.memory, space=self.space)
        return self._database

    @property
    def space(self) -> DiskSpace:
        """The space on the disk that the database is on."""
        return DiskSpace(self._shared.folder.path, self._shared.min_free_space, self._owner)

    def table(self, name: str, kind: StateKind, namespaced: bool) -> Table:
        """Return the table of a state, with its rows in the database."""
        layout = self._layout(name, namespaced, kind is StateKind.MAP)
        rows = Rows(self.database, layout, self._shared.objects, partial(self._met, f"state/{name}"))
        self._rows.append(rows)
        return MapTable(rows, self._groups) if layout.mapped else RocksTable(rows, self._groups)

    def take(self, database: Database, groups: range) -> None:
        """Take the rows of some key groups out of another database."""
        start, stop = (group.to_bytes(2, "big") for group in (groups.start, groups.stop))
        rows = database.scan(start, stop)
        if database.keys_version == KEYS_VERSION:
            self.database.take_sorted(rows)
            self.database.write(())
            return
        found = renamed(rows, self._layout, self._max_parallelism)
        while some := list(islice(found, _ROWS_AT_ONCE)):
            self.database.write([(new, value) for _, new, value in some])

    def rename(self, database: Database) -> None:
        """Put the rows of a database where they belong, if an earlier version encoded some keys in another way."""
        if database.keys_version == KEYS_VERSION:
            return
        found = renamed(database.scan(b"", _END), self._layout, self._max_parallelism)
        while some := list(islice(found, _ROWS_AT_ONCE)):
            moved = [(row, new, value) for row, new, value in some if row != new]
            database.write([(row, None) for row, _, _ in moved] + [(new, value) for _, new, value in moved])

    def cached_entries(self, size: int) -> int:
        """Return how many entries of so many bytes may be in memory besides the tables, as those of one table more."""
        self._shared.objects.join()
        return self._shared.objects.entries(size)

    def _layout(self, name: str, namespaced: bool, mapped: bool = False) -> Layout:
        return Layout(name, namespaced, mapped, self._group_of, self.database)

    def _met(self, table: str, shape: Shape) -> None:
        self.classes[table, shape] = None

    def snapshot(self, states: Mapping[str, Mapping[str, Any]], now: int) -> DatabaseSnapshot | None:
        """Return the state as it is now; ``None`` if there has never been any."""
        database = self._database
        if database is None:
            return None
        for rows in self._rows:
            rows.flush()
        if self._linked is None or database.changed or self._linked.failed:
            database.changed = False
            self._cuts += 1
            path = f"{self._path}.cut-{self._cuts}"
            self._linked = self._shared.linked_files(database, path)
        return DatabaseSnapshot(self._linked, self._groups, states, now)

    def close(self) -> None:
        """Close the database, and remove its files."""
        database, self._database, self._linked = self._database, None, None
        if database is not None:
            try:
                database.close()
            except StateError as error:  # it is thrown away, and why the task ends is worth more
                logger.warning("%s", error)
            with contextlib.suppress(OSError):
                shutil.rmtree(database.path)
