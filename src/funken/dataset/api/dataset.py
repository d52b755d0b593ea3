"""``DataSet``: transformations of records, of partitions and of the whole set, and sinks.

A method adds one logical node and returns the data set of it. Properties of an operator (its name, parallelism,
broadcast sets, hints) are set on what the method returned, before anything reads it.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, overload

from funken import DataStream, StreamExecutionEnvironment
from funken.api.streams.settings import positive
from funken.dataset.api.aggregations import (
    Aggregations,
    CountPartition,
    Extreme,
    FieldAggregator,
    FirstN,
    KeepFirst,
    Projection,
    UniqueIds,
    WithIndex,
    group_functions,
    sampler,
    sampler_with_size,
)
from funken.dataset.api.family import family
from funken.dataset.formats.outputs import (
    CollectOutput,
    CsvOutput,
    JsonOutput,
    OutputFormat,
    ParquetOutput,
    PrintOutput,
    TextOutput,
    WriteMode,
)
from funken.dataset.plan import nodes
from funken.dataset.plan.functions import DataSetFunction, user_function
from funken.dataset.plan.keys import UNKNOWN, Key, RecordType, SortField, declared_type, make_key, make_paths, tuple_of
from funken.dataset.plan.nodes import (
    ALL_FORWARDED,
    CombineHint,
    CrossHint,
    Forwarded,
    JoinHint,
    JoinKind,
    Kind,
    parse_forwarded,
)
from funken.errors import InvalidProgram
from funken.plan.advice import calling, dropped_at
from funken.types.callables import Generic, IN_contra, OUT_co, R, S, T_co, check_kind

if TYPE_CHECKING:
    from os import PathLike

    from funken import FilterFunction, FlatMapFunction, KeySelector, MapFunction, Partitioner, ReduceFunction
    from funken.dataset.api.environment import ExecutionEnvironment
    from funken.dataset.api.iterations import DeltaIteration, IterativeDataSet
    from funken.dataset.api.two_inputs import CoGroupOperator, CrossDataSet, JoinOperator, OuterJoinOperator
    from funken.dataset.plan.functions import GroupCombineFunction, GroupReduceFunction, MapPartitionFunction

    Place: TypeAlias = str | PathLike[str]
    KeyOf: TypeAlias = int | str | Callable[[T_co], object] | KeySelector[T_co, Any]
    """A field by position or name, or a function of the record."""
    Groups: TypeAlias = Callable[[Iterable[T_co]], Iterable[OUT_co] | None]
    """A function of many records."""

    class CreatesResult(Protocol[IN_contra, OUT_co]):
        """A part of a program, as a library has it."""

        def create_result(self, data_set: DataSet[IN_contra], /) -> OUT_co:
            """Build on a data set."""


class DataSink:
    """A target of records when the program is executed.

    >>> import tempfile
    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> path = tempfile.mkdtemp() + "/pairs"
    >>> sink = env.from_elements((2, "b"), (1, "a")).write_as_csv(path)
    >>> _ = sink.name("pairs").set_parallelism(1).sort_local_output(0)
    >>> result = env.execute()
    >>> env.read_text_file(path).collect()
    ['1,a', '2,b']
    """

    def __init__(self, environment: ExecutionEnvironment, node: nodes.SinkNode) -> None:
        self._current = node
        self._executed = False
        environment._sinks.append(self)

    def _read(self) -> nodes.Node:
        """Return the node for the execution; from then on it is fixed."""
        self._executed = True
        return self._current

    def _change(self, **changes: Any) -> DataSink:
        if self._executed:
            raise InvalidProgram(
                f"the sink {self._current.name!r} was executed already. Set its properties before execute()."
            )
        self._current = dataclasses.replace(self._current, **changes)
        return self

    def name(self, name: str) -> DataSink:
        """Name the sink."""
        return self._change(name=name)

    def set_parallelism(self, parallelism: int) -> DataSink:
        """Set the number of tasks, and so of files."""
        return self._change(parallelism=positive(parallelism, "parallelism"))

    def sort_local_output(self, field: KeyOf[Any], descending: bool = False) -> DataSink:
        """Sort the output of each task; a further call adds a field of less weight."""
        node = self._current
        made = make_key((field,), node.inputs[0].type, "sort_local_output")
        added = SortField(made.paths[0] if made.paths else (), descending, made.selector)
        return self._change(ordering=(*node.ordering, added))


class DataSet(Generic[T_co]):
    """Records of a batch program, before they are computed.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> words = env.from_elements("to be or not to be").flat_map(lambda line: line.split())
    >>> sorted(words.map(lambda word: (word, 1)).group_by(0).sum(1).collect())
    [('be', 2), ('not', 1), ('or', 1), ('to', 2)]

    All records together:

    >>> numbers = env.from_elements(3, 1, 2)
    >>> numbers.filter(lambda n: n > 1).count(), numbers.reduce(lambda a, b: a + b).collect(), len(numbers.first(2).collect())
    (2, [6], 2)
    >>> pairs = env.from_elements((1, 5), (2, 3))
    >>> pairs.min(1).collect()[0][1], pairs.max(1).collect()[0][1], pairs.min_by(1).collect(), pairs.max_by(1).collect()
    (3, 5, [(2, 3)], [(1, 5)])
    >>> from funken.dataset import Aggregations
    >>> pairs.aggregate(Aggregations.SUM, 0).and_(Aggregations.SUM, 1).collect()
    [(3, 8)]
    >>> sum(numbers.combine_group(lambda part: [sum(part)]).collect())
    6

    Partitions, numbers and samples:

    >>> sorted(numbers.rebalance().partition_by_hash("*").partition_custom(lambda key, n: key % n, "*").collect())
    [1, 2, 3]
    >>> numbers.zip_with_index().collect(), sorted(numbers.count_elements_per_partition().collect())
    ([(0, 3), (1, 1), (2, 2)], [(0, 1), (1, 2)])
    >>> numbers.zip_with_unique_id().collect()
    [(0, 3), (1, 1), (3, 2)]
    >>> numbers.sample(False, 1.0).count(), numbers.sample_with_size(True, 5).count()
    (3, 5)
    >>> numbers.run_operation(lambda data_set: data_set.count())
    3

    Properties of an operator; from the moment it is read by another, they are fixed:

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=4)
    >>> mapped = env.from_elements(3, 4).map(str).set_parallelism(1).with_statistics(records=2, size=20)
    >>> mapped.get_execution_environment() is env, mapped.map_partition(list).collect()
    (True, ['3', '4'])

    By key, with other data sets:

    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> pairs = env.from_elements((1, 5), (2, 3))
    >>> other = env.from_elements((2, "b"), (3, "c"))
    >>> sorted(pairs.group_by(0).sum(1).collect())
    [(1, 5), (2, 3)]
    >>> sorted(pairs.join(other).where(0).equal_to(0).collect())
    [((2, 3), (2, 'b'))]
    >>> pairs.join_with_tiny(other).where(0).equal_to(0).count(), pairs.join_with_huge(other).where(0).equal_to(0).count()
    (1, 1)
    >>> outer = [pairs.left_outer_join(other), pairs.right_outer_join(other), pairs.full_outer_join(other)]
    >>> [join.where(0).equal_to(0).using(lambda a, b: (a, b)).count() for join in outer]
    [2, 2, 3]
    >>> grouped = pairs.co_group(other).where(0).equal_to(0)
    >>> sorted(grouped.using(lambda ones, others: [(len(list(ones)), len(list(others)))]).collect())
    [(0, 1), (1, 0), (1, 1)]
    >>> pairs.cross(other).count(), pairs.cross_with_tiny(other).count(), pairs.cross_with_huge(other).count()
    (4, 4, 4)

    Results, and files, which ``execute`` writes:

    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> pairs = env.from_elements((1, 5), (2, 3))
    >>> pairs.collect()
    [(1, 5), (2, 3)]
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = pairs.write_as_csv(folder / "csv").set_parallelism(1)
    >>> _ = pairs.write_as_text(folder / "text").set_parallelism(1)
    >>> _ = pairs.write_as_formatted_text(folder / "formatted", lambda pair: f"{pair[0]}!").set_parallelism(1)
    >>> _, _ = pairs.write_as_json(folder / "json"), pairs.write_as_parquet(folder / "parquet")
    >>> result = env.execute()
    >>> [(folder / name).read_text().split() for name in ("csv", "text", "formatted")]
    [['1,5', '2,3'], ['(1,', '5)', '(2,', '3)'], ['1!', '2!']]
    >>> sorted(path.name for path in (folder / "json").iterdir())
    ['1', '2']
    """

    def __init__(self, environment: ExecutionEnvironment, node: nodes.Node) -> None:
        environment._add(node.name)
        self._environment = environment
        self._current = node
        self._read_by = ""
        self._call = calling(sys._getframe(1))

    def __del__(self) -> None:
        if not getattr(self, "_read_by", True) and (place := dropped_at(self._call)) is not None:
            self._environment._dropped.append(place)

    # ---- the node

    def _read(self, operator: str) -> nodes.Node:
        """Return the node for a consumer; from then on it is fixed."""
        self._read_by = operator
        return self._current

    def _change(self, method: str, **changes: Any) -> Self:
        if self._read_by:
            raise InvalidProgram(
                f"operator {self._current.name!r} was already read by {self._read_by}() when {method}() was called. "
                f"Call {method}() directly behind the operator that it is for."
            )
        self._current = dataclasses.replace(self._current, **changes)
        self._call = calling(sys._getframe(1))
        return self

    # ---- properties of the operator

    def get_execution_environment(self) -> ExecutionEnvironment:
        """Return the environment that the data set belongs to."""
        return self._environment

    def name(self, name: str) -> Self:
        """Name the operator; errors, accumulators and ``explain`` use the name.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=1)
        >>> env.from_elements(1, 0).map(lambda n: 1 // n).name("invert").collect()
        Traceback (most recent call last):
        ...
        funken.errors.OperatorFailed: operator 'invert' (subtask 0) failed at the record 0: ZeroDivisionError: ...
        """
        return self._change("name", name=name)

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of tasks of this operator."""
        if isinstance(parallelism, bool) or not isinstance(parallelism, int) or parallelism < 1:
            raise InvalidProgram(f"set_parallelism({parallelism!r}): it has to be a whole number above 0.")
        if self._current.single and parallelism != 1:
            raise InvalidProgram(
                f"operator {self._current.name!r} sees all records together, so its parallelism is 1. Group the data set first."
            )
        return self._change("set_parallelism", parallelism=parallelism)

    def with_broadcast_set(self, data_set: DataSet[Any], name: str) -> Self:
        """Pass all records of another data set to the operator's function, as ``get_broadcast_variable(name)``.

        >>> from funken import MapFunction
        >>> from funken.dataset import ExecutionEnvironment
        >>> class Share(MapFunction):
        ...     def open(self, runtime_context):
        ...         (self.total,) = runtime_context.get_broadcast_variable("total")
        ...     def map(self, value):
        ...         return value / self.total
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> numbers = env.from_elements(1, 3)
        >>> numbers.map(Share()).with_broadcast_set(numbers.reduce(lambda a, b: a + b), "total").collect()
        [0.25, 0.75]
        """
        self._same_environment(data_set, "with_broadcast_set")
        if any(name == taken for taken, _ in self._current.broadcasts):
            raise InvalidProgram(
                f"operator {self._current.name!r} has a broadcast set {name!r} already; choose another name."
            )
        if self._current.function is None or not self._current.function.rich:
            raise InvalidProgram(
                f"operator {self._current.name!r} cannot use the broadcast set {name!r}: only a function object with "
                "open(runtime_context) can ask for it. Derive from MapFunction or its like."
            )
        broadcasts = (*self._current.broadcasts, (name, data_set._read("with_broadcast_set")))
        return self._change("with_broadcast_set", broadcasts=broadcasts)

    def with_forwarded_fields(self, *fields: str) -> Self:
        """Promise that the function copies these fields unchanged: ``"f0; f2->f1"``. Wrong promises lead to wrong results.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> pairs = env.from_elements((1, 2), (1, 3)).group_by(0).sum(1)
        >>> doubled = pairs.map(lambda pair: (pair[0], pair[1] * 2)).with_forwarded_fields("f0")
        >>> doubled.group_by(0).max(1).collect()  # without another shuffle
        [(1, 10)]
        """
        return self._forward(0, "with_forwarded_fields", fields)

    def _forward(self, side: int, method: str, fields: tuple[str, ...]) -> Self:
        found = self._current.forwarded
        for text in fields:
            records = self._current.inputs[side].type
            found = Forwarded([*found, *parse_forwarded(text, side, records, f"{self._current.name}.{method}()")])
        return self._change(method, forwarded=found)

    def with_statistics(self, records: float | None = None, size: float | None = None) -> Self:
        """Tell the optimizer the numbers of records and bytes that this operator emits."""
        return self._change("with_statistics", statistics=nodes.Statistics(records, size))

    @overload
    def returns(self, record_type: type[S]) -> DataSet[S]: ...
    @overload
    def returns(self, record_type: object) -> DataSet[Any]: ...
    def returns(self, record_type: object) -> DataSet[Any]:
        """Declare the type of the records, so that fields are checked while the program is built.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=1)
        >>> env.from_elements("a").map(lambda word: (word, 1)).returns(tuple[str, int]).group_by(2)
        Traceback (most recent call last):
        ...
        funken.errors.InvalidProgram: group_by(2): there is no field 2 in records of type (str, int); there are 0 to 1.
        """
        return self._change("returns", type=declared_type(record_type))

    def _same_environment(self, other: object, operator: str) -> None:
        if not isinstance(other, DataSet):
            raise InvalidProgram(f"{operator}() needs a DataSet, but got {other!r}.")
        if other._environment is not self._environment:
            raise InvalidProgram(
                f"{operator}(): the data sets belong to different environments. Make both with the same ExecutionEnvironment."
            )

    def _derive(self, make: Callable[..., nodes.Node], name: str, **fields: Any) -> DataSet[Any]:
        return DataSet(self._environment, self._node(make, name, **fields))

    def _node(self, make: Callable[..., nodes.Node], name: str, **fields: Any) -> nodes.Node:
        return make(id=self._environment._next_id(), name=name, inputs=(self._read(name),), **fields)

    def _apply(
        self,
        kind: Kind,
        call: DataSetFunction,
        name: str = "",
        records: RecordType = UNKNOWN,
        forwarded: Forwarded = Forwarded(),  # noqa: B008 - immutable
    ) -> DataSet[Any]:
        return self._derive(nodes.Apply, name or kind.value, kind=kind, call=call, type=records, forwarded=forwarded)

    # ---- records

    def map(self, function: Callable[[T_co], R] | MapFunction[T_co, R]) -> DataSet[R]:
        """Emit one record for each record."""
        return self._apply(Kind.MAP, user_function(function, "map", "map"))

    def flat_map(self, function: Callable[[T_co], Iterable[R] | None] | FlatMapFunction[T_co, R]) -> DataSet[R]:
        """Emit any number of records for each record."""
        return self._apply(Kind.FLAT_MAP, user_function(function, "flat_map", "flat_map"))

    def filter(self, function: Callable[[T_co], object] | FilterFunction[T_co]) -> DataSet[T_co]:
        """Keep the records for which the function is true."""
        call = user_function(function, "filter", "filter")
        return self._apply(Kind.FILTER, call, records=self._current.type, forwarded=ALL_FORWARDED)

    def map_partition(self, function: Groups[T_co, R] | MapPartitionFunction[T_co, R]) -> DataSet[R]:
        """Call the function once per partition, also for an empty one, with an iterable of the records.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> env.from_elements(1, 2, 3).map_partition(lambda numbers: [sum(numbers)]).collect()
        [1, 5]
        """
        return self._apply(Kind.MAP_PARTITION, user_function(function, "map_partition", "map_partition"))

    def project(self, *fields: int) -> DataSet[tuple[Any, ...]]:
        """Emit tuples of these fields, in this order; a field may be repeated.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=1)
        >>> env.from_elements((1, "a", 2.0)).project(2, 0).collect()
        [(2.0, 1)]
        """
        if not fields:
            raise InvalidProgram("project() got no field. Give one field position or more.")
        own = self._current.type
        paths = [make_paths([field], own, "project")[0] for field in fields]
        kept = Forwarded([(0, path, (place,)) for place, path in enumerate(paths)])
        call = DataSetFunction(Projection(tuple(paths)))
        return self._apply(Kind.MAP, call, "project", tuple_of(*map(own.at, paths)), kept)

    # ---- the whole set

    def reduce(self, function: Callable[[T_co, T_co], T_co] | ReduceFunction[T_co]) -> DataSet[T_co]:
        """Make one record of all, two at a time; the function must be associative. Of no record it makes none."""
        call = user_function(function, "reduce", "reduce")
        return self._derive(nodes.Reduce, "reduce", key=None, call=call, type=self._current.type)

    def reduce_group(
        self,
        function: Groups[T_co, R] | GroupReduceFunction[T_co, R],
        combine: Groups[T_co, T_co] | GroupCombineFunction[T_co, T_co] | None = None,
    ) -> DataSet[R]:
        """Call the function with an iterable of all records, in one task; not at all if there are none.

        ``combine``, or the method ``combine`` of a function object, shrinks the records of each task before that.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> env.from_elements(1, 2, 3).reduce_group(lambda numbers: [max(numbers)], lambda numbers: [max(numbers)]).collect()
        [3]
        """
        call, combiner = group_functions(function, combine)
        return self._derive(nodes.GroupReduce, "reduce_group", key=None, call=call, combiner=combiner)

    def combine_group(self, function: Groups[T_co, R] | GroupCombineFunction[T_co, R]) -> DataSet[R]:
        """Call the function with the records that each task has."""
        return self._derive(
            nodes.GroupCombine, "combine_group", key=None, call=user_function(function, "combine", "combine_group")
        )

    def aggregate(self, aggregation: Aggregations, field: int | str) -> AggregateDataSet[T_co]:
        """Aggregate a field over all records; ``and_`` adds further fields."""
        return AggregateDataSet(self, None, ((aggregation, field),))

    def sum(self, field: int | str) -> AggregateDataSet[T_co]:
        """Add up a field over all records."""
        return self.aggregate(Aggregations.SUM, field)

    def min(self, field: int | str) -> AggregateDataSet[T_co]:
        """Find the least value of a field."""
        return self.aggregate(Aggregations.MIN, field)

    def max(self, field: int | str) -> AggregateDataSet[T_co]:
        """Find the greatest value of a field."""
        return self.aggregate(Aggregations.MAX, field)

    def min_by(self, *fields: int | str) -> DataSet[T_co]:
        """Find the record whose fields are least, the first field first."""
        return self._extreme(fields, False, None)

    def max_by(self, *fields: int | str) -> DataSet[T_co]:
        """Find the record whose fields are greatest, the first field first."""
        return self._extreme(fields, True, None)

    def _extreme(self, fields: tuple[int | str, ...], greatest: bool, key: Key | None) -> DataSet[T_co]:
        name = "max_by" if greatest else "min_by"
        if not fields:
            raise InvalidProgram(f"{name}() got no field. Give one field or more.")
        call = DataSetFunction(Extreme(make_paths(fields, self._current.type, name), greatest, name))
        return self._reduced(call, name, key)

    def _reduced(
        self, call: DataSetFunction, name: str, key: Key | None, hint: CombineHint | None = None
    ) -> DataSet[T_co]:
        kept = Forwarded([(0, path, path) for path in key.paths]) if key and key.transparent else Forwarded()
        return self._derive(
            nodes.Reduce,
            name,
            key=key,
            call=call,
            type=self._current.type,
            forwarded=kept,
            hint=hint or CombineHint.OPTIMIZER_CHOOSES,
            vectorized=self._environment._vectorized,
        )

    def distinct(self, *key: KeyOf[T_co]) -> DataSet[T_co]:
        """Keep one record per key, an arbitrary one; without a key, one of equal records.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> sorted(env.from_elements(3, 1, 3).distinct().collect())
        [1, 3]
        """
        made = make_key(key or ("*",), self._current.type, "distinct")
        return self._reduced(DataSetFunction(KeepFirst()), "distinct", made)

    def first(self, n: int) -> DataSet[T_co]:
        """Keep ``n`` records, arbitrary ones; in order, behind ``sort_partition`` with a parallelism of 1."""
        call = DataSetFunction(FirstN(n))
        return self._derive(
            nodes.GroupReduce,
            "first",
            key=None,
            call=call,
            combiner=call,
            type=self._current.type,
            forwarded=ALL_FORWARDED,
        )

    # ---- partitions

    def rebalance(self) -> DataSet[T_co]:
        """Spread the records evenly over the tasks."""
        return self._partition("rebalance", nodes.PartitionMethod.REBALANCE)

    def partition_by_hash(self, *key: KeyOf[T_co]) -> DataSet[T_co]:
        """Bring records with equal keys to the same task."""
        made = make_key(key, self._current.type, "partition_by_hash")
        return self._partition("partition_by_hash", nodes.PartitionMethod.HASH, key=made)

    def partition_by_range(self, *key: KeyOf[T_co], descending: bool | Iterable[bool] = False) -> DataSet[T_co]:
        """Bring records to tasks so that the keys of a task are all before those of the next; reads all records first.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> env.from_elements(4, 1, 3, 2).partition_by_range("*").sort_partition("*").collect()
        [1, 2, 3, 4]
        """
        made = make_key(key, self._current.type, "partition_by_range")
        width = max(1, len(made.paths))
        flags = (descending,) * width if isinstance(descending, bool) else tuple(descending)
        if len(flags) != width:
            raise InvalidProgram(
                f"partition_by_range(): {len(flags)} values of descending for {width} key fields; give one for each."
            )
        return self._partition("partition_by_range", nodes.PartitionMethod.RANGE, key=made, descending=flags)

    def partition_custom(
        self, partitioner: Callable[[Any, int], int] | Partitioner[Any], *key: KeyOf[T_co]
    ) -> DataSet[T_co]:
        """Bring each record to the task ``partitioner(key, number of tasks)``; the key is one field, or one function."""
        made = make_key(key, self._current.type, "partition_custom")
        if len(made.paths) > 1:
            raise InvalidProgram(
                f"partition_custom() takes one key field, but got {made}. Use a key function for several."
            )
        call = user_function(partitioner, "partition", "partition_custom")
        return self._partition("partition_custom", nodes.PartitionMethod.CUSTOM, key=made, partitioner=call)

    def _partition(self, name: str, method: nodes.PartitionMethod, **fields: Any) -> DataSet[T_co]:
        return self._derive(
            nodes.Partition, name, method=method, type=self._current.type, forwarded=ALL_FORWARDED, **fields
        )

    def sort_partition(self, field: KeyOf[T_co], descending: bool = False) -> SortedDataSet[T_co]:
        """Sort the records of each task by a field; a further ``sort_partition`` adds a field of less weight."""
        return SortedDataSet(self, (self._sort_field(field, descending, "sort_partition"),))

    def _sort_field(self, field: KeyOf[T_co], descending: bool, operator: str) -> SortField:
        made = make_key((field,), self._current.type, operator)
        return SortField(made.paths[0] if made.paths else (), descending, made.selector)

    # ---- numbering and samples

    def zip_with_index(self) -> DataSet[tuple[int, T_co]]:
        """Pair each record with its index, ``(index, record)``: dense, from 0, in the order of the partitions."""
        counts = self._apply(
            Kind.MAP_PARTITION, DataSetFunction(CountPartition(), "map_partition", True), "count partitions"
        )
        numbered = self._apply(
            Kind.MAP_PARTITION,
            DataSetFunction(WithIndex(), "map_partition", True),
            "zip_with_index",
            tuple_of(RecordType("int"), self._current.type),
            Forwarded([(0, (), (1,))]),
        )
        return numbered.with_broadcast_set(counts, "counts")

    def zip_with_unique_id(self) -> DataSet[tuple[int, T_co]]:
        """Pair each record with a number of its own, ``(id, record)``; in one pass, and not dense."""
        return self._apply(
            Kind.MAP_PARTITION,
            DataSetFunction(UniqueIds(), "map_partition", True),
            "zip_with_unique_id",
            tuple_of(RecordType("int"), self._current.type),
            Forwarded([(0, (), (1,))]),
        )

    def count_elements_per_partition(self) -> DataSet[tuple[int, int]]:
        """Emit ``(task, number of its records)`` for every task."""
        call = DataSetFunction(CountPartition(), "map_partition", True)
        return self._apply(Kind.MAP_PARTITION, call, "count_elements_per_partition")

    def sample(self, with_replacement: bool, fraction: float, seed: int | None = None) -> DataSet[T_co]:
        """Keep a random part of the records; with a seed, always the same one for the same partitions."""
        call = DataSetFunction(sampler(with_replacement, fraction, seed), "map_partition", True)
        return self._apply(Kind.MAP_PARTITION, call, "sample", self._current.type, ALL_FORWARDED)

    def sample_with_size(self, with_replacement: bool, size: int, seed: int | None = None) -> DataSet[T_co]:
        """Keep exactly ``size`` random records (fewer only if there are fewer, and none is drawn twice)."""
        draw, merge = sampler_with_size(with_replacement, size, seed)
        drawn = self._apply(Kind.MAP_PARTITION, DataSetFunction(draw, "map_partition", True), "sample")
        return drawn._derive(
            nodes.GroupReduce, "sample_with_size", key=None, call=DataSetFunction(merge), type=self._current.type
        )

    def run_operation(self, operation: Callable[[DataSet[T_co]], R] | CreatesResult[T_co, R]) -> R:
        """Let a library build on this data set: return ``operation.create_result(self)``, or ``operation(self)``."""
        return operation(self) if callable(operation) else operation.create_result(self)

    def count(self) -> int:
        """Execute the program and return the number of records."""
        counts = self._apply(Kind.MAP_PARTITION, DataSetFunction(CountPartition(), "map_partition", True), "count")
        return sum(count for _, count in counts.collect())

    # ---- groups and pairs

    def group_by(self, *key: KeyOf[T_co]) -> GroupedDataSet[T_co]:
        """Group records with equal keys: field positions, names (``"user.zip"``), ``"*"``, or one key function."""
        return GroupedDataSet(self, make_key(key, self._current.type, "group_by"))

    def join(self, other: DataSet[S], hint: JoinHint = JoinHint.OPTIMIZER_CHOOSES) -> JoinOperator[T_co, S]:
        """Pair records with equal keys: ``join(b).where(key).equal_to(key)``, then ``using`` or a projection."""
        return self._join(other, hint, "join")

    def join_with_tiny(self, other: DataSet[S]) -> JoinOperator[T_co, S]:
        """Join with a data set that is small enough to be sent to all tasks."""
        return self._join(other, JoinHint.BROADCAST_HASH_SECOND, "join_with_tiny")

    def join_with_huge(self, other: DataSet[S]) -> JoinOperator[T_co, S]:
        """Join with a data set that is so large that this one is sent to all tasks."""
        return self._join(other, JoinHint.BROADCAST_HASH_FIRST, "join_with_huge")

    def left_outer_join(
        self, other: DataSet[S], hint: JoinHint = JoinHint.OPTIMIZER_CHOOSES
    ) -> OuterJoinOperator[T_co, S, T_co, S | None]:
        """Join; a record of this side without a partner is paired with None. Needs ``using``."""
        return self._outer_join(other, JoinKind.LEFT, hint, "left_outer_join")

    def right_outer_join(
        self, other: DataSet[S], hint: JoinHint = JoinHint.OPTIMIZER_CHOOSES
    ) -> OuterJoinOperator[T_co, S, T_co | None, S]:
        """Join; a record of the other side without a partner is paired with None. Needs ``using``."""
        return self._outer_join(other, JoinKind.RIGHT, hint, "right_outer_join")

    def full_outer_join(
        self, other: DataSet[S], hint: JoinHint = JoinHint.OPTIMIZER_CHOOSES
    ) -> OuterJoinOperator[T_co, S, T_co | None, S | None]:
        """Join; every record without a partner is paired with None. Needs ``using``."""
        return self._outer_join(other, JoinKind.FULL, hint, "full_outer_join")

    def _join(self, other: DataSet[S], hint: JoinHint, name: str) -> JoinOperator[T_co, S]:
        self._same_environment(other, name)
        return family("JoinOperator")(self, other, JoinKind.INNER, hint, name)

    def _outer_join(
        self, other: DataSet[S], kind: JoinKind, hint: JoinHint, name: str
    ) -> OuterJoinOperator[T_co, S, Any, Any]:
        self._same_environment(other, name)
        return family("OuterJoinOperator")(self, other, kind, hint, name)

    def co_group(self, other: DataSet[S]) -> CoGroupOperator[T_co, S]:
        """Group both data sets together: ``co_group(b).where(key).equal_to(key).using(f)``."""
        self._same_environment(other, "co_group")
        return family("CoGroupOperator")(self, other)

    def cross(self, other: DataSet[S]) -> CrossDataSet[T_co, S, tuple[T_co, S]]:
        """Make all pairs."""
        return self._cross(other, CrossHint.OPTIMIZER_CHOOSES)

    def cross_with_tiny(self, other: DataSet[S]) -> CrossDataSet[T_co, S, tuple[T_co, S]]:
        """Make all pairs with a data set that is small."""
        return self._cross(other, CrossHint.SECOND_IS_SMALL)

    def cross_with_huge(self, other: DataSet[S]) -> CrossDataSet[T_co, S, tuple[T_co, S]]:
        """Make all pairs with a data set that is large."""
        return self._cross(other, CrossHint.FIRST_IS_SMALL)

    def _cross(self, other: DataSet[S], hint: CrossHint) -> CrossDataSet[T_co, S, tuple[T_co, S]]:
        self._same_environment(other, "cross")
        return family("CrossDataSet")(self, other, hint)

    def union(self, *others: DataSet[S]) -> DataSet[T_co | S]:
        """Put the records of several data sets together; equal ones stay.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> sorted(env.from_elements(1, 2).union(env.from_elements(2, 3)).collect())
        [1, 2, 2, 3]
        """
        if not others:
            raise InvalidProgram("union() got no other data set.")
        for other in others:
            self._same_environment(other, "union")
        inputs = (self._read("union"), *(other._read("union") for other in others))
        records = inputs[0].type if len({node.type for node in inputs}) == 1 else UNKNOWN
        kept = Forwarded([(side, (), ()) for side in range(len(inputs))])
        made = nodes.Union(id=self._environment._next_id(), name="union", inputs=inputs, type=records, forwarded=kept)
        return DataSet(self._environment, made)

    # ---- iterations

    def iterate(self, max_iterations: int) -> IterativeDataSet[T_co]:
        """Begin a bulk iteration: the operators on the result, up to ``close_with``, are repeated.

        >>> from funken.dataset import ExecutionEnvironment
        >>> start = ExecutionEnvironment.create_local_environment(parallelism=2).from_elements(1, 2).iterate(5)
        >>> start.close_with(start.map(lambda n: n * 2)).collect()
        [32, 64]
        """
        return family("IterativeDataSet")(self, max_iterations)

    def iterate_delta(self, workset: DataSet[S], max_iterations: int, *key: KeyOf[T_co]) -> DeltaIteration[T_co, S]:
        """Begin a delta iteration with this data set as solution set, identified by a key.

        >>> from funken.dataset import ExecutionEnvironment
        >>> scores = ExecutionEnvironment.create_local_environment(parallelism=2).from_elements(("a", 1), ("b", 7))
        >>> iteration = scores.iterate_delta(scores, 10, 0)
        >>> more = iteration.get_workset().map(lambda score: (score[0], score[1] + 3)).filter(lambda score: score[1] < 10)
        >>> sorted(iteration.close_with(more, more).collect())
        [('a', 7), ('b', 7)]
        """
        self._same_environment(workset, "iterate_delta")
        return family("DeltaIteration")(
            self, workset, max_iterations, make_key(key, self._current.type, "iterate_delta")
        )

    def output(self, output_format: OutputFormat[T_co]) -> DataSink:
        """Write the records with an output format, when the program is executed; ``OutputFormat`` shows one.

        >>> from funken.dataset import DiscardingOutput, ExecutionEnvironment
        >>> sink = ExecutionEnvironment.create_local_environment().from_elements(1).output(DiscardingOutput())
        """
        remedy = "for a function, call collect() or for_each_partition()"
        check_kind(output_format, OutputFormat, "output()", f"write_as_text() and print() write records; {remedy}.")
        node = nodes.SinkNode(
            id=self._environment._next_id(), name="sink", inputs=(self._read("output"),), format=output_format
        )
        return DataSink(self._environment, node)

    def write_as_text(self, path: Place, write_mode: WriteMode = WriteMode.NO_OVERWRITE) -> DataSink:
        """Write ``str(record)`` lines: one file with a parallelism of 1, else a folder of files ``1`` to ``n``."""
        return self.output(TextOutput(path, write_mode))

    def write_as_formatted_text(
        self,
        path: Place,
        formatter: Callable[[T_co], str],
        write_mode: WriteMode = WriteMode.NO_OVERWRITE,
    ) -> DataSink:
        """Write ``formatter(record)`` lines."""
        return self.output(TextOutput(path, write_mode, formatter))

    def write_as_csv(
        self, path: Place, write_mode: WriteMode = WriteMode.NO_OVERWRITE, delimiter: str = ","
    ) -> DataSink:
        """Write the fields of each record as a line of CSV."""
        return self.output(CsvOutput(path, write_mode, delimiter))

    def write_as_json(self, path: Place, write_mode: WriteMode = WriteMode.NO_OVERWRITE) -> DataSink:
        """Write each record as a line of JSON."""
        return self.output(JsonOutput(path, write_mode))

    def write_as_parquet(self, path: Place, write_mode: WriteMode = WriteMode.NO_OVERWRITE) -> DataSink:
        """Write records with named fields, or tuples (``f0``, ``f1``), as Parquet."""
        return self.output(ParquetOutput(path, write_mode))

    def collect(self) -> list[T_co]:
        """Execute the program, with the sinks that were added, and return the records in the order of the partitions."""
        output = CollectOutput()
        self.output(output)
        self._environment.execute("collect()")
        return output.take()

    def print(self) -> None:
        """Execute the program and print the records.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> env.from_elements("a", "b").print()
        a
        b
        """
        output = PrintOutput()
        self.output(output)
        self._environment.execute("print()")
        output.show()

    def to_data_stream(self, environment: StreamExecutionEnvironment) -> DataStream[T_co]:
        """Execute the program and return the records as a bounded stream of an environment; they are kept in this process.

        >>> from funken import StreamExecutionEnvironment
        >>> from funken.dataset import ExecutionEnvironment
        >>> numbers = ExecutionEnvironment.create_local_environment(parallelism=2).from_elements(1, 2)
        >>> stream = numbers.to_data_stream(StreamExecutionEnvironment.create_local_environment(parallelism=1))
        >>> stream.map(lambda n: n + 1).execute_and_collect(limit=2)
        [2, 3]
        """
        return environment.from_collection(self.collect())

    def to_spark(self, spark: Any = None, schema: Any = None) -> Any:
        """Execute the program and return the records as a ``DataFrame`` of Spark, with a column per field.

        The fields of tuples are ``f0``, ``f1``. The rows are kept as Parquet in a temporary folder, which is removed when this
        process ends. Without a ``schema`` the columns are those of the records; if there may be no record, give one. Without a
        session, it is that of the environment, the active one, or a new one.

        >>> from funken.dataset import ExecutionEnvironment
        >>> pairs = ExecutionEnvironment.create_local_environment(parallelism=2).from_elements((1, "a"), (2, "b"))
        >>> pairs.filter(lambda pair: False).to_spark()
        Traceback (most recent call last):
        funken.errors.InvalidProgram: to_spark(): there is no record, so its columns are not known. Give the schema.
        """
        frames = importlib.import_module("funken.dataset.cluster.worker")
        folder = frames.result_folder()
        self.write_as_parquet(f"{folder}/rows")
        self._environment.execute("to_spark()")
        return frames.frame_of(
            f"{folder}/rows", schema, self._environment.get_configuration(), spark or self._environment._spark
        )


class SortedDataSet(DataSet[T_co], Generic[T_co]):
    """A data set whose partitions are sorted; ``sort_partition`` adds a field to the order.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=1)
    >>> env.from_elements((2, 1), (1, 1), (1, 2)).sort_partition(0).sort_partition(1, descending=True).collect()
    [(1, 2), (1, 1), (2, 1)]
    """

    def __init__(self, data_set: DataSet[T_co], ordering: tuple[SortField, ...]) -> None:
        node = data_set._node(
            nodes.SortPartition,
            "sort_partition",
            ordering=ordering,
            type=data_set._current.type,
            forwarded=ALL_FORWARDED,
        )
        super().__init__(data_set._environment, node)

    def sort_partition(self, field: KeyOf[T_co], descending: bool = False) -> SortedDataSet[T_co]:
        """Sort records that are equal so far by a further field."""
        node = self._current
        assert isinstance(node, nodes.SortPartition)
        made = self._sort_field(field, descending, "sort_partition")
        if made.selector or node.ordering[0].selector:
            raise InvalidProgram(
                "sort_partition() with a key function cannot be chained. Return a tuple from one function, or name fields."
            )
        return self._change("sort_partition", ordering=(*node.ordering, made))


class AggregateDataSet(DataSet[T_co], Generic[T_co]):
    """The result of ``aggregate``; ``and_`` aggregates a further field in the same pass.

    >>> from funken.dataset import Aggregations, ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> env.from_elements((1, 5), (2, 3)).max(0).and_(Aggregations.MIN, 1).collect()
    [(2, 3)]
    """

    def __init__(
        self, data_set: DataSet[T_co], key: Key | None, parts: tuple[tuple[Aggregations, int | str], ...]
    ) -> None:
        self._input = data_set
        self._key = key
        self._parts = parts
        paths = []
        for how, field in parts:
            if not isinstance(how, Aggregations):
                raise InvalidProgram(f"aggregate({how!r}, {field!r}): use Aggregations.SUM, MIN or MAX.")
            (path,) = make_paths([field], data_set._current.type, f"aggregate {how.value}")
            if key is not None and path in key.paths:
                raise InvalidProgram(
                    f"aggregate({how.name}, {field!r}): the field is part of the key, which has to stay. Aggregate another."
                )
            paths.append((how, path))
        call = DataSetFunction(FieldAggregator(tuple(paths), "aggregate"))
        made = data_set._reduced(call, "aggregate" if len(parts) > 1 else parts[0][0].value, key)
        super().__init__(data_set._environment, made._current)

    def and_(self, aggregation: Aggregations, field: int | str) -> AggregateDataSet[T_co]:
        """Aggregate a further field of the same records."""
        if self._read_by:
            self._change("and_")
        return AggregateDataSet(self._input, self._key, (*self._parts, (aggregation, field)))


class GroupedDataSet(Generic[T_co]):
    """Groups of records with equal keys; ``sort_group`` orders the records that a function sees.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> pairs = env.from_elements((1, 3), (1, 1), (2, 9), (2, 2), (1, 2))
    >>> sorted(pairs.group_by(0).sort_group(1, descending=True).first(2).collect())
    [(1, 2), (1, 3), (2, 2), (2, 9)]
    >>> sorted(pairs.group_by(0).min_by(1).collect()), sorted(pairs.group_by(0).max(1).collect())
    ([(1, 1), (2, 2)], [(1, 3), (2, 9)])
    >>> sorted(pairs.group_by(0).max_by(1).collect()), sorted(pairs.group_by(0).min(1).collect())
    ([(1, 3), (2, 9)], [(1, 1), (2, 2)])
    >>> sorted(pairs.group_by(0).sum(1).collect()), sorted(pairs.group_by(0).aggregate(Aggregations.SUM, 1).collect())
    ([(1, 6), (2, 11)], [(1, 6), (2, 11)])
    >>> sorted(pairs.group_by(0).reduce(lambda a, b: (a[0], a[1] * b[1])).collect())
    [(1, 6), (2, 18)]
    >>> sorted(pairs.group_by(0).reduce_group(lambda group: [len(list(group))]).collect())
    [2, 3]
    >>> sum(pairs.group_by(0).combine_group(lambda group: [len(list(group))]).collect())
    5
    """

    def __init__(self, data_set: DataSet[T_co], key: Key, ordering: tuple[SortField, ...] = ()) -> None:
        self._data_set = data_set
        self._key = key
        self._ordering = ordering

    def sort_group(self, field: KeyOf[T_co], descending: bool = False) -> GroupedDataSet[T_co]:
        """Let functions see the records of a group in order; a further call adds a field of less weight."""
        made = make_key((field,), self._data_set._current.type, "sort_group")
        if self._ordering and (made.selector or self._ordering[0].selector):
            raise InvalidProgram(
                "sort_group() with a key function cannot be chained. Return a tuple from one function, or name fields."
            )
        added = SortField(made.paths[0] if made.paths else (), descending, made.selector)
        return GroupedDataSet(self._data_set, self._key, (*self._ordering, added))

    def _unordered(self, operator: str) -> None:
        if self._ordering:
            raise InvalidProgram(
                f"{operator}() sees two records at a time, so sort_group() has no effect on it. Use reduce_group() or first()."
            )

    def reduce(
        self,
        function: Callable[[T_co, T_co], T_co] | ReduceFunction[T_co],
        hint: CombineHint = CombineHint.OPTIMIZER_CHOOSES,
    ) -> DataSet[T_co]:
        """Make one record of each group, two at a time; associative, and the key of the result is the group's."""
        self._unordered("reduce")
        return self._data_set._reduced(user_function(function, "reduce", "reduce"), "reduce", self._key, hint)

    def aggregate(self, aggregation: Aggregations, field: int | str) -> AggregateDataSet[T_co]:
        """Aggregate a field of each group; ``and_`` adds further fields. Other fields are those of the last record."""
        self._unordered("aggregate")
        return AggregateDataSet(self._data_set, self._key, ((aggregation, field),))

    def sum(self, field: int | str) -> AggregateDataSet[T_co]:
        """Add up a field of each group."""
        return self.aggregate(Aggregations.SUM, field)

    def min(self, field: int | str) -> AggregateDataSet[T_co]:
        """Find the least value of a field of each group."""
        return self.aggregate(Aggregations.MIN, field)

    def max(self, field: int | str) -> AggregateDataSet[T_co]:
        """Find the greatest value of a field of each group."""
        return self.aggregate(Aggregations.MAX, field)

    def min_by(self, *fields: int | str) -> DataSet[T_co]:
        """Keep the record of each group whose fields are least."""
        self._unordered("min_by")
        return self._data_set._extreme(fields, False, self._key)

    def max_by(self, *fields: int | str) -> DataSet[T_co]:
        """Keep the record of each group whose fields are greatest."""
        self._unordered("max_by")
        return self._data_set._extreme(fields, True, self._key)

    def reduce_group(
        self,
        function: Groups[T_co, R] | GroupReduceFunction[T_co, R],
        combine: Groups[T_co, T_co] | GroupCombineFunction[T_co, T_co] | None = None,
    ) -> DataSet[R]:
        """Call the function once per group with an iterable of its records, which is read once.

        ``combine``, or the method ``combine`` of a function object, shrinks the records of a group before they travel.
        """
        call, combiner = group_functions(function, combine)
        return self._data_set._derive(
            nodes.GroupReduce, "reduce_group", key=self._key, call=call, combiner=combiner, ordering=self._ordering
        )

    def combine_group(self, function: Groups[T_co, R] | GroupCombineFunction[T_co, R]) -> DataSet[R]:
        """Call the function with records of one key that one task has; a key may come several times."""
        call = user_function(function, "combine", "combine_group")
        return self._data_set._derive(
            nodes.GroupCombine, "combine_group", key=self._key, call=call, ordering=self._ordering
        )

    def first(self, n: int) -> DataSet[T_co]:
        """Keep ``n`` records of each group: the first ones behind ``sort_group``, else arbitrary ones."""
        call = DataSetFunction(FirstN(n))
        records = self._data_set._current.type
        return self._data_set._derive(
            nodes.GroupReduce,
            "first",
            key=self._key,
            call=call,
            combiner=call,
            ordering=self._ordering,
            type=records,
            forwarded=nodes.ALL_FORWARDED,
        )
