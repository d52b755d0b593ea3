"""Which parallelism a job should have: slots that come, load that rises and falls, and what is refused."""

import itertools
import random
from math import ceil

import pytest

from funken import Configuration
from funken.errors import InvalidConfiguration
from funken.runtime.job.scaling import Begun, ChangeScale, LoadObserved, Refused, ScalingMachine, ScalingSettings

SLOTS = ScalingSettings(by_load=False, lowest=1, highest=8, pause=1_000, slots_for=2_000)
LOAD = ScalingSettings(by_load=True, lowest=1, highest=16, pause=1_000, slots_for=0, window=3_000, settle=1_000)


def begun(settings, parallelism):
    machine = ScalingMachine(settings)
    assert machine.handle(Begun(parallelism), 0) is None
    return machine


def observe(machine, times, **seen):
    """What the first of these observations that leads to anything leads to."""
    return next((found for at in times if (found := machine.handle(LoadObserved(**seen), at)) is not None), None)


def test_it_grows_when_slots_have_been_there_for_long_enough():
    machine = begun(SLOTS, 2)
    assert observe(machine, range(0, 2_000, 500), possible=5) is None
    assert machine.handle(LoadObserved(possible=5), 2_000) == ChangeScale(5, "there are slots for 5")
    assert observe(machine, range(2_500, 60_000, 500), possible=8) is None, "one change at a time"
    machine.handle(Begun(5), 60_000)
    assert observe(machine, range(60_500, 70_000, 500), possible=8).parallelism == 8


def test_slots_that_come_and_go_do_not_count():
    machine = begun(SLOTS, 2)
    for at in range(0, 60_000, 500):
        assert machine.handle(LoadObserved(possible=5 if at // 500 % 3 else 2), at) is None


def test_it_takes_no_more_than_the_program_wants_and_does_not_shrink_by_itself():
    machine = begun(SLOTS, 8)
    assert observe(machine, range(0, 60_000, 500), possible=100) is None
    assert observe(machine, range(60_000, 90_000, 500), possible=3) is None


def test_a_small_gain_is_not_worth_a_restart():
    settings = ScalingSettings(by_load=False, lowest=1, highest=8, least_increase=3, pause=0, slots_for=0)
    machine = begun(settings, 2)
    assert observe(machine, range(0, 10_000, 500), possible=4) is None
    assert observe(machine, range(10_000, 20_000, 500), possible=5).parallelism == 5


def test_what_was_refused_is_tried_again_after_ever_longer_pauses():
    machine, tries = begun(SLOTS, 2), []
    for at in range(0, 60_000, 500):
        if machine.handle(LoadObserved(possible=4), at) is not None:
            tries.append(at)
            machine.handle(Refused(), at)
    pauses = [after - before for before, after in itertools.pairwise(tries)]
    assert pauses == [2_000, 4_000, 8_000, 16_000, 16_000]


@pytest.mark.parametrize(
    ("running", "busy", "pressed", "expected"),
    [
        (4, 1.0, 0.25, 8),  # 4 / 0.75 / 0.7
        (4, 1.0, 0.9, 8),  # it doubles at most
        (4, 0.8, 0.125, 6),
        (4, 0.6, 0.5, None),  # something else is slow
        (4, 0.9, 0.0, None),  # it keeps up
        (4, 0.5, 0.0, None),
        (4, 0.3, 0.0, 2),
        (4, 0.01, 0.0, 2),  # it halves at most
        (4, 0.3, 0.2, None),  # sources are held back, and not by these vertices
        (1, 0.0, 0.0, None),
        (16, 1.0, 0.5, None),  # the bound
    ],
)
def test_the_load_decides_within_the_bounds(running, busy, pressed, expected):
    machine = begun(LOAD, running)
    assert observe(machine, range(0, 4_000, 500), possible=100, busy=busy, pressed=pressed) is None, "not yet"
    found = observe(machine, range(4_000, 20_000, 500), possible=100, busy=busy, pressed=pressed)
    assert (found and found.parallelism) == expected


def test_load_does_not_take_slots_that_are_not_there():
    machine = begun(LOAD, 4)
    assert observe(machine, range(0, 20_000, 500), possible=5, busy=1.0, pressed=0.5) == ChangeScale(
        5, "there are slots for 5"
    )
    machine.handle(Begun(5), 20_000)
    assert observe(machine, range(20_000, 60_000, 500), possible=5, busy=1.0, pressed=0.5) is None


@pytest.mark.parametrize("seed", range(200))
def test_it_comes_to_rest_where_the_load_is_carried(seed):
    """A job whose subtasks carry ``each`` records per second, under a load that is constant: an oracle says what is enough."""
    chance = random.Random(seed)
    demand, each = chance.uniform(1, 100), chance.uniform(5, 20)
    running = chance.randint(1, 16)
    machine, changes = begun(LOAD, running), []
    for at in range(0, 600_000, 500):
        carried = min(demand, running * each)
        busy, pressed = carried / (running * each), 1 - carried / demand
        found = machine.handle(LoadObserved(16, busy, pressed), at)
        if found is not None:
            changes.append((at, found.parallelism))
            running = found.parallelism
            machine.handle(Begun(running), at)
    assert len(changes) <= 6 and all(at < 60_000 for at, _ in changes), changes
    assert running * each >= demand or running == 16 or 1 - running * each / demand < 0.1
    assert running == 1 or demand / (running * each) >= LOAD.least or running == ceil(demand / each / LOAD.target)


@pytest.mark.parametrize("seed", range(200))
def test_whatever_happens_a_change_is_within_bounds_alone_and_not_too_soon(seed):
    chance = random.Random(seed)
    settings = ScalingSettings(
        chance.random() < 0.5, chance.randint(1, 3), chance.randint(3, 9), chance.randint(1, 2), chance.choice([0, 700, 3_000]),
        chance.choice([0, 1_000]), window=chance.choice([1_000, 4_000]), settle=chance.choice([0, 2_000]),
    )  # fmt: skip
    machine, running, at, under_way, last, seen = ScalingMachine(settings), 0, 0, None, None, []
    for _ in range(500):
        at += chance.choice([0, 1, 300, 1_000, 5_000])
        match chance.choice("oooooobr"):
            case "b":
                running = chance.randint(1, 10) if under_way is None or chance.random() < 0.3 else under_way
                assert machine.handle(Begun(running), at) is None
                under_way, last, seen = None, at, []
            case "r":
                assert machine.handle(Refused(), at) is None
                last, under_way = (at, None) if under_way else (last, under_way)
            case _:
                possible = chance.randint(0, 10)
                seen.append((at, possible))
                found = machine.handle(
                    LoadObserved(possible, chance.random(), chance.choice([0.0, chance.random()])), at
                )
                if found is None:
                    continue
                assert running and under_way is None and at - last >= settings.pause
                assert found.parallelism != running and settings.lowest <= found.parallelism <= settings.highest
                if found.parallelism > running:
                    before = [slots for when, slots in seen if when <= at - settings.slots_for]
                    lately = [slots for when, slots in seen if when > at - settings.slots_for]
                    assert found.parallelism <= min([before[-1], *lately])
                else:
                    assert settings.by_load
                under_way = found.parallelism


def test_bounds_that_exclude_each_other_are_refused():
    bounds = {"min-parallelism": 5, "max-parallelism": 4}
    options = {f"job.autoscaler.vertex.{key}": value for key, value in bounds.items()} | {
        "job.autoscaler.enabled": "true"
    }
    with pytest.raises(InvalidConfiguration, match=r"min-parallelism is 5, which is more than .*max-parallelism, 4"):
        ScalingSettings.of(Configuration(options), 4)


def test_it_is_off_by_default_and_ignores_what_flink_calls_default():
    assert ScalingSettings.of(Configuration(), 4) is None
    assert ScalingSettings.of(Configuration({"jobmanager.scheduler": "Default"}), 4) is None
    found = ScalingSettings.of(Configuration({"job.autoscaler.enabled": "true"}), 4)
    assert (found.by_load, found.lowest, found.highest) == (True, 1, 200)
