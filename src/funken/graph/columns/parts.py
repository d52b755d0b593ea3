"""A graph as parts: the vertices of one task, numbered from 0, and the edges that begin at them.

A vertex belongs to the part that its id hashes to. Its *local* number is its place there; its *global* number is
``local * parts + part``, so that a sender knows the part and the place of each target, and a superstep needs no dictionary.
Both are the same in every run for the same ids and parallelism, if ids are whole numbers.

Parts are made in three steps: edges go to the part of their target and get its global number, then to the part of their source,
where they are sorted by the part and the place of their target: the *routes*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice, pairwise
from typing import Any

import numpy as np

from funken.dataset import DataSet, InputFormat
from funken.errors import InvalidProgram, SourceNotReadable
from funken.graph.core import GraphBase
from funken.sdk import stable_hash

# ---- Edges and vertices as arrays, before they are numbered.
#
# A chunk of edges is ``(sources, targets, values or None)``, one of vertices ``(ids, values)``. Ids that are all
# whole numbers of 64 bits are an int64 array, others an array of objects; a chunk of one kind may meet one of the
# other.


CHUNK = 1 << 16
"""Records in a chunk that is made of records."""

INT64 = np.iinfo(np.int64)


def column(values: Sequence[Any]) -> Any:
    """Return an array of int64 or float64 if all values are of that type, else of objects.

    >>> column([1, 2]).dtype.name, column([1, 2.5]).dtype.name, column(["a", 1]).dtype.name, column([True]).dtype.name
    ('int64', 'object', 'object', 'object')
    """
    kinds = set(map(type, values))
    if kinds == {int} and INT64.min <= min(values) and max(values) <= INT64.max:
        return np.array(values, np.int64)
    if kinds == {float}:
        return np.array(values, np.float64)
    made = np.empty(len(values), object)
    made[:] = values
    return made


def joined(arrays: Sequence[Any]) -> Any:
    """Concatenate arrays; of objects, if they are of different types.

    >>> joined([np.array([1]), column(["a"])]).tolist(), len(joined([]))
    ([1, 'a'], 0)
    """
    if not arrays:
        return np.empty(0, np.int64)
    if len({array.dtype for array in arrays}) > 1:
        arrays = [array.astype(object) for array in arrays]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def each_once(values: Any) -> Any:
    """Return whole numbers, each once, in order.

    >>> each_once(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    # Hot: ``np.unique`` of NumPy 2.3 and later puts them into a hash table, which takes 140 times as long for 2,000,000 numbers.
    ordered = np.sort(values)
    new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def mixed(numbers: Any) -> Any:
    """Return well spread uint64 numbers for an array of whole numbers (splitmix64).

    >>> mixed(np.array([1, 2])).tolist()
    [10451216379200822465, 10905525725756348110]
    """
    x = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def parts_of(ids: Any, count: int) -> Any:
    """Return the number of the part of each id; equal ids belong to the same one, also those of different types.

    >>> [parts_of(column(ids), 8).tolist() for ids in ([1, 2], [1.0, 2], [True, "a"])]
    [[1, 6], [1, 6], [1, 7]]
    """
    if ids.dtype == np.int64:
        return (mixed(ids) % np.uint64(count)).astype(np.int64)
    return np.fromiter((_part_of(each, count) for each in ids.tolist()), np.int64, len(ids))


def _part_of(vertex_id: Any, count: int) -> int:
    if isinstance(vertex_id, (int, float)) and INT64.min <= vertex_id <= INT64.max and vertex_id == int(vertex_id):
        return int(mixed(np.array([int(vertex_id)], np.int64))[0] % np.uint64(count))
    return stable_hash(vertex_id) % count


def chunks_of(source: Any, target: Any, values: Any, parallelism: int) -> list[Any]:
    """Cut arrays of edges into chunks, at least one for each task.

    >>> [len(chunk[0]) for chunk in chunks_of(np.arange(5), np.arange(5), None, 2)]
    [2, 3]
    """
    source, target = np.asarray(source), np.asarray(target)
    if source.ndim != 1 or source.shape != target.shape or (values is not None and len(values) != len(source)):
        raise InvalidProgram("the arrays of edges need one dimension and the same length.")
    count = max(parallelism, len(source) // (1 << 18), 1)
    bounds = [len(source) * at // count for at in range(count + 1)]
    values = None if values is None else np.asarray(values)
    made = []
    for first, last in pairwise(bounds):
        part = slice(first, last)
        made.append((_whole(source[part]), _whole(target[part]), None if values is None else values[part]))
    return made


def _whole(ids: Any) -> Any:
    return ids.astype(np.int64) if ids.dtype.kind in "iu" and ids.dtype != np.uint64 else column(ids.tolist())


class ParquetChunks(InputFormat):
    """Row groups of a Parquet file, as chunks of edges."""

    def __init__(self, path: str, source: str, target: str, value: str | None) -> None:
        self._path = path
        self._columns = [source, target, *([value] if value else [])]

    def create_splits(self, parallelism: int) -> Sequence[Any]:
        """Return the numbers of the row groups."""
        file = self._opened()
        missing = [name for name in self._columns if name not in file.schema_arrow.names]
        if missing:
            raise InvalidProgram(
                f"{self._path} has no column {missing[0]!r}; it has: {', '.join(file.schema_arrow.names)}."
            )
        return range(file.num_row_groups)

    def _opened(self) -> Any:
        from pyarrow import parquet

        try:
            return parquet.ParquetFile(self._path)
        except (OSError, ValueError) as error:
            raise SourceNotReadable(f"{self._path!r} cannot be read: {error}. Is it a file of Parquet?") from error

    def read(self, split: Any) -> Iterator[Any]:
        """Return one chunk."""
        try:
            table = self._opened().read_row_group(split, columns=self._columns)
        except (OSError, ValueError) as error:
            raise SourceNotReadable(
                f"group of rows {split} of {self._path!r} cannot be read: {error}. Correct the file."
            ) from error
        source, target, *values = (table.column(name).to_numpy() for name in self._columns)
        yield _whole(source), _whole(target), values[0] if values else None


def edge_chunks(edges: Iterable[Any]) -> Iterator[Any]:
    """Return chunks of edges."""
    remaining = iter(edges)
    while some := list(islice(remaining, CHUNK)):
        source, target, values = zip(*some, strict=True)
        yield column(source), column(target), None if all(value is None for value in values) else column(values)


def vertex_chunks(vertices: Iterable[Any]) -> Iterator[Any]:
    """Return chunks of vertices."""
    remaining = iter(vertices)
    while some := list(islice(remaining, CHUNK)):
        ids, values = zip(*some, strict=True)
        yield column(ids), column(values)


_EDGES, _IDS, _VERTICES = 0, 1, 2
FORTH, BACK = 1, 2


@cache
def keys_of(count: int) -> tuple[int, ...]:
    """Return keys of which the DataSet API sends each to another task.

    >>> keys_of(1), len(keys_of(4))
    ((0,), 4)
    """
    found: dict[int, int] = {}
    key = 0
    while len(found) < count:
        found.setdefault(stable_hash(key) % count, key)
        key += 1
    return tuple(found[place] for place in range(count))


class IdIndex:
    """Ids and their places.

    >>> from funken.graph.columns.parts import column
    >>> index = IdIndex([column([7, 3, 7]), column([5])])
    >>> index.ids.tolist(), index.places(column([5, 3])).tolist()
    ([3, 5, 7], [1, 0])
    >>> IdIndex([column(["b", "a"]), column([1, 1.0])]).places(column([True, "a"])).tolist()
    [2, 1]
    """

    def __init__(self, arrays: list[Any]) -> None:
        self._table: Any = None
        self._known: dict[Any, int] | None = None
        whole = all(array.dtype == np.int64 for array in arrays)
        filled = [array for array in arrays if len(array)]
        size = sum(map(len, filled))
        if not whole:
            known: dict[Any, int] = {}
            for array in filled:
                for each in array.tolist():
                    known.setdefault(each, len(known))
            self._known = known
            self.ids = np.empty(len(known), object)
            self.ids[:] = list(known)
            return
        least = min((int(array.min()) for array in filled), default=0)
        most = max((int(array.max()) for array in filled), default=-1)
        if most - least < 16 * size + 1024:
            seen = np.zeros(most - least + 1, bool)
            for array in filled:
                seen[array - least] = True
            self.ids = np.flatnonzero(seen) + least
            self._table = np.cumsum(seen, dtype=np.int32) - 1
            self._least = least
        else:
            self.ids = each_once(joined(filled))

    def places(self, ids: Any) -> Any:
        """Return the places of ids that are known."""
        if self._known is not None:
            known = self._known
            return np.fromiter((known[each] for each in ids.tolist()), np.int64, len(ids))
        if self._table is not None:
            return self._table[ids - self._least]
        return np.searchsorted(self.ids, ids)


@dataclass(slots=True)
class Route:
    """The edges from one part to another, sorted by the target's place there."""

    part: int
    targets: Any  # the places, each once
    starts: Any  # where the edges of each target begin
    source: Any  # local numbers
    weight: Any  # or None

    def target_of_each(self) -> Any:
        """Return the target's place of each edge."""
        return np.repeat(self.targets, np.diff(self.starts, append=len(self.source)))


@dataclass(slots=True)
class GraphPart:
    """The vertices of one part and the edges that begin there."""

    part: int
    parts: int
    ids: Any
    values: Any  # or None
    in_degree: Any
    out_degree: Any
    routes: list[Route]
    backward: list[Route] = field(default_factory=list)  # of the edges that end here, in graphs with both

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def global_numbers(self) -> Any:
        """The global numbers of the vertices."""
        return np.arange(len(self.ids), dtype=np.int64) * self.parts + self.part


def value_of_each(part: GraphPart, need: str) -> Any:
    """Return the values of the vertices; raise ``InvalidProgram`` at one without."""
    values = part.values if part.values is not None else column([None] * len(part))
    if values.dtype == object:
        for name, value in zip(part.ids.tolist(), values.tolist(), strict=True):
            if value is None:
                raise InvalidProgram(
                    f"{need}, but the vertex {name!r} has None: its value is None, or it is the end of an edge and not among the "
                    "vertices. Give the graph every vertex, or an initializer, as in Graph.from_data_set(edges, lambda id: id)."
                )
    return values


@dataclass(frozen=True)
class PartLayout:
    """The rules by which parts are made of a graph."""

    reverse: bool = False  # edges the other way round
    both: bool = False  # each edge also the other way round
    backward: bool = False  # in-edges are routes of their own
    simple: bool = False  # no edge of a vertex with itself, none twice
    weights: bool = False
    values: bool = False
    ways: bool = False  # with both and simple: the weight says which directions there are, FORTH or BACK or both


def parts(graph: GraphBase, layout: PartLayout) -> DataSet:
    """Return the parts of a graph: a data set of ``(key, GraphPart)``."""
    made: DataSet = graph._once(("parts", layout), lambda: _parts(graph, layout))
    return made


def _parts(graph: GraphBase, layout: PartLayout) -> DataSet:
    count = graph.get_context().get_parallelism()
    chunks = graph._given_chunks
    if chunks is None:
        chunks = graph.get_edges().map_partition(edge_chunks).name("chunks of edges")
    begun = chunks.flat_map(partial(_to_targets, count, layout)).name("edges to targets")
    initializer = graph._initializer if layout.values and graph._given_vertices is None else None
    if graph._given_vertices is not None:
        vertices = graph.get_vertices().map_partition(vertex_chunks)
        begun = begun.union(vertices.flat_map(partial(_to_parts, count, layout.values)).name("vertices to parts"))
    numbered = (
        begun.group_by(0).reduce_group(partial(_number, count, layout.backward, initializer)).name("numbers of targets")
    )
    return numbered.group_by(0).reduce_group(_Assemble(count, layout)).name("parts")


def _split(owner: Any, count: int, *arrays: Any) -> Iterator[tuple[int, list[Any]]]:
    """Split arrays by the part that each place belongs to."""
    if count == 1:
        yield 0, list(arrays)
        return
    for part in range(count):
        chosen = np.flatnonzero(owner == part)
        if len(chosen):
            yield part, [None if array is None else array[chosen] for array in arrays]


def _to_targets(count: int, layout: PartLayout, chunk: Any) -> Iterator[Any]:
    """Send edges to the parts of their targets, and the ids of sources to their own."""
    source, target, values = chunk
    keys = keys_of(count)
    weight = _weights(values) if layout.weights else None
    if layout.reverse:
        source, target = target, source
    if layout.both or layout.backward:
        if layout.backward:  # the weight says which way an edge goes
            weight = np.repeat(np.array([0.0, 1.0]), len(source))
        elif layout.ways:
            weight = np.repeat(np.array([FORTH, BACK]), len(source))
        elif weight is not None:
            weight = np.concatenate([weight, weight])
        source, target = joined([source, target]), joined([target, source])
    for part, found in _split(parts_of(target, count), count, source, target, weight):
        yield (keys[part], _EDGES, *found)
    for part, (ids,) in _split(parts_of(source, count), count, source):
        yield keys[part], _IDS, IdIndex([ids]).ids


def _weights(values: Any) -> Any:
    if (
        values is not None
        and values.dtype.kind not in "iuf"
        and all(isinstance(n, (int, float)) for n in values.tolist())
    ):
        values = np.array(values.tolist(), np.float64)
    if values is not None and values.dtype.kind in "iuf":
        if np.isnan(values := values.astype(np.float64)).any():
            raise InvalidProgram(
                "this algorithm needs numbers as edge values, but an edge has NaN. Remove it: filter_on_edges()."
            )
        return values
    bad = None if values is None else next(each for each in values.tolist() if not isinstance(each, (int, float)))
    raise InvalidProgram(
        f"this algorithm needs numbers as edge values, but an edge has {bad!r}. Call map_edges() first."
    )


def _to_parts(count: int, with_values: bool, chunk: Any) -> Iterator[Any]:
    """Send vertices to their parts."""
    ids, values = chunk
    keys = keys_of(count)
    for part, found in _split(parts_of(ids, count), count, ids, values if with_values else None):
        yield (keys[part], _VERTICES, *found)


def _number(count: int, backward: bool, initializer: Any, group: Iterable[Any]) -> Iterator[Any]:
    """Number the vertices of a part; send its in-edges on to the parts of their sources."""
    records = list(group)
    key = records[0][0]
    keys = keys_of(count)
    edges = [record[2:] for record in records if record[1] == _EDGES]
    named = [record[2] for record in records if record[1] != _EDGES] + [target for _, target, _ in edges]
    index = IdIndex(named)
    in_degree = np.zeros(len(index.ids), np.int64)
    for source, target, weight in edges:
        places = index.places(target)
        forth = places[weight == 0.0] if backward else places
        in_degree += np.bincount(forth, minlength=len(in_degree))
        numbers = places.astype(np.int64) * count + keys.index(key)
        for part, found in _split(parts_of(source, count), count, source, numbers, weight):
            yield (keys[part], _EDGES, *found)
    values = _values(records, index)
    if initializer is not None:  # of each vertex, not of each end of an edge
        values = column([initializer(each) for each in index.ids.tolist()])
    yield key, _IDS, index.ids, values, in_degree


def _values(records: list[Any], index: IdIndex) -> Any:
    given = [record for record in records if record[1] == _VERTICES and record[3] is not None]
    if not given:
        return None
    values = joined([record[3] for record in given])
    places = joined([index.places(record[2]) for record in given])
    if len(values) < len(index.ids):  # an end of an edge that is no vertex
        values = values.astype(object)
    made = np.empty(len(index.ids), values.dtype)
    made[places] = values
    return made


class _Assemble:
    def __init__(self, count: int, layout: PartLayout) -> None:
        self._count, self._layout = count, layout

    def __call__(self, group: Iterable[Any]) -> Iterator[Any]:
        """Make the part of the ids and the edges that came."""
        records = list(group)
        key = records[0][0]
        ids, values, in_degree = next(record[2:] for record in records if record[1] == _IDS)
        edges = [record[2:] for record in records if record[1] == _EDGES]
        index = IdIndex([ids])
        source = joined([index.places(found[0]) for found in edges]).astype(np.int32)
        target = joined([found[1] for found in edges])
        part = keys_of(self._count).index(key)
        weight = None
        if edges and edges[0][2] is not None:
            weight = joined([found[2] for found in edges])
        if self._layout.simple:
            source, target, weight = self._simple(source, target, weight, part)
        forth, back = (source, target, weight), None
        if self._layout.backward and weight is not None:
            ways = weight == 0.0
            forth, back = (source[ways], target[ways], None), (source[~ways], target[~ways], None)
        out_degree = np.bincount(forth[0], minlength=len(ids))
        made = GraphPart(part, self._count, ids, values, in_degree, out_degree, routes(*forth, self._count))
        if back is not None:
            made.backward = routes(*back, self._count)
        yield key, made

    def _simple(self, source: Any, target: Any, weight: Any, part: int) -> tuple[Any, Any, Any]:
        kept = source.astype(np.int64) * self._count + part != target
        source, target = source[kept], target[kept]
        weight = None if weight is None else weight[kept]
        if weight is None and len(source):
            # one number per edge is sorted once, where an order by two arrays sorts twice and gathers
            span = int(target.max()) + 1
            if int(source.max()) < np.iinfo(np.int64).max // span - 1:
                pairs = each_once(source.astype(np.int64) * span + target)
                return (pairs // span).astype(source.dtype), pairs % span, None
        order = np.lexsort((target, source) if weight is None or self._layout.ways else (target, source, weight))
        source, target = source[order], target[order]
        new = np.ones(len(source), bool)
        new[1:] = (source[1:] != source[:-1]) | (target[1:] != target[:-1])
        if self._layout.ways and weight is not None:
            weight = weight[order]
            if len(weight):
                weight = np.bitwise_or.reduceat(weight, np.flatnonzero(new))
        elif weight is not None:
            weight = weight[order]
            new[1:] |= weight[1:] != weight[:-1]
            weight = weight[new]
        return source[new], target[new], weight


def routes(source: Any, target: Any, weight: Any, count: int) -> list[Route]:
    """Sort edges by the part and the place of their targets."""
    made = []
    for part, (of, places, weights) in _split(target % count, count, source, target // count, weight):
        if not len(of):
            continue
        order = np.argsort(places)
        to = places[order].astype(np.int32)
        starts = np.flatnonzero(np.concatenate([[True], to[1:] != to[:-1]]))
        made.append(Route(part, to[starts], starts, of[order], None if weights is None else weights[order]))
    return made


# ---- Edges drawn at random, as arrays: edge *i* follows from the seed and *i* alone.


EDGES = 1 << 18
"""Edges in a chunk."""


def chunk_count(edges: int) -> int:
    """Return the number of chunks.

    >>> chunk_count(1), chunk_count(EDGES + 1)
    (1, 2)
    """
    return -(-edges // EDGES)


def _first_draws(edges: int, seed: int, chunk: int) -> Any:
    numbers = np.arange(chunk * EDGES, min(edges, (chunk + 1) * EDGES), dtype=np.uint64)
    return mixed(np.array([seed], np.int64)) + np.uint64(64) * numbers


def _uniform(drawn: Any) -> Any:
    return (mixed(drawn) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def rmat_chunk(edges: int, scale: int, seed: int, constants: tuple[float, float, float], chunk: int) -> Any:
    """Return a chunk of an R-MAT graph.

    >>> source, target, _ = rmat_chunk(5, 10, 42, (0.57, 0.19, 0.19), 0)
    >>> list(zip(source.tolist(), target.tolist()))
    [(286, 295), (88, 64), (38, 321), (128, 521), (512, 32)]
    """
    a, b, c = constants
    first = _first_draws(edges, seed, chunk)
    source, target = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
    for level in range(scale):
        u = _uniform(first + np.uint64(level))
        source = 2 * source + (u >= a + b)
        target = 2 * target + (((u >= a) & (u < a + b)) | (u >= a + b + c))
    return source, target, None


def uniform_chunk(edges: int, vertices: int, seed: int, chunk: int) -> Any:
    """Return a chunk of a graph whose edges are spread evenly.

    >>> [len(each) for each in uniform_chunk(3, 10, 1, 0)[:2]]
    [3, 3]
    """
    first = _first_draws(edges, seed, chunk)
    source, target = (
        np.minimum((_uniform(first + np.uint64(end)) * vertices).astype(np.int64), vertices - 1) for end in (0, 1)
    )
    return source, target, None
