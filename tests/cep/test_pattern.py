"""What a pattern refuses, and when."""

import pickle
import warnings
from datetime import timedelta

import cloudpickle
import pytest

from funken import OutputTag
from funken.cep import (
    CEP,
    AfterMatchSkipStrategy,
    IterativeCondition,
    Pattern,
    PatternProcessFunction,
    SimpleCondition,
    WithinType,
    matches_of,
)
from funken.cep.nfa import compile_pattern
from funken.errors import FunkenError, InvalidProgram, MalformedPattern
from funken.testing import local

A = Pattern.begin("a")
GROUP = Pattern.begin(Pattern.begin("x").next("y"))
GAP = WithinType.PREVIOUS_AND_CURRENT

CONTRADICTIONS = {
    "two loops": (lambda: A.one_or_more().one_or_more(), "Already applied quantifier"),
    "times and a loop": (lambda: A.times(1).one_or_more(), "Already applied quantifier"),
    "a quantifier on NOT": (lambda: A.not_next("b").times(2), "not applicable to a NOT pattern"),
    "greedy NOT": (lambda: A.not_followed_by("b").greedy(), "not applicable to a NOT pattern"),
    "optional NOT": (lambda: A.not_next("b").optional(), "a NOT pattern cannot be optional"),
    "optional before not_next": (lambda: A.optional().not_next("b"), "optional pattern cannot be followed by"),
    "optional before not_followed_by": (
        lambda: A.one_or_more().optional().not_followed_by("b"),
        "optional pattern cannot be followed by",
    ),
    "optional after greedy": (lambda: A.one_or_more().greedy().next("b").optional(), "preceded by a greedy pattern"),
    "from zero after greedy": (lambda: A.times(2).greedy().next("b").times(0, 2), "preceded by a greedy pattern"),
    "optional twice": (lambda: A.optional().optional(), "optional\\(\\) was applied before"),
    "a greedy group": (lambda: GROUP.one_or_more().greedy(), "not applicable to a group"),
    "a greedy singleton": (A.greedy, "greedy\\(\\) needs a quantifier"),
    "greedy combinations": (lambda: A.one_or_more().allow_combinations().greedy(), "contradicts"),
    "combinations of a greedy loop": (lambda: A.one_or_more().greedy().allow_combinations(), "contradicts"),
    "consecutive combinations": (lambda: A.times(2).allow_combinations().consecutive(), "either combinations or"),
    "consecutive twice": (lambda: A.times(2).consecutive().consecutive(), "either combinations or"),
    "a consecutive singleton": (A.consecutive, "not applicable without a quantifier"),
    "combinations of a singleton": (A.allow_combinations, "not applicable without a quantifier"),
    "until twice": (lambda: A.one_or_more().until(bool).until(bool), "only one until"),
    "until of a singleton": (lambda: A.until(bool), "only applicable to looping states"),
    "until of times": (lambda: A.times(3).until(bool), "only applicable to looping states"),
    "a condition of a group": (lambda: GROUP.where(bool), "a group has no where"),
    "a bound between rounds": (lambda: GROUP.times(2, within=5), "rounds of a group cannot be bounded"),
    "a gap of a group": (lambda: GROUP.within(5, GAP), "not applicable to a group"),
    "a group that ends with NOT": (lambda: A.next(Pattern.begin("x").not_followed_by("y")), "Put it behind the group"),
    "a name twice": (lambda: A.next("a"), "Duplicate pattern name: a. Names must be unique."),
    "a name in a group": (lambda: A.next(Pattern.begin("b").next("a")), "Duplicate pattern name: a."),
}
CONTRADICTIONS_OF_THE_WHOLE = {
    "a terminal NOT without a window": (A.not_followed_by("b"), "NotFollowedBy is not supported without windowTime"),
    "a gap longer than the window": (A.next("b").within(5, GAP).within(4), "cannot be larger than"),
    "an inner bound longer than the window": (A.times(2, within=5).within(4), "cannot be larger than"),
    "an unknown name to skip to": (
        Pattern.begin("a", AfterMatchSkipStrategy.skip_to_last("b")),
        "specified in AfterMatchSkipStrategy can not be found",
    ),
    "a name in a group to skip to": (
        Pattern.begin(Pattern.begin("x").next("y"), AfterMatchSkipStrategy.skip_to_first("y")),
        "specified in AfterMatchSkipStrategy can not be found",
    ),
}
BAD_ARGUMENTS = {
    "no times": lambda: A.times(0),
    "negative times": lambda: A.times(-1),
    "from below zero": lambda: A.times(-1, 2),
    "from above to": lambda: A.times(3, 2),
    "no times or more": lambda: A.times_or_more(0),
    "a colon": lambda: A.next("b:c"),
    "no name": lambda: A.next(""),
    "a forbidden group": lambda: A.not_next(Pattern.begin("b")),
    "a negative window": lambda: A.within(-1),
    "a window of no unit": lambda: A.within("5 parsecs"),
    "a window of a list": lambda: A.one_or_more([5]),
    "a condition that is none": lambda: A.where(True),
    "a condition of three": lambda: A.where(lambda a, b, c: True),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_contradiction_is_refused_where_it_is_made(name):
    make, message = CONTRADICTIONS[name]
    with pytest.raises(MalformedPattern, match=message):
        make()


@pytest.mark.parametrize("name", CONTRADICTIONS_OF_THE_WHOLE)
def test_a_contradiction_of_the_whole_is_refused_when_it_is_compiled(name):
    pattern, message = CONTRADICTIONS_OF_THE_WHOLE[name]
    with pytest.raises(MalformedPattern, match=message):
        compile_pattern(pattern)


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_a_bad_argument_is_refused(name):
    with pytest.raises(InvalidProgram) as caught:
        BAD_ARGUMENTS[name]()
    assert not isinstance(caught.value, MalformedPattern)


def test_the_smallest_window_counts_and_zero_is_none():
    assert A.within(10).next("b").within(timedelta(milliseconds=20)).window == 10
    assert A.within(0).next("b").within(20).window == 20
    assert A.within(0).next("b").window == 0


def test_a_pattern_is_immutable():
    base = A.where(lambda n: n == 1)
    assert matches_of(base.times(2), [1, 1]) == [{"a": [1, 1]}]
    assert matches_of(base, [1, 1]) == [{"a": [1]}, {"a": [1]}]


def test_conditions_are_anded_and_ored_in_their_order():
    pattern = A.where(lambda n: n > 2).where(SimpleCondition.of(lambda n: n < 5)).or_(lambda n: n == 9)
    assert [match["a"] for match in matches_of(pattern, [1, 3, 6, 9])] == [[3], [9]]
    assert [match["a"] for match in matches_of(A.or_(lambda n: n == 9), [1, 9])] == [[9]]
    assert [match["a"] for match in matches_of(A.subtype(int).where(lambda n: n > 1), ["x", 1, 2])] == [[2]]


def test_keys_are_in_the_order_of_the_pattern_and_absent_where_nothing_was_taken():
    pattern = A.where(lambda e: e == "a").next("c").where(lambda e: e == "c").optional().next("b")
    found = matches_of(pattern, "acb")
    assert [list(match) for match in found] == [["a", "b"], ["a", "c", "b"]]


def test_a_simple_condition_is_evaluated_once_per_event():
    calls = []
    pattern = A.followed_by_any("b").where(lambda event: calls.append(event) or event == "x").followed_by("c")
    matches_of(pattern, "aaaa")
    assert calls == ["a", "a", "a"]


def test_a_failing_condition_keeps_its_exception_and_names_the_event():
    with pytest.raises(ZeroDivisionError) as caught:
        matches_of(A.where(lambda n: 1 / n), [0])
    assert caught.value.__notes__ == ["A condition of a pattern failed at the event 0."]


def test_a_strict_skip_target_fails_the_match():
    skip = AfterMatchSkipStrategy.skip_to_first("b").throw_exception_on_miss()
    pattern = Pattern.begin("a", skip).next("b").where(lambda n: n == 2).optional().next("c").where(lambda n: n == 3)
    with pytest.raises(FunkenError, match="no event of this pattern"):
        matches_of(pattern, [1, 3])


def test_what_may_grow_without_bound_is_known():
    assert A.one_or_more().unbounded() == ["a"]
    assert A.one_or_more().until(bool).unbounded() == A.one_or_more().within(5).unbounded() == []


class Low(SimpleCondition):
    def __init__(self, most=5):
        self.most = most

    def filter(self, event):
        return event < self.most


class Plain:
    def filter(self, event):
        return event < 5


class PlainIterative:
    def filter(self, event, ctx):
        return event < 5 and not ctx.get_events_for_pattern("a")


@pytest.mark.parametrize(
    "condition", [Low(), Plain(), PlainIterative(), SimpleCondition.of(lambda n: n < 5), Plain().filter]
)
def test_an_object_with_a_method_filter_is_a_condition(condition):
    assert matches_of(Pattern.begin("a").where(condition), [7, 3]) == [{"a": [3]}]
    assert pickle.loads(cloudpickle.dumps(Low(4))).filter(3)


class Two(SimpleCondition):
    def filter(self, event, ctx):
        return True


class Nothing(SimpleCondition):
    pass


@pytest.mark.parametrize(
    ("condition", "fact"),
    [
        (Low, "is the class Low, not an object of it"), (Plain, "is the class Plain, not an object of it"),
        (SimpleCondition, "is the class SimpleCondition"), (IterativeCondition, "is the class IterativeCondition"),
        (Two(), "takes more than the event. Derive from IterativeCondition"),
        (Nothing(), "has no function, and no method filter"),
        (SimpleCondition.of(lambda event, ctx: True), "takes more than the event"), (3, "a condition is a function of the event"),
        (None, "a condition is a function of the event"),
    ],
)  # fmt: skip
def test_a_condition_that_is_none_is_refused_with_its_pattern(condition, fact):
    with pytest.raises(InvalidProgram, match="pattern 'a'") as caught:
        Pattern.begin("a").where(condition)
    assert fact in str(caught.value)


def test_durations_are_what_they_are_everywhere():
    from_texts = Pattern.begin("a").one_or_more("1 s").next("b").within("10 s")

    assert (from_texts.window, from_texts.parts[0].inner_window) == (10_000, 1000)
    assert Pattern.begin("a").times(2, within=timedelta(seconds=1)).within(10.5).window == 10


WRONG_KINDS = {
    "times of a text": (lambda: A.times("2"), r"times\(\) needs an int, but got '2'"),
    "times or more of a text": (lambda: A.times_or_more("2"), r"times_or_more\(\) needs an int"),
    "a text as skip strategy": (lambda: Pattern.begin("a", "skip_to_next"), "needs an AfterMatchSkipStrategy"),
    "events before their pattern": (lambda: matches_of([1], A), "Give the pattern, then the events"),
}


@pytest.mark.parametrize("name", WRONG_KINDS)
def test_an_argument_of_another_kind_is_refused(name):
    make, message = WRONG_KINDS[name]
    with pytest.raises(TypeError, match=message):
        make()


def test_a_condition_that_asks_for_a_name_that_is_not_there_is_told_once():
    pattern = A.next("b").where(lambda n, ctx: n > len(ctx.get_events_for_pattern("A")))

    with pytest.warns(UserWarning, match=r"get_events_for_pattern\('A'\) never .* There are 'a', 'b'") as said:
        assert matches_of(pattern, [1, 2, 3]) == [{"a": [1], "b": [2]}, {"a": [2], "b": [3]}]
    assert len(said) == 1


def test_a_dropped_pattern_is_said_once():
    base = Pattern.begin("a")
    with pytest.warns(UserWarning, match="pattern 'b': this pattern goes nowhere") as said:
        base.next("b").where(lambda n: n > 1)
    kept = base.next("c")
    kept = kept.within(5)

    assert [warning.filename for warning in said] == [__file__]
    assert matches_of(kept, [1, 2]) == [{"a": [1], "c": [2]}]


def test_time_outs_without_a_window_are_said():
    tag = OutputTag("open")
    for pattern, count in ((A.next("b"), 1), (A.next("b").within("5 s"), 0), (A.next("b").within(5, GAP), 0)):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            CEP.pattern(local([1]), pattern).select(tag, lambda match, at: match, lambda match: match)
        assert [("has no within()" in str(each.message)) for each in said] == [True] * count


def test_a_list_is_no_stream():
    with pytest.raises(InvalidProgram, match="needs a stream, then a Pattern"):
        CEP.pattern([1, 2], A)
    with pytest.raises(InvalidProgram, match=r"Give an object: PatternProcessFunction\(\)"):
        CEP.pattern(local([1]), A).process(PatternProcessFunction)
