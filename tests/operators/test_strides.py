"""How often an operator looks at the clock: often enough for slow records, seldom for fast ones."""

from hypothesis import given
from hypothesis import strategies as st

from funken.operators.user_functions import FEW, MANY, Stride, TaskTime
from funken.timing.clock import ManualClock


def test_strides_double_while_records_are_fast():
    stride = Stride()
    for _ in range(30):
        stride.took(stride.records, 0, FEW)
    assert stride.records == FEW

    for _ in range(30):
        stride.took(stride.records, 0, MANY)
    assert stride.records == MANY
    stride.took(5, 0, FEW)  # somebody waits from now on
    assert stride.records == FEW


def test_a_short_block_says_nothing_of_longer_strides():
    stride = Stride()
    stride.took(1, 0, MANY)
    stride.took(1, 0, MANY)
    assert stride.records == 2


@given(st.lists(st.integers(0, 100), max_size=20), st.integers(1, 1000))
def test_a_stride_takes_a_millisecond_or_one_record_once_the_pace_is_known(before, cost):
    stride = Stride()
    for millis in before:
        stride.took(stride.records, millis, MANY)
    for _ in range(3):
        stride.took(stride.records, stride.records * cost, MANY)

    assert stride.records * cost <= max(2, cost)


def test_lifetimes_go_by_what_was_read_last():
    clock = ManualClock(1000)
    time = TaskTime(clock)
    clock.advance(5)

    assert (time.latest, time.read(), time.latest) == (1000, 1005, 1005)
