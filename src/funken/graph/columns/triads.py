"""The triadic census: how many of all sets of three vertices have which edges.

Closed triads are the triangles by direction. Open ones, of two connected pairs, are the pairs of neighbours of each vertex,
less those that are closed. Those with one connected pair follow from the number of pairs, the rest from the number of vertices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, permutations
from math import comb
from typing import Any

import numpy as np

from funken.dataset import DataSet
from funken.graph.columns.chunks import joined
from funken.graph.columns.parts import BACK, FORTH, GraphPart, keys_of, parts
from funken.graph.columns.triangles import UNDIRECTED, WITH_WAYS, triangle_masks
from funken.graph.core import GraphBase

_BOTH = FORTH | BACK
_OPEN = {  # by what leads from the vertex in the middle to the two others
    (FORTH, FORTH): "021D",
    (BACK, BACK): "021U",
    (FORTH, BACK): "021C",
    (BACK, _BOTH): "111D",
    (FORTH, _BOTH): "111U",
    (_BOTH, _BOTH): "201",
}
_CLOSED = {  # by the ways of uv, uw and vw
    "030T": (FORTH, FORTH, FORTH),
    "030C": (FORTH, BACK, FORTH),
    "120D": (FORTH, FORTH, _BOTH),
    "120U": (BACK, BACK, _BOTH),
    "120C": (FORTH, BACK, _BOTH),
    "210": (FORTH, _BOTH, _BOTH),
    "300": (_BOTH, _BOTH, _BOTH),
}


def _turned(way: int) -> int:
    return (way & FORTH) << 1 | (way & BACK) >> 1


def _types() -> dict[int, str]:
    """Return the type of each of the masks of a triangle."""
    found = {}
    for name, (uv, uw, vw) in _CLOSED.items():
        ways = {(0, 1): uv, (0, 2): uw, (1, 2): vw}
        ways |= {(other, one): _turned(way) for (one, other), way in ways.items()}
        for u, v, w in permutations(range(3)):
            found[ways[u, v] << 4 | ways[u, w] << 2 | ways[v, w]] = name
    return found


TYPE_OF_MASK = _types()


def census_records(graph: GraphBase) -> DataSet:
    """Return what ``census`` and ``census_of_ways`` put together."""
    vertices = parts(graph, WITH_WAYS).map(_of_part)
    return vertices.union(triangle_masks(graph).map(lambda counts: ("triangles", counts.tolist())))


def _of_part(found: Any) -> Any:
    """Return the number of vertices, of connected pairs by way from this side, and of pairs of neighbours by ways."""
    part: GraphPart = found[1]
    source = joined([route.source for route in part.routes])
    ways = joined([route.weight for route in part.routes])
    degrees = {way: np.bincount(source[ways == way], minlength=len(part)) for way in (FORTH, BACK, _BOTH)}
    pairs = {way: int(degree.sum()) for way, degree in degrees.items()}
    wedges = {
        (one, other): int(
            (degrees[one] * (degrees[one] - 1) // 2).sum() if one == other else (degrees[one] * degrees[other]).sum()
        )
        for one, other in _OPEN
    }
    return "part", (len(part), pairs, wedges)


def census_of_ways(records: list[Any]) -> dict[str, int]:
    """Return how many triads there are of each of the 16 types."""
    counts = [found for kind, found in records if kind == "part"]
    vertices = sum(count for count, _, _ in counts)
    single = sum(pairs[FORTH] for _, pairs, _ in counts)
    mutual = sum(pairs[_BOTH] for _, pairs, _ in counts) // 2
    census = dict.fromkeys(("003", "012", "102", *_OPEN.values(), *_CLOSED), 0)
    for ways, name in _OPEN.items():
        census[name] = sum(wedges[ways] for _, _, wedges in counts)
    for mask, name in TYPE_OF_MASK.items():
        count = sum(found[mask] for kind, found in records if kind == "triangles")
        census[name] += count
        uv, uw, vw = mask >> 4 & 3, mask >> 2 & 3, mask & 3
        for middle in ((uv, uw), (_turned(uv), vw), (_turned(uw), _turned(vw))):
            census[_OPEN[min(middle), max(middle)]] -= count
    connected = {**{name: way for way, name in _OPEN.items()}, **_CLOSED}
    mutual_of = {name: ways.count(_BOTH) for name, ways in connected.items()}
    census["102"] = mutual * (vertices - 2) - sum(mutual_of[name] * census[name] for name in connected)
    census["012"] = single * (vertices - 2) - sum(
        (len(ways) - mutual_of[name]) * census[name] for name, ways in connected.items()
    )
    census["003"] = comb(vertices, 3) - sum(census.values())
    order = ["003", "012", "102", "021D", "021U", "021C", "111D", "111U", "030T", "030C", "201"]
    return {name: census[name] for name in [*order, "120D", "120U", "120C", "210", "300"]}


def census(records: list[Any]) -> dict[int, int]:
    """Return how many triads have 0, 1, 2 and 3 edges, whatever their directions."""
    found = dict.fromkeys(range(4), 0)
    for name, count in census_of_ways(records).items():
        found[3 - int(name[2])] += count
    return found


def metrics_records(graph: GraphBase) -> DataSet:
    """Return per part: vertices, ends of pairs connected one way from here and both ways, paths, and the greatest degrees."""
    return parts(graph, WITH_WAYS).map(_metrics)


def _metrics(found: Any) -> tuple[int, ...]:
    part: GraphPart = found[1]
    source = joined([route.source for route in part.routes])
    ways = joined([route.weight for route in part.routes])
    if not len(ways):
        return len(part), 0, 0, 0, 0, 0, 0
    out, into = (np.bincount(source[ways & way > 0], minlength=len(part)) for way in (FORTH, BACK))
    degrees = part.out_degree
    pairs = int((ways == FORTH).sum()), int((ways == _BOTH).sum())
    paths = int((degrees * (degrees - 1) // 2).sum())
    return (len(part), *pairs, paths, int(degrees.max()), int(out.max(initial=0)), int(into.max(initial=0)))


def edge_metrics_records(graph: GraphBase) -> DataSet:
    """Return per part: triplets for triangles and for rectangles, and the most of a vertex of each."""
    made = parts(graph, UNDIRECTED)
    return made.co_group(made.flat_map(_ends_for_all)).where(0).equal_to(0).using(_edge_metrics).name("edge metrics")


def _ends_for_all(found: Any) -> Iterator[Any]:
    part: GraphPart = found[1]
    for key in keys_of(part.parts):
        yield key, part.part, part.out_degree, part.ids


def _edge_metrics(found: Iterable[Any], came: Iterable[Any]) -> Iterator[tuple[int, int, int, int]]:
    """Count the neighbours with a higher degree, or a greater id if it is the same: paths begin at edges to those."""
    part: GraphPart | None = next((each for _, each in found), None)
    if part is None:
        return
    others = {other: (degrees, ids) for _, other, degrees, ids in came}
    low = np.zeros(len(part), np.int64)
    for route in part.routes:
        degrees, ids = others[route.part]
        target = route.target_of_each()
        own, other = part.out_degree[route.source], degrees[target]
        same = own == other
        away = own < other
        away[same] = (part.ids[route.source[same]] < ids[target[same]]).astype(bool)
        low += np.bincount(route.source[away], minlength=len(part))
    triangles = low * (low - 1) // 2
    rectangles = triangles + low * (part.out_degree - low)
    yield int(triangles.sum()), int(rectangles.sum()), int(triangles.max(initial=0)), int(rectangles.max(initial=0))


def triangles_in_order(record: Any) -> Any:
    """Return the ids of a triangle in order, if they have one, and the directions of its edges in that order.

    >>> triangles_in_order((3, 1, 2, 0b01_10_11, 2, 2, 2))
    (1, 2, 3, 57)
    """
    ids = record[:3]
    try:
        order = sorted(range(3), key=ids.__getitem__)
    except TypeError:
        order = [0, 1, 2]
    return _reordered(record, order)


def _reordered(record: Any, order: Sequence[int]) -> Any:
    mask = record[3]
    ways = {(0, 1): mask >> 4 & 3, (0, 2): mask >> 2 & 3, (1, 2): mask & 3}
    ways |= {(other, one): _turned(way) for (one, other), way in ways.items()}
    uv, uw, vw = (ways[order[one], order[other]] for one, other in combinations(range(3), 2))
    return (*(record[place] for place in order), uv << 4 | uw << 2 | vw)


def in_all_orders(record: Any) -> list[Any]:
    """Return a triangle six times, in every order of its vertices, with the directions of the edges in that order if it has them.

    >>> in_all_orders((1, 2, 3))
    [(1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1)]
    >>> [(*ids, f"{ways:06b}") for *ids, ways in in_all_orders((1, 2, 3, 0b01_01_11))[:3]]
    [(1, 2, 3, '010111'), (1, 3, 2, '010111'), (2, 1, 3, '101101')]
    """
    orders = permutations(range(3))
    if len(record) == 3:
        return [tuple(record[place] for place in order) for order in orders]
    return [_reordered(record, order) for order in orders]
