"""The coordinator's shell: passes events to the machine, and executes its commands on the driver.

It writes, prunes and discards through the catalog; whatever concerns tasks, time and users it hands to its
``CoordinatorContext``. It has no thread of its own: ``handle`` may be called from any, one call at a time has effect;
work on the storage goes through ``CoordinatorContext.background``, which runs it in order (or at once, which is what a
simulation does).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol, cast
from uuid import uuid4

from funken.checkpoint.machine import (
    Answer,
    CheckpointMachine,
    Command,
    Commit,
    CommitFailed,
    Committed,
    Discard,
    Event,
    Handles,
    JobStopped,
    MayRestart,
    NotifyAborted,
    Prune,
    RequestId,
    Stored,
    StoreFailed,
    StoreManifest,
    Tick,
    TriggerRequested,
    TriggerSources,
)
from funken.checkpoint.restore import RestoreTarget
from funken.checkpoint.store.blobs import StopHandles, SubtaskHandle, TaskHandles, folder_of
from funken.checkpoint.store.completed import (
    CompletedCheckpointStore,
    Manifest,
    OperatorEntry,
    SnapshotKind,
    copied,
    write_manifest,
)
from funken.dataclass import dataclass
from funken.errors import CheckpointError, CheckpointLost
from funken.ids import CheckpointId, Millis
from funken.io.storage import Storage, open_storage

logger = logging.getLogger(__name__)


class CoordinatorContext(Protocol):
    """A coordinator's view of the runner of the job."""

    def now(self) -> Millis:
        """Return the time for intervals, which never steps back."""

    def wall(self) -> Millis:
        """Return the wall-clock time."""

    def trigger(self, command: TriggerSources) -> Mapping[str, bytes]:
        """Snapshot the enumerators, send the command to its tasks, and return the pickled snapshots by operator id.

        Earlier messages to a source are sent before, later ones after it; nothing in between.
        """

    def commit(self, manifest: Manifest) -> None:
        """Commit the sinks' prepared output, in the background; output committed before may be in it again."""

    def perform(self, command: Command) -> None:
        """Execute a command for tasks or the job: ``Notify...``, ``FailJob``, ``MayRestart``, ``JobOver``.

        ``MayRestart`` comes from the background, the others from the caller of ``handle``. It does not come while the
        storage fails; every ``Tick`` then has it tried again.
        """

    def answer(self, request: RequestId, location: str | None, reason: str) -> None:
        """Answer a request: with the path of the snapshot, or (``None``) why there is none."""

    def background(self, work: Callable[[], None]) -> None:
        """Run work on the storage, or commits, after earlier work."""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A job in its manifests; tasks account for every subtask of its ``operators``, stateful or not."""

    id: str
    name: str
    operators: tuple[RestoreTarget, ...]


class Coordinator:
    """The checkpoints of one job, on the driver."""

    def __init__(
        self, machine: CheckpointMachine, store: CompletedCheckpointStore, job: JobFacts, surroundings: CoordinatorContext,
        storage_at: Callable[[str], Storage] = open_storage,
    ) -> None:  # fmt: skip
        self.machine = machine
        self.catalog = store
        #: what manifests say of the job
        self.job = job
        self._around = surroundings
        self._storage_at = storage_at
        self._lock = threading.RLock()
        self._events: deque[Event] = deque()
        self._busy = False
        #: enumerators as they were when a checkpoint was triggered
        self._enumerators: dict[CheckpointId, Mapping[str, bytes]] = {}
        #: manifests that are stored and not yet committed
        self._manifests: dict[CheckpointId, Manifest] = {}
        #: where the savepoints are that were triggered
        self._targets: dict[CheckpointId, str] = {}
        #: what is complete, and not to be taken for something to discard
        self._saved: set[CheckpointId] = set()
        #: called with each event, and the commands that follow; it must not take long
        self.observer: Callable[[Event, list[Command]], None] = lambda event, commands: None
        #: what is to be performed once the storage can be settled; the next tick tries it again
        self._unsettled: MayRestart | None = None
        #: whether the last manifest could not be written because what it names was removed
        self._lost = False
        #: whether the job is over, and what it left has not been deleted
        self._untidy = False
        store.pinned = self._pinned

    def handle(self, event: Event) -> None:
        """Handle an event and its consequences; an event from within these waits its turn."""
        with self._lock:
            self._events.append(event)
            if self._busy:
                return
            self._busy = True
            try:
                while self._events:
                    self._handle(self._events.popleft())
            finally:
                self._busy = False

    def story(self, checkpoint: CheckpointId) -> str:
        """Return the history of a checkpoint, and its size."""
        with self._lock:
            told, manifest = self.machine.story(checkpoint), self.catalog.complete.get(checkpoint)
        if manifest is None:
            return told
        return f"{told}\n{manifest.size} bytes, {manifest.in_flight} of them records in flight"

    def _handle(self, event: Event) -> None:
        if isinstance(event, TriggerRequested) and event.kind is SnapshotKind.SAVEPOINT:
            name = f"savepoint-{self.job.id[:6]}-{uuid4().hex[:12]}"
            event = replace(event, target=f"{event.target.rstrip('/')}/{name}")
        elif isinstance(event, Stored):
            self._saved.add(event.checkpoint)
        commands = self.machine.handle(event, self._around.now())
        self.observer(event, commands)
        for command in commands:
            self._do(command)
        if isinstance(event, Tick):
            self._settle_again()
        self._untidy |= isinstance(event, JobStopped)
        # A manifest that is being written, or results that are being committed, end with an event of their own.
        if self._untidy and not (self.machine.pending or self.machine.committing):
            self._untidy = False
            self._around.background(self.catalog.sweep)

    def _do(self, command: Command) -> None:
        match command:
            case TriggerSources(checkpoint=checkpoint, kind=kind, target=target):
                if kind is SnapshotKind.SAVEPOINT:
                    self._targets[checkpoint] = target
                self._enumerators[checkpoint] = self._around.trigger(command)
            case StoreManifest():
                self._store(command)
            case Commit(checkpoint=checkpoint):
                manifest = self._manifests.pop(checkpoint)
                self._around.background(lambda: self._commit(manifest))
            case NotifyAborted(checkpoint=checkpoint):
                self._enumerators.pop(checkpoint, None)
                self._around.perform(command)
            case Discard(checkpoint=checkpoint, handles=handles):
                self._discard(checkpoint, handles)
            case Prune(checkpoint=checkpoint):
                self._around.background(lambda: self.catalog.prune(checkpoint))
            case Answer(request=request, checkpoint=answered, reason=reason):
                self._around.answer(request, None if answered is None else self._location(answered), reason)
            case MayRestart():
                self._around.background(lambda: self._sweep_and_perform(command))
            case _:
                self._around.perform(command)

    def _sweep_and_perform(self, command: MayRestart) -> None:
        """Clean up before the next attempt, whose blobs no manifest names yet; it waits until that is done."""
        if self.catalog.settle():
            self.catalog.sweep()
            self._around.perform(command)
        else:
            self._unsettled = command

    def _settle_again(self) -> None:
        command, self._unsettled = self._unsettled, None
        if command is not None:
            self._around.background(lambda: self._sweep_and_perform(command))

    def _store(self, command: StoreManifest) -> None:
        enumerators = self._enumerators.pop(command.checkpoint, {})

        def work() -> None:
            try:
                if command.kind is SnapshotKind.SAVEPOINT:
                    storage = self._storage_at(command.target)
                    write_manifest(storage, self._manifest(command, enumerators, storage))
                if command.kind is SnapshotKind.CHECKPOINT or command.stop is not None:
                    manifest = self._manifest(command, enumerators, None)
                    self.catalog.store(manifest)
                    self._manifests[command.checkpoint] = manifest
            except CheckpointError as error:
                again, self._lost = self._lost, isinstance(error, CheckpointLost)
                counts = again or not self._lost  # one that names nothing older, and is lost as well, is a failure
                self.handle(StoreFailed(command.checkpoint, str(error), counts))
            else:
                self._lost = False
                self.handle(Stored(command.checkpoint))

        self._around.background(work)

    def _manifest(
        self, command: StoreManifest, enumerators: Mapping[str, bytes], savepoint: Storage | None
    ) -> Manifest:
        handles: dict[tuple[str, int], SubtaskHandle] = {}
        for task, given in command.handles.items():
            ended = task in command.finished
            for place, handle in _part(given, savepoint is not None).items():
                copy = savepoint is not None and task in command.final
                kept = copied(handle, self.catalog.storage, cast("Storage", savepoint)) if copy else handle
                handles[place] = replace(kept, finished=ended or handle.finished)
        return Manifest(
            job_id=self.job.id,
            job_name=self.job.name,
            checkpoint=command.checkpoint,
            kind=SnapshotKind.CHECKPOINT if savepoint is None else SnapshotKind.SAVEPOINT,
            time=self._around.wall(),
            operators=tuple(_entry(operator, handles) for operator in self.job.operators),
            enumerators=enumerators,
        )

    def _commit(self, manifest: Manifest) -> None:
        try:
            self._around.commit(manifest)
        except Exception as error:  # noqa: BLE001 - a sink may raise anything; the next attempt commits it again
            self.handle(CommitFailed(manifest.checkpoint, f"{type(error).__name__}: {error}"))
        else:
            self.handle(Committed(manifest.checkpoint))

    def _discard(self, checkpoint: CheckpointId | None, given: tuple[Handles, ...]) -> None:
        target = None if checkpoint is None else self._targets.get(checkpoint)
        if target is not None and checkpoint in self._saved:
            return
        in_job = [handles for handles in given if target is None or isinstance(handles, StopHandles)]

        def work() -> None:
            self.catalog.discard(handle for handles in in_job for handle in _part(handles, False).values())
            if target is not None:
                try:
                    self._storage_at(target).delete("")
                except CheckpointError as error:
                    logger.warning("the files of an aborted savepoint stay: %s", error)

        self._around.background(work)

    def _location(self, checkpoint: CheckpointId) -> str:
        return self._targets.get(checkpoint) or f"{self.catalog.storage.uri}/{folder_of(checkpoint)}"

    def _pinned(self) -> Iterable[SubtaskHandle]:
        with self._lock:
            given = [*self.machine.finished.values()]
            for pending in self.machine.pending.values():
                if pending.kind is SnapshotKind.CHECKPOINT or pending.stop is not None:
                    given += [*pending.acks.values(), *pending.final.values()]
        return [handle for handles in given for handle in _part(handles, False).values()]


def _part(given: Handles, savepoint: bool) -> TaskHandles:
    """Return a task's handles for checkpoints, or for the savepoint."""
    if isinstance(given, StopHandles):
        return given.savepoint if savepoint else given.checkpoint
    return cast("TaskHandles", given)


def _entry(operator: RestoreTarget, handles: Mapping[tuple[str, int], SubtaskHandle]) -> OperatorEntry:
    places = [(operator.id, subtask) for subtask in range(operator.parallelism)]
    lost = [
        str(subtask) for place, subtask in zip(places, range(operator.parallelism), strict=True) if place not in handles
    ]
    if lost:  # to take it for a subtask without state would lose what it had
        raise CheckpointError(f"no task accounted for operator {operator.name!r}, subtask {', '.join(lost)}.")
    subtasks = tuple(handles[place] for place in places)
    return OperatorEntry(
        operator.id, operator.name, operator.parallelism, operator.max_parallelism, operator.uid, subtasks
    )
