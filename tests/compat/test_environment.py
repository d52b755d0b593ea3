"""The environment, its configuration and its jobs, as PyFlink's users know them."""

import json
import sys
import warnings

import pytest
from pyflink.common import Configuration, Duration, JobStatus, RestartStrategies, Time
from pyflink.common.job_id import JobID
from pyflink.datastream import (
    CheckpointingMode,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointRetention,
    HashMapStateBackend,
    MemorySize,
    SlotSharingGroup,
    StreamExecutionEnvironment,
    TimeCharacteristic,
)
from pyflink.datastream.connectors.file_system import FileSource, OutputFileConfig, StreamFormat
from pyflink.testing.test_case_utils import PyFlinkBatchTestCase, PyFlinkStreamingTestCase

from funken.checkpoint.restart_strategy import FailureRate, FixedDelay, NoRestart, restart_strategy
from funken.errors import InvalidConfiguration
from funken.state.backend import StateSettings


def test_a_configuration_takes_keys_of_the_program_and_older_spellings():
    conf = Configuration().set_boolean("my.own.switch", True)
    with pytest.warns(UserWarning, match="'pekko.ask.timeout' has no effect here because Spark"):
        conf.set_string("pekko.ask.timeout", "20 s")
    conf.set_string("execution.buffer-timeout", "1 min").set_string("pipeline.operator-chaining", "false")
    with pytest.warns(UserWarning, match="'my.own.switch' is neither Flink's nor Funken's") as warned:
        env = StreamExecutionEnvironment.get_execution_environment(conf)
    assert [w.filename for w in warned] == [__file__]

    assert env.get_buffer_timeout() == 60_000
    assert not env.is_chaining_enabled()
    assert conf.get_string("my.own.switch", "") == "true"
    assert conf.contains_key("execution.buffer-timeout")
    with pytest.warns(UserWarning, match="pekko"):
        assert Configuration.from_dict(conf.to_dict()) == conf
    with pytest.raises(InvalidConfiguration, match="is no duration"):
        conf.set_string("execution.buffer-timeout.interval", "soon")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("execution.checkpointing.intervall", "execution.checkpointing.interval"),
        ("xecution.checkpointing.interval", "execution.checkpointing.interval"),
        ("state.checkpoint.dir", "state.checkpoints.dir"),
        ("restart-strategy.fixed-delay.attempt", "restart-strategy.fixed-delay.attempts"),
        ("restartstrategy.type", "restart-strategy.type"),
        ("python.fn-execution.bundle.sice", "python.fn-execution.bundle.size"),
    ],
)
def test_a_misspelt_option_is_refused(env, key, meant):
    for conf in (Configuration(), env.get_configuration()):
        with pytest.raises(InvalidConfiguration, match=f"option '{key}' is unknown. Did you mean '{meant}'"):
            conf.set_string(key, "1")


def test_an_environment_names_the_option_that_a_key_of_the_program_resembles(env):
    conf = Configuration().set_integer("default.parallelism", 2)
    with pytest.warns(UserWarning, match="has no effect. Did you mean "):
        env.configure(conf)


def test_durations_have_pyflinks_names():
    assert Time.minutes(1).to_milliseconds() == Duration.of_minutes(1).to_millis() == 60_000
    assert Time.hours(1) < Time.days(1)
    assert Duration.of_millis(1) == Duration.of_nanos(1_000_000)


def test_a_job_result_and_a_client_speak_of_ids_and_futures(env):
    env.from_collection([1]).print()
    client = env.execute_async("job")

    result = client.get_job_execution_result().result()

    assert isinstance(client.get_job_id(), JobID)
    assert str(client.get_job_id()) == str(result.get_job_id())
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert result.get_accumulator_result("none") is None
    assert result.get_net_runtime() >= 0
    assert "has finished" in str(result)


def test_a_failed_job_raises_from_its_future(env):
    env.from_collection([1]).map(lambda x: x / 0)
    client = env.execute_async()

    with pytest.raises(Exception, match="division by zero"):
        client.get_job_execution_result().result()
    assert client.get_job_status().result() is JobStatus.FAILED


def test_checkpoint_settings_are_kept(env):
    env.enable_checkpointing(30_000, CheckpointingMode.AT_LEAST_ONCE)
    config = env.get_checkpoint_config()
    config.set_max_concurrent_checkpoints(2).enable_unaligned_checkpoints()
    config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
    config.set_aligned_checkpoint_timeout(Duration.of_seconds(3))

    assert env.get_checkpoint_interval() == 30_000
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert config.get_max_concurrent_checkpoints() == 2
    assert env.is_unaligned_checkpoints_enabled()
    assert config.is_externalized_checkpoints_enabled()
    assert config.get_aligned_checkpoint_timeout() == Duration.of_millis(3000)


@pytest.mark.parametrize("spelling", ["RETAIN_ON_CANCELLATION", "retain_on_cancellation"])
def test_a_retention_is_read_however_it_is_spelt(env, spelling):
    env.get_configuration().set("execution.checkpointing.externalized-checkpoint-retention", spelling)

    retention = env.get_checkpoint_config().get_externalized_checkpoint_retention()
    assert retention is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION


def test_execution_settings_without_effect_are_remembered(env):
    config = env.get_config()

    assert config.enable_object_reuse().is_object_reuse_enabled()
    assert not config.disable_closure_cleaner().is_closure_cleaner_enabled()
    assert config.set_latency_tracking_interval(5).get_latency_tracking_interval() == 5
    assert config.set_task_cancellation_timeout(7000).get_task_cancellation_timeout() == 7000
    assert env.set_default_savepoint_directory("/s").get_default_savepoint_directory() == "/s"
    assert env.is_changelog_state_backend_enabled() is None


def test_calls_that_pyflink_2_removed_are_taken_with_a_warning(env, tmp_path, capsys):
    (tmp_path / "lines").write_text("a\n")
    with pytest.warns(DeprecationWarning, match="was removed in PyFlink 2") as warned:
        env.set_stream_time_characteristic(TimeCharacteristic.EventTime)
        env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 1000))
        env.set_state_backend(HashMapStateBackend())
        env.read_text_file(str(tmp_path / "lines")).print()
        env.register_type("org.acme.Pojo")
    env.execute()

    assert len(warned) == 5
    assert all(warning.filename == __file__ for warning in warned)
    assert env.get_restart_strategy() == RestartStrategies.fixed_delay_restart(3, 1000)
    assert restart_strategy(env.get_configuration()) == FixedDelay(3, 1000)
    assert isinstance(env.get_state_backend(), HashMapStateBackend)
    in_files = EmbeddedRocksDBStateBackend(True)
    in_files.set_db_storage_paths("/a", "/b")
    with pytest.warns(DeprecationWarning):
        env.set_state_backend(in_files)
    assert StateSettings.of(env.get_configuration()).directories == ("/a", "/b")
    assert capsys.readouterr().out == "a\n"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (RestartStrategies.no_restart(), NoRestart()),
        (RestartStrategies.fall_back_restart(), NoRestart()),
        (RestartStrategies.failure_rate_restart(2, 60_000, 500), FailureRate(2, 60_000, 500)),
    ],
)
def test_a_restart_strategy_of_pyflink_1_counts(env, given, meant):
    with pytest.warns(DeprecationWarning):
        env.set_restart_strategy(given)
    assert restart_strategy(env.get_configuration()) == meant


def test_jars_are_ignored_and_another_python_is_warned_of(env):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.add_jars("file:///a.jar", "file:///b.jar")
        env.add_classpaths("file:///c.jar")
        env.set_python_executable(sys.executable)
    with pytest.warns(UserWarning, match="PYSPARK_PYTHON"):
        env.set_python_executable("/opt/other/python")


def test_slot_sharing_groups_keep_operators_apart(env):
    group = SlotSharingGroup.builder("heavy").set_cpu_cores(2.0).set_managed_memory_mb(64).build()
    env.register_slot_sharing_group(group)
    stream = env.from_collection([1]).map(str).slot_sharing_group(group)
    stream.print()

    assert stream._node("x").slot_sharing_group == "heavy"
    assert group.get_managed_memory() == MemorySize.of_mebi_bytes(64)
    assert [vertex.name for vertex in env.compile().vertices] == ["collection", "map -> print"]


def test_the_plan_is_flinks_json(env):
    pairs = env.from_collection([("a", 1)]).name("pairs")
    pairs.key_by(lambda p: p[0]).map(lambda p: p).name("kept").set_parallelism(2).union(pairs).print().name("out")

    nodes = json.loads(env.get_execution_plan())["nodes"]

    assert [(node["type"], node["pact"], node["parallelism"]) for node in nodes] == [
        ("Source: pairs", "Data Source", 1),
        ("_stream_key_by_map_operator", "Operator", 1),
        ("kept", "Operator", 2),
        ("Sink: out", "Data Sink", 1),
    ]
    assert [edge["ship_strategy"] for edge in nodes[2]["predecessors"]] == ["HASH"]
    assert [edge["id"] for edge in nodes[3]["predecessors"]] == [3, 1]


def test_what_is_no_operator_can_be_named_and_configured(env, collect):
    numbers = env.from_collection([1, 2])
    union = numbers.union(numbers).name("both").uid("both").set_parallelism(2)

    assert union.get_name() == "both"
    assert sorted(collect(union.set_uid_hash("cafe"))) == [1, 1, 2, 2]


@pytest.mark.parametrize(
    "refused",
    [
        "shuffle",
        "rescale",
        "rebalance",
        "forward",
        "broadcast",
        "get_name",
        "force_non_parallel",
        "start_new_chain",
        "disable_chaining",
        "cache",
    ],
)
def test_a_keyed_stream_refuses_what_is_about_operators_and_partitions(env, refused):
    keyed = env.from_collection([1]).key_by(str)

    with pytest.raises(Exception, match="has no meaning on a KeyedStream"):
        getattr(keyed, refused)()


@pytest.mark.parametrize(
    "refused", ["set_parallelism", "name", "uid", "set_uid_hash", "set_max_parallelism", "set_buffer_timeout"]
)
def test_a_keyed_stream_refuses_settings(env, refused):
    with pytest.raises(Exception, match="has no meaning on a KeyedStream"):
        getattr(env.from_collection([1]).key_by(str), refused)(1)


def test_builders_may_be_used_without_their_results(tmp_path, env, collect):
    (tmp_path / "lines").write_text("a\nb\n")
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
    builder.process_static_file_set()
    names = OutputFileConfig.builder()
    names.with_part_prefix("pre")

    assert names.build().get_part_prefix() == "pre"
    assert collect(env.add_source(builder.build())) == ["a", "b"]


def test_a_cached_stream_is_the_stream(env, collect):
    cached = env.from_collection([1]).cache()
    cached.invalidate()

    assert collect(cached.map(lambda x: x + 1)) == [2]


def test_pyflinks_test_bases_run_in_this_process():
    for base, mode in ((PyFlinkStreamingTestCase, "streaming"), (PyFlinkBatchTestCase, "batch")):
        case = base()
        case.setUp()
        assert case.env.get_parallelism() == 2
        assert case.env.get_configuration().get_string("execution.runtime-mode", "").lower() == mode
