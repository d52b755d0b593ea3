"""The DataSet API: batch programs, planned by cost and run on a bounded memory.

May import everything but ``cli``, ``testing`` and ``compat``; of the streaming engine it uses keys, clock, messages and pickling,
and ``spark`` in ``dataset.cluster`` only.

>>> from funken.dataset import ExecutionEnvironment
>>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
>>> words = env.from_elements("to be or not to be").flat_map(str.split)
>>> sorted(words.map(lambda word: (word, 1)).group_by(0).sum(1).collect())
[('be', 2), ('not', 1), ('or', 1), ('to', 2)]
"""

from funken.api.jobs.notebook import (
    BatchProgress,
    IterationProgress,
    OperatorProgress,
    SuperstepProgress,
    show_progress,
    watch_batch_jobs,
)
from funken.dataset.api.aggregations import Aggregations
from funken.dataset.api.dataset import AggregateDataSet, DataSet, DataSink, GroupedDataSet, SortedDataSet
from funken.dataset.api.environment import DataSetResult, ExecutionEnvironment
from funken.dataset.api.iterations import DeltaIteration, IterativeDataSet
from funken.dataset.api.two_inputs import CoGroupDataSet, CrossDataSet, JoinDataSet
from funken.dataset.api.utils import ChecksumHashCode, ColumnSummary, DataSetUtils
from funken.dataset.formats.inputs import InputFormat
from funken.dataset.formats.outputs import DiscardingOutput, OutputFormat, WriteMode
from funken.dataset.plan.functions import (
    CrossFunction,
    GroupCombineFunction,
    GroupReduceFunction,
    MapPartitionFunction,
)
from funken.dataset.plan.nodes import CombineHint, JoinHint
from funken.dataset.runtime.context import (
    Accumulator,
    Aggregator,
    AverageAccumulator,
    DataSetRuntimeContext,
    DoubleCounter,
    Histogram,
    IntCounter,
    ListAccumulator,
    LongCounter,
    MaxAccumulator,
    MinAccumulator,
)
from funken.dataset.runtime.iterations import (
    DoubleSumAggregator,
    LongSumAggregator,
    MaxAggregator,
    MinAggregator,
)

__all__ = [
    "Accumulator",
    "AggregateDataSet",
    "Aggregations",
    "Aggregator",
    "AverageAccumulator",
    "BatchProgress",
    "ChecksumHashCode",
    "CoGroupDataSet",
    "ColumnSummary",
    "CombineHint",
    "CrossDataSet",
    "CrossFunction",
    "DataSet",
    "DataSetResult",
    "DataSetRuntimeContext",
    "DataSetUtils",
    "DataSink",
    "DeltaIteration",
    "DiscardingOutput",
    "DoubleCounter",
    "DoubleSumAggregator",
    "ExecutionEnvironment",
    "GroupCombineFunction",
    "GroupReduceFunction",
    "GroupedDataSet",
    "Histogram",
    "InputFormat",
    "IntCounter",
    "IterationProgress",
    "IterativeDataSet",
    "JoinDataSet",
    "JoinHint",
    "ListAccumulator",
    "LongCounter",
    "LongSumAggregator",
    "MapPartitionFunction",
    "MaxAccumulator",
    "MaxAggregator",
    "MinAccumulator",
    "MinAggregator",
    "OperatorProgress",
    "OutputFormat",
    "SortedDataSet",
    "SuperstepProgress",
    "WriteMode",
    "show_progress",
    "watch_batch_jobs",
]
