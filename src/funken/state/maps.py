"""Map state: a dict per key, and iterators that live with changes of the map.

An iterator goes over the entries that were there when it began, each with the value that it has when its turn comes. Meanwhile
entries may be updated, and those that have come may be removed. It raises ``RuntimeError`` on the first step after a key came
or the map was cleared, and where an entry was removed before its turn.

A dict is iterated over as it is, without a copy. Before it loses a key, the iterators that are under way copy what is left.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from funken.state.backend import Slot, Table
from funken.state.descriptors import StateDescriptor, StateKind
from funken.state.handles import State
from funken.state.keys.normal import PLAIN, one_nan
from funken.types.callables import Generic, K, R, T, V


class MapIterator(Iterator[T], Generic[T]):
    """Iterates over the entries of one slot; ``remove()`` drops the entry whose result was returned last."""

    __slots__ = ("__weakref__", "_broken", "_changed", "_last", "_pairs", "_pick", "_state", "copies", "slot")

    def __init__(
        self,
        state: MapState[Any, Any],
        slot: Slot,
        pairs: Iterable[tuple[Any, Any]],
        copies: bool,
        pick: Callable[[Any, Any], T],
    ) -> None:
        self._state = state
        self.slot = slot
        self._pairs = iter(pairs)
        #: whether ``pairs`` are those of a dict that must not lose keys meanwhile
        self.copies = copies
        self._pick = pick
        self._changed = False
        self._broken = False
        self._last: list[Any] = []

    def __next__(self) -> T:
        if self._broken:
            raise self._error()
        key, value = next(self._pairs)
        if self._changed:
            try:
                value = self._state.current(self.slot, key)
            except KeyError:
                self._broken = True
                raise self._error() from None
        self._last = [key]
        return self._pick(key, value)

    def remove(self) -> None:
        """Remove the entry returned last; the iteration may go on."""
        if self._broken:
            raise self._error()
        if not self._last:
            raise RuntimeError("remove() needs a next() before it, once each.")
        self._state.remove(self._last.pop())

    def changing(self, key_added: bool, key_removed: bool) -> None:
        """Take notice of a change that is about to happen."""
        self._changed = True
        self._broken |= key_added
        if key_removed and self.copies and not self._broken:
            self._pairs, self.copies = iter(list(self._pairs)), False

    def _error(self) -> RuntimeError:
        return RuntimeError(
            f"Concurrent modification detected: map state {self._state.descriptor.name!r} was changed while it was iterated "
            "over: a key was added, or one removed whose turn had not come. Update entries and remove those that have come, or "
            "iterate over list(state.items())."
        )


class MapState(State, Generic[K, V]):
    """A map of the current key, with the methods of Flink and those of a dict.

    Reading a key that is not there gives ``None``, also with ``state[key]``; removing it does nothing.

    >>> from funken import MapStateDescriptor
    >>> from funken.testing import WindowContext  # has the context of a key
    >>> counts = WindowContext().get_runtime_context().get_map_state(MapStateDescriptor("counts"))
    >>> counts.put("to", 1)
    >>> counts.put_all({"be": 2, "or": 3})
    >>> counts.get("be"), counts["not"], counts.contains("or"), "or" in counts
    (2, None, True, True)
    >>> counts.remove("or")
    >>> list(counts.items()), list(counts.keys()), sum(counts.values())
    ([('to', 1), ('be', 2)], ['to', 'be'], 3)
    >>> counts.clear()
    >>> counts.is_empty()
    True
    """

    __slots__ = ("_iterators",)

    kind = StateKind.MAP

    def __init__(self, descriptor: StateDescriptor, table: Table, slot: Callable[[], Slot]) -> None:
        super().__init__(descriptor, table, slot)
        #: those under way; empty unless somebody iterates, and then a put costs a look at it
        self._iterators: list[weakref.ref[MapIterator[Any]]] = []

    def get(self, key: K) -> V | None:
        """Return the value of a key of the map, or ``None``."""
        stored = self.table.get(self.slot())
        if stored is None:
            return None
        try:
            value: V | None = stored.get(key)
        except TypeError:  # as NumPy's ints and decimals cannot be compared
            value = None
        if value is None and type(key) not in PLAIN:
            value = stored.get(one_nan(key))
        return value

    def put(self, key: K, value: V) -> None:
        """Set the value of a key of the map."""
        if type(value) not in self.plain:
            value = self._kept(value)
        table, slot = self.table, self.slot()
        stored = table.get(slot)
        if type(key) not in PLAIN:  # a key that is found is normal
            try:
                if stored is None or key not in stored:
                    key = one_nan(key)
            except TypeError:
                key = one_nan(key)
        if self._iterators:
            self._tell(slot, key_added=stored is None or key not in stored)
        if stored is None:
            stored = {key: value}
        else:
            stored[key] = value
        table[slot] = stored

    def put_all(self, dict_value: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Set several entries, given as a mapping or as pairs."""
        for key, value in dict_value.items() if isinstance(dict_value, Mapping) else dict_value:
            self.put(key, value)

    def remove(self, key: K) -> None:
        """Remove a key of the map, if it is there."""
        if type(key) not in PLAIN:
            key = one_nan(key)
        table, slot = self.table, self.slot()
        stored = table.get(slot)
        if stored is None or key not in stored:
            return
        if self._iterators:
            self._tell(slot, key_removed=True)
        del stored[key]
        if stored:
            table[slot] = stored
        else:
            del table[slot]

    def contains(self, key: object) -> bool:
        """Return True if the map has a key."""
        return (key if type(key) in PLAIN else one_nan(key)) in self.table.get(self.slot(), ())

    def is_empty(self) -> bool:
        """Return True if the map has no entries."""
        return next(iter(self._live()), self) is self

    def clear(self) -> None:
        """Remove all entries of the map."""
        if self._iterators:
            self._tell(self.slot(), key_added=True)
        super().clear()

    def keys(self) -> MapIterator[K]:
        """Iterate over the keys."""
        return self._iterate(lambda key, value: key)

    def values(self) -> MapIterator[V]:
        """Iterate over the values."""
        return self._iterate(lambda key, value: value)

    def items(self) -> MapIterator[tuple[K, V]]:
        """Iterate over pairs of key and value."""
        return self._iterate(lambda key, value: (key, value))

    def _iterate(self, pick: Callable[[K, V], R]) -> MapIterator[R]:
        stored = self._live()
        iterator = MapIterator(self, self.slot(), stored.items(), type(stored) is dict, pick)
        self._iterators = [ref for ref in self._iterators if ref() is not None]
        self._iterators.append(weakref.ref(iterator))
        return iterator

    def _tell(self, slot: Slot, key_added: bool = False, key_removed: bool = False) -> None:
        """Tell the iterators over a slot, if there still are any, of its next change."""
        same = {slot}  # keys whose hashes differ are not compared, which some cannot be
        for ref in self._iterators:
            iterator = ref()
            if iterator is None:
                self._iterators = [ref for ref in self._iterators if ref() is not None]
            elif iterator.slot in same:
                iterator.changing(key_added, key_removed)

    def current(self, slot: Slot, key: K) -> V:
        """Return the value that a key has now in a slot; raises ``KeyError`` if it has none."""
        stored = self.table.get(slot)
        if stored is None:
            raise KeyError(key)
        value: V = stored[key]
        return value

    def _live(self) -> Mapping[K, V]:
        stored: Mapping[K, V] = self.table.get(self.slot(), {})
        return stored

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: object) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return self.keys()
