"""Advice for the user of a running job, from the regular reports of its tasks.

A warning names the operator, the fact and the remedy, and comes once per operator and kind; what was dropped is summed up
when the job ends. Nothing is decided here, and no task is asked. Times are those of the tasks' own clocks.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from funken.dataclass import dataclass
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP, OperatorId
from funken.io.durations import in_words
from funken.operators.process.one_input import FAILED_RECORDS
from funken.operators.user_functions import UserFunction, traits_of, without_return
from funken.plan.nodes import Hash, Node
from funken.plan.physical import PhysicalPlan, Vertex
from funken.runtime.messages import (
    DumpThreads,
    MetricsReport,
    OperatorWarning,
    SampleStacks,
    StacksSampled,
    TaskCommand,
    TaskEvent,
    TaskId,
    ThreadsDumped,
    VertexMetrics,
)
from funken.timing.clock import Clock
from funken.timing.instants import moment
from funken.timing.watermarks import WatermarkStrategy
from funken.types.callables import changed_names, written

STALL_SECONDS = 10.0
"""A source without records for so long, for which others wait, is warned of."""
STILL_SECONDS, STILL_RECORDS = 30.0, 1_000
"""A watermark that stands still for so long, while so many records come, is warned of."""
SKEW_RECORDS, SKEW_SHARE = 50_000, 0.9
"""From so many records on, a subtask that is given this share of them is warned of."""
LATE_RECORDS = "numLateRecordsDropped"
_DROPPED = {
    LATE_RECORDS: (
        "late",
        "drops late records ({} so far): the watermark had passed the end of their window, or the "
        "events that they belong to. Allow for more disorder (for_bounded_out_of_orderness), keep "
        "windows longer (allowed_lateness), or "
        "take them elsewhere (side_output_late_data).",
        "late record{} dropped",
    ),
    FAILED_RECORDS: (
        "failed",
        "skips records whose function raises ({} so far), as on_error() or execution.on-error says. With "
        "on_error(OutputTag(...)) a side output has them, with the traceback.",
        "record{} skipped because the function raised",
    ),
}
"""By metric of losses: the category of warning, the warning, and the sum at the end."""
_LOSES_NONE = {
    True: "Nothing is late with execution.runtime-mode BATCH. Splits (files, say) that are read one after the other lose nothing "
    "with WatermarkStrategy.with_wait_for_all_splits(), given to from_source(), where each split has a watermark of its own. ",
    False: "Give the WatermarkStrategy to from_source(), where each split has a watermark of its own. ",
}
_LOSES_LESS = (
    "Where one source or split is ahead of others, with_watermark_alignment() holds it back. Against disorder: a longer "
    "for_bounded_out_of_orderness(), allowed_lateness() of windows; side_output_late_data() takes what is late elsewhere."
)
"""The texts beside the sum of late records, the first part by whether the input ends."""


@dataclass(frozen=True, slots=True)
class JobWarning:
    """A warning of a job: a text without the job's name; each ``kind`` comes once per ``operator``."""

    kind: str
    operator: str
    text: str


@dataclass(slots=True)
class _Reading:
    """A subtask of a vertex with watermarks, at the last change of its number of records."""

    records: int
    watermark: int
    changed: float
    quiet: float = 0.0


class JobDiagnosis:
    """Looks at the reports of one job, through all its attempts.

    After a restart, late records are counted again if they are read again: the sum is one of drops, not of records.
    """

    def __init__(
        self,
        plan: PhysicalPlan,
        warn: Callable[[JobWarning], None],
        batch: bool = False,
        checkpoints: bool = True,
    ) -> None:
        self._vertices = {vertex.id: vertex for vertex in plan.vertices}
        nodes = [node for vertex in plan.vertices for node in vertex.nodes]
        self._names = {node.id: node.name for node in nodes}
        self._lines = {node.id: node.place for node in nodes}
        named = Counter(self._names.values())
        self._lines_of_names = {node.name: node.place for node in nodes if named[node.name] == 1}
        self._keyed = {edge.target for edge in plan.edges if isinstance(edge.partitioning, Hash)}
        self._peers = {} if batch else _peers(plan)
        self._bounded = plan.bounded
        self._warn = warn
        self._lock = threading.RLock()
        self._warned: set[tuple[str, str]] = set()
        self._counts: dict[tuple[str, str, int], tuple[str, int]] = {}
        self._before: dict[tuple[str, str], int] = {}
        self._records: dict[int, dict[int, int]] = {}
        self._given_before: dict[int, int] = {}
        #: of vertices of which one subtask seems to have nearly all records, those whose next report is to confirm it
        self._awaited: dict[int, set[int]] = {}
        self._places: dict[str, int] = {}
        self._marks: dict[tuple[int, int], _Reading] = {}
        #: the same, at the last change of the watermark; of programs whose windows wait for it
        self._still: dict[tuple[int, int], _Reading] = {}
        self._waits = not plan.bounded and _event_time_windows(plan) != []
        self.warnings: list[JobWarning] = []
        for name in [] if batch else _windows_that_never_fire(plan):
            self._say(
                "no watermarks",
                name,
                "its windows end by event time, but no source gives watermarks, and the input has no end: they never fire. Give "
                "from_source() or assign_timestamps_and_watermarks() a strategy, such as for_bounded_out_of_orderness('5 s').",
            )
        for name in [] if checkpoints or batch or plan.bounded else _committing(plan):
            self._say(
                "no checkpoints",
                name,
                "its output is visible after a checkpoint only, but the input has no end, and no checkpoints are taken: nobody "
                "sees it. Call env.enable_checkpointing('10 s').",
            )
        for name, text in _late_names(plan):
            self._say("late names", name, text)
        for name, text in _own_results(plan):
            self._say("own results", name, text)
        for name, text in _same_folders(plan):
            self._say("same folder", name, text)
        for name in _unread(plan):
            self._say(
                "unread",
                name,
                "its results go nowhere: no operator reads them. A method returns a new stream, so use that one, as in stream = "
                "stream.filter(...), and end it with a sink, such as print(); for_each() calls a function for its effect.",
            )

    def begin_attempt(self) -> None:
        """The tasks begin anew, and so do their numbers."""
        with self._lock:
            self._before = self._sums()
            self._given_before = {vertex: self._given(vertex) for vertex in self._vertices}
            self._counts.clear()
            self._records.clear()
            self._awaited.clear()
            self._marks.clear()
            self._still.clear()

    def take(self, event: TaskEvent) -> None:
        """Look at a report, from any thread."""
        with self._lock:
            match event:
                case OperatorWarning(operator=operator, kind=kind, text=text):
                    id_ = OperatorId(operator)
                    self._say(kind, self._names.get(id_, f"operator {operator}"), text, self._lines.get(id_))
                case MetricsReport():
                    for number, metrics in event.vertices.items():
                        if number in self._vertices:
                            self._look(self._vertices[number], event.task.subtask, metrics, event.at)

    @property
    def late_records(self) -> int:
        """Number of late records that were dropped."""
        with self._lock:
            return sum(count for (metric, _), count in self._sums().items() if metric == LATE_RECORDS)

    def finish(self) -> None:
        """The job has ended: sum up the dropped records."""
        with self._lock:
            for (metric, operator), count in self._sums().items():
                kind, _, what = _DROPPED[metric]
                text = f"{count:,} {what.format('s' * (count > 1))} in all{self._share(operator, count)}."
                if metric == LATE_RECORDS:
                    text = f"{text} {_LOSES_NONE[self._bounded]}{_LOSES_LESS}"
                self._say(f"{kind}, in all", operator, text)

    # ---- what is looked for

    def _look(self, vertex: Vertex, subtask: int, metrics: VertexMetrics, at: float) -> None:
        for operator, user in metrics.user.items():
            for metric, (kind, text, _) in _DROPPED.items():
                if count := user.values.get(metric):
                    self._counts[metric, operator, subtask] = user.operator, count
                    self._places[user.operator] = vertex.id
                    self._say(kind, user.operator, text.format(f"{count:,}"))
        records = self._records.setdefault(vertex.id, {})
        records[subtask] = metrics.records_in
        if vertex.id in self._keyed:
            self._look_at_keys(vertex, subtask, records)
        if vertex.id in self._peers:
            self._look_at_watermark(vertex, subtask, metrics, at)
            if self._waits:
                self._look_at_progress(vertex, subtask, metrics, at)

    def _look_at_keys(self, vertex: Vertex, reporting: int, records: dict[int, int]) -> None:
        total = sum(records.values())
        if len(records) < 2 or len(records) < vertex.parallelism or total < SKEW_RECORDS:
            return
        subtask, most = max(records.items(), key=lambda item: item[1])
        if most < SKEW_SHARE * total:
            self._awaited.pop(vertex.id, None)
            return
        # The others may have reported before they were given any.
        awaited = self._awaited.setdefault(vertex.id, set(records) - {subtask})
        awaited.discard(reporting)
        if not awaited:
            self._say(
                "key skew",
                vertex.nodes[0].name,
                f"its subtask {subtask} of {vertex.parallelism} is given {most / total:.0%} of the records ({total:,} so far): "
                "one key has nearly all of them, or there are few keys, and the other subtasks wait. Aggregate in two steps, "
                "first by the key and a number (say, a hash of the record modulo 8), then by the key.",
            )

    def _look_at_watermark(self, vertex: Vertex, subtask: int, metrics: VertexMetrics, at: float) -> None:
        place, mark = (vertex.id, subtask), metrics.watermark_out
        reading = self._marks.get(place)
        if reading is None or reading.records != metrics.records_in:
            reading = self._marks[place] = _Reading(metrics.records_in, mark, at)
        reading.watermark, reading.quiet = mark, at - reading.changed
        if reading.quiet < STALL_SECONDS or mark >= MAX_WATERMARK:
            return
        others = [
            other.watermark
            for (number, _), other in self._marks.items()
            if number in self._peers[vertex.id] and MIN_TIMESTAMP < other.watermark < MAX_WATERMARK
        ]
        furthest = max(others, default=MIN_TIMESTAMP)
        if mark < furthest and mark == min(other.watermark for other in self._marks.values()):
            where = f"its subtask {subtask} of {vertex.parallelism}" if vertex.parallelism > 1 else "it"
            self._say(
                "idle",
                vertex.nodes[0].name,
                f"{where} has had no records for {in_words(int(reading.quiet * 1000))} and holds the watermark back: it is "
                f"{_at(mark)}, while others are at {moment(furthest)}. Windows and timers wait for it. If it may stay without "
                "records, set WatermarkStrategy.with_idleness(), or give the source as many subtasks as it has splits.",
            )

    def _look_at_progress(self, vertex: Vertex, subtask: int, metrics: VertexMetrics, at: float) -> None:
        place, mark = (vertex.id, subtask), metrics.watermark_out
        reading = self._still.get(place)
        if reading is None or reading.watermark != mark:
            self._still[place] = _Reading(metrics.records_in, mark, at)
            return
        came, quiet = metrics.records_in - reading.records, at - reading.changed
        if quiet < STILL_SECONDS or came < STILL_RECORDS:
            return
        at_time = "has not come yet" if mark == MIN_TIMESTAMP else f"stands still at {moment(mark)}"
        self._say(
            "still",
            vertex.nodes[0].name,
            f"its watermark {at_time}, while {came:,} records came in {in_words(int(quiet * 1000))}: windows and timers wait for "
            "it. Return the time of each record, in milliseconds, from the timestamp assigner. If a split may stay without "
            "records, set WatermarkStrategy.with_idleness().",
        )

    def _given(self, vertex: int) -> int:
        return self._given_before.get(vertex, 0) + sum(self._records.get(vertex, {}).values())

    def _share(self, operator: str, count: int) -> str:
        given = self._given(self._places[operator])
        if not 0 < count <= given:  # a function in the same chain may have made more of them
            return ""
        share = f"{count / given:.0%}" if count >= given / 100 else "less than 1%"
        return f", {share} of the {given:,} that it was given"

    def _sums(self) -> dict[tuple[str, str], int]:
        found = dict(self._before)
        for (metric, _, _), (operator, count) in self._counts.items():
            found[metric, operator] = found.get((metric, operator), 0) + count
        return found

    def _say(self, kind: str, operator: str, text: str, line: str | None = None) -> None:
        if (kind, operator) in self._warned:
            return
        self._warned.add((kind, operator))
        line = line or self._lines_of_names.get(operator)
        if line and not _A_LINE.search(text):
            text = f"{text} The operator is in {line}."
        warning = JobWarning(kind, operator, f"operator {operator!r}: {text}")
        self.warnings.append(warning)
        self._warn(warning)


_A_LINE = re.compile(r"\([^()]+, line \d+\)")
"""The place of a function, as a message has it."""


def _at(mark: int) -> str:
    return "before its first watermark" if mark == MIN_TIMESTAMP else f"at {moment(mark)}"


def _unread(plan: PhysicalPlan) -> list[str]:
    """Return the names of the sources and of the operators with functions of the program whose results nobody reads."""
    nodes = [node for vertex in plan.vertices for node in vertex.nodes]
    read = {given.upstream for node in nodes for given in (*node.inputs, *node.feedback)}
    found = []
    for node in nodes:
        traits = traits_of(node.spec)
        results = traits.fusable or any(
            without_return(_per_record(each)) is None for each in traits.side_functions or ()
        )
        if (results or traits.source is not None) and not traits.sink and node.id not in read:
            found.append(node.name)
    return found


def _committing(plan: PhysicalPlan) -> list[str]:
    """Return the names of the sinks whose output is visible after a checkpoint only."""
    return [node.name for vertex in plan.vertices for node in vertex.nodes if traits_of(node.spec).commits]


def _own_results(plan: PhysicalPlan) -> Iterator[tuple[str, str]]:
    """Yield the sinks that write into a folder that the program reads."""
    traits = [(node.name, traits_of(node.spec)) for vertex in plan.vertices for node in vertex.nodes]
    read = [
        (name, path.rstrip("/")) for name, each in traits if each.source is not None for path in each.source.folders
    ]
    for sink, each in traits:
        for source, path in read:
            if each.folder is not None and f"{each.folder.rstrip('/')}/".startswith(f"{path}/"):
                yield (
                    sink,
                    f"it writes to {each.folder}, which {source!r} reads: the next run takes the results for records, as does a "
                    "source that watches the folder. Write to another folder.",
                )


def _same_folders(plan: PhysicalPlan) -> Iterator[tuple[str, str]]:
    """Yield the sinks that write into the folder of another one."""
    first: dict[str, Node] = {}
    for node in (node for vertex in plan.vertices for node in vertex.nodes):
        folder = (traits_of(node.spec).folder or "").rstrip("/")
        if folder and (other := first.setdefault(folder, node)) is not node:
            yield (
                node.name,
                f"it writes to {folder}, as does {other.name!r}: the folder gets the records of both. Leave one of them out, or "
                "give each a folder.",
            )


def _event_time_windows(plan: PhysicalPlan) -> list[Node]:
    """Return the operators with windows by event time."""
    nodes = (node for vertex in plan.vertices for node in vertex.nodes)
    return [node for node in nodes if traits_of(node.spec).event_time_windows]


def _windows_that_never_fire(plan: PhysicalPlan) -> list[str]:
    """Return the names of the operators with windows by event time that no watermark reaches."""
    nodes = {node.id: node for vertex in plan.vertices for node in vertex.nodes}
    found = []
    for node in [] if plan.bounded else _event_time_windows(plan):
        left, seen = [node.id], set[OperatorId]()
        while left:
            at = left.pop()
            if at not in seen:
                seen.add(at)
                left += [given.upstream for given in nodes[at].inputs]
        specs = [nodes[each].spec for each in seen]
        if all(_strategy(spec) is None and type(spec).__module__.startswith("funken.") for spec in specs):
            found.append(node.name)
    return found


def _late_names(plan: PhysicalPlan) -> Iterator[tuple[str, str]]:
    """Yield the operators whose function reads a name that has changed since the call: it sees the new value."""
    for node in (node for vertex in plan.vertices for node in vertex.nodes):
        for call in traits_of(node.spec).calls or ():
            for name, before, now in changed_names(call.function.target):
                code = call.function.target.__code__
                text = f"its function {written(code)} reads {name!r}, which was {before!r:.40} when given and is "
                remedy = f"Python reads it at the call. Keep the value as a default: lambda record, {name}={name}: ..."
                yield node.name, f"{text}{now!r:.40} now: {remedy}"


def _per_record(function: UserFunction) -> Callable[..., object]:
    call: Callable[..., object] | None = getattr(function.target, "process_element", None)
    return call or function.bind()


def _peers(plan: PhysicalPlan) -> dict[int, set[int]]:
    """Return, by vertex that emits watermarks and treats silence as activity, those whose watermarks meet its own."""
    emitting = {vertex.id for vertex in plan.vertices if any(_strategy(node.spec) is not None for node in vertex.nodes)}
    patient = {
        vertex.id
        for vertex in plan.vertices
        if any((found := _strategy(node.spec)) is not None and found.idleness is None for node in vertex.nodes)
    }
    reached: dict[int, set[int]] = {vertex.id: {vertex.id} for vertex in plan.vertices}
    for edge in sorted(plan.edges, key=lambda edge: edge.source, reverse=True):
        reached[edge.source] |= set() if edge.feedback else reached[edge.target]
    return {one: {other for other in emitting if reached[one] & reached[other]} for one in patient}


def _strategy(spec: object) -> WatermarkStrategy | None:
    found = getattr(getattr(spec, "spec", spec), "strategy", None)
    return found if isinstance(found, WatermarkStrategy) and found.generator is not None else None


# ---- The stacks of a job's tasks, as they were sampled last: whoever asks has them sampled anew, but not all the
# time.


SAMPLE_SECONDS = 2.0
_AGAIN_SECONDS = 10.0


class JobStacks:
    """The newest sample of each task, from any thread; ``send`` carries a command to a task.

    >>> from funken.timing.clock import ManualClock
    >>> sent, task = [], TaskId(0, 0)
    >>> stacks = JobStacks(lambda task, command: sent.append(command.seconds), ManualClock())
    >>> stacks.request([task]); stacks.request([task])
    >>> stacks.take(StacksSampled(task, ended=7)); sent, stacks.newest([task])[0].ended
    ([2.0], 7)
    """

    def __init__(self, send: Callable[[TaskId, TaskCommand], None], clock: Clock) -> None:
        self._send = send
        self._clock = clock
        self._changed = threading.Condition()
        self._newest: dict[TaskId, StacksSampled] = {}
        self._asked: dict[TaskId, float] = {}
        self._requests = 0
        #: the answers to requests whose callers wait
        self._dumps: dict[int, dict[TaskId, ThreadsDumped]] = {}

    def clear(self) -> None:
        """Another attempt begins."""
        with self._changed:
            self._newest.clear()
            self._asked.clear()

    def take(self, event: StacksSampled | ThreadsDumped) -> None:
        """Take a task's stacks."""
        with self._changed:
            if isinstance(event, StacksSampled):
                self._newest[event.task] = event
            elif event.request in self._dumps:
                self._dumps[event.request][event.task] = event
                self._changed.notify_all()

    def request(self, tasks: Iterable[TaskId]) -> None:
        """Have those tasks sampled that were not asked within the last ten seconds."""
        now = self._clock.monotonic()
        with self._changed:
            due = [task for task in tasks if now - self._asked.get(task, now - _AGAIN_SECONDS) >= _AGAIN_SECONDS]
            self._asked |= dict.fromkeys(due, now)
        for task in due:
            self._send(task, SampleStacks(SAMPLE_SECONDS))

    def newest(self, tasks: Iterable[TaskId]) -> list[StacksSampled]:
        """Return the newest samples of tasks."""
        with self._changed:
            return [self._newest[task] for task in tasks if task in self._newest]

    def threads(self, tasks: Iterable[TaskId], seconds: float) -> list[ThreadsDumped]:
        """Return the stacks of the threads of the tasks' processes; of a task that does not answer in time, nothing."""
        wanted = list(tasks)
        with self._changed:
            self._requests += 1
            number, found = self._requests, dict[TaskId, ThreadsDumped]()
            self._dumps[number] = found
        try:
            for task in wanted:
                self._send(task, DumpThreads(number))
            with self._changed:
                self._changed.wait_for(lambda: len(found) == len(wanted), seconds)
                return list(found.values())
        finally:
            with self._changed:
                del self._dumps[number]
