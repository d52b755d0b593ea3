"""The function objects users may write, and the one place where a callable becomes a ``UserFunction``.

Every place that takes a function takes a plain callable or one of these objects. An object is opened and closed with
its operator, once per subtask, in the worker; it must survive pickling, so files and connections belong in ``open``.
Here are those that see one stream; ``two_inputs.py`` has those that see two, ``windows.py`` those that see
windows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from funken.columnar.vectorized.functions import VectorizedFunction
from funken.errors import InvalidProgram
from funken.operators.context import RuntimeContext
from funken.operators.operator_state import FunctionSnapshotContext
from funken.operators.process.contexts import KeyedContext, ProcessContext
from funken.operators.process.contexts import OnTimerContext as TimerContext
from funken.operators.tags import SideOutput
from funken.operators.user_functions import UserFunction
from funken.types.callables import check_arguments, check_function, check_methods
from funken.types.generics import ACC, Generic, IN_contra, K_co, K_contra, OUT_co, S, T, T_contra


class Function:
    """Base of all function objects: what is made once and used for every record is made in ``open``.

    >>> from funken.testing import local
    >>> class Price(MapFunction):
    ...     def open(self, runtime_context):
    ...         self.prices = {"tea": 3, "jam": 5}  # or a connection, or a model
    ...     def map(self, value):
    ...         return value, self.prices[value]
    ...     def close(self):
    ...         print("closed")
    >>> local(["tea", "jam"]).map(Price()).execute_and_collect(limit=2)
    closed
    [('tea', 3), ('jam', 5)]
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Prepare; runs in the worker before the first record of an attempt, when state can already be had."""

    def close(self) -> None:
        """Release what ``open`` took; runs after the last record, and after a failure, also one of ``open``."""


class CheckpointedFunction:
    """A mix-in for functions with operator state: lists per subtask rather than values per key.

    >>> from funken import FlatMapFunction, ListStateDescriptor
    >>> from funken.testing import local
    >>> class Pairs(FlatMapFunction, CheckpointedFunction):
    ...     def initialize_state(self, context):
    ...         self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("waiting"))
    ...         self.waiting = list(self.state)
    ...     def snapshot_state(self, context):
    ...         self.state.update(self.waiting)
    ...     def flat_map(self, value):
    ...         self.waiting.append(value)
    ...         if len(self.waiting) == 2:
    ...             yield tuple(self.waiting)
    ...             self.waiting.clear()
    >>> local([1, 2, 3, 4]).flat_map(Pairs()).execute_and_collect(limit=2)
    [(1, 2), (3, 4)]
    """

    def initialize_state(self, context: FunctionSnapshotContext) -> None:
        """Find the state with ``context.get_operator_state_store()``; runs before ``open``."""
        raise NotImplementedError

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Put into state what is held elsewhere; runs before each snapshot, between two records."""


class MapFunction(Function, Generic[IN_contra, OUT_co]):
    """One record for each record.

    >>> from funken.testing import local
    >>> class Double(MapFunction):
    ...     def map(self, value):
    ...         return value * 2
    >>> local([1, 2]).map(Double()).execute_and_collect(limit=2)
    [2, 4]
    """

    def map(self, value: IN_contra) -> OUT_co:
        """Return the record that stands for ``value``."""
        raise NotImplementedError


class FlatMapFunction(Function, Generic[IN_contra, OUT_co]):
    """Any number of records for each record.

    >>> from funken.testing import local
    >>> class Words(FlatMapFunction):
    ...     def flat_map(self, value):
    ...         yield from value.split()
    >>> local(["to be", "", "or"]).flat_map(Words()).execute_and_collect(limit=3)
    ['to', 'be', 'or']
    """

    def flat_map(self, value: IN_contra) -> Iterable[OUT_co] | None:
        """Return or yield records; ``None`` is none."""
        raise NotImplementedError


class FilterFunction(Function, Generic[T_contra]):
    """Keeps some records.

    On a keyed stream it may have state, as ``MapFunction`` and ``FlatMapFunction`` may:

    >>> from funken import ValueStateDescriptor
    >>> from funken.testing import local
    >>> class FirstOfKey(FilterFunction):
    ...     def open(self, runtime_context):
    ...         self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))
    ...     def filter(self, value):
    ...         if self.seen.value():
    ...             return False
    ...         self.seen.update(True)
    ...         return True
    >>> local(["a", "b", "a"]).key_by(lambda word: word).filter(FirstOfKey()).execute_and_collect(limit=2)
    ['a', 'b']
    """

    def filter(self, value: T_contra) -> bool:
        """Tell whether ``value`` stays."""
        raise NotImplementedError


class ReduceFunction(Function, Generic[T]):
    """Joins two records of a key into one; must be associative.

    >>> from funken.testing import local
    >>> class Longest(ReduceFunction):
    ...     def reduce(self, value1, value2):
    ...         return max(value1, value2, key=len)
    >>> local(["to", "question", "be"]).key_by(lambda _: "all").reduce(Longest()).execute_and_collect(limit=3)
    ['to', 'question', 'question']
    """

    def reduce(self, value1: T, value2: T) -> T:
        """Return one record for two: what was so far, and a new one."""
        raise NotImplementedError


class KeySelector(Function, Generic[IN_contra, K_co]):
    """Extracts a record's key: something hashable, and equal in every process.

    >>> from funken.testing import local
    >>> class Initial(KeySelector):
    ...     def get_key(self, value):
    ...         return value[0]
    >>> keyed = local(["tea", "toast", "jam"]).key_by(Initial())
    >>> keyed.reduce(lambda x, y: f"{x} {y}").execute_and_collect(limit=3)
    ['tea', 'tea toast', 'jam']
    """

    def get_key(self, value: IN_contra) -> K_co:
        """Return the key of ``value``; a str, number, tuple, enum, frozen dataclass, or one with ``__stable_hash__``."""
        raise NotImplementedError


class AggregateFunction(Function, Generic[IN_contra, ACC, OUT_co]):
    """Aggregates records in an accumulator (Flink's ``AggregateFunction``), which is all that a window keeps.

    >>> from funken.testing import local
    >>> class Mean(AggregateFunction):
    ...     def create_accumulator(self):
    ...         return 0, 0
    ...     def add(self, value, accumulator):
    ...         return accumulator[0] + value, accumulator[1] + 1
    ...     def get_result(self, accumulator):
    ...         return accumulator[0] / accumulator[1]
    ...     def merge(self, a, b):
    ...         return a[0] + b[0], a[1] + b[1]
    >>> local([3, 5, 6, 9]).count_window_all(2).aggregate(Mean()).execute_and_collect(limit=2)
    [4.0, 7.5]
    """

    def create_accumulator(self) -> ACC:
        """Return an empty accumulator."""
        raise NotImplementedError

    def add(self, value: IN_contra, accumulator: ACC) -> ACC:
        """Return the accumulator with ``value`` in it; it may be the same object, changed."""
        raise NotImplementedError

    def get_result(self, accumulator: ACC) -> OUT_co:
        """Return the result of an accumulator."""
        raise NotImplementedError

    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Return one accumulator for two; session windows need it, others never call it."""
        raise NotImplementedError(f"{type(self).__name__} has no merge(); windows that merge (sessions) need it")


class Partitioner(Function, Generic[K_contra]):
    """Chooses the subtask of a key, for ``partition_custom``.

    >>> from funken.testing import local
    >>> class Parity(Partitioner):
    ...     def partition(self, key, num_partitions):
    ...         return key % num_partitions
    >>> class Place(MapFunction):
    ...     def open(self, runtime_context):
    ...         self.subtask = runtime_context.get_index_of_this_subtask()
    ...     def map(self, value):
    ...         return self.subtask, value
    >>> placed = local([1, 2, 3]).partition_custom(Parity(), lambda number: number).map(Place()).set_parallelism(2)
    >>> sorted(placed.execute_and_collect(limit=3))
    [(0, 2), (1, 1), (1, 3)]
    """

    def partition(self, key: K_contra, num_partitions: int) -> int:
        """Return a number from 0 to ``num_partitions`` less one; any other fails the job."""
        raise NotImplementedError


class ProcessFunction(Function, Generic[IN_contra, OUT_co]):
    """Sees each record with its timestamp; may emit to side outputs.

    >>> from funken import OutputTag
    >>> from funken.testing import local
    >>> bad = OutputTag("bad")
    >>> class Parse(ProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         if value.isdigit():
    ...             yield int(value)
    ...         else:
    ...             yield bad, value  # the same as ctx.output(bad, value)
    >>> parsed = local(["1", "2", "x"]).process(Parse())
    >>> refused = parsed.get_side_output(bad).map(lambda text: f"cannot read {text!r}")
    >>> sorted(parsed.union(refused).execute_and_collect(limit=3), key=str)
    [1, 2, "cannot read 'x'"]
    """

    Context: TypeAlias = ProcessContext

    def process_element(self, value: IN_contra, ctx: ProcessContext) -> Iterable[OUT_co | SideOutput] | None:
        """Return or yield records; ``(OutputTag, record)`` goes to a side output."""
        raise NotImplementedError


class KeyedProcessFunction(Function, Generic[K_contra, IN_contra, OUT_co]):
    """Sees each record of a key, with state and timers.

    This one tells which keys were silent for 10 ms of event time:

    >>> from funken import ValueStateDescriptor, WatermarkStrategy
    >>> from funken.testing import local
    >>> class Silent(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.last = runtime_context.get_state(ValueStateDescriptor("last"))
    ...     def process_element(self, value, ctx):
    ...         self.last.update(ctx.timestamp())
    ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
    ...     def on_timer(self, timestamp, ctx):
    ...         if timestamp == self.last.value() + 10:
    ...             yield ctx.get_current_key(), timestamp
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e[1])
    >>> events = local([("a", 0), ("b", 3), ("a", 5)]).assign_timestamps_and_watermarks(strategy)
    >>> events.key_by(lambda e: e[0]).process(Silent()).execute_and_collect(limit=2)
    [('b', 13), ('a', 15)]
    """

    Context = KeyedContext[S]
    OnTimerContext = TimerContext[S]

    def process_element(self, value: IN_contra, ctx: KeyedContext[K_contra]) -> Iterable[OUT_co | SideOutput] | None:
        """Return or yield records; ``(OutputTag, record)`` goes to a side output."""
        raise NotImplementedError

    def on_timer(self, timestamp: int, ctx: TimerContext[K_contra]) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a timer of the current key that was set for ``timestamp`` (ms); return or yield records."""


def as_user_function(function: object, method: str, role: str) -> UserFunction:
    """Turn what the user gave into a ``UserFunction``; raise ``TypeError`` if it is neither callable nor has the method.

    Raises ``InvalidProgram`` for a function over whole blocks.
    """
    found = _as_user_function(function, method, role)
    if isinstance(found.bind(), VectorizedFunction):
        raise InvalidProgram(
            f"{role} calls its function with one record, but {found!r} is @funken.vectorized and takes a whole block. Use it in "
            "map(), filter() or map_batches(), or give a function of one record."
        )
    if not isinstance(function, UserFunction):
        check_methods(function, Function, role)
        check_function(function, method, role)
        if method != "process_element":  # that of a join has another argument
            check_arguments(function, method, role)
    return found


def vectorized_call(function: object, method: str) -> tuple[UserFunction, VectorizedFunction] | None:
    """Return a function over whole blocks as the operator calls it, and its mark; ``None`` if it takes single records."""
    marked = function if isinstance(function, VectorizedFunction) else getattr(function, method, None)
    if not isinstance(marked, VectorizedFunction) or isinstance(function, type):
        return None
    return _as_user_function(function, method, f"{method}()"), marked


def _as_user_function(function: object, method: str, role: str) -> UserFunction:
    if isinstance(function, UserFunction):
        return function
    if isinstance(function, type) and hasattr(function, method):
        raise TypeError(f"{role} got the class {function.__name__}; give an instance: {function.__name__}()")
    rich = hasattr(function, "open") and hasattr(function, "close")
    if isinstance(function, Function) or (hasattr(function, method) and not callable(function)):
        if not hasattr(function, method):
            raise TypeError(f"{role} needs an object with a method {method}(), but {function!r} has none")
        return UserFunction(function, method, rich)
    if callable(function):
        return UserFunction(function)
    raise TypeError(f"{role} needs a function, or an object with a method {method}(), but got {function!r}")
