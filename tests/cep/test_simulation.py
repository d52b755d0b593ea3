"""Patterns in jobs under random schedules and faults: killed, restored and rescaled amid partial matches, they find the same."""

import logging

import pytest

from tests.cep.simulated import clauses, patterns, rules
from tests.support.simulation.run import Simulation, oracle
from tests.support.simulation.scenarios import PROGRAMS

SEEDS = 30
NAMES = ["patterns", "rules", "clauses"]


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    for name, made in zip(NAMES, (patterns, rules, clauses), strict=True):
        monkeypatch.setitem(PROGRAMS, name, made)
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(("program", "outputs"), [("patterns", 5), ("rules", 4), ("clauses", 2)])
def test_the_program_finds_something_of_everything(program, outputs):
    assert {tag for tag, _ in oracle(program, 120)} == set(range(outputs))


@pytest.mark.parametrize("program", NAMES)
def test_matches_survive_crashes_and_rescaling(program):
    conditions = {"interval": 20, "timeout": 600_000, "tolerable": 1, "task_crashes": 4, "driver_crashes": 2}
    conditions |= {"storage_faults": 0.01, "lost_acks": 0.0, "commit_faults": 0.0, "records": 120, "calm_after": 2000}
    runs = [Simulation(seed, program=program, rescales=True, **conditions).run() for seed in range(8, 12)]
    assert [run.violation for run in runs] == [""] * 4
    assert max(min(run.attempts, run.checkpoints) for run in runs) > 1


@pytest.mark.simulation
@pytest.mark.parametrize("program", NAMES)
@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_every_match_comes_once_whatever_fails(program, first):
    conditions = {"program": program, "exactly_once": True}  # with at least once, an event may come twice
    violations = {seed: Simulation(seed, **conditions).run().violation for seed in range(first, first + 10)}
    assert {seed: found for seed, found in violations.items() if found} == {}
