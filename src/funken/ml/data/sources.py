"""``BlockSet``: blocks of a ``DataSet``, whatever they were made of, and what is done to all of them in one pass.

PartialResult results are merged in the order of the tasks, so that a repeated run gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from funken import DataStream
from funken.dataset import DataSet, ExecutionEnvironment, MapPartitionFunction
from funken.errors import InvalidProgram
from funken.ml.data.blocks import BLOCK_ROWS, FeatureBlock, FieldLayout, blocks_of
from funken.ml.data.demands import ANYTHING, Demands, FieldName
from funken.ml.data.frames import ParquetBlocks, is_frame

S = TypeVar("S")


def is_distributed(data: Any) -> bool:
    """Whether data is a ``DataSet``, a ``DataStream``, a Spark ``DataFrame`` or blocks of one; else it is an array.

    >>> is_distributed([[1.0]])
    False
    """
    return isinstance(data, DataSet | DataStream | BlockSet) or is_frame(data)


class BlockSet:
    """Feature blocks in the tasks of an environment.

    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> blocks = BlockSet.of(env.from_elements((1.0, 2.0, "a"), (3.0, 4.0, "b")), y=2)
    >>> blocks.fields
    (0, 1)
    >>> blocks.aggregate(lambda block: block.X.sum(axis=0), lambda a, b: a + b)
    array([4., 6.])
    """

    def __init__(self, data_set: DataSet, fields: tuple[FieldName, ...] | None = None, labelled: bool = False) -> None:
        self.data_set = data_set
        self.fields = fields
        self.labelled = labelled

    @staticmethod
    def of(
        data: Any,
        y: FieldName | None = None,
        sample_weight: FieldName | None = None,
        features: Iterable[FieldName] | None = None,
        demands: Demands = ANYTHING,
    ) -> BlockSet:
        """Make blocks of data that ``is_distributed``; ``y``, ``sample_weight`` and ``features`` name fields.

        Records that do not meet the demands are refused.
        """
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None and not isinstance(value, str | int):
                raise InvalidProgram(
                    f"fit(): {name} of a data set, stream or DataFrame is the name or position of a field, but got "
                    f"{type(value).__name__}. Put the values into the records."
                )
        if isinstance(data, BlockSet):
            return data
        asked = FieldLayout(None if features is None else tuple(features), y, sample_weight)
        if is_frame(data):
            read = ParquetBlocks.of(data, asked, demands)
            env = ExecutionEnvironment.get_execution_environment(spark=data.sparkSession)
            return BlockSet(env.create_input(read), read.layout.features, y is not None)
        if isinstance(data, DataStream):
            env = ExecutionEnvironment.create_local_environment(parallelism=1)
            data = env.from_data_stream(data)
        first = data.first(1).collect()
        if not first:
            raise InvalidProgram("fit(): the data has no record. Give one or more.")
        layout = asked.resolve(first[0], demands.caller)
        if features is None and demands.total is None and isinstance(first[0], dict | list | tuple):
            demands = replace(demands, names=len(first[0]) if layout.features is not None else None)
        cut = Cut(layout, layout.demands(first[0], demands))
        return BlockSet(data.map_partition(cut), layout.features, y is not None)

    @staticmethod
    def of_arrays(X: Any, y: Any = None, w: Any = None, parallelism: int = 1, rows: int = BLOCK_ROWS) -> BlockSet:
        """Make blocks of arrays, in this process.

        >>> BlockSet.of_arrays(np.ones((5, 2)), rows=2).data_set.map(len).collect()
        [2, 2, 1]
        """
        env = ExecutionEnvironment.create_local_environment(parallelism)
        cut = [slice(at, at + rows) for at in range(0, X.shape[0], rows)]
        made = [FeatureBlock(X[at], None if y is None else y[at], None if w is None else w[at]) for at in cut]
        return BlockSet(env.from_collection(made), None, y is not None)

    @property
    def parallelism(self) -> int:
        """Return the number of tasks."""
        return self.data_set.get_execution_environment().get_parallelism()

    def map(self, function: Callable[[FeatureBlock], FeatureBlock]) -> BlockSet:
        """Return the blocks that the function makes."""
        return BlockSet(self.data_set.map(function), self.fields, self.labelled)

    def transformed(self, transform: Callable[[Any], Any]) -> BlockSet:
        """Return the blocks with other features."""
        return self.map(Features(transform))

    def aggregate(self, local: Callable[[FeatureBlock], S], merge: Callable[[S, S], S]) -> S:
        """Return what ``merge`` makes of the results of ``local`` for all blocks: first in each task, then over the tasks."""
        parts = self.data_set.map_partition(PartialResult(local, merge)).collect()
        if not parts:
            raise InvalidProgram("fit(): the data has no record. Give one or more.")
        found: S = reduce(merge, (value for _, value in sorted(parts, key=lambda part: part[0])))
        return found

    def gather(self) -> FeatureBlock:
        """Return all rows as one block, in this process."""
        parts = self.aggregate(lambda block: [block], lambda a, b: a + b)
        return concatenated(parts)


class Cut(MapPartitionFunction):
    """Makes blocks of the records of a partition."""

    block_records = 4  # each has thousands of rows

    def __init__(self, layout: FieldLayout, demands: Demands) -> None:
        self._layout, self._demands = layout, demands

    def map_partition(self, values: Iterable[Any]) -> Iterator[FeatureBlock]:
        """Cut."""
        return blocks_of(values, self._layout, self._demands)


class Features:
    """Changes the features of a block."""

    def __init__(self, transform: Callable[[Any], Any]) -> None:
        self._transform = transform

    def __call__(self, block: FeatureBlock) -> FeatureBlock:
        """Transform."""
        return FeatureBlock(self._transform(block.X), block.y, block.w)


class PartialResult(MapPartitionFunction):
    """Merges what a function gives for the blocks of a task."""

    def __init__(self, local: Callable[[FeatureBlock], Any], merge: Callable[[Any, Any], Any]) -> None:
        self._local, self._merge = local, merge

    def open(self, runtime_context: Any) -> None:
        """Find the task."""
        self._task = runtime_context.get_index_of_this_subtask()

    def map_partition(self, values: Iterable[FeatureBlock]) -> Iterator[Any]:
        """Yield the task and its result; nothing if it has no block."""
        found = None
        for block in values:
            part = self._local(block)
            found = part if found is None else self._merge(found, part)
        if found is not None:
            yield self._task, found


def concatenated(blocks: list[FeatureBlock]) -> FeatureBlock:
    """Return the rows of all blocks as one."""
    from scipy import sparse  # noqa: PLC0415 - slow to load

    sparse_rows = sparse.issparse(blocks[0].X)
    X = sparse.vstack([b.X for b in blocks], format="csr") if sparse_rows else np.concatenate([b.X for b in blocks])
    y = None if blocks[0].y is None else np.concatenate([block.y for block in blocks])
    w = None if blocks[0].w is None else np.concatenate([block.w for block in blocks])
    return FeatureBlock(X, y, w)
