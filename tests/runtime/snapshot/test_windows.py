"""Windows under checkpoints: with changes only, cuts that fail and other parallelisms, as in a run that nothing broke.

Cuts are pickled row by row, while records come and windows fire.
"""

from contextlib import suppress
from operator import itemgetter
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.checkpoint.incremental import SnapshotOptions
from funken.checkpoint.restore import RestoreTarget, plan_restore
from funken.checkpoint.store.completed import Manifest, OperatorEntry, SnapshotKind
from funken.checkpoint.store.databases import entries_of
from funken.errors import StorageFailed
from funken.ids import MAX_WATERMARK
from funken.io.storage import mounted
from funken.operators.base import OperatorContext, Output
from funken.operators.join import TAGGED_KEY, CoGroup, WindowJoin
from funken.operators.user_functions import UserFunction
from funken.operators.window.spec import Aggregated, CallStyle, Elements, Reduced, WindowCall, WindowSpec
from funken.runtime.settings import CheckpointPlan
from funken.runtime.task.state_manager import TaskStateManager
from funken.state.backend import HashMapBackend
from funken.state.keyed import KeyedStateStore
from funken.state.keygroups import key_group_of, key_groups_of, subtask_of
from funken.testing.memory_storage import Fault, MemoryStorage
from funken.timing.timers import InternalTimerService
from funken.windowing.assigners import (
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
)
from funken.windowing.evictors import CountEvictor
from funken.windowing.triggers import CountTrigger, PurgingTrigger

GROUPS = 8
KEYS = ["a", "b", "c", 1, ("t", 1), None]
KEY = UserFunction(itemgetter(0))


class Total:
    """An aggregate function whose accumulators change in place."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return tuple(accumulator)

    def merge(self, a, b):
        return a + b


def seldom(a, b):
    """Reduce; now and then to nothing, after which a window starts anew."""
    return None if b[1] % 5 == 4 else (a[0], *a[1:], *b[1:])


def show(key, window, elements):
    return [(key, str(window), *elements)]


def both(first, second):
    return [(sorted(map(str, first)), sorted(map(str, second)))]


SHOWN = WindowCall(UserFunction(show), CallStyle.APPLY)
PAIRED = WindowCall(UserFunction(CoGroup(UserFunction(both)), "apply", rich=True), CallStyle.APPLY)
SLIDING = SlidingEventTimeWindows.of(10, 4)
SPECS = {
    "tumbling": WindowSpec(KEY, TumblingEventTimeWindows.of(10), Elements(), SHOWN),
    "tumbling, reduced": WindowSpec(KEY, TumblingEventTimeWindows.of(10), Reduced(UserFunction(seldom))),
    "sliding": WindowSpec(KEY, SLIDING, Aggregated(UserFunction(Total()))),
    "sliding in processing time": WindowSpec(
        KEY, SlidingProcessingTimeWindows.of(10, 4), Aggregated(UserFunction(Total()))
    ),
    "sessions": WindowSpec(KEY, EventTimeSessionWindows.with_gap(6), Aggregated(UserFunction(Total()))),
    "counts": WindowSpec(KEY, GlobalWindows.create(), Elements(), SHOWN, PurgingTrigger(CountTrigger(3))),
    "numbered counts": WindowSpec(KEY, CountTumblingWindowAssigner.of(3), Elements(), SHOWN),
    "sliding counts": WindowSpec(KEY, GlobalWindows.create(), Elements(), SHOWN, CountTrigger(2), CountEvictor(3)),
    "general": WindowSpec(KEY, TumblingEventTimeWindows.of(10), Elements(), SHOWN, general=True),
    "join": WindowJoin(KEY, KEY, WindowSpec(TAGGED_KEY, TumblingEventTimeWindows.of(10), Elements(), PAIRED)),
}  # fmt: skip


class Job:
    """The subtasks of one window operator, as tasks run them, and what they emitted."""

    def __init__(self, spec, storage, restores=None, parallelism=1, now=0):
        self.spec, self.storage, self.now = spec, storage, now
        self.results = []
        self.tasks = [self._task(i, parallelism, restores or {}) for i in range(parallelism)]

    def _task(self, subtask, parallelism, restores):
        groups = key_groups_of(subtask, GROUPS, parallelism)
        keyed = KeyedStateStore(GROUPS, groups, lambda: self.now, HashMapBackend(tracked=True))
        timers = InternalTimerService(lambda: self.now, GROUPS, groups, tracked=True)
        context = OperatorContext(
            "op", subtask, parallelism, GROUPS, lambda: self.now, keyed=keyed, timers=timers, checkpointing=True
        )
        output, operator = Output(), self.spec.build()
        output.emit = lambda values, stamps: self.results.extend(zip(values, stamps, strict=True))
        output.watermark = lambda watermark: None
        operator.setup(context, output)
        node = SimpleNamespace(id=0, name="op")
        chain = SimpleNamespace(vertex=SimpleNamespace(nodes=[node]), operators={0: operator}, head=operator)
        names = iter(range(10**6))
        options = SnapshotOptions(True, 0, 3, lambda: f"{parallelism}-{subtask}-{next(names)}", materialize_rows=1)
        snapshots = TaskStateManager(CheckpointPlan("", options, restores=restores), {0: "op"}, subtask)
        snapshots.restore(chain)
        operator.open()
        return operator, snapshots, chain

    def feed(self, records, side=0):
        for subtask, (operator, _, _) in enumerate(self.tasks):
            mine = [
                r for r in records if subtask_of(key_group_of(r[0], GROUPS), GROUPS, len(self.tasks)) == subtask
            ]  # fmt: skip
            if mine:
                process = operator.process_second if side else operator.process
                process([(key, number) for key, number, _ in mine], [at for *_, at in mine])

    def time(self, now):
        """Let time reach ``now``."""
        self.now = max(self.now, now)
        for operator, _, _ in self.tasks:
            operator.watermark(self.now)
            due = operator.next_tick()
            if due is not None and due <= self.now:
                operator.tick(self.now)

    def cut(self, checkpoint):
        for _, snapshots, chain in self.tasks:
            snapshots.snapshot(chain, checkpoint)

    def slice(self):
        for _, snapshots, _ in self.tasks:
            snapshots.materializer.step()

    def write(self, checkpoint, savepoint=None):
        handles = []
        for _, snapshots, _ in self.tasks:
            snapshots.materializer.finish()
            for incremental, snapshot in snapshots.take(checkpoint).snapshots.values():
                handles.append(incremental.write(snapshot, self.storage, savepoint))
        return OperatorEntry("op", "op", len(self.tasks), GROUPS, True, tuple(handles))

    def give_up(self, checkpoint):
        for _, snapshots, _ in self.tasks:
            snapshots.abort(checkpoint)

    def again(self, entry, parallelism, uri="memory:/job"):
        """Start anew from what was written."""
        manifest = Manifest.from_bytes(
            Manifest("job", "job", 1, SnapshotKind.CHECKPOINT, 0, (entry,)).to_bytes(), "here"
        )
        plan = plan_restore(manifest, uri, [RestoreTarget("op", "op", parallelism, GROUPS)], own=True)
        return Job(self.spec, self.storage, plan.subtasks, parallelism, self.now)

    def end(self):
        self.time(self.now + 1000)
        for operator, _, _ in self.tasks:
            operator.watermark(MAX_WATERMARK)
        return self.results


Record = st.tuples(st.sampled_from(KEYS), st.integers(0, 30))
Step = st.one_of(st.tuples(st.sampled_from([0, 1]), st.lists(Record, min_size=1, max_size=6)), st.integers(0, 12))
Phase = st.tuples(
    st.lists(Step, max_size=6),
    st.lists(st.one_of(st.none(), Step), max_size=6),
    st.sampled_from(["write", "write", "write", "fail", "give up"]),
    st.integers(1, 3),
)


@pytest.mark.parametrize("name", SPECS)
@settings(max_examples=10, deadline=None)
@given(st.lists(Phase, min_size=1, max_size=8))
def test_windows_go_on_from_changes_as_if_nothing_had_happened(name, phases):
    storage = MemoryStorage("memory:")
    folder = storage.at("job")
    with mounted("memory:", storage):
        job, whole = Job(SPECS[name], folder), Job(SPECS[name], folder)
        kept, number = [], 0

        def do(step, *jobs):
            nonlocal number
            if step is None:
                job.slice()
            elif isinstance(step, int):
                for each in jobs:
                    each.time(each.now + step)
            else:
                side = step[0] if name == "join" else 0
                records = [(key, number + i, at + whole.now // 2) for i, (key, at) in enumerate(step[1])]
                number += len(records)
                for each in jobs:
                    each.feed(records, side)

        for checkpoint, (steps, meanwhile, what, parallelism) in enumerate(phases, 1):
            for step in steps:
                do(step, job, whole)
            job.cut(checkpoint)
            before = list(job.results)
            for step in meanwhile:  # if the job starts anew from this checkpoint, that never was
                do(step, job) if what == "write" else do(step, job, whole)
            if what == "give up":
                job.give_up(checkpoint)
                continue
            if what == "fail":
                folder.faults = lambda operation, name: Fault.TORN if operation == "write" else None
                with suppress(StorageFailed):  # unless there was nothing to write
                    job.write(checkpoint)
                folder.faults = lambda operation, name: None
                continue
            entry = job.write(checkpoint)
            kept += before
            job.now = whole.now
            job = job.again(entry, parallelism)
        assert sorted(map(repr, kept + job.end())) == sorted(map(repr, whole.end()))


@pytest.mark.parametrize("name", SPECS)
def test_what_fires_while_a_cut_is_pickled_is_in_it(name):
    storage = MemoryStorage("memory:")
    with mounted("memory:", storage):
        job, whole = Job(SPECS[name], storage.at("job")), Job(SPECS[name], storage)
        first = [(key, number, 5) for number, key in enumerate(KEYS)]
        second = [(key, number + 10, at) for key, number, at in first[:2]]
        for each in (job, whole):
            each.feed(first)
        job.cut(1)
        job.feed(second)
        job.time(100)
        entry = job.write(1)
        job.now = whole.now
        again = job.again(entry, 1)
        for each in (again, whole):
            each.feed(second)
        assert sorted(map(repr, again.end())) == sorted(map(repr, whole.end()))


@pytest.mark.parametrize("name", ["tumbling", "sliding", "sessions", "counts", "sliding counts", "join"])
def test_a_checkpoint_of_windows_is_as_large_as_what_changed(name):
    storage = MemoryStorage()
    job = Job(SPECS[name], storage)

    def size(checkpoint):
        before = sum(map(len, storage.files.values()))
        job.cut(checkpoint)
        job.write(checkpoint)
        return sum(map(len, storage.files.values())) - before

    job.feed([(key, key, 5) for key in range(10_000)])
    first = size(1)
    job.feed([(key, key, 5) for key in range(10)])
    second = size(2)
    assert first > 100_000
    assert second < first / 100
    assert size(3) < 200


def test_windows_that_fired_are_removed_from_what_was_written():
    with mounted("memory:", storage := MemoryStorage("memory:")):
        job = Job(SPECS["tumbling"], storage.at("job"))
        job.feed([(key, 1, 5) for key in range(100)])
        job.cut(1)
        job.write(1)
        job.feed([(key, 1, 15) for key in range(3)])
        job.time(9)
        job.cut(2)
        again = job.again(job.write(2), 2)
        assert sorted(again.end()) == [((key, "TimeWindow(start=10, end=20)", (key, 1)), 19) for key in range(3)]


def test_a_savepoint_of_windows_is_complete_and_can_be_read():
    with mounted("memory:", storage := MemoryStorage("memory:")):
        job = Job(SPECS["sessions"], storage.at("job"))
        job.feed([("a", 1, 5), ("b", 1, 5)])
        job.cut(1)
        job.write(1)
        job.feed([("a", 2, 40)])
        job.cut(2)
        entry = job.write(2, storage.at("savepoint"))
        manifest = Manifest("job", "job", 2, SnapshotKind.SAVEPOINT, 0, (entry,))
        found = SimpleNamespace(manifest=manifest, root=storage.at("savepoint"))
        shown = {(e.state, e.kind, e.key): e.value for e in entries_of(found, entry) if e.key}
        assert shown == {
            ("_windows.sessions", "value", "a"): [(5, 11, [("a", 1)]), (40, 46, [("a", 2)])],
            ("_windows.sessions", "value", "b"): [(5, 11, [("b", 1)])],
        }
        again = job.again(entry, 2, "memory:/savepoint")
        assert sorted(again.end()) == sorted(job.end())


def test_what_was_late_for_a_join_before_a_failure_is_late_after_it():
    with mounted("memory:", storage := MemoryStorage("memory:")):
        job = Job(SPECS["join"], storage.at("job"))
        job.time(9)
        job.cut(1)
        again = job.again(job.write(1), 1)
        again.feed([("a", 1, 5)])
        assert again.end() == []


def test_a_session_that_fired_is_no_more_in_what_is_saved_of_its_key():
    with mounted("memory:", storage := MemoryStorage("memory:")):
        job = Job(SPECS["sessions"], storage.at("job"))
        job.feed([("a", 1, 5), ("a", 2, 40)])
        job.cut(1)
        job.write(1)
        job.time(20)
        job.cut(2)
        again = job.again(job.write(2), 1)
        assert job.results + again.end() == [((("a", 1),), 10), ((("a", 2),), 45)]


def test_what_was_reduced_to_nothing_does_not_come_back_from_before_the_checkpoint():
    job = Job(SPECS["tumbling, reduced"], MemoryStorage())
    job.feed([("a", 0, 1)])
    job.cut(1)
    job.feed([("a", 4, 1)])
    job.feed([("a", 5, 1)])
    assert job.end() == [(("a", 5), 9)]
