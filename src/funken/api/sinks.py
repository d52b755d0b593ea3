"""What ``print()``, ``sink_to()`` and ``for_each()`` return: the end of a stream, to be named and configured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from funken.errors import InvalidProgram
from funken.plan.nodes import Chaining, Node

if TYPE_CHECKING:
    from funken.api.environment import StreamExecutionEnvironment


def positive(number: int, what: str) -> int:
    """Return a whole number from 1 on; raise ``InvalidProgram`` for anything else."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InvalidProgram(f"{what} must be a whole number from 1 on, but is {number!r}")
    return number


class DataStreamSink:
    """A sink of the program."""

    def __init__(self, environment: StreamExecutionEnvironment, node: Node) -> None:
        self._environment = environment
        self._node = node

    def _change(self, **fields: Any) -> DataStreamSink:
        self._environment.graph.change(self._node.id, **fields)
        return self

    def name(self, name: str) -> DataStreamSink:
        """Name the sink."""
        return self._change(name=name)

    def uid(self, uid: str) -> DataStreamSink:
        """Give the sink the id its state is kept under."""
        return self._change(uid=uid)

    def set_description(self, description: str) -> DataStreamSink:
        """Describe the sink."""
        return self._change(description=description)

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """Run the sink with this many subtasks."""
        return self._change(parallelism=positive(parallelism, "parallelism"))

    def disable_chaining(self) -> DataStreamSink:
        """Keep the sink out of every chain."""
        return self._change(chaining=Chaining.NEVER)

    def slot_sharing_group(self, slot_sharing_group: Any) -> DataStreamSink:
        """Name the sink's slot sharing group."""
        return self._change(slot_sharing_group=str(slot_sharing_group))
