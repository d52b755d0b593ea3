"""``GroupedDataSet``: what is done to records with equal keys."""

from __future__ import annotations

from typing import Any

from funken.dataset.api.aggregations import Aggregations, FirstN, group_functions
from funken.dataset.api.dataset import AggregateDataSet, DataSet
from funken.dataset.plan import nodes
from funken.dataset.plan.functions import DataSetFunction, user_function
from funken.dataset.plan.keys import Key, SortField, make_key
from funken.dataset.plan.nodes import CombineHint
from funken.errors import InvalidProgram


class GroupedDataSet:
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

    def __init__(self, data_set: DataSet, key: Key, ordering: tuple[SortField, ...] = ()) -> None:
        self._data_set = data_set
        self._key = key
        self._ordering = ordering

    def sort_group(self, field: Any, descending: bool = False) -> GroupedDataSet:
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

    def reduce(self, function: Any, hint: CombineHint = CombineHint.OPTIMIZER_CHOOSES) -> DataSet:
        """Make one record of each group, two at a time; associative, and the key of the result is the group's."""
        self._unordered("reduce")
        return self._data_set._reduced(user_function(function, "reduce", "reduce"), "reduce", self._key, hint)

    def aggregate(self, aggregation: Aggregations, field: int | str) -> AggregateDataSet:
        """Aggregate a field of each group; ``and_`` adds further fields. Other fields are those of the last record."""
        self._unordered("aggregate")
        return AggregateDataSet(self._data_set, self._key, ((aggregation, field),))

    def sum(self, field: int | str) -> AggregateDataSet:
        """Add up a field of each group."""
        return self.aggregate(Aggregations.SUM, field)

    def min(self, field: int | str) -> AggregateDataSet:
        """Find the least value of a field of each group."""
        return self.aggregate(Aggregations.MIN, field)

    def max(self, field: int | str) -> AggregateDataSet:
        """Find the greatest value of a field of each group."""
        return self.aggregate(Aggregations.MAX, field)

    def min_by(self, *fields: int | str) -> DataSet:
        """Keep the record of each group whose fields are least."""
        self._unordered("min_by")
        return self._data_set._extreme(fields, False, self._key)

    def max_by(self, *fields: int | str) -> DataSet:
        """Keep the record of each group whose fields are greatest."""
        self._unordered("max_by")
        return self._data_set._extreme(fields, True, self._key)

    def reduce_group(self, function: Any, combine: Any = None) -> DataSet:
        """Call the function once per group with an iterable of its records, which is read once.

        ``combine``, or the method ``combine`` of a function object, shrinks the records of a group before they travel.
        """
        call, combiner = group_functions(function, combine)
        return self._data_set._derive(
            nodes.GroupReduce, "reduce_group", key=self._key, call=call, combiner=combiner, ordering=self._ordering
        )

    def combine_group(self, function: Any) -> DataSet:
        """Call the function with records of one key that one task has; a key may come several times."""
        call = user_function(function, "combine", "combine_group")
        return self._data_set._derive(
            nodes.GroupCombine, "combine_group", key=self._key, call=call, ordering=self._ordering
        )

    def first(self, n: int) -> DataSet:
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
