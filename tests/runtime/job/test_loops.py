"""The driver's half of a loop: rounds until one finds it empty, event time, rounds again, the end."""

import pytest

from funken.runtime.job.loops import LoopMaster
from funken.runtime.messages import FeedbackAddress, FeedbackAddresses, LoopEnd, LoopReported, LoopRound, TaskId
from funken.testing import local


def plan(parallelism=2):
    loop = local([1]).rebalance().map(abs).set_parallelism(parallelism).iterate().set_parallelism(parallelism)
    loop.close_with(loop.key_by(abs).reduce(max).set_parallelism(1).rebalance())
    loop.print()
    return loop.get_execution_environment().compile()


@pytest.fixture
def master():
    return LoopMaster(plan())


HEAD = next(head.vertex for head in plan().heads)


def report(master, subtask, number, records=0, busy=False):
    return master.handle(LoopReported(TaskId(HEAD.stage, subtask), -1, subtask, HEAD.id, number, records, busy))


def to_all(made):
    return [(TaskId(HEAD.stage, subtask), made) for subtask in range(2)]


def test_nothing_begins_before_all_inputs_have_ended(master):
    assert report(master, 0, 0) == []
    assert report(master, 1, 0) == to_all(LoopRound(HEAD.id, 1))


def begun(master):
    report(master, 0, 0)
    report(master, 1, 0)


def test_a_round_that_finds_records_is_followed_by_another(master):
    begun(master)
    assert report(master, 0, 1) == []
    assert report(master, 1, 1, records=3) == to_all(LoopRound(HEAD.id, 2))


def test_an_empty_loop_has_the_end_of_time_and_ends_when_it_is_empty_again(master):
    begun(master)
    report(master, 0, 1)
    assert report(master, 1, 1) == to_all(LoopRound(HEAD.id, 2, ends_time=True))
    report(master, 0, 2, records=1)  # of a window that has fired
    assert report(master, 1, 2) == to_all(LoopRound(HEAD.id, 3))
    report(master, 0, 3)
    assert report(master, 1, 3) == to_all(LoopEnd(HEAD.id))


def test_a_loop_in_which_an_operator_waits_is_asked_again_after_a_pause(master):
    begun(master)
    report(master, 0, 1, busy=True)
    assert report(master, 1, 1) == []
    assert master.advance(100) == []
    assert master.advance(105) == []
    assert master.advance(110) == to_all(LoopRound(HEAD.id, 2))
    assert master.advance(200) == []


def test_a_report_of_an_earlier_round_does_not_count(master):
    begun(master)
    report(master, 0, 1, records=1)
    report(master, 1, 1)
    assert report(master, 0, 1) == [] and report(master, 1, 1) == []
    report(master, 0, 2)
    assert report(master, 1, 2) == to_all(LoopRound(HEAD.id, 3, ends_time=True))


def test_tails_are_told_where_the_heads_are_when_all_tasks_have_started(master):
    assert master.begin() == [], "in this process they are at no address"
    first, second = ("a", 1), ("b", 2)
    assert master.handle(FeedbackAddress(TaskId(HEAD.stage, 0), address=first)) == []
    assert master.handle(FeedbackAddress(TaskId(HEAD.stage, 1), address=second)) == []
    ((tail, told),) = master.begin()
    assert tail == TaskId(HEAD.stage + 1, 0)
    assert told == FeedbackAddresses({TaskId(HEAD.stage, 0): first, TaskId(HEAD.stage, 1): second})
