"""Edges and vertices as arrays, before they are numbered.

A chunk of edges is ``(sources, targets, values or None)``, one of vertices ``(ids, values)``. Ids that are all whole numbers of
64 bits are an int64 array, others an array of objects; a chunk of one kind may meet one of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np

from funken.dataset import InputFormat
from funken.errors import InvalidProgram, SourceNotReadable
from funken.sdk import stable_hash

CHUNK = 1 << 16
"""Records in a chunk that is made of records."""

INT64 = np.iinfo(np.int64)


def column(values: Sequence[Any]) -> Any:
    """Return an array of int64 or float64 if all values are of that kind, else of objects.

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
    """Concatenate arrays; of objects, if they are of different kinds.

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
    """Return the number of the part that each id belongs to; equal ids belong to the same one, whatever their types.

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
