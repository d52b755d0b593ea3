"""Settings of the operator just added: name, parallelism, chaining, partitioning of its output.

A stream says it of the operator it comes from, a sink of itself. Nothing else of the program changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self, overload

from funken.api.functions import as_user_function
from funken.api.streams.family import family
from funken.errors import InvalidProgram
from funken.io.durations import DurationLike, duration_ms
from funken.operators.base import OutputTag
from funken.operators.process.one_input import ErrorPolicy
from funken.operators.user_functions import traits_of
from funken.plan.nodes import (
    Broadcast,
    Chaining,
    Custom,
    Forward,
    Global,
    Node,
    NodeInput,
    Partitioning,
    Rebalance,
    Rescale,
    Shuffle,
    StreamGraph,
)
from funken.types.callables import Generic, R, S, T_co, check_kind
from funken.types.info import TypeInformation, declared

if TYPE_CHECKING:
    from collections.abc import Callable

    from funken.api.environment import StreamExecutionEnvironment
    from funken.api.functions import KeySelector, Partitioner
    from funken.api.streams.connected import BroadcastStream
    from funken.api.streams.sinks import StreamEnds
    from funken.api.streams.stream import DataStream
    from funken.state.descriptors import MapStateDescriptor


def positive(number: int, what: str) -> int:
    """Return a whole number from 1 on; raise ``InvalidProgram`` for anything else."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InvalidProgram(f"{what} must be a whole number from 1 on, but is {number!r}. Pass a number such as 4.")
    return number


class OperatorSettings:
    """The settings that streams and sinks have in common; each method returns the object it was called on.

    >>> import json
    >>> from funken.testing import local
    >>> stream = local(["to", "be"]).map(str.upper).name("capitals").set_parallelism(2)
    >>> longest = stream.key_by(len).reduce(max).name("longest").uid("longest-word").set_description("one per length")
    >>> env = longest.get_execution_environment()
    >>> [(vertex.name, vertex.parallelism) for vertex in env.compile().vertices]
    [('collection', 1), ('capitals', 2), ('longest', 1)]
    >>> operator = json.loads(env.explain("json"))["vertices"][2]["operators"][0]
    >>> operator["name"], operator["state_id"], operator["description"]
    ('longest', 'longest-word', 'one per length')
    """

    _environment: StreamExecutionEnvironment

    def _node(self, what: str) -> Node:
        """Return the operator that ``what`` is said of."""
        raise NotImplementedError

    def _change(self, what: str, **fields: Any) -> Self:
        node = self._node(what)
        for text in ("name", "uid"):
            check_kind(fields.get(text, ""), str, what)
        self._environment.graph.change(node.id, **fields)
        return self

    def name(self, name: str) -> Self:
        """Name the operator, for logs, errors, ``explain()`` and the web UI."""
        return self._change("name()", name=name)

    def uid(self, uid: str) -> Self:
        """Set the id of the operator's state: set it on everything with state.

        Without one the id follows from the operator's place in the program, and is another when the program changes.
        Raises ``InvalidProgram`` (when the job starts) if two operators have the same.
        """
        if uid == "":
            raise InvalidProgram(
                "uid() got an empty text. Give each operator with state a name of its own, such as 'totals'."
            )
        return self._change("uid()", uid=uid)

    def set_description(self, description: str) -> Self:
        """Describe the operator, for ``explain("json")`` and the web UI."""
        return self._change("set_description()", description=description)

    def set_parallelism(self, parallelism: int) -> Self:
        """Run the operator with this many subtasks; raises ``InvalidProgram`` for less than 1."""
        return self._change("set_parallelism()", parallelism=positive(parallelism, "parallelism"))

    def disable_chaining(self) -> Self:
        """Keep the operator out of every chain, also where it could be one with its neighbours.

        >>> from funken.testing import local
        >>> stream = local([1]).map(abs).map(str).disable_chaining().map(len)
        >>> [vertex.name for vertex in stream.get_execution_environment().compile().vertices]
        ['collection -> map', 'map', 'map']
        """
        return self._change("disable_chaining()", chaining=Chaining.NEVER)

    def slot_sharing_group(self, slot_sharing_group: object) -> Self:
        """Name the operator's slot sharing group (text, or an object with a ``name``).

        What follows is in the same group, unless it names another or reads from several groups: then it is in "default".
        Operators of different groups are not chained; where tasks run is Spark's business.

        >>> from funken.testing import local
        >>> stream = local([1]).map(abs).map(str).slot_sharing_group("text").map(len)
        >>> [vertex.name for vertex in stream.get_execution_environment().compile().vertices]
        ['collection -> map', 'map -> map']
        """
        name = getattr(slot_sharing_group, "name", slot_sharing_group)
        return self._change("slot_sharing_group()", slot_sharing_group=str(name() if callable(name) else name))


class StreamSettings(OperatorSettings):
    """The part of ``DataStream`` that says how the operator before it is called and runs."""

    def get_name(self) -> str:
        """Return the operator's name.

        >>> from funken.testing import local
        >>> stream = local([1]).map(str)
        >>> stream.get_name(), stream.name("as text").get_name()
        ('map', 'as text')
        """
        return self._node("get_name()").name

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups, the most subtasks the operator can ever be rescaled to.

        It cannot change once there is state. Raises ``InvalidProgram`` for less than 1, and if the parallelism is higher:

        >>> from funken.testing import local
        >>> local([1]).map(str).set_parallelism(3).set_max_parallelism(2).get_execution_environment().execute()
        Traceback (most recent call last):
        ...
        funken.errors.InvalidProgram: operator 'map' has parallelism 3, more than its maximum 2. Lower the one, or ...
        """
        return self._change("set_max_parallelism()", max_parallelism=positive(max_parallelism, "max parallelism"))

    def on_error(self, action: str | OutputTag[Any]) -> Self:
        """Choose the fate of a record whose function raises: ``"fail"``, ``"skip"``, or the tag of a side output.

        By default the job fails (``execution.on-error`` is the default of a job). Skipped records are counted as
        ``numRecordsFailed``; to a side output goes a ``DeadLetter`` with the record and the traceback. Of what the function gave
        for the record nothing is emitted; what it changed in state stays changed. For ``map``, ``flat_map``, ``filter`` and
        ``process``; raises ``InvalidProgram`` for others. A timer that raises fails the job.

        >>> from funken import OutputTag
        >>> from funken.testing import local
        >>> local(["1", "?", "3"]).map(int).on_error("skip").execute_and_collect(limit=3)
        [1, 3]
        >>> dead = OutputTag("dead")
        >>> numbers = local(["1", "?", "3"]).map(int).on_error(dead)
        >>> numbers.get_side_output(dead).map(lambda letter: letter.record).execute_and_collect(limit=1)
        ['?']
        """
        node = self._node("on_error()")
        if traits_of(node.spec).catching is None:
            raise InvalidProgram(
                f"operator {node.name!r} cannot have on_error(): it calls no function per record. map, flat_map, filter and "
                "process can; check records in one of these before it."
            )
        return self._change("on_error()", on_error=ErrorPolicy.of(action))

    def force_non_parallel(self) -> Self:
        """Run the operator with one subtask, for good: its maximum parallelism is 1 too.

        >>> from funken import NumberSequenceSource, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
        >>> _ = env.from_source(NumberSequenceSource(1, 9)).map(str).force_non_parallel()
        >>> [(vertex.name, vertex.parallelism) for vertex in env.compile().vertices]
        [('source', 2), ('map', 1)]
        """
        return self._change("force_non_parallel()", parallelism=1, max_parallelism=1)

    def set_buffer_timeout(self, timeout_millis: DurationLike) -> Self:
        """Let this operator's records wait for their block to fill no longer than this, where they leave the task.

        A duration, or ms; 0: not at all; -1: until the block is full. Within a chain nothing waits, and the timeout says nothing.

        >>> from funken.testing import local
        >>> local(["to be"]).map(str.upper).set_buffer_timeout(5).rebalance().map(len).execute_and_collect(limit=1)
        [5]
        """
        timeout = duration_ms(timeout_millis)
        if timeout < -1:
            raise InvalidProgram(
                f"a buffer timeout of {timeout} ms: give -1, 0, a duration or a number of milliseconds."
            )
        return self._change("set_buffer_timeout()", buffer_timeout=timeout)

    def start_new_chain(self) -> Self:
        """Begin a new chain with this operator; the next operators may join it.

        >>> from funken.testing import local
        >>> stream = local([1]).map(abs).map(str).start_new_chain().map(len)
        >>> [vertex.name for vertex in stream.get_execution_environment().compile().vertices]
        ['collection -> map', 'map -> map']
        """
        return self._change("start_new_chain()", chaining=Chaining.HEAD)


# ---- Declared types in a program: where they are put, and what type a stream is known to have.
#
# A declaration is a field of the node of the operator whose results it describes; ``plan/rules/operators.py``
# acts on it. A stream's type is found by looking at the operators it comes from, through those that pass records on
# as they are.


def typed(stream: DataStream[R], output_type: TypeInformation | None) -> DataStream[R]:
    """Declare the type of an operator's results; ``None`` declares nothing.

    >>> from funken.testing import local
    >>> from funken.types import Types
    >>> numbers = local([40_000]).map(lambda x: x, output_type=Types.SHORT())
    >>> numbers.get_type(), numbers.execute_and_collect(limit=1)
    (Short, [-25536])
    """
    type_info = declared(output_type)
    if type_info is not None:
        stream._environment.graph.change(stream._node("a declared type").id, output_type=type_info)
    return stream


def typed_side(stream: DataStream[Any], output_tag: OutputTag[Any]) -> None:
    """Declare the type of a side output of the stream's operator, if the tag has one."""
    type_info = None if isinstance(output_tag.type_info, type) else declared(output_tag.type_info)
    if type_info is not None:
        graph, node = stream._environment.graph, stream._node("get_side_output()")
        sides = dict(node.side_types) | {output_tag.tag_id: type_info}
        graph.change(node.id, side_types=tuple(sides.items()))


def type_of(stream: StreamEnds[Any]) -> TypeInformation | None:
    """Return the declared type of a stream's records, if they have one."""
    return _common(stream._environment.graph, stream._inputs)


def _common(graph: StreamGraph, inputs: Iterable[NodeInput]) -> TypeInformation | None:
    types = [_of_input(graph, given) for given in inputs]
    return types[0] if types and all(one == types[0] for one in types) else None


def _of_input(graph: StreamGraph, given: NodeInput) -> TypeInformation | None:
    node = graph[given.upstream]
    if given.side is not None:
        return dict(node.side_types).get(given.side)
    if node.output_type is not None:
        return node.output_type
    traits = traits_of(node.spec)
    return _common(graph, node.inputs) if traits.keeps_type else traits.output_type


# ---- How the records of a stream are spread over the subtasks of the next operator.


class StreamPartitioning(Generic[T_co]):
    """The part of ``DataStream`` that says which subtasks of the next operator get its records.

    >>> from funken import MapFunction, NumberSequenceSource, StreamExecutionEnvironment
    >>> from funken.testing import local
    >>> class Place(MapFunction):
    ...     def open(self, runtime_context):
    ...         self.subtask = runtime_context.get_index_of_this_subtask()
    ...     def map(self, value):
    ...         return self.subtask, value
    >>> def placed(stream):
    ...     return sorted(stream.map(Place()).set_parallelism(2).execute_and_collect(limit=4))
    >>> placed(local([1, 2, 3, 4]).rebalance())
    [(0, 1), (0, 3), (1, 2), (1, 4)]
    >>> placed(local([1, 2, 3, 4]).global_())
    [(0, 1), (0, 2), (0, 3), (0, 4)]
    >>> placed(local([1, 2]).broadcast())
    [(0, 1), (0, 2), (1, 1), (1, 2)]
    >>> placed(local([1, 2, 3, 4]).partition_custom(lambda key, subtasks: key * subtasks // 5, lambda number: number))
    [(0, 1), (0, 2), (1, 3), (1, 4)]
    >>> [number for subtask, number in sorted(placed(local([1, 2]).shuffle()), key=lambda place: place[1])]
    [1, 2]
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    >>> halves = env.from_source(NumberSequenceSource(1, 4))  # subtask 0 has 1 and 2, subtask 1 has 3 and 4
    >>> sorted(halves.rescale().map(Place()).set_parallelism(4).execute_and_collect(limit=4))
    [(0, 1), (1, 2), (2, 3), (3, 4)]
    """

    def _spread(self, partitioning: Partitioning) -> DataStream[T_co]:
        raise NotImplementedError

    def rebalance(self) -> DataStream[T_co]:
        """Deal records round robin to all subtasks of the next operator, so that each has as much to do."""
        return self._spread(Rebalance())

    def rescale(self) -> DataStream[T_co]:
        """Deal records round robin to a share of the next operator's subtasks: fewer connections than ``rebalance`` makes."""
        return self._spread(Rescale())

    def shuffle(self) -> DataStream[T_co]:
        """Send each record to a random subtask of the next operator."""
        return self._spread(Shuffle())

    def forward(self) -> DataStream[T_co]:
        """Send records to the subtask of the same index; raises ``InvalidProgram`` (at ``execute``) if parallelisms differ.

        >>> from funken.testing import local
        >>> stream = local([1]).map(abs).forward().map(str).rebalance().map(len)
        >>> [vertex.name for vertex in stream.get_execution_environment().compile().vertices]
        ['collection -> map -> map', 'map']
        """
        return self._spread(Forward())

    def global_(self) -> DataStream[T_co]:
        """Send all records to the first subtask of the next operator."""
        return self._spread(Global())

    @overload
    def broadcast(self) -> DataStream[T_co]: ...
    @overload
    def broadcast(self, *map_state_descriptors: MapStateDescriptor[Any, Any]) -> BroadcastStream[T_co]: ...
    def broadcast(
        self, *map_state_descriptors: MapStateDescriptor[Any, Any]
    ) -> DataStream[T_co] | BroadcastStream[T_co]:
        """Send every record to every subtask of the next operator; with descriptors: fill broadcast state with them."""
        from funken.state.descriptors import MapStateDescriptor

        for descriptor in map_state_descriptors:
            check_kind(descriptor, MapStateDescriptor, "broadcast()", "Give MapStateDescriptor('rules'), say.")
        BroadcastStream = family("BroadcastStream")
        spread = self._spread(Broadcast())
        return BroadcastStream(spread, map_state_descriptors) if map_state_descriptors else spread

    def partition_custom(
        self,
        partitioner: Callable[[S, int], int] | Partitioner[S],
        key_selector: Callable[[T_co], S] | KeySelector[T_co, S],
    ) -> DataStream[T_co]:
        """Send each record to subtask ``partitioner(key_selector(record), parallelism of the next operator)``."""
        partition = as_user_function(partitioner, "partition", "partition_custom()")
        return self._spread(Custom(partition, as_user_function(key_selector, "get_key", "partition_custom()")))
