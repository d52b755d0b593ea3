"""Pairs of vertices with common neighbours: each vertex makes the pairs of its neighbours, which are summed per pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from funken.dataset import DataSet
from funken.graph.columns.chunks import joined
from funken.graph.columns.parts import GraphPart, keys_of
from funken.graph.columns.triangles import resolved, undirected_parts
from funken.graph.core import GraphBase

PAIRS = 1 << 22
"""How many pairs are made before they are summed."""


def common_neighbors(graph: GraphBase, by_degree: bool) -> DataSet:
    """Return ``(id, id, sum, degree, degree)`` for all pairs with a common neighbour.

    The sum counts the common neighbours; with ``by_degree``, one counts 1 / ln(its degree).
    """
    pairs = undirected_parts(graph).flat_map(_Pairs(by_degree)).name("pairs of neighbours")
    summed = pairs.group_by(0).reduce_group(_summed).name("common neighbours")
    return resolved(graph, summed, 2)


class _Pairs:
    def __init__(self, by_degree: bool) -> None:
        self._by_degree = by_degree

    def __call__(self, found: Any) -> Iterator[Any]:
        """Yield (key of the first one's part, numbers, numbers, sums)."""
        part: GraphPart = found[1]
        source = joined([route.source for route in part.routes])
        target = joined([route.target_of_each().astype(np.int64) * part.parts + route.part for route in part.routes])
        order = np.lexsort((target, source))
        source, target = source[order], target[order]
        ends = np.cumsum(part.out_degree)[source] if len(source) else source
        later = ends - np.arange(len(source)) - 1  # how many neighbours of the same vertex come behind
        bounds = np.concatenate([[0], np.cumsum(later)])
        weight = 1.0 / np.log(np.maximum(part.out_degree, 2)) if self._by_degree else np.ones(len(part))
        begin = 0
        keys = keys_of(part.parts)
        while begin < len(source):
            end = max(begin + 1, int(np.searchsorted(bounds, bounds[begin] + PAIRS, side="right")) - 1)
            counts = later[begin:end]
            first = np.repeat(np.arange(begin, end), counts)
            second = first + 1 + np.arange(len(first)) - np.repeat(bounds[begin:end] - bounds[begin], counts)
            one, other, sums = totals(target[first], target[second], weight[source[first]])
            for owner in range(part.parts):
                chosen = one % part.parts == owner
                if chosen.any():
                    yield keys[owner], one[chosen], other[chosen], sums[chosen]
            begin = end


def totals(one: Any, other: Any, values: Any) -> tuple[Any, Any, Any]:
    """Sum values per pair.

    >>> [found.tolist() for found in totals(np.array([1, 1, 0]), np.array([2, 2, 1]), np.array([1.0, 2.0, 4.0]))]
    [[0, 1], [1, 2], [4.0, 3.0]]
    """
    if not len(one):
        return one, other, values
    order = np.lexsort((other, one))
    one, other, values = one[order], other[order], values[order]
    starts = np.flatnonzero(np.concatenate([[True], (one[1:] != one[:-1]) | (other[1:] != other[:-1])]))
    return one[starts], other[starts], np.add.reduceat(values, starts)


def _summed(group: Iterable[Any]) -> Iterator[Any]:
    records = list(group)
    yield totals(*(joined([record[place] for record in records]) for place in (1, 2, 3)))
