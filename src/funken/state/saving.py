"""A snapshot that is taken in slices: fixed at once, saved little by little, while the state goes on to change.

What belongs to a snapshot is *held*: tables give it out row by row (``hold``), and before it may change, for it is about
to be read or written for the first time, they call who holds it (*touched*). So every row is saved as it was when the
snapshot began, at most twice. Rows gather in a ``Saving`` until they are pickled, which must be before the next
record; those touched are about to change at once, and are pickled there and then unless they cannot change.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

CHUNK = 256
"""How many entries a part of a slice has, unless told otherwise."""

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
        return pickle.loads, (self._data,)


def is_plain(value: Any) -> bool:
    """Tell whether a value is sure never to change; says no to all that would need a closer look.

    >>> is_plain(1), is_plain(("a", 1.5)), is_plain([1]), is_plain(("a", [1]))
    (True, True, False, False)
    """
    return type(value) in _PLAIN or (type(value) is tuple and all(type(part) in _PLAIN for part in value))


@dataclass(slots=True)
class Saving:
    """Rows of a snapshot, and slots that hold nothing any more, until somebody takes them.

    ``spill`` is called when touched rows have become many; ``dumps`` pickles what is about to change.
    """

    dumps: Dumps = lambda value, state: pickle.dumps(value)
    spill: Callable[[], None] = lambda: None
    groups: ByGroup = field(default_factory=dict)
    deleted: ByGroup = field(default_factory=dict)
    #: how many rows and slots there are
    count: int = 0

    def add(
        self, group_of: Callable[[Any], int], state: str, rows: Collection[tuple[Any, ...]],
        slots: Collection[tuple[Any, ...]],
    ) -> None:  # fmt: skip
        """Add rows, and slots that hold nothing, that are pickled before anything changes."""
        for added, kept in ((rows, self.groups), (slots, self.deleted)):
            by_group = defaultdict[int, list[Any]](list)
            for each in added:
                by_group[group_of(each[0])].append(each)
            for group, found in by_group.items():
                kept.setdefault(group, {}).setdefault(state, []).extend(found)
        self.count += len(rows) + len(slots)

    def touched(self, group: int, state: str, row: tuple[Any, Any, Any]) -> None:
        """Add a row whose last part may change as soon as this returns."""
        key, namespace, stored = row
        if not is_plain(stored):
            stored = Pickled(self.dumps(stored, state))
        self.groups.setdefault(group, {}).setdefault(state, []).append((key, namespace, stored))
        self._counted()

    def dropped(self, group: int, state: str, slot: tuple[Any, Any]) -> None:
        """Add a slot that holds nothing."""
        self.deleted.setdefault(group, {}).setdefault(state, []).append(slot)
        self._counted()

    def _counted(self) -> None:
        self.count += 1
        if self.count >= _MANY:
            self.spill()

    def take(self) -> tuple[ByGroup, ByGroup]:
        """Return rows and slots, and have none any more."""
        taken = self.groups, self.deleted
        self.groups, self.deleted, self.count = {}, {}, 0
        return taken


class Holding(Protocol):
    """State that can be fixed as it is and saved little by little: a keyed store, timers."""

    def hold(self, saving: Saving, complete: bool) -> Iterator[None]:
        """Fix what changed, or all there is; each step of what is returned adds some of it to ``saving``."""


def saved(state: Holding, complete: bool) -> Saving:
    """Save what changed, or all there is, at once."""
    saving = Saving()
    for _ in state.hold(saving, complete):
        pass
    return saving


class Held(NamedTuple):
    """What is left to save of a part of a subtask's state: each step of ``steps`` adds some of it to ``saving``."""

    saving: Saving
    steps: Iterator[None]
