"""``DataSink``: the end of a program, and the properties that can still be set on it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from funken.api.streams.settings import positive
from funken.dataset.plan import nodes
from funken.dataset.plan.keys import SortField, make_key
from funken.errors import InvalidProgram

if TYPE_CHECKING:
    from funken.dataset.api.environment import ExecutionEnvironment


class DataSink:
    """Where records go when the program is executed.

    >>> import tempfile
    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> path = tempfile.mkdtemp() + "/pairs"
    >>> sink = env.from_elements((2, "b"), (1, "a")).write_as_csv(path)
    >>> _ = sink.name("pairs").set_parallelism(1).sort_local_output(0)
    >>> result = env.execute()
    >>> env.read_text_file(path).collect()
    ['1,a', '2,b']
    """

    def __init__(self, environment: ExecutionEnvironment, node: nodes.SinkNode) -> None:
        self._current = node
        self._executed = False
        environment._sinks.append(self)

    def _read(self) -> nodes.Node:
        """Return the node for the execution; from then on it is fixed."""
        self._executed = True
        return self._current

    def _change(self, **changes: Any) -> DataSink:
        if self._executed:
            raise InvalidProgram(
                f"the sink {self._current.name!r} was executed already. Set its properties before execute()."
            )
        self._current = dataclasses.replace(self._current, **changes)
        return self

    def name(self, name: str) -> DataSink:
        """Name the sink."""
        return self._change(name=name)

    def set_parallelism(self, parallelism: int) -> DataSink:
        """Set the number of tasks, and so of files."""
        return self._change(parallelism=positive(parallelism, "parallelism"))

    def sort_local_output(self, field: Any, descending: bool = False) -> DataSink:
        """Sort what each task writes; a further call adds a field of less weight."""
        node = self._current
        made = make_key((field,), node.inputs[0].type, "sort_local_output")
        added = SortField(made.paths[0] if made.paths else (), descending, made.selector)
        return self._change(ordering=(*node.ordering, added))
