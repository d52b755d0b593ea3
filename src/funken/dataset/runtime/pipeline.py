"""A plan, wired: its tasks, its exchanges, and what several operators read.

``Pipeline`` makes them for this process; an iteration makes a pipeline of its step, and wires that anew for each superstep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from funken.dataset.memory.blocks import Block, records_of
from funken.dataset.memory.manager import MemoryManager, Share
from funken.dataset.memory.order import Order
from funken.dataset.memory.sorter import ExternalSorter
from funken.dataset.memory.spill import SpillSpace
from funken.dataset.optimizer.physical import PhysicalNode, PlanChannel, walk
from funken.dataset.optimizer.strategies import Local, Ship
from funken.dataset.plan import nodes
from funken.dataset.plan.keys import FieldColumn, KeyColumn, order_of
from funken.dataset.runtime import exchange
from funken.dataset.runtime.accumulators import Accumulator
from funken.dataset.runtime.context import Superstep, TaskContext
from funken.dataset.runtime.drivers import DRIVERS
from funken.dataset.runtime.exchange import Exchange, RangeExchange, Shared
from funken.dataset.runtime.groups import groups, reduced
from funken.dataset.runtime.task import Blocks, DriverTask
from funken.errors import InvalidProgram


@dataclass
class BatchJob:
    """What all tasks of a job have in common."""

    space: SpillSpace
    memories: list[MemoryManager]
    parameters: Mapping[str, str] = field(default_factory=dict)
    cached_files: Mapping[str, str] = field(default_factory=dict)
    accumulators: list[dict[str, Accumulator]] = field(default_factory=list)
    iterations: list[tuple[str, int, str, tuple[int, ...]]] = field(default_factory=list)
    run_iteration: Callable[[PhysicalNode, list[list[Blocks]], BatchJob], Any] | None = None

    def memory(self, subtask: int) -> MemoryManager:
        """Return the managed memory of the subtasks with this index."""
        return self.memories[subtask]


class Pipeline:
    """The tasks of a plan, wired. ``given`` are the outputs of nodes that are computed elsewhere, by subtask."""

    def __init__(
        self,
        roots: Sequence[PhysicalNode],
        job: BatchJob,
        supersteps: Sequence[Superstep] = (),
        outside: Mapping[int, Any] | None = None,
    ) -> None:
        self.job = job
        self.plan = list(walk(roots, outside or ()))
        self._supersteps = supersteps
        self.tasks: dict[tuple[int, int], DriverTask] = {}
        self._closing: list[Any] = []
        self._generators: list[Any] = []
        self._streams: dict[int, list[Blocks]] = {}
        self._shared: dict[int, list[Shared]] = {}
        self._readers: dict[int, int] = {}
        for root in roots:
            self._readers[id(root)] = self._readers.get(id(root), 0) + 1
        for node in self.plan:
            for channel in node.channels:
                self._readers[id(channel.source)] = self._readers.get(id(channel.source), 0) + 1
            for subtask in range(node.parallelism):
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
            superstep=self._supersteps[subtask] if self._supersteps else None,
        )
        job.accumulators.append(context.accumulators)
        return DriverTask(node, context)

    # ---- wiring

    def wire(self, given: Mapping[int, list[Blocks]] | None = None) -> None:
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
                self._offer(id(node), node.name, run.streams())
                continue
            broadcasts = {name: self._broadcast(node, name, channel) for name, channel in node.broadcasts}
            streams = [
                self._run(self.tasks[id(node), subtask], [edge[subtask] for edge in inputs], broadcasts)
                for subtask in range(node.parallelism)
            ]
            self._generators += streams
            self._offer(id(node), node.name, streams)

    def offer_all(self, given: Mapping[int, list[Blocks]]) -> None:
        """Take streams as the outputs of nodes that are computed elsewhere."""
        for node, streams in given.items():
            self._offer(node, "iteration", streams)

    def _offer(self, node: int, name: str, streams: list[Blocks]) -> None:
        self._streams[node] = streams
        readers = self._readers.get(node, 0)
        if readers > 1:
            self._shared[node] = [
                Shared(stream, [self._share(name, subtask % len(self.job.memories)) for _ in range(readers)])
                for subtask, stream in enumerate(streams)
            ]
            self._closing += self._shared[node]

    def stream(self, node: PhysicalNode, subtask: int) -> Blocks:
        """Return the output of a subtask for its next consumer."""
        if id(node) in self._shared:
            return self._shared[id(node)][subtask].reader()
        return self._streams[id(node)][subtask]

    def _share(self, operator: str, subtask: int) -> Share:
        return self.job.memory(subtask).share(operator)

    def _run(self, task: DriverTask, inputs: list[Blocks], broadcasts: dict[str, Any]) -> Blocks:
        for name, read in broadcasts.items():
            task.context.broadcasts[name] = read()
        task.open()
        yield from DRIVERS[task.plan.driver](task, *inputs)

    def _broadcast(self, node: PhysicalNode, name: str, channel: PlanChannel) -> Any:
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

    def _edge(self, node: PhysicalNode, channel: PlanChannel, place: int) -> list[Blocks]:
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
        ordered = [self._sorted(node, channel, subtask, stream) for subtask, stream in enumerate(streams)]
        self._generators += ordered
        return ordered

    def _exchange(self, node: PhysicalNode, channel: PlanChannel, producers: list[Blocks]) -> Exchange:
        consumers = node.parallelism
        shares = [self._share(node.name, subtask) for subtask in range(consumers)]
        count = len(producers)
        key = channel.key

        def task(subtask: int) -> DriverTask:
            return self.tasks[id(node), subtask % consumers]

        def column(subtask: int) -> KeyColumn:
            assert key is not None
            return task(subtask).column(key)

        match channel.ship:
            case Ship.PARTITION_HASH:
                routers = [exchange.by_hash(consumers, column(subtask)) for subtask in range(count)]
            case Ship.BROADCAST:
                routers = [exchange.to_all(consumers)] * count
            case Ship.PARTITION_CUSTOM:
                call = channel.partition.partitioner
                routers = [
                    exchange.by_partitioner(consumers, column(subtask), task(subtask).function(call), node.name)
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

    def _sorted(self, node: PhysicalNode, channel: PlanChannel, subtask: int, stream: Blocks) -> Blocks:
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

    def _combine(self, task: DriverTask, channel: PlanChannel) -> Any:
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

    def close_streams(self) -> None:
        """Stop what runs, and drop what was not read."""
        for each in (*reversed(self._generators), *reversed(self._closing)):
            each.close()
        self._generators, self._closing = [], []

    def close(self) -> None:
        """Stop what runs, close the functions, give back memory and disk space; raise the first error of a function."""
        first: BaseException | None = None
        self.close_streams()
        for each in self.tasks.values():
            try:
                each.close()
            except Exception as error:  # noqa: BLE001 - raised below, once everything is closed
                first = first or error
        if first is not None:
            raise first


def _reduced(task: DriverTask, column: KeyColumn, records: Block) -> Iterator[Any]:
    try:
        yield from reduced(records, column, task.function())
    except Exception as error:
        raise task.failed(error, "failed while it combined sorted records") from error
