"""Run one operator by hand: feed it records, watermarks and time, and look at its output.

No job, no Spark, no threads and no clock: everything happens inside the calls, in the order of the calls, so a test
reads as a timeline. The harness also checks the rules every operator keeps: input lists stay as they were, and what is
emitted has as many timestamps as values.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from operator import is_
from typing import Any

from funken.api.streams.stream import DataStream
from funken.errors import InvalidProgram
from funken.ids import DEFAULT_MAX_PARALLELISM, MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Operator, OperatorContext, OperatorSpec, Output, OutputTag, Timestamps, Values
from funken.operators.operator_state import merged_operator_state
from funken.operators.process.keyed_operator import KeyedOperator
from funken.state.backend import StateBackend
from funken.state.keyed import KeyedStateStore
from funken.state.keygroups import key_groups_of
from funken.timing.timers import InternalTimerService
from funken.types.callables import Generic, OUT_co, S

Stamped = tuple[Any, int | None]
"""A value and its timestamp, ``None`` if it has none."""

_MAX_TICKS = 10_000


class OperatorHarness(Generic[OUT_co]):
    """One operator under test, opened and ready.

    ``operator`` is an operator or its spec. ``keyed`` gives it keyed state and timers; ``keys`` are the key selectors of a
    ``KeyedOperator``, one for each input. ``now`` is processing time (ms). ``backend`` stores keyed state (default: dicts).

    >>> from funken.operators.user_functions import UserFunction
    >>> from funken.operators.process.one_input import KeyedProcess
    >>> from funken.state.descriptors import ValueStateDescriptor
    >>> class Count:
    ...     def open(self, runtime_context):
    ...         self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))
    ...     def process_element(self, value, ctx):
    ...         self.count.update(self.count.value() + 1)
    ...         ctx.timer_service().register_event_time_timer(100)
    ...     def on_timer(self, timestamp, ctx):
    ...         yield ctx.get_current_key(), self.count.value()
    ...     def close(self):
    ...         pass
    >>> spec = KeyedProcess(UserFunction(Count(), rich=True), key=UserFunction(str.lower))
    >>> harness = OperatorHarness(spec, keyed=True)
    >>> harness.feed("a", 1)
    >>> harness.feed("A", 2)
    >>> harness.output
    []
    >>> harness.watermark(100)
    >>> harness.output_with_timestamps
    [(('a', 2), 100)]

    Its snapshot starts another one, also at another parallelism:

    >>> again = OperatorHarness.restored(spec, harness.snapshot(), keyed=True)
    >>> again.feed("a", 101)
    >>> again.end_input()
    >>> again.output
    [('a', 3)]
    """

    def __init__(
        self,
        operator: Operator | OperatorSpec,
        *,
        keyed: bool = False,
        subtask: int = 0,
        parallelism: int = 1,
        max_parallelism: int = DEFAULT_MAX_PARALLELISM,
        now: int = 0,
        batch: bool = False,
        name: str = "operator",
        snapshots: Iterable[dict[str, Any]] = (),
        keys: Sequence[Callable[[Any], Any]] = (),
        backend: StateBackend | None = None,
    ) -> None:
        self.operator: Operator = operator if isinstance(operator, Operator) else operator.build()
        if isinstance(self.operator, KeyedOperator) and keys:
            self.operator.keys, keyed = tuple(keys), True
        self.now = now
        self.output_with_timestamps: list[Stamped] = []
        self.watermarks: list[int] = []
        self.reports: list[tuple[str, Any]] = []
        self.is_idle = False
        self._sides: dict[str, list[Stamped]] = {}
        self.context = OperatorContext(
            operator=name,
            subtask=subtask,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            processing_time=lambda: self.now,
            batch=batch,
            report=lambda kind, payload: self.reports.append((kind, payload)),
        )
        if keyed:
            groups = key_groups_of(subtask, max_parallelism, parallelism)
            self.context.keyed = KeyedStateStore(max_parallelism, groups, lambda: self.now, backend)
            self.context.timers = InternalTimerService(lambda: self.now, max_parallelism, groups)
        self.operator.setup(self.context, self._wire())
        self._restore(list(snapshots))
        self.operator.open()

    @classmethod
    def restored(cls, operator: Operator | OperatorSpec, *snapshots: dict[str, Any], **options: Any) -> OperatorHarness:
        """Make a harness from snapshots of one or several; ``options`` are those of the constructor.

        Of several snapshots a subtask takes the keyed state and the timers of its own keys; what the operators' own
        ``snapshot`` returned is given to ``restore`` one after the other.
        """
        return cls(operator, snapshots=snapshots, **options)

    @classmethod
    def of(cls, stream: DataStream[S], **options: Any) -> OperatorHarness[S]:
        """Make a harness of the operator that ``stream`` comes out of; ``options`` are those of the constructor.

        Raises ``InvalidProgram`` for a stream of several operators (``union``) or with another partitioning (``key_by``).

        >>> from funken import KeyedProcessFunction
        >>> from funken.testing import local
        >>> class Reminder(KeyedProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        ...     def on_timer(self, timestamp, ctx):
        ...         yield f"{ctx.get_current_key()} at {timestamp}"
        >>> harness = OperatorHarness.of(local([]).key_by(str.lower).process(Reminder()))
        >>> harness.feed("Tea", 5)
        >>> harness.watermark(15)
        >>> harness.output
        ['tea at 15']
        """
        nodes = [
            stream.get_execution_environment().graph[each.upstream]
            for each in stream._inputs
            if each.partitioning is None and each.side is None
        ]
        if len(nodes) != 1 or len(stream._inputs) != 1:
            raise InvalidProgram(
                "OperatorHarness.of() needs a stream that comes out of one operator: pass the result of "
                "process(), map(), apply() or another method."
            )
        given: dict[str, Any] = {"keyed": nodes[0].keyed, "name": nodes[0].name} | options
        harness: Any = cls(nodes[0].spec, **given)
        made: OperatorHarness[S] = harness
        return made

    def _wire(self) -> Output:
        output = Output()
        output.emit = lambda values, timestamps: self.output_with_timestamps.extend(_stamped(values, timestamps))
        output.emit_block = lambda block: output.emit(*block.rows())
        output.emit_side = lambda tag, values, timestamps: self._sides.setdefault(tag, []).extend(
            _stamped(values, timestamps)
        )
        output.watermark = self.watermarks.append
        output.idle = lambda idle: setattr(self, "is_idle", idle)
        return output

    def _restore(self, snapshots: Sequence[dict[str, Any]]) -> None:
        snapshots = copy.deepcopy(snapshots)
        if self.context.keyed is not None and self.context.timers is not None:
            self.context.keyed.restore(snapshot["keyed"] for snapshot in snapshots)
            self.context.timers.restore(snapshot["timers"] for snapshot in snapshots)
        self.context.restored = bool(snapshots)
        states = [snapshot["operator_state"] for snapshot in snapshots]
        self.context.operator_state.update(
            merged_operator_state(states, self.context.subtask, self.context.parallelism)
        )
        for snapshot in snapshots:
            if snapshot["operator"] is not None:
                self.operator.restore(snapshot["operator"])

    # ---- input

    def feed(self, value: Any, timestamp: int | None = None) -> None:
        """Feed one record to the operator."""
        self.feed_block([value], None if timestamp is None else [timestamp])

    def feed_block(self, values: Values, timestamps: Timestamps = None) -> None:
        """Feed a block of records to the operator, as a job does.

        >>> from funken.operators.user_functions import UserFunction
        >>> from funken.operators.stateless import Map
        >>> harness = OperatorHarness(Map(UserFunction(str.upper)))
        >>> harness.feed_block(["a", "b"], [1, 2])
        >>> harness.output_with_timestamps
        [('A', 1), ('B', 2)]
        """
        self._give(self.operator.process, values, timestamps)

    def feed_second(self, value: Any, timestamp: int | None = None) -> None:
        """Feed one record to the operator on its second input.

        >>> from funken import CoMapFunction
        >>> from funken.operators.user_functions import UserFunction
        >>> from funken.operators.process.two_inputs import CoMap
        >>> class Sides(CoMapFunction):
        ...     def map1(self, value):
        ...         return f"left {value}"
        ...     def map2(self, value):
        ...         return f"right {value}"
        >>> harness = OperatorHarness(CoMap(UserFunction(Sides())))
        >>> harness.feed("a")
        >>> harness.feed_second("b")
        >>> harness.output
        ['left a', 'right b']
        """
        self.feed_second_block([value], None if timestamp is None else [timestamp])

    def feed_second_block(self, values: Values, timestamps: Timestamps = None) -> None:
        """Feed a block of records to the operator on its second input.

        >>> from funken import CoFlatMapFunction
        >>> from funken.operators.user_functions import UserFunction
        >>> from funken.operators.process.two_inputs import CoFlatMap
        >>> class OnlySecond(CoFlatMapFunction):
        ...     def flat_map1(self, value):
        ...         return []
        ...     def flat_map2(self, value):
        ...         return value.split()
        >>> harness = OperatorHarness(CoFlatMap(UserFunction(OnlySecond())))
        >>> harness.feed_second_block(["to be", "or not"], [1, 2])
        >>> harness.output_with_timestamps
        [('to', 1), ('be', 1), ('or', 2), ('not', 2)]
        """
        self._give(self.operator.process_second, values, timestamps)

    @staticmethod
    def _give(process: Any, values: Values, timestamps: Timestamps) -> None:
        given, stamps = values.copy(), timestamps and timestamps.copy()
        process(values, timestamps)
        unchanged = len(values) == len(given) and all(map(is_, values, given)) and timestamps == stamps
        assert unchanged, "an operator must not change the lists it is given"

    def watermark(self, watermark: int) -> None:
        """Let event time reach ``watermark`` on every input."""
        for index in (0, 1):
            self.operator.watermark_input(index, watermark)
        self.operator.watermark(watermark)

    def processing_time(self, now: int) -> None:
        """Let processing time reach ``now`` (ms), and the operator do its work that is due by then.

        >>> from funken import KeyedProcessFunction
        >>> from funken.operators.user_functions import UserFunction
        >>> from funken.operators.process.one_input import KeyedProcess
        >>> class Reminder(KeyedProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         timers = ctx.timer_service()
        ...         timers.register_processing_time_timer(timers.current_processing_time() + 100)
        ...     def on_timer(self, timestamp, ctx):
        ...         yield f"remember {ctx.get_current_key()}"
        >>> reminder = KeyedProcess(UserFunction(Reminder(), rich=True), key=UserFunction(str))
        >>> harness = OperatorHarness(reminder, keyed=True, now=500)
        >>> harness.feed("milk")
        >>> harness.processing_time(599)
        >>> harness.output
        []
        >>> harness.processing_time(600)
        >>> harness.output
        ['remember milk']
        """
        self.now = now
        for _ in range(_MAX_TICKS):
            due = self.operator.next_tick()
            if due is None or due > now:
                return
            self.operator.tick(now)
        raise AssertionError(f"at {now} the operator still asks for a tick at {due}, after {_MAX_TICKS} of them")

    def idle(self, idle: bool = True) -> None:
        """Let all inputs go idle, or come back.

        >>> from funken.operators.user_functions import UserFunction
        >>> from funken.operators.stateless import Map
        >>> harness = OperatorHarness(Map(UserFunction(str.upper)))
        >>> harness.idle()
        >>> harness.is_idle  # it told those after it
        True
        """
        self.operator.idle(idle)

    def end_input(self, index: int | None = None) -> None:
        """End one input, or (without ``index``) everything: both inputs, event time, and the operator itself."""
        if index is not None:
            self.operator.end_input(index)
            return
        for each in (0, 1):
            self.operator.end_input(each)
        self.watermark(MAX_WATERMARK)
        self.operator.finish()

    def close(self) -> None:
        """Close the operator."""
        self.operator.close()

    def __enter__(self) -> OperatorHarness:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ---- output

    @property
    def output(self) -> list[OUT_co]:
        """The values emitted so far."""
        return [value for value, _ in self.output_with_timestamps]

    def side_output(self, tag: OutputTag[S] | str) -> list[S]:
        """Return the values emitted so far to a side output.

        >>> from funken import OutputTag, ProcessFunction
        >>> from funken.operators.user_functions import UserFunction
        >>> from funken.operators.process.one_input import Process
        >>> class Split(ProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         yield value if value >= 0 else (OutputTag("negative"), value)
        >>> harness = OperatorHarness(Process(UserFunction(Split(), rich=True)))
        >>> harness.feed_block([1, -2, 3])
        >>> harness.output, harness.side_output("negative"), harness.side_output(OutputTag("zero"))
        ([1, 3], [-2], [])
        """
        return [value for value, _ in self.side_output_with_timestamps(tag)]

    def side_output_with_timestamps(self, tag: OutputTag | str) -> list[Stamped]:
        """Return the values emitted so far to a side output, and their timestamps (ms; ``None``: it has none).

        >>> from funken import OutputTag, ProcessFunction
        >>> from funken.operators.user_functions import UserFunction
        >>> from funken.operators.process.one_input import Process
        >>> class Aside(ProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         yield OutputTag("aside"), value
        >>> harness = OperatorHarness(Process(UserFunction(Aside(), rich=True)))
        >>> harness.feed("a", 10)
        >>> harness.feed("b")
        >>> harness.side_output_with_timestamps("aside")
        [('a', 10), ('b', None)]
        """
        return self._sides.get(tag if isinstance(tag, str) else tag.tag_id, [])

    def clear_output(self) -> None:
        """Forget the output so far, watermarks and side outputs too.

        >>> from funken.operators.user_functions import UserFunction
        >>> from funken.operators.stateless import Map
        >>> harness = OperatorHarness(Map(UserFunction(str.upper)))
        >>> harness.feed("a")
        >>> harness.clear_output()
        >>> harness.feed("b")
        >>> harness.output
        ['B']
        """
        self.output_with_timestamps.clear()
        self.watermarks.clear()
        self._sides.clear()

    def snapshot(self) -> dict[str, Any]:
        """Return all that a checkpoint of the operator would contain, as a copy."""
        for ask in self.context.before_snapshot:
            ask()
        keyed, timers = self.context.keyed, self.context.timers
        return copy.deepcopy(
            {
                "operator": self.operator.snapshot(),
                "operator_state": self.context.operator_state,
                "keyed": keyed.snapshot() if keyed is not None else None,
                "timers": timers.snapshot() if timers is not None else None,
            }
        )


def _stamped(values: Values, timestamps: Timestamps) -> list[Stamped]:
    if timestamps is None:
        return [(value, None) for value in values]
    assert len(timestamps) == len(values), f"{len(values)} values were emitted with {len(timestamps)} timestamps"
    return [(value, None if at == MIN_TIMESTAMP else at) for value, at in zip(values, timestamps, strict=True)]
