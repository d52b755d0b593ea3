"""The DAG of a program while it is being built, and the ids that survive a change of it.

A node can only name nodes that exist, so the graph has no cycles and the order of insertion is a topological one. What the
head of a loop reads from further down (``Node.feedback``) is left out of that order.
A stream outlives the execution of its program: what is added to it later brings the nodes it comes from back, and only
those. Of executed programs the last nodes are remembered, not all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from funken.errors import InvalidProgram
from funken.ids import OperatorId
from funken.plan import unexecuted
from funken.plan.nodes import Node

_REMEMBERED = 1000


class StreamGraph:
    """The nodes of one program, in topological order."""

    unused = False
    """True if a program is built here that was neither executed nor explained."""

    def __init__(self) -> None:
        self._nodes: dict[OperatorId, Node] = {}
        self._past: dict[OperatorId, Node] = {}
        self._next = 1

    def __del__(self) -> None:
        if self.unused and self._nodes:
            unexecuted.lost.append(self._complaint())

    def names(self) -> list[str]:
        """Return the names of the operators, in their order."""
        return [node.name for node in self]

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def __getitem__(self, operator: OperatorId) -> Node:
        node = self._nodes.get(operator) or self._past.get(operator)
        if node is None:
            raise InvalidProgram(
                f"operator {operator} belongs to another program, or to one that was executed long ago. "
                "Build the whole pipeline anew."
            )
        return node

    def add(self, **fields: Any) -> Node:
        """Add a node under a new id."""
        node = Node(id=OperatorId(self._next), **fields)
        for given in node.inputs:
            self._bring_back(given.upstream)
        self._next += 1
        self._nodes[node.id] = node
        if not self.unused:
            self.unused = True
            unexecuted.begun.add(self)
        return node

    def _bring_back(self, operator: OperatorId) -> None:
        if operator in self._nodes:
            return
        node = self[operator]
        for given in node.inputs:
            self._bring_back(given.upstream)
        self._nodes[operator] = node
        for given in node.feedback:
            self._bring_back(given.upstream)

    def change(self, operator: OperatorId, **fields: Any) -> Node:
        """Replace fields of a node."""
        if operator not in self._nodes:
            raise InvalidProgram("this stream belongs to a program that was already executed; build it anew.")
        self._nodes[operator] = node = replace(self._nodes[operator], **fields)
        return node

    def comes_from(self, operator: OperatorId, upstream: OperatorId) -> bool:
        """Return True if an operator is another one or reads from it, through any number of others."""
        left, seen = [operator], set[OperatorId]()
        while left:
            found = left.pop()
            if found == upstream:
                return True
            if found not in seen:
                seen.add(found)
                left += [given.upstream for given in self[found].inputs]
        return False

    def _complaint(self) -> str:
        """Return that it never ran, for the end of the script."""
        return unexecuted.never_ran(self.names(), "execute_and_collect() on the stream")

    def take(self) -> StreamGraph:
        """Move all nodes to a new graph and leave this one empty; ids go on counting."""
        taken = StreamGraph()
        taken._nodes, self._nodes = self._nodes, {}
        self.unused = False
        self._past.update(taken._nodes)
        for operator in list(self._past)[:-_REMEMBERED]:
            del self._past[operator]
        return taken

    def up_to(self, operator: OperatorId) -> StreamGraph:
        """Return the graph of an operator and its inputs, by the same ids; it may have been executed."""
        wanted, open_ones = set[OperatorId](), [operator]
        while open_ones:
            wanted.add(found := open_ones.pop())
            open_ones += [given.upstream for given in self[found].inputs if given.upstream not in wanted]
        made = StreamGraph()
        made._nodes = {each: self[each] for each in sorted(wanted)}
        return made

    def stable_ids(self) -> dict[OperatorId, str]:
        """Return the id under which each operator's state is kept: its ``uid``, or a hash of its place in the graph."""
        ids: dict[OperatorId, str] = {}
        seen: dict[str, str] = {}
        for node in self:
            if node.uid is not None:
                if node.uid in seen:
                    raise InvalidProgram(
                        f"uid {node.uid!r} is used by {seen[node.uid]!r} and {node.name!r}; a uid names one operator. Give "
                        "one of them another uid()."
                    )
                seen[node.uid] = node.name
                ids[node.id] = node.uid
                continue
            place = [node.kind, *(f"{ids[i.upstream]}:{i.index}:{i.side}" for i in node.inputs)]
            digest = hashlib.sha256("|".join(place).encode()).hexdigest()[:16]
            twins = sum(1 for other in ids.values() if other.split("#")[0] == digest)
            ids[node.id] = f"{digest}#{twins}" if twins else digest
        return ids
