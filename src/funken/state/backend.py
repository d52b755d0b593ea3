"""Where keyed state is stored: the seam between the state handles and a backend.

A backend gives one *table* per state. A table maps a *slot*, which is the key, or ``(key, namespace)`` for namespaced
state, to what is stored there: a value or accumulator, a list of elements, or a dict of entries.

Invariant, and what a backend may rely on: **every** change ends in ``table[slot] = stored``, ``del table[slot]`` or
``table.pop(slot)``, also when the stored list or dict was changed in place just before. To know what changed since
the last snapshot, a backend needs to watch these three only. User code has no object that is stored and can be changed
(``isolation.py``). What is stored is **read** by ``table[slot]``, ``get``, ``items`` and ``values`` only, again for every
record: an object that was read for an earlier one may since belong to a snapshot that is not pickled yet.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

from funken.state.descriptors import StateKind

Slot: TypeAlias = Hashable
"""A key, or ``(key, namespace)``."""

Table: TypeAlias = MutableMapping[Slot, Any]
"""What is stored of one state."""

Touched: TypeAlias = Callable[[Slot, Any], None]
"""What is called with a slot and what is stored there, before that may change."""

NOTHING = object()
"""What is stored in a slot that is not in the table."""


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

    def hold(self, complete: bool, touched: Touched) -> Iterator[tuple[Slot, Any]]:
        """Take the slots changed, or all if ``complete``, and return what gives them out as they are now.

        That is at the same time with what is stored (``NOTHING``: nothing), whenever it is asked for. Those that are to
        be read or written before it has given them out it leaves out; ``touched`` is called with them then.
        """
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


_get = dict.get
_set = dict.__setitem__
_delete = dict.__delitem__


class TrackedTable(dict[Slot, Any]):
    """A dict that notes which slots change; reading it costs what reading a dict costs.

    >>> table = TrackedTable()
    >>> table["a"] = 1
    >>> list(table.take_changed()), list(table.take_changed())
    (['a'], [])

    While slots are held it is a ``HeldTable``, by a change of its class: so nothing is slower when none are.

    >>> table["a"], table["b"] = 2, 3
    >>> held = table.hold(False, lambda slot, stored: print(slot, "was", stored))
    >>> table["a"] = 4
    a was 2
    >>> list(held), table
    ([('b', 3)], {'a': 4, 'b': 3})
    """

    __slots__ = ("_all_changed", "_changed", "_held", "_touched")

    def __init__(self) -> None:
        super().__init__()
        # A dict, not a set: snapshots, and so the order of state restored, do not depend on the hashes of strings.
        self._changed: dict[Slot, None] = {}
        #: whether every slot that is there is among those that changed
        self._all_changed = True
        self._held: dict[Slot, None] = {}
        self._touched: Touched = _ignore

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

    def take_changed(self) -> dict[Slot, None]:
        """Return the slots changed since the last call."""
        changed, self._changed, self._all_changed = self._changed, {}, False
        return changed

    def hold(self, complete: bool, touched: Touched) -> Iterator[tuple[Slot, Any]]:
        """Hold the slots that changed, or all; see ``Tracked``."""
        self._let_go()
        held = self.take_changed() if self._all_changed or not complete else dict.fromkeys(self)
        self._changed = {}
        if not held:
            return iter(())
        self._held, self._touched = held, touched
        self.__class__ = HeldTable
        return self._give_out()

    def _give_out(self) -> Iterator[tuple[Slot, Any]]:
        held = self._held
        while held:  # the last one first: to free a dict of millions at its end would take long
            slot, _ = held.popitem()
            yield slot, _get(self, slot, NOTHING)
        if self._held is held:
            self._touched = _ignore
            self.__class__ = TrackedTable

    def _let_go(self) -> None:
        for slot, stored in self._give_out():
            self._touched(slot, stored)


class HeldTable(TrackedTable):
    """A ``TrackedTable`` some slots of which belong to a snapshot as they are."""

    __slots__ = ()

    def _touch(self, slot: Slot) -> None:
        if slot in self._held:
            del self._held[slot]
            self._touched(slot, _get(self, slot, NOTHING))

    def get(self, slot: Slot, default: Any = None) -> Any:
        """Return what is stored in a slot."""
        self._touch(slot)
        return _get(self, slot, default)

    def __getitem__(self, slot: Slot) -> Any:
        self._touch(slot)
        return super().__getitem__(slot)

    def __setitem__(self, slot: Slot, stored: Any) -> None:
        self._touch(slot)
        super().__setitem__(slot, stored)

    def __delitem__(self, slot: Slot) -> None:
        self._touch(slot)
        super().__delitem__(slot)

    def pop(self, slot: Slot, *default: Any) -> Any:
        """Remove a slot and return what was stored."""
        self._touch(slot)
        return super().pop(slot, *default)

    def items(self) -> Any:
        """Return everything; nothing is held any more then."""
        self._let_go()
        return dict.items(self)  # not of super(): this is no HeldTable any more

    def values(self) -> Any:
        """Return everything; nothing is held any more then."""
        self._let_go()
        return dict.values(self)


def _ignore(slot: Slot, stored: Any) -> None:
    """Nothing is held."""


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
