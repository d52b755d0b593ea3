"""The coordinator, its storage and the snapshots together, over crashes of tasks and drivers and a storage that fails.

There is no data flow here: a task is a dict that changes, and prepares a file at each barrier, as a sink does. What must
hold: a job that starts again has exactly the state that was cut for the checkpoint it starts from, and in the end
every file that its history prepared is committed once, and no other.
"""

import contextlib
import pickle
import random
from collections import deque

import pytest

from funken.checkpoint.coordinator import Coordinator, JobFacts
from funken.checkpoint.incremental import IncrementalSnapshots, SnapshotOptions
from funken.checkpoint.machine import (
    Acknowledged,
    AttemptFailed,
    AttemptStarted,
    CheckpointMachine,
    Declined,
    FailJob,
    JobOver,
    JobStopped,
    MayRestart,
    NotifyAborted,
    NotifyComplete,
    Outcome,
    Policy,
    Stop,
    TaskFinished,
    Tick,
    TriggerRequested,
)
from funken.checkpoint.restore import RestoreTarget, origins, plan_restore, read_state
from funken.checkpoint.store.blobs import StopHandles, SubtaskHandle, SubtaskState
from funken.checkpoint.store.completed import CompletedCheckpointStore, Manifest, SnapshotKind
from funken.errors import CheckpointCorrupted, StorageFailed
from funken.state.delta_tables import KeyedSnapshot, OperatorStates
from funken.testing.memory_storage import Fault, MemoryStorage, planned, random_faults

GROUPS, WIDTH = 4, 2
OPERATOR = RestoreTarget("count", "count", WIDTH, GROUPS)


class Worker:
    """A task that hosts one subtask of an operator with keyed state, and of a sink."""

    def __init__(self, world, attempt, subtask, restore):
        self.world, self.attempt, self.subtask = world, attempt, subtask
        self.values, self.changed, self.files = {}, set(), []
        self.uncommitted, self.writing, self.seen = [], deque(), 0
        self.paused, self.ended = None, False
        self.lineage = IncrementalSnapshots("count", subtask, world.options)
        if restore is not None:
            for piece in read_state(world.storage, restore):
                self.files += piece.operator_state.split.get("files", [])
                if piece.keyed is not None:
                    for tables in piece.keyed.groups.values():
                        self.values |= {key: stored for key, _, stored in tables["n"]}
            self.lineage.resume(origins(world.storage, restore), restore.exact)

    @property
    def task(self):
        return f"task {self.subtask}"

    def change(self):
        key = self.subtask * 2 + self.world.chance.randrange(2)  # the key is its key group
        if self.world.chance.random() < 0.2:
            self.values.pop(key, None)
        else:
            self.values[key] = self.world.fresh()
        self.changed.add(key)

    def content(self):
        return dict(self.values), list(self.files)

    def cut(self, checkpoint, final=False):
        self.seen = max(self.seen, checkpoint)
        file = f"file {self.world.fresh()}"
        self.files.append(file)
        self.uncommitted.append((checkpoint, file))
        whole = self.lineage.wants_complete or self.world.chance.random() < 0.2
        keys = self.values if whole else self.changed & self.values.keys()
        gone = {key: {"n": [(key, None)]} for key in self.changed - self.values.keys()}
        rows = {key: {"n": [(key, None, self.values[key])]} for key in keys}
        keyed = KeyedSnapshot(GROUPS, rows, None if whole else gone)
        self.changed = set()
        state = SubtaskState(keyed, operator_state=OperatorStates({"files": list(self.files)}))
        return self.lineage.snapshot(state, checkpoint, [file for _, file in self.uncommitted], final)

    def take(self, message):
        """A barrier, or what the driver decided."""
        match message:
            case ("barrier", trigger):
                snapshot = self.cut(trigger.checkpoint)
                self.world.expected[trigger.checkpoint][self.subtask] = self.content()
                self.writing.append((snapshot, trigger))
                if trigger.stop is not None:
                    self.paused = trigger.checkpoint
                self.ended = trigger.stop is Stop.DRAIN
            case NotifyComplete(checkpoint=checkpoint):
                self.uncommitted = [pair for pair in self.uncommitted if pair[0] > checkpoint]
            case NotifyAborted(checkpoint=checkpoint):
                if self.paused == checkpoint:
                    self.paused = None
                for snapshot, trigger in [pair for pair in self.writing if pair[0].checkpoint == checkpoint]:
                    if self.writing[0][0] is snapshot:  # only what comes next may be skipped: cuts keep their order
                        self.writing.popleft()
                        self.lineage.skip(snapshot)
                    assert trigger is not None

    def write(self):
        """Write what was cut first, in the background."""
        snapshot, trigger = self.writing.popleft()
        target = self.world.storage_at(trigger.target) if trigger and trigger.kind is SnapshotKind.SAVEPOINT else None
        try:
            if trigger is not None and trigger.stop is not None:
                written = self.lineage.write_both(snapshot, self.world.storage, target)
            else:
                written = (self.lineage.write(snapshot, self.world.storage, target),)
        except StorageFailed as error:
            if trigger is None:
                self.world.send(AttemptFailed(self.attempt, str(error)))
            else:
                self.world.send(Declined(self.attempt, self.task, trigger.checkpoint, str(error)))
            return
        maps = [{("count", self.subtask): pickle.loads(pickle.dumps(handle))} for handle in written]
        handles = maps[0] if len(maps) == 1 else StopHandles(*maps)
        if trigger is None or trigger.stop is Stop.DRAIN:
            self.world.send(TaskFinished(self.attempt, self.task, handles))
        elif self.world.chance.random() > 0.02:  # else the ack is lost
            self.world.send(Acknowledged(self.attempt, self.task, trigger.checkpoint, handles))

    def finish(self):
        self.ended = True
        self.writing.append((self.cut(self.seen + 1, final=True), None))


class World:
    """A job, its storage, and everything that may go wrong; also the coordinator's surroundings."""

    def __init__(self, seed, faults=0.03):
        self.chance = random.Random(seed)
        self.files = {}
        self.fault = random_faults(self.chance, faults)
        self.storage = MemoryStorage("job", self.files, self.fault)
        incremental, inline = self.chance.random() < 0.8, self.chance.choice([0, 60, 10_000])
        self.options = SnapshotOptions(incremental, inline, self.chance.choice([2, 4]), lambda: f"u{self.fresh()}")
        self.policy = Policy(
            interval=20, timeout=60, tolerable_failures=self.chance.randrange(3),
            max_concurrent=self.chance.choice([1, 1, 2]), retained=self.chance.choice([1, 2]),
            min_pause=self.chance.choice([0, 10]),
        )  # fmt: skip
        self.time = self.serial = self.attempt = 0
        self.expected, self.savepoints, self.answers = {}, {}, {}
        self.committed = []
        self.over = self.down = self.commits_fail = False
        self.start_driver()

    def fresh(self):
        self.serial += 1
        return self.serial

    # ---- surroundings

    def now(self):
        return self.time

    wall = now

    def trigger(self, command):
        self.expected[command.checkpoint] = {}
        for worker in self.workers:
            self.inbox[worker.subtask].append(("barrier", command))
        if command.kind is SnapshotKind.SAVEPOINT:
            self.savepoints[command.target] = self.expected[command.checkpoint]
        return {"source": pickle.dumps(command.checkpoint)}

    def commit(self, manifest):
        if self.commits_fail and self.chance.random() < 0.3:
            raise OSError("the bucket is gone")
        for handle in manifest.operators[0].subtasks:
            for file in pickle.loads(handle.committables) if handle.committables else []:
                if file not in self.committed:  # twice is harmless
                    self.committed.append(file)

    def perform(self, command):
        match command:
            case NotifyComplete() | NotifyAborted():
                for worker in self.workers:
                    if worker.task in command.tasks:
                        self.inbox[worker.subtask].append(command)
            case FailJob():
                self.fail()
            case MayRestart():
                self.may_restart = True
            case JobOver(savepoint=savepoint):
                assert not command.failure or self.commits_fail
                self.over, self.stopped_with = True, savepoint

    def answer(self, request, location, reason):
        assert request not in self.answers and (location is None) == bool(reason)
        self.answers[request] = location

    def background(self, work):
        self.work.append(work)

    def storage_at(self, uri):
        return MemoryStorage(uri, self.files, self.fault, folder=f"{uri}/")

    # ---- what happens

    def start_driver(self):
        """A driver starts, perhaps after another that was killed."""
        self.work, self.mail, self.workers, self.inbox = deque(), deque(), [], [deque() for _ in range(WIDTH)]
        self.zombies = []
        self.attempt = 0
        self.catalog = CompletedCheckpointStore(self.storage)
        try:
            self.catalog.scan()
            self.catalog.latest()
            self.catalog.claim()
        except StorageFailed:
            self.down = True
            return
        except CheckpointCorrupted:
            if self.committed:
                raise
            # A torn manifest that could not be deleted: someone has to look, finds no loss, and clears it away.
            for name in [name for name in self.files if name.startswith(("chk-", "shared/"))]:
                del self.files[name]
            self.down = True
            return
        self.down = False
        machine = CheckpointMachine(self.policy, sorted(self.catalog.complete), self.catalog.next_id)
        self.coordinator = Coordinator(
            machine, self.catalog, JobFacts("job", "Job", (OPERATOR,)), self, self.storage_at
        )
        self.may_restart = True

    def start_attempt(self):
        manifest = self.catalog.latest()
        plan = {}
        if manifest is not None:
            assert pickle.loads(manifest.enumerators["source"]) == manifest.checkpoint
            self.commit(manifest)
            plan = plan_restore(manifest, "job", [OPERATOR], own=True).subtasks
        try:
            workers = [Worker(self, self.attempt + 1, i, plan.get(("count", i))) for i in range(WIDTH)]
        except StorageFailed:
            return  # it is tried again
        if manifest is not None and not any(plan["count", i].finished for i in range(WIDTH)):
            assert {w.subtask: w.content() for w in workers} == self.expected[manifest.checkpoint]
        self.may_restart = False
        self.attempt += 1
        self.workers = workers
        self.inbox = [deque() for _ in range(WIDTH)]
        self.coordinator.handle(
            AttemptStarted(self.attempt, tuple(w.task for w in workers), tuple(w.task for w in workers))
        )

    def fail(self):
        self.zombies = [worker for worker in self.workers if worker.writing]
        self.workers = []
        self.send(AttemptFailed(self.attempt, "crash"))

    def send(self, event):
        self.mail.append(event)

    def step(self):
        self.time += self.chance.randrange(4)
        if self.down:
            self.start_driver()
            return
        self.coordinator.machine.validate()
        if self.may_restart:
            self.start_attempt()
            return
        roll = self.chance.random()
        if roll < 0.004:
            self.start_driver()
        elif roll < 0.012 and self.workers:
            self.fail()
        elif roll < 0.03:
            request = f"request {self.fresh()}"
            stop = self.chance.choice([None] * 16 + list(Stop))
            self.coordinator.handle(
                TriggerRequested(request, SnapshotKind.SAVEPOINT, stop, f"savepoints-{self.serial}")
            )
        elif roll < 0.25:
            self.coordinator.handle(Tick())
        elif roll < 0.4 and self.mail:
            self.coordinator.handle(self.mail.popleft())
        elif roll < 0.55 and self.work:
            self.work.popleft()()
        elif roll < 0.58 and self.zombies:
            zombie = self.zombies.pop()
            if zombie.writing:
                zombie.write()  # it does not know that it is one
        else:
            self.work_on(self.chance.choice(self.workers) if self.workers else None)

    def work_on(self, worker, finishing=False):
        if worker is None:
            return
        if self.inbox[worker.subtask] and not worker.ended:
            worker.take(self.inbox[worker.subtask].popleft())
        elif worker.writing:
            worker.write()
        elif finishing and not worker.ended and worker.paused is None:
            worker.finish()
        elif not worker.ended and worker.paused is None:
            worker.change()

    def run(self, steps):
        for _ in range(steps):
            if self.over:
                break
            self.step()
        self.fault = self.storage.faults = lambda operation, name: None  # the storage is well again
        self.catalog.storage.faults = self.fault
        for _ in range(3000):
            if self.over:
                break
            self.time += 1
            if self.down:
                self.start_driver()
            elif self.may_restart:
                self.start_attempt()
            elif self.mail:
                self.coordinator.handle(self.mail.popleft())
            elif self.work:
                self.work.popleft()()
            else:
                for worker in list(self.workers):
                    self.work_on(worker, finishing=True)
                self.coordinator.handle(Tick())
        while self.work:
            self.work.popleft()()

    # ---- what is checked

    def check(self):
        assert self.over
        if self.stopped_with is not None:
            history = [file for _, files in self.expected[self.stopped_with].values() for file in files]
        else:
            history = [file for worker in self.workers for file in worker.files]
            again = CompletedCheckpointStore(self.storage)
            again.scan(check_contents=True)
            assert max(again.rejected, default=0) < again.latest().checkpoint  # torn, and not yet cleared away
            assert all(handle.finished for handle in again.latest().operators[0].subtasks)
        assert sorted(self.committed) == sorted(history)
        for location in filter(None, self.answers.values()):
            self.check_savepoint(location)

    def check_savepoint(self, location):
        root = self.storage_at(location)
        manifest = Manifest.from_bytes(root.read("_metadata"), "savepoint")
        assert all("/" not in name for name in manifest.files)
        if any(handle.finished for handle in manifest.operators[0].subtasks):
            return
        plan = plan_restore(manifest, root.uri, [OPERATOR]).subtasks
        workers = [Worker.__new__(Worker) for _ in range(WIDTH)]
        self.storage, before = root, self.storage
        for subtask, worker in enumerate(workers):
            worker.__init__(self, 0, subtask, plan["count", subtask])
        self.storage = before
        assert {worker.subtask: worker.content() for worker in workers} == self.savepoints[location]


def worked(seed, **options):
    world = World(seed, **options)
    world.run(1200)
    return world


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_whatever_fails_nothing_is_lost_or_doubled(first):
    for seed in range(first, first + 10):
        worked(seed).check()


def test_without_failures_many_checkpoints_complete():
    world = World(3, faults=0)
    for _ in range(600):
        if world.may_restart:
            world.start_attempt()
        world.time += 1
        world.coordinator.handle(Tick())
        for worker in world.workers:
            world.work_on(worker)
        while world.mail:
            world.coordinator.handle(world.mail.popleft())
        while world.work:
            world.work.popleft()()
    assert world.attempt == 1
    newest = world.coordinator.machine.completed[-1]
    assert newest > 15
    assert "complete" in world.coordinator.story(newest)


def test_a_savepoint_that_failed_leaves_nothing():
    world = World(1, faults=0)
    world.start_attempt()
    world.storage.faults = world.fault = planned(("write", "savepoints", Fault.TORN))
    world.coordinator.handle(TriggerRequested("me", target="savepoints"))
    for worker in world.workers:
        worker.change()
        worker.lineage.options = SnapshotOptions(inline_below=0)
        while world.inbox[worker.subtask] or worker.writing:
            world.work_on(worker)
    while world.mail or world.work:
        world.coordinator.handle(world.mail.popleft()) if world.mail else world.work.popleft()()
    assert world.answers == {"me": None}
    assert not [name for name in world.files if name.startswith("savepoints")]


def test_a_checkpoint_in_which_nobody_accounts_for_a_subtask_is_not_stored():
    world = World(1, faults=0)
    world.start_attempt()
    world.coordinator.handle(TriggerRequested("me", SnapshotKind.CHECKPOINT))
    for worker in world.workers:
        world.coordinator.handle(Acknowledged(1, worker.task, 1, {("other", worker.subtask): SubtaskHandle()}))
    world.work.popleft()()
    assert "no task accounted for operator 'count', subtask 0, 1" in world.coordinator.story(1)


def test_an_attempt_waits_for_a_storage_that_fails_for_long():
    world = World(1, faults=0)
    world.start_attempt()
    world.coordinator.handle(TriggerRequested("me", SnapshotKind.CHECKPOINT))

    def broken(operation, name):
        if operation == "delete":
            return Fault.ERROR
        return Fault.TORN if name.endswith("_metadata") else None

    world.storage.faults = world.catalog.storage.faults = world.fault = broken
    for worker in world.workers:
        world.work_on(worker)
        world.work_on(worker)

    def work():
        while world.mail or world.work:
            world.coordinator.handle(world.mail.popleft()) if world.mail else world.work.popleft()()

    work()
    world.coordinator.handle(AttemptFailed(1, "too many failed checkpoints"))
    for _ in range(300):
        work()
        world.coordinator.handle(Tick())
        assert len(world.work) <= 1
    assert not world.may_restart

    world.storage.faults = world.catalog.storage.faults = lambda operation, name: None
    world.coordinator.handle(Tick())
    work()
    assert world.may_restart


@pytest.mark.parametrize("while_", ["stored", "committed"])
def test_what_nobody_needs_is_deleted_when_a_job_stops_while_a_checkpoint_is(while_):
    world = World(1, faults=0)
    world.start_attempt()
    world.coordinator.handle(TriggerRequested("me", SnapshotKind.CHECKPOINT))
    for worker in world.workers:
        worker.change()
        worker.lineage.options = SnapshotOptions(inline_below=0)
        world.work_on(worker)
        world.work_on(worker)
    while world.mail:
        world.coordinator.handle(world.mail.popleft())
    world.files["shared/1-written by a task that never told of it"] = b""
    if while_ == "committed":
        world.work.popleft()()
        assert world.coordinator.machine.committing
    assert world.work
    world.coordinator.handle(JobStopped(Outcome.CANCELLED))
    while world.work:
        world.work.popleft()()
    assert [name for name in world.files if name.startswith(("chk-", "shared/"))] == []


def test_a_commit_that_fails_is_made_up_for():
    for seed in range(20):
        world = World(seed, faults=0)
        world.commits_fail = True
        for _ in range(600):
            if not world.over:
                with contextlib.suppress(OSError):  # while an attempt is started: it is tried again
                    world.step()
        world.commits_fail = False
        if world.over:  # perhaps uncommitted: then that happens when it is started again
            world.over = False
            world.start_driver()
        world.run(0)
        world.check()


def test_a_driver_does_not_begin_anew_if_there_are_checkpoints_it_cannot_use():
    world = worked(5, faults=0)
    world.files["job/x"] = b""
    for name in [name for name in world.files if name.endswith("_metadata")]:
        world.files[name] = b"{}"
    with pytest.raises(CheckpointCorrupted, match="to begin anew without the state, set execution.allow-fresh-start"):
        world.start_driver()
