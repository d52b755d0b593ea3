"""Map state: a dict per key, and iterators that notice changes made behind their back.

Invariant: an iterator raises on the first step after any change of the map that it did not make itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from funken.state.backend import Slot, Table
from funken.state.descriptors import StateDescriptor, StateKind
from funken.state.handles import State


class MapIterator(Iterator[Any]):
    """Iterates over pairs of a key and a result; ``remove()`` drops the entry whose result was returned last."""

    __slots__ = ("_changes", "_last", "_pairs", "_state")

    def __init__(self, state: MapState, pairs: Iterable[tuple[Any, Any]]) -> None:
        self._state = state
        self._pairs = iter(pairs)
        self._changes = state.changes
        self._last: list[Any] = []

    def __next__(self) -> Any:
        self._check()
        key, result = next(self._pairs)
        self._last = [key]
        return result

    def remove(self) -> None:
        """Remove the entry returned last; the iteration may go on."""
        self._check()
        if not self._last:
            raise RuntimeError("remove() needs a next() before it, once each.")
        self._state.remove(self._last.pop())
        self._changes = self._state.changes

    def _check(self) -> None:
        if self._changes != self._state.changes:
            raise RuntimeError(
                f"Concurrent modification detected: map state {self._state.descriptor.name!r} was changed while it was "
                "iterated over. Use the iterator's remove(), or iterate over list(state.items())."
            )


class MapState(State):
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

    __slots__ = ("changes",)

    kind = StateKind.MAP

    def __init__(self, descriptor: StateDescriptor, table: Table, slot: Callable[[], Slot]) -> None:
        super().__init__(descriptor, table, slot)
        self.changes = 0

    def get(self, key: Any) -> Any:
        """Return the value of a key of the map, or ``None``."""
        stored = self.table.get(self.slot())
        return None if stored is None else stored.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key of the map."""
        table, slot = self.table, self.slot()
        stored = table.get(slot)
        if stored is None:
            stored = {key: value}
        else:
            stored[key] = value
        table[slot] = stored
        self.changes += 1

    def put_all(self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Set several entries, given as a mapping or as pairs."""
        for key, value in entries.items() if isinstance(entries, Mapping) else entries:
            self.put(key, value)

    def remove(self, key: Any) -> None:
        """Remove a key of the map, if it is there."""
        table, slot = self.table, self.slot()
        stored = table.get(slot)
        if stored is None or key not in stored:
            return
        del stored[key]
        if stored:
            table[slot] = stored
        else:
            del table[slot]
        self.changes += 1

    def contains(self, key: Any) -> bool:
        """Tell whether the map has a key."""
        return key in self.table.get(self.slot(), ())

    def is_empty(self) -> bool:
        """Tell whether the map has no entries."""
        return next(self.keys(), self) is self

    def clear(self) -> None:
        """Remove all entries of the map."""
        super().clear()
        self.changes += 1

    def keys(self) -> MapIterator:
        """Iterate over the keys."""
        return self._iterate(lambda key, value: key)

    def values(self) -> MapIterator:
        """Iterate over the values."""
        return self._iterate(lambda key, value: value)

    def items(self) -> MapIterator:
        """Iterate over pairs of key and value."""
        return self._iterate(lambda key, value: (key, value))

    def _iterate(self, pick: Callable[[Any, Any], Any]) -> MapIterator:
        stored = self._live()
        entries = list(stored.items()) if isinstance(stored, dict) else stored.items()
        return MapIterator(self, ((key, pick(key, value)) for key, value in entries))

    def _live(self) -> Mapping[Any, Any]:
        stored: Mapping[Any, Any] = self.table.get(self.slot(), {})
        return stored

    def __getitem__(self, key: Any) -> Any:
        return self.get(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        self.remove(key)

    def __contains__(self, key: Any) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[Any]:
        return self.keys()
