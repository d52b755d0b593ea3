"""While jobs run in a process of the user's, Python's collector of cycles runs rarely; then as before."""

from __future__ import annotations

import gc

import pytest

from funken import StreamExecutionEnvironment
from funken.dataset import ExecutionEnvironment
from funken.runtime.process import collecting_rarely


@pytest.fixture(autouse=True)
def usual():
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def seen(of):
    """Return the threshold that functions of a program see."""
    return of.map(lambda _: gc.get_threshold()[0])


def test_a_job_in_this_process_raises_the_threshold_and_restores_it():
    env = StreamExecutionEnvironment.create_local_environment(1)
    with seen(env.from_collection([1])).execute_and_collect() as found:
        assert list(found) == [50_000]
    assert gc.get_threshold() == (700, 10, 10)


def test_a_batch_program_does_too():
    env = ExecutionEnvironment.create_local_environment(1)
    assert seen(env.from_collection([1])).collect() == [50_000]
    assert gc.get_threshold() == (700, 10, 10)


def test_it_is_restored_when_a_job_fails():
    env = StreamExecutionEnvironment.create_local_environment(1)
    env.from_collection([1]).map(lambda n: n / 0).print()
    with pytest.raises(Exception, match="division by zero"):
        env.execute()
    assert gc.get_threshold() == (700, 10, 10)


def test_the_last_of_several_jobs_restores_it():
    with collecting_rarely():
        with collecting_rarely():
            pass
        assert gc.get_threshold() == (50_000, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("own", [0, 1_000_000], ids=["switched off", "rarer"])
def test_a_program_that_wants_it_rarer_is_left_alone(own):
    gc.set_threshold(own, 10, 10)
    with collecting_rarely():
        assert gc.get_threshold() == (own, 10, 10)
    assert gc.get_threshold() == (own, 10, 10)


def test_what_the_program_sets_meanwhile_stays():
    with collecting_rarely():
        gc.set_threshold(5, 5, 5)
    assert gc.get_threshold() == (5, 5, 5)
