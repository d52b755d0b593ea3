"""The tables of RocksDB-backed state: rows in the database, and in front of them the objects that were used last.

A row is ``group (2 bytes) | state | key | namespace | key of the map`` and a pickled value, so the rows of a key group are
neighbours, and so are the entries of one map. What was read or written last is kept as objects: reading and writing these
costs a dict access and no pickling. *Dirty* ones have changed since they were last written to the database; there are never
more than ``_MAX_DIRTY`` per table, so that a barrier does not wait long, but while the database is being saved.

Invariants: what is dirty is among the young objects; an object that is in neither generation is in the database as it was
last stored. A map is not kept as a whole: its entries are rows of their own, and ``MapView`` stands for all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, ItemsView, Iterable, Iterator, MutableMapping
from typing import Any

from funken.io.shapes import Shape, StateDumper
from funken.state.backend import Slot
from funken.state.keys.normal import PLAIN, one_nan
from funken.state.rocksdb.database import Database
from funken.state.rocksdb.keys import encode_key, successor
from funken.state.rocksdb.layout import Layout, Parts, pack_row, unpack_row

_ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "ABSENT"})()
_UNKNOWN: Any = object()
_MAX_DIRTY = 5_000
_MAX_DIRTY_MEANWHILE = 50_000
_CHUNK = 500
#: what an object takes besides its content: the entries of the dicts, its key, its parts (bytes)
_OVERHEAD = 400


class ObjectLimit:
    """How many objects the tables of a task may keep; they share its bytes equally."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._tables = 0

    def join(self) -> None:
        """Count one table more."""
        self._tables += 1

    def objects(self, size: float) -> int:
        """Return how many objects a table may keep whose pickled size is ``size`` on average.

        >>> limit = ObjectLimit(64 * 2**20)
        >>> limit.join()
        >>> limit.objects(100)
        95869
        """
        return max(16, int(self._total / max(1, self._tables) / (3 * size + _OVERHEAD)))


class Rows:
    """The rows of one state by their parts, with two generations of objects in front of them.

    What is used is young. When there are too many young ones, the old ones are discarded, and the young are the old.
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
        """How many objects a generation has at most."""
        return self._most

    @property
    def in_memory(self) -> int:
        """How many objects there are."""
        return len(self._young) + len(self._old)

    def get(self, parts: Parts) -> Any:
        """Return what is stored, maybe ``_ABSENT``."""
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
        """Write what is dirty to the database."""
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
        """Yield what there is from one place up to another, in order, as it is now; later changes are not seen."""
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
        """Return what is stored."""
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
        """Return whether there are no entries."""
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
