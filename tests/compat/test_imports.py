"""``import pyflink``: what resolves, what is refused, and how it is said."""

import importlib
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from funken.compat.pyflink.adoption import JavaAttribute, NotAvailableYet, NotInFunken
from funken.compat.pyflink.finder import MODULES, PyFlinkFinder, install

# What PyFlink's own ``__all__`` lists promise, by module (those that take part in ordinary jobs).
NAMES = {
    "pyflink.common": "ByteArraySchema CompletableFuture ConfigOption ConfigOptions Configuration DeserializationSchema "
    "Duration Encoder ExecutionConfig Instant JobClient JobExecutionResult JobID JobStatus RestartStrategies Row RowKind "
    "SerializationSchema SimpleStringSchema Time TypeInformation TypeSerializer Types WatermarkStrategy "
    "JsonRowDeserializationSchema CsvRowSerializationSchema",
    "pyflink.common.typeinfo": "TypeInformation Types RowTypeInfo TupleTypeInfo",
    "pyflink.common.watermark_strategy": "TimestampAssigner WatermarkStrategy",
    "pyflink.common.serialization": "Encoder SimpleStringSchema RowFieldExtractorSchema",
    "pyflink.datastream": "AggregateFunction AsyncDataStream AsyncFunction AsyncRetryPredicate AsyncRetryStrategy "
    "BroadcastConnectedStream BroadcastProcessFunction BroadcastStream CheckpointConfig CheckpointStorage "
    "CheckpointingMode CoFlatMapFunction CoMapFunction CoProcessFunction ConnectedStreams CountWindow DataStream "
    "DataStreamSink EmbeddedRocksDBStateBackend ExternalizedCheckpointRetention FileSystemCheckpointStorage "
    "FilterFunction FlatMapFunction GlobalWindow HashMapStateBackend JobManagerCheckpointStorage KeySelector "
    "KeyedBroadcastProcessFunction KeyedCoProcessFunction KeyedProcessFunction KeyedStream MapFunction MemorySize "
    "MergingWindowAssigner OutputTag Partitioner PredefinedOptions ProcessFunction ProcessWindowFunction ReduceFunction "
    "RuntimeContext RuntimeExecutionMode SinkFunction SlotSharingGroup SourceFunction StateBackend "
    "StreamExecutionEnvironment TimeDomain TimeWindow TimerService Trigger TriggerResult Window WindowAssigner "
    "WindowFunction WindowedStream TimeCharacteristic MemoryStateBackend",
    "pyflink.datastream.functions": "AllWindowFunction KeyedStateStore NullByteKeySelector ProcessAllWindowFunction",
    "pyflink.datastream.state": "AggregatingState AggregatingStateDescriptor BroadcastState ListState "
    "ListStateDescriptor MapState MapStateDescriptor ReadOnlyBroadcastState ReducingState ReducingStateDescriptor "
    "StateDescriptor StateTtlConfig ValueState ValueStateDescriptor",
    "pyflink.datastream.window": "ContinuousEventTimeTrigger ContinuousProcessingTimeTrigger CountSlidingWindowAssigner "
    "CountTrigger CountTumblingWindowAssigner DynamicEventTimeSessionWindows EventTimeSessionWindows EventTimeTrigger "
    "GlobalWindows NeverTrigger ProcessingTimeSessionWindows ProcessingTimeTrigger PurgingTrigger "
    "SessionWindowTimeGapExtractor SlidingEventTimeWindows SlidingProcessingTimeWindows TimeWindowSerializer "
    "TumblingEventTimeWindows TumblingProcessingTimeWindows",
    "pyflink.datastream.connectors": "DeliveryGuarantee Sink Source FileSource KafkaSource",
    "pyflink.datastream.connectors.file_system": "BucketAssigner FileSink FileSource OutputFileConfig RollingPolicy "
    "StreamFormat StreamingFileSink",
    "pyflink.datastream.connectors.number_seq": "NumberSequenceSource",
    "pyflink.datastream.connectors.kafka": "KafkaSource KafkaSink KafkaOffsetsInitializer FlinkKafkaConsumer "
    "KafkaRecordSerializationSchema",
    "pyflink.datastream.connectors.jdbc": "JdbcSink JdbcConnectionOptions JdbcExecutionOptions",
    "pyflink.datastream.formats.json": "JsonRowDeserializationSchema JsonRowSerializationSchema",
    "pyflink.datastream.formats.csv": "CsvRowDeserializationSchema CsvReaderFormat CsvSchema",
    "pyflink.table": "DataTypes Row RowKind",
    "pyflink.metrics": "Counter Distribution Meter MetricGroup",
    "pyflink.java_gateway": "get_gateway",
    "pyflink.version": "__version__",
}


@pytest.mark.parametrize("name", MODULES)
def test_every_module_of_the_table_can_be_imported(name):
    module = importlib.import_module(name)

    assert module.__name__ == name
    assert sys.modules[name] is module


@pytest.mark.parametrize("module", NAMES)
def test_the_names_are_there(module):
    found = vars(importlib.import_module(module))

    assert [name for name in NAMES[module].split() if name not in found] == []


def test_submodules_are_attributes_as_of_any_package():
    import pyflink.datastream.window
    from pyflink.datastream import async_retry_predicates

    assert pyflink.datastream.window.TimeWindow(0, 1).end == 1
    assert async_retry_predicates.empty_result_predicate([])


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("pyflink.fn_execution.state_impl", "the insides of PyFlink's workers"),
        ("pyflink.table.serializers", "insides of PyFlink.s workers"),
    ],
)
def test_what_cannot_work_fails_at_import_and_says_what_to_use(module, why):
    with pytest.raises(ImportError, match=why):
        importlib.import_module(module)


def test_the_table_api_is_there_under_its_names():
    from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
    from pyflink.table.expressions import col
    from pyflink.table.types import DataTypes as Same
    from pyflink.table.udf import udf

    assert DataTypes is Same
    assert EnvironmentSettings.in_batch_mode().is_streaming_mode() is False
    assert str(udf(lambda n: n, result_type=DataTypes.INT(), name="same")(col("n"))) == "same(n)"
    assert TableEnvironment.create(EnvironmentSettings.in_streaming_mode()).list_catalogs() == ["default_catalog"]


def test_a_module_that_pyflink_has_not_either_is_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'pyflink.nonsense'"):
        importlib.import_module("pyflink.nonsense")


@pytest.mark.parametrize(
    ("module", "call", "instead"),
    [
        ("pyflink.java_gateway", lambda m: m.get_gateway(), "Use the methods of the environment"),
        ("pyflink.util.java_utils", lambda m: m.get_j_env_configuration(None), r"Use env.get_configuration\(\)"),
        ("pyflink.datastream", lambda m: m.SourceFunction("org.acme.Source"), "subclass of funken.Source"),
        ("pyflink.datastream", lambda m: m.SinkFunction("org.acme.Sink"), r"for_each\(function\)"),
        ("pyflink.datastream", lambda m: m.CustomStateBackend(object()), "leave the state backend out"),
        ("pyflink.common", lambda m: m.WatermarkStrategy(object()), "WatermarkGenerator"),
        ("pyflink.common.io", lambda m: m.InputFormat(object()), "Use the methods"),
    ],
)
def test_java_escape_hatches_fail_when_called(module, call, instead):
    with pytest.raises(NotInFunken, match=instead):
        call(importlib.import_module(module))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("from pyflink.common.serialization import SimpleStringSchemata", "Did you mean 'pyflink.*SimpleStringSchema'"),
        ("from pyflink.datastream.checkpoint_mode import Mode", "Did you mean 'pyflink.datastream.checkpointing_mode'"),
        ("from pyflink.table.types import _to_java_type", "Use the public names of pyflink.table.types"),
        ("import pyflink.quite.elsewhere", "Use the names that Funken's guide to PyFlink lists"),
    ],
)
def test_an_import_that_fails_names_what_is_near(line, message):
    with pytest.raises(ImportError, match=f"Funken knows no such name.*{message}|insides.*{message}"):
        exec(line, {})


def test_modules_have_a_file():
    import pyflink
    import pyflink.datastream

    assert Path(pyflink.__file__).is_file()
    assert Path(pyflink.datastream.__file__).is_file()


def test_java_objects_that_programs_call_have_these_methods(env):
    from pyflink.common import Configuration
    from pyflink.datastream import DataStream
    from pyflink.table import StreamTableEnvironment
    from pyflink.util.java_utils import get_j_env_configuration

    with pytest.warns(DeprecationWarning, match=r"use env.get_configuration\(\)"):
        options = Configuration(j_configuration=get_j_env_configuration(env._j_stream_execution_environment))
    options.set_string("parallelism.default", "3")
    assert env.get_parallelism() == 3
    t_env = StreamTableEnvironment.create(env)
    t_env._j_tenv.getPlanner().getExecEnv().setParallelism(1)
    assert env.get_parallelism() == 1
    with socket.create_server(("localhost", 0)) as server:
        server.settimeout(10)
        with pytest.warns(DeprecationWarning, match="SocketSource"):
            lines = DataStream(env._j_stream_execution_environment.socketTextStream(*server.getsockname()[:2]))
        with lines.map(lambda line: line.upper()).execute_and_collect() as results:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"to be\nor not\n")
            assert list(results) == ["TO BE", "OR NOT"]


def test_other_java_objects_are_missing(env):
    from pyflink.table import StreamTableEnvironment

    assert not hasattr(env, "_j_other")
    assert not hasattr(env._j_stream_execution_environment, "addSource")
    with pytest.raises(JavaAttribute, match=r"_j_tenv.getPlanner\(\).getParser cannot work: There is no JVM"):
        StreamTableEnvironment.create(env)._j_tenv.getPlanner().getParser()
    with pytest.raises(AttributeError, match="'StreamTableEnvironment' object has no attribute 'nonsense'"):
        StreamTableEnvironment.create(env).nonsense  # noqa: B018
    with pytest.raises(NotInFunken, match="FileSource"):
        env.create_input(object())


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("kafka", lambda m: m.DynamicKafkaSource.builder()),
    ],
)
def test_connectors_to_come_say_so_when_used(module, call):
    with pytest.raises(NotAvailableYet, match="not available yet"):
        call(importlib.import_module(f"pyflink.datastream.connectors.{module}"))


def test_kafka_is_described_with_builders_that_change_in_place():
    from pyflink.common.serialization import SimpleStringSchema
    from pyflink.datastream.connectors import DeliveryGuarantee, kafka

    source = kafka.KafkaSource.builder()
    source.set_bootstrap_servers("localhost:9092").set_topics("orders", "returns").set_group_id("till")
    source.set_starting_offsets(kafka.KafkaOffsetsInitializer.latest())
    source.set_value_only_deserializer(SimpleStringSchema())
    serializer = kafka.KafkaRecordSerializationSchema.builder().set_topic("totals")
    serializer.set_value_serialization_schema(SimpleStringSchema())
    sink = kafka.KafkaSink.builder().set_bootstrap_servers("localhost:9092")
    sink.set_record_serializer(serializer.build()).set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    sink.set_transactional_id_prefix("totals")

    assert source.build().subscription.topics == ("orders", "returns")
    assert sink.build().transactional_id_prefix == "totals"


def test_the_hook_is_installed_once():
    before = list(sys.meta_path)
    install()

    assert sys.meta_path == before
    assert sum(isinstance(finder, PyFlinkFinder) for finder in before) == 1


def test_the_hook_does_not_mix_with_pyflink_itself():
    script = "import sys, types; sys.modules['pyflink'] = types.ModuleType('pyflink')\nimport funken.compat.pyflink"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "PyFlink itself was imported already" in done.stderr
