"""The triadic census: how many of all sets of three vertices have which edges.

Closed triads are the triangles by direction. Open ones, of two connected pairs, are the pairs of neighbours of each vertex,
less those that are closed. Those with one connected pair follow from the number of pairs, the rest from the number of vertices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations, pairwise, permutations
from math import comb
from typing import Any

import numpy as np
from scipy import sparse

from funken.dataset import DataSet
from funken.graph.columns.parts import BACK, FORTH, GraphPart, PartLayout, joined, keys_of, parts
from funken.graph.core import GraphBase

# ---- Triangles of an undirected simple graph, found in jobs of bounded size.
#
# Edges are turned from the end with the smaller degree to the other one, so that no vertex has many. The parts of
# the three vertices of a triangle, sorted, are its job: an edge goes to every job that has the parts of both its
# ends, and each triangle is found in exactly one job (Suri and Vassilvitskii, "Counting triangles and the curse of
# the last reducer", 2011).


UNDIRECTED = PartLayout(both=True, simple=True)
WITH_WAYS = PartLayout(both=True, simple=True, ways=True)
"""The same, where each edge knows in which directions it was there."""
WEDGES = 1 << 22
"""Number of paths of two edges that are looked at together."""
BITS = 1024
"""Number of last vertices of paths that are looked at together."""
PATH_COST, EDGE_COST = 9, 92
"""Nanoseconds of a path in a sparse product, and of an edge for ``BITS`` columns."""
_EDGES_AT_ONCE = 4096


def undirected_parts(graph: GraphBase) -> DataSet:
    """Return the parts of the undirected simple graph."""
    return parts(graph, UNDIRECTED)


def _jobs(graph: GraphBase, layout: PartLayout = UNDIRECTED) -> DataSet:
    made = parts(graph, layout)
    degrees = made.flat_map(_degrees_for_all)
    return made.co_group(degrees).where(0).equal_to(0).using(_turned).name("edges for triangles")


def _degrees_for_all(found: Any) -> Iterator[Any]:
    part: GraphPart = found[1]
    for key in keys_of(part.parts):
        yield key, part.part, part.out_degree


def _turned(found: Iterable[Any], came: Iterable[Any]) -> Iterator[Any]:
    """Yield (job, part, part, places, places, ways) of the edges that are turned away from a vertex of this part."""
    part: GraphPart | None = next((each for _, each in found), None)
    if part is None:
        return
    degrees = {other: values for _, other, values in came}
    numbers = part.global_numbers
    for route in part.routes:
        source, target = route.source, route.target_of_each()
        own, other = part.out_degree[source], degrees[route.part][target]
        away = (own < other) | ((own == other) & (numbers[source] < target.astype(np.int64) * part.parts + route.part))
        if away.any():
            edges = source[away], target[away], None if route.weight is None else route.weight[away]
            for third in range(part.parts):
                yield (tuple(sorted((part.part, route.part, third))), part.part, route.part, *edges)


def _matrices(records: list[Any]) -> dict[tuple[int, int], Any]:
    """Return a matrix for each pair of parts, whose rows and columns are places, and whose values are ways, or 1."""
    sizes: dict[int, int] = {}
    for _, one, other, source, target, _ in records:
        sizes[one] = max(sizes.get(one, 0), int(source.max()) + 1)
        sizes[other] = max(sizes.get(other, 0), int(target.max()) + 1)
    return {
        (one, other): sparse.csr_array(
            (np.ones(len(source), np.int64) if ways is None else ways, (source, target)),
            shape=(sizes[one], sizes[other]),
        )
        for _, one, other, source, target, ways in records
    }


def _orders(records: list[Any]) -> Iterator[tuple[tuple[int, ...], Any, Any, Any]]:
    """Yield the parts in each of their orders, with the matrices of first, second and closing edges."""
    matrices = _matrices(records)
    for order in sorted(set(permutations(records[0][0]))):
        x, y, z = order
        first, second, closing = matrices.get((x, y)), matrices.get((y, z)), matrices.get((x, z))
        if first is not None and second is not None and closing is not None:
            yield order, first, second, closing


def _pieces(first: Any, second: Any, closing: Any) -> Iterator[tuple[int, Any, Any]]:
    """Yield where a piece of the rows begins, and first and closing edges of so many rows as have ``WEDGES`` paths."""
    wedges = np.concatenate([[0], np.cumsum(first @ np.diff(second.indptr))])
    cuts = np.searchsorted(wedges, np.arange(0, wedges[-1] + WEDGES, WEDGES))
    for begin, end in pairwise(np.unique(np.concatenate([cuts, [0, first.shape[0]]])).tolist()):
        if begin < first.shape[0]:
            yield begin, first[begin:end], closing[begin:end]


def _count(group: Iterable[Any]) -> Iterator[int]:
    total = 0
    for _, first, second, closing in _orders(list(group)):
        found, left = _by_bits(first, second, closing)
        total += found
        if left.any():
            second, closing = (_of_columns(matrix, left) for matrix in (second, closing))  # noqa: PLW2901
            for _, some, closed in _pieces(first, second, closing):
                total += int((some @ second).multiply(closed).sum())
    yield total


def _of_columns(matrix: Any, kept: Any) -> Any:
    """Return a matrix without the entries of the other columns."""
    chosen = kept[matrix.indices]
    bounds = np.concatenate([[0], np.cumsum(chosen)])[matrix.indptr]
    return sparse.csr_array((matrix.data[chosen], matrix.indices[chosen], bounds), shape=matrix.shape)


def _by_bits(first: Any, second: Any, closing: Any) -> tuple[int, Any]:
    """Count the triangles whose last vertex ends many paths; return the number, and the remaining last vertices.

    The last vertices of ``BITS`` columns are a row of bits for each first vertex and each second one. The triangles over an edge
    are the bits that the rows of its ends share.
    """
    # Hot: a path costs 9 ns in the sparse product, an edge 92 ns for 1,024 columns of bits, however many paths these end (one
    # core). In an R-MAT graph of a million edges the first 1,024 columns end 95 % of 89 million paths.
    width = second.shape[1]
    paths = np.bincount(second.indices, np.asarray(first.sum(axis=0)).ravel()[_row_of_each(second)], width)
    order = np.argsort(-paths, kind="stable")
    left = paths > 0
    edges = _row_of_each(first), first.indices
    total = 0
    for at in range(0, width, BITS):
        columns = order[at : at + BITS]
        if paths[columns].sum() * PATH_COST < len(edges[1]) * EDGE_COST:
            break
        left[columns] = False
        place = np.full(width, -1, np.int32)
        place[columns] = np.arange(len(columns))
        ends, seconds = (_bits(matrix, place) for matrix in (closing, second))
        filled = ends.any(axis=1)[edges[0]] & seconds.any(axis=1)[edges[1]]
        u, v = edges[0][filled], edges[1][filled]
        for begin in range(0, len(u), _EDGES_AT_ONCE):
            some = slice(begin, begin + _EDGES_AT_ONCE)
            total += int(np.bitwise_count(ends[u[some]] & seconds[v[some]]).sum(dtype=np.int64))
    return total, left


def _row_of_each(matrix: Any) -> Any:
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _bits(matrix: Any, place: Any) -> Any:
    """Return a row of bits for each row of a matrix, of the columns that have a place."""
    at = place[matrix.indices]
    chosen = at >= 0
    row, at = _row_of_each(matrix)[chosen], at[chosen].astype(np.int64)
    words = np.zeros((matrix.shape[0], BITS // 64), np.uint64)
    np.bitwise_or.at(words, (row, at >> 6), np.uint64(1) << (at & 63).astype(np.uint64))
    return words


def _found(group: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the parts and the places of the vertices of triangles, and the ways of the three edges: uv, uw, vw."""
    pieces = (
        (*order, begin, some, second, closed)
        for order, whole, second, closing in _orders(list(group))
        for begin, some, closed in _pieces(whole, second, closing)
    )
    for x, y, z, begin, first, second, closing in pieces:
        edges = first.tocoo()
        lengths = np.diff(second.indptr)[edges.col]
        u, v = np.repeat(edges.row, lengths), np.repeat(edges.col, lengths)
        within = np.arange(len(u)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        places = second.indptr[v] + within
        w = second.indices[places]
        closing.sort_indices()
        known = closing.tocoo()
        keys = known.row.astype(np.int64) * closing.shape[1] + known.col
        wanted = u.astype(np.int64) * closing.shape[1] + w
        at = np.searchsorted(keys, wanted)
        closed = np.append(keys, -1)[at] == wanted
        if closed.any():
            ways = (np.repeat(edges.data, lengths)[closed], known.data[at[closed]], second.data[places[closed]])
            yield (
                x,
                y,
                z,
                u[closed].astype(np.int64) + begin,
                v[closed].astype(np.int64),
                w[closed].astype(np.int64),
                *ways,
            )


def mask_of(uv: Any, uw: Any, vw: Any) -> Any:
    """Return the directions of the edges of triangles in six bits, as Gelly has them."""
    return uv << 4 | uw << 2 | vw


def _triangles(count: int, with_ways: bool, group: Iterable[Any]) -> Iterator[Any]:
    """Yield arrays of global numbers, and the directions."""
    for x, y, z, u, v, w, *ways in _found(group):
        numbers = u * count + x, v * count + y, w * count + z
        yield (*numbers, mask_of(*ways)) if with_ways else numbers


def triangle_count(graph: GraphBase) -> DataSet:
    """Return the number of triangles, in parts that are to be summed."""
    return _jobs(graph).group_by(0).reduce_group(_count).name("triangles")


def triangle_numbers(graph: GraphBase, layout: PartLayout = UNDIRECTED) -> DataSet:
    """Return triangles as arrays of the global numbers of their vertices; with ways, and of their directions."""
    found = partial(_triangles, graph.get_context().get_parallelism(), layout.ways)
    return _jobs(graph, layout).group_by(0).reduce_group(found).name("triangles")


def triangle_masks(graph: GraphBase) -> DataSet:
    """Return the number of triangles of each of the 64 combinations of directions, in parts that are to be summed."""
    return _jobs(graph, WITH_WAYS).group_by(0).reduce_group(_masks).name("triangles by direction")


def _masks(group: Iterable[Any]) -> Iterator[Any]:
    for *_, uv, uw, vw in _found(group):
        yield np.bincount(mask_of(uv, uw, vw), minlength=64)


def triangles_per_vertex(graph: GraphBase, layout: PartLayout = UNDIRECTED) -> DataSet:
    """Return ``(id, degree, triangles)`` of every vertex; with ways, a triangle counts once for each opposite edge."""
    counts = triangle_numbers(graph, layout).flat_map(partial(_per_part, graph.get_context().get_parallelism()))
    made = parts(graph, layout)
    return made.co_group(counts).where(0).equal_to(0).using(_with_counts).name("triangles per vertex")


def _per_part(count: int, found: Any) -> Iterator[Any]:
    """Send the numbers of triangles to the parts of their vertices."""
    mask = found[3] if len(found) > 3 else None  # an edge in both directions counts twice
    weights = None if mask is None else [1 + ((mask >> shift & 3) == 3) for shift in (0, 2, 4)]
    every, weight = joined(list(found[:3])), None if weights is None else joined(weights)
    numbers, places = np.unique(every, return_inverse=True)
    counts = np.bincount(places, weight).astype(np.int64)
    keys = keys_of(count)
    for part in range(count):
        chosen = numbers % count == part
        if chosen.any():
            yield keys[part], numbers[chosen] // count, counts[chosen]


def _with_counts(found: Iterable[Any], came: Iterable[Any]) -> Iterator[Any]:
    ((_, part),) = found
    triangles = np.zeros(len(part), np.int64)
    for _, places, counts in came:
        triangles[places] += counts
    yield from zip(part.ids.tolist(), part.out_degree.tolist(), triangles.tolist(), strict=True)


# ---- from global numbers back to ids


def resolved(graph: GraphBase, numbers: DataSet, count: int, layout: PartLayout = UNDIRECTED) -> DataSet:
    """Replace the first ``count`` arrays of each record, global numbers, by ids; and add the degrees behind all others.

    A record is ``(ids, ..., others, ..., degrees, ...)``, one per vertex or pair. The layout is that of the numbers.
    """
    made = parts(graph, layout)
    current = numbers.map(lambda arrays: (arrays, (), ()))
    for place in range(count):
        sent = current.flat_map(partial(_to_owners, place, graph.get_context().get_parallelism()))
        current = made.co_group(sent).where(0).equal_to(0).using(partial(_named, place))
    return current.flat_map(partial(_rows, count))


def _to_owners(place: int, count: int, record: Any) -> Iterator[Any]:
    """Send the rows of arrays to the part of one of their columns."""
    groups = record
    owner = record[0][place] % count
    keys = keys_of(count)
    for part in np.unique(owner).tolist():
        chosen = owner == part
        yield keys[part], tuple(tuple(array[chosen] for array in group) for group in groups)


def _named(place: int, found: Iterable[Any], came: Iterable[Any]) -> Iterator[Any]:
    """Add ids and degrees of one column."""
    part: GraphPart | None = next((each for _, each in found), None)
    for _, (arrays, ids, degrees) in came:
        assert part is not None
        places = arrays[place] // part.parts
        yield arrays, (*ids, part.ids[places]), (*degrees, part.out_degree[places])


def _rows(count: int, record: Any) -> Iterator[Any]:
    """Yield a tuple per row."""
    arrays, ids, degrees = record
    columns = (*ids, *arrays[count:], *degrees)
    yield from zip(*(column.tolist() for column in columns), strict=True)


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


def _turned_way(way: int) -> int:
    return (way & FORTH) << 1 | (way & BACK) >> 1


def _types() -> dict[int, str]:
    """Return the type of each of the masks of a triangle."""
    found = {}
    for name, (uv, uw, vw) in _CLOSED.items():
        ways = {(0, 1): uv, (0, 2): uw, (1, 2): vw}
        ways |= {(other, one): _turned_way(way) for (one, other), way in ways.items()}
        for u, v, w in permutations(range(3)):
            found[ways[u, v] << 4 | ways[u, w] << 2 | ways[v, w]] = name
    return found


TYPE_OF_MASK = _types()


def census_records(graph: GraphBase) -> DataSet:
    """Return the records for ``census`` and ``census_of_ways``."""
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
    """Return the number of triads of each of the 16 types."""
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
        for middle in ((uv, uw), (_turned_way(uv), vw), (_turned_way(uw), _turned_way(vw))):
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
    """Return the numbers of triads with 0, 1, 2 and 3 edges, of any direction."""
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
    ways |= {(other, one): _turned_way(way) for (one, other), way in ways.items()}
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
