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
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from funken.api.jobs.notebook import IterationProgress, SuperstepProgress
from funken.dataset.memory.manager import Block, BlockCache, Blocks, Share, blocks_of, weight
from funken.dataset.optimizer.costs import DriverStrategy, Temp
from funken.dataset.optimizer.physical import PhysicalNode, PlanChannel, walk
from funken.dataset.plan import nodes
from funken.dataset.plan.keys import KeyColumn
from funken.dataset.plan.nodes import Aggregators
from funken.dataset.runtime.context import Aggregator, Superstep, merged
from funken.dataset.runtime.pipeline import BatchJob, Pipeline, Streams
from funken.errors import InvalidProgram, StateTooLarge
from funken.io.shapes import dumps
from funken.timing.clock import SystemClock
from funken.types.callables import Generic, IN_contra, OUT_co, T

# ---- The coordinator of an iteration: counts the reports of a superstep, and decides whether there is another one.
#
# A state machine without I/O: reports in, at most one decision per superstep out. Every subtask reports once per
# superstep; a report of another superstep, or a second one, is a fault of whoever drives the tasks, and raises.


@dataclass(frozen=True)
class Report:
    """A subtask's report of a superstep's end. ``workset`` and ``termination`` count its records; None: there is none.

    ``began`` is the size of the workset at the beginning of the superstep. ``records`` are those that it has left, ``spilled``
    the bytes of its process, ``seconds`` how long it took: they are only shown.
    """

    superstep: int
    subtask: int
    aggregates: Mapping[str, Any] = field(default_factory=dict)
    workset: int | None = None
    termination: int | None = None
    began: int | None = None
    records: int = field(default=0, repr=False, compare=False)
    spilled: int = field(default=0, repr=False, compare=False)
    seconds: float = field(default=0.0, repr=False, compare=False)


@dataclass(frozen=True)
class Next:
    """There is another superstep; ``aggregates`` are the global values of the one before.

    ``checkpoint``: its end is to be part of a checkpoint.
    """

    superstep: int
    aggregates: Mapping[str, Any]
    checkpoint: bool = field(default=False, repr=False, compare=False)


@dataclass(frozen=True)
class StopSupersteps:
    """That was the last superstep; ``worksets`` are the sizes of the worksets that the supersteps began with."""

    supersteps: int
    reason: str
    worksets: tuple[int, ...] = field(default=(), repr=False, compare=False)


class IterationCoordinator:
    """Decides for one iteration.

    >>> coordinator = IterationCoordinator(subtasks=2, maximum=10)
    >>> coordinator.report(Report(1, 0, workset=3)), coordinator.report(Report(1, 1, workset=0))
    (None, Next(superstep=2, aggregates={}))
    >>> coordinator.report(Report(2, 1, workset=0)), coordinator.report(Report(2, 0, workset=0))
    (None, StopSupersteps(supersteps=2, reason='the workset is empty'))
    """

    def __init__(self, subtasks: int, maximum: int, aggregators: Aggregators = Aggregators()) -> None:  # noqa: B008 - immutable
        self.superstep = 1
        self._subtasks = subtasks
        self._maximum = maximum
        self._aggregators = aggregators
        self._reports: dict[int, Report] = {}
        self._worksets: list[int] = []
        self._ended: list[SuperstepProgress] = []
        self._ending = ""

    def progress(self, name: str) -> IterationProgress:
        """Return the supersteps that have ended; may be called by another thread."""
        return IterationProgress(name, self._maximum, tuple(self._ended), self._ending)

    @property
    def worksets(self) -> tuple[int, ...]:
        """Return the sizes of the worksets that the supersteps began with."""
        return tuple(self._worksets)

    def restore(self, decision: Next, worksets: tuple[int, ...]) -> None:
        """Go on after a decision of an earlier attempt."""
        self.superstep = decision.superstep
        self._worksets = list(worksets)

    def report(self, report: Report) -> Next | StopSupersteps | None:
        """Take a report; return the decision if it was the last one of the superstep."""
        if report.superstep != self.superstep or report.subtask in self._reports:
            raise RuntimeError(f"unexpected {report}: superstep {self.superstep}, reported: {sorted(self._reports)}")
        self._reports[report.subtask] = report
        if len(self._reports) < self._subtasks:
            return None
        reports = [self._reports[subtask] for subtask in sorted(self._reports)]
        self._reports = {}
        aggregates = self._merged(reports)
        began = [report.began for report in reports if report.began is not None]
        if began:
            self._worksets.append(sum(began))
        self._ended.append(
            SuperstepProgress(
                self.superstep,
                max(report.seconds for report in reports),
                sum(report.records for report in reports),
                sum(report.spilled for report in reports),
                sum(began) if began else None,
            )
        )
        reason = self._ending = self._reason(reports, aggregates)
        if reason:
            return StopSupersteps(self.superstep, reason, self.worksets)
        self.superstep += 1
        return Next(self.superstep, aggregates)

    def _merged(self, reports: list[Report]) -> dict[str, Any]:
        found = {}
        for name, made in self._aggregators.made:
            whole = copy.deepcopy(made)
            whole.reset()
            for report in reports:
                whole.aggregate(report.aggregates[name])
            found[name] = whole.get_aggregate()
        return found

    def _reason(self, reports: list[Report], aggregates: Mapping[str, Any]) -> str:
        if _is_zero([report.workset for report in reports]):
            return "the workset is empty"
        if _is_zero([report.termination for report in reports]):
            return "the termination criterion is empty"
        if self._aggregators.convergence is not None:
            name, criterion = self._aggregators.convergence
            converged: Callable[[int, Any], bool] = getattr(criterion, "is_converged", criterion)
            if converged(self.superstep, aggregates[name]):
                return f"the aggregator {name!r} has converged"
        return "the maximum is reached" if self.superstep >= self._maximum else ""


def _is_zero(counts: list[int | None]) -> bool:
    return None not in counts and not any(counts)


class SolutionSet:
    """A table that is looked up and updated; it does not spill.

    >>> from funken.dataset.memory.manager import MemoryManager
    >>> from funken.io.spill import SpillSpace
    >>> solution = SolutionSet(MemoryManager(4096, 1, SpillSpace()).share("solution set"))
    >>> solution.put([(1, "a"), (2, "b")], [1, 2])
    >>> solution.put([(1, "c")], [1])
    >>> solution.get(1), solution.get(3), list(solution.blocks())
    ((1, 'c'), None, [[(1, 'c'), (2, 'b')]])
    """

    def __init__(self, share: Share) -> None:
        self._share = share
        self._entries: dict[Hashable, Any] = {}
        self.get = self._entries.get

    def put(self, block: Block, keys: list[Hashable]) -> None:
        """Add or replace entries."""
        share = self._share
        size = weight(block)
        self._entries.update(zip(keys, block, strict=True))
        share.reserve(size)
        if share.used > share.limit:  # replaced entries were counted, too: measure what is there
            share.measure(sum(map(weight, self.blocks())))
            if not share.fits(0):
                raise StateTooLarge(
                    f"operator {share.operator!r}: the solution set of a subtask has {share.used:,} bytes in "
                    f"{len(self._entries):,} entries, but its share of the memory is {share.limit:,}. "
                    "Raise execution.memory.managed, or the parallelism."
                )

    def blocks(self) -> Iterator[Block]:
        """Return the entries."""
        return blocks_of(self._entries.values())

    def close(self) -> None:
        """Drop everything."""
        self._entries.clear()
        self._share.close()


FEEDBACK, SOLUTION, ACCUMULATORS = range(3)
"""The owner of a part of a snapshot: the partial solution or workset, the solution set, the accumulators."""

Part = tuple[int, Block]


@dataclass(frozen=True)
class Restored:
    """The start of a restored iteration: an earlier attempt's decision, and this process's parts of its snapshot."""

    decision: Next
    parts: Iterator[Part]


class Supersteps(Protocol):
    """Ends the supersteps of one iteration."""

    def restored(self) -> Restored | None:
        """Return the start of a restored iteration; None: it begins."""

    def end(self, reports: Sequence[Report], snapshot: Callable[[], Iterator[Part]]) -> Next | StopSupersteps:
        """Report the subtasks of this process; return the decision when those of all others have reported.

        ``snapshot`` returns their parts, if these are to be written first.
        """


class LocalSupersteps:
    """All subtasks report in this process, which has no earlier attempt."""

    def __init__(self, plan: PhysicalNode) -> None:
        self._name = plan.name
        self._coordinator = coordinator_of(plan)

    def progress(self) -> IterationProgress:
        """Return the supersteps that have ended."""
        return self._coordinator.progress(self._name)

    def restored(self) -> Restored | None:
        """Return that the iteration begins."""
        return None

    def end(self, reports: Sequence[Report], snapshot: Callable[[], Iterator[Part]]) -> Next | StopSupersteps:
        """Report all subtasks; return the decision."""
        decisions = [self._coordinator.report(report) for report in reports]
        assert decisions[-1] is not None
        return decisions[-1]


def coordinator_of(plan: PhysicalNode) -> IterationCoordinator:
    """Return a coordinator for an iteration: one report per subtask of the widest operator of the step."""
    node: Any = plan.node
    return IterationCoordinator(width_of(plan), node.maximum, node.aggregators)


def width_of(plan: PhysicalNode) -> int:
    """Return the parallelism of an iteration, its step included."""
    return max([plan.parallelism, *(node.parallelism for node in walk_step(plan))])


def walk_step(plan: PhysicalNode) -> list[PhysicalNode]:
    """Return the nodes of an iteration's step, without the constant ones that it reads."""
    return list(walk(plan.step, {id(channel.source) for channel in plan.inputs}))


Reading = tuple[Blocks, BlockCache | None, int]
"""A stream of a superstep, where its records go (None: they are only counted), and its subtask."""


class Replay:
    """A stream that is kept as it is read, so that it can be read again."""

    def __init__(self, stream: Blocks, share: Share) -> None:
        self._stream = stream
        self._cache = BlockCache(share)

    def blocks(self) -> Blocks:
        """Return all blocks: those that were kept, then the rest of the stream."""
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
        """Let the streams wired so far live as long as the iteration."""
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
        """True if this process has a part of the result, so that reading it runs the supersteps."""
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
        """Return the inputs of the first superstep, or the one behind a checkpoint; fill the solution set."""
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
        """Stop running supersteps."""
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


# ---- Aggregators of an iteration: values that functions add to in a superstep, global when it has ended.


class _HeldAggregate(Aggregator[IN_contra, OUT_co], Generic[IN_contra, OUT_co]):
    """An aggregator of one value, which begins with ``_start``.

    >>> total = LongSumAggregator()
    >>> total.aggregate(2)
    >>> total.reset()
    >>> total.get_aggregate()
    0
    """

    _start: Any = None

    def __init__(self) -> None:
        self._value: Any = self._start

    def get_aggregate(self) -> OUT_co:
        """Return the aggregate so far in this superstep."""
        value: OUT_co = self._value
        return value

    def reset(self) -> None:
        """Begin anew."""
        self._value = self._start


class LongSumAggregator(_HeldAggregate[int, int]):
    """A sum of whole numbers.

    >>> total = LongSumAggregator()
    >>> total.aggregate(2)
    >>> total.aggregate(3)
    >>> total.get_aggregate()
    5
    >>> total.reset()
    >>> total.get_aggregate()
    0
    """

    _start = 0

    def aggregate(self, value: int) -> None:
        """Add a number."""
        self._value += value


class DoubleSumAggregator(_HeldAggregate[float, float]):
    """A sum of fractional numbers.

    >>> total = DoubleSumAggregator()
    >>> total.aggregate(0.5)
    >>> total.get_aggregate()
    0.5
    """

    _start = 0.0

    def aggregate(self, value: float) -> None:
        """Add a number."""
        self._value += value


class MaxAggregator(_HeldAggregate[T | None, T | None], Generic[T]):
    """The greatest value; None of no value.

    >>> greatest = MaxAggregator()
    >>> greatest.aggregate(2)
    >>> greatest.aggregate(1)
    >>> greatest.get_aggregate()
    2
    """

    def aggregate(self, value: T | None) -> None:
        """Take a value; None is none."""
        if value is not None and (self._value is None or value > self._value):
            self._value = value


class MinAggregator(_HeldAggregate[T | None, T | None], Generic[T]):
    """The least value; None of no value.

    >>> least = MinAggregator()
    >>> least.aggregate(2)
    >>> least.get_aggregate()
    2
    """

    def aggregate(self, value: T | None) -> None:
        """Take a value; None is none."""
        if value is not None and (self._value is None or value < self._value):
            self._value = value
