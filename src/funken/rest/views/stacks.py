"""Flame graphs as Flink's REST API shows them; pure functions of samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from funken.rest.views.jobs import Json
from funken.runtime.job.graph import VertexInfo
from funken.runtime.messages import CallStack, StacksSampled, TaskId

KINDS = ("FULL", "ON_CPU", "OFF_CPU")
_OVER, _WAITING = -1, -3
"""What Flink has in place of a time: the job is over, or nothing was sampled yet."""


def tasks_of(info: VertexInfo, subtask: int | None = None) -> list[TaskId]:
    """Return the tasks that a vertex has subtasks in."""
    return [TaskId(info.stage, number) for number in range(info.parallelism) if subtask in (None, number)]


def flame_graph(
    info: VertexInfo, samples: Iterable[StacksSampled], kind: str, subtask: int | None, is_over: bool
) -> Json:
    """Return ``/jobs/:jobid/vertices/:vertexid/flamegraph``: how often each stack of the vertex was found.

    Its stacks are those with one of its operators innermost, and of those without any operator, which wait for input, all.
    """
    known = list(samples)
    if not known:
        return {"endTimestamp": _OVER if is_over else _WAITING, "data": None}
    operators = {each.id for each in info.operators}
    root = _Node("root")
    for sample in known:
        for stack, count in sample.stacks.items():
            if _fits(stack, operators, kind, subtask):
                root.add(stack.functions, count)
    return {"endTimestamp": max(each.ended for each in known), "data": root.plain()}


def _fits(stack: CallStack, operators: set[str], kind: str, subtask: int | None) -> bool:
    if stack.operator and (stack.operator not in operators or subtask not in (None, stack.subtask)):
        return False
    return kind == "FULL" or stack.on_cpu == (kind == "ON_CPU")


class _Node:
    """A function in a flame graph, with those that it called."""

    __slots__ = ("_called", "_name", "_value")

    def __init__(self, name: str) -> None:
        self._name = name
        self._value = 0
        self._called: dict[str, _Node] = {}

    def add(self, functions: Iterable[str], count: int) -> None:
        """Add a stack below this function."""
        node = self
        node._value += count
        for name in functions:
            node = node._called.setdefault(name, _Node(name))
            node._value += count

    def plain(self) -> Mapping[str, object]:
        """Return it as JSON has it."""
        return {
            "name": self._name,
            "value": self._value,
            "children": [each.plain() for each in self._called.values()],
        }
