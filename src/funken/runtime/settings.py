"""The settings of a task besides the plan: plain values out of the configuration, and a job's identity."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from dataclasses import field

from funken import config
from funken.checkpoint.incremental import SnapshotOptions
from funken.checkpoint.restore import SubtaskRestore
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration
from funken.runtime.log_entries import LogSettings
from funken.state.backend import StateSettings

# ---- Heartbeats: when a silent peer counts as lost. Pure: time (s) is an argument.
#
# Driver and workers send each other heartbeats; each side has a ``HeartbeatMonitor``. A peer is lost when nothing
# has arrived from it for the timeout *while this side was able to receive*: time in which the observer itself was
# stopped (a stopped process, a machine that was suspended), or was busy with what the peer had sent before, is not
# silence.


RESUMED_SECONDS = 1.0
"""For how long after a pause of its own a process takes a peer that hangs up for one that has given it up."""


@dataclass(frozen=True)
class HeartbeatSettings:
    """Plain data; travels with the plan. Durations are in ms."""

    interval: int = 10_000
    timeout: int = 50_000

    @staticmethod
    def of(configuration: Configuration) -> HeartbeatSettings:
        """Read them out of a configuration; raise ``InvalidConfiguration`` if they do not fit each other."""
        interval, timeout = configuration.get(config.HEARTBEAT_INTERVAL), configuration.get(config.HEARTBEAT_TIMEOUT)
        if not 0 < interval <= timeout:
            raise InvalidConfiguration(
                f"{config.HEARTBEAT_INTERVAL.key} is {interval} ms and {config.HEARTBEAT_TIMEOUT.key} is {timeout} ms; the "
                "interval has to be positive and at most the timeout, better a fifth of it."
            )
        return HeartbeatSettings(interval, timeout)

    @property
    def send_seconds(self) -> float:
        """The time between two heartbeats (s): at least three have to fit into the timeout."""
        return min(self.interval, self.timeout / 3) / 1000

    @property
    def tick_seconds(self) -> float:
        """The time between two checks (s)."""
        return min(1.0, self.send_seconds, self.timeout / 10_000)


class Peer:
    """A peer whose heartbeats are expected; any thread may record that something arrived."""

    __slots__ = ("_since",)

    def __init__(self, now: float) -> None:
        self._since = now

    def heard(self, now: float) -> None:
        """Something has arrived."""
        self._since = now

    def hold(self) -> None:
        """Stop counting silence until the next ``heard``: this side reads nothing meanwhile."""
        self._since = math.inf

    def silence(self, now: float) -> float:
        """Return the time without a message while this side was able to receive (s)."""
        return max(0.0, now - self._since)

    def excuse(self, seconds: float) -> None:
        """This side was not able to receive for so long."""
        self._since += seconds


class HeartbeatMonitor:
    """Watches peers. Call ``tick`` often; a gap of more than a quarter of the timeout between two calls is a pause.

    >>> monitor = HeartbeatMonitor(timeout=2.0, now=0.0)
    >>> worker = monitor.add(now=0.0)
    >>> [monitor.tick(now / 2) for now in range(1, 4)]
    [[], [], []]
    >>> monitor.tick(2.0) == [worker], monitor.tick(2.5)
    (True, [])
    """

    def __init__(self, timeout: float, now: float) -> None:
        self.timeout = timeout
        self._longest = timeout / 4
        self._ticked = now
        self._resumed = -math.inf
        self._peers: dict[Peer, None] = {}

    def add(self, now: float) -> Peer:
        """Watch another peer."""
        peer = Peer(now)
        self._peers[peer] = None
        return peer

    def remove(self, peer: Peer) -> None:
        """Do not watch a peer any more; more than once does no harm."""
        self._peers.pop(peer, None)

    def tick(self, now: float) -> list[Peer]:
        """Return the peers that are lost by now; each is returned once, and not watched any more."""
        passed, self._ticked = now - self._ticked, now
        peers = list(self._peers)
        if passed > self._longest:
            for peer in peers:
                peer.excuse(min(passed - self._longest, peer.silence(now)))
        if passed >= self.timeout:
            self._resumed = now
        lost = [peer for peer in peers if peer.silence(now) >= self.timeout]
        for peer in lost:
            self.remove(peer)
        return lost

    def was_stopped(self, now: float) -> bool:
        """Return True if this side stood still for the timeout until just now: its peers may consider it lost."""
        return now - self._ticked >= self.timeout or now - self._resumed < RESUMED_SECONDS


OperatorSubtaskId = tuple[str, int]
"""A stable operator id and a subtask."""

PIECE_RECORDS = 2000
"""Of how many records a piece of work is at most; one of columns is of a multiple of it."""


@dataclass(frozen=True)
class CheckpointPlan:
    """The checkpoint settings of a task; ``folder`` is the job's, ``restores`` are the starts of its subtasks."""

    folder: str
    options: SnapshotOptions = field(default_factory=SnapshotOptions)
    align: bool = True
    unaligned_after: int | None = None
    """After how many ms of alignment a barrier becomes unaligned (0: at once), ``None``: never."""
    restores: Mapping[OperatorSubtaskId, SubtaskRestore] = field(default_factory=dict)
    restored_checkpoint_id: int | None = None
    """The id of the checkpoint or savepoint that the attempt starts from."""
    newest: int = 0
    """The same if it is one of this very job, else 0."""


@dataclass(frozen=True)
class LatencySettings:
    """The settings of latency markers: interval (ms; 0: never), granularity of the ages, and number of ages to keep."""

    interval: int = 0
    granularity: str = "operator"
    history: int = 128

    @staticmethod
    def of(configuration: Configuration, batch: bool) -> LatencySettings:
        """Read the settings out of a configuration; in batch, records wait for whole stages, and there are no markers."""
        return LatencySettings(
            0 if batch else configuration.get(config.LATENCY_INTERVAL),
            configuration.get(config.LATENCY_GRANULARITY),
            configuration.get(config.LATENCY_HISTORY),
        )


@dataclass(frozen=True)
class FeedbackSettings:
    """The memory of feedback in loops (bytes), and the folders of the rest."""

    memory: int = 32 * 2**20
    directories: tuple[str, ...] = ()

    @staticmethod
    def of(configuration: Configuration) -> FeedbackSettings:
        """Read the options.

        >>> FeedbackSettings.of(Configuration({"execution.memory.feedback": "1 kb", "io.tmp.dirs": "/fast,/large"}))
        FeedbackSettings(memory=1024, directories=('/fast', '/large'))
        """
        named = configuration.get(config.TEMPORARY_DIRECTORIES).split(",")
        directories = tuple(place.strip().removeprefix("file://") for place in named if place.strip())
        return FeedbackSettings(configuration.get(config.FEEDBACK_MEMORY), directories)


@dataclass(frozen=True)
class TaskSettings:
    """Plain data; travels with the plan. Durations are in ms."""

    job_id: str = "local"
    attempt: int = 0
    batch: bool = False
    together: bool = False
    """True if all tasks run at the same time; then sources wait until all are open: no record waits for a start-up."""
    pausing: bool = False
    """True if this is one micro-batch of a job: unbounded sources end with it, and the job pauses instead of ending."""
    object_reuse: bool = False
    inlining: bool = True
    block_records: int = 8000
    block_bytes: int = 256 * 1024
    buffer_timeout: int = 10
    queueing_target: int = 12
    cpu_scheduling: str = "batch"
    auto_watermark_interval: int = 200
    cancel_grace: int = 5000
    heartbeat: HeartbeatSettings = field(default_factory=HeartbeatSettings)
    checkpoints: CheckpointPlan | None = None
    state: StateSettings = field(default_factory=StateSettings)
    logs: LogSettings = field(default_factory=LogSettings)
    latency: LatencySettings = field(default_factory=LatencySettings)
    feedback: FeedbackSettings = field(default_factory=FeedbackSettings)
    job_parameters: dict[str, str] = field(default_factory=dict)

    @property
    def piece_records(self) -> int:
        """Number of records that a task handles at a time, but for columns: larger pieces mean longer bursts."""
        return min(self.block_records, PIECE_RECORDS)

    @staticmethod
    def of(configuration: Configuration, job_id: str, batch: bool, attempt: int = 0) -> TaskSettings:
        """Read the settings out of a configuration."""
        return TaskSettings(
            job_id=job_id,
            attempt=attempt,
            batch=batch,
            object_reuse=configuration.get(config.OBJECT_REUSE),
            inlining=configuration.get(config.INLINING),
            block_records=configuration.get(config.BLOCK_RECORDS),
            block_bytes=configuration.get(config.BLOCK_BYTES),
            buffer_timeout=configuration.get(config.BUFFER_TIMEOUT),
            queueing_target=configuration.get(config.QUEUEING_TARGET),
            cpu_scheduling=configuration.get(config.CPU_SCHEDULING),
            auto_watermark_interval=configuration.get(config.AUTO_WATERMARK_INTERVAL),
            cancel_grace=configuration.get(config.CANCEL_GRACE),
            heartbeat=HeartbeatSettings.of(configuration),
            state=StateSettings.of(configuration, batch),
            logs=LogSettings.of(configuration),
            latency=LatencySettings.of(configuration, batch),
            feedback=FeedbackSettings.of(configuration),
            job_parameters=configuration.get(config.JOB_PARAMETERS),
        )


def new_job_id() -> str:
    """Return 32 random hexadecimal digits, as Flink's job ids are."""
    return uuid.uuid4().hex
