"""Where keyed state is stored: the seam between the state handles and a backend.

A backend gives one *table* per state. A table maps a *slot*, which is the key, or ``(key, namespace)`` for namespaced
state, to what is stored there: a value or accumulator, a list of elements, or a dict of entries.

Invariant, and what a backend may rely on: **every** change ends in ``table[slot] = stored``, ``del table[slot]`` or
``table.pop(slot)``, also when the stored list or dict was changed in place just before. To know what changed since
the last snapshot, a backend needs to watch these three only.
"""

from __future__ import annotations

from collections.abc import Hashable, MutableMapping
from typing import Any, Protocol, TypeAlias

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


class HashMapBackend:
    """Keeps state as Python objects in dicts: the fastest backend, bounded by memory.

    >>> HashMapBackend().table("count", StateKind.VALUE, namespaced=False)
    {}
    """

    def table(self, name: str, kind: StateKind, namespaced: bool) -> Table:
        """Return an empty dict."""
        return {}
