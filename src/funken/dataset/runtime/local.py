"""The executor of this process: all tasks of a plan, pulled from the sinks, one block at a time and always in the same order.

``Pipeline`` wires a plan: it makes the tasks, the exchanges and the shared outputs. An iteration makes a pipeline of its
step plan, and reads it once per superstep.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from funken.dataset.memory.blocks import Block, records_of
from funken.dataset.memory.manager import MemoryManager, Share
from funken.dataset.memory.order import Order
from funken.dataset.memory.sorter import ExternalSorter
from funken.dataset.memory.spill import SpillSpace
from funken.dataset.optimizer.physical import Channel, PhysicalNode, memory_consumers, walk
from funken.dataset.optimizer.strategies import Local, Ship
from funken.dataset.plan import nodes
from funken.dataset.plan.keys import FieldColumn, KeyColumn, order_of
from funken.dataset.runtime import exchange
from funken.dataset.runtime.accumulators import Accumulator, merged
from funken.dataset.runtime.context import Superstep, TaskContext
from funken.dataset.runtime.drivers import DRIVERS
from funken.dataset.runtime.exchange import Exchange, RangeExchange, Shared
from funken.dataset.runtime.groups import groups, reduced
from funken.dataset.runtime.task import Blocks, Task
from funken.errors import InvalidProgram


@dataclass
class Surroundings:
    """What all tasks of a job have in common."""

    space: SpillSpace
    memories: list[MemoryManager]
    parameters: Mapping[str, str] = field(default_factory=dict)
    cached_files: Mapping[str, str] = field(default_factory=dict)
    accumulators: list[dict[str, Accumulator]] = field(default_factory=list)

    def memory(self, subtask: int) -> MemoryManager:
        """Return the managed memory of the subtasks with this index."""
        return self.memories[subtask]


class Pipeline:
    """The tasks of a plan, wired. ``given`` are the outputs of nodes that are computed elsewhere, by subtask."""

    def __init__(
        self,
        roots: Sequence[PhysicalNode],
        surroundings: Surroundings,
        superstep: Superstep | None = None,
    ) -> None:
        self.surroundings = surroundings
        self.superstep = superstep
        self.plan = list(walk(roots))
        self.tasks: dict[tuple[int, int], Task] = {}
        self._closing: list[Any] = []
        self._generators: list[Iterator[Block]] = []
        self._streams: dict[int, list[Blocks]] = {}
        self._shared: dict[int, list[Shared]] = {}
        self._readers: dict[int, int] = {}
        for node in self.plan:
            for channel in node.channels:
                self._readers[id(channel.source)] = self._readers.get(id(channel.source), 0) + 1
            for subtask in range(node.parallelism):
                self.tasks[id(node), subtask] = self._task(node, subtask)

    def _task(self, node: PhysicalNode, subtask: int) -> Task:
        job = self.surroundings
        context = TaskContext(
            node.name,
            subtask,
            node.parallelism,
            job.memory(subtask),
            job.parameters,
            job.cached_files,
            superstep=self.superstep,
        )
        job.accumulators.append(context.accumulators)
        return Task(node, context)

    # ---- wiring

    def wire(self, given: Mapping[int, list[Blocks]] | None = None) -> None:
        """Connect the tasks; nothing is computed before the streams are read."""
        self._streams = dict(given or {})
        self._shared = {}
        for node in self.plan:
            if id(node) in self._streams:
                streams = self._streams[id(node)]
            else:
                inputs = [self._edge(node, channel, place) for place, channel in enumerate(node.inputs)]
                broadcasts = {name: self._broadcast(node, channel) for name, channel in node.broadcasts}
                streams = [
                    self._run(self.tasks[id(node), subtask], [edge[subtask] for edge in inputs], broadcasts)
                    for subtask in range(node.parallelism)
                ]
                self._generators += streams
                self._streams[id(node)] = streams
            readers = self._readers.get(id(node), 0)
            if readers > 1:
                shared = [
                    Shared(stream, [self._share(node.name, subtask) for _ in range(readers)])
                    for subtask, stream in enumerate(streams)
                ]
                self._closing += shared
                self._shared[id(node)] = shared

    def stream(self, node: PhysicalNode, subtask: int) -> Blocks:
        """Return the output of a subtask for its next consumer."""
        if id(node) in self._shared:
            return self._shared[id(node)][subtask].reader()
        return self._streams[id(node)][subtask]

    def _share(self, operator: str, subtask: int) -> Share:
        return self.surroundings.memory(subtask).share(operator)

    def _run(self, task: Task, inputs: list[Blocks], broadcasts: dict[str, Any]) -> Blocks:
        for name, read in broadcasts.items():
            task.context.broadcasts[name] = read()
        task.open()
        yield from DRIVERS[task.plan.driver](task, *inputs)

    def _broadcast(self, node: PhysicalNode, channel: Channel) -> Any:
        producers = [self.stream(channel.source, subtask) for subtask in range(channel.source.parallelism)]
        found: list[Any] = []
        done: list[bool] = []

        def read() -> list[Any]:
            if not done:
                done.append(True)
                for producer in producers:
                    found.extend(records_of(producer))
            return found

        return read

    def _edge(self, node: PhysicalNode, channel: Channel, place: int) -> list[Blocks]:
        source = channel.source
        producers = [self.stream(source, subtask) for subtask in range(source.parallelism)]
        if channel.ship is Ship.FORWARD:
            streams = producers
        else:
            made = self._exchange(node, channel, producers)
            self._closing.append(made)
            streams = [made.receive(subtask) for subtask in range(node.parallelism)]
        if channel.local is Local.NONE:
            return streams
        return [self._sorted(node, channel, subtask, stream) for subtask, stream in enumerate(streams)]

    def _exchange(self, node: PhysicalNode, channel: Channel, producers: list[Blocks]) -> Exchange:
        consumers = node.parallelism
        shares = [self._share(node.name, subtask) for subtask in range(consumers)]
        count = len(producers)
        key = channel.key

        def column(subtask: int) -> KeyColumn:
            assert key is not None
            # Keys are extracted where records come from: by the task of the producer.
            return self.tasks[id(channel.source), subtask].column(key)

        match channel.ship:
            case Ship.PARTITION_HASH:
                routers = [exchange.by_hash(consumers, column(subtask)) for subtask in range(count)]
            case Ship.BROADCAST:
                routers = [exchange.to_all(consumers)] * count
            case Ship.PARTITION_CUSTOM:
                call = channel.partition.partitioner
                routers = [
                    exchange.by_partitioner(
                        consumers, column(subtask), self.tasks[id(channel.source), subtask].function(call), node.name
                    )
                    for subtask in range(count)
                ]
            case Ship.PARTITION_RANGE:
                assert key is not None
                columns: list[Any] = [FieldColumn((path,), node.name) for path in key.paths] or [column(0)]
                order = Order(columns, channel.partition.descending)
                return RangeExchange(producers, order, column(0), shares, self._share(node.name, 0))
            case _:
                routers = [exchange.in_turn(consumers, subtask % consumers) for subtask in range(count)]
        return Exchange(producers, routers, shares)

    def _sorted(self, node: PhysicalNode, channel: Channel, subtask: int, stream: Blocks) -> Blocks:
        task = self.tasks[id(node), subtask]
        column = task.column(channel.sort_key) if channel.sort_key is not None else None
        combine = self._combine(task, channel) if channel.local is Local.COMBININGSORT else None
        sorter = ExternalSorter(self._share(node.name, subtask), order_of(channel.ordering, node.name, column), combine)
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

    def _combine(self, task: Task, channel: Channel) -> Any:
        assert channel.sort_key is not None
        column = task.column(channel.sort_key)
        if isinstance(task.node, nodes.Reduce):
            return partial(_reduced, task, column)
        function = task.function(task.node.combiner)
        return lambda records: (
            record
            for key, group in groups(iter([records]), column)
            for record in task.results(function, f"the group of the key {key!r}", group)
        )

    # ---- the end

    def close(self) -> None:
        """Stop what runs, close the functions, give back memory and disk space; raise the first error of a function."""
        first: BaseException | None = None
        for generator in reversed(self._generators):
            generator.close()  # type: ignore[attr-defined]
        for each in (*reversed(self._closing), *self.tasks.values()):
            try:
                each.close()
            except Exception as error:  # noqa: BLE001 - raised below, once everything is closed
                first = first or error
        if first is not None:
            raise first


def _reduced(task: Task, column: KeyColumn, records: Block) -> Iterator[Any]:
    try:
        yield from reduced(records, column, task.function())
    except Exception as error:
        raise task.failed(error, "failed while it combined sorted records") from error


class _Part:
    """What a sink's task writes to, if the format keeps everything in this process."""

    def __init__(self, take: Any) -> None:
        self.write = take

    def close(self) -> None:
        """Do nothing."""


@dataclass
class Outcome:
    """What a finished job leaves."""

    accumulators: dict[str, Accumulator]
    spilled: int
    spill_files: int
    peak: int


def run(
    sinks: Sequence[PhysicalNode],
    budget: int,
    directories: Sequence[str] = (),
    parameters: Mapping[str, str] | None = None,
    cached_files: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a plan; raise what fails, when everything is closed."""
    parallelism = max(node.parallelism for node in walk(sinks))
    with SpillSpace(directories) as space:
        consumers = memory_consumers(sinks)
        memories = [MemoryManager(budget, consumers, space) for _ in range(parallelism)]
        job = Surroundings(space, memories, parameters or {}, cached_files or {})
        pipeline = Pipeline(sinks, job)
        formats: list[Any] = []
        try:
            for sink in sinks:
                output = sink.node.format  # type: ignore[attr-defined]
                output.begin(sink.parallelism)
                formats.append(output)
            pipeline.wire()
            _drain(pipeline, sinks)
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one that counts
                pipeline.close()
            for output in formats:
                output.abort()
            raise
        try:
            pipeline.close()
        except BaseException:
            for output in formats:
                output.abort()
            raise
        for output in formats:
            output.commit()
        peak = max(memory.peak for memory in memories)
        return Outcome(merged(job.accumulators), space.spilled, space.files, peak)


def _drain(pipeline: Pipeline, sinks: Sequence[PhysicalNode]) -> None:
    """Read all sinks in turn, a block each."""
    running = []
    for sink in sinks:
        for subtask in range(sink.parallelism):
            task = pipeline.tasks[id(sink), subtask]
            task.kept["output"] = _opened(sink, subtask)
            running.append(pipeline.stream(sink, subtask))
    while running:
        running = [stream for stream in running if next(stream, None) is not None]


def _opened(sink: PhysicalNode, subtask: int) -> Any:
    output = sink.node.format  # type: ignore[attr-defined]
    if not output.travels:
        return _Part(output.part(subtask))
    own = copy.copy(output)
    own.open(subtask, sink.parallelism)
    return own
