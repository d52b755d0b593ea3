"""What a simulated run is like, drawn from its seed, and how it went."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import NamedTuple

from tests.support.simulation.loops import LOOPS
from tests.support.simulation.plans import PLANS
from tests.support.simulation.scenarios import COUNTING, IN_ORDER, PROGRAMS
from tests.support.simulation.timed import TIMED
from tests.support.simulation.whole import WHOLE

PLACES = (
    "triggered", "aligning", "cut", "written", "acked", "storing", "stored", "committing", "committed", "restoring",
)  # fmt: skip
"""The steps of a checkpoint, and of a restore, right after (``storing`` and ``committing``: before) which one may die."""


_LOOPED, _PLANNED, _WHOLE = 0.15, 0.15, 0.15
"""Which part of the runs have a loop, of the others a SQL plan, and of the others one of ``WHOLE``."""


class Strike(NamedTuple):
    """Who dies at a place: a ``task``, the ``session`` with all of them, or the ``driver``; ``skip``: not the first times."""

    place: str
    skip: int
    victim: str


@dataclass(frozen=True)
class Conditions:
    """What a run is like; ``aligned_timeout`` (ms) says when barriers overtake, ``None``: never.

    ``slice_rows`` is how many rows of a cut are pickled at a time: with 1, everything happens while cuts are open.
    ``damages`` is how many files of checkpoints are changed, cut off or lost after they were written: results may come again
    then. ``files``: results go into files instead of the ledger. ``mixed``: each driver begins with columns or without, and
    from a savepoint with any backend.
    """

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
    exactly_once: bool
    aligned_timeout: int | None
    savepoints: int
    stops: int
    second_drivers: int
    slice_rows: int = 0
    backend: str = "hashmap"
    files: bool = False
    mixed: bool = False
    damages: int = 0
    strikes: tuple[Strike, ...] = ()

    @staticmethod
    def drawn(chance: random.Random) -> Conditions:
        """Draw them."""
        faulty = chance.random() < 0.7
        # Who gives a checkpoint little time must bear that it fails, or no attempt comes to its end. 300 ms may never do:
        # a watermark per record lets up to 300 blocks queue before one task, and a barrier comes behind them. With 100 that
        # may fail each attempt ended after about 11 s, with some 120 of 300 records read, and the next began anew.
        timeout, tolerable = chance.choice([(300, 1_000_000), (2000, 100), (600_000, 0), (600_000, 1)])
        program = chance.choice(sorted(PROGRAMS))
        exactly_once = program not in COUNTING or chance.random() < 0.8
        aligned_timeout = chance.choice([None, None, 0, 0, 3, 30]) if exactly_once else None
        struck = chance.choice([0, 0, 1, 2, 3])
        drawn = Conditions(
            program=program,
            records=chance.choice([5, 30, 60, 60, 120, 120, 300]),
            interval=chance.choice([None, 1, 5, 20, 20, 50, 100, 300]),
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
            rescales=chance.random() < 0.5 and not (program in IN_ORDER and aligned_timeout is not None),
            exactly_once=exactly_once,
            aligned_timeout=aligned_timeout,
            savepoints=chance.choice([0, 0, 1, 3]),
            stops=chance.choice([0, 0, 1, 2]),
            second_drivers=chance.choice([0, 0, 0, 1, 2]),
            slice_rows=chance.choice([0, 1, 1, 3]),
            backend="rocksdb" if chance.random() < 0.1 else "hashmap",
            files=chance.random() < 0.15,
            damages=chance.choice([1, 3]) if chance.random() < 0.1 else 0,
            strikes=tuple(
                Strike(
                    chance.choice(PLACES), chance.choice([0, 0, 1, 2, 5]), chance.choice(["task", "session", "driver"])
                )
                for _ in range(struck)
            ),
        )
        looped = random.Random()
        looped.setstate(chance.getstate())  # what else a seed draws stays what it was before there were loops
        if looped.random() < _LOOPED:
            drawn = replace(drawn, program=looped.choice(sorted(LOOPS)), exactly_once=True)
        elif looped.random() < _PLANNED:
            drawn = drawn.planned(looped)
        elif looped.random() < _WHOLE:
            drawn = drawn.whole(looped)
        return drawn

    def planned(self, chance: random.Random) -> Conditions:
        """Return the same with a SQL plan for a program, and so few records that its operators come to an end.

        With RocksDB written a row at a time, no checkpoint of ten tasks is done within 300 ms.
        """
        rescales = self.rescales and self.aligned_timeout is None
        records = min(self.records, 60)
        program = chance.choice(sorted(PLANS))
        timeout = max(self.timeout, 2000)
        return replace(self, program=program, exactly_once=True, rescales=rescales, records=records, timeout=timeout)

    def whole(self, chance: random.Random) -> Conditions:
        """Return the same with a program of many operators, and so few checkpoints that their barriers get through."""
        backend = chance.choice(["hashmap", "hashmap", "rocksdb"])
        interval = None if self.interval is None else max(self.interval, 20)
        program = chance.choice(sorted(WHOLE))
        rescales = self.rescales and (self.aligned_timeout is None or program not in TIMED)
        made = replace(self, program=program, exactly_once=True, backend=backend, interval=interval, rescales=rescales)
        return replace(made, timeout=max(self.timeout, 2000), mixed=chance.random() < 0.5)


@dataclass
class Outcomes:
    """How a run went; ``trace`` is a digest of every step of it."""

    seed: int
    conditions: Conditions
    steps: int = 0
    attempts: int = 0
    drivers: int = 0
    checkpoints: int = 0
    in_flight: int = 0
    savepoints: int = 0
    refused: int = 0
    trace: str = ""
    violation: str = ""
