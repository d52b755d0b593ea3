import pytest

from funken.errors import InvalidProgram
from funken.windowing.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor, TimestampedValue


def elements(*pairs):
    return [TimestampedValue(value, at) for value, at in pairs]


def values(kept):
    return [element.value for element in kept]


def before(evictor, given):
    return values(evictor.evict_before(given, len(given), None, None))


def after(evictor, given):
    return values(evictor.evict_after(given, len(given), None, None))


GIVEN = elements((1, 10), (5, 30), (2, 25), (4, 40))


def test_s50_count_keeps_the_last_ones_before_or_after_the_function():
    assert before(CountEvictor.of(2), GIVEN) == [2, 4]
    assert after(CountEvictor.of(2), GIVEN) == [1, 5, 2, 4]
    assert before(CountEvictor.of(2, True), GIVEN) == [1, 5, 2, 4]
    assert after(CountEvictor.of(2, True), GIVEN) == [2, 4]
    assert before(CountEvictor.of(9), GIVEN) == [1, 5, 2, 4]
    assert before(CountEvictor.of(0), GIVEN) == []


def test_s50_delta_keeps_what_is_near_the_newest():
    distance = lambda element, newest: abs(element - newest)  # noqa: E731 - it is a value here
    assert before(DeltaEvictor.of(2, distance), GIVEN) == [5, 4]
    assert after(DeltaEvictor.of(2, distance, do_evict_after=True), GIVEN) == [5, 4]
    assert before(DeltaEvictor.of(2, distance), []) == []


def test_s50_time_keeps_what_is_recent_compared_to_the_largest_timestamp():
    assert before(TimeEvictor.of(15), GIVEN) == [5, 4]
    without = elements((1, -(2**63)), (2, -(2**63)))
    assert before(TimeEvictor.of(15), without) == [1, 2]
    assert before(TimeEvictor.of(15), []) == []


def test_an_evictor_of_ones_own_evicts_nothing_unless_it_says_so():
    evictor = Evictor()
    assert evictor.evict_before(GIVEN, 4, None, None) is None
    assert evictor.evict_after(GIVEN, 4, None, None) is None


def test_a_negative_count_is_refused():
    with pytest.raises(InvalidProgram):
        CountEvictor.of(-1)
