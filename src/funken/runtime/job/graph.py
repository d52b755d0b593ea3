"""The graph of a job as plain data: what a picture of it is drawn from."""

from __future__ import annotations

from funken.dataclass import dataclass
from funken.plan.physical import PhysicalPlan


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """An operator of a chain: ``id`` is its stable id, by which its state and its metrics are found."""

    id: str
    name: str
    kind: str
    uid: str | None


@dataclass(frozen=True, slots=True)
class VertexInfo:
    """A vertex: its chained operators, and where it runs."""

    id: int
    name: str
    parallelism: int
    max_parallelism: int
    stage: int
    operators: tuple[OperatorInfo, ...]


@dataclass(frozen=True, slots=True)
class EdgeInfo:
    """An edge: from vertex to vertex, and how its records are spread; ``local``: within the task."""

    source: int
    target: int
    input: int
    ship_strategy: str
    side_output: str | None
    local: bool


@dataclass(frozen=True, slots=True)
class JobGraph:
    """The vertices, in topological order, and the edges."""

    vertices: tuple[VertexInfo, ...]
    edges: tuple[EdgeInfo, ...]


def job_graph(plan: PhysicalPlan) -> JobGraph:
    """Return the graph of a plan."""
    return JobGraph(
        tuple(
            VertexInfo(
                vertex.id,
                vertex.name,
                vertex.parallelism,
                vertex.max_parallelism,
                vertex.stage,
                tuple(
                    OperatorInfo(plan.stable_ids.get(node.id, str(node.id)), node.name, node.kind, node.uid)
                    for node in vertex.nodes
                ),
            )
            for vertex in plan.vertices
        ),
        tuple(EdgeInfo(edge.source, edge.target, edge.index, edge.label, edge.side, edge.local) for edge in plan.edges),
    )
