"""What functions of a graph program see: a vertex, an edge, a triplet, and the direction of edges.

In data sets, vertices are ``(id, value)`` and edges ``(source, target, value)``: any tuple will do.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple


class GraphVertex(NamedTuple):
    """A vertex: its id and its value.

    >>> GraphVertex(1, "a").value
    'a'
    """

    id: Any
    value: Any


class GraphEdge(NamedTuple):
    """A directed edge and its value.

    >>> GraphEdge(1, 2, 0.5).target
    2
    """

    source: Any
    target: Any
    value: Any


class Triplet(NamedTuple):
    """An edge with the values of both its vertices.

    >>> Triplet(1, 2, "a", "b", 0.5).source_value
    'a'
    """

    source: Any
    target: Any
    source_value: Any
    target_value: Any
    edge_value: Any


class EdgeDirection(enum.Enum):
    """Which edges of a vertex are meant.

    >>> EdgeDirection.IN
    <EdgeDirection.IN: 'in'>
    """

    IN = "in"
    OUT = "out"
    ALL = "all"
