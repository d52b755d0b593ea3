"""Tables that an operator keeps in dicts of its own, for its hot loop, and that take part in snapshots as keyed state does.

Whoever wants to write only what changed has to know what changed, and a loop of 150 ns per record has no time to note it.
So there are two dicts: ``new`` has what was written since the last snapshot, ``old`` the rest. A loop looks into ``new``, only
if a key is not there into ``old``, and always writes to ``new``. That costs a lookup for the first record of a key after a
snapshot, and nothing for the others; a snapshot is of ``new``, which it then puts behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

Row = tuple[Any, Any, Any]
"""A key, a namespace or ``None``, and what is saved."""


class Changes(NamedTuple):
    """What became of a table since the last time: slots that are gone, as far as ``rows`` does not say otherwise."""

    rows: Iterable[Row]
    gone: Iterable[tuple[Any, Any]]


class OwnTable(Protocol):
    """What ``KeyedStateStore.adopt`` takes: a table of an operator's own, as rows of keyed state."""

    def rows(self) -> Iterable[Row]:
        """Return everything."""
        ...

    def take_changes(self) -> Changes:
        """Return what changed since the last call, or since it was loaded; to be read before the next record."""
        ...

    def load(self, rows: Iterable[Row]) -> None:
        """Add rows of a snapshot; they are no changes."""
        ...


class Layers:
    """Entries by key; ``old`` may have an older version of what is in ``new``, or the same object.

    >>> layers = Layers()
    >>> layers.new["a"] = 1
    >>> layers.take(), layers.take(), layers.whole()
    ({'a': 1}, {}, {'a': 1})
    """

    __slots__ = ("new", "old")

    def __init__(self) -> None:
        self.new: dict[Any, Any] = {}
        self.old: dict[Any, Any] = {}

    def whole(self) -> dict[Any, Any]:
        """Return all entries, in the order in which their keys came; only for reading."""
        if self.old and self.new:
            return {**self.old, **self.new}
        return self.old or self.new

    def take(self) -> dict[Any, Any]:
        """Return what is new, only for reading; from now on it is old."""
        new, self.new = self.new, {}
        if self.old:
            self.old.update(new)
        else:
            self.old = new
        return new


def _same(stored: Any) -> Any:
    return stored


class LayeredTable(Layers):
    """An ``OwnTable`` of one entry per key; ``save`` and ``revive`` turn entries into what is saved, and back.

    >>> table = LayeredTable()
    >>> table.load([("a", None, 1), ("b", None, 2)])
    >>> table.new["a"] = 3
    >>> table.remove("b")
    >>> rows, gone = table.take_changes()
    >>> list(rows), list(gone)
    ([('a', None, 3)], [('b', None)])
    """

    __slots__ = ("_gone", "_revive", "_save")

    def __init__(
        self, save: Callable[[Any], Any] = _same, revive: Callable[[Any, Any], Any] = lambda key, saved: saved
    ) -> None:
        super().__init__()
        self._save = save
        self._revive = revive
        self._gone: list[Any] = []

    def get(self, key: Any) -> Any:
        """Return an entry, ``None`` if there is none."""
        return self.new[key] if key in self.new else self.old.get(key)

    def remove(self, key: Any) -> None:
        """Remove an entry, if there is one."""
        self.new.pop(key, None)
        if key in self.old:
            del self.old[key]
            self._gone.append(key)

    def rows(self) -> Iterator[Row]:
        """Yield everything."""
        save = self._save
        return ((key, None, save(entry)) for key, entry in self.whole().items())

    def take_changes(self) -> Changes:
        """Return what was written or removed since the last call."""
        save, new = self._save, self.take()
        gone, self._gone = self._gone, []
        return Changes(((key, None, save(entry)) for key, entry in new.items()), ((key, None) for key in gone))

    def load(self, rows: Iterable[Row]) -> None:
        """Add saved entries."""
        for key, _, saved in rows:
            self.old[key] = self._revive(key, saved)


class PaneTable:
    """An ``OwnTable`` of one ``Layers`` per namespace: the windows of an operator, say; ``panes`` is the operator's own dict."""

    __slots__ = ("_gone", "_panes")

    def __init__(self, panes: dict[int, Layers]) -> None:
        self._panes = panes
        self._gone: list[tuple[int, tuple[Any, ...]]] = []

    def pop(self, namespace: int) -> dict[Any, Any]:
        """Remove all entries of a namespace, and return them."""
        pane = self._panes.pop(namespace, None)
        if pane is None:
            return {}
        if pane.old:  # the others are in no snapshot
            self._gone.append((namespace, tuple(pane.old)))
        return pane.whole()

    def rows(self) -> Iterator[Row]:
        """Yield everything."""
        return (
            (key, namespace, stored)
            for namespace, pane in self._panes.items()
            for key, stored in pane.whole().items()
        )  # fmt: skip

    def take_changes(self) -> Changes:
        """Return what was written or removed since the last call."""
        gone, self._gone = self._gone, []
        new = [(namespace, pane.take()) for namespace, pane in self._panes.items()]
        return Changes(
            ((key, namespace, stored) for namespace, entries in new for key, stored in entries.items()),
            ((key, namespace) for namespace, keys in gone for key in keys),
        )

    def load(self, rows: Iterable[Row]) -> None:
        """Add saved entries."""
        for key, namespace, stored in rows:
            self._panes.setdefault(namespace, Layers()).old[key] = stored
