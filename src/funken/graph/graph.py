"""``Graph``: how it is made, and what runs on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, overload

from funken.dataset import DataSet, ExecutionEnvironment
from funken.errors import InvalidProgram
from funken.graph.core import EdgeDirection, GraphBase, GraphEdge, GraphVertex
from funken.graph.iterations import (
    ApplyFunction,
    ComputeFunction,
    GatherFunction,
    IterationConfiguration,
    MessageCombiner,
    Neighbor,
    NeighborGatherFunction,
    ScatterFunction,
    SumFunction,
    gather_sum_apply,
    scatter_gather,
    vertex_centric,
)
from funken.sdk import check_kind
from funken.types.callables import A, Generic, K, N, OUT_co, R, S, T, V

if TYPE_CHECKING:
    from typing import Self


class RunsOnGraph(Protocol[K, V, T, OUT_co]):
    """An algorithm."""

    def run(self, graph: Graph[K, V, T], /) -> OUT_co:
        """Return the result for a graph."""
        ...


class Graph(GraphBase[K, V, T], Generic[K, V, T]):
    """A directed graph of a batch program: vertices ``(id, value)`` and edges ``(source, target, value)``.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> edges = [(1, 2, 12), (1, 3, 13), (2, 3, 23), (3, 1, 31)]
    >>> graph = Graph.from_collection(env, edges, lambda id: id * 10)
    >>> sorted(graph.get_vertices().collect()), sorted(graph.get_edge_ids().collect())
    ([(1, 10), (2, 20), (3, 30)], [(1, 2), (1, 3), (2, 3), (3, 1)])

    An algorithm of the library, or one of your own, is given to ``run``:

    >>> from funken.graph import SingleSourceShortestPaths
    >>> sorted(graph.run(SingleSourceShortestPaths(1, 10)).collect())
    [(1, 0.0), (2, 12.0), (3, 13.0)]

    So is a vertex program to one of the iterations:

    >>> from funken.graph import ApplyFunction, ComputeFunction, GatherFunction, ScatterFunction
    >>> class Send(ScatterFunction):
    ...     def send_messages(self, vertex):
    ...         self.send_message_to_all_neighbors(vertex.value)
    >>> class Most(GatherFunction):
    ...     def update_vertex(self, vertex, messages):
    ...         self.set_new_vertex_value(max(messages))
    >>> sorted(graph.run_scatter_gather_iteration(Send(), Most(), 1).get_vertices().collect())
    [(1, 30), (2, 10), (3, 20)]
    >>> class Apply(ApplyFunction):
    ...     def apply(self, new_value, current_value):
    ...         self.set_result(new_value)
    >>> took = graph.run_gather_sum_apply_iteration(lambda near: near.neighbor_value, max, Apply(), 1)
    >>> sorted(took.get_vertices().collect())
    [(1, 30), (2, 10), (3, 20)]
    >>> class Step(ComputeFunction):
    ...     def compute(self, vertex, messages):
    ...         self.set_new_vertex_value(len(messages))
    ...         self.send_message_to_all_neighbors(1)
    >>> sorted(graph.run_vertex_centric_iteration(Step(), None, 2).get_vertices().collect())
    [(1, 1), (2, 1), (3, 2)]

    Graphs are made of graphs: mapped, filtered, joined with values, changed, and put together:

    >>> sorted(graph.map_vertices(lambda vertex: vertex.value + 1).get_vertices().collect())
    [(1, 11), (2, 21), (3, 31)]
    >>> sorted(graph.map_edges(lambda edge: -edge.value).get_edges().collect())[0]
    (1, 2, -12)
    >>> sorted(graph.translate_graph_ids(str).get_vertex_ids().collect())
    ['1', '2', '3']
    >>> more = env.from_elements((1, 5))
    >>> sorted(graph.join_with_vertices(more, lambda own, value: own + value).get_vertices().collect())
    [(1, 15), (2, 20), (3, 30)]
    >>> add = lambda own, value: own + value
    >>> sorted(graph.join_with_edges(env.from_elements((1, 2, 1)), add).get_edges().collect())[0]
    (1, 2, 13)
    >>> sorted(graph.join_with_edges_on_source(more, add).get_edges().collect())[:2]
    [(1, 2, 17), (1, 3, 18)]
    >>> sorted(graph.join_with_edges_on_target(more, add).get_edges().collect())[3]
    (3, 1, 36)
    >>> sorted(graph.filter_on_vertices(lambda vertex: vertex.id > 1).get_edges().collect())
    [(2, 3, 23)]
    >>> graph.filter_on_edges(lambda edge: edge.value > 20).number_of_edges()
    2
    >>> graph.subgraph(lambda vertex: vertex.id < 3, lambda edge: True).get_edges().collect()
    [(1, 2, 12)]
    >>> sorted(graph.reverse().get_edge_ids().collect())
    [(1, 3), (2, 1), (3, 1), (3, 2)]
    >>> graph.get_undirected().number_of_edges(), graph.simplify(undirected=True).number_of_edges()
    (8, 6)

    Changes, and two graphs:

    >>> larger = graph.add_vertex((4, 40)).add_edge((4, 0), (5, 50), 45).add_edges([(1, 9, 0), (5, 1, 51)])
    >>> sorted(larger.get_vertices().collect())[3:], sorted(larger.get_edges().collect())[4:]
    ([(4, 40), (5, 50)], [(4, 5, 45), (5, 1, 51)])
    >>> larger.add_vertices([(6, 60)]).remove_vertex(5).number_of_edges(), larger.remove_vertices([1, 2]).number_of_edges()
    (4, 1)
    >>> graph.remove_edge(1, 2).number_of_edges(), graph.remove_edges([(1, 2), (1, 3)]).number_of_edges()
    (3, 2)
    >>> larger.difference(graph).get_edges().collect(), graph.union(larger).number_of_edges()
    ([(4, 5, 45)], 10)
    >>> graph.intersect(larger).number_of_edges()
    4

    And neighbourhoods are reduced:

    >>> from funken.graph import EdgeDirection
    >>> sorted(graph.reduce_on_neighbors(lambda a, b: a + b, EdgeDirection.IN).collect())
    [(1, 30), (2, 10), (3, 30)]
    >>> sorted(graph.reduce_on_edges(min).collect())
    [(1, 12), (2, 23), (3, 31)]
    >>> sorted(graph.group_reduce_on_edges(lambda id, edges: [(id, len(edges))]).collect())
    [(1, 2), (2, 1), (3, 1)]
    >>> sorted(graph.group_reduce_on_neighbors(lambda id, pairs: [(id, sum(n.id for _, n in pairs))]).collect())
    [(1, 5), (2, 3), (3, 1)]
    """

    # ---- how it is made

    @classmethod
    def from_data_set(
        cls, edges: DataSet[tuple[S, S, A]], vertices: DataSet[tuple[S, N]] | Callable[[S], N] | None = None
    ) -> Graph[S, N, A]:
        """Make a graph of edges, and of vertices or a function from an id to the vertex's value.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> Graph.from_data_set(env.from_elements((1, 2, 0.5)), lambda id: 0).number_of_vertices()
        2
        """
        graph: Any = cls
        made: Graph[S, N, A]
        if vertices is None or callable(vertices):
            made = graph(None, edges, initializer=vertices)
            return made
        if not isinstance(vertices, DataSet):
            raise InvalidProgram(
                f"from_data_set(): {vertices!r} is neither a data set of vertices nor a function of an id."
            )
        made = graph(vertices, edges)
        return made

    @classmethod
    def from_tuple2_data_set(
        cls, edges: DataSet[tuple[S, S]], vertices: DataSet[tuple[S, N]] | Callable[[S], N] | None = None
    ) -> Graph[S, N, None]:
        """Make a graph of ``(source, target)`` pairs; edges have the value None.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> Graph.from_tuple2_data_set(env.from_elements((1, 2))).get_edges().collect()
        [(1, 2, None)]
        """
        anything: Any = cls
        made: Graph[S, N, None] = anything.from_data_set(edges.map(lambda pair: (pair[0], pair[1], None)), vertices)
        return made

    @overload
    @classmethod
    def from_collection(
        cls,
        env: ExecutionEnvironment,
        edges: list[tuple[S, S, A]],
        vertices: list[tuple[S, N]] | Callable[[S], N] | None = None,
    ) -> Graph[S, N, A]: ...  # of a list, pyright does not keep the types of literals
    @overload
    @classmethod
    def from_collection(
        cls,
        env: ExecutionEnvironment,
        edges: Iterable[tuple[S, S, A]],
        vertices: Iterable[tuple[S, N]] | Callable[[S], N] | None = None,
    ) -> Graph[S, N, A]: ...
    @classmethod
    def from_collection(
        cls,
        env: ExecutionEnvironment,
        edges: Iterable[Any],
        vertices: Iterable[Any] | Callable[[Any], Any] | None = None,
    ) -> Graph[Any, Any, Any]:
        """Make a graph of lists of tuples; ``vertices`` may be a function from an id to a value."""
        check_kind(env, ExecutionEnvironment, "Graph.from_collection()", "Its arguments are: env, edges, vertices.")
        order = "Edges come before vertices: from_collection(env, edges, vertices). Without a value: (source, target, None)."
        found = _widths(edges, 3, "edge", "(source, target, value)", order)
        given: Any = vertices
        if vertices is not None and not callable(vertices):
            ids = "Of ids alone, leave the vertices out, or give a function from an id to a value."
            given = env.from_collection(_widths(vertices, 2, "vertex", "(id, value)", ids))
        return cls.from_data_set(env.from_collection(found), given)

    @classmethod
    def from_csv(
        cls,
        env: ExecutionEnvironment,
        edges_path: Any,
        vertices: Any = None,
        key_type: type = int,
        edge_type: type | None = None,
        vertex_type: type = str,
        delimiter: str = ",",
    ) -> Graph:
        r"""Make a graph of CSV files: edges, and a file of vertices or a function from an id to a value.

        >>> from funken.dataset import ExecutionEnvironment
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "edges.csv")
        >>> _ = path.write_text("1,2,0.5\n2,3,1.5\n")
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> sorted(Graph.from_csv(env, path, edge_type=float).get_edges().collect())
        [(1, 2, 0.5), (2, 3, 1.5)]
        """
        types = [key_type, key_type, *([edge_type] if edge_type else [])]
        edges = env.read_csv_file(edges_path, types, delimiter)
        if vertices is not None and not callable(vertices):
            vertices = env.read_csv_file(vertices, [key_type, vertex_type], delimiter)
        return cls.from_data_set(edges, vertices) if edge_type else cls.from_tuple2_data_set(edges, vertices)

    @classmethod
    def from_spark(cls, env: ExecutionEnvironment, edges: Any, vertices: Any = None) -> Graph:
        """Make a graph of Spark DataFrames: the columns are source, target and value (or none), and id and value."""
        found: DataSet[Any] = env.from_spark(edges).map(lambda row: (row[0], row[1], row[2] if len(row) > 2 else None))
        if vertices is not None and not callable(vertices):
            vertices = env.from_spark(vertices).map(lambda row: (row[0], row[1] if len(row) > 1 else None))
        return cls.from_data_set(found, vertices)

    @classmethod
    def from_networkx(cls, env: ExecutionEnvironment, graph: Any, weight: str = "weight") -> Graph:
        """Make a graph of a networkx graph; edges have the attribute ``weight`` as value, vertices their attributes.

        An undirected one gets every edge in both directions.

        >>> import networkx
        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> Graph.from_networkx(env, networkx.path_graph(3)).number_of_edges()
        4
        """
        check_kind(env, ExecutionEnvironment, "Graph.from_networkx()", "Its arguments are: env, graph.")
        edges = [(source, target, data.get(weight)) for source, target, data in graph.edges(data=True)]
        if not graph.is_directed():
            edges += [(target, source, value) for source, target, value in edges if source != target]
        vertices: Any = [(node, dict(data)) for node, data in graph.nodes(data=True)]
        return cls.from_collection(env, edges, vertices)

    @classmethod
    def from_arrays(
        cls, env: ExecutionEnvironment, source: Any, target: Any, values: Any = None, vertices: Any = None
    ) -> Graph:
        """Make a graph of NumPy arrays: library algorithms never make a Python object per edge of it.

        >>> import numpy as np
        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> graph = Graph.from_arrays(env, np.array([1, 2]), np.array([2, 3]))
        >>> sorted(graph.get_edges().collect())
        [(1, 2, None), (2, 3, None)]
        """
        from funken.graph.columns.parts import chunks_of

        return cls.from_chunks(env.from_collection(chunks_of(source, target, values, env.get_parallelism())), vertices)

    @classmethod
    def from_parquet(
        cls,
        env: ExecutionEnvironment,
        path: Any,
        source: str = "source",
        target: str = "target",
        value: str | None = None,
        vertices: Any = None,
    ) -> Graph:
        """Make a graph of columns of a Parquet file; its row groups are read by different tasks, as arrays.

        >>> import pathlib, tempfile
        >>> import pyarrow as pa
        >>> from pyarrow import parquet
        >>> from funken.dataset import ExecutionEnvironment
        >>> path = pathlib.Path(tempfile.mkdtemp(), "edges.parquet")
        >>> parquet.write_table(pa.table({"source": [1, 2], "target": [2, 3]}), path)
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> sorted(Graph.from_parquet(env, path).get_edge_ids().collect())
        [(1, 2), (2, 3)]
        """
        from funken.graph.columns.parts import ParquetChunks

        return cls.from_chunks(env.create_input(ParquetChunks(str(path), source, target, value)), vertices)

    @classmethod
    def from_chunks(cls, chunks: DataSet, vertices: Any = None) -> Graph:
        """Make a graph of a data set whose records are ``(sources, targets, values or None)`` as NumPy arrays.

        >>> import numpy as np
        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> chunks = env.generate_sequence(0, 3).map(lambda n: (np.array([n]), np.array([n + 1]), None))
        >>> Graph.from_chunks(chunks).number_of_vertices()
        5
        """
        if vertices is None or callable(vertices):
            return cls(None, None, chunks, vertices)
        return cls(vertices, None, chunks)

    # ---- what runs on it

    def run(self, algorithm: RunsOnGraph[K, V, T, R]) -> R:
        """Return the result of ``algorithm.run(graph)``: a data set, a graph, or an analytic to be executed."""
        if not callable(getattr(algorithm, "run", None)) or isinstance(algorithm, type):
            name = getattr(algorithm, "__name__", "PageRank")
            raise InvalidProgram(
                f"run() needs an object with a method run(graph), but got {algorithm!r}. Make one: graph.run({name}(...))."
            )
        return algorithm.run(self)

    def run_vertex_centric_iteration(
        self,
        compute: ComputeFunction[K, V, T, S],
        combiner: MessageCombiner[S] | Callable[[list[S]], S] | None,
        maximum: int,
        configuration: IterationConfiguration | None = None,
    ) -> Graph[K, V, T]:
        """Run a vertex program (Pregel); the result has the new vertex values. See ``ComputeFunction``."""
        return self._new(vertex_centric(self, compute, combiner, maximum, configuration), self._edges)

    def run_scatter_gather_iteration(
        self,
        scatter: ScatterFunction[K, V, S, T],
        gather: GatherFunction[K, V, S],
        maximum: int,
        configuration: IterationConfiguration | None = None,
    ) -> Graph[K, V, T]:
        """Run a scatter-gather iteration. See ``ScatterFunction``."""
        return self._new(scatter_gather(self, scatter, gather, maximum, configuration), self._edges)

    def run_gather_sum_apply_iteration(
        self,
        gather: NeighborGatherFunction[V, T, S] | Callable[[Neighbor[V, T]], S],
        sum_: SumFunction[S] | Callable[[S, S], S],
        apply: ApplyFunction[V, S] | Callable[[S, V], V | None],
        maximum: int,
        configuration: IterationConfiguration | None = None,
    ) -> Graph[K, V, T]:
        """Run a gather-sum-apply iteration. See ``GatherFunction``."""
        return self._new(gather_sum_apply(self, gather, sum_, apply, maximum, configuration), self._edges)

    # ---- graphs made of graphs: mapped, filtered, joined with values, changed, and put together

    # ---- values

    def _changed(self, vertices: DataSet, edges: DataSet) -> Any:
        """Return a graph of records of other types."""
        return self._new(vertices, edges)

    def map_vertices(self, function: Callable[[GraphVertex[K, V]], R]) -> Graph[K, R, T]:
        """Replace each vertex's value by ``function(vertex)``."""
        mapped = self._vertices.map(lambda vertex: (vertex[0], function(GraphVertex(vertex[0], vertex[1]))))
        made: Graph[K, R, T] = self._changed(mapped.with_forwarded_fields("f0"), self._edges)
        return made

    def map_edges(self, function: Callable[[GraphEdge[K, T]], R]) -> Graph[K, V, R]:
        """Replace each edge's value by ``function(edge)``."""
        mapped = self._edges.map(lambda edge: (edge[0], edge[1], function(GraphEdge(edge[0], edge[1], edge[2]))))
        made: Graph[K, V, R] = self._changed(self._vertices, mapped.with_forwarded_fields("f0; f1"))
        return made

    def translate_graph_ids(self, function: Callable[[K], R]) -> Graph[R, V, T]:
        """Replace each id by ``function(id)``, which must return different ids for different ones."""
        vertices = self._vertices.map(lambda vertex: (function(vertex[0]), vertex[1]))
        made: Graph[R, V, T] = self._changed(
            vertices, self._edges.map(lambda edge: (function(edge[0]), function(edge[1]), edge[2]))
        )
        return made

    def join_with_vertices(self, values: DataSet[tuple[K, S]], function: Callable[[V, S], V]) -> Self:
        """Replace a vertex's value by ``function(vertex value, value)``, where ``values`` has ``(id, value)``.

        A vertex without one keeps its value; of several with the same id, one is taken.
        """
        joined = self._vertices.left_outer_join(values.distinct(0)).where(0).equal_to(0)
        return self._new(
            joined.using(lambda vertex, found: (vertex[0], function(vertex[1], found[1])) if found else vertex),
            self._edges,
        )

    def join_with_edges(self, values: DataSet[tuple[K, K, S]], function: Callable[[T, S], T]) -> Self:
        """As ``join_with_vertices``, for edges: ``values`` has ``(source, target, value)``."""
        return self._join_edges(values, (0, 1), function)

    def join_with_edges_on_source(self, values: DataSet[tuple[K, S]], function: Callable[[T, S], T]) -> Self:
        """As ``join_with_edges``, where ``values`` has ``(source, value)``."""
        return self._join_edges(values, (0,), function)

    def join_with_edges_on_target(self, values: DataSet[tuple[K, S]], function: Callable[[T, S], T]) -> Self:
        """As ``join_with_edges``, where ``values`` has ``(target, value)``."""
        return self._join_edges(values, (1,), function)

    def _join_edges(self, values: DataSet, key: tuple[int, ...], function: Any) -> Self:
        places = tuple(range(len(key)))
        joined = self._edges.left_outer_join(values.distinct(*places)).where(*key).equal_to(*places)

        def changed(edge: Any, found: Any) -> Any:
            return (edge[0], edge[1], function(edge[2], found[len(key)])) if found else edge

        return self._new(self._vertices, joined.using(changed))

    # ---- parts

    def filter_on_vertices(self, function: Callable[[GraphVertex[K, V]], object]) -> Self:
        """Keep the vertices for which ``function(vertex)`` is true, and the edges between them."""
        kept = self._vertices.filter(lambda vertex: function(GraphVertex(vertex[0], vertex[1])))
        return self._new(kept, self._among(self._edges, kept))

    def filter_on_edges(self, function: Callable[[GraphEdge[K, T]], object]) -> Self:
        """Keep the edges for which ``function(edge)`` is true, and all vertices."""
        kept = self._edges.filter(lambda edge: function(GraphEdge(edge[0], edge[1], edge[2])))
        return self._new(self._vertices, kept)

    def subgraph(
        self,
        vertex_filter: Callable[[GraphVertex[K, V]], object],
        edge_filter: Callable[[GraphEdge[K, T]], object],
    ) -> Self:
        """Keep vertices and edges for which the filters are true; an edge needs both its vertices."""
        return self.filter_on_vertices(vertex_filter).filter_on_edges(edge_filter)

    @staticmethod
    def _among(edges: DataSet, vertices: DataSet) -> DataSet:
        for place in (0, 1):
            edges = edges.join(vertices).where(place).equal_to(0).using(_left)
        return edges

    def reverse(self) -> Self:
        """Turn every edge round."""
        return self._new(self._vertices, self._edges.map(_reversed))

    def get_undirected(self) -> Self:
        """Add the reverse of every edge, also where it is there already."""
        return self._new(self._vertices, self._edges.flat_map(lambda edge: [edge, _reversed(edge)]))

    def simplify(self, undirected: bool = False) -> Self:
        """Remove edges of a vertex with itself, and all but one of equal source and target; values are lost.

        With ``undirected``, every edge gets a reverse first.
        """
        edges = self._edges.filter(lambda edge: edge[0] != edge[1])
        if undirected:
            edges = edges.flat_map(lambda edge: [edge, _reversed(edge)])
        return self._new(self._vertices, edges.map(lambda edge: (edge[0], edge[1], None)).distinct(0, 1))

    # ---- mutations

    def add_vertex(self, vertex: tuple[K, V]) -> Self:
        """Add a vertex; one with that id stays as it is."""
        return self.add_vertices([vertex])

    def add_vertices(self, vertices: Iterable[tuple[K, V]]) -> Self:
        """Add vertices; those with known ids stay as they are."""
        more = self._collection(vertices, 2, "add_vertices")
        return self._new(self._vertices.co_group(more).where(0).equal_to(0).using(_first_of_either), self._edges)

    def add_edge(self, source: Any, target: Any, value: Any = None) -> Self:
        """Add an edge between two vertices ``(id, value)``, which are added too if they are missing."""
        edge = self._collection([(source[0], target[0], value)], 3, "add_edge")
        return type(self)(self.add_vertices([source, target])._vertices, self._edges.union(edge))

    def add_edges(self, edges: Iterable[tuple[K, K, T]]) -> Self:
        """Add the edges whose two ends are vertices of the graph; ignore others."""
        more = self._among(self._collection(edges, 3, "add_edges"), self._vertices)
        return self._new(self._vertices, self._edges.union(more))

    def remove_vertex(self, vertex_id: K) -> Self:
        """Remove a vertex and its edges."""
        return self.remove_vertices([vertex_id])

    def remove_vertices(self, ids: Iterable[K]) -> Self:
        """Remove vertices and their edges."""
        gone = frozenset(ids)
        kept = self._vertices.filter(lambda vertex: vertex[0] not in gone)
        return self._new(kept, self._edges.filter(lambda edge: edge[0] not in gone and edge[1] not in gone))

    def remove_edge(self, source: K, target: K) -> Self:
        """Remove all edges from one vertex to another."""
        return self.remove_edges([(source, target)])

    def remove_edges(self, edges: Iterable[tuple[K, K] | tuple[K, K, T]]) -> Self:
        """Remove all edges with these sources and targets."""
        gone = frozenset((edge[0], edge[1]) for edge in edges)
        return self._new(self._vertices, self._edges.filter(lambda edge: (edge[0], edge[1]) not in gone))

    def _collection(self, records: Iterable[Any], width: int, method: str) -> DataSet:
        made = [tuple(record) for record in records]
        for record in made:
            if len(record) != width:
                wanted = "(id, value)" if width == 2 else "(source, target, value)"
                raise InvalidProgram(f"{method}() got {record!r}; give {wanted}.")
        return self.get_context().from_collection(made)

    # ---- two graphs

    def union(self, other: Self) -> Self:
        """Put two graphs together: of vertices with equal ids one stays (of this graph), of edges all."""
        vertices = self._vertices.co_group(other._vertices).where(0).equal_to(0).using(_first_of_either)
        return self._new(vertices, self._edges.union(other._edges))

    def difference(self, other: Self) -> Self:
        """Remove the vertices of another graph, with all their edges."""
        kept = self._vertices.co_group(other._vertices).where(0).equal_to(0).using(_only_left)
        return self._new(kept, self._among(self._edges, kept))

    def intersect(self, other: Self, distinct: bool = True) -> Self:
        """Keep the edges, equal in source, target and value, that both graphs have; vertices have no values.

        With ``distinct``, an edge is kept once, else as often as there are pairs of it.
        """
        pairs = self._edges.map(tuple).co_group(other._edges.map(tuple)).where(0, 1).equal_to(0, 1)
        return self._new(None, pairs.using(partial(_common, distinct)))

    # ---- what is computed of a vertex's edges and neighbours, in one step without an iteration

    def reduce_on_edges(
        self, function: Callable[[T, T], T], direction: EdgeDirection = EdgeDirection.OUT
    ) -> DataSet[tuple[K, T]]:
        """Reduce the values of a vertex's edges, two at a time, to ``(id, value)``; a vertex without edges has none."""
        sides = _sides(direction)
        values = self._edges.flat_map(lambda edge: [(edge[side], edge[2]) for side, _ in sides])
        return values.group_by(0).reduce(lambda one, other: (one[0], function(one[1], other[1])))

    def reduce_on_neighbors(
        self, function: Callable[[V, V], V], direction: EdgeDirection = EdgeDirection.OUT
    ) -> DataSet[tuple[K, V]]:
        """Reduce the values of a vertex's neighbours, two at a time, to ``(id, value)``."""
        values = self._neighbors(direction).map(lambda found: (found[0], found[2][1]))
        return values.group_by(0).reduce(lambda one, other: (one[0], function(one[1], other[1])))

    def group_reduce_on_edges(
        self, function: Any, direction: EdgeDirection = EdgeDirection.OUT, with_vertex_value: bool = False
    ) -> DataSet:
        """Call ``function(id, edges)`` for each vertex that has edges; it returns or yields any records.

        With ``with_vertex_value`` it is ``function(vertex, edges)``, also for vertices without edges.
        """
        sides = _sides(direction)
        edges = self._edges.flat_map(lambda edge: [(edge[side], GraphEdge(*edge)) for side, _ in sides])
        return self._grouped(edges, function, with_vertex_value)

    def group_reduce_on_neighbors(
        self, function: Any, direction: EdgeDirection = EdgeDirection.OUT, with_vertex_value: bool = False
    ) -> DataSet:
        """As ``group_reduce_on_edges``, with pairs of an edge and the neighbour at its other end."""
        pairs = self._neighbors(direction).map(lambda found: (found[0], (found[1], found[2])))
        return self._grouped(pairs, function, with_vertex_value)

    def _neighbors(self, direction: EdgeDirection) -> DataSet:
        """Return (id, edge, neighbour)."""
        sides = _sides(direction)
        ends = self._edges.flat_map(lambda edge: [(edge[side], edge[other], GraphEdge(*edge)) for side, other in sides])
        joined = ends.join(self._vertices).where(1).equal_to(0)
        found: DataSet = joined.using(lambda end, vertex: (end[0], end[2], GraphVertex(vertex[0], vertex[1])))
        return found

    def _grouped(self, found: DataSet, function: Callable[..., Any], with_vertex_value: bool) -> DataSet:
        if not with_vertex_value:
            return found.group_by(0).reduce_group(partial(_per_id, function))
        return self._vertices.co_group(found).where(0).equal_to(0).using(partial(_per_vertex, function))


def _common(distinct: bool, ones: Iterable[Any], others: Iterable[Any]) -> Iterator[Any]:
    """Return the edges that are on both sides; values need no order."""
    left = list(others)
    seen: list[Any] = []
    for edge in ones:
        if edge not in left:
            continue
        if not distinct:
            left.remove(edge)
        elif edge in seen:
            continue
        seen.append(edge)
        yield edge


def _left(edge: Any, _: Any) -> Any:
    return edge


def _reversed(edge: Any) -> tuple[Any, Any, Any]:
    return (edge[1], edge[0], edge[2])


def _first_of_either(ones: Iterable[Any], others: Iterable[Any]) -> Iterator[Any]:
    own = list(ones)
    yield from own or [next(iter(others))]


def _only_left(ones: Iterable[Any], others: Iterable[Any]) -> Iterator[Any]:
    if not any(True for _ in others):
        yield from ones


def _sides(direction: EdgeDirection) -> list[tuple[int, int]]:
    """Return, per use of an edge, which of its ends owns it, and which is the neighbour."""
    if not isinstance(direction, EdgeDirection):
        raise InvalidProgram(f"the direction {direction!r} is no EdgeDirection: use EdgeDirection.IN, OUT or ALL.")
    return {EdgeDirection.OUT: [(0, 1)], EdgeDirection.IN: [(1, 0)], EdgeDirection.ALL: [(0, 1), (1, 0)]}[direction]


def _per_id(function: Callable[..., Any], group: Iterable[Any]) -> Iterable[Any]:
    """Call the function with the group of an id."""
    found = list(group)
    return function(found[0][0], [each for _, each in found]) or ()


def _per_vertex(function: Callable[..., Any], vertices: Iterable[Any], found: Iterable[Any]) -> Iterator[Any]:
    """Call the function with a vertex and its values; values without a vertex are left out."""
    own = [each for _, each in found]
    for vertex in vertices:
        yield from function(GraphVertex(vertex[0], vertex[1]), own) or ()


def _widths(records: Iterable[Any], width: int, what: str, wanted: str, remedy: str) -> list[Any]:
    found = list(records)
    for record in found:
        if not isinstance(record, tuple) or len(record) != width:
            raise InvalidProgram(f"the {what} {record!r} is no tuple {wanted}. {remedy}")
    return found
