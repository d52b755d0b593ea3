"""A whole job under a random schedule with faults, in one process and under virtual time; a seed says it all.

Sources, stages, sinks, coordinator and storage are the real ones; only what carries things between them is not. One of the
things that could happen is drawn and happens, step by step: a task works a little, a block, report or order arrives (late,
but in order between the same two), a snapshot is written, the driver's background does a piece of work, time passes, an
acknowledgement is lost, a write is torn or refused, a task, the session with all tasks, or the driver dies (at any moment, or
right at a step of a checkpoint), a savepoint is asked for, the job is stopped with one and resumes from it, a second driver
takes over while the first still runs, a file of a checkpoint is damaged. Tasks whose attempt is over may run on.

After a number of steps nothing fails any more, so that every job comes to its end. Then it is checked that

* the sink holds each result of a run without faults exactly once (at least once, where that is what was asked for, or
  after a checkpoint was damaged),
* nothing that was committed is gone, and no transaction is committed that was given up,
* complete checkpoints are numbered upwards, over all drivers, and a driver starts from the newest,
* a driver that was replaced completes nothing any more, and every savepoint that was answered for is whole,
* the coordinator's machine was valid after every event,
* the end came within a bounded number of steps.

A seed replays exactly, except that RocksDB's own threads decide how many files a snapshot of it has.

>>> Simulation(1).run().violation
''
"""

from __future__ import annotations

import hashlib
import itertools
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

from funken import StreamExecutionEnvironment
from funken.checkpoint.store.completed import open_checkpoint
from funken.checkpoint.store.epochs import EPOCHS
from funken.errors import CheckpointCorrupted, CheckpointIncompatible, FunkenError, StorageFailed
from funken.io.storage import mounted
from funken.testing.memory_storage import Fault, MemoryStorage
from funken.timing.clock import ManualClock
from tests.support.simulation.attempts import DriverDied
from tests.support.simulation.conditions import Conditions, Outcomes, Strike
from tests.support.simulation.drivers import Driver
from tests.support.simulation.ledgers import LEDGERS, FileLedger, Ledger, Violation, memory_folder
from tests.support.simulation.requests import drawn_requests
from tests.support.simulation.scenarios import build, expected_left_over

_BOUND = 400_000
"""More steps than any job takes: 300 records one by one through joins of 15 tasks took 161,506."""
_ORACLES: dict[tuple[str, int], Counter[Any]] = {}


class NotNow(Exception):
    """The sink cannot commit at the moment."""


class Replaced(BaseException):
    """Another driver takes over, and this one does not know."""


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Let ``random`` draw from a seed for a while: ``shuffle`` chooses targets with it, and restarts their delays."""
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


class Simulation:
    """One run; ``conditions`` may replace some of those that are drawn."""

    def __init__(self, seed: int, **conditions: Any) -> None:
        self.chance = random.Random(seed)
        self.conditions = replace(Conditions.drawn(self.chance), **conditions)
        self.outcomes = Outcomes(seed, self.conditions)
        self.clock = ManualClock(1000)
        self.name = f"simulated://{seed}"
        self.ledger: Ledger = Ledger(fault=self._commit_fault)
        self.storage = MemoryStorage(self.name, faults=self._storage_fault)
        self.task_crashes = self.conditions.task_crashes
        self.savepoints = self.conditions.savepoints
        self.stops = self.conditions.stops
        self.paths: list[str] = []
        self.damaged = False
        self.error: Exception | None = None
        self._driver_crashes = self.conditions.driver_crashes
        self._second_drivers = self.conditions.second_drivers
        self._driver: Driver | None = None
        self._drivers: list[Driver] = []
        self._replaced: list[tuple[Driver, int]] = []
        self._newest = 0
        self._over = False
        self._haunting = False
        self._stored = False
        self._committed = False
        self._damages = self.conditions.damages
        self._strikes = list(self.conditions.strikes)
        self._held: Counter[Any] = Counter()
        self._seen: Counter[Any] = Counter()
        self._trace = hashlib.blake2b(digest_size=8)
        self._widths: dict[int, int] = {}
        self._backend = self.conditions.backend
        self._operator = itertools.count()
        self._numbers = itertools.count()

    def run(self) -> Outcomes:
        """Run to the end; what is wrong is in ``violation``."""
        try:
            with ExitStack() as around:
                around.enter_context(mounted(self.name, self.storage))
                around.enter_context(drawn_requests(self.chance))
                around.enter_context(_seeded(self.outcomes.seed))
                if self.conditions.files:
                    folder = tempfile.TemporaryDirectory(prefix="funken-simulated-", dir=memory_folder())
                    self.ledger = FileLedger(around.enter_context(folder), self._commit_fault, self.outcomes.seed)
                LEDGERS[self.name] = self.ledger
                self._run()
                self._check_end()
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed fails
            self.outcomes.violation = f"{type(error).__name__}: {error}"
            self.error = error
        finally:
            for driver in self._drivers:
                driver.close()
            LEDGERS.pop(self.name, None)
        self.outcomes.trace = self._trace.hexdigest()
        return self.outcomes

    # ---- drivers

    def _run(self) -> None:
        """Let one driver after the other run the job, until it has come to its end."""
        path, jobs = "", itertools.count()
        job_id = f"job-{next(jobs)}"
        while True:
            self.outcomes.drivers += 1
            try:
                if self.conditions.rescales:
                    self._widths.clear()
                self._operator = itertools.count()
                self._driver = Driver(self, job_id, path, 0 if self.damaged else self._newest)
                self._drivers.append(self._driver)
                path = self._driver.run()
                if expected_left_over(self.conditions.program, 0) is not None:
                    self._held = self._driver.held()
            except (DriverDied, Replaced, StorageFailed, NotNow) as reason:
                self.note(f"driver ends: {reason!r}")
                self._leave(isinstance(reason, Replaced))
            except (CheckpointCorrupted, CheckpointIncompatible) as reason:
                # Nothing but a torn manifest that could not be deleted: someone has to look, and finds that nothing is lost.
                # Or everything is damaged, and the job begins anew.
                if not self.damaged and (self._newest or path or isinstance(reason, CheckpointIncompatible)):
                    raise
                self._leave(False)
                self.storage.delete_all(job_id)
                self._newest = 0
            else:
                self._leave(False)
                self._replaced.clear()  # they would go on with a job that has ended
                if not path:
                    return
                job_id, self._newest = f"job-{next(jobs)}", 0
                self.outcomes.savepoints += 1
            self._driver = None
            self.step()

    def _leave(self, lives: bool) -> None:
        driver, outcomes = self._driver, self.outcomes
        if driver is None:
            return
        outcomes.attempts += driver.attempts
        self.paths += driver.saved()
        if driver.checkpoints is not None:
            driver.checkpoints.check()
            self._newest = max(self._newest, driver.checkpoints.newest)
            outcomes.checkpoints = max(outcomes.checkpoints, self._newest)
            outcomes.in_flight = max(outcomes.in_flight, driver.checkpoints.in_flight)
            outcomes.refused += driver.checkpoints.refused
            if lives:
                self._replaced.append((driver, driver.checkpoints.newest))

    def _haunt(self) -> None:
        """A driver that was replaced goes on."""
        driver, newest = self._replaced[self.chance.randrange(len(self._replaced))]
        self._haunting = True
        with suppress(FunkenError, NotNow, DriverDied):
            if not driver.gone:
                driver.one_thing()
        self._haunting = False
        assert driver.checkpoints is not None
        if driver.checkpoints.newest > newest:
            raise Violation(f"a driver that was replaced has completed checkpoint {driver.checkpoints.newest}")
        if driver.gone:
            with suppress(FunkenError, NotNow, DriverDied):
                while driver.checkpoints.work:
                    driver.checkpoints.work.popleft()()
            self._replaced.remove((driver, newest))

    # ---- what a driver finds around it

    def step(self) -> None:
        """Count a step; time passes, and the driver may die or be replaced."""
        self.outcomes.steps += 1
        if self.outcomes.steps > _BOUND:
            raise Violation(f"no end after {_BOUND} steps")
        if self._driver is None:
            return
        self.clock.advance(self.chance.choice([0, 0, 0, 1, 3]))
        if self._damages and self.happens(0.002):
            self._damage(self._driver.job_id)
        if self.happens(0.001):
            self.clock.advance(self.chance.choice([100, 1000]))
        if self._driver_crashes and self.happens(0.001):
            self._driver_crashes -= 1
            raise DriverDied
        if self._second_drivers and self._driver.checkpoints is not None and self.happens(0.002):
            self._second_drivers -= 1
            raise Replaced
        if self._replaced and self.happens(0.5):
            self._haunt()

    def strikes(self, place: str) -> bool:
        """Whether somebody is to die at a step of a checkpoint, now or later."""
        return any(strike.place == place for strike in self._strikes)

    def strike(self, place: str) -> None:
        """Let die who is to die at a step of a checkpoint."""
        if self._driver is None or self._haunting:
            return
        for number, (at, skip, victim) in enumerate(self._strikes):
            if at != place:
                continue
            if skip:
                self._strikes[number] = Strike(at, skip - 1, victim)
                continue
            del self._strikes[number]
            if not self.happens(1.0):
                return
            self.note(f"{victim} dies: {place}")
            if victim == "driver":
                raise DriverDied
            self._driver.strike(victim)
            return

    def _damage(self, job_id: str) -> None:
        """Change a file of a checkpoint of the job, cut it off, or lose it."""
        files = self.storage.files
        names = sorted(name for name in files if name.startswith(f"{job_id}/") and f"/{EPOCHS}/" not in name)
        if not names:
            return
        self._damages -= 1
        self.damaged = True
        name = self.chance.choice(names)
        at, how = self.chance.randrange(len(files[name]) or 1), self.chance.choice(["changed", "cut off", "gone"])
        self.note(f"{name} is {how}")
        data = files.pop(name)
        if how == "changed" and data:
            files[name] = data[:at] + bytes([data[at] ^ 1 << self.chance.randrange(8)]) + data[at + 1 :]
        elif how == "cut off":
            files[name] = data[:at]

    def happens(self, probability: float) -> bool:
        """Whether something goes wrong now; after a while nothing does any more."""
        calm = self._over or self.outcomes.steps > self.conditions.calm_after
        return not calm and self.chance.random() < probability

    def note(self, what: str) -> None:
        """Add to the trace."""
        self._trace.update(what.encode())

    def unique(self) -> str:
        """Return a name that nobody else has."""
        return f"{next(self._numbers):08d}"

    def wide(self) -> int:
        """Give the next operator of a program its width; the same as before if the job is not rescaled."""
        return self._widths.setdefault(next(self._operator), self.chance.choice([1, 1, 2, 3]))

    def way(self, path: str) -> dict[str, Any]:
        """Give the next driver its way of computing; ``path``: the savepoint that it may begin with."""
        if not self.conditions.mixed:
            return {"state.backend.type": self._backend}
        if path and not self._newest:
            self._backend = self.chance.choice(["hashmap", "rocksdb"])
        return {"state.backend.type": self._backend, "pipeline.vectorized": self.chance.random() < 0.5}

    def _storage_fault(self, operation: str, name: str) -> Fault | None:
        self.note(operation)
        if self._stored:
            self._stored = False
            self.strike("stored")
        if operation == "write" and name.endswith("_metadata"):
            self.strike("storing")
            self._stored = True
        if self._driver_crashes and name.endswith("_metadata") and operation == "write" and self.happens(0.02):
            self._driver_crashes -= 1
            raise DriverDied
        if not self.happens(self.conditions.storage_faults):
            return None
        fault = self.chance.choice([Fault.ERROR, Fault.TORN, Fault.UNSURE])
        return fault if operation == "write" else Fault.ERROR

    def _commit_fault(self) -> None:
        if self.conditions.interval is None:
            return  # nothing but checkpoints can make good what is half committed
        self.strike("committing")
        self._committed = True
        if self._driver_crashes and self.happens(0.02):
            self._driver_crashes -= 1
            raise DriverDied
        if self.happens(self.conditions.commit_faults):
            raise NotNow("the database does not answer")

    # ---- what is checked

    def check_committed(self) -> None:
        """Look whether something committed is gone."""
        if self._committed:
            self._committed = False
            self.strike("committed")
        now = self.ledger.results()
        if self._seen - now:
            raise Violation(f"these results were committed and are gone: {dict(self._seen - now)}")
        self._seen = now

    def _check_end(self) -> None:
        self._over = True
        self.check_committed()
        expected, found = oracle(self.conditions.program, self.conditions.records), self.ledger.results()
        held = expected_left_over(self.conditions.program, self.conditions.records)
        if held is not None:
            expected = held + Counter({value: count for value, count in expected.items() if value[0]})
            found += self._held
        if expected - found or (self.conditions.exactly_once and not self.damaged and found - expected):
            raise Violation(f"lost {dict(expected - found)}, too many {dict(found - expected)}")
        if self.conditions.exactly_once and found.keys() - expected.keys():
            raise Violation(f"these results are wrong: {found.keys() - expected.keys()}")
        for path in self.paths:
            open_checkpoint(path, check_contents=True)
        self.outcomes.savepoints += len(self.paths)


def oracle(program: str, records: int) -> Counter[Any]:
    """Return what a program writes if nothing fails: record by record, without checkpoints and without any of this."""
    found = _ORACLES.get((program, records))
    if found is None:
        name = f"oracle {program} {records}"
        ledger = LEDGERS[name] = Ledger()
        env = StreamExecutionEnvironment.create_local_environment(1)
        env.get_configuration().set("execution.runtime-mode", "STREAMING").set("pipeline.vectorized", False)
        build(env, program, records, name, lambda: 1)
        with suppress(KeyError):
            env.execute(name)
            del LEDGERS[name]
        found = _ORACLES[program, records] = ledger.results()
    return found
