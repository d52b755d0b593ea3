"""Triangles of an undirected simple graph, found in jobs of bounded size.

Edges are turned from the end with the smaller degree to the other one, so that no vertex has many. The parts of the three
vertices of a triangle, sorted, are its job: an edge goes to every job that has the parts of both its ends, and each triangle is
found in exactly one job (Suri and Vassilvitskii, "Counting triangles and the curse of the last reducer", 2011).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise, permutations
from typing import Any

import numpy as np
from scipy import sparse

from funken.dataset import DataSet
from funken.graph.columns.chunks import joined
from funken.graph.columns.parts import GraphPart, PartLayout, keys_of, parts
from funken.graph.core import GraphBase

UNDIRECTED = PartLayout(both=True, simple=True)
WITH_WAYS = PartLayout(both=True, simple=True, ways=True)
"""The same, where each edge knows in which directions it was there."""
WEDGES = 1 << 22
"""How many paths of two edges are looked at together."""
BITS = 1024
"""How many last vertices of paths are looked at together."""
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
    """Count the triangles whose last vertex ends many paths; return how many, and which last vertices are left.

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


class _Triangles:
    def __init__(self, count: int, ways: bool) -> None:
        self._count, self._ways = count, ways

    def __call__(self, group: Iterable[Any]) -> Iterator[Any]:
        """Yield arrays of global numbers, and the directions."""
        count = self._count
        for x, y, z, u, v, w, *ways in _found(group):
            numbers = u * count + x, v * count + y, w * count + z
            yield (*numbers, mask_of(*ways)) if self._ways else numbers


def triangle_count(graph: GraphBase) -> DataSet:
    """Return the number of triangles, in parts that are to be summed."""
    return _jobs(graph).group_by(0).reduce_group(_count).name("triangles")


def triangle_numbers(graph: GraphBase, layout: PartLayout = UNDIRECTED) -> DataSet:
    """Return triangles as arrays of the global numbers of their vertices; with ways, and of their directions."""
    found = _Triangles(graph.get_context().get_parallelism(), layout.ways)
    return _jobs(graph, layout).group_by(0).reduce_group(found).name("triangles")


def triangle_masks(graph: GraphBase) -> DataSet:
    """Return how many triangles there are of each of the 64 combinations of directions, in parts that are to be summed."""
    return _jobs(graph, WITH_WAYS).group_by(0).reduce_group(_masks).name("triangles by direction")


def _masks(group: Iterable[Any]) -> Iterator[Any]:
    for *_, uv, uw, vw in _found(group):
        yield np.bincount(mask_of(uv, uw, vw), minlength=64)


def triangles_per_vertex(graph: GraphBase, layout: PartLayout = UNDIRECTED) -> DataSet:
    """Return ``(id, degree, triangles)`` of every vertex; with ways, a triangle counts once for each opposite edge."""
    counts = triangle_numbers(graph, layout).flat_map(_PerPart(graph.get_context().get_parallelism()))
    made = parts(graph, layout)
    return made.co_group(counts).where(0).equal_to(0).using(_with_counts).name("triangles per vertex")


class _PerPart:
    def __init__(self, count: int) -> None:
        self._count = count

    def __call__(self, found: Any) -> Iterator[Any]:
        """Send the numbers of triangles to the parts of their vertices."""
        mask = found[3] if len(found) > 3 else None  # an edge in both directions counts twice
        weights = None if mask is None else [1 + ((mask >> shift & 3) == 3) for shift in (0, 2, 4)]
        every, weight = joined(list(found[:3])), None if weights is None else joined(weights)
        numbers, places = np.unique(every, return_inverse=True)
        counts = np.bincount(places, weight).astype(np.int64)
        keys = keys_of(self._count)
        for part in range(self._count):
            chosen = numbers % self._count == part
            if chosen.any():
                yield keys[part], numbers[chosen] // self._count, counts[chosen]


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
        sent = current.flat_map(_ToOwners(place, graph.get_context().get_parallelism()))
        current = made.co_group(sent).where(0).equal_to(0).using(_Named(place))
    return current.flat_map(_Rows(count))


class _ToOwners:
    def __init__(self, place: int, count: int) -> None:
        self._place, self._count = place, count

    def __call__(self, record: Any) -> Iterator[Any]:
        """Send the rows of arrays to the part of one of their columns."""
        groups = record
        owner = record[0][self._place] % self._count
        keys = keys_of(self._count)
        for part in np.unique(owner).tolist():
            chosen = owner == part
            yield keys[part], tuple(tuple(array[chosen] for array in group) for group in groups)


class _Named:
    def __init__(self, place: int) -> None:
        self._place = place

    def __call__(self, found: Iterable[Any], came: Iterable[Any]) -> Iterator[Any]:
        """Add ids and degrees of one column."""
        part: GraphPart | None = next((each for _, each in found), None)
        for _, (arrays, ids, degrees) in came:
            assert part is not None
            places = arrays[self._place] // part.parts
            yield arrays, (*ids, part.ids[places]), (*degrees, part.out_degree[places])


class _Rows:
    def __init__(self, count: int) -> None:
        self._count = count

    def __call__(self, record: Any) -> Iterator[Any]:
        """Yield a tuple per row."""
        arrays, ids, degrees = record
        columns = (*ids, *arrays[self._count :], *degrees)
        yield from zip(*(column.tolist() for column in columns), strict=True)
