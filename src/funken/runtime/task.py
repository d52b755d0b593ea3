"""The task loop without I/O: blocks, ticks and orders in, blocks and reports out.

A task hosts one subtask of every vertex of its level. A runner owns it: it calls ``receive`` for each block that
arrived, ``step`` while there is ``work``, ``poll`` where there are sources, ``advance`` when time has passed, ``flush``
when records have waited long enough; and carries ``outbox`` (target task of the next level, bytes) away after each.
Nothing here blocks, reads a socket or starts a thread, so the same task runs in Spark and under simulated time.

Long blocks of slow records are cut into pieces (``_piece``), so that no call takes much longer than 20 ms because of
the number of records: orders, ticks and flushes get their turn. A piece begins small, since nobody knows how slow the
records are, and doubles while they are fast.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from funken.connectors.rows import RowsReader
from funken.ids import MAX_WATERMARK
from funken.metrics.latency import bucket_of
from funken.operators.base import Timestamps, Values, records_of
from funken.operators.source import SourceOperator
from funken.operators.strides import TaskTime
from funken.plan.physical import PhysicalPlan
from funken.runtime.backends import TaskBackends
from funken.runtime.barriers import Barriers, Work
from funken.runtime.blame import Guard, blame
from funken.runtime.contexts import Contexts
from funken.runtime.ended import EndedChain
from funken.runtime.flow import Flow
from funken.runtime.hosting import Hosted, Hosting
from funken.runtime.messages import (
    AddSplits,
    Align,
    Begin,
    CheckpointAborted,
    CheckpointComplete,
    Finished,
    Measured,
    Order,
    Report,
    SplitsFound,
    TaskId,
    Throttle,
    TriggerCheckpoint,
)
from funken.runtime.outputs import Born
from funken.runtime.settings import TaskSettings
from funken.runtime.snapshots import Cuts
from funken.runtime.wire import Header, Kind, content, decode_records, header
from funken.timing.clock import Clock

_PIECE_SECONDS = 0.02
_FIRST_PIECE = 16
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
        self._now = clock.now()
        self._time = TaskTime(clock)
        self._born = Born()
        #: what keeps queues short
        self.flow = Flow(plan, task, settings, clock)
        self._edges = plan.edges
        self._work: deque[Work] = deque()
        self._piece = min(_FIRST_PIECE, settings.block_records)
        self._relayed_ends = 0
        self._told_finished = False
        self._may_read = not settings.together
        self._backends = TaskBackends(settings.state, task.subtask)
        self._contexts = Contexts(task, settings, self._backends, clock, self._time, report, wake)
        hosting = Hosting(plan, task, settings, self.outbox, self._born)
        self.hosted = hosting.build(self._contexts.make)
        self._live_sources = [hosted for hosted in self.hosted.values() if hosted.source is not None]
        self._relays_expected = hosting.relays()
        self._flushing = hosting.flushing
        self._barriers = Barriers(
            plan,
            settings.checkpoints,
            task.subtask,
            hosting,
            self._work,
            self._over,
            lambda: self._now,
            clock.monotonic,
            deliver,
        )

    # ---- life

    def open(self) -> None:
        """Open every operator, downstream ones first."""
        with self._guard():
            self._barriers.restore()
            for hosted in reversed(list(self.hosted.values())):
                hosted.chain.open()
            self._barriers.give_back(self._take)

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
        return self._barriers.overtake_after is not None

    @property
    def awaits_barriers(self) -> bool:
        """Whether some barriers of an unaligned checkpoint have come, and others have not."""
        return self._barriers.awaited

    def close(self) -> None:
        """Close every operator; errors of user code surface here only if nothing failed before, Ctrl-C always."""
        if self.closed:
            return
        self.closed = True
        raised = [error for hosted in self.hosted.values() for error in hosted.chain.close()]
        self._barriers.slicing.drop()
        self._backends.close()
        for error in raised:
            if not isinstance(error, Exception | SystemExit):
                raise error
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
            overtakes = self._barriers.read(head.number, content(data))
            self._take(hosted, head, [], None)
            with self._guard():
                self._barriers.announce(hosted, head, overtakes)
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
        if self._barriers.recording:
            self._barriers.take(hosted, head, values, timestamps)

    def step(self) -> None:
        """Handle one piece of what was received."""
        hosted, head, values, timestamps = self._work.popleft()
        self._time.read()
        assert hosted.gate is not None
        gate, channel = hosted.gate, (head.edge, head.upstream)
        with self._guard():
            self._tick_if_due(hosted)
            match head.kind:
                case Kind.DATA:
                    self._born.at = head.born
                    begin = self._clock.monotonic()
                    gate.data(channel, values, timestamps)
                    hosted.metrics.records_in += records_of(values)
                    self._measure(hosted, len(values), begin)
                case Kind.WATERMARK:
                    gate.watermark(channel, head.number)
                case Kind.IDLE:
                    gate.idle(channel, bool(head.number))
                case Kind.BARRIER:
                    gate.barrier(channel, head.number)
                    self._barriers.hand_in()
                case Kind.END:
                    gate.end(channel, bool(head.number))
            self._barriers.slice(worked=True)
        self._check_finished()

    def _tick_if_due(self, hosted: Hosted) -> None:
        """Tick the operators of a vertex whose time has come by now, before they are given something else."""
        at = hosted.chain.next_tick()
        if at is not None and hosted.vertex.id not in self._barriers.still and not self._over(hosted):
            now = self._clock.now()
            if at <= now:
                hosted.chain.tick(now)

    def _measure(self, hosted: Hosted, records: int, begin: float) -> None:
        seconds = self._clock.monotonic() - begin
        metrics = hosted.metrics
        metrics.busy += seconds
        if self._born.at:
            age = self._clock.wall() - self._born.at
            latency = bucket_of(int(age * 1e6))
            metrics.latency[latency] = metrics.latency.get(latency, 0) + 1
            self.flow.saw(self._born.at, age)
        records //= hosted.factor
        if seconds > _PIECE_SECONDS and records > 1:
            self._piece = max(1, int(records * _PIECE_SECONDS / seconds))
        elif records >= self._piece < self._settings.block_records and seconds < _PIECE_SECONDS / 4:
            self._piece = min(self._settings.block_records, self._piece * 2)

    def poll(self) -> int | None:
        """Let every source read once; return ms to wait (0: go on at once), ``None`` if no source is left."""
        if self._barriers.still or not self._may_read:
            return _BEGIN_MILLIS
        pause = self.flow.pause()
        if pause:
            if self.flow.narrow:
                self._send_all()
            return pause
        wait: int | None = None
        for hosted in list(self._live_sources):
            assert hosted.source is not None
            begin = self._clock.monotonic()
            self._time.read()
            self._born.at = self._clock.wall()
            with self._guard():
                had_ended = isinstance(hosted.chain, EndedChain)
                room, before = self.flow.room(self._born.at, self._piece * hosted.factor), hosted.source.records
                found = None if had_ended else hosted.source.poll(room, self._now)
                self.flow.read(self._born.at, hosted.source.records - before)
                if found == 0:
                    self._measure_source(hosted, begin)
                if found is None:
                    self._tick_if_due(hosted)
                    self._live_sources.remove(hosted)
                    if hosted.source.pauses:
                        hosted.chain.pause()
                    else:
                        hosted.chain.watermark(MAX_WATERMARK)
                        hosted.chain.finish()
                    found = 0
            wait = found if wait is None else min(wait, found)
        self.flow.reads_on(wait == 0)
        if self._barriers.slicing.open:
            with self._guard():
                self._barriers.slice(worked=wait == 0)
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

    def _measure_source(self, hosted: Hosted, begin: float) -> None:
        seconds = self._clock.monotonic() - begin
        hosted.metrics.busy += seconds
        if seconds > _PIECE_SECONDS:
            self._piece = max(1, int(self._piece * _PIECE_SECONDS / seconds))
        elif self._piece < self._settings.block_records and seconds < _PIECE_SECONDS / 4:
            self._piece = min(self._settings.block_records, self._piece * 2)

    def advance(self) -> int | None:
        """Read the clock and tick whoever is due; return when the next tick is (ms), ``None``: never."""
        self._now = now = self._time.read()
        due: int | None = None
        with self._guard():
            self._backends.watch(now)
            for hosted in self.hosted.values():
                if hosted.vertex.id in self._barriers.still:
                    continue
                at = hosted.chain.next_tick()
                if at is not None and at <= now:
                    if not self._over(hosted):
                        hosted.chain.tick(now)
                    at = hosted.chain.next_tick()
                if at is not None and not self._over(hosted):
                    due = at if due is None else min(due, at)
                if hosted.gate is not None and self._barriers.overtake_after:
                    at = hosted.gate.advance(now)
                    due = due if at is None else at if due is None else min(due, at)
            self._barriers.hand_in()
            self._barriers.slice(worked=False)
            at = self._flushing.advance(now)
        if self._barriers.slicing.open:
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

    def _send_all(self) -> None:
        """The sources wait until what they sent has been handled: none of it may wait for a block to fill."""
        self.flush()
        with self._guard():
            self._flushing.let_go()
        if self.outbox:
            self._flushing.press()

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
                with self._guard():
                    self._barriers.trigger(checkpoint, savepoint, list(self._live_sources))
            case CheckpointComplete(checkpoint):
                self._barriers.complete(checkpoint)
            case CheckpointAborted(checkpoint):
                with self._guard():
                    self._barriers.give_up(checkpoint)
            case Begin():
                self._may_read = True
            case Align(operator, allowed):
                source = self._source(operator)
                if source is not None:
                    source.align(allowed)
            case Throttle():
                self.flow.throttle(order)
            case SplitsFound(operator):
                source = self._source(operator)
                if source is not None:
                    source.more_splits_came()

    def _source(self, operator: int) -> SourceOperator | None:
        for hosted in self._live_sources:
            if hosted.vertex.nodes[0].id == operator:
                return hosted.source
        return None

    @property
    def slicing(self) -> bool:
        """Whether a cut is not pickled to its end: ``advance`` goes on with it, as every other step does."""
        return self._barriers.slicing.open

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
                user = self._contexts.metrics[node.id].snapshot()
                if user:
                    hosted.metrics.user[node.name] = user
        return Measured(self.id, vertices={number: hosted.metrics.copy() for number, hosted in self.hosted.items()})

    def _check_finished(self) -> None:
        if self._barriers.cut_by:
            self._barriers.deliver_if_all_cut()  # a vertex that has just ended is no longer waited for
        if not self._told_finished and self.finished:
            self._told_finished = True
            with self._guard():
                cuts = self._barriers.last()
            self.close()
            self._report(self.measured())
            if cuts is not None:
                self._barriers.slicing.deliver(cuts)
            else:
                self._report(Finished(self.id))

    # ---- failures

    def _guard(self) -> Guard:
        return Guard(self.id.subtask)
