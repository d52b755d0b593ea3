"""Iterations in this process: the tasks of the step are made once, and read once per superstep.

What the tasks keep stays: hash tables of constant build sides, constant inputs behind their exchange and sort (``Replay``),
constant broadcast sets. The exchanges of the dynamic path are made anew for each superstep, so that their end is its
barrier. What was emitted becomes visible to the next superstep only: partial solution and workset are collected, changes of
the solution set are applied when all tasks have ended the superstep.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from funken.dataset.memory.blocks import Block
from funken.dataset.memory.buffers import BlockCache
from funken.dataset.memory.manager import Share
from funken.dataset.memory.solution_set import SolutionSet
from funken.dataset.optimizer.physical import PhysicalNode, PlanChannel, walk
from funken.dataset.optimizer.strategies import DriverStrategy, Temp
from funken.dataset.plan import nodes
from funken.dataset.plan.keys import KeyColumn
from funken.dataset.runtime.context import Superstep
from funken.dataset.runtime.coordinator import IterationCoordinator, Next, Report, StopSupersteps
from funken.dataset.runtime.pipeline import BatchJob, Pipeline
from funken.dataset.runtime.task import Blocks

Reading = tuple[Blocks, BlockCache | None, int]
"""A stream of a superstep, where its records go (None: they are only counted), and its subtask."""


class Replay:
    """A stream that is kept as it is read, so that it can be read again."""

    def __init__(self, stream: Blocks, share: Share) -> None:
        self._stream = stream
        self._cache = BlockCache(share)

    def blocks(self) -> Blocks:
        """Return all blocks: those that were kept, then what is left of the stream."""
        yield from self._cache
        for block in self._stream:
            self._cache.add(block)
            yield block

    def close(self) -> None:
        """Drop everything."""
        self._cache.close()


class StepPipeline(Pipeline):
    """The tasks of a step. Edges from constant nodes are wired once."""

    def __init__(
        self,
        roots: Sequence[PhysicalNode],
        job: BatchJob,
        supersteps: Sequence[Superstep],
        statics: Mapping[int, list[Blocks]],
    ) -> None:
        super().__init__(roots, job, supersteps, outside=statics)
        self._statics = dict(statics)
        self._constant: dict[tuple[int, int], list[Any]] = {}
        self._constant_sets: dict[tuple[int, str], Any] = {}
        self._kept: list[Any] = []
        self.offer_all(statics)
        self._keep()

    def _keep(self) -> None:
        """Let what was wired so far live as long as the iteration."""
        self._kept += [*self._generators, *self._closing]
        self._generators, self._closing = [], []

    def begin(self, given: Mapping[int, list[Blocks]]) -> None:
        """Wire a superstep."""
        self.wire(given)

    def end(self) -> None:
        """End a superstep: close its exchanges and the functions, which are opened again by the next one."""
        super().close_streams()
        for task in self.tasks.values():
            task.end_superstep()
            task.context.accumulators = {}  # what was added so far is in the job's list
            self.job.accumulators.append(task.context.accumulators)

    def _edge(self, node: PhysicalNode, channel: PlanChannel, place: int) -> list[Blocks]:
        if id(channel.source) not in self._statics:
            return super()._edge(node, channel, place)
        at = (id(node), place)
        first = at not in self._constant
        if first:
            generators, closing = self._generators, self._closing
            self._generators, self._closing = [], []
            streams = super()._edge(node, channel, place)
            if channel.temp is Temp.CACHED:
                made = [Replay(stream, self._share(node.name, subtask)) for subtask, stream in enumerate(streams)]
                self._closing += made
                self._constant[at] = made
            else:  # the driver keeps it in a table of its own
                self._constant[at] = streams
            self._keep()
            self._generators, self._closing = generators, closing
        if channel.temp is Temp.CACHED:
            return [replay.blocks() for replay in self._constant[at]]
        return self._constant[at] if first else [iter(()) for _ in self._constant[at]]

    def _broadcast(self, node: PhysicalNode, name: str, channel: PlanChannel) -> Any:
        if id(channel.source) not in self._statics:
            return super()._broadcast(node, name, channel)
        if (id(node), name) not in self._constant_sets:
            self._constant_sets[id(node), name] = super()._broadcast(node, name, channel)
        return self._constant_sets[id(node), name]

    def close(self) -> None:
        """End the iteration."""
        self._closing = [*self._kept, *self._closing]
        super().close()


class IterationRun:
    """One iteration of a program; it runs when its result is first read."""

    def __init__(self, plan: PhysicalNode, inputs: list[list[Blocks]], job: BatchJob) -> None:
        self._plan = plan
        self._node = _node(plan)
        self._job = job
        maximum, aggregators = self._node.maximum, self._node.aggregators
        count = len(self._node.inputs)
        self._initial = inputs[:count]
        statics = {
            id(channel.source): streams for channel, streams in zip(plan.inputs[count:], inputs[count:], strict=True)
        }
        self._step = walk_step(plan)
        width = max([plan.parallelism, *(node.parallelism for node in self._step)])
        self._supersteps = [
            Superstep(aggregators={name: copy.deepcopy(made) for name, made in aggregators.made}) for _ in range(width)
        ]
        self._coordinator = IterationCoordinator(plan.parallelism, maximum, aggregators)
        self._pipeline = StepPipeline(plan.step, job, self._supersteps, statics)
        self._results: list[Any] | None = None
        self.supersteps = 0
        self.worksets: list[int] = []

    def streams(self) -> list[Blocks]:
        """Return the result by subtask."""
        return [self._read(subtask) for subtask in range(self._plan.parallelism)]

    def _read(self, subtask: int) -> Blocks:
        if self._results is None:
            bulk = self._plan.driver is DriverStrategy.BULK_ITERATION
            self._results = self._bulk() if bulk else self._delta()
        found = self._results[subtask]
        yield from found if isinstance(found, BlockCache) else found.blocks()

    def _caches(self, streams: Sequence[Iterator[Block]] = ()) -> list[BlockCache]:
        caches = [BlockCache(self._job.memory(at).share(self._node.name)) for at in range(self._plan.parallelism)]
        for cache, stream in zip(caches, streams, strict=False):
            for block in stream:
                cache.add(block)
        return caches

    def _placeholder(self, node: nodes.Node) -> int:
        return next((id(plan) for plan in self._step if plan.node is node), 0)

    # ---- the two kinds

    def _bulk(self) -> list[BlockCache]:
        current = self._caches(self._initial[0])
        partial = self._placeholder(self._node.partial)
        while True:
            self._pipeline.begin({partial: [iter(cache) for cache in current]})
            following = self._caches()
            termination = [0] * self._plan.parallelism
            feedback, *ending = self._plan.step
            running = [(self._pipeline.stream(feedback, at), following[at], at) for at in range(feedback.parallelism)]
            counted = [
                (self._pipeline.stream(root, at), None, at % self._plan.parallelism)
                for root in ending
                for at in range(root.parallelism)
            ]
            _drain([*running, *counted], termination)
            self._pipeline.end()
            for cache in current:
                cache.close()
            current = following
            decision = self._decide([None] * len(current), [*termination] if ending else [None] * len(current))
            if isinstance(decision, StopSupersteps):
                self._pipeline.close()
                return current

    def _delta(self) -> list[SolutionSet]:
        parallelism = self._plan.parallelism
        key = self._node.key
        keys = KeyColumn(key, self._node.name)
        solution = [SolutionSet(self._job.memory(at).share(self._node.name)) for at in range(parallelism)]
        for at, stream in enumerate(self._initial[0]):
            for block in stream:
                solution[at].put(block, keys(block))
        for task in self._pipeline.tasks.values():
            if task.plan.driver.name.startswith("SOLUTION_SET_"):
                task.kept["solution"] = solution[task.context.subtask]
        current = self._caches(self._initial[1])
        workset, entries = self._placeholder(self._node.workset), self._placeholder(self._node.solution)
        while True:
            self.worksets.append(sum(cache.records for cache in current))
            self._pipeline.begin(
                {workset: [iter(cache) for cache in current], entries: [iter(()) for _ in range(parallelism)]}
            )
            following, changes = self._caches(), self._caches()
            feedback, delta = self._plan.step
            running: list[Reading] = [
                (self._pipeline.stream(feedback, at), following[at], at) for at in range(parallelism)
            ]
            running += [(self._pipeline.stream(delta, at), changes[at], at) for at in range(parallelism)]
            _drain(running, [0] * parallelism)
            self._pipeline.end()
            for cache in current:
                cache.close()
            current = following
            for at, change in enumerate(changes):
                for block in change:
                    solution[at].put(block, keys(block))
                change.close()
            decision = self._decide([cache.records for cache in current], [None] * parallelism)
            if isinstance(decision, StopSupersteps):
                for cache in current:
                    cache.close()
                self._pipeline.close()
                return solution

    def _decide(self, worksets: Sequence[int | None], terminations: Sequence[int | None]) -> StopSupersteps | Next:
        decision: StopSupersteps | Next | None = None
        parallelism = self._plan.parallelism
        for at, (workset, termination) in enumerate(zip(worksets, terminations, strict=True)):
            aggregates = {}
            for name, whole in self._supersteps[at].aggregators.items():
                # Tasks beyond the iteration's own parallelism report with the others.
                for other in self._supersteps[at + parallelism :: parallelism]:
                    whole.aggregate(other.aggregators[name].get_aggregate())
                aggregates[name] = whole.get_aggregate()
            report = Report(self._coordinator.superstep, at, aggregates, workset, termination)
            decision = self._coordinator.report(report)
        assert decision is not None
        if isinstance(decision, StopSupersteps):
            self.supersteps = decision.supersteps
            self._job.iterations.append((self._node.name, decision.supersteps, decision.reason, tuple(self.worksets)))
        else:
            for superstep in self._supersteps:
                superstep.number = decision.superstep
                superstep.previous = decision.aggregates
                for aggregator in superstep.aggregators.values():
                    aggregator.reset()
        return decision

    def close(self) -> None:
        """Stop what runs."""
        self._pipeline.close()


def walk_step(plan: PhysicalNode) -> list[PhysicalNode]:
    """Return the nodes of an iteration's step, without the constant ones that it reads."""
    return list(walk(plan.step, {id(channel.source) for channel in plan.inputs}))


def _drain(running: list[Reading], counts: list[int]) -> None:
    """Read all streams in turn, a block each, until all have ended."""
    while running:
        left = []
        for stream, cache, at in running:
            block = next(stream, None)
            if block is None:
                continue
            if cache is None:
                counts[at] += len(block)
            else:
                cache.add(block)
            left.append((stream, cache, at))
        running = left


def _node(plan: PhysicalNode) -> Any:
    return plan.node
