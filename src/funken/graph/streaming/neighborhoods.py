"""What is kept per vertex or edge while edges come, in keyed state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from funken import FilterFunction, KeyedProcessFunction, MapStateDescriptor, ValueStateDescriptor


class Neighborhood(NamedTuple):
    """An edge, and the neighbours that its source has by then.

    >>> Neighborhood(1, 3, (2, 3)).neighbors
    (2, 3)
    """

    source: Any
    target: Any
    neighbors: tuple[Any, ...]


class FirstOfKey(FilterFunction):
    """Keeps the first record of a key."""

    def open(self, runtime_context: Any) -> None:
        """Find the state."""
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def filter(self, value: Any) -> bool:
        """Whether it is the first one."""
        if self._seen.value():
            return False
        self._seen.update(True)
        return True


class CollectNeighbors(KeyedProcessFunction):
    """Adds the target of an edge to the neighbours of its source, the key."""

    def open(self, runtime_context: Any) -> None:
        """Find the state."""
        self._neighbors = runtime_context.get_map_state(MapStateDescriptor("neighbors"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Neighborhood]:
        """Add one, and emit all."""
        if not self._neighbors.contains(value[1]):
            self._neighbors.put(value[1], True)
        yield Neighborhood(value[0], value[1], tuple(self._neighbors.keys()))
