"""``DataSet``: what is done to records one by one, to partitions, and to the whole set.

A method adds one logical node and returns the data set of it. Properties of an operator (its name, parallelism,
broadcast sets, hints) are set on what the method returned, before anything reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

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
from funken.dataset.api.clauses import DataSetClauses
from funken.dataset.plan import nodes
from funken.dataset.plan.functions import DataSetFunction, user_function
from funken.dataset.plan.keys import UNKNOWN, Key, RecordType, SortField, make_key, make_paths, tuple_of
from funken.dataset.plan.nodes import ALL_FORWARDED, CombineHint, Forwarded, Kind
from funken.errors import InvalidProgram


class DataSet(DataSetClauses):
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
    """

    def _derive(self, make: Callable[..., nodes.Node], name: str, **fields: Any) -> DataSet:
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
    ) -> DataSet:
        return self._derive(nodes.Apply, name or kind.value, kind=kind, call=call, type=records, forwarded=forwarded)

    # ---- records

    def map(self, function: Any) -> DataSet:
        """Emit one record for each record."""
        return self._apply(Kind.MAP, user_function(function, "map", "map"))

    def flat_map(self, function: Any) -> DataSet:
        """Emit any number of records for each record."""
        return self._apply(Kind.FLAT_MAP, user_function(function, "flat_map", "flat_map"))

    def filter(self, function: Any) -> DataSet:
        """Keep the records for which the function is true."""
        call = user_function(function, "filter", "filter")
        return self._apply(Kind.FILTER, call, records=self._current.type, forwarded=ALL_FORWARDED)

    def map_partition(self, function: Any) -> DataSet:
        """Call the function once per partition, also for an empty one, with an iterable of the records.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> env.from_elements(1, 2, 3).map_partition(lambda numbers: [sum(numbers)]).collect()
        [1, 5]
        """
        return self._apply(Kind.MAP_PARTITION, user_function(function, "map_partition", "map_partition"))

    def project(self, *fields: int) -> DataSet:
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

    def reduce(self, function: Any) -> DataSet:
        """Make one record of all, two at a time; the function must be associative. Of no record it makes none."""
        call = user_function(function, "reduce", "reduce")
        return self._derive(nodes.Reduce, "reduce", key=None, call=call, type=self._current.type)

    def reduce_group(self, function: Any, combine: Any = None) -> DataSet:
        """Call the function with an iterable of all records, in one task; not at all if there are none.

        ``combine``, or the method ``combine`` of a function object, shrinks the records of each task before that.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> env.from_elements(1, 2, 3).reduce_group(lambda numbers: [max(numbers)], lambda numbers: [max(numbers)]).collect()
        [3]
        """
        call, combiner = group_functions(function, combine)
        return self._derive(nodes.GroupReduce, "reduce_group", key=None, call=call, combiner=combiner)

    def combine_group(self, function: Any) -> DataSet:
        """Call the function with the records that each task has."""
        return self._derive(
            nodes.GroupCombine, "combine_group", key=None, call=user_function(function, "combine", "combine_group")
        )

    def aggregate(self, aggregation: Aggregations, field: int | str) -> AggregateDataSet:
        """Aggregate a field over all records; ``and_`` adds further fields."""
        return AggregateDataSet(self, None, ((aggregation, field),))

    def sum(self, field: int | str) -> AggregateDataSet:
        """Add up a field over all records."""
        return self.aggregate(Aggregations.SUM, field)

    def min(self, field: int | str) -> AggregateDataSet:
        """Find the least value of a field."""
        return self.aggregate(Aggregations.MIN, field)

    def max(self, field: int | str) -> AggregateDataSet:
        """Find the greatest value of a field."""
        return self.aggregate(Aggregations.MAX, field)

    def min_by(self, *fields: int | str) -> DataSet:
        """Find the record whose fields are least, the first field first."""
        return self._extreme(fields, False, None)

    def max_by(self, *fields: int | str) -> DataSet:
        """Find the record whose fields are greatest, the first field first."""
        return self._extreme(fields, True, None)

    def _extreme(self, fields: tuple[int | str, ...], greatest: bool, key: Key | None) -> DataSet:
        name = "max_by" if greatest else "min_by"
        if not fields:
            raise InvalidProgram(f"{name}() got no field. Give one field or more.")
        call = DataSetFunction(Extreme(make_paths(fields, self._current.type, name), greatest, name))
        return self._reduced(call, name, key)

    def _reduced(self, call: DataSetFunction, name: str, key: Key | None, hint: CombineHint | None = None) -> DataSet:
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

    def distinct(self, *key: Any) -> DataSet:
        """Keep one record per key, an arbitrary one; without a key, one of equal records.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> sorted(env.from_elements(3, 1, 3).distinct().collect())
        [1, 3]
        """
        made = make_key(key or ("*",), self._current.type, "distinct")
        return self._reduced(DataSetFunction(KeepFirst()), "distinct", made)

    def first(self, n: int) -> DataSet:
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

    def rebalance(self) -> DataSet:
        """Spread the records evenly over the tasks."""
        return self._partition("rebalance", nodes.PartitionMethod.REBALANCE)

    def partition_by_hash(self, *key: Any) -> DataSet:
        """Bring records with equal keys to the same task."""
        made = make_key(key, self._current.type, "partition_by_hash")
        return self._partition("partition_by_hash", nodes.PartitionMethod.HASH, key=made)

    def partition_by_range(self, *key: Any, descending: bool | Iterable[bool] = False) -> DataSet:
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

    def partition_custom(self, partitioner: Any, *key: Any) -> DataSet:
        """Bring each record to the task ``partitioner(key, number of tasks)``; the key is one field, or one function."""
        made = make_key(key, self._current.type, "partition_custom")
        if len(made.paths) > 1:
            raise InvalidProgram(
                f"partition_custom() takes one key field, but got {made}. Use a key function for several."
            )
        call = user_function(partitioner, "partition", "partition_custom")
        return self._partition("partition_custom", nodes.PartitionMethod.CUSTOM, key=made, partitioner=call)

    def _partition(self, name: str, method: nodes.PartitionMethod, **fields: Any) -> DataSet:
        return self._derive(
            nodes.Partition, name, method=method, type=self._current.type, forwarded=ALL_FORWARDED, **fields
        )

    def sort_partition(self, field: Any, descending: bool = False) -> SortedDataSet:
        """Sort the records of each task by a field; a further ``sort_partition`` adds a field of less weight."""
        return SortedDataSet(self, (self._sort_field(field, descending, "sort_partition"),))

    def _sort_field(self, field: Any, descending: bool, operator: str) -> SortField:
        made = make_key((field,), self._current.type, operator)
        return SortField(made.paths[0] if made.paths else (), descending, made.selector)

    # ---- numbering and samples

    def zip_with_index(self) -> DataSet:
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

    def zip_with_unique_id(self) -> DataSet:
        """Pair each record with a number of its own, ``(id, record)``; in one pass, and not dense."""
        return self._apply(
            Kind.MAP_PARTITION,
            DataSetFunction(UniqueIds(), "map_partition", True),
            "zip_with_unique_id",
            tuple_of(RecordType("int"), self._current.type),
            Forwarded([(0, (), (1,))]),
        )

    def count_elements_per_partition(self) -> DataSet:
        """Emit ``(task, number of its records)`` for every task."""
        call = DataSetFunction(CountPartition(), "map_partition", True)
        return self._apply(Kind.MAP_PARTITION, call, "count_elements_per_partition")

    def sample(self, with_replacement: bool, fraction: float, seed: int | None = None) -> DataSet:
        """Keep a random part of the records; with a seed, always the same one for the same partitions."""
        call = DataSetFunction(sampler(with_replacement, fraction, seed), "map_partition", True)
        return self._apply(Kind.MAP_PARTITION, call, "sample", self._current.type, ALL_FORWARDED)

    def sample_with_size(self, with_replacement: bool, size: int, seed: int | None = None) -> DataSet:
        """Keep exactly ``size`` random records (fewer only if there are fewer, and none is drawn twice)."""
        draw, merge = sampler_with_size(with_replacement, size, seed)
        drawn = self._apply(Kind.MAP_PARTITION, DataSetFunction(draw, "map_partition", True), "sample")
        return drawn._derive(
            nodes.GroupReduce, "sample_with_size", key=None, call=DataSetFunction(merge), type=self._current.type
        )

    def run_operation(self, operation: Any) -> Any:
        """Let a library build on this data set: return ``operation.create_result(self)``, or ``operation(self)``."""
        create = getattr(operation, "create_result", operation)
        return create(self)

    # ---- results

    def count(self) -> int:
        """Execute the program and return the number of records."""
        counts = self._apply(Kind.MAP_PARTITION, DataSetFunction(CountPartition(), "map_partition", True), "count")
        return sum(count for _, count in counts.collect())


class SortedDataSet(DataSet):
    """A data set whose partitions are sorted; ``sort_partition`` adds a field to the order.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=1)
    >>> env.from_elements((2, 1), (1, 1), (1, 2)).sort_partition(0).sort_partition(1, descending=True).collect()
    [(1, 2), (1, 1), (2, 1)]
    """

    def __init__(self, data_set: DataSet, ordering: tuple[SortField, ...]) -> None:
        node = data_set._node(
            nodes.SortPartition,
            "sort_partition",
            ordering=ordering,
            type=data_set._current.type,
            forwarded=ALL_FORWARDED,
        )
        super().__init__(data_set._environment, node)

    def sort_partition(self, field: Any, descending: bool = False) -> SortedDataSet:
        """Sort what is equal so far by a further field."""
        node = self._current
        assert isinstance(node, nodes.SortPartition)
        made = self._sort_field(field, descending, "sort_partition")
        if made.selector or node.ordering[0].selector:
            raise InvalidProgram(
                "sort_partition() with a key function cannot be chained. Return a tuple from one function, or name fields."
            )
        return self._change("sort_partition", ordering=(*node.ordering, made))


class AggregateDataSet(DataSet):
    """The result of ``aggregate``; ``and_`` aggregates a further field in the same pass.

    >>> from funken.dataset import Aggregations, ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> env.from_elements((1, 5), (2, 3)).max(0).and_(Aggregations.MIN, 1).collect()
    [(2, 3)]
    """

    def __init__(self, data_set: DataSet, key: Key | None, parts: tuple[tuple[Aggregations, int | str], ...]) -> None:
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

    def and_(self, aggregation: Aggregations, field: int | str) -> AggregateDataSet:
        """Aggregate a further field of the same records."""
        if self._read_by:
            self._change("and_")
        return AggregateDataSet(self._input, self._key, (*self._parts, (aggregation, field)))
