"""A job as the runners see it, and the runners by name.

A runner takes a ``Job`` and returns when it has finished, was cancelled, or raises what made it fail. Runners are
found by name and imported when first used: the API refers to Spark only by the text ``funken.spark.submit``.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import field, replace
from functools import partial
from typing import Any, Protocol

from funken import config, extras
from funken.checkpoint.restart import restart_strategy
from funken.checkpoint.restore import Restoration
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.ids import Millis
from funken.plan.physical import PhysicalPlan
from funken.plan.rules.backend_choice import saved_in_keyed_state
from funken.plan.rules.stage import RewriteStage
from funken.runtime.driver.checkpoints import JobCheckpoints
from funken.runtime.driver.diagnosis import JobDiagnosis, JobWarning
from funken.runtime.driver.job_logs import JobLogs
from funken.runtime.driver.master import JobMaster
from funken.runtime.driver.rescaling import Elasticity, Recompile, Rescaling
from funken.runtime.driver.stacks import JobStacks
from funken.runtime.interruption import Interruption
from funken.runtime.job.checkpoint_history import CheckpointsSnapshot
from funken.runtime.job.events import (
    CancelRequested,
    ExecutionMoved,
    ExecutionsCreated,
    JobCommand,
    JobEvent,
    SourcesChecked,
    StopAttempt,
)
from funken.runtime.job.graph import job_graph
from funken.runtime.job.machine import JobMachine
from funken.runtime.job.masking import masked
from funken.runtime.job.scaling import ScalingSettings
from funken.runtime.job.snapshot import JobSnapshot, vertices_of
from funken.runtime.job.states import ExecutionState, JobStatus
from funken.runtime.job.vertex_metrics import MetricsHistory
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
from funken.runtime.settings import TaskSettings
from funken.timing.clock import SystemClock

logger = logging.getLogger(__name__)


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
    """What runners wait for: the machine has commanded to stop the attempt."""
    interruption: Interruption = field(default_factory=Interruption)
    machine: JobMachine = field(init=False)
    stage: RewriteStage = field(kw_only=True)
    """What makes the plan of an attempt."""
    recompile: Recompile | None = field(default=None, kw_only=True)
    """What makes a stage for another parallelism, if the job can change it."""
    slots: Callable[[], int] | None = field(default=None, kw_only=True)
    """How many tasks can run at the same time where the job runs, if that is bounded; the runner's."""

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
        self.diagnosis = JobDiagnosis(self.plan, self._log, self.settings.batch)
        self._masked = masked(self.configuration.to_dict())
        self.stacks = JobStacks(self._send_to, self._clock)
        self.logs = JobLogs(self.settings.job_id, self.configuration, self._clock.now)
        self._in_keyed_state: frozenset[str] = frozenset()

    def _elastic(self) -> Elasticity | None:
        if ScalingSettings.of(self.configuration, 1) is None or self.recompile is None:
            return None
        if self.checkpoints is None:
            logger.warning(
                "job %r keeps its parallelism: without checkpoints it cannot go on with another", self.plan.name
            )
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
            )

    @property
    def restartable(self) -> bool:
        """Whether another attempt makes sense.

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
        """Apply the rules anew if the attempt starts from another kind of window state than the plan is for."""
        restores = {} if restoration is None else restoration.subtasks
        found = saved_in_keyed_state((operator, restore.states) for (operator, _), restore in restores.items())
        if found != self._in_keyed_state:
            self.plan, self._in_keyed_state = self.stage.plan(found), found

    def _observe(self, master: JobMaster, attempt: int, event: TaskEvent) -> None:
        """Pass on to the machine what a task's event says about its execution."""
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
        """Look at every source and sink before the tasks of an attempt are made; raise what they raise."""
        self.master.check()
        self.handle(SourcesChecked())

    def cancel(self, suspend: bool = False) -> None:
        """Request that the job stops; ``suspend``: because its program ends, and not because nobody wants it any more."""
        self.handle(CancelRequested(suspend))


class Runner(Protocol):
    """A way to run a plan."""

    def default_parallelism(self, configuration: Configuration, session: Any) -> int:
        """How many subtasks an operator gets by default."""

    def prepare(self, job: Job) -> None:
        """Do beforehand what an attempt of a job that waits will need; raise what keeps it from that."""

    def run(self, job: Job) -> None:
        """Run the job to its end; raise ``JobExecutionError`` if it fails; return early if it is cancelled."""


RUNNERS = {
    "local": "funken.runtime.driver.local:LocalRunner",
    "batch": "funken.spark.submit:BatchRunner",
    "micro-batch": "funken.spark.microbatch:MicroBatchRunner",
    "continuous": "funken.spark.submit:ContinuousRunner",
}


def runner_for(target: str) -> Runner:
    """Import and make the runner of a target; raises ``EnvironmentNotReady`` if it needs Spark and there is none."""
    module, name = RUNNERS[target].split(":")
    if module.startswith("funken.spark."):
        extras.need("spark", f"execution.target {target!r}")
    runner: Runner = getattr(importlib.import_module(module), name)()
    return runner
