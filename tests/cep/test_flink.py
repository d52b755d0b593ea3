"""Matches and time-outs of random patterns, as Flink's own automaton gave them (``make cep-compare`` compares thousands)."""

import json
import pickle
from pathlib import Path

import pytest

from funken.cep.nfa import Nfa, compile_pattern
from tests.cep.exchange import differences, pattern_of, run

GUIDE = Path(__file__).parents[2] / "docs" / "reference" / "cep-differences.md"
RECORDED = [json.loads(line) for line in Path(__file__).with_name("flink.jsonl").read_text().splitlines()]


DIFFERING = [json.loads(line) for line in Path(__file__).with_name("differences.jsonl").read_text().splitlines()]


def test_there_are_a_hundred_and_they_have_matches():
    assert len(RECORDED) == 100
    assert sum(len(step[0]) for task in RECORDED for step in task["steps"]) > 100
    assert {part["by"] for task in RECORDED for part in task["pattern"]} == {
        "next",
        "followed_by",
        "followed_by_any",
        "not_next",
        "not_followed_by",
    }


@pytest.mark.parametrize("task", RECORDED, ids=range(len(RECORDED)))
def test_the_results_are_those_of_flink(task):
    assert differences(run(task, task["steps"]), task["steps"]) == []


@pytest.mark.parametrize("task", RECORDED, ids=range(len(RECORDED)))
def test_they_are_the_same_if_the_state_is_restored_after_each_event(task):
    restored = run(task, task["steps"], between=lambda state: pickle.loads(pickle.dumps(state)))
    assert restored == run(task, task["steps"])


def test_conditions_are_evaluated_before():
    assert all(Nfa(compile_pattern(pattern_of(task))).known for task in RECORDED)


@pytest.mark.parametrize("task", RECORDED, ids=range(len(RECORDED)))
def test_they_are_the_same_if_conditions_are_not_evaluated_before(task):
    assert run(task, task["steps"], masked=False) == run(task, task["steps"])


def test_a_difference_is_seen():
    task = next(task for task in RECORDED if any(step[0] for step in task["steps"]))
    wrong = [[step[0][1:], step[1]] for step in task["steps"]]
    assert differences(run(task, task["steps"]), wrong)


@pytest.mark.parametrize("task", DIFFERING, ids=lambda task: task["difference"])
def test_a_case_in_which_flink_gives_something_else(task):
    """``docs/reference/cep-differences.md`` says why; what Flink gave, or the error, was recorded."""
    assert run(task) == task["ours"]
    assert isinstance(task["flink"], str) or differences(task["ours"], task["flink"])
    assert task["difference"] in " ".join(GUIDE.read_text().split())
