"""How similar vertices are by their common neighbours. The graph is taken as undirected and simple."""

from __future__ import annotations

from typing import Any

from funken.dataset import DataSet, DataSetRuntimeContext
from funken.errors import InvalidProgram
from funken.graph.core import GraphBase
from funken.graph.library.analytics import ordered


class JaccardIndex:
    """Gives ``(id, id, shared, distinct)`` for pairs with common neighbours; the index is ``shared / distinct``.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import GraphGenerator
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> star = GraphGenerator(env).star(4)
    >>> sorted(star.run(JaccardIndex()).collect())
    [(1, 2, 1, 1), (1, 3, 1, 1), (2, 3, 1, 1)]
    >>> star.run(JaccardIndex().set_minimum_score(1, 2).set_maximum_score(1, 1)).collect()
    []
    """

    _least: tuple[int, int] = (0, 1)
    _bound: tuple[int, int] | None = None

    def set_minimum_score(self, numerator: int, denominator: int) -> JaccardIndex:
        """Leave out pairs with an index below this."""
        self._least = _fraction(numerator, denominator)
        return self

    def set_maximum_score(self, numerator: int, denominator: int) -> JaccardIndex:
        """Leave out pairs with this index or a greater one."""
        self._bound = _fraction(numerator, denominator)
        return self

    def run(self, graph: GraphBase) -> DataSet:
        """Return the pairs."""
        from funken.graph.columns.similarity import common_neighbors

        least, bound = self._least, self._bound
        pairs = common_neighbors(graph, by_degree=False).map(_jaccard)
        kept = pairs.filter(lambda pair: pair[2] * least[1] >= pair[3] * least[0])
        return kept if bound is None else kept.filter(lambda pair: pair[2] * bound[1] < pair[3] * bound[0])


class AdamicAdar:
    """Gives ``(id, id, score)`` for pairs with common neighbours, each of which counts 1 / ln(its degree).

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import GraphGenerator
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> star = GraphGenerator(env).star(3)
    >>> [(one, other, round(score, 3)) for one, other, score in star.run(AdamicAdar()).collect()]
    [(1, 2, 1.443)]
    >>> star.run(AdamicAdar().set_minimum_score(2.0)).count(), star.run(AdamicAdar().set_minimum_ratio(1.0)).count()
    (0, 1)
    """

    _least = 0.0
    _ratio = 0.0

    def set_minimum_score(self, score: float) -> AdamicAdar:
        """Leave out pairs with a score below this."""
        self._least = _not_negative(score)
        return self

    def set_minimum_ratio(self, ratio: float) -> AdamicAdar:
        """Leave out pairs with a score below so many times the average."""
        self._ratio = _not_negative(ratio)
        return self

    def run(self, graph: GraphBase) -> DataSet:
        """Return the pairs."""
        from funken.graph.columns.similarity import common_neighbors

        least = self._least
        pairs = common_neighbors(graph, by_degree=True).map(lambda found: (*ordered(found[0], found[1]), found[2]))
        kept = pairs.filter(lambda pair: pair[2] >= least)
        if not self._ratio:
            return kept
        total = pairs.map(lambda pair: (pair[2], 1)).reduce(lambda one, other: (one[0] + other[0], one[1] + other[1]))
        return kept.filter(_AboveAverage(self._ratio)).with_broadcast_set(total, "total")


class _AboveAverage:
    def __init__(self, ratio: float) -> None:
        self._ratio = ratio

    def open(self, context: DataSetRuntimeContext) -> None:
        """Learn the average."""
        total = context.get_broadcast_variable("total")
        self._least = self._ratio * total[0][0] / total[0][1] if total else 0.0

    def close(self) -> None:
        """Have nothing to close."""

    def filter(self, pair: Any) -> bool:
        """Whether the score is high enough; sums in another order differ in the last digits."""
        return bool(pair[2] >= self._least * (1 - 1e-12))


def _jaccard(found: Any) -> tuple[Any, Any, int, int]:
    one, other, shared, degree, other_degree = found
    return (*ordered(one, other), int(shared), degree + other_degree - int(shared))


def _fraction(numerator: int, denominator: int) -> tuple[int, int]:
    if numerator < 0 or denominator < 1:
        raise InvalidProgram(f"JaccardIndex: the score {numerator}/{denominator} has to be 0 or more.")
    return numerator, denominator


def _not_negative(value: float) -> float:
    if not value >= 0:
        raise InvalidProgram(f"AdamicAdar: {value!r} has to be 0 or more.")
    return value
