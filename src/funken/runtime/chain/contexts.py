"""Between a task and its operators: the context each is given, and what becomes of what it reports through it.

An operator reaches its driver only by ``report(kind, payload)``; here that becomes an event with operator and subtask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from funken.ids import OperatorId
from funken.metrics.registry import MetricGroup
from funken.operators.context import OperatorContext
from funken.operators.strides import TaskTime
from funken.plan.nodes import Node
from funken.plan.physical import Vertex
from funken.runtime.chain.backends import TaskBackends
from funken.runtime.messages import CoordinatorEvent, OperatorWarning, TaskEvent, TaskId
from funken.runtime.settings import TaskSettings
from funken.state.keyed import KeyedStateStore
from funken.state.keygroups import key_groups_of
from funken.timing.clock import Clock
from funken.timing.timers import InternalTimerService


class OperatorContexts:
    """Makes the contexts of one task; ``wake`` gets its loop to look at it again."""

    def __init__(
        self, task: TaskId, settings: TaskSettings, backends: TaskBackends, clock: Clock, time: TaskTime,
        event: Callable[[TaskEvent], None], wake: Callable[[], None] | None, stable_ids: Mapping[OperatorId, str],
    ) -> None:  # fmt: skip
        self._stable_ids = stable_ids
        self._task = task
        self._settings = settings
        self._backends = backends
        self._clock = clock
        self._time = time
        self._report = event
        self._wake = wake
        #: the metrics that functions of the user count, by operator
        self.metrics: dict[int, MetricGroup] = {}

    def make(self, vertex: Vertex, node: Node) -> OperatorContext:
        """Make the context of one operator."""
        subtask, width, limit = self._task.subtask, vertex.parallelism, vertex.max_parallelism
        checkpoints = self._settings.checkpoints
        self.metrics[node.id] = metrics = MetricGroup(self._clock.monotonic)
        context = OperatorContext(
            operator=node.name,
            subtask=subtask,
            parallelism=width,
            max_parallelism=limit,
            processing_time=self._clock.now,
            monotonic=self._clock.monotonic,
            attempt=self._settings.attempt,
            job_id=self._settings.job_id,
            batch=self._settings.batch,
            pausing=self._settings.pausing,
            object_reuse=self._settings.object_reuse,
            inlining=self._settings.inlining,
            auto_watermark_interval=self._settings.auto_watermark_interval,
            job_parameters=self._settings.job_parameters,
            checkpointing=checkpoints is not None,
            operator_uid=self._stable_ids[node.id],
            restored_checkpoint_id=None if checkpoints is None else checkpoints.restored_checkpoint_id,
            metrics=metrics,
            report=lambda payload, output: self._pass_on(node, payload, output),
            warn=lambda kind, text: self._report(OperatorWarning(self._task, node.id, subtask, kind, text)),
            wake=self._wake,
            on_error=node.on_error,
        )
        context.next_time = self._time.read
        if node.keyed:
            groups, time = key_groups_of(subtask, limit, width), self._time
            backend, copies = self._backends.make(context, groups), not self._settings.object_reuse
            context.keyed = KeyedStateStore(limit, groups, lambda: time.latest, backend, copies)
            context.timers = InternalTimerService(self._clock.now, limit, groups, context.checkpointing)
        return context

    def _pass_on(self, node: Node, payload: Any, output: bool) -> None:
        self._report(CoordinatorEvent(self._task, node.id, self._task.subtask, payload, output))
