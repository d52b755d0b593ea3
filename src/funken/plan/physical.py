"""From the program's DAG to stages: what runs in which Spark stage, and what crosses between them.

* A *vertex* is a chain: nodes joined by forward edges, run as one piece.
* An *edge* joins two vertices. It is *local* if both are at the same stage (forward, within the task); otherwise it is
  an *exchange*, and raises the stage of what it feeds. An exchange that skips stages is relayed by the tasks between.
* A *feedback edge* leads from a vertex back to the head of a loop. It has no part in stages: its blocks go from task to task.
* Task *i* of stage *L* hosts subtask *i* of every vertex of that stage; a stage is as wide as its widest vertex.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from importlib import import_module
from typing import Any

from funken import config
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.ids import DEFAULT_MAX_PARALLELISM, EdgeId, OperatorId
from funken.operators.user_functions import traits_of
from funken.plan import unexecuted
from funken.plan.nodes import Broadcast, Forward, Hash, Node, NodeInput, Partitioning, Rebalance, StreamGraph, by_itself
from funken.plan.sides import check_sides
from funken.state.backend import StateSettings

# ---- Loops of a plan: which vertices are in one, and how what they feed back is spread.


def components(arcs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return the loop that each vertex of a graph is in: its strongly connected component, if there is a cycle in it.

    >>> components([(0, 1), (1, 2), (2, 1), (2, 3)])
    {1: 1, 2: 1}
    """
    after: dict[int, set[int]] = {}
    for source, target in arcs:
        after.setdefault(source, set()).add(target)
    reached = {vertex: _reached(vertex, after) for vertex in after}
    return {v: min(w for w in found if v in reached.get(w, ())) for v, found in sorted(reached.items()) if v in found}


def _reached(vertex: int, after: Mapping[int, set[int]]) -> set[int]:
    """Return the vertices that can be reached from a vertex by at least one arc."""
    found: set[int] = set()
    left = [vertex]
    while left:
        for following in after.get(left.pop(), set()) - found:
            found.add(following)
            left.append(following)
    return found


def check_closed(nodes: Iterable[Node]) -> None:
    """Raise ``InvalidProgram`` for a loop without a feedback edge."""
    for node in nodes:
        if traits_of(node.spec).loop_head and not node.feedback:
            raise InvalidProgram(
                f"operator {node.name!r} begins a loop that was never closed: call close_with(feedback) on the stream that "
                "iterate() returned, with the stream that enters the loop again."
            )


def resolved_feedback(node: Node, nodes: Mapping[OperatorId, Node]) -> tuple[NodeInput, ...]:
    """Fill in how the records of the feedback edges of a head are spread."""
    found = []
    for given in node.feedback:
        tail, how = nodes[given.upstream], given.partitioning
        same = tail.parallelism == node.parallelism
        if isinstance(how, Broadcast):
            raise InvalidProgram(
                f"the loop of {node.name!r} is closed by broadcast(): copies that are on their way could not be told apart "
                "when it goes on with another parallelism. Close it with the stream itself, and broadcast() in the loop."
            )
        if isinstance(how, Forward) and not same:
            raise InvalidProgram(
                f"the loop of {node.name!r} (parallelism {node.parallelism}) is closed by forward() from {tail.name!r} "
                f"(parallelism {tail.parallelism}). Give both the same parallelism, or close it with rebalance()."
            )
        found.append(replace(given, partitioning=how or (Forward() if same else Rebalance())))
    return tuple(found)


DEFAULT_SLOT_SHARING_GROUP = "default"
"""The group of operators that neither name one nor take one over."""


@dataclass(frozen=True)
class Edge:
    """A physical edge: from one node's output to one input of a vertex."""

    id: EdgeId
    source: int
    source_node: OperatorId
    side: str | None
    target: int
    index: int
    partitioning: Partitioning
    source_parallelism: int
    target_parallelism: int
    target_max_parallelism: int
    source_stage: int
    target_stage: int
    buffer_timeout: int | None = None
    """The longest wait (ms) of records for their block to fill, if the operator before has a say in it."""
    feedback: bool = False
    """True if the edge leads back to the head of a loop."""
    loop: int | None = None
    """The loop that both of its ends are in; loops that share a vertex are one."""

    @property
    def local(self) -> bool:
        """True if the edge stays within its task."""
        return self.source_stage == self.target_stage and not self.feedback

    @property
    def label(self) -> str:
        """The distribution of the edge's records, and their direction if they go back, for readers."""
        return f"{'FEEDBACK ' if self.feedback else ''}{self.partitioning.label}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the edge by itself: its key selector is no operator's."""
        return by_itself(Edge, f"the partitioning after operator {self.source_node}", vars(self))


@dataclass(frozen=True)
class FusedRun:
    """Operators of a vertex that run as one loop, and the exchange whose key and appends are in that loop too."""

    operators: tuple[OperatorId, ...]
    edge: EdgeId | None = None


@dataclass(frozen=True)
class Vertex:
    """A chain of nodes, in topological order, with the level it runs at."""

    id: int
    nodes: tuple[Node, ...]
    parallelism: int
    max_parallelism: int
    stage: int
    fused: tuple[FusedRun, ...] = ()

    @property
    def name(self) -> str:
        """The names of its operators, as Flink writes them: ``a -> b``."""
        return " -> ".join(node.name for node in self.nodes)

    @property
    def source(self) -> Node | None:
        """The source node that heads this vertex, if any."""
        return self.nodes[0] if traits_of(self.nodes[0].spec).source is not None else None


@dataclass(frozen=True)
class LoopHead:
    """A vertex that a feedback edge leads to; a ``root`` reads everything else from outside the loop."""

    vertex: Vertex
    loop: int
    root: bool


@dataclass(frozen=True)
class RuleNote:
    """A decision of a rule, with its reason: about an operator, a vertex, or (without either) the whole plan."""

    rule: str
    text: str
    operator: OperatorId | None = None
    vertex: int | None = None


@dataclass(frozen=True)
class PhysicalPlan:
    """All that a runner needs."""

    name: str
    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]
    widths: tuple[int, ...]
    stable_ids: dict[OperatorId, str] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    """The rules that were applied, in this order (``plan/rules/stage.py``)."""
    notes: tuple[RuleNote, ...] = ()
    """Their decisions, and reasons against others; ``explain()`` prints it."""
    subtasks_per_worker: tuple[int, ...] = ()
    """Maximal number of tasks of each stage that share a worker in continuous mode; empty: none share one."""

    @property
    def workers(self) -> tuple[int, ...]:
        """Number of workers per stage in continuous mode: worker *i* has every so many tasks the one after *i*."""
        shared = self.subtasks_per_worker or (1,) * len(self.widths)
        return tuple(-(-width // most) for width, most in zip(self.widths, shared, strict=True))

    @property
    def slots(self) -> int:
        """Number of task slots that the plan takes in continuous mode: one per worker, all at the same time."""
        return sum(self.workers)

    @property
    def bounded(self) -> bool:
        """True if every source ends by itself."""
        return all(traits_of(node.spec).bounded for node in self.nodes)

    def head_tasks(self, roots: bool = False) -> dict[tuple[int, int], str]:
        """Return the tasks (stage, number) that host heads of loops, or roots among them only, each with an operator's name."""
        heads = [head.vertex for head in self.heads if head.root or not roots]
        return {(each.stage, number): each.nodes[0].name for each in heads for number in range(each.parallelism)}

    def tail_tasks(self) -> set[tuple[int, int]]:
        """Return the tasks (stage, number) that send anything back."""
        back = [edge for edge in self.edges if edge.feedback]
        return {(edge.source_stage, number) for edge in back for number in range(edge.source_parallelism)}

    @property
    def has_loop(self) -> bool:
        """True if records go round anywhere."""
        return any(edge.feedback for edge in self.edges)

    @property
    def nodes(self) -> Iterator[Node]:
        """The operators, vertex by vertex."""
        return (node for vertex in self.vertices for node in vertex.nodes)

    def _repr_html_(self) -> str:
        return str(import_module("funken.plan.explain").plan_svg(self))

    def decided(self, rule: str, operator: OperatorId) -> str | None:
        """Return a rule's note about an operator."""
        return next((note.text for note in self.notes if (note.rule, note.operator) == (rule, operator)), None)

    def reads_from(self, vertex: Vertex, node: Node) -> list[tuple[OperatorId, bool]]:
        """Return the operators before one, each with whether a subtask reads from the subtask of its own number only."""
        if node is not vertex.nodes[0]:
            return [(given.upstream, True) for given in node.inputs]
        return [(edge.source_node, edge.local) for edge in self.edges if edge.target == vertex.id and not edge.feedback]

    @property
    def heads(self) -> list[LoopHead]:
        """The heads of its loops."""
        found = {edge.target: edge.loop for edge in self.edges if edge.feedback}
        inside = {edge.target for edge in self.edges if edge.loop is not None and not edge.feedback}
        return [LoopHead(self.vertices[v], loop, v not in inside) for v, loop in found.items() if loop is not None]

    def at(self, stage: int) -> list[Vertex]:
        """Return the vertices of a stage."""
        return [vertex for vertex in self.vertices if vertex.stage == stage]


def _parallelism(node: Node, default: int, max_parallelism: int) -> int:
    wanted = default if node.parallelism is None else node.parallelism
    if node.parallelism_limit is not None and wanted > node.parallelism_limit:
        if node.parallelism is not None:
            raise InvalidProgram(
                f"operator {node.name!r} has parallelism {wanted}, but cannot run with more than "
                f"{node.parallelism_limit}. Remove set_parallelism(), or add rebalance() and set it on the operators behind it."
            )
        wanted = node.parallelism_limit
    most = node.max_parallelism or max_parallelism
    if 0 < most < wanted:
        raise InvalidProgram(
            f"operator {node.name!r} has parallelism {wanted}, more than its maximum {most}. Lower the one, or raise the "
            "other with set_max_parallelism()."
        )
    return wanted


def _slot_sharing_group(node: Node, nodes: Mapping[OperatorId, Node]) -> str:
    """Return a node's group: the one it names, else the one that all its inputs are in, else the default one."""
    if node.slot_sharing_group is not None:
        return node.slot_sharing_group
    groups = {nodes[given.upstream].slot_sharing_group for given in node.inputs}
    return (groups.pop() if len(groups) == 1 else None) or DEFAULT_SLOT_SHARING_GROUP


def _default_parallelism(node: Node, nodes: Mapping[OperatorId, Node], default: int) -> int:
    """Return the parallelism of a node that names none: where order matters, that of its input."""
    if len(node.inputs) == 1 and node.inputs[0].partitioning is None and traits_of(node.spec).stays_with_input:
        return nodes[node.inputs[0].upstream].parallelism or default
    return default


def resolve(graph: StreamGraph, parallelism: int, max_parallelism: int = -1) -> list[Node]:
    """Fill in the program's open settings: parallelism, maximum parallelism, slot sharing group, partitioning."""
    nodes: dict[OperatorId, Node] = {}
    for node in graph:
        width = _parallelism(node, _default_parallelism(node, nodes, parallelism), max_parallelism)
        limit = node.max_parallelism or (max_parallelism if max_parallelism > 0 else DEFAULT_MAX_PARALLELISM)
        inputs = []
        for given in node.inputs:
            same = nodes[given.upstream].parallelism == width
            how = given.partitioning
            if isinstance(how, Forward) and not same:
                raise InvalidProgram(
                    f"operator {node.name!r} (parallelism {width}) is joined by forward() to "
                    f"{nodes[given.upstream].name!r} (parallelism {nodes[given.upstream].parallelism}). Give both the "
                    "same parallelism, or use rebalance() or rescale()."
                )
            inputs.append(replace(given, partitioning=how or (Forward() if same else Rebalance())))
        nodes[node.id] = replace(
            node,
            parallelism=width,
            max_parallelism=max(limit, width),
            slot_sharing_group=_slot_sharing_group(node, nodes),
            inputs=tuple(inputs),
        )
    return [
        replace(node, feedback=resolved_feedback(node, nodes)) if node.feedback else node for node in nodes.values()
    ]


def _stages(groups: list[list[Node]], vertex_of: dict[OperatorId, int]) -> list[int]:
    """Return each vertex's stage: one more than the highest it reads by an exchange, at least that of a forward one."""
    stages: list[int] = []
    for number, group in enumerate(groups):
        stage = 0
        for given in group[0].inputs:
            below = stages[vertex_of[given.upstream]]
            stage = max(stage, below if isinstance(given.partitioning, Forward) else below + 1)
        stages.append(stage)
        assert len(stages) == number + 1
    return stages


def compile_plan(graph: StreamGraph, name: str, parallelism: int, max_parallelism: int = -1) -> PhysicalPlan:
    """Compile a program into vertices, edges and stages; every operator is a vertex, ``plan/rules/operators.py`` joins them.

    Raises ``InvalidProgram`` for an empty program and for parallelisms that contradict each other.
    """
    if not len(graph):
        raise InvalidProgram(
            "No operators defined in streaming topology. Cannot execute. An execute() takes the program with it: build the "
            f"streams again, with a sink, before the next one.{unexecuted.elsewhere()}"
        )
    check_closed(graph)
    check_sides(graph)
    stable_ids = graph.stable_ids()
    return plan_of_chains(name, [[node] for node in resolve(graph, parallelism, max_parallelism)], stable_ids)


def plan_of_chains(name: str, chains: list[list[Node]], stable_ids: dict[OperatorId, str]) -> PhysicalPlan:
    """Return the plan in which each chain is a vertex; chains are in topological order of their heads."""
    vertex_of = {node.id: number for number, group in enumerate(chains) for node in group}
    stages = _stages(chains, vertex_of)
    vertices = tuple(
        Vertex(number, tuple(group), group[0].parallelism or 1, group[0].max_parallelism or 1, stages[number])
        for number, group in enumerate(chains)
    )
    edges: list[Edge] = []
    for vertex in vertices:
        for given in vertex.nodes[0].inputs:
            edges.append(_edge(EdgeId(len(edges)), given, vertices[vertex_of[given.upstream]], vertex))
    edges = _with_loops(edges, vertices, vertex_of)
    widths = tuple(
        max(vertex.parallelism for vertex in vertices if vertex.stage == stage) for stage in range(max(stages) + 1)
    )
    return PhysicalPlan(name, vertices, tuple(edges), widths, stable_ids)


def _with_loops(edges: list[Edge], vertices: tuple[Vertex, ...], vertex_of: dict[OperatorId, int]) -> list[Edge]:
    """Add the feedback edges, and say of every edge which loop it is in."""
    back = [(given, vertex) for vertex in vertices for given in vertex.nodes[0].feedback]
    if not back:
        return edges
    for given, vertex in back:
        edge = _edge(EdgeId(len(edges)), given, vertices[vertex_of[given.upstream]], vertex)
        edges.append(replace(edge, feedback=True))
    loops = components([(edge.source, edge.target) for edge in edges])
    return [replace(e, loop=loops[e.source] if loops.get(e.source) == loops.get(e.target) else None)
            if e.source in loops else e for e in edges]  # fmt: skip


def _edge(number: EdgeId, given: NodeInput, source: Vertex, target: Vertex) -> Edge:
    assert given.partitioning is not None
    if isinstance(given.partitioning, Hash) and target.parallelism > target.max_parallelism:
        raise InvalidProgram(
            f"operator {target.name!r} has more subtasks than key groups; raise set_max_parallelism()."
        )
    (node,) = (node for node in source.nodes if node.id == given.upstream)
    return Edge(
        id=number,
        source=source.id,
        source_node=given.upstream,
        side=given.side,
        target=target.id,
        index=given.index,
        partitioning=given.partitioning,
        source_parallelism=source.parallelism,
        target_parallelism=target.parallelism,
        target_max_parallelism=target.max_parallelism,
        source_stage=source.stage,
        target_stage=target.stage,
        buffer_timeout=node.buffer_timeout,
    )


# ---- A rule: a name, and a function from a plan to a plan with notes.
#
# A rule sees the plan as the rules before it left it, and decides from the specs' traits and the context, never from the runtime.
# It is the only one that makes its decision. What it decides, and why not otherwise, it says in notes.


@dataclass(frozen=True)
class RuleContext:
    """The context of rules besides the plan: the options for them, and the state from which the attempt starts.

    ``restored_in_keyed_state`` are the stable ids of operators whose restored windows are in keyed state.
    """

    batch: bool = False
    chaining: bool = True
    vectorized: bool = True
    inlining: bool = True
    pre_aggregate: bool = True
    state_in_files: bool = False
    on_error: str = "fail"
    restored_in_keyed_state: frozenset[str] = frozenset()
    subtasks_per_worker: int | None = 1
    """``None``: as many as there are for each of the ``cores``, where no function waits."""
    cores: int | None = None
    """The cores of the one machine on which workers run all at the same time; ``None``: they do not, or it is not known."""

    @staticmethod
    def of(configuration: Configuration, batch: bool, cores: int | None = None) -> RuleContext:
        """Read the options; ``batch``: each result is emitted once.

        >>> RuleContext.of(Configuration({"state.backend.type": "rocksdb"}), batch=True).state_in_files
        False
        """
        get = configuration.get
        shared = get(config.SUBTASKS_PER_WORKER)
        return RuleContext(
            batch,
            get(config.CHAINING),
            get(config.VECTORIZED),
            get(config.INLINING),
            get(config.PRE_AGGREGATION),
            StateSettings.backend_of(configuration, batch) == "rocksdb",
            get(config.ON_ERROR),
            subtasks_per_worker=None if shared == config.AUTO else int(shared),
            cores=cores,
        )


Rewritten = tuple[PhysicalPlan, list[RuleNote]]


@dataclass(frozen=True)
class Rule:
    """One rewrite; ``apply`` returns the plan, and notes on its decisions."""

    name: str
    apply: Callable[[PhysicalPlan, RuleContext], Rewritten]


def with_nodes(plan: PhysicalPlan, rewrite: Callable[[Node], Node]) -> PhysicalPlan:
    """Return a plan with every node rewritten."""
    vertices = (replace(vertex, nodes=tuple(map(rewrite, vertex.nodes))) for vertex in plan.vertices)
    return replace(plan, vertices=tuple(vertices))
