"""A rule: a name, and a function from a plan to a plan with notes.

A rule sees the plan as the rules before it left it, and decides from the specs' traits and the context, never from the runtime.
It is the only one that makes its decision. What it decides, and why not otherwise, it says in notes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from funken import config
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.plan.nodes import Node
from funken.plan.physical import PhysicalPlan, RuleNote
from funken.state.backend import StateSettings


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
