"""Values of a whole graph, which are computed when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from funken.dataset import DataSet


class GraphAnalytic:
    """A value of a graph that is still to be computed; ``Graph.run`` returns one for algorithms of that kind.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> GraphAnalytic(env.from_elements(1, 2), sum).execute()
    3
    """

    def __init__(self, records: DataSet, finish: Callable[[list[Any]], Any]) -> None:
        self._records, self._finish = records, finish

    def execute(self) -> Any:
        """Run the program, and return the value."""
        return self._finish(self._records.collect())


@dataclass(frozen=True)
class GraphMetricsResult:
    """What ``GraphMetrics`` finds.

    >>> GraphMetricsResult(3, 3, 3, 2, 1).triplets
    3
    """

    vertices: int
    edges: int
    triplets: int
    maximum_degree: int
    maximum_triplets: int


def ordered(one: Any, other: Any) -> tuple[Any, Any]:
    """Return two ids in their order, if they have one.

    >>> ordered(2, 1), ordered(2, "a")
    ((1, 2), (2, 'a'))
    """
    try:
        return (other, one) if other < one else (one, other)
    except TypeError:
        return one, other
