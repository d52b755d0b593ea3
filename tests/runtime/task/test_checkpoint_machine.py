"""The checkpoints of a task under any order of records, barriers, ends, aborts and time, against what a cut is."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from funken.checkpoint.machine import Stop
from funken.columnar.block import RowBlock
from funken.ids import Millis
from funken.runtime.exchange.gate import InputGate
from funken.runtime.messages import CheckpointAborted, Savepoint, TriggerCheckpoint
from funken.runtime.task.checkpoint_machine import (
    AddChannelState,
    BarrierProcessed,
    BarrierReceived,
    BarrierRecorded,
    ChannelEnded,
    DeliverSnapshot,
    DropChannelState,
    ReleaseChannels,
    SealSnapshot,
    SnapshotSealed,
    SnapshotTaken,
    SourceEnded,
    StateMaterialized,
    TakeSnapshot,
    TaskCheckpointMachine,
    TimePassed,
)

HEAD, TAIL = 1, 2
LOCAL = (9, 0)
"""The channel from the one subtask of the task to the other."""


class Subtask:
    """Keeps what it is given, and passes it on to ``next``; what it keeps is its state."""

    def __init__(self, shell, vertex, channels):
        self.shell, self.vertex, self.next = shell, vertex, None
        self.state = []
        self.recorded = []
        self.over = False
        self.gate = InputGate(self, [(channel, 0) for channel in channels])

    def process(self, index, block):
        assert not self.over
        self.state += block.rows()[0]
        if self.next is not None:
            self.next.gate.data(LOCAL, block)

    def finish(self):
        self.over = True
        if self.next is not None:
            self.next.gate.end(LOCAL)

    def watermark(self, *_):
        pass

    watermark_input = idle = end_input = watermark


class Shell:
    """A task: two subtasks, the queue before them, and what the machine commands."""

    def __init__(self, channels, aligned_only, align, unaligned_after, slow):
        self.now = 0
        self.slow = slow
        self.unfinished = set()
        self.queue = []
        self.head, self.tail = (Subtask(self, vertex, found) for vertex, found in channels.items())
        self.head.next = self.tail
        self.subtasks = {HEAD: self.head, TAIL: self.tail}
        self.machine = TaskCheckpointMachine(channels, aligned_only, align=align, unaligned_after=unaligned_after)
        for vertex, subtask in self.subtasks.items():
            subtask.gate.connect(vertex, self, self.machine.subtasks[vertex].blocked)
        self.taken = {}
        self.ended = {}
        self.sealed = []
        self.delivered = []

    def barrier(self, vertex, channel, checkpoint, unaligned):
        self.tell(BarrierProcessed(vertex, channel, checkpoint, unaligned))

    def end(self, vertex, channel):
        self.tell(ChannelEnded(vertex, channel))

    def receive(self, vertex, channel, item, unaligned=False, savepoint=None):
        block = vertex, channel, item
        self.queue.append(block)
        self.record(block)
        if isinstance(item, int):
            self.tell(BarrierReceived(vertex, channel, item, unaligned, savepoint))

    def record(self, block):
        vertex, channel, item = block
        recording = self.machine.recording.get(vertex)
        if recording is not None and channel in recording.waiting:
            if item is None or isinstance(item, int):
                self.tell(BarrierRecorded(vertex, channel, item))
            else:
                self.subtasks[vertex].recorded.append(item)

    def step(self):
        vertex, channel, item = self.queue.pop(0)
        gate = self.subtasks[vertex].gate
        if item is None:
            gate.end(channel)
        elif isinstance(item, int):
            gate.barrier(channel, item)
        else:
            gate.data(channel, RowBlock([item]))

    def tell(self, event):
        for command in self.machine.handle(event, Millis(self.now)):
            match command:
                case TakeSnapshot(vertex, checkpoint, _, overtaken):
                    self.take(self.subtasks[vertex], checkpoint, overtaken)
                case AddChannelState(vertex, checkpoint):
                    self.taken[vertex, checkpoint] += self.subtasks[vertex].recorded
                case DropChannelState(vertex):
                    self.subtasks[vertex].recorded = []
                case ReleaseChannels(vertex):
                    self.subtasks[vertex].gate.release()
                case SealSnapshot(checkpoint, _, ended):
                    for vertex in ended:
                        assert self.subtasks[vertex].over
                        self.taken[vertex, checkpoint] = list(self.subtasks[vertex].state)
                    self.sealed.append(checkpoint)
                    left = {("state", checkpoint)} if checkpoint % 3 < self.slow else set()
                    self.unfinished |= left
                    self.tell(SnapshotSealed(checkpoint, frozenset(left)))
                case DeliverSnapshot(checkpoint):
                    assert ("state", checkpoint) not in self.unfinished
                    assert checkpoint == self.sealed[len(self.delivered)], "in order"
                    self.delivered.append(checkpoint)
        self.machine.validate()

    def take(self, subtask, checkpoint, overtaken):
        assert not subtask.over, "one that has ended is snapshotted when the checkpoint is sealed"
        if overtaken is not None:
            subtask.recorded = []
            for block in list(self.queue):
                if block[0] == subtask.vertex:
                    self.record(block)
        self.taken[subtask.vertex, checkpoint] = list(subtask.state)
        if subtask.next is not None:
            subtask.next.gate.barrier(LOCAL, checkpoint, overtaken is not None)
        self.tell(SnapshotTaken(subtask.vertex, checkpoint))


class Cuts(RuleBasedStateMachine):
    """Upstream tasks that send records and barriers in order, and a driver that may abort what is not complete."""

    @initialize(
        width=st.integers(1, 3),
        beside=st.integers(0, 2),
        mode=st.sampled_from(["aligned", "at least once", "unaligned", "timeout"]),
        firm=st.booleans(),
        slow=st.integers(0, 3),
    )
    def begin(self, width, beside, mode, firm, slow):
        self.channels = {(0, n): HEAD for n in range(width)} | {(1, n): TAIL for n in range(beside)}
        by_vertex = {HEAD: [key for key, at in self.channels.items() if at == HEAD]}
        by_vertex[TAIL] = [LOCAL, *(key for key, at in self.channels.items() if at == TAIL)]
        after = {"unaligned": 0, "timeout": 5}.get(mode)
        self.align, self.after = mode != "at least once", after
        self.shell = Shell(by_vertex, [LOCAL, *([(0, 0)] if firm else [])], self.align, after, slow)
        #: what was sent on each channel: records, barriers, the end as None
        self.sent = {key: [] for key in self.channels}
        self.triggered = {}
        self.given_up, self.to_tell = set(), []
        self.serial = 0

    def live(self):
        return [key for key, items in self.sent.items() if items[-1:] != [None]]

    def due(self, key):
        """The checkpoints whose barriers a channel may send next: it may leave out those that were given up."""
        last = max((item for item in self.sent[key] if isinstance(item, int)), default=0)
        found = []
        for checkpoint in sorted(number for number in self.triggered if number > last):
            found.append(checkpoint)
            if checkpoint not in self.given_up:
                break
        return found

    # ---- what may happen

    @precondition(lambda self: self.live())
    @rule(data=st.data())
    def record(self, data):
        key = data.draw(st.sampled_from(self.live()))
        self.serial += 1
        self.send(key, (key, self.serial))

    @rule(saved=st.sampled_from([False, False, True]), stop=st.sampled_from([None, Stop.SUSPEND]))
    def trigger(self, saved, stop):
        open_ones = self.triggered.keys() - self.given_up - set(self.shell.delivered)
        if len(open_ones) < (2 if self.after is None else 1):
            self.triggered[len(self.triggered) + 1] = Savepoint("target", stop) if saved else None

    @precondition(lambda self: any(self.due(key) for key in self.live()))
    @rule(data=st.data(), unaligned=st.booleans())
    def barrier(self, data, unaligned):
        key = data.draw(st.sampled_from([key for key in self.live() if self.due(key)]))
        checkpoint = data.draw(st.sampled_from(self.due(key)))
        savepoint = self.triggered[checkpoint]
        unaligned = savepoint is None and (self.after == 0 or (self.after is not None and unaligned))
        self.send(key, checkpoint, unaligned, savepoint)

    @precondition(lambda self: self.live())
    @rule(data=st.data(), really=st.sampled_from([False, False, False, True]))
    def end(self, data, really):
        if really:
            self.send(data.draw(st.sampled_from(self.live())), None)

    def send(self, key, item, *details):
        self.sent[key].append(item)
        self.shell.receive(self.channels[key], key, item, *details)

    @precondition(lambda self: self.shell.queue)
    @rule()
    def step(self):
        self.shell.step()

    @rule(passed=st.integers(1, 6))
    def time(self, passed):
        self.shell.now += passed
        self.shell.tell(TimePassed())

    @precondition(lambda self: self.shell.machine.sealed)
    @rule()
    def materialize(self):
        for place in sorted(self.shell.unfinished):
            self.shell.unfinished.discard(place)
            self.shell.tell(StateMaterialized(place))

    @rule(data=st.data())
    def give_up(self, data):
        """The driver aborts a checkpoint; the task is told later."""
        found = sorted(self.triggered.keys() - self.given_up - set(self.shell.sealed))
        if found:
            self.to_tell.append(data.draw(st.sampled_from(found)))
            self.given_up.add(self.to_tell[-1])

    @precondition(lambda self: self.to_tell)
    @rule()
    def abort(self):
        checkpoint = self.to_tell.pop(0)
        self.shell.tell(CheckpointAborted(checkpoint))
        assert checkpoint not in self.shell.machine.stopped.values()

    # ---- what always holds

    def before(self, key, checkpoint):
        """The oracle: a cut has, of every channel, what was sent before its barrier; all, if the channel ended instead."""
        items = self.sent[key]
        end = items.index(checkpoint) if checkpoint in items else len(items)
        return [item for item in items[:end] if isinstance(item, tuple)]

    @invariant()
    def every_delivered_cut_is_what_came_before_its_barriers(self):
        for checkpoint in self.shell.delivered if hasattr(self, "shell") else ():
            if checkpoint in self.given_up:
                continue
            head, tail = (self.shell.taken[vertex, checkpoint] for vertex in (HEAD, TAIL))
            passed_on = [item for item in tail if self.channels[item[0]] == HEAD]
            if self.align:
                assert passed_on == [item for item in head if item in passed_on], "what overtook nothing is in order"
            for key, vertex in self.channels.items():
                cut = head if vertex == HEAD else tail
                expected, found = self.before(key, checkpoint), [item for item in cut if item[0] == key]
                assert found[: len(expected)] == expected
                assert found == expected or not self.align, f"{found} is in {checkpoint}, and not {expected}"
            # What is in flight at the head is passed on after a restore; the rest has come to the tail before its snapshot.
            assert set(passed_on) <= set(head) or not self.align
            # At least once, what the head has counted is never sent again: the tail has it.
            assert set(head) <= set(tail) or self.after is not None

    @invariant()
    def consistent(self):
        if hasattr(self, "shell"):
            self.shell.machine.validate()

    def teardown(self):
        """When everything was sent and processed, all that could be complete was delivered, and nothing is held back."""
        if not hasattr(self, "shell"):
            return
        shell = self.shell
        while self.to_tell:
            self.abort()
        for key in self.live():
            while [number for number in self.due(key) if number not in self.given_up]:
                number = next(number for number in self.due(key) if number not in self.given_up)
                self.send(key, number, self.after == 0 and self.triggered[number] is None, self.triggered[number])
                self.serial += 1
                self.send(key, (key, self.serial))  # behind a barrier that others have yet to send
                while shell.queue:
                    shell.step()
        while shell.queue:
            shell.step()
        shell.now += 100
        shell.tell(TimePassed())
        self.materialize()
        self.every_delivered_cut_is_what_came_before_its_barriers()
        whole = [
            number
            for number in self.triggered.keys() - self.given_up
            if any(number in items for items in self.sent.values())
        ]
        assert set(whole) <= set(shell.delivered), shell.machine.story()
        for subtask in shell.subtasks.values():
            assert not subtask.gate._held and not shell.machine.subtasks[subtask.vertex].blocked
        everything = [item for items in self.sent.values() for item in items if isinstance(item, tuple)]
        assert sorted(shell.tail.state) == sorted(everything)


TestCuts = Cuts.TestCase
TestCuts.settings = settings(stateful_step_count=50, max_examples=150, deadline=None)


# ---- what the task adds: sources, the stop with a savepoint, the story


def commands(machine, event, now=0):
    found = machine.handle(event, Millis(now))
    machine.validate()
    return found


def test_sources_take_their_snapshots_at_the_trigger_and_one_that_has_ended_when_it_is_sealed():
    machine = TaskCheckpointMachine({1: [], 2: []})
    commands(machine, SourceEnded(2))

    assert commands(machine, TriggerCheckpoint(1), now=7) == [TakeSnapshot(1, 1, None, None, Millis(7))]
    assert commands(machine, SnapshotTaken(1, 1)) == [SealSnapshot(1, None, (2,))]
    assert commands(machine, SnapshotSealed(1)) == [DeliverSnapshot(1)]


def test_a_source_that_ends_is_no_longer_waited_for():
    machine = TaskCheckpointMachine({1: [], 2: [(0, 0)]})
    commands(machine, BarrierProcessed(2, (0, 0), 1))
    assert commands(machine, SnapshotTaken(2, 1)) == [ReleaseChannels(2)]

    assert commands(machine, SourceEnded(1)) == [SealSnapshot(1, None, (1,))]


def test_an_unaligned_source_overtakes_what_its_writers_hold_but_never_for_a_savepoint():
    machine = TaskCheckpointMachine({1: []}, unaligned_after=0)

    (taken,) = commands(machine, TriggerCheckpoint(1))
    assert taken.overtaken == frozenset()
    assert commands(machine, SnapshotTaken(1, 1)) == [AddChannelState(1, 1), SealSnapshot(1, None, ())]
    commands(machine, SnapshotSealed(1))

    (taken,) = commands(machine, TriggerCheckpoint(2, Savepoint("target")))
    assert taken.overtaken is None


def test_a_subtask_is_stopped_by_its_savepoint_until_that_is_aborted():
    machine = TaskCheckpointMachine({1: []})
    savepoint = Savepoint("target", Stop.SUSPEND)

    assert commands(machine, TriggerCheckpoint(1, savepoint)) == [TakeSnapshot(1, 1, savepoint, None, Millis(0))]
    assert commands(machine, SnapshotTaken(1, 1)) == [SealSnapshot(1, savepoint, ())]
    assert machine.stopped == {1: 1}
    commands(machine, CheckpointAborted(1))

    assert machine.stopped == {}


def test_snapshots_are_delivered_in_the_order_of_sealing():
    machine = TaskCheckpointMachine({1: []})
    for checkpoint, left in ((1, [("a", 0), ("b", 0)]), (2, [])):
        commands(machine, TriggerCheckpoint(checkpoint))
        commands(machine, SnapshotTaken(1, checkpoint))
        assert commands(machine, SnapshotSealed(checkpoint, frozenset(left))) == []

    assert commands(machine, StateMaterialized(("a", 0))) == []
    assert commands(machine, StateMaterialized(("b", 0))) == [DeliverSnapshot(1), DeliverSnapshot(2)]


def test_the_recording_of_a_checkpoint_that_another_one_replaced_is_dropped():
    machine = TaskCheckpointMachine({1: [(0, 0), (0, 1)]}, unaligned_after=0)
    commands(machine, BarrierReceived(1, (0, 0), 1, unaligned=True))
    commands(machine, SnapshotTaken(1, 1))
    assert machine.recording[1].waiting == {(0, 0), (0, 1)}, "it was received, and is yet to be found in the queue"
    commands(machine, BarrierRecorded(1, (0, 0), 1))

    assert commands(machine, BarrierRecorded(1, (0, 1), 2)) == [DropChannelState(1)]
    assert machine.snapshotted == {}


@pytest.mark.parametrize("later", [2, 3])
def test_a_later_barrier_ends_an_alignment_also_if_its_own_checkpoint_was_aborted(later):
    machine = TaskCheckpointMachine({1: [(0, 0), (0, 1)]})
    commands(machine, CheckpointAborted(2))
    commands(machine, BarrierProcessed(1, (0, 0), 1))

    assert commands(machine, BarrierProcessed(1, (0, 1), later)) == [ReleaseChannels(1)]
    assert machine.subtasks[1].blocked == ({(0, 1)} if later == 3 else set())


def test_at_least_once_a_later_barrier_leaves_an_earlier_checkpoint_as_it_is():
    machine = TaskCheckpointMachine({1: [(0, 0), (0, 1)], 2: [(1, 0)]}, align=False)
    assert [command.checkpoint for command in commands(machine, BarrierProcessed(2, (1, 0), 1))] == [1]
    commands(machine, SnapshotTaken(2, 1))
    for checkpoint in (1, 2):  # nothing holds back the barrier of the second
        assert commands(machine, BarrierProcessed(1, (0, 0), checkpoint), now=10 * checkpoint) == []
    assert machine.aligning

    assert commands(machine, BarrierProcessed(1, (0, 1), 1), now=30) == [TakeSnapshot(1, 1, None, None, 10)]
    assert commands(machine, SnapshotTaken(1, 1)) == [SealSnapshot(1, None, ())]
    assert commands(machine, BarrierProcessed(1, (0, 1), 2), now=40) == [TakeSnapshot(1, 2, None, None, 20)]
    commands(machine, SnapshotTaken(1, 2))
    assert not machine.aligning and machine.snapshotted == {2: {1}}


def test_at_least_once_the_end_of_a_channel_stands_for_all_its_barriers():
    machine = TaskCheckpointMachine({1: [(0, 0), (0, 1)]}, align=False)
    for checkpoint in (1, 2, 3):
        commands(machine, BarrierProcessed(1, (0, 0), checkpoint))
    commands(machine, CheckpointAborted(2))

    taken = machine.handle(ChannelEnded(1, (0, 1)), Millis(0))
    assert [command.checkpoint for command in taken] == [1, 3]
    assert commands(machine, BarrierProcessed(1, (0, 0), 3)) == []


def test_the_story_has_events_and_commands():
    machine = TaskCheckpointMachine({1: [(0, 0)]})
    commands(machine, BarrierProcessed(1, (0, 0), 4), now=12)

    assert machine.story() == (
        "          12 ms  BarrierProcessed(vertex=1, channel=(0, 0), checkpoint=4, unaligned=False)\n"
        "                     -> TakeSnapshot(vertex=1, checkpoint=4, savepoint=None, overtaken=None, since=12)"
    )
