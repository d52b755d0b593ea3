"""The contexts of assigners, triggers and evictors in the general window logic.

One object of each kind serves an operator; ``window`` (and the store's current key) is written before each call.
"""

from __future__ import annotations

from typing import Any

from funken.metrics.registry import MetricGroup
from funken.operators.context import OperatorContext, RuntimeContext
from funken.operators.window.driver import WindowDriver
from funken.state.descriptors import StateDescriptor
from funken.timing.instants import checked_time
from funken.timing.timers import InternalTimerService


class OperatorAssignerContext:
    """The context of an assigner."""

    __slots__ = ("_runtime_context", "get_current_processing_time")

    def __init__(self, context: OperatorContext) -> None:
        self.get_current_processing_time = context.processing_time
        self._runtime_context = RuntimeContext(context)

    def get_runtime_context(self) -> RuntimeContext:
        """Return the runtime context; its keyed state is that of the record's key."""
        return self._runtime_context


class OperatorTriggerContext:
    """The context of a trigger, also for its ``on_merge``, and of an evictor."""

    __slots__ = ("_operator", "_store", "_timers", "merged", "window")

    def __init__(self, operator: WindowDriver, timers: InternalTimerService) -> None:
        self._operator = operator
        self._store = operator.store
        self._timers = timers
        self.window: Any = None
        self.merged: list[Any] = []

    def get_current_processing_time(self) -> int:
        """Return the processing time."""
        return self._operator.context.processing_time()

    def get_current_watermark(self) -> int:
        """Return the watermark."""
        return self._operator.current_watermark

    def get_metric_group(self) -> MetricGroup:
        """Return the operator's metrics."""
        return self._operator.context.metrics

    def register_processing_time_timer(self, time: int) -> None:
        """Register a timer for ``on_processing_time``."""
        self._timers.register_processing_time_timer(self._store.current_key, self.window, checked_time(time))

    def register_event_time_timer(self, time: int) -> None:
        """Register a timer for ``on_event_time``."""
        self._timers.register_event_time_timer(self._store.current_key, self.window, checked_time(time))

    def delete_processing_time_timer(self, time: int) -> None:
        """Take a timer back."""
        self._timers.delete_processing_time_timer(self._store.current_key, self.window, checked_time(time))

    def delete_event_time_timer(self, time: int) -> None:
        """Take a timer back."""
        self._timers.delete_event_time_timer(self._store.current_key, self.window, checked_time(time))

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """Return the state of the current key and window."""
        handle = self._store.namespaced(state_descriptor)
        handle.namespace = self.window
        return handle

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge the state of the merged windows into that of the current one."""
        self._store.merge_namespaces(state_descriptor, self.window, self.merged)
