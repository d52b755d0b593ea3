"""Iterations: the tasks of the step are made once, and read once per superstep.

What the tasks keep stays: hash tables of constant build sides, constant inputs behind their exchange and sort (``Replay``),
constant broadcast sets. The exchanges of the dynamic path are made anew for each superstep, so that their end is its
barrier. What was emitted becomes visible to the next superstep only: partial solution and workset are collected, changes of
the solution set are applied when all tasks have ended the superstep. That is known when every subtask has reported its end:
``Supersteps`` (in ``coordinator.py``) is the seam to whoever counts the reports, which is the driver on a cluster.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from funken.dataset.memory.blocks import Blocks
from funken.dataset.memory.buffers import BlockCache
from funken.dataset.memory.manager import Share
from funken.dataset.memory.solution_set import SolutionSet
from funken.dataset.optimizer.physical import PhysicalNode, PlanChannel
from funken.dataset.optimizer.strategies import DriverStrategy, Temp
from funken.dataset.plan import nodes
from funken.dataset.plan.keys import KeyColumn
from funken.dataset.runtime.accumulators import merged
from funken.dataset.runtime.context import Superstep
from funken.dataset.runtime.coordinator import (
    ACCUMULATORS,
    FEEDBACK,
    SOLUTION,
    Next,
    Part,
    Report,
    StopSupersteps,
    Supersteps,
    walk_step,
    width_of,
)
from funken.dataset.runtime.pipeline import BatchJob, Pipeline, Streams
from funken.errors import InvalidProgram
from funken.io.pickling import dumps
from funken.timing.clock import SystemClock

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
        supersteps: Mapping[int, Superstep],
        statics: Mapping[int, Streams],
    ) -> None:
        super().__init__(roots, job, supersteps, outside=statics)
        self._statics = dict(statics)
        self._constant: dict[tuple[int, int], dict[int, Any]] = {}
        self._constant_sets: dict[tuple[int, str], Any] = {}
        self._kept: list[Any] = []
        self.offer_all(statics)
        self._keep()

    def _keep(self) -> None:
        """Let what was wired so far live as long as the iteration."""
        self._kept += [*self._generators, *self._closing]
        self._generators, self._closing = [], []

    def begin(self, superstep: int, given: Mapping[int, Streams]) -> None:
        """Wire a superstep."""
        self.superstep = superstep
        self.wire(given)

    def end(self) -> None:
        """End a superstep: close its exchanges and the functions, which are opened again by the next one."""
        super().close_streams()
        for task in self.every_task():
            task.end_superstep()
            task.context.accumulators = {}  # what was added so far is in the lists
            self.count(task.context.accumulators)

    def _edge(self, node: PhysicalNode, channel: PlanChannel, place: int) -> Streams:
        if id(channel.source) not in self._statics:
            return super()._edge(node, channel, place)
        at = (id(node), place)
        first = at not in self._constant
        if first:
            generators, closing = self._generators, self._closing
            self._generators, self._closing = [], []
            streams = super()._edge(node, channel, place)
            if channel.temp is Temp.CACHED:
                made = {at: Replay(stream, self._share(node.name, at)) for at, stream in streams.items()}
                self._closing += made.values()
                self._constant[at] = made
            else:  # the driver keeps it in a table of its own
                self._constant[at] = streams
            self._keep()
            self._generators, self._closing = generators, closing
        if channel.temp is Temp.CACHED:
            return {subtask: replay.blocks() for subtask, replay in self._constant[at].items()}
        return self._constant[at] if first else {subtask: iter(()) for subtask in self._constant[at]}

    def _broadcast(self, node: PhysicalNode, name: str, channel: PlanChannel) -> Any:
        if id(channel.source) not in self._statics:
            return super()._broadcast(node, name, channel)
        if (id(node), name) not in self._constant_sets:
            closing, self._closing = self._closing, []
            self._constant_sets[id(node), name] = super()._broadcast(node, name, channel)
            self._kept, self._closing = [*self._kept, *self._closing], closing
        return self._constant_sets[id(node), name]

    def close(self) -> None:
        """End the iteration."""
        self._closing = [*self._kept, *self._closing]
        super().close()


class IterationRun:
    """One iteration of a program; it runs when its result is first read."""

    def __init__(self, plan: PhysicalNode, inputs: list[Streams], job: BatchJob) -> None:
        self._plan = plan
        self._node = _node(plan)
        self._job = job
        count = len(self._node.inputs)
        self._initial = inputs[:count]
        statics = {
            id(channel.source): streams for channel, streams in zip(plan.inputs[count:], inputs[count:], strict=True)
        }
        self._step = walk_step(plan)
        self._hosted = job.hosted(plan.parallelism)
        self._supersteps = {
            at: Superstep(aggregators={name: copy.deepcopy(made) for name, made in self._node.aggregators.made})
            for at in job.hosted(width_of(plan))
        }
        assert job.supersteps is not None
        self._ending: Supersteps = job.supersteps(plan)
        self._pipeline = StepPipeline(plan.step, job, self._supersteps, statics)
        self._results: Mapping[int, Any] | None = None
        self._clock = SystemClock()
        self._began, self._spilled = 0.0, 0

    def streams(self) -> Streams:
        """Return the result by subtask."""
        return {subtask: self._read(subtask) for subtask in self._hosted}

    def _read(self, subtask: int) -> Blocks:
        self.run()
        assert self._results is not None
        found = self._results[subtask]
        yield from found if isinstance(found, BlockCache) else found.blocks()

    def run(self) -> None:
        """Run all supersteps, unless they have run."""
        if self._results is None and self._supersteps:
            bulk = self._plan.driver is DriverStrategy.BULK_ITERATION
            self._results = self._bulk() if bulk else self._delta()

    @property
    def is_read(self) -> bool:
        """Whether this process has a part of the result, so that reading it runs the supersteps."""
        return bool(self._hosted) or not self._supersteps

    def _caches(self, streams: Streams | None = None) -> dict[int, BlockCache]:
        caches = {at: BlockCache(self._job.memory(at).share(self._node.name)) for at in self._hosted}
        for at, stream in (streams or {}).items():
            for block in stream:
                caches[at].add(block)
        return caches

    def _placeholder(self, node: nodes.Node) -> int:
        return next((id(plan) for plan in self._step if plan.node is node), 0)

    # ---- the two kinds

    def _bulk(self) -> dict[int, BlockCache]:
        current = self._begin(self._initial[0])
        partial = self._placeholder(self._node.partial)
        while True:
            self._pipeline.begin(self._number, {partial: {at: iter(cache) for at, cache in current.items()}})
            following = self._caches()
            termination = dict.fromkeys(self._supersteps, 0)
            feedback, *ending = self._plan.step
            running = [(stream, following[at], at) for at, stream in self._pipeline.streams(feedback).items()]
            counted = [(stream, None, at) for root in ending for at, stream in self._pipeline.streams(root).items()]
            _drain([*running, *counted], termination)
            self._pipeline.end()
            for cache in current.values():
                cache.close()
            current = following
            if isinstance(self._decide(current, {}, {}, termination if ending else {}), StopSupersteps):
                self._pipeline.close()
                return current

    def _delta(self) -> dict[int, SolutionSet]:
        keys = self._keys
        solution = {at: SolutionSet(self._job.memory(at).share(self._node.name)) for at in self._hosted}
        current = self._begin(self._initial[1], solution)
        for task in self._pipeline.tasks.values():
            if task.plan.driver.name.startswith("SOLUTION_SET_"):
                task.kept["solution"] = solution[task.context.subtask]
        workset, entries = self._placeholder(self._node.workset), self._placeholder(self._node.solution)
        while True:
            began = {at: current[at].records if at in current else 0 for at in self._supersteps}
            given: dict[int, Streams] = {
                workset: {at: iter(cache) for at, cache in current.items()},
                entries: {at: iter(()) for at in self._hosted},
            }
            self._pipeline.begin(self._number, given)
            following, changes = self._caches(), self._caches()
            feedback, delta = self._plan.step
            running: list[Reading] = [
                (stream, following[at], at) for at, stream in self._pipeline.streams(feedback).items()
            ]
            running += [(stream, changes[at], at) for at, stream in self._pipeline.streams(delta).items()]
            _drain(running, {})
            self._pipeline.end()
            for cache in current.values():
                cache.close()
            current = following
            for at, change in changes.items():
                for block in change:
                    solution[at].put(block, keys(block))
                change.close()
            if isinstance(self._decide(current, solution, began, {}), StopSupersteps):
                for cache in current.values():
                    cache.close()
                self._pipeline.close()
                return solution

    @cached_property
    def _keys(self) -> KeyColumn:
        return KeyColumn(self._node.key, self._node.name)

    @property
    def _number(self) -> int:
        return next((superstep.number for superstep in self._supersteps.values()), 1)

    def _begin(self, initial: Streams, solution: Mapping[int, SolutionSet] | None = None) -> dict[int, BlockCache]:
        """Return what the first superstep begins with, or the one behind a checkpoint; fill the solution set."""
        current = self._began_with(initial, solution)
        self._began, self._spilled = self._clock.monotonic(), self._job.space.spilled
        return current

    def _began_with(self, initial: Streams, solution: Mapping[int, SolutionSet] | None) -> dict[int, BlockCache]:
        restored = self._ending.restored()
        if restored is None:
            for at, entries in (solution or {}).items():
                for block in self._initial[0][at]:
                    entries.put(block, self._keys(block))
            return self._caches(initial)
        self._proceed(restored.decision)
        current = self._caches()
        for section, block in restored.parts:
            match section:
                case 0:
                    for cache in current.values():
                        cache.add(block)
                case 1:
                    for entries in (solution or {}).values():
                        entries.put(block, self._keys(block))
                case _:
                    self._pipeline.count(pickle.loads(block[0]))
        return current

    def _snapshot(self, current: Mapping[int, BlockCache], solution: Mapping[int, SolutionSet]) -> Iterator[Part]:
        for cache in current.values():
            yield from ((FEEDBACK, block) for block in cache)
        for entries in solution.values():
            yield from ((SOLUTION, block) for block in entries.blocks())
        counted = pickle.loads(
            dumps(self._pipeline.counted, _not_kept, self._node.name)
        )  # a copy, as merging changes it
        yield ACCUMULATORS, [dumps(merged(counted), _not_kept, self._node.name)]

    def _proceed(self, decision: Next) -> None:
        for superstep in self._supersteps.values():
            superstep.number = decision.superstep
            superstep.previous = decision.aggregates
            for aggregator in superstep.aggregators.values():
                aggregator.reset()

    def _decide(
        self,
        current: Mapping[int, BlockCache],
        solution: Mapping[int, SolutionSet],
        began: Mapping[int, int],
        terminations: Mapping[int, int],
    ) -> StopSupersteps | Next:
        """Report the end of a superstep; an iteration without a workset or a termination set counts no records of it."""
        now, first = self._clock.monotonic(), next(iter(self._supersteps))
        spilled, self._spilled = self._job.space.spilled - self._spilled, self._job.space.spilled
        reports = [
            Report(
                superstep.number,
                at,
                {name: aggregator.get_aggregate() for name, aggregator in superstep.aggregators.items()},
                (current[at].records if at in current else 0) if began else None,
                terminations.get(at),
                began.get(at),
                current[at].records if at in current else 0,
                spilled if at == first else 0,
                now - self._began,
            )
            for at, superstep in self._supersteps.items()
        ]
        self._began = now
        decision = self._ending.end(reports, lambda: self._snapshot(current, solution))
        if isinstance(decision, StopSupersteps):
            self._job.iterations.append((self._node.name, decision.supersteps, decision.reason, decision.worksets))
        else:
            self._proceed(decision)
        return decision

    def close(self) -> None:
        """Stop what runs."""
        self._pipeline.close()


def _drain(running: list[Reading], counts: dict[int, int]) -> None:
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


def _not_kept(error: Exception, iteration: str) -> InvalidProgram:
    return InvalidProgram(
        f"operator {iteration!r} cannot be checkpointed, as an accumulator of its step cannot be pickled: "
        f"{type(error).__name__}: {error}. Keep locks, files and connections out of it."
    )


def _node(plan: PhysicalNode) -> Any:
    return plan.node
