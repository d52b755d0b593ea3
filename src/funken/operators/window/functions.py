"""Window functions: how each kind is called, its context, and where its results go.

Results carry the largest timestamp of their window. They are collected, and emitted as one block when the operator
has handled a block of input, a watermark or a tick. A result that is a tuple beginning with an ``OutputTag`` goes to
that side output.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from funken.dataclass import dataclass
from funken.errors import StateError
from funken.operators.base import OutputTag
from funken.operators.results import Results
from funken.operators.user_functions import UserFunction
from funken.operators.window.contents import ContentsLogic, Pane
from funken.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from funken.state.handles import AggregatingState, ListState, ReducingState, ValueState
from funken.state.maps import MapState
from funken.types.callables import Generic, K, R, S, V, W_co


class CallStyle(enum.Enum):
    """How a window function is called."""

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
                f"operator {self._firing.operator.context.operator!r} asked for the window state {descriptor.name!r}. "
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
