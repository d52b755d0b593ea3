"""The whole plan in one process, one thread, no Spark: for tests, notebooks and debuggers.

The same tasks as on a cluster, and the same blocks between them (records are pickled when they cross an exchange, so
that what cannot travel fails here too). Sources are read only while the blocks in flight are few. Tasks take turns in a
fixed order; how blocks of different channels interleave still depends on the clock, which flushes them.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import cloudpickle

from funken import config
from funken.config import Configuration
from funken.errors import JobExecutionError
from funken.io.storage import open_storage
from funken.plan.serialization import portable
from funken.runtime.driver.job import Job
from funken.runtime.job.events import ExecutionsDeployed
from funken.runtime.messages import TaskCommand, TaskEvent, TaskId, TaskOpening, TaskStarted
from funken.runtime.snapshot.task_state import TaskStateSnapshot, acknowledgement_of
from funken.runtime.task.loop import Task
from funken.timing.clock import Clock, SystemClock

_HOST = socket.gethostname()
_IN_FLIGHT = 16
_MEASURE_SECONDS = 0.5


class LocalRunner:
    """Runs jobs in the calling thread."""

    def __init__(self, clock: Clock | None = None, sleep: Callable[[float], None] = time.sleep) -> None:
        self._clock = clock or SystemClock()
        self._sleep = sleep

    def default_parallelism(self, configuration: Configuration, session: Any) -> int:
        """One subtask per core."""
        return os.cpu_count() or 1

    def run(self, job: Job) -> None:
        """Run to the end; operators are closed in any case."""
        job.interruption.enter_thread()
        try:
            job.check()
            loop = LocalLoop(job, portable(job.plan), self._clock, self._sleep)
            try:
                loop.run()
            finally:
                loop.close()
        finally:
            job.interruption.leave_thread()


class LocalLoop:
    """The tasks of one job and the queues between them.

    ``run`` steps the tasks until the job has ended. With a manual clock, call ``open``, and ``settle`` after each advance.
    """

    def __init__(self, job: Job, blob: bytes, clock: Clock, sleep: Callable[[float], None]) -> None:
        self._job = job
        self._clock = clock
        self._sleep = sleep
        self._user_code = job.interruption
        self._reports: deque[TaskEvent] = deque()
        self._tasks = {task: self._task(blob, task) for task in job.master.tasks}
        self._orders: deque[tuple[TaskId, TaskCommand]] = deque()
        job.master.send = lambda task, command: self._orders.append((task, command))  # from any thread
        self._inbox: dict[TaskId, deque[bytes]] = {task: deque() for task in self._tasks}
        self._timeout = job.configuration.get(config.BUFFER_TIMEOUT) / 1000

    def _task(self, blob: bytes, task: TaskId) -> Task:
        settings = self._job.settings
        deliver = None
        if settings.checkpoints is not None:
            storage = open_storage(settings.checkpoints.folder)

            def deliver(snapshot: TaskStateSnapshot) -> None:
                self._reports.append(acknowledgement_of(task, settings.attempt, snapshot, storage, self._clock))

        return Task(cloudpickle.loads(blob), task, settings, self._clock, self._reports.append, deliver=deliver)

    @property
    def over(self) -> bool:
        """Whether every task has finished, and with checkpoints the last one is complete."""
        return self._job.master.over

    def open(self) -> None:
        """Open every task."""
        self._job.handle(ExecutionsDeployed())
        for task in self._tasks.values():
            self._order(self._job.master.handle(TaskOpening(task.id, pid=os.getpid(), host=_HOST)))
            with self._user_code:
                task.open()
            self._reports.append(TaskStarted(task.id, pid=os.getpid(), host=_HOST))

    def settle(self) -> int:
        """Work until nothing moves any more while the clock stands still; return ms until something may happen."""
        while True:
            wait = self._turn()
            self._order(self._job.master.discover(self._clock.now()))
            if self._job.master.error is not None:
                raise self._job.master.error
            if self.over or (wait and not self._flush()):
                return wait

    def run(self) -> None:
        """Give every task its turn until all have finished."""
        self.open()
        self._talk()
        flushed = measured = self._clock.monotonic()
        while not self.over:
            if self._job.cancelled.is_set():
                return
            wait = self._turn()
            if self._job.master.error is not None:
                raise self._job.master.error
            now = self._clock.monotonic()
            if wait or (self._timeout >= 0 and now - flushed >= self._timeout):
                flushed = now
                if self._flush():
                    continue
            if now - measured >= _MEASURE_SECONDS:
                measured = now
                for task in self._tasks.values():
                    self._reports.append(task.measured())
            if wait:
                self._order(self._job.master.discover(self._clock.now()))
                self._sleep(min(wait, 50) / 1000)
        self._talk()
        if self._job.master.error is not None:
            raise self._job.master.error

    def _turn(self) -> int:
        """One round; returns ms until anything may happen, 0 if something did."""
        with self._user_code:
            wait = self._turn_of_tasks()
        self._job.master.tick()
        if self._talk():
            wait = 0
        return wait

    def _turn_of_tasks(self) -> int:
        wait = 1000
        # Downstream first: what is in flight is worked off before a source adds to it.
        for task in reversed(self._tasks.values()):
            now = self._clock.now()
            due = task.advance()
            self._route(task)
            if due is not None:
                wait = 0 if task.materializing else min(wait, max(1, due - now))
            inbox = self._inbox[task.id]
            while inbox:
                task.receive(inbox.popleft())
                while task.work:
                    task.step()
                self._route(task)
                wait = 0
            if task.has_sources and not self._room():
                task.meter.hold()
            elif task.has_sources:
                task.meter.release()
                found = task.poll()
                wait = min(wait, found) if found is not None else wait
                self._route(task)
        return wait

    def _room(self) -> bool:
        return sum(len(inbox) for inbox in self._inbox.values()) < _IN_FLIGHT * len(self._inbox)

    def _flush(self) -> bool:
        moved = False
        with self._user_code:
            for task in self._tasks.values():
                task.flush()
                moved = self._route(task) or moved
        return moved

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

    def _order(self, commands: list[tuple[TaskId, TaskCommand]]) -> None:
        for task, command in commands:
            self._tasks[task].handle_command(command)

    def close(self) -> None:
        """Close every task; the first error of a close is raised only if nothing else went wrong, Ctrl-C always."""
        raised: list[BaseException] = []
        for task in self._tasks.values():
            try:
                with self._user_code:
                    task.close()
            except BaseException as error:  # noqa: BLE001 - every task is closed, whatever another raised
                raised.append(error)
        failed = self._job.master.error is not None or self._job.cancelled.is_set()
        for told in raised:
            if not failed or not isinstance(told, JobExecutionError):
                raise told
