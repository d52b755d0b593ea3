"""The structures that summarise a graph: sets of connected vertices, sides of a bipartite graph, a spanner.

Each is the accumulator of an ``AggregateFunction`` in ``summary_functions.py``. Two of them merged are what one would be that had
seen the edges of both, in whatever order; so results are the same for every parallelism and every order of the edges.
"""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

from funken.sdk import stable_hash


def least(one: Any, other: Any) -> Any:
    """Return the lesser of two ids; those without an order are ordered by their types, and then by their hashes.

    >>> least(2, 1), least("b", "a"), least(1, "a"), least("a", 1)
    (1, 'a', 1, 1)
    """
    try:
        return other if other < one else one
    except TypeError:
        return min(one, other, key=_of_kind)


def _of_kind(vertex: Any) -> tuple[str, int]:
    return "" if isinstance(vertex, int | float) else type(vertex).__name__, stable_hash(vertex)


def in_order(ids: list[Any]) -> list[Any]:
    """Sort ids, in the order of ``least``.

    >>> in_order([2, 1]), in_order(["b", 2, "a", 1])
    ([1, 2], [1, 2, 'a', 'b'])
    """
    try:
        return sorted(ids)
    except TypeError:
        return sorted(ids, key=cmp_to_key(lambda one, other: -1 if least(one, other) is one else 1))


class DisjointSet:
    """Sets of connected vertices (union-find); the representative of a set is its least vertex.

    >>> sets = DisjointSet()
    >>> for edge in [(1, 2), (1, 3), (2, 3), (1, 5), (6, 7), (8, 9)]:
    ...     sets.union(*edge)
    >>> sets.components()
    {1: [1, 2, 3, 5], 6: [6, 7], 8: [8, 9]}
    >>> other = DisjointSet()
    >>> other.union(7, 9)
    >>> sets.merge(other)
    >>> sets.components(), sets.find(9), len(sets)
    ({1: [1, 2, 3, 5], 6: [6, 7, 8, 9]}, 6, 8)
    """

    __slots__ = ("_parent",)

    def __init__(self) -> None:
        self._parent: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self._parent)

    def find(self, vertex: Any) -> Any:
        """Return the representative of a vertex, which is added if it is new."""
        parent = self._parent
        above = parent.setdefault(vertex, vertex)
        while above is not vertex and above != vertex:
            further = parent[above]
            parent[vertex] = further
            vertex, above = above, further
        return above

    def union(self, one: Any, other: Any) -> None:
        """Connect two vertices."""
        root, another = self.find(one), self.find(other)
        if root != another:
            kept = least(root, another)
            self._parent[another if kept is root else root] = kept

    def merge(self, other: DisjointSet) -> None:
        """Connect what another one connects."""
        for vertex, parent in other._parent.items():
            self.union(vertex, parent)

    def components(self) -> dict[Any, list[Any]]:
        """Return the vertices of each set, in order, by its least."""
        found: dict[Any, list[Any]] = {}
        for vertex in list(self._parent):
            found.setdefault(self.find(vertex), []).append(vertex)
        return {root: in_order(found[root]) for root in in_order(list(found))}


class TwoSides:
    """Vertices on two sides, so that each edge goes from one to the other, for as long as that is possible.

    >>> sides = TwoSides()
    >>> for edge in [(1, 2), (1, 3), (1, 4), (4, 5), (4, 7), (4, 9)]:
    ...     sides.connect(*edge)
    >>> sides.possible, sides.colors()
    (True, {1: 0, 2: 1, 3: 1, 4: 1, 5: 0, 7: 0, 9: 0})
    >>> sides.connect(2, 3)
    >>> sides.possible, sides.colors()
    (False, {})
    """

    __slots__ = ("_parent", "possible")

    def __init__(self) -> None:
        self._parent: dict[Any, tuple[Any, int]] = {}
        self.possible = True

    def _find(self, vertex: Any) -> tuple[Any, int]:
        """Return the least vertex that is connected, and whether it is on the other side (1)."""
        parent = self._parent
        path = []
        above, side = parent.setdefault(vertex, (vertex, 0))
        while above != vertex:
            path.append((vertex, side))
            vertex = above
            above, side = parent[vertex]
        side = 0
        for below, step in reversed(path):
            side ^= step
            parent[below] = (vertex, side)
        return vertex, side

    def connect(self, one: Any, other: Any, different: int = 1) -> None:
        """Have two vertices on different sides, or on the same one (0); after a contradiction nothing matters any more."""
        if not self.possible:
            return
        (root, side), (another, other_side) = self._find(one), self._find(other)
        across = side ^ other_side ^ different
        if root == another:
            if across:
                self.possible = False
                self._parent.clear()
            return
        if least(root, another) is root:
            self._parent[another] = (root, across)
        else:
            self._parent[root] = (another, across)

    def merge(self, other: TwoSides) -> None:
        """Connect what another one connects."""
        if not other.possible:
            self.possible = False
            self._parent.clear()
        for vertex, (parent, side) in other._parent.items():
            self.connect(vertex, parent, side)

    def colors(self) -> dict[Any, int]:
        """Return the side of each vertex, 0 for the least of each component, in order; nothing if there are no two sides."""
        return {vertex: self._find(vertex)[1] for vertex in in_order(list(self._parent))}


class SpannerEdges:
    """Edges of which each is needed: without it, its ends would be more than ``k`` edges apart.

    New edges wait until ``settle``, which takes them in an order that depends on nothing but the edges. So only one summary
    leaves edges out, and no distance grows by more than ``k`` times, however many were merged before.

    >>> spanner = SpannerEdges(3)
    >>> for edge in [(1, 2), (2, 3), (3, 4), (4, 1)]:
    ...     spanner.add(*edge)
    >>> spanner.settle(), len(spanner.edges())
    (1, 3)
    """

    __slots__ = ("_k", "_kept", "_neighbors", "_waiting")

    def __init__(self, k: int) -> None:
        self._k = k
        self._kept: list[tuple[Any, Any]] = []
        self._neighbors: dict[Any, set[Any]] = {}
        self._waiting: set[tuple[Any, Any]] = set()

    def add(self, source: Any, target: Any) -> None:
        """Let an edge wait, without its direction; a loop is left out."""
        if source != target:
            self._waiting.add((source, target) if least(source, target) is source else (target, source))

    def merge(self, other: SpannerEdges) -> None:
        """Let the edges of another one wait."""
        self._waiting |= other._waiting
        self._waiting.update(other._kept)

    def settle(self) -> int:
        """Take the edges that are needed; return how many were not."""
        before = len(self._kept)
        waiting = in_order(list(self._waiting))
        for source, target in waiting:
            if not self._near(source, target):
                self._kept.append((source, target))
                self._neighbors.setdefault(source, set()).add(target)
                self._neighbors.setdefault(target, set()).add(source)
        self._waiting.clear()
        return len(waiting) - (len(self._kept) - before)

    def _near(self, source: Any, target: Any) -> bool:
        """Whether two vertices are ``k`` edges apart or less: a search from both ends."""
        neighbors = self._neighbors
        if source not in neighbors or target not in neighbors:
            return False
        here, there = {source}, {target}
        seen_here, seen_there = {source}, {target}
        for _ in range(self._k):
            if len(here) > len(there):
                here, there, seen_here, seen_there = there, here, seen_there, seen_here
            here = {further for vertex in here for further in neighbors[vertex]} - seen_here
            if not here:
                return False
            if not here.isdisjoint(seen_there):
                return True
            seen_here |= here
        return False

    def edges(self) -> list[tuple[Any, Any]]:
        """Return the edges that were taken, in the order of their taking."""
        return list(self._kept)
