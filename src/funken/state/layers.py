"""Tables that an operator keeps in dicts of its own, for its hot loop, and that take part in snapshots as keyed state does.

Whoever wants to write only what changed has to know what changed, and a loop of 150 ns per record has no time to note it.
So there are two dicts: ``new`` has what was written since the last snapshot, ``old`` the rest. A loop looks into ``new``, only
if a key is not there into ``old``, and always writes to ``new``. That costs a lookup for the first record of a key after a
snapshot, and nothing for the others; a snapshot is of ``new``, which it then puts behind.

It does so little by little: until then what was ``new`` is a ``HeldLayer`` with ``old``, and in its place (``state/saving.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple, Protocol

Row = tuple[Any, Any, Any]
"""A key, a namespace or ``None``, and what is saved."""


Entries = Iterator[tuple[Any, Any]]
Touched = Callable[[Any, Any], None]
"""What is called with a key and its entry before that may change."""


class Held(NamedTuple):
    """What is left to save of a table: rows as they were, and slots that are gone as far as ``rows`` does not have them."""

    rows: Iterator[Row]
    gone: Iterator[tuple[Any, Any]]


class OwnTable(Protocol):
    """What ``KeyedStateStore.adopt`` takes: a table of an operator's own, as rows of keyed state."""

    def held(self, complete: bool, touched: Callable[[Row], None]) -> Held:
        """Hold everything, or what changed since the last call, or since it was loaded.

        Entries that are to be read or written before ``rows`` has come to them are given to ``touched`` first.
        """
        ...

    def load(self, rows: Iterable[Row]) -> None:
        """Add rows of a snapshot; they are no changes."""
        ...

    def __len__(self) -> int:
        """Return about how many entries there are."""
        ...


class HeldLayer:
    """What was new when a snapshot began, in front of what was old, both in the place of ``old``.

    An entry is looked up at most once between two snapshots: then it is ``new``. So it need not be noted which are
    saved already; one that is looked up after that is saved once more, as it still is.
    """

    __slots__ = ("_below", "_front", "_removed", "_seen", "_touched")

    def __init__(self, front: dict[Any, Any], below: dict[Any, Any], touched: Touched) -> None:
        self._front = front
        self._below = below
        self._touched = touched
        self._seen: set[Any] = set()
        self._removed: set[Any] = set()

    def __contains__(self, key: Any) -> bool:
        return (key in self._front or key in self._below) and key not in self._removed

    def __getitem__(self, key: Any) -> Any:
        if key not in self:
            raise KeyError(key)
        return self.get(key)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return an entry, which may change then."""
        if key in self._removed:
            return default
        if key not in self._front:
            return self._below.get(key, default)
        stored = self._front[key]
        if key not in self._seen:
            self._seen.add(key)
            self._touched(key, stored)
        return stored

    def __delitem__(self, key: Any) -> None:
        self[key]
        self._removed.add(key)

    def __len__(self) -> int:
        return len(self._front) + len(self._below)

    def give_out(self) -> Entries:
        """Yield the entries that nobody has looked up, and put them behind."""
        below, seen = self._below, self._seen
        behind = bool(below)  # else the one in front can be what is old as it is
        for key, stored in self._front.items():
            if behind:
                below[key] = stored
            if key not in seen:
                yield key, stored

    def merged(self) -> dict[Any, Any]:
        """Return both in one; all is given out."""
        merged = self._below or self._front
        for key in self._removed:
            merged.pop(key, None)
        return merged


class Layers:
    """Entries by key; ``old`` may have an older version of what is in ``new``, or the same object.

    >>> layers = Layers()
    >>> layers.new["a"] = 1
    >>> list(layers.hold(print)), list(layers.hold(print)), layers.whole()
    ([('a', 1)], [], {'a': 1})
    """

    __slots__ = ("_rest", "new", "old")

    def __init__(self) -> None:
        self.new: dict[Any, Any] = {}
        self.old: dict[Any, Any] | HeldLayer = {}
        #: what is left to give out of what is held, and who is told if it is looked up
        self._rest: tuple[Entries, Touched] | None = None

    def whole(self) -> dict[Any, Any]:
        """Return all entries, in the order in which their keys came; only for reading. Nothing is held any more then."""
        old = self.let_go()
        if old and self.new:
            return {**old, **self.new}
        return old or self.new

    def hold(self, touched: Touched, complete: bool = False) -> Entries:
        """Hold what is new, or all; return what gives it out and puts it behind. See ``OwnTable``."""
        old = self.let_go()
        front = self.whole() if complete else self.new
        self.new = {}
        if not front:
            return iter(())
        held = self.old = HeldLayer(front, {} if complete else old, touched)
        rest = self._give_out(held)
        self._rest = rest, touched
        return rest

    def _give_out(self, held: HeldLayer) -> Entries:
        yield from held.give_out()
        self.old, self._rest = held.merged(), None

    def let_go(self) -> dict[Any, Any]:
        """Hold nothing any more: give all that is left to who is told of what is touched. Return what is old."""
        if self._rest is not None:
            rest, touched = self._rest
            for key, stored in rest:
                touched(key, stored)
        assert isinstance(self.old, dict)
        return self.old

    def __len__(self) -> int:
        return len(self.new) + len(self.old)


def _same(stored: Any) -> Any:
    return stored


class LayeredTable(Layers):
    """An ``OwnTable`` of one entry per key; ``save`` and ``revive`` turn entries into what is saved, and back.

    >>> table = LayeredTable()
    >>> table.load([("a", None, 1), ("b", None, 2)])
    >>> table.new["a"] = 3
    >>> table.remove("b")
    >>> rows, gone = table.held(False, print)
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

    def held(self, complete: bool, touched: Callable[[Row], None]) -> Held:
        """Hold everything, or what was written or removed since the last time."""
        save = self._save
        entries = self.hold(lambda key, entry: touched((key, None, save(entry))), complete)
        gone, self._gone = self._gone, []
        return Held(
            ((key, None, save(entry)) for key, entry in entries),
            iter(()) if complete else ((key, None) for key in gone),
        )

    def load(self, rows: Iterable[Row]) -> None:
        """Add saved entries."""
        old = self.let_go()
        for key, _, saved in rows:
            old[key] = self._revive(key, saved)


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
        old = pane.let_go()
        if old:  # the others are in no snapshot
            self._gone.append((namespace, tuple(old)))
        return pane.whole()

    def held(self, complete: bool, touched: Callable[[Row], None]) -> Held:
        """Hold everything, or what was written or removed since the last time."""
        return self._held(complete, [hold_pane(at, pane, complete, touched) for at, pane in self._panes.items()])

    def _held(self, complete: bool, rows: list[Iterator[Row]]) -> Held:
        gone, self._gone = self._gone, []
        slots = ((key, namespace) for namespace, keys in gone for key in keys)
        return Held(chain.from_iterable(rows), iter(()) if complete else slots)

    def load(self, rows: Iterable[Row]) -> None:
        """Add saved entries."""
        for key, namespace, stored in rows:
            self._panes.setdefault(namespace, Layers()).let_go()[key] = stored

    def __len__(self) -> int:
        return sum(map(len, self._panes.values()))


def hold_pane(namespace: int, pane: Layers, complete: bool, touched: Callable[[Row], None]) -> Iterator[Row]:
    """Hold a pane, as rows."""
    entries = pane.hold(lambda key, stored: touched((key, namespace, stored)), complete)
    return ((key, namespace, stored) for key, stored in entries)
