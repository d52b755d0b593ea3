from funken.api import async_retry_predicates
from funken.api.environment import StreamExecutionEnvironment
from funken.api.functions import (
    AggregateFunction,
    AllWindowFunction,
    BroadcastProcessFunction,
    CheckpointedFunction,
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatJoinFunction,
    FlatMapFunction,
    Function,
    JoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from funken.api.jobs.client import CloseableIterator, JobClient
from funken.api.jobs.notebook import show_progress
from funken.api.jobs.results import JobExecutionResult
from funken.api.options import (
    CheckpointConfig,
    CheckpointingMode,
    ExecutionConfig,
    ExternalizedCheckpointRetention,
    RuntimeExecutionMode,
)
from funken.api.streams.async_io import AsyncDataStream, AsyncFunction, blocking, cached
from funken.api.streams.connected import BroadcastConnectedStream, BroadcastStream, ConnectedStreams, IterativeStream
from funken.api.streams.joins import CoGroupedStreams, IntervalJoin, IntervalJoined, JoinedStreams
from funken.api.streams.keyed import KeyedStream
from funken.api.streams.sinks import DataStreamSink
from funken.api.streams.stream import DataStream
from funken.api.streams.windowed import AllWindowedStream, WindowedStream
from funken.columnar.vectorized.functions import vectorized
from funken.config import Configuration
from funken.connectors.base import Boundedness, Source, SourceReader, SplitEnumerator
from funken.connectors.collection import CollectionSource
from funken.connectors.datagen import DataGeneratorSource, NumberSequenceSource
from funken.connectors.files.line_files import StreamFormat
from funken.connectors.files.part_files import Encoder, OutputFileConfig, RollingPolicy
from funken.connectors.files.sink import BucketAssigner, FileSink
from funken.connectors.files.source import FileSource
from funken.connectors.hybrid import HybridSource, HybridSourceBuilder, SourceSwitchContext
from funken.connectors.sink import DiscardingSink, Sink, SinkWriter
from funken.connectors.sockets import SocketSource
from funken.errors import FunkenError, InvalidProgram, JobCancelled, JobExecutionError, SuppressRestarts
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.metrics.registry import MetricPoint, MetricReporter
from funken.operators.async_io.retry import AsyncRetryPredicate, AsyncRetryStrategy
from funken.operators.base import OutputTag, RuntimeContext
from funken.operators.join import TaggedUnion
from funken.operators.operator_state import FunctionSnapshotContext, OperatorListState, OperatorStateStore
from funken.operators.process.keyed_operator import TimeDomain
from funken.operators.process.one_input import DeadLetter
from funken.runtime.job.snapshot import JobSnapshot
from funken.runtime.job.states import JobStatus
from funken.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from funken.timing.watermarks import TimestampAssigner, WatermarkGenerator, WatermarkOutput, WatermarkStrategy
from funken.types import Row, RowKind, TypeInformation, Types
from funken.windowing.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    MergingWindowAssigner,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from funken.windowing.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor
from funken.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from funken.windowing.windows import CountWindow, GlobalWindow, TimeWindow, Trigger, TriggerResult

__version__: str

__all__ = [
    "MAX_WATERMARK",
    "MIN_TIMESTAMP",
    "AggregateFunction",
    "AggregatingStateDescriptor",
    "AllWindowFunction",
    "AllWindowedStream",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "Boundedness",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "BucketAssigner",
    "CheckpointConfig",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoGroupedStreams",
    "CoMapFunction",
    "CoProcessFunction",
    "CollectionSource",
    "Configuration",
    "ConnectedStreams",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "DataGeneratorSource",
    "DataStream",
    "DataStreamSink",
    "DeadLetter",
    "DeltaEvictor",
    "DeltaTrigger",
    "DiscardingSink",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "Encoder",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "ExecutionConfig",
    "ExternalizedCheckpointRetention",
    "FileSink",
    "FileSource",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "Function",
    "FunctionSnapshotContext",
    "FunkenError",
    "GlobalWindow",
    "GlobalWindows",
    "HybridSource",
    "HybridSourceBuilder",
    "IntervalJoin",
    "IntervalJoined",
    "InvalidProgram",
    "IterativeStream",
    "JobCancelled",
    "JobClient",
    "JobExecutionError",
    "JobExecutionResult",
    "JobSnapshot",
    "JobStatus",
    "JoinFunction",
    "JoinedStreams",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListStateDescriptor",
    "MapFunction",
    "MapStateDescriptor",
    "MergingWindowAssigner",
    "MetricPoint",
    "MetricReporter",
    "NeverTrigger",
    "NumberSequenceSource",
    "OperatorListState",
    "OperatorStateStore",
    "OutputFileConfig",
    "OutputTag",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "ReduceFunction",
    "ReducingStateDescriptor",
    "RollingPolicy",
    "Row",
    "RowKind",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SessionWindowTimeGapExtractor",
    "Sink",
    "SinkWriter",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "SocketSource",
    "Source",
    "SourceReader",
    "SourceSwitchContext",
    "SplitEnumerator",
    "StateTtlConfig",
    "StreamExecutionEnvironment",
    "StreamFormat",
    "SuppressRestarts",
    "TaggedUnion",
    "TimeDomain",
    "TimeEvictor",
    "TimeWindow",
    "TimestampAssigner",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "TypeInformation",
    "Types",
    "ValueStateDescriptor",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
    "async_retry_predicates",
    "blocking",
    "cached",
    "show_progress",
    "vectorized",
]
