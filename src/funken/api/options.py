"""Flink's configuration objects, as views of one ``Configuration``."""

from __future__ import annotations

import enum
from typing import Any

from funken import config
from funken.api.streams.family import Suggesting
from funken.config import Configuration
from funken.io.durations import DurationLike, duration_ms
from funken.types.callables import check_kind


class RuntimeExecutionMode(enum.Enum):
    """The execution mode: results as they develop (STREAMING), or once; AUTOMATIC is BATCH if all sources are bounded.

    >>> from funken import StreamExecutionEnvironment
    >>> def totals(mode):
    ...     env = StreamExecutionEnvironment.create_local_environment(parallelism=1).set_runtime_mode(mode)
    ...     with env.from_collection([1, 2, 3]).key_by(lambda n: "all").sum().execute_and_collect() as results:
    ...         return list(results)
    >>> totals(RuntimeExecutionMode.STREAMING), totals(RuntimeExecutionMode.BATCH)
    ([1, 3, 6], [6])
    """

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2


class CheckpointingMode(enum.Enum):
    """The guarantee of state after a failure: each record counts exactly once, or at least once.

    >>> from funken import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment()
    >>> _ = env.enable_checkpointing(10_000, CheckpointingMode.AT_LEAST_ONCE)
    >>> env.get_checkpoint_config().get_checkpointing_mode()
    <CheckpointingMode.AT_LEAST_ONCE: 1>
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1


class ExternalizedCheckpointRetention(enum.Enum):
    """The retention of checkpoints after a job's end: if it failed for good, if it was cancelled too, or never.

    It is the value of an option:

    >>> retention = "execution.checkpointing.externalized-checkpoint-retention"
    >>> conf = Configuration().set(retention, ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
    >>> conf.get(config.CHECKPOINT_RETENTION)
    'retain_on_cancellation'
    """

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


class ExecutionConfig(Suggesting):
    """PyFlink's ``ExecutionConfig``: the values are kept in the configuration of the environment.

    >>> from funken import MapFunction, StreamExecutionEnvironment
    >>> class Greet(MapFunction):
    ...     def open(self, runtime_context):
    ...         self.greeting = runtime_context.get_job_parameter("greeting", "hello")
    ...     def map(self, value):
    ...         return f"{self.greeting} {value}"
    >>> env = StreamExecutionEnvironment.create_local_environment()
    >>> conf = env.get_config().set_parallelism(1).set_max_parallelism(64).set_auto_watermark_interval(100)
    >>> conf.get_parallelism(), conf.get_max_parallelism(), conf.get_auto_watermark_interval()
    (1, 64, 100)
    >>> conf.set_global_job_parameters({"greeting": "hej"}).get_global_job_parameters()
    {'greeting': 'hej'}
    >>> env.from_collection(["ann"]).map(Greet()).execute_and_collect(limit=1)
    ['hej ann']

    Functions in a chain do not see the changes that others make to a record, unless they are to share their records:

    >>> def changed_by_one_of_two(env):
    ...     records = env.from_collection([[]]).map(lambda record: [*record, 1])
    ...     changed = records.map(lambda record: record.append(2) or record)
    ...     return changed.union(records.map(lambda record: record)).execute_and_collect(limit=2)
    >>> changed_by_one_of_two(env)
    [[1, 2], [1]]
    >>> conf.enable_object_reuse().is_object_reuse_enabled(), changed_by_one_of_two(env)
    (True, [[1, 2], [1, 2]])
    >>> conf.disable_object_reuse().is_object_reuse_enabled()
    False
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def set_auto_watermark_interval(self, interval: DurationLike) -> ExecutionConfig:
        """Set the interval of periodic watermarks (ms; 0: never)."""
        self._configuration.set_duration(config.AUTO_WATERMARK_INTERVAL, interval)
        return self

    def get_auto_watermark_interval(self) -> int:
        """Return the interval of periodic watermarks (ms)."""
        return self._configuration.get(config.AUTO_WATERMARK_INTERVAL)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set the default parallelism."""
        self._configuration.set(config.PARALLELISM, parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return the default parallelism."""
        return self._configuration.get(config.PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the number of key groups."""
        self._configuration.set(config.MAX_PARALLELISM, max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups."""
        return self._configuration.get(config.MAX_PARALLELISM)

    def set_global_job_parameters(self, global_job_parameters_dict: dict[str, Any]) -> ExecutionConfig:
        """Set the parameters that functions can read in their ``RuntimeContext``."""
        self._configuration.set(config.JOB_PARAMETERS, global_job_parameters_dict)
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        """Return the parameters that functions can read."""
        return self._configuration.get(config.JOB_PARAMETERS)

    def enable_object_reuse(self) -> ExecutionConfig:
        """Pass records within a chain without copies: faster, if no function changes its input or emitted records."""
        self._configuration.set(config.OBJECT_REUSE, True)
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        """Copy records that can be changed where several operators get them, or one keeps its output: the default."""
        self._configuration.set(config.OBJECT_REUSE, False)
        return self

    def is_object_reuse_enabled(self) -> bool:
        """Tell whether records are handed on within a chain without copies."""
        return self._configuration.get(config.OBJECT_REUSE)


class CheckpointConfig(Suggesting):
    """PyFlink's ``CheckpointConfig``: the values are kept in the configuration, times are in ms.

    >>> from funken import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment()
    >>> checkpoints = env.get_checkpoint_config()
    >>> checkpoints.is_checkpointing_enabled(), checkpoints.get_checkpoint_interval()
    (False, -1)
    >>> checkpoints = checkpoints.set_checkpoint_interval(10_000).set_min_pause_between_checkpoints(2000)
    >>> checkpoints.is_checkpointing_enabled(), checkpoints.get_checkpoint_interval()
    (True, 10000)
    >>> checkpoints.get_min_pause_between_checkpoints(), checkpoints.set_checkpoint_timeout(60_000).get_checkpoint_timeout()
    (2000, 60000)
    >>> checkpoints.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE).get_checkpointing_mode().name
    'AT_LEAST_ONCE'
    >>> env.get_configuration().to_dict()["execution.checkpointing.min-pause"]
    2000
    >>> _ = checkpoints.enable_unaligned_checkpoints().set_aligned_checkpoint_timeout("1 s")
    >>> checkpoints.is_unaligned_checkpoints_enabled()
    True
    >>> checkpoints.disable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()
    False
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def _get(self, name: str, default: int) -> int:
        return duration_ms(self._configuration.to_dict().get(f"execution.checkpointing.{name}", default))

    def _set(self, name: str, value: Any) -> CheckpointConfig:
        self._configuration.set(f"execution.checkpointing.{name}", value)
        return self

    def _set_duration(self, name: str, duration: DurationLike) -> CheckpointConfig:
        self._configuration.set_duration(f"execution.checkpointing.{name}", duration)
        return self

    def set_checkpoint_interval(self, checkpoint_interval: DurationLike) -> CheckpointConfig:
        """Set the time between checkpoints (``timedelta``, ``"5 s"`` or ms)."""
        return self._set_duration("interval", checkpoint_interval)

    def get_checkpoint_interval(self) -> int:
        """Return the time between checkpoints (ms), -1 if there are none."""
        return self._get("interval", -1)

    def is_checkpointing_enabled(self) -> bool:
        """Tell whether an interval is set."""
        return self.get_checkpoint_interval() > 0

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Choose between exactly-once and at-least-once."""
        check_kind(
            checkpointing_mode,
            CheckpointingMode,
            "set_checkpointing_mode()",
            "Give CheckpointingMode.EXACTLY_ONCE, say.",
        )
        return self._set("mode", checkpointing_mode.name)

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the mode."""
        return CheckpointingMode[self._configuration.get(config.CHECKPOINT_MODE).upper()]

    def set_checkpoint_timeout(self, checkpoint_timeout: DurationLike) -> CheckpointConfig:
        """Set the time limit of a checkpoint (``timedelta``, ``"5 s"`` or ms)."""
        return self._set_duration("timeout", checkpoint_timeout)

    def get_checkpoint_timeout(self) -> int:
        """Return the time limit of a checkpoint (ms)."""
        return self._get("timeout", 600_000)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: DurationLike) -> CheckpointConfig:
        """Set the shortest time between two checkpoints (``timedelta``, ``"5 s"`` or ms)."""
        return self._set_duration("min-pause", min_pause_between_checkpoints)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let barriers overtake records, which then become part of the checkpoint."""
        return self._set("unaligned.enabled", enabled)

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Let barriers keep their place."""
        return self.enable_unaligned_checkpoints(False)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Tell whether barriers overtake records."""
        return str(self._configuration.to_dict().get("execution.checkpointing.unaligned.enabled")).lower() == "true"

    def set_aligned_checkpoint_timeout(self, alignment_timeout: DurationLike) -> CheckpointConfig:
        """Set a task's longest wait for all barriers before they overtake (``timedelta``, ``"5 s"`` or ms)."""
        return self._set_duration("aligned-checkpoint-timeout", alignment_timeout)

    def get_min_pause_between_checkpoints(self) -> int:
        """Return the shortest time between two checkpoints (ms)."""
        return self._get("min-pause", 0)
