"""The graph of a program: its nodes, which are frozen, printable, and ignorant of Spark and of records.

A program is a set of ``Node``s, each with an operator spec and its inputs. An ``NodeInput`` names the node it reads, which
of its outputs (main or a side output), to which logical input of the operator it goes, and how records are spread.
"""

from __future__ import annotations

import enum
import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Protocol

import cloudpickle

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.ids import OperatorId
from funken.io.shapes import dumps_by_value, first_unpicklable
from funken.operators.base import OperatorSpec
from funken.operators.process.one_input import ErrorPolicy
from funken.operators.user_functions import UserFunction
from funken.plan import unexecuted
from funken.types.callables import outer_values, place_of_program
from funken.types.info import TypeInformation

if TYPE_CHECKING:
    from funken.columnar.tracing import Traced

# ---- How a program is pickled: every operator and every edge by itself, so that each has its own copy of the
# functions it uses.
#
# Pickle keeps the identity of objects within one call. A plan that is pickled in one call would give one instance
# of a function object, or of what closures share, to all operators of a task that use it. In Flink every operator
# deserializes its own. Classes keep their identity: cloudpickle tracks those it pickles by value.


class OfTheProgram(TypeError):
    """A function refers to a part of the program that builds it; the message is a noun phrase and a remedy."""


class ProgramHome(Protocol):
    """A place where a program runs."""

    def enter(self) -> None:
        """Make it that of this process."""


def portable(thing: Any, place: str = "its plan") -> bytes:
    """Pickle a plan or a part of it; an error names the place and the object that cannot travel."""
    return dumps_by_value(thing, _not_portable, place, thing)


def _not_portable(error: Exception, place: str, thing: Any) -> InvalidProgram:
    if isinstance(error, InvalidProgram):
        return error  # of a part that is pickled by itself
    if isinstance(error, OfTheProgram):
        return InvalidProgram(
            f"the program cannot be sent to the workers: the function of {place} refers to {error}. Functions run in workers, "
            "where the program is not."
        )
    found = culprit(thing)
    reference = "something" if found is None else f"{found[0]!r}, a {type(found[1]).__qualname__}"
    return InvalidProgram(
        f"the program cannot be sent to the workers: {place}: {type(error).__name__}: {error}. A function refers to {reference} "
        f"that cannot be pickled{'' if found else ' (a lock, an open file, a SparkSession?)'}; create it in open() of a function "
        "object."
    )


def culprit(thing: Any, deep: int = 12) -> tuple[str, Any] | None:
    """Return the innermost value in a thing that cannot be pickled, behind the name by which a function refers to it.

    >>> import threading
    >>> lock = threading.Lock()
    >>> culprit({"function": lambda record: lock.locked()})[0]
    'lock'
    """
    for name, value in _references(thing) if deep else ():
        if first_unpicklable([value]) is not None:
            inner = culprit(value, deep - 1)
            return inner or ((name, value) if name else None)
    return None


def _references(thing: Any) -> list[tuple[str, Any]]:
    """Return the values that a thing refers to, those of the program's own with a name."""
    if isinstance(thing, FunctionType):
        return list(outer_values(thing))
    if isinstance(thing, MethodType):
        return [("", thing.__self__)]
    if isinstance(thing, partial):
        return [("", each) for each in (thing.func, *thing.args, *thing.keywords.values())]
    if isinstance(thing, Mapping):
        return [("", each) for each in thing.values()]
    if isinstance(thing, list | tuple | set | frozenset):
        return [("", each) for each in thing]
    own = not type(thing).__module__.startswith("funken.")
    return [(f"self.{name}" if own else "", value) for name, value in getattr(thing, "__dict__", {}).items()]


def by_itself(
    kind: Callable[..., Any], place: str, fields: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the result of a dataclass's ``__reduce__`` that has an object of it pickled by itself."""
    return _restored, (kind, portable(fields, place))


def _restored(kind: Callable[..., Any], fields: bytes) -> Any:
    return kind(**cloudpickle.loads(fields))


def program_bytes(plan: Any) -> bytes:
    """Pickle a plan with the classes of ``__main__``, so that their instances can be pickled by reference.

    Raises ``InvalidProgram`` if that is impossible.
    """
    main = vars(sys.modules["__main__"])
    classes = {}
    for name, value in list(main.items()):  # a copy, made at once: the program goes on meanwhile, and may define more
        of_main = isinstance(value, type) and value.__module__ == "__main__"
        if of_main and first_unpicklable([value]) is None:  # a class that cannot travel is not needed there
            classes[name] = value
    return portable((plan, classes))


def load_program(program: bytes, path: Iterable[str], home: ProgramHome | None = None) -> Any:
    """Unpickle the plan; make the driver's modules and classes findable first, in the program's ``home`` if any."""
    if home is not None:
        home.enter()
    for place in path:
        if place not in sys.path and os.path.isdir(place):
            sys.path.append(place)
    plan, classes = cloudpickle.loads(program)
    main = sys.modules["__main__"]
    for name, value in classes.items():
        setattr(main, name, value)
    return plan


@dataclass(frozen=True)
class BlockForm:
    """The form of the blocks on an edge, where these are no lists of records: columns, or tables.

    The module ``writers`` has the writer of each class of partitionings, as ``WRITERS``. ``to_records``: the operator behind the
    edge works record by record, so blocks are kept smaller.
    """

    writers: str
    to_records: bool = False


@dataclass(frozen=True)
class Partitioning:
    """A rule that spreads the records of an edge over the subtasks of its target."""

    form: BlockForm | None = field(default=None, kw_only=True)

    @property
    def label(self) -> str:
        """The name that ``explain()`` prints."""
        return type(self).__name__.upper()


@dataclass(frozen=True)
class Forward(Partitioning):
    """Subtask *i* to subtask *i*; both sides have the same parallelism."""


@dataclass(frozen=True)
class Hash(Partitioning):
    """Records with equal keys to the subtask that owns their key group."""

    key: UserFunction
    label = "HASH"


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
    """A rule for sharing a vertex with neighbours (Flink's ``ChainingStrategy``)."""

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
    place: str = field(default="", compare=False)
    """The place at which the program reads the side output."""


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
    place: str = field(default="", compare=False, repr=False)
    """The line of the program that adds the operator."""

    @property
    def declares_types(self) -> bool:
        """True if results of the operator are converted to a declared type."""
        return self.output_type is not None or bool(self.side_types)

    def shown(self) -> str:
        """Return the name and the line of the program, for a message."""
        return f"{self.name!r} ({self.place})" if self.place else repr(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the node by itself: operators share no function object."""
        return by_itself(Node, f"operator {self.name!r}", vars(self))


# ---- The DAG of a program while it is being built, and the ids that survive a change of it.
#
# A node can only name nodes that exist, so the graph has no cycles and the order of insertion is a topological one. What the
# head of a loop reads from further down (``Node.feedback``) is left out of that order.
# A stream outlives the execution of its program: what is added to it later brings the nodes it comes from back, and only
# those. Of executed programs the last nodes are remembered, not all.


_REMEMBERED = 1000


class StreamGraph:
    """The nodes of one program, in topological order."""

    unused = False
    """True if a program is built here that was neither executed nor explained."""

    def __init__(self) -> None:
        self._nodes: dict[OperatorId, Node] = {}
        self._past: dict[OperatorId, Node] = {}
        self._next = 1

    def __del__(self) -> None:
        if self.unused and self._nodes:
            unexecuted.lost.append(self._complaint())

    def names(self) -> list[str]:
        """Return the names of the operators, in their order."""
        return [node.name for node in self]

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def __getitem__(self, operator: OperatorId) -> Node:
        node = self._nodes.get(operator) or self._past.get(operator)
        if node is None:
            raise InvalidProgram(
                f"operator {operator} belongs to another program, or to one that was executed long ago. "
                "Build the whole pipeline anew."
            )
        return node

    def add(self, **fields: Any) -> Node:
        """Add a node under a new id."""
        node = Node(id=OperatorId(self._next), place=place_of_program(), **fields)
        for given in node.inputs:
            self._bring_back(given.upstream)
        self._next += 1
        self._nodes[node.id] = node
        if not self.unused:
            self.unused = True
            unexecuted.begun.add(self)
        return node

    def _bring_back(self, operator: OperatorId) -> None:
        if operator in self._nodes:
            return
        node = self[operator]
        for given in node.inputs:
            self._bring_back(given.upstream)
        self._nodes[operator] = node
        for given in node.feedback:
            self._bring_back(given.upstream)

    def change(self, operator: OperatorId, **fields: Any) -> Node:
        """Replace fields of a node."""
        if operator not in self._nodes:
            raise InvalidProgram("this stream belongs to a program that was already executed; build it anew.")
        self._nodes[operator] = node = replace(self._nodes[operator], **fields)
        return node

    def comes_from(self, operator: OperatorId, upstream: OperatorId) -> bool:
        """Return True if an operator is another one or reads from it, through any number of others."""
        left, seen = [operator], set[OperatorId]()
        while left:
            found = left.pop()
            if found == upstream:
                return True
            if found not in seen:
                seen.add(found)
                left += [given.upstream for given in self[found].inputs]
        return False

    @property
    def place(self) -> str:
        """The line of the program that adds the first operator."""
        return next((node.place for node in self), "")

    def _complaint(self) -> str:
        """Return that it never ran, for the end of the script."""
        return unexecuted.never_ran(self.names(), "execute_and_collect() on the stream")

    def take(self) -> StreamGraph:
        """Move all nodes to a new graph and leave this one empty; ids go on counting."""
        taken = StreamGraph()
        taken._nodes, self._nodes = self._nodes, {}
        self.unused = False
        self._past.update(taken._nodes)
        for operator in list(self._past)[:-_REMEMBERED]:
            del self._past[operator]
        return taken

    def up_to(self, operator: OperatorId) -> StreamGraph:
        """Return the graph of an operator and its inputs, by the same ids; it may have been executed."""
        wanted, open_ones = set[OperatorId](), [operator]
        while open_ones:
            wanted.add(found := open_ones.pop())
            open_ones += [given.upstream for given in self[found].inputs if given.upstream not in wanted]
        made = StreamGraph()
        made._nodes = {each: self[each] for each in sorted(wanted)}
        return made

    def stable_ids(self) -> dict[OperatorId, str]:
        """Return the id under which each operator's state is kept: its ``uid``, or a hash of its place in the graph."""
        ids: dict[OperatorId, str] = {}
        seen: dict[str, Node] = {}
        for node in self:
            if node.uid is not None:
                if node.uid in seen:
                    raise InvalidProgram(
                        f"uid {node.uid!r} is used by {seen[node.uid].shown()} and {node.shown()}; a uid names one operator. "
                        "Give one of them another uid()."
                    )
                seen[node.uid] = node
                ids[node.id] = node.uid
                continue
            place = [node.kind, *(f"{ids[i.upstream]}:{i.index}:{i.side}" for i in node.inputs)]
            digest = hashlib.sha256("|".join(place).encode()).hexdigest()[:16]
            twins = sum(1 for other in ids.values() if other.split("#")[0] == digest)
            ids[node.id] = f"{digest}#{twins}" if twins else digest
        return ids


# ---- Edges that carry columns, and how records may be folded before they are sent: what rules decide, and writers do.


@dataclass(frozen=True)
class PreAggregation:
    """The rules by which records become partials: the role of each field, the length of panes, and their functions."""

    roles: tuple[str, ...]
    pane: int | None
    """``None``: all records of a key are in one."""
    offset: int
    functions: tuple[tuple[UserFunction, Traced], ...]


COLUMNS = BlockForm("funken.runtime.exchange.columnar_writer")


@dataclass(frozen=True)
class ColumnarHash(Hash):
    """``Hash`` of columns."""

    traced: Traced
    pre_aggregation: PreAggregation | None = None
    """The aggregation of a block before it is sent; ``None``: none."""
    form: BlockForm | None = field(default=COLUMNS, kw_only=True)


def wants_columns(partitioning: Partitioning) -> bool:
    """Return True if an edge carries columns, and the operator behind it takes them.

    >>> from funken.plan.nodes import Rebalance
    >>> wants_columns(Rebalance(form=COLUMNS)), wants_columns(Rebalance())
    (True, False)
    """
    return partitioning.form is not None and not partitioning.form.to_records
