"""Interesting properties: by which keys the consumers of a node would like its records to be partitioned."""

from __future__ import annotations

from collections.abc import Iterable

from funken.dataset.plan import nodes
from funken.dataset.plan.forwarding import backward_key
from funken.dataset.plan.keys import Key
from funken.dataset.plan.nodes import Node, walk

MOST = 4
"""More wishes than these for one node are not followed: each multiplies the plans."""


class Interests:
    """The wishes, by node.

    A wish passes up through a function that forwards the fields of its key, renamed as they were before it.
    """

    def __init__(self, roots: Iterable[Node], given: dict[int, list[Key]] | None = None) -> None:
        self._wishes: dict[int, list[Key]] = dict(given or {})
        for node in reversed(list(walk(roots))):
            for side, parent in enumerate(node.inputs):
                for key in self._wanted(node, side):
                    wishes = self._wishes.setdefault(id(parent), [])
                    if key not in wishes and len(wishes) < MOST:
                        wishes.append(key)

    def of(self, node: Node) -> list[Key]:
        """Return the keys by which the records of a node would be of use to its consumers."""
        return self._wishes.get(id(node), [])

    def _wanted(self, node: Node, side: int) -> list[Key]:
        match node:
            case nodes.Reduce(key=Key() as key) | nodes.GroupReduce(key=Key() as key):
                return [key]
            case nodes.Join() | nodes.CoGroupNode():
                return [node.keys[side]]
            case nodes.Partition():
                return []
        passed = (backward_key(key, node.forwarded, side) for key in self.of(node))
        return [key for key in passed if key is not None]
