"""``sum``, ``min`` and ``max`` of tuples and numbers take a short way; it gives what the general one gives."""

from collections import namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.api.functions import ExtremeField, ExtremeRecord, SumField, get_field, with_field

Named = namedtuple("Named", "a b")
NUMBERS = st.integers(-3, 3) | st.sampled_from([0.5, -2.0])


def outcome(call):
    try:
        found = call()
        return repr(found), type(found)
    except Exception as error:  # noqa: BLE001 - whatever it is
        return type(error), str(error)


def summed(a, b, position):
    return with_field(a, position, get_field(a, position) + get_field(b, position))


@given(
    st.one_of(*[st.tuples(each, each) for each in (st.tuples(NUMBERS, NUMBERS), NUMBERS, st.builds(Named, NUMBERS, NUMBERS))]),
    st.sampled_from([0, 1]),
)  # fmt: skip
def test_a_sum_is_the_general_one(pair, position):
    a, b = pair
    assert outcome(lambda: SumField(position)(a, b)) == outcome(lambda: summed(a, b, position))


@pytest.mark.parametrize(
    ("record", "other"),
    [((1, 2), (3, 4)), (1, 2), (1, 2.5), ([1, 2], [3, 4]), (Named(1, 2), Named(3, 4)), ((1, 2), [3, 4]), (True, 2)],
)
def test_kinds_of_records(record, other):
    assert outcome(lambda: SumField(0)(record, other)) == outcome(lambda: summed(record, other, 0))


def test_what_is_added_up_stays_as_it_is():
    first = ("a", [1])
    assert SumField(1)(first, ("a", [2])) == ("a", [1, 2])
    assert first == ("a", [1])


def test_a_field_that_is_not_there_is_refused():
    with pytest.raises(IndexError):
        SumField(2)((1, 2), (3, 4))
    with pytest.raises(TypeError, match="the field position must be 0 on a basic type"):
        SumField(1)(1, 2)


def test_extremes_of_tuples_and_numbers():
    assert ExtremeField(1, largest=True)(("a", 1), ("b", 2)) == ("a", 2)
    assert ExtremeRecord(1, largest=True)(("a", 1), ("b", 2)) == ("b", 2)
    assert ExtremeField(0, largest=False)(3, 2) == 2
