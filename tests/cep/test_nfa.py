"""The state of one key: what it costs, when it changes, and that it is bound to its pattern."""

import pickle
from collections import Counter

import pytest

from funken.cep import Pattern, WithinType, matches_of
from funken.cep.nfa import NEVER, Nfa, NfaState, Partial, compile_pattern
from funken.cep.pattern import Event, Node
from funken.errors import CheckpointIncompatible

PATTERN = Pattern.begin("a").where(lambda e: e[0] == "a").followed_by("b").where(lambda e: e[0] == "b")


def nfa_of(pattern: Pattern) -> Nfa:
    return Nfa(compile_pattern(pattern))


def after(nfa, events):
    state = nfa.initial
    for index, event in enumerate(events):
        state, _ = nfa.process(state, event, index, 0)
    return state


def test_an_event_that_changes_nothing_leaves_the_same_object():
    nfa = nfa_of(PATTERN)
    assert nfa.process(nfa.initial, "x", 0, 0) == (nfa.initial, [])
    state = after(nfa, ["a"])
    assert nfa.process(state, "x", 1, 0)[0] is state
    assert nfa.process(state, "b", 2, 0) == (nfa.initial, [{"a": ["a"], "b": ["b"]}])


def test_matches_share_their_beginning_in_memory_and_in_a_checkpoint():
    nfa = nfa_of(Pattern.begin("n").one_or_more().allow_combinations().next("end").where(lambda e: e == "end"))
    state = after(nfa, ["x" * 1000] * 10)
    assert len(state.partials) > 1000
    assert len(pickle.dumps(state)) < 60 * len(state.partials)


def test_a_long_match_is_pickled_without_recursion():
    nfa, tail = nfa_of(PATTERN), None
    for position in range(5000):
        tail = Node(tail, "a", Event(position, position, "a"))
    restored = pickle.loads(pickle.dumps(NfaState(nfa.shape, 5000, (Partial(1, tail, Event(0, 0, "a")),), ())))
    assert len(restored.partials[0].tail.path()) == 5000
    assert restored.partials[0].first is restored.partials[0].tail.path()[0].event


def test_the_state_of_another_pattern_is_refused():
    state = after(nfa_of(PATTERN), ["a"])
    with pytest.raises(CheckpointIncompatible, match="written by another pattern"):
        nfa_of(PATTERN.next("c")).process(state, "b", 1, 0)


def test_the_next_deadline_is_that_of_either_window():
    both = nfa_of(PATTERN.within(3, WithinType.PREVIOUS_AND_CURRENT).within(10))
    assert both.deadline(both.initial) == NEVER
    assert both.deadline(after(both, ["x", "a"])) == 4
    assert nfa_of(PATTERN.within(10)).deadline(after(nfa_of(PATTERN.within(10)), ["a"])) == 10


def test_every_length_of_a_loop_before_a_terminal_not_is_a_match():
    pattern = Pattern.begin("a").where(lambda e: e == "a").one_or_more().not_followed_by("b").where(lambda e: e == "b")
    found = matches_of(pattern.within(10), "aax")
    assert sorted(len(match["a"]) for match in found) == [1, 1, 2]
    assert matches_of(pattern.within(10), "aab") == []


def test_a_repeated_group_is_emitted_once_after_a_foreign_event():
    group = Pattern.begin("a").where(lambda e: e == "a").followed_by("b").where(lambda e: e == "b")
    pattern = Pattern.begin("c").where(lambda e: e == "c").followed_by(group).one_or_more().followed_by("d")
    assert len(matches_of(pattern.where(lambda e: e == "d"), "cabxd")) == 1


def test_a_greedy_pattern_at_the_end_of_a_repeated_group_lets_another_round_begin():
    group = Pattern.begin("a").where(lambda e: e == "a").next("b").where(lambda e: e == "b").one_or_more().greedy()
    pattern = Pattern.begin(group).one_or_more().consecutive().next("end").where(lambda e: e == "e")
    assert {"a": ["a", "a"], "b": ["b", "b", "b"], "end": ["e"]} in matches_of(pattern, "abbabe")


def test_a_not_next_before_the_end_needs_an_event_also_where_a_window_ends():
    pattern = Pattern.begin("a").where(lambda e: e == "a").not_next("b").where(lambda e: e == "b")
    pattern = pattern.not_followed_by("c").where(lambda e: e == "c").within(5)
    assert matches_of(pattern, "a") == []
    assert matches_of(pattern, "ax") == [{"a": ["a"]}]


def test_an_event_that_ends_the_loop_of_a_group_is_not_forbidden_in_it():
    group = Pattern.begin("a").where(lambda e: e == "a").not_next("b").where(lambda e: e in "bu")
    pattern = Pattern.begin(group).one_or_more().consecutive().until(lambda e: e == "u").followed_by("end")
    pattern = pattern.where(lambda e: e == "u")
    assert matches_of(pattern, "au") == [{"a": ["a"], "end": ["u"]}]
    assert matches_of(pattern, "ab") == []


def test_an_upper_bound_of_a_greedy_quantifier():
    pattern = Pattern.begin("a").where(lambda e: e[0] == "a").times(2, 3).greedy()
    pattern = pattern.followed_by("b").where(lambda e: e == "b")
    found = matches_of(pattern, ["a1", "a2", "a3", "a4", "b"])
    assert [match["a"] for match in found] == [["a2", "a3", "a4"], ["a3", "a4"]]


def test_an_optional_head_of_a_repeated_group_terminates():
    pattern = Pattern.begin(Pattern.begin("a").where(lambda e: e == "a").optional()).one_or_more().next("b")
    assert matches_of(pattern.where(lambda e: e == "b"), "ab") == [{"a": ["a"], "b": ["b"]}, {"b": ["b"]}]


@pytest.mark.parametrize("quantifier", [lambda p: p.one_or_more(), lambda p: p.times(1, 3), lambda p: p.times(3)])
def test_a_not_behind_a_loop_is_in_force_in_all_its_states(quantifier):
    pattern = quantifier(Pattern.begin("a").where(lambda e: e == "a").followed_by("b").where(lambda e: e == "b"))
    pattern = pattern.not_followed_by("c").where(lambda e: e == "c").followed_by("d").where(lambda e: e == "d")
    assert matches_of(pattern, "abxcbbd") == []
    assert matches_of(pattern, "abxbbd")


def test_the_duration_of_a_quantifier_bounds_the_wait_for_what_it_needs():
    def found(pattern, *timestamps):
        return [match["a"] for match in matches_of(pattern, timestamps, timestamps)]

    first = Pattern.begin("s").where(lambda n: n == 0).next("a")
    assert found(first.times(3, within=5), 0, 4, 8, 12) == [[4, 8, 12]]
    assert found(first.times(3, within=5), 0, 4, 8, 13) == []
    assert found(first.times(3, within=5), 0, 5, 8, 12) == []
    assert found(first.times(1, 2, within=5), 0, 4, 50) == [[4], [4, 50]]


def test_a_window_counts_from_the_event_before_where_a_loop_was_left():
    pattern = Pattern.begin("a").where(lambda e: e == "a").one_or_more().consecutive().followed_by("b")
    nfa = nfa_of(pattern.where(lambda e: e == "b").within(10, WithinType.PREVIOUS_AND_CURRENT))
    state, _ = nfa.process(nfa.initial, "a", 1, 0)
    assert nfa.deadline(state) == NEVER
    state, _ = nfa.process(state, "x", 50, 0)
    assert nfa.advance(state, 50) == (nfa.initial, [], [({"a": ["a"]}, 11)])


def test_a_condition_is_evaluated_once_per_event_and_only_where_a_match_waits_for_it():
    asked = []

    def is_letter(letter):
        return lambda event: asked.append((letter, event)) or event == letter

    pattern = Pattern.begin("a").where(is_letter("a")).followed_by("b").where(is_letter("b"))
    matches_of(pattern, "xaax")
    assert Counter(asked) == {("a", "x"): 2, ("a", "a"): 2, ("b", "a"): 1, ("b", "x"): 1}


def test_an_iterative_condition_is_evaluated_once_per_event_and_partial_match():
    asked = []
    pattern = Pattern.begin("a").where(lambda e: e == "a").one_or_more().followed_by("b")
    matches_of(pattern.where(lambda event, ctx: bool(asked.append(event))), "aax")
    assert Counter(asked) == {"a": 1, "x": 3}  # of a1; of a1, a1 a2 and a2
