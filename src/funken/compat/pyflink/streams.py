"""Streams that behave as PyFlink's users know them, where that is not what Funken's do.

The differences, all of them: a key may be a list; a keyed stream's ``execute_and_collect`` and ``sink_to`` see pairs of
key and value; sliding count windows fire only when full; a windowed stream is changed in place; and what is no operator
(a union, a side output) can be named like one. Everything else is Funken's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, overload

from funken.api.functions import KeySelector, as_user_function
from funken.api.streams import async_io, connected, joins, keyed, sinks, stream, windowed
from funken.api.streams import connected as iteration
from funken.api.streams import windowed as window_settings
from funken.api.streams.settings import type_of, typed
from funken.compat.pyflink.adoption import adopt, adopting, removed
from funken.compat.pyflink.functions import yielding
from funken.compat.pyflink.members import renamed
from funken.compat.pyflink.resources import TimeCharacteristic
from funken.compat.pyflink.settings import ExecutionConfig
from funken.connectors.sink import Sink
from funken.io.durations import DurationLike
from funken.operators.base import Operator, Timestamps, Values
from funken.operators.stateless import Map
from funken.operators.user_functions import OperatorTraits, UserFunction
from funken.plan.nodes import Node, NodeInput
from funken.state.descriptors import MapStateDescriptor
from funken.types.callables import Generic, K_co, R, S, T_co, W
from funken.types.convert import converter
from funken.types.info import RowTypeInfo, TupleTypeInfo, TypeInformation, Types, declared
from funken.types.row import Row
from funken.windowing.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from funken.windowing.windows import CountWindow, TimeWindow


@dataclass(frozen=True)
class PassOn:
    """An operator that changes nothing: it gives a union or a side output a node of its own, to be named."""

    @property
    def traits(self) -> OperatorTraits:
        """Records pass as they are."""
        return OperatorTraits(keeps_type=True)

    def build(self) -> Operator:
        """Make the logic."""
        return PassOnLogic()


class StandsForSink(Protocol):
    """A sink of PyFlink 1.x."""

    def as_sink(self) -> Sink:
        """Return Funken's sink."""
        ...


class PassOnLogic(Operator):
    """Hands blocks on."""

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Hand a block on."""
        self.output.emit(values, timestamps)


def _time_windows(of: stream.DataStream, size: DurationLike, slide: DurationLike | None) -> WindowAssigner:
    """Return the windows of ``time_window``: by event time, unless the environment goes by processing time."""
    time = getattr(of._environment, "get_stream_time_characteristic", lambda: TimeCharacteristic.EventTime)()
    by_clock = time is TimeCharacteristic.ProcessingTime
    if slide is None:
        return (TumblingProcessingTimeWindows if by_clock else TumblingEventTimeWindows).of(size)
    return (SlidingProcessingTimeWindows if by_clock else SlidingEventTimeWindows).of(size, slide)


@adopting(stream.DataStream)
class DataStream(stream.DataStream[T_co], Generic[T_co]):
    """A stream of records."""

    def __init__(self, environment: Any, inputs: Any = ()) -> None:
        if isinstance(environment, stream.DataStream):  # what a method of a Java object has returned
            environment, inputs = environment._environment, environment._inputs
        super().__init__(environment, inputs)

    def _node(self, what: str) -> Node:
        plain = len(self._inputs) == 1 and self._inputs[0].partitioning is None and self._inputs[0].side is None
        if not plain and what != "get_side_output()":
            self._inputs = (NodeInput(self._apply("pass on", PassOn()).id),)
        return super()._node(what)

    @overload
    def iterate(self) -> IterativeStream[T_co]: ...
    @overload
    def iterate(self, step: iteration.LoopStep[T_co, R]) -> DataStream[R]: ...
    def iterate(self, step: Any = None) -> Any:
        """Begin a loop; a step gets a stream with PyFlink's methods."""
        return adopt(super().iterate((lambda loop: step(adopt(loop))) if callable(step) else step))

    def key_by(
        self, key_selector: Callable[[T_co], S] | KeySelector[T_co, S], key_type: TypeInformation | None = None
    ) -> KeyedStream[T_co, S]:
        """Partition by key; a list is a key as good as a tuple."""
        key = as_user_function(key_selector, "get_key", "key_by()")
        made = KeyedStream(self, UserFunction(KeyAsFlink(key, declared(key_type)), "get_key", key.rich))
        made.key_type = declared(key_type)
        return made

    @overload
    def broadcast(self) -> stream.DataStream[T_co]: ...
    @overload
    def broadcast(self, *map_state_descriptors: MapStateDescriptor[Any, Any]) -> connected.BroadcastStream[T_co]: ...
    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor[Any, Any],
        *other_broadcast_state_descriptors: MapStateDescriptor[Any, Any],
    ) -> connected.BroadcastStream[T_co]: ...
    def broadcast(self, broadcast_state_descriptor: Any = None, *other_broadcast_state_descriptors: Any) -> Any:
        """Send every record to every subtask of the next operator; with descriptors: fill broadcast state with them."""
        given = (broadcast_state_descriptor, *other_broadcast_state_descriptors)
        return adopt(super().broadcast(*(each for each in given if each is not None)))

    def add_sink(self, sink_func: Sink[T_co] | StandsForSink) -> sinks.DataStreamSink:
        """Write to a sink: the same as ``sink_to``; one of PyFlink 1.x stands for one of Funken's."""
        sink: Any = getattr(sink_func, "as_sink", lambda: sink_func)()
        return self.sink_to(sink)

    def time_window_all(
        self, size: DurationLike, slide: DurationLike | None = None
    ) -> windowed.AllWindowedStream[T_co, TimeWindow]:
        """Window the whole stream by the time that the environment goes by; gone since PyFlink 2."""
        removed("time_window_all()", "use window_all() with an assigner.")
        return self.window_all(_time_windows(self, size, slide))

    def set_uid_hash(self, uid_hash: str) -> DataStream[T_co]:
        """Set the id of the operator's state."""
        self.uid(uid_hash)
        return self

    def get_execution_config(self) -> ExecutionConfig:
        """Return the part of the configuration that Flink keeps in an ``ExecutionConfig``."""
        return ExecutionConfig(self._environment.get_configuration())

    def cache(self) -> CachedDataStream[T_co]:
        """Return the stream; it is computed again where it is used again.

        >>> from funken.compat.pyflink.environment import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(1)
        >>> cached = env.from_collection([1, 2]).map(lambda n: -n).cache()
        >>> [cached.execute_and_collect(limit=2) for _ in range(2)]
        [[-1, -2], [-1, -2]]
        >>> cached.invalidate()
        """
        self.__class__ = CachedDataStream
        return self  # type: ignore[return-value]


@adopting(iteration.IterativeStream)
class IterativeStream(iteration.IterativeStream[T_co], DataStream[T_co], Generic[T_co]):
    """The stream of a loop, which PyFlink never had."""


class CachedDataStream(DataStream[T_co], Generic[T_co]):
    """A stream that PyFlink would keep; Funken computes it anew, with the same result."""

    def invalidate(self) -> None:
        """Do nothing: nothing is kept."""


class KeyAsFlink:
    """A key selector whose keys are hashable: lists become tuples, and rows follow their type."""

    def __init__(self, key: UserFunction, key_type: TypeInformation | None) -> None:
        self._key = key
        self._type = key_type

    def open(self, runtime_context: Any) -> None:
        """Open the selector."""
        if self._key.rich:
            self._key.target.open(runtime_context)

    def close(self) -> None:
        """Close the selector."""
        self._key.close()

    @property
    def get_key(self) -> Callable[[Any], Any]:
        """The selector, and the conversion of its result, in one call."""
        select = self._key.bind()
        if isinstance(self._type, RowTypeInfo | TupleTypeInfo):
            convert = converter(self._type)
            return lambda record: _hashable(convert(select(record)))

        def key_of(record: Any) -> Any:
            key = select(record)
            try:
                hash(key)
            except TypeError:
                return _hashable(key)
            return key

        return key_of


def _hashable(key: Any) -> Any:
    if type(key) in (list, tuple):
        return tuple([_hashable(item) for item in key])
    return bytes(key) if isinstance(key, bytearray) else key


class KeyAndValue:
    """Makes the pair that PyFlink shows of a keyed record."""

    def __init__(self, key: UserFunction) -> None:
        self._key = key

    def __call__(self, record: Any) -> Row:
        """Return key and record."""
        return Row(f0=self._key.bind()(record), f1=record)


@adopting(keyed.KeyedStream)
class KeyedStream(keyed.KeyedStream[T_co, K_co], DataStream[T_co], Generic[T_co, K_co]):
    """A stream partitioned by key; collected as it is, it returns rows of key and value, as PyFlink's does.

    >>> from funken.compat.pyflink.environment import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(1)
    >>> words = env.from_collection(["to", "be"]).key_by(lambda word: word[0])
    >>> words.execute_and_collect(limit=2)
    [Row(f0='t', f1='to'), Row(f0='b', f1='be')]
    >>> [str(each) for each in words.map(str.upper).execute_and_collect(limit=2)]
    ['TO', 'BE']
    """

    key_type: TypeInformation | None = None

    def key_by(
        self, key_selector: Callable[[T_co], S] | KeySelector[T_co, S], key_type: TypeInformation | None = None
    ) -> KeyedStream[T_co, S]:
        """Key the original records anew."""
        return DataStream.key_by(self._origin, key_selector, key_type)  # type: ignore[arg-type]

    def count_window(  # type: ignore[override]  # PyFlink's count windows have numbers
        self, size: int, slide: int = 0
    ) -> windowed.WindowedStream[T_co, K_co, CountWindow]:
        """Group the records of each key; with ``slide``, a window opens every ``slide`` records and fires when full.

        Funken's own ``count_window(size, slide)`` fires every ``slide`` records instead, as Flink's Java API does.

        >>> from funken.compat.pyflink.environment import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(1)
        >>> threes = env.from_collection([1, 2, 3, 4, 5]).key_by(lambda n: "all").count_window(3, 2)
        >>> threes.reduce(lambda a, b: a + b).execute_and_collect(limit=9)
        [6, 12]
        """
        if slide:
            return self.window(CountSlidingWindowAssigner.of(size, slide))
        return self.window(CountTumblingWindowAssigner.of(size))

    def time_window(
        self, size: DurationLike, slide: DurationLike | None = None
    ) -> windowed.WindowedStream[T_co, K_co, TimeWindow]:
        """Group the records of each key by the time that the environment goes by; gone since PyFlink 2."""
        removed("time_window()", "use window() with an assigner.")
        return self.window(_time_windows(self, size, slide))

    def _pairs(self) -> DataStream:
        """Return the stream of pairs; like PyFlink, before the records are spread by key."""
        pairs = adopt(self._origin._then("key and value", Map(UserFunction(KeyAndValue(self.key)))))
        self._environment.graph.change(pairs._inputs[0].upstream, **self._origin._width())
        pickled = Types.PICKLED_BYTE_ARRAY()
        typed(pairs, Types.ROW([self.key_type or pickled, type_of(self) or pickled]))
        stream: DataStream = pairs
        return stream

    def execute_and_collect(self, job_execution_name: str | None = None, limit: int | None = None, **form: bool) -> Any:
        """Run the program and return rows of key and value; ``as_arrow=True`` and ``as_pandas=True`` return a table of them."""
        collect: Any = self._pairs().execute_and_collect
        return collect(job_execution_name, limit, **form)

    def to_arrow(self, limit: int | None = None, job_execution_name: str | None = None) -> Any:
        """Run the program and return a table of keys and values."""
        return self._pairs().to_arrow(limit, job_execution_name)

    def sink_to(self, sink: Sink[Any]) -> sinks.DataStreamSink:
        """Write rows of key and value."""
        return self._pairs().sink_to(sink)

    def add_sink(self, sink_func: Any) -> sinks.DataStreamSink:
        """Write the values."""
        return DataStream.sink_to(self, sink_func)

    def set_uid_hash(self, uid_hash: str) -> NoReturn:
        """Raise: a keyed stream is no operator."""
        self._refuse("set_uid_hash()")

    def cache(self) -> NoReturn:
        """Raise: a keyed stream is no operator."""
        self._refuse("cache()")


class _ChangedInPlace(window_settings.WindowSettings):
    """Makes ``trigger`` and its like change the windowed stream itself."""

    def _with(self, **fields: Any) -> Any:
        vars(self).update(fields)
        return self

    def get_execution_environment(self) -> Any:
        """Return the environment."""
        return self._stream._environment

    def get_input_type(self) -> TypeInformation:
        """Return the declared type of the records."""
        return self._stream.get_type()


@adopting(windowed.WindowedStream)
class WindowedStream(_ChangedInPlace, windowed.WindowedStream[T_co, K_co, W], Generic[T_co, K_co, W]):
    """The windows of a keyed stream."""


@adopting(windowed.AllWindowedStream)
class AllWindowedStream(_ChangedInPlace, windowed.AllWindowedStream[T_co, W], Generic[T_co, W]):
    """The windows of a stream that has no key."""


@adopting(sinks.DataStreamSink)
class DataStreamSink(sinks.DataStreamSink):
    """The end of a stream."""

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        """Set the id of the sink's state."""
        self.uid(uid_hash)
        return self


for _native in (
    connected.ConnectedStreams, connected.BroadcastStream, connected.BroadcastConnectedStream, async_io.AsyncDataStream,
    joins.CoGroupedStreams, joins.JoinedStreams, joins.Where, joins.EqualTo, joins.WithWindow,
    joins.IntervalJoin, joins.IntervalJoined,
):  # fmt: skip
    _members = {"__module__": __name__, "__doc__": str(_native.__doc__).partition("\n")[0]}
    _variant = type(_native.__name__, (_native,), _members)
    globals()[_native.__name__] = adopting(_native)(_variant)

# PyFlink 1.13 to 1.15 had other names for some parameters.
for _owner, _method, _older in (
    (DataStream, "flat_map", {"result_type": "output_type"}),
    (DataStream, "key_by", {"key_type_info": "key_type"}),
    (KeyedStream, "flat_map", {"result_type": "output_type"}),
    (KeyedStream, "key_by", {"key_type_info": "key_type"}),
    (globals()["ConnectedStreams"], "key_by", {"key_type_info": "key_type"}),
    (WindowedStream, "apply", {"result_type": "output_type"}),
    (WindowedStream, "process", {"result_type": "output_type"}),
):
    setattr(_owner, _method, renamed(getattr(_owner, _method), **_older))


def _taking_collectors(process: Callable[..., R]) -> Callable[..., R]:
    """Return ``process`` of a stream, for functions of PyFlink 1.12 too."""

    @functools.wraps(process)
    def call(self: Any, func: Any, output_type: TypeInformation | None = None) -> R:
        return process(self, yielding(func), output_type)

    return call


for _stream in (DataStream, KeyedStream):
    setattr(_stream, "process", _taking_collectors(_stream.process))  # noqa: B010 - a checker sees the method itself

PASSED_ON = {
    "funken.api.async_retry_predicates": "empty_result_predicate exception_type_predicate has_exception_predicate",
    "funken.operators.async_io.retry": (
        "AsyncRetryPredicate AsyncRetryStrategy ExponentialBackoffDelayRetryStrategy FixedDelayRetryStrategy "
        "NoRetryStrategy RetryPredicate"
    ),
}
