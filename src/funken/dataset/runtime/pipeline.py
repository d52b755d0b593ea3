"""A plan, wired: its tasks, its exchanges, and what several operators read.

``Pipeline`` makes those of this process: all subtasks, or on a cluster those of one index (``BatchJob.index``). An iteration
makes a pipeline of its step, and wires that anew for each superstep. Streams are kept by subtask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from funken.api.jobs.notebook import BatchProgress, IterationProgress, OperatorProgress
from funken.dataset import exchange as routers
from funken.dataset.columns.sorting import ExternalSorter
from funken.dataset.exchange import EdgeReceiver, EdgeUse, Everything, Exchanges, LocalExchanges, Ranged, Routed, Shared
from funken.dataset.memory.manager import Blocks, MemoryManager, Share, records_of
from funken.dataset.optimizer.costs import DriverStrategy, Local, Ship
from funken.dataset.optimizer.physical import PhysicalNode, PlanChannel, everything, walk
from funken.dataset.plan import nodes
from funken.dataset.plan.keys import FieldColumn, KeyColumn, Order, order_of
from funken.dataset.runtime.context import Accumulator, Superstep, TaskContext
from funken.dataset.runtime.drivers import DRIVERS, DriverTask, groups, reduced
from funken.errors import InvalidProgram
from funken.io.spill import SpillSpace
from funken.timing.clock import Clock, SystemClock

# ---- How far a program is: counters of each operator in each process, and the picture that is made of them.
#
# An operator is known by its place in the plan, which is the same in every process. A counter is changed by the
# thread that reads the operator, once per block, and read by any thread.


class Counts(NamedTuple):
    """Counters of an operator's subtasks in one process; ``seconds`` since the first began, or until all had ended."""

    records_in: int = 0
    records_out: int = 0
    begun: int = 0
    running: int = 0
    seconds: float = 0.0


class OperatorCounter:
    """Counts the input of the subtasks of one operator, and their output."""

    __slots__ = ("_began", "_clock", "_ended", "begun", "records_in", "records_out", "running")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: float | None = None
        self._ended = 0.0
        self.records_in = self.records_out = self.begun = self.running = 0

    def counted_in(self, blocks: Blocks) -> Blocks:
        """Return blocks that an operator reads, counted."""
        for block in blocks:
            self.records_in += len(block)
            yield block

    def counted_out(self, blocks: Blocks) -> Blocks:
        """Return the blocks of a subtask, counted; it is at work as long as there are any."""
        self.begun += 1
        self.running += 1
        if self._began is None:
            self._began = self._clock.monotonic()
        try:
            for block in blocks:
                self.records_out += len(block)
                yield block
        finally:
            self.running -= 1
            self._ended = self._clock.monotonic()
            close = getattr(blocks, "close", None)
            if close is not None:
                close()

    def counts(self) -> Counts:
        """Return the counts so far."""
        end = self._clock.monotonic() if self.running else self._ended
        seconds = 0.0 if self._began is None else end - self._began
        return Counts(self.records_in, self.records_out, self.begun, self.running, seconds)


class JobCounters:
    """The counters of one process, by the places of the operators in the plan.

    >>> counters = JobCounters([])
    >>> counters.counts()
    ()
    """

    def __init__(self, sinks: Iterable[PhysicalNode], clock: Clock | None = None) -> None:
        made, clock = list(everything(sinks)), clock or SystemClock()
        self._counters = [OperatorCounter(clock) for _ in made]
        self._places = {id(node): place for place, node in enumerate(made)}

    def of(self, node: PhysicalNode) -> OperatorCounter:
        """Return the counter of an operator."""
        return self._counters[self._places[id(node)]]

    def counts(self) -> tuple[Counts, ...]:
        """Return the counts so far."""
        return tuple(counter.counts() for counter in self._counters)


class Figures(NamedTuple):
    """The figures of a running program: the counters of every process, and the rest."""

    counts: Sequence[tuple[Counts, ...]] = ()
    spilled: Mapping[str, int] = {}
    iterations: Sequence[IterationProgress] = ()
    restarts: int = 0


class RunningProgram:
    """A program that runs, as watchers see it. The executor sets ``figures``.

    >>> RunningProgram("count", []).progress()
    BatchProgress(name='count', seconds=0.0, operators=(), iterations=(), spilled={}, restarts=0)
    """

    def __init__(
        self, name: str, sinks: Iterable[PhysicalNode], clock: Clock | None = None,
        explained: Callable[[bool], str] = lambda as_json: "",
    ) -> None:  # fmt: skip
        self.name = name
        self._explained = explained
        self.figures: Callable[[], Figures] = Figures
        self._clock = clock or SystemClock()
        self._operators = list(everything(sinks))
        self._began: float | None = None
        self._seconds: float | None = None

    def begin(self) -> None:
        """Take note that it begins."""
        self._began = self._clock.monotonic()

    def end(self) -> None:
        """Keep the figures at the end; nothing of the executor is kept. Again has no effect."""
        if self._seconds is not None:
            return
        self._seconds = self._clock.monotonic() - (self._began or 0.0)
        last = self.figures()
        self.figures = lambda: last

    def explain(self, as_json: bool = False) -> str:
        """Return the plan, as text or as JSON."""
        return self._explained(as_json)

    def progress(self) -> BatchProgress:
        """Return the progress of the program."""
        counts, spilled, iterations, restarts = self.figures()
        seconds = self._seconds
        if seconds is None:
            seconds = 0.0 if self._began is None else self._clock.monotonic() - self._began
        operators = [
            _operator(node, [process[place] for process in counts], self._seconds is not None)
            for place, node in enumerate(self._operators)
            if node.driver is not DriverStrategy.PLACEHOLDER
        ]
        return BatchProgress(self.name, seconds, tuple(operators), tuple(iterations), dict(spilled), restarts)


def _operator(node: PhysicalNode, counts: Sequence[Counts], is_over: bool) -> OperatorProgress:
    begun, running = sum(each.begun for each in counts), sum(each.running for each in counts)
    if running and not is_over:
        state = "running"
    else:
        state = "done" if begun >= node.parallelism else "running" if begun and not is_over else "waiting"
    return OperatorProgress(
        node.name,
        node.driver.value,
        node.parallelism,
        sum(each.records_in for each in counts),
        sum(each.records_out for each in counts),
        max((each.seconds for each in counts), default=0.0),
        state,
    )


Streams = dict[int, Blocks]
"""The output of the subtasks of a node that are in this process."""

_BROADCAST = 0x8000


@dataclass
class BatchJob:
    """The shared state of all tasks of a job. ``index``: only these subtasks are in this process; None: all are."""

    space: SpillSpace
    memories: list[MemoryManager]
    parameters: Mapping[str, str] = field(default_factory=dict)
    cached_files: Mapping[str, str] = field(default_factory=dict)
    accumulators: list[dict[str, Accumulator]] = field(default_factory=list)
    iterations: list[tuple[str, int, str, tuple[int, ...]]] = field(default_factory=list)
    run_iteration: Callable[[PhysicalNode, list[Streams], BatchJob], Any] | None = None
    exchanges: Exchanges = field(default_factory=LocalExchanges)
    supersteps: Callable[[PhysicalNode], Any] | None = None
    index: int | None = None
    pipelines: int = 0
    counters: JobCounters | None = None

    def memory(self, subtask: int) -> MemoryManager:
        """Return the managed memory of the subtasks with this index."""
        return self.memories[subtask % len(self.memories)]

    def hosted(self, parallelism: int) -> Sequence[int]:
        """Return the subtasks of an operator that are in this process."""
        if self.index is None:
            return range(parallelism)
        return (self.index,) if self.index < parallelism else ()


class Pipeline:
    """The tasks of a plan, wired. ``given`` are the outputs of nodes that are computed elsewhere, by subtask."""

    def __init__(
        self,
        roots: Sequence[PhysicalNode],
        job: BatchJob,
        supersteps: Mapping[int, Superstep] | None = None,
        outside: Mapping[int, Any] | None = None,
    ) -> None:
        self.job = job
        self.plan = list(walk(roots, outside or ()))
        self.superstep = 0
        self._number, job.pipelines = job.pipelines, job.pipelines + 1
        self._places = {id(node): place for place, node in enumerate(self.plan)}
        self._supersteps = supersteps or {}
        self.tasks: dict[tuple[int, int], DriverTask] = {}
        self._routing: dict[tuple[int, int], DriverTask] = {}
        self.counted: list[dict[str, Accumulator]] = []
        self._closing: list[Any] = []
        self._generators: list[Any] = []
        self._streams: dict[int, Streams] = {}
        self._shared: dict[int, dict[int, Shared]] = {}
        self._readers: dict[int, int] = {}
        for root in roots:
            self._readers[id(root)] = self._readers.get(id(root), 0) + 1
        for node in self.plan:
            for channel in node.channels:
                self._readers[id(channel.source)] = self._readers.get(id(channel.source), 0) + 1
            for subtask in job.hosted(node.parallelism):
                self.tasks[id(node), subtask] = self._task(node, subtask)

    def _task(self, node: PhysicalNode, subtask: int) -> DriverTask:
        job = self.job
        context = TaskContext(
            node.name,
            subtask,
            node.parallelism,
            job.memory(subtask),
            job.parameters,
            job.cached_files,
            superstep=self._supersteps.get(subtask),
        )
        self.count(context.accumulators)
        return DriverTask(node, context)

    def count(self, accumulators: dict[str, Accumulator]) -> None:
        """Let the values of accumulators be part of the job's."""
        self.counted.append(accumulators)
        self.job.accumulators.append(accumulators)

    # ---- wiring

    def wire(self, given: Mapping[int, Streams] | None = None) -> None:
        """Connect the tasks; nothing is computed before the streams are read."""
        self.offer_all(given or {})
        for node in self.plan:
            if given and id(node) in given:
                continue
            inputs = [self._edge(node, channel, place) for place, channel in enumerate(node.inputs)]
            if node.step:
                assert self.job.run_iteration is not None
                run = self.job.run_iteration(node, inputs, self.job)
                self._closing.append(run)
                if not run.is_read:
                    self.job.exchanges.spawn(f"{node.name} of subtask {self.job.index}", run.run)
                self._offer(id(node), node.name, self._counted(node, run.streams()))
                continue
            broadcasts = {name: self._broadcast(node, name, channel) for name, channel in node.broadcasts}
            streams = {
                subtask: self._run(self.tasks[id(node), subtask], [edge[subtask] for edge in inputs], broadcasts)
                for subtask in self.job.hosted(node.parallelism)
            }
            self._generators += streams.values()
            self._offer(id(node), node.name, streams)

    def offer_all(self, given: Mapping[int, Streams]) -> None:
        """Take streams as the outputs of nodes that are computed elsewhere."""
        for node, streams in given.items():
            self._offer(node, "iteration", streams)

    def _offer(self, node: int, name: str, streams: Streams) -> None:
        self._streams[node] = streams
        readers = self._readers.get(node, 0)
        if readers > 1:
            self._shared[node] = {
                subtask: Shared(stream, [self._share(name, subtask) for _ in range(readers)])
                for subtask, stream in streams.items()
            }
            self._closing += self._shared[node].values()

    def stream(self, node: PhysicalNode, subtask: int) -> Blocks:
        """Return the output of a subtask for its next consumer."""
        if id(node) in self._shared:
            return self._shared[id(node)][subtask].reader()
        return self._streams[id(node)][subtask]

    def streams(self, node: PhysicalNode) -> Streams:
        """Return the output of all subtasks of this process for the next consumer."""
        return {subtask: self.stream(node, subtask) for subtask in self.job.hosted(node.parallelism)}

    def _share(self, operator: str, subtask: int) -> Share:
        return self.job.memory(subtask).share(operator)

    def _run(self, task: DriverTask, inputs: list[Blocks], broadcasts: dict[str, Any]) -> Blocks:
        yield from self._running(task, inputs, broadcasts)

    def _running(self, task: DriverTask, inputs: list[Blocks], broadcasts: dict[str, Any]) -> Blocks:
        for name, read in broadcasts.items():
            task.context.broadcasts[name] = read()
        task.open()
        counters = self.job.counters
        if counters is None:
            return DRIVERS[task.plan.driver](task, *inputs)
        counter = counters.of(task.plan)
        return counter.counted_out(DRIVERS[task.plan.driver](task, *map(counter.counted_in, inputs)))

    def _counted(self, node: PhysicalNode, streams: Streams) -> Streams:
        if self.job.counters is None:
            return streams
        counter = self.job.counters.of(node)
        return {subtask: counter.counted_out(stream) for subtask, stream in streams.items()}

    def _broadcast(self, node: PhysicalNode, name: str, channel: PlanChannel) -> Any:
        place = _BROADCAST + [each for each, _ in node.broadcasts].index(name)
        producers, share = self.streams(channel.source), partial(self._share, node.name)
        made = self.job.exchanges.connect(self._use(node, channel, place), producers, Everything(), share)
        self._closing.append(made)
        found: list[Any] = []
        done: list[bool] = []

        def read() -> list[Any]:
            if not done:
                done.append(True)
                found.extend(records_of(made.receive(self.job.index or 0)))
            return found

        return read

    def _edge(self, node: PhysicalNode, channel: PlanChannel, place: int) -> Streams:
        producers = self.streams(channel.source)
        if channel.ship is Ship.FORWARD:
            streams = producers
        else:
            made = self._exchange(node, channel, self._use(node, channel, place), producers)
            self._closing.append(made)
            streams = {subtask: made.receive(subtask) for subtask in self.job.hosted(node.parallelism)}
        if channel.local is Local.NONE:
            return streams
        ordered = {subtask: self._sorted(node, channel, subtask, stream) for subtask, stream in streams.items()}
        self._generators += ordered.values()
        return ordered

    def _use(self, node: PhysicalNode, channel: PlanChannel, place: int) -> EdgeUse:
        number = self._number << 32 | self._places[id(node)] << 16 | place
        return EdgeUse(number, self.superstep, node.name, channel.source.parallelism, node.parallelism)

    def _exchange(self, node: PhysicalNode, channel: PlanChannel, edge: EdgeUse, producers: Streams) -> EdgeReceiver:
        consumers = node.parallelism
        share = partial(self._share, node.name)
        key = channel.key

        def task(subtask: int) -> DriverTask:
            if self.job.index is None:
                return self.tasks[id(node), subtask % consumers]
            if (id(node), subtask) not in self._routing:  # its consumer may be elsewhere, and runs in another thread
                self._routing[id(node), subtask] = self._task(node, subtask)
            return self._routing[id(node), subtask]

        def column(subtask: int) -> KeyColumn:
            assert key is not None
            return task(subtask).column(key)

        def router(subtask: int) -> routers.Router:
            match channel.ship:
                case Ship.PARTITION_HASH:
                    return routers.by_hash(consumers, column(subtask))
                case Ship.BROADCAST:
                    return routers.to_all(consumers)
                case Ship.PARTITION_CUSTOM:
                    partition = task(subtask).function(channel.partition.partitioner)
                    return routers.by_partitioner(consumers, column(subtask).given, partition, node.name)
                case _:
                    return routers.in_turn(consumers, subtask % consumers)

        if channel.ship is not Ship.PARTITION_RANGE:
            return self.job.exchanges.connect(edge, producers, Routed(router), share)
        assert key is not None
        first = self.job.index or 0
        columns: list[Any] = [FieldColumn((path,), node.name) for path in key.paths] or [column(first)]
        order = Order(columns, channel.partition.descending)
        return self.job.exchanges.connect(edge, producers, Ranged(order, column(first)), share)

    def _sorted(self, node: PhysicalNode, channel: PlanChannel, subtask: int, stream: Blocks) -> Blocks:
        task = self.tasks[id(node), subtask]
        column = task.column(channel.sort_key) if channel.sort_key is not None else None
        combine = self._combine(task, channel) if channel.local is Local.COMBININGSORT else None
        share, order = self._share(node.name, subtask), order_of(channel.ordering, node.name, column)
        sorter = ExternalSorter(share, order, combine)
        try:
            for block in stream:
                sorter.add(block)
            yield from sorter.blocks()
        except TypeError as error:
            raise InvalidProgram(
                f"operator {node.name!r} cannot sort by {channel.sort_key or ''}"
                f"{', '.join(map(str, channel.ordering))}: {error}. Use keys of one type that can be compared, "
                "or an operator or hint that hashes."
            ) from error
        finally:
            sorter.close()

    def _combine(self, task: DriverTask, channel: PlanChannel) -> Any:
        assert channel.sort_key is not None
        key = channel.sort_key
        if isinstance(task.node, nodes.Reduce):
            return lambda records: reduced(task, iter([records]), key)
        column, function = task.column(key), task.function(task.node.combiner)
        return lambda records: (
            record
            for of, group in groups(iter([records]), column)
            for record in task.results(function, f"the group of the key {of!r}", group)
        )

    # ---- the end

    def every_task(self) -> Iterator[DriverTask]:
        """Return the tasks, and those that only extract keys for exchanges."""
        yield from self.tasks.values()
        yield from self._routing.values()

    def close_streams(self) -> None:
        """Stop running operators, and drop unread blocks."""
        self.job.exchanges.settle(self._closing)
        for each in (*reversed(self._generators), *reversed(self._closing)):
            each.close()
        self._generators, self._closing = [], []

    def close(self) -> None:
        """Stop running operators, close the functions, release memory and disk space; raise the first error."""
        first: BaseException | None = None
        self.close_streams()
        for each in self.every_task():
            try:
                each.close()
            except Exception as error:  # noqa: BLE001 - raised below, once everything is closed
                first = first or error
        if first is not None:
            raise first
