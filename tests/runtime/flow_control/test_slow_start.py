"""How a job begins: who says what comes through, and what a source may have in flight for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from funken.plan.physical import PhysicalPlan
from funken.runtime.flow_control import FIRST_RECORDS, InFlightWindow, SlowStart, SourceThrottle
from funken.runtime.messages import QueueDelayReported, TaskId
from funken.testing import local
from funken.timing.clock import ManualClock

ONE, OTHER = TaskId(1, 0), TaskId(1, 1)


def test_a_task_that_says_nothing_holds_the_window() -> None:
    start = SlowStart(tasks=2)
    for step in range(100):
        assert not start.on_report(ONE, 1000 * step, now=10 + step / 100)
    assert start.window == FIRST_RECORDS
    assert not start.proven(11.0)


def test_the_window_is_that_of_the_task_that_is_furthest_behind() -> None:
    start = SlowStart(tasks=2)
    start.on_report(ONE, 5000, now=10.0)
    assert start.on_report(OTHER, 40, now=10.0)
    assert (start.through, start.window) == (40, FIRST_RECORDS + 40)
    start.on_report(OTHER, 400, now=10.01)
    assert (start.through, start.window) == (400, FIRST_RECORDS + 400)
    start.on_report(OTHER, 300, now=10.02)  # a report that was overtaken
    assert start.through == 400


def test_while_records_are_late_that_queued_the_window_does_not_double() -> None:
    start = SlowStart(tasks=1)
    start.on_report(ONE, 100, now=10.0)
    start.on_report(ONE, 350, now=10.125, excess=0.02)
    assert start.window == 400  # 2000 a second came through: what does in 0.2 s
    start.on_report(ONE, 600, now=10.25)
    assert start.window == FIRST_RECORDS + 600


def test_what_came_late_did_not_queue_before_a_task_that_waited_for_it() -> None:
    start = SlowStart(tasks=1)
    start.on_report(ONE, 1000, now=10.0, excess=0.3, waited=1.0)
    assert start.window == FIRST_RECORDS + 1000


def test_a_job_whose_tasks_take_all_that_comes_needs_no_window() -> None:
    window = InFlightWindow(windows=True, tasks=1)
    for step in range(40):
        window.on_read(10 + step / 100, 50)
        assert (window.holds < float("inf")) == (step <= 30)
        window.on_throttle(ONE, 10 + step / 100, 0.0, 10 + step / 100)


def test_a_source_whose_records_have_all_come_through_does_not_pause() -> None:
    window = InFlightWindow(windows=True, tasks=1)
    window.saturated = True
    window.on_read(10.0, 50)
    window.on_throttle(ONE, 10.0, 0.2, 10.3)
    assert window.pause(10.3) == 0  # late, but there is nothing behind it
    window.on_read(10.3, 50)
    window.on_throttle(ONE, 10.0, 0.2, 10.31)
    assert window.pause(10.31) > 100
    window.on_throttle(ONE, 10.32, 0.0, 10.32)
    assert window.pause(10.32) == 0


def throttle(clock: ManualClock, task: TaskId, keyed: bool = True) -> SourceThrottle:
    stream = local([1, 2])
    (stream.key_by(lambda n: n) if keyed else stream).map(lambda n: n).print()
    plan: PhysicalPlan = stream.get_execution_environment().compile()
    settings: Any = SimpleNamespace(together=True, queueing_target=25, buffer_timeout=100)
    return SourceThrottle(plan, task, settings, clock)


def test_tasks_behind_the_sources_say_what_comes_through_while_a_job_begins() -> None:
    clock = ManualClock(10_000)
    task = throttle(clock, ONE)
    assert task.take_report(idle=True) is None  # it is not open everywhere
    task.on_start()
    assert task.begins()
    assert task.take_report(idle=True) == QueueDelayReported(ONE, ingested_at=clock.wall())
    assert task.take_report(idle=False) is None  # it works on its first block
    task.on_block(9.99, 0.01)
    assert task.take_report(idle=False) == QueueDelayReported(ONE, ingested_at=9.99)
    task.on_block(9.8, 0.2)
    late = task.take_report(idle=False)
    assert late is not None
    assert late.excess > 0
    clock.advance(600)
    assert task.take_report(idle=True) is None
    assert not task.begins()


@pytest.mark.parametrize(("task", "keyed"), [(TaskId(0, 0), True), (TaskId(0, 0), False)])
def test_tasks_with_sources_do_not(task: TaskId, keyed: bool) -> None:
    source = throttle(ManualClock(10_000), task, keyed)
    source.on_start()
    assert not source.begins()
    assert source.take_report(idle=True) is None


def test_a_job_without_an_exchange_begins_at_full_speed() -> None:
    source = throttle(ManualClock(10_000), TaskId(0, 0), keyed=False)
    assert source.room(10.0, 2000) == 2000
    assert throttle(ManualClock(10_000), TaskId(0, 0)).room(10.0, 2000) == FIRST_RECORDS


def test_what_was_read_does_not_wait_for_its_block_to_fill_while_a_job_begins() -> None:
    clock = ManualClock(10_000)
    source = throttle(clock, TaskId(0, 0))
    assert not source.must_send(9.0), "there is no window: it waits for the buffer timeout"
    source.on_read(clock.wall(), 50)
    assert source.must_send(clock.wall())
    assert not source.must_send(float("inf")), "nothing waits"


def test_a_fast_task_says_half_as_often_how_late_records_are_once_the_job_runs() -> None:
    clock = ManualClock(10_000)
    task = throttle(clock, ONE)
    task.on_start()
    for _ in range(10):
        assert task.tells_after == 0.01, "the job begins"
        task.on_block(9.0, 1.0)
    assert task.take_report(idle=False) is not None
    clock.advance(10_000)
    for blocks in range(10):
        assert task.tells_after == (0.01 if blocks < 4 else 0.04)
        task.on_block(19.0, 1.0)
    assert task.take_report(idle=False) is not None
    assert task.tells_after == 0.01
    task.every = 0.25
    for _ in range(10):
        task.on_block(19.0, 1.0)
    assert task.tells_after == 0.25, "a job that is very wide"
