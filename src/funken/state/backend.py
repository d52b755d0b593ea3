"""Where keyed state is stored: the seam between the state handles and a backend.

A backend gives one *table* per state. A table maps a *slot*, which is the key, or ``(key, namespace)`` for namespaced
state, to what is stored there: a value or accumulator, a list of elements, or a dict of entries.

Invariant, and what a backend may rely on: **every** change ends in ``table[slot] = stored``, ``del table[slot]`` or
``table.pop(slot)``, also when the stored list or dict was changed in place just before. To know what changed since
the last snapshot, a backend needs to watch these three only. So a value that user code changes in place without
``update`` is not noticed (as in Flink on RocksDB): whether a checkpoint has it is left open.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, MutableMapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

from funken.state.descriptors import StateKind

Slot: TypeAlias = Hashable
"""A key, or ``(key, namespace)``."""

Table: TypeAlias = MutableMapping[Slot, Any]
"""What is stored of one state."""


class StateBackend(Protocol):
    """Makes the tables of one operator subtask."""

    def table(self, name: str, kind: StateKind, namespaced: bool) -> Table:
        """Return the table of a state; called once per state and kind of slot."""
        ...


@runtime_checkable
class Tracked(Protocol):
    """What a table has besides if it knows which slots changed."""

    def take_changed(self) -> Iterable[Slot]:
        """Return the slots written or removed since the last call, each once, in the order of the first change."""
        ...


@runtime_checkable
class KeptInFiles(Protocol):
    """What a backend has besides if its snapshots are files (``rocksdb/``): the tables it gives may have rows already.

    Tables of maps do not store a dict then, but give a view of one, which reads and writes entry by entry.
    """

    def cut(self, states: Mapping[str, Mapping[str, Any]], now: int) -> Any:
        """Return all tables as they are now, given the kind and lifetime of each state; ``None`` if there are none."""
        ...


def slots_of(table: Table) -> Iterable[Slot]:
    """Return the slots of a table, which may be changed meanwhile.

    A dict's slots are copied, a few ns each, since it cannot change while it is iterated over; other tables can.
    """
    return list(table) if isinstance(table, dict) else table


def whole(stored: Any) -> Any:
    """Return what is stored as an object that later changes of the table do not reach, if it is a view of a map."""
    return dict(stored.items()) if isinstance(stored, Mapping) and not isinstance(stored, dict) else stored


_set = dict.__setitem__
_delete = dict.__delitem__


class TrackedTable(dict[Slot, Any]):
    """A dict that notes which slots change; reading it costs what reading a dict costs.

    >>> table = TrackedTable()
    >>> table["a"] = 1
    >>> list(table.take_changed()), list(table.take_changed())
    (['a'], [])
    """

    __slots__ = ("_changed",)

    def __init__(self) -> None:
        super().__init__()
        # A dict, not a set: snapshots, and so the order of state restored, do not depend on the hashes of strings.
        self._changed: dict[Slot, None] = {}

    def __setitem__(self, slot: Slot, stored: Any) -> None:
        self._changed[slot] = None
        _set(self, slot, stored)

    def __delitem__(self, slot: Slot) -> None:
        _delete(self, slot)
        self._changed[slot] = None

    def pop(self, slot: Slot, *default: Any) -> Any:
        """Remove a slot and return what was stored."""
        if slot in self:
            self._changed[slot] = None
        return super().pop(slot, *default)

    def take_changed(self) -> Iterable[Slot]:
        """Return the slots changed since the last call."""
        changed, self._changed = self._changed, {}
        return changed


class HashMapBackend:
    """Keeps state as Python objects in dicts: the fastest backend, bounded by memory.

    ``tracked`` tables know what changed, for snapshots of changes; a write costs about 100 ns more.

    >>> HashMapBackend().table("count", StateKind.VALUE, namespaced=False)
    {}
    """

    __slots__ = ("_tracked",)

    def __init__(self, tracked: bool = False) -> None:
        self._tracked = tracked

    def table(self, name: str, kind: StateKind, namespaced: bool) -> Table:
        """Return an empty dict."""
        return TrackedTable() if self._tracked else {}
