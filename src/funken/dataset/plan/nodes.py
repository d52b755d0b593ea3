"""The logical plan: one immutable node per operator of the program, linked from consumer to producer.

A node says what is to be computed, never how. Nodes are compared by identity: the same function applied twice is two nodes.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from funken.dataset.plan.functions import DataSetFunction
from funken.dataset.plan.keys import UNKNOWN, Key, Ordering, Path, RecordType, make_paths
from funken.errors import InvalidProgram


@dataclass(frozen=True)
class Statistics:
    """The size of a data set by the program or a source; None is not known."""

    records: float | None = None
    size: float | None = None


UNKNOWN_SIZE = Statistics()
T = TypeVar("T")


class Forwarded(tuple[tuple[int, Path, Path], ...]):
    """Fields that a function copies unchanged: which input, where from, where to."""

    __slots__ = ()


NOTHING_FORWARDED = Forwarded()
ALL_FORWARDED = Forwarded([(0, (), ())])


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """An operator of a plan: the part that all operators share."""

    id: int
    name: str
    inputs: tuple[Node, ...] = ()
    type: RecordType = UNKNOWN
    parallelism: int | None = None
    broadcasts: tuple[tuple[str, Node], ...] = ()
    forwarded: Forwarded = NOTHING_FORWARDED
    statistics: Statistics = UNKNOWN_SIZE

    @property
    def parents(self) -> tuple[Node, ...]:
        """Return every node that this one reads, broadcast sets included."""
        return (*self.inputs, *(node for _, node in self.broadcasts))

    @property
    def function(self) -> DataSetFunction | None:
        """Return the function of the program in it, if there is one."""
        return getattr(self, "call", None)

    @property
    def details(self) -> str:
        """Return its distinctive settings, for ``explain``."""
        return ""

    @property
    def single(self) -> bool:
        """True if the operator can only run as one task: its result depends on all records together."""
        return False


@dataclass(frozen=True, eq=False, kw_only=True)
class _OfFormat(Node):
    """An end of a program; ``format`` says where the records come from, or go."""

    format: Any

    @property
    def details(self) -> str:
        """Return the format."""
        return str(self.format)


@dataclass(frozen=True, eq=False, kw_only=True)
class SourceNode(_OfFormat):
    """Reads records from an input format."""


class Kind(enum.Enum):
    """The calling convention of the function of an operator with one input."""

    MAP = "map"
    FLAT_MAP = "flat_map"
    FILTER = "filter"
    MAP_PARTITION = "map_partition"


@dataclass(frozen=True, eq=False, kw_only=True)
class Apply(Node):
    """A function per record or per partition."""

    kind: Kind
    call: DataSetFunction


class CombineHint(enum.Enum):
    """A strategy for the reduction of records before they travel.

    >>> from funken.dataset import ExecutionEnvironment
    >>> pairs = ExecutionEnvironment.create_local_environment(parallelism=2).from_elements((1, 2), (1, 3))
    >>> pairs.group_by(0).reduce(lambda a, b: (a[0], a[1] + b[1]), CombineHint.SORT).collect()
    [(1, 5)]
    """

    OPTIMIZER_CHOOSES = 0
    HASH = 1
    SORT = 2
    NONE = 3


@dataclass(frozen=True, eq=False, kw_only=True)
class _OfGroups(Node):
    """A function of groups; without a key, all records are one group."""

    key: Key | None
    call: DataSetFunction

    @property
    def details(self) -> str:
        """Return the key."""
        return str(self.key or "")

    @property
    def single(self) -> bool:
        """Without a key there is one group."""
        return self.key is None


@dataclass(frozen=True, eq=False, kw_only=True)
class Reduce(_OfGroups):
    """Two records of a group into one, until one is left."""

    hint: CombineHint = CombineHint.OPTIMIZER_CHOOSES
    vectorized: bool = True
    """True if lists of records may be lifted into columns."""


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupReduce(_OfGroups):
    """All records of a group into any number of records."""

    ordering: Ordering = ()
    combiner: DataSetFunction | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupCombine(_OfGroups):
    """The records of a group that one task happens to have, into any number of records."""

    ordering: Ordering = ()
    single = False


class JoinKind(enum.Enum):
    """The type of a join, by the sides whose records it emits without a partner."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"


class JoinHint(enum.Enum):
    """The strategy that a join has to take.

    >>> from funken.dataset import ExecutionEnvironment
    >>> pairs = ExecutionEnvironment.create_local_environment(parallelism=2).from_elements((1, 2), (3, 4))
    >>> pairs.join(pairs, JoinHint.REPARTITION_SORT_MERGE).where(0).equal_to(0).count()
    2
    """

    OPTIMIZER_CHOOSES = 0
    BROADCAST_HASH_FIRST = 1
    BROADCAST_HASH_SECOND = 2
    REPARTITION_HASH_FIRST = 3
    REPARTITION_HASH_SECOND = 4
    REPARTITION_SORT_MERGE = 5


@dataclass(frozen=True, eq=False, kw_only=True)
class Join(Node):
    """Pairs of records with equal keys; ``flat`` functions return any number of records for a pair."""

    kind: JoinKind
    keys: tuple[Key, Key]
    call: DataSetFunction | None = None
    flat: bool = False
    hint: JoinHint = JoinHint.OPTIMIZER_CHOOSES

    @property
    def details(self) -> str:
        """Return the keys."""
        return f"{self.kind.value}: {self.keys[0]} = {self.keys[1]}"


@dataclass(frozen=True, eq=False, kw_only=True)
class CoGroupNode(Node):
    """The groups of both inputs, for every key that one of them has."""

    keys: tuple[Key, Key]
    call: DataSetFunction
    orderings: tuple[Ordering, Ordering] = ((), ())

    @property
    def details(self) -> str:
        """Return the keys."""
        return f"{self.keys[0]} = {self.keys[1]}"


class CrossHint(enum.Enum):
    """The small side of a cross."""

    OPTIMIZER_CHOOSES = 0
    SECOND_IS_SMALL = 1
    FIRST_IS_SMALL = 2


@dataclass(frozen=True, eq=False, kw_only=True)
class Cross(Node):
    """All pairs."""

    call: DataSetFunction | None = None
    hint: CrossHint = CrossHint.OPTIMIZER_CHOOSES


@dataclass(frozen=True, eq=False, kw_only=True)
class Union(Node):
    """The records of all inputs."""


class PartitionMethod(enum.Enum):
    """A rule that spreads records over tasks."""

    HASH = "hash"
    RANGE = "range"
    CUSTOM = "custom"
    REBALANCE = "rebalance"


@dataclass(frozen=True, eq=False, kw_only=True)
class Partition(Node):
    """The same records, on other tasks."""

    method: PartitionMethod
    key: Key | None = None
    partitioner: DataSetFunction | None = None
    descending: tuple[bool, ...] = ()

    @property
    def details(self) -> str:
        """Return the method and the key."""
        return f"{self.method.value} {self.key or ''}".strip()


@dataclass(frozen=True, eq=False, kw_only=True)
class SortPartition(Node):
    """The same records on the same tasks, each task's in order."""

    ordering: Ordering

    @property
    def details(self) -> str:
        """Return the order."""
        return ", ".join(map(str, self.ordering))


@dataclass(frozen=True, eq=False, kw_only=True)
class SinkNode(_OfFormat):
    """Writes records to an output format."""

    ordering: Ordering = ()


class Role(enum.Enum):
    """The kind of data set from which the step of an iteration starts."""

    PARTIAL_SOLUTION = "partial solution"
    WORKSET = "workset"
    SOLUTION_SET = "solution set"


@dataclass(frozen=True, eq=False, kw_only=True)
class Placeholder(Node):
    """The data set from which the step of an iteration starts, in every superstep anew."""

    role: Role


@dataclass(frozen=True)
class Aggregators:
    """The aggregators of an iteration, by name, and the one that decides whether it has converged."""

    made: tuple[tuple[str, Any], ...] = ()
    convergence: tuple[str, Any] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Iteration(Node):
    """Repeats a step up to ``maximum`` times. ``statics`` are the constant nodes that the step reads."""

    maximum: int
    dynamic: frozenset[int]
    statics: tuple[Node, ...]
    aggregators: Aggregators = field(default_factory=Aggregators)

    @property
    def parents(self) -> tuple[Node, ...]:
        """The inputs of the iteration, and other inputs of its step."""
        return (*self.inputs, *self.statics)

    @property
    def details(self) -> str:
        """Return the highest number of supersteps."""
        return f"at most {self.maximum} supersteps"


@dataclass(frozen=True, eq=False, kw_only=True)
class BulkIteration(Iteration):
    """Computes ``step`` from ``partial``, which is its own last result."""

    partial: Placeholder
    step: Node
    termination: Node | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class DeltaIterationNode(Iteration):
    """Computes changes of a solution set, and the next workset, from both."""

    key: Key
    solution: Placeholder
    workset: Placeholder
    delta: Node
    next_workset: Node


def walk(roots: Iterable[Node], outside: Iterable[int] = ()) -> Iterator[Node]:
    """Return every node above the roots once, producers before consumers; stop at those that are outside.

    The steps of iterations are not entered.

    >>> source = SourceNode(id=0, name="source", format="numbers")
    >>> [node.name for node in walk([Union(id=1, name="union", inputs=(source, source))])]
    ['source', 'union']
    """
    return walk_up(roots, lambda node: node.parents, outside)


def walk_up(roots: Iterable[T], parents: Callable[[T], Sequence[T]], outside: Iterable[int] = ()) -> Iterator[T]:
    """Return every node above the roots once, producers before consumers; stop at those that are outside."""
    seen: set[int] = set(outside)
    stack: list[tuple[T, bool]] = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack += [(parent, False) for parent in reversed(parents(node))]


# ---- The step of an iteration: what depends on the loop (the dynamic path), and what is computed once (the
# constant path).


def dynamic_nodes(roots: Iterable[Node], placeholders: Iterable[Node]) -> frozenset[int]:
    """Return the identities of the nodes that depend on one of the placeholders, and of these.

    >>> from funken.dataset.plan import nodes
    >>> start = nodes.Placeholder(id=0, name="partial solution", role=nodes.Role.PARTIAL_SOLUTION)
    >>> step = nodes.Union(id=1, name="union", inputs=(start, nodes.SourceNode(id=2, name="source", format="")))
    >>> dynamic_nodes([step], [start]) == {id(start), id(step)}
    True
    """
    found = {id(placeholder) for placeholder in placeholders}
    for node in walk(roots):
        if any(id(parent) in found for parent in node.parents):
            found.add(id(node))
    return frozenset(found)


def static_nodes(roots: Iterable[Node], dynamic: frozenset[int]) -> tuple[Node, ...]:
    """Return the constant nodes that the dynamic path reads, each once."""
    roots = list(roots)
    found: dict[int, Node] = {id(root): root for root in roots if id(root) not in dynamic}
    for node in walk(roots):
        if id(node) in dynamic:
            found.update({id(parent): parent for parent in node.parents if id(parent) not in dynamic})
    return tuple(found.values())


# ---- Forwarded fields: the promise of a function that fields come through unchanged, and where they are then.
#
# ``"f0; f2->f1"`` says that field 0 stays where it is and field 2 becomes field 1; ``"*"`` is the whole record, and
# ``"f0->*"`` says that the output is field 0.


def parse_forwarded(text: str, side: int, records: RecordType, operator: str) -> Forwarded:
    """Read a declaration for one input.

    >>> parse_forwarded("f0; f2->f1", 0, UNKNOWN, "map")
    ((0, (0,), (0,)), (0, (2,), (1,)))
    """
    found: list[tuple[int, Path, Path]] = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        source, arrow, target = (piece.strip() for piece in part.partition("->"))
        if not source or (arrow and not target):
            raise InvalidProgram(f"{operator}: cannot read the forwarded fields {text!r}; write 'f0; f2->f1'.")
        targets = _path(target, UNKNOWN, operator) if arrow else None
        for path in _path(source, records, operator):
            found += [(side, path, to) for to in targets] if targets else [(side, path, path)]
    return Forwarded(found)


def _path(text: str, records: RecordType, operator: str) -> tuple[Path, ...]:
    expression: int | str = int(text) if text.isdigit() else text
    if expression == "*":
        return ((),)
    return make_paths([expression], records, operator)


def forward(path: Path, forwarded: Forwarded, side: int = 0) -> Path | None:
    """Return the place of an input's field in the output; None if it is lost, or may have changed.

    >>> forward((2, 5), Forwarded([(0, (2,), (1,))]))
    (1, 5)
    """
    for of, source, target in forwarded:
        if of == side and path[: len(source)] == source:
            return (*target, *path[len(source) :])
    return None


def backward(path: Path, forwarded: Forwarded, side: int = 0) -> Path | None:
    """Return the place of an output's field in an input.

    >>> backward((1,), Forwarded([(0, (2,), (1,))]))
    (2,)
    """
    for of, source, target in forwarded:
        if of == side and path[: len(target)] == target:
            return (*source, *path[len(target) :])
    return None


def backward_key(key: Key, forwarded: Forwarded, side: int = 0) -> Key | None:
    """Return the key of an input that is this key of the output; None if a field of it is not forwarded."""
    if not key.transparent:
        return key if (side, (), ()) in forwarded else None
    paths = [backward(path, forwarded, side) for path in key.paths]
    return None if None in paths else Key(tuple(path for path in paths if path is not None))
