"""Every option, once: key, type, default, meaning. The reference page is generated from here.

Keys are Flink's where Flink has the option, and ``older`` are names that Flink gave it before. A value is parsed by the
option's own function, which refuses what is not allowed: type, name or range. Flink's other options are in ``flink_options.txt``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from funken.config.values import at_least, between, boolean, duration_ms, integer, memory_bytes, one_of, same, text
from funken.config.values import at_least as _at_least
from funken.config.values import between as _between
from funken.config.values import boolean as _boolean
from funken.config.values import of_any_reporter as _of_any_reporter
from funken.config.values import one_of as _one_of
from funken.config.values import same as _same
from funken.config.values import string_map as _string_map
from funken.config.values import text as _text
from funken.dataclass import dataclass

T = TypeVar("T")


@dataclass(frozen=True)
class Option(Generic[T]):
    """One option: its name, its meaning, and the parser of its values; ``older`` are former names.

    >>> CANCEL_GRACE.key, CANCEL_GRACE.default, CANCEL_GRACE.parse("1 s")
    ('task.cancellation.timeout', 5000, 1000)
    """

    key: str
    parse: Callable[[Any], T]
    default: T
    doc: str
    older: tuple[str, ...] = ()

    @property
    def is_long(self) -> bool:
        """True for a duration of which a few milliseconds are hardly meant: by default it is longer, or none.

        >>> CANCEL_GRACE.is_long, BUFFER_TIMEOUT.is_long, PARALLELISM.is_long
        (True, False, False)
        """
        default: Any = self.default
        return getattr(self.parse, "__wrapped__", self.parse) is duration_ms and not 0 < default <= _SHORT


_SHORT = 200
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


# ---- The options about how records travel and wait: throughput against latency.


BUFFER_TIMEOUT = _option(
    "execution.buffer-timeout.interval",
    at_least(0, duration_ms, or_else=-1),
    10,
    "How long a record may wait for its block to fill (ms), at most. 0: not at all; -1: until the block is full.",
    ("execution.buffer-timeout",),
)
BLOCK_RECORDS = _option(
    "execution.block.records",
    at_least(1),
    8000,
    "Records in a full block between tasks, if its bytes allow. A task handles up to 2000 of them at a time, more only of "
    "columns and where fast records end in the vertex of their source.",
)
BLOCK_BYTES = _option("execution.block.bytes", at_least(1), 256 * 1024, "Bytes a block should not exceed by much.")
QUEUEING_TARGET = _option(
    "execution.queueing-target",
    at_least(0, duration_ms),
    12,
    "How long records may queue between tasks under full load before the sources pause, or hold less in flight (ms). 0: "
    "never; then Spark's buffers alone bound what is in flight.",
)
CPU_SCHEDULING = _option(
    "execution.cpu-scheduling",
    one_of("batch", "normal"),
    "batch",
    "The policy by which Linux schedules the threads of workers and of their executor. BATCH (SCHED_BATCH): a thread that is "
    "woken takes no core from another, for throughput; NORMAL: it may, for latency where cores are never idle.",
)

AUTO = "auto"


def _subtasks(value: Any) -> int | str:
    """Return a number of 1 or more, or ``AUTO``."""
    return AUTO if str(value).strip().lower() == AUTO else at_least(1)(value)


SUBTASKS_PER_WORKER: Option[int | str] = _option(
    "execution.subtasks-per-worker",
    _subtasks,
    AUTO,
    "How many subtasks of a stage share a Python worker of a continuous job, at most, and the one thread of it that calls "
    "functions. With more subtasks than cores a record then costs less CPU, and the job less memory and fewer task slots; but a "
    "function that waits, for a service say, makes the other subtasks of its worker wait. auto: on one machine, a stage that has "
    "more subtasks than there are cores has a worker per core if nothing in it can wait, as far as its functions can be read; "
    "else a worker has one subtask.",
)


# ---- The options of connectors; declared as those in ``options.py`` are.


COMMITTER_RETRIES = _option(
    "sink.committer.retries",
    at_least(0, integer),
    10,
    "How often a commit that a sink's committer wants to retry later is retried before the job fails.",
)
COMMITTER_TIMEOUT = _option(
    "sink.committer.timeout",
    at_least(1, duration_ms),
    600_000,
    "How long one call of a sink's committer may take before the job fails (ms).",
)


# ---- The options about what happens after a failure: the restart strategies, which are Flink's.


RESTART_STRATEGY = _option(
    "restart-strategy.type",
    same(
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
    "restart-strategy.fixed-delay.attempts", at_least(0), 1, "How many times fixed-delay restarts a job."
)
FIXED_DELAY = _option(
    "restart-strategy.fixed-delay.delay",
    at_least(0, duration_ms),
    1000,
    "How long fixed-delay waits before a restart (ms).",
)
FAILURE_RATE_MAX = _option(
    "restart-strategy.failure-rate.max-failures-per-interval",
    at_least(1),
    1,
    "How many failures in an interval failure-rate restarts after.",
)
FAILURE_RATE_INTERVAL = _option(
    "restart-strategy.failure-rate.failure-rate-interval",
    at_least(1, duration_ms),
    60_000,
    "The interval of failure-rate (ms).",
)
FAILURE_RATE_DELAY = _option(
    "restart-strategy.failure-rate.delay",
    at_least(0, duration_ms),
    1000,
    "How long failure-rate waits before a restart (ms).",
)
_EXPONENTIAL = "restart-strategy.exponential-delay."
EXPONENTIAL_INITIAL = _option(
    _EXPONENTIAL + "initial-backoff", at_least(1, duration_ms), 1000, "How long exponential-delay waits at first (ms)."
)
EXPONENTIAL_MAX = _option(
    _EXPONENTIAL + "max-backoff", at_least(1, duration_ms), 60_000, "How long exponential-delay waits at most (ms)."
)
EXPONENTIAL_MULTIPLIER = _option(
    _EXPONENTIAL + "backoff-multiplier",
    between(lambda factor: factor > 1, "more than 1"),
    1.5,
    "By how much the wait grows from failure to failure.",
)
EXPONENTIAL_RESET = _option(
    _EXPONENTIAL + "reset-backoff-threshold",
    at_least(1, duration_ms),
    3_600_000,
    "How long a job must have run for the wait to start over (ms).",
)
EXPONENTIAL_JITTER = _option(
    _EXPONENTIAL + "jitter-factor",
    between(lambda share: 0 <= share <= 1, "from 0 to 1"),
    0.1,
    "The share of the wait that is random, up or down.",
)
EXPONENTIAL_ATTEMPTS = _option(
    _EXPONENTIAL + "attempts-before-reset-backoff",
    at_least(1),
    2**31 - 1,
    "How many restarts exponential-delay allows before the wait starts over.",
)


# ---- The options of the adaptive mode and of scaling by load; Flink's names where Flink has the option.


SCHEDULER = _option(
    "jobmanager.scheduler",
    one_of("default", "adaptive", "adaptivebatch"),
    "default",
    "adaptive: a continuous job with checkpoints begins with the slots that there are, if these are too few for its parallelism, "
    "and goes on with more when more come. The other values make no difference here.",
)
ADAPTIVE_MIN_INCREASE = _option(
    "jobmanager.adaptive-scheduler.min-parallelism-increase",
    at_least(1),
    1,
    "By how much the parallelism has to rise at least to be worth a restart.",
)
ADAPTIVE_COOLDOWN = _option(
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling",
    at_least(0, duration_ms),
    30_000,
    "For how long (ms) after a change of the parallelism there is no other. It doubles with every change that is refused.",
)
ADAPTIVE_STABILIZATION = _option(
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout",
    at_least(0, duration_ms),
    60_000,
    "For how long (ms) slots have to be there before the parallelism rises.",
)
SLOT_REQUEST_TIMEOUT = _option(
    "slot.request.timeout",
    at_least(0, duration_ms),
    30_000,
    "How long (ms) a continuous job on a cluster waits for enough slots when it begins: executors register one after the other.",
)
AUTOSCALER = _option(
    "job.autoscaler.enabled",
    boolean,
    False,
    "Whether the parallelism follows the load, within the bounds of job.autoscaler.vertex.*. Needs checkpoints.",
)
AUTOSCALER_LOWEST = _option(
    "job.autoscaler.vertex.min-parallelism", at_least(1), 1, "The least parallelism that scaling chooses."
)
AUTOSCALER_HIGHEST = _option(
    "job.autoscaler.vertex.max-parallelism", at_least(1), 200, "The greatest parallelism that scaling by load chooses."
)
_share = between(lambda number: 0 < number <= 1, "above 0, and at most 1")
AUTOSCALER_TARGET = _option(
    "job.autoscaler.utilization.target", _share, 0.7, "How busy the busiest vertex is to be after a change."
)
AUTOSCALER_MIN = _option(
    "job.autoscaler.utilization.min", _share, 0.4, "Below which busy share of the busiest vertex the parallelism falls."
)
AUTOSCALER_MAX = _option(
    "job.autoscaler.utilization.max",
    _share,
    1.0,
    "Above which busy share of the busiest vertex the parallelism rises, also if no source is held back.",
)
AUTOSCALER_WINDOW = _option(
    "job.autoscaler.metrics.window", at_least(1_000, duration_ms), 900_000, "Over how long (ms) load is averaged."
)
AUTOSCALER_STABILIZATION = _option(
    "job.autoscaler.stabilization.interval",
    at_least(0, duration_ms),
    300_000,
    "For how long (ms) after a start or a change load does not count.",
)


# ---- The options of high availability; Flink's names where Flink has the option.


HA_TYPE = _option(
    "high-availability.type",
    one_of("none", "lease", "zookeeper"),
    "none",
    "How several drivers of a job agree which of them runs it; the others are standbys. lease: by a file in "
    "high-availability.storageDir; zookeeper: needs `pip install 'funken[zookeeper]'`.",
)
HA_CLUSTER_ID = _option(
    "high-availability.cluster-id",
    text,
    "default",
    "What the drivers of one job have in common. It is the job's id too, if execution.job-id is not set.",
)
HA_STORAGE = _option(
    "high-availability.storageDir",
    text,
    "",
    "Where leases are, and how jobs have ended; all drivers have to reach it. Empty: execution.checkpointing.dir.",
)
HA_LEASE = _option(
    "high-availability.lease.duration",
    at_least(500, duration_ms),
    6_000,
    "For how long (ms) a leader leads that is silent. A standby takes over when it has seen no renewal for so long.",
)
HA_ZOOKEEPER_QUORUM = _option(
    "high-availability.zookeeper.quorum", text, "", "The servers of ZooKeeper: `host1:2181,host2:2181`."
)
HA_ZOOKEEPER_ROOT = _option(
    "high-availability.zookeeper.path.root", text, "/funken", "The node of ZooKeeper below which all is kept."
)
HA_ZOOKEEPER_SESSION = _option(
    "high-availability.zookeeper.client.session-timeout",
    at_least(500, duration_ms),
    6_000,
    "After how long (ms) without a sign of life ZooKeeper lets a standby take over; its server bounds this.",
)
HA_ZOOKEEPER_CONNECTION = _option(
    "high-availability.zookeeper.client.connection-timeout",
    at_least(500, duration_ms),
    15_000,
    "How long (ms) a driver tries to reach ZooKeeper when it starts; after that its job fails. A driver that has reached it "
    "once goes on trying.",
)


__all__ = [
    "ADAPTIVE_COOLDOWN",
    "ADAPTIVE_MIN_INCREASE",
    "ADAPTIVE_STABILIZATION",
    "ALIGNED_TIMEOUT",
    "ALLOW_FRESH_START",
    "AUTO",
    "AUTOSCALER",
    "AUTOSCALER_HIGHEST",
    "AUTOSCALER_LOWEST",
    "AUTOSCALER_MAX",
    "AUTOSCALER_MIN",
    "AUTOSCALER_STABILIZATION",
    "AUTOSCALER_TARGET",
    "AUTOSCALER_WINDOW",
    "AUTO_WATERMARK_INTERVAL",
    "AVAILABLE_NOW",
    "BLOCK_BYTES",
    "BLOCK_RECORDS",
    "BUFFER_TIMEOUT",
    "CANCEL_GRACE",
    "CHAINING",
    "CHECKPOINTS_RETAINED",
    "CHECKPOINT_CONCURRENT",
    "CHECKPOINT_DIR",
    "CHECKPOINT_INCREMENTAL",
    "CHECKPOINT_INLINE",
    "CHECKPOINT_INTERVAL",
    "CHECKPOINT_MIN_PAUSE",
    "CHECKPOINT_MODE",
    "CHECKPOINT_RETENTION",
    "CHECKPOINT_TIMEOUT",
    "CHECKPOINT_TOLERABLE",
    "CLASS_DATA_SHARING",
    "COMMITTER_RETRIES",
    "COMMITTER_TIMEOUT",
    "CPU_SCHEDULING",
    "EXPONENTIAL_ATTEMPTS",
    "EXPONENTIAL_INITIAL",
    "EXPONENTIAL_JITTER",
    "EXPONENTIAL_MAX",
    "EXPONENTIAL_MULTIPLIER",
    "EXPONENTIAL_RESET",
    "FAILURE_RATE_DELAY",
    "FAILURE_RATE_INTERVAL",
    "FAILURE_RATE_MAX",
    "FEEDBACK_MEMORY",
    "FIXED_DELAY",
    "FIXED_DELAY_ATTEMPTS",
    "HA_CLUSTER_ID",
    "HA_LEASE",
    "HA_STORAGE",
    "HA_TYPE",
    "HA_ZOOKEEPER_CONNECTION",
    "HA_ZOOKEEPER_QUORUM",
    "HA_ZOOKEEPER_ROOT",
    "HA_ZOOKEEPER_SESSION",
    "HEARTBEAT_INTERVAL",
    "HEARTBEAT_TIMEOUT",
    "INLINING",
    "JOB_ID",
    "JOB_PARAMETERS",
    "MANAGED_MEMORY",
    "MASTER",
    "MAX_PARALLELISM",
    "MAX_PARTIAL_MATCHES",
    "MICRO_BATCH_INTERVAL",
    "NAME",
    "OBJECT_REUSE",
    "ON_ERROR",
    "PARALLELISM",
    "PRE_AGGREGATION",
    "PROCESS_MEMORY",
    "QUEUEING_TARGET",
    "RESTART_STRATEGY",
    "RESTORE_IGNORING",
    "RESTORE_PATH",
    "ROCKSDB_DIRECTORY",
    "ROCKSDB_MEMORY",
    "ROCKSDB_MIN_FREE",
    "ROCKSDB_WRITE_BUFFERS",
    "RUNTIME_MODE",
    "SAVEPOINT_DIR",
    "SAVEPOINT_ON_SIGTERM",
    "SCHEDULER",
    "SHUFFLE_MEMORY",
    "SLOT_REQUEST_TIMEOUT",
    "START_TIMEOUT",
    "STATE_BACKEND",
    "SUBTASKS_PER_WORKER",
    "TARGET",
    "TEMPORARY_DIRECTORIES",
    "UNALIGNED",
    "VECTORIZED",
    "WARM_SESSION",
    "Option",
    "T",
    "all_names",
    "declared",
    "options",
]
