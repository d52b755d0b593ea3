"""A task's part in checkpoints: state cut at the barrier, written in the background, and read back at the start.

``Snapshots`` belongs to the task and runs in its thread: ``cut`` pickles what every operator of a vertex holds at the
moment its barrier passed. What was cut is handed over as ``Cuts``, and ``write`` turns that into the handles of an
acknowledgement, in whatever thread the runner likes, one after the other. What sinks prepared is part of every cut until
a checkpoint that has it is complete: a savepoint commits nothing, nor does a checkpoint that failed. The watermark is part
of the state: what was late before a failure is late after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from funken.checkpoint.blobs import SubtaskState
from funken.checkpoint.databases import load
from funken.checkpoint.handles import StopHandles, TaskHandles
from funken.checkpoint.lineage import Cut, Lineage, SnapshotOptions
from funken.checkpoint.restore import SubtaskRestore, origins, read_state
from funken.checkpoint.storage import Storage, open_storage
from funken.errors import JobExecutionError, StorageFailed
from funken.ids import MAX_WATERMARK, CheckpointId
from funken.operators.base import Operator
from funken.runtime.chain import Chain
from funken.runtime.messages import Failed, Finished, NotSnapshotted, Report, Savepoint, Snapshotted, TaskId
from funken.state.rocksdb.backend import RocksDBBackend

Place = tuple[str, int]
"""A stable operator id and a subtask."""

_WATERMARK = "union/(watermark)"


@dataclass(frozen=True)
class CheckpointPlan:
    """What a task is told of checkpoints; ``folder`` is the job's, ``restores`` is what its subtasks start from."""

    folder: str
    options: SnapshotOptions = field(default_factory=SnapshotOptions)
    align: bool = True
    restores: Mapping[Place, SubtaskRestore] = field(default_factory=dict)


@dataclass(frozen=True)
class Cuts:
    """What a task has cut for a checkpoint or savepoint; ``final``: it has ended, and this is all it will ever say."""

    checkpoint: CheckpointId
    cuts: Mapping[Place, tuple[Lineage, Cut]]
    final: bool = False
    savepoint: Savepoint | None = None


class Snapshots:
    """The snapshots of one task."""

    def __init__(self, plan: CheckpointPlan, stable_ids: Mapping[Any, str], subtask: int) -> None:
        self._plan = plan
        self._ids = stable_ids
        self._subtask = subtask
        self._lineages: dict[Place, Lineage] = {}
        self._partial: dict[CheckpointId, dict[Place, tuple[Lineage, Cut]]] = {}
        self._prepared: dict[Place, list[tuple[CheckpointId, Any]]] = {}
        self._newest = CheckpointId(0)

    # ---- at the start

    def restore(self, chain: Chain) -> int | None:
        """Give every operator of a chain what it starts from; return the head's watermark, ``None`` if it is new."""
        watermark: int | None = None
        for node in chain.vertex.nodes:
            operator = chain.operators[node.id]
            place = (self._ids[node.id], self._subtask)
            lineage = self._lineages[place] = Lineage(node.name, self._subtask, self._plan.options)
            found = self._plan.restores.get(place)
            if found is None:
                continue
            _restore(operator, lineage, open_storage(found.uri), found)
            if operator is chain.head:
                watermark = operator.current_watermark
        return watermark

    # ---- at a barrier

    def cut(self, chain: Chain, checkpoint: CheckpointId, *, final: bool = False) -> None:
        """Cut the state of every operator of a chain."""
        self._newest = max(self._newest, checkpoint)
        cuts = self._partial.setdefault(checkpoint, {})
        for node in chain.vertex.nodes:
            operator = chain.operators[node.id]
            place = (self._ids[node.id], self._subtask)
            lineage = self._lineages[place]
            prepared = self._prepared.setdefault(place, [])
            prepared += [(checkpoint, committable) for committable in operator.prepare_commit()]
            committables = [committable for _, committable in prepared]
            state = _state_of(operator, complete=lineage.wants_complete)
            cuts[place] = lineage, lineage.cut(state, checkpoint, committables, final)

    def take(self, checkpoint: CheckpointId, savepoint: Savepoint | None = None, *, final: bool = False) -> Cuts:
        """Return what was cut for a checkpoint; older ones that are not whole are given up with it."""
        for older in [number for number in self._partial if number < checkpoint]:
            self.give_up(older)
        return Cuts(checkpoint, self._partial.pop(checkpoint, {}), final, savepoint)

    def complete(self, checkpoint: CheckpointId) -> None:
        """What was prepared for a checkpoint and those before it is committed."""
        for place, prepared in self._prepared.items():
            self._prepared[place] = [entry for entry in prepared if entry[0] > checkpoint]

    def give_up(self, checkpoint: CheckpointId) -> None:
        """Forget a checkpoint that is not to be completed; what changed is carried to the next."""
        for lineage, cut in self._partial.pop(checkpoint, {}).values():
            lineage.skip(cut)

    @property
    def last(self) -> CheckpointId:
        """An id greater than that of any checkpoint this task has taken part in."""
        return CheckpointId(self._newest + 1)


def write(
    cuts: Cuts, storage: Storage, storage_at: Callable[[str], Storage] = open_storage
) -> TaskHandles | StopHandles:
    """Write cuts; raises ``StorageFailed``, and then they are part of the next write."""
    if cuts.savepoint is None:
        return {place: lineage.write(cut, storage) for place, (lineage, cut) in cuts.cuts.items()}
    target = storage_at(cuts.savepoint.target)
    if cuts.savepoint.stop is None:
        return {place: lineage.write(cut, storage, target) for place, (lineage, cut) in cuts.cuts.items()}
    both = {place: lineage.write_both(cut, storage, target) for place, (lineage, cut) in cuts.cuts.items()}
    return StopHandles(
        {place: checkpoint for place, (checkpoint, _) in both.items()},
        {place: savepoint for place, (_, savepoint) in both.items()},
    )


def report_of(task: TaskId, attempt: int, cuts: Cuts, storage: Storage) -> Report:
    """Write cuts and return what the task reports of it; the coordinator counts attempts from 1."""
    attempt += 1
    try:
        handles = write(cuts, storage)
    except StorageFailed as error:
        if cuts.final:
            return Failed(task, error=JobExecutionError(f"the final state of {task} cannot be saved: {error}"))
        return NotSnapshotted(task, attempt=attempt, checkpoint=cuts.checkpoint, reason=str(error))
    if cuts.final and not isinstance(handles, StopHandles):
        return Finished(task, attempt=attempt, handles=handles)
    return Snapshotted(task, attempt=attempt, checkpoint=cuts.checkpoint, handles=handles)


def _restore(operator: Operator, lineage: Lineage, storage: Storage, found: SubtaskRestore) -> None:
    """Give an operator what it starts from, from whichever backend it is."""
    backend = None if operator.context.keyed is None else operator.context.keyed.backend
    in_files = isinstance(backend, RocksDBBackend)
    if isinstance(backend, RocksDBBackend):
        load(backend, storage, found.keyed)
    for state in read_state(storage, found, databases=not in_files):
        _give(operator, state)
    if all(bool(source.files) == in_files for source in found.keyed):
        lineage.resume(
            origins(storage, found), found.exact, found.keyed[0].files if found.exact and found.keyed else ()
        )
    # Else the state was in another backend: the first snapshot is complete.


def _state_of(operator: Operator, complete: bool) -> SubtaskState:
    """Return what an operator holds; if not ``complete``, only what changed since the last time where that is known."""
    context = operator.context
    for ask in context.before_snapshot:
        ask()
    files = None if context.keyed is None else context.keyed.snapshot_files()
    keyed, timers = (
        None if part is None else part.snapshot() if complete else part.snapshot_changes()
        for part in (context.keyed if files is None else None, context.timers)
    )
    return SubtaskState(
        keyed=keyed if files is None else files[0],
        timers=timers,
        database=None if files is None else files[1],
        operator=operator.snapshot(),
        operator_state={**context.operator_state, _WATERMARK: [operator.current_watermark]},
    )


def _give(operator: Operator, state: SubtaskState) -> None:
    context = operator.context
    context.restored = True
    if context.keyed is not None and state.keyed is not None:
        context.keyed.restore([state.keyed])
    if context.timers is not None and state.timers is not None:
        context.timers.restore([state.timers])
    if state.operator is not None:
        operator.restore(state.operator)
    watermarks = state.operator_state.pop(_WATERMARK, None)
    if watermarks and min(watermarks) < MAX_WATERMARK:  # a job that was drained has input again
        operator.current_watermark = min(watermarks)
        if context.timers is not None:
            context.timers.current_watermark = operator.current_watermark
    context.operator_state.update(state.operator_state)
