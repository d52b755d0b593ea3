"""A job as the runners see it, and the runners by name.

A runner takes a ``Job`` and returns when it has finished, was cancelled, or raises what made it fail. Runners are
found by name and imported when first used: the API refers to Spark only by the text ``funken.spark.submit``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from funken import config, extras
from funken.checkpoint.restart_strategy import restart_strategy
from funken.checkpoint.restore import Restoration
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import (
    CheckpointIncompatible,
    EnvironmentNotReady,
    InvalidProgram,
    JobExecutionError,
    RescaleDue,
    TooFewTaskSlots,
)
from funken.ids import Millis
from funken.io.temporary import cache_folder
from funken.plan.physical import PhysicalPlan
from funken.plan.rules.operators import saved_in_keyed_state
from funken.plan.rules.stage import RewriteStage
from funken.runtime.chain.log_capture import FORWARDED
from funken.runtime.driver.diagnosis import JobDiagnosis, JobStacks, JobWarning
from funken.runtime.driver.job_checkpoints import JobCheckpoints
from funken.runtime.driver.master import JobMaster
from funken.runtime.job.machine import JobMachine
from funken.runtime.job.masking import masked, masked_text, secrets_of
from funken.runtime.job.scaling import Begun, ChangeScale, LoadObserved, Refused, ScalingMachine, ScalingSettings
from funken.runtime.job.snapshot import (
    CheckpointsSnapshot,
    JobSnapshot,
    LogPage,
    MetricsHistory,
    SubtaskMetrics,
    job_graph,
    vertices_of,
)
from funken.runtime.job.states import (
    CancelRequested,
    ExecutionMoved,
    ExecutionsCreated,
    ExecutionState,
    JobCommand,
    JobEvent,
    JobStatus,
    SourcesChecked,
    StopAttempt,
)
from funken.runtime.log_entries import LogEntry, level_name, on_lines
from funken.runtime.messages import (
    MetricsReport,
    OperatorWarning,
    StacksSampled,
    TaskCommand,
    TaskEnded,
    TaskEvent,
    TaskFailed,
    TaskId,
    TaskLogged,
    TaskOpening,
    TaskStarted,
    ThreadsDumped,
)
from funken.runtime.process import Interruption
from funken.runtime.settings import TaskSettings
from funken.timing.clock import SystemClock

# ---- Another parallelism for a job that runs: a checkpoint, then another attempt that starts from it.
#
# The new plan is made before anything stops, so that a parallelism that is not possible is refused while the job
# runs. If there are too few slots for the attempt, or its state cannot be distributed so, the job goes back to the
# parallelism that it had. Operators whose parallelism the program sets keep it. While a job is being rescaled it
# cannot be rescaled again.
#
# What may want that is whoever operates the job, or ``Elasticity``: it observes slots and load, and does what its
# machine (``runtime/job/scaling.py``) decides.


logger = logging.getLogger(__name__)

_LOOK_MS = 1_000
_UNBOUNDED = 1 << 30
_NEVER = 1 << 31

Recompile = Callable[[int], RewriteStage]


@dataclass(slots=True)
class RescaleRequest:
    """One change of the parallelism; ``begun``: the attempt with it has been made."""

    parallelism: int
    stage: RewriteStage
    former: RewriteStage
    future: Future[int]
    begun: bool = False


class Rescaling:
    """The changes of the parallelism of one job, one at a time; thread-safe."""

    def __init__(self, name: str, recompile: Recompile | None) -> None:
        self._name = name
        self._recompile = recompile
        self._lock = threading.Lock()
        self._current: RescaleRequest | None = None

    def prepare(self, parallelism: int, former: RewriteStage) -> RescaleRequest:
        """Plan a change; raises ``InvalidProgram`` if it is not possible, or another is under way."""
        if self._recompile is None:
            raise InvalidProgram(
                f"job {self._name!r} cannot be rescaled while it runs: it has no checkpoints, or a runner that makes its own "
                "attempts. Stop it, and start it with another parallelism."
            )
        stage = self._recompile(parallelism)
        self._check(stage, former)
        future: Future[int] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            if self._current is not None:
                raise InvalidProgram(
                    f"job {self._name!r} is being rescaled to {self._current.parallelism} already; wait until that is done."
                )
            self._current = RescaleRequest(parallelism, stage, former, future)
            return self._current

    def _check(self, stage: RewriteStage, former: RewriteStage) -> None:
        """Refuse a plan to which the job's checkpoints cannot be distributed."""
        limits = {node.id: node.max_parallelism for node in former.compiled.nodes}
        for node in stage.compiled.nodes:
            if node.max_parallelism != limits[node.id]:
                raise InvalidProgram(
                    f"job {self._name!r}: operator {node.name!r} has {limits[node.id]} key groups, so its parallelism cannot be "
                    f"{node.parallelism}. A job keeps the maximum parallelism that it began with."
                )

    def saved(self, rescale: RescaleRequest, made: Future[str], fail: Callable[[JobExecutionError], None]) -> None:
        """The checkpoint is complete, or has failed: let the attempt end, or abandon the change."""
        error = made.exception()
        if error is not None:
            self.give_up(JobExecutionError(f"job {self._name!r} is not rescaled: {error}"))
        else:
            fail(RescaleDue(f"the job continues with parallelism {rescale.parallelism}"))

    def begin(self) -> RewriteStage | None:
        """Return the stage that plans the next attempt, if that changes."""
        with self._lock:
            if self._current is None or self._current.begun or self._current.future.done():
                return None
            self._current.begun = True
            return self._current.stage

    def started(self) -> None:
        """All tasks of an attempt run."""
        with self._lock:
            current = self._current
            if current is None or not current.begun:
                return
            self._current = None
        current.future.set_result(current.parallelism)

    def revert(self, error: BaseException) -> RewriteStage | None:
        """Return the stage to go back to, if an attempt with another parallelism could not begin: slots or state forbid it."""
        with self._lock:
            current = self._current
            if (
                current is None
                or not current.begun
                or not isinstance(error, EnvironmentNotReady | CheckpointIncompatible)
            ):
                return None
        self.give_up(error)
        return current.former

    def give_up(self, error: BaseException) -> None:
        """The change under way is not made."""
        with self._lock:
            current, self._current = self._current, None
        if current is not None:
            current.future.set_exception(error)


class Elasticity:
    """The parallelism of one job as slots and load have it; ``rescale`` begins a change, ``recompile`` plans one.

    Called by the thread that runs the job, and by callbacks of the changes that it began.
    """

    def __init__(
        self, name: str, configuration: Configuration, stage: RewriteStage, recompile: Recompile,
        rescale: Callable[[int], Future[int]], now: Callable[[], Millis],
    ) -> None:  # fmt: skip
        self._name = name
        self._recompile = recompile
        self._now = now
        self._limits = {node.id: node.max_parallelism for node in stage.compiled.nodes}
        one, other = (recompile(each).compiled.nodes for each in (1, 2))
        #: the ids of the nodes whose parallelism is not the program's choice
        self._scalable = frozenset(a.id for a, b in zip(one, other, strict=True) if a.parallelism != b.parallelism)
        settings = ScalingSettings.of(configuration, self._parallelism(stage.compiled))
        assert settings is not None
        self._settings = settings
        self._rescale = rescale
        self._machine = ScalingMachine(settings)
        self._lock = threading.Lock()
        self._next = 0
        self._slots: dict[int, int] = {}

    def begun(self, plan: PhysicalPlan) -> None:
        """All tasks of an attempt run."""
        self._tell(Begun(self._parallelism(plan)))

    def _parallelism(self, plan: PhysicalPlan) -> int:
        return max((node.parallelism or 1 for node in plan.nodes if node.id in self._scalable), default=1)

    def look(self, plan: PhysicalPlan, metrics: Mapping[tuple[int, int], SubtaskMetrics], slots: int | None) -> None:
        """Look at the job, which runs, and begin a change if that is due.

        ``slots``: how many its session has; ``None``: as many as are wanted.
        """
        busy, pressed = load_of(plan, metrics, self._scalable)
        possible = self.possible(slots)
        command = self._tell(LoadObserved(possible, busy, pressed))
        if command is None:
            return
        logger.warning("job %r: continues with parallelism %d: %s", self._name, command.parallelism, command.reason)
        try:
            begun = self._rescale(command.parallelism)
        except InvalidProgram as error:  # another change is under way, or there are too few key groups
            self._refused(error)
        else:
            begun.add_done_callback(self._done)

    def _done(self, future: Future[int]) -> None:
        error = future.exception()
        if error is not None:
            self._refused(error)

    def _refused(self, error: BaseException) -> None:
        logger.warning("job %r keeps its parallelism: %s", self._name, error)
        self._tell(Refused())

    def _tell(self, event: LoadObserved | Begun | Refused) -> ChangeScale | None:
        with self._lock:
            return self._machine.handle(event, self._now())

    def due(self) -> bool:
        """Return True if it is time to look again."""
        now = self._now()
        if now < self._next:
            return False
        self._next = now + _LOOK_MS
        return True

    def possible(self, slots: int | None) -> int:
        """Return the highest parallelism within the bounds for which so many slots suffice; 0 if not even the lowest does."""
        low, high = self._settings.lowest - 1, self._settings.highest
        while low < high:  # the number of slots rises with the parallelism
            middle = (low + high + 1) // 2
            if self._needed(middle) <= (_UNBOUNDED if slots is None else slots):
                low = middle
            else:
                high = middle - 1
        return low if low >= self._settings.lowest else 0

    def fitting(self, former: RewriteStage, error: BaseException) -> RewriteStage | None:
        """Return the stage for fewer slots, if an attempt could not begin for lack of them; ``None`` if that is not possible."""
        if not isinstance(error, TooFewTaskSlots) or not error.available:
            return None
        parallelism = self.possible(error.available)
        if not parallelism or self._needed(parallelism) >= former.plan().slots:
            return None
        stage = self._recompile(parallelism)
        logger.warning(
            "job %r: begins with parallelism %d, there are %d slots", self._name, parallelism, error.available
        )
        return stage

    def _needed(self, parallelism: int) -> int:
        """Return the number of slots of a parallelism; ``_NEVER`` for one that the job's key groups do not allow."""
        if parallelism not in self._slots:
            try:
                stage = self._recompile(parallelism)
            except InvalidProgram:
                self._slots[parallelism] = _NEVER
            else:
                kept = all(self._limits[node.id] == node.max_parallelism for node in stage.compiled.nodes)
                self._slots[parallelism] = stage.plan().slots if kept else _NEVER
        return self._slots[parallelism]


def load_of(
    plan: PhysicalPlan, metrics: Mapping[tuple[int, int], SubtaskMetrics], scalable: Collection[int]
) -> tuple[float, float]:
    """Return the busy share of the busiest vertex of scalable nodes, and the share for which sources are held back.

    Both are shares, and means of the subtasks of a vertex.
    """
    busy = pressed = 0.0
    for vertex in plan.vertices:
        found = [metrics[vertex.id, each] for each in range(vertex.parallelism) if (vertex.id, each) in metrics]
        if not found:
            continue
        if any(node.id in scalable for node in vertex.nodes):
            busy = max(busy, sum(each.busy_ms_per_second for each in found) / len(found) / 1000)
        if vertex.stage == 0:
            pressed = max(pressed, sum(each.back_pressured_ms_per_second for each in found) / len(found) / 1000)
    return busy, pressed


# ---- The log of a job, in one place: what its tasks have logged, and what became of the job itself.
#
# The newest entries are kept in memory, numbered, for whoever asks; all of them go to a file, a JSON object per
# line, which is begun with the first and goes on in a new file when it is large (``.1`` is the newest of the older
# ones). Secrets are masked before anything is kept. A file that cannot be written costs a warning, not the job.


_KEPT = 5_000
_FILES = 200
_OWN = "funken.job"


class LogFiles:
    """A file and the older ones; private to the user."""

    def __init__(self, path: Path, size: int, older: int) -> None:
        self.path = path
        self._size = size
        self._older = older

    def write(self, lines: Iterable[str]) -> None:
        """Append lines; raises ``OSError``. The file is closed in between: a job by hand has no end that is certain."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = "".join(f"{line}\n" for line in lines)
        with open(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as file:
            file.write(text)
            full = file.tell() >= self._size
        if full:
            self._rotate()

    def _rotate(self) -> None:
        names = [self.path, *(Path(f"{self.path}.{number}") for number in range(1, self._older + 1))]
        for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
            if newer.exists():
                newer.replace(older)
        if not self._older:
            self.path.unlink(missing_ok=True)


class JobLogs:
    """The log of one job, from any thread; without ``from_workers`` that of a job in this process."""

    def __init__(self, job_id: str, configuration: Configuration, now: Callable[[], int]) -> None:
        self._now = now
        self._job_id = job_id
        self._configuration = configuration
        self._secrets = secrets_of(configuration.to_dict())
        self._forward = False
        self._lock = threading.Lock()
        self._entries: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self._count = 0
        folder = configuration.get(config.LOG_DIR)
        self._files = self._files_in(Path(folder)) if folder else None

    def _files_in(self, folder: Path) -> LogFiles:
        name = "".join(each if each.isalnum() or each in "_-" else "_" for each in self._job_id)
        size, older = self._configuration.get(config.LOG_FILE_SIZE), self._configuration.get(config.LOG_MAX)
        return LogFiles(folder / f"{name}.log", size, older)

    def from_workers(self) -> None:
        """The tasks run in other processes: the program's own logging gets their logs, by default with a file."""
        self._forward = True
        cache = cache_folder() if self._files is None else None
        if cache is not None:
            self._files = self._files_in(cache / "logs")
            _prune(self._files.path.parent)

    def masked(self, text: str) -> str:
        """Return a text without the secrets of the job's configuration."""
        return masked_text(text, self._secrets)

    @property
    def path(self) -> str:
        """The file, which is there when something was logged; empty if there is none."""
        return "" if self._files is None else str(self._files.path)

    def tell(self, level: int, text: str) -> None:
        """Add an entry of the driver's about the job."""
        self._add([LogEntry(self._now(), level, _OWN, text)], "", 0)

    def take(self, entries: Iterable[LogEntry], host: str = "", pid: int = 0) -> None:
        """Add a task's log entries."""
        for entry in self._add(entries, host, pid):
            if self._forward:
                _forward(entry)

    def _add(self, entries: Iterable[LogEntry], host: str, pid: int) -> list[LogEntry]:
        known = [
            entry._replace(message=self.masked(entry.message), host=entry.host or host, pid=entry.pid or pid)
            for entry in entries
        ]
        found = [_shown(entry) for entry in known]
        failure: OSError | None = None
        with self._lock:
            for each in found:
                self._entries.append(each | {"number": self._count})
                self._count += 1
            path = self.path
            if self._files is not None:
                try:
                    self._files.write(json.dumps(each) for each in found)
                except OSError as error:
                    failure, self._files = error, None
        if failure is not None:  # without the lock, which a handler of this very log may wait for
            logger.warning("the log of a job cannot be written to %s, and is kept in memory only: %s.", path, failure)
        return known

    def read(
        self, after: int | None, limit: int, fits: Callable[[dict[str, Any]], bool] = lambda entry: True
    ) -> LogPage:
        """Return the oldest entries from number ``after`` on, or the newest ones, of those that fit."""
        with self._lock:
            first = self._count - len(self._entries)
            if after is None:
                newest = islice((entry for entry in reversed(self._entries) if fits(entry)), limit)
                return LogPage(list(newest)[::-1], self._count, 0)
            found: list[dict[str, Any]] = []
            for entry in islice(self._entries, max(0, after - first), None):
                if len(found) == limit:
                    return LogPage(found, int(entry["number"]), max(0, first - after))
                if fits(entry):
                    found.append(entry)
            return LogPage(found, self._count, max(0, min(first, self._count) - after))


def _prune(folder: Path) -> None:
    """Remove the oldest files of a folder that has the logs of many jobs."""
    with contextlib.suppress(OSError):  # another driver does the same
        files = sorted(folder.glob("*.log*"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in files[_FILES:]:
            path.unlink(missing_ok=True)


def _shown(entry: LogEntry) -> dict[str, Any]:
    """Return an entry as the REST API and the files have it."""
    return {
        "timestamp": entry.time,
        "level": level_name(entry.level),
        "logger": entry.logger,
        "message": entry.message,
        "operator": entry.operator,
        "operator-id": entry.operator_id,
        "subtask": entry.subtask,
        "attempt": entry.attempt,
        "host": entry.host,
        "pid": entry.pid,
    }


def _forward(entry: LogEntry) -> None:
    """Hand an entry of a worker to the logging of this process, where the program's own handlers and levels hold."""
    target = logging.getLogger(entry.logger)
    if target.isEnabledFor(entry.level):
        who = f"{entry.operator or 'task'} ({entry.subtask})"
        record = target.makeRecord(
            entry.logger, entry.level, "(worker)", 0, "%s: %s", (who, on_lines(entry.message)), None
        )
        record.created, record.msecs = entry.time / 1000, float(entry.time % 1000)
        setattr(record, FORWARDED, True)
        target.handle(record)


@dataclass
class Job:
    """One submission: the plan, how it is to run, its life, and the master that follows it.

    ``machine`` decides about its life; it is changed by ``handle`` only. ``session`` is the runner's own.
    """

    plan: PhysicalPlan
    settings: TaskSettings
    configuration: Configuration
    master: JobMaster
    session: Any = None
    checkpoints: JobCheckpoints | None = None
    frame: Any = None
    """The Spark DataFrame whose rows the program reads, if it reads one."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    """The event that runners wait for: the machine has commanded to stop the attempt."""
    interruption: Interruption = field(default_factory=Interruption)
    machine: JobMachine = field(init=False)
    stage: RewriteStage = field(kw_only=True)
    """The stage that plans an attempt."""
    recompile: Recompile | None = field(default=None, kw_only=True)
    """The maker of a stage for another parallelism, if the job can change it."""
    slots: Callable[[], int] | None = field(default=None, kw_only=True)
    """Number of tasks that can run at the same time where the job runs, if that is bounded; the runner's."""

    def __post_init__(self) -> None:
        """Make its machine."""
        failures = self.configuration.get(config.EXCEPTION_HISTORY_SIZE)
        self.machine = JobMachine(restart_strategy(self.configuration), failures)
        self.rescaling = Rescaling(self.plan.name, None if self.checkpoints is None else self.recompile)
        self._elasticity = self._elastic()
        self._clock = SystemClock()
        self._lock = threading.RLock()
        self._events: deque[JobEvent] = deque()
        self._busy = False
        self._graph = job_graph(self.plan)
        self._metrics = MetricsHistory(self.plan)
        self._masked = masked(self.configuration.to_dict())
        self.stacks = JobStacks(self._send_to, self._clock)
        self.logs = JobLogs(self.settings.job_id, self.configuration, self._clock.now)
        commits = self.configuration.get(config.TARGET) == "micro-batch"  # each of them does, without a checkpoint
        checkpoints = commits or self.configuration.get(config.CHECKPOINT_INTERVAL) > 0
        self.diagnosis = JobDiagnosis(self.plan, self._log, self.settings.batch, checkpoints)
        self._in_keyed_state: frozenset[str] = frozenset()

    def _elastic(self) -> Elasticity | None:
        if ScalingSettings.of(self.configuration, 1) is None or self.recompile is None:
            return None
        if self.checkpoints is None:
            logger.warning("job %r keeps its parallelism: without checkpoints it cannot change it", self.plan.name)
            return None
        try:
            return Elasticity(self.plan.name, self.configuration, self.stage, self.recompile, self.rescale, self._now)
        except InvalidProgram as error:  # with two subtasks it could not run
            logger.warning("job %r keeps its parallelism: %s", self.plan.name, error)
            return None

    def look(self) -> None:
        """Look whether another parallelism is better, about once per second; called by the thread of the runner."""
        elasticity = self._elasticity
        if elasticity is None or not elasticity.due():
            return
        with self._lock:
            runs = self.machine.status is JobStatus.RUNNING and self.machine.all_opened
        if runs:
            slots = None if self.slots is None else self.slots()
            elasticity.look(self.plan, self._metrics.current(), slots)

    def _now(self) -> Millis:
        return Millis(int(self._clock.monotonic() * 1000))

    def _send_to(self, task: TaskId, command: TaskCommand) -> None:
        self.master.send(task, command)

    def _log(self, warning: JobWarning) -> None:
        logger.warning("job %r: %s", self.plan.name, warning.text)
        self.logs.tell(logging.WARNING, warning.text)

    def handle(self, event: JobEvent) -> JobCommand | None:
        """Pass an event to the machine, from any thread; return the command for the thread that runs the job."""
        commands: list[JobCommand] = []
        with self._lock:
            self._events.append(event)
            if self._busy:  # a signal handler, within the lines below: its event waits its turn
                return None
            self._busy, before, failed = True, self.machine.status, self.machine.failure_count
            try:
                while self._events:
                    now, wall = self._now(), Millis(self._clock.now())
                    commands += self.machine.handle(self._events.popleft(), now, wall)
            finally:
                self._busy = False
            status, failures = self.machine.status, self.machine.failures
            failure = failures[-1].message if self.machine.failure_count > failed and failures else None
        if failure is not None:
            self.logs.tell(logging.ERROR, failure)
        if status is not before:
            self.logs.tell(logging.INFO, f"The job switched from {before.name} to {status.name}.")
        for command in commands:
            if isinstance(command, StopAttempt):
                self.cancelled.set()
                self.master.cancel()
        return next((command for command in commands if not isinstance(command, StopAttempt)), None)

    def snapshot(self) -> JobSnapshot:
        """Return a picture of the job as it is, from any thread; nothing is stopped or waited for."""
        metrics, bottlenecks = self._metrics.current(), self._metrics.bottlenecks()
        checkpoints = CheckpointsSnapshot() if self.checkpoints is None else self.checkpoints.history.snapshot()
        with self._lock:
            machine = self.machine
            return JobSnapshot(
                self.settings.job_id,
                self.plan.name,
                machine.status,
                Millis(self._clock.now()),
                dict(machine.timestamps),
                machine.attempt,
                machine.restarts,
                self._graph,
                vertices_of(self._graph, machine, metrics),
                checkpoints,
                machine.failure_count,
                tuple(reversed(machine.failures)),
                tuple(reversed(machine.restart_history)),
                self._masked,
                self.master.coordinators.commits.metrics(),
                bottlenecks,
                self.master.coordinators.metrics(),
            )

    @property
    def restartable(self) -> bool:
        """True if another attempt makes sense.

        In a Spark batch job Spark itself has repeated what failed; and a job that has come to its end, with a commit that
        failed, can only be started anew.
        """
        return not self.master.buffers_output and not self.master.over

    def begin_attempt(self, attempt: int) -> None:
        """Make everything ready for an attempt: its settings, and from the second on a master of its own."""
        self.settings = replace(self.settings, attempt=attempt)
        self._restage(self.rescaling.begin())
        if attempt:
            former = self.master
            self.master = JobMaster(self.plan, collectors=former.collectors)
            former.close()
            self.master.coordinators.configuration = former.coordinators.configuration
            self.master.coordinators.threaded = former.coordinators.threaded
            self.master.coordinators.commits = former.coordinators.commits
        self.master.coordinators.settings = self.settings
        self.master.observe = partial(self._observe, self.master, attempt)
        self._metrics.clear()
        self.stacks.clear()
        self.diagnosis.begin_attempt()
        self.handle(ExecutionsCreated(attempt, tuple(self.master.tasks)))
        if self.checkpoints is not None:
            self.checkpoints.claim()
            restoration = self.checkpoints.restoration()
            self.settings = replace(self.settings, checkpoints=self.checkpoints.plan_for(restoration))
            self.master.coordinators.settings = self.settings
            self._plan_attempt(restoration)
            self.checkpoints.attach(self.master, attempt, restoration)
        if self.cancelled.is_set():
            self.master.cancel()

    def rescale(self, parallelism: int) -> Future[int]:
        """Begin to change the parallelism; the future is done when all tasks run with it.

        Raises ``InvalidProgram`` if that is not possible.
        """
        rescale = self.rescaling.prepare(parallelism, self.stage)
        assert self.checkpoints is not None
        made = self.checkpoints.checkpoint()
        made.add_done_callback(lambda made: self.rescaling.saved(rescale, made, self.master.fail))
        return rescale.future

    def _restage(self, stage: RewriteStage | None) -> None:
        """Plan the attempts from now on with another stage."""
        if stage is None:
            return
        self.stage, self.plan, self._in_keyed_state = stage, stage.plan(), frozenset()
        self._graph = job_graph(self.plan)
        self._metrics = MetricsHistory(self.plan)
        assert self.checkpoints is not None
        self.checkpoints.replan(self.plan)

    def revert(self, error: BaseException) -> bool:
        """Plan the next attempt for the slots that there are, if this one could not begin for lack of them.

        That is the parallelism before, if it was to change. Returns whether there is another plan.
        """
        stage = self.rescaling.revert(error)
        if stage is None and self._elasticity is not None:
            stage = self._elasticity.fitting(self.stage, error)
        self._restage(stage)
        return stage is not None

    def _plan_attempt(self, restoration: Restoration | None) -> None:
        """Apply the rules anew if the attempt starts from another form of window state than the plan is for."""
        restores = {} if restoration is None else restoration.subtasks
        found = saved_in_keyed_state((operator, restore.states) for (operator, _), restore in restores.items())
        if found != self._in_keyed_state:
            self.plan, self._in_keyed_state = self.stage.plan(found), found

    def _observe(self, master: JobMaster, attempt: int, event: TaskEvent) -> None:
        """Pass a task's event on to the machine as a change of its execution."""
        match event:
            case MetricsReport():
                self._metrics.take(event)
                self.diagnosis.take(event)
            case OperatorWarning():
                self.diagnosis.take(event)
            case StacksSampled() | ThreadsDumped():
                self.stacks.take(event)
            case TaskLogged(entries=entries, host=host, pid=pid):
                self.logs.take(entries, host, pid)
            case TaskOpening(task=task, pid=pid, host=host):
                self.handle(ExecutionMoved(attempt, task, ExecutionState.INITIALIZING, pid, host))
            case TaskStarted(task=task, pid=pid, host=host):
                self.handle(ExecutionMoved(attempt, task, ExecutionState.RUNNING, pid, host))
                if attempt == self.machine.attempt and self.machine.all_opened:
                    self.rescaling.started()
                    if self._elasticity is not None:
                        self._elasticity.begun(self.plan)
            case TaskFailed(task=task) if master.over:  # a savepoint has stopped the job, and its tasks just disconnect
                self.handle(ExecutionMoved(attempt, task, ExecutionState.FINISHED))
            case TaskEnded(task=task):
                self.handle(ExecutionMoved(attempt, task, ExecutionState.FINISHED))
            case TaskFailed(task=task, error=error):
                state, repeated = ExecutionState.FAILED, master.spark_retries
                self.handle(ExecutionMoved(attempt, task, state, error=error, repeated=repeated))

    def check(self) -> None:
        """Look at every source and sink before the tasks of an attempt are made; raise their exceptions."""
        self.master.check()
        self.handle(SourcesChecked())

    def cancel(self, suspend: bool = False) -> None:
        """Request that the job stops; ``suspend``: because its program ends, and not because nobody wants it any more."""
        self.handle(CancelRequested(suspend))


class Runner(Protocol):
    """A way to run a plan."""

    def default_parallelism(self, configuration: Configuration, session: Any) -> int:
        """Return the default number of subtasks of an operator."""

    def prepare(self, job: Job) -> None:
        """Prepare an attempt of a job that waits; raise the error that keeps it from starting."""

    def run(self, job: Job) -> None:
        """Run the job to its end; raise ``JobExecutionError`` if it fails; return early if it is cancelled."""


RUNNERS = {
    "local": "funken.runtime.driver.local_runner:LocalRunner",
    "batch": "funken.spark.submit:BatchRunner",
    "micro-batch": "funken.spark.submit:MicroBatchRunner",
    "continuous": "funken.spark.submit:ContinuousRunner",
}


def runner_for(target: str) -> Runner:
    """Import and make the runner of a target; raises ``EnvironmentNotReady`` if it needs Spark and there is none."""
    module, name = RUNNERS[target].split(":")
    if module.startswith("funken.spark."):
        extras.need("spark", f"execution.target {target!r}")
    runner: Runner = getattr(importlib.import_module(module), name)()
    return runner
