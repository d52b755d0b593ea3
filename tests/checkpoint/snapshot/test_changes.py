"""Snapshots of changes: with what was written before they read as the whole, whatever became of the cuts between.

Cuts are pickled row by row here, while the state goes on to change.
"""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.checkpoint.incremental import IncrementalSnapshots, SnapshotOptions
from funken.checkpoint.restore import RestoreTarget, origins, plan_restore, read_state
from funken.checkpoint.store.blobs import SubtaskState, state_pickler
from funken.checkpoint.store.completed import Manifest, OperatorEntry, SnapshotKind
from funken.errors import StorageFailed
from funken.operators.base import OperatorContext, Output
from funken.operators.rolling import RollingReduce
from funken.operators.user_functions import UserFunction
from funken.state.backend import HashMapBackend
from funken.state.delta_tables import PendingSection, SnapshotWriter
from funken.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from funken.state.keyed import KeyedStateStore
from funken.state.keygroups import key_group_of, key_groups_of
from funken.testing.memory_storage import Fault, MemoryStorage, planned
from funken.timing.timers import InternalTimerService

GROUPS = 8
KEYS = ["a", "b", "c", 1, ("t", 1), None]
VALUE, LIST, MAP = ValueStateDescriptor("value"), ListStateDescriptor("list"), MapStateDescriptor("map")
GROWN = ValueStateDescriptor("grown")


def total(a, b):
    """Add to a list in place."""
    if isinstance(a, list):
        a[1] += b[1]
        return a
    return a[0], a[1] + b[1]


class Subtask:
    """A running reduce with state and timers of its own beside it, and its snapshots."""

    def __init__(self, subtask=0, parallelism=1):
        groups = key_groups_of(subtask, GROUPS, parallelism)
        self.now = 0
        self.subtask = subtask
        self.store = KeyedStateStore(GROUPS, groups, lambda: self.now, HashMapBackend(tracked=True))
        self.timers = InternalTimerService(lambda: self.now, GROUPS, groups, tracked=True)
        self.context = OperatorContext(
            "op", subtask, parallelism, GROUPS, lambda: self.now, keyed=self.store, timers=self.timers
        )
        self.operator = RollingReduce(UserFunction(lambda pair: pair[0]), UserFunction(total)).build()
        self.open = None
        self.results = []
        output = Output()
        output.emit = lambda values, timestamps: self.results.extend(values)
        self.operator.setup(self.context, output)
        names = iter(range(10**6))
        self.lineage = IncrementalSnapshots(
            "op", subtask, SnapshotOptions(True, 0, 3, lambda: f"{subtask}u{next(names)}")
        )

    def restore(self, storage, plan):
        for piece in read_state(storage, plan):
            if piece.keyed is not None:
                self.store.restore([piece.keyed])
                self.timers.restore([piece.timers])
        self.lineage.resume(origins(storage, plan), plan.exact)

    def state(self, complete):
        for ask in self.context.before_snapshot:
            ask()
        parts = (self.store, self.timers)
        return SubtaskState(*(part.snapshot() if complete else part.snapshot_changes() for part in parts))

    def cut(self, checkpoint):
        if self.open is not None:
            self.open.finish()
        complete, dumps = self.lineage.wants_complete, state_pickler("op", self.subtask)
        state = SubtaskState()
        for section, name, part in (("state/", "keyed", self.store), ("timers/", "timers", self.timers)):
            writer = SnapshotWriter(dumps)
            state.held[section] = PendingSection(writer, part.begin_snapshot(writer, complete, chunk=1))
            setattr(state, name, part.empty_snapshot(complete))
        snapshot = self.lineage.snapshot(state, checkpoint)
        self.open = snapshot.rest
        return snapshot

    def do(self, step):
        if step is None:
            if self.open is not None and self.open.open:
                self.open.step(1)
            return
        action, key, namespace, number = step
        self.store.current_key = key
        if action == "reduce":
            self.operator.process([[key, number]], None)
        elif action == "timer":
            self.timers.register_event_time_timer(key, namespace, number)
            self.timers.register_processing_time_timer(key, namespace, number)
        elif action == "delete":
            self.timers.delete_event_time_timer(key, namespace, number)
        elif action == "fire":
            self.timers.advance_watermark(number, lambda at, key, ns: None if at % 2 else self.rearm(at, key, ns))
        else:
            descriptor = {"value": VALUE, "list": LIST, "map": MAP, "grown": GROWN}[action.split()[0]]
            state = self.store.state(descriptor) if namespace is None else self.store.namespaced(descriptor)
            state.namespace = namespace
            if action.endswith("clear"):
                state.clear()
            elif descriptor is VALUE:
                state.update(number)
            elif descriptor is GROWN:
                grown = state.value() or []
                grown.append(number)
                state.update(grown)
            elif descriptor is LIST:
                state.add(number)
            elif number == 3:
                state.remove(1)
            else:
                state.put(number % 3, number)

    def rearm(self, at, key, namespace):
        self.timers.register_event_time_timer(key, namespace, at + 1)


def content(subtasks):
    """All that is there, read beside the snapshots, so that no changes are taken away."""
    rows, timers = {}, set()
    for subtask in subtasks:
        for name, declared in subtask.store._states.items():
            for namespaced, table in declared.tables.items():
                for slot, stored in table.items():
                    rows[(name, *slot) if namespaced else (name, slot, None)] = stored
        rows |= {("_rolling.aggregate", key, None): value for key, value in subtask.operator._layers.whole().items()}
        for domain, queue in subtask.timers._domains():
            timers |= {(domain, *timer) for timer in queue}
    return pickle.loads(pickle.dumps((rows, timers)))


def restored(handles, storage, parallelism):
    operator = OperatorEntry("op", "op", len(handles), GROUPS, True, tuple(handles))
    manifest = Manifest.from_bytes(
        Manifest("job", "job", 1, SnapshotKind.CHECKPOINT, 0, (operator,)).to_bytes(), "here"
    )
    plan = plan_restore(manifest, storage.uri, [RestoreTarget("op", "op", parallelism, GROUPS)], own=True).subtasks
    subtasks = [Subtask(i, parallelism) for i in range(parallelism)]
    for subtask in subtasks:
        subtask.restore(storage, plan["op", subtask.subtask])
    return subtasks


Step = st.tuples(
    st.sampled_from(
        [
            "reduce",
            "reduce",
            "timer",
            "timer",
            "delete",
            "fire",
            "value",
            "list",
            "map",
            "grown",
            "grown clear",
            "value clear",
            "list clear",
            "map clear",
        ]
    ),
    st.sampled_from(KEYS),
    st.sampled_from([None, "w", (0, 5)]),
    st.integers(1, 5),
)
Phase = st.tuples(
    st.lists(Step, max_size=12),
    st.lists(st.one_of(st.none(), Step), max_size=12),
    st.sampled_from(["write", "write", "skip", "leave", "fail", "torn"]),
    st.integers(1, 3),
)


@given(st.lists(Phase, min_size=1, max_size=12))
def test_what_is_restored_is_what_was_there_whatever_became_of_the_cuts_and_the_parallelism(phases):
    kinds = {"fail": Fault.ERROR, "torn": Fault.TORN}
    faults = [("write", f"shared/{n}-", kinds[what]) for n, (*_, what, _) in enumerate(phases, 1) if what in kinds]
    storage, subtasks = MemoryStorage(faults=planned(*faults)), [Subtask()]

    def do(step):
        if step is None:
            for subtask in subtasks:
                subtask.do(None)
            return
        group = key_group_of(step[1], GROUPS)
        next(s for s in subtasks if group in s.store.key_groups).do(step)

    for checkpoint, (steps, meanwhile, what, parallelism) in enumerate(phases, 1):
        for step in steps:
            do(step)
        before = content(subtasks)
        cuts = [(subtask.lineage, subtask.cut(checkpoint)) for subtask in subtasks]
        for step in meanwhile:
            do(step)
        if what == "leave":  # not through when the next one comes
            continue
        for _, snapshot in cuts:
            snapshot.rest.finish()
        handles = []
        for incremental, snapshot in cuts:
            if what == "skip":
                incremental.skip(snapshot)
                continue
            try:
                handles.append(incremental.write(snapshot, storage))
            except StorageFailed:
                assert what in kinds
        if len(handles) == len(subtasks):
            found = restored(handles, storage, parallelism)
            assert content(found) == before
            if parallelism != len(subtasks):
                subtasks = found


@given(st.lists(st.lists(Step, max_size=12), min_size=1, max_size=6))
def test_changes_after_changes_come_to_the_complete_snapshot(phases):
    subtask, copied = Subtask(), Subtask()
    rows, timers = {}, set()
    for steps in phases:
        for step in steps:
            subtask.do(step)
            copied.do(step)
        state, whole = subtask.state(complete=False), copied.state(complete=True)
        for group, tables in state.keyed.groups.items():
            rows |= {(group, name, *row[:2]): row[2] for name, found in tables.items() for row in found}
        for group, tables in state.keyed.deleted.items():
            for name, slots in tables.items():
                for slot in slots:
                    rows.pop((group, name, *slot), None)
        for found, change in ((state.timers.groups, timers.add), (state.timers.deleted, timers.discard)):
            for domains in found.values():
                for domain, each in domains.items():
                    for timer in each:
                        change((domain, *timer))
        groups = whole.keyed.groups.items()
        assert rows == {
            (g, name, *r[:2]): r[2] for g, tables in groups for name, found in tables.items() for r in found
        }
        domains = [pair for found in whole.timers.groups.values() for pair in found.items()]
        assert timers == {(domain, *timer) for domain, each in domains for timer in each}


def test_only_what_changed_is_in_a_snapshot_of_changes():
    subtask = Subtask()
    subtask.operator.process([(key, 1) for key in range(100)], None)
    subtask.state(complete=True)
    subtask.operator.process([(7, 1)], None)
    subtask.do(("timer", "a", None, 5))
    subtask.do(("timer", "b", None, 5))
    subtask.do(("delete", "b", None, 5))
    state = subtask.state(complete=False)
    assert state.keyed.groups == {key_group_of(7, GROUPS): {"_rolling.aggregate": [(7, None, (7, 2))]}}
    assert state.keyed.deleted == {}
    assert state.timers.deleted == {key_group_of("b", GROUPS): {"event": [(5, "b", None)]}}
    nothing = subtask.state(complete=False)
    assert not any((nothing.keyed.groups, nothing.timers.groups, nothing.timers.deleted))


def test_what_was_restored_is_no_change():
    subtask, again = Subtask(), Subtask()
    subtask.do(("value", "a", None, 1))
    subtask.do(("timer", "a", None, 1))
    state = subtask.state(complete=True)
    again.store.restore([state.keyed])
    again.timers.restore([state.timers])
    nothing = again.state(complete=False)
    assert not nothing.keyed.groups
    assert not nothing.timers.groups


def test_what_expired_is_deleted_by_the_next_change():
    subtask = Subtask()
    lifetime = StateTtlConfig.new_builder(10).build()
    descriptor = ValueStateDescriptor("value")
    descriptor.enable_time_to_live(lifetime)
    state = subtask.store.state(descriptor)
    subtask.store.current_key = "a"
    state.update(1)
    subtask.now = 10
    changes = subtask.store.snapshot_changes()
    assert changes.groups == {}
    assert changes.deleted == {key_group_of("a", GROUPS): {"value": [("a", None)]}}


@pytest.mark.parametrize("part", ["store", "timers"])
def test_what_is_not_tracked_is_given_completely(part):
    store = KeyedStateStore(GROUPS, range(GROUPS), lambda: 0)
    timers = InternalTimerService(lambda: 0, GROUPS)
    store.current_key = "a"
    store.state(VALUE).update(1)
    timers.register_event_time_timer("a", None, 1)
    for _ in range(2):
        snapshot = (store if part == "store" else timers).snapshot_changes()
        assert snapshot.complete
        assert snapshot.groups
