"""What may be said of one operator, right after it was added: what it is called, how wide it is, what it is chained to.

A stream says it of the operator it comes from, a sink of itself. Nothing else of the program changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from funken.errors import InvalidProgram
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
