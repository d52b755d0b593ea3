"""Whatever tasks report and the clock does, sources read on, and get their share back when the disturbance ends."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.runtime.flow_control import LONGEST_WAIT, RECOVERY, InFlightWindow
from tests.support.pipes import Pipe

MOST = 2000
RATE = 500


def throughput(rate: float, late: float, other: bool, stall: tuple[float, float], seconds: int) -> list[int]:
    """Return what a source of ``rate`` reads in each second, where a share of the blocks is reported 300 ms late.

    ``other``: there are 500 blocks a second of another source beside; ``stall``: when this one has nothing to read.
    """
    chance, window = random.Random(1), InFlightWindow(windows=True)
    events: list[tuple[float, float]] = []
    found, resume = [0] * seconds, 0.0
    for now in (step / 500 for step in range(500 * seconds)):
        while events and events[0][0] <= now:
            window.on_throttle("task", heapq.heappop(events)[1], 0.3, now)
        if other and chance.random() < late:
            heapq.heappush(events, (now + 0.316, now))
        if now < resume or stall[0] <= now < stall[1]:
            continue
        pause = window.pause(now)
        if pause:
            resume = now + pause / 1000
            continue
        records = min(window.room(now, MOST), int(now * rate) - sum(found))
        window.saturated = records == MOST
        if records:
            window.on_read(now, records)
            found[int(now)] += records
            if chance.random() < late:
                heapq.heappush(events, (now + 0.316, now))
    return found


@pytest.mark.parametrize("rate", [RATE, 20_000])
@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("stall", [(2.5, 7.5), (20.0, 20.0)])
def test_a_few_late_blocks_and_a_stall_starve_nobody(rate: int, other: bool, stall: tuple[float, float]) -> None:
    found = throughput(rate, 0.05, other, stall, 20)
    assert sum(found) > 0.99 * 20 * rate
    assert min(found[11:]) > 0.8 * rate


def test_a_source_with_nothing_in_flight_reads_although_others_are_late() -> None:
    window = InFlightWindow(windows=True)
    window.on_read(0.0, 44_895)
    window._progress["task"] = progress = window._progress.pop(None)
    progress.arrived, progress.allowed, progress.records, progress.seconds = 44_895, 0.076, 2.0, 1.0
    if hasattr(progress, "rate"):
        progress.rate = 2.0
    read = []
    for step in range(1, 1000):
        now = step / 100
        if step % 4 == 0:
            window.on_throttle("task", now - 0.3, 0.28, now)
        if not window.pause(now):
            records = window.room(now, MOST)
            window.on_read(now, records)
            read.append((now, records))
    assert read[0] == (0.01, 1)
    assert read[-1][1] > MOST / 2


@pytest.mark.parametrize(("cost", "seconds"), [(1e-5, 20), (1e-4, 15), (1e-3, 15), (1e-2, 20)])
@pytest.mark.parametrize("sources", [2, 3])
def test_sources_that_begin_later_get_their_share(cost: float, seconds: float, sources: int) -> None:
    pipe = Pipe(lambda now: cost, sources, 2, first_alone=3.0).run(seconds + 10)
    for source in range(sources):
        assert pipe.share(source, seconds, seconds + 10) > 0.5 / sources
    assert pipe.throughput(seconds, seconds + 10) > 0.95 * 2 / cost
    assert pipe.age(seconds, seconds + 10, 0.99) < 0.25


@pytest.mark.parametrize("cost", [5e-7, 1e-5, 1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize("gap", [0.002, 0.04])
def test_after_false_reports_tasks_have_as_much_to_do_as_before(cost: float, gap: float) -> None:
    pipe, chance, at = Pipe(lambda now: cost), random.Random(1), 3.0
    while at < 8:
        pipe.tell(chance.randrange(2), at, chance.choice([0.3, 1.0, 4.0]))
        at += chance.expovariate(1 / gap)
    pipe.run(20)
    assert pipe.throughput(8 + RECOVERY, 20) > 0.9 * min(2e6, 2 / cost)
    assert pipe.age(15, 20, 0.99) < 0.25


def test_reports_of_one_backlog_cause_one_pause_although_the_clock_they_come_from_is_ahead() -> None:
    window, paused = InFlightWindow(windows=False), 0
    window.saturated = True
    for now in (step / 1000 for step in range(1, 10_000)):
        if window.pause(now):
            paused += 1
        else:
            window.on_read(now, MOST)
        window.on_throttle("task", now + 5, 0.1, now)
    assert paused < 6000


def test_a_clock_that_is_set_back_holds_nobody_up() -> None:
    window = InFlightWindow(windows=True)
    for now in (3600 + step / 1000 for step in range(2000)):
        window.saturated = True
        window.on_read(now, MOST)
        if now > 3601:
            window.on_throttle("task", (now - 3600) / 100 + 3600, now - 3601, now)
    assert window.pause(3602.0)
    assert not window.pause(2.0)
    assert window.room(2.0, MOST) == 100  # as at the beginning
    window.on_read(2.0, 100)
    window.on_read(4.0, MOST)
    window.on_throttle("task", 3.75, 0.125, 4.0)
    assert window.pause(4.0) == 125
    assert not window.pause(4.125)


def test_reports_without_sense_are_ignored() -> None:
    window = InFlightWindow(windows=True)
    window.saturated = True
    for now in (2 + step / 100 for step in range(100)):
        window.on_read(now, MOST)
        for ingested_at in (float("nan"), float("inf"), -float("inf"), now):
            for excess in (float("nan"), float("inf"), -1.0, 0.0):
                window.on_throttle("task", ingested_at, excess, now)
    assert not window.pause(3.0)


# A report comes so long after the one before it, from one of some tasks, about records so old, which were so much too late.
# Now and then the clock is set by so much instead, and the source has nothing to read for a while.
gaps = st.sampled_from([0.0, 0.001, 0.005, 0.02, 0.02, 0.1, 0.5, 1.6])
ages = st.one_of(st.sampled_from([-3600.0, -1.0, 0.0, 0.001, 0.3, 5.0, 1e6]), st.floats(0, 2))
excesses = st.one_of(st.sampled_from([-1.0, 0.0, 1e-9, 0.001, 0.3, 1e9, float("inf"), float("nan")]), st.floats(0, 1))
reports = st.tuples(gaps, st.integers(0, 3), ages, excesses)
jumps = st.tuples(gaps, st.sampled_from(["jump", "idle"]), st.sampled_from([-3600.0, -2.0, -0.3, 0.3, 2.0, 3600.0]))
storms = st.lists(st.one_of(reports, reports, reports, jumps), min_size=1, max_size=60)
numbers = st.one_of(st.sampled_from([0.0, 1e-9, 1.0, 1e9]), st.floats(0, 1e6))
states = st.fixed_dictionaries(
    {name: numbers for name in ("allowed", "rate", "records", "seconds")}
    | {name: st.floats(-10, 10) for name in ("at", "since", "underserved")}
    | {"arrived": st.integers(0, 10**7), "limited": st.booleans()}
)


class Simulated:
    """A source that always has records, with a clock that may be set, and the longest time between two reads."""

    def __init__(self, window: InFlightWindow, block: int) -> None:
        self.pacing, self.block = window, block
        self.time, self.offset, self.next = 0.0, 1000.0, 0.0
        self.read_at = self.longest = self.excused = 0.0

    @property
    def now(self) -> float:
        return self.time + self.offset

    def until(self, end: float) -> None:
        """Let the source read until a time."""
        while self.next <= end:
            self.time = max(self.time, self.next)
            pause = self.pacing.pause(self.now) / 1000
            if not pause:
                records = self.pacing.room(self.now, self.block)
                assert 1 <= records <= self.block
                self.pacing.on_read(self.now, records)
                self.pacing.saturated = True
                self.longest = max(self.longest, self.time - self.read_at - self.excused)
                self.read_at, self.excused = self.time, 0.0
            self.next = self.time + (pause or 0.002)
        self.time = end

    def suffer(self, storm: Sequence[tuple[float, int | str, float, float] | tuple[float, str, float]]) -> None:
        """Get reports, and have the clock set."""
        for gap, what, *rest in storm:
            self.until(self.time + gap)
            if what == "jump":
                self.offset += rest[0]
                # The clock is all that a source knows of time: less than it waited anyway goes unnoticed.
                self.excused += min(max(-rest[0], 0.0), LONGEST_WAIT)
            elif what == "idle":
                self.time += abs(rest[0])
                self.next = self.read_at = self.time
            else:
                self.pacing.on_throttle(what, self.now - rest[0], rest[1], self.now)

    def recovers(self) -> None:
        """Expect it to read as if there had been no report."""
        self.until(self.time + RECOVERY)
        self.longest = max(self.longest, self.time - self.read_at - self.excused)
        assert self.longest <= LONGEST_WAIT + 0.01
        assert self.pacing.pause(self.now) == 0
        assert self.pacing.room(self.now, self.block) == self.block


@given(storms, st.sampled_from([1, 8, MOST]), st.booleans(), st.integers(1, 8), st.integers(0, 4), st.floats(0, 1))
def test_any_reports_leave_a_source_alive_and_in_the_end_alone(storm, block, windows, sources, tasks, after):
    source = Simulated(InFlightWindow(windows, sources, tasks=tasks), block)
    source.until(after)
    source.suffer(storm)
    source.recovers()


@given(st.lists(states, max_size=3), st.floats(-10, 1e6), storms)
def test_from_any_state_a_source_reads_again(found, resume, storm):
    window = InFlightWindow(windows=True)
    source = Simulated(window, MOST)
    source.until(1.0)
    window._resume = resume
    for task, state in enumerate(found):
        window.on_throttle(task, 1000.5, 0.1, source.now)
        for name, value in state.items():
            setattr(window._progress[task], name, value + source.now if name in ("at", "since") else value)
    source.suffer(storm)
    source.recovers()


@pytest.mark.parametrize("delay", [0.05, 0.3])
@pytest.mark.parametrize("cost", [5e-6, 2e-5, 1e-4])
def test_a_source_that_has_little_gets_a_share_although_the_way_takes_long(cost: float, delay: float) -> None:
    chance = random.Random(5)
    pipe = Pipe(lambda now: cost, transit=lambda now: 0.004 + chance.expovariate(1 / delay), first_alone=6.0).run(30)
    assert 0.2 < pipe.share(1, 10, 30) < 0.8


def test_a_source_whose_records_alone_are_slow_does_not_send_what_a_fast_one_does() -> None:
    window = InFlightWindow(windows=True, sources=2)
    for step in range(1, 5000):
        now = step / 1000
        if not window.pause(now):
            window.on_read(now, window.room(now, MOST))
        if step % 10 == 0 and now > 0.5:  # all late records are this source's, as all that this task gets
            window.on_throttle("slow", window._times[len(window._times) // 2], 0.2, now, 0.0, mean_rate=1e6)
    assert window._counts[-1] < 1e5
