"""Conditions of paths: diagrams against truth tables, and the values that are chosen where paths meet."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from funken.columnar.expressions import ALWAYS, NEVER, PathCondition, PathConditions

TESTS = ("first", "second", "third", "fourth")


def holds(condition: PathCondition, world: dict[int, bool]) -> bool:
    while condition not in (ALWAYS, NEVER):
        condition = condition.holds if world[condition.test] else condition.fails
    return condition is ALWAYS


def worlds() -> list[dict[int, bool]]:
    return [dict(enumerate(values)) for values in product((True, False), repeat=len(TESTS))]


def fresh() -> PathConditions[str]:
    conditions = PathConditions[str]()
    for test in TESTS:
        conditions.after(ALWAYS, test, True)
    return conditions


Step = st.tuples(st.integers(0, len(TESTS) - 1), st.booleans())
Path = st.lists(Step, max_size=4).map(sorted)


def followed(conditions: PathConditions[str], path: list[tuple[int, bool]]) -> PathCondition:
    found = ALWAYS
    for test, side in path:
        found = conditions.after(found, TESTS[test], side)
    return found


@given(Path, Path)
def test_a_disjunction_holds_where_one_of_both_does(one, other):
    conditions = fresh()
    left, right = followed(conditions, one), followed(conditions, other)

    joined = conditions.either(left, right)

    for world in worlds():
        assert holds(left, world) == all(world[test] == side for test, side in one)
        assert holds(joined, world) == (holds(left, world) or holds(right, world))


@given(st.lists(Path, min_size=1, max_size=6))
def test_conditions_that_hold_in_the_same_worlds_are_one_object(paths):
    conditions = fresh()
    found = [followed(conditions, path) for path in paths]
    forwards, backwards = NEVER, NEVER
    for each in found:
        forwards = conditions.either(forwards, each)
    for each in reversed(found):
        backwards = conditions.either(each, backwards)

    assert forwards is backwards


@given(st.lists(Path, min_size=1, max_size=5))
def test_the_value_of_the_path_that_is_taken_is_chosen(paths):
    conditions = fresh()
    left = ALWAYS
    alternatives: list[tuple[PathCondition, str]] = []
    taken = NEVER
    for number, path in enumerate(paths):  # each path is cut down to where none before it is taken
        condition = followed(conditions, path)
        alone = [world for world in worlds() if holds(condition, world) and not holds(taken, world)]
        if len(alone) == sum(holds(condition, world) for world in worlds()) and condition is not NEVER:
            alternatives.append((condition, f"value {number}"))
            taken = conditions.either(taken, condition)
    assert left is ALWAYS
    if not alternatives:
        return

    chosen = conditions.choose(alternatives, lambda test, one, other: (TESTS.index(test), one, other))

    for world in worlds():
        value = chosen
        while isinstance(value, tuple):
            value = value[1] if world[value[0]] else value[2]
        for condition, wanted in alternatives:
            if holds(condition, world):
                assert value == wanted


def test_arms_join_into_the_condition_before_them():
    conditions = fresh()
    before = conditions.after(ALWAYS, TESTS[0], False)
    arms = [conditions.after(before, TESTS[1], side) for side in (True, False)]

    assert conditions.either(*arms) is before
    assert conditions.choose([(arms[0], 1), (arms[1], 2)], lambda test, one, other: (test, one, other)) == (
        "second",
        1,
        2,
    )


def test_a_test_that_is_met_behind_a_later_one_counts_as_another():
    """Whatever guards it comes first: ``b != 0 and a // b`` is not evaluated the other way round."""
    conditions = fresh()
    behind = conditions.after(ALWAYS, TESTS[2], True)

    found = conditions.after(behind, TESTS[0], True)

    assert found.test == 2
    assert conditions.tests[-1] == TESTS[0]
    assert len(conditions.tests) == len(TESTS) + 1
