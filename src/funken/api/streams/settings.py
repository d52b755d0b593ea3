"""What may be said of one operator, right after it was added: what it is called, how wide it is, what it is chained to.

A stream says it of the operator it comes from, a sink of itself. Nothing else of the program changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from funken.errors import InvalidProgram
from funken.io.durations import DurationLike, duration_ms
from funken.operators.process.dead_letters import ErrorPolicy
from funken.operators.tags import OutputTag
from funken.operators.traits import traits_of
from funken.plan.nodes import Chaining, Node

if TYPE_CHECKING:
    from funken.api.environment import StreamExecutionEnvironment


def positive(number: int, what: str) -> int:
    """Return a whole number from 1 on; raise ``InvalidProgram`` for anything else."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InvalidProgram(f"{what} must be a whole number from 1 on, but is {number!r}")
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
        self._environment.graph.change(self._node(what).id, **fields)
        return self

    def name(self, name: str) -> Self:
        """Name the operator, for logs, errors, ``explain()`` and the web UI."""
        return self._change("name()", name=name)

    def uid(self, uid: str) -> Self:
        """Give the operator the id its state is kept under: set it on everything with state.

        Without one the id follows from the operator's place in the program, and is another when the program changes.
        Raises ``InvalidProgram`` (when the job starts) if two operators have the same.
        """
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

    def slot_sharing_group(self, slot_sharing_group: Any) -> Self:
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
        """Choose what becomes of a record whose function raises: ``"fail"``, ``"skip"``, or the tag of a side output.

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
        """Begin a new chain with this operator; what follows may join it.

        >>> from funken.testing import local
        >>> stream = local([1]).map(abs).map(str).start_new_chain().map(len)
        >>> [vertex.name for vertex in stream.get_execution_environment().compile().vertices]
        ['collection -> map', 'map -> map']
        """
        return self._change("start_new_chain()", chaining=Chaining.HEAD)
