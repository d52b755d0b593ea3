"""Programs for PyFlink 1.x: what they import, set and call is there, and says what has taken its place."""

import pytest
from pyflink.common import Duration, RestartStrategies, WatermarkStrategy
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
from pyflink.datastream.functions import IN, KEY, OUT, KeyedProcessFunction, ValueStateDescriptor
from pyflink.datastream.window import Time, TumblingEventTimeWindows

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
    with pytest.raises(ImportError, match="cannot import name 'Tim'"):
        from pyflink.datastream.window import Tim  # noqa: F401


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
