"""What is shown of a stream, and of what is made of streams: operators, and in a notebook the program that they belong to."""

from __future__ import annotations

from collections.abc import Iterator
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
        return f"<{type(self).__name__} of {self._origins()}>"

    def _origins(self) -> str:
        graph = self._environment.graph
        names = [f"{graph[given.upstream].name!r}" for given in self._inputs]
        sides = [f"side output {given.side!r} of " if given.side is not None else "" for given in self._inputs]
        return " and ".join(map(str.__add__, sides, names))

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code><br>{self._environment._repr_html_()}"


class OfStreams:
    """What shows windows, connected streams and joins by the streams that they are made of: those among their attributes.

    >>> from funken import TumblingEventTimeWindows
    >>> from funken.testing import local
    >>> words = local(["to", "be"]).name("words")
    >>> words.key_by(len).window(TumblingEventTimeWindows.of("5 s")), words.connect(words.map(len))
    (<WindowedStream of 'words' by TumblingEventTimeWindows(size=5000, offset=0)>, <ConnectedStreams of 'words' with 'map'>)
    """

    def _made_of(self) -> Iterator[StreamDisplay]:
        for value in vars(self).values():
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, StreamDisplay):
                    yield each
                elif isinstance(each, OfStreams):
                    yield from each._made_of()

    def __repr__(self) -> str:
        assigner = getattr(self, "_assigner", None)
        windows = "" if assigner is None else f" by {assigner!r}"
        return f"<{type(self).__name__} of {' with '.join(each._origins() for each in self._made_of())}{windows}>"

    def _repr_html_(self) -> str:
        shown = next(self._made_of())._environment._repr_html_()
        return f"<code>{escape(repr(self))}</code><br>{shown}"
