"""Drivers that replace one another, interleaved at every operation on the storage: there is one line of checkpoints.

The stores are the real ones; each driver is a thread that stops before every operation until the schedule lets it go on.
"""

import os
import random
import threading
import time

import pytest

from funken.checkpoint.store.completed import CompletedCheckpointStore, Manifest, SnapshotKind
from funken.checkpoint.store.epochs import Term, remove_abandoned
from funken.errors import CheckpointCorrupted, LeadershipLost, StorageFailed
from funken.io.storage import LocalStorage
from funken.testing.memory_storage import MemoryStorage

WAIT = 60


class Steps:
    """Lets one thread at a time do one step."""

    def __init__(self, work):
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self.over = False
        self._dead = False
        self.error = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()
        assert self._stopped.acquire(timeout=WAIT)

    def _run(self, work):
        try:
            self.pause()
            work(self)
        except LeadershipLost:
            pass
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.error = error
        self.over = True
        self._stopped.release()

    def pause(self):
        self._stopped.release()
        assert self._go.acquire(timeout=WAIT)

    def step(self):
        self._go.release()
        assert self._stopped.acquire(timeout=WAIT)
        if self.error is not None:
            raise self.error


class World:
    """A folder, what was committed, and from what each driver began."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.files = {}
        self.parents = {}
        self.begun = []
        self.committed = []

    def line(self, checkpoint):
        found = []
        while checkpoint is not None:
            found.append(checkpoint)
            checkpoint = self.parents[checkpoint]
        return found

    def drive(self, number, checkpoints, steps):
        """Start a driver: take the folder over, complete checkpoints, commit each."""
        storage = MemoryStorage("job", self.files, faults=lambda operation, name: steps.pause())
        store = CompletedCheckpointStore(storage)
        store.scan()
        store.claim()
        latest = store.latest()
        # The first write of a checkpoint makes it one of this driver's; its number alone is not, which two may choose.
        base = None if latest is None else latest.time
        self.begun.append((base, len(self.committed)))
        at = store.next_id
        for count in range(checkpoints):
            identity = number * 100 + count
            self.parents[identity] = base
            try:
                store.store(Manifest("job", "job", at, SnapshotKind.CHECKPOINT, identity, ()))
            except LeadershipLost:
                return
            base = identity
            steps.pause()
            self.committed.append(identity)
            for old in sorted(store.complete)[:-1]:
                store.prune(old)
            at += 1

    def run(self, drivers, checkpoints):
        waiting = list(range(1, drivers + 1))
        running = []
        while waiting or running:
            if waiting and (not running or self.chance.random() < 0.06):
                number = waiting.pop(0)
                running.append(Steps(lambda steps, number=number: self.drive(number, checkpoints, steps)))
                continue
            one = self.chance.choice(running)
            one.step()
            running = [each for each in running if not each.over]
        return self


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_whatever_driver_stops_where_all_that_is_committed_is_in_one_line(first):
    takeovers = 0
    for seed in range(first, first + 20):
        world = World(seed).run(drivers=4, checkpoints=3)
        takeovers += len(world.begun)
        last = MemoryStorage("job", world.files)
        found = CompletedCheckpointStore(last)
        found.scan()
        latest = found.latest()
        line = world.line(None if latest is None else latest.time)
        assert set(world.committed) <= set(line), f"seed {seed}: {world.committed} is committed, {line} goes on"
        # What a driver drops when it begins is all that is not in the line it began from: nothing of that may come back.
        for base, _ in world.begun:
            assert base is None or base in line, f"seed {seed}: {world.begun} began, {line} goes on"
    assert takeovers > 20


def test_what_a_stopped_driver_writes_is_not_used_by_its_successors_successor():
    """It was between its check and its write; the second driver has begun from nothing, and died without a checkpoint."""
    storage = MemoryStorage("job")
    first, second, third = (CompletedCheckpointStore(storage) for _ in range(3))
    first.claim()

    def takes_over(operation, name):
        if operation == "write" and name == "chk-1/_metadata":
            storage.faults = lambda operation, name: None
            second.claim()

    storage.faults = takes_over
    with pytest.raises(LeadershipLost, match="another driver has taken over"):
        first.store(Manifest("job", "job", 1, SnapshotKind.CHECKPOINT, 0, ()))
    assert "chk-1/_metadata" in storage.files

    third.claim()
    assert third.latest() is None
    assert second.latest() is None

    third.store(Manifest("job", "job", 1, SnapshotKind.CHECKPOINT, 1, ()))
    assert third.latest().time == 1, "what does not count is not in the way"
    third.scan()
    assert third.latest().time == 1


def test_a_lower_term_of_the_same_election_does_not_take_over():
    storage = MemoryStorage("job")
    leader, late, other = (CompletedCheckpointStore(storage) for _ in range(3))
    leader.claim(Term("lease", 4))
    with pytest.raises(LeadershipLost, match="the leader of term 4, and this driver leads in term 3 only"):
        late.claim(Term("lease", 3))
    leader.check_owner()
    other.claim(Term("zookeeper", 3))
    with pytest.raises(LeadershipLost):
        leader.check_owner()


def test_a_note_that_is_damaged_stops_the_job():
    storage = MemoryStorage("job")
    for _ in range(2):
        CompletedCheckpointStore(storage).claim()
    storage.files["_epoch/2-found"] = b"[["
    with pytest.raises(CheckpointCorrupted, match="the valid checkpoints are unknown"):
        CompletedCheckpointStore(storage).scan()


def test_files_of_earlier_epochs_go():
    storage = MemoryStorage("job")
    for _ in range(5):
        CompletedCheckpointStore(storage).claim()
    assert sorted(storage.files) == ["_epoch/5", "_epoch/5-found"]


def test_a_storage_that_refuses_keeps_a_driver_from_beginning():
    storage = MemoryStorage("job")
    storage.files["_epoch/1"] = b"{}"
    storage.write = lambda name, data, new=False: (_ for _ in ()).throw(StorageFailed("no")).__next__()
    with pytest.raises(StorageFailed, match="no"):
        CompletedCheckpointStore(storage).claim()


@pytest.fixture
def jobs(tmp_path):
    """Two days ago a driver was killed before its first checkpoint, another one after it, a third has just begun."""
    old = time.time() - 2 * 24 * 3600
    for name in ("killed", "orders", "new", "own"):
        CompletedCheckpointStore(LocalStorage(str(tmp_path / name))).claim()
    store = CompletedCheckpointStore(LocalStorage(str(tmp_path / "orders")))
    store.scan()
    store.claim()
    store.store(Manifest("orders", "orders", 1, SnapshotKind.CHECKPOINT, 0, ()))
    for path in tmp_path.rglob("*"):
        if "new" not in path.parts and "own" not in path.parts:
            os.utime(path, (old, old))
    return tmp_path


def test_a_folder_of_a_driver_that_was_killed_before_its_first_checkpoint_is_removed_after_a_day(jobs):
    (jobs / "notes").mkdir()
    (jobs / "notes" / "_epoch").mkdir()
    (jobs / "notes" / "_epoch" / "mine").write_text("")

    assert remove_abandoned(LocalStorage(str(jobs / "own"))) == [str(jobs / "killed")]
    assert sorted(os.listdir(jobs)) == ["new", "notes", "orders", "own"]
    assert remove_abandoned(LocalStorage(str(jobs / "own"))) == []


def test_a_driver_that_has_completed_nothing_in_a_day_goes_on_if_its_folder_is_removed(jobs):
    late = CompletedCheckpointStore(LocalStorage(str(jobs / "late")))
    late.claim()
    for path in (jobs / "late").rglob("*"):
        os.utime(path, (1e9, 1e9))
    assert str(jobs / "late") in remove_abandoned(LocalStorage(str(jobs / "own")))

    late.store(Manifest("late", "late", 1, SnapshotKind.CHECKPOINT, 0, ()))
    again = CompletedCheckpointStore(LocalStorage(str(jobs / "late")))
    again.scan()
    assert list(again.complete) == [1]


def test_other_storages_and_folders_that_are_gone_are_left_alone(tmp_path):
    assert remove_abandoned(MemoryStorage()) == []
    assert remove_abandoned(LocalStorage(str(tmp_path / "none"))) == []
