"""Graphs on the DataSet API: Gelly's model, iterations per vertex, a library of algorithms on arrays, and graphs on streams.

May import ``funken``, ``funken.dataset``, ``funken.sdk``, ``config``, ``errors``, ``extras`` and ``ids``.
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
from funken.graph.library.degrees import (
    Degrees,
    EdgeDegreesPair,
    EdgeSourceDegrees,
    EdgeTargetDegrees,
    MaximumDegree,
    VertexDegrees,
)
from funken.graph.library.ranking import HITS, PageRank
from funken.graph.library.reaching import BreadthFirstSearch, ConnectedComponents, SingleSourceShortestPaths
from funken.graph.library.similarity import AdamicAdar, JaccardIndex
from funken.graph.library.triads import (
    DirectedMetrics,
    DirectedMetricsResult,
    EdgeMetrics,
    EdgeMetricsResult,
    TriadicCensus,
)
from funken.graph.records import EdgeDirection, GraphEdge, GraphVertex, Triplet
from funken.graph.streaming.edge_stream import EdgeStream
from funken.graph.streaming.neighborhoods import Neighborhood
from funken.graph.streaming.running import EstimatedTriangles
from funken.graph.streaming.slices import EdgeSlice
from funken.graph.streaming.summaries import DisjointSet
from funken.graph.streaming.summary_functions import (
    Bipartiteness,
    BipartitenessCheck,
    Spanner,
    StreamingConnectedComponents,
)
from funken.graph.streaming.triangles import (
    ExactTriangleCount,
    StreamingTriangles,
    TriangleEstimate,
    WindowTriangleCount,
    WindowTriangles,
)

__all__ = [
    "HITS",
    "AdamicAdar",
    "ApplyFunction",
    "AverageClusteringCoefficient",
    "BipartiteGraph",
    "BipartiteProjection",
    "Bipartiteness",
    "BipartitenessCheck",
    "BreadthFirstSearch",
    "CommunityDetection",
    "ComputeFunction",
    "ConnectedComponents",
    "Degrees",
    "DirectedMetrics",
    "DirectedMetricsResult",
    "DisjointSet",
    "EdgeDegreesPair",
    "EdgeDirection",
    "EdgeMetrics",
    "EdgeMetricsResult",
    "EdgeSlice",
    "EdgeSourceDegrees",
    "EdgeStream",
    "EdgeTargetDegrees",
    "EstimatedTriangles",
    "ExactTriangleCount",
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
    "MaximumDegree",
    "MessageCombiner",
    "MessagingFunction",
    "Neighbor",
    "NeighborGatherFunction",
    "Neighborhood",
    "PageRank",
    "RMatGraph",
    "RandomGraph",
    "ScatterFunction",
    "SingleSourceShortestPaths",
    "Spanner",
    "StreamingConnectedComponents",
    "StreamingTriangles",
    "SumFunction",
    "Summarization",
    "TriadicCensus",
    "TriangleCount",
    "TriangleEstimate",
    "TriangleListing",
    "Triplet",
    "VertexDegrees",
    "WindowTriangleCount",
    "WindowTriangles",
]
