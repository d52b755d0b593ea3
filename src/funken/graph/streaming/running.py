"""What one task computes over all edges: a count of records, and an estimate of the number of triangles.

The estimate is TRIÈST-IMPR (De Stefani, Epasto, Riondato and Upfal, "TRIÈST: Counting Local and Global Triangles in
Fully-dynamic Streams with Fixed Memory Size", 2016): a sample of fixed size, in which every edge so far is with the same
probability; the triangles that a new edge closes in the sample are counted before the sample changes, each with the
inverse of the probability that its other two edges are there. The estimate is unbiased, and exact while all edges fit into
the sample.
"""

from __future__ import annotations

import pickle
import random
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

from funken.sdk import Operator, Timestamps, Values


class RunningCount(Operator):
    """Emits the number of records so far, for each record."""

    def __init__(self) -> None:
        self._count = 0

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Count a block."""
        before, self._count = self._count, self._count + len(values)
        self.output.emit(list(range(before + 1, self._count + 1)), timestamps)

    def snapshot(self) -> int:
        """Return the count."""
        return self._count

    def restore(self, snapshot: int) -> None:
        """Go on."""
        self._count = snapshot


class EdgeSample:
    """A sample of at most ``size`` edges, and the estimate of the number of triangles.

    >>> sample = EdgeSample(10, seed=1)
    >>> for edge in [(1, 2), (2, 3), (1, 3), (3, 4), (2, 4), (4, 4)]:
    ...     sample.add(*edge)
    >>> sample.edges, sample.estimate
    (5, 2.0)
    """

    def __init__(self, size: int, seed: int) -> None:
        self._size = size
        self._chance = random.Random(seed)
        self._sample: list[tuple[Any, Any]] = []
        self._neighbors: defaultdict[Any, set[Any]] = defaultdict(set)
        self.edges = 0
        self.estimate = 0.0

    def add(self, source: Any, target: Any) -> None:
        """Count the triangles that an edge closes in the sample, then perhaps take it; a loop is left out."""
        if source == target:
            return
        self.edges += 1
        seen, size, neighbors = self.edges, self._size, self._neighbors
        near, far = neighbors.get(source), neighbors.get(target)
        if near and far:
            closed = len(near & far)
            if closed:
                self.estimate += closed * max(1.0, (seen - 1) * (seen - 2) / (size * (size - 1)))
        if seen > size:
            place = int(self._chance.random() * seen)
            if place >= size:
                return
            self._leave(*self._sample[place])
            self._sample[place] = (source, target)
        else:
            self._sample.append((source, target))
        neighbors[source].add(target)
        neighbors[target].add(source)

    def _leave(self, source: Any, target: Any) -> None:
        for one, other in ((source, target), (target, source)):
            left = self._neighbors[one]
            left.discard(other)
            if not left:
                del self._neighbors[one]


class EstimatedTriangles(NamedTuple):
    """How many edges have come, loops left out, and the estimate of the number of triangles that they make.

    >>> EstimatedTriangles(5, 2.0).triangles
    2.0
    """

    edges: int
    triangles: float


class EstimateTriangles(Operator):
    """Emits the estimate after every ``every`` edges and at the end."""

    def __init__(self, size: int, seed: int, every: int) -> None:
        self._sample, self._every = EdgeSample(size, seed), every
        self._emitted = 0

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Add a block of edges."""
        sample, every = self._sample, self._every
        add = sample.add
        found: list[EstimatedTriangles] = []
        times: Timestamps = None if timestamps is None else []
        for place, edge in enumerate(values):
            add(edge[0], edge[1])
            if sample.edges >= self._emitted + every:
                found.append(self._now())
                if times is not None and timestamps is not None:
                    times.append(timestamps[place])
        if found:
            self.output.emit(found, times)

    def _now(self) -> EstimatedTriangles:
        self._emitted = self._sample.edges
        return EstimatedTriangles(self._sample.edges, self._sample.estimate)

    def finish(self) -> None:
        """Emit the last estimate."""
        if self._sample.edges > self._emitted:
            self.output.emit([self._now()], None)

    def snapshot(self) -> bytes:
        """Return the sample as it is now."""
        return pickle.dumps((self._sample, self._emitted), pickle.HIGHEST_PROTOCOL)

    def restore(self, snapshot: bytes) -> None:
        """Go on."""
        self._sample, self._emitted = pickle.loads(snapshot)


@dataclass(frozen=True)
class EstimateTrianglesSpec:
    """Makes what estimates."""

    size: int
    seed: int
    every: int

    def build(self) -> Operator:
        """Make the logic."""
        return EstimateTriangles(self.size, self.seed, self.every)
