"""Programs for PyFlink 1.x: what they import, set and call is there, and says what has taken its place."""

import sqlite3
from contextlib import closing

import pytest
from pyflink.common import (
    DeserializationSchema,
    Duration,
    RestartStrategies,
    Row,
    SimpleStringSchema,
    Types,
    WatermarkStrategy,
)
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    CheckpointConfig,
    ExternalizedCheckpointCleanup,
    ExternalizedCheckpointRetention,
    FsStateBackend,
    MemoryStateBackend,
    RocksDBStateBackend,
    StreamExecutionEnvironment,
    TimeCharacteristic,
)
from pyflink.datastream.checkpoint_storage import FileSystemCheckpointStorage, JobManagerCheckpointStorage
from pyflink.datastream.connectors import FlinkKafkaConsumer, FlinkKafkaProducer
from pyflink.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from pyflink.datastream.connectors.kafka import KafkaOffsetResetStrategy, KafkaOffsetsInitializer, Semantic
from pyflink.datastream.formats.csv import CsvRowDeserializationSchema
from pyflink.datastream.formats.json import JsonRowDeserializationSchema
from pyflink.datastream.functions import IN, KEY, OUT, KeyedProcessFunction, ProcessWindowFunction, ValueStateDescriptor
from pyflink.datastream.window import Time, TumblingEventTimeWindows
from pyflink.table import EnvironmentSettings, StreamTableEnvironment, TableConfig

import funken.compat.pyflink
from funken.errors import InvalidConfiguration, InvalidProgram

assert funken.compat.pyflink
old = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def env():
    return StreamExecutionEnvironment.create_local_environment(1)


def options(env):
    return env.get_configuration().to_dict()


def test_names_come_from_the_modules_that_import_them():
    class Count(KeyedProcessFunction[KEY, IN, OUT]):
        pass

    assert issubclass(Count, KeyedProcessFunction)
    assert TumblingEventTimeWindows.of(Time.seconds(5)).size == 5000
    assert ValueStateDescriptor("x", None).get_name() == "x"
    with pytest.raises(ImportError, match="Did you mean 'pyflink.datastream.window.Time'"):
        from pyflink.datastream.window import Tim  # noqa: F401


@old
def test_names_of_1_12_to_1_18_are_there(env, tmp_path):
    from pyflink.common.serialization import SimpleStringEncoder
    from pyflink.common.serializer import VoidNamespaceSerializer, void

    assert SimpleStringEncoder().encode(["a"]) == b"a\n"
    assert VoidNamespaceSerializer().deserialize(None) == void == b""
    assert env.get_checkpoint_config().set_prefer_checkpoint_for_recovery(True) is not None
    assert TableConfig().set_null_check(True).set_decimal_context(None) is not None


class Summed(ProcessWindowFunction):
    def process(self, key, content, elements):
        yield sum(elements)


def test_parameters_of_1_13_to_1_15_have_their_names(env):
    numbers = env.from_collection([1, 2], Types.INT())
    keyed = numbers.key_by(lambda n: "all", key_type_info=Types.STRING())
    twice = keyed.flat_map(lambda n: [n, n], result_type=Types.INT()).key_by(str, key_type_info=Types.STRING())
    assert twice.count_window(2).process(Summed(), result_type=Types.LONG()).execute_and_collect(limit=2) == [2, 4]
    joined = numbers.connect(numbers).key_by(str, str, key_type_info=Types.STRING())
    assert joined is not None


@old
def test_settings_came_third_until_1_14(env):
    settings = EnvironmentSettings.new_instance().in_streaming_mode().use_blink_planner().build()
    tables = StreamTableEnvironment.create(env, TableConfig().set("my.key", "1"), settings)
    assert tables.get_config().get("my.key", "") == "1"
    tables.create_temporary_view("numbers", table=tables.from_elements([(1,)], ["n"]))
    tables.execute_sql("CREATE TABLE sink (n BIGINT) WITH ('connector' = 'blackhole')")
    tables.from_path("numbers").execute_insert(table_path="sink").wait()


def test_a_module_is_not_taken_for_what_it_contains():
    from pyflink.table import udf

    assert udf.udf is not udf


def test_the_folder_of_checkpoints_is_set_as_before(env):
    config = env.get_checkpoint_config()
    with pytest.warns(DeprecationWarning, match="set execution.checkpointing.dir"):
        assert config.set_checkpoint_storage_dir("file:///a") is config
    assert options(env)["execution.checkpointing.dir"] == "file:///a"
    with pytest.warns(DeprecationWarning):
        config.set_checkpoint_storage(FileSystemCheckpointStorage("file:///b"))
    assert config.get_checkpoint_storage().get_checkpoint_path() == "file:///b"
    with pytest.warns(DeprecationWarning):
        config.set_checkpoint_storage(JobManagerCheckpointStorage())
    assert options(env)["execution.checkpointing.dir"] == "file:///b"


@old
def test_checkpoints_are_kept_or_deleted_as_before(env):
    config: CheckpointConfig = env.get_checkpoint_config()
    config.enable_externalized_checkpoints(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)

    assert config.get_externalized_checkpoint_cleanup() is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    config.set_externalized_checkpoint_cleanup(ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION)
    assert options(env)["execution.checkpointing.externalized-checkpoint-retention"].upper() == "DELETE_ON_CANCELLATION"
    assert config.get_checkpoint_timeout() == CheckpointConfig.DEFAULT_TIMEOUT


@old
@pytest.mark.parametrize(
    ("backend", "wanted"),
    [
        (MemoryStateBackend(), {"state.backend.type": "hashmap"}),
        (MemoryStateBackend("file:///c", "file:///s"), {
            "state.backend.type": "hashmap", "execution.checkpointing.dir": "file:///c",
            "execution.checkpointing.savepoint-dir": "file:///s",
        }),
        (FsStateBackend("file:///c"), {"state.backend.type": "hashmap", "execution.checkpointing.dir": "file:///c"}),
        (RocksDBStateBackend("file:///c", True), {
            "state.backend.type": "rocksdb", "execution.checkpointing.dir": "file:///c",
            "execution.checkpointing.incremental": True,
        }),
        (RocksDBStateBackend(checkpoint_stream_backend=FsStateBackend("file:///d")), {
            "state.backend.type": "rocksdb", "execution.checkpointing.dir": "file:///d",
        }),
    ],
)  # fmt: skip
def test_state_backends_set_what_they_say(env, backend, wanted):
    env.set_state_backend(backend)

    assert {key: value for key, value in options(env).items() if key in wanted} == wanted
    assert env.get_state_backend() is backend


@old
def test_the_older_settings_of_a_job(env):
    config = env.get_config()
    config.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 1000))

    assert options(env)["restart-strategy.type"] == "fixed-delay"
    assert config.get_restart_strategy().get_restart_attempts() == 3
    assert config.is_auto_type_registration_disabled() is False
    assert config.disable_auto_type_registration().is_auto_type_registration_disabled() is True


BAD = {
    "an interval of 5 ms": lambda env: env.enable_checkpointing(5),
    "no interval": lambda env: env.get_checkpoint_config().set_checkpoint_interval(0),
    "a timeout of 9 ms": lambda env: env.get_checkpoint_config().set_checkpoint_timeout(Duration.of_millis(9)),
    "a negative pause": lambda env: env.get_checkpoint_config().set_min_pause_between_checkpoints(-1),
    "no checkpoint at a time": lambda env: env.get_checkpoint_config().set_max_concurrent_checkpoints(0),
    "fewer than no failures": lambda env: env.get_checkpoint_config().set_tolerable_checkpoint_failure_number(-1),
    "no key groups": lambda env: env.set_max_parallelism(0),
    "too many key groups": lambda env: env.set_max_parallelism(32_769),
    "a negative watermark interval": lambda env: env.get_config().set_auto_watermark_interval(-1),
    "a negative buffer timeout": lambda env: env.set_buffer_timeout(-2),
    "no subtasks": lambda env: env.set_parallelism(0),
    "a negative disorder": lambda env: WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(-1)),
}


@pytest.mark.parametrize("name", BAD)
def test_values_that_flink_refuses_are_refused(env, name):
    before = dict(options(env))
    with pytest.raises((InvalidConfiguration, InvalidProgram, ValueError)):
        BAD[name](env)
    assert options(env) == before


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


@old
def test_windows_go_by_the_time_of_the_environment(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(At())
    times = env.from_collection([1, 5, 12]).assign_timestamps_and_watermarks(strategy)

    def total(a, b):
        return a + b

    assert times.key_by(lambda n: 0).time_window(Time.milliseconds(10)).reduce(total).execute_and_collect(limit=2) == [
        6,
        12,
    ]
    sliding = times.time_window_all("10 ms", "5 ms").reduce(total)
    assert list(sliding.execute_and_collect()) == [1, 6, 17, 12]
    env.set_stream_time_characteristic(TimeCharacteristic.ProcessingTime)
    windowed = times.key_by(lambda n: 0).time_window(Time.seconds(1))
    assert type(windowed._assigner).__name__ == "TumblingProcessingTimeWindows"


# ---- connectors

SERVERS = {"bootstrap.servers": "host:9092"}


ITEMS = Types.ROW_NAMED(["item", "n"], [Types.STRING(), Types.INT()])


class Plain(DeserializationSchema):
    def deserialize(self, message):
        return message


def spec_of(env, name):
    return next(node.spec for node in env.graph if name in (node.name, node.kind))


@pytest.mark.parametrize(
    ("properties", "starting"),
    [
        ({}, KafkaOffsetsInitializer.latest()),
        ({"auto.offset.reset": "earliest"}, KafkaOffsetsInitializer.earliest()),
        ({"group.id": "g"}, KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.LATEST)),
        ({"group.id": "g", "auto.offset.reset": "earliest"},
         KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST)),
    ],
)  # fmt: skip
def test_the_older_consumer_runs_as_a_source(env, properties, starting):
    properties |= SERVERS | {"key.deserializer": "org.apache.kafka.StringDeserializer", "client.rack": "r1"}
    with pytest.warns(DeprecationWarning, match="runs as a KafkaSource") as given:
        consumer = FlinkKafkaConsumer("orders", SimpleStringSchema(), properties)
    assert given[0].filename == __file__
    env.add_source(consumer, "orders").map(str.upper)

    source = spec_of(env, "orders").source
    assert (source.servers, source.subscription.topics, source.starting) == ("host:9092", ("orders",), starting)
    assert "key.deserializer" not in source.properties
    assert source.properties["client.rack"] == "r1"


@pytest.mark.parametrize(
    ("schema", "columns"),
    [
        (SimpleStringSchema(), ["f0 STRING"]),
        (
            JsonRowDeserializationSchema.builder().type_info(ITEMS).ignore_parse_errors().build(),
            ["item STRING", "n INT"],
        ),
        (CsvRowDeserializationSchema.Builder(ITEMS).build(), ["item STRING", "n INT"]),
        (Plain(), ["f0 RAW('object', ?)"]),
    ],
)
@old
def test_streams_of_a_topic_have_the_type_of_their_schema(env, schema, columns):
    from pyflink.datastream.connectors.kafka import KafkaSource
    from pyflink.table import StreamTableEnvironment

    t_env = StreamTableEnvironment.create(env)
    builder = KafkaSource.builder().set_bootstrap_servers("host:9092").set_topics("orders")
    source = builder.set_value_only_deserializer(schema).build()
    for stream in (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "orders"),
        env.add_source(FlinkKafkaConsumer("orders", schema, SERVERS)),
    ):
        row_type = t_env.from_data_stream(stream).plan.row_type
        assert [f"{name} {type_}" for name, type_ in zip(row_type.names, row_type.types, strict=True)] == columns
    declared = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders", Types.ROW([Types.STRING()]))
    assert t_env.from_data_stream(declared).plan.row_type.names == ("f0",)


@old
def test_the_older_consumer_is_told_where_to_begin():
    consumer = FlinkKafkaConsumer(topics=["a", "b"], deserialization_schema=SimpleStringSchema(), properties=SERVERS)

    assert consumer.set_start_from_timestamp(5).as_source().starting == KafkaOffsetsInitializer.timestamp(5)
    assert consumer.set_start_from_earliest().as_source().starting == KafkaOffsetsInitializer.earliest()
    assert consumer.set_start_from_group_offsets().as_source().starting == KafkaOffsetsInitializer.latest()
    assert consumer.as_source().commits_offsets is False
    with pytest.raises(InvalidConfiguration, match="no brokers"):
        FlinkKafkaConsumer("a", SimpleStringSchema(), {}).as_source()


@old
@pytest.mark.parametrize("semantic", Semantic)
def test_the_older_producer_runs_as_a_sink(env, semantic):
    producer = FlinkKafkaProducer("totals", SimpleStringSchema(), SERVERS | {"acks": "all"}, semantic=semantic)
    env.from_collection(["a"], Types.STRING()).add_sink(producer).name("out")

    sink = spec_of(env, "out").sink
    assert (sink.servers, sink.guarantee.name) == ("host:9092", semantic.name)
    assert producer.set_flush_on_checkpoint(False).as_sink().guarantee.name == "NONE"


def of_sqlite(path):
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    builder.with_url(f"jdbc:sqlite:{path}").with_driver_name("org.sqlite.JDBC").with_user_name("ada").with_password(
        "secret"
    )
    return builder.build()


def test_rows_are_written_by_the_statement_of_the_program(env, tmp_path):
    of_sales = Types.ROW_NAMED(["id", "item", "price"], [Types.INT(), Types.STRING(), Types.DOUBLE()])
    statement = "insert into sales (id, item, price, note) values (?, ?, ?, 'why?')"
    with closing(sqlite3.connect(tmp_path / "shop.db")) as db:
        db.execute("create table sales (id, item, price, note)")
        options = (
            JdbcExecutionOptions.builder().with_batch_size(2).with_batch_interval_ms(200).with_max_retries(5).build()
        )
        rows = env.from_collection([(1, "tea", 3.0), (2, "jam", 5.0), Row(3, "oat", 2.0)], type_info=of_sales)
        rows.add_sink(JdbcSink.sink(statement, of_sales, of_sqlite(tmp_path / "shop.db"), options))
        env.execute("sales")

        assert db.execute("select * from sales order by id").fetchall() == [
            (1, "tea", 3.0, "why?"), (2, "jam", 5.0, "why?"), (3, "oat", 2.0, "why?"),
        ]  # fmt: skip


def test_a_statement_that_cannot_run_is_refused_early(env, tmp_path):
    of_sales = Types.ROW([Types.INT(), Types.STRING()])
    options = of_sqlite(tmp_path / "shop.db")
    sqlite3.connect(tmp_path / "shop.db").close()
    assert "secret" not in repr(options)
    with pytest.raises(InvalidConfiguration, match="has 1 parameters .*, but its type 2 fields"):
        JdbcSink.sink("insert into sales values (?, 'what?')", of_sales, options)
    env.from_collection([(1, "a")], of_sales).add_sink(
        JdbcSink.sink("insert into sales values (?, ?)", of_sales, options)
    )
    with pytest.raises(Exception, match="table 'sales' cannot be written: .*no such table"):
        env.execute()


@pytest.mark.parametrize(
    ("url", "database"),
    [
        ("jdbc:postgresql://h:1/db?sslmode=require", "PostgresDatabase"),
        ("jdbc:mysql://h/db?useSSL=false", "EngineDatabase"),
        ("jdbc:sqlite:/tmp/x.db", "SqliteDatabase"),
    ],
)
def test_a_jdbc_url_names_a_database(url, database):
    assert type(JdbcConnectionOptions(url, user_name="a", password="p:@/").database()).__name__ == database


def test_a_url_of_another_database_says_what_to_use():
    with pytest.raises(InvalidConfiguration, match="SqlSink and an EngineDatabase"):
        JdbcConnectionOptions("jdbc:oracle:thin:@h:1521:db").build()


def test_marks_are_those_of_the_driver():
    of = Types.ROW([Types.INT(), Types.STRING()])
    options = JdbcConnectionOptions("jdbc:postgresql://h/db")
    sink = JdbcSink.sink("insert into t values (?, ? || '50%?')", of, options)
    assert sink._marked() == "insert into t values (%s, %s || '50%%?')"


@pytest.mark.parametrize(
    ("jar", "instead"),
    [
        ("file:///opt/flink-sql-connector-kafka-3.0.2-1.18.jar", "KafkaSource and KafkaSink"),
        ("flink-connector-jdbc-3.1.jar", "JdbcSink"),
        ("flink-sql-connector-postgres-cdc-2.4.jar", "funken.connectors.postgresql"),
        ("flink-sql-connector-oracle-cdc-2.4.jar", "Funken has no connector for it"),
        ("flink-sql-connector-mysql-cdc-2.4.jar", "funken.connectors.mysql"),
        ("flink-connector-pulsar-4.0.jar", "PulsarSource and PulsarSink"),
        ("flink-sql-connector-mongodb-1.2.jar", "funken.connectors.mongodb"),
        ("flink-connector-cassandra-3.2.jar", "Funken has no connector for it"),
        ("flink-csv-1.17.jar", "Funken's own format"),
    ],
)
def test_the_jar_of_a_connector_gets_a_line(env, jar, instead):
    with pytest.warns(UserWarning, match=instead) as given:
        env.add_jars(jar)
    assert given[0].filename == __file__


def test_other_jars_get_none(env, recwarn):
    env.add_jars("file:///opt/my-functions.jar")
    assert not recwarn.list


@pytest.mark.parametrize(("cursor", "bounded"), [("latest", True), ("never", False), ("default_stop_cursor", False)])
def test_a_bounded_source_of_pulsar_that_never_stops_is_unbounded(cursor, bounded):
    from pyflink.common.serialization import SimpleStringSchema
    from pyflink.datastream.connectors.pulsar import PulsarSource, StopCursor

    builder = PulsarSource.builder().set_service_url("pulsar://localhost:6650").set_topics("orders")
    builder.set_subscription_name("totals").set_deserialization_schema(SimpleStringSchema())
    source = builder.set_bounded_stop_cursor(getattr(StopCursor, cursor)()).build()
    assert source.bounded is bounded


def test_a_function_is_tested_by_itself():
    from pyflink.table.udf import ScalarFunction, udf

    class Twice(ScalarFunction):
        def eval(self, number):
            return 2 * number

    assert udf(lambda one, other: one + other, result_type="BIGINT")._func(1, 2) == 3
    assert udf(Twice(), result_type="BIGINT")._func.eval(4) == 8


def test_functions_of_1_12_fill_collectors():
    from pyflink.datastream import KeyedProcessFunction, ProcessFunction

    class Sums(KeyedProcessFunction):
        def open(self, runtime_context):
            self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

        def process_element(self, value, ctx, out):
            self.total.update((self.total.value() or 0) + value[1])
            out.collect((value[0], self.total.value()))
            ctx.timer_service().register_event_time_timer(10)

        def on_timer(self, timestamp, ctx, out):
            out.collect((ctx.get_current_key(), timestamp))

    class Large(ProcessFunction):
        def process_element(self, value, ctx, out):
            if value[1] > 2:
                out.collect(value[1])

    class Now(ProcessFunction):
        def process_element(self, value, ctx, factor=10):
            yield factor * value

    env = StreamExecutionEnvironment.create_local_environment(1)
    pairs = env.from_collection([("a", 1), ("a", 2)])
    with pytest.warns(DeprecationWarning, match="a collector as the last parameter .* yield the results"):
        sums = pairs.key_by(lambda pair: pair[0]).process(Sums())
    with pytest.warns(DeprecationWarning, match="collector"):
        large = sums.process(Large(), output_type=Types.INT())
    assert list(sums.execute_and_collect()) == [("a", 1), ("a", 3), ("a", 10)]
    assert list(large.process(Now()).execute_and_collect()) == [30, 100]


@pytest.mark.parametrize("name", ["DynamicKafkaSource", "SingleClusterTopicMetadataService"])
def test_topics_of_several_clusters_have_a_source_each(name):
    from pyflink.datastream.connectors import dynamic_kafka

    with pytest.raises(NotImplementedError, match=r"each cluster with a KafkaSource, and union\(\) the streams"):
        getattr(dynamic_kafka, name)("cluster", {})
