import pickle
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from funken.windowing.windows import CountWindow, GlobalWindow, TimeWindow

moment = st.integers(-(10**6), 10**6)


def test_s27_a_window_is_half_open_and_starts_at_a_multiple_even_before_the_epoch():
    start = TimeWindow.get_window_start_with_offset
    assert (start(-1, 0, 5), start(-6, 2, 5), start(4, 0, 5), start(5, 0, 5)) == (-5, -8, 0, 5)
    assert TimeWindow(0, 5).max_timestamp() == 4


@given(moment, st.integers(1, 1000), st.integers(-999, 999))
def test_s27_the_start_is_the_last_aligned_moment_at_or_before_the_timestamp(timestamp, size, offset):
    offset %= size
    start = TimeWindow.get_window_start_with_offset(timestamp, offset, size)
    assert start <= timestamp < start + size
    assert (start - offset) % size == 0


def test_windows_are_values():
    assert TimeWindow(1, 2) == TimeWindow(1, 2) != TimeWindow(1, 3)
    assert len({TimeWindow(1, 2), TimeWindow(1, 2), CountWindow(1)}) == 2
    assert sorted([TimeWindow(2, 3), TimeWindow(0, 9)])[0].start == 0
    assert repr(TimeWindow(1, 2)) == "TimeWindow(start=1, end=2)"


def test_windows_survive_pickling():
    for window in (TimeWindow(1, 2), CountWindow(4), GlobalWindow.get()):
        again = pickle.loads(pickle.dumps(window))
        assert again == window
        assert type(again) is type(window)
    assert pickle.loads(pickle.dumps(GlobalWindow.get())) is GlobalWindow.get()


def test_windows_without_end_end_with_time():
    assert CountWindow(0).max_timestamp() == GlobalWindow.get().max_timestamp() == 2**63 - 1


def test_s37_windows_that_touch_intersect():
    assert TimeWindow(0, 5).intersects(TimeWindow(5, 10))
    assert not TimeWindow(0, 5).intersects(TimeWindow(6, 10))
    assert TimeWindow(0, 5).cover(TimeWindow(3, 9)) == TimeWindow(0, 9)


class Merges(dict):
    def merge(self, windows, result):
        self[result] = list(windows)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 8)), max_size=15))
def test_merging_gives_the_connected_pieces(bounds):
    windows = [TimeWindow(start, start + length) for start, length in bounds]
    merges = Merges()
    TimeWindow.merge_windows(windows, merges)
    covered = {half for w in windows for half in range(2 * w.start, 2 * w.end + 1)}
    alone = set(windows) - {w for group in merges.values() for w in group}
    pieces = sorted([*merges, *alone])
    assert {half for w in pieces for half in range(2 * w.start, 2 * w.end + 1)} == covered
    assert all(left.end < right.start for left, right in pairwise(pieces))
    assert all(len(group) > 1 for group in merges.values())
