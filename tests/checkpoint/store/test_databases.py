"""State in RocksDB and state in memory are the same state: through checkpoints, savepoints, and from one to the other."""

import os
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.checkpoint.incremental import IncrementalSnapshots, SnapshotOptions
from funken.checkpoint.restore import RestoreTarget, origins, plan_restore, read_state
from funken.checkpoint.store.blobs import SubtaskState
from funken.checkpoint.store.completed import (
    CompletedCheckpointStore,
    Manifest,
    OperatorEntry,
    RestorePoint,
    SnapshotKind,
    verify,
    write_manifest,
)
from funken.checkpoint.store.databases import entries_of, load
from funken.errors import CheckpointCorrupted
from funken.io.storage import LocalStorage
from funken.state.backend import HashMapBackend
from funken.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from funken.state.keyed import KeyedStateStore
from funken.state.keygroups import key_group_of, key_groups_of, subtask_of
from funken.state.rocksdb.backend import RocksDBBackend, TaskDatabases
from funken.state.rocksdb.layout import encode_key
from funken.testing.memory_storage import MemoryStorage
from funken.timing.timers import InternalTimerService

GROUPS = 8
PLACE = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Count:
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator


TTL = StateTtlConfig.new_builder(10).build()
KINDS = {
    "value": ValueStateDescriptor("value"),
    "list": ListStateDescriptor("list"),
    "map": MapStateDescriptor("map"),
    "reducing": ReducingStateDescriptor("reducing", lambda a, b: a * 31 + b),
    "aggregating": AggregatingStateDescriptor("aggregating", Count()),
    "short": MapStateDescriptor("short"),
}
KINDS["short"].enable_time_to_live(TTL)
Step = st.tuples(
    st.sampled_from(sorted(KINDS)),
    st.sampled_from(["a", "b", 1, True, 2.5, ("t", 1), None, frozenset("xy")]),
    st.sampled_from([None, "w1", ("w", 2)]),
    st.sampled_from(["write", "write", "write", "remove", "timer"]),
    st.integers(1, 99),
)


@pytest.fixture(scope="module")
def databases(tmp_path_factory):
    shared = TaskDatabases(32 * 2**20, 0.5, PLACE or str(tmp_path_factory.mktemp("databases")))
    yield shared
    shared.folder.remove()


class Subtask:
    """The keyed state and timers of a subtask, in one backend or the other, and its snapshots."""

    def __init__(self, shared, now, subtask=0, parallelism=1, incremental=True):
        groups = key_groups_of(subtask, GROUPS, parallelism)
        self.backend = RocksDBBackend(shared, GROUPS, groups) if shared else HashMapBackend(tracked=True)
        self.store = KeyedStateStore(GROUPS, groups, lambda: now[0], self.backend)
        self.timers = InternalTimerService(lambda: now[0], GROUPS, groups, tracked=True)
        self.lineage = IncrementalSnapshots("op", subtask, SnapshotOptions(incremental, inline_below=200))

    def restore(self, storage, plan):
        in_files = isinstance(self.backend, RocksDBBackend)
        if in_files:
            load(self.backend, storage, plan.keyed)
        for piece in read_state(storage, plan, databases=not in_files):
            if piece.keyed is not None:
                self.store.restore([piece.keyed])
            if piece.timers is not None:
                self.timers.restore([piece.timers])
        if all(bool(source.files) == in_files for source in plan.keyed):
            files = plan.keyed[0].files if plan.exact and plan.keyed else ()
            self.lineage.resume(origins(storage, plan), plan.exact, files)

    def cut(self, checkpoint):
        complete, files = self.lineage.wants_complete, self.store.snapshot_files()
        keyed = files[0] if files else self.store.snapshot() if complete else self.store.snapshot_changes()
        timers = self.timers.snapshot() if complete else self.timers.snapshot_changes()
        return self.lineage.snapshot(SubtaskState(keyed, timers, database=files and files[1]), checkpoint)

    def do(self, step):
        name, key, namespace, action, number = step
        self.store.current_key = key
        if action == "timer":
            self.timers.register_event_time_timer(key, namespace, number)
            return
        state = self.store.state(KINDS[name]) if namespace is None else self.store.namespaced(KINDS[name])
        if namespace is not None:
            state.namespace = namespace
        if action == "remove" and KINDS[name].kind.value == "map":
            state.remove(number % 3)
        elif action == "remove":
            state.clear()
        elif KINDS[name].kind.value == "map":
            state.put(number % 3, number)
        elif name == "value":
            state.update(number)
        else:
            state.add(number)

    def close(self):
        if isinstance(self.backend, RocksDBBackend):
            self.backend.close()


class Job:
    """An operator at some parallelism, in some backend, and the folder of its job."""

    def __init__(self, shared, now, storage, parallelism, found=None, incremental=True):
        self.storage = storage
        self.parallelism = parallelism
        self.subtasks = [Subtask(shared, now, each, parallelism, incremental) for each in range(parallelism)]
        if found is not None:
            own = found.root is storage and found.manifest.kind is SnapshotKind.CHECKPOINT
            target = [RestoreTarget("op", "op", parallelism, GROUPS)]
            plan = plan_restore(found.manifest, "there", target, own=own)
            for number, subtask in enumerate(self.subtasks):
                subtask.restore(found.root, pickle.loads(pickle.dumps(plan.subtasks["op", number])))

    def do(self, steps):
        for step in steps:
            self.subtasks[subtask_of(key_group_of(step[1], GROUPS), GROUPS, self.parallelism)].do(step)

    def save(self, checkpoint, savepoint=None):
        handles = [subtask.lineage.write(subtask.cut(checkpoint), self.storage, savepoint) for subtask in self.subtasks]
        kind = SnapshotKind.CHECKPOINT if savepoint is None else SnapshotKind.SAVEPOINT
        entry = OperatorEntry(
            "op",
            "op",
            self.parallelism,
            GROUPS,
            True,
            tuple(handles),
        )
        found = RestorePoint(Manifest("job", "job", checkpoint, kind, 0, (entry,)), savepoint or self.storage)
        found = RestorePoint(Manifest.from_bytes(found.manifest.to_bytes(), "here"), found.root)
        verify(found.manifest, found.root, found.root.sizes())
        return found

    def contents(self):
        """All that is live, and the timers; which of several equal keys is given back, as 1 and True, is open."""
        rows = [
            (group, name, encode_key(key), namespace, sorted(stored.items()) if isinstance(stored, dict) else stored)
            for subtask in self.subtasks
            for group, states in subtask.store.snapshot().groups.items()
            for name, triples in states.items()
            for key, namespace, stored in triples
        ]
        timers = [subtask.timers.snapshot().groups for subtask in self.subtasks]
        flat = [
            (group, at, encode_key(key), namespace)
            for groups in timers
            for group, found in groups.items()
            for at, key, namespace in found.get("event", ())
        ]
        return sorted(map(repr, rows)), sorted(map(repr, flat))

    def close(self):
        for subtask in self.subtasks:
            subtask.close()


Stage = st.tuples(
    st.lists(Step, max_size=15),
    st.lists(Step, max_size=15),
    st.sampled_from([1, 2]),  # the next parallelism
    st.sampled_from(["checkpoint", "checkpoint", "savepoint"]),
    st.booleans(),  # whether the backends change places
    st.integers(0, 12),  # how much time passes
)


@settings(max_examples=8)
@given(st.lists(Stage, min_size=1, max_size=3), st.booleans())
def test_both_backends_hold_the_same_whatever_happens(databases, stages, incremental):
    now, shareds = [0], [None, databases]
    storages = [MemoryStorage(), MemoryStorage()]
    jobs = [Job(shared, now, store, 1) for shared, store in zip(shareds, storages, strict=True)]
    checkpoint = 0
    for first, second, parallelism, how, swap, passes in stages:
        for steps in (first, second):
            for job in jobs:
                job.do(steps)
            now[0] += passes
            checkpoint += 1
            for job in jobs:
                job.save(checkpoint)
        checkpoint += 1
        found = [job.save(checkpoint, MemoryStorage() if how == "savepoint" else None) for job in jobs]
        one, other = (job.contents() for job in jobs)
        assert one == other
        for job in jobs:
            job.close()
        if swap:
            shareds.reverse()
            storages = [MemoryStorage(), MemoryStorage()]
        jobs = [
            Job(shared, now, store, parallelism, saved, incremental)
            for shared, store, saved in zip(shareds, storages, found, strict=True)
        ]
        assert [job.contents() for job in jobs] == [one, other]
    for job in jobs:
        job.close()


def steps_of(count, size=300):
    return [("value", number, None, "write", os.urandom(size)) for number in range(count)]


def test_a_checkpoint_writes_only_files_that_are_new_and_pruning_leaves_what_is_shared(databases, tmp_path):
    storage = LocalStorage(str(tmp_path))
    store, job = CompletedCheckpointStore(storage), Job(databases, [0], LocalStorage(str(tmp_path)), 1)
    sizes = []
    for checkpoint in (1, 2, 3):
        job.do(steps_of(1000) if checkpoint == 1 else steps_of(20))
        found = job.save(checkpoint)
        store.store(found.manifest)
        sizes.append(sum(storage.sizes("shared").values()))
    assert sizes[2] - sizes[0] < sizes[0] / 10
    store.prune(1)
    store.prune(2)
    verify(found.manifest, storage, storage.sizes(), check_contents=True)
    contents = job.contents()
    job.close()

    again = Job(databases, [0], storage, 1, RestorePoint(found.manifest, storage))
    assert again.contents() == contents
    before = set(storage.sizes("shared"))
    again.do(steps_of(1))
    newer = again.save(4)
    assert len(set(storage.sizes("shared")) - before) <= 1, "what it started from is not written again"
    store.store(newer.manifest)
    store.prune(3)
    verify(newer.manifest, storage, storage.sizes(), check_contents=True)
    contents = again.contents()
    again.close()
    once_more = Job(databases, [0], storage, 1, RestorePoint(newer.manifest, storage))
    assert once_more.contents() == contents
    once_more.close()


def test_a_file_that_was_changed_is_refused_with_the_reason(databases, tmp_path):
    storage = LocalStorage(str(tmp_path))
    job = Job(databases, [0], storage, 1)
    job.do(steps_of(200))
    found = job.save(1)
    job.close()
    (name,) = [name for name in storage.sizes("shared") if name.endswith(".sst")]
    content = bytearray((tmp_path / name).read_bytes())
    content[1000] ^= 1
    (tmp_path / name).unlink()
    (tmp_path / name).write_bytes(content)
    for shared in (databases, None):
        with pytest.raises(CheckpointCorrupted, match="checksum does not match. Start from the checkpoint before"):
            Job(shared, [0], storage, 1, found)
    (tmp_path / name).write_bytes(content[:1000])
    with pytest.raises(CheckpointCorrupted, match="has 1000 bytes instead of"):
        Job(databases, [0], storage, 1, found)


def test_a_checkpoint_of_a_database_can_be_read_without_the_job(databases):
    job = Job(databases, [0], MemoryStorage(), 2)
    job.do([("map", "k", "w", "write", 4), ("map", "k", "w", "write", 5), ("value", "k", None, "write", 6)])
    job.do([("value", "k", None, "timer", 7)])
    found = job.save(1)
    write_manifest(found.root.at("chk-1"), found.manifest)
    entries = {
        (e.state, e.kind, e.key, e.namespace, repr(e.value)) for e in entries_of(found, found.manifest.operators[0])
    }
    assert entries == {
        ("map", "map", "k", "w", "{1: 4, 2: 5}"),
        ("value", "value", "k", None, "6"),
        ("event", "timer", "k", None, "7"),
    }
    assert Manifest.from_bytes(found.root.read("chk-1/_metadata"), "here") == found.manifest
    job.close()
