"""Configuration with PyFlink's names: it may hold keys of the program, and older spellings of a key mean the newer ones.

PyFlink programs also use a ``Configuration`` for values of their own. A key is taken to be one if its first part is not
one that options have, and no option is spelled like it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

from funken import config as options
from funken.api import options as native
from funken.api.options import CheckpointingMode, ExternalizedCheckpointRetention
from funken.compat.pyflink.adoption import refuse, removed, without_effect
from funken.compat.pyflink.backends import CheckpointStorage, FileSystemCheckpointStorage
from funken.compat.pyflink.members import gets, ignores, puts, sets
from funken.compat.pyflink.resources import ExecutionMode, InputDependencyConstraint, RestartStrategies
from funken.compat.pyflink.times import Duration
from funken.config import Configuration as NativeConfiguration
from funken.config import Option
from funken.config.configuration import is_option, namespaces, nearest
from funken.config.values import items_of
from funken.errors import InvalidConfiguration
from funken.io.durations import DurationLike, duration_ms
from funken.types.callables import R

T = TypeVar("T")

_SHORTEST_CHECKPOINT = 10
"""The shortest interval and timeout of checkpoints that Flink takes (ms)."""
_ALIKE = 0.75
"""The similarity from which a key is taken for an option's (``difflib``'s ratio)."""
_REMEMBERED = "funken.compat."
"""The beginning of the keys of settings that are remembered for the methods that ask for them."""
_OLDER = {
    "execution.buffer-timeout": options.BUFFER_TIMEOUT.key,
    "pipeline.operator-chaining": options.CHAINING.key,
    "state.backend": "state.backend.type",
    "restart-strategy": "restart-strategy.type",
    "state.checkpoints.dir": "execution.checkpointing.dir",
    "state.savepoints.dir": "execution.checkpointing.savepoint-dir",
}


def _backend(value: Any) -> Any:
    """Return the name of a state backend that may be given as the class of Java's factory.

    >>> _backend("org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory"), _backend("filesystem")
    ('rocksdb', 'filesystem')
    """
    if not isinstance(value, str) or not value.startswith("org.apache.flink."):
        return value
    return "rocksdb" if "RocksDB" in value else "hashmap"


class Configuration(NativeConfiguration):
    """A set of option values; a key of the program itself is kept, and an environment with it warns.

    >>> conf = Configuration().set_string("pipeline.operator-chaining", "false").set_integer("my.option", 3)
    >>> conf.get_boolean("pipeline.operator-chaining", True), conf.get_integer("my.option", 0)
    (False, 3)
    """

    def __init__(self, other: Any = None, j_configuration: Any = None) -> None:
        if j_configuration is not None and not isinstance(j_configuration, NativeConfiguration):
            refuse("Configuration(j_configuration=...)", "Make a Configuration() and set its options.")
        super().__init__()
        # PyFlink's tests and tools reach an environment's own options this way, and mean to change them.
        if j_configuration is not None:
            self._values = j_configuration._values
        elif other is not None:
            self.add_all(other if isinstance(other, NativeConfiguration) else Configuration.from_dict(other))

    @classmethod
    def from_dict(cls, map: Any) -> Configuration:
        """Make a configuration of a mapping from key to value."""
        configuration = cls()
        for key, value in map.items():
            configuration.set(key, value)
        return configuration

    def set(self, key: str | Option[Any], value: Any) -> Configuration:
        """Set an option; raises ``InvalidConfiguration`` for an unfit value, and for a seemingly misspelt option.

        >>> Configuration().set("state.checkpoints.dir", "/data").to_dict()  # an older name of Flink's
        {'execution.checkpointing.dir': '/data'}
        >>> Configuration().set("parallelism.default", "two")
        Traceback (most recent call last):
        ...
        funken.errors.InvalidConfiguration: option 'parallelism.default': 'two' is no whole number. ...
        """
        name = _newer(key.key if isinstance(key, Option) else key)
        super().set(name, _backend(value) if name == "state.backend.type" else value)
        return self

    def _unknown(self, name: str) -> None:
        """Take a key of the program; refuse one that looks like that of an option."""
        if name.split(".", 1)[0] in namespaces() or nearest(name, _ALIKE) is not None:
            super()._unknown(name)

    def own_keys(self) -> list[str]:
        """Return the keys that are those of no option.

        >>> Configuration.from_dict({"parallelism.default": 2, "my.switch": True}).own_keys()
        ['my.switch']
        """
        return [key for key in self._values if not key.startswith(_REMEMBERED) and not is_option(key)]

    def set_string(self, key: str, value: Any) -> Configuration:
        """Set an option from text."""
        return self.set(key, value)

    set_integer = set_boolean = set_float = set_bytearray = set_string

    def get_string(self, key: str, default_value: str) -> str:
        """Return a value as text."""
        value = self._values.get(_newer(key), default_value)
        return str(value).lower() if isinstance(value, bool) else str(value)

    def get_integer(self, key: str, default_value: int) -> int:
        """Return a value as a whole number."""
        return super().get_integer(_newer(key), default_value)

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Return a value as a truth value."""
        return super().get_boolean(_newer(key), default_value)

    def get_float(self, key: str, default_value: float) -> float:
        """Return a value as a number."""
        return super().get_float(_newer(key), default_value)

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """Return a value as bytes.

        >>> Configuration().set_bytearray("my.key", bytearray(b"secret")).get_bytearray("my.key", bytearray())
        bytearray(b'secret')
        """
        return bytearray(self._values.get(_newer(key), default_value))

    def contains_key(self, key: str) -> bool:
        """Tell whether a value was set."""
        return super().contains_key(_newer(key))

    def remove_config(self, key: str) -> bool:
        """Forget a value; tell whether there was one."""
        return super().remove_config(_newer(key))

    @staticmethod
    def parse_list_value(value: str, standard_yaml: bool = True) -> list[str]:
        r"""Split ``"a;b"``, or a list of YAML in either of its styles, into its items.

        >>> Configuration.parse_list_value("a;b"), Configuration.parse_list_value("[a, 'b']")
        (['a', 'b'], ['a', 'b'])
        >>> Configuration.parse_list_value("- a\n- b")
        ['a', 'b']
        """
        return items_of(value, ";")

    def add_all(self, other: Any, prefix: str | None = None) -> Configuration:
        """Take over all values of another configuration."""
        newer = NativeConfiguration()
        newer._values = {_newer((prefix or "") + key): value for key, value in other.to_dict().items()}
        super().add_all(newer)
        return self

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Add all values to a dict.

        >>> values = {"my.key": 1}
        >>> Configuration.from_dict({"my.other": 2}).add_all_to_dict(values)
        >>> values
        {'my.key': 1, 'my.other': 2}
        """
        target_dict.update(self._values)

    __hash__ = None  # mutable


def _newer(key: str) -> str:
    return _OLDER.get(key, key)


class ConfigOption(Generic[T]):
    """An option: a key and its default; made by ``ConfigOptions``.

    >>> timeout = ConfigOptions.key("my.timeout").int_type().default_value(5)
    >>> timeout.key, timeout.default
    ('my.timeout', 5)
    """

    def __init__(self, key: str, default: T | None) -> None:
        self.key = key
        self.default = default


class ConfigOptions:
    """Builds options.

    >>> ConfigOptions.key("my.retries").int_type().default_value(3).default
    3
    >>> ConfigOptions.key("my.name").string_type().no_default_value().default is None
    True
    """

    def __init__(self, key: str) -> None:
        self._key = key

    @staticmethod
    def key(key: str) -> ConfigOptions:
        """Begin an option."""
        return ConfigOptions(key)

    string_type = ignores("", "Set the type of its values; they are taken as they come.")

    int_type = long_type = float_type = double_type = boolean_type = string_type

    def default_value(self, value: T) -> ConfigOption[T]:
        """Return the option with a default."""
        return ConfigOption(self._key, value)

    def no_default_value(self) -> ConfigOption[Any]:
        """Return the option without a default."""
        return ConfigOption(self._key, None)


def _remembered(name: str, default: R) -> gets[R]:
    """Return the method that asks for a setting without effect."""
    return gets[R]("_kept", "Return the setting.", lambda kept: kept.get(f"{_REMEMBERED}{name}", default))


def _place(name: str) -> str:
    """Return the place of a setting without effect, for ``sets`` and ``puts``."""
    return f"_kept.{_REMEMBERED}{name}"


_NOTHING_ELSE = "Remember it; nothing else uses it."
_NO_JAVA = "records are Python's, and no Java class is serialized"


class ExecutionConfig(native.ExecutionConfig):
    """The settings of a job's execution. Settings of Flink's own runtime are remembered and have no effect."""

    PARALLELISM_DEFAULT = -1
    """Stands for the parallelism that the environment has by default."""
    PARALLELISM_UNKNOWN = -2
    """Stands for the parallelism that is as before."""

    @property
    def _kept(self) -> dict[str, Any]:
        return self._configuration._values

    set_latency_tracking_interval = sets[int](_place("latency"), "interval", _NOTHING_ELSE)
    get_latency_tracking_interval = _remembered("latency", 0)
    set_task_cancellation_interval = sets[int](_place("cancellation"), "interval", _NOTHING_ELSE)
    get_task_cancellation_interval = _remembered("cancellation", 30_000)
    set_use_snapshot_compression = sets[bool](_place("compression"), "use_snapshot_compression", _NOTHING_ELSE)
    get_use_snapshot_compression = is_use_snapshot_compression = _remembered("compression", False)
    set_execution_mode = sets[ExecutionMode](_place("mode"), "execution_mode", _NOTHING_ELSE)
    get_execution_mode = _remembered("mode", ExecutionMode.PIPELINED)
    set_default_input_dependency_constraint = sets[InputDependencyConstraint](
        _place("constraint"), "input_dependency_constraint", _NOTHING_ELSE
    )
    get_default_input_dependency_constraint = _remembered("constraint", InputDependencyConstraint.ANY)

    enable_auto_generated_uids = puts(_place("uids"), True, _NOTHING_ELSE)
    disable_auto_generated_uids = puts(_place("uids"), False, _NOTHING_ELSE)
    has_auto_generated_uids_enabled = _remembered("uids", True)
    enable_force_kryo = puts(_place("kryo"), True, _NOTHING_ELSE)
    disable_force_kryo = puts(_place("kryo"), False, _NOTHING_ELSE)
    is_force_kryo_enabled = _remembered("kryo", False)
    enable_force_avro = puts(_place("avro"), True, _NOTHING_ELSE)
    disable_force_avro = puts(_place("avro"), False, _NOTHING_ELSE)
    is_force_avro_enabled = _remembered("avro", False)
    enable_closure_cleaner = puts(_place("cleaner"), True, _NOTHING_ELSE)
    disable_closure_cleaner = puts(_place("cleaner"), False, _NOTHING_ELSE)
    is_closure_cleaner_enabled = _remembered("cleaner", True)
    enable_auto_type_registration = puts(_place("no registration"), False, _NOTHING_ELSE)
    disable_auto_type_registration = puts(_place("no registration"), True, _NOTHING_ELSE)
    is_auto_type_registration_disabled = _remembered("no registration", False)

    def set_task_cancellation_timeout(self, timeout: Any) -> ExecutionConfig:
        """Set the time that a cancelled worker may run on (ms)."""
        self._configuration.set_duration(options.CANCEL_GRACE, timeout)
        return self

    def get_task_cancellation_timeout(self) -> int:
        """Return the time that a cancelled worker may run on (ms)."""
        return self._configuration.get(options.CANCEL_GRACE)

    def set_restart_strategy(self, restart_strategy_configuration: Any) -> ExecutionConfig:
        """Set the rule for the restart after a failure; gone since PyFlink 2."""
        removed("set_restart_strategy()", "set restart-strategy.type and its options.")
        for key, value in restart_strategy_configuration.options().items():
            self._configuration.set(key, value)
        self._configuration._values[f"{_REMEMBERED}restart-strategy"] = restart_strategy_configuration
        return self

    def get_restart_strategy(self) -> Any:
        """Return the setting."""
        return self._configuration._values.get(f"{_REMEMBERED}restart-strategy", RestartStrategies.fall_back_restart())

    enable_generic_types = ignores("", "Allow records without a declared type (always so).")
    disable_generic_types = ignores("", "Accept and ignore: Funken is made for records without a declared type.")

    def has_generic_types_disabled(self) -> bool:
        """Return False."""
        return False

    def add_default_kryo_serializer(self, type_class_name: str, serializer_class_name: str = "") -> ExecutionConfig:
        """Do nothing: no Java class is serialized."""
        without_effect("add_default_kryo_serializer()", _NO_JAVA)
        return self

    def register_kryo_type(self, type_class_name: str) -> ExecutionConfig:
        """Do nothing: no Java class is serialized."""
        without_effect("register_kryo_type()", _NO_JAVA)
        return self

    def register_pojo_type(self, type_class_name: str) -> ExecutionConfig:
        """Do nothing: no Java class is serialized."""
        without_effect("register_pojo_type()", _NO_JAVA)
        return self

    def register_type_with_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> ExecutionConfig:
        """Do nothing: no Java class is serialized."""
        without_effect("register_type_with_kryo_serializer()", _NO_JAVA)
        return self


class CheckpointConfig(native.CheckpointConfig):
    """The settings of checkpoints; kept in the configuration."""

    def __init__(self, configuration: NativeConfiguration) -> None:
        super().__init__(configuration)

    def _flag(self, name: str, default: bool = False) -> bool:
        return str(self._configuration.to_dict().get(f"execution.checkpointing.{name}", default)).lower() == "true"

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set the limit of concurrent checkpoints."""
        self._set("max-concurrent-checkpoints", max_concurrent_checkpoints)
        return self

    def get_max_concurrent_checkpoints(self) -> int:
        """Return the limit of concurrent checkpoints."""
        return self._get("max-concurrent-checkpoints", 1)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Set the tolerated number of failed checkpoints in a row."""
        self._set("tolerable-failed-checkpoints", tolerable_checkpoint_failure_number)
        return self

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Return the tolerated number of failed checkpoints in a row."""
        return self._get("tolerable-failed-checkpoints", 0)

    set_prefer_checkpoint_for_recovery = ignores(
        "prefer_checkpoint_for_recovery", "Accept and ignore: the newest is taken; gone since PyFlink 1.14."
    )

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Fail the job when a checkpoint fails, or never."""
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else 2**31 - 1)

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Return True if the job fails when a checkpoint fails."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set the retention of checkpoints when the job is cancelled."""
        self._set("externalized-checkpoint-retention", retention_mode.name)
        return self

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Return the retention of checkpoints when the job is cancelled."""
        return ExternalizedCheckpointRetention[self._configuration.get(options.CHECKPOINT_RETENTION).upper()]

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Return True if checkpoints are kept or deleted on purpose."""
        none = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        return self.get_externalized_checkpoint_retention() is not none

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Remember the wish; edges whose records must not be overtaken keep theirs all the same."""
        self._set("unaligned.forced", force_unaligned_checkpoints)
        return self

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return True if unaligned checkpoints were forced."""
        return self._flag("unaligned.forced")

    # ---- as PyFlink 1.x has them

    DEFAULT_MODE: ClassVar[CheckpointingMode] = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT: ClassVar[int] = 10 * 60 * 1000
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS: ClassVar[int] = 0
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS: ClassVar[int] = 1

    def set_checkpoint_interval(self, checkpoint_interval: DurationLike) -> CheckpointConfig:
        """Set the time between checkpoints; raises ``InvalidConfiguration`` below 10 ms, as in Flink."""
        self._set_duration("interval", _long_enough("interval", checkpoint_interval))
        return self

    def set_checkpoint_timeout(self, checkpoint_timeout: DurationLike) -> CheckpointConfig:
        """Set the time limit of a checkpoint; raises ``InvalidConfiguration`` below 10 ms, as in Flink."""
        self._set_duration("timeout", _long_enough("timeout", checkpoint_timeout))
        return self

    def enable_externalized_checkpoints(self, cleanup_mode: ExternalizedCheckpointRetention) -> CheckpointConfig:
        """Set the retention of checkpoints when the job is cancelled; gone since PyFlink 2."""
        removed("enable_externalized_checkpoints()", "use set_externalized_checkpoint_retention().")
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    def set_externalized_checkpoint_cleanup(self, cleanup_mode: ExternalizedCheckpointRetention) -> CheckpointConfig:
        """Set the retention of checkpoints when the job is cancelled; gone since PyFlink 2."""
        removed("set_externalized_checkpoint_cleanup()", "use set_externalized_checkpoint_retention().")
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    def get_externalized_checkpoint_cleanup(self) -> ExternalizedCheckpointRetention:
        """Return the retention of checkpoints when the job is cancelled."""
        return self.get_externalized_checkpoint_retention()

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Set the folder of the checkpoints; gone since PyFlink 2.

        >>> import warnings
        >>> warnings.simplefilter("ignore", DeprecationWarning)
        >>> configuration = NativeConfiguration()
        >>> _ = CheckpointConfig(configuration).set_checkpoint_storage_dir("file:///data/checkpoints")
        >>> configuration.to_dict()
        {'execution.checkpointing.dir': 'file:///data/checkpoints'}
        """
        removed("set_checkpoint_storage_dir()", "set execution.checkpointing.dir.")
        self._set("dir", checkpoint_path)
        return self

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Set where checkpoints are; a storage without a path leaves them in a temporary folder. Gone since PyFlink 2."""
        removed("set_checkpoint_storage()", "set execution.checkpointing.dir.")
        path = getattr(storage, "get_checkpoint_path", lambda: None)()
        if path is not None:
            self._set("dir", path)
        return self

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Return the place of checkpoints, if it was set."""
        path = self._configuration.to_dict().get("execution.checkpointing.dir")
        return None if path is None else FileSystemCheckpointStorage(path)

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """Return the time before a barrier overtakes."""
        return Duration.of_millis(self._get("aligned-checkpoint-timeout", 0))

    set_alignment_timeout = native.CheckpointConfig.set_aligned_checkpoint_timeout
    get_alignment_timeout = get_aligned_checkpoint_timeout


def _long_enough(what: str, given: DurationLike) -> DurationLike:
    millis = duration_ms(given)
    if millis < _SHORTEST_CHECKPOINT:
        raise InvalidConfiguration(
            f"Checkpoint {what} must be larger than or equal to {_SHORTEST_CHECKPOINT} ms, but is {millis} ms. Give a duration "
            'such as "10 s", or a number of ms.'
        )
    return given


ExternalizedCheckpointCleanup = ExternalizedCheckpointRetention
"""PyFlink 1.x's name for it."""

__all__ = ["CheckpointingMode", "ExternalizedCheckpointCleanup", "ExternalizedCheckpointRetention"]
