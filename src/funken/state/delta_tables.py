"""Delta tables: an operator's own dicts, for its hot loop, that are snapshotted as keyed state.

An incremental snapshot has to know what changed, and a loop of 150 ns per record has no time to track it.
So there are two dicts: ``delta`` has what was written since the last snapshot, ``base`` the rest. A loop reads ``delta``, only
if a key is not there ``base``, and always writes to ``delta``. That costs a lookup for the first record of a key after a
snapshot, and nothing for the others; a snapshot is of ``delta``, which is then merged into ``base``.

That happens in steps: until then, the former delta and the base form a ``CopyOnWriteLayer`` in place of ``base``
(``SnapshotWriter``).
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import field
from itertools import chain
from typing import Any, NamedTuple, Protocol

from funken.dataclass import dataclass
from funken.io.shapes import load_state
from funken.state.keygroups import with_one_nan

StateRow = tuple[Any, Any, Any]
"""A key, a namespace or ``None``, and the stored value."""


Entries = Iterator[tuple[Any, Any]]
BeforeEntryWrite = Callable[[Any, Any], None]
"""Called with a key and its entry before that may change."""


class TableSnapshot(NamedTuple):
    """The snapshot of a table: rows as they were, and removed slots as far as ``rows`` does not have them."""

    rows: Iterator[StateRow]
    gone: Iterator[tuple[Any, Any]]


class OperatorTable(Protocol):
    """A table of an operator's own, as rows of keyed state; see ``KeyedStateStore.register``."""

    def begin_snapshot(self, complete: bool, before_write: Callable[[StateRow], None]) -> TableSnapshot:
        """Begin a snapshot of everything, or of the changes since the last call, or since the load.

        Entries that are about to be read or written before ``rows`` has yielded them are passed to ``before_write`` first.
        """
        ...

    def load(self, rows: Iterable[StateRow]) -> None:
        """Add rows of a snapshot; they are no changes."""
        ...

    def __len__(self) -> int:
        """Return the approximate number of entries."""
        ...


class CopyOnWriteLayer:
    """The delta when a snapshot began, in front of the base, both in place of ``base``.

    An entry is looked up at most once between two snapshots: then it is in ``delta``. So it need not be tracked which are
    written already; one that is looked up after that is written once more, unchanged.
    """

    __slots__ = ("_before_write", "_below", "_front", "_removed", "_seen")

    def __init__(self, front: dict[Any, Any], below: dict[Any, Any], before_write: BeforeEntryWrite) -> None:
        self._front = front
        self._below = below
        self._before_write = before_write
        self._seen: set[Any] = set()
        self._removed: set[Any] = set()

    def __contains__(self, key: Any) -> bool:
        return (key in self._front or key in self._below) and key not in self._removed

    def __getitem__(self, key: Any) -> Any:
        if key not in self:
            raise KeyError(key)
        return self.get(key)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return an entry, which may be changed."""
        if key in self._removed:
            return default
        if key not in self._front:
            return self._below.get(key, default)
        stored = self._front[key]
        if key not in self._seen:
            self._seen.add(key)
            self._before_write(key, stored)
        return stored

    def __delitem__(self, key: Any) -> None:
        self[key]
        self._removed.add(key)

    def __len__(self) -> int:
        return len(self._front) + len(self._below)

    def materialize(self) -> Entries:
        """Yield the entries that were not looked up, and merge them into the base."""
        below, seen = self._below, self._seen
        behind = bool(below)  # else the one in front can be what is old as it is
        for key, stored in self._front.items():
            if behind:
                below[key] = stored
            if key not in seen:
                yield key, stored

    def merged(self) -> dict[Any, Any]:
        """Return both in one, once all is materialized."""
        merged = self._below or self._front
        for key in self._removed:
            merged.pop(key, None)
        return merged


class DeltaTable:
    """Entries by key; ``base`` may have an older version of an entry in ``delta``, or the same object.

    >>> layers = DeltaTable()
    >>> layers.delta["a"] = 1
    >>> list(layers.snapshot_entries(print)), list(layers.snapshot_entries(print)), layers.whole()
    ([('a', 1)], [], {'a': 1})
    """

    __slots__ = ("_rest", "base", "delta")

    def __init__(self) -> None:
        self.delta: dict[Any, Any] = {}
        self.base: dict[Any, Any] | CopyOnWriteLayer = {}
        #: the entries that are not materialized yet, and what is called before they are looked up
        self._rest: tuple[Entries, BeforeEntryWrite] | None = None

    def whole(self) -> dict[Any, Any]:
        """Return all entries, in the order in which their keys came; read-only. Finishes the snapshot first."""
        old = self.finish_snapshot()
        if old and self.delta:
            return {**old, **self.delta}
        return old or self.delta

    def snapshot_entries(self, before_write: BeforeEntryWrite, complete: bool = False) -> Entries:
        """Begin a snapshot of the delta, or of all; return an iterator that materializes it. See ``OperatorTable``."""
        old = self.finish_snapshot()
        front = self.whole() if complete else self.delta
        self.delta = {}
        if not front:
            return iter(())
        snapshot = self.base = CopyOnWriteLayer(front, {} if complete else old, before_write)
        rest = self._materialize(snapshot)
        self._rest = rest, before_write
        return rest

    def _materialize(self, snapshot: CopyOnWriteLayer) -> Entries:
        yield from snapshot.materialize()
        self.base, self._rest = snapshot.merged(), None

    def saved_keys(self) -> tuple[Any, ...]:
        """Return the keys that are in a snapshot: entries of the delta are in none."""
        return tuple(self.finish_snapshot())

    def finish_snapshot(self) -> dict[Any, Any]:
        """Finish the snapshot: pass all remaining entries to ``before_write``. Return the base."""
        if self._rest is not None:
            rest, before_write = self._rest
            for key, stored in rest:
                before_write(key, stored)
        assert isinstance(self.base, dict)
        return self.base

    def __len__(self) -> int:
        return len(self.delta) + len(self.base)


def _same(stored: Any) -> Any:
    return stored


class KeyedDeltaTable(DeltaTable):
    """An ``OperatorTable`` of one entry per key; ``save`` and ``revive`` convert entries to saved ones, and back.

    >>> table = KeyedDeltaTable()
    >>> table.load([("a", None, 1), ("b", None, 2)])
    >>> table.delta["a"] = 3
    >>> table.remove("b")
    >>> rows, gone = table.begin_snapshot(False, print)
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
        return self.delta[key] if key in self.delta else self.base.get(key)

    def remove(self, key: Any) -> None:
        """Remove an entry, if there is one."""
        self.delta.pop(key, None)
        if key in self.base:
            del self.base[key]
            self._gone.append(key)

    def begin_snapshot(self, complete: bool, before_write: Callable[[StateRow], None]) -> TableSnapshot:
        """Begin a snapshot of everything, or of the entries written or removed since the last one."""
        save = self._save
        entries = self.snapshot_entries(lambda key, entry: before_write((key, None, save(entry))), complete)
        gone, self._gone = self._gone, []
        return TableSnapshot(
            ((key, None, save(entry)) for key, entry in entries),
            iter(()) if complete else ((key, None) for key in gone),
        )

    def load(self, rows: Iterable[StateRow]) -> None:
        """Add saved entries."""
        old = self.finish_snapshot()
        for key, _, saved in rows:
            old[key] = self._revive(key, saved)


class Elsewhere(Protocol):
    """The entries of an ``ExtendedDeltaTable`` that are kept elsewhere: in arrays, for example."""

    def take_written(self, complete: bool) -> tuple[Iterator[tuple[Any, Any]], list[Any]]:
        """Return the saved entries that changed since the last time, or all; and keys that are gone."""
        ...

    def kept(self) -> int:
        """Return the number of entries."""
        ...


class ExtendedDeltaTable(KeyedDeltaTable):
    """A ``KeyedDeltaTable`` whose entries are partly ``elsewhere``; of a key in both, that one is newer."""

    __slots__ = ("_elsewhere",)

    def __init__(
        self,
        elsewhere: Elsewhere,
        save: Callable[[Any], Any] = _same,
        revive: Callable[[Any, Any], Any] = lambda key, saved: saved,
    ) -> None:
        super().__init__(save, revive)
        self._elsewhere = elsewhere

    def is_empty(self) -> bool:
        """Return True if all entries are elsewhere."""
        return not (self.delta or self.base)

    def take_out(self, key: Any) -> tuple[bool, bool]:
        """Forget an entry that is elsewhere from now on; return whether it is new since the last snapshot, and in one."""
        new, saved = key in self.delta, key in self.base
        self.delta.pop(key, None)
        if saved:
            del self.base[key]
        return new, saved

    def removed(self, keys: list[Any]) -> None:
        """Remember entries that were removed elsewhere, and are in a snapshot."""
        self._gone += keys

    def begin_snapshot(self, complete: bool, before_write: Callable[[StateRow], None]) -> TableSnapshot:
        """Begin a snapshot of everything, or of the entries written or removed since the last one."""
        rows, gone = super().begin_snapshot(complete, before_write)
        written, removed = self._elsewhere.take_written(complete)
        return TableSnapshot(
            chain(rows, ((key, None, saved) for key, saved in written)),
            iter(()) if complete else chain(gone, ((key, None) for key in removed)),
        )

    def __len__(self) -> int:
        return super().__len__() + self._elsewhere.kept()


class PaneTable:
    """An ``OperatorTable`` of one ``DeltaTable`` per namespace, such as a window; ``panes`` is the operator's own dict.

    A table may be another object with ``snapshot_entries``, ``saved_keys`` and ``whole`` when what is saved has been loaded.
    """

    __slots__ = ("_gone", "_panes")

    def __init__(self, panes: dict[int, Any]) -> None:
        self._panes = panes
        self._gone: list[tuple[int, tuple[Any, ...]]] = []

    def pop(self, namespace: int) -> Any:
        """Remove a namespace that there is, and return its table."""
        pane = self._panes.pop(namespace)
        if saved := pane.saved_keys():
            self._gone.append((namespace, saved))
        return pane

    def begin_snapshot(self, complete: bool, before_write: Callable[[StateRow], None]) -> TableSnapshot:
        """Begin a snapshot of everything, or of the panes written or removed since the last one."""
        rows = [_snapshot_pane(at, pane, complete, before_write) for at, pane in self._panes.items()]
        gone, self._gone = self._gone, []
        slots = ((key, namespace) for namespace, keys in gone for key in keys)
        return TableSnapshot(chain.from_iterable(rows), iter(()) if complete else slots)

    def load(self, rows: Iterable[StateRow]) -> None:
        """Add saved entries."""
        for key, namespace, stored in rows:
            self._panes.setdefault(namespace, DeltaTable()).finish_snapshot()[key] = stored

    def __len__(self) -> int:
        return sum(map(len, self._panes.values()))


def _snapshot_pane(
    namespace: int, pane: Any, complete: bool, before_write: Callable[[StateRow], None]
) -> Iterator[StateRow]:
    """Begin a snapshot of a pane, as rows."""
    entries = pane.snapshot_entries(lambda key, stored: before_write((key, namespace, stored)), complete)
    return ((key, namespace, stored) for key, stored in entries)


# ---- Copy-on-write snapshots: fixed at once, written in steps while the state changes.
#
# Tables yield the rows of a snapshot step by step (``begin_snapshot``). Before a row may change, because it is
# about to be read or written for the first time, they call ``before_write``. So every row is written as it was when
# the snapshot began, at most twice. Rows are buffered in a ``SnapshotWriter`` until they are pickled, which must be
# before the next record; those that are about to change are pickled at once unless they are immutable.


CHUNK = 256
"""The default number of entries of a step."""

_MANY = 5000
_PLAIN = frozenset({int, str, float, bool, bytes, type(None)})

Dumps = Callable[[Any, str], bytes]
ByGroup = dict[int, dict[str, list[Any]]]
"""Rows, or slots, by key group and state."""


class Pickled:
    """Stands for an object as it was; unpickled, it is that object.

    >>> pickle.loads(pickle.dumps(("key", Pickled(pickle.dumps([1, 2])))))
    ('key', [1, 2])
    """

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __reduce__(self) -> tuple[Any, ...]:
        return load_state, (self._data,)


def is_immutable(value: Any) -> bool:
    """Return True if a value is known to be immutable; false for all that would need a closer look.

    >>> is_immutable(1), is_immutable(("a", 1.5)), is_immutable([1]), is_immutable(("a", [1]))
    (True, True, False, False)
    """
    return type(value) in _PLAIN or (type(value) is tuple and all(type(part) in _PLAIN for part in value))


@dataclass(frozen=True, slots=True)
class GroupedSnapshot:
    """A snapshot of keyed state: rows by key group and table; of changes, also the slots that are empty now.

    ``deleted`` is ``None`` in a complete snapshot: slots that it does not mention are empty.

    >>> GroupedSnapshot(128, {7: {"n": [("a", None, 1)]}}).complete, GroupedSnapshot(128, {}, {}).complete
    (True, False)
    """

    max_parallelism: int
    groups: ByGroup = field(default_factory=dict)
    deleted: ByGroup | None = None

    @property
    def complete(self) -> bool:
        """True if these are not only changes."""
        return self.deleted is None


@dataclass(frozen=True, slots=True)
class KeyedSnapshot(GroupedSnapshot):
    """A snapshot of keyed state: rows ``(key, namespace, stored)``, and the type and lifetime of each state."""

    states: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(slots=True)
class OperatorStates:
    """The operator state of one subtask, by name: values that are dealt out after a rescale in one of three ways.

    Lists in ``split`` are dealt out round robin, of those in ``union`` every subtask gets all elements, and ``broadcast``
    state is equal in all subtasks. At work it is the state, and in a snapshot the state to restore.
    """

    split: dict[str, list[Any]] = field(default_factory=dict)
    union: dict[str, list[Any]] = field(default_factory=dict)
    broadcast: dict[str, dict[Any, Any]] = field(default_factory=dict)

    def update(self, other: OperatorStates) -> None:
        """Take over the states of another."""
        self.split.update(other.split)
        self.union.update(other.union)
        self.broadcast.update({name: with_one_nan(entries) for name, entries in other.broadcast.items()})


@dataclass(slots=True)
class SnapshotWriter:
    """Buffers rows of a snapshot, and removed slots, until they are taken.

    ``spill`` is called with the writer when many rows were preserved; ``dumps`` pickles values that are about to change.
    """

    dumps: Dumps = lambda value, state: pickle.dumps(value)
    spill: Callable[[SnapshotWriter], None] = lambda writer: None
    groups: ByGroup = field(default_factory=dict)
    deleted: ByGroup = field(default_factory=dict)
    #: how many rows and slots there are
    count: int = 0

    def add(
        self, group_of: Callable[[Any], int], state: str, rows: Collection[tuple[Any, ...]],
        slots: Collection[tuple[Any, ...]],
    ) -> None:  # fmt: skip
        """Add rows and removed slots that are pickled before anything changes."""
        for added, kept in ((rows, self.groups), (slots, self.deleted)):
            by_group = defaultdict[int, list[Any]](list)
            for each in added:
                by_group[group_of(each[0])].append(each)
            for group, found in by_group.items():
                kept.setdefault(group, {}).setdefault(state, []).extend(found)
        self.count += len(rows) + len(slots)

    def before_write(self, group: int, state: str, row: tuple[Any, Any, Any]) -> None:
        """Add a row whose last part may change as soon as this returns."""
        key, namespace, stored = row
        if not is_immutable(stored):
            stored = Pickled(self.dumps(stored, state))
        self.groups.setdefault(group, {}).setdefault(state, []).append((key, namespace, stored))
        self._counted()

    def removed(self, group: int, state: str, slot: tuple[Any, Any]) -> None:
        """Add a removed slot."""
        self.deleted.setdefault(group, {}).setdefault(state, []).append(slot)
        self._counted()

    def _counted(self) -> None:
        self.count += 1
        if self.count >= _MANY:
            self.spill(self)

    def take(self) -> tuple[ByGroup, ByGroup]:
        """Return rows and slots, and clear them."""
        taken = self.groups, self.deleted
        self.groups, self.deleted, self.count = {}, {}, 0
        return taken


def snapshot_at_once(begin: Callable[[SnapshotWriter, bool], Iterator[None]], complete: bool) -> SnapshotWriter:
    """Snapshot the changes, or all, of a keyed store or timers at once; ``begin``: its ``begin_snapshot``."""
    writer = SnapshotWriter()
    for _ in begin(writer, complete):
        pass
    return writer


class PendingSection(NamedTuple):
    """A section of a subtask's state that is not written yet: each step of ``steps`` adds some of it to ``writer``."""

    writer: SnapshotWriter
    steps: Iterator[None]
