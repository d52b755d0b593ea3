"""The coordinator of an iteration: counts the reports of a superstep, and decides whether there is another one.

A state machine without I/O: reports in, at most one decision per superstep out. Every subtask reports once per superstep; a
report of another superstep, or a second one, is a fault of whoever drives the tasks, and raises.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from funken.dataset.memory.blocks import Block
from funken.dataset.plan.nodes import Aggregators


@dataclass(frozen=True)
class Report:
    """What a subtask has at the end of a superstep. ``workset`` and ``termination`` count its records; None: there is none.

    ``began`` is the size of the workset at the beginning of the superstep.
    """

    superstep: int
    subtask: int
    aggregates: Mapping[str, Any] = field(default_factory=dict)
    workset: int | None = None
    termination: int | None = None
    began: int | None = None


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
        reason = self._reason(reports, aggregates)
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
