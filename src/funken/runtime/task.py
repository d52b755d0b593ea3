"""The task loop without I/O: blocks, ticks and orders in, blocks and reports out.

A task hosts one subtask of every vertex of its level. A runner owns it: it calls ``receive`` for each block that
arrived, ``step`` while there is ``work``, ``poll`` where there are sources, ``advance`` when time has passed, ``flush``
when records have waited long enough; and carries ``outbox`` (target task of the next level, bytes) away after each.
Nothing here blocks, reads a socket or starts a thread, so the same task runs in Spark and under simulated time.

Long blocks of slow records are cut into pieces (``_piece``), so that no call takes much longer than 20 ms because of
the number of records: orders, ticks and flushes get their turn.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from funken.checkpoint.events import Stop
from funken.connectors.rows import RowsReader
from funken.ids import MAX_WATERMARK, CheckpointId
from funken.metrics.latency import bucket_of
from funken.metrics.registry import MetricGroup
from funken.operators.base import Timestamps, Values
from funken.operators.context import OperatorContext
from funken.operators.source import SourceOperator
from funken.plan.nodes import Node
from funken.plan.physical import PhysicalPlan, Vertex
from funken.runtime.backends import TaskBackends
from funken.runtime.blame import Guard, blame
from funken.runtime.ended import EndedChain
from funken.runtime.hosting import Hosted, Hosting, give_back
from funken.runtime.inflight import OVERTAKES, Channel, Recorder
from funken.runtime.messages import (
    AddSplits,
    Align,
    Begin,
    CheckpointAborted,
    CheckpointComplete,
    Collected,
    Finished,
    Measured,
    Order,
    Prepared,
    Printed,
    Queued,
    Reached,
    Report,
    Savepoint,
    SplitsFound,
    SplitsWanted,
    TaskId,
    Throttle,
    TriggerCheckpoint,
)
from funken.runtime.outputs import Born
from funken.runtime.queueing import Queueing
from funken.runtime.settings import TaskSettings
from funken.runtime.slicing import Slicing
from funken.runtime.snapshots import Cuts, Snapshots
from funken.runtime.wire import Header, Kind, content, decode_records, encode_collected, header
from funken.state.keyed import KeyedStateStore
from funken.state.keygroups import key_groups_of
from funken.timing.clock import Clock
from funken.timing.timers import InternalTimerService

_PIECE_SECONDS = 0.02
_BEGIN_MILLIS = 100


class Task:
    """Task ``index`` of a level; operators call ``wake`` from other threads when ``advance`` has something to do."""

    def __init__(
        self, plan: PhysicalPlan, task: TaskId, settings: TaskSettings, clock: Clock, report: Callable[[Report], None],
        wake: Callable[[], None] | None = None, deliver: Callable[[Cuts], None] | None = None,
    ) -> None:  # fmt: skip
        self.id = task
        self.outbox: list[tuple[int, bytes]] = []
        self.closed = False
        self._plan = plan
        self._settings = settings
        self._clock = clock
        self._report = report
        self._wake = wake
        self._now = clock.now()
        self._born = Born()
        self._queueing = Queueing(settings.queueing_target / 1000)
        self._edges = plan.edges
        self._work: deque[tuple[Hosted, Header, Values, Timestamps]] = deque()
        self._piece = settings.block_records
        self._relayed_ends = 0
        self._told_finished = False
        self._may_read = not settings.together
        self._metrics_of: dict[int, MetricGroup] = {}
        self._backends = TaskBackends(settings.state, task.subtask)
        hosting = Hosting(plan, task, settings, self.outbox, self._born)
        self.hosted = hosting.build(self._context)
        self._sources = [hosted for hosted in self.hosted.values() if hosted.source is not None]
        self._live_sources = list(self._sources)
        self._relays_expected = hosting.relays()
        self._slicing = Slicing()
        self._snapshots: Snapshots | None = None
        if settings.checkpoints is not None:
            self._slicing = Slicing(deliver, clock.monotonic, settings.checkpoints.options.slice_rows)
            self._snapshots = Snapshots(settings.checkpoints, plan.stable_ids, task.subtask, self._slicing)
            for hosted in self.hosted.values():
                hosted.chain.snapshot = partial(self._cut, hosted)
        self._cut_by: dict[int, set[int]] = {}
        self._overtake_after = None if settings.checkpoints is None else settings.checkpoints.overtake_after
        self._names = hosting.names
        #: vertices where something is written down that a barrier overtakes
        self._recording: list[Hosted] = []
        if self._overtake_after is not None:
            for hosted in self.hosted.values():
                if hosted.gate is not None:
                    hosted.gate.let_overtake(
                        hosting.firm(hosted.vertex), partial(self._overtake, hosted), lambda: self._now,
                        self._overtake_after,
                    )  # fmt: skip
        self._flushing = hosting.flushing
        self._savepoints = hosting.savepoints
        #: vertices that do nothing any more, since they were cut for the savepoint that the job is stopped with
        self._still: dict[int, int] = {}

    def _context(self, vertex: Vertex, node: Node) -> OperatorContext:
        subtask, width, limit = self.id.subtask, vertex.parallelism, vertex.max_parallelism
        operator = node.id
        self._metrics_of[operator] = metrics = MetricGroup()
        context = OperatorContext(
            operator=node.name,
            subtask=subtask,
            parallelism=width,
            max_parallelism=limit,
            processing_time=lambda: self._now,
            attempt=self._settings.attempt,
            batch=self._settings.batch,
            pausing=self._settings.pausing,
            auto_watermark_interval=self._settings.auto_watermark_interval,
            job_parameters=self._settings.job_parameters,
            checkpointing=self._settings.checkpoints is not None,
            metrics=metrics,
            report=lambda kind, payload: self._operator_report(operator, kind, payload),
            wake=self._wake,
        )
        if node.keyed:
            groups = key_groups_of(subtask, limit, width)
            context.keyed = KeyedStateStore(limit, groups, lambda: self._now, self._backends.make(context, groups))
            context.timers = InternalTimerService(lambda: self._now, limit, groups, context.checkpointing)
        return context

    # ---- life

    def open(self) -> None:
        """Open every operator, downstream ones first."""
        with self._guard():
            for hosted in self.hosted.values():
                if self._snapshots is not None:
                    watermark = self._snapshots.restore(hosted.chain)
                    if watermark is not None and hosted.gate is not None:
                        hosted.gate.combined = watermark
            for hosted in reversed(list(self.hosted.values())):
                hosted.chain.open()
            if self._snapshots is not None:
                for hosted in self.hosted.values():
                    give_back(hosted, self._plan, self._names, self._snapshots.in_flight(hosted.chain), self._take)

    @property
    def finished(self) -> bool:
        """Whether every vertex and every relayed channel has ended."""
        return (
            not self._work
            and not self._live_sources
            and self._relayed_ends >= self._relays_expected
            and all(hosted.gate is None or hosted.gate.finished for hosted in self.hosted.values())
        )

    @property
    def has_sources(self) -> bool:
        """Whether ``poll`` may give something."""
        return bool(self._live_sources)

    @property
    def work(self) -> bool:
        """Whether ``step`` has something to do."""
        return bool(self._work)

    @property
    def backlog(self) -> int:
        """How many pieces of blocks wait for ``step``."""
        return len(self._work)

    @property
    def looks_ahead(self) -> bool:
        """Whether blocks are to be received although others wait: a barrier among them overtakes these."""
        return self._overtake_after is not None

    @property
    def awaits_barriers(self) -> bool:
        """Whether some barriers of an unaligned checkpoint have come, and others have not."""
        return bool(self._recording) or (
            self.looks_ahead
            and any(hosted.gate is not None and hosted.gate.aligning for hosted in self.hosted.values())
        )

    def close(self) -> None:
        """Close every operator; errors of user code surface here only if nothing failed before."""
        if self.closed:
            return
        self.closed = True
        raised = [error for hosted in self.hosted.values() for error in hosted.chain.close()]
        self._backends.close()
        if raised and self.finished:
            raise blame(raised[0], self.id.subtask) from raised[0]

    # ---- events

    def receive(self, data: bytes) -> None:
        """A block came from the level below: keep it for ``step``, or relay it."""
        head = header(data)
        edge = self._edges[head.edge]
        if edge.target_level != self.id.level:
            hop = self._plan.widths[self.id.level + 1]
            self.outbox.append((head.target if edge.target_level == self.id.level + 1 else head.target % hop, data))
            if head.kind == Kind.END:
                self._relayed_ends += 1
                self._check_finished()
            return
        hosted = self.hosted[edge.target]
        if head.kind == Kind.BARRIER:
            self._receive_barrier(hosted, head, content(data))
            return
        if head.kind != Kind.DATA:
            self._take(hosted, head, [], None)
            return
        values, timestamps = decode_records(data)
        size = self._piece * hosted.factor
        if len(values) <= size:
            self._take(hosted, head, values, timestamps)
            return
        for start in range(0, len(values), size):
            stamps = None if timestamps is None else timestamps[start : start + size]
            self._take(hosted, head, values[start : start + size], stamps)

    def _take(self, hosted: Hosted, head: Header, values: Values, timestamps: Timestamps) -> None:
        self._work.append((hosted, head, values, timestamps))
        if self._recording and hosted.recorder is not None:
            hosted.recorder.take(head, values, timestamps)
            self._hand_in()

    def _receive_barrier(self, hosted: Hosted, head: Header, details: bytes) -> None:
        overtakes = details == OVERTAKES
        if details and not overtakes:
            self._savepoints[head.number] = pickle.loads(details)
        self._take(hosted, head, [], None)
        if self._overtake_after is not None and head.number not in self._savepoints:
            assert hosted.gate is not None
            with self._guard():
                hosted.gate.announce((head.edge, head.upstream), head.number, overtakes)
            self._hand_in()

    def step(self) -> None:
        """Handle one piece of what was received."""
        hosted, head, values, timestamps = self._work.popleft()
        assert hosted.gate is not None
        gate, channel = hosted.gate, (head.edge, head.upstream)
        with self._guard():
            match head.kind:
                case Kind.DATA:
                    self._born.at = head.born
                    begin = self._clock.monotonic()
                    gate.data(channel, values, timestamps)
                    self._measure(hosted, len(values), begin)
                case Kind.WATERMARK:
                    gate.watermark(channel, head.number)
                case Kind.IDLE:
                    gate.idle(channel, bool(head.number))
                case Kind.BARRIER:
                    gate.barrier(channel, head.number)
                    self._hand_in()
                case Kind.END:
                    gate.end(channel, bool(head.number))
            self._slice(worked=True)
        self._check_finished()

    def _measure(self, hosted: Hosted, records: int, begin: float) -> None:
        seconds = self._clock.monotonic() - begin
        metrics = hosted.metrics
        metrics.records_in += records
        metrics.busy += seconds
        if self._born.at:
            age = self._clock.wall() - self._born.at
            latency = bucket_of(int(age * 1e6))
            metrics.latency[latency] = metrics.latency.get(latency, 0) + 1
            self._queueing.saw(self._born.at, age)
        records //= hosted.factor
        if seconds > _PIECE_SECONDS and records > 1:
            self._piece = max(1, int(records * _PIECE_SECONDS / seconds))
        elif records >= self._piece < self._settings.block_records and seconds < _PIECE_SECONDS / 4:
            self._piece = min(self._settings.block_records, self._piece * 2)

    def poll(self) -> int | None:
        """Let every source read once; return ms to wait (0: go on at once), ``None`` if no source is left."""
        if self._still or not self._may_read:
            return _BEGIN_MILLIS
        pause = self._queueing.pause(self._clock.wall())
        if pause:
            return pause
        wait: int | None = None
        for hosted in list(self._live_sources):
            assert hosted.source is not None
            begin = self._clock.monotonic()
            self._born.at = self._clock.wall()
            with self._guard():
                had_ended = isinstance(hosted.chain, EndedChain)
                found = None if had_ended else hosted.source.poll(self._piece * hosted.factor, self._now)
                if found == 0:
                    self._measure_source(hosted, begin)
                if found is None:
                    self._live_sources.remove(hosted)
                    if hosted.source.pauses:
                        hosted.chain.pause()
                    else:
                        hosted.chain.watermark(MAX_WATERMARK)
                        hosted.chain.finish()
                    found = 0
            wait = found if wait is None else min(wait, found)
        self._queueing.saturated = wait == 0
        if self._slicing.open:
            with self._guard():
                self._slice(worked=wait == 0)
        self._check_finished()
        return wait

    def feed(self, columns: list[list[Any]] | None, done: Callable[[], None]) -> None:
        """Spark brought rows for the source that reads a DataFrame; ``None``: there are no more."""
        for hosted in self._live_sources:
            reader = hosted.source and hosted.source.reader
            if isinstance(reader, RowsReader):
                if columns is None:
                    reader.end()
                else:
                    reader.feed(columns, done)
                return
        done()

    def queued(self) -> Queued | None:
        """Return what the sources should know about how long records queue; ``None``: all is well."""
        late = self._queueing.take()
        return None if late is None else Queued(self.id, born=late[0], excess=late[1])

    def _measure_source(self, hosted: Hosted, begin: float) -> None:
        seconds = self._clock.monotonic() - begin
        hosted.metrics.busy += seconds
        if seconds > _PIECE_SECONDS:
            self._piece = max(1, int(self._piece * _PIECE_SECONDS / seconds))
        elif self._piece < self._settings.block_records and seconds < _PIECE_SECONDS / 4:
            self._piece = min(self._settings.block_records, self._piece * 2)

    def advance(self) -> int | None:
        """Read the clock and tick whoever is due; return when the next tick is (ms), ``None``: never."""
        self._now = now = self._clock.now()
        due: int | None = None
        with self._guard():
            self._backends.watch(now)
            for hosted in self.hosted.values():
                if hosted.vertex.id in self._still:
                    continue
                at = hosted.chain.next_tick()
                if at is not None and at <= now:
                    if not self._over(hosted):
                        hosted.chain.tick(now)
                    at = hosted.chain.next_tick()
                if at is not None and not self._over(hosted):
                    due = at if due is None else min(due, at)
                if hosted.gate is not None and self._overtake_after:
                    at = hosted.gate.advance(now)
                    due = due if at is None else at if due is None else min(due, at)
            self._hand_in()
            self._slice(worked=False)
            at = self._flushing.advance(now)
        if self._slicing.open:
            return now
        return at if due is None else due if at is None else min(due, at)

    def _over(self, hosted: Hosted) -> bool:
        return hosted not in self._live_sources if hosted.source is not None else bool(
            hosted.gate and hosted.gate.finished
        )  # fmt: skip

    def flush(self) -> None:
        """Send every record that waits for its block to fill, but for those whose operator has a timeout of its own."""
        with self._guard():
            for hosted in self.hosted.values():
                hosted.chain.flush()

    def pressed(self) -> bool:
        """Whether some of what was sent since the last call must not wait in any buffer on its way."""
        return self._flushing.pressed()

    def order(self, order: Order) -> None:
        """Do what the driver said."""
        match order:
            case AddSplits(operator, _, splits, no_more):
                source = self._source(operator)
                if source is not None:
                    with self._guard():
                        source.add_splits(splits, no_more)
            case TriggerCheckpoint(checkpoint, savepoint):
                self._trigger(checkpoint, savepoint)
            case CheckpointComplete(checkpoint):
                if self._snapshots is not None:
                    self._snapshots.complete(CheckpointId(checkpoint))
            case CheckpointAborted(checkpoint):
                self._give_up(checkpoint)
            case Begin():
                self._may_read = True
            case Align(operator, allowed):
                source = self._source(operator)
                if source is not None:
                    source.align(allowed)
            case Throttle(born, excess):
                self._queueing.throttle(born, excess, self._clock.wall())
            case SplitsFound(operator):
                source = self._source(operator)
                if source is not None:
                    source.more_splits_came()

    def _source(self, operator: int) -> SourceOperator | None:
        for hosted in self._live_sources:
            if hosted.vertex.nodes[0].id == operator:
                return hosted.source
        return None

    # ---- checkpoints

    def _trigger(self, checkpoint: int, savepoint: Savepoint | None) -> None:
        if savepoint is not None:
            self._savepoints[checkpoint] = savepoint
        with self._guard():
            for hosted in list(self._live_sources):
                if savepoint is not None and savepoint.stop is Stop.DRAIN:
                    hosted.chain.watermark(MAX_WATERMARK)
                if savepoint is None and self._overtake_after == 0:
                    self._overtake(hosted, checkpoint, ())
                hosted.chain.barrier(checkpoint)
            self._hand_in()

    def _cut(self, hosted: Hosted, checkpoint: int) -> None:
        assert self._snapshots is not None
        savepoint = self._savepoints.get(checkpoint)
        if savepoint is not None and savepoint.stop is not None:
            if savepoint.stop is Stop.DRAIN:
                hosted.chain.drain(hosted.gate.inputs if hosted.gate else 0)
            self._still[hosted.vertex.id] = checkpoint
        self._snapshots.cut(hosted.chain, CheckpointId(checkpoint))
        if hosted.recorder is None or hosted.recorder.checkpoint != checkpoint:  # else what is in flight is missing yet
            self._cut_by.setdefault(checkpoint, set()).add(hosted.vertex.id)
            self._deliver_if_all_cut()

    def _overtake(self, hosted: Hosted, checkpoint: int, waiting: Collection[Channel]) -> None:
        """A vertex is about to be cut before the barriers of these channels were handled, or even received."""
        recorder = hosted.recorder = Recorder(checkpoint, waiting)
        for other, head, values, timestamps in self._work if waiting else ():
            if other is hosted:
                recorder.take(head, values, timestamps)
        if hosted not in self._recording:
            self._recording.append(hosted)

    def _hand_in(self) -> None:
        """Complete the cuts of vertices where everything is written down that the barrier has overtaken."""
        for hosted in [each for each in self._recording if each.recorder and not each.recorder.waiting]:
            self._recording.remove(hosted)
            recorder = hosted.recorder
            assert recorder is not None and self._snapshots is not None
            if not recorder.void and self._snapshots.add_in_flight(
                hosted.chain, CheckpointId(recorder.checkpoint), recorder.by_operator(self._edges, self._names)
            ):
                self._cut_by.setdefault(recorder.checkpoint, set()).add(hosted.vertex.id)
                self._deliver_if_all_cut()

    def _deliver_if_all_cut(self) -> None:
        """Hand over the checkpoints that every vertex has cut; one that has ended is cut as it is."""
        for checkpoint, cut in sorted(self._cut_by.items()):
            missing = [hosted for number, hosted in self.hosted.items() if number not in cut]
            if all(self._over(hosted) for hosted in missing):
                assert self._snapshots is not None
                for hosted in missing:
                    self._snapshots.cut(hosted.chain, CheckpointId(checkpoint), ended=True)
                for older in [number for number in self._cut_by if number <= checkpoint]:
                    del self._cut_by[older]
                savepoint = self._savepoints.get(checkpoint)
                for older in [number for number in self._savepoints if number < checkpoint]:
                    del self._savepoints[older]  # this one is still needed: its barrier is yet to be passed on
                self._slicing.deliver(self._snapshots.take(CheckpointId(checkpoint), savepoint))

    def _give_up(self, checkpoint: int) -> None:
        self._savepoints.pop(checkpoint, None)
        self._still = {vertex: by for vertex, by in self._still.items() if by != checkpoint}
        self._recording = [each for each in self._recording if each.recorder and each.recorder.checkpoint != checkpoint]
        if self._snapshots is not None:
            self._cut_by.pop(checkpoint, None)
            self._snapshots.give_up(CheckpointId(checkpoint))
        with self._guard():
            for hosted in self.hosted.values():
                if hosted.gate is not None:
                    hosted.gate.give_up(checkpoint)

    def _slice(self, worked: bool) -> None:
        """Pickle a little of what was cut and is not pickled yet; ``worked``: after records."""
        if self._slicing.open:
            self._slicing.worked |= worked
            self._slicing.turn()

    @property
    def slicing(self) -> bool:
        """Whether a cut is not pickled to its end: ``advance`` goes on with it, as every other step does."""
        return self._slicing.open

    # ---- reports

    def measured(self) -> Measured:
        """Return the metrics as they stand; later records do not change what was returned."""
        for hosted in self.hosted.values():
            head = hosted.chain.head
            hosted.metrics.records_out = sum(writer.records for writer in hosted.writers)
            hosted.metrics.watermark = hosted.gate.combined if hosted.gate else head.current_watermark
            if hosted.source is not None:
                hosted.metrics.records_in = hosted.source.records
            for node in hosted.vertex.nodes:
                user = self._metrics_of[node.id].snapshot()
                if user:
                    hosted.metrics.user[node.name] = user
        return Measured(self.id, vertices={number: hosted.metrics.copy() for number, hosted in self.hosted.items()})

    def _operator_report(self, operator: int, kind: str, payload: Any) -> None:
        place = (self.id, operator, self.id.subtask)
        match kind:
            case "splits":
                self._report(SplitsWanted(*place))
            case "align":
                group, watermark, drift = payload
                self._report(Reached(*place, group=group, watermark=watermark, drift=drift))
            case "print":
                self._report(Printed(*place, lines=tuple(payload)))
            case "collect":
                name, records = payload
                nodes = (node for hosted in self.hosted.values() for node in hosted.vertex.nodes)
                origin = next(node.name for node in nodes if node.id == operator)
                data = encode_collected(records, origin, self.id.subtask)
                self._report(Collected(*place, sink=name, records=data))
            case "commit":
                self._report(Prepared(*place, committables=tuple(payload)))

    def _check_finished(self) -> None:
        if self._cut_by:
            self._deliver_if_all_cut()  # a vertex that has just ended is no longer waited for
        if not self._told_finished and self.finished:
            self._told_finished = True
            cuts = self._final_cuts()
            self.close()
            self._report(self.measured())
            if cuts is not None:
                self._slicing.deliver(cuts)
            else:
                self._report(Finished(self.id))

    def _final_cuts(self) -> Cuts | None:
        if self._snapshots is None:
            return None
        last = self._snapshots.last
        with self._guard():
            for hosted in self.hosted.values():
                self._snapshots.cut(hosted.chain, last, final=True)
            self._slicing.finish()  # there is nothing else to do any more
        return self._snapshots.take(last, final=True)

    # ---- failures

    def _guard(self) -> Guard:
        return Guard(self.id.subtask)
