"""What is shown of a stream: its operator, and in a notebook the program that it belongs to."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from funken.api.environment import StreamExecutionEnvironment
    from funken.plan.nodes import NodeInput


class StreamDisplay:
    """The part of a stream that shows it.

    >>> from funken.testing import local
    >>> words = local(["to", "be"]).map(str.upper).name("capitals")
    >>> words, words.key_by(len)
    (<DataStream of 'capitals'>, <KeyedStream of 'capitals'>)
    """

    _environment: StreamExecutionEnvironment
    _inputs: tuple[NodeInput, ...]

    def __repr__(self) -> str:
        graph = self._environment.graph
        names = [f"{graph[given.upstream].name!r}" for given in self._inputs]
        sides = [f"side output {given.side!r} of " if given.side is not None else "" for given in self._inputs]
        return f"<{type(self).__name__} of {' and '.join(map(str.__add__, sides, names))}>"

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code><br>{self._environment._repr_html_()}"
