"""How long records queue behind sources that pause and hold less in flight, in simulated time."""

from __future__ import annotations

import random

import pytest

from funken.plan.physical import Edge
from funken.runtime.exchange.writers import all_flush_soon
from funken.runtime.flow_control import InFlightWindow, report_interval
from tests.support.pipes import READ, Pipe


@pytest.mark.parametrize("cost", [2e-5, 1e-4, 1e-3, 0.01])
@pytest.mark.parametrize(("sources", "tasks"), [(1, 1), (2, 2), (3, 1), (1, 4)])
def test_behind_a_slow_function_records_do_not_queue_for_seconds(cost: float, sources: int, tasks: int) -> None:
    settled = 5 + 4000 * cost * sources  # until what was read before anybody knew is worked off
    pipe = Pipe(lambda now: cost, sources, tasks).run(settled + 10)
    assert pipe.throughput(settled, settled + 10) > 0.9 * tasks / cost
    assert pipe.age(settled, settled + 10, 0.99) < 0.25 + 10 * cost * sources


def test_nor_if_the_job_is_wide_and_reports_are_rare() -> None:
    pipe = Pipe(lambda now: 1e-4, every=report_interval((16, 16))).run(20)
    assert pipe.throughput(10, 20) > 0.9 * 2 / 1e-4
    assert pipe.age(10, 20, 0.99) < 0.55


def test_without_windows_they_do() -> None:
    pipe = Pipe(lambda now: 1e-4, windows=False).run(20)
    assert pipe.age(10, 20, 0.5) > 2


def test_a_job_does_not_begin_with_a_full_buffer() -> None:
    pipe = Pipe(lambda now: 1e-4).run(4)
    assert pipe.age(0, 4, 1.0) < 2


@pytest.mark.parametrize(("sources", "tasks"), [(1, 1), (2, 2), (1, 4)])
def test_fast_tasks_have_enough_to_do_soon(sources: int, tasks: int) -> None:
    fast = Pipe(lambda now: 1e-6, sources, tasks).run(1)
    assert fast.throughput(0.3, 0.5) > 0.9 * min(sources / READ, tasks / 1e-6)
    unheard = Pipe(lambda now: 1e-6, sources, tasks, begins=False).run(1)
    assert fast.throughput(0, 0.3) > 10 * unheard.throughput(0, 0.3)


@pytest.mark.parametrize("cost", [5e-6, 2e-5, 1e-4, 1e-3])
@pytest.mark.parametrize(("sources", "tasks"), [(1, 1), (2, 2), (1, 4)])
def test_slow_tasks_are_given_no_more_than_they_work_off_soon(cost: float, sources: int, tasks: int) -> None:
    pipe = Pipe(lambda now: cost, sources, tasks).run(1)
    assert pipe.age(0, 1, 1.0) < 0.9
    assert pipe.throughput(0.3, 1) > 0.9 * tasks / cost


def test_reports_that_are_rare_do_not_close_the_window_that_time_has_opened() -> None:
    wide, unheard = (Pipe(lambda now: 1e-6, every=0.25, begins=begins).run(1.5) for begins in (True, False))
    assert wide.throughput(0, 1.5) > 0.9 * unheard.throughput(0, 1.5)


@pytest.mark.parametrize("cost", [5e-7, 1.5e-6])
def test_fast_tasks_do_not_starve(cost: float) -> None:
    pipe = Pipe(lambda now: cost).run(6)
    most = min(2 / READ, 2 / cost)
    assert pipe.throughput(2, 6) > 0.9 * most
    assert pipe.age(2, 6, 0.99) < 0.08


@pytest.mark.parametrize("delay", [0.03, 0.1])
@pytest.mark.parametrize("cost", [5e-6, 2e-5])
def test_where_blocks_are_late_for_another_reason_windows_do_not_close(cost: float, delay: float) -> None:
    chance = random.Random(3)
    pipe = Pipe(lambda now: cost, transit=lambda now: 0.004 + chance.expovariate(1 / delay)).run(20)
    assert pipe.throughput(8, 20) > 0.2 * 2 / cost
    assert pipe.age(8, 20, 0.5) < 1


def test_a_function_that_is_slow_for_a_while_leaves_nothing_behind() -> None:
    pipe = Pipe(lambda now: 2e-4 if 4 < now < 12 else 1e-6).run(18)
    assert pipe.throughput(14, 18) > 0.9 * min(2 / READ, 2 / 1e-6)
    assert pipe.age(14, 18, 0.99) < 0.05


def test_clocks_that_differ_starve_nobody() -> None:
    pipe = Pipe(lambda now: 1e-4, skew=0.3).run(40)
    assert pipe.throughput(20, 40) > 0.9 * 2 / 1e-4
    fast = Pipe(lambda now: 5e-7, skew=0.3).run(20)
    assert fast.throughput(12, 20) > 0.8 * 2 / READ


def test_a_paced_source_is_left_alone_where_nothing_queues() -> None:
    pipe = Pipe(lambda now: 1e-6, rate=100_000).run(5)
    assert pipe.throughput(1, 5) == pytest.approx(100_000, rel=0.02)
    assert all(window.min_flush_delay(5.0) == 0 for window in pipe.pacings)


def test_sources_that_wait_send_larger_blocks_while_tasks_are_late() -> None:
    window = InFlightWindow(windows=True)
    window.on_read(0.0, 10)
    found = []
    for i in range(1, 8):
        window.on_throttle("busy", i / 5 - 0.05, 0.02, now=i / 5)
        found.append(window.min_flush_delay(i / 5))
    assert found == [0.0005, 0.001, 0.002, 0.004, 0.005, 0.005, 0.005]
    late = [window.min_flush_delay(1.4 + second * 1.1) for second in range(1, 100)]
    assert late == sorted(late, reverse=True)
    assert late[-1] == 0


def test_windows_are_for_records_that_do_not_wait_on_purpose() -> None:
    edge = Edge.__new__(Edge)
    for timeout, default, soon in ((None, 5, True), (None, -1, False), (-1, 5, False), (1000, 5, False), (0, -1, True)):
        object.__setattr__(edge, "buffer_timeout", timeout)
        assert all_flush_soon([edge], default) is soon


def test_sources_are_not_told_more_than_they_can_take() -> None:
    for widths in ((2, 2), (4, 4), (1, 1, 1), (8, 4), (1, 20)):
        reports = sum(widths) / report_interval(widths) * widths[0]
        assert reports <= 1001, widths
    assert report_interval((2, 2)) == 0.01
    assert report_interval((64, 64)) == 0.25


def test_what_may_be_read_is_found_out_anew_after_a_report_and_after_a_millisecond() -> None:
    window = InFlightWindow(windows=True)
    for i in range(400):  # four times as many as come through, and nobody says so
        window.on_read(i / 1000, 50)
    assert window.room(0.4, 1000) == 1000
    for i in range(400, 600, 5):
        window.on_throttle("slow", ingested_at=i / 4000, excess=i / 2000, now=i / 1000)
        assert window.room(i / 1000, 1000) == window.room(i / 1000, 1000)
    assert window.room(0.6, 1000) == 1
    pause = window.pause(0.6)
    assert window.pause(0.6) == pause > 0
    assert window.room(1.5, 1000) == 1000  # it has grown


def test_while_a_window_holds_a_source_back_what_it_sent_waits_for_a_part_of_its_time() -> None:
    window = InFlightWindow(windows=True)
    assert window.holds == float("inf"), "it waits for the buffer timeout"
    window.on_read(0.0, 50)
    assert window.holds == 0, "the job begins"
    for i in range(1, 3000):
        window.on_read(i / 1000, 50)
        window.pause(i / 1000)
        if i > 2000:
            window.on_throttle("slow", ingested_at=i / 4000, excess=i * 3 / 4000 - 0.03, now=i / 1000)
    # 30 ms beside what is too much, and 50 ms for a report's way
    assert 0.07 / 3 < window.holds < 0.09 / 3
