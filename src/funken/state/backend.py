"""The interface between the state handles and a state backend.

A backend gives one *table* per state. A table maps a *slot*, which is the key, or ``(key, namespace)`` for namespaced
state, to what is stored there: a value or accumulator, a list of elements, or a dict of entries.

Invariant, and what a backend may rely on: **every** change ends in ``table[slot] = stored``, ``del table[slot]`` or
``table.pop(slot)``, also when the stored list or dict was changed in place just before. To know what changed since
the last snapshot, a backend needs to watch these three only. User code has no object that is stored and can be changed
(``isolated`` in ``handles.py``). What is stored is **read** by ``table[slot]``, ``get``, ``items`` and ``values`` only,
again for every record: an object that was read for an earlier one may since belong to a snapshot that is not pickled yet.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

from funken import config
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration
from funken.state.descriptors import StateKind
from funken.state.rocksdb.database import LEAST_FREE, check_installed

Slot: TypeAlias = Hashable
"""A key, or ``(key, namespace)``."""

Table: TypeAlias = MutableMapping[Slot, Any]
"""The values of one state."""

BeforeWrite: TypeAlias = Callable[[Slot, Any], None]
"""Called with a slot and its value, before that may change."""

ABSENT = object()
"""Stands for the value of a slot that is not in the table."""


class StateBackend(Protocol):
    """Makes the tables of one operator subtask."""

    def table(self, name: str, kind: StateKind, namespaced: bool) -> Table:
        """Return the table of a state; called once per state and type of slot."""
        ...


@runtime_checkable
class ChangeTracking(Protocol):
    """A table that tracks which slots changed."""

    def take_changed(self) -> Iterable[Slot]:
        """Return the slots written or removed since the last call, each once, in the order of the first change."""
        ...

    def begin_snapshot(self, complete: bool, before_write: BeforeWrite) -> Iterator[tuple[Slot, Any]]:
        """Take the slots changed, or all if ``complete``, and return an iterator over them as they are now.

        Each is yielded with what is stored at that time (``ABSENT``: nothing). Slots that are about to
        be read or written before they were yielded are left out; ``before_write`` is called with them instead.
        """
        ...


@runtime_checkable
class FileSnapshotBackend(Protocol):
    """A backend whose snapshots are files (``rocksdb/``): its tables may have rows from the start.

    Tables of maps do not store a dict then, but give a view of one, which reads and writes entry by entry.
    """

    def snapshot(self, states: Mapping[str, Mapping[str, Any]], now: int) -> Any:
        """Return a snapshot of all tables, by the type and lifetime of each state; ``None`` if there are none."""
        ...

    def cached_entries(self, size: int) -> int:
        """Return how many entries of so many bytes may be in memory besides the tables, which share that memory."""
        ...


_BYTES_PER_ENTRY, _BYTES_PER_FIELD = 160, 8
"""The memory of a key or record in arrays, and of each of its fields."""
_FEW_KEYS = 64
"""Arrays have so many keys, however many records these have: to store and read all of them for each block would take long."""


def entries_in_memory(backend: Any, fields: int) -> int | None:
    """Return how many keys and records may be in arrays in front of tables; ``None``: as many as there are, as in the tables."""
    if not isinstance(backend, FileSnapshotBackend):
        return None
    return backend.cached_entries(_BYTES_PER_ENTRY + _BYTES_PER_FIELD * fields)


def is_full(most: int | None, size: int, keys: int) -> bool:
    """Return True if arrays have to be emptied: they have more than ``most`` keys and records.

    >>> is_full(1000, 1001, keys=65), is_full(1000, 1001, keys=2), is_full(None, 1001, keys=65)
    (True, False, False)
    """
    return most is not None and size > most and keys > _FEW_KEYS


def slots_of(table: Table) -> Iterable[Slot]:
    """Return the slots of a table, which may be changed meanwhile.

    A dict's slots are copied, a few ns each, since it cannot change while it is iterated over; other tables can.
    """
    return list(table) if isinstance(table, dict) else table


def may_hold(table: Table) -> bool:
    """Return True if a table may have entries: to count those in files takes long."""
    return not isinstance(table, dict) or bool(table)


def whole(stored: Any) -> Any:
    """Return the stored value as an object that later changes of the table do not reach, if it is a view of a map."""
    return dict(stored.items()) if isinstance(stored, Mapping) and not isinstance(stored, dict) else stored


_get = dict.get
_set = dict.__setitem__
_delete = dict.__delitem__


class TrackedTable(dict[Slot, Any]):
    """A dict that tracks the slots that change; reading it costs as much as reading a dict.

    >>> table = TrackedTable()
    >>> table["a"] = 1
    >>> list(table.take_changed()), list(table.take_changed())
    (['a'], [])

    During a snapshot it is a ``CopyOnWriteTable``, by a change of its class: so nothing is slower otherwise.

    >>> table["a"], table["b"] = 2, 3
    >>> held = table.begin_snapshot(False, lambda slot, stored: print(slot, "was", stored))
    >>> table["a"] = 4
    a was 2
    >>> list(held), table
    ([('b', 3)], {'a': 4, 'b': 3})
    """

    __slots__ = ("_all_changed", "_before_write", "_changed", "_snapshotted")

    def __init__(self) -> None:
        super().__init__()
        # A dict, not a set: snapshots, and so the order of state restored, do not depend on the hashes of strings.
        self._changed: dict[Slot, None] = {}
        #: whether every slot that is there is among those that changed
        self._all_changed = True
        self._snapshotted: dict[Slot, None] = {}
        self._before_write: BeforeWrite = _ignore

    def __setitem__(self, slot: Slot, stored: Any) -> None:
        self._changed[slot] = None
        _set(self, slot, stored)

    def __delitem__(self, slot: Slot) -> None:
        _delete(self, slot)
        self._changed[slot] = None

    def pop(self, slot: Slot, *default: Any) -> Any:
        """Remove a slot and return its value."""
        if slot in self:
            self._changed[slot] = None
        return super().pop(slot, *default)

    def take_changed(self) -> dict[Slot, None]:
        """Return the slots changed since the last call."""
        changed, self._changed, self._all_changed = self._changed, {}, False
        return changed

    def begin_snapshot(self, complete: bool, before_write: BeforeWrite) -> Iterator[tuple[Slot, Any]]:
        """Begin a snapshot of the slots that changed, or of all; see ``ChangeTracking``."""
        self._finish_snapshot()
        snapshot = self.take_changed() if self._all_changed or not complete else dict.fromkeys(self)
        self._changed = {}
        if not snapshot:
            return iter(())
        self._snapshotted, self._before_write = snapshot, before_write
        self.__class__ = CopyOnWriteTable
        return self._materialize()

    def _materialize(self) -> Iterator[tuple[Slot, Any]]:
        snapshot = self._snapshotted
        while snapshot:  # the last one first: to free a dict of millions at its end would take long
            slot, _ = snapshot.popitem()
            yield slot, _get(self, slot, ABSENT)
        if self._snapshotted is snapshot:
            self._before_write = _ignore
            self.__class__ = TrackedTable

    def _finish_snapshot(self) -> None:
        for slot, stored in self._materialize():
            self._before_write(slot, stored)


class CopyOnWriteTable(TrackedTable):
    """A ``TrackedTable`` during a snapshot: slots are preserved before they may change."""

    __slots__ = ()

    def _preserve(self, slot: Slot) -> None:
        if slot in self._snapshotted:
            del self._snapshotted[slot]
            self._before_write(slot, _get(self, slot, ABSENT))

    def get(self, slot: Slot, default: Any = None) -> Any:
        """Return the value of a slot."""
        self._preserve(slot)
        return _get(self, slot, default)

    def __getitem__(self, slot: Slot) -> Any:
        self._preserve(slot)
        return super().__getitem__(slot)

    def __setitem__(self, slot: Slot, stored: Any) -> None:
        self._preserve(slot)
        super().__setitem__(slot, stored)

    def __delitem__(self, slot: Slot) -> None:
        self._preserve(slot)
        super().__delitem__(slot)

    def pop(self, slot: Slot, *default: Any) -> Any:
        """Remove a slot and return its value."""
        self._preserve(slot)
        return super().pop(slot, *default)

    def items(self) -> Any:
        """Return everything; finishes the snapshot first."""
        self._finish_snapshot()
        return dict.items(self)  # not of super(): this is no CopyOnWriteTable any more

    def values(self) -> Any:
        """Return everything; finishes the snapshot first."""
        self._finish_snapshot()
        return dict.values(self)


def _ignore(slot: Slot, stored: Any) -> None:
    """No snapshot is under way."""


class HashMapBackend:
    """Keeps state as Python objects in dicts: the fastest backend, bounded by memory.

    ``tracked`` tables track changes, for incremental snapshots; a write costs about 100 ns more.

    >>> HashMapBackend().table("count", StateKind.VALUE, namespaced=False)
    {}
    """

    __slots__ = ("_tracked",)

    def __init__(self, tracked: bool = False) -> None:
        self._tracked = tracked

    def table(self, name: str, kind: StateKind, namespaced: bool) -> Table:
        """Return an empty dict."""
        return TrackedTable() if self._tracked else {}


# ---- State settings: which backend, where, and with how much memory.


_LEAST_MEMORY = 8 * 2**20


@dataclass(frozen=True, slots=True)
class StateSettings:
    """Plain data; sizes are in bytes. ``process_memory`` 0: as much as the machine has."""

    backend: str = "hashmap"
    directories: tuple[str, ...] = ()
    memory: int = 256 * 2**20
    write_buffer_ratio: float = 0.5
    process_memory: int = 0
    min_free_space: int = LEAST_FREE

    @staticmethod
    def of(configuration: Configuration, batch: bool = False) -> StateSettings:
        """Read the options; a job in ``BATCH`` mode always keeps its state in memory.

        >>> StateSettings.of(Configuration({"taskmanager.memory.process.size": "2g"})).process_memory
        2147483648
        """
        get = configuration.get
        backend = StateSettings.backend_of(configuration, batch)
        memory, ratio = get(config.ROCKSDB_MEMORY), get(config.ROCKSDB_WRITE_BUFFERS)
        if backend == "rocksdb":
            check_installed()
            if memory < _LEAST_MEMORY:
                raise InvalidConfiguration(
                    f"option {config.ROCKSDB_MEMORY.key!r} is {memory} bytes; RocksDB needs 8 mb or more to work with."
                )
        named = get(config.ROCKSDB_DIRECTORY) or get(config.TEMPORARY_DIRECTORIES)
        directories = tuple(place.strip().removeprefix("file://") for place in named.split(",") if place.strip())
        return StateSettings(
            backend, directories, memory, ratio, get(config.PROCESS_MEMORY), get(config.ROCKSDB_MIN_FREE)
        )

    @staticmethod
    def backend_of(configuration: Configuration, batch: bool) -> str:
        """Return the name of the backend."""
        return "hashmap" if batch else configuration.get(config.STATE_BACKEND)

    @property
    def in_files(self) -> bool:
        """True if state is in files, and memory only has a part of it."""
        return self.backend == "rocksdb"

    def directory(self, number: int) -> str:
        """Return the folder for the files of a task."""
        return self.directories[number % len(self.directories)] if self.directories else tempfile.gettempdir()
