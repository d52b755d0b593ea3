"""State with PyFlink's names: descriptors as they are, handles that may be written with type parameters."""

from __future__ import annotations

from typing import Any

from funken.compat.pyflink.functions import Subscriptable, subscriptable
from funken.compat.pyflink.members import gets
from funken.operators.base import OutputTag
from funken.operators.process.two_inputs import ReadOnlyBroadcastState as NativeReadOnlyBroadcastState
from funken.state import descriptors, handles
from funken.state import descriptors as ttl_config
from funken.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from funken.types.callables import ACC, Generic, IN_contra, OUT_co, T


class StateTtlConfig(ttl_config.StateTtlConfig):
    """The lifetime of the values of a state."""

    Builder = ttl_config.StateTtlConfigBuilder
    CleanupStrategies = ttl_config.CleanupStrategies


class ReducingStateDescriptor(descriptors.ReducingStateDescriptor[T], Generic[T]):
    """Describes one value per key that combines all values added."""

    get_reduce_function = gets[Any]("reduce", "Return the function.")


class AggregatingStateDescriptor(
    descriptors.AggregatingStateDescriptor[IN_contra, ACC, OUT_co], Generic[IN_contra, ACC, OUT_co]
):
    """Describes one accumulator per key."""

    get_agg_function = gets[Any]("function", "Return the function.")


State = subscriptable(handles.State)
ValueState = subscriptable(handles.ValueState)
ListState = subscriptable(handles.ListState)
MapState = subscriptable(handles.MapState)
ReducingState = subscriptable(handles.ReducingState)
AggregatingState = subscriptable(handles.AggregatingState)
BroadcastState = subscriptable(handles.MapState)
ReadOnlyBroadcastState = subscriptable(NativeReadOnlyBroadcastState)


def get_internal_state(self: handles.State) -> handles.State:
    """Return the state itself: PyFlink's handles have another one inside, with the same methods.

    >>> from funken.testing import WindowContext  # has the context of a key
    >>> counts = WindowContext().get_runtime_context().get_map_state(MapStateDescriptor("counts"))
    >>> counts.get_internal_state() is counts
    True
    """
    return self


# The runtime makes Funken's own handles, whatever the program imports.
handles.State.get_internal_state = get_internal_state  # type: ignore[attr-defined]


class AppendingState(Subscriptable):
    """State that values are added to."""


class MergingState(AppendingState):
    """State of several windows that can be put together."""


class OperatorStateStore(Subscriptable):
    """Gives access to broadcast state; contexts of broadcast functions do."""

    def get_broadcast_state(self, state_descriptor: Any) -> Any:
        """Return the broadcast state of a descriptor."""
        raise NotImplementedError


__all__ = [
    "AggregatingState",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "OutputTag",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "State",
    "StateDescriptor",
    "ValueState",
    "ValueStateDescriptor",
]
