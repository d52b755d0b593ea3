"""``DataStream``: the transformations of a program. Every method adds a node; nothing runs.

A stream is a list of upstream outputs (more than one after ``union``), each with the way its records are spread. The
settings of the operator before it and the partitionings are in ``settings.py``, the ends in ``sinks.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from funken.api.functions import as_user_function, check_result, vectorized_call
from funken.api.streams.family import StreamDisplay, family
from funken.api.streams.settings import StreamPartitioning, StreamSettings, type_of, typed, typed_side
from funken.api.streams.sinks import StreamEnds
from funken.columnar.bytecode import spreads
from funken.config.configuration import warn
from funken.errors import InvalidProgram
from funken.operators.base import OperatorCall, OperatorSpec, OutputTag
from funken.operators.contradictions import always_one, never_together
from funken.operators.mistakes import random_key
from funken.operators.process.one_input import Process
from funken.operators.source import TimestampsAndWatermarks
from funken.operators.stateless import Filter, FlatMap, Map, MapBlockLogic
from funken.operators.user_functions import UserFunction
from funken.plan.nodes import Node, NodeInput, Partitioning
from funken.timing.watermarks import WatermarkStrategy
from funken.types.callables import (
    Generic,
    R,
    S,
    T_co,
    W,
    check_arguments,
    check_kind,
    check_stream,
    frame_of_program,
    place_of_program,
)
from funken.types.info import TupleTypeInfo, TypeInformation, TypeOf, Types
from funken.windowing.assigners import GlobalWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from funken.api.environment import StreamExecutionEnvironment
    from funken.api.functions import (
        FilterFunction,
        FlatMapFunction,
        KeySelector,
        MapFunction,
        ProcessFunction,
    )
    from funken.api.streams.connected import (
        BroadcastConnectedStream,
        BroadcastStream,
        ConnectedStreams,
        IterativeStream,
        LoopStep,
    )
    from funken.api.streams.joins import CoGroupedStreams, JoinedStreams
    from funken.api.streams.keyed import KeyedStream
    from funken.api.streams.windowed import AllWindowedStream
    from funken.operators.base import SideOutput
    from funken.operators.process.keyed_operator import ProcessContext
    from funken.windowing.assigners import WindowAssigner
    from funken.windowing.windows import GlobalWindow


STRATEGIES = (
    "Give WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record.time), say, or "
    "for_bounded_out_of_orderness('5 s')."
)
"""The message where a strategy is missing."""


def check_strategy(strategy: Any, role: str) -> None:
    """Raise ``TypeError`` for an argument that is no strategy, ``InvalidProgram`` for one whose assigner returns nothing."""
    check_kind(strategy, WatermarkStrategy, role, STRATEGIES)
    if strategy.assigner is not None:
        check_result(strategy.assigner, "extract_timestamp", "with_timestamp_assigner()")


class DataStream(StreamDisplay, StreamSettings, StreamPartitioning[T_co], StreamEnds[T_co], Generic[T_co]):
    """A stream of records.

    >>> from funken import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> words = env.from_collection(["to be", "or not"]).flat_map(str.split)
    >>> words.map(str.upper).execute_and_collect(limit=3)
    ['TO', 'BE', 'OR']

    How an operator is called and how it runs is said right after it:

    >>> upper = env.from_collection(["to be"]).map(str.upper).name("capitals")
    >>> upper.get_name(), upper.execute_and_collect(limit=1)
    ('capitals', ['TO BE'])
    """

    def __init__(self, environment: StreamExecutionEnvironment, inputs: tuple[NodeInput, ...]) -> None:
        self._environment = environment
        self._inputs = inputs

    # ---- building

    def _apply(self, name: str, spec: Any, keyed: bool = False, **fields: Any) -> Node:
        """Add a node that reads this stream."""
        return self._environment.graph.add(name=name, kind=name, spec=spec, inputs=self._inputs, keyed=keyed, **fields)

    def _then(self, name: str, spec: Any, keyed: bool = False) -> DataStream[Any]:
        return DataStream(self._environment, (NodeInput(self._apply(name, spec, keyed).id),))

    def _spread(self, partitioning: Partitioning) -> DataStream[T_co]:
        return DataStream(self._environment, tuple(replace(i, partitioning=partitioning) for i in self._inputs))

    def _node(self, what: str) -> Node:
        if len(self._inputs) != 1 or self._inputs[0].partitioning is not None or self._inputs[0].side is not None:
            raise InvalidProgram(
                f"{what} belongs to an operator, but this stream is a union, a side output or a repartitioning. Call it "
                "right after the operator it is meant for."
            )
        return self._environment.graph[self._inputs[0].upstream]

    # ---- transformations

    def map(
        self, func: Callable[[T_co], R] | MapFunction[T_co, R], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Turn each record into one: ``func(record)``, a ``MapFunction``, or a ``@funken.vectorized`` function.

        >>> from funken.testing import local
        >>> local([1, 2]).map(lambda x: x + 1).execute_and_collect(limit=2)
        [2, 3]
        """
        batches = vectorized_call(func, "map")
        if batches is not None:
            from funken.api.batches import over_batches

            return typed(self._then("map", over_batches(*batches, output_type)), output_type)
        return typed(self._then("map", Map(as_user_function(func, "map", "map()"))), output_type)

    def flat_map(
        self,
        func: Callable[[T_co], Iterable[R] | None] | FlatMapFunction[T_co, R],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Turn each record into any number: ``func(record)`` returns an iterable or ``None``, or a ``FlatMapFunction``.

        >>> from funken.testing import local
        >>> local([1, 2]).flat_map(lambda x: [x] * x).execute_and_collect(limit=3)
        [1, 2, 2]
        """
        return typed(self._then("flat_map", FlatMap(as_user_function(func, "flat_map", "flat_map()"))), output_type)

    def filter(self, func: Callable[[T_co], object] | FilterFunction[T_co]) -> DataStream[T_co]:
        """Keep the records for which ``func(record)`` is true, a ``FilterFunction`` says so, or a vectorized one's mask.

        >>> from funken.testing import local
        >>> local(["a", "bc"]).filter(lambda word: len(word) == 2).execute_and_collect(limit=1)
        ['bc']
        """
        batches = vectorized_call(func, "filter")
        if batches is not None:
            from funken.api.batches import over_batches

            return self._then("filter", over_batches(*batches, None, mask=True))
        function = as_user_function(func, "filter", "filter()")
        never = never_together([*reversed([*self._filters()]), function.bind()])
        if never is not None:
            warn(
                f"filter(): no record passes both {never[0]} and {never[1]}, so none is left. Use one condition with or."
            )
        always = always_one(function.bind())
        if always is not None:
            warn(
                f"filter(): every record passes {always[0]} or {always[1]}, so none is dropped. Join them with and, or use in."
            )
        return self._then("filter", Filter(function))

    def _filters(self) -> Iterator[Callable[..., Any]]:
        """Yield the functions of the filters right before."""
        inputs = self._inputs
        while len(inputs) == 1 and inputs[0].side is None:
            node = self._environment.graph[inputs[0].upstream]
            if not isinstance(node.spec, Filter):
                return
            yield node.spec.function.bind()
            inputs = node.inputs

    def map_block(self, func: Callable[[list[T_co]], list[R]]) -> DataStream[R]:
        """Turn a list of records into a list of records: for code that works on many at once (NumPy, a model).

        How many records come together depends on the load; a list of the same length keeps the timestamps.

        >>> from funken.testing import local
        >>> local([1, 2, 3]).map_block(lambda block: [x * 10 for x in block]).execute_and_collect(limit=3)
        [10, 20, 30]
        """
        return self._then(
            "map_block", OperatorCall(MapBlockLogic, (as_user_function(func, "map_block", "map_block()"),))
        )

    @overload
    def map_batches(
        self, func: Callable[..., object], output_type: TypeOf[R], batch_format: str = "numpy"
    ) -> DataStream[R]: ...
    @overload
    def map_batches(
        self, func: Callable[..., object], output_type: object = None, batch_format: str = "numpy"
    ) -> DataStream: ...
    def map_batches(
        self, func: Callable[..., object], output_type: object = None, batch_format: str = "numpy"
    ) -> DataStream:
        """Turn blocks of records into blocks of any number of records: ``func`` takes and returns columns.

        ``output_type`` and ``batch_format`` are those of ``funken.vectorized``, also where ``func`` is such a function. How many
        records come together depends on the load. As many results as records keep the timestamps, others have none.

        >>> from funken.testing import local
        >>> def repeated(block):
        ...     return block["word"].repeat(block["times"])
        >>> words = local([{"word": "to", "times": 2}, {"word": "be", "times": 1}])
        >>> words.map_batches(repeated, output_type=str, batch_format="pandas").execute_and_collect(limit=3)
        ['to', 'to', 'be']
        """
        from funken.api.batches import of_batches

        return self._then("map_batches", of_batches(func, output_type, batch_format))

    def process(
        self,
        func: Callable[[T_co, ProcessContext], Iterable[R | SideOutput] | None] | ProcessFunction[T_co, R],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Handle each record with its context: a ``ProcessFunction``, or ``func(record, ctx)``.

        >>> from funken import ProcessFunction
        >>> from funken.testing import local
        >>> class Twice(ProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         yield value
        ...         yield value
        >>> local([1]).process(Twice()).execute_and_collect(limit=2)
        [1, 1]
        """
        function = as_user_function(func, "process_element", "process()")
        check_arguments(func, "process_element", "process()")
        return typed(self._then("process", Process(function)), output_type)

    def transform(self, name: str, spec: OperatorSpec, output_type: Any = None) -> DataStream[Any]:
        """Run an operator of one's own, written with ``funken.sdk``; ``spec.build()`` makes that of one subtask.

        >>> from funken.sdk import Operator
        >>> from funken.testing import local
        >>> class Double(Operator):
        ...     def process(self, values, timestamps):
        ...         self.output.emit([2 * value for value in values], timestamps)
        >>> class Doubled:
        ...     def build(self):
        ...         return Double()
        >>> local([1, 2]).transform("doubled", Doubled()).execute_and_collect(limit=2)
        [2, 4]
        """
        return typed(self._then(name, spec), output_type)

    def project(self, *field_indexes: int) -> DataStream[tuple[Any, ...]]:
        """Keep some fields of tuples, in the order given.

        >>> from funken.testing import local
        >>> local([("a", 1, True)]).project(2, 0).execute_and_collect(limit=1)
        [(True, 'a')]
        """
        projected = self._then("project", Map(UserFunction(lambda record: tuple(record[i] for i in field_indexes))))
        of = type_of(self)
        return (
            typed(projected, Types.TUPLE([of.field_types[i] for i in field_indexes]))
            if isinstance(of, TupleTypeInfo)
            else projected
        )

    def key_by(
        self, key_selector: Callable[[T_co], S] | KeySelector[T_co, S], key_type: TypeInformation | None = None
    ) -> KeyedStream[T_co, S]:
        """Partition by ``key_selector(record)`` (or a ``KeySelector``): equal keys meet in one subtask, with one state.

        A key is a str, number, tuple, enum, frozen dataclass, or has a method ``__stable_hash__``.

        >>> from funken.testing import local
        >>> sums = local([("a", 1), ("b", 2), ("a", 3)]).key_by(lambda pair: pair[0]).sum(1)
        >>> sorted(sums.execute_and_collect(limit=3))
        [('a', 1), ('a', 4), ('b', 2)]
        """
        KeyedStream = family("KeyedStream")
        selector = as_user_function(key_selector, "get_key", "key_by()")
        drawn = random_key(key_selector)
        if drawn is not None:
            warn(f"key_by(): {drawn}")
        return KeyedStream(self, selector)

    def union(self, *streams: DataStream[S]) -> DataStream[T_co | S]:
        """Put streams of one environment together; records of the inputs interleave in no fixed order.

        >>> from funken.testing import local
        >>> one = local([1, 2])
        >>> two = one.map(lambda x: x * 10)
        >>> sorted(one.union(two).execute_and_collect(limit=4))
        [1, 2, 10, 20]
        """
        inputs = self._inputs
        frame = None if streams else frame_of_program()
        if frame is not None and not spreads(frame.f_code, frame.f_lasti):  # a collection that is spread may be empty
            warn("union(): no stream is given, so the result is this stream. Give the others: stream.union(other).")
        for stream in streams:
            check_stream(stream, "union()", DataStream)
            if stream._environment is not self._environment:
                raise InvalidProgram(
                    "union() joins streams of one environment only: read the other source with the same env too."
                )
            inputs += tuple(replace(i, index=0) for i in stream._inputs)
        return DataStream(self._environment, inputs)

    @overload
    def connect(self, ds: DataStream[S]) -> ConnectedStreams[T_co, S]: ...
    @overload
    def connect(self, ds: BroadcastStream[S]) -> BroadcastConnectedStream[T_co, S]: ...
    def connect(
        self, ds: DataStream[S] | BroadcastStream[S]
    ) -> ConnectedStreams[T_co, S] | BroadcastConnectedStream[T_co, S]:
        """Connect two streams of different types, to handle both with shared state; see ``ConnectedStreams``.

        A ``BroadcastStream`` gives a ``BroadcastConnectedStream``. Raises ``InvalidProgram`` for another environment's.

        >>> from funken import CoMapFunction, StreamExecutionEnvironment
        >>> class AsText(CoMapFunction):
        ...     def map1(self, value):
        ...         return f"number {value}"
        ...     def map2(self, value):
        ...         return f"word {value}"
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> connected = env.from_collection([1, 2]).connect(env.from_collection(["to"]))
        >>> sorted(connected.map(AsText()).execute_and_collect(limit=3))
        ['number 1', 'number 2', 'word to']
        """
        BroadcastConnectedStream = family("BroadcastConnectedStream")
        ConnectedStreams = family("ConnectedStreams")
        check_stream(ds, "connect()", DataStream, family("BroadcastStream"))
        if isinstance(ds, DataStream):
            return ConnectedStreams(self, ds)
        return BroadcastConnectedStream(self, ds)

    def get_side_output(self, output_tag: OutputTag[S]) -> DataStream[S]:
        """Return the records that the operator before emitted as ``(output_tag, record)``.

        >>> from funken import OutputTag
        >>> from funken.testing import local
        >>> short = OutputTag("short")
        >>> longer = local(["to", "question"]).process(lambda word, ctx: [word if len(word) > 2 else (short, word)])
        >>> longer.get_side_output(short).execute_and_collect(limit=1)
        ['to']
        """
        check_kind(output_tag, OutputTag, "get_side_output()", f"Give OutputTag({output_tag!r}).")
        node = self._node("get_side_output()")
        typed_side(self, output_tag)
        return DataStream(self._environment, (NodeInput(node.id, side=output_tag.tag_id, place=place_of_program()),))

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy[T_co]) -> DataStream[T_co]:
        """Assign timestamps (ms) to records and watermarks to the stream; overrides earlier ones.

        >>> from funken import WatermarkStrategy
        >>> from funken.testing import local
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e[1])
        >>> stamped = local([("a", 5), ("b", 7)]).assign_timestamps_and_watermarks(strategy)
        >>> stamped.process(lambda e, ctx: [(e[0], ctx.timestamp())]).execute_and_collect(limit=2)
        [('a', 5), ('b', 7)]
        """
        check_strategy(watermark_strategy, "assign_timestamps_and_watermarks()")
        return self._then("timestamps", TimestampsAndWatermarks(watermark_strategy))

    def window_all(self, window_assigner: WindowAssigner[T_co, W]) -> AllWindowedStream[T_co, W]:
        """Window the whole stream, in one subtask.

        >>> from funken import TumblingEventTimeWindows, WatermarkStrategy
        >>> from funken.testing import local
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda at, _: at)
        >>> times = local([1, 2, 11]).assign_timestamps_and_watermarks(strategy)
        >>> counts = times.window_all(TumblingEventTimeWindows.of(10)).apply(lambda window, at: [(window.end, len(at))])
        >>> counts.execute_and_collect(limit=2)
        [(10, 2), (20, 1)]
        """
        AllWindowedStream = family("AllWindowedStream")
        return AllWindowedStream(self, window_assigner)

    def join(self, other: DataStream[S]) -> JoinedStreams[T_co, S]:
        """Join by key and window: ``.where(key).equal_to(key).window(assigner).apply(function)``.

        >>> from funken import StreamExecutionEnvironment, TumblingEventTimeWindows, WatermarkStrategy
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e["at"])
        >>> views = env.from_collection([{"ad": 1, "at": 2}, {"ad": 2, "at": 3}]).assign_timestamps_and_watermarks(strategy)
        >>> clicks = env.from_collection([{"ad": 1, "at": 5}]).assign_timestamps_and_watermarks(strategy)
        >>> keyed = views.join(clicks).where(lambda view: view["ad"]).equal_to(lambda click: click["ad"])
        >>> delays = keyed.window(TumblingEventTimeWindows.of(10)).apply(lambda view, click: click["at"] - view["at"])
        >>> delays.execute_and_collect(limit=1)
        [3]
        """
        JoinedStreams = family("JoinedStreams")
        return JoinedStreams(self, other)

    def co_group(self, other: DataStream[S]) -> CoGroupedStreams[T_co, S]:
        """Group together by key and window: ``.where(key).equal_to(key).window(assigner).apply(function)``.

        >>> from funken import StreamExecutionEnvironment, TumblingEventTimeWindows, WatermarkStrategy
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda e, _: e["at"])
        >>> views = env.from_collection([{"ad": 1, "at": 2}, {"ad": 2, "at": 3}]).assign_timestamps_and_watermarks(strategy)
        >>> clicks = env.from_collection([{"ad": 1, "at": 5}]).assign_timestamps_and_watermarks(strategy)
        >>> keyed = views.co_group(clicks).where(lambda view: view["ad"]).equal_to(lambda click: click["ad"])
        >>> windows = keyed.window(TumblingEventTimeWindows.of(10))
        >>> windows.apply(lambda views, clicks: [(len(views), len(clicks))]).execute_and_collect(limit=2)
        [(1, 1), (1, 0)]
        """
        CoGroupedStreams = family("CoGroupedStreams")
        return CoGroupedStreams(self, other)

    @overload
    def iterate(self) -> IterativeStream[T_co]: ...
    @overload
    def iterate(self, step: LoopStep[T_co, R]) -> DataStream[R]: ...
    def iterate(self, step: LoopStep[T_co, R] | None = None) -> DataStream[T_co] | DataStream[R]:
        """Begin a loop that ``close_with(feedback)`` closes, or make one of ``step(loop)``: it returns feedback and result.

        >>> from funken.testing import local
        >>> def halve(loop):
        ...     halves = loop.map(lambda pair: (pair[0] // 2, pair[1] + 1))
        ...     return halves.filter(lambda pair: pair[0]), halves.filter(lambda pair: not pair[0])
        >>> sorted(local([(9, 0), (2, 0)]).iterate(halve).execute_and_collect(limit=2))
        [(0, 2), (0, 4)]
        """
        return family("IterativeStream").begin(self, step)

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream[T_co, GlobalWindow]:
        """Window the whole stream by count, in one subtask; ``slide`` as for ``KeyedStream.count_window``.

        >>> from funken.testing import local
        >>> local([1, 2, 3]).count_window_all(3).reduce(lambda x, y: x + y).execute_and_collect(limit=1)
        [6]
        """
        count_windows = family("count_windows")
        counted: AllWindowedStream[T_co, GlobalWindow] = count_windows(
            self.window_all(GlobalWindows.create()), size, slide
        )
        return counted

    # ---- what is known of it

    def get_type(self) -> TypeInformation:
        """Return the declared type of the records; that of any Python object if none was declared.

        >>> from funken.testing import local
        >>> local([1]).map(str, output_type=Types.STRING()).get_type(), local([1]).get_type()
        (String, PickledByteArrayTypeInfo)
        """
        return type_of(self) or Types.PICKLED_BYTE_ARRAY()

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment the stream belongs to.

        >>> from funken.testing import local
        >>> local([1]).get_execution_environment().get_parallelism()
        1
        """
        return self._environment
