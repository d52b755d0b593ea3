"""The family of streams: the constructors by which its classes make one another, and their ``repr``.

A stream makes keyed, windowed and connected ones, and each of these makes streams again. Their modules would import each
other in circles; so a class that a lower module needs is asked for here by name, when it is needed.

>>> family("KeyedStream").__name__
'KeyedStream'
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, overload

from funken.plan.advice import near_names
from funken.plan.nodes import OfTheProgram

if TYPE_CHECKING:
    from collections.abc import Callable

    from funken.api.environment import StreamExecutionEnvironment
    from funken.api.streams.connected import (
        BroadcastConnectedStream,
        BroadcastStream,
        ConnectedStreams,
        IterativeStream,
    )
    from funken.api.streams.joins import CoGroupedStreams, IntervalJoin, JoinedStreams
    from funken.api.streams.keyed import KeyedStream
    from funken.api.streams.stream import DataStream
    from funken.api.streams.windowed import AllWindowedStream, Windows
    from funken.plan.nodes import NodeInput

_MODULES = {
    "AllWindowedStream": "funken.api.streams.windowed",
    "BroadcastConnectedStream": "funken.api.streams.connected",
    "BroadcastStream": "funken.api.streams.connected",
    "CoGroupedStreams": "funken.api.streams.joins",
    "ConnectedStreams": "funken.api.streams.connected",
    "DataStream": "funken.api.streams.stream",
    "IntervalJoin": "funken.api.streams.joins",
    "IterativeStream": "funken.api.streams.connected",
    "JoinedStreams": "funken.api.streams.joins",
    "KeyedStream": "funken.api.streams.keyed",
    "count_windows": "funken.api.streams.windowed",
}
"""The modules that define them."""


@overload
def family(name: Literal["AllWindowedStream"]) -> type[AllWindowedStream]: ...
@overload
def family(name: Literal["BroadcastConnectedStream"]) -> type[BroadcastConnectedStream]: ...
@overload
def family(name: Literal["BroadcastStream"]) -> type[BroadcastStream]: ...
@overload
def family(name: Literal["CoGroupedStreams"]) -> type[CoGroupedStreams]: ...
@overload
def family(name: Literal["ConnectedStreams"]) -> type[ConnectedStreams]: ...
@overload
def family(name: Literal["DataStream"]) -> type[DataStream]: ...
@overload
def family(name: Literal["IntervalJoin"]) -> type[IntervalJoin]: ...
@overload
def family(name: Literal["IterativeStream"]) -> type[IterativeStream]: ...
@overload
def family(name: Literal["JoinedStreams"]) -> type[JoinedStreams]: ...
@overload
def family(name: Literal["KeyedStream"]) -> type[KeyedStream]: ...
@overload
def family(name: Literal["count_windows"]) -> Callable[[Windows, int, int], Windows]: ...


def family(name: str) -> Any:
    """Return a class or function of the family."""
    return getattr(import_module(_MODULES[name]), name)


_INSTEAD = {
    "add_jars": "connectors of Funken need no jars: packages of Python do, as in pip install 'funken[kafka]'",
    "add_source": "use from_source() with a source, from_collection() with a list",
    "agg": "aggregate with key_by() and reduce(), or with window() and aggregate()",
    "alias": "name an operator with name()",
    "apply": "map() calls a function with each record, a window has apply()",
    "async_map": "AsyncDataStream.unordered_wait() calls an async def function with each record",
    "awaitAnyTermination": "execute() of the environment waits for the end of the job",
    "awaitTermination": "execute() of the environment waits for the end of the job",
    "branch": "use filter() per branch, or process() with an OutputTag per branch",
    "cache": "nothing is computed twice in one job: use the stream several times",
    "collect": "execute_and_collect() returns the records, to_pandas() and to_arrow() a table",
    "columns": "records have fields of their own; get_type() is the declared type",
    "count": "add up ones per key: map(lambda record: (key, 1)), key_by() and sum(1); windows have count()",
    "count_by_key": "use key_by(), and sum(1) or a window's count()",
    "countByKey": "use key_by(), and sum(1) or a window's count()",
    "createDataFrame": "from_collection() reads a list, from_spark() a DataFrame",
    "createOrReplaceTempView": "StreamTableEnvironment.create_temporary_view() gives a stream a name for SQL",
    "distinct": "key_by() and a KeyedProcessFunction with a state that remembers what has been seen",
    "drop": "map() makes a record without the field",
    "drop_duplicates": "key_by() and a KeyedProcessFunction with a state that remembers what has been seen",
    "dropDuplicates": "key_by() and a KeyedProcessFunction with a state that remembers what has been seen",
    "dropna": "use filter()",
    "execute": "execute() of the environment runs the program, execute_and_collect() of a stream returns its records",
    "fillna": "map() makes a record with another value",
    "first": "execute_and_collect(limit=1) returns the first record, show(1) prints it",
    "foreach": "use for_each()",
    "foreachBatch": "use map_block() or map_batches() for many records at once, sink_to() to write",
    "foreachPartition": "use map_batches() for many records at once",
    "from_elements": "from_collection() reads a list",
    "from_sequence": "use from_collection(range(...)), or from_source() with a NumberSequenceSource",
    "generate_sequence": "use from_collection(range(...)), or from_source() with a NumberSequenceSource",
    "group_by": "use key_by()",
    "group_by_key": "use key_by()",
    "groupBy": "use key_by()",
    "groupby": "use key_by()",
    "groupByKey": "use key_by()",
    "head": "execute_and_collect(limit=5) returns the first records, show(5) prints them",
    "iterrows": "execute_and_collect() returns the records, for_each() calls a function with each",
    "limit": "execute_and_collect(limit=5) returns the first records, show(5) prints them",
    "map_values": "key_by(), and map(lambda pair: (pair[0], ...)) for the value of a pair",
    "mapPartitions": "use map_batches() for many records at once",
    "mapValues": "key_by(), and map(lambda pair: (pair[0], ...)) for the value of a pair",
    "merge": "union() puts the records of streams together, join() and co_group() match them",
    "orderBy": "a stream has no order; collect it with to_pandas() and sort that",
    "parallelize": "use from_collection()",
    "peek": "map() with a function that returns its record, or print()",
    "persist": "nothing is computed twice in one job: use the stream several times",
    "pivot": "StreamTableEnvironment.from_data_stream() gives a table for SQL",
    "printSchema": "get_type() is the declared type, explain() of the environment shows the plan",
    "range": "use from_collection(range(...)), or from_source() with a NumberSequenceSource",
    "rdd": "streams have map(), flat_map() and map_batches() themselves",
    "read": "use read_json(), read_csv(), read_parquet(), read_text_file() or read_kafka(), or from_spark(spark.read...)",
    "readStream": "use read_kafka() or from_source(), or from_spark(spark.readStream...)",
    "reduceByKey": "use key_by() and reduce()",
    "rename": "map() makes a record with other names",
    "repartition": "use rebalance(), and set_parallelism() of the next operator",
    "sample": "use filter() with a random number",
    "saveAsTextFile": "use sink_to() with a FileSink",
    "select": "map() makes new records of fields; StreamTableEnvironment.from_data_stream() gives a table that has select()",
    "set_checkpoint_storage": "configure({'execution.checkpointing.dir': folder}) of the environment sets it",
    "set_checkpoint_storage_dir": "configure({'execution.checkpointing.dir': folder}) of the environment sets it",
    "set_externalized_checkpoint_retention": (
        "configure({'execution.checkpointing.externalized-checkpoint-retention': 'RETAIN_ON_CANCELLATION'}) of the environment "
        "sets it"
    ),
    "set_max_concurrent_checkpoints": (
        "configure({'execution.checkpointing.max-concurrent-checkpoints': 1}) of the environment sets it"
    ),
    "set_restart_strategy": "configure({'restart-strategy.type': 'fixed-delay'}) sets it",
    "set_tolerable_checkpoint_failure_number": (
        "configure({'execution.checkpointing.tolerable-failed-checkpoints': 3}) of the environment sets it"
    ),
    "set_stream_time_characteristic": "windows and strategies say which time they go by, so there is nothing to set",
    "set_state_backend": "configure({'state.backend.type': 'rocksdb'}) sets it",
    "socket_text_stream": "use from_source() with a SocketSource",
    "sort": "a stream has no order; collect it with to_pandas() and sort that",
    "sort_values": "a stream has no order; collect it with to_pandas() and sort that",
    "sparkContext": "Funken finds the session of Spark by itself; SparkSession.builder.getOrCreate() returns it",
    "split": "use filter() per branch, or process() with an OutputTag per branch",
    "sql": "StreamTableEnvironment has sql_query() and execute_sql()",
    "start": "execute() of the environment runs the program, execute_async() returns at once",
    "stop": "a job ends with its input; cancel() of the JobClient from execute_async() ends it before",
    "table": "StreamTableEnvironment.from_path() reads a table",
    "take": "execute_and_collect(limit=5) returns the first records, show(5) prints them",
    "textFile": "use read_text_file()",
    "through": "use sink_to() with a KafkaSink, and read_kafka()",
    "to": "use sink_to() with a sink, such as a KafkaSink",
    "to_csv": "use sink_to() with a FileSink, or to_pandas().to_csv()",
    "to_dict": "execute_and_collect() returns the records",
    "to_parquet": "use sink_to() with a FileSink.for_bulk_format(), or to_pandas().to_parquet()",
    "toDF": "to_spark() returns a DataFrame",
    "toPandas": "use to_pandas()",
    "transform": "use map(), flat_map() or process()",
    "union_all": "use union()",
    "unionAll": "use union()",
    "unionByName": "use union()",
    "where": "use filter()",
    "withColumn": "map() makes records with another field",
    "withWatermark": "use assign_timestamps_and_watermarks() with a WatermarkStrategy",
    "write": "use sink_to() with a sink, or to_spark().write",
    "write_as_csv": "use sink_to() with a FileSink",
    "write_as_text": "use sink_to() with a FileSink",
    "writeStream": "use sink_to() with a sink, or to_spark(...).writeStream",
    "zipWithIndex": "key_by() and map_with_state() number the records of a key",
}
"""Replacements of methods that users of Spark and of Flink's other APIs look for."""


def missing(kind: type[Suggesting], name: str) -> str:
    """Return the message for an attribute that a part of a program lacks, with an alternative.

    >>> missing(family("DataStream"), "window")
    "'DataStream' object has no attribute 'window': keyed streams have it, so call key_by() right before it, or
    window_all()"
    >>> missing(family("DataStream"), "turn").partition(",")[0]
    "'DataStream' object has no attribute 'turn'. It has"
    >>> missing(family("DataStream"), "groupBy"), missing(family("DataStream"), "flatMap")
    ("'DataStream' object has no attribute 'groupBy': use key_by()",
     "'DataStream' object has no attribute 'flatMap': use flat_map()")
    >>> missing(family("DataStream"), "rdd")
    "'DataStream' object has no attribute 'rdd': streams have map(), flat_map() and map_batches() themselves"
    >>> missing(family("DataStream"), "filters")
    "'DataStream' object has no attribute 'filters'. Did you mean filter()?"
    >>> missing(family("AllWindowedStream"), "print")
    "'AllWindowedStream' object has no attribute 'print': streams have it, and reduce(), aggregate(), apply() or process() makes
    one of the windows"
    """
    text = f"{kind.__name__!r} object has no attribute {name!r}"
    if name.startswith("_"):
        return text
    keyed, spelled = family("KeyedStream"), "".join(f"_{each.lower()}" if each.isupper() else each for each in name)
    if kind._to_streams and hasattr(family("DataStream"), name):
        return f"{text}: streams have it, and {kind._to_streams}"
    if hasattr(keyed, name) and issubclass(kind, family("DataStream")):
        instead = f", or {name}_all()" if hasattr(kind, f"{name}_all") else ""
        return f"{text}: keyed streams have it, so call key_by() right before it{instead}"
    if hasattr(kind, spelled):
        return f"{text}: use {spelled}()"
    if issubclass(kind, keyed) and hasattr(family("AllWindowedStream"), name):
        return f"{text}: windows have it, so call window() right before it"
    if name in _INSTEAD and not kind._in_order:
        return f"{text}: {_INSTEAD[name]}"
    near = get_close_matches(name, [each for each in dir(kind) if not each.startswith("_")], 1, 0.75)
    if near:
        return f"{text}. Did you mean {near[0]}()?"
    if kind._in_order:
        return f"{text}: {kind._to_streams}"
    return f"{text}. It has, for example: {near_names(kind, name)}."


class Suggesting:
    """A part of a program that names an alternative for an attribute that it lacks."""

    _to_streams = ""
    """The way to make a stream of it, if it is none."""
    _in_order = False
    """True if its clauses have one order."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(missing(type(self), name), name=name, obj=None)  # else Python would suggest another


class StaysHere(Suggesting):
    """A part of the program that functions cannot take to the workers: it can be copied, but not pickled."""

    def _in_a_function(self) -> str:
        """Return its description, and an alternative."""
        raise NotImplementedError

    def __copy__(self) -> Self:
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def __reduce__(self) -> NoReturn:
        raise OfTheProgram(self._in_a_function())


class StreamDisplay(StaysHere):
    """The part of a stream that shows it.

    >>> from funken.testing import local
    >>> words = local(["to", "be"]).map(str.upper).name("capitals")
    >>> words, words.key_by(len)
    (<DataStream of 'capitals'>, <KeyedStream of 'capitals'>)
    """

    _environment: StreamExecutionEnvironment
    _inputs: tuple[NodeInput, ...]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._origins()}>"

    if not TYPE_CHECKING:

        def __iter__(self, *_: object) -> NoReturn:
            raise TypeError(
                f"{self!r} has no records here, they are made in workers while the job runs: it has no length, no items and no "
                "truth value. execute_and_collect() returns them; map() and for_each() call a function with each."
            )

        __len__ = __bool__ = __contains__ = __getitem__ = __iter__

        def __add__(self, other: object) -> NoReturn:
            raise TypeError(f"{self!r} is not added to with +: union() puts the records of streams together.")

    def _in_a_function(self) -> str:
        return f"{self!r}, a stream of the program; connect(), a join or a broadcast state brings two together"

    def _origins(self) -> str:
        graph = self._environment.graph
        names = [f"{graph[given.upstream].name!r}" for given in self._inputs]
        sides = [f"side output {given.side!r} of " if given.side is not None else "" for given in self._inputs]
        return " and ".join(map(str.__add__, sides, names))

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code><br>{self._environment._repr_html_()}"


class OfStreams(Suggesting):
    """A base of windows, connected streams and joins that shows the streams among their attributes.

    >>> from funken import TumblingEventTimeWindows
    >>> from funken.testing import local
    >>> words = local(["to", "be"]).name("words")
    >>> words.key_by(len).window(TumblingEventTimeWindows.of("5 s")), words.connect(words.map(len))
    (<WindowedStream of 'words' by TumblingEventTimeWindows(size=5000, offset=0)>, <ConnectedStreams of 'words' with 'map'>)
    """

    def _made_of(self) -> Iterator[StreamDisplay]:
        for value in vars(self).values():
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, StreamDisplay):
                    yield each
                elif isinstance(each, OfStreams):
                    yield from each._made_of()

    def __repr__(self) -> str:
        assigner = getattr(self, "_assigner", None)
        windows = "" if assigner is None else f" by {assigner!r}"
        return f"<{type(self).__name__} of {' with '.join(each._origins() for each in self._made_of())}{windows}>"

    def _repr_html_(self) -> str:
        shown = next(self._made_of())._environment._repr_html_()
        return f"<code>{escape(repr(self))}</code><br>{shown}"
