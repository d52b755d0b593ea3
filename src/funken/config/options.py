"""Every option, once: key, type, default, meaning. The reference page is generated from here.

Keys are Flink's where Flink has the option, and ``older`` are names that Flink gave it before. A value is parsed by the
option's own function, which refuses what is not allowed: type, name or range. Flink's other options are in ``flink.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from funken.config.parsing import at_least as _at_least
from funken.config.parsing import between as _between
from funken.config.parsing import of_any_reporter as _of_any_reporter
from funken.config.parsing import one_of as _one_of
from funken.config.parsing import same as _same
from funken.config.parsing import string_map as _string_map
from funken.config.parsing import text as _text
from funken.config.values import boolean as _boolean
from funken.config.values import duration_ms, memory_bytes
from funken.dataclass import dataclass

T = TypeVar("T")


@dataclass(frozen=True)
class Option(Generic[T]):
    """One option: how it is called, what it means, how a value of it is read; ``older`` are names it had before.

    >>> CANCEL_GRACE.key, CANCEL_GRACE.default, CANCEL_GRACE.parse("1 s")
    ('task.cancellation.timeout', 5000, 1000)
    """

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
    "parallelism.default",
    _at_least(1, or_else=-1),
    -1,
    "Subtasks per operator. -1: one per core, or what the session's slots allow.",
)
NAME = _option("pipeline.name", _text, "Flink Streaming Job", "The job's name, if execute() gives none.")
MAX_PARALLELISM = _option(
    "pipeline.max-parallelism", _at_least(1, or_else=-1), -1, "Key groups: the limit of rescaling. -1: 128 or more."
)
AUTO_WATERMARK_INTERVAL = _option(
    "pipeline.auto-watermark-interval",
    _at_least(0, duration_ms),
    200,
    "How often periodic watermarks are emitted (ms).",
)
_NO_PARAMETERS: dict[str, str] = {}
JOB_PARAMETERS = _option(
    "pipeline.global-job-parameters",
    _string_map,
    _NO_PARAMETERS,
    "Parameters that functions read from their RuntimeContext.",
)
CHAINING = _option(
    "pipeline.operator-chaining.enabled",
    _boolean,
    True,
    "Join operators on forward edges into one vertex.",
    ("pipeline.operator-chaining",),
)
OBJECT_REUSE = _option(
    "pipeline.object-reuse",
    _boolean,
    False,
    "Hand records on between chained operators without a copy, also where several get the same one, or an operator keeps "
    "what it emitted: no function may change a record then. Nor may one change what it read from keyed state, or stored there, "
    "without storing it again.",
)
MAX_PARTIAL_MATCHES = _option(
    "pipeline.cep.max-partial-matches",
    _at_least(1),
    100_000,
    "How many partial matches of a pattern one key may have; with more, the job fails.",
)
ON_ERROR = _option(
    "execution.on-error",
    _one_of("fail", "skip"),
    "fail",
    "What becomes of a record whose function raises: the job fails, or the record is skipped and counted. For operators that "
    "on_error() says nothing of.",
)
VECTORIZED = _option(
    "pipeline.vectorized",
    _boolean,
    True,
    "Compute on columns where the result is provably the same; explain() tells where, and why not elsewhere.",
)
INLINING = _option(
    "pipeline.inlining",
    _boolean,
    True,
    "Hold the bodies of simple functions in the loops over records, instead of calling these; explain() tells which.",
)
PRE_AGGREGATION = _option(
    "pipeline.pre-aggregation",
    _boolean,
    True,
    "Fold what goes to a vectorized window, or in BATCH to a reduce, by key and pane before the exchange, where the result is "
    "provably the same; "
    "explain() tells where, and why not elsewhere.",
)
RUNTIME_MODE = _option(
    "execution.runtime-mode",
    _one_of("streaming", "batch", "automatic"),
    "streaming",
    "STREAMING: results as they come. BATCH: final results only. AUTOMATIC: BATCH if every source is bounded.",
)
TARGET = _option(
    "execution.target",
    _one_of("auto", "local", "batch", "continuous", "micro-batch"),
    "auto",
    "Where the plan runs: in this process (local), as a Spark batch job (batch), in Spark's real-time mode "
    "(continuous), as a Spark batch job per micro-batch of a streaming DataFrame (micro-batch). auto: what from_spark() "
    "reads decides, else batch under BATCH, else continuous.",
)
MICRO_BATCH_INTERVAL = _option(
    "execution.micro-batch.interval",
    _at_least(0, duration_ms),
    0,
    "How often a micro-batch begins (ms). 0: as soon as the one before it is done.",
)
AVAILABLE_NOW = _option(
    "execution.micro-batch.available-now",
    _boolean,
    False,
    "Read what a streaming DataFrame has at the start, and then end; the next start of the same job resumes from there.",
)
CANCEL_GRACE = _option(
    "task.cancellation.timeout",
    _at_least(0, duration_ms),
    5000,
    "How long a cancelled worker may run on before it is ended (ms).",
)
START_TIMEOUT = _option(
    "execution.start-timeout",
    _at_least(1, duration_ms),
    180_000,
    "How long the tasks may take to report for work (ms).",
)
HEARTBEAT_INTERVAL = _option(
    "heartbeat.interval",
    _at_least(1, duration_ms),
    10_000,
    "How often the driver and the workers of a job on Spark send each other heartbeats (ms); three at least within "
    "heartbeat.timeout.",
)
HEARTBEAT_TIMEOUT = _option(
    "heartbeat.timeout",
    _at_least(1, duration_ms),
    50_000,
    "After how long without a heartbeat a worker counts as lost and the job restarts, and a worker ends whose driver is "
    "silent (ms).",
)
MASTER = _option("spark.master", _text, "", "Spark master for a session made by Funken. Empty: local, slots as needed.")
CLASS_DATA_SHARING = _option(
    "execution.class-data-sharing",
    _boolean,
    True,
    "Keep an archive of Spark's classes (170 MB) in the user's cache folder, with which later JVMs start in half the time.",
)
WARM_SESSION = _option(
    "execution.warm-session",
    _boolean,
    True,
    "Join the Spark session that `funken up` keeps warm, if there is one with the same settings and no program has it.",
)
MANAGED_MEMORY = _option(
    "execution.memory.managed",
    memory_bytes,
    256 * 2**20,
    "What the operators of one subtask of a DataSet program may keep in memory, in serialised bytes: sorts, hash tables, queues "
    "and caches have equal parts of one half; the other half is for those that need more. What is more goes to io.tmp.dirs. "
    "Python objects take several times as much of the process.",
)
FEEDBACK_MEMORY = _option(
    "execution.memory.feedback",
    memory_bytes,
    32 * 2**20,
    "Bytes that may wait in a task's memory to enter a loop (DataStream.iterate) again. What is more goes to io.tmp.dirs.",
)
SHUFFLE_MEMORY = _option(
    "execution.shuffle-memory", _at_least(1), 256 * 1024, "Bytes in flight per task and direction in continuous mode."
)

_CHECKPOINTING = "execution.checkpointing."
CHECKPOINT_INTERVAL = _option(
    _CHECKPOINTING + "interval",
    _at_least(0, duration_ms, or_else=-1),
    -1,
    "Time from the start of a checkpoint to the next (ms). 0 or -1: none.",
)
CHECKPOINT_MODE = _option(
    _CHECKPOINTING + "mode",
    _one_of("exactly_once", "at_least_once"),
    "exactly_once",
    "EXACTLY_ONCE: a record counts once in the state after a failure. AT_LEAST_ONCE: no alignment of channels.",
)
CHECKPOINT_TIMEOUT = _option(
    _CHECKPOINTING + "timeout",
    _at_least(1, duration_ms),
    600_000,
    "How long a checkpoint may take before it is given up (ms).",
)
CHECKPOINT_MIN_PAUSE = _option(
    _CHECKPOINTING + "min-pause",
    _at_least(0, duration_ms),
    0,
    "Shortest time from the end of a checkpoint to the start of the next (ms). Above 0 there is one at a time.",
)
CHECKPOINT_CONCURRENT = _option(
    _CHECKPOINTING + "max-concurrent-checkpoints", _at_least(1), 1, "How many checkpoints may be under way at a time."
)
CHECKPOINT_TOLERABLE = _option(
    _CHECKPOINTING + "tolerable-failed-checkpoints",
    _at_least(0),
    0,
    "How many checkpoints in a row may fail before the job is restarted.",
)
CHECKPOINT_RETENTION = _option(
    _CHECKPOINTING + "externalized-checkpoint-retention",
    _one_of("no_externalized_checkpoints", "delete_on_cancellation", "retain_on_cancellation"),
    "no_externalized_checkpoints",
    "Whether checkpoints are kept when the job was cancelled or has failed by itself: never, DELETE_ON_CANCELLATION "
    "(after a failure only), RETAIN_ON_CANCELLATION (after both; also if a job with an execution.job-id does not set this). "
    "A job that has finished, which one stopped with a savepoint has, keeps none; one whose environment failed keeps them.",
)
CHECKPOINT_DIR = _option(
    _CHECKPOINTING + "dir",
    _text,
    "",
    "Where checkpoints are written: a path or URI.",
    ("state.checkpoints.dir", "state.backend.fs.checkpointdir"),
)
SAVEPOINT_DIR = _option(
    _CHECKPOINTING + "savepoint-dir",
    _text,
    "",
    "Where savepoints are written if none is named. Empty: beside the checkpoints.",
    ("state.savepoints.dir", "savepoints.state.backend.fs.dir"),
)
SAVEPOINT_ON_SIGTERM = _option(
    "execution.savepoint-on-sigterm.timeout",
    _at_least(0, duration_ms),
    0,
    "How long `funken run` may take, when SIGTERM comes, for a savepoint of each job that runs, at which it ends (ms); then it "
    "is stopped as it is. 0: it is stopped at once, and resumes from its newest checkpoint.",
)
CHECKPOINTS_RETAINED = _option(
    _CHECKPOINTING + "num-retained",
    _at_least(1),
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
    "Let barriers overtake records, which then become part of the checkpoint. Needs EXACTLY_ONCE and one checkpoint at a time.",
    ("execution.checkpointing.unaligned",),
)
ALIGNED_TIMEOUT = _option(
    _CHECKPOINTING + "aligned-checkpoint-timeout",
    _at_least(0, duration_ms),
    0,
    "With unaligned checkpoints: how long a task waits for the barriers of all channels before they overtake (ms). 0: not "
    "at all.",
    ("execution.checkpointing.alignment-timeout",),
)
JOB_ID = _option(
    "execution.job-id",
    _text,
    "",
    "The job's id. A driver that starts again with the id of an earlier run resumes from its "
    "newest checkpoint. Empty: a new one.",
)
RESTORE_PATH = _option(
    "execution.state-recovery.path", _text, "", "The savepoint to start from.", ("execution.savepoint.path",)
)
RESTORE_IGNORING = _option(
    "execution.state-recovery.ignore-unclaimed-state",
    _boolean,
    False,
    "Start from a savepoint although the program lacks operators that have state in it.",
    ("execution.savepoint.ignore-unclaimed-state",),
)
ALLOW_FRESH_START = _option(
    "execution.allow-fresh-start",
    _boolean,
    False,
    "Begin without state where a job had complete checkpoints, and none of them can be used.",
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
    _between(lambda part: 0 < part < 1, "more than 0 and less than 1"),
    0.5,
    "Which part of that is for write buffers.",
)
ROCKSDB_DIRECTORY = _option(
    "state.backend.rocksdb.localdir",
    _text,
    "",
    "Where the rocksdb backend has its files. Empty: io.tmp.dirs.",
    ("state.backend.rocksdb.checkpointdir",),
)
ROCKSDB_MIN_FREE = _option(
    "state.backend.rocksdb.min-free-space",
    memory_bytes,
    64 * 2**20,
    "How much space must stay free on the disk of the rocksdb backend (bytes). With less, a task fails before RocksDB waits for "
    "space that does not come. 0: it is not looked at.",
)
TEMPORARY_DIRECTORIES = _option(
    "io.tmp.dirs",
    _text,
    "",
    "Local folders of the workers for temporary files, with commas between them; tasks are spread over them. Empty: the "
    "system's.",
    ("taskmanager.tmp.dirs",),
)
PROCESS_MEMORY = _option(
    "taskmanager.memory.process.size",
    memory_bytes,
    0,
    "How much memory a worker process may use; with more a task fails, and says which operators hold how much state. 0: as "
    "much as leaves 3 % of the machine's (or container's) memory free.",
)


def options() -> list[Option[Any]]:
    """Return every declared option, by key.

    >>> [(option.key, option.default) for option in options() if option.key.startswith("execution.block.")]
    [('execution.block.bytes', 262144), ('execution.block.records', 8000)]
    """
    return [_OPTIONS[key] for key in sorted(_OPTIONS)]


def declared(name: str) -> Option[Any] | None:
    """Return the option of a key, also of one it had before; ``None`` if there is none.

    >>> declared("state.checkpoints.dir").key, declared("paralelism.default")
    ('execution.checkpointing.dir', None)
    """
    return _OPTIONS.get(name) or _OLDER.get(name) or _OPTIONS.get(_of_any_reporter(name, _OPTIONS))


def all_names() -> list[str]:
    """Return the keys of all options, those they had before included.

    >>> {"execution.checkpointing.dir", "state.checkpoints.dir"} < set(all_names())
    True
    """
    return [*_OPTIONS, *_OLDER]
