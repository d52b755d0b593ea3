"""Copy-on-write snapshots: fixed at once, written in steps while the state changes.

Tables yield the rows of a snapshot step by step (``begin_snapshot``). Before a row may change, because it is about
to be read or written for the first time, they call ``before_write``. So every row is written as it was when the
snapshot began, at most twice. Rows are buffered in a ``SnapshotWriter`` until they are pickled, which must be before the next
record; those that are about to change are pickled at once unless they are immutable.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import field
from typing import Any, NamedTuple, Protocol

from funken.dataclass import dataclass
from funken.io.shapes import load_state
from funken.state.keys.normal import with_one_nan

CHUNK = 256
"""How many entries a step has by default."""

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
    """Return whether a value is known to be immutable; false for all that would need a closer look.

    >>> is_immutable(1), is_immutable(("a", 1.5)), is_immutable([1]), is_immutable(("a", [1]))
    (True, True, False, False)
    """
    return type(value) in _PLAIN or (type(value) is tuple and all(type(part) in _PLAIN for part in value))


@dataclass(frozen=True, slots=True)
class GroupedSnapshot:
    """A snapshot of what is kept by key: rows by key group and table; of changes, also the slots that hold nothing any more.

    ``deleted`` is ``None`` in a complete snapshot: what it does not mention is not there.

    >>> GroupedSnapshot(128, {7: {"n": [("a", None, 1)]}}).complete, GroupedSnapshot(128, {}, {}).complete
    (True, False)
    """

    max_parallelism: int
    groups: ByGroup = field(default_factory=dict)
    deleted: ByGroup | None = None

    @property
    def complete(self) -> bool:
        """Whether these are not only changes."""
        return self.deleted is None


@dataclass(frozen=True, slots=True)
class KeyedSnapshot(GroupedSnapshot):
    """A snapshot of keyed state: rows ``(key, namespace, stored)``, and the kind and lifetime of each state."""

    states: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(slots=True)
class OperatorStates:
    """The operator state of one subtask, by name: what is dealt out after a rescale in one of three ways.

    Lists in ``split`` are dealt out round robin, of those in ``union`` every subtask gets all elements, and ``broadcast``
    state is equal in all subtasks. At work it is the state, and in a snapshot what is restored.
    """

    split: dict[str, list[Any]] = field(default_factory=dict)
    union: dict[str, list[Any]] = field(default_factory=dict)
    broadcast: dict[str, dict[Any, Any]] = field(default_factory=dict)

    def update(self, other: OperatorStates) -> None:
        """Take over what another has."""
        self.split.update(other.split)
        self.union.update(other.union)
        self.broadcast.update({name: with_one_nan(entries) for name, entries in other.broadcast.items()})


@dataclass(slots=True)
class SnapshotWriter:
    """Buffers rows of a snapshot, and removed slots, until they are taken.

    ``spill`` is called with the writer when many rows were preserved; ``dumps`` pickles what is about to change.
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


class SnapshotSource(Protocol):
    """State that can be snapshotted in steps: a keyed store, timers."""

    def begin_snapshot(self, writer: SnapshotWriter, complete: bool) -> Iterator[None]:
        """Begin a snapshot of what changed, or of all; each step of the result adds some of it to the writer."""


def snapshot_at_once(state: SnapshotSource, complete: bool) -> SnapshotWriter:
    """Snapshot what changed, or all, at once."""
    writer = SnapshotWriter()
    for _ in state.begin_snapshot(writer, complete):
        pass
    return writer


class PendingSection(NamedTuple):
    """A section of a subtask's state that is not written yet: each step of ``steps`` adds some of it to ``writer``."""

    writer: SnapshotWriter
    steps: Iterator[None]
