"""The function objects users may write, and the one place where a callable becomes a ``Call``.

Every place that takes a function takes a plain callable or one of these objects. An object is opened and closed with
its operator, once per subtask, in the worker; it must survive pickling, so files and connections belong in ``open``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from funken.operators.calls import Call
from funken.operators.context import RuntimeContext
from funken.operators.operator_state import FunctionSnapshotContext


class Function:
    """Base of all function objects."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Prepare; runs before the first record."""

    def close(self) -> None:
        """Release what ``open`` took; runs after the last record, and after a failure."""


class CheckpointedFunction:
    """A mix-in for functions with operator state: lists per subtask rather than values per key.

    >>> from funken import FlatMapFunction, ListStateDescriptor
    >>> from funken.testing import local
    >>> class Pairs(FlatMapFunction, CheckpointedFunction):
    ...     def initialize_state(self, context):
    ...         self.waiting = context.get_operator_state_store().get_list_state(ListStateDescriptor("waiting"))
    ...     def flat_map(self, value):
    ...         self.waiting.add(value)
    ...         if len(self.waiting.get()) == 2:
    ...             yield tuple(self.waiting.get())
    ...             self.waiting.clear()
    >>> local([1, 2, 3, 4]).flat_map(Pairs()).execute_and_collect(limit=2)
    [(1, 2), (3, 4)]
    """

    def initialize_state(self, context: FunctionSnapshotContext) -> None:
        """Find the state with ``context.get_operator_state_store()``; runs before ``open``."""
        raise NotImplementedError

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Put into state what is held elsewhere; runs before each snapshot."""


class MapFunction(Function):
    """One record for each record.

    >>> class Double(MapFunction):
    ...     def map(self, value):
    ...         return value * 2
    >>> Double().map(4)
    8
    """

    def map(self, value: Any) -> Any:
        """Return the record that stands for ``value``."""
        raise NotImplementedError


class FlatMapFunction(Function):
    """Any number of records for each record."""

    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Return or yield records; ``None`` is none."""
        raise NotImplementedError


class FilterFunction(Function):
    """Keeps some records."""

    def filter(self, value: Any) -> bool:
        """Tell whether ``value`` stays."""
        raise NotImplementedError


class ReduceFunction(Function):
    """Joins two records of a key into one; must be associative."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return one record for two."""
        raise NotImplementedError


class KeySelector(Function):
    """Extracts a record's key: something hashable, and equal in every process."""

    def get_key(self, value: Any) -> Any:
        """Return the key of ``value``."""
        raise NotImplementedError


class AggregateFunction(Function):
    """Aggregates records in an accumulator (Flink's ``AggregateFunction``).

    >>> class Mean(AggregateFunction):
    ...     def create_accumulator(self):
    ...         return 0, 0
    ...     def add(self, value, accumulator):
    ...         return accumulator[0] + value, accumulator[1] + 1
    ...     def get_result(self, accumulator):
    ...         return accumulator[0] / accumulator[1]
    ...     def merge(self, a, b):
    ...         return a[0] + b[0], a[1] + b[1]
    >>> Mean().get_result(Mean().add(5, Mean().add(3, Mean().create_accumulator())))
    4.0
    """

    def create_accumulator(self) -> Any:
        """Return an empty accumulator."""
        raise NotImplementedError

    def add(self, value: Any, accumulator: Any) -> Any:
        """Return the accumulator with ``value`` in it."""
        raise NotImplementedError

    def get_result(self, accumulator: Any) -> Any:
        """Return the result of an accumulator."""
        raise NotImplementedError

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Return one accumulator for two; session windows need it."""
        raise NotImplementedError(f"{type(self).__name__} has no merge(); windows that merge (sessions) need it")


class Partitioner(Function):
    """Chooses the subtask of a key."""

    def partition(self, key: Any, num_partitions: int) -> int:
        """Return a number from 0 to ``num_partitions`` less one."""
        raise NotImplementedError


class ProcessFunction(Function):
    """Sees each record with its timestamp; may emit to side outputs."""

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Return or yield records; ``(OutputTag, record)`` goes to a side output."""
        raise NotImplementedError


class KeyedProcessFunction(Function):
    """Sees each record of a key, with state and timers."""

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Return or yield records."""
        raise NotImplementedError

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any] | None:
        """A timer fired; return or yield records."""


class CoMapFunction(Function):
    """Maps the records of two connected streams."""

    def map1(self, value: Any) -> Any:
        """Map a record of the first stream."""
        raise NotImplementedError

    def map2(self, value: Any) -> Any:
        """Map a record of the second stream."""
        raise NotImplementedError


class CoFlatMapFunction(Function):
    """Any number of records for each record of two connected streams."""

    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Expand a record of the first stream."""
        raise NotImplementedError

    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Expand a record of the second stream."""
        raise NotImplementedError


class CoProcessFunction(Function):
    """Sees the records of two connected streams."""

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Handle a record of the first stream."""
        raise NotImplementedError

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Handle a record of the second stream."""
        raise NotImplementedError


class KeyedCoProcessFunction(CoProcessFunction):
    """The same on two keyed streams, with state and timers."""

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any] | None:
        """A timer fired."""


class BroadcastProcessFunction(Function):
    """Sees a stream, and a broadcast stream that fills broadcast state."""

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Handle a record; broadcast state is read-only here."""
        raise NotImplementedError

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Handle a broadcast record; runs in every subtask."""
        raise NotImplementedError


class KeyedBroadcastProcessFunction(BroadcastProcessFunction):
    """The same with a keyed first stream."""

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any] | None:
        """A timer fired."""


class WindowFunction(Function):
    """Sees all elements of a window of a key."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield results."""
        raise NotImplementedError


class AllWindowFunction(Function):
    """Sees all elements of a window."""

    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield results."""
        raise NotImplementedError


class ProcessWindowFunction(Function):
    """Sees all elements of a window of a key, with a context."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield results."""
        raise NotImplementedError

    def clear(self, context: Any) -> None:
        """Drop per-window state; runs when the window is cleaned up."""


class ProcessAllWindowFunction(Function):
    """Sees all elements of a window, with a context."""

    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield results."""
        raise NotImplementedError

    def clear(self, context: Any) -> None:
        """Drop per-window state."""


class JoinFunction(Function):
    """Makes one record of a pair (``stream.join``).

    >>> class Price(JoinFunction):
    ...     def join(self, first, second):
    ...         return first["item"], second["price"]
    >>> Price().join({"item": "tea"}, {"price": 3})
    ('tea', 3)
    """

    def join(self, first: Any, second: Any) -> Any:
        """Return the record for a pair."""
        raise NotImplementedError


class FlatJoinFunction(Function):
    """Makes any number of records of a pair (``stream.join``)."""

    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """Return or yield records; ``None`` is none."""
        raise NotImplementedError


class CoGroupFunction(Function):
    """Sees the records of a key and window in both streams (``stream.co_group``); one of the lists may be empty."""

    def co_group(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        """Return or yield records."""
        raise NotImplementedError


class ProcessJoinFunction(Function):
    """Sees pairs of records whose timestamps are close (``keyed_stream.interval_join``)."""

    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterable[Any] | None:
        """Return or yield records; ``ctx`` has ``get_left_timestamp()``, ``get_right_timestamp()``, ``output()``."""
        raise NotImplementedError


def as_call(function: Any, method: str, role: str) -> Call:
    """Turn what the user gave into a ``Call``; raise ``TypeError`` if it is neither callable nor has the method."""
    if isinstance(function, Call):
        return function
    if isinstance(function, type) and hasattr(function, method):
        raise TypeError(f"{role} got the class {function.__name__}; give an instance: {function.__name__}()")
    rich = hasattr(function, "open") and hasattr(function, "close")
    if isinstance(function, Function) or (hasattr(function, method) and not callable(function)):
        if not hasattr(function, method):
            raise TypeError(f"{role} needs an object with a method {method}(), but {function!r} has none")
        return Call(function, method, rich)
    if callable(function):
        return Call(function)
    raise TypeError(f"{role} needs a function, or an object with a method {method}(), but got {function!r}")
