"""The node types of a program: frozen, printable, ignorant of Spark and of records.

A program is a set of ``Node``s, each with an operator spec and its inputs. An ``NodeInput`` names the node it reads, which
of its outputs (main or a side output), to which logical input of the operator it goes, and how records are spread.
"""

from __future__ import annotations

import enum
from typing import Any

from funken.dataclass import dataclass
from funken.ids import OperatorId
from funken.operators.base import OperatorSpec
from funken.operators.process.dead_letters import ErrorPolicy
from funken.operators.user_functions import UserFunction
from funken.plan.serialization import by_itself
from funken.types.info import TypeInformation


@dataclass(frozen=True)
class Partitioning:
    """How the records of an edge are spread over the subtasks of its target."""

    @property
    def label(self) -> str:
        """The name that ``explain()`` prints."""
        return type(self).__name__.upper()

    def writer(self) -> Any:
        """Return the class of the edge writer, of a partitioning that brings its own; ``None``: the runtime knows it."""
        return None


@dataclass(frozen=True)
class Forward(Partitioning):
    """Subtask *i* to subtask *i*; both sides have the same parallelism."""


@dataclass(frozen=True)
class Hash(Partitioning):
    """Records with equal keys to the subtask that owns their key group."""

    key: UserFunction


@dataclass(frozen=True)
class Rebalance(Partitioning):
    """Round robin over all subtasks."""


@dataclass(frozen=True)
class Rescale(Partitioning):
    """Round robin over the subtasks that are this one's share."""


@dataclass(frozen=True)
class Shuffle(Partitioning):
    """To a random subtask."""


@dataclass(frozen=True)
class Broadcast(Partitioning):
    """Every record to every subtask."""


@dataclass(frozen=True)
class Global(Partitioning):
    """Everything to subtask 0."""


@dataclass(frozen=True)
class Custom(Partitioning):
    """To subtask ``partitioner(key(record), parallelism)``."""

    partitioner: UserFunction
    key: UserFunction


class Chaining(enum.Enum):
    """Whether a node may share a vertex with its neighbours (Flink's ``ChainingStrategy``)."""

    ALWAYS = "always"
    HEAD = "head"
    NEVER = "never"


@dataclass(frozen=True)
class NodeInput:
    """One input of a node; ``partitioning`` ``None`` means forward where possible, else rebalance."""

    upstream: OperatorId
    partitioning: Partitioning | None = None
    index: int = 0
    side: str | None = None


@dataclass(frozen=True)
class Node:
    """One operator of a program. ``keyed`` operators get keyed state and timers; ``kind`` is for people.

    ``feedback`` are the inputs of the head of a loop that come from further down: in ``inputs`` there is no cycle.
    ``output_type`` is the declared type of the results, ``side_types`` are those of side outputs, by tag.
    """

    id: OperatorId
    name: str
    kind: str
    spec: OperatorSpec
    inputs: tuple[NodeInput, ...] = ()
    feedback: tuple[NodeInput, ...] = ()
    parallelism: int | None = None
    max_parallelism: int | None = None
    parallelism_limit: int | None = None
    uid: str | None = None
    description: str | None = None
    chaining: Chaining = Chaining.ALWAYS
    slot_sharing_group: str | None = None
    keyed: bool = False
    buffer_timeout: int | None = None
    on_error: ErrorPolicy | None = None
    output_type: TypeInformation | None = None
    side_types: tuple[tuple[str, TypeInformation], ...] = ()

    @property
    def declares_types(self) -> bool:
        """Whether results of the operator are converted to a declared type."""
        return self.output_type is not None or bool(self.side_types)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the node by itself: operators share no function object."""
        return by_itself(Node, f"operator {self.name!r}", vars(self))
