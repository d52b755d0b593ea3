"""The function objects users may write, and the one place where a callable becomes a ``UserFunction``.

Every place that takes a function takes a plain callable or one of these objects. An object is opened and closed with
its operator, once per subtask, in the worker; it must survive pickling, so files and connections belong in ``open``.
Here are those that see one stream; ``two_inputs.py`` has those that see two, ``windows.py`` those that see
windows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any, TypeAlias, TypeVar

from funken.columnar.bytecode import instructions
from funken.columnar.vectorized.functions import VectorizedFunction
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.operators.base import SideOutput
from funken.operators.join import JoinContext
from funken.operators.operator_state import FunctionSnapshotContext
from funken.operators.process.keyed_operator import KeyedContext, ProcessContext
from funken.operators.process.keyed_operator import OnTimerContext as TimerContext
from funken.operators.process.two_inputs import BroadcastContext, KeyedReadOnlyContext, ReadOnlyOnTimerContext
from funken.operators.process.two_inputs import ReadOnlyContext as ReadOnly
from funken.operators.user_functions import UserFunction, without_return
from funken.operators.window.contents import ProcessWindowContext
from funken.types.callables import (
    ACC,
    T1,
    T2,
    Generic,
    IN1_contra,
    IN2_contra,
    IN_contra,
    K_co,
    K_contra,
    OUT_co,
    T,
    T_contra,
    V,
    W_contra,
    check_arguments,
    check_function,
    check_methods,
    fields_of,
    remember_names,
)


class Function:
    """Base of all function objects: ``open`` makes the objects that all records share.

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

    def open(self, runtime_context: Any) -> None:
        """Prepare; runs in the worker before the first record of an attempt, when state can already be had.

        The argument is a ``RuntimeContext``, in batch programs a ``DataSetRuntimeContext``.
        """

    def close(self) -> None:
        """Release the resources of ``open``; runs after the last record, and after a failure, also one of ``open``."""


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
        """Copy state that is held elsewhere into Funken's; runs before each snapshot, between two records."""


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
        """Return one record for two: the result so far, and a new record."""
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

    Context = KeyedContext[V]
    OnTimerContext = TimerContext[V]

    def process_element(self, value: IN_contra, ctx: KeyedContext[K_contra]) -> Iterable[OUT_co | SideOutput] | None:
        """Return or yield records; ``(OutputTag, record)`` goes to a side output."""
        raise NotImplementedError

    def on_timer(self, timestamp: int, ctx: TimerContext[K_contra]) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a timer of the current key that was set for ``timestamp`` (ms); return or yield records."""


def as_user_function(function: object, method: str, role: str) -> UserFunction:
    """Turn a user's function into a ``UserFunction``; raise ``TypeError`` if it is neither callable nor has the method.

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
        remember_names(function)
        if method != "process_element":  # that of a join has another argument
            check_arguments(function, method, role)
        check_result(found.bind(), method, role)
    return found


def check_result(call: Callable[..., object], method: str, role: str) -> None:
    """Raise ``InvalidProgram`` for a function that forgot its ``return`` where nothing can go on without a result."""
    fact = without_return(call, f"Return {_RESULTS[method]}.", "returns nothing") if method in _RESULTS else None
    if fact is not None:
        raise InvalidProgram(f"{role}: {fact}")


def check_beginning(function: Any) -> None:
    """Raise ``InvalidProgram`` for an aggregate whose ``create_accumulator()`` makes something and does not return it."""
    code = getattr(getattr(function.create_accumulator, "__func__", None), "__code__", None)
    fact = without_return(function.create_accumulator, "Return the accumulator.", "returns nothing")
    if code is not None and fact is not None and any(step.opname.startswith("STORE_") for step in instructions(code)):
        raise InvalidProgram(f"aggregate(): {fact}")


_RESULTS = {
    "get_key": "the key",
    "reduce": "the result so far",
    "add": "the accumulator",
    "get_result": "the result",
    "select": "the result",
    "condition": "the condition",
    "extract_timestamp": "the time of the record",
}


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
    remedy = "Give a function, such as lambda record: record, and do not call it."
    if method == "get_key" and isinstance(function, str | int):
        remedy = f"Write lambda record: record[{function!r}]."
    elif method == "get_key" and isinstance(function, list | tuple):
        items = ", ".join(f"record[{each!r}]" for each in function)
        remedy = f"Write lambda record: ({items}{',' * (len(function) == 1)})."
    raise TypeError(
        f"{role} needs a function, or an object with a method {method}(), but got {function!r:.100}. {remedy}"
    )


# ---- Function objects for two streams: connected ones, a broadcast one beside another, and joined ones.
#
# They are opened and closed as all functions are (``base.py``). The two inputs of one share its state, and on keyed
# streams its timers; nothing is said about the order in which their records come.


class CoMapFunction(Function, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Maps the records of two connected streams.

    >>> from funken import StreamExecutionEnvironment
    >>> class Celsius(CoMapFunction):
    ...     def map1(self, value):
    ...         return value
    ...     def map2(self, value):
    ...         return (value - 32) * 5 / 9
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> celsius, fahrenheit = env.from_collection([21.5]), env.from_collection([32, 50])
    >>> sorted(celsius.connect(fahrenheit).map(Celsius()).execute_and_collect(limit=3))
    [0.0, 10.0, 21.5]
    """

    def map1(self, value: IN1_contra) -> OUT_co | None:
        """Map a record of the first stream; ``None`` is dropped."""
        raise NotImplementedError

    def map2(self, value: IN2_contra) -> OUT_co | None:
        """Map a record of the second stream; ``None`` is dropped."""
        raise NotImplementedError


class CoFlatMapFunction(Function, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Any number of records for each record of two connected streams.

    >>> from funken import StreamExecutionEnvironment
    >>> class Words(CoFlatMapFunction):
    ...     def flat_map1(self, value):
    ...         return value.split()
    ...     def flat_map2(self, value):
    ...         yield from value["words"]
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> texts, documents = env.from_collection(["to be"]), env.from_collection([{"words": ["or", "not"]}])
    >>> sorted(texts.connect(documents).flat_map(Words()).execute_and_collect(limit=4))
    ['be', 'not', 'or', 'to']
    """

    def flat_map1(self, value: IN1_contra) -> Iterable[OUT_co] | None:
        """Return or yield records for one of the first stream; ``None`` is none."""
        raise NotImplementedError

    def flat_map2(self, value: IN2_contra) -> Iterable[OUT_co] | None:
        """Return or yield records for one of the second stream; ``None`` is none."""
        raise NotImplementedError


class CoProcessFunction(Function, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Sees the records of two connected streams, with their timestamps; may emit to side outputs.

    >>> from funken import OutputTag, StreamExecutionEnvironment
    >>> errors = OutputTag("errors")
    >>> class Merge(CoProcessFunction):
    ...     def process_element1(self, value, ctx):
    ...         yield value, ctx.timestamp()
    ...     def process_element2(self, value, ctx):
    ...         ctx.output(errors, f"error: {value}")
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> merged = env.from_collection(["up"]).connect(env.from_collection(["disk"])).process(Merge())
    >>> sorted(merged.map(str).union(merged.get_side_output(errors)).execute_and_collect(limit=2))
    ["('up', None)", 'error: disk']
    """

    Context: TypeAlias = ProcessContext

    def process_element1(self, value: IN1_contra, ctx: ProcessContext) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a record of the first stream: return or yield records, ``(OutputTag, record)`` to a side output."""
        raise NotImplementedError

    def process_element2(self, value: IN2_contra, ctx: ProcessContext) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a record of the second stream: return or yield records, ``(OutputTag, record)`` to a side output."""
        raise NotImplementedError


class KeyedCoProcessFunction(Function, Generic[K_contra, IN1_contra, IN2_contra, OUT_co]):
    """Sees the records of two connected keyed streams, with timers and state that a key shares between them.

    This one tells which orders were not paid for within 10 ms of event time:

    >>> from funken import StreamExecutionEnvironment, ValueStateDescriptor, WatermarkStrategy
    >>> class Unpaid(KeyedCoProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.paid = runtime_context.get_state(ValueStateDescriptor("paid"))
    ...     def process_element1(self, order, ctx):
    ...         ctx.timer_service().register_event_time_timer(order["at"] + 10)
    ...     def process_element2(self, payment, ctx):
    ...         self.paid.update(True)
    ...     def on_timer(self, timestamp, ctx):
    ...         if not self.paid.value():
    ...             yield ctx.get_current_key(), timestamp
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e["at"])
    >>> orders = env.from_collection([{"id": 1, "at": 0}, {"id": 2, "at": 5}]).assign_timestamps_and_watermarks(strategy)
    >>> payments = env.from_collection([{"id": 1, "at": 7}]).assign_timestamps_and_watermarks(strategy)
    >>> both = orders.connect(payments).key_by(lambda order: order["id"], lambda payment: payment["id"])
    >>> both.process(Unpaid()).execute_and_collect(limit=1)
    [(2, 15)]
    """

    Context = KeyedContext[V]
    OnTimerContext = TimerContext[V]

    def process_element1(self, value: IN1_contra, ctx: KeyedContext[K_contra]) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a record of the first stream: return or yield records, ``(OutputTag, record)`` to a side output."""
        raise NotImplementedError

    def process_element2(self, value: IN2_contra, ctx: KeyedContext[K_contra]) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a record of the second stream: return or yield records, ``(OutputTag, record)`` to a side output."""
        raise NotImplementedError

    def on_timer(self, timestamp: int, ctx: TimerContext[K_contra]) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a timer of the current key that was set for ``timestamp`` (ms); return or yield records."""


class BroadcastProcessFunction(Function, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Sees a stream, and a broadcast stream that fills broadcast state.

    In ``BATCH`` mode, as here, the whole broadcast stream comes first; otherwise the two interleave.

    >>> from funken import MapStateDescriptor, RuntimeExecutionMode, StreamExecutionEnvironment
    >>> names = MapStateDescriptor("names")
    >>> class Name(BroadcastProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         yield value, ctx.get_broadcast_state(names).get(value)
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(names).put(value["code"], value["name"])
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> countries = env.set_runtime_mode(RuntimeExecutionMode.BATCH).from_collection([{"code": "fi", "name": "Finland"}])
    >>> visits = env.from_collection(["fi", "xx"]).connect(countries.broadcast(names))
    >>> visits.process(Name()).execute_and_collect(limit=2)
    [('fi', 'Finland'), ('xx', None)]
    """

    Context: TypeAlias = BroadcastContext
    ReadOnlyContext: TypeAlias = ReadOnly

    def process_element(self, value: IN1_contra, ctx: ReadOnly) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a record; ``ctx.get_broadcast_state(descriptor)`` is read-only here."""
        raise NotImplementedError

    def process_broadcast_element(
        self, value: IN2_contra, ctx: BroadcastContext
    ) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a broadcast record; runs in every subtask, and must do the same to the state in each of them."""
        raise NotImplementedError


class KeyedBroadcastProcessFunction(Function, Generic[K_contra, IN1_contra, IN2_contra, OUT_co]):
    """Sees a keyed stream, with state and timers, and a broadcast stream that fills broadcast state.

    This one compares each key's last value with a limit that a broadcast stream may change, when a timer fires:

    >>> from funken import MapStateDescriptor, StreamExecutionEnvironment, ValueStateDescriptor, WatermarkStrategy
    >>> limits = MapStateDescriptor("limits")
    >>> class TooHigh(KeyedBroadcastProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.last = runtime_context.get_state(ValueStateDescriptor("last"))
    ...     def process_element(self, value, ctx):
    ...         self.last.update(value[1])
    ...         ctx.timer_service().register_event_time_timer(ctx.timestamp())
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(limits).put("limit", value[1])
    ...     def on_timer(self, timestamp, ctx):
    ...         if self.last.value() > ctx.get_broadcast_state(limits).get("limit"):
    ...             yield ctx.get_current_key(), self.last.value()
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: 0)
    >>> changes = env.from_collection([("limit", 20)]).assign_timestamps_and_watermarks(strategy).broadcast(limits)
    >>> values = env.from_collection([("a", 19), ("b", 21)]).assign_timestamps_and_watermarks(strategy)
    >>> values.key_by(lambda e: e[0]).connect(changes).process(TooHigh()).execute_and_collect(limit=1)
    [('b', 21)]
    """

    Context: TypeAlias = BroadcastContext
    ReadOnlyContext = KeyedReadOnlyContext[V]
    OnTimerContext = ReadOnlyOnTimerContext[V]

    def process_element(
        self, value: IN1_contra, ctx: KeyedReadOnlyContext[K_contra]
    ) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a record; ``ctx.get_broadcast_state(descriptor)`` is read-only here."""
        raise NotImplementedError

    def process_broadcast_element(
        self, value: IN2_contra, ctx: BroadcastContext
    ) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a broadcast record; runs in every subtask, and must do the same to the state in each of them."""
        raise NotImplementedError

    def on_timer(self, timestamp: int, ctx: ReadOnlyOnTimerContext[K_contra]) -> Iterable[OUT_co | SideOutput] | None:
        """Handle a timer of the current key that was set for ``timestamp`` (ms); return or yield records."""


class JoinFunction(Function, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Makes one record of a pair (``stream.join``).

    >>> class Price(JoinFunction):
    ...     def join(self, first, second):
    ...         return first["item"], second["price"]
    >>> Price().join({"item": "tea"}, {"price": 3})
    ('tea', 3)
    """

    def join(self, first: IN1_contra, second: IN2_contra) -> OUT_co:
        """Return the record for a pair."""
        raise NotImplementedError


class FlatJoinFunction(Function, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Makes any number of records of a pair (``stream.join``).

    >>> class Better(FlatJoinFunction):
    ...     def join(self, first, second):
    ...         if second["price"] < first["price"]:
    ...             yield second["shop"], first["price"] - second["price"]
    >>> [*Better().join({"price": 5}, {"price": 3, "shop": "a"}), *Better().join({"price": 5}, {"price": 6, "shop": "b"})]
    [('a', 2)]
    """

    def join(self, first: IN1_contra, second: IN2_contra) -> Iterable[OUT_co] | None:
        """Return or yield records; ``None`` is none."""
        raise NotImplementedError


class CoGroupFunction(Function, Generic[T1, T2, OUT_co]):
    """Sees the records of a key and window in both streams (``stream.co_group``); one of the lists may be empty.

    So it can report records without a partner, as an outer join does:

    >>> class Missing(CoGroupFunction):
    ...     def co_group(self, first, second):
    ...         if not second:
    ...             yield from first
    >>> [*Missing().co_group(["order 1"], ["payment"]), *Missing().co_group(["order 2"], [])]
    ['order 2']
    """

    def co_group(self, first: list[T1], second: list[T2]) -> Iterable[OUT_co] | None:
        """Return or yield records; ``None`` is none."""
        raise NotImplementedError


class ProcessJoinFunction(Function, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Sees pairs of records whose timestamps are close (``keyed_stream.interval_join``).

    >>> from funken import WatermarkStrategy
    >>> from funken.testing import local
    >>> class Apart(ProcessJoinFunction):
    ...     def process_element(self, left, right, ctx):
    ...         yield left, right, ctx.get_right_timestamp() - ctx.get_left_timestamp()
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda at, _: at)
    >>> times = local([1, 4, 9]).assign_timestamps_and_watermarks(strategy).key_by(lambda at: "all")
    >>> sorted(times.interval_join(times).between(1, 5).process(Apart()).execute_and_collect(limit=2))
    [(1, 4, 3), (4, 9, 5)]
    """

    Context: TypeAlias = JoinContext

    def process_element(
        self, left: IN1_contra, right: IN2_contra, ctx: JoinContext
    ) -> Iterable[OUT_co | SideOutput] | None:
        """Return or yield records.

        ``ctx`` has ``get_left_timestamp()``, ``get_right_timestamp()``, ``get_timestamp()`` (the larger one; all in ms)
        and ``output(tag, record)``.
        """
        raise NotImplementedError


# ---- Function objects for windows: they see a whole window at once, or the one result of ``reduce`` or
# ``aggregate``.
#
# What they return carries the largest timestamp of the window; ``(OutputTag, record)`` goes to a side output.


class WindowFunction(Function, Generic[IN_contra, OUT_co, K_contra, W_contra]):
    """Sees all elements of a window of a key.

    >>> from funken import TumblingEventTimeWindows, WatermarkStrategy
    >>> from funken.testing import local
    >>> class Spread(WindowFunction):
    ...     def apply(self, key, window, inputs):
    ...         values = [value for _, value, _ in inputs]
    ...         yield key, window.start, max(values) - min(values)
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e[2])
    >>> readings = local([("a", 20, 0), ("a", 23, 8), ("a", 21, 12)]).assign_timestamps_and_watermarks(strategy)
    >>> windows = readings.key_by(lambda e: e[0]).window(TumblingEventTimeWindows.of(10))
    >>> windows.apply(Spread()).execute_and_collect(limit=2)
    [('a', 0, 3), ('a', 10, 0)]
    """

    def apply(self, key: K_contra, window: W_contra, inputs: list[IN_contra]) -> Iterable[OUT_co | SideOutput] | None:
        """Return or yield results; ``None`` is none."""
        raise NotImplementedError


class AllWindowFunction(Function, Generic[IN_contra, OUT_co, W_contra]):
    """Sees all elements of a window of a stream without keys.

    >>> from funken.testing import local
    >>> class Sort(AllWindowFunction):
    ...     def apply(self, window, inputs):
    ...         yield from sorted(inputs)
    >>> local([3, 1, 2, 9, 8, 7]).count_window_all(3).apply(Sort()).execute_and_collect(limit=6)
    [1, 2, 3, 7, 8, 9]
    """

    def apply(self, window: W_contra, inputs: list[IN_contra]) -> Iterable[OUT_co | SideOutput] | None:
        """Return or yield results; ``None`` is none."""
        raise NotImplementedError


class ProcessWindowFunction(Function, Generic[IN_contra, OUT_co, K_contra, W_contra]):
    """Sees all elements of a window of a key, with a context: the window, the time, and state.

    State of the window lives as long as the window, also when late records fire it again; it is freed in ``clear``:

    >>> from funken import TumblingEventTimeWindows, ValueStateDescriptor, WatermarkStrategy
    >>> from funken.testing import local
    >>> firings = ValueStateDescriptor("firings")
    >>> class Count(ProcessWindowFunction):
    ...     def process(self, key, context, elements):
    ...         count = context.window_state().get_state(firings)
    ...         count.update((count.value() or 0) + 1)
    ...         yield key, context.window().start, len(elements), f"firing {count.value()}"
    ...     def clear(self, context):
    ...         context.window_state().get_state(firings).clear()
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e[1])
    >>> events = local([("a", 1), ("a", 2), ("b", 11)]).assign_timestamps_and_watermarks(strategy)
    >>> windows = events.key_by(lambda e: e[0]).window(TumblingEventTimeWindows.of(10))
    >>> windows.process(Count()).execute_and_collect(limit=2)
    [('a', 0, 2, 'firing 1'), ('b', 10, 1, 'firing 1')]
    """

    Context = ProcessWindowContext[V]

    def process(
        self, key: K_contra, context: ProcessWindowContext[W_contra], elements: list[IN_contra]
    ) -> Iterable[OUT_co | SideOutput] | None:
        """Return or yield results; ``None`` is none.

        ``context`` has ``window()``, ``current_processing_time()`` and ``current_watermark()`` (ms), ``window_state()``,
        ``global_state()`` (that of the key) and ``output(tag, record)``.
        """
        raise NotImplementedError

    def clear(self, context: ProcessWindowContext[W_contra]) -> None:
        """Drop per-window state; runs when the window is cleaned up, once its allowed lateness is over."""


class ProcessAllWindowFunction(Function, Generic[IN_contra, OUT_co, W_contra]):
    """Sees all elements of a window of a stream without keys, with a context.

    >>> from funken import TumblingEventTimeWindows, WatermarkStrategy
    >>> from funken.testing import local
    >>> class Top(ProcessAllWindowFunction):
    ...     def process(self, context, elements):
    ...         yield context.window().end, max(elements)
    ...     def clear(self, context):
    ...         pass  # no state of the window to free
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda at, _: at)
    >>> times = local([3, 7, 12]).assign_timestamps_and_watermarks(strategy)
    >>> times.window_all(TumblingEventTimeWindows.of(10)).process(Top()).execute_and_collect(limit=2)
    [(10, 7), (20, 12)]
    """

    Context = ProcessWindowContext[V]

    def process(
        self, context: ProcessWindowContext[W_contra], elements: list[IN_contra]
    ) -> Iterable[OUT_co | SideOutput] | None:
        """Return or yield results; ``None`` is none. The context is that of a ``ProcessWindowFunction``."""
        raise NotImplementedError

    def clear(self, context: ProcessWindowContext[W_contra]) -> None:
        """Drop per-window state; runs when the window is cleaned up, once its allowed lateness is over."""


# ---- Fields of records, and the functions behind ``sum``, ``min``, ``max``, ``min_by``, ``max_by`` and ``count``.
#
# A field is named by position (tuples, lists, rows) or by name (dicts, rows, named tuples, dataclasses, any
# attribute). A record that is a plain value has the one field 0.


_NUMBERS = (int, float)
R = TypeVar("R")


def get_field(value: Any, position: int | str) -> Any:
    """Return a field of a record.

    >>> get_field(("a", 1), 1), get_field({"n": 2}, "n"), get_field(7, 0)
    (1, 2, 7)
    """
    if isinstance(position, int):
        if type(value) is tuple:  # the most frequent one
            return value[position]
        if position == 0 and type(value) in _NUMBERS:
            return value
        if isinstance(value, tuple | list) or hasattr(value, "_values"):
            return value[position]
        if position != 0:
            raise TypeError(f"the field position must be 0 on a basic type, but is {position} on {value!r}")
        return value
    if isinstance(value, dict) or hasattr(value, "_values"):
        return value[position]
    return getattr(value, position)


def with_field(value: Any, position: int | str, field: Any) -> Any:
    """Return a copy of a record with one field replaced.

    >>> with_field(("a", 1), 1, 5), with_field({"n": 2}, "n", 3), with_field(7, 0, 8)
    (('a', 5), {'n': 3}, 8)
    """
    if isinstance(value, dict):
        return {**value, position: field}
    if hasattr(value, "_replace"):
        name = value._fields[position] if isinstance(position, int) else position
        return value._replace(**{name: field})
    if isinstance(value, tuple | list) and isinstance(position, int):
        return type(value)([*value[:position], field, *value[position + 1 :]])
    if hasattr(value, "_values"):
        changed = copy(value)
        changed._values = list(value._values)
        changed[position] = field
        return changed
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and isinstance(position, str):
        return dataclasses.replace(value, **{position: field})
    if position == 0:
        return field
    raise TypeError(f"field {position!r} of {value!r} cannot be replaced; use reduce() with a function of your own")


def check_position(position: Any) -> None:
    """Refuse a position that is neither a number nor a name."""
    if isinstance(position, bool) or not isinstance(position, int | str):
        raise TypeError(f"the field position must be int or str, but is {position!r}")


class OfFields:
    """A function of two records by their fields."""

    @property
    def columns_folds(self) -> tuple[tuple[str, int | str], ...]:
        """The aggregate of each field, also for the vectorized path."""
        raise NotImplementedError

    def check_record(self, value: object) -> None:
        """Raise ``InvalidProgram`` for a record without the fields, or with a text to be added up.

        >>> SumField(3).check_record(7)
        Traceback (most recent call last):
        funken.errors.InvalidProgram: 'sum' needs field 3, but 7 (int) is a single value: ...
        """
        for fold, position in self.columns_folds:
            if fold == "first":
                continue
            try:
                field = get_field(value, position)
            except (LookupError, AttributeError, TypeError):
                has = fields_of(value) or "is a single value: the position must be 0 on a basic type"
                raise InvalidProgram(
                    f"{fold!r} needs field {position!r}, but {value!r:.100} ({type(value).__name__}) {has}. Name one of its "
                    "fields, or make records that have the field with map() before."
                ) from None
            if fold == "sum" and isinstance(field, str | bytes):
                raise InvalidProgram(
                    f"'sum' adds numbers, but field {position!r} of {value!r:.100} is the {type(field).__name__} {field!r:.40}. "
                    "Name another field, convert it with map() before, or put texts together with reduce()."
                )


@dataclass(frozen=True)
class SumField(OfFields):
    """Add up a field, keep the first record's others."""

    position: int | str

    @property
    def columns_folds(self) -> tuple[tuple[str, int | str], ...]:
        """The aggregate of the function, for the vectorized path."""
        return (("sum", self.position),)

    def __call__(self, a: Any, b: Any) -> Any:
        """Join two records."""
        # Hot: tuples and numbers, which most records are, take a fifth of the time of the general way.
        position = self.position
        if type(a) is tuple and type(b) is tuple and type(position) is int:
            fields = list(a)
            fields[position] = a[position] + b[position]
            return tuple(fields)
        if position == 0 and type(a) in _NUMBERS and type(b) in _NUMBERS:
            return a + b
        total = get_field(a, position) + get_field(b, position)
        return with_field(a, position, total)


@dataclass(frozen=True)
class ExtremeField(OfFields):
    """Keep the smallest or largest value of a field, and the first record's others."""

    position: int | str
    largest: bool

    @property
    def columns_folds(self) -> tuple[tuple[str, int | str], ...]:
        """The aggregate of the function, for the vectorized path."""
        return (("max" if self.largest else "min", self.position),)

    def __call__(self, a: Any, b: Any) -> Any:
        """Join two records."""
        old, new = get_field(a, self.position), get_field(b, self.position)
        better = new > old if self.largest else new < old
        return with_field(a, self.position, new) if better else a


@dataclass(frozen=True)
class ExtremeRecord(OfFields):
    """Keep the whole record with the smallest or largest field, the first one on ties."""

    position: int | str
    largest: bool

    @property
    def columns_folds(self) -> tuple[tuple[str, int | str], ...]:
        """The aggregate of the function, for the vectorized path."""
        return (("max_by" if self.largest else "min_by", self.position),)

    def __call__(self, a: Any, b: Any) -> Any:
        """Join two records."""
        old, new = get_field(a, self.position), get_field(b, self.position)
        return b if (new > old if self.largest else new < old) else a


Folds: TypeAlias = Mapping[int, str] | Mapping[str, str] | Mapping[int | str, str]
"""Fields, by position or name, with their aggregates."""
FOLDS = ("first", "last", "max", "min", "sum")
"""The aggregates of ``ReduceFields``."""


@dataclass(frozen=True)
class ReduceFields(OfFields):
    """Reduce each named field by its aggregate; the other fields are those of the first record.

    >>> of_orders = ReduceFields.of({"amount": "sum", "at": "max"})
    >>> of_orders({"item": "tea", "amount": 3, "at": 5}, {"item": "jam", "amount": 4, "at": 2})
    {'item': 'tea', 'amount': 7, 'at': 5}
    """

    fields: tuple[tuple[int | str, str], ...]

    @staticmethod
    def of(folds: Folds) -> ReduceFields:
        """Return the function for aggregates by field; raise ``InvalidProgram`` for an unknown one or for none."""
        for position, fold in folds.items():
            check_position(position)
            if fold not in FOLDS:
                raise InvalidProgram(
                    f"reduce() cannot make {fold!r} of field {position!r}. Choose one of {', '.join(FOLDS)}, or give a function "
                    "of two records."
                )
        if not folds:
            raise InvalidProgram(
                "reduce() got no fields. Name them with their aggregates, as in reduce({'amount': 'sum'})."
            )
        return ReduceFields(tuple(folds.items()))

    @property
    def columns_folds(self) -> tuple[tuple[str, int | str], ...]:
        """The aggregate of each field, for the vectorized path."""
        return tuple((fold, position) for position, fold in self.fields)

    def __call__(self, a: R, b: R) -> R:
        """Join two records."""
        for position, fold in self.fields:
            if fold == "first":
                continue
            old, new = get_field(a, position), get_field(b, position)
            if fold == "sum":
                new = old + new
            elif (fold == "min" and not new < old) or (fold == "max" and not new > old):
                continue
            a = with_field(a, position, new)
        return a


class CountRecords:
    """An ``AggregateFunction`` that counts."""

    def create_accumulator(self) -> int:
        """Begin at 0."""
        return 0

    def add(self, value: object, accumulator: int) -> int:
        """Count a record."""
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        """Return the count."""
        return accumulator

    def merge(self, a: int, b: int) -> int:
        """Add two counts."""
        return a + b
