"""A whole job under a random schedule with faults, in one process and under virtual time; a seed says it all.

Sources, levels, sinks, coordinator and storage are the real ones; only what carries things between them is not. One of the
things that could happen is drawn and happens, step by step: a task works a little, a block, report or order arrives (late,
but in order between the same two), a snapshot is written, the driver's background does a piece of work, time passes, an
acknowledgement is lost, a write is torn or refused, a task or the driver dies. What is dead says nothing any more, but what
it sent before may still arrive, and a snapshot that it was writing may still be written.

After a number of steps nothing fails any more, so that every job comes to its end. Then it is checked that

* the sink holds each result of a run without faults exactly once (sums over state are among the results),
* nothing that was committed is gone, and no transaction is committed that was given up,
* complete checkpoints are numbered upwards, over all drivers, and a driver starts from the newest,
* the coordinator's machine was valid after every event,
* the end came within a bounded number of steps.

>>> Simulation(1).run().violation
''
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle

from funken import Configuration, StreamExecutionEnvironment
from funken.checkpoint.events import Event, Failed, Outcome
from funken.checkpoint.lineage import SnapshotOptions
from funken.checkpoint.memory import Fault, MemoryStorage
from funken.checkpoint.settings import CheckpointSettings
from funken.checkpoint.steps import Policy
from funken.checkpoint.storage import Storage, mounted
from funken.config import Configuration as Options
from funken.errors import CheckpointCorrupted, CheckpointError, JobExecutionError, StorageFailed, TaskLost
from funken.ids import Millis
from funken.plan.physical import PhysicalPlan
from funken.runtime.checkpointing import JobCheckpoints
from funken.runtime.job import Job
from funken.runtime.local import portable
from funken.runtime.messages import Failed as TaskFailed
from funken.runtime.messages import Finished, NotSnapshotted, Order, Report, Snapshotted, Started, TaskId
from funken.runtime.snapshots import Cuts, report_of
from funken.runtime.task import Task
from funken.testing.scenarios import LEDGERS, PROGRAMS, Ledger, LedgerSink, Violation
from funken.timing.clock import Clock, ManualClock

_BOUND = 150_000
_ORACLES: dict[tuple[str, int], Counter[Any]] = {}


class DriverDied(BaseException):
    """The driver is dead: nothing of it runs on."""


class NotNow(Exception):
    """The sink cannot commit at the moment."""


@dataclass(frozen=True)
class Conditions:
    """What a run is like; drawn from its seed, but for the backend: RocksDB has threads that no seed decides about."""

    program: str
    records: int
    interval: int | None
    concurrent: int
    min_pause: int
    timeout: int
    tolerable: int
    retained: int
    incremental: bool
    inline_below: int
    block_records: int
    in_flight: int
    calm_after: int
    task_crashes: int
    driver_crashes: int
    storage_faults: float
    lost_acks: float
    commit_faults: float
    rescales: bool
    backend: str = "hashmap"

    @staticmethod
    def drawn(chance: random.Random) -> Conditions:
        """Draw them."""
        faulty = chance.random() < 0.7
        # Who gives a checkpoint little time must bear that it fails, or no attempt comes to its end.
        timeout, tolerable = chance.choice([(300, 100), (2000, 100), (600_000, 0), (600_000, 1)])
        return Conditions(
            program=chance.choice(sorted(PROGRAMS)),
            records=chance.choice([5, 30, 60, 120]),
            interval=chance.choice([None, 5, 20, 50, 100, 300]),
            concurrent=chance.choice([1, 1, 2, 3]),
            min_pause=chance.choice([0, 0, 0, 10]),
            timeout=timeout,
            tolerable=tolerable,
            retained=chance.choice([1, 1, 2, 4]),
            incremental=chance.random() < 0.7,
            inline_below=chance.choice([0, 200, 20_000]),
            block_records=chance.choice([1, 3, 10, 50]),
            in_flight=chance.choice([4, 16, 64]),
            calm_after=chance.choice([500, 1500, 4000]),
            task_crashes=chance.choice([0, 1, 2, 5]),
            driver_crashes=chance.choice([0, 0, 1, 2]),
            storage_faults=chance.choice([0.0, 0.01, 0.1]) if faulty else 0.0,
            lost_acks=chance.choice([0.0, 0.05]) if faulty else 0.0,
            commit_faults=chance.choice([0.0, 0.2]) if faulty else 0.0,
            rescales=chance.random() < 0.5,
        )


@dataclass
class Outcomes:
    """How a run went; ``trace`` is a digest of every step of it."""

    seed: int
    conditions: Conditions
    steps: int = 0
    attempts: int = 0
    drivers: int = 0
    checkpoints: int = 0
    trace: str = ""
    violation: str = ""


class SimulatedCheckpoints(JobCheckpoints):
    """The checkpoints of a job, whose background work waits until it is drawn; checks what it can at every event."""

    def __init__(self, plan: PhysicalPlan, settings: CheckpointSettings, clock: Clock, newest: int) -> None:
        self.work: deque[Callable[[], None]] = deque()
        self.newest = newest
        super().__init__(plan, settings, "job", clock, at_once=True)
        found = max(self.completed, default=0)
        if found < newest:
            raise Violation(f"checkpoint {newest} was complete, but the driver that starts finds {found}")

    def background(self, work: Callable[[], None]) -> None:
        """Keep the work."""
        self.work.append(work)

    def tell(self, event: Event) -> None:
        """Look after each event whether all is in order."""
        super().tell(event)
        machine = self._coordinator.machine
        machine.validate()
        if machine.completed:
            if machine.completed[-1] < self.newest:
                raise Violation(f"the newest checkpoint is {machine.completed[-1]}, it was {self.newest} before")
            self.newest = machine.completed[-1]

    def failed(self, reason: str) -> bool:
        """Work off what is to be settled before another attempt."""
        self._settled_by_work(reason)
        return super().failed(reason)

    def _settled_by_work(self, reason: str) -> None:
        self.tell(Failed(self._attempt, reason))
        while not self._settled.is_set():
            if not self.work:
                raise Violation("the driver waits for ever for what is to be settled")
            self.work.popleft()()


class Attempt:
    """The tasks of an attempt, and everything on its way between them and to and from the driver."""

    def __init__(self, job: Job, blob: bytes, clock: Clock, storage: Storage) -> None:
        self.number = job.settings.attempt
        self.tasks: dict[TaskId, Task] = {}
        self.dead: set[TaskId] = set()
        self.blocks: dict[tuple[TaskId, TaskId], deque[bytes]] = {}
        self.reports: dict[TaskId, deque[Report]] = {task: deque() for task in job.master.tasks}
        self.orders: dict[TaskId, deque[Order]] = {task: deque() for task in job.master.tasks}
        self.writing: dict[TaskId, deque[Cuts]] = {task: deque() for task in job.master.tasks}
        self.storage = storage
        for task in job.master.tasks:
            deliver = self.writing[task].append if job.settings.checkpoints is not None else None
            plan = cloudpickle.loads(blob)
            self.tasks[task] = Task(plan, task, job.settings, clock, self.reports[task].append, deliver=deliver)

    def order(self, task: TaskId, order: Order) -> None:
        """Send an order."""
        self.orders[task].append(order)

    def carry(self, task: Task) -> None:
        """Take away what a task sends."""
        for target, data in task.outbox:
            place = task.id, TaskId(task.id.level + 1, target)
            self.blocks.setdefault(place, deque()).append(data)
        task.outbox.clear()

    def write(self, task: TaskId) -> Report:
        """Write the oldest snapshot of a task."""
        return report_of(task, self.number, self.writing[task].popleft(), self.storage)

    def close(self) -> None:
        """Close what lives."""
        for task in self.tasks.values():
            task.close()


class Simulation:
    """One run; ``conditions`` may replace some of those that are drawn."""

    def __init__(self, seed: int, **conditions: Any) -> None:
        self.chance = random.Random(seed)
        self.conditions = replace(Conditions.drawn(self.chance), **conditions)
        self.outcomes = Outcomes(seed, self.conditions)
        self._clock = ManualClock(1000)
        self._name = f"simulated://{seed}"
        self._ledger = Ledger(fault=self._commit_fault)
        self._storage = MemoryStorage(self._name, faults=self._storage_fault)
        self._checkpoints: SimulatedCheckpoints | None = None
        self._job: Job
        self._attempt: Attempt | None = None
        self._zombies: list[Attempt] = []
        self._newest = 0
        self._task_crashes = self.conditions.task_crashes
        self._driver_crashes = self.conditions.driver_crashes
        self._seen: Counter[Any] = Counter()
        self._trace = hashlib.blake2b(digest_size=8)
        self._widths: dict[int, int] = {}
        numbers = itertools.count()
        self._unique = lambda: f"{next(numbers):08d}"
        self.error: Exception | None = None

    def run(self) -> Outcomes:
        """Run to the end; what is wrong is in ``violation``."""
        LEDGERS[self._name] = self._ledger
        try:
            with mounted(self._name, self._storage):
                self._drivers()
                self._check_committed()
                expected = oracle(self.conditions.program, self.conditions.records)
                if self._ledger.results() != expected:
                    found = self._ledger.results()
                    raise Violation(f"lost {dict(expected - found)}, too many {dict(found - expected)}")
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed fails
            self.outcomes.violation = f"{type(error).__name__}: {error}"
            self.error = error
        finally:
            del LEDGERS[self._name]
        self.outcomes.trace = self._trace.hexdigest()
        self.outcomes.checkpoints = self._newest
        return self.outcomes

    # ---- faults

    @property
    def calm(self) -> bool:
        """Whether nothing fails any more."""
        return self.outcomes.steps > self.conditions.calm_after

    def _happens(self, probability: float) -> bool:
        return not self.calm and self.chance.random() < probability

    def _storage_fault(self, operation: str, name: str) -> Fault | None:
        self._note(operation)
        if self._driver_crashes and name.endswith("_metadata") and operation == "write" and self._happens(0.02):
            self._driver_crashes -= 1
            raise DriverDied
        if not self._happens(self.conditions.storage_faults):
            return None
        fault = self.chance.choice([Fault.ERROR, Fault.TORN, Fault.UNSURE])
        return fault if operation == "write" else Fault.ERROR

    def _commit_fault(self) -> None:
        if self.conditions.interval is None:
            return  # nothing but checkpoints can make good what is half committed
        if self._driver_crashes and self._happens(0.02):
            self._driver_crashes -= 1
            raise DriverDied
        if self._happens(self.conditions.commit_faults):
            raise NotNow("the database does not answer")

    # ---- drivers and attempts

    def _drivers(self) -> None:
        while True:
            self.outcomes.drivers += 1
            self._zombies.clear()
            self._attempt = None
            try:
                self._start_driver()
                self._attempts()
            except (DriverDied, StorageFailed, NotNow) as reason:
                self._note(f"driver ends: {reason!r}")
            except CheckpointCorrupted:
                # Nothing but a torn manifest that could not be deleted: someone has to look, and finds that nothing is lost.
                if self._newest:
                    raise
                self._storage.files.clear()
            else:
                return
            finally:
                if self._checkpoints is not None:
                    self._newest = max(self._newest, self._checkpoints.newest)
            self._step()

    def _start_driver(self) -> None:
        drawn = self.conditions
        env = StreamExecutionEnvironment.get_execution_environment(
            Configuration(
                {
                    "execution.target": "local",
                    "execution.runtime-mode": "STREAMING",
                    "execution.block.records": drawn.block_records,
                    "pipeline.auto-watermark-interval": 20,
                    "pipeline.max-parallelism": 8,
                    "state.backend.type": drawn.backend,
                }
            )
        )
        _build(env, drawn.program, drawn.records, self._name, self._wide())
        self._job = env.job("simulated")
        self._job.settings = replace(self._job.settings, together=True)
        self._checkpoints = None
        if drawn.interval is not None:
            policy = Policy(
                Millis(drawn.interval), Millis(drawn.min_pause), Millis(drawn.timeout), drawn.tolerable,
                drawn.concurrent, drawn.retained, frozenset({Outcome.FAILED}),
            )  # fmt: skip
            settings = replace(
                CheckpointSettings.of(Options({})),
                policy=policy,
                directory=self._name,
                snapshots=SnapshotOptions(drawn.incremental, drawn.inline_below, unique=self._unique),
            )
            self._checkpoints = SimulatedCheckpoints(self._job.plan, settings, self._clock, self._newest)
        self._job.checkpoints = self._checkpoints
        self._blob = portable(self._job.plan)

    def _wide(self) -> Callable[[], int]:
        """Give each operator a width; the same as before if the job is not rescaled."""
        if self.conditions.rescales:
            self._widths.clear()
        numbers = itertools.count()

        def wide() -> int:
            return self._widths.setdefault(next(numbers), self.chance.choice([1, 1, 2, 3]))

        return wide

    def _attempts(self) -> None:
        for number in itertools.count():
            self.outcomes.attempts += 1
            self._note(f"attempt {number}")
            try:
                self._begin(number)
                self._run()
            except JobExecutionError as error:
                self._note(f"attempt fails: {error.args[0]}")
                if self._end_attempt(error):
                    continue
            self._job.master.succeed()
            self._driver_crashes = 0  # a driver that starts once more after the end would begin anew
            self._stop(Outcome.FINISHED)
            return

    def _begin(self, number: int) -> None:
        job = self._job
        job.begin_attempt(number)
        self._ledger.give_up()
        self._check_committed()
        job.master.check()
        self._attempt = attempt = Attempt(job, self._blob, self._clock, self._storage.at("job"))
        job.master.send = attempt.order
        for task in self.chance.sample(list(attempt.tasks.values()), len(attempt.tasks)):
            try:
                task.open()
            except (CheckpointError, JobExecutionError) as error:
                if not isinstance(error.__cause__ or error, StorageFailed):
                    raise Violation(f"{task.id} cannot be opened: {error}") from error
                attempt.reports[task.id].append(TaskFailed(task.id, error=JobExecutionError(str(error))))
                attempt.dead.add(task.id)
            else:
                attempt.reports[task.id].append(Started(task.id, pid=1))

    def _end_attempt(self, error: JobExecutionError) -> bool:
        """Say whether there is to be another, as a job's client does; no driver goes on if there cannot be one."""
        job, checkpoints = self._job, self._checkpoints
        if checkpoints is not None and checkpoints.done:
            return False
        if isinstance(error.__cause__, Violation):
            raise error.__cause__
        if job.restartable and not self._happens(0.1):  # else the restart strategy has had enough
            job.master.abandon()
            if self._attempt is not None:
                self._zombies.append(self._attempt)
                self._attempt = None
            if checkpoints is None:
                return True
            self._clock.advance(self.chance.randrange(100))
            with suppress(JobExecutionError):  # its end is not committed
                return checkpoints.failed(str(error.args[0]))
        self._stop(Outcome.FAILED)
        raise DriverDied from error

    def _run(self) -> None:
        job, attempt = self._job, self._attempt
        assert attempt is not None
        while not job.master.over:
            self._step()
            self._one_thing()
            if job.master.error is not None:
                raise job.master.error
        if job.master.error is not None:
            raise job.master.error
        for task in attempt.tasks.values():
            if not task.finished:
                raise Violation(f"the job is over, but {task.id} is not")

    def _stop(self, outcome: Outcome) -> None:
        if self._checkpoints is not None:
            self._checkpoints.stopped(outcome)
            while self._checkpoints.work:
                self._background()

    # ---- steps

    def _step(self) -> None:
        self.outcomes.steps += 1
        if self.outcomes.steps > _BOUND:
            raise Violation(f"no end after {_BOUND} steps")

    def _note(self, what: str) -> None:
        self._trace.update(what.encode())

    def _one_thing(self) -> None:
        chance, attempt = self.chance, self._attempt
        assert attempt is not None
        self._clock.advance(chance.choice([0, 0, 0, 1, 3]))
        if chance.random() < 0.001 and not self.calm:
            self._clock.advance(chance.choice([100, 1000]))
        if self._task_crashes and self._happens(0.003):
            self._task_crashes -= 1
            self._kill(chance.choice(list(attempt.tasks)))
            return
        if self._driver_crashes and self._happens(0.001):
            self._driver_crashes -= 1
            raise DriverDied
        choices: list[tuple[str, Any]] = [("task", task) for task in attempt.tasks if task not in attempt.dead]
        choices += [
            ("block", place) for place, queue in attempt.blocks.items() if queue and place[1] not in attempt.dead
        ]
        choices += [("report", task) for task, queue in attempt.reports.items() if queue]
        choices += [("order", task) for task, queue in attempt.orders.items() if queue and task not in attempt.dead]
        choices += [("write", task) for task, queue in attempt.writing.items() if queue and task not in attempt.dead]
        choices.append(("tick", None))
        if self._checkpoints is not None and self._checkpoints.work:
            choices.append(("background", None))
        if self._zombies and not self.calm:
            choices.append(("zombie", chance.choice(self._zombies)))
        what, which = chance.choice(choices)
        self._note(f"{what} {which if what != 'zombie' else ''} {self._clock.now()}")
        match what:
            case "task":
                self._work(attempt.tasks[which])
            case "block":
                attempt.tasks[which[1]].receive(attempt.blocks[which].popleft())
                attempt.carry(attempt.tasks[which[1]])
            case "report":
                self._deliver(attempt.reports[which].popleft())
            case "order":
                attempt.tasks[which].order(attempt.orders[which].popleft())
                attempt.carry(attempt.tasks[which])
            case "write":
                attempt.reports[which].append(attempt.write(which))
            case "tick":
                self._job.master.tick()
                self._send(self._job.master.discover(self._clock.now()))
            case "background":
                self._background()
            case "zombie":
                self._haunt(which)

    def _work(self, task: Task) -> None:
        chance, attempt = self.chance, self._attempt
        assert attempt is not None
        task.advance()
        for _ in range(chance.randrange(4)):
            if task.work:
                task.step()
        waiting = sum(map(len, attempt.blocks.values()))
        if task.has_sources and waiting < self.conditions.in_flight:
            task.poll()
        if chance.random() < 0.3:
            task.flush()
        attempt.carry(task)

    def _deliver(self, report: Report) -> None:
        if isinstance(report, Snapshotted) and self._happens(self.conditions.lost_acks):
            self._kill(report.task, lost=True)  # between the two nothing gets lost alone: the connection is
            return
        self._send(self._job.master.handle(report))

    def _send(self, orders: list[tuple[TaskId, Order]]) -> None:
        assert self._attempt is not None
        for task, order in orders:
            self._attempt.order(task, order)

    def _background(self) -> None:
        assert self._checkpoints is not None
        self._checkpoints.work.popleft()()
        self._check_committed()

    def _kill(self, task: TaskId, lost: bool = False) -> None:
        """A task dies; a part of what it was about to say is lost, and the driver gets to know of it after the rest."""
        attempt, chance = self._attempt, self.chance
        assert attempt is not None
        if task in attempt.dead:
            return
        attempt.dead.add(task)
        if lost:
            attempt.reports[task].clear()
        for place, queue in attempt.blocks.items():
            if place[0] == task:
                for _ in range(chance.randint(0, len(queue))):
                    queue.pop()
        reports = attempt.reports[task]
        for _ in range(chance.randint(0, len(reports))):
            reports.pop()
        reports.append(TaskFailed(task, error=TaskLost(f"{task} died, as planned")))

    def _haunt(self, zombie: Attempt) -> None:
        """Something of an earlier attempt still writes, or arrives."""
        assert self._attempt is not None and zombie.number < self._attempt.number
        task = self.chance.choice(list(zombie.tasks))
        report: Report | None = None
        if zombie.writing[task]:
            report = zombie.write(task)
        elif zombie.reports[task]:
            report = zombie.reports[task].popleft()
        if self._checkpoints is not None and isinstance(report, Snapshotted | NotSnapshotted | Finished):
            self._checkpoints.take(report)

    def _check_committed(self) -> None:
        now = self._ledger.results()
        if self._seen - now:
            raise Violation(f"these results were committed and are gone: {dict(self._seen - now)}")
        self._seen = now


def _build(env: StreamExecutionEnvironment, program: str, records: int, ledger: str, wide: Callable[[], int]) -> None:
    for tag, stream in enumerate(PROGRAMS[program](env, records, wide)):
        stream.sink_to(LedgerSink(ledger, tag)).set_parallelism(wide())


def oracle(program: str, records: int) -> Counter[Any]:
    """Return what a program writes if nothing fails, by a run without checkpoints and without any of this."""
    found = _ORACLES.get((program, records))
    if found is None:
        name = f"oracle {program} {records}"
        ledger = LEDGERS[name] = Ledger()
        env = StreamExecutionEnvironment.create_local_environment(1)
        env.get_configuration().set("execution.runtime-mode", "STREAMING")
        _build(env, program, records, name, lambda: 1)
        with suppress(KeyError):
            env.execute(name)
            del LEDGERS[name]
        found = _ORACLES[program, records] = ledger.results()
    return found
