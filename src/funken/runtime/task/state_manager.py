"""A task's state in checkpoints: snapshotted at the barrier, written in the background, restored at the start.

``TaskStateManager`` belongs to the task and runs in its thread: ``snapshot`` fixes the state of every operator of a
subtask at the moment its barrier passed, and pickles what is small; the rest follows in steps (``Materializer``).
The result is handed over as a ``TaskStateSnapshot``, and ``write_snapshot`` turns that into the handles of an
acknowledgement, in any thread, one after the other. What sinks prepared is part of every snapshot until a checkpoint
that has it is complete: a savepoint commits nothing, nor does a checkpoint that failed. The watermark is part of the
state: what was late before a failure is late after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, NamedTuple

from funken.checkpoint.incremental import IncrementalSnapshots, Materialization, OperatorSnapshot
from funken.checkpoint.restore import RestoreTarget, SubtaskRestore, origins, read_state
from funken.checkpoint.store.blobs import SECTIONS, StopHandles, SubtaskHandle, SubtaskState, TaskHandles, items_of
from funken.checkpoint.store.databases import load
from funken.columnar.block import Block, RowBlock, TupleBlock
from funken.dataclass import dataclass
from funken.errors import CheckpointCorrupted, CheckpointIncompatible, JobExecutionError, RestoreFailed, StorageFailed
from funken.ids import MAX_WATERMARK, CheckpointId
from funken.io.shapes import is_changed
from funken.io.storage import Storage, open_storage
from funken.operators.base import Operator, Timestamps, Values
from funken.plan.nodes import Custom, Global, Hash, Partitioning, Rebalance, Shuffle
from funken.plan.physical import Edge, PhysicalPlan
from funken.runtime.chain.chain import FinishedOperatorChain, OperatorChain
from funken.runtime.exchange.gate import BlockHeader, BlockKind
from funken.runtime.messages import (
    CheckpointAcknowledged,
    CheckpointDeclined,
    Savepoint,
    SubtaskCheckpoint,
    TaskEnded,
    TaskEvent,
    TaskFailed,
    TaskId,
)
from funken.runtime.settings import CheckpointPlan, OperatorSubtaskId
from funken.state.delta_tables import CHUNK, Dumps, PendingSection, SnapshotWriter
from funken.state.keyed import KeyedStateStore
from funken.state.keygroups import KeyRouter
from funken.state.rocksdb.backend import RocksDBBackend
from funken.timing.clock import Clock
from funken.timing.timers import InternalTimerService
from funken.types.copying import copied_block

# ---- What a task has snapshotted for one checkpoint, and how it is written and acknowledged.


@dataclass(frozen=True)
class TaskStateSnapshot:
    """A task's snapshot for a checkpoint or savepoint; ``final``: it has ended, and this is its last one.

    ``finished`` are those whose subtask had ended before its barrier could arrive: they do not run again. ``times`` are those of
    the subtasks, by vertex, and ``taken`` is when (monotonic, s) the last of them was snapshotted.
    """

    checkpoint: CheckpointId
    snapshots: Mapping[OperatorSubtaskId, tuple[IncrementalSnapshots, OperatorSnapshot]]
    final: bool = False
    savepoint: Savepoint | None = None
    finished: frozenset[OperatorSubtaskId] = frozenset()
    times: Mapping[int, SubtaskCheckpoint] = field(default_factory=dict)
    taken: float = 0.0

    @property
    def open(self) -> frozenset[OperatorSubtaskId]:
        """The operators whose state is not materialized yet."""
        return frozenset(place for place, (_, snapshot) in self.snapshots.items() if not snapshot.materialized)


def write_snapshot(
    snapshots: TaskStateSnapshot, storage: Storage, storage_at: Callable[[str], Storage] = open_storage
) -> TaskHandles | StopHandles:
    """Write a snapshot; raises ``StorageFailed``, and then its changes are part of the next write."""

    def marked(handles: Iterable[tuple[OperatorSubtaskId, SubtaskHandle]]) -> TaskHandles:
        return {place: replace(handle, finished=place in snapshots.finished) for place, handle in handles}

    target = None if snapshots.savepoint is None else storage_at(snapshots.savepoint.target)
    if target is None or snapshots.savepoint is None or snapshots.savepoint.stop is None:
        return marked(
            (place, incremental.write(snapshot, storage, target))
            for place, (incremental, snapshot) in snapshots.snapshots.items()
        )
    both = [
        (place, *incremental.write_both(snapshot, storage, target))
        for place, (incremental, snapshot) in snapshots.snapshots.items()
    ]
    return StopHandles(marked((at, handle) for at, handle, _ in both), marked((at, handle) for at, _, handle in both))


def acknowledgement_of(
    task: TaskId, attempt: int, snapshot: TaskStateSnapshot, storage: Storage, clock: Clock | None = None
) -> TaskEvent:
    """Write a snapshot and return its acknowledgement; the coordinator counts attempts from 1."""
    attempt += 1
    try:
        handles = write_snapshot(snapshot, storage)
    except StorageFailed as error:
        if snapshot.final:
            return TaskFailed(task, error=JobExecutionError(f"the final state of {task} cannot be saved: {error}"))
        return CheckpointDeclined(task, attempt=attempt, checkpoint=snapshot.checkpoint, reason=str(error))
    if snapshot.final and not isinstance(handles, StopHandles):
        return TaskEnded(task, attempt=attempt, handles=handles)
    written = 0.0 if clock is None else (clock.monotonic() - snapshot.taken) * 1000
    times = {vertex: found._replace(written=written) for vertex, found in snapshot.times.items()}
    return CheckpointAcknowledged(
        task, attempt=attempt, checkpoint=snapshot.checkpoint, handles=handles, subtasks=times
    )


# ---- Materializes the snapshots of a task: pickles them in steps, in turn with the records.
#
# At the barrier, what belongs to a snapshot is only fixed. The task then calls ``step`` after every block, and
# whenever it would wait. A step takes about ``_STEP_SECONDS``; while there are records they get as much time as the
# steps, so that a snapshot is materialized in twice the time that it takes to pickle. An operator's next snapshot
# waits for the one before: if that is not complete by then, its rest is pickled at once.


_STEP_SECONDS = 0.005
_FIRST_ROWS = 500
_MOST_ROWS = 20_000


class Materializer:
    """The materializations under way, one per operator; ``rows``: per step, if given.

    ``materialized`` is called with the operator when a materialization that took more than one step is complete.
    """

    def __init__(
        self,
        clock: Callable[[], float] = lambda: 0.0,
        rows: int = 0,
        materialized: Callable[[OperatorSubtaskId], None] = lambda place: None,
    ) -> None:
        self._materialized = materialized
        self._clock = clock
        self._fixed = rows
        self._rows = rows or _FIRST_ROWS
        self.open: dict[OperatorSubtaskId, Materialization] = {}
        """The rest to materialize; read once per block."""
        self._not_before = 0.0
        #: whether records were processed since the last step
        self.worked = False

    def add(self, place: OperatorSubtaskId, snapshot: Materialization) -> None:
        """Add a materialization; a small one is completed at once."""
        snapshot.step(self._fixed or _FIRST_ROWS)
        if snapshot.open:
            self.open[place] = snapshot

    def step(self) -> None:
        """Pickle one step, unless it is the records' turn."""
        begin = self._clock()
        if not self.open or (self.worked and begin < self._not_before):
            return
        place, snapshot = next(iter(self.open.items()))
        snapshot.step(self._rows)
        end = self._clock()
        if not snapshot.open:
            del self.open[place]
            self._materialized(place)
        elif not self._fixed:
            share = _STEP_SECONDS / max(end - begin, 1e-6)
            self._rows = max(1, min(int(self._rows * min(share, 2)), _MOST_ROWS))
        self._not_before = end + (end - begin)
        self.worked = False

    def finish(self, place: OperatorSubtaskId | None = None) -> None:
        """Complete the materialization of one operator or of all."""
        for each in list(self.open) if place is None else [place] if place in self.open else []:
            self.open[each].finish()
            del self.open[each]
            self._materialized(each)

    def cancel(self) -> None:
        """Drop unmaterialized snapshots: the task has ended. References to files go with them."""
        self.open.clear()


# ---- Channel state: the records that an unaligned barrier has overtaken at a subtask, as part of its snapshot, and
# restored from it.
#
# An unaligned barrier does not wait for the records before it. What it overtakes is written to the snapshot, which
# is then the same as if it had waited: blocks that wait in the task or arrive on a channel before that channel's
# own barrier, and records in the edge writers, which the operators have emitted and which were not sent. Watermarks
# and idleness count as records here. What Spark holds between two tasks cannot be overtaken; it is received and
# written too.
#
# Not every edge takes unaligned barriers (``may_overtake``): where the target of a record depends on more than key
# or chance, barriers are aligned, as in Flink. Broadcast state must be the same in every subtask, pointwise edges
# keep an order that only their parallelism guarantees, and a user's partitioner cannot be called again with another
# number of targets.
#
# The same is done with what comes back to the head of a loop between its snapshot and the return of the barrier,
# with any barrier.
#
# A snapshot names an edge by the stable ids of its two operators. With other parallelisms than before, records of a
# keyed edge go to the subtask that owns their key now, the others to any; watermarks are left out, since the
# channels they were of no longer exist.


_DEALT = 100
"""Number of feedback records that are dealt out together to the subtasks of another parallelism."""

UNALIGNED = b"!"
"""The content of an unaligned barrier's block."""


def may_overtake(partitioning: Partitioning) -> bool:
    """Return True if a barrier may overtake the records of an edge.

    >>> may_overtake(Rebalance())
    True
    """
    return isinstance(partitioning, Hash | Rebalance | Shuffle | Global)


class EdgeName(NamedTuple):
    """An edge as a snapshot identifies it; ``again`` numbers edges that are alike."""

    source: str
    side: str | None
    target: str
    input: int
    again: int = 0


class BufferedBlock(NamedTuple):
    """An overtaken block, or a part of one, with its channel; ``number`` as in its header."""

    edge: EdgeName
    sources: int
    targets: int
    upstream: int
    kind: int
    number: int
    values: Values
    timestamps: Timestamps


class UnsentRecords(NamedTuple):
    """Records that an edge writer had not sent."""

    edge: EdgeName
    values: Values
    timestamps: Timestamps


@dataclass
class ChannelState:
    """The channel state of one operator subtask; ``keyed`` blocks belong to the subtasks that own their keys.

    ``dealt`` are parts of blocks that came back in a loop, which may go to any subtask.
    """

    received: list[BufferedBlock] = field(default_factory=list)
    keyed: list[BufferedBlock] = field(default_factory=list)
    sent: list[UnsentRecords] = field(default_factory=list)
    dealt: list[BufferedBlock] = field(default_factory=list)

    def to_state(self) -> SubtaskState:
        """Return it as plain data; the unkeyed part is one element, so that it all goes to the same subtask, in order.

        Of the part that is dealt out, each item is an element.
        """
        received, keyed, sent, dealt = (
            [(tuple(entry[0]), *entry[1:]) for entry in entries]
            for entries in (self.received, self.keyed, self.sent, self.dealt)
        )
        together = [(received, sent)] if received or sent else []
        return SubtaskState(inflight=together + [([part], []) for part in dealt], inflight_keyed=keyed)

    def add(self, state: SubtaskState) -> None:
        """Add restored channel state."""
        for received, sent in state.inflight:
            self.received += [BufferedBlock(EdgeName(*entry[0]), *entry[1:]) for entry in received]
            self.sent += [UnsentRecords(EdgeName(*entry[0]), *entry[1:]) for entry in sent]
        self.keyed += [BufferedBlock(EdgeName(*entry[0]), *entry[1:]) for entry in state.inflight_keyed]


def edge_names(plan: PhysicalPlan) -> dict[int, EdgeName]:
    """Name every edge of a plan."""
    names: dict[int, EdgeName] = {}
    seen: dict[EdgeName, int] = {}
    for edge in plan.edges:
        head = plan.vertices[edge.target].nodes[0].id
        name = EdgeName(plan.stable_ids[edge.source_node], edge.side, plan.stable_ids[head], edge.index)
        names[edge.id] = name._replace(again=seen.get(name, 0))
        seen[name] = seen.get(name, 0) + 1
    return names


class ChannelStateWriter:
    """The blocks that one barrier has overtaken at one subtask, as chosen by ``task/checkpoint_machine.py``."""

    def __init__(self) -> None:
        self.received: list[tuple[BlockHeader, Block]] = []
        self.sent: list[tuple[Edge, Block]] = []

    def add(self, head: BlockHeader, block: Block) -> None:
        """Add an overtaken block, in the order of arrival."""
        # Written down only later, when functions may have changed records in place; those of columns are made then.
        in_place = isinstance(block, RowBlock | TupleBlock)
        kept = RowBlock(copied_block(block.rows()[0]), block.timestamps) if in_place else block
        self.received.append((head, kept))

    def by_operator(self, edges: Sequence[Edge], names: Mapping[int, EdgeName]) -> dict[str, ChannelState]:
        """Return it all by the operator that it is restored with: receiver or sender."""
        found: dict[str, ChannelState] = {}
        for head, block in self.received:
            edge = edges[head.edge]
            piece = BufferedBlock(
                names[edge.id], edge.source_parallelism, edge.target_parallelism, head.upstream, head.kind, head.number,
                *block.rows(),
            )  # fmt: skip
            at = found.setdefault(names[edge.id].target, ChannelState())
            if isinstance(edge.partitioning, Hash) or (
                edge.feedback and isinstance(edge.partitioning, Custom | Global)
            ):
                at.keyed.append(piece)
            elif edge.feedback:
                at.dealt += _parts(piece)
            else:
                at.received.append(piece)
        for edge, block in self.sent:
            at = found.setdefault(names[edge.id].source, ChannelState())
            at.sent.append(UnsentRecords(names[edge.id], *block.rows()))
        return found


def _parts(piece: BufferedBlock) -> list[BufferedBlock]:
    values, stamps = piece.values, piece.timestamps
    return [
        piece._replace(values=values[at : at + _DEALT], timestamps=stamps and stamps[at : at + _DEALT])
        for at in range(0, len(values), _DEALT)
    ]


def reassigned(piece: BufferedBlock, edge: Edge, subtask: int) -> BufferedBlock | None:
    """Return the part of a block that a subtask receives after a restore, on an existing channel; ``None`` if there is none."""
    if (piece.sources, piece.targets) == (edge.source_parallelism, edge.target_parallelism):
        return piece
    if piece.kind != BlockKind.DATA:
        return None
    values, timestamps = piece.values, piece.timestamps
    owner = _owner(edge)
    if owner is not None:
        mine = [position for position, value in enumerate(values) if owner(value) == subtask]
        values, timestamps = [values[i] for i in mine], timestamps and [timestamps[i] for i in mine]
    upstream = subtask if edge.local else piece.upstream % edge.source_parallelism
    return piece._replace(upstream=upstream, values=values, timestamps=timestamps) if values else None


def _owner(edge: Edge) -> Callable[[Any], int] | None:
    """Return a function from a record of an edge to its subtask, if that follows from the record."""
    match edge.partitioning:
        case Hash(key=by):
            key, owners = (
                by.bind(),
                KeyRouter(edge.target_max_parallelism, edge.target_parallelism, lambda target: target),
            )
            return lambda value: owners[key(value)]
        case Custom(partitioner=chosen, key=by) if edge.feedback:
            choose, key, width = chosen.bind(), by.bind(), edge.target_parallelism
            return lambda value: choose(key(value), width)
        case Global() if edge.feedback:
            return lambda value: 0
    return None


def no_such_edge(name: EdgeName) -> CheckpointIncompatible:
    """Make the error for records whose edge no longer exists."""
    return CheckpointIncompatible(
        f"records were on their way from operator {name.source!r} to {name.target!r} when the checkpoint was made, and the "
        "program does not join the two any more. Start it as it was, and change it by way of a savepoint: nothing is in "
        "flight in one, but the records in a loop."
    )


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
        """A checkpoint is complete: the output prepared for it and for earlier ones is committed."""
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
    """Return the state of an operator; if not ``complete``, only the changes since the last time where tracked."""
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


# ---- What a plan looks like to a checkpoint: its operators, how wide they are, and which of them read from which.


def restore_targets(plan: PhysicalPlan) -> tuple[RestoreTarget, ...]:
    """Return the operators of a plan, in topological order."""
    return tuple(
        RestoreTarget(
            plan.stable_ids[node.id],
            node.name,
            vertex.parallelism,
            vertex.max_parallelism,
            node.uid is not None,
            tuple((plan.stable_ids[before], local) for before, local in plan.reads_from(vertex, node)),
            node.place,
        )
        for vertex in plan.vertices
        for node in vertex.nodes
    )
