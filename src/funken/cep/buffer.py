"""The events that partial matches have taken, as linked lists with shared prefixes.

A node is immutable and points to its predecessor, so all partial matches with a common beginning share its nodes: a
new match costs one node. In a checkpoint, the nodes are one table in which each node names its predecessor by index
(``pack`` and ``unpack``); sharing survives, and a long match needs no deep recursion.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Event:
    """An event with its position among the events of its key; two arrivals of one object are two events."""

    __slots__ = ("position", "timestamp", "value")

    def __init__(self, position: int, timestamp: int, value: Any) -> None:
        self.position = position
        self.timestamp = timestamp
        self.value = value


class Node:
    """An event, taken by the pattern ``name`` after ``previous``."""

    __slots__ = ("event", "name", "previous")

    def __init__(self, previous: Node | None, name: str, event: Event) -> None:
        self.previous = previous
        self.name = name
        self.event = event

    def path(self) -> list[Node]:
        """Return the nodes of the match that ends here, from the first."""
        found = []
        node: Node | None = self
        while node is not None:
            found.append(node)
            node = node.previous
        found.reverse()
        return found


Packed = tuple[list[tuple[int, int, Any]], list[str], list[tuple[int, int, int]]]


def pack(tails: Iterable[Node]) -> tuple[Packed, list[int]]:
    """Return the table of all nodes that the tails reach, and the index of each tail in it."""
    events: list[tuple[int, int, Any]] = []
    names: list[str] = []
    nodes: list[tuple[int, int, int]] = []
    index_of_event: dict[int, int] = {}
    index_of_name: dict[str, int] = {}
    index_of: dict[int, int] = {}
    found = []
    for tail in tails:
        fresh = []
        node: Node | None = tail
        while node is not None and id(node) not in index_of:
            fresh.append(node)
            node = node.previous
        for each in reversed(fresh):
            event = each.event
            if event.position not in index_of_event:
                index_of_event[event.position] = len(events)
                events.append((event.position, event.timestamp, event.value))
            if each.name not in index_of_name:
                index_of_name[each.name] = len(names)
                names.append(each.name)
            previous = -1 if each.previous is None else index_of[id(each.previous)]
            index_of[id(each)] = len(nodes)
            nodes.append((previous, index_of_name[each.name], index_of_event[event.position]))
        found.append(index_of[id(tail)])
    return (events, names, nodes), found


def unpack(packed: Packed, kind: type[Node] = Node) -> list[Node]:
    """Return the nodes of a table, in its order."""
    raw_events, names, rows = packed
    events = [Event(*each) for each in raw_events]
    nodes: list[Node] = []
    for previous, name, event in rows:
        nodes.append(kind(nodes[previous] if previous >= 0 else None, names[name], events[event]))
    return nodes
