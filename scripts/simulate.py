"""Run many simulated jobs with faults, one per seed; prints progress and the seeds that fail.

``make simulate SEEDS=10000 FIRST_SEED=0``. One seed alone: ``make simulate SEEDS=1 FIRST_SEED=42``, which prints its traceback.
With ``--sink kafka`` (``SINK=kafka``) results go through the real Kafka sink into a model of the brokers' transaction log.
"""

import argparse
import logging
import os
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.simulation.run import Outcomes, Simulation

_PROGRESS_SECONDS = 10


def simulation(seed: int, sink: str) -> Simulation:
    """Make one."""
    if sink == "kafka":
        sys.path.insert(0, str(Path(__file__).parent.parent))
        from tests.support.transaction_ledger import TransactionSimulation  # noqa: PLC0415 - not an installed package

        made: Simulation = TransactionSimulation(seed)
        return made
    return Simulation(seed)


def run(seed: int, sink: str) -> Outcomes:
    """Run one seed, quietly: faults that are planned are logged as warnings."""
    logging.disable(logging.WARNING)
    return simulation(seed, sink).run()


def results(seeds: range, workers: int, sink: str) -> Iterator[Outcomes]:
    """Run seeds in several processes; one needs no other."""
    one = partial(run, sink=sink)
    if workers == 1:
        yield from map(one, seeds)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(one, seeds, chunksize=5)


def main() -> int:
    """Run; return how the shell is to see it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="how many processes")
    parser.add_argument("--sink", choices=("ledger", "kafka"), default="ledger", help="what is written to")
    parser.add_argument("--stop", action="store_true", help="stop at the first seed that fails")
    arguments = parser.parse_args()
    begin = told = time.monotonic()
    failing: list[Outcomes] = []
    counts = dict.fromkeys(("steps", "attempts", "drivers", "checkpoints", "savepoints", "in_flight", "refused"), 0)
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    for done, outcomes in enumerate(results(seeds, arguments.workers, arguments.sink), 1):
        for name in counts:
            counts[name] += getattr(outcomes, name)
        if outcomes.violation:
            failing.append(outcomes)
            print(f"seed {outcomes.seed} ({outcomes.conditions.program}): {outcomes.violation[:300]}", flush=True)
            if arguments.stop:
                break
        if time.monotonic() - told > _PROGRESS_SECONDS or done == len(seeds):
            told = time.monotonic()
            facts = ", ".join(f"{count} {name}" for name, count in counts.items())
            print(f"{done} of {len(seeds)} seeds, {len(failing)} failing; {facts}; {told - begin:.0f} s", flush=True)
    if failing and len(seeds) == 1:
        again = simulation(seeds[0], arguments.sink)
        print(again.run())
        if again.error is not None:
            traceback.print_exception(again.error)
    if failing:
        print("failing seeds:", *(outcomes.seed for outcomes in failing))
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main())
