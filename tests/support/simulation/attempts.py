"""The parts of a simulated job: the tasks of an attempt with all that is on its way, and the driver's checkpoints.

The same tasks and the same coordinator as anywhere; what a thread does elsewhere waits here until it is drawn.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import cloudpickle

from funken.checkpoint.machine import AttemptFailed, Event, Tick, TriggerSources
from funken.checkpoint.settings import CheckpointSettings
from funken.errors import FunkenError
from funken.io.storage import Storage
from funken.plan.physical import PhysicalPlan
from funken.runtime.driver.job import Job
from funken.runtime.driver.job_checkpoints import JobCheckpoints
from funken.runtime.messages import TaskCommand, TaskEvent, TaskId
from funken.runtime.task.state_manager import TaskStateSnapshot, acknowledgement_of
from funken.runtime.task.task import Task, TaskLoop
from funken.timing.clock import Clock
from tests.support.simulation.ledgers import Violation

_TICKS = 100  # the storage of a simulation is well again after far fewer tries


class DriverDied(BaseException):
    """The driver is dead: nothing of it runs on."""


class SimulatedCheckpoints(JobCheckpoints):
    """The checkpoints of a job, whose background work waits until it is drawn; checks what it can at every event."""

    def __init__(
        self, plan: PhysicalPlan, settings: CheckpointSettings, job_id: str, clock: Clock, newest: int
    ) -> None:
        self.work: deque[Callable[[], None]] = deque()
        self.newest = newest
        self.in_flight = 0
        self.refused = 0
        self.triggered: Callable[[], None] = lambda: None
        super().__init__(plan, settings, job_id, clock, at_once=True)
        found = max(self.completed, default=0)
        if found < newest:
            raise Violation(f"checkpoint {newest} was complete, but the driver that starts finds {found}")

    def background(self, work: Callable[[], None]) -> None:
        """Keep the work."""
        self.work.append(work)

    def handle(self, event: Event) -> None:
        """Look after each event whether all is in order."""
        super().handle(event)
        self.check()

    def check(self) -> None:
        """Look whether all is in order, and which checkpoint is the newest."""
        machine = self._coordinator.machine
        machine.validate()
        if machine.completed:
            if machine.completed[-1] < self.newest:
                raise Violation(f"the newest checkpoint is {machine.completed[-1]}, it was {self.newest} before")
            self.newest = machine.completed[-1]
            manifest = self._store.complete.get(machine.completed[-1])
            self.in_flight = max(self.in_flight, manifest.in_flight if manifest is not None else 0)

    def trigger(self, command: TriggerSources) -> Mapping[str, bytes]:
        """Begin a checkpoint; the sources may be dead right after they were told."""
        found = super().trigger(command)
        self.triggered()
        return found

    def reject(self, reason: str) -> bool:
        """The newest checkpoint is broken: it is not the newest any more."""
        self.newest = 0
        self.refused += 1
        return super().reject(reason)

    def failed(self, reason: str) -> bool:
        """Work off what is to be settled before another attempt."""
        self.handle(AttemptFailed(self._attempt, reason))
        for _ in range(_TICKS):
            while self.work and not self._settled.is_set():
                self.work.popleft()()
            if self._settled.is_set():
                break
            self.handle(Tick())
        else:
            raise Violation("the driver waits for ever for what is to be settled")
        return super().failed(reason)


class Mail:
    """The mailbox of a simulated task; whether the task flushes in a turn is drawn."""

    def __init__(self, task: Task) -> None:
        self.waiting: deque[bytes | TaskCommand] = deque()
        self.flush = False
        self._task = task

    def empty(self) -> bool:
        """Whether nothing has arrived."""
        return not self.waiting

    def deliver(self) -> bool:
        """Give the oldest to the task."""
        item = self.waiting.popleft()
        if isinstance(item, bytes):
            self._task.receive(item)
        else:
            self._task.handle_command(item)
        return True

    def processed(self) -> None:
        """Nothing: blocks are not admitted by credit here."""

    def flushes(self) -> bool:
        """Whether the task flushes in this turn."""
        return self.flush


class Attempt:
    """The tasks of an attempt, and everything on its way between them and to and from the driver.

    A task that is ``dead`` is so for the driver; unless it is ``gone`` too, it runs on as an orphan.
    """

    def __init__(self, job: Job, blob: bytes, clock: Clock, storage: Storage) -> None:
        self.number = job.settings.attempt
        job.master.now = clock.monotonic
        self.tasks: dict[TaskId, Task] = {}
        self.mail: dict[TaskId, Mail] = {}
        self._loops: dict[TaskId, TaskLoop] = {}
        self.dead: set[TaskId] = set()
        self.gone: set[TaskId] = set(job.master.tasks)
        self.blocks: dict[tuple[TaskId, TaskId], deque[bytes]] = {}
        self.reports: dict[TaskId, deque[TaskEvent]] = {task: deque() for task in job.master.tasks}
        self.orders: dict[TaskId, deque[TaskCommand]] = {task: deque() for task in job.master.tasks}
        self.writing: dict[TaskId, deque[TaskStateSnapshot]] = {task: deque() for task in job.master.tasks}
        self.storage = storage
        for task in job.master.tasks:
            deliver = self.writing[task].append if job.settings.checkpoints is not None else None
            plan = cloudpickle.loads(blob)
            report = self.reports[task].append
            back = partial(self._send_back, task)
            made = self.tasks[task] = Task(plan, task, job.settings, clock, report, deliver=deliver, send_back=back)
            mail = self.mail[task] = Mail(made)
            timeout = job.settings.buffer_timeout / 1000
            self._loops[task] = TaskLoop(made, mail, report, clock, timeout, reports_delay=True)

    def _send_back(self, task: TaskId, head: TaskId, data: bytes) -> None:
        self.blocks.setdefault((task, head), deque()).append(data)

    def open(self, task: Task) -> None:
        """Open a task."""
        task.open()
        self.gone.discard(task.id)

    def order(self, task: TaskId, command: TaskCommand) -> None:
        """Send an order."""
        self.orders[task].append(command)

    def carry(self, task: Task) -> None:
        """Take away what a task sends; check that its checkpoints are in order."""
        try:
            task.machine.validate()
        except AssertionError as error:
            raise Violation(f"{task.id}: {error}\n{task.machine.story()}") from error
        for target, data in task.outbox:
            place = task.id, TaskId(task.id.stage + 1, target)
            self.blocks.setdefault(place, deque()).append(data)
        task.outbox.clear()

    def receive(self, place: tuple[TaskId, TaskId]) -> None:
        """Let the oldest block between two tasks arrive."""
        self.mail[place[1]].waiting.append(self.blocks[place].popleft())

    def command(self, task: TaskId) -> None:
        """Let the oldest order to a task arrive."""
        self.mail[task].waiting.append(self.orders[task].popleft())

    def write(self, task: TaskId) -> None:
        """Write the oldest snapshot of a task."""
        self.reports[task].append(acknowledgement_of(task, self.number, self.writing[task].popleft(), self.storage))

    def work(self, task: Task, chance: random.Random, room: int) -> None:
        """Give a task a turn; it reads from its sources if fewer than ``room`` blocks are under way."""
        under_way = sum(map(len, self.blocks.values()))  # commands in the mailboxes must not stop a source
        self.mail[task.id].flush = chance.random() < 0.3
        try:
            for _ in self._loops[task.id].turn(chance.randrange(4), under_way < room):
                self.carry(task)
        except FunkenError:  # whoever gets to know of it: this task does nothing more
            self.dead.add(task.id)
            self.gone.add(task.id)
            raise
        self.carry(task)

    def choices(self) -> list[tuple[str, Any]]:
        """Return what could happen next."""
        live = [task for task in self.tasks if task not in self.dead]
        found: list[tuple[str, Any]] = [("task", task) for task in live]
        found += [("block", place) for place, queue in self.blocks.items() if queue and place[1] not in self.dead]
        found += [("report", task) for task, queue in self.reports.items() if queue]
        found += [("order", task) for task in live if self.orders[task]]
        found += [("write", task) for task in live if self.writing[task]]
        return found

    def orphaned_choices(self) -> list[tuple[str, Any]]:
        """Return what could happen next when the attempt is over, and nobody has ended its tasks."""
        found: list[tuple[str, Any]] = [("task", task) for task in self.tasks if task not in self.gone]
        found += [("block", place) for place, queue in self.blocks.items() if queue and place[1] not in self.gone]
        found += [("report", task) for task, queue in self.reports.items() if queue]
        found += [("write", task) for task, queue in self.writing.items() if queue]
        return found

    @property
    def aligning(self) -> bool:
        """Whether some task has some barriers of a checkpoint, and not all."""
        return any(task.machine.aligning for number, task in self.tasks.items() if number not in self.dead)

    def kill(self, task: TaskId, chance: random.Random, lost: bool, last: TaskEvent) -> None:
        """End a task; a part of what it was about to say is lost, and the driver gets to know of it after the rest."""
        if task in self.dead:
            return
        self.gone.add(task)
        if lost:
            self.reports[task].clear()
        for place, queue in self.blocks.items():
            if place[0] == task:
                for _ in range(chance.randint(0, len(queue))):
                    queue.pop()
        self.orphan(task, chance, last)

    def orphan(self, task: TaskId, chance: random.Random, last: TaskEvent) -> None:
        """Let the driver lose sight of a task, which runs on."""
        if task not in self.dead:
            self.dead.add(task)
            events = self.reports[task]
            for _ in range(chance.randint(0, len(events))):
                events.pop()
            events.append(last)

    def close(self) -> None:
        """Close all tasks; what they raise then does not matter."""
        for task in self.tasks.values():
            with suppress(Exception):
                task.close()
