"""The checkpoint coordinator as a pure state machine: events and the time in, commands out, nothing else.

One checkpoint goes through ``STEPS``, the job through ``PHASES``; any other move is a bug and raises. What moves them:

==========  ==================================================  ===========================================
step        event                                               what follows
==========  ==================================================  ===========================================
PENDING     last missing task acked or finished                 READY
PENDING     a task declined; the timeout; (1)                   ABORTED: NotifyAborted, Discard, Answer
READY       no other manifest is being written                  STORING: Store
READY       (1)                                                 ABORTED
STORING     Stored                                              COMPLETE: Commit, Prune, Answer
STORING     StoreFailed                                         ABORTED
COMPLETE    Committed                                           NotifyComplete
COMPLETE    CommitFailed                                        FailJob: the next attempt commits it
==========  ==================================================  ===========================================

(1) a newer checkpoint is complete; the attempt failed; the job ended.

Rules, as in Flink:

* Manifests are written one at a time, and a checkpoint that completes aborts the older ones: no two complete out of order.
* A savepoint is outside of that order: it aborts nothing, is not aborted by a newer checkpoint, commits nothing and is
  not counted or pruned. Only the one that a job is stopped with is a checkpoint as well, which commits and ends the job.
  With unaligned checkpoints a savepoint waits for what is under way, and the next checkpoint for it.
* Too many failed checkpoints in a row fail the attempt; savepoints do not count. A drained job cannot go on, so a failed
  stop with ``DRAIN`` fails the attempt too; after a failed one with ``SUSPEND`` the sources read on.
* A task that has finished takes part with its final state. When all have, one last checkpoint makes everything safe.
* An acknowledgement that is not expected (late, of another attempt) is normal: what it names is discarded.
* Between a failure and the next attempt, ``MayRestart`` tells when it is settled which checkpoint is the newest.
* ``JobOver`` comes after the last commit. A job that ends uncommitted keeps its checkpoints whatever the policy says.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import field
from typing import TypeAlias

from funken.checkpoint.store.completed import SnapshotKind
from funken.dataclass import dataclass
from funken.ids import CheckpointId, Millis

# ---- What happens to checkpoints (events) and what is to be done about it (commands); plain data.
#
# ``machine.CheckpointMachine`` takes the former and returns the latter. A task is any hashable thing; *handles* are
# what a task's acknowledgement contains of where its state is; they are not looked into here.


TaskKey: TypeAlias = Hashable
Handles: TypeAlias = object
RequestId: TypeAlias = Hashable
"""Identifies a request for a checkpoint or savepoint in its answer."""


class Stop(enum.Enum):
    """The end of a job with a savepoint: as if paused for ever, or as if its input had ended (windows fire)."""

    SUSPEND = "suspend"
    DRAIN = "drain"


class Outcome(enum.Enum):
    """The final outcome of a job."""

    FINISHED = "finished"
    CANCELLED = "cancelled"
    """By its client."""
    FAILED = "failed"
    """Its program failed, and the restart strategy allows no more attempts."""
    LOST = "lost"
    """Its platform failed: Spark, a worker process, the network, a storage."""
    SUSPENDED = "suspended"
    """The program that runs it was told to end: SIGTERM, SIGHUP, Ctrl-C, the end of its main thread."""


# ---- events


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the job."""


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class AttemptStarted(Event):
    """All tasks of an attempt run; ``sources`` are those that have no upstream task."""

    attempt: int
    tasks: tuple[TaskKey, ...]
    sources: tuple[TaskKey, ...]


@dataclass(frozen=True, slots=True)
class TriggerRequested(Event):
    """A snapshot is requested; a savepoint goes to ``target``, and with ``stop`` the job ends with it."""

    request: RequestId
    kind: SnapshotKind = SnapshotKind.SAVEPOINT
    stop: Stop | None = None
    target: str = ""


@dataclass(frozen=True, slots=True)
class Acknowledged(Event):
    """A task has written its part of a checkpoint."""

    attempt: int
    task: TaskKey
    checkpoint: CheckpointId
    handles: Handles


@dataclass(frozen=True, slots=True)
class Declined(Event):
    """A task declines a checkpoint."""

    attempt: int
    task: TaskKey
    checkpoint: CheckpointId
    reason: str


@dataclass(frozen=True, slots=True)
class TaskFinished(Event):
    """A task has ended with its input; ``handles`` are its final state, part of every later checkpoint."""

    attempt: int
    task: TaskKey
    handles: Handles


@dataclass(frozen=True, slots=True)
class Stored(Event):
    """The manifest of a checkpoint is written: the checkpoint is complete in any case."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class StoreFailed(Event):
    """The manifest could not be written, and is not there.

    ``counts``: it is a failure of the checkpoint, not of one before it whose files somebody has removed.
    """

    checkpoint: CheckpointId
    reason: str
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Committed(Event):
    """The commit of a complete checkpoint: the output of the sinks is visible."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class CommitFailed(Event):
    """It is not, or not all of it; an attempt that starts from the checkpoint will try again."""

    checkpoint: CheckpointId
    reason: str


@dataclass(frozen=True, slots=True)
class AttemptFailed(Event):
    """An attempt has failed: none of its tasks runs on."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class Rejected(Event):
    """A complete checkpoint turned out to be broken when an attempt was to start from it."""

    checkpoint: CheckpointId
    reason: str


@dataclass(frozen=True, slots=True)
class JobStopped(Event):
    """The job has ended for good."""

    outcome: Outcome


# ---- commands


@dataclass(frozen=True, slots=True)
class Command:
    """A command to the coordinator's shell."""


@dataclass(frozen=True, slots=True)
class TriggerSources(Command):
    """Snapshot the enumerators, then trigger the checkpoint at ``tasks`` (the live sources).

    No command may reach a source between the two. ``tasks`` may be empty: all have finished.
    """

    checkpoint: CheckpointId
    attempt: int
    tasks: tuple[TaskKey, ...]
    kind: SnapshotKind
    stop: Stop | None = None
    target: str = ""


@dataclass(frozen=True, slots=True)
class StoreManifest(Command):
    """Write the manifest and answer with ``Stored`` or ``StoreFailed``; with ``stop`` that of a checkpoint too.

    ``handles`` holds every task's; ``finished`` names the tasks that have ended and are not to run again, ``final`` those whose
    handles are of their final state, which they have written for checkpoints only.
    """

    checkpoint: CheckpointId
    kind: SnapshotKind
    attempt: int
    started: Millis
    handles: Mapping[TaskKey, Handles] = field(hash=False)
    finished: frozenset[TaskKey]
    stop: Stop | None = None
    target: str = ""
    final: frozenset[TaskKey] = frozenset()


@dataclass(frozen=True, slots=True)
class Commit(Command):
    """Commit the sinks' output prepared up to a checkpoint; answer ``Committed`` or ``CommitFailed``."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class NotifyComplete(Command):
    """Notify the tasks that a checkpoint is complete, and their output up to it is committed."""

    checkpoint: CheckpointId
    attempt: int
    tasks: tuple[TaskKey, ...]


@dataclass(frozen=True, slots=True)
class NotifyAborted(Command):
    """Notify the tasks that a checkpoint is aborted."""

    checkpoint: CheckpointId
    attempt: int
    tasks: tuple[TaskKey, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Discard(Command):
    """Delete files that these handles name and no complete checkpoint does; of a savepoint that failed, all.

    ``checkpoint`` is ``None`` for final states.
    """

    checkpoint: CheckpointId | None
    handles: tuple[Handles, ...]


@dataclass(frozen=True, slots=True)
class Prune(Command):
    """Delete a complete checkpoint, except for files that newer ones share with it."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class Answer(Command):
    """Answer a request: ``checkpoint`` is complete, or (``None``) why there is none."""

    request: RequestId
    checkpoint: CheckpointId | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FailJob(Command):
    """Fail this attempt; ``AttemptFailed`` is expected in return, and the restart strategy says whether there is another."""

    reason: str


@dataclass(frozen=True, slots=True)
class MayRestart(Command):
    """After a failure: nothing is being written or committed any more, so the newest checkpoint is settled."""

    checkpoint: CheckpointId | None


@dataclass(frozen=True, slots=True)
class JobOver(Command):
    """The job has come to its end, and everything it did is safe; ``savepoint`` if it was stopped with one.

    With a ``failure`` its last checkpoint is complete, but could not be committed: that happens when it is started again.
    """

    savepoint: CheckpointId | None = None
    failure: str = ""


# ---- What the coordinator's state is made of: where the job is, where each checkpoint is, and what happened to it.
#
# ``PHASES`` and ``STEPS`` are the allowed transitions; ``machine.py`` makes them.


_NO_PAUSE, _TEN_MINUTES = Millis(0), Millis(600_000)
_STORIES = 200


class Phase(enum.Enum):
    """The phase of a job, as far as checkpoints are concerned."""

    IDLE = "idle"  # no attempt runs
    RUNNING = "running"
    STOPPING = "stopping"  # with a savepoint
    FAILING = "failing"  # FailJob was commanded
    ENDING = "ending"  # the last checkpoint is complete and being committed
    OVER = "over"


class CheckpointStep(enum.Enum):
    """The step of one checkpoint."""

    PENDING = "pending"
    READY = "ready"
    STORING = "storing"
    COMPLETE = "complete"
    ABORTED = "aborted"


PHASES: dict[Phase, frozenset[Phase]] = {
    Phase.IDLE: frozenset({Phase.RUNNING, Phase.ENDING, Phase.OVER}),
    Phase.RUNNING: frozenset({Phase.STOPPING, Phase.FAILING, Phase.IDLE, Phase.ENDING, Phase.OVER}),
    Phase.STOPPING: frozenset({Phase.RUNNING, Phase.FAILING, Phase.IDLE, Phase.ENDING, Phase.OVER}),
    Phase.FAILING: frozenset({Phase.IDLE, Phase.ENDING, Phase.OVER}),
    Phase.ENDING: frozenset({Phase.OVER}),
    Phase.OVER: frozenset(),
}

STEPS: dict[CheckpointStep, frozenset[CheckpointStep]] = {
    CheckpointStep.PENDING: frozenset({CheckpointStep.READY, CheckpointStep.ABORTED}),
    CheckpointStep.READY: frozenset({CheckpointStep.STORING, CheckpointStep.ABORTED}),
    CheckpointStep.STORING: frozenset({CheckpointStep.COMPLETE, CheckpointStep.ABORTED}),
    CheckpointStep.COMPLETE: frozenset(),
    CheckpointStep.ABORTED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules for checkpoints: interval, timeout, and number to keep; ``interval`` ``None``: on request only."""

    interval: Millis | None = None
    min_pause: Millis = _NO_PAUSE
    timeout: Millis = _TEN_MINUTES
    tolerable_failures: int = 0
    max_concurrent: int = 1
    retained: int = 1
    kept_after: frozenset[Outcome] = frozenset()
    exclusive: bool = False
    """True if a savepoint, too, waits for others: the barriers of unaligned checkpoints would overtake its own."""

    @property
    def concurrent(self) -> int:
        """Number of checkpoints that may be under way: a minimum pause allows one only."""
        return 1 if self.min_pause > 0 or self.exclusive else self.max_concurrent


@dataclass(slots=True)
class Pending:
    """A checkpoint that is not complete."""

    id: CheckpointId
    kind: SnapshotKind
    started: Millis
    #: tasks that have not answered; the others are in ``acks`` or ``final``, never in both
    missing: set[TaskKey]
    #: tasks that had finished before they could answer, with their final state
    final: dict[TaskKey, Handles]
    #: those of them that are not to run again; all but the ones that a drain ended
    finished: set[TaskKey]
    stop: Stop | None = None
    target: str = ""
    requests: list[RequestId] = field(default_factory=list)
    acks: dict[TaskKey, Handles] = field(default_factory=dict)
    step: CheckpointStep = CheckpointStep.PENDING

    def move(self, step: CheckpointStep) -> None:
        """Go on to another step."""
        assert step in STEPS[self.step], f"checkpoint {self.id}: {self.step} -> {step}"
        self.step = step


class History:
    """A log of the last few hundred checkpoints, a line per event."""

    def __init__(self) -> None:
        self._lines: dict[CheckpointId, list[tuple[Millis, str]]] = {}

    def note(self, checkpoint: CheckpointId, now: Millis, text: str) -> None:
        """Add a line; the oldest checkpoint is forgotten if there are too many."""
        if checkpoint not in self._lines and len(self._lines) >= _STORIES:
            del self._lines[next(iter(self._lines))]
        self._lines.setdefault(checkpoint, []).append((now, text))

    def of(self, checkpoint: CheckpointId) -> str:
        """Return the lines of one checkpoint."""
        lines = [f"{at:12} ms  {text}" for at, text in self._lines.get(checkpoint, [])]
        return "\n".join([f"checkpoint {checkpoint}", *(lines or ["    nothing is known of it"])])


_LIVE = frozenset({Phase.RUNNING, Phase.STOPPING})


class CheckpointMachine:
    """Decides about the checkpoints of one job, over all its attempts; change it through ``handle`` only.

    >>> machine = CheckpointMachine(Policy(interval=Millis(100)))
    >>> machine.handle(AttemptStarted(1, ("a", "b"), ("a",)), now=Millis(0))
    []
    >>> (trigger,) = machine.handle(Tick(), now=Millis(100))
    >>> trigger.checkpoint, trigger.tasks
    (1, ('a',))
    """

    def __init__(
        self, policy: Policy, completed: Iterable[CheckpointId] = (), next_id: CheckpointId | None = None
    ) -> None:
        self.policy = policy
        self.phase = Phase.IDLE
        #: the number of the attempt that runs or ran last; events of others are ignored
        self.attempt = 0
        #: the tasks of the attempt, in the order in which they were named
        self.tasks: tuple[TaskKey, ...] = ()
        #: those of them at which checkpoints are triggered
        self.sources: tuple[TaskKey, ...] = ()
        #: tasks that have ended, and their final states; a subset of ``tasks``
        self.finished: dict[TaskKey, Handles] = {}
        #: checkpoints and savepoints under way, oldest first; empty unless live, but for the one being stored
        self.pending: dict[CheckpointId, Pending] = {}
        #: whose manifest is being written; it is in ``pending``, and only Stored or StoreFailed takes it out
        self.storing: CheckpointId | None = None
        #: complete checkpoints that are kept, oldest first; once an attempt has started at most ``policy.retained``
        self.completed: list[CheckpointId] = list(completed)
        #: greater than every id ever given
        self.next_id = max(
            CheckpointId(1), next_id or CheckpointId(1), CheckpointId(max(self.completed, default=0) + 1)
        )
        #: complete checkpoints whose commit is awaited, oldest first
        self.committing: list[CheckpointId] = []
        #: of whose completion the tasks were told last; never goes back
        #: how many checkpoints have failed since one was complete; at most ``tolerable_failures`` while live
        self.failures = 0
        #: when the next one is to begin, if nothing holds it up; ``None``: only if asked for
        self.due: Millis | None = None
        self._now = Millis(0)
        self._ended_at: Millis | None = None
        self._asked: list[RequestId] = []
        self._queued: list[TriggerRequested] = []
        self._last: CheckpointId | None = None
        self._failed = 0
        self._alive = False
        self._ending: Pending | None = None
        self._uncommitted = bool(self.completed)  # an earlier driver may have died before it could
        self._settling = False
        self._orphans: list[Handles] = []
        self._outcome: Outcome | None = None
        self._commands: list[Command] = []
        self._stories = History()

    # ---- events

    def handle(self, event: Event, now: Millis) -> list[Command]:
        """Handle an event; return the commands to execute, in this order. Time never goes back here."""
        commands: list[Command] = []
        self._commands = commands
        self._now = max(self._now, now)
        match event:
            case Tick():
                pass
            case AttemptStarted():
                self._start(event)
            case TriggerRequested():
                self._request(event)
            case Acknowledged():
                self._ack(event)
            case Declined(attempt=attempt, checkpoint=checkpoint) if attempt == self.attempt:
                self._decline(event)
            case TaskFinished():
                self._finish(event)
            case Stored(checkpoint=checkpoint) if checkpoint == self.storing:
                self._stored(self.pending.pop(checkpoint))
            case StoreFailed(checkpoint=checkpoint, reason=reason) if checkpoint == self.storing:
                self.storing = None
                pending = self.pending[checkpoint]
                counts = event.counts or checkpoint == self._last  # which cannot be repeated
                self._abort(pending, f"its manifest could not be written: {reason}", counts)
            case Committed(checkpoint=checkpoint) if checkpoint in self.committing:
                self._committed(checkpoint, "")
            case CommitFailed(checkpoint=checkpoint, reason=reason) if checkpoint in self.committing:
                self._committed(checkpoint, f"checkpoint {checkpoint} could not be committed: {reason}")
            case AttemptFailed():
                self._fail(event)
            case Rejected(checkpoint=checkpoint, reason=reason) if checkpoint in self.completed:
                self.completed.remove(checkpoint)
                self._note(checkpoint, f"refused: {reason}")
            case JobStopped(outcome=outcome):
                self._stop(outcome)
        self._expire()
        self._begin_queued()
        self._begin_due()
        self._begin_last()
        self._store_next()
        self._settle()
        return commands

    def _start(self, event: AttemptStarted) -> None:
        assert self.storing is None and not self.committing, "an attempt must not start before MayRestart"
        assert event.attempt > self.attempt, "attempts are numbered upwards"
        self._move(Phase.RUNNING)
        self.attempt, self.tasks, self.sources = event.attempt, event.tasks, event.sources
        self.finished = {}
        self.failures = 0
        self._alive = True
        self._settling = False
        self._last = None
        self._uncommitted = False  # an attempt that starts from a checkpoint commits it first
        self._prune()
        self.due = None if self.policy.interval is None else Millis(self._now + self.policy.interval)

    def _request(self, event: TriggerRequested) -> None:
        if self.phase is not Phase.RUNNING:
            said = {Phase.STOPPING: "is being stopped with a savepoint", Phase.ENDING: "ends", Phase.OVER: "has ended"}
            reason = f"the job {said.get(self.phase, 'is not running at the moment')}"
            self._commands.append(Answer(event.request, None, reason))
        elif event.kind is SnapshotKind.CHECKPOINT:
            self._asked.append(event.request)
        elif self.policy.exclusive and self.pending:
            self._queued.append(event)
        else:
            if event.stop is not None:
                self._move(Phase.STOPPING)
            self._begin(SnapshotKind.SAVEPOINT, [event.request], event.stop, event.target)

    def _ack(self, event: Acknowledged) -> None:
        pending = self.pending.get(event.checkpoint) if event.attempt == self.attempt else None
        if pending is not None and event.task in pending.missing:
            pending.acks[event.task] = event.handles
            self._note(pending.id, f"acked by {event.task}")
            self._arrived(pending, event.task)
        elif pending is None or event.task not in pending.acks or pending.acks[event.task] != event.handles:
            self._note(event.checkpoint, f"late ack by {event.task} of attempt {event.attempt}, discarded")
            self._commands.append(Discard(event.checkpoint, (event.handles,)))

    def _decline(self, event: Declined) -> None:
        pending = self.pending.get(event.checkpoint)
        if pending is not None and event.task in pending.missing:
            self._abort(pending, f"{event.task} declined: {event.reason}", counts=True)

    def _finish(self, event: TaskFinished) -> None:
        if event.attempt != self.attempt or self.phase not in _LIVE or event.task not in self.tasks:
            self._commands.append(Discard(None, (event.handles,)))
        elif event.task not in self.finished:
            self.finished[event.task] = event.handles
            for pending in [p for p in self.pending.values() if event.task in p.missing]:
                pending.final[event.task] = event.handles
                if pending.stop is not Stop.DRAIN:
                    pending.finished.add(event.task)
                self._note(pending.id, f"{event.task} has finished")
                self._arrived(pending, event.task)

    def _fail(self, event: AttemptFailed) -> None:
        known = event.attempt <= self._failed  # several tasks may report one failure
        if (
            self.phase in (Phase.ENDING, Phase.OVER)
            or known
            or (self.phase is not Phase.IDLE and event.attempt != self.attempt)
        ):
            return
        self._failed = event.attempt
        if self.phase is not Phase.IDLE:
            self._move(Phase.IDLE)
        self._abort_all(f"attempt {event.attempt} failed: {event.reason}")
        self._forget_attempt()
        self._settling = True

    def _stop(self, outcome: Outcome) -> None:
        if self.phase is not Phase.OVER:
            self._move(Phase.OVER)
        self._outcome = self._outcome or outcome
        if self._ending is not None:
            self._answer(self._ending.requests, None, f"the job has ended ({outcome.value})")
            self._ending = None
        self._abort_all(f"the job has ended ({outcome.value})")
        self._forget_attempt()

    # ---- the life of a checkpoint

    def _begin(
        self, kind: SnapshotKind, requests: list[RequestId], stop: Stop | None = None, target: str = ""
    ) -> Pending:
        checkpoint, self.next_id = self.next_id, CheckpointId(self.next_id + 1)
        missing = {task for task in self.tasks if task not in self.finished}
        final = dict(self.finished)
        pending = Pending(checkpoint, kind, self._now, missing, final, set(final), stop, target, requests)
        self.pending[checkpoint] = pending
        asked = tuple(task for task in self.sources if task not in self.finished)
        self._note(checkpoint, f"{kind.value} triggered{f' to {stop.value} the job' if stop else ''}")
        self._commands.append(TriggerSources(checkpoint, self.attempt, asked, kind, stop, target))
        if not missing:
            self._step(pending, CheckpointStep.READY)
        return pending

    def _arrived(self, pending: Pending, task: TaskKey) -> None:
        pending.missing.discard(task)
        if not pending.missing:
            self._step(pending, CheckpointStep.READY)

    def _stored(self, pending: Pending) -> None:
        self.storing = None
        self._step(pending, CheckpointStep.COMPLETE)
        commits = pending.kind is SnapshotKind.CHECKPOINT or pending.stop is not None
        ends = pending.stop is not None or pending.id == self._last
        if commits:
            self.completed.append(pending.id)
            self.failures = 0
            self._ended_at = self._now
        if commits and self.phase is not Phase.OVER:  # there it is the manifest that knows what is to be committed
            for older in [p for p in self.pending.values() if p.id < pending.id and p.kind is SnapshotKind.CHECKPOINT]:
                self._abort(older, f"checkpoint {pending.id} is complete", instead=pending.id)
            self.committing.append(pending.id)
            self._commands.append(Commit(pending.id))
        self._prune()
        if ends and self.phase is not Phase.OVER:
            self._move(Phase.ENDING)
            self._ending = pending
            self._abort_all("the job has ended")
        else:
            self._answer(pending.requests, pending.id)

    def _committed(self, checkpoint: CheckpointId, failure: str) -> None:
        self.committing.remove(checkpoint)
        self._note(checkpoint, failure or "committed")
        self._uncommitted = bool(failure)
        if not failure and self._running():
            self._commands.append(NotifyComplete(checkpoint, self.attempt, self._running()))
        if self._ending is not None and self._ending.id == checkpoint:
            self._answer(self._ending.requests, None if failure else checkpoint, failure)
            savepoint = None if self._ending.stop is None else checkpoint
            self._ending = None
            self._move(Phase.OVER)
            self._commands.append(JobOver(savepoint, failure))
        elif failure and self.phase in _LIVE:
            self._fail_job(failure)

    def _prune(self) -> None:
        while len(self.completed) > self.policy.retained:
            self._commands.append(Prune(self.completed.pop(0)))

    def _abort(self, pending: Pending, reason: str, counts: bool = False, instead: CheckpointId | None = None) -> None:
        del self.pending[pending.id]
        self._step(pending, CheckpointStep.ABORTED, reason)
        if self.phase in _LIVE:
            self._commands.append(NotifyAborted(pending.id, self.attempt, self._running(), reason))
        if pending.acks or pending.kind is SnapshotKind.SAVEPOINT:
            self._commands.append(Discard(pending.id, tuple(pending.acks.values())))
        self._answer(pending.requests, instead, "" if instead else f"{pending.kind.value} {pending.id}: {reason}")
        if self.phase not in _LIVE:
            return
        if counts and pending.kind is SnapshotKind.CHECKPOINT:
            self.failures += 1
            if self.failures > self.policy.tolerable_failures or pending.id == self._last:
                self._fail_job(f"checkpoint {pending.id} failed, {self.failures} in a row: {reason}")
        elif pending.stop is Stop.DRAIN:
            self._fail_job(f"savepoint {pending.id}, which the job was to be drained with, failed: {reason}")
        elif pending.stop is Stop.SUSPEND:
            self._move(Phase.RUNNING)

    def _abort_all(self, reason: str) -> None:
        for pending in [p for p in self.pending.values() if p.id != self.storing]:
            self._abort(pending, reason)
        asked, self._asked = self._asked + [event.request for event in self._queued], []
        self._queued = []
        self._answer(asked, None, reason)

    def _fail_job(self, reason: str) -> None:
        self._move(Phase.FAILING)
        self._commands.append(FailJob(reason))
        self._abort_all(reason)

    def _answer(self, requests: list[RequestId], checkpoint: CheckpointId | None, reason: str = "") -> None:
        self._commands += [Answer(request, checkpoint, reason) for request in requests]

    # ---- what follows from an event, or from the time

    def _expire(self) -> None:
        late = [p for p in self.pending.values() if p.missing and self._now >= p.started + self.policy.timeout]
        for pending in late:
            if pending.id in self.pending:  # else aborted along with one before it
                missing = ", ".join(sorted(map(str, pending.missing)))
                self._abort(pending, f"after {self.policy.timeout} ms there was no answer from {missing}", counts=True)

    def _begin_queued(self) -> None:
        """Begin savepoints that waited for the end of others."""
        while self._queued and not self.pending:
            self._request(self._queued.pop(0))

    def _begin_due(self) -> None:
        if self.phase is not Phase.RUNNING or len(self.pending) >= self.policy.concurrent:
            return
        at = self._next_begin()
        if self._asked or (at is not None and self._now >= at):
            requests, self._asked = self._asked, []
            self._begin(SnapshotKind.CHECKPOINT, requests)
            if self.policy.interval is not None:
                self.due = Millis(self._now + self.policy.interval)

    def _next_begin(self) -> Millis | None:
        """Return the time of the next periodic checkpoint: none once the sources ended, as the last one is near."""
        if self.due is None or all(task in self.finished for task in self.sources):
            return None
        return self.due if self._ended_at is None else max(self.due, Millis(self._ended_at + self.policy.min_pause))

    def _begin_last(self) -> None:
        """Begin the last checkpoint when all tasks have finished: it has their final states; no task is triggered."""
        if self.phase is not Phase.RUNNING or len(self.finished) < len(self.tasks):
            return
        if self._last is None:
            self._last = self._begin(SnapshotKind.CHECKPOINT, []).id
        elif not self.pending and not self.committing:
            self._move(Phase.OVER)
            self._commands.append(JobOver())

    def _store_next(self) -> None:
        if self.storing is not None or self.phase not in _LIVE:
            return
        ready = [p for p in self.pending.values() if p.step is CheckpointStep.READY]
        newest = max((p.id for p in ready if p.kind is SnapshotKind.CHECKPOINT), default=None)
        for pending in ready:
            if pending.kind is SnapshotKind.SAVEPOINT or pending.id == newest:  # it will abort the others
                self.storing = pending.id
                self._step(pending, CheckpointStep.STORING)
                handles = pending.final | pending.acks
                facts = (pending.id, pending.kind, self.attempt, pending.started)
                ended = frozenset(pending.finished)
                final = frozenset(pending.final)
                self._commands.append(StoreManifest(*facts, handles, ended, pending.stop, pending.target, final))
                return

    def _settle(self) -> None:
        """Do the work that has to wait until nothing is being written or committed."""
        if self.storing is not None or self.committing:
            return
        if self._orphans:
            self._commands.append(Discard(None, tuple(self._orphans)))
            self._orphans = []
        if self._settling and self.phase is Phase.IDLE:
            self._settling = False
            self._commands.append(MayRestart(self.completed[-1] if self.completed else None))
        if self._outcome is not None and self._outcome not in self.policy.kept_after and not self._uncommitted:
            self._commands += [Prune(checkpoint) for checkpoint in self.completed]
            self.completed.clear()

    def _forget_attempt(self) -> None:
        self._orphans += self.finished.values()
        self.finished = {}
        self.due = None
        self._alive = False

    def _running(self) -> tuple[TaskKey, ...]:
        return tuple(task for task in self.tasks if task not in self.finished) if self._alive else ()

    # ---- moves and their log

    def _move(self, phase: Phase) -> None:
        assert phase in PHASES[self.phase], f"{self.phase} -> {phase}"
        self.phase = phase

    def _step(self, pending: Pending, step: CheckpointStep, reason: str = "") -> None:
        pending.move(step)
        self._note(pending.id, f"{step.value}{f': {reason}' if reason else ''}")

    def _note(self, checkpoint: CheckpointId, text: str) -> None:
        self._stories.note(checkpoint, self._now, text)

    def story(self, checkpoint: CheckpointId) -> str:
        """Return the history of a checkpoint, a line per event; the oldest ones are forgotten.

        >>> machine = CheckpointMachine(Policy())
        >>> _ = machine.handle(AttemptStarted(1, ("a",), ("a",)), Millis(0))
        >>> _ = machine.handle(TriggerRequested("me"), Millis(5))
        >>> _ = machine.handle(Acknowledged(1, "a", CheckpointId(1), "file"), Millis(7))
        >>> print(machine.story(CheckpointId(1)))
        checkpoint 1
                   5 ms  savepoint triggered
                   7 ms  acked by a
                   7 ms  ready
                   7 ms  storing
        """
        return self._stories.of(checkpoint)

    def validate(self) -> None:
        """Assert the invariants; for tests."""
        ids = list(self.pending)
        assert ids == sorted(ids) and all(checkpoint < self.next_id for checkpoint in ids)
        assert self.completed == sorted(set(self.completed))
        assert len(self.completed) <= self.policy.retained or self.attempt == 0
        assert not self.completed or self.completed[-1] < self.next_id
        assert self.finished.keys() <= set(self.tasks) and set(self.sources) <= set(self.tasks)
        assert self.storing is None or self.pending[self.storing].step is CheckpointStep.STORING
        assert self.committing == sorted(self.committing) and set(self.committing).isdisjoint(ids)
        assert (self._ending is not None) == (self.phase is Phase.ENDING)
        assert self.phase in _LIVE or ids == ([] if self.storing is None else [self.storing])
        assert self.phase not in _LIVE or self.failures <= self.policy.tolerable_failures
        stops = [p for p in self.pending.values() if p.stop is not None]
        assert (len(stops) == 1) if self.phase is Phase.STOPPING else (self.phase is not Phase.RUNNING or not stops)
        counted = [p for p in self.pending.values() if p.kind is SnapshotKind.CHECKPOINT and p.id != self._last]
        assert len(counted) <= self.policy.concurrent
        assert not self.policy.exclusive or sum(checkpoint != self._last for checkpoint in ids) <= 1
        for pending in self.pending.values():
            told = pending.acks.keys() | pending.final.keys()
            assert pending.step not in (CheckpointStep.COMPLETE, CheckpointStep.ABORTED)
            assert (pending.step is CheckpointStep.PENDING) == bool(pending.missing)
            assert pending.missing.isdisjoint(told) and pending.acks.keys().isdisjoint(pending.final)
            assert pending.finished <= pending.final.keys()
            assert self.phase not in _LIVE or pending.missing | told == set(self.tasks)
            assert self.phase not in _LIVE or pending.missing.isdisjoint(self.finished)
