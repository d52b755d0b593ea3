"""The results of Flink's own tests of patterns, case by case."""

import pickle

import pytest

from tests.cep.notation import Case, cases, results_of, run

CASES = cases()


def test_all_cases_are_here():
    assert [case.number for case in CASES] == [*map(str, range(1, 115)), *(f"W{n}" for n in range(1, 9))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.number}: {case.pattern}")
def test_case(case: Case):
    matches, time_outs = run(case)
    assert matches == results_of(case.matches)
    if case.time_outs:
        assert time_outs == results_of(case.time_outs)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.number)
def test_a_restored_state_goes_on_as_the_one_that_was_written(case: Case):
    assert run(case, between=lambda state: pickle.loads(pickle.dumps(state))) == run(case)
