"""A job's checkpoints on the driver, over all its attempts: between the coordinator and the master of each attempt.

The coordinator decides and stores; this sends its commands to the tasks, snapshots the enumerators,
commits what sinks prepared, and chooses what the next attempt starts from. The coordinator is never called while
the master's lock is held: it may acquire that lock itself.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

from funken import config
from funken.checkpoint.coordinator import Coordinator, JobFacts
from funken.checkpoint.machine import (
    Acknowledged,
    AttemptFailed,
    AttemptStarted,
    CheckpointMachine,
    Command,
    Declined,
    Event,
    FailJob,
    JobOver,
    JobStopped,
    MayRestart,
    NotifyAborted,
    NotifyComplete,
    Outcome,
    Rejected,
    RequestId,
    Stop,
    TaskFinished,
    Tick,
    TriggerRequested,
    TriggerSources,
)
from funken.checkpoint.restart_strategy import fault_of, resume_hint
from funken.checkpoint.restore import Restoration, plan_restore, uid_warnings
from funken.checkpoint.settings import CheckpointSettings, placed
from funken.checkpoint.store.blobs import folder_of
from funken.checkpoint.store.completed import (
    CompletedCheckpointStore,
    Manifest,
    SnapshotKind,
    open_checkpoint,
)
from funken.checkpoint.store.epochs import Term, remove_abandoned
from funken.config import Configuration
from funken.errors import CheckpointError, CommitError, Fault, JobExecutionError, LeadershipLost
from funken.ids import CheckpointId, Millis, OperatorId
from funken.io.shapes import dumps_state, load_state
from funken.io.storage import Storage, open_storage
from funken.io.temporary import remove_temporary_folder
from funken.plan.physical import PhysicalPlan
from funken.runtime.driver.coordinators import BackgroundWorker
from funken.runtime.driver.master import JobMaster
from funken.runtime.job.loops import check_stop
from funken.runtime.job.snapshot import CheckpointHistory
from funken.runtime.messages import (
    CheckpointAborted,
    CheckpointAcknowledged,
    CheckpointComplete,
    CheckpointDeclined,
    Savepoint,
    TaskEnded,
    TaskEvent,
    TriggerCheckpoint,
)
from funken.runtime.settings import CheckpointPlan
from funken.runtime.task.state_manager import restore_targets
from funken.timing.clock import Clock, SystemClock, came

logger = logging.getLogger(__name__)

_SETTLE_SECONDS = 60.0
_TRY_AGAIN_SECONDS = (0.1, 2.0)  # the first pause, which doubles, and the longest
_TIDY_SECONDS = 600.0


class JobCheckpoints:
    """The checkpoints of one job. ``at_once`` stores in the calling thread (one process, virtual time).

    With ``later`` whoever begins the job calls ``claim``; until then another driver that runs it is left alone.
    """

    def __init__(
        self, plan: PhysicalPlan, settings: CheckpointSettings, job_id: str, clock: Clock, *, at_once: bool = False,
        later: bool = False,
    ) -> None:  # fmt: skip
        self._plan = plan
        self._settings = settings.one_at_a_time() if plan.has_loop else settings
        self._clock = clock
        self._storage: Storage = open_storage(f"{settings.directory.rstrip('/')}/{job_id}")
        self._targets = restore_targets(plan)
        self._by_id: dict[str, OperatorId] = {name: number for number, name in plan.stable_ids.items()}
        self._store = CompletedCheckpointStore(self._storage, job_id=job_id)
        self._facts = JobFacts(job_id, plan.name, self._targets)
        self.history = CheckpointHistory(plan, self._storage.uri, clock.now)
        self._coordinator = self._new_coordinator()
        self._claimed = False
        self.term = Term()  # which an election may set until the claim
        self._worker = None if at_once else BackgroundWorker("funken-checkpoints")
        self._master: JobMaster | None = None
        self._settled = threading.Event()
        self._over: JobOver | None = None
        self._folder: str | None = None
        #: requests for savepoints, until the next tick at which the job runs; guarded by ``_asking``
        self._asked: deque[TriggerRequested] = deque()
        self._asking = threading.Lock()
        self._runs = False
        self._ended = False
        self._warned: set[str] = set()
        self._pausing = False
        self._restored_from: CheckpointId | None = None
        self._foreign: CheckpointId | None = None  # of another job
        self._fault = Fault(0)  # of the last commit that failed
        if not later:
            self.claim()

    def _new_coordinator(self) -> Coordinator:
        completed, next_id = sorted(self._store.complete), self._store.next_id
        machine = CheckpointMachine(self._settings.policy, completed, next_id)
        made = Coordinator(machine, self._store, self._facts, self)
        made.observer = partial(self.history.observe, machine)
        return made

    def claim(self) -> None:
        """Take over the job's checkpoints from an earlier driver, once; a job that does not begin takes none."""
        if self._claimed:
            return
        self._store.scan()  # before the claim: a driver that cannot resume from there does not end another's job
        self._store.claim(self.term)
        self._coordinator = self._new_coordinator()
        self._claimed = True
        self.background(self._remove_abandoned)

    def _remove_abandoned(self) -> None:
        for folder in remove_abandoned(self._storage):
            logger.info("%s is removed: its driver ended before it had completed a checkpoint", folder)

    @staticmethod
    def of(plan: PhysicalPlan, configuration: Configuration, job_id: str) -> JobCheckpoints:
        """Create them from the options; without a directory they are in a temporary folder until the job ends."""
        settings, folder = placed(CheckpointSettings.of(configuration), plan.name)
        made = JobCheckpoints(plan, settings, job_id, SystemClock(), later=True)
        made._folder = folder
        if folder is not None:  # a job that never runs does not remove it
            weakref.finalize(made, remove_temporary_folder, folder)
        try:
            made._check_restore_path()
        except CheckpointError:
            made.stopped(Outcome.LOST)
            raise
        return made

    def _check_restore_path(self) -> None:
        """Raise the fault of the savepoint that the program names, before anything is started for the job."""
        if not self._settings.restore_path:
            return
        try:
            self._store.scan()
            own = self._store.latest(self._settings.allow_fresh)
        except CheckpointError:
            return  # it is said when the job begins
        if own is None:  # else the job goes on from that
            open_checkpoint(self._settings.restore_path)

    @staticmethod
    def of_micro_batch(plan: PhysicalPlan, settings: CheckpointSettings, job_id: str) -> JobCheckpoints:
        """Make them for one micro-batch, which is to end with a checkpoint that is kept."""
        policy = replace(settings.policy, interval=None, kept_after=frozenset(Outcome))
        made = JobCheckpoints(plan, replace(settings, policy=policy), job_id, SystemClock())
        made._pausing = True
        return made

    # ---- attempts

    def replan(self, plan: PhysicalPlan) -> None:
        """The job goes on with another parallelism; to be called between two attempts."""
        self._plan, self._targets = plan, restore_targets(plan)
        self._coordinator.job = replace(self._facts, operators=self._targets)
        self.history.replan(plan)

    def restoration(self) -> Restoration | None:
        """Return the start of the next attempt: the newest complete checkpoint, else the one that the program names."""
        for gone in self._store.refresh():  # what is prepared is committed and dropped from here on
            self.handle(Rejected(gone, self._store.lost[gone][1]))
        newest = self._store.latest(self._settings.allow_fresh)
        ignoring = self._settings.allow_non_restored
        self._restored_from = None if newest is None else newest.checkpoint
        self._foreign = None
        if newest is not None:
            self.history.restored(newest, f"{self._storage.uri}/{folder_of(newest.checkpoint)}")
            return plan_restore(newest, self._storage.uri, self._targets, ignoring, own=True)
        if self._settings.restore_path:
            found = open_checkpoint(self._settings.restore_path)
            restoration = plan_restore(found.manifest, found.root.uri, self._targets, ignoring)
            self.history.restored(found.manifest, found.root.uri)
            self._foreign = found.manifest.checkpoint
            self._warn(restoration.warnings)
            return restoration
        return None

    def plan_for(self, restoration: Restoration | None) -> CheckpointPlan:
        """Return the checkpoint settings of the tasks of an attempt."""
        restores = {} if restoration is None else dict(restoration.subtasks)
        if self._pausing:  # subtasks that ended with their micro-batch run again in the next
            restores = {place: replace(restore, finished=False) for place, restore in restores.items()}
        settings = self._settings
        unaligned_after = settings.aligned_timeout if settings.unaligned else None
        return CheckpointPlan(
            self._storage.uri, settings.snapshots, settings.exactly_once, unaligned_after, restores,
            self._foreign if self._restored_from is None else self._restored_from, self._restored_from or 0,
        )  # fmt: skip

    def attach(self, master: JobMaster, attempt: int, restoration: Restoration | None) -> None:
        """Begin an attempt: its master reports here, and its enumerators and sinks resume from ``restoration``."""
        self._master = master
        self._attempt = attempt + 1
        self._settled.clear()
        master.checkpoints = self
        if restoration is not None:
            master.coordinators.restore(
                {self._by_id[name]: load_state(data) for name, data in restoration.enumerators.items()}
            )
            for name, prepared in restoration.committables.items():
                try:
                    self._commit(name, prepared, recover=True)
                except Exception as error:
                    failure = JobExecutionError(
                        f"what the checkpoint prepared, from which job {self._plan.name!r} starts, cannot be committed: "
                        f"{type(error).__name__}: {error}"
                    )
                    failure.fault |= self._fault
                    raise failure from error
        if self._pausing:
            self._handle_started()  # Spark runs the stages one after the other, and the first may end before the last starts

    def failed(self, reason: str) -> bool:
        """The attempt failed; returns, when it is settled which checkpoint is the newest, whether there is to be another.

        There is not if the job's last checkpoint was being stored, and is complete. Raises if it takes too long, or if that
        last one cannot be committed.
        """
        self._runs = False
        self.handle(AttemptFailed(self._attempt, reason))
        self._wait_until_settled()
        if self._over is not None and self._over.failure:
            raise JobExecutionError(f"job {self._plan.name!r} has ended, but {self._over.failure}")
        return self._over is None

    def _wait_until_settled(self) -> None:
        """Wait until it is settled which checkpoint is the newest; a storage that fails is tried again."""
        pause, longest = _TRY_AGAIN_SECONDS
        end = SystemClock().monotonic() + _SETTLE_SECONDS
        while not came(self._settled, pause):
            if SystemClock().monotonic() >= end:
                raise JobExecutionError(
                    f"the checkpoint storage at {self._storage.uri} did not answer or refused for {_SETTLE_SECONDS:.0f} s"
                    f"{f' ({self._store.refusal})' if self._store.refusal else ''}, so the job cannot be restarted: it is "
                    "not known which checkpoint is the newest. See that it can be reached and written, and start the job again."
                )
            self.handle(Tick())
            pause = min(2 * pause, longest)

    def reject(self, reason: str) -> bool:
        """Reject the broken snapshot of the attempt; return True if it was a checkpoint: one before it may do.

        To be called once ``failure_event`` has returned. Results that were committed since the one before may come again.
        """
        checkpoint, self._restored_from = self._restored_from, None
        if checkpoint is None:
            return False
        self._store.reject(checkpoint, reason)
        older = max((number for number in self._store.complete if number < checkpoint), default=None)
        then = "there is none before it" if older is None else f"checkpoint {older}, before it, is used"
        logger.warning("checkpoint %d is refused, %s: %s", checkpoint, then, reason)
        self.handle(Rejected(checkpoint, reason))
        return True

    @property
    def done(self) -> bool:
        """True if the job has come to its end, and everything it did is safe from later failures."""
        return self._over is not None and not self._over.failure

    def stopped(self, outcome: Outcome) -> None:
        """The job is over for good."""
        with self._asking:
            self._ended = True
        if not self._claimed:  # the job has not begun: what is there is another's
            self._drop_requests()
        else:
            self._runs = True  # requests that are still open are answered: the job is over
            self.handle(JobStopped(outcome))
            self.tick()
        if self._worker is not None and not self._worker.close(_TIDY_SECONDS):
            logger.warning(
                "job %r is over, but the checkpoint storage at %s did not answer within %.0f s: some of "
                "its last files may not be stored or deleted. Is it reachable? A job with this id that "
                "starts later tidies up.",
                self._plan.name, self._storage.uri, _TIDY_SECONDS,
            )  # fmt: skip
        if self._master is not None:
            self._master.close()
        if self._folder is not None:
            remove_temporary_folder(self._folder)
            self.history.folder_removed()
        elif self._claimed and outcome in self._settings.policy.kept_after and not self._pausing:
            hint = self._resume_hint()
            if hint:
                logger.warning("job %r has ended (%s): %s.", self._plan.name, outcome.value, hint)

    def _resume_hint(self) -> str | None:
        """Return a hint on the place from which the job can go on, by the present content of the storage."""
        try:
            self._store.refresh()
        except LeadershipLost:
            return None  # the other driver has the job
        except CheckpointError as error:
            return f"the checkpoint to resume from is unknown: {error}"
        return resume_hint(self._settings.job_id, sorted(self._store.complete), self._storage.uri, self._store.unusable)

    def _drop_requests(self) -> None:
        while self._asked:
            self.answer(self._asked.popleft().request, None, "the job has ended before it began")

    # ---- savepoints

    def savepoint(self, directory: str | None, stop: Stop | None = None) -> Future[str]:
        """Request a savepoint in a new folder in ``directory``; the future returns its path. Thread-safe."""
        check_stop(self._plan, stop)
        target = directory or self._settings.savepoint_directory
        if not target:
            raise CheckpointError(
                f"job {self._plan.name!r}: there is no place for a savepoint. Name a directory, or set "
                f"{config.SAVEPOINT_DIR.key}."
            )
        nodes = [node for vertex in self._plan.vertices for node in vertex.nodes]
        self._warn(uid_warnings((node.name, node.uid is not None, node.keyed) for node in nodes))
        return self._request(SnapshotKind.SAVEPOINT, stop, open_storage(target).uri)

    def checkpoint(self) -> Future[str]:
        """Request a checkpoint now; the future returns its path. Thread-safe."""
        return self._request(SnapshotKind.CHECKPOINT)

    def _request(self, kind: SnapshotKind, stop: Stop | None = None, target: str = "") -> Future[str]:
        answer: Future[str] = Future()
        answer.set_running_or_notify_cancel()
        with self._asking:
            if self._ended:
                answer.set_exception(CheckpointError(f"job {self._plan.name!r} has ended: there is nothing to save."))
            else:
                self._asked.append(TriggerRequested(answer, kind, stop, target))
        return answer

    def _warn(self, warnings: Iterable[str]) -> None:
        for warning in warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                logger.warning("job %r: %s", self._plan.name, warning)

    # ---- events

    def handle(self, event: Event) -> None:
        """Hand an event to the coordinator."""
        self._coordinator.handle(event)

    def tick(self) -> None:
        """Let time pass."""
        while self._runs and self._asked:
            self.handle(self._asked.popleft())
        self.handle(Tick())

    def story(self, checkpoint: int) -> str:
        """Return the history of a checkpoint."""
        return self._coordinator.story(CheckpointId(checkpoint))

    @property
    def completed(self) -> list[int]:
        """The complete checkpoints that are kept."""
        return list(self._coordinator.machine.completed)

    def all_started(self) -> None:
        """Every task of the attempt is open."""
        if not self._pausing:
            self._handle_started()

    def _handle_started(self) -> None:
        assert self._master is not None
        self.handle(AttemptStarted(self._attempt, tuple(self._master.tasks), tuple(self._master.triggered)))
        self._runs = True

    def take(self, event: TaskEvent) -> None:
        """Handle a task's event about a checkpoint."""
        match event:
            case CheckpointAcknowledged(task=task, attempt=attempt, checkpoint=checkpoint, handles=handles):
                self.history.timed(task, checkpoint, event.subtasks)
                self.handle(Acknowledged(attempt, task, CheckpointId(checkpoint), handles))
            case CheckpointDeclined(task=task, attempt=attempt, checkpoint=checkpoint, reason=reason):
                self.handle(Declined(attempt, task, CheckpointId(checkpoint), reason))
            case TaskEnded(task=task, attempt=attempt, handles=handles):
                self.handle(TaskFinished(attempt, task, handles))

    # ---- commands of the coordinator

    def now(self) -> Millis:
        """Return the time for intervals (ms)."""
        return Millis(int(self._clock.monotonic() * 1000))

    def wall(self) -> Millis:
        """Return the wall-clock time (ms)."""
        return Millis(self._clock.now())

    def trigger(self, command: TriggerSources) -> Mapping[str, bytes]:
        """Snapshot the enumerators and trigger the sources; no split is assigned in between."""
        master = self._master
        assert master is not None
        savepoint = Savepoint(command.target, command.stop) if command.kind is SnapshotKind.SAVEPOINT else None
        snapshots = master.trigger(command.tasks, TriggerCheckpoint(command.checkpoint, savepoint), command.checkpoint)
        return {
            self._plan.stable_ids[number]: dumps_state(value, lambda shape: None) for number, value in snapshots.items()
        }

    def commit(self, manifest: Manifest) -> None:
        """Commit the output that the sinks prepared."""
        for entry in manifest.operators:
            self._commit(entry.id, [handle.committables for handle in entry.subtasks if handle.committables])

    def _commit(self, operator: str, prepared: Any, recover: bool = False) -> None:
        assert self._master is not None
        number = self._by_id.get(operator)
        committables = [committable for pickled in prepared for committable in load_state(pickled)]
        if number is not None and committables:
            try:
                (self._master.recover if recover else self._master.commit)(number, committables)
            except Exception as error:
                self._fault = fault_of(error)
                if isinstance(error, CommitError) and error.__cause__ is not None:
                    self._fault |= fault_of(error.__cause__)
                raise

    def perform(self, command: Command) -> None:
        """Execute a command for the tasks or the job."""
        master = self._master
        match command:
            case NotifyComplete(checkpoint=checkpoint, tasks=tasks) if master is not None:
                master.coordinators.notify_complete(checkpoint)
                for task in tasks:
                    master.send(task, CheckpointComplete(checkpoint))  # type: ignore[arg-type]
            case NotifyAborted(checkpoint=checkpoint, tasks=tasks) if master is not None:
                master.coordinators.notify_aborted(checkpoint)
                for task in tasks:
                    master.send(task, CheckpointAborted(checkpoint, self._store.rewrite))  # type: ignore[arg-type]
            case FailJob(reason=reason) if master is not None:
                failure = JobExecutionError(reason)
                failure.fault |= self._fault & Fault.FINAL
                master.fail(failure)
            case MayRestart():
                self._settled.set()
            case JobOver(failure=failure) if master is not None:
                self._over = command
                self._settled.set()
                if failure:
                    master.fail(JobExecutionError(f"job {self._plan.name!r} has ended, but {failure}"))
                    master.over = True
                else:
                    master.end()

    def answer(self, request: RequestId, location: str | None, reason: str) -> None:
        """Complete the request for a savepoint with its path, or with the reason why there is none."""
        assert isinstance(request, Future)
        if location is None:
            request.set_exception(CheckpointError(f"job {self._plan.name!r} is not saved: {reason}."))
        else:
            request.set_result(location)

    def background(self, work: Callable[[], None]) -> None:
        """Run work on the storage."""
        if self._worker is None:
            work()
        else:
            self._worker.submit(work)
