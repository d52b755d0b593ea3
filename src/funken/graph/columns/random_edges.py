"""Edges drawn at random, as arrays: edge *i* follows from the seed and *i* alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from funken.graph.columns.chunks import mixed

EDGES = 1 << 18
"""Edges in a chunk."""


def chunk_count(edges: int) -> int:
    """Return how many chunks there are.

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
