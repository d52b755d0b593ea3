"""The one loop around a task: the order of what it does, whoever turns it."""

import math
from collections import deque
from itertools import pairwise
from types import SimpleNamespace

import pytest

from funken.runtime.messages import MetricsReport, TaskId
from funken.runtime.task.task import TaskLoop
from funken.timing.clock import ManualClock


class Meter:
    def __init__(self, log):
        self.log = log

    def hold(self):
        self.log.append("hold")


class Throttle:
    every = tells_after = 0.005

    def __init__(self):
        self.excess = None
        self.idle = 0
        self.job_begins = False
        self.pausing = False

    def take_report(self, idle):
        return self.excess or (("in time", idle) if self.job_begins else None)

    def begins(self):
        return self.job_begins

    def min_flush_delay(self):
        return 0.0

    def on_idle(self):
        self.idle += 1


class Task:
    """Writes down what it is made to do; every block that it is given is one block of work."""

    def __init__(self, log, sources=False, looks_ahead=False):
        self.log, self.has_sources, self.looks_ahead = log, sources, looks_ahead
        self.flushing = SimpleNamespace(waiting=False)
        self.outbox, self.queued = [], 0
        self.meter, self.throttle = Meter(log), Throttle()
        self.due, self.found = None, 0
        self.urgent = self.materializing = False

    @property
    def work(self):
        return self.queued > 0

    def advance(self):
        self.log.append("advance")
        return self.due

    def receive(self, block):
        self.log.append(f"receive {block}")
        self.queued += 1

    def handle_command(self, command):
        self.log.append(command)

    def step(self):
        self.queued -= 1
        self.log.append("step")
        self.outbox.append("a block")

    def poll(self):
        self.log.append("poll")
        return self.found

    def flush(self):
        self.log.append("flush")

    def take_urgent_flush(self):
        return self.urgent

    def measured(self):
        return MetricsReport(TaskId(0, 0))


class Box:
    """A mailbox that is filled by hand: blocks, commands, and None to wake the task."""

    def __init__(self, task):
        self.task, self.items, self.idle = task, deque(), False

    def empty(self):
        return not self.items

    def deliver(self):
        item = self.items.popleft()
        if item is None:
            return False
        (self.task.receive if item.startswith("block") else self.task.handle_command)(item)
        return True

    def processed(self):
        self.task.log.append("processed")

    def flushes(self):
        return self.idle


class Rig:
    def __init__(self, timeout=0.01, reports_delay=True, **task):
        self.log, self.reports, self.clock = [], [], ManualClock(1000)
        self.task = Task(self.log, **task)
        self.box = Box(self.task)
        self.loop = TaskLoop(self.task, self.box, self.reports.append, self.clock, timeout, reports_delay)

    def turn(self, *arguments, mail=()):
        """Turn once; return what happened, with what was sent as ``sent``, at once as ``sent!``."""
        self.log.clear()
        self.box.items.extend(mail)
        for urgent in self.loop.turn(*arguments):
            self.log.append("sent!" if urgent else "sent")
            self.task.outbox.clear()
        return list(self.log)


def test_a_turn_advances_receives_steps_and_sends():
    rig = Rig()

    assert rig.turn(mail=["trigger", "block 1", "block 2"]) == [
        "advance", "trigger", "receive block 1", "step", "processed", "sent",
    ]  # fmt: skip
    assert rig.loop.wait == 0
    assert rig.turn() == ["advance", "receive block 2", "step", "processed", "sent"]


def test_a_task_that_looks_ahead_receives_what_a_barrier_may_overtake():
    rig = Rig(looks_ahead=True)

    found = rig.turn(mail=["block 1", "block 2"])

    assert found == ["advance", "receive block 1", "receive block 2", "step", "processed", "sent"]


@pytest.mark.parametrize(("blocks", "steps"), [(0, 0), (2, 2), (10, 3)])
def test_a_turn_may_have_any_number_of_blocks(blocks, steps):
    rig = Rig()

    assert rig.turn(blocks, mail=["block 1", "block 2", "block 3"]).count("step") == steps


def test_what_wakes_the_task_lets_it_advance_before_anything_else():
    rig = Rig(sources=True)

    assert rig.turn(mail=[None, "block 1"]) == ["advance"]
    assert rig.loop.wait == 0


def test_sources_are_polled_when_no_block_is_queued_and_held_when_their_output_is_full():
    rig = Rig(sources=True)
    rig.task.found = 7

    assert rig.turn() == ["advance", "poll"]
    assert rig.loop.wait == 7
    assert rig.turn(1, False) == ["advance", "hold"]
    assert "poll" not in rig.turn(0, mail=["block 1"])
    rig.turn()
    rig.task.found = None
    rig.turn()
    assert rig.loop.wait == 0, "a source has ended"


def test_buffers_are_flushed_after_their_timeout_and_when_the_mailbox_says_so():
    rig = Rig()
    rig.turn()
    assert rig.loop.wait == 10
    rig.clock.advance(9)
    assert rig.turn() == ["advance"]
    assert rig.loop.wait == 1

    rig.clock.advance(1)
    assert rig.turn() == ["advance", "flush", "sent!"]
    rig.box.idle = True
    assert rig.turn() == ["advance", "flush", "sent!"]
    assert rig.loop.wait == math.inf
    assert rig.turn(0, mail=["block 1"])[-1] != "sent!", "a block is queued: there is something to do"


def test_without_a_timeout_nothing_is_flushed():
    rig = Rig(timeout=-1)
    rig.box.idle = True
    rig.clock.advance(10_000)

    assert rig.turn() == ["advance"]


def test_the_wait_ends_when_something_is_due():
    rig = Rig(timeout=-1)
    rig.task.due = 1_040
    rig.turn()
    assert rig.loop.wait == 40

    rig.task.due = 990
    rig.turn()
    assert rig.loop.wait == 1, "it was looked after just now"
    rig.task.materializing = True
    rig.turn()
    assert rig.loop.wait == 0


def test_delays_are_reported_as_often_as_the_throttle_wants_and_metrics_twice_a_second():
    rig = Rig()
    rig.task.throttle.excess = "late"
    rig.turn()
    assert rig.reports == []
    rig.clock.advance(6)
    rig.turn()
    assert rig.reports == ["late"]

    rig.task.throttle.excess = None
    rig.clock.advance(500)
    rig.turn()
    assert rig.reports[1:] == [MetricsReport(TaskId(0, 0))]


def test_while_a_job_begins_an_idle_task_is_turned_as_often_as_it_may_report():
    rig = Rig(timeout=1.0)
    rig.turn()
    assert rig.loop.wait == 1000.0

    rig.task.throttle.job_begins = True
    rig.clock.advance(2)
    rig.turn()
    assert rig.loop.wait == 3.0  # it may report every 5 ms
    rig.clock.advance(4)
    rig.turn()
    assert rig.reports == [("in time", True)]
    assert rig.loop.wait == 5.0

    rig.clock.advance(6)
    rig.turn(mail=["block 1"])
    assert rig.reports[1:] == [("in time", False)]


def test_an_idle_turn_is_told_to_the_throttle():
    rig = Rig()
    rig.turn(mail=["block 1"])
    assert rig.task.throttle.idle == 0
    rig.turn()
    assert rig.task.throttle.idle == 1


def reading(millis=0):
    """Return a rig of a source that waits for more, with records that wait in a block."""
    rig = Rig(sources=True)
    rig.task.found, rig.task.flushing.waiting = 1, True
    rig.clock.advance(millis)
    return rig


def test_a_source_that_has_read_all_there_is_flushes_after_a_millisecond():
    rig = reading()
    assert "flush" not in rig.turn()
    assert rig.loop.wait == 1
    rig.clock.advance(2)
    assert rig.turn()[-2:] == ["flush", "sent!"]


def test_a_source_that_has_more_to_read_or_nothing_to_send_waits_for_the_timeout():
    for found, waiting in ((0, True), (1, False)):
        rig = reading()
        rig.task.found, rig.task.flushing.waiting = found, waiting
        flushed = []
        for _ in range(10):
            rig.clock.advance(1)
            flushed.append("flush" in rig.turn())
        assert flushed == [False] * 9 + [True]


def test_a_source_that_pauses_has_more_to_read_and_waits_for_the_timeout():
    rig = reading()
    rig.task.throttle.pausing = True
    flushed = []
    for _ in range(10):
        rig.clock.advance(1)
        flushed.append("flush" in rig.turn())
    assert flushed == [False] * 9 + [True]


def test_a_source_flushes_more_rarely_where_that_takes_long():
    rig = reading()
    flush = rig.task.flush
    rig.task.flush = lambda: (flush(), rig.clock.advance(4))
    flushes = []
    for _ in range(60):
        rig.clock.advance(1)
        flushes.append(rig.turn().count("flush"))
    assert sum(flushes[:10]) > sum(flushes[-10:])
    assert flushes[-30:].count(1) <= 6, "one after the timeout of 10 ms, of which it takes 4"


def test_a_source_flushes_more_rarely_where_it_is_woken_too_late():
    rig = reading()
    flushes = []
    for _ in range(40):
        rig.clock.advance(5)  # it asked for 1 ms
        flushes.append("flush" in rig.turn())
    assert all(flushes[:2])
    assert not all(flushes[-10:])
    assert any(flushes[-10:]), "the timeout holds"


class CrowdedClock(ManualClock):
    """A clock whose thread has a core for a part of the time, of which it is told afterwards."""

    had = 0.25

    def run_delay(self):
        return self.monotonic() * (1 - self.had)


def flushes_of(had, turns=2000):
    """Return how many turns of a millisecond there are between two flushes of a source that always has more to read."""
    rig = Rig(sources=True)
    rig.loop._clock = rig.clock = CrowdedClock(1000)
    rig.clock.had = had
    at = []
    for turn in range(turns):
        rig.clock.advance(1)
        if "flush" in rig.turn():
            at.append(turn)
    return [after - before for before, after in pairwise(at)]


@pytest.mark.parametrize(("had", "apart"), [(1.0, 10), (0.5, 20), (0.25, 40), (0.001, 200)])
def test_time_without_a_core_fills_no_blocks(had, apart):
    found = flushes_of(had)[1:]  # what happened before the first flush is not known
    assert all(apart <= each <= apart + 1 for each in found)


@pytest.mark.parametrize(("read", "apart"), [(10, 10), (1, 100), (0, 200)])
def test_time_in_which_a_source_pauses_fills_no_blocks(read, apart):
    rig = reading()
    rig.loop._clock = rig.clock = CrowdedClock(1000)
    rig.clock.had = 1.0
    at = []
    for turn in range(1000):
        pausing = turn % 10 >= read
        rig.task.poll = lambda pausing=pausing: setattr(rig.task.throttle, "pausing", pausing) or int(pausing)
        rig.clock.advance(1)
        if "flush" in rig.turn():
            at.append(turn)
    found = [after - before for before, after in pairwise(at[1:])]
    assert found
    assert all(apart / 2 <= each <= apart + 10 for each in found)  # a wait that is rounded to 0 is no pause


def test_what_a_task_was_kept_from_a_core_while_it_was_idle_does_not_count():
    rig = Rig(sources=True)
    rig.loop._clock = rig.clock = CrowdedClock(1000)
    rig.task.flushing.waiting = True
    flushed, delay = [], 0.0
    rig.clock.run_delay = lambda: delay
    for turn in range(200):
        rig.task.found = 1 if 50 < turn < 150 else 0  # it reads, waits for more, and reads again
        delay += 0.001 * (50 < turn < 150)
        rig.clock.advance(1)
        if "flush" in rig.turn():
            flushed.append(turn)
    busy = [each for each in flushed if each >= 150]
    assert len(busy) >= 4, "nothing keeps it from its core any more: one for each 10 ms"


def test_a_task_whose_delay_nobody_knows_keeps_to_the_clock(monkeypatch):
    monkeypatch.setattr(CrowdedClock, "run_delay", lambda self: None)
    assert set(flushes_of(0.1)) <= {10, 11}
