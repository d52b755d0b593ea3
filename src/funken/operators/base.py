"""The interface of operators: a spec that travels in the plan, and a logic that handles blocks.

Operators are called once per *block* (``columnar/block.py``) and loop themselves: what happens per record is the user's
function and as little else as can be. An operator of rows implements ``process``, which is given the block's two parallel lists,
``values`` and ``timestamps``; ``timestamps`` is ``None`` when no record of the block has one, and ``MIN_TIMESTAMP`` stands for a
single record without. One that takes columns as well implements ``process_block`` besides.

Rules every operator keeps:

* it never changes a list that it was given (a block may have several consumers), and may pass it on as it is; the records
  are its own and its functions', who may change them;
* it emits no record that it, or a function with state, keeps and may change later (``types/copying.py``);
* everything it emits for a block goes out before ``process`` returns; the watermark stands still meanwhile;
* it reads no clock: processing time comes from ``context.processing_time()``, and ``tick`` is called when it has moved;
* all that must survive a failure is in ``context.keyed`` / ``context.operator_state``, timers, or what ``snapshot`` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, Self, TypeAlias

from funken.columnar.block import Block
from funken.connectors.base import ConnectorContext
from funken.dataclass import dataclass
from funken.errors import StateError, StateNotKeyed
from funken.ids import MIN_TIMESTAMP
from funken.io.durations import in_ms, is_bare
from funken.metrics.registry import MetricGroup
from funken.state.delta_tables import OperatorStates
from funken.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from funken.state.handles import AggregatingState, ListState, MapState, ReducingState, ValueState
from funken.state.keyed import NO_KEY, KeyedStateStore
from funken.timing.clock import SystemClock
from funken.timing.timers import InternalTimerService
from funken.types.callables import A, Generic, K, R, S, T, V, check_kind
from funken.types.info import TypeInformation, TypeOf

Values = list[Any]
Timestamps = list[int] | None


class Output:
    """The targets of an operator's results; the chain fills in the callables, so that a call is one hop.

    ``emit(values, timestamps)`` and ``emit_side(tag, values, timestamps)`` take whole blocks of rows, ``emit_block(block)`` a
    block in any form; ``watermark(w)`` and ``idle(flag)`` go to every consumer, in order with the blocks. ``takes_columns``: a
    consumer is better off with columns. ``convert`` makes the declared type of a result that is emitted, if one is declared.
    """

    __slots__ = ("convert", "emit", "emit_block", "emit_side", "idle", "takes_columns", "watermark")

    emit: Callable[[Values, Timestamps], None]
    emit_block: Callable[[Block], None]
    emit_side: Callable[[str, Values, Timestamps], None]
    watermark: Callable[[int], None]
    idle: Callable[[bool], None]
    takes_columns: bool
    convert: Callable[[Any], Any] | None

    def __init__(self) -> None:
        self.takes_columns = True
        self.convert = None


class Operator:
    """The running half of an operator: one instance per subtask.

    Life: ``setup`` -> ``restore`` (only after a failure) -> ``open`` -> (``process`` | ``watermark`` | ``tick``)* ->
    ``finish`` (only if the input ended) -> ``close`` (always, also after a failure).
    """

    context: OperatorContext
    output: Output
    current_watermark: int = MIN_TIMESTAMP
    keeps_output = False
    """True if the operator itself keeps records that it emits, as they are; chained operators are given copies then."""
    changes_records = True
    """True if a function of the user sees the records, which may change them, or the operator passes them on."""
    takes_fields = False
    """True if the operator has a ``process_block`` of its own that takes tuples field by field (``TupleBlock``)."""
    columnar = False
    """True if the operator has a ``process_block`` of its own: it takes and emits columns (``funken/columnar``), too."""

    @classmethod
    def build(cls) -> Self:
        """Make one: the class of an operator without arguments is a spec."""
        return cls()

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings; no user code runs here."""
        self.context = context
        self.output = output

    def open(self) -> None:
        """Run the user's ``open``."""

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle a block of the first input."""
        raise NotImplementedError

    def process_block(self, block: Block) -> None:
        """Handle a block of the first input as it comes, in rows or columns."""
        self.process(*block.rows())

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Handle a block of the second input (connected streams)."""
        raise NotImplementedError

    def process_second_block(self, block: Block) -> None:
        """Handle a block of the second input as it comes, in rows or columns."""
        self.process_second(*block.rows())

    def watermark(self, watermark: int) -> None:
        """Event time has reached ``watermark``, the minimum over all inputs: fire due timers, then pass it on."""
        self.current_watermark = watermark
        self.output.watermark(watermark)

    def watermark_input(self, index: int, watermark: int) -> None:
        """The watermark of one input alone rose (called only where it is overridden)."""

    def begin_key(self) -> None:
        """In ``BATCH``: a key is done, its timers have fired, and event time begins anew for the next."""
        self.current_watermark = MIN_TIMESTAMP

    def idle(self, idle: bool) -> None:
        """All inputs went idle (True) or one is active again (False)."""
        self.output.idle(idle)

    def next_tick(self) -> int | None:
        """Return the time of the next ``tick`` (ms, processing time); ``None``: never."""
        return None

    def tick(self, now: int) -> None:
        """Processing time has reached ``now``; called only at or after ``next_tick()``."""

    def awaits_results(self) -> bool:
        """Return True if results of past records come later by themselves: a loop with the operator is not empty."""
        return False

    def end_input(self, index: int) -> None:
        """Input ``index`` (0 or 1) has ended; the other may go on."""

    def pause(self) -> None:
        """A micro-batch has come to its end, and the job ends with a snapshot, to go on with the next."""

    def finish(self) -> None:
        """All inputs ended and ``MAX_WATERMARK`` was handled: emit held records."""

    def prepare_snapshot(self, checkpoint_id: int) -> Sequence[Any]:
        """A barrier is next: close transactions, and return the committables for the driver (sinks only).

        Runs before ``context.before_snapshot`` and ``snapshot``.
        """
        return ()

    def snapshot(self) -> Any:
        """Return state beyond keyed state and timers, as plain data (``None``: nothing)."""
        return None

    def restore(self, snapshot: Any) -> None:
        """Restore the result of ``snapshot``."""

    def handle_operator_event(self, payload: Any) -> None:
        """Handle an event of the operator's coordinator; between two blocks."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete; later ones include it, so not every one is notified."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint is aborted."""

    def close(self) -> None:
        """Run the user's ``close``; must work after a failure at any point."""


class OperatorSpec(Protocol):
    """The declared half: frozen, picklable with cloudpickle, and able to build its logic."""

    def build(self) -> Operator:
        """Make the logic of one subtask."""
        ...


@dataclass(frozen=True)
class OperatorCall:
    """A spec of a class and its arguments: each subtask makes its operator with them.

    >>> from funken.testing import local
    >>> class Every(Operator):
    ...     def __init__(self, step):
    ...         self.step = step
    ...     def process(self, values, timestamps):
    ...         self.output.emit(values[:: self.step], timestamps and timestamps[:: self.step])
    >>> local([1, 2, 3, 4]).transform("every third", OperatorCall(Every, (3,))).execute_and_collect(limit=3)
    [1, 4]
    """

    operator: Callable[..., Operator]
    arguments: tuple[Any, ...] = ()

    def build(self) -> Operator:
        """Make the operator."""
        return self.operator(*self.arguments)


# ---- Output tags: what a function yields together with a value for a side output.


@dataclass(frozen=True, slots=True)
class OutputTag(Generic[T]):
    """Names a side output; tags with equal ids are the same output. ``OutputTag("late", str)`` is one of text.

    The type is a class, for type checkers, or a declaration, which also converts the records (a list of them: of rows).

    >>> OutputTag("late") == OutputTag("late", str)
    True
    """

    tag_id: str
    type_info: TypeOf[T] | Sequence[TypeInformation] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.tag_id:
            raise ValueError("OutputTag tag_id cannot be None or empty string: give the side output a name.")


SideOutput: TypeAlias = tuple[OutputTag[Any], Any]
"""A function's result for a side output, among its other results."""


# ---- The context of an operator: its place in the job, time, state, metrics.
#
# ``RuntimeContext`` is the user's view (PyFlink's), handed to ``open``; ``OperatorContext`` is the engine's.


@dataclass(slots=True)
class OperatorContext:
    """The engine's view of one subtask of one operator.

    ``keyed`` and ``timers`` are there only for operators on a keyed stream. ``batch`` is true under
    ``RuntimeExecutionMode.BATCH``, ``pausing`` in a micro-batch; with ``object_reuse`` no record is copied,
    without ``inlining`` loops call every function.
    ``processing_time`` reads the clock (ms since the epoch), ``monotonic`` the one for intervals (s). ``next_time`` does as the
    first for the lifetimes of state, too, which go by what it returned last. ``wake`` may be called by any thread: the task asks
    ``next_tick`` again at once; ``None``: it calls it every ms or so. ``operator_uid`` is the operator's stable id, ``place`` its
    line in the program, ``restored_checkpoint_id`` the checkpoint that the attempt starts from. ``warn(kind, text)`` warns
    whoever runs the job, once per operator and kind.
    ``on_error`` is its ``ErrorPolicy``, if it has one.
    """

    operator: str
    subtask: int
    parallelism: int
    max_parallelism: int
    processing_time: Callable[[], int]
    attempt: int = 0
    job_id: str = "local"
    batch: bool = False
    pausing: bool = False
    object_reuse: bool = False
    inlining: bool = True
    auto_watermark_interval: int = 200
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: MetricGroup = field(default_factory=MetricGroup)
    keyed: KeyedStateStore | None = None
    timers: InternalTimerService | None = None
    operator_state: OperatorStates = field(default_factory=OperatorStates)
    restored: bool = False
    checkpointing: bool = False
    before_snapshot: list[Callable[[], None]] = field(default_factory=list)
    operator_uid: str = ""
    place: str = ""
    restored_checkpoint_id: int | None = None
    report: Callable[[Any, bool], None] = lambda payload, output: None
    warn: Callable[[str, str], None] = lambda kind, text: None
    on_error: Any = None
    wake: Callable[[], None] | None = None
    monotonic: Callable[[], float] = field(default=SystemClock().monotonic)
    next_time: Callable[[], int] = field(init=False)

    def send_event(self, payload: Any, output: bool = False) -> None:
        """Send plain data to the operator's coordinator; ``output``: it is part of the attempt's output."""
        self.report(payload, output)

    def __post_init__(self) -> None:
        """Let lifetimes go by the clock itself, unless it is said otherwise."""
        self.next_time = self.processing_time


def connector_context(context: OperatorContext) -> ConnectorContext:
    """Return the context of a reader or writer that runs in an operator."""
    return ConnectorContext(
        context.operator,
        context.subtask,
        context.parallelism,
        context.job_id,
        context.operator_uid,
        context.attempt,
        context.restored_checkpoint_id,
        context.metrics,
        context.processing_time,
        context.wake or (lambda: None),
        context.checkpointing,
    )


class RuntimeContext:
    """A function's view of the subtask it runs in (PyFlink's ``RuntimeContext``), given to its ``open``.

    >>> from funken import MapFunction
    >>> from funken.testing import local
    >>> class Greet(MapFunction):
    ...     def open(self, runtime_context):
    ...         self.greeting = runtime_context.get_job_parameter("greeting", "Hello")
    ...         self.place = runtime_context.get_task_name_with_subtasks()
    ...         self.greeted = runtime_context.get_metrics_group().counter("greeted")
    ...     def map(self, name):
    ...         self.greeted.inc()
    ...         return f"{self.greeting}, {name}, from {self.place}!"
    >>> names = local(["Ann"])
    >>> _ = names.get_execution_environment().get_config().set_global_job_parameters({"greeting": "Good morning"})
    >>> names.map(Greet()).name("greet").execute_and_collect(limit=1)
    ['Good morning, Ann, from greet (1/1)!']

    The subtask and the attempt:

    >>> class Place(MapFunction):
    ...     def open(self, context):
    ...         self.subtask = context.get_index_of_this_subtask(), context.get_number_of_parallel_subtasks()
    ...         self.task = context.get_task_name(), context.get_max_number_of_parallel_subtasks()
    ...         self.attempt, self.job = context.get_attempt_number(), context.get_job_id()
    ...     def map(self, value):
    ...         return self.subtask, self.task, self.attempt, len(self.job)
    >>> local(["any"]).map(Place()).execute_and_collect(limit=1)
    [((0, 1), ('map', 128), 0, 32)]
    """

    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        self._described: dict[str, StateDescriptor[Any]] = {}

    def get_task_name(self) -> str:
        """Return the operator's name."""
        return self._context.operator

    def get_task_name_with_subtasks(self) -> str:
        """Return the operator's name with the subtask, as in ``"map (1/4)"``."""
        return f"{self._context.operator} ({self._context.subtask + 1}/{self._context.parallelism})"

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the operator's parallelism."""
        return self._context.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the operator's maximum parallelism, the number of key groups."""
        return self._context.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Return the subtask's index, from 0."""
        return self._context.subtask

    def get_attempt_number(self) -> int:
        """Return the number of earlier attempts: of the job, or of a task of a batch job that Spark repeats."""
        return self._context.attempt

    def get_job_id(self) -> str:
        """Return the job's id, which its client and its checkpoints have too."""
        return self._context.job_id

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a global job parameter, or the default."""
        return self._context.job_parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        """Return the operator's metric group."""
        return self._context.metrics

    def _state(self, descriptor: StateDescriptor[Any], kind: type) -> Any:
        remedy = "Each kind of state has a method of its own: get_state(), get_list_state(), get_map_state() and so on."
        check_kind(descriptor, kind, f"operator {self._context.operator!r}: the method that makes its state", remedy)
        if self._context.keyed is None:
            raise StateNotKeyed(
                f"operator {self._context.operator!r} requested the keyed state {descriptor.name!r}. Keyed state is "
                "only accessible by functions executed on a KeyedStream: call key_by(...) before this operator."
            )
        life = descriptor.ttl
        if life is not None and is_bare(life.get_ttl()):
            self._context.warn("units", in_ms(f"its state {descriptor.name!r} lives for", life.ttl_millis))
        handle = self._context.keyed.state(descriptor)
        if self._context.keyed.current_key is NO_KEY:
            self._check_name(descriptor)
        return handle

    def _check_name(self, descriptor: StateDescriptor[Any]) -> None:
        """Warn of a second descriptor of a name in ``open()``; raise ``StateError`` if it has another type."""
        first = self._described.setdefault(descriptor.name, descriptor)
        if first is descriptor:
            return
        fact = f"its state {descriptor.name!r} is described twice"
        remedy = "Give each state of an operator a name of its own."
        if first.type_info != descriptor.type_info:
            raise StateError(
                f"operator {self._context.operator!r}: {fact}, with the types {first.type_info} and "
                f"{descriptor.type_info}. {remedy}"
            )
        self._context.warn(
            "names of states", f"{fact}, and both are one state: a write to one changes the other. {remedy}"
        )

    def get_state(self, state_descriptor: ValueStateDescriptor[S]) -> ValueState[S]:
        """Return the ``ValueState`` of the current key; like all of these raises ``StateNotKeyed`` without ``key_by``.

        >>> from funken import MapFunction
        >>> from funken.testing import local
        >>> class Running(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.sum = runtime_context.get_state(ValueStateDescriptor("sum", default=0))
        ...     def map(self, value):
        ...         self.sum.update(self.sum.value() + value)
        ...         return self.sum.value()
        >>> local([1, 2, 3]).key_by(lambda n: n % 2).map(Running()).execute_and_collect(limit=3)
        [1, 2, 4]
        """
        state: ValueState[S] = self._state(state_descriptor, ValueStateDescriptor)
        return state

    def get_list_state(self, state_descriptor: ListStateDescriptor[S]) -> ListState[S]:
        """Return the ``ListState`` of the current key.

        >>> from funken.testing import WindowContext  # has the context of a key
        >>> state = WindowContext().get_runtime_context().get_list_state(ListStateDescriptor("seen"))
        >>> state.add("a")
        >>> state.add_all(["b", "c"])
        >>> list(state.get())
        ['a', 'b', 'c']
        """
        state: ListState[S] = self._state(state_descriptor, ListStateDescriptor)
        return state

    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """Return the ``MapState`` of the current key.

        >>> from funken.testing import WindowContext  # has the context of a key
        >>> state = WindowContext().get_runtime_context().get_map_state(MapStateDescriptor("counts"))
        >>> state.put("a", 1)
        >>> state.get("a"), state.get("b"), list(state.items())
        (1, None, [('a', 1)])
        """
        state: MapState[K, V] = self._state(state_descriptor, MapStateDescriptor)
        return state

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[S]) -> ReducingState[S]:
        """Return the ``ReducingState`` of the current key.

        >>> from funken.testing import WindowContext  # has the context of a key
        >>> state = WindowContext().get_runtime_context().get_reducing_state(ReducingStateDescriptor("highest", max))
        >>> state.add(3)
        >>> state.add(2)
        >>> state.get()
        3
        """
        state: ReducingState[S] = self._state(state_descriptor, ReducingStateDescriptor)
        return state

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor[S, A, R]) -> AggregatingState[S, R]:
        """Return the ``AggregatingState`` of the current key.

        >>> from funken import AggregateFunction
        >>> from funken.testing import WindowContext  # has the context of a key
        >>> class Distinct(AggregateFunction):
        ...     def create_accumulator(self):
        ...         return frozenset()
        ...     def add(self, value, accumulator):
        ...         return accumulator | {value}
        ...     def get_result(self, accumulator):
        ...         return len(accumulator)
        >>> context = WindowContext().get_runtime_context()
        >>> state = context.get_aggregating_state(AggregatingStateDescriptor("distinct", Distinct()))
        >>> for word in ("to", "be", "to"):
        ...     state.add(word)
        >>> state.get()
        2
        """
        state: AggregatingState[S, R] = self._state(state_descriptor, AggregatingStateDescriptor)
        return state
