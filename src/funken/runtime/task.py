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
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any

from funken.errors import FunkenError, JobExecutionError, OperatorFailed, TaskLost
from funken.ids import MAX_WATERMARK, OperatorId
from funken.metrics.latency import bucket_of
from funken.metrics.registry import MetricGroup
from funken.operators.base import Operator, Timestamps, Values
from funken.operators.context import OperatorContext
from funken.operators.source import SourceOperator
from funken.plan.physical import Edge, PhysicalPlan, Vertex
from funken.runtime.chain import Chain, EdgeEnd
from funken.runtime.inputs import Gate
from funken.runtime.messages import (
    AddSplits,
    Align,
    Collected,
    Failed,
    Finished,
    Measured,
    Order,
    Prepared,
    Printed,
    Queued,
    Reached,
    Report,
    SplitsFound,
    SplitsWanted,
    TaskId,
    Throttle,
    VertexMetrics,
)
from funken.runtime.outputs import Born, EdgeWriter, writer_for
from funken.runtime.queueing import Queueing
from funken.runtime.settings import TaskSettings
from funken.runtime.wire import Header, Kind, decode_records, encode_collected, header, shown
from funken.state.keyed import KeyedStateStore
from funken.state.keygroups import key_groups_of
from funken.timing.clock import Clock
from funken.timing.timers import InternalTimerService

_PIECE_SECONDS = 0.02


class Hosted:
    """One vertex of a task, at work."""

    __slots__ = ("chain", "gate", "metrics", "source", "vertex", "writers")

    def __init__(self, vertex: Vertex, chain: Chain, writers: list[EdgeWriter]) -> None:
        self.vertex = vertex
        self.chain = chain
        self.writers = writers
        self.gate: Gate | None = None
        self.source = chain.head if isinstance(chain.head, SourceOperator) else None
        self.metrics = VertexMetrics()


class Task:
    """Task ``index`` of a level; operators call ``wake`` from other threads when ``advance`` has something to do."""

    def __init__(
        self, plan: PhysicalPlan, task: TaskId, settings: TaskSettings, clock: Clock, report: Callable[[Report], None],
        wake: Callable[[], None] | None = None,
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
        self._metrics_of: dict[int, MetricGroup] = {}
        self.hosted: dict[int, Hosted] = {}
        for vertex in plan.at(task.level):
            if task.subtask < vertex.parallelism:
                self.hosted[vertex.id] = self._host(vertex)
        for hosted in self.hosted.values():
            if hosted.source is None:
                hosted.gate = Gate(hosted.chain, self._channels(hosted.vertex))
        self._sources = [hosted for hosted in self.hosted.values() if hosted.source is not None]
        self._live_sources = list(self._sources)
        self._relays_expected = self._count_relays()

    # ---- building

    def _host(self, vertex: Vertex) -> Hosted:
        index = self.id.subtask
        writers: list[EdgeWriter] = []
        ends: list[EdgeEnd] = []
        for edge in self._edges:
            if edge.source != vertex.id:
                continue
            if edge.local:
                ends.append(self._local_end(edge))
                continue
            name = next(node.name for node in vertex.nodes if node.id == edge.source_node)
            writer = writer_for(
                edge, index, name, self._sender(edge), self._born, self._settings.block_records,
                self._settings.block_bytes,
            )  # fmt: skip
            writers.append(writer)
            ends.append(_exchange_end(edge, writer))
        operators = {node.id: node.spec.build() for node in vertex.nodes}
        contexts = {node.id: self._context(vertex, node.id) for node in vertex.nodes}
        return Hosted(vertex, Chain(vertex, contexts, operators, ends), writers)

    def _context(self, vertex: Vertex, operator: OperatorId) -> OperatorContext:
        node = next(node for node in vertex.nodes if node.id == operator)
        subtask, width, limit = self.id.subtask, vertex.parallelism, vertex.max_parallelism
        self._metrics_of[operator] = metrics = MetricGroup()
        context = OperatorContext(
            operator=node.name,
            subtask=subtask,
            parallelism=width,
            max_parallelism=limit,
            processing_time=lambda: self._now,
            attempt=self._settings.attempt,
            batch=self._settings.batch,
            auto_watermark_interval=self._settings.auto_watermark_interval,
            job_parameters=self._settings.job_parameters,
            metrics=metrics,
            report=lambda kind, payload: self._operator_report(operator, kind, payload),
            wake=self._wake,
        )
        if node.keyed:
            groups = key_groups_of(subtask, limit, width)
            context.keyed = KeyedStateStore(limit, groups, lambda: self._now)
            context.timers = InternalTimerService(lambda: self._now, limit, groups)
        return context

    def _sender(self, edge: Edge) -> Callable[[int, bytes], None]:
        outbox, hop = self.outbox, self._hop(edge)
        return lambda target, data: outbox.append((target % hop, data))

    def _hop(self, edge: Edge) -> int:
        """How wide the next level is; an edge that ends there has targets below that anyway."""
        return self._plan.widths[self.id.level + 1] if edge.target_level > self.id.level + 1 else 2**31

    def _local_end(self, edge: Edge) -> EdgeEnd:
        channel = (edge.id, self.id.subtask)

        def gate() -> Gate:
            found = self.hosted[edge.target].gate
            assert found is not None
            return found

        return EdgeEnd(
            edge,
            emit=lambda values, timestamps: gate().data(channel, values, timestamps),
            watermark=lambda watermark: gate().watermark(channel, watermark),
            idle=lambda idle: gate().idle(channel, idle),
            end=lambda: gate().end(channel),
            flush=lambda: None,
        )

    def _channels(self, vertex: Vertex) -> list[tuple[tuple[int, int], int]]:
        channels: list[tuple[tuple[int, int], int]] = []
        for edge in self._edges:
            if edge.target == vertex.id:
                ups = [self.id.subtask] if edge.local else self._upstreams(edge)
                channels += [((edge.id, up), edge.index) for up in ups]
        return channels

    def _upstreams(self, edge: Edge) -> list[int]:
        """Which upstream subtasks send on an edge; all send their control blocks everywhere."""
        return list(range(edge.source_parallelism))

    def _count_relays(self) -> int:
        """How many channels pass through this task on their way to a higher level."""
        level, width = self.id.level, self._plan.widths[self.id.level]
        count = 0
        for edge in self._edges:
            if edge.source_level < level < edge.target_level:
                mine = sum(1 for target in range(edge.target_parallelism) if target % width == self.id.subtask)
                count += mine * edge.source_parallelism
        return count

    # ---- life

    def open(self) -> None:
        """Open every operator, downstream ones first."""
        with self._guard():
            for hosted in reversed(list(self.hosted.values())):
                hosted.chain.open()

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

    def close(self) -> None:
        """Close every operator; errors of user code surface here only if nothing failed before."""
        if self.closed:
            return
        self.closed = True
        raised = [error for hosted in self.hosted.values() for error in hosted.chain.close()]
        if raised and self.finished:
            raise self._blame(raised[0]) from raised[0]

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
        if head.kind != Kind.DATA:
            self._work.append((hosted, head, [], None))
            return
        values, timestamps = decode_records(data)
        size = self._piece
        if len(values) <= size:
            self._work.append((hosted, head, values, timestamps))
            return
        for start in range(0, len(values), size):
            stamps = timestamps and timestamps[start : start + size]
            self._work.append((hosted, head, values[start : start + size], stamps))

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
                case Kind.END:
                    gate.end(channel)
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
        if seconds > _PIECE_SECONDS and records > 1:
            self._piece = max(1, int(records * _PIECE_SECONDS / seconds))
        elif records >= self._piece < self._settings.block_records and seconds < _PIECE_SECONDS / 4:
            self._piece = min(self._settings.block_records, self._piece * 2)

    def poll(self) -> int | None:
        """Let every source read once; return ms to wait (0: go on at once), ``None`` if no source is left."""
        pause = self._queueing.pause(self._clock.wall())
        if pause:
            return pause
        wait: int | None = None
        for hosted in list(self._live_sources):
            assert hosted.source is not None
            begin = self._clock.monotonic()
            self._born.at = self._clock.wall()
            with self._guard():
                found = hosted.source.poll(self._piece, self._now)
                if found == 0:
                    self._measure_source(hosted, begin)
                if found is None:
                    self._live_sources.remove(hosted)
                    hosted.chain.watermark(MAX_WATERMARK)
                    hosted.chain.finish()
                    found = 0
            wait = found if wait is None else min(wait, found)
        self._queueing.saturated = wait == 0
        if wait == 0:
            self._queueing.read(self._clock.wall())
        self._check_finished()
        return wait

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
            for hosted in self.hosted.values():
                at = hosted.chain.next_tick()
                if at is not None and at <= now:
                    if not self._over(hosted):
                        hosted.chain.tick(now)
                    at = hosted.chain.next_tick()
                if at is not None and not self._over(hosted):
                    due = at if due is None else min(due, at)
        return due

    def _over(self, hosted: Hosted) -> bool:
        return hosted not in self._live_sources if hosted.source is not None else bool(
            hosted.gate and hosted.gate.finished
        )  # fmt: skip

    def flush(self) -> None:
        """Send every record that waits for its block to fill."""
        with self._guard():
            for hosted in self.hosted.values():
                hosted.chain.flush()

    def order(self, order: Order) -> None:
        """Do what the driver said."""
        match order:
            case AddSplits(operator, _, splits, no_more):
                source = self._source(operator)
                if source is not None:
                    with self._guard():
                        source.add_splits(splits, no_more)
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

    # ---- reports

    def measured(self) -> Measured:
        """Return the metrics as they stand; later records do not change what was returned."""
        for hosted in self.hosted.values():
            head = hosted.chain.head
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
        if not self._told_finished and self.finished:
            self._told_finished = True
            self.close()
            self._report(self.measured())
            self._report(Finished(self.id))

    # ---- failures

    def _guard(self) -> _Guard:
        return _Guard(self)

    def _blame(self, error: BaseException) -> JobExecutionError:
        return blame(error, self.id.subtask)


class _Guard:
    """Turns an exception of user code into ``OperatorFailed``; no cost per record."""

    __slots__ = ("_task",)

    def __init__(self, task: Task) -> None:
        self._task = task

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception | SystemExit) and not isinstance(error, JobExecutionError):
            raise self._task._blame(error) from error


def blame(error: BaseException, subtask: int) -> JobExecutionError:
    """Say in which operator, and at which record, an exception was raised: read from the frames it passed through."""
    operator, record, found = None, "", error.__traceback__
    while found is not None:
        frame = found.tb_frame
        owner = frame.f_locals.get("self")
        if isinstance(owner, Operator) and hasattr(owner, "context"):
            operator = owner.context.operator
            record = ""
        if operator is not None and not record and "value" in frame.f_locals and _is_ours(frame.f_code.co_filename):
            record = f" at the record {shown(frame.f_locals['value'])}"
        found = found.tb_next
    text = "".join(traceback.format_exception(error))
    where = f"operator {operator!r} (subtask {subtask})" if operator else f"subtask {subtask}"
    remedy = "" if isinstance(error, FunkenError) else " The traceback of the function follows."
    return OperatorFailed(
        f"{where} failed{record}: {type(error).__name__}: {_text(error)}.{remedy}", operator, subtask, text
    )


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as other:  # noqa: BLE001 - the error to be told is the first one
        return f"<its text raises {type(other).__name__}>"


def _is_ours(filename: str) -> bool:
    return "funken" in filename and "operators" in filename


def _exchange_end(edge: Edge, writer: EdgeWriter) -> EdgeEnd:
    return EdgeEnd(
        edge,
        emit=writer.emit,
        watermark=lambda watermark: writer.control(Kind.WATERMARK, watermark),
        idle=lambda idle: writer.control(Kind.IDLE, int(idle)),
        end=lambda: writer.control(Kind.END, 0),
        flush=writer.flush,
    )


def failed(task: TaskId, error: BaseException) -> Failed:
    """Make the report of a failure; an error that cannot travel is replaced by its text."""
    if not isinstance(error, JobExecutionError):
        error = blame(error, task.subtask)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - whatever the user's class raises when it is pickled
        error = JobExecutionError(str(error))
    return Failed(task, error=error, secondary=isinstance(error, TaskLost))


__all__ = ["Task", "blame", "failed"]
