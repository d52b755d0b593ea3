"""The family of streams: how its classes make one another.

A stream makes keyed, windowed and connected ones, and each of these makes streams again. Their modules would import each
other in circles; so a class that a lower module needs is asked for here by name, when it is needed.

>>> family("KeyedStream").__name__
'KeyedStream'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, overload

if TYPE_CHECKING:
    from collections.abc import Callable

    from funken.api.streams.connected import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
    from funken.api.streams.joins import CoGroupedStreams, IntervalJoin, JoinedStreams
    from funken.api.streams.keyed import KeyedStream
    from funken.api.streams.stream import DataStream
    from funken.api.streams.window_settings import Windows
    from funken.api.streams.windowed import AllWindowedStream

_MODULES = {
    "AllWindowedStream": "funken.api.streams.windowed",
    "BroadcastConnectedStream": "funken.api.streams.connected",
    "BroadcastStream": "funken.api.streams.connected",
    "CoGroupedStreams": "funken.api.streams.joins",
    "ConnectedStreams": "funken.api.streams.connected",
    "DataStream": "funken.api.streams.stream",
    "IntervalJoin": "funken.api.streams.joins",
    "JoinedStreams": "funken.api.streams.joins",
    "KeyedStream": "funken.api.streams.keyed",
    "count_windows": "funken.api.streams.window_settings",
}
"""Where each of them is defined."""


@overload
def family(name: Literal["AllWindowedStream"]) -> type[AllWindowedStream]: ...
@overload
def family(name: Literal["BroadcastConnectedStream"]) -> type[BroadcastConnectedStream]: ...
@overload
def family(name: Literal["BroadcastStream"]) -> type[BroadcastStream]: ...
@overload
def family(name: Literal["CoGroupedStreams"]) -> type[CoGroupedStreams]: ...
@overload
def family(name: Literal["ConnectedStreams"]) -> type[ConnectedStreams]: ...
@overload
def family(name: Literal["DataStream"]) -> type[DataStream]: ...
@overload
def family(name: Literal["IntervalJoin"]) -> type[IntervalJoin]: ...
@overload
def family(name: Literal["JoinedStreams"]) -> type[JoinedStreams]: ...
@overload
def family(name: Literal["KeyedStream"]) -> type[KeyedStream]: ...
@overload
def family(name: Literal["count_windows"]) -> Callable[[Windows, int, int], Windows]: ...


def family(name: str) -> Any:
    """Return a class or function of the family."""
    return getattr(import_module(_MODULES[name]), name)


_GONE = {
    "iterate": (
        "DataStream has no iterate(): Flink removed it in 2.0, and Funken's streams have no feedback edge. For a computation "
        "that converges use DataSet.iterate() or iterate_delta() of funken.dataset; to come back to a record of the same key, "
        "keep it in state and set a timer; for any other loop write to a topic that the job reads."
    )
}
"""What Flink's streams had, and what to use instead."""


def missing(kind: type, name: str) -> str:
    """Return what to say of an attribute that a stream has not: where it is, or what there is instead.

    >>> missing(family("DataStream"), "window")
    "'DataStream' object has no attribute 'window': keyed streams have it, so call key_by() before, or window_all()"
    >>> missing(family("DataStream"), "turn")
    "'DataStream' object has no attribute 'turn'"
    """
    if name in _GONE:
        return _GONE[name]
    text = f"{kind.__name__!r} object has no attribute {name!r}"
    if name.startswith("_") or not hasattr(family("KeyedStream"), name):
        return text
    instead = f", or {name}_all()" if hasattr(kind, f"{name}_all") else ""
    return f"{text}: keyed streams have it, so call key_by() before{instead}"
