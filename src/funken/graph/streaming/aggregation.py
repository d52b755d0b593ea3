"""Summaries of a stream of edges: folded in every task, merged pane by pane, kept in one task.

A *pane* is a window of event time, the same for all tasks. A task folds its edges into one accumulator per pane, and hands it on
when the watermark has passed the pane, before that watermark. So what merges has all of a pane when its own watermark passes,
and a result depends neither on the parallelism nor on the order of the edges, as long as the function's does not. No
accumulator is ever in two places: it is in the state of one task, or on the way.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, TypeAlias

from funken import MAX_WATERMARK, MIN_TIMESTAMP, AggregateFunction, DataStream, TumblingEventTimeWindows
from funken.errors import InvalidProgram
from funken.sdk import Operator, Timestamps, UserFunction, Values, copied_block

AT_END = MAX_WATERMARK + 1
"""The end of the only pane, where there is no window."""

Partial: TypeAlias = tuple[int, int, Any]
"""The number of the task that merges it, modulo its parallelism; the end of the pane; the accumulator."""


def aggregated(
    edges: DataStream[Any], function: AggregateFunction[Any, Any, Any], window: Any, degree: int | None, running: bool
) -> DataStream[Any]:
    """Return the summaries of a stream, one per pane."""
    for method in ("create_accumulator", "add", "get_result", "merge"):
        if not callable(getattr(function, method, None)) or isinstance(function, type):
            raise InvalidProgram(f"aggregate() needs an AggregateFunction with merge(), but got {function!r}.")
    if degree is not None and (isinstance(degree, bool) or not isinstance(degree, int) or degree < 2):
        raise InvalidProgram(f"aggregate(): the degree of the tree has to be 2 or more, but is {degree!r}.")
    size = AT_END if window is None else TumblingEventTimeWindows.of(window).size
    rich = hasattr(function, "open") and hasattr(function, "close")
    user = UserFunction(function, None, rich)
    partials = edges.transform("fold edges", FoldSpec(user, size, running))
    width = edges.get_execution_environment().get_parallelism()
    while degree is not None and width > degree:
        width = -(-width // degree)
        tree = partials.partition_custom(_owner, lambda partial: partial[0] // degree)
        partials = tree.transform("merge summaries", MergeSpec(user)).set_parallelism(width)
    merged = partials.global_().transform("summary", SummarizeSpec(user, running))
    return merged.force_non_parallel()


def _owner(number: int, tasks: int) -> int:
    return number % tasks


class PaneOperator(Operator):
    """Keeps an accumulator per pane, and hands over those that the watermark has passed."""

    state = "panes"

    def __init__(self, user: UserFunction) -> None:
        self._user = user
        self._function = user.target
        self._panes: dict[int, Any] = {}

    def open(self) -> None:
        """Open the function, and take over the panes of a snapshot: of several tasks, if there were more."""
        self._user.open(self.context)
        for end, accumulator in map(pickle.loads, self.context.operator_state.split.get(self.state, ())):
            self._merge(end, accumulator)
        self.context.before_snapshot.append(self._save)

    def _save(self) -> None:
        saved = [pickle.dumps(pane, pickle.HIGHEST_PROTOCOL) for pane in self._panes.items()]
        self.context.operator_state.split[self.state] = saved

    def _merge(self, end: int, accumulator: Any) -> None:
        known = self._panes.get(end)
        self._panes[end] = accumulator if known is None else self._function.merge(known, accumulator)

    def watermark(self, watermark: int) -> None:
        """Hand over what is complete, then pass the watermark on."""
        ends = sorted(end for end in self._panes if end - 1 <= watermark)
        if ends:
            found = [self.complete(end, self._panes.pop(end)) for end in ends]
            self.output.emit(found, [end - 1 for end in ends])
        super().watermark(watermark)

    def complete(self, end: int, accumulator: Any) -> Any:
        """Return the record of a complete pane."""
        return self.context.subtask, end, accumulator

    def close(self) -> None:
        """Close the function."""
        self._user.close()


class FoldEdges(PaneOperator):
    """Adds edges to the accumulators of their panes."""

    def __init__(self, user: UserFunction, size: int, running: bool) -> None:
        super().__init__(user)
        self._size, self._running = size, running

    def open(self) -> None:
        """Have a counter for late edges."""
        super().open()
        self._late = self.context.metrics.counter("numLateRecordsDropped")

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Add a block; the pane is looked up when it changes."""
        panes, add = self._panes, self._function.add
        if self._size == AT_END:
            accumulator = panes.pop(AT_END, None)
            accumulator = self._function.create_accumulator() if accumulator is None else accumulator
            for edge in values:
                accumulator = add(edge, accumulator)
            panes[AT_END] = accumulator
            return
        if timestamps is None:
            raise self._no_timestamp(values[0])
        begin = end = current = MIN_TIMESTAMP
        accumulator = None
        for edge, at in zip(values, timestamps, strict=True):
            if not begin <= at < end:
                if current != MIN_TIMESTAMP:
                    panes[current] = accumulator
                if at <= MIN_TIMESTAMP:
                    raise self._no_timestamp(edge)
                begin = at - at % self._size
                end = current = begin + self._size
                if end - 1 <= self.current_watermark:
                    begin = end  # the next edge is looked at again
                    if not self._running:
                        self._late.inc()
                        current = MIN_TIMESTAMP
                        continue
                    horizon = self.current_watermark + 1
                    current = min(horizon - horizon % self._size + self._size, AT_END)
                accumulator = panes.get(current)
                if accumulator is None:
                    accumulator = self._function.create_accumulator()
            accumulator = add(edge, accumulator)
        if current != MIN_TIMESTAMP:
            panes[current] = accumulator

    def _no_timestamp(self, edge: Any) -> InvalidProgram:
        return InvalidProgram(
            f"{self.context.operator}: the edge {edge!r} has no timestamp, which a window needs. Call "
            "assign_timestamps_and_watermarks() on the stream, or aggregate without a window."
        )


class MergeSummaries(PaneOperator):
    """Merges partial accumulators of the same pane."""

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Merge what came."""
        for _, end, accumulator in values:
            self._merge(end, accumulator)


class Summarize(MergeSummaries):
    """Merges the panes in their order, if it is running, and emits the result."""

    def __init__(self, user: UserFunction, running: bool) -> None:
        super().__init__(user)
        self._running = running
        self._so_far: Any = None
        self._begun = False

    def complete(self, end: int, accumulator: Any) -> Any:
        """Return the result after a pane."""
        if self._running:
            if self._begun:
                accumulator = self._function.merge(self._so_far, accumulator)
            self._so_far, self._begun = accumulator, True
        result = self._function.get_result(accumulator)
        return copied_block([result])[0] if result is accumulator else result

    def snapshot(self) -> bytes:
        """Return the summary of all panes that are complete, as it is now."""
        return pickle.dumps((self._so_far, self._begun), pickle.HIGHEST_PROTOCOL)

    def restore(self, snapshot: bytes) -> None:
        """Go on."""
        self._so_far, self._begun = pickle.loads(snapshot)


@dataclass(frozen=True)
class FoldSpec:
    """Makes what folds."""

    user: UserFunction
    size: int
    running: bool

    def build(self) -> Operator:
        """Make the logic."""
        return FoldEdges(self.user, self.size, self.running)


@dataclass(frozen=True)
class MergeSpec:
    """Makes what merges."""

    user: UserFunction

    def build(self) -> Operator:
        """Make the logic."""
        return MergeSummaries(self.user)


@dataclass(frozen=True)
class SummarizeSpec:
    """Makes what keeps the summary."""

    user: UserFunction
    running: bool

    def build(self) -> Operator:
        """Make the logic."""
        return Summarize(self.user, self.running)
