"""``Graph``: how it is made, and what runs on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from funken.dataset import DataSet, ExecutionEnvironment
from funken.errors import InvalidProgram
from funken.graph.iterations.configuration import IterationConfiguration
from funken.graph.iterations.gather_sum_apply import gather_sum_apply
from funken.graph.iterations.scatter_gather import scatter_gather
from funken.graph.iterations.vertex_centric import vertex_centric
from funken.graph.neighborhoods import GraphNeighborhoods
from funken.graph.transformations import GraphTransformations


class Graph(GraphTransformations, GraphNeighborhoods):
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
    """

    # ---- how it is made

    @classmethod
    def from_data_set(cls, edges: DataSet, vertices: Any = None) -> Graph:
        """Make a graph of edges, and of vertices or a function from an id to the vertex's value.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> Graph.from_data_set(env.from_elements((1, 2, 0.5)), lambda id: 0).number_of_vertices()
        2
        """
        if vertices is None or callable(vertices):
            return cls(None, edges, initializer=vertices)
        if not isinstance(vertices, DataSet):
            raise InvalidProgram(
                f"from_data_set(): {vertices!r} is neither a data set of vertices nor a function of an id."
            )
        return cls(vertices, edges)

    @classmethod
    def from_tuple2_data_set(cls, edges: DataSet, vertices: Any = None) -> Graph:
        """Make a graph of ``(source, target)`` pairs; edges have the value None.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> Graph.from_tuple2_data_set(env.from_elements((1, 2))).get_edges().collect()
        [(1, 2, None)]
        """
        return cls.from_data_set(edges.map(lambda pair: (pair[0], pair[1], None)), vertices)

    @classmethod
    def from_collection(cls, env: ExecutionEnvironment, edges: Iterable[Any], vertices: Any = None) -> Graph:
        """Make a graph of lists of tuples; ``vertices`` may be a function from an id to a value."""
        found = _widths(edges, 3, "edge", "(source, target, value)")
        if vertices is not None and not callable(vertices):
            vertices = env.from_collection(_widths(vertices, 2, "vertex", "(id, value)"))
        return cls.from_data_set(env.from_collection(found), vertices)

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
        found = env.from_spark(edges).map(lambda row: (row[0], row[1], row[2] if len(row) > 2 else None))
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
        edges = [(source, target, data.get(weight)) for source, target, data in graph.edges(data=True)]
        if not graph.is_directed():
            edges += [(target, source, value) for source, target, value in edges if source != target]
        return cls.from_collection(env, edges, [(node, dict(data)) for node, data in graph.nodes(data=True)])

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
        from funken.graph.columns.chunks import chunks_of

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
        from funken.graph.columns.chunks import ParquetChunks

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

    def run(self, algorithm: Any) -> Any:
        """Return what ``algorithm.run(graph)`` returns: a data set, a graph, or an analytic that is still to be executed."""
        if not callable(getattr(algorithm, "run", None)) or isinstance(algorithm, type):
            raise InvalidProgram(f"run() needs an object with a method run(graph), but got {algorithm!r}.")
        return algorithm.run(self)

    def run_vertex_centric_iteration(
        self,
        compute: Any,
        combiner: Any,
        maximum: int,
        configuration: IterationConfiguration | None = None,
    ) -> Graph:
        """Run a vertex program (Pregel); the result has the new vertex values. See ``ComputeFunction``."""
        return self._new(vertex_centric(self, compute, combiner, maximum, configuration), self._edges)

    def run_scatter_gather_iteration(
        self, scatter: Any, gather: Any, maximum: int, configuration: IterationConfiguration | None = None
    ) -> Graph:
        """Run a scatter-gather iteration. See ``ScatterFunction``."""
        return self._new(scatter_gather(self, scatter, gather, maximum, configuration), self._edges)

    def run_gather_sum_apply_iteration(
        self, gather: Any, sum_: Any, apply: Any, maximum: int, configuration: IterationConfiguration | None = None
    ) -> Graph:
        """Run a gather-sum-apply iteration. See ``GatherFunction``."""
        return self._new(gather_sum_apply(self, gather, sum_, apply, maximum, configuration), self._edges)


def _widths(records: Iterable[Any], width: int, what: str, wanted: str) -> list[Any]:
    found = list(records)
    for record in found:
        if not isinstance(record, tuple) or len(record) != width:
            raise InvalidProgram(f"the {what} {record!r} is no tuple {wanted}.")
    return found
