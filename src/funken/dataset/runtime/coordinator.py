"""The coordinator of an iteration: counts the reports of a superstep, and decides whether there is another one.

A state machine without I/O: reports in, at most one decision per superstep out. Every subtask reports once per superstep; a
report of another superstep, or a second one, is a fault of whoever drives the tasks, and raises.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from funken.api.jobs.batch import IterationProgress, SuperstepProgress
from funken.dataset.memory.blocks import Block
from funken.dataset.optimizer.physical import PhysicalNode, walk
from funken.dataset.plan.nodes import Aggregators


@dataclass(frozen=True)
class Report:
    """What a subtask has at the end of a superstep. ``workset`` and ``termination`` count its records; None: there is none.

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


FEEDBACK, SOLUTION, ACCUMULATORS = range(3)
"""What a part of a snapshot belongs to: the partial solution or workset, the solution set, what the step has counted."""

Part = tuple[int, Block]


@dataclass(frozen=True)
class Restored:
    """Where an iteration goes on: the decision of an earlier attempt, and the parts of its snapshot in this process."""

    decision: Next
    parts: Iterator[Part]


class Supersteps(Protocol):
    """Ends the supersteps of one iteration."""

    def restored(self) -> Restored | None:
        """Return where the iteration goes on; None: it begins."""

    def end(self, reports: Sequence[Report], snapshot: Callable[[], Iterator[Part]]) -> Next | StopSupersteps:
        """Report the subtasks of this process; return the decision when those of all others have reported.

        ``snapshot`` returns what they have, if that is to be written first.
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
