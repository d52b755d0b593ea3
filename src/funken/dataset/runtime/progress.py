"""How far a program is: counters of each operator in each process, and the picture that is made of them.

An operator is known by its place in the plan, which is the same in every process. A counter is changed by the thread that
reads the operator, once per block, and read by any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from funken.api.jobs.batch import BatchProgress, IterationProgress, OperatorProgress
from funken.dataset.memory.blocks import Blocks
from funken.dataset.optimizer.physical import PhysicalNode, everything
from funken.dataset.optimizer.strategies import DriverStrategy
from funken.timing.clock import Clock, SystemClock


class Counts(NamedTuple):
    """What the subtasks of an operator in one process have done; ``seconds`` since the first began, or until all had ended."""

    records_in: int = 0
    records_out: int = 0
    begun: int = 0
    running: int = 0
    seconds: float = 0.0


class OperatorCounter:
    """Counts what goes into the subtasks of one operator, and what comes out."""

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
        """Return what was counted so far."""
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
        """Return what was counted so far."""
        return tuple(counter.counts() for counter in self._counters)


class Figures(NamedTuple):
    """What an executor knows of a program that runs: the counters of every process, and the rest."""

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
        """Keep what is known at the end; nothing of the executor is kept. Again has no effect."""
        if self._seconds is not None:
            return
        self._seconds = self._clock.monotonic() - (self._began or 0.0)
        last = self.figures()
        self.figures = lambda: last

    def explain(self, as_json: bool = False) -> str:
        """Return the plan, as text or as JSON."""
        return self._explained(as_json)

    def progress(self) -> BatchProgress:
        """Return where the program stands."""
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
