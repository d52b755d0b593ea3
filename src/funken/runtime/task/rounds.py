"""The rounds of loops, in one task: by them the driver finds out whether a loop is empty, without a clock.

A round begins at the root heads of a loop, when all of their inputs have ended and the driver says so. Its marker follows the
records: a vertex sends it on when it has come on every channel from within the loop that has not ended, and every channel from
outside has ended. The tails send it back. When it has come back on all feedback channels of a head, the head reports how many
records have come back since the round before. If that is none at every head, then no head has given the loop anything
behind the marker, and what was before it has left the loop: it is empty. One exception is reported with the round: an operator
may still wait for results (``Operator.awaits_results``).

Channels are in order, and nothing is held back for a marker; one round of a loop is under way at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from funken.dataclass import dataclass
from funken.plan.physical import PhysicalPlan
from funken.runtime.chain.chain import EdgeOutput
from funken.runtime.exchange.gate import InputGate
from funken.runtime.exchange.loop_gate import LoopGate
from funken.runtime.exchange.wire import ChannelId
from funken.runtime.messages import LoopEnd, LoopReported, LoopRound, TaskEvent, TaskId
from funken.runtime.task.builder import Subtask
from funken.runtime.task.checkpoint_events import CheckpointEvent, LoopEnded, LoopEnding


@dataclass(slots=True)
class _Member:
    """A subtask that is in a loop; ``arrived`` and ``came_back``: the channels that have delivered the marker of the round."""

    subtask: Subtask
    gate: InputGate
    outputs: list[EdgeOutput]
    inside: set[ChannelId]
    arrived: set[ChannelId] = field(default_factory=set)
    came_back: set[ChannelId] = field(default_factory=set)
    round: int = 0
    busy: bool = False
    returns_busy: bool = False
    reported: bool = False
    closed: bool = False

    def all_arrived(self) -> bool:
        """Whether the marker has come on all channels that can deliver it, and nothing else is to come from elsewhere."""
        ended = {key for key, channel in self.gate.channels.items() if channel.ended}
        return (
            bool(self.arrived)
            and self.inside - ended <= self.arrived
            and self.gate.channels.keys() - self.inside <= ended
        )


class TaskRounds:
    """The subtasks of one task that are in loops."""

    def __init__(
        self, task: TaskId, plan: PhysicalPlan, subtasks: Mapping[int, Subtask], report: Callable[[TaskEvent], None],
        checkpoints: Callable[[CheckpointEvent], None],
    ) -> None:  # fmt: skip
        self._task = task
        self._report = report
        self._checkpoints = checkpoints
        self._members: dict[int, _Member] = {}
        inside = {edge.id for edge in plan.edges if edge.loop is not None and not edge.feedback}
        looped = {vertex for edge in plan.edges if edge.loop is not None for vertex in (edge.source, edge.target)}
        for vertex, subtask in subtasks.items():
            if vertex in looped and subtask.gate is not None:
                outputs = [output for output in subtask.outputs if output.edge.loop is not None]
                channels = {key for key in subtask.gate.channels if key[0] in inside}
                self._members[vertex] = _Member(subtask, subtask.gate, outputs, channels)
                subtask.gate.connect_rounds(self)

    @property
    def closed(self) -> bool:
        """Whether every head has ended, and all that could come back has."""
        return all(member.gate.closed for member in self._members.values() if isinstance(member.gate, LoopGate))

    # ---- the driver's commands

    def handle(self, command: LoopRound | LoopEnd) -> None:
        """Begin a round at a root, or end the loop."""
        member = self._members[command.vertex]
        assert isinstance(member.gate, LoopGate)
        if isinstance(command, LoopEnd):
            self._checkpoints(LoopEnding(command.vertex))
            member.gate.finish()
            return
        if command.ends_time:
            member.gate.end_event_time()
        self._send_on(member, command.round, busy=False)

    # ---- what the gates pass on

    def round(self, vertex: int, channel: ChannelId, number: int) -> None:
        """A marker has arrived, on an input or back."""
        member, (round_number, busy) = self._members[vertex], divmod(number, 2)
        if isinstance(member.gate, LoopGate) and channel not in member.gate.channels:
            member.came_back.add(channel)
            member.returns_busy |= bool(busy)
            self._look_back(vertex, member, round_number)
        else:
            member.arrived.add(channel)
            member.busy |= bool(busy)
            member.round = round_number
            self._look(member)

    def end(self, vertex: int) -> None:
        """A channel has ended."""
        member = self._members[vertex]
        if isinstance(member.gate, LoopGate):
            gate = member.gate
            if gate.inputs_ended and not member.reported:
                member.reported = True
                if gate.root:
                    self._report(LoopReported(self._task, subtask=self._task.subtask, vertex=vertex))
                else:
                    self._checkpoints(LoopEnding(vertex))
            if gate.closed and not member.closed:
                member.closed = True
                self._warn_of_late(member, gate)
                self._checkpoints(LoopEnded(vertex))
        self._look(member)

    def _look(self, member: _Member) -> None:
        if member.all_arrived():
            member.arrived.clear()
            busy, member.busy = member.busy, False
            self._send_on(member, member.round, busy)

    def _send_on(self, member: _Member, number: int, busy: bool) -> None:
        busy |= member.subtask.chain.awaits_results()
        for output in member.outputs:
            output.round(2 * number + busy)

    def _look_back(self, vertex: int, member: _Member, number: int) -> None:
        gate = member.gate
        assert isinstance(gate, LoopGate)
        if gate.waits_for() <= member.came_back:
            records, gate.came_back = gate.came_back, 0
            busy, member.returns_busy = member.returns_busy, False
            member.came_back.clear()
            self._report(LoopReported(self._task, -1, self._task.subtask, vertex, number, records, busy))

    @staticmethod
    def _warn_of_late(member: _Member, gate: LoopGate) -> None:
        if gate.too_late:
            member.subtask.chain.head.context.warn(
                "late feedback",
                f"dropped {gate.too_late:,} records that came back when the loop had ended: operators of the loop have emitted "
                "them at their own end, or by timers of processing time. What is to go round has to be emitted before.",
            )


__all__ = ["TaskRounds"]
