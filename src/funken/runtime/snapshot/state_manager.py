"""A task's state in checkpoints: snapshotted at the barrier, written in the background, restored at the start.

``TaskStateManager`` belongs to the task and runs in its thread: ``snapshot`` fixes the state of every operator of a
subtask at the moment its barrier passed, and pickles what is small; the rest follows in steps (``materializer.py``).
The result is handed over as a ``TaskStateSnapshot``, and ``write_snapshot`` turns that into the handles of an
acknowledgement, in any thread, one after the other. What sinks prepared is part of every snapshot until a checkpoint
that has it is complete: a savepoint commits nothing, nor does a checkpoint that failed. The watermark is part of the
state: what was late before a failure is late after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from funken.checkpoint.restore import SubtaskRestore, origins, read_state
from funken.checkpoint.snapshot.incremental import IncrementalSnapshots, OperatorSnapshot
from funken.checkpoint.store.blobs import SECTIONS, SubtaskState, items_of
from funken.checkpoint.store.databases import load
from funken.errors import CheckpointCorrupted, CheckpointIncompatible, RestoreFailed
from funken.ids import MAX_WATERMARK, CheckpointId
from funken.io.shapes import is_changed
from funken.io.storage import open_storage
from funken.operators.base import Operator
from funken.runtime.chain.chain import OperatorChain
from funken.runtime.chain.finished_chain import FinishedOperatorChain
from funken.runtime.messages import Savepoint
from funken.runtime.settings import CheckpointPlan, OperatorSubtaskId
from funken.runtime.snapshot.channel_state import ChannelState
from funken.runtime.snapshot.materializer import Materializer
from funken.runtime.snapshot.task_state import TaskStateSnapshot
from funken.state.keyed import KeyedStateStore
from funken.state.rocksdb.backend import RocksDBBackend
from funken.state.snapshot_writer import CHUNK, Dumps, PendingSection, SnapshotWriter
from funken.timing.timers import InternalTimerService

_WATERMARK = "(watermark)"


class TaskStateManager:
    """Takes and restores the state of the operators of one task."""

    def __init__(
        self,
        plan: CheckpointPlan,
        stable_ids: Mapping[Any, str],
        subtask: int,
        materializer: Materializer | None = None,
    ) -> None:
        self._plan = plan
        self.materializer = materializer or Materializer(rows=plan.options.materialize_rows)
        self._ids = stable_ids
        self._subtask = subtask
        self._incremental: dict[OperatorSubtaskId, IncrementalSnapshots] = {}
        self._partial: dict[CheckpointId, dict[OperatorSubtaskId, tuple[IncrementalSnapshots, OperatorSnapshot]]] = {}
        self._prepared: dict[OperatorSubtaskId, list[tuple[CheckpointId, Any]]] = {}
        #: the final snapshot has an id of its own, greater than that of any snapshot before, also of attempts before
        self._newest = CheckpointId(plan.newest)
        self._channel_state: dict[OperatorSubtaskId, ChannelState] = {}
        self._ended: dict[CheckpointId, set[OperatorSubtaskId]] = {}
        #: restored state of operators of a ``FinishedOperatorChain``, which are not given it
        self._of_finished: dict[OperatorSubtaskId, Any] = {}

    # ---- at the start

    def restore(self, chain: OperatorChain) -> int | None:
        """Restore every operator of a chain; return the head's watermark, ``None`` if it starts without state."""
        watermark: int | None = None
        for node in chain.vertex.nodes:
            operator = chain.operators[node.id]
            place = (self._ids[node.id], self._subtask)
            incremental = self._incremental[place] = IncrementalSnapshots(node.name, self._subtask, self._plan.options)
            found = self._plan.restores.get(place)
            if found is None:
                continue
            try:
                self._restore_operator(chain, operator, place, incremental, found)
            except CheckpointIncompatible as error:
                raise CheckpointIncompatible(
                    f"operator {node.name!r} (subtask {self._subtask}) cannot be restored: {error}"
                ) from error
            except CheckpointCorrupted as error:
                raise RestoreFailed(
                    f"operator {node.name!r} (subtask {self._subtask}) cannot be restored: {error}"
                ) from error
            if operator is chain.head:
                watermark = operator.current_watermark
        return watermark

    def _restore_operator(
        self,
        chain: OperatorChain,
        operator: Operator,
        place: OperatorSubtaskId,
        incremental: IncrementalSnapshots,
        found: SubtaskRestore,
    ) -> None:
        """Restore an operator from the snapshot of either backend."""
        storage = open_storage(found.uri)
        backend = None if operator.context.keyed is None else operator.context.keyed.backend
        in_files = isinstance(backend, RocksDBBackend)
        if isinstance(backend, RocksDBBackend):
            load(backend, storage, found.keyed)
        for state in read_state(storage, found, databases=not in_files):
            if isinstance(chain, FinishedOperatorChain):
                self._of_finished[place] = _joined(self._of_finished.get(place), state.operator)
                state.operator = None
            _restore(operator, state)
            if state.inflight or state.inflight_keyed:
                self._channel_state.setdefault(place, ChannelState()).add(state)
        changed = [is_changed(shape) for _, shape in found.classes]
        if in_files or not any(changed):
            incremental.classes.update(dict.fromkeys(found.classes))
        # What a class that has changed was read from is not built on.
        if all(bool(source.files) == in_files for source in found.keyed) and (in_files or not any(changed)):
            files = found.keyed[0].files if found.exact and found.keyed else ()
            incremental.resume(origins(storage, found), found.exact, files)
        # Else the state was in another backend: the first snapshot is complete.

    def take_channel_state(self, chain: OperatorChain) -> dict[str, ChannelState]:
        """Return, once, the restored channel state of the operators of a chain, by stable id."""
        ids = [self._ids[node.id] for node in chain.vertex.nodes]
        return {
            name: self._channel_state.pop((name, self._subtask))
            for name in ids
            if (name, self._subtask) in self._channel_state
        }

    # ---- at a barrier

    def snapshot(
        self, chain: OperatorChain, checkpoint: CheckpointId, *, final: bool = False, ended: bool = False
    ) -> None:
        """Snapshot every operator of a chain; large state is only fixed, and pickled by the materializer."""
        self._newest = max(self._newest, checkpoint)
        snapshots = self._partial.setdefault(checkpoint, {})
        for node in chain.vertex.nodes:
            operator = chain.operators[node.id]
            place = (self._ids[node.id], self._subtask)
            incremental = self._incremental[place]
            prepared = self._prepared.setdefault(place, [])
            self.materializer.finish(place)
            runs = not isinstance(chain, FinishedOperatorChain)
            if runs:
                prepared += [(checkpoint, committable) for committable in operator.prepare_snapshot(checkpoint)]
            own = operator.snapshot if runs else partial(self._of_finished.get, place)
            chunk = self._plan.options.materialize_rows or CHUNK
            state = _state_of(operator, own, incremental.wants_complete, incremental.dumps, chunk)
            backend = None if operator.context.keyed is None else operator.context.keyed.backend
            if isinstance(backend, RocksDBBackend):
                incremental.classes.update(backend.classes)
            committables = [committable for _, committable in prepared]
            if ended:
                self._ended.setdefault(checkpoint, set()).add(place)
            snapshot = incremental.snapshot(state, checkpoint, committables, final)
            snapshots[place] = incremental, snapshot
            if snapshot.rest is not None:
                self.materializer.add(place, snapshot.rest)

    def add_channel_state(
        self, chain: OperatorChain, checkpoint: CheckpointId, found: Mapping[str, ChannelState]
    ) -> bool:
        """Add channel state to the snapshot of a chain; return whether the snapshot still exists."""
        snapshots = self._partial.get(checkpoint, {})
        if (self._ids[chain.vertex.nodes[0].id], self._subtask) not in snapshots:
            return False
        for name, in_flight in found.items():
            place = (name, self._subtask)
            incremental, snapshot = snapshots[place]
            items = items_of(in_flight.to_state(), incremental.dumps)
            snapshots[place] = incremental, replace(snapshot, items=snapshot.items + items)
        return True

    def take(
        self, checkpoint: CheckpointId, savepoint: Savepoint | None = None, *, final: bool = False
    ) -> TaskStateSnapshot:
        """Return the snapshot for a checkpoint; older ones that are incomplete are aborted with it."""
        for older in [number for number in self._partial if number < checkpoint]:
            self.abort(older)
        ended = frozenset(self._ended.pop(checkpoint, ()))
        return TaskStateSnapshot(checkpoint, self._partial.pop(checkpoint, {}), final, savepoint, ended)

    def notify_complete(self, checkpoint: CheckpointId) -> None:
        """A checkpoint is complete: what was prepared for it and for earlier ones is committed."""
        for place, prepared in self._prepared.items():
            self._prepared[place] = [entry for entry in prepared if entry[0] > checkpoint]

    def abort(self, checkpoint: CheckpointId) -> None:
        """Drop an aborted checkpoint; its changes are carried to the next."""
        for incremental, snapshot in self._partial.pop(checkpoint, {}).values():
            incremental.skip(snapshot)

    def rewrite(self) -> None:
        """Take complete snapshots from now on: files that these build on were removed."""
        for incremental in self._incremental.values():
            incremental.begin_anew()

    @property
    def last(self) -> CheckpointId:
        """An id greater than that of any checkpoint of this task."""
        return CheckpointId(self._newest + 1)


def _joined(left: Any, more: Any) -> Any:
    """Join an operator's snapshots as they are read, key group by key group."""
    return left if more is None else {**left, **more} if isinstance(left, dict) and isinstance(more, dict) else more


def _state_of(
    operator: Operator, own: Callable[[], Any], complete: bool, dumps: Dumps, chunk: int
) -> SubtaskState:  # fmt: skip
    """Return the state of an operator; if not ``complete``, only what changed since the last time where that is tracked."""
    context = operator.context
    for ask in context.before_snapshot:
        ask()
    files = None if context.keyed is None else context.keyed.snapshot_files()
    held: dict[str, PendingSection] = {}

    def part(section: str, of: KeyedStateStore | InternalTimerService | None) -> Any:
        if of is None:
            return None
        if not of.tracked:
            return of.snapshot() if complete else of.snapshot_changes()
        saving = SnapshotWriter(lambda value, state: dumps(value, section + state))
        held[section] = PendingSection(saving, of.begin_snapshot(saving, complete, chunk))
        return of.empty_snapshot(complete)

    return SubtaskState(
        keyed=part(SECTIONS[0], context.keyed) if files is None else files[0],
        timers=part(SECTIONS[1], context.timers),
        database=None if files is None else files[1],
        operator=own(),
        operator_state=replace(
            context.operator_state, union={**context.operator_state.union, _WATERMARK: [operator.current_watermark]}
        ),
        held=held,
    )


def _restore(operator: Operator, state: SubtaskState) -> None:
    context = operator.context
    context.restored = True
    if context.keyed is not None and state.keyed is not None:
        context.keyed.restore([state.keyed])
    if context.timers is not None and state.timers is not None:
        context.timers.restore([state.timers])
    if state.operator is not None:
        operator.restore(state.operator)
    watermarks = state.operator_state.union.pop(_WATERMARK, None)
    if watermarks and min(watermarks) < MAX_WATERMARK:  # a job that was drained has input again
        operator.current_watermark = min(watermarks)
        if context.timers is not None:
            context.timers.current_watermark = operator.current_watermark
    context.operator_state.update(state.operator_state)
