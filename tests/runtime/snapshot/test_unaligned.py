"""Unaligned barriers: a gate that does not wait, and a task whose snapshot has what was overtaken."""

import functools
import pickle
from collections import Counter
from dataclasses import replace

import cloudpickle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken import (
    BroadcastProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from funken.checkpoint.incremental import SnapshotOptions
from funken.checkpoint.restore import RestoreTarget, plan_restore
from funken.checkpoint.store.completed import Manifest, OperatorEntry
from funken.checkpoint.store.completed import SnapshotKind as What
from funken.columnar.block import RowBlock
from funken.errors import CheckpointIncompatible, OperatorFailed
from funken.ids import MAX_WATERMARK
from funken.io.storage import mounted
from funken.plan.nodes import Broadcast, Forward, Rescale, portable
from funken.runtime.exchange.gate import BlockKind, decode_records, encode_records, pack_header, payload_of, read_header
from funken.runtime.messages import CheckpointAborted, Savepoint, TaskId, TriggerCheckpoint
from funken.runtime.settings import CheckpointPlan, TaskSettings
from funken.runtime.task.state_manager import UNALIGNED, may_overtake, write_snapshot
from funken.runtime.task.task import Task
from funken.testing.memory_storage import MemoryStorage
from funken.timing.clock import ManualClock
from tests.support.barriers import AligningGate
from tests.support.receiver import Receiver

A, B, C = (0, 0), (0, 1), (1, 0)


class Log(Receiver):
    """A receiver that writes down what is overtaken as well."""

    def overtake(self, checkpoint, waiting):
        self.told.append(f"overtake {checkpoint}: {sorted(waiting)}")


@pytest.fixture
def log():
    return Log()


def gate_of(log, aligned_only=(), timeout=0):
    return AligningGate(log, [(A, 0), (B, 0), (C, 1)], aligned_only, unaligned_after=timeout)


# ---- the gate


def test_the_first_barrier_that_is_received_makes_the_cut(log):
    gate = gate_of(log)

    gate.announce(B, 1, unaligned=True)

    assert log.told == [f"overtake 1: {[A, B, C]}", "barrier 1"]
    for channel in (A, B, C):
        gate.barrier(channel, 1)
        gate.data(channel, RowBlock(["x"]))
    assert log.told[2:] == ["x", "x", "x"], "late barriers of that checkpoint hold nothing back"


def test_records_of_firm_channels_are_not_overtaken(log):
    gate = gate_of(log, aligned_only=[C])
    gate.announce(A, 1, unaligned=True)
    gate.data(C, RowBlock(["c1"]))
    assert log.told == ["c1"]

    gate.barrier(A, 1)
    gate.data(A, RowBlock(["after"]))
    gate.barrier(C, 1)

    assert log.told == ["c1", f"overtake 1: {[B]}", "barrier 1", "after"]


def test_an_alignment_that_takes_too_long_overtakes(log):
    gate = gate_of(log, timeout=50)
    gate.now = 1000
    gate.announce(A, 1, unaligned=False)
    gate.barrier(A, 1)
    gate.data(A, RowBlock(["after"]))

    assert gate.advance(1049) == 1050
    assert log.told == []
    assert gate.advance(1050) is None

    assert log.told == [f"overtake 1: {[B, C]}", "barrier 1", "after"]


def test_one_that_is_done_in_time_overtakes_nothing(log):
    gate = gate_of(log, timeout=50)
    for channel in (A, B, C):
        gate.announce(channel, 1, unaligned=False)
        gate.barrier(channel, 1)

    assert gate.advance(10_000) is None
    assert log.told == ["barrier 1"]


def test_a_savepoint_stays_aligned_however_long_it_takes(log):
    gate = gate_of(log, timeout=50)
    gate.barrier(A, 1)  # of a savepoint nothing is announced

    assert gate.advance(10_000) is None
    assert log.told == []


def test_a_checkpoint_given_up_before_its_barriers_came_is_not_begun(log):
    gate = gate_of(log)

    gate.abort(1)
    gate.announce(A, 1, unaligned=True)
    gate.barrier(A, 1)
    gate.data(A, RowBlock(["after"]))

    assert log.told == ["after"]


# ---- the task


class Count(KeyedProcessFunction):
    """Counts the records of a key."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        yield value


@functools.cache
def program(width, sources):
    env = StreamExecutionEnvironment.create_local_environment(1)
    env.get_configuration().set("pipeline.max-parallelism", 8)
    numbers = env.from_collection([0]).rebalance().map(lambda n: n).set_parallelism(sources).uid("numbers")
    counts = numbers.key_by(lambda n: n % 10).process(Count()).uid("count").set_parallelism(width)
    counts.rebalance().map(lambda n: n).set_parallelism(2).uid("next")
    return portable(env.compile())


class Rules(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value

    def process_broadcast_element(self, value, ctx):
        yield from ()


class Bench:
    """The counting tasks of one attempt, fed by hand."""

    def __init__(self, storage, restores=(), width=1, sources=2, after=0, slice_rows=0):
        blob = program(width, sources)
        self.plan = cloudpickle.loads(blob)
        (self.edge,) = (edge for edge in self.plan.edges if edge.partitioning.label == "HASH")
        self.clock = ManualClock(1_000)
        self.cuts = []
        self.reports = []
        self.storage = storage
        options = SnapshotOptions(materialize_rows=slice_rows)
        checkpoints = CheckpointPlan(storage.uri, options, unaligned_after=after, restores=dict(restores))
        settings = TaskSettings(checkpoints=checkpoints, block_records=1000)
        self.tasks = [
            Task(
                cloudpickle.loads(blob),
                TaskId(2, n),
                settings,
                self.clock,
                self.reports.append,
                deliver=self.cuts.append,
            )
            for n in range(width)
        ]
        for task in self.tasks:
            task.open()

    def block(self, kind, upstream, payload=b"", number=0, target=0):
        self.tasks[target].receive(pack_header(kind, self.edge.id, upstream, target, 0, number, 0.0, payload))

    def data(self, upstream, values, target=0):
        self.block(BlockKind.DATA, upstream, encode_records(values, [v * 10 for v in values], "test", 0), target=target)

    def barrier(self, upstream, number=1, details=UNALIGNED, target=0):
        self.block(BlockKind.BARRIER, upstream, details, number, target)

    def work(self):
        for task in self.tasks:
            while task.work:
                task.step()
            while task.materializing:
                task.advance()
            task.flush()

    def sent(self):
        """What was emitted, in order: records with their timestamps, barriers as text."""
        found = []
        for task in self.tasks:
            for _, data in task.outbox:
                head = read_header(data)
                if head.kind == BlockKind.DATA:
                    found += zip(*decode_records(data).rows(), strict=True)
                elif head.kind == BlockKind.BARRIER and head.target == 0:
                    found.append(f"barrier {head.number}{'!' if payload_of(data) == UNALIGNED else ''}")
                elif head.kind == BlockKind.WATERMARK and head.target == 0:
                    found.append(f"watermark {head.number}")
            task.outbox.clear()
        return found

    def counts(self):
        """The state of all tasks, by key."""
        counts = Counter()
        for task in self.tasks:
            for subtask in task.subtasks.values():
                for states in subtask.chain.head.context.keyed.snapshot().groups.values():
                    for key, _, count in states.get("count", ()):
                        counts[key] += count
        return counts

    def handles(self):
        """Write every cut; return the handles by place."""
        return {
            place: handle for snapshot in self.cuts for place, handle in write_snapshot(snapshot, self.storage).items()
        }


@pytest.fixture
def storage():
    storage = MemoryStorage("memory://unaligned")
    with mounted("memory://unaligned", storage):
        yield storage.at("job")


def restores_of(handles, width):
    """What ``width`` subtasks start from, by way of a manifest as anywhere."""
    by_operator = {}
    for (name, subtask), handle in sorted(handles.items()):
        by_operator.setdefault(name, {})[subtask] = handle
    entries = tuple(
        OperatorEntry(name, name, len(found), 8, True, tuple(found.values())) for name, found in by_operator.items()
    )
    manifest = Manifest("job", "job", 1, What.CHECKPOINT, 0, entries)
    targets = [RestoreTarget(name, name, width, 8) for name in by_operator]
    return plan_restore(manifest, "memory://unaligned/job", targets, own=True).subtasks, manifest


def test_a_barrier_overtakes_what_waits_in_the_task_and_in_its_writers(storage):
    bench = Bench(storage)
    bench.data(0, [1, 2])
    while bench.tasks[0].work:
        bench.tasks[0].step()  # their results wait for their block to fill
    bench.data(0, [3])
    bench.data(1, [4])

    bench.barrier(0)
    assert bench.cuts == [], "the other channel's barrier is yet to come"
    bench.data(0, [5])
    bench.data(1, [6])
    bench.barrier(1)

    (snapshot,) = bench.cuts
    assert snapshot.checkpoint == 1
    bench.work()
    assert bench.sent()[0] == "barrier 1!"
    restores, manifest = restores_of(bench.handles(), 1)
    assert manifest.in_flight > 0
    again = Bench(storage, restores.items())
    again.work()
    assert Counter(again.sent()) == Counter([(n, n * 10) for n in (1, 2, 3, 4, 6)]), "5 came behind its barrier"


def test_watermarks_in_flight_keep_their_place(storage):
    bench = Bench(storage)
    bench.block(BlockKind.WATERMARK, 1, number=100)
    bench.data(0, [3])
    bench.block(BlockKind.WATERMARK, 0, number=40)
    bench.data(0, [7])
    bench.barrier(0)
    bench.barrier(1)

    again = Bench(storage, restores_of(bench.handles(), 1)[0].items())
    again.work()

    assert again.sent() == [(3, 30), "watermark 40", (7, 70)]


def test_after_a_restore_the_watermark_does_not_go_back(storage):
    bench = Bench(storage)
    for upstream in (0, 1):
        bench.block(BlockKind.WATERMARK, upstream, number=50)
    bench.work()
    for upstream in (0, 1):
        bench.barrier(upstream)
    bench.work()

    again = Bench(storage, restores_of(bench.handles(), 1)[0].items())
    for watermark in (40, 60):
        for upstream in (0, 1):
            again.block(BlockKind.WATERMARK, upstream, number=watermark)
    again.work()

    assert again.sent() == ["watermark 60"]


@pytest.mark.parametrize("partitioning", [Broadcast(), Forward(), Rescale()])
def test_where_a_record_s_place_is_more_than_its_key_nothing_is_overtaken(partitioning):
    assert not may_overtake(partitioning)


def test_an_alignment_in_time_has_nothing_in_flight(storage):
    bench = Bench(storage, after=50)
    bench.data(0, [1])
    bench.barrier(0, details=b"")
    bench.barrier(1, details=b"")
    assert bench.cuts == []
    bench.work()

    assert restores_of(bench.handles(), 1)[1].in_flight == 0
    assert bench.sent() == [(1, 10), "barrier 1"]


def test_an_alignment_that_takes_too_long_overtakes_from_there_on(storage):
    bench = Bench(storage, after=50)
    bench.data(1, [1])
    bench.barrier(0, details=b"")
    assert bench.tasks[0].advance() == 1_050

    bench.clock.set(1_050)
    bench.tasks[0].advance()
    assert bench.sent() == ["barrier 1!"]
    bench.data(1, [2])
    bench.barrier(1, details=b"")

    again = Bench(storage, restores_of(bench.handles(), 1)[0].items())
    again.work()
    assert again.sent() == [(1, 10), (2, 20)]


def test_a_savepoint_is_aligned(storage):
    bench = Bench(storage)
    details = pickle.dumps(Savepoint("memory://unaligned/savepoint"))
    bench.data(1, [1])
    bench.barrier(0, details=details)
    bench.barrier(1, details=details)
    assert bench.cuts == []

    bench.work()

    assert bench.cuts[0].savepoint is not None
    assert bench.sent()[:2] == [(1, 10), "barrier 1"]


def test_what_is_given_up_is_not_recorded_any_more(storage):
    bench = Bench(storage)
    bench.barrier(0)
    assert bench.tasks[0].awaits_barriers

    bench.tasks[0].handle_command(CheckpointAborted(1))
    assert not bench.tasks[0].awaits_barriers
    bench.barrier(1)
    bench.barrier(0, number=2)
    bench.barrier(1, number=2)

    assert [snapshot.checkpoint for snapshot in bench.cuts] == [2]


def test_a_later_barrier_instead_of_its_own_voids_a_record(storage):
    bench = Bench(storage)
    bench.barrier(0)
    bench.barrier(1, number=2)
    bench.barrier(0, number=2)

    assert [snapshot.checkpoint for snapshot in bench.cuts] == [2]


def test_a_source_cuts_at_once_and_sends_the_barrier_ahead(storage):
    plan = cloudpickle.loads(program(1, 1))
    sent = []
    settings_of = TaskSettings(checkpoints=CheckpointPlan(storage.uri, unaligned_after=0))
    task = Task(plan, TaskId(0, 0), settings_of, ManualClock(0), print, deliver=sent.append)
    task.open()

    task.handle_command(TriggerCheckpoint(1))

    assert [payload_of(data) for _, data in task.outbox] == [UNALIGNED]
    assert [snapshot.checkpoint for snapshot in sent] == [1]


def test_a_cut_that_waited_for_the_end_of_a_firm_channel_is_handed_in_before_the_last_one(storage):
    env = StreamExecutionEnvironment.create_local_environment(1)
    rules = env.from_collection([0]).broadcast(MapStateDescriptor("rules"))
    numbers = env.from_collection([0]).rebalance()
    numbers.connect(rules).process(Rules()).set_parallelism(2).rebalance().map(lambda n: n).set_parallelism(3)
    plan = env.compile()
    edges = {edge.partitioning.label: edge for edge in plan.edges if edge.target_stage == 1}
    assert sorted(edges) == ["BROADCAST", "REBALANCE"]
    snapshot = []
    options = CheckpointPlan(storage.uri, unaligned_after=0)
    task = Task(
        plan,
        TaskId(1, 0),
        TaskSettings(checkpoints=options),
        ManualClock(0),
        lambda event: None,
        deliver=snapshot.append,
    )
    task.open()

    def receive(label, kind, number=0, payload=b""):
        task.receive(pack_header(kind, edges[label].id, 0, 0, 0, number, 0.0, payload))

    receive("REBALANCE", BlockKind.BARRIER, 1, UNALIGNED)
    for label in ("REBALANCE", "BROADCAST"):
        receive(label, BlockKind.WATERMARK, MAX_WATERMARK)
        receive(label, BlockKind.END)
    while task.work:
        task.step()

    assert task.finished
    assert [each.final for each in snapshot] == [False, True]
    assert snapshot[0].checkpoint == 1


def test_who_had_ended_keeps_its_state_for_later_checkpoints(storage):
    bench = Bench(storage)
    bench.data(0, [1, 2, 2])
    bench.work()
    for upstream in (0, 1):
        bench.barrier(upstream)
    restores, _ = restores_of(bench.handles(), 1)
    ended = {place: replace(restore, finished=True) for place, restore in restores.items()}

    again = Bench(storage, ended.items())
    for upstream in (0, 1):
        again.block(BlockKind.WATERMARK, upstream, number=MAX_WATERMARK)
        again.block(BlockKind.END, upstream)
    again.work()

    assert again.sent() == [f"watermark {MAX_WATERMARK}"]
    (final,) = again.cuts
    assert final.final
    once_more = Bench(storage, restores_of(again.handles(), 1)[0].items())
    assert once_more.counts() == {1: 1, 2: 2}


def test_records_whose_way_is_gone_are_not_lost_silently(storage):
    bench = Bench(storage)
    bench.data(0, [1])
    bench.barrier(0)
    bench.barrier(1)
    restores, _ = restores_of(bench.handles(), 1)
    env = StreamExecutionEnvironment.create_local_environment(1)
    other = env.from_collection([0]).uid("other").rebalance().map(lambda n: n).set_parallelism(2).uid("numbers")
    renamed = other.key_by(lambda n: n).process(Count()).uid("count").set_parallelism(1)
    renamed.rebalance().map(lambda n: n).set_parallelism(2).uid("next")
    plan = env.compile()
    names = {name: f"{name} of another" if name == "numbers" else name for name in plan.stable_ids.values()}
    object.__setattr__(plan, "stable_ids", {number: names[name] for number, name in plan.stable_ids.items()})
    checkpoints = CheckpointPlan(storage.uri, unaligned_after=0, restores=restores)
    task = Task(plan, TaskId(2, 0), TaskSettings(checkpoints=checkpoints), ManualClock(0), print, deliver=print)

    with pytest.raises(OperatorFailed, match="were on their way from operator 'numbers' to 'count'") as raised:
        task.open()
    assert isinstance(raised.value.__cause__, CheckpointIncompatible)


STEPS = st.one_of(
    st.tuples(st.just("data"), st.integers(0, 2), st.lists(st.integers(0, 99), min_size=1, max_size=4)),
    st.tuples(st.just("step"), st.just(0), st.just([])),
    st.tuples(st.just("flush"), st.just(0), st.just([])),
)


@settings(max_examples=40, deadline=None)
@given(
    before=st.lists(STEPS, max_size=12),
    between=st.lists(st.lists(STEPS, max_size=5), min_size=3, max_size=3),
    order=st.permutations([0, 1, 2]),
    after=st.sampled_from([0, 5]),
    width=st.integers(1, 3),
    sources=st.sampled_from([1, 3]),
    slice_rows=st.sampled_from([0, 1]),
)
def test_state_and_what_is_in_flight_are_what_came_before_the_barriers(
    before, between, order, after, width, sources, slice_rows
):
    """Counts in state, and records that come once more: together each record before its barrier exactly once."""
    storage = MemoryStorage("memory://unaligned")
    with mounted("memory://unaligned", storage):
        bench = Bench(storage.at("job"), sources=3, after=after, slice_rows=slice_rows)
        task, expected, delivered, arrived = bench.tasks[0], Counter(), [], set()

        def do(steps):
            for what, upstream, values in steps:
                if what == "data":
                    bench.data(upstream, values)
                    if upstream not in arrived:
                        expected.update(values)
                elif what == "step" and task.work:
                    task.step()
                elif what == "flush":
                    task.flush()
                bench.clock.advance(1)
                task.advance()

        do(before)
        for upstream, steps in zip(order, between, strict=True):
            bench.barrier(upstream, details=UNALIGNED if after == 0 else b"")
            arrived.add(upstream)
            do(steps)
        bench.work()
        # What left before the barrier, downstream has; the rest is to come again.
        sent = bench.sent()
        for entry in sent:
            if isinstance(entry, str) and entry.startswith("barrier"):
                break
            delivered.append(entry[0])

        restores, _ = restores_of(bench.handles(), width)
        again = Bench(storage.at("job"), restores.items(), width=width, sources=sources)
        again.work()

        came_again = [entry[0] for entry in again.sent() if not isinstance(entry, str)]
        assert Counter(came_again) + Counter(delivered) == expected
        assert again.counts() == Counter(value % 10 for value in expected.elements()), "no count is lost or doubled"
