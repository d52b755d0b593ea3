"""State with PyFlink's names: descriptors as they are, handles that may be written with type parameters."""

from __future__ import annotations

from typing import Any

from funken.compat.pyflink.functions import Subscriptable, context
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


class StateTtlConfig(ttl_config.StateTtlConfig):
    """The lifetime of the values of a state."""

    Builder = ttl_config.StateTtlConfigBuilder
    CleanupStrategies = ttl_config.CleanupStrategies


class ReducingStateDescriptor(descriptors.ReducingStateDescriptor):
    """Describes one value per key that combines all values added."""

    def get_reduce_function(self) -> Any:
        """Return the function."""
        return self.reduce


class AggregatingStateDescriptor(descriptors.AggregatingStateDescriptor):
    """Describes one accumulator per key."""

    def get_agg_function(self) -> Any:
        """Return the function."""
        return self.function


State = context(handles.State)
ValueState = context(handles.ValueState)
ListState = context(handles.ListState)
MapState = context(handles.MapState)
ReducingState = context(handles.ReducingState)
AggregatingState = context(handles.AggregatingState)
BroadcastState = context(handles.MapState)
ReadOnlyBroadcastState = context(NativeReadOnlyBroadcastState)


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
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorStateStore",
    "OutputTag",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]
