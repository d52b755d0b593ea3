"""Contents of windows: all records, or their reduced or aggregated value.

A *pane* is the contents of one window by key: a dict from key to what is stored, while the window is open in two layers
(``state/delta_tables.py``). What is stored is never ``None``; where a user's function makes it ``None``, the next record starts
anew, as in reducing and aggregating state.

A logic says how records become contents (``start`` with a first record, ``fold`` another one into them, ``merge`` those of two
windows, the first window's before the other's), and contents a ``result``, which is ``None`` if there is nothing to emit.
``adding`` says how the hot loop adds records to panes (``PaneLoops``).
``compute`` makes contents of records all at once (``None``: of no records). ``descriptor`` is the state that holds contents where
they are kept as keyed state.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce as fold_left
from typing import Any, ClassVar

from funken.columnar.block import TupleBlock
from funken.dataclass import dataclass
from funken.errors import StateError
from funken.operators.base import Operator, OperatorContext, OutputTag, Values
from funken.operators.codegen import LoopStep, LoopText, by_field, names_of_fields, rows_of_fields
from funken.operators.mistakes import key_in_tuple, source_mistakes
from funken.operators.user_functions import KIND, LoopCall, Results, UserFunction, without_return
from funken.state.delta_tables import DeltaTable
from funken.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from funken.state.handles import AggregatingState, ListState, MapState, ReducingState, ValueState
from funken.state.keygroups import PLAIN, normal_key
from funken.types.callables import Generic, K, R, S, V, W_co
from funken.windowing.windows import WINDOW_STATE

# ---- The hot loop of aligned windows, generated: the bodies of the key selector and of the function that adds a record.
#
# A record is taken once for all of the panes that it is added to: its key once, then a lookup, the function and a
# store per pane. A function that cannot be read (``codegen.py``) is called, and so are all without ``inlining``.
# Tuples that come field by field (``TupleBlock``) are made only where they are kept, if both functions can be read.


_MOST_PANES = 16
"""More panes at once would be a long loop; more go through several."""

Loop = Callable[..., None]


@dataclass(frozen=True)
class Adding:
    """The way in which a loop adds a record to the contents of its key.

    ``fold``, of ``arguments`` (``stored`` and ``value``), makes the new contents; ``None``: the record is appended to them.
    ``first(pane, key, value)`` adds a record where the newer layer has nothing of its key. ``alone``: where the older layer is
    empty, too, the record itself is stored.
    """

    first: Callable[[DeltaTable, Any, Any], None]
    fold: Callable[[Any, Any], Any] | None = None
    arguments: tuple[str, str] = ("stored", "value")
    alone: bool = False


class PaneLoops:
    """The loops of one operator, made when they are first needed: by number of panes, and ``TupleBlock.form`` (none: records)."""

    def __init__(self, operator: Operator, key: Callable[[Any], Any], adding: Adding) -> None:
        self._operator = operator
        self._key = key
        self._adding = adding
        self._loops: dict[tuple[int, tuple[int, ...]], Loop | None] = {}

    def add(self, panes: Sequence[DeltaTable], values: Sequence[Any]) -> None:
        """Add records, in order, to each of the panes."""
        for begin in range(0, len(panes), _MOST_PANES):
            some = panes[begin : begin + _MOST_PANES]
            loop = self._loop(len(some), ())
            assert loop is not None
            loop(values, self._adding.first, *some)

    def takes_fields(self, panes: int, form: tuple[int, ...]) -> bool:
        """Return True if tuples of such a form can be added field by field to so many panes."""
        return 0 < panes <= _MOST_PANES and self._loop(panes, form) is not None

    def add_fields(self, panes: Sequence[DeltaTable], block: TupleBlock) -> None:
        """Add tuples field by field; ``takes_fields`` of them is true."""
        loop = self._loop(len(panes), block.form)
        assert loop is not None
        loop(rows_of_fields(block), self._adding.first, *panes, *block.constants.values())

    def _loop(self, panes: int, form: tuple[int, ...]) -> Loop | None:
        if (panes, form) not in self._loops:
            self._loops[panes, form] = self._generate(panes, form)
        return self._loops[panes, form]

    def _generate(self, panes: int, form: tuple[int, ...]) -> Loop | None:
        places = range(panes)
        names, each, constants = names_of_fields("value", form)
        context = getattr(self._operator, "context", None)  # there is none before it is set up
        parameters = ["values", "first", *(f"pane{place}" for place in places), *constants]
        text = LoopText("windows", ", ".join(parameters), context is None or bool(context.inlining))
        text.name("_type", type)
        text.name("_TypeError", TypeError)
        text.name("plain", PLAIN)
        text.name("normal_key", normal_key)
        key = text.step(self._operator, self._key, "value")
        steps = [self._step(text, place) for place in places]
        whole = "value"
        if form:
            of_fields = by_field(key, "value", names)
            steps = [step and by_field(step, "value", names) for step in steps]
            if of_fields is None or (self._adding.fold is not None and None in steps):
                return None
            key, whole = of_fields, f"({', '.join(names)},)"
        for place in places:
            text.line(f"new{place} = pane{place}.delta")
            text.line(f"get{place} = new{place}.get")
            if self._adding.alone:
                text.line(f"has_older{place} = not not pane{place}.base")
        # Hot: a key, and per pane a lookup, the user's function, a store.
        text.line(f"for {each} in values:")
        text.line(f"of = {key.expression}", key)
        for place, step in zip(places, steps, strict=True):
            self._add(text, place, step, whole)
        return text.compile()

    def _step(self, text: LoopText, place: int) -> LoopStep | None:
        """Return the step that makes what is stored in a pane; ``None``: the record is appended to it."""
        if self._adding.fold is None:
            return None
        names = (f"stored{place}" if name == "stored" else name for name in self._adding.arguments)
        return text.step(self._operator, self._adding.fold, *names, record="value")

    def _add(self, text: LoopText, place: int, step: LoopStep | None, whole: str) -> None:
        """Add the lines that add a record to one pane."""
        stored, new, pane = f"stored{place}", f"new{place}", f"pane{place}"
        adds = f"{stored}.append({whole})" if step is None else f"{new}[of] = {step.expression}"
        text.line("try:")
        text.line(f"{stored} = get{place}(of)")
        text.dedent()
        text.line(f"except _TypeError: {stored} = None")  # NumPy's ints and decimals cannot be compared
        text.line(f"if {stored} is not None: {adds}", step)
        text.line("else:")
        text.line("if _type(of) not in plain:")  # a NaN is never found, and is one key
        text.line("of = normal_key(of)")
        text.line(f"{stored} = get{place}(of)")
        text.dedent()
        text.line(f"if {stored} is not None: {adds}", step)
        if self._adding.alone:
            text.line(f"elif not has_older{place}: {new}[of] = {whole}")
        text.line(f"else: first({pane}, of, {whole})")
        text.dedent()


Pane = dict[Any, Any]

_NAME = f"{WINDOW_STATE}contents"


@dataclass(frozen=True)
class Contents:
    """The declared half: ``Elements``, ``Reduced`` or ``Aggregated``."""

    many: ClassVar[bool] = False
    """True if the window function gets the records themselves, not one result."""

    @property
    def mergeable(self) -> bool:
        """True if the contents of two windows can become one."""
        return True

    def build(self) -> ContentsLogic:
        """Make the logic."""
        raise NotImplementedError

    def adding_calls(self) -> tuple[LoopCall, ...]:
        """Return the function that a record is added with, if there is one."""
        return ()

    def open(self, context: OperatorContext) -> None:
        """Open the user's function, if there is one."""

    def close(self) -> None:
        """Close the user's function."""


class Elements(Contents):
    """All records, in the order of arrival: for ``process`` and ``apply``."""

    many = True

    def build(self) -> ContentsLogic:
        """Make the logic."""
        return _ElementsLogic()


@dataclass(frozen=True)
class _OfFunction(Contents):
    """The result of a function over the records."""

    function: UserFunction

    def open(self, context: OperatorContext) -> None:
        """Open the user's function."""
        self.function.open(context)

    def close(self) -> None:
        """Close the user's function."""
        self.function.close()


class _ElementsLogic:
    """Lists."""

    descriptor: StateDescriptor = ListStateDescriptor(_NAME)

    def adding(self) -> Adding:
        """Return how a loop adds records."""
        return Adding(self._first)

    @staticmethod
    def _first(pane: DeltaTable, key: Any, value: Any) -> None:
        pane.delta[key] = stored = pane.base.get(key) or []
        stored.append(value)

    def start(self, value: Any) -> Any:
        return [value]

    def fold(self, stored: Any, value: Any) -> Any:
        stored.append(value)
        return stored

    def merge(self, stored: Any, other: Any) -> Any:
        return [*stored, *other]

    def result(self, stored: Any) -> Any:
        return stored

    def compute(self, values: Values) -> Any:
        return values


class Reduced(_OfFunction):
    """One value: the records reduced, the first one taken as it is. ``function`` is ``(a, b) -> c``."""

    def calls(self) -> tuple[LoopCall, ...]:
        """Return the function, with how many arguments it is called."""
        return (LoopCall(self.function, 2),)

    adding_calls = calls

    def build(self) -> ContentsLogic:
        """Make the logic."""
        return _ReducedLogic(self.function.bind())


class _ReducedLogic:
    """Values."""

    def __init__(self, reduce: Callable[[Any, Any], Any]) -> None:
        self.descriptor: StateDescriptor = ReducingStateDescriptor(_NAME, reduce)
        self.fold = self.merge = reduce

    def adding(self) -> Adding:
        """Return how a loop adds records."""
        return Adding(self._collect_older, self.fold, alone=True)

    def _collect_older(self, pane: DeltaTable, key: Any, value: Any) -> None:
        """Add a record of which the newer layer of a pane has nothing, but the older one may."""
        new, old = pane.delta, pane.base
        stored = None if key in new else old.get(key)
        new[key] = value if stored is None else self.fold(stored, value)

    def start(self, value: Any) -> Any:
        return value

    def result(self, stored: Any) -> Any:
        return stored

    def compute(self, values: Values) -> Any:
        return fold_left(self.fold, values) if values else None


class Aggregated(_OfFunction):
    """An accumulator. ``function.target`` has Flink's ``AggregateFunction`` methods; ``merge`` only for sessions."""

    @property
    def mergeable(self) -> bool:
        """True if the function has ``merge``."""
        return callable(getattr(self.function.target, "merge", None))

    def calls(self) -> tuple[LoopCall, ...]:
        """Return the methods that are called, with how many arguments."""
        methods = {"create_accumulator": 0, "add": 2, "get_result": 1} | ({"merge": 2} if self.mergeable else {})
        return tuple(LoopCall(replace(self.function, method=name), count) for name, count in methods.items())

    def adding_calls(self) -> tuple[LoopCall, ...]:
        """Return the method that adds a record."""
        return (LoopCall(replace(self.function, method="add"), 2),)

    def build(self) -> ContentsLogic:
        """Make the logic."""
        return _AggregatedLogic(self.function.target)


class _AggregatedLogic:
    """Accumulators."""

    def __init__(self, function: Any) -> None:
        self.descriptor: StateDescriptor = AggregatingStateDescriptor(_NAME, function)
        self._create = function.create_accumulator
        self._add = function.add
        self.result = function.get_result
        self.merge = getattr(function, "merge", None) or _cannot_merge

    def adding(self) -> Adding:
        """Return how a loop adds records."""
        return Adding(self._first, self._add, ("value", "stored"))

    def _first(self, pane: DeltaTable, key: Any, value: Any) -> None:
        stored = None if key in pane.delta else pane.base.get(key)
        pane.delta[key] = self._add(value, self._create() if stored is None else stored)

    def start(self, value: Any) -> Any:
        return self._add(value, self._create())

    def fold(self, stored: Any, value: Any) -> Any:
        return self._add(value, stored)

    def compute(self, values: Values) -> Any:
        stored = self._create()
        for value in values:
            stored = self._add(value, stored)
        return stored


def _cannot_merge(stored: Any, other: Any) -> Any:
    raise NotImplementedError("the aggregate function has no method merge(a, b)")


ContentsLogic = _ElementsLogic | _ReducedLogic | _AggregatedLogic
"""The running half."""


# ---- Window functions: how each kind is called, its context, and where its results go.
#
# Results carry the largest timestamp of their window. They are collected, and emitted as one block when the
# operator has handled a block of input, a watermark or a tick. A result that is a tuple beginning with an
# ``OutputTag`` goes to that side output.


class CallStyle(enum.Enum):
    """The calling convention of a window function."""

    PROCESS = "process(key, context, elements)"
    APPLY = "apply(key, window, elements)"
    PROCESS_ALL = "process(context, elements)"
    APPLY_ALL = "apply(window, elements)"


@dataclass(frozen=True)
class WindowCall:
    """A window function in the plan: ``call`` is the callable, or the object with its ``process`` or ``apply``.

    With ``PROCESS`` and ``PROCESS_ALL``, a method ``clear(context)`` of the object is called when a window is done.
    """

    call: UserFunction
    style: CallStyle


class WindowState:
    """The state of one window, or that of all windows of the key (PyFlink's ``KeyedStateStore``).

    >>> from funken import CountTrigger, GlobalWindows, ListStateDescriptor, ProcessWindowFunction
    >>> from funken.testing import local
    >>> class Sums(ProcessWindowFunction):
    ...     def process(self, key, context, elements):
    ...         sums = context.window_state().get_list_state(ListStateDescriptor("sums"))
    ...         sums.add(sum(elements))
    ...         yield list(sums.get())
    >>> everything = local([1, 2, 3, 4]).key_by(lambda n: "all").window(GlobalWindows.create())
    >>> everything.trigger(CountTrigger.of(2)).process(Sums()).execute_and_collect(limit=9)
    [[3], [3, 10]]
    """

    __slots__ = ("_find",)

    def __init__(self, find: Callable[[StateDescriptor], Any]) -> None:
        self._find = find

    def get_state(self, state_descriptor: ValueStateDescriptor[S]) -> ValueState[S]:
        """Return the ``ValueState``."""
        state: ValueState[S] = self._find(state_descriptor)
        return state

    def get_list_state(self, state_descriptor: ListStateDescriptor[S]) -> ListState[S]:
        """Return the ``ListState``."""
        state: ListState[S] = self._find(state_descriptor)
        return state

    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """Return the ``MapState``."""
        state: MapState[K, V] = self._find(state_descriptor)
        return state

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[S]) -> ReducingState[S]:
        """Return the ``ReducingState``."""
        state: ReducingState[S] = self._find(state_descriptor)
        return state

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor[S, Any, R]) -> AggregatingState[S, R]:
        """Return the ``AggregatingState``."""
        state: AggregatingState[S, R] = self._find(state_descriptor)
        return state


class ProcessWindowContext(Generic[W_co]):
    """The context of a ``ProcessWindowFunction``, for the current window.

    >>> from funken import ProcessWindowFunction, TumblingEventTimeWindows, ValueStateDescriptor, WatermarkStrategy
    >>> from funken.testing import local
    >>> class Numbered(ProcessWindowFunction):
    ...     def process(self, key, context, elements):
    ...         windows = context.global_state().get_state(ValueStateDescriptor("windows", default=0))
    ...         windows.update(windows.value() + 1)
    ...         yield windows.value(), tuple(context.window()), len(list(elements))
    ...         context.output(OutputTag("log"), f"fired at {context.current_watermark()}")
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda at, _: at)
    >>> stamped = local([1, 3, 12]).assign_timestamps_and_watermarks(strategy)
    >>> numbered = stamped.key_by(lambda at: "all").window(TumblingEventTimeWindows.of(10)).process(Numbered())
    >>> numbered.execute_and_collect(limit=9)
    [(1, (0, 10), 2), (2, (10, 20), 1)]
    """

    __slots__ = ("_firing", "_global_state", "_window_state", "current")

    def __init__(self, emitter: WindowEmitter) -> None:
        self._firing = emitter
        self.current: Any = None
        self._window_state = WindowState(self._of_window)
        self._global_state = WindowState(self._of_key)

    def window(self) -> W_co:
        """Return the window."""
        window: W_co = self.current
        return window

    def current_processing_time(self) -> int:
        """Return the processing time in milliseconds."""
        time: int = self._firing.operator.context.processing_time()
        return time

    def current_watermark(self) -> int:
        """Return the watermark, ``-2**63`` before there is one."""
        time: int = self._firing.operator.current_watermark
        return time

    def window_state(self) -> WindowState:
        """Return the state of this key and window; to be freed in ``clear``. Windows that merge have none."""
        return self._window_state

    def global_state(self) -> WindowState:
        """Return the state of this key, shared by its windows."""
        return self._global_state

    def output(self, output_tag: OutputTag[S], value: S) -> None:
        """Emit a value to a side output."""
        self._firing.results.side((output_tag, value), self.current.max_timestamp())

    def _of_key(self, descriptor: StateDescriptor) -> Any:
        return self._firing.operator.store.state(descriptor)

    def _of_window(self, descriptor: StateDescriptor) -> Any:
        if self._firing.merging:
            raise StateError(
                f"operator {self._firing.operator.context.operator!r} requested the window state {descriptor.name!r}. "
                "Per-window state is not allowed when using merging windows (sessions): use context.global_state()."
            )
        handle = self._firing.operator.store.namespaced(descriptor)
        handle.namespace = self.current
        return handle


class WindowEmitter:
    """Calls the window function of one operator and collects its results."""

    def __init__(
        self, operator: Any, contents: ContentsLogic, many: bool, function: WindowCall | None, merging: bool
    ) -> None:
        self.operator = operator
        self.merging = merging
        self._result = contents.result
        self._many = many
        self._function = function
        self._context = ProcessWindowContext(self)
        self._call = _adapt(function, self._context) if function else None
        clear = getattr(function.call.target, "clear", None) if function else None
        rich = function is not None and function.style in (CallStyle.PROCESS, CallStyle.PROCESS_ALL)
        self._clear: Callable[[ProcessWindowContext], None] | None = clear if rich and callable(clear) else None
        self.results = Results()

    def open(self) -> None:
        """Open the window function."""
        if self._function is not None:
            self._function.call.open(self.operator.context)
            target = self._function.call.target
            method = getattr(target, "process", None) or getattr(target, "apply", target)
            silent = without_return(method, "Yield the results.", "yields nothing, so no record comes of it")
            if silent is not None:
                self.operator.context.warn(KIND, silent)
            for kind, text in source_mistakes(target, method):
                self.operator.context.warn(kind, text)
            pair = key_in_tuple(method)
            if pair is not None:
                self.operator.context.warn("tuples", pair)

    def close(self) -> None:
        """Close the window function."""
        if self._function is not None:
            self._function.call.close()

    def fire(self, key: Any, window: Any, stored: Any) -> None:
        """Compute one window of the current key."""
        result = self._result(stored)
        if result is None:
            return
        if self._call is None:
            self.results.add(result, window.max_timestamp())
            return
        self._context.current = window
        self.results.take(self._call(key, window, result if self._many else [result]), window.max_timestamp())

    def fire_pane(self, window: Any, pane: Pane, shared: bool = False) -> None:
        """Compute one window for all its keys, for the last time; ``shared``: other windows have the contents too."""
        if self._call is None:
            get_result = self._result
            results = [result for stored in pane.values() if (result := get_result(stored)) is not None]
            self.results.values += self.results.own_block(results) if shared else results
            self.results.stamps += [window.max_timestamp()] * len(results)
            return
        store = self.operator.store
        for key, stored in pane.items():
            store.current_key = key
            self.fire(key, window, stored)
            if self._clear is not None:
                self.clear(window)

    def clear(self, window: Any) -> None:
        """Notify the function that a window of the current key is purged."""
        if self._clear is not None:
            self._context.current = window
            self._clear(self._context)

    def flush(self) -> None:
        """Emit what was collected."""
        self.results.emit(self.operator.output, stamped=True)


def _adapt(function: WindowCall, context: ProcessWindowContext) -> Callable[[Any, Any, Any], Any]:
    """Return the function as ``(key, window, elements) -> results``."""
    call = function.call.bind()
    match function.style:
        case CallStyle.PROCESS:
            return lambda key, window, elements: call(key, context, elements)
        case CallStyle.APPLY:
            return call
        case CallStyle.PROCESS_ALL:
            return lambda key, window, elements: call(context, elements)
        case CallStyle.APPLY_ALL:
            return lambda key, window, elements: call(window, elements)
