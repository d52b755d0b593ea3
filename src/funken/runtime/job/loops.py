"""The driver's half of loops: when all inputs of a loop have ended it has rounds made, until one finds the loop empty.

First event time ends in an empty loop, which may have windows fire whose results go round again; when it is empty once more, it
ends. Loops that share a vertex have their rounds together. A round that found nothing but an operator that waits for results is
repeated after a pause; there is no other use of time.
"""

from __future__ import annotations

import enum
from dataclasses import field

from funken.checkpoint.machine import Stop
from funken.dataclass import dataclass
from funken.errors import CheckpointError
from funken.plan.physical import LoopHead, PhysicalPlan
from funken.runtime.messages import (
    FeedbackAddress,
    FeedbackAddresses,
    LoopEnd,
    LoopReported,
    LoopRound,
    TaskCommand,
    TaskId,
)

_PAUSE_MILLIS = 10

Place = tuple[int, int]
"""A vertex and a subtask."""


class _Phase(enum.Enum):
    WAITING = "for the ends of all inputs"
    EMPTYING = "rounds until the loop is empty"
    EVENT_TIME = "event time has ended in it, rounds until it is empty again"
    ENDED = "ended"


@dataclass
class _Loop:
    heads: list[LoopHead] = field(default_factory=list)
    phase: _Phase = _Phase.WAITING
    round: int = 0
    reported: set[Place] = field(default_factory=set)
    """Before the first round the roots whose inputs have ended, then the heads that a round has come back to."""
    records: int = 0
    busy: bool = False
    due: int | None = None
    """The beginning of the next round, if it is to wait; 0: a pause after now."""

    def expected(self) -> set[Place]:
        """Return the sources of reports."""
        heads = [head for head in self.heads if head.root or self.phase is not _Phase.WAITING]
        return {(head.vertex.id, subtask) for head in heads for subtask in range(head.vertex.parallelism)}

    def roots(self) -> list[tuple[TaskId, int]]:
        """Return the tasks of the roots, each with the vertex."""
        return [
            (TaskId(head.vertex.stage, subtask), head.vertex.id)
            for head in self.heads
            if head.root
            for subtask in range(head.vertex.parallelism)
        ]


class LoopMaster:
    """The loops of one attempt of a job; without loops there is nothing to do.

    Where tasks send blocks back over connections of their own, it also tells the tails where the heads listen.
    """

    def __init__(self, plan: PhysicalPlan) -> None:
        self._loops: dict[int, _Loop] = {}
        self._of_vertex: dict[int, _Loop] = {}
        self._tails = sorted(plan.tail_tasks())
        self._addresses: dict[TaskId, tuple[str, int]] = {}
        for head in plan.heads:
            loop = self._loops.setdefault(head.loop, _Loop())
            loop.heads.append(head)
            self._of_vertex[head.vertex.id] = loop

    def handle(self, event: LoopReported | FeedbackAddress) -> list[tuple[TaskId, TaskCommand]]:
        """Handle the report of a head; return the commands to send."""
        if isinstance(event, FeedbackAddress):
            self._addresses[event.task] = event.address
            return []
        loop = self._of_vertex[event.vertex]
        if event.round != loop.round:
            return []
        loop.reported.add((event.vertex, event.task.subtask))
        loop.records += event.records
        loop.busy |= event.busy
        if not loop.expected() <= loop.reported:
            return []
        empty, busy = not loop.records, loop.busy
        loop.reported, loop.records, loop.busy = set(), 0, False
        if loop.phase is _Phase.WAITING:
            loop.phase = _Phase.EMPTYING
            return self._next(loop)
        if empty and busy:
            loop.due = 0
            return []
        if not empty:
            return self._next(loop)
        if loop.phase is _Phase.EMPTYING:
            loop.phase = _Phase.EVENT_TIME
            return self._next(loop, ends_time=True)
        loop.phase = _Phase.ENDED
        return [(task, LoopEnd(vertex)) for task, vertex in loop.roots()]

    def begin(self) -> list[tuple[TaskId, TaskCommand]]:
        """All tasks have started: tell the tails where the heads listen, if they do."""
        known = FeedbackAddresses(dict(self._addresses))
        return [(TaskId(*tail), known) for tail in self._tails] if self._addresses else []

    def advance(self, now: int) -> list[tuple[TaskId, TaskCommand]]:
        """Processing time has reached ``now`` (ms): begin rounds that were to wait."""
        commands: list[tuple[TaskId, TaskCommand]] = []
        for loop in self._loops.values():
            if loop.due == 0:
                loop.due = now + _PAUSE_MILLIS
            elif loop.due is not None and now >= loop.due:
                loop.due = None
                commands += self._next(loop)
        return commands

    @staticmethod
    def _next(loop: _Loop, ends_time: bool = False) -> list[tuple[TaskId, TaskCommand]]:
        loop.round += 1
        return [(task, LoopRound(vertex, loop.round, ends_time)) for task, vertex in loop.roots()]


def check_stop(plan: PhysicalPlan, stop: Stop | None) -> None:
    """Raise ``CheckpointError`` for a job that is to be drained, and has a loop."""
    if stop is Stop.DRAIN and plan.has_loop:
        raise CheckpointError(
            f"job {plan.name!r} cannot be drained: operator {plan.heads[0].vertex.nodes[0].name!r} "
            "begins a loop, and its records would be cut off. Stop it with a savepoint without drain: "
            "that holds the records in the loop."
        )
