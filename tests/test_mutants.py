"""The table of planted faults fits the source: each snippet is there once, and what takes its place compiles."""

import pytest

from tests.mutants import ROOT, Mutant, all_mutants

MUTANTS = all_mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_the_fault_can_be_planted(mutant):
    changed = mutant.applied((ROOT / mutant.file).read_text(encoding="utf-8"))

    compile(changed, mutant.file, "exec")
    assert mutant.old != mutant.new
    assert mutant.breaks
    assert [test for test in mutant.tests if not (ROOT / test.partition("::")[0]).exists()] == []


def test_there_are_enough_faults_and_each_has_a_name_of_its_own():
    names = [mutant.id for mutant in MUTANTS]

    assert len(set(names)) == len(names)
    assert sum(not mutant.equivalent for mutant in MUTANTS) >= 50


def test_a_snippet_that_is_not_unique_is_refused():
    mutant = Mutant("twice", "module.py", "a", "b", "nothing")

    with pytest.raises(ValueError, match="occurs 2 times in module.py"):
        mutant.applied("a = a")
