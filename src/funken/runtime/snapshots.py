"""A task's part in checkpoints: state cut at the barrier, written in the background, and read back at the start.

``Snapshots`` belongs to the task and runs in its thread: ``cut`` fixes what every operator of a vertex holds at the
moment its barrier passed, and pickles what is little; the rest follows in slices (``slicing.py``). What was cut is handed over
as ``Cuts``, and ``write`` turns that into the handles of an acknowledgement, in whatever thread the runner likes, one after
the other. What sinks prepared is part of every cut until
a checkpoint that has it is complete: a savepoint commits nothing, nor does a checkpoint that failed. The watermark is part
of the state: what was late before a failure is late after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from funken.checkpoint.blobs import SECTIONS, SubtaskState, items_of, pickler
from funken.checkpoint.databases import load
from funken.checkpoint.handles import StopHandles, SubtaskHandle, TaskHandles
from funken.checkpoint.lineage import Cut, Lineage, SnapshotOptions
from funken.checkpoint.restore import SubtaskRestore, origins, read_state
from funken.checkpoint.storage import Storage, open_storage
from funken.errors import CheckpointCorrupted, JobExecutionError, RestoreFailed, StorageFailed
from funken.ids import MAX_WATERMARK, CheckpointId
from funken.operators.base import Operator
from funken.runtime.chain import Chain
from funken.runtime.ended import EndedChain
from funken.runtime.inflight import InFlight
from funken.runtime.messages import Failed, Finished, NotSnapshotted, Report, Savepoint, Snapshotted, TaskId
from funken.runtime.slicing import Slicing
from funken.state.keyed import KeyedStateStore
from funken.state.rocksdb.backend import RocksDBBackend
from funken.state.saving import CHUNK, Dumps, Held, Saving
from funken.timing.timers import InternalTimerService

Place = tuple[str, int]
"""A stable operator id and a subtask."""

_WATERMARK = "union/(watermark)"


@dataclass(frozen=True)
class CheckpointPlan:
    """What a task is told of checkpoints; ``folder`` is the job's, ``restores`` is what its subtasks start from."""

    folder: str
    options: SnapshotOptions = field(default_factory=SnapshotOptions)
    align: bool = True
    overtake_after: int | None = None
    """After how many ms of alignment barriers overtake records (0: at once), ``None``: never."""
    restores: Mapping[Place, SubtaskRestore] = field(default_factory=dict)


@dataclass(frozen=True)
class Cuts:
    """What a task has cut for a checkpoint or savepoint; ``final``: it has ended, and this is all it will ever say.

    ``ended`` are those whose vertex had ended before its barrier could come: they are not to run again.
    """

    checkpoint: CheckpointId
    cuts: Mapping[Place, tuple[Lineage, Cut]]
    final: bool = False
    savepoint: Savepoint | None = None
    ended: frozenset[Place] = frozenset()

    @property
    def whole(self) -> bool:
        """Whether nothing of it is left to pickle."""
        return all(cut.whole for _, cut in self.cuts.values())


class Snapshots:
    """The snapshots of one task."""

    def __init__(
        self, plan: CheckpointPlan, stable_ids: Mapping[Any, str], subtask: int, slicing: Slicing | None = None
    ) -> None:
        self._plan = plan
        self.slicing = slicing or Slicing(rows=plan.options.slice_rows)
        self._ids = stable_ids
        self._subtask = subtask
        self._lineages: dict[Place, Lineage] = {}
        self._partial: dict[CheckpointId, dict[Place, tuple[Lineage, Cut]]] = {}
        self._prepared: dict[Place, list[tuple[CheckpointId, Any]]] = {}
        self._newest = CheckpointId(0)
        self._in_flight: dict[Place, InFlight] = {}
        self._ended: dict[CheckpointId, set[Place]] = {}
        #: what the operators of an ``EndedChain`` hold that never see it
        self._left: dict[Place, Any] = {}

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
            try:
                self._give_all(chain, operator, place, lineage, found)
            except CheckpointCorrupted as error:
                raise RestoreFailed(
                    f"operator {node.name!r} (subtask {self._subtask}) cannot be restored: {error}"
                ) from error
            if operator is chain.head:
                watermark = operator.current_watermark
        return watermark

    def _give_all(
        self, chain: Chain, operator: Operator, place: Place, lineage: Lineage, found: SubtaskRestore
    ) -> None:
        """Give an operator what it starts from, from whichever backend it is."""
        storage = open_storage(found.uri)
        backend = None if operator.context.keyed is None else operator.context.keyed.backend
        in_files = isinstance(backend, RocksDBBackend)
        if isinstance(backend, RocksDBBackend):
            load(backend, storage, found.keyed)
        for state in read_state(storage, found, databases=not in_files):
            if isinstance(chain, EndedChain):
                self._left[place] = _joined(self._left.get(place), state.operator)
                state.operator = None
            _give(operator, state)
            if state.inflight or state.inflight_keyed:
                self._in_flight.setdefault(place, InFlight()).add(state)
        if all(bool(source.files) == in_files for source in found.keyed):
            files = found.keyed[0].files if found.exact and found.keyed else ()
            lineage.resume(origins(storage, found), found.exact, files)
        # Else the state was in another backend: the first snapshot is complete.

    def in_flight(self, chain: Chain) -> dict[str, InFlight]:
        """Return, once, what was in flight at the operators of a chain, by stable id."""
        ids = [self._ids[node.id] for node in chain.vertex.nodes]
        return {
            name: self._in_flight.pop((name, self._subtask)) for name in ids if (name, self._subtask) in self._in_flight
        }

    # ---- at a barrier

    def cut(self, chain: Chain, checkpoint: CheckpointId, *, final: bool = False, ended: bool = False) -> None:
        """Cut the state of every operator of a chain; what is big is only fixed, and pickled by ``slicing``."""
        self._newest = max(self._newest, checkpoint)
        cuts = self._partial.setdefault(checkpoint, {})
        for node in chain.vertex.nodes:
            operator = chain.operators[node.id]
            place = (self._ids[node.id], self._subtask)
            lineage = self._lineages[place]
            prepared = self._prepared.setdefault(place, [])
            self.slicing.finish(place)
            runs = not isinstance(chain, EndedChain)
            if runs:
                prepared += [(checkpoint, committable) for committable in operator.prepare_commit()]
            own = operator.snapshot if runs else partial(self._left.get, place)
            chunk = self._plan.options.slice_rows or CHUNK
            dumps = pickler(lineage.operator, lineage.subtask)
            state = _state_of(operator, own, lineage.wants_complete, dumps, chunk)
            committables = [committable for _, committable in prepared]
            if ended:
                self._ended.setdefault(checkpoint, set()).add(place)
            cut = lineage.cut(state, checkpoint, committables, final)
            cuts[place] = lineage, cut
            if cut.rest is not None:
                self.slicing.add(place, cut.rest)

    def add_in_flight(self, chain: Chain, checkpoint: CheckpointId, found: Mapping[str, InFlight]) -> bool:
        """Add what the barrier has overtaken to the cut of a chain; return whether there still is one."""
        cuts = self._partial.get(checkpoint, {})
        if (self._ids[chain.vertex.nodes[0].id], self._subtask) not in cuts:
            return False
        for name, in_flight in found.items():
            place = (name, self._subtask)
            lineage, cut = cuts[place]
            items = items_of(in_flight.to_state(), pickler(lineage.operator, lineage.subtask))
            cuts[place] = lineage, replace(cut, items=cut.items + items)
        return True

    def take(self, checkpoint: CheckpointId, savepoint: Savepoint | None = None, *, final: bool = False) -> Cuts:
        """Return what was cut for a checkpoint; older ones that are not whole are given up with it."""
        for older in [number for number in self._partial if number < checkpoint]:
            self.give_up(older)
        ended = frozenset(self._ended.pop(checkpoint, ()))
        return Cuts(checkpoint, self._partial.pop(checkpoint, {}), final, savepoint, ended)

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

    def marked(handles: Iterable[tuple[Place, SubtaskHandle]]) -> TaskHandles:
        return {place: replace(handle, finished=place in cuts.ended) for place, handle in handles}

    target = None if cuts.savepoint is None else storage_at(cuts.savepoint.target)
    if target is None or cuts.savepoint is None or cuts.savepoint.stop is None:
        return marked((place, lineage.write(cut, storage, target)) for place, (lineage, cut) in cuts.cuts.items())
    both = [(place, *lineage.write_both(cut, storage, target)) for place, (lineage, cut) in cuts.cuts.items()]
    return StopHandles(marked((at, handle) for at, handle, _ in both), marked((at, handle) for at, _, handle in both))


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


def _joined(left: Any, more: Any) -> Any:
    """Join an operator's snapshots as they are read, key group by key group."""
    return left if more is None else {**left, **more} if isinstance(left, dict) and isinstance(more, dict) else more


def _state_of(
    operator: Operator, own: Callable[[], Any], complete: bool, dumps: Dumps, chunk: int
) -> SubtaskState:  # fmt: skip
    """Return what an operator holds; if not ``complete``, only what changed since the last time where that is known."""
    context = operator.context
    for ask in context.before_snapshot:
        ask()
    files = None if context.keyed is None else context.keyed.snapshot_files()
    held: dict[str, Held] = {}

    def part(section: str, of: KeyedStateStore | InternalTimerService | None) -> dict[str, Any] | None:
        if of is None:
            return None
        if not of.tracked:
            return of.snapshot() if complete else of.snapshot_changes()
        saving = Saving(lambda value, state: dumps(value, section + state))
        held[section] = Held(saving, of.hold(saving, complete, chunk))
        return of.header() | {"groups": {}} | ({} if complete else {"deleted": {}})

    return SubtaskState(
        keyed=part(SECTIONS[0], context.keyed) if files is None else files[0],
        timers=part(SECTIONS[1], context.timers),
        database=None if files is None else files[1],
        operator=own(),
        operator_state={**context.operator_state, _WATERMARK: [operator.current_watermark]},
        held=held,
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
