"""The checkpoints of a job as a history: which there were, how they ended, and how each subtask took its part.

Fed with the events and commands of the coordinator; it decides nothing. Bounded: the newest few, and the newest of each kind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from funken.checkpoint.events import (
    Acknowledged,
    AttemptFailed,
    AttemptStarted,
    Command,
    Event,
    JobStopped,
    NotifyAborted,
    Prune,
    Stored,
    TaskFinished,
    TaskKey,
    Tick,
    TriggerSources,
)
from funken.checkpoint.machine import CheckpointMachine
from funken.checkpoint.store.handles import StopHandles, SubtaskHandle
from funken.checkpoint.store.manifest import Manifest
from funken.dataclass import dataclass
from funken.ids import Millis
from funken.plan.physical import PhysicalPlan
from funken.runtime.messages import SubtaskCheckpoint, TaskId

_KEPT = 50


@dataclass(frozen=True, slots=True)
class SubtaskCheckpointStats:
    """The part of one subtask of a vertex; durations in ms.

    ``start_delay`` is from the trigger to its first barrier, ``alignment`` until the last, ``sync_duration`` until its snapshot
    was taken, ``async_duration`` until that was written. A subtask that had finished has a size only.
    """

    vertex: int
    subtask: int
    acknowledged: Millis
    size: int
    start_delay: float = 0.0
    alignment: float = 0.0
    sync_duration: float = 0.0
    async_duration: float = 0.0
    unaligned: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointStats:
    """One checkpoint or savepoint; ``status`` is ``IN_PROGRESS``, ``COMPLETED`` or ``FAILED``. Times are wall-clock ms."""

    id: int
    kind: str
    status: str
    triggered: Millis
    tasks: int
    acknowledged: int = 0
    latest_ack: Millis | None = None
    ended: Millis | None = None
    size: int = 0
    path: str = ""
    failure: str = ""
    subtasks: tuple[SubtaskCheckpointStats, ...] = ()
    discarded: bool = False
    """Whether its files are deleted, or about to be: nothing can start from it. A savepoint is the user's and stays."""
    held_up_by: tuple[tuple[int, int], ...] = ()
    """The vertices and subtasks that have not acknowledged it although everything before them has; of a failed one, then."""

    @property
    def duration(self) -> int | None:
        """How long (ms) it took, if it has ended."""
        return None if self.ended is None else self.ended - self.triggered


@dataclass(frozen=True, slots=True)
class RestoredCheckpoint:
    """What an attempt started from."""

    id: int
    kind: str
    path: str
    restored: Millis


@dataclass(frozen=True, slots=True)
class CheckpointsSnapshot:
    """The checkpoints of a job: how many there were, the newest of each kind, and the newest few, newest first."""

    completed: int = 0
    failed: int = 0
    in_progress: int = 0
    restores: int = 0
    latest_completed: CheckpointStats | None = None
    latest_savepoint: CheckpointStats | None = None
    latest_failed: CheckpointStats | None = None
    restored: RestoredCheckpoint | None = None
    history: tuple[CheckpointStats, ...] = ()


@dataclass(slots=True)
class _Open:
    """A checkpoint that has not ended."""

    id: int
    kind: str
    triggered: Millis
    missing: set[TaskKey]
    tasks: int
    path: str
    latest_ack: Millis | None = None
    subtasks: list[SubtaskCheckpointStats] = field(default_factory=list)

    def stats(
        self, status: str, ended: Millis | None = None, failure: str = "", held_up_by: tuple[tuple[int, int], ...] = ()
    ) -> CheckpointStats:
        done = self.tasks - len(self.missing)
        size = sum(subtask.size for subtask in self.subtasks)
        parts = tuple(self.subtasks)
        return CheckpointStats(
            self.id, self.kind, status, self.triggered, self.tasks, done, self.latest_ack, ended, size, self.path,
            failure, parts, status == "FAILED", held_up_by,
        )  # fmt: skip


class CheckpointHistory:
    """Keeps the history; ``observe`` is called with each event of the coordinator and the commands that followed."""

    def __init__(self, plan: PhysicalPlan, root: str, wall: Callable[[], int], kept: int = _KEPT) -> None:
        self._root = root
        self._wall = wall
        self._kept = kept
        self._lock = threading.Lock()
        self.replan(plan)
        self._open: dict[int, _Open] = {}
        self._final: dict[TaskKey, list[SubtaskCheckpointStats]] = {}
        self._ended: list[CheckpointStats] = []
        self._times: dict[tuple[TaskKey, int], Mapping[int, SubtaskCheckpoint]] = {}
        self._counts = {"COMPLETED": 0, "FAILED": 0}
        self._latest: dict[str, CheckpointStats] = {}
        self._restored: RestoredCheckpoint | None = None
        self._restores = 0

    # ---- what happens

    def replan(self, plan: PhysicalPlan) -> None:
        """The job has another plan from now on."""
        self._plan = plan
        self._vertex_of = {
            plan.stable_ids[node.id]: vertex.id for vertex in plan.vertices for node in vertex.nodes
            if node.id in plan.stable_ids
        }  # fmt: skip

    def restored(self, manifest: Manifest, path: str) -> None:
        """An attempt starts from a checkpoint or savepoint."""
        with self._lock:
            self._restores += 1
            now = Millis(self._wall())
            self._restored = RestoredCheckpoint(manifest.checkpoint, manifest.kind.value, path, now)

    def timed(self, task: TaskId, checkpoint: int, times: Mapping[int, SubtaskCheckpoint]) -> None:
        """A task has reported its times; its acknowledgement follows."""
        with self._lock:
            if checkpoint in self._open:
                self._times[task, checkpoint] = times

    def observe(self, machine: CheckpointMachine, event: Event, commands: Iterable[Command]) -> None:
        """Follow the coordinator: an event, what it commands, and its machine after that."""
        if isinstance(event, Tick) and not commands:
            return
        with self._lock:
            self._observe(event, commands, machine.tasks, machine.pending.keys(), Millis(self._wall()))

    def _observe(
        self, event: Event, commands: Iterable[Command], tasks: Iterable[TaskKey], pending: Collection[int], wall: Millis
    ) -> None:  # fmt: skip
        match event:
            case Acknowledged(task=task, checkpoint=checkpoint, handles=handles) if checkpoint in self._open:
                found = self._open[checkpoint]
                found.subtasks += self._parts(found, task, handles, wall)
                found.missing.discard(task)
                found.latest_ack = wall
            case TaskFinished(task=task, handles=handles):
                for found in self._open.values():
                    if task in found.missing:
                        found.missing.discard(task)
                        found.subtasks += self._parts(found, task, handles, wall)
                self._final[task] = self._parts(None, task, handles, wall)
            case Stored(checkpoint=checkpoint) if checkpoint in self._open:
                self._end(checkpoint, "COMPLETED", wall)
            case AttemptFailed() | AttemptStarted():
                self._final.clear()
        reasons: dict[int, str] = {}
        for command in commands:
            match command:
                case TriggerSources(checkpoint=checkpoint, kind=kind, target=target):
                    names, missing = set(tasks), set(tasks) - self._final.keys()
                    path = target or f"{self._root}/chk-{checkpoint}"
                    begun = _Open(checkpoint, kind.value, wall, missing, len(names), path)
                    begun.subtasks += [part for parts in self._final.values() for part in parts]
                    self._open[checkpoint] = begun
                case NotifyAborted(checkpoint=checkpoint, reason=reason):
                    reasons[checkpoint] = reason
                case Prune(checkpoint=checkpoint):
                    self._discard(checkpoint)
        for gone in [number for number in self._open if number not in pending]:
            self._end(gone, "FAILED", wall, reasons.get(gone) or _reason(event))

    def _parts(self, found: _Open | None, task: TaskKey, handles: Any, wall: Millis) -> list[SubtaskCheckpointStats]:
        if isinstance(handles, StopHandles):
            handles = handles.checkpoint
        times = {} if found is None else self._times.pop((task, found.id), {})
        sizes: dict[tuple[int, int], int] = {}
        if isinstance(handles, Mapping):
            for (operator, subtask), handle in handles.items():
                place = self._vertex_of.get(operator, -1), subtask
                sizes[place] = sizes.get(place, 0) + (handle.size if isinstance(handle, SubtaskHandle) else 0)
        parts = []
        for (vertex, subtask), size in sizes.items():
            at = times.get(vertex)
            if at is None or found is None:
                parts.append(SubtaskCheckpointStats(vertex, subtask, wall, size))
                continue
            delay = max(0, at.begin - found.triggered)
            parts.append(
                SubtaskCheckpointStats(
                    vertex, subtask, wall, size, delay, at.alignment, at.sync, at.written, at.unaligned
                )
            )
        return parts

    def _end(self, checkpoint: int, status: str, wall: Millis, failure: str = "") -> None:
        found = self._open.pop(checkpoint, None)
        if found is None:
            return
        stats = found.stats(status, wall, failure, self._holding_up(found))
        self._counts[status] += 1
        self._latest[status if status == "FAILED" else found.kind] = stats
        self._ended.append(stats)
        del self._ended[: -self._kept]
        self._times = {key: times for key, times in self._times.items() if key[1] in self._open}

    def _holding_up(self, found: _Open) -> tuple[tuple[int, int], ...]:
        missing = {
            vertex.id: [place for place in range(vertex.parallelism) if TaskId(vertex.stage, place) in found.missing]
            for vertex in self._plan.vertices
        }
        waiting = {edge.target for edge in self._plan.edges if missing[edge.source] and not edge.feedback}
        return tuple((vertex, place) for vertex, places in missing.items() if vertex not in waiting for place in places)

    def folder_removed(self) -> None:
        """The folder of the job's checkpoints is removed, with all that are in it."""
        with self._lock:
            self._discard(None)

    def _discard(self, checkpoint: int | None) -> None:
        def changed(each: CheckpointStats) -> CheckpointStats:
            concerned = each.kind == "checkpoint" and checkpoint in (None, each.id)
            return replace(each, discarded=True) if concerned else each

        self._ended = [changed(each) for each in self._ended]
        self._latest = {name: changed(each) for name, each in self._latest.items()}

    # ---- what is seen of it

    def snapshot(self) -> CheckpointsSnapshot:
        """Return the history as it is."""
        with self._lock:
            return self._snapshot()

    def _snapshot(self) -> CheckpointsSnapshot:
        under_way = [found.stats("IN_PROGRESS", held_up_by=self._holding_up(found)) for found in self._open.values()]
        return CheckpointsSnapshot(
            self._counts["COMPLETED"],
            self._counts["FAILED"],
            len(under_way),
            self._restores,
            self._latest.get("checkpoint"),
            self._latest.get("savepoint"),
            self._latest.get("FAILED"),
            self._restored,
            tuple(reversed(self._ended + under_way)),
        )


def _reason(event: Event) -> str:
    """Return why an event ends a checkpoint of which no task is notified any more."""
    if isinstance(event, JobStopped):
        return f"the job has ended ({event.outcome.value})"
    return str(getattr(event, "reason", "")) or "aborted"
