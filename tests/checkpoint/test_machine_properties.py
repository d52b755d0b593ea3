"""The coordinator under any sequence of events: what it promises, whatever tasks, storage and users do."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from funken.checkpoint.machine import (
    Acknowledged,
    Answer,
    AttemptFailed,
    AttemptStarted,
    CheckpointMachine,
    Commit,
    CommitFailed,
    Committed,
    Declined,
    Discard,
    FailJob,
    JobOver,
    JobStopped,
    MayRestart,
    NotifyAborted,
    NotifyComplete,
    Outcome,
    Policy,
    Prune,
    Rejected,
    Stop,
    Stored,
    StoreFailed,
    StoreManifest,
    TaskFinished,
    Tick,
    TriggerRequested,
    TriggerSources,
)
from funken.checkpoint.store.completed import SnapshotKind

policies = st.builds(
    Policy,
    interval=st.sampled_from([None, 10, 50]),
    min_pause=st.sampled_from([0, 0, 20]),
    timeout=st.sampled_from([30, 100]),
    tolerable_failures=st.integers(0, 2),
    max_concurrent=st.integers(1, 3),
    retained=st.integers(1, 3),
    kept_after=st.sets(st.sampled_from(Outcome)).map(frozenset),
    exclusive=st.booleans(),
)
tasks = st.sampled_from(["a", "b", "c"])


class AnySequence(RuleBasedStateMachine):
    """The world around the machine, and a ledger of what it was given and what it did with it."""

    @initialize(policy=policies)
    def begin(self, policy):
        self.machine = CheckpointMachine(policy)
        self.now = self.attempt = self.serial = 0
        self.may_start, self.ended, self.failing = True, False, False
        self.triggered, self.storing = {}, None
        self.asked, self.answered = set(), set()
        self.acked, self.discarded, self.safe, self.final = set(), set(), set(), set()
        self.complete, self.kept, self.told = [], [], 0
        self.committing, self.committed, self.uncommitted = [], set(), False
        self.start()

    def tell(self, event):
        for command in self.machine.handle(event, self.now):
            self.check(command)

    def check(self, command):
        match command:
            case TriggerSources():
                assert not self.ended and not self.failing and command.attempt == self.attempt
                assert command.checkpoint > max(self.triggered, default=0)
                self.triggered[command.checkpoint] = command
            case StoreManifest():
                assert self.storing is None
                assert command.handles.keys() == {"a", "b", "c"} and command.finished <= {"a", "b", "c"}
                assert self.discarded.isdisjoint(command.handles.values())
                self.storing = command
            case NotifyComplete(checkpoint=checkpoint):
                assert checkpoint > self.told and checkpoint in self.committed
                self.told = checkpoint
            case Commit(checkpoint=checkpoint):
                assert checkpoint in self.complete and checkpoint > max(self.committing, default=self.told)
                self.committing.append(checkpoint)
            case NotifyAborted(checkpoint=checkpoint):
                assert checkpoint in self.triggered and checkpoint not in self.complete
            case Discard(checkpoint=checkpoint, handles=handles):
                assert self.discarded.isdisjoint(handles) and self.safe.isdisjoint(handles)
                assert self.storing is None or set(self.storing.handles.values()).isdisjoint(handles)
                assert checkpoint is not None or self.final >= set(handles)
                self.discarded |= set(handles)
            case Prune(checkpoint=checkpoint):
                assert checkpoint == self.kept.pop(0)
                assert self.kept or not self.uncommitted
            case Answer(request=request, checkpoint=checkpoint, reason=reason):
                assert request in self.asked - self.answered
                assert checkpoint in self.complete if checkpoint else reason
                self.answered.add(request)
            case FailJob():
                assert not self.ended and not self.failing
                self.failing = True
            case MayRestart(checkpoint=checkpoint):
                assert self.storing is None and not self.committing and not self.ended and not self.may_start
                assert checkpoint == (self.kept[-1] if self.kept else None)
                self.may_start = True
            case JobOver(savepoint=savepoint, failure=failure):
                assert not self.ended and self.storing is None and not self.committing
                assert savepoint is None or savepoint in self.complete
                assert failure or savepoint is None or savepoint in self.committed
                self.ended = True

    def fresh(self):
        self.serial += 1
        return self.serial

    # ---- what may happen

    @rule(passed=st.sampled_from([0, 1, 7, 40, 200]))
    def time(self, passed):
        self.now += passed
        self.tell(Tick())

    @precondition(lambda self: self.may_start and not self.ended)
    @rule()
    def start(self):
        self.may_start = self.failing = self.uncommitted = False
        self.attempt += 1
        self.tell(AttemptStarted(self.attempt, ("a", "b", "c"), ("a",)))

    @precondition(lambda self: self.may_start and self.kept and not self.ended)
    @rule()
    def refuse(self):
        self.tell(Rejected(self.kept.pop(), "broken"))

    @rule(kind=st.sampled_from(SnapshotKind), stop=st.sampled_from([None, None, *Stop]))
    def request(self, kind, stop):
        request = f"request {self.fresh()}"
        self.asked.add(request)
        self.tell(TriggerRequested(request, kind, stop if kind is SnapshotKind.SAVEPOINT else None))

    @precondition(lambda self: self.triggered)
    @rule(task=tasks, data=st.data(), old=st.sampled_from([0, 0, 0, 0, 1]))
    def ack(self, task, data, old):
        checkpoint = data.draw(st.sampled_from(sorted(self.triggered)[-3:]))
        handles = self.fresh()
        self.acked.add(handles)
        self.tell(Acknowledged(self.attempt - old, task, checkpoint, handles))

    @precondition(lambda self: self.triggered)
    @rule(data=st.data())
    def all_ack(self, data):
        checkpoint = data.draw(st.sampled_from(sorted(self.triggered)[-3:]))
        for task in ("a", "b", "c"):
            self.acked.add(self.fresh())
            self.tell(Acknowledged(self.attempt, task, checkpoint, self.serial))

    @precondition(lambda self: self.triggered)
    @rule(task=tasks, data=st.data())
    def decline(self, task, data):
        checkpoint = data.draw(st.sampled_from(sorted(self.triggered)[-3:]))
        self.tell(Declined(self.attempt, task, checkpoint, "no"))

    @precondition(lambda self: self.attempt)
    @rule(task=tasks, old=st.sampled_from([0, 0, 0, 1]))
    def finish(self, task, old):
        if task in self.machine.finished and not old:
            return
        handles = self.fresh()
        self.final.add(handles)
        self.tell(TaskFinished(self.attempt - old, task, handles))

    @precondition(lambda self: self.storing is not None)
    @rule(fails=st.sampled_from([False, False, True]))
    def store(self, fails):
        stored, self.storing = self.storing, None
        if fails:
            self.tell(StoreFailed(stored.checkpoint, "full"))
            return
        self.complete.append(stored.checkpoint)
        if stored.kind is SnapshotKind.CHECKPOINT or stored.stop is not None:
            assert stored.checkpoint > max(self.kept, default=0)
            self.kept.append(stored.checkpoint)
        self.safe |= {handles for handles in stored.handles.values() if handles not in self.final}
        self.tell(Stored(stored.checkpoint))

    @precondition(lambda self: self.committing)
    @rule(fails=st.sampled_from([False, False, True]))
    def commit(self, fails):
        checkpoint = self.committing.pop(0)
        if fails:
            self.uncommitted = True
            self.tell(CommitFailed(checkpoint, "no"))
            return
        self.committed.add(checkpoint)
        self.uncommitted = False
        self.tell(Committed(checkpoint))

    @precondition(lambda self: self.attempt)
    @rule(old=st.sampled_from([0, 0, 1]))
    def fail(self, old):
        self.tell(AttemptFailed(self.attempt - old, "crash"))

    @rule(outcome=st.sampled_from(Outcome), really=st.sampled_from([False] * 9 + [True]))
    def stop(self, outcome, really):
        if really:
            self.ended = True
            self.tell(JobStopped(outcome))

    # ---- what always holds

    @invariant()
    def consistent(self):
        if hasattr(self, "machine"):
            self.machine.validate()

    def teardown(self):
        """At the end everything that was asked is answered, and everything that was written is safe or discarded."""
        if not hasattr(self, "machine"):
            return
        self.tell(JobStopped(Outcome.FAILED))
        if self.storing is not None:
            self.store(fails=False)
        while self.committing:
            self.commit(fails=False)
        assert self.asked == self.answered
        assert self.acked | self.final <= self.discarded | self.safe
        assert self.acked & self.discarded <= self.acked - self.safe
        for checkpoint in self.triggered:
            assert self.machine.story(checkpoint).splitlines()[-1].split("  ")[-1]


TestAnySequence = AnySequence.TestCase
TestAnySequence.settings = settings(stateful_step_count=40)
