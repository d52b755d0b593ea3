"""Which vertices belong together: label propagation, community detection, and graphs of groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from funken.dataset import DataSet
from funken.graph.core import GraphBase


class LabelPropagation:
    """Gives ``(id, label)``: each vertex takes the label, at first its value, that most of the messages to it have.

    A vertex sends its label along its out-edges when that is new. Of equally frequent labels the greatest is taken; if each came
    once, the greatest of them and its own.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 3, None), (2, 3, None), (4, 3, None)], [(1, "a"), (2, "a"), (3, "c"), (4, "b")])
    >>> sorted(graph.run(LabelPropagation(5)).collect())
    [(1, 'a'), (2, 'a'), (3, 'a'), (4, 'b')]
    """

    def __init__(self, max_iterations: int) -> None:
        from funken.graph.columns.supersteps import check_iterations

        check_iterations(max_iterations, type(self).__name__)
        self._iterations = max_iterations

    def run(self, graph: GraphBase) -> DataSet:
        """Return the labels."""
        from funken.graph.columns.labels import MostFrequent
        from funken.graph.columns.supersteps import run_program

        return run_program(graph, MostFrequent(), self._iterations + 1, "label propagation")


class CommunityDetection:
    """Gives the graph with labels as vertex values: labels with scores, which get weaker by ``delta`` when they are new.

    Edge values are weights, vertex values the first labels; edges are used both ways. Of equally strong labels
    the least is taken.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 2, 1.0), (1, 3, 1.0)], lambda id: id)
    >>> sorted(graph.run(CommunityDetection(1, 0.5)).get_vertices().collect())
    [(1, 2), (2, 1), (3, 1)]
    """

    def __init__(self, max_iterations: int, delta: float = 0.5) -> None:
        from funken.graph.columns.supersteps import check_iterations

        check_iterations(max_iterations, type(self).__name__)
        self._iterations, self._delta = max_iterations, delta

    def run(self, graph: GraphBase) -> Any:
        """Return a graph with the labels."""
        from funken.graph.columns.labels import StrongestLabel
        from funken.graph.columns.supersteps import run_program

        labels = run_program(graph, StrongestLabel(self._delta), self._iterations + 1, "community detection")
        return graph._new(labels, graph.get_edges())


class Summarization:
    """Gives the graph of groups: vertices with the same value become one, with the value ``(value, count)``.

    Its id is the least id of the group. Edges between two groups with the same value become one, with ``(value, count)``.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.graph import Graph
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> graph = Graph.from_collection(env, [(1, 3, "to"), (2, 3, "to"), (1, 2, "is")], [(1, "a"), (2, "a"), (3, "b")])
    >>> groups = graph.run(Summarization())
    >>> sorted(groups.get_vertices().collect()), sorted(groups.get_edges().collect())
    ([(1, ('a', 2)), (3, ('b', 1))], [(1, 1, ('is', 1)), (1, 3, ('to', 2))])
    """

    def run(self, graph: GraphBase) -> Any:
        """Return the graph of groups."""
        members = graph.get_vertices().map(lambda vertex: ((vertex[1],), vertex[0])).group_by(lambda pair: pair[0])
        groups = members.reduce_group(_group)
        edges = graph.get_edges()
        for place in (0, 1):
            edges = edges.join(groups).where(place).equal_to(1).using(_moved(place))
        counted = (
            edges.map(lambda edge: (edge[0], edge[1], (edge[2],), 1)).group_by(lambda edge: edge[:3]).reduce(_added)
        )
        vertices = groups.filter(lambda group: group[0] == group[1]).map(lambda group: (group[0], (group[2], group[3])))
        return graph._new(vertices, counted.map(lambda edge: (edge[0], edge[1], (edge[2][0], edge[3]))))


def _group(pairs: Iterable[Any]) -> Iterator[Any]:
    """Yield (id of the group, member, value, size) per member."""
    found = list(pairs)
    least = min(member for _, member in found)
    for (value,), member in found:
        yield least, member, value, len(found)


def _moved(place: int) -> Any:
    def move(edge: Any, group: Any) -> Any:
        return (group[0], edge[1], edge[2]) if place == 0 else (edge[0], group[0], edge[2])

    return move


def _added(one: Any, other: Any) -> Any:
    return (*one[:3], one[3] + other[3])
