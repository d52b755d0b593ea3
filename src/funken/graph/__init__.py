"""Graphs on the DataSet API: Gelly's model, iterations per vertex, a library of algorithms on arrays, and graphs on streams.

May import ``funken``, ``funken.dataset``, ``funken.sdk``, ``config``, ``errors`` and ``ids``.
"""

from funken.graph.bipartite import BipartiteGraph, BipartiteProjection
from funken.graph.core import InvalidVertexIdsValidator
from funken.graph.generators import GraphGenerator, RandomGraph, RMatGraph
from funken.graph.graph import Graph
from funken.graph.iterations.configuration import GraphFunction, IterationConfiguration
from funken.graph.iterations.gather_sum_apply import ApplyFunction, Neighbor, NeighborGatherFunction, SumFunction
from funken.graph.iterations.scatter_gather import GatherFunction, ScatterFunction
from funken.graph.iterations.vertex_centric import ComputeFunction, MessageCombiner, MessagingFunction
from funken.graph.library.analytics import GraphAnalytic, GraphMetricsResult
from funken.graph.library.clustering import (
    AverageClusteringCoefficient,
    GlobalClusteringCoefficient,
    GraphMetrics,
    LocalClusteringCoefficient,
    TriangleCount,
    TriangleListing,
)
from funken.graph.library.communities import CommunityDetection, LabelPropagation, Summarization
from funken.graph.library.ranking import HITS, PageRank
from funken.graph.library.reaching import BreadthFirstSearch, ConnectedComponents, SingleSourceShortestPaths
from funken.graph.library.similarity import AdamicAdar, JaccardIndex
from funken.graph.records import EdgeDirection, GraphEdge, GraphVertex, Triplet

__all__ = [
    "HITS",
    "AdamicAdar",
    "ApplyFunction",
    "AverageClusteringCoefficient",
    "BipartiteGraph",
    "BipartiteProjection",
    "BreadthFirstSearch",
    "CommunityDetection",
    "ComputeFunction",
    "ConnectedComponents",
    "EdgeDirection",
    "GatherFunction",
    "GlobalClusteringCoefficient",
    "Graph",
    "GraphAnalytic",
    "GraphEdge",
    "GraphFunction",
    "GraphGenerator",
    "GraphMetrics",
    "GraphMetricsResult",
    "GraphVertex",
    "InvalidVertexIdsValidator",
    "IterationConfiguration",
    "JaccardIndex",
    "LabelPropagation",
    "LocalClusteringCoefficient",
    "MessageCombiner",
    "MessagingFunction",
    "Neighbor",
    "NeighborGatherFunction",
    "PageRank",
    "RMatGraph",
    "RandomGraph",
    "ScatterFunction",
    "SingleSourceShortestPaths",
    "SumFunction",
    "Summarization",
    "TriangleCount",
    "TriangleListing",
    "Triplet",
]
