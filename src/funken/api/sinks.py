"""What ``print()``, ``sink_to()`` and ``for_each()`` return: the end of a stream, to be named and configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from funken.api.settings import OperatorSettings
from funken.plan.nodes import Node

if TYPE_CHECKING:
    from funken.api.environment import StreamExecutionEnvironment


class DataStreamSink(OperatorSettings):
    """A sink of the program, to be named and configured; it runs when the environment's ``execute`` is called.

    >>> from funken.testing import local
    >>> numbers = local([1, 2])
    >>> sink = numbers.print().name("to the terminal").uid("printed").set_parallelism(2).disable_chaining()
    >>> [(vertex.name, vertex.parallelism) for vertex in numbers.get_execution_environment().compile().vertices]
    [('collection', 1), ('to the terminal', 2)]
    """

    def __init__(self, environment: StreamExecutionEnvironment, node: Node) -> None:
        self._environment = environment
        self._sink = node

    def _node(self, what: str) -> Node:
        return self._sink
