"""Graphs on the DataSet API: Gelly's model, iterations per vertex, a library of algorithms on arrays, and graphs on streams.

May import ``funken``, ``funken.dataset``, ``funken.sdk``, ``config``, ``errors`` and ``ids``.
"""

from funken.graph.core import InvalidVertexIdsValidator
from funken.graph.graph import Graph
from funken.graph.iterations.configuration import GraphFunction, IterationConfiguration
from funken.graph.iterations.gather_sum_apply import ApplyFunction, Neighbor, NeighborGatherFunction, SumFunction
from funken.graph.iterations.scatter_gather import GatherFunction, ScatterFunction
from funken.graph.iterations.vertex_centric import ComputeFunction, MessageCombiner
from funken.graph.library.communities import CommunityDetection, LabelPropagation, Summarization
from funken.graph.library.ranking import HITS, PageRank
from funken.graph.library.reaching import BreadthFirstSearch, ConnectedComponents, SingleSourceShortestPaths
from funken.graph.records import EdgeDirection, GraphEdge, GraphVertex, Triplet

__all__ = [
    "HITS",
    "ApplyFunction",
    "BreadthFirstSearch",
    "CommunityDetection",
    "ComputeFunction",
    "ConnectedComponents",
    "EdgeDirection",
    "GatherFunction",
    "Graph",
    "GraphEdge",
    "GraphFunction",
    "GraphVertex",
    "InvalidVertexIdsValidator",
    "IterationConfiguration",
    "LabelPropagation",
    "MessageCombiner",
    "Neighbor",
    "NeighborGatherFunction",
    "PageRank",
    "ScatterFunction",
    "SingleSourceShortestPaths",
    "SumFunction",
    "Summarization",
    "Triplet",
]
