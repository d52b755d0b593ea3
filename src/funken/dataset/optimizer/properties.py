"""What is known of how the records of a plan lie: over tasks (global), and within one (local).

A property is only claimed if it holds for certain: a function forgets those whose fields it may change.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from funken.dataset.plan.forwarding import forward
from funken.dataset.plan.keys import Key, Ordering, SortField
from funken.dataset.plan.nodes import Forwarded


class Spread(enum.Enum):
    """How records are spread over tasks."""

    RANDOM = "RANDOM"
    HASH = "HASH"
    RANGE = "RANGE"
    CUSTOM = "CUSTOM"
    REPLICATED = "FULL_REPLICATION"
    SINGLE = "SINGLE"


@dataclass(frozen=True)
class GlobalProperties:
    """The spread, and the key that decides it; of a custom one also the partitioner."""

    spread: Spread = Spread.RANDOM
    key: Key | None = None
    by: Any = None

    def keeps_together(self, key: Key) -> bool:
        """Whether records with equal keys are in one task."""
        if self.spread is Spread.SINGLE:
            return True
        if self.spread not in {Spread.HASH, Spread.RANGE, Spread.CUSTOM} or self.key is None:
            return False
        if not (self.key.transparent and key.transparent):
            return self.key == key
        return set(self.key.paths) <= set(key.paths)

    def after(self, forwarded: Forwarded, side: int = 0) -> GlobalProperties:
        """Return what is left of it behind a function."""
        if self.key is None:
            return self
        if not self.key.transparent:
            return self if (side, (), ()) in forwarded else GlobalProperties()
        paths = [forward(path, forwarded, side) for path in self.key.paths]
        if None in paths:
            return GlobalProperties()
        return GlobalProperties(self.spread, Key(tuple(path for path in paths if path is not None)), self.by)

    def __str__(self) -> str:
        return f"{self.spread.value}({self.key})" if self.key else self.spread.value


ANYWHERE = GlobalProperties()


@dataclass(frozen=True)
class LocalOrder:
    """The order within a task: by fields, or by the key of a selector; empty if there is none."""

    fields: Ordering = ()
    grouped: Key | None = None

    def groups(self, key: Key) -> bool:
        """Whether records with equal keys follow one another."""
        if self.grouped is not None and self.grouped == key:
            return True
        if not key.transparent:
            return False
        first = self.fields[: len(key.paths)]
        return len(first) == len(key.paths) and {field.path for field in first} == set(key.paths)

    def sorted_by(self, key: Key, ordering: Ordering) -> bool:
        """Whether records are sorted ascending by exactly this key, and then by this order."""
        if not key.transparent or any(field.selector for field in ordering):
            return False
        wanted = (*(SortField(path) for path in key.paths), *ordering)
        return self.fields[: len(wanted)] == wanted

    def after(self, forwarded: Forwarded, side: int = 0) -> LocalOrder:
        """Return what is left of it behind a function: the fields up to the first that is lost."""
        kept: list[SortField] = []
        for field in self.fields:
            path = None if field.selector else forward(field.path, forwarded, side)
            if path is None:
                break
            kept.append(SortField(path, field.descending))
        return LocalOrder(tuple(kept))

    def __str__(self) -> str:
        return ", ".join(map(str, self.fields)) or (f"grouped by {self.grouped}" if self.grouped else "none")


UNORDERED = LocalOrder()


def ascending(key: Key) -> Ordering:
    """Return the order by the fields of a key.

    >>> ", ".join(map(str, ascending(Key(((0,), (1,))))))
    '0 ASC, 1 ASC'
    """
    return tuple(SortField(path) for path in key.paths)
