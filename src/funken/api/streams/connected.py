"""Two streams in one operator: connected streams, and a broadcast stream that fills the state of another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from funken.api.functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    as_user_function,
)
from funken.api.streams.family import OfStreams
from funken.api.streams.settings import typed
from funken.api.streams.stream import DataStream
from funken.errors import InvalidProgram
from funken.operators.base import OperatorSpec
from funken.operators.process.keyed_operator import KeyedTransform
from funken.operators.process.one_input import Iterate
from funken.operators.process.two_inputs import (
    BroadcastProcess,
    CoFlatMap,
    CoMap,
    CoProcess,
    KeyedCoProcess,
)
from funken.operators.user_functions import UserFunction
from funken.plan.nodes import NodeInput
from funken.types.callables import Generic, R, S, T1_co, T2_co, T_co, check_function

if TYPE_CHECKING:
    from funken.api.functions import KeySelector
    from funken.state.descriptors import MapStateDescriptor
    from funken.types.info import TypeInformation


def two_inputs(first: DataStream[Any], second: DataStream[Any]) -> tuple[NodeInput, ...]:
    """Return the inputs of an operator that reads two streams."""
    if first._environment is not second._environment:
        raise InvalidProgram("only streams of one environment can be connected: read both sources with one env.")
    return first._inputs + tuple(replace(i, index=1) for i in second._inputs)


def key_of(stream: DataStream[Any]) -> UserFunction | None:
    """Return a stream's key selector, if it has one."""
    key: UserFunction | None = getattr(stream, "key", None)
    return key


def join_two(first: DataStream[Any], second: DataStream[Any], name: str, spec: Any, keyed: bool) -> DataStream[Any]:
    """Add an operator that reads two streams."""
    node = first._environment.graph.add(name=name, kind=name, spec=spec, inputs=two_inputs(first, second), keyed=keyed)
    return DataStream(first._environment, (NodeInput(node.id),))


class ConnectedStreams(OfStreams, Generic[T1_co, T2_co]):
    """Two streams, to be handled by one function with two methods, that shares its state between them.

    Keyed, a record of one stream finds the state that records of the other with its key have left behind:

    >>> from funken import StreamExecutionEnvironment, ValueStateDescriptor
    >>> class Discount(CoFlatMapFunction):
    ...     def open(self, runtime_context):
    ...         self.discount = runtime_context.get_state(ValueStateDescriptor("discount"))
    ...         self.order = runtime_context.get_state(ValueStateDescriptor("order"))
    ...     def flat_map1(self, order):
    ...         self.order.update(order)
    ...         return self.priced()
    ...     def flat_map2(self, discount):
    ...         self.discount.update(discount)
    ...         return self.priced()
    ...     def priced(self):  # whichever of the two comes first
    ...         if self.order.value() and self.discount.value():
    ...             yield self.order.value()["item"], self.order.value()["price"] - self.discount.value()["off"]
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> orders = env.from_collection([{"item": "tea", "price": 5}, {"item": "jam", "price": 7}])
    >>> discounts = env.from_collection([{"item": "jam", "off": 2}])
    >>> by_item = orders.connect(discounts).key_by(lambda order: order["item"], lambda discount: discount["item"])
    >>> by_item.flat_map(Discount()).execute_and_collect(limit=1)
    [('jam', 5)]
    """

    _to_streams = "map(), flat_map() or process() makes one of the two"

    def __init__(self, first: DataStream[T1_co], second: DataStream[T2_co]) -> None:
        self._first = first
        self._second = second
        two_inputs(first, second)

    def key_by(
        self,
        key_selector1: Callable[[T1_co], S] | KeySelector[T1_co, S],
        key_selector2: Callable[[T2_co], S] | KeySelector[T2_co, S],
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams[T1_co, T2_co]:
        """Key both streams, so that equal keys of both meet in one subtask; the class's example does it."""
        return ConnectedStreams(self._first.key_by(key_selector1), self._second.key_by(key_selector2))

    @property
    def _keys(self) -> tuple[UserFunction, UserFunction] | None:
        first, second = key_of(self._first), key_of(self._second)
        if (first is None) != (second is None):
            raise InvalidProgram("either both connected streams are keyed, or neither: call key_by() on both.")
        return None if first is None or second is None else (first, second)

    def map(self, func: CoMapFunction[T1_co, T2_co, R], output_type: TypeInformation | None = None) -> DataStream[R]:
        """Map both streams with a ``CoMapFunction``; ``None`` is dropped.

        >>> from funken import StreamExecutionEnvironment
        >>> class Metres(CoMapFunction):
        ...     def map1(self, metres):
        ...         return metres
        ...     def map2(self, feet):
        ...         return feet * 0.3048
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> metres, feet = env.from_collection([2.5]), env.from_collection([100])
        >>> sorted(metres.connect(feet).map(Metres()).execute_and_collect(limit=2))
        [2.5, 30.48]
        """
        keys = self._keys or (None, None)
        call = _object(func, "map1", "map2", "CoMapFunction")
        mapped = join_two(self._first, self._second, "co_map", CoMap(call, *keys), keys[0] is not None)
        return typed(mapped, output_type)

    def flat_map(
        self, func: CoFlatMapFunction[T1_co, T2_co, R], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Turn each record of both streams into any number, with a ``CoFlatMapFunction``."""
        keys = self._keys or (None, None)
        call = _object(func, "flat_map1", "flat_map2", "CoFlatMapFunction")
        spread = join_two(self._first, self._second, "co_flat_map", CoFlatMap(call, *keys), keys[0] is not None)
        return typed(spread, output_type)

    def process(
        self,
        func: CoProcessFunction[T1_co, T2_co, R] | KeyedCoProcessFunction[Any, T1_co, T2_co, R],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Handle both streams with a ``CoProcessFunction``, or a ``KeyedCoProcessFunction`` if they are keyed.

        Raises ``TypeError`` for an object without their methods.

        >>> from funken import StreamExecutionEnvironment, WatermarkStrategy
        >>> class Log(CoProcessFunction):
        ...     def process_element1(self, login, ctx):
        ...         yield ctx.timestamp(), f"{login['user']} came"
        ...     def process_element2(self, logout, ctx):
        ...         yield ctx.timestamp(), f"{logout['user']} went"
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e["at"])
        >>> logins = env.from_collection([{"user": "ann", "at": 3}, {"user": "bob", "at": 5}])
        >>> logouts = env.from_collection([{"user": "ann", "at": 4}]).assign_timestamps_and_watermarks(strategy)
        >>> log = logins.assign_timestamps_and_watermarks(strategy).connect(logouts).process(Log())
        >>> sorted(log.execute_and_collect(limit=3))
        [(3, 'ann came'), (4, 'ann went'), (5, 'bob came')]
        """
        call = _object(func, "process_element1", "process_element2", "CoProcessFunction")
        keys = self._keys
        if keys is None:
            processed = join_two(self._first, self._second, "co_process", CoProcess(call), keyed=False)
        else:
            processed = join_two(self._first, self._second, "co_process", KeyedCoProcess(call, *keys), keyed=True)
        return typed(processed, output_type)

    def transform(self, name: str, spec: OperatorSpec, output_type: Any = None) -> DataStream:
        """Run an operator of one's own with two inputs; keyed, it is a ``KeyedOperator``.

        >>> from funken.sdk import Operator
        >>> from funken.testing import local
        >>> class Sides(Operator):
        ...     def process(self, values, timestamps):
        ...         self.output.emit([("left", value) for value in values], timestamps)
        ...     def process_second(self, values, timestamps):
        ...         self.output.emit([("right", value) for value in values], timestamps)
        >>> class Both:
        ...     def build(self):
        ...         return Sides()
        >>> left = local([1])
        >>> right = left.get_execution_environment().from_collection(["a"])
        >>> sorted(left.connect(right).transform("both", Both()).execute_and_collect(limit=2))
        [('left', 1), ('right', 'a')]
        """
        keys = self._keys
        if keys is None:
            return typed(join_two(self._first, self._second, name, spec, keyed=False), output_type)
        return typed(join_two(self._first, self._second, name, KeyedTransform(spec, *keys), keyed=True), output_type)


def _object(function: object, first: str, second: str, kind: str) -> UserFunction:
    if not (hasattr(function, first) and hasattr(function, second)):
        remedy = f"Define a subclass of {kind}: each stream has a method of its own"
        if hasattr(function, "process_broadcast_element"):
            remedy = "Give the stream beside it its states: broadcast(MapStateDescriptor('rules'))"
        raise TypeError(
            f"a {kind} with the methods {first}() and {second}() is needed, but got {function!r:.100}. {remedy}."
        )
    as_user_function(function, first, kind)
    check_function(function, second, kind)
    return UserFunction(function, None, hasattr(function, "open") and hasattr(function, "close"))


class BroadcastStream(OfStreams, Generic[T_co]):
    """A stream that goes to every subtask and fills broadcast state; connect a stream with it.

    It is made by ``DataStream.broadcast``, with the descriptors of its state.

    >>> from funken import MapStateDescriptor
    >>> from funken.testing import local
    >>> rules = local(["to"]).broadcast(MapStateDescriptor("stop words"), MapStateDescriptor("synonyms"))
    >>> [descriptor.name for descriptor in rules.states]
    ['stop words', 'synonyms']
    """

    _to_streams = "connect() of another stream takes this one, process() makes one of the two"

    def __init__(self, stream: DataStream[T_co], states: tuple[MapStateDescriptor[Any, Any], ...]) -> None:
        self.stream = stream
        self.states = states


class BroadcastConnectedStream(OfStreams, Generic[T1_co, T2_co]):
    """A stream, keyed or not, connected with a broadcast stream.

    >>> from funken import BroadcastProcessFunction, MapStateDescriptor, RuntimeExecutionMode, StreamExecutionEnvironment
    >>> stop_words = MapStateDescriptor("stop words")
    >>> class Drop(BroadcastProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         if not ctx.get_broadcast_state(stop_words).contains(value):
    ...             yield value
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(stop_words).put(value, True)
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    >>> env = env.set_runtime_mode(RuntimeExecutionMode.BATCH)  # the broadcast stream first
    >>> stops = env.from_collection(["to", "or"]).broadcast(stop_words)
    >>> words = env.from_collection(["to", "be", "or", "not"]).rebalance()
    >>> sorted(words.connect(stops).process(Drop()).execute_and_collect(limit=2))
    ['be', 'not']
    """

    _to_streams = "process() makes one of the two"

    def __init__(self, stream: DataStream[T1_co], broadcast: BroadcastStream[T2_co]) -> None:
        self._stream = stream
        self._broadcast = broadcast
        two_inputs(stream, broadcast.stream)

    def process(
        self,
        func: BroadcastProcessFunction[T1_co, T2_co, R] | KeyedBroadcastProcessFunction[Any, T1_co, T2_co, R],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Handle both with a ``BroadcastProcessFunction``, or a ``KeyedBroadcastProcessFunction`` if keyed.

        Raises ``TypeError`` for the one where the other is needed.
        """
        call = _object(func, "process_element", "process_broadcast_element", "BroadcastProcessFunction")
        key, states = key_of(self._stream), tuple(self._broadcast.states)
        keyed = isinstance(func, KeyedBroadcastProcessFunction) or hasattr(func, "on_timer")
        if keyed != (key is not None):
            kind, fix = ("KeyedBroadcastProcessFunction", "key_by() the first stream") if keyed else (
                "BroadcastProcessFunction", "use a KeyedBroadcastProcessFunction")  # fmt: skip
            raise TypeError(f"a {kind} does not fit a stream that is{'' if key else ' not'} keyed; {fix}.")
        spec = BroadcastProcess(call, states, key)
        processed = join_two(self._stream, self._broadcast.stream, "broadcast_process", spec, keyed=key is not None)
        return typed(processed, output_type)


# ---- ``IterativeStream``: a stream into which results of later operators enter again.


class IterativeStream(DataStream[T_co], Generic[T_co]):
    """The records of a loop: those of the stream that ``iterate()`` was called on, and those that come back.

    >>> from funken.testing import local
    >>> numbers = local([5, 8]).iterate()
    >>> less = numbers.map(lambda number: number - 3)
    >>> _ = numbers.close_with(less.filter(lambda number: number > 0))
    >>> sorted(less.execute_and_collect(limit=5))
    [-1, -1, 2, 2, 5]
    """

    @staticmethod
    def begin(stream: DataStream[S], step: LoopStep[S, R] | None) -> DataStream[S] | DataStream[R]:
        """Begin a loop with the records of a stream; with a step, close it as well, and return its output.

        >>> from funken.testing import local
        >>> IterativeStream.begin(local([1]), None)
        <IterativeStream of 'iterate'>
        """
        head = stream._apply("iterate", Iterate())
        loop: IterativeStream[S] = IterativeStream(stream._environment, (NodeInput(head.id),))
        if step is None:
            return loop
        if not callable(step):
            raise InvalidProgram(
                f"iterate({step!r}): a loop does not end after a time without records, as Flink's did, but when nothing goes "
                "round any more. Call iterate(), or give it a step: a function of the loop's stream."
            )
        made = step(loop)
        if not (isinstance(made, tuple) and len(made) == 2 and all(isinstance(part, DataStream) for part in made)):
            raise InvalidProgram(
                f"the step of iterate() returned {made!r}. Return two streams: the stream that enters the "
                "loop again, and the result."
            )
        loop.close_with(made[0])
        return made[1]

    def close_with(self, feedback_stream: DataStream[S]) -> DataStream[S]:
        """Let the records of a stream enter the loop again; it has to be made of this one. Returns that stream.

        Its partitioning is that of the feedback: after ``key_by`` records with equal keys come back to the same subtask.
        Raises ``InvalidProgram`` for a stream that does not come from the loop, and for a second call.

        >>> from funken.testing import local
        >>> numbers = local([5]).iterate()
        >>> less = numbers.map(lambda number: number - 3)
        >>> back = numbers.close_with(less.filter(lambda number: number > 0).rebalance())
        >>> sorted(less.execute_and_collect(limit=2))
        [-1, 2]
        """
        node = self._node("close_with()")
        if node.feedback:
            raise InvalidProgram(
                f"the loop of {node.name!r} is closed already. close_with() is called once: union() the streams that are to "
                "enter the loop again."
            )
        if not isinstance(feedback_stream, DataStream):
            raise InvalidProgram(
                f"close_with() takes the stream that is to enter the loop of {node.name!r} again, not {feedback_stream!r}."
            )
        graph = self._environment.graph
        same = feedback_stream._environment is self._environment
        if not same or not all(graph.comes_from(given.upstream, node.id) for given in feedback_stream._inputs):
            raise InvalidProgram(
                f"close_with() got a stream that does not come out of the loop of {node.name!r}: its records could not "
                "go round. Make it of the stream that iterate() returned; another stream is put in by union() before iterate()."
            )
        graph.change(node.id, feedback=feedback_stream._inputs)
        return feedback_stream


LoopStep = Callable[[IterativeStream[S]], tuple[DataStream[S], DataStream[R]]]
"""From the stream of a loop to its feedback, and its output."""
