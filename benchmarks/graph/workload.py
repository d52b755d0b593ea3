"""The graph of the benchmark, the answers that are right, and how a system hands over its own.

An R-MAT graph without loops and repeated edges, about eight edges per vertex. A vertex without a link gets one, so that all
definitions of PageRank are the same; weights are whole numbers from 1 to 10. An answer is a file: how many, the ids, the values,
each as eight bytes, the highest first, which Java writes as well.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

sys.path.insert(0, str(Path(__file__).parent.parent / "compare"))

from sessions import WrongAnswer

ITERATIONS = 20
ALGORITHMS = ("pagerank", "components", "sssp", "triangles")
_WEDGES = 1 << 24


def rmat(edges: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return sources and targets."""
    scale = max(1, (edges // 8).bit_length() - 1)
    chance = np.random.default_rng(seed)
    source, target = np.zeros(edges, np.int64), np.zeros(edges, np.int64)
    for _ in range(scale):
        quarter = np.searchsorted(np.array([0.57, 0.76, 0.95]), chance.random(edges), side="right")
        source, target = source * 2 + quarter // 2, target * 2 + quarter % 2
    sinks = np.setdiff1d(target, source)
    links = chance.choice(source, len(sinks))
    source, target = np.concatenate([source, sinks]), np.concatenate([target, links])
    pairs = np.unique((source << scale | target)[source != target])
    return pairs >> scale, pairs & (1 << scale) - 1


def write_graph(edges: int, path: Path, seed: int = 1) -> dict[str, int]:
    """Write the edges as Parquet, in random order, unless they are there; return how large the graph is."""
    if path.exists():
        source, target, _ = read_graph(str(path))
        return {"vertices": len(np.union1d(source, target)), "edges": len(source)}
    source, target = rmat(edges, seed)
    order = np.random.default_rng(seed).permutation(len(source))
    source, target = source[order], target[order]
    weight = ((source * 31 + target) % 10 + 1).astype(np.float64)
    table = pa.table({"source": source, "target": target, "weight": weight})
    parquet.write_table(table, path, row_group_size=max(1, len(source) // 8))
    return {"vertices": len(np.union1d(source, target)), "edges": len(source)}


def small(path: str) -> str:
    """Return the path of the small graph that is beside a graph."""
    return f"{path}.small"


def read_graph(path: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sources, targets and weights."""
    table = parquet.read_table(path)
    return tuple(table.column(name).to_numpy() for name in ("source", "target", "weight"))


def write_edges(path: str) -> None:
    """Write the edges beside the Parquet file as numbers, eight bytes each, the highest first: source, target, weight."""
    file = Path(f"{path}.edges")
    if not file.exists():
        rows = np.empty(len((found := read_graph(path))[0]), np.dtype([("s", ">i8"), ("t", ">i8"), ("w", ">f8")]))
        for name, column in zip("stw", found, strict=True):
            rows[name] = column
        rows.tofile(file)


def write_answer(folder: str, algorithm: str, pairs: Any) -> None:
    """Write ids and values: pairs, or two arrays."""
    ids, values = pairs if isinstance(pairs, tuple) else zip(*pairs, strict=True)
    ids, values = np.asarray(ids, ">i8"), np.asarray(values, ">f8")
    Path(folder, algorithm).write_bytes(np.array([len(ids)], ">i8").tobytes() + ids.tobytes() + values.tobytes())


def read_answer(folder: str, algorithm: str) -> tuple[np.ndarray, np.ndarray]:
    """Return ids in order, and their values."""
    data = Path(folder, algorithm).read_bytes()
    (count,) = np.frombuffer(data, ">i8", 1)
    ids, values = np.frombuffer(data, ">i8", count, 8), np.frombuffer(data, ">f8", count, 8 + 8 * count)
    order = np.argsort(ids)
    return ids[order].astype(np.int64), values[order].astype(np.float64)


# ---- what is right


class Oracle:
    """The right answers, by NumPy and SciPy; kept beside the graph."""

    def __init__(self, path: str) -> None:
        from scipy import sparse  # noqa: PLC0415 - not in every environment

        source, target, weight = read_graph(path)
        self._path = path
        self.ids = np.union1d(source, target)
        self._source, self._target = np.searchsorted(self.ids, source), np.searchsorted(self.ids, target)
        shape = (len(self.ids), len(self.ids))
        self._weights = sparse.csr_array((weight, (self._source, self._target)), shape=shape)
        self._known: dict[str, np.ndarray] = {}

    def answer(self, algorithm: str) -> np.ndarray:
        """Return the values of the ids, or one number."""
        if algorithm not in self._known:
            file = Path(f"{self._path}.{algorithm}.npy")
            if not file.exists():
                np.save(file, getattr(self, f"_{algorithm.replace('-', '_')}")())
            self._known[algorithm] = np.load(file)
        return self._known[algorithm]

    def _ranks(self, steps: int) -> np.ndarray:
        count = len(self.ids)
        degree = np.bincount(self._source, minlength=count)
        rank = np.full(count, 1 / count)
        for _ in range(steps):
            before = rank
            rank = 0.15 / count + 0.85 * np.bincount(self._target, (rank / degree)[self._source], count)
            if np.abs(rank - before).sum() < 1e-15:
                break
        return rank

    def _pagerank(self) -> np.ndarray:
        return self._ranks(ITERATIONS)

    def _pagerank_converged(self) -> np.ndarray:
        return self._ranks(1000)

    def _components(self) -> np.ndarray:
        from scipy.sparse import csgraph  # noqa: PLC0415

        count, labels = csgraph.connected_components(self._weights, directed=False)
        least = np.full(count, np.iinfo(np.int64).max)
        np.minimum.at(least, labels, self.ids)
        return least[labels].astype(np.float64)

    def _sssp(self) -> np.ndarray:
        from scipy.sparse import csgraph  # noqa: PLC0415

        return csgraph.dijkstra(self._weights, indices=0)

    def _triangles(self) -> np.ndarray:
        from scipy import sparse  # noqa: PLC0415

        both = ((self._weights + self._weights.T) > 0).tocoo()
        degree = np.bincount(both.row, minlength=len(self.ids))
        place = np.empty(len(self.ids), np.int64)
        place[np.argsort(degree, kind="stable")] = np.arange(len(self.ids))
        row, column = place[both.row], place[both.col]
        up = row < column
        size = (len(self.ids), len(self.ids))
        upper = sparse.csr_array((np.ones(up.sum(), np.int64), (row[up], column[up])), shape=size)
        wedges = np.concatenate([[0], np.cumsum(upper @ np.diff(upper.indptr))])
        total, begin = 0, 0
        while begin < size[0]:
            end = max(begin + 1, int(np.searchsorted(wedges, wedges[begin] + _WEDGES, side="right")) - 1)
            total += int((upper[begin:end] @ upper).multiply(upper[begin:end]).sum())
            begin = end
        return np.array([total], np.float64)


def check(found: tuple[np.ndarray, np.ndarray], oracle: Oracle, algorithm: str, tolerance: float) -> None:
    """Raise ``WrongAnswer`` unless ids and values are right; the tolerance is relative."""
    ids, values = found
    expected = oracle.answer(algorithm)
    of = np.zeros(1, np.int64) if algorithm == "triangles" else oracle.ids
    if not np.array_equal(ids, of):
        raise WrongAnswer(f"{algorithm}: {len(ids)} ids, {len(of)} expected, or others")
    equal = np.isclose(values, expected, rtol=tolerance, atol=0) | (values == expected)
    if not equal.all():
        worst = int(np.argmin(equal))
        raise WrongAnswer(f"{algorithm}: {values[worst]!r} for {ids[worst]}, but {expected[worst]!r} is right")
