"""What an operator knows of its surroundings: its place in the job, time, state, metrics.

``RuntimeContext`` is the user's view (PyFlink's), handed to ``open``; ``OperatorContext`` is the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from funken.errors import StateNotKeyed
from funken.metrics.registry import MetricGroup
from funken.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from funken.state.keyed import KeyedStateStore
from funken.timing.timers import InternalTimerService


@dataclass(slots=True)
class OperatorContext:
    """The engine's view of one subtask of one operator.

    ``keyed`` and ``timers`` are there only for operators on a keyed stream. ``batch`` is true under
    ``RuntimeExecutionMode.BATCH``. ``processing_time`` returns ms since the epoch and stands still between events.
    ``wake`` may be called from any thread: the task asks ``next_tick`` again at once; ``None``: it asks every ms or so.
    """

    operator: str
    subtask: int
    parallelism: int
    max_parallelism: int
    processing_time: Callable[[], int]
    attempt: int = 0
    batch: bool = False
    auto_watermark_interval: int = 200
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: MetricGroup = field(default_factory=MetricGroup)
    keyed: KeyedStateStore | None = None
    timers: InternalTimerService | None = None
    operator_state: dict[str, Any] = field(default_factory=dict)
    restored: bool = False
    checkpointing: bool = False
    before_snapshot: list[Callable[[], None]] = field(default_factory=list)
    report: Callable[[str, Any], None] = lambda kind, payload: None
    wake: Callable[[], None] | None = None


class RuntimeContext:
    """A function's view of the subtask it runs in (PyFlink's ``RuntimeContext``)."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    def get_task_name(self) -> str:
        """Return the operator's name."""
        return self._context.operator

    def get_task_name_with_subtasks(self) -> str:
        """Return the operator's name with the subtask, as in ``"map (1/4)"``."""
        return f"{self._context.operator} ({self._context.subtask + 1}/{self._context.parallelism})"

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the operator's parallelism."""
        return self._context.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the operator's maximum parallelism, the number of key groups."""
        return self._context.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Return the subtask's index, from 0."""
        return self._context.subtask

    def get_attempt_number(self) -> int:
        """Return how many attempts there were before: of the job, or of a task of a batch job that Spark repeats."""
        return self._context.attempt

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a global job parameter, or the default."""
        return self._context.job_parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        """Return the operator's metric group."""
        return self._context.metrics

    def _state(self, descriptor: StateDescriptor) -> Any:
        if self._context.keyed is None:
            raise StateNotKeyed(
                f"operator {self._context.operator!r} asked for the keyed state {descriptor.name!r}. Keyed state is "
                "only accessible by functions executed on a KeyedStream: call key_by(...) before this operator."
            )
        return self._context.keyed.state(descriptor)

    def get_state(self, state_descriptor: ValueStateDescriptor) -> Any:
        """Return the ``ValueState`` of the current key; raises ``StateNotKeyed`` outside a keyed stream."""
        return self._state(state_descriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> Any:
        """Return the ``ListState`` of the current key."""
        return self._state(state_descriptor)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> Any:
        """Return the ``MapState`` of the current key."""
        return self._state(state_descriptor)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> Any:
        """Return the ``ReducingState`` of the current key."""
        return self._state(state_descriptor)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> Any:
        """Return the ``AggregatingState`` of the current key."""
        return self._state(state_descriptor)
