"""RocksDB as a state backend: the tables of one operator subtask in a database of their own.

The databases of a task share their memory (``TaskDatabases``), and a folder that goes with the task. For a snapshot the task
only gives what is dirty to the database; then a thread makes a folder of hard links, and until that is done what the task
changes stays among its objects. A ``DatabaseSnapshot`` can be read as long as it is referenced.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import weakref
from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any

from funken.dataclass import dataclass
from funken.errors import StateError
from funken.io.shapes import Shape
from funken.state.backend import Table
from funken.state.descriptors import StateKind
from funken.state.keygroups import owned_groups
from funken.state.rocksdb.database import KEYS_VERSION, Budget, Database, SharedMemory
from funken.state.rocksdb.folders import WorkFolder
from funken.state.rocksdb.layout import Layout, renamed
from funken.state.rocksdb.space import LEAST_FREE, DiskSpace
from funken.state.rocksdb.tables import MapTable, ObjectLimit, RocksTable, Rows

logger = logging.getLogger(__name__)

_TABLES = ".sst"
_CHUNK = 1000
_END = b"\xff\xff"


class TaskDatabases:
    """What the databases of one task share: memory, and a folder; both are made when the first one is opened."""

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
        """The folder they are in; waits until they are. Raises ``StateError`` if they cannot be."""
        self._made.result()
        return self._path

    @property
    def failed(self) -> bool:
        """Whether they could not be made."""
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
        """Whether the database is open: no files can be put in its place any more."""
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
        """Return the table of a state, with what the database has of it."""
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
        while some := list(islice(found, _CHUNK)):
            self.database.write([(new, value) for _, new, value in some])

    def rename(self, database: Database) -> None:
        """Put the rows of a database where they belong, if an earlier version encoded some keys in another way."""
        if database.keys_version == KEYS_VERSION:
            return
        found = renamed(database.scan(b"", _END), self._layout, self._max_parallelism)
        while some := list(islice(found, _CHUNK)):
            moved = [(row, new, value) for row, new, value in some if row != new]
            database.write([(row, None) for row, _, _ in moved] + [(new, value) for _, new, value in moved])

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
