"""igraph, in C, on one core, and networkx, in Python, on one core."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from protocol import measure
from workload import read_graph


class OnIgraph:
    """The algorithms of igraph; its PageRank solves to convergence (PRPACK)."""

    def _graph(self, path: str, directed: bool = True) -> tuple[Any, np.ndarray, np.ndarray]:
        import igraph  # noqa: PLC0415

        source, target, weight = read_graph(path)
        seen = np.zeros(max(int(source.max()), int(target.max())) + 1, bool)
        seen[source] = seen[target] = True  # np.union1d would take longer than the algorithms
        ids, place = np.flatnonzero(seen), np.cumsum(seen) - 1
        edges = np.stack([place[source], place[target]], axis=1)
        return igraph.Graph(n=len(ids), edges=edges, directed=directed), ids, weight

    def pagerank(self, path: str) -> Any:
        graph, ids, _ = self._graph(path)
        return ids, graph.pagerank(damping=0.85)

    def components(self, path: str) -> Any:
        graph, ids, _ = self._graph(path)
        membership = np.array(graph.connected_components(mode="weak").membership)
        least = np.full(membership.max() + 1, np.iinfo(np.int64).max)
        np.minimum.at(least, membership, ids)
        return ids, least[membership]

    def sssp(self, path: str) -> Any:
        graph, ids, weight = self._graph(path)
        return ids, graph.distances(0, weights=weight.tolist())[0]

    def triangles(self, path: str) -> Any:
        graph, _, _ = self._graph(path, directed=False)
        graph.simplify()
        return [0], [len(graph.list_triangles()) if graph.ecount() < 1000 else _triangles(graph)]


def _triangles(graph: Any) -> int:
    """Count by igraph's share of closed triplets, which it computes without a list of triangles."""
    degrees = np.array(graph.degree(), np.int64)
    triplets = int((degrees * (degrees - 1) // 2).sum())
    return round(graph.transitivity_undirected(mode="zero") * triplets / 3)


class OnNetworkx:
    """The algorithms of networkx."""

    def _graph(self, path: str) -> Any:
        import networkx  # noqa: PLC0415

        source, target, weight = (array.tolist() for array in read_graph(path))
        graph = networkx.DiGraph()
        graph.add_weighted_edges_from(zip(source, target, weight, strict=True))
        return graph

    def pagerank(self, path: str) -> Any:
        import networkx  # noqa: PLC0415

        graph = self._graph(path)
        return list(networkx.pagerank(graph, 0.85, max_iter=1000, tol=1e-12 / len(graph), weight=None).items())

    def components(self, path: str) -> Any:
        import networkx  # noqa: PLC0415

        found = networkx.weakly_connected_components(self._graph(path))
        return [(vertex, least) for component in found for least in [min(component)] for vertex in component]

    def sssp(self, path: str) -> Any:
        import networkx  # noqa: PLC0415

        graph = self._graph(path)
        lengths = networkx.single_source_dijkstra_path_length(graph, 0)
        return [(vertex, lengths.get(vertex, float("inf"))) for vertex in graph]

    def triangles(self, path: str) -> Any:
        import networkx  # noqa: PLC0415

        return [(0, sum(networkx.triangles(self._graph(path).to_undirected()).values()) // 3)]


if __name__ == "__main__":
    library, path, _, folder, *algorithms = sys.argv[1:]
    system: OnIgraph | OnNetworkx = OnIgraph() if library == "igraph" else OnNetworkx()
    measure({name: getattr(system, name) for name in algorithms}, algorithms, path, folder)
