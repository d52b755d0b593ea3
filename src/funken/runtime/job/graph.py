"""The graph of a job as plain data: what a picture of it is drawn from."""

from __future__ import annotations

from funken.dataclass import dataclass
from funken.plan.physical import PhysicalPlan


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """An operator of a chain: ``id`` is its stable id, by which its state and its metrics are found.

    ``inputs`` are the ids of the operators that it reads from; ``description`` is what it does, of SQL its line in the plan.
    """

    id: str
    name: str
    kind: str
    uid: str | None
    description: str = ""
    inputs: tuple[str, ...] = ()


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
    ids = {node.id: plan.stable_ids.get(node.id, str(node.id)) for vertex in plan.vertices for node in vertex.nodes}
    return JobGraph(
        tuple(
            VertexInfo(
                vertex.id,
                vertex.name,
                vertex.parallelism,
                vertex.max_parallelism,
                vertex.stage,
                tuple(
                    OperatorInfo(
                        ids[node.id],
                        node.name,
                        node.kind,
                        node.uid,
                        node.description or "",
                        tuple(ids[given.upstream] for given in (*node.inputs, *node.feedback) if given.upstream in ids),
                    )
                    for node in vertex.nodes
                ),
            )
            for vertex in plan.vertices
        ),
        tuple(EdgeInfo(edge.source, edge.target, edge.index, edge.label, edge.side, edge.local) for edge in plan.edges),
    )
