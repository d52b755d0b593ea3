"""Every option, once: key, type, default, meaning. The reference page is generated from here.

Keys are Flink's where Flink has the option. An unknown key is refused with the nearest known one; keys that only make
sense to Flink's own runtime (``FOREIGN``) are kept, so that a ported job runs, and have no effect.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from funken.errors import InvalidConfiguration

T = TypeVar("T")

_UNITS = {
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}


def duration_ms(value: Any) -> int:
    """Turn a duration into ms: ``timedelta``, ``"5 s"``, PyFlink's ``Time``/``Duration``, or a plain number of ms.

    >>> duration_ms("1.5 s"), duration_ms(timedelta(minutes=1)), duration_ms(20), duration_ms("-1")
    (1500, 60000, 20, -1)
    """
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    for method in ("to_milliseconds", "to_millis"):
        if hasattr(value, method):
            return int(getattr(value, method)())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*([a-z]*)\s*", value.lower())
        if found and found[2] in _UNITS:
            return int(float(found[1]) * _UNITS[found[2]])
    raise ValueError(f"{value!r} is no duration; write e.g. '10 ms', '5 s', timedelta(seconds=5), or a number of ms")


def _integer(value: Any) -> int:
    try:
        return int("" if isinstance(value, bool) else value)
    except ValueError:
        raise ValueError(f"{value!r} is no whole number") from None


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    raise ValueError(f"{value!r} is neither true nor false")


def _decimal(value: Any) -> float:
    try:
        return float("" if isinstance(value, bool) else value)
    except ValueError:
        raise ValueError(f"{value!r} is no number") from None


_SIZES = {"": 1, "b": 1, "bytes": 1, "k": 2**10, "kb": 2**10, "m": 2**20, "mb": 2**20, "g": 2**30, "gb": 2**30}


def memory_bytes(value: Any) -> int:
    """Turn a size into bytes: ``"20 kb"``, ``"64mb"``, ``"1g"``, or a plain number of bytes.

    >>> memory_bytes("20 kb"), memory_bytes("1g"), memory_bytes(512)
    (20480, 1073741824, 512)
    """
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", str(value).lower())
    if found is None or found[2] not in _SIZES:
        raise ValueError(f"{value!r} is no size; write e.g. '20 kb', '64 mb', '1 g', or a number of bytes")
    return int(found[1]) * _SIZES[found[2]]


def _string_map(value: Any) -> dict[str, str]:
    if isinstance(value, str):
        value = dict(pair.split(":", 1) for pair in value.split(",") if pair)
    return {str(k): str(v) for k, v in dict(value).items()}


def _one_of(*allowed: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        text = str(getattr(value, "name", value)).lower()
        if text not in allowed:
            raise ValueError(f"{value!r} is not one of {', '.join(allowed)}")
        return text

    return parse


def _same(**spellings: str) -> Callable[[Any], str]:
    """Take any spelling of a name: ``fixed_delay="fixed-delay, fixeddelay"``; the first one is what is kept."""
    known = {word: names.split(", ")[0] for names in spellings.values() for word in names.split(", ")}

    def parse(value: Any) -> str:
        text = str(getattr(value, "name", value)).lower()
        if text not in known:
            raise ValueError(f"{value!r} is not one of {', '.join(dict.fromkeys(known.values()))}")
        return known[text]

    return parse


@dataclass(frozen=True)
class Option(Generic[T]):
    """One option: how it is called, what it means, how a value of it is read; ``older`` are names it had before."""

    key: str
    parse: Callable[[Any], T]
    default: T
    doc: str
    older: tuple[str, ...] = ()


_OPTIONS: dict[str, Option[Any]] = {}
_OLDER: dict[str, Option[Any]] = {}


def _option(key: str, parse: Callable[[Any], T], default: T, doc: str, older: tuple[str, ...] = ()) -> Option[T]:
    option = Option(key, parse, default, doc, older)
    _OPTIONS[key] = option
    _OLDER.update(dict.fromkeys(older, option))
    return option


PARALLELISM = _option(
    "parallelism.default", _integer, -1, "Subtasks per operator. -1: one per core, or what the session's slots allow."
)
NAME = _option("pipeline.name", str, "Flink Streaming Job", "The job's name, if execute() gives none.")
MAX_PARALLELISM = _option(
    "pipeline.max-parallelism", _integer, -1, "Number of key groups, the limit of rescaling. -1: 128 or more."
)
AUTO_WATERMARK_INTERVAL = _option(
    "pipeline.auto-watermark-interval", duration_ms, 200, "How often periodic watermarks are emitted (ms)."
)
_NO_PARAMETERS: dict[str, str] = {}
JOB_PARAMETERS = _option(
    "pipeline.global-job-parameters",
    _string_map,
    _NO_PARAMETERS,
    "Parameters that functions read from their RuntimeContext.",
)
CHAINING = _option(
    "pipeline.operator-chaining.enabled", _boolean, True, "Join operators on forward edges into one vertex."
)
RUNTIME_MODE = _option(
    "execution.runtime-mode",
    _one_of("streaming", "batch", "automatic"),
    "streaming",
    "STREAMING: results as they come. BATCH: final results only. AUTOMATIC: BATCH if every source is bounded.",
)
TARGET = _option(
    "execution.target",
    _one_of("auto", "local", "batch", "continuous"),
    "auto",
    "Where the plan runs: in this process (local), as a Spark batch job (batch), in Spark's real-time mode "
    "(continuous). auto: batch under BATCH, else continuous.",
)
BUFFER_TIMEOUT = _option(
    "execution.buffer-timeout.interval",
    duration_ms,
    10,
    "How long a record may wait for its block to fill (ms). 0: not at all; -1: until the block is full.",
)
BLOCK_RECORDS = _option("execution.block.records", _integer, 2000, "Records in a full block.")
BLOCK_BYTES = _option("execution.block.bytes", _integer, 256 * 1024, "Bytes a block should not exceed by much.")
QUEUEING_TARGET = _option(
    "execution.queueing-target",
    duration_ms,
    12,
    "How long records may queue between tasks under full load before the sources pause (ms). 0: never pause; then "
    "Spark's buffers alone bound what is in flight.",
)
CANCEL_GRACE = _option(
    "task.cancellation.timeout", duration_ms, 5000, "How long a cancelled worker may run on before it is ended (ms)."
)
START_TIMEOUT = _option(
    "execution.start-timeout", duration_ms, 180_000, "How long the tasks may take to report for work (ms)."
)
MASTER = _option("spark.master", str, "", "Spark master for a session made by Funken. Empty: local, slots as needed.")
SHUFFLE_MEMORY = _option(
    "execution.shuffle-memory", _integer, 256 * 1024, "Bytes in flight per task and direction in continuous mode."
)

_CHECKPOINTING = "execution.checkpointing."
CHECKPOINT_INTERVAL = _option(
    _CHECKPOINTING + "interval", duration_ms, -1, "Time from the start of a checkpoint to the next (ms). -1: none."
)
CHECKPOINT_MODE = _option(
    _CHECKPOINTING + "mode",
    _one_of("exactly_once", "at_least_once"),
    "exactly_once",
    "EXACTLY_ONCE: a record counts once in the state after a failure. AT_LEAST_ONCE: no alignment of channels.",
)
CHECKPOINT_TIMEOUT = _option(
    _CHECKPOINTING + "timeout", duration_ms, 600_000, "How long a checkpoint may take before it is given up (ms)."
)
CHECKPOINT_MIN_PAUSE = _option(
    _CHECKPOINTING + "min-pause",
    duration_ms,
    0,
    "Shortest time from the end of a checkpoint to the start of the next (ms). Above 0 there is one at a time.",
)
CHECKPOINT_CONCURRENT = _option(
    _CHECKPOINTING + "max-concurrent-checkpoints", _integer, 1, "How many checkpoints may be under way at a time."
)
CHECKPOINT_TOLERABLE = _option(
    _CHECKPOINTING + "tolerable-failed-checkpoints",
    _integer,
    0,
    "How many checkpoints in a row may fail before the job is restarted.",
)
CHECKPOINT_RETENTION = _option(
    _CHECKPOINTING + "externalized-checkpoint-retention",
    _one_of("no_externalized_checkpoints", "delete_on_cancellation", "retain_on_cancellation"),
    "no_externalized_checkpoints",
    "Whether checkpoints are kept when the job was cancelled or has failed for good: never, DELETE_ON_CANCELLATION "
    "(after a failure only), RETAIN_ON_CANCELLATION (after both).",
)
CHECKPOINT_DIR = _option(
    _CHECKPOINTING + "dir", str, "", "Where checkpoints are written: a path or URI.", ("state.checkpoints.dir",)
)
SAVEPOINT_DIR = _option(
    _CHECKPOINTING + "savepoint-dir",
    str,
    "",
    "Where savepoints are written if none is named. Empty: beside the checkpoints.",
    ("state.savepoints.dir",),
)
CHECKPOINTS_RETAINED = _option(
    _CHECKPOINTING + "num-retained",
    _integer,
    2,
    "How many complete checkpoints are kept. With 1, Flink's default, there is none to fall back to.",
    ("state.checkpoints.num-retained",),
)
CHECKPOINT_INCREMENTAL = _option(
    _CHECKPOINTING + "incremental",
    _boolean,
    True,
    "Write only the state that changed since the checkpoint before.",
    ("state.backend.incremental",),
)
CHECKPOINT_INLINE = _option(
    _CHECKPOINTING + "data-inline-threshold",
    memory_bytes,
    20 * 1024,
    "State smaller than this is written into the manifest (bytes).",
    ("state.storage.fs.memory-threshold", "state.backend.fs.memory-threshold"),
)
UNALIGNED = _option(
    _CHECKPOINTING + "unaligned.enabled",
    _boolean,
    False,
    "Let barriers overtake records, which then become part of the checkpoint. Not built yet: barriers are aligned.",
    ("execution.checkpointing.unaligned",),
)
ALIGNED_TIMEOUT = _option(
    _CHECKPOINTING + "aligned-checkpoint-timeout",
    duration_ms,
    0,
    "With unaligned checkpoints: how long to try without overtaking (ms).",
)
JOB_ID = _option(
    "execution.job-id",
    str,
    "",
    "The job's id. A driver that starts again with the id of an earlier run goes on from its "
    "newest checkpoint. Empty: a new one.",
)
RESTORE_PATH = _option(
    "execution.state-recovery.path", str, "", "The savepoint to start from.", ("execution.savepoint.path",)
)
RESTORE_IGNORING = _option(
    "execution.state-recovery.ignore-unclaimed-state",
    _boolean,
    False,
    "Start from a savepoint although the program lacks operators that have state in it.",
    ("execution.savepoint.ignore-unclaimed-state",),
)
STATE_BACKEND = _option(
    "state.backend.type",
    _same(hashmap="hashmap, filesystem, jobmanager", rocksdb="rocksdb"),
    "hashmap",
    "Where keyed state is while the job runs: hashmap (Python objects in memory), or rocksdb (on the local disk of each "
    "task; needs pip install 'funken[rocksdb]').",
    ("state.backend",),
)
ROCKSDB_MEMORY = _option(
    "state.backend.rocksdb.memory.fixed-per-slot",
    memory_bytes,
    256 * 2**20,
    "What the rocksdb backend may use of a task's memory: cached blocks, write buffers, and a quarter for cached objects.",
    ("taskmanager.memory.managed.size",),
)
ROCKSDB_WRITE_BUFFERS = _option(
    "state.backend.rocksdb.memory.write-buffer-ratio",
    _decimal,
    0.5,
    "Which part of that is for write buffers.",
)
ROCKSDB_DIRECTORY = _option(
    "state.backend.rocksdb.localdir", str, "", "Where the rocksdb backend has its files. Empty: io.tmp.dirs."
)
TEMPORARY_DIRECTORIES = _option(
    "io.tmp.dirs",
    str,
    "",
    "Local folders of the workers for temporary files, with commas between them; tasks are spread over them. Empty: the "
    "system's.",
)
PROCESS_MEMORY = _option(
    "taskmanager.memory.process.size",
    memory_bytes,
    0,
    "How much memory a worker process may use; with more a task fails, and says which operators hold how much state. 0: as "
    "much as leaves 3 % of the machine's (or container's) memory free.",
)

RESTART_STRATEGY = _option(
    "restart-strategy.type",
    _same(
        none="none, off, disable",
        fixed="fixed-delay, fixeddelay",
        failure="failure-rate, failurerate",
        exponential="exponential-delay, exponentialdelay",
        default="default",
    ),
    "default",
    "What happens after a failure: none, fixed-delay, failure-rate, exponential-delay. Default: exponential-delay if "
    "there are checkpoints, else none.",
    ("restart-strategy",),
)
FIXED_DELAY_ATTEMPTS = _option(
    "restart-strategy.fixed-delay.attempts", _integer, 1, "How many times fixed-delay restarts a job."
)
FIXED_DELAY = _option(
    "restart-strategy.fixed-delay.delay", duration_ms, 1000, "How long fixed-delay waits before a restart (ms)."
)
FAILURE_RATE_MAX = _option(
    "restart-strategy.failure-rate.max-failures-per-interval",
    _integer,
    1,
    "How many failures in an interval failure-rate restarts after.",
)
FAILURE_RATE_INTERVAL = _option(
    "restart-strategy.failure-rate.failure-rate-interval", duration_ms, 60_000, "The interval of failure-rate (ms)."
)
FAILURE_RATE_DELAY = _option(
    "restart-strategy.failure-rate.delay", duration_ms, 1000, "How long failure-rate waits before a restart (ms)."
)
_EXPONENTIAL = "restart-strategy.exponential-delay."
EXPONENTIAL_INITIAL = _option(
    _EXPONENTIAL + "initial-backoff", duration_ms, 1000, "How long exponential-delay waits at first (ms)."
)
EXPONENTIAL_MAX = _option(
    _EXPONENTIAL + "max-backoff", duration_ms, 60_000, "How long exponential-delay waits at most (ms)."
)
EXPONENTIAL_MULTIPLIER = _option(
    _EXPONENTIAL + "backoff-multiplier", _decimal, 1.5, "By how much the wait grows from failure to failure."
)
EXPONENTIAL_RESET = _option(
    _EXPONENTIAL + "reset-backoff-threshold",
    duration_ms,
    3_600_000,
    "How long a job must have run for the wait to start over (ms).",
)
EXPONENTIAL_JITTER = _option(
    _EXPONENTIAL + "jitter-factor", _decimal, 0.1, "The share of the wait that is random, up or down."
)
EXPONENTIAL_ATTEMPTS = _option(
    _EXPONENTIAL + "attempts-before-reset-backoff",
    _integer,
    2**31 - 1,
    "How many restarts exponential-delay allows before the wait starts over.",
)

FOREIGN = (
    "taskmanager.", "jobmanager.", "pekko.", "akka.", "rest.", "python.", "state.", "execution.checkpointing.",
    "restart-strategy", "pipeline.jars", "pipeline.classpaths", "classloader.", "metrics.", "table.", "env.", "web.",
    "cluster.", "high-availability", "security.", "s3.", "fs.", "historyserver.", "pipeline.object-reuse",
    "pipeline.generic-types", "pipeline.force-", "execution.batch", "execution.savepoint", "execution.attached",
    "execution.state-recovery.", "user.", "$internal.", "client.", "job-", "jobstore.", "blob.", "heartbeat.", "io.",
)  # fmt: skip


_KeySet = set[str]


class Configuration:
    """A set of option values (PyFlink's ``Configuration``); values are checked when they are set.

    >>> conf = Configuration().set_string("execution.buffer-timeout.interval", "5 ms")
    >>> conf.get(BUFFER_TIMEOUT)
    5
    >>> conf.set_integer("paralelism.default", 2)
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: option 'paralelism.default' is unknown. Did you mean 'parallelism.default'?
    """

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = {}
        for key, value in (values or {}).items():
            self.set(key, value)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Configuration:
        """Make a configuration of a mapping from key to value."""
        return cls(values)

    def set(self, key: str | Option[Any], value: Any) -> Configuration:
        """Set an option; raises ``InvalidConfiguration`` for an unknown key or an unfit value."""
        name = key.key if isinstance(key, Option) else key
        option = _OPTIONS.get(name) or _OLDER.get(name)
        if option is None and not name.startswith(FOREIGN):
            near = difflib.get_close_matches(name, _OPTIONS, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known options: {', '.join(sorted(_OPTIONS))}."
            raise InvalidConfiguration(f"option {name!r} is unknown. {hint}")
        if option is not None:
            try:
                option.parse(value)
            except (ValueError, TypeError) as error:
                raise InvalidConfiguration(f"option {name!r}: {error}. It means: {option.doc}") from None
        self._values[name] = value
        return self

    def get(self, option: Option[T]) -> T:
        """Return an option's value, or its default; the newest of its names that was set counts."""
        for name in (option.key, *option.older):
            if name in self._values:
                return option.parse(self._values[name])
        return option.default

    def set_string(self, key: str, value: str) -> Configuration:
        """Set an option from text."""
        return self.set(key, value)

    set_integer = set_boolean = set_float = set_bytearray = set_string

    def get_string(self, key: str, default_value: str) -> str:
        """Return a value as text."""
        return str(self._values.get(key, default_value))

    def get_integer(self, key: str, default_value: int) -> int:
        """Return a value as a whole number."""
        return int(self._values.get(key, default_value))

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Return a value as a truth value."""
        return _boolean(self._values.get(key, default_value))

    def get_float(self, key: str, default_value: float) -> float:
        """Return a value as a number."""
        return float(self._values.get(key, default_value))

    def contains_key(self, key: str) -> bool:
        """Tell whether a value was set."""
        return key in self._values

    def key_set(self) -> _KeySet:
        """Return the keys that were set."""
        return set(self._values)

    def remove_config(self, key: str) -> bool:
        """Forget a value; tell whether there was one."""
        return self._values.pop(key, None) is not None

    def add_all(self, other: Configuration, prefix: str = "") -> Configuration:
        """Take over all values of another configuration."""
        for key, value in other.to_dict().items():
            self.set(prefix + key, value)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the values that were set."""
        return dict(self._values)

    def copy(self) -> Configuration:
        """Return an independent copy."""
        return Configuration(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"Configuration({json.dumps(self._values, default=str)})"


_defaults = Configuration()


def set_default_configuration(configuration: Configuration) -> Configuration:
    """Set what ``get_execution_environment()`` starts from in this process, and return what was set before.

    This is how the options of the command line reach a program; what the program sets itself wins, as in Flink.

    >>> before = set_default_configuration(Configuration({"parallelism.default": 3}))
    >>> default_configuration().get(PARALLELISM)
    3
    >>> _ = set_default_configuration(before)
    """
    global _defaults
    before, _defaults = _defaults, configuration.copy()
    return before


def default_configuration() -> Configuration:
    """Return a copy of what ``set_default_configuration`` set; empty if it was not called."""
    return _defaults.copy()


def options() -> list[Option[Any]]:
    """Return every declared option, by key."""
    return [_OPTIONS[key] for key in sorted(_OPTIONS)]
