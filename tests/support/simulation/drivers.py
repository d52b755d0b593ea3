"""One driver of a simulated job, with its attempts: everything that could happen to it happens when it is drawn.

What is dead says nothing any more, but what it sent before may still arrive, and a snapshot that it was writing may still
be written. A driver that was replaced and does not know it goes on as if nothing had happened.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from funken import Configuration, StreamExecutionEnvironment
from funken.checkpoint.incremental import SnapshotOptions
from funken.checkpoint.machine import Outcome, Policy, Stop
from funken.checkpoint.settings import CheckpointSettings
from funken.errors import (
    CheckpointError,
    FunkenError,
    JobExecutionError,
    RestoreFailed,
    SinkNotWritable,
    StorageFailed,
    TaskLost,
)
from funken.ids import Millis
from funken.plan.nodes import portable
from funken.runtime.driver.job import Job
from funken.runtime.messages import (
    CheckpointAcknowledged,
    CheckpointDeclined,
    TaskCommand,
    TaskEnded,
    TaskEvent,
    TaskFailed,
    TaskId,
    TaskStarted,
)
from funken.testing.memory_storage import MemoryStorage
from funken.timing.clock import ManualClock
from tests.support.simulation.attempts import Attempt, DriverDied, SimulatedCheckpoints
from tests.support.simulation.conditions import Conditions
from tests.support.simulation.ledgers import Ledger, Violation, memory_folder
from tests.support.simulation.scenarios import COUNTING, build, left_over


class World(Protocol):
    """What a driver finds around it."""

    chance: random.Random
    conditions: Conditions
    clock: ManualClock
    ledger: Ledger
    storage: MemoryStorage
    name: str
    #: how many more tasks may die, and how many savepoints may be asked for
    task_crashes: int
    savepoints: int
    stops: int
    paths: list[str]
    #: whether a file of a checkpoint is damaged
    damaged: bool

    def happens(self, probability: float) -> bool:
        """Whether something goes wrong now."""

    def note(self, what: str) -> None:
        """Add to the trace."""

    def unique(self) -> str:
        """Return a name that nobody else has."""

    def step(self) -> None:
        """Count a step."""

    def wide(self) -> int:
        """Give the next operator of a program its width."""

    def way(self, path: str) -> dict[str, Any]:
        """Give the next driver its way of computing."""

    def strikes(self, place: str) -> bool:
        """Whether somebody is to die at a step of a checkpoint, now or later."""

    def strike(self, place: str) -> None:
        """Let die who is to die here."""

    def check_committed(self) -> None:
        """Look whether something committed is gone."""


class Driver:
    """One driver; ``newest`` is the newest complete checkpoint of its job, ``path`` the savepoint that it began with."""

    def __init__(self, world: World, job_id: str, path: str, newest: int) -> None:
        self.world = world
        self.job_id = job_id
        self.checkpoints: SimulatedCheckpoints | None = None
        self.attempts = 0
        self._begun: list[Attempt] = []
        self._zombies: list[Attempt] = []
        self._attempt: Attempt | None = None
        self._saving: list[Future[str]] = []
        self._stopping: Future[str] | None = None
        drawn = world.conditions
        env = StreamExecutionEnvironment.get_execution_environment(
            Configuration(
                {
                    "execution.target": "local",
                    "execution.runtime-mode": "STREAMING",
                    "execution.block.records": drawn.block_records,
                    "pipeline.auto-watermark-interval": 20,
                    "pipeline.max-parallelism": 8,
                    "io.tmp.dirs": memory_folder(),
                }
                | world.way(path)
            )
        )
        build(env, drawn.program, drawn.records, world.name, world.wide)
        self.job: Job = env.job("simulated")
        self.job.master.coordinators.threaded = False
        self.job.settings = replace(self.job.settings, together=True)
        if drawn.interval is not None:
            self.checkpoints = SimulatedCheckpoints(self.job.plan, self._settings(path), job_id, world.clock, newest)
            self.checkpoints.triggered = lambda: world.strike("triggered")
        self.job.checkpoints = self.checkpoints
        self._planned, self._blob = self.job.plan, portable(self.job.plan)

    def _settings(self, path: str) -> CheckpointSettings:
        world, drawn = self.world, self.world.conditions
        unaligned = drawn.aligned_timeout is not None
        policy = Policy(
            Millis(drawn.interval or 1), Millis(drawn.min_pause), Millis(drawn.timeout), drawn.tolerable,
            drawn.concurrent, drawn.retained, frozenset({Outcome.FAILED}), unaligned,
        )  # fmt: skip
        return replace(
            CheckpointSettings.of(Configuration({})),
            policy=policy,
            directory=world.name,
            savepoint_directory=f"{world.name}/savepoints",
            snapshots=SnapshotOptions(
                drawn.incremental, drawn.inline_below, unique=world.unique, materialize_rows=drawn.slice_rows
            ),
            exactly_once=drawn.exactly_once,
            unaligned=unaligned,
            aligned_timeout=Millis(drawn.aligned_timeout or 0),
            restore_path=path,
        )

    # ---- attempts

    def run(self) -> str:
        """Run to the end of the job; return the savepoint it was stopped with, if it was."""
        for number in itertools.count():
            self.attempts += 1
            self.world.note(f"attempt {number}")
            try:
                self.begin(number)
                self._run()
            except JobExecutionError as error:
                self.world.note(f"attempt fails: {error.args[0]}")
                if self._end_attempt(error):
                    continue
            self.job.master.succeed()
            self._stop(Outcome.FINISHED)
            if self._stopping is not None and self._stopping.done() and self._stopping.exception() is None:
                return self._stopping.result()
            return ""
        raise AssertionError("endless")

    def begin(self, number: int) -> None:
        """Begin an attempt."""
        job, world = self.job, self.world
        job.begin_attempt(number)
        if job.plan is not self._planned:
            self._planned, self._blob = job.plan, portable(job.plan)
        world.ledger.give_up()
        world.check_committed()
        job.master.check()
        self._attempt = attempt = Attempt(job, self._blob, world.clock, self.world.storage.at(self.job_id))
        self._begun.append(attempt)
        job.master.send = attempt.order
        for task in world.chance.sample(list(attempt.tasks.values()), len(attempt.tasks)):
            if task.id in attempt.dead:
                continue
            try:
                attempt.open(task)
            except (CheckpointError, JobExecutionError) as error:
                allowed = isinstance(error, SinkNotWritable) or isinstance(error.__cause__ or error, StorageFailed)
                if not allowed and not (isinstance(error, RestoreFailed) and world.damaged):
                    raise Violation(f"{task.id} cannot be opened: {error}") from error
                told = error if isinstance(error, RestoreFailed) else JobExecutionError(str(error))
                attempt.reports[task.id].append(TaskFailed(task.id, error=told))
                attempt.dead.add(task.id)
            else:
                attempt.reports[task.id].append(TaskStarted(task.id, pid=1))
                world.strike("restoring")

    def _run(self) -> None:
        job, attempt = self.job, self._attempt
        assert attempt is not None
        while not job.master.over:
            self.world.step()
            self.one_thing()
            if job.master.error is not None:
                raise job.master.error
        if job.master.error is not None:
            raise job.master.error
        for task in attempt.tasks.values():
            if not task.finished and not (self._stopping is not None and self._stopping.done()):
                raise Violation(f"the job is over, but {task.id} is not\n{task.machine.story()}")

    def _end_attempt(self, error: JobExecutionError) -> bool:
        """Say whether there is to be another, as a job's client does; no driver goes on if there cannot be one."""
        job, checkpoints = self.job, self.checkpoints
        if checkpoints is not None and checkpoints.done:
            return False
        if isinstance(error.__cause__, Violation):
            raise error.__cause__
        if isinstance(error, RestoreFailed):
            self._abandon()
            if checkpoints is not None and checkpoints.failed(str(error)) and checkpoints.reject(str(error)):
                return True
        elif job.restartable and not self.world.happens(0.1):  # else the restart strategy has had enough
            self._abandon()
            if checkpoints is None:
                return True
            self.world.clock.advance(self.world.chance.randrange(100))
            with suppress(JobExecutionError):  # its end is not committed
                return checkpoints.failed(str(error.args[0]))
        self._stop(Outcome.FAILED)
        raise DriverDied from error

    def _abandon(self) -> None:
        self.job.master.abandon()
        if self._attempt is not None:
            self._zombies.append(self._attempt)
            self._attempt = None

    def held(self) -> Counter[Any]:
        """Return what the tasks hold at the end that belongs to the results."""
        found: Counter[Any] = Counter()
        for task in (self._attempt or self._zombies[-1]).tasks.values():
            for subtask in task.subtasks.values():
                for operator in subtask.chain.operators.values():
                    for ask in operator.context.before_snapshot:
                        ask()
                    found += left_over(operator.context.operator_state)
        return found

    def close(self) -> None:
        """Close what any attempt has opened, now that nobody works any more."""
        for attempt in self._begun:
            attempt.close()

    def _stop(self, outcome: Outcome) -> None:
        self.world.savepoints = self.world.savepoints if outcome is Outcome.FAILED else 0
        if self.checkpoints is not None:
            self.checkpoints.stopped(outcome)
            while self.checkpoints.work:
                self._background()

    # ---- steps

    @property
    def gone(self) -> bool:
        """Whether nothing more comes of it."""
        return self._attempt is None or self.job.master.over or self.job.master.error is not None

    def one_thing(self) -> None:
        """Do one of the things that could happen."""
        world, attempt = self.world, self._attempt
        assert attempt is not None
        chance = world.chance
        if world.task_crashes and world.happens(0.003):
            world.task_crashes -= 1
            self.strike(chance.choice(["task", "task", "session"]))
            return
        self._save()
        choices = [*attempt.choices(), ("tick", None)]
        if self.checkpoints is not None and self.checkpoints.work:
            choices.append(("background", None))
        if self._zombies and world.happens(1.0):
            choices.append(("zombie", chance.choice(self._zombies)))
        what, which = chance.choice(choices)
        world.note(f"{what} {which if what != 'zombie' else ''} {world.clock.now()}")
        match what:
            case "task":
                attempt.work(attempt.tasks[which], chance, world.conditions.in_flight)
                self._look(attempt, which)
            case "block":
                attempt.receive(which)
                self._look(attempt, which[1])
            case "report":
                self._deliver(attempt.reports[which].popleft())
            case "order":
                attempt.command(which)
            case "write":
                attempt.write(which)
                world.strike("written")
            case "tick":
                self.job.master.tick()
                self.job.master.advance(world.clock.now())
            case "background":
                self._background()
            case "zombie":
                self._haunt(which)

    def _look(self, attempt: Attempt, task: TaskId) -> None:
        """Look whether what a task has done is a step of a checkpoint."""
        if attempt.writing[task]:
            self.world.strike("cut")
        elif self.world.strikes("aligning") and attempt.aligning:
            self.world.strike("aligning")

    def _save(self) -> None:
        """Perhaps ask for a savepoint, or to be stopped with one."""
        world, checkpoints = self.world, self.checkpoints
        if checkpoints is None or not (world.savepoints or world.stops) or world.chance.random() > 0.003:
            return
        if world.stops and (self._stopping is None or self._stopping.done()):
            world.stops -= 1
            drains = world.conditions.program in COUNTING and world.chance.random() < 0.5
            self._stopping = checkpoints.savepoint(None, Stop.DRAIN if drains else Stop.SUSPEND)
        elif world.savepoints:
            world.savepoints -= 1
            self._saving.append(checkpoints.savepoint(None))

    def saved(self) -> list[str]:
        """Return the savepoints that were made, apart from the one that the job was stopped with."""
        return [saving.result() for saving in self._saving if saving.done() and saving.exception() is None]

    def _deliver(self, event: TaskEvent) -> None:
        if isinstance(event, CheckpointAcknowledged) and self.world.happens(self.world.conditions.lost_acks):
            self._kill(event.task, lost=True)  # between the two nothing gets lost alone: the connection is
            return
        self._send(self.job.master.handle(event))
        if isinstance(event, CheckpointAcknowledged):
            self.world.strike("acked")

    def _send(self, commands: list[tuple[TaskId, TaskCommand]]) -> None:
        assert self._attempt is not None
        for task, command in commands:
            self._attempt.order(task, command)

    def _background(self) -> None:
        assert self.checkpoints is not None
        self.checkpoints.work.popleft()()
        self.world.check_committed()

    def strike(self, victim: str) -> None:
        """Let a task die, or the session with all of them, whose workers run on for a while."""
        attempt, chance = self._attempt, self.world.chance
        if attempt is None:
            return
        if victim == "task":
            self._kill(chance.choice(list(attempt.tasks)))
            return
        for task in attempt.tasks:
            attempt.orphan(task, chance, TaskFailed(task, error=TaskLost(f"the session of {task} died, as planned")))

    def _kill(self, task: TaskId, lost: bool = False) -> None:
        assert self._attempt is not None
        last = TaskFailed(task, error=TaskLost(f"{task} died, as planned"))
        self._attempt.kill(task, self.world.chance, lost, last)

    def _haunt(self, zombie: Attempt) -> None:
        """Something of an earlier attempt still works, writes, or arrives."""
        assert self._attempt is not None and zombie.number < self._attempt.number
        choices = zombie.orphaned_choices()
        if not choices:
            self._zombies.remove(zombie)
            return
        what, which = self.world.chance.choice(choices)
        match what:
            case "task":
                with suppress(FunkenError):  # it has no driver that it could tell
                    zombie.work(zombie.tasks[which], self.world.chance, self.world.conditions.in_flight)
            case "block":
                zombie.receive(which)
            case "write":
                zombie.write(which)
            case "report":
                event = zombie.reports[which].popleft()
                if self.checkpoints is not None and isinstance(
                    event, CheckpointAcknowledged | CheckpointDeclined | TaskEnded
                ):
                    self.checkpoints.take(event)
