"""Which vertices are important: PageRank and HITS."""

from __future__ import annotations

from typing import Any

from funken.dataset import DataSet
from funken.errors import InvalidProgram
from funken.graph.core import GraphBase


def _limits(algorithm: str, iterations: int | None, threshold: float | None) -> int:
    from funken.graph.columns.supersteps import check_iterations

    if iterations is None and threshold is None:
        raise InvalidProgram(f"{algorithm} needs a number of iterations, a threshold, or both.")
    if threshold is not None and not threshold > 0:
        raise InvalidProgram(f"{algorithm}: the threshold has to be above 0, but is {threshold!r}.")
    found = 1_000 if iterations is None else iterations
    check_iterations(found, algorithm)
    return found


class PageRank:
    """Gives ``(id, score)``; scores sum to 1. Vertices without out-edges give their score to all.

    It ends after ``iterations``, or when the changes of an iteration sum to less than ``threshold``. Vertices without edges are
    left out unless ``include_zero_degree_vertices``.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, None), (3, 2, None), (2, 1, None)])
    >>> [(id, round(score, 3)) for id, score in sorted(graph.run(PageRank(0.85, 100, 1e-9)).collect())]
    [(1, 0.464), (2, 0.486), (3, 0.05)]
    """

    def __init__(
        self,
        damping: float = 0.85,
        iterations: int | None = None,
        threshold: float | None = None,
        include_zero_degree_vertices: bool = False,
    ) -> None:
        if not 0 < damping < 1:
            raise InvalidProgram(f"PageRank: the damping factor has to be between 0 and 1, but is {damping!r}.")
        self._iterations = _limits("PageRank", iterations, threshold)
        self._parameters = damping, threshold, include_zero_degree_vertices

    def run(self, graph: GraphBase) -> DataSet:
        """Return the scores."""
        from funken.graph.columns.ranks import Ranks
        from funken.graph.columns.supersteps import run_program

        return run_program(graph, Ranks(*self._parameters), self._iterations + 2, "PageRank")


class HITS:
    """Gives ``(id, hub score, authority score)``; the squares of each sum to 1.

    It ends after ``iterations``, or when the changes of an iteration sum to less than ``threshold``.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, None), (3, 2, None)])
    >>> [(id, round(hub, 3), round(authority, 3)) for id, hub, authority in sorted(graph.run(HITS(10)).collect())]
    [(1, 0.707, 0.0), (2, 0.0, 1.0), (3, 0.707, 0.0)]
    """

    def __init__(self, iterations: int | None = None, threshold: float | None = None) -> None:
        self._iterations = _limits("HITS", iterations, threshold)
        self._threshold = threshold

    def run(self, graph: GraphBase) -> Any:
        """Return the scores."""
        from funken.graph.columns.ranks import HubsAndAuthorities
        from funken.graph.columns.supersteps import run_program

        return run_program(graph, HubsAndAuthorities(self._threshold), 2 * self._iterations + 2, "HITS")
