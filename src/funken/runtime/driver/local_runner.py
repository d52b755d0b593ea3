"""The whole plan in one process, one thread, no Spark: for tests, notebooks and debuggers.

The same tasks as on a cluster, and the same blocks between them (records are pickled when they cross an exchange, so
that what cannot travel fails here too). Sources are read only while the blocks in flight are few. What goes back to the head of
a loop arrives when every task has had its turn, and goes to disk beyond a budget. Tasks take turns in a fixed order; how blocks
of different channels interleave still depends on the clock, which flushes them.
"""

from __future__ import annotations

import logging
import math
import os
import random
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cloudpickle

from funken import config
from funken.checkpoint.machine import Outcome
from funken.config import Configuration
from funken.errors import JobCancelled, JobExecutionError, RescaleDue
from funken.io.storage import open_storage
from funken.plan.nodes import portable
from funken.runtime.chain.log_capture import LogCapture
from funken.runtime.driver.job import Job, Runner
from funken.runtime.exchange.gate import FeedbackLane
from funken.runtime.job.states import (
    AttemptRaised,
    AttemptReturned,
    AttemptSettled,
    CommitResults,
    EndJob,
    ExecutionsDeployed,
    JobClosed,
    JobCommand,
    JobEvent,
    JobScheduled,
    RestartDue,
    ResultsCommitted,
    RunAttempt,
    RunRaised,
    SettleAttempt,
    WaitForRestart,
)
from funken.runtime.log_entries import LogEntry
from funken.runtime.messages import DumpThreads, SampleStacks, TaskCommand, TaskEvent, TaskId, TaskOpening, TaskStarted
from funken.runtime.process import Interrupted, collecting_rarely, raised_by_signal
from funken.runtime.task.stacks import StackSampler, answer_in_thread
from funken.runtime.task.state_manager import TaskStateSnapshot, acknowledgement_of
from funken.runtime.task.task import Task, TaskLoop
from funken.timing.clock import Clock, SystemClock, came

logger = logging.getLogger(__name__)

_HOST = socket.gethostname()
_IN_FLIGHT = 16
_ALL = sys.maxsize
"""A turn processes all blocks that have arrived: all tasks share one thread."""
_TURN_SECONDS = 0.1
"""But it ends after this time, so that commands, checkpoints and metrics do not wait for 16 blocks of slow records."""
_LONGEST_WAIT = 1000
_TICK_SECONDS = 30.0
_LOOK_SECONDS = 0.2
"""The interval (s) of checks whether a function returns."""


class LocalRunner:
    """Runs jobs in the calling thread."""

    def __init__(self, clock: Clock | None = None, sleep: Callable[[float], None] | None = None) -> None:
        self._clock = clock or SystemClock()
        self._sleep = sleep

    def default_parallelism(self, configuration: Configuration, session: Any) -> int:
        """One subtask per core."""
        return os.cpu_count() or 1

    def prepare(self, job: Job) -> None:
        """Nothing: this process is there."""

    def run(self, job: Job) -> None:
        """Run to the end; operators are closed in any case."""
        job.interruption.enter_thread()
        try:
            job.check()
            woken = threading.Event()

            def sleep(seconds: float) -> None:
                woken.wait(seconds)
                woken.clear()

            wake = woken.set if self._sleep is None else None
            loop = LocalLoop(job, portable(job.plan), self._clock, self._sleep or sleep, wake)
            logs = _capture(job)
            try:
                with collecting_rarely(), _ticking(job, loop, wanted=self._sleep is None):
                    loop.run()
            except Interrupted:
                if job.master.error is None or job.cancelled.is_set():
                    raise
                raise job.master.error from None  # a function kept the job from failing
            finally:
                loop.close()
                logs.uninstall()
        finally:
            job.interruption.leave_thread()


@contextmanager
def _ticking(job: Job, loop: LocalLoop, wanted: bool) -> Iterator[None]:
    """Let checkpoints time out, in a thread of their own, while a function does not return; fail the job if that is too many.

    The function is interrupted then, if it is in Python's own code.
    """
    checkpoints = job.checkpoints
    if checkpoints is None or not wanted:
        yield
        return
    ended = threading.Event()

    def watch() -> None:
        seen = -1
        while not ended.wait(_LOOK_SECONDS):
            turns, seen = seen, loop.turns
            if turns != seen:
                continue  # it ticks by itself
            checkpoints.tick()
            if job.master.error is not None and job.interruption.interrupt():
                where = job.interruption.where()
                logger.warning(
                    "job %r has failed, but a function does not return: %s. It is interrupted.",
                    job.plan.name, "unknown" if where is None else where[0],
                )  # fmt: skip
                return

    thread = threading.Thread(target=watch, name="funken-local-checkpoints", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_TICK_SECONDS)
        if thread.is_alive():
            logger.warning(
                "job %r: its checkpoints have not come to rest within %g s. Does %s answer?",
                job.plan.name, _TICK_SECONDS, config.CHECKPOINT_DIR.key,
            )  # fmt: skip


def _capture(job: Job) -> LogCapture:
    """Capture the logs of a job's thread from now on; Funken's own logs here are in the job's log anyway."""
    thread, settings = threading.get_ident(), job.settings.logs

    def mine(record: logging.LogRecord) -> bool:
        return record.thread == thread and record.name.partition(".")[0] != "funken"

    def take(entries: list[LogEntry]) -> None:
        job.logs.take(entries, _HOST, os.getpid())

    logs = LogCapture(settings, take, attempt=job.settings.attempt, threaded=False, mine=mine, mask=job.logs.masked)
    logs.install(set_level=settings.explicit, prints=True)
    return logs


class Inbox:
    """The mailbox of a task in this process: the blocks that others have sent to it."""

    def __init__(self, loop: LocalLoop, task: Task) -> None:
        self.blocks: deque[bytes] = deque()
        self._loop = loop
        self._task = task

    def empty(self) -> bool:
        """Return True if no block has arrived."""
        return not self.blocks

    def deliver(self) -> bool:
        """Deliver the oldest block to the task."""
        self._task.receive(self.blocks.popleft())
        return True

    def processed(self) -> None:
        """Nothing: blocks are not admitted by credit here, sources are not polled while many are in flight."""

    def flushes(self) -> bool:
        """Return True if no task had anything to do in the last round."""
        return self._loop.quiet


class HeadInbox(Inbox):
    """The mailbox of a task with heads of loops: feedback goes before new blocks."""

    def __init__(self, loop: LocalLoop, task: Task, lane: FeedbackLane) -> None:
        super().__init__(loop, task)
        self._lane = lane

    def empty(self) -> bool:
        """Return True if no block has arrived for the task; feedback may wait on disk while others are queued."""
        return not self.blocks and (self._task.work or not self._lane.due)

    def deliver(self) -> bool:
        """Deliver a block to the task."""
        if self._lane.due and not self._task.work:
            self._task.receive(self._lane.take())
            return True
        return super().deliver()


class LocalLoop:
    """The tasks of one job and the queues between them; each has its turn (``task/task.py``) after the other.

    ``run`` turns the tasks until the job has ended. With a manual clock, call ``open``, and ``settle`` after each advance.
    """

    def __init__(
        self,
        job: Job,
        blob: bytes,
        clock: Clock,
        sleep: Callable[[float], None],
        wake: Callable[[], None] | None = None,
    ) -> None:
        self._job = job
        self._wake = wake
        self._clock = clock
        self._sleep = sleep
        self._user_code = job.interruption
        self._reports: deque[TaskEvent] = deque()
        self._orders: deque[tuple[TaskId, TaskCommand]] = deque()
        self._sampler = StackSampler()
        job.master.send = self._take  # from any thread
        job.master.now = clock.monotonic
        self.turns = 0
        """Number of rounds so far."""
        self.quiet = False
        """True if no task had anything to do in the last round: then they flush."""
        self._inbox: dict[TaskId, deque[bytes]] = {}
        self._lanes = {
            task: FeedbackLane.of(job.settings.feedback, name) for task, name in job.plan.head_tasks().items()
        }
        self._loops = {task: self._loop(blob, task) for task in job.master.tasks}
        #: when the last turn of each task ended that did not come to the end of what it was sent, or of what it reads
        self._left: dict[TaskId, float] = {}

    def _loop(self, blob: bytes, number: TaskId) -> TaskLoop:
        settings = self._job.settings
        deliver = None
        if settings.checkpoints is not None:
            storage = open_storage(settings.checkpoints.folder)

            def deliver(snapshot: TaskStateSnapshot) -> None:
                self._reports.append(acknowledgement_of(number, settings.attempt, snapshot, storage, self._clock))

        report = self._reports.append
        plan, send_back = cloudpickle.loads(blob), self._send_back
        task = Task(plan, number, settings, self._clock, report, self._wake, deliver, send_back)
        lane = self._lanes.get(number)
        inbox = Inbox(self, task) if lane is None else HeadInbox(self, task, lane)
        self._inbox[number] = inbox.blocks
        return TaskLoop(task, inbox, report, self._clock, settings.buffer_timeout / 1000, reports_delay=False)

    @property
    def tasks(self) -> list[Task]:
        """The tasks, upstream first."""
        return [loop.task for loop in self._loops.values()]

    @property
    def over(self) -> bool:
        """True if every task has finished, and with checkpoints the last one is complete."""
        return self._job.master.over

    def open(self) -> None:
        """Open every task."""
        self._job.handle(ExecutionsDeployed())
        for task in self.tasks:
            self._order(self._job.master.handle(TaskOpening(task.id, pid=os.getpid(), host=_HOST)))
            with self._user_code:
                task.open()
            self._reports.append(TaskStarted(task.id, pid=os.getpid(), host=_HOST))

    def settle(self) -> int:
        """Work until nothing moves any more while the clock stands still; return ms until something may happen."""
        while True:
            wait = self.turn()
            self._job.master.advance(self._clock.now())
            if self._job.master.error is not None:
                raise self._job.master.error
            if self._talk():
                continue
            if self.over or wait:
                return math.ceil(wait)

    def run(self) -> None:
        """Give every task its turn until all have finished."""
        self.open()
        self._talk()
        advanced = None
        while not self.over:
            if self._job.cancelled.is_set():
                return
            self._user_code.check()
            wait = self.turn()
            if self._job.master.error is not None:
                raise self._job.master.error
            # Also while there is always something to do: a folder is looked at beside a source that never waits.
            now = self._clock.now()
            if now != advanced:
                advanced = now
                self._job.master.advance(now)
                self._job.look()
            if wait:
                self._sleep(min(wait, 50) / 1000)
        self._talk()
        if self._job.master.error is not None:
            raise self._job.master.error

    def turn(self) -> float:
        """Give every task a turn; return ms until anything may happen, 0 if something did, or may in the next round."""
        self.turns += 1
        with self._user_code:
            wait = self._turn_of_tasks()
        self._job.master.tick()
        if self._talk():
            wait = 0
        settled, self.quiet = self.quiet, wait > 0
        return wait if settled else 0

    def _turn_of_tasks(self) -> float:
        wait: float = _LONGEST_WAIT
        behind = False  # whether a task has not come to the end of what it was sent
        # Downstream first: what is in flight is worked off before a source adds to it.
        for loop in reversed(self._loops.values()):
            if (left := self._left.pop(loop.task.id, None)) is not None:
                loop.task.meter.waited(self._clock.monotonic() - left)
            may_poll = not loop.task.has_sources or (not behind and self._room())
            for _ in loop.turn(_ALL, may_poll, _TURN_SECONDS):
                if self._route(loop.task):
                    wait = 0
            if loop.task.work or not loop.mailbox.empty():
                self._left[loop.task.id] = self._clock.monotonic()
                behind = behind or loop.task.id not in self._lanes
            elif may_poll and loop.task.has_sources and loop.wait == 0:  # it would read on at once
                self._left[loop.task.id] = self._clock.monotonic()
            wait = min(wait, loop.wait)
        for lane in self._lanes.values():
            lane.turn()
            if lane.due:
                wait = 0
        return wait

    def _send_back(self, task: TaskId, block: bytes) -> None:
        self._lanes[task].put(block)

    def _room(self) -> bool:
        return sum(map(len, self._inbox.values())) < _IN_FLIGHT * len(self._inbox)

    def _route(self, task: Task) -> bool:
        if not task.outbox:
            return False
        stage = task.id.stage + 1
        for target, data in task.outbox:
            self._inbox[TaskId(stage, target)].append(data)
        task.outbox.clear()
        return True

    def _talk(self) -> bool:
        talked = False
        while self._reports or self._orders:
            talked = True
            while self._orders:
                self._order([self._orders.popleft()])
            if self._reports:
                self._order(self._job.master.handle(self._reports.popleft()))
        return talked

    def _take(self, task: TaskId, command: TaskCommand) -> None:
        """Take a command, from any thread; stacks are sampled also while a function does not return."""
        if isinstance(command, SampleStacks | DumpThreads):
            answer_in_thread(self._sampler, task, command, self._job.master.handle)
        else:
            self._orders.append((task, command))

    def _order(self, commands: list[tuple[TaskId, TaskCommand]]) -> None:
        for task, command in commands:
            self._loops[task].task.handle_command(command)

    def close(self) -> None:
        """Close every task; the first error of a close is raised only if nothing else went wrong, Ctrl-C always."""
        raised: list[BaseException] = []
        for task in self.tasks:
            try:
                with self._user_code:
                    task.close()
            except BaseException as error:  # noqa: BLE001 - every task is closed, whatever another raised
                raised.append(error)
        failed = self._job.master.error is not None or self._job.cancelled.is_set()
        for told in raised:
            if not failed or not isinstance(told, JobExecutionError):
                raise told


# ---- Runs a job: executes the commands of its machine, one after the other, in the calling thread.
#
# The machine decides (``runtime/job/machine.py``); here is what its commands do with the master, the checkpoints
# and the runner.


class JobExecution:
    """One run of one job: ``run`` until it is decided how the job ends, then ``end``."""

    def __init__(self, job: Job, runner: Runner) -> None:
        self._job = job
        self._runner = runner
        self._raised: BaseException | None = None

    def run(self, scheduled: Callable[[], None]) -> None:
        """Run the job, attempt by attempt; raise why it has not finished. ``scheduled`` is called when it begins."""
        command = self._job.handle(JobScheduled())
        scheduled()
        while command is not None and not isinstance(command, EndJob):
            command = self._job.handle(self._execute(command))
        if command is None or command.outcome is not Outcome.FINISHED:
            self._raised = self.cancellation() if command is None or command.error is None else command.error
            raise self._raised

    def end(self, error: BaseException | None = None) -> BaseException | None:
        """Clean up; return the exception of the job's result: its failure, ``JobCancelled``, or nothing.

        ``error`` is the exception of ``run``, or of the code around it. May be called again if it is interrupted itself.
        """
        job = self._job
        if error is not None and error is not self._raised:
            self._suspend_for(error)
            job.handle(RunRaised(error))
        command = job.machine.under_way
        outcome = command.outcome if isinstance(command, EndJob) else Outcome.FAILED
        result = None if error is None else self._abandon(error, outcome)
        try:
            self._stopped(outcome)
        except Exception as also:
            if result is None:
                raise  # it has not finished after all
            result.add_note(f"Ending its checkpoints failed as well: {type(also).__name__}: {also}")
        return result

    def close(self, abandoned: bool = False) -> None:
        """Nothing more is done for the job; if it is not decided how it ends, ``end`` was interrupted, and it is abandoned."""
        self._job.handle(JobClosed(abandoned or self._job.machine.outcome is None))
        self._job.rescaling.give_up(JobExecutionError(f"job {self._job.plan.name!r} has ended before it was rescaled"))

    def cancellation(self) -> JobCancelled:
        """Return the exception of the result of a cancelled job."""
        return JobCancelled(f"job {self._job.plan.name!r} was cancelled")

    def _suspend_for(self, error: BaseException) -> None:
        """Stop the job if a handler of the program ends it by an exception: a restart would outlive the signal."""
        if isinstance(error, Exception) and raised_by_signal(error):
            self._job.cancel(suspend=True)

    def _abandon(self, error: BaseException, outcome: Outcome) -> BaseException:
        """Drop uncommitted output; return the exception of the job's result."""
        stopped = outcome in (Outcome.CANCELLED, Outcome.SUSPENDED)
        try:
            self._job.master.abandon()
        except Exception as also:  # noqa: BLE001 - the first error is the one to raise
            error.add_note(f"Dropping uncommitted output failed as well: {type(also).__name__}: {also}")
        broken = isinstance(error, Exception | Interrupted) and not isinstance(error, JobCancelled)
        if stopped and broken and not raised_by_signal(error):
            return self.cancellation()  # something broke while it was being stopped
        return error

    def _stopped(self, outcome: Outcome) -> None:
        if self._job.checkpoints is not None:
            self._job.checkpoints.stopped(outcome)

    # ---- commands

    def _execute(self, command: JobCommand) -> JobEvent:
        match command:
            case RunAttempt(attempt=attempt):
                return self._attempt(attempt)
            case SettleAttempt():
                return self._settle(command)
            case WaitForRestart(delay=delay):
                came(self._job.cancelled, delay / 1000)
                return RestartDue()
            case CommitResults():
                self._job.master.succeed()
                return ResultsCommitted()
        raise AssertionError(command)

    def _attempt(self, attempt: int) -> JobEvent:
        job = self._job
        try:
            job.begin_attempt(attempt)
            self._runner.run(job)
            if job.master.error is not None and not job.cancelled.is_set():
                raise job.master.error
        except BaseException as error:  # noqa: BLE001 - the machine decides what becomes of it
            self._suspend_for(error)
            safe = job.checkpoints is not None and job.checkpoints.done
            if job.revert(error):
                error = RescaleDue(f"the job continues with fewer tasks: {error}")
            repeats = job.checkpoints is None and job.master.collectors.handed_on
            return AttemptRaised(error, random.random(), safe, job.restartable, repeats)
        return AttemptReturned()

    def _settle(self, command: SettleAttempt) -> AttemptSettled:
        job = self._job
        if command.delay is not None:
            logger.warning("job %r failed and is restarted in %d ms: %s", job.plan.name, command.delay, command.reason)
        job.master.abandon()
        if command.reject:
            found = job.checkpoints is not None and job.checkpoints.failed(command.reason)
            return AttemptSettled(found and job.checkpoints is not None and job.checkpoints.reject(command.reason))
        return AttemptSettled(job.checkpoints is None or job.checkpoints.failed(command.reason))
